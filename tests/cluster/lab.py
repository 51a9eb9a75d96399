"""What the cluster tests stand on: clusters made by deploy/cluster, jobs whose JSON report is examined every time, and
the bookkeeping of cases. A Lab owns all that must not outlive the tests."""
import atexit
import collections
import contextlib
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEPLOY = os.path.join(ROOT, "deploy", "cluster")


class Wrong(Exception):
    """Something is not as it must be; the text says what."""


def hang_limit(seconds, patience=1):
    """Seconds after which something hangs that takes that many at most on a quiet machine. Others are slower and busy with
    other things, and how long they take proves nothing."""
    return max(60, 10 * seconds) * patience


def expect(condition, *words):
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


def expect_equal(found, wanted, words):
    if found == wanted:
        return
    if isinstance(found, collections.Counter) and isinstance(wanted, collections.Counter):
        found, wanted = found - wanted, wanted - found  # what is too much, what is missing
    raise Wrong("%s: %.600r, not %.600r" % (words, found, wanted))


# Reports -------------------------------------------------------------------------------------------------------------

COUNT, REAL, TEXT, BOOL, LIST, OBJECT = "count", "real", "text", "bool", "list", "object"


def measures(where):
    """What the manual's list of measures promises in the object of a "job" or a "node"."""
    with open(os.path.join(ROOT, "docs/man/millrace.1"), encoding="utf-8") as manual:
        found = re.findall(r"^\.It Cm (\S+) Pq (.*)$", manual.read(), re.MULTILINE)
    keys = [key for key, places in found if where in places.split(", ")]
    if len(keys) < 20:
        raise SystemExit("the manual lists %d measures of a %s" % (len(keys), where))
    return {key.split(".")[0]: OBJECT if "." in key else REAL if key.endswith("seconds") else COUNT for key in keys}


REPORT = {
    "status": TEXT, "error": TEXT, "error_code": TEXT, "exit_code": COUNT, "job": COUNT, "kind": TEXT, "checksum": TEXT,
    "out": TEXT, "rows_skipped_left": COUNT, "rows_skipped_right": COUNT, "skipped": LIST, "build_side": TEXT, "join_type": TEXT,
    "seconds": REAL, "exchange_seconds": REAL, "spans": OBJECT, "limit": TEXT, "limit_reason": TEXT, "engine": TEXT,
    "features": LIST, "engine_reason": TEXT, "verified": BOOL, "per_gib": OBJECT, "workers": COUNT, "nodes": LIST,
    "links": LIST, **measures("job"),
}
NODE = {
    "name": TEXT, "workers": COUNT, "memory_bytes": COUNT, "socket": OBJECT, "engine_decision": TEXT, **measures("node"),
}
MAY_BE_NULL = {"join_type", "error", "error_code", "job", "out", "per_gib", "socket", "notsent_lowat_bytes", "interface"}
SOCKET = {
    "congestion": TEXT, "send_buffer_bytes": COUNT, "recv_buffer_bytes": COUNT, "notsent_lowat_bytes": COUNT,
    "nodelay": BOOL, "mss_bytes": COUNT, "mtu_bytes": COUNT, "interface": TEXT, "offloads": OBJECT,
}
PER_GIB = dict.fromkeys(("enters", "syscalls", "completions", "context_switches", "cpu_user_s", "cpu_system_s",
                         "zc_copied"), REAL)
LIMITS = {"none", "network", "kernel CPU", "user CPU", "memory", "skew", "input", "output"}


def no_duplicates(pairs):
    made = dict(pairs)
    expect(len(made) == len(pairs), "a JSON object has a key twice:", pairs)
    return made


def no_constant(word):
    raise Wrong("%s is not JSON" % word)


def strict_json(text):
    return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)


def examine_fields(where, record, fields):
    expect_equal(set(record), set(fields), "keys of " + where)
    for key, kind in fields.items():
        value, name = record[key], "%s.%s" % (where, key)
        if value is None and key in MAY_BE_NULL:
            continue
        if kind == COUNT:
            expect(type(value) is int and value >= 0, name, "is", repr(value))
        elif kind == REAL:
            expect(type(value) in (int, float) and value >= 0, name, "is", repr(value))
        else:
            expect(type(value) is {TEXT: str, BOOL: bool, LIST: list, OBJECT: dict}[kind], name, "is", repr(value))


