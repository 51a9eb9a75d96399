# shellcheck shell=bash disable=SC2034 # variables of deploy/cluster
# A cluster's network without root: every member has a loopback address of its own, 127.77.SUBNET.X, with a subnet per
# cluster. All of 127.0.0.0/8 is local on Linux, so nothing has to be set up or taken down.

loopback_address()
{
    if [ "$1" = coordinator ]; then
        echo "127.77.$SUBNET.254"
    else
        echo "127.77.$SUBNET.${1#n}"
    fi
}

# loopback_choose: sets SUBNET and saves it. The first `up` decides; two that start in the same moment cannot both get
# one subnet, as the root folder is locked.
loopback_choose()
{
    local root_lock
    exec {root_lock}<"$(dirname "$STATE")"
    flock "$root_lock"
    loopback_pick
    state_save
    exec {root_lock}<&-
}

# loopback_pick: sets SUBNET from the cluster's name, passing over those of this user's other clusters.
loopback_pick()
{
    local taken sum tries
    taken=" $(cat "$(dirname "$STATE")"/*/settings 2>/dev/null | sed -n 's/^subnet=//p' | tr '\n' ' ' || true) "
    sum=$(printf '%s %s' "$(id -u)" "$NAME" | cksum)
    SUBNET=$((${sum%% *} % 254 + 1))
    for ((tries = 0; tries < 254; tries++)); do
        [[ $taken == *" $SUBNET "* ]] || break
        SUBNET=$((SUBNET % 254 + 1))
    done
}

# listeners: who listens on TCP over IPv4, as "ADDRESS PORT" in the kernel's notation: both in hexadecimal, the address
# in the byte order of memory. A listener on IPv6 counts as one on every address, which the wildcard is.
listeners()
{
    awk '$4 == "0A" { split($2, part, ":"); print (length(part[1]) == 8 ? part[1] : "00000000"), part[2] }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# loopback_port: sets coordinator_port, one nobody listens on at the coordinator's address. Another user's cluster may
# have the same subnet.
loopback_port()
{
    local address port taken
    printf -v address '%02X%02X%02X%02X' 254 "$SUBNET" 77 127
    taken=$(listeners)
    for ((port = 7400; port < 7600; port++)); do
        printf -v coordinator_port '%04X' "$port"
        if ! grep -qxE "($address|00000000) $coordinator_port" <<<"$taken"; then
            coordinator_port=$port
            return
        fi
    done
    fail 1 "no port between 7400 and 7599 is free at $(loopback_address coordinator)"
}

loopback_up()
{
    :
}

loopback_prefix()
{
    network_prefix=()
}

loopback_down()
{
    :
}
