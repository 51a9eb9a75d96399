/* From bytes to rows.
 *
 * The stream is: header, payload, header, payload ... A piece may end anywhere. Of a header the bytes are collected.
 * Of a payload whole rows are offered where they lie, up to a batch of them at a time; a row cut by the end of a piece
 * is collected first (inlet_stitch.c) and offered together with the rows after it.
 *
 * A sink that says BUSY leaves the group with the inlet; the piece it points into stays, further pieces queue up
 * after it. Nothing else is kept from one turn to the next. A frame for an exchange that is not open yet waits the
 * same manner, with its header collected.
 *
 * Everything that comes from a peer is checked before it is used: the header on its own, then against the lane
 * (destination, source, sequence, nothing after END) and the layout; each row of variable width for its shape and for
 * the bytes the frame still has; at the frame's end the number of rows and, when asked for, the checksum; at the
 * stream's end the totals. A row's hash is computed here, not believed. Memory: one stitch buffer, of the size of a
 * row that the frame has announced, so at most SHUFFLE_ROW_BYTES_MAX; the usual size is reserved ahead. */
#include "shuffle/frames/inlet.h"

#include <inttypes.h>
#include <stdlib.h>
#include <xxhash.h> /* the library's: its streaming form cannot be inlined without optimisation */

#include "base/assert.h"

#define FROM(state) (1U << SHUFFLE_INLET_##state)
static const struct base_state_row inlet_rows[SHUFFLE_INLET_STATE_COUNT] = {
    [SHUFFLE_INLET_HEADER] = {"header", FROM(ROWS) | FROM(TOTALS)},
    [SHUFFLE_INLET_ROWS] = {"rows", FROM(HEADER)},
    [SHUFFLE_INLET_TOTALS] = {"totals", FROM(HEADER)},
};
#undef FROM
static const struct base_machine inlet_machine = {"inlet", inlet_rows, SHUFFLE_INLET_STATE_COUNT};

void shuffle_inlet_open(struct shuffle_inlet *inlet, struct shuffle_inlets *shared, uint32_t peer)
{
    *inlet = (struct shuffle_inlet){.shared = shared, .peer = peer};
    inlet->queue_end = &inlet->queue;
    base_state_begin(&inlet->state, &inlet_machine, SHUFFLE_INLET_HEADER);
}

/* Frames. */

static enum base_status check_start(struct shuffle_inlet *inlet, struct base_error *error)
{
    if (!(inlet->header.flags & SHUFFLE_FRAME_CHECKED)) {
        if (!inlet->exchange->config.verify)
            return BASE_OK;
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT,
                                  "a frame has no checksum although the job verifies them");
    }
    if (!inlet->check)
        inlet->check = XXH3_createState();
    if (!inlet->check)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the state of a checksum");
    XXH3_64bits_reset(inlet->check);
    return BASE_OK;
}

static enum base_status header_check(struct shuffle_inlet *inlet, struct base_error *error)
{
    const struct shuffle_frame_header *header = &inlet->header;
    struct base_error cause;
    if (shuffle_frame_check(header, &cause) != BASE_OK)
        return shuffle_inlet_fail(inlet, error, cause.status, "%s", cause.text);
    if (header->source != inlet->peer || header->destination != inlet->shared->worker)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT, "a frame says it is from worker %u to worker %u",
                                  header->source, header->destination);
    return BASE_OK;
}

