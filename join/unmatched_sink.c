/* The sink of rows that have no partner, as is known where they are scanned: their columns, and NULLs for those of the
 * other side. */
#include <stdlib.h>

#include "base/assert.h"
#include "join/sinks.h"
#include "shuffle/rows/batch.h"

struct unmatched_sink {
    struct shuffle_sink base;
    struct shuffle_output *output;
    uint32_t side;
    bool alone; /* the result has nothing of the other side */
};

static enum base_status unmatched_consume(struct shuffle_sink *base, struct shuffle_rows *rows,
                                          struct base_error *error)
{
    static const uint8_t *const nothing[SHUFFLE_BATCH_ROWS];
    const struct unmatched_sink *sink = (const struct unmatched_sink *)base;
    BASE_ASSERT(rows->count <= SHUFFLE_BATCH_ROWS && !rows->cut && (!sink->alone || sink->side == 0));
    if (rows->next == rows->count)
        return BASE_OK;
    const uint8_t *const *other = sink->alone ? NULL : nothing;
    return shuffle_output_write(sink->output, sink->side == 0 ? rows->row : other, sink->side == 0 ? other : rows->row,
                                rows->count, &rows->next, error);
}

static const struct shuffle_sink_ops unmatched_ops = {.consume = unmatched_consume};

enum base_status join_unmatched_sink_open(struct shuffle_output *output, enum join_type type, uint32_t side,
                                          struct shuffle_sink **sink, struct base_error *error)
{
    struct unmatched_sink *opened = malloc(sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a sink's own record");
    *opened = (struct unmatched_sink){
        .base.ops = &unmatched_ops, .output = output, .side = side, .alone = !join_type_pairs(type)};
    *sink = &opened->base;
    return BASE_OK;
}
