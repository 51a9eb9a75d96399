#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "base/memory/ring.h"

static struct base_ring *open_ring(uint32_t capacity)
{
    struct base_ring *ring = NULL;
    assert_int_equal(base_ring_open(capacity, &ring, NULL), BASE_OK);
    return ring;
}

static void items_come_out_in_order(void **state)
{
    (void)state;
    static int items[3];
    struct base_ring *ring = open_ring(4);
    assert_true(base_ring_empty(ring));
    assert_null(base_ring_pop(ring));
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 3; i++)
            assert_true(base_ring_push(ring, &items[i]));
        assert_false(base_ring_empty(ring));
        for (int i = 0; i < 3; i++)
            assert_ptr_equal(base_ring_pop(ring), &items[i]);
        assert_null(base_ring_pop(ring));
        assert_true(base_ring_empty(ring));
    }
    base_ring_close(ring);
}

static void capacity_is_rounded_up_and_kept(void **state)
{
    (void)state;
    static const uint32_t capacities[][2] = {{1, 1}, {2, 2}, {3, 4}, {5, 8}, {64, 64}, {1000, 1024}};
    int item;
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++) {
        struct base_ring *ring = open_ring(capacities[i][0]);
        for (uint32_t pushed = 0; pushed < capacities[i][1]; pushed++)
            assert_true(base_ring_push(ring, &item));
        assert_false(base_ring_push(ring, &item));
        assert_ptr_equal(base_ring_pop(ring), &item);
        assert_true(base_ring_push(ring, &item));
        assert_false(base_ring_push(ring, &item));
        base_ring_close(ring);
    }
}

static void absurd_capacities_are_refused(void **state)
{
    (void)state;
    struct base_ring *ring = NULL;
    assert_int_equal(base_ring_open(UINT32_MAX, &ring, NULL), BASE_TOO_LARGE);
    assert_null(ring);
}

enum { HANDED_OVER = 200000 };

struct handover {
    struct base_ring *there, *back;
};

/* Plain, not atomic: the queue alone must make it visible, and the thread sanitizer watches. */
struct parcel {
    uint64_t number;
};

static void *produce(void *context)
{
    struct handover *handover = context;
    for (uint64_t number = 1; number <= HANDED_OVER; number++) {
        struct parcel *parcel;
        while (!(parcel = base_ring_pop(handover->back)))
            sched_yield();
        parcel->number = number;
        while (!base_ring_push(handover->there, parcel))
            sched_yield();
    }
    return NULL;
}

/* Parcels go round through two queues, as buffers do between workers. */
static void two_threads_lose_nothing(void **state)
{
    (void)state;
    static struct parcel parcels[16];
    struct handover handover = {.there = open_ring(8), .back = open_ring(16)};
    for (size_t i = 0; i < 16; i++)
        assert_true(base_ring_push(handover.back, &parcels[i]));
    pthread_t producer;
    assert_int_equal(pthread_create(&producer, NULL, produce, &handover), 0);
    for (uint64_t number = 1; number <= HANDED_OVER; number++) {
        struct parcel *parcel;
        while (!(parcel = base_ring_pop(handover.there)))
            sched_yield();
        assert_int_equal(parcel->number, number);
        while (!base_ring_push(handover.back, parcel))
            sched_yield();
    }
    pthread_join(producer, NULL);
    assert_true(base_ring_empty(handover.there));
    base_ring_close(handover.there);
    base_ring_close(handover.back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_order),
        cmocka_unit_test(capacity_is_rounded_up_and_kept),
        cmocka_unit_test(absurd_capacities_are_refused),
        cmocka_unit_test(two_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
