/* The table's inside, shared by its two halves: table_store.c builds it, table_probe.c reads it.
 *
 * Link word: what a head of the directory and the first 8 bytes of an entry hold.
 *
 *   63      48 47                         3  2   1    0
 *   [ filter ][ address of an entry / 8     ][ 0 ][ M ][ R ]
 *
 * filter: the union of the filter bits of every entry reachable through this word; the word 0 reaches none. A new entry
 * takes over the head's word as it is, so each entry's own word filters what comes after it, and a walk ends as soon as
 * the rest cannot hold the key. R (in an entry's own word): this entry holds a row pointer in its second word instead
 * of the row itself. M (likewise): this entry's row has found a partner; set by probes that mark. */
#ifndef MILLRACE_JOIN_TABLE_INTERNAL_H
#define MILLRACE_JOIN_TABLE_INTERNAL_H

#include "join/table.h"

enum { JOIN_ENTRY_HEAD_BYTES = 8 };
#define JOIN_LINK_ADDRESS UINT64_C(0x0000fffffffffff8)
#define JOIN_LINK_REFERENCE UINT64_C(1)
#define JOIN_LINK_MATCHED UINT64_C(2)
/* A resume word that reaches nothing: the row's matches are all found. */
#define JOIN_LINK_NOTHING JOIN_LINK_REFERENCE

struct join_block {
    uint8_t *start;
    size_t bytes, used; /* used is exact for blocks before the current one */
};

struct join_table {
    struct base_governor *governor;
    const struct shuffle_layout *layout;
    const struct shuffle_key *key;
    uint64_t *head;
    uint64_t head_mask;
    uint64_t rows;
    uint64_t copied_bytes; /* of rows copied into the row store */
    uint64_t grow_above;   /* rows that the directory takes before it wants to be larger */
    uint8_t *at, *limit;   /* free part of the current block */
    uint32_t entry_bytes;  /* of every entry: row after the link word, never a reference. 0: entries differ */
    uint32_t block_count, block_capacity, block_current;
    struct join_block *block;
    uint64_t block_bytes;                        /* of all blocks */
    uint64_t store_expected, directory_expected; /* bytes, as the governor was told */
    uint64_t chain_mean;                         /* rows per head in use, at least 1; estimated by seal */
    bool prefault, sealed;
};

/* Two filter bits out of 16, from hash bits 32..39 (why two: table_store.c). */
static inline uint64_t join_link_filter(uint64_t hash)
{
    const uint64_t lowest = UINT64_C(1) << 48;
    return lowest << (hash >> 32 & 15) | lowest << (hash >> 36 & 15);
}

/* May an entry reachable through link have a key with this filter? */
static inline bool join_link_may_hold(uint64_t link, uint64_t filter)
{
    return (link & filter) == filter;
}

static inline uint8_t *join_link_entry(uint64_t link)
{
    return (uint8_t *)(uintptr_t)(link & JOIN_LINK_ADDRESS);
}

static inline const uint8_t *join_entry_row(const uint8_t *entry)
{
    const uint8_t *after = entry + JOIN_ENTRY_HEAD_BYTES;
    return base_load_u64(entry) & JOIN_LINK_REFERENCE ? (const uint8_t *)(uintptr_t)base_load_u64(after) : after;
}

/* Bytes from an entry to the one after it. */
static inline uint64_t join_entry_size(const struct join_table *table, const uint8_t *entry)
{
    if (table->entry_bytes)
        return table->entry_bytes;
    if (base_load_u64(entry) & JOIN_LINK_REFERENCE)
        return JOIN_ENTRY_HEAD_BYTES + sizeof(uint64_t);
    return JOIN_ENTRY_HEAD_BYTES + base_align_up(shuffle_row_bytes(table->layout, entry + JOIN_ENTRY_HEAD_BYTES), 8);
}

/* Where the entries of a block end; blocks after the current one have none. */
static inline const uint8_t *join_block_end(const struct join_table *table, uint32_t block)
{
    return block == table->block_current ? table->at : table->block[block].start + table->block[block].used;
}

#endif
