#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shuffle/scan_harness.h"

static struct shuffle_scan *open_scan(struct harness *harness, const char *source, struct shuffle_relation *relation,
                                      const uint32_t *project, uint32_t project_count)
{
    struct base_error error = {0};
    struct shuffle_scan *scan;
    assert_ok(harness_relation(source, NULL, relation, &error));
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = relation,
                                               .project = project,
                                               .project_count = project_count};
    assert_ok(shuffle_scan_open(&config, &scan, &error));
    return scan;
}

/* Rows [begin, end) as bytes of the projected layout, column by column. *pinned counts rows that were pinned. */
static struct text rows_of(struct shuffle_scan *scan, uint64_t begin, uint64_t end, uint64_t *pinned)
{
    struct base_error error = {0};
    struct text text = {0};
    const struct shuffle_morsel morsel = {.begin = begin, .end = end};
    const struct shuffle_layout *layout = shuffle_scan_layout(scan);
    assert_ok(shuffle_scan_begin(scan, &morsel, &error));
    const struct shuffle_batch *batch;
    for (enum base_status status; (status = shuffle_scan_next(scan, &batch, &error)) != BASE_END;) {
        assert_int_equal(status, BASE_OK);
        *pinned += batch->pinned ? batch->rows : 0;
        const size_t before = text.bytes;
        for (uint32_t r = 0; r < batch->rows; r++)
            for (uint32_t c = 0; c < layout->count; c++)
                text_add(&text, batch->column[c].data + (size_t)r * batch->column[c].stride, layout->slot[c].width);
        if (batch->image)
            assert_memory_equal(batch->image, text.data + before, text.bytes - before);
    }
    return text;
}

/* Any piece of the relation, streamed or preloaded, projected or not, has the same rows. */
static void test_rows_depend_on_number_alone(void **state)
{
    static const char *const sources[] = {
        "gen:rows=3000,row=16",
        "gen:rows=3000,row=61,keys=uniform:50",
        "gen:rows=3000,row=9,keys=zipf:1.2:100",
        "gen:rows=3000,row=8,keys=stride",
        "gen:rows=3000,row=5000,keys=one",
    };
    static const uint32_t both[] = {0, 1}, turned[] = {1, 0};
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        struct base_error error = {0};
        struct shuffle_relation relation;
        const uint32_t columns = s == 3 ? 1 : 2;
        uint64_t pinned = 0;
        struct shuffle_scan *scan = open_scan(*state, sources[s], &relation, both, columns);
        const size_t row_bytes = relation.generator.row_bytes;
        struct text all = rows_of(scan, 0, 3000, &pinned);
        assert_int_equal(all.bytes, 3000 * row_bytes);
        assert_int_equal(shuffle_scan_input_bytes(scan), 3000 * row_bytes);
        struct text piece = rows_of(scan, 777, 2222, &pinned);
        assert_memory_equal(piece.data, all.data + 777 * row_bytes, piece.bytes);
        free(piece.data);
        assert_int_equal(pinned, 0);
        assert_ok(shuffle_scan_preload(scan, 1000, 2000, &error));
        piece = rows_of(scan, 500, 2500, &pinned);
        assert_int_equal(piece.bytes, 2000 * row_bytes);
        assert_memory_equal(piece.data, all.data + 500 * row_bytes, piece.bytes);
        assert_int_equal(pinned, 1000);
        free(piece.data);
        shuffle_scan_close(scan);
        shuffle_relation_free(&relation);
        if (columns == 2) {
            scan = open_scan(*state, sources[s], &relation, turned, 2);
            piece = rows_of(scan, 0, 3000, &pinned);
            for (uint32_t r = 0; r < 3000; r++) {
                assert_memory_equal(piece.data + r * row_bytes + row_bytes - 8, all.data + r * row_bytes, 8);
                assert_memory_equal(piece.data + r * row_bytes, all.data + r * row_bytes + 8, row_bytes - 8);
            }
            free(piece.data);
            shuffle_scan_close(scan);
            shuffle_relation_free(&relation);
            scan = open_scan(*state, sources[s], &relation, both, 1);
            piece = rows_of(scan, 0, 3000, &pinned);
            for (uint32_t r = 0; r < 3000; r++)
                assert_memory_equal(piece.data + (size_t)r * 8, all.data + r * row_bytes, 8);
            free(piece.data);
            shuffle_scan_close(scan);
            shuffle_relation_free(&relation);
        }
        free(all.data);
    }
}

static struct text keys_of(struct harness *harness, const char *source, uint64_t rows)
{
    static const uint32_t key[] = {0};
    struct shuffle_relation relation;
    uint64_t pinned = 0;
    struct shuffle_scan *scan = open_scan(harness, source, &relation, key, 1);
    struct text keys = rows_of(scan, 0, rows, &pinned);
    assert_int_equal(keys.bytes, rows * 8);
    shuffle_scan_close(scan);
    shuffle_relation_free(&relation);
    return keys;
}

