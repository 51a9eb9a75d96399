"""The same rows and the same checksum whatever the number of nodes and workers, the engine and the sizes."""
import collections
import itertools
import os
import shutil
import subprocess

import checksum
import tables
from lab import ROOT, Wrong, expect, expect_equal


class Question:
    """A join with its answer by sqlite. The files are written once, for all clusters."""

    def __init__(self, lab, name, pair, on, select=None, **style):
        self.name = name
        left, right = pair
        folder = lab.path("data")
        os.makedirs(folder, exist_ok=True)
        self.left = left.write("%s/%s-left.csv" % (folder, name), seed=1, **style)
        self.right = right.write("%s/%s-right.csv" % (folder, name), seed=2, **style)
        self.answer = tables.sqlite_join(left, right, on, select)
        self.scanned = (len(left.rows), len(right.rows))
        self.words = ["join", "--left", self.left, "--right", self.right, "--on",
                      ",".join("%s=%s" % pair for pair in on)]
        if select:
            self.words += ["--select", ",".join(select)]

    def examine(self, report):
        expect_equal(report["rows"], self.answer.rows, "rows of " + self.name)
        expect_equal(report["checksum"], self.answer.checksum, "checksum of " + self.name)
        expect_equal((report["rows_scanned_left"], report["rows_scanned_right"]), self.scanned, "rows scanned")

    def ask(self, cluster, *settings):
        report = cluster.job(*self.words, *settings)
        try:
            self.examine(report)
        except Wrong as error:
            raise Wrong("%s with %s" % (error, " ".join(settings))) from None
        return report

    def compare_all(self, cluster, *settings):
        """The whole output, as a multiset, with sqlite's, and the checksum of the parts."""
        out = cluster.lab.fresh("out")
        report = self.ask(cluster, "--out", out, *settings)
        expect_equal(report["out"], out, "out")
        header, parts = tables.read_parts(out)
        expect_equal(len(parts), report["workers"], "part files")
        expect_equal(collections.Counter(row for part, rows in parts for row in rows), self.answer.multiset, "the rows")
        expect_equal("%d %016x" % checksum.checksum(out), "%d %s" % (report["rows"], report["checksum"]), "the parts")
        expect_equal(report["output_bytes"], sum(os.path.getsize("%s/%s" % (out, part)) for part, rows in parts),
                     "output_bytes")
        expect(os.path.exists(out + "/_SUCCESS.json"), "no _SUCCESS.json")
        expect_equal(len(os.listdir(out)), len(parts) + 1, "files in the output folder")
        shutil.rmtree(out)


def questions(lab):
    """The questions every cluster is asked."""
    return [
        Question(lab, "edge-ints", tables.edge_tables(11), [("id", "ref")]),
        Question(lab, "edge-texts", tables.edge_tables(12), [("name", "title")], line_end=b"\r\n"),
        Question(lab, "composite", tables.composite_tables(13), [("a", "x"), ("b", "y"), ("c", "z")], quote=0.5),
        Question(lab, "plain", tables.plain_tables(14), [("id", "key")], last_line_end=False),
        Question(lab, "plain-selected", tables.plain_tables(15), [("word", "label")],
                 ["right.key", "left.amount"]),
        Question(lab, "stride", tables.stride_tables(16), [("k", "k2")]),
        Question(lab, "zipf", tables.zipf_tables(17), [("k", "key")]),
        Question(lab, "one-key", tables.one_key_tables(), [("k", "k2")]),
        Question(lab, "large-fields", tables.large_field_tables(18), [("k", "key")]),
        Question(lab, "tiny", tables.tiny_tables(), [("k", "key")]),
        Question(lab, "left-empty", tables.empty_tables(0, 50), [("k", "key")]),
        Question(lab, "right-empty", tables.empty_tables(50, 0), [("k", "key")]),
        Question(lab, "both-empty", tables.empty_tables(0, 0), [("k", "key")]),
    ]


ENGINES = ("uring", "epoll")
# A receive buffer of 4 KiB would be tighter, but TCP may then offer less than a segment, and its sender waits 200 ms for each.
TIGHT = ["--frame-bytes", "4Ki", "--frames-per-lane", "1", "--chunk-bytes", "4Ki", "--chunks", "2", "--socket",
         "send-buffer=4Ki,recv-buffer=16Ki", "--morsel-bytes", "1Ki"]
PROFILES = [
    [],
    TIGHT,
    ["--frame-bytes", "1Mi", "--morsel-bytes", "16Ki", "--verify"],
    ["--frame-bytes", "64Ki", "--chunks", "2", "--morsel-bytes", "64Ki", "--verify"],
]


def ask_with(cluster, question, engine, profile):
    report = question.ask(cluster, "--engine", engine, *profile)
    expect_equal(report["engine"], engine, "engine")
    expect_equal(report["verified"], "--verify" in profile, "verified")


