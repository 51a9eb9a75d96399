#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory/memory.h"
#include "tests/child_output.h"

static struct base_governor *governor;

static int setup(void **state)
{
    (void)state;
    return (int)base_governor_open(0, &governor, NULL);
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    return 0;
}

static struct base_pool *open_pool(struct base_governor *from, size_t buffer_bytes, uint32_t buffers_max)
{
    struct base_pool *pool = NULL;
    assert_int_equal(base_pool_open(from, BASE_HOLDER_FRAMES, "test buffers", buffer_bytes, buffers_max, &pool, NULL),
                     BASE_OK);
    return pool;
}

static void buffers_are_apart_aligned_and_limited(void **state)
{
    (void)state;
    enum { COUNT = 1000, BYTES = 1000 };
    static uint8_t *buffers[COUNT];
    struct base_pool *pool = open_pool(governor, BYTES, COUNT);
    assert_int_equal(base_pool_buffer_bytes(pool), BYTES);
    for (int i = 0; i < COUNT; i++) {
        buffers[i] = base_pool_take(pool);
        assert_non_null(buffers[i]);
        assert_int_equal((uintptr_t)buffers[i] % 64, 0);
        memset(buffers[i], i % 255 + 1, BYTES);
        assert_int_equal(base_pool_taken(pool), i + 1);
    }
    assert_null(base_pool_take(pool));
    for (int i = 0; i < COUNT; i++) {
        for (int at = 0; at < BYTES; at++)
            assert_int_equal(buffers[i][at], i % 255 + 1);
        base_pool_give(pool, buffers[i]);
    }
    assert_int_equal(base_pool_taken(pool), 0);
    assert_int_equal(base_pool_close(pool), 0);
}

static void memory_is_drawn_slab_by_slab(void **state)
{
    (void)state;
    struct base_pool *pool = open_pool(governor, 64 << 10, 100);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    void *buffer = base_pool_take(pool);
    uint64_t slab_bytes = base_governor_used_bytes(governor);
    assert_in_range(slab_bytes, 64 << 10, 50 * (UINT64_C(64) << 10));
    base_pool_give(pool, buffer);
    assert_ptr_equal(base_pool_take(pool), buffer);
    assert_int_equal(base_governor_used_bytes(governor), slab_bytes);
    base_pool_give(pool, buffer);
    base_pool_close(pool);
}

/* Whoever registers a pool's memory finds each buffer in a slab, whose place never changes. */
static void slabs_hold_all_buffers(void **state)
{
    (void)state;
    enum { COUNT = 40, BYTES = 30000 };
    struct base_pool *pool = open_pool(governor, BYTES, COUNT);
    uint8_t *buffers[COUNT], *first = NULL;
    size_t bytes, first_bytes = 0;
    assert_int_equal(base_pool_slabs(pool), 0);
    for (int i = 0; i < COUNT; i++) {
        uint32_t holders = 0;
        buffers[i] = base_pool_take(pool);
        for (uint32_t s = 0; s < base_pool_slabs(pool); s++) {
            const uint8_t *slab = base_pool_slab(pool, s, &bytes);
            holders += buffers[i] >= slab && buffers[i] + BYTES <= slab + bytes;
        }
        assert_int_equal(holders, 1);
        if (i == 0)
            first = base_pool_slab(pool, 0, &first_bytes);
        assert_ptr_equal(base_pool_slab(pool, 0, &bytes), first);
        assert_int_equal(bytes, first_bytes);
    }
    assert_true(base_pool_slabs(pool) > 1);
    for (int i = 0; i < COUNT; i++)
        base_pool_give(pool, buffers[i]);
    base_pool_close(pool);
}

static void an_exhausted_budget_is_not_an_error(void **state)
{
    (void)state;
    struct base_governor *small;
    assert_int_equal(base_governor_open(UINT64_C(3) * 8192, &small, NULL), BASE_OK);
    struct base_pool *pool = open_pool(small, 8192, 100);
    void *buffers[3];
    for (int i = 0; i < 3; i++) {
        buffers[i] = base_pool_take(pool);
        assert_non_null(buffers[i]);
    }
    assert_null(base_pool_take(pool));
    base_pool_give(pool, buffers[1]);
    assert_ptr_equal(base_pool_take(pool), buffers[1]);
    for (int i = 0; i < 3; i++)
        base_pool_give(pool, buffers[i]);
    base_pool_close(pool);
    assert_int_equal(base_governor_used_bytes(small), 0);
    base_governor_close(small);
}

