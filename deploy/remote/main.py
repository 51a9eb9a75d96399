"""deploy/cluster for clusters on other hosts (--via ssh, --via slurm): words in, exit code out."""
import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt within an import could be swallowed

import os
import sys

import check
import install
import options
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
# What a cluster keeps when nobody asked; "" and 0 are for what is found out when it starts.
KEPT = {"workers": 0, "memory": 0, "engine": "", "port": int(options.rows()["--port"].preset), "remote_bin": "",
        "ssh": options.rows()["--ssh"].preset}


def new_record(given):
    """What a cluster is asked for by the options."""
    via = given.via or "ssh"
    if via not in ("ssh", "slurm"):
        raise Failure(2, f"--via={via} takes no --hosts: ssh does")
    if via == "slurm" and given.hosts:
        raise Failure(2, "--via slurm takes the hosts of the allocation: omit --hosts")
    if via == "ssh" and not given.hosts:
        raise Failure(2, "--via ssh needs --hosts FILE, or a list such as --hosts a,b or --hosts 'n[01-06]'")
    job, words, memory = ("", given.hosts, 0) if via == "ssh" else slurm.allocation()
    kept = {key: getattr(given, key) or value for key, value in KEPT.items()}
    # A node may only have a part of its machine.
    kept["memory"] = kept["memory"] or memory * 3 // 4
    path = given.bin or os.environ.get("MILLRACE_BIN") or os.path.join(DEPLOY, "..", "build", "release", "bin")
    return {"via": via, "job": job, "binds": via == "slurm" and slurm.binds(), "hosts": load(words),
            "options": kept, "bin": os.path.realpath(path), "folders": {}, "addresses": {}, "cores": {}}


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
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        given = options.read(verb, sys.argv[2:])
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
