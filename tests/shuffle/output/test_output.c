/* Outputs: what is written reads back as the same rows, for every type, buffer size and edge; the checksum is the
 * documented one; errors name path and cause. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "shuffle/output/output.h"
#include "shuffle/rows/value.h"
#include "tests/shuffle/scan_harness.h"

enum { ROWS_MAX = 2000 };

/* Rows as bytes, in a layout. */
struct rows {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    uint32_t count;
    const uint8_t *row[ROWS_MAX];
};

static struct rows rows_of(struct harness *harness, const char *csv, size_t bytes, const char *declared)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    struct rows rows = {0};
    uint32_t all[64];
    for (uint32_t i = 0; i < 64; i++)
        all[i] = i;
    assert_ok(harness_relation(harness_write(harness, "rows.csv", csv, bytes), declared, &relation, &error));
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = &relation,
                                               .project = all,
                                               .project_count = relation.schema.count};
    const struct shuffle_morsel morsel = {.end = bytes, .line = 1};
    struct shuffle_scan *scan;
    assert_ok(shuffle_scan_open(&config, &scan, &error));
    assert_ok(shuffle_scan_begin(scan, &morsel, &error));
    const struct shuffle_batch *batch;
    for (enum base_status status; (status = shuffle_scan_next(scan, &batch, &error)) != BASE_END;) {
        for (uint32_t r = 0; status == BASE_OK && r < batch->rows; r++) {
            const struct shuffle_layout *layout = shuffle_scan_layout(scan);
            uint8_t *row = malloc(shuffle_batch_row_bytes(layout, batch, r));
            shuffle_batch_encode_row(layout, batch, r, row);
            rows.row[rows.count++] = row;
        }
        if (status == BASE_BUSY)
            harness_turn(harness);
        else
            assert_ok(status);
    }
    while (!shuffle_scan_idle(scan))
        harness_turn(harness);
    shuffle_scan_close(scan);
    assert_ok(shuffle_schema_copy(&relation.schema, &rows.schema, &error));
    assert_ok(shuffle_layout_prepare(&rows.schema, &rows.layout, &error));
    shuffle_relation_free(&relation);
    return rows;
}

static void rows_free(struct rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++)
        free((void *)(uintptr_t)rows->row[i]);
    shuffle_schema_free(&rows->schema);
    shuffle_layout_free(&rows->layout);
}

/* Writes all rows, both sides, to the output, closes it. */
static enum base_status write_all(struct harness *harness, const struct shuffle_output_config *config,
                                  const uint8_t *const *left, const uint8_t *const *right, uint32_t count,
                                  uint64_t *checksum, struct base_error *error)
{
    struct shuffle_output *output;
    struct shuffle_output_config mine = *config; /* whose path is gone once the output is open */
    char *path = !config->path ? NULL : strdup(config->path);
    mine.path = path;
    enum base_status status = shuffle_output_open(&mine, &output, error);
    if (path)
        memset(path, '?', strlen(path));
    free(path);
    if (status != BASE_OK)
        return status;
    uint32_t taken = 0;
    while ((status = shuffle_output_write(output, left, right, count, &taken, error)) == BASE_BUSY)
        harness_turn(harness);
    if (status == BASE_OK) {
        assert_int_equal(taken, count);
        while ((status = shuffle_output_finish(output, error)) == BASE_BUSY)
            harness_turn(harness);
    }
    if (status == BASE_OK) {
        assert_int_equal(shuffle_output_finish(output, error), BASE_OK);
        assert_int_equal(shuffle_output_rows(output), count);
        *checksum = shuffle_output_checksum(output);
        if (config->path) {
            size_t bytes;
            free(harness_read(config->path, &bytes));
            assert_int_equal(shuffle_output_bytes(output), bytes);
        }
    }
    while (!shuffle_output_idle(output))
        harness_turn(harness);
    shuffle_output_close(output);
    return status;
}

