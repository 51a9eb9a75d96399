# shellcheck shell=bash disable=SC2034,SC2154
# What runs on a host of a cluster. deploy/cluster sends this text over ssh, behind lib/say.sh and lib/process.sh and
# before one call of agent_main, and nothing has to be installed there. Standard input is what follows the text: a file,
# a key, or nothing. Set before: FOLDER, this node's folder, relative to agent_root or absolute, with
#
#   bin/            millrace and millraced, as they were pushed
#   pids/MEMBER     pid files (lib/process.sh)
#   logs/MEMBER     what each member wrote
#   key             the cluster's key
#   coordinator/    the coordinator's state, on its host
#
# Whatever changes the folder locks it, so that a `down` waits for an `up` whose caller was killed.
set -euo pipefail

# agent_root: not XDG_RUNTIME_DIR, which ends with a user's last login, while the daemons go on. It has a folder per
# node, because homes may be shared.
agent_root()
{
    echo "${XDG_STATE_HOME:-${HOME:-/root}/.local/state}/millrace/remote"
}

agent_lock()
{
    while :; do
        (umask 077 && mkdir -p "$FOLDER") || fail 1 "cannot make the folder $FOLDER"
        [ -O "$FOLDER" ] || fail 1 "$FOLDER belongs to another user: remove it there"
        { exec {agent_lock_fd}<"$FOLDER"; } 2>/dev/null || continue # removed by a `down` in between
        flock --timeout 60 "$agent_lock_fd" ||
            fail 1 "$FOLDER is busy: another deploy/cluster has been at work for a minute"
        [ "$FOLDER" -ef "/proc/self/fd/$agent_lock_fd" ] && break
        exec {agent_lock_fd}<&-
    done
    chmod 0700 "$FOLDER"
    mkdir -p "$FOLDER/pids" "$FOLDER/logs" "$FOLDER/bin"
}

# agent_address NIC: the address at which others reach this host: of that interface, or the one ssh came in by.
agent_address()
{
    local found
    case $1 in
    '')
        read -r _ _ found _ <<<"${SSH_CONNECTION:-}"
        ;;
    *.* | *:*) found=$1 ;;
    *)
        command -v ip >/dev/null || fail 1 "nic=$1: the program ip (package iproute2) is missing here; give an address"
        found=$(ip -o addr show dev "$1" scope global 2>/dev/null | awk '{ print $3 " " $4 }' | sort |
            sed -n '1s/.* \(.*\)\/.*/\1/p')
        [ -n "$found" ] ||
            fail 1 "nic=$1: no such interface with an address; there are: $(ip -o addr show scope global |
                awk '{ print $2 " " $4 }' | sort -u | tr '\n' ',' | sed 's/,$//; s/,/, /g')"
        ;;
    esac
    echo "$found"
}

agent_sum()
{
    if [ -f "$1" ]; then
        sha256sum <"$1" | cut -d ' ' -f 1
    else
        echo missing
    fi
}

# take_key: the key's file from standard input, 64 digits and a line end.
take_key()
{
    (umask 077 && head -c 65 >"$FOLDER/key.new")
    [ "$(wc -c <"$FOLDER/key.new")" -eq 65 ] || fail 1 "the key did not arrive whole"
    mv "$FOLDER/key.new" "$FOLDER/key"
}

# agent_prepare NIC BIN PORT: takes the key, and says as key=value what `up` has to know before it starts anything.
# PORT, unless 0, is the coordinator's: nobody else may have it.
agent_prepare()
{
    local bin=${2:-$FOLDER/bin} owner
    agent_lock
    process_recall "$FOLDER/pids"
    process_read "$FOLDER/pids/coordinator"
    if [ "$3" -ne 0 ] && [ "$process_state" = dead ] && owner=$(port_owner "$3"); then
        fail 1 "port $3 is taken by $owner; --port gives the cluster another"
    fi
    take_key
    echo "folder=$FOLDER"
    echo "address=$(agent_address "$1")"
    echo "cores=$(nproc)"
    echo "uid=$(id -u)"
    echo "millrace=$(agent_sum "$bin/millrace")"
    echo "millraced=$(agent_sum "$bin/millraced")"
    agent_states
}

agent_states()
{
    local file
    for file in "$FOLDER"/pids/*; do
        [ -e "$file" ] && [[ $file != *.new ]] || continue
        process_read "$file"
        echo "state=${file##*/} $process_pid $process_state"
    done
}

# agent_push NAME SIZE SUM ...: takes the files from standard input, one after the other.
agent_push()
{
    local name size sum target
    agent_lock
    while [ $# -gt 0 ]; do
        name=$1 size=$2 sum=$3 target=$FOLDER/bin/$1
        shift 3
        head -c "$size" >"$target.new" || fail 1 "cannot write $target: is there room?"
        [ "$(agent_sum "$target.new")" = "$sum" ] || fail 1 "$name did not arrive whole: push again"
        chmod 0755 "$target.new" && mv "$target.new" "$target"
    done
    agent_version "$FOLDER/bin"
}

# agent_version BIN: runs the programs as they are here: other libraries, another kind of processor.
agent_version()
{
    local program status=0 text
    for program in millraced millrace; do
        [ -x "$1/$program" ] || fail 1 "there is no $1/$program"
        text=$("$1/$program" --version 2>&1 </dev/null) || status=$?
        case $status in
        0) ;;
        132) fail 1 "$program needs another kind of processor: configure the build with -DMILLRACE_NATIVE=OFF" ;;
        *)
            text+=$(ldd "$1/$program" 2>/dev/null |
                sed -n 's/^[[:space:]]*\(.*\) => not found/; library \1 is missing/p')
            fail 1 "$program does not run here ($status): ${text//$'\n'/; }"
            ;;
        esac
    done
    text=${text#* }
    echo "version=${text%% *}"
}

