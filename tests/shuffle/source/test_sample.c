/* Types from the first rows: the first type whose values are written as the very texts of the sample, else string. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shuffle/source/sample.h"

static const struct shuffle_csv_options csv = {.delimiter = ',', .quote = '"', .empty_is_null = true};

/* The type of the one column of files with these records; final: they are all of the file. */
static struct shuffle_field type_of(const char *const *file, uint32_t count, bool final)
{
    struct shuffle_sample *sample;
    struct shuffle_field field = {.name = "c"};
    struct base_error error;
    assert_int_equal(shuffle_sample_open(1, &sample, &error), BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = strlen(file[i]);
        uint8_t *data = calloc(1, bytes + 64); /* splitting reads a little beyond */
        assert_non_null(data);
        memcpy(data, file[i], bytes);
        shuffle_sample_file(sample, &csv, data, bytes, final);
        free(data);
    }
    shuffle_sample_type(sample, 0, &field);
    shuffle_sample_close(sample);
    assert_string_equal(field.name, "c");
    assert_true(field.inferred && field.nullable);
    return field;
}

static void expect(const char *records, enum shuffle_type type)
{
    const struct shuffle_field field = type_of(&records, 1, true);
    if (field.type != type)
        fail_msg("\"%s\" is of type %d, not %d", records, field.type, type);
}

static void test_texts_that_a_type_writes_the_same_are_of_it(void **state)
{
    (void)state;
    expect("true\nfalse\n", SHUFFLE_BOOL);
    expect("1\n-20\n", SHUFFLE_INT64);
    expect("1.5\n2\n", SHUFFLE_FLOAT64);
    expect("2024-01-31\n1999-12-01\n", SHUFFLE_DATE);
    expect("ham\n1\n", SHUFFLE_STRING);
}

static void test_texts_that_would_change_stay_strings(void **state)
{
    (void)state;
    expect("007\n1\n", SHUFFLE_STRING);
    expect("+1\n", SHUFFLE_STRING);
    expect("99999999999999999999\n", SHUFFLE_STRING);
    expect("2024-02-30\n", SHUFFLE_STRING);
    expect(" 1\n", SHUFFLE_STRING);
}

static void test_empty_fields_say_nothing(void **state)
{
    (void)state;
    const char *some = "1\n\n\n2\n";
    expect(some, SHUFFLE_INT64);
    const char *none = "\"\"\n";
    expect(none, SHUFFLE_STRING);
}

static void test_every_file_has_a_say(void **state)
{
    (void)state;
    const char *const files[] = {"1\n2\n", "3\nfour\n"};
    assert_int_equal(type_of(files, 2, true).type, SHUFFLE_STRING);
    assert_int_equal(type_of(files, 1, true).type, SHUFFLE_INT64);
}

static void test_a_record_cut_by_the_end_of_the_sample_is_not_looked_at(void **state)
{
    (void)state;
    const char *records = "1\n2\n3x"; /* "3x" may go on */
    assert_int_equal(type_of(&records, 1, false).type, SHUFFLE_INT64);
    assert_int_equal(type_of(&records, 1, true).type, SHUFFLE_STRING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_that_a_type_writes_the_same_are_of_it),
        cmocka_unit_test(test_texts_that_would_change_stay_strings),
        cmocka_unit_test(test_empty_fields_say_nothing),
        cmocka_unit_test(test_every_file_has_a_say),
        cmocka_unit_test(test_a_record_cut_by_the_end_of_the_sample_is_not_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
