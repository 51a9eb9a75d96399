#!/usr/bin/env python3
"""The options of deploy/cluster: both parsers, --help and the manual page are as deploy/lib/options.table says.

MILLRACE_WRITE=1 writes the manual page anew."""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "deploy", "remote"))

import options  # noqa: E402
from transport import Failure  # noqa: E402

PAGE = f"{ROOT}/docs/man/millrace-cluster.8"
COMMANDS, GROUPS = options.table()
ROWS = [row for _, group in GROUPS for row in group]
VALUES = {"text": ("a", "b"), "name": ("a", "b"), "path": ("/a", "/b"), "absolute": ("/a", "/b"), "size": ("1G", "2G"),
          "engine": ("epoll", "uring"), "link": ("1gbit", "2gbit"), "rate": ("1gbit", "2gbit")}


def two_values(row):
    kind, *words = row.kind.split()
    return VALUES.get(kind) or tuple(words[:2])


def here(*words):
    """What deploy/cluster says to words that are wrong, on this machine."""
    ran = subprocess.run(["deploy/cluster", *words], cwd=ROOT, capture_output=True, text=True, check=False,
                         stdin=subprocess.DEVNULL, timeout=60)
    assert ran.returncode == 2, (words, ran)
    return ran.stderr.removeprefix("deploy/cluster: ").rstrip("\n")


def there(verb, *words):
    """What it says of a cluster on other hosts."""
    try:
        options.read(verb, words)
    except Failure as failure:
        return str(failure)
    raise AssertionError(f"{verb} takes {words}")


def roff(text):
    return text.replace("\\", "\\\\").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")


def manual():
    """(the synopsis, the options) as the page has them."""
    synopsis, page = "", ""
    for use, _ in COMMANDS.values():
        word, _, rest = use.partition(" ")
        synopsis += f"\\fBdeploy/cluster {word}\\fR {roff(rest)}".rstrip() + "\n"
    for heading, group in GROUPS:
        page += f".SS {heading}\n"
        for row in group:
            letter = f"\\fB\\-{row.letter}\\fR, " if row.letter else ""
            page += f".TP\n{letter}\\fB{roff(row.name)}\\fR" + (f" \\fI{row.value}\\fR" if row.value else "") + "\n"
            page += "\n".join(row.manual or [roff(row.help[0].upper() + row.help[1:]) + "."]) + "\n"
            if row.value:
                page += f"The default is {roff(row.preset or row.unset)}.\n"
            for place, verbs in (("On this machine", row.here), ("On other hosts", row.there)):
                if verbs:
                    page += f"{place}: {', '.join(verbs)}.\n"
    return synopsis, page


class Table(unittest.TestCase):
    def test_rows_are_whole(self):
        self.assertGreater(len(ROWS), 20)
        self.assertEqual(len({row.name for row in ROWS}), len(ROWS))
        for row in ROWS:
            with self.subTest(row.name):
                self.assertTrue(row.help and not row.help.endswith("."))
                self.assertTrue(row.here or row.there)
                self.assertLessEqual(set(row.here + row.there), set(COMMANDS))
                self.assertEqual(bool(row.kind), bool(row.value))
                self.assertEqual(bool(row.preset) + bool(row.unset), bool(row.value))
                self.assertNotIn("default", row.help + " ".join(row.manual))
                self.assertTrue(row.variable)
                if row.preset:
                    options.value_of(row, row.preset)

    def test_every_command_has_its_help(self):
        for word, (_, text) in COMMANDS.items():
            self.assertTrue(text, word)


