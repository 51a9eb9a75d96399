/* Rows that stand complete in memory are offered where they lie. Others are encoded into a buffer, as many as fit, and
 * offered before it is filled again. It is mapped with the first row, and grows only for a row that is larger. */
#include "shuffle/worker/aside.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"

enum { ASIDE_BYTES = 64 << 10 };

struct shuffle_aside {
    struct base_governor *governor;
    const struct shuffle_layout *layout;
    struct shuffle_sink *sink;
    uint8_t *buffer;
    size_t capacity, used;
    struct shuffle_rows rows; /* on offer */
    const uint8_t *row[SHUFFLE_BATCH_ROWS];
};

enum base_status shuffle_aside_open(struct base_governor *governor, const struct shuffle_layout *layout,
                                    struct shuffle_sink *sink, struct shuffle_aside **aside, struct base_error *error)
{
    struct shuffle_aside *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the rows that a scan keeps");
    made->governor = governor;
    made->layout = layout;
    made->sink = sink;
    made->rows.row = made->row;
    *aside = made;
    return BASE_OK;
}

static void aside_unmap(struct shuffle_aside *aside)
{
    if (aside->buffer)
        base_pages_unmap(aside->governor, BASE_HOLDER_SCAN, aside->buffer, aside->capacity);
    aside->buffer = NULL;
    aside->capacity = 0;
}

/* Sees to it that the empty buffer has room for a row. */
static enum base_status aside_reserve(struct shuffle_aside *aside, uint64_t bytes, struct base_error *error)
{
    BASE_ASSERT(aside->used == 0 && aside->rows.count == 0);
    if (bytes > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE,
                              "a row of %" PRIu64
                              " bytes cannot be joined: the limit for the selected columns of a row is %u bytes",
                              bytes, SHUFFLE_ROW_BYTES_MAX);
    if (bytes <= aside->capacity)
        return BASE_OK;
    aside_unmap(aside);
    const size_t capacity = base_align_up(base_max_u64(bytes, ASIDE_BYTES), 4096);
    void *pages;
    const enum base_status status = base_pages_map(aside->governor, BASE_HOLDER_SCAN, capacity, false, &pages, error);
    if (status != BASE_OK)
        return status;
    aside->buffer = pages;
    aside->capacity = capacity;
    return BASE_OK;
}

/* Collects marked rows from *cursor on, as far as there is room. */
static enum base_status aside_collect(struct shuffle_aside *aside, const struct shuffle_batch *batch,
                                      const uint8_t *marked, uint32_t *cursor, struct base_error *error)
{
    const bool whole = batch->image && aside->layout->row_bytes > 0;
    for (; *cursor < batch->rows; ++*cursor) {
        if (!marked[*cursor])
            continue;
        if (whole) {
            aside->row[aside->rows.count++] = batch->image + (size_t)*cursor * aside->layout->row_bytes;
            continue;
        }
        const uint64_t bytes = shuffle_batch_row_bytes(aside->layout, batch, *cursor);
        if (bytes > aside->capacity - aside->used) {
            if (aside->rows.count > 0)
                return BASE_OK;
            const enum base_status status = aside_reserve(aside, bytes, error);
            if (status != BASE_OK)
                return status;
        }
        uint8_t *to = aside->buffer + aside->used;
        aside->used += shuffle_batch_encode_row(aside->layout, batch, *cursor, to);
        aside->row[aside->rows.count++] = to;
    }
    return BASE_OK;
}

static enum base_status aside_offer(struct shuffle_aside *aside, bool *worked, struct base_error *error)
{
    struct shuffle_rows *rows = &aside->rows;
    if (rows->count == 0)
        return BASE_OK;
    const uint32_t next = rows->next;
    const enum base_status status = shuffle_sink_consume(aside->sink, rows, error);
    BASE_ASSERT(rows->next >= next && rows->next <= rows->count);
    *worked |= rows->next > next;
    if (status != BASE_OK)
        return status;
    BASE_ASSERT(rows->next == rows->count);
    rows->count = rows->next = 0;
    rows->resume = 0;
    aside->used = 0;
    return BASE_OK;
}

enum base_status shuffle_aside_take(struct shuffle_aside *aside, const struct shuffle_batch *batch,
                                    const uint8_t *marked, uint32_t *cursor, bool *worked, struct base_error *error)
{
    enum base_status status = aside_offer(aside, worked, error);
    while (status == BASE_OK && *cursor < batch->rows) {
        status = aside_collect(aside, batch, marked, cursor, error);
        if (status == BASE_OK)
            status = aside_offer(aside, worked, error);
    }
    return status;
}

void shuffle_aside_close(struct shuffle_aside *aside)
{
    if (!aside)
        return;
    aside_unmap(aside);
    free(aside);
}
