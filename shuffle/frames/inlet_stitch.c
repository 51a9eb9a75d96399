/* Rows that the edge of a piece cuts.
 *
 * Such a row is collected, piece by piece, until it is whole; then it is the first of the next group. Narrow rows are
 * copied into the stitch buffer, so that the piece (a receive buffer all connections share) can go back at once. Wide
 * ones are not copied when the sink takes them as they lie (shuffle/frames/cut.h): the inlet keeps the pieces until
 * the row is whole and taken, and only what is read of the row and lies across an edge, such as a key, is put together
 * in the stitch buffer. Of a row of variable width the head comes first: when it is cut it is copied, because it has to
 * be read to know the row's size.
 *
 * A kept chunk cannot be received into, and the row's end needs one: so all inlets of a mesh keep at most half of what
 * the engine has, and a row that cannot be kept is copied after all, at any time until it is whole. */
#include "shuffle/frames/inlet.h"

#include <stdlib.h>

#include "base/assert.h"

enum { STITCH_BYTES_MIN = 256 };

/* The stitch buffer has moved: so has what points to it. */
static void stitch_moved(struct shuffle_inlet *inlet, const uint8_t *before, uint8_t *after)
{
    inlet->stitch = after;
    if (inlet->cutting) {
        inlet->cut.whole = after;
        if (inlet->cut.piece[0].data == before)
            inlet->cut.piece[0].data = after;
    }
    if (inlet->group && shuffle_inlet_stitched(inlet) && inlet->group->row[0] == before)
        inlet->group->row[0] = after;
}

enum base_status shuffle_inlet_reserve(struct shuffle_inlet *inlet, uint32_t bytes, struct base_error *error)
{
    if (bytes <= inlet->stitch_capacity)
        return BASE_OK;
    const uint32_t capacity = (uint32_t)base_max_u64(bytes, STITCH_BYTES_MIN);
    struct base_governor *governor = inlet->shared->governor;
    const uint32_t more = capacity - inlet->stitch_capacity;
    const enum base_status status = base_governor_draw(governor, BASE_HOLDER_STITCH, more, error);
    if (status != BASE_OK)
        return status;
    uint8_t *grown = malloc(capacity);
    if (!grown) {
        base_governor_return(governor, BASE_HOLDER_STITCH, more);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a row of %u bytes", bytes);
    }
    uint8_t *before = inlet->stitch;
    if (before)
        memcpy(grown, before, inlet->stitch_capacity);
    stitch_moved(inlet, before, grown);
    free(before);
    inlet->stitch_capacity = capacity;
    BASE_ASSERT(inlet->stitch_capacity >= bytes && inlet->stitch);
    return BASE_OK;
}

/* May this row be left where it lies? */
static bool cut_allowed(const struct shuffle_inlet *inlet, uint32_t bytes)
{
    return bytes >= SHUFFLE_CUT_BYTES_MIN && inlet->exchange->config.sink->ops->takes_cut_rows &&
           inlet->shared->kept < inlet->shared->kept_max;
}

static void kept_release(struct shuffle_inlet *inlet)
{
    BASE_ASSERT(inlet->kept_count <= SHUFFLE_CUT_PIECES_MAX && inlet->shared->kept >= inlet->kept_count);
    for (uint32_t i = 0; i < inlet->kept_count; i++)
        shuffle_inlet_release(inlet, &inlet->kept[i]);
    inlet->shared->kept -= inlet->kept_count;
    inlet->kept_count = 0;
}

/* Copies what is there of the row after all: too many pieces, or too many chunks kept. */
static void cut_give_up(struct shuffle_inlet *inlet)
{
    struct shuffle_cut *cut = &inlet->cut;
    cut->bytes = inlet->stitch_bytes;
    BASE_ASSERT(inlet->cutting && cut->count > 0 && inlet->stitch_bytes <= inlet->stitch_capacity);
    shuffle_cut_join(cut, 0, cut->bytes);
    inlet->exchange->counters.stitched_bytes += cut->joined_bytes;
    inlet->cutting = false;
    kept_release(inlet);
}

/* The piece is used up, and the row goes on in the next. False: nothing in the piece is needed any more. */
bool shuffle_inlet_keeps(struct shuffle_inlet *inlet)
{
    if (!inlet->cutting || shuffle_inlet_stitched(inlet) || inlet->stitch_bytes == 0)
        return false;
    if (inlet->cut.count == SHUFFLE_CUT_PIECES_MAX || inlet->shared->kept >= inlet->shared->kept_max) {
        cut_give_up(inlet);
        return false;
    }
    shuffle_inlet_keep(inlet, &inlet->piece, "a cut row in the inlet of worker");
    BASE_ASSERT(inlet->kept_count < SHUFFLE_CUT_PIECES_MAX);
    inlet->kept[inlet->kept_count++] = inlet->piece;
    inlet->shared->kept++;
    return true;
}

/* The sink has taken the row. */
void shuffle_inlet_stitch_done(struct shuffle_inlet *inlet)
{
    if (inlet->cutting)
        inlet->exchange->counters.joined_bytes += inlet->cut.joined_bytes;
    inlet->stitch_bytes = 0;
    inlet->cutting = false;
    kept_release(inlet);
}

