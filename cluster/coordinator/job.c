/* The phases of a job.
 *
 *   queued -> RESOLVE -> PREPARE -> [SURVEY ->] CONNECT -> BUILD -> [PROBE ->] [STAGE -> COMMIT ->] RELEASE -> done
 *   any of them -> ABORT -> done
 *
 * A job that measures the network goes from CONNECT to MEASURE, once for every step of it, and then to RELEASE.
 *
 * One job runs at a time. In every phase the coordinator waits for one answer of every node (`answered`), then goes on:
 * so a phase is a barrier. In RELEASE and ABORT the answer is CLOSED; a node that is lost counts as having answered,
 * and a node that does not answer in time is lost. Every phase has its deadline, or a reason to have none, in
 * coordinator/deadline.c. Those without one can be left for ABORT at once, by a lost node, a failure or a cancel.
 *
 * Messages carry the job's number; those of another job are dropped, so two jobs cannot mix. A node forgets a job when
 * it says CLOSED, and gets the next only after all nodes have said so.
 *
 * Which error is reported. A fault is felt by others as broken connections, sometimes before we hear of the fault
 * itself or see that a node has died. So an error is replaced by one of a better rank (base/status.h) that comes while
 * aborting, and aborting waits COORDINATOR_ECHO_NS for one as long as no cause is known. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

static void job_enter(struct cluster_coordinator *c, enum cluster_phase phase);

/* ---- ends ---- */

void coordinator_job_free(struct coordinator_job *job)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SUBMIT};
    message.submit = job->submit;
    cluster_message_free(&message);
    for (uint32_t i = 0; i < job->node_count; i++) {
        struct cluster_message step = {.kind = CLUSTER_MESSAGE_STEP};
        step.step = job->node[i].report;
        cluster_message_free(&step);
        free(job->node[i].rejects[0]);
        free(job->node[i].rejects[1]);
        shuffle_relation_free(&job->node[i].relation[0]);
        shuffle_relation_free(&job->node[i].relation[1]);
    }
    free(job->node);
    free(job->live);
    coordinator_plan_free(job);
    cluster_decision_free(&job->decision);
    free(job);
}

/* A node that another one cannot reach is not dead for that: people look in the wrong place otherwise. */
static void explain_unreachable(struct coordinator_job *job)
{
    if (job->explained || (job->error.status != BASE_UNREACHABLE && job->error.status != BASE_NODE_REFUSED))
        return;
    job->explained = true;
    for (uint32_t i = 0; i < job->node_count; i++)
        if (job->node[i].lost)
            return;
    base_error_set(
        &job->error, job->error.status,
        "%s; all nodes are alive: look at routes and packet filters between the two, and at the address that "
        "the node listens at (--listen)",
        job->error.text);
}

void coordinator_tell_end(struct cluster_coordinator *c, struct coordinator_job *job)
{
    BASE_ASSERT(job == c->run);
    explain_unreachable(job);
    coordinator_report_send(c, job);
    job->client = 0;
}

/* The job has let go of everything: tells its client, and forgets it. */
static void job_finish(struct cluster_coordinator *c)
{
    struct coordinator_job *job = c->run;
    BASE_ASSERT(job->phase.now == CLUSTER_PHASE_RELEASE || base_status_is_failure(job->error.status));
    job_enter(c, CLUSTER_PHASE_DONE);
    coordinator_tell_end(c, job);
    coordinator_remember(c, job);
    const double seconds = (double)(c->now_ns - job->started_ns) / 1e9;
    if (job->error.status == BASE_OK)
        coordinator_log(c, BASE_LOG_INFO, "job %" PRIu64 " succeeded in %.3f s", job->id, seconds);
    else
        coordinator_log(c, BASE_LOG_WARN, "job %" PRIu64 " ended after %.3f s: %s", job->id, seconds, job->error.text);
    c->run = NULL;
    coordinator_job_free(job);
}

