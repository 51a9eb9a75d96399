/* What an exchange is made of, and what it counts. */
#ifndef MILLRACE_SHUFFLE_FRAMES_EXCHANGE_TYPES_H
#define MILLRACE_SHUFFLE_FRAMES_EXCHANGE_TYPES_H

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

/* X(name): counters. */
#define SHUFFLE_EXCHANGE_COUNTER_LIST(X)                                                                               \
    X(rows_out)  /* appended, own rows included */                                                                     \
    X(rows_in)   /* given to the sink, own rows included */                                                            \
    X(rows_self) /* of these, by a call */                                                                             \
    X(frames_out)                                                                                                      \
    X(frames_in)                                                                                                       \
    X(rows_stitched)  /* cut by a chunk's edge */                                                                      \
    X(stitched_bytes) /* of these, copied to make them, or their keys, whole */                                        \
    X(joined_bytes)   /* of these, copied because the sink wanted a value that was cut */                              \
    X(stalls_frame)   /* append said BUSY for want of a frame */                                                       \
    X(stalls_sink)    /* a sink said BUSY */

struct shuffle_exchange_counters {
#define X(name) uint64_t name;
    SHUFFLE_EXCHANGE_COUNTER_LIST(X)
#undef X
};

#endif
