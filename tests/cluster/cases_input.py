"""Bad input and impossible output: each an error that says where, nothing left behind, and the next job runs."""
import collections
import gzip
import itertools
import os
import re
import subprocess
import threading

from lab import as_user, expect, expect_equal

GOOD = b"id,name\n" + b"".join(b"%d,row %d\n" % (i, i) for i in range(2000))


def write(lab, name, data):
    path = lab.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def runs(cluster):
    """A small job, which must be right."""
    left = write(cluster.lab, "good/left.csv", GOOD)
    report = cluster.job("join", "--left", left, "--right", left, "--on", "id=id", "--select", "left.id")
    expect_equal(report["rows"], 2000, "rows of the next job")


def refused(cluster, says, left, *words, code=1, right=None, on="id=id"):
    """As a join on either side and as a shuffle, with and without output."""
    lab = cluster.lab
    good = right or write(lab, "good/left.csv", GOOD)
    os.makedirs(lab.path("open"), exist_ok=True)
    os.chmod(lab.path("open"), 0o777)
    out = lab.fresh("open/never")
    for sides, target in ((("--left", left, "--right", good), ()), (("--left", good, "--right", left), ()),
                          (("--left", left, "--right", good), ("--out", out))):
        side = "--right" if sides[3] == left else "--left"
        moved = [word.replace("--left-", side + "-") for word in words]
        told = [word.replace("--left-incomplete", side + "-incomplete") for word in says]
        cluster.fail("join", *sides, "--on", on, *moved, *target, code=code, says=told, not_left=out)
    runs(cluster)


def missing_file(cluster):
    refused(cluster, ["/nowhere.csv"], cluster.lab.path("nowhere.csv"))
    refused(cluster, ["no-such-*.csv"], cluster.lab.path("no-such-*.csv"))
    os.makedirs(cluster.lab.path("empty-folder"), exist_ok=True)
    refused(cluster, ["empty-folder"], cluster.lab.path("empty-folder"))


def empty_file(cluster):
    path = write(cluster.lab, "bad/zero.csv", b"")
    refused(cluster, ["zero.csv", "0 bytes"], path)


def missing_column(cluster):
    good = write(cluster.lab, "good/left.csv", GOOD)
    out = cluster.lab.fresh("never")
    for on, says in (("nope=id", ['"nope"', "id", "name"]), ("id=nope", ['"nope"', "right"])):
        cluster.fail("join", "--left", good, "--right", good, "--on", on, "--out", out, code=2, says=says, not_left=out)
    cluster.fail("join", "--left", good, "--right", good, "--on", "id=id", "--select", "left.nope", code=2,
                 says=['"nope"'])
    cluster.fail("join", "--left", good, "--right", good, "--on", "id=id", "--select", "id", code=2, says=['"id"'])
    cluster.fail("shuffle", "--in", good, "--by", "nope", code=2, says=['"nope"'])
    cluster.fail("shuffle", "--in", good, "--by", "id", "--schema", "nope:int64", code=2, says=['"nope"', "id, name"])
    cluster.fail("shuffle", "--in", good, "--by", "nane", code=2, says=['did you mean "name"'])
    for word in ("--by", "--select", "--schema", "--out"):
        words = ["shuffle", "--in", good] + (["--by", "id"] if word != "--by" else []) + [word, ""]
        cluster.fail(*words, code=2, says=[word + " has an empty value"])
    cluster.fail("join", "--left", good, "--right", good, "--on", "id=name", code=2,
                 says=["column id (int64", "column name (string"])
    runs(cluster)


def other_formats(cluster):
    """What is no CSV is named by its first bytes, and no job ends well without rows because of it."""
    lab = cluster.lab
    for name, data, says in (("utf16", "a,b\n1,2\n".encode("utf-16-be"), "UTF-16"), ("json", b'[{"a": 1}]\n', "JSON"),
                             ("parquet", b"PAR1" + b"\0" * 60, "Parquet"), ("old-mac", b"a,b\r1,2\r", "CR")):
        path = write(lab, "bad/%s.csv" % name, data)
        for header in ("yes", "no"):
            cluster.fail("shuffle", "--in", path, "--by", "c1", "--header", header, code=1, says=[path, says])
    runs(cluster)


