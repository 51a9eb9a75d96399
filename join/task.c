/* One worker's share of a job.
 *
 * Lifetimes. Opening makes, in order: layouts, table, output, sinks, mesh, exchanges, passes. They all live until
 * join_task_free; closing only stops and joins what is in flight. Freed in reverse, except that exchanges look for
 * their frames after the mesh is closed and before it is freed.
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
 * The coordinator then fails the job with the earliest fault.
 *
 * A failure is reported once, then the mesh is aborted at once so that no more rows reach a sink; the task then waits
 * to be closed. */
#include "join/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/state.h"
#include "join/sinks.h"
#include "join/table.h"
#include "shuffle/exchange/exchange.h"
#include "shuffle/output/output.h"
#include "shuffle/output/publish.h"
#include "shuffle/output/sink.h"
#include "shuffle/worker/pass.h"

enum task_state {
    TASK_OPENED,
    TASK_SURVEYING,
    TASK_CONNECTING,
    TASK_CONNECTED,
    TASK_PASS_0,
    TASK_SEALED,
    TASK_PASS_1,
    TASK_FINISHING,
    TASK_FINISHED,
    TASK_FAILED,
    TASK_CLOSING,
    TASK_CLOSED,
    TASK_STATE_COUNT
};

#define FROM(state) (1U << TASK_##state)
static const struct base_state_row task_rows[TASK_STATE_COUNT] = {
    [TASK_OPENED] = {"opened", FROM(SURVEYING)},
    [TASK_SURVEYING] = {"surveying", FROM(OPENED)},
    [TASK_CONNECTING] = {"connecting", FROM(OPENED)},
    [TASK_CONNECTED] = {"connected", FROM(CONNECTING)},
    [TASK_PASS_0] = {"pass 0", FROM(CONNECTED)},
    [TASK_SEALED] = {"sealed", FROM(PASS_0)},
    [TASK_PASS_1] = {"pass 1", FROM(SEALED)},
    [TASK_FINISHING] = {"finishing", FROM(PASS_0) | FROM(PASS_1)},
    [TASK_FINISHED] = {"finished", FROM(FINISHING)},
    [TASK_FAILED] = {"failed", FROM(OPENED) | FROM(SURVEYING) | FROM(CONNECTING) | FROM(CONNECTED) | FROM(PASS_0) |
                                   FROM(SEALED) | FROM(PASS_1) | FROM(FINISHING)},
    [TASK_CLOSING] = {"closing", ~(FROM(CLOSING) | FROM(CLOSED))},
    [TASK_CLOSED] = {"closed", FROM(CLOSING)},
};
#undef FROM
static const struct base_machine task_machine = {"task of a job", task_rows, TASK_STATE_COUNT};

enum { TASK_SIDES = 2, TASK_PASSES = 2 };

struct join_task {
    struct shuffle_task base;
    struct join_task_config config;
    struct base_state state; /* enum task_state */
    uint32_t passes;
    struct shuffle_layout layout[TASK_SIDES];
    struct join_table *table;      /* join, or shuffle into a table */
    struct shuffle_output *output; /* join, or shuffle into an output */
    struct shuffle_sink *sink[TASK_PASSES];
    const char **node_name; /* of each worker */
    struct shuffle_mesh *mesh;
    struct shuffle_exchange *exchange[TASK_PASSES];
    struct shuffle_morsel_queue *preloaded[TASK_SIDES]; /* the one morsel that this worker holds in memory */
    struct shuffle_pass *pass[TASK_PASSES];
    struct shuffle_pass *survey[TASK_SIDES];
    struct shuffle_rejects *rejects[TASK_SIDES]; /* NULL: bad rows are errors */
    uint32_t fault_side;                         /* of the fault found last */
    uint64_t fault_morsel;
    bool halting; /* HALTED is to be reported */
    uint64_t scan_begin_ns, stream_end_ns;
};

static void task_report(struct join_task *task, enum join_step step, const struct base_error *error)
{
    task->config.report(task->config.context, task->config.worker, (int)step, error);
}

