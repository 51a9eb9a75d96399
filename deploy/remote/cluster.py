"""A cluster on other hosts: up, down, status, restart, push. What happens on a host is done by agent.sh there."""
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time

import slurm
import transport
from hosts import fold
from shown import shown
from transport import Failure, say, warn

COORDINATOR = "coordinator"
PROGRAMS = ("millrace", "millraced")
LOG_LINES_SHOWN = 8
NODES_SHOWN = 8
DEAD = (0, "dead")


def failed(results):
    """Tells the failures among {host or member: Result}, one line for all with the same; which failed."""
    groups = {}
    for host, result in results.items():
        if result.code:
            groups.setdefault(result.error or f"ended with {result.code}", []).append(host)
    for words, hosts in groups.items():
        warn(f"{fold([getattr(host, 'name', host) for host in hosts])}: {words}")
    return [host for hosts in groups.values() for host in hosts]


def tell_kept(results, who):
    """Says where the state of a coordinator was kept because of decisions that are not carried out."""
    for host, result in results.items():
        if "kept" in result.values:
            warn(f"{host.name}: decided, but not published yet: results of jobs; the coordinator's state is kept there in"
                 f" {result.values['kept']}. {who[0].upper()}{who[1:]} publishes them; to give them up, remove that folder")


def sums(folder):
    """{program: SHA-256} of the programs here."""
    found = {}
    for program in PROGRAMS:
        path = os.path.join(folder, program)
        try:
            with open(path, "rb") as file:
                found[program] = hashlib.sha256(file.read()).hexdigest()
        except OSError as error:
            raise Failure(1, f"{path}: {error.strerror}; build it (deploy/quickstart does), or give --bin") from None
    return found


