#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scan_harness.h"

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
    static const uint64_t morsels[] = {1, 100, 15 * 1024, 1 << 20};
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
            if (batch->image != NULL)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_cut, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_image, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
