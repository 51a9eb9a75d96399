/* Compressed files: the rows of what they hold, in any blocks and members; and every damage an error, never fewer rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/random.h"
#include "tests/shuffle/scan_harness.h"

typedef void pack_fn(const void *data, size_t bytes, struct text *packed);

static void gzip_member(const void *data, size_t bytes, struct text *packed)
{
    z_stream stream = {0};
    uint8_t *out = malloc(bytes + 1000);
    assert_non_null(out);
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)bytes;
    stream.next_out = out;
    stream.avail_out = (uInt)bytes + 1000;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    text_add(packed, out, bytes + 1000 - stream.avail_out);
    deflateEnd(&stream);
    free(out);
}

static void zstd_frame(const void *data, size_t bytes, struct text *packed)
{
    const size_t bound = ZSTD_compressBound(bytes);
    void *out = malloc(bound);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_true(out && context);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    const size_t got = ZSTD_compress2(context, out, bound, data, bytes);
    assert_false(ZSTD_isError(got));
    text_add(packed, out, got);
    ZSTD_freeCCtx(context);
    free(out);
}

static const struct {
    const char *name;
    pack_fn *pack;
} kinds[] = {{"t.csv.gz", gzip_member}, {"t.csv.zst", zstd_frame}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Rows with quoted line ends and doubled quotes; the last without a line end. */
static void make_csv(struct base_random *random, uint32_t rows, struct text *csv)
{
    text_printf(csv, "a,b\n");
    for (uint32_t i = 0; i < rows; i++)
        text_printf(csv, "%u,%s%s", i, base_random_below(random, 3) == 0 ? "\"x\"\"\ny,\"" : "plain",
                    i + 1 < rows ? "\n" : "");
}

static enum base_status scan_file(struct harness *harness, const char *name, const struct text *file,
                                  uint32_t block_bytes, struct text *rows, struct base_error *error)
{
    struct shuffle_relation relation;
    const char *path = harness_write(harness, name, file->data, file->bytes);
    enum base_status status = harness_relation(path, "a:int64,b:string", &relation, error);
    if (status != BASE_OK)
        return status;
    const struct harness_scan how = {.morsel_bytes = 16, .block_bytes = block_bytes};
    status = harness_scan(harness, &relation, &how, rows, error);
    shuffle_relation_free(&relation);
    return status;
}

static void members_and_blocks(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct base_random random;
    base_random_seed(&random, 3);
    for (uint32_t i = 0; i < 60; i++) {
        struct text csv = {0}, packed = {0}, wanted = {0}, rows = {0};
        make_csv(&random, 1 + (uint32_t)base_random_below(&random, 300), &csv);
        assert_ok(scan_file(harness, "plain.csv", &csv, 0, &wanted, &error));
        for (size_t at = 0; at < csv.bytes;) { /* in up to a few members, some of them empty */
            const size_t piece = (size_t)base_random_below(&random, csv.bytes - at + 1);
            kinds[i % KINDS].pack(csv.data + at, piece, &packed);
            at += piece;
        }
        const uint32_t block = 4 + (uint32_t)base_random_below(&random, i % 3 == 0 ? 20 : 5000);
        assert_ok(scan_file(harness, kinds[i % KINDS].name, &packed, block, &rows, &error));
        assert_string_equal(rows.data, wanted.data);
        free(csv.data);
        free(packed.data);
        free(wanted.data);
        free(rows.data);
    }
}

