# shellcheck shell=bash
# Where a cluster on this machine keeps what it knows: one folder per cluster, STATE, mode 0700:
#
#   settings        what `up` was asked for and chose, one "key=value" a line
#   pids/NAME       pid files (process.sh) of the coordinator and of n1 to nN
#   logs/NAME       what each wrote
#   key             the cluster's key
#   coordinator/    the coordinator's own state
#
# The folder itself is what is locked, so that no lock file has to outlive the cluster.

# state_find NAME: sets STATE, and STATE_ROOT, the folder that holds the clusters of this user; changes nothing.
state_find()
{
    if [ -n "${XDG_RUNTIME_DIR:-}" ] && [ -d "$XDG_RUNTIME_DIR" ] && [ -w "$XDG_RUNTIME_DIR" ]; then
        STATE_ROOT=$XDG_RUNTIME_DIR/millrace
    elif [ -d /run ] && [ -w /run ]; then
        STATE_ROOT=/run/millrace
    else
        STATE_ROOT=/tmp/millrace-$EUID
        # What is there says which programs are run: it must not be another user's.
        if [ -e "$STATE_ROOT" ] || [ -L "$STATE_ROOT" ]; then
            state_check_folder "$STATE_ROOT"
        fi
    fi
    STATE=$STATE_ROOT/$1
}

# state_make_folder FOLDER: makes it, ours and closed to others; in /tmp somebody else may have been there first.
state_make_folder()
{
    mkdir -m 0700 "$1" 2>/dev/null || [ -d "$1" ] || fail 1 "cannot make the folder $1"
    state_check_folder "$1"
}

state_check_folder()
{
    { [ -O "$1" ] && [ -d "$1" ] && [ ! -L "$1" ]; } || fail 1 "$1 is not a folder of this user: remove it, or set XDG_RUNTIME_DIR"
}

# state_lock NAME: sets STATE, makes the folder and locks it until the script ends or calls state_remove.
state_lock()
{
    state_find "$1"
    while :; do
        state_make_folder "$STATE_ROOT"
        state_make_folder "$STATE"
        { exec {cluster_lock}<"$STATE"; } 2>/dev/null || continue # removed by a `down` in between
        flock --timeout 120 "$cluster_lock" ||
            fail 1 "cluster $1 is busy: another deploy/cluster up or down has been at work for 2 minutes"
        # The one before us may have been a `down` that removed the folder: then this is a lock on nothing.
        [ "$STATE" -ef "/proc/self/fd/$cluster_lock" ] && break
        exec {cluster_lock}<&-
    done
    mkdir -p "$STATE/pids" "$STATE/logs" "$STATE/coordinator"
}

# state_recall: finds again what lives and no pid file names, unless another command is at work on the cluster.
state_recall()
{
    local lock
    { exec {lock}<"$STATE"; } 2>/dev/null || return 0
    ! flock --nonblock "$lock" || process_recall "$STATE/pids"
    exec {lock}<&-
}

# state_remove: removes all but decisions of the coordinator that are not carried out: the next `up` does that.
state_remove()
{
    local pending
    pending=$(decisions_pending "$STATE/coordinator")
    if [ "$pending" -gt 0 ]; then
        find "$STATE" -mindepth 1 -maxdepth 1 ! -name coordinator -exec rm -rf {} +
        exec {cluster_lock}<&-
        warn "decided, but not published yet: the results of $pending job(s); the coordinator's state is kept in" \
            "$STATE/coordinator. The next up of cluster $NAME publishes them; to give them up, remove that folder"
        return
    fi
    rm -rf "$STATE"
    exec {cluster_lock}<&-
    rmdir "$(dirname "$STATE")" 2>/dev/null || true # stays while there are other clusters
}

# state_save: writes the settings. They are global variables, named like the keys but in capitals.
SETTINGS="via nodes workers memory engine mtu link switches uplink bin subnet coordinator"

state_save()
{
    local key upper text=
    for key in $SETTINGS; do
        upper=${key^^}
        text+="$key=${!upper}"$'\n'
    done
    { printf '%s' "$text" >"$STATE/settings.new"; } 2>/dev/null && mv "$STATE/settings.new" "$STATE/settings" ||
        fail 1 "cannot write $STATE/settings: is there room? XDG_RUNTIME_DIR says where else it may go"
}

# state_load: reads them back; false when the cluster has none.
state_load()
{
    local key value
    [ -r "$STATE/settings" ] || return 1
    while IFS='=' read -r key value; do
        [[ " $SETTINGS " == *" $key "* ]] && printf -v "${key^^}" '%s' "$value"
    done <"$STATE/settings"
    # What calculations and commands are made of must be what state_save wrote.
    [[ $VIA =~ ^(netns|loopback)$ && $NODES =~ ^[1-9][0-9]{0,5}$ && $SUBNET =~ ^[0-9]{0,3}$ && $SWITCHES =~ ^[12]$ ]] ||
        fail 1 "$STATE/settings is damaged: deploy/cluster down --name $NAME, then up again"
}
