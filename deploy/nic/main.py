"""Options, output and exit codes of deploy/tune-nic."""

import argparse
import json
import sys

import work
from journal import Journal
from plan import AREA_BYTES, PORTS_FIRST
from system import Refusal

PROGRAM = "deploy/tune-nic"
OK, FAILED, USAGE, COPIES = 0, 1, 2, 3

HELP = """usage: deploy/tune-nic IF [--workers W] [--dry-run | --apply | --restore] [--mtu N] [--json]

Prepares the network card of interface IF for zero-copy receive (ConnectX-7 and other mlx5 cards, bnxt, fbnic, gve): queues,
offloads, splitting headers from data, rules that steer each worker's ports to its queue, interrupts, huge pages.

  --dry-run      print the commands and run none (the default)
  --apply        run them, as root; may be repeated
  --restore      put everything back, as root, also after an --apply that failed or was killed
                 (with --dry-run: print how)
  --workers W    workers that `millraced node' will have (the cores of the card's memory node)
  --ports FIRST  the same as for `millraced node' (16384)
  --zc-area BYTES  the same as for `millraced node', for huge pages (67108864)
  --mtu N        set the MTU, too; switches and the other nodes must allow it (it is left as it is)
  --json         print one JSON object
  --help         this text

Cards stand still for a moment while they are set: not while jobs run. Ends by printing the options for `millraced node'.

Exit codes: 0 all is set (or would be), 1 nothing was done, or not all could be put back, 2 usage, 3 a step that zero-copy
receive needs was refused: it is named, with what works without. See docs/man/millrace-tune-nic.8."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"{PROGRAM}: {message}; {PROGRAM} --help shows what there is", file=sys.stderr)
        sys.exit(USAGE)


def number_within(least, most):
    def parse(text):
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number from {least} to {most}")
        return int(text)
    return parse


def parse(arguments):
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("interface", nargs="?")
    parser.add_argument("--workers", type=number_within(1, 1024))
    parser.add_argument("--ports", type=number_within(1, 65535), default=PORTS_FIRST)
    parser.add_argument("--zc-area", dest="area", type=number_within(4096, 1 << 40), default=AREA_BYTES)
    parser.add_argument("--mtu", type=number_within(1280, 65535))
    for name in ("dry-run", "apply", "restore", "json", "help"):
        parser.add_argument("--" + name, dest=name.replace("-", "_"), action="store_true")
    parser.add_argument("-h", dest="help", action="store_true")
    options = parser.parse_args(arguments)
    if options.help:
        print(HELP)
        sys.exit(OK)
    if not options.interface:
        parser.error("which interface? `millrace doctor' lists them")
    if options.apply and (options.restore or options.dry_run):
        parser.error("--apply goes with neither --dry-run nor --restore")
    return options


def shorten(commands):
    return commands if len(commands) <= 4 else [*commands[:2], f"... ({len(commands) - 3} more)", commands[-1]]


def show_steps(outcomes):
    for each in outcomes:
        text = f"{each['state']:<11} {each['name']:<12} {each['about']}"
        print(text + (f": {each['text']}" if each["text"] else ""))
        if each["state"] in ("done", "refused"):
            for command in shorten(each["commands"]):
                print(f"{'':24} {command}")
        if each["means"] and each["state"] == "refused":
            print(f"{'':24} without it: {each['means']}")


def show_commands(outcomes):
    for each in outcomes:
        if each["commands"] and each["state"] == "would":
            print(f"# {each['name']}: {each['about']}", *each["commands"], sep="\n")
        else:
            text = f": {each['text']}" if each["text"] else ""
            means = f"; without it: {each['means']}" if each["state"] == "refused" else ""
            print(f"# {each['name']}: {each['about']}: {each['state']}{text}{means}")


def verdict(outcomes):
    return COPIES if any(each["vital"] and each["state"] in ("refused", "skipped") for each in outcomes) else OK


def prepare(system, journal, options):
    plan = work.plan_for(system, options.interface, options, journal)
    outcomes = work.apply(system, plan, journal, options.apply)
    code, hints, words = verdict(outcomes), work.hints(system, plan), work.node_words(plan)
    if options.json:
        print(json.dumps({"interface": options.interface, "driver": plan["card"]["driver"], "applied": options.apply,
                          "workers": plan["workers"], "queues": plan["queues"], "queue_first": plan["first"],
                          "queue_last": plan["queues"] - 1, "port_first": plan["ports"], "cpus": plan["cpus"],
                          "memory_node": plan["card"]["node"], "steps": outcomes, "hints": hints, "node_options": words,
                          "zero_copy_receive": code == OK}))
        return code
    (show_steps if options.apply else show_commands)(outcomes)
    mark = "" if options.apply else "# "
    for hint in hints:
        print(f"{mark}hint: {hint}")
    if code == OK:
        print(f"{mark}then: millraced node {words} ...")
    else:
        print(f"{mark}zero-copy receive will not work over {options.interface}: see what was refused. "
              f"{PROGRAM} {options.interface} --restore puts back what was set" if options.apply else
              f"{mark}zero-copy receive would not work over {options.interface}: see what is refused")
    return code


def put_back(system, journal, options):
    if journal.plan is None:
        print(json.dumps({"interface": options.interface, "restored": True, "left": []}) if options.json else
              f"{PROGRAM}: {options.interface} was not prepared, or is put back already")
        return OK
    # A card that is gone took its settings along; what is left to put back is the machine's.
    if system.exists(f"/sys/class/net/{options.interface}"):
        work.same_card(journal, {"interface": options.interface,
                                 "device": system.link(f"/sys/class/net/{options.interface}/device")})
    if options.dry_run:
        commands = work.show_restore(system, journal)
        print(json.dumps({"interface": options.interface, "commands": commands}) if options.json else "\n".join(commands))
        return OK
    left = work.restore(system, journal)
    if not left:
        journal.remove()
    if options.json:
        print(json.dumps({"interface": options.interface, "restored": not left, "left": [
            {"name": step.name, "text": text, "commands": commands} for step, text, commands in left]}))
    elif not left:
        print(f"{PROGRAM}: {options.interface} is as it was")
    else:
        for step, text, commands in left:
            print(f"{PROGRAM}: {step.name} is not back: {text}", *(f"    {each}" for each in commands), sep="\n",
                  file=sys.stderr)
        print(f"{PROGRAM}: what was before is kept in {journal.path}; --restore may be repeated", file=sys.stderr)
    return FAILED if left else OK


def main(arguments, system):
    options = parse(arguments)
    changes = options.apply or (options.restore and not options.dry_run)
    try:
        if "/" in options.interface or options.interface.startswith("."):
            raise Refusal(f"{options.interface!r} is no interface's name")
        if changes and not system.is_root():
            raise Refusal(f"{'--apply' if options.apply else '--restore'} needs root: sudo {PROGRAM} {' '.join(arguments)}; "
                          "without it, --dry-run prints the commands")
        journal = Journal(system, options.interface)
        try:
            journal.open() if changes else journal.load()
            return put_back(system, journal, options) if options.restore else prepare(system, journal, options)
        finally:
            if changes:
                journal.close()
    except Refusal as refusal:
        print(json.dumps({"interface": options.interface, "error": str(refusal)}) if options.json else
              f"{PROGRAM}: {refusal}", file=sys.stdout if options.json else sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(f"\n{PROGRAM}: interrupted; {PROGRAM} {options.interface} --restore puts back what was set", file=sys.stderr)
        return FAILED
