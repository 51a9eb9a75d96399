"""What is equal, written by hand for each pair of types: rows are numbered, the expectation is pairs of numbers."""
import glob
import shutil
import struct

import checksum
import tables
from lab import expect, expect_equal


def pairs_of(cluster, left_kind, left_texts, right_kind, right_texts):
    """The pairs (i, j) of left and right values that the join finds equal. A value None is NULL."""
    lab = cluster.lab
    paths = []
    for name, kind, texts in (("tl", left_kind, left_texts), ("tr", right_kind, right_texts)):
        table = tables.Table(["v:%s?" % kind, "n:int32"],
                             [(None if text is None else text.encode() if isinstance(text, str) else text, i)
                              for i, text in enumerate(texts)])
        paths.append(table.write(lab.path(name + ".csv"), quote=0))
    out = lab.fresh("typed")
    report = cluster.job("join", "--left", paths[0], "--right", paths[1], "--on", "v=v", "--out", out)
    header, parts = tables.read_parts(out)
    if "-nan" not in left_texts + right_texts:  # its sign is not in the CSV
        expect_equal("%d %016x" % checksum.checksum(out), "%d %s" % (report["rows"], report["checksum"]), "the parts")
    shutil.rmtree(out)
    return sorted((row[1], row[3]) for part, part_rows in parts for row in part_rows)


def expect_pairs(cluster, left_kind, left, right_kind, right, wanted):
    """In both directions: what is left becomes right."""
    for kinds, found in (((left_kind, right_kind), pairs_of(cluster, left_kind, left, right_kind, right)),
                         ((right_kind, left_kind),
                          sorted((i, j) for j, i in pairs_of(cluster, right_kind, right, left_kind, left)))):
        expect_equal(found, sorted(wanted), "%s = %s: pairs of %r and %r" % (*kinds, left, right))


def integers(cluster):
    everything = ["-1", "0", "1", "127", "-128", None]
    for kind in ("int8", "int16", "int32", "int64"):
        for other in ("int8", "int16", "int32", "int64"):
            expect_pairs(cluster, kind, everything, other, everything, [(i, i) for i in range(5)])
    # -1 and 2^64-1, -1 and 2^32-1, -1 and 255 have the same bits.
    expect_pairs(cluster, "int64", ["-1", "9223372036854775807", "0"], "uint64",
                 ["18446744073709551615", "9223372036854775807", "0", "9223372036854775808"], [(1, 1), (2, 2)])
    expect_pairs(cluster, "int8", ["-1", "7"], "uint64", ["18446744073709551615", "255", "7"], [(1, 2)])
    expect_pairs(cluster, "int32", ["-1", "2147483647"], "uint32", ["4294967295", "2147483647"], [(1, 1)])
    expect_pairs(cluster, "int64", ["-1", "4294967295"], "uint32", ["4294967295"], [(1, 0)])
    expect_pairs(cluster, "uint8", ["255", "0"], "int16", ["-1", "255", "0"], [(0, 1), (1, 2)])
    expect_pairs(cluster, "uint16", ["65535", "1"], "uint64", ["65535", "1", "65536"], [(0, 0), (1, 1)])


def decimals(cluster):
    expect_pairs(cluster, "decimal(10,2)", ["1.10", "0.00", "-1.10", "100.00", None, "1.11"], "decimal(5,1)",
                 ["1.1", "-1.1", "0.0", "100.0", None, "1.2"], [(0, 0), (1, 2), (2, 1), (3, 3)])
    expect_pairs(cluster, "decimal(38,0)", ["99999999999999999999999999999999999999", "1", "0"], "decimal(38,37)",
                 ["1.0000000000000000000000000000000000000", "9.9999999999999999999999999999999999999", "0"],
                 [(1, 0), (2, 2)])
    expect_pairs(cluster, "decimal(20,3)", ["-1.000", "18446744073709551.615", "7.500", "12.000"], "int64",
                 ["-1", "7", "8", "12"], [(0, 0), (3, 3)])
    expect_pairs(cluster, "decimal(38,10)", ["18446744073709551615", "-1"], "uint64",
                 ["18446744073709551615", "1"], [(0, 0)])
    expect_pairs(cluster, "decimal(38,0)", ["-170141183460469231731687303715884105", "5"], "decimal(38,1)",
                 ["-170141183460469231731687303715884105.0", "0.5", "5.0"], [(0, 0), (1, 2)])


