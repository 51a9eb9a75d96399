#include "shuffle/source/sample.h"

#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/csv/column.h"
#include "shuffle/rows/value.h"

enum { SAMPLE_ROWS = 1024, SAMPLE_ROWS_FURTHER = 64 };

/* In order of preference; string is what is left. */
static const enum shuffle_type candidates[] = {SHUFFLE_BOOL, SHUFFLE_INT64, SHUFFLE_FLOAT64, SHUFFLE_DATE,
                                               SHUFFLE_TIMESTAMP};
enum { CANDIDATES = sizeof candidates / sizeof *candidates };

struct sample_column {
    bool out[CANDIDATES]; /* some text is not of this type */
    bool any;             /* some value was seen */
};

struct shuffle_sample {
    uint32_t columns;
    bool has_rows;
    struct csv_field *field; /* SAMPLE_ROWS per column */
    struct sample_column column[SHUFFLE_COLUMNS_MAX];
};

enum base_status shuffle_sample_open(uint32_t columns, struct shuffle_sample **sample, struct base_error *error)
{
    BASE_ASSERT(columns > 0 && columns <= SHUFFLE_COLUMNS_MAX); /* a record has at least one field */
    struct shuffle_sample *made = calloc(1, sizeof *made);
    struct csv_field *field = malloc(sizeof *field * SAMPLE_ROWS * columns);
    if (!made || !field) {
        free(made);
        free(field);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a sample of %u columns", columns);
    }
    made->columns = columns;
    made->field = field;
    *sample = made;
    return BASE_OK;
}

void shuffle_sample_close(struct shuffle_sample *sample)
{
    if (!sample)
        return;
    free(sample->field);
    free(sample);
}

static bool sample_fits(enum shuffle_type type, const struct csv_field *field)
{
    const struct shuffle_field as = {.type = type};
    uint8_t value[16];
    return !shuffle_value_parse(&as, field->data, field->bytes, value) &&
           shuffle_value_kept(&as, field->data, field->bytes, value);
}

static void sample_look_at(struct sample_column *column, struct csv_field *field, uint32_t rows,
                           const struct shuffle_csv_options *csv)
{
    for (uint32_t r = 0; r < rows; r++) {
        if (shuffle_csv_field_is_null(&field[r], csv))
            continue;
        column->any = true;
        if (field[r].doubled)
            shuffle_csv_undouble(&field[r], (uint8_t)csv->quote);
        for (int c = 0; c < CANDIDATES; c++)
            column->out[c] = column->out[c] || !sample_fits(candidates[c], &field[r]);
    }
}

void shuffle_sample_file(struct shuffle_sample *sample, const struct shuffle_csv_options *csv, uint8_t *data,
                         size_t bytes, bool final)
{
    struct csv_split split = {.delimiter = (uint8_t)csv->delimiter,
                              .quote = (uint8_t)csv->quote,
                              .columns = sample->columns,
                              .field = sample->field,
                              .field_stride = SAMPLE_ROWS,
                              .rows_max = sample->has_rows ? SAMPLE_ROWS_FURTHER : SAMPLE_ROWS,
                              .tolerant = csv->bad_rows_max > 0};
    enum csv_result result;
    do { /* after a record that is left out there are others */
        result = shuffle_csv_split(&split, data, bytes, bytes, final);
        BASE_ASSERT(split.consumed <= bytes && split.rows <= split.rows_max);
        data += split.consumed;
        bytes -= split.consumed;
    } while (split.tolerant && (result == CSV_FIELD_COUNT || result == CSV_EMPTY_LINE));
    for (uint32_t i = 0; i < sample->columns; i++)
        sample_look_at(&sample->column[i], sample->field + (size_t)i * SAMPLE_ROWS, split.rows, csv);
    sample->has_rows = sample->has_rows || split.rows > 0;
}

void shuffle_sample_type(const struct shuffle_sample *sample, uint32_t column, struct shuffle_field *field)
{
    BASE_ASSERT(column < sample->columns);
    struct shuffle_field as = {.type = SHUFFLE_STRING, .nullable = true};
    for (int c = CANDIDATES - 1; c >= 0 && sample->column[column].any; c--)
        if (!sample->column[column].out[c])
            as.type = candidates[c];
    char type[48];
    shuffle_field_format_type(&as, type);
    shuffle_field_parse_type(type, field, NULL); /* sets the width, too */
    field->inferred = true;
}
