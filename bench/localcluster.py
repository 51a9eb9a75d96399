"""What the measurements share: a local cluster for the time of a benchmark, jobs on it, medians, and iperf3 beside it."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEPLOY = os.path.join(ROOT, "deploy", "cluster")
MILLRACE = os.path.join(os.environ.get("MILLRACE_BIN", os.path.join(ROOT, "build", "release", "bin")), "millrace")


class Failed(Exception):
    """A step of the benchmark failed; the text says which and what it printed."""


def count(text):
    """An option's number from 1 on. argparse tells of any other, and ends with 2."""
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 on")
    return int(text)


def counts(text):
    return [count(word) for word in text.split(",")]


def amount(text):
    """An option's number above 0, perhaps with a fraction."""
    try:
        number = float(text)
    except ValueError:
        number = 0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return number


def run(command, timeout, **how):
    """Runs a command, returns its standard output; raises Failed with what it said. how: further words of subprocess.run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, **how)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{' '.join(command)}: no end after {timeout} s") from late
    if done.returncode != 0:
        # Errors are on standard error; with --json standard output has the whole object besides.
        raise Failed(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr or done.stdout}")
    return done.stdout


class Cluster:
    """`with Cluster(nodes=2) as cluster:` brings a local cluster up and takes it down again, whatever happens between."""

    def __init__(self, nodes, workers=1, via=None, engine=None):
        self.nodes = nodes
        self.via = via or ("netns" if os.geteuid() == 0 else "loopback")
        self.name = f"bench{os.getpid()}x{nodes}"
        # Nearly all of the machine, where a cluster beside other work would take half: relations are held in memory.
        memory = int(0.92 * memory_available_bytes()) // nodes
        self.options = ["--nodes", str(nodes), "--workers", str(workers), "--via", self.via, "--memory", str(memory)]
        if engine:
            self.options += ["--engine", engine]

    def __enter__(self):
        # A terminated benchmark unwinds like an interrupted one.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            run([DEPLOY, "up", "--name", self.name, *self.options], 60)
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_):
        self.down()

    def down(self):
        subprocess.run([DEPLOY, "down", "--name", self.name], capture_output=True, timeout=60, check=False)

    def job(self, *words, timeout=120):
        """Runs `millrace WORDS --json` on the cluster, returns its report."""
        out = run([DEPLOY, "run", "--name", self.name, "--", *words, "--json"], timeout)
        return json.loads(out)

    def namespace(self, node):
        return f"millrace-{self.name}-n{node}"

    def inside(self, node, *command):
        """The command that runs `command` where node number `node` lives."""
        prefix = ["ip", "netns", "exec", self.namespace(node)] if self.via == "netns" else []
        return [*prefix, *command]

    def address(self, node):
        """The host part of a node's address."""
        status = json.loads(run([DEPLOY, "status", "--name", self.name, "--json"], 20))
        for process in status:
            if process["name"] == f"n{node}":
                return process["address"].rsplit(":", 1)[0]
        raise Failed(f"no node n{node} in the cluster's status")


def iperf3(cluster, seconds=2):
    """GiB/s over both directions between nodes 1 and 2 (`iperf3 -l 1M --bidir`), or None where iperf3 is not installed."""
    if subprocess.run(["sh", "-c", "command -v iperf3"], capture_output=True, check=False).returncode != 0:
        return None
    address, port = cluster.address(1), "5301"
    server = subprocess.Popen(
        cluster.inside(1, "iperf3", "-s", "-1", "-B", address, "-p", port, "--idle-timeout", "20"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        client = cluster.inside(2, "iperf3", "-c", address, "-p", port, "-l", "1M", "--bidir", "-t", str(seconds), "--json")
        for congestion in (["-C", "cubic"], []):  # ours prefers cubic too: the same congestion control where it is allowed
            for _ in range(20):
                done = subprocess.run([*client, *congestion], capture_output=True, text=True, timeout=60, check=False)
                if "refused" not in done.stdout:
                    break
                time.sleep(0.05)
            if done.returncode == 0:
                end = json.loads(done.stdout)["end"]
                return (end["sum_received"]["bits_per_second"] + end["sum_received_bidir_reverse"]["bits_per_second"]) / 8 / 2**30
        raise Failed(f"iperf3: {done.stdout}{done.stderr}")
    finally:
        server.terminate()
        server.wait()


def median(values):
    return statistics.median(values)


def memory_available_bytes():
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def progress(text):
    """A line that is overwritten, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