void coordinator_fail(struct cluster_coordinator *c, enum base_status status, const char *format, ...)
{
    struct coordinator_job *job = c->run;
    BASE_ASSERT(status != BASE_OK);
    status = base_status_as_failure(status);
    if (!job || job->phase.now == CLUSTER_PHASE_DONE || job->phase.now == CLUSTER_PHASE_RELEASE)
        return;
    char text[BASE_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct base_error error;
    base_error_set(&error, status, "%s", text);
    if (job->fault.status != BASE_OK && status != BASE_CANCELLED)
        error = job->fault;
    if (job->error.status == BASE_OK || base_status_rank(error.status) > base_status_rank(job->error.status))
        job->error = error;
    if (job->phase.now == CLUSTER_PHASE_ABORT)
        return;
    job->failed_phase = job->phase.now;
    job_enter(c, CLUSTER_PHASE_ABORT);
}

void coordinator_end_if_closed(struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    BASE_ASSERT(coordinator_is_ending(job));
    for (uint32_t i = 0; i < job->node_count; i++)
        if (!job->node[i].answered && !job->node[i].lost)
            return;
    if (job->phase.now == CLUSTER_PHASE_ABORT && coordinator_is_echo(&job->error) && c->now_ns < job->echo_until_ns)
        return;
    job_finish(c);
}

/* ---- phases ---- */

#define FROM(name) (1u << CLUSTER_PHASE_##name)
static const struct base_state_row phase_rows[CLUSTER_PHASE_COUNT] = {
    [CLUSTER_PHASE_QUEUED] = {"queued", 0},
    [CLUSTER_PHASE_RESOLVE] = {"resolve", FROM(QUEUED)},
    [CLUSTER_PHASE_PREPARE] = {"prepare", FROM(RESOLVE)},
    [CLUSTER_PHASE_SURVEY] = {"survey", FROM(PREPARE)},
    [CLUSTER_PHASE_CONNECT] = {"connect", FROM(PREPARE) | FROM(SURVEY)},
    [CLUSTER_PHASE_BUILD] = {"build", FROM(CONNECT)},
    [CLUSTER_PHASE_PROBE] = {"probe", FROM(BUILD)},
    [CLUSTER_PHASE_STAGE] = {"stage", FROM(BUILD) | FROM(PROBE)},
    [CLUSTER_PHASE_COMMIT] = {"commit", FROM(STAGE)},
    [CLUSTER_PHASE_MEASURE] = {"measure", FROM(CONNECT) | FROM(MEASURE)},
    [CLUSTER_PHASE_RELEASE] = {"release", FROM(BUILD) | FROM(PROBE) | FROM(COMMIT) | FROM(MEASURE)},
    [CLUSTER_PHASE_ABORT] = {"abort", FROM(QUEUED) | FROM(RESOLVE) | FROM(PREPARE) | FROM(SURVEY) | FROM(CONNECT) |
                                          FROM(BUILD) | FROM(PROBE) | FROM(STAGE) | FROM(COMMIT) | FROM(MEASURE)},
    [CLUSTER_PHASE_DONE] = {"done", FROM(ABORT) | FROM(RELEASE)},
};
#undef FROM
const struct base_machine coordinator_phase_machine = {"phase of a job", phase_rows, CLUSTER_PHASE_COUNT};

static struct cluster_message *job_tell(struct cluster_coordinator *c, uint32_t node, enum cluster_message_kind kind)
{
    BASE_ASSERT(node < c->run->node_count && !c->run->node[node].lost);
    return coordinator_send(c, c->run->node[node].peer, kind, c->run->id);
}

static void tell_resolve(struct cluster_coordinator *c, uint32_t node)
{
    const struct cluster_submit *submit = &c->run->submit;
    struct cluster_resolve *resolve = &job_tell(c, node, CLUSTER_MESSAGE_RESOLVE)->resolve;
    resolve->source_count = submit->source_count;
    resolve->source[0] = submit->source[0];
    resolve->source[1] = submit->source[1];
    resolve->out = submit->out;
    resolve->state = (char *)(uintptr_t)(c->config.state_id ? c->config.state_id : "");
    resolve->live = c->run->live;
    resolve->live_count = c->run->live_count;
}

static void tell_prepare(struct cluster_coordinator *c, uint32_t node)
{
    struct coordinator_job *job = c->run;
    BASE_ASSERT(job->planned && job->plan.job.node_count == job->node_count);
    struct cluster_prepare *prepare = &job_tell(c, node, CLUSTER_MESSAGE_PREPARE)->prepare;
    prepare->plan = &job->plan;
    prepare->node = node;
    for (uint32_t side = 0; side < 2; side++) {
        prepare->morsel_capacity[side] = job->morsel_count[side];
        prepare->survey[side] = job->survey[side];
    }
}

static void tell_survey(struct cluster_coordinator *c, uint32_t node)
{
    struct cluster_survey *survey = &job_tell(c, node, CLUSTER_MESSAGE_SURVEY)->survey;
    for (uint32_t side = 0; side < 2; side++)
        coordinator_survey_share(c->run, node, side, &survey->lend[side]);
}

static void tell_start(struct cluster_coordinator *c, uint32_t node)
{
    struct coordinator_job *job = c->run;
    const uint32_t pass = job->phase.now == CLUSTER_PHASE_PROBE;
    BASE_ASSERT(pass < job->plan.join.sides);
    struct cluster_start *start = &job_tell(c, node, CLUSTER_MESSAGE_START)->start;
    start->pass = pass;
    coordinator_lend(job, node, join_plan_pass_side(&job->plan.join, pass), job->node_count - node, &start->lend);
}

static void tell_release(struct cluster_coordinator *c, uint32_t node)
{
    struct coordinator_job *job = c->run;
    if (!job->node[node].lost)
        job_tell(c, node, CLUSTER_MESSAGE_RELEASE)->release.abort =
            job->phase.now == CLUSTER_PHASE_ABORT && !job->recorded;
}

static void tell_phase(struct cluster_coordinator *c, uint32_t node)
{
    switch (c->run->phase.now) {
    case CLUSTER_PHASE_RESOLVE:
        tell_resolve(c, node);
        break;
    case CLUSTER_PHASE_PREPARE:
        tell_prepare(c, node);
        break;
    case CLUSTER_PHASE_SURVEY:
        tell_survey(c, node);
        break;
    case CLUSTER_PHASE_CONNECT:
        job_tell(c, node, CLUSTER_MESSAGE_CONNECT);
        break;
    case CLUSTER_PHASE_BUILD:
    case CLUSTER_PHASE_PROBE:
        tell_start(c, node);
        break;
    case CLUSTER_PHASE_STAGE:
        job_tell(c, node, CLUSTER_MESSAGE_STAGE)->stage.text = c->run->decision.text;
        break;
    case CLUSTER_PHASE_MEASURE:
        coordinator_bisect_tell(c, node);
        break;
    case CLUSTER_PHASE_RELEASE:
    case CLUSTER_PHASE_ABORT:
        tell_release(c, node);
        break;
    default:
        break;
    }
}

/* Every phase is entered here. */
static void job_enter(struct cluster_coordinator *c, enum cluster_phase phase)
{
    struct coordinator_job *job = c->run;
    *coordinator_phase_span(&job->spans, job->phase.now) += (double)(c->now_ns - job->phase_since_ns) / 1e9;
    base_state_enter(&job->phase, phase);
    job->phase_since_ns = c->now_ns;
    if (phase == CLUSTER_PHASE_DONE)
        return;
    for (uint32_t i = 0; i < job->node_count; i++)
        job->node[i].answered = false;
    if (phase == CLUSTER_PHASE_ABORT)
        job->echo_until_ns = c->now_ns + COORDINATOR_ECHO_NS;
    for (uint32_t i = 0; i < job->node_count; i++)
        tell_phase(c, i);
    if (phase == CLUSTER_PHASE_ABORT)
        coordinator_end_if_closed(c); /* when no node was told anything yet */
}

static void enter_stage(struct cluster_coordinator *c)
{
    struct base_error error;
    BASE_ASSERT(c->run->plan.join.out && !c->run->recorded);
    if (coordinator_decide(c->run, &error) == BASE_OK)
        job_enter(c, CLUSTER_PHASE_STAGE);
    else
        coordinator_fail(c, error.status, "%s", error.text);
}

static void enter_commit(struct cluster_coordinator *c)
{
    struct coordinator_job *job = c->run;
    struct base_error error;
    BASE_ASSERT(job->decision.node_count == job->node_count && !coordinator_pending_has(c, job->id));
    if (coordinator_pending_decide(c, &job->decision, &error) != BASE_OK) {
        coordinator_fail(c, error.status, "%s", error.text);
        return;
    }
    job_enter(c, CLUSTER_PHASE_COMMIT);
    job->recorded = true; /* from here on the decision may be on disk: nobody may throw parts away */
}

static void enter_measure(struct cluster_coordinator *c)
{
    BASE_ASSERT(c->run->bisect);
    coordinator_bisect_next(c->run);
    job_enter(c, CLUSTER_PHASE_MEASURE);
}

/* All nodes have answered: what comes next. */
static void job_proceed(struct cluster_coordinator *c)
{
    struct coordinator_job *job = c->run;
    struct base_error error = {0};
    switch (job->phase.now) {
    case CLUSTER_PHASE_RESOLVE:
        if (coordinator_plan(c, job, &error) == BASE_OK)
            job_enter(c, CLUSTER_PHASE_PREPARE);
        else
            coordinator_fail(c, error.status, "%s", error.text);
        break;
    case CLUSTER_PHASE_PREPARE:
        job_enter(c, job->survey[0] || job->survey[1] ? CLUSTER_PHASE_SURVEY : CLUSTER_PHASE_CONNECT);
        break;
    case CLUSTER_PHASE_SURVEY:
        if (coordinator_survey_apply(job, &error) == BASE_OK)
            job_enter(c, CLUSTER_PHASE_CONNECT);
        else
            coordinator_fail(c, error.status, "%s", error.text);
        break;
    case CLUSTER_PHASE_CONNECT:
        if (job->bisect)
            enter_measure(c);
        else
            job_enter(c, CLUSTER_PHASE_BUILD);
        break;
    case CLUSTER_PHASE_MEASURE:
        if (coordinator_bisect_last(job)) {
            job_enter(c, CLUSTER_PHASE_RELEASE);
            break;
        }
        coordinator_bisect_end(c, job);
        enter_measure(c);
        break;
    case CLUSTER_PHASE_BUILD:
    case CLUSTER_PHASE_PROBE:
        if (!coordinator_reject_few(c))
            break;
        if (job->phase.now == CLUSTER_PHASE_BUILD && job->plan.join.sides == 2)
            job_enter(c, CLUSTER_PHASE_PROBE);
        else if (!coordinator_rows_complete(c))
            break;
        else if (job->plan.join.out)
            enter_stage(c);
        else
            job_enter(c, CLUSTER_PHASE_RELEASE);
        break;
    case CLUSTER_PHASE_STAGE:
        enter_commit(c);
        break;
    case CLUSTER_PHASE_RELEASE:
    case CLUSTER_PHASE_ABORT:
        coordinator_end_if_closed(c);
        break;
    default: /* nobody's answer is waited for in the others */
        BASE_ASSERT(false);
    }
}

static void job_answered(struct cluster_coordinator *c, struct run_node *node)
{
    struct coordinator_job *job = c->run;
    BASE_ASSERT(!node->lost && node >= job->node && node < job->node + job->node_count);
    node->answered = true;
    for (uint32_t i = 0; i < job->node_count; i++)
        if (!job->node[i].answered && !job->node[i].lost)
            return;
    job_proceed(c);
}

/* ---- messages of nodes ---- */

static void on_resolved(struct cluster_coordinator *c, struct run_node *node, struct cluster_resolved *resolved)
{
    if (resolved->relation_count != c->run->submit.source_count) {
        coordinator_fail(c, BASE_PROTOCOL, "node %s resolved %u sources of %u", node->node->hello.name,
                         resolved->relation_count, c->run->submit.source_count);
        return;
    }
    for (uint32_t i = 0; i < resolved->relation_count; i++) {
        node->relation[i] = resolved->relation[i];
        memset(&resolved->relation[i], 0, sizeof resolved->relation[i]);
    }
    node->card = resolved->card;
    job_answered(c, node);
}

static void on_surveyed(struct cluster_coordinator *c, struct run_node *node, const struct cluster_surveyed *surveyed)
{
    struct base_error error;
    if (coordinator_survey_keep(c->run, surveyed, &error) == BASE_OK)
        job_answered(c, node);
    else
        coordinator_fail(c, error.status, "node %s: %s", node->node->hello.name, error.text);
}

static void on_finished(struct cluster_coordinator *c, struct run_node *node, struct cluster_step *step)
{
    if (!step->has_report || step->node_count != c->run->node_count) {
        coordinator_fail(c, BASE_PROTOCOL, "node %s finished without a report", node->node->hello.name);
        return;
    }
    coordinator_reject_keep(node, step);
    BASE_ASSERT(!node->report.has_report); /* it is told once */
    node->report = *step;
    memset(step, 0, sizeof *step);
    node->progress_rows = node->report.report.sum.task.rows_scanned;
    job_answered(c, node);
}

static void on_step(struct cluster_coordinator *c, struct run_node *node, struct cluster_step *step)
{
    const struct coordinator_job *job = c->run;
    const bool last = job->phase.now == CLUSTER_PHASE_PROBE ||
                      (job->phase.now == CLUSTER_PHASE_BUILD && job->plan.join.sides == 1) ||
                      (job->phase.now == CLUSTER_PHASE_MEASURE && coordinator_bisect_last(job));
    if (step->step == CLUSTER_STEP_HALTED && job->fault.status != BASE_OK && !node->halted)
        coordinator_fault_halted(c, node);
    else if (last && step->step == CLUSTER_STEP_FINISHED)
        on_finished(c, node, step);
    else if ((job->phase.now == CLUSTER_PHASE_PREPARE && step->step == CLUSTER_STEP_OPENED) ||
             (job->phase.now == CLUSTER_PHASE_CONNECT && step->step == CLUSTER_STEP_CONNECTED)) {
        job_answered(c, node);
    } else if (job->phase.now == CLUSTER_PHASE_BUILD && !last && step->step == CLUSTER_STEP_SEALED) {
        coordinator_reject_keep(node, step);
        job_answered(c, node);
    } else
        coordinator_fail(c, BASE_PROTOCOL, "node %s reached step %d while %s", node->node->hello.name, step->step,
                         cluster_phase_words(job->phase.now));
}

/* A job that did not finish on this node: what it came to all the same. */
static void job_on_closed(struct cluster_coordinator *c, struct run_node *node, struct cluster_step *step)
{
    const struct coordinator_job *job = c->run;
    if (job->phase.now != CLUSTER_PHASE_ABORT && job->phase.now != CLUSTER_PHASE_RELEASE) {
        coordinator_fail(c, BASE_PROTOCOL, "node %s released its job while %s", node->node->hello.name,
                         cluster_phase_words(job->phase.now));
        return;
    }
    coordinator_reject_keep(node, step);
    if (step->has_report && step->node_count == job->node_count && !node->report.has_report) {
        node->report = *step;
        memset(step, 0, sizeof *step);
    }
    job_answered(c, node);
}

static void on_measured(struct cluster_coordinator *c, struct run_node *node, const struct cluster_measured *measured)
{
    struct base_error error;
    if (coordinator_bisect_measured(c->run, (uint32_t)(node - c->run->node), measured, &error) == BASE_OK)
        job_answered(c, node);
    else
        coordinator_fail(c, error.status, "node %s: %s", node->node->hello.name, error.text);
}

static void on_low(struct cluster_coordinator *c, struct run_node *node, uint32_t side)
{
    struct coordinator_job *job = c->run;
    if ((job->phase.now != CLUSTER_PHASE_BUILD && job->phase.now != CLUSTER_PHASE_PROBE) ||
        side >= job->plan.join.sides || node->ended[side] || job->fault.status != BASE_OK)
        return; /* it crossed our last group, or the side's pass has not begun; or no more is to be scanned */
    coordinator_lend(job, (uint32_t)(node - job->node), side, 1,
                     &coordinator_send(c, node->peer, CLUSTER_MESSAGE_LEND, job->id)->lend);
}

static void job_on_failed(struct cluster_coordinator *c, struct run_node *node, const struct base_error *error)
{
    /* What a source cannot be is what the request declares. */
    if (c->run->phase.now == CLUSTER_PHASE_RESOLVE && error->status == BASE_TYPE)
        c->run->bad_request = true;
    coordinator_fail(c, coordinator_node_reason(error->status), "node %s: %s", node->node->hello.name, error->text);
}

static struct run_node *find_member(const struct cluster_coordinator *c, const struct coordinator_node *node)
{
    for (uint32_t i = 0; c->run && i < c->run->node_count; i++)
        if (c->run->node[i].node == node && !c->run->node[i].lost)
            return &c->run->node[i];
    return NULL;
}

/* The decision of the running job may have been carried out by all. */
static void look_at_decision(struct cluster_coordinator *c, uint64_t id)
{
    struct coordinator_job *job = c->run;
    if (!job || job->id != id || job->phase.now != CLUSTER_PHASE_COMMIT || coordinator_pending_has(c, id))
        return;
    BASE_ASSERT(job->recorded && !job->committed);
    job->committed = true;
    job_enter(c, CLUSTER_PHASE_RELEASE);
}

void coordinator_job_message(struct cluster_coordinator *c, struct coordinator_node *node,
                             struct cluster_message *message)
{
    struct run_node *member = find_member(c, node);
    if ((message->kind == CLUSTER_MESSAGE_COMMITTED || message->kind == CLUSTER_MESSAGE_PUBLISHED ||
         message->kind == CLUSTER_MESSAGE_FAILED) &&
        coordinator_pending_message(c, node, message)) {
        look_at_decision(c, message->job);
        return;
    }
    if (!member || c->run->id != message->job)
        return; /* of an earlier job */
    struct coordinator_job *job = c->run;
    if (message->kind == CLUSTER_MESSAGE_CLOSED) {
        job_on_closed(c, member, &message->step);
        return;
    }
    if (message->kind == CLUSTER_MESSAGE_FAILED) {
        job_on_failed(c, member, &message->failed.error);
        return;
    }
    if (message->kind == CLUSTER_MESSAGE_BROKEN) {
        if (job->phase.now != CLUSTER_PHASE_STAGE && job->phase.now != CLUSTER_PHASE_COMMIT &&
            job->phase.now != CLUSTER_PHASE_RELEASE) /* all rows have arrived */
            job_on_failed(c, member, &message->broken.error);
        return;
    }
    if (job->phase.now == CLUSTER_PHASE_ABORT)
        return; /* sent before the node heard of it */
    if (message->kind == CLUSTER_MESSAGE_NODE_PROGRESS) {
        member->progress_rows = message->node_progress.rows;
        coordinator_progress_send(c, job);
    } else if (message->kind == CLUSTER_MESSAGE_FAULT) {
        coordinator_fault(c, member, &message->fault);
    } else if (message->kind == CLUSTER_MESSAGE_LOW) {
        on_low(c, member, message->low.side);
    } else if (member->answered) {
        coordinator_fail(c, BASE_PROTOCOL, "node %s answered twice while %s", node->hello.name,
                         cluster_phase_words(job->phase.now));
    } else if (message->kind == CLUSTER_MESSAGE_RESOLVED && job->phase.now == CLUSTER_PHASE_RESOLVE) {
        on_resolved(c, member, &message->resolved);
    } else if (message->kind == CLUSTER_MESSAGE_SURVEYED && job->phase.now == CLUSTER_PHASE_SURVEY) {
        on_surveyed(c, member, &message->surveyed);
    } else if (message->kind == CLUSTER_MESSAGE_MEASURED && job->phase.now == CLUSTER_PHASE_MEASURE) {
        on_measured(c, member, &message->measured);
    } else if (message->kind == CLUSTER_MESSAGE_STAGED && job->phase.now == CLUSTER_PHASE_STAGE) {
        job_answered(c, member);
    } else if (message->kind == CLUSTER_MESSAGE_STEP) {
        on_step(c, member, &message->step);
    } else {
        coordinator_fail(c, BASE_PROTOCOL, "node %s sent %s while %s", node->hello.name,
                         cluster_message_name(message->kind), cluster_phase_words(job->phase.now));
    }
}

bool coordinator_job_unsent(struct cluster_coordinator *c, struct coordinator_node *node, uint64_t id,
                            enum cluster_message_kind kind, const struct base_error *error)
{
    const struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = id, .failed = {.error = *error}};
    if (kind == CLUSTER_MESSAGE_COMMIT || kind == CLUSTER_MESSAGE_PUBLISH)
        return coordinator_pending_message(c, node, &failed);
    if (kind == CLUSTER_MESSAGE_RELEASE || !find_member(c, node) || c->run->id != id)
        return false;
    coordinator_fail(c, error->status, "%s", error->text);
    return true;
}

