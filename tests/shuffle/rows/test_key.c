#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "shuffle/rows/key.h"

/* A table of one row per value, made from a schema, for one side. */
struct side {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
};

static void side_open(struct side *side, const char *schema)
{
    struct base_error error;
    memset(side, 0, sizeof *side);
    assert_int_equal(shuffle_schema_parse(schema, &side->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&side->schema, &side->layout, &error), BASE_OK);
}

static void side_close(struct side *side)
{
    shuffle_layout_free(&side->layout);
    shuffle_schema_free(&side->schema);
}

/* Keys of all columns of both sides, pair by pair. */
static void sides_pair(struct side *a, struct side *b)
{
    struct base_error error;
    assert_int_equal(a->schema.count, b->schema.count);
    a->key.count = b->key.count = a->schema.count;
    for (uint32_t c = 0; c < a->schema.count; c++) {
        enum shuffle_key_class class;
        assert_int_equal(shuffle_key_pair_class(&a->schema.field[c], &b->schema.field[c], &class, &error), BASE_OK);
        a->key.part[c] = b->key.part[c] = (struct shuffle_key_part){.column = c, .class = class};
    }
}

static uint64_t hash_row(const struct side *side, const uint8_t *row)
{
    uint64_t hash;
    shuffle_key_hash_rows(&side->key, &side->layout, &row, 1, &hash);
    return hash;
}

/* Both values, as rows of one fixed column. Equal must hash equal; different are expected to differ in the hash, too,
 * unless bits_agree. */
static void compare(const char *type_a, const void *a, const char *type_b, const void *b, bool equal, bool bits_agree)
{
    struct side left, right;
    char schema[64];
    snprintf(schema, sizeof schema, "a:%s", type_a);
    side_open(&left, schema);
    snprintf(schema, sizeof schema, "b:%s", type_b);
    side_open(&right, schema);
    sides_pair(&left, &right);
    assert_int_equal(shuffle_key_equal(&left.key, &left.layout, a, &right.key, &right.layout, b), equal);
    assert_int_equal(shuffle_key_equal(&right.key, &right.layout, b, &left.key, &left.layout, a), equal);
    assert_int_equal(hash_row(&left, a) == hash_row(&right, b), equal || bits_agree);
    side_close(&left);
    side_close(&right);
}

#define COMPARE(type_a, c_a, a, type_b, c_b, b, equal) compare(type_a, &(c_a){a}, type_b, &(c_b){b}, equal, false)

static void integers_compare_by_value(void **state)
{
    (void)state;
    COMPARE("int8", int8_t, -1, "int64", int64_t, -1, true);
    COMPARE("int16", int16_t, -300, "int32", int32_t, -300, true);
    COMPARE("uint8", uint8_t, 255, "int16", int16_t, 255, true);
    COMPARE("uint8", uint8_t, 255, "int8", int8_t, -1, false);
    COMPARE("uint32", uint32_t, UINT32_MAX, "int64", int64_t, UINT32_MAX, true);
    COMPARE("uint32", uint32_t, UINT32_MAX, "int32", int32_t, -1, false);
    COMPARE("uint16", uint16_t, 7, "uint64", uint64_t, 7, true);
    COMPARE("uint64", uint64_t, UINT64_MAX, "uint64", uint64_t, UINT64_MAX, true);
    COMPARE("int64", int64_t, INT64_MAX, "uint64", uint64_t, INT64_MAX, true);
    COMPARE("bool", uint8_t, 1, "bool", uint8_t, 1, true);
    COMPARE("date", int32_t, -5, "date", int32_t, -5, true);
    COMPARE("timestamp", int64_t, 1, "timestamp", int64_t, 2, false);
    compare("int64", &(int64_t){-1}, "uint64", &(uint64_t){UINT64_MAX}, false, true);
    compare("int8", &(int8_t){-1}, "uint64", &(uint64_t){UINT64_MAX}, false, true);
}

static __int128 power_of_ten(int exponent)
{
    __int128 value = 1;
    while (exponent-- > 0)
        value *= 10;
    return value;
}

