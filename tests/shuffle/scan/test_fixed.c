#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shuffle/scan_harness.h"

/* 5,000 rows of key:int64,small:int16?,tag:binary(3),flag:bool?: 15 bytes each with their null bits. */
enum { ROWS = 5000, ROW_BYTES = 8 + 2 + 3 + 1 + 1 };

static struct shuffle_relation fixed_relation(struct harness *harness, struct text *image)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    for (uint64_t i = 0; i < ROWS; i++) {
        uint8_t row[ROW_BYTES] = {0};
        base_store_u64(row, i * 3);
        if (i % 3 == 0)
            row[14] |= 1;
        else
            base_store_u16(row + 8, (uint16_t)i);
        memcpy(row + 10, "abc", 3);
        row[13] = i % 2 == 0;
        if (i % 5 == 0)
            row[13] = 0, row[14] |= 2;
        text_add(image, row, sizeof row);
    }
    assert_ok(harness_relation(harness_write(harness, "t.bin", image->data, image->bytes),
                               "key:int64,small:int16?,tag:binary(3),flag:bool?", &relation, &error));
    return relation;
}

static void expected_rows(struct text *rows, bool projected)
{
    for (int i = 0; i < ROWS; i++) {
        char small[16], flag[16];
        snprintf(small, sizeof small, i % 3 == 0 ? "-" : "[%d]", i);
        snprintf(flag, sizeof flag, "%s", i % 5 == 0 ? "-" : i % 2 == 0 ? "[true]" : "[false]");
        if (projected)
            text_printf(rows, "%s[%d]%s\n", flag, i * 3, flag);
        else
            text_printf(rows, "[%d]%s[\\x616263]%s\n", i * 3, small, flag);
    }
}

static void test_any_cut(void **state)
{
    struct text image = {0}, expected[2] = {{0}, {0}};
    struct shuffle_relation relation = fixed_relation(*state, &image);
    static const uint32_t projection[] = {3, 0, 3};
    static const uint64_t morsels[] = {1, 100, UINT64_C(15) << 10, 1 << 20};
    static const uint32_t blocks[] = {1, 44, 15 * 1025, 0};
    expected_rows(&expected[0], false);
    expected_rows(&expected[1], true);
    for (int m = 0; m < 4; m++) {
        for (int b = 0; b < 4; b++) {
            for (int p = 0; p < 2; p++) {
                struct base_error error = {0};
                struct text rows = {0};
                const struct harness_scan how = {.project = p ? projection : NULL,
                                                 .project_count = 3,
                                                 .morsel_bytes = morsels[m],
                                                 .block_bytes = blocks[b]};
                assert_ok(harness_scan(*state, &relation, &how, &rows, &error));
                assert_string_equal(rows.data, expected[p].data);
                free(rows.data);
            }
        }
    }
    free(image.data);
    free(expected[0].data);
    free(expected[1].data);
    shuffle_relation_free(&relation);
}

/* A projection of all columns in order gives the rows of the file themselves; any other does not. */
static void test_image(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text image = {0};
    struct shuffle_relation relation = fixed_relation(harness, &image);
    for (uint32_t count = 3; count <= 4; count++) {
        static const uint32_t project[] = {0, 1, 2, 3};
        const struct shuffle_scan_config config = {.engine = harness->engine,
                                                   .governor = harness->governor,
                                                   .relation = &relation,
                                                   .project = project,
                                                   .project_count = count};
        const struct shuffle_morsel morsel = {.begin = 15, .end = 30000};
        struct shuffle_scan *scan;
        assert_ok(shuffle_scan_open(&config, &scan, &error));
        assert_int_equal(shuffle_scan_preload(scan, 0, 1, &error), BASE_UNSUPPORTED);
        assert_ok(shuffle_scan_begin(scan, &morsel, &error));
        uint64_t at = 15;
        const struct shuffle_batch *batch;
        for (enum base_status status; (status = shuffle_scan_next(scan, &batch, &error)) != BASE_END;) {
            if (status == BASE_BUSY) {
                harness_turn(harness);
                continue;
            }
            assert_int_equal(status, BASE_OK);
            assert_int_equal(batch->image != NULL, count == 4);
            assert_false(batch->pinned);
            if (batch->image)
                assert_memory_equal(batch->image, image.data + at, batch->rows * UINT64_C(15));
            at += batch->rows * UINT64_C(15);
        }
        assert_int_equal(at, morsel.end);
        assert_int_equal(shuffle_scan_rows(scan), 1999);
        assert_int_equal(shuffle_scan_input_bytes(scan), 1999 * 15);
        const struct shuffle_morsel cut = {.begin = 0, .end = 16};
        assert_int_equal(shuffle_scan_begin(scan, &cut, &error), BASE_INVALID);
        const struct shuffle_morsel beyond = {.begin = 0, .end = 75015};
        assert_int_equal(shuffle_scan_begin(scan, &beyond, &error), BASE_INVALID);
        shuffle_scan_close(scan);
    }
    free(image.data);
    shuffle_relation_free(&relation);
}

