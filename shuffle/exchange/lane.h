/* Outgoing lanes: each fills one open frame at a time. Internal to the exchange. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_LANE_H
#define MILLRACE_SHUFFLE_EXCHANGE_LANE_H

#include "shuffle/exchange/frame_memory.h"

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
/* A frame for own rows. BASE_BUSY and BASE_NO_MEMORY as shuffle_lane_room. */
enum base_status shuffle_lane_own_frame(struct shuffle_exchange *exchange, uint32_t bytes, struct shuffle_frame **frame,
                                        struct base_error *error);

#endif
