/* The sending end of an exchange: rows of a batch go into the open frames of their lanes. The receiving end is inlet.c:
 * it parses frames and rows from what arrives.
 *
 * Two kinds of rows. Those that stand complete in memory (an image of fixed width) are copied by a loop with a constant
 * size for the usual small rows, over all lanes alike; own rows are not copied: their addresses are collected in a
 * second loop and offered to the sink where they lie. Small rows of fixed width that lie in columns are first made into
 * such an image. Other rows are encoded one by one, own rows into a frame of their own.
 *
 * Own rows wait in `own` while the sink is busy. Append does not return BASE_OK before they are taken, so they may
 * point into the batch. */
#include "shuffle/exchange/exchange.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "shuffle/exchange/lane.h"
#include "shuffle/mesh/lanes.h"

enum { SMALL_ROW_BYTES_MAX = 128, IMAGED_ROW_BYTES_MAX = 256 };

static enum base_status exchange_check_config(const struct shuffle_exchange_config *config, struct base_error *error)
{
    if (config->id >= SHUFFLE_EXCHANGES_MAX)
        return base_error_set(error, BASE_INVALID, "exchange %u: a job has at most %d", config->id,
                              SHUFFLE_EXCHANGES_MAX);
    if (config->frame_bytes < SHUFFLE_FRAME_BYTES_MIN || config->frame_bytes > SHUFFLE_FRAME_BYTES_MAX)
        return base_error_set(error, BASE_INVALID, "exchange %u: frames of %u bytes; allowed are %d to %d", config->id,
                              config->frame_bytes, SHUFFLE_FRAME_BYTES_MIN, SHUFFLE_FRAME_BYTES_MAX);
    if (config->frames_per_lane == 0)
        return base_error_set(error, BASE_INVALID, "exchange %u: a lane needs at least one frame", config->id);
    const uint64_t least =
        config->layout->row_bytes ? config->layout->row_bytes : shuffle_row_head_bytes(config->layout);
    if (least > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "exchange %u: rows of %" PRIu64 " bytes; the limit is %u",
                              config->id, least, SHUFFLE_ROW_BYTES_MAX);
    if (least == 0 || config->key->count == 0)
        return base_error_set(error, BASE_INVALID, "exchange %u: rows without columns, or without a key", config->id);
    return BASE_OK;
}

static void exchange_free(struct shuffle_exchange *exchange)
{
    for (uint32_t i = 0; i < exchange->slabs_registered; i++) {
        size_t bytes;
        net_memory_unregister(exchange->engine, base_pool_slab(exchange->frames, i, &bytes));
    }
    base_pool_close(exchange->frames);
    free(exchange->scratch);
    free(exchange->in);
    free(exchange->state);
    free(exchange->lane);
    free(exchange);
}

static void lanes_prepare(struct shuffle_exchange *exchange)
{
    for (uint32_t i = 0; i <= exchange->workers; i++) {
        const bool travels = i != exchange->worker && i != exchange->workers;
        exchange->lane[i] = (struct shuffle_lane){
            .at = travels ? 1 : (uintptr_t)exchange->scratch,
            .last = travels ? 0 : (uintptr_t)exchange->scratch,
            .step = travels ? exchange->row_bytes : 0,
        };
    }
}

/* One frame at least is the exchange's own from the start: with it, it gets through in any case. */
static enum base_status first_frame_draw(struct shuffle_exchange *exchange, struct base_error *error)
{
    void *buffer = base_pool_take(exchange->frames);
    if (buffer) {
        base_pool_give(exchange->frames, buffer);
        return BASE_OK;
    }
    return base_governor_refuse(exchange->config.governor, BASE_HOLDER_FRAMES, base_pool_buffer_bytes(exchange->frames),
                                error);
}

