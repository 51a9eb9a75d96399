/* An exchange as its files, its inlets and its frames see it; for these rooms alone. */
#ifndef MILLRACE_SHUFFLE_FRAMES_EXCHANGE_STATE_H
#define MILLRACE_SHUFFLE_FRAMES_EXCHANGE_STATE_H

#include "shuffle/frames/group.h"
#include "shuffle/frames/memory.h"

/* The part of an outgoing lane that every row touches. While at <= last a row of fixed width fits. Without an open
 * frame at is 1 and last 0: the usual test finds no room. Own and dropped rows have lanes, too, of step 0 over a
 * scratch row: copying there costs less than a branch that cannot be predicted. */
struct shuffle_lane {
    uintptr_t at;   /* where the next row goes */
    uintptr_t last; /* fixed width: the last place where a row fits; variable: the end */
    uint64_t hash_sum;
    uint32_t step; /* fixed width: bytes of a row, or 0 */
    uint32_t rows; /* variable width: in the open frame */
};
_Static_assert(sizeof(struct shuffle_lane) == 32, "two lanes per cache line");

/* The rest of it. */
struct shuffle_lane_state {
    struct shuffle_frame *open;
    uint64_t sequence;
    uint64_t rows, bytes;        /* sealed */
    uint32_t frames;             /* from the pool and not home, the open one included */
    struct shuffle_frame *large; /* a frame of one large row that is not home, or NULL */
    bool end_away;               /* the END frame is not home */
    struct shuffle_frame end;
    uint8_t end_wire[SHUFFLE_FRAME_HEADER_BYTES + sizeof(struct shuffle_lane_totals)];
};

/* An incoming lane. */
struct shuffle_lane_in {
    uint64_t sequence; /* of the next frame */
    struct shuffle_lane_totals totals;
    bool ended;
};

struct shuffle_exchange {
    struct shuffle_exchange_config config;
    struct net_engine *engine; /* of the mesh */
    uint32_t worker, workers;
    uint32_t row_bytes;         /* of every row, or 0 */
    uint32_t payload_bytes_max; /* of a frame from the pool */
    struct base_pool *frames;
    uint32_t slabs_registered; /* of the pool, with the engine */
    struct shuffle_lane *lane; /* workers + 1: the last is for dropped rows */
    struct shuffle_lane_state *state;
    struct shuffle_lane_in *in;
    uint8_t *scratch;    /* where own and dropped rows are copied to no purpose */
    uint32_t lanes_away; /* frames handed to the mesh and not home */
    uint32_t ended;      /* incoming lanes */
    bool finished;
    uint16_t noted, heard;              /* notes of this worker, and of those whose END has come */
    struct shuffle_group own;           /* rows of this worker itself, on offer */
    struct shuffle_frame *own_frame;    /* rows of a batch without image are encoded here first, or NULL */
    struct shuffle_frame *own_large;    /* the same for a row larger than a frame */
    uint32_t own_bytes;                 /* used in own_frame */
    uint8_t *image;                     /* of small rows of fixed width from a batch without one, or NULL */
    const struct shuffle_batch *imaged; /* the batch whose rows they are */
    struct shuffle_exchange_counters counters;
};

#endif
