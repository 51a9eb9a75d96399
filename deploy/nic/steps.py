"""The steps, in the order in which cards take them: offloads before splitting headers from data, splitting before queues
are taken from everybody else, rules last. Each has four functions of a context c (c.system, c.plan, c.interface):

    read(c)               what is now, as a plain value; None where the card or its driver has no such thing
    want(c, now)          what shall be; None when nothing is to be done; Refusal when it cannot be had
    same(c, now, value)   whether that is so already
    change(c, now, value, attempt)   the actions that lead there

Putting back is the same as going there, with what was read before everything as the value: c.undo is true then, and
attempt 2 is for what a first round had not brought back, as some settings hold each other."""

import collections
import re

import texts
from plan import rules_of
from system import Refusal

RING_ENTRIES = 2048
HUGE_PAGE_BYTES = 2 << 20

COPIES = "zero-copy receive will not work; Millrace receives with a copy (multishot receive), everything else works"

Step = collections.namedtuple("Step", "name about needs vital means read want same change")


def same_items(c, now, value):
    return now is not None and all(now.get(key) == value[key] for key in value)


def same_value(c, now, value):
    return now == value


def differing(now, value):
    return {key: value[key] for key in value if (now or {}).get(key) != value[key]}


def rings(c):
    return texts.two_sections(c.system.run(["ethtool", "-g", c.interface]))


# MTU ------------------------------------------------------------------------------------------------------------------

def mtu_read(c):
    return texts.number(c.system.read(f"/sys/class/net/{c.interface}/mtu"))


def mtu_change(c, now, value, attempt):
    return [["ip", "link", "set", "dev", c.interface, "mtu", str(value)]]


# Private flags of mlx5: HW-GRO wants striding rings and uncompressed completions ------------------------------------------

FLAGS = {"rx_striding_rq": "on", "rx_cqe_compress": "off"}


def flags_read(c):
    if c.plan["card"]["driver"] != "mlx5_core":
        return None
    flags = texts.private_flags(c.system.run(["ethtool", "--show-priv-flags", c.interface]))
    return {name: flags[name] for name in FLAGS if name in flags} or None


def flags_want(c, now):
    return {name: FLAGS[name] for name in now} if now else None


def flags_change(c, now, value, attempt):
    return [["ethtool", "--set-priv-flags", c.interface, name, state] for name, state in differing(now, value).items()]


# Channels -------------------------------------------------------------------------------------------------------------

def channels_read(c):
    _, now = texts.two_sections(c.system.run(["ethtool", "-l", c.interface]))
    kind = c.plan["card"]["queue_kind"]
    count = texts.number(now.get(kind))
    return {kind: count} if count else None


def channels_want(c, now):
    return {c.plan["card"]["queue_kind"]: c.plan["queues"]}


def channels_change(c, now, value, attempt):
    return [["ethtool", "-L", c.interface, kind, str(count)] for kind, count in value.items()]


# Offloads -------------------------------------------------------------------------------------------------------------

FEATURE_WORDS = {"large-receive-offload": "lro", "ntuple-filters": "ntuple"}  # what -K calls what -k shows


def features_read(c, names):
    found = texts.features(c.system.run(["ethtool", "-k", c.interface]))
    return {name: found[name][0] + (" fixed" if found[name][1] else "") for name in names if name in found} or None


def features_change(c, now, value, attempt):
    words = [word for name, state in differing(now, value).items()
             for word in (FEATURE_WORDS.get(name, name), state.split()[0])]
    return [["ethtool", "-K", c.interface, *words]] if words else []


def aggregation_read(c):
    return features_read(c, ("large-receive-offload", "rx-gro-hw"))


def aggregation_want(c, now):
    state = (now or {}).get("rx-gro-hw", "off fixed")
    if state == "off fixed":
        if c.plan["card"]["driver"] == "mlx5_core":
            raise Refusal("the card cannot do rx-gro-hw, which mlx5_core needs for splitting headers from data")
        return None
    value = {"rx-gro-hw": state if "fixed" in state else "on"}
    if now.get("large-receive-offload") == "on":
        value = {"large-receive-offload": "off", **value}  # the two exclude each other
    return value


