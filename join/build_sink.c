#include <stdlib.h>

#include "base/assert.h"
#include "join/sinks.h"

struct build_sink {
    struct shuffle_sink base;
    struct join_table *table;
};

static enum base_status build_consume(struct shuffle_sink *sink, struct shuffle_rows *rows, struct base_error *error)
{
    const enum base_status status = join_table_insert(((struct build_sink *)sink)->table, rows, error);
    BASE_ASSERT(status == BASE_OK ? rows->next == rows->count
                                  : status != BASE_BUSY); /* all are taken, or the job ends */
    return status;
}

static const struct shuffle_sink_ops build_ops = {.consume = build_consume, .takes_cut_rows = true};

enum base_status join_build_sink_open(struct join_table *table, struct shuffle_sink **sink, struct base_error *error)
{
    struct build_sink *opened = malloc(sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a build sink's own record");
    *opened = (struct build_sink){.base.ops = &build_ops, .table = table};
    *sink = &opened->base;
    return BASE_OK;
}

void join_sink_close(struct shuffle_sink *sink)
{
    free(sink);
}
