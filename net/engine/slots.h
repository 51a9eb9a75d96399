/* Free numbers below a limit, last in first out: which record of a fixed table is free. */
#ifndef MILLRACE_NET_ENGINE_SLOTS_H
#define MILLRACE_NET_ENGINE_SLOTS_H

#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/status.h"

#define NET_SLOT_NONE UINT32_MAX

struct net_slots {
    uint32_t *free;
    uint32_t free_count, count;
};

/* Free with net_slots_close. BASE_NO_MEMORY. */
static inline enum base_status net_slots_open(struct net_slots *slots, uint32_t count)
{
    slots->free = calloc((size_t)count + 1, sizeof *slots->free); /* count may be 0 */
    if (!slots->free)
        return BASE_NO_MEMORY;
    slots->count = count;
    slots->free_count = count;
    for (uint32_t i = 0; i < count; i++)
        slots->free[i] = count - 1 - i;
    return BASE_OK;
}

static inline void net_slots_close(struct net_slots *slots)
{
    free(slots->free);
    slots->free = NULL;
}

/* NET_SLOT_NONE when all are taken. */
static inline uint32_t net_slots_take(struct net_slots *slots)
{
    return slots->free_count == 0 ? NET_SLOT_NONE : slots->free[--slots->free_count];
}

static inline void net_slots_give(struct net_slots *slots, uint32_t slot)
{
    BASE_ASSERT(slots->free_count < slots->count && slot < slots->count);
    slots->free[slots->free_count++] = slot;
}

static inline uint32_t net_slots_taken(const struct net_slots *slots)
{
    BASE_ASSERT(slots->free_count <= slots->count);
    return slots->count - slots->free_count;
}

#endif