def other_dialects(cluster):
    """Texts that mean NULL, which matches nothing, and files without quotes, on either side and in several morsels."""
    lab = cluster.lab
    lines = [b"NA,1", b"\\N,2", b"3,3", b'"NA",4'] + [b"%d,5" % i for i in range(1000, 4000)]
    path = write(lab, "good/nulls.csv", b"k,n\n" + b"\n".join(lines) + b"\n")
    words = ["join", "--left", path, "--right", path, "--on", "k=k", "--left-null", "NA", "--left-null", "\\N",
             "--morsel-bytes", "1Ki"]
    schema = ["--left-schema", "k:string?", "--right-schema", "k:string?"]
    expect_equal(cluster.job(*words, *schema)["rows"], 3003, "rows: the quoted NA matches both of the right side")
    report = cluster.job(*words, *schema, "--right-null", "NA", "--right-null", "\\N")
    expect_equal(report["rows"], 3002, "rows: only the quoted NA is text")
    path = write(lab, "good/inches.csv", b"k,n\n" + b"".join(b'%d" disk,"%d\n' % (i, i) for i in range(3000)))
    words = ["shuffle", "--in", path, "--by", "k", "--morsel-bytes", "1Ki"]
    expect_equal(cluster.job(*words, "--quote", "none")["rows"], 3000, "rows of a file without quotes")
    cluster.fail(*words, code=1, says=["inches.csv:2: a quote inside an unquoted field"])


def many_rows(bad, at, total=30000):
    """A file of several morsels with a bad record at line at + 2."""
    lines = [b"%d,row %d" % (i, i) for i in range(total)]
    lines[at] = bad
    return b"id:int64,name:string\n" + b"\n".join(lines) + b"\n"


def bad_values(cluster):
    """File, line, column and text, also in the middle of a large file that many workers share."""
    lab = cluster.lab
    for at in (0, 14000, 29999):
        for morsel in ("4Ki", "64Ki"):
            path = write(lab, "bad/number.csv", many_rows(b"12x4,hello", at))
            refused(cluster, ["number.csv:%d:" % (at + 2), "id", "12x4", "int64"], path, "--morsel-bytes", morsel)
    path = write(lab, "bad/inferred.csv", b"id,name\n" + b"7,a\n" * 5000 + b"x7,b\n")
    refused(cluster, ["inferred.csv:5002:", "id", "x7"], path)
    for plain, late, becomes in (("10001", "02134", "2134"), ("1.5", "1.10", "1.1"), ("true", "t", "true")):
        rows = "".join("%s,%d\n" % (plain, i) for i in range(5000))
        path = write(lab, "bad/late.csv", ("id,n\n%s%s,5000\n" % (rows, late)).encode())
        cluster.fail("shuffle", "--in", path, "--by", "n", code=1,
                     says=["late.csv:5002:", '"%s" would become "%s"' % (late, becomes), '"id:string?"'])
    for kind, text in (("int8", "300"), ("date", "2026-02-30"), ("decimal(5,2)", "1.234"), ("bool", "maybe"),
                       ("uint16", "-1"), ("float64", "1.5.2"), ("timestamp", "2026-01-01 25:00"), ("binary", "\\x0")):
        path = write(lab, "bad/typed.csv", b"id,v\n1,\n2,%s\n" % text.encode())
        refused(cluster, ["typed.csv:3:", "v", text, kind.split("(")[0]], path, "--left-schema",
                "id:int64,v:%s?" % kind)
    path = write(lab, "bad/null.csv", b"id,v\n1,2\n,3\n")
    refused(cluster, ["null.csv:3:", "id"], path, "--left-schema", "id:int64,v:int64")


