/* What is told about jobs and nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"
#include "cluster/coordinator/limit.h"

static double report_seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

/* "join shared:a.csv shared:b.csv on id=id", "left join ..." */
static void job_words(const struct cluster_submit *submit, char *text, size_t text_bytes)
{
    const bool join = submit->kind == CLUSTER_KIND_JOIN;
    if (submit->kind == CLUSTER_KIND_BISECT) {
        snprintf(text, text_bytes, "bisect");
        return;
    }
    const bool inner = !join || submit->type == JOIN_TYPE_INNER;
    snprintf(text, text_bytes, "%s%s%s %.80s%s%.80s %s %.60s", inner ? "" : join_type_word(submit->type),
             inner ? "" : " ", join ? "join" : "shuffle", submit->source[0].text ? submit->source[0].text : "",
             join ? " " : "", join && submit->source[1].text ? submit->source[1].text : "", join ? "on" : "by",
             submit->on ? submit->on : "");
}

/* ---- a job's report ---- */

double *coordinator_phase_span(struct cluster_spans *spans, enum cluster_phase phase)
{
    switch (phase) {
    case CLUSTER_PHASE_QUEUED:
        return &spans->queued_seconds;
    case CLUSTER_PHASE_RESOLVE:
        return &spans->resolve_seconds;
    case CLUSTER_PHASE_PREPARE:
        return &spans->prepare_seconds;
    case CLUSTER_PHASE_SURVEY:
        return &spans->survey_seconds;
    case CLUSTER_PHASE_CONNECT:
        return &spans->connect_seconds;
    case CLUSTER_PHASE_BUILD:
    case CLUSTER_PHASE_MEASURE: /* the steps of a measurement are its only pass */
        return &spans->build_seconds;
    case CLUSTER_PHASE_PROBE:
        return &spans->probe_seconds;
    case CLUSTER_PHASE_STAGE:
    case CLUSTER_PHASE_COMMIT:
        return &spans->commit_seconds;
    default:
        return &spans->release_seconds;
    }
}

static char *text_of(const char *text)
{
    return strdup(text ? text : "");
}

static bool fill_node(struct cluster_node_report *out, const struct run_node *node)
{
    const struct cluster_work *report = &node->report.report;
    out->name = strdup(node->node->hello.name);
    out->workers = node->node->hello.worker_count;
    out->memory_bytes = node->node->hello.memory_bytes;
    out->engine_decision = text_of(node->report.engine_decision);
    if (!node->report.has_report)
        return out->name && out->engine_decision;
    out->sum = report->sum;
    out->facts = report->facts;
    return out->name && out->engine_decision;
}

/* Engine of the first node that says one: nodes may differ, then the reason of the one that fell back is worth more. */
static bool fill_engine(struct cluster_report *report, const struct coordinator_job *job)
{
    const struct cluster_step *said = NULL;
    for (uint32_t i = 0; i < job->node_count; i++) {
        const struct cluster_step *step = &job->node[i].report;
        if (step->engine && (!said || (step->engine_reason && step->engine_reason[0] && !said->engine_reason[0])))
            said = step;
    }
    report->engine = text_of(said ? said->engine : NULL);
    report->features = text_of(said ? said->features : NULL);
    report->engine_reason = text_of(said ? said->engine_reason : NULL);
    return report->engine && report->features && report->engine_reason;
}

