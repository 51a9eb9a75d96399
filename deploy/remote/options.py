"""The words of deploy/cluster for clusters on other hosts, by the table that those on this machine have, too."""
import os
import re
import types

from transport import Failure

TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib", "options.table")
SIZES = {"": 1, "k": 1000, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4,
         "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}
MORE = "; deploy/cluster --help shows what there is"


class Row:
    """An option: what lib/options.table says of it."""

    def __init__(self, name, value):
        self.name, self.value = name, value
        self.letter = self.kind = self.preset = self.unset = self.help = ""
        self.here, self.there, self.manual, self.kept = [], [], [], False

    @property
    def key(self):
        """The attribute of what `read` returns."""
        return self.name[2:].replace("-", "_")


def table(path=TABLE):
    """(commands, groups): {word: (use, help)} and [(heading, [Row])]."""
    commands, groups, now = {}, [], None
    with open(path, encoding="utf-8") as file:
        for line in file:
            key, _, rest = line.strip().partition(" ")
            if not key or key.startswith("#"):
                continue
            if key == "command":
                now = rest.split(" ")[0]
                commands[now] = (rest, "")
            elif key == "group":
                groups.append((rest, []))
            elif key.startswith("--"):
                now = Row(key, rest)
                groups[-1][1].append(now)
            elif isinstance(now, str):
                commands[now] = (commands[now][0], rest)
            elif key in ("here", "there"):
                setattr(now, key, rest.split())
            elif key == "manual":
                now.manual.append(rest)
            elif key == "kept":
                now.kept = True
            else:
                setattr(now, key, rest)
    return commands, groups


def rows():
    """{name: Row}"""
    return {row.name: row for _, group in table()[1] for row in group}


def distance(one, other):
    """Letters inserted, deleted, changed, or swapped with their neighbour."""
    last, before, row = [], [], list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, known in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != known)))
            if i > 1 and j > 1 and one[i - 2:i] == known + other[j - 2]:
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]


def nearest(word, known):
    """` (did you mean "..."?)`, by the client's rule: at most one such change for every three letters."""
    best = min(known, key=lambda one: distance(word, one))
    return f' (did you mean "{best}"?)' if distance(word, best) <= len(word) // 3 else ""


def number(name, text, least, most):
    if not re.fullmatch("[0-9]{1,6}", text):
        raise Failure(2, f"{name}={text} is not a number from {least} to {most}{MORE}")
    if not least <= int(text) <= most:
        raise Failure(2, f"{name}={text} is out of range: it goes from {least} to {most}{MORE}")
    return int(text)


def size(name, text):
    match = re.fullmatch(r"([1-9][0-9]{0,14})([kKMGT]?|[kKMGT]i)", text)
    unit = match and SIZES[match[2].replace("ki", "Ki")]
    if not match or int(match[1]) * unit >= 1 << 63:
        raise Failure(2, f"{name}={text} is not a size such as 512Mi or 2G{MORE}")
    return int(match[1]) * unit


def value_of(row, text):
    """The value of an option's text."""
    kind, *words = row.kind.split()
    if kind == "number":
        return number(row.name, text, int(words[0]), int(words[1]))
    if kind == "size":
        return size(row.name, text)
    if kind == "choice" and text not in words:
        raise Failure(2, f"{row.name}={text} is not understood{nearest(text, words)}: "
                         f"choose one of {', '.join(words)}{MORE}")
    if kind == "name" and not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", text):
        raise Failure(2, f"{row.name}={text} is no name: it is made of a-z, 0-9 and -, 40 characters at most{MORE}")
    if kind == "engine" and not re.fullmatch(r"[a-z][a-z0-9=+-]*", text):
        raise Failure(2, f"{row.name}={text} is no engine: choose one of those that millrace engines lists{MORE}")
    if kind == "absolute" and not text.startswith("/"):
        raise Failure(2, f"{row.name}={text}: a path on the hosts begins with /{MORE}")
    return text


def find(verb, word, known):
    """The row of an option's name or letter."""
    for row in known.values():
        if verb in row.there and word in ([row.name, f"-{row.letter}"] if row.letter else [row.name]):
            return row
    if word in known and verb in known[word].here:
        raise Failure(2, f"{verb}: {word} is for clusters on this machine{MORE}")
    names = [row.name for row in known.values() if verb in row.here + row.there]
    raise Failure(2, f'{verb}: there is no option "{word}"{nearest(word, names)}{MORE}')


def read(verb, words):
    """An attribute for each option, and `rest`, what is none: after "--", and for `run` from the first such word. What was
    not given is its preset; of what a cluster keeps None, as its record knows; of a flag False."""
    known, texts, words = rows(), {}, list(words)
    given = types.SimpleNamespace(rest=[])
    for row in known.values():
        preset = row.preset and not row.kept
        setattr(given, row.key, value_of(row, row.preset) if preset else None if row.value else False)
    while words:
        word = words.pop(0)
        if word == "--" or (verb == "run" and not word.startswith("-")):
            given.rest += words if word == "--" else [word, *words]
            break
        if not word.startswith("-"):
            given.rest.append(word)
            continue
        name, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        row = find(verb, name, known)
        if not row.value:
            if equals:
                raise Failure(2, f'"{word}": {name} takes no value{MORE}')
            setattr(given, row.key, True)
            continue
        if not equals:
            if not words:
                raise Failure(2, f"{row.name} lacks its value: write {row.name}={row.value}{MORE}")
            text = words.pop(0)
        if not text:
            raise Failure(2, f"{row.name} has an empty value: give it one, or omit the option{MORE}")
        if texts.setdefault(row.name, text) != text:
            raise Failure(2, f'{row.name} is given twice, with "{texts[row.name]}" and "{text}": give it once{MORE}')
        setattr(given, row.key, value_of(row, text))
    if given.rest and verb not in ("run", "logs", "restart"):
        raise Failure(2, f'{verb} takes no bare word like "{given.rest[0]}"{MORE}')
    return given
