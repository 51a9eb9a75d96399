#!/usr/bin/env python3
"""Proves a cluster from outside: answers against sqlite3, bad input, faults, limits. See --help."""
import argparse
import os
import sys

import cases_answers as answers
import cases_input as bad_input
import cases_types as types
from lab import ROOT, Lab


def answer_groups(lab, full):
    asked = answers.questions(lab)
    shapes = [(nodes, workers) for nodes in (1, 2, 3, 6) for workers in (1, 2)]
    for i, (nodes, workers) in enumerate(shapes):
        via = "loopback" if nodes == 2 else lab.via
        profiles = answers.PROFILES if full else [answers.PROFILES[i % 4], answers.TIGHT]
        cases = [("whole outputs are sqlite's", answers.whole_outputs, asked),
                 ("both engines, all sizes: one answer", answers.battery, asked, profiles)]
        if (nodes, workers) in ((3, 2), (6, 1)):
            cases.append(("4 KiB socket buffers, one frame per lane", answers.two_passes_of_tight_lanes))
        if (nodes, workers) == (3, 1) or full:
            cases.append(("generated rows", answers.generated_rows))
            cases.append(("one key, m times n", answers.square_of_one_key, 4096))
        if (nodes, workers) == (6, 1):
            real = answers.RealQuestion(lab)
            cases.append(("the package index", lambda cluster: real.compare_all(cluster)))
        lab.group("a%d" % i, "%d x %d via %s" % (nodes, workers, via), cases,
                  nodes=nodes, workers=workers, via=via)


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


GROUPS = [answer_groups, type_groups, input_groups]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=os.environ.get("MILLRACE_BIN", os.path.join(ROOT, "build/release/bin")))
    parser.add_argument("--full", action="store_true", help="everything, in minutes to an hour")
    parser.add_argument("--patience", type=float, default=1, help="factor for all time limits (sanitizers)")
    parser.add_argument("only", nargs="*", help="patterns of cases")
    arguments = parser.parse_args()
    lab = Lab(arguments.bin, arguments.only, arguments.patience)
    for group in GROUPS:
        group(lab, arguments.full)
    return lab.finish()


if __name__ == "__main__":
    sys.exit(main())