def steering_read(c):
    return features_read(c, ("ntuple-filters",))


def steering_want(c, now):
    state = (now or {}).get("ntuple-filters", "off fixed")
    if state == "off fixed":
        raise Refusal("the card cannot steer connections by rules (ntuple)")
    return {"ntuple-filters": state if "fixed" in state else "on"}


# XDP: only looked at, because a program that was removed could not be put back ------------------------------------------------

def xdp_read(c):
    return texts.link_facts(c.system.run(["ip", "-json", "address", "show", "dev", c.interface]))[0]


def xdp_want(c, now):
    if now:
        raise Refusal(f"an XDP program is on it, which prevents splitting headers from data: "
                      f"`ip link set {c.interface} xdp off' removes it, if nobody needs it; it is not removed here, because "
                      "it could not be put back")
    return now


# Rings ----------------------------------------------------------------------------------------------------------------

def ring_read(c):
    return texts.number(rings(c)[1].get("rx"))


def ring_want(c, now):
    most = texts.number(rings(c)[0].get("rx"))
    return max(now, min(most, RING_ENTRIES)) if now and most else None


def ring_change(c, now, value, attempt):
    return [["ethtool", "-G", c.interface, "rx", str(value)]]


def ethtool_knows(c, word):
    if word not in c.system.run(["ethtool", "--help"]):
        version = re.search(r"version (\S+)", c.system.run(["ethtool", "--version"]))
        raise Refusal(f"this ethtool{' (' + version[1] + ')' if version else ''} cannot set {word}: install a newer one; 6.14 "
                      "is new enough (Debian 12 has 6.1, its backports a newer one)")


def split_read(c):
    return {"tcp-data-split": rings(c)[1].get("tcp data split", "n/a")}


def split_want(c, now):
    ethtool_knows(c, "tcp-data-split")
    return {"tcp-data-split": "on"}


# Drivers that decide by themselves show the same whether they were asked or not: "n/a", or "off".
def split_same(c, now, value):
    unset = ("n/a", "off", "auto")
    one, other = now["tcp-data-split"], value["tcp-data-split"]
    return one == other or (one in unset and other in unset)


def split_change(c, now, value, attempt):
    state = value["tcp-data-split"]
    if state != "on" and attempt == 1:
        state = "auto"
    elif state != "on":
        state = "off"
    return [["ethtool", "-G", c.interface, "tcp-data-split", state]]


def threshold_read(c):
    return texts.number(rings(c)[1].get("hds thresh"))


def threshold_want(c, now):
    if now is None:  # the driver has none, which the kernel takes for 0, or ethtool does not show it
        if c.plan["card"]["driver"] != "mlx5_core":
            ethtool_knows(c, "hds-thresh")
        return None
    return 0


def threshold_change(c, now, value, attempt):
    return [["ethtool", "-G", c.interface, "hds-thresh", str(value)]]


# Spreading what no rule steers ---------------------------------------------------------------------------------------------

def spread_read(c):
    _, now = texts.two_sections(c.system.run(["ethtool", "-l", c.interface]))
    spread = texts.spread_of(texts.spread_table(c.system.run(["ethtool", "-x", c.interface])))
    return dict(spread, queues=texts.number(now.get(c.plan["card"]["queue_kind"]))) if spread else None


def spread_want(c, now):
    if not now:
        raise Refusal("the card shows no table by which it spreads connections over its queues")
    return {"equal": c.plan["first"]}


def spread_kind(value):
    """Over all queues is what a card does by itself, however many there are; the same table set by somebody stays when
    there are more."""
    return "all" if value.get("equal") and value["equal"] == value.get("queues") else (value.get("equal"), value.get("weights"))


def spread_same(c, now, value):
    return now is not None and (spread_kind(now) == spread_kind(value) if c.undo else
                                now.get("equal") == value["equal"])


def spread_change(c, now, value, attempt):
    if "weights" in value:
        words = ["weight", *map(str, value["weights"])]
    elif c.undo and spread_kind(value) == "all" and attempt == 1:
        words = ["default"]
    else:
        words = ["equal", str(value["equal"])]
    return [["ethtool", "-X", c.interface, *words]]


