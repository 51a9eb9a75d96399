"""Memory budgets, clusters side by side, each node's own files, and what a shuffle promises about its parts."""
import collections
import hashlib
import os
import re
import shutil
import struct
import threading
import time

import cases_faults
import cases_input
import checksum
import tables
from lab import Cluster, expect, expect_equal

MEMORY = 64 << 20


def rss(cluster):
    return {member: cases_faults.rss_bytes(cluster.pid(member)) for member in cluster.members()[1:]}


def memory_budget(cluster):
    """A table that does not fit: an error that says how much was wanted, and no node ever grew beyond its budget."""
    words = ["join", "--left", "gen:rows=6M,row=64,keys=unique", "--right", "gen:rows=8M,row=64", "--on", "key=key"]
    before, most, done = rss(cluster), collections.Counter(), threading.Event()

    def watch():
        while not done.wait(0.01):
            for member, bytes_now in rss(cluster).items():
                most[member] = max(most[member], bytes_now - before[member])
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        report = cluster.job(*words, code=1)
    finally:
        done.set()
        watcher.join()
    expect_equal(report["error_code"], "NO_MEMORY", "error_code of: " + report["error"])
    expect(any(name in report["error"] for name in ("n1", "n2", "n3")), "no node is named:", report["error"])
    expect(re.search(r"need \d+ bytes more, which makes (about|at least) \d+ in all", report["error"]), "it is not said how much was needed:", report["error"])
    expect("table" in report["error"], "it is not said for what:", report["error"])
    for member, grown in most.items():
        expect(grown < MEMORY + (12 << 20) or cluster.lab.patience > 1, member, "grew by", grown, "bytes")
    for size in ("100", "100k"):
        source = "gen:rows=%s,row=16" % size
        small = cluster.job("join", "--left", source, "--right", source, "--on", "key=key")
        expect(small["rows"] > 0, "no rows")
    if cluster.lab.patience == 1:  # sanitizers keep what was freed
        cluster.settle("memory given back",
                       lambda: next((m for m, b in rss(cluster).items() if b > before[m] + (24 << 20)), None))


def memory_of_buffers(cluster):
    """Buffers alone beyond the budget; then the most that fits runs, and streams any number of rows through it."""
    report = cluster.job("shuffle", "--in", "gen:rows=1M,row=64", "--by", "key", "--chunk-bytes", "4Mi", "--chunks",
                         "64", code=1)
    expect_equal(report["error_code"], "NO_MEMORY", "error_code of: " + report["error"])
    expect(re.search(r"need \d+ bytes more, which makes (about|at least) \d+ in all", report["error"]), "it is not said how much was needed:", report["error"])
    report = cluster.job("shuffle", "--in", "gen:rows=20M,row=64", "--by", "key")
    expect_equal(report["rows"], 20 * 10**6, "rows")
    expect(report["peak_memory_bytes"] <= MEMORY, "peak", report["peak_memory_bytes"])
    report = cluster.job("join", "--left", "gen:rows=3k,row=100,keys=one", "--right", "gen:rows=3k,row=100,keys=one",
                         "--on", "key=key", "--select", "left.key")
    expect_equal(report["rows"], 9 * 10**6, "rows")
    cases_input.runs(cluster)


