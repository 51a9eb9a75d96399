"""What the rest of tune-nic asks of the machine: programs, files below /sys and /proc, cores. All of it goes through one
object, so that tests can put a made-up machine in its place."""

import os
import shlex
import subprocess

PROGRAM_SECONDS = 60


class Refusal(Exception):
    """The machine does not do it; the text says why."""


class System:
    root = ""  # before /sys, /proc and /run

    def path(self, path):
        return self.root + path

    def is_root(self):
        return os.geteuid() == 0

    def run(self, words):
        """Runs a program and returns what it printed; Refusal with its own words when it failed."""
        environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        try:
            result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                    timeout=PROGRAM_SECONDS, env=environment, check=False)
        except FileNotFoundError:
            package = "ethtool" if words[0] == "ethtool" else "iproute2"
            raise Refusal(f"there is no program {words[0]} here: install the package {package}") from None
        except OSError as error:
            raise Refusal(f"{words[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise Refusal(f"{words[0]} did not end within {PROGRAM_SECONDS} s") from None
        if result.returncode != 0:
            said = " ".join((result.stderr.strip() or result.stdout.strip()).split())
            raise Refusal(said or f"{words[0]} ended with {result.returncode}")
        return result.stdout

    def read(self, path):
        """The text of a file without the blanks around it, or None."""
        try:
            with open(self.path(path), encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return None

    def write(self, path, text):
        try:
            with open(self.path(path), "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise Refusal(f"{path}: {error.strerror}") from None

    def names(self, path):
        try:
            return sorted(os.listdir(self.path(path)))
        except OSError:
            return []

    def link(self, path):
        try:
            return os.readlink(self.path(path))
        except OSError:
            return None

    def exists(self, path):
        return os.path.exists(self.path(path))

    def cpus_allowed(self):
        return sorted(os.sched_getaffinity(0))

    def act(self, action):
        """An action is the words of a command, or ("write", path, text)."""
        if action[0] == "write":
            self.write(action[1], action[2])
        else:
            self.run(action)


def action_words(action):
    """What one would type."""
    if action[0] == "write":
        return f"echo {shlex.quote(action[2])} >{shlex.quote(action[1])}"
    return shlex.join(action)


def cpu_list(text):
    """[0, 1, 8] of "0-1,8"; None when it is no such list."""
    cpus = []
    for part in (text or "").split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return None
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus
