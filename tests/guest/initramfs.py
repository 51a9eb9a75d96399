"""The root file system of a guest: a cpio archive that the kernel unpacks into memory. It holds programs of this
machine with the libraries they are linked to, kernel modules in loading order, and what tests add."""
import lzma
import os
import re
import shutil
import stat
import struct
import subprocess


class Unbuildable(Exception):
    """Something that belongs into the archive is not on this machine; the text says what."""


def libraries(program):
    """The files that the dynamic linker would load for a program, itself included; none for a static one."""
    said = subprocess.run(["ldd", program], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          env={**os.environ, "LC_ALL": "C"})
    missing = re.findall(r"^\s*(\S+) => not found", said.stdout, re.M)
    if missing:
        raise Unbuildable("%s is linked to %s, which this machine does not have" % (program, ", ".join(missing)))
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", said.stdout, re.M)


# Modules -------------------------------------------------------------------------------------------------------------

def module_name(word):
    return word.replace("-", "_")


def read_module(path):
    """A module as the kernel wants it, unpacked."""
    if path.endswith(".ko.xz"):
        with lzma.open(path) as file:
            return file.read()
    if path.endswith(".ko"):
        with open(path, "rb") as file:
            return file.read()
    raise Unbuildable("%s is packed in a way that this script does not know" % path)


def module_facts(content):
    """What a module says of itself, as (key, value) pairs: section .modinfo of a 64-bit little-endian ELF file."""
    table, = struct.unpack_from("<Q", content, 40)
    size, count, names_index = struct.unpack_from("<HHH", content, 58)
    sections = [struct.unpack_from("<IIQQQQ", content, table + i * size) for i in range(count)]
    names_offset = sections[names_index][4]
    for name, _, _, _, offset, length in sections:
        if content[names_offset + name:].startswith(b".modinfo\0"):
            words = content[offset:offset + length].decode(errors="replace").split("\0")
            return [tuple(word.split("=", 1)) for word in words if "=" in word]
    return []


class Modules:
    """The modules of a kernel, and those of them that were asked for with all they need, in loading order."""

    def __init__(self, kernel):
        self.kernel, self.order, self.contents = kernel, [], {}
        self.paths = {}
        for folder, _, names in os.walk(kernel.modules):
            for name in names:
                if ".ko" in name:
                    self.paths[module_name(name.split(".ko")[0])] = os.path.join(folder, name)

    def add(self, name, optional=False):
        """Adds a module after those it depends on. One that has no file may be part of the kernel itself."""
        name = module_name(name)
        if name in self.contents:
            return
        if name not in self.paths:
            if optional:
                return
            raise Unbuildable("kernel %s has no module %s: it is built in, or that kernel cannot do it"
                              % (self.kernel.version, name))
        self.contents[name] = content = read_module(self.paths[name])
        for key, value in module_facts(content):
            if key == "depends":
                for other in filter(None, value.split(",")):
                    self.add(other)
            elif key == "softdep" and value.startswith("pre:"):
                for other in value.split("post:")[0].split()[1:]:
                    self.add(other, optional=True)
        self.order.append(name)


# The archive ---------------------------------------------------------------------------------------------------------

class Archive:
    """Files for a guest, by their path there. Nothing is copied before write()."""

    def __init__(self):
        self.entries = {}  # path without the leading slash: (mode, the content, or the path of a file that has it)

    def _put(self, path, mode, content):
        path = path.strip("/")
        parent = os.path.dirname(path)
        if parent and parent not in self.entries:
            self._put(parent, stat.S_IFDIR | 0o755, b"")
        self.entries.setdefault(path, (mode, content))

    def folder(self, path):
        self._put(path, stat.S_IFDIR | 0o755, b"")

    def link(self, path, target):
        self._put(path, stat.S_IFLNK | 0o777, target.encode())

    def text(self, path, content, mode=0o644):
        self._put(path, stat.S_IFREG | mode, content.encode())

    def file(self, path, source):
        self._put(path, stat.S_IFREG | (os.stat(source).st_mode & 0o777), source)

    def binary(self, path, source):
        """A program under a path of its own, with its libraries where it looks for them."""
        self.file(path, source)
        for library in libraries(source):
            self.file(library, os.path.realpath(library))

    def programs(self, *names):
        """Programs of this machine, found as a shell finds them, into /usr/bin."""
        places = os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin:/sbin:/bin"
        for name in names:
            found = shutil.which(name, path=places)
            if found is None:
                raise Unbuildable("the program %s is not installed; deploy/install-deps --test installs what is needed"
                                  % name)
            self.binary("/usr/bin/" + name, os.path.realpath(found))

    def modules(self, modules):
        for number, name in enumerate(modules.order):
            self._put("/lib/modules/%02d-%s.ko" % (number, name), stat.S_IFREG | 0o644, modules.contents[name])

    def write(self, path):
        """Writes the archive in the format "newc", which is what the kernel reads, unpacked: unpacking would be
        emulated."""
        with open(path, "wb") as file:
            for inode, (name, (mode, content)) in enumerate(sorted(self.entries.items()), 1):
                if isinstance(content, str):
                    with open(content, "rb") as source:
                        content = source.read()
                file.write(entry(name, inode, mode, content))
            file.write(entry("TRAILER!!!", 0, 0, b""))


def padded(data):
    return data + b"\0" * (-len(data) % 4)


def entry(name, inode, mode, content):
    fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return padded(head + name.encode() + b"\0") + padded(content)
