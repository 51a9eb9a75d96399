#!/usr/bin/env python3
"""Proves a cluster from outside: answers against sqlite3, bad input, faults, limits. See --help."""
import argparse
import os
import sys

import cases_answers as answers
import cases_engine as engine
import cases_faults as faults
import cases_input as bad_input
import cases_joins as joins
import cases_key as key
import cases_limits as limits
import cases_types as types
from lab import ROOT, Lab


def answer_groups(lab, full):
    asked = answers.questions(lab)
    shapes = [(nodes, workers) for nodes in (1, 2, 3, 6) for workers in (1, 2)]
    for i, (nodes, workers) in enumerate(shapes):
        via = "loopback" if nodes == 2 else lab.via
        profiles = list(answers.every_profile()) if full else [answers.PROFILES[i % 4], answers.TIGHT]
        cases = [("whole outputs are sqlite's", answers.whole_outputs, asked),
                 ("both engines, all sizes: one answer", answers.battery, asked, profiles)]
        if full or (nodes, workers) in ((3, 2), (6, 1)):
            cases.append(("small socket buffers, one frame per lane", answers.two_passes_of_tight_lanes))
        if full or (nodes, workers) == (3, 1):
            cases += [("generated rows", answers.generated_rows),
                      ("one key, 4,096 x 4,096", answers.square_of_one_key, 4096)]
        if full and (nodes, workers) == (3, 1):
            cases.append(("one key, 65,536 x 65,536", answers.square_of_one_key, 65536, 900))
        if full or (nodes, workers) == (6, 1):
            cases.append(("the package index", answers.real_tables_joined))
        lab.group("a%d" % i, "%d x %d via %s" % (nodes, workers, via), cases, nodes=nodes, workers=workers, via=via)


def join_groups(lab, full):
    """Every type of join, by the same questions in several shapes."""
    asked = joins.questions(lab)
    shapes = [(nodes, workers) for nodes in (1, 2, 3, 6) for workers in (1, 2, 3)] if full else [(1, 1), (3, 2), (6, 1)]
    for i, (nodes, workers) in enumerate(shapes):
        cases = [("every type is sqlite's, " + engine, joins.battery, asked[start::1 if full else 2], engine,
                  answers.PROFILES[(i + start) % 4] if not full else [])
                 for start, engine in enumerate(answers.ENGINES)]
        if full or (nodes, workers) == (3, 2):
            cases += [("whole outputs of every type", joins.whole_outputs, asked[i % 5::5]),
                      ("the output's schema", joins.schemas), ("fixed-width output", joins.fixed_output),
                      ("0 to 10 rows, NULL keys", joins.few_rows)]
        if full or (nodes, workers) == (6, 1):
            cases += [("one key in all rows", joins.one_key)]
        lab.group("j%d" % i, "joins %d x %d" % (nodes, workers), cases, nodes=nodes, workers=workers)
    if lab.root:
        lab.group("notin", "joins", [("NOT IN and a NULL on one node only", joins.null_on_one_node)], nodes=3,
                  bin=limits.shards_bin(lab))
    else:
        lab.skip("joins: NOT IN and a NULL on one node only", "mounts need root")


def type_groups(lab, full):
    lab.group("types", "types", [
        ("integers", types.integers), ("decimals", types.decimals), ("floats", types.floats),
        ("bits of NaN and -0.0", types.float_bits), ("dates and timestamps", types.times),
        ("bool, binary, string", types.others), ("pairs that cannot be compared", types.unequal_types),
    ], nodes=3)


def input_groups(lab, full):
    lab.group("input", "bad input", bad_input.CASES, nodes=3)
    if lab.root:
        lab.group("disk", "bad input", [("a full disk", bad_input.full_disk)], nodes=2, via="loopback")
    else:
        lab.skip("bad input: a full disk", "a small file system needs root")
    lab.group("nobody", "bad input", [("no permission", bad_input.unreadable)], nodes=2, via="loopback",
              bin=bad_input.as_nobody(lab) if lab.root else None)


