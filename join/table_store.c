/* The building half of the hash table.
 *
 * Shape. A directory of link words (table_internal.h) and a row store: blocks of pages in which entries lie one after
 * the other in the order they came, each a link word and the row (or the row's address). An insert reads and writes one
 * random cache line, the head, which was prefetched INSERT_AHEAD rows before; everything else it touches is sequential.
 * It compares nothing, so a key that comes a million times costs no more than a million keys.
 *
 * Why chains with the rows inside and not open addressing. Slots that hold rows of any width must be moved when the
 * table grows, suffer from duplicates (a run of equal keys makes every neighbour's probe long), and must be sized for
 * rows that may never come. Chains pay one more dependent cache miss per probe, which the probe hides by working on a
 * group of rows at once.
 *
 * The filter. An address needs 48 bits, so 16 are left. They hold a Bloom filter of what the word reaches: a probe that
 * misses mostly ends at the head without touching an entry, and one that has matched mostly ends without touching the
 * next. With b bits set per key, the share of foreign keys let through by words that reach 1, 2 and 3 other entries is,
 * for b = 1: 6, 12, 18 %; b = 2: 1, 5, 12 %; b = 4: 0.05, 4, 18 %. Words of a directory that is between half and wholly
 * full mostly reach one or two; b = 2 is best there and costs two shifts, b = 4 a table of patterns. A salt instead of
 * a filter would tell only about the first entry.
 *
 * Growth. The directory doubles before it holds more entries than heads. Rows stay where they are: entries are walked
 * in the order they were written, hashed again in groups, and linked into the new directory; chains are read by nobody
 * meanwhile, so nothing is saved of them. The old directory is given back before the new one is filled. If the budget
 * refuses a larger directory the table goes on with longer chains, because slow is better than failed, and asks again
 * when it has twice the rows.
 *
 * Lifetimes. Blocks live until the table closes and never move, so row pointers handed out by a probe stay good.
 * Referenced rows are the caller's until then. Directory and blocks are drawn from the governor in their full size when
 * mapped; the list of blocks is the only memory outside of it. One worker owns a table; nothing here waits for
 * anything. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/text/size.h"
#include "join/table_internal.h"
#include "shuffle/frames/cut.h"

enum {
    INSERT_AHEAD = 16,  /* rows between a head's prefetch and its use */
    REHASH_GROUP = 256, /* entries hashed again at a time */
    BLOCK_BYTES_MIN = 2 << 20,
    BLOCK_BYTES_MAX = 64 << 20
};
#define HEADS_SAMPLED UINT64_C(4096)
#define HEADS_MIN UINT64_C(512)       /* one page */
#define HEADS_MAX (UINT64_C(1) << 32) /* the hash bits below the filter's */

/* ---- Row store ---- */

static void block_enter(struct join_table *table, uint32_t index)
{
    BASE_ASSERT(index < table->block_count && table->block[index].used == 0); /* blocks are filled once, in order */
    table->block_current = index;
    table->at = table->block[index].start;
    table->limit = table->at + table->block[index].bytes;
}

static enum base_status block_list_reserve(struct join_table *table, struct base_error *error)
{
    if (table->block_count < table->block_capacity)
        return BASE_OK;
    const uint32_t capacity = table->block_capacity ? 2 * table->block_capacity : 16;
    struct join_block *block = realloc(table->block, capacity * sizeof *block);
    if (!block)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the list of a hash table's %" PRIu32 " blocks",
                              capacity);
    table->block = block;
    table->block_capacity = capacity;
    BASE_ASSERT(table->block_count < capacity);
    return BASE_OK;
}

static enum base_status block_append(struct join_table *table, size_t bytes, struct base_error *error)
{
    enum base_status status = block_list_reserve(table, error);
    if (status != BASE_OK)
        return status;
    void *pages;
    status = base_pages_map(table->governor, BASE_HOLDER_ROWS, bytes, table->prefault, &pages, error);
    if (status != BASE_OK)
        return status;
    BASE_ASSERT(((uintptr_t)pages & ~JOIN_LINK_ADDRESS) == 0); /* a link word has no room for other addresses */
    table->block[table->block_count++] = (struct join_block){.start = pages, .bytes = bytes};
    table->block_bytes += bytes;
    return BASE_OK;
}