/* The header is there and so is its exchange. */
static enum base_status frame_begin(struct shuffle_inlet *inlet, struct base_error *error)
{
    const struct shuffle_frame_header *header = &inlet->header;
    struct shuffle_exchange *exchange = inlet->shared->exchange[header->exchange];
    struct shuffle_lane_in *lane = &exchange->in[inlet->peer];
    inlet->exchange = exchange;
    BASE_ASSERT(inlet->state.now == SHUFFLE_INLET_HEADER && inlet->header_bytes == SHUFFLE_FRAME_HEADER_BYTES);
    BASE_ASSERT(exchange && inlet->stitch_bytes == 0 && !inlet->group); /* the frame before is done with */
    if (lane->ended)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_SEQUENCE,
                                  "a frame of exchange %u comes after its end of stream", header->exchange);
    if (header->sequence != lane->sequence)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_SEQUENCE,
                                  "exchange %u: frame %" PRIu64 " comes instead of frame %" PRIu64, header->exchange,
                                  header->sequence, lane->sequence);
    if (header->kind == SHUFFLE_FRAME_DATA && exchange->row_bytes &&
        header->bytes != (uint64_t)header->rows * exchange->row_bytes)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT, "exchange %u: %u bytes are not %u rows of %u bytes",
                                  header->exchange, header->bytes, header->rows, exchange->row_bytes);
    lane->sequence++;
    exchange->counters.frames_in++;
    inlet->payload_left = header->bytes;
    inlet->rows_left = header->rows;
    inlet->stitch_bytes = 0;
    base_state_enter(&inlet->state, header->kind == SHUFFLE_FRAME_DATA ? SHUFFLE_INLET_ROWS : SHUFFLE_INLET_TOTALS);
    return check_start(inlet, error);
}

/* BASE_BUSY: the exchange is not open yet. */
static enum base_status step_header(struct shuffle_inlet *inlet, struct base_error *error)
{
    BASE_ASSERT(inlet->header_bytes <= SHUFFLE_FRAME_HEADER_BYTES);
    if (inlet->header_bytes < SHUFFLE_FRAME_HEADER_BYTES) {
        inlet->header_bytes += shuffle_inlet_copy(inlet, (uint8_t *)&inlet->header + inlet->header_bytes,
                                                  SHUFFLE_FRAME_HEADER_BYTES - inlet->header_bytes);
        if (inlet->header_bytes < SHUFFLE_FRAME_HEADER_BYTES)
            return BASE_OK;
        const enum base_status status = header_check(inlet, error);
        if (status != BASE_OK)
            return status;
    }
    if (!inlet->shared->exchange[inlet->header.exchange])
        return BASE_BUSY;
    return frame_begin(inlet, error);
}

static enum base_status frame_finish(struct shuffle_inlet *inlet, struct base_error *error)
{
    BASE_ASSERT(inlet->payload_left == 0 && !inlet->group);
    const struct shuffle_frame_header *header = &inlet->header;
    base_state_enter(&inlet->state, SHUFFLE_INLET_HEADER);
    inlet->header_bytes = 0;
    if (inlet->rows_left > 0 || inlet->stitch_bytes > 0)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT,
                                  "exchange %u: frame %" PRIu64 " ends before its rows do", header->exchange,
                                  header->sequence);
    if (header->flags & SHUFFLE_FRAME_CHECKED && XXH3_64bits_digest(inlet->check) != header->check)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT,
                                  "exchange %u: the checksum of frame %" PRIu64
                                  " (%u bytes) does not match: bytes were changed in "
                                  "transit, look at that node's memory and network card",
                                  header->exchange, header->sequence, header->bytes);
    if (header->kind == SHUFFLE_FRAME_DATA) {
        inlet->exchange->in[inlet->peer].totals.bytes += header->bytes;
        inlet->shared->received_bytes[inlet->peer] += inlet->piece.frame ? 0 : header->bytes;
    }
    return BASE_OK;
}

static enum base_status step_totals(struct shuffle_inlet *inlet, struct base_error *error)
{
    BASE_ASSERT(inlet->payload_left > 0 && inlet->payload_left <= sizeof inlet->totals); /* as its header was checked */
    const uint32_t have = (uint32_t)sizeof inlet->totals - inlet->payload_left;
    uint8_t *to = (uint8_t *)&inlet->totals + have;
    shuffle_inlet_took(inlet, to, shuffle_inlet_copy(inlet, to, inlet->payload_left));
    if (inlet->payload_left > 0)
        return BASE_OK;
    const enum base_status status = frame_finish(inlet, error);
    if (status != BASE_OK)
        return status;
    struct shuffle_exchange *exchange = inlet->exchange;
    struct shuffle_lane_in *lane = &exchange->in[inlet->peer];
    const struct shuffle_lane_totals *got = &lane->totals, *sent = &inlet->totals;
    if (got->rows != sent->rows || got->bytes != sent->bytes || got->hash_sum != sent->hash_sum)
        return shuffle_inlet_fail(inlet, error, BASE_LANE_TOTALS,
                                  "exchange %u: sent %" PRIu64 " rows, %" PRIu64 " bytes, hash sum %016" PRIx64
                                  ", but %" PRIu64 " rows, %" PRIu64 " bytes, hash sum "
                                  "%016" PRIx64 " have arrived",
                                  exchange->config.id, sent->rows, sent->bytes, sent->hash_sum, got->rows, got->bytes,
                                  got->hash_sum);
    exchange->heard |= inlet->header.flags & SHUFFLE_FRAME_NOTES;
    lane->ended = true;
    exchange->ended++;
    BASE_ASSERT(exchange->ended <= exchange->workers);
    return BASE_OK;
}

