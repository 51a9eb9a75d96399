"""Parsers of what ethtool, tc and the kernel print. Versions differ: fields come and go, "n/a" stands for what a driver
does not tell, and two sections may have no headings. What is not there is missing in the result; nothing here fails on a
text it does not know."""

import json
import re

FLOW_TYPES = {"TCP over IPv4": "tcp4", "TCP over IPv6": "tcp6"}


def number(text):
    """An int of "1024" or "0xff", else None."""
    try:
        return int(text, 0)
    except (TypeError, ValueError):
        return None


def two_sections(text):
    """(maximums, current) of -l and -g: names in lower case to texts. A name seen again is of the second section."""
    sections = ({}, {})
    second = False
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        name, value = name.strip().lower(), value.strip()
        if name.startswith("current hardware settings"):
            second = True
        if not colon or not value or name.startswith(("ring parameters", "channel parameters")):
            continue
        if not second and name in sections[0]:
            second = True
        sections[1 if second else 0][name] = value
    return sections


def features(text):
    """Of -k: name to (value, fixed)."""
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*([a-z0-9-]+): (on|off)( \[.*\])?\s*", line)
        if match:
            found[match[1]] = (match[2], "[fixed]" in (match[3] or ""))
    return found


def private_flags(text):
    """Of --show-priv-flags: name to "on" or "off"."""
    return {match[1]: match[2] for match in re.finditer(r"(?m)^(\S+)\s*: (on|off)\s*$", text)}


def driver(text):
    match = re.search(r"(?m)^driver:\s*(\S+)", text)
    return match[1] if match else ""


def spread_table(text):
    """Of -x: the queue of every place in the table, [] when there is none."""
    table = []
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\d+):\s+([\d\s]+)", line)
        if match and int(match[1]) == len(table):
            table.extend(int(word) for word in match[2].split())
        elif table:
            break
    return table


def spread_of(table):
    """A table's meaning without its size, which may change with the queues: {"equal": n} when connections go round
    queues 0 to n - 1, else {"weights": [places of queue 0, of 1, ...]}; None without a table."""
    if not table:
        return None
    queues = max(table) + 1
    if table == [place % queues for place in range(len(table))]:
        return {"equal": queues}
    return {"weights": [table.count(queue) for queue in range(queues)]}


def port_rules(text):
    """Of -n: rules by nothing but a destination port, as {"tcp4 16384 0xff 8": number of the rule}; 0xff is the mask,
    whose bits do not count, and 8 the queue."""
    found = {}
    for block in re.split(r"(?m)^(?=Filter:)", text):
        fields = {}
        for line in block.splitlines():
            name, _, value = line.partition(":")
            fields.setdefault(name.strip().lower(), " ".join(value.split()))
        flow = FLOW_TYPES.get(fields.get("rule type", ""))
        place = number(fields.get("filter"))
        port = re.fullmatch(r"(\d+) mask: (0x[0-9a-f]+)", fields.get("dest port", ""))
        queue = re.fullmatch(r"Direct to queue (\d+)", fields.get("action", ""))
        if not flow or place is None or not port or not queue or not _only_port(fields):
            continue
        found[f"{flow} {port[1]} {port[2]} {queue[1]}"] = place
    return found


def _only_port(fields):
    """Whether a rule lets everything but the destination port be anything."""
    for name, anything in (("src port", "mask: 0xffff"), ("src ip addr", None), ("dest ip addr", None)):
        value = fields.get(name)
        if value is None:
            continue
        mask = value.rpartition("mask: ")[2]
        if anything and not value.endswith(anything):
            return False
        if not anything and mask not in ("255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"):
            return False
    return "rss context id" not in fields


def qdiscs(text):
    """Of `tc -json qdisc show`: {"root": kind, "handle": "0:", "leaves": [kinds]}, None when it says nothing."""
    try:
        entries = json.loads(text or "[]")
        roots = [entry for entry in entries if entry.get("root")]
        leaves = sorted({entry["kind"] for entry in entries if "parent" in entry})
        return {"root": roots[0]["kind"], "handle": roots[0]["handle"], "leaves": leaves} if roots else None
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def link_facts(text):
    """Of `ip -json address show`: (whether an XDP program is there, families of addresses)."""
    try:
        entry = json.loads(text)[0]
        families = {each.get("family") for each in entry.get("addr_info", []) if each.get("scope") == "global"}
        return "xdp" in entry, sorted(family for family in families if family in ("inet", "inet6"))
    except (ValueError, IndexError, AttributeError, TypeError, KeyError):
        return False, []


# How drivers call a queue's interrupt. gve has the sending queues first.
INTERRUPT_NAMES = (r"mlx5_comp(\d+)(?:@.*)?", r".*-TxRx-(\d+)", r".*-rx-(\d+)", r"virtio\d+-input\.(\d+)")
GVE_NAME = r"(?:gve-ntfy-blk(\d+)@.*|.*-ntfy-block\.(\d+))"


def interrupts(text, numbers):
    """Of /proc/interrupts: queue to interrupt number, for those of the card."""
    found, blocks = {}, {}
    for line in text.splitlines():
        irq, colon, rest = line.partition(":")
        if not colon or number(irq.strip()) not in numbers or not rest.split():
            continue
        irq, name = int(irq), rest.split()[-1]
        match = re.fullmatch(GVE_NAME, name)
        if match:
            blocks[int(match[1] or match[2])] = irq
        for pattern in INTERRUPT_NAMES:
            match = re.fullmatch(pattern, name)
            if match:
                found.setdefault(int(match[1]), irq)
                break
    half = len(blocks) // 2
    found.update({block - half: irq for block, irq in blocks.items() if block >= half})
    return found
