/* The scanning side of an exchange as a small state machine.
 *
 * - waiting for start;
 * - taking: it has no morsel and asks the queue;
 * - scanning: it has a morsel, asks the scan for batches and appends them; what did not fit is offered again next turn;
 * - taking again after a fault of the input: the queue was limited to the morsels before, and never ends;
 * - finished: the queue ended, and the exchange is told that no more rows come;
 * - stopped: the job ends, nothing is started any more, reads in flight are awaited.
 *
 * The batch belongs to the scan until the next shuffle_scan_next, so it is asked for only when the one before is all
 * appended. */
#include "shuffle/worker/pass.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/state.h"
#include "shuffle/worker/aside.h"

enum pass_state { PASS_WAITING, PASS_TAKING, PASS_SCANNING, PASS_FINISHED, PASS_STOPPED, PASS_STATE_COUNT };

#define FROM(state) (1U << PASS_##state)
static const struct base_state_row pass_rows[PASS_STATE_COUNT] = {
    [PASS_WAITING] = {"waiting", 0},
    [PASS_TAKING] = {"taking", FROM(WAITING) | FROM(SCANNING)},
    [PASS_SCANNING] = {"scanning", FROM(TAKING)},
    [PASS_FINISHED] = {"finished", FROM(TAKING)},
    [PASS_STOPPED] = {"stopped", FROM(WAITING) | FROM(TAKING) | FROM(SCANNING) | FROM(FINISHED) | FROM(STOPPED)},
};
#undef FROM
static const struct base_machine pass_machine = {"pass", pass_rows, PASS_STATE_COUNT};

struct shuffle_pass {
    struct shuffle_pass_config config;
    struct base_state state;           /* enum pass_state */
    uint64_t morsel;                   /* number of the one taken last */
    bool faulty;                       /* and its input is at fault */
    const struct shuffle_batch *batch; /* being appended, or NULL */
    uint32_t cursor;                   /* its first row not yet appended */
    struct shuffle_aside *aside;       /* or NULL */
    uint32_t aside_cursor;             /* the batch's first row that may still have to be set aside */
    bool unwanted;                     /* all rows are dropped */
    uint64_t rows_dropped, rows_aside;
    uint64_t stalls_input;
    bool stalled; /* the last slice ended for want of input: one wait counts once */
    uint64_t hash[SHUFFLE_BATCH_ROWS];
    uint32_t destination[SHUFFLE_BATCH_ROWS];
    uint8_t null[SHUFFLE_BATCH_ROWS];
};

enum base_status shuffle_pass_open(const struct shuffle_pass_config *config, struct shuffle_pass **pass,
                                   struct base_error *error)
{
    struct shuffle_pass *made = calloc(1, sizeof *made);
    if (!made) {
        shuffle_scan_close(config->scan);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a scan pass");
    }
    made->config = *config;
    base_state_begin(&made->state, &pass_machine, PASS_WAITING);
    if (config->aside) {
        const enum base_status status =
            shuffle_aside_open(config->governor, shuffle_scan_layout(config->scan), config->aside, &made->aside, error);
        if (status != BASE_OK) {
            shuffle_pass_close(made);
            return status;
        }
    }
    *pass = made;
    return BASE_OK;
}

void shuffle_pass_drop(struct shuffle_pass *pass, bool all)
{
    BASE_ASSERT(pass->state.now == PASS_WAITING && pass->config.exchange);
    if (pass->config.null_keys == SHUFFLE_NULL_KEYS_ASIDE)
        pass->config.null_keys = SHUFFLE_NULL_KEYS_DROP;
    pass->unwanted = all;
}

void shuffle_pass_start(struct shuffle_pass *pass)
{
    BASE_ASSERT(pass->state.now == PASS_WAITING);
    base_state_enter(&pass->state, PASS_TAKING);
}

