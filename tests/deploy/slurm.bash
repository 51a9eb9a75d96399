# shellcheck shell=bash disable=SC2034,SC2154
# Slurm over the hosts of lab.bash: munged, slurmctld in the bridge's namespace, a slurmd on every host. Everything is
# in $WORK/slurm; lab_end ends the slurmds and the controller, slurm_end munged.

slurm_possible()
{
    [ -x /usr/sbin/slurmctld ] && [ -x /usr/sbin/slurmd ] && [ -x /usr/sbin/munged ] && command -v srun >/dev/null
}

slurm_begin()
{
    local i host folder=$WORK/slurm
    mkdir -p "$folder/state" "$folder/cgroup"
    chmod 0755 "$WORK" "$folder"
    head -c 1024 /dev/urandom >"$folder/munge-key"
    chmod 0600 "$folder/munge-key"
    # In the foreground and a background of ours: its pid is certain then.
    /usr/sbin/munged --foreground --force --key-file="$folder/munge-key" --socket="$folder/munge" \
        --pid-file="$folder/munge-pid" --seed-file="$folder/munge-seed" --log-file="$folder/munge-log" \
        >"$folder/munged.out" 2>&1 &
    slurm_munged=$!
    cat >"$folder/cgroup.conf" <<CONFIG
CgroupPlugin=$(slurmd -V | awk '{ split($2, part, "."); print (part[1] >= 23 ? "disabled" : "cgroup/v1") }')
CgroupMountpoint=$folder/cgroup
CONFIG
    cat >"$folder/slurm.conf" <<CONFIG
ClusterName=lab
SlurmctldHost=ctl($LAB_NET.254)
SlurmUser=root
AuthInfo=socket=$folder/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool-%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd-%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
MailProg=/bin/true
KillWait=5
NodeName=n0[1-$lab_count] NodeAddr=$LAB_NET.[1-$lab_count] CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=30 State=UP
CONFIG
    export SLURM_CONF=$folder/slurm.conf
    lab unshare --uts sh -c 'hostname ctl && exec /usr/sbin/slurmctld -D' >"$folder/slurmctld.out" 2>&1 &
    for ((i = 1; i <= lab_count; i++)); do
        printf -v host 'n%02d' "$i"
        ip netns exec "$LAB-$host" unshare --uts sh -c 'hostname "$1" && exec /usr/sbin/slurmd -D -N "$1"' \
            slurmd "$host" >"$folder/slurmd-$host.out" 2>&1 &
    done
    ! await slurm_idle || return 0
    echo "Slurm does not get $lab_count idle nodes:"
    lab sinfo || true
    tail -n 5 "$folder"/*.log "$folder"/*.out || true
    return 1
}

slurm_idle()
{
    [ "$(lab sinfo -h -t idle -o %D 2>/dev/null || true)" = "$lab_count" ]
}

slurm_end()
{
    [ -z "${slurm_munged:-}" ] || kill "$slurm_munged" 2>/dev/null || true
}
