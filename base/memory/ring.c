/* Positions count up for ever and are reduced to a slot by a mask; 2^64 hand-overs do not happen. Each side owns one
 * position and keeps a copy of the other's, refreshed only when the copy says full or empty: in a steady flow the two
 * sides seldom touch the same cache line. */
#include "base/memory/ring.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"

enum { LINE_BYTES = 64, CAPACITY_MAX = 1 << 30 };

struct base_ring {
    uint64_t mask;

    alignas(LINE_BYTES) _Atomic uint64_t tail; /* written by the producer */
    uint64_t head_seen;                        /* the producer's copy of head */

    alignas(LINE_BYTES) _Atomic uint64_t head; /* written by the consumer */
    uint64_t tail_seen;                        /* the consumer's copy of tail */

    alignas(LINE_BYTES) void *slots[];
};

enum base_status base_ring_open(uint32_t capacity, struct base_ring **ring, struct base_error *error)
{
    BASE_ASSERT(capacity > 0);
    if (capacity > CAPACITY_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "queue for %u items", capacity);
    uint64_t slots = 1;
    while (slots < capacity)
        slots *= 2;
    size_t bytes = base_align_up(sizeof(struct base_ring) + slots * sizeof(void *), LINE_BYTES);
    struct base_ring *opened = aligned_alloc(LINE_BYTES, bytes);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a queue of %u items", capacity);
    memset(opened, 0, bytes);
    opened->mask = slots - 1;
    atomic_init(&opened->tail, 0);
    atomic_init(&opened->head, 0);
    *ring = opened;
    return BASE_OK;
}

void base_ring_close(struct base_ring *ring)
{
    free(ring);
}

bool base_ring_push(struct base_ring *ring, void *item)
{
    BASE_ASSERT(item);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen > ring->mask)
            return false;
    }
    ring->slots[tail & ring->mask] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

void *base_ring_pop(struct base_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->tail_seen)
            return NULL;
    }
    void *item = ring->slots[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

bool base_ring_empty(const struct base_ring *ring)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return head == atomic_load_explicit(&ring->tail, memory_order_acquire);
}
