/* The probe sink: from probe rows to pairs to the output.
 *
 * Pairs point to rows: build rows live as long as the table, probe rows only until consume says OK (then the caller
 * frees what they lie in). So consume says OK only when every pair of these rows has been given to the output. Pairs
 * that the output has no room for stay here, from one call to the next, whoever makes it: a second producer whose rows
 * come meanwhile first moves them on. The rows that a stopped producer keeps must then show that it is not done even
 * when all its matches are found: their last row is kept back with JOIN_LINK_NOTHING as resume word, which finds
 * nothing more when it is offered again. */
#include <stdlib.h>

#include "base/assert.h"
#include "join/sinks.h"
#include "join/table_internal.h"
#include "shuffle/frames/cut.h"

struct probe_sink {
    struct shuffle_sink base;
    struct join_probe_sink_config config;
    uint64_t turn_rows_left;
    uint32_t pairs, given; /* pairs collected, and how many of them the output has taken */
    const uint8_t *build[SHUFFLE_BATCH_ROWS];
    const uint8_t *probe[SHUFFLE_BATCH_ROWS];
};

static struct probe_sink *probe_sink(struct shuffle_sink *sink)
{
    return (struct probe_sink *)sink;
}

enum base_status join_probe_sink_drain(struct shuffle_sink *base, struct base_error *error)
{
    struct probe_sink *sink = probe_sink(base);
    if (sink->pairs == 0)
        return BASE_OK;
    const uint8_t *const *left = sink->config.build_is_left ? sink->build : sink->probe;
    const uint8_t *const *right = sink->config.build_is_left ? sink->probe : sink->build;
    enum base_status status = shuffle_output_write(sink->config.output, left, right, sink->pairs, &sink->given, error);
    if (status != BASE_OK)
        return status;
    BASE_ASSERT(sink->given == sink->pairs);
    sink->pairs = sink->given = 0;
    return BASE_OK;
}

/* A cut row was probed by its key alone; the output wants all of it. Its pairs come first. */
static void pairs_cut(const struct shuffle_rows *rows, const uint8_t **probe, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs && probe[i] == rows->row[0]; i++)
        probe[i] = shuffle_cut_row(rows->cut);
}

static void probe_sink_collect(struct probe_sink *sink, struct shuffle_rows *rows)
{
    const uint32_t space = (uint32_t)base_min_u64(SHUFFLE_BATCH_ROWS - sink->pairs, sink->turn_rows_left);
    const bool cut = rows->cut && rows->next == 0;
    uint32_t pairs;
    join_table_probe(sink->config.table, sink->config.key, sink->config.layout, rows, space, sink->build + sink->pairs,
                     sink->probe + sink->pairs, &pairs);
    if (cut)
        pairs_cut(rows, sink->probe + sink->pairs, pairs);
    sink->pairs += pairs;
    sink->turn_rows_left -= pairs;
}

static enum base_status probe_consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct probe_sink *sink = probe_sink(base);
    if (rows->next == rows->count)
        return BASE_OK;
    while (rows->next < rows->count) {
        enum base_status status = join_probe_sink_drain(base, error);
        if (status != BASE_OK)
            return status;
        if (sink->turn_rows_left == 0)
            return BASE_BUSY;
        probe_sink_collect(sink, rows);
    }
    enum base_status status = join_probe_sink_drain(base, error);
    if (status == BASE_BUSY) {
        rows->next = rows->count - 1;
        rows->resume = JOIN_LINK_NOTHING;
    }
    return status;
}

static const struct shuffle_sink_ops probe_ops = {.consume = probe_consume, .takes_cut_rows = true};

enum base_status join_probe_sink_open(const struct join_probe_sink_config *config, struct shuffle_sink **sink,
                                      struct base_error *error)
{
    struct probe_sink *opened = malloc(sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a probe sink's arrays of pairs");
    opened->base.ops = &probe_ops;
    opened->config = *config;
    opened->turn_rows_left = UINT64_MAX; /* until the first turn says otherwise */
    opened->pairs = opened->given = 0;
    *sink = &opened->base;
    return BASE_OK;
}

void join_probe_sink_turn(struct shuffle_sink *sink, uint32_t output_rows_max)
{
    probe_sink(sink)->turn_rows_left = output_rows_max;
}

bool join_probe_sink_spent(const struct shuffle_sink *sink)
{
    return ((const struct probe_sink *)sink)->turn_rows_left == 0;
}