/* The documented checksum, from the rows' text of what was asked for. */
static uint64_t checksum_of(const struct shuffle_output_config *config, const uint8_t *const *left,
                            const uint8_t *const *right, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t r = 0; r < count; r++) {
        struct text encoding = {0};
        for (uint32_t i = 0; i < config->item_count; i++) {
            const uint32_t side = config->item[i].side, column = config->item[i].column;
            const uint8_t *row = side == 0 ? left[r] : !right ? NULL : right[r];
            uint32_t bytes;
            if (!row || shuffle_row_null(config->layout[side], row, column)) {
                text_add(&encoding, "\0", 1);
                continue;
            }
            const uint8_t *value = shuffle_row_value(config->layout[side], row, column, &bytes);
            text_add(&encoding, "\1", 1);
            text_add(&encoding, &bytes, 4);
            text_add(&encoding, value, bytes);
        }
        sum += XXH3_64bits(encoding.data, encoding.bytes);
        free(encoding.data);
    }
    return sum;
}

static const char every_type[] =
    "b,i8,i16,i32,i64,u8,u16,u32,u64,f32,f64,de,da,ts,s,bi,fx\n"
    "true,-1,-2,-3,-4,1,2,3,4,0.1,-0.0,-1.50,2024-02-29,2024-02-29 01:02:03.000004,plain,\\x00ff,\\x0a0b\n"
    ",,,,,,,,,,,,,,,,\n"
    "f,1,1,1,1,1,1,1,1,NaN,-inf,0.01,+20000-01-01,1969-12-31,\"\",\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1e-30,1e300,0,0000-01-01,1969-12-31,\"a,b\",\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1,1,0,0000-01-01,1969-12-31,\"line\nbreak\",\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1,1,0,0000-01-01,1969-12-31,\"qu\"\"ote\"\"\",\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1,1,0,0000-01-01,1969-12-31,\"cr\r\",\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1,1,0,0000-01-01,1969-12-31,\xef\xbb\xbf,\\x,\\x0000\n"
    "f,1,1,1,1,1,1,1,1,1,1,0,0000-01-01,1969-12-31, blank ,\\x,\\x0000\n";
static const char every_schema[] =
    "b:bool?,i8:int8?,i16:int16?,i32:int32?,i64:int64?,u8:uint8?,u16:uint16?,u32:uint32?,"
    "u64:uint64?,f32:float32?,f64:float64?,de:decimal(10,2)?,da:date?,ts:timestamp?,"
    "s:string?,bi:binary?,fx:binary(2)?";

/* Scans the file back; its rows must have the bytes of the rows written. */
static void reads_back(struct harness *harness, const char *path, const struct rows *expected)
{
    size_t bytes;
    char *data = harness_read(path, &bytes);
    struct rows rows = rows_of(harness, data, bytes, NULL);
    assert_true(shuffle_schema_equal(&rows.schema, &expected->schema));
    assert_int_equal(rows.count, expected->count);
    for (uint32_t r = 0; r < rows.count; r++) {
        const uint64_t row_bytes = shuffle_row_bytes(&rows.layout, rows.row[r]);
        assert_int_equal(row_bytes, shuffle_row_bytes(&expected->layout, expected->row[r]));
        assert_memory_equal(rows.row[r], expected->row[r], row_bytes);
    }
    rows_free(&rows);
    free(data);
}

static void all_items(struct shuffle_output_item *item, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        item[i] = (struct shuffle_output_item){0, i};
}

/* These items of rows of one layout, on the harness's engine. */
static struct shuffle_output_config config_of(struct harness *harness, enum shuffle_output_kind kind,
                                              const struct shuffle_layout *layout,
                                              const struct shuffle_output_item *item, uint32_t item_count)
{
    return (struct shuffle_output_config){.kind = kind,
                                          .engine = harness->engine,
                                          .governor = harness->governor,
                                          .layout = {layout},
                                          .item = item,
                                          .item_count = item_count};
}

static void test_csv_reads_back(void **state)
{
    struct harness *harness = *state;
    static const uint32_t buffers[] = {1, 2, 7, 100, 700, 4096, 0};
    struct rows rows = rows_of(harness, every_type, sizeof every_type - 1, every_schema);
    struct shuffle_output_item item[17];
    all_items(item, 17);
    char path[128];
    snprintf(path, sizeof path, "%s/.attempt", harness->directory);
    for (size_t b = 0; b < sizeof buffers / sizeof *buffers; b++) {
        for (uint32_t writes = 1; writes < 4; writes += 2) {
            struct base_error error = {0};
            uint64_t checksum = 0;
            struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &rows.layout, item, 17);
            config.schema = &rows.schema;
            config.path = path;
            config.csv_header = true;
            config.buffer_bytes = buffers[b];
            config.writes_in_flight = writes;
            assert_ok(write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error));
            assert_int_equal(checksum, checksum_of(&config, rows.row, NULL, rows.count));
            reads_back(harness, path, &rows);
            unlink(path);
        }
    }
    rows_free(&rows);
}

