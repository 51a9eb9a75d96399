"""One measured exchange: generated rows, in memory before the clock starts, shuffled over a local cluster."""

import sys

import localcluster

ROWS_SMALL = 16_000_000  # per node, up to 128 bytes a row
GIB_LARGE = 1.0          # per node, above
KEPT = {"table": ["--into", "table"], "none": []}


def rows_per_node(row_bytes, nodes, gib=None):
    """Rows a node holds: as asked (GiB per node), unless relation and tables would not fit into this machine's memory."""
    if gib:
        rows = int(gib * 2**30) // row_bytes
    elif row_bytes <= 128:
        rows = ROWS_SMALL
    else:
        rows = int(GIB_LARGE * 2**30) // row_bytes
    # A row costs itself, its copy in a table, its entry and its share of the directory.
    fits = int(0.8 * localcluster.memory_available_bytes()) // nodes // (2 * row_bytes + 40)
    if fits < rows:
        print(f"note: {nodes} nodes of {rows} rows of {row_bytes} bytes do not fit into memory; using {fits} rows a node", file=sys.stderr)
    return min(rows, fits)


def measure(cluster, row_bytes, engine, rows, into="table"):
    """Shuffles rows (per node) of row_bytes with an engine, inserting them into hash tables, or ("none") only counting and
    checksumming them; returns figures per GiB. GiB/s is payload that crossed between nodes, each byte counted once, over the time from the first scan to the last end of
    stream."""
    report = cluster.job("shuffle", "--in", f"gen:rows={rows * cluster.nodes},row={row_bytes},keys=unique,seed=1,preload=1",
                         "--by", "key", *KEPT[into], "--engine", engine)
    if report["rows"] != rows * cluster.nodes:
        raise localcluster.Failed(f"{report['rows']} rows arrived of {rows * cluster.nodes}")
    gib = report["bytes_sent"] / 2**30
    cost = report["per_gib"]
    return {"gib_per_second": gib / report["exchange_seconds"],
            "rows_per_second": report["rows_scanned"] / report["exchange_seconds"],
            "cpu_user_s_per_gib": cost["cpu_user_s"],
            "cpu_system_s_per_gib": cost["cpu_system_s"],
            "enters_per_gib": cost["enters"],
            "syscalls_per_gib": cost["syscalls"],
            "cqes_per_gib": cost["completions"],
            "context_switches_per_gib": cost["context_switches"],
            "zc_copied_per_gib": cost["zc_copied"],
            "iowq_workers": report["iowq_workers"],
            "features": report["features"],
            "engine_reason": report["engine_reason"]}
