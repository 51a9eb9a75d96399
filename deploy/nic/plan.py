"""What there is and what shall be: the card, the queues and ports of each worker, their cores."""

import re

import texts
from system import Refusal, cpu_list

# The same as CLUSTER_PORT_BLOCK in cluster/crew/place.h and the presets of --ports and --zc-area in
# cluster/options/daemon_options.c, which millraced goes by; tests/deploy/test_tune.py compares them.
PORT_BLOCK = 256
PORTS_FIRST = 16384
AREA_BYTES = 64 << 20

DRIVERS = ("mlx5_core", "bnxt_en", "fbnic", "gve")  # that lend receive queues, as `millrace doctor` knows them


def read_card(system, interface):
    """What is fixed: {driver, device, node, queue_kind, queues, queues_max, tx_queues}."""
    if not re.fullmatch(r"[^/\s:]{1,15}", interface) or interface in (".", "..") or \
            not system.exists(f"/sys/class/net/{interface}"):
        there = ", ".join(system.names("/sys/class/net")) or "none"
        raise Refusal(f"there is no interface {interface!r} here; there are: {there}")
    try:
        driver = texts.driver(system.run(["ethtool", "-i", interface]))
    except Refusal as refusal:
        if "not supported" not in str(refusal):
            raise
        driver = ""
    if driver not in DRIVERS:
        raise Refusal(f"{interface} has the driver {driver or '(none)'}, which is not known to lend receive queues: there "
                      "is nothing to prepare, and Millrace receives over it with a copy (multishot receive). Drivers that "
                      f"can: {', '.join(DRIVERS)}")
    try:
        most, now = texts.two_sections(system.run(["ethtool", "-l", interface]))
    except Refusal as refusal:
        raise Refusal(f"the queues of {interface} cannot be seen: {refusal}") from None
    kind = "combined" if texts.number(most.get("combined")) else "rx"
    queues, queues_max = texts.number(now.get(kind)), texts.number(most.get(kind))
    if not queues or not queues_max:
        raise Refusal(f"the queues of {interface} cannot be seen: ethtool -l {interface} says nothing of them")
    node = texts.number(system.read(f"/sys/class/net/{interface}/device/numa_node"))
    return {"interface": interface, "driver": driver, "device": system.link(f"/sys/class/net/{interface}/device"),
            "node": node if node is not None and node >= 0 else None, "queue_kind": kind, "queues": queues,
            "queues_max": queues_max, "queues_tx": len([name for name in system.names(
                f"/sys/class/net/{interface}/queues") if name.startswith("tx-")])}


def worker_cpus(system, card):
    """Where `millraced node --pin` has its workers: cores of the card's memory node, or all of them; (near, all)."""
    allowed = system.cpus_allowed()
    nodes = [name for name in system.names("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
    if card["node"] is None or len(nodes) < 2:
        return allowed, allowed
    near = cpu_list(system.read(f"/sys/devices/system/node/node{card['node']}/cpulist")) or []
    return [cpu for cpu in allowed if cpu in near], allowed


def make_plan(system, card, options):
    """Everything that the steps go by, as plain values, because it is kept in the journal."""
    interface, most = card["interface"], card["queues_max"]
    near, allowed = worker_cpus(system, card)
    workers = options.workers or max(1, min(len(near or allowed), most - 1))
    if most < workers + 1:
        remedy = f"use --workers {most - 1}" if most > 1 else "zero-copy receive cannot work; Millrace receives with a copy"
        raise Refusal(f"{interface} can have {most} receive queue{'s' if most > 1 else ''}, and {workers} workers need one "
                      f"each, with one left for other traffic: {remedy}")
    queues = card["queues"] if card["queues"] > workers else min(most, 2 * workers)
    if options.ports % PORT_BLOCK or options.ports == 0 or options.ports + workers * PORT_BLOCK > 65536:
        raise Refusal(f"--ports {options.ports}: {workers} workers own {PORT_BLOCK} ports each, from a multiple of "
                      f"{PORT_BLOCK} on and not beyond 65535")
    _, families = texts.link_facts(system.run(["ip", "-json", "address", "show", "dev", interface]))
    cpus = near if len(near) >= workers else allowed
    return {"card": card, "workers": workers, "queues": queues, "first": queues - workers, "ports": options.ports,
            "flows": [{"inet": "tcp4", "inet6": "tcp6"}[family] for family in families] or ["tcp4"],
            "area_bytes": options.area, "mtu": options.mtu,
            "cpus": cpus[:workers] if len(cpus) >= workers else [], "far": len(near) < workers <= len(allowed)}


def rules_of(plan):
    """{"tcp4 16384 0xff 16", ...}: the masked rule of each worker, for each kind of address."""
    return [f"{flow} {plan['ports'] + worker * PORT_BLOCK} {PORT_BLOCK - 1:#x} {plan['first'] + worker}"
            for worker in range(plan["workers"]) for flow in plan["flows"]]
