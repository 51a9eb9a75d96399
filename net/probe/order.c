#include "net/probe/order.h"

#include "base/bytes.h"

enum { PERIOD_BYTES = 251 /* prime, so that a buffer's length is no multiple of it */ };

uint8_t probe_order_byte(uint64_t position)
{
    return (uint8_t)(position % PERIOD_BYTES + position / (1 << 16));
}

void probe_order_begin(const uint8_t *memory, bool incremental, struct probe_order *order)
{
    *order = (struct probe_order){.memory = memory, .incremental = incremental};
    for (uint32_t i = 0; i < PROBE_BUFFERS; i++)
        order->buffer[i] = (uint16_t)i;
}

/* The first buffer becomes the last. */
static void order_recycle(struct probe_order *order, struct probe_order_done *done)
{
    done->buffer[done->count++] = order->buffer[order->first];
    order->first = (order->first + 1) % PROBE_BUFFERS; /* its place at the end is the one it leaves */
    order->used_bytes = 0;
}

static bool bytes_are_right(const struct probe_order *order, uint32_t bytes)
{
    const uint8_t *data = order->memory + (size_t)order->buffer[order->first] * PROBE_BUFFER_BYTES + order->used_bytes;
    for (uint32_t i = 0; i < bytes; i++)
        if (data[i] != probe_order_byte(order->received_bytes + i))
            return false;
    return true;
}

enum probe_order_verdict probe_order_take(struct probe_order *order, uint16_t buffer, uint32_t bytes, bool more,
                                          struct probe_order_done *done)
{
    done->count = 0;
    if (buffer != order->buffer[order->first])
        return PROBE_ORDER_WRONG_BUFFER;
    if (bytes > PROBE_BUFFERS * PROBE_BUFFER_BYTES - order->used_bytes)
        return PROBE_ORDER_TOO_MUCH;
    order->shared |= order->used_bytes > 0;
    order->spanned |= bytes > PROBE_BUFFER_BYTES - order->used_bytes;
    while (bytes > 0) {
        const uint32_t piece = (uint32_t)base_min_u64(bytes, PROBE_BUFFER_BYTES - order->used_bytes);
        if (!bytes_are_right(order, piece))
            return PROBE_ORDER_WRONG_BYTE;
        order->received_bytes += piece;
        order->used_bytes += piece;
        bytes -= piece;
        /* The last buffer goes on only where buffers are shared, and the kernel says so. */
        if (order->used_bytes == PROBE_BUFFER_BYTES || (bytes == 0 && !(order->incremental && more)))
            order_recycle(order, done);
    }
    return PROBE_ORDER_RIGHT;
}
