/* A pool hands out equal buffers, parts of slabs. Slabs are mapped when a buffer is wanted and none is free, and go
 * back only when the pool closes: addresses stay valid for its whole life, so they can be registered with a kernel
 * ring. Free buffers are kept on a stack: the one given last, whose lines are in the cache, is taken first. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/memory/memory.h"

enum { BUFFER_ALIGN = 64, SLAB_BYTES = 256 << 10, SCRIBBLE = 0xdb, MISSING_TOLD_MAX = 16 };

struct pool_slab {
    uint8_t *buffers;
    uint32_t first; /* index of its first buffer in the pool */
    uint32_t count;
    size_t mapped_bytes;
};

struct base_pool {
    struct base_governor *governor;
    enum base_holder holder;
    const char *name;
    size_t buffer_bytes;
    size_t stride_bytes;
    uint32_t buffers_max;
    uint32_t buffers_made;
    uint32_t free_count;
    uint32_t slab_count;
    void **free;                    /* buffers_max entries, free_count in use */
    struct pool_slab *slabs;        /* buffers_max entries at most: a slab has at least one buffer */
    bool *taken;                    /* by index; debug builds only, otherwise NULL */
    base_pool_holder_fn *holder_of; /* or NULL: buffers do not say who has them */
};

#ifdef NDEBUG
static const bool tracks_holders = false;
#else
static const bool tracks_holders = true;
#endif

enum base_status base_pool_open(struct base_governor *governor, enum base_holder holder, const char *name,
                                size_t buffer_bytes, uint32_t buffers_max, struct base_pool **pool,
                                struct base_error *error)
{
    BASE_ASSERT(buffer_bytes > 0 && buffers_max > 0);
    if (buffer_bytes > SIZE_MAX / 2 / buffers_max)
        return base_error_set(error, BASE_TOO_LARGE, "pool of %s: %u buffers of %zu bytes", name, buffers_max,
                              buffer_bytes);

    struct base_pool *opened = calloc(1, sizeof *opened);
    if (!opened)
        goto no_memory;
    *opened = (struct base_pool){
        .governor = governor,
        .holder = holder,
        .name = name,
        .buffer_bytes = buffer_bytes,
        .stride_bytes = base_align_up(buffer_bytes, BUFFER_ALIGN),
        .buffers_max = buffers_max,
        .free = calloc(buffers_max, sizeof *opened->free),
        .slabs = calloc(buffers_max, sizeof *opened->slabs),
        .taken = tracks_holders ? calloc(buffers_max, sizeof *opened->taken) : NULL,
    };
    if (!opened->free || !opened->slabs || (tracks_holders && !opened->taken))
        goto free_pool;
    *pool = opened;
    return BASE_OK;

free_pool:
    free(opened->taken);
    free(opened->slabs);
    free(opened->free);
    free(opened);
no_memory:
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the control structure of the pool of %s", name);
}

static bool slab_add(struct base_pool *pool, uint32_t count)
{
    struct pool_slab slab = {
        .first = pool->buffers_made,
        .count = count,
        .mapped_bytes = count * pool->stride_bytes,
    };
    void *pages;
    if (base_pages_map(pool->governor, pool->holder, slab.mapped_bytes, true, &pages, NULL) != BASE_OK)
        return false;
    slab.buffers = pages;
    pool->slabs[pool->slab_count++] = slab;
    pool->buffers_made += count;
    for (uint32_t i = count; i > 0; i--)
        pool->free[pool->free_count++] = slab.buffers + (i - 1) * pool->stride_bytes;
    return true;
}

/* A whole slab if the budget has it, otherwise the one buffer that is wanted now. */
static bool pool_grow(struct base_pool *pool)
{
    uint32_t room = pool->buffers_max - pool->buffers_made;
    if (room == 0)
        return false;
    uint64_t fitting = base_max_u64(SLAB_BYTES / pool->stride_bytes, 1);
    uint32_t count = (uint32_t)base_min_u64(fitting, room);
    return slab_add(pool, count) || (count > 1 && slab_add(pool, 1));
}

