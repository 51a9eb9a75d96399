"""What was before the first change, on the disk before the change is made: --restore works from it, however tune-nic
ended.

One file per interface, a JSON object a line. The first has the plan and what every step had read; it is written whole
or not at all. Then comes a line before a step begins, {"begin": NAME, "want": VALUE}, and one after it ended well,
{"end": NAME}. A last line that is not whole belongs to a step that did not begin. The file goes when all is back.

It lies in /run, which a reboot empties, as it empties the card's settings."""

import fcntl
import json
import os

from system import Refusal

VERSION = 1


class Journal:
    def __init__(self, system, interface):
        folder = "/run/millrace-nic"
        runtime = os.environ.get("XDG_RUNTIME_DIR")
        if not system.root and not os.access("/run", os.W_OK) and runtime:
            folder = runtime + "/millrace-nic"
        self.folder = system.path(folder)
        self.path = f"{self.folder}/{interface}"
        self.interface = interface
        self.plan, self.was = None, None
        self.begun, self.ended = {}, set()  # names in order, with what was wanted
        self.lock = None
        self.bytes = 0  # of whole lines

    def open(self):
        """Keeps other runs away until close(), and reads what is there."""
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            self.lock = os.open(self.folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(self.lock), os.stat(self.folder)):
                raise BlockingIOError
        except BlockingIOError:
            os.close(self.lock)
            self.lock = None
            raise Refusal("another tune-nic is at work") from None
        except OSError as error:
            raise Refusal(f"{self.folder}: {error.strerror}; what was before must be kept there") from None
        self.load()

    def load(self):
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as error:
            raise Refusal(f"{self.path} cannot be read: {error}") from None
        whole = text[:text.rfind("\n") + 1]
        self.bytes = len(whole.encode())
        lines = whole.splitlines()
        try:
            first = json.loads(lines[0])
            if first["version"] != VERSION:
                raise ValueError("it is of another version")
            for line in lines[1:]:
                entry = json.loads(line)
                if "begin" in entry:
                    self.begun[entry["begin"]] = entry["want"]
                else:
                    self.ended.add(entry["end"])
            self.plan, self.was = first["plan"], first["was"]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise Refusal(f"{self.path} is damaged ({error}): what was before is not known; look at it, set the card's "
                          "settings by hand, and remove it") from None

    def start(self, plan, was):
        self.plan, self.was = plan, was
        self._put(self.path + ".new", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, {"version": VERSION, "plan": plan, "was": was})
        os.rename(self.path + ".new", self.path)

    def begin(self, name, want):
        if name not in self.begun:
            self.begun[name] = want
            self._put(self.path, os.O_APPEND | os.O_WRONLY, {"begin": name, "want": want})

    def end(self, name):
        if name not in self.ended:
            self.ended.add(name)
            self._put(self.path, os.O_APPEND | os.O_WRONLY, {"end": name})

    def _put(self, path, flags, entry):
        line = (json.dumps(entry) + "\n").encode()
        try:
            file = os.open(path, flags | os.O_CLOEXEC, 0o600)
            try:
                os.ftruncate(file, self.bytes)  # what a run that was killed, or a full disk, truncated
                if os.write(file, line) != len(line):
                    raise OSError(28, os.strerror(28))
                os.fsync(file)
                self.bytes += len(line)
            finally:
                os.close(file)
        except OSError as error:
            raise Refusal(f"{path}: {error.strerror}; nothing is changed that cannot be put back") from None

    def remove(self):
        os.unlink(self.path)

    def close(self):
        """Lets others in; the folder goes with its last file."""
        try:
            os.rmdir(self.folder)
        except OSError:
            pass
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None
