# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of deploy/cluster
# The help of deploy/cluster, and the options of clusters on this machine (those of others: remote/main.py).

NODES_MAX=200

usage()
{
    cat <<'HELP'
usage: deploy/cluster check   [--name NAME] [options]       look at every host, show what differs
       deploy/cluster push    [--name NAME] [options]       copy the programs to the hosts that have other ones
       deploy/cluster up      [--name NAME] [options]       start a cluster and wait until it is ready
       deploy/cluster run     [--name NAME] -- WORDS...     run the client: its output, its exit code
       deploy/cluster status  [--name NAME] [--json]        every process: name, role, address, pid, state
       deploy/cluster logs    [--name NAME] [-f] [--lines N] [MEMBER...]   in one stream, by time
       deploy/cluster restart [--name NAME] MEMBER          end one process and start it again
       deploy/cluster down    [--name NAME]                 end everything that belongs to it
       deploy/cluster install   [--name NAME] --hosts HOSTS [options]      as systemd units, for hosts that keep running
       deploy/cluster uninstall [--name NAME] --hosts HOSTS

Clusters of different names live side by side; without --name it is "default". The nodes are called n1 to nN, on
other hosts like these. Both up and down may be repeated: up starts what is missing, down of nothing succeeds.
--dry-run with check, push, up, restart or down prints the commands and runs none.

Options of up:
  --nodes N        nodes (6)
  --workers W      workers per node (the machine's cores divided by the nodes, at least 1)
  --memory BYTES   memory per node, also as 512Mi or 2G (a fair share of half of the machine's)
  --engine ENGINE  what the nodes use where a job names no engine, of `millrace engines' (auto)
  --via KIND       netns: a network namespace per node on a bridge, needs root; loopback: loopback addresses;
                   auto: netns where it works (the default); ssh: other hosts; slurm: the nodes of this allocation
  --mtu BYTES      of the links between namespaces (1500, and 9000 where rates are limited)
  --link RATES     limits of the nodes' links, in tc's notation: 500mbit; 500mbit/200mbit to send and to receive;
                   500mbit,n3=200mbit,n5=none for single nodes (no limit)
  --switches N     1, or 2: the first half of the nodes on one switch, the rest on another (1)
  --uplink RATE    limit of the link between the two switches in each direction (no limit)
  --bin FOLDER     where millrace and millraced are (build/release/bin, or $MILLRACE_BIN)
  --timeout S      how long to wait for the nodes (30)

Other hosts (check, push and up; all but --hosts also without):
  --hosts HOSTS    a file with a host a line, or a list such as a,b or n[01-06]; [user@]host[:port], then cores=N,
                   nic=INTERFACE or ADDRESS, name=NODE; the first host has the coordinator, too
  --workers W      workers per node (a core each)          --memory BYTES   (half of the host's)
  --port P         the coordinator's (7400)                --parallel N     hosts at a time (32)
  --ssh COMMAND    instead of ssh, such as "ssh -F FILE"; passwords are never asked for
  --remote-bin FOLDER   the programs that are there already: nothing is copied
  down --forget    give up hosts that do not answer

Options of run:
  --folder FOLDER  keep command, output, report, logs and versions in this new folder; jobs on other hosts always do,
                   without it under ~/.local/state/millrace/runs, the last 100 of a cluster

Options of logs:
  --lines N        the last N lines of each (40)
  --follow, -f     and what is added from now on

Examples:
  deploy/cluster up --nodes 4
  deploy/cluster run -- join --left a.csv --right b.csv --on id=a_id
  deploy/cluster down

  deploy/cluster up --hosts 'n[01-06]'

Exit codes: 0 ok, 1 failed, 2 usage, 3 the cluster is not up or not complete; run: the client's own.
HELP
}

usage_fail()
{
    fail 2 "$*; deploy/cluster --help shows what there is"
}

# no_option OPTION: those of the command are in `allowed`.
no_option()
{
    local -a known
    read -ra known <<<"$allowed"
    usage_fail "$VERB: there is no option \"$1\"$(nearest "$1" "${known[@]}")"
}

# nearest WORD KNOWN...: ` (did you mean "..."?)` when a known word is near, by the client's rule: at most one letter
# inserted, deleted, changed or swapped with its neighbour for every three letters of the word.
nearest()
{
    local word=$1 known best='' limit=$((${#1} / 3)) i j least
    local -a row before last
    shift
    for known in "$@"; do
        before=() row=()
        for ((j = 0; j <= ${#known}; j++)); do row[j]=$j; done
        for ((i = 1; i <= ${#word}; i++)); do
            last=("${before[@]}") before=("${row[@]}") row=("$i")
            for ((j = 1; j <= ${#known}; j++)); do
                least=$((before[j - 1] + 1))
                [ "${word:i-1:1}" != "${known:j-1:1}" ] || least=${before[j - 1]}
                least=$((before[j] + 1 < least ? before[j] + 1 : least))
                least=$((row[j - 1] + 1 < least ? row[j - 1] + 1 : least))
                if ((i > 1 && j > 1)) && [ "${word:i-2:2}" = "${known:j-1:1}${known:j-2:1}" ]; then
                    least=$((last[j - 2] + 1 < least ? last[j - 2] + 1 : least))
                fi
                row[j]=$least
            done
        done
        ((row[${#known}] <= limit)) || continue
        limit=$((row[${#known}] - 1)) best=$known
    done
    [ -z "$best" ] || printf ' (did you mean "%s"?)' "$best"
}

# bytes_of WORD: a size such as 512Mi in bytes, written as the client writes sizes; false when it is none or exceeds
# 63 bits.
bytes_of()
{
    local base=1000 power=0 unit
    [[ $1 =~ ^([1-9][0-9]{0,14})([kKMGT]?)(i?)$ ]] || return 1
    case ${BASH_REMATCH[2]} in
    k | K) power=1 ;;
    M) power=2 ;;
    G) power=3 ;;
    T) power=4 ;;
    esac
    [ -z "${BASH_REMATCH[3]}" ] || base=1024
    unit=$((base ** power))
    [ "${BASH_REMATCH[1]}" -le $((0x7fffffffffffffff / unit)) ] || return 1
    echo $((BASH_REMATCH[1] * unit))
}

# parse ARGUMENTS...: sets the option variables, NAME and REST (what is no option). GIVEN holds the settings that were
# asked for, as "key=value".
parse()
{
    NAME=default REST=() GIVEN=() TIMEOUT=30 JSON=false FOLLOW=false LINES_SHOWN=40 FOLDER='' DRY=false
    VIA=auto NODES=6 WORKERS='' MEMORY='' ENGINE='' MTU='' LINK=none SWITCHES=1 UPLINK=none SUBNET='' COORDINATOR=''
    BIN=${MILLRACE_BIN:-$DEPLOY/../build/release/bin}
    local option value allowed=" --name $OPTIONS "
    while [ $# -gt 0 ]; do
        option=$1
        case $option in
        --help | -h)
            usage
            exit 0
            ;;
        --)
            shift
            REST+=("$@")
            break
            ;;
        -*) ;;
        *)
            REST+=("$option")
            shift
            # The client's own options follow its first word.
            if [ "$VERB" = run ]; then
                REST+=("$@")
                break
            fi
            continue
            ;;
        esac
        shift
        value=
        if [[ $option == --*=* ]]; then
            value=${option#*=}
            option=${option%%=*}
            set -- "$value" "$@"
        fi
        [ "$option" != -f ] || option=--follow
        [[ $allowed == *" $option "* ]] || no_option "$option"
        case $option in
        --json)
            JSON=true
            continue
            ;;
        --follow)
            FOLLOW=true
            continue
            ;;
        --dry-run)
            DRY=true
            continue
            ;;
        esac
        [ $# -gt 0 ] || usage_fail "$VERB: $option lacks its value: write $option=VALUE"
        value=$1
        shift
        parse_value "$option" "$value"
    done
    [[ $NAME =~ ^[a-z0-9][a-z0-9-]{0,39}$ ]] ||
        usage_fail "--name '$NAME': a name is made of a-z, 0-9 and -, 40 characters at most"
}

least_of()
{
    [ "$1" = --mtu ] && echo 576 || echo 1
}

most_of()
{
    case $1 in
    --nodes) echo $NODES_MAX ;;
    --workers) echo 1024 ;;
    --mtu) echo 65521 ;;
    *) echo 999999 ;;
    esac
}

parse_value()
{
    local option=$1 value=$2
    case $option in
    --name) NAME=$value ;;
    --nodes | --workers | --mtu | --timeout | --lines)
        [[ $value =~ ^[0-9]{1,6}$ ]] || usage_fail "$option=$value is not a number from 1 to $(most_of "$option")"
        { [ "$value" -ge "$(least_of "$option")" ] && [ "$value" -le "$(most_of "$option")" ]; } ||
            usage_fail "$option=$value is out of range: it goes from $(least_of "$option") to $(most_of "$option")"
        value=$((10#$value))
        ;;&
    --nodes)
        NODES=$value
        ;;
    --workers)
        WORKERS=$value
        ;;
    --mtu)
        MTU=$value
        ;;
    --timeout) TIMEOUT=$value ;;
    --lines) LINES_SHOWN=$value ;;
    --memory)
        MEMORY=$(bytes_of "$value") ||
            usage_fail "--memory=$value is not a size such as 512Mi or 2G"
        ;;
    --engine)
        [[ $value =~ ^[a-z][a-z0-9=+-]*$ ]] || usage_fail "--engine=$value is no engine: choose one of those that millrace engines lists"
        ENGINE=$value
        ;;
    --link)
        link_valid "$value" || usage_fail "--link=$value is not understood: write rates such as 500mbit,n3=200mbit/500mbit"
        LINK=$value
        ;;
    --switches)
        [[ $value =~ ^[12]$ ]] || usage_fail "--switches=$value is not understood: choose 1 or 2"
        SWITCHES=$value
        ;;
    --uplink)
        [[ $value =~ ^$LINK_RATE$ ]] || usage_fail "--uplink=$value is not understood: write a rate such as 600mbit"
        UPLINK=$value
        ;;
    --via)
        [[ $value =~ ^(auto|netns|loopback)$ ]] || usage_fail "--via=$value is not understood$(nearest "$value" auto netns loopback ssh slurm): choose one of auto, netns, loopback"
        VIA=$value
        [ "$value" != auto ] || return 0
        ;;
    --bin) BIN=$value ;;
    --folder) FOLDER=$value ;;
    esac
    case $option in
    --nodes | --workers | --mtu | --link | --switches | --uplink | --engine | --via) GIVEN+=("${option#--}=$value") ;;
    --memory) GIVEN+=("memory=$MEMORY") ;;
    --bin) GIVEN+=("bin=$(readlink -m "$BIN")") ;;
    esac
}
