"""A made-up machine with one network card, for tests of deploy/tune-nic: the programs ethtool, ip and tc, and the files
below /sys and /proc that go with them. The state is a JSON file; every change is recorded in it. What the programs print,
and what the drivers do and refuse, is modelled on the real ones:

    mlx5    splits only with HW-GRO on, and keeps HW-GRO on while it splits; HW-GRO wants no LRO and plain completions;
            shows the split only when it was asked for; knows no threshold
    bnxt    has a threshold of 256, which can be set only while it splits
    gve     has receive and send queues of their own, and no HW-GRO
    virtio  lends nothing

    state["refuse"], ["ignore"]   patterns of commands and writes that fail, or succeed and do nothing
    state["kill"]                 [n, "before" or "after"]: the process that makes the n-th change is killed there

Run as a program (as $FAKE_PROGRAM) it works on $FAKE_NIC, as a module on the folder given."""

import contextlib
import json
import os
import re
import shutil
import signal
import sys

UNSUPPORTED = (1, "", "netlink error: Operation not supported\n")
BUSY = (22, "", "netlink error: requested channel counts are too low for existing indirection table settings\n")

DRIVERS = {
    "mlx5": {"driver": "mlx5_core", "kind": "combined", "queues": 16, "max": 63, "ring": 1024, "split": "n/a",
             "hds": None, "gro_hw": "off", "flags": {"rx_cqe_moder": "on", "rx_cqe_compress": "on", "rx_striding_rq": "on"}},
    "bnxt": {"driver": "bnxt_en", "kind": "combined", "queues": 8, "max": 64, "ring": 511, "split": "off", "hds": 256,
             "gro_hw": "off", "flags": {}},
    "gve": {"driver": "gve", "kind": "rx", "queues": 8, "max": 32, "ring": 1024, "split": "off", "hds": None,
            "gro_hw": "off [fixed]", "flags": {}},
    "virtio": {"driver": "virtio_net", "kind": "combined", "queues": 1, "max": 1, "ring": 256, "split": "n/a", "hds": None,
               "gro_hw": "on [fixed]", "flags": {}},
}


def make(folder, driver, cpus=16, **changes):
    """A machine with two memory nodes and a card of node 1, which has the upper half of the cores."""
    state = dict(json.loads(json.dumps(DRIVERS[driver])), name="eth1", mtu=1500, lro="off", ntuple="off", table=None,
                 rules={}, xdp=False, families=["inet"], qdisc="default", leaves={}, affinity={}, pages=[0, 0], cpus=cpus,
                 calls=[], refuse=[], ignore=[], kill=None, old_ethtool=False, gone=False)
    if driver == "mlx5":
        state["lro"] = "on"
    state.update(changes)
    shutil.rmtree(folder, ignore_errors=True)
    for path, text in (("sys/class/net/lo/mtu", "65536"), ("sys/class/net/eth1/operstate", "up"),
                       ("sys/bus/pci/devices/0000:81:00.0/numa_node", "1"), ("proc/1/comm", "systemd"),
                       ("run/keep", ""), *((f"sys/devices/system/node/node{node}/cpulist", cpu_range(cpus, node))
                                           for node in (0, 1))):
        put(folder, path, text)
    os.symlink("../../../bus/pci/devices/0000:81:00.0", f"{folder}/sys/class/net/eth1/device")
    machine = Machine(folder, state)
    machine.save()
    return machine


def cpu_range(cpus, node):
    return f"{cpus // 2 * node}-{cpus // 2 * (node + 1) - 1}"


def put(folder, path, text):
    with contextlib.suppress(OSError), open(f"{folder}/{path}", encoding="utf-8") as file:
        if file.read() == text + "\n":
            return
    os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
    with open(f"{folder}/{path}", "w", encoding="utf-8") as file:
        file.write(text + "\n")


