"""Tables as lists of typed rows: written as CSV in many ways, joined by sqlite, encoded as the checksum wants it."""
import collections
import glob
import os
import random
import sqlite3
import struct

import xxhash

import checksum

# A value here is None, an int (integers, bool), or bytes (all else: strings as they are, other types as their text).


class Table:
    def __init__(self, columns, rows):
        self.names = [column.split(":")[0] for column in columns]
        self.kinds = [column.split(":")[1].rstrip("?") for column in columns]
        self.columns, self.rows = columns, rows

    def header(self):
        return b",".join(b'"%s"' % column.encode() if "," in column else column.encode()
                         for column in self.columns) + b"\n"

    def write(self, path, seed=0, line_end=b"\n", last_line_end=True, header=None, quote=0.1):
        """As CSV, with quotes where they are needed and, at random, elsewhere."""
        rng = random.Random(seed)
        with open(path, "wb") as file:
            file.write(self.header() if header is None else header)
            text = line_end.join(b",".join(field(value, kind, rng, quote) for value, kind in zip(row, self.kinds))
                                 for row in self.rows)
            file.write(text + (line_end if last_line_end and self.rows else b""))
        return path


def field(value, kind, rng, quote):
    if value is None:
        return b""
    text = b"%d" % value if isinstance(value, int) else value
    if text == b"" or any(byte in text for byte in b',"\n\r') or text[:1] == b"\xef" or \
            (quote and rng.random() < quote):
        return b'"' + text.replace(b'"', b'""') + b'"'
    return text


def encode_row(kinds, row):
    """A row as the checksum sees it."""
    out = bytearray()
    for kind, value in zip(kinds, row):
        if value is None:
            out += b"\0"
            continue
        encoded = checksum.encode(kind, value if isinstance(value, bytes) else b"%d" % value)
        out += struct.pack("<BI", 1, len(encoded)) + encoded
    return bytes(out)


class Answer:
    """What a join must give: rows as a multiset, their number and checksum."""

    def __init__(self, kinds, rows):
        self.kinds = kinds
        self.multiset = collections.Counter(rows)
        self.rows = len(rows)
        total = 0
        for row, count in self.multiset.items():
            total += xxhash.xxh3_64_intdigest(encode_row(kinds, row)) * count
        self.checksum = "%016x" % (total % 2**64)


PADDED = {"left": "r", "right": "l", "full": "lr"}  # the side whose columns may be NULL, by type of join


def join_words(kind, items, condition, null_aware):
    """SQL for every type of join that all versions of sqlite understand."""
    alone = "not exists (select 1 from %s where " + condition + ")"
    if kind == "full":
        return "%s union all select %s from r left join l on 0 where %s" % (
            join_words("left", items, condition, False), items, alone % "l")
    if kind in ("semi", "anti"):
        rule = {"semi": alone.replace("not ", "", 1) % "r", "anti": alone % "r"}[kind]
        if null_aware:
            a, b = condition.split(" = ")
            rule = "%s not in (select %s from r)" % (a, b)
        return "select %s from l where %s" % (items, rule)
    tables = {"inner": "l join r", "left": "l left join r", "right": "r left join l"}[kind]
    return "select %s from %s on %s" % (items, tables, condition)


def sqlite_join(left, right, on, select=None, kind="inner", null_equal=False, null_aware=False):
    """The same join by sqlite. `on` is a list of pairs of names; select a list of "left.name" and "right.name"."""
    database = sqlite3.connect(":memory:")
    for name, table in (("l", left), ("r", right)):
        database.execute("create table %s (%s)" % (name, ",".join('"%s"' % column for column in table.names)))
        database.executemany("insert into %s values (%s)" % (name, ",".join("?" * len(table.names))), table.rows)
    database.execute("create index ri on r (%s)" % ",".join('"%s"' % b for a, b in on))
    items = select or ["left." + name for name in left.names] + \
        ["right." + name for name in right.names if kind not in ("semi", "anti")]
    sides = {"left": ("l", left), "right": ("r", right)}
    kinds, words = [], []
    for item in items:
        letter, table = sides[item.split(".")[0]]
        name = item.split(".")[1]
        kinds.append(table.kinds[table.names.index(name)])
        words.append('%s."%s"' % (letter, name))
    equal = "is" if null_equal else "="
    condition = " and ".join('l."%s" %s r."%s"' % (a, equal, b) for a, b in on)
    rows = database.execute(join_words(kind, ",".join(words), condition, null_aware)).fetchall()
    database.close()
    return Answer(kinds, rows)


def typed(kind, text):
    if text is None:
        return None
    return int(text) if kind.startswith(("int", "uint")) else text


def read_parts(folder):
    """The header of the parts and their rows: [(part's name, [row...])...]."""
    parts, header = [], None
    for path in sorted(glob.glob(glob.escape(folder) + "/part-*.csv")):
        records = checksum.records(path)
        names = tuple(next(records))
        if header is not None and names != header:
            raise ValueError("parts differ in their headers: %r %r" % (names, header))
        header = names
        kinds = [name.decode().rsplit(":", 1)[1].rstrip("?") for name in names]
        parts.append((os.path.basename(path),
                      [tuple(typed(kind, text) for kind, text in zip(kinds, record, strict=True))
                       for record in records]))
    return header, parts


