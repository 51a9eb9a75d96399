/* The hash table: private to a worker, built from rows as bytes, probed in batches.
 *
 * Chained: a directory of 64-bit heads (48-bit entry address, 16-bit tag filter from hash bits 32..47) and entries in
 * row store blocks. Insert touches one random cache line, compares nothing, and a duplicate costs no more than any
 * other row. A probe prefetches heads, then first entries, then compares. The directory doubles when it is more than
 * full (entries > heads) and the budget allows it; rows do not move, their hashes are computed again from the rows,
 * batch by batch. Small rows are copied after their entry's next pointer; rows of at least JOIN_TABLE_REFERENCE_BYTES
 * are referenced where they lie when pinned, else copied. */
#ifndef MILLRACE_JOIN_TABLE_H
#define MILLRACE_JOIN_TABLE_H

#include "base/memory/memory.h"
#include "shuffle/frames/sink.h"
#include "shuffle/rows/key.h"

struct join_table;

enum { JOIN_TABLE_REFERENCE_BYTES = 256 };

struct join_table_config {
    struct base_governor *governor;
    const struct shuffle_layout *layout; /* of build rows; borrowed */
    const struct shuffle_key *key;       /* borrowed */
    uint64_t rows_expected;              /* sizes the directory at once, within reason; may be a guess; 0: unknown */
    bool rows_exact;                     /* rows_expected is no guess, but for the unevenness of hashes */
    uint64_t rows_pinned;                /* how many of these will come pinned; 0: unknown */
    bool prefault;                       /* the row store for rows of fixed width is mapped and touched at once */
};

enum base_status join_table_open(const struct join_table_config *config, struct join_table **table,
                                 struct base_error *error);
/* Inserts rows->row[next..count-1] (all are taken, or an error: BASE_NO_MEMORY says how much was needed). */
enum base_status join_table_insert(struct join_table *table, struct shuffle_rows *rows, struct base_error *error);
/* No more inserts. */
void join_table_seal(struct join_table *table);
uint64_t join_table_rows(const struct join_table *table);
uint64_t join_table_bytes(const struct join_table *table); /* directory and row store */
/* Bytes of rows that were copied into the row store. */
uint64_t join_table_copied_bytes(const struct join_table *table);
void join_table_close(struct join_table *table);

/* What a probe gives out, and what it leaves behind in the table. */
enum join_probe_form {
    JOIN_PROBE_PAIRS,     /* every pair */
    JOIN_PROBE_PADDED,    /* every pair, and probe rows without a match: (NULL, row) */
    JOIN_PROBE_MARKED,    /* every pair; entries that are in one are marked */
    JOIN_PROBE_BOTH,      /* the two before together */
    JOIN_PROBE_FIRST,     /* the first pair of each probe row */
    JOIN_PROBE_UNMATCHED, /* probe rows without a match alone: (NULL, row) */
    JOIN_PROBE_NEW,       /* the first pair of each build row, whose entry is then marked */
    JOIN_PROBE_FORM_COUNT
};

/* Finds matches of probe rows. Produces pairs (build row, probe row) into arrays of pairs_max; *pairs is how many. On
 * return rows->next and rows->resume say where to go on (in the middle of a row's matches); all is done when rows->next
 * == rows->count. Makes progress whenever pairs_max > 0. A table is probed in one form all its life. */
void join_table_probe(const struct join_table *table, enum join_probe_form form, const struct shuffle_key *probe_key,
                      const struct shuffle_layout *probe_layout, struct shuffle_rows *rows, uint32_t pairs_max,
                      const uint8_t **build, const uint8_t **probe, uint32_t *pairs);

/* Where a walk over all entries has come to; starts as zeros. */
struct join_table_cursor {
    uint32_t block;
    const uint8_t *at; /* NULL: at the block's beginning */
};
/* Walks on over at most *visits entries, of which it takes away those that it looked at, and gives out the rows of
 * those that no probe has marked: *count of them, rows_max at most. False: no entry is left. */
bool join_table_unmarked(const struct join_table *table, struct join_table_cursor *cursor, uint64_t *visits,
                         uint32_t rows_max, const uint8_t **rows, uint32_t *count);

#endif
