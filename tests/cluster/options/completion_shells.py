#!/usr/bin/env python3
"""completion_shells.py SHELL FOLDER: asks bash, zsh or fish itself what the generated completions in FOLDER offer.

bash and zsh complete what is typed into a terminal, and a key writes the line that comes out into a file; fish prints what
it would offer. Ends with 77 where the shell is not installed."""
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time

SECONDS = 120  # that only a hang meets

# What is typed, and the line that a TAB makes of it: what all shells must offer.
LINES = [
    ("millrace shuf", "millrace shuffle"),
    ("millrace --coor", "millrace --coordinator="),
    ("millrace --coordinator=x shuf", "millrace --coordinator=x shuffle"),
    ("millrace --coordinator x shuf", "millrace --coordinator x shuffle"),
    ("millrace join --left-h", "millrace join --left-header="),
    ("millrace join --left-header=y", "millrace join --left-header=yes"),
    ("millrace join --left-header y", "millrace join --left-header yes"),
    ("millrace shuffle --in join --inc", "millrace shuffle --in join --incomplete="),
    ("millrace bisect --engine=uring-b", "millrace bisect --engine=uring-bundle"),
    ("millrace join --report=FOLDER/fi", "millrace join --report=FOLDER/file"),
    ("millrace join --report FOLDER/fi", "millrace join --report FOLDER/file"),
    ("millrace shuffle --in=FOLDER/fi", "millrace shuffle --in=FOLDER/file"),
    ("millrace join --out=FOLDER/fo", "millrace join --out=FOLDER/folder/"),
    ("millrace key FOLDER/fi", "millrace key FOLDER/file"),
    ("millraced no", "millraced node"),
    ("millraced node --rx", "millraced node --rx-queues="),
    ("millraced node --engine=epoll-z", "millraced node --engine=epoll-zc"),
    ("millraced coordinator --state=FOLDER/fo", "millraced coordinator --state=FOLDER/folder/"),
]
BASHRC = """
source {completions}/millrace && source {completions}/millraced
write_line() {{ echo "$READLINE_LINE" >{work}/next && mv {work}/next {work}/line; READLINE_LINE= READLINE_POINT=0; }}
bind -x '"\\C-t": write_line'
PROMPT_COMMAND=': >{work}/ready'
"""
ZSHRC = """
fpath=({completions} $fpath)
autoload -Uz compinit && compinit -u -D
unsetopt beep
write_line() {{ print -r -- "$BUFFER" >{work}/next && mv {work}/next {work}/line; BUFFER= }}
zle -N write_line && bindkey '^T' write_line
precmd() {{ : >{work}/ready }}
"""


def await_file(path, shell):
    """Its text, once it is there; the file is removed."""
    until = time.monotonic() + SECONDS
    while not os.path.exists(path):
        if time.monotonic() > until:
            sys.exit(f"{shell} did not write {path} within {SECONDS} s")
        time.sleep(0.01)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    os.remove(path)
    return text


def prepare(shell, work, completions):
    """The command that starts the shell, which then writes a file for each C-t."""
    if shell == "zsh":
        installed = os.path.join(work, "zsh")
        os.mkdir(installed)
        for program in ("millrace", "millraced"):
            shutil.copy(os.path.join(completions, "zsh", program), os.path.join(installed, "_" + program))
        settings, command, path = ZSHRC, ["zsh", "-i"], os.path.join(work, ".zshrc")
    else:
        installed, path = os.path.join(completions, "bash"), os.path.join(work, "bashrc")
        settings, command = BASHRC, ["bash", "--rcfile", path, "-i"]
    with open(path, "w", encoding="utf-8") as file:
        file.write(settings.format(completions=installed, work=work))
    return command


def complete_typing(name, work, completions, lines):
    """The line that a TAB makes of each. The terminal's output is read by a child, so that it never fills up."""
    command = prepare(name, work, completions)
    terminal, inner = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": work, "ZDOTDIR": work, "TERM": "vt100", "LC_ALL": "C.UTF-8"}
    shell = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment, cwd=work,
                             start_new_session=True)
    reader = subprocess.Popen(["cat"], stdin=terminal, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(inner)
    try:
        await_file(os.path.join(work, "ready"), name)
        for line in lines:
            os.write(terminal, line.encode() + b"\t\x14")
            yield await_file(os.path.join(work, "line"), name).rstrip("\n")
    finally:
        shell.kill()
        shell.wait()
        reader.kill()
        reader.wait()
        os.close(terminal)


def complete_fish(_, work, completions, lines):
    """What fish offers for the last word, where it is one thing, in the word's place."""
    script = "".join(f"source '{completions}/fish/{program}'\n" for program in ("millrace", "millraced"))
    script += 'for line in $argv; complete -C "$line"; echo ==; end'
    environment = {"PATH": os.environ["PATH"], "HOME": work, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    said = subprocess.run(["fish", "--no-config", "-c", script, *lines], capture_output=True, text=True, env=environment,
                          cwd=work, check=True, timeout=SECONDS).stdout
    for line, offers in zip(lines, said.split("==\n")):
        words = [offer.partition("\t")[0] for offer in offers.splitlines()]
        yield line[:line.rindex(" ") + 1] + (words[0] if len(words) == 1 else f"<{' '.join(words)}>")


def main():
    shell, completions = sys.argv[1], os.path.abspath(sys.argv[2])
    if not shutil.which(shell):
        print(f"skipped: {shell} is not installed (deploy/install-deps --test)")
        return 77
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "file"), "w", encoding="utf-8"):
            os.mkdir(os.path.join(work, "folder"))
        lines = [typed.replace("FOLDER", work) for typed, _ in LINES]
        complete = complete_fish if shell == "fish" else complete_typing
        for (typed, wanted), got in zip(LINES, complete(shell, work, completions, lines), strict=True):
            wanted = wanted.replace("FOLDER", work)
            # Whether a blank or = follows is the shell's habit.
            if got.rstrip(" =") != wanted.rstrip("="):
                print(f"{shell}: {typed!r} becomes {got!r}, not {wanted!r}")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
