"""Clusters with a key: who has it takes part, everybody else is told what to do; and a crowd at the door keeps nobody
out. The daemons are started here, one by one, because some of them are not what they should be."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import time

from lab import ROOT, Wrong, expect, expect_equal, strict_json

NODES = 3


class Place:
    """A network of its own with addresses that are no loopback addresses (as root), or loopback, and daemons there."""

    def __init__(self, lab):
        self.lab, self.daemons, self.logs, self.prefix = lab, {}, {}, []
        self.folder = lab.fresh("place")
        os.mkdir(self.folder)
        self.net = "10.77.0." if lab.root else "127.0.0."
        self.coordinator = self.net + ("1:7400" if lab.root else "1:%d" % (20000 + os.getpid() % 10000))
        if lab.root:
            self.holder = self.popen(["unshare", "--net", "sleep", "infinity"])
            self.prefix = ["nsenter", "--target", str(self.holder.pid), "--net"]
            until = time.monotonic() + lab.limit(10)
            while os.readlink("/proc/%d/ns/net" % self.holder.pid) == os.readlink("/proc/self/ns/net"):
                expect(time.monotonic() < until, "no network namespace")
                time.sleep(0.01)
            self.run("ip", "link", "set", "lo", "up")
            for i in range(NODES + 2):
                self.run("ip", "address", "add", self.net + "%d/32" % (i + 1), "dev", "lo")
        self.key, self.other_key = self.new_key("key"), self.new_key("other")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.daemons.values(), *([self.holder] if self.prefix else [])]:
            self.end(process)

    def popen(self, words, **options):
        process = subprocess.Popen([*self.prefix, *words], stdin=subprocess.DEVNULL, **options)
        self.lab.clients.add(process)
        return process

    def end(self, process, number=signal.SIGTERM):
        process.send_signal(number)
        try:
            return process.wait(self.lab.limit(10))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Wrong("a daemon does not end: %s" % process.args) from None
        finally:
            self.lab.clients.discard(process)

    def run(self, *words, code=0, **options):
        done = subprocess.run([*self.prefix, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=self.lab.limit(30), **options)
        expect(done.returncode == code, words, "ended with", done.returncode, done.stdout, done.stderr)
        return done

    def bin(self, name):
        return os.path.join(self.lab.bin, name)

    def new_key(self, name):
        path = os.path.join(self.folder, name)
        self.run(self.bin("millrace"), "key", path)
        return path

    def words(self, name, key):
        if name == "coordinator":
            words = ["coordinator", "--listen", self.coordinator, "--state", os.path.join(self.folder, "state")]
        else:
            host = self.net + str(int(name[1:]) + 1) if self.lab.root and name[1:].isdigit() else "127.0.0.1"
            words = ["node", "--name", name, "--coordinator", self.coordinator, "--listen", host, "--workers", "2",
                     "--memory", "256M"]
        return [self.bin("millraced"), *words, *(["--key", key] if key else ["--open-to-all"])]

    def start(self, name, key):
        self.logs[name] = os.path.join(self.folder, name + ".log")
        with open(self.logs[name], "a") as log:
            self.daemons[name] = self.popen(self.words(name, key), stderr=log)

    def stop(self, name):
        expect_equal(self.end(self.daemons.pop(name)), 0, "exit code of " + name)

    def log(self, name):
        with open(self.logs[name], errors="replace") as file:
            return file.read()

    def up(self, key):
        self.start("coordinator", key)
        for i in range(NODES):
            self.start("n%d" % (i + 1), key)
        self.settle(lambda: len(self.ready(key)) == NODES, "%d nodes are here" % NODES)
        return self

    def settle(self, probe, words, seconds=8):
        until = time.monotonic() + self.lab.limit(seconds)
        while not probe():
            expect(time.monotonic() < until, "not within %d s: %s" % (self.lab.limit(seconds), words),
                   *("\n%s:\n%s" % (name, self.log(name)) for name in self.logs))
            time.sleep(0.05)

    def client(self, *words, key=None, code=0, by_environment=False):
        environment = dict(os.environ, **({"MILLRACE_KEY": key} if key and by_environment else {}))
        option = ["--key", key] if key and not by_environment else []
        return self.run(self.bin("millrace"), "--coordinator", self.coordinator, *option, *words, code=code,
                        env=environment)

    def nodes(self, key):
        nodes = strict_json(self.client("nodes", "--json", key=key).stdout)["nodes"]
        return [node["name"] for node in nodes if node["state"] == "ready"]

    def ready(self, key):
        with contextlib.suppress(Wrong):
            return self.nodes(key)
        return []

    def join(self, key):
        done = self.client("join", "--left", "gen:rows=50k,row=32,seed=1", "--right", "gen:rows=50k,seed=2", "--on",
                           "key=key", "--json", key=key)
        report = strict_json(done.stdout)
        expect_equal(report["rows"], 50000, "rows")
        expect(report["bytes_sent"] > 0, "nothing went from node to node")


def says(text, *words):
    for word in words:
        expect(word in text, "%r does not say %r" % (text, word))


def a_key_lets_in(lab):
    """Daemons with a key, on addresses that are no loopback addresses; clients with it, with another, with none."""
    with Place(lab) as place:
        for name, address in (("coordinator", place.coordinator), ("n1", place.net + "2" if lab.root else "127.0.0.1")):
            refused = place.run(*(word for word in place.words(name, None) if word != "--open-to-all"), code=1).stderr
            says(refused, address, "without a key", "millrace key")
            if lab.root:
                says(place.run(*place.words(name, None), code=1).stderr, address, "also with --open-to-all")
        wildcard = [word if word != place.net + "2" else "0.0.0.0" for word in place.words("n1", place.key)]
        if "0.0.0.0" in wildcard:
            says(place.run(*wildcard, code=1).stderr, "the wildcard is none")
        place.up(place.key)
        place.join(place.key)
        expect_equal(strict_json(place.client("nodes", "--json", key=place.key, by_environment=True).stdout)["complete"],
                     True, "nodes asked with MILLRACE_KEY")
        network = strict_json(place.client("bisect", "--cuts", "minimum", "--seconds", "0.05", "--json",
                                           key=place.key).stdout)
        expect(network, "no report of bisect")
        begin = time.monotonic()
        says(place.client("nodes", key=place.other_key, code=3).stderr, place.coordinator, "has another key")
        says(place.client("nodes", code=3).stderr, "has a key", "--key=FILE or MILLRACE_KEY")
        expect(time.monotonic() - begin < lab.limit(2), "refusals took", time.monotonic() - begin, "s")
        report = strict_json(place.client("join", "--left", "gen:rows=1", "--right", "gen:rows=1", "--on", "key=key",
                                          "--json", key=place.other_key, code=3).stdout)
        says(report["error"], "has another key")
        says(place.log("coordinator"), "refused: " + place.net, "has another key", "shows no key")
        place.join(place.key)
        # The key is nowhere but in its file.
        with open(place.key) as file:
            digits = file.read().strip()
        for name, process in place.daemons.items():
            expect(digits not in place.log(name).lower(), "the key is in the log of", name)
            with open("/proc/%d/cmdline" % process.pid) as file:
                expect(digits not in file.read(), "the key is on the command line of", name)
        for name in list(place.daemons):
            place.stop(name)


def wrong_nodes(lab):
    """Nodes with another key and with none: they and the coordinator say so, and the others work on."""
    with Place(lab) as place:
        place.up(place.key)
        place.start("wrong", place.other_key)
        place.start("none", None)
        for name, own, theirs in (("wrong", "has another key", "has another key"),
                                  ("none", "this cluster has a key", "shows no key")):
            place.settle(lambda: own in place.log(name), "%s says: %s" % (name, own))
            place.settle(lambda: theirs in place.log("coordinator"), "the coordinator says: " + theirs)
            says(place.log(name), "trying again")
        expect_equal(sorted(place.ready(place.key)), ["n1", "n2", "n3"], "nodes")
        place.join(place.key)
        # Whoever gets the right key takes part.
        place.stop("wrong")
        place.start("wrong", place.key)
        place.settle(lambda: "wrong" in place.ready(place.key), "the node is let in with the right key")
        place.join(place.key)


def a_key_where_none_is(lab):
    """A coordinator without a key, and a node and a client with one."""
    with Place(lab) as place:
        if lab.root:
            place.coordinator = "127.0.0.1:7400"
        place.start("coordinator", None)
        place.settle(lambda: "listening" in place.log("coordinator"), "the coordinator listens")
        place.start("n1", place.key)
        place.settle(lambda: "has no key" in place.log("n1"), "the node says what is wrong")
        says(place.log("n1"), place.coordinator, "--key=FILE")
        says(place.client("nodes", key=place.key, code=3).stderr, place.coordinator, "has no key", "--key=FILE")
        says(place.log("coordinator"), "refused: 127.0.0.1:", "proves a key, but this side has none")


def key_files(lab):
    """What is no key, or not its owner's alone, is refused by daemons and clients, with the reason."""
    with Place(lab) as place:
        expect(re.fullmatch(r"[0-9a-f]{64}\n", open(place.key).read()), "the key is not 64 digits")
        expect_equal(os.stat(place.key).st_mode & 0o7777, 0o600, "mode of the key")
        again = place.run(place.bin("millrace"), "key", place.key, code=2).stderr
        says(again, place.key, "exists already")
        bad = os.path.join(place.folder, "bad")
        for mode, text, words in ((0o644, open(place.key).read(), "chmod 600"), (0o600, "swordfish\n", "is no key")):
            with open(bad, "w") as file:
                file.write(text)
            os.chmod(bad, mode)
            for name in ("coordinator", "n1"):
                says(place.run(*place.words(name, bad), code=1).stderr, bad, words)
            error = place.client("nodes", key=bad, code=2).stderr
            says(error, bad, words)
            expect("swordfish" not in error, "the error tells what is in the file")
        says(place.client("nodes", key=bad + "-none", code=2).stderr, "there is no key " + bad + "-none")
        says(place.client("nodes", "--key=", code=2).stderr, "--key has an empty value")
        says(place.client("nodes", key=bad, code=2, by_environment=True).stderr, "MILLRACE_KEY", bad)


