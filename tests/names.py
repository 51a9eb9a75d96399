#!/usr/bin/env python3
"""Static functions have names that grep finds once: names.py, in the root of the sources.

A static function's name has its subject (csv_scan_skip, not skip), and no other source defines a static function of the
same name. Prints a line for each offence; exits with 1 when there is one."""

import re
import subprocess
import sys

SOURCES = ("base/*.[ch]", "net/*.[ch]", "shuffle/*.[ch]", "join/*.[ch]", "cluster/*.[ch]")
FEWEST = 1000  # definitions: fewer found means that the pattern below has gone blind
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)\s*")
DEFINITION = re.compile(r"^static\b[^;{}=]*?\b([a-z_][a-z0-9_]*)\([^;{}]*\)\s*\{", re.MULTILINE)


def static_functions():
    """(name, file) of every static function."""
    listing = subprocess.run(["git", "ls-files", *SOURCES], check=True, capture_output=True, text=True)
    for path in listing.stdout.split():
        with open(path, encoding="utf-8") as file:
            text = ATTRIBUTE.sub("", COMMENT.sub("", file.read()))
        for match in DEFINITION.finditer(text):
            yield match.group(1), path


def offences(functions):
    places = {}
    for name, path in functions:
        places.setdefault(name, set()).add(path)
    for name, paths in sorted(places.items()):
        where = ", ".join(sorted(paths))
        if "_" not in name:
            yield f"{where}: the static function {name} has one word: say of what it is"
        elif len(paths) > 1:
            yield f"{where}: each has a static function {name}: name its subject"


def main():
    functions = list(static_functions())
    found = list(offences(functions))
    if len(functions) < FEWEST:
        found.append(f"only {len(functions)} static functions found: does the pattern still fit the sources?")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
