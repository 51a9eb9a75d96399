# shellcheck shell=bash
# about: clusters on other hosts over ssh: three namespaces with an sshd each
# groups: default full
# limit: 1200
# lane: waits
build release millrace millraced
export MILLRACE_BIN=$PWD/build/release/bin
WORK=$(mktemp -d)
# Not millrace-..., where daemons would do without a key.
LAB=mr$$
# shellcheck source=tests/deploy/lab.bash
source tests/deploy/lab.bash
# shellcheck source=tests/deploy/checks.bash
source tests/deploy/checks.bash
export XDG_STATE_HOME=$WORK/home

clean_up()
{
    [ -z "${SSH_AGENT_PID:-}" ] || kill "$SSH_AGENT_PID" 2>/dev/null || true
    lab_end
    rm -rf "$WORK" "/run/millrace/$LAB"
}
trap clean_up EXIT
trap 'exit 143' TERM INT

goes_up()
{
    local pid
    printf 'n01 # the first\r\nn02 cores=2 nic=eth0\r\n%s.3:22 name=n03' "$LAB_NET" >"$WORK/hosts-file"
    cluster check --hosts "$WORK/hosts-file" --ssh "$LAB_SSH" >"$WORK/said" &&
        grep -q 'the same on all 3 hosts' "$WORK/said" &&
        grep -q 'every host can take part' "$WORK/said" && nothing_left || return 1
    up_over_ssh "$WORK/hosts-file" >"$WORK/said" 2>&1 && cat "$WORK/said" &&
        grep -q 'n\[01-03\]: the daemons run as root there' "$WORK/said" &&
        status_is '[m["name"] for m in members] == ["coordinator", "n01", "n02", "n03"]' &&
        status_is 'all(m["state"] == "running" and m["ready"] and m["address"] for m in members)' || return 1
    pid=$(member_pid n02)
    # The agent that ssh-agent's variable names is not lent to the hosts, whatever the user's configuration says.
    [ -S "$SSH_AUTH_SOCK" ] && ! tr '\0' '\n' <"/proc/$pid/environ" | grep -E '^(SSH_AUTH_SOCK|DISPLAY)=' || return 1
    [[ $(tr '\0' ' ' <"/proc/$pid/cmdline") == *"--name n02"*"--listen $LAB_NET.2 --workers 2"* ]] &&
        cluster up && status_is "members[2]['pid'] == $pid"
}

runs_and_records()
{
    local out=$WORK/run i
    for i in {100..203}; do
        mkdir -p "$XDG_STATE_HOME/millrace/runs/$LAB-20200101T000$i" || return 1
    done
    mkdir "$XDG_STATE_HOME/millrace/runs/other-20200101T000000"
    cluster run -- shuffle --in gen:rows=10 --by key >/dev/null &&
        [ "$(find "$XDG_STATE_HOME/millrace/runs" -mindepth 1 -name "$LAB-*" | grep -c '/'"$LAB-[0-9T]*$")" -eq 100 ] &&
        [ -d "$XDG_STATE_HOME/millrace/runs/other-20200101T000000" ] &&
        [ ! -e "$XDG_STATE_HOME/millrace/runs/$LAB-20200101T000104" ] || return 1
    cluster run --folder "$out" -- join --left gen:rows=20k,row=64 --right gen:rows=1k --on key=key --json \
        >"$WORK/report" &&
        cmp "$WORK/report" "$out/output" && python3 - "$out" <<'PYTHON' || return 1
import json, os, sys
run, report = (json.load(open(os.path.join(sys.argv[1], name))) for name in ("run.json", "report.json"))
assert run["exit_code"] == 0 and run["command"][1] == "join" and set(run["versions"]) == {"n01", "n02", "n03"}, run
assert len(set(run["versions"].values())) == 1 and report["status"] == "succeeded" and report["workers"] == 4, report
logs, doctors = (sorted(os.listdir(os.path.join(sys.argv[1], name))) for name in ("logs", "doctor"))
assert logs == ["coordinator", "n01", "n02", "n03"] and doctors == ["n01.json", "n02.json", "n03.json"], (logs, doctors)
assert "succeeded" in open(os.path.join(sys.argv[1], "logs", "coordinator")).read()
PYTHON
    cluster run --folder "$out-text" -- join --left gen:rows=20k,row=64 --right gen:rows=1k --on key=key \
        >"$WORK/said" &&
        grep -q '^checksum ' "$WORK/said" && python3 -c '
import json, sys
one, other = (json.load(open(name)) for name in sys.argv[1:])
assert one["checksum"] == other["checksum"] and one["status"] == other["status"], (one, other)' \
            "$out/report.json" "$out-text/report.json" || return 1
    expect 2 cluster run --folder "$out" -- nodes && expect 2 cluster run -- join --no-such-option &&
        [ "$(cluster run -- version)" = "$("$MILLRACE_BIN/millrace" version)" ]
}