# Rules ----------------------------------------------------------------------------------------------------------------

def rules_read(c):
    return texts.port_rules(c.system.run(["ethtool", "-n", c.interface]))


def rules_want(c, now):
    ours = rules_of(c.plan)
    places = {rule.rpartition(" ")[0]: rule for rule in ours}
    for rule, number in now.items():
        if rule not in ours and rule.rpartition(" ")[0] in places:
            raise Refusal(f"rule {number} of the card steers the ports of \"{rule}\" elsewhere: `ethtool -N {c.interface} "
                          f"delete {number}' removes it; or take other ports by --ports")
    return {rule: None for rule in ours}


def rules_same(c, now, value):
    """Rules of others come and go as they like."""
    if now is None:
        return not value
    ours = rules_of(c.plan)
    return all((rule in now) == (rule in value) for rule in ours)


def rules_change(c, now, value, attempt):
    actions = []
    for rule in rules_of(c.plan):
        flow, port, mask, queue = rule.split()
        if rule in value and rule not in now:
            actions.append(["ethtool", "-N", c.interface, "flow-type", flow, "dst-port", port, "m", mask, "action", queue])
        elif rule in now and rule not in value:
            actions.append(["ethtool", "-N", c.interface, "delete", str(now[rule])])
    return actions


# Interrupts: of a worker's queue on the worker's core -------------------------------------------------------------------------

def interrupt_numbers(c):
    numbers = {int(name) for name in c.system.names(f"/sys/class/net/{c.interface}/device/msi_irqs") if name.isdigit()}
    return texts.interrupts(c.system.read("/proc/interrupts") or "", numbers)


def interrupts_read(c):
    found = {}
    for queue, irq in interrupt_numbers(c).items():
        where = c.system.read(f"/proc/irq/{irq}/smp_affinity_list")
        if where is not None:
            found[str(queue)] = where
    return found or None


def interrupts_want(c, now):
    if not c.plan["cpus"]:
        raise Refusal(f"there are fewer cores than the {c.plan['workers']} workers, so none has a core of its own")
    queues = [str(c.plan["first"] + worker) for worker in range(c.plan["workers"])]
    missing = [queue for queue in queues if queue not in (now or {})]
    if missing and c.plan["card"]["queues"] == c.plan["queues"]:
        raise Refusal(f"the interrupt of queue {missing[0]} cannot be found in /proc/interrupts")
    return {queue: str(cpu) for queue, cpu in zip(queues, c.plan["cpus"])}


def interrupts_change(c, now, value, attempt):
    numbers = interrupt_numbers(c)
    return [("write", f"/proc/irq/{numbers[int(queue)]}/smp_affinity_list", where)
            for queue, where in differing(now, value).items() if int(queue) in numbers]


def interrupts_same(c, now, value):
    if c.undo:  # a queue that is no more has no interrupt
        return all((now or {}).get(queue, where) == where for queue, where in value.items())
    return same_items(c, now, value)


# Sending: fq paces ----------------------------------------------------------------------------------------------------------

def qdisc_read(c):
    return texts.qdiscs(c.system.run(["tc", "-json", "qdisc", "show", "dev", c.interface]))


def qdisc_want(c, now):
    if not now or now["root"] == "noqueue":
        return None
    if c.plan["card"]["queues_tx"] <= 1 and c.plan["queues"] <= 1:
        return {"root": "fq", "leaves": []}
    return {"root": "mq", "leaves": ["fq"]}


def qdisc_same(c, now, value):
    if now is None:
        return False
    if not c.undo and now["handle"] not in ("0:", "1:"):
        return True  # somebody's own: it is left alone
    if c.undo and (now["handle"] == "0:") != (value["handle"] == "0:"):
        return False  # "0:" is what the kernel made by itself
    return now["root"] == value["root"] and now["leaves"] == value["leaves"]


