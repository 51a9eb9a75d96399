# shellcheck shell=bash disable=SC2034
# Hosts for tests: namespaces, each with an sshd, a host name and a folder for its state of its own, on one bridge. What
# is tested runs in the bridge's namespace (`lab COMMAND...`), which is none of the hosts. Root only.
#
# Set before: LAB, a prefix for the namespaces' names; WORK, a folder. lab_end undoes all of it.

LAB_NET=10.78.0
LAB_NET6=fd78::

# lab_begin N: hosts n01 ... in namespaces LAB-n01 ... with addresses LAB_NET.1 ... and LAB_NET6 with 1 ...
lab_begin()
{
    local i host
    lab_count=$1
    lab_sshd_folder=
    [ -d /run/sshd ] || { mkdir /run/sshd && lab_sshd_folder=/run/sshd; }
    mkdir -p "$WORK/ssh"
    ssh-keygen -q -t ed25519 -N '' -f "$WORK/ssh/host" && ssh-keygen -q -t ed25519 -N '' -f "$WORK/ssh/user" || return 1
    ip netns add "$LAB-sw" && ip -n "$LAB-sw" link set lo up || return 1
    ip -n "$LAB-sw" link add br0 type bridge stp_state 0 forward_delay 0 || return 1
    ip -n "$LAB-sw" addr add "$LAB_NET.254/24" dev br0 && ip -n "$LAB-sw" addr add "${LAB_NET6}fe/64" dev br0 nodad &&
        ip -n "$LAB-sw" link set br0 up || return 1
    : >"$WORK/ssh/config"
    for ((i = 1; i <= lab_count; i++)); do
        printf -v host 'n%02d' "$i"
        lab_host "$host" "$LAB_NET.$i" "$LAB_NET6$i" || return 1
    done
    cat >>"$WORK/ssh/config" <<CONFIG
Host *
    IdentityFile $WORK/ssh/user
    IdentitiesOnly yes
    UserKnownHostsFile $WORK/ssh/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    HostKeyAlias millrace-lab
    KexAlgorithms curve25519-sha256
    ForwardAgent yes
    ForwardX11 yes
CONFIG
    echo "millrace-lab $(cut -d ' ' -f 1,2 "$WORK/ssh/host.pub")" >"$WORK/ssh/known_hosts"
    LAB_SSH="ssh -F $WORK/ssh/config"
}

lab_host()
{
    local host=$1 address=$2 address6=$3
    ip netns add "$LAB-$host" && ip -n "$LAB-$host" link set lo up || return 1
    ip -n "$LAB-sw" link add "$host" type veth peer name eth0 netns "$LAB-$host" || return 1
    ip -n "$LAB-sw" link set "$host" master br0 up || return 1
    ip -n "$LAB-$host" addr add "$address/24" dev eth0 && ip -n "$LAB-$host" addr add "$address6/64" dev eth0 nodad &&
        ip -n "$LAB-$host" link set eth0 up || return 1
    # With an empty home: a login runs the .bashrc it finds there, and the one of who runs the tests may take seconds, and
    # make logins wait for each other.
    mkdir -p "$WORK/hosts/$host" "$WORK/home-of-$host"
    cat >"$WORK/ssh/sshd-$host" <<CONFIG
Port 22
HostKey $WORK/ssh/host
AuthorizedKeysFile $WORK/ssh/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile $WORK/ssh/pid-$host
MaxStartups 200
SetEnv XDG_STATE_HOME=$WORK/hosts/$host HOME=$WORK/home-of-$host
CONFIG
    printf 'Host %s\n    HostName %s\n' "$host" "$address" >>"$WORK/ssh/config"
    lab_sshd "$host"
}

# lab_sshd HOST: starts its sshd.
lab_sshd()
{
    ip netns exec "$LAB-$1" unshare --uts sh -c 'hostname "$1" && exec /usr/sbin/sshd -f "$2"' sshd "$1" \
        "$WORK/ssh/sshd-$1"
}

# lab_private HOST: from here on its sshd has an /etc, /usr/local and /var/lib of its own, in which to install things,
# and a systemctl that starts units as far as deploy/cluster needs it.
lab_private()
{
    local host=$1 folder=$WORK/private/$1 part layers script="hostname $1"
    for part in etc usr/local var/lib; do
        mkdir -p "$folder/upper/$part" "$folder/work/$part"
        layers=lowerdir=/$part,upperdir=$folder/upper/$part,workdir=$folder/work/$part
        script+=" && mount -t overlay overlay -o $layers /$part"
    done
    mkdir -p "$folder/upper/usr/local/bin" "$folder/run"
    chmod 0755 "$folder/upper/usr/local/bin"
    sed "s,@RUN@,$folder/run," tests/deploy/systemctl >"$folder/upper/usr/local/bin/systemctl"
    chmod 0755 "$folder/upper/usr/local/bin/systemctl"
    kill "$(cat "$WORK/ssh/pid-$host")"
    ip netns exec "$LAB-$host" unshare --uts --mount sh -c "$script && exec /usr/sbin/sshd -f $WORK/ssh/sshd-$host"
}

lab()
{
    ip netns exec "$LAB-sw" "$@"
}

# listens HOST PORT: whether anybody does there.
listens()
{
    [ -n "$(ip netns exec "$LAB-$1" ss -Hltn "sport = :$2")" ]
}

# lab_processes: what runs in the hosts' namespaces besides sshd.
lab_processes()
{
    local host pid i
    for ((i = 1; i <= lab_count; i++)); do
        printf -v host 'n%02d' "$i"
        for pid in $(ip netns pids "$LAB-$host" 2>/dev/null); do
            [ "$(cat "/proc/$pid/comm" 2>/dev/null || echo sshd)" = sshd ] ||
                echo "$host: $pid $(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline")"
        done
    done
}

lab_end()
{
    local namespace pids
    for namespace in $(ip netns list | cut -d ' ' -f 1 | grep -E "^$LAB-(sw|n[0-9]+)$"); do
        pids=$(ip netns pids "$namespace" | grep -vxF "$$" || true)
        # shellcheck disable=SC2086 # words of pids
        [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
        ip netns delete "$namespace" || true
    done
    [ -z "${lab_sshd_folder:-}" ] || rmdir "$lab_sshd_folder" 2>/dev/null || true
}
