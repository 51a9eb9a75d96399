"""Applying the steps, showing what applying would do, and putting back."""

import steps
from plan import AREA_BYTES, PORTS_FIRST, make_plan, read_card
from system import Refusal, action_words

# What a card may change by itself when something else of it is changed: put back even if the step had not begun.
CHANGED_ALONG = ("flags", "aggregation", "ring", "split", "threshold", "spread", "interrupts")


class Context:
    def __init__(self, system, plan, undo=False):
        self.system, self.plan, self.undo = system, plan, undo
        self.interface = plan["card"]["interface"]


def quiet(read, context):
    """None for what a card does not show; whoever needs it says so."""
    try:
        return read(context)
    except Refusal:
        return None


def outcome(step, state, text="", actions=()):
    return {"name": step.name, "about": step.about, "state": state, "text": text, "vital": step.vital,
            "means": step.means if state in ("refused", "skipped") else "", "commands": [action_words(each) for each in actions]}


def plan_for(system, interface, options, journal):
    """The plan, (re)made or as it was when the card was first prepared."""
    card = read_card(system, interface)
    if journal.plan is None:
        return make_plan(system, card, options)
    same_card(journal, card)
    old = journal.plan
    asked = {"workers": options.workers or old["workers"], "ports": options.ports, "area_bytes": options.area,
             "mtu": options.mtu}
    if any(old[key] != value for key, value in asked.items()):
        raise Refusal(f"{interface} was prepared for {old['workers']} workers with ports from {old['ports']} on, areas of "
                      f"{old['area_bytes']} bytes and {'MTU ' + str(old['mtu']) if old['mtu'] else 'its own MTU'}: "
                      f"`deploy/tune-nic {interface} --restore' first")
    return old


def same_card(journal, card):
    if journal.plan["card"]["device"] != card["device"]:
        raise Refusal(f"{journal.path} is of another card, {journal.plan['card']['device']}, which was called "
                      f"{card['interface']} then: remove that file if the other card is gone or was started anew")


def apply(system, plan, journal, execute):
    """Takes all steps, or with execute false says what would be done; the outcomes in order."""
    context = Context(system, plan)
    if execute and journal.plan is None:
        journal.start(plan, {step.name: quiet(step.read, context) for step in steps.STEPS})
    outcomes, good = [], set()
    for step in steps.STEPS:
        without = [name for name in step.needs if name not in good]
        if without:
            outcomes.append(outcome(step, "skipped", f"it needs {', '.join(without)}"))
            continue
        result = take(context, step, journal, execute)
        outcomes.append(result)
        if result["state"] != "refused":
            good.add(step.name)
    return outcomes


def take(context, step, journal, execute):
    actions = []
    try:
        now = quiet(step.read, context)
        if step.name in journal.begun:
            wanted = journal.begun[step.name]
        else:
            wanted = step.want(context, step.read(context))
        if wanted is None:
            return outcome(step, "not needed")
        # Drivers split by themselves at times, and show it; lending a queue wants it to be asked for.
        asked = step.name != "split" or step.name in journal.ended
        if asked and step.same(context, now, wanted):
            return outcome(step, "already")
        actions = step.change(context, now if asked else {}, wanted, 1)
        if not execute:
            return outcome(step, "would", actions=actions)
        journal.begin(step.name, wanted)
        for action in actions:
            context.system.act(action)
        check(context, step, wanted)
        journal.end(step.name)
        return outcome(step, "done", actions=actions)
    except Refusal as refusal:
        text = str(refusal)
        if execute and step.name in journal.begun:
            text += "".join(f"; and it could not be put back: {each}" for each in put_back(context, step, journal.was, 1))
        return outcome(step, "refused", text, actions)


def check(context, step, wanted):
    """Some drivers say yes and do nothing."""
    now = step.read(context)
    if not step.same(context, now, wanted):
        raise Refusal(f"the command succeeded, but what is there now is {plain(now)}, not {plain(wanted)}")