static void decimals_compare_across_scales(void **state)
{
    (void)state;
    const __int128 large = power_of_ten(38) - 1;
    COMPARE("decimal(5,2)", __int128, 110, "decimal(5,1)", __int128, 11, true);
    COMPARE("decimal(5,2)", __int128, 111, "decimal(5,1)", __int128, 11, false);
    COMPARE("decimal(5,2)", __int128, -110, "decimal(38,10)", __int128, -11000000000, true);
    COMPARE("decimal(5,2)", __int128, -110, "decimal(5,2)", __int128, 110, false);
    COMPARE("decimal(5,2)", __int128, 500, "int64", int64_t, 5, true);
    COMPARE("decimal(5,0)", __int128, 500, "int16", int16_t, 500, true);
    COMPARE("decimal(38,2)", __int128, 100 * (__int128)1000000, "int64", int64_t, 1000000, true);
    COMPARE("decimal(38,0)", __int128, 0, "decimal(38,38)", __int128, 0, true);
    COMPARE("decimal(38,0)", __int128, large, "decimal(38,1)", __int128, large, false);
    COMPARE("decimal(38,0)", __int128, -large, "decimal(38,0)", __int128, -large, true);
    COMPARE("decimal(38,0)", __int128, power_of_ten(37), "decimal(38,1)", __int128, power_of_ten(37) * 10, true);
    COMPARE("decimal(38,38)", __int128, power_of_ten(37), "decimal(38,1)", __int128, 1, true);
    COMPARE("decimal(20,0)", __int128, (__int128)UINT64_MAX, "uint64", uint64_t, UINT64_MAX, true);
    COMPARE("decimal(20,0)", __int128, -1, "uint64", uint64_t, UINT64_MAX, false);
    COMPARE("decimal(20,0)", __int128, INT64_MIN, "int64", int64_t, INT64_MIN, true);
}

static void floats_have_one_zero_and_one_nan(void **state)
{
    (void)state;
    uint64_t nan_a = UINT64_C(0x7ff8000000000001), nan_b = UINT64_C(0xfff0000000000123);
    uint32_t nan_c = 0x7fc00055;
    double da, db;
    float fc;
    memcpy(&da, &nan_a, 8);
    memcpy(&db, &nan_b, 8);
    memcpy(&fc, &nan_c, 4);
    compare("float64", &da, "float64", &db, true, false);
    compare("float64", &da, "float32", &fc, true, false);
    COMPARE("float64", double, 0.0, "float64", double, -0.0, true);
    COMPARE("float32", float, -0.0f, "float64", double, 0.0, true);
    COMPARE("float32", float, 0.5f, "float64", double, 0.5, true);
    COMPARE("float32", float, 0.1f, "float64", double, 0.1, false);
    COMPARE("float64", double, INFINITY, "float32", float, INFINITY, true);
    COMPARE("float64", double, INFINITY, "float64", double, -INFINITY, false);
    COMPARE("float64", double, 5e-324, "float64", double, 0.0, false);
}

static void only_like_compares_with_like(void **state)
{
    (void)state;
    static const char *const types[] = {"bool", "int32",     "uint64", "decimal(9,2)", "float32",  "float64",
                                        "date", "timestamp", "string", "binary",       "binary(8)"};
    /* Which of them go together: same letter, or decimal with integer. */
    static const char kinds[] = "biidffDtsyy";
    for (uint32_t a = 0; a < 11; a++) {
        for (uint32_t b = 0; b < 11; b++) {
            struct shuffle_field left = {.name = "left_one"}, right = {.name = "right_one"};
            struct base_error error = {0};
            enum shuffle_key_class class;
            assert_int_equal(shuffle_field_parse_type(types[a], &left, &error), BASE_OK);
            assert_int_equal(shuffle_field_parse_type(types[b], &right, &error), BASE_OK);
            const bool numbers = strchr("id", kinds[a]) && strchr("id", kinds[b]);
            const enum base_status status = shuffle_key_pair_class(&left, &right, &class, &error);
            assert_int_equal(status, kinds[a] == kinds[b] || numbers ? BASE_OK : BASE_TYPE);
            if (status != BASE_OK) {
                assert_non_null(strstr(error.text, "left_one"));
                assert_non_null(strstr(error.text, "right_one"));
                assert_non_null(strstr(error.text, types[a]));
                assert_non_null(strstr(error.text, types[b]));
            }
        }
    }
}

/* A row of string columns. */
static uint8_t *string_row(const struct side *side, const char *const *values)
{
    struct shuffle_slice slices[4];
    struct shuffle_column columns[4] = {0};
    for (uint32_t c = 0; c < side->schema.count; c++) {
        slices[c] = (struct shuffle_slice){(const uint8_t *)values[c], (uint32_t)strlen(values[c])};
        columns[c].slice = &slices[c];
    }
    const struct shuffle_batch batch = {.rows = 1, .column = columns};
    uint8_t *row = malloc(shuffle_batch_row_bytes(&side->layout, &batch, 0));
    shuffle_batch_encode_row(&side->layout, &batch, 0, row);
    return row;
}

