#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "shuffle/source/morsel.h"

enum { THREADS = 3, MORSELS = 20000 };

static void count_low(void *context)
{
    atomic_fetch_add((_Atomic uint32_t *)context, 1);
}

static void test_order_and_ends(void **state)
{
    (void)state;
    struct shuffle_morsel_queue *queue;
    struct base_error error = {0};
    _Atomic uint32_t low = 0;
    assert_int_equal(shuffle_morsel_queue_open(4, 2, count_low, (void *)&low, &queue, &error), BASE_OK);
    struct shuffle_morsel morsel;
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_BUSY);
    const struct shuffle_morsel lent[3] = {{.begin = 10}, {.begin = 20}, {.begin = 30}};
    assert_int_equal(shuffle_morsel_queue_append(queue, lent, 3, &error), BASE_OK);
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_OK);
    assert_int_equal(morsel.begin, 10);
    assert_int_equal(low, 0);
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_OK);
    assert_int_equal(low, 1);
    assert_int_equal(shuffle_morsel_queue_append(queue, lent, 2, &error), BASE_TOO_LARGE);
    shuffle_morsel_queue_end(queue);
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_OK);
    assert_int_equal(morsel.begin, 30);
    assert_int_equal(low, 1); /* nothing more to borrow */
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_END);
    assert_int_equal(shuffle_morsel_queue_taken(queue), 3);
    shuffle_morsel_queue_close(queue);
}

struct taker {
    struct shuffle_morsel_queue *queue;
    uint8_t *seen;
    pthread_t thread;
};

static void *take_all(void *argument)
{
    struct taker *taker = argument;
    struct shuffle_morsel morsel;
    for (;;) {
        const enum base_status status = shuffle_morsel_queue_take(taker->queue, &morsel);
        if (status == BASE_END)
            return NULL;
        if (status == BASE_OK)
            taker->seen[morsel.index]++; /* one taker each: no two threads touch a byte unless the queue is wrong */
    }
}

/* A limited queue deals what lies before the limit, and never ends. */
static void test_limit(void **state)
{
    (void)state;
    struct shuffle_morsel_queue *queue;
    struct base_error error = {0};
    struct shuffle_morsel morsel;
    assert_int_equal(shuffle_morsel_queue_open(4, 0, NULL, NULL, &queue, &error), BASE_OK);
    const struct shuffle_morsel lent[4] = {{.index = 3}, {.index = 5}, {.index = 8}, {.index = 9}};
    assert_int_equal(shuffle_morsel_queue_append(queue, lent, 4, &error), BASE_OK);
    shuffle_morsel_queue_end(queue);
    assert_false(shuffle_morsel_queue_spent(queue));
    shuffle_morsel_queue_limit(queue, 9);
    shuffle_morsel_queue_limit(queue, 8);
    shuffle_morsel_queue_limit(queue, 9); /* it never rises */
    assert_int_equal(shuffle_morsel_queue_limited(queue), 8);
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_OK);
    assert_int_equal(morsel.index, 3);
    assert_false(shuffle_morsel_queue_spent(queue));
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_OK);
    assert_true(shuffle_morsel_queue_spent(queue));
    assert_int_equal(shuffle_morsel_queue_take(queue, &morsel), BASE_BUSY);
    assert_int_equal(shuffle_morsel_queue_taken(queue), 2);
    shuffle_morsel_queue_close(queue);
}

static void test_each_morsel_once_among_threads(void **state)
{
    (void)state;
    struct base_error error = {0};
    struct taker taker[THREADS];
    struct shuffle_morsel_queue *queue;
    assert_int_equal(shuffle_morsel_queue_open(MORSELS, 0, NULL, NULL, &queue, &error), BASE_OK);
    uint8_t *seen = calloc(MORSELS, 1);
    for (int i = 0; i < THREADS; i++) {
        taker[i] = (struct taker){.queue = queue, .seen = seen};
        assert_int_equal(pthread_create(&taker[i].thread, NULL, take_all, &taker[i]), 0);
    }
    for (uint64_t i = 0; i < MORSELS; i++) {
        const struct shuffle_morsel morsel = {.index = i};
        assert_int_equal(shuffle_morsel_queue_append(queue, &morsel, 1, &error), BASE_OK);
    }
    shuffle_morsel_queue_end(queue);
    for (int i = 0; i < THREADS; i++)
        pthread_join(taker[i].thread, NULL);
    for (uint64_t i = 0; i < MORSELS; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
    shuffle_morsel_queue_close(queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_ends),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_each_morsel_once_among_threads),
    };
    return cmocka_run_group_tests_name("shuffle.morsel", tests, NULL, NULL);
}
