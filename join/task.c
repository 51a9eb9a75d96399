/* One worker's share of a join or shuffle.
 *
 * Lifetimes. Opening makes, in order: layouts, table, output, sinks, mesh, exchanges, passes. They all live until
 * task_free; closing only stops and joins what is in flight. Freed in reverse, except that exchanges look for their
 * frames after the mesh is closed and before it is freed.
 *
 * Passes are numbered by time (0 builds, 1 probes; a shuffle has pass 0 only), sides by SQL (0 left, 1 right);
 * plan->build says which side pass 0 scans.
 *
 * Both exchanges are open from the start. No worker sends probe rows before all have reported SEALED, so rows of
 * exchange 1 find this table sealed; but they may come before this worker is told to start pass 1.
 *
 * Input at fault (FAULT) is no failure yet. The cause may lie before it, in a morsel that another worker has: a stray
 * quote turns inside and outside round for all that follows. So this worker goes on with earlier morsels and with what
 * it receives, but never ends its pass, and nobody can seal; once told to halt it says when nothing earlier is left.
 * The coordinator then fails the job with the earliest fault. */
#include "join/task.h"

#include <stdlib.h>

#include "base/assert.h"
#include "join/task_internal.h"

enum task_state {
    TASK_SURVEYING = SHUFFLE_TASK_OWN,
    TASK_PASS_0,
    TASK_SEALED,
    TASK_PASS_1,
    TASK_FINISHING,
    TASK_STATE_COUNT
};

#define FROM(state) (1U << TASK_##state)
static const struct base_state_row task_rows[TASK_STATE_COUNT] = {
    SHUFFLE_TASK_ROWS,
    [SHUFFLE_TASK_OPENED] = {"opened", FROM(SURVEYING)},
    [SHUFFLE_TASK_CONNECTED] = {"connected", SHUFFLE_TASK_FROM(CONNECTING)},
    [SHUFFLE_TASK_FINISHED] = {"finished", FROM(FINISHING)},
    [TASK_SURVEYING] = {"surveying", SHUFFLE_TASK_FROM(OPENED)},
    [TASK_PASS_0] = {"pass 0", SHUFFLE_TASK_FROM(CONNECTED)},
    [TASK_SEALED] = {"sealed", FROM(PASS_0)},
    [TASK_PASS_1] = {"pass 1", FROM(SEALED)},
    [TASK_FINISHING] = {"finishing", FROM(PASS_0) | FROM(PASS_1)},
};
#undef FROM
static const struct base_machine task_machine = {"task of a job", task_rows, TASK_STATE_COUNT};

/* ---- running ---- */

static void task_turn_survey(struct join_task *task, const struct shuffle_budget *budget, bool *worked)
{
    bool all = true;
    for (uint32_t side = 0; side < TASK_SIDES; side++) {
        if (!task->survey[side])
            continue;
        struct base_error error = {0};
        if (shuffle_pass_turn(task->survey[side], budget->batches, worked, &error) != BASE_OK) {
            shuffle_task_fail(&task->base, &error);
            return;
        }
        all = all && shuffle_pass_scanned(task->survey[side]);
    }
    if (all)
        shuffle_task_reach(&task->base, SHUFFLE_TASK_OPENED, JOIN_STEP_SURVEYED);
}

