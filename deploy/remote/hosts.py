"""Reads which hosts a cluster has: from a file, or from a list on the command line.

A line of the file, or the whole of a list, is

    HOST[,HOST...] [cores=N] [nic=INTERFACE or ADDRESS] [name=NODE] [rack=RACK] [# comment]

and a HOST is [user@]name[:port], where name is a host name, an IPv4 address, an IPv6 address (in brackets when a port
follows) or names with ranges such as n[01-06,09]. Names are kept exactly as they are written: a zero in front counts.

Run as a program with a file or a list, it prints "NODE rack=RACK" for every node: what `millrace bisect --racks` reads.
"""
import ipaddress
import itertools
import os
import re
import sys
from dataclasses import dataclass

HOSTS_MAX = 1024
NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
NODE = re.compile(r"[A-Za-z0-9_.-]{1,63}")
INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,14}")


class HostsError(Exception):
    """What is wrong, where, and what to do, for the person who wrote it."""


@dataclass(frozen=True)
class Host:
    """One host of a cluster. `name` is the node's name, `host` what ssh and the resolver are given."""
    name: str
    host: str
    user: str = ""
    port: int = 0
    cores: int = 0
    nic: str = ""
    rack: str = ""


def load(words):
    """The hosts that `words`, the value of --hosts, stands for: the file of that name, or else a list."""
    if "/" in words or os.path.isfile(words):
        try:
            with open(words, "rb") as file:
                return parse(file.read(), words)
        except OSError as error:
            raise HostsError(f"--hosts {words}: {error.strerror}") from None
    return parse(words.encode(), "--hosts")


