/* Jobs that wait, and what must hold before one begins: nodes are here, its words make sense. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

/* False: there is none. */
static bool queue_take_number(struct cluster_coordinator *c, uint64_t *job)
{
    if (c->job_next == c->job_end && c->job_block) {
        c->job_next = c->job_block;
        c->job_end = c->job_block + CLUSTER_JOBS_PER_BLOCK;
        c->job_block = 0;
    }
    if (c->job_next == c->job_end)
        return false;
    *job = c->job_next++;
    BASE_ASSERT(*job > 0 && c->job_next <= c->job_end);
    return true;
}

void coordinator_submit(struct cluster_coordinator *c, uint64_t client, struct cluster_submit *submit)
{
    BASE_ASSERT(client != 0 && submit->source_count <= 2);
    uint64_t id;
    if (!queue_take_number(c, &id)) {
        base_error_set(&coordinator_send(c, client, CLUSTER_MESSAGE_REFUSED, 0)->refused.error, BASE_NO_SPACE,
                       "the coordinator has no job numbers left: it cannot write to its state folder, as its log says");
        return;
    }
    struct coordinator_job *job = calloc(1, sizeof *job);
    if (!job) {
        c->broken = true;
        return;
    }
    base_state_begin(&job->phase, &coordinator_phase_machine, CLUSTER_PHASE_QUEUED);
    job->id = id;
    job->client = client;
    job->submit = *submit; /* taken over */
    memset(submit, 0, sizeof *submit);
    job->submitted_ns = job->started_ns = job->phase_since_ns = c->now_ns;
    coordinator_send(c, client, CLUSTER_MESSAGE_ACCEPTED, job->id);
    if (c->stopping || c->queue_count >= COORDINATOR_QUEUE_MAX) {
        if (c->stopping)
            base_error_set(&job->error, BASE_CANCELLED, "the coordinator is being stopped");
        else
            base_error_set(&job->error, BASE_BUSY, "the queue is full: %d jobs wait; try again when some have ended",
                           COORDINATOR_QUEUE_MAX);
        coordinator_report_send(c, job);
        coordinator_remember(c, job);
        coordinator_job_free(job);
        return;
    }
    struct coordinator_job **at = &c->queue;
    while (*at)
        at = &(*at)->next;
    *at = job;
    c->queue_count++;
}

static void queue_unqueue(struct cluster_coordinator *c, struct coordinator_job *job)
{
    BASE_ASSERT(c->queue_count > 0 && job != c->run);
    struct coordinator_job **at = &c->queue;
    while (*at && *at != job)
        at = &(*at)->next;
    BASE_ASSERT(*at);
    *at = job->next;
    job->next = NULL;
    c->queue_count--;
}

void coordinator_cancel(struct cluster_coordinator *c, struct coordinator_job *job, enum base_status status,
                        const char *text)
{
    BASE_ASSERT(base_status_is_failure(status));
    if (job == c->run) {
        if (!job->recorded)
            coordinator_fail(c, status, "%s", text);
        return;
    }
    queue_unqueue(c, job);
    base_error_set(&job->error, status, "%s", text);
    coordinator_report_send(c, job);
    coordinator_remember(c, job);
    coordinator_job_free(job);
}

void coordinator_client_gone(struct cluster_coordinator *c, uint64_t client)
{
    struct coordinator_job *next;
    for (struct coordinator_job *job = c->queue; job; job = next) {
        next = job->next;
        if (job->client != client)
            continue;
        job->client = 0;
        coordinator_cancel(c, job, BASE_CANCELLED, "its client disconnected");
    }
    if (c->run && c->run->client == client) {
        c->run->client = 0;
        coordinator_cancel(c, c->run, BASE_CANCELLED, "its client disconnected");
    }
}

/* "n3, n4", of the nodes that were here before. */
static void name_missing(const struct cluster_coordinator *c, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = 0;
    for (uint32_t i = 0; i < c->node_count && used + CLUSTER_NAME_BYTES_MAX + 3 < bytes; i++)
        if (!c->node[i]->peer)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", c->node[i]->hello.name);
}

