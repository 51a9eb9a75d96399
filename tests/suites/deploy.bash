# shellcheck shell=bash
# about: clusters on one machine, the quick start, and that neither leaves anything behind
# groups: default full
# limit: 1800
# lane: waits
build release millrace millraced
export MILLRACE_BIN=$PWD/build/release/bin

# Names of our own, so that clusters of others on this machine do not matter.
PREFIX=test$$
WORK=$(mktemp -d)
sleeper=''
tune=''
fake=''

clean_up()
{
    local name
    for name in a b c; do
        deploy/cluster down --name "$PREFIX-$name" >/dev/null 2>&1 || true
    done
    [ -z "$tune" ] || kill "$tune" 2>/dev/null || true
    [ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null || true
    rm -rf "$WORK" ${fake:+"$fake"}
}
trap clean_up EXIT
trap 'exit 143' TERM INT

if [ "$(id -u)" -eq 0 ] && unshare --net true 2>/dev/null; then
    KINDS="netns loopback"
else
    KINDS=loopback
    skip "clusters in network namespaces: they need root"
fi

# cluster VERB NAME WORDS...
cluster()
{
    local verb=$1 name=$2
    shift 2
    [ "$verb" != up ] || set -- --timeout "$UP_SECONDS" "$@"
    deploy/cluster "$verb" --name "$PREFIX-$name" "$@"
}

# status_is NAME EXPRESSION: whether the Python expression over `members`, what status --json printed, holds.
status_is()
{
    cluster status "$1" --json >"$WORK/status.json" || true
    python3 - "$WORK/status.json" "$2" <<'PYTHON'
import json, sys
members = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    sys.exit(f"not so: {sys.argv[2]}: {members}")
PYTHON
}

member_pid()
{
    cluster status "$1" --json >"$WORK/status.json" || true
    python3 -c 'import json, sys; print(*(m["pid"] for m in json.load(sys.stdin) if m["name"] == sys.argv[1]))' "$2" \
        <"$WORK/status.json"
}

# state_of NAME: the folder in which deploy/cluster keeps what it knows of the cluster.
state_of()
{
    local root
    for root in "${XDG_RUNTIME_DIR:-/run}/millrace" /run/millrace "/tmp/millrace-$(id -u)"; do
        [ ! -d "$root/$PREFIX-$1" ] || break
    done
    echo "$root/$PREFIX-$1"
}

# traces WORD: processes with WORD in their command line, namespaces and folders with it in their name; sorted.
traces()
{
    local word=$1 pid
    {
        for pid in /proc/[0-9]*; do
            case $(tr '\0' ' ' 2>/dev/null <"$pid/cmdline") in
            *"millraced"*"$word"*) echo "$pid $(tr '\0' ' ' <"$pid/cmdline")" ;;
            esac
        done
        find /run/netns /run/millrace "${XDG_RUNTIME_DIR:-/run}/millrace" "/tmp/millrace-$(id -u)" "${TMPDIR:-/tmp}" \
            -maxdepth 1 -name "*$word*" 2>/dev/null
    } | LC_ALL=C sort -u
}

# nothing_left WORD [BEFORE]: no trace of WORD but those in BEFORE, which `traces` had printed.
nothing_left()
{
    local left
    left=$(LC_ALL=C comm -13 <(echo "${2-}") <(traces "$1"))
    [ -z "$left" ] || {
        echo "left behind: $left"
        return 1
    }
}

goes_up_and_down()
{
    local kind=$1 pid
    cluster up a --nodes 3 --via "$kind" &&
        status_is a '[m["name"] for m in members] == ["coordinator", "n1", "n2", "n3"]' &&
        status_is a '[m["role"] for m in members] == ["coordinator", "node", "node", "node"]' &&
        status_is a 'all(m["state"] == "running" and m["ready"] and m["address"] for m in members)' || return 1
    pid=$(member_pid a n2)
    [[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *"millraced node --name n2"* ]] &&
        cluster up a && [ "$(member_pid a n2)" = "$pid" ] &&
        expect 1 cluster up a --nodes 4 &&
        cluster logs a n2 >/dev/null && expect 1 cluster logs a n4 &&
        cluster down a && nothing_left "$PREFIX-a" && cluster down a &&
        expect 3 cluster status a && expect 3 cluster run a -- nodes
}

