/* Scan of a generated relation: rows that depend on (seed, row number) alone, so that any worker can make any of them.
 *
 * Rows are images, key first, then payload; without the payload in the projection it is not made. Streamed, a batch is
 * made into one reusable block; preloaded, all rows are there before the clock starts and batches point at them.
 *
 * Keys: unique and stride are functions of the row number; uniform and Zipf are drawn from the counter generator. The
 * unique keys of N rows are 0..N-1 in scattered order: row i has (i * multiplier + offset) mod N, where the multiplier
 * has no factor in common with N. So uniform:N and unique rows of the same N meet. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/random.h"
#include "shuffle/scan/internal.h"

enum { KEY_BYTES = 8, KEY_OF_ONE = 1, BLOCK_BYTES = 256 << 10 };

struct gen_scan {
    struct shuffle_scan scan;
    struct base_zipf zipf;
    uint64_t multiplier, offset; /* of unique keys */
    uint32_t row_bytes;          /* of the images made: with or without payload */
    bool image;                  /* a row of the projection is a row made */
    uint8_t *block;              /* batch_rows rows */
    size_t block_bytes;
    uint32_t batch_rows; /* fewer than SHUFFLE_BATCH_ROWS when rows are large */
    uint8_t *preloaded;  /* rows [preload_begin, preload_end), or NULL */
    size_t preloaded_bytes;
    uint64_t preload_begin, preload_end;
    uint64_t at, end; /* what is left of the morsel */
};

static struct gen_scan *gen_of(const struct shuffle_scan *scan)
{
    return (struct gen_scan *)(uintptr_t)scan;
}

static const struct shuffle_generator *generator_of(const struct gen_scan *gen)
{
    return &gen->scan.config.relation->generator;
}

/* ---- keys ---- */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void prepare_unique(struct gen_scan *gen)
{
    const struct shuffle_generator *generator = generator_of(gen);
    const uint64_t rows = base_max_u64(generator->rows, 1);
    gen->offset = base_random_at(generator->seed, 0) % rows;
    gen->multiplier = base_random_at(generator->seed, 1) % rows;
    while (greatest_common_divisor(gen->multiplier, rows) != 1)
        gen->multiplier = (gen->multiplier + 1) % rows;
}

static uint64_t uniform_below(uint64_t seed, uint64_t row, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)base_random_at(seed, row) * bound) >> 64);
}

/* Keys of rows [first, first + count), one every row_bytes. */
static void make_unique_keys(const struct gen_scan *gen, uint64_t first, uint64_t count, uint8_t *to)
{
    const uint64_t rows = generator_of(gen)->rows;
    uint64_t key = (uint64_t)(((unsigned __int128)first * gen->multiplier + gen->offset) % rows);
    for (uint64_t i = 0; i < count; i++, to += gen->row_bytes) {
        base_store_u64(to, key);
        key += gen->multiplier; /* below 2^63 each, so that the sum does not wrap */
        key -= key >= rows ? rows : 0;
    }
}

static void make_keys(const struct gen_scan *gen, uint64_t first, uint64_t count, uint8_t *to)
{
    const struct shuffle_generator *generator = generator_of(gen);
    const uint32_t row_bytes = gen->row_bytes;
    switch (generator->keys) {
    case SHUFFLE_KEYS_UNIQUE:
        make_unique_keys(gen, first, count, to);
        break;
    case SHUFFLE_KEYS_UNIFORM:
        for (uint64_t i = 0; i < count; i++, to += row_bytes)
            base_store_u64(to, uniform_below(generator->seed, first + i, generator->key_count));
        break;
    case SHUFFLE_KEYS_ZIPF:
        for (uint64_t i = 0; i < count; i++, to += row_bytes)
            base_store_u64(to, base_zipf_at(&gen->zipf, generator->seed, first + i));
        break;
    case SHUFFLE_KEYS_ONE:
        for (uint64_t i = 0; i < count; i++, to += row_bytes)
            base_store_u64(to, KEY_OF_ONE);
        break;
    case SHUFFLE_KEYS_STRIDE:
        for (uint64_t i = 0; i < count; i++, to += row_bytes)
            base_store_u64(to, (first + i) << 32);
        break;
    }
}