def expect_sum(report, key, nodes, slack=0):
    total = sum(node[key] for node in nodes)
    expect(abs(total - report[key]) <= slack, "nodes' %s add up to %r, the report says %r" % (key, total, report[key]))


def examine_report(report, code):
    """The shape every report of a job has, and sums that must agree."""
    examine_fields("report", report, REPORT)
    nodes = report["nodes"]
    for node in nodes:
        examine_fields("node", node, NODE)
        expect_equal(set(node["stalls"]), {"frame", "output", "input"}, "stalls")
        expect(report["out"] is not None or node["stalls"]["output"] == 0, node["name"], "waited for no output")
        if node["socket"] is not None:
            examine_fields("socket", node["socket"], SOCKET)
    expect((report["per_gib"] is None) == (report["bytes_sent"] == 0), "per_gib is", report["per_gib"])
    if report["counters"]["file_reads"] + report["counters"]["file_writes"] == 0 and report["out"] is None:
        expect_equal(report["iowq_workers"], 0, "io-wq workers of a job without files")
    if report["per_gib"] is not None:
        examine_fields("per_gib", report["per_gib"], PER_GIB)
    expect_equal(report["exit_code"], code, "exit_code in the report")
    expect_equal(report["status"], "succeeded" if code == 0 else "cancelled" if code == 4 else "failed", "status")
    expect((report["error"] is None) == (code == 0), "error is", report["error"])
    expect((report["error_code"] is None) == (code == 0), "error_code is", report["error_code"])
    expect(len(report["checksum"]) == 16 and int(report["checksum"], 16) >= 0, "checksum is", report["checksum"])
    expect(report["limit"] in LIMITS, "limit is", report["limit"])
    expect_equal(len(report["links"]), len(nodes), "rows of links")
    for i, node in enumerate(nodes):
        expect_equal(len(report["links"][i]), len(nodes), "columns of links")
        expect_equal(report["links"][i][i], 0, "bytes from %s to itself" % node["name"])
    if code != 0:
        return
    for key in ("rows", "rows_scanned", "bytes_sent", "bytes_received", "table_rows", "table_bytes", "workers", "rows_cut",
                "stitched_bytes", "joined_bytes", "table_copied_bytes"):
        expect_sum(report, key, nodes)
    for key in ("cpu_user_seconds", "cpu_system_seconds"):
        expect_sum(report, key, nodes, 1e-5 * len(nodes))
    expect_equal(report["bytes_sent"], report["bytes_received"], "bytes sent and received")
    expect_equal(report["rows_scanned_left"] + report["rows_scanned_right"], report["rows_scanned"], "rows of sides")
    expect_equal(report["rows_exchanged"] + report["rows_null_kept"] + report["rows_dropped"], report["rows_scanned"],
                 "rows accounted for")
    expect_equal(max(node["peak_memory_bytes"] for node in nodes), report["peak_memory_bytes"], "peak_memory_bytes")
    for i, node in enumerate(nodes):
        expect_equal(sum(report["links"][i]), node["bytes_sent"], "what the links from %s carried" % node["name"])
        expect_equal(sum(row[i] for row in report["links"]), node["bytes_received"], "links to %s" % node["name"])
        expect(node["memory_bytes"] == 0 or node["peak_memory_bytes"] <= node["memory_bytes"],
               node["name"], "used", node["peak_memory_bytes"], "bytes of", node["memory_bytes"])
    expect(report["engine"].split("-")[0] in ("uring", "epoll", "mixed"), "engine is", report["engine"])
    expect(report["exchange_seconds"] <= report["seconds"] + 0.01, "moving rows took longer than the job")
    told = sum(report["spans"].values()) - report["spans"]["queued"]
    # The report of a job that failed is made while it is being aborted, which takes as long as the machine wants.
    expect(told < report["seconds"] + 0.01 and (code != 0 or told > report["seconds"] - 0.01),
           "the spans", report["spans"], "do not add up to", report["seconds"])


# Clusters ------------------------------------------------------------------------------------------------------------

