#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/memory/memory.h"

struct fixture {
    struct base_governor *governor;
    struct base_arena *arena;
};

static struct fixture fixture_open(uint64_t budget_bytes, size_t block_bytes)
{
    struct fixture fixture = {0};
    assert_int_equal(base_governor_open(budget_bytes, &fixture.governor, NULL), BASE_OK);
    assert_int_equal(base_arena_open(fixture.governor, BASE_HOLDER_ROWS, block_bytes, &fixture.arena, NULL), BASE_OK);
    return fixture;
}

static void fixture_close(struct fixture fixture)
{
    base_arena_close(fixture.arena);
    assert_int_equal(base_governor_used_bytes(fixture.governor), 0);
    base_governor_close(fixture.governor);
}

/* Fills every allocation with its own number and looks again at the end: none may overlap. */
static void allocations_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static uint8_t *allocations[COUNT];
    static size_t sizes[COUNT];
    struct fixture fixture = fixture_open(0, 16 << 10);
    struct base_error error;
    for (size_t i = 0; i < COUNT; i++) {
        size_t align = (size_t)1 << (i % 13);
        sizes[i] = i * 7919 % 300;
        if (i % 500 == 499)
            sizes[i] = 40000;
        allocations[i] = base_arena_alloc(fixture.arena, sizes[i], align, &error);
        assert_non_null(allocations[i]);
        assert_int_equal((uintptr_t)allocations[i] % align, 0);
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(allocations[i][at], 0);
        memset(allocations[i], (int)(i % 255 + 1), sizes[i]);
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t at = 0; at < sizes[i]; at++)
            assert_int_equal(allocations[i][at], i % 255 + 1);
    }
    assert_int_equal(base_arena_bytes(fixture.arena), base_governor_used_bytes(fixture.governor));
    fixture_close(fixture);
}

static void nothing_is_drawn_before_it_is_needed(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(0, 16 << 10);
    assert_int_equal(base_governor_used_bytes(fixture.governor), 0);
    assert_non_null(base_arena_alloc(fixture.arena, 1, 1, NULL));
    assert_int_equal(base_governor_used_bytes(fixture.governor), 16 << 10);
    fixture_close(fixture);
}

static void reset_keeps_one_block_and_uses_it_again(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(0, 16 << 10);
    void *first = base_arena_alloc(fixture.arena, 100, 8, NULL);
    for (int i = 0; i < 100; i++)
        assert_non_null(base_arena_alloc(fixture.arena, 1000, 8, NULL));
    assert_non_null(base_arena_alloc(fixture.arena, 100000, 8, NULL));
    assert_true(base_arena_bytes(fixture.arena) > 200000);
    base_arena_reset(fixture.arena);
    assert_int_equal(base_arena_bytes(fixture.arena), 16 << 10);
    assert_int_equal(base_governor_used_bytes(fixture.governor), 16 << 10);
    assert_ptr_equal(base_arena_alloc(fixture.arena, 100, 8, NULL), first);
    fixture_close(fixture);
}

static void a_large_request_leaves_the_open_block_open(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(0, 16 << 10);
    uint8_t *before = base_arena_alloc(fixture.arena, 64, 8, NULL);
    assert_non_null(base_arena_alloc(fixture.arena, 1 << 20, 8, NULL));
    uint8_t *after = base_arena_alloc(fixture.arena, 64, 8, NULL);
    assert_ptr_equal(after, before + 64);
    fixture_close(fixture);
}

static void the_budget_is_respected(void **state)
{
    (void)state;
    struct fixture fixture = fixture_open(32 << 10, 16 << 10);
    struct base_error error = {0};
    assert_non_null(base_arena_alloc(fixture.arena, 10000, 8, &error));
    assert_non_null(base_arena_alloc(fixture.arena, 10000, 8, &error));
    assert_null(base_arena_alloc(fixture.arena, 10000, 8, &error));
    assert_int_equal(error.status, BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "hash table rows"));
    assert_non_null(base_arena_alloc(fixture.arena, 1000, 8, &error));
    assert_null(base_arena_alloc(fixture.arena, SIZE_MAX - 8, 8, &error));
    assert_int_equal(error.status, BASE_TOO_LARGE);
    fixture_close(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allocations_are_aligned_zeroed_and_apart),
        cmocka_unit_test(nothing_is_drawn_before_it_is_needed),
        cmocka_unit_test(reset_keeps_one_block_and_uses_it_again),
        cmocka_unit_test(a_large_request_leaves_the_open_block_open),
        cmocka_unit_test(the_budget_is_respected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
