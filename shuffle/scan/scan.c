#include "shuffle/scan/scan.h"

#include <stdlib.h>

#include "base/assert.h"
#include "shuffle/scan/internal.h"

enum base_status shuffle_scan_prepare(struct shuffle_scan *scan, const struct shuffle_scan_ops *ops,
                                      const struct shuffle_scan_config *config, struct base_error *error)
{
    scan->ops = ops;
    scan->config = *config;
    if (scan->config.block_bytes == 0)
        scan->config.block_bytes = SHUFFLE_SCAN_BLOCK_BYTES;
    if (scan->config.reads_in_flight == 0)
        scan->config.reads_in_flight = SHUFFLE_SCAN_READS;
    const uint32_t count = config->project_count;
    scan->schema.count = count;
    scan->schema.field = calloc(count > 0 ? count : 1, sizeof *scan->schema.field);
    scan->batch.column = calloc(count > 0 ? count : 1, sizeof *scan->batch.column);
    if (!scan->schema.field || !scan->batch.column)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan of %u columns", count);
    for (uint32_t i = 0; i < count; i++) {
        BASE_ASSERT(config->project[i] < config->relation->schema.count);
        scan->schema.field[i] = config->relation->schema.field[config->project[i]];
    }
    return shuffle_layout_prepare(&scan->schema, &scan->layout, error);
}

void shuffle_scan_release(struct shuffle_scan *scan)
{
    shuffle_schema_free(&scan->schema);
    shuffle_layout_free(&scan->layout);
    free(scan->batch.column);
}

enum base_status shuffle_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                   struct base_error *error)
{
    if (config->relation->placement == SHUFFLE_GENERATED)
        return shuffle_gen_scan_open(config, scan, error);
    if (config->relation->format == SHUFFLE_FORMAT_FIXED)
        return shuffle_fixed_scan_open(config, scan, error);
    return shuffle_csv_scan_open(config, scan, error);
}

const struct shuffle_layout *shuffle_scan_layout(const struct shuffle_scan *scan)
{
    return &scan->layout;
}

enum base_status shuffle_scan_preload(struct shuffle_scan *scan, uint64_t begin, uint64_t end, struct base_error *error)
{
    BASE_ASSERT(!scan->in_morsel && begin <= end);
    if (!scan->ops->preload)
        return base_error_set(error, BASE_UNSUPPORTED, "only a generated relation can be preloaded");
    return scan->ops->preload(scan, begin, end, error);
}

enum base_status shuffle_scan_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                    struct base_error *error)
{
    BASE_ASSERT(!scan->in_morsel);
    if (scan->config.relation->placement != SHUFFLE_GENERATED &&
        (morsel->file >= scan->config.relation->file_count || morsel->begin > morsel->end ||
         morsel->end > scan->config.relation->file[morsel->file].bytes))
        return base_error_set(error, BASE_INVALID, "a morsel of file %u is not within the relation", morsel->file);
    struct shuffle_morsel whole = *morsel;
    const struct shuffle_file *file =
        scan->config.relation->placement != SHUFFLE_GENERATED ? &scan->config.relation->file[morsel->file] : NULL;
    if (file && file->packing != SHUFFLE_PACKING_NONE) {
        if (morsel->begin != 0 || morsel->end != file->bytes)
            return base_error_set(error, BASE_INVALID, "a morsel is a part of the compressed file %s", file->path);
        whole.end = SHUFFLE_SCAN_TO_END;
    }
    const enum base_status status = scan->ops->begin(scan, &whole, error);
    scan->in_morsel = status == BASE_OK;
    return status;
}

enum base_status shuffle_scan_next(struct shuffle_scan *scan, const struct shuffle_batch **batch,
                                   struct base_error *error)
{
    if (!scan->in_morsel)
        return BASE_END;
    enum base_status status = scan->ops->next(scan, error);
    if (status != BASE_OK && status != BASE_BUSY && scan->ops->check) {
        /* Also after an error: what does not parse may be half of one version and half of another. */
        const enum base_status check = scan->ops->check(scan, error);
        status = check != BASE_OK ? check : status;
    }
    if (status == BASE_OK) {
        BASE_ASSERT(scan->batch.rows > 0 || scan->config.rejects);
        BASE_ASSERT(scan->batch.rows <= SHUFFLE_BATCH_ROWS);
        scan->rows += scan->batch.rows;
        *batch = &scan->batch;
    }
    scan->in_morsel = status == BASE_OK || status == BASE_BUSY;
    return status;
}

void shuffle_scan_abandon(struct shuffle_scan *scan)
{
    scan->in_morsel = false;
}

void shuffle_scan_event(struct shuffle_scan *scan, const struct net_event *event)
{
    scan->ops->event(scan, event);
}

bool shuffle_scan_idle(const struct shuffle_scan *scan)
{
    return scan->ops->idle(scan);
}

void shuffle_scan_close(struct shuffle_scan *scan)
{
    if (!scan)
        return;
    BASE_ASSERT(shuffle_scan_idle(scan));
    scan->ops->close(scan);
}

uint64_t shuffle_scan_input_bytes(const struct shuffle_scan *scan)
{
    return scan->ops->input_bytes(scan);
}

uint64_t shuffle_scan_rows(const struct shuffle_scan *scan)
{
    return scan->rows;
}