static void holder(const void *buffer, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "the test's number %d", *(const uint8_t *)buffer);
}

/* Of six buffers the second and the fifth stay out. */
static void lose_two(void *asks)
{
    uint8_t *buffers[6];
    struct base_pool *pool = open_pool(governor, 100, 10);
    if (asks)
        base_pool_ask(pool, holder);
    for (uint8_t i = 0; i < 6; i++) {
        buffers[i] = base_pool_take(pool);
        *buffers[i] = i;
        assert_int_equal(base_pool_number(pool, buffers[i]), i);
    }
    for (int i = 0; i < 6; i++)
        if (i != 1 && i != 4)
            base_pool_give(pool, buffers[i]);
    assert_int_equal(base_pool_close(pool), 2);
}

static void closing_tells_who_has_what_is_missing(void **state)
{
    (void)state;
    char text[4096];
    for (int asks = 0; asks < 2; asks++) {
        bool aborted;
        const bool ended = child_output(lose_two, asks ? text : NULL, text, sizeof text, &aborted);
        assert_int_equal(aborted, CHILD_MISSING_ABORTS);
        assert_int_equal(ended, !CHILD_MISSING_ABORTS);
        assert_non_null(strstr(text, "pool of test buffers closed with 2 of 10 buffers still out"));
        assert_int_equal(strstr(text, "without buffer 1: it is held by the test's number 1") != NULL, asks);
        assert_int_equal(strstr(text, "without buffer 4: it is held by the test's number 4") != NULL, asks);
        assert_null(strstr(text, "without buffer 0"));
    }
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    struct base_pool *pool = NULL;
    struct base_error error = {0};
    assert_int_equal(base_pool_open(governor, BASE_HOLDER_FRAMES, "giants", SIZE_MAX / 4, 1000, &pool, &error),
                     BASE_TOO_LARGE);
    assert_null(pool);
}

#ifndef NDEBUG
/* True when the child aborts, as an assertion makes it do. */
static bool aborts(void (*act)(struct base_pool *pool))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        struct base_pool *pool = NULL;
        if (base_pool_open(governor, BASE_HOLDER_FRAMES, "test buffers", 64, 10, &pool, NULL) != BASE_OK)
            _exit(2);
        act(pool);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void a_buffer_given_back_is_scribbled_over(void **state)
{
    (void)state;
    struct base_pool *pool = open_pool(governor, 100, 2);
    uint8_t *buffer = base_pool_take(pool);
    memset(buffer, 0, 100);
    base_pool_give(pool, buffer);
    for (int i = 0; i < 100; i++)
        assert_int_not_equal(buffer[i], 0);
    base_pool_close(pool);
}

static void give_twice(struct base_pool *pool)
{
    base_pool_take(pool);
    void *buffer = base_pool_take(pool);
    base_pool_give(pool, buffer);
    base_pool_give(pool, buffer);
}

static void give_a_stranger(struct base_pool *pool)
{
    static uint8_t stranger[64];
    base_pool_take(pool);
    base_pool_give(pool, stranger);
}

static void give_an_inner_address(struct base_pool *pool)
{
    uint8_t *buffer = base_pool_take(pool);
    base_pool_give(pool, buffer + 1);
}

static void give_properly(struct base_pool *pool)
{
    base_pool_give(pool, base_pool_take(pool));
}

static void wrong_hand_overs_are_caught(void **state)
{
    (void)state;
    assert_true(aborts(give_twice));
    assert_true(aborts(give_a_stranger));
    assert_true(aborts(give_an_inner_address));
    assert_false(aborts(give_properly));
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_are_apart_aligned_and_limited),
        cmocka_unit_test(memory_is_drawn_slab_by_slab),
        cmocka_unit_test(an_exhausted_budget_is_not_an_error),
        cmocka_unit_test(closing_tells_who_has_what_is_missing),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(slabs_hold_all_buffers),
#ifndef NDEBUG
        cmocka_unit_test(wrong_hand_overs_are_caught),
        cmocka_unit_test(a_buffer_given_back_is_scribbled_over),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
