#!/usr/bin/env python3
"""Proves in emulated guests with the newest kernel what this machine's kernel or hardware cannot show. See --help."""
import argparse
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "cluster"))
import kernel as kernels  # noqa: E402
import machine as machines  # noqa: E402
from lab import ROOT, Lab, hang_limit  # noqa: E402
import cases  # noqa: E402
import cases_rig as rig_cases  # noqa: E402


class Rig:
    """Makes guests for groups of cases; the Lab counts the cases and closes what is open when we end."""

    def __init__(self, lab, kernel):
        self.lab, self.kernel, self.archives = lab, kernel, {}
        generated, self.cut = lab.path("generated"), lab.path("tables")
        subprocess.run([os.path.join(ROOT, "deploy", "make-package-data"), "--generate", generated], check=True,
                       stdout=subprocess.DEVNULL, timeout=hang_limit(120))
        os.mkdir(self.cut)
        self.tables = cases.Tables(generated, self.cut)

    def archive(self, kernel):
        if kernel.folder not in self.archives:
            path = self.lab.fresh("root")
            cases.build_archive(kernel, self.lab.bin, self.cut, path)
            self.archives[kernel.folder] = path
        return self.archives[kernel.folder]

    def guest(self, kernel=None, **options):
        kernel = kernel or self.kernel
        guest = machines.Machine(kernel, self.archive(kernel), self.lab.work, patience=self.lab.patience, **options)
        guest.lab = self.lab
        self.lab.closers.append(guest.close)
        return guest

    def group(self, words, listed, guests=1, **options):
        """Cases, each (words, function, arguments...), in one guest or several that are joined."""
        listed = [("%s: %s" % (words, case[0]), *case[1:]) for case in listed]
        if not any(self.lab.wanted(case[0]) for case in listed):
            return
        if guests > 1 and (reason := machines.link_missing()):
            for case in listed:
                self.lab.skip(case[0], reason)
            return
        link, booted = None, []
        try:
            if guests > 1:
                link = machines.Link(guests)
                self.lab.closers.append(link.close)
            for port in range(guests):
                booted.append(self.guest(link=link, port=port, **options))
                booted[-1].boot()
        except machines.Broken as error:
            self.lab.failed += 1
            print("FAILED: %s: no guest\n  %s" % (words, error), flush=True)
        else:
            for case in listed:
                self.lab.case(case[0], case[1], booted if guests > 1 else booted[0], *case[2:])
        finally:
            for owner in [*booted, link] if link else booted:
                owner.close()


def engine_cases(full):
    """What the engines must do on this kernel. The longer form has every rung of the ladder."""
    if full:
        return [("the engines' conformance suite", cases.test_program, "test_net_conformance", 400)]
    return [("the conformance suite: " + rung, cases.test_program, "test_net_conformance", 60, rung + ":*")
            for rung in ("epoll", "uring", "uring-send-zc", "uring-recv-zc")]


def receive_cases(full):
    cost = ("what receiving costs", cases.receive_counts, "epoll", "uring-multishot", "uring-bundle", "uring-recv-zc")
    return [("zero-copy receive, piece by piece", cases.zero_copy_receive),
            *[("rows of %d bytes over pieces of a page" % row, cases.wide_rows, row) for row in (1001, 4093)],
            *([cost] if full else [])]


def groups(rig, full):
    tables, version = rig.tables, rig.kernel.version
    rig.group("kernel %s" % version, [
        *engine_cases(full),
        *receive_cases(full),
        ("io_uring forbidden to everyone", cases.forbidden, 2, 0, tables),
        ("io_uring forbidden to a user", cases.forbidden, 1, 65534, tables),
        ("six nodes: io_uring, epoll, zero-copy receive", cases.six_nodes, tables),
    ])
    rig.group("two memory nodes", [
        *[("a worker's memory is where processor %d is" % cpu, cases.memory_is_local, cpu, "auto") for cpu in (0, 1)],
        ("an area is where processor 1 is", cases.memory_is_local, 1, "uring-recv-zc"),
    ], numa_nodes=2)
    rig.group("two guests joined by virtio-net", [
        ("the cluster starts", cases.start_joined),
        ("a join over the link", cases.joined, tables, ["auto", "epoll"]),
        ("zero-copy sends are not copied", cases.sent_without_copy, "epoll-zc", "uring-recv-zc"),
        ("the cluster ends", cases.end_joined),
    ], guests=2, memory_mib=768)
    rig.group("the rig", [
        ("exit codes and output come back", rig_cases.answers_come_back),
        ("a check ends at its limit", rig_cases.time_limit),
        ("a process that stays is told", rig_cases.left_behind),
    ])
    if full:
        more_groups(rig)


def more_groups(rig):
    tables, version, lab = rig.tables, rig.kernel.version, rig.lab
    rig.group("kernel %s, lossy links" % version, [
        ("six nodes, 5 ms and 1 % lost", cases.six_nodes, tables, "5ms", "1%"),
    ])
    rig.group("three guests joined by virtio-net", [
        ("the cluster starts", cases.start_joined),
        ("a join over the link", cases.joined, tables, ["auto", "uring", "epoll"]),
        ("the cluster ends", cases.end_joined),
    ], guests=3, memory_mib=768)
    rig.group("two memory nodes, kernel %s" % version, engine_cases(True), cpus=4, numa_nodes=2)
    older_kernels(rig)
    lab.case("the rig: a guest that hangs", rig_cases.hang, rig)
    lab.case("the rig: a guest that panics", rig_cases.panic, rig)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        lab.case("the rig: %s leaves nothing" % number.name, rig_cases.interrupted, lab, number, "suite: epoll", 1)
    if machines.link_missing() is None:
        lab.case("the rig: SIGTERM leaves no link", rig_cases.interrupted, lab, signal.SIGTERM, "virtio", 2)
    lab.case("the rig: several fetch a kernel at once", rig_cases.fetched_at_once, lab)
    lab.case("the rig: a kernel without a known signature", rig_cases.unsigned_is_refused, lab)


def older_kernels(rig):
    """The oldest kernel that io_uring is used on, and one before it."""
    for suite, listed in (
            ("bookworm", [("the conformance suite: " + engine, cases.test_program, "test_net_conformance", 90,
                           engine + ":*") for engine in ("epoll", "uring")]),
            ("bullseye", [("io_uring is too old", cases.too_old, rig.tables),
                          ("the conformance suite: epoll", cases.test_program, "test_net_conformance", 90,
                           "epoll:*")])):
        try:
            kernel = kernels.find(suite=suite)
        except kernels.Unavailable as error:
            for case in listed:
                rig.lab.skip("%s's kernel: %s" % (suite, case[0]), str(error))
        else:
            rig.group("kernel %s" % kernel.version, listed, kernel=kernel)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "portable", "bin"),
                        help="folder of the programs, built for any CPU (%(default)s)")
    parser.add_argument("--full", action="store_true", help="the longer form")
    parser.add_argument("--patience", type=int, default=1, help="time limits are this many times longer")
    parser.add_argument("only", nargs="*", metavar="PATTERN", help="only cases with this in their name")
    arguments = parser.parse_args()
    lab = Lab(arguments.bin, arguments.only, arguments.patience)
    try:
        reason = machines.missing()
        kernel = None if reason else kernels.find()
    except kernels.Unavailable as error:
        reason = str(error)
    if reason:
        lab.skip("emulated guests", reason)
        lab.finish()
        return 0
    groups(Rig(lab, kernel), arguments.full)
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
