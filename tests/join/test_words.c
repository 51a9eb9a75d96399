/* The small languages of --on and --select: names, quotes, sides, and names for columns that meet their like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "join/words.h"

static char name[SHUFFLE_NAME_BYTES_MAX + 1];
static struct base_error error;

static void reads(const char *text, const char *stop, const char *expected, const char *rest)
{
    const char *at = text;
    assert_int_equal(join_words_name(&at, stop, name, &error), BASE_OK);
    assert_string_equal(name, expected);
    assert_string_equal(at, rest);
}

static void refuses(const char *text, enum base_status status, const char *words)
{
    const char *at = text;
    assert_int_equal(join_words_name(&at, "=", name, &error), status);
    assert_non_null(strstr(error.text, words));
    assert_ptr_equal(at, text);
}

static void test_a_name_ends_at_a_comma_a_stop_or_the_end(void **state)
{
    (void)state;
    reads("id", "=", "id", "");
    reads("id=key", "=", "id", "=key");
    reads("id,key", "=", "id", ",key");
    reads("a=b,c", ",", "a=b", ",c"); /* = stops nothing there */
    reads("two words,x", "=", "two words", ",x");
}

static void test_quotes_hide_commas_and_stops(void **state)
{
    (void)state;
    reads("\"a,b=c\"=d", "=", "a,b=c", "=d");
    reads("\"say \"\"hi\"\"\"", "=", "say \"hi\"", "");
    reads("a\"b", "=", "a\"b", ""); /* within a bare name it is a letter like others */
}

static void test_what_is_no_name_is_refused(void **state)
{
    (void)state;
    refuses("\"open", BASE_INVALID, "never closed");
    refuses("", BASE_INVALID, "missing at the end");
    refuses("=b", BASE_INVALID, "missing before \"=b\"");
    refuses("\"\",x", BASE_INVALID, "missing before");
    refuses("\"a\"b", BASE_INVALID, "follows the quoted name");
    char longer[SHUFFLE_NAME_BYTES_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    refuses(longer, BASE_TOO_LARGE, "longer than");
    longer[sizeof longer - 2] = '\0';
    reads(longer, "=", longer, "");
}

static void test_a_side_is_a_word_and_a_dot(void **state)
{
    (void)state;
    const char *at = "left.id", *right = "right.left.id", *other = "leftover.id", *bare = "left";
    assert_string_equal(join_words_side(&at), "left");
    assert_string_equal(at, "id");
    assert_string_equal(join_words_side(&right), "right");
    assert_string_equal(right, "left.id");
    assert_null(join_words_side(&other));
    assert_null(join_words_side(&bare));
    assert_string_equal(bare, "left");
}

static void append(struct shuffle_schema *schema, const char *column)
{
    struct shuffle_field field = {.type = SHUFFLE_INT64, .width = 8};
    snprintf(field.name, sizeof field.name, "%s", column);
    assert_int_equal(shuffle_schema_append(schema, &field, &error), BASE_OK);
}

static void test_columns_are_listed_and_cut(void **state)
{
    (void)state;
    struct shuffle_schema schema = {0};
    append(&schema, "id");
    append(&schema, "a;b");
    append(&schema, "price");
    char text[64], little[12];
    join_words_columns(&schema, text, sizeof text);
    assert_string_equal(text, "id, \"a;b\", price");
    join_words_columns(&schema, little, sizeof little);
    assert_int_equal(strlen(little), sizeof little - 1);
    assert_string_equal(little + sizeof little - 5, " ...");
    shuffle_schema_free(&schema);
}

static void test_a_second_column_of_a_name_gets_the_next_free_one(void **state)
{
    (void)state;
    struct shuffle_schema schema = {0};
    append(&schema, "id");
    snprintf(name, sizeof name, "id");
    assert_int_equal(join_words_rename(&schema, "right", name, &error), BASE_OK);
    assert_string_equal(name, "right.id");
    append(&schema, "right.id");
    snprintf(name, sizeof name, "id");
    assert_int_equal(join_words_rename(&schema, "right", name, &error), BASE_OK);
    assert_string_equal(name, "right.id.2");
    memset(name, 'n', SHUFFLE_NAME_BYTES_MAX);
    name[SHUFFLE_NAME_BYTES_MAX] = '\0';
    assert_int_equal(join_words_rename(&schema, "right", name, &error), BASE_TOO_LARGE);
    shuffle_schema_free(&schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_name_ends_at_a_comma_a_stop_or_the_end),
        cmocka_unit_test(test_quotes_hide_commas_and_stops),
        cmocka_unit_test(test_what_is_no_name_is_refused),
        cmocka_unit_test(test_a_side_is_a_word_and_a_dot),
        cmocka_unit_test(test_columns_are_listed_and_cut),
        cmocka_unit_test(test_a_second_column_of_a_name_gets_the_next_free_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