/* Makes room for an entry of `bytes` at table->at, in the next block that can hold it: of blocks prepared ahead one may
 * be too small for it, and stays empty. Block sizes double the store until they reach their maximum. */
static enum base_status block_next(struct join_table *table, uint64_t bytes, struct base_error *error)
{
    BASE_ASSERT(table->at <= table->limit && bytes % 8 == 0); /* entries stay aligned */
    if (table->block_count)
        table->block[table->block_current].used = (size_t)(table->at - table->block[table->block_current].start);
    uint32_t following = table->block_count ? table->block_current + 1 : 0;
    while (following < table->block_count && table->block[following].bytes < bytes)
        following++;
    if (following == table->block_count) {
        uint64_t wanted = base_max_u64(base_min_u64(table->block_bytes, BLOCK_BYTES_MAX), bytes);
        enum base_status status = block_append(table, base_align_up(wanted, BLOCK_BYTES_MIN), error);
        if (status != BASE_OK)
            return status;
    }
    block_enter(table, following);
    BASE_ASSERT((uint64_t)(table->limit - table->at) >= bytes);
    return BASE_OK;
}

/* What the rows expected will take. */
struct store_expected {
    uint64_t bytes;       /* of all entries, with 1/64 more for the unevenness of hashes; UINT64_MAX: more than that */
    uint64_t entry_bytes; /* of the largest entry */
};

static struct store_expected store_expected(const struct join_table_config *config)
{
    const uint32_t row_bytes = config->layout->row_bytes;
    const bool referenced = row_bytes >= JOIN_TABLE_REFERENCE_BYTES;
    BASE_ASSERT(config->layout->last_variable < 0); /* else the layout does not know the bytes of a row */
    const uint64_t pinned = referenced ? base_min_u64(config->rows_pinned, config->rows_expected) : 0;
    const uint64_t copy_bytes = JOIN_ENTRY_HEAD_BYTES + base_align_up(row_bytes, 8);
    const uint64_t bytes = base_size_add_most(base_size_multiply_most(config->rows_expected - pinned, copy_bytes),
                                              base_size_multiply_most(pinned, JOIN_ENTRY_HEAD_BYTES + sizeof(void *)));
    return (struct store_expected){.bytes = base_size_add_most(bytes, bytes / 64), .entry_bytes = copy_bytes};
}

static uint64_t directory_heads_for(uint64_t rows)
{
    uint64_t heads = HEADS_MIN;
    while (heads < rows && heads < HEADS_MAX)
        heads *= 2;
    return heads;
}

/* Says what the table will need in all, where that is known. */
static void table_expect(struct join_table *table, const struct join_table_config *config)
{
    if (!config->rows_exact || config->layout->last_variable >= 0)
        return;
    table->store_expected = store_expected(config).bytes;
    table->directory_expected = directory_heads_for(config->rows_expected) * sizeof *table->head;
    base_governor_expect(table->governor, BASE_HOLDER_ROWS, table->store_expected, false);
    base_governor_expect(table->governor, BASE_HOLDER_DIRECTORY, table->directory_expected, false);
}

static void table_expect_end(struct join_table *table)
{
    base_governor_expect(table->governor, BASE_HOLDER_ROWS, table->store_expected, true);
    base_governor_expect(table->governor, BASE_HOLDER_DIRECTORY, table->directory_expected, true);
}

/* Maps and touches the row store now. What the budget refuses is tried again when it is needed. A block counts for the
 * whole entries that it holds. */
static void blocks_prepare(struct join_table *table, const struct store_expected *expected)
{
    uint64_t missing = expected->bytes == UINT64_MAX ? 0 : expected->bytes;
    while (missing > 0) {
        const uint64_t wanted = base_max_u64(base_min_u64(missing, BLOCK_BYTES_MAX), expected->entry_bytes);
        const uint64_t bytes = base_align_up(wanted, BLOCK_BYTES_MIN);
        if (block_append(table, bytes, NULL))
            break;
        missing -= base_min_u64(missing, bytes - bytes % expected->entry_bytes);
    }
    if (table->block_count)
        block_enter(table, 0);
}

