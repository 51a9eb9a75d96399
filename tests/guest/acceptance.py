#!/usr/bin/env python3
"""Proves in emulated guests with the newest kernel what this machine's kernel or hardware cannot show. See --help."""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cluster"))
import kernel as kernels  # noqa: E402
import machine as machines  # noqa: E402
from lab import ROOT, Lab  # noqa: E402
import cases  # noqa: E402


class Rig:
    """Makes guests for groups of cases; the Lab counts the cases and closes what is open when we end."""

    def __init__(self, lab, kernel):
        self.lab, self.kernel = lab, kernel
        generated, cut = lab.path("generated"), lab.path("tables")
        subprocess.run([os.path.join(ROOT, "deploy", "make-package-data"), "--generate", generated], check=True,
                       stdout=subprocess.DEVNULL, timeout=120)
        os.mkdir(cut)
        self.tables = cases.Tables(generated, cut)
        self.archive = lab.path("root.cpio")
        cases.build_archive(kernel, lab.bin, cut, self.archive)

    def guest(self, **options):
        guest = machines.Machine(self.kernel, self.archive, self.lab.work, patience=self.lab.patience, **options)
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


def groups(rig, full):
    tables, version = rig.tables, rig.kernel.version
    rig.group("kernel %s" % version, [
        *engine_cases(full),
        ("io_uring forbidden to everyone", cases.forbidden, 2, 0, tables),
        ("io_uring forbidden to a user", cases.forbidden, 1, 65534, tables),
        ("six nodes: io_uring, epoll, zero-copy receive", cases.six_nodes, tables),
    ])
    rig.group("two memory nodes", [
        ("a worker's memory is where processor %d is" % cpu, cases.memory_is_local, cpu) for cpu in (0, 1)
    ], numa_nodes=2)
    rig.group("two guests joined by virtio-net", [
        ("the cluster starts", cases.start_joined),
        ("a join over the link", cases.joined, tables, ["auto", "epoll"]),
        ("zero-copy sends are not copied", cases.sent_without_copy, "epoll-zc", "uring-recv-zc"),
        ("the cluster ends", cases.end_joined),
    ], guests=2, memory_mib=768)
    if full:
        rig.group("kernel %s, lossy links" % version, [
            ("six nodes, 5 ms and 1 % lost", cases.six_nodes, tables, "5ms", "1%"),
        ])
        rig.group("three guests joined by virtio-net", [
            ("the cluster starts", cases.start_joined),
            ("a join over the link", cases.joined, tables, ["auto", "uring", "epoll"]),
            ("the cluster ends", cases.end_joined),
        ], guests=3, memory_mib=768)
        rig.group("two memory nodes, kernel %s" % version, engine_cases(full), cpus=4, numa_nodes=2)


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
        lab.skip("guests", reason)
        lab.finish()
        return 0
    groups(Rig(lab, kernel), arguments.full)
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