def dirty(total, every):
    """A file of `total` good rows with a bad one before every so many; its good keys; line and kind of the bad ones."""
    kinds = [b"x%d,a,1", b"%d,short", b"%d,a,1,2", b"", b",no key,1", b"%d,a,1.234", b"%d,\"a\nb\",x"]
    lines, keys, bad, line = [b'id:int64,s:string?,"d:decimal(9,2)?"'], [], [], 2
    for i in range(total):
        if i % every == 1:
            text = kinds[i // every % len(kinds)]
            lines.append(text % i if b"%d" in text else text)
            bad.append(line)
            line += 1 + lines[-1].count(b"\n")
        lines.append([b"%d,NA,1.5", b"%d,\"two\r\nlines, \"\"quoted\"\"\",NA", b"%d,plain,-2.25"][i % 3] % (i % 977))
        keys.append(i % 977)
        line += 1 + lines[-1].count(b"\n")
    return b"\n".join(lines) + b"\n", keys, bad


def bad_rows_left_out(cluster):
    """The same rows are left out in every shape, counted and told; one more than N fails the job and leaves nothing."""
    lab = cluster.lab
    data, left_keys, left_bad = dirty(20000, 50)
    left = write(lab, "bad/dirty-left.csv", data)
    data, right_keys, right_bad = dirty(3000, 200)
    right = write(lab, "bad/dirty-right.csv", data)
    counts = [collections.Counter(keys) for keys in (left_keys, right_keys)]
    rows = sum(count * counts[1][key] for key, count in counts[0].items())
    words = ["join", "--left", left, "--right", right, "--on", "id=id", "--left-null", "NA", "--right-null", "NA"]
    checksums = set()
    for morsel in ("1Ki", "7777", "1Mi"):
        for engine in ("epoll", "auto"):
            report = cluster.job(*words, "--left-skip-bad-rows", str(len(left_bad)), "--right-skip-bad-rows",
                                 str(len(right_bad)), "--morsel-bytes", morsel, "--engine", engine)
            expect_equal(report["rows"], rows, "rows")
            expect_equal(report["rows_scanned_left"], len(left_keys), "good rows of the left side")
            expect_equal((report["rows_skipped_left"], report["rows_skipped_right"]), (len(left_bad), len(right_bad)),
                         "bad rows")
            told = [(row["side"], row["file"], row["line"]) for row in report["skipped"]]
            expect_equal(told, [("left", left, line) for line in left_bad[:10]] +
                         [("right", right, line) for line in right_bad[:10]], "the first bad rows")
            checksums.add(report["checksum"])
    expect_equal(len(checksums), 1, "checksums")
    expect("is no" in report["skipped"][0]["reason"] and "2 fields" in report["skipped"][1]["reason"],
           "reasons:", report["skipped"])
    os.makedirs(lab.path("open"), exist_ok=True)
    os.chmod(lab.path("open"), 0o777)
    out = lab.fresh("open/never")
    for side, bad, path in (("left", left_bad, left), ("right", right_bad, right)):
        other = "right" if side == "left" else "left"
        cluster.fail(*words, "--%s-skip-bad-rows" % side, str(len(bad) - 1), "--%s-skip-bad-rows" % other, "1M", "--out", out,
                     code=1, says=["%d rows of" % len(bad), "--%s-skip-bad-rows allows %d" % (side, len(bad) - 1),
                                   "the first: %s:%d: " % (path, bad[0])], not_left=out)
    shuffle = ["shuffle", "--in", left, "--by", "id", "--null", "NA", "--morsel-bytes", "4Ki", "--skip-bad-rows"]
    expect_equal(cluster.job(*shuffle, "400")["rows"], 20000, "rows of a shuffle")
    cluster.fail(*shuffle, "399", code=1, says=["400 rows of", "--skip-bad-rows allows 399", "dirty-left.csv:%d:" % left_bad[0]])
    cluster.fail(*shuffle, "0", code=1, says=["dirty-left.csv:%d:" % left_bad[0]])
    done = subprocess.run(cluster.command(*shuffle, "400"), capture_output=True, text=True)
    expect("skipped   400 bad rows; the first:\n          %s:%d: column" % (left, left_bad[0]) in done.stdout,
           "the report for people:", done.stdout)
    local = ["local:" + left if word == left else word for word in shuffle]
    report = cluster.job(*local, "1200")
    expect_equal((report["rows"], report["rows_skipped_left"]), (60000, 1200), "rows of three nodes' own files")
    expect_equal([(row["node"], row["line"]) for row in report["skipped"]], [("n1", line) for line in left_bad[:10]],
                 "the first bad rows of files that nodes have of their own")
    cluster.fail(*local, "1199", code=1, says=["1200 rows of", "the first: node n1: %s:%d: " % (left, left_bad[0])])
    path = write(lab, "bad/dirty-quote.csv", data.replace(b"plain", b'pl"ain', 1))
    cluster.fail(*[path if word == left else word for word in shuffle], "1M", code=1, says=["a quote inside an unquoted field"])
    path = write(lab, "bad/rows.bin", b"\0" * 16)
    cluster.fail("shuffle", "--in", path, "--schema", "id:int64", "--by", "id", "--skip-bad-rows", "1", code=2,
                 says=["--skip-bad-rows", "CSV"])
    runs(cluster)


def bad_quotes(cluster):
    lab = cluster.lab
    for at in (0, 20000):
        path = write(lab, "bad/unclosed.csv", many_rows(b'%d,"never closed' % at, at))
        for morsel in ("4Ki", "1Mi"):
            refused(cluster, ["unclosed.csv:%d:" % (at + 2), "byte"], path, "--morsel-bytes", morsel)
    path = write(lab, "bad/inside.csv", many_rows(b'5,in"side', 15000))
    refused(cluster, ["inside.csv:15002:"], path)
    # Good lines with quotes follow: whoever begins behind the stray one takes inside for outside.
    good = [b'%d,"good, row ""%d"""\n' % (i, i) for i in range(20000)]
    for at, bad in ((40, b'5,in"side\n'), (9000, b'5,"x"y\n')):
        path = write(lab, "bad/stray.csv", b"id:int64,name:string\n" + b"".join(good[:at] + [bad] + good[at:]))
        for _ in range(3):
            cluster.fail("shuffle", "--in", path, "--by", "id", "--morsel-bytes", "1Ki", code=1,
                         says=["stray.csv:%d:" % (at + 2)])
    path = write(lab, "bad/after.csv", many_rows(b'5,"closed" and more', 15000))
    refused(cluster, ["after.csv:15002:"], path)


def bad_records(cluster):
    lab = cluster.lab
    path = write(lab, "bad/more.csv", many_rows(b"5,a,b", 12000))
    refused(cluster, ["more.csv:12002:", "3", "2"], path)
    path = write(lab, "bad/fewer.csv", many_rows(b"5", 12000))
    refused(cluster, ["fewer.csv:12002:", "1", "2"], path)
    path = write(lab, "bad/twice.csv", b"id,id\n1,2\n")
    refused(cluster, ["id"], path)
    path = write(lab, "bad/short.bin", b"\1" * 20)
    refused(cluster, ["short.bin", "20", "12"], path, "--left-schema", "id:int64,v:int32")
    refused(cluster, ["short.bin", "schema"], path)


def row_too_large(cluster):
    path = write(cluster.lab, "bad/large.csv", b"id,v\n1," + b"x" * (17 << 20) + b"\n2,y\n")
    refused(cluster, ["large.csv:2:", "16"], path, "--left-schema",
            "id:int64,v:string")
    os.unlink(path)


def bad_output(cluster):
    lab = cluster.lab
    good = write(lab, "good/left.csv", GOOD)
    words = ["join", "--left", good, "--right", good, "--on", "id=id"]
    existing = lab.fresh("existing")
    os.mkdir(existing)
    cluster.fail(*words, "--out", existing, code=1, says=[existing, "exists"])
    expect_equal(os.listdir(existing), [], "files in the folder that was there")
    file = write(lab, "existing-file", b"mine")
    cluster.fail(*words, "--out", file, code=1, says=[file, "exists"])
    cluster.fail(*words, "--out", lab.path("no/such/parent"), code=1, says=[lab.path("no/such")])
    out = lab.fresh("never")
    report = cluster.job(*words, "--out", out, "--output-format", "bin", code=2)
    expect('"name"' in report["error"] and "variable" in report["error"], "the error says", report["error"])
    cluster.expect_no_output(out)
    runs(cluster)


def wrong_words(cluster):
    good = write(cluster.lab, "good/left.csv", GOOD)
    pair = ["--left", good, "--right", good]
    for words, says in ((["join", *pair], "--on"), (["join", *pair, "--on", "id"], "--on"),
                        (["join", *pair, "--on", "id=id", "--frame-bytes", "100"], "--frame-bytes"),
                        (["join", *pair, "--on", "id=id", "--engine", "magic"], "magic"),
                        (["join", *pair, "--on", "id=id", "--type", "outer"], "inner, left"),
                        (["join", *pair, "--on", "id=id", "--type", "semi", "--select", "right.id"], "left side only"),
                        (["join", *pair, "--on", "id=id", "--null-aware"], "--type=inner has no such rule"),
                        (["join", *pair, "--on", "id=id,id=id", "--type", "anti", "--null-aware"], "one pair of columns"),
                        (["join", *pair, "--on", "id=id", "--left-schema", "id:int65"], "int65"),
                        (["join", "--left", "gen:rows=x", "--right", good, "--on", "key=id"], "rows"),
                        (["join", "--left", "gen:lines=3", "--right", good, "--on", "key=id"], "lines"),
                        (["join", "--left", good, "--on", "id=id"], "--right"),
                        (["shuffle", "--in", good], "--by"), (["join", "--nonsense"], "--nonsense")):
        report = cluster.job(*words, code=2)
        expect(says in report["error"], "the error does not say %s: %s" % (says, report["error"]))
    runs(cluster)


def full_disk(cluster):
    """A file system of 2 MiB for the output."""
    lab = cluster.lab
    mount = lab.fresh("small-disk")
    os.mkdir(mount)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", mount], check=True)
    unmount = lambda: subprocess.run(["umount", mount], check=True)  # noqa: E731
    lab.closers.append(unmount)
    # Namespaces of the network have mount namespaces of their own only while `ip netns exec` runs: new nodes see it.
    cluster.down()
    cluster.up()
    try:
        out = mount + "/out"
        for words in (["shuffle", "--in", "gen:rows=400k,row=64", "--by", "key"],
                      ["join", "--left", "gen:rows=20k,row=64", "--right", "gen:rows=20k,row=100", "--on", "key=key"]):
            for form in ("csv", "bin"):
                if form == "bin" and words[0] == "join":
                    continue
                report = cluster.fail(*words, "--out", out, "--output-format", form, code=1, says=[out], not_left=out)
                expect("space" in report["error"] or "room" in report["error"], "the error says", report["error"])
        expect_equal(cluster.job("shuffle", "--in", "gen:rows=1k", "--by", "key", "--out", out)["rows"], 1000, "rows")
    finally:
        cluster.down()
        unmount()
        lab.closers.remove(unmount)
        cluster.up()
    runs(cluster)


def unreadable(cluster):
    """The nodes run as another user here when we are root, to whom everything is readable."""
    lab = cluster.lab
    folder = lab.path("locked")
    path = write(lab, "locked/file.csv", GOOD)
    os.chmod(path, 0)
    refused(cluster, ["locked/file.csv"], path)
    os.chmod(path, 0o644)
    os.chmod(folder, 0)
    try:
        refused(cluster, [folder], folder)
        refused(cluster, ["locked/file.csv"], path)
        refused(cluster, ["locked"], folder + "/*.csv")
    finally:
        os.chmod(folder, 0o755)
    out = lab.path("locked/out")
    os.chmod(folder, 0o555)
    try:
        good = write(lab, "good/left.csv", GOOD)
        cluster.fail("join", "--left", good, "--right", good, "--on", "id=id", "--out", out, code=1, says=["locked"],
                     not_left=out)
    finally:
        os.chmod(folder, 0o755)
    runs(cluster)


def as_nobody(lab):
    """Programs whose nodes give up root."""
    return as_user(lab, "bin-nobody", 65534)


def pipes(cluster):
    """Where a file is expected somebody put a pipe: no daemon waits for its writer."""
    path = write(cluster.lab, "pipes/t.csv", GOOD)
    os.mkfifo(path + ".schema")
    refused(cluster, ["t.csv.schema is a pipe"], path)
    os.unlink(path + ".schema")
    os.unlink(path)
    os.mkfifo(path)
    refused(cluster, ["t.csv is"], path)


def incomplete_results(cluster):
    """A result as a source: whole; without its marker; without a part; with a part cut at a line end."""
    lab = cluster.lab
    good = write(lab, "good/left.csv", GOOD)

    def made():
        out = lab.fresh("result")
        return out, cluster.job("shuffle", "--in", good, "--by", "id", "--out", out)

    def reads(source, rows, *words):
        expect_equal(cluster.job("shuffle", "--in", source, "--by", "id", *words)["rows"], rows, source)

    out, report = made()
    parts = sorted(name for name in os.listdir(out) if name.startswith("part-"))
    reads(out, 2000)
    reads(out + "/*", 2000)
    expect_equal(cluster.job("shuffle", "--in", out, "--by", "id")["checksum"], report["checksum"], "the whole result")
    os.rename(os.path.join(out, parts[1]), lab.path("part"))
    fewer = cluster.job("shuffle", "--in", out, "--by", "id", "--incomplete", "yes")["rows"]
    expect(0 < fewer < 2000, "rows of all parts but one:", fewer)
    refused(cluster, [f"it has {len(parts) - 1} of the {len(parts)} parts", parts[1], " --left-incomplete=yes"], out)
    refused(cluster, ["not complete", parts[1]], out + "/part-*.csv")
    reads(os.path.join(out, parts[0]), fewer - cluster.job("shuffle", "--in", os.path.join(out, parts[2]), "--by", "id")["rows"])
    os.rename(lab.path("part"), os.path.join(out, parts[1]))
    reads(os.path.dirname(out) + "/" + os.path.basename(out) + "/part-0000[01].csv",
          2000 - cluster.job("shuffle", "--in", os.path.join(out, parts[2]), "--by", "id")["rows"])
    write(lab, out + "/more.csv", GOOD)
    refused(cluster, ["not parts"], out)
    os.unlink(out + "/more.csv")
    with open(os.path.join(out, parts[0]), "rb") as file:
        lines = file.readlines()
    write(lab, os.path.join(out, parts[0]), b"".join(lines[:-1]))
    refused(cluster, ["was changed", "bytes"], out)
    number, two = lines[1].split(b",")[0], len(lines[1]) + len(lines[2])
    lines[1:3] = [number + b"," + b"x" * (two - len(number) - 2) + b"\n"]
    write(lab, os.path.join(out, parts[0]), b"".join(lines))
    refused(cluster, ["was changed", "1999 rows were read", "counts 2000", "incomplete=yes"], out)
    out, _ = made()
    os.unlink(out + "/_SUCCESS.json")
    refused(cluster, ["not complete", "_SUCCESS.json"], out)
    reads(out, 2000, "--incomplete", "yes")
    write(lab, out + "/_SUCCESS.json", b"{}")
    refused(cluster, ["_SUCCESS.json is damaged"], out)
    results = lab.fresh("results")
    os.mkdir(results)
    for name in ("mine", "other"):
        os.rename(made()[0], results + "/" + name)
    reads(results, 4000)
    for part in parts:
        os.unlink(results + "/mine/" + part)
    refused(cluster, ["/mine is not complete", parts[0]], results)
    reads(results, 2000, "--incomplete", "yes")
    os.unlink(results + "/mine/_SUCCESS.json")
    reads(results, 2000)


def compressed(cluster):
    """Folders of plain, gzip and zstd files, made by others' tools, have the rows of the plain ones; damage is told."""
    lab, rows, pieces = cluster.lab, 30000, 6
    lines = [b'%d,"text\n%d"\n' % (i, i * 7) for i in range(rows)]
    for piece in range(pieces):
        data = b"id,v\n" + b"".join(lines[piece::pieces])
        write(lab, "plain/p%d.csv" % piece, data)
        if piece % 3 == 0:
            write(lab, "packed/p%d.csv" % piece, data)
        elif piece % 3 == 1:
            write(lab, "packed/p%d.csv.gz" % piece, gzip.compress(data[:50000]) + gzip.compress(data[50000:]))
        else:
            write(lab, "packed/p%d.csv.zst" % piece, subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE,
                                                                   check=True).stdout)
    plain = cluster.job("shuffle", "--in", lab.path("plain"), "--by", "id", "--morsel-bytes", "16Ki")
    packed = cluster.job("shuffle", "--in", lab.path("packed"), "--by", "id", "--morsel-bytes", "16Ki")
    expect_equal((packed["rows"], packed["checksum"]), (plain["rows"], plain["checksum"]), "of compressed files")
    expect(packed["input_bytes"] < plain["input_bytes"], "bytes read:", packed["input_bytes"])
    with open(lab.path("packed/p1.csv.gz"), "rb") as file:
        data = file.read()
    path = write(lab, "bad/cut.csv.gz", data[:-9])
    refused(cluster, ["cut.csv.gz", "ends too early"], path)
    path = write(lab, "bad/flipped.csv.gz", data[:5000] + bytes([data[5000] ^ 4]) + data[5001:])
    refused(cluster, ["flipped.csv.gz", "of the file"], path)
    path = write(lab, "bad/plain.csv.zst", GOOD)
    refused(cluster, ["plain.csv.zst", "no zstd data"], path)


