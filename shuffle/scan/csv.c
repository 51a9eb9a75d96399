/* Scan of CSV files.
 *
 * A record belongs to the morsel in which it begins. A morsel that does not begin its file first skips to the first
 * line end outside quotes, at or after the byte before it; whether it starts inside quotes it is told (quote_open).
 * It ends with the record that begins last before its end, however far after the end that record reaches.
 *
 * Records are split and converted where they lie in the reader's blocks. The one record cut by a block's edge is put
 * together in the stitch buffer: its head is copied there when the block is used up, its end is looked for in the
 * blocks that follow by counting quotes, and then it is split as a whole, as row 0 of a batch that goes on with the
 * records after it. A batch therefore points into one block and the stitch buffer, both of which stay until the next
 * batch is asked for. Strings with doubled quotes and binaries are rewritten in place.
 *
 * Phases: START (the morsel's first block is awaited), SKIP (to the first record), RECORDS, DONE. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/state.h"
#include "shuffle/csv/rows.h"
#include "shuffle/scan/internal.h"
#include "shuffle/scan/reader.h"

enum {
    /* The first block shows whether the file begins with a byte order mark. */
    BLOCK_BYTES_MIN = 4,
    /* Read eagerly after a morsel's end, where its last record most likely ends. */
    TAIL_BYTES = 4096,
    /* Of a batch; wide rows make batches of fewer. */
    BATCH_BYTES = 16 << 20
};

enum csv_phase { CSV_PHASE_START, CSV_PHASE_SKIP, CSV_PHASE_RECORDS, CSV_PHASE_DONE, CSV_PHASE_COUNT };

#define FROM(phase) (1U << CSV_PHASE_##phase)
static const struct base_state_row csv_rows[CSV_PHASE_COUNT] = {
    [CSV_PHASE_START] = {"start", ~0U}, /* a pass that is stopped leaves its morsel where it stands */
    [CSV_PHASE_SKIP] = {"skip", FROM(START)},
    [CSV_PHASE_RECORDS] = {"records", FROM(START) | FROM(SKIP)},
    [CSV_PHASE_DONE] = {"done", FROM(START) | FROM(SKIP) | FROM(RECORDS)},
};
#undef FROM
static const struct base_machine csv_machine = {"scan of a CSV morsel", csv_rows, CSV_PHASE_COUNT};

struct csv_scan {
    struct shuffle_scan scan;
    struct shuffle_reader *reader;
    struct csv_split split;
    uint32_t *target; /* per column of the file: index in column, or CSV_SKIP */
    uint32_t *source; /* per projected column: index in column */
    struct csv_column *column;
    uint32_t column_count;
    uint8_t *memory; /* of the columns */
    size_t memory_bytes;

    struct shuffle_morsel morsel;
    const char *path;
    struct base_state phase; /* enum csv_phase */
    bool open;               /* SKIP: is `at` inside quotes? */

    /* what is left of the block */
    uint8_t *at;
    size_t left;
    uint64_t offset; /* of at, in the file */
    uint64_t line;   /* of at */
    bool final;      /* the file ends with this block */

    struct {
        uint8_t *data;
        size_t bytes, capacity;
        uint64_t offset, line; /* of data */
        bool open;             /* is the byte after data inside quotes? */
        bool in_batch;         /* row 0 of the batch is from here */
    } stitch;
    uint64_t batch_line; /* row_line counts from here, but for a row from the stitch buffer */
    struct csv_bad *bad; /* per row of a batch; NULL: bad rows are errors */
};

static struct csv_scan *csv_of(struct shuffle_scan *scan)
{
    return (struct csv_scan *)(void *)scan;
}

/* ---- errors ---- */

