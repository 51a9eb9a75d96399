/* The probing half of the hash table.
 *
 * A probe row costs two or more cache misses that depend on each other: head, first entry, and for some the entries
 * after it. A single row waits for each; so rows are taken in groups of up to PROBE_GROUP and every step is made for
 * the whole group before the next: prefetch the heads (of the group after this one too), read heads and prefetch first
 * entries, then in rounds compare and go one entry further. The filter in each link word drops most rows before they
 * touch an entry that is not theirs.
 *
 * Where a probe may stop. The caller's arrays may fill up in the middle of a row's matches, and all it keeps is (next
 * row, one word). So finding and handing out are two steps: a group's matches are found in any order into a buffer,
 * then handed out row by row. When the arrays are full, what the later rows of the group had found is dropped and found
 * again by the next call; a group takes only as many rows as should fill the arrays, so little is. A row with more
 * matches than its share of the buffer goes on alone along its chain. The word is the link to look at next; when
 * nothing more can be reached from there the row counts as done, so a resumed row always has an entry to look at.
 *
 * Duplicates. How many entries a used head reaches on average is estimated when the table is sealed; where each row
 * finds many, fewer rows fill the arrays, and each gets a larger share of the buffer. Rows inserted one after the other
 * lie one after the other, newest first in the chain: the walk of a single long chain runs backwards through memory,
 * which the CPU's own prefetcher follows. */
#include "base/assert.h"
#include "join/table_internal.h"