static void parts_are_framed_and_ordered(void **state)
{
    (void)state;
    struct side side;
    side_open(&side, "a:string,b:string");
    sides_pair(&side, &side);
    static const char *const values[][2] = {{"a", "bc"}, {"ab", "c"}, {"abc", ""}, {"", "abc"}, {"bc", "a"},
                                            {"D", "d"},  {"d", "D"},  {"x", "y "}, {"x", "y"},  {"", ""}};
    enum { COUNT = sizeof values / sizeof values[0] };
    uint8_t *rows[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        rows[i] = string_row(&side, values[i]);
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t j = 0; j < COUNT; j++) {
            assert_int_equal(hash_row(&side, rows[i]) == hash_row(&side, rows[j]), i == j);
            assert_int_equal(shuffle_key_equal(&side.key, &side.layout, rows[i], &side.key, &side.layout, rows[j]),
                             i == j);
        }
    }
    for (uint32_t i = 0; i < COUNT; i++)
        free(rows[i]);
    side_close(&side);

    struct side integers;
    side_open(&integers, "a:int64,b:int64");
    sides_pair(&integers, &integers);
    const int64_t ab[2] = {1, 2}, ba[2] = {2, 1};
    assert_true(hash_row(&integers, (const uint8_t *)ab) != hash_row(&integers, (const uint8_t *)ba));
    side_close(&integers);
}

/* The three ways to a hash agree, for every type, over block borders, with other columns between. */
static void all_ways_give_the_same_hash(void **state)
{
    (void)state;
    enum { ROWS = SHUFFLE_BATCH_ROWS };
    static const char *const schemas[] = {
        "k:int64",
        "x:int8,k:int64",
        "a:int8,b:int16,c:int32,d:int64,e:uint8,f:uint16,g:uint32,h:uint64",
        "a:float32,b:float64",
        "a:decimal(20,3),b:bool,c:date,d:timestamp",
        "a:binary(5),b:int64",
        "a:string,b:int32?,c:binary?",
        "a:string",
    };
    for (uint32_t s = 0; s < sizeof schemas / sizeof schemas[0]; s++) {
        struct side side;
        side_open(&side, schemas[s]);
        sides_pair(&side, &side);
        const bool skip_first = s == 1;
        if (skip_first) {
            side.key.count = 1;
            side.key.part[0] = side.key.part[1];
        }
        struct shuffle_column columns[8] = {0};
        uint8_t *memory[8] = {0}, *null = calloc(1, ROWS);
        for (uint32_t c = 0; c < side.schema.count; c++) {
            const uint32_t width = side.schema.field[c].width;
            memory[c] = calloc(ROWS, sizeof(struct shuffle_slice) + width);
            if (shuffle_type_variable(side.schema.field[c].type)) {
                struct shuffle_slice *slices = (void *)memory[c];
                for (uint32_t i = 0; i < ROWS; i++)
                    slices[i] = (struct shuffle_slice){(const uint8_t *)&"somewhat longer"[i % 8], i % 7};
                columns[c].slice = slices;
            } else {
                for (uint32_t i = 0; i < ROWS * width; i++)
                    memory[c][i] = (uint8_t)base_random_at(s, c * 100000 + i);
                columns[c].data = memory[c];
                columns[c].stride = width;
            }
        }
        const struct shuffle_batch batch = {.rows = ROWS, .column = columns};
        uint64_t *by_batch = calloc(ROWS, 8), *by_rows = calloc(ROWS, 8), *by_image = calloc(ROWS, 8);
        const uint8_t **rows = calloc(ROWS, sizeof *rows);
        uint8_t *image = calloc(ROWS, 128), *to = image;
        memset(null, 9, ROWS);
        shuffle_key_hash_batch(&side.key, &side.layout, &batch, by_batch, null);
        for (uint32_t i = 0; i < ROWS; i++) {
            rows[i] = to;
            to += shuffle_batch_encode_row(&side.layout, &batch, i, to);
            assert_int_equal(null[i], 0);
        }
        shuffle_key_hash_rows(&side.key, &side.layout, rows, ROWS, by_rows);
        assert_memory_equal(by_batch, by_rows, ROWS * sizeof *by_image);
        if (side.layout.row_bytes) {
            shuffle_key_hash_image(&side.key, &side.layout, image, ROWS, by_image);
            assert_memory_equal(by_batch, by_image, ROWS * sizeof *by_image);
            memset(by_image, 0, ROWS * sizeof *by_image);
            shuffle_key_hash_image(&side.key, &side.layout, rows[1], 300, by_image);
            assert_memory_equal(by_batch + 1, by_image, 300 * sizeof *by_image);
            assert_int_equal(by_image[300], 0);
        }
        for (uint32_t c = 0; c < 8; c++)
            free(memory[c]);
        free(image);
        free(rows);
        free(by_image);
        free(by_rows);
        free(by_batch);
        free(null);
        side_close(&side);
    }
}

