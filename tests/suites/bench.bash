# shellcheck shell=bash
# about: every measurement runs, small, and prints what its readers count on; no number is judged
# groups: default full
# limit: 900
# lane: alone
build release millrace millraced bench_micro bench_join_kernel
export MILLRACE_BIN=$PWD/build/release/bin
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# prints KEYS FILE: the file is a strict JSON array of objects that have all these keys (words joined by commas).
prints()
{
    python3 - "$1" "$2" <<'PYTHON'
import json, sys
def no(word):
    raise ValueError(word)
results = json.load(open(sys.argv[2]), parse_constant=no)
assert results, "no result"
for one in results:
    missing = set(sys.argv[1].split(",")) - set(one)
    assert not missing, missing
PYTHON
}

ladder()
{
    bench/ladder --repeat 1 --gib 0.01 --row-bytes 64 --json --svg "$WORK/ladder.svg" >"$WORK/ladder.json"
    prints rung,engine,features,nodes,row_bytes,inserts,gib_per_second,best_gib_per_second,cpu_user_s_per_gib,cpu_system_s_per_gib,enters_per_gib,cqes_per_gib,context_switches_per_gib,zc_copied_per_gib,vs_epoll,iperf3_gib_per_second "$WORK/ladder.json"
    grep -q uring-multishot "$WORK/ladder.svg"
    # Socket traffic starts no worker threads in the kernel, on any rung.
    python3 -c 'import json, sys; sys.exit(any(one["iowq_workers"] for one in json.load(open(sys.argv[1]))))' "$WORK/ladder.json"
}

shuffle()
{
    bench/shuffle --nodes 2 --repeat 1 --gib 0.01 --row-bytes 64 --json >"$WORK/shuffle.json"
    prints nodes,row_bytes,engine,gib_per_second,rows_per_second,iperf3_gib_per_second "$WORK/shuffle.json"
}

latency()
{
    bench/latency --nodes 2 --repeat 2 --json | python3 -c 'import json, sys; assert json.load(sys.stdin)["median_ms"] > 0'
}

join_kernel()
{
    bench/../build/release/bin/bench_join_kernel --keys 10000 --row-bytes 16 --repeat 1 --json |
        python3 -c 'import json, sys; json.load(sys.stdin)'
}

# A build beside itself: figures of both, and a ratio of each; with a limit that no noise meets nothing is worse.
compares()
{
    bench/compare build/release/bin "$PWD" --parts latency --repeat 2 --limit 99 --extra "--nodes 2 --repeat 2" --json \
        >"$WORK/compare.json"
    prints part,name,figure,old,new,ratio "$WORK/compare.json"
}

# What is worse is found: stand-in results in the place of measured ones.
compares_rightly()
{
    python3 - <<'PYTHON'
import importlib.machinery, importlib.util
loader = importlib.machinery.SourceFileLoader("compare", "bench/compare")
spec = importlib.util.spec_from_loader("compare", loader)
compare = importlib.util.module_from_spec(spec)
loader.exec_module(compare)
def runs(*values):
    return [{"2": {"median_ms": value, "job_median_ms": 1}} for value in values]
rows = compare.compare("latency", [runs(10, 30, 20), runs(25, 40, 10)])
assert rows[0][:4] == ("2", "median_ms", 20, 25) and abs(rows[0][4] - 0.8) < 1e-9, rows
assert rows[1][4] == 1, rows
PYTHON
}

expect_nothing()
{
    ! bench/compare nonsense build/release/bin 2>"$WORK/refused" && grep -q "nonsense is no folder" "$WORK/refused" &&
        expect 2 bench/compare build/release/bin build/release/bin --parts warp
}

refuses()
{
    ! bench/ladder --rungs warp --repeat 1 --gib 0.01 2>"$WORK/refused"
    grep -q 'there is no engine "warp"' "$WORK/refused"
    local words status
    for words in "ladder --nodes 0" "ladder --gib -1" "shuffle --row-bytes 64,0" "shuffle --repeat x" "latency --rows -5"; do
        # shellcheck disable=SC2086 # words
        bench/$words 2>"$WORK/refused" && return 1
        status=$?
        [ $status -eq 2 ] && grep -q "is not a number" "$WORK/refused" || return 1
    done
}

check "the ladder" ladder
check "an unknown rung and numbers that are none are named" refuses
check "the shuffle" shuffle
check "the latency" latency
check "the join kernel" join_kernel
check "two builds beside each other" compares
check "a build that is worse is found" compares_rightly
check "a build that is none is named" expect_nothing
