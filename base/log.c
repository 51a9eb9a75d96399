#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/shown.h"

enum { NAME_BYTES = 64, LINE_BYTES = 2048 };

static _Atomic(enum base_log_level) level_max = BASE_LOG_INFO;
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
    /* Nobody is left to tell when standard error itself fails. */
    ssize_t ignored = write(STDERR_FILENO, line, end + 1);
    (void)ignored;
}