/* Rows. */

/* Whole rows of fixed width in the piece, after `count` rows in the group. Returns the new count. */
static uint32_t collect_fixed(struct shuffle_inlet *inlet, struct shuffle_group *group, uint32_t count)
{
    BASE_ASSERT(count <= 1 && inlet->exchange->row_bytes > 0); /* a row that was cut comes first */
    const struct shuffle_exchange *exchange = inlet->exchange;
    const uint32_t row_bytes = exchange->row_bytes;
    uint32_t left;
    const uint8_t *at = shuffle_inlet_piece(inlet, &left);
    left = left < inlet->payload_left ? left : inlet->payload_left;
    const uint32_t whole = (uint32_t)base_min_u64(left / row_bytes, SHUFFLE_BATCH_ROWS - count);
    if (count > 0)
        shuffle_key_hash_rows(exchange->config.key, exchange->config.layout, group->row, count, group->hash);
    for (uint32_t i = 0; i < whole; i++)
        group->row[count + i] = at + (size_t)i * row_bytes;
    shuffle_key_hash_image(exchange->config.key, exchange->config.layout, at, whole, group->hash + count);
    inlet->piece_at += whole * row_bytes;
    shuffle_inlet_took(inlet, at, whole * row_bytes);
    return count + whole;
}

/* The same for rows of variable width; UINT32_MAX: a row is malformed. */
static uint32_t collect_variable(struct shuffle_inlet *inlet, struct shuffle_group *group, uint32_t count)
{
    BASE_ASSERT(count <= 1 && inlet->exchange->row_bytes == 0);
    const struct shuffle_exchange *exchange = inlet->exchange;
    const struct shuffle_layout *layout = exchange->config.layout;
    const uint32_t head = shuffle_row_head_bytes(layout);
    uint32_t left, taken = 0;
    const uint8_t *at = shuffle_inlet_piece(inlet, &left);
    left = left < inlet->payload_left ? left : inlet->payload_left;
    while (count < SHUFFLE_BATCH_ROWS && left - taken >= head) {
        const uint32_t bytes = shuffle_inlet_row_size(layout, at + taken, inlet->payload_left - taken);
        if (bytes == 0)
            return UINT32_MAX;
        if (bytes > left - taken)
            break;
        if (!shuffle_row_check(layout, at + taken, bytes))
            return UINT32_MAX;
        group->row[count++] = at + taken;
        taken += bytes;
    }
    shuffle_key_hash_rows(exchange->config.key, layout, group->row, count, group->hash);
    inlet->piece_at += taken;
    shuffle_inlet_took(inlet, at, taken);
    return count;
}

/* Groups are kept for the next rows that arrive, whoever's. NULL: no memory. */
static struct shuffle_group *inlet_group_take(struct shuffle_inlets *shared)
{
    struct shuffle_group *group = shared->spares;
    if (group)
        shared->spares = group->next;
    else
        group = malloc(sizeof *group);
    return group;
}

static void inlet_group_give(struct shuffle_inlets *shared, struct shuffle_group *group)
{
    group->next = shared->spares;
    shared->spares = group;
}

