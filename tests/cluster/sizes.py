#!/usr/bin/env python3
"""Joins and shuffles of odd sizes, one after the other on small clusters: rows of 0 bytes to 20 MiB, 1 to 512 columns of
random types, columns selected many times, random frames, chunks, morsels and memory budgets, preloaded relations. Every
job gives the rows and the checksum that are computed here, or fails for the reason that is computed here: a row, or a
record's text, above its limit. A budget may be too small; then the error says so. What is written is read back. The seed
is printed and can be given again."""
import argparse
import collections
import os
import random
import struct
import subprocess
import sys
import time

import xxhash

import checksum
from lab import ROOT, Cluster, Lab, Wrong, expect, expect_equal

LIMIT, COLUMNS_MAX = 16 << 20, 512
BUDGETS = ["3G", "256M", "48M", "16M", "10M"]
KINDS = {"bool": 1, "int8": 1, "int32": 4, "int64": 8, "uint64": 8, "float64": 8, "date": 4, "decimal(20,3)": 16}
TOO_MUCH = "too much to compute here"
EDGES = [4096, 65536, 256 << 10, 1 << 20, 2 << 20, 8 << 20, LIMIT]


class Cell:
    """A value: its text in a file, and its bytes in a row."""
    __slots__ = ("text", "value")

    def __init__(self, kind, text):
        self.text = text
        self.value = None if text is None else checksum.encode(kind, text)