static void a_null_part_is_flagged(void **state)
{
    (void)state;
    struct side side;
    side_open(&side, "a:int64?,b:string?,c:int64?");
    sides_pair(&side, &side);
    side.key.count = 2; /* c is no part */
    const int64_t numbers[4] = {1, 2, 3, 4};
    const uint8_t null_a[4] = {0, 1, 0, 0}, null_b[4] = {0, 0, 1, 0}, null_c[4] = {0, 0, 0, 1};
    const struct shuffle_slice slices[4] = {{(const uint8_t *)"x", 1}, {NULL, 0}, {NULL, 77}, {NULL, 0}};
    struct shuffle_column columns[3] = {{.data = (const uint8_t *)numbers, .stride = 8, .null = null_a},
                                        {.slice = slices, .null = null_b},
                                        {.data = (const uint8_t *)numbers, .stride = 8, .null = null_c}};
    const struct shuffle_batch batch = {.rows = 4, .column = columns};
    uint64_t hash[4];
    uint8_t null[4] = {9, 9, 9, 9};
    shuffle_key_hash_batch(&side.key, &side.layout, &batch, hash, null);
    assert_memory_equal(null, ((uint8_t[]){0, 1, 1, 0}), 4);
    side_close(&side);
}

/* With null_equal a NULL is a value of its own: hashed alike wherever it lies, equal to itself alone. */
static void a_null_may_equal_a_null(void **state)
{
    (void)state;
    enum { ROWS = 600 };
    static const char *const schemas[] = {"a:int64?,b:int32?", "a:int32,b:string?,c:decimal(9,2)?", "a:string?",
                                          "a:float64?,b:bool?,c:binary(3)?"};
    for (uint32_t s = 0; s < sizeof schemas / sizeof *schemas; s++) {
        struct side side;
        side_open(&side, schemas[s]);
        sides_pair(&side, &side);
        side.key.null_equal = true;
        static uint8_t zeros[ROWS * 16], null[3][ROWS];
        static struct shuffle_slice empty[ROWS];
        struct shuffle_column columns[3] = {{0}};
        for (uint32_t c = 0; c < side.schema.count; c++) {
            const bool variable = shuffle_type_variable(side.schema.field[c].type);
            for (uint32_t i = 0; i < ROWS; i++) {
                null[c][i] = base_random_at(s, c * ROWS + i) % 2;
                empty[i] = (struct shuffle_slice){zeros, 0};
            }
            columns[c] = (struct shuffle_column){.data = variable ? NULL : zeros,
                                                 .stride = variable ? 0 : side.schema.field[c].width,
                                                 .slice = variable ? empty : NULL,
                                                 .null = side.schema.field[c].nullable ? null[c] : NULL};
        }
        const struct shuffle_batch batch = {.rows = ROWS, .column = columns};
        static uint64_t by_batch[ROWS], by_rows[ROWS], by_image[ROWS];
        static uint8_t image[ROWS * 64];
        const uint8_t *rows[ROWS];
        uint8_t *to = image;
        shuffle_key_hash_batch(&side.key, &side.layout, &batch, by_batch, NULL);
        for (uint32_t i = 0; i < ROWS; i++) {
            rows[i] = to;
            to += shuffle_batch_encode_row(&side.layout, &batch, i, to);
        }
        shuffle_key_hash_rows(&side.key, &side.layout, rows, ROWS, by_rows);
        assert_memory_equal(by_batch, by_rows, sizeof by_rows);
        if (side.layout.row_bytes) {
            shuffle_key_hash_image(&side.key, &side.layout, image, ROWS, by_image);
            assert_memory_equal(by_batch, by_image, sizeof by_image);
        }
        for (uint32_t i = 0; i < ROWS; i++) { /* all values are zero or empty: only NULLs tell rows apart */
            bool alike = true;
            for (uint32_t c = 0; c < side.schema.count; c++)
                alike &= !columns[c].null || null[c][i] == null[c][0];
            assert_int_equal(shuffle_key_equal(&side.key, &side.layout, rows[0], &side.key, &side.layout, rows[i]),
                             alike);
            assert_int_equal(by_batch[0] == by_batch[i], alike);
        }
        side_close(&side);
    }
}

