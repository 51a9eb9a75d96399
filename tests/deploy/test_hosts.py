"""The parser of host files and lists, with many inputs that people write and some they should not."""
import os
import random
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "deploy", "remote"))
import hosts  # noqa: E402
from hosts import Host, HostsError  # noqa: E402

GOOD = [
    (b"a", ["a"]),
    (b"a,b,c", ["a", "b", "c"]),
    (b"a\nb\nc\n", ["a", "b", "c"]),
    (b"a\r\nb\r\n\r\nc", ["a", "b", "c"]),
    (b"\xef\xbb\xbfa\n", ["a"]),
    (b"# all\n\n  a  # first\n\tb\t# second\n", ["a", "b"]),
    (b"n[01-06]", ["n01", "n02", "n03", "n04", "n05", "n06"]),
    (b"n[1-3]", ["n1", "n2", "n3"]),
    (b"n[8-11]", ["n8", "n9", "n10", "n11"]),
    (b"n[08-11]", ["n08", "n09", "n10", "n11"]),
    (b"n[001-002,009],x", ["n001", "n002", "n009", "x"]),
    (b"r[1-2]n[01-02].example", ["r1n01.example", "r1n02.example", "r2n01.example", "r2n02.example"]),
    (b"n[5]", ["n5"]),
    (b"host-007", ["host-007"]),
    (b"10.0.0.1,10.0.0.2", ["10.0.0.1", "10.0.0.2"]),
    (b"10.0.0.[1-3]", ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    (b"x_1", ["x_1"]),
    (b"n[0-2]", ["n0", "n1", "n2"]),
    (b"n[00-02]", ["n00", "n01", "n02"]),
]

PARSED = [
    (b"me@a:2222 cores=4 nic=eth1", Host("a", "a", "me", 2222, 4, "eth1")),
    (b"fd00::1", Host("ip6-fd00--1", "fd00::1")),
    (b"[fd00::1]", Host("ip6-fd00--1", "fd00::1")),
    (b"[fd00::1]:2222", Host("ip6-fd00--1", "fd00::1", "", 2222)),
    (b"me@[fd00::1]:2222 name=left", Host("left", "fd00::1", "me", 2222)),
    (b"fe80::1%eth0", Host("ip6-fe80--1-eth0", "fe80::1%eth0")),
    (b"a nic=10.1.0.1", Host("a", "a", nic="10.1.0.1")),
    (b"a rack=left.2", Host("a", "a", rack="left.2")),
    (b"a nic=fd00::7", Host("a", "a", nic="fd00::7")),
    (b"::1", Host("ip6---1", "::1")),
    (b"slurm_1@a.b-c.example:22", Host("a.b-c.example", "a.b-c.example", "slurm_1", 22)),
    (b"a cores=0016", Host("a", "a", cores=16)),
]

BAD = {
    b"": "names no host",
    b"\n# nothing\n": "names no host",
    b"a,,b": "empty name",
    b",a": "empty name",
    b"a b": "separated by commas",
    b"a\nb\na\n": "line 3: node a is there twice (first: f, line 1)",
    b"N1,n1": "twice",
    b"n[1-": "brackets",
    b"n]1[": "brackets",
    b"n[[1]]": "brackets",
    b"n[]": "range",
    b"n[a-c]": "range",
    b"n[1-3-5]": "range",
    b"n[3-1]": "low to high",
    b"n[1-06]": "same number of digits",
    b"n[01-100]": "same number of digits",
    b"n[1-99999]": "more than 1024",
    b"n[1-99][1-99]": "more than 1024",
    b"-oProxyCommand=x": "is not a host",
    b"a@-b": "is not a host",
    b"-l@a": "no user name",
    b"a b@c": "separated by commas",
    b"@a": "no user name",
    b"me@": "is not a host",
    b"a:": "is not a port",
    b"a:0": "is not a port",
    b"a:70000": "is not a port",
    b"a:ssh": "is not a port",
    b"a:22:23": "not an IPv6 address",
    b"[fd00::g]": "not an IPv6 address",
    b"[fd00::1]22": "after the brackets",
    b"1.2.3": "not an address",
    b"1.2.3.256": "not an address",
    b"007": "not an address",
    b"a cores=0": "from 1 to 1024",
    b"a cores=": "from 1 to 1024",
    b"a cores=many": "from 1 to 1024",
    b"a cores=4 cores=5": "given twice",
    b"a nic=": "neither an interface",
    b"a nic=$(reboot)": "neither an interface",
    b"a,b nic=10.0.0.1": "for one host",
    b"a,b name=x": "for one host",
    b"a name=a/b": "up to 63 letters",
    b"a name=coordinator": "not 'coordinator'",
    b"coordinator": "cannot be a node's name",
    b"a;reboot": "is not a host",
    b"a$(reboot)": "is not a host",
    b"a'b": "is not a host",
    b"a.": "is not a host",
    b"a\x00": "control character",
    b"a\x1b[31m": "control character",
    b"ok\n\xff\xfe\n": "line 2: not text",
    b"a colour=red": "none of cores=N",
    b"h\xc3\xa9": "is not a host",
}


class Parse(unittest.TestCase):
    def test_names_are_kept_exactly(self):
        for data, names in GOOD:
            with self.subTest(data):
                self.assertEqual([host.name for host in hosts.parse(data, "f")], names)

    def test_every_part_of_a_host(self):
        for data, host in PARSED:
            with self.subTest(data):
                self.assertEqual(hosts.parse(data, "f"), [host])

    def test_what_is_wrong_is_said(self):
        for data, words in BAD.items():
            with self.subTest(data), self.assertRaises(HostsError) as caught:
                hosts.parse(data, "f")
            self.assertIn(words, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("f"), caught.exception)

    def test_any_bytes_are_hosts_or_an_error(self):
        seed = random.randrange(1 << 32)
        source = random.Random(seed)
        alphabet = [b"a", b"n", b"0", b"1", b"9", b"[", b"]", b"-", b",", b":", b"@", b".", b" ", b"\n", b"\r", b"#",
                    b"=", b"cores", b"nic", b"name", b"::", b"\xff", b"%", b"\t"]
        for _ in range(20000):
            data = b"".join(source.choice(alphabet) for _ in range(source.randrange(12)))
            try:
                for host in hosts.parse(data, "f"):
                    self.assertFalse(host.host.startswith("-") or host.user.startswith("-"), (seed, data))
            except HostsError:
                pass


class Load(unittest.TestCase):
    def test_a_file_or_a_list(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "hosts")
            with open(path, "wb") as file:
                file.write(b"a\r\nb")
            self.assertEqual([host.name for host in hosts.load(path)], ["a", "b"])
            with self.assertRaises(HostsError) as caught:
                hosts.load(path + "-missing")
            self.assertIn("No such file", str(caught.exception))
        self.assertEqual([host.name for host in hosts.load("a,n[1-2]")], ["a", "n1", "n2"])


class Fold(unittest.TestCase):
    def test_in_few_words(self):
        for names, folded in (
                (["n01", "n02", "n03"], "n[01-03]"),
                (["n1", "n3", "n2", "n7"], "n[1-3,7]"),
                (["a", "b"], "a,b"),
                (["n08", "n09", "n10", "n11"], "n[08-11]"),
                (["n5"], "n5"),
                (["n05", "x"], "n05,x"),
                (["r1-a", "r2-a"], "r[1-2]-a"),
                ([], "")):
            with self.subTest(names):
                self.assertEqual(hosts.fold(names), folded)

    def test_unfolds_to_the_same(self):
        for data in (b"n[08-112]".replace(b"08", b"008"), b"n[1-30]", b"a[01-03],b[7-9]", b"x,y,z[1-2]"):
            names = [host.name for host in hosts.parse(data, "f")]
            self.assertEqual(sorted(host.name for host in hosts.parse(hosts.fold(names).encode(), "f")), sorted(names))


if __name__ == "__main__":
    unittest.main()