static void task_stop_passes(struct join_task *task)
{
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        if (task->pass[i])
            shuffle_pass_stop(task->pass[i]);
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        if (task->survey[i])
            shuffle_pass_stop(task->survey[i]);
}

static void task_fail(struct join_task *task, const struct base_error *error)
{
    if (task->state.now >= TASK_FINISHED)
        return;
    base_state_enter(&task->state, TASK_FAILED);
    task_report(task, JOIN_STEP_FAILED, error);
    task_stop_passes(task);
    shuffle_mesh_close(task->mesh, true);
}

/* ---- opening ---- */

static enum base_status task_open_table(struct join_task *task, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->config.job;
    if (plan->kind == JOIN_JOB_SHUFFLE && !plan->into_table)
        return BASE_OK;
    const struct join_side *build = &plan->side[plan->build];
    const bool preloaded = build->relation.placement == SHUFFLE_GENERATED && build->relation.generator.preload;
    const uint64_t rows = join_plan_relation_rows(&build->relation) / job->workers;
    const struct join_table_config config = {.governor = task->config.governor,
                                             .layout = &task->layout[plan->build],
                                             .key = &build->key,
                                             .rows_expected = rows,
                                             .rows_exact = join_plan_rows_exact(&build->relation),
                                             .rows_pinned = preloaded ? rows / job->workers : 0,
                                             .prefault = preloaded};
    return join_table_open(&config, &task->table, error);
}

static enum base_status task_open_output(struct join_task *task, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    if (plan->into_table)
        return BASE_OK;
    char *path = NULL;
    if (plan->out) {
        path = shuffle_publish_attempt_path(plan->out, plan->files, task->config.worker, join_plan_extension(plan));
        if (!path)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the name of an output part");
    }
    const struct shuffle_output_config config = {
        .kind = plan->output,
        .engine = task->config.engine,
        .governor = task->config.governor,
        .layout = {&task->layout[0], plan->sides > 1 ? &task->layout[1] : NULL},
        .schema = &plan->result,
        .item = plan->item,
        .item_count = plan->item_count,
        .path = path,
        .csv_header = true};
    const enum base_status status = shuffle_output_open(&config, &task->output, error);
    free(path);
    return status;
}

static enum base_status task_open_sinks(struct join_task *task, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    if (plan->kind == JOIN_JOB_SHUFFLE)
        return plan->into_table ? join_build_sink_open(task->table, &task->sink[0], error)
                                : shuffle_output_sink_open(task->output, &task->sink[0], error);
    const enum base_status status = join_build_sink_open(task->table, &task->sink[0], error);
    if (status != BASE_OK)
        return status;
    const uint32_t probe = join_plan_pass_side(plan, 1);
    const struct join_probe_sink_config config = {.table = task->table,
                                                  .key = &plan->side[probe].key,
                                                  .layout = &task->layout[probe],
                                                  .output = task->output,
                                                  .build_is_left = plan->build == 0};
    return join_probe_sink_open(&config, &task->sink[1], error);
}

static enum base_status task_open_mesh(struct join_task *task, struct base_error *error)
{
    const struct shuffle_job *job = task->config.job;
    const char **names = calloc(job->workers, sizeof *names);
    if (!names)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the names of %u workers", job->workers);
    for (uint32_t i = 0; i < job->node_count; i++)
        for (uint32_t w = 0; w < job->node[i].count; w++)
            names[job->node[i].first + w] = job->node[i].name;
    struct shuffle_mesh_config config = {.engine = task->config.engine,
                                         .governor = task->config.governor,
                                         .worker = task->config.worker,
                                         .workers = job->workers,
                                         .local_first = task->config.local_first,
                                         .local_count = task->config.local_count,
                                         .address = job->address,
                                         .node_name = names,
                                         .listener_fd = task->config.listener_fd,
                                         .key = task->config.key,
                                         .job = job->id,
                                         .mailroom = task->config.mailroom,
                                         .connect_timeout_ns = JOIN_CONNECT_TIMEOUT_NS};
    memcpy(config.token, job->token, sizeof config.token);
    const enum base_status status = shuffle_mesh_open(&config, &task->mesh, error);
    if (status == BASE_OK)
        task->node_name = names;
    else
        free(names);
    return status;
}

