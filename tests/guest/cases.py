"""The checks that run in guests. A case's first argument is the guest, or the guests; inside/ has what runs there."""
import csv
import os
import re
import struct
import subprocess

import xxhash

from lab import ROOT, expect, expect_equal, examine_report, strict_json
from initramfs import Archive, Modules

INSIDE = os.path.join(ROOT, "tests", "guest", "inside")
# What checks and deploy/cluster call, beside all of coreutils; for the rest there is busybox.
PROGRAMS = ["busybox", "awk", "bash", "flock", "grep", "ip", "sed", "setpriv", "setsid", "taskset", "tc", "unshare"]
MODULES = ["bridge", "veth", "virtio_net", "sch_fq", "sch_netem", "sch_tbf", "tcp_bbr"]
BINARIES = ["millrace", "millraced", "tests/test_net_conformance", "tests/test_net_fallback",
            "tests/test_net_uring_recv_zc"]
PACKAGES, DEPENDS = 8000, 40000  # rows of the tables


def programs_of(package):
    listed = subprocess.run(["dpkg", "-L", package], check=True, capture_output=True, text=True, timeout=30).stdout
    return [os.path.basename(path) for path in listed.split("\n") if os.path.dirname(path) in ("/bin", "/usr/bin")]


def build_archive(kernel, bin, tables, path):
    """The root of every guest."""
    archive, modules = Archive(), Modules(kernel)
    for module in MODULES:
        modules.add(module)
    archive.modules(modules)
    archive.file("/init", os.path.join(INSIDE, "init"))
    archive.programs(*PROGRAMS, *programs_of("coreutils"))
    archive.link("/bin/busybox", "/usr/bin/busybox")
    for name in ("sh", "bash"):
        archive.link("/bin/" + name, "/usr/bin/bash")
    for name in BINARIES:
        archive.binary("/opt/millrace/bin/" + os.path.basename(name), os.path.join(bin, name))
    for folder, place in ((INSIDE, "/checks"), (os.path.join(ROOT, "deploy", "lib"), "/opt/millrace/deploy/lib"),
                          (tables, "/tables")):
        for name in os.listdir(folder):
            if name != "init":
                archive.file("%s/%s" % (place, name), os.path.join(folder, name))
    archive.file("/opt/millrace/deploy/cluster", os.path.join(ROOT, "deploy", "cluster"))
    for name in ("passwd", "group", "hosts"):
        archive.text("/etc/" + name, {"hosts": "127.0.0.1 localhost\n"}.get(name, "root:x:0:0::/root:/bin/sh\n"))
    archive.write(path)


class Tables:
    """The beginning of the generated package index as two CSV files, and what their join must be."""

    def __init__(self, source, folder):
        packages = self.cut(source + "/packages.csv", folder + "/packages.csv", PACKAGES)
        depends = self.cut(source + "/depends.csv", folder + "/depends.csv", DEPENDS)
        versions = {}
        for row in packages:
            versions.setdefault(row["package"], []).append(row["version"])
        self.rows = self.checksum = 0
        for row in depends:
            for version in versions.get(row["dependency"], ()):
                values = [value.encode() for value in (row["package"], row["dependency"], version)]
                self.rows += 1
                self.checksum += xxhash.xxh3_64_intdigest(
                    b"".join(struct.pack("<BI", 1, len(value)) + value for value in values))
        self.checksum = "%016x" % (self.checksum % 2**64)
        expect(self.rows > DEPENDS / 10, "the tables have only", self.rows, "matches")

    @staticmethod
    def cut(source, target, rows):
        with open(source) as file:
            lines = [line for _, line in zip(range(rows + 1), file)]
        with open(target, "w") as file:
            file.writelines(lines)
        lines[0] = ",".join(word.split(":")[0] for word in lines[0].strip().split(",")) + "\n"
        return list(csv.DictReader(lines))

    def expect_joined(self, report, nodes):
        expect_equal((report["rows"], report["checksum"]), (self.rows, self.checksum), "the join's rows and checksum")
        expect(report["verified"], "the bytes were not verified")
        expect_equal(len(report["nodes"]), nodes, "nodes")
        expect(nodes == 1 or report["bytes_sent"] > 0, "nothing was sent")


