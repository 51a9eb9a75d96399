/* Cut rows: whatever is read of them is what it would be of the whole row, wherever the edges lie; and only what lies
 * across one is copied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory/memory.h"
#include "base/random.h"
#include "shuffle/frames/cut.h"
#include "shuffle/output/output.h"

enum { ROW_BYTES_MAX = 1024 };

struct sample {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
    uint8_t row[ROW_BYTES_MAX], whole[ROW_BYTES_MAX];
    uint8_t part[SHUFFLE_CUT_PIECES_MAX][ROW_BYTES_MAX]; /* pieces, each in memory of its own */
    struct shuffle_cut cut;
};

static void store_end(struct sample *sample, uint32_t column, uint32_t end)
{
    base_store_u32(sample->row + sample->layout.slot[column].offset, end);
}

/* A row of random bytes; strings have lengths of their own. The key are the columns named. */
static void sample_make(struct sample *sample, const char *schema, uint32_t key_first, uint32_t key_count,
                        enum shuffle_key_class class)
{
    struct base_error error;
    struct base_random random;
    uint32_t end = 0;
    memset(sample, 0, sizeof *sample);
    assert_int_equal(shuffle_schema_parse(schema, &sample->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&sample->schema, &sample->layout, &error), BASE_OK);
    base_random_seed(&random, 5);
    for (uint32_t i = 0; i < ROW_BYTES_MAX; i++)
        sample->row[i] = (uint8_t)base_random_below(&random, 256);
    for (uint32_t c = 0; c < sample->layout.count; c++)
        if (shuffle_type_variable(sample->layout.slot[c].type))
            store_end(sample, c, end += 70 + 30 * c);
    memset(sample->row + sample->layout.fixed_bytes, 0, sample->layout.null_bytes);
    sample->key.count = key_count;
    for (uint32_t i = 0; i < key_count; i++)
        sample->key.part[i] = (struct shuffle_key_part){.column = key_first + i, .class = class};
    sample->cut.bytes = (uint32_t)shuffle_row_bytes(&sample->layout, sample->row);
    sample->cut.whole = sample->whole;
    assert_true(sample->cut.bytes < ROW_BYTES_MAX);
}

static void sample_free(struct sample *sample)
{
    shuffle_layout_free(&sample->layout);
    shuffle_schema_free(&sample->schema);
}

/* Cuts the row before the bytes given. */
static void cut_at(struct sample *sample, const uint32_t *edge, uint32_t edges)
{
    memset(sample->whole, 0xee, sizeof sample->whole);
    sample->cut.joined_bytes = 0;
    sample->cut.count = edges + 1;
    for (uint32_t i = 0; i <= edges; i++) {
        const uint32_t begin = i == 0 ? 0 : edge[i - 1], end = i == edges ? sample->cut.bytes : edge[i];
        memset(sample->part[i], 0xdd, ROW_BYTES_MAX);
        memcpy(sample->part[i], sample->row + begin, end - begin);
        sample->cut.piece[i].data = sample->part[i];
        sample->cut.piece[i].begin = begin;
    }
}

static void check_values(struct sample *sample)
{
    uint8_t copy[ROW_BYTES_MAX];
    shuffle_cut_copy(&sample->cut, 0, sample->cut.bytes, copy);
    assert_memory_equal(copy, sample->row, sample->cut.bytes);
    for (uint32_t c = 0; c < sample->layout.count; c++) {
        uint32_t bytes, there;
        const uint8_t *value = shuffle_row_value(&sample->layout, sample->row, c, &bytes);
        const uint32_t offset = shuffle_cut_value(&sample->cut, &sample->layout, c, &there);
        assert_int_equal(there, bytes);
        assert_memory_equal(shuffle_cut_part(&sample->cut, offset, bytes), value, bytes);
        assert_int_equal(shuffle_cut_null(&sample->cut, &sample->layout, c),
                         shuffle_row_null(&sample->layout, sample->row, c));
    }
}

static void check_key(struct sample *sample)
{
    uint64_t expected, hash;
    const uint8_t *row = sample->row, *stand_in = shuffle_cut_key(&sample->cut, &sample->layout, &sample->key);
    shuffle_key_hash_rows(&sample->key, &sample->layout, &row, 1, &expected);
    shuffle_key_hash_rows(&sample->key, &sample->layout, &stand_in, 1, &hash);
    assert_int_equal(hash, expected);
    assert_true(shuffle_key_equal(&sample->key, &sample->layout, stand_in, &sample->key, &sample->layout, row));
}

/* As a reader sees it to whom NULL equals NULL: with NULLs in the key, and without. */
static void check_key_with_nulls(struct sample *sample)
{
    const struct shuffle_slot *slot = &sample->layout.slot[sample->key.part[0].column];
    sample->key.null_equal = true;
    check_key(sample);
    const uint8_t *row = shuffle_cut_key(&sample->cut, &sample->layout, &sample->key);
    assert_int_equal(shuffle_row_null(&sample->layout, row, sample->key.part[0].column),
                     slot->null_bit >= 0 && shuffle_row_null(&sample->layout, sample->row, sample->key.part[0].column));
    sample->key.null_equal = false;
}

