#!/usr/bin/env python3
"""Texts and comments are plain and active: words.py, in the root of the sources.

Looks for habits that a reader stumbles over, each with what to write instead. Texts are what a user meets: strings in
the floors' sources and in the scripts of deploy/, documents and manual pages, without their code. Comments are those of
the floors, held to the habits that can be found there without false alarms; those that a reflow mangled are found, too.
Prints a line for each offence; exits with 1 when there is one."""

import re
import subprocess
import sys

FLOORS = ("base/*.[ch]", "net/*.[ch]", "shuffle/*.[ch]", "join/*.[ch]", "cluster/*.[ch]")
FEWEST = {"texts": 4000, "comments": 3000}  # fewer found means that a pattern below has gone blind

NOT_LEFT = r"(?<!left )(?<!leaves )(?<!nothing )(?<!anything )(?<!process )(?<!fall )"  # what a program leaves behind
EVERYWHERE = (
    (re.compile(NOT_LEFT + r"\bbehind\b"), "write after, below or of: nothing stands behind anything here"),
    (re.compile(r"(?:^|[.:;] )Who(?:ever)?(?: else)? [a-z]+(?![^.]*\?)"), "name the subject: a node, a caller, a user"),
    (re.compile(r"\bleave \w+ away\b"), "write omit"),
    (re.compile(r"(?<!balanced )\bcuts? (?:off|short|to|into|in two|from)\b|\b(?:segments|sizes|buffers|sends) (?:are )?cut\b", re.I),
     "cut means a cut row or a balanced cut: write truncated, divided, clamped or interrupted"),
    (re.compile(r"(?<!both )(?<!one-)\bways?\b"), "write path, connection, direction or how"),
)
IN_TEXTS = (
    (re.compile(r"\bhad\b"), "write has, was or did: say what is"),
    (re.compile(r"\b(?:told|said)\b"), "write reported, sent, ordered or logged: say who does what"),
    (re.compile(r"\bin turn\b"), "say what happens in which order"),
    (re.compile(r"\b[Ll]eft out\b|\b[Ll]eav(?:e|es|ing)(?: [\w-]+){0,7} out\b"), "write skipped or omitted"),
    (re.compile(r"\bwants\b(?! to )|\b(?:clients|workers|others|may) want\b"), "write needs, takes or asks for"),
    (re.compile(r"\b(?:is|are) here\b(?! (?:as|too))"), "write connected, present or installed"),
    (re.compile(r"\ball the same\b"), "write anyway"),
    (re.compile(r"\b(?:let|lets|letting) go\b"), "write release or close"),
    (re.compile(r"\bWhat of\b"), "name the subject: the features, the rows"),
)


def files(*patterns):
    return subprocess.run(["git", "ls-files", *patterns], check=True, capture_output=True, text=True).stdout.split()


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def line_of(text, at):
    return text.count("\n", 0, at) + 1


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
BETWEEN = re.compile(r'(?:\s|\\\n|\bPRI\w+|\b[A-Z][A-Z_]+\b)*')


def strings_of_source(text):
    """(line, text) of the literals of C, adjacent ones together."""
    code = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    code = re.sub(r"^#include.*", "", code, flags=re.MULTILINE)
    begin, words, end = 0, "", None
    for match in STRING.finditer(code):
        if end is None or not BETWEEN.fullmatch(code, end, match.start()):
            if words:
                yield line_of(code, begin), words
            begin, words = match.start(), ""
        words += match.group()[1:-1].replace("\\n", " ")
        end = match.end()
    if words:
        yield line_of(code, begin), words


def comments_of_source(text):
    """(line, text) of the comments of C, each as one line."""
    for match in COMMENT.finditer(text):
        yield line_of(text, match.start()), re.sub(r"\s*\n \* ?", " ", match.group()[2:-2]).strip()


def paragraphs(text):
    """(line, text) of what stands between empty lines, without code."""
    fenced, begin, words = False, 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        fence = line.startswith("```")
        fenced ^= fence
        if fence or fenced or not line.strip() or line.startswith("    "):
            if words:
                yield begin, re.sub(r"`[^`]*`", "`", " ".join(words))
            words = []
        else:
            begin = begin if words else number
            words.append(line.strip())


def page(text):
    """(line, text) of the paragraphs of a manual page."""
    plain = re.sub(r'^\.\\".*$', "", text, flags=re.MULTILINE)
    return paragraphs(re.sub(r"^\.(?:Pp|TP|PP|El|Bl.*|Sh.*|SH.*|It.*)$", "", plain, flags=re.MULTILINE))


def strings_of_script(text):
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith("#"):
            for match in STRING.finditer(line):
                yield number, match.group()[1:-1]


def texts():
    for path in files(*FLOORS):
        yield from ((path, line, words) for line, words in strings_of_source(read(path)))
    for path in files("*.md"):
        yield from ((path, line, words) for line, words in paragraphs(read(path)))
    for path in files("docs/man"):
        yield from ((path, line, words) for line, words in page(read(path)))
    for path in files("deploy"):
        if not path.endswith((".md", ".conf", ".service")):
            yield from ((path, line, words) for line, words in strings_of_script(read(path)))


def comments():
    for path in files(*FLOORS):
        yield from ((path, line, words) for line, words in comments_of_source(read(path)))


def mangled():
    """Items of a list in a comment whose next line lost its indentation."""
    for path in files("*.c", "*.h"):
        text = read(path)
        for match in re.finditer(r"^ \*( +)- .*\n \* ?(?![-\s/])", text, re.MULTILINE):
            yield f"{path}:{line_of(text, match.end())}: the item of a list goes on without its indentation"


def offences(kind, found, habits):
    found = list(found)
    if len(found) < FEWEST[kind]:
        yield f"only {len(found)} {kind} found: do the patterns still fit?"
    for path, line, words in found:
        for habit, instead in habits:
            match = habit.search(words)
            if match:
                around = words[max(0, match.start() - 30) : match.end() + 30]
                yield f'{path}:{line}: "{around}": {instead}'


def main():
    found = [*offences("texts", texts(), EVERYWHERE + IN_TEXTS), *offences("comments", comments(), EVERYWHERE), *mangled()]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