/* A record that has other fields than columns. */
static void count_reason(const struct csv_scan *csv, enum csv_result result, uint64_t offset,
                         char reason[SHUFFLE_REASON_BYTES])
{
    const struct csv_split *split = &csv->split;
    if (result == CSV_EMPTY_LINE)
        snprintf(reason, SHUFFLE_REASON_BYTES, "an empty line: the record has 1 field where the schema has %u columns",
                 split->columns);
    else
        snprintf(reason, SHUFFLE_REASON_BYTES,
                 "the record at byte %" PRIu64 " has %s%u field%s where the schema has %u column%s",
                 offset + split->error_at, split->error_fields > split->columns && !split->tolerant ? "at least " : "",
                 split->error_fields, split->error_fields == 1 ? "" : "s", split->columns,
                 split->columns == 1 ? "" : "s");
}

static enum base_status split_error(const struct csv_scan *csv, enum csv_result result, uint64_t line, uint64_t offset,
                                    struct base_error *error)
{
    const uint64_t at_line = line + csv->split.error_lines, at_byte = offset + csv->split.error_at;
    char reason[SHUFFLE_REASON_BYTES];
    switch (result) {
    case CSV_QUOTE_INSIDE:
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": a quote inside an unquoted field, at byte %" PRIu64
                              ": put the whole field in quotes and double those inside",
                              csv->path, at_line, at_byte);
    case CSV_TEXT_BEHIND_QUOTE:
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": text after a closing quote, at byte %" PRIu64
                              ": a quote inside a quoted field is written twice",
                              csv->path, at_line, at_byte);
    case CSV_QUOTE_OPEN:
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": the quote at byte %" PRIu64 " is not closed before the file ends",
                              csv->path, at_line, at_byte);
    case CSV_EMPTY_LINE:
    case CSV_FIELD_COUNT:
        count_reason(csv, result, offset, reason);
        return base_error_set(error, BASE_PARSE, "%s:%" PRIu64 ": %s", csv->path, at_line, reason);
    default:
        return base_error_set(error, BASE_INTERNAL,
                              "%s:%" PRIu64 ": the ends of the record at byte %" PRIu64 " disagree", csv->path, line,
                              offset);
    }
}

/* The record in the stitch buffer has grown beyond its limit: a quote left open is the likely cause. */
static enum base_status record_too_large(struct csv_scan *csv, struct base_error *error)
{
    csv->split.rows = 0;
    csv->split.tolerant = false; /* the job ends here */
    const enum csv_result result = shuffle_csv_split(&csv->split, csv->stitch.data, csv->stitch.bytes, 1, true);
    if (result == CSV_QUOTE_OPEN)
        return base_error_set(error, BASE_PARSE,
                              "%s:%" PRIu64 ": the quote at byte %" PRIu64
                              " is not closed within the %u bytes a record may have",
                              csv->path, csv->stitch.line + csv->split.error_lines,
                              csv->stitch.offset + csv->split.error_at, SHUFFLE_ROW_BYTES_MAX);
    /* Fields are missing because their record is not whole. */
    const bool cut_short = result == CSV_FIELD_COUNT && csv->split.error_fields <= csv->split.columns;
    if (result != CSV_OK && !cut_short)
        return split_error(csv, result, csv->stitch.line, csv->stitch.offset, error);
    return base_error_set(error, BASE_TOO_LARGE,
                          "%s:%" PRIu64 ": the record at byte %" PRIu64 " has more than the %u bytes a record may have",
                          csv->path, csv->stitch.line, csv->stitch.offset, SHUFFLE_ROW_BYTES_MAX);
}

/* Leaves out the record that was split last, at the line and offset of the bytes that were split, if that is wanted and
 * its number of fields is all that is wrong. */
static bool leave_out(struct csv_scan *csv, enum csv_result result, uint64_t line, uint64_t offset)
{
    if (!csv->bad || (result != CSV_FIELD_COUNT && result != CSV_EMPTY_LINE))
        return false;
    struct shuffle_reject *reject = shuffle_rejects_add(csv->scan.config.rejects, csv->morsel.index, csv->morsel.file,
                                                        line + csv->split.error_lines);
    if (reject)
        count_reason(csv, result, offset, reject->reason);
    return true;
}

/* ---- blocks ---- */