enum base_status shuffle_exchange_open(const struct shuffle_exchange_config *config, struct shuffle_exchange **exchange,
                                       struct base_error *error)
{
    enum base_status status = exchange_check_config(config, error);
    if (status != BASE_OK)
        return status;
    const uint32_t workers = shuffle_mesh_workers(config->mesh);
    struct shuffle_exchange *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for exchange %u", config->id);
    opened->config = *config;
    opened->engine = shuffle_mesh_engine(config->mesh);
    opened->worker = shuffle_mesh_worker(config->mesh);
    opened->workers = workers;
    opened->row_bytes = config->layout->last_variable < 0 ? config->layout->row_bytes : 0;
    opened->payload_bytes_max =
        (uint32_t)base_max_u64(config->frame_bytes - SHUFFLE_FRAME_HEADER_BYTES, opened->row_bytes);
    opened->own.rows.row = opened->own.row;
    opened->own.rows.hash = opened->own.hash;
    opened->lane = aligned_alloc(64, base_align_up((workers + 1) * sizeof *opened->lane, 64));
    opened->state = calloc(workers, sizeof *opened->state);
    opened->in = calloc(workers, sizeof *opened->in);
    opened->scratch = aligned_alloc(64, SMALL_ROW_BYTES_MAX);
    if (!opened->lane || !opened->state || !opened->in || !opened->scratch) {
        status =
            base_error_set(error, BASE_NO_MEMORY, "no memory for the %u lanes of exchange %u", workers, config->id);
        goto fail;
    }
    lanes_prepare(opened);
    const uint64_t frames = (uint64_t)workers * config->frames_per_lane;
    status = base_pool_open(config->governor, BASE_HOLDER_FRAMES, "lane frames",
                            SHUFFLE_FRAME_LEAD_BYTES + SHUFFLE_FRAME_HEADER_BYTES + (size_t)opened->payload_bytes_max,
                            (uint32_t)base_min_u64(frames, UINT32_MAX / 2), &opened->frames, error);
    if (status != BASE_OK)
        goto fail;
    base_pool_ask(opened->frames, shuffle_frame_describe);
    status = first_frame_draw(opened, error);
    if (status != BASE_OK)
        goto fail;
    status = shuffle_mesh_attach(config->mesh, opened, error);
    if (status != BASE_OK)
        goto fail;
    *exchange = opened;
    return BASE_OK;

fail:
    exchange_free(opened);
    return status;
}

void shuffle_route_hash(const uint64_t *hash, uint32_t count, uint32_t workers, uint32_t *destination)
{
    for (uint32_t i = 0; i < count; i++)
        destination[i] = shuffle_key_partition(hash[i], workers);
}

/* Copies rows [i, end) to their lanes; stops at a row whose lane has no room, and returns its number. Inlined with a
 * constant size for small rows. */
static inline __attribute__((always_inline)) uint32_t copy_rows(struct shuffle_exchange *exchange, const uint8_t *image,
                                                                const uint64_t *hash, const uint32_t *destination,
                                                                uint32_t i, uint32_t end, const uint32_t size)
{
    struct shuffle_lane *const lanes = exchange->lane;
    const uint32_t workers = exchange->workers;
    for (; i < end; i++) {
        const uint32_t to = destination[i] < workers ? destination[i] : workers;
        struct shuffle_lane *lane = &lanes[to];
        if (__builtin_expect(lane->at > lane->last, 0))
            break;
        if (size > SMALL_ROW_BYTES_MAX && lane->step == 0)
            continue;
        memcpy((void *)lane->at, image + (size_t)i * size, size);
        lane->at += lane->step;
        lane->hash_sum += hash[i];
    }
    return i;
}

/* One copy per usual size, so that the compiler knows it; the others call memcpy. */
static uint32_t copy_rows_of(struct shuffle_exchange *exchange, const uint8_t *image, const uint64_t *hash,
                             const uint32_t *destination, uint32_t first, uint32_t end)
{
    switch (exchange->row_bytes) {
#define SIZE(bytes)                                                                                                    \
    case bytes:                                                                                                        \
        return copy_rows(exchange, image, hash, destination, first, end, bytes)
        SIZE(8);
        SIZE(16);
        SIZE(24);
        SIZE(32);
        SIZE(48);
        SIZE(64);
        SIZE(128);
#undef SIZE
    default:
        return copy_rows(exchange, image, hash, destination, first, end, exchange->row_bytes);
    }
}