def crowd_at_the_door(lab, count, seconds):
    """Callers who say nothing, a part of a challenge, or a challenge and then nothing, and come again when they are
    thrown out: whoever has the key is served all the while."""
    with Place(lab) as place:
        place.up(place.key)
        crowd = place.popen([sys.executable, os.path.join(ROOT, "tests", "cluster", "crowd.py"), place.coordinator,
                             str(count), str(seconds)], stdout=subprocess.PIPE, text=True)
        try:
            expect_equal(crowd.stdout.readline(), "full\n", "what the crowd says")
            rounds = 0
            while crowd.poll() is None:
                expect_equal(sorted(place.nodes(place.key)), ["n1", "n2", "n3"], "nodes")
                place.join(place.key)
                rounds += 1
            came = int(crowd.stdout.read().split()[-1])
            expect(rounds > 0 and came > count, "rounds and callers:", rounds, came)
            lab.note("%d callers, %d rounds" % (came, rounds))
        finally:
            crowd.kill()
            crowd.wait()
            lab.clients.discard(crowd)
        place.join(place.key)
        expect("lost" not in place.log("coordinator"), "a node was lost:", place.log("coordinator")[-2000:])


STRANGERS = r"""
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
host, port = sys.argv[1].rsplit(":", 1)
crowd = [socket.create_connection((host, int(port))) for _ in range(1025)] # a backlog of 1,024, and one
print("here", flush=True)
crowd[0].settimeout(120)
print(len(crowd[0].recv(1)), flush=True)
"""