/* Chi-square over buckets, as multiples of its standard deviation from the mean. */
static double imbalance(const uint32_t *counts, uint32_t buckets, uint32_t keys)
{
    const double expected = (double)keys / buckets;
    double sum = 0;
    for (uint32_t i = 0; i < buckets; i++)
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    return (sum - (buckets - 1)) / sqrt(2.0 * (buckets - 1));
}

/* Partition, directory and tag are even for keys that differ in few bits only. */
static void regular_keys_spread(void **state)
{
    (void)state;
    enum { KEYS = 1 << 18 };
    struct side side;
    side_open(&side, "k:int64");
    sides_pair(&side, &side);
    uint64_t *keys = malloc(KEYS * sizeof *keys), *hash = malloc(KEYS * sizeof *hash);
    for (uint32_t pattern = 0; pattern < 9; pattern++) {
        for (uint64_t i = 0; i < KEYS; i++) {
            static const uint32_t shifts[] = {0, 8, 16, 20, 32, 40, 46};
            keys[i] = pattern < 7 ? i << shifts[pattern] : pattern == 7 ? i * 1000003 : (i & 511) | (i >> 9) << 55;
        }
        shuffle_key_hash_image(&side.key, &side.layout, (const uint8_t *)keys, KEYS, hash);
        uint32_t counts[4][4096] = {0};
        for (uint32_t i = 0; i < KEYS; i++) {
            counts[0][shuffle_key_partition(hash[i], 96)]++;
            counts[1][hash[i] & 4095]++;
            counts[2][hash[i] >> 32 & 4095]++;
            counts[3][hash[i] >> 36 & 4095]++;
        }
        assert_true(imbalance(counts[0], 96, KEYS) < 6);
        for (uint32_t c = 1; c < 4; c++)
            assert_true(imbalance(counts[c], 4096, KEYS) < 6);
    }
    free(hash);
    free(keys);
    side_close(&side);
}

static void every_bit_moves_every_bit(void **state)
{
    (void)state;
    enum { SAMPLES = 2000 };
    struct side side;
    side_open(&side, "k:int64");
    sides_pair(&side, &side);
    for (uint32_t in = 0; in < 64; in++) {
        uint32_t flips[64] = {0};
        for (uint32_t s = 0; s < SAMPLES; s++) {
            const uint64_t key = base_random_at(in, s), other = key ^ UINT64_C(1) << in;
            const uint64_t moved = hash_row(&side, (const uint8_t *)&key) ^ hash_row(&side, (const uint8_t *)&other);
            for (uint32_t out = 0; out < 64; out++)
                flips[out] += (uint32_t)(moved >> out & 1);
        }
        for (uint32_t out = 0; out < 64; out++)
            assert_in_range(flips[out], SAMPLES * 44 / 100, SAMPLES * 56 / 100);
    }
    side_close(&side);
}

static void partitions_are_in_range(void **state)
{
    (void)state;
    static const uint32_t workers[] = {1, 2, 3, 96, 1000003, UINT32_MAX};
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(shuffle_key_partition(0, workers[i]), 0);
        assert_int_equal(shuffle_key_partition(UINT64_MAX, workers[i]), workers[i] - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_compare_by_value),
        cmocka_unit_test(decimals_compare_across_scales),
        cmocka_unit_test(floats_have_one_zero_and_one_nan),
        cmocka_unit_test(only_like_compares_with_like),
        cmocka_unit_test(parts_are_framed_and_ordered),
        cmocka_unit_test(all_ways_give_the_same_hash),
        cmocka_unit_test(a_null_may_equal_a_null),
        cmocka_unit_test(a_null_part_is_flagged),
        cmocka_unit_test(regular_keys_spread),
        cmocka_unit_test(every_bit_moves_every_bit),
        cmocka_unit_test(partitions_are_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
