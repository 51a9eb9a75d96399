"""Every type of join, by sqlite's answers: NULL keys, duplicates, empty sides, whichever side is built."""
import itertools
import random
import shutil

import cases_answers as answers
import tables
from lab import expect_equal

KINDS = ("inner", "left", "right", "full", "semi", "anti")
RULES = {"": {}, "--null-equal": {"null_equal": True}, "--null-aware": {"null_aware": True}}


class Asked(answers.Question):
    """A question of one type of join and one rule for NULLs, of files that others ask about, too."""

    def __init__(self, lab, name, pair, on, kind, rule="", select=None, **style):
        super().__init__(lab, name, pair, on, select, **style)
        self.name = " ".join((name, kind, rule))
        self.answer = tables.sqlite_join(*pair, on, select, kind, **RULES[rule])
        self.words += ["--type", kind] + ([rule] if rule else [])
        self.kind = kind

    def examine(self, report):
        super().examine(report)
        expect_equal(report["join_type"], self.kind, "join_type")


def swap(pair):
    return pair[1], pair[0]


def no_null_tables(seed, left_rows, right_rows):
    """NULL keys on the left alone."""
    rng = random.Random(seed)
    return (tables.Table(["k:int64?", "s:string"], [(rng.choice([None, 1, 2, 3]), b"s%d" % i) for i in range(left_rows)]),
            tables.Table(["key:int64?", "t:string"], [(rng.choice([2, 3, 4]), b"t%d" % i) for i in range(right_rows)]))


def decimal_tables(seed):
    """Composite keys of decimals of several scales, whose texts are written so that sqlite compares numbers: as integers
    of hundredths, which the files have as decimals."""
    rng = random.Random(seed)

    def text(value, digits):
        return None if value is None else b"%s%d.%0*d" % (b"-" if value < 0 else b"", abs(value) // 100, digits,
                                                          abs(value) % 100 * 10 ** (digits - 2))
    values = [None, 0, 100, 110, -110, 12345, 250]
    rows = [[(rng.choice(values), rng.choice(values), i) for i in range(count)] for count in (120, 90)]
    numbers = (tables.Table(["a:int64?", "b:int64?", "i:int64"], rows[0]),
               tables.Table(["x:int64?", "y:int64?", "j:int64"], rows[1]))
    decimals = (tables.Table(["a:decimal(10,2)?", "b:decimal(20,3)?", "i:int64"],
                             [(text(a, 2), text(b, 3), i) for a, b, i in rows[0]]),
                tables.Table(["x:decimal(38,5)?", "y:decimal(9,2)?", "j:int64"],
                             [(text(x, 5), text(y, 2), j) for x, y, j in rows[1]]))
    return numbers, decimals


