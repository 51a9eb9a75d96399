/* Scans: from morsels to batches, one at a time, never blocking. A worker opens one scan per pass and feeds it morsels.
 *
 * File bytes come through the worker's engine, several reads in flight (shuffle/scan/reader.h); a scan that waits for
 * them says BUSY and goes on after shuffle_scan_event. Kinds: CSV, fixed-width, generator (streamed or preloaded),
 * survey.
 */
#ifndef MILLRACE_SHUFFLE_SCAN_SCAN_H
#define MILLRACE_SHUFFLE_SCAN_SCAN_H

#include "net/engine/engine.h"
#include "shuffle/rows/batch.h"
#include "shuffle/rows/reject.h"
#include "shuffle/source/relation.h"

struct shuffle_scan;

/* End of the morsel that a compressed file is, for the kinds of scan: how much it holds nobody knows. */
#define SHUFFLE_SCAN_TO_END (UINT64_MAX / 2)

/* Tags in net_file_op.tag, so that a worker knows whom a FILE event is for. */
enum { SHUFFLE_FILE_TAG_SCAN = 1, SHUFFLE_FILE_TAG_OUTPUT = 2 };

struct shuffle_scan_config {
    struct net_engine *engine;
    struct base_governor *governor;
    const struct shuffle_relation *relation; /* borrowed for the scan's life */
    const uint32_t *project;                 /* columns of relation->schema to produce, in this order; borrowed */
    uint32_t project_count;
    uint32_t block_bytes;            /* size of one read; 0: 256 KiB */
    uint32_t reads_in_flight;        /* 0: 4 */
    struct shuffle_rejects *rejects; /* CSV: bad rows are left out and counted here; NULL: they are errors */
};

enum base_status shuffle_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                   struct base_error *error);
/* Layout of the batches produced: the projected schema's. Lives as long as the scan. */
const struct shuffle_layout *shuffle_scan_layout(const struct shuffle_scan *scan);
/* gen: with preload: makes rows [begin, end) now and keeps them; the next morsel's rows are served from there, pinned.
 * Takes long. */
enum base_status shuffle_scan_preload(struct shuffle_scan *scan, uint64_t begin, uint64_t end,
                                      struct base_error *error);
/* Begins a morsel (copied); the one before must have ended. */
enum base_status shuffle_scan_begin(struct shuffle_scan *scan, const struct shuffle_morsel *morsel,
                                    struct base_error *error);
/* BASE_OK: *batch holds 1..SHUFFLE_BATCH_ROWS rows (or none, where bad ones are left out), valid until the next call.
 * BASE_BUSY: wait for a FILE event. BASE_END: the morsel is done. Else an error with file, line, column and the
 * offending text. */
enum base_status shuffle_scan_next(struct shuffle_scan *scan, const struct shuffle_batch **batch,
                                   struct base_error *error);
/* Gives up the morsel at hand, if there is one; shuffle_scan_begin may follow. */
void shuffle_scan_abandon(struct shuffle_scan *scan);
/* A FILE event whose op has SHUFFLE_FILE_TAG_SCAN; op->context is the scan it belongs to. */
void shuffle_scan_event(struct shuffle_scan *scan, const struct net_event *event);
/* True when no read is in flight: only then may it be closed. After an error or to abort: stop starting reads, wait for
 * this. */
bool shuffle_scan_idle(const struct shuffle_scan *scan);
/* Frees all, also pinned rows. Must be idle. */
void shuffle_scan_close(struct shuffle_scan *scan);

/* A survey reads a morsel and counts quotes and newlines only: same begin/next/event/idle/close; next never gives
 * BASE_OK: BASE_BUSY until BASE_END, then shuffle_scan_survey tells. project_count is 0. */
enum base_status shuffle_scan_open_survey(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                          struct base_error *error);
void shuffle_scan_survey(const struct shuffle_scan *scan, struct shuffle_survey *survey);

/* Bytes of input read (or rows * row bytes generated) and rows produced since opening. */
uint64_t shuffle_scan_input_bytes(const struct shuffle_scan *scan);
uint64_t shuffle_scan_rows(const struct shuffle_scan *scan);

#endif
