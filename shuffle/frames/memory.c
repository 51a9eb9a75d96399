/* Frames come from the exchange's pool; one for a row larger than the pool's frames is mapped for itself; the END frame
 * lives in its lane. A lane may have frames_per_lane of the first kind and one of the second: what it has is counted in
 * its state, so that every frame is given back to where it came from, once. */
#include "shuffle/frames/memory.h"

#include <stdio.h>

#include "base/assert.h"
#include "net/engine/engine.h"
#include "shuffle/frames/exchange_state.h"

static struct shuffle_frame *frame_prepare(void *buffer, struct shuffle_exchange *exchange, uint32_t destination,
                                           uint32_t payload_bytes_max, enum shuffle_frame_home home)
{
    struct shuffle_frame *frame = buffer;
    *frame = (struct shuffle_frame){
        .exchange = exchange,
        .wire = (uint8_t *)buffer + SHUFFLE_FRAME_LEAD_BYTES,
        .destination = destination,
        .payload_bytes_max = payload_bytes_max,
        .home = home,
    };
    return frame;
}

static const char *holder_words(enum shuffle_frame_holder holder)
{
    static const char *const words[] = {
#define X(name, words) [SHUFFLE_FRAME_HOLDER_##name] = words,
        SHUFFLE_FRAME_HOLDER_LIST(X)
#undef X
    };
    return (unsigned)holder < sizeof words / sizeof *words ? words[holder] : "nobody known";
}

void shuffle_frame_describe(const void *buffer, char *text, size_t text_bytes)
{
    const struct shuffle_frame *frame = buffer;
    snprintf(text, text_bytes, "%s (a frame to worker %u)", holder_words(frame->holder), frame->destination);
}

size_t shuffle_frame_memory_bytes(uint32_t payload_bytes)
{
    return SHUFFLE_FRAME_LEAD_BYTES + SHUFFLE_FRAME_HEADER_BYTES + (size_t)payload_bytes;
}

/* A buffer of the pool; the engine gets to know the memory that frames are sent from as the pool grows. */
static void *pool_take(struct shuffle_exchange *exchange)
{
    void *buffer = base_pool_take(exchange->frames);
    for (; exchange->slabs_registered < base_pool_slabs(exchange->frames); exchange->slabs_registered++) {
        size_t bytes;
        void *slab = base_pool_slab(exchange->frames, exchange->slabs_registered, &bytes);
        net_memory_register(exchange->engine, slab, bytes);
    }
    return buffer;
}

static enum base_status take_small(struct shuffle_exchange *exchange, uint32_t destination,
                                   struct shuffle_frame **frame)
{
    struct shuffle_lane_state *state = &exchange->state[destination];
    BASE_ASSERT(state->frames <= exchange->config.frames_per_lane);
    if (state->frames == exchange->config.frames_per_lane)
        return BASE_BUSY;
    void *buffer = pool_take(exchange);
    if (!buffer)
        return BASE_NO_MEMORY;
    state->frames++;
    *frame = frame_prepare(buffer, exchange, destination, exchange->payload_bytes_max, SHUFFLE_HOME_POOL);
    return BASE_OK;
}

static enum base_status take_large(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                   struct shuffle_frame **frame)
{
    struct shuffle_lane_state *state = &exchange->state[destination];
    BASE_ASSERT(bytes <= SHUFFLE_ROW_BYTES_MAX);
    if (state->large)
        return BASE_BUSY;
    void *buffer;
    if (base_pages_map(exchange->config.governor, BASE_HOLDER_FRAMES, shuffle_frame_memory_bytes(bytes), false, &buffer,
                       NULL) != BASE_OK)
        return BASE_NO_MEMORY;
    *frame = state->large = frame_prepare(buffer, exchange, destination, bytes, SHUFFLE_HOME_PAGES);
    return BASE_OK;
}

enum base_status shuffle_frame_take(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                    struct shuffle_frame **frame)
{
    BASE_ASSERT(destination < exchange->workers && bytes > 0);
    return bytes > exchange->payload_bytes_max ? take_large(exchange, destination, bytes, frame)
                                               : take_small(exchange, destination, frame);
}

void shuffle_frame_free(struct shuffle_frame *frame)
{
    struct shuffle_exchange *exchange = frame->exchange;
    struct shuffle_lane_state *state = &exchange->state[frame->destination];
    switch (frame->home) {
    case SHUFFLE_HOME_POOL:
        BASE_ASSERT(state->frames > 0);
        state->frames--;
        base_pool_give(exchange->frames, frame);
        break;
    case SHUFFLE_HOME_PAGES:
        BASE_ASSERT(state->large == frame);
        state->large = NULL;
        base_pages_unmap(exchange->config.governor, BASE_HOLDER_FRAMES, frame,
                         shuffle_frame_memory_bytes(frame->payload_bytes_max));
        break;
    case SHUFFLE_HOME_LANE:
        BASE_ASSERT(frame == &state->end && state->end_away);
        state->end_away = false;
        break;
    }
}

void shuffle_frame_home(struct shuffle_frame *frame)
{
    BASE_ASSERT(frame->exchange->lanes_away > 0);
    frame->exchange->lanes_away--;
    shuffle_frame_free(frame);
}