/* The rows are counted when they are collected, not when the sink has taken them. */
static enum base_status group_count(struct shuffle_inlet *inlet, struct shuffle_group *group, uint32_t count,
                                    struct base_error *error)
{
    struct shuffle_lane_totals *totals = &inlet->exchange->in[inlet->peer].totals;
    BASE_ASSERT(count <= SHUFFLE_BATCH_ROWS && inlet->piece_at <= inlet->piece.bytes);
    if (count > inlet->rows_left)
        return shuffle_inlet_fail(inlet, error, BASE_FRAME_CORRUPT,
                                  "exchange %u: frame %" PRIu64 " has more rows than it says", inlet->header.exchange,
                                  inlet->header.sequence);
    inlet->rows_left -= count;
    totals->rows += count;
    for (uint32_t i = 0; i < count; i++)
        totals->hash_sum += group->hash[i];
    group->rows = (struct shuffle_rows){.row = group->row,
                                        .hash = group->hash,
                                        .count = count,
                                        .cut = shuffle_inlet_stitched(inlet) && inlet->cutting ? &inlet->cut : NULL};
    return BASE_OK;
}

static enum base_status step_rows(struct shuffle_inlet *inlet, struct base_error *error)
{
    enum base_status status = BASE_OK;
    BASE_ASSERT(!inlet->group && inlet->header.kind == SHUFFLE_FRAME_DATA);
    if (inlet->stitch_bytes > 0 && !shuffle_inlet_stitched(inlet)) {
        status = shuffle_inlet_stitch(inlet, error);
        if (status != BASE_OK || !shuffle_inlet_stitched(inlet))
            return status;
    }
    struct shuffle_group *group = inlet_group_take(inlet->shared);
    if (!group)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a group of arriving rows");
    uint32_t count = 0;
    if (shuffle_inlet_stitched(inlet))
        group->row[count++] = shuffle_inlet_stitched_row(inlet);
    count = inlet->exchange->row_bytes ? collect_fixed(inlet, group, count) : collect_variable(inlet, group, count);
    if (count > 0 && count != UINT32_MAX)
        status = group_count(inlet, group, count, error);
    if (count > 0 && count != UINT32_MAX && status == BASE_OK) {
        inlet->group = group;
        return BASE_OK;
    }
    inlet_group_give(inlet->shared, group);
    if (count == UINT32_MAX)
        return shuffle_inlet_misfit(inlet, error);
    if (status != BASE_OK)
        return status;
    return inlet->payload_left > 0 ? shuffle_inlet_stitch(inlet, error) : frame_finish(inlet, error);
}

/* Pieces. */

static void piece_next(struct shuffle_inlet *inlet)
{
    BASE_ASSERT(inlet->piece.data && inlet->piece_at <= inlet->piece.bytes);
    BASE_ASSERT(!inlet->queue == (inlet->queue_end == &inlet->queue));
    if (!shuffle_inlet_keeps(inlet))
        shuffle_inlet_release(inlet, &inlet->piece);
    inlet->piece = (struct shuffle_piece){.data = NULL};
    inlet->piece_at = 0;
    struct shuffle_piece *next = inlet->queue;
    if (!next)
        return;
    inlet->queue = next->next;
    if (!inlet->queue)
        inlet->queue_end = &inlet->queue;
    inlet->piece = *next;
    free(next);
}

/* Is there something to do that needs no further bytes? */
static bool inlet_pending(const struct shuffle_inlet *inlet)
{
    switch (inlet->state.now) {
    case SHUFFLE_INLET_HEADER:
        return inlet->header_bytes == SHUFFLE_FRAME_HEADER_BYTES;
    case SHUFFLE_INLET_ROWS:
        return inlet->payload_left == 0 || shuffle_inlet_stitched(inlet);
    case SHUFFLE_INLET_TOTALS:
        return false;
    }
    return false;
}

static enum base_status inlet_step(struct shuffle_inlet *inlet, struct base_error *error)
{
    switch (inlet->state.now) {
    case SHUFFLE_INLET_HEADER:
        return step_header(inlet, error);
    case SHUFFLE_INLET_ROWS:
        return step_rows(inlet, error);
    case SHUFFLE_INLET_TOTALS:
        return step_totals(inlet, error);
    }
    return BASE_OK;
}