def odd_bytes(rng, most):
    """A length, near to where something begins or ends as likely as anywhere."""
    size = rng.choice([rng.randrange(0, 40), rng.randrange(0, 3000), rng.randrange(0, most + 1),
                       rng.choice(EDGES) // rng.choice([1, 1, 2]) + rng.randrange(-60, 20)])
    return max(0, min(size, most))


def draw_cell(rng, kind, nullable, most):
    if nullable and rng.random() < 0.2:
        return Cell(kind, None)
    if kind == "string":
        pattern = rng.choice([b"x", b"abc, ", b'"', b'say "a"\n', "\u00e9".encode()])
        bytes_wanted = odd_bytes(rng, most)
        return Cell(kind, (pattern * (bytes_wanted // len(pattern) + 1))[:bytes_wanted])
    if kind.startswith("binary"):
        size = int(kind[7:-1]) if "(" in kind else odd_bytes(rng, most)
        return Cell(kind, b"\\x" + (b"%02x" % rng.randrange(256)) * size)
    if kind == "bool":
        return Cell(kind, rng.choice([b"true", b"false"]))
    if kind == "date":
        return Cell(kind, b"20%02d-0%d-1%d" % (rng.randrange(100), rng.randrange(1, 10), rng.randrange(10)))
    if kind == "float64":
        return Cell(kind, b"%r" % (rng.randrange(-9999, 9999) / 8))
    if kind.startswith("decimal"):
        return Cell(kind, b"%d.%03d" % (rng.randrange(10**9), rng.randrange(1000)))
    return Cell(kind, b"%d" % rng.randrange(128))


def text_of(cell, kind):
    if cell.text is None:
        return b""
    if kind == "string" and (not cell.text or any(byte in cell.text for byte in b',"\n\r') or cell.text[:1] == b"\xef"):
        return b'"' + cell.text.replace(b'"', b'""') + b'"'
    return cell.text


class Table:
    """Key columns first. A key is an integer, so that rows meet."""

    def __init__(self, rng, fixed, share):
        columns = rng.choice([1, 2, 3, rng.randrange(1, 20), rng.randrange(1, COLUMNS_MAX + 1), COLUMNS_MAX])
        kinds = list(KINDS) + ([] if fixed else ["string", "string", "binary"])
        self.fixed, self.kinds, self.nullable = fixed, ["int64"], [rng.random() < 0.5]
        for _ in range(columns - 1):
            width = odd_bytes(rng, share if rng.random() < 4 / columns else 100)
            self.kinds.append("binary(%d)" % min(LIMIT, max(1, width)) if rng.random() < 0.2 else rng.choice(kinds))
            self.nullable.append(rng.random() < 0.4)
        self.names = ["c%d" % i for i in range(columns)]
        wide = rng.choice([1, 3, columns])
        self.rows, left = [], share
        for _ in range(rng.choice([0, 1, 2, rng.randrange(1, 40), rng.randrange(1, 400)])):
            key = None if self.nullable[0] and rng.random() < 0.1 else b"%d" % rng.randrange(rng.choice([1, 5, 50]))
            row = [Cell("int64", key)] + [draw_cell(rng, kind, nullable, left if rng.random() < wide / columns else 100)
                                          for kind, nullable in zip(self.kinds[1:], self.nullable[1:])]
            left -= sum(len(cell.value or b"") for cell in row)
            self.rows.append(row)
            if left <= 0:
                break

    def schema(self):
        return ",".join("%s:%s%s" % (name, kind, "?" * nullable)
                        for name, kind, nullable in zip(self.names, self.kinds, self.nullable))

    def write(self, path):
        with open(path, "wb") as file:
            if self.fixed:
                for row in self.rows:
                    bits = [cell.value is None for cell, nullable in zip(row, self.nullable) if nullable]
                    file.write(b"".join(bytes(width_of(kind)) if cell.value is None else cell.value
                                        for cell, kind in zip(row, self.kinds)))
                    file.write(bytes(sum(bit << i for i, bit in enumerate(bits[at:at + 8]))
                                     for at in range(0, len(bits), 8)))
                return path
            file.write((",".join(self.names) + "\n").encode())
            for row in self.rows:
                file.write(self.record(row))
        return path

    def record(self, row):
        return b",".join(text_of(cell, kind) for cell, kind in zip(row, self.kinds)) + b"\n"


def width_of(kind):
    return int(kind[7:-1]) if kind.startswith("binary(") else KINDS.get(kind, 4)


def row_bytes(kinds, nullable, cells):
    variable = sum(len(cell.value or b"") for cell, kind in zip(cells, kinds) if kind in ("string", "binary"))
    return sum(map(width_of, kinds)) + (sum(nullable) + 7) // 8 + variable


class Job:
    """What is asked for, and what must come of it."""

    def __init__(self, rng, lab):
        joined = rng.random() < 0.7
        share = rng.choice([10 << 10, 1 << 20, 5 << 20, 20 << 20])
        self.fixed = rng.random() < 0.3
        self.tables = [Table(rng, self.fixed, share) for _ in range(1 + joined)]
        if joined and rng.random() < 0.2:
            self.tables[1] = self.tables[0]
        items = [(side, column) for side, table in enumerate(self.tables) for column in range(len(table.names))]
        if len(items) > COLUMNS_MAX or rng.random() < 0.7:
            items = [rng.choice(items) for _ in range(rng.choice([1, 2, 7, rng.randrange(1, COLUMNS_MAX + 1)]))]
            self.select = ",".join(("%s.c%d" % (("left", "right")[side], column)) if joined else "c%d" % column
                                   for side, column in items)
        else:
            self.select = None
        self.items = items
        self.out = rng.choice([None, "csv", "csv", "bin"])
        paths = [table.write(lab.fresh("table") + (".bin" if self.fixed else ".csv")) for table in self.tables]
        self.words = ["join" if joined else "shuffle"]
        for path, table, names in zip(paths, self.tables, (("left", "left-schema"), ("right", "right-schema")) if joined
                                      else (("in", "schema"),)):
            self.words += ["--" + names[0], path, "--" + names[1], table.schema()]
        self.words += ["--on", "c0=c0"] if joined else ["--by", "c0"]
        self.words += ["--select", self.select] if self.select else []
        self.paths = paths
        self.expect()

    def expect(self):
        """Rows and checksum, or the words of the failures that may be told."""
        self.failures, self.rows, total = [], 0, 0
        for side, table in enumerate(self.tables):
            travel = sorted({0} | {column for at, column in self.items if at == side})
            kinds, nullable = [table.kinds[c] for c in travel], [table.nullable[c] for c in travel]
            whole = (table.kinds, table.nullable) if self.fixed else (kinds, nullable)  # of a row, as a layout
            if sum(map(width_of, whole[0])) + (sum(whole[1]) + 7) // 8 > LIMIT:
                self.failures.append("TOO_LARGE")
            for row in table.rows:
                if not self.fixed and len(table.record(row)) > LIMIT:
                    self.failures.append("TOO_LARGE")
                dropped = len(self.tables) == 2 and row[0].value is None
                if not dropped and row_bytes(kinds, nullable, [row[c] for c in travel]) > LIMIT:
                    self.failures.append("TOO_LARGE")
        kinds = [self.tables[side].kinds[column] for side, column in self.items]
        nullable = [self.tables[side].nullable[column] for side, column in self.items]
        if self.out == "bin" and any(kind in ("string", "binary") for kind in kinds):
            self.failures.append("TYPE")
        if self.out and sum(map(width_of, kinds)) + (sum(nullable) + 7) // 8 > LIMIT:
            self.failures.append("TOO_LARGE")
        least = sum(1 + (2 + 2 * width_of(kind) if kind.startswith("binary(") and not maybe else 0)
                    for kind, maybe in zip(kinds, nullable))
        if self.out == "csv" and least > LIMIT:
            self.failures.append("TOO_LARGE")
        for pair in self.pairs():
            cells = [pair[side][column] for side, column in self.items]
            self.rows += 1
            if self.out and row_bytes(kinds, nullable, cells) > LIMIT:
                self.failures.append("TOO_LARGE")
                break
            if self.out == "csv" and sum(len(text_of(cell, kind)) + 1 for cell, kind in zip(cells, kinds)) > LIMIT:
                self.failures.append("TOO_LARGE")
                break
            image = b"".join(b"\0" if cell.value is None else struct.pack("<BI", 1, len(cell.value)) + cell.value
                             for cell in cells)
            total += xxhash.xxh3_64_intdigest(image)
        self.checksum = "%016x" % (total % 2**64)

    def pairs(self):
        if len(self.tables) == 1:
            yield from ((row,) for row in self.tables[0].rows)
            return
        by_key = collections.defaultdict(list)
        for row in self.tables[1].rows:
            by_key[row[0].value].append(row)
        items = volume = 0
        for left in self.tables[0].rows:
            for right in by_key[left[0].value] if left[0].value is not None else ():
                items += len(self.items)
                volume += sum(len((left, right)[side][column].value or b"") for side, column in self.items)
                expect(items < 1000000 and volume < 1 << 28, TOO_MUCH)
                yield left, right


class Sizes:
    def __init__(self, lab, rng):
        self.lab, self.rng, self.outcomes = lab, rng, collections.Counter()

    def settings(self):
        rng, words = self.rng, []
        for option, values in (("--frame-bytes", [4096, 5000, 65536, 1 << 20]), ("--frames-per-lane", [1, 2, 7]),
                               ("--chunk-bytes", [4096, 10000, 1 << 18]), ("--chunks", [2, 5, 64]),
                               ("--morsel-bytes", [1024, 70000, 1 << 22]), ("--engine", ["epoll", "uring", "auto"])):
            if rng.random() < 0.4:
                words += [option, str(rng.choice(values))]
        return words + (["--verify"] if rng.random() < 0.3 else [])

    def run(self, cluster, words):
        job = cluster.start(*words)
        try:
            return job.finish(job.process.wait(timeout=self.lab.limit(120)))
        except subprocess.TimeoutExpired:
            raise Wrong("no end") from None

    def examine(self, report, failures, rows, digest, tight):
        """Did it end as it must? True: it succeeded."""
        code = report["error_code"] if report["exit_code"] else None
        self.outcomes[code or "succeeded"] += 1
        if code is None:
            expect(not failures, "it succeeded, though", failures)
            expect_equal((report["rows"], report["checksum"]), (rows, digest), "rows and checksum")
            return True
        if code == "NO_MEMORY" and tight:
            expect("--memory" in report["error"], "it is not said what to do:", report["error"])
            return False
        if code == "PARSE" and "is not closed within the %d bytes" % LIMIT in report["error"]:
            code = "TOO_LARGE"  # a quoted field that is too long looks like this
        expect(code in failures, "it failed:", code, report["error"])
        if code == "TOO_LARGE":
            expect("%d bytes" % LIMIT in report["error"] or str(LIMIT) in report["error"], "the limit is not named:",
                   report["error"])
        return False

    def table_job(self, cluster, tight):
        job = Job(self.rng, self.lab)
        words = job.words + self.settings()
        out = self.lab.fresh("out")
        if job.out:
            words += ["--out", out, "--output-format", job.out]
        try:
            report = self.run(cluster, words)
            done = self.examine(report, job.failures, job.rows, job.checksum, tight)
            if done and job.out == "csv":
                self.read_back(cluster, out, report, tight)
        except Wrong as error:
            raise Wrong("%s\n  in: %s" % (error, " ".join(words)[-1500:])) from None
        for path in job.paths:
            os.unlink(path)

    def read_back(self, cluster, out, report, tight):
        """Another job reads what was written; the first column is enough of a key."""
        with open(out + "/part-00000.csv", "rb") as file:
            name = file.readline().split(b":")[0].strip(b'"').decode()
        again = self.run(cluster, ["shuffle", "--in", out, "--by", '"%s"' % name, *self.settings()])
        self.examine(again, [], report["rows"], report["checksum"], tight)

    def generated_job(self, cluster, tight):
        rng = self.rng
        row = max(8, odd_bytes(rng, LIMIT))
        rows = max(1, min(rng.choice([1, 7, 100, 5000]), (64 << 20) // row))
        select = ",".join(rng.choice(["key", "payload"] if row > 8 else ["key"]) for _ in range(rng.choice([1, 2, 9])))
        kind = rng.choice(["shuffle", "table", "join"])
        source = "gen:rows=%d,row=%d,keys=%s,seed=%d" % (
            rows, row, rng.choice(["unique", "one", "uniform:5", "zipf:1.1:100", "stride"]), rng.randrange(99))
        found = set()
        for preload in (0, 1):
            with_preload = "%s,preload=%d" % (source, preload)
            words = {"shuffle": ["shuffle", "--in", with_preload, "--by", "key", "--select", select],
                     "table": ["shuffle", "--in", with_preload, "--by", "key", "--into", "table"],
                     "join": ["join", "--left", with_preload, "--right", "gen:rows=3,row=16", "--on", "key=key",
                              "--select", ",".join("left." + name for name in select.split(","))]}[kind]
            words += self.settings()
            report = self.run(cluster, words)
            try:
                if report["exit_code"] == 0 or not tight or report["error_code"] != "NO_MEMORY":
                    expect_equal(report["exit_code"], 0, "exit code of " + str(report.get("error")))
                    found.add((report["rows"], report["checksum"], report["table_rows"]))
                self.outcomes["generated"] += 1
            except Wrong as error:
                raise Wrong("%s\n  in: %s" % (error, " ".join(words)[-1500:])) from None
        expect(len(found) < 2, "answers differ:", found, source, select)

    def some(self, cluster, tight, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            seed = self.rng.randrange(1 << 32)
            self.rng.seed(seed)
            try:
                (self.generated_job if self.rng.random() < 0.3 else self.table_job)(cluster, tight)
            except Wrong as error:
                if str(error) == TOO_MUCH:
                    continue
                raise Wrong("%s\n  with --seed %d" % (error, seed)) from None
        self.lab.note(", ".join("%d %s" % (count, what) for what, count in sorted(self.outcomes.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.environ.get("MILLRACE_BIN", os.path.join(ROOT, "build/release/bin")))
    parser.add_argument("--seconds", type=float, default=60, help="how long, over all budgets (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the jobs (by the clock)")
    parser.add_argument("--patience", type=int, default=1, help="factor for all time limits (sanitizers)")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else time.time_ns() & 0xffffffff
    print("seed %d" % seed, flush=True)
    lab = Lab(arguments.bin, (), arguments.patience)
    rng = random.Random(seed)
    try:
        for number, budget in enumerate(BUDGETS):
            nodes, workers = rng.choice([(1, 1), (1, 3), (2, 1), (3, 2)])
            cluster = Cluster(lab, "sizes%d" % number, nodes=nodes, workers=workers, memory=budget)
            cluster.up()
            lab.case("odd sizes with %s on %d nodes of %d workers" % (budget, nodes, workers), Sizes(lab, rng).some,
                     cluster, budget != BUDGETS[0], arguments.seconds / len(BUDGETS), cluster=cluster)
            lab.case("the cluster ends and leaves nothing", lab.end, cluster)
    finally:
        lab.close()
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
