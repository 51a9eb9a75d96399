#!/usr/bin/env python3
"""Floors and rooms keep their order: rooms.py includes, or rooms.py calls BUILD.

The table of rooms in docs/architecture.md is the order, from the ground up. A file uses its own room and those before
it in the table: `includes` looks at #include lines, at the number of files in a room, at headers that are a room's own
(internal.h), and at the folders of the tests, which mirror the rooms; `calls` looks at the symbols of the objects in
BUILD, since a function can be defined above where it is declared, and finds circles: sources that call each other are
one module with one internal header; functions that only their own source uses are static. Prints a line for each
offence; exits with 1 when there is one."""

import os
import re
import sys

import objects

TABLE = "docs/architecture.md"
ROW = re.compile(r"^\| `([a-z/]+)/` \|")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
FILES_MAX = 22
OUTSIDE = {"net/compat/linux"}  # a header in the kernel's place: found by its name, not by a room


def table():
    """Folders in their order."""
    with open(TABLE, encoding="utf-8") as file:
        text = file.read()
    begin = text.index("\n### Rooms\n")
    rows = [ROW.match(line) for line in text[begin : text.index("\n## ", begin)].splitlines()]
    return [row.group(1) for row in rows if row]


def below(folder, pattern):
    """Paths of files in and below folder whose names match pattern."""
    return sorted(
        os.path.join(path, name) for path, _, names in os.walk(folder) for name in names if re.fullmatch(pattern, name)
    )


def floors(rooms):
    return sorted({room.split("/")[0] for room in rooms})


def sources(rooms):
    return [name for floor in floors(rooms) for name in below(floor, r".*\.[ch]")]


def may_use(rooms, user, used):
    return user == used or rooms.index(used) < rooms.index(user)


def folders(rooms, files):
    """Every folder of the floors is in the table, and the other way round; no room is crowded; tests mirror rooms."""
    count = {}
    for name in files:
        count[os.path.dirname(name)] = count.get(os.path.dirname(name), 0) + 1
    for folder in sorted(count):
        if folder not in rooms and folder not in OUTSIDE:
            yield f"{folder}/ is not in the table of rooms ({TABLE})"
        elif count[folder] > FILES_MAX:
            yield f"{folder}/ has {count[folder]} files, more than {FILES_MAX}: split it by reason"
    for room in rooms:
        if room not in count:
            yield f"{room}/ is in the table of rooms ({TABLE}) and has no files"
    tests = (name for floor in floors(rooms) for name in below(f"tests/{floor}", r"test_.*\.c"))
    for folder in sorted({os.path.dirname(name) for name in tests}):
        room = folder[len("tests/") :]
        if room not in rooms and room not in floors(rooms):
            yield f"{folder}/ is no room: tests stand in the folder of their source's room"


def includes(rooms, files):
    for name in files:
        room = os.path.dirname(name)
        if room in OUTSIDE:
            continue
        with open(name, encoding="utf-8") as file:
            for header in INCLUDE.findall(file.read()):
                used = os.path.dirname(header)
                if used not in rooms:
                    if not os.path.basename(header).endswith((".pb-c.h", ".pb.h")):
                        yield f"{name} includes {header}, which is in no room"
                elif not may_use(rooms, room, used):
                    yield f"{name} includes {header}: {used}/ comes after {room}/ in the table of rooms"
                elif used != room and header.endswith("internal.h"):
                    yield f"{name} includes {header}, which is for {used}/ alone"


def reached(arrows, begin):
    """All that can be come to from begin, along arrows."""
    seen, todo = set(), [begin]
    while todo:
        for other in arrows.get(todo.pop(), set()) - seen:
            seen.add(other)
            todo.append(other)
    return seen


def circles(arrows):
    """Sources that call each other in a circle are one module: each includes the internal header of their room."""
    for name in sorted(arrows):
        others = sorted(other for other in reached(arrows, name) if other != name and name in reached(arrows, other))
        if others:
            with open(name, encoding="utf-8") as file:
                headers = INCLUDE.findall(file.read())
            own = (os.path.dirname(name), "internal.h")
            if not any((os.path.dirname(header), header[-len(own[1]) :]) == own for header in headers):
                yield f"{name} and {others[0]} call each other in a circle, and {name} includes no internal.h of its room"


def words_below(folder):
    """Words in the sources of tests and benchmarks: what they mention they may use."""
    words = set()
    for name in below(folder, r".*\.(c|h|txt)"):
        with open(name, encoding="utf-8") as file:
            words.update(re.findall(r"\w+", file.read()))
    return words


def own(files, functions, used):
    """Functions that only their own source needs are static, and those that nobody needs are not there. The bodies of
    lists and tables are macros, so what objects ask for counts as well as words in other sources and in tests."""
    mentioned = words_below("tests") | words_below("bench") | {"main"}
    elsewhere = {}
    for name in files:
        if name.endswith(".c"):
            with open(name, encoding="utf-8") as file:
                for word in set(re.findall(r"\w+", file.read())):
                    elsewhere.setdefault(word, set()).add(name)
    for symbol, name in sorted(functions.items()):
        if symbol in mentioned or "__" in symbol or any(symbol in used[other] for other in used if other != name):
            continue
        if not elsewhere.get(symbol, set()) - {name} and symbol in elsewhere:
            yield f"{name} defines {symbol} for itself alone: make it static, or remove it"


def calls(rooms, files, build):
    known = set(files)
    defined, used, arrows, functions = {}, {}, {}, {}
    for name, path in objects.built(build):
        for symbol, letter in objects.symbols(path) if name in known else ():
            if letter == "U":
                used.setdefault(name, set()).add(symbol)
            else:
                defined[symbol] = name
                if letter == "T":
                    functions[symbol] = name
    if len(used) < 50:
        yield f"{build} has only {len(used)} objects: build it first"
    for name in sorted(used):
        room = os.path.dirname(name)
        for symbol in sorted(used[name] & defined.keys()):
            other = os.path.dirname(defined[symbol])
            if not may_use(rooms, room, other):
                yield f"{name} uses {symbol} of {defined[symbol]}: {other}/ comes after {room}/ in the table of rooms"
            if defined[symbol] != name:
                arrows.setdefault(name, set()).add(defined[symbol])
    yield from circles(arrows)
    yield from own(files, functions, used)


def main(arguments):
    rooms = table()
    files = sources(rooms)
    if arguments == ["includes"]:
        faults = [*folders(rooms, files), *includes(rooms, files)]
    elif len(arguments) == 2 and arguments[0] == "calls":
        faults = list(calls(rooms, files, arguments[1]))
    else:
        sys.exit(__doc__)
    for fault in faults:
        print(fault)
    print(f"{len(files)} files in {len(rooms)} rooms: {len(faults)} out of order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