def battery(cluster, asked, profiles):
    """All questions with these profiles, on both engines."""
    for question, engine, profile in itertools.product(asked, ENGINES, profiles):
        ask_with(cluster, question, engine, profile)


def every_profile():
    """The product of all sizes."""
    for frame, lanes, chunks, morsel, socket in itertools.product(
            ("4Ki", "64Ki", "1Mi"), ("1", "4"), (("4Ki", "2"), ("64Ki", "2"), ("64Ki", "32")), ("1Ki", "64Ki", "4Mi"),
            ("4Ki", "0")):
        yield ["--frame-bytes", frame, "--frames-per-lane", lanes, "--chunk-bytes", chunks[0], "--chunks", chunks[1],
               "--morsel-bytes", morsel, "--socket", "send-buffer=%s,recv-buffer=%s" % (socket, socket)]


def whole_outputs(cluster, asked):
    for i, question in enumerate(asked):
        question.compare_all(cluster, "--engine", ENGINES[i % 2], *PROFILES[i % len(PROFILES)])


def real_question(lab):
    """This machine's package index where there is one; read and answered by sqlite once."""
    if "real" in lab.kept:
        return lab.kept["real"]
    folder = lab.path("packages")
    subprocess.run([os.path.join(ROOT, "deploy", "make-package-data"), folder], check=True, capture_output=True)
    pair = []
    for name in ("depends", "packages"):
        records = checksum.records("%s/%s.csv" % (folder, name))
        columns = [column.decode() for column in next(records)]
        columns = [column if ":" in column else column + ":string?" for column in columns]
        kinds = [column.split(":")[1].rstrip("?") for column in columns]
        pair.append(tables.Table(columns, [tuple(tables.typed(kind, text) for kind, text in zip(kinds, record))
                                           for record in records]))
    lab.kept["real"] = Question(lab, "real", pair, [("dependency", "package")],
                                ["left.package", "left.dependency", "right.version"])
    return lab.kept["real"]


def real_tables_joined(cluster):
    real_question(cluster.lab).compare_all(cluster)


def two_passes_of_tight_lanes(cluster):
    """All to all with small socket buffers and one frame per lane: it must end, with every row."""
    for engine in ENGINES:
        report = cluster.job("join", "--left", "gen:rows=400k,row=100,keys=uniform:100000,seed=3", "--right",
                             "gen:rows=100k,row=300,seed=4", "--on", "key=key", "--engine", engine, *TIGHT[:10],
                             "--morsel-bytes", "64Ki")
        wanted = cluster.job("join", "--left", "gen:rows=400k,row=100,keys=uniform:100000,seed=3", "--right",
                             "gen:rows=100k,row=300,seed=4", "--on", "key=key")
        for key in ("rows", "checksum"):
            expect_equal(report[key], wanted[key], key)


def square_of_one_key(cluster, side, timeout=60):
    source = "gen:rows=%d,keys=one" % side
    report = cluster.job("join", "--left", source, "--right", source, "--on", "key=key", timeout=timeout)
    cluster.lab.note("%.1f s" % report["seconds"])
    expect_equal(report["rows"], side * side, "matches")


GENERATED = [  # left, right
    ("gen:rows=20000,row=24,keys=unique,seed=1", "gen:rows=5000,row=16,keys=uniform:40000,seed=2"),
    ("gen:rows=30000,row=16,keys=zipf:1.5:1000,seed=3", "gen:rows=1000,row=40,keys=unique,seed=4"),
    ("gen:rows=10000,row=12,keys=stride,seed=5", "gen:rows=10000,row=16,keys=stride,seed=6"),
    ("gen:rows=300,row=16,keys=one,seed=7", "gen:rows=100,row=20,keys=one,seed=8"),
    ("gen:rows=3,row=16,keys=unique,seed=9", "gen:rows=0,row=16,keys=unique,seed=10"),
]


def generated_rows(cluster, pairs=None):
    """Generated rows, written out and joined again by sqlite and from the files, are the same as joined directly."""
    lab = cluster.lab
    for left, right in pairs or GENERATED:
        made, folders = [], (lab.fresh("left"), lab.fresh("right"))
        for folder, source in zip(folders, (left, right)):
            cluster.job("shuffle", "--in", source, "--by", "key", "--out", folder)
            header, parts = tables.read_parts(folder)
            made.append(tables.Table([column.decode() for column in header],
                                     [row for part, rows in parts for row in rows]))
        answer = tables.sqlite_join(*made, [("key", "key")])
        for sources in ((left, right), folders):
            report = cluster.job("join", "--left", sources[0], "--right", sources[1], "--on", "key=key")
            expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), " ".join(sources))
        for folder in folders:
            shutil.rmtree(folder)