/* ---- Directory ---- */

/* Heads to begin with. What is expected may be a guess from the size of a text file, and rows need memory, too: so an
 * expectation is given no more than a quarter of what the budget has left, and the directory grows when rows do come.
 */
static uint64_t directory_heads_expected(const struct join_table_config *config)
{
    const uint64_t budget = base_governor_budget_bytes(config->governor);
    const uint64_t used = base_governor_used_bytes(config->governor);
    const uint64_t allowed = budget == 0 ? UINT64_MAX : used < budget ? (budget - used) / 4 : 0;
    uint64_t heads = directory_heads_for(config->rows_expected);
    while (heads > HEADS_MIN && heads * sizeof(uint64_t) > allowed)
        heads /= 2;
    return heads;
}

static uint64_t directory_heads(const struct join_table *table)
{
    return table->head_mask + 1;
}

static enum base_status directory_open(struct join_table *table, uint64_t heads, struct base_error *error)
{
    void *pages;
    BASE_ASSERT(heads >= HEADS_MIN && heads <= HEADS_MAX && (heads & (heads - 1)) == 0); /* a hash is masked */
    enum base_status status =
        base_pages_map(table->governor, BASE_HOLDER_DIRECTORY, heads * sizeof *table->head, true, &pages, error);
    if (status != BASE_OK)
        return status;
    table->head = pages;
    table->head_mask = heads - 1;
    table->grow_above = heads == HEADS_MAX ? UINT64_MAX : heads;
    return BASE_OK;
}

static inline void head_prefetch(const struct join_table *table, uint64_t hash)
{
    __builtin_prefetch(&table->head[hash & table->head_mask], 1);
}

/* Puts the entry in front of its chain. reference: 0 or JOIN_LINK_REFERENCE, the entry's own R. */
static inline void entry_link(struct join_table *table, uint8_t *entry, uint64_t hash, uint64_t reference)
{
    uint64_t *head = &table->head[hash & table->head_mask];
    BASE_ASSERT_SLOW(((uintptr_t)entry & ~JOIN_LINK_ADDRESS) == 0 && (reference & ~JOIN_LINK_REFERENCE) == 0);
    const uint64_t rest = *head;
    base_store_u64(entry, rest | reference);
    *head = (rest & ~JOIN_LINK_ADDRESS) | join_link_filter(hash) | (uint64_t)(uintptr_t)entry;
}

struct rehash_group {
    uint32_t count;
    uint8_t *entry[REHASH_GROUP];
    const uint8_t *row[REHASH_GROUP];
    uint64_t hash[REHASH_GROUP];
};

static void rehash_group_link(struct join_table *table, struct rehash_group *group)
{
    shuffle_key_hash_rows(table->key, table->layout, group->row, group->count, group->hash);
    for (uint32_t i = 0; i < group->count; i++)
        head_prefetch(table, group->hash[i]);
    for (uint32_t i = 0; i < group->count; i++)
        entry_link(table, group->entry[i], group->hash[i], base_load_u64(group->entry[i]) & JOIN_LINK_REFERENCE);
    group->count = 0;
}

static void directory_fill(struct join_table *table)
{
    struct rehash_group group = {.count = 0};
    uint64_t linked = 0;
    for (uint32_t i = 0; i < table->block_count && i <= table->block_current; i++) {
        uint8_t *entry = table->block[i].start;
        const uint8_t *end = join_block_end(table, i);
        while (entry < end) {
            group.entry[group.count] = entry;
            group.row[group.count++] = join_entry_row(entry);
            entry += join_entry_size(table, entry);
            linked++;
            if (group.count == REHASH_GROUP)
                rehash_group_link(table, &group);
        }
        BASE_ASSERT(entry == end);
    }
    rehash_group_link(table, &group);
    BASE_ASSERT(linked == table->rows); /* a row that is not linked is never found again */
}

