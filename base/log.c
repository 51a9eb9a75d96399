#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/shown.h"

enum { NAME_BYTES = 64, LINE_BYTES = 2048, TERMINAL_WAIT_NS = 100000000 };

static _Atomic(enum base_log_level) level_max = BASE_LOG_INFO;
static atomic_ulong lines_lost; /* since the last that could be written */
static pthread_mutex_t name_lock = PTHREAD_MUTEX_INITIALIZER;
static char name_shown[NAME_BYTES] = "-";

void base_log_set_level(enum base_log_level level)
{
    atomic_store_explicit(&level_max, level, memory_order_relaxed);
}

void base_log_set_name(const char *name)
{
    pthread_mutex_lock(&name_lock);
    snprintf(name_shown, sizeof name_shown, "%s", name);
    pthread_mutex_unlock(&name_lock);
}

static const char *level_words(enum base_log_level level)
{
    switch (level) {
    case BASE_LOG_ERROR:
        return "error";
    case BASE_LOG_WARN:
        return "warn";
    case BASE_LOG_INFO:
        return "info";
    case BASE_LOG_DEBUG:
        return "debug";
    }
    return "?";
}

/* Writes "2026-01-31T12:00:00.123Z level name " and returns its length. */
static size_t prefix_write(char *line, size_t line_bytes, enum base_log_level level)
{
    struct timespec now;
    struct tm calendar;
    char date[32];
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &calendar);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &calendar);
    pthread_mutex_lock(&name_lock);
    int written =
        snprintf(line, line_bytes, "%s.%03ldZ %s %s ", date, now.tv_nsec / 1000000, level_words(level), name_shown);
    pthread_mutex_unlock(&name_lock);
    return written > 0 ? (size_t)written : 0;
}

/* A pipe that cannot be opened anew: a pipe of ours takes the line, and the kernel moves it over if there is room. */
static bool spliced_write(const char *line, size_t bytes)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int ours[2] = {-1, -1}; /* empty but for a line that is being moved */
    pthread_mutex_lock(&lock);
    bool written = ours[0] >= 0 || pipe2(ours, O_NONBLOCK | O_CLOEXEC) == 0;
    written = written && write(ours[1], line, bytes) == (ssize_t)bytes &&
              splice(ours[0], NULL, STDERR_FILENO, NULL, bytes, SPLICE_F_NONBLOCK) == (ssize_t)bytes;
    const int failed = errno;
    char rest[LINE_BYTES];
    while (!written && ours[0] >= 0 && read(ours[0], rest, sizeof rest) > 0)
        ;
    pthread_mutex_unlock(&lock);
    errno = failed;
    return written;
}

/* A terminal of another user: as the one that controls this process it can be opened all the same. -1: it is not. */
static int terminal_open(dev_t device)
{
    const int fd = open("/dev/tty", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    unsigned encoded = 0;
    if (fd >= 0 && ioctl(fd, TIOCGDEV, &encoded) == 0 && makedev(encoded >> 8 & 0xfff, encoded & 0xff) == device)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A descriptor that this process alone writes through, and may make non-blocking: standard error itself is shared with
 * a shell or a supervisor. -1: there is none. */
static int stderr_reopen(const struct stat *info)
{
    const int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 && S_ISCHR(info->st_mode) ? terminal_open(info->st_rdev) : fd;
}

/* A terminal that cannot be opened anew: a write through the descriptor that others share may wait, whatever poll said,
 * for as long as nobody reads the terminal. So a thread does it, one line at a time, and keeps at it. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool started, full; /* full: a line is there that is not written yet, */
    uint64_t since_ns;  /* since then */
    char line[LINE_BYTES];
    size_t bytes;
} terminal = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *terminal_main(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "terminal");
    pthread_mutex_lock(&terminal.lock);
    for (;;) {
        while (!terminal.full)
            pthread_cond_wait(&terminal.changed, &terminal.lock);
        pthread_mutex_unlock(&terminal.lock); /* nobody touches a full line */
        const ssize_t ignored = write(STDERR_FILENO, terminal.line, terminal.bytes);
        (void)ignored;
        pthread_mutex_lock(&terminal.lock);
        terminal.full = false;
        pthread_cond_broadcast(&terminal.changed);
    }
    return NULL;
}

