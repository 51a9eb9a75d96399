# shellcheck shell=bash disable=SC2154,SC2317 # called in place of others
# --dry-run: what would change anything is shown instead. The functions and programs that do so are replaced; all that
# only looks stays as it is, so that what is shown fits what is there.

show()
{
    local words
    printf -v words '%q ' "$@"
    echo "${words% }"
}

# dry_run: from here on, nothing is done.
dry_run()
{
    ip()
    {
        case " $* " in
        *" link show "* | *" netns pids "*) command ip "$@" ;;
        *) show ip "$@" ;;
        esac
    }
    tc() { show tc "$@"; }
    kill() { show kill "$@"; }
    netns_others() { :; } # ended by the kill above, or by `down` itself
    process_start()
    {
        shift 2
        show "$@"
    }
    process_stop_all()
    {
        local pid_file
        for pid_file in "$@"; do
            ! process_lives "$pid_file" || show kill -TERM "$process_pid"
        done
    }
    make_key() { [ -e "$STATE/key" ] || show "$BIN/millrace" key "$STATE/key"; }
    wait_ready() { :; }
    process_recall() { :; }
    process_trim_logs() { :; }
    state_lock() { state_find "$1"; }
    state_save() { :; }
    state_remove() { :; }
    loopback_choose() { loopback_pick; }
}
