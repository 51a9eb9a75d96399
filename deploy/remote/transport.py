"""Runs the agent on hosts: here, over ssh, or in a Slurm step; on many at once, within a limit and a deadline."""
import concurrent.futures
import os
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass, field

from shown import shown

LIB = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
HERE = os.path.dirname(os.path.abspath(__file__))

# The text of the agent comes first on standard input and ends with a zero byte. Whole or not at all: a caller that was
# killed in the middle starts nothing.
BOOT = 'IFS= read -r -d "" agent && eval "$agent"'
# Never a question, no endless wait, and nothing of what people have for their own logins.
SSH_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
               "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "ForwardX11Trusted=no",
               "GSSAPIDelegateCredentials=no", "Tunnel=no", "PermitLocalCommand=no", "RemoteCommand=none")
DEADLINE_SECONDS = 120


def warn(words):
    print(f"deploy/cluster: {shown(words)}", file=sys.stderr, flush=True)


def say(words):
    print(f"deploy/cluster: {shown(words)}", flush=True)


class Failure(Exception):
    """The end of the program: an exit code and a message."""

    def __init__(self, code, words):
        super().__init__(words)
        self.code = code


@dataclass
class Result:
    """What became of one agent. `values` has its key=value lines, `states` its members as name: (pid, state)."""
    code: int
    out: str = ""
    error: str = ""
    values: dict = field(default_factory=dict)
    states: dict = field(default_factory=dict)


def _agent_text():
    parts = []
    for path in (os.path.join(LIB, "say.sh"), os.path.join(LIB, "process.sh"), os.path.join(HERE, "agent.sh"),
                 os.path.join(HERE, "agent-install.sh")):
        with open(path, encoding="utf-8") as file:
            parts.append(file.read())
    return "".join(parts)


def addresses_of(host):
    """The addresses a name resolves to, as socket.getaddrinfo gives them; none when it does not."""
    try:
        return [entry[4] for entry in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)]
    except OSError:
        return []


def is_here(host):
    """Whether the host is this machine: an address of it is ours. One that asks for a user or port is not meant so."""
    if host.user or host.port:
        return False
    for address in addresses_of(host.host):
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(address)
                return True
            except OSError:
                pass
    return False


class Transport:
    """How the hosts of one cluster are reached. Daemons of Slurm are steps that are kept from here."""

    def __init__(self, via, cluster, ssh="ssh", limit=32, dry_run=False, keep_fds=()):
        self.via, self.cluster, self.ssh, self.limit, self.dry_run = via, cluster, shlex.split(ssh), limit, dry_run
        self.keep_fds = keep_fds
        self._agent = _agent_text()
        self._here = {}

    def here(self, host):
        if self.via != "ssh":
            return False
        if host not in self._here:
            self._here[host] = is_here(host)
        return self._here[host]

    def command(self, host, keeper=False):
        """The words that start an agent for this host. A keeper is where its daemons' pid files are."""
        boot = ["bash", "-c", BOOT]
        if self.here(host) or keeper and self.via == "slurm":
            return boot
        if self.via == "slurm":
            return self.cluster.step(host) + boot
        words = self.ssh + ["-T"] + [word for option in SSH_OPTIONS for word in ("-o", option)]
        words += ["-p", str(host.port)] if host.port else []
        words += ["-l", host.user] if host.user else []
        return words + ["--", host.host, "exec " + shlex.join(boot)]

    def folder(self, host, keeper=False):
        if keeper and self.via == "slurm":
            return os.path.join(self.cluster.state, "steps", host.name)
        return f"{self.cluster.name}/{host.name}"

    def text(self, host, verb, words, keeper=False):
        call = shlex.join(["agent_main", verb, *map(str, words)])
        settings = f"PROGRAM={shlex.quote(host.name)}\nFOLDER={shlex.quote(self.folder(host, keeper))}\n"
        return (self._agent + settings + call + "\n").encode() + b"\0"

    def show(self, host, verb, words, keeper=False):
        line = self.command(host, keeper)
        line = ["here"] if line[0] == "bash" else line[:-1] if self.via == "ssh" else line[:-3]
        words = shlex.join(str(word) for word in words if word != "")
        print(f"{host.name}: {shlex.join(line)}: {verb} {words}".rstrip(), flush=True)

    def run(self, host, verb, *words, payload=b"", keeper=False, deadline=DEADLINE_SECONDS, quiet=False):
        """One agent, to its end."""
        if self.dry_run:
            if not quiet:
                self.show(host, verb, words, keeper)
            return Result(0)
        try:
            code, out, error = _finish(self.command(host, keeper), self.text(host, verb, words, keeper) + payload,
                                       deadline, self.keep_fds)
        except subprocess.TimeoutExpired:
            return Result(255, "", f"did not answer within {deadline} s")
        except OSError as error:
            return Result(255, "", f"cannot run {error.filename}: {error.strerror}")
        result = Result(code, out, _without_name(error.strip(), host))
        if code == 255 and self.via == "ssh" and not self.here(host):
            result.error = f"ssh: {result.error}"
        for line in out.splitlines():
            key, equals, value = line.partition("=")
            if key == "state" and len(value.split()) == 3:
                member, pid, state = value.split()
                result.states[member] = (int(pid), state)
            elif equals:
                result.values[key] = value
        return result

    def start(self, host, verb, *words):
        """An agent that goes on: its output is read line by line; closing its standard input ends it."""
        agent = subprocess.Popen(self.command(host, True), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, start_new_session=True)
        agent.stdin.write(self.text(host, verb, words, True))
        agent.stdin.flush()
        return agent

    def each(self, hosts, work):
        """Calls work(host) for all at once, within the limit. Returns {host: its result}, in the order of the hosts."""
        hosts = list(hosts)
        limit = 1 if self.dry_run else max(1, min(self.limit, len(hosts)))
        with concurrent.futures.ThreadPoolExecutor(limit) as pool:
            return dict(zip(hosts, pool.map(work, hosts)))


def _memory(data=b""):
    """A file that is nowhere on disk."""
    file = os.fdopen(os.memfd_create("agent"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _finish(words, text, deadline, keep_fds):
    """Runs the words to their end: (exit code, output, errors).

    When we are killed meanwhile, they go on, with all of their input and somewhere to write, in a session of their own
    that Ctrl-C does not reach. ssh closes what it inherits; the shell around it does not, and so keeps the cluster's
    lock until ssh has ended. A `down` that waits for the lock therefore comes after everything that was begun."""
    with _memory(text) as given, _memory() as out, _memory() as error:
        process = subprocess.Popen(["sh", "-c", '"$@"; exit $?', "agent", *words], stdin=given, stdout=out,
                                   stderr=error, start_new_session=True, pass_fds=keep_fds)
        try:
            code = process.wait(deadline)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        out.seek(0)
        error.seek(0)
        return code, out.read().decode(errors="replace"), error.read().decode(errors="replace")


def _without_name(error, host):
    start = f"{host.name}: "
    return "\n".join(line[len(start):] if line.startswith(start) else line for line in error.splitlines())
