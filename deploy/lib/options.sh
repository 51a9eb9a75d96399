# shellcheck shell=bash disable=SC2034,SC2153,SC2154 # variables of deploy/cluster
# The commands and options of deploy/cluster by their table (options.table says what is in it): --help, and the words of
# clusters on this machine. Those of other hosts: remote/options.py.

declare -a COMMANDS=() OPTIONS=() HELP_ROWS=()
declare -A COMMAND_USE=() OPTION_VALUE=() OPTION_KIND=() OPTION_HERE=() OPTION_THERE=() OPTION_VARIABLE=() OPTION_KEPT=()
declare -A OPTION_PRESET=() OPTION_UNSET=() OPTION_LETTER=() TABLE_HELP=()

# options_load: reads the table.
options_load()
{
    local line key rest row=''
    while IFS= read -r line; do
        line=${line#"${line%%[! ]*}"}
        key=${line%% *}
        rest=${line#"$key"}
        rest=${rest# }
        case $key in
        command)
            row=${rest%% *}
            COMMANDS+=("$row")
            COMMAND_USE[$row]=$rest
            ;;
        group) HELP_ROWS+=("$rest") ;;
        --*)
            row=$key
            OPTIONS+=("$row")
            HELP_ROWS+=("$row")
            OPTION_VALUE[$row]=$rest
            ;;
        help) TABLE_HELP[$row]=$rest ;;
        kind) OPTION_KIND[$row]=$rest ;;
        letter) OPTION_LETTER[$row]=$rest ;;
        here) OPTION_HERE[$row]=" $rest " ;;
        there) OPTION_THERE[$row]=" $rest " ;;
        variable) OPTION_VARIABLE[$row]=$rest ;;
        kept) OPTION_KEPT[$row]=true ;;
        preset) OPTION_PRESET[$row]=$rest ;;
        unset) OPTION_UNSET[$row]=$rest ;;
        esac
    done <"$DEPLOY/lib/options.table"
}

