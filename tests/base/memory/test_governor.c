#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/memory.h"

static struct base_governor *open_governor(uint64_t budget_bytes)
{
    struct base_governor *governor = NULL;
    struct base_error error;
    assert_int_equal(base_governor_open(budget_bytes, &governor, &error), BASE_OK);
    return governor;
}

static void draws_are_counted_by_holder(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(0);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_ROWS, 100, NULL), BASE_OK);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_SCAN, 20, NULL), BASE_OK);
    assert_int_equal(base_governor_used_bytes(governor), 120);
    assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_ROWS), 100);
    assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_SCAN), 20);
    base_governor_return(governor, BASE_HOLDER_ROWS, 60);
    assert_int_equal(base_governor_used_bytes(governor), 60);
    assert_int_equal(base_governor_peak_bytes(governor), 120);
    base_governor_peak_reset(governor);
    assert_int_equal(base_governor_peak_bytes(governor), 60);
    base_governor_return(governor, BASE_HOLDER_ROWS, 40);
    base_governor_return(governor, BASE_HOLDER_SCAN, 20);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
}

static void the_budget_holds_to_the_byte(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(1000);
    struct base_error error = {0};
    assert_int_equal(base_governor_budget_bytes(governor), 1000);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_CHUNKS, 700, &error), BASE_OK);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_ROWS, 301, &error), BASE_NO_MEMORY);
    assert_int_equal(base_governor_used_bytes(governor), 700);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_ROWS, UINT64_MAX, NULL), BASE_NO_MEMORY);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_ROWS, 300, &error), BASE_OK);
    base_governor_return(governor, BASE_HOLDER_CHUNKS, 700);
    base_governor_return(governor, BASE_HOLDER_ROWS, 300);
    base_governor_close(governor);
}

static void a_refusal_names_who_has_most_what_was_asked_and_the_budget(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(1000);
    struct base_error error = {0};
    base_governor_draw(governor, BASE_HOLDER_CHUNKS, 100, NULL);
    base_governor_draw(governor, BASE_HOLDER_ROWS, 700, NULL);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_OUTPUT, 333, &error), BASE_NO_MEMORY);
    assert_int_equal(error.status, BASE_NO_MEMORY);
    assert_string_equal(error.text,
                        "the memory budget of 1000 bytes does not suffice: hash table rows have most, 700 of the 800 "
                        "bytes in use; output buffers need 333 bytes more, which makes at least 1133 in all: raise "
                        "--memory of millraced node or use more nodes");
    /* Nobody holds anything: then no one holds most. */
    struct base_governor *tiny = open_governor(1);
    assert_int_equal(base_governor_draw(tiny, BASE_HOLDER_CHUNKS, 4096, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "budget of 1 bytes does not suffice: receive chunks need 4096 bytes more, "));
    base_governor_close(tiny);
    base_governor_return(governor, BASE_HOLDER_CHUNKS, 100);
    base_governor_return(governor, BASE_HOLDER_ROWS, 700);
    base_governor_close(governor);
}

static void a_refusal_reckons_with_what_is_still_expected(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(1000);
    struct base_error error = {0};
    base_governor_expect(governor, BASE_HOLDER_ROWS, 5000, false);
    base_governor_expect(governor, BASE_HOLDER_ROWS, 2000, false);
    base_governor_draw(governor, BASE_HOLDER_ROWS, 900, NULL);
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_FRAMES, 150, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "which makes about 7150 in all"));
    assert_int_equal(base_governor_draw(governor, BASE_HOLDER_ROWS, 150, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "which makes about 7000 in all"));
    base_governor_expect(governor, BASE_HOLDER_ROWS, 5000, true);
    base_governor_expect(governor, BASE_HOLDER_ROWS, 2000, true);
    assert_int_equal(base_governor_refuse(governor, BASE_HOLDER_ROWS, 150, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "which makes at least 1050 in all"));
    base_governor_return(governor, BASE_HOLDER_ROWS, 900);
    base_governor_close(governor);
}

static void *draw_and_return(void *context)
{
    struct base_governor *governor = context;
    uint64_t *refused = calloc(1, sizeof *refused);
    for (int i = 0; i < 20000; i++) {
        if (base_governor_draw(governor, BASE_HOLDER_FRAMES, 3, NULL) != BASE_OK)
            ++*refused;
        else
            base_governor_return(governor, BASE_HOLDER_FRAMES, 3);
    }
    return refused;
}

static void threads_never_exceed_the_budget(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(8);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, draw_and_return, governor), 0);
    for (int i = 0; i < 4; i++) {
        void *refused;
        pthread_join(threads[i], &refused);
        free(refused);
    }
    assert_int_equal(base_governor_used_bytes(governor), 0);
    assert_in_range(base_governor_peak_bytes(governor), 3, 6);
    base_governor_close(governor);
}

static void pages_are_zeroed_rounded_and_counted(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(0);
    static const size_t sizes[] = {0, 1, 4096, 4097, (2 << 20) - 1, 2 << 20, (5 << 20) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (int prefault = 0; prefault < 2; prefault++) {
            void *pages = NULL;
            size_t rounded = sizes[i] ? (sizes[i] + 4095) / 4096 * 4096 : 4096;
            assert_int_equal(base_pages_map(governor, BASE_HOLDER_ROWS, sizes[i], prefault, &pages, NULL), BASE_OK);
            assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_ROWS), rounded);
            const uint8_t *bytes = pages;
            assert_int_equal(bytes[0] | bytes[rounded - 1], 0);
            memset(pages, 0xff, rounded);
            if (rounded >= 2 << 20)
                assert_int_equal((uintptr_t)pages % (2 << 20), 0);
            base_pages_unmap(governor, BASE_HOLDER_ROWS, pages, sizes[i]);
            assert_int_equal(base_governor_used_bytes(governor), 0);
        }
    }
    base_governor_close(governor);
}

static void pages_refused_leave_nothing_drawn(void **state)
{
    (void)state;
    struct base_governor *governor = open_governor(8192);
    struct base_error error = {0};
    void *pages = (void *)1;
    assert_int_equal(base_pages_map(governor, BASE_HOLDER_ROWS, 8193, true, &pages, &error), BASE_NO_MEMORY);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    assert_ptr_equal(pages, (void *)1);
    base_governor_close(governor);

    governor = open_governor(0);
    assert_int_equal(base_pages_map(governor, BASE_HOLDER_ROWS, SIZE_MAX, false, &pages, &error), BASE_TOO_LARGE);
    assert_int_equal(base_pages_map(governor, BASE_HOLDER_ROWS, (size_t)1 << 60, false, &pages, &error),
                     BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "this machine"));
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_counted_by_holder),
        cmocka_unit_test(the_budget_holds_to_the_byte),
        cmocka_unit_test(a_refusal_names_who_has_most_what_was_asked_and_the_budget),
        cmocka_unit_test(a_refusal_reckons_with_what_is_still_expected),
        cmocka_unit_test(threads_never_exceed_the_budget),
        cmocka_unit_test(pages_are_zeroed_rounded_and_counted),
        cmocka_unit_test(pages_refused_leave_nothing_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
