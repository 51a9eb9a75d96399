/* Decisions to publish, and who has not carried them out.
 *
 * Two steps with presumed abort: a job's parts are durable under attempt names before its decision is recorded; once
 * recorded it stands. Every node of the job is told COMMIT (rename the parts) until it says COMMITTED, across its
 * restarts and ours; when all have, every node is told PUBLISH (write _SUCCESS.json) until it says PUBLISHED; then the
 * decision is forgotten. Both orders may be repeated harmlessly. A node that has durable parts but heard no decision
 * asks with its hello; no decision means abort. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/coordinator_internal.h"

void cluster_decision_free(struct cluster_decision *decision)
{
    free(decision->out);
    free(decision->extension);
    free(decision->text);
    free(decision->node);
    memset(decision, 0, sizeof *decision);
}

enum base_status cluster_decision_copy(const struct cluster_decision *from, struct cluster_decision *to,
                                       struct base_error *error)
{
    struct cluster_decision copy = {.job = from->job, .node_count = from->node_count};
    copy.out = strdup(from->out);
    copy.extension = strdup(from->extension);
    copy.text = strdup(from->text);
    copy.node = calloc(from->node_count, sizeof *copy.node);
    if (!copy.out || !copy.extension || !copy.text || !copy.node) {
        cluster_decision_free(&copy);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    }
    memcpy(copy.node, from->node, from->node_count * sizeof *copy.node);
    *to = copy;
    return BASE_OK;
}

void coordinator_pending_free(struct coordinator_pending *pending)
{
    cluster_decision_free(&pending->decision);
    free(pending->committed);
    free(pending->published);
    free(pending);
}

static bool all_of(const bool *flags, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!flags[i])
            return false;
    return true;
}

/* What node i of the decision has to be told next, if it is here. */
static void pending_tell(struct cluster_coordinator *c, const struct coordinator_pending *pending, uint32_t i,
                         uint64_t peer)
{
    const struct cluster_decision *decision = &pending->decision;
    if (!pending->committed[i]) {
        struct cluster_commit *commit = &coordinator_send(c, peer, CLUSTER_MESSAGE_COMMIT, decision->job)->commit;
        commit->out = decision->out;
        commit->extension = decision->extension;
        commit->first = decision->node[i].first;
        commit->count = decision->node[i].count;
    } else if (!pending->published[i] && all_of(pending->committed, decision->node_count)) {
        struct cluster_publish *publish = &coordinator_send(c, peer, CLUSTER_MESSAGE_PUBLISH, decision->job)->publish;
        publish->out = decision->out;
        publish->text = decision->text;
    }
}

static int pending_index(const struct coordinator_pending *pending, const char *name)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (strcmp(pending->decision.node[i].name, name) == 0)
            return (int)i;
    return -1;
}

void coordinator_pending_node(struct cluster_coordinator *c, struct coordinator_node *node)
{
    bool decided = false;
    for (struct coordinator_pending *pending = c->pending; pending; pending = pending->next) {
        const int i = pending_index(pending, node->hello.name);
        if (i < 0)
            continue;
        decided |= pending->decision.job == node->hello.job_in_doubt;
        pending_tell(c, pending, (uint32_t)i, node->peer);
    }
    if (node->hello.job_in_doubt && !decided)
        coordinator_send(c, node->peer, CLUSTER_MESSAGE_RELEASE, node->hello.job_in_doubt)->release.abort = true;
}

static void pending_tell_all(struct cluster_coordinator *c, const struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < c->node_count; i++) {
        const int at = pending_index(pending, c->node[i]->hello.name);
        if (at >= 0 && c->node[i]->peer)
            pending_tell(c, pending, (uint32_t)at, c->node[i]->peer);
    }
}

enum base_status coordinator_pending_add(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                         struct base_error *error)
{
    struct coordinator_pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    enum base_status status = cluster_decision_copy(decision, &pending->decision, error);
    if (status == BASE_OK) {
        pending->committed = calloc(decision->node_count, sizeof *pending->committed);
        pending->published = calloc(decision->node_count, sizeof *pending->published);
        if (!pending->committed || !pending->published)
            status = base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    }
    if (status != BASE_OK) {
        coordinator_pending_free(pending);
        return status;
    }
    pending->next = c->pending;
    c->pending = pending;
    pending_tell_all(c, pending);
    return BASE_OK;
}

bool coordinator_pending_waits(const struct cluster_coordinator *c, uint64_t job, const struct coordinator_node *node)
{
    const struct coordinator_pending *pending = c->pending;
    while (pending && pending->decision.job != job)
        pending = pending->next;
    const int i = pending ? pending_index(pending, node->hello.name) : -1;
    if (i < 0)
        return false;
    return !pending->committed[i] ||
           (!pending->published[i] && all_of(pending->committed, pending->decision.node_count));
}

static void pending_drop(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    struct coordinator_pending **at = &c->pending;
    while (*at != pending)
        at = &(*at)->next;
    *at = pending->next;
    coordinator_act(c, CLUSTER_ACTION_FORGET, 0)->job = pending->decision.job;
    coordinator_pending_free(pending);
}

bool coordinator_pending_message(struct cluster_coordinator *c, struct coordinator_node *node,
                                 const struct cluster_message *message)
{
    struct coordinator_pending *pending = c->pending;
    while (pending && pending->decision.job != message->job)
        pending = pending->next;
    const int i = pending ? pending_index(pending, node->hello.name) : -1;
    if (i < 0)
        return false;
    if (message->kind == CLUSTER_MESSAGE_FAILED) {
        base_log_error("node %s cannot publish its share of job %llu: %s", node->hello.name,
                       (unsigned long long)message->job, message->failed.error.text);
        /* Somebody removed the directory: there is nothing left to complete. Anything else is tried again when the node
         * reconnects. */
        if (message->failed.error.status == BASE_NOT_FOUND)
            pending_drop(c, pending);
        return true;
    }
    const bool was_committed = all_of(pending->committed, pending->decision.node_count);
    pending->committed[i] = true;
    if (message->kind == CLUSTER_MESSAGE_PUBLISHED)
        pending->published[i] = true;
    if (!was_committed && all_of(pending->committed, pending->decision.node_count))
        pending_tell_all(c, pending);
    else if (all_of(pending->published, pending->decision.node_count))
        pending_drop(c, pending);
    return true;
}
