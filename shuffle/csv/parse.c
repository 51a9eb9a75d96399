/* The splitter walks from one special byte (delimiter, quote, LF) to the next by bit masks over 64 bytes, and
 * runs a state machine over these alone. Between two records all its state is the offset `begin`, so a record that
 * does not end in the bytes at hand is simply split again once more of it is there. */
#include "shuffle/csv/parse.h"

#include "base/assert.h"
#include "shuffle/csv/mask.h"

/* Equals no byte: what a quote is compared with where there is none. */
enum { NO_BYTE = 256 };

/* A byte that is neither LF, delimiter nor quote. */
static uint8_t padding_byte(uint8_t delimiter, uint8_t quote)
{
    uint8_t byte = 0;
    while (byte == '\n' || byte == delimiter || byte == quote)
        byte++;
    return byte;
}

/* Where the walk over special bytes stands: `bits` are those not yet visited of the 64 bytes at `base`. */
struct cursor {
    const uint8_t *data;
    size_t bytes, base;
    uint64_t bits;
    uint8_t delimiter, quote, padding;
};

static inline uint64_t special_bits(const struct cursor *cursor)
{
    uint8_t copy[64];
    const uint8_t *at = csv_mask_window(cursor->data, cursor->bytes, cursor->base, copy, cursor->padding);
    return csv_mask_of(at, '\n') | csv_mask_of(at, cursor->delimiter) | csv_mask_of(at, cursor->quote);
}

/* Offset of the next special byte, or `bytes`. */
static inline size_t next_special(struct cursor *cursor)
{
    while (cursor->bits == 0) {
        if (cursor->bytes - cursor->base <= 64)
            return cursor->bytes;
        cursor->base += 64;
        cursor->bits = special_bits(cursor);
    }
    const size_t at = cursor->base + (size_t)__builtin_ctzll(cursor->bits);
    cursor->bits &= cursor->bits - 1;
    return at;
}

/* What is known of the record being split. */
struct record {
    size_t begin;       /* of the record */
    size_t field_begin; /* of the field; for a quoted one: of its opening quote */
    size_t close;       /* of a quoted field: its closing quote */
    uint32_t column;
    bool quoted, inside, doubled;
    uint64_t lines;       /* newlines before the current byte */
    uint64_t begin_lines; /* newlines before the record */
    uint64_t open_lines;  /* newlines before the opening quote */
};

static inline void begin_field(struct record *record, size_t at)
{
    record->field_begin = at;
    record->quoted = record->inside = record->doubled = false;
}

static enum csv_result csv_fail(struct csv_split *split, const struct record *record, size_t at, enum csv_result result)
{
    split->error_at = at;
    split->error_lines = result == CSV_QUOTE_OPEN    ? record->open_lines
                         : result == CSV_FIELD_COUNT ? record->begin_lines
                                                     : record->lines;
    split->error_fields = record->column + 1;
    return result;
}

static inline enum csv_result open_or_close_quote(struct csv_split *split, struct record *record, struct cursor *cursor,
                                                  size_t at)
{
    if (!record->quoted) {
        if (at != record->field_begin)
            return csv_fail(split, record, at, CSV_QUOTE_INSIDE);
        record->quoted = record->inside = true;
        record->open_lines = record->lines;
    } else if (!record->inside) {
        return csv_fail(split, record, record->close + 1, CSV_TEXT_BEHIND_QUOTE);
    } else if (at + 1 < cursor->bytes && cursor->data[at + 1] == split->quote) {
        record->doubled = true;
        next_special(cursor);
    } else {
        record->inside = false;
        record->close = at;
    }
    return CSV_OK;
}

/* The field is data[field_begin .. at). Stores it where its column's fields go. */
static inline enum csv_result end_field(struct csv_split *split, struct record *record, const uint8_t *data, size_t at)
{
    size_t from = record->field_begin, to = at;
    if (record->quoted) {
        if (record->close + 1 != to)
            return csv_fail(split, record, record->close + 1, CSV_TEXT_BEHIND_QUOTE);
        from++;
        to--;
    }
    if (record->column >= split->columns) /* when tolerant, reported at the record's end */
        return split->tolerant ? CSV_OK : csv_fail(split, record, record->begin, CSV_FIELD_COUNT);
    const uint32_t target = !split->target ? record->column : split->target[record->column];
    if (target != CSV_SKIP)
        split->field[target * split->field_stride + split->rows] = (struct csv_field){
            .data = data + from, .bytes = (uint32_t)(to - from), .quoted = record->quoted, .doubled = record->doubled};
    return CSV_OK;
}

/* The record's text ends at `at`, by a line end or with the file; the next one begins at `next`. last: where the data
 * does; final: and the file, too. */
static inline enum csv_result end_record(struct csv_split *split, struct record *record, const uint8_t *data, size_t at,
                                         size_t next, bool last, bool final)
{
    const bool line_end = next > at;
    if (line_end && at > record->field_begin && data[at - 1] == '\r') /* a CR at the file's end is data */
        at--;
    if (at == record->begin && split->columns > 1 && !split->any_count) {
        if (last && !final) /* of a compressed file the end shows only at the next read */
            return CSV_MORE;
        record->begin = next;
        return last ? CSV_OK : csv_fail(split, record, at, CSV_EMPTY_LINE);
    }
    const enum csv_result result = end_field(split, record, data, at);
    if (result != CSV_OK)
        return result;
    split->last_fields = record->column + 1;
    const bool bad = split->last_fields != split->columns && !split->any_count;
    const enum csv_result counted = bad ? csv_fail(split, record, record->begin, CSV_FIELD_COUNT) : CSV_OK;
    split->rows += !bad;
    record->begin = next;
    return counted;
}