class Words(unittest.TestCase):
    """What both parsers say. They are asked the same where both take the option."""

    def both(self, row, words, said):
        """words: after the option's first command."""
        for verbs, ask in ((row.here, here), (row.there, there)):
            # A word such as --hosts sends deploy/cluster to the other parser: that one is asked itself.
            if verbs:
                text = ask(verbs[0], *words)
                self.assertTrue(text.startswith(said), f"{verbs[0]} {words}: {text!r} does not begin with {said!r}")

    def test_a_bad_value_is_named(self):
        wrong = {"text": None, "path": None, "absolute": "a", "size": "12x", "engine": "no engine", "link": "fast",
                 "rate": "fast", "name": "No", "number": "x", "choice": "x"}
        for row in ROWS:
            with self.subTest(row.name):
                if not row.value:
                    self.both(row, [f"{row.name}=1"], f'"{row.name}=1": {row.name} takes no value')
                    continue
                self.both(row, [row.name], f"{row.name} lacks its value: write {row.name}={row.value}")
                self.both(row, [f"{row.name}="], f"{row.name} has an empty value: give it one, or omit the option")
                bad = wrong[row.kind.split()[0]]
                if bad:
                    self.both(row, [row.name, bad], f"{row.name}={bad}")

    def test_a_number_out_of_range_is_told_the_range(self):
        for row in ROWS:
            kind, *words = row.kind.split() or [""]
            if kind != "number":
                continue
            least, most = int(words[0]), int(words[1])
            for bad in (least - 1, most + 1):
                said = f"out of range: it goes from {least} to {most}" if bad <= 999999 \
                    else f"not a number from {least} to {most}"
                self.both(row, [f"{row.name}={bad}"], f"{row.name}={bad} is {said}")

    def test_two_values_are_named_both(self):
        for row in ROWS:
            if not row.value or row.name in ("--hosts", "--ssh"):
                continue
            one, other = two_values(row)
            said = f'{row.name} is given twice, with "{one}" and "{other}": give it once'
            self.both(row, [row.name, one, f"{row.name}={one}", f"{row.name}={other}"], said)

    def test_a_misspelt_option_gets_a_hint(self):
        for row in ROWS:
            half = len(row.name) // 2
            word = row.name[:half] + "q" + row.name[half:]
            verb = (row.here or row.there)[0]
            self.both(row, [word], f'{verb}: there is no option "{word}" (did you mean "{row.name}"?)')

    def test_a_misspelt_choice_gets_a_hint(self):
        said = '--via=netsn is not understood (did you mean "netns"?): choose one of auto, netns, loopback, ssh, slurm'
        self.both(options.rows()["--via"], ["--via=netsn"], said)

    def test_where_an_option_belongs(self):
        self.assertIn("up: --port is for clusters on other hosts", here("up", "--port", "1"))
        self.assertIn("up: --mtu is for clusters on this machine", there("up", "--hosts", "a", "--mtu", "9000"))
        self.assertIn('down: there is no option "--nodes"', here("down", "--nodes", "3"))

    def test_bare_words(self):
        for ask in (here, there):
            self.assertIn('up takes no bare word like "x"', ask("up", "x"))
        given = options.read("run", ["--name", "a", "join", "--left", "x"])
        self.assertEqual((given.name, given.rest), ("a", ["join", "--left", "x"]))
        given = options.read("run", ["--folder", "f", "--", "--json", "nodes"])
        self.assertEqual((given.folder, given.rest), ("f", ["--json", "nodes"]))
        given = options.read("logs", ["-f", "n1", "--lines=3", "n2"])
        self.assertEqual((given.follow, given.lines, given.rest), (True, 3, ["n1", "n2"]))


class Presets(unittest.TestCase):
    def test_what_is_not_given_is_as_the_table_says(self):
        given = options.read("up", [])
        for row in ROWS:
            expected = False if not row.value else None
            if row.preset and not row.kept:
                expected = options.value_of(row, row.preset)
            self.assertEqual(getattr(given, row.key), expected, row.name)
        source = ('set -eu; PROGRAM=test DEPLOY=$PWD/deploy VERB=up; unset MILLRACE_BIN; source deploy/lib/say.sh; '
                  'source deploy/lib/options.sh; source deploy/lib/links.sh; options_load; parse "$@"; '
                  'for row in "${OPTIONS[@]}"; do echo "$row ${!OPTION_VARIABLE[$row]}"; done'
                  ).replace("${!OPTION_VARIABLE[$row]}", "$(name=${OPTION_VARIABLE[$row]}; echo \"${!name}\")")

        def variables(*words):
            text = subprocess.run(["bash", "-c", source, "bash", *words], cwd=ROOT, capture_output=True, text=True,
                                  check=True, timeout=60).stdout
            return dict(line.partition(" ")[::2] for line in text.splitlines())
        without = variables()
        for row in ROWS:
            if row.name != "--bin":
                self.assertEqual(without[row.name], row.preset if row.value else "false", row.name)
        self.assertTrue(without["--bin"].endswith("/build/release/bin"))
        for row in ROWS:
            if row.preset and "up" in row.here:
                self.assertEqual(variables(f"{row.name}={row.preset}"), without, row.name)
        asked = variables("--nodes", "007", "--memory=2Ki", "--link=1gbit,n2=none")
        self.assertEqual((asked["--nodes"], asked["--memory"], asked["--link"]), ("7", "2048", "1gbit,n2=none"))


class Texts(unittest.TestCase):
    def test_help_has_every_option_and_its_default(self):
        text = subprocess.run(["deploy/cluster", "--help"], cwd=ROOT, capture_output=True, text=True, check=True,
                              timeout=60).stdout
        for line in text.splitlines():
            self.assertLessEqual(len(line), 120, line)
        text = " ".join(text.split())
        for use, about in COMMANDS.values():
            self.assertIn(f"deploy/cluster {use} {about}", text)
        for row in ROWS:
            default = f" (default: {row.preset or row.unset})" if row.value else ""
            self.assertIn(f"{row.name}{row.value and ' ' + row.value} {row.help}{default}", text)

    def test_the_manual_has_the_table(self):
        with open(PAGE, encoding="utf-8") as file:
            page = file.read()
        wanted = page
        for what, block in zip(("synopsis", "options"), manual()):
            begin, end = (f'.\\" {edge} the {what} of options.table\n' for edge in ("Here begin", "Here end"))
            self.assertIn(begin, page)
            self.assertIn(end, page)
            head, rest = wanted.split(begin)
            wanted = head + begin + block + end + rest.split(end)[1]
        if os.environ.get("MILLRACE_WRITE"):
            with open(PAGE, "w", encoding="utf-8") as file:
                file.write(wanted)
        else:
            self.assertEqual(page, wanted, "run this test with MILLRACE_WRITE=1")
        for word in COMMANDS:
            self.assertTrue(re.search(rf"^\.TP\n\.B {word}$", page, re.M), f"{PAGE} does not describe {word}")


if __name__ == "__main__":
    unittest.main()