/* Signals are for the threads that expect them. */
static bool terminal_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    terminal.started = pthread_create(&thread, NULL, terminal_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (terminal.started)
        pthread_detach(thread);
    return terminal.started;
}

/* Waits until the place is free. Under the lock, which is given up meanwhile. */
static void terminal_await(uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / BASE_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % BASE_NS_PER_S)};
    while (terminal.full && pthread_cond_clockwait(&terminal.changed, &terminal.lock, CLOCK_MONOTONIC, &until) == 0)
        ;
}

/* Waits a little: for its turn, while another thread's line is written, and so that the last line before an end is
 * there. A line that has been there for so long says that nobody reads: the next is lost at once. */
static bool terminal_write(const char *line, size_t bytes)
{
    pthread_mutex_lock(&terminal.lock);
    const uint64_t now_ns = base_clock_now_ns(), until_ns = now_ns + TERMINAL_WAIT_NS;
    if (terminal.full && now_ns - terminal.since_ns < TERMINAL_WAIT_NS)
        terminal_await(until_ns);
    const bool taken = !terminal.full && (terminal.started || terminal_start());
    if (taken) {
        memcpy(terminal.line, line, bytes);
        terminal.bytes = bytes;
        terminal.full = true;
        terminal.since_ns = now_ns;
        pthread_cond_broadcast(&terminal.changed);
        terminal_await(until_ns);
    }
    pthread_mutex_unlock(&terminal.lock);
    errno = EAGAIN; /* what false means */
    return taken;
}

/* A pipe, terminal or socket that nobody reads must not stop whoever logs. False: it takes nothing now. */
static bool stderr_write(const char *line, size_t bytes)
{
    struct stat info;
    if (fstat(STDERR_FILENO, &info) < 0)
        return true; /* there is none: nobody waits for lines either */
    if (S_ISSOCK(info.st_mode))
        return send(STDERR_FILENO, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || errno != EAGAIN;
    if (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode)) {
        /* Nobody is left to tell when standard error itself fails. */
        const ssize_t ignored = write(STDERR_FILENO, line, bytes);
        (void)ignored;
        return true;
    }
    const int fd = stderr_reopen(&info);
    bool written;
    if (fd >= 0)
        written = write(fd, line, bytes) > 0;
    else
        written = S_ISFIFO(info.st_mode) ? spliced_write(line, bytes) : terminal_write(line, bytes);
    const int failed = errno;
    if (fd >= 0)
        close(fd);
    return written || failed != EAGAIN;
}

static void line_write(const char *line, size_t bytes)
{
    char note[LINE_BYTES];
    const unsigned long lost = atomic_exchange_explicit(&lines_lost, 0, memory_order_relaxed);
    bool open = true;
    if (lost > 0) {
        size_t length = prefix_write(note, sizeof note, BASE_LOG_WARN);
        length += (size_t)snprintf(note + length, sizeof note - length,
                                   "%lu lines before this one are lost: nobody read standard error\n", lost);
        open = stderr_write(note, length);
    }
    const unsigned long again = (open ? 0 : lost) + (open && stderr_write(line, bytes) ? 0 : 1);
    if (again > 0)
        atomic_fetch_add_explicit(&lines_lost, again, memory_order_relaxed);
}

void base_log(enum base_log_level level, const char *format, ...)
{
    if (level > atomic_load_explicit(&level_max, memory_order_relaxed))
        return;

    char message[LINE_BYTES], line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    const int wanted = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (wanted < 0)
        return;

    /* A message may quote a peer or a file: nothing quoted may start a line of its own or drive a terminal. The line
     * end takes the place of the NUL. */
    const size_t start = prefix_write(line, sizeof line, level);
    const size_t end = start + base_shown_copy(message, strlen(message), line + start, sizeof line - start);
    line[end] = '\n';
    line_write(line, end + 1);
}
