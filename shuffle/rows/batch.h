/* A batch: up to SHUFFLE_BATCH_ROWS rows in columns, as a scan produces them and the exchange routes them.
 *
 * A batch borrows everything: its columns point into the scan's block, arena or preloaded relation and stay valid until
 * the scan is asked for the next batch (or, when `pinned`, until the job ends). */
#ifndef MILLRACE_SHUFFLE_ROWS_BATCH_H
#define MILLRACE_SHUFFLE_ROWS_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shuffle/rows/schema.h"

enum { SHUFFLE_BATCH_ROWS = 1024 };

/* Bytes of one variable-length value. */
struct shuffle_slice {
    const uint8_t *data;
    uint32_t bytes;
};

/* One column. Fixed-width: value i is at data + i * stride. Variable: slice[i]. Nullable: null[i] is 1 for NULL
 * (null NULL means none is). */
struct shuffle_column {
    const uint8_t *data;
    uint32_t stride;
    const struct shuffle_slice *slice;
    const uint8_t *null;
};

struct shuffle_batch {
    uint32_t rows;
    struct shuffle_column *column; /* as many as the layout's count */
    const uint8_t *image;          /* not NULL: row i stands complete, in the layout, at image + i * layout.row_bytes */
    bool pinned;                   /* image stays valid until the job ends: rows may be referenced instead of copied */
};

/* Bytes row i will have in the layout. */
uint64_t shuffle_batch_row_bytes(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row);
/* Writes row i to `to`, which has room for shuffle_batch_row_bytes; returns the bytes written. */
uint32_t shuffle_batch_encode_row(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row,
                                  uint8_t *to);
/* Writes all rows, one after the other, to `to`, a column at a time. For layouts without variable columns only. */
void shuffle_batch_encode_image(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint8_t *to);

#endif
