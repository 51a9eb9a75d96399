# shellcheck shell=bash disable=SC2034,SC2154
# The part of the agent that installs a cluster's daemons as systemd units, as root. What it puts where:
#
#   /usr/local/bin/millrace, millraced
#   /etc/systemd/system/millrace-node.service, on the first host millrace-coordinator.service, too
#   /etc/millrace/         cluster (its name), key, node.conf, coordinator.conf
#   /etc/sysusers.d/millrace.conf and the user millrace, whose files the daemons can read
#   /var/lib/millrace/     the coordinator's state

INSTALL_ETC=/etc/millrace
INSTALL_UNITS=/etc/systemd/system

# install_possible CLUSTER: root, systemd, and no other cluster in these places.
install_possible()
{
    local other
    [ "$(id -u)" -eq 0 ] || fail 1 "installing needs root there: root@HOST, with a key of yours among root's"
    command -v systemctl >/dev/null || fail 1 "installing needs systemd there"
    other=$(cat "$INSTALL_ETC/cluster" 2>/dev/null || echo "$1")
    [ "$other" = "$1" ] || fail 1 "cluster $other is installed there: deploy/cluster uninstall --name $other first"
    if [ ! -e "$INSTALL_ETC/cluster" ] && [ -e /usr/local/bin/millraced ]; then
        fail 1 "there is a /usr/local/bin/millraced of somebody else's: remove it first"
    fi
}

# install_file SIZE TARGET MODE OWNER: takes a file from standard input.
install_file()
{
    (umask 077 && head -c "$1" >"$2.new") && [ "$(stat -c %s "$2.new")" -eq "$1" ] ||
        fail 1 "$2 did not arrive whole, or there is no room"
    chown "$4" "$2.new" && chmod "$3" "$2.new" && mv "$2.new" "$2"
}

# install_conf FILE OPTIONS: the options of a daemon, which its unit reads.
install_conf()
{
    {
        echo "# Written by deploy/cluster install; restart the unit after a change."
        echo "MILLRACE_OPTIONS=\"$2\""
    } >"$1.new"
    chmod 0644 "$1.new" && mv "$1.new" "$1"
}

# agent_install CLUSTER PORT NODE-OPTIONS COORDINATOR-OPTIONS SIZE...: sizes of millrace, millraced, the sysusers file,
# the key and the units, which come on standard input in this order. COORDINATOR-OPTIONS is empty on all but one host.
# PORT is where that coordinator listens.
agent_install()
{
    local cluster=$1 port=$2 node=$3 coordinator=$4 owner
    shift 4
    install_possible "$cluster"
    if [ -n "$coordinator" ] && ! systemctl is-active --quiet millrace-coordinator 2>/dev/null &&
        owner=$(port_owner "$port"); then
        fail 1 "port $port is taken by $owner; --port gives the cluster another"
    fi
    mkdir -p /usr/local/bin /etc/sysusers.d "$INSTALL_UNITS" "$INSTALL_ETC"
    chmod 0755 "$INSTALL_ETC"
    echo "$cluster" >"$INSTALL_ETC/cluster"
    install_file "$1" /usr/local/bin/millrace 0755 0:0
    install_file "$2" /usr/local/bin/millraced 0755 0:0
    install_file "$3" /etc/sysusers.d/millrace.conf 0644 0:0
    agent_version /usr/local/bin
    systemd-sysusers /etc/sysusers.d/millrace.conf </dev/null ||
        fail 1 "systemd-sysusers could not make the user millrace"
    install_file "$4" "$INSTALL_ETC/key" 0400 millrace:millrace
    install_file "$5" "$INSTALL_UNITS/millrace-node.service" 0644 0:0
    install_conf "$INSTALL_ETC/node.conf" "$node"
    if [ -n "$coordinator" ]; then
        install_file "$6" "$INSTALL_UNITS/millrace-coordinator.service" 0644 0:0
        install_conf "$INSTALL_ETC/coordinator.conf" "$coordinator"
    fi
    systemctl daemon-reload || fail 1 "systemctl does not work there: is systemd running?"
    [ -z "$coordinator" ] || install_start millrace-coordinator
    install_start millrace-node
}

# install_start UNIT: now and at every boot. A restart, so that a repeated install brings what is new into force.
install_start()
{
    systemctl enable --quiet "$1" && systemctl restart "$1" ||
        fail 1 "$1 does not start: $(systemctl status --no-pager --lines=5 "$1" 2>&1)"
}

# agent_uninstall CLUSTER: also what a half-done install left. The user stays, for files may belong to it, and the
# coordinator's state while there are decisions in it that are not carried out.
agent_uninstall()
{
    local unit
    install_possible "$1"
    [ -e "$INSTALL_ETC/cluster" ] || return 0
    for unit in millrace-node millrace-coordinator; do
        [ -e "$INSTALL_UNITS/$unit.service" ] || continue
        systemctl disable --quiet --now "$unit" || fail 1 "$unit could not be stopped"
        rm -f "$INSTALL_UNITS/$unit.service"
    done
    systemctl daemon-reload || true
    if [ "$(decisions_pending /var/lib/millrace/coordinator)" -gt 0 ]; then
        echo "kept=/var/lib/millrace/coordinator"
    else
        rm -rf /var/lib/millrace
    fi
    rm -rf "$INSTALL_ETC" /etc/sysusers.d/millrace.conf "$INSTALL_UNITS"/millrace-*.new
    rm -f /usr/local/bin/millrace /usr/local/bin/millraced /usr/local/bin/millrace.new /usr/local/bin/millraced.new
}