/* Counts rows that do not travel. Those with a NULL key are marked in null[]; with ASIDE they are what stays. */
static void pass_count(struct shuffle_pass *pass, bool nulls)
{
    uint32_t dropped = 0, null = 0;
    const bool drops = nulls || pass->config.hooks.select;
    for (uint32_t i = 0; drops && i < pass->batch->rows; i++)
        dropped += pass->destination[i] == SHUFFLE_DROP;
    for (uint32_t i = 0; nulls && i < pass->batch->rows; i++)
        null += pass->null[i];
    const bool aside = pass->config.null_keys == SHUFFLE_NULL_KEYS_ASIDE;
    BASE_ASSERT(!nulls || dropped >= null);
    pass->rows_aside += aside ? null : 0;
    pass->rows_dropped += dropped - (aside ? null : 0);
    shuffle_exchange_note(pass->config.exchange, SHUFFLE_FRAME_SAW_ROWS | (null > 0 ? SHUFFLE_FRAME_SAW_NULL_KEYS : 0));
}

/* Hash, select and route: fills hash[] and destination[] for the new batch. */
static void pass_direct(struct shuffle_pass *pass)
{
    const struct shuffle_pass_config *config = &pass->config;
    const struct shuffle_batch *batch = pass->batch;
    const bool nulls = config->null_keys != SHUFFLE_NULL_KEYS_TRAVEL;
    shuffle_key_hash_batch(config->key, shuffle_scan_layout(config->scan), batch, pass->hash,
                           nulls ? pass->null : NULL);
    if (config->hooks.route)
        config->hooks.route(config->hooks.context, batch, pass->hash, pass->destination);
    else
        shuffle_route_hash(pass->hash, batch->rows, config->workers, pass->destination);
    if (nulls)
        for (uint32_t i = 0; i < batch->rows; i++)
            pass->destination[i] |= 0U - (uint32_t)pass->null[i]; /* NULL: all ones is SHUFFLE_DROP */
    if (config->hooks.select)
        config->hooks.select(config->hooks.context, batch, pass->hash, pass->destination);
    pass_count(pass, nulls);
}

_Static_assert(SHUFFLE_DROP == UINT32_MAX, "pass_direct drops by or-ing ones");

static enum base_status pass_take(struct shuffle_pass *pass, bool *worked, struct base_error *error)
{
    struct shuffle_morsel morsel;
    const enum base_status status = shuffle_morsel_queue_take(pass->config.queue, &morsel);
    if (status == BASE_OK) {
        *worked = true;
        base_state_enter(&pass->state, PASS_SCANNING);
        pass->morsel = morsel.index;
        pass->faulty = false;
        return shuffle_scan_begin(pass->config.scan, &morsel, error);
    }
    if (status == BASE_END) {
        *worked = true;
        base_state_enter(&pass->state, PASS_FINISHED);
        if (pass->config.exchange)
            shuffle_exchange_finish(pass->config.exchange);
        return BASE_OK;
    }
    return BASE_BUSY;
}

/* The input is at fault: morsels before this one may still show an earlier fault. */
static void pass_limit(struct shuffle_pass *pass)
{
    shuffle_morsel_queue_limit(pass->config.queue, pass->morsel);
    pass->faulty = true;
    base_state_enter(&pass->state, PASS_TAKING);
}

/* Gives what is left of the batch to the sink for rows set aside, and to the exchange. */
static enum base_status pass_append(struct shuffle_pass *pass, bool *worked, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (pass->config.null_keys == SHUFFLE_NULL_KEYS_ASIDE)
        status = shuffle_aside_take(pass->aside, pass->batch, pass->null, &pass->aside_cursor, worked, error);
    if (status != BASE_OK)
        return status;
    const uint32_t before = pass->cursor;
    status = shuffle_exchange_append(pass->config.exchange, pass->batch, pass->hash, pass->destination, &pass->cursor,
                                     error);
    if (pass->cursor > before || status == BASE_OK)
        *worked = true;
    return status;
}

