/* Orders come in the coordinator's sequence (RESOLVE, PREPARE, SURVEY, CONNECT, START, LEND..., STAGE, COMMIT,
 * PUBLISH, RELEASE) and each is passed on at once; what the crew answers is passed back. RELEASE may come at any time.
 * Whatever fails meanwhile is reported as FAILED, and then this node only waits for RELEASE.
 *
 * Output. Attempts are made under the job's name. They are removed when the job is released as aborted, or abandoned
 * before it was staged. Once staged, they are durable and the coordinator may have decided to keep them: then only its
 * word (COMMIT, or RELEASE with abort) moves them, if need be after a reconnect. */
#include "cluster/node/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"

void node_job_say(struct node_job *job, struct cluster_message *message)
{
    if (!message->job)
        message->job = job->id;
    BASE_ASSERT(message->job != 0 && (unsigned)message->kind < CLUSTER_MESSAGE_COUNT);
    job->send(job->send_context, message);
}

static void say_failed(struct node_job *job, uint64_t id, const struct base_error *error)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_FAILED, .job = id, .failed = {.error = *error}};
    message.failed.error.status = base_status_as_failure(error->status);
    node_job_say(job, &message);
}

#define FROM(state) (1U << NODE_JOB_##state)
static const struct base_state_row job_rows[NODE_JOB_STATE_COUNT] = {
    [NODE_JOB_IDLE] = {"idle", FROM(RELEASING)},
    [NODE_JOB_RESOLVING] = {"looking at its sources", FROM(IDLE)},
    [NODE_JOB_RESOLVED] = {"not prepared", FROM(RESOLVING)},
    [NODE_JOB_PREPARED] = {"prepared", FROM(RESOLVED)},
    [NODE_JOB_RUNNING] = {"running", FROM(PREPARED) | FROM(RUNNING)},
    [NODE_JOB_FINISHED] = {"finished", FROM(PREPARED) | FROM(RUNNING)}, /* a measurement has no passes */
    [NODE_JOB_STAGED] = {"synced", FROM(FINISHED)},
    [NODE_JOB_FAILED] = {"failed", ~(FROM(IDLE) | FROM(FAILED) | FROM(RELEASING))},
    [NODE_JOB_RELEASING] = {"being released", ~(FROM(IDLE) | FROM(RELEASING))},
};
#undef FROM
static const struct base_machine job_machine = {"job of a node", job_rows, NODE_JOB_STATE_COUNT};

/* Says that the job cannot go on here: the first time it fails, later as a better reason. */
static void job_fail(struct node_job *job, const struct base_error *error)
{
    if (job->state.now != NODE_JOB_FAILED && job->state.now != NODE_JOB_RELEASING)
        base_state_enter(&job->state, NODE_JOB_FAILED);
    node_resolve_abandon(job->resolve); /* an order that came too early failed the job: nobody wants its sources */
    job->resolve = NULL;
    say_failed(job, job->id, error);
}

static void say_simple(struct node_job *job, enum cluster_message_kind kind, uint64_t id)
{
    struct cluster_message message = {.kind = kind, .job = id};
    node_job_say(job, &message);
}

/* ---- output ---- */

static enum base_status on_stage(struct node_job *job, const struct cluster_stage *stage, struct base_error *error)
{
    job->looking = false; /* all nodes have finished */
    if (job->state.now != NODE_JOB_FINISHED)
        return base_error_set(error, BASE_PROTOCOL, "ordered to sync the output of a job that is %s",
                              base_state_word(&job->state));
    const enum base_status status = node_output_stage(&job->outputs, job->id, stage->text, error);
    if (status != BASE_OK)
        return status;
    base_state_enter(&job->state, NODE_JOB_STAGED);
    say_simple(job, CLUSTER_MESSAGE_STAGED, job->id);
    return BASE_OK;
}

static void on_commit(struct node_job *job, uint64_t id, const struct cluster_commit *commit)
{
    struct base_error error;
    if (node_output_commit(&job->outputs, id, commit, &error) == BASE_OK)
        say_simple(job, CLUSTER_MESSAGE_COMMITTED, id);
    else
        say_failed(job, id, &error);
}