/* Blocks end anywhere, also where the file does, which shows only when more is asked for. */
static void empty_last_line(void **state)
{
    struct harness *harness = *state;
    static const struct {
        const char *csv, *rows, *words; /* rows, or words of the error */
    } cases[] = {
        {"a,b\n1,x\n\n", "[1][x]\n", NULL},
        {"a,b\r\n1,x\r\n\r\n", "[1][x]\n", NULL},
        {"a,b\n1,x\n2,y", "[1][x]\n[2][y]\n", NULL},
        {"a,b\n\n1,x\n", NULL, "t.csv.gz:2: an empty line"},
        {"a,b\n1,x\n\n\n", NULL, "t.csv.gz:3: an empty line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct base_error error = {0};
        struct text packed = {0};
        const size_t bytes = strlen(cases[i].csv);
        gzip_member(cases[i].csv, bytes, &packed);
        for (uint32_t block = 4; block <= bytes + 1; block++) {
            struct text rows = {0};
            if (cases[i].rows) {
                assert_ok(scan_file(harness, "t.csv.gz", &packed, block, &rows, &error));
                assert_string_equal(rows.data, cases[i].rows);
            } else {
                assert_int_equal(scan_file(harness, "t.csv.gz", &packed, block, &rows, &error), BASE_PARSE);
                assert_text(cases[i].words);
            }
            free(rows.data);
        }
        free(packed.data);
    }
}

/* Every truncation that is not between two members, and every flipped bit, but for those that mean nothing. */
static void damage_is_an_error(void **state)
{
    struct harness *harness = *state;
    struct base_random random;
    base_random_seed(&random, 4);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        struct base_error error = {0};
        struct text csv = {0}, packed = {0}, wanted = {0};
        make_csv(&random, 60, &csv);
        assert_ok(scan_file(harness, "plain.csv", &csv, 0, &wanted, &error));
        kinds[kind].pack(csv.data, csv.bytes, &packed);
        const size_t whole = packed.bytes;
        for (packed.bytes = 1; packed.bytes < whole; packed.bytes++) {
            struct text rows = {0};
            assert_int_equal(scan_file(harness, kinds[kind].name, &packed, 64, &rows, &error), BASE_PARSE);
            assert_text(kinds[kind].name);
            assert_text("of the file");
            free(rows.data);
        }
        packed.bytes = whole;
        for (size_t i = 0; i < 8 * whole; i += 3) {
            struct text rows = {0};
            packed.data[i / 8] = (char)(packed.data[i / 8] ^ 1 << i % 8);
            const enum base_status status = scan_file(harness, kinds[kind].name, &packed, 64, &rows, &error);
            if (status == BASE_OK) /* a time in a header */
                assert_string_equal(rows.data, wanted.data);
            packed.data[i / 8] = (char)(packed.data[i / 8] ^ 1 << i % 8);
            free(rows.data);
        }
        free(csv.data);
        free(packed.data);
        free(wanted.data);
    }
}

static void other_data_under_the_name(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text rows = {0}, packed = {0}, plain = {.data = (char *)(uintptr_t) "a,b\n1,2\n", .bytes = 8};
    assert_int_equal(scan_file(harness, "t.csv.gz", &plain, 64, &rows, &error), BASE_PARSE);
    assert_text("t.csv.gz: it is no gzip data");
    assert_int_equal(scan_file(harness, "t.csv.zst", &plain, 64, &rows, &error), BASE_PARSE);
    assert_text("t.csv.zst: it is no zstd data");
    gzip_member("a,b\n1,2\n", 8, &packed);
    text_add(&packed, "\0\0\0\0", 4); /* padding of tapes */
    assert_ok(scan_file(harness, "t.csv.gz", &packed, 64, &rows, &error));
    assert_string_equal(rows.data, "[1][2]\n");
    text_add(&packed, "rest", 4);
    assert_int_equal(scan_file(harness, "t.csv.gz", &packed, 64, &rows, &error), BASE_PARSE);
    free(packed.data);
    free(rows.data);
}

static void fixed_width(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    uint8_t data[3000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i % 251);
    for (uint32_t block = 3; block < 1000; block += 91) {
        struct text packed[2] = {{0}, {0}}, rows[2] = {{0}, {0}};
        text_add(&packed[0], data, sizeof data);
        zstd_frame(data, 1000, &packed[1]);
        zstd_frame(data + 1000, 2000, &packed[1]);
        for (int i = 0; i < 2; i++) {
            const char *path = harness_write(harness, i ? "t.bin.zst" : "t.bin", packed[i].data, packed[i].bytes);
            assert_ok(harness_relation(path, "a:int16,b:uint8", &relation, &error));
            assert_int_equal(relation.format, SHUFFLE_FORMAT_FIXED);
            const struct harness_scan how = {.morsel_bytes = 30, .block_bytes = block};
            assert_ok(harness_scan(harness, &relation, &how, &rows[i], &error));
            shuffle_relation_free(&relation);
            free(packed[i].data);
        }
        assert_string_equal(rows[0].data, rows[1].data);
        free(rows[0].data);
        free(rows[1].data);
    }
    struct text packed = {0}, rows = {0};
    gzip_member(data, 100, &packed);
    const char *path = harness_write(harness, "t.bin.gz", packed.data, packed.bytes);
    assert_ok(harness_relation(path, "a:int16,b:uint8", &relation, &error));
    const struct harness_scan how = {.morsel_bytes = 30, .block_bytes = 30};
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_PARSE);
    assert_text("holds 100 bytes, which is no multiple of the 3 bytes of a row");
    path = harness_write(harness, "none.bin.gz", "", 0);
    shuffle_relation_free(&relation);
    assert_int_equal(harness_relation(path, "a:int16,b:uint8", &relation, &error), BASE_PARSE);
    assert_text("none.bin.gz has 0 bytes: a compressed file");
    free(packed.data);
    free(rows.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(members_and_blocks, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(empty_last_line, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(damage_is_an_error, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(other_data_under_the_name, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(fixed_width, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
