# shellcheck shell=bash disable=SC2034,SC2153 # variables of deploy/cluster
# What --link and --uplink ask of the links between namespaces. Rates are in tc's notation; "none" is no limit.

LINK_RATE='([1-9][0-9]{0,5}[kmgt]?(bit|bps)|none)'

# link_valid SPEC: whether it is one rate for all nodes, or send/receive, then or instead NODE=RATE for single ones.
link_valid()
{
    local item
    [[ $1 =~ ^[^,[:space:]]+(,[^,[:space:]]+)*$ ]] || return 1
    [[ ${1#*,} == "$1" ]] || [[ ${1#*,} =~ ^n[0-9]+=[^,=]+(,n[0-9]+=[^,=]+)*$ ]] || return 1
    for item in ${1//,/ }; do
        [[ $item =~ ^(n[1-9][0-9]*=)?$LINK_RATE(/$LINK_RATE)?$ ]] || return 1
    done
}

# link_stranger SPEC: prints the nodes it names that a cluster of NODES nodes does not have, and those it names twice.
link_stranger()
{
    local item node seen=' '
    for item in ${1//,/ }; do
        [[ $item == *=* ]] || continue
        node=${item%%=*}
        if [ "${node#n}" -gt "$NODES" ] || [[ $seen == *" $node "* ]]; then
            echo "$node"
        fi
        seen+="$node "
    done
}

# link_rates NODE: sets link_send and link_receive, seen from the node.
link_rates()
{
    local item rates=none
    for item in ${LINK//,/ }; do
        case $item in
        "$1"=*) rates=${item#*=} ;;
        *=*) ;;
        *) rates=$item ;;
        esac
    done
    link_send=${rates%%/*}
    link_receive=${rates##*/}
}

# link_switch NODE: the switch it hangs on. With two, the first half of the nodes is on the first.
link_switch()
{
    if [ "${1#n}" -le $(((NODES + SWITCHES - 1) / SWITCHES)) ]; then
        echo 1
    else
        echo 2
    fi
}