static enum base_status next_block(struct csv_scan *csv, struct base_error *error)
{
    struct shuffle_reader_block block;
    const enum base_status status = shuffle_reader_next(csv->reader, &block, error);
    if (status != BASE_OK)
        return status;
    csv->at = block.data;
    csv->left = block.bytes;
    csv->offset = block.offset;
    csv->final = block.final;
    return BASE_OK;
}

static void csv_scan_advance(struct csv_scan *csv, size_t bytes, uint64_t lines)
{
    BASE_ASSERT(bytes <= csv->left);
    csv->at += bytes;
    csv->left -= bytes;
    csv->offset += bytes;
    csv->line += lines;
}

static bool morsel_over(const struct csv_scan *csv)
{
    return csv->offset >= csv->morsel.end;
}

/* ---- skipping to the first record ---- */

static void start_at_file(struct csv_scan *csv)
{
    if (csv->left >= 3 && memcmp(csv->at, "\xef\xbb\xbf", 3) == 0) {
        csv_scan_advance(csv, 3, 0);
        csv->morsel.end = base_max_u64(csv->morsel.end, 4); /* the mark is part of the first record */
    }
    csv->open = false;
    base_state_enter(&csv->phase, csv->scan.config.relation->csv.header ? CSV_PHASE_SKIP : CSV_PHASE_RECORDS);
}

/* The block begins with the byte before the morsel. */
static void start_within_file(struct csv_scan *csv)
{
    BASE_ASSERT(csv->left > 0 && csv->offset == csv->morsel.begin - 1);
    csv->open = csv->morsel.quote_open;
    base_state_enter(&csv->phase, *csv->at == '\n' && !csv->open ? CSV_PHASE_RECORDS : CSV_PHASE_SKIP);
    csv_scan_advance(csv, 1, 0);
}

static enum base_status csv_scan_start(struct csv_scan *csv, struct base_error *error)
{
    const enum base_status status = next_block(csv, error);
    if (status != BASE_OK)
        return status;
    if (csv->morsel.begin == 0)
        start_at_file(csv);
    else
        start_within_file(csv);
    return BASE_OK;
}

static enum base_status csv_scan_skip(struct csv_scan *csv, struct base_error *error)
{
    if (morsel_over(csv)) {
        base_state_enter(&csv->phase, CSV_PHASE_DONE);
        return BASE_OK;
    }
    if (csv->left == 0)
        return next_block(csv, error);
    const size_t within = (size_t)base_min_u64(csv->left, csv->morsel.end - csv->offset);
    const size_t end = shuffle_csv_find_end(csv->split.quote, csv->at, within, &csv->open);
    const size_t skipped = end != 0 ? end : within;
    uint64_t quotes = 0, lines = 0;
    shuffle_csv_count(csv->split.quote, csv->at, skipped, &quotes, &lines);
    csv_scan_advance(csv, skipped, lines);
    if (end != 0)
        base_state_enter(&csv->phase, CSV_PHASE_RECORDS);
    return BASE_OK;
}

/* ---- the record cut by a block's edge ---- */

static enum base_status stitch_append(struct csv_scan *csv, const uint8_t *data, size_t bytes, struct base_error *error)
{
    const size_t wanted = csv->stitch.bytes + bytes + SHUFFLE_READER_PADDING; /* as after a block */
    if (wanted > csv->stitch.capacity) {
        const size_t capacity = base_align_up(wanted * 2, 4096);
        void *grown;
        const enum base_status status =
            base_pages_map(csv->scan.config.governor, BASE_HOLDER_SCAN, capacity, false, &grown, error);
        if (status != BASE_OK)
            return status;
        if (csv->stitch.data) {
            memcpy(grown, csv->stitch.data, csv->stitch.bytes);
            base_pages_unmap(csv->scan.config.governor, BASE_HOLDER_SCAN, csv->stitch.data, csv->stitch.capacity);
        }
        csv->stitch.data = grown;
        csv->stitch.capacity = capacity;
    }
    memcpy(csv->stitch.data + csv->stitch.bytes, data, bytes);
    csv->stitch.bytes += bytes;
    return BASE_OK;
}