lives_beside_another()
{
    cluster up a --nodes 2 --via "$1" && cluster up b --nodes 2 --via "$1" && cluster down a &&
        nothing_left "$PREFIX-a" && status_is b 'len(members) == 3 and all(m["ready"] for m in members)' &&
        cluster down b && nothing_left "$PREFIX-b"
}

# The key is the permission to use the cluster, and its file belongs to the user alone.
has_a_key()
{
    local folder within=() coordinator
    cluster up a --nodes 2 --via "$1" && folder=$(state_of a) || return 1
    [ "$1" = loopback ] || within=(ip netns exec "millrace-$PREFIX-a-sw")
    coordinator=$(sed -n 's/^coordinator=//p' "$folder/settings")
    [ "$(stat -c '%a %s %u' "$folder/key")" = "600 65 $(id -u)" ] && cp "$folder/key" "$WORK/old-key" &&
        expect 3 "${within[@]}" "$MILLRACE_BIN/millrace" nodes --coordinator "$coordinator" &&
        "${within[@]}" "$MILLRACE_BIN/millrace" nodes --coordinator "$coordinator" --key "$folder/key" &&
        MILLRACE_KEY=/nonexistent cluster run a -- nodes && cluster up a && cmp "$folder/key" "$WORK/old-key" || return 1
    [ "$(id -u)" -ne 0 ] || expect 2 "${within[@]}" setpriv --reuid 65534 --clear-groups "$MILLRACE_BIN/millrace" nodes \
        --coordinator "$coordinator" --key "$folder/key" || return 1
    rm "$folder/key"
    expect 1 cluster up a && cluster down a && nothing_left "$PREFIX-a" && cluster up a --nodes 2 --via "$1" &&
        ! cmp -s "$folder/key" "$WORK/old-key" && cluster down a
}

passes_on_the_client()
{
    local out
    cluster up a --nodes 2 --via "$1" --engine epoll-zc || return 1
    cluster run a -- nodes --json | grep -q '"engine":"epoll-zc"' || return 1
    out=$(cluster run a -- version) && [ "$out" = "$("$MILLRACE_BIN/millrace" version)" ] &&
        cluster run a nodes --json | python3 -c 'import json, sys; json.load(sys.stdin)' &&
        expect 2 cluster run a -- join --no-such-option &&
        cluster down a
}

# kills MEMBER: of cluster a, and waits for its end.
kills()
{
    local pid
    pid=$(member_pid a "$1")
    kill -KILL "$pid" && await gone "$pid"
}