/* Collects the own rows among [first, end), without a branch per row. */
static void collect_own(struct shuffle_exchange *exchange, const uint8_t *image, const uint64_t *hash,
                        const uint32_t *destination, uint32_t first, uint32_t end)
{
    struct shuffle_group *own = &exchange->own;
    const size_t row_bytes = exchange->row_bytes;
    const uint32_t worker = exchange->worker;
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i++) {
        own->row[count] = image + i * row_bytes;
        own->hash[count] = hash[i];
        count += destination[i] == worker;
    }
    own->rows.count = count;
}

static void own_frame_free(struct shuffle_frame **frame)
{
    if (*frame)
        shuffle_frame_free(*frame);
    *frame = NULL;
}

/* Frames of own rows are not kept: a lane may need them. */
static void own_reset(struct shuffle_exchange *exchange)
{
    BASE_ASSERT(exchange->own_bytes <= exchange->payload_bytes_max);
    exchange->own.rows.count = 0;
    exchange->own.rows.next = 0;
    exchange->own.rows.resume = 0;
    exchange->own_bytes = 0;
    own_frame_free(&exchange->own_frame);
    own_frame_free(&exchange->own_large);
}

/* Offers own rows collected, or left from before. */
static enum base_status own_offer(struct shuffle_exchange *exchange, struct base_error *error)
{
    struct shuffle_group *own = &exchange->own;
    if (own->rows.count == 0)
        return BASE_OK;
    BASE_ASSERT(own->rows.count <= SHUFFLE_BATCH_ROWS && own->rows.next <= own->rows.count);
    bool worked = false;
    const enum base_status status =
        shuffle_group_offer(own, exchange->config.sink, &exchange->counters, &worked, error);
    if (status != BASE_OK)
        return status;
    exchange->counters.rows_self += own->rows.count;
    exchange->counters.rows_out += own->rows.count;
    own_reset(exchange);
    return BASE_OK;
}

static enum base_status append_image(struct shuffle_exchange *exchange, const struct shuffle_batch *batch,
                                     const uint64_t *hash, const uint32_t *destination, uint32_t *cursor,
                                     struct base_error *error)
{
    const uint32_t first = *cursor;
    uint32_t at = first;
    BASE_ASSERT(exchange->row_bytes > 0 && exchange->own.rows.count == 0);
    enum base_status status = BASE_OK;
    if (exchange->workers == 1)
        at = batch->rows; /* all are its own */
    while (at < batch->rows) {
        at = copy_rows_of(exchange, batch->image, hash, destination, at, batch->rows);
        if (at == batch->rows)
            break;
        status = shuffle_lane_room(exchange, destination[at], exchange->row_bytes, error);
        if (status != BASE_OK)
            break;
    }
    *cursor = at;
    if (status != BASE_OK && status != BASE_BUSY)
        return status;
    exchange->own.rows.pinned = batch->pinned;
    collect_own(exchange, batch->image, hash, destination, first, at);
    const enum base_status own_status = own_offer(exchange, error);
    return own_status != BASE_OK ? own_status : status;
}

static size_t image_bytes(const struct shuffle_exchange *exchange)
{
    return (size_t)exchange->row_bytes * SHUFFLE_BATCH_ROWS;
}

/* False: no memory; append_encoded needs none. */
static bool image_reserve(struct shuffle_exchange *exchange)
{
    if (exchange->image)
        return true;
    void *pages;
    if (base_pages_map(exchange->config.governor, BASE_HOLDER_FRAMES, image_bytes(exchange), true, &pages, NULL) !=
        BASE_OK)
        return false;
    exchange->image = pages;
    return true;
}

