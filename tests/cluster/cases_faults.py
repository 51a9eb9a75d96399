"""Nodes that die, stop, cannot be reached or are missing, a coordinator that dies, clients that go away: the job ends
by name and in time, everything is free again, and the next job runs."""
import collections
import os
import random
import signal
import subprocess
import sys
import time

import cases_input
from lab import ROOT, Wrong, expect, expect_equal

# Jobs that would take minutes: one that only moves rows, one that writes, one that builds and one that probes.
ENDLESS = {
    "shuffle": ["shuffle", "--in", "gen:rows=4000M,row=64", "--by", "key"],
    "output": ["shuffle", "--in", "gen:rows=400M,row=256", "--by", "key", "--output-format", "bin"],
    "build": ["join", "--left", "gen:rows=12M,row=16,keys=uniform:1000000", "--right", "gen:rows=4000M,row=16", "--on",
              "key=key"],
    "probe": ["join", "--left", "gen:rows=100k,row=16,keys=one", "--right", "gen:rows=100k,row=16,keys=one", "--on",
              "key=key"],
}
FAILS_WITHIN, FREE_WITHIN = 2.0, 3.0  # on a quiet machine


def send_signal(cluster, member, number):
    os.kill(cluster.pid(member), number)


def fd_count(pid):
    return len(os.listdir("/proc/%d/fd" % pid))


def rss_bytes(pid):
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Baseline:
    """What idle nodes hold, to be compared after a failure."""

    def __init__(self, cluster):
        self.cluster = cluster
        cases_input.runs(cluster)
        time.sleep(0.05)
        self.held = {}
        for i in range(cluster.nodes):
            pid = cluster.pid("n%d" % (i + 1))
            self.held["n%d" % (i + 1)] = (pid, fd_count(pid), rss_bytes(pid))

    def excess(self):
        """What is still held, or None. Nodes that were started again meanwhile have nothing to compare."""
        slack = (16 << 20) if self.cluster.lab.patience == 1 else (400 << 20)  # sanitizers keep what was freed
        for name, (pid, fds, rss) in self.held.items():
            try:
                now_fds, now_rss = fd_count(pid), rss_bytes(pid)
            except OSError:
                continue
            if now_fds > fds:
                return "%s has %d open files, %d before" % (name, now_fds, fds)
            if now_rss > rss + slack:
                return "%s has %d MiB, %d before" % (name, now_rss >> 20, rss >> 20)
        for job in self.cluster.client("jobs")["jobs"]:
            if job["state"] in ("running", "queued"):
                return "job %d is %s" % (job["job"], job["state"])
        return None

    def expect_free(self, since, folder=None):
        """Soon after the fault."""
        self.cluster.settle("all free again", self.excess, FREE_WITHIN)
        if folder:
            self.cluster.settle("no output", lambda: output_left(self.cluster, folder), FREE_WITHIN)
        self.cluster.lab.note("all free %.2f s after it" % (time.monotonic() - since))


def output_left(cluster, folder):
    try:
        cluster.expect_no_output(folder)
    except Wrong as error:
        return str(error)
    return None


def job_state(cluster):
    jobs = cluster.client("jobs")["jobs"]
    return jobs[-1] if jobs else {"state": "none", "phase": ""}


def await_phase(cluster, job, phase, seconds=20):
    """Until the cluster's last job is in that phase."""
    deadline = time.monotonic() + cluster.lab.limit(seconds)
    while True:
        state = job_state(cluster)
        if state["state"] == "running" and state["phase"] == phase:
            return
        if job.process.poll() is not None:
            job.finish(99)
        expect(time.monotonic() < deadline, "the job does not get to %s: %s" % (phase, state))
        time.sleep(0.01)


def start_endless(cluster, kind, *settings):
    folder = cluster.lab.fresh("fault") if kind == "output" else None
    job = cluster.start(*ENDLESS[kind], *settings, *(["--out", folder] if folder else []))
    await_phase(cluster, job, "probing" if kind == "probe" else "building")
    time.sleep(0.1)
    return job, folder


def fails(cluster, job, since, names, code=1, within=FAILS_WITHIN):
    """The job's end: with that exit code, one of the names in the error, in time."""
    report = job.finish(code, 20)
    took = time.monotonic() - since
    cluster.lab.note("failed after %.2f s" % took)
    expect(any(name in report["error"] for name in names), "none of %s in: %s" % (names, report["error"]))
    expect(took <= cluster.lab.limit(within), "the job failed after %.2f s: %s" % (took, report["error"]))
    return report