enum { PROBE_GROUP = 128, PROBE_MATCHES = 2048 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* What the specialisations of the probe know at compile time. */
enum {
    PROBE_DIFFERING = 1, /* entries may be references */
    PROBE_KEY_4 = 2,     /* the key is one integer of 4 bytes, of the same type on both sides */
    PROBE_KEY_8 = 4,     /* or of 8 bytes; neither: any key */
    PROBE_PAD = 8,       /* rows without a match are given out, too */
    PROBE_FIRST = 16,    /* of a row's matches only the first is looked for */
    PROBE_SKIP = 32,     /* and it is not given out */
    PROBE_MARK = 64,     /* entries that match are marked */
    PROBE_NEW = 128      /* and only those that were not are given out */
};

struct probe {
    const struct join_table *table;
    const struct shuffle_key *key;
    const struct shuffle_layout *layout;
    struct shuffle_rows *rows;
    uint32_t build_offset, probe_offset; /* of the key's first part */
    uint32_t pairs, pairs_max;
    const uint8_t **build_out, **probe_out;
};

struct probe_group {
    uint32_t rows, depth; /* a row's share of match, which is at least 16 */
    uint32_t sum, deep;   /* matches of all rows; rows that filled their share and may have more */
    uint64_t filter[PROBE_GROUP];
    uint64_t link[PROBE_GROUP];    /* of the rows still looking, packed to the front */
    uint8_t looking[PROBE_GROUP];  /* which rows these are */
    uint16_t found[PROBE_GROUP];   /* matches of each row */
    uint8_t *match[PROBE_MATCHES]; /* entries: match j of row i is at j * rows + i */
};
_Static_assert(PROBE_GROUP <= UINT8_MAX + 1 && PROBE_MATCHES <= UINT16_MAX, "rows and matches are counted in few bits");

ALWAYS_INLINE const uint8_t *entry_row(unsigned kind, const uint8_t *entry)
{
    return kind & PROBE_DIFFERING ? join_entry_row(entry) : entry + JOIN_ENTRY_HEAD_BYTES;
}

ALWAYS_INLINE bool keys_equal(const struct probe *probe, unsigned kind, const uint8_t *build_row,
                              const uint8_t *probe_row)
{
    const uint8_t *build_at = build_row + probe->build_offset, *probe_at = probe_row + probe->probe_offset;
    if (kind & PROBE_KEY_8)
        return base_load_u64(build_at) == base_load_u64(probe_at);
    if (kind & PROBE_KEY_4)
        return base_load_u32(build_at) == base_load_u32(probe_at);
    return shuffle_key_equal(probe->table->key, probe->table->layout, build_row, probe->key, probe->layout, probe_row);
}

ALWAYS_INLINE bool entry_marked(const uint8_t *entry)
{
    return base_load_u64(entry) & JOIN_LINK_MATCHED;
}

/* Entries that are marked already are not written to again. */
ALWAYS_INLINE void entry_mark(unsigned kind, uint8_t *entry)
{
    if (kind & PROBE_MARK && !entry_marked(entry))
        base_store_u64(entry, base_load_u64(entry) | JOIN_LINK_MATCHED);
}

ALWAYS_INLINE void pair_put(struct probe *probe, const uint8_t *build_row, const uint8_t *probe_row)
{
    probe->build_out[probe->pairs] = build_row;
    probe->probe_out[probe->pairs++] = probe_row;
}

/* Walks one row's chain from link on. Returns the link to go on from when the arrays are full, 0 when nothing is left.
 */
ALWAYS_INLINE uint64_t chain_walk(struct probe *probe, unsigned kind, uint64_t link, uint64_t filter,
                                  const uint8_t *probe_row)
{
    while (join_link_may_hold(link, filter)) {
        if (probe->pairs == probe->pairs_max)
            return link;
        uint8_t *entry = join_link_entry(link);
        const uint8_t *build_row = entry_row(kind, entry);
        link = base_load_u64(entry);
        if (!keys_equal(probe, kind, build_row, probe_row))
            continue;
        /* Entries of a key are marked in the order of their chain: after one that was not there is none that is. */
        BASE_ASSERT_SLOW(!(kind & PROBE_NEW) || !(link & JOIN_LINK_MATCHED));
        pair_put(probe, build_row, probe_row);
        entry_mark(kind, entry);
    }
    return 0;
}

static inline void heads_prefetch(const struct join_table *table, const uint64_t *hash, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(&table->head[hash[i] & table->head_mask]);
}

/* Chooses how many rows the next group has, and their shares of the buffer. */
static void group_size(const struct probe *probe, struct probe_group *group)
{
    const uint32_t left = probe->rows->count - probe->rows->next;
    const uint32_t space = probe->pairs_max - probe->pairs;
    const uint64_t filling = base_max_u64(space / probe->table->chain_mean, 1);
    group->rows = (uint32_t)base_min_u64(base_min_u64(left, PROBE_GROUP), filling);
    BASE_ASSERT_SLOW(group->rows > 0);
    group->depth = PROBE_MATCHES / group->rows;
}

/* Reads the heads; keeps and prefetches the entries of those that may hold the key. Returns how many. */
static uint32_t group_start(const struct probe *probe, struct probe_group *group)
{
    const struct join_table *table = probe->table;
    const uint64_t *hash = probe->rows->hash + probe->rows->next;
    uint32_t looking = 0;
    for (uint32_t i = 0; i < group->rows; i++) {
        const uint64_t link = table->head[hash[i] & table->head_mask];
        group->filter[i] = join_link_filter(hash[i]);
        group->found[i] = 0;
        group->link[looking] = link;
        group->looking[looking] = (uint8_t)i;
        looking += join_link_may_hold(link, group->filter[i]);
    }
    for (uint32_t i = 0; i < looking; i++)
        __builtin_prefetch(join_link_entry(group->link[i]));
    return looking;
}

/* Finds the group's matches, in rounds: each takes every row that is still looking one entry further. */
ALWAYS_INLINE void group_find(const struct probe *probe, unsigned kind, struct probe_group *group)
{
    const uint8_t *const *row = probe->rows->row + probe->rows->next;
    const uint32_t rows = group->rows, depth = group->depth;
    uint32_t sum = 0, deep = 0;
    for (uint32_t looking = group_start(probe, group); looking > 0;) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < looking; i++) {
            uint8_t *entry = join_link_entry(group->link[i]);
            const uint32_t which = group->looking[i];
            const uint64_t link = base_load_u64(entry);
            uint32_t equal = keys_equal(probe, kind, entry_row(kind, entry), row[which]);
            const uint32_t found = group->found[which];
            const uint32_t known = kind & PROBE_NEW ? equal & (uint32_t)(link / JOIN_LINK_MATCHED) & 1 : 0;
            equal &= !known;
            group->match[found * rows + which] = entry;
            group->found[which] = (uint16_t)(found + equal);
            sum += equal;
            const uint32_t more = join_link_may_hold(link, group->filter[which]) & !known;
            const uint32_t full = kind & PROBE_FIRST ? equal : found + equal == depth;
            deep += kind & PROBE_FIRST ? 0 : more & full;
            group->link[kept] = link;
            group->looking[kept] = (uint8_t)which;
            kept += more & !full;
        }
        for (uint32_t i = 0; i < kept; i++)
            __builtin_prefetch(join_link_entry(group->link[i]));
        looking = kept;
    }
    for (uint32_t i = 0; kind & PROBE_PAD && i < rows; i++)
        sum += group->found[i] == 0;
    group->sum = sum;
    group->deep = deep;
}

