#!/usr/bin/env python3
"""Prints rows and checksum of CSV files that millrace wrote (header of name:type, LF): checksum.py FILE..."""
import datetime, re, struct, sys, xxhash

INTEGERS = {"int8": "<b", "int16": "<h", "int32": "<i", "int64": "<q", "uint8": "<B", "uint16": "<H", "uint32": "<I",
            "uint64": "<Q"}


def encode(text, kind):
    """The bytes of a value as rows hold them."""
    if kind in INTEGERS: return struct.pack(INTEGERS[kind], int(text))
    if kind == "bool": return b"\1" if text == "true" else b"\0"
    if kind == "float32": return struct.pack("<f", float(text))
    if kind == "float64": return struct.pack("<d", float(text))
    if kind.startswith("decimal"): return int(text.replace(".", "")).to_bytes(16, "little", signed=True)
    if kind.startswith("binary"): return bytes.fromhex(text[2:])
    if kind == "date": return struct.pack("<i", (datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days)
    if kind == "timestamp":
        second, _, fraction = text.partition(".")
        passed = datetime.datetime.fromisoformat(second) - datetime.datetime(1970, 1, 1)
        return struct.pack("<q", (passed.days * 86400 + passed.seconds) * 10**6 + int(fraction.ljust(6, "0")))
    return text.encode(errors="surrogateescape")


rows = checksum = 0
for path in sys.argv[1:]:
    record, kinds = [], None
    for field, end in re.findall(r'("(?:[^"]|"")*"|[^,\n]*)([,\n])', open(path, errors="surrogateescape", newline="").read()):
        record.append(field[1:-1].replace('""', '"') if field.startswith('"') else field or None)
        if end == ",": continue
        if kinds is None:
            kinds = [name.rpartition(":")[2].rstrip("?") for name in record]
        else:
            values = [None if text is None else encode(text, kind) for text, kind in zip(record, kinds)]
            image = b"".join(b"\0" if v is None else b"\1" + struct.pack("<I", len(v)) + v for v in values)
            checksum, rows = (checksum + xxhash.xxh3_64_intdigest(image)) % 2**64, rows + 1
        record = []
print(rows, f"{checksum:016x}")
