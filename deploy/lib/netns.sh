# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of deploy/cluster
# A cluster's network as network namespaces, nothing of which touches the host's own network: one namespace holds the
# bridge and the coordinator, each node has one, and every link is made inside them. Addresses therefore never collide,
# neither with the host's nor with another cluster's.
#
#   millrace-NAME-sw: br1 10.77.0.254 (coordinator, clients)      ports n1 ... nN
#   millrace-NAME-n1: eth0 10.77.0.1                              ...
#
# With two switches there is a second bridge br2 in the same namespace, which has the second half of the ports, and a
# link "uplink" to "uplink-peer" joins the two.

NETNS_FOLDER=/run/netns

netns_of()
{
    if [ "$1" = coordinator ]; then
        echo "millrace-$NAME-sw"
    else
        echo "millrace-$NAME-$1"
    fi
}

netns_address()
{
    if [ "$1" = coordinator ]; then
        echo 10.77.0.254
    else
        echo "10.77.0.${1#n}"
    fi
}

# netns_possible: whether this user may make namespaces and the programs for it are there; else says why not.
netns_possible()
{
    if [ "$(id -u)" -ne 0 ]; then
        echo "network namespaces need root"
    elif ! command -v ip >/dev/null; then
        echo "the program ip (package iproute2) is missing"
    elif ! unshare --net true 2>/dev/null; then
        echo "this system does not let root make network namespaces"
    else
        return 0
    fi
    return 1
}

# netns_existing: the namespaces of this cluster, whoever made them. Cluster "a" must not find those of cluster "a-b".
netns_existing()
{
    local path name
    [ "$(id -u)" -eq 0 ] || return 0 # others can see root's, but have made none
    for path in "$NETNS_FOLDER/millrace-$NAME-"*; do
        name=${path##*/}
        [[ ${name#"millrace-$NAME-"} =~ ^(sw|n[0-9]+)$ ]] && [ -e "$path" ] && echo "$name"
    done
    return 0
}

# netns_shape NAMESPACE DEVICE RATE: limits what leaves there. The bucket is deep enough for a full offload of several
# packets: with less, the rate collapses.
netns_shape()
{
    [ "$3" = none ] || tc -n "$1" qdisc replace dev "$2" root tbf rate "$3" burst 256k latency 20ms
}

# netns_choose: there is nothing to choose.
netns_choose()
{
    SUBNET=0
}

# netns_up: makes what is missing, also in a network that is half there.
netns_up()
{
    local switch i
    switch=$(netns_of coordinator)
    if [ ! -e "$NETNS_FOLDER/$switch" ]; then
        ip netns add "$switch" || return 1
    fi
    ip -n "$switch" link set lo up || return 1
    for ((i = 1; i <= SWITCHES; i++)); do
        netns_bridge "$switch" "br$i" || return 1
    done
    ip -n "$switch" addr replace "$(netns_address coordinator)/24" dev br1 || return 1
    [ "$SWITCHES" -eq 1 ] || netns_uplink "$switch" || return 1
    for ((i = 1; i <= NODES; i++)); do
        netns_node "$switch" "n$i" || return 1
    done
}

netns_bridge()
{
    if ! ip -n "$1" link show "$2" >/dev/null 2>&1; then
        ip -n "$1" link add "$2" mtu "$MTU" type bridge stp_state 0 forward_delay 0 || return 1
    fi
    ip -n "$1" link set "$2" mtu "$MTU" up
}

netns_uplink()
{
    if ! ip -n "$1" link show uplink >/dev/null 2>&1; then
        ip -n "$1" link add uplink mtu "$MTU" type veth peer name uplink-peer mtu "$MTU" || return 1
    fi
    ip -n "$1" link set uplink master br1 up || return 1
    ip -n "$1" link set uplink-peer master br2 up || return 1
    netns_shape "$1" uplink "$UPLINK" || return 1
    netns_shape "$1" uplink-peer "$UPLINK"
}

netns_node()
{
    local switch=$1 node=$2 namespace
    namespace=$(netns_of "$node")
    if [ ! -e "$NETNS_FOLDER/$namespace" ]; then
        ip netns add "$namespace" || return 1
    fi
    if ! ip -n "$namespace" link show eth0 >/dev/null 2>&1; then
        ip -n "$switch" link add "$node" mtu "$MTU" type veth peer name eth0 mtu "$MTU" netns "$namespace" || return 1
    fi
    ip -n "$switch" link set "$node" master "br$(link_switch "$node")" up || return 1
    ip -n "$namespace" addr replace "$(netns_address "$node")/24" dev eth0 || return 1
    ip -n "$namespace" link set lo up || return 1
    ip -n "$namespace" link set eth0 up || return 1
    link_rates "$node"
    netns_shape "$switch" "$node" "$link_receive" || return 1
    netns_shape "$namespace" eth0 "$link_send"
}

# netns_prefix MEMBER: sets network_prefix, the words that run a command where MEMBER lives.
netns_prefix()
{
    local last=$1
    [ "$last" != coordinator ] || last=sw
    network_prefix=(ip netns exec "millrace-$NAME-$last")
}

# netns_port: sets coordinator_port. Nobody else listens in a namespace of our own.
netns_port()
{
    coordinator_port=7400
}

# ancestors: our own pid and those above it, which `down` must not end even when called from inside a namespace.
ancestors()
{
    local pid=$$
    while [ "$pid" -gt 1 ]; do
        echo "$pid"
        pid=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status" 2>/dev/null) || return 0
    done
}

# netns_others NAMESPACE: the processes in it apart from ourselves. The namespace is this cluster's alone: what runs
# there are its daemons and clients that `run` started.
netns_others()
{
    ip netns pids "$1" 2>/dev/null | grep -vxF -f <(ancestors) || true
}

# netns_down: ends what still runs in the namespaces (clients; daemons whose records were lost) and removes them all.
netns_down()
{
    local namespace signal others tries status=0
    for signal in TERM KILL; do
        others=
        for namespace in $(netns_existing); do
            others+=" $(netns_others "$namespace")"
        done
        # shellcheck disable=SC2086 # words of pids
        [ -z "${others// /}" ] || kill "-$signal" $others 2>/dev/null || true
        for namespace in $(netns_existing); do
            for ((tries = 0; tries < 200; tries++)); do
                [ -n "$(netns_others "$namespace")" ] || break
                sleep 0.01
            done
        done
    done
    for namespace in $(netns_existing); do
        # An interrupted `ip netns add` leaves a name that is no namespace.
        ip netns delete "$namespace" 2>/dev/null || rm -f "$NETNS_FOLDER/$namespace" || status=1
    done
    [ "$status" -eq 0 ] || warn "could not remove: $(netns_existing | tr '\n' ' ')"
    return $status
}
