/* Memory registered with the ring: the kernel pins it once, and a zero-copy send from it takes no page reference of its
 * own. What cannot be registered - the limit of locked memory, a full table - is sent from all the same, unregistered.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/uring/internal.h"

/* Pieces of memory registered at once; a pool grows by slabs of 256 KiB or one frame. */
enum { URING_MEMORY_RANGES_MAX = 512 };

/* What the kernel takes as one. */
#define URING_MEMORY_BYTES_MAX (UINT64_C(1) << 30)

static const char *uring_memory_why(int os_error)
{
    return os_error == ENOMEM ? "the limit of locked memory is too small for the send buffers: raise ulimit -l"
                              : strerror(os_error);
}

/* One-shot receives have the ring's table of buffers to themselves. */
static bool uring_memory_wanted(const struct uring_engine *engine)
{
    return uring_has(engine, NET_FEATURE_REGISTERED_BUFFERS) && engine->receiver != &uring_receiver_oneshot;
}

static int uring_memory_set(struct uring_engine *engine, uint32_t slot, void *memory, size_t bytes)
{
    struct iovec piece = {.iov_base = memory, .iov_len = bytes};
    int result = io_uring_register_buffers_update_tag(&engine->ring, slot, &piece, NULL, 1);
    return result < 0 ? -result : 0;
}

/* Tries it with memory that is there: what the chunks take, a worker's frames will take, too. */
void uring_memory_enable(struct uring_engine *engine)
{
    struct uring_memory *memory = &engine->memory;
    const bool by_area = engine->area.data;
    void *const there = by_area ? engine->area.data : engine->chunks.data;
    const size_t there_bytes = by_area ? engine->area.bytes : engine->chunks.bytes;

    if (!uring_memory_wanted(engine))
        return;
    if (!uring_has(engine, NET_FEATURE_SEND_ZC)) {
        net_engine_miss_too(&engine->base, NET_FEATURE_REGISTERED_BUFFERS);
        return;
    }
    memory->ranges = calloc(URING_MEMORY_RANGES_MAX, sizeof *memory->ranges);
    int os_error = !memory->ranges || net_slots_open(&memory->slots, URING_MEMORY_RANGES_MAX) != BASE_OK
                       ? ENOMEM
                       : -io_uring_register_buffers_sparse(&engine->ring, URING_MEMORY_RANGES_MAX);
    if (os_error == 0) {
        os_error = uring_memory_set(engine, 0, there, base_min_u64(there_bytes, URING_MEMORY_BYTES_MAX));
        (void)uring_memory_set(engine, 0, NULL, 0);
    }
    if (os_error != 0)
        net_engine_miss(&engine->base, NET_FEATURE_REGISTERED_BUFFERS, uring_memory_why(os_error));
}

void uring_memory_close(struct uring_engine *engine)
{
    BASE_ASSERT(engine->memory.count == 0);
    net_slots_close(&engine->memory.slots);
    free(engine->memory.ranges);
}

/* Number of ranges that begin at or before address. */
static uint32_t uring_memory_rank(const struct uring_memory *memory, uintptr_t address)
{
    uint32_t low = 0, high = memory->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (memory->ranges[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void uring_memory_register(struct net_engine *base, void *begin, size_t bytes)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    struct uring_memory *memory = &engine->memory;

    if (!uring_memory_wanted(engine))
        return;
    uint32_t slot = net_slots_take(&memory->slots);
    int os_error = slot == NET_SLOT_NONE ? ENOSPC : uring_memory_set(engine, slot, begin, bytes);
    if (os_error != 0) {
        if (slot != NET_SLOT_NONE)
            net_slots_give(&memory->slots, slot);
        if (!memory->complained)
            base_log_warn("engine %s: some send buffers are not registered: %s", base->name,
                          slot == NET_SLOT_NONE ? "the table of registered memory is full: use larger frames"
                                                : uring_memory_why(os_error));
        memory->complained = true;
        return;
    }
    uint32_t rank = uring_memory_rank(memory, (uintptr_t)begin);
    memmove(memory->ranges + rank + 1, memory->ranges + rank, (memory->count - rank) * sizeof *memory->ranges);
    memory->ranges[rank] =
        (struct uring_memory_range){.begin = (uintptr_t)begin, .end = (uintptr_t)begin + bytes, .slot = slot};
    memory->count++;
    BASE_ASSERT(memory->count <= URING_MEMORY_RANGES_MAX);
    BASE_ASSERT(rank == 0 || memory->ranges[rank - 1].end <= (uintptr_t)begin); /* no two overlap */
}

void uring_memory_unregister(struct net_engine *base, void *begin)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    struct uring_memory *memory = &engine->memory;
    uint32_t rank = uring_memory_rank(memory, (uintptr_t)begin);

    if (rank == 0 || memory->ranges[rank - 1].begin != (uintptr_t)begin)
        return; /* it was not to be had */
    struct uring_memory_range *range = &memory->ranges[rank - 1];
    (void)uring_memory_set(engine, range->slot, NULL, 0);
    net_slots_give(&memory->slots, range->slot);
    memmove(range, range + 1, (memory->count - rank) * sizeof *range);
    memory->count--;
}

int uring_memory_find(const struct uring_engine *engine, const void *data, size_t bytes)
{
    const struct uring_memory *memory = &engine->memory;
    const uintptr_t begin = (uintptr_t)data;
    uint32_t rank = uring_memory_rank(memory, begin);

    if (rank == 0 || memory->ranges[rank - 1].end - begin < bytes || memory->ranges[rank - 1].end < begin)
        return URING_MEMORY_NONE;
    return (int)memory->ranges[rank - 1].slot;
}