def qdisc_change(c, now, value, attempt):
    if c.undo:
        return [["tc", "qdisc", "del", "dev", c.interface, "root"]]
    if value["root"] == "fq":
        return [["tc", "qdisc", "replace", "dev", c.interface, "root", "fq"]]
    queues = len([name for name in c.system.names(f"/sys/class/net/{c.interface}/queues") if name.startswith("tx-")])
    if c.plan["card"]["queue_kind"] == "combined":
        queues += max(0, c.plan["queues"] - (channels_read(c) or {}).get("combined", 0))  # before they are there
    return [["tc", "qdisc", "replace", "dev", c.interface, "root", "handle", "1:", "mq"],
            *(["tc", "qdisc", "replace", "dev", c.interface, "parent", f"1:{queue + 1:x}", "fq"] for queue in range(queues))]


# Huge pages ----------------------------------------------------------------------------------------------------------------

def pages_folder(c):
    node = c.plan["card"]["node"]
    near = f"/sys/devices/system/node/node{node}/hugepages/hugepages-{HUGE_PAGE_BYTES >> 10}kB"
    return near if node is not None and c.system.exists(near) else f"/sys/kernel/mm/hugepages/hugepages-{HUGE_PAGE_BYTES >> 10}kB"


def pages_read(c):
    return texts.number(c.system.read(pages_folder(c) + "/nr_hugepages"))


def pages_want(c, now):
    free = texts.number(c.system.read(pages_folder(c) + "/free_hugepages"))
    if now is None or free is None:
        raise Refusal("this kernel has no huge pages of 2 MiB")
    return now + max(0, c.plan["workers"] * -(-c.plan["area_bytes"] // HUGE_PAGE_BYTES) - free)


def pages_same(c, now, value):
    return now == value


def pages_change(c, now, value, attempt):
    return [("write", pages_folder(c) + "/nr_hugepages", str(value))]


# The table ------------------------------------------------------------------------------------------------------------

STEPS = (
    Step("mtu", "packets of the size asked for", (), False,
         "packets stay as they are; zero-copy receive works with any MTU", mtu_read, lambda c, now: c.plan["mtu"],
         same_value, mtu_change),
    Step("flags", "mlx5: rings and completions that HW-GRO takes", (), False,
         "rx-gro-hw may be refused next; else nothing is lost", flags_read, flags_want, same_items, flags_change),
    Step("channels", "a queue for each worker, and some for other traffic", (), True, COPIES, channels_read,
         channels_want, same_items, channels_change),
    Step("aggregation", "rx-gro-hw", (), True, COPIES, aggregation_read, aggregation_want, same_items, features_change),
    Step("steering", "ntuple", (), True, COPIES, steering_read, steering_want, same_items, features_change),
    Step("xdp", "no XDP program", (), True, COPIES, xdp_read, xdp_want, same_value, None),
    Step("ring", f"{RING_ENTRIES} packets may wait in a queue", (), False,
         "bursts may be dropped and sent again; zero-copy receive works", ring_read, ring_want, same_value, ring_change),
    Step("split", "headers split from data", ("aggregation", "xdp"), True, COPIES, split_read, split_want, split_same,
         split_change),
    Step("threshold", "whatever their size", ("split",), True, COPIES, threshold_read, threshold_want, same_value,
         threshold_change),
    Step("spread", "what no rule steers keeps to the other queues", ("channels", "steering", "split", "threshold"), True,
         "the workers' queues are not free, and cannot be lent; " + COPIES, spread_read, spread_want, spread_same,
         spread_change),
    Step("rules", "each worker's ports to its queue", ("steering", "spread"), True,
         "connections arrive at queues of others, and what they carry is copied: " + COPIES, rules_read, rules_want,
         rules_same, rules_change),
    Step("interrupts", "each queue's interrupt on its worker's core", ("channels",), False,
         "interrupts come where they come: more hops between cores; zero-copy receive works", interrupts_read,
         interrupts_want, interrupts_same, interrupts_change),
    Step("qdisc", "fq, which paces what is sent", ("channels",), False,
         "sending is not paced; zero-copy receive works", qdisc_read, qdisc_want, qdisc_same, qdisc_change),
    Step("hugepages", "memory to receive into", (), False,
         "areas take ordinary pages: more TLB misses, and no chunks larger than a page; zero-copy receive works", pages_read,
         pages_want, pages_same, pages_change),
)
