/* The record splitter: whatever the bytes, it stays within them, counts lines right, and gives the same records and the
 * same error for the whole text as for the text in two pieces, stitched together as the scan does. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "shuffle/csv/parse.h"

enum { ROWS = 64, COLUMNS_MAX = 5 };

struct outcome {
    enum csv_result result;
    uint32_t rows;
    size_t consumed;
    uint64_t lines;
    size_t error_at;
    uint64_t error_lines;
    uint32_t bytes[COLUMNS_MAX][ROWS];
    size_t offset[COLUMNS_MAX][ROWS];
    uint32_t row_line[ROWS];
};

static uint64_t newlines(const uint8_t *data, size_t bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        count += data[i] == '\n';
    return count;
}

/* Splits data, which stands `offset` bytes and `lines` newlines into the text, and adds to the outcome. */
static void split_on(struct outcome *outcome, uint32_t columns, const uint8_t *data, size_t bytes, size_t begin_before,
                     bool final)
{
    struct csv_field field[COLUMNS_MAX * ROWS];
    uint32_t row_line[ROWS];
    struct csv_split split = {.delimiter = ',',
                              .quote = '"',
                              .columns = columns,
                              .field = field,
                              .field_stride = ROWS,
                              .row_line = row_line,
                              .rows_max = ROWS,
                              .rows = outcome->rows};
    const uint32_t rows_before = outcome->rows;
    outcome->result = shuffle_csv_split(&split, data, bytes, begin_before, final);
    BASE_ASSERT(split.consumed <= bytes && split.rows <= ROWS && split.rows >= rows_before);
    BASE_ASSERT(split.lines == newlines(data, split.consumed));
    if (outcome->result != CSV_OK && outcome->result != CSV_MORE) {
        BASE_ASSERT(split.error_at <= bytes);
        outcome->error_at = outcome->consumed + split.error_at;
        outcome->error_lines = outcome->lines + split.error_lines;
    }
    for (uint32_t r = rows_before; r < split.rows; r++) {
        outcome->row_line[r] = (uint32_t)outcome->lines + row_line[r];
        for (uint32_t c = 0; c < columns; c++) {
            const struct csv_field *from = &field[c * ROWS + r];
            BASE_ASSERT(from->data >= data && from->data + from->bytes <= data + bytes);
            BASE_ASSERT(!from->doubled || from->quoted);
            outcome->bytes[c][r] = from->bytes;
            outcome->offset[c][r] = outcome->consumed + (size_t)(from->data - data);
        }
    }
    outcome->rows = split.rows;
    outcome->consumed += split.consumed;
    outcome->lines += split.lines;
}

static struct outcome in_one(const uint8_t *data, size_t bytes, uint32_t columns)
{
    struct outcome outcome = {0};
    split_on(&outcome, columns, data, bytes, bytes, true);
    return outcome;
}

/* Up to the cut; the record cut, from both sides, its end found by counting quotes; then the rest. */
static struct outcome in_two(const uint8_t *data, size_t bytes, size_t cut, uint32_t columns)
{
    struct outcome outcome = {0};
    split_on(&outcome, columns, data, cut, cut, false);
    if (outcome.rows == ROWS || (outcome.result != CSV_MORE && outcome.result != CSV_OK))
        return outcome;
    if (outcome.result == CSV_MORE) {
        const size_t begin = outcome.consumed;
        bool open = false;
        const size_t held = shuffle_csv_find_end('"', data + begin, cut - begin, &open);
        const size_t end = held != 0 ? 0 : shuffle_csv_find_end('"', data + cut, bytes - cut, &open);
        const size_t record = held != 0 ? held : end != 0 ? cut - begin + end : bytes - begin;
        BASE_ASSERT(held == 0 || (held == cut - begin && held <= 2));
        if (held == 0)
            split_on(&outcome, columns, data + begin, record, 1, begin + record == bytes);
        if (outcome.result == CSV_MORE && record <= 2) { /* an empty line: what follows shows if it is the last */
            split_on(&outcome, columns, data + begin, bytes - begin, bytes - begin, true);
            return outcome;
        }
        if (outcome.rows == ROWS || outcome.result != CSV_OK)
            return outcome;
        BASE_ASSERT(outcome.consumed == begin + record);
    }
    if (outcome.consumed < bytes)
        split_on(&outcome, columns, data + outcome.consumed, bytes - outcome.consumed, bytes, true);
    return outcome;
}

/* In place, as the scan does: the result is never longer, and a quote in it stood for two. */
static void undouble_all(const uint8_t *data, size_t bytes, uint32_t columns)
{
    uint8_t *copy = malloc(bytes + 1);
    BASE_ASSERT(copy);
    memcpy(copy, data, bytes);
    struct csv_field field[COLUMNS_MAX * ROWS];
    struct csv_split split = {
        .delimiter = ',', .quote = '"', .columns = columns, .field = field, .field_stride = ROWS, .rows_max = ROWS};
    shuffle_csv_split(&split, copy, bytes, bytes, true);
    for (uint32_t i = 0; i < columns * ROWS; i++) {
        struct csv_field *from = &field[i];
        if (i % ROWS >= split.rows || !from->doubled)
            continue;
        uint64_t before = 0, after = 0, lines = 0;
        const uint32_t bytes_before = from->bytes;
        shuffle_csv_count('"', from->data, from->bytes, &before, &lines);
        shuffle_csv_undouble(from, '"');
        shuffle_csv_count('"', from->data, from->bytes, &after, &lines);
        BASE_ASSERT(before == 2 * after && bytes_before - from->bytes == after);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 3)
        return 0;
    const uint32_t columns = data[0] % COLUMNS_MAX + 1;
    size_t cut = (size_t)(data[1] | data[2] << 8);
    data += 3;
    bytes -= 3;
    cut = bytes > 0 ? cut % bytes : 0; /* a piece with all bytes would be known to be the last */
    const struct outcome one = in_one(data, bytes, columns);
    const struct outcome two = in_two(data, bytes, cut, columns);
    BASE_ASSERT(one.result == two.result && one.rows == two.rows && one.consumed == two.consumed);
    BASE_ASSERT(one.lines == two.lines && one.error_at == two.error_at && one.error_lines == two.error_lines);
    BASE_ASSERT(memcmp(one.bytes, two.bytes, sizeof one.bytes) == 0);
    BASE_ASSERT(memcmp(one.offset, two.offset, sizeof one.offset) == 0);
    BASE_ASSERT(memcmp(one.row_line, two.row_line, sizeof one.row_line) == 0);
    undouble_all(data, bytes, columns);
    return 0;
}