static void test_csv_text(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct rows rows = rows_of(harness, every_type, sizeof every_type - 1, every_schema);
    struct shuffle_schema result = {0};
    assert_ok(shuffle_schema_parse("\"s,\"\"1\":string?,de:decimal(10,2)?,right:string?", &result, &error));
    static const struct shuffle_output_item item[] = {{0, 14}, {0, 11}, {1, 14}};
    char path[128];
    snprintf(path, sizeof path, "%s/.attempt", harness->directory);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &rows.layout, item, 3);
    config.layout[1] = &rows.layout;
    config.schema = &result;
    config.path = path;
    config.csv_header = true;
    const uint8_t *left[] = {rows.row[0], NULL, rows.row[2], rows.row[3], rows.row[1]};
    const uint8_t *right[] = {NULL, rows.row[0], rows.row[4], rows.row[5], NULL};
    uint64_t checksum = 0;
    assert_ok(write_all(harness, &config, left, right, 5, &checksum, &error));
    assert_int_equal(checksum, checksum_of(&config, left, right, 5));
    size_t bytes;
    char *text = harness_read(path, &bytes);
    assert_string_equal(text, "\"\"\"s,\"\"\"\"1\"\":string?\",\"de:decimal(10,2)?\",right:string?\n"
                              "plain,-1.50,\n"
                              ",,plain\n"
                              "\"\",0.01,\"line\nbreak\"\n"
                              "\"a,b\",0.00,\"qu\"\"ote\"\"\"\n"
                              ",,\n");
    free(text);
    shuffle_schema_free(&result);
    rows_free(&rows);
}

static void test_fixed_reads_back(void **state)
{
    struct harness *harness = *state;
    static const char csv[] = "a,b,c,d\n1,2,\\x0102,0.5\n,3,,\n-5,4,\\xffff,-0.0\n";
    struct rows rows = rows_of(harness, csv, sizeof csv - 1, "a:int64?,b:int16,c:binary(2)?,d:float64?");
    struct shuffle_output_item item[4];
    all_items(item, 4);
    char path[128];
    snprintf(path, sizeof path, "%s/out.bin", harness->directory);
    for (uint32_t buffer = 1; buffer < 70; buffer += 17) {
        struct base_error error = {0};
        uint64_t checksum = 0;
        struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_FIXED, &rows.layout, item, 4);
        config.schema = &rows.schema;
        config.path = path;
        config.buffer_bytes = buffer;
        assert_ok(write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error));
        assert_int_equal(checksum, checksum_of(&config, rows.row, NULL, rows.count));
        size_t bytes;
        char *data = harness_read(path, &bytes);
        assert_int_equal(bytes, 3 * rows.layout.row_bytes);
        for (uint32_t r = 0; r < 3; r++)
            assert_memory_equal(data + (size_t)r * rows.layout.row_bytes, rows.row[r], rows.layout.row_bytes);
        free(data);
        unlink(path);
    }
    rows_free(&rows);
}

static void test_many_rows_and_large_ones(void **state)
{
    struct harness *harness = *state;
    struct text csv = {0};
    text_printf(&csv, "n:int64,s:string\n");
    for (int i = 0; i < 1500; i++) {
        text_printf(&csv, "%d,\"", i);
        for (int k = i % 97 == 0 ? 3000 : i % 13; k > 0; k--)
            text_printf(&csv, "%s", k % 7 == 0 ? "\"\"" : "x,");
        text_printf(&csv, "\"\n");
    }
    struct rows rows = rows_of(harness, csv.data, csv.bytes, NULL);
    assert_int_equal(rows.count, 1500);
    struct shuffle_output_item item[2];
    all_items(item, 2);
    char path[128];
    snprintf(path, sizeof path, "%s/.attempt", harness->directory);
    for (uint32_t buffer = 64; buffer < 20000; buffer *= 4) {
        struct base_error error = {0};
        uint64_t checksum = 0;
        struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &rows.layout, item, 2);
        config.schema = &rows.schema;
        config.path = path;
        config.csv_header = true;
        config.buffer_bytes = buffer;
        assert_ok(write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error));
        reads_back(harness, path, &rows);
        unlink(path);
    }
    rows_free(&rows);
    free(csv.data);
}