static enum base_status group_take_up(struct shuffle_inlet *inlet, bool *worked, struct base_error *error)
{
    BASE_ASSERT(inlet->group && inlet->exchange && inlet->state.now == SHUFFLE_INLET_ROWS);
    struct shuffle_exchange *exchange = inlet->exchange;
    const enum base_status status =
        shuffle_group_offer(inlet->group, exchange->config.sink, &exchange->counters, worked, error);
    if (status != BASE_OK)
        return status;
    inlet_group_give(inlet->shared, inlet->group);
    inlet->group = NULL;
    if (shuffle_inlet_stitched(inlet))
        shuffle_inlet_stitch_done(inlet);
    return BASE_OK;
}

/* Counts the inlet among those that wait, or no longer. */
static void inlet_stall(struct shuffle_inlet *inlet, bool stalled)
{
    struct shuffle_inlets *shared = inlet->shared;
    BASE_ASSERT(!inlet->stalled || shared->stalled > 0);
    if (stalled && !inlet->stalled) {
        shuffle_inlet_keep(inlet, &inlet->piece, "the inlet, which waits for its sink, of worker");
        shared->stalled++;
    } else if (!stalled && inlet->stalled) {
        shared->stalled--;
    }
    inlet->stalled = stalled;
}

enum base_status shuffle_inlet_run(struct shuffle_inlet *inlet, bool *worked, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (inlet->failed)
        return BASE_OK;
    while (status == BASE_OK && inlet->piece.data) {
        if (inlet->group) {
            status = group_take_up(inlet, worked, error);
        } else if (inlet->piece_at < inlet->piece.bytes || inlet_pending(inlet)) {
            status = inlet_step(inlet, error);
        } else {
            piece_next(inlet);
            *worked = true;
        }
    }
    inlet->failed = status != BASE_OK && status != BASE_BUSY;
    inlet_stall(inlet, status == BASE_BUSY);
    BASE_ASSERT(inlet->failed || inlet->stalled == (inlet->piece.data != NULL)); /* else all was taken */
    return status == BASE_BUSY ? BASE_OK : status;
}

enum base_status shuffle_inlet_push(struct shuffle_inlet *inlet, const struct shuffle_piece *piece,
                                    struct base_error *error)
{
    BASE_ASSERT(piece->data && piece->bytes > 0);
    BASE_ASSERT(inlet->piece.data || !inlet->queue); /* nothing waits for nothing */
    if (!inlet->piece.data) {
        inlet->piece = *piece;
        inlet->piece_at = 0;
        bool worked = false;
        return shuffle_inlet_run(inlet, &worked, error);
    }
    shuffle_inlet_keep(inlet, piece, "the queue of the inlet of worker");
    struct shuffle_piece *queued = malloc(sizeof *queued);
    if (!queued) {
        shuffle_inlet_release(inlet, piece);
        return base_error_set(error, BASE_NO_MEMORY, "no memory to queue received bytes");
    }
    *queued = *piece;
    queued->next = NULL;
    *inlet->queue_end = queued;
    inlet->queue_end = &queued->next;
    return BASE_OK;
}

bool shuffle_inlet_holds(const struct shuffle_inlet *inlet)
{
    return inlet->piece.data;
}

void shuffle_inlet_drop(struct shuffle_inlet *inlet)
{
    shuffle_inlet_stitch_done(inlet);
    while (inlet->piece.data)
        piece_next(inlet);
    if (inlet->group)
        inlet_group_give(inlet->shared, inlet->group);
    inlet_stall(inlet, false);
    if (inlet->stitch) {
        free(inlet->stitch);
        base_governor_return(inlet->shared->governor, BASE_HOLDER_STITCH, inlet->stitch_capacity);
    }
    XXH3_freeState(inlet->check);
    shuffle_inlet_open(inlet, inlet->shared, inlet->peer);
}

void shuffle_inlets_free(struct shuffle_inlets *shared)
{
    BASE_ASSERT(shared->stalled == 0 && shared->kept == 0);
    struct shuffle_group *group;
    while ((group = shared->spares)) {
        shared->spares = group->next;
        free(group);
    }
}