/* Small rows of fixed width: first an image of the whole batch, a column at a time, then as if it had come with one.
 * The image stays while the batch is appended in several calls. */
static enum base_status append_columns(struct shuffle_exchange *exchange, const struct shuffle_batch *batch,
                                       const uint64_t *hash, const uint32_t *destination, uint32_t *cursor,
                                       struct base_error *error)
{
    if (exchange->imaged != batch)
        shuffle_batch_encode_image(exchange->config.layout, batch, exchange->image);
    struct shuffle_batch whole = *batch;
    whole.image = exchange->image;
    whole.pinned = false;
    const enum base_status status = append_image(exchange, &whole, hash, destination, cursor, error);
    exchange->imaged = status == BASE_OK ? NULL : batch;
    return status;
}

/* Room for an own row of this size: after those collected, or in a large frame alone. */
static enum base_status own_room(struct shuffle_exchange *exchange, uint32_t bytes, uint8_t **to,
                                 struct base_error *error)
{
    const bool large = bytes > exchange->payload_bytes_max;
    enum base_status status = BASE_OK;
    if (large || exchange->payload_bytes_max - exchange->own_bytes < bytes)
        status = own_offer(exchange, error);
    struct shuffle_frame **frame = large ? &exchange->own_large : &exchange->own_frame;
    if (status == BASE_OK && !*frame)
        status = shuffle_lane_own_frame(exchange, bytes, frame, error);
    if (status != BASE_OK)
        return status;
    *to = (*frame)->wire + SHUFFLE_FRAME_HEADER_BYTES + (large ? 0 : exchange->own_bytes);
    if (!large)
        exchange->own_bytes += bytes;
    return BASE_OK;
}

static enum base_status append_row(struct shuffle_exchange *exchange, const struct shuffle_batch *batch, uint32_t row,
                                   uint64_t hash, uint32_t destination, struct base_error *error)
{
    const struct shuffle_layout *layout = exchange->config.layout;
    const uint64_t bytes = shuffle_batch_row_bytes(layout, batch, row);
    if (bytes > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE,
                              "a row of %" PRIu64
                              " bytes cannot be shuffled: the limit for the selected columns of a row is "
                              "%u bytes",
                              bytes, SHUFFLE_ROW_BYTES_MAX);
    enum base_status status;
    if (destination == exchange->worker) {
        struct shuffle_group *own = &exchange->own;
        uint8_t *to;
        BASE_ASSERT(own->rows.count < SHUFFLE_BATCH_ROWS);
        status = own_room(exchange, (uint32_t)bytes, &to, error);
        if (status != BASE_OK)
            return status;
        shuffle_batch_encode_row(layout, batch, row, to);
        own->row[own->rows.count] = to;
        own->hash[own->rows.count++] = hash;
        return BASE_OK;
    }
    struct shuffle_lane *lane = &exchange->lane[destination];
    status = shuffle_lane_room(exchange, destination, (uint32_t)bytes, error);
    if (status != BASE_OK)
        return status;
    const uint32_t written = shuffle_batch_encode_row(layout, batch, row, (uint8_t *)lane->at);
    BASE_ASSERT_SLOW(written == bytes);
    lane->at += written;
    lane->rows++;
    lane->hash_sum += hash;
    return BASE_OK;
}

static enum base_status append_encoded(struct shuffle_exchange *exchange, const struct shuffle_batch *batch,
                                       const uint64_t *hash, const uint32_t *destination, uint32_t *cursor,
                                       struct base_error *error)
{
    enum base_status status = BASE_OK;
    exchange->own.rows.pinned = false;
    uint32_t at = *cursor;
    BASE_ASSERT(exchange->own.rows.count == 0); /* offered, or append would not have come here */
    for (; at < batch->rows && status == BASE_OK; at++) {
        if (destination[at] == SHUFFLE_DROP)
            continue;
        status = append_row(exchange, batch, at, hash[at], destination[at], error);
        if (status != BASE_OK)
            break;
    }
    *cursor = at;
    if (status != BASE_OK && status != BASE_BUSY)
        return status;
    const enum base_status own_status = own_offer(exchange, error);
    return own_status != BASE_OK ? own_status : status;
}

