/* Opens the parts of a task, in the order of their lifetimes (join/task.c). */
#include <stdlib.h>

#include "join/task_internal.h"

static enum base_status task_open_table(struct join_task *task, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->base.config.job;
    if (plan->kind == JOIN_JOB_SHUFFLE && !plan->into_table)
        return BASE_OK;
    const struct join_side *build = &plan->side[plan->build];
    const bool preloaded = build->relation.placement == SHUFFLE_GENERATED && build->relation.generator.preload;
    const uint64_t rows = join_plan_relation_rows(&build->relation) / job->workers;
    const struct join_table_config config = {.governor = task->base.config.governor,
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
        path =
            shuffle_publish_attempt_path(plan->out, plan->files, task->base.config.worker, join_plan_extension(plan));
        if (!path)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the name of an output part");
    }
    const struct shuffle_output_config config = {
        .kind = plan->output,
        .engine = task->base.config.engine,
        .governor = task->base.config.governor,
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
    enum base_status status = join_build_sink_open(task->table, &task->sink[0], error);
    for (uint32_t side = 0; side < TASK_SIDES && status == BASE_OK; side++)
        if (join_type_keeps(plan->type, side))
            status = join_unmatched_sink_open(task->output, plan->type, side, &task->unmatched[side], error);
    if (status != BASE_OK)
        return status;
    const uint32_t probe = join_plan_pass_side(plan, 1);
    const struct join_probe_sink_config config = {.table = task->table,
                                                  .key = &plan->side[probe].key,
                                                  .layout = &task->layout[probe],
                                                  .output = task->output,
                                                  .type = plan->type,
                                                  .build = plan->build};
    return join_probe_sink_open(&config, &task->sink[1], error);
}

static enum base_status task_open_exchange(struct join_task *task, uint32_t pass, struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->base.config.job;
    const uint32_t side = join_plan_pass_side(plan, pass);
    const struct shuffle_exchange_config config = {.mesh = task->base.mesh,
                                                   .governor = task->base.config.governor,
                                                   .id = (uint8_t)pass,
                                                   .layout = &task->layout[side],
                                                   .key = &plan->side[side].key,
                                                   .frame_bytes = job->settings.frame_bytes,
                                                   .frames_per_lane = job->settings.frames_per_lane,
                                                   .verify = job->settings.verify,
                                                   .sink = task->sink[pass]};
    return shuffle_exchange_open(&config, &task->exchange[pass], error);
}

/* What becomes of rows of a side whose key has a NULL. */
static enum shuffle_null_keys task_null_keys(const struct join_plan *plan, uint32_t side)
{
    if (plan->kind != JOIN_JOB_JOIN || plan->null_equal || !plan->side[side].key_nullable)
        return SHUFFLE_NULL_KEYS_TRAVEL;
    return join_type_keeps(plan->type, side) ? SHUFFLE_NULL_KEYS_ASIDE : SHUFFLE_NULL_KEYS_DROP;
}

/* A preloaded share is one morsel that only this worker takes. */
static enum base_status task_preload(struct join_task *task, uint32_t side, struct shuffle_scan *scan,
                                     struct base_error *error)
{
    const struct join_plan *plan = task->config.plan;
    const struct shuffle_job *job = task->base.config.job;
    const uint64_t rows = plan->side[side].relation.generator.rows;
    const __uint128_t total = rows;
    const struct shuffle_morsel share = {.begin = (uint64_t)(total * task->base.config.worker / job->workers),
                                         .end = (uint64_t)(total * (task->base.config.worker + 1) / job->workers)};
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
    const struct shuffle_job *job = task->base.config.job;
    const uint32_t side = join_plan_pass_side(plan, pass);
    const struct join_side *of = &plan->side[side];
    if (of->relation.csv.bad_rows_max > 0) {
        task->rejects[side] = calloc(1, sizeof *task->rejects[side]);
        if (!task->rejects[side])
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the bad rows of an input");
    }
    const struct shuffle_scan_config scan_config = {.engine = task->base.config.engine,
                                                    .governor = task->base.config.governor,
                                                    .relation = &of->relation,
                                                    .project = of->project,
                                                    .project_count = of->project_count,
                                                    .rejects = task->rejects[side]};
    struct shuffle_pass_config config = {.exchange = task->exchange[pass],
                                         .queue = task->config.queue[side],
                                         .key = &of->key,
                                         .null_keys = task_null_keys(plan, side),
                                         .aside = task->unmatched[side],
                                         .governor = task->base.config.governor,
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
    const struct shuffle_scan_config scan_config = {.engine = task->base.config.engine,
                                                    .governor = task->base.config.governor,
                                                    .relation = &task->config.plan->side[side].relation};
    struct shuffle_pass_config config = {.queue = task->config.survey[side], .surveys = task->config.surveys[side]};
    const enum base_status status = shuffle_scan_open_survey(&scan_config, &config.scan, error);
    return status == BASE_OK ? shuffle_pass_open(&config, &task->survey[side], error) : status;
}

enum base_status join_task_open_parts(struct join_task *task, struct base_error *error)
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
        status = shuffle_task_open_mesh(&task->base, NULL, error);
    for (uint32_t pass = 0; pass < task->passes && status == BASE_OK; pass++)
        status = task_open_exchange(task, pass, error);
    for (uint32_t pass = 0; pass < task->passes && status == BASE_OK; pass++)
        status = task_open_pass(task, pass, error);
    for (uint32_t side = 0; side < plan->sides && status == BASE_OK; side++)
        status = task_open_survey(task, side, error);
    return status;
}
