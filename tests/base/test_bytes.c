#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bytes.h"

static void loads_and_stores_are_little_endian_at_any_alignment(void **state)
{
    (void)state;
    for (size_t offset = 0; offset < 8; offset++) {
        uint8_t bytes[24] = {0};
        base_store_u16(bytes + offset, 0x0102);
        assert_memory_equal(bytes + offset, "\x02\x01\x00", 3);
        assert_int_equal(base_load_u16(bytes + offset), 0x0102);
        base_store_u32(bytes + offset, 0x01020304);
        assert_memory_equal(bytes + offset, "\x04\x03\x02\x01\x00", 5);
        assert_int_equal(base_load_u32(bytes + offset), 0x01020304);
        base_store_u64(bytes + offset, UINT64_C(0x0102030405060708));
        assert_memory_equal(bytes + offset, "\x08\x07\x06\x05\x04\x03\x02\x01\x00", 9);
        assert_int_equal(base_load_u64(bytes + offset), UINT64_C(0x0102030405060708));
    }
}

static void align_up_reaches_the_next_multiple(void **state)
{
    (void)state;
    assert_int_equal(base_align_up(0, 8), 0);
    assert_int_equal(base_align_up(1, 8), 8);
    assert_int_equal(base_align_up(8, 8), 8);
    assert_int_equal(base_align_up(4097, 4096), 8192);
    assert_int_equal(base_align_up(5, 1), 5);
}

static void smaller_and_larger(void **state)
{
    (void)state;
    assert_int_equal(base_min_u64(1, UINT64_MAX), 1);
    assert_int_equal(base_min_u64(UINT64_MAX, 1), 1);
    assert_true(base_max_u64(1, UINT64_MAX) == UINT64_MAX);
    assert_true(base_max_u64(UINT64_MAX, 1) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_and_stores_are_little_endian_at_any_alignment),
        cmocka_unit_test(align_up_reaches_the_next_multiple),
        cmocka_unit_test(smaller_and_larger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
