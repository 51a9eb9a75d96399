#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/text/nearest.h"

static const char *nearest(const char *text, const char *const *words)
{
    struct base_nearest found = base_nearest_to(text, strlen(text));
    for (; *words; words++)
        base_nearest_offer(&found, *words);
    return found.word;
}

static const char *const words[] = {"select", "coordinator", "join", "int64", "uint64", "Price", NULL};

static void a_slip_of_each_kind_is_near(void **state)
{
    (void)state;
    assert_string_equal(nearest("selct", words), "select");   /* left out */
    assert_string_equal(nearest("seleect", words), "select"); /* too many */
    assert_string_equal(nearest("sekect", words), "select");  /* another */
    assert_string_equal(nearest("slelect", words), "select");
    assert_string_equal(nearest("jion", words), "join"); /* swapped: one step of four letters */
    assert_string_equal(nearest("coordiantro", words), "coordinator");
    assert_string_equal(nearest("SELECT", words), "select");
    assert_string_equal(nearest("price", words), "Price");
}

static void the_nearest_wins_and_the_first_of_equals(void **state)
{
    (void)state;
    assert_string_equal(nearest("uint46", words), "uint64");
    assert_string_equal(nearest("int46", words), "int64");
    static const char *const equal[] = {"abcdx", "abcdy", NULL};
    assert_string_equal(nearest("abcdz", equal), "abcdx");
}

static void nothing_near_is_nothing(void **state)
{
    (void)state;
    assert_null(nearest("", words));
    assert_null(nearest("k", words));
    assert_null(nearest("sort", words));
    assert_null(nearest("varchar", words));
    char hint[BASE_NEAREST_HINT_BYTES];
    const struct base_nearest none = base_nearest_to("x", 1);
    assert_string_equal(base_nearest_hint(&none, "", hint), "");
}

static void long_words_are_compared_as_far_as_a_name_goes(void **state)
{
    (void)state;
    char text[5000], word[5000];
    memset(text, 'a', sizeof text);
    memset(word, 'a', sizeof word);
    text[4999] = '\0';
    word[4999] = '\0';
    word[7] = 'b';
    struct base_nearest found = base_nearest_to(text, strlen(text));
    base_nearest_offer(&found, word);
    assert_ptr_equal(found.word, word);
    char hint[BASE_NEAREST_HINT_BYTES];
    assert_true(strlen(base_nearest_hint(&found, "--", hint)) < BASE_NEAREST_HINT_BYTES);
    assert_string_equal(hint + strlen(hint) - 3, "\"?)");
}

static void the_hint_is_part_of_a_sentence(void **state)
{
    (void)state;
    char hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest found = base_nearest_to("slect=x", 5);
    base_nearest_offer(&found, "select");
    assert_string_equal(base_nearest_hint(&found, "--", hint), " (did you mean \"--select\"?)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slip_of_each_kind_is_near),
        cmocka_unit_test(the_nearest_wins_and_the_first_of_equals),
        cmocka_unit_test(nothing_near_is_nothing),
        cmocka_unit_test(long_words_are_compared_as_far_as_a_name_goes),
        cmocka_unit_test(the_hint_is_part_of_a_sentence),
    };
    return cmocka_run_group_tests_name("base.nearest", tests, NULL, NULL);
}
