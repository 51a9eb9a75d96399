"""Nodes to which the kernel refuses io_uring say so and go on with epoll; nodes that have nothing to do, do nothing."""
import os
import sys
import time

import cases_input
from lab import ROOT, as_user, expect, expect_equal

IO_URING_SETUP, EPERM = 425, 1
MEMLOCK_BYTES = 64 << 10
JOB = ["join", "--left", "gen:rows=20k,row=32,seed=1", "--right", "gen:rows=50k,row=16,seed=2", "--on", "key=key"]
IDLE_NODES, IDLE_SECONDS, IDLE_WAKES, IDLE_SHARE = 6, 5.0, 200, 0.1


def under(lab, name, *prefix):
    """Programs whose nodes are started by these words."""
    folder = lab.path(name)
    os.makedirs(folder)
    os.symlink(lab.bin + "/millrace", folder + "/millrace")
    with open(folder + "/millraced", "w") as file:
        file.write('#!/bin/sh\n[ "$1" = node ] || exec "%s/millraced" "$@"\nexec %s "%s/millraced" "$@"\n'
                   % (lab.bin, " ".join(prefix), lab.bin))
    os.chmod(folder + "/millraced", 0o755)
    return folder


def without_uring(lab):
    """As in a container whose seccomp profile forbids it."""
    return under(lab, "bin-seccomp", sys.executable, ROOT + "/tests/cluster/forbid.py", str(EPERM), str(IO_URING_SETUP))


def without_locked_memory(lab):
    """An unprivileged user with little locked memory, who must be nobody else: the kernel counts it by user."""
    return as_user(lab, "bin-memlock", 1000000000 + os.getpid(), "prlimit", "--memlock=%d" % MEMLOCK_BYTES)


def log_lines(cluster, member, words):
    with open("%s/logs/%s" % (cluster.folder, member), errors="replace") as file:
        return [line for line in file if words in line]


def falls_back(cluster, causes):
    """Jobs that leave the choice run, on epoll; jobs that ask for a ring fail by name, and do no harm."""
    wanted = cluster.job(*JOB, "--engine", "epoll", "--verify")
    for engine in (None, "uring", "auto", "uring-naive", "uring-bundle", None):
        words = JOB + (["--engine", engine] if engine else []) + ["--verify"]
        if engine in (None, "auto"):
            report = cluster.job(*words)
            expect_equal((report["rows"], report["checksum"]), (wanted["rows"], wanted["checksum"]), "the answer")
            expect_equal(report["engine"], "epoll", "engine")
            told = report["engine_reason"]
        else:
            report = cluster.job(*words, code=1)
            told = report["error"]
            expect("node n" in told, "no node is named:", told)
        for cause in causes:
            expect(cause in told, "%s: not told %r: %s" % (engine, cause, told))
    for member in cluster.members()[1:]:
        lines = log_lines(cluster, member, "io_uring is not used")
        expect(len(lines) == 1, member, "says it", len(lines), "times:", *lines)
        expect("doctor" in lines[0], member, "does not say what to do:", lines[0])


def goes_on(cluster, causes):
    """Locked memory that is scarce, not absent, and shared by all processes of a user: which worker gets a ring is chance.
    Every job gives the right answer, or fails by node and cause; who has no ring says why, and so does a report on epoll."""
    wanted = cluster.job(*JOB, "--engine", "epoll", "--verify")
    for engine in (None, "uring", "auto", "uring-naive", "uring-bundle", None):
        run = cluster.start(*JOB, *(["--engine", engine] if engine else []), "--verify")
        report = run.finish(None)
        told = report["error"] or (report["engine_reason"] if report["engine"] == "epoll" else None)
        if report["error"]:
            expect(engine not in (None, "auto"), "a job that leaves the choice failed:", told)
            expect("node n" in told, "no node is named:", told)
        else:
            expect_equal((report["rows"], report["checksum"]), (wanted["rows"], wanted["checksum"]), "the answer")
        for cause in causes if told else []:
            expect(cause in told, "%s: not told %r: %s" % (engine, cause, told))
    lines = [line for member in cluster.members()[1:] for line in log_lines(cluster, member, "io_uring is not used")]
    expect(lines, "eight workers of a user with 64 KiB have a ring each")
    for line in lines:
        expect("doctor" in line, "does not say what to do:", line)


def running(pid):
    """What all its threads have run, in seconds, and how often they have gone to sleep."""
    seconds, sleeps = 0, 0
    for thread in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as file:
            seconds += int(file.read().split()[0]) / 1e9
        with open("/proc/%d/task/%s/status" % (pid, thread)) as file:
            sleeps += int(next(line for line in file if line.startswith("voluntary_ctxt_switches")).split()[1])
    return seconds, sleeps


def idle(cluster, engine):
    """After a job a cluster beats its hearts and does nothing else: its threads wake up that often, which no machine
    changes, and none of them spins, which would be all of a core."""
    cluster.job(*JOB, "--engine", engine)
    time.sleep(0.5)
    pids = [cluster.pid(member) for member in cluster.members()]
    before, begin = [running(pid) for pid in pids], time.monotonic()
    time.sleep(IDLE_SECONDS)
    passed = time.monotonic() - begin
    after = [running(pid) for pid in pids]
    shares = [(now[0] - then[0]) / passed for now, then in zip(after, before)]
    wakes = [(now[1] - then[1]) / passed for now, then in zip(after, before)]
    expect(all(share > 0 for share in shares), "a daemon does not even beat its heart:", shares)
    cluster.lab.note("%.0f wakes a second, %.2f %% of a core" % (sum(wakes), 100 * sum(shares)))
    expect(sum(wakes) < IDLE_WAKES, "wakes a second:", dict(zip(cluster.members(), wakes)))
    expect(sum(shares) < IDLE_SHARE * cluster.lab.patience, "of a core:", dict(zip(cluster.members(), shares)))
    cases_input.runs(cluster)