static void on_publish(struct node_job *job, uint64_t id, const struct cluster_publish *publish)
{
    struct base_error error;
    if (node_output_publish(publish, &error) == BASE_OK)
        say_simple(job, CLUSTER_MESSAGE_PUBLISHED, id);
    else
        say_failed(job, id, &error);
}

/* ---- resolve ---- */

static void found_free(struct node_job *job)
{
    shuffle_relation_free(&job->found.relation[0]);
    shuffle_relation_free(&job->found.relation[1]);
}

static void resolve_end(struct node_job *job, enum base_status status, struct cluster_resolved *found,
                        const struct base_error *error)
{
    BASE_ASSERT(job->id != 0 && !job->resolve);
    if (status != BASE_OK) {
        job_fail(job, error);
        return;
    }
    base_state_enter(&job->state, NODE_JOB_RESOLVED);
    job->found = *found; /* the plan's files are compared with them */
    struct cluster_message answer = {.kind = CLUSTER_MESSAGE_RESOLVED, .resolved = job->found};
    node_job_say(job, &answer);
}

static enum base_status on_resolve(struct node_job *job, uint64_t id, struct cluster_resolve *resolve,
                                   struct base_error *error)
{
    if (job->id)
        return base_error_set(error, BASE_PROTOCOL,
                              "got an order for job %" PRIu64 " while job %" PRIu64 " is not over", id, job->id);
    BASE_ASSERT(!job->crew_has && !job->resolve && !job->node); /* all of the one before is gone */
    base_state_enter(&job->state, NODE_JOB_RESOLVING);
    job->id = id;
    struct cluster_resolved found = {.relation_count = 0};
    struct base_error why;
    if (resolve->source_count == 0) {
        cluster_card_find(&cluster_crew_addresses(job->crew)[0], &found.card);
        resolve_end(job, BASE_OK, &found, NULL);
    } else if (node_resolve_start(id, resolve, job->resolve_fd, &job->resolve, &why) != BASE_OK) {
        resolve_end(job, why.status, &found, &why);
    }
    return BASE_OK;
}

void node_job_resolved(struct node_job *job)
{
    uint64_t count;
    if (read(job->resolve_fd, &count, sizeof count) < 0)
        return;
    if (!job->resolve || !node_resolve_ended(job->resolve))
        return; /* woken by one of a job before */
    struct cluster_resolved found = {.relation_count = 0};
    struct base_error why;
    const enum base_status status = node_resolve_finish(job->resolve, &found, &why);
    job->resolve = NULL;
    resolve_end(job, status, &found, &why);
}

/* ---- prepare ---- */

static enum base_status keep_side(struct node_side *side, const struct shuffle_relation *relation, uint64_t capacity,
                                  bool survey, struct base_error *error)
{
    BASE_ASSERT(!side->file_bytes && !side->survey_index);
    if (survey && relation->placement == SHUFFLE_GENERATED)
        return base_error_set(error, BASE_PROTOCOL, "ordered to survey rows that are generated");
    side->capacity = capacity;
    side->survey = survey;
    side->generated = relation->placement == SHUFFLE_GENERATED;
    side->rows = relation->generator.rows;
    side->file_count = relation->file_count;
    side->file_bytes = calloc((size_t)relation->file_count + 1, sizeof *side->file_bytes);
    if (!side->file_bytes)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    for (uint32_t i = 0; i < relation->file_count; i++)
        side->file_bytes[i] = relation->file[i].bytes;
    return BASE_OK;
}

