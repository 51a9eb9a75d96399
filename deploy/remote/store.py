"""What is kept here about a cluster on other hosts: the folder of lib/state.sh, with these files.

    settings       via=..., by which deploy/cluster knows whose cluster it is
    cluster.json   hosts and options, as `up` was asked for them; what it found out
    key            the cluster's key, 32 random bytes in hexadecimal
    steps/NODE/    with Slurm: the pid files and logs of the steps that keep the daemons

The folder itself is the lock, as it is for clusters on this machine.
"""
import fcntl
import json
import os
import secrets
import shutil
import time
from dataclasses import asdict

from hosts import Host
from transport import Failure

LOCK_SECONDS = 120
KEY_BYTES = 32


def root():
    """The folder of all clusters of this user; the same as state_find in lib/state.sh."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and os.path.isdir(runtime) and os.access(runtime, os.W_OK):
        return os.path.join(runtime, "millrace")
    if os.access("/run", os.W_OK):
        return "/run/millrace"
    path = f"/tmp/millrace-{os.getuid()}"
    if os.path.lexists(path):
        _check_folder(path)
    return path


def _make_folder(path):
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise Failure(1, f"cannot make the folder {path}: {error.strerror}") from None
    _check_folder(path)


def _check_folder(path):
    """What is there says which programs are run: it must not be another user's."""
    found = os.lstat(path)
    if found.st_uid != os.getuid() or not os.path.isdir(path) or os.path.islink(path):
        raise Failure(1, f"{path} is not a folder of this user: remove it, or set XDG_RUNTIME_DIR")


class Store:
    """One cluster's folder."""

    def __init__(self, name):
        self.name = name
        self.state = os.path.join(root(), name)
        self.lock_fd = -1

    def lock(self):
        """Makes the folder and locks it until we end or remove it; waits for others that are at work."""
        until = time.monotonic() + LOCK_SECONDS
        while True:
            _make_folder(root())
            _make_folder(self.state)
            try:
                fd = os.open(self.state, os.O_RDONLY)
            except FileNotFoundError:
                continue  # removed by a `down` in between
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise Failure(1, f"cluster {self.name} is busy: another deploy/cluster up or down has been"
                                         " at work for 2 minutes") from None
                    time.sleep(0.05)
            if os.path.isdir(self.state) and os.path.samestat(os.stat(self.state), os.fstat(fd)):
                self.lock_fd = fd
                return
            os.close(fd)

    def load(self):
        """The record, or None. Hosts come as Host objects."""
        try:
            with open(os.path.join(self.state, "cluster.json"), encoding="utf-8") as file:
                record = json.load(file)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            if os.path.exists(os.path.join(self.state, "settings")):
                raise Failure(1, f"cluster {self.name} is up on this machine: take another --name, or"
                                 f" deploy/cluster down --name {self.name} first") from None
            return None
        except ValueError:
            raise self._damaged() from None
        try:
            record["hosts"] = [Host(**host) for host in record["hosts"]]
            record["via"], record["options"]["port"], record["folders"], record["addresses"]
        except (TypeError, KeyError):
            raise self._damaged() from None
        return record

    def _damaged(self):
        return Failure(1, f"{self.state}/cluster.json is damaged: remove the folder {self.state}, then deploy/cluster down"
                          f" --name {self.name} --hosts HOSTS ends what runs on the hosts")

    def save(self, record):
        text = json.dumps({**record, "hosts": [asdict(host) for host in record["hosts"]]}, indent=1)
        self._write("cluster.json", text.encode())
        self._write("settings", f"via={record['via']}\n".encode())

    def key(self):
        """The key; made when there is none."""
        path = os.path.join(self.state, "key")
        if not os.path.exists(path):
            self._write("key", secrets.token_hex(KEY_BYTES).encode() + b"\n")
        with open(path, "rb") as file:
            return file.read()

    def _write(self, name, data):
        path = os.path.join(self.state, name)
        try:
            with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            os.rename(path + ".new", path)
        except OSError as error:
            raise Failure(1, f"cannot write {path}: {error.strerror}") from None

    def remove(self):
        shutil.rmtree(self.state, ignore_errors=True)
        try:
            os.rmdir(root())
        except OSError:
            pass  # stays while there are other clusters
