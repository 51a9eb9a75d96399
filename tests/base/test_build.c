#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/build.h"

static void the_number_is_eight_digits_behind_the_build(void **state)
{
    (void)state;
    char text[BASE_BUILD_TEXT_BYTES], wanted[BASE_BUILD_TEXT_BYTES];
    snprintf(wanted, sizeof wanted, "%s (protocol %08x)", base_build_id(), (unsigned)base_build_protocol());
    assert_ptr_equal(base_build_describe(text), text);
    assert_string_equal(text, wanted);
    assert_true(base_build_protocol() != 0);
}

/* So that they are not linked anew at every commit. */
static void tests_know_the_version_alone(void **state)
{
    (void)state;
    assert_null(strchr(base_build_id(), '+'));
    assert_true(strspn(base_build_id(), "0123456789.") == strlen(base_build_id()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_is_eight_digits_behind_the_build),
        cmocka_unit_test(tests_know_the_version_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