def wide_requests(cluster):
    """What a request asks of sizes is an error or an answer, never the end of a node: rows larger than the smallest
    block of a table, preloaded; a result row whose text was reckoned in 32 bits; a budget that says what is needed."""
    for seed in range(1, 5):
        report = cluster.job("shuffle", "--in", "gen:rows=40,row=5347738,preload=1,seed=%d" % seed, "--by", "key",
                             "--into", "table")
        expect_equal(report["table_rows"], 40, "rows in tables")
    select = ",".join(["payload"] * 128 + ["key"] * 384)
    cluster.fail("shuffle", "--in", "gen:rows=1,row=16777180", "--by", "key", "--select", select, "--out",
                 cluster.lab.path("wide"), code=2, says=["16777216 bytes"], not_left=cluster.lab.path("wide"))
    cluster.fail("shuffle", "--in", "gen:rows=1,row=8388620", "--by", "key", "--out", cluster.lab.path("wide"), code=2,
                 says=["16777216 bytes", "--select"], not_left=cluster.lab.path("wide"))
    path = cluster.lab.path("nine-mib.csv")
    with open(path, "wb") as file:
        file.write(b"k:int64,a:string\n1,%s\n" % (b"x" * (9 << 20)))
    cluster.fail("shuffle", "--in", path, "--by", "k", "--select", "a,a", "--out", cluster.lab.path("wide"), code=1,
                 says=["16777216 bytes", "select fewer columns"], not_left=cluster.lab.path("wide"))
    report = cluster.job("join", "--left", "gen:rows=20M,row=100", "--right", "gen:rows=40M,row=100", "--on", "key=key",
                         code=1)
    said = re.search(r"makes about (\d+) in all", report["error"])
    expect(said and int(said[1]) > 20 * 10**6 * 100 / cluster.nodes, "not what all would have needed:", report["error"])


def side_by_side(cluster):
    """Another cluster of the same shape: both answer right at the same time, and the death of one is not felt by the
    other."""
    other = Cluster(cluster.lab, "other", nodes=cluster.nodes, via=cluster.via).up()
    try:
        words = ["join", "--left", "gen:rows=200k,row=64,seed=1", "--right", "gen:rows=400k,row=32,keys=uniform:200000",
                 "--on", "key=key"]
        wanted = cluster.job(*words)
        jobs = [place.start(*words) for place in (cluster, other, cluster, other)]
        for job in jobs:
            report = job.finish()
            for key in ("rows", "checksum"):
                expect_equal(report[key], wanted[key], key)
        job, _ = cases_faults.start_endless(cluster, "shuffle")
        endless, _ = cases_faults.start_endless(other, "shuffle")
        cases_faults.send_signal(other, "n1", cases_faults.signal.SIGKILL)
        expect("n1" in endless.finish(1)["error"], "n1 is not named")
        other.down()
        time.sleep(1.5)
        expect_equal(cases_faults.job_state(cluster)["state"], "running", "state of the job beside")
        job.process.send_signal(cases_faults.signal.SIGINT)
        job.finish(4)
        cluster.expect_ready()
        cases_input.runs(cluster)
    finally:
        if other in cluster.lab.clusters:
            other.down()


# Each node's own files -----------------------------------------------------------------------------------------------

def shards_bin(lab):
    """Programs whose nodes each see a folder of their own at WORK/shard: bound there in a mount namespace."""
    folder = lab.path("bin-shards")
    os.makedirs(folder, exist_ok=True)
    os.makedirs(lab.path("shard"), exist_ok=True)
    if not os.path.exists(folder + "/millrace"):
        os.symlink(lab.bin + "/millrace", folder + "/millrace")
    with open(folder + "/millraced", "w") as file:
        file.write('#!/bin/sh\n[ "$1" = node ] || exec "%s/millraced" "$@"\nmkdir -p "%s/shard-$3"\n'
                   'exec unshare --mount sh -c \'mount --bind "$1" "$2" && shift 2 && exec "$@"\' millraced '
                   '"%s/shard-$3" "%s/shard" "%s/millraced" "$@"\n' % (lab.bin, lab.work, lab.work, lab.work, lab.bin))
    os.chmod(folder + "/millraced", 0o755)
    return folder