# Data ----------------------------------------------------------------------------------------------------------------

EDGE_TEXTS = [b"", b"a", b"A", b"a ", b" a", b"a,b", b'say "a"', b"two\nlines", b"two\r\nlines", b"nul\0inside", b'"',
              b'""', b"\xff\xfe not UTF-8", "\u00e9".encode(), "e\u0301".encode(), b"\xef\xbb\xbfbom", b"NULL", b"null",
              b"1", b"01", b",", b"\n", b"\r", b"x" * 300, b"'", b"\\N", b"#", b"_"]
EDGE_INTS = [0, 1, -1, 2**63 - 1, -2**63, 2**32, 2**32 + 1, -2**31, 255, 256]


def edge_tables(seed):
    """Few values of every awkward kind, with NULLs, many to many."""
    rng = random.Random(seed)
    texts, ints = EDGE_TEXTS + [None] * 3, EDGE_INTS + [None] * 2
    left = Table(["id:int64?", "name:string?", "note:string?"],
                 [(rng.choice(ints), rng.choice(texts), rng.choice(texts)) for _ in range(180)])
    right = Table(["ref:int64?", "title:string?"], [(rng.choice(ints), rng.choice(texts)) for _ in range(150)])
    return left, right


def composite_tables(seed):
    """Keys of three parts whose bytes, put together, are often the same."""
    rng = random.Random(seed)
    pieces = [b"", b"a", b"ab", b"abc", b"b", b"bc", b"c", None]

    def rows(count, *more):
        return [(rng.choice(pieces), rng.choice(pieces), rng.choice([0, 1, None]), i) for i in range(count)]
    return (Table(["a:string?", "b:string?", "c:int32?", "row:int64"], rows(250)),
            Table(["x:string?", "y:string?", "z:int8?", "line:int64"], rows(200)))


def plain_tables(seed, left_rows=6000, right_rows=2500, keys=2000):
    rng = random.Random(seed)
    words = [b"w%d" % i for i in range(500)] + [b"quoted, \"word\" %d" % i for i in range(20)]
    left = Table(["id:int64?", "word:string?", "amount:int64"],
                 [(rng.randrange(keys) if rng.random() > 0.02 else None, rng.choice(words), rng.randrange(10**12))
                  for _ in range(left_rows)])
    right = Table(["key:int64?", "label:string"],
                  [(rng.randrange(keys) * (1 if rng.random() > 0.5 else 2) if rng.random() > 0.02 else None,
                    rng.choice(words)) for _ in range(right_rows)])
    return left, right


def stride_tables(seed, rows=3000):
    """Keys k * 2^32: the low half is always zero."""
    rng = random.Random(seed)
    return (Table(["k:int64", "n:int64"], [((i - rows // 2) * 2**32, i) for i in range(rows)]),
            Table(["k2:int64", "t:string"],
                  [((rng.randrange(2 * rows) - rows) * 2**32, b"t%d" % i) for i in range(rows)]))


def zipf_tables(seed, rows=4000, keys=1000, exponent=1.5):
    rng = random.Random(seed)
    weights = [1 / (k + 1) ** exponent for k in range(keys)]
    drawn = rng.choices(range(keys), weights, k=rows)
    return (Table(["k:int64", "row:int64"], [(k, i) for i, k in enumerate(drawn)]),
            Table(["key:int64", "v:string"], [(k, b"value %d" % k) for k in range(0, keys, 2)]))


def one_key_tables(left_rows=500, right_rows=60):
    return (Table(["k:string", "i:int64"], [(b"the same", i) for i in range(left_rows)]),
            Table(["k2:string", "j:int64"], [(b"the same", j) for j in range(right_rows)]))


def large_field_tables(seed):
    """Rows larger than frames, chunks and morsels, fields with line ends and quotes all through."""
    rng = random.Random(seed)

    def blob(size):
        piece = rng.choice([b"plain text ", b"line\n", b'quote "" here', b"\r\n,,,\"", b"\0\xff"])
        return (piece * (size // len(piece) + 1))[:size]
    sizes = [1, 10, 4000, 4096, 4097, 20000, 65535, 65536, 70000, 300000, 1100000]
    left = [(i % 5, blob(rng.choice(sizes[:-1]))) for i in range(24)] + [(7, blob(sizes[-1]))]
    right = [(i % 9, blob(rng.choice(sizes[:6]))) for i in range(12)]
    return Table(["k:int32", "body:string"], left), Table(["key:int64", "text:string"], right)


def tiny_tables():
    """Fewer rows than workers."""
    return (Table(["k:int64?", "s:string"], [(1, b"one"), (None, b"none")]),
            Table(["key:int64?", "t:string"], [(1, b"eins"), (2, b"zwei"), (None, b"kein")]))


def empty_tables(left_rows, right_rows):
    return (Table(["k:int64", "s:string"], [(i, b"s%d" % i) for i in range(left_rows)]),
            Table(["key:int64", "t:string?"], [(i, None) for i in range(right_rows)]))
