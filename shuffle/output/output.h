/* Output of result rows: counted and checksummed always, and written as CSV or fixed-width rows into one part file per
 * worker when asked.
 *
 * A result row is a list of items, each a column of the left or the right input row. Checksum: the sum modulo 2^64,
 * over all result rows, of XXH3-64 (seed 0) of the row's encoding: per item one byte 0 (NULL) or 1, then for a value
 * its length as uint32 and its bytes in the in-memory form of shuffle/rows/schema.h (little-endian).
 * tests/cluster/checksum.py recomputes it.
 *
 * Part files: written under an attempt name through the engine with several writes in flight, bounded buffers (full:
 * BASE_BUSY), synced by finish; published by rename only after the coordinator's decision (shuffle/output/publish.h).
 */
#ifndef MILLRACE_SHUFFLE_OUTPUT_OUTPUT_H
#define MILLRACE_SHUFFLE_OUTPUT_OUTPUT_H

#include "net/engine/engine.h"
#include "shuffle/rows/schema.h"

struct shuffle_output;

enum shuffle_output_kind { SHUFFLE_OUTPUT_COUNT, SHUFFLE_OUTPUT_CSV, SHUFFLE_OUTPUT_FIXED };

struct shuffle_output_item {
    uint32_t side;   /* 0 left, 1 right */
    uint32_t column; /* in that side's layout */
};

struct shuffle_output_config {
    enum shuffle_output_kind kind;
    struct net_engine *engine;
    struct base_governor *governor;
    const struct shuffle_layout *layout[2]; /* of left and right rows; right NULL for one-sided output; borrowed */
    const struct shuffle_schema
        *schema; /* of the result: one field per item; borrowed. Names of a CSV header, layout of fixed rows */
    const struct shuffle_output_item *item; /* borrowed */
    uint32_t item_count;
    const char *path;          /* attempt file to create (must not exist), NULL for COUNT; copied */
    bool csv_header;           /* first line `name:type` of every part, so that it can be read back with its schema */
    uint32_t buffer_bytes;     /* 0: 256 KiB */
    uint32_t writes_in_flight; /* 0: 4 */
};

/* Errors name the path. A fixed-width output of a variable-length column is BASE_TYPE, naming it. */
enum base_status shuffle_output_open(const struct shuffle_output_config *config, struct shuffle_output **output,
                                     struct base_error *error);
/* Writes result rows *taken.. count-1: left[i] with right[i] (right may be NULL when one-sided; an element NULL means
 * that side is all NULLs). *taken advances. BASE_OK: all taken. BASE_BUSY: buffers full, again after a FILE event. Else
 * an error naming path and cause. */
enum base_status shuffle_output_write(struct shuffle_output *output, const uint8_t *const *left,
                                      const uint8_t *const *right, uint32_t count, uint32_t *taken,
                                      struct base_error *error);
/* Flushes and syncs. BASE_BUSY until it is on disk (call again after FILE events), then BASE_OK, or the error. */
enum base_status shuffle_output_finish(struct shuffle_output *output, struct base_error *error);
/* A FILE event with SHUFFLE_FILE_TAG_OUTPUT; op->context is the output. */
void shuffle_output_event(struct shuffle_output *output, const struct net_event *event);
bool shuffle_output_idle(const struct shuffle_output *output);
/* Must be idle. The attempt file stays: whoever owns the job publishes or removes it. */
void shuffle_output_close(struct shuffle_output *output);

uint64_t shuffle_output_rows(const struct shuffle_output *output);
uint64_t shuffle_output_checksum(const struct shuffle_output *output);
uint64_t shuffle_output_bytes(const struct shuffle_output *output);
/* How often a write was BUSY. */
uint64_t shuffle_output_stalls(const struct shuffle_output *output);

#endif
