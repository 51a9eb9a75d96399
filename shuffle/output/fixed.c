#include "base/assert.h"
#include "shuffle/output/encode.h"

enum base_status shuffle_output_fixed_prepare(const struct shuffle_output_config *config,
                                              struct output_encoder *encoder, struct base_error *error)
{
    for (uint32_t i = 0; i < config->schema->count; i++)
        if (shuffle_type_variable(config->schema->field[i].type))
            return base_error_set(
                error, BASE_TYPE,
                "column \"%s\" is of variable length, which fixed-width output cannot hold: write CSV, or "
                "omit the column",
                config->schema->field[i].name);
    const enum base_status status = shuffle_layout_prepare(config->schema, &encoder->result, error);
    encoder->bound_bytes = encoder->result.row_bytes;
    return status;
}

size_t shuffle_output_fixed_encode(const struct output_encoder *encoder, const uint8_t *const row[2], uint8_t *to)
{
    const struct shuffle_layout *result = &encoder->result;
    memset(to + result->fixed_bytes, 0, result->null_bytes);
    for (uint32_t i = 0; i < encoder->count; i++) {
        const struct shuffle_slot *slot = &result->slot[i];
        const struct shuffle_cut *cut = shuffle_row_cut(row[encoder->item[i].side]);
        uint32_t offset, bytes;
        if (cut && output_item_cut(&encoder->item[i], cut, &offset, &bytes)) {
            shuffle_cut_copy(cut, offset, slot->width, to + slot->offset);
            continue;
        }
        const uint8_t *value = output_item_value(&encoder->item[i], row, &bytes);
        if (value) {
            memcpy(to + slot->offset, value, slot->width);
            continue;
        }
        BASE_ASSERT(slot->null_bit >= 0);
        memset(to + slot->offset, 0, slot->width);
        to[result->fixed_bytes + (uint32_t)slot->null_bit / 8] |= (uint8_t)(1 << slot->null_bit % 8);
    }
    return result->row_bytes;
}