class Job:
    """A client at work."""

    def __init__(self, cluster, words):
        self.words = words
        self.begin = time.monotonic()
        self.process = subprocess.Popen(cluster.command(*words, "--json"), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, cwd=cluster.lab.work)
        cluster.lab.clients.add(self.process)
        self.lab = cluster.lab

    def finish(self, code=0, timeout=60):
        """Waits for its end, which must be of that exit code (None: 0 or 1), and returns the report, examined."""
        try:
            out, err = self.process.communicate(timeout=self.lab.limit(timeout))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise Wrong("no end after %d s: %s" % (self.lab.limit(timeout), " ".join(self.words)))
        finally:
            self.lab.clients.discard(self.process)
        self.seconds = time.monotonic() - self.begin
        self.err = err.decode(errors="replace")
        what = "%s\n  out: %s\n  err: %s" % (" ".join(self.words), out.decode(errors="replace")[:600], self.err[:2000])
        wanted = (0, 1) if code is None else (code,)
        expect(self.process.returncode in wanted, "exit code %d, not one of %s: %s" % (self.process.returncode, wanted, what))
        code = self.process.returncode
        expect(out.endswith(b"\n") and out.count(b"\n") == 1, "not one line of JSON:", what)
        try:
            report = strict_json(out)
            examine_report(report, code)
        except (ValueError, Wrong) as error:
            raise Wrong("%s\n  %s" % (error, what)) from None
        if code != 0:
            expect(report["error"] in self.err, "the error on stderr is another:", what)
        return report


class Cluster:
    def __init__(self, lab, name, nodes=3, workers=1, via=None, engine=None, memory=None, mtu=None, bin=None):
        self.lab, self.nodes, self.workers = lab, nodes, workers
        self.name = "%s-%s" % (lab.prefix, name)
        self.via = via or lab.via
        self.options = ["--nodes", str(nodes), "--workers", str(workers), "--via", self.via, "--bin", bin or lab.bin]
        for word, value in (("--engine", engine), ("--memory", memory), ("--mtu", mtu)):
            if value:
                self.options += [word, str(value)]

    def deploy(self, verb, *words, check=True, timeout=90):
        done = subprocess.run([DEPLOY, verb, "--name", self.name, *words], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=self.lab.limit(timeout))
        if check:
            expect(done.returncode == 0, "deploy/cluster %s: %s%s" % (verb, done.stdout, done.stderr))
        return done

    def up(self):
        self.lab.clusters.add(self)
        self.deploy("up", *self.options, "--timeout", str(self.lab.limit(30)))
        self.read_settings()
        return self

    def read_settings(self):
        roots = [os.path.join(os.environ.get("XDG_RUNTIME_DIR", "/run"), "millrace"), "/run/millrace",
                 "/tmp/millrace-%d" % os.getuid()]
        for root in roots:
            self.folder = os.path.join(root, self.name)
            if os.path.exists(self.folder + "/settings"):
                with open(self.folder + "/settings") as file:
                    self.coordinator = dict(line.rstrip("\n").split("=", 1) for line in file)["coordinator"]
                return
        raise Wrong("no records of cluster " + self.name)

    def down(self):
        self.deploy("down")
        self.lab.clusters.discard(self)

    def status(self):
        return json.loads(self.deploy("status", "--json", check=False).stdout)

    def pid(self, member):
        with open("%s/pids/%s" % (self.folder, member)) as file:
            return int(file.read().split()[0])

    def members(self):
        return ["coordinator"] + ["n%d" % (i + 1) for i in range(self.nodes)]

    def expect_ready(self):
        for member in self.status():
            name = member["name"]
            expect(member["ready"], "%s is %s, not ready: %s" % (name, member["state"], self.tail(name)))

    def tail(self, member):
        with contextlib.suppress(OSError), open("%s/logs/%s" % (self.folder, member), errors="replace") as file:
            return "".join(file.readlines()[-12:])
        return ""

    def address(self, member):
        return self.coordinator.rsplit(":", 1)[0] if member == "coordinator" else \
            {m["name"]: m["address"] for m in self.status()}[member]

    def within(self, member="coordinator"):
        """The words that run a command where that member lives."""
        if self.via != "netns":
            return []
        return ["ip", "netns", "exec", "millrace-%s-%s" % (self.name, "sw" if member == "coordinator" else member)]

    def command(self, *words):
        return [*self.within(), os.path.join(self.lab.bin, "millrace"), words[0], "--coordinator", self.coordinator,
                "--key", os.path.join(self.folder, "key"), *words[1:]]

    def client(self, *words, code=0, timeout=20):
        """Another command of the client; what it printed, taken apart."""
        done = subprocess.run(self.command(*words, "--json"), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=self.lab.limit(timeout))
        expect(done.returncode == code, words, "ended with", done.returncode, done.stderr.decode(errors="replace"))
        return strict_json(done.stdout) if done.stdout else None

    def start(self, *words):
        return Job(self, [str(word) for word in words])

    def job(self, *words, code=0, timeout=60):
        return self.start(*words).finish(code, timeout)

    def fail(self, *words, code, says, not_left=None):
        """A job that must fail with an error that has these words, and leave nothing in the place of its output."""
        report = self.job(*words, code=code)
        for word in says:
            expect(word in report["error"], "the error does not say %r: %s" % (word, report["error"]))
        if not_left:
            self.expect_no_output(not_left)
        return report

    def expect_no_output(self, folder):
        parent, base = os.path.split(folder)
        left = [name for name in os.listdir(parent) if base in name]
        with contextlib.suppress(OSError):
            left += os.listdir(folder)
        expect(not left, "left behind:", left)

    def settle(self, words, probe, seconds=3.0):
        """Waits until probe() gives None, at most that long."""
        deadline = time.monotonic() + self.lab.limit(seconds)
        while True:
            reason = probe()
            if reason is None:
                return
            expect(time.monotonic() < deadline, "%s, %g s later still: %s" % (words, self.lab.limit(seconds), reason))
            time.sleep(0.02)