def run(guest, *words, limit=60, leave=False):
    """Runs a check that must succeed; its log."""
    result = guest.run(*words, limit=limit, leave=leave)
    expect(result.code == 0, "%s ended with %d%s after %.1f s:\n%s" % (
        " ".join(map(str, words)), result.code, " (its time was over)" if result.code in (124, 137) else "",
        result.seconds, result.log[-6000:]))
    return result.log


def reports(log, codes):
    """The reports in a log, examined; there must be one for each exit code."""
    found = [strict_json(line.removeprefix("report ")) for line in log.splitlines() if line.startswith("report {")]
    expect_equal(len(found), len(codes), "number of reports")
    for report, code in zip(found, codes):
        examine_report(report, code)
    return found


# The engines ---------------------------------------------------------------------------------------------------------

def failed_tests(log):
    """What a cmocka program said of the tests that failed."""
    return "".join(part for part in re.findall(r"^\[ RUN      \].*?(?=^\[ RUN|^\[===|\Z)", log, re.M | re.S)
                   if "[       OK ]" not in part and "[  SKIPPED ]" not in part)


def test_program(guest, name, limit, filter=None):
    """A cmocka program: every test of it must pass, and there must be some."""
    result = guest.run("/opt/millrace/bin/" + name, *([filter] if filter else []), limit=limit)
    passed = result.log.count("[       OK ]")
    expect(result.code == 0, "%s ended with %d after %.1f s and %d passed tests:\n%s" % (
        name, result.code, result.seconds, passed, failed_tests(result.log)[-6000:] or result.log[-3000:]))
    expect(passed > 0, name, "ran no test:", result.log[-2000:])
    guest.lab.note("%d tests passed, %d skipped" % (passed, result.log.count("[  SKIPPED ]")))


def zero_copy_receive(guest):
    """Streams byte for byte, areas and queues that run out, ends of streams, leaks: nothing may be skipped here."""
    log = run(guest, "/opt/millrace/bin/test_net_uring_recv_zc", limit=150)
    expect("SKIPPED" not in log, "something was skipped:", log[-2000:])
    guest.lab.note("%d tests passed" % log.count("[       OK ]"))


def wide_rows(guest, row):
    """Rows that the edges of the area's pieces cut at every offset: the answer is the same as with other engines, and
    of a cut row nothing is copied but the key, if that is what the edge cuts."""
    engines = ("epoll", "uring-multishot", "uring-recv-zc")
    found = reports(run(guest, "/checks/wide-rows", "join", row, *engines, limit=200), (0,) * len(engines))
    for engine, report in zip(engines, found):
        expect_equal((report["engine"], report["rows"], report["checksum"]),
                     (engine, found[0]["rows"], found[0]["checksum"]), "engine and answer")
        expect(report["stitched_bytes"] <= 8 * report["rows_cut"], report["stitched_bytes"], "bytes were copied of",
               report["rows_cut"], "rows")
        expect_equal(report["joined_bytes"], 0, "bytes joined for the output")
    area = found[-1]
    expect("recv-zc" in area["features"], "features are", area["features"], area["engine_reason"])
    expect(area["rows_cut"] * 4096 > area["bytes_received"] / 2, "only", area["rows_cut"], "rows were cut")
    guest.lab.note("%d bytes copied of %d cut rows in %d bytes received" % (
        area["stitched_bytes"], area["rows_cut"], area["bytes_received"]))


def receive_counts(guest, *engines):
    """What a shuffle of rows of 1 KiB takes per GiB received: printed, not judged."""
    found = reports(run(guest, "env", "BYTES=20000000", "/checks/wide-rows", "shuffle", 1024, *engines,
                        limit=200), (0,) * len(engines))
    print("  per GiB received:  " + "".join("%18s" % engine for engine in engines))
    for words, keys in COUNTS.items():
        values = [sum(report[key] if key in report else report["counters"][key] for key in keys) * 2**30 /
                  report["bytes_received"] for report in found]
        print("  %-19s" % words + "".join("%18.0f" % value for value in values))


COUNTS = {"enters": ["enters"], "completions": ["completions"], "receives": ["receives"],
          "flushes": ["zc_receive_flushes"], "rows cut": ["rows_cut"], "bytes copied": ["stitched_bytes", "joined_bytes"]}


