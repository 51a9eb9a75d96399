# shellcheck shell=bash
# What a suite in tests/suites/ may call. A suite runs in the project's root with `set -euo pipefail`; all it prints goes
# to its log. Each test is counted by one of check, skip, count or run_ctest; a suite that ends badly without having
# counted a failure counts as one.

# count PASSED FAILED SKIPPED
count()
{
    echo "$1 $2 $3" >>"$MILLRACE_TEST_COUNTS"
}

# check WORDS COMMAND...: one test, passed when the command succeeds. Succeeds either way, so that the suite goes on.
check()
{
    local words=$1 status=0
    shift
    "$@" || status=$?
    if [ "$status" -eq 0 ]; then
        echo "ok: $words"
        count 1 0 0
    else
        echo "FAILED ($status): $words"
        count 0 1 0
    fi
}

# expect STATUS COMMAND...: succeeds when the command ends with that exit code, else says with which.
expect()
{
    local wanted=$1 status=0
    shift
    "$@" || status=$?
    [ "$status" -eq "$wanted" ] || {
        echo "exit code $status, not $wanted: $*"
        return 1
    }
}

# How long an `up` waits for its nodes: the default is for people.
# shellcheck disable=SC2034 # used by suites
UP_SECONDS=300

# await COMMAND...: waits until the command succeeds. Its limit is for what hangs: no machine is that slow.
await()
{
    local tries
    for tries in {1..3000}; do
        ! "$@" || return 0
        sleep 0.05
    done
    echo "still not so after $tries looks: $*"
    return 1
}

# gone PID: whether the process has ended. One that nobody reaps counts as gone.
gone()
{
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    [[ ${stat##*) } == [ZX]* ]]
}

# skip WORDS: one test that cannot run here, and why.
skip()
{
    echo "skipped: $1"
    count 0 0 1
}

# build PRESET [TARGET...]: configures and builds into build/PRESET; suites of other lanes that want it, too, wait.
build()
{
    local preset=$1 lock
    shift
    exec {lock}>"build/test-logs/build-$preset.lock"
    flock "$lock"
    cmake --preset "$preset" >"build/test-logs/configure-$preset.log" 2>&1 || {
        cat "build/test-logs/configure-$preset.log"
        return 1
    }
    cmake --build --preset "$preset" -j "$(nproc)" ${1:+--target "$@"} {lock}>&-
    exec {lock}>&-
}

# find_python MODULES: prints the first that has the modules (words joined by commas). The system's comes first: the
# package python3-xxhash is for that one.
find_python()
{
    local python
    for python in /usr/bin/python3 python3; do
        ! "$python" -c "import $1" || break
    done
    echo "$python"
}

# run_ctest PRESET [CTEST OPTIONS...]: runs the preset's tests and counts their cases.
run_ctest()
{
    local preset=$1 prefix=() status=0
    shift
    local junit="$PWD/build/test-logs/ctest-$preset.xml"
    # The thread sanitizer's shadow memory wants its fixed place: no address randomisation, where that is allowed.
    if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then
        prefix=(setarch -R)
    fi
    rm -f "$junit"
    "${prefix[@]}" ctest --test-dir "build/$preset" -j "$(nproc)" --no-tests=error --output-junit "$junit" \
        --test-output-size-passed 4194304 --test-output-size-failed 4194304 "$@" || status=$?
    if [ ! -f "$junit" ]; then
        echo "ctest ended with status $status and wrote no results"
        return 1
    fi
    python3 tests/ctest_cases.py "$junit" >"$junit.counts"
    # The failures' words come to the end of the log, which is what tests/run shows.
    sed '$d' "$junit.counts"
    tail -n 1 "$junit.counts" >>"$MILLRACE_TEST_COUNTS"
}