def repaired(cluster):
    """The missing node starts again, the next job runs."""
    cluster.up()
    cases_input.runs(cluster)


def node_killed(cluster, kind, engine, victim="n2"):
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, kind, "--engine", engine)
    since = time.monotonic()
    send_signal(cluster, victim, signal.SIGKILL)
    report = fails(cluster, job, since, [victim])
    expect_equal(report["error_code"], "NODE_LOST", "error_code")
    baseline.expect_free(since, folder)
    refused = cluster.job("shuffle", "--in", "gen:rows=10", "--by", "key", code=3)
    expect(victim in refused["error"], "the missing node is not named:", refused["error"])
    repaired(cluster)


def node_killed_at_any_time(cluster, times, seed):
    """Whatever it was doing: the job succeeds, or fails by name, or finds the cluster incomplete; it ends, in time.
    There is no output then, or all of it, also when the node was lost after the decision to publish."""
    rng = random.Random(seed)
    outcomes = collections.Counter()
    for i in range(times):
        folder = cluster.lab.fresh("any")
        words = rng.choice([
            ["shuffle", "--in", "gen:rows=100k,row=64", "--by", "key", "--out", folder, "--output-format", "bin"],
            ["join", "--left", "gen:rows=100k,row=32", "--right", "gen:rows=300k,row=16", "--on", "key=key"],
            ["join", "--left", "gen:rows=10k,row=32", "--right", "gen:rows=10k,row=16", "--on", "key=key", "--out",
             folder, "--output-format", "bin"]])
        victim = "n%d" % (rng.randrange(cluster.nodes) + 1)
        job = cluster.start(*words, "--engine", rng.choice(["uring", "epoll"]))
        delay = rng.random() * rng.choice([0.01, 0.03, 0.1])
        time.sleep(delay)
        send_signal(cluster, victim, signal.SIGKILL)
        since = time.monotonic()
        what = "%s, %s killed after %.3f s" % (" ".join(words), victim, delay)
        try:
            code = job.process.wait(timeout=cluster.lab.limit(10))
        except subprocess.TimeoutExpired:
            raise Wrong("no end: " + what) from None
        expect(code in (0, 1, 3), "exit code", code, what)
        expect(time.monotonic() - since <= cluster.lab.limit(FAILS_WITHIN), "it took too long:", what)
        report = job.finish(code)
        expect(code == 0 or victim in report["error"], "not named:", what, report["error"])
        decided = code != 0 and "decided" in report["error"]
        outcomes["decided" if decided else code] += 1
        cluster.up()
        if "--out" in words and (code == 0 or decided):
            size = 100000 * 64 if words[0] == "shuffle" else 10000 * 48
            cluster.settle(what, lambda: incomplete(folder, size), FREE_WITHIN)
        else:
            cluster.settle(what, lambda: output_left(cluster, folder), FREE_WITHIN)
        cases_input.runs(cluster)
    cluster.lab.note("outcomes: %s" % dict(outcomes))