/* Hands out a group whose matches all fit, with one place to spare for a write that does not count. */
ALWAYS_INLINE void group_hand_out_all(struct probe *probe, unsigned kind, const struct probe_group *group)
{
    const uint8_t *const *row = probe->rows->row + probe->rows->next;
    uint32_t pairs = probe->pairs;
    for (uint32_t i = 0; i < group->rows; i++) {
        const uint32_t found = group->found[i];
        if (kind & PROBE_MARK)
            for (uint32_t j = 0; j < found; j++)
                entry_mark(kind, group->match[j * group->rows + i]);
        probe->build_out[pairs] = found ? entry_row(kind, group->match[i]) : NULL;
        probe->probe_out[pairs] = row[i];
        pairs += kind & PROBE_SKIP ? found == 0 : kind & PROBE_PAD ? 1 : found > 0;
        if (kind & PROBE_FIRST)
            continue;
        for (uint32_t j = 1; j < found; j++, pairs++) {
            probe->build_out[pairs] = entry_row(kind, group->match[j * group->rows + i]);
            probe->probe_out[pairs] = row[i];
        }
    }
    probe->pairs = pairs;
    probe->rows->next += group->rows;
}

/* A row that has no match. False: there is no room for it. */
ALWAYS_INLINE bool row_pad(struct probe *probe, unsigned kind, const uint8_t *row)
{
    if (!(kind & PROBE_PAD))
        return true;
    if (probe->pairs == probe->pairs_max)
        return false;
    pair_put(probe, NULL, row);
    return true;
}

/* Hands out a group row by row, as far as the arrays go. False when they are full: rows->next and resume then say where
 * to go on. */
ALWAYS_INLINE bool group_hand_out(struct probe *probe, unsigned kind, const struct probe_group *group)
{
    struct shuffle_rows *rows = probe->rows;
    for (uint32_t i = 0; i < group->rows; i++, rows->next++) {
        const uint32_t found = group->found[i];
        const bool known = kind & PROBE_NEW && found > 0 && entry_marked(group->match[i]); /* by a row before */
        if (found == 0 && !row_pad(probe, kind, rows->row[rows->next]))
            return false;
        if (found == 0 || known || kind & PROBE_SKIP)
            continue;
        const uint32_t taken = (uint32_t)base_min_u64(found, probe->pairs_max - probe->pairs);
        if (taken == 0)
            return false;
        const uint8_t *row = rows->row[rows->next];
        uint8_t *entry = NULL;
        for (uint32_t j = 0; j < taken; j++) {
            /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): `found` of them are there, see group_find */
            entry = group->match[j * group->rows + i];
            pair_put(probe, entry_row(kind, entry), row);
            entry_mark(kind, entry);
        }
        if (kind & PROBE_FIRST || (taken == found && found < group->depth))
            continue;
        rows->resume = chain_walk(probe, kind, base_load_u64(entry), group->filter[i], row);
        if (rows->resume)
            return false;
    }
    return true;
}

/* The rest of the matches of the row at which the last call stopped. False when the arrays are full again. */
ALWAYS_INLINE bool row_resume(struct probe *probe, unsigned kind)
{
    struct shuffle_rows *rows = probe->rows;
    rows->resume =
        chain_walk(probe, kind, rows->resume, join_link_filter(rows->hash[rows->next]), rows->row[rows->next]);
    if (rows->resume)
        return false;
    rows->next++;
    return true;
}

ALWAYS_INLINE void probe_run(struct probe *probe, unsigned kind)
{
    struct shuffle_rows *rows = probe->rows;
    if (rows->resume && !row_resume(probe, kind))
        return;
    struct probe_group group;
    uint32_t prefetched = rows->next;
    while (rows->next < rows->count && probe->pairs < probe->pairs_max) {
        const uint32_t left = rows->count - rows->next;
        const uint32_t ahead = rows->next + (uint32_t)base_min_u64(left, UINT64_C(2) * PROBE_GROUP);
        if (prefetched < ahead) {
            heads_prefetch(probe->table, rows->hash + prefetched, ahead - prefetched);
            prefetched = ahead;
        }
        group_size(probe, &group);
        group_find(probe, kind, &group);
        if (!(kind & PROBE_NEW) && group.deep == 0 && group.sum < probe->pairs_max - probe->pairs)
            group_hand_out_all(probe, kind, &group);
        else if (!group_hand_out(probe, kind, &group))
            return;
    }
}