def own_files(cluster):
    """Every node has another part of the table at the same path; one has nothing."""
    lab = cluster.lab
    left, right = tables.plain_tables(31, 3000, 900, 700)
    answer = tables.sqlite_join(left, right, [("id", "key")])
    for i in range(cluster.nodes):
        folder = lab.path("shard-n%d" % (i + 1))
        part = tables.Table(left.columns, left.rows[i::cluster.nodes])
        part.write(folder + "/left-%d.csv" % i, seed=i)
        if i == 0:
            right.write(folder + "/right.csv", seed=9)
        else:
            tables.Table(right.columns, []).write(folder + "/right.csv")
    here = lab.path("shard")
    for words in (["--left", "local:%s/left-*.csv" % here, "--right", "local:%s/right.csv" % here],):
        for settings in ([], ["--morsel-bytes", "4Ki", "--engine", "epoll"]):
            report = cluster.job("join", *words, "--on", "id=key", *settings)
            expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), "the answer")
            scanned = [node["rows_scanned"] for node in report["nodes"]]
            expect(min(scanned) >= len(left.rows) // cluster.nodes, "a node did not read its own files:", scanned)
    # Mixed with a shared table, and written: every node sees the output folder.
    shared = right.write(lab.path("shared-right.csv"))
    out = lab.fresh("local-out")
    report = cluster.job("join", "--left", "local:%s/left-*.csv" % here, "--right", shared, "--on", "id=key", "--out",
                         out)
    expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), "the answer")
    expect_equal("%d %016x" % checksum.checksum(out), "%d %s" % (answer.rows, answer.checksum), "the parts")
    shutil.rmtree(out)
    # A file that is bad on one node only.
    with open(lab.path("shard-n2/left-9.csv"), "wb") as file:
        file.write(left.header() + b"oops,word,1\n")
    cluster.fail("join", "--left", "local:%s/left-*.csv" % here, "--right", shared, "--on", "id=key", code=1,
                 says=["n2", "left-9.csv:2:", "oops"])
    os.unlink(lab.path("shard-n2/left-9.csv"))
    # Schemas that differ between nodes.
    with open(lab.path("shard-n3/right.csv"), "wb") as file:
        file.write(b"key:int32?,label:string\n")
    cluster.fail("join", "--left", shared, "--right", "local:%s/right.csv" % here, "--on", "key=key", code=1,
                 says=["n3"])
    cases_input.runs(cluster)


def same_files_as_own(cluster):
    """Where nodes share a file system, local: is what each of them sees: everything as often as there are nodes."""
    lab = cluster.lab
    left, right = tables.plain_tables(32, 800, 300, 250)
    answer = tables.sqlite_join(left, right, [("id", "key")])
    paths = left.write(lab.path("own-left.csv")), right.write(lab.path("own-right.csv"))
    report = cluster.job("join", "--left", "local:" + paths[0], "--right", paths[1], "--on", "id=key")
    expect_equal(report["rows"], answer.rows * cluster.nodes, "rows")
    expect_equal(report["checksum"], "%016x" % (int(answer.checksum, 16) * cluster.nodes % 2**64), "checksum")
    cluster.fail("join", "--left", "local:" + lab.path("none-*.csv"), "--right", paths[1], "--on", "id=key", code=1,
                 says=["none-*.csv"])
    cases_input.runs(cluster)


def many_workers(cluster):
    """200 workers make 16,000 connections on one machine: late is who makes none, not who makes many. Twice, and after
    that nothing is open."""
    def descriptors():
        return [len(os.listdir("/proc/%d/fd" % cluster.pid("n%d" % (i + 1)))) for i in range(cluster.nodes)]
    cases_input.runs(cluster)
    before = descriptors()
    for _ in range(2):
        report = cluster.job("join", "--left", "gen:rows=200k,row=32", "--right", "gen:rows=200k,row=16,seed=2", "--on",
                             "key=key", "--select", "left.key")
        expect_equal(report["rows"], 200000, "rows")
    cluster.settle("all connections closed", lambda: None if descriptors() <= before else "%s descriptors, %s before" % (
        descriptors(), before))


# Shuffles ------------------------------------------------------------------------------------------------------------

