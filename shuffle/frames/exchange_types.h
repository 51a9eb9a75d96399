/* What an exchange is made of, and what it counts. */
#ifndef MILLRACE_SHUFFLE_FRAMES_EXCHANGE_TYPES_H
#define MILLRACE_SHUFFLE_FRAMES_EXCHANGE_TYPES_H

#include "base/measure.h"
#include "base/memory/memory.h"
#include "shuffle/frames/frame.h"
#include "shuffle/frames/sink.h"
#include "shuffle/rows/key.h"

struct shuffle_exchange;
struct shuffle_mesh;

struct shuffle_exchange_config {
    struct shuffle_mesh *mesh; /* the exchange attaches itself; it must be closed before the mesh is freed */
    struct base_governor *governor;
    uint8_t id;                          /* 0 .. SHUFFLE_EXCHANGES_MAX-1, the same at all workers */
    const struct shuffle_layout *layout; /* of the rows; the same at all workers; borrowed */
    const struct shuffle_key *key;       /* columns of layout; borrowed */
    uint32_t frame_bytes;                /* header included; SHUFFLE_FRAME_BYTES_MIN .. MAX */
    uint32_t frames_per_lane;            /* at least 1; usual 2 */
    bool verify;                         /* checks every payload byte */
    struct shuffle_sink *sink;           /* borrowed */
};

/* What an exchange counts (base/measure.h). */
#define SHUFFLE_EXCHANGE_COUNTER_LIST(X)                                                                               \
    X(rows_out, ROWS, SUM, SUM, NEVER, NULL, NULL, "rows appended to an exchange, own rows included")                  \
    X(rows_in, ROWS, SUM, SUM, JOB, "rows_exchanged", NULL, "rows that came to the worker of their key, own included") \
    X(rows_self, ROWS, SUM, SUM, NEVER, NULL, NULL, "of these, by a call")                                             \
    X(frames_out, COUNT, SUM, SUM, NEVER, NULL, NULL, "frames sent")                                                   \
    X(frames_in, COUNT, SUM, SUM, NEVER, NULL, NULL, "frames received")                                                \
    X(rows_cut, ROWS, SUM, SUM, BOTH, "rows_cut", NULL, "received rows that the edge of a receive chunk cut")          \
    X(stitched_bytes, BYTES, SUM, SUM, BOTH, "stitched_bytes", NULL,                                                   \
      "bytes copied to make them, or only their keys, whole")                                                          \
    X(joined_bytes, BYTES, SUM, SUM, BOTH, "joined_bytes", NULL,                                                       \
      "bytes copied because a selected value of theirs was cut")                                                       \
    X(stalls_frame, COUNT, SUM, SUM, NODE, "stalls.frame", NULL, "times a scan waited for a free frame")               \
    X(stalls_sink, COUNT, SUM, SUM, NEVER, NULL, NULL, "times a sink was full")

struct shuffle_exchange_counters {
    SHUFFLE_EXCHANGE_COUNTER_LIST(BASE_MEASURE_FIELD)
};

#endif