/* Everything in the report is owned by it. */
static bool fill_report(const struct cluster_coordinator *c, const struct coordinator_job *job,
                        struct cluster_report *report)
{
    report->error = job->error;
    report->bad_request = job->bad_request;
    report->kind = job->submit.kind;
    report->type = job->submit.type;
    report->build_side = job->planned ? job->plan.join.build : 0;
    report->seconds = report_seconds(job->started_ns, c->now_ns);
    report->spans = job->spans;
    if (job->phase.now == CLUSTER_PHASE_RELEASE || job->phase.now == CLUSTER_PHASE_ABORT) /* told before all let go */
        report->spans.release_seconds += report_seconds(job->phase_since_ns, c->now_ns);
    report->verified = job->planned && job->plan.job.settings.verify;
    char words[256] = "";
    if (job->node_count > 0) {
        report->node = calloc(job->node_count, sizeof *report->node);
        report->link = calloc((size_t)job->node_count * job->node_count, sizeof *report->link);
        if (!report->node || !report->link)
            return false;
        report->node_count = job->node_count;
    }
    bool whole = job->error.status == BASE_OK && job->node_count > 0 && job->submit.kind != CLUSTER_KIND_BISECT;
    for (uint32_t i = 0; i < report->node_count; i++) {
        if (!fill_node(&report->node[i], &job->node[i]))
            return false;
        cluster_measures_add_node(&report->sum, &report->node[i].sum);
        report->workers += report->node[i].workers;
        whole &= job->node[i].report.has_report;
        BASE_ASSERT(job->node[i].report.node_count <= report->node_count);
        for (uint32_t to = 0; to < job->node[i].report.node_count; to++)
            report->link[i * report->node_count + to] = job->node[i].report.sent_bytes[to];
    }
    report->limit = whole ? cluster_limit_find(report, words, sizeof words) : CLUSTER_LIMIT_NONE;
    report->limit_words = text_of(words);
    return report->limit_words && coordinator_reject_report(job, report) && fill_engine(report, job);
}

void coordinator_report_send(struct cluster_coordinator *c, struct coordinator_job *job)
{
    if (!job->client)
        return;
    BASE_ASSERT(job->phase.now != CLUSTER_PHASE_ABORT ||
                job->error.status != BASE_OK); /* no abort is told as a success */
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, job->client);
    action->message.kind = CLUSTER_MESSAGE_REPORT;
    action->message.job = job->id;
    action->owned = true;
    if (!fill_report(c, job, &action->message.report))
        c->broken = true;
}

static uint64_t rows_expected(const struct join_plan *plan)
{
    uint64_t rows = 0;
    for (uint32_t side = 0; side < plan->sides; side++)
        rows += join_plan_relation_rows(&plan->side[side].relation);
    return rows;
}

void coordinator_progress_send(struct cluster_coordinator *c, struct coordinator_job *job)
{
    if (!job->client || !job->submit.progress || !job->planned ||
        c->now_ns < job->progress_ns + COORDINATOR_PROGRESS_NS)
        return;
    job->progress_ns = c->now_ns;
    struct cluster_progress *progress = &coordinator_send(c, job->client, CLUSTER_MESSAGE_PROGRESS, job->id)->progress;
    progress->phase = job->phase.now;
    for (uint32_t i = 0; i < job->node_count; i++)
        progress->rows_scanned += job->node[i].progress_rows;
    progress->rows_expected = rows_expected(&job->plan.join);
    progress->seconds = report_seconds(job->started_ns, c->now_ns);
}

/* ---- lists ---- */

void coordinator_remember(struct cluster_coordinator *c, const struct coordinator_job *job)
{
    struct coordinator_entry *entry = &c->history[c->history_count++ % COORDINATOR_HISTORY_MAX];
    memset(entry, 0, sizeof *entry);
    entry->job = job->id;
    entry->kind = job->submit.kind;
    entry->state = job->error.status == BASE_OK          ? CLUSTER_JOB_SUCCEEDED
                   : job->error.status == BASE_CANCELLED ? CLUSTER_JOB_CANCELLED
                                                         : CLUSTER_JOB_FAILED;
    job_words(&job->submit, entry->words, sizeof entry->words);
    snprintf(entry->error, sizeof entry->error, "%.255s", job->error.text);
    for (uint32_t i = 0; i < job->node_count && job->error.status == BASE_OK; i++)
        entry->rows += job->node[i].report.report.sum.task.rows;
    entry->since_ns = job->started_ns;
    entry->until_ns = c->now_ns;
}

static bool node_runs(const struct cluster_coordinator *c, const struct coordinator_node *node)
{
    for (uint32_t i = 0; c->run && i < c->run->node_count; i++)
        if (c->run->node[i].node == node && !c->run->node[i].lost)
            return true;
    return false;
}

