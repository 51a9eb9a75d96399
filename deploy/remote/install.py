"""Installs a cluster's daemons as systemd units on its hosts, for clusters that should come back with their machines.

Such a cluster has no folder of records: systemd keeps it. Here is only its key, in ~/.config/millrace/NAME.key."""
import os
import secrets
import time

from cluster import PROGRAMS, failed, sums, tell_kept
from hosts import fold
from transport import Failure, say

UNITS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "systemd")


def key_path(name):
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "millrace", f"{name}.key")


def _key(name):
    """The cluster's key; made by the first install."""
    path = key_path(name)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(secrets.token_hex(32) + "\n")
        except FileExistsError:
            pass
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Failure(1, f"{error.filename or path}: {error.strerror}") from None


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def install(cluster, timeout):
    """Everything on every host, then waits until all nodes are ready."""
    sums(cluster.record["bin"])
    facts = cluster.transport.each(cluster.hosts, lambda host: cluster.transport.run(host, "place", host.nic))
    if failed(facts):
        raise Failure(3, "not every host can take part; nothing was installed")
    if not cluster.dry_run:
        cluster.set_addresses({host: result.values["address"] for host, result in facts.items()})
    files = [_read(os.path.join(cluster.record["bin"], program)) for program in PROGRAMS]
    files += [_read(os.path.join(UNITS, "millrace-sysusers.conf")), b"" if cluster.dry_run else _key(cluster.name)]
    files += [_read(os.path.join(UNITS, f"millrace-{daemon}.service")) for daemon in ("node", "coordinator")]
    sizes, payload = [len(file) for file in files], b"".join(files)

    def work(host):
        coordinator = " ".join(cluster.coordinator_options()) if host is cluster.hosts[0] else ""
        node = " ".join(cluster.node_options(host.name, host))
        return cluster.transport.run(host, "install", cluster.name, cluster.options["port"], node, coordinator, *sizes,
                                     payload=payload)

    if failed(cluster.transport.each(cluster.hosts, work)):
        raise Failure(1, "not installed everywhere; install may be repeated, and uninstall takes it back")
    if cluster.dry_run:
        return
    until = time.monotonic() + timeout
    while not ((told := cluster.ready()) and told[0]):
        if time.monotonic() > until:
            missing = [host.name for host in cluster.hosts if not told or host.name not in told[1]]
            raise Failure(3, f"installed, but not ready: {fold(missing)}; systemctl status millrace-node says more")
        time.sleep(0.2)
    say(f"cluster {cluster.name} is installed and ready on {len(cluster.hosts)} hosts; clients need"
        f" MILLRACE_COORDINATOR={cluster.coordinator()} MILLRACE_KEY={key_path(cluster.name)}")


def uninstall(cluster):
    results = cluster.transport.each(cluster.hosts, lambda host: cluster.transport.run(host, "uninstall", cluster.name))
    left = failed(results)
    tell_kept(results, "a new install")
    if left:
        raise Failure(1, f"not uninstalled from {fold([host.name for host in left])}: repeat it")
    if not cluster.dry_run:
        try:
            os.unlink(key_path(cluster.name))
        except FileNotFoundError:
            pass
        say(f"cluster {cluster.name} is uninstalled; the user millrace stays, for files may belong to it")