static enum base_status task_open_exchange(struct join_task *task, uint32_t pass, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->config.job;
    const uint32_t side = join_plan_pass_side(plan, pass);
    const struct shuffle_exchange_config config = {.mesh = task->mesh,
                                                   .governor = task->config.governor,
                                                   .id = (uint8_t)pass,
                                                   .layout = &task->layout[side],
                                                   .key = &plan->side[side].key,
                                                   .frame_bytes = job->settings.frame_bytes,
                                                   .frames_per_lane = job->settings.frames_per_lane,
                                                   .verify = job->settings.verify,
                                                   .sink = task->sink[pass]};
    return shuffle_exchange_open(&config, &task->exchange[pass], error);
}

/* A preloaded share is one morsel that only this worker takes. */
static enum base_status task_preload(struct join_task *task, uint32_t side, struct shuffle_scan *scan,
                                     struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->config.job;
    const uint64_t rows = plan->side[side].relation.generator.rows;
    const __uint128_t total = rows;
    const struct shuffle_morsel share = {.begin = (uint64_t)(total * task->config.worker / job->workers),
                                         .end = (uint64_t)(total * (task->config.worker + 1) / job->workers)};
    enum base_status status = shuffle_morsel_queue_open(1, 0, NULL, NULL, &task->preloaded[side], error);
    if (status != BASE_OK)
        return status;
    if (share.end > share.begin) {
        status = shuffle_scan_preload(scan, share.begin, share.end, error);
        if (status == BASE_OK)
            status = shuffle_morsel_queue_append(task->preloaded[side], &share, 1, error);
    }
    shuffle_morsel_queue_end(task->preloaded[side]);
    return status;
}

static enum base_status task_open_pass(struct join_task *task, uint32_t pass, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->config.job;
    const uint32_t side = join_plan_pass_side(plan, pass);
    const struct join_side *of = &plan->side[side];
    if (of->relation.csv.bad_rows_max > 0) {
        task->rejects[side] = calloc(1, sizeof *task->rejects[side]);
        if (!task->rejects[side])
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the bad rows of an input");
    }
    const struct shuffle_scan_config scan_config = {.engine = task->config.engine,
                                                    .governor = task->config.governor,
                                                    .relation = &of->relation,
                                                    .project = of->project,
                                                    .project_count = of->project_count,
                                                    .rejects = task->rejects[side]};
    struct shuffle_pass_config config = {.exchange = task->exchange[pass],
                                         .queue = task->config.queue[side],
                                         .key = &of->key,
                                         .drop_null_keys = of->key_nullable && plan->kind == JOIN_JOB_JOIN,
                                         .workers = job->workers};
    enum base_status status = shuffle_scan_open(&scan_config, &config.scan, error);
    if (status != BASE_OK)
        return status;
    if (of->relation.placement == SHUFFLE_GENERATED && of->relation.generator.preload) {
        status = task_preload(task, side, config.scan, error);
        if (status != BASE_OK) {
            shuffle_scan_close(config.scan);
            return status;
        }
        config.queue = task->preloaded[side];
    }
    return shuffle_pass_open(&config, &task->pass[pass], error);
}

static enum base_status task_open_survey(struct join_task *task, uint32_t side, struct base_error *error)
{
    if (!task->config.survey[side])
        return BASE_OK;
    const struct shuffle_scan_config scan_config = {.engine = task->config.engine,
                                                    .governor = task->config.governor,
                                                    .relation = &task->config.plan->side[side].relation};
    struct shuffle_pass_config config = {.queue = task->config.survey[side], .surveys = task->config.surveys[side]};
    const enum base_status status = shuffle_scan_open_survey(&scan_config, &config.scan, error);
    return status == BASE_OK ? shuffle_pass_open(&config, &task->survey[side], error) : status;
}

