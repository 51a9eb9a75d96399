#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/rows/schema.h"

enum base_status shuffle_layout_prepare(const struct shuffle_schema *schema, struct shuffle_layout *layout,
                                        struct base_error *error)
{
    struct shuffle_layout made = {.count = schema->count, .last_variable = -1};
    made.slot = calloc(schema->count > 0 ? schema->count : 1, sizeof *made.slot);
    if (!made.slot)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the layout of %u columns", schema->count);
    uint64_t offset = 0;
    int32_t null_bits = 0;
    for (uint32_t i = 0; i < schema->count; i++) {
        const struct shuffle_field *field = &schema->field[i];
        struct shuffle_slot *slot = &made.slot[i];
        *slot = (struct shuffle_slot){.type = field->type,
                                      .offset = (uint32_t)offset,
                                      .width = field->width,
                                      .null_bit = field->nullable ? null_bits++ : -1,
                                      .previous = made.last_variable,
                                      .precision = field->precision,
                                      .scale = field->scale};
        if (shuffle_type_variable(field->type))
            made.last_variable = (int32_t)i;
        offset += field->width;
        if (offset + ((uint32_t)null_bits + 7) / 8 > SHUFFLE_ROW_BYTES_MAX) {
            free(made.slot);
            return base_error_set(error, BASE_TOO_LARGE,
                                  "the fixed-width columns up to \"%s\" make a row larger than the %u bytes a row may "
                                  "have",
                                  field->name, SHUFFLE_ROW_BYTES_MAX);
        }
    }
    made.fixed_bytes = (uint32_t)offset;
    made.null_bytes = ((uint32_t)null_bits + 7) / 8;
    if (made.last_variable < 0)
        made.row_bytes = made.fixed_bytes + made.null_bytes;
    /* Exactly the layouts of rows of one size have that size. */
    BASE_ASSERT(made.fixed_bytes + made.null_bytes <= SHUFFLE_ROW_BYTES_MAX);
    BASE_ASSERT(made.last_variable < 0 || made.row_bytes == 0);
    *layout = made;
    return BASE_OK;
}

void shuffle_layout_free(struct shuffle_layout *layout)
{
    free(layout->slot);
    *layout = (struct shuffle_layout){.last_variable = -1};
}

bool shuffle_row_check(const struct shuffle_layout *layout, const uint8_t *row, uint64_t bytes)
{
    if (bytes < shuffle_row_head_bytes(layout))
        return false;
    const uint64_t whole = shuffle_row_bytes(layout, row);
    if (whole > bytes || whole > SHUFFLE_ROW_BYTES_MAX)
        return false;
    /* The last end bounds all others when none runs backwards. */
    for (int32_t i = layout->last_variable; i >= 0; i = layout->slot[i].previous) {
        const int32_t previous = layout->slot[i].previous;
        BASE_ASSERT_SLOW(previous < i); /* the list of variable columns ends */
        const uint32_t start = previous < 0 ? 0 : base_load_u32(row + layout->slot[previous].offset);
        if (start > base_load_u32(row + layout->slot[i].offset))
            return false;
    }
    return true;
}
