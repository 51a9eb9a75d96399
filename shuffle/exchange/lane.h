/* What the exchange, the inlets and the mesh share: frames in memory, the lanes of an exchange, groups of rows on their
 * way to a sink. Internal to these. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_LANE_H
#define MILLRACE_SHUFFLE_EXCHANGE_LANE_H

#include "shuffle/exchange/exchange.h"

enum shuffle_frame_home { SHUFFLE_HOME_POOL, SHUFFLE_HOME_PAGES, SHUFFLE_HOME_LANE };

/* A frame in memory: this record, then (in one buffer, except for END frames) the bytes for the wire. Whoever has the
 * frame links it by next. A receiver in another thread reads wire and wire_bytes, nothing else. */
struct shuffle_frame {
    struct shuffle_frame *next;
    struct shuffle_exchange *exchange; /* to whose lane it returns */
    uint8_t *wire;                     /* header, then payload */
    uint32_t wire_bytes;
    uint32_t destination;
    uint32_t payload_bytes_max;
    enum shuffle_frame_home home;
};

/* Before the wire bytes of a frame in a buffer, so that the payload lies at a multiple of 64. */
enum { SHUFFLE_FRAME_LEAD_BYTES = 88 };
_Static_assert(sizeof(struct shuffle_frame) <= SHUFFLE_FRAME_LEAD_BYTES, "the record fits before the header");
_Static_assert((SHUFFLE_FRAME_LEAD_BYTES + SHUFFLE_FRAME_HEADER_BYTES) % 64 == 0, "payload begins on a cache line");

struct shuffle_frame_queue {
    struct shuffle_frame *first, *last;
    uint32_t count;
};

static inline void shuffle_frame_queue_put(struct shuffle_frame_queue *queue, struct shuffle_frame *frame)
{
    frame->next = NULL;
    if (queue->last)
        queue->last->next = frame;
    else
        queue->first = frame;
    queue->last = frame;
    queue->count++;
}

/* NULL when empty. */
static inline struct shuffle_frame *shuffle_frame_queue_take(struct shuffle_frame_queue *queue)
{
    struct shuffle_frame *frame = queue->first;
    if (!frame)
        return NULL;
    queue->first = frame->next;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return frame;
}

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
    uint64_t rows, bytes; /* sealed */
    uint32_t frames;      /* from the pool and not home, the open one included */
    bool large_away;      /* a frame of one large row is not home */
    struct shuffle_frame end;
    uint8_t end_wire[SHUFFLE_FRAME_HEADER_BYTES + sizeof(struct shuffle_lane_totals)];
};

/* An incoming lane. */
struct shuffle_lane_in {
    uint64_t sequence; /* of the next frame */
    struct shuffle_lane_totals totals;
    bool ended;
};

/* Rows on offer to a sink, kept until taken. */
struct shuffle_group {
    struct shuffle_rows rows;
    struct shuffle_group *next; /* in a list of spare ones */
    const uint8_t *row[SHUFFLE_BATCH_ROWS];
    uint64_t hash[SHUFFLE_BATCH_ROWS];
};

struct shuffle_exchange {
    struct shuffle_exchange_config config;
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

/* lane.c: frames of outgoing lanes. */

/* Sees to it that the lane has an open frame with room for bytes: seals a fuller one, takes a new one. BASE_BUSY: none
 * is free until one comes home. BASE_NO_MEMORY: none will ever be. */
enum base_status shuffle_lane_room(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                   struct base_error *error);
/* Hands the open frame to the mesh if it holds rows. */
void shuffle_lane_seal(struct shuffle_exchange *exchange, uint32_t destination);
/* Hands the END frame to the mesh; the lane is sealed. */
void shuffle_lane_end(struct shuffle_exchange *exchange, uint32_t destination);
/* Seals all lanes, beginning behind this worker. */
void shuffle_lanes_seal(struct shuffle_exchange *exchange);
/* Gives the open frame, empty or not, back. */
void shuffle_lane_drop_open(struct shuffle_exchange *exchange, uint32_t destination);
/* A frame of the lanes away comes home. */
void shuffle_frame_home(struct shuffle_frame *frame);
/* A frame that never left. */
void shuffle_frame_free(struct shuffle_frame *frame);
/* A frame for own rows, from the pool or, when larger, of pages. BASE_BUSY and BASE_NO_MEMORY as shuffle_lane_room. */
enum base_status shuffle_frame_take_own(struct shuffle_exchange *exchange, uint32_t bytes, struct shuffle_frame **frame,
                                        struct base_error *error);

/* Offers what is left of the group to the exchange's sink. BASE_OK: all taken; BASE_BUSY: kept; else an error.
 * *worked is set true when the sink took something. */
enum base_status shuffle_group_offer(struct shuffle_exchange *exchange, struct shuffle_group *group, bool *worked,
                                     struct base_error *error);

#endif