# help_row LEFT TEXT: two columns, the right one wrapped.
help_row()
{
    local word column=26 width=80 line
    local -a words
    read -ra words <<<"$2"
    printf -v line '  %-*s' $((column - 2)) "$1"
    [ ${#line} -le $column ] || {
        echo "$line"
        printf -v line '%*s' $column ''
    }
    for word in "${words[@]}"; do
        if [ $((${#line} + ${#word} + 1)) -gt $width ]; then
            echo "${line% }"
            printf -v line '%*s' $column ''
        fi
        line+="$word "
    done
    echo "${line% }"
}

usage()
{
    local row text
    echo "usage: deploy/cluster COMMAND [OPTION...]"
    echo
    for row in "${COMMANDS[@]}"; do
        printf '  deploy/cluster %s\n' "${COMMAND_USE[$row]}"
        printf '      %s\n' "${TABLE_HELP[$row]}"
    done
    cat <<'HELP'

The nodes are called n1 to nN; on other hosts like these. Both up and down may be repeated: up starts what is missing,
down of nothing succeeds.
HELP
    for row in "${HELP_ROWS[@]}"; do
        if [[ $row != --* ]]; then
            printf '\n%s:\n' "$row"
            continue
        fi
        text=${TABLE_HELP[$row]}
        [ -z "${OPTION_UNSET[$row]-}" ] || text+=" (default: ${OPTION_UNSET[$row]})"
        [ -z "${OPTION_PRESET[$row]-}" ] || text+=" (default: ${OPTION_PRESET[$row]})"
        help_row "${OPTION_LETTER[$row]:+-${OPTION_LETTER[$row]}, }$row${OPTION_VALUE[$row]:+ ${OPTION_VALUE[$row]}}" "$text"
    done
    cat <<'HELP'

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

# no_option OPTION
no_option()
{
    local row
    local -a known=()
    [[ ${OPTION_THERE[$1]-} != *" $VERB "* ]] || usage_fail "$VERB: $1 is for clusters on other hosts (--hosts)"
    for row in "${OPTIONS[@]}"; do
        [[ ${OPTION_HERE[$row]-}${OPTION_THERE[$row]-} != *" $VERB "* ]] || known+=("$row")
    done
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

# options_preset: what holds without the options. Those whose default is computed are empty, and flags are off.
options_preset()
{
    local row
    for row in "${OPTIONS[@]}"; do
        if [ -n "${OPTION_VALUE[$row]}" ]; then
            printf -v "${OPTION_VARIABLE[$row]}" %s "${OPTION_PRESET[$row]-}"
        else
            printf -v "${OPTION_VARIABLE[$row]}" false
        fi
    done
    BIN=${MILLRACE_BIN:-$DEPLOY/../build/release/bin}
}

# parse ARGUMENTS...: sets the option variables and REST (what is no option). GIVEN holds the settings that were asked
# for and that a cluster keeps, as "key=value".
parse()
{
    local word option value row
    local -A seen=()
    REST=() GIVEN=() SUBNET='' COORDINATOR=''
    options_preset
    while [ $# -gt 0 ]; do
        word=$1
        shift
        case $word in
        --help | -h)
            usage
            exit 0
            ;;
        --)
            REST+=("$@")
            return
            ;;
        -*) ;;
        *)
            REST+=("$word")
            # The client's own options follow its first word.
            [ "$VERB" != run ] || {
                REST+=("$@")
                return
            }
            continue
            ;;
        esac
        option=$word
        [[ $word != --*=* ]] || option=${word%%=*}
        for row in "${!OPTION_LETTER[@]}"; do
            [ "$option" != "-${OPTION_LETTER[$row]}" ] || option=$row
        done
        [[ ${OPTION_HERE[$option]-} == *" $VERB "* ]] || no_option "$option"
        if [ -z "${OPTION_VALUE[$option]}" ]; then
            [[ $word != --*=* ]] || usage_fail "\"$word\": $option takes no value"
            printf -v "${OPTION_VARIABLE[$option]}" true
            continue
        fi
        if [[ $word == --*=* ]]; then
            value=${word#*=}
        else
            [ $# -gt 0 ] || usage_fail "$option lacks its value: write $option=${OPTION_VALUE[$option]}"
            value=$1
            shift
        fi
        [ -n "$value" ] || usage_fail "$option has an empty value: give it one, or omit the option"
        # Of two values neither may win unseen.
        [ "${seen[$option]-$value}" = "$value" ] ||
            usage_fail "$option is given twice, with \"${seen[$option]}\" and \"$value\": give it once"
        seen[$option]=$value
        take_value "$option" "$value"
    done
}

# take_value OPTION VALUE: checks it and sets the option's variable.
take_value()
{
    local option=$1 value=$2
    check_value "$option" "$value"
    printf -v "${OPTION_VARIABLE[$option]}" %s "$checked"
    if [ -n "${OPTION_KEPT[$option]-}" ] && [ "$option=$value" != --via=auto ]; then
        [ "$option" != --bin ] || checked=$(readlink -m "$checked")
        GIVEN+=("${option#--}=$checked")
    fi
}

# check_value OPTION VALUE: sets `checked`, the value as it is kept: numbers without zeros before them, sizes in bytes.
check_value()
{
    local option=$1 value=$2
    local -a kind
    read -ra kind <<<"${OPTION_KIND[$option]}"
    checked=$value
    case ${kind[0]} in
    number)
        [[ $value =~ ^[0-9]{1,6}$ ]] || usage_fail "$option=$value is not a number from ${kind[1]} to ${kind[2]}"
        checked=$((10#$value))
        { [ "$checked" -ge "${kind[1]}" ] && [ "$checked" -le "${kind[2]}" ]; } ||
            usage_fail "$option=$value is out of range: it goes from ${kind[1]} to ${kind[2]}"
        ;;
    choice)
        [[ " ${kind[*]:1} " == *" $value "* ]] || {
            printf -v value '%s, ' "${kind[@]:1}"
            usage_fail "$option=$2 is not understood$(nearest "$2" "${kind[@]:1}"): choose one of ${value%, }"
        }
        ;;
    size) checked=$(bytes_of "$value") || usage_fail "$option=$value is not a size such as 512Mi or 2G" ;;
    name)
        [[ $value =~ ^[a-z0-9][a-z0-9-]{0,39}$ ]] ||
            usage_fail "$option=$value is no name: it is made of a-z, 0-9 and -, 40 characters at most"
        ;;
    engine)
        [[ $value =~ ^[a-z][a-z0-9=+-]*$ ]] ||
            usage_fail "$option=$value is no engine: choose one of those that millrace engines lists"
        ;;
    link)
        link_valid "$value" ||
            usage_fail "$option=$value is not understood: write rates such as 500mbit,n3=200mbit/500mbit"
        ;;
    rate)
        [[ $value =~ ^$LINK_RATE$ ]] || usage_fail "$option=$value is not understood: write a rate such as 600mbit"
        ;;
    esac
}

# no_words COMMAND: fails when there are words that are no options.
no_words()
{
    [ ${#REST[@]} -eq 0 ] || usage_fail "$VERB takes no bare word like \"${REST[0]}\""
}