/* A pass is over when this worker's rows have left and everybody's rows have come. */
static void task_turn_pass(struct join_task *task, uint32_t pass, const struct shuffle_budget *budget, bool *worked)
{
    struct base_error error = {0};
    if (shuffle_pass_turn(task->pass[pass], budget->batches, worked, &error) != BASE_OK) {
        if (!shuffle_pass_faulty(task->pass[pass], &task->fault_morsel)) {
            shuffle_task_fail(&task->base, &error);
            return;
        }
        *worked = true;
        task->fault_side = join_plan_pass_side(task->config.plan, pass);
        shuffle_task_report(&task->base, JOIN_STEP_FAULT, &error);
    }
    if (task->halting && shuffle_pass_halted(task->pass[pass])) {
        task->halting = false;
        shuffle_task_report(&task->base, JOIN_STEP_HALTED, NULL);
    }
    if (!shuffle_pass_scanned(task->pass[pass]) || !shuffle_exchange_sent(task->exchange[pass]) ||
        !shuffle_exchange_received(task->exchange[pass]))
        return;
    task->stream_end_ns = net_engine_now_ns(task->base.config.engine);
    *worked = true;
    if (pass + 1 < task->passes) {
        join_table_seal(task->table);
        shuffle_task_reach(&task->base, TASK_SEALED, JOIN_STEP_SEALED);
    } else {
        base_state_enter(&task->base.state, TASK_FINISHING);
    }
}

/* Pairs still collected and build rows without a partner, then the output's buffers, then the disk. */
static void task_turn_finishing(struct join_task *task)
{
    struct base_error error = {0};
    enum base_status status = BASE_OK;
    if (task->passes == TASK_PASSES)
        status = join_probe_sink_finish(task->sink[1], &error);
    if (status == BASE_OK && task->output)
        status = shuffle_output_finish(task->output, &error);
    if (status == BASE_BUSY)
        return;
    if (status != BASE_OK) {
        shuffle_task_fail(&task->base, &error);
        return;
    }
    shuffle_task_reach(&task->base, SHUFFLE_TASK_FINISHED, SHUFFLE_STEP_FINISHED);
}

static void task_begin(struct shuffle_task *base, const struct shuffle_budget *budget)
{
    const struct join_task *task = (const struct join_task *)base;
    if (task->passes == TASK_PASSES)
        join_probe_sink_turn(task->sink[1], budget->output_rows);
}

static bool task_work(struct shuffle_task *base, const struct shuffle_budget *budget)
{
    struct join_task *task = (struct join_task *)base;
    bool worked = false;
    switch (base->state.now) {
    case TASK_SURVEYING:
        task_turn_survey(task, budget, &worked);
        break;
    case TASK_PASS_0:
        task_turn_pass(task, 0, budget, &worked);
        break;
    case TASK_PASS_1:
        task_turn_pass(task, 1, budget, &worked);
        break;
    case TASK_FINISHING:
        task_turn_finishing(task);
        break;
    default:
        break;
    }
    return worked || (task->passes == TASK_PASSES && join_probe_sink_spent(task->sink[1]));
}

static void task_file_event(struct shuffle_task *base, const struct net_event *event)
{
    (void)base; /* the file knows whose it is */
    if (event->file->tag == SHUFFLE_FILE_TAG_SCAN)
        shuffle_scan_event(event->file->context, event);
    else
        shuffle_output_event(event->file->context, event);
}

static void task_stop(struct shuffle_task *base)
{
    struct join_task *task = (struct join_task *)base;
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        if (task->pass[i])
            shuffle_pass_stop(task->pass[i]);
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        if (task->survey[i])
            shuffle_pass_stop(task->survey[i]);
}

static bool task_idle(const struct shuffle_task *base)
{
    const struct join_task *task = (const struct join_task *)base;
    if (task->output && !shuffle_output_idle(task->output))
        return false;
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        if (task->pass[i] && !shuffle_pass_idle(task->pass[i]))
            return false;
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        if (task->survey[i] && !shuffle_pass_idle(task->survey[i]))
            return false;
    return true;
}