static inline enum csv_result split_record(struct csv_split *split, struct record *record, struct cursor *cursor,
                                           bool final)
{
    const uint8_t *data = cursor->data;
    const uint8_t delimiter = cursor->delimiter;
    const unsigned quote = cursor->quote == '\n' ? NO_BYTE : cursor->quote;
    record->column = 0;
    record->begin_lines = record->lines;
    begin_field(record, record->begin);
    for (;;) {
        const size_t at = next_special(cursor);
        enum csv_result result = CSV_OK;
        if (at == cursor->bytes) {
            if (!final)
                return CSV_MORE;
            if (record->inside)
                return csv_fail(split, record, record->field_begin, CSV_QUOTE_OPEN);
            return end_record(split, record, data, at, at, true, true);
        }
        if (data[at] == quote) {
            result = open_or_close_quote(split, record, cursor, at);
        } else if (record->inside) {
            record->lines += data[at] == '\n';
        } else if (data[at] == delimiter) {
            result = end_field(split, record, data, at);
            record->column++;
            begin_field(record, at + 1);
        } else {
            result = end_record(split, record, data, at, at + 1, at + 1 == cursor->bytes, final);
            record->lines++;
            return result;
        }
        if (result != CSV_OK)
            return result;
    }
}

enum csv_result shuffle_csv_split(struct csv_split *split, const uint8_t *data, size_t bytes, size_t begin_before,
                                  bool final)
{
    struct cursor cursor = {.data = data, .bytes = bytes, .delimiter = split->delimiter, .quote = split->quote};
    cursor.padding = padding_byte(split->delimiter, split->quote);
    if (bytes > 0)
        cursor.bits = special_bits(&cursor);
    BASE_ASSERT(bytes <= UINT32_MAX && split->rows <= split->rows_max); /* offsets of fields have 32 bits */
    const size_t stop = begin_before < bytes ? begin_before : bytes;
    struct record record = {0};
    enum csv_result result = CSV_OK;
    for (;;) {
        split->consumed = record.begin;
        split->lines = record.lines;
        BASE_ASSERT_SLOW(split->consumed <= bytes && split->lines <= bytes);
        if (split->rows == split->rows_max || record.begin >= stop)
            return result;
        if (split->row_line)
            split->row_line[split->rows] = (uint32_t)record.lines;
        result = split_record(split, &record, &cursor, final);
        if (split->tolerant && (result == CSV_FIELD_COUNT || result == CSV_EMPTY_LINE)) {
            split->consumed = record.begin;
            split->lines = record.lines;
        }
        if (result != CSV_OK)
            return result;
    }
}

void shuffle_csv_undouble(struct csv_field *field, uint8_t quote)
{
    uint8_t *to = (uint8_t *)(uintptr_t)field->data;
    const uint8_t *from = field->data, *end = from + field->bytes;
    while (from < end) {
        const uint8_t *pair = memchr(from, quote, (size_t)(end - from));
        const size_t run = !pair ? (size_t)(end - from) : (size_t)(pair - from) + 1;
        memmove(to, from, run);
        to += run;
        from += run + (pair != NULL);
    }
    BASE_ASSERT_SLOW(to <= end); /* it is written over what was read */
    field->bytes = (uint32_t)(to - field->data);
    field->doubled = false;
}

/* Bit i of the result: is the number of bits set in `bits` up to and with bit i odd? */
static inline uint64_t running_parity(uint64_t bits)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

size_t shuffle_csv_find_end(uint8_t quote, const uint8_t *data, size_t bytes, bool *open)
{
    uint8_t copy[64];
    const uint8_t padding = padding_byte('\n', quote);
    uint64_t inside_before = *open ? UINT64_MAX : 0;
    for (size_t base = 0; base < bytes; base += 64) {
        const uint8_t *at = csv_mask_window(data, bytes, base, copy, padding);
        const uint64_t quotes = quote == '\n' ? 0 : csv_mask_of(at, quote);
        const uint64_t inside = running_parity(quotes) ^ inside_before;
        const uint64_t ends = csv_mask_of(at, '\n') & ~inside;
        if (ends != 0) {
            *open = false;
            return base + (size_t)__builtin_ctzll(ends) + 1;
        }
        inside_before = inside >> 63 ? UINT64_MAX : 0;
    }
    *open = inside_before != 0;
    return 0;
}

void shuffle_csv_count(uint8_t quote, const uint8_t *data, size_t bytes, uint64_t *quotes, uint64_t *newlines)
{
    uint8_t copy[64];
    const uint8_t padding = padding_byte('\n', quote);
    for (size_t base = 0; base < bytes; base += 64) {
        const uint8_t *at = csv_mask_window(data, bytes, base, copy, padding);
        *quotes += quote == '\n' ? 0 : (uint64_t)__builtin_popcountll(csv_mask_of(at, quote));
        *newlines += (uint64_t)__builtin_popcountll(csv_mask_of(at, '\n'));
    }
}
