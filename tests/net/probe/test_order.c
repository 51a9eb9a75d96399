/* A kernel played by hand delivers a stream into provided buffers: rightly, and in every wrong way the probe looks for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "net/probe/order.h"

/* The kernel: where the next byte goes, and which one it is. */
static uint8_t memory[PROBE_BUFFERS * PROBE_BUFFER_BYTES];
static uint16_t queue[PROBE_BUFFERS];
static uint32_t first, used;
static uint64_t position;
static struct probe_order order;
static struct probe_order_done done;

static void begin(bool incremental)
{
    memset(memory, 0, sizeof memory);
    for (uint32_t i = 0; i < PROBE_BUFFERS; i++)
        queue[i] = (uint16_t)i;
    first = used = 0;
    position = 0;
    probe_order_begin(memory, incremental, &order);
}

/* Delivers into the buffer at a place of the queue. */
static void deliver_at(uint32_t place, uint32_t offset, uint32_t bytes)
{
    uint8_t *to = memory + (size_t)queue[place % PROBE_BUFFERS] * PROBE_BUFFER_BYTES + offset;
    for (uint32_t i = 0; i < bytes; i++)
        to[i] = probe_order_byte(position++);
}

/* Delivers one completion in the right way; keep: the last buffer goes on. */
static enum probe_order_verdict deliver(uint32_t bytes, bool keep)
{
    const uint16_t start = queue[first];
    for (uint32_t left = bytes; left > 0;) {
        const uint32_t room = PROBE_BUFFER_BYTES - used, piece = left < room ? left : room;
        deliver_at(first, used, piece);
        used += piece;
        left -= piece;
        if (used == PROBE_BUFFER_BYTES || (left == 0 && !keep)) {
            first = (first + 1) % PROBE_BUFFERS;
            used = 0;
        }
    }
    return probe_order_take(&order, start, bytes, used > 0, &done);
}

static void plain_receives_are_right(void **state)
{
    (void)state;
    begin(false);
    for (uint32_t i = 0; i < 5 * PROBE_BUFFERS; i++) {
        assert_int_equal(deliver(1 + i * 37 % PROBE_BUFFER_BYTES, false), PROBE_ORDER_RIGHT);
        assert_int_equal(done.count, 1);
        assert_int_equal(done.buffer[0], i % PROBE_BUFFERS);
    }
    assert_int_equal(order.received_bytes, position);
    assert_false(order.spanned);
    assert_false(order.shared);
}

static void bundles_are_right(void **state)
{
    (void)state;
    begin(false);
    assert_int_equal(deliver(2 * PROBE_BUFFER_BYTES + 1, false), PROBE_ORDER_RIGHT);
    assert_int_equal(done.count, 3);
    assert_int_equal(deliver(PROBE_BUFFERS * PROBE_BUFFER_BYTES, false), PROBE_ORDER_RIGHT);
    assert_int_equal(done.count, PROBE_BUFFERS);
    assert_true(order.spanned);
    assert_false(order.shared);
}

static void incremental_buffers_are_right(void **state)
{
    (void)state;
    begin(true);
    assert_int_equal(deliver(100, true), PROBE_ORDER_RIGHT);
    assert_int_equal(done.count, 0);
    assert_int_equal(deliver(100, true), PROBE_ORDER_RIGHT);
    assert_true(order.shared);
    assert_int_equal(deliver(100, false), PROBE_ORDER_RIGHT); /* given up before its end */
    assert_int_equal(done.count, 1);
    assert_int_equal(deliver(PROBE_BUFFER_BYTES, true), PROBE_ORDER_RIGHT);
    assert_int_equal(done.count, 1);
    assert_int_equal(deliver(3 * PROBE_BUFFER_BYTES + 7, true), PROBE_ORDER_RIGHT);
    assert_int_equal(done.count, 3);
    assert_true(order.spanned);
    assert_int_equal(order.received_bytes, position);
}

static void another_buffer_than_the_next(void **state)
{
    (void)state;
    begin(false);
    assert_int_equal(deliver(10, false), PROBE_ORDER_RIGHT);
    deliver_at(2, 0, 10);
    assert_int_equal(probe_order_take(&order, 2, 10, false, &done), PROBE_ORDER_WRONG_BUFFER);
}

/* Two buffers of a bundle filled the wrong way round. */
static void buffers_of_a_bundle_swapped(void **state)
{
    (void)state;
    begin(false);
    deliver_at(1, 0, PROBE_BUFFER_BYTES);
    deliver_at(0, 0, PROBE_BUFFER_BYTES);
    assert_int_equal(probe_order_take(&order, 0, 2 * PROBE_BUFFER_BYTES, false, &done), PROBE_ORDER_WRONG_BYTE);
}

/* The kernel went on at the wrong place of a shared buffer. */
static void an_offset_that_is_wrong(void **state)
{
    (void)state;
    begin(true);
    assert_int_equal(deliver(100, true), PROBE_ORDER_RIGHT);
    deliver_at(0, 101, 100);
    assert_int_equal(probe_order_take(&order, 0, 100, true, &done), PROBE_ORDER_WRONG_BYTE);
}

static void more_than_there_is_room_for(void **state)
{
    (void)state;
    begin(true);
    assert_int_equal(deliver(1, true), PROBE_ORDER_RIGHT);
    assert_int_equal(probe_order_take(&order, 0, PROBE_BUFFERS * PROBE_BUFFER_BYTES, true, &done),
                     PROBE_ORDER_TOO_MUCH);
    assert_int_equal(probe_order_take(&order, 0, UINT32_MAX, true, &done), PROBE_ORDER_TOO_MUCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_receives_are_right),      cmocka_unit_test(bundles_are_right),
        cmocka_unit_test(incremental_buffers_are_right), cmocka_unit_test(another_buffer_than_the_next),
        cmocka_unit_test(buffers_of_a_bundle_swapped),   cmocka_unit_test(an_offset_that_is_wrong),
        cmocka_unit_test(more_than_there_is_room_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
