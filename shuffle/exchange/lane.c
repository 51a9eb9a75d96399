/* Outgoing lanes. A lane takes a frame with its first row, seals it when it is full or when the pass ends, and hands it
 * to the mesh; it comes home when the kernel or the neighbour is done with it (frames/memory.c).
 *
 * If the memory budget has no room for a frame, all open frames are sealed: they come home and one of them then serves.
 * The pool's first frame is drawn when the exchange opens, so this always ends. Only a frame for a large row can be
 * refused when nothing is away that could be waited for: that is an error. The END frame lives in the lane, so that a
 * stream can always end. */
#include "shuffle/exchange/lane.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "shuffle/frames/exchange_state.h"
#include "shuffle/mesh/lanes.h"

static void lane_close_frame(struct shuffle_lane *lane)
{
    lane->at = 1;
    lane->last = 0;
    lane->rows = 0;
}

static void lane_open_frame(struct shuffle_exchange *exchange, uint32_t destination, struct shuffle_frame *frame)
{
    struct shuffle_lane *lane = &exchange->lane[destination];
    BASE_ASSERT(!exchange->state[destination].open && frame->destination == destination);
    exchange->state[destination].open = frame;
    lane->at = (uintptr_t)(frame->wire + SHUFFLE_FRAME_HEADER_BYTES);
    lane->last = lane->at + frame->payload_bytes_max - exchange->row_bytes;
    lane->rows = 0;
}

/* The budget has no room for a frame of this payload. */
static enum base_status lane_starved(struct shuffle_exchange *exchange, uint32_t payload_bytes,
                                     struct base_error *error)
{
    shuffle_lanes_seal(exchange);
    exchange->counters.stalls_frame++;
    if (exchange->lanes_away > 0 || exchange->own_frame)
        return BASE_BUSY;
    return base_governor_refuse(exchange->config.governor, BASE_HOLDER_FRAMES,
                                shuffle_frame_memory_bytes(payload_bytes), error);
}

static enum base_status lane_take_frame(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                        struct shuffle_frame **frame, struct base_error *error)
{
    const enum base_status status = shuffle_frame_take(exchange, destination, bytes, frame);
    if (status == BASE_NO_MEMORY)
        return lane_starved(exchange, (uint32_t)base_max_u64(bytes, exchange->payload_bytes_max), error);
    if (status == BASE_BUSY)
        exchange->counters.stalls_frame++;
    return status;
}

enum base_status shuffle_lane_own_frame(struct shuffle_exchange *exchange, uint32_t bytes, struct shuffle_frame **frame,
                                        struct base_error *error)
{
    const enum base_status status = lane_take_frame(exchange, exchange->worker, bytes, frame, error);
    if (status == BASE_OK)
        (*frame)->holder = SHUFFLE_FRAME_HOLDER_OWN;
    return status;
}

static void lane_send(struct shuffle_exchange *exchange, struct shuffle_frame *frame,
                      struct shuffle_frame_header header)
{
    struct shuffle_lane_state *state = &exchange->state[frame->destination];
    BASE_ASSERT(header.bytes > 0 && frame->exchange == exchange && state->open != frame);
    header.magic = SHUFFLE_FRAME_MAGIC;
    header.exchange = exchange->config.id;
    header.source = exchange->worker;
    header.destination = frame->destination;
    header.sequence = state->sequence++;
    if (exchange->config.verify) {
        header.flags |= SHUFFLE_FRAME_CHECKED;
        header.check = XXH3_64bits(frame->wire + SHUFFLE_FRAME_HEADER_BYTES, header.bytes);
    }
    BASE_ASSERT_SLOW(shuffle_frame_check(&header, NULL) == BASE_OK);
    memcpy(frame->wire, &header, sizeof header);
    frame->wire_bytes = SHUFFLE_FRAME_HEADER_BYTES + header.bytes;
    exchange->lanes_away++;
    exchange->counters.frames_out++;
    shuffle_mesh_send(exchange->config.mesh, frame);
}

/* Hands the open frame to the mesh if it holds rows. */
static void lane_seal(struct shuffle_exchange *exchange, uint32_t destination)
{
    struct shuffle_lane *lane = &exchange->lane[destination];
    struct shuffle_lane_state *state = &exchange->state[destination];
    struct shuffle_frame *frame = state->open;
    if (!frame)
        return;
    const uint32_t bytes = (uint32_t)(lane->at - (uintptr_t)(frame->wire + SHUFFLE_FRAME_HEADER_BYTES));
    if (bytes == 0)
        return;
    BASE_ASSERT(bytes <= frame->payload_bytes_max);
    const uint32_t rows = exchange->row_bytes ? bytes / exchange->row_bytes : lane->rows;
    state->open = NULL;
    state->rows += rows;
    state->bytes += bytes;
    exchange->counters.rows_out += rows;
    lane_close_frame(lane);
    lane_send(exchange, frame, (struct shuffle_frame_header){.kind = SHUFFLE_FRAME_DATA, .bytes = bytes, .rows = rows});
}

enum base_status shuffle_lane_room(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                   struct base_error *error)
{
    BASE_ASSERT(destination < exchange->workers && destination != exchange->worker && !exchange->finished);
    struct shuffle_lane *lane = &exchange->lane[destination];
    struct shuffle_lane_state *state = &exchange->state[destination];
    if (state->open) {
        const uintptr_t end =
            (uintptr_t)(state->open->wire + SHUFFLE_FRAME_HEADER_BYTES) + state->open->payload_bytes_max;
        if (end - lane->at >= bytes)
            return BASE_OK;
        if (lane->at == end - state->open->payload_bytes_max)
            shuffle_lane_drop_open(exchange, destination); /* an empty frame, and a row that is larger */
        else
            lane_seal(exchange, destination);
    }
    struct shuffle_frame *frame = NULL;
    const enum base_status status = lane_take_frame(exchange, destination, bytes, &frame, error);
    if (status == BASE_OK)
        lane_open_frame(exchange, destination, frame);
    return status;
}

void shuffle_lane_end(struct shuffle_exchange *exchange, uint32_t destination)
{
    struct shuffle_lane_state *state = &exchange->state[destination];
    BASE_ASSERT(!state->end_away && destination != exchange->worker); /* one END a lane */
    shuffle_lane_drop_open(exchange, destination);
    const struct shuffle_lane_totals totals = {
        .rows = state->rows,
        .bytes = state->bytes,
        .hash_sum = exchange->lane[destination].hash_sum,
    };
    state->end = (struct shuffle_frame){
        .exchange = exchange,
        .wire = state->end_wire,
        .destination = destination,
        .payload_bytes_max = sizeof totals,
        .home = SHUFFLE_HOME_LANE,
    };
    state->end_away = true;
    memcpy(state->end_wire + SHUFFLE_FRAME_HEADER_BYTES, &totals, sizeof totals);
    lane_send(
        exchange, &state->end,
        (struct shuffle_frame_header){.kind = SHUFFLE_FRAME_END, .flags = exchange->noted, .bytes = sizeof totals});
}

void shuffle_lanes_seal(struct shuffle_exchange *exchange)
{
    for (uint32_t i = 1; i < exchange->workers; i++)
        lane_seal(exchange, (exchange->worker + i) % exchange->workers);
}

void shuffle_lane_drop_open(struct shuffle_exchange *exchange, uint32_t destination)
{
    struct shuffle_frame *frame = exchange->state[destination].open;
    if (!frame)
        return;
    exchange->state[destination].open = NULL;
    lane_close_frame(&exchange->lane[destination]);
    shuffle_frame_free(frame);
}
