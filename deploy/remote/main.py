"""deploy/cluster for clusters on other hosts (--via ssh, --via slurm): words in, exit code out."""
import argparse
import os
import re
import signal
import sys

import check
import install
import runs
import slurm
import watch
from cluster import Cluster, sums
from hosts import HostsError, load
from shown import shown
from store import Store
from transport import Failure, say

DEPLOY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
JOB_WORDS = ("join", "shuffle", "bisect")
# Options of `up` that a cluster keeps; their values when nobody asked.
KEPT = {"workers": 0, "memory": 0, "engine": "", "port": 7400, "remote_bin": "", "ssh": "ssh"}
SIZES = {"": 1, "k": 1000, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4,
         "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failure(2, f"{message}; deploy/cluster --help shows what there is")


def number(most):
    def convert(text):
        if not re.fullmatch(r"[1-9][0-9]{0,5}", text) or int(text) > most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from 1 to {most}")
        return int(text)
    return convert


def size(text):
    match = re.fullmatch(r"([1-9][0-9]{0,14})([kKMGT]?|[kKMGT]i)", text)
    if not match or int(match[1]) * SIZES[match[2].replace("ki", "Ki")] >= 1 << 63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 512Mi or 2G")
    return int(match[1]) * SIZES[match[2].replace("ki", "Ki")]


def name(text):
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", text):
        raise argparse.ArgumentTypeError(f"'{text}': a name is made of a-z, 0-9 and -, 40 characters at most")
    return text


def folder(text):
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"'{text}': a path on the hosts begins with /")
    return text


def parser(verb):
    """The options of one command."""
    options = Parser(prog=f"deploy/cluster {verb}", add_help=False, allow_abbrev=False)
    options.add_argument("--name", type=name, default="default")
    options.add_argument("--dry-run", action="store_true")
    options.add_argument("--parallel", type=number(1024), default=32)
    if verb in ("up", "check", "push", "down", "install", "uninstall"):
        options.add_argument("--via")
        options.add_argument("--hosts")
        options.add_argument("--ssh")
    if verb in ("up", "check", "push", "install"):
        options.add_argument("--bin", default=os.environ.get("MILLRACE_BIN"))
        options.add_argument("--remote-bin", type=folder)
    if verb in ("up", "install"):
        options.add_argument("--workers", type=number(1024))
        options.add_argument("--memory", type=size)
        options.add_argument("--engine", type=str)
        options.add_argument("--port", type=number(65535))
    if verb in ("up", "restart", "install"):
        options.add_argument("--timeout", type=number(999999), default=30)
    if verb in ("status", "check"):
        options.add_argument("--json", action="store_true")
    if verb == "logs":
        options.add_argument("--follow", "-f", action="store_true")
        options.add_argument("--lines", type=number(999999), default=40)
    if verb == "down":
        options.add_argument("--forget", action="store_true")
    if verb == "run":
        options.add_argument("--folder")
    options.add_argument("rest", nargs="*")
    return options


def parse(verb, words):
    """The options, and what follows: after "--", and for `run` from the first word that is no option."""
    rest = []
    if "--" in words:
        at = words.index("--")
        words, rest = words[:at], words[at + 1:]
    given, unknown = parser(verb).parse_known_args(words)
    if verb == "run" and given.rest and not rest:
        at = words.index(given.rest[0])
        given, unknown, rest = parser(verb).parse_args(words[:at]), [], words[at:]
    if unknown:
        raise Failure(2, f'{verb}: there is no option "{unknown[0]}" for a cluster on other hosts;'
                         " deploy/cluster --help shows what there is")
    given.rest += rest
    if given.rest and verb not in ("run", "logs", "restart"):
        raise Failure(2, f"{verb}: '{given.rest[0]}' is no option")
    return given


def new_record(given):
    """What a cluster is asked for by the options."""
    via = given.via or "ssh"
    if via not in ("ssh", "slurm"):
        raise Failure(2, f"--via '{via}' takes no --hosts: ssh does")
    if via == "slurm" and given.hosts:
        raise Failure(2, "--via slurm takes the hosts of the allocation: leave --hosts away")
    if via == "ssh" and not given.hosts:
        raise Failure(2, "--via ssh wants --hosts FILE, or a list such as --hosts a,b or --hosts 'n[01-06]'")
    job, words, memory = ("", given.hosts, 0) if via == "ssh" else slurm.allocation()
    options = {key: getattr(given, key, None) or value for key, value in KEPT.items()}
    # A node may only have a part of its machine.
    options["memory"] = options["memory"] or memory * 3 // 4
    path = getattr(given, "bin", None) or os.path.join(DEPLOY, "..", "build", "release", "bin")
    return {"via": via, "job": job, "binds": via == "slurm" and slurm.binds(), "hosts": load(words),
            "options": options, "bin": os.path.realpath(path), "folders": {}, "addresses": {}, "cores": {}}


def check_same(given, record, cluster):
    """`up` of a cluster that is up must not ask for other things than it has."""
    asked = {key: getattr(given, key) for key in KEPT if getattr(given, key) is not None}
    instead = f"deploy/cluster down --name {cluster} first"
    for key, value in asked.items():
        if value != record["options"][key]:
            raise Failure(1, f"cluster {cluster} is up with --{key.replace('_', '-')} "
                             f"{record['options'][key] or 'unset'}, not {value}: {instead}")
    if given.via and given.via != record["via"] or given.hosts and load(given.hosts) != record["hosts"]:
        raise Failure(1, f"cluster {cluster} is up with other hosts: {instead}")
    if given.bin and os.path.realpath(given.bin) != record["bin"]:
        raise Failure(1, f"cluster {cluster} is up with --bin {record['bin']}: {instead}")


