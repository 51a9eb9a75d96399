#include "shuffle/frames/cut.h"

#include "base/assert.h"

static uint32_t piece_end(const struct shuffle_cut *cut, uint32_t piece)
{
    return piece + 1 < cut->count ? cut->piece[piece + 1].begin : cut->bytes;
}

static uint32_t piece_of(const struct shuffle_cut *cut, uint32_t offset)
{
    BASE_ASSERT(cut->count > 0 && cut->count <= SHUFFLE_CUT_PIECES_MAX && cut->piece[0].begin == 0);
    uint32_t piece = cut->count - 1;
    while (cut->piece[piece].begin > offset)
        piece--;
    return piece;
}

static const uint8_t *piece_at(const struct shuffle_cut *cut, uint32_t piece, uint32_t offset)
{
    return cut->piece[piece].data + (offset - cut->piece[piece].begin);
}

void shuffle_cut_copy(const struct shuffle_cut *cut, uint32_t offset, uint32_t bytes, uint8_t *to)
{
    BASE_ASSERT(offset <= cut->bytes && bytes <= cut->bytes - offset);
    for (uint32_t piece = piece_of(cut, offset); bytes > 0; piece++) {
        const uint32_t here = (uint32_t)base_min_u64(bytes, piece_end(cut, piece) - offset);
        memcpy(to, piece_at(cut, piece, offset), here);
        to += here;
        offset += here;
        bytes -= here;
    }
}

/* A head that was collected lies there already. */
void shuffle_cut_join(struct shuffle_cut *cut, uint32_t offset, uint32_t bytes)
{
    BASE_ASSERT(cut->whole && offset <= cut->bytes && bytes <= cut->bytes - offset);
    if (cut->piece[0].data == cut->whole) {
        const uint32_t there = piece_end(cut, 0) > offset ? piece_end(cut, 0) - offset : 0;
        if (there >= bytes)
            return;
        offset += there;
        bytes -= there;
    }
    shuffle_cut_copy(cut, offset, bytes, cut->whole + offset);
    cut->joined_bytes += bytes;
}

const uint8_t *shuffle_cut_part(struct shuffle_cut *cut, uint32_t offset, uint32_t bytes)
{
    BASE_ASSERT(offset <= cut->bytes && bytes <= cut->bytes - offset);
    const uint32_t piece = piece_of(cut, offset);
    if (bytes <= piece_end(cut, piece) - offset)
        return piece_at(cut, piece, offset);
    shuffle_cut_join(cut, offset, bytes);
    return cut->whole + offset;
}

uint32_t shuffle_cut_value(const struct shuffle_cut *cut, const struct shuffle_layout *layout, uint32_t column,
                           uint32_t *bytes)
{
    const struct shuffle_slot *slot = &layout->slot[column];
    if (!shuffle_type_variable(slot->type)) {
        *bytes = slot->width;
        return slot->offset;
    }
    const uint8_t *head = cut->piece[0].data;
    const uint32_t start = slot->previous < 0 ? 0 : base_load_u32(head + layout->slot[slot->previous].offset);
    *bytes = base_load_u32(head + slot->offset) - start;
    return shuffle_row_head_bytes(layout) + start;
}

bool shuffle_cut_null(const struct shuffle_cut *cut, const struct shuffle_layout *layout, uint32_t column)
{
    const int32_t bit = layout->slot[column].null_bit;
    if (bit < 0)
        return false;
    const uint32_t offset = layout->fixed_bytes + (uint32_t)bit / 8;
    return *piece_at(cut, piece_of(cut, offset), offset) >> ((uint32_t)bit % 8) & 1;
}

/* Where the null bit of a column lies that a reader of the key looks at; false: it looks at none. */
static bool key_null_byte(const struct shuffle_layout *layout, const struct shuffle_key *key, uint32_t column,
                          uint32_t *offset)
{
    const int32_t bit = layout->slot[column].null_bit;
    *offset = layout->fixed_bytes + (uint32_t)(bit < 0 ? 0 : bit) / 8;
    return key->null_equal && bit >= 0;
}

/* Copies what a reader of the key looks at: values, null bits where NULLs are equal, and of values of variable length
 * the ends, too. */
static void key_join(struct shuffle_cut *cut, const struct shuffle_layout *layout, const struct shuffle_key *key)
{
    for (uint32_t i = 0; i < key->count; i++) {
        const struct shuffle_slot *slot = &layout->slot[key->part[i].column];
        uint32_t bytes;
        const uint32_t offset = shuffle_cut_value(cut, layout, key->part[i].column, &bytes);
        if (shuffle_type_variable(slot->type)) {
            shuffle_cut_join(cut, slot->offset, slot->width);
            if (slot->previous >= 0)
                shuffle_cut_join(cut, layout->slot[slot->previous].offset, layout->slot[slot->previous].width);
        }
        shuffle_cut_join(cut, offset, bytes);
        uint32_t null_byte;
        if (key_null_byte(layout, key, key->part[i].column, &null_byte))
            shuffle_cut_join(cut, null_byte, 1);
    }
}

const uint8_t *shuffle_cut_key(struct shuffle_cut *cut, const struct shuffle_layout *layout,
                               const struct shuffle_key *key)
{
    uint32_t first = UINT32_MAX, end = 0;
    for (uint32_t i = 0; i < key->count; i++) {
        uint32_t bytes;
        const uint32_t offset = shuffle_cut_value(cut, layout, key->part[i].column, &bytes);
        const bool variable = shuffle_type_variable(layout->slot[key->part[i].column].type);
        first = (uint32_t)base_min_u64(first, variable ? 0 : offset);
        end = (uint32_t)base_max_u64(end, offset + bytes);
        uint32_t null_byte;
        if (key_null_byte(layout, key, key->part[i].column, &null_byte)) {
            first = (uint32_t)base_min_u64(first, null_byte);
            end = (uint32_t)base_max_u64(end, null_byte + 1);
        }
    }
    const uint32_t piece = piece_of(cut, first);
    if (end <= piece_end(cut, piece)) /* the row may begin before the piece: as a number, that address is harmless */
        return (const uint8_t *)((uintptr_t)cut->piece[piece].data - cut->piece[piece].begin);
    key_join(cut, layout, key);
    return cut->whole;
}