def swapped_files(cluster):
    """Two files of one size take each other's place all the time: a job reads one of them, or says so. In one of them
    every row has a quoted line end: who counts quotes in one and reads the other loses rows."""
    lab, versions, rows = cluster.lab, [], 40000
    for row in (b"%07d,abcdefgh\n", b'%07d,"abc\nef"\n'):
        versions.append(b"id:int64,v:string\n" + b"".join(row % i for i in range(rows)))
    path, right = lab.path("swapped/t.csv"), set()
    for version in versions:
        write(lab, "swapped/t.csv", version)
        right.add(cluster.job("shuffle", "--in", path, "--by", "id", "--morsel-bytes", "4Ki")["checksum"])
    stop = threading.Event()

    def swap():
        for turn in itertools.count():
            if stop.wait(0.002):
                return
            write(lab, "swapped/new", versions[turn % 2])
            os.rename(lab.path("swapped/new"), path)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(12):
            report = cluster.job("shuffle", "--in", path, "--by", "id", "--morsel-bytes", "4Ki", code=None)
            if report.get("error"):
                error = report["error"]
                expect("changed while" in error or "differs between nodes" in error, error)
            else:
                expect(report["checksum"] in right, "rows of both files:", report["rows"])
    finally:
        stop.set()
        swapper.join()
    runs(cluster)