def listen_overflows(pid):
    """How often a connection found a listener's backlog full, in that process's network."""
    with open("/proc/%d/net/netstat" % pid) as file:
        lines = [line.split() for line in file if line.startswith("TcpExt:")]
    return int(dict(zip(*lines))["ListenOverflows"])


def strangers_at_idle_workers(lab):
    """As many as the kernel keeps at a worker's port while nothing runs: the next job turns them away first."""
    from cases_faults import listening
    with Place(lab) as place:
        place.up(place.key)
        port = listening(place.daemons["n1"].pid)[0]
        crowd = place.popen([sys.executable, "-c", STRANGERS, port], stdout=subprocess.PIPE, text=True)
        try:
            expect_equal(crowd.stdout.readline(), "here\n", "what the crowd says")
            before = listen_overflows(place.daemons["n1"].pid)
            place.join(place.key)
            expect_equal(crowd.stdout.readline(), "0\n", "what the first of the crowd gets")
            if lab.root: # the counter is of this network alone
                expect_equal(listen_overflows(place.daemons["n1"].pid), before, "connections that found no room")
        finally:
            crowd.kill()
            crowd.wait()
            lab.clients.discard(crowd)


DRIP = r"""
import socket, struct, sys, time
host, port = sys.argv[1].rsplit(":", 1)
one = socket.create_connection((host, int(port)))
one.settimeout(0.1)
begin = time.monotonic()
for byte in struct.pack("<IBBBB", 0x314B524D, 1, 1, 1, 0) + bytes(64):
    try:
        one.send(bytes([byte]))
        if not one.recv(1):
            break
    except TimeoutError:
        pass
    except OSError:
        break
print(time.monotonic() - begin)
"""


