/* Groups: rows on offer to a sink, those that arrive (inlet.c) as much as those of the worker itself (exchange.c). */
#ifndef MILLRACE_SHUFFLE_FRAMES_GROUP_H
#define MILLRACE_SHUFFLE_FRAMES_GROUP_H

#include "base/assert.h"
#include "shuffle/frames/exchange_types.h"
#include "shuffle/frames/sink.h"
#include "shuffle/rows/batch.h"

/* Rows on offer to a sink, kept until taken. */
struct shuffle_group {
    struct shuffle_rows rows;
    struct shuffle_group *next; /* in a list of spare ones */
    const uint8_t *row[SHUFFLE_BATCH_ROWS];
    uint64_t hash[SHUFFLE_BATCH_ROWS];
};

/* Offers what is left of the group to a sink. BASE_OK: all taken; BASE_BUSY: kept; else an error. *worked is set true
 * when the sink took something. */
static inline enum base_status shuffle_group_offer(struct shuffle_group *group, struct shuffle_sink *sink,
                                                   struct shuffle_exchange_counters *counters, bool *worked,
                                                   struct base_error *error)
{
    struct shuffle_rows *rows = &group->rows;
    const uint32_t next = rows->next;
    const uint64_t resume = rows->resume;
    BASE_ASSERT(next <= rows->count && rows->count <= SHUFFLE_BATCH_ROWS); /* all of them: what they led to waits */
    const enum base_status status = sink->ops->consume(sink, rows, error);
    BASE_ASSERT(rows->next >= next && rows->next <= rows->count);
    *worked |= rows->next != next || rows->resume != resume;
    if (status == BASE_OK) {
        BASE_ASSERT(rows->next == rows->count);
        counters->rows_in += rows->count;
    } else if (status == BASE_BUSY) {
        counters->stalls_sink++;
    }
    return status;
}

#endif