/* The rest of the block is the head of a record. */
static enum base_status csv_stitch_begin(struct csv_scan *csv, struct base_error *error)
{
    BASE_ASSERT(csv->stitch.bytes == 0 && csv->split.rows == 0); /* the batch before does not point there any more */
    csv->stitch.offset = csv->offset;
    csv->stitch.line = csv->line;
    csv->stitch.open = false;
    shuffle_csv_find_end(csv->split.quote, csv->at, csv->left, &csv->stitch.open);
    const enum base_status status = stitch_append(csv, csv->at, csv->left, error);
    csv_scan_advance(csv, csv->left, 0);
    return status;
}

/* The record in the stitch buffer has been split: result says how. */
static enum base_status stitch_end(struct csv_scan *csv, enum csv_result result, size_t bytes, struct base_error *error)
{
    const bool left_out = leave_out(csv, result, csv->stitch.line, csv->stitch.offset);
    if ((result != CSV_OK && !left_out) || csv->split.consumed != bytes)
        return split_error(csv, result, csv->stitch.line, csv->stitch.offset, error);
    csv->line = csv->stitch.line + csv->split.lines;
    csv->stitch.bytes = 0;
    csv->stitch.in_batch = csv->split.rows == 1;
    return BASE_OK;
}

/* Takes from the block what belongs to the record in the stitch buffer, and splits that record when it is whole. */
static enum base_status stitch_continue(struct csv_scan *csv, struct base_error *error)
{
    /* An empty line waits to know whether it is the file's last. It is not: the next byte, which stays, shows that. */
    const size_t before = csv->stitch.bytes;
    BASE_ASSERT(before > 0 && csv->split.rows == 0); /* it becomes row 0 */
    const uint8_t *head = csv->stitch.data;
    const bool line = csv->left > 0 && (before == 1 || (before == 2 && *head == '\r')) && head[before - 1] == '\n';
    const size_t end = line ? 0 : shuffle_csv_find_end(csv->split.quote, csv->at, csv->left, &csv->stitch.open);
    const size_t bytes = line ? 1 : end != 0 ? end : csv->left;
    const enum base_status status = stitch_append(csv, csv->at, bytes, error);
    if (status != BASE_OK)
        return status;
    if (line)
        return stitch_end(csv, shuffle_csv_split(&csv->split, csv->stitch.data, csv->stitch.bytes, 1, false), before,
                          error);
    csv_scan_advance(csv, bytes, 0);
    if (csv->stitch.bytes > SHUFFLE_ROW_BYTES_MAX)
        return record_too_large(csv, error);
    const bool file_ends = csv->final && csv->left == 0;
    if (end == 0 && !file_ends)
        return BASE_OK;
    const enum csv_result result = shuffle_csv_split(&csv->split, csv->stitch.data, csv->stitch.bytes, 1, file_ends);
    if (result == CSV_MORE && csv->stitch.bytes <= 2)
        return BASE_OK; /* an empty line */
    return stitch_end(csv, result, csv->stitch.bytes, error);
}

/* ---- records ---- */

/* One step towards a batch: *full when it is to be given out as it is. */
static enum base_status csv_scan_collect(struct csv_scan *csv, bool *full, struct base_error *error)
{
    if (csv->left == 0 && csv->stitch.bytes > 0) {
        const enum base_status status = next_block(csv, error);
        if (status != BASE_OK)
            return status;
    }
    if (csv->stitch.bytes > 0) {
        const enum base_status status = stitch_continue(csv, error);
        if (status != BASE_OK || csv->stitch.bytes > 0)
            return status;
    }
    if (morsel_over(csv) || csv->left == 0) {
        *full = csv->split.rows > 0;
        if (*full)
            return BASE_OK;
        if (!morsel_over(csv))
            return next_block(csv, error);
        base_state_enter(&csv->phase, CSV_PHASE_DONE);
        return BASE_OK;
    }
    csv->batch_line = csv->line;
    const size_t begin_before = (size_t)base_min_u64(csv->left, csv->morsel.end - csv->offset);
    const enum csv_result result = shuffle_csv_split(&csv->split, csv->at, csv->left, begin_before, csv->final);
    const bool left_out = leave_out(csv, result, csv->line, csv->offset);
    if (result != CSV_OK && result != CSV_MORE && !left_out && csv->split.rows == 0)
        return split_error(csv, result, csv->line, csv->offset, error);
    /* Rows before a bad record come first: one of them may be bad, too. */
    csv_scan_advance(csv, csv->split.consumed, csv->split.lines);
    *full = csv->split.rows > 0;
    return result == CSV_MORE && !*full ? csv_stitch_begin(csv, error) : BASE_OK;
}

