#include "shuffle/output/sink.h"

#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/frames/cut.h"

struct output_sink {
    struct shuffle_sink base;
    struct shuffle_output *output;
};

static enum base_status output_sink_consume(struct shuffle_sink *base, struct shuffle_rows *rows,
                                            struct base_error *error)
{
    struct output_sink *sink = (struct output_sink *)base;
    BASE_ASSERT(rows->next <= rows->count);
    if (rows->cut && rows->next == 0 && rows->count > 0) {
        const uint8_t *cut = shuffle_cut_row(rows->cut);
        const enum base_status status = shuffle_output_write(sink->output, &cut, NULL, 1, &rows->next, error);
        if (status != BASE_OK)
            return status;
        BASE_ASSERT(rows->next == 1); /* a cut row is the first, and is not written twice */
    }
    return shuffle_output_write(sink->output, rows->row, NULL, rows->count, &rows->next, error);
}

static const struct shuffle_sink_ops output_sink_ops = {.consume = output_sink_consume, .takes_cut_rows = true};

enum base_status shuffle_output_sink_open(struct shuffle_output *output, struct shuffle_sink **sink,
                                          struct base_error *error)
{
    struct output_sink *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for an output sink");
    made->base.ops = &output_sink_ops;
    made->output = output;
    *sink = &made->base;
    return BASE_OK;
}

void shuffle_output_sink_close(struct shuffle_sink *sink)
{
    free(sink);
}