/* What of the plan is needed after the crew has taken it. */
static enum base_status keep_plan(struct node_job *job, const struct cluster_prepare *prepare, struct base_error *error)
{
    const struct cluster_plan *plan = prepare->plan;
    const struct shuffle_node *self = &plan->job.node[prepare->node];
    if (strcmp(self->name, job->node_name) != 0 || self->count != job->workers)
        return base_error_set(error, BASE_PROTOCOL, "the plan takes this node for %s with %u workers", self->name,
                              self->count);
    job->node = calloc(plan->job.node_count, sizeof *job->node);
    if (!job->node)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    memcpy(job->node, plan->job.node, plan->job.node_count * sizeof *job->node);
    job->node_count = plan->job.node_count;
    job->address = calloc(plan->job.workers, sizeof *job->address);
    if (!job->address)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    memcpy(job->address, plan->job.address, plan->job.workers * sizeof *job->address);
    job->address_count = plan->job.workers;
    job->sides = plan->join.sides;
    for (uint32_t side = 0; side < plan->join.sides; side++) {
        const enum base_status status = keep_side(&job->side[side], &plan->join.side[side].relation,
                                                  prepare->morsel_capacity[side], prepare->survey[side], error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

static enum base_status on_prepare(struct node_job *job, struct cluster_prepare *prepare, struct base_error *error)
{
    if (job->state.now != NODE_JOB_RESOLVED)
        return base_error_set(error, BASE_PROTOCOL, "ordered to prepare a job that is %s",
                              base_state_word(&job->state));
    enum base_status status = keep_plan(job, prepare, error);
    for (uint32_t side = 0; side < job->sides && status == BASE_OK; side++)
        status = node_resolve_recall(&job->found.relation[side], &prepare->plan->join.side[side].relation, error);
    found_free(job);
    if (status == BASE_OK)
        status = node_output_begin(&job->outputs, job->id, &prepare->plan->join,
                                   prepare->plan->job.node[prepare->node].first,
                                   prepare->plan->job.node[prepare->node].count, error);
    if (status != BASE_OK)
        return status;
    const uint32_t first = prepare->plan->job.node[prepare->node].first;
    status = cluster_crew_prepare(job->crew, prepare->plan, first, prepare->morsel_capacity, prepare->survey, error);
    if (status != BASE_OK)
        return status;
    job->crew_has = true;
    base_state_enter(&job->state, NODE_JOB_PREPARED);
    return BASE_OK;
}

/* ---- morsels ---- */

/* Morsels come from outside: they must lie in the relation. */
static enum base_status check_lend(const struct node_job *job, const struct cluster_lend *lend,
                                   struct base_error *error)
{
    const struct node_side *side = &job->side[lend->side];
    if (lend->side >= job->sides && lend->count > 0)
        return base_error_set(error, BASE_PROTOCOL, "morsels of a side that the job does not have");
    for (uint64_t i = 0; i < lend->count; i++) {
        const struct shuffle_morsel *morsel = &lend->morsel[i];
        const bool inside = side->generated
                                ? morsel->end <= side->rows
                                : morsel->file < side->file_count && morsel->end <= side->file_bytes[morsel->file];
        if (!inside || morsel->index >= side->capacity)
            return base_error_set(error, BASE_PROTOCOL, "a morsel outside of its relation");
    }
    return BASE_OK;
}

static enum base_status on_lend(struct node_job *job, const struct cluster_lend *lend, struct base_error *error)
{
    const enum base_status status = check_lend(job, lend, error);
    return status == BASE_OK ? cluster_crew_lend(job->crew, lend->side, lend->morsel, lend->count, lend->end, error)
                             : status;
}

static enum base_status on_survey_side(struct node_job *job, uint32_t side, const struct cluster_lend *lend,
                                       struct base_error *error)
{
    struct node_side *of = &job->side[side];
    if (!of->survey)
        return BASE_OK;
    if (lend->side != side || of->survey_index)
        return base_error_set(error, BASE_PROTOCOL, "a survey that was not announced");
    enum base_status status = check_lend(job, lend, error);
    if (status != BASE_OK)
        return status;
    of->survey_index = calloc(lend->count + 1, sizeof *of->survey_index);
    if (!of->survey_index)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a survey");
    of->survey_count = lend->count;
    for (uint64_t i = 0; i < lend->count; i++)
        of->survey_index[i] = lend->morsel[i].index;
    return cluster_crew_lend_survey(job->crew, side, lend->morsel, lend->count, true, error);
}

static enum base_status on_survey(struct node_job *job, const struct cluster_survey *survey, struct base_error *error)
{
    for (uint32_t side = 0; side < job->sides; side++) {
        const enum base_status status = on_survey_side(job, side, &survey->lend[side], error);
        if (status != BASE_OK)
            return status;
    }
    return cluster_crew_survey(job->crew, error);
}

static void say_surveyed(struct node_job *job)
{
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_SURVEYED;
    struct shuffle_survey *survey[2] = {NULL, NULL};
    const uint32_t sides = job->sides;
    BASE_ASSERT(sides <= 2);
    bool complete = true;
    for (uint32_t side = 0; side < sides; side++) {
        const struct node_side *of = &job->side[side];
        struct shuffle_survey *found = calloc(of->survey_count + 1, sizeof *found);
        message.surveyed.survey[side] = survey[side] = found;
        message.surveyed.count[side] = of->survey_count;
        complete &= found != NULL;
        for (uint64_t i = 0; found && i < of->survey_count; i++) {
            found[i] = *cluster_crew_surveyed(job->crew, side, of->survey_index[i]);
            found[i].index = of->survey_index[i];
        }
    }
    struct base_error error;
    if (complete)
        node_job_say(job, &message);
    else if (base_error_set(&error, BASE_NO_MEMORY, "no memory for the result of a survey") != BASE_OK)
        job_fail(job, &error);
    free(survey[0]);
    free(survey[1]);
}

/* ---- steps and ends ---- */

/* Says of a step what was left out of the input up to it. */
static void fill_rejects(const struct node_job *job, struct cluster_step *step)
{
    for (uint32_t side = 0; side < 2; side++)
        step->rejects[side] = (struct shuffle_rejects *)(uintptr_t)cluster_crew_rejects(job->crew, side);
}

/* A step that carries what this node's share came to, of a job that was prepared. Borrows bytes and engine. */
static void fill_step(const struct node_job *job, enum cluster_step_kind reached, uint64_t *bytes,
                      struct cluster_crew_engine *engine, struct cluster_step *step)
{
    BASE_ASSERT(job->node_count > 0);
    cluster_crew_engine(job->crew, engine);
    step->step = reached;
    step->has_report = true;
    step->node_count = job->node_count;
    step->engine = engine->name;
    step->features = engine->features;
    step->engine_reason = engine->reason;
    step->engine_decision = engine->decision;
    step->sent_bytes = bytes;
    step->received_bytes = bytes + job->node_count;
    fill_rejects(job, step);
    cluster_crew_work(job->crew, &step->report, step->sent_bytes, step->received_bytes);
}

static void say_finished(struct node_job *job)
{
    struct cluster_crew_engine engine;
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_STEP;
    uint64_t *bytes = calloc(2 * (size_t)job->node_count, sizeof *bytes);
    struct base_error error;
    if (bytes) {
        fill_step(job, CLUSTER_STEP_FINISHED, bytes, &engine, &message.step);
        node_job_say(job, &message);
    } else {
        base_error_set(&error, BASE_NO_MEMORY, "no memory for a report");
        job_fail(job, &error);
    }
    free(bytes);
}

void node_job_begin(struct node_job *job)
{
    base_state_begin(&job->state, &job_machine, NODE_JOB_IDLE);
}

static void job_forget(struct node_job *job)
{
    node_resolve_abandon(job->resolve);
    job->resolve = NULL;
    found_free(job);
    if (job->paths)
        cluster_path_watch_close(job->paths);
    job->paths = NULL;
    for (uint32_t side = 0; side < 2; side++) {
        free(job->side[side].file_bytes);
        free(job->side[side].survey_index);
        memset(&job->side[side], 0, sizeof job->side[side]);
    }
    free(job->node);
    free(job->address);
    job->node = NULL;
    job->address = NULL;
    job->node_count = job->address_count = job->sides = 0;
    job->crew_has = job->looking = job->abort = false;
    job->id = 0;
}

/* The crew holds nothing of the job any more; ran: it did. Says so, with what the job came to here. */
static void job_closed(struct node_job *job, bool ran)
{
    BASE_ASSERT(job->state.now == NODE_JOB_RELEASING && !job->crew_has && job->id != 0);
    struct cluster_crew_engine engine;
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_CLOSED;
    message.job = job->id;
    message.step.step = CLUSTER_STEP_CLOSED;
    uint64_t *bytes = ran ? calloc(2 * (size_t)job->node_count, sizeof *bytes) : NULL;
    if (bytes)
        fill_step(job, CLUSTER_STEP_CLOSED, bytes, &engine, &message.step);
    if (job->abort) /* else what was not committed stays until its decision is heard */
        node_output_abort(&job->outputs, job->id, base_clock_now_ns());
    job_forget(job);
    base_state_enter(&job->state, NODE_JOB_IDLE);
    node_job_say(job, &message);
    free(bytes);
}

static void job_release(struct node_job *job, bool abort)
{
    job->abort |= abort; /* also when the decision turns out not to be recorded after all */
    if (job->state.now == NODE_JOB_RELEASING)
        return;
    base_state_enter(&job->state, NODE_JOB_RELEASING);
    job->looking = false;
    if (job->crew_has)
        cluster_crew_release(job->crew, abort); /* -> CLOSED */
    else
        job_closed(job, false);
}

static void on_release(struct node_job *job, uint64_t id, const struct cluster_release *order)
{
    if (job->id == id) {
        job_release(job, order->abort);
        return;
    }
    if (order->abort)
        node_output_abort(&job->outputs, id, base_clock_now_ns());
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_CLOSED, .job = id, .step = {.step = CLUSTER_STEP_CLOSED}};
    node_job_say(job, &message);
}

void node_job_abandon(struct node_job *job)
{
    if (job->id)
        job_release(job, !node_output_staged(&job->outputs, job->id));
}

void node_job_crew_event(struct node_job *job, const struct cluster_crew_event *event)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_LOW, .low = {.side = event->side}};
    if (event->kind == CLUSTER_CREW_STEP && event->step == CLUSTER_STEP_CLOSED) {
        BASE_ASSERT(job->crew_has); /* the crew closes what it was given, once */
        job->crew_has = false;
        if (job->state.now == NODE_JOB_RELEASING)
            job_closed(job, true);
        return;
    }
    const bool releasing = job->state.now == NODE_JOB_RELEASING;
    if (!job->crew_has || (releasing && event->kind != CLUSTER_CREW_FAILED))
        return;
    if (event->kind == CLUSTER_CREW_FAILED) {
        /* Also while aborting: others may have told first how they felt it, and this is why. */
        job->looking = false;
        base_log_warn("job %" PRIu64 " failed here: %s", job->id, event->error.text);
        job_fail(job, &event->error);
    } else if (event->kind == CLUSTER_CREW_FAULT) {
        struct cluster_message fault = {.kind = CLUSTER_MESSAGE_FAULT,
                                        .fault = {.side = event->side, .morsel = event->morsel, .error = event->error}};
        fault.fault.error.status = base_status_as_failure(event->error.status);
        base_log_warn("job %" PRIu64 ": %s", job->id, event->error.text);
        node_job_say(job, &fault);
    } else if (event->kind == CLUSTER_CREW_LOW) {
        node_job_say(job, &message);
    } else if (event->step == CLUSTER_STEP_SURVEYED) {
        say_surveyed(job);
    } else if (event->step == CLUSTER_STEP_MEASURED) {
        node_job_say_measured(job);
    } else if (event->step == CLUSTER_STEP_FINISHED) {
        if (job->state.now != NODE_JOB_FAILED) /* one worker's engine may have failed after its part was written */
            base_state_enter(&job->state, NODE_JOB_FINISHED);
        say_finished(job);
    } else {
        struct cluster_message step = {.kind = CLUSTER_MESSAGE_STEP, .step = {.step = event->step}};
        if (event->step == CLUSTER_STEP_SEALED)
            fill_rejects(job, &step.step);
        node_job_say(job, &step);
    }
}

