/* The probe sink: from probe rows to pairs to the output.
 *
 * Pairs point to rows: build rows live as long as the table, probe rows only until consume says OK (then the caller
 * frees what they lie in). So consume says OK only when every pair of these rows has been given to the output. Pairs
 * that the output has no room for stay here, from one call to the next, whoever makes it: a second producer whose rows
 * come meanwhile first moves them on. The rows that a stopped producer keeps must then show that it is not done even
 * when all its matches are found: their last row is kept back with JOIN_LINK_NOTHING as resume word, which finds
 * nothing more when it is offered again.
 *
 * Types. The table gives out what the type of join wants of probe rows (probe_form); only the matches of an anti join
 * whose left side is built are dropped here: they are collected like others, so that a turn's budget bounds the work
 * that marking them is. A condition on pairs (part of ON) will have its place between probing and the forms: the table
 * is then asked for PAIRS, the condition looks at a batch of them at a time, and what it leaves decides which entries
 * are marked and which probe rows have a partner. A row's pairs come one after the other; but a row whose pairs take
 * several calls must keep with its struct shuffle_rows whether one was left so far, because producers take turns. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "join/sinks.h"
#include "join/table_internal.h"
#include "shuffle/frames/cut.h"

enum { WALK_VISITS_PER_ROW = 4 }; /* entries that a turn's walk may look at, for each row it may give out */

struct probe_sink {
    struct shuffle_sink base;
    struct join_probe_sink_config config;
    enum join_probe_form form;
    bool drops_matches, walks; /* walks: entries not marked are wanted, and not all are given out */
    struct join_table_cursor cursor;
    uint64_t turn_rows_left, turn_visits_left;
    uint64_t unmatched;
    uint32_t pairs, given; /* pairs collected, and how many of them the output has taken */
    const uint8_t *build[SHUFFLE_BATCH_ROWS];
    const uint8_t *probe[SHUFFLE_BATCH_ROWS];
};

static struct probe_sink *probe_sink(struct shuffle_sink *sink)
{
    return (struct probe_sink *)sink;
}

static enum join_probe_form probe_form(enum join_type type, uint32_t build)
{
    const bool keeps_build = join_type_keeps(type, build), keeps_probe = join_type_keeps(type, 1 - build);
    if (!join_type_pairs(type)) {
        if (build == 0)
            return JOIN_PROBE_NEW;
        return type == JOIN_TYPE_SEMI ? JOIN_PROBE_FIRST : JOIN_PROBE_UNMATCHED;
    }
    if (keeps_build)
        return keeps_probe ? JOIN_PROBE_BOTH : JOIN_PROBE_MARKED;
    return keeps_probe ? JOIN_PROBE_PADDED : JOIN_PROBE_PAIRS;
}

enum base_status join_probe_sink_drain(struct shuffle_sink *base, struct base_error *error)
{
    struct probe_sink *sink = probe_sink(base);
    if (sink->pairs == 0)
        return BASE_OK;
    const uint8_t *const *left = sink->config.build == 0 ? sink->build : sink->probe;
    const uint8_t *const *right = sink->config.build == 0 ? sink->probe : sink->build;
    if (!join_type_pairs(sink->config.type))
        right = NULL; /* the result has nothing of it */
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

/* Counts the rows without a partner among the pairs collected last. */
static uint64_t pairs_unmatched(const struct probe_sink *sink, uint32_t pairs)
{
    uint64_t unmatched = 0;
    if (sink->form == JOIN_PROBE_UNMATCHED)
        return pairs;
    if (sink->form == JOIN_PROBE_PADDED || sink->form == JOIN_PROBE_BOTH)
        for (uint32_t i = 0; i < pairs; i++)
            unmatched += !sink->build[sink->pairs + i];
    return unmatched;
}

static void probe_sink_collect(struct probe_sink *sink, struct shuffle_rows *rows)
{
    const uint32_t space = (uint32_t)base_min_u64(SHUFFLE_BATCH_ROWS - sink->pairs, sink->turn_rows_left);
    const bool cut = rows->cut && rows->next == 0;
    uint32_t pairs;
    join_table_probe(sink->config.table, sink->form, sink->config.key, sink->config.layout, rows, space,
                     sink->build + sink->pairs, sink->probe + sink->pairs, &pairs);
    if (cut)
        pairs_cut(rows, sink->probe + sink->pairs, pairs);
    sink->unmatched += pairs_unmatched(sink, pairs);
    sink->pairs += sink->drops_matches ? 0 : pairs;
    sink->turn_rows_left -= pairs;
}

/* Collects entries that no probe has marked. */
static void probe_sink_walk(struct probe_sink *sink)
{
    const uint32_t space = (uint32_t)base_min_u64(SHUFFLE_BATCH_ROWS, sink->turn_rows_left);
    BASE_ASSERT(sink->pairs == 0 && space > 0);
    sink->walks = join_table_unmarked(sink->config.table, &sink->cursor, &sink->turn_visits_left, space, sink->build,
                                      &sink->pairs);
    memset(sink->probe, 0, sink->pairs * sizeof *sink->probe);
    sink->unmatched += sink->pairs;
    sink->turn_rows_left -= sink->pairs;
}

enum base_status join_probe_sink_finish(struct shuffle_sink *base, struct base_error *error)
{
    struct probe_sink *sink = probe_sink(base);
    enum base_status status = join_probe_sink_drain(base, error);
    while (status == BASE_OK && sink->walks) {
        if (join_probe_sink_spent(base))
            return BASE_BUSY;
        probe_sink_walk(sink);
        status = join_probe_sink_drain(base, error);
    }
    return status;
}

static enum base_status probe_consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct probe_sink *sink = probe_sink(base);
    if (rows->next == rows->count)
        return BASE_OK;
    if (!sink->config.table->sealed) /* who sends them was ordered to probe before all had sealed */
        return base_error_set(error, BASE_PROTOCOL, "rows of the probe side came before the build side was complete");
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
    opened->form = probe_form(config->type, config->build);
    opened->drops_matches = config->type == JOIN_TYPE_ANTI && config->build == 0;
    opened->walks = join_type_keeps(config->type, config->build);
    opened->cursor = (struct join_table_cursor){0};
    opened->turn_rows_left = opened->turn_visits_left = UINT64_MAX; /* until the first turn says otherwise */
    opened->unmatched = 0;
    opened->pairs = opened->given = 0;
    *sink = &opened->base;
    return BASE_OK;
}

void join_probe_sink_turn(struct shuffle_sink *sink, uint32_t output_rows_max)
{
    probe_sink(sink)->turn_rows_left = output_rows_max;
    probe_sink(sink)->turn_visits_left = (uint64_t)output_rows_max * WALK_VISITS_PER_ROW;
}

bool join_probe_sink_spent(const struct shuffle_sink *sink)
{
    const struct probe_sink *of = (const struct probe_sink *)sink;
    return of->turn_rows_left == 0 || of->turn_visits_left == 0;
}

uint64_t join_probe_sink_unmatched(const struct shuffle_sink *sink)
{
    return ((const struct probe_sink *)sink)->unmatched;
}