static enum base_status task_open_parts(struct join_task *task, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    enum base_status status = BASE_OK;
    for (uint32_t side = 0; side < plan->sides && status == BASE_OK; side++)
        status = shuffle_layout_prepare(&plan->side[side].schema, &task->layout[side], error);
    if (status == BASE_OK)
        status = task_open_table(task, error);
    if (status == BASE_OK)
        status = task_open_output(task, error);
    if (status == BASE_OK)
        status = task_open_sinks(task, error);
    if (status == BASE_OK)
        status = task_open_mesh(task, error);
    for (uint32_t pass = 0; pass < task->passes && status == BASE_OK; pass++)
        status = task_open_exchange(task, pass, error);
    for (uint32_t pass = 0; pass < task->passes && status == BASE_OK; pass++)
        status = task_open_pass(task, pass, error);
    for (uint32_t side = 0; side < plan->sides && status == BASE_OK; side++)
        status = task_open_survey(task, side, error);
    return status;
}

/* ---- running ---- */

static void task_turn_survey(struct join_task *task, const struct shuffle_budget *budget, bool *worked)
{
    bool all = true;
    for (uint32_t side = 0; side < TASK_SIDES; side++) {
        if (!task->survey[side])
            continue;
        struct base_error error = {0};
        if (shuffle_pass_turn(task->survey[side], budget->batches, worked, &error) != BASE_OK) {
            task_fail(task, &error);
            return;
        }
        all = all && shuffle_pass_scanned(task->survey[side]);
    }
    if (all) {
        base_state_enter(&task->state, TASK_OPENED);
        task_report(task, JOIN_STEP_SURVEYED, NULL);
    }
}

/* A pass is over when this worker's rows have left and everybody's rows have come. */
static void task_turn_pass(struct join_task *task, uint32_t pass, const struct shuffle_budget *budget, bool *worked)
{
    struct base_error error = {0};
    if (shuffle_pass_turn(task->pass[pass], budget->batches, worked, &error) != BASE_OK) {
        if (!shuffle_pass_faulty(task->pass[pass], &task->fault_morsel)) {
            task_fail(task, &error);
            return;
        }
        *worked = true;
        task->fault_side = join_plan_pass_side(task->config.plan, pass);
        task_report(task, JOIN_STEP_FAULT, &error);
    }
    if (task->halting && shuffle_pass_halted(task->pass[pass])) {
        task->halting = false;
        task_report(task, JOIN_STEP_HALTED, NULL);
    }
    if (!shuffle_pass_scanned(task->pass[pass]) || !shuffle_exchange_sent(task->exchange[pass]) ||
        !shuffle_exchange_received(task->exchange[pass]))
        return;
    task->stream_end_ns = net_engine_now_ns(task->config.engine);
    *worked = true;
    if (pass + 1 < task->passes) {
        join_table_seal(task->table);
        base_state_enter(&task->state, TASK_SEALED);
        task_report(task, JOIN_STEP_SEALED, NULL);
    } else {
        base_state_enter(&task->state, TASK_FINISHING);
    }
}

/* Pairs still collected, then the output's buffers, then the disk. */
static void task_turn_finishing(struct join_task *task)
{
    struct base_error error = {0};
    enum base_status status = BASE_OK;
    if (task->passes == TASK_PASSES)
        status = join_probe_sink_drain(task->sink[1], &error);
    if (status == BASE_OK && task->output)
        status = shuffle_output_finish(task->output, &error);
    if (status == BASE_BUSY)
        return;
    if (status != BASE_OK) {
        task_fail(task, &error);
        return;
    }
    base_state_enter(&task->state, TASK_FINISHED);
    task_report(task, JOIN_STEP_FINISHED, NULL);
}

static void task_turn_closing(struct join_task *task)
{
    if (!shuffle_mesh_closed(task->mesh) || (task->output && !shuffle_output_idle(task->output)))
        return;
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        if (task->pass[i] && !shuffle_pass_idle(task->pass[i]))
            return;
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        if (task->survey[i] && !shuffle_pass_idle(task->survey[i]))
            return;
    base_state_enter(&task->state, TASK_CLOSED);
    task_report(task, JOIN_STEP_CLOSED, NULL);
}

