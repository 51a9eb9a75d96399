"""Logs of a cluster's members in one stream, each line after its member's name."""
import collections
import heapq
import os
import re
import sys
import threading

from shown import shown

TIME = re.compile(r"^\S+ (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ")


def tagged(line, width):
    """The line for people. It came as "MEMBER TEXT"."""
    member, _, text = line.partition(" ")
    return shown(f"{member:<{width}} | {text}")


def _timed(lines):
    """(time, line) of lines in order; one without a time belongs to the one before it."""
    now = ""
    for line in lines:
        match = TIME.match(line)
        now = match[1] if match else now
        yield now, line


def merge(streams):
    """All lines of several lists of "MEMBER TEXT" lines, each in order, by their times."""
    return (line for _, line in heapq.merge(*(_timed(lines) for lines in streams), key=lambda entry: entry[0]))


def follow(agents, width):
    """Prints what the agents (Popen) write until all end. Ctrl-C ends them."""
    lock = threading.Lock()

    def copy(agent):
        for line in agent.stdout:
            with lock:
                sys.stdout.write(tagged(line.decode(errors="replace"), width))
                sys.stdout.flush()

    threads = [threading.Thread(target=copy, args=(agent,), daemon=True) for agent in agents]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        for agent in agents:
            agent.stdin.close()
        for agent in agents:
            agent.wait()


def main():
    """watch.py LINES FOLDER MEMBER...: the logs of a cluster on this machine."""
    lines, folder, *members = sys.argv[1:]
    streams = []
    for member in members:
        with open(os.path.join(folder, member), encoding="utf-8", errors="replace") as file:
            streams.append([f"{member} {line}" for line in collections.deque(file, int(lines))])
    try:
        sys.stdout.writelines(tagged(line, max(map(len, members))) for line in merge(streams))
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    main()
