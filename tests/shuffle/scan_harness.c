#include "tests/shuffle/scan_harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shuffle/output/output.h"
#include "shuffle/rows/value.h"

static void open_world(struct harness *harness, uint32_t file_error_after)
{
    struct base_error error = {0};
    const struct net_sim_config world = {.seed = 7,
                                         .delay_max_ns = 1000,
                                         .socket_buffer_bytes = 4096,
                                         .short_percent = 20,
                                         .file_error_after = file_error_after};
    const struct net_engine_config engine = {.sockets_max = 2,
                                             .file_ops_max = 8,
                                             .recv_chunk_bytes = 4096,
                                             .recv_chunk_count = 2,
                                             .governor = harness->governor};
    assert_ok(net_sim_world_open(&world, &harness->world, &error));
    assert_ok(net_sim_engine_open(harness->world, &engine, &harness->engine, &error));
    assert_ok(net_engine_enable(harness->engine, &error));
}

static void close_world(struct harness *harness)
{
    net_engine_close(harness->engine);
    net_sim_world_close(harness->world);
}

int harness_setup(void **state)
{
    struct base_error error = {0};
    struct harness *harness = calloc(1, sizeof *harness);
    const char *temporary = getenv("TMPDIR");
    snprintf(harness->directory, sizeof harness->directory, "%s/millrace-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(harness->directory))
        return -1;
    assert_ok(base_governor_open(0, &harness->governor, &error));
    open_world(harness, 0);
    *state = harness;
    return 0;
}

void harness_fail_after(struct harness *harness, uint32_t n)
{
    close_world(harness);
    open_world(harness, n);
}

static void remove_tree(const char *path)
{
    DIR *listing = opendir(path);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        char inside[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (unlink(inside) != 0)
            remove_tree(inside);
    }
    if (listing)
        closedir(listing);
    rmdir(path);
}

int harness_teardown(void **state)
{
    struct harness *harness = *state;
    close_world(harness);
    const uint64_t left = base_governor_used_bytes(harness->governor);
    base_governor_close(harness->governor);
    remove_tree(harness->directory);
    free(harness);
    assert_int_equal(left, 0);
    return 0;
}

const char *harness_write(const struct harness *harness, const char *name, const void *data, size_t bytes)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", harness->directory, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return path;
}

char *harness_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    struct text text = {0};
    char piece[4096];
    for (size_t got; (got = fread(piece, 1, sizeof piece, file)) > 0;)
        text_add(&text, piece, got);
    fclose(file);
    text_add(&text, "", 1);
    *bytes = text.bytes - 1;
    return text.data;
}

void harness_turn(struct harness *harness)
{
    struct net_event event[8];
    const uint32_t count = net_engine_poll(harness->engine, event, 8, 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(event[i].kind, NET_EVENT_FILE);
        if (event[i].file->tag == SHUFFLE_FILE_TAG_SCAN)
            shuffle_scan_event(event[i].context, &event[i]);
        else
            shuffle_output_event(event[i].context, &event[i]);
    }
    if (count == 0)
        assert_true(net_sim_advance(harness->world, UINT64_MAX));
}

void text_add(struct text *text, const void *data, size_t bytes)
{
    if (text->bytes + bytes + 1 > text->capacity) {
        text->capacity = (text->bytes + bytes + 1) * 2;
        text->data = realloc(text->data, text->capacity);
        assert_non_null(text->data);
    }
    memcpy(text->data + text->bytes, data, bytes);
    text->bytes += bytes;
    text->data[text->bytes] = '\0';
}

void text_printf(struct text *text, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it misses the va_start above */
    const int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    assert_true(bytes >= 0 && (size_t)bytes < sizeof line);
    text_add(text, line, (size_t)bytes);
}