def names_of_others(cluster):
    """What a file is called reaches the terminals of all who ask about jobs, and does nothing there."""
    name = cluster.lab.path("\x1b]0;owned\x07\n\x9b2J.csv")
    for words in (["shuffle", "--in", name, "--by", "id"], ["jobs"]):
        done = subprocess.run(cluster.command(*words), capture_output=True)
        told = (done.stdout + done.stderr).decode()
        expect("\\x1b]0;owned\\x07\\x0a\\xc2\\x9b2J.csv" in told, "the name is not shown:", told)
        expect(not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", told), "it drives the terminal:", repr(told))
    for member in cluster.members():
        expect("\x1b" not in cluster.tail(member), "it drives the terminal of the log's reader")


CASES = [("a missing file", missing_file), ("pipes in the place of files", pipes), ("files that are swapped", swapped_files),
         ("compressed files", compressed),
         ("results that are not complete", incomplete_results), ("a file of 0 bytes", empty_file), ("a missing column", missing_column),
         ("other formats", other_formats), ("other dialects", other_dialects),
         ("bad values", bad_values), ("bad rows that are left out", bad_rows_left_out), ("bad quotes", bad_quotes), ("bad records", bad_records),
         ("a row above the limit", row_too_large), ("impossible output", bad_output), ("wrong words", wrong_words),
         ("names that others gave", names_of_others)]
