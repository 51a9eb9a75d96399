/* How a result row becomes bytes of a part file: what the CSV and the fixed-width writer fill in for the output. Pure.
 */
#ifndef MILLRACE_SHUFFLE_OUTPUT_ENCODE_H
#define MILLRACE_SHUFFLE_OUTPUT_ENCODE_H

#include "shuffle/frames/cut.h"
#include "shuffle/output/output.h"

/* An item with where it lies. */
struct output_item {
    uint32_t side, column;
    const struct shuffle_layout *layout; /* of its side */
    const struct shuffle_slot *slot;     /* in that layout */
};

struct output_encoder {
    uint32_t count;
    struct output_item *item;
    struct shuffle_layout result; /* FIXED: of the rows written */
    uint64_t bound_bytes;         /* most bytes of the part of a row that does not depend on string lengths */
    uint64_t head_bytes;          /* of a row of the result: its fixed part and null bits */
    bool variable;                /* is an item of variable length? */
};

/* Where in a cut row the item's value lies; false for a NULL. */
static inline bool output_item_cut(const struct output_item *item, const struct shuffle_cut *cut, uint32_t *offset,
                                   uint32_t *bytes)
{
    if (shuffle_cut_null(cut, item->layout, item->column))
        return false;
    *offset = shuffle_cut_value(cut, item->layout, item->column, bytes);
    return true;
}

/* The item's value in the row of its side; NULL for a NULL. Of a cut row it is joined if it lies across an edge. */
static inline const uint8_t *output_item_value(const struct output_item *item, const uint8_t *const row[2],
                                               uint32_t *bytes)
{
    const uint8_t *from = row[item->side];
    struct shuffle_cut *cut = shuffle_row_cut(from);
    uint32_t offset;
    if (cut)
        return output_item_cut(item, cut, &offset, bytes) ? shuffle_cut_part(cut, offset, *bytes) : NULL;
    if (!from || shuffle_row_null(item->layout, from, item->column))
        return NULL;
    return shuffle_row_value(item->layout, from, item->column, bytes);
}

/* Its length; 0 for a NULL. */
static inline uint32_t output_item_bytes(const struct output_item *item, const uint8_t *const row[2])
{
    const struct shuffle_cut *cut = shuffle_row_cut(row[item->side]);
    uint32_t offset, bytes = 0;
    if (cut)
        return output_item_cut(item, cut, &offset, &bytes) ? bytes : 0;
    return output_item_value(item, row, &bytes) ? bytes : 0;
}

/* Bytes of the items of variable length. */
static inline uint64_t output_variable_bytes(const struct output_encoder *encoder, const uint8_t *const row[2])
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; encoder->variable && i < encoder->count; i++)
        if (shuffle_type_variable(encoder->item[i].slot->type))
            bytes += output_item_bytes(&encoder->item[i], row);
    return bytes;
}

/* CSV. prepare fills bound_bytes. The header is malloc'ed text, one line. */
void shuffle_output_csv_prepare(struct output_encoder *encoder);
char *shuffle_output_csv_header(const struct shuffle_schema *schema);
uint64_t shuffle_output_csv_bound(const struct output_encoder *encoder, const uint8_t *const row[2]);
size_t shuffle_output_csv_encode(const struct output_encoder *encoder, const uint8_t *const row[2], uint8_t *to);

/* Fixed-width. prepare makes encoder->result. BASE_TYPE when a column is of variable length. */
enum base_status shuffle_output_fixed_prepare(const struct shuffle_output_config *config,
                                              struct output_encoder *encoder, struct base_error *error);
size_t shuffle_output_fixed_encode(const struct output_encoder *encoder, const uint8_t *const row[2], uint8_t *to);

#endif