def questions(lab):
    """Every type by every rule it takes, of tables that make a difference."""
    asked = []
    for name, pair, on, select in (
            ("j-edge-ints", tables.edge_tables(41), [("id", "ref")], None),
            ("j-edge-ints-swapped", swap(tables.edge_tables(41)), [("ref", "id")], None),
            ("j-edge-texts", tables.edge_tables(42), [("name", "title")], None),
            ("j-composite", tables.composite_tables(43), [("a", "x"), ("b", "y"), ("c", "z")], None),
            ("j-composite-swapped", swap(tables.composite_tables(43)), [("x", "a"), ("y", "b"), ("z", "c")], None),
            ("j-plain", tables.plain_tables(44), [("id", "key")], ["left.amount"]),
            ("j-plain-swapped", swap(tables.plain_tables(44)), [("key", "id")], ["left.label", "left.key"]),
            ("j-zipf", tables.zipf_tables(47, rows=2000, keys=500), [("k", "key")], None),
            ("j-large-fields", tables.large_field_tables(48), [("k", "key")], None),
            ("j-tiny", tables.tiny_tables(), [("k", "key")], None),
            ("j-left-empty", tables.empty_tables(0, 50), [("k", "key")], None),
            ("j-right-empty", tables.empty_tables(50, 0), [("k", "key")], None),
            ("j-both-empty", tables.empty_tables(0, 0), [("k", "key")], None),
            ("j-left-nulls", no_null_tables(49, 40, 20), [("k", "key")], None),
            ("j-left-nulls-right-empty", no_null_tables(50, 40, 0), [("k", "key")], None)):
        for kind, rule in itertools.product(KINDS, ("", "--null-equal")):
            asked.append(Asked(lab, name, pair, on, kind, rule, select))
        if len(on) == 1:
            asked.append(Asked(lab, name, pair, on, "anti", "--null-aware", select))
    numbers, decimals = decimal_tables(51)
    for kind, rule in itertools.product(KINDS, ("", "--null-equal")):
        question = Asked(lab, "j-decimals", decimals, [("a", "x"), ("b", "y")], kind, rule,
                         ["left.i"] if kind in ("semi", "anti") else ["left.i", "right.j"])
        question.answer = tables.sqlite_join(*numbers, [("a", "x"), ("b", "y")],
                                             ["left.i"] if kind in ("semi", "anti") else ["left.i", "right.j"], kind,
                                             **RULES[rule])
        asked.append(question)
    return asked


def battery(cluster, asked, engine, profile):
    for question in asked:
        answers.ask_with(cluster, question, engine, profile)


def whole_outputs(cluster, asked):
    for i, question in enumerate(asked):
        question.compare_all(cluster, "--engine", answers.ENGINES[i % 2], *answers.PROFILES[i % len(answers.PROFILES)])


def schemas(cluster):
    """The columns of a side that may be padded can be NULL; a semi or anti join has those of the left side alone."""
    lab = cluster.lab
    left = tables.Table(["k:int64", "a:string"], [(1, b"x")]).write(lab.path("schema-left.csv"))
    right = tables.Table(["k:int32", "b:date"], [(1, b"2026-01-01")]).write(lab.path("schema-right.csv"))
    for kind, header in (("inner", ["k:int64", "a:string", "right.k:int32", "b:date"]),
                         ("left", ["k:int64", "a:string", "right.k:int32?", "b:date?"]),
                         ("right", ["k:int64?", "a:string?", "right.k:int32", "b:date"]),
                         ("full", ["k:int64?", "a:string?", "right.k:int32?", "b:date?"]),
                         ("semi", ["k:int64", "a:string"]), ("anti", ["k:int64", "a:string"])):
        out = lab.fresh("schema")
        cluster.job("join", "--left", left, "--right", right, "--on", "k=k", "--type", kind, "--out", out)
        expect_equal([name.decode() for name in tables.read_parts(out)[0]], header, "header of a %s join" % kind)
        shutil.rmtree(out)


def fixed_output(cluster):
    """Padded columns in fixed-width rows: what is written reads back as the same rows."""
    lab = cluster.lab
    rng = random.Random(7)
    left = tables.Table(["k:int64?", "a:int16"], [(rng.choice([None, 1, 2, 3]), i) for i in range(60)])
    right = tables.Table(["key:int32", "b:int8"], [(rng.choice([2, 3, 4]), i) for i in range(50)])
    paths = [table.write(lab.path("fixed-%s.csv" % name)) for table, name in ((left, "left"), (right, "right"))]
    for kind in KINDS:
        answer = tables.sqlite_join(left, right, [("k", "key")], kind=kind)
        out = lab.fresh("fixed")
        report = cluster.job("join", "--left", paths[0], "--right", paths[1], "--on", "k=key", "--type", kind, "--out", out,
                             "--output-format", "bin")
        expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), "a %s join" % kind)
        null = {"left": ("", "?"), "right": ("?", ""), "full": ("?", "?")}.get(kind, ("", ""))
        schema = "k:int64?,a:int16" + null[0] + (",key:int32%s,b:int8%s" % (null[1], null[1])
                                                 if kind not in ("semi", "anti") else "")
        again = cluster.job("shuffle", "--in", out, "--schema", schema, "--by", "a")
        expect_equal((again["rows"], again["checksum"]), (answer.rows, answer.checksum), "a %s join read back" % kind)
        shutil.rmtree(out)


