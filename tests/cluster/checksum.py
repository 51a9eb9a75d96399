#!/usr/bin/env python3
"""Recomputes rows and checksum of a result from CSV parts that millrace wrote: checksum.py FILE..."""
import datetime
import decimal
import glob
import re
import struct
import sys

import xxhash

EPOCH, MICROSECOND = datetime.datetime(1970, 1, 1), datetime.timedelta(microseconds=1)
DIGITS = decimal.Context(prec=100)
FIELD = re.compile(rb'("(?:[^"]|"")*"|[^",\n]*)([,\n])')
CODES = dict(zip("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split(), "?bhiqBHIQfd"))


def encode(kind, text):
    """The bytes of a value in a row."""
    if kind == "string":
        return text
    if kind.startswith("binary"):
        return bytes.fromhex(text[2:].decode())
    if kind.startswith("decimal"):
        scaled = decimal.Decimal(text.decode()).scaleb(int(kind[8:-1].split(",")[1]), DIGITS)
        return int(scaled).to_bytes(16, "little", signed=True)
    if kind in ("date", "timestamp"):
        passed = datetime.datetime.fromisoformat(text.decode()) - EPOCH
        return struct.pack("<i", passed.days) if kind == "date" else struct.pack("<q", passed // MICROSECOND)
    value = text == b"true" if kind == "bool" else float(text) if kind.startswith("float") else int(text)
    return struct.pack("<" + CODES[kind], value)


def records(path):
    """The records of a part file, the header first; a field is its bytes, or None for NULL."""
    with open(path, "rb") as file:
        data = file.read()
    fields = FIELD.findall(data)
    if sum(len(text) + 1 for text, end in fields) != len(data):
        raise ValueError(path + " is not made of whole records")
    record = []
    for text, end in fields:
        record.append(text[1:-1].replace(b'""', b'"') if text[:1] == b'"' else text or None)
        if end == b"\n":
            yield record
            record = []


def checksum_of_files(paths):
    rows = total = 0
    for path in paths:
        part = records(path)
        kinds = [re.sub(rb'.*:|\?$', b"", name, flags=re.S).decode() for name in next(part)]
        for record in part:
            values = [None if text is None else encode(kind, text) for kind, text in zip(kinds, record, strict=True)]
            total += xxhash.xxh3_64_intdigest(
                b"".join(b"\0" if value is None else struct.pack("<BI", 1, len(value)) + value for value in values))
            rows += 1
    return rows, total % 2**64


def checksum(folder):
    return checksum_of_files(glob.glob(glob.escape(folder) + "/part-*.csv"))


if __name__ == "__main__":
    print("%d %016x" % checksum_of_files(sys.argv[1:]))