# A Ctrl-C ends a run, however early it comes.
hears_every_interrupt()
{
    cluster up a --nodes 2 --via "$1" && python3 - "$PREFIX-a" "$WORK" <<'PYTHON' && cluster run a -- nodes && cluster down a
import signal, subprocess, sys, time
for number in range(40):
    words = ["deploy/cluster", "run", "--name", sys.argv[1]]
    if number % 4 == 3:  # with a record
        words += ["--folder", f"{sys.argv[2]}/interrupted-{time.time_ns()}"]
    run = subprocess.Popen([*words, "--", "shuffle", "--in", "gen:rows=4000M,row=64", "--by", "key"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(number * 0.004)
    run.send_signal(signal.SIGINT)
    try:
        code = run.wait(timeout=120)
    except subprocess.TimeoutExpired:
        run.kill()
        sys.exit(f"a SIGINT after {number * 4} ms was lost")
    # 1: of a Python that was not ready yet.
    assert code in (4, 130, -signal.SIGINT) or code == 1 and "--folder" in words, code
PYTHON
}

mends_a_dead_node()
{
    local first
    cluster up a --nodes 3 --via "$1" || return 1
    first=$(member_pid a n1)
    kills n2
    expect 3 cluster status a && status_is a '[m["state"] for m in members].count("dead") == 1' &&
        cluster up a && status_is a 'all(m["ready"] for m in members)' && [ "$(member_pid a n1)" = "$first" ] &&
        kills coordinator && cluster up a &&
        status_is a 'all(m["ready"] for m in members)' && kill -STOP "$(member_pid a n3)" &&
        status_is a 'members[3]["state"] == "stopped"' && cluster down a && nothing_left "$PREFIX-a"
}

restarts_and_shows_logs()
{
    local first
    cluster up a --nodes 2 --via "$1" || return 1
    first=$(member_pid a n1)
    cluster restart a n1 && [ "$(member_pid a n1)" != "$first" ] && status_is a 'all(m["ready"] for m in members)' &&
        expect 1 cluster restart a n3 && expect 2 cluster restart a && cluster logs a >"$WORK/logs" &&
        grep -q '^n1          | .* joined' "$WORK/logs" && grep -q '^coordinator | ' "$WORK/logs" &&
        sed -n 's/^[^|]*| \([0-9TZ:.-]*\) .*/\1/p' "$WORK/logs" | LC_ALL=C sort -c &&
        cluster run a --folder "$WORK/run-$1" -- nodes --json >"$WORK/nodes" &&
        cmp "$WORK/nodes" "$WORK/run-$1/output" && [ -s "$WORK/run-$1/logs/n2" ] &&
        [ -s "$WORK/run-$1/run.json" ] && expect 2 cluster run a --folder "$WORK/run-$1" -- nodes && cluster down a
}

# What the coordinator decided to publish is not thrown away by down.
keeps_decisions()
{
    local folder
    cluster up a --nodes 2 --via "$1" && folder=$(state_of a) && touch "$folder/coordinator/decision-7" &&
        cluster down a 2>"$WORK/said" && grep -qF "kept in $folder/coordinator." "$WORK/said" &&
        [ "$(ls -A "$folder")" = coordinator ] && cluster down a && [ -e "$folder/coordinator/decision-7" ] &&
        rm "$folder/coordinator/decision-7" && cluster up a --nodes 2 --via "$1" && cluster down a &&
        nothing_left "$PREFIX-a"
}

# A log that grew is cut when a command meets it, and what its daemon logs from then on is in it.
bounds_logs()
{
    local logs command
    cluster up a --nodes 2 --via "$1" && logs=$(state_of a)/logs || return 1
    for command in "up a" "run a -- version"; do
        truncate -s 65M "$logs/n1" && echo "the last line" >>"$logs/n1"
        # shellcheck disable=SC2086 # words
        cluster $command >/dev/null && await cut_log "$logs/n1" && [ "$(stat -c %s "$logs/n1.1")" -eq $((16 << 20)) ] &&
            [ "$(tail -n 1 "$logs/n1.1" | tr -d '\0')" = "the last line" ] || return 1
    done
    kills coordinator # which its nodes log
    await grep -q 'trying again' "$logs/n1" && ! grep -q 'the last line' "$logs/n1" && cluster up a && cluster down a
}

cut_log()
{
    [ "$(stat -c %s "$1")" -lt $((1 << 20)) ] && [ ! -e "$1.1.new" ]
}

# --dry-run says what the real one then does, and does nothing.
only_says()
{
    cluster up a --nodes 2 --via "$1" --dry-run >"$WORK/dry" && grep -q 'millraced node --name n2' "$WORK/dry" &&
        nothing_left "$PREFIX-a" && cluster up a --nodes 2 --via "$1" && cluster down a --dry-run >"$WORK/dry" &&
        [ "$(grep -c '^kill -TERM' "$WORK/dry")" -eq 3 ] && status_is a 'all(m["ready"] for m in members)' &&
        cluster down a && nothing_left "$PREFIX-a"
}

# The pid in the file went to another process after a crash: it must be let alone.
spares_another_process()
{
    local file
    cluster up a --nodes 2 --via loopback || return 1
    sleep infinity &
    sleeper=$!
    file=$(state_of a)/pids/n1
    kills n1
    sed -i "s/^[0-9]*/$sleeper/" "$file" && status_is a 'members[1]["state"] == "dead"' && cluster down a &&
        kill -0 "$sleeper" && nothing_left "$PREFIX-a"
}

# Whatever stands in a pid file, status tells the rest, nobody else is signalled, and a daemon that lives is not forgotten.
takes_damaged_pid_files()
{
    local file text forgotten boot
    cluster up a --nodes 2 --via loopback || return 1
    sleep infinity &
    sleeper=$!
    boot=$(</proc/sys/kernel/random/boot_id)
    file=$(state_of a)/pids/n1
    for text in '' 'x y z' "$sleeper" "-1 1 $boot" "08 1 $boot" \
        "$sleeper $(awk '{ print $22 }' "/proc/$sleeper/stat") $boot"; do
        kills n1
        printf '%s' "$text" >"$file"
        expect 3 cluster status a >"$WORK/said" && grep -q '^n1 .* dead' "$WORK/said" &&
            grep -q '^n2 .* ready' "$WORK/said" && status_is a 'members[1]["state"] == "dead"' && cluster up a || return 1
        # The same, and it lives.
        forgotten=$(member_pid a n1)
        printf '%s' "$text" >"$file"
        status_is a "members[1]['pid'] == $forgotten and members[1]['ready']" || return 1
    done
    rm "$file"
    cluster restart a n1 && await gone "$forgotten" && status_is a 'all(m["ready"] for m in members)' || return 1
    forgotten=$(member_pid a n2)
    rm "${file%1}2"
    cluster up a && status_is a "members[2]['pid'] == $forgotten" && rm "${file%1}2" && cluster down a &&
        gone "$forgotten" && kill -0 "$sleeper" && nothing_left "$PREFIX-a"
}

# Settings that are damaged are told, and down does without them.
tells_damaged_settings()
{
    local settings line
    cluster up a --nodes 2 --via loopback && settings=$(state_of a)/settings || return 1
    for line in nodes=x 'nodes=1+1' via=elsewhere 'subnet=a[1]' switches=; do
        sed "s/^${line%%=*}=.*/$line/" "$settings" >"$WORK/settings" && cp "$WORK/settings" "$settings.new" &&
            cp "$settings" "$WORK/settings" && mv "$settings.new" "$settings" || return 1
        expect 1 cluster status a 2>"$WORK/said" && grep -q 'settings is damaged' "$WORK/said" &&
            expect 1 cluster up a && cp "$WORK/settings" "$settings" || return 1
    done
    echo nodes=x >>"$settings"
    cluster down a && nothing_left "$PREFIX-a"
}

# Programs in $WORK/bin: the real ones, except that node n2 ends at once.
tells_who_is_not_ready()
{
    mkdir -p "$WORK/bin"
    ln -sf "$MILLRACE_BIN/millrace" "$WORK/bin/millrace"
    cat >"$WORK/bin/millraced" <<SCRIPT
#!/bin/bash
[[ "\$*" != *"--name n2"* ]] || { echo "the disk is on fire" >&2; exit 1; }
exec "$MILLRACE_BIN/millraced" "\$@"
SCRIPT
    chmod +x "$WORK/bin/millraced"
    expect 3 cluster up a --nodes 3 --via "$1" --bin "$WORK/bin" >"$WORK/up.log" 2>&1 || {
        cat "$WORK/up.log"
        return 1
    }
    grep -q 'n2 is not ready' "$WORK/up.log" && grep -q 'n2: the disk is on fire' "$WORK/up.log" &&
        cluster down a && nothing_left "$PREFIX-a"
}

# An up that is killed at any moment leaves what down can end.
survives_interruption()
{
    local delay signal
    for delay in 0.05 0.15 0.3; do
        for signal in TERM KILL; do
            timeout -s "$signal" "$delay" deploy/cluster up --name "$PREFIX-a" --nodes 4 --via "$1" || true
            cluster down a && nothing_left "$PREFIX-a" || return 1
        done
    done
}

iperf3_listens()
{
    [ -n "$(ip netns exec "millrace-$PREFIX-a-$1" ss -Hltn 'sport = :5201')" ]
}

# measures FROM TO IPERF3-OPTIONS...: prints what TCP gets through from node to node of cluster a, in kbit/s.
measures()
{
    local from=$1 to=$2 server status=0
    shift 2
    ip netns exec "millrace-$PREFIX-a-$to" iperf3 --server --one-off >"$WORK/iperf3-server.log" 2>&1 &
    server=$!
    await iperf3_listens "$to" || return 1
    timeout 300 ip netns exec "millrace-$PREFIX-a-$from" iperf3 --client "10.77.0.${to#n}" --time 2 --omit 1 --json \
        "$@" >"$WORK/iperf3.json" || status=1
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    [ "$status" -eq 0 ] && python3 -c '
import json, sys
print(int(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1000))' <"$WORK/iperf3.json"
}

# carries FROM TO MBIT IPERF3-OPTIONS...: that within 15 %. A machine busy with other things can be too slow for it, but
# never too fast: only what is too little is looked at again.
carries()
{
    local from=$1 to=$2 mbit=$3 kbit
    shift 3
    for _ in {1..10}; do
        kbit=$(measures "$from" "$to" "$@") || return 1
        echo "$from to $to: $kbit kbit/s of $mbit Mbit/s"
        [ "$kbit" -le $((mbit * 1150)) ] || return 1
        [ "$kbit" -lt $((mbit * 850)) ] || return 0
    done
    return 1
}

# Rates at which the buckets last through a busy machine's pauses.
shapes_links()
{
    cluster up a --nodes 4 --via netns --link 60mbit,n2=30mbit/20mbit --switches 2 --uplink 24mbit &&
        carries n2 n1 30 && carries n1 n2 20 && carries n4 n3 60 && carries n3 n1 24 --parallel 4 &&
        expect 1 cluster up a --link 100mbit && cluster down a && nothing_left "$PREFIX-a"
}

refuses_links()
{
    local spec
    for spec in 500 0mbit 500mbit,500mbit ,5mbit '5mbit,' n2 n0=5mbit 5mbit/ 5mbit/5mbit/5mbit 'n1=5mbit n2=5mbit' \
        n9=1mbit n1=1mbit,n1=2mbit; do
        expect 2 cluster up a --nodes 3 --link "$spec" || return 1
    done
    expect 2 cluster up a --uplink 5mbit && expect 2 cluster up a --switches 3 &&
        expect 2 cluster up a --switches 2 --nodes 1 && expect 2 cluster up a --via loopback --link 5mbit &&
        expect 2 cluster up a --via loopback --switches 2 && nothing_left "$PREFIX-a"
}

# says WORDS COMMAND...: the command prints them.
says()
{
    local said
    said=$("${@:2}" 2>&1)
    [[ $said == *"$1"* ]] || { echo "${*:2}: \"$1\" is not in: $said" && return 1; }
}

# Misspelt words and values out of range get the client's words.
names_what_was_meant()
{
    says 'up: there is no option "--nods" (did you mean "--nodes"?);' deploy/cluster up --nods 3 &&
        says 'up: there is no option "--wokrers" (did you mean "--workers"?);' deploy/cluster up --wokrers=3 &&
        says 'up: there is no option "--zzz";' deploy/cluster up --zzz &&
        says 'there is no command "stauts" (did you mean "status"?);' deploy/cluster stauts &&
        says '--nodes=0 is out of range: it goes from 1 to 200;' deploy/cluster up --nodes 0 &&
        says '--mtu=70000 is out of range: it goes from 576 to 65521;' deploy/cluster up --mtu 70000 &&
        says '--workers=x is not a number from 1 to 1024;' deploy/cluster up --workers x &&
        says '(did you mean "netns"?): choose one of auto, netns, loopback' deploy/cluster up --via netsn
}

refuses_nonsense()
{
    expect 2 deploy/cluster && expect 2 deploy/cluster sideways && expect 2 deploy/cluster up --nodes none &&
        expect 2 deploy/cluster up --name 'no name' && expect 2 deploy/cluster up --nodes &&
        expect 2 deploy/cluster up --engine 'no engine' &&
        expect 2 deploy/cluster down --nodes 3 && expect 2 deploy/cluster run && expect 0 deploy/cluster --help &&
        expect 0 deploy/cluster up --help && expect 2 deploy/quickstart --no-such-option &&
        expect 1 cluster up a --bin /nonexistent && nothing_left "$PREFIX-a"
}

makes_data()
{
    deploy/make-package-data --generate --seed 7 "$WORK/one" && deploy/make-package-data --generate --seed 7 "$WORK/two" &&
        deploy/make-package-data --generate --seed 8 "$WORK/three" && cmp "$WORK/one/packages.csv" "$WORK/two/packages.csv" &&
        cmp "$WORK/one/depends.csv" "$WORK/two/depends.csv" && ! cmp -s "$WORK/one/depends.csv" "$WORK/three/depends.csv" &&
        [ "$(wc -l <"$WORK/one/depends.csv")" -eq 288001 ] && [ "$(wc -l <"$WORK/one/packages.csv")" -eq 64001 ]
}

# In a folder that others can write, nothing that they put there is followed or written to.
follows_no_links()
{
    local folder=$WORK/open/data
    mkdir -m 1777 "$WORK/open" && mkdir "$folder" && echo mine >"$WORK/victim" && ln -s "$WORK/victim" "$folder/packages.csv" &&
        ln "$WORK/victim" "$folder/depends.csv" && deploy/make-package-data --generate "$folder" >/dev/null &&
        [ "$(cat "$WORK/victim")" = mine ] && [ ! -L "$folder/packages.csv" ] &&
        [ "$(find "$folder" -type f | wc -l)" -eq 2 ] || return 1
    [ "$(id -u)" -eq 0 ] || return 0
    # Another user's folder, and another user's link to one of ours.
    chown -h 65534 "$folder" && ln -s "$WORK" "$WORK/open/link" && chown -h 65534 "$WORK/open/link" &&
        expect 1 deploy/make-package-data --generate "$folder" && expect 1 deploy/make-package-data --generate "$WORK/open/link" &&
        [ ! -e "$WORK/packages.csv" ]
}

# Records that another user left where ours would be are not believed: they say which programs are run.
believes_no_records_of_others()
{
    local user=$((1000000000 + $$)) # nobody else
    fake=/tmp/millrace-$user
    [ "$(id -u)" -eq 0 ] || return 0
    mkdir -p "$fake/$PREFIX-a" && printf 'via=loopback\nbin=%s\nnodes=1\nsubnet=1\ncoordinator=127.0.0.1:1\n' "$WORK/fake" \
        >"$fake/$PREFIX-a/settings" && mkdir "$WORK/fake" && printf '#!/bin/sh\necho taken over\n' >"$WORK/fake/millrace" &&
        chmod -R a+rX "$WORK" "$fake" && chmod 0755 "$WORK/fake/millrace" || return 1
    setpriv --reuid "$user" --clear-groups env -u XDG_RUNTIME_DIR bash deploy/cluster run --name "$PREFIX-a" -- version \
        >"$WORK/said" 2>&1 || true
    rm -r "$fake"
    ! grep 'taken over' "$WORK/said" && grep -q 'not a folder of this user' "$WORK/said"
}

# leaves_no_files COMMAND...: runs it with a TMPDIR of its own, which must be empty afterwards. COMMAND's exit code, or
# 99, which no command has, when something was left.
leaves_no_files()
{
    local status=0 before
    mkdir -p "$WORK/tmp"
    # Somebody may have kept a quick start's files, or be at one.
    before=$(traces quickstart)
    TMPDIR=$WORK/tmp "$@" || status=$?
    [ -z "$(ls -A "$WORK/tmp")" ] || {
        echo "left behind: $(ls -A "$WORK/tmp")"
        return 99
    }
    nothing_left quickstart "$before" || return 99
    return $status
}

answers_right()
{
    leaves_no_files deploy/quickstart --no-install --bin "$MILLRACE_BIN" --via "$1"
}

# Programs in $WORK/wrong: the client answers, then one row is taken out of its output.
notices_a_wrong_answer()
{
    mkdir -p "$WORK/wrong"
    ln -sf "$MILLRACE_BIN/millraced" "$WORK/wrong/millraced"
    cat >"$WORK/wrong/millrace" <<SCRIPT
#!/bin/bash
"$MILLRACE_BIN/millrace" "\$@" || exit
[[ \$1 != nodes && \$1 != key ]] || exit 0
while [ "\$1" != --out ]; do shift; done
sed -i '\$d' "\$2"/part-00000.csv
SCRIPT
    chmod +x "$WORK/wrong/millrace"
    expect 1 leaves_no_files deploy/quickstart --no-install --generate --bin "$WORK/wrong" --via loopback \
        >"$WORK/wrong.log" 2>&1 || {
        cat "$WORK/wrong.log"
        return 1
    }
    grep -q 'WRONG: ' "$WORK/wrong.log"
}

interrupted_quickstart()
{
    local delay status
    for delay in 0.5 2 3; do
        status=0
        leaves_no_files timeout -s INT "$delay" deploy/quickstart --no-install --bin "$MILLRACE_BIN" || status=$?
        [ $status -ne 99 ] || return 1
    done
}

tunes()
{
    local status=0
    wait "$tune" || status=$?
    tune=
    cat "$WORK/tune.log"
    return $status
}

# On a veth in a namespace of its own, else on the loopback interface.
leaves_a_veth_alone()
{
    local inside
    # shellcheck disable=SC2016 # expanded inside
    inside='
        [ "$1" = lo ] || { mount -t sysfs sysfs /sys && ip link add "$1" type veth peer name tune1; } || exit 1
        look() { ip -o link show dev "$1" | cut -d" " -f2-9; ethtool -k "$1" 2>&1; tc qdisc show dev "$1"; }
        before=$(look "$1")
        for words in --json --dry-run --apply; do
            status=0
            deploy/tune-nic "$1" $words >"$2" 2>&1 || status=$?
            [ $status -eq 1 ] && grep -qE "nothing to prepare|needs root|no program ethtool" "$2" || {
                cat "$2"
                exit 1
            }
        done
        now=$(look "$1")
        [ "$now" = "$before" ] || { echo "$before, then $now"; exit 1; }'
    case $KINDS in
    *netns*) unshare --net --mount bash -c "$inside" bash tune0 "$WORK/tune" ;;
    *) bash -c "$inside" bash lo "$WORK/tune" ;;
    esac
}

