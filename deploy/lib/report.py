"""Prints what the quick start says about its join from the client's report, one JSON object on standard input."""
import json
import sys


def main():
    report = json.load(sys.stdin)
    names = [node["name"] for node in report["nodes"]]

    print(f"  rows       {report['rows']:,}")
    print(f"  checksum   {report['checksum']}")
    print(f"  seconds    {report['seconds']:.3f}")
    print(f"  limit      {report['limit']}: {report['limit_reason']}")
    print("  bytes per link, from the row's node to the column's:")
    print(" " * 9 + "".join(f"{name:>12}" for name in names))
    for row, (source, counts) in enumerate(zip(names, report["links"])):
        cells = ("-" if row == column else f"{count:,}" for column, count in enumerate(counts))
        print(f"  {source:<7}" + "".join(f"{cell:>12}" for cell in cells))


main()
