#!/usr/bin/env python3
"""deploy/tune-nic against made-up cards (fake_nic.py): what it does, in which order, what it says when a step is refused,
and that --restore brings everything back however it ended."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, "deploy/nic"), HERE]

import fake_nic  # noqa: E402
import journal as journals  # noqa: E402
import main as tool  # noqa: E402
import plan as plans  # noqa: E402
import steps  # noqa: E402
import system as systems  # noqa: E402
import texts  # noqa: E402


class FakeSystem(systems.System):
    """Programs are answered in this process; files lie in the made-up machine's folder."""

    def __init__(self, folder, root=True):
        self.root = folder
        self.superuser = root

    def is_root(self):
        return self.superuser

    def cpus_allowed(self):
        return list(range(fake_nic.Machine(self.root).state["cpus"]))

    def run(self, words):
        status, out, err = fake_nic.Machine(self.root).run(words)
        if status != 0:
            raise systems.Refusal(" ".join((err or out).split()))
        return out

    def write(self, path, text):
        status, _, err = fake_nic.Machine(self.root).write(path, text)
        if status != 0:
            raise systems.Refusal(f"{path}: {err.strip()}")


class Lab(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="tune", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.addCleanup(shutil.rmtree, self.folder)

    def card(self, driver="mlx5", **changes):
        self.machine = fake_nic.make(self.folder, driver, **changes)
        self.before = self.machine.settings()

    def now(self):
        return fake_nic.Machine(self.folder)

    def alter(self, **changes):
        machine = self.now()
        machine.state.update(changes)
        machine.save()

    def tune(self, *arguments, root=True):
        """(exit code, standard output, standard error)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = tool.main(["eth1", *arguments], FakeSystem(self.folder, root))
            except SystemExit as end:
                code = end.code
        return code, out.getvalue(), err.getvalue()

    def steps_of(self, *arguments):
        code, out, _ = self.tune("--json", *arguments)
        return code, {step["name"]: step for step in json.loads(out)["steps"]}

    def killed(self, *arguments):
        """Runs the tool in a process of its own; whether it was killed."""
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            with open(os.devnull, "w", encoding="utf-8") as null:
                os.dup2(null.fileno(), 1)
                os.dup2(null.fileno(), 2)
            os._exit(tool.main(["eth1", *arguments], FakeSystem(self.folder)))
        _, status = os.waitpid(child, 0)
        self.assertIn(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0, (0, signal.SIGKILL))
        return os.WIFSIGNALED(status)

    def assert_as_before(self):
        self.assertEqual(self.now().settings(), self.before)
        self.assertFalse(os.path.exists(f"{self.folder}/run/millrace-nic"))

    def assert_restores(self):
        self.alter(refuse=[], ignore=[], kill=None)
        code, out, err = self.tune("--restore")
        self.assertEqual((code, err), (0, ""), out)
        self.assert_as_before()


MLX5_COMMANDS = """
ethtool --set-priv-flags eth1 rx_cqe_compress off
ethtool -K eth1 lro off rx-gro-hw on
ethtool -K eth1 ntuple on
ethtool -G eth1 rx 2048
ethtool -G eth1 tcp-data-split on
ethtool -X eth1 equal 13
ethtool -N eth1 flow-type tcp4 dst-port 16384 m 0xff action 13
ethtool -N eth1 flow-type tcp4 dst-port 16640 m 0xff action 14
ethtool -N eth1 flow-type tcp4 dst-port 16896 m 0xff action 15
write /proc/irq/113/smp_affinity_list 8
write /proc/irq/114/smp_affinity_list 9
write /proc/irq/115/smp_affinity_list 10
tc qdisc replace dev eth1 root handle 1: mq
""".strip().splitlines() + [f"tc qdisc replace dev eth1 parent 1:{queue + 1:x} fq" for queue in range(16)] + [
    "write /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages 96"]


class Applying(Lab):
    def test_mlx5_step_by_step(self):
        self.card()
        code, out, err = self.tune("--apply", "--workers", "3")
        self.assertEqual((code, err), (0, ""), out)
        self.assertEqual(self.now().state["calls"], MLX5_COMMANDS)
        self.assertIn("then: millraced node --workers 3 --pin --nic eth1 --rx-queues 13-15 ...", out)
        self.assertEqual(stat.S_IMODE(os.stat(f"{self.folder}/run/millrace-nic").st_mode), 0o700)
        self.assert_restores()

    def test_a_second_time_changes_nothing(self):
        for driver in ("mlx5", "bnxt", "gve"):
            with self.subTest(driver):
                self.card(driver)
                code, found = self.steps_of("--apply")
                self.assertEqual((code, [step for step in found.values() if step["state"] == "refused"]), (0, []))
                first = self.now().state
                code, found = self.steps_of("--apply")
                self.assertEqual(code, 0)
                self.assertLessEqual({step["state"] for step in found.values()}, {"already", "not needed"})
                self.assertEqual(self.now().state, first)
                self.assert_restores()

    def test_a_dry_run_prints_what_apply_then_does(self):
        self.card(mtu=9000)
        code, out, _ = self.tune("--workers", "3", root=False)
        self.assertEqual(code, 0)
        self.assertEqual(self.now().state["calls"], [])
        self.assert_as_before()
        said = [re.sub(r"^echo (\S+) >(\S+)$", r"write \2 \1", line) for line in out.splitlines() if line[0] != "#"]
        self.assertEqual(said, MLX5_COMMANDS)
        self.assertEqual(self.tune("--workers", "3", "--dry-run")[1], out)

    def test_more_queues_where_there_are_too_few(self):
        self.card("bnxt", families=["inet", "inet6"])
        code, out, _ = self.tune("--apply", "--workers", "8")
        self.assertEqual(code, 0)
        calls = self.now().state["calls"]
        self.assertEqual(calls[0], "ethtool -L eth1 combined 16")
        self.assertIn("ethtool -X eth1 equal 8", calls)
        self.assertIn("ethtool -G eth1 hds-thresh 0", calls)
        self.assertIn("ethtool -N eth1 flow-type tcp6 dst-port 18176 m 0xff action 15", calls)
        self.assertLess(calls.index("ethtool -G eth1 tcp-data-split on"), calls.index("ethtool -G eth1 hds-thresh 0"))
        self.assertIn("--rx-queues 8-15", out)
        self.assert_restores()

    def test_gve_has_receive_queues_of_their_own(self):
        self.card("gve")
        code, _, _ = self.tune("--apply", "--workers", "8")
        self.assertEqual(code, 0)
        self.assertEqual(self.now().state["calls"][0], "ethtool -L eth1 rx 16")
        self.assertNotIn("rx-gro-hw", " ".join(self.now().state["calls"]))
        self.assert_restores()

    def test_workers_are_those_of_the_cards_memory_node(self):
        self.card()
        self.assertIn("--workers 8 --pin --nic eth1 --rx-queues 8-15", self.tune()[1])
        self.assertIn("too few cores for 9 workers", self.tune("--workers", "9")[1])
        code, found = self.steps_of("--workers", "15", "--dry-run")
        self.assertEqual((code, found["interrupts"]["state"]), (0, "would"))
        self.card(cpus=4)
        code, found = self.steps_of("--workers", "15", "--apply")
        self.assertEqual((code, found["interrupts"]["state"]), (0, "refused"))
        self.assertIn("fewer cores than the 15 workers", found["interrupts"]["text"])
        self.assert_restores()

    def test_ports_area_and_mtu(self):
        self.card()
        code, out, _ = self.tune("--apply", "--workers", "2", "--ports", "32768", "--zc-area", "1073741824", "--mtu", "9000")
        self.assertEqual(code, 0)
        self.assertIn("--ports 32768 --zc-area 1073741824", out)
        state = self.now().state
        self.assertEqual((state["mtu"], state["pages"]), (9000, [0, 1024]))
        self.assertIn(["tcp4", 33024, "0xff", 15], list(state["rules"].values()))
        self.assert_restores()

    def test_other_options_want_restoring_first(self):
        self.card()
        self.tune("--apply", "--workers", "2")
        for words in (["--workers", "3"], ["--ports", "32768"], ["--mtu", "9000"]):
            code, _, err = self.tune("--apply", *words)
            self.assertEqual(code, 1)
            self.assertIn("was prepared for 2 workers", err)
        self.assertEqual(self.tune("--apply")[0], 0)
        self.assert_restores()

    def test_what_was_before_comes_back(self):
        self.card(table=[place // 8 for place in range(128)], affinity={"13": "3", "0": "1"}, pages=[7, 5], ring=4096,
                  rules={"5": ["tcp4", 22, "0x0", 3], "900": ["tcp4", 16384, "0xff", 13]}, ntuple="on")
        self.assertEqual(self.tune("--apply", "--workers", "3")[0], 0)
        state = self.now().state
        self.assertEqual((state["ring"], state["pages"], len(state["rules"])), (4096, [7, 5 + 91], 4))
        self.assert_restores()

    def test_a_qdisc_of_somebody_is_left_alone(self):
        self.card(qdisc="8001:", leaves={})
        code, found = self.steps_of("--apply", "--workers", "3")
        self.assertEqual((code, found["qdisc"]["state"]), (0, "already"))
        self.assert_restores()

    def test_rules_that_others_made_meanwhile_stay(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        self.alter(rules=dict(self.now().state["rules"], **{"7": ["tcp4", 22, "0x0", 1]}))
        self.assertEqual(self.tune("--restore")[0], 0)
        self.assertEqual(self.now().state["rules"], {"7": ["tcp4", 22, "0x0", 1]})


# What is refused, whether zero-copy receive then fails, and steps that are skipped.
REFUSED = (
    ("flags", r"--set-priv-flags", True, {"aggregation"}),  # HW-GRO then is refused, too
    ("aggregation", r"-K eth1 lro", True, {"split", "threshold", "spread", "rules"}),
    ("steering", r"-K eth1 ntuple", True, {"spread", "rules"}),
    ("ring", r"-G eth1 rx ", False, set()),
    ("split", r"-G eth1 tcp-data-split", True, {"threshold", "spread", "rules"}),
    ("spread", r"-X eth1", True, {"rules"}),
    ("rules", r"-N .* 16640 ", True, set()),
    ("interrupts", r"irq/114/", False, set()),
    ("qdisc", r"parent 1:3 ", False, set()),
    ("hugepages", r"nr_hugepages", False, set()),
    ("mtu", r"ip link set", False, set()),
)


class Refusals(Lab):
    def refuse(self, key, name, pattern, vital, without):
        self.card(**{key: [pattern]})
        code, found = self.steps_of("--apply", "--workers", "3", "--mtu", "9000")
        self.assertEqual(code, 3 if vital else 0)
        self.assertEqual(found[name]["state"], "refused")
        self.assertRegex(found[name]["text"], "not supported|succeeded, but")
        self.assertGreater(len(found[name]["means"]), 20)
        if name != "flags":
            self.assertEqual({each for each, step in found.items() if step["state"] == "skipped"}, without)
        else:
            self.assertEqual(found["aggregation"]["state"], "refused")
        _, out, _ = self.tune("--apply", "--workers", "3", "--mtu", "9000")
        self.assertRegex(out, rf"refused +{name} ")
        self.assertIn("without it: ", out)
        self.assert_restores()

    def test_each_step_refused(self):
        for name, pattern, vital, without in REFUSED:
            with self.subTest(name):
                self.refuse("refuse", name, pattern, vital, without)

    def test_each_step_done_in_words_only(self):
        for name, pattern, vital, without in REFUSED:
            with self.subTest(name):
                self.refuse("ignore", name, pattern, vital, without)

    def test_channels_refused(self):
        self.card("bnxt", refuse=["-L"])
        code, found = self.steps_of("--apply", "--workers", "8")
        self.assertEqual((code, found["channels"]["state"]), (3, "refused"))
        self.assertEqual({name for name, step in found.items() if step["state"] == "skipped"},
                         {"spread", "rules", "interrupts", "qdisc"})
        self.assert_restores()

    def test_threshold_refused(self):
        self.card("bnxt", refuse=["hds-thresh"])
        code, found = self.steps_of("--apply", "--workers", "3")
        self.assertEqual((code, found["threshold"]["state"], found["spread"]["state"]), (3, "refused", "skipped"))
        self.assert_restores()

    def test_a_refused_step_is_put_back_at_once(self):
        self.card(refuse=["-N .* 16896 "])
        self.assertEqual(self.tune("--apply", "--workers", "3")[0], 3)
        self.assertEqual(self.now().state["rules"], {})
        self.assert_restores()

    def test_trying_again_after_a_refusal(self):
        self.card(refuse=["tcp-data-split"])
        self.assertEqual(self.tune("--apply", "--workers", "3")[0], 3)
        self.alter(refuse=[])
        self.assertEqual(self.tune("--apply", "--workers", "3")[0], 0)
        self.assertEqual(len(self.now().state["rules"]), 3)
        self.assert_restores()

    def test_reading_refused(self):
        for option, name in (("-x", "spread"), ("-n", "rules"), ("-k", "steering"), ("-g", "split")):
            with self.subTest(option):
                self.card(refuse=[rf"ethtool {option} "])
                code, found = self.steps_of("--apply", "--workers", "3")
                self.assertEqual((code, found[name]["state"]), (3, "refused"))
                self.assert_restores()

    def test_an_xdp_program_is_not_removed(self):
        self.card(xdp=True)
        code, found = self.steps_of("--apply", "--workers", "3")
        self.assertEqual((code, found["xdp"]["state"], found["split"]["state"]), (3, "refused", "skipped"))
        self.assertIn("ip link set eth1 xdp off", found["xdp"]["text"])
        self.assert_restores()

    def test_an_old_ethtool(self):
        self.card(old_ethtool=True)
        code, found = self.steps_of("--workers", "3")
        self.assertEqual((code, found["split"]["state"]), (3, "refused"))
        self.assertIn("this ethtool (6.1) cannot set tcp-data-split", found["split"]["text"])

    def test_cards_without_the_offloads(self):
        self.card(gro_hw="off [fixed]")
        code, found = self.steps_of("--workers", "3")
        self.assertEqual((code, found["aggregation"]["state"]), (3, "refused"))
        self.card(ntuple="off [fixed]")
        code, found = self.steps_of("--workers", "3")
        self.assertEqual((code, found["steering"]["state"]), (3, "refused"))

    def test_a_rule_in_the_way(self):
        self.card(rules={"9": ["tcp4", 16640, "0xff", 2]}, ntuple="on")
        code, found = self.steps_of("--apply", "--workers", "3")
        self.assertEqual((code, found["rules"]["state"]), (3, "refused"))
        self.assertIn("ethtool -N eth1 delete 9", found["rules"]["text"])
        self.assert_restores()

    def test_cards_that_cannot(self):
        self.card("virtio")
        for words in ([], ["--apply"]):
            code, out, err = self.tune(*words)
            self.assertEqual((code, out), (1, ""))
            self.assertIn("virtio_net", err)
            self.assertIn("with a copy", err)
        self.assert_as_before()

    def test_too_few_queues(self):
        self.card(max=1, queues=1)
        self.assertIn("zero-copy receive cannot work", self.tune("--workers", "1")[2])
        self.card(max=4, queues=4)
        code, _, err = self.tune("--workers", "4")
        self.assertEqual(code, 1)
        self.assertIn("use --workers 3", err)
        self.assertEqual(self.tune()[0], 0)

    def test_who_may_and_what_is_asked(self):
        self.card()
        for words in (["--apply"], ["--restore"]):
            code, _, err = self.tune(*words, root=False)
            self.assertEqual(code, 1)
            self.assertIn("needs root", err)
        self.assertEqual(self.tune("--ports", "16000")[0], 1)
        for words in (["--workers", "0"], ["--workers", "x"], ["--mtu", "10"], ["--apply", "--restore"],
                      ["--apply", "--dry-run"], ["--appl"], ["eth2"], ["--workers"]):
            with self.subTest(words):
                self.assertEqual(self.tune(*words)[0], 2)
        self.assertEqual(self.tune("--help")[0], 0)
        self.assert_as_before()

    def test_hints(self):
        self.card()
        fake_nic.put(self.folder, "proc/77/comm", "irqbalance")
        fake_nic.put(self.folder, "sys/class/net/eth1/operstate", "down")
        out = self.tune()[1]
        for words in ("irqbalance", "MTU is 1500", "interface is down"):
            self.assertIn(words, out)


class Restoring(Lab):
    def changes_of(self, driver, *words):
        self.card(driver)
        self.tune("--apply", *words)
        return len(self.now().state["calls"])

    def test_killed_at_every_change(self):
        for driver, words in (("mlx5", ["--workers", "2", "--mtu", "9000"]), ("bnxt", ["--workers", "8"]),
                              ("gve", ["--workers", "8"])):
            for number in range(1, self.changes_of(driver, *words) + 1):
                for when in ("before", "after"):
                    with self.subTest(driver=driver, number=number, when=when):
                        self.card(driver, kill=[number, when])
                        self.assertTrue(self.killed("--apply", *words))
                        self.assert_restores()

    def test_killed_and_applied_again(self):
        words = ["--workers", "3"]
        for number in range(1, self.changes_of("mlx5", *words) + 1):
            with self.subTest(number):
                self.card(kill=[number, "before"])
                self.assertTrue(self.killed("--apply", *words))
                self.alter(kill=None)
                self.assertEqual(self.tune("--apply", *words)[0], 0)
                self.assertEqual(len(self.now().state["rules"]), 3)
                self.assert_restores()

    def test_killed_while_restoring(self):
        self.card("bnxt")
        self.tune("--apply", "--workers", "8")
        first = len(self.now().state["calls"])
        self.tune("--restore")
        for number in range(first + 1, len(self.now().state["calls"]) + 1):
            with self.subTest(number):
                self.card("bnxt")
                self.tune("--apply", "--workers", "8")
                self.alter(kill=[number, "after"])
                self.killed("--restore")
                self.assert_restores()

    def test_what_does_not_go_back_is_named_and_kept(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        self.alter(refuse=[r"-X eth1"])
        code, _, err = self.tune("--restore")
        self.assertEqual(code, 1)
        self.assertIn("spread is not back: it is equal 13", err)
        self.assertIn("ethtool -X eth1 equal 16", err)
        self.assertEqual(len(self.now().state["rules"]), 0)  # the rest is back
        self.assert_restores()

    def test_nothing_to_restore(self):
        self.card()
        code, out, _ = self.tune("--restore")
        self.assertEqual(code, 0)
        self.assertIn("was not prepared", out)
        self.assert_as_before()

    def test_a_dry_run_of_restoring(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        state = self.now().state
        code, out, _ = self.tune("--restore", "--dry-run", root=False)
        self.assertEqual(code, 0)
        self.assertIn("ethtool -X eth1 default", out)
        self.assertEqual(self.now().state, state)
        self.assert_restores()

    def test_a_card_that_is_gone(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        self.alter(gone=True)
        self.assertEqual(self.tune("--restore")[0], 0)
        self.assertEqual(self.now().state["pages"], [0, 0])

    def test_another_card_of_that_name(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        os.unlink(f"{self.folder}/sys/class/net/eth1/device")
        os.makedirs(f"{self.folder}/sys/bus/pci/devices/0000:41:00.0")
        os.symlink("../../../bus/pci/devices/0000:41:00.0", f"{self.folder}/sys/class/net/eth1/device")
        for words in (["--apply"], ["--restore"]):
            code, _, err = self.tune(*words)
            self.assertEqual(code, 1)
            self.assertIn("another card", err)

    def test_a_journal_that_was_cut_off(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        path = f"{self.folder}/run/millrace-nic/eth1"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + '{"begin": "hugepa')
        self.assertEqual(self.tune("--apply", "--workers", "3")[0], 0)
        self.assert_restores()

    def test_a_journal_that_is_damaged(self):
        self.card()
        self.tune("--apply", "--workers", "3")
        with open(f"{self.folder}/run/millrace-nic/eth1", "w", encoding="utf-8") as file:
            file.write("{}\n")
        for words in (["--apply"], ["--restore"]):
            code, _, err = self.tune(*words)
            self.assertEqual(code, 1)
            self.assertIn("is damaged", err)

    def test_one_at_a_time(self):
        self.card()
        other = journals.Journal(FakeSystem(self.folder), "eth1")
        other.open()
        code, _, err = self.tune("--apply")
        self.assertEqual(code, 1)
        self.assertIn("another tune-nic", err)
        other.close()

    def test_no_room_for_the_journal(self):
        self.card()
        shutil.rmtree(f"{self.folder}/run")
        os.symlink("/proc/self/no-such-folder", f"{self.folder}/run")
        self.assertEqual(self.tune("--apply")[0], 1)
        self.assertEqual(self.now().state["calls"], [])


class Programs(Lab):
    """The same through real programs, found by PATH."""

    def run_tool(self, *arguments):
        script = (f"import sys; sys.dont_write_bytecode = True; sys.path[:0] = [{ROOT + '/deploy/nic'!r}]\n"
                  "import main, system\n"
                  f"class Here(system.System):\n    root = {self.folder!r}\n    is_root = lambda self: True\n"
                  "    cpus_allowed = lambda self: list(range(16))\n"
                  "sys.exit(main.main(sys.argv[1:], Here()))")
        environment = dict(os.environ, PATH=f"{self.folder}/bin", FAKE_NIC=self.folder)
        return subprocess.run([sys.executable, "-c", script, "eth1", *arguments], env=environment, capture_output=True,
                              text=True, timeout=1200, check=False)

    def setUp(self):
        super().setUp()
        self.card()
        os.makedirs(f"{self.folder}/bin")
        for name in ("ethtool", "ip", "tc"):
            with open(f"{self.folder}/bin/{name}", "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\nFAKE_PROGRAM={name} exec {sys.executable} -B {HERE}/fake_nic.py \"$@\"\n")
            os.chmod(f"{self.folder}/bin/{name}", 0o755)

    def test_dry_run_and_refusals(self):
        result = self.run_tool("--workers", "1")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertIn("\nethtool -G eth1 tcp-data-split on\n", result.stdout)
        self.alter(refuse=["ethtool -x"])
        result = self.run_tool("--workers", "1")
        self.assertEqual(result.returncode, 3)
        self.assertIn("netlink error: Operation not supported", result.stdout)

    def test_killed_from_outside(self):
        self.alter(kill=[4, "after"])
        self.assertEqual(self.run_tool("--apply", "--workers", "1").returncode, -signal.SIGKILL)
        self.assert_restores()

    def test_no_ethtool(self):
        os.unlink(f"{self.folder}/bin/ethtool")
        if any(os.path.exists(f"{folder}/ethtool") for folder in ("/usr/sbin", "/sbin")):
            self.skipTest("there is a real one beside PATH")
        result = self.run_tool()
        self.assertEqual(result.returncode, 1)
        self.assertIn("install the package ethtool", result.stderr)


RINGS = """Ring parameters for eth0:
Pre-set maximums:
RX:\t\t256
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t256
Current hardware settings:
RX:\t\t128
RX Mini:\tn/a
RX Jumbo:\tn/a
TX:\t\t256
RX Buf Len:\t\tn/a
CQE Size:\t\tn/a
TX Push:\toff
TCP data split:\tn/a
"""

RULES = """32 RX rings available
Total 4 rules

Filter: 1021
\tRule Type: TCP over IPv6
\tSrc IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
\tDest IP addr: :: mask: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
\tTraffic Class: 0x0 mask: 0xff
\tSrc port: 0 mask: 0xffff
\tDest port: 16384 mask: 0xff
\tAction: Direct to queue 16

Filter: 1022
\tRule Type: TCP over IPv4
\tSrc IP addr: 10.0.0.1 mask: 0.0.0.0
\tDest IP addr: 0.0.0.0 mask: 255.255.255.255
\tTOS: 0x0 mask: 0xff
\tSrc port: 0 mask: 0xffff
\tDest port: 80 mask: 0x0
\tAction: Direct to queue 1

Filter: 1023
\tRule Type: TCP over IPv4
\tSrc IP addr: 0.0.0.0 mask: 255.255.255.255
\tDest IP addr: 0.0.0.0 mask: 255.255.255.255
\tTOS: 0x0 mask: 0xff
\tSrc port: 0 mask: 0xffff
\tDest port: 22 mask: 0x0
\tAction: Drop

Filter: 7
\tRule Type: UDP over IPv4
\tDest port: 16384 mask: 0xff
\tAction: Direct to queue 3
"""

INTERRUPTS = """           CPU0       CPU1
 28:          0          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config
 37:          0          0 PCI-MSIX-0000:00:03.0   0-edge      virtio2-config
 38:          0      65875 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
 39:      46876          0 PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
 90:          1          0  IR-PCI-MSI 524288-edge      mlx5_async0@pci:0000:81:00.0
 91:          1          0  IR-PCI-MSI 524289-edge      mlx5_comp0@pci:0000:81:00.0
 92:          1          0  IR-PCI-MSI 524290-edge      mlx5_comp12@pci:0000:81:00.0
 93:          1          0  IR-PCI-MSI 524291-edge      eth1-TxRx-3
 94:          1          0  IR-PCI-MSI 524292-edge      gve-ntfy-blk0@pci:0000:00:04.0
 95:          1          0  IR-PCI-MSI 524293-edge      gve-ntfy-blk1@pci:0000:00:04.0
NMI:          0          0   Non-maskable interrupts
ERR:          0
"""


class Texts(unittest.TestCase):
    def test_rings(self):
        most, now = texts.two_sections(RINGS)
        self.assertEqual((most["rx"], now["rx"], now["tcp data split"]), ("256", "128", "n/a"))
        self.assertNotIn("hds thresh", now)
        bare = "\n".join(line for line in RINGS.splitlines() if not re.match("Pre-set|Current", line))
        self.assertEqual(texts.two_sections(bare), (most, now))
        self.assertEqual(texts.two_sections("netlink error: Operation not supported\n")[0].get("rx"), None)
        self.assertEqual(texts.two_sections(""), ({}, {}))

    def test_features(self):
        found = texts.features("Features for eth1:\nntuple-filters: off [fixed]\nrx-gro-hw: on [requested off]\n"
                               "\ttx-checksum-ipv4: on\nodd line\n")
        self.assertEqual(found["ntuple-filters"], ("off", True))
        self.assertEqual(found["rx-gro-hw"], ("on", False))
        self.assertIn("tx-checksum-ipv4", found)

    def test_flags(self):
        self.assertEqual(texts.private_flags("Private flags for eth1:\nrx_cqe_compress      : off\nskb_tx_mpwqe: on\n"),
                         {"rx_cqe_compress": "off", "skb_tx_mpwqe": "on"})

    def test_tables(self):
        text = ("RX flow hash indirection table for eth1 with 3 RX ring(s):\n    0:      0     1     2     0     1     2     0"
                "     1\n    8:      2     0     1     2     0     1     2     0\nRSS hash key:\n12:34:56\n"
                "RSS hash function:\n    toeplitz: on\n")
        table = texts.spread_table(text)
        self.assertEqual(len(table), 16)
        self.assertEqual(texts.spread_of(table), {"equal": 3})
        self.assertEqual(texts.spread_of([0, 0, 2, 2]), {"weights": [2, 0, 2]})
        self.assertIsNone(texts.spread_of(texts.spread_table("RX flow hash indirection table for eth0 with 1 RX ring(s):\n"
                                                             "Operation not supported\nRSS hash key:\n")))

    def test_rules(self):
        self.assertEqual(texts.port_rules(RULES), {"tcp6 16384 0xff 16": 1021})
        self.assertEqual(texts.port_rules("rxclass: Cannot get RX class rule count: Operation not supported\n"), {})

    def test_interrupts(self):
        self.assertEqual(texts.interrupts(INTERRUPTS, {37, 38, 39}), {0: 38})
        self.assertEqual(texts.interrupts(INTERRUPTS, {90, 91, 92}), {0: 91, 12: 92})
        self.assertEqual(texts.interrupts(INTERRUPTS, {93}), {3: 93})
        self.assertEqual(texts.interrupts(INTERRUPTS, {94, 95}), {0: 95})
        self.assertEqual(texts.interrupts("", {1}), {})

    def test_qdiscs(self):
        self.assertEqual(texts.qdiscs('[{"kind":"pfifo_fast","handle":"0:","root":true,"refcnt":2,"options":{}}]'),
                         {"root": "pfifo_fast", "handle": "0:", "leaves": []})
        for text in ("", "[]", "no json", '[{"kind":"mq"}]', "{}", "3"):
            self.assertIsNone(texts.qdiscs(text), text)

    def test_links(self):
        self.assertEqual(texts.link_facts('[{"ifname":"a","xdp":{},"addr_info":[{"family":"inet6","scope":"link"},'
                                          '{"family":"inet","scope":"global"}]}]'), (True, ["inet"]))
        for text in ("", "[]", "[{}]", "x", "{}"):
            self.assertEqual(texts.link_facts(text), (False, []))

    def test_cpus(self):
        self.assertEqual(systems.cpu_list("0-2,8"), [0, 1, 2, 8])
        self.assertIsNone(systems.cpu_list(""))
        self.assertIsNone(systems.cpu_list("a-b"))


class Agreement(unittest.TestCase):
    def test_ports_are_millraceds(self):
        with open(f"{ROOT}/cluster/crew/place.h", encoding="utf-8") as file:
            text = file.read()
        match = re.search(r"\bCLUSTER_PORT_BLOCK = ([0-9]+),", text)
        self.assertEqual(int(match[1]), plans.PORT_BLOCK)
        with open(f"{ROOT}/cluster/options/daemon_options.c", encoding="utf-8") as file:
            text = file.read()
        for option, value in (("ports", f"{plans.PORTS_FIRST}"), ("zc-area", f"{plans.AREA_BYTES >> 20}Mi")):
            match = re.search(rf'\.name = "{option}",[^{{}}]*?\.preset = "([^"]*)"', text)
            self.assertEqual(match[1], value, option)

    def test_drivers_are_doctors(self):
        with open(f"{ROOT}/cluster/doctor/cards.c", encoding="utf-8") as file:
            match = re.search(r"drivers\[\] = \{([^}]*)\}", file.read())
        self.assertEqual(sorted(re.findall(r'"(\w+)"', match[1])), sorted(plans.DRIVERS))

    def test_every_step_is_in_the_manual(self):
        with open(f"{ROOT}/docs/man/millrace-tune-nic.8", encoding="utf-8") as file:
            text = file.read()
        for step in steps.STEPS:
            self.assertRegex(text, rf"(?m)^\.B {step.name}$")


if __name__ == "__main__":
    unittest.main()
