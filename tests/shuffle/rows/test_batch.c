#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "shuffle/rows/batch.h"

struct table {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
};

static void table_open(struct table *table, const char *schema)
{
    struct base_error error;
    memset(table, 0, sizeof *table);
    assert_int_equal(shuffle_schema_parse(schema, &table->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&table->schema, &table->layout, &error), BASE_OK);
}

static void table_close(struct table *table)
{
    shuffle_layout_free(&table->layout);
    shuffle_schema_free(&table->schema);
}

/* The bytes of a row are what schema.h says, spelt out. */
static void a_row_has_the_documented_bytes(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, "a:int16,s:string?,b:int32?,t:binary");
    const int16_t a[2] = {0x0102, 0x0304};
    const int32_t b[2] = {0x0a0b0c0d, 0x55555555};
    const uint8_t s_null[2] = {0, 1}, b_null[2] = {0, 1};
    const struct shuffle_slice s[2] = {{(const uint8_t *)"xyz", 3}, {(const uint8_t *)"never", 5}};
    const struct shuffle_slice t[2] = {{(const uint8_t *)"", 0}, {(const uint8_t *)"\0q", 2}};
    struct shuffle_column columns[4] = {{.data = (const uint8_t *)a, .stride = 2},
                                        {.slice = s, .null = s_null},
                                        {.data = (const uint8_t *)b, .stride = 4, .null = b_null},
                                        {.slice = t}};
    const struct shuffle_batch batch = {.rows = 2, .column = columns};
    static const uint8_t first[] = {2, 1, 3, 0, 0, 0, 13, 12, 11, 10, 3, 0, 0, 0, 0, 'x', 'y', 'z'};
    static const uint8_t second[] = {4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 'q'};
    uint8_t row[64];
    memset(row, 0xee, sizeof row);
    assert_int_equal(shuffle_batch_row_bytes(&table.layout, &batch, 0), sizeof first);
    assert_int_equal(shuffle_batch_encode_row(&table.layout, &batch, 0, row), sizeof first);
    assert_memory_equal(row, first, sizeof first);
    assert_int_equal(row[sizeof first], 0xee);
    memset(row, 0xee, sizeof row);
    assert_int_equal(shuffle_batch_row_bytes(&table.layout, &batch, 1), sizeof second);
    assert_int_equal(shuffle_batch_encode_row(&table.layout, &batch, 1, row), sizeof second);
    assert_memory_equal(row, second, sizeof second);
    assert_int_equal(row[sizeof second], 0xee);
    assert_true(shuffle_row_check(&table.layout, row, sizeof second));
    table_close(&table);
}

static void null_bits_beyond_a_byte(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, "a:int8?,b:int8?,c:int8?,d:int8?,e:int8?,f:int8?,g:int8?,h:int8?,i:int8?,j:int8?");
    const uint8_t values[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, set = 1;
    struct shuffle_column columns[10];
    for (uint32_t c = 0; c < 10; c++)
        columns[c] = (struct shuffle_column){.data = &values[c], .stride = 1, .null = c == 0 || c == 9 ? &set : NULL};
    const struct shuffle_batch batch = {.rows = 1, .column = columns};
    static const uint8_t expected[] = {0, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2};
    uint8_t row[16];
    assert_int_equal(shuffle_batch_encode_row(&table.layout, &batch, 0, row), sizeof expected);
    assert_memory_equal(row, expected, sizeof expected);
    assert_true(shuffle_row_null(&table.layout, row, 9));
    assert_false(shuffle_row_null(&table.layout, row, 8));
    table_close(&table);
}

static void fixed_width_without_nulls_has_no_overhead(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, "k:int64,p:binary(3),f:float32,d:decimal(38,0),b:bool");
    assert_int_equal(table.layout.row_bytes, 8 + 3 + 4 + 16 + 1);
    /* Columns with a stride of their own: every second value. */
    uint8_t data[5][64], row[32];
    struct shuffle_column columns[5];
    for (uint32_t c = 0; c < 5; c++) {
        for (uint32_t i = 0; i < 64; i++)
            data[c][i] = (uint8_t)(c * 64 + i);
        columns[c] = (struct shuffle_column){.data = data[c], .stride = 2 * table.schema.field[c].width};
    }
    const struct shuffle_batch batch = {.rows = 2, .column = columns};
    assert_int_equal(shuffle_batch_encode_row(&table.layout, &batch, 1, row), 32);
    for (uint32_t c = 0; c < 5; c++)
        assert_memory_equal(row + table.layout.slot[c].offset, data[c] + columns[c].stride,
                            table.schema.field[c].width);
    /* The same row from an image. */
    uint8_t image[64] = {0}, copy[32];
    memcpy(image + 32, row, 32);
    const struct shuffle_batch whole = {.rows = 2, .column = columns, .image = image};
    assert_int_equal(shuffle_batch_encode_row(&table.layout, &whole, 1, copy), 32);
    assert_memory_equal(copy, row, 32);
    table_close(&table);
}

/* The whole batch at once gives the same rows as one by one. */
static void an_image_is_its_rows(void **state)
{
    (void)state;
    struct table table;
    table_open(&table, "a:int64,b:int16?,c:binary(3)?,d:int32,e:bool?,f:decimal(9,2)?,g:binary(40)");
    enum { ROWS = 37 };
    static uint8_t data[7][ROWS * 64], null[7][ROWS];
    struct shuffle_column columns[7];
    for (uint32_t c = 0; c < 7; c++) {
        for (uint32_t i = 0; i < ROWS * 64; i++)
            data[c][i] = (uint8_t)(i * 7 + c + 1);
        for (uint32_t i = 0; i < ROWS; i++)
            null[c][i] = (i * (c + 3)) % 5 == 0;
        columns[c] = (struct shuffle_column){.data = data[c], .stride = 47 + c, .null = c == 4 ? NULL : null[c]};
    }
    const struct shuffle_batch batch = {.rows = ROWS, .column = columns};
    const uint32_t bytes = table.layout.row_bytes;
    uint8_t image[ROWS * 128], row[128];
    memset(image, 0xee, sizeof image);
    shuffle_batch_encode_image(&table.layout, &batch, image);
    for (uint32_t i = 0; i < ROWS; i++) {
        memset(row, 0x11, sizeof row);
        assert_int_equal(shuffle_batch_encode_row(&table.layout, &batch, i, row), bytes);
        assert_memory_equal(image + (size_t)i * bytes, row, bytes);
    }
    assert_int_equal(image[(size_t)ROWS * bytes], 0xee);
    table_close(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_has_the_documented_bytes),
        cmocka_unit_test(null_bits_beyond_a_byte),
        cmocka_unit_test(fixed_width_without_nulls_has_no_overhead),
        cmocka_unit_test(an_image_is_its_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
