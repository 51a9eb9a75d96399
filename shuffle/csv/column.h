/* From fields to values: one column of a batch at a time. */
#ifndef MILLRACE_SHUFFLE_CSV_COLUMN_H
#define MILLRACE_SHUFFLE_CSV_COLUMN_H

#include "shuffle/csv/options.h"
#include "shuffle/csv/parse.h"
#include "shuffle/rows/batch.h"
#include "shuffle/rows/reject.h"

/* One column, from fields to values; the memory is the scan's, for SHUFFLE_BATCH_ROWS rows. */
struct csv_column {
    const struct shuffle_field *info;
    struct csv_field *field; /* input; bytes may be rewritten in place; 8 more are readable after a field's first */
    union {
        uint8_t *data;               /* fixed-width: values, info->width apart */
        struct shuffle_slice *slice; /* variable: slices of the fields' bytes */
    };
    uint8_t *null; /* NULL when the column is not nullable */
};

/* Is the field's text one of those that mean NULL? */
bool shuffle_csv_is_null_text(const struct csv_field *field, const struct shuffle_csv_options *options);

static inline bool shuffle_csv_field_is_null(const struct csv_field *field, const struct shuffle_csv_options *options)
{
    if (field->bytes == 0)
        return field->quoted ? options->quoted_empty_is_null : options->empty_is_null;
    return options->null_texts[0] != '\0' && !field->quoted && shuffle_csv_is_null_text(field, options);
}

/* Bytes of data per row. */
static inline size_t shuffle_csv_column_stride(const struct shuffle_field *field)
{
    return shuffle_type_variable(field->type) ? sizeof(struct shuffle_slice) : field->width;
}

/* Converts the fields of rows [from, rows). NULL, or the words that say what is wrong with row *bad_row, the first bad
 * one ("is empty" or as shuffle_value_parse); those before it are converted. */
const char *shuffle_csv_column_convert(const struct csv_column *column, const struct shuffle_csv_options *options,
                                       uint32_t from, uint32_t rows, uint32_t *bad_row);

/* What is wrong with field, by the words of shuffle_csv_column_convert: 'column "v" (int64): "x" is not a number'. */
void shuffle_csv_column_reason(const struct shuffle_field *info, const struct csv_field *field, const char *words,
                               char reason[SHUFFLE_REASON_BYTES]);

/* The error for what shuffle_csv_column_convert found in field, with what to do. Returns BASE_PARSE. */
enum base_status shuffle_csv_column_error(const char *path, uint64_t line, const struct shuffle_field *info,
                                          const struct csv_field *field, const char *words, struct base_error *error);

#endif
