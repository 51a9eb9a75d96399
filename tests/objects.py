"""Objects of a build, for the checks that look at what sources define and use."""

import json
import os
import re
import subprocess


def built(build):
    """(source, object) of the tree's sources that were built."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        for command in json.load(file):
            name = os.path.relpath(os.path.realpath(command["file"]), os.path.realpath("."))
            output = command.get("output") or re.search(r" -o (\S+)", command["command"]).group(1)
            path = os.path.join(command["directory"], output)
            if os.path.exists(name) and os.path.exists(path):
                yield name, path


def symbols(path):
    """(name, letter) of an object's global symbols, with nm's letters: U is somebody else's."""
    for line in subprocess.check_output(["nm", path], text=True).splitlines():
        words = line.split()
        if words[-2] in "UTDRBC":
            yield words[-1], words[-2]