/* Scans and appends one batch. BASE_BUSY ends the slice. */
static enum base_status pass_scan(struct shuffle_pass *pass, bool *worked, struct base_error *error)
{
    if (!pass->batch) {
        const enum base_status status = shuffle_scan_next(pass->config.scan, &pass->batch, error);
        if (status == BASE_END) {
            if (pass->config.surveys) {
                struct shuffle_survey survey;
                shuffle_scan_survey(pass->config.scan, &survey);
                pass->config.surveys[survey.index] = survey;
            }
            pass->batch = NULL;
            base_state_enter(&pass->state, PASS_TAKING);
            *worked = true;
            return BASE_OK;
        }
        if (status != BASE_OK) {
            pass->batch = NULL;
            if (status == BASE_PARSE || status == BASE_TOO_LARGE)
                pass_limit(pass);
            return status;
        }
        pass->cursor = pass->aside_cursor = 0;
        *worked = true;
        if (pass->batch->rows == 0 || pass->unwanted) { /* 0: all were bad, and are left out */
            pass->rows_dropped += pass->batch->rows;
            pass->batch = NULL;
            return BASE_OK;
        }
        pass_direct(pass);
    }
    const enum base_status status = pass_append(pass, worked, error);
    if (status == BASE_OK)
        pass->batch = NULL;
    return status;
}

enum base_status shuffle_pass_turn(struct shuffle_pass *pass, uint32_t batches_max, bool *worked,
                                   struct base_error *error)
{
    for (uint32_t i = 0; i < batches_max; i++) {
        enum base_status status;
        if (pass->state.now == PASS_SCANNING && !pass->batch &&
            pass->morsel >= shuffle_morsel_queue_limited(pass->config.queue)) {
            shuffle_scan_abandon(pass->config.scan);
            base_state_enter(&pass->state, PASS_TAKING);
        }
        if (pass->state.now == PASS_TAKING)
            status = pass_take(pass, worked, error);
        else if (pass->state.now == PASS_SCANNING)
            status = pass_scan(pass, worked, error);
        else
            return BASE_OK;
        if (status == BASE_BUSY) {
            /* Half-full frames are not sent early: input always comes or ends, and a flush here would end every frame
             * at a read. */
            if (!pass->batch) {
                pass->stalls_input += !pass->stalled;
                pass->stalled = true;
            }
            return BASE_OK;
        }
        if (status != BASE_OK)
            return status;
        pass->stalled = false;
    }
    return BASE_OK;
}

bool shuffle_pass_faulty(const struct shuffle_pass *pass, uint64_t *morsel)
{
    *morsel = pass->morsel;
    return pass->faulty;
}

bool shuffle_pass_halted(const struct shuffle_pass *pass)
{
    return pass->state.now != PASS_SCANNING && shuffle_morsel_queue_spent(pass->config.queue);
}

bool shuffle_pass_scanned(const struct shuffle_pass *pass)
{
    return pass->state.now == PASS_FINISHED;
}

void shuffle_pass_stop(struct shuffle_pass *pass)
{
    base_state_enter(&pass->state, PASS_STOPPED);
    pass->batch = NULL;
}

bool shuffle_pass_idle(const struct shuffle_pass *pass)
{
    return shuffle_scan_idle(pass->config.scan);
}

void shuffle_pass_close(struct shuffle_pass *pass)
{
    if (!pass)
        return;
    shuffle_scan_close(pass->config.scan);
    shuffle_aside_close(pass->aside);
    free(pass);
}

uint64_t shuffle_pass_rows(const struct shuffle_pass *pass)
{
    return shuffle_scan_rows(pass->config.scan);
}

uint64_t shuffle_pass_rows_dropped(const struct shuffle_pass *pass)
{
    return pass->rows_dropped;
}

uint64_t shuffle_pass_rows_aside(const struct shuffle_pass *pass)
{
    return pass->rows_aside;
}

uint64_t shuffle_pass_input_bytes(const struct shuffle_pass *pass)
{
    return shuffle_scan_input_bytes(pass->config.scan);
}

uint64_t shuffle_pass_stalls_input(const struct shuffle_pass *pass)
{
    return pass->stalls_input;
}