static bool task_turn(struct shuffle_task *base, const struct shuffle_budget *budget)
{
    struct join_task *task = (struct join_task *)base;
    bool worked = false;
    struct base_error error = {0};
    if (task->state.now == TASK_CLOSED)
        return false;
    if (task->passes == TASK_PASSES)
        join_probe_sink_turn(task->sink[1], budget->output_rows);
    if (shuffle_mesh_turn(task->mesh, &worked, &error) != BASE_OK)
        task_fail(task, &error);
    switch (task->state.now) {
    case TASK_SURVEYING:
        task_turn_survey(task, budget, &worked);
        break;
    case TASK_CONNECTING:
        if (shuffle_mesh_connected(task->mesh)) {
            base_state_enter(&task->state, TASK_CONNECTED);
            task_report(task, JOIN_STEP_CONNECTED, NULL);
        }
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
    case TASK_CLOSING:
        task_turn_closing(task);
        break;
    default:
        break;
    }
    return worked || (task->passes == TASK_PASSES && join_probe_sink_spent(task->sink[1]));
}

static void task_event(struct shuffle_task *base, const struct net_event *event)
{
    struct join_task *task = (struct join_task *)base;
    if (event->kind == NET_EVENT_FILE) {
        if (event->file->tag == SHUFFLE_FILE_TAG_SCAN)
            shuffle_scan_event(event->file->context, event);
        else
            shuffle_output_event(event->file->context, event);
        return;
    }
    struct base_error error = {0};
    if (shuffle_mesh_event(task->mesh, event, &error) != BASE_OK)
        task_fail(task, &error);
}

static uint64_t task_deadline_ns(const struct shuffle_task *base)
{
    return shuffle_mesh_deadline_ns(((const struct join_task *)base)->mesh);
}

static const struct shuffle_task_ops task_ops = {
    .event = task_event, .turn = task_turn, .deadline_ns = task_deadline_ns};

/* ---- the interface ---- */