def fault_groups(lab, full):
    kinds = list(faults.ENDLESS)
    for via in dict.fromkeys([lab.via, "loopback"]):
        killed = [("a node killed, %s, %s" % (kind, engine), faults.node_killed, kind, engine)
                  for i, kind in enumerate(kinds) for j, engine in enumerate(answers.ENGINES)
                  if full or (via == lab.via and (i + j) % 2 == 0) or (i, j) == (1, 0)]
        stopped = [("a node stopped, " + kind, faults.node_stopped, kind) for kind in kinds
                   if full or (via == lab.via and kind in ("output", "probe"))]
        interrupted = [("Ctrl-C, " + kind, faults.client_interrupted, kind, faults.signal.SIGINT) for kind in kinds
                       if full or via == lab.via]
        cases = killed + stopped + interrupted + [
            ("a node killed at any time", faults.node_killed_at_any_time, 60 if full else 6, 1),
            ("the coordinator killed", faults.coordinator_killed),
            ("strangers at every port", faults.strangers, 20 if full else 2, 1)]
        if full or via == lab.via:
            cases += [("an idle node stopped", faults.idle_node_stopped), ("a client killed", faults.client_killed),
                      ("jobs in a queue", faults.jobs_queue)]
        if via == "netns":
            cases += [("a connection refused", faults.connection_refused), ("no path to a node", faults.path_unreachable),
                      ("a path that breaks", faults.path_broken), ("a link down", faults.link_down),
                      ("a path that breaks while a window is closed, uring", faults.path_broken_at_a_closed_window, "uring"),
                      ("a path that breaks while a window is closed, epoll", faults.path_broken_at_a_closed_window, "epoll"),
                      ("a flap when a job ends", faults.flap_at_the_end),
                      ("connections reset", faults.connections_reset)]
        lab.group("f-" + via, "faults via " + via, cases, nodes=3, via=via)


def limit_groups(lab, full):
    lab.group("memory", "memory", [("a table that does not fit", limits.memory_budget),
                                   ("buffers", limits.memory_of_buffers)], nodes=3, memory=limits.MEMORY)
    lab.group("wide", "wide", [("requests", limits.wide_requests)], nodes=2, memory=512 << 20)
    for via in dict.fromkeys([lab.via, "loopback"]):
        lab.group("beside-" + via, "two clusters via " + via, [("side by side", limits.side_by_side)], nodes=2, via=via)
    lab.group("many", "200 workers", [("on one machine", limits.many_workers)], nodes=5, workers=40, memory="2Gi")
    lab.group("shuffle", "shuffle", [("one part for a key", limits.partitions), ("fixed-width rows", limits.fixed_rows),
                                     ("local: on a shared file system", limits.same_files_as_own)], nodes=3, workers=2)
    if lab.root:
        lab.group("local", "local", [("each node its own files", limits.own_files)], nodes=3,
                  bin=limits.shards_bin(lab))
    else:
        lab.skip("local: each node its own files", "mounts need root")


def engine_groups(lab, full):
    lab.group("seccomp", "io_uring forbidden", [
        ("epoll, and why", engine.falls_back, ["io_uring_setup is not permitted (EPERM)", "seccomp"])],
        nodes=3, bin=engine.without_uring(lab))
    if lab.root:
        lab.group("memlock", "64 KiB of locked memory", [
            ("right answers, or why not", engine.goes_on, ["locked memory", "ulimit -l"])],
            nodes=2, workers=4, bin=engine.without_locked_memory(lab))
    else:
        lab.skip("64 KiB of locked memory: epoll, and why", "a user of its own needs root")
    lab.group("idle", "idle", [("six nodes after a job, " + word, engine.idle, word) for word in answers.ENGINES],
              nodes=engine.IDLE_NODES)


def key_groups(lab, full):
    for words, function, *arguments in [
            ("with the key, another and none", key.a_key_lets_in), ("nodes that have another or none", key.wrong_nodes),
            ("a key where none is", key.a_key_where_none_is), ("files that are no keys", key.key_files),
            ("strangers at idle workers", key.strangers_at_idle_workers),
            ("a caller that drips", key.a_caller_that_drips), ("a flood of refusals", key.a_flood_of_refusals),
            ("a crowd at the door", key.crowd_at_the_door, 1500, 20 if full else 4),
            ("garbage at every port", key.garbage_at_every_port, 20 if full else 3, 7)]:
        lab.case("key: " + words, function, lab, *arguments)


GROUPS = [answer_groups, join_groups, type_groups, input_groups, fault_groups, limit_groups, engine_groups, key_groups]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.environ.get("MILLRACE_BIN", os.path.join(ROOT, "build/release/bin")))
    parser.add_argument("--full", action="store_true", help="everything, in minutes to an hour")
    parser.add_argument("--patience", type=int, default=1, help="factor for all time limits (sanitizers)")
    parser.add_argument("only", nargs="*", help="patterns of cases")
    arguments = parser.parse_args()
    lab = Lab(arguments.bin, arguments.only, arguments.patience)
    for group in GROUPS:
        group(lab, arguments.full)
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
