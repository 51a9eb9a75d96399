/* Scan of fixed-width files: rows lie in the blocks as they are, so columns are pointers into them. Blocks hold whole
 * rows. A projection of all columns in order makes the rows themselves images of the layout. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/scan/internal.h"
#include "shuffle/scan/reader.h"

struct fixed_scan {
    struct shuffle_scan scan;
    struct shuffle_reader *reader;
    struct shuffle_layout file; /* of the rows in the file */
    bool image;                 /* a row of the file is a row of the projection */
    uint8_t *null;              /* per projected column SHUFFLE_BATCH_ROWS marks */
    size_t null_bytes;
    const char *path;
    uint64_t left; /* bytes of the morsel not yet read */
    uint64_t row;  /* number, from 1, of the row at `at` in the file */
    uint8_t *at;   /* what is left of the block */
    uint32_t at_rows;
};

static struct fixed_scan *fixed_of(const struct shuffle_scan *scan)
{
    return (struct fixed_scan *)(uintptr_t)scan;
}

static enum base_status fixed_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                    struct base_error *error)
{
    struct fixed_scan *fixed = fixed_of(scan);
    const struct shuffle_file *file = &scan->config.relation->file[morsel->file];
    if (morsel->begin % fixed->file.row_bytes != 0 ||
        (morsel->end % fixed->file.row_bytes != 0 && morsel->end != SHUFFLE_SCAN_TO_END))
        return base_error_set(error, BASE_INVALID,
                              "the morsel of bytes %" PRIu64 " to %" PRIu64 " of %s ends within a row of %u bytes",
                              morsel->begin, morsel->end, file->path, fixed->file.row_bytes);
    fixed->left = morsel->end - morsel->begin;
    fixed->at_rows = 0;
    fixed->path = file->path;
    fixed->row = morsel->begin / fixed->file.row_bytes + 1;
    shuffle_reader_begin(fixed->reader, file, morsel->begin, morsel->end);
    return BASE_OK;
}

/* Spreads the null bits of the slot's column of the next rows to one byte a row, and makes what stands in the place of
 * a NULL zeros: the file may hold anything there. */
static void spread_nulls(const struct fixed_scan *fixed, const struct shuffle_slot *slot, uint32_t rows, uint8_t *null)
{
    const uint32_t bit = (uint32_t)slot->null_bit;
    uint8_t *row = fixed->at;
    for (uint32_t r = 0; r < rows; r++, row += fixed->file.row_bytes) {
        null[r] = row[fixed->file.fixed_bytes + bit / 8] >> bit % 8 & 1;
        if (null[r])
            memset(row + slot->offset, 0, slot->width);
    }
}

/* Not every pattern of bits is a bool or a decimal of so many digits; of all other types it is. A NULL's zeros are. The
 * first bad one of `rows`, or `rows`. */
static uint32_t first_bad(const struct fixed_scan *fixed, uint32_t column, uint32_t rows)
{
    const struct shuffle_slot *slot = &fixed->file.slot[column];
    const uint8_t *at = fixed->at + slot->offset;
    if (slot->type == SHUFFLE_BOOL) {
        for (uint32_t r = 0; r < rows; r++, at += fixed->file.row_bytes)
            if (*at > 1)
                return r;
    } else if (slot->type == SHUFFLE_DECIMAL) {
        __int128 value, limit = 1;
        for (uint8_t digit = 0; digit < slot->precision; digit++)
            limit *= 10;
        for (uint32_t r = 0; r < rows; r++, at += fixed->file.row_bytes) {
            memcpy(&value, at, sizeof value);
            if (value >= limit || value <= -limit)
                return r;
        }
    }
    return rows;
}

static enum base_status bad_value(const struct fixed_scan *fixed, uint32_t column, uint32_t row,
                                  struct base_error *error)
{
    const struct shuffle_field *field = &fixed->scan.config.relation->schema.field[column];
    char type[48];
    shuffle_field_format_type(field, type);
    return base_error_set(error, BASE_PARSE, "%s: row %" PRIu64 ": column \"%s\" (%s) %s", fixed->path,
                          fixed->row + row, field->name, type,
                          field->type == SHUFFLE_BOOL ? "is neither 0 nor 1" : "has more digits than its type");
}

static enum base_status fixed_point_batch(struct fixed_scan *fixed, uint32_t rows, struct base_error *error)
{
    struct shuffle_batch *batch = &fixed->scan.batch;
    BASE_ASSERT(rows > 0 && rows <= fixed->at_rows && rows <= SHUFFLE_BATCH_ROWS);
    batch->rows = rows;
    batch->image = fixed->image ? fixed->at : NULL;
    uint32_t bad_row = rows, bad_column = 0;
    for (uint32_t i = 0; i < fixed->scan.config.project_count; i++) {
        const uint32_t column = fixed->scan.config.project[i];
        const struct shuffle_slot *slot = &fixed->file.slot[column];
        uint8_t *null = slot->null_bit >= 0 ? fixed->null + (size_t)i * SHUFFLE_BATCH_ROWS : NULL;
        if (null)
            spread_nulls(fixed, slot, rows, null);
        const uint32_t bad = first_bad(fixed, column, bad_row);
        bad_column = bad < bad_row ? column : bad_column;
        bad_row = bad;
        batch->column[i] =
            (struct shuffle_column){.data = fixed->at + slot->offset, .stride = fixed->file.row_bytes, .null = null};
    }
    return bad_row < rows ? bad_value(fixed, bad_column, bad_row, error) : BASE_OK;
}

