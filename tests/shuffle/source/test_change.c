/* Files that change between the plan and the last byte of a scan. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/shuffle/scan_harness.h"

/* Sets the file's time to that of before, plus so many nanoseconds: not every kernel's clock tells two writes apart. */
static void set_time(const struct harness *harness, const char *name, const struct shuffle_file *before, long plus)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", harness->directory, name);
    const struct timespec at = {before->modified_ns / 1000000000, (long)(before->modified_ns % 1000000000) + plus};
    const struct timespec times[2] = {at, at};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static struct shuffle_relation relation_of(struct harness *harness, const char *data, size_t bytes)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    const char *path = harness_write(harness, "t.csv", data, bytes);
    assert_ok(harness_relation(path, "a:string,b:string", &relation, &error));
    return relation;
}

/* Reads the morsel's first batch, lets somebody change the file, and reads on. */
static enum base_status scan_changed(struct harness *harness, const struct shuffle_relation *relation, bool survey,
                                     void (*change)(struct harness *harness, const struct shuffle_file *file),
                                     struct base_error *error)
{
    const uint32_t project[2] = {0, 1};
    const struct shuffle_scan_config config = {.engine = harness->engine,
                                               .governor = harness->governor,
                                               .relation = relation,
                                               .project = project,
                                               .project_count = survey ? 0 : 2,
                                               .block_bytes = 64,
                                               .reads_in_flight = 1};
    const struct shuffle_morsel morsel = {.end = relation->file[0].bytes, .line = 1};
    struct shuffle_scan *scan;
    enum base_status status = (survey ? shuffle_scan_open_survey : shuffle_scan_open)(&config, &scan, error);
    if (status != BASE_OK)
        return status;
    status = shuffle_scan_begin(scan, &morsel, error);
    for (bool changed = false; status == BASE_OK || status == BASE_BUSY;) {
        const struct shuffle_batch *batch;
        status = shuffle_scan_next(scan, &batch, error);
        if (status == BASE_BUSY)
            harness_turn(harness);
        else if (status == BASE_OK && !changed && change)
            change(harness, &relation->file[0]);
        changed |= status == BASE_OK;
        if (survey && !changed && shuffle_scan_input_bytes(scan) > 0 && change) {
            change(harness, &relation->file[0]);
            changed = true;
        }
    }
    while (!shuffle_scan_idle(scan))
        harness_turn(harness);
    shuffle_scan_close(scan);
    return status;
}

static void rewrite(struct harness *harness, const struct shuffle_file *file)
{
    struct text text = {0};
    for (int i = 0; i < 100; i++)
        text_printf(&text, i == 0 ? "a,b\n" : "%03d,new\n", i);
    assert_int_equal(text.bytes, file->bytes);
    harness_write(harness, "t.csv", text.data, text.bytes);
    set_time(harness, "t.csv", file, 1);
    free(text.data);
}

static void lengthen(struct harness *harness, const struct shuffle_file *file)
{
    char path[256];
    snprintf(path, sizeof path, "%s/t.csv", harness->directory);
    FILE *appended = fopen(path, "ab");
    assert_non_null(appended);
    assert_int_equal(fputs("900,new\n", appended) >= 0, 1);
    assert_int_equal(fclose(appended), 0);
    set_time(harness, "t.csv", file, 0); /* as rsync -t and cp -p do */
}

/* Another file of the same size and time takes its place before it is opened. */
static void replace(struct harness *harness, const struct shuffle_file *file)
{
    char from[256], to[256];
    harness_write(harness, "new", "x", 1);
    snprintf(from, sizeof from, "%s/new", harness->directory);
    snprintf(to, sizeof to, "%s/t.csv", harness->directory);
    assert_int_equal(truncate(from, (off_t)file->bytes), 0);
    set_time(harness, "new", file, 0);
    assert_int_equal(rename(from, to), 0);
}

/* What was read before the file's end is not taken for good until the file was looked at once more. */
static void changes_while_it_is_read(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct text text = {0};
    for (int i = 0; i < 100; i++)
        text_printf(&text, i == 0 ? "a,b\n" : "%03d,old\n", i);
    void (*const changes[])(struct harness *, const struct shuffle_file *) = {rewrite, lengthen};
    for (size_t i = 0; i < 4; i++) {
        struct shuffle_relation relation = relation_of(harness, text.data, text.bytes);
        assert_int_equal(scan_changed(harness, &relation, i % 2 == 1, NULL, &error), BASE_END);
        assert_int_equal(scan_changed(harness, &relation, i % 2 == 1, changes[i / 2], &error), BASE_IO);
        assert_text("t.csv changed while the job ran");
        shuffle_relation_free(&relation);
    }
    struct shuffle_relation relation = relation_of(harness, text.data, text.bytes);
    replace(harness, &relation.file[0]);
    assert_int_equal(scan_changed(harness, &relation, false, NULL, &error), BASE_IO);
    assert_text("another file has taken its place");
    assert_int_equal(shuffle_relation_resolve_schema(&relation, NULL, &error), BASE_IO);
    assert_text("t.csv changed while the job ran");
    shuffle_relation_free(&relation);
    free(text.data);
}

/* A pipe where a file, its schema or the plan's file should be: nobody waits for its writer. */
static void pipes_in_the_place_of_files(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation = relation_of(harness, "a,b\n1,2\n", 8);
    struct text rows = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/t.csv.schema", harness->directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(shuffle_relation_resolve_schema(&relation, NULL, &error), BASE_INVALID);
    assert_text("t.csv.schema is a pipe");
    snprintf(path, sizeof path, "%s/t.csv", harness->directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    const struct harness_scan how = {.morsel_bytes = 100};
    assert_int_equal(harness_scan(harness, &relation, &how, &rows, &error), BASE_INVALID);
    assert_text("t.csv is a pipe");
    shuffle_relation_free(&relation);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(changes_while_it_is_read, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(pipes_in_the_place_of_files, harness_setup, harness_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
