/* Sources at their edges: what is listed, how much may be generated, and which types are found where the options of a
 * CSV file, its quotes or its numbers are unusual. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/shuffle/scan_harness.h"

/* The schema found for the data without any declaration, under these options. */
static void expect_found(const struct harness *harness, const char *data, const struct shuffle_csv_options *csv,
                         const char *schema)
{
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path;
    assert_ok(shuffle_relation_parse(harness_write(harness, "t.csv", data, strlen(data)), &relation, &path, &error));
    relation.csv = *csv;
    assert_ok(shuffle_relation_list(&relation, path, &error));
    assert_ok(shuffle_relation_resolve_schema(&relation, NULL, &error));
    char *text = shuffle_schema_format(&relation.schema);
    assert_non_null(text);
    assert_string_equal(text, schema);
    free(text);
    free(path);
    shuffle_relation_free(&relation);
}

static void test_doubled_quotes_without_header(void **state)
{
    const struct shuffle_csv_options csv = {.delimiter = ',', .quote = '"', .empty_is_null = true};
    expect_found(*state, "\"a \"\"b\"\" c\",1,1.5\n\"d\",2,2.5\n", &csv, "c1:string?,c2:int64?,c3:float64?");
}

/* What is NULL is no value, and what is not is one: as the scan will see it. */
static void test_nulls_of_the_sample(void **state)
{
    struct shuffle_csv_options csv = {.delimiter = ',', .quote = '"', .header = true};
    expect_found(*state, "a,b\n1,1\n,2\n", &csv, "a:string?,b:int64?");
    csv.empty_is_null = csv.quoted_empty_is_null = true;
    expect_found(*state, "a,b\n1,1\n\"\",2\n", &csv, "a:int64?,b:int64?");
    csv.quoted_empty_is_null = false;
    expect_found(*state, "a,b\n1,1\n\"\",2\n", &csv, "a:string?,b:int64?");
}

/* 0.100000000000000001 and 0.100000000000000002 would be one float64; 1.5e300 would be written as 1.5e+300. */
static void test_numbers_finer_than_floats(void **state)
{
    const struct shuffle_csv_options csv = {.delimiter = ',', .quote = '"', .header = true, .empty_is_null = true};
    expect_found(*state, "a,b,c,d\n0.100000000000000001,0.10000000000000001,1e-20,1.5e300\n", &csv,
                 "a:string?,b:string?,c:float64?,d:string?");
}

/* Every column of one row stays text: its value would be written otherwise, or equal another one's. */
static void test_texts_that_no_number_keeps(void **state)
{
    const struct shuffle_csv_options csv = {.delimiter = ',', .quote = '"', .header = true, .empty_is_null = true};
    static const char *const texts[] = {
        "007",
        "+1",
        "-0",
        "00",
        "-07",
        "9223372036854775808",
        "1.10",
        "1.0",
        "1.",
        ".5",
        "00.5",
        "007.5",
        "-0.0",
        "0E1",
        "1e5",
        "1E+20",
        "0e12345678",
        "9007199254740993.0",
        "9007199254740993.1",
        "0.10000000000000001",
        "12345678901234567890",
        "0.00001",
        "inf",
        "nan",
        "True",
        "t",
        "2026-01-01 00:00",
        "2026-01-01T10:00:00",
        "+2026-01-01",
        "2026-01-01 10:00:00.50",
        "+1.5",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char data[64];
        snprintf(data, sizeof data, "a\n%s\n", texts[i]);
        expect_found(*state, data, &csv, "a:string?");
    }
    static const char *const kept[][2] = {
        {"0", "int64"},
        {"-1", "int64"},
        {"9223372036854775807", "int64"},
        {"-9223372036854775808", "int64"},
        {"1.5", "float64"},
        {"-0.0001", "float64"},
        {"0.1", "float64"},
        {"1e-05", "float64"},
        {"1e+20", "float64"},
        {"123456789.123456", "float64"},
        {"0.30000000000000004", "float64"},
        {"NaN", "float64"},
        {"-Infinity", "float64"},
        {"true", "bool"},
        {"2026-01-01", "date"},
        {"+12026-01-01", "date"},
        {"2026-01-01 10:00:00", "timestamp"},
        {"2026-01-01 10:00:00.5", "timestamp"},
    };
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        char data[64], schema[64];
        snprintf(data, sizeof data, "a\n%s\n", kept[i][0]);
        snprintf(schema, sizeof schema, "a:%s?", kept[i][1]);
        expect_found(*state, data, &csv, schema);
    }
}

/* Every file has a say, and one without rows has none. */
static void test_types_of_all_files(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    harness_write(harness, "1.csv", "a,b\n", 4);
    harness_write(harness, "2.csv", "a,b\n10001,1\n", 12);
    harness_write(harness, "3.csv", "a,b\n02134,2\n", 12);
    assert_ok(harness_relation(harness->directory, NULL, &relation, &error));
    char *text = shuffle_schema_format(&relation.schema);
    assert_string_equal(text, "a:string?,b:int64?");
    assert_true(relation.schema.field[1].inferred);
    free(text);
    shuffle_relation_free(&relation);
    assert_ok(harness_relation(harness->directory, "b:int64", &relation, &error));
    assert_false(relation.schema.field[1].inferred);
    shuffle_relation_free(&relation);
}

/* A named pipe would be waited for when it is opened. */
static void test_glob_takes_files_and_folders(void **state)
{
    struct harness *harness = *state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    char path[256];
    snprintf(path, sizeof path, "%s/pipe.bin", harness->directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    snprintf(path, sizeof path, "%s/*.bin", harness->directory);
    assert_int_equal(harness_relation(path, "a:int8", &relation, &error), BASE_INVALID);
    assert_text("pipe.bin is a pipe");
    snprintf(path, sizeof path, "%s/pipe.bin", harness->directory);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/folder.bin", harness->directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/*.bin", harness->directory);
    assert_int_equal(harness_relation(path, "a:int8", &relation, &error), BASE_NOT_FOUND);
    assert_text("no regular file matches");
    harness_write(harness, "folder.bin/file.bin", "x", 1);
    assert_ok(harness_relation(path, "a:int8", &relation, &error));
    assert_int_equal(relation.file_count, 1);
    shuffle_relation_free(&relation);
}

/* The limit is met here, with words, and not as a broken message at the nodes. */
static void test_most_generated_rows(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct shuffle_relation relation;
    char *path;
    assert_ok(shuffle_relation_parse("gen:rows=281474976710656", &relation, &path, &error));
    shuffle_relation_free(&relation);
    assert_int_equal(shuffle_relation_parse("gen:rows=281474976710657", &relation, &path, &error), BASE_INVALID);
    assert_text("at most 281474976710656");
}

#define WITH_FILES(test) cmocka_unit_test_setup_teardown(test, harness_setup, harness_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FILES(test_doubled_quotes_without_header), WITH_FILES(test_nulls_of_the_sample),
        WITH_FILES(test_texts_that_no_number_keeps),    WITH_FILES(test_types_of_all_files),
        WITH_FILES(test_numbers_finer_than_floats),     WITH_FILES(test_glob_takes_files_and_folders),
        cmocka_unit_test(test_most_generated_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