# port_owner PORT: who listens there, in words; false when nobody does. Only root sees the processes of others.
port_owner()
{
    local hex inode uid link pid
    printf -v hex '%04X' "$1"
    read -r inode uid < <(awk -v port="$hex" '
        $4 == "0A" { split($2, part, ":"); if (part[2] == port) { print $10, $8; exit } }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null) || return 1
    for link in /proc/[0-9]*/fd/*; do
        [ "$(readlink "$link" 2>/dev/null)" = "socket:[$inode]" ] || continue
        pid=${link#/proc/}
        pid=${pid%%/*}
        echo "process $pid ($(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | cut -c 1-80))"
        return 0
    done
    echo "a process of user $(id -nu "$uid" 2>/dev/null || echo "$uid")"
}

# agent_start MEMBER COMMAND...: unless it runs.
agent_start()
{
    local member=$1
    shift
    agent_lock
    process_recall "$FOLDER/pids"
    process_trim_logs "$FOLDER/logs"
    process_read "$FOLDER/pids/$member"
    if [ "$process_state" = dead ]; then
        process_start "$FOLDER/pids/$member" "$FOLDER/logs/$member" "$@" || exit 1
    fi
    agent_states
}

agent_stop()
{
    agent_lock
    process_recall "$FOLDER/pids"
    shopt -s nullglob
    process_stop_all "$FOLDER/pids/$1" "$FOLDER/pids/$1~"*
}

agent_status()
{
    [ -d "$FOLDER" ] || return 0
    # Not while another is at work here.
    { exec {agent_lock_fd}<"$FOLDER"; } 2>/dev/null || return 0
    ! flock --nonblock "$agent_lock_fd" || process_recall "$FOLDER/pids"
    agent_states
}

# agent_log LINES MEMBER...: their last lines, each behind its member's name.
agent_log()
{
    local lines=$1 member
    shift
    for member in "$@"; do
        [ ! -f "$FOLDER/logs/$member" ] || tail -n "$lines" "$FOLDER/logs/$member" | sed "s/^/$member /"
    done
    process_trim_logs "$FOLDER/logs"
}

# agent_follow LINES MEMBER...: the same and what is added, until the caller closes our standard input: nothing else
# tells us that ssh has ended.
agent_follow()
{
    local lines=$1 member tails=()
    shift
    for member in "$@"; do
        tail -n "$lines" -F "$FOLDER/logs/$member" 2>/dev/null > >(exec sed -u "s/^/$member /") </dev/null &
        tails+=($!)
    done
    cat >/dev/null || true
    kill "${tails[@]}" 2>/dev/null || true
}

# agent_run PROGRAM WORDS...: runs a program of the cluster's. Its exit code is ours.
agent_run()
{
    exec "$@" </dev/null
}

agent_down()
{
    local file=$FOLDER
    [ -d "$FOLDER" ] || return 0
    agent_lock
    process_recall "$FOLDER/pids"
    shopt -s nullglob
    rm -f "$FOLDER"/pids/*.new
    process_stop_all "$FOLDER"/pids/* || exit 1
    if [ "$(decisions_pending "$FOLDER/coordinator")" -gt 0 ]; then
        find "$FOLDER" -mindepth 1 -maxdepth 1 ! -name coordinator -exec rm -rf {} +
        echo "kept=$FOLDER/coordinator"
        return 0
    fi
    rm -rf "$FOLDER"
    while file=${file%/*} && [ -n "$file" ] && [[ $file == */millrace* ]]; do
        rmdir "$file" 2>/dev/null || break # stays while there are other nodes or clusters
    done
}

# agent_place NIC: where others reach this host.
agent_place()
{
    echo "address=$(agent_address "$1")"
}

# agent_facts BIN: what `check` compares, as key=value. BIN is "-" when the programs come on standard input.
agent_facts()
{
    local bin=$1 temporary=''
    echo "machine=$(uname -m)"
    echo "kernel=$(uname -r)"
    echo "system=$(sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/\1/p' /etc/os-release 2>/dev/null)"
    echo "cores=$(nproc)"
    echo "memory_gib=$(awk '/^MemTotal:/ { printf "%.0f", $2 / 1048576 }' /proc/meminfo)"
    echo "memlock=$(ulimit -l)"
    echo "io_uring=$(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null || echo -)"
    echo "congestion=$(cat /proc/sys/net/ipv4/tcp_congestion_control 2>/dev/null || echo -)"
    echo "clock=$(date +%s.%N)"
    echo "address=$(agent_address "$2")"
    if [ "$bin" = - ]; then
        temporary=$(mktemp -d)
        # shellcheck disable=SC2064 # now
        trap "rm -rf '$temporary'" EXIT
        head -c "$3" >"$temporary/millrace"
        head -c "$4" >"$temporary/millraced"
        chmod 0755 "$temporary"/*
        bin=$temporary
    fi
    agent_version "$bin"
    echo "doctor:"
    "$bin/millrace" doctor --json 2>/dev/null </dev/null || true
}

agent_main()
{
    local verb=$1
    shift
    [[ $FOLDER == /* ]] || FOLDER=$(agent_root)/$FOLDER
    "agent_$verb" "$@"
}