/* A row of one variable-length column `type` whose value has `bytes` bytes, selected `times` times. */
static enum base_status write_wide(struct harness *harness, const char *type, uint32_t bytes, uint32_t times,
                                   struct base_error *why)
{
    struct base_error error = {0};
    char declared[64], path[128];
    struct shuffle_schema source = {0}, schema = {0};
    struct shuffle_layout layout;
    struct shuffle_output_item item[SHUFFLE_COLUMNS_MAX];
    snprintf(declared, sizeof declared, "c:%s", type);
    assert_ok(shuffle_schema_parse(declared, &source, &error));
    assert_ok(shuffle_layout_prepare(&source, &layout, &error));
    for (uint32_t i = 0; i < times; i++) {
        struct shuffle_field field = source.field[0];
        snprintf(field.name, sizeof field.name, "c%u", i);
        assert_ok(shuffle_schema_append(&schema, &field, &error));
        item[i] = (struct shuffle_output_item){0, 0};
    }
    const bool variable = layout.last_variable >= 0;
    uint8_t *row = calloc(1, (size_t)bytes + 4);
    memset(row, 'x', (size_t)bytes + 4);
    if (variable)
        base_store_u32(row, bytes);
    snprintf(path, sizeof path, "%s/.attempt", harness->directory);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &layout, item, times);
    config.schema = &schema;
    config.path = path;
    const uint8_t *const rows[1] = {row};
    uint64_t checksum;
    const enum base_status status = write_all(harness, &config, rows, NULL, 1, &checksum, why);
    unlink(path);
    free(row);
    shuffle_layout_free(&layout);
    shuffle_schema_free(&source);
    shuffle_schema_free(&schema);
    return status;
}

/* Rows at the limit are written, rows above it are an error that names it: they could not be read back. */
static void test_rows_above_the_limit(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    const uint32_t most = SHUFFLE_ROW_BYTES_MAX;
    assert_ok(write_wide(harness, "string", most - 4, 1, &error));
    assert_int_equal(write_wide(harness, "string", most - 3, 1, &error), BASE_TOO_LARGE);
    assert_text("a result row of 16777217 bytes is larger than the 16777216 bytes");
    assert_text(harness->directory);
    assert_int_equal(write_wide(harness, "string", most / 2, 2, &error), BASE_TOO_LARGE);
    assert_int_equal(write_wide(harness, "string", most - 4, 512, &error), BASE_TOO_LARGE);
    assert_ok(write_wide(harness, "binary", most / 2 - 4, 1, &error));
    assert_int_equal(write_wide(harness, "binary", most / 2, 1, &error), BASE_TOO_LARGE);
    assert_text("the text of a result row has 16777219 bytes, more than the 16777216 bytes");
    /* Whose bound, summed in 32 bits, would be small. */
    assert_int_equal(write_wide(harness, "binary(16777180)", 16777180, 128, &error), BASE_TOO_LARGE);
    assert_text("larger than the 16777216 bytes");
}

static void test_count(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct rows rows = rows_of(harness, every_type, sizeof every_type - 1, every_schema);
    static const struct shuffle_output_item item[] = {{0, 4}, {1, 14}, {0, 4}, {1, 0}};
    const uint8_t *right[ROWS_MAX];
    for (uint32_t i = 0; i < rows.count; i++)
        right[i] = i % 2 == 0 ? rows.row[rows.count - 1 - i] : NULL;
    uint64_t checksum = 0, other = 0;
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_COUNT, &rows.layout, item, 4);
    config.layout[1] = &rows.layout;
    assert_ok(write_all(harness, &config, rows.row, right, rows.count, &checksum, &error));
    assert_int_equal(checksum, checksum_of(&config, rows.row, right, rows.count));
    assert_ok(write_all(harness, &config, rows.row, NULL, rows.count, &other, &error));
    assert_int_equal(other, checksum_of(&config, rows.row, NULL, rows.count));
    assert_int_not_equal(other, checksum);
    assert_ok(write_all(harness, &config, rows.row, NULL, 0, &other, &error));
    assert_int_equal(other, 0);
    config.item_count = 0; /* count(*) */
    assert_ok(write_all(harness, &config, rows.row, NULL, 3, &other, &error));
    assert_int_equal(other, 3 * XXH3_64bits("", 0));
    rows_free(&rows);
}