class Cluster:
    """One cluster by its record (store.py). The first host has the coordinator, too."""

    def __init__(self, store, record, limit=32, dry_run=False):
        self.store, self.record = store, record
        self.name, self.state = store.name, store.state
        self.hosts, self.options = record["hosts"], record["options"]
        self.dry_run = dry_run
        self.key_file = os.path.join(self.state, "key")
        keep = (store.lock_fd,) if store.lock_fd >= 0 else ()
        self.transport = transport.Transport(record["via"], self, self.options["ssh"], limit, dry_run, keep)

    # What is where

    def bin(self, host):
        return self.options["remote_bin"] or os.path.join(self.folder(host), "bin")

    def folder(self, host):
        return self.record["folders"].get(host.name, f"FOLDER-ON-{host.name}" if self.dry_run else "")

    def address(self, host):
        return self.record["addresses"].get(host.name, host.host)

    def coordinator(self):
        address = self.address(self.hosts[0])
        return f"[{address}]:{self.options['port']}" if ":" in address else f"{address}:{self.options['port']}"

    def members(self):
        """(name, host) of the coordinator and every node."""
        return [(COORDINATOR, self.hosts[0])] + [(host.name, host) for host in self.hosts]

    def step(self, host):
        return slurm.step(self.record["job"], self.record["binds"], host)

    def coordinator_options(self):
        return ["--listen", self.coordinator(), "--nodes", str(len(self.hosts))]

    def node_options(self, member, host):
        words = ["--name", member, "--coordinator", self.coordinator(), "--listen", self.address(host)]
        workers = host.cores or self.options["workers"] or self.record["cores"].get(host.name)
        words += ["--workers", str(workers)] if workers else []
        words += ["--memory", str(self.options["memory"])] if self.options["memory"] else []
        words += ["--engine", self.options["engine"]] if self.options["engine"] else []
        return words

    def command(self, member, host):
        words = [os.path.join(self.bin(host), "millraced")]
        if member == COORDINATOR:
            words += [COORDINATOR, *self.coordinator_options(), "--state", os.path.join(self.folder(host), COORDINATOR)]
        else:
            words += ["node", *self.node_options(member, host)]
        words += ["--key", os.path.join(self.folder(host), "key")]
        # A step's daemon is kept by its srun, which alone shall be known by the pid file (lib/process.sh).
        return self.step(host) + ["env", "-u", "MILLRACE_PID_FILE", *words] if self.record["via"] == "slurm" else words

    def client(self, *words, timeout=10):
        """Runs the client here. None when it does not end in time."""
        try:
            return subprocess.run([os.path.join(self.record["bin"], "millrace"), *words], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(),
                                  timeout=timeout, check=False, text=True)
        except subprocess.TimeoutExpired:
            return None

    def environment(self):
        return {**os.environ, "MILLRACE_COORDINATOR": self.coordinator(),
                "MILLRACE_KEY": self.key_file}

    # Steps of `up`

    def prepare(self, fresh=False):
        """Gives every host the key, asks what it is and has; sets folders and addresses. A fresh cluster for which that
        fails leaves nothing."""
        # Whether a daemon that is there is ours is known on the host, but of Slurm's steps it is known here.
        kept = self.states()[1] if self.record["via"] == "slurm" and not self.dry_run else {}
        first = self.hosts[0]
        alive = first in kept and kept[first].states.get(COORDINATOR, DEAD)[1] != "dead"
        key = b"" if self.dry_run else self.store.key()
        results = self.transport.each(self.hosts, lambda host: self.transport.run(
            host, "prepare", host.nic, self.options["remote_bin"],
            self.options["port"] if host is first and not alive else 0, payload=key))
        for host, result in kept.items():
            results[host].states = result.states
        if failed(results):
            if fresh:
                self._withdraw([host for host, result in results.items() if result.code != 255])
            raise Failure(3, "not every host can take part; nothing was started")
        if not self.dry_run:
            for host, result in results.items():
                self.record["folders"][host.name] = result.values["folder"]
                if self.record["via"] == "slurm":  # of the step, which may not have all of its machine
                    self.record["cores"][host.name] = int(result.values["cores"])
            root = [host.name for host, result in results.items() if result.values["uid"] == "0"]
            if fresh and root:
                warn(f"{fold(root)}: the daemons run as root there, and who has the cluster's key can read and write"
                     " every file: log in as another user (USER@HOST), or let install give them one")
            self.set_addresses({host: result.values["address"] for host, result in results.items()})
            self.store.save(self.record)
        return results

    def set_addresses(self, found):
        for host, address in found.items():
            self.record["addresses"][host.name] = self._address(host, address)
        loopback = [host.name for host in self.hosts if _is_loopback(self.address(host))]
        if loopback and len(loopback) < len(self.hosts):
            raise Failure(1, f"{fold(loopback)}: only has a loopback address for us, where the others cannot reach it;"
                             " nic=ADDRESS or nic=INTERFACE gives it one")

    def _withdraw(self, hosts):
        self.transport.each(hosts, lambda host: self.transport.run(host, "down"))
        self.store.remove()

    def _address(self, host, found):
        """Where others reach the host: what it reported, or when it is this one or one of Slurm's, what its name says."""
        if found and self.record["via"] == "ssh":
            return found
        name = slurm.address(host.host) if self.record["via"] == "slurm" else host.host
        known = [address[0] for address in transport.addresses_of(name)]
        for address in known:
            if not _is_loopback(address):
                return address
        for other in self.hosts:
            if not self.transport.here(other):
                for address in transport.addresses_of(other.host):
                    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
                    with socket.socket(family, socket.SOCK_DGRAM) as probe:
                        try:
                            probe.connect((address[0], 9))
                            return probe.getsockname()[0]
                        except OSError:
                            pass
        if not known:
            raise Failure(1, f"{host.name}: its name does not resolve here; nic=ADDRESS says where others reach it")
        return known[0]

    def push(self, prepared):
        """Copies the programs to where they differ; all must be of this client's version then."""
        expected, payload, words = sums(self.record["bin"]), b"", []
        for program in PROGRAMS:
            with open(os.path.join(self.record["bin"], program), "rb") as file:
                data = file.read()
            payload += data
            words += [program, len(data), expected[program]]
        if self.options["remote_bin"]:
            stale = self.hosts
            results = self.transport.each(stale, lambda host: self.transport.run(
                host, "version", self.options["remote_bin"]))
        else:
            stale = [host for host in self.hosts
                     if any(prepared[host].values.get(program) != expected[program] for program in PROGRAMS)]
            running = [host.name for host in stale
                       if any(state != "dead" for _, state in prepared[host].states.values())]
            if running:
                raise Failure(1, f"{fold(running)}: runs other programs than those in {self.record['bin']}:"
                                 f" deploy/cluster down --name {self.name} first")
            results = self.transport.each(stale, lambda host: self.transport.run(host, "push", *words, payload=payload))
        if failed(results):
            raise Failure(1, "the programs do not run everywhere; nothing was started")
        self._check_versions(results)
        return stale

    def _check_versions(self, results):
        if self.dry_run:
            return
        client = self.client("--version")
        version = client.stdout.split()[1] if client and client.stdout else "?"
        other = {host.name: result.values["version"] for host, result in results.items()
                 if result.values["version"] != version}
        if other:
            raise Failure(1, f"{fold(other)}: version {', '.join(sorted(set(other.values())))}, and this client is"
                             f" {version}: they must be the same")

    def start(self, member, host):
        return self.transport.run(host, "start", member, *self.command(member, host), keeper=True)

    def start_all(self):
        """All at once: nodes wait for their coordinator."""
        results = self.transport.each(self.members(), lambda member: self.start(*member))
        return failed({member: result for (member, _), result in results.items()})

    def up(self, timeout, fresh):
        self.push(self.prepare(fresh))
        if self.start_all() or not self.wait_ready(timeout):
            self.report_unready()
            raise Failure(3, f"cluster {self.name} is not complete; deploy/cluster logs --name {self.name} says more,"
                             f" deploy/cluster down --name {self.name} ends it")
        if not self.dry_run:
            say(f"cluster {self.name} is up: {len(self.hosts)} nodes ({fold([host.name for host in self.hosts])}),"
                f" via {self.record['via']}, coordinator {self.coordinator()}")

    # Who is there

    def ready(self):
        """What the coordinator says, (whether all are there, names of the ready nodes), or None."""
        answer = self.client("nodes", "--json")
        if answer is None or not answer.stdout.strip():
            return None
        try:
            told = json.loads(answer.stdout)
            return told["complete"], {node["name"] for node in told["nodes"] if node["state"] == "ready"}
        except (ValueError, KeyError):
            return None

    def states(self, hosts=None):
        """{member: (pid, state)} by the hosts; state is "unreachable" where one does not answer."""
        results = self.transport.each(hosts or self.hosts, lambda host: self.transport.run(
            host, "status", keeper=True, deadline=30))
        found = {}
        for member, host in self.members():
            if host in results:
                result = results[host]
                found[member] = (0, "unreachable") if result.code else result.states.get(member, DEAD)
        return found, results

    def wait_ready(self, timeout):
        if self.dry_run:
            return True
        until = time.monotonic() + timeout
        look = time.monotonic() + 1
        while time.monotonic() < until:
            told = self.ready()
            if told and told[0]:
                return True
            if time.monotonic() > look:
                waited = [host for host in self.hosts if not told or host.name not in told[1]] or self.hosts
                if any(state == "dead" for _, state in self.states(waited)[0].values()):
                    return False
                look = time.monotonic() + 2
            time.sleep(0.1)
        return False

    def report_unready(self):
        told = self.ready()
        states, results = self.states()
        failed(results)
        shown = 0
        for member, host in self.members():
            pid, state = states[member]
            if state == "running" and (told is not None if member == COORDINATOR else told and member in told[1]):
                continue
            warn(f"{member} is not ready: " + {
                "dead": "its process has ended", "unreachable": "its host does not answer"
            }.get(state, f"its process (pid {pid}) is {state}"))
            shown += 1
            if shown <= NODES_SHOWN and state != "unreachable":
                log = self.transport.run(host, "log", LOG_LINES_SHOWN, member, keeper=True, deadline=30)
                for line in log.out.splitlines():
                    warn(f"    {line}")

    # The other commands

    def status(self, as_json):
        told = self.ready()
        states, results = self.states()
        failed(results)
        ready = {COORDINATOR} | told[1] if told else set()
        rows = [{"name": member, "role": COORDINATOR if member == COORDINATOR else "node", "host": host.host,
                 "address": self.coordinator() if member == COORDINATOR else self.address(host),
                 "pid": states[member][0], "state": states[member][1],
                 "ready": states[member][1] in ("running", "stopped", "unreachable") and member in ready}
                for member, host in self.members()]
        if as_json:
            print("[" + ",\n ".join(json.dumps(row) for row in rows) + "]")
        else:
            print(f"{'NAME':<16} {'ROLE':<12} {'ADDRESS':<24} {'PID':>8}  STATE")
            for row in rows:
                print(shown(f"{row['name']:<16} {row['role']:<12} {row['address']:<24} {row['pid']:>8}  {row['state']}"
                            + (", ready" if row["ready"] else "")))
        return 0 if all(row["ready"] and row["state"] == "running" for row in rows) else 3

    def restart(self, member, timeout):
        host = dict(self.members()).get(member)
        if host is None:
            raise Failure(1, f"no member '{member}': they are coordinator, {fold([each.name for each in self.hosts])}")
        if failed({host: self.transport.run(host, "stop", member, keeper=True)}):
            raise Failure(1, f"{member} could not be stopped")
        if failed({host: self.start(member, host)}) or not self.wait_ready(timeout):
            self.report_unready()
            raise Failure(3, f"{member} is not back; deploy/cluster up --name {self.name} tries again")
        say(f"{member} of cluster {self.name} was restarted")

    def down(self, forget):
        """Ends everything everywhere. The records stay while there are hosts that did not answer."""
        left = []
        if self.record["via"] == "slurm":
            left += failed(self.transport.each(self.hosts, lambda host: self.transport.run(host, "down", keeper=True)))
            if not left and not self.dry_run and slurm.is_over(self.record["job"]):
                self._down_without_job()
                return
        results = self.transport.each(self.hosts, lambda host: self.transport.run(host, "down"))
        left += failed(results)
        tell_kept(results, f"the next up of cluster {self.name}")
        if left and not forget:
            raise Failure(1, f"cluster {self.name} may still run on {fold([host.name for host in left])}; repeat down"
                             " when they answer, or --forget them")
        if not self.dry_run:
            self.store.remove()
            say(f"cluster {self.name} is down")


    def _down_without_job(self):
        """Slurm has ended what ran with its job; what was copied is here as well, where the nodes share our files."""
        folders = self.record["folders"].values()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            try:
                os.removedirs(os.path.dirname(folder))
            except OSError:
                pass  # stays while there are other clusters
        self.store.remove()
        say(f"cluster {self.name} ended with its job {self.record['job']}; on the nodes, if they do not share files"
            f" with this machine, {fold([os.path.basename(folder) for folder in folders])} in"
            f" {os.path.dirname(next(iter(folders), ''))} may be left")


def _is_loopback(address):
    return address.startswith("127.") or address == "::1"