static uint64_t line_of(const struct csv_scan *csv, uint32_t row)
{
    const bool stitched = csv->stitch.in_batch && row == 0;
    BASE_ASSERT(row < csv->split.rows);
    return stitched ? csv->stitch.line : csv->batch_line + csv->split.row_line[row];
}

/* The first bad row is the error. */
static enum base_status csv_scan_convert(struct csv_scan *csv, struct base_error *error)
{
    struct csv_bad bad = {0};
    const uint32_t row = shuffle_csv_rows_convert(csv->column, csv->column_count, &csv->scan.config.relation->csv,
                                                  csv->split.rows, &bad);
    csv->scan.batch.rows = csv->split.rows;
    if (row == csv->split.rows)
        return BASE_OK;
    return shuffle_csv_column_error(csv->path, line_of(csv, row), bad.column->info, &bad.column->field[row], bad.words,
                                    error);
}

/* Bad rows are counted and left out. */
static void convert_good(struct csv_scan *csv)
{
    const uint32_t rows = csv->split.rows;
    csv->scan.batch.rows = rows;
    if (!shuffle_csv_rows_convert_good(csv->column, csv->column_count, &csv->scan.config.relation->csv, rows, csv->bad))
        return;
    for (uint32_t r = 0; r < rows; r++) {
        const struct csv_bad *bad = &csv->bad[r];
        if (!bad->words)
            continue;
        struct shuffle_reject *reject =
            shuffle_rejects_add(csv->scan.config.rejects, csv->morsel.index, csv->morsel.file, line_of(csv, r));
        if (reject)
            shuffle_csv_column_reason(bad->column->info, &bad->column->field[r], bad->words, reject->reason);
    }
    csv->scan.batch.rows = shuffle_csv_rows_drop_bad(csv->column, csv->column_count, rows, csv->bad);
}

static enum base_status csv_next(struct shuffle_scan *scan, struct base_error *error)
{
    struct csv_scan *csv = csv_of(scan);
    csv->split.rows = 0;
    csv->stitch.in_batch = false;
    bool full = false;
    /* What is left out may fill no batch for long: others have their turn. */
    for (uint32_t steps = 0; !full && (!csv->bad || steps < SHUFFLE_BATCH_ROWS); steps++) {
        enum base_status status = BASE_OK;
        switch (csv->phase.now) {
        case CSV_PHASE_START:
            status = csv_scan_start(csv, error);
            break;
        case CSV_PHASE_SKIP:
            status = csv_scan_skip(csv, error);
            break;
        case CSV_PHASE_RECORDS:
            status = csv_scan_collect(csv, &full, error);
            break;
        case CSV_PHASE_DONE:
            return BASE_END;
        }
        if (status != BASE_OK)
            return status;
    }
    if (!csv->bad)
        return csv_scan_convert(csv, error);
    convert_good(csv);
    return BASE_OK;
}

static enum base_status csv_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                  struct base_error *error)
{
    (void)error;
    struct csv_scan *csv = csv_of(scan);
    const struct shuffle_file *file = &scan->config.relation->file[morsel->file];
    csv->morsel = *morsel;
    csv->path = file->path;
    base_state_enter(&csv->phase, CSV_PHASE_START);
    if (morsel->begin >= morsel->end)
        base_state_enter(&csv->phase, CSV_PHASE_DONE);
    csv->left = 0;
    csv->line = morsel->line;
    csv->stitch.bytes = 0;
    const uint64_t tail = base_min_u64(TAIL_BYTES, scan->config.block_bytes);
    shuffle_reader_begin(csv->reader, file, morsel->begin - (morsel->begin > 0), morsel->end + tail);
    return BASE_OK;
}

