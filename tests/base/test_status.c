#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

static void every_status_has_words_and_a_name(void **state)
{
    (void)state;
    for (unsigned status = 0; status < BASE_STATUS_COUNT; status++) {
        assert_true(strlen(base_status_words(status)) > 0);
        assert_true(strlen(base_status_name(status)) > 0);
    }
    assert_string_equal(base_status_words(BASE_BUSY), "busy: try again after the next completion");
    assert_string_equal(base_status_name(BASE_FRAME_CORRUPT), "FRAME_CORRUPT");
}

static void values_out_of_range_are_answered(void **state)
{
    (void)state;
    assert_string_equal(base_status_words((enum base_status)999), "unknown status");
    assert_string_equal(base_status_name((enum base_status) - 1), "UNKNOWN");
    assert_int_equal(base_status_radius((enum base_status)BASE_STATUS_COUNT), BASE_RADIUS_JOB);
}

static void the_radius_says_what_is_lost(void **state)
{
    (void)state;
    assert_int_equal(base_status_radius(BASE_BUSY), BASE_RADIUS_OPERATION);
    assert_int_equal(base_status_radius(BASE_PEER_RESET), BASE_RADIUS_LANE);
    assert_int_equal(base_status_radius(BASE_NODE_LOST), BASE_RADIUS_NODE);
    assert_int_equal(base_status_radius(BASE_ENGINE_BROKEN), BASE_RADIUS_NODE);
    assert_int_equal(base_status_radius(BASE_CANCELLED), BASE_RADIUS_JOB);
}

static void the_rank_says_which_error_is_told(void **state)
{
    (void)state;
    assert_int_equal(base_status_rank(BASE_FRAME_CORRUPT), BASE_RANK_CAUSE);
    assert_int_equal(base_status_rank(BASE_FRAME_SEQUENCE), BASE_RANK_CAUSE);
    assert_int_equal(base_status_rank(BASE_LANE_TOTALS), BASE_RANK_CAUSE);
    assert_int_equal(base_status_rank(BASE_NODE_LOST), BASE_RANK_CAUSE);
    assert_int_equal(base_status_rank(BASE_ENGINE_BROKEN), BASE_RANK_CAUSE);
    assert_int_equal(base_status_rank(BASE_UNREACHABLE), BASE_RANK_SYMPTOM);
    assert_int_equal(base_status_rank(BASE_PEER_RESET), BASE_RANK_ECHO);
    assert_int_equal(base_status_rank((enum base_status)BASE_STATUS_COUNT), BASE_RANK_CAUSE);
    assert_true(BASE_RANK_ECHO < BASE_RANK_SYMPTOM && BASE_RANK_SYMPTOM < BASE_RANK_CAUSE);
}

static void errno_becomes_a_status(void **state)
{
    (void)state;
    assert_int_equal(base_status_from_errno(ENOENT), BASE_NOT_FOUND);
    assert_int_equal(base_status_from_errno(EACCES), BASE_DENIED);
    assert_int_equal(base_status_from_errno(ENOSPC), BASE_NO_SPACE);
    assert_int_equal(base_status_from_errno(ECONNRESET), BASE_PEER_RESET);
    assert_int_equal(base_status_from_errno(EHOSTUNREACH), BASE_UNREACHABLE); /* it may well be alive */
    assert_int_equal(base_status_from_errno(ECONNREFUSED), BASE_NODE_REFUSED);
    assert_int_equal(base_status_from_errno(EIO), BASE_IO);
    assert_int_equal(base_status_from_errno(123456), BASE_IO);
}

static void an_error_carries_its_sentence(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(base_error_set(&error, BASE_PARSE, "line %d: no comma", 7), BASE_PARSE);
    assert_int_equal(error.status, BASE_PARSE);
    assert_string_equal(error.text, "line 7: no comma");
    assert_int_equal(base_error_set(NULL, BASE_PARSE, "nobody reads this"), BASE_PARSE);
}

static void errno_words_are_appended(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(base_error_set_errno(&error, ENOENT, "open %s", "a.csv"), BASE_NOT_FOUND);
    assert_int_equal(error.status, BASE_NOT_FOUND);
    assert_string_equal(error.text, "open a.csv: No such file or directory");
    char denied[80];
    snprintf(denied, sizeof denied, "open a.csv: Permission denied (running as user %u)", (unsigned)geteuid());
    assert_int_equal(base_error_set_errno(&error, EACCES, "open %s", "a.csv"), BASE_DENIED);
    assert_string_equal(error.text, denied);
}

static void an_error_may_quote_itself(void **state)
{
    (void)state;
    struct base_error error = {0};
    base_error_set(&error, BASE_IO, "disk gone");
    base_error_set(&error, BASE_IO, "scan: %s", error.text);
    assert_string_equal(error.text, "scan: disk gone");
}

/* Characters of 1 to 4 bytes at every offset to the end: the cut leaves whole characters, and as many as fit. */
static void a_long_text_is_cut_between_characters(void **state)
{
    (void)state;
    static const char *const characters[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t kind = 0; kind < 4; kind++) {
        size_t width = strlen(characters[kind]);
        for (size_t offset = 0; offset < 4; offset++) {
            char text[2 * BASE_ERROR_TEXT_BYTES] = {0};
            memset(text, 'x', offset);
            size_t bytes = offset;
            while (bytes + width < sizeof text) {
                memcpy(text + bytes, characters[kind], width);
                bytes += width;
            }
            struct base_error error = {0};
            base_error_set(&error, BASE_PARSE, "%s", text);
            size_t kept = strlen(error.text);
            assert_memory_equal(error.text, text, kept);
            assert_int_equal((kept - offset) % width, 0);
            assert_in_range(kept, BASE_ERROR_TEXT_BYTES - width, BASE_ERROR_TEXT_BYTES - 1);
        }
    }
}

static void test_what_is_told_of_a_failure_is_one(void **state)
{
    (void)state;
    assert_int_equal(base_status_as_failure(BASE_NO_SPACE), BASE_NO_SPACE);
    assert_int_equal(base_status_as_failure(BASE_CANCELLED), BASE_CANCELLED);
    assert_int_equal(base_status_as_failure(base_status_from_errno(EAGAIN)), BASE_INTERNAL);
    assert_int_equal(base_status_as_failure(BASE_OK), BASE_INTERNAL);
    assert_int_equal(base_status_as_failure((enum base_status)BASE_STATUS_COUNT), BASE_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_told_of_a_failure_is_one),
        cmocka_unit_test(every_status_has_words_and_a_name),
        cmocka_unit_test(values_out_of_range_are_answered),
        cmocka_unit_test(the_radius_says_what_is_lost),
        cmocka_unit_test(the_rank_says_which_error_is_told),
        cmocka_unit_test(errno_becomes_a_status),
        cmocka_unit_test(an_error_carries_its_sentence),
        cmocka_unit_test(errno_words_are_appended),
        cmocka_unit_test(an_error_may_quote_itself),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
