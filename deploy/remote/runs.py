"""Runs the client and keeps, in a folder of the run, all that is needed to understand it later:

    run.json      command, cluster, when, how long, exit code, version of every program
    output        what the client printed
    report.json   the report of a join or shuffle, and what else was printed with --json
    logs/MEMBER   what each member logged until then, 20,000 lines at most
    doctor/NODE.json  what `millrace doctor` says there
"""
import signal

if __name__ == "__main__":
    # Until the client is there a Ctrl-C ends us. As a KeyboardInterrupt within an import it could be swallowed.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import time

from transport import Failure, warn

REPORTED = ("join", "shuffle")
LOG_LINES_MAX = 20000  # of each member, in a record
RECORDS_MAX = 100  # of a cluster, among those without --folder


def make_folder(path):
    """A folder of that name, which must be new."""
    try:
        os.makedirs(path)
    except FileExistsError:
        raise Failure(2, f"--folder {path}: exists already") from None
    except OSError as error:
        raise Failure(1, f"--folder {path}: {error.strerror}") from None
    return os.path.abspath(path)


def default_folder(cluster):
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    stamp = time.strftime("%Y%m%dT%H%M%S")
    path = os.path.join(base, "millrace", "runs", f"{cluster}-{stamp}")
    extra = 1
    while os.path.exists(path if extra == 1 else f"{path}-{extra}"):
        extra += 1
    return path if extra == 1 else f"{path}-{extra}"


def forget_old(cluster):
    """Removes the oldest of the records that a cluster's runs made by themselves, so that RECORDS_MAX are left."""
    base = os.path.dirname(default_folder(cluster))
    named = re.compile(re.escape(cluster) + r"-\d{8}T\d{6}(-\d+)?")
    # By name they are in the order of their times, but for those of one second.
    records = sorted(name for name in (os.listdir(base) if os.path.isdir(base) else []) if named.fullmatch(name))
    for name in records[:-RECORDS_MAX]:
        if not os.path.islink(os.path.join(base, name)):
            shutil.rmtree(os.path.join(base, name), ignore_errors=True)


def _copy_end(source, target):
    """The last LOG_LINES_MAX lines."""
    with open(source, "rb") as log, open(target, "wb") as copy:
        copy.writelines(collections.deque(log, LOG_LINES_MAX))


def client(words, environment, output):
    """Runs the client; its output goes to ours and into the file. It gets our signals, also those that came before it
    was there; its exit code. A terminal's Ctrl-C comes from us, too: the client has a session of its own."""
    process, early = None, []

    def pass_on(number, _frame):
        if process:
            process.send_signal(number)
        else:
            early.append(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    with open(output, "wb") as file:
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, start_new_session=True)
        for number in early:
            process.send_signal(number)
        while chunk := process.stdout.read1(65536):
            file.write(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        code = process.wait()
    return code if code >= 0 else 128 - code


def _keep_json(output, path):
    try:
        with open(output, encoding="utf-8") as file:
            report = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    except ValueError:
        pass  # text for people


def record(folder, words, environment, about, collect):
    """Runs the client's words with a record in `folder`. `collect(folder)` adds logs and returns the versions."""
    folder = make_folder(folder)
    output = os.path.join(folder, "output")
    report_file = os.path.join(folder, "report.json")
    verb = next((at for at, word in enumerate(words) if word in REPORTED), None)
    if verb is not None and not any(word.split("=")[0] == "--report" for word in words):
        words = words[:verb + 1] + [f"--report={report_file}"] + words[verb + 1:]
    run = {**about, "command": words, "directory": os.getcwd(),
           "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    began = time.monotonic()
    code = client(words, environment, output)
    run["seconds"] = round(time.monotonic() - began, 3)
    run["exit_code"] = code
    if not os.path.exists(report_file):
        _keep_json(output, report_file)
    run["versions"] = collect(folder)
    with open(os.path.join(folder, "run.json"), "w", encoding="utf-8") as file:
        json.dump(run, file, indent=1)
        file.write("\n")
    warn(f"the record of this run is {folder}")
    return code


def collector(cluster):
    """What record() calls for a cluster on other hosts."""
    def collect(folder):
        os.makedirs(os.path.join(folder, "logs"))
        versions = {}

        def ask(host):
            members = [member for member, where in cluster.members() if where is host]
            log = cluster.transport.run(host, "log", LOG_LINES_MAX, *members, keeper=True)
            program = os.path.join(cluster.bin(host), "millrace")
            version = cluster.transport.run(host, "run", program, "--version", deadline=30)
            doctor = cluster.transport.run(host, "run", program, "doctor", "--json", deadline=30)
            return members, log, version, doctor

        for host, (members, log, version, doctor) in cluster.transport.each(cluster.hosts, ask).items():
            for member in members:
                with open(os.path.join(folder, "logs", member), "w", encoding="utf-8") as file:
                    file.writelines(line.partition(" ")[2] for line in log.out.splitlines(keepends=True)
                                    if line.startswith(f"{member} "))
            versions[host.name] = version.out.split()[1] if version.out.startswith("millrace ") else version.error
            if doctor.out:
                os.makedirs(os.path.join(folder, "doctor"), exist_ok=True)
                with open(os.path.join(folder, "doctor", f"{host.name}.json"), "w", encoding="utf-8") as file:
                    file.write(doctor.out)
        return versions
    return collect


def main():
    """runs.py FOLDER STATE BIN NAME VIA WORDS...: a run in a cluster on this machine."""
    folder, state, programs, name, via, *words = sys.argv[1:]

    def collect(path):
        os.mkdir(os.path.join(path, "logs"))
        for member in os.listdir(os.path.join(state, "logs")):
            if not member.endswith((".1", ".new")):
                _copy_end(os.path.join(state, "logs", member), os.path.join(path, "logs", member))
        program = os.path.join(programs, "millrace")
        told = subprocess.run([program, "doctor", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=False).stdout
        if told:
            os.makedirs(os.path.join(path, "doctor"))
            with open(os.path.join(path, "doctor", "here.json"), "wb") as file:
                file.write(told)
        return {"here": subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True,
                                       text=True).stdout.split()[1]}

    about = {"cluster": name, "via": via, "coordinator": os.environ["MILLRACE_COORDINATOR"]}
    try:
        return record(folder, words, os.environ, about, collect)
    except Failure as error:
        warn(str(error))
        return error.code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