void coordinator_job_node_lost(struct cluster_coordinator *c, struct coordinator_node *node, const char *how)
{
    struct run_node *member = find_member(c, node);
    if (!member)
        return;
    struct coordinator_job *job = c->run;
    BASE_ASSERT(!member->lost && node->peer == 0);
    member->lost = true;
    if (job->phase.now == CLUSTER_PHASE_RELEASE) { /* its work was done */
        coordinator_end_if_closed(c);
        return;
    }
    const char *name = node->hello.name;
    /* Its neighbours may have felt it first: people want to know what it was doing then. */
    const enum cluster_phase phase = job->phase.now == CLUSTER_PHASE_ABORT ? job->failed_phase : job->phase.now;
    if (c->now_ns < job->pause_until_ns && !job->recorded)
        coordinator_fail(c, BASE_NODE_LOST,
                         "the coordinator stood still for %.1f s (was it stopped, or did its machine give it no CPU?), "
                         "and the nodes gave the job up: nothing is wrong with them, run it again",
                         (double)job->pause_ns / 1e9);
    else if (job->recorded)
        coordinator_fail(c, BASE_NODE_LOST,
                         "node %s was lost while committing (%s); the job's result is decided and is completed in %s "
                         "when the node is back",
                         name, how, job->submit.out);
    else
        coordinator_fail(c, BASE_NODE_LOST, "node %s was lost while %s: %s", name, cluster_phase_words(phase), how);
    if (c->run == job && job->phase.now == CLUSTER_PHASE_ABORT)
        coordinator_end_if_closed(c);
}

void coordinator_begin(struct cluster_coordinator *c)
{
    BASE_ASSERT(c->run->phase.now == CLUSTER_PHASE_QUEUED && c->run->node_count > 0);
    c->run->live = coordinator_pending_jobs(c, &c->run->live_count);
    if (!c->run->live) {
        coordinator_fail(c, BASE_NO_MEMORY, "no memory for a job");
        return;
    }
    job_enter(c, CLUSTER_PHASE_RESOLVE);
}
