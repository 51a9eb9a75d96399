#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory/memory.h"

enum { ALIGN_MAX = 4096 };

/* At the start of every mapping. The newest block leads the list and is filled first; the oldest ends it and survives a
 * reset. */
struct arena_block {
    struct arena_block *older;
    size_t mapped_bytes;
    size_t used_bytes; /* this header included */
};

struct base_arena {
    struct base_governor *governor;
    enum base_holder holder;
    size_t block_bytes;
    struct arena_block *newest;
    uint64_t mapped_bytes;
};

enum base_status base_arena_open(struct base_governor *governor, enum base_holder holder, size_t block_bytes,
                                 struct base_arena **arena, struct base_error *error)
{
    struct base_arena *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for an arena's control structure");
    *opened = (struct base_arena){.governor = governor, .holder = holder, .block_bytes = block_bytes};
    *arena = opened;
    return BASE_OK;
}

/* NULL when the block has no room. */
static void *block_alloc(struct arena_block *block, size_t bytes, size_t align)
{
    uintptr_t base = (uintptr_t)block;
    size_t start = base_align_up(base + block->used_bytes, align) - base;
    if (start > block->mapped_bytes || bytes > block->mapped_bytes - start)
        return NULL;
    block->used_bytes = start + bytes;
    return (uint8_t *)block + start;
}

static struct arena_block *block_map(struct base_arena *arena, size_t bytes, struct base_error *error)
{
    void *pages;
    if (base_pages_map(arena->governor, arena->holder, bytes, false, &pages, error) != BASE_OK)
        return NULL;
    struct arena_block *block = pages;
    *block = (struct arena_block){.mapped_bytes = base_align_up(bytes, 4096), .used_bytes = sizeof *block};
    arena->mapped_bytes += block->mapped_bytes;
    return block;
}

static void block_unmap(struct base_arena *arena, struct arena_block *block)
{
    arena->mapped_bytes -= block->mapped_bytes;
    base_pages_unmap(arena->governor, arena->holder, block, block->mapped_bytes);
}

void *base_arena_alloc(struct base_arena *arena, size_t bytes, size_t align, struct base_error *error)
{
    BASE_ASSERT(align > 0 && align <= ALIGN_MAX && (align & (align - 1)) == 0);
    if (arena->newest) {
        void *found = block_alloc(arena->newest, bytes, align);
        if (found)
            return found;
    }

    size_t needed_bytes;
    if (__builtin_add_overflow(bytes, sizeof(struct arena_block) + align, &needed_bytes)) {
        base_error_set(error, BASE_TOO_LARGE, "%s ask for %zu bytes at once", base_holder_words(arena->holder), bytes);
        return NULL;
    }
    bool oversized = needed_bytes > arena->block_bytes;
    struct arena_block *block = block_map(arena, oversized ? needed_bytes : arena->block_bytes, error);
    if (!block)
        return NULL;
    if (oversized && arena->newest) {
        /* Behind the newest, which keeps its room for the small requests to come. */
        block->older = arena->newest->older;
        arena->newest->older = block;
    } else {
        block->older = arena->newest;
        arena->newest = block;
    }
    void *allocated = block_alloc(block, bytes, align);
    BASE_ASSERT(allocated);
    return allocated;
}

void base_arena_reset(struct base_arena *arena)
{
    struct arena_block *block = arena->newest;
    if (!block)
        return;
    while (block->older) {
        struct arena_block *older = block->older;
        block_unmap(arena, block);
        block = older;
    }
    block->used_bytes = sizeof *block;
    arena->newest = block;
}

void base_arena_close(struct base_arena *arena)
{
    if (!arena)
        return;
    base_arena_reset(arena);
    if (arena->newest)
        block_unmap(arena, arena->newest);
    free(arena);
}

uint64_t base_arena_bytes(const struct base_arena *arena)
{
    return arena->mapped_bytes;
}