void node_job_progress(struct node_job *job)
{
    if (job->state.now != NODE_JOB_RUNNING)
        return;
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_NODE_PROGRESS,
                                      .node_progress = {.rows = cluster_crew_progress_rows(job->crew)}};
    node_job_say(job, &message);
}

static enum base_status job_start(struct node_job *job, const struct cluster_start *order, struct base_error *error)
{
    if (order->pass >= job->sides)
        return base_error_set(error, BASE_PROTOCOL, "ordered to start pass %u of %u", order->pass + 1, job->sides);
    if (job->state.now != NODE_JOB_PREPARED && job->state.now != NODE_JOB_RUNNING)
        return base_error_set(error, BASE_PROTOCOL, "ordered to start a pass of a job that is %s",
                              base_state_word(&job->state));
    enum base_status status = on_lend(job, &order->lend, error);
    if (status == BASE_OK)
        status = cluster_crew_start(job->crew, order->pass, error);
    if (status != BASE_OK)
        return status;
    base_state_enter(&job->state, NODE_JOB_RUNNING);
    job->looking = true;
    return BASE_OK;
}

/* Orders that need the job to be prepared. */
static enum base_status job_order_crew(struct node_job *job, struct cluster_message *message, struct base_error *error)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_SURVEY:
        return on_survey(job, &message->survey, error);
    case CLUSTER_MESSAGE_CONNECT:
        return cluster_crew_connect(job->crew, error);
    case CLUSTER_MESSAGE_START:
        return job_start(job, &message->start, error);
    case CLUSTER_MESSAGE_HALT:
        return cluster_crew_halt(job->crew, message->halt.side, message->halt.morsel, error);
    case CLUSTER_MESSAGE_LEND:
        return on_lend(job, &message->lend, error);
    case CLUSTER_MESSAGE_STAGE:
        return on_stage(job, &message->stage, error);
    case CLUSTER_MESSAGE_MEASURE:
        return node_job_measure(job, &message->measure, error);
    default:
        return base_error_set(error, BASE_PROTOCOL, "%s is no order to a node", cluster_message_name(message->kind));
    }
}