static enum base_status scan_bytes(struct harness *harness, const void *data, size_t bytes, const char *declared,
                                   struct text *rows, struct base_error *error)
{
    struct shuffle_relation relation;
    const enum base_status status =
        harness_relation(harness_write(harness, "t.bin", data, bytes), declared, &relation, error);
    assert_int_equal(status, BASE_OK);
    const struct harness_scan how = {.morsel_bytes = 1};
    const enum base_status scanned = harness_scan(harness, &relation, &how, rows, error);
    shuffle_relation_free(&relation);
    return scanned;
}

/* Bits that are no value of their type end the scan; what stands in the place of a NULL does not matter. */
static void test_bits_that_are_no_value(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text rows = {0};
    assert_int_equal(scan_bytes(harness, "\1\0\2", 3, "f:bool", &rows, &error), BASE_PARSE);
    assert_text("t.bin: row 3: column \"f\" (bool) is neither 0 nor 1");
    __int128 decimals[] = {99999, -99999, 100000};
    assert_int_equal(scan_bytes(harness, decimals, 48, "d:decimal(5,2)", &rows, &error), BASE_PARSE);
    assert_text("row 3: column \"d\" (decimal(5,2)) has more digits than its type");
    decimals[2] = -decimals[2];
    assert_int_equal(scan_bytes(harness, decimals, 48, "d:decimal(5,2)", &rows, &error), BASE_PARSE);
    decimals[2] = (__int128)((unsigned __int128)1 << 127);
    assert_int_equal(scan_bytes(harness, decimals, 48, "d:decimal(38,0)", &rows, &error), BASE_PARSE);
    rows.bytes = 0;
    assert_ok(scan_bytes(harness, "\1\0\7\1", 4, "f:bool?", &rows, &error));
    assert_string_equal(rows.data, "[true]\n-\n");
    free(rows.data);
}

/* Rows go on as they stand in the file: zeros must be where a NULL is, because that is hashed. */
/* Of several bad values the one of the first row is told, whatever the order of the columns. */
static void test_first_bad_row(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    struct text rows = {0};
    assert_ok(harness_relation(harness_write(harness, "t.bin", "\1\1\1\2\2\1", 6), "a:bool,b:bool", &relation, &error));
    const struct harness_scan how = {.morsel_bytes = 100};
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
    assert_text("t.bin: row 2: column \"b\" (bool) is neither 0 nor 1");
    free(rows.data);
    shuffle_relation_free(&relation);
}

static void test_null_is_zeros(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    assert_ok(harness_relation(harness_write(harness, "t.bin", "\1\2\1\3\4\0", 6), "n:int16?", &relation, &error));
    static const uint32_t project[] = {0};
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = &relation,
                                               .project = project,
                                               .project_count = 1};
    const struct shuffle_morsel morsel = {.end = 6};
    struct shuffle_scan *scan;
    assert_ok(shuffle_scan_open(&config, &scan, &error));
    assert_ok(shuffle_scan_begin(scan, &morsel, &error));
    const struct shuffle_batch *batch;
    enum base_status status;
    while ((status = shuffle_scan_next(scan, &batch, &error)) == BASE_BUSY)
        harness_turn(harness);
    assert_ok(status);
    assert_int_equal(batch->rows, 2);
    assert_memory_equal(batch->image, "\0\0\1\3\4\0", 6);
    assert_int_equal(shuffle_scan_next(scan, &batch, &error), BASE_END);
    shuffle_scan_close(scan);
    shuffle_relation_free(&relation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_cut, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_image, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bits_that_are_no_value, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_first_bad_row, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_null_is_zeros, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
