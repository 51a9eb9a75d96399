/* A progress bar: one line that is drawn over itself on a terminal, and gone when the job ends. */
#ifndef MILLRACE_CLUSTER_CLIENT_PROGRESS_H
#define MILLRACE_CLUSTER_CLIENT_PROGRESS_H

#include "cluster/protocol/message.h"

/* Jobs that end sooner leave the terminal alone. */
#define CLUSTER_PROGRESS_QUIET_NS (UINT64_C(200) * 1000000)

struct cluster_progress_bar {
    int fd;
    uint64_t begin_ns; /* when the job was submitted */
    bool drawn;
};

/* The line, without control characters and at most `columns` characters (all of one byte) long: "probing   [#####.....]
 * 52%  12.3 M rows, 4.5 M rows/s, 1.2 s". text has columns + 1 bytes. */
void cluster_progress_format(const struct cluster_progress *progress, uint32_t columns, char *text);

/* Draws a line of one-byte characters over the one before, truncated to the width of the terminal fd. */
void cluster_progress_show(int fd, const char *text);
void cluster_progress_draw(struct cluster_progress_bar *bar, const struct cluster_progress *progress, uint64_t now_ns);
/* Takes the line away, so that other words can be written. */
void cluster_progress_clear(struct cluster_progress_bar *bar);

#endif
