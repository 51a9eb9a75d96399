/* Rows for the join tests: built by hand from cells, so that the tests do not lean on the code that encodes batches,
 * and an oracle that decodes and compares keys by itself. Every row's last column is `id:int64`, its number in its set.
 */
#ifndef MILLRACE_TESTS_JOIN_ROWS_H
#define MILLRACE_TESTS_JOIN_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shuffle/rows/key.h"
#include "shuffle/rows/schema.h"

struct cell {
    bool null;
    uint64_t number;   /* fixed-width columns: low bytes; the rest of a wide slot is filled with the id */
    const char *bytes; /* variable columns */
    uint32_t count;
};

struct row_set {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
    uint32_t count, capacity;
    uint8_t **row;
    uint64_t *hash;
};

/* key_columns: how many of the first columns are the key. */
static inline void row_set_open(struct row_set *set, const char *columns, uint32_t key_columns)
{
    char text[256];
    snprintf(text, sizeof text, "%s,id:int64", columns);
    struct base_error error = {0};
    memset(set, 0, sizeof *set);
    if (shuffle_schema_parse(text, &set->schema, &error))
        fail_msg("%s: %s", text, error.text);
    assert_int_equal(shuffle_layout_prepare(&set->schema, &set->layout, &error), BASE_OK);
    set->key.count = key_columns;
}

/* Gives both sets the classes in which their keys compare. */
static inline void row_sets_pair(struct row_set *a, struct row_set *b)
{
    struct base_error error = {0};
    for (uint32_t i = 0; i < a->key.count; i++) {
        enum shuffle_key_class class;
        if (shuffle_key_pair_class(&a->schema.field[i], &b->schema.field[i], &class, &error))
            fail_msg("%s", error.text);
        a->key.part[i] = b->key.part[i] = (struct shuffle_key_part){.column = i, .class = class};
    }
}

static inline void row_set_close(struct row_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        free(set->row[i]);
    free(set->row);
    free(set->hash);
    shuffle_layout_free(&set->layout);
    shuffle_schema_free(&set->schema);
}

static inline uint64_t row_id(const struct shuffle_layout *layout, const uint8_t *row)
{
    return base_load_u64(row + layout->slot[layout->count - 1].offset);
}

/* Appends a row of these cells, one for each column but the id. Each row is an allocation of its own, so that a
 * sanitizer sees its ends. */
static inline void row_set_add(struct row_set *set, const struct cell *cell)
{
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? 2 * set->capacity : 64;
        set->row = realloc(set->row, set->capacity * sizeof *set->row);
        set->hash = realloc(set->hash, set->capacity * sizeof *set->hash);
        assert_true(set->row && set->hash);
    }
    const struct shuffle_layout *layout = &set->layout;
    const uint32_t columns = layout->count - 1, head_bytes = shuffle_row_head_bytes(layout);
    uint32_t end = 0;
    for (uint32_t i = 0; i < columns; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Branch): it cannot know that there are `columns` cells */
        end += shuffle_type_variable(layout->slot[i].type) && !cell[i].null ? cell[i].count : 0;
    uint8_t *row = calloc(1, head_bytes + end);
    assert_non_null(row);
    end = 0;
    for (uint32_t i = 0; i < columns; i++) {
        const struct shuffle_slot *slot = &layout->slot[i];
        uint8_t *at = row + slot->offset;
        if (shuffle_type_variable(slot->type)) {
            if (!cell[i].null && cell[i].count > 0)
                memcpy(row + head_bytes + end, cell[i].bytes, cell[i].count);
            end += cell[i].null ? 0 : cell[i].count;
            base_store_u32(at, end);
        } else if (!cell[i].null) { /* NOLINT(clang-analyzer-core.uninitialized.Branch): as above */
            memset(at, (int)(set->count & 255), slot->width);
            memcpy(at, &cell[i].number, slot->width < 8 ? slot->width : 8);
        }
        if (cell[i].null)
            row[layout->fixed_bytes + (uint32_t)slot->null_bit / 8] |= (uint8_t)(1u << (slot->null_bit % 8));
    }
    base_store_u64(row + layout->slot[layout->count - 1].offset, set->count);
    set->row[set->count++] = row;
}