void harness_row_text(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row,
                      struct text *text)
{
    for (uint32_t c = 0; c < layout->count; c++) {
        const struct shuffle_column *column = &batch->column[c];
        const struct shuffle_slot *slot = &layout->slot[c];
        if (column->null && column->null[row]) {
            text_add(text, "-", 1);
            continue;
        }
        const bool variable = shuffle_type_variable(slot->type);
        const uint8_t *data = variable ? column->slice[row].data : column->data + (size_t)row * column->stride;
        const uint32_t bytes = variable ? column->slice[row].bytes : slot->width;
        uint8_t *value = malloc(shuffle_value_text_bound(slot->type, bytes) + 1);
        assert_non_null(value);
        text_add(text, "[", 1);
        text_add(text, value, shuffle_value_format(slot, data, bytes, value));
        text_add(text, "]", 1);
        free(value);
    }
    text_add(text, "\n", 1);
}

static enum base_status run_morsel(struct harness *harness, struct shuffle_scan *scan,
                                   const struct shuffle_morsel *morsel, struct text *rows, struct base_error *error)
{
    enum base_status status = shuffle_scan_begin(scan, morsel, error);
    while (status == BASE_OK || status == BASE_BUSY) {
        const struct shuffle_batch *batch;
        status = shuffle_scan_next(scan, &batch, error);
        for (uint32_t r = 0; status == BASE_OK && r < batch->rows; r++)
            harness_row_text(shuffle_scan_layout(scan), batch, r, rows);
        if (status == BASE_BUSY)
            harness_turn(harness);
    }
    return status == BASE_END ? BASE_OK : status;
}

static void close_scan(struct harness *harness, struct shuffle_scan *scan)
{
    while (!shuffle_scan_idle(scan))
        harness_turn(harness);
    shuffle_scan_close(scan);
}

static void survey(struct harness *harness, const struct shuffle_relation *relation, const struct harness_scan *how,
                   struct shuffle_morsel *morsels, uint64_t count)
{
    struct base_error error = {0};
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = relation,
                                               .block_bytes = how->block_bytes};
    struct shuffle_scan *scan;
    struct text none = {0};
    struct shuffle_survey *surveys = calloc(count, sizeof *surveys);
    assert_ok(shuffle_scan_open_survey(&config, &scan, &error));
    for (uint64_t i = 0; i < count; i++) {
        assert_ok(run_morsel(harness, scan, &morsels[i], &none, &error));
        shuffle_scan_survey(scan, &surveys[count - 1 - i]); /* any order will do */
    }
    assert_int_equal(shuffle_scan_rows(scan), 0);
    close_scan(harness, scan);
    assert_ok(shuffle_survey_apply(surveys, morsels, count, &error));
    free(surveys);
}

enum base_status harness_scan(struct harness *harness, const struct shuffle_relation *relation,
                              const struct harness_scan *how, struct text *rows, struct base_error *error)
{
    uint32_t all[SHUFFLE_COLUMNS_MAX];
    for (uint32_t i = 0; i < relation->schema.count; i++)
        all[i] = i;
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = relation,
                                               .project = how->project ? how->project : all,
                                               .project_count =
                                                   how->project ? how->project_count : relation->schema.count,
                                               .block_bytes = how->block_bytes,
                                               .rejects = how->rejects};
    struct shuffle_morsel *morsels;
    uint64_t count;
    enum base_status status = shuffle_relation_divide(relation, how->morsel_bytes, &morsels, &count, error);
    if (status != BASE_OK)
        return status;
    if (shuffle_relation_needs_survey(relation, how->morsel_bytes))
        survey(harness, relation, how, morsels, count);
    struct shuffle_scan *scan;
    status = shuffle_scan_open(&config, &scan, error);
    if (status == BASE_OK) {
        for (uint64_t i = 0; i < count && status == BASE_OK; i++)
            status = run_morsel(harness, scan, &morsels[i], rows, error);
        close_scan(harness, scan);
    }
    free(morsels);
    return status;
}

enum base_status harness_relation(const char *source, const char *declared, struct shuffle_relation *relation,
                                  struct base_error *error)
{
    char *path;
    enum base_status status = shuffle_relation_parse(source, relation, &path, error);
    if (status != BASE_OK)
        return status;
    if (path)
        status = shuffle_relation_list(relation, path, error);
    if (status == BASE_OK)
        status = shuffle_relation_resolve_schema(relation, declared, error);
    if (status != BASE_OK)
        shuffle_relation_free(relation);
    free(path);
    return status;
}
