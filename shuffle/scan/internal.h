/* What a kind of scan fills in. Inside the scans only: users call shuffle/scan/scan.h. */
#ifndef MILLRACE_SHUFFLE_SCAN_INTERNAL_H
#define MILLRACE_SHUFFLE_SCAN_INTERNAL_H

#include "shuffle/scan/scan.h"

enum { SHUFFLE_SCAN_BLOCK_BYTES = 256 << 10, SHUFFLE_SCAN_READS = 4 };

/* All slots are filled, but preload where there is none, and check where there is no file. */
struct shuffle_scan_ops {
    enum base_status (*begin)(struct shuffle_scan *scan, const struct shuffle_morsel *morsel, struct base_error *error);
    /* Fills scan->batch. */
    enum base_status (*next)(struct shuffle_scan *scan, struct base_error *error);
    /* The morsel has ended, well or not: did its file stay as it was? */
    enum base_status (*check)(const struct shuffle_scan *scan, struct base_error *error);
    void (*event)(struct shuffle_scan *scan, const struct net_event *event);
    bool (*idle)(const struct shuffle_scan *scan);
    uint64_t (*input_bytes)(const struct shuffle_scan *scan);
    void (*close)(struct shuffle_scan *scan);
    enum base_status (*preload)(struct shuffle_scan *scan, uint64_t begin, uint64_t end, struct base_error *error);
};

/* Every kind's struct begins with this. */
struct shuffle_scan {
    const struct shuffle_scan_ops *ops;
    struct shuffle_scan_config config; /* defaults filled in */
    struct shuffle_schema schema;      /* projected; a column may be there twice */
    struct shuffle_layout layout;      /* of schema */
    struct shuffle_batch batch;        /* its columns are owned, one per column of schema */
    bool in_morsel;
    uint64_t rows;
};

/* Fills a zeroed scan; shuffle_scan_release undoes it and is safe on a scan that was not prepared. */
enum base_status shuffle_scan_prepare(struct shuffle_scan *scan, const struct shuffle_scan_ops *ops,
                                      const struct shuffle_scan_config *config, struct base_error *error);
void shuffle_scan_release(struct shuffle_scan *scan);

enum base_status shuffle_csv_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                       struct base_error *error);
enum base_status shuffle_fixed_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                         struct base_error *error);
enum base_status shuffle_gen_scan_open(const struct shuffle_scan_config *config, struct shuffle_scan **scan,
                                       struct base_error *error);

#endif
