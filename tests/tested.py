#!/usr/bin/env python3
"""tested.py BUILD, in the root of the sources: which test a source has. tested.py BUILD SOURCE...: prints them.

A source's test is test_NAME.c in the folder that mirrors its own; or the programs that call one of its functions; or,
for parts of a module that is tested as a whole, the one that THROUGH names. Exits with 1 when a source has none, or a
line of THROUGH is of no use."""

import fnmatch
import os
import sys

import objects

# Sources (as fnmatch has them): the test that drives them.
THROUGH = {
    "cluster/bisect/cut.c": "tests/cluster/bisect/test_plan.c",
    "cluster/client/bisect.c": "tests/suites/bisect.bash",
    "cluster/completions.c": "tests/cluster/options/test_completion.c",
    "cluster/coordinator/check.c": "tests/cluster/coordinator/test_coordinator.c",
    "cluster/crew/bisect.c": "tests/cluster/node/test_job.c",
    "cluster/doctor/*.c": "tests/cluster/doctor/test_run.c",
    "cluster/millrace*.c": "tests/cluster/acceptance.py",
    "cluster/node/[nprs]*.c": "tests/cluster/test_daemons.c",
    "cluster/options/key_option.c": "tests/cluster/options/test_args.c",
    "cluster/protocol/codec_*.c": "tests/cluster/protocol/test_codec.c",
    "cluster/report/bisect_verdict.c": "tests/cluster/report/test_bisect_summary.c",
    "cluster/report/json_out.c": "tests/cluster/report/test_report.c",
    "cluster/shell/*.c": "tests/cluster/test_daemons.c",
    "join/task_open.c": "tests/sim/test_join.c",
    "join/unmatched_sink.c": "tests/sim/test_join.c",
    "net/engine/*.c": "tests/net/conformance.c",
    "net/epoll/*.c": "tests/net/conformance.c",
    "net/probe/*.c": "tests/net/probe/test_probe.c",
    "net/sim/socket.c": "tests/net/conformance.c",
    "net/socket/*.c": "tests/net/conformance.c",
    "net/uring/*.c": "tests/net/conformance.c",
    "shuffle/csv/*.c": "tests/shuffle/scan/test_csv.c",
    "shuffle/frames/inlet*.c": "tests/shuffle/mesh/test_receive.c",
    "shuffle/mesh/connection.c": "tests/shuffle/mesh/test_connect.c",
    "shuffle/output/*.c": "tests/shuffle/output/test_output.c",
    "shuffle/rows/value_time.c": "tests/shuffle/rows/test_value.c",
    "shuffle/scan/reader.c": "tests/shuffle/scan/test_csv.c",
    "shuffle/source/*.c": "tests/shuffle/source/test_relation.c",
    "shuffle/worker/*.c": "tests/sim/test_join.c",
}
FLOORS = ("base", "net", "shuffle", "join", "cluster")


def tests_of(build):
    """{source: its tests}, and the lines of THROUGH that were of use."""
    defines, callers = {}, {}
    for source, path in objects.built(build):
        floor = source.split("/")[0]
        for name, letter in objects.symbols(path) if floor in (*FLOORS, "tests") else ():
            if floor != "tests" and letter != "U":
                defines.setdefault(source, set()).add(name)
            elif floor == "tests" and letter == "U":
                callers.setdefault(name, set()).add(source)
    tests, useful = {}, set()
    for source, names in defines.items():
        folder, name = os.path.split(source)
        own = f"tests/{folder}/test_{name}"
        found = [own] if os.path.exists(own) else sorted(set().union(*(callers.get(n, set()) for n in names)))
        if not found:
            patterns = [pattern for pattern in THROUGH if fnmatch.fnmatch(source, pattern)]
            useful.update(patterns)
            found = [THROUGH[pattern] for pattern in patterns]
        tests[source] = found
    return tests, useful


def main():
    tests, useful = tests_of(sys.argv[1])
    if len(sys.argv) > 2:
        for source in sys.argv[2:]:
            print(f"{source}: {', '.join(tests.get(source, [])) or 'none'}")
        return
    faults = [f"{source} has no test: tests/.../test_{os.path.basename(source)}" for source in sorted(tests) if not tests[source]]
    faults += [f"tests/tested.py: {pattern} is of no use" for pattern in THROUGH if pattern not in useful]
    faults += [f"tests/tested.py: there is no {test}" for test in set(THROUGH.values()) if not os.path.exists(test)]
    if len(tests) < 150:
        faults.append(f"only {len(tests)} sources have objects: has the whole tree been built?")
    print("\n".join([*faults, f"{len(tests)} sources: {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


main()
