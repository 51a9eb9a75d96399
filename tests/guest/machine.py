"""A guest: an emulated PC that boots a kernel with an archive as its root and runs checks, one after the other."""
import contextlib
import ctypes
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import time

QEMU = "qemu-system-x86_64"
BOOT_LIMIT_S = 60
SLOW = 5  # limits are for a quiet machine; on one that is slow and busy a guest may take this many times longer
SLACK_S = 15  # beyond a check's own limit: the guest kills what does not end by itself
LINE_BYTES_MAX = 1 << 20
LOG_BYTES_MAX = 16 << 20
PR_SET_PDEATHSIG = 1
# qemu 7.2 leaves rubbish in the flags after cmpxchg16b: kernels die of it, or go on with a wrong direction or interrupt
# flag. They do without where the processor has none.
CPU = "max,-cx16"
LIBC = ctypes.CDLL(None, use_errno=True)


class Broken(Exception):
    """The guest did not do as a guest must: it did not boot, it ended, it hung. The text has the console's end."""


class Result:
    def __init__(self, code, log, seconds):
        self.code, self.log, self.seconds = code, log, seconds


def die_with_parent():
    """In a child before it becomes another program: it is killed when we end, however we end."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def stop(process):
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):
                pipe.close()


class Link:
    """Ports for guests that are joined: taps on a bridge in a network namespace without a name, which is gone with the
    last process in it. The taps carry virtio-net's headers, so that a guest's zero-copy sends and offloads reach the
    other guest as they are."""

    SCRIPT = """set -e
ip link set lo up
ip link add br0 type bridge stp_state 0 forward_delay 0
ip link set br0 up
for port in "$@"; do
    ip tuntap add dev "$port" mode tap vnet_hdr
    ip link set "$port" master br0 up
done
echo ready
read -r forever"""

    def __init__(self, ports):
        self.ports = ["port%d" % i for i in range(ports)]
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", self.SCRIPT, "link", *self.ports],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       preexec_fn=die_with_parent)
        said = self.holder.stdout.readline().decode(errors="replace")
        if said != "ready\n":
            said += self.holder.stdout.read().decode(errors="replace")
            stop(self.holder)
            raise Broken("no link for guests could be made: %s" % said)

    def within(self):
        return ["nsenter", "--net=/proc/%d/ns/net" % self.holder.pid]

    def close(self):
        stop(self.holder)


class Machine:
    """One guest. `memory_mib` and `cpus` are divided among `numa_nodes`; `link` and `port` give it a network card."""

    def __init__(self, kernel, archive, folder, cpus=2, memory_mib=1024, numa_nodes=1, link=None, port=0, patience=1,
                 kernel_words=()):
        self.token = "@" + secrets.token_hex(6)
        self.console = os.path.join(folder, "console-%s" % self.token[1:])
        self.patience, self.pending, self.process, self.slack_s = patience * SLOW, b"", None, SLACK_S
        command = [QEMU, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-cpu", CPU,
                   "-accel", "tcg,thread=single", "-smp", str(cpus), "-m", str(memory_mib), "-kernel", kernel.image,
                   "-initrd", archive, "-serial", "file:" + self.console, "-chardev", "stdio,id=control,signal=off",
                   "-serial", "chardev:control", "-append",
                   " ".join(["console=ttyS0", "panic=-1", "loglevel=4", "guest.token=" + self.token, *kernel_words])]
        if numa_nodes > 1:
            for i in range(numa_nodes):
                first, last = i * cpus // numa_nodes, (i + 1) * cpus // numa_nodes - 1
                command += ["-object", "memory-backend-ram,id=memory%d,size=%dM" % (i, memory_mib // numa_nodes),
                            "-numa", "node,nodeid=%d,cpus=%d-%d,memdev=memory%d" % (i, first, last, i)]
        if link:
            command[:0] = link.within()
            command += ["-netdev", "tap,id=net,ifname=%s,script=no,downscript=no,vhost=off" % link.ports[port],
                        "-device", "virtio-net-pci,netdev=net,romfile=,mac=52:54:00:00:00:%02x" % (port + 1)]
        self.command = command

    def boot(self):
        """Starts the guest and waits until it takes commands; returns the seconds it took."""
        begin = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        os.set_blocking(self.process.stdout.fileno(), False)
        self._await("up", BOOT_LIMIT_S * self.patience)
        return time.monotonic() - begin

    def run(self, *words, limit=60, leave=False):
        """Runs a program in the guest. It is ended there when its time is over (code 124 or 137). A guest that does not
        answer even then is killed, and with it goes all that was to run in it."""
        if not self.process:
            raise Broken("the guest has ended before this")
        begin, limit = time.monotonic(), limit * self.patience
        line = " ".join(["leave" if leave else "run", str(limit), *map(str, words)]) + "\n"
        try:
            self.process.stdin.write(line.encode())
            self.process.stdin.flush()
        except OSError:
            self._broken("the guest has ended")
        log, word = self._await("end", limit + self.slack_s * self.patience)
        return Result(int(word), log, time.monotonic() - begin)

    def _await(self, word, limit):
        """Reads until the guest's own line with this word; what came before it, and what follows the word."""
        marker, lines, size = ("%s %s " % (self.token, word)).encode(), [], 0
        deadline = time.monotonic() + limit
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                line, mark, rest = self.pending.partition(b"\n")
                if mark:
                    self.pending = rest
                    if marker in line:  # a check's last line may lack its end
                        before, _, value = line.partition(marker)
                        lines.append(before)
                        return b"\n".join(lines).decode(errors="replace").replace("\r", ""), value.decode().strip()
                    lines.append(line)
                    size += len(line)
                    if size > LOG_BYTES_MAX:
                        self._broken("a check printed more than %d bytes" % LOG_BYTES_MAX, lines)
                    continue
                remains = deadline - time.monotonic()
                if remains <= 0:
                    self._broken("the guest hangs: it did not answer within %.0f s and was killed" % limit, lines)
                if len(self.pending) > LINE_BYTES_MAX:
                    self._broken("a check printed a line without end", lines)
                if selector.select(min(remains, 1)):
                    data = self.process.stdout.read(65536)
                    if data == b"":
                        self._broken("the guest has ended by itself", lines + [self.pending])
                    self.pending += data or b""

    def _broken(self, reason, lines=()):
        self.close()
        said = b"\n".join(lines[-40:]).decode(errors="replace")
        raise Broken("%s\n  its last words:\n%s\n  its console:\n%s" % (reason, said, self.console_tail()))

    def console_tail(self, lines=40):
        with contextlib.suppress(OSError), open(self.console, errors="replace") as file:
            return "".join(file.readlines()[-lines:])
        return ""

    def close(self):
        if self.process:
            stop(self.process)
            self.process = None


def missing():
    """Why no guest can run here; None when one can."""
    for program, package in ((QEMU, "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(program) is None:
            return "%s is not installed (package %s)" % (program, package)
    return None


def link_missing():
    """Why guests cannot be joined here; None when they can."""
    if os.getuid() != 0:
        return "taps in a network namespace need root"
    if not os.path.exists("/dev/net/tun"):
        return "this kernel has no /dev/net/tun"
    if shutil.which("ip") is None or subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        return "no network namespace can be made here"
    return None