/* Rows of fixed width without NULLs are summed a group at a time: the sum is the same for any count, and with rows
 * between them that have a side alone. */
static void test_count_of_plain_rows(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text csv = {0};
    text_add(&csv, "a,b,c\n", 6);
    for (uint32_t i = 0; i < 200; i++)
        text_printf(&csv, "%u,%u,\\x%06x\n", i * 7, i % 9, i);
    struct rows rows = rows_of(harness, (const char *)csv.data, csv.bytes, "a:int64,b:int32,c:binary(3)");
    static const struct shuffle_output_item item[] = {{1, 2}, {0, 0}, {1, 1}, {0, 0}};
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_COUNT, &rows.layout, item, 4);
    config.layout[1] = &rows.layout;
    static const uint32_t counts[] = {1, 63, 64, 65, 128, 200};
    const uint8_t *right[ROWS_MAX];
    for (uint32_t i = 0; i < rows.count; i++)
        right[i] = rows.row[rows.count - 1 - i];
    uint64_t checksum = 0;
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_ok(write_all(harness, &config, rows.row, right, counts[i], &checksum, &error));
        assert_int_equal(checksum, checksum_of(&config, rows.row, right, counts[i]));
    }
    const uint8_t *left[ROWS_MAX];
    memcpy(left, rows.row, rows.count * sizeof *left);
    left[0] = right[64] = right[150] = left[151] = right[199] = NULL;
    for (uint32_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        assert_ok(write_all(harness, &config, left, right, counts[i], &checksum, &error));
        assert_int_equal(checksum, checksum_of(&config, left, right, counts[i]));
    }
    free(csv.data);
    rows_free(&rows);
}

/* A checksum written down: it must not change from one version to the next. Row (1, NULL, "ab"). */
static void test_checksum_is_fixed(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    static const char csv[] = "a,b,c\n1,,ab\n";
    struct rows rows = rows_of(harness, csv, sizeof csv - 1, "a:int64,b:int64?,c:string");
    struct shuffle_output_item item[3];
    all_items(item, 3);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_COUNT, &rows.layout, item, 3);
    uint64_t checksum = 0;
    assert_ok(write_all(harness, &config, rows.row, NULL, 1, &checksum, &error));
    assert_int_equal(checksum, XXH3_64bits("\1\10\0\0\0\1\0\0\0\0\0\0\0\0\1\2\0\0\0ab", 21));
    assert_int_equal(checksum, UINT64_C(0x5a7cc19ffb9a1b30));
    rows_free(&rows);
}

/* tests/cluster/checksum.py, which the manual shows, finds the same sum in what was written. */
static void test_checksum_script(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    if (system("/usr/bin/python3 -c 'import xxhash' 2>/dev/null") != 0)
        skip(); /* Debian: python3-xxhash */
    struct text csv = {0};
    for (const char *line = every_type, *end; *line != '\0'; line = end) {
        end = strchr(line, '\n') + 1;
        if (strstr(line, "+20000") != NULL && strstr(line, "+20000") < end)
            continue; /* a year Python has not */
        text_add(&csv, line, (size_t)(end - line));
        for (char *year; (year = strstr(csv.data, "0000-01-01")) != NULL;)
            year[3] = '1';
    }
    struct rows rows = rows_of(harness, csv.data, csv.bytes, every_schema);
    assert_int_equal(rows.count, 8);
    struct shuffle_output_item item[17];
    all_items(item, 17);
    char path[128], command[512], found[64] = "", expected[64];
    snprintf(path, sizeof path, "%s/out.csv", harness->directory);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &rows.layout, item, 17);
    config.schema = &rows.schema;
    config.path = path;
    config.csv_header = true;
    uint64_t checksum = 0;
    assert_ok(write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error));
    snprintf(command, sizeof command, "/usr/bin/python3 %s %s", CHECKSUM_SCRIPT, path);
    FILE *script = popen(command, "r");
    assert_non_null(script);
    assert_non_null(fgets(found, sizeof found, script));
    assert_int_equal(pclose(script), 0);
    snprintf(expected, sizeof expected, "8 %016" PRIx64 "\n", checksum);
    assert_string_equal(found, expected);
    free(csv.data);
    rows_free(&rows);
}

