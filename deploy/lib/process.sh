# shellcheck shell=bash
# Daemons and their pid files.
#
# A pid alone names no process for long: the kernel gives it to the next one. A pid file therefore holds three words,
# pid, start time in clock ticks since boot, and boot id, which together name one process for ever. A process counts as
# ours only if all three agree and its command line has "millraced" in it.
#
# A pid file can be damaged or removed while its daemon lives. Every daemon therefore also has the path of its pid file
# in its environment, and process_recall finds those that no file names.

BOOT_ID_FILE=/proc/sys/kernel/random/boot_id

# process_stat PID: sets stat_state and stat_start from /proc/PID/stat; false when there is no such process.
process_stat()
{
    local text words
    text=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # The second field is the program's name in parentheses and may itself hold blanks and parentheses.
    read -r -a words <<<"${text##*) }"
    stat_state=${words[0]}
    stat_start=${words[19]}
}

# process_read PIDFILE: sets process_pid and process_state, one of running, stopped, dead. Dead is also what became
# another process's pid, and a zombie, which nobody may be there to reap.
process_read()
{
    local pid start boot command
    process_pid=0
    process_state=dead
    { read -r pid start boot <"$1"; } 2>/dev/null || return 0
    [[ $pid =~ ^[1-9][0-9]{0,8}$ ]] || return 0
    process_pid=$pid
    [ "$boot" = "$(<"$BOOT_ID_FILE")" ] || return 0
    process_stat "$pid" || return 0
    [ "$stat_start" = "$start" ] || return 0
    command=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 0
    [[ $command == *millraced* ]] || return 0
    case $stat_state in
    Z | X) ;;
    T | t) process_state=stopped ;;
    *) process_state=running ;;
    esac
}

process_lives()
{
    process_read "$1"
    [ "$process_state" != dead ]
}

# process_recall FOLDER: gives every living daemon whose pid file in FOLDER does not name it a file that does: its own,
# or MEMBER~PID where another one has that meanwhile. The folder's cluster must be locked.
process_recall()
{
    local environ pid file boot
    read -r boot <"$BOOT_ID_FILE"
    while IFS= read -r environ; do
        pid=${environ#/proc/} pid=${pid%/environ}
        file=$(tr '\0' '\n' <"$environ" 2>/dev/null | sed -n 's/^MILLRACE_PID_FILE=//p') || continue
        [[ $file == "$1"/* && ${file#"$1"/} != */* ]] || continue
        process_read "$file"
        [ "$process_state" = dead ] || [ "$process_pid" != "$pid" ] || continue
        [ "$process_state" = dead ] || file=$file~$pid
        process_stat "$pid" || continue
        { echo "$pid $stat_start $boot" >"$file.new" && mv "$file.new" "$file"; } 2>/dev/null || true
    done < <(grep -lzsF "MILLRACE_PID_FILE=$1/" /proc/[0-9]*/environ)
}

# process_start PIDFILE LOG COMMAND...: starts a daemon in a session of its own, so that a Ctrl-C at the terminal does
# not reach it, and without our open files: a caller that reads our output through a pipe would wait for its end until
# the daemon stops, and a lock would stay held. It writes its own pid file before it becomes COMMAND: however early the
# caller is killed, a daemon that runs has a pid file, and `down` finds it. Returns once the file is there.
process_start()
{
    local pid_file=$1 log=$2 tries child
    shift 2
    rm -f "$pid_file"
    # shellcheck disable=SC2016 # expanded by the shell that becomes the daemon
    MILLRACE_PID_FILE=$pid_file setsid bash -c '
        for fd in /proc/$$/fd/*; do
            fd=${fd##*/}
            [ "$fd" -le 2 ] || eval "exec $fd>&-"
        done
        text=$(</proc/$$/stat)
        read -r -a words <<<"${text##*) }"
        read -r boot <"$1"
        echo "$$ ${words[19]} $boot" >"$2.new" && mv "$2.new" "$2" || exit 1
        shift 2
        exec "$@"' millraced-start "$BOOT_ID_FILE" "$pid_file" "$@" \
        </dev/null >>"$log" 2>&1 &
    child=$!
    for ((tries = 0; tries < 6000; tries++)); do
        [ -e "$pid_file" ] && return 0
        kill -0 "$child" 2>/dev/null || break
        sleep 0.01
    done
    [ -e "$pid_file" ] && return 0
    rm -f "$pid_file.new"
    warn "could not start $(basename "$pid_file"): it made no $pid_file; is there room for it, and may it be written?"
    return 1
}

# A daemon appends to its log for as long as it runs. One that has grown beyond LOG_BYTES_MAX when a command looks at the
# cluster is emptied, and its last LOG_BYTES_KEPT are in LOG.1 then.
LOG_BYTES_MAX=$((64 << 20))
LOG_BYTES_KEPT=$((16 << 20))

# process_trim_logs FOLDER
process_trim_logs()
{
    local log
    while IFS= read -r log; do
        tail -c "$LOG_BYTES_KEPT" "$log" >"$log.1.new" && mv "$log.1.new" "$log.1" && : >"$log" || true
    done < <(find "$1" -maxdepth 1 -type f ! -name '*.1' ! -name '*.new' -size "+${LOG_BYTES_MAX}c" 2>/dev/null)
}

# decisions_pending FOLDER: how many results the coordinator whose state is in the folder has decided to publish and not
# yet published everywhere. Only a coordinator with this folder can.
decisions_pending()
{
    find "$1" -mindepth 1 -maxdepth 1 -name 'decision-*' 2>/dev/null | wc -l
}

# process_stop_all PIDFILE...: SIGTERM to all of them at once, SIGKILL to those that are still there after 5 s. Their
# pid files go. False, after a message, when one outlives even that.
process_stop_all()
{
    local pid_file status=0
    for pid_file in "$@"; do
        process_read "$pid_file"
        [ "$process_state" = dead ] && continue
        kill -TERM "$process_pid" 2>/dev/null || true
        # A stopped process takes SIGTERM only once it goes on.
        [ "$process_state" = stopped ] && kill -CONT "$process_pid" 2>/dev/null
    done
    process_await_end 500 "$@" || true
    for pid_file in "$@"; do
        process_read "$pid_file"
        [ "$process_state" = dead ] && continue
        warn "$(basename "$pid_file") (pid $process_pid) did not stop within 5 s of SIGTERM: killing it"
        kill -KILL "$process_pid" 2>/dev/null || true
    done
    process_await_end 300 "$@" || true
    for pid_file in "$@"; do
        if process_lives "$pid_file"; then
            warn "$(basename "$pid_file") (pid $process_pid) survived SIGKILL; it is kept in the records"
            status=1
        else
            rm -f "$pid_file"
        fi
    done
    return $status
}

# process_await_end TRIES PIDFILE...: waits until all have ended, TRIES hundredths of a second at most.
process_await_end()
{
    local tries=$1 pid_file
    shift
    for pid_file in "$@"; do
        while process_lives "$pid_file"; do
            ((tries-- > 0)) || return 1
            sleep 0.01
        done
    done
}