static void task_free(struct shuffle_task *base)
{
    struct join_task *task = (struct join_task *)base;
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        shuffle_pass_close(task->survey[i]);
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        shuffle_pass_close(task->pass[i]);
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        shuffle_exchange_close(task->exchange[i]);
    shuffle_task_free_mesh(base);
    if (task->config.plan->kind == JOIN_JOB_SHUFFLE && !task->config.plan->into_table)
        shuffle_output_sink_close(task->sink[0]);
    else
        for (uint32_t i = 0; i < TASK_PASSES; i++)
            join_sink_close(task->sink[i]);
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        join_sink_close(task->unmatched[i]);
    shuffle_output_close(task->output);
    join_table_close(task->table);
    for (uint32_t i = 0; i < TASK_SIDES; i++) {
        shuffle_morsel_queue_close(task->preloaded[i]);
        shuffle_layout_free(&task->layout[i]);
        free(task->rejects[i]);
    }
    free(task);
}

static const struct shuffle_task_ops task_ops = {.begin = task_begin,
                                                 .work = task_work,
                                                 .file_event = task_file_event,
                                                 .stop = task_stop,
                                                 .idle = task_idle,
                                                 .free = task_free};

/* ---- the interface ---- */

enum base_status join_task_open(const struct shuffle_task_config *base, const struct join_task_config *config,
                                struct join_task **task, struct base_error *error)
{
    struct join_task *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a task");
    shuffle_task_begin(&made->base, &task_ops, &task_machine, base);
    made->config = *config;
    made->passes = config->plan->kind == JOIN_JOB_JOIN ? 2 : 1;
    const enum base_status status = join_task_open_parts(made, error);
    if (status != BASE_OK) {
        shuffle_task_free(&made->base);
        return status;
    }
    *task = made;
    return BASE_OK;
}

struct shuffle_task *join_task_base(struct join_task *task)
{
    return &task->base;
}

void join_task_survey(struct join_task *task)
{
    if (task->base.state.now != SHUFFLE_TASK_OPENED)
        return;
    base_state_enter(&task->base.state, TASK_SURVEYING);
    for (uint32_t side = 0; side < TASK_SIDES; side++)
        if (task->survey[side])
            shuffle_pass_start(task->survey[side]);
}

/* What all workers saw of the build side may decide about the whole probe side. Without a row there no probe row has a
 * partner. For NOT IN a NULL there leaves nothing; no row at all leaves everything, rows with a NULL key too; else
 * these go. */
static void task_drop(struct join_task *task)
{
    const struct join_plan *plan = task->config.plan;
    const uint16_t saw = shuffle_exchange_notes(task->exchange[0]);
    const bool rows = saw & SHUFFLE_FRAME_SAW_ROWS, nulls = saw & SHUFFLE_FRAME_SAW_NULL_KEYS;
    if (plan->null_aware ? nulls : !rows && !join_type_keeps(plan->type, join_plan_pass_side(plan, 1)))
        shuffle_pass_drop(task->pass[1], true);
    else if (plan->null_aware && rows)
        shuffle_pass_drop(task->pass[1], false);
}

void join_task_start(struct join_task *task, uint32_t pass)
{
    BASE_ASSERT(pass < task->passes);
    if (task->base.state.now != (pass == 0 ? SHUFFLE_TASK_CONNECTED : TASK_SEALED))
        return;
    base_state_enter(&task->base.state, pass == 0 ? TASK_PASS_0 : TASK_PASS_1);
    if (pass == 0)
        task->scan_begin_ns = net_engine_now_ns(task->base.config.engine);
    else
        task_drop(task);
    shuffle_pass_start(task->pass[pass]);
}

void join_task_halt(struct join_task *task)
{
    task->halting = task->base.state.now == TASK_PASS_0 || task->base.state.now == TASK_PASS_1;
    const bool ended = shuffle_task_over(&task->base) && task->base.state.now != SHUFFLE_TASK_FINISHED;
    if (!task->halting && !ended) /* it has no morsel */
        shuffle_task_report(&task->base, JOIN_STEP_HALTED, NULL);
}

void join_task_fault(const struct join_task *task, uint32_t *side, uint64_t *morsel)
{
    *side = task->fault_side;
    *morsel = task->fault_morsel;
}