def partitions(cluster):
    """Every key is in one part only, NULLs too are all there, and what was written reads back the same."""
    lab = cluster.lab
    left, _ = tables.edge_tables(41)
    cases = [(left, "id"), (left, "name"), (tables.composite_tables(42)[0], "a,b,c"), (tables.zipf_tables(43)[0], "k")]
    for table, by in cases:
        path = table.write(lab.path("shuffle.csv"), seed=4)
        kept = [table.names.index(name) for name in by.split(",")]
        out, again = lab.fresh("shuffled"), lab.fresh("again")
        report = cluster.job("shuffle", "--in", path, "--by", by, "--out", out)
        header, parts = tables.read_parts(out)
        owner = {}
        for part, rows in parts:
            for row in rows:
                key = tuple(row[i] for i in kept)
                if None not in key:
                    expect_equal(owner.setdefault(key, part), part, "part of %r" % (key,))
        expect_equal(collections.Counter(row for part, rows in parts for row in rows), collections.Counter(table.rows),
                     "rows")
        answer = tables.Answer(table.kinds, table.rows)
        expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), "the answer")
        expect_equal(sum(node["rows"] for node in report["nodes"]), len(table.rows), "rows of the nodes")
        second = cluster.job("shuffle", "--in", out, "--by", by, "--out", again)
        expect_equal((second["rows"], second["checksum"]), (answer.rows, answer.checksum), "read back")
        expect_equal(digest_parts(again), digest_parts(out), "the parts, again")
        shutil.rmtree(out)
        shutil.rmtree(again)


def digest_parts(folder):
    """Each part's rows, whatever their order."""
    return [(part, hashlib.sha256(repr(sorted(map(repr, rows))).encode()).hexdigest())
            for part, rows in tables.read_parts(folder)[1]]


def fixed_rows(cluster):
    """Fixed-width output, read back with its schema declared."""
    lab = cluster.lab
    schema = "k:int64,f:float64?,d:decimal(9,3)?,day:date?,ok:bool?,tag:binary(3)"
    with open(lab.path("fixed.csv"), "wb") as file:
        file.write(b"k,f,d,day,ok,tag\n")
        for i in range(5000):
            file.write(b"%d,%s,%s,%s,%s,\\x%06x\n" % (
                i % 700 - 300, b"" if i % 11 == 0 else b"%d.5" % i, b"" if i % 7 == 0 else b"%d.125" % (i - 2500),
                b"" if i % 5 == 0 else b"20%02d-01-%02d" % (i % 100, i % 28 + 1),
                (b"", b"true", b"false")[i % 3], i))
    out = lab.fresh("fixed")
    words = ["--by", "k", "--schema", schema]
    first = cluster.job("shuffle", "--in", lab.path("fixed.csv"), *words, "--out", out, "--output-format", "bin")
    names = sorted(name for name in os.listdir(out) if name.startswith("part-"))
    expect(all(name.endswith(".bin") for name in names), "parts are", names)
    sizes = [os.path.getsize("%s/%s" % (out, name)) for name in names]
    expect_equal(sum(sizes), first["output_bytes"], "output_bytes")
    row_bytes = 8 + 8 + 16 + 4 + 1 + 3 + 1  # and a byte of four null bits
    expect_equal(sum(sizes), 5000 * row_bytes, "bytes of 5000 rows")
    owner = {}
    for name in names:
        with open("%s/%s" % (out, name), "rb") as file:
            data = file.read()
        for at in range(0, len(data), row_bytes):
            key = struct.unpack_from("<q", data, at)[0]
            expect_equal(owner.setdefault(key, name), name, "part of %d" % key)
    again = cluster.job("shuffle", "--in", out + "/part-*.bin", *words)
    plain = cluster.job("shuffle", "--in", lab.path("fixed.csv"), *words)
    for report in (again, plain):
        expect_equal((report["rows"], report["checksum"]), (first["rows"], first["checksum"]), "the answer")
    joined = [cluster.job("join", "--left", source, "--left-schema", schema, "--right", source, "--right-schema",
                          schema, "--on", "k=k,day=day") for source in (lab.path("fixed.csv"), out)]
    expect_equal(joined[0]["checksum"], joined[1]["checksum"], "a join of the parts")
    shutil.rmtree(out)