static bool fill_node_entry(const struct cluster_coordinator *c, const struct coordinator_node *node,
                            struct cluster_node_entry *entry)
{
    char address[64] = "";
    if (node->hello.worker_count)
        net_address_format(&node->hello.worker[0], address);
    entry->name = strdup(node->hello.name);
    entry->state = !node->peer ? CLUSTER_NODE_MISSING : node_runs(c, node) ? CLUSTER_NODE_RUNNING : CLUSTER_NODE_IDLE;
    entry->address = strdup(address);
    entry->workers = node->hello.worker_count;
    entry->memory_bytes = node->hello.memory_bytes;
    entry->pid = node->hello.pid;
    entry->engine = text_of(node->hello.engine);
    entry->features = text_of(node->hello.features);
    entry->engine_reason = text_of(node->hello.engine_reason);
    entry->placement = text_of(node->hello.placement);
    entry->build = text_of(node->hello.build);
    entry->seconds = report_seconds(node->heard_ns, c->now_ns);
    return entry->name && entry->address && entry->engine && entry->features && entry->engine_reason &&
           entry->placement && entry->build;
}

void coordinator_nodes_send(struct cluster_coordinator *c, uint64_t peer)
{
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, peer);
    action->message.kind = CLUSTER_MESSAGE_NODES;
    action->owned = true;
    struct cluster_nodes *nodes = &action->message.nodes;
    nodes->nodes_expected = c->config.nodes_expected;
    if (!c->node_count)
        return;
    nodes->entry = calloc(c->node_count, sizeof *nodes->entry);
    if (!nodes->entry) {
        c->broken = true;
        return;
    }
    nodes->count = c->node_count;
    for (uint32_t i = 0; i < c->node_count; i++)
        if (!fill_node_entry(c, c->node[i], &nodes->entry[i]))
            c->broken = true;
}

static void entry_of_job(const struct cluster_coordinator *c, const struct coordinator_job *job,
                         struct cluster_job_entry *entry)
{
    char words[192];
    job_words(&job->submit, words, sizeof words);
    entry->job = job->id;
    entry->kind = job->submit.kind;
    entry->state = job == c->run ? CLUSTER_JOB_RUNNING : CLUSTER_JOB_QUEUED;
    entry->phase = job->phase.now;
    entry->words = strdup(words);
    entry->error = text_of(job->error.text);
    entry->seconds = report_seconds(job == c->run ? job->started_ns : job->submitted_ns, c->now_ns);
}

void coordinator_jobs_send(struct cluster_coordinator *c, uint64_t peer)
{
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, peer);
    action->message.kind = CLUSTER_MESSAGE_JOBS;
    action->owned = true;
    struct cluster_jobs *jobs = &action->message.jobs;
    const uint64_t kept = base_min_u64(c->history_count, COORDINATOR_HISTORY_MAX);
    jobs->entry = calloc(kept + c->queue_count + 1, sizeof *jobs->entry);
    if (!jobs->entry) {
        c->broken = true;
        return;
    }
    for (uint64_t i = c->history_count - kept; i < c->history_count; i++) {
        const struct coordinator_entry *from = &c->history[i % COORDINATOR_HISTORY_MAX];
        jobs->entry[jobs->count++] =
            (struct cluster_job_entry){.job = from->job,
                                       .kind = from->kind,
                                       .state = from->state,
                                       .phase = CLUSTER_PHASE_DONE,
                                       .words = text_of(from->words),
                                       .error = text_of(from->error),
                                       .rows = from->rows,
                                       .seconds = report_seconds(from->since_ns, from->until_ns)};
    }
    if (c->run)
        entry_of_job(c, c->run, &jobs->entry[jobs->count++]);
    for (const struct coordinator_job *job = c->queue; job; job = job->next)
        entry_of_job(c, job, &jobs->entry[jobs->count++]);
    for (uint32_t i = 0; i < jobs->count; i++)
        if (!jobs->entry[i].words || !jobs->entry[i].error)
            c->broken = true;
}