def incomplete(folder, size):
    """What is wrong with a published folder of fixed-width parts, or None."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    if "_SUCCESS.json" not in names:
        return "no _SUCCESS.json among %s" % names
    if any(name.startswith(".") for name in names):
        return "left behind: %s" % names
    found = sum(os.path.getsize("%s/%s" % (folder, name)) for name in names if name.startswith("part-"))
    return None if found == size else "the parts have %d bytes, not %d" % (found, size)


def node_stopped(cluster, kind, victim="n3"):
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, kind)
    since = time.monotonic()
    send_signal(cluster, victim, signal.SIGSTOP)
    try:
        fails(cluster, job, since, [victim])
        if folder:
            cluster.settle("no output", lambda: output_left(cluster, folder), FREE_WITHIN)
        refused = cluster.job("shuffle", "--in", "gen:rows=10", "--by", "key", code=3)
        expect(victim in refused["error"], "the stopped node is not named:", refused["error"])
    finally:
        send_signal(cluster, victim, signal.SIGCONT)
    since = time.monotonic()
    cluster.settle("the stopped node is back", lambda: not_ready(cluster))
    baseline.expect_free(since, folder)
    cases_input.runs(cluster)


def not_ready(cluster):
    missing = [member["name"] for member in cluster.status() if not member["ready"]]
    return "%s not ready" % missing if missing else None


def idle_node_stopped(cluster, victim="n1"):
    """Silent when the job comes: it fails by name, whether or not its silence was noticed before."""
    for wait in (0, 2.5):
        send_signal(cluster, victim, signal.SIGSTOP)
        try:
            time.sleep(wait)
            since = time.monotonic()
            job = cluster.start("shuffle", "--in", "gen:rows=1000", "--by", "key")
            code = job.process.wait(timeout=cluster.lab.limit(20))
            expect(code in (1, 3), "exit code", code)
            expect(time.monotonic() - since <= cluster.lab.limit(FAILS_WITHIN), "it took", time.monotonic() - since)
            expect(victim in job.finish(code)["error"], "not named")
        finally:
            send_signal(cluster, victim, signal.SIGCONT)
        cluster.settle("the stopped node is back", lambda: not_ready(cluster))
        cases_input.runs(cluster)


def coordinator_killed(cluster):
    """The client says that it cannot be reached; nodes live on and join the next one at the same place."""
    baseline = Baseline(cluster)
    nodes = {name: held[0] for name, held in baseline.held.items()}
    command, environment = process_words(cluster.pid("coordinator"))
    job, folder = start_endless(cluster, "output")
    since = time.monotonic()
    send_signal(cluster, "coordinator", signal.SIGKILL)
    report = job.finish(3, 20)
    took = time.monotonic() - since
    cluster.lab.note("ended after %.2f s" % took)
    expect(took <= cluster.lab.limit(FAILS_WITHIN), "the client ended after %.2f s" % took)
    expect(cluster.coordinator in report["error"], "the error is", report["error"])
    left = cluster.job("shuffle", "--in", "gen:rows=10", "--by", "key", code=3)
    expect(cluster.coordinator in left["error"], "the error is", left["error"])
    for name, pid in nodes.items():
        expect(os.path.exists("/proc/%d" % pid), name, "died with the coordinator")
    again = Coordinator(cluster, command)
    try:
        cluster.settle("all nodes are back", lambda: not_complete(cluster), 6)
        baseline.expect_free(time.monotonic(), folder)
        cases_input.runs(cluster)
        for name, pid in nodes.items():
            expect_equal(cluster.pid(name), pid, "pid of " + name)
    finally:
        again.end()
    cluster.down()
    cluster.up()


def not_complete(cluster):
    done = subprocess.run(cluster.command("nodes", "--json"), capture_output=True, timeout=cluster.lab.limit(20))
    return None if done.returncode == 0 else "nodes: %d %s" % (done.returncode, done.stderr.decode())


def process_words(pid):
    with open("/proc/%d/cmdline" % pid, "rb") as file:
        command = [word.decode() for word in file.read().split(b"\0")[:-1]]
    return command, None


class Coordinator:
    """A coordinator of our own at the place of the one that was killed, with the same state."""

    def __init__(self, cluster, command):
        self.log = open(cluster.lab.fresh("coordinator.log"), "wb")
        self.process = subprocess.Popen(cluster.within() + command, stdout=self.log, stderr=self.log)
        cluster.lab.clients.add(self.process)
        self.lab = cluster.lab

    def end(self):
        self.process.terminate()
        try:
            expect_equal(self.process.wait(timeout=self.lab.limit(10)), 0, "exit code of the coordinator")
        finally:
            self.process.kill()
            self.process.wait()
            self.lab.clients.discard(self.process)
            self.log.close()


def client_interrupted(cluster, kind, number):
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, kind)
    since = time.monotonic()
    job.process.send_signal(number)
    report = job.finish(4, 20)
    cluster.lab.note("ended after %.2f s" % (time.monotonic() - since))
    expect(time.monotonic() - since <= cluster.lab.limit(FAILS_WITHIN), "it took", time.monotonic() - since)
    expect_equal(report["error_code"], "CANCELLED", "error_code")
    cases_input.runs(cluster)
    expect_equal(cluster.client("jobs")["jobs"][-2]["state"], "cancelled", "state of the job")
    baseline.expect_free(since, folder)


def client_killed(cluster):
    """A job whose client is gone is stopped."""
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, "output")
    since = time.monotonic()
    job.process.kill()
    job.process.communicate()
    cluster.lab.clients.discard(job.process)
    baseline.expect_free(since, folder)
    cases_input.runs(cluster)


def jobs_queue(cluster):
    """Jobs of several clients run one after the other, each with its own answer; a queued one can be cancelled."""
    first, folder = start_endless(cluster, "shuffle")
    others = [cluster.start("shuffle", "--in", "gen:rows=%d" % (1000 + i), "--by", "key") for i in range(4)]

    def unqueued():
        states = [job["state"] for job in cluster.client("jobs")["jobs"]]
        return None if states.count("queued") == 4 else "jobs are " + " ".join(states)
    cluster.settle("all are queued", unqueued)
    others[1].process.send_signal(signal.SIGINT)
    others[1].finish(4)
    first.process.send_signal(signal.SIGINT)
    first.finish(4)
    for i in (0, 2, 3):
        expect_equal(others[i].finish()["rows"], 1000 + i, "rows")


# In network namespaces -----------------------------------------------------------------------------------------------

def in_namespace(cluster, member, *words):
    namespace = "millrace-%s-%s" % (cluster.name, member)
    done = subprocess.run(["ip", "-n", namespace, *words], capture_output=True, text=True)
    expect(done.returncode == 0, words, done.stderr)


def connection_refused(cluster):
    """n1 takes n2's address for its own, where nobody listens: its connections to n2 are refused."""
    baseline = Baseline(cluster)
    address = cluster.address("n2")
    in_namespace(cluster, "n1", "addr", "add", address + "/32", "dev", "lo")
    try:
        since = time.monotonic()
        fails(cluster, cluster.start(*ENDLESS["shuffle"]), since, ["n2"], 3)
        baseline.expect_free(since)
    finally:
        in_namespace(cluster, "n1", "addr", "del", address + "/32", "dev", "lo")
    cases_input.runs(cluster)


