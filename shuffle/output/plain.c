#include "shuffle/output/plain.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

enum { ITEM_LEAD_BYTES = 1 + 4 }; /* marker and length */

bool shuffle_output_plain(const struct output_encoder *encoder, uint32_t image_bytes)
{
    if (encoder->variable || image_bytes == 0 || image_bytes > OUTPUT_PLAIN_IMAGE_BYTES_MAX)
        return false;
    for (uint32_t i = 0; i < encoder->count; i++)
        if (encoder->item[i].slot->null_bit >= 0)
            return false;
    return true;
}

void shuffle_output_plain_prepare(const struct output_encoder *encoder, uint32_t image_bytes, uint8_t *images)
{
    for (uint32_t row = 0; row < OUTPUT_PLAIN_ROWS; row++) {
        uint8_t *to = images + (size_t)row * image_bytes;
        for (uint32_t i = 0; i < encoder->count; i++) {
            const uint32_t width = encoder->item[i].slot->width;
            to[0] = 1;
            base_store_u32(to + 1, width);
            to += ITEM_LEAD_BYTES + width;
        }
    }
}

/* One item of all rows. Inlined with a constant width for the usual ones. */
static inline __attribute__((always_inline)) void plain_fill(uint8_t *to, uint32_t image_bytes,
                                                             const uint8_t *const *row, uint32_t offset, uint32_t count,
                                                             uint32_t width)
{
    for (uint32_t i = 0; i < count; i++)
        memcpy(to + (size_t)i * image_bytes, row[i] + offset, width);
}

uint64_t shuffle_output_plain_sum(const struct output_encoder *encoder, uint32_t image_bytes, uint8_t *images,
                                  const uint8_t *const *const rows[2], uint32_t count)
{
    uint64_t sum = 0;
    BASE_ASSERT_SLOW(shuffle_output_plain(encoder, image_bytes));
    for (uint32_t first = 0; first < count; first += OUTPUT_PLAIN_ROWS) {
        const uint32_t group = count - first < OUTPUT_PLAIN_ROWS ? count - first : OUTPUT_PLAIN_ROWS;
        uint8_t *to = images;
        for (uint32_t i = 0; i < encoder->count; i++) {
            const struct output_item *item = &encoder->item[i];
            const uint8_t *const *row = rows[item->side] + first;
            const uint32_t width = item->slot->width;
            to += ITEM_LEAD_BYTES;
            if (width == 8)
                plain_fill(to, image_bytes, row, item->slot->offset, group, 8);
            else if (width == 4)
                plain_fill(to, image_bytes, row, item->slot->offset, group, 4);
            else
                plain_fill(to, image_bytes, row, item->slot->offset, group, width);
            to += width;
        }
        for (uint32_t i = 0; i < group; i++)
            sum += XXH3_64bits(images + (size_t)i * image_bytes, image_bytes);
    }
    return sum;
}
