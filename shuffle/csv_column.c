#include "shuffle/csv_column.h"

#include <inttypes.h>
#include <stdio.h>

#include "shuffle/value.h"

static const char empty_words[] = "is empty";

/* Fills column->null; false when a NULL is where none may be. */
static bool convert_nulls(const struct csv_column *column, const struct shuffle_csv_options *options, uint32_t rows,
                          uint32_t *bad_row)
{
    for (uint32_t r = 0; r < rows; r++) {
        const bool null = shuffle_csv_field_is_null(&column->field[r], options);
        if (column->null != NULL) {
            column->null[r] = null;
        } else if (null) {
            *bad_row = r;
            return false;
        }
    }
    return true;
}

static inline bool null_at(const struct csv_column *column, uint32_t row)
{
    return column->null != NULL && column->null[row];
}

static const char *convert_strings(const struct csv_column *column, uint32_t rows)
{
    for (uint32_t r = 0; r < rows; r++)
        column->slice[r] = (struct shuffle_slice){column->field[r].data, column->field[r].bytes};
    return NULL;
}

/* Hexadecimal digits become bytes where they stand. */
static const char *convert_binaries(const struct csv_column *column, uint32_t rows, uint32_t *bad_row)
{
    for (uint32_t r = 0; r < rows; r++) {
        const struct csv_field *field = &column->field[r];
        uint32_t made = 0;
        if (!null_at(column, r)) {
            const char *words =
                shuffle_value_parse_binary(field->data, field->bytes, (uint8_t *)(uintptr_t)field->data, &made);
            if (words != NULL) {
                *bad_row = r;
                return words;
            }
        }
        column->slice[r] = (struct shuffle_slice){field->data, made};
    }
    return NULL;
}

/* The value of `count` digits, 1 to 8, at text, all at once (eight bytes are readable). False: they are not all digits.
 */
static inline bool eight_digits(const uint8_t *text, uint32_t count, uint64_t *value)
{
    const uint64_t zeros = UINT64_C(0x3030303030303030), high = UINT64_C(0xf0f0f0f0f0f0f0f0);
    uint64_t bytes = base_load_u64(text);
    if (count < 8)
        bytes = bytes << (64 - 8 * count) | zeros >> (8 * count);
    const bool digits =
        ((bytes & high) | ((bytes + UINT64_C(0x0606060606060606)) & high) >> 4) == UINT64_C(0x3333333333333333);
    bytes -= zeros;
    bytes = bytes * 10 + (bytes >> 8); /* pairs, in every second byte */
    const uint64_t pairs = UINT64_C(0x000000ff000000ff);
    *value =
        ((bytes & pairs) * (100 + (UINT64_C(1000000) << 32)) + (bytes >> 16 & pairs) * (1 + (UINT64_C(10000) << 32))) >>
        32;
    return digits;
}

static inline bool sixteen_digits(const uint8_t *text, uint32_t count, uint64_t *value)
{
    if (count - 1 < 8)
        return eight_digits(text, count, value);
    uint64_t high, low;
    if (count - 1 >= 16 || !eight_digits(text, count - 8, &high) || !eight_digits(text + count - 8, 8, &low))
        return false;
    *value = high * 100000000 + low;
    return true;
}

/* The commonest type by itself: up to sixteen digits are converted without a loop; signs, NULL, more digits and errors
 * go the long way. */
static const char *convert_int64s(const struct csv_column *column, uint32_t rows, uint32_t *bad_row)
{
    int64_t *to = (int64_t *)(void *)column->data;
    for (uint32_t r = 0; r < rows; r++) {
        const struct csv_field *field = &column->field[r];
        uint64_t value;
        if (__builtin_expect(sixteen_digits(field->data, field->bytes, &value), 1)) {
            to[r] = (int64_t)value;
            continue;
        }
        to[r] = 0;
        if (!null_at(column, r) && !shuffle_value_scan_int64(field->data, field->bytes, &to[r])) {
            uint8_t unused[8];
            *bad_row = r;
            return shuffle_value_parse(column->info, field->data, field->bytes, unused);
        }
    }
    return NULL;
}

static const char *convert_others(const struct csv_column *column, uint32_t rows, uint32_t *bad_row)
{
    const uint32_t width = column->info->width;
    uint8_t *to = column->data;
    for (uint32_t r = 0; r < rows; r++, to += width) {
        const struct csv_field *field = &column->field[r];
        if (null_at(column, r)) {
            memset(to, 0, width);
            continue;
        }
        const char *words = shuffle_value_parse(column->info, field->data, field->bytes, to);
        if (words != NULL) {
            *bad_row = r;
            return words;
        }
    }
    return NULL;
}

const char *shuffle_csv_column_convert(const struct csv_column *column, const struct shuffle_csv_options *options,
                                       uint32_t rows, uint32_t *bad_row)
{
    for (uint32_t r = 0; r < rows; r++)
        if (column->field[r].doubled)
            shuffle_csv_undouble(&column->field[r], (uint8_t)options->quote);
    if (!convert_nulls(column, options, rows, bad_row))
        return empty_words;
    switch (column->info->type) {
    case SHUFFLE_STRING:
        return convert_strings(column, rows);
    case SHUFFLE_BINARY:
        return convert_binaries(column, rows, bad_row);
    case SHUFFLE_INT64:
        return convert_int64s(column, rows, bad_row);
    default:
        return convert_others(column, rows, bad_row);
    }
}

/* A type that would have taken the text: the narrowest of int64, float64 and string. */
static enum shuffle_type fitting_type(const struct csv_field *field)
{
    static const enum shuffle_type wider[] = {SHUFFLE_INT64, SHUFFLE_FLOAT64};
    uint8_t unused[16];
    for (size_t i = 0; i < sizeof wider / sizeof *wider; i++) {
        const struct shuffle_field try = {.type = wider[i]};
        if (shuffle_value_parse(&try, field->data, field->bytes, unused) == NULL)
            return wider[i];
    }
    return SHUFFLE_STRING;
}

enum base_status shuffle_csv_column_error(const char *path, uint64_t line, const struct shuffle_field *info,
                                          const struct csv_field *field, const char *words, struct base_error *error)
{
    char type[48], better_type[48], text[SHUFFLE_QUOTE_BYTES];
    struct shuffle_field better = *info;
    shuffle_field_format_type(info, type);
    if (words == empty_words) {
        better.nullable = true;
        shuffle_field_format_type(&better, better_type);
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": column \"%s\" is empty, but its type %s does not allow NULL: declare it "
                              "\"%s:%s\" with --left-schema, --right-schema or --schema, or in %s.schema",
                              path, line, info->name, type, info->name, better_type, path);
    }
    better.type = fitting_type(field);
    shuffle_field_format_type(&better, better_type);
    return base_error_set(error, BASE_PARSE,
                          "%s:%" PRIu64 ": column \"%s\" (%s): \"%s\" %s: correct it, or declare the column, such as "
                          "\"%s:%s\", with --left-schema, --right-schema or --schema, or in %s.schema",
                          path, line, info->name, type, shuffle_value_quote(field->data, field->bytes, text), words,
                          info->name, better_type, path);
}
