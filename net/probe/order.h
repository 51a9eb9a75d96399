/* Do the bytes of a stream arrive in the provided buffers that they must arrive in? The bookkeeping of
 * net/probe/receive.c without a kernel, so that tests can play one that gets it wrong. Inside net/ and its tests only.
 */
#ifndef MILLRACE_NET_PROBE_ORDER_H
#define MILLRACE_NET_PROBE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PROBE_BUFFERS = 16, /* a power of two, for the ring */
    PROBE_BUFFER_BYTES = 4096
};

/* Buffers are used in the order in which they were given to the kernel; one that is used up is given again at once. */
struct probe_order {
    const uint8_t *memory;          /* PROBE_BUFFERS buffers */
    bool incremental;               /* a buffer goes on with the next completion, until the kernel says otherwise */
    uint16_t buffer[PROBE_BUFFERS]; /* from `first` on, around the end */
    uint32_t first, used_bytes;     /* of the first buffer */
    uint64_t received_bytes;
    bool spanned, shared; /* one completion had several buffers; several completions had one buffer */
};

enum probe_order_verdict { PROBE_ORDER_RIGHT, PROBE_ORDER_WRONG_BUFFER, PROBE_ORDER_WRONG_BYTE, PROBE_ORDER_TOO_MUCH };

/* What one completion used up: to be given to the kernel again, in this order. */
struct probe_order_done {
    uint16_t buffer[PROBE_BUFFERS];
    uint32_t count;
};

/* The kernel has the buffers 0, 1, 2 and so on; memory is borrowed. */
void probe_order_begin(const uint8_t *memory, bool incremental, struct probe_order *order);
/* Takes a completion of `bytes` that begins in `buffer`; more: the kernel keeps the last buffer
 * (IORING_CQE_F_BUF_MORE). */
enum probe_order_verdict probe_order_take(struct probe_order *order, uint16_t buffer, uint32_t bytes, bool more,
                                          struct probe_order_done *done);
/* The stream's byte at a position: no two whole buffers look alike within 16 MiB. */
uint8_t probe_order_byte(uint64_t position);

#endif