static enum base_status queue_check_nodes(const struct cluster_coordinator *c, struct base_error *error)
{
    const uint32_t here = coordinator_nodes_here(c), expected = c->config.nodes_expected;
    if (here > 0 && here >= expected)
        return BASE_OK;
    char missing[512];
    name_missing(c, missing, sizeof missing);
    if (missing[0])
        return base_error_set(error, BASE_NODE_MISSING,
                              "the cluster is incomplete: %s missing (%u of %u nodes are connected)", missing, here,
                              base_max_u64(expected, 1) > here ? (uint32_t)base_max_u64(expected, 1) : here);
    if (expected == 0)
        return base_error_set(error, BASE_NODE_MISSING, "the cluster has no nodes yet: start millraced node");
    return base_error_set(error, BASE_NODE_MISSING, "the cluster is incomplete: only %u of %u nodes have connected",
                          here, expected);
}

static enum base_status take_nodes(struct cluster_coordinator *c, struct coordinator_job *job, struct base_error *error)
{
    BASE_ASSERT(!job->node && coordinator_nodes_here(c) > 0);
    job->node = calloc(coordinator_nodes_here(c), sizeof *job->node);
    if (!job->node)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    for (uint32_t i = 0; i < c->node_count; i++)
        if (c->node[i]->peer)
            job->node[job->node_count++] = (struct run_node){.node = c->node[i], .peer = c->node[i]->peer};
    BASE_ASSERT(job->node_count == coordinator_nodes_here(c));
    return BASE_OK;
}

/* Words that no node need look at to see that they are wrong. */
static enum base_status queue_check_source(const struct cluster_source *source, struct base_error *error)
{
    struct shuffle_relation relation;
    memset(&relation, 0, sizeof relation);
    char *path = NULL;
    enum base_status status = shuffle_relation_parse(source->text, &relation, &path, error);
    if (status != BASE_OK)
        return status;
    free(path);
    shuffle_relation_free(&relation);
    if (!source->schema)
        return BASE_OK;
    struct shuffle_schema schema = {0};
    status = shuffle_schema_parse(source->schema, &schema, error);
    if (status == BASE_OK)
        shuffle_schema_free(&schema);
    return status;
}

/* A decision to publish is kept as JSON, whose texts are UTF-8: better said now than when the work is done. */
static enum base_status check_out(const char *out, struct base_error *error)
{
    json_t *text = json_string(out);
    if (!text)
        return base_error_set(error, BASE_INVALID, "--out: the directory's name must be UTF-8");
    json_decref(text);
    return BASE_OK;
}

static enum base_status check_request(struct coordinator_job *job, struct base_error *error)
{
    if (job->submit.out && check_out(job->submit.out, error) != BASE_OK) {
        job->bad_request = true;
        return BASE_INVALID;
    }
    for (uint32_t i = 0; i < job->submit.source_count; i++) {
        const enum base_status status = queue_check_source(&job->submit.source[i], error);
        if (status != BASE_OK) {
            job->bad_request = true;
            return status;
        }
    }
    return BASE_OK;
}

void coordinator_next(struct cluster_coordinator *c)
{
    while (!c->run && c->queue && !c->broken) {
        struct coordinator_job *job = c->queue;
        queue_unqueue(c, job);
        BASE_ASSERT(job->phase.now == CLUSTER_PHASE_QUEUED && !job->recorded);
        c->run = job;
        job->started_ns = c->now_ns;
        struct base_error error = {0};
        enum base_status status = queue_check_nodes(c, &error);
        if (status == BASE_OK)
            status = check_request(job, &error);
        if (status == BASE_OK)
            status = take_nodes(c, job, &error);
        if (status == BASE_OK)
            coordinator_begin(c);
        else
            coordinator_fail(c, status, "%s", error.text); /* no node was told: ends at once */
    }
}