def path_unreachable(cluster):
    """n1 and n2 cannot reach each other; both reach the coordinator."""
    baseline = Baseline(cluster)
    for kind in ("prohibit", "blackhole"):
        for here, there in (("n1", "n2"), ("n2", "n1")):
            in_namespace(cluster, here, "route", "add", kind, cluster.address(there) + "/32")
        try:
            since = time.monotonic()
            report = fails(cluster, cluster.start(*ENDLESS["shuffle"]), since, ["n1", "n2"], 3)
            expect(report["error_code"] == "UNREACHABLE" and "alive" in report["error"], report["error"])
            baseline.expect_free(since)
        finally:
            for here, there in (("n1", "n2"), ("n2", "n1")):
                in_namespace(cluster, here, "route", "del", kind, cluster.address(there) + "/32")
        cases_input.runs(cluster)


def path_broken(cluster):
    """The same in the middle of a job."""
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, "shuffle")
    since = time.monotonic()
    for here, there in (("n1", "n2"), ("n2", "n1")):
        in_namespace(cluster, here, "route", "add", "blackhole", cluster.address(there) + "/32")
    try:
        # TCP alone shows it, by what it repeats in vain: the busier the machine was, the longer TCP waits.
        fails(cluster, job, since, ["n1", "n2"], within=8.0)
        baseline.expect_free(time.monotonic())
    finally:
        for here, there in (("n1", "n2"), ("n2", "n1")):
            in_namespace(cluster, here, "route", "del", "blackhole", cluster.address(there) + "/32")
    cases_input.runs(cluster)


class Break:
    """Breaks the paths of these pairs of nodes, both ways, as nearly at once as processes start; repair() undoes it."""

    def __init__(self, cluster, pairs):
        self.name, self.there = cluster.name, collections.defaultdict(list)
        address = {member["name"]: member["address"] for member in cluster.status()}
        for a, b in pairs:
            self.there[a].append(address[b])
            self.there[b].append(address[a])

    def change(self, verb):
        running = [(subprocess.Popen(["ip", "-n", "millrace-%s-%s" % (self.name, here), "-batch", "-"],
                                     stdin=subprocess.PIPE, text=True),
                    "".join("route %s blackhole %s/32\n" % (verb, address) for address in addresses))
                   for here, addresses in self.there.items()]
        for process, lines in running:
            process.communicate(lines)
            expect(process.returncode == 0, "ip -batch:", lines)

    def apply(self):
        self.change("add")

    def repair(self):
        self.change("del")


def busiest(cluster, seconds=0.5):
    """The node that used most of the processor meanwhile."""
    def ticks(name):
        with open("/proc/%d/stat" % cluster.pid(name)) as file:
            words = file.read().rsplit(")", 1)[1].split()
        return int(words[11]) + int(words[12])
    names = ["n%d" % (i + 1) for i in range(cluster.nodes)]
    before = {name: ticks(name) for name in names}
    time.sleep(seconds)
    return max(names, key=lambda name: ticks(name) - before[name])


