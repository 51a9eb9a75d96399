# shellcheck shell=bash
# What the checks of a guest share. Lines that begin with "report " carry JSON to the tests outside.

# shellcheck disable=SC2034 # used by the checks
BIN=/opt/millrace/bin
TABLES=(--left /tables/depends.csv --right /tables/packages.csv --on "dependency=package"
    --select "left.package,left.dependency,right.version" --verify)

# One key for all that runs in guests, also in several that are joined. deploy/cluster makes its own.
export MILLRACE_KEY=/run/key
[ -e "$MILLRACE_KEY" ] || (umask 077 && printf '%064d\n' 4711 >"$MILLRACE_KEY")

fail()
{
    echo "FAILED: $*"
    exit 1
}

# await SECONDS COMMAND...: until the command succeeds, which takes that long at most on a quiet machine.
await()
{
    local tries=$(($1 * 50))
    shift
    until "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || fail "not so in time: $*"
        sleep 0.1
    done
}

# report CODE COMMAND...: runs a client, whose one line of JSON is the report, and expects that exit code.
report()
{
    local wanted=$1 code=0 line
    shift
    line=$("$@" --json 2>/tmp/report.err) || code=$?
    echo "report $line"
    [ "$code" -eq "$wanted" ] || fail "exit code $code, not $wanted: $* ($(cat /tmp/report.err))"
}