enum base_status shuffle_exchange_append(struct shuffle_exchange *exchange, const struct shuffle_batch *batch,
                                         const uint64_t *hash, const uint32_t *destination, uint32_t *cursor,
                                         struct base_error *error)
{
    BASE_ASSERT(!exchange->finished && batch->rows <= SHUFFLE_BATCH_ROWS && *cursor <= batch->rows);
    enum base_status status = own_offer(exchange, error);
    if (status != BASE_OK)
        return status;
    if (batch->image && exchange->row_bytes)
        status = append_image(exchange, batch, hash, destination, cursor, error);
    else if (exchange->row_bytes && exchange->row_bytes <= IMAGED_ROW_BYTES_MAX && image_reserve(exchange))
        status = append_columns(exchange, batch, hash, destination, cursor, error);
    else
        status = append_encoded(exchange, batch, hash, destination, cursor, error);
    shuffle_mesh_kick(exchange->config.mesh);
    return status;
}

void shuffle_exchange_note(struct shuffle_exchange *exchange, uint16_t notes)
{
    BASE_ASSERT(!exchange->finished && !(notes & ~SHUFFLE_FRAME_NOTES));
    exchange->noted |= notes;
}

uint16_t shuffle_exchange_notes(const struct shuffle_exchange *exchange)
{
    BASE_ASSERT(exchange->ended == exchange->workers);
    return exchange->noted | exchange->heard;
}

void shuffle_exchange_finish(struct shuffle_exchange *exchange)
{
    BASE_ASSERT(!exchange->finished && exchange->own.rows.count == 0);
    shuffle_lanes_seal(exchange);
    for (uint32_t i = 1; i < exchange->workers; i++)
        shuffle_lane_end(exchange, (exchange->worker + i) % exchange->workers);
    exchange->in[exchange->worker].ended = true;
    exchange->ended++;
    exchange->finished = true;
    shuffle_mesh_kick(exchange->config.mesh);
}

bool shuffle_exchange_sent(const struct shuffle_exchange *exchange)
{
    return exchange->finished && exchange->lanes_away == 0;
}

bool shuffle_exchange_received(const struct shuffle_exchange *exchange)
{
    BASE_ASSERT(exchange->ended <= exchange->workers);
    return exchange->ended == exchange->workers;
}

const struct shuffle_exchange_counters *shuffle_exchange_counters(const struct shuffle_exchange *exchange)
{
    return &exchange->counters;
}

/* Of frames that are not the pool's: those of a large row, and ENDs. */
static void exchange_log_missing(const struct shuffle_exchange *exchange)
{
    char text[160];
    for (uint32_t i = 0; i < exchange->workers; i++) {
        const struct shuffle_lane_state *state = &exchange->state[i];
        if (state->large) {
            shuffle_frame_describe(state->large, text, sizeof text);
            base_log_error("exchange %u closes without the frame of a large row: it is held by %s", exchange->config.id,
                           text);
        }
        if (state->end_away) {
            shuffle_frame_describe(&state->end, text, sizeof text);
            base_log_error("exchange %u closes without an END frame: it is held by %s", exchange->config.id, text);
        }
    }
}

void shuffle_exchange_close(struct shuffle_exchange *exchange)
{
    if (!exchange)
        return;
    shuffle_mesh_detach(exchange->config.mesh, exchange);
    for (uint32_t i = 0; i < exchange->workers; i++)
        shuffle_lane_drop_open(exchange, i);
    own_reset(exchange);
    if (exchange->lanes_away > 0)
        exchange_log_missing(exchange);
    if (exchange->image)
        base_pages_unmap(exchange->config.governor, BASE_HOLDER_FRAMES, exchange->image, image_bytes(exchange));
    exchange_free(exchange);
}