/* ---- payloads ---- */

/* Words that differ within a row and between rows, cheap enough to be made faster than memory takes them. */
static void make_payload(uint64_t seed, uint64_t row, uint8_t *to, uint32_t bytes)
{
    uint64_t state = base_random_at(~seed, row);
    uint32_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        base_store_u64(to + at, state ^ state >> 32);
        state += UINT64_C(0x9e3779b97f4a7c15);
    }
    if (at < bytes) {
        const uint64_t word = state ^ state >> 32;
        memcpy(to + at, &word, bytes - at);
    }
}

/* At most batch_rows of them: keys and payloads are made in two loops, the second over what is still in the cache. */
static void make_batch(const struct gen_scan *gen, uint64_t first, uint64_t count, uint8_t *to)
{
    BASE_ASSERT(count <= gen->batch_rows && count <= generator_of(gen)->rows &&
                first <= generator_of(gen)->rows - count);
    make_keys(gen, first, count, to);
    const uint64_t seed = generator_of(gen)->seed;
    const uint32_t bytes = gen->row_bytes - KEY_BYTES;
    for (uint64_t i = 0; bytes > 0 && i < count; i++)
        make_payload(seed, first + i, to + i * gen->row_bytes + KEY_BYTES, bytes);
}

/* ---- the scan ---- */

static enum base_status gen_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                  struct base_error *error)
{
    struct gen_scan *gen = gen_of(scan);
    if (morsel->begin > morsel->end || morsel->end > generator_of(gen)->rows)
        return base_error_set(error, BASE_INVALID,
                              "a morsel of rows %" PRIu64 " to %" PRIu64 " is not within the relation", morsel->begin,
                              morsel->end);
    gen->at = morsel->begin;
    gen->end = morsel->end;
    return BASE_OK;
}

/* Points the batch at `rows` rows made at `from`. */
static void generated_point_batch(struct gen_scan *gen, const uint8_t *from, uint32_t rows, bool pinned)
{
    struct shuffle_batch *batch = &gen->scan.batch;
    batch->rows = rows;
    batch->image = gen->image ? from : NULL;
    batch->pinned = gen->image && pinned;
    for (uint32_t i = 0; i < gen->scan.config.project_count; i++)
        batch->column[i] = (struct shuffle_column){.data = from + (gen->scan.config.project[i] == 0 ? 0 : KEY_BYTES),
                                                   .stride = gen->row_bytes};
}

static enum base_status gen_next(struct shuffle_scan *scan, struct base_error *error)
{
    (void)error;
    struct gen_scan *gen = gen_of(scan);
    if (gen->at == gen->end)
        return BASE_END;
    uint64_t rows = base_min_u64(gen->end - gen->at, gen->batch_rows);
    const bool preloaded = gen->at >= gen->preload_begin && gen->at < gen->preload_end;
    const uint8_t *from = gen->block;
    if (preloaded) {
        rows = base_min_u64(rows, gen->preload_end - gen->at);
        from = gen->preloaded + (gen->at - gen->preload_begin) * gen->row_bytes;
    } else {
        if (gen->at < gen->preload_begin)
            rows = base_min_u64(rows, gen->preload_begin - gen->at);
        make_batch(gen, gen->at, rows, gen->block);
    }
    gen->at += rows;
    BASE_ASSERT(rows > 0 && gen->at <= gen->end);
    generated_point_batch(gen, from, (uint32_t)rows, preloaded);
    return BASE_OK;
}

static void drop_preloaded(struct gen_scan *gen)
{
    if (gen->preloaded)
        base_pages_unmap(gen->scan.config.governor, BASE_HOLDER_PRELOAD, gen->preloaded, gen->preloaded_bytes);
    gen->preloaded = NULL;
    gen->preload_begin = gen->preload_end = 0;
}

