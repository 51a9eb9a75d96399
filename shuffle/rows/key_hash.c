/* Hashing of keys, a column at a time: first the values of a key part are gathered in normal form (key_value.h), then
 * mixed into the hashes. The gathering loops differ by type and by where the values lie (in a column, or in rows
 * somewhere); the mixing loops are the same for all, run over plain arrays and are what a compiler vectorises.
 *
 * One part: hash = hash_mix(value). Several: hash = hash_mix(hash so far * odd + value), so that order counts, and each
 * part of variable length is digested on its own, so that ("a","bc") and ("ab","c") differ.
 *
 * mix is "moremur" (Evensen 2020), a bijection of two multiplications and three shifts with good avalanche in all bits:
 * the partition takes the top bits, the tag the middle, the directory the low ones. Strings take XXH3. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "shuffle/rows/key_value.h"

enum { BLOCK_ROWS = 256 };

/* Without it the key 0 would have the hash 0. */
#define MIX_SEED UINT64_C(0x9e3779b97f4a7c15)
#define COMBINE_FACTOR UINT64_C(0xd1342543de82ef95)
/* What a NULL counts as with null_equal. */
#define NULL_VALUE UINT64_C(0x9fb21c651e98df25)

static inline uint64_t hash_mix(uint64_t x)
{
    x ^= x >> 27;
    x *= UINT64_C(0x3c79ac492ba7b653);
    x ^= x >> 33;
    x *= UINT64_C(0x1c69b3f74ac4ae35);
    x ^= x >> 27;
    return x;
}

/* Where the values of one column lie: at data + i * stride, or, when row is not NULL, at row[i] + offset. */
struct source {
    const uint8_t *data;
    size_t stride;
    const uint8_t *const *row;
    uint32_t offset;
    const struct shuffle_slice *slice; /* not NULL: the values of a batch's variable column */
    const uint8_t *null;               /* of a batch's column; may be NULL */
    bool in_rows;                      /* the values lie in rows, with their null bits */
    int64_t null_byte;                 /* then where the byte with the column's null bit lies, from the value */
};

/* From the fixed slot of a nullable column; 0 for others. */
static int64_t slot_null_byte(const struct shuffle_layout *layout, uint32_t column)
{
    const struct shuffle_slot *slot = &layout->slot[column];
    return slot->null_bit < 0 ? 0 : (int64_t)layout->fixed_bytes + slot->null_bit / 8 - (int64_t)slot->offset;
}

static inline const uint8_t *value_at(const struct source *source, uint32_t i)
{
    return source->row ? source->row[i] + source->offset : source->data + i * source->stride;
}

