"""That the rig itself tells the truth: exit codes and limits come back, a dead or hung guest is noticed, nothing is
left behind, and only what Debian signed is booted."""
import contextlib
import os
import signal
import subprocess
import sys
import time

from lab import ROOT, expect, expect_equal
from machine import Broken

HERE = os.path.join(ROOT, "tests", "guest")


def answers_come_back(guest):
    result = guest.run("sh", "-c", "echo${IFS}words;exit${IFS}7")
    expect_equal((result.code, result.log), (7, "words\n"), "exit code and output")
    expect_equal(guest.run("true").code, 0, "exit code")
    result = guest.run("printf", "no-end-of-line")
    expect_equal((result.code, result.log), (0, "no-end-of-line"), "exit code and output")


def time_limit(guest):
    result = guest.run("sleep", "1000", limit=1 / guest.patience)
    expect_equal(result.code, 124, "exit code of a check that took too long")
    expect_equal(guest.run("true").code, 0, "exit code of the next")


def left_behind(guest):
    result = guest.run("sh", "-c", "setsid${IFS}sleep${IFS}1000&")
    expect(result.code == 97 and "left behind" in result.log and "sleep" in result.log,
           "a process that stayed was not told:", result.code, result.log)
    result = guest.run("pidof", "sleep")
    expect(result.code == 1, "it still runs:", result.log)


def expect_broken(guest, words, *command, **options):
    try:
        result = guest.run(*command, **options)
    except Broken as error:
        expect(words in str(error), "the words are:", error)
    else:
        expect(False, "it went on with exit code", result.code)
    expect(guest.process is None, "the guest still runs")


def hang(rig):
    guest = rig.guest()
    guest.boot()
    guest.slack_s = 1
    os.kill(guest.process.pid, signal.SIGSTOP)
    expect_broken(guest, "hangs", "true", limit=1)


def panic(rig):
    guest = rig.guest()
    guest.boot()
    expect_broken(guest, "sysrq triggered crash", "sh", "-c", "echo${IFS}c>/proc/sysrq-trigger")


# What a run leaves ---------------------------------------------------------------------------------------------------

def marked(marker):
    """The processes that have this in their environment, by pid."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/environ" % pid, "rb") as file:
            if marker.encode() in file.read():
                with open("/proc/%s/cmdline" % pid, "rb") as words:
                    found[int(pid)] = words.read().replace(b"\0", b" ").decode(errors="replace")[:100]
    return found


def await_or_fail(words, seconds, probe):
    deadline = time.monotonic() + seconds
    while not probe():
        expect(time.monotonic() < deadline, words, "not within", seconds, "s")
        time.sleep(0.05)


def interrupted(lab, number, pattern, guests):
    """A run that a signal ends in the middle of a case leaves no process, and no file where it could still remove it."""
    folder, marker = lab.fresh("interrupted"), "MILLRACE_RIG=%d-%d" % (os.getpid(), lab.number)
    os.mkdir(folder)
    name, value = marker.split("=")
    process = subprocess.Popen([sys.executable, HERE + "/acceptance.py", "--bin", lab.bin, pattern],
                               env={**os.environ, "TMPDIR": folder, name: value, "MILLRACE_TEST_COUNTS": ""},
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    lab.clients.add(process)
    try:
        await_or_fail("the guests run", lab.limit(30), lambda: process.poll() is not None or sum(
            "qemu-system" in words for words in marked(marker).values()) >= guests)
        expect(process.poll() is None, "the run ended early with", process.returncode)
        time.sleep(0.5)
        process.send_signal(number)
        await_or_fail("the run ends", lab.limit(10), lambda: process.poll() is not None)
        await_or_fail("all its processes end", lab.limit(5), lambda: not marked(marker))
        if number != signal.SIGKILL:
            expect(not os.listdir(folder), "left behind:", os.listdir(folder))
    finally:
        lab.clients.discard(process)
        process.kill()
        process.wait()


# The kernel ----------------------------------------------------------------------------------------------------------

def fetch(cache, *words, **environment):
    return subprocess.Popen([sys.executable, HERE + "/kernel.py", *words], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, "MILLRACE_GUEST_CACHE": cache, **environment})


def fetched_at_once(lab):
    """Several at once get one kernel, whole; afterwards nothing but the cache is asked."""
    cache = lab.fresh("cache")
    done = [(process, process.communicate(timeout=lab.limit(300))) for process in [fetch(cache) for _ in range(3)]]
    expect(all(process.returncode == 0 for process, _ in done), "not all had it:", done)
    folders = {out for _, (out, _) in done}
    expect_equal(len(folders), 1, "number of kernels")
    left = [name for name in os.listdir(cache) if name.startswith(".")]
    expect(not left, "left behind:", left)
    again = fetch(cache, PATH="/nonexistent")
    out, err = again.communicate(timeout=lab.limit(30))
    expect((again.returncode, {out}) == (0, folders), "without the network:", again.returncode, out, err)


def unsigned_is_refused(lab):
    """Debian's archive, but a keyring that does not have its keys."""
    cache = lab.fresh("cache")
    process = fetch(cache, "--keyring", os.devnull)
    out, err = process.communicate(timeout=lab.limit(300))
    expect(process.returncode == 1 and "not signed" in err, "it ended with", process.returncode, out, err)
    expect_equal(os.listdir(cache), ["lock"], "what is in the cache")
