/* The memory governor, and what memory is taken from it as: pages, arenas and pools.
 *
 * A node has one governor; its budget is `--memory`. Every large buffer (frames, chunks, tables, row stores, scan and
 * sink buffers) is drawn from it under the name of its holder, so that a report can say who holds what and an error can
 * say how much was needed. Small control structures are not governed. Memory follows work in flight: whoever draws
 * returns.
 */
#ifndef MILLRACE_BASE_MEMORY_MEMORY_H
#define MILLRACE_BASE_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* X(name, words): who may hold governed memory. */
#define BASE_HOLDER_LIST(X)                                                                                            \
    X(FRAMES, "lane frames")                                                                                           \
    X(CHUNKS, "receive chunks")                                                                                        \
    X(STITCH, "rows cut by a chunk's edge")                                                                            \
    X(DIRECTORY, "hash table directories")                                                                             \
    X(ROWS, "hash table rows")                                                                                         \
    X(SCAN, "scan buffers")                                                                                            \
    X(PRELOAD, "preloaded relations")                                                                                  \
    X(OUTPUT, "output buffers")                                                                                        \
    X(BLOCKS, "blocks to send")

enum base_holder {
#define X(name, words) BASE_HOLDER_##name,
    BASE_HOLDER_LIST(X)
#undef X
        BASE_HOLDER_COUNT
};

const char *base_holder_words(enum base_holder holder);

/* Thread safe: counters are atomic; drawing happens in large pieces and never on a per-row path. */
struct base_governor;

/* budget_bytes 0 means unlimited. The caller closes it; closing with bytes still drawn logs each holder and its bytes.
 */
enum base_status base_governor_open(uint64_t budget_bytes, struct base_governor **governor, struct base_error *error);
void base_governor_close(struct base_governor *governor);
/* BASE_NO_MEMORY when the budget does not cover it; the text names the holder of most, what was asked for and by whom,
 * the budget and, where it was expected, what all would have needed. */
enum base_status base_governor_draw(struct base_governor *governor, enum base_holder holder, uint64_t bytes,
                                    struct base_error *error);
void base_governor_return(struct base_governor *governor, enum base_holder holder, uint64_t bytes);
/* The error that such a draw gives, for who came to know of it later. Returns its status. */
enum base_status base_governor_refuse(const struct base_governor *governor, enum base_holder holder, uint64_t bytes,
                                      struct base_error *error);
/* A holder says what it will need in all, before it draws; once more with `end` when it is done. For messages only. */
void base_governor_expect(struct base_governor *governor, enum base_holder holder, uint64_t bytes, bool end);
uint64_t base_governor_used_bytes(const struct base_governor *governor);
uint64_t base_governor_peak_bytes(const struct base_governor *governor);
uint64_t base_governor_budget_bytes(const struct base_governor *governor);
uint64_t base_governor_holder_bytes(const struct base_governor *governor, enum base_holder holder);
/* Starts a new peak at the present use (a job's report gives the job's peak). */
void base_governor_peak_reset(struct base_governor *governor);

/* Page-granular zeroed memory. bytes is rounded up to whole pages (at least one); prefault touches every page now so
 * that no fault happens on a hot path; from 2 MiB on the mapping is aligned for transparent huge pages. Free with the
 * same bytes. */
enum base_status base_pages_map(struct base_governor *governor, enum base_holder holder, size_t bytes, bool prefault,
                                void **pages, struct base_error *error);
void base_pages_unmap(struct base_governor *governor, enum base_holder holder, void *pages, size_t bytes);

/* Arena: one per lifetime (job, phase, batch), released as a whole. Not thread safe: one owner. */
struct base_arena;

/* Blocks of block_bytes are mapped as needed (larger for a larger request). */
enum base_status base_arena_open(struct base_governor *governor, enum base_holder holder, size_t block_bytes,
                                 struct base_arena **arena, struct base_error *error);
/* align is a power of two up to 4096. NULL when the budget is exhausted, *error then says so. Memory is zeroed on first
 * use of a block, not after a reset. */
void *base_arena_alloc(struct base_arena *arena, size_t bytes, size_t align, struct base_error *error);
/* Forgets all allocations, keeps the first block. */
void base_arena_reset(struct base_arena *arena);
void base_arena_close(struct base_arena *arena);
uint64_t base_arena_bytes(const struct base_arena *arena);

/* Pool of equal buffers with one owner thread, growing by one slab at a time up to buffers_max. Debug builds record
 * whether each buffer is free or taken, and assert each hand-over; they also scribble over a buffer given back, so that
 * whoever still reads it (a kernel that sends from it, for one) reads nonsense. */
struct base_pool;

/* name is for messages and must outlive the pool. Buffers are aligned to 64 bytes. */
enum base_status base_pool_open(struct base_governor *governor, enum base_holder holder, const char *name,
                                size_t buffer_bytes, uint32_t buffers_max, struct base_pool **pool,
                                struct base_error *error);
/* NULL when buffers_max are out or the budget is exhausted: not an error, ask again later. */
void *base_pool_take(struct base_pool *pool);
void base_pool_give(struct base_pool *pool, void *buffer);
size_t base_pool_buffer_bytes(const struct base_pool *pool);
/* The slabs so far, for those who register memory: a slab keeps its number and place until the pool closes, and new
 * ones come after. */
uint32_t base_pool_slabs(const struct base_pool *pool);
void *base_pool_slab(const struct base_pool *pool, uint32_t index, size_t *bytes);
uint32_t base_pool_taken(const struct base_pool *pool);
/* Buffers are numbered from 0 in the order in which they came to be; a buffer's number stays. */
uint32_t base_pool_number(const struct base_pool *pool, const void *buffer);
/* Writes who has a buffer that was taken, as it says itself, in text_bytes. */
typedef void base_pool_holder_fn(const void *buffer, char *text, size_t text_bytes);
/* Buffers say who has them: for those that are missing when the pool is closed. */
void base_pool_ask(struct base_pool *pool, base_pool_holder_fn *holder);
/* Returns how many buffers were still out (0 is right) after logging their number under the pool's name, and who has
 * each; frees all. Debug builds abort then. */
uint32_t base_pool_close(struct base_pool *pool);

#endif