class Machine:
    def __init__(self, folder, state=None):
        self.folder = str(folder)
        self.state = state
        self.shown = self.queues_shown = None
        if state is None:
            with open(f"{self.folder}/state.json", encoding="utf-8") as file:
                self.state = json.load(file)
            self.shown = json.loads(json.dumps([self.state[key] for key in ("queues", "affinity", "mtu", "pages", "gone")]))
            self.queues_shown = self.state["queues"]

    def save(self):
        with open(f"{self.folder}/state.json.new", "w", encoding="utf-8") as file:
            json.dump(self.state, file)
        os.rename(f"{self.folder}/state.json.new", f"{self.folder}/state.json")
        shown = [self.state[key] for key in ("queues", "affinity", "mtu", "pages", "gone")]
        if shown != self.shown:
            self.shown = json.loads(json.dumps(shown))
            self.show()

    def settings(self):
        """What must be the same again after --restore."""
        return {key: value for key, value in self.state.items()
                if key not in ("calls", "refuse", "ignore", "kill")}

    # The files -------------------------------------------------------------------------------------------------------

    def irq(self, queue):
        return 100 + queue + (self.state["queues"] if self.state["driver"] == "gve" else 0)

    def affinity(self, queue):
        return self.state["affinity"].get(str(queue), f"0-{self.state['cpus'] - 1}")

    def show(self):
        state, name = self.state, self.state["name"]
        self.show_pages()
        if state["gone"]:
            shutil.rmtree(f"{self.folder}/sys/class/net/{name}", ignore_errors=True)
            return
        if state["queues"] != self.queues_shown:
            for path in (f"sys/class/net/{name}/queues", "sys/bus/pci/devices/0000:81:00.0/msi_irqs", "proc/irq"):
                shutil.rmtree(f"{self.folder}/{path}", ignore_errors=True)
        self.queues_shown = state["queues"]
        put(self.folder, f"sys/class/net/{name}/mtu", str(state["mtu"]))
        lines = ["           CPU0       CPU1", "  9:          0          0 PCI-MSIX-0000:81:00.0   0-edge      acpi"]
        for queue in range(state["queues"]):
            put(self.folder, f"sys/class/net/{name}/queues/rx-{queue}/rps_cpus", "0")
            put(self.folder, f"sys/class/net/{name}/queues/tx-{queue}/xps_cpus", "0")
            irq = self.irq(queue)
            put(self.folder, f"sys/bus/pci/devices/0000:81:00.0/msi_irqs/{irq}", "msix")
            put(self.folder, f"proc/irq/{irq}/smp_affinity_list", self.affinity(queue))
            lines.append(f" {irq}:     100      1 PCI-MSIX-0000:81:00.0 {queue}-edge {self.irq_name(queue)}")
            if state["driver"] == "gve":
                put(self.folder, f"sys/bus/pci/devices/0000:81:00.0/msi_irqs/{100 + queue}", "msix")
                lines.append(f" {100 + queue}:  1  1 PCI-MSIX-0000:81:00.0 {queue}-edge gve-ntfy-blk{queue}@pci:0000:81:00.0")
        put(self.folder, "proc/interrupts", "\n".join(lines))

    def show_pages(self):
        for node, pages in enumerate(self.state["pages"]):
            folder = f"sys/devices/system/node/node{node}/hugepages/hugepages-2048kB"
            put(self.folder, f"{folder}/nr_hugepages", str(pages))
            put(self.folder, f"{folder}/free_hugepages", str(pages))

    def irq_name(self, queue):
        return {"mlx5_core": f"mlx5_comp{queue}@pci:0000:81:00.0", "bnxt_en": f"eth1-TxRx-{queue}",
                "gve": f"gve-ntfy-blk{queue + self.state['queues']}@pci:0000:81:00.0",
                "virtio_net": f"virtio2-input.{queue}"}[self.state["driver"]]

    # Changes ---------------------------------------------------------------------------------------------------------

    def change(self, words, act):
        """Records and makes a change: act() returns what the program ends with and prints."""
        state, text = self.state, " ".join(words)
        state["calls"].append(text)
        number = len(state["calls"])
        if state["kill"] == [number, "before"]:
            self.save()
            self.kill()
        if any(re.search(pattern, text) for pattern in state["refuse"]):
            self.save()
            return UNSUPPORTED
        result = (0, "", "") if any(re.search(pattern, text) for pattern in state["ignore"]) else act()
        self.save()
        if state["kill"] == [number, "after"]:
            self.kill()
        return result

    def kill(self):
        os.kill(os.getppid() if __name__ == "__main__" else os.getpid(), signal.SIGKILL)
        signal.pause()

    def write(self, path, text):
        def act():
            match = re.fullmatch(r"/proc/irq/(\d+)/smp_affinity_list", path)
            if match:
                queue = next(each for each in range(self.state["queues"]) if self.irq(each) == int(match[1]))
                if text == f"0-{self.state['cpus'] - 1}":
                    self.state["affinity"].pop(str(queue), None)
                else:
                    self.state["affinity"][str(queue)] = text
                return 0, "", ""
            match = re.fullmatch(r"/sys/devices/system/node/node(\d)/hugepages/hugepages-2048kB/nr_hugepages", path)
            self.state["pages"][int(match[1])] = int(text)
            return 0, "", ""
        return self.change(["write", path, text], act)

    # Programs --------------------------------------------------------------------------------------------------------

    def run(self, words):
        program, rest = words[0], words[1:]
        if program == "ethtool":
            return self.ethtool(rest)
        if program == "tc":
            return self.tc(rest)
        if rest[:2] == ["-json", "address"]:
            entry = {"ifname": self.state["name"], "addr_info": [{"family": family, "scope": "global"}
                                                                 for family in self.state["families"]]}
            if self.state["xdp"]:
                entry["xdp"] = {"mode": 1}
            return 0, json.dumps([entry]), ""
        if rest[:2] == ["link", "set"]:
            return self.change(words, lambda: self.set(mtu=int(rest[5])))
        return 2, "", f"fake ip does not know {rest}\n"

    def set(self, **values):
        self.state.update(values)
        return 0, "", ""

    def tc(self, rest):
        state = self.state
        if rest[0] == "-json":
            own = state["qdisc"] != "default"
            handle = state["qdisc"] if own else "0:"
            entries = [{"kind": "mq", "handle": handle, "root": True, "options": {}}]
            for queue in range(state["queues"]):
                kind = state["leaves"].get(str(queue), "fq_codel") if own else "fq_codel"
                entries.append({"kind": kind, "handle": "0:", "parent": f"{handle}{queue + 1:x}"})
            return 0, json.dumps(entries), ""
        if rest[:2] == ["qdisc", "del"]:
            return self.change(["tc", *rest], lambda: self.set(qdisc="default", leaves={}))
        if "root" in rest:
            return self.change(["tc", *rest], lambda: self.set(qdisc="1:", leaves={}))
        queue = int(rest[rest.index("parent") + 1].split(":")[1], 16) - 1

        def act():
            if queue >= state["queues"] or state["qdisc"] == "default":
                return 2, "", "Error: Failed to find specified qdisc.\n"
            state["leaves"][str(queue)] = rest[-1]
            return 0, "", ""
        return self.change(["tc", *rest], act)

    def ethtool(self, rest):
        option = rest[0]
        if option == "--help":
            return 0, "ethtool version X\n" + ("" if self.state["old_ethtool"] else
                                               "  [ tcp-data-split auto|on|off ]\n [ hds-thresh N ]\n"), ""
        if option == "--version":
            return 0, f"ethtool version {'6.1' if self.state['old_ethtool'] else '6.15'}\n", ""
        if len(rest) < 2 or rest[1] != self.state["name"] or self.state["gone"]:
            return 19, "", "netlink error: No such device\n"
        shows = {"-i": self.show_driver, "-l": self.show_channels, "-g": self.show_rings, "-k": self.show_features,
                 "-x": self.show_table, "-n": self.show_rules, "--show-priv-flags": self.show_flags}
        if option in shows:
            if any(re.search(pattern, " ".join(["ethtool", *rest])) for pattern in self.state["refuse"]):
                return UNSUPPORTED
            return 0, shows[option](), ""
        does = {"-L": self.set_channels, "-G": self.set_rings, "-K": self.set_features, "-X": self.set_table,
                "-N": self.set_rule, "--set-priv-flags": self.set_flag}
        return self.change(["ethtool", *rest], lambda: does[option](rest[2:]))

    def show_driver(self):
        return f"driver: {self.state['driver']}\nversion: 7.1.0\nbus-info: 0000:81:00.0\nsupports-priv-flags: yes\n"

    def show_channels(self):
        state = self.state

        def section(count):
            both = {"combined": ("n/a", "n/a", count), "rx": (count, count, "n/a")}[state["kind"]]
            return "RX:\t\t{}\nTX:\t\t{}\nOther:\t\tn/a\nCombined:\t{}\n".format(*both)
        return (f"Channel parameters for eth1:\nPre-set maximums:\n{section(state['max'])}Current hardware settings:\n"
                f"{section(state['queues'])}\n")

    def show_rings(self):
        state = self.state
        hds = state["hds"] if state["hds"] is not None else "n/a"
        old = state["old_ethtool"]
        return ("Ring parameters for eth1:\nPre-set maximums:\nRX:\t\t\t8192\nRX Mini:\t\tn/a\nRX Jumbo:\t\tn/a\nTX:\t\t\t8192\n"
                "TX push buff len:\tn/a\n" + ("" if old else "HDS thresh:\t\t1023\n" if hds != "n/a" else "HDS thresh:\t\tn/a\n") +
                f"Current hardware settings:\nRX:\t\t\t{state['ring']}\nRX Mini:\t\tn/a\nRX Jumbo:\t\tn/a\nTX:\t\t\t1024\n"
                "RX Buf Len:\t\tn/a\nCQE Size:\t\tn/a\nTX Push:\t\toff\nRX Push:\t\toff\nTX push buff len:\tn/a\n"
                f"TCP data split:\t\t{state['split']}\n" + ("" if old else f"HDS thresh:\t\t{hds}\n"))

    def show_features(self):
        state = self.state
        return ("Features for eth1:\nrx-checksumming: on\ngeneric-receive-offload: on\n"
                f"large-receive-offload: {state['lro']}\nntuple-filters: {state['ntuple']}\nhighdma: on [fixed]\n"
                f"rx-gro-hw: {state['gro_hw']}\nrx-gro-list: off\n")

    def table(self):
        queues = self.state["queues"]
        return self.state["table"] or [place % queues for place in range(128)]

    def show_table(self):
        table = self.table()
        lines = [f"{place:5d}:  " + " ".join(f"{queue:5d}" for queue in table[place:place + 8])
                 for place in range(0, len(table), 8)]
        return (f"RX flow hash indirection table for eth1 with {self.state['queues']} RX ring(s):\n" + "\n".join(lines) +
                "\nRSS hash key:\n4c:1b:0a\nRSS hash function:\n    toeplitz: on\n    xor: off\n")

    def show_rules(self):
        text = f"{self.state['queues']} RX rings available\nTotal {len(self.state['rules'])} rules\n\n"
        for place, (flow, port, mask, queue) in sorted(self.state["rules"].items(), key=lambda item: int(item[0])):
            zero, ones = ("0.0.0.0", "255.255.255.255") if flow == "tcp4" else ("::", ":".join(["ffff"] * 8))
            text += (f"Filter: {place}\n\tRule Type: TCP over {'IPv4' if flow == 'tcp4' else 'IPv6'}\n"
                     f"\tSrc IP addr: {zero} mask: {ones}\n\tDest IP addr: {zero} mask: {ones}\n"
                     f"\t{'TOS' if flow == 'tcp4' else 'Traffic Class'}: 0x0 mask: 0xff\n\tSrc port: 0 mask: 0xffff\n"
                     f"\tDest port: {port} mask: {mask}\n\tAction: Direct to queue {queue}\n\n")
        return text

    def show_flags(self):
        return "Private flags for eth1:\n" + "".join(f"{name:<16}: {on}\n" for name, on in self.state["flags"].items())

    def set_flag(self, rest):
        self.state["flags"][rest[0]] = rest[1]
        return 0, "", ""

    def set_channels(self, rest):
        state, count = self.state, int(rest[1])
        if rest[0] != state["kind"] or count > state["max"]:
            return 22, "", "netlink error: Invalid argument\n"
        if (state["table"] and max(state["table"]) >= count) or any(rule[3] >= count for rule in state["rules"].values()):
            return BUSY
        state["queues"] = count
        state["affinity"] = {queue: where for queue, where in state["affinity"].items() if int(queue) < count}
        state["leaves"] = {queue: kind for queue, kind in state["leaves"].items() if int(queue) < count}
        return 0, "", ""

    def set_features(self, rest):
        state = self.state
        wanted = dict(zip(rest[::2], rest[1::2]))
        key = {"rx-gro-hw": "gro_hw", "ntuple": "ntuple", "lro": "lro"}
        if any("fixed" in state[key[name]] for name in wanted):
            return 1, "", "Could not change any device features\n"
        if wanted.get("lro") == "on" and state["gro_hw"] == "on" and wanted.get("rx-gro-hw") != "off":
            return 1, "", "Could not change any device features\n"
        if state["driver"] == "mlx5_core" and wanted.get("rx-gro-hw") == "on" and (
                state["flags"]["rx_cqe_compress"] == "on" or wanted.get("lro", state["lro"]) == "on"):
            return 1, "", "Could not change any device features\n"
        if state["driver"] == "mlx5_core" and wanted.get("rx-gro-hw") == "off" and state["split"] == "on":
            return 1, "", "Could not change any device features\n"
        state.update({key[name]: value for name, value in wanted.items()})
        return 0, "", ""

    def set_rings(self, rest):
        state, wanted = self.state, dict(zip(rest[::2], rest[1::2]))
        if state["old_ethtool"] and set(wanted) - {"rx"}:
            return 1, "", "ethtool: bad command line argument(s)\nFor more information run ethtool -h\n"
        split = wanted.get("tcp-data-split")
        if split == "on" and state["driver"] == "mlx5_core" and state["gro_hw"] != "on":
            return 22, "", "netlink error: mlx5_core: TCP-data-split is not supported when GRO HW is disabled\n"
        if split == "on" and state["xdp"]:
            return 22, "", "netlink error: XDP program is attached\n"
        if split:
            unset = "n/a" if state["driver"] == "mlx5_core" else "off"
            state["split"] = "on" if split == "on" else unset
        if "hds-thresh" in wanted:
            if state["hds"] is None or state["split"] != "on":
                return UNSUPPORTED
            state["hds"] = int(wanted["hds-thresh"])
        if "rx" in wanted:
            state["ring"] = int(wanted["rx"])
        return 0, "", ""

    def set_table(self, rest):
        state = self.state
        if rest == ["default"]:
            state["table"] = None
        elif rest[0] == "equal":
            state["table"] = [place % int(rest[1]) for place in range(128)]
        else:
            state["table"] = [queue for queue, count in enumerate(rest[1:]) for _ in range(int(count))]
        return 0, "", ""

    def set_rule(self, rest):
        state = self.state
        if state["ntuple"] != "on":
            return 1, "", "rmgr: Cannot insert RX class rule: Operation not supported\n"
        if rest[0] == "delete":
            if rest[1] not in state["rules"]:
                return 1, "", "rmgr: Cannot delete RX class rule: No such file or directory\n"
            del state["rules"][rest[1]]
            return 0, "", ""
        words = dict(zip(rest[::2], rest[1::2]))
        if int(words["action"]) >= state["queues"]:
            return 1, "", "rmgr: Cannot insert RX class rule: Invalid argument\n"
        place = next(str(each) for each in range(1023, -1, -1) if str(each) not in state["rules"])
        state["rules"][place] = [words["flow-type"], int(words["dst-port"]), words["m"], int(words["action"])]
        return 0, f"Added rule with ID {place}\n", ""


if __name__ == "__main__":
    status, out, err = Machine(os.environ["FAKE_NIC"]).run([os.environ["FAKE_PROGRAM"], *sys.argv[1:]])
    sys.stdout.write(out)
    sys.stderr.write(err)
    sys.exit(status)
