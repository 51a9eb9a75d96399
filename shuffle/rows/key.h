/* Keys: how the two sides of a join compare, and the one 64-bit hash per row.
 *
 * A key part of one side and its partner decide a class; both sides normalise into that class before hashing and
 * comparing, so that equal values of different types hash and compare equal. Equal is what SQL calls equal, as
 * PostgreSQL defines it (docs/semantics.md).
 *
 * - INTEGER: any integer pair by value (-1 is not 2^64-1); bool with bool, date with date, timestamp with timestamp
 * - DECIMAL: decimal with decimal or integer, across scales
 * - FLOAT: float32 and float64, as double; -0.0 is 0.0, every NaN is the same NaN
 * - BYTES: string with string, binary with binary (binary(n) too), by bytes
 *
 * Hash bits: partition uses the top bits (multiply-shift), the table's directory the low ones, tags bits 32..47.
 */
#ifndef MILLRACE_SHUFFLE_ROWS_KEY_H
#define MILLRACE_SHUFFLE_ROWS_KEY_H

#include "shuffle/rows/batch.h"
#include "shuffle/rows/schema.h"

enum { SHUFFLE_KEY_PARTS_MAX = 16 };

enum shuffle_key_class { SHUFFLE_KEY_INTEGER, SHUFFLE_KEY_DECIMAL, SHUFFLE_KEY_FLOAT, SHUFFLE_KEY_BYTES };

struct shuffle_key_part {
    uint32_t column; /* in the layout of this side */
    enum shuffle_key_class class;
};

/* One side's key. Value type. */
struct shuffle_key {
    uint32_t count;
    bool null_equal; /* NULL equals NULL, and nothing else; of both sides of a join. Else keys with a NULL are never
                        compared */
    struct shuffle_key_part part[SHUFFLE_KEY_PARTS_MAX];
};

/* The class in which a and b compare, or BASE_TYPE with a text naming both columns and types. */
enum base_status shuffle_key_pair_class(const struct shuffle_field *a, const struct shuffle_field *b,
                                        enum shuffle_key_class *class, struct base_error *error);

/* Hashes of the batch's rows. null[i] is set to 1 when any key part of row i is NULL, else 0; pass NULL where that does
 * not matter. A NULL hashes as what stands for it in a row, zeros or no bytes; with null_equal as a value of its own,
 * so that many NULLs are no burden to the rows whose key is 0 or empty. hash and null have room for batch->rows. Column
 * at a time: nothing per row but arithmetic. */
void shuffle_key_hash_batch(const struct shuffle_key *key, const struct shuffle_layout *layout,
                            const struct shuffle_batch *batch, uint64_t *hash, uint8_t *null);
/* The same hashes from rows as bytes. */
void shuffle_key_hash_rows(const struct shuffle_key *key, const struct shuffle_layout *layout,
                           const uint8_t *const *row, uint32_t count, uint64_t *hash);
/* As above for `count` rows of row_bytes each, one after the other at `first`. */
void shuffle_key_hash_image(const struct shuffle_key *key, const struct shuffle_layout *layout, const uint8_t *first,
                            uint32_t count, uint64_t *hash);
/* Do the key parts of row a (side A) and row b (side B) compare equal? Both keys have the same classes; no part is
 * NULL, or both keys have null_equal. */
bool shuffle_key_equal(const struct shuffle_key *key_a, const struct shuffle_layout *layout_a, const uint8_t *row_a,
                       const struct shuffle_key *key_b, const struct shuffle_layout *layout_b, const uint8_t *row_b);

/* The partition of a hash among P workers: multiply-shift on the top 32 bits. P < 2^32. */
static inline uint32_t shuffle_key_partition(uint64_t hash, uint32_t partitions)
{
    return (uint32_t)(((hash >> 32) * partitions) >> 32);
}

#endif