enum base_status node_job_order(struct node_job *job, struct cluster_message *message, struct base_error *error)
{
    if (message->job == 0)
        return base_error_set(error, BASE_PROTOCOL, "%s of a job without a number",
                              cluster_message_name(message->kind));
    switch (message->kind) {
    case CLUSTER_MESSAGE_RESOLVE:
        return on_resolve(job, message->job, &message->resolve, error);
    case CLUSTER_MESSAGE_RELEASE:
        on_release(job, message->job, &message->release);
        return BASE_OK;
    case CLUSTER_MESSAGE_COMMIT:
        on_commit(job, message->job, &message->commit);
        return BASE_OK;
    case CLUSTER_MESSAGE_PUBLISH:
        on_publish(job, message->job, &message->publish);
        return BASE_OK;
    default:
        break;
    }
    if (!job->id || message->job != job->id)
        return base_error_set(error, BASE_PROTOCOL, "%s for job %" PRIu64 ", which is not this node's",
                              cluster_message_name(message->kind), message->job);
    if (job->state.now == NODE_JOB_RELEASING || job->state.now == NODE_JOB_FAILED)
        return BASE_OK; /* it crossed what this node said */
    struct base_error why;
    enum base_status status;
    if (message->kind == CLUSTER_MESSAGE_PREPARE)
        status = on_prepare(job, &message->prepare, &why);
    else if (!job->crew_has)
        status =
            base_error_set(&why, BASE_PROTOCOL, "%s before the job was prepared", cluster_message_name(message->kind));
    else
        status = job_order_crew(job, message, &why);
    if (status != BASE_OK)
        job_fail(job, &why);
    return BASE_OK;
}

bool node_job_idle(const struct node_job *job)
{
    return job->id == 0;
}

void node_job_close(struct node_job *job)
{
    job_forget(job);
    node_output_close(&job->outputs);
}
