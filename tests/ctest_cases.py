"""Reads ctest's JUnit file: prints the output of each test that failed, then "PASSED FAILED SKIPPED" in cmocka's cases.

A cmocka program prints its own sums; one that crashed or ran out of time did not, and counts as one failure. A program
that is no cmocka program counts as one test.
"""

import re
import sys
import xml.etree.ElementTree

CMOCKA_SUM = re.compile(r"^\[\s*(PASSED|FAILED|SKIPPED)\s*\] (\d+) test\(s\)", re.MULTILINE)


def cases(test):
    sums = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for kind, number in CMOCKA_SUM.findall(test.findtext("system-out") or ""):
        sums[kind] += int(number)
    status = test.get("status")
    if status == "fail" and sums["FAILED"] == 0:
        sums["FAILED"] = 1
    elif status == "run" and sum(sums.values()) == 0:
        sums["PASSED"] = 1
    elif status in ("notrun", "disabled"):
        # A program that was never built is a failure; one that says it cannot run here is skipped.
        skipped = test.find("skipped")
        reason = skipped.get("message", "") if skipped is not None else ""
        sums["SKIPPED" if "SKIP_" in reason or status == "disabled" else "FAILED"] += 1
    return sums


def main():
    totals = {"PASSED": 0, "FAILED": 0, "SKIPPED": 0}
    for test in xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"):
        sums = cases(test)
        for kind, number in sums.items():
            totals[kind] += number
        if sums["FAILED"]:
            failure = test.find("failure")
            reason = failure.get("message", "") if failure is not None else ""
            print(f"--- {test.get('name')} failed {reason}")
            print("\n".join((test.findtext("system-out") or "").splitlines()[-60:]))
    print(totals["PASSED"], totals["FAILED"], totals["SKIPPED"])


main()
