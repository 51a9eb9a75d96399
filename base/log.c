#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text/shown.h"

enum { NAME_BYTES = 64, LINE_BYTES = 2048 };

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

/* Can standard error be opened anew? Then this process alone writes through the new descriptor, and may make it
 * non-blocking: the old one is shared with a shell or a supervisor. */
static bool reopened_write(const char *line, size_t bytes)
{
    const int fd = open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        struct pollfd writable = {.fd = STDERR_FILENO, .events = POLLOUT};
        errno = EAGAIN; /* what poll finding nothing means */
        return poll(&writable, 1, 0) > 0 && (writable.revents & POLLOUT) && write(STDERR_FILENO, line, bytes) > 0;
    }
    const bool written = write(fd, line, bytes) > 0;
    close(fd);
    return written;
}

/* A pipe, terminal or socket that nobody reads must not stop whoever logs. False: it takes nothing now. */
static bool stderr_write(const char *line, size_t bytes)
{
    struct stat info;
    if (fstat(STDERR_FILENO, &info) < 0)
        return true; /* there is none: nobody waits for lines either */
    if (S_ISSOCK(info.st_mode))
        return send(STDERR_FILENO, line, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 || errno != EAGAIN;
    if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))
        return reopened_write(line, bytes) || errno != EAGAIN;
    /* Nobody is left to tell when standard error itself fails. */
    const ssize_t ignored = write(STDERR_FILENO, line, bytes);
    (void)ignored;
    return true;
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