/* ---- opening and closing ---- */

static enum base_status csv_check(const struct shuffle_scan *scan, struct base_error *error)
{
    return shuffle_reader_check(((const struct csv_scan *)(const void *)scan)->reader, error);
}

static void csv_event(struct shuffle_scan *scan, const struct net_event *event)
{
    shuffle_reader_event(csv_of(scan)->reader, event);
}

static bool csv_idle(const struct shuffle_scan *scan)
{
    return shuffle_reader_idle(((const struct csv_scan *)(const void *)scan)->reader);
}

static uint64_t csv_input_bytes(const struct shuffle_scan *scan)
{
    return shuffle_reader_bytes(((const struct csv_scan *)(const void *)scan)->reader);
}

static void csv_close(struct shuffle_scan *scan)
{
    struct csv_scan *csv = csv_of(scan);
    shuffle_reader_close(csv->reader);
    if (csv->stitch.data)
        base_pages_unmap(scan->config.governor, BASE_HOLDER_SCAN, csv->stitch.data, csv->stitch.capacity);
    if (csv->memory)
        base_pages_unmap(scan->config.governor, BASE_HOLDER_SCAN, csv->memory, csv->memory_bytes);
    free(csv->target);
    free(csv->source);
    free(csv->column);
    free(csv->bad);
    shuffle_scan_release(scan);
    free(csv);
}

/* Each column of the file that is projected, once or more often, is converted once. */
static enum base_status map_columns(struct csv_scan *csv, struct base_error *error)
{
    const struct shuffle_schema *schema = &csv->scan.config.relation->schema;
    const uint32_t projected = csv->scan.config.project_count;
    BASE_ASSERT(schema->count > 0 && schema->field);
    csv->target = malloc(schema->count * sizeof *csv->target);
    csv->source = malloc((projected + 1) * sizeof *csv->source);
    csv->column = calloc(projected + 1, sizeof *csv->column);
    if (csv->scan.config.rejects)
        csv->bad = malloc(SHUFFLE_BATCH_ROWS * sizeof *csv->bad);
    csv->split.tolerant = csv->bad;
    if (!csv->target || !csv->source || !csv->column || (csv->scan.config.rejects && !csv->bad))
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan of %u columns", schema->count);
    for (uint32_t i = 0; i < schema->count; i++)
        csv->target[i] = CSV_SKIP;
    for (uint32_t i = 0; i < projected; i++) {
        const uint32_t from = csv->scan.config.project[i];
        if (csv->target[from] == CSV_SKIP) {
            csv->target[from] = csv->column_count;
            csv->column[csv->column_count++].info = &schema->field[from];
        }
        csv->source[i] = csv->target[from];
    }
    return BASE_OK;
}

/* Bytes of a column's values in a batch. */
static size_t values_bytes(const struct csv_column *column, uint32_t rows)
{
    return base_align_up(shuffle_csv_column_stride(column->info) * rows, 16);
}

/* Memory of a batch of `rows` rows: the fields of all columns, the lines of the rows, then per column values and marks.
 */
static size_t batch_bytes(const struct csv_scan *csv, uint32_t rows)
{
    size_t bytes = (csv->column_count * sizeof(struct csv_field) + sizeof(uint32_t)) * SHUFFLE_BATCH_ROWS;
    for (uint32_t i = 0; i < csv->column_count; i++) {
        BASE_ASSERT(csv->column[i].info);
        bytes += values_bytes(&csv->column[i], rows) + SHUFFLE_BATCH_ROWS;
    }
    return bytes;
}