static inline void row_set_hash(struct row_set *set)
{
    shuffle_key_hash_rows(&set->key, &set->layout, (const uint8_t *const *)set->row, set->count, set->hash);
}

static inline __int128 oracle_integer(enum shuffle_type type, const uint8_t *value)
{
    int64_t wide = 0;
    switch (type) {
    case SHUFFLE_INT8:
        return (int8_t)value[0];
    case SHUFFLE_INT16:
        return (int16_t)base_load_u16(value);
    case SHUFFLE_INT32:
    case SHUFFLE_DATE:
        return (int32_t)base_load_u32(value);
    case SHUFFLE_INT64:
    case SHUFFLE_TIMESTAMP:
        memcpy(&wide, value, 8);
        return wide;
    case SHUFFLE_UINT8:
    case SHUFFLE_BOOL:
        return value[0];
    case SHUFFLE_UINT16:
        return base_load_u16(value);
    case SHUFFLE_UINT32:
        return base_load_u32(value);
    case SHUFFLE_UINT64:
        return base_load_u64(value);
    default:
        fail_msg("the oracle does not know type %d", (int)type);
        return 0;
    }
}

static inline bool oracle_equal(const struct row_set *a, uint32_t row_a, const struct row_set *b, uint32_t row_b)
{
    for (uint32_t i = 0; i < a->key.count; i++) {
        uint32_t bytes_a, bytes_b;
        const uint8_t *value_a = shuffle_row_value(&a->layout, a->row[row_a], i, &bytes_a);
        const uint8_t *value_b = shuffle_row_value(&b->layout, b->row[row_b], i, &bytes_b);
        const enum shuffle_type type_a = a->layout.slot[i].type, type_b = b->layout.slot[i].type;
        if (a->key.part[i].class == SHUFFLE_KEY_INTEGER) {
            if (oracle_integer(type_a, value_a) != oracle_integer(type_b, value_b))
                return false;
        } else if (bytes_a != bytes_b || memcmp(value_a, value_b, bytes_a) != 0) {
            return false;
        }
    }
    return true;
}

/* How often each pair of rows came out; compared with the oracle's answer at the end. */
struct pair_matrix {
    const struct row_set *build, *probe;
    uint8_t *seen;
};

static inline void pair_matrix_open(struct pair_matrix *matrix, const struct row_set *build,
                                    const struct row_set *probe)
{
    *matrix = (struct pair_matrix){.build = build, .probe = probe};
    matrix->seen = calloc((size_t)build->count * probe->count + 1, 1);
    assert_non_null(matrix->seen);
}

static inline void pair_matrix_add(struct pair_matrix *matrix, const uint8_t *build_row, const uint8_t *probe_row)
{
    const uint64_t build = row_id(&matrix->build->layout, build_row);
    const uint64_t probe = row_id(&matrix->probe->layout, probe_row);
    assert_true(build < matrix->build->count && probe < matrix->probe->count);
    const uint64_t bytes = shuffle_row_bytes(&matrix->build->layout, matrix->build->row[build]);
    assert_memory_equal(build_row, matrix->build->row[build], bytes);
    matrix->seen[build * matrix->probe->count + probe]++;
}

/* Every pair of equal keys once, no other; frees the matrix and returns the number of pairs. */
static inline uint64_t pair_matrix_close(struct pair_matrix *matrix)
{
    uint64_t pairs = 0;
    for (uint32_t build = 0; build < matrix->build->count; build++) {
        for (uint32_t probe = 0; probe < matrix->probe->count; probe++) {
            const unsigned seen = matrix->seen[(size_t)build * matrix->probe->count + probe];
            const unsigned wanted = oracle_equal(matrix->build, build, matrix->probe, probe);
            if (seen != wanted)
                fail_msg("build row %u and probe row %u came out %u times, not %u", build, probe, seen, wanted);
            pairs += seen;
        }
    }
    free(matrix->seen);
    return pairs;
}

#endif
