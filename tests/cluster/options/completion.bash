#!/usr/bin/env bash
# completion.bash FOLDER: loads the generated completions into a shell and asks them, word by word as bash splits lines.
set -uo pipefail

failed=0

# completes WORDS... -- EXPECTED...: the last of WORDS is being typed; every expected word is offered.
completes()
{
    COMP_WORDS=() COMPREPLY=()
    while [ "$1" != -- ]; do
        COMP_WORDS+=("$1")
        shift
    done
    shift
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    "_${COMP_WORDS[0]}"
    local word
    for word in "$@"; do
        [[ " ${COMPREPLY[*]} " == *" $word "* ]] ||
            { echo "${COMP_WORDS[*]}: $word is not among ${COMPREPLY[*]}" && failed=1; }
    done
    if [ $# -eq 0 ] && [ ${#COMPREPLY[@]} -gt 0 ]; then
        echo "${COMP_WORDS[*]}: offers ${COMPREPLY[*]}" && failed=1
    fi
}

for program in millrace millraced; do
    # shellcheck source=/dev/null
    source "$1/$program" || exit 1
done
completes millrace j -- join jobs
completes millrace --c -- --coordinator=
completes millrace join --left-h -- --left-header=
completes millrace join --left-header = y -- yes
completes millrace join --left-header = -- yes no
completes millrace join --left-header n -- no
completes millrace join --on x --
completes millrace shuffle --json --in -- --in= --into= --incomplete=
completes millrace bisect --engine = uring-b -- uring-bundle
completes millrace join --report = /etc/passw -- /etc/passwd
completes millrace join --out /us -- /usr
completes millraced n -- node
completes millraced node --rx -- --rx-queues=
completes millraced coordinator --state = /us -- /usr
exit $failed
