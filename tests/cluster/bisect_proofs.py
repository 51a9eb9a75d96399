#!/usr/bin/env python3
"""Proves `millrace bisect` on clusters whose links have known rates: what it must find is known before it looks.

usage: tests/cluster/bisect_proofs.py --bin FOLDER [PROOF]...

Needs root (network namespaces). Rates are far below what the machine can do, so they are properties of the links and not
timings; since anything that takes the processors away only ever makes a rate lower, a proof of rates may try six times.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from lab import hang_limit

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy", "cluster")
TRIES = 6
OUTCOME_KEYS = {"status", "error", "error_code"}
RUN_KEYS = {
    "job", "engine", "features", "engine_reason", "steps", "steps_measured", "pairs", "rounds", "all_to_all", "incast",
    "outcast", "cuts", "bisection", "slowest", "measurements", "seconds", "bytes", "verified_bytes", "retransmits",
    "cpu_user_seconds", "cpu_system_seconds", "cpu_s_per_gib", "verified", "verdict",
}  # fmt: skip
KEYS = OUTCOME_KEYS | RUN_KEYS | {"exit_code", "kind", "settings", "nodes", "link_rate_gbit", "cards", "runs"}


class Wrong(Exception):
    """What was measured is not what the network is."""


def expect(holds, words):
    if not holds:
        raise Wrong(words)


def strict(text):
    """The one object, which a strict reader must take."""

    def refuse(constant):
        raise Wrong(f"{constant} is not JSON")

    lines = text.strip().splitlines()
    expect(len(lines) == 1, f"not one line of JSON but {len(lines)}: {text[:200]}")
    report = json.loads(lines[0], parse_constant=refuse)
    expect(set(report) == KEYS, f"keys differ: {set(report) ^ KEYS}")
    for run in report["runs"]:
        expect(set(run) == RUN_KEYS | OUTCOME_KEYS, f"keys of a run differ: {set(run) ^ (RUN_KEYS | OUTCOME_KEYS)}")
    for key in RUN_KEYS if report["runs"] else ():
        expect(report[key] == report["runs"][0][key], f"{key} is not the first run's")
    return report


class Cluster:
    """`with Cluster("--link", "500mbit") as cluster:` up, and down again whatever happens."""

    count = 0

    def __init__(self, *options, nodes=6):
        Cluster.count += 1
        self.name = f"bis{os.getpid()}x{Cluster.count}"
        self.options = ["--nodes", str(nodes), *options]

    def __enter__(self):
        try:
            self.up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run([DEPLOY, "down", "--name", self.name], capture_output=True, timeout=hang_limit(60), check=False)

    def up(self):
        done = subprocess.run(
            [DEPLOY, "up", "--name", self.name, *self.options], capture_output=True, text=True, timeout=hang_limit(90), check=False
        )
        expect(done.returncode == 0, f"the cluster does not come up: {done.stdout}{done.stderr}")

    def command(self, *words):
        return [DEPLOY, "run", "--name", self.name, "--", *words]

    def member(self, name):
        done = subprocess.run(
            [DEPLOY, "status", "--name", self.name, "--json"], capture_output=True, text=True, timeout=hang_limit(30), check=False
        )
        return next(member for member in json.loads(done.stdout) if member["name"] == name)

    def bisect(self, *words, code=0):
        done = subprocess.run(
            self.command("bisect", "--json", *words), capture_output=True, text=True, timeout=hang_limit(240), check=False
        )
        expect(done.returncode == code, f"exit code {done.returncode}, not {code}: {done.stderr}")
        report = strict(done.stdout)
        expect(report["exit_code"] == code, "the object has another exit code")
        return report

    def next_job_works(self):
        done = subprocess.run(
            self.command("join", "--left=gen:rows=20k", "--right=gen:rows=20k", "--on=key=key", "--json"),
            capture_output=True, text=True, timeout=hang_limit(60), check=False,
        )  # fmt: skip
        expect(done.returncode == 0 and json.loads(done.stdout)["rows"] == 20000, f"the next job fails: {done.stderr}")


def sound(run, steps_max):
    """What must hold of every measurement that came to its end."""
    expect(run["status"] == "succeeded" and run["verified"] and run["verified_bytes"] > 0, f"not verified: {run}")
    expect(0 < run["steps_measured"] <= run["steps"] == steps_max, f"{run['steps_measured']} of {run['steps']} steps")
    expect(len(run["measurements"]) == run["steps_measured"], "a step is missing")
    expect(run["retransmits"] is not None and run["cpu_s_per_gib"] > 0 and run["bytes"] > 0, "no cost")
    for cut in run["cuts"]:
        mean = sum(cut["windows_gbit_per_second"]) / len(cut["windows_gbit_per_second"])
        expect(cut["worst_window_gbit_per_second"] <= mean * 1.001, "the worst window is above the mean of all")
        expect(abs(mean - cut["gbit_per_second"]) <= 0.001 * mean, "windows do not add up to the cut")
        expect(cut["gbit_per_second"] >= run["bisection"]["gbit_per_second"], "the bisection is not the smallest cut")
    every = run["all_to_all"]
    sums = [sum(node[f"{direction}_gbit_per_second"] for node in every["per_node"]) for direction in ("send", "receive")]
    expect(all(abs(sum_ / every["gbit_per_second"] - 1) < 0.001 for sum_ in sums), "nodes do not add up to all-to-all")


def halves(cut):
    return [cut["half"], cut["other"]]


def near(value, wanted, share):
    return abs(value / wanted - 1) <= share


ALIGNED = [["n1", "n2", "n3"], ["n4", "n5", "n6"]]
STEPS_OF_SIX = 30 + 6 + 5 + 1 + 6 + 6 + 10 + 4


def check_equal(report):
    run = report["runs"][0]
    sound(run, STEPS_OF_SIX)
    share = report["settings"]["payload_share"]
    expect(report["settings"]["mtu"] == 9000 and near(share, 8948 / 9014, 1e-6), f"{report['settings']}")
    expect(report["nodes"] == ["n1", "n2", "n3", "n4", "n5", "n6"], f"nodes {report['nodes']}")
    expect(report["link_rate_gbit"] == [0.5] * 6, f"links {report['link_rate_gbit']}")
    expect(len({str(halves(cut)) for cut in run["cuts"]}) == len(run["cuts"]) == 10, f"{len(run['cuts'])} cuts")
    for cut in run["cuts"]:
        expect(0.95 * 3.0 <= cut["gbit_per_second"] <= 1.02 * 3.0, f"{halves(cut)}: {cut['gbit_per_second']} Gbit/s")
        expect(near(cut["ideal_gbit_per_second"], 3.0 * share, 1e-6), f"ideal {cut['ideal_gbit_per_second']}")
    expect(run["bisection"]["of_ideal"] >= 0.95, f"{run['bisection']}")
    expect("is even" in run["verdict"], run["verdict"])
    for i, row in enumerate(run["pairs"]):
        expect([rate is None for rate in row] == [i == j for j in range(6)], f"row {i} of the matrix: {row}")


def equal_links(seconds="0.5", runs=2):
    """Six equal links of 500 Mbit/s: ten cuts of at least 95 % of 3.0 Gbit/s, called even; two runs agree within 5 %."""
    with Cluster("--link", "500mbit") as cluster:
        reports = [cluster.bisect("--seconds", seconds, "--link-rate", "500mbit") for _ in range(runs)]
        for report in reports:
            check_equal(report)
        for sum_ in (
            lambda run: run["all_to_all"]["gbit_per_second"],
            lambda run: sum(cut["gbit_per_second"] for cut in run["cuts"]),
            lambda run: sum(run["incast"]),
            lambda run: sum(run["outcast"]),
        ):
            values = [sum_(report) for report in reports]
            expect(max(values) <= 1.05 * min(values), f"runs differ: {values}")


def equal_links_quickly():
    """Six equal links of 500 Mbit/s in short steps: ten cuts of at least 95 % of 3.0 Gbit/s."""
    equal_links("0.2", 1)


def slow_node():
    """One node with 200 Mbit/s among 500: named, and its cuts are not blamed on the network."""
    with Cluster("--link", "500mbit,n3=200mbit") as cluster:
        run = cluster.bisect("--seconds", "0.3", "--link-rate", "500mbit,n3=200mbit")["runs"][0]
        sound(run, STEPS_OF_SIX)
        slowest = run["slowest"]
        expect(slowest["node"] == slowest["nic"]["node"] == "n3" and "n3" in slowest["link"], f"slowest: {slowest}")
        for direction in "send", "receive":
            rate = slowest[f"node_{direction}_gbit_per_second"]
            expect(near(rate, 0.2, 0.06), f"n3 {direction}s {rate} Gbit/s")
        expect("Node n3 is slow: it sends" in run["verdict"], run["verdict"])
        expect("oversubscribed" not in run["verdict"], run["verdict"])


def slow_direction():
    """One node that sends at 150 Mbit/s and receives at 500: node and direction are named, from the ordered matrix."""
    with Cluster("--link", "500mbit,n2=150mbit/500mbit") as cluster:
        run = cluster.bisect("--seconds", "0.3", "--link-rate", "500mbit,n2=150mbit/500mbit")["runs"][0]
        sound(run, STEPS_OF_SIX)
        slowest = run["slowest"]
        expect((slowest["nic"]["node"], slowest["nic"]["direction"]) == ("n2", "send"), f"slowest: {slowest}")
        expect(near(slowest["nic"]["gbit_per_second"], 0.15, 0.06), f"slowest: {slowest}")
        expect(slowest["link"][0] == "n2" and slowest["link_back_gbit_per_second"] > 0.45, f"slowest: {slowest}")
        expect("Node n2 is slow in one direction: it sends only" in run["verdict"], run["verdict"])


def thin_uplink(cuts="all", steps=STEPS_OF_SIX):
    """Two switches with 600 Mbit/s between them: 1.2 Gbit/s within 5 %, its halves named; all-to-all does not show it."""
    with Cluster("--link", "1gbit", "--switches", "2", "--uplink", "600mbit") as cluster:
        run = cluster.bisect("--seconds", "0.5", "--link-rate", "1gbit", "--cuts", cuts)["runs"][0]
        sound(run, steps)
        least = run["bisection"]
        expect(halves(least) == ALIGNED, f"the smallest is {halves(least)}")
        expect(near(least["gbit_per_second"], 1.2, 0.05), f"{least['gbit_per_second']} Gbit/s instead of 1.2")
        others = min(cut["gbit_per_second"] for cut in run["cuts"] if halves(cut) != ALIGNED)
        expect(others > 2 * least["gbit_per_second"], f"another cut has {others} Gbit/s")
        every = run["all_to_all"]["gbit_per_second"]
        expect(every > 3.5 * least["gbit_per_second"], f"all-to-all moves {every} Gbit/s")
        expect("etween {n1 n2 n3} and {n4 n5 n6} the network is oversubscribed" in run["verdict"], run["verdict"])


def thin_uplink_searched():
    """A thin uplink between two switches is found by searching for the smallest cut only, too."""
    thin_uplink("minimum", STEPS_OF_SIX)


def agrees_with_iperf3():
    """A pair alone is what iperf3 sees on the same link, within 5 %."""
    with Cluster("--link", "400mbit", nodes=2) as cluster:
        run = cluster.bisect("--seconds", "1", "--link-rate", "400mbit")["runs"][0]
        server, client = (cluster.member(name)["pid"] for name in ("n1", "n2"))
        address = cluster.member("n1")["address"].rsplit(":", 1)[0]
        with subprocess.Popen(
            ["nsenter", "--net", "--target", str(server), "iperf3", "--server", "--one-off", "--bind", address],
            stdout=subprocess.DEVNULL,
        ) as listening:
            try:
                time.sleep(0.5)
                done = subprocess.run(
                    ["nsenter", "--net", "--target", str(client), "iperf3", "--client", address, "--time", "2",
                     "--omit", "1", "--len", "256K", "--json"],
                    capture_output=True, text=True, timeout=hang_limit(30), check=False,
                )  # fmt: skip
            finally:
                listening.kill()
        theirs = json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9
        ours = run["pairs"][1][0]
        expect(near(ours, theirs, 0.05), f"we see {ours} Gbit/s, iperf3 {theirs}")


def engines_together():
    """Two engines in one report, each with a whole run; two workers per node and streams between all of them."""
    with Cluster("--link", "500mbit", "--workers", "2", nodes=3) as cluster:
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.html")
            report = cluster.bisect(
                "--seconds", "0.1", "--engine", "epoll,uring", "--streams", "4", "--html", page
            )
            with open(page, encoding="utf-8") as file:
                text = file.read()
        expect([run["engine"] for run in report["runs"]] == ["epoll", "uring"], str(report["runs"])[:300])
        for run in report["runs"]:
            sound(run, 6 + 3 + 3 + 1 + 3 + 3 + 3 + 4)
            expect(run["bisection"]["ideal_gbit_per_second"] is None, "a virtual card has a rate")
        expect(report["link_rate_gbit"] == [None] * 3, f"{report['link_rate_gbit']}")
        for outside in "http://", "https://", "src=", "@import", "url(":
            allowed = "http://www.w3.org/2000/svg"
            expect(outside not in text.replace(allowed, ""), f"the page refers to something outside: {outside}")
        cluster.next_job_works()


def node_killed():
    """A node that dies in the middle ends the job with its name and what had been measured; the next job works."""
    with Cluster(nodes=4) as cluster:
        with subprocess.Popen(
            cluster.command("bisect", "--seconds", "0.3", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        ) as running:  # fmt: skip
            running.stderr.readline()  # the schedule is told: it begins
            time.sleep(1.5)
            os.kill(cluster.member("n3")["pid"], signal.SIGKILL)
            out, err = running.communicate(timeout=hang_limit(30))
        expect(running.returncode == 1, f"exit code {running.returncode}: {err}")
        report = strict(out)
        expect("n3" in report["error"] and report["status"] == "failed", f"{report['error']}")
        run = report["runs"][0]
        expect(0 < run["steps_measured"] < run["steps"], f"{run['steps_measured']} steps were measured")
        expect("did not finish" in run["verdict"], run["verdict"])
        cluster.up()
        cluster.next_job_works()


def interrupted():
    """Ctrl-C gives the object of what there is, also when that is nothing; wrong words and no cluster do, too."""
    with Cluster(nodes=3) as cluster:
        for delay in 0, 1.5:
            with subprocess.Popen(
                cluster.command("bisect", "--seconds", "1", "--json"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                text=True, start_new_session=True,
            ) as running:  # fmt: skip
                time.sleep(delay)
                line = running.stderr.readline()  # once the schedule is told, signals are ours
                os.killpg(running.pid, signal.SIGINT)
                out, _ = running.communicate(timeout=hang_limit(30))
            expect(running.returncode == 4, f"exit code {running.returncode} after {line}")
            report = strict(out)
            expect(report["status"] == "cancelled", f"{report['status']}")
        cluster.next_job_works()
        report = cluster.bisect("--link-rate", "1gbit,n7=2gbit", code=2)
        expect("n7" in report["error"], f"{report['error']}")
        for words, code in (
            (["--seconds", "0"], 2), (["--cuts", "none"], 2), (["--engine", "quick"], 2), (["--engine", "epoll,,uring"], 2),
            (["--link-rate", "1"], 2), (["--html", "/nonexistent/page"], 2),
            (["--streams", "0"], 2), (["--coordinator", "127.0.0.1:9"], 3),
        ):  # fmt: skip
            done = subprocess.run(
                cluster.command("bisect", "--json", *words),
                capture_output=True, text=True, timeout=hang_limit(30), check=False,
            )  # fmt: skip
            expect(done.returncode == code, f"{words}: exit code {done.returncode}")
            expect(strict(done.stdout)["runs"] == [], f"{words}: {done.stdout}")


def figures():
    """bench/plots draws every figure of a report, with whole SVG; and says what is wrong of what is none."""
    with Cluster("--link", "500mbit", nodes=4) as cluster, tempfile.TemporaryDirectory() as folder:
        report = cluster.bisect("--seconds", "0.1", "--link-rate", "500mbit")
        plots = os.path.join(ROOT, "bench", "plots")
        words = [plots, "-", "--out", folder]
        done = subprocess.run(words, input=json.dumps(report), capture_output=True, text=True, timeout=hang_limit(120), check=False)
        expect(done.returncode == 0, f"plots: {done.stderr}")
        expect(len(os.listdir(folder)) == 3, f"figures: {os.listdir(folder)}")
        for name in os.listdir(folder):
            tree = xml.etree.ElementTree.parse(os.path.join(folder, name))
            expect(len(list(tree.iter())) > 30, f"{name} is empty")
        for text in "", "{}", '{"runs": []}':
            done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=hang_limit(60), check=False)
            expect(done.returncode == 1 and done.stderr.startswith("bench/plots: "), f"{text}: {done.stderr}")


def one_node():
    """A cluster of one node has no network: the request is wrong, and says so."""
    with Cluster(nodes=1) as cluster:
        report = cluster.bisect(code=2)
        expect("one node" in report["error"], f"{report['error']}")


PROOFS = [
    equal_links, equal_links_quickly, slow_node, slow_direction, thin_uplink, thin_uplink_searched, agrees_with_iperf3,
    engines_together, node_killed, interrupted, figures, one_node,
]  # fmt: skip
OF_RATES = {equal_links, equal_links_quickly, slow_node, slow_direction, thin_uplink, thin_uplink_searched, agrees_with_iperf3}


def prove(proof):
    """Whether it holds; one of rates may try again."""
    tries = TRIES if proof in OF_RATES else 1
    for attempt in range(1, tries + 1):
        try:
            proof()
            return True
        except (Wrong, subprocess.SubprocessError) as why:
            print(f"{proof.__name__}, try {attempt} of {tries}: {why}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "release", "bin"), help="where the programs are")
    parser.add_argument("proof", nargs="*", choices=[[], *(proof.__name__ for proof in PROOFS)], help="default: all")
    arguments = parser.parse_args()
    os.environ["MILLRACE_BIN"] = os.path.abspath(arguments.bin)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = [proof for proof in PROOFS if not arguments.proof or proof.__name__ in arguments.proof]
    failed = 0
    for proof in chosen:
        began = time.monotonic()
        held = prove(proof)
        failed += not held
        print(f"{'ok' if held else 'FAILED'} ({time.monotonic() - began:.1f} s): {proof.__doc__.splitlines()[0]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
