# shellcheck shell=bash
# Messages. PROGRAM is the name they begin with, set by the script that sources this.

say()
{
    printf '%s: %s\n' "$PROGRAM" "$*"
}

warn()
{
    printf '%s: %s\n' "$PROGRAM" "$*" >&2
}

# fail STATUS WORDS: the end of the script.
fail()
{
    local status=$1
    shift
    warn "$*"
    exit "$status"
}