/* Takes what the piece has of the row. */
static void stitch_take(struct shuffle_inlet *inlet)
{
    BASE_ASSERT(inlet->stitch_bytes <= inlet->stitch_need);
    BASE_ASSERT(inlet->cutting ? inlet->cut.count < SHUFFLE_CUT_PIECES_MAX
                               : inlet->stitch_need <= inlet->stitch_capacity);
    uint32_t left;
    const uint8_t *from = shuffle_inlet_piece(inlet, &left);
    uint32_t bytes = inlet->stitch_need - inlet->stitch_bytes;
    bytes = bytes < left ? bytes : left;
    if (bytes == 0)
        return;
    if (inlet->cutting) {
        inlet->cut.piece[inlet->cut.count].data = from;
        inlet->cut.piece[inlet->cut.count++].begin = inlet->stitch_bytes;
    } else {
        memcpy(inlet->stitch + inlet->stitch_bytes, from, bytes);
        inlet->exchange->counters.stitched_bytes += bytes;
    }
    inlet->stitch_bytes += bytes;
    inlet->piece_at += bytes;
    shuffle_inlet_took(inlet, from, bytes);
}

/* The row's size is known. What was copied of it (its head) stays copied. */
static enum base_status stitch_size(struct shuffle_inlet *inlet, uint32_t bytes, struct base_error *error)
{
    BASE_ASSERT(bytes >= inlet->stitch_bytes && bytes <= SHUFFLE_ROW_BYTES_MAX && inlet->kept_count == 0);
    if (shuffle_inlet_reserve(inlet, bytes, error) != BASE_OK)
        return BASE_NO_MEMORY;
    inlet->stitch_need = bytes;
    inlet->stitch_sized = true;
    inlet->cutting = cut_allowed(inlet, bytes);
    inlet->cut.bytes = bytes;
    inlet->cut.whole = inlet->stitch;
    inlet->cut.joined_bytes = 0;
    inlet->cut.count = inlet->stitch_bytes > 0;
    inlet->cut.piece[0].data = inlet->stitch;
    inlet->cut.piece[0].begin = 0;
    return BASE_OK;
}

/* Of a row of variable width, whose head is at `row`. */
static enum base_status stitch_size_variable(struct shuffle_inlet *inlet, const uint8_t *row, uint64_t payload_left,
                                             struct base_error *error)
{
    const struct shuffle_layout *layout = inlet->exchange->config.layout;
    const uint32_t bytes = shuffle_inlet_row_size(layout, row, payload_left);
    if (bytes == 0 || !shuffle_row_check(layout, row, bytes))
        return shuffle_inlet_misfit(inlet, error);
    return stitch_size(inlet, bytes, error);
}

static enum base_status cut_row_begin(struct shuffle_inlet *inlet, struct base_error *error)
{
    const struct shuffle_exchange *exchange = inlet->exchange;
    const uint32_t head = exchange->row_bytes ? exchange->row_bytes : shuffle_row_head_bytes(exchange->config.layout);
    uint32_t left;
    const uint8_t *at = shuffle_inlet_piece(inlet, &left);
    if (head > inlet->payload_left)
        return shuffle_inlet_misfit(inlet, error);
    inlet->exchange->counters.rows_cut++;
    inlet->cutting = false;
    if (exchange->row_bytes)
        return stitch_size(inlet, head, error);
    if (left >= head)
        return stitch_size_variable(inlet, at, inlet->payload_left, error);
    inlet->stitch_sized = false;
    inlet->stitch_need = head;
    return shuffle_inlet_reserve(inlet, head, error) == BASE_OK ? BASE_OK : BASE_NO_MEMORY;
}

/* Goes on collecting a cut row, or begins to. It may still be incomplete afterwards. */
enum base_status shuffle_inlet_stitch(struct shuffle_inlet *inlet, struct base_error *error)
{
    BASE_ASSERT(inlet->state.now == SHUFFLE_INLET_ROWS && !shuffle_inlet_stitched(inlet));
    enum base_status status = inlet->stitch_bytes == 0 ? cut_row_begin(inlet, error) : BASE_OK;
    if (status != BASE_OK)
        return status;
    stitch_take(inlet);
    if (inlet->stitch_sized || inlet->stitch_bytes < inlet->stitch_need)
        return BASE_OK;
    status = stitch_size_variable(inlet, inlet->stitch, (uint64_t)inlet->stitch_bytes + inlet->payload_left, error);
    if (status == BASE_OK)
        stitch_take(inlet);
    return status;
}

/* A cut row is the first of a group: by a pointer to it, or one that is good for its key. */
const uint8_t *shuffle_inlet_stitched_row(struct shuffle_inlet *inlet)
{
    BASE_ASSERT(shuffle_inlet_stitched(inlet));
    const struct shuffle_exchange *exchange = inlet->exchange;
    if (!inlet->cutting)
        return inlet->stitch;
    const uint8_t *row = shuffle_cut_key(&inlet->cut, exchange->config.layout, exchange->config.key);
    inlet->exchange->counters.stitched_bytes += inlet->cut.joined_bytes;
    inlet->cut.joined_bytes = 0;
    return row;
}
