/* A pass: one worker's scan of one relation into one exchange. Takes morsels, scans batches, hashes, selects, routes,
 * appends; when the queue ends it finishes the exchange. It yields whenever a lane has no frame, a sink is busy, input
 * is not there yet or the turn's budget is spent. */
#ifndef MILLRACE_SHUFFLE_WORKER_PASS_H
#define MILLRACE_SHUFFLE_WORKER_PASS_H

#include "shuffle/exchange/exchange.h"
#include "shuffle/scan/scan.h"
#include "shuffle/source/morsel.h"

struct shuffle_pass;

/* What the floor above knows: both get a batch with its hashes. NULL: keep all; route by hash. */
struct shuffle_hooks {
    void *context;
    /* Sets destination[i] to SHUFFLE_DROP for rows that need not travel. */
    void (*select)(void *context, const struct shuffle_batch *batch, const uint64_t *hash, uint32_t *destination);
    /* Sets destination[i] for every row. */
    void (*route)(void *context, const struct shuffle_batch *batch, const uint64_t *hash, uint32_t *destination);
};

/* What becomes of rows with a NULL in their key. */
enum shuffle_null_keys {
    SHUFFLE_NULL_KEYS_TRAVEL, /* they are like others */
    SHUFFLE_NULL_KEYS_DROP,   /* nothing matches them */
    SHUFFLE_NULL_KEYS_ASIDE   /* nothing matches them, but they are wanted: they go to a sink of this worker */
};

struct shuffle_pass_config {
    struct shuffle_scan *scan;          /* owned by the pass from open on, also on error */
    struct shuffle_exchange *exchange;  /* borrowed; NULL for a survey */
    struct shuffle_morsel_queue *queue; /* borrowed */
    const struct shuffle_key *key;      /* columns of the scan's layout; borrowed; NULL for a survey */
    enum shuffle_null_keys null_keys;
    struct shuffle_sink *aside;     /* for rows set aside, or NULL; borrowed. Not with a survey */
    struct base_governor *governor; /* with aside */
    uint32_t workers;               /* P */
    struct shuffle_hooks hooks;
    struct shuffle_survey *surveys; /* survey: results are written to surveys[morsel index] */
};

enum base_status shuffle_pass_open(const struct shuffle_pass_config *config, struct shuffle_pass **pass,
                                   struct base_error *error);
/* Before the start, for what only the pass before has shown: rows that would be set aside are dropped, or all rows.
 * Dropped rows are scanned, so that bad ones are found. */
void shuffle_pass_drop(struct shuffle_pass *pass, bool all);
/* Starts taking morsels. */
void shuffle_pass_start(struct shuffle_pass *pass);
/* One bounded slice of at most batches_max batches. *worked is set true when something moved. An error ends the pass,
 * but for a fault of the input (shuffle_pass_faulty): then morsels before the faulty one are still scanned, because an
 * earlier fault may be the cause of this one, and none after it. */
enum base_status shuffle_pass_turn(struct shuffle_pass *pass, uint32_t batches_max, bool *worked,
                                   struct base_error *error);
/* Is the error that shuffle_pass_turn has just returned a fault of the input? *morsel is the number of the morsel. */
bool shuffle_pass_faulty(const struct shuffle_pass *pass, uint64_t *morsel);
/* Has the pass no morsel before the queue's limit, and none to take? */
bool shuffle_pass_halted(const struct shuffle_pass *pass);
/* All morsels are scanned and all rows handed over (the exchange is finished). */
bool shuffle_pass_scanned(const struct shuffle_pass *pass);
/* No more reads are started; idle when none is in flight. */
void shuffle_pass_stop(struct shuffle_pass *pass);
bool shuffle_pass_idle(const struct shuffle_pass *pass);
/* Must be idle. */
void shuffle_pass_close(struct shuffle_pass *pass);

uint64_t shuffle_pass_rows(const struct shuffle_pass *pass);
/* Of these rows, the ones that were dropped, and set aside; all others went to the exchange. */
uint64_t shuffle_pass_rows_dropped(const struct shuffle_pass *pass);
uint64_t shuffle_pass_rows_aside(const struct shuffle_pass *pass);
uint64_t shuffle_pass_input_bytes(const struct shuffle_pass *pass);
/* Times it had to wait for input. */
uint64_t shuffle_pass_stalls_input(const struct shuffle_pass *pass);

#endif
