"""Looks at every host before anything is started, and shows side by side what differs."""
import json
import os
import time

from cluster import sums
from hosts import fold
from transport import Failure, say, warn

CLOCK_SECONDS = 2.0
SAME_EVERYWHERE_HIDDEN = ("clock", "address")
# What our own facts say, too, or what is said apart from the facts.
DOCTOR_LEFT_OUT = ("version", "host", "kernel", "machine", "findings")
PASSING = ("host", "free_bytes", "huge_pages_free")  # differs by itself, and says nothing of the host


def flatten(value, name=""):
    """A JSON value as {dotted name: text}."""
    if isinstance(value, dict):
        found = {}
        for key, inner in value.items():
            found.update(flatten(inner, f"{name}.{key}" if name else key))
        return found
    if isinstance(value, list) and all(isinstance(inner, dict) and "name" in inner for inner in value):
        return flatten({str(inner["name"]): {k: v for k, v in inner.items() if k != "name"} for inner in value}, name)
    if isinstance(value, list):
        return {name: ", ".join(str(inner) for inner in value)}
    return {name: "" if value is None else str(value)}


def facts_of(result, began, ended):
    """{fact: text} of one host, with what `millrace doctor` says of it, if anything; and the doctor's own words."""
    head, _, doctor = result.out.partition("doctor:\n")
    facts = dict(line.split("=", 1) for line in head.splitlines() if "=" in line)
    if "clock" in facts:
        off = float(facts["clock"]) - (began + ended) / 2
        facts["clock"] = "agrees" if abs(off) <= CLOCK_SECONDS + (ended - began) / 2 else f"{off:+.0f} s from here"
    try:
        told = json.loads(doctor)
    except ValueError:
        told = None
    if isinstance(told, dict):
        kept = {key: value for key, value in told.items() if key not in DOCTOR_LEFT_OUT}
        # Bridges, tunnels and the like have other names on every host.
        kept["interfaces"] = [each for each in kept.get("interfaces") or [] if each.get("physical")]
        facts.update({f"doctor.{key}": text for key, text in flatten(kept).items() if not key.endswith(PASSING)})
    return facts, told


def advice(doctors):
    """{severity: {words: names of the hosts}} of what the doctors would change."""
    found = {}
    for name, told in doctors.items():
        for finding in (told or {}).get("findings") or []:
            command = f" ({finding['command']})" if finding.get("command") else ""
            words = f"{finding.get('subject')}: {finding.get('text')}{command}"
            found.setdefault(finding.get("severity"), {}).setdefault(words, []).append(name)
    return found


def compare(facts):
    """{fact: [(text, names of the hosts that say so)]}, in the order in which facts were met."""
    found = {}
    for name, known in facts.items():
        for fact, text in known.items():
            found.setdefault(fact, {}).setdefault(text, []).append(name)
    return {fact: list(texts.items()) for fact, texts in found.items()}


def show(facts):
    """The facts in two parts: what is the same on every host, then what differs and where."""
    table = compare(facts)
    same = {fact: rows[0][0] for fact, rows in table.items() if len(rows) == 1 and len(rows[0][1]) == len(facts)}
    width = max((len(fact) for fact in table if not (fact in same and fact.startswith("doctor."))), default=0)
    print(f"the same on all {len(facts)} hosts:" if len(facts) > 1 else f"{next(iter(facts))}:")
    doctor = 0
    for fact, text in same.items():
        if fact.startswith("doctor."):
            doctor += 1
        elif fact not in SAME_EVERYWHERE_HIDDEN or len(facts) == 1:
            print(f"  {fact:<{width}}  {text}")
    if doctor:
        print(f"  and {doctor} things that millrace doctor says (--json shows them)")
    different = {fact: rows for fact, rows in table.items() if fact not in same and fact != "address"}
    if different:
        print("different:")
    for fact, rows in different.items():
        for at, (text, names) in enumerate(rows):
            print(f"  {fact if at == 0 else '':<{width}}  {text or '-'}  ({fold(names)})")


def check(cluster, as_json):
    """Ends with 0 when every host answers and runs the programs, else with 1."""
    paths = [os.path.join(cluster.record["bin"], program) for program in ("millrace", "millraced")]
    words, payload = [cluster.options["remote_bin"] or "-"], b""
    sums(cluster.record["bin"])
    if not cluster.options["remote_bin"]:
        for path in paths:
            with open(path, "rb") as file:
                payload += file.read()
    sizes = [os.path.getsize(path) for path in paths]

    def look(host):
        began = time.time()
        result = cluster.transport.run(host, "facts", words[0], host.nic, *sizes, payload=payload, deadline=60)
        return result, began, time.time()

    looked = cluster.transport.each(cluster.hosts, look)
    if cluster.dry_run:
        return 0
    facts, doctors, problems = {}, {}, {}
    for host, (result, began, ended) in looked.items():
        known, told = facts_of(result, began, ended)
        if known:
            facts[host.name] = known
        doctors[host.name] = told
        if result.code:
            problems.setdefault(result.error or f"ended with {result.code}", []).append(host.name)
        elif known.get("clock") != "agrees":
            problems.setdefault(f"its clock is {known.get('clock')}: logs will not merge well", []).append(host.name)
    client = cluster.client("--version")
    version = client.stdout.split()[1] if client and client.stdout else "?"
    for name, known in facts.items():
        if known.get("version", version) != version:
            problems.setdefault(f"version {known['version']}, and this client is {version}: push", []).append(name)
    if as_json:
        print(json.dumps({"hosts": {name: {"facts": {k: v for k, v in facts.get(name, {}).items()
                                                    if not k.startswith("doctor.")}, "doctor": doctors[name]}
                                    for name in doctors},
                          "problems": [{"hosts": names, "problem": words} for words, names in problems.items()]}))
    elif facts:
        show(facts)
    for severity, rows in advice(doctors).items():
        for words, names in rows.items():
            warn(f"{fold(names)}: {severity}: {words}")
    for words, names in problems.items():
        warn(f"{fold(names)}: {words}")
    if any(result.code for result, _, _ in looked.values()):
        raise Failure(1, "not every host is fit for a cluster")
    if not as_json:
        say("every host can take part" + (", but see above" if problems else ""))
    return 0
