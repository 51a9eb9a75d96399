# shellcheck shell=bash disable=SC2154
# What the suites about other hosts share, on top of lab.bash. Set before: LAB, WORK, MILLRACE_BIN.

# cluster VERB WORDS...: deploy/cluster for cluster LAB, from outside of the hosts.
cluster()
{
    local verb=$1
    shift
    [ "$verb" != up ] || set -- --timeout "$UP_SECONDS" "$@"
    lab deploy/cluster "$verb" --name "$LAB" "$@"
}

# up_over_ssh HOSTS WORDS...
up_over_ssh()
{
    local hosts=$1
    shift
    cluster up --via ssh --hosts "$hosts" --ssh "$LAB_SSH" --memory 256Mi --workers 1 "$@"
}

# status_is EXPRESSION: whether the Python expression over `members`, what status --json printed, holds.
status_is()
{
    cluster status --json >"$WORK/status.json" || true
    python3 - "$WORK/status.json" "$1" <<'PYTHON'
import json, sys
members = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}: {members}")
PYTHON
}

# member_pid MEMBER: its pid, by the last status that status_is saw.
member_pid()
{
    python3 -c '
import json, sys
print(*(m["pid"] for m in json.load(sys.stdin) if m["name"] == sys.argv[1]))' "$1" <"$WORK/status.json"
}

no_processes()
{
    [ -z "$(lab_processes)" ]
}

# nothing_left: no process but sshd on any host, no file in any host's folder, no record here.
nothing_left()
{
    local left
    await no_processes || true # what an sshd started may still be ending
    left=$(lab_processes)
    left+=$(find "$WORK/hosts" -mindepth 2 2>/dev/null)
    left+=$(find "${XDG_RUNTIME_DIR:-/run}/millrace" /run/millrace -maxdepth 1 -name "$LAB" 2>/dev/null)
    [ -z "$left" ] || {
        echo "left behind: $left"
        return 1
    }
}

# fails_saying STATUS WORDS COMMAND...: it ends with STATUS, and what it says has WORDS in it.
fails_saying()
{
    local status=$1 words=$2
    shift 2
    expect "$status" "$@" >"$WORK/said" 2>&1 && grep -qF -e "$words" "$WORK/said" || {
        echo "not said: $words; but:"
        cat "$WORK/said"
        return 1
    }
}