/* Buffers that the engine had no room for while it was busy with others' operations are written once it has. */
static void test_engine_busy_with_others(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct rows rows = rows_of(harness, every_type, sizeof every_type - 1, every_schema);
    struct shuffle_output_item item[17];
    all_items(item, 17);
    char path[128];
    snprintf(path, sizeof path, "%s/out.csv", harness->directory);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_CSV, &rows.layout, item, 17);
    config.schema = &rows.schema;
    config.path = path;
    config.buffer_bytes = 64;
    struct shuffle_output *output;
    assert_ok(shuffle_output_open(&config, &output, &error));
    uint8_t byte[16];
    struct net_file_op other[16];
    uint32_t others = 0;
    do {
        other[others] = (struct net_file_op){
            .kind = NET_FILE_READ, .fd = open(path, O_RDONLY | O_CLOEXEC), .buffer = &byte[others], .bytes = 1};
    } while (net_file_submit(harness->engine, &other[others]) == BASE_OK && ++others < 16);
    assert_true(others > 0 && others < 16);
    uint32_t taken = 0;
    assert_int_equal(shuffle_output_stalls(output), 0);
    assert_int_equal(shuffle_output_write(output, rows.row, NULL, rows.count, &taken, &error), BASE_BUSY);
    assert_int_equal(shuffle_output_stalls(output), 1);
    assert_true(shuffle_output_idle(output));
    for (uint32_t done = 0; done < others;) {
        struct net_event event[16];
        const uint32_t count = net_engine_poll(harness->engine, event, 16, 0);
        assert_true(count > 0 || net_sim_advance(harness->world, UINT64_MAX));
        done += count;
    }
    for (uint32_t i = 0; i <= others; i++)
        close(other[i].fd);
    enum base_status status;
    while ((status = shuffle_output_write(output, rows.row, NULL, rows.count, &taken, &error)) == BASE_BUSY) {
        assert_false(shuffle_output_idle(output)); /* else nothing would ever come */
        harness_turn(harness);
    }
    assert_ok(status);
    while ((status = shuffle_output_finish(output, &error)) == BASE_BUSY)
        harness_turn(harness);
    assert_ok(status);
    shuffle_output_close(output);
    rows_free(&rows);
}

static void test_errors(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    uint64_t checksum = 0;
    struct rows rows = rows_of(harness, every_type, sizeof every_type - 1, every_schema);
    struct shuffle_output_item item[17];
    all_items(item, 17);
    char path[128];
    snprintf(path, sizeof path, "%s/.attempt", harness->directory);
    struct shuffle_output_config config = config_of(harness, SHUFFLE_OUTPUT_FIXED, &rows.layout, item, 17);
    config.schema = &rows.schema;
    config.path = path;
    config.csv_header = true;
    assert_int_equal(write_all(harness, &config, rows.row, NULL, 1, &checksum, &error), BASE_TYPE);
    assert_text("column \"s\" is of variable length");
    assert_int_equal(access(path, F_OK), -1);
    config.kind = SHUFFLE_OUTPUT_CSV;
    config.path = harness_write(harness, "there", "x", 1);
    assert_int_equal(write_all(harness, &config, rows.row, NULL, 1, &checksum, &error), BASE_EXISTS);
    assert_text("/there");
    config.path = path;
    config.buffer_bytes = 16;
    for (uint32_t n = 1; n < 40; n += 6) { /* the disk is full at the n-th write */
        harness_fail_after(harness, n);
        config.engine = harness->engine;
        const enum base_status status = write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error);
        assert_int_equal(status, BASE_NO_SPACE);
        assert_text(path);
        assert_text("make room, or choose another directory");
        unlink(path);
    }
    config.buffer_bytes = 1 << 16; /* one write, then the sync fails */
    harness_fail_after(harness, 2);
    config.engine = harness->engine;
    assert_int_equal(write_all(harness, &config, rows.row, NULL, rows.count, &checksum, &error), BASE_IO);
    assert_text(path);
    rows_free(&rows);
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_csv_reads_back),          WITH_ENGINE(test_csv_text),
        WITH_ENGINE(test_fixed_reads_back),        WITH_ENGINE(test_many_rows_and_large_ones),
        WITH_ENGINE(test_rows_above_the_limit),    WITH_ENGINE(test_count),
        WITH_ENGINE(test_count_of_plain_rows),     WITH_ENGINE(test_checksum_is_fixed),
        WITH_ENGINE(test_checksum_script),         WITH_ENGINE(test_errors),
        WITH_ENGINE(test_engine_busy_with_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