uint32_t base_pool_number(const struct base_pool *pool, const void *buffer)
{
    uintptr_t address = (uintptr_t)buffer;
    for (uint32_t i = 0; i < pool->slab_count; i++) {
        const struct pool_slab *slab = &pool->slabs[i];
        uintptr_t start = (uintptr_t)slab->buffers;
        if (address < start || address >= start + slab->count * pool->stride_bytes)
            continue;
        BASE_ASSERT((address - start) % pool->stride_bytes == 0);
        return slab->first + (uint32_t)((address - start) / pool->stride_bytes);
    }
    base_assert_failed(__FILE__, __LINE__, "a buffer goes back to the pool it came from");
}

static void buffer_mark(struct base_pool *pool, const void *buffer, bool taken)
{
    if (!tracks_holders)
        return;
    uint32_t index = base_pool_number(pool, buffer);
    BASE_ASSERT(pool->taken[index] != taken);
    pool->taken[index] = taken;
}

void *base_pool_take(struct base_pool *pool)
{
    if (pool->free_count == 0 && !pool_grow(pool))
        return NULL;
    void *buffer = pool->free[--pool->free_count];
    buffer_mark(pool, buffer, true);
    return buffer;
}

void base_pool_give(struct base_pool *pool, void *buffer)
{
    BASE_ASSERT(buffer && pool->free_count < pool->buffers_made);
    buffer_mark(pool, buffer, false);
    if (tracks_holders)
        memset(buffer, SCRIBBLE, pool->buffer_bytes);
    pool->free[pool->free_count++] = buffer;
}

size_t base_pool_buffer_bytes(const struct base_pool *pool)
{
    return pool->buffer_bytes;
}

uint32_t base_pool_slabs(const struct base_pool *pool)
{
    return pool->slab_count;
}

void *base_pool_slab(const struct base_pool *pool, uint32_t index, size_t *bytes)
{
    BASE_ASSERT(index < pool->slab_count);
    *bytes = pool->slabs[index].mapped_bytes;
    return pool->slabs[index].buffers;
}

uint32_t base_pool_taken(const struct base_pool *pool)
{
    return pool->buffers_made - pool->free_count;
}

void base_pool_ask(struct base_pool *pool, base_pool_holder_fn *holder)
{
    BASE_ASSERT(base_pool_taken(pool) == 0);
    pool->holder_of = holder;
}

/* All buffers but the free ones: found by their places, so that nothing need be kept while all goes well. */
static void pool_log_missing(const struct base_pool *pool)
{
    bool *here = calloc(pool->buffers_made, sizeof *here);
    if (!here)
        return;
    for (uint32_t i = 0; i < pool->free_count; i++)
        here[base_pool_number(pool, pool->free[i])] = true;
    uint32_t told = 0;
    for (uint32_t s = 0; s < pool->slab_count; s++) {
        const struct pool_slab *slab = &pool->slabs[s];
        for (uint32_t i = 0; i < slab->count && told < MISSING_TOLD_MAX; i++) {
            if (here[slab->first + i])
                continue;
            char text[160];
            pool->holder_of(slab->buffers + i * pool->stride_bytes, text, sizeof text);
            base_log_error("pool of %s closes without buffer %u: it is held by %s", pool->name, slab->first + i, text);
            told++;
        }
    }
    free(here);
}

uint32_t base_pool_close(struct base_pool *pool)
{
    if (!pool)
        return 0;
    uint32_t missing = base_pool_taken(pool);
    if (missing)
        base_log_error("pool of %s closed with %u of %u buffers still out", pool->name, missing, pool->buffers_made);
    if (missing && pool->holder_of)
        pool_log_missing(pool);
    for (uint32_t i = 0; i < pool->slab_count; i++)
        base_pages_unmap(pool->governor, pool->holder, pool->slabs[i].buffers, pool->slabs[i].mapped_bytes);
    free(pool->taken);
    free(pool->slabs);
    free(pool->free);
    free(pool);
    BASE_ASSERT_SLOW(missing == 0);
    return missing;
}