def floats(cluster):
    expect_pairs(cluster, "float64", ["0.0", "-0.0", "nan", "1.5", "inf", "-inf", None, "5e-324"], "float64",
                 ["-0.0", "0.0", "NaN", "1.5", "Infinity", "-Infinity", None, "5e-324"],
                 [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (7, 7)])
    expect_pairs(cluster, "float32", ["0.1", "0.5", "-0.0", "nan", "inf", "16777216"], "float64",
                 ["0.1", "0.5", "0.0", "nan", "inf", "16777217", "16777216", "0.100000001490116119384765625"],
                 [(0, 7), (1, 1), (2, 2), (3, 3), (4, 4), (5, 6)])
    expect_pairs(cluster, "float32", ["0.1", "-0", "nan"], "float32", ["0.1", "0", "-nan"], [(0, 0), (1, 1), (2, 2)])


def float_bits(cluster):
    """NaNs of every payload are one key; each comes out as it was, and so does -0.0."""
    lab = cluster.lab
    nans = [0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF]
    bits = nans + [0, 1 << 63]
    with open(lab.path("bits.bin"), "wb") as file:
        for i, value in enumerate(bits):
            file.write(struct.pack("<QI", value, i))
    with open(lab.path("one.csv"), "w") as file:
        file.write("f:float32\nnan\n0\n")
    out = lab.fresh("bits")
    report = cluster.job("join", "--left", lab.path("bits.bin"), "--left-schema", "v:float64,n:int32", "--right",
                         lab.path("one.csv"), "--on", "v=f", "--select", "left.v,left.n", "--out", out,
                         "--output-format", "bin")
    expect_equal(report["rows"], len(bits), "rows")
    found = []
    for path in glob.glob(out + "/part-*"):
        with open(path, "rb") as file:
            found += [struct.unpack("<QI", row) for row in iter(lambda: file.read(12), b"")]
    expect_equal(sorted(found, key=lambda row: row[1]), list(zip(bits, range(len(bits)))), "the bits")
    shutil.rmtree(out)


def times(cluster):
    expect_pairs(cluster, "date", ["1970-01-01", "2000-02-29", "0001-01-01", "9999-12-31", None, "1969-12-31"], "date",
                 ["2000-02-29", "1970-01-01", "9999-12-31", "0001-01-01", None, "1969-12-31"],
                 [(0, 1), (1, 0), (2, 3), (3, 2), (5, 5)])
    expect_pairs(cluster, "timestamp",
                 ["2020-01-01", "2020-01-01 00:00:00.000001", "1969-12-31T23:59:59.999999", "2020-06-01 12:30"],
                 "timestamp",
                 ["2020-01-01T00:00:00", "2020-01-01 00:00:00.000001", "1969-12-31 23:59:59.999999",
                  "2020-06-01 12:30:00.0", "2020-06-01 12:30:01"], [(0, 0), (1, 1), (2, 2), (3, 3)])


def others(cluster):
    expect_pairs(cluster, "bool", ["true", "false", None, "T", "0"], "bool", ["1", "FALSE", None],
                 [(0, 0), (1, 1), (3, 0), (4, 1)])
    expect_pairs(cluster, "binary", ["\\x00ff", "\\x", None, "\\xAB", "\\x0061"], "binary",
                 ["\\x00FF", "\\x", None, "\\xab", "\\x00"], [(0, 0), (1, 1), (3, 3)])
    expect_pairs(cluster, "binary(2)", ["\\x00ff", "\\x6162", None], "binary", ["\\x00ff", "\\x616200", "\\x6162"],
                 [(0, 0), (1, 2)])
    expect_pairs(cluster, "string", ["D", "d", "d ", "\u00e9", "e\u0301", None], "string",
                 ["d", "D", "d", "e\u0301", "\u00e9", None], [(0, 1), (1, 0), (1, 2), (3, 4), (4, 3)])


TYPES = ["bool", "int8", "uint64", "float32", "float64", "decimal(10,2)", "date", "timestamp", "string", "binary",
         "binary(4)"]
CLASSES = [{"int8", "uint64", "decimal(10,2)"}, {"float32", "float64"}, {"binary", "binary(4)"}]


def unequal_types(cluster):
    """Every pair that cannot be compared is refused before anything runs, with both columns and types in the words."""
    lab = cluster.lab
    for name in ("nothing-l", "nothing-r"):
        with open(lab.path(name + ".csv"), "w") as file:
            file.write("l,m\n" if name.endswith("l") else "r,s\n")
    for left in TYPES:
        for right in TYPES:
            words = ["join", "--left", lab.path("nothing-l.csv"), "--right", lab.path("nothing-r.csv"), "--on", "l=r",
                     "--left-schema", "l:%s,m:string?" % left, "--right-schema", "r:%s,s:string?" % right]
            if left == right or any(left in group and right in group for group in CLASSES):
                expect_equal(cluster.job(*words)["rows"], 0, "rows")
                continue
            report = cluster.job(*words, code=2)
            for word in ("column l (%s)" % left, "column r (%s)" % right):
                expect(word in report["error"], "the error does not name %s: %s" % (word, report["error"]))