def plain(value):
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" if each is not None else key for key, each in value.items()) or "nothing"
    return str(value)


def put_back(context, step, was, attempt):
    """Brings one setting back; why it is not, or nothing."""
    back, value = Context(context.system, context.plan, undo=True), was.get(step.name)
    if value is None:
        return []
    try:
        now = step.read(back)
        if step.same(back, now, value):
            return []
        for action in step.change(back, now, value, attempt):
            context.system.act(action)
        now = step.read(back)
        return [] if step.same(back, now, value) else [f"{step.name}: it is {plain(now)}, and was {plain(value)}"]
    except Refusal as refusal:
        return [f"{step.name}: {refusal}"]


def concerned(system, journal):
    """The steps whose settings --restore looks at. A card that is gone took its own along."""
    there = system.exists(f"/sys/class/net/{journal.plan['card']['interface']}")
    return [step for step in steps.STEPS
            if journal.was.get(step.name) is not None and step.change is not None and (there or step.name == "hugepages") and
            (step.name in journal.begun or (journal.begun and step.name in CHANGED_ALONG))]


def restore(system, journal):
    """Puts all back, in the opposite order. Settings can hold each other and bring others along, so there are three
    rounds at most, each of which leaves alone what is right. Returns what could not be put back."""
    context = Context(system, journal.plan, undo=True)
    left = []
    for attempt in (1, 2, 2):
        for step in reversed(concerned(system, journal)):
            put_back(context, step, journal.was, attempt)
        left = differences(context, journal)
        if not left:
            break
    return left


def differences(context, journal):
    """Of what this prepared, what is not as it was, with the reason that a last attempt gives."""
    left = []
    for step in concerned(context.system, journal):
        value = journal.was[step.name]
        try:
            now = step.read(context)
            if not step.same(context, now, value):
                left.append((step, f"it is {plain(now)}, and was {plain(value)}",
                             [action_words(each) for each in step.change(context, now, value, 2)]))
        except Refusal as refusal:
            left.append((step, str(refusal), []))
    return left


def show_restore(system, journal):
    """The commands of --restore, as far as they can be known before."""
    context = Context(system, journal.plan, undo=True)
    commands = []
    for step in reversed(concerned(system, journal)):
        value, now = journal.was[step.name], quiet(step.read, context)
        if now is not None and not step.same(context, now, value):
            commands += [action_words(each) for each in step.change(context, now, value, 1)]
    return commands


def hints(system, plan):
    """What is not for this tool to decide."""
    card, found = plan["card"], []
    for pid in system.names("/proc"):
        if pid.isdigit() and system.read(f"/proc/{pid}/comm") == "irqbalance":
            found.append("irqbalance is running and will move the interrupts: `systemctl disable --now irqbalance'")
            break
    mtu = system.read(f"/sys/class/net/{card['interface']}/mtu")
    if plan["mtu"] is None and mtu and mtu.isdigit() and int(mtu) < 9000:
        found.append(f"the MTU is {mtu}: 9000 packs 4 KiB payloads best, if switches and all other nodes allow it: --mtu 9000")
    if plan["far"]:
        found.append(f"memory node {card['node']}, the card's, has too few cores for {plan['workers']} workers: some will be "
                     "on other nodes")
    if system.read(f"/sys/class/net/{card['interface']}/operstate") == "down":
        found.append("the interface is down")
    return found


def node_words(plan):
    """The options of `millraced node` that go with it."""
    words = f"--workers {plan['workers']} --pin --nic {plan['card']['interface']} --rx-queues {plan['first']}-{plan['queues'] - 1}"
    if plan["ports"] != PORTS_FIRST:
        words += f" --ports {plan['ports']}"
    if plan["area_bytes"] != AREA_BYTES:
        words += f" --zc-area {plan['area_bytes']}"
    return words