def a_caller_that_drips(lab):
    """A challenge that would be all right, one byte in a tenth of a second: it is not waited for."""
    with Place(lab) as place:
        place.up(place.key)
        seconds = float(place.run(sys.executable, "-c", DRIP, place.coordinator).stdout)
        expect(1.5 < seconds < lab.limit(3), "thrown out after", seconds, "s")


HELLOS = r"""
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
for _ in range(500):
    with socket.create_connection((host, int(port)), timeout=5) as one:
        one.sendall(b"\5\0\0\0hello")
        while one.recv(4096):
            pass
"""


def a_flood_of_refusals(lab):
    """Clients without a key, as many as will: the coordinator says so, but does not fill the disk."""
    with Place(lab) as place:
        place.up(place.key)
        seconds = time.monotonic()
        place.run(sys.executable, "-c", HELLOS, place.coordinator)
        place.settle(lambda: "more refusals suppressed" in place.log("coordinator"), "it tells what it did not tell")
        lines = [line for line in place.log("coordinator").splitlines() if "shows no key" in line]
        most = 20 * (time.monotonic() - seconds + 2)
        expect(len(lines) <= most, len(lines), "lines, at most", most, "are allowed")
        place.join(place.key)


def garbage_at_every_port(lab, seconds, seed):
    """Nonsense, also such as begins like the proof of a key, to all ports while jobs run."""
    from cases_faults import listening
    with Place(lab) as place:
        place.up(place.key)
        ports = [port for process in place.daemons.values() for port in listening(process.pid)]
        expect(len(ports) >= 1 + 2 * NODES, "ports:", ports)
        garbage = place.popen([sys.executable, os.path.join(ROOT, "tests", "cluster", "garbage.py"), str(seconds),
                               str(seed), *ports], stdout=subprocess.DEVNULL)
        try:
            while garbage.poll() is None:
                place.join(place.key)
            expect_equal(garbage.returncode, 0, "exit code of garbage.py")
        finally:
            garbage.kill()
            garbage.wait()
            lab.clients.discard(garbage)
        place.join(place.key)
