/* A sink: what becomes of rows that an exchange delivers (inserted, probed, written, counted). */
#ifndef MILLRACE_SHUFFLE_FRAMES_SINK_H
#define MILLRACE_SHUFFLE_FRAMES_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct shuffle_cut;

/* Rows as bytes with their hashes, and where a consumer stopped. The offering side keeps this struct until it is all
 * taken, and offers the same one again after BASE_BUSY; so several producers may be stopped at once. */
struct shuffle_rows {
    const uint8_t *const *row;
    const uint64_t *hash;
    uint32_t count;
    bool pinned;             /* rows stay where they are until the job ends: they may be referenced instead of copied */
    uint32_t next;           /* first row not fully consumed; starts at 0 */
    uint64_t resume;         /* the sink's note of where within row `next` it stopped; starts at 0 */
    struct shuffle_cut *cut; /* not NULL: row[0] is a cut row, and the pointer good for reading its key alone
                                (shuffle/frames/cut.h); only for sinks that take such rows */
};

struct shuffle_sink;

struct shuffle_sink_ops {
    /* Consumes from rows->next on. BASE_OK: all taken (next == count). BASE_BUSY: rows->next and resume say where it
     * stopped, because an output is full (a FILE event will change that) or because this turn's output budget is spent
     * (just call next turn). Else an error. */
    enum base_status (*consume)(struct shuffle_sink *sink, struct shuffle_rows *rows, struct base_error *error);
    bool takes_cut_rows; /* it looks at rows->cut */
};

/* Every sink's struct begins with this. */
struct shuffle_sink {
    const struct shuffle_sink_ops *ops;
};

static inline enum base_status shuffle_sink_consume(struct shuffle_sink *sink, struct shuffle_rows *rows,
                                                    struct base_error *error)
{
    return sink->ops->consume(sink, rows, error);
}

#endif