static void test_unique(void **state)
{
    static const uint64_t sizes[] = {1, 2, 3, 6, 1000, 4096, 99991};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        char source[64];
        snprintf(source, sizeof source, "gen:rows=%" PRIu64 ",row=8,seed=%zu", sizes[s], s);
        struct text keys = keys_of(*state, source, sizes[s]);
        bool *seen = calloc(sizes[s], sizeof *seen);
        for (uint64_t i = 0; i < sizes[s]; i++) {
            const uint64_t key = base_load_u64(keys.data + i * 8);
            assert_true(key < sizes[s] && !seen[key]);
            seen[key] = true;
        }
        free(seen);
        free(keys.data);
    }
}

static void test_distributions(void **state)
{
    uint64_t seen[11] = {0};
    struct text keys = keys_of(*state, "gen:rows=100k,row=8,keys=uniform:10", 100000);
    for (uint64_t i = 0; i < 100000; i++) {
        assert_true(base_load_u64(keys.data + i * 8) < 10);
        seen[base_load_u64(keys.data + i * 8)]++;
    }
    for (int k = 0; k < 10; k++)
        assert_in_range(seen[k], 9500, 10500);
    free(keys.data);
    memset(seen, 0, sizeof seen);
    keys = keys_of(*state, "gen:rows=100k,row=8,keys=zipf:1:10", 100000);
    for (uint64_t i = 0; i < 100000; i++) {
        assert_in_range(base_load_u64(keys.data + i * 8), 1, 10);
        seen[base_load_u64(keys.data + i * 8)]++;
    }
    for (uint64_t k = 1; k <= 10; k++) { /* 1/k, normalised by the tenth harmonic number */
        const uint64_t expected = (uint64_t)(100000 / 2.928968 / (double)k);
        assert_in_range(seen[k], expected - 700, expected + 700);
    }
    free(keys.data);
    keys = keys_of(*state, "gen:rows=1000,row=8,keys=stride", 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_int_equal(base_load_u64(keys.data + i * 8), i << 32);
    free(keys.data);
    keys = keys_of(*state, "gen:rows=1000,row=8,keys=one", 1000);
    for (uint64_t i = 1; i < 1000; i++)
        assert_memory_equal(keys.data, keys.data + i * 8, 8);
    free(keys.data);
}

static void test_seeds_differ(void **state)
{
    struct text a = keys_of(*state, "gen:rows=1000,row=8,seed=1", 1000);
    struct text b = keys_of(*state, "gen:rows=1000,row=8,seed=2", 1000);
    assert_memory_not_equal(a.data, b.data, a.bytes);
    free(a.data);
    free(b.data);
}

static void test_payloads_differ(void **state)
{
    static const uint32_t payload[] = {1};
    struct shuffle_relation relation;
    uint64_t pinned = 0;
    struct shuffle_scan *scan = open_scan(*state, "gen:rows=1000,row=40", &relation, payload, 1);
    struct text rows = rows_of(scan, 0, 1000, &pinned);
    for (uint64_t a = 0; a < 4000; a += 7)
        for (uint64_t b = a + 1; b < 4000; b++)
            assert_memory_not_equal(rows.data + a * 8, rows.data + b * 8, 8);
    free(rows.data);
    shuffle_scan_close(scan);
    shuffle_relation_free(&relation);
}

static void test_limits(void **state)
{
    struct harness *harness = *state;
    static const uint32_t both[] = {0, 1};
    struct base_error error = {0};
    struct shuffle_relation relation;
    uint64_t pinned = 0;
    struct shuffle_scan *scan = open_scan(harness, "gen:rows=3,row=16Mi", &relation, both, 2);
    struct text rows = rows_of(scan, 1, 3, &pinned);
    assert_int_equal(rows.bytes, 32 << 20);
    free(rows.data);
    const struct shuffle_morsel beyond = {.begin = 2, .end = 4};
    assert_int_equal(shuffle_scan_begin(scan, &beyond, &error), BASE_INVALID);
    assert_int_equal(shuffle_scan_preload(scan, 2, 4, &error), BASE_INVALID);
    assert_ok(shuffle_scan_preload(scan, 2, 2, &error));
    shuffle_scan_close(scan);
    shuffle_relation_free(&relation);
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_rows_depend_on_number_alone),
        WITH_ENGINE(test_unique),
        WITH_ENGINE(test_distributions),
        WITH_ENGINE(test_seeds_differ),
        WITH_ENGINE(test_payloads_differ),
        WITH_ENGINE(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