static void directory_grow(struct join_table *table, uint64_t rows)
{
    BASE_ASSERT(!table->sealed && rows > table->grow_above); /* who probes holds links into the directory */
    uint64_t *const old = table->head;
    const size_t old_bytes = (size_t)directory_heads(table) * sizeof *old;
    struct base_error error;
    if (directory_open(table, directory_heads_for(rows), &error)) {
        base_log_warn("a hash table of %" PRIu64 " rows goes on with longer chains: %s", rows, error.text);
        table->grow_above = 2 * rows;
        return;
    }
    base_pages_unmap(table->governor, BASE_HOLDER_DIRECTORY, old, old_bytes);
    directory_fill(table);
}

/* ---- Insert ---- */

/* Rows first..last-1, for which the current block has room. row_bytes is a constant in each specialisation. */
static inline __attribute__((always_inline)) void insert_fixed(struct join_table *table,
                                                               const struct shuffle_rows *rows, uint32_t first,
                                                               uint32_t last, uint32_t row_bytes)
{
    const size_t entry_bytes = JOIN_ENTRY_HEAD_BYTES + base_align_up(row_bytes, 8);
    const uint64_t *const hash = rows->hash;
    const uint32_t ahead_last = rows->count - 1;
    uint8_t *at = table->at;
    for (uint32_t i = first; i < last; i++) {
        const uint32_t ahead = i + INSERT_AHEAD;
        head_prefetch(table, hash[ahead < ahead_last ? ahead : ahead_last]);
        entry_link(table, at, hash[i], 0);
        memcpy(at + JOIN_ENTRY_HEAD_BYTES, rows->row[i], row_bytes);
        at += entry_bytes;
    }
    BASE_ASSERT(at <= table->limit);
    table->at = at;
}

static void insert_fixed_rows(struct join_table *table, const struct shuffle_rows *rows, uint32_t first, uint32_t last)
{
    const uint32_t row_bytes = table->layout->row_bytes;
    switch (row_bytes) {
    case 8:
        insert_fixed(table, rows, first, last, 8);
        break;
    case 16:
        insert_fixed(table, rows, first, last, 16);
        break;
    case 24:
        insert_fixed(table, rows, first, last, 24);
        break;
    case 32:
        insert_fixed(table, rows, first, last, 32);
        break;
    case 64:
        insert_fixed(table, rows, first, last, 64);
        break;
    default:
        insert_fixed(table, rows, first, last, row_bytes);
    }
}

_Static_assert((int)SHUFFLE_CUT_BYTES_MIN >= (int)JOIN_TABLE_REFERENCE_BYTES, "rows of equal entries are never cut");

static enum base_status insert_equal_entries(struct join_table *table, struct shuffle_rows *rows,
                                             struct base_error *error)
{
    BASE_ASSERT(!rows->cut && table->layout->last_variable < 0);
    while (rows->next < rows->count) {
        const uint64_t room = (uint64_t)(table->limit - table->at) / table->entry_bytes;
        if (room == 0) {
            enum base_status status = block_next(table, table->entry_bytes, error);
            if (status != BASE_OK)
                return status;
            continue;
        }
        const uint32_t taken = (uint32_t)base_min_u64(room, rows->count - rows->next);
        insert_fixed_rows(table, rows, rows->next, rows->next + taken);
        rows->next += taken;
        table->rows += taken;
        table->copied_bytes += (uint64_t)taken * table->layout->row_bytes;
    }
    return BASE_OK;
}