def forbidden(guest, level, uid, tables):
    cause = "io_uring_disabled=%d" % level
    log = run(guest, "/checks/forbidden", level, uid, limit=120)
    automatic, epoll, refused, again = reports(log, (0, 0, 1, 0))
    for report in (automatic, epoll, again):
        tables.expect_joined(report, 2)
        expect_equal(report["engine"], "epoll", "engine")
    for report in (automatic, again):
        expect(cause in report["engine_reason"], "the reason is:", report["engine_reason"])
    expect(cause in refused["error"], "the error is:", refused["error"])


# Clusters ------------------------------------------------------------------------------------------------------------

def six_nodes(guest, tables, delay=None, loss=None):
    """Without a card, zero-copy receive runs in the kernel's own mode for tests: it copies, and says so."""
    shape = ["env", "DELAY=" + delay, "LOSS=" + loss] if delay else []
    engines = ("uring", "epoll", "uring-recv-zc")
    found = reports(run(guest, *shape, "/checks/six-nodes", *engines, limit=240), (0,) * len(engines))
    expect_equal(tuple(report["engine"] for report in found), engines, "engines")
    for report in found:
        tables.expect_joined(report, 6)
    area = found[-1]
    counters = area["counters"]
    expect("recv-zc" in area["features"], "features are", area["features"], area["engine_reason"])
    expect(counters["zc_receives"] > 0, "nothing was received into the area")
    expect_equal(counters["zc_receive_copied"], counters["zc_receives"], "receives counted as copied")
    guest.lab.note("%d receives into the area" % counters["zc_receives"])


def too_old(guest, tables):
    """A kernel with an io_uring that is older than what we need: epoll, and the report says why."""
    report, = reports(run(guest, "/checks/six-nodes", "auto", limit=120), (0,))
    tables.expect_joined(report, 6)
    expect(report["engine"] == "epoll" and "too old" in report["engine_reason"], report["engine"],
           "because", report["engine_reason"])


def start_joined(guests):
    """Makes one cluster of several guests."""
    for number, guest in enumerate(guests, 1):
        run(guest, "/checks/join-node", number, len(guests), limit=30, leave=True)


def end_joined(guests):
    for guest in guests:
        run(guest, "/checks/join-end", limit=30)


def joined(guests, tables, engines):
    found = reports(run(guests[0], "/checks/join-tables", *engines, limit=120, leave=True), (0,) * len(engines))
    for engine, report in zip(engines, found):
        tables.expect_joined(report, len(guests))
        if engine != "auto":
            expect_equal(report["engine"], engine, "engine")
    guests[0].lab.note("auto took %s (%s)" % (found[0]["engine"], " ".join(found[0]["features"])))


def sent_without_copy(guests, *engines):
    """virtio-net's queue takes our pages as they are. The kernel may copy now and then, such as what it sends again;
    what it does as a rule shows in the share, and in that no connection gave it up."""
    plain, *others = reports(run(guests[0], "/checks/join-rows", "epoll", *engines, limit=120, leave=True),
                             (0,) * (len(engines) + 1))
    for engine, report in zip(engines, others):
        sends, copied, off = (report["counters"][key] for key in ("zc_sends", "zc_copied", "zc_off"))
        expect_equal((report["engine"], report["checksum"]), (engine, plain["checksum"]), "engine and checksum")
        expect("send-zc" in report["features"], "features are", report["features"], report["engine_reason"])
        guests[0].lab.note("%s: %d zero-copy sends, %d copied" % (engine, sends, copied))
        expect(sends >= 20, "only", sends, "zero-copy sends")
        expect(copied <= sends / 10 and off == 0, copied, "of", sends, "copied;", off, "connections gave it up")


# Memory nodes --------------------------------------------------------------------------------------------------------

def memory_is_local(guest, cpu, engine):
    """Processor N belongs to memory node N. What a pinned worker fills must lie on its own."""
    log = run(guest, "/checks/numa", cpu, engine, limit=90)
    reports(log, (0,))
    pages = {int(words[1]): int(words[2]) for words in map(str.split, log.splitlines()) if words[:1] == ["pages"]}
    guest.lab.note("pages on node 0: %d, on node 1: %d" % (pages[0], pages[1]))
    expect(pages[cpu] > 4096, "a table of 25 MiB fills more than", pages[cpu], "pages")
    expect(pages[cpu] > 0.95 * (pages[0] + pages[1]), "memory lies elsewhere:", pages)
