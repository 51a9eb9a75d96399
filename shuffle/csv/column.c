#include "shuffle/csv/column.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "shuffle/rows/value.h"

static const char empty_words[] = "is empty";
/* Of a column whose type was inferred. */
static const char changed_words[] = "is written otherwise";

bool shuffle_csv_is_null_text(const struct csv_field *field, const struct shuffle_csv_options *options)
{
    for (const char *at = options->null_texts; *at != '\0';) {
        const size_t bytes = strcspn(at, "\n");
        if (bytes == field->bytes && memcmp(at, field->data, bytes) == 0)
            return true;
        at += bytes + (at[bytes] == '\n');
    }
    return false;
}

/* Fills column->null; false when a NULL is where none may be. */
static bool convert_nulls(const struct csv_column *column, const struct shuffle_csv_options *options, uint32_t from,
                          uint32_t rows, uint32_t *bad_row)
{
    for (uint32_t r = from; r < rows; r++) {
        const bool null = shuffle_csv_field_is_null(&column->field[r], options);
        if (column->null) {
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
    return column->null && column->null[row];
}

static const char *convert_strings(const struct csv_column *column, uint32_t from, uint32_t rows)
{
    for (uint32_t r = from; r < rows; r++)
        column->slice[r] =
            (struct shuffle_slice){column->field[r].data, null_at(column, r) ? 0 : column->field[r].bytes};
    return NULL;
}

/* Hexadecimal digits become bytes where they stand. */
static const char *convert_binaries(const struct csv_column *column, uint32_t from, uint32_t rows, uint32_t *bad_row)
{
    for (uint32_t r = from; r < rows; r++) {
        const struct csv_field *field = &column->field[r];
        uint32_t made = 0;
        if (!null_at(column, r)) {
            const char *words =
                shuffle_value_parse_binary(field->data, field->bytes, (uint8_t *)(uintptr_t)field->data, &made);
            if (words) {
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
 * take the slow path. */
static const char *convert_int64s(const struct csv_column *column, uint32_t from, uint32_t rows, uint32_t *bad_row)
{
    int64_t *to = (int64_t *)(void *)column->data;
    const bool inferred = column->info->inferred;
    for (uint32_t r = from; r < rows; r++) {
        const struct csv_field *field = &column->field[r];
        uint64_t value;
        if (__builtin_expect(sixteen_digits(field->data, field->bytes, &value), 1)) {
            to[r] = null_at(column, r) ? 0 : (int64_t)value; /* a number may mean NULL */
            if (__builtin_expect(inferred && field->data[0] == '0' && field->bytes > 1 && !null_at(column, r), 0)) {
                *bad_row = r;
                return changed_words;
            }
            continue;
        }
        to[r] = 0;
        if (!null_at(column, r) && !shuffle_value_scan_int64(field->data, field->bytes, &to[r])) {
            uint8_t unused[8];
            *bad_row = r;
            return shuffle_value_parse(column->info, field->data, field->bytes, unused);
        }
        if (inferred && !null_at(column, r) &&
            !shuffle_value_kept(column->info, field->data, field->bytes, (const uint8_t *)&to[r])) {
            *bad_row = r;
            return changed_words;
        }
    }
    return NULL;
}

static const char *convert_others(const struct csv_column *column, uint32_t from, uint32_t rows, uint32_t *bad_row)
{
    const uint32_t width = column->info->width;
    uint8_t *to = column->data + (size_t)from * width;
    for (uint32_t r = from; r < rows; r++, to += width) {
        const struct csv_field *field = &column->field[r];
        if (null_at(column, r)) {
            memset(to, 0, width);
            continue;
        }
        const char *words = shuffle_value_parse(column->info, field->data, field->bytes, to);
        if (!words && column->info->inferred && !shuffle_value_kept(column->info, field->data, field->bytes, to))
            words = changed_words;
        if (words) {
            *bad_row = r;
            return words;
        }
    }
    return NULL;
}

static const char *convert_values(const struct csv_column *column, uint32_t from, uint32_t rows, uint32_t *bad_row)
{
    switch (column->info->type) {
    case SHUFFLE_STRING:
        return convert_strings(column, from, rows);
    case SHUFFLE_BINARY:
        return convert_binaries(column, from, rows, bad_row);
    case SHUFFLE_INT64:
        return convert_int64s(column, from, rows, bad_row);
    default:
        return convert_others(column, from, rows, bad_row);
    }
}

const char *shuffle_csv_column_convert(const struct csv_column *column, const struct shuffle_csv_options *options,
                                       uint32_t from, uint32_t rows, uint32_t *bad_row)
{
    for (uint32_t r = from; r < rows; r++)
        if (column->field[r].doubled)
            shuffle_csv_undouble(&column->field[r], (uint8_t)options->quote);
    BASE_ASSERT(from <= rows && (column->null || !column->info->nullable));
    BASE_ASSERT(shuffle_type_variable(column->info->type) ? column->slice != NULL : column->data != NULL);
    const bool whole = convert_nulls(column, options, from, rows, bad_row);
    const char *words = convert_values(column, from, whole ? rows : *bad_row, bad_row);
    return words || whole ? words : empty_words;
}

/* A decimal that takes the text and all values of the column's own type, which is an integer or a decimal. */
static bool fitting_decimal(const struct shuffle_field *info, const struct csv_field *field,
                            struct shuffle_field *better)
{
    const uint8_t *point = memchr(field->data, '.', field->bytes);
    const uint8_t *end = field->data + field->bytes;
    uint32_t scale = 0, whole = 19; /* of int64 */
    for (const uint8_t *p = point; p != NULL && p < end; p++)
        scale = *p != '.' && *p != '0' ? (uint32_t)(p - point) : scale;
    if (info->type == SHUFFLE_DECIMAL) {
        whole = (uint32_t)info->precision - info->scale;
        scale = scale > info->scale ? scale : info->scale;
    }
    const uint32_t digits = (uint32_t)((point ? point : end) - field->data);
    whole = digits > whole ? digits : whole;
    if (scale + whole > SHUFFLE_DECIMAL_DIGITS_MAX)
        return false;
    better->type = SHUFFLE_DECIMAL;
    better->precision = (uint8_t)(scale + whole);
    better->scale = (uint8_t)scale;
    uint8_t unused[16];
    return !shuffle_value_parse(better, field->data, field->bytes, unused);
}

/* A type that takes the text, and the other values of the column as it is; integers stay joinable with integers. */
static void fitting_type(const struct shuffle_field *info, const struct csv_field *field, struct shuffle_field *better)
{
    uint8_t unused[16];
    const bool integer = info->type >= SHUFFLE_INT8 && info->type <= SHUFFLE_UINT64;
    struct shuffle_field try = *info;
    try.type = info->type == SHUFFLE_DATE ? SHUFFLE_TIMESTAMP : SHUFFLE_INT64;
    const bool wider = integer || info->type == SHUFFLE_DATE || (info->type == SHUFFLE_BOOL && !info->inferred);
    if (wider && !shuffle_value_parse(&try, field->data, field->bytes, unused)) {
        *better = try;
        return;
    }
    if ((integer || info->type == SHUFFLE_DECIMAL) && fitting_decimal(info, field, &try)) {
        *better = try;
        return;
    }
    try = *info;
    try.type = SHUFFLE_FLOAT64;
    const bool number = integer || info->type == SHUFFLE_DECIMAL;
    if (!number || shuffle_value_parse(&try, field->data, field->bytes, unused))
        try.type = SHUFFLE_STRING;
    *better = try;
}

/* A text that the inferred type would change. */
static void changed_reason(const struct shuffle_field *info, const struct csv_field *field,
                           char reason[SHUFFLE_REASON_BYTES])
{
    const struct shuffle_slot slot = {.type = info->type, .width = info->width};
    char type[48], text[SHUFFLE_QUOTE_BYTES];
    uint8_t value[16], written[SHUFFLE_VALUE_TEXT_MAX];
    shuffle_field_format_type(info, type);
    shuffle_value_parse(info, field->data, field->bytes, value); /* as the conversion did */
    int bytes = (int)shuffle_value_format(&slot, value, info->width, written);
    if (info->type == SHUFFLE_FLOAT64 && bytes == 2 && memcmp(written, "-0", 2) == 0) { /* written so, equal to 0 */
        *written = '0';
        bytes = 1;
    }
    snprintf(reason, SHUFFLE_REASON_BYTES, "column \"%s\" (%s by its first rows): \"%s\" would become \"%.*s\"",
             info->name, type, shuffle_value_quote(field->data, field->bytes, text), bytes, (const char *)written);
}

void shuffle_csv_column_reason(const struct shuffle_field *info, const struct csv_field *field, const char *words,
                               char reason[SHUFFLE_REASON_BYTES])
{
    char type[48], text[SHUFFLE_QUOTE_BYTES];
    if (words == changed_words) {
        changed_reason(info, field, reason);
        return;
    }
    shuffle_field_format_type(info, type);
    shuffle_value_quote(field->data, field->bytes, text);
    if (words == empty_words)
        snprintf(reason, SHUFFLE_REASON_BYTES, "column \"%s\" is %s, but its type %s does not allow NULL", info->name,
                 field->bytes == 0 ? "empty" : text, type);
    else
        snprintf(reason, SHUFFLE_REASON_BYTES, "column \"%s\" (%s%s): \"%s\" %s", info->name, type,
                 info->inferred ? " by its first rows" : "", text, words);
}

#define DECLARE_WORDS "with --left-schema, --right-schema or --schema, or in %s.schema"

enum base_status shuffle_csv_column_error(const char *path, uint64_t line, const struct shuffle_field *info,
                                          const struct csv_field *field, const char *words, struct base_error *error)
{
    char reason[SHUFFLE_REASON_BYTES], type[48], better_type[48], string[SHUFFLE_NAME_BYTES_MAX + 32] = "";
    struct shuffle_field better = *info;
    shuffle_csv_column_reason(info, field, words, reason);
    if (words == empty_words) {
        better.nullable = true;
        shuffle_field_format_type(&better, better_type);
        return base_error_set(error, BASE_PARSE, "%s:%" PRIu64 ": %s: declare it \"%s:%s\" " DECLARE_WORDS, path, line,
                              reason, info->name, better_type, path);
    }
    if (words == changed_words) {
        better.type = SHUFFLE_STRING;
        shuffle_field_format_type(info, type);
        shuffle_field_format_type(&better, better_type);
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": %s: declare the column, \"%s:%s\" to keep its texts or \"%s:%s\" to "
                              "compare values, " DECLARE_WORDS,
                              path, line, reason, info->name, better_type, info->name, type, path);
    }
    fitting_type(info, field, &better);
    shuffle_field_format_type(&better, better_type);
    if (info->inferred && better.type != SHUFFLE_STRING)
        snprintf(string, sizeof string, " or \"%s:string%s\"", info->name, info->nullable ? "?" : "");
    return base_error_set(error, BASE_PARSE,
                          "%s:%" PRIu64 ": %s: correct it, or declare the column, such as \"%s:%s\"%s, " DECLARE_WORDS,
                          path, line, reason, info->name, better_type, string, path);
}
