#!/usr/bin/env python3
"""Soaks a local cluster: random jobs on random rungs and options, one after the other, with nodes killed and jobs
cancelled at random times. Every job that succeeds gives the rows and the checksum of the first time; every other one
ends in time, with the exit code and the name that its fault deserves; and at the end the daemons that were never killed
hold no more descriptors, threads or memory than after a first round of all rungs. The seed is printed and can be given
again (the order of events is then the same, their timing is the machine's)."""
import argparse
import collections
import os
import random
import signal
import subprocess
import sys
import time

from cases_faults import fd_count, rss_bytes
from lab import ROOT, Cluster, Lab, Wrong, expect, expect_equal

RUNGS = ["auto", "epoll", "epoll-zc", "uring-naive", "uring-defer", "uring-fixed", "uring-multishot", "uring-bundle",
         "uring-send-zc", "uring-recv-zc", "uring"]
OPTIONS = {
    "epoll-zc": ["+zc-always"],
    "uring-naive": ["+coop-taskrun"],
    "uring-multishot": ["+napi=20us", "+min-wait=200us", "+huge-pages"],
    "uring-bundle": ["+sqpoll", "+incremental"],
    "uring-send-zc": ["+zc-always"],
}
SIZES = [
    [], [], ["--verify"],
    ["--frame-bytes", "4Ki", "--frames-per-lane", "1", "--chunk-bytes", "4Ki", "--chunks", "2"],
    ["--frame-bytes", "1Mi", "--chunks", "2", "--verify"],
    ["--socket", "send-buffer=4Ki,recv-buffer=64Ki", "--verify"],
]
JOBS = {
    "shuffle": ["shuffle", "--in", "gen:rows=400k,row=64,seed=1", "--by", "key"],
    "wide": ["shuffle", "--in", "gen:rows=20k,row=4096,seed=2", "--by", "key"],
    "join": ["join", "--left", "gen:rows=100k,row=32,seed=3", "--right", "gen:rows=300k,row=16,seed=4", "--on",
             "key=key"],
    "skewed": ["join", "--left", "gen:rows=1k,row=128,keys=unique", "--right",
               "gen:rows=200k,row=64,keys=uniform:1000,seed=5", "--on", "key=key"],
    "output": ["shuffle", "--in", "gen:rows=100k,row=128,seed=6", "--by", "key", "--output-format", "bin"],
}
# What a job meets, and how often.
FATES = {"nothing": 12, "node killed": 2, "interrupted": 2, "client killed": 1}
ENDS_WITHIN, JOB_TIMEOUT, FREE_WITHIN, EARLY = 3.0, 60, 5.0, 0.2
RSS_SLACK = 16 << 20


def thread_count(pid):
    return len(os.listdir("/proc/%d/task" % pid))


