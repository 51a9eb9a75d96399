#include "shuffle/rows/batch.h"

#include "base/assert.h"

uint64_t shuffle_batch_row_bytes(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row)
{
    BASE_ASSERT_SLOW(row < batch->rows);
    if (layout->last_variable < 0)
        return layout->row_bytes;
    uint64_t bytes = shuffle_row_head_bytes(layout);
    for (int32_t c = layout->last_variable; c >= 0; c = layout->slot[c].previous) {
        const struct shuffle_column *column = &batch->column[c];
        const bool null = layout->slot[c].null_bit >= 0 && column->null && column->null[row];
        if (!null)
            bytes += column->slice[row].bytes;
    }
    return bytes;
}

/* Widths of usual columns as constants: a call of memcpy costs more than such a copy. */
static inline void copy_value(uint8_t *to, const uint8_t *from, uint32_t width)
{
    switch (width) {
    case 1:
        *to = *from;
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    case 16:
        memcpy(to, from, 16);
        break;
    default:
        memcpy(to, from, width);
        break;
    }
}

uint32_t shuffle_batch_encode_row(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint32_t row,
                                  uint8_t *to)
{
    if (batch->image && layout->last_variable < 0) {
        memcpy(to, batch->image + (size_t)row * layout->row_bytes, layout->row_bytes);
        return layout->row_bytes;
    }
    uint8_t *null_bits = to + layout->fixed_bytes;
    uint8_t *variable = null_bits + layout->null_bytes;
    uint32_t end = 0;
    memset(null_bits, 0, layout->null_bytes);
    for (uint32_t c = 0; c < layout->count; c++) {
        const struct shuffle_slot *slot = &layout->slot[c];
        const struct shuffle_column *column = &batch->column[c];
        const bool null = slot->null_bit >= 0 && column->null && column->null[row];
        if (null)
            null_bits[(uint32_t)slot->null_bit / 8] |= (uint8_t)(1u << ((uint32_t)slot->null_bit % 8));
        if (shuffle_type_variable(slot->type)) {
            const struct shuffle_slice *slice = &column->slice[row];
            if (!null && slice->bytes) {
                memcpy(variable + end, slice->data, slice->bytes);
                end += slice->bytes;
            }
            base_store_u32(to + slot->offset, end);
        } else if (null) {
            memset(to + slot->offset, 0, slot->width);
        } else {
            copy_value(to + slot->offset, column->data + (size_t)row * column->stride, slot->width);
        }
    }
    BASE_ASSERT_SLOW(shuffle_row_head_bytes(layout) + (uint64_t)end == shuffle_batch_row_bytes(layout, batch, row));
    return shuffle_row_head_bytes(layout) + end;
}

/* One loop per usual width, so that a value is a load and a store. */
static void copy_column(uint8_t *to, size_t to_stride, const uint8_t *from, size_t stride, uint32_t rows,
                        uint32_t width)
{
#define COLUMN(bytes)                                                                                                  \
    case bytes:                                                                                                        \
        for (uint32_t i = 0; i < rows; i++)                                                                            \
            memcpy(to + i * to_stride, from + i * stride, bytes);                                                      \
        break
    switch (width) {
        COLUMN(1);
        COLUMN(2);
        COLUMN(4);
        COLUMN(8);
        COLUMN(16);
    default:
        for (uint32_t i = 0; i < rows; i++)
            memcpy(to + i * to_stride, from + i * stride, width);
        break;
    }
#undef COLUMN
}

void shuffle_batch_encode_image(const struct shuffle_layout *layout, const struct shuffle_batch *batch, uint8_t *to)
{
    const size_t row_bytes = layout->row_bytes;
    BASE_ASSERT(layout->last_variable < 0 && batch->rows <= SHUFFLE_BATCH_ROWS);
    for (uint32_t i = 0; layout->null_bytes && i < batch->rows; i++)
        memset(to + i * row_bytes + layout->fixed_bytes, 0, layout->null_bytes);
    for (uint32_t c = 0; c < layout->count; c++) {
        const struct shuffle_slot *slot = &layout->slot[c];
        const struct shuffle_column *column = &batch->column[c];
        copy_column(to + slot->offset, row_bytes, column->data, column->stride, batch->rows, slot->width);
        if (slot->null_bit < 0 || !column->null)
            continue;
        uint8_t *bits = to + layout->fixed_bytes + (uint32_t)slot->null_bit / 8;
        const uint8_t bit = (uint8_t)(1u << ((uint32_t)slot->null_bit % 8));
        for (uint32_t i = 0; i < batch->rows; i++) {
            if (!column->null[i])
                continue;
            bits[i * row_bytes] |= bit;
            memset(to + i * row_bytes + slot->offset, 0, slot->width);
        }
    }
}
