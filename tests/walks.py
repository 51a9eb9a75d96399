#!/usr/bin/env python3
"""The walks of docs/architecture.md are true: every function stands where its list says, and is reached from there.

A walk is a numbered list below a "### " heading of the section "Walks". An item names one file and the functions of it
that the walk passes, and may say in brackets how the walk comes there:

    3. `net/uring/receive.c`: `uring_receive_complete`, `uring_receive_fill`: what happens
    4. `shuffle/worker/worker.c`: `shuffle_worker_turn` (out of `net_engine_poll`): what happens
    5. `join/task.c`: `task_event` (through `event`): what happens

Without brackets an earlier item's function calls one of this item's, or is called by one. "out of": a function of this
item calls the one named, which brings what earlier items made. "through": an earlier item's function calls by a pointer
of that name, and this file sets it to one of the item's functions. No walk has more than ten files, and none comes back
to a file that it has left. Prints a line for each offence; exits with 1 when there is one."""

import re
import sys

PAGE = "docs/architecture.md"
FILES_MAX = 10
WALKS_MIN = 5
ITEM = re.compile(r"^(\d+)\. `([\w/]+\.[ch])`: ((?:`\w+`(?:, )?)+)(?: \((out of|through) `(\w+)`\))?: \S")


def walks(text):
    """(heading, items) of each; an item is (number, file, functions, how, by), or the line that is none."""
    begin = text.index("\n## Walks\n")
    section = text[begin : text.index("\n## ", begin + 4)]
    for part in section.split("\n### ")[1:]:
        heading, *lines = part.splitlines()
        items = []
        for line in lines:
            match = ITEM.match(line)
            if match:
                number, file, names, how, by = match.groups()
                items.append((int(number), file, re.findall(r"\w+", names), how, by))
            elif re.match(r"^\d", line):
                items.append(line)
        yield heading, items


def bodies(text):
    """The text of every function, by its name: from its parameters to the brace that ends it in the first column."""
    found = {}
    for match in re.finditer(r"^(?:[A-Za-z_][^\n;{}=]*[ *])(\w+)\([^;{}]*\)\n\{\n.*?^\}", text, re.MULTILINE | re.DOTALL):
        found[match.group(1)] = match.group(0)
    return found


def mentions(bodies_of, word):
    return any(re.search(rf"\b{word}\b", body) for body in bodies_of)


def reached(item, before, after, text):
    """Does the walk come to the item as it says? before, after: texts of the functions up to it, and of its own."""
    _, _, names, how, by = item
    if how == "out of":
        return mentions(after, by)
    if how == "through":
        called = any(re.search(rf"(?:->|\.){by}\(", body) for body in before)
        return called and any(re.search(rf"\.{by} = {name}\b", text) for name in names)
    return any(mentions(before, name) for name in names)


def faults_of(heading, items):
    passed, before = [], {}
    for at, item in enumerate(items):
        if isinstance(item, str):
            yield f"{heading}: this is no item: {item}"
            continue
        number, file, names, _, _ = item
        where = f"{heading}: {number}. {file}"
        if number != at + 1:
            yield f"{where}: is number {at + 1}"
        if file in passed:
            yield f"{where}: the walk has left this file already"
        passed.append(file)
        try:
            with open(file, encoding="utf-8") as source:
                text = source.read()
        except OSError as error:
            yield f"{where}: {error.strerror}"
            continue
        defined = bodies(text)
        for name in names:
            if name not in defined:
                yield f"{where}: does not define {name}"
        own = {name: defined[name] for name in names if name in defined}
        called_back = any(mentions(own.values(), name) for name in before)
        if before and not called_back and not reached(item, before.values(), own.values(), text):
            yield f"{where}: nothing earlier leads here"
        before.update(own)
    if len(passed) > FILES_MAX:
        yield f"{heading}: {len(passed)} files, more than {FILES_MAX}"


def main():
    with open(PAGE, encoding="utf-8") as file:
        found = list(walks(file.read()))
    faults = [fault for heading, items in found for fault in faults_of(heading, items)]
    if len(found) < WALKS_MIN or not all(items for _, items in found):
        faults.append(f"{PAGE}: fewer than {WALKS_MIN} walks, or one without items")
    for fault in faults:
        print(fault)
    print(f"{len(found)} walks, {sum(len(items) for _, items in found)} items: {len(faults)} wrong")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