static enum base_status insert_differing_entries(struct join_table *table, struct shuffle_rows *rows,
                                                 struct base_error *error)
{
    for (; rows->next < rows->count; rows->next++) {
        const uint32_t i = rows->next;
        if (rows->count - i > INSERT_AHEAD)
            head_prefetch(table, rows->hash[i + INSERT_AHEAD]);
        const uint8_t *row = rows->row[i];
        const struct shuffle_cut *cut = i == 0 ? rows->cut : NULL;
        const uint64_t row_bytes = cut ? cut->bytes : shuffle_row_bytes(table->layout, row);
        const bool reference = rows->pinned && row_bytes >= JOIN_TABLE_REFERENCE_BYTES;
        const uint64_t bytes = JOIN_ENTRY_HEAD_BYTES + (reference ? sizeof(uint64_t) : base_align_up(row_bytes, 8));
        if ((uint64_t)(table->limit - table->at) < bytes) {
            enum base_status status = block_next(table, bytes, error);
            if (status != BASE_OK)
                return status;
        }
        uint8_t *entry = table->at;
        entry_link(table, entry, rows->hash[i], reference ? JOIN_LINK_REFERENCE : 0);
        if (reference)
            base_store_u64(entry + JOIN_ENTRY_HEAD_BYTES, (uint64_t)(uintptr_t)row);
        else if (cut)
            shuffle_cut_copy(cut, 0, cut->bytes, entry + JOIN_ENTRY_HEAD_BYTES);
        else
            memcpy(entry + JOIN_ENTRY_HEAD_BYTES, row, row_bytes);
        table->copied_bytes += reference ? 0 : row_bytes;
        table->at += bytes;
        table->rows++;
    }
    return BASE_OK;
}

enum base_status join_table_insert(struct join_table *table, struct shuffle_rows *rows, struct base_error *error)
{
    BASE_ASSERT(!table->sealed);
    BASE_ASSERT(rows->next <= rows->count);
    const uint64_t rows_after = table->rows + (rows->count - rows->next);
    if (rows_after > table->grow_above)
        directory_grow(table, rows_after);
    for (uint32_t i = rows->next; i < rows->count && i - rows->next < INSERT_AHEAD; i++)
        head_prefetch(table, rows->hash[i]);
    return table->entry_bytes ? insert_equal_entries(table, rows, error) : insert_differing_entries(table, rows, error);
}

/* ---- The table as a whole ---- */

enum base_status join_table_open(const struct join_table_config *config, struct join_table **table,
                                 struct base_error *error)
{
    struct join_table *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a hash table's own record");
    opened->governor = config->governor;
    opened->layout = config->layout;
    opened->key = config->key;
    opened->prefault = config->prefault;
    const bool equal = config->layout->last_variable < 0 && config->layout->row_bytes < JOIN_TABLE_REFERENCE_BYTES;
    if (equal)
        opened->entry_bytes = JOIN_ENTRY_HEAD_BYTES + (uint32_t)base_align_up(config->layout->row_bytes, 8);
    table_expect(opened, config);
    enum base_status status = directory_open(opened, directory_heads_expected(config), error);
    if (status != BASE_OK)
        goto free_record;
    if (config->prefault && config->layout->last_variable < 0) {
        const struct store_expected expected = store_expected(config);
        blocks_prepare(opened, &expected);
    }
    *table = opened;
    return BASE_OK;

free_record:
    table_expect_end(opened);
    free(opened);
    return status;
}

/* Rows per head in use, from a sample: hashes are spread evenly, so the first heads are as good as any. */
static uint64_t chain_mean(const struct join_table *table)
{
    const uint64_t heads = directory_heads(table), sample = base_min_u64(heads, HEADS_SAMPLED);
    BASE_ASSERT(sample > 0);
    uint64_t used = 0;
    for (uint64_t i = 0; i < sample; i++)
        used += table->head[i] != 0;
    const uint64_t used_in_all = base_max_u64(used, 1) * (heads / sample);
    return base_max_u64(table->rows / used_in_all, 1);
}

void join_table_seal(struct join_table *table)
{
    table->chain_mean = chain_mean(table);
    table->sealed = true;
}

uint64_t join_table_rows(const struct join_table *table)
{
    return table->rows;
}

uint64_t join_table_copied_bytes(const struct join_table *table)
{
    return table->copied_bytes;
}

uint64_t join_table_bytes(const struct join_table *table)
{
    return directory_heads(table) * sizeof *table->head + table->block_bytes;
}

void join_table_close(struct join_table *table)
{
    if (!table)
        return;
    table_expect_end(table);
    for (uint32_t i = 0; i < table->block_count; i++)
        base_pages_unmap(table->governor, BASE_HOLDER_ROWS, table->block[i].start, table->block[i].bytes);
    base_pages_unmap(table->governor, BASE_HOLDER_DIRECTORY, table->head,
                     (size_t)directory_heads(table) * sizeof *table->head);
    free(table->block);
    free(table);
}