/* PROBE_KEY_4 or _8 when the key is one integer of the same type on both sides: then equal bits are equal keys. */
static unsigned key_kind(const struct shuffle_key *key, const struct shuffle_slot *build_slot,
                         const struct shuffle_slot *probe_slot)
{
    if (key->count != 1 || key->null_equal || key->part[0].class != SHUFFLE_KEY_INTEGER ||
        build_slot->type != probe_slot->type)
        return 0;
    return build_slot->width == 8 ? PROBE_KEY_8 : build_slot->width == 4 ? PROBE_KEY_4 : 0;
}

/* The forms but for PAIRS are specialised less: for keys of 8 bytes and for any, and with entries that may differ. */
#define PROBE_FORMS(X)                                                                                                 \
    X(PADDED, PROBE_PAD)                                                                                               \
    X(MARKED, PROBE_MARK)                                                                                              \
    X(BOTH, PROBE_PAD | PROBE_MARK)                                                                                    \
    X(FIRST, PROBE_FIRST)                                                                                              \
    X(UNMATCHED, PROBE_FIRST | PROBE_PAD | PROBE_SKIP)                                                                 \
    X(NEW, PROBE_MARK | PROBE_NEW)

static void probe_run_form(struct probe *probe, enum join_probe_form form, bool key_8)
{
    switch (form) {
#define X(name, flags)                                                                                                 \
    case JOIN_PROBE_##name:                                                                                            \
        if (key_8)                                                                                                     \
            probe_run(probe, (flags) | PROBE_KEY_8 | PROBE_DIFFERING);                                                 \
        else                                                                                                           \
            probe_run(probe, (flags) | PROBE_DIFFERING);                                                               \
        break;
        PROBE_FORMS(X)
#undef X
    default:
        BASE_ASSERT(false);
    }
}

static void probe_run_pairs(struct probe *probe, unsigned kind)
{
    switch (kind) {
    case PROBE_KEY_8:
        probe_run(probe, PROBE_KEY_8);
        break;
    case PROBE_KEY_4:
        probe_run(probe, PROBE_KEY_4);
        break;
    case PROBE_KEY_8 | PROBE_DIFFERING:
        probe_run(probe, PROBE_KEY_8 | PROBE_DIFFERING);
        break;
    case PROBE_KEY_4 | PROBE_DIFFERING:
        probe_run(probe, PROBE_KEY_4 | PROBE_DIFFERING);
        break;
    case PROBE_DIFFERING:
        probe_run(probe, PROBE_DIFFERING);
        break;
    default:
        probe_run(probe, 0);
    }
}

void join_table_probe(const struct join_table *table, enum join_probe_form form, const struct shuffle_key *probe_key,
                      const struct shuffle_layout *probe_layout, struct shuffle_rows *rows, uint32_t pairs_max,
                      const uint8_t **build, const uint8_t **probe_rows, uint32_t *pairs)
{
    BASE_ASSERT(table->sealed);
    BASE_ASSERT(probe_key->count == table->key->count);
    *pairs = 0;
    if (rows->next == rows->count || pairs_max == 0)
        return;
    const struct shuffle_slot *build_slot = &table->layout->slot[table->key->part[0].column];
    const struct shuffle_slot *probe_slot = &probe_layout->slot[probe_key->part[0].column];
    struct probe probe = {.table = table,
                          .key = probe_key,
                          .layout = probe_layout,
                          .rows = rows,
                          .build_offset = build_slot->offset,
                          .probe_offset = probe_slot->offset,
                          .pairs_max = pairs_max,
                          .build_out = build,
                          .probe_out = probe_rows};
    const unsigned kind = key_kind(probe_key, build_slot, probe_slot);
    if (form == JOIN_PROBE_PAIRS)
        probe_run_pairs(&probe, kind | (table->entry_bytes ? 0 : PROBE_DIFFERING));
    else
        probe_run_form(&probe, form, kind == PROBE_KEY_8);
    *pairs = probe.pairs;
}