/* One loop per type and place: the type is decided outside of it. */
#define GATHER(name, type, expression)                                                                                 \
    static void gather_##name(const struct source *source, uint32_t count, uint64_t *value)                            \
    {                                                                                                                  \
        if (source->row) {                                                                                             \
            const uint8_t *const *row = source->row;                                                                   \
            const size_t offset = source->offset;                                                                      \
            for (uint32_t i = 0; i < count; i++) {                                                                     \
                type x;                                                                                                \
                memcpy(&x, row[i] + offset, sizeof x);                                                                 \
                value[i] = expression;                                                                                 \
            }                                                                                                          \
        } else {                                                                                                       \
            const uint8_t *at = source->data;                                                                          \
            const size_t stride = source->stride;                                                                      \
            for (uint32_t i = 0; i < count; i++) {                                                                     \
                type x;                                                                                                \
                memcpy(&x, at + i * stride, sizeof x);                                                                 \
                value[i] = expression;                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

GATHER(i8, int8_t, (uint64_t)(int64_t)x)
GATHER(i16, int16_t, (uint64_t)(int64_t)x)
GATHER(i32, int32_t, (uint64_t)(int64_t)x)
GATHER(u8, uint8_t, x)
GATHER(u16, uint16_t, x)
GATHER(u32, uint32_t, x)
GATHER(u64, uint64_t, x)
GATHER(f32, float, key_double((double)x))
GATHER(f64, double, key_double(x))

static void gather_integers(enum shuffle_type type, const struct source *source, uint32_t count, uint64_t *value)
{
    switch (type) {
    case SHUFFLE_INT8:
        gather_i8(source, count, value);
        break;
    case SHUFFLE_INT16:
        gather_i16(source, count, value);
        break;
    case SHUFFLE_INT32:
    case SHUFFLE_DATE:
        gather_i32(source, count, value);
        break;
    case SHUFFLE_BOOL:
    case SHUFFLE_UINT8:
        gather_u8(source, count, value);
        break;
    case SHUFFLE_UINT16:
        gather_u16(source, count, value);
        break;
    case SHUFFLE_UINT32:
        gather_u32(source, count, value);
        break;
    default: /* INT64, UINT64, TIMESTAMP */
        gather_u64(source, count, value);
        break;
    }
}

static void gather_decimals(const struct shuffle_slot *slot, const struct source *source, uint32_t count,
                            uint64_t *value)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct key_decimal x = key_decimal(slot, value_at(source, i));
        const uint64_t high = (uint64_t)(x.magnitude >> 64) * 2 + x.negative;
        value[i] = (uint64_t)x.magnitude + hash_mix(high * COMBINE_FACTOR + (uint64_t)(int64_t)x.scale);
    }
}

/* Values that are digests already. */
static void gather_bytes(const struct shuffle_layout *layout, uint32_t column, const struct source *source,
                         uint32_t count, uint64_t *value)
{
    const struct shuffle_slot *slot = &layout->slot[column];
    if (source->slice) {
        for (uint32_t i = 0; i < count; i++) {
            const bool null = source->null && source->null[i];
            value[i] = XXH3_64bits(source->slice[i].data, null ? 0 : source->slice[i].bytes);
        }
    } else if (shuffle_type_variable(slot->type)) {
        BASE_ASSERT(source->row); /* an image has no variable columns */
        for (uint32_t i = 0; i < count; i++) {
            uint32_t bytes;
            const uint8_t *at = shuffle_row_value(layout, source->row[i], column, &bytes);
            value[i] = XXH3_64bits(at, bytes);
        }
    } else {
        for (uint32_t i = 0; i < count; i++)
            value[i] = XXH3_64bits(value_at(source, i), slot->width);
    }
}

static void hash_gather(enum shuffle_key_class class, const struct shuffle_layout *layout, uint32_t column,
                        const struct source *source, uint32_t count, uint64_t *value)
{
    const struct shuffle_slot *slot = &layout->slot[column];
    switch (class) {
    case SHUFFLE_KEY_INTEGER:
        gather_integers(slot->type, source, count, value);
        break;
    case SHUFFLE_KEY_FLOAT:
        if (slot->type == SHUFFLE_FLOAT32)
            gather_f32(source, count, value);
        else
            gather_f64(source, count, value);
        break;
    case SHUFFLE_KEY_DECIMAL:
        gather_decimals(slot, source, count, value);
        break;
    case SHUFFLE_KEY_BYTES:
        gather_bytes(layout, column, source, count, value);
        break;
    }
}

static void mix_all(uint64_t *hash, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        hash[i] = hash_mix(hash[i] + MIX_SEED);
}

static void combine_all(uint64_t *restrict hash, const uint64_t *restrict value, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        hash[i] = hash_mix(hash[i] * COMBINE_FACTOR + value[i]);
}

/* With null_equal: puts NULL_VALUE in the place of NULLs. */
static void nulls_mark(const struct shuffle_slot *slot, const struct source *source, uint32_t count, uint64_t *value)
{
    const uint32_t shift = (uint32_t)slot->null_bit % 8;
    if (slot->null_bit < 0)
        return;
    for (uint32_t i = 0; source->null && i < count; i++)
        value[i] = source->null[i] ? NULL_VALUE : value[i];
    for (uint32_t i = 0; source->in_rows && i < count; i++)
        value[i] = value_at(source, i)[source->null_byte] >> shift & 1 ? NULL_VALUE : value[i];
}

/* Brings part number `number` of the key, whose values are at source, into the hashes. count <= BLOCK_ROWS. */
static void hash_part(const struct shuffle_key *key, uint32_t number, const struct shuffle_layout *layout,
                      const struct source *source, uint32_t count, uint64_t *hash)
{
    const struct shuffle_key_part *part = &key->part[number];
    if (number > 0) {
        uint64_t value[BLOCK_ROWS];
        hash_gather(part->class, layout, part->column, source, count, value);
        if (key->null_equal)
            nulls_mark(&layout->slot[part->column], source, count, value);
        combine_all(hash, value, count);
        return;
    }
    hash_gather(part->class, layout, part->column, source, count, hash);
    if (key->null_equal)
        nulls_mark(&layout->slot[part->column], source, count, hash);
    if (part->class != SHUFFLE_KEY_BYTES)
        mix_all(hash, count);
}

static void null_flags(const struct shuffle_key *key, const struct shuffle_batch *batch, uint8_t *null)
{
    memset(null, 0, batch->rows);
    for (uint32_t p = 0; p < key->count; p++) {
        const uint8_t *from = batch->column[key->part[p].column].null;
        for (uint32_t i = 0; from && i < batch->rows; i++)
            null[i] |= from[i];
    }
}

void shuffle_key_hash_batch(const struct shuffle_key *key, const struct shuffle_layout *layout,
                            const struct shuffle_batch *batch, uint64_t *hash, uint8_t *null)
{
    BASE_ASSERT(key->count > 0);
    for (uint32_t first = 0; first < batch->rows; first += BLOCK_ROWS) {
        const uint32_t count = (uint32_t)base_min_u64(batch->rows - first, BLOCK_ROWS);
        for (uint32_t p = 0; p < key->count; p++) {
            const struct shuffle_column *column = &batch->column[key->part[p].column];
            const struct source source = {
                .data = column->data ? column->data + (size_t)first * column->stride : NULL,
                .stride = column->stride,
                .slice = column->slice ? column->slice + first : NULL,
                .null = column->null ? column->null + first : NULL,
            };
            hash_part(key, p, layout, &source, count, hash + first);
        }
    }
    if (null)
        null_flags(key, batch, null);
}

void shuffle_key_hash_rows(const struct shuffle_key *key, const struct shuffle_layout *layout,
                           const uint8_t *const *row, uint32_t count, uint64_t *hash)
{
    BASE_ASSERT(key->count > 0);
    for (uint32_t first = 0; first < count; first += BLOCK_ROWS) {
        const uint32_t block = (uint32_t)base_min_u64(count - first, BLOCK_ROWS);
        for (uint32_t p = 0; p < key->count; p++) {
            const struct source source = {
                .row = row + first,
                .offset = layout->slot[key->part[p].column].offset,
                .in_rows = true,
                .null_byte = slot_null_byte(layout, key->part[p].column),
            };
            hash_part(key, p, layout, &source, block, hash + first);
        }
    }
}

void shuffle_key_hash_image(const struct shuffle_key *key, const struct shuffle_layout *layout, const uint8_t *first,
                            uint32_t count, uint64_t *hash)
{
    BASE_ASSERT(key->count > 0 && layout->row_bytes > 0);
    for (uint32_t done = 0; done < count; done += BLOCK_ROWS) {
        const uint32_t block = (uint32_t)base_min_u64(count - done, BLOCK_ROWS);
        for (uint32_t p = 0; p < key->count; p++) {
            const struct source source = {
                .data = first + (size_t)done * layout->row_bytes + layout->slot[key->part[p].column].offset,
                .stride = layout->row_bytes,
                .in_rows = true,
                .null_byte = slot_null_byte(layout, key->part[p].column),
            };
            hash_part(key, p, layout, &source, block, hash + done);
        }
    }
}
