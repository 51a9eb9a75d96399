/* Outgoing lanes: each fills one open frame at a time. Internal to the exchange. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_LANE_H
#define MILLRACE_SHUFFLE_EXCHANGE_LANE_H

#include "shuffle/frames/exchange_state.h"

/* Sees to it that the lane has an open frame with room for bytes: seals a fuller one, takes a new one. BASE_BUSY: none
 * is free until one comes home. BASE_NO_MEMORY: none will ever be. */
enum base_status shuffle_lane_room(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                   struct base_error *error);
/* Hands the END frame to the mesh; the lane is sealed. */
void shuffle_lane_end(struct shuffle_exchange *exchange, uint32_t destination);
/* Seals all lanes, beginning after this worker: hands open frames that hold rows to the mesh. */
void shuffle_lanes_seal(struct shuffle_exchange *exchange);
/* Gives the open frame, empty or not, back. */
void shuffle_lane_drop_open(struct shuffle_exchange *exchange, uint32_t destination);
/* A frame for own rows. BASE_BUSY and BASE_NO_MEMORY as shuffle_lane_room. */
enum base_status shuffle_lane_own_frame(struct shuffle_exchange *exchange, uint32_t bytes, struct shuffle_frame **frame,
                                        struct base_error *error);

#endif
