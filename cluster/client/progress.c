#include "cluster/client/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cluster/report/report.h"

enum { BAR_MAX = 30, COLUMNS_MAX = 120, COLUMNS_DEFAULT = 80 };

void cluster_progress_format(const struct cluster_progress *progress, uint32_t columns, char *text)
{
    const double rate = progress->seconds > 0 ? (double)progress->rows_scanned / progress->seconds : 0;
    char rows[32], per_second[32], line[256];
    report_format_count((double)progress->rows_scanned, rows);
    report_format_count(rate, per_second);
    int used = snprintf(line, sizeof line, "%-16s ", cluster_phase_words(progress->phase));
    if (progress->rows_expected > 0) {
        double done = (double)progress->rows_scanned / (double)progress->rows_expected;
        if (done > 1) /* the expected rows of a CSV file are a guess */
            done = 1;
        char bar[BAR_MAX + 1];
        memset(bar, '.', BAR_MAX);
        memset(bar, '#', (size_t)(done * (double)BAR_MAX));
        bar[BAR_MAX] = '\0';
        used += snprintf(line + used, sizeof line - (size_t)used, "[%s] %3d%%  ", bar, (int)(done * 100));
    }
    snprintf(line + used, sizeof line - (size_t)used, "%s rows, %s rows/s, %.1f s", rows, per_second,
             progress->seconds);
    snprintf(text, (size_t)columns + 1, "%s", line);
}

static uint32_t terminal_columns(int fd)
{
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

static void progress_put(int fd, const char *text)
{
    /* A terminal that takes nothing is no reason to fail a job. */
    const ssize_t written = write(fd, text, strlen(text));
    (void)written;
}

void cluster_progress_show(int fd, const char *text)
{
    char line[COLUMNS_MAX + 16];
    /* One column less: some terminals go to the next line when the last one is written. */
    snprintf(line, sizeof line, "\r%.*s\033[K", (int)terminal_columns(fd) - 1, text);
    progress_put(fd, line);
}

void cluster_progress_draw(struct cluster_progress_bar *bar, const struct cluster_progress *progress, uint64_t now_ns)
{
    if (now_ns < bar->begin_ns + CLUSTER_PROGRESS_QUIET_NS)
        return;
    char text[COLUMNS_MAX + 1];
    cluster_progress_format(progress, COLUMNS_MAX, text);
    cluster_progress_show(bar->fd, text);
    bar->drawn = true;
}

void cluster_progress_clear(struct cluster_progress_bar *bar)
{
    if (bar->drawn)
        progress_put(bar->fd, "\r\033[K");
    bar->drawn = false;
}