/* One piece of memory; batches have fewer rows when those are wide. */
static enum base_status map_memory(struct csv_scan *csv, struct base_error *error)
{
    uint32_t rows = SHUFFLE_BATCH_ROWS;
    while (rows > 1 && batch_bytes(csv, rows) > BATCH_BYTES)
        rows /= 2;
    csv->memory_bytes = batch_bytes(csv, rows);
    void *memory;
    const enum base_status status =
        base_pages_map(csv->scan.config.governor, BASE_HOLDER_SCAN, csv->memory_bytes, true, &memory, error);
    if (status != BASE_OK)
        return status;
    csv->memory = memory;
    csv->split.rows_max = rows;
    csv->split.field_stride = SHUFFLE_BATCH_ROWS;
    csv->split.field = memory;
    csv->split.row_line = (uint32_t *)(void *)(csv->split.field + (size_t)csv->column_count * SHUFFLE_BATCH_ROWS);
    uint8_t *at = (uint8_t *)(csv->split.row_line + SHUFFLE_BATCH_ROWS);
    for (uint32_t i = 0; i < csv->column_count; i++) {
        struct csv_column *column = &csv->column[i];
        column->field = csv->split.field + (size_t)i * SHUFFLE_BATCH_ROWS;
        column->data = at;
        at += values_bytes(column, rows);
        column->null = column->info->nullable ? at : NULL;
        at += SHUFFLE_BATCH_ROWS;
    }
    return BASE_OK;
}

static void csv_point_batch(struct csv_scan *csv)
{
    for (uint32_t i = 0; i < csv->scan.config.project_count; i++) {
        const struct csv_column *from = &csv->column[csv->source[i]];
        struct shuffle_column *to = &csv->scan.batch.column[i];
        const bool variable = shuffle_type_variable(from->info->type);
        *to = (struct shuffle_column){.data = variable ? NULL : from->data,
                                      .stride = variable ? 0 : from->info->width,
                                      .slice = variable ? from->slice : NULL,
                                      .null = from->null};
    }
}

static enum base_status check_options(const struct shuffle_csv_options *csv, struct base_error *error)
{
    const bool line_end = csv->delimiter == '\n' || csv->delimiter == '\r' || csv->quote == '\r';
    if (csv->delimiter == csv->quote || line_end)
        return base_error_set(error, BASE_INVALID,
                              "delimiter and quote of a CSV file must differ, and neither may be a line end");
    return BASE_OK;
}

static const struct shuffle_scan_ops csv_ops = {.begin = csv_begin,
                                                .next = csv_next,
                                                .check = csv_check,
                                                .event = csv_event,
                                                .idle = csv_idle,
                                                .input_bytes = csv_input_bytes,
                                                .close = csv_close};

enum base_status shuffle_csv_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                       struct base_error *error)
{
    enum base_status status = check_options(&config->relation->csv, error);
    if (status != BASE_OK)
        return status;
    struct csv_scan *csv = calloc(1, sizeof *csv);
    if (!csv)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan");
    base_state_begin(&csv->phase, &csv_machine, CSV_PHASE_START);
    status = shuffle_scan_prepare(&csv->scan, &csv_ops, config, error);
    if (status == BASE_OK)
        status = map_columns(csv, error);
    if (status == BASE_OK)
        status = map_memory(csv, error);
    if (status != BASE_OK)
        goto close;
    struct shuffle_scan_config *filled = &csv->scan.config;
    filled->block_bytes = filled->block_bytes < BLOCK_BYTES_MIN ? BLOCK_BYTES_MIN : filled->block_bytes;
    const struct shuffle_reader_config reader = {.engine = config->engine,
                                                 .governor = config->governor,
                                                 .block_bytes = filled->block_bytes,
                                                 .reads_in_flight = filled->reads_in_flight,
                                                 .tag = SHUFFLE_FILE_TAG_SCAN,
                                                 .context = &csv->scan};
    status = shuffle_reader_open(&reader, &csv->reader, error);
    if (status != BASE_OK)
        goto close;
    csv->split.delimiter = (uint8_t)config->relation->csv.delimiter;
    csv->split.quote = (uint8_t)config->relation->csv.quote;
    csv->split.columns = config->relation->schema.count;
    csv->split.target = csv->target;
    csv_point_batch(csv);
    *scan = &csv->scan;
    return BASE_OK;
close:
    csv_close(&csv->scan);
    return status;
}