class Soak:
    def __init__(self, lab, cluster, rng):
        self.lab, self.cluster, self.rng = lab, cluster, rng
        self.answers, self.outcomes, self.rungs = {}, collections.Counter(), set()
        self.held = {}

    def draw_engine(self):
        rung = self.rng.choice(RUNGS)
        return rung + self.rng.choice(["", *OPTIONS.get(rung, [])])

    def examine(self, name, report, words):
        found = (report["rows"], report["checksum"])
        expect_equal(found, self.answers.setdefault(name, found), "rows and checksum of " + " ".join(words))
        self.rungs.add(report["engine"])

    def words(self, name, engine, sizes):
        words = [*JOBS[name], "--engine", engine, *sizes]
        return words + (["--out", self.lab.fresh("out")] if name == "output" else [])

    def warm_up(self):
        """Every job on every rung, with every option and size once: whatever daemons keep for good, they have now."""
        engines = [rung + option for rung in RUNGS for option in ["", *OPTIONS.get(rung, [])]]
        jobs = list(JOBS)
        for i in range(max(len(engines), len(jobs) * len(SIZES))):
            name = jobs[i % len(jobs)]
            words = self.words(name, engines[i % len(engines)], SIZES[(i // len(jobs)) % len(SIZES)])
            self.examine(name, self.cluster.job(*words), words)
        time.sleep(0.5)
        for member in ["coordinator", *self.survivors()]:
            pid = self.cluster.pid(member)
            self.held[member] = (pid, fd_count(pid), thread_count(pid), rss_bytes(pid))

    def survivors(self):
        """Nodes that are never killed: they meet every fault of the others."""
        return ["n1"]

    def excess(self):
        slack = RSS_SLACK * (1 if self.lab.patience == 1 else 25)  # sanitizers keep what was freed
        for member, (pid, fds, threads, rss) in self.held.items():
            for what, now, before in (("descriptors", fd_count(pid), fds), ("threads", thread_count(pid), threads),
                                      ("bytes", rss_bytes(pid), rss + slack)):
                if now > before:
                    return "%s has %d %s, after the first round it may have %d" % (member, now, what, before)
        return None

    def end_of(self, job, fate, victim, since):
        """Waits for the job's end and examines it. Returns its report; None: it had not begun."""
        try:
            code = job.process.wait(timeout=self.lab.limit(JOB_TIMEOUT))
        except subprocess.TimeoutExpired:
            raise Wrong("%s: no end" % fate) from None
        if code == -signal.SIGINT and fate == "interrupted":  # before the client was ready to tell anybody
            out, err = job.process.communicate()
            self.lab.clients.discard(job.process)
            expect(not out and since - job.begin < self.lab.limit(EARLY), "the client died of Ctrl-C:", err)
            self.outcomes["interrupted at once"] += 1
            return None
        report = job.finish(code)
        expect(code in {"nothing": (0,), "node killed": (0, 1, 3), "interrupted": (0, 4)}[fate], "exit code", code)
        if code not in (0, 4):
            expect(victim in report["error"], "the lost node is not named:", report["error"])
        if code != 0:
            took = time.monotonic() - since
            expect(took <= self.lab.limit(ENDS_WITHIN), "it took", took, "s to end after its fault")
        self.outcomes["%s, exit code %d" % (fate, code)] += 1
        return report

    def step(self):
        name, engine, sizes = self.rng.choice(list(JOBS)), self.draw_engine(), self.rng.choice(SIZES)
        fate = self.rng.choices(list(FATES), FATES.values())[0]
        delay = self.rng.random() * self.rng.choice([0.02, 0.1, 0.4])
        victim = "n%d" % (2 + self.rng.randrange(self.cluster.nodes - 1))
        words = self.words(name, engine, sizes)
        try:
            job = self.cluster.start(*words)
            if fate != "nothing":
                time.sleep(delay)
            since = time.monotonic()
            if fate == "node killed":
                os.kill(self.cluster.pid(victim), signal.SIGKILL)
            elif fate == "interrupted":
                job.process.send_signal(signal.SIGINT)
            elif fate == "client killed":
                job.process.kill()
                job.process.communicate()
                self.lab.clients.discard(job.process)
                self.outcomes[fate] += 1
            if fate != "client killed":
                report = self.end_of(job, fate, victim, since)
                if report is not None and report["exit_code"] == 0:
                    self.examine(name, report, words)
            if fate == "node killed":
                self.cluster.up()
        except Wrong as error:
            raise Wrong("%s\n  in: %s; %s %s after %.3f s" % (error, " ".join(words), fate, victim, delay)) from None

    def run(self, seconds):
        self.warm_up()
        begin, steps = time.monotonic(), 0
        while time.monotonic() - begin < seconds:
            self.step()
            steps += 1
        self.cluster.settle("all given back", self.excess, FREE_WITHIN)
        self.cluster.expect_ready()
        for name in JOBS:
            words = self.words(name, "auto", [])
            self.examine(name, self.cluster.job(*words), words)
        for member, (pid, *_) in self.held.items():
            expect_equal(self.cluster.pid(member), pid, "pid of " + member)
        expect(len(self.rungs) >= min(5, steps), "only these rungs were met:", sorted(self.rungs))
        self.lab.note("%d jobs: %s" % (steps, ", ".join("%d %s" % (count, what) for what, count in
                                                         sorted(self.outcomes.items()))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.environ.get("MILLRACE_BIN", os.path.join(ROOT, "build/release/bin")))
    parser.add_argument("--seconds", type=float, default=120, help="how long, after the first round (120)")
    parser.add_argument("--seed", type=int, default=None, help="of the jobs and their fates (by the clock)")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="workers a node (1)")
    parser.add_argument("--patience", type=int, default=1, help="factor for all time limits (sanitizers)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() & 0xffffffff
    print("seed %d" % seed, flush=True)
    lab = Lab(arguments.bin, (), arguments.patience)
    cluster = Cluster(lab, "soak", nodes=arguments.nodes, workers=arguments.workers)
    try:
        cluster.up()
        soak = Soak(lab, cluster, random.Random(seed))
        lab.case("soak of %g s, seed %d" % (arguments.seconds, seed), soak.run, arguments.seconds, cluster=cluster)
        lab.case("the cluster ends and leaves nothing", lab.end, cluster)
    finally:
        lab.close()
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