enum base_status join_task_open(const struct join_task_config *config, struct join_task **task,
                                struct base_error *error)
{
    struct join_task *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a task");
    made->base.ops = &task_ops;
    base_state_begin(&made->state, &task_machine, TASK_OPENED);
    made->config = *config;
    made->passes = config->plan->kind == JOIN_JOB_JOIN ? 2 : 1;
    const enum base_status status = task_open_parts(made, error);
    if (status != BASE_OK) {
        if (made->mesh)
            shuffle_mesh_close(made->mesh, true); /* it has no connection yet: closed at once */
        join_task_free(made);
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
    if (task->state.now != TASK_OPENED)
        return;
    base_state_enter(&task->state, TASK_SURVEYING);
    for (uint32_t side = 0; side < TASK_SIDES; side++)
        if (task->survey[side])
            shuffle_pass_start(task->survey[side]);
}

void join_task_connect(struct join_task *task)
{
    if (task->state.now != TASK_OPENED)
        return;
    base_state_enter(&task->state, TASK_CONNECTING);
    struct base_error error = {0};
    if (shuffle_mesh_connect(task->mesh, &error) != BASE_OK)
        task_fail(task, &error);
}

void join_task_start(struct join_task *task, uint32_t pass)
{
    BASE_ASSERT(pass < task->passes);
    if (task->state.now != (pass == 0 ? TASK_CONNECTED : TASK_SEALED))
        return;
    base_state_enter(&task->state, pass == 0 ? TASK_PASS_0 : TASK_PASS_1);
    if (pass == 0)
        task->scan_begin_ns = net_engine_now_ns(task->config.engine);
    shuffle_pass_start(task->pass[pass]);
}

void join_task_halt(struct join_task *task)
{
    task->halting = task->state.now == TASK_PASS_0 || task->state.now == TASK_PASS_1;
    if (!task->halting && task->state.now < TASK_FAILED) /* it has no morsel */
        task_report(task, JOIN_STEP_HALTED, NULL);
}

void join_task_fault(const struct join_task *task, uint32_t *side, uint64_t *morsel)
{
    *side = task->fault_side;
    *morsel = task->fault_morsel;
}

void join_task_close(struct join_task *task, bool abort)
{
    if (task->state.now >= TASK_CLOSING)
        return;
    const bool failed = task->state.now == TASK_FAILED;
    base_state_enter(&task->state, TASK_CLOSING);
    task_stop_passes(task);
    if (!failed)
        shuffle_mesh_close(task->mesh, abort);
}

void join_task_free(struct join_task *task)
{
    if (!task)
        return;
    for (uint32_t i = 0; i < TASK_SIDES; i++)
        shuffle_pass_close(task->survey[i]);
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        shuffle_pass_close(task->pass[i]);
    for (uint32_t i = 0; i < TASK_PASSES; i++)
        shuffle_exchange_close(task->exchange[i]);
    shuffle_mesh_free(task->mesh);
    free(task->node_name);
    if (task->config.plan->kind == JOIN_JOB_SHUFFLE && !task->config.plan->into_table)
        shuffle_output_sink_close(task->sink[0]);
    else
        for (uint32_t i = 0; i < TASK_PASSES; i++)
            join_sink_close(task->sink[i]);
    shuffle_output_close(task->output);
    join_table_close(task->table);
    for (uint32_t i = 0; i < TASK_SIDES; i++) {
        shuffle_morsel_queue_close(task->preloaded[i]);
        shuffle_layout_free(&task->layout[i]);
        free(task->rejects[i]);
    }
    free(task);
}

static void task_result_exchange(struct join_task_result *result, const struct shuffle_exchange_counters *counters)
{
#define X(name, unit, over_workers, ...)                                                                               \
    result->name = base_fold(BASE_FOLD_##over_workers, result->name, counters->name);
    SHUFFLE_EXCHANGE_COUNTER_LIST(X)
#undef X
}

static void task_result_pass(struct join_task_result *result, const struct shuffle_pass *pass, uint32_t side)
{
    const uint64_t rows = shuffle_pass_rows(pass);
    result->rows_scanned += rows;
    *(side == 0 ? &result->rows_scanned_left : &result->rows_scanned_right) += rows;
    result->input_bytes += shuffle_pass_input_bytes(pass);
    result->stalls_input += shuffle_pass_stalls_input(pass);
}

void join_task_result(const struct join_task *task, struct join_task_result *result)
{
    *result = (struct join_task_result){.scan_begin_ns = task->scan_begin_ns, .stream_end_ns = task->stream_end_ns};
    for (uint32_t pass = 0; pass < task->passes; pass++) {
        task_result_pass(result, task->pass[pass], join_plan_pass_side(task->config.plan, pass));
        task_result_exchange(result, shuffle_exchange_counters(task->exchange[pass]));
    }
    if (task->table) {
        result->table_rows = join_table_rows(task->table);
        result->table_bytes = join_table_bytes(task->table);
        result->table_copied_bytes = join_table_copied_bytes(task->table);
    }
    if (task->output) {
        result->rows = shuffle_output_rows(task->output);
        result->checksum = shuffle_output_checksum(task->output);
        result->output_bytes = shuffle_output_bytes(task->output);
        result->stalls_output = shuffle_output_stalls(task->output);
    } else {
        result->rows = result->table_rows;
    }
}

const struct shuffle_rejects *join_task_rejects(const struct join_task *task, uint32_t side)
{
    return task->rejects[side];
}

const uint64_t *join_task_sent_bytes(const struct join_task *task)
{
    return shuffle_mesh_sent_bytes(task->mesh);
}

const uint64_t *join_task_received_bytes(const struct join_task *task)
{
    return shuffle_mesh_received_bytes(task->mesh);
}

bool join_task_socket_facts(const struct join_task *task, struct net_socket_facts *facts)
{
    return shuffle_mesh_socket_facts(task->mesh, facts);
}

uint64_t join_task_rows_scanned(const struct join_task *task)
{
    uint64_t rows = 0;
    for (uint32_t pass = 0; pass < task->passes; pass++)
        rows += shuffle_pass_rows(task->pass[pass]);
    return rows;
}