# Beside the other tests: it touches nothing of this machine.
python3 -B tests/deploy/test_tune.py >"$WORK/tune.log" 2>&1 &
tune=$!
check "wrong words are refused with 2" refuses_nonsense
check "misspelt words and numbers out of range say what was meant" names_what_was_meant
check "links that make no sense are refused with 2" refuses_links
check "generated data depends on the seed alone" makes_data
check "data is written over no link and into nobody else's folder" follows_no_links
check "records that another user left are not believed" believes_no_records_of_others
check "tune-nic: a real interface that cannot is left alone" leaves_a_veth_alone
for kind in $KINDS; do
    check "$kind: up and down, repeated" goes_up_and_down "$kind"
    check "$kind: two clusters side by side" lives_beside_another "$kind"
    check "$kind: a key of its own lets in its owner alone" has_a_key "$kind"
    check "$kind: run passes on output and exit code" passes_on_the_client "$kind"
    check "$kind: an interrupt ends a run, however early it comes" hears_every_interrupt "$kind"
    check "$kind: up mends what has ended" mends_a_dead_node "$kind"
    check "$kind: restart, logs in one stream, and the record of a run" restarts_and_shows_logs "$kind"
    check "$kind: down keeps decisions that are not carried out" keeps_decisions "$kind"
    check "$kind: a log that grew is cut" bounds_logs "$kind"
    check "$kind: --dry-run only says what would be done" only_says "$kind"
    check "$kind: up says who is not ready, down ends the rest" tells_who_is_not_ready "$kind"
    check "$kind: down after an interrupted up" survives_interruption "$kind"
    check "$kind: the quick start answers right and leaves nothing" answers_right "$kind"
done
if [ "$KINDS" != loopback ]; then
    check "netns: links and the uplink have the rates asked for" shapes_links
fi
check "a recycled pid is spared" spares_another_process
check "whatever a pid file says: status tells the rest, and who lives is not forgotten" takes_damaged_pid_files
check "settings that are damaged are told" tells_damaged_settings
check "the quick start notices a wrong answer" notices_a_wrong_answer
check "an interrupted quick start leaves nothing" interrupted_quickstart
check "tune-nic: made-up cards, each step refused, killed at each change, and put back" tunes