def need(store):
    record = store.load()
    if record is None:
        raise Failure(3, f"cluster {store.name} is not up: deploy/cluster up --name {store.name}")
    return record


def verb_up(given, store):
    if given.engine is not None and not re.fullmatch(r"[a-z][a-z0-9=+-]*", given.engine):
        raise Failure(2, f"--engine '{given.engine}': not an engine; millrace engines lists them")
    record = store.load()
    wanted = record or new_record(given)
    sums(wanted["bin"])
    if not given.dry_run:
        store.lock()
        record = store.load()
    if record:
        check_same(given, record, store.name)
    elif not given.dry_run:
        store.save(wanted)
    Cluster(store, record or wanted, given.parallel, given.dry_run).up(given.timeout, fresh=record is None)
    return 0


def verb_push(given, store):
    record = store.load() or new_record(given)
    sums(record["bin"])
    if not given.dry_run:
        store.lock()
        store.save(record)
    cluster = Cluster(store, record, given.parallel, given.dry_run)
    pushed = cluster.push(cluster.prepare())
    if not given.dry_run:
        say(f"the programs are on all {len(cluster.hosts)} hosts; {len(pushed)} got new ones")
    return 0


def verb_check(given, store):
    record = new_record(given) if given.hosts or given.via else store.load()
    if record is None:
        record = new_record(given)
    return check.check(Cluster(store, record, given.parallel, given.dry_run), given.json)


def verb_status(given, store):
    record = store.load()
    if record is None and given.json:
        print("[]")
    return Cluster(store, need(store), given.parallel).status(given.json)


def verb_restart(given, store):
    if len(given.rest) != 1:
        raise Failure(2, "restart: which member? For example: deploy/cluster restart n1")
    need(store)
    if not given.dry_run:
        store.lock()
    Cluster(store, need(store), given.parallel, given.dry_run).restart(given.rest[0], given.timeout)
    return 0


def verb_down(given, store):
    if store.load() is None and not given.hosts and not given.via:
        say(f"cluster {store.name} is not up")
        return 0
    if not given.dry_run:
        store.lock()
    record = store.load() or new_record(given)
    Cluster(store, record, given.parallel, given.dry_run).down(given.forget)
    return 0


def verb_logs(given, store):
    cluster = Cluster(store, need(store), given.parallel)
    members = cluster.members()
    known = [member for member, _ in members]
    for member in given.rest:
        if member not in known:
            raise Failure(1, f"no log of '{member}': the members are {', '.join(known)}")
    wanted = [(member, host) for member, host in members if not given.rest or member in given.rest]
    width = max(len(member) for member, _ in wanted)
    by_host = {}
    for member, host in wanted:
        by_host.setdefault(host, []).append(member)
    if given.follow:
        watch.follow([cluster.transport.start(host, "follow", given.lines, *names)
                      for host, names in by_host.items()], width)
        return 0
    results = cluster.transport.each(by_host, lambda host: cluster.transport.run(
        host, "log", given.lines, *by_host[host], keeper=True))
    lines = {member: [] for member, _ in wanted}
    for result in results.values():
        for line in result.out.splitlines(keepends=True):
            lines.setdefault(line.partition(" ")[0], []).append(line)
    sys.stdout.writelines(watch.tagged(line, width) for line in watch.merge(lines.values()))
    return 1 if any(result.code for result in results.values()) else 0


def verb_run(given, store):
    if not given.rest:
        raise Failure(2, "run: what? For example: deploy/cluster run -- nodes")
    cluster = Cluster(store, need(store), given.parallel)
    words = [os.path.join(cluster.record["bin"], "millrace"), *given.rest]
    path = given.folder or (runs.default_folder(store.name) if given.rest[0] in JOB_WORDS else "")
    if not path:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # or one that came just before would be lost
        os.execve(words[0], words, cluster.environment())
    about = {"cluster": store.name, "via": cluster.record["via"], "coordinator": cluster.coordinator(),
             "nodes": {host.name: cluster.address(host) for host in cluster.hosts}}
    code = runs.record(path, words, cluster.environment(), about, runs.collector(cluster))
    if not given.folder:
        runs.forget_old(store.name)
    return code


def verb_install(given, store):
    record = new_record(given)
    if record["via"] != "ssh" or record["options"]["remote_bin"]:
        raise Failure(2, "install works over ssh, and copies the programs")
    cluster = Cluster(store, record, given.parallel, given.dry_run)
    cluster.key_file = install.key_path(store.name)
    install.install(cluster, given.timeout)
    return 0


def verb_uninstall(given, store):
    install.uninstall(Cluster(store, new_record(given), given.parallel, given.dry_run))
    return 0


VERBS = {"install": verb_install, "uninstall": verb_uninstall,
         "up": verb_up, "push": verb_push, "check": verb_check, "status": verb_status, "restart": verb_restart,
         "down": verb_down, "logs": verb_logs, "run": verb_run}


def main():
    verb = sys.argv[1]
    try:
        given = parse(verb, sys.argv[2:])
        return VERBS[verb](given, Store(given.name))
    except (Failure, HostsError) as error:
        print(f"deploy/cluster: {shown(error)}", file=sys.stderr)
        return error.code if isinstance(error, Failure) else 2
    except KeyboardInterrupt:
        print("\ndeploy/cluster: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1


if __name__ == "__main__":
    sys.exit(main())