def few_rows(cluster):
    """Sides of 0 to 10 rows, some or all with NULL keys: none vanishes, none comes twice."""
    rng = random.Random(3)
    for sizes in ((0, 0), (0, 1), (1, 0), (1, 1), (2, 1), (1, 2), (0, 10), (10, 0), (3, 10), (10, 3), (10, 10)):
        for keys in ([None], [None, 1, 2]):
            pair = tuple(tables.Table([name + ":int64?", name + "n:int64"], [(rng.choice(keys), i) for i in range(count)])
                         for name, count in zip("lr", sizes))
            for kind, rule in [*itertools.product(KINDS[1:], ("", "--null-equal")), ("anti", "--null-aware")]:
                Asked(cluster.lab, "few", pair, [("l", "r")], kind, rule).ask(cluster)


def one_key(cluster):
    """One key in all rows of both sides: an anti or semi join looks at each row once, whichever side is built."""
    small, large = "gen:rows=2000,row=16,keys=one,seed=1", "gen:rows=300000,row=16,keys=one,seed=2"
    for left, right, rows in ((small, large, 2000), (large, small, 300000)):
        for kind, wanted in (("semi", rows), ("anti", 0)):
            report = cluster.job("join", "--left", left, "--right", right, "--on", "key=key", "--type", kind)
            expect_equal(report["rows"], wanted, "rows of a %s join" % kind)
    for left, right in ((small, "gen:rows=0,row=16"), ("gen:rows=0,row=16", small)):
        for kind, wanted in (("full", 2000), ("left", 2000 if left == small else 0), ("anti", 2000 if left == small else 0)):
            report = cluster.job("join", "--left", left, "--right", right, "--on", "key=key", "--type", kind)
            expect_equal((report["rows"], report["rows_unmatched"]), (wanted, wanted), "rows of a %s join" % kind)
    for kind in ("inner", "semi"):  # nothing is built: nothing has to move
        report = cluster.job("join", "--left", small, "--right", "gen:rows=0,row=16", "--on", "key=key", "--type", kind)
        expect_equal((report["rows"], report["rows_dropped"], report["bytes_sent"]), (0, 2000, 0), "an empty build side")


def null_on_one_node(cluster):
    """Each node has its own part of the right side: a NULL on one of them makes NOT IN's answer empty for all."""
    lab = cluster.lab
    left, right = no_null_tables(8, 60, 30)
    shared = left.write(lab.path("notin-left.csv"))
    words = ["join", "--left", shared, "--right", "local:%s/notin.csv" % lab.path("shard"), "--on", "k=key", "--type",
             "anti", "--null-aware"]
    for null_at in (None, 0, 1, 2):
        rows = []
        for i in range(cluster.nodes):
            part = right.rows[i::cluster.nodes] + ([(None, b"null")] if i == null_at else [])
            rows += part
            tables.Table(right.columns, part).write(lab.path("shard-n%d/notin.csv" % (i + 1)), seed=i)
        answer = tables.sqlite_join(left, tables.Table(right.columns, rows), [("k", "key")], kind="anti", null_aware=True)
        expect_equal(answer.rows == 0, null_at is not None, "sqlite's answer is empty")
        report = cluster.job(*words)
        expect_equal((report["rows"], report["checksum"]), (answer.rows, answer.checksum), "a NULL at %s" % null_at)
    for i in range(cluster.nodes):
        tables.Table(right.columns, []).write(lab.path("shard-n%d/notin.csv" % (i + 1)))
    report = cluster.job(*words)
    expect_equal((report["rows"], report["rows_null_kept"]),
                 (60, sum(key is None for key, _ in left.rows)), "with an empty right side")
