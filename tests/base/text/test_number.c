#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text/number.h"

static void expect(const char *text, uint64_t value)
{
    uint64_t number = 0;
    if (!base_number_parse(text, &number))
        fail_msg("\"%s\" was refused", text);
    assert_int_equal(number, value);
}

static void refuse(const char *text)
{
    uint64_t number = 77;
    if (base_number_parse(text, &number))
        fail_msg("\"%s\" was taken for %" PRIu64, text, number);
    assert_int_equal(number, 77);
}

static void test_numbers(void **state)
{
    (void)state;
    expect("0", 0);
    expect("18446744073709551615", UINT64_MAX);
    expect("16M", 16000000);
    expect("3k", 3000);
    expect("2Gi", UINT64_C(2) << 30);
    expect("1T", UINT64_C(1000000000000));
}

static void test_what_is_no_number(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "", "-1", "+1", " 1", "1 ", "1.5M", "0x10", "M", "1m", "1GiB", "18446744073709551616", "18446744073709551615k"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refuse(wrong[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_what_is_no_number)};
    return cmocka_run_group_tests_name("base.number", tests, NULL, NULL);
}
