#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/size.h"

static void what_fits_is_computed(void **state)
{
    (void)state;
    uint64_t result = 0;
    uint32_t narrow = 0;
    assert_true(base_size_add(UINT64_MAX - 7, 7, &result));
    assert_true(result == UINT64_MAX);
    assert_true(base_size_multiply(UINT32_MAX, UINT32_MAX, &result));
    assert_true(result == UINT64_C(0xfffffffe00000001));
    assert_true(base_size_narrow(UINT32_MAX, &narrow));
    assert_int_equal(narrow, UINT32_MAX);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    uint64_t result = 77;
    uint32_t narrow = 77;
    assert_false(base_size_add(UINT64_MAX, 1, &result));
    assert_false(base_size_multiply(UINT64_C(1) << 32, UINT64_C(1) << 32, &result));
    assert_false(base_size_narrow(UINT64_C(1) << 32, &narrow));
    assert_int_equal(result, 77);
    assert_int_equal(narrow, 77);
}

static void estimates_end_at_the_largest_number(void **state)
{
    (void)state;
    assert_true(base_size_add_most(3, 4) == 7);
    assert_true(base_size_multiply_most(3, 4) == 12);
    assert_true(base_size_add_most(UINT64_MAX - 1, 2) == UINT64_MAX);
    assert_true(base_size_multiply_most(UINT64_MAX / 2, 3) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_is_computed),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(estimates_end_at_the_largest_number),
    };
    return cmocka_run_group_tests_name("base.size", tests, NULL, NULL);
}