shows_logs()
{
    local follower
    cluster logs >"$WORK/said" && grep -q '^coordinator | .* has connected' "$WORK/said" &&
        grep -q '^n03  *| ' "$WORK/said" && expect 1 cluster logs n04 &&
        sed -n 's/^[^|]*| \([0-9TZ:.-]*\) .*/\1/p' "$WORK/said" | LC_ALL=C sort -c || return 1
    ip netns exec "$LAB-sw" deploy/cluster logs --name "$LAB" -f --lines 1 n02 >"$WORK/said" &
    follower=$!
    await grep -q '^n02 | ' "$WORK/said" || true
    kill "$follower"
    wait "$follower" || true
    grep -q '^n02 | ' "$WORK/said" && await no_tail
}

# On the hosts.
no_tail()
{
    ! lab_processes | grep tail >/dev/null
}

# Records that are damaged are told, with what to do, and nothing is done by them.
tells_damaged_records()
{
    local record=/run/millrace/$LAB/cluster.json text
    cp "$record" "$WORK/record" || return 1
    for text in '' '{' '[]' '{"hosts": [{}]}' '{"hosts": []}'; do
        echo "$text" >"$record"
        fails_saying 1 'is damaged' cluster status && fails_saying 1 'is damaged' cluster up || return 1
    done
    cp "$WORK/record" "$record" && cluster status >/dev/null
}

mends()
{
    local pid first
    first=$(member_pid n01)
    pid=$(member_pid n02)
    kill -KILL "$(member_pid n03)" && expect 3 cluster restart n02 --timeout 1 && expect 1 cluster restart n04 &&
        status_is "members[2]['pid'] not in (0, $pid) and members[1]['pid'] == $first" || return 1
    status_is 'members[3]["state"] == "dead"' && cluster up && cluster restart n02 &&
        status_is 'all(m["ready"] for m in members)'
}

# The key is everywhere, the same, closed to others, on no command line; without it nobody gets an answer.
has_a_key()
{
    local file key=/run/millrace/$LAB/key
    for file in "$key" "$WORK"/hosts/n0[1-3]/millrace/remote/"$LAB"/n0?/key; do
        [ "$(stat -c '%a %s' "$file")" = '600 65' ] && cmp "$key" "$file" || return 1
    done
    "$MILLRACE_BIN/millrace" key "$WORK/other-key" || return 1
    expect 3 lab "$MILLRACE_BIN/millrace" nodes --coordinator "$LAB_NET.1:7400" &&
        expect 3 lab "$MILLRACE_BIN/millrace" nodes --coordinator "$LAB_NET.1:7400" --key "$WORK/other-key" &&
        lab "$MILLRACE_BIN/millrace" nodes --coordinator "$LAB_NET.1:7400" --key "$key"
}

goes_down()
{
    cluster down --dry-run >"$WORK/said" && grep -q '^n01: ssh .*: down$' "$WORK/said" &&
        status_is 'len(members) == 4' || return 1
    # A decision that is not carried out stays, and is told.
    touch "$WORK/hosts/n01/millrace/remote/$LAB/n01/coordinator/decision-7" && cluster down >"$WORK/said" 2>&1 &&
        grep -q 'n01: decided, but not published yet' "$WORK/said" &&
        [ "$(cd "$WORK/hosts" && find . -type f -name 'decision*')" = "./n01/millrace/remote/$LAB/n01/coordinator/decision-7" ] &&
        rm -r "$WORK/hosts/n01/millrace" && up_over_ssh n01 &&
        cluster down && nothing_left && cluster down && expect 3 cluster status && expect 3 cluster run -- nodes
}

refuses()
{
    fails_saying 2 'is there twice' up_over_ssh n01,n01 && fails_saying 2 '--hosts FILE' cluster up --via ssh &&
        fails_saying 2 '--mtu is for clusters on this machine' up_over_ssh n01 --mtu 9000 &&
        fails_saying 3 "n02: ssh: ssh: connect to host" up_over_ssh n01,n02:2 && nothing_left &&
        fails_saying 1 'No such file' up_over_ssh n01 --bin /nonexistent && nothing_left
}

names_the_owner_of_a_port()
{
    local owner
    ip netns exec "$LAB-n01" python3 -c '
import signal, socket
with socket.create_server(("", 7400)):
    signal.pause()' the-squatter &
    owner=$!
    await listens n01 7400 && fails_saying 3 "port 7400 is taken by process" up_over_ssh n01,n02 || return 1
    grep -q the-squatter "$WORK/said" && kill "$owner" && { wait "$owner" || true; } && nothing_left
}

check "hosts are read as they are written" python3 -B tests/deploy/test_hosts.py
if [ "$(id -u)" -ne 0 ] || ! unshare --net true 2>/dev/null; then
    skip "hosts in namespaces: they need root"
elif [ ! -x /usr/sbin/sshd ]; then
    skip "hosts in namespaces: /usr/sbin/sshd (openssh-server) is missing"
else
    eval "$(ssh-agent -a "$WORK/agent")" >/dev/null
    lab_begin 3
    check "ssh: check, and up from a file" goes_up
    check "ssh: the key is everywhere, and nothing goes without" has_a_key
    check "ssh: run gives output and exit code, and keeps a record" runs_and_records
    check "ssh: logs in one stream" shows_logs
    check "ssh: damaged records are told" tells_damaged_records
    check "ssh: restart, and up of a dead node" mends
    check "ssh: down leaves nothing" goes_down
    check "ssh: what cannot be is refused and leaves nothing" refuses
    check "ssh: a port's owner is named" names_the_owner_of_a_port
fi