def parse(data, where):
    """The hosts in `data`, bytes that `where` names in messages; in their order, no name twice."""
    hosts, seen = [], {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise HostsError(f"{where}, line {line}: not text in UTF-8") from None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        place = where if where == "--hosts" else f"{where}, line {number}"
        for host in _line(line.rstrip("\r"), place):
            key = host.name.lower()
            if key in seen:
                raise HostsError(
                    f"{place}: node {host.name} is there twice (first: {seen[key]}); name=OTHER gives it another name")
            seen[key] = place
            hosts.append(host)
            if len(hosts) > HOSTS_MAX:
                raise HostsError(f"{place}: more than {HOSTS_MAX} hosts")
    if not hosts:
        raise HostsError(f"{where}: names no host")
    return hosts


def _line(line, place):
    line = re.sub(r"(^|\s)#.*", "", line).strip()
    if not line:
        return
    if any(not character.isprintable() and character != "\t" for character in line):
        raise HostsError(f"{place}: a control character in {line!r}")
    first, *options = line.split()
    words = _split(first, place)
    given = _options(options, place)
    hosts = [each for word in words for each in _host(word, given, place)]
    for what in ("name", "nic"):
        address = what == "nic" and _is_address(given.get("nic", ""))
        if what in given and len(hosts) > 1 and (what == "name" or address):
            raise HostsError(f"{place}: {what}={given[what]} is for one host, and {first} is {len(hosts)}")
    yield from hosts


def _options(options, place):
    given = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals or key not in ("cores", "nic", "name", "rack"):
            raise HostsError(f"{place}: '{option}' is none of cores=N, nic=INTERFACE, name=NODE, rack=RACK"
                             " (hosts are separated by commas without blanks, or by lines)")
        if key in given:
            raise HostsError(f"{place}: {key}= is given twice")
        given[key] = value
    cores = given.get("cores", "0")
    if not re.fullmatch(r"[0-9]{1,4}", cores) or "cores" in given and not 1 <= int(cores) <= 1024:
        raise HostsError(f"{place}: cores={cores}: a number from 1 to 1024")
    nic = given.get("nic", "x")
    if not _is_address(nic) and not INTERFACE.fullmatch(nic):
        raise HostsError(f"{place}: nic={nic}: neither an interface such as eth1 nor an address")
    rack = given.get("rack", "x")
    if not NODE.fullmatch(rack):
        raise HostsError(f"{place}: rack={rack}: up to 63 letters, digits, '-', '_' and '.'")
    name = given.get("name", "x")
    if not NODE.fullmatch(name) or name == "coordinator":
        raise HostsError(f"{place}: name={name}: up to 63 letters, digits, '-', '_' and '.', and not 'coordinator'")
    return given


def _split(words, place):
    """Splits at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(words):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(words[start:at])
            start = at + 1
        if depth not in (0, 1):
            raise HostsError(f"{place}: the brackets in '{words}' do not match")
    if depth:
        raise HostsError(f"{place}: the brackets in '{words}' do not match")
    parts.append(words[start:])
    if not all(parts):
        raise HostsError(f"{place}: an empty name between commas in '{words}'")
    return parts


def _host(word, given, place):
    user, at, rest = word.rpartition("@")
    if at and not USER.fullmatch(user):
        raise HostsError(f"{place}: '{user}' in '{word}' is no user name")
    name, port = _name_port(rest, word, place)
    for each in _expand(name, place) if not _is_address(name) else [name]:
        if not _is_address(each):
            _check_name(each, word, place)
        node = given.get("name") or _node_name(each)
        if not NODE.fullmatch(node) or node == "coordinator":
            raise HostsError(f"{place}: '{node}' cannot be a node's name; name=NODE gives it another")
        yield Host(node, each, user, port, int(given.get("cores", 0)), given.get("nic", ""),
                   given.get("rack", ""))


def _check_name(name, word, place):
    if re.fullmatch(r"[0-9.]+", name):
        raise HostsError(f"{place}: '{name}' is not an address (four numbers from 0 to 255)")
    if len(name) > 253 or not NAME.fullmatch(name):
        raise HostsError(f"{place}: '{word}' is not a host: a name has letters, digits, '-', '.' and '_',"
                         " and begins and ends with a letter or digit")


def _name_port(rest, word, place):
    """Takes host:port apart. Colons without brackets are IPv6 from two on."""
    if rest.startswith("[") and ":" in rest.partition("]")[0]:
        name, _, after = rest[1:].partition("]")
        if not _is_address(name):
            raise HostsError(f"{place}: '{name}' in '{word}' is not an IPv6 address")
        if after and not after.startswith(":"):
            raise HostsError(f"{place}: '{after}' after the brackets of '{word}': a port is written :22")
        return name, _port(after[1:], word, place) if after else 0
    if rest.count(":") > 1:
        if not _is_address(rest):
            raise HostsError(f"{place}: '{rest}' is not an IPv6 address (with a port: [ADDRESS]:PORT)")
        return rest, 0
    name, colon, port = rest.partition(":")
    return name, _port(port, word, place) if colon else 0


def _port(text, word, place):
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:
        raise HostsError(f"{place}: '{text}' in '{word}' is not a port from 1 to 65535")
    return int(text)


def _expand(name, place):
    """All names that a name with ranges stands for."""
    pieces = re.split(r"\[([^][]*)\]", name)
    choices = [[piece] if at % 2 == 0 else _range(piece, name, place) for at, piece in enumerate(pieces)]
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > HOSTS_MAX:
        raise HostsError(f"{place}: '{name}' is more than {HOSTS_MAX} hosts")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _range(text, name, place):
    numbers = []
    for item in text.split(","):
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", item)
        if not match:
            raise HostsError(f"{place}: '[{text}]' in '{name}' is not a range such as [01-06] or [1,3,7-9]")
        first, last = match[1], match[2] or match[1]
        padded = len(first) > 1 and first.startswith("0") or len(last) > 1 and last.startswith("0")
        if int(last) < int(first) or padded and len(first) != len(last):
            raise HostsError(f"{place}: '[{item}]' in '{name}': from low to high, with the same number of digits"
                             " where zeros come first")
        if int(last) - int(first) >= HOSTS_MAX:
            raise HostsError(f"{place}: '{name}' is more than {HOSTS_MAX} hosts")
        width = len(first) if padded else 0
        numbers += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    return numbers


def _is_address(text):
    try:
        ipaddress.ip_address(text)
        return True
    except ValueError:
        return False


def _node_name(host):
    return "ip6-" + re.sub("[:%]", "-", host) if ":" in host else host


def fold(names):
    """Names in few words: n01, n02, n03 and x are "n[01-03],x". `_expand` does the reverse."""
    groups, order = {}, []
    for name in names:
        match = re.fullmatch(r"(.*?)([0-9]+)(\D*)", name)
        key = (match[1], match[3], len(match[2]) if match[2].startswith("0") else 0) if match else (name, None, 0)
        if key not in groups:
            groups[key] = []
            order.append(key)
        if match:
            groups[key].append(int(match[2]))
    return ",".join(_fold_group(key, groups[key]) for key in _merge_widths(order, groups))


def _merge_widths(order, groups):
    """01 ... 09 begin with a zero and 10 does not, but of the same width they are one range."""
    for key in list(order):
        prefix, suffix, width = key
        plain = (prefix, suffix, 0)
        if width and plain in groups and groups[plain]:
            groups[key] += [number for number in groups[plain] if len(str(number)) == width]
            groups[plain] = [number for number in groups[plain] if len(str(number)) != width]
    return [key for key in order if groups[key] or key[1] is None]


def _fold_group(key, numbers):
    prefix, suffix, width = key
    if suffix is None:
        return prefix
    runs = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    texts = [str(a).zfill(width) if a == b else f"{str(a).zfill(width)}-{str(b).zfill(width)}" for a, b in runs]
    if len(texts) == 1 and "-" not in texts[0]:
        return prefix + texts[0] + suffix
    return f"{prefix}[{','.join(texts)}]{suffix}"


if __name__ == "__main__":
    try:
        for each in load(" ".join(sys.argv[1:])):
            print(each.name, *([f"rack={each.rack}"] if each.rack else []))
    except HostsError as failure:
        sys.exit(str(failure))
