/* The queue is an array written once from front to back: `published` (release) says how much of it is valid, `next` is
 * the atomic counter by which workers deal themselves. A take that overshoots gives its ticket back by
 * compare-and-swap, so no morsel is skipped. */
#include "shuffle/source/morsel.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct shuffle_morsel_queue {
    uint64_t capacity;
    uint32_t low_mark;
    void (*low)(void *context);
    void *context;
    struct shuffle_morsel *morsel;
    _Alignas(64) _Atomic uint64_t published;
    _Atomic bool ended;
    _Atomic uint64_t limit; /* number of a morsel */
    _Alignas(64) _Atomic uint64_t next;
};

enum base_status shuffle_morsel_queue_open(uint64_t capacity, uint32_t low_mark, void (*low)(void *context),
                                           void *context, struct shuffle_morsel_queue **queue, struct base_error *error)
{
    struct shuffle_morsel_queue *made = aligned_alloc(64, sizeof *made);
    struct shuffle_morsel *morsel = calloc(capacity > 0 ? capacity : 1, sizeof *morsel);
    if (!made || !morsel) {
        free(made);
        free(morsel);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a queue of %" PRIu64 " morsels", capacity);
    }
    memset(made, 0, sizeof *made);
    made->capacity = capacity;
    atomic_init(&made->limit, UINT64_MAX);
    made->low_mark = low_mark;
    made->low = low;
    made->context = context;
    made->morsel = morsel;
    *queue = made;
    return BASE_OK;
}

enum base_status shuffle_morsel_queue_append(struct shuffle_morsel_queue *queue, const struct shuffle_morsel *morsels,
                                             uint64_t count, struct base_error *error)
{
    const uint64_t published = atomic_load_explicit(&queue->published, memory_order_relaxed);
    BASE_ASSERT(published <= queue->capacity && atomic_load_explicit(&queue->next, memory_order_relaxed) <= published);
    if (count > queue->capacity - published)
        return base_error_set(error, BASE_TOO_LARGE, "%" PRIu64 " morsels lent to a queue made for %" PRIu64,
                              published + count, queue->capacity);
    if (count > 0)
        memcpy(queue->morsel + published, morsels, count * sizeof *morsels);
    atomic_store_explicit(&queue->published, published + count, memory_order_release);
    return BASE_OK;
}

void shuffle_morsel_queue_end(struct shuffle_morsel_queue *queue)
{
    atomic_store_explicit(&queue->ended, true, memory_order_release);
}

void shuffle_morsel_queue_limit(struct shuffle_morsel_queue *queue, uint64_t limit)
{
    uint64_t before = atomic_load_explicit(&queue->limit, memory_order_relaxed);
    while (limit < before && !atomic_compare_exchange_weak_explicit(&queue->limit, &before, limit, memory_order_relaxed,
                                                                    memory_order_relaxed))
        continue;
}

uint64_t shuffle_morsel_queue_limited(const struct shuffle_morsel_queue *queue)
{
    return atomic_load_explicit(&queue->limit, memory_order_relaxed);
}

bool shuffle_morsel_queue_spent(const struct shuffle_morsel_queue *queue)
{
    const uint64_t published = atomic_load_explicit(&queue->published, memory_order_acquire);
    const uint64_t next = atomic_load_explicit(&queue->next, memory_order_relaxed);
    return next >= published || queue->morsel[next].index >= shuffle_morsel_queue_limited(queue);
}

enum base_status shuffle_morsel_queue_take(struct shuffle_morsel_queue *queue, struct shuffle_morsel *morsel)
{
    /* Looked at before `published`: what was appended before the end is seen once the end is. */
    const bool ended = atomic_load_explicit(&queue->ended, memory_order_acquire);
    const uint64_t published = atomic_load_explicit(&queue->published, memory_order_acquire);
    const uint64_t limit = shuffle_morsel_queue_limited(queue);
    uint64_t ticket = atomic_load_explicit(&queue->next, memory_order_relaxed);
    do {
        if (ticket >= published)
            return ended && limit == UINT64_MAX ? BASE_END : BASE_BUSY;
        if (queue->morsel[ticket].index >= limit)
            return BASE_BUSY;
    } while (!atomic_compare_exchange_weak_explicit(&queue->next, &ticket, ticket + 1, memory_order_relaxed,
                                                    memory_order_relaxed));
    BASE_ASSERT(ticket < published && published <= queue->capacity); /* each is dealt once, after it is there */
    *morsel = queue->morsel[ticket];
    if (queue->low && !ended && published - ticket - 1 < queue->low_mark)
        queue->low(queue->context);
    return BASE_OK;
}

uint64_t shuffle_morsel_queue_taken(const struct shuffle_morsel_queue *queue)
{
    return atomic_load_explicit(&queue->next, memory_order_relaxed);
}

void shuffle_morsel_queue_close(struct shuffle_morsel_queue *queue)
{
    if (!queue)
        return;
    free(queue->morsel);
    free(queue);
}