def path_broken_at_a_closed_window(cluster, engine):
    """All rows have one key, so one worker is busy and the others wait to send to it. Nothing is unacknowledged then: only
    window probes without an answer tell that the path is broken."""
    baseline = Baseline(cluster)
    job = cluster.start("join", "--left", "gen:rows=400,row=16,keys=one", "--right", "gen:rows=4M,row=500,keys=one", "--on",
                        "key=key", "--select", "left.key,right.payload", "--engine", engine)
    await_phase(cluster, job, "probing")
    busy = busiest(cluster)
    other = "n1" if busy != "n1" else "n2"
    paths = Break(cluster, [(busy, other)])
    since = time.monotonic()
    paths.apply()
    try:
        report = fails(cluster, job, since, [busy], within=20.0)
        expect(other in report["error"], other, "is not named:", report["error"])
        baseline.expect_free(time.monotonic())
    finally:
        paths.repair()
    cases_input.runs(cluster)


def flap_at_the_end(cluster):
    """All paths break for a while, beginning when a job is about to end: that job ends, whatever it was doing, and the
    next one is right. Connections of the job before, which the kernel goes on to close, are nothing to it."""
    words = ["shuffle", "--in", "gen:rows=3M,row=64", "--by", "key"]
    usual = min(cluster.job(*words)["seconds"] for _ in range(3))
    names = ["n%d" % (i + 1) for i in range(cluster.nodes)]
    paths = Break(cluster, [(a, b) for a in names for b in names if a < b])
    ends = collections.Counter()
    for before_end in (0.08, 0.05, 0.03, 0.01):
        job = cluster.start(*words)
        time.sleep(max(0, usual - before_end))
        paths.apply()
        time.sleep(3.5)
        paths.repair()
        ends[job.process.wait(timeout=30 * cluster.lab.patience)] += 1
        job.finish(job.process.returncode)
        expect_equal(cluster.job(*words)["rows"], 3000000, "rows")
    cluster.lab.note("exit codes: %s" % dict(ends))


def link_down(cluster):
    """A node loses its network in the middle of a job and gets it back."""
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, "output")
    since = time.monotonic()
    in_namespace(cluster, "sw", "link", "set", "n2", "down")
    try:
        fails(cluster, job, since, ["n2"])
    finally:
        time.sleep(1)
        in_namespace(cluster, "sw", "link", "set", "n2", "up")
    cluster.settle("the node is back", lambda: not_ready(cluster), 8)
    # The kernel may go on for some seconds to say that it cannot reach a neighbour it did not find meanwhile.
    cluster.settle("the next job runs", lambda: run_or_why(cluster), 8)
    baseline.expect_free(time.monotonic(), folder)


def run_or_why(cluster):
    try:
        cases_input.runs(cluster)
    except Wrong as error:
        return str(error)
    return None


def connections_reset(cluster):
    """All connections between workers of n1 are reset in the middle of a job: it fails, everybody lives."""
    baseline = Baseline(cluster)
    job, folder = start_endless(cluster, "output")
    subprocess.run([*cluster.within("n1"), "ss", "-K", "dst", cluster.address("n2")], capture_output=True, check=True)
    since = time.monotonic()  # only now: ss looks for them for a second or two
    fails(cluster, job, since, ["n1", "n2"])
    baseline.expect_free(since, folder)
    cluster.expect_ready()
    cases_input.runs(cluster)


# Strangers -----------------------------------------------------------------------------------------------------------

def listening(pid):
    """host:port of every TCP socket on which that process listens."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % pid):
        try:
            target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = []
    with open("/proc/%d/net/tcp" % pid) as file:
        for line in file.readlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                host, port = words[1].split(":")
                found.append("%s:%d" % (".".join(str(byte) for byte in reversed(bytes.fromhex(host))), int(port, 16)))
    return found


def strangers(cluster, seconds, seed):
    """Garbage to every port of every daemon, first idle, then while jobs run."""
    baseline = Baseline(cluster)
    places = [place for member in cluster.members() for place in listening(cluster.pid(member))]
    expect(len(places) >= 1 + cluster.nodes * cluster.workers, "ports:", places)
    script = [*cluster.within(), sys.executable, os.path.join(ROOT, "tests", "cluster", "garbage.py"), str(seconds)]
    for busy in (False, True):
        process = subprocess.Popen([*script, str(seed + busy), *places], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        cluster.lab.clients.add(process)
        try:
            while busy and process.poll() is None:
                cases_input.runs(cluster)
                report = cluster.job("join", "--left", "gen:rows=50k,row=32,seed=1", "--right", "gen:rows=50k,seed=2",
                                     "--on", "key=key")
                expect_equal(report["rows"], 50000, "rows")
            out, _ = process.communicate(timeout=cluster.lab.limit(60))
            expect(process.returncode == 0, "garbage.py:", out.decode())
        finally:
            cluster.lab.clients.discard(process)
            process.kill()
            process.wait()
        cluster.expect_ready()
        cluster.settle("all free again", baseline.excess)
        cases_input.runs(cluster)