static enum base_status fixed_next(struct shuffle_scan *scan, struct base_error *error)
{
    struct fixed_scan *fixed = fixed_of(scan);
    while (fixed->at_rows == 0) {
        if (fixed->left == 0)
            return BASE_END;
        struct shuffle_reader_block block;
        const enum base_status status = shuffle_reader_next(fixed->reader, &block, error);
        if (status != BASE_OK)
            return status;
        if (block.bytes % fixed->file.row_bytes != 0)
            return base_error_set(error, BASE_PARSE,
                                  "%s holds %" PRIu64 " bytes, which is no multiple of the %u bytes of a row: compare "
                                  "the declared schema with the file",
                                  fixed->path, block.offset + block.bytes, fixed->file.row_bytes);
        fixed->at = block.data;
        fixed->at_rows = block.bytes / fixed->file.row_bytes;
        BASE_ASSERT(block.bytes <= fixed->left); /* the reader stops where the morsel does */
        fixed->left -= block.bytes;
    }
    const uint32_t rows = fixed->at_rows < SHUFFLE_BATCH_ROWS ? fixed->at_rows : SHUFFLE_BATCH_ROWS;
    const enum base_status status = fixed_point_batch(fixed, rows, error);
    if (status != BASE_OK)
        return status;
    fixed->row += rows;
    fixed->at += (size_t)rows * fixed->file.row_bytes;
    fixed->at_rows -= rows;
    return BASE_OK;
}

static enum base_status fixed_check(const struct shuffle_scan *scan, struct base_error *error)
{
    return shuffle_reader_check(fixed_of(scan)->reader, error);
}

static void fixed_event(struct shuffle_scan *scan, const struct net_event *event)
{
    shuffle_reader_event(fixed_of(scan)->reader, event);
}

static bool fixed_idle(const struct shuffle_scan *scan)
{
    return shuffle_reader_idle(fixed_of(scan)->reader);
}

static uint64_t fixed_input_bytes(const struct shuffle_scan *scan)
{
    return shuffle_reader_bytes(fixed_of(scan)->reader);
}

static void fixed_close(struct shuffle_scan *scan)
{
    struct fixed_scan *fixed = fixed_of(scan);
    shuffle_reader_close(fixed->reader);
    if (fixed->null)
        base_pages_unmap(scan->config.governor, BASE_HOLDER_SCAN, fixed->null, fixed->null_bytes);
    shuffle_layout_free(&fixed->file);
    shuffle_scan_release(scan);
    free(fixed);
}

static const struct shuffle_scan_ops fixed_ops = {.begin = fixed_begin,
                                                  .next = fixed_next,
                                                  .check = fixed_check,
                                                  .event = fixed_event,
                                                  .idle = fixed_idle,
                                                  .input_bytes = fixed_input_bytes,
                                                  .close = fixed_close};

/* Memory for null marks, and whether rows can be handed on as they are. */
static enum base_status prepare_projection(struct fixed_scan *fixed, struct base_error *error)
{
    const struct shuffle_scan_config *config = &fixed->scan.config;
    bool nullable = false;
    fixed->image = config->project_count == fixed->file.count;
    for (uint32_t i = 0; i < config->project_count; i++) {
        fixed->image = fixed->image && config->project[i] == i;
        nullable |= fixed->file.slot[config->project[i]].null_bit >= 0;
    }
    if (!nullable)
        return BASE_OK;
    fixed->null_bytes = (size_t)config->project_count * SHUFFLE_BATCH_ROWS;
    void *null;
    const enum base_status status =
        base_pages_map(config->governor, BASE_HOLDER_SCAN, fixed->null_bytes, true, &null, error);
    fixed->null = status == BASE_OK ? null : NULL;
    return status;
}

static enum base_status open_reader(struct fixed_scan *fixed, struct base_error *error)
{
    const struct shuffle_scan_config *config = &fixed->scan.config;
    const uint32_t row_bytes = fixed->file.row_bytes;
    if (row_bytes == 0)
        return base_error_set(error, BASE_TYPE, "a fixed-width file cannot hold columns of variable length");
    const uint32_t rows = config->block_bytes / row_bytes;
    const struct shuffle_reader_config reader = {.engine = config->engine,
                                                 .governor = config->governor,
                                                 .block_bytes = (rows > 0 ? rows : 1) * row_bytes,
                                                 .reads_in_flight = config->reads_in_flight,
                                                 .tag = SHUFFLE_FILE_TAG_SCAN,
                                                 .context = &fixed->scan};
    return shuffle_reader_open(&reader, &fixed->reader, error);
}

enum base_status shuffle_fixed_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                         struct base_error *error)
{
    struct fixed_scan *fixed = calloc(1, sizeof *fixed);
    if (!fixed)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan");
    enum base_status status = shuffle_scan_prepare(&fixed->scan, &fixed_ops, config, error);
    if (status == BASE_OK)
        status = shuffle_layout_prepare(&config->relation->schema, &fixed->file, error);
    if (status == BASE_OK)
        status = prepare_projection(fixed, error);
    if (status == BASE_OK)
        status = open_reader(fixed, error);
    if (status != BASE_OK) {
        fixed_close(&fixed->scan);
        return status;
    }
    *scan = &fixed->scan;
    return BASE_OK;
}