AS_USER = """#!/bin/sh
[ "$1" = node ] || exec "{bin}/millraced" "$@"
copy="{folder}/key-$3"
left=$#
for word; do # the last two are --key and its path: the copy takes their place
    shift
    [ $left -le 2 ] || set -- "$@" "$word"
    left=$((left - 1))
done
install -o {uid} -m 0600 "$word" "$copy" || exit 1
exec {prefix} setpriv --reuid {uid} --regid 65534 --clear-groups "{bin}/millraced" "$@" --key "$copy"
"""


def as_user(lab, name, uid, *prefix):
    """A folder of programs whose nodes become another user, who gets a copy of the key: only its owner may read one."""
    folder = lab.path(name)
    os.makedirs(folder, exist_ok=True)
    os.symlink(lab.bin + "/millrace", folder + "/millrace")
    with open(folder + "/millraced", "w") as file:
        file.write(AS_USER.format(bin=lab.bin, folder=folder, uid=uid, prefix=" ".join(prefix)))
    os.chmod(folder + "/millraced", 0o755)
    return folder


# The lab -------------------------------------------------------------------------------------------------------------

def netns_possible():
    return os.getuid() == 0 and shutil.which("ip") is not None and \
        subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode == 0


class Lab:
    def __init__(self, bin, only=(), patience=1, prefix=None):
        self.bin = os.path.abspath(bin)
        self.only, self.patience = only, patience
        self.root = netns_possible()
        self.via = "netns" if self.root else "loopback"
        self.prefix = prefix or "test%d" % os.getpid()
        self.work = tempfile.mkdtemp(prefix="millrace-%s-" % self.prefix)
        os.chmod(self.work, 0o755)
        self.clusters, self.clients, self.closers = set(), set(), []
        self.number, self.kept = 0, {}
        self.passed = self.failed = self.skipped = 0
        # Sanitizers write where we look at the end, whatever becomes of the daemons' logs.
        self.sanitizer = os.path.join(self.work, "sanitizer")
        os.mkdir(self.sanitizer, 0o777)
        os.chmod(self.sanitizer, 0o777)
        for name in ("ASAN", "UBSAN", "TSAN"):
            options = os.environ.get(name + "_OPTIONS", "")
            os.environ[name + "_OPTIONS"] = "%s:log_path=%s/%s" % (options, self.sanitizer, name.lower())
        os.environ["TSAN_OPTIONS"] += ":suppressions=%s/tests/cluster/tsan.supp" % ROOT
        atexit.register(self.close)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, frame: sys.exit(128 + number))

    def limit(self, seconds):
        return hang_limit(seconds, self.patience)

    def path(self, *words):
        return os.path.join(self.work, *words)

    def fresh(self, name):
        """A path at which nothing is."""
        self.number += 1
        return self.path("%s-%d" % (name, self.number))

    def close(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for process in list(self.clients):
            process.kill()
            process.wait()
        for cluster in list(self.clusters):
            with contextlib.suppress(Exception):
                cluster.down()
        for closer in reversed(self.closers):
            with contextlib.suppress(Exception):
                closer()
        shutil.rmtree(self.work, ignore_errors=True)

    def note(self, words):
        """Something measured, told beside the case's result."""
        self.notes.append(words)

    def wanted(self, words):
        return not self.only or any(fnmatch.fnmatch(words, "*%s*" % pattern) for pattern in self.only)

    def skip(self, words, reason):
        if self.wanted(words):
            self.skipped += 1
            print("skipped: %s: %s" % (words, reason), flush=True)

    def case(self, words, function, *arguments, cluster=None):
        """Runs one case; a failure is told and counted, and its cluster mended for those that follow."""
        if not self.wanted(words):
            return
        begin, self.notes = time.monotonic(), []
        try:
            function(*arguments)
            if cluster:
                cluster.expect_ready()
            self.expect_no_findings()
        except Exception as error:  # whatever it is, the other cases go on
            self.failed += 1
            print("FAILED: %s (%.1f s)" % (words, time.monotonic() - begin))
            print("  %s" % error if isinstance(error, Wrong) else traceback.format_exc(), flush=True)
            if isinstance(error, Wrong):
                for line in traceback.extract_tb(error.__traceback__)[1:-1]:
                    print("    at %s:%d %s" % (os.path.basename(line.filename), line.lineno, line.line))
            if cluster:
                self.mend(cluster)
        else:
            self.passed += 1
            print("ok: %s (%.1f s)%s" % (words, time.monotonic() - begin, "".join("; " + note for note in self.notes)),
                  flush=True)

    def mend(self, cluster):
        for member in cluster.members():
            print("  log of %s:\n    %s" % (member, cluster.tail(member).replace("\n", "\n    ")))
        sys.stdout.flush()
        with contextlib.suppress(Exception):
            cluster.down()
        try:
            cluster.up()
        except Exception as error:
            print("  the cluster does not start again: %s" % error, flush=True)

    def expect_no_findings(self):
        found = []
        for name in os.listdir(self.sanitizer):
            path = os.path.join(self.sanitizer, name)
            with open(path, errors="replace") as file:
                found.append(file.read())
            os.unlink(path)
        expect(not found, "sanitizers have something to say, %d times:\n%s" % (len(found), "".join(found)[:6000]))

    def group(self, name, words, cases, **options):
        """Cases, each (words, function, arguments...), that share a cluster, which is their functions' first argument.
        When it does not start or does not end, that is a failed case."""
        cases = [("%s: %s" % (words, case[0]), *case[1:]) for case in cases]
        if not any(self.wanted(case[0]) for case in cases):
            return
        cluster = Cluster(self, name, **options)
        try:
            cluster.up()
        except Exception as error:
            self.failed += 1
            print("FAILED: %s: the cluster does not start\n  %s" % (words, error), flush=True)
            return
        for case in cases:
            self.case(case[0], case[1], cluster, *case[2:], cluster=cluster)
        self.only, only = (), self.only
        self.case(words + ": the cluster ends and leaves nothing", self.end, cluster)
        self.only = only

    def end(self, cluster):
        pids = [cluster.pid(member) for member in cluster.members()]
        cluster.down()
        expect(not os.path.exists(cluster.folder), cluster.folder, "is still there")
        for pid in pids:
            expect(not os.path.exists("/proc/%d" % pid) or "millraced" not in open("/proc/%d/cmdline" % pid).read(),
                   "process", pid, "still runs")

    def finish(self):
        counts = os.environ.get("MILLRACE_TEST_COUNTS")
        if counts:
            with open(counts, "a") as file:
                file.write("%d %d %d\n" % (self.passed, self.failed, self.skipped))
        print("%d passed, %d failed, %d skipped" % (self.passed, self.failed, self.skipped), flush=True)
        return 1 if self.failed or not self.passed else 0
