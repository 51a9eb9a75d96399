# shellcheck shell=bash
# about: clusters on six hosts over ssh, killed at every step; systemd units; Slurm allocations
# groups: full
# limit: 4800
# lane: waits
build release millrace millraced
export MILLRACE_BIN=$PWD/build/release/bin
WORK=$(mktemp -d)
LAB=mr$$
# shellcheck source=tests/deploy/lab.bash
source tests/deploy/lab.bash
# shellcheck source=tests/deploy/checks.bash
source tests/deploy/checks.bash
# shellcheck source=tests/deploy/slurm.bash
source tests/deploy/slurm.bash
export XDG_STATE_HOME=$WORK/home
sleeper=

clean_up()
{
    [ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null || true
    slurm_end
    lab_end
    rm -rf "$WORK" "/run/millrace/$LAB" "/run/millrace/$LAB-b"
}
trap clean_up EXIT
trap 'exit 143' TERM INT

joins_on_six()
{
    local here
    up_over_ssh 'n[01-06]' && status_is 'len(members) == 7 and all(m["ready"] for m in members)' || return 1
    cluster run --folder "$WORK/run" -- join --left gen:rows=50k,row=64,seed=3 --right gen:rows=5k --on key=key --json \
        >"$WORK/there" || return 1
    deploy/cluster up --name "$LAB-b" --nodes 2 >/dev/null || return 1
    here=0
    deploy/cluster run --name "$LAB-b" -- join --left gen:rows=50k,row=64,seed=3 --right gen:rows=5k --on key=key \
        --json >"$WORK/here" || here=1
    deploy/cluster down --name "$LAB-b" && [ "$here" -eq 0 ] && python3 - "$WORK" <<'PYTHON'
import json, sys
there, here = (json.load(open(f"{sys.argv[1]}/{name}")) for name in ("there", "here"))
assert there["rows"] == here["rows"] > 0 and there["checksum"] == here["checksum"], (there["rows"], here["rows"])
assert len(there["nodes"]) == 6 and all(node["rows"] for node in there["nodes"]), there["nodes"]
PYTHON
}

# Nodes go on without a coordinator and find it again.
restarts_the_coordinator()
{
    local pid
    pid=$(member_pid n03)
    cluster restart coordinator && status_is "members[3]['pid'] == $pid and all(m['ready'] for m in members)" &&
        cluster run -- join --left gen:rows=10k --right gen:rows=1k --on key=key >"$WORK/said" &&
        grep -q '^checksum' "$WORK/said"
}

# A second cluster on the same hosts, with a port of its own; the first one's is refused.
lives_beside_another()
{
    local second=(lab deploy/cluster up --name "$LAB-b")
    fails_saying 3 'port 7400 is taken by process' "${second[@]}" --hosts n01,n02 --ssh "$LAB_SSH" &&
        "${second[@]}" --hosts n01,n02 --ssh "$LAB_SSH" --port 7401 --memory 256Mi &&
        expect 1 "${second[@]}" --port 7402 && expect 1 "${second[@]}" --hosts n01 &&
        lab deploy/cluster down --name "$LAB-b" && status_is 'len(members) == 7 and all(m["ready"] for m in members)'
}

# The pid of n05's pid file went to another process, n06 is stopped, n04 is dead: down ends ours and no other.
spares_and_ends()
{
    sleep infinity &
    sleeper=$!
    kill -KILL "$(member_pid n04)" "$(member_pid n05)" && kill -STOP "$(member_pid n06)" || return 1
    sed -i "s/^[0-9]*/$sleeper/" "$WORK/hosts/n05/millrace/remote/$LAB/n05/pids/n05" || return 1
    status_is '[m["state"] for m in members[4:]] == ["dead", "dead", "stopped"]' && cluster down &&
        kill -0 "$sleeper" && nothing_left
}

# keeps_records_of_the_silent: a host that does not answer is named, and down ends it when it is back.
keeps_records_of_the_silent()
{
    up_over_ssh n01,n02 || return 1
    kill "$(cat "$WORK/ssh/pid-n02")" || return 1
    fails_saying 3 'unreachable' cluster status && fails_saying 1 'may still run on n02' cluster down &&
        lab_sshd n02 && cluster down && nothing_left || return 1
    up_over_ssh n01,n02 && kill "$(cat "$WORK/ssh/pid-n02")" && expect 1 cluster down && cluster down --forget &&
        lab_sshd n02 && cluster down --hosts n01,n02 --ssh "$LAB_SSH" && nothing_left
}

# An up or a down that is killed at any moment leaves what down can end.
survives_kills()
{
    local delay signal
    for delay in 0.15 0.4 0.8 1.2 1.7 2.3 3.0 4.0; do
        for signal in TERM KILL; do
            timeout -s "$signal" "$delay" ip netns exec "$LAB-sw" deploy/cluster up --name "$LAB" --hosts 'n[01-06]' \
                --ssh "$LAB_SSH" --memory 256Mi --workers 1 >/dev/null 2>&1 || true
            cluster down && nothing_left || {
                echo "up was ended by SIG$signal after $delay s"
                return 1
            }
        done
    done
    for delay in 0.3 0.8; do
        up_over_ssh n01,n02,n03 || return 1
        timeout -s KILL "$delay" ip netns exec "$LAB-sw" deploy/cluster down --name "$LAB" || true
        cluster down && nothing_left || return 1
    done
}

knows_itself()
{
    cluster up --hosts "$LAB_NET.254 name=here" --dry-run >"$WORK/said" &&
        grep -q '^here: here: prepare' "$WORK/said" || return 1
    printf '%s name=here\nn01\n' "$LAB_NET.254" >"$WORK/hosts-file"
    up_over_ssh "$WORK/hosts-file" &&
        status_is '[m["address"] for m in members[1:]] == ["'"$LAB_NET"'.254", "'"$LAB_NET"'.1"]' &&
        cluster down && nothing_left && [ ! -e "$WORK/home/millrace/remote" ]
}

speaks_ipv6()
{
    printf '[%s1]:22 name=n01\n%s2\n' "$LAB_NET6" "$LAB_NET6" >"$WORK/hosts-file"
    up_over_ssh "$WORK/hosts-file" && status_is 'members[0]["address"] == "[fd78::1]:7400"' &&
        status_is '[m["name"] for m in members[1:]] == ["n01", "ip6-fd78--2"] and all(m["ready"] for m in members)' &&
        cluster run -- nodes && cluster down && nothing_left
}

asks_nothing()
{
    local user=nobody
    fails_saying 3 'Permission denied' timeout 300 ip netns exec "$LAB-sw" deploy/cluster up --name "$LAB" \
        --hosts "$user@n01" --ssh "$LAB_SSH" && nothing_left
}

# Programs that are there, of another version or not able to run.
wants_the_same_version()
{
    mkdir -p "$WORK/other"
    printf '#!/bin/sh\necho "$(basename "$0") 9.9"\n' >"$WORK/other/millrace"
    cp "$WORK/other/millrace" "$WORK/other/millraced"
    chmod +x "$WORK/other/"*
    fails_saying 1 'version 9.9, and this client is' up_over_ssh n01 --remote-bin "$WORK/other" && cluster down ||
        return 1
    printf '#!/bin/sh\nkill -ILL $$\n' >"$WORK/other/millraced"
    fails_saying 1 'needs another kind of processor' up_over_ssh n01 --remote-bin "$WORK/other" && cluster down &&
        fails_saying 1 'needs another kind of processor' cluster check --hosts n01 --ssh "$LAB_SSH" \
            --remote-bin "$WORK/other" && up_over_ssh n01 --remote-bin "$MILLRACE_BIN" && cluster down && nothing_left
}

tells_who_is_not_ready_there()
{
    mkdir -p "$WORK/broken"
    ln -sf "$MILLRACE_BIN/millrace" "$WORK/broken/millrace"
    cat >"$WORK/broken/millraced" <<SCRIPT
#!/bin/bash
[[ "\$*" != *"--name n02"* ]] || { echo "the disk is on fire" >&2; exit 1; }
exec "$MILLRACE_BIN/millraced" "\$@"
SCRIPT
    chmod +x "$WORK/broken/millraced"
    fails_saying 3 'n02 is not ready: its process has ended' up_over_ssh n01,n02 --bin "$WORK/broken" --remote-bin \
        "$WORK/broken" && grep -q 'n02 the disk is on fire' "$WORK/said" && cluster down && nothing_left
}

installs_units()
{
    local host etc=$WORK/private/n02/upper/etc run=$WORK/private/n02/run
    for host in n01 n02 n03; do
        lab_private "$host" || return 1
    done
    export XDG_CONFIG_HOME=$WORK/config
    # Twice, the second time with other options: what is installed gets them.
    cluster install --hosts 'n[01-03]' --ssh "$LAB_SSH" --memory 256Mi --workers 1 &&
        cluster install --hosts 'n[01-03]' --ssh "$LAB_SSH" --memory 256Mi --workers 2 || return 1
    lab "$MILLRACE_BIN/millrace" join --coordinator "$LAB_NET.1:7400" --key "$WORK/config/millrace/$LAB.key" \
        --left gen:rows=10k --right gen:rows=1k --on key=key --json >"$WORK/report" &&
        python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["rows"] == 1000 and report["workers"] == 6, report' "$WORK/report" || return 1
    [ "$(stat -c %a "$etc/millrace/key")" = 400 ] && [ "$(stat -c %u "$etc/millrace/key")" -ne 0 ] &&
        grep -q -e '--name n02 --coordinator' "$etc/millrace/node.conf" && [ ! -e "$etc/millrace/coordinator.conf" ] &&
        [ -e "$run/millrace-node.enabled" ] && lab_processes | grep 'n02: .*--key=/etc/millrace/key' >/dev/null &&
        fails_saying 1 "cluster $LAB is installed there" \
            lab deploy/cluster install --name other --hosts n02 --ssh "$LAB_SSH" &&
        cluster uninstall --hosts 'n[01-03]' --ssh "$LAB_SSH" --dry-run >"$WORK/said" &&
        grep -q "^n03: .*: uninstall $LAB" "$WORK/said" &&
        nsenter --mount --target "$(cat "$WORK/ssh/pid-n01")" touch /var/lib/millrace/coordinator/decision-7 &&
        cluster uninstall --hosts 'n[01-03]' --ssh "$LAB_SSH" 2>"$WORK/said" && nothing_left &&
        grep -q 'n01: decided, but not published yet' "$WORK/said" &&
        nsenter --mount --target "$(cat "$WORK/ssh/pid-n01")" rm /var/lib/millrace/coordinator/decision-7 || return 1
    [ -z "$(find "$WORK"/private/*/upper "$WORK/config" -name '*millrace*' -type f)" ] || {
        find "$WORK"/private/*/upper "$WORK/config" -name '*millrace*'
        return 1
    }
}

units_are_well()
{
    local unit
    mkdir -p "$WORK/units"
    mkdir -p "$WORK/units/millrace-node.service.d" && cp deploy/systemd/zero-copy.conf "$WORK/units/millrace-node.service.d"
    for unit in node coordinator; do
        # The programs need not be installed here to judge the unit.
        sed 's,/usr/local/bin/millraced,/bin/true,' "deploy/systemd/millrace-$unit.service" \
            >"$WORK/units/millrace-$unit.service"
        systemd-analyze verify --man=no --recursive-errors=no "$WORK/units/millrace-$unit.service" &&
            systemd-analyze security --offline=true --threshold=20 "$WORK/units/millrace-$unit.service" || return 1
    done
}

# in_allocation COMMAND...: on three nodes, from where the hosts are seen.
in_allocation()
{
    lab timeout 1200 salloc --quiet --nodes=3 "$@"
}

works_in_an_allocation()
{
    cat >"$WORK/allocation" <<'SCRIPT'
set -eux
deploy/cluster up --name "$1" --via slurm --memory 256Mi
deploy/cluster up --name "$1"
deploy/cluster status --name "$1" --json
deploy/cluster restart --name "$1" n02
deploy/cluster run --name "$1" --folder "$2/run-slurm" -- join --left gen:rows=10k --right gen:rows=1k --on key=key
deploy/cluster logs --name "$1" | grep 'n02 .* joined'
deploy/cluster down --name "$1"
SCRIPT
    in_allocation bash "$WORK/allocation" "$LAB" "$WORK" && [ -s "$WORK/run-slurm/logs/n03" ] && no_steps_left
}

no_steps_left()
{
    local left
    left=$(lab squeue --noheader --steps; find "$WORK/home/millrace/remote" 2>/dev/null)
    lab_processes | grep millraced && return 1
    [ -z "$left" ] || {
        echo "left behind: $left"
        return 1
    }
}

survives_kills_in_an_allocation()
{
    local delay
    cat >"$WORK/allocation" <<'SCRIPT'
timeout -s KILL "$2" deploy/cluster up --name "$1" --via slurm --memory 256Mi
deploy/cluster down --name "$1"
SCRIPT
    for delay in 0.2 0.5 0.8 1.1 1.5; do
        in_allocation bash "$WORK/allocation" "$LAB" "$delay" && no_steps_left || return 1
    done
}

no_daemons()
{
    ! lab_processes | grep millraced >/dev/null
}

ends_with_its_job()
{
    in_allocation deploy/cluster up --name "$LAB" --via slurm --memory 256Mi || return 1
    await no_daemons || return 1
    expect 3 cluster status && fails_saying 0 'ended with its job' cluster down && no_steps_left
}

takes_the_template()
{
    (
        cd "$WORK" && MILLRACE_HOME=$OLDPWD lab timeout 1200 sbatch --wait --nodes=3 \
            "$OLDPWD/deploy/slurm/millrace.sbatch" join --left gen:rows=10k --right gen:rows=1k --on key=key --json
    ) && [ "$(find "$WORK" -maxdepth 1 -name 'millrace-[0-9]*.out' | wc -l)" -eq 1 ] &&
        python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["rows"] == 1000' \
            "$WORK"/millrace-[0-9]*/report.json && no_steps_left
}

overlays_work()
{
    mkdir -p "$WORK/try/upper" "$WORK/try/work"
    # shellcheck disable=SC2016 # expanded by that shell
    unshare --mount sh -c 'mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc' sh \
        "$WORK/try"
}

if command -v systemd-analyze >/dev/null; then
    check "systemd: the units are well and give away little" units_are_well
else
    skip "systemd: no systemd-analyze"
fi
if [ "$(id -u)" -ne 0 ] || ! unshare --net true 2>/dev/null; then
    skip "hosts in namespaces: they need root"
elif [ ! -x /usr/sbin/sshd ]; then
    skip "hosts in namespaces: /usr/sbin/sshd (openssh-server) is missing"
else
    lab_begin 6
    check "ssh: six hosts give the answer of a local cluster" joins_on_six
    check "ssh: the coordinator is restarted under its nodes" restarts_the_coordinator
    check "ssh: two clusters side by side" lives_beside_another
    check "ssh: down ends what is ours, stopped or dead, and spares a recycled pid" spares_and_ends
    check "ssh: a host that does not answer is not forgotten" keeps_records_of_the_silent
    check "ssh: killed at any step, down leaves nothing" survives_kills
    check "ssh: this machine is a host without ssh" knows_itself
    check "ssh: IPv6" speaks_ipv6
    check "ssh: no password is asked for" asks_nothing
    check "ssh: programs of another version, or for another processor" wants_the_same_version
    check "ssh: up says who is not ready" tells_who_is_not_ready_there
    if overlays_work; then
        check "systemd: install, again, and uninstall on three hosts" installs_units
    else
        skip "systemd: install on hosts of their own: overlay mounts do not work here"
    fi
    if ! slurm_possible; then
        skip "Slurm: slurmctld, slurmd or munged is missing"
    elif slurm_begin; then
        check "slurm: up, status, restart, run, logs, down in an allocation" works_in_an_allocation
        check "slurm: killed at any step, down leaves nothing" survives_kills_in_an_allocation
        check "slurm: the cluster ends with its job" ends_with_its_job
        check "slurm: the template of a batch job" takes_the_template
    else
        skip "Slurm: it does not run here (its logs are above)"
    fi
fi
