/* An exchange as its own files and the inlets see it. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_EXCHANGE_INTERNAL_H
#define MILLRACE_SHUFFLE_EXCHANGE_EXCHANGE_INTERNAL_H

#include "shuffle/exchange/exchange.h"
#include "shuffle/exchange/group.h"
#include "shuffle/exchange/lane.h"

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
    struct shuffle_group own;           /* rows of this worker itself, on offer */
    struct shuffle_frame *own_frame;    /* rows of a batch without image are encoded here first, or NULL */
    struct shuffle_frame *own_large;    /* the same for a row larger than a frame */
    uint32_t own_bytes;                 /* used in own_frame */
    uint8_t *image;                     /* of small rows of fixed width from a batch without one, or NULL */
    const struct shuffle_batch *imaged; /* the batch whose rows they are */
    struct shuffle_exchange_counters counters;
};

#endif