static uint64_t checksum(struct sample *sample, const uint8_t *row)
{
    struct shuffle_output_item item[8];
    struct base_governor *governor;
    struct shuffle_output *output;
    struct base_error error;
    uint32_t taken = 0;
    for (uint32_t c = 0; c < sample->layout.count; c++)
        item[c] = (struct shuffle_output_item){.side = 0, .column = c};
    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    const struct shuffle_output_config config = {.kind = SHUFFLE_OUTPUT_COUNT,
                                                 .governor = governor,
                                                 .layout = {&sample->layout, NULL},
                                                 .schema = &sample->schema,
                                                 .item = item,
                                                 .item_count = sample->layout.count};
    assert_int_equal(shuffle_output_open(&config, &output, &error), BASE_OK);
    assert_int_equal(shuffle_output_write(output, &row, NULL, 1, &taken, &error), BASE_OK);
    assert_int_equal(taken, 1);
    const uint64_t sum = shuffle_output_checksum(output);
    shuffle_output_close(output);
    base_governor_close(governor);
    return sum;
}

static void every_edge(const char *schema, uint32_t key_first, uint32_t key_count, enum shuffle_key_class class)
{
    struct sample *sample = malloc(sizeof *sample);
    assert_non_null(sample);
    sample_make(sample, schema, key_first, key_count, class);
    const uint64_t expected = checksum(sample, sample->row);
    /* The head of a row with strings lies in one piece. */
    const uint32_t least = sample->layout.last_variable < 0 ? 1 : shuffle_row_head_bytes(&sample->layout);
    for (uint32_t edge = least; edge < sample->cut.bytes; edge++) {
        const uint32_t edges[] = {edge, edge + 1, edge + 9};
        const uint32_t count = edge + 9 < sample->cut.bytes ? 3 : 1;
        cut_at(sample, edges, count);
        check_key(sample);
        cut_at(sample, edges, count);
        check_key_with_nulls(sample);
        cut_at(sample, edges, count);
        check_values(sample);
        assert_int_equal(checksum(sample, shuffle_cut_row(&sample->cut)), expected);
    }
    sample_free(sample);
    free(sample);
}

static void fixed_rows_read_the_same(void **state)
{
    (void)state;
    every_edge("k:int64,v:binary(500)", 0, 1, SHUFFLE_KEY_INTEGER);
    every_edge("v:binary(200),k:int32,w:int16?,x:binary(150)?", 1, 1, SHUFFLE_KEY_INTEGER);
    every_edge("a:int64,k:binary(90),v:binary(300)", 0, 2, SHUFFLE_KEY_BYTES);
}

static void rows_with_strings_read_the_same(void **state)
{
    (void)state;
    every_edge("k:string,v:string,n:int32?", 0, 1, SHUFFLE_KEY_BYTES);
    every_edge("a:int64,v:string,k:string,w:binary", 2, 1, SHUFFLE_KEY_BYTES);
}

/* The same where every nullable column is NULL: their null bits lie far from their values. */
static void keys_that_are_null_read_the_same(void **state)
{
    (void)state;
    static const char *const schemas[] = {"v:binary(200),k:int32?,w:int16?,x:binary(150)?", "v:int32,k:int64?,s:string",
                                          "k:int32?,k2:int32?,v:binary(300)"};
    for (uint32_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        struct sample *sample = malloc(sizeof *sample);
        assert_non_null(sample);
        sample_make(sample, schemas[s], s == 2 ? 0 : 1, s == 2 ? 2 : 1, SHUFFLE_KEY_INTEGER);
        memset(sample->row + sample->layout.fixed_bytes, 0xff, sample->layout.null_bytes);
        const uint32_t least = sample->layout.last_variable < 0 ? 1 : shuffle_row_head_bytes(&sample->layout);
        for (uint32_t edge = least; edge < sample->cut.bytes; edge++) {
            cut_at(sample, &edge, 1);
            check_key_with_nulls(sample);
        }
        sample_free(sample);
        free(sample);
    }
}

/* A key in one piece is read there; one that an edge cuts is copied, and nothing else. */
static void only_a_cut_key_is_copied(void **state)
{
    (void)state;
    struct sample *sample = malloc(sizeof *sample);
    assert_non_null(sample);
    sample_make(sample, "v:binary(200),k:int64,w:binary(200)", 1, 1, SHUFFLE_KEY_INTEGER);
    for (uint32_t edge = 1; edge < sample->cut.bytes; edge++) {
        cut_at(sample, &edge, 1);
        check_key(sample);
        assert_int_equal(sample->cut.joined_bytes, edge > 200 && edge < 208 ? 8 : 0);
    }
    sample_free(sample);
    free(sample);
}

static void a_mark_is_told_from_an_address(void **state)
{
    (void)state;
    struct shuffle_cut cut = {.bytes = 1};
    assert_ptr_equal(shuffle_row_cut(shuffle_cut_row(&cut)), &cut);
    assert_null(shuffle_row_cut((const uint8_t *)&cut));
    assert_null(shuffle_row_cut(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_rows_read_the_same),         cmocka_unit_test(rows_with_strings_read_the_same),
        cmocka_unit_test(keys_that_are_null_read_the_same), cmocka_unit_test(only_a_cut_key_is_copied),
        cmocka_unit_test(a_mark_is_told_from_an_address),
    };
    return cmocka_run_group_tests_name("shuffle.cut", tests, NULL, NULL);
}