static enum base_status gen_preload(struct shuffle_scan *scan, uint64_t begin, uint64_t end, struct base_error *error)
{
    struct gen_scan *gen = gen_of(scan);
    if (end > generator_of(gen)->rows)
        return base_error_set(error, BASE_INVALID,
                              "rows %" PRIu64 " to %" PRIu64 " to preload are not within the relation", begin, end);
    drop_preloaded(gen);
    size_t bytes;
    if (__builtin_mul_overflow(end - begin, gen->row_bytes, &bytes))
        return base_error_set(error, BASE_TOO_LARGE, "%" PRIu64 " rows of %u bytes are too many to preload",
                              end - begin, gen->row_bytes);
    if (bytes == 0)
        return BASE_OK;
    void *pages;
    const enum base_status status =
        base_pages_map(scan->config.governor, BASE_HOLDER_PRELOAD, bytes, true, &pages, error);
    if (status != BASE_OK)
        return status;
    gen->preloaded = pages;
    gen->preloaded_bytes = bytes;
    for (uint64_t at = begin; at < end; at += gen->batch_rows)
        make_batch(gen, at, base_min_u64(gen->batch_rows, end - at), gen->preloaded + (at - begin) * gen->row_bytes);
    gen->preload_begin = begin;
    gen->preload_end = end;
    return BASE_OK;
}

static void gen_event(struct shuffle_scan *scan, const struct net_event *event)
{
    (void)scan;
    BASE_ASSERT(!event); /* a generated relation has no file operations */
}

static bool gen_idle(const struct shuffle_scan *scan)
{
    (void)scan;
    return true;
}

static uint64_t gen_input_bytes(const struct shuffle_scan *scan)
{
    return scan->rows * gen_of(scan)->row_bytes;
}

static void gen_close(struct shuffle_scan *scan)
{
    struct gen_scan *gen = gen_of(scan);
    drop_preloaded(gen);
    if (gen->block)
        base_pages_unmap(scan->config.governor, BASE_HOLDER_SCAN, gen->block, gen->block_bytes);
    shuffle_scan_release(scan);
    free(gen);
}

static const struct shuffle_scan_ops gen_ops = {.begin = gen_begin,
                                                .next = gen_next,
                                                .event = gen_event,
                                                .idle = gen_idle,
                                                .input_bytes = gen_input_bytes,
                                                .close = gen_close,
                                                .preload = gen_preload};

/* Which rows to make for the projection, and whether they are its images. */
static void choose_image(struct gen_scan *gen)
{
    const struct shuffle_scan_config *config = &gen->scan.config;
    bool payload = false, in_order = true;
    for (uint32_t i = 0; i < config->project_count; i++) {
        payload |= config->project[i] == 1;
        in_order &= config->project[i] == i;
    }
    gen->row_bytes = payload ? generator_of(gen)->row_bytes : KEY_BYTES;
    gen->image = in_order && config->project_count == (payload ? 2 : 1);
}

enum base_status shuffle_gen_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                       struct base_error *error)
{
    struct gen_scan *gen = calloc(1, sizeof *gen);
    if (!gen)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan");
    enum base_status status = shuffle_scan_prepare(&gen->scan, &gen_ops, config, error);
    if (status == BASE_OK) {
        choose_image(gen);
        gen->batch_rows = (uint32_t)base_max_u64(base_min_u64(BLOCK_BYTES / gen->row_bytes, SHUFFLE_BATCH_ROWS), 1);
        gen->block_bytes = (size_t)gen->row_bytes * gen->batch_rows;
        void *block;
        status = base_pages_map(config->governor, BASE_HOLDER_SCAN, gen->block_bytes, true, &block, error);
        gen->block = status == BASE_OK ? block : NULL;
    }
    if (status != BASE_OK) {
        gen_close(&gen->scan);
        return status;
    }
    prepare_unique(gen);
    if (generator_of(gen)->keys == SHUFFLE_KEYS_ZIPF)
        base_zipf_prepare(&gen->zipf, generator_of(gen)->key_count, generator_of(gen)->zipf_exponent);
    *scan = &gen->scan;
    return BASE_OK;
}
