/* Decisions to publish, and who has not carried them out.
 *
 * Two steps with presumed abort: a job's parts, and the text of its _SUCCESS.json, are durable under attempt names
 * before its decision is recorded; once recorded it stands. A recording that failed may leave the decision on disk:
 * then it is recorded again until it stands or is known to be gone, and nobody touches the parts meanwhile.
 *
 * Every node of the job is told COMMIT (rename the parts) until it says COMMITTED, across its restarts and ours; when
 * all have, every node is told PUBLISH (put _SUCCESS.json in place) until it says PUBLISHED; then the decision is
 * forgotten. Both orders may be repeated harmlessly. A node that cannot is told again after a while, and again when it
 * connects. A node that has durable parts but heard no decision asks with its hello; no decision means abort.
 *
 * A directory that one node does not find may be on a disk that is not mounted yet: the decision is dropped only when
 * all of its nodes have said for an hour that they do not find it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

#define PENDING_RETRY_MIN_NS (UINT64_C(250) * BASE_NS_PER_MS)
#define PENDING_RETRY_MAX_NS (UINT64_C(30) * BASE_NS_PER_S)
#define PENDING_RECORD_NS (UINT64_C(2) * BASE_NS_PER_S)

void coordinator_pending_free(struct coordinator_pending *pending)
{
    cluster_decision_free(&pending->decision);
    free(pending->node);
    free(pending);
}

/* ---- who has done what ---- */

static struct coordinator_pending *pending_find(const struct cluster_coordinator *c, uint64_t job)
{
    struct coordinator_pending *pending = c->pending;
    while (pending && pending->decision.job != job)
        pending = pending->next;
    return pending;
}

static int pending_index(const struct coordinator_pending *pending, const char *name)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (strcmp(pending->decision.node[i].name, name) == 0)
            return (int)i;
    return -1;
}

static uint64_t node_peer(const struct cluster_coordinator *c, const char *name)
{
    for (uint32_t i = 0; i < c->node_count; i++)
        if (strcmp(c->node[i]->hello.name, name) == 0)
            return c->node[i]->peer;
    return 0;
}

static bool all_committed(const struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (!pending->node[i].committed)
            return false;
    return true;
}

static bool all_published(const struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (!pending->node[i].published)
            return false;
    return true;
}

static bool all_gone(const struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (!pending->node[i].gone)
            return false;
    return true;
}

static bool any_gone(const struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++)
        if (pending->node[i].gone)
            return true;
    return false;
}

/* ---- orders ---- */

static void tell_commit(struct cluster_coordinator *c, const struct coordinator_pending *pending, uint32_t i,
                        uint64_t peer)
{
    const struct cluster_decision *decision = &pending->decision;
    struct cluster_commit *commit = &coordinator_send(c, peer, CLUSTER_MESSAGE_COMMIT, decision->job)->commit;
    commit->out = decision->out;
    commit->extension = decision->extension;
    commit->files = decision->files;
    commit->first = decision->node[i].first;
    commit->count = decision->node[i].count;
}

/* What node i of the decision has to be told next. */
static void pending_tell(struct cluster_coordinator *c, struct coordinator_pending *pending, uint32_t i, uint64_t peer)
{
    const struct cluster_decision *decision = &pending->decision;
    /* No node may rename its parts for a decision that may not be there after a crash. */
    BASE_ASSERT(pending->state.now == COORDINATOR_PENDING_STANDS && i < decision->node_count);
    pending->node[i].retry_ns = 0;
    if (!pending->node[i].committed) {
        tell_commit(c, pending, i, peer);
    } else if (!pending->node[i].published && all_committed(pending)) {
        struct cluster_publish *publish = &coordinator_send(c, peer, CLUSTER_MESSAGE_PUBLISH, decision->job)->publish;
        publish->out = decision->out;
        publish->files = decision->files;
        publish->first = decision->node[i].first;
        publish->text = decision->text;
    }
}

static void pending_tell_all(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++) {
        const uint64_t peer = node_peer(c, pending->decision.node[i].name);
        if (peer)
            pending_tell(c, pending, i, peer);
    }
}

static void pending_remove(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    struct coordinator_pending **at = &c->pending;
    while (*at && *at != pending)
        at = &(*at)->next;
    BASE_ASSERT(*at);
    *at = pending->next;
    coordinator_pending_free(pending);
}

static void pending_forget(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    BASE_ASSERT(pending->state.now == COORDINATOR_PENDING_STANDS);
    coordinator_act(c, CLUSTER_ACTION_FORGET, 0)->job = pending->decision.job;
    pending_remove(c, pending);
}

/* ---- making and recording ---- */

#define FROM(state) (1U << COORDINATOR_PENDING_##state)
static const struct base_state_row pending_rows[COORDINATOR_PENDING_STATE_COUNT] = {
    [COORDINATOR_PENDING_DECIDED] = {"decided", 0},
    [COORDINATOR_PENDING_RECORDING] = {"recording", FROM(DECIDED) | FROM(UNSURE)},
    [COORDINATOR_PENDING_UNSURE] = {"unsure", FROM(RECORDING)},
    [COORDINATOR_PENDING_STANDS] = {"stands", FROM(DECIDED) | FROM(RECORDING)}, /* DECIDED: read from disk */
};
#undef FROM
static const struct base_machine pending_machine = {"decision to publish", pending_rows,
                                                    COORDINATOR_PENDING_STATE_COUNT};

static struct coordinator_pending *pending_make(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                                struct base_error *error)
{
    struct coordinator_pending *pending = calloc(1, sizeof *pending);
    if (!pending) {
        base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
        return NULL;
    }
    base_state_begin(&pending->state, &pending_machine, COORDINATOR_PENDING_DECIDED);
    enum base_status status = cluster_decision_copy(decision, &pending->decision, error);
    if (status == BASE_OK) {
        pending->node = calloc(decision->node_count, sizeof *pending->node);
        if (!pending->node)
            status = base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    }
    if (status != BASE_OK) {
        coordinator_pending_free(pending);
        return NULL;
    }
    pending->next = c->pending;
    c->pending = pending;
    return pending;
}

/* One in a step: whoever cannot even take the order says so before it gets another. */
static void pending_record(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    BASE_ASSERT(!c->record_asked && pending->state.now != COORDINATOR_PENDING_STANDS);
    c->record_asked = true;
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_RECORD, 0);
    action->again = pending->unsure;
    base_state_enter(&pending->state, COORDINATOR_PENDING_RECORDING);
    action->job = pending->decision.job;
    action->decision = &pending->decision;
}

enum base_status coordinator_pending_restore(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                             struct base_error *error)
{
    struct coordinator_pending *pending = pending_make(c, decision, error);
    if (!pending)
        return BASE_NO_MEMORY;
    base_state_enter(&pending->state, COORDINATOR_PENDING_STANDS);
    return BASE_OK;
}

enum base_status coordinator_pending_decide(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                            struct base_error *error)
{
    struct coordinator_pending *pending = pending_make(c, decision, error);
    if (!pending)
        return BASE_NO_MEMORY;
    pending_record(c, pending);
    return BASE_OK;
}

/* It is not on disk, and will not be: nodes that kept their parts for it let go of them. */
static void pending_dismiss(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    BASE_ASSERT(pending->state.now == COORDINATOR_PENDING_RECORDING && !pending->node[0].committed);
    for (uint32_t i = 0; i < pending->decision.node_count; i++) {
        const uint64_t peer = node_peer(c, pending->decision.node[i].name);
        if (peer)
            coordinator_send(c, peer, CLUSTER_MESSAGE_RELEASE, pending->decision.job)->release.abort = true;
    }
    pending_remove(c, pending);
}

void coordinator_recorded(struct cluster_coordinator *c, uint64_t id, bool unknown, const struct base_error *error)
{
    struct coordinator_pending *pending = pending_find(c, id);
    struct coordinator_job *job = c->run && c->run->id == id ? c->run : NULL;
    if (!pending || pending->state.now != COORDINATOR_PENDING_RECORDING)
        return;
    if (error->status == BASE_OK) {
        /* Also when the job failed meanwhile: what is recorded stands. */
        base_state_enter(&pending->state, COORDINATOR_PENDING_STANDS);
        pending_tell_all(c, pending);
        return;
    }
    if (unknown) {
        if (!pending->unsure)
            coordinator_log(c, BASE_LOG_ERROR,
                            "whether the decision of job %" PRIu64
                            " is on disk is not known (%s): it is recorded again until "
                            "that is known",
                            id, error->text);
        pending->unsure = true;
        base_state_enter(&pending->state, COORDINATOR_PENDING_UNSURE);
        pending->record_ns = c->now_ns + PENDING_RECORD_NS;
        if (job)
            coordinator_fail(c, error->status,
                             "whether the decision to publish is recorded is not known yet: %s; its output appears in "
                             "%s or is removed there when that is known",
                             error->text, pending->decision.out);
        return;
    }
    coordinator_log(c, BASE_LOG_ERROR, "the decision of job %" PRIu64 " is not recorded: %s", id, error->text);
    if (job)
        job->recorded = false;
    const bool failed_already = !job || job->phase.now != CLUSTER_PHASE_COMMIT;
    if (job)
        coordinator_fail(c, error->status, "the decision to publish cannot be recorded: %s", error->text);
    if (failed_already) /* its nodes were released with their parts */
        pending_dismiss(c, pending);
    else
        pending_remove(c, pending);
}

/* ---- nodes ---- */

static bool publish_holds(const uint64_t *jobs, uint32_t count, uint64_t job)
{
    for (uint32_t i = 0; i < count; i++)
        if (jobs[i] == job)
            return true;
    return false;
}

void coordinator_pending_node(struct cluster_coordinator *c, struct coordinator_node *node)
{
    for (struct coordinator_pending *pending = c->pending; pending; pending = pending->next) {
        const int i = pending_index(pending, node->hello.name);
        if (i >= 0 && pending->state.now == COORDINATOR_PENDING_STANDS)
            pending_tell(c, pending, (uint32_t)i, node->peer);
    }
    for (uint32_t i = 0; i < node->hello.doubt_count; i++) {
        const uint64_t job = node->hello.doubt[i];
        if (!pending_find(c, job) && !publish_holds(node->hello.doubt, i, job))
            coordinator_send(c, node->peer, CLUSTER_MESSAGE_RELEASE, job)->release.abort = true;
    }
}

bool coordinator_pending_waits(const struct cluster_coordinator *c, uint64_t job, const struct coordinator_node *node)
{
    const struct coordinator_pending *pending = pending_find(c, job);
    const int i = pending ? pending_index(pending, node->hello.name) : -1;
    if (i < 0 || pending->state.now != COORDINATOR_PENDING_STANDS || pending->node[i].retry_ns)
        return false;
    return !pending->node[i].committed || (!pending->node[i].published && all_committed(pending));
}

bool coordinator_pending_recording(const struct cluster_coordinator *c, uint64_t job)
{
    const struct coordinator_pending *pending = pending_find(c, job);
    return pending && pending->state.now == COORDINATOR_PENDING_RECORDING;
}

bool coordinator_pending_has(const struct cluster_coordinator *c, uint64_t job)
{
    return pending_find(c, job);
}

bool coordinator_pending_stuck(const struct cluster_coordinator *c, uint64_t job, uint64_t *since_ns,
                               struct base_error *error)
{
    const struct coordinator_pending *pending = pending_find(c, job);
    if (!pending || !pending->stuck_since_ns)
        return false;
    *since_ns = pending->stuck_since_ns;
    if (error)
        *error = pending->stuck;
    return true;
}

static void publish_on_failed(struct cluster_coordinator *c, struct coordinator_pending *pending, uint32_t i,
                              const struct base_error *error)
{
    struct coordinator_pending_node *node = &pending->node[i];
    struct base_error stuck;
    base_error_set(&stuck, error->status, "node %s cannot publish its share of job %" PRIu64 ": %s",
                   pending->decision.node[i].name, pending->decision.job, error->text);
    if (node->backoff_ns == 0 || node->failure != error->status) /* once, not at every retry */
        coordinator_log(c, BASE_LOG_ERROR, "%s; it is tried again until it can be done", stuck.text);
    if (!pending->stuck_since_ns)
        pending->stuck_since_ns = c->now_ns;
    pending->stuck = stuck;
    node->failure = error->status;
    node->backoff_ns = base_min_u64(base_max_u64(2 * node->backoff_ns, PENDING_RETRY_MIN_NS), PENDING_RETRY_MAX_NS);
    node->retry_ns = c->now_ns + node->backoff_ns;
    node->gone = error->status == BASE_NOT_FOUND;
    if (!all_gone(pending))
        pending->gone_since_ns = 0;
    else if (!pending->gone_since_ns)
        pending->gone_since_ns = c->now_ns;
}

static void on_done(struct cluster_coordinator *c, struct coordinator_pending *pending, uint32_t i, bool published)
{
    struct coordinator_pending_node *node = &pending->node[i];
    const bool were_committed = all_committed(pending);
    BASE_ASSERT(pending->state.now == COORDINATOR_PENDING_STANDS && i < pending->decision.node_count);
    node->committed = true;
    node->published |= published;
    node->gone = false;
    node->retry_ns = node->backoff_ns = 0;
    pending->gone_since_ns = 0;
    bool failing = false; /* also a node that was told again and has not answered yet */
    for (uint32_t n = 0; n < pending->decision.node_count; n++)
        failing |= pending->node[n].backoff_ns != 0;
    if (!failing)
        pending->stuck_since_ns = 0;
    if (!were_committed && all_committed(pending))
        pending_tell_all(c, pending);
    else if (all_published(pending))
        pending_forget(c, pending);
}

bool coordinator_pending_message(struct cluster_coordinator *c, struct coordinator_node *node,
                                 const struct cluster_message *message)
{
    struct coordinator_pending *pending = pending_find(c, message->job);
    const int i = pending ? pending_index(pending, node->hello.name) : -1;
    if (i < 0 || pending->state.now != COORDINATOR_PENDING_STANDS)
        return false;
    const bool published = message->kind == CLUSTER_MESSAGE_PUBLISHED;
    struct base_error early;
    if (message->kind == CLUSTER_MESSAGE_FAILED) {
        publish_on_failed(c, pending, (uint32_t)i, &message->failed.error);
    } else if (published && !all_committed(pending)) { /* nobody was ordered to: its parts may have their old names */
        base_error_set(&early, BASE_PROTOCOL, "it sent PUBLISHED before all nodes committed");
        publish_on_failed(c, pending, (uint32_t)i, &early);
    } else {
        on_done(c, pending, (uint32_t)i, published);
    }
    return true;
}

/* ---- time ---- */

static void pending_retry(struct cluster_coordinator *c, struct coordinator_pending *pending)
{
    for (uint32_t i = 0; i < pending->decision.node_count; i++) {
        struct coordinator_pending_node *node = &pending->node[i];
        if (!node->retry_ns || c->now_ns < node->retry_ns)
            continue;
        node->retry_ns = 0;
        const uint64_t peer = node_peer(c, pending->decision.node[i].name); /* else its hello will do */
        if (peer)
            pending_tell(c, pending, i, peer);
        /* Do the others still find it, who had done their share? Somebody may have read the result and removed it. */
        for (uint32_t n = 0; any_gone(pending) && n < pending->decision.node_count; n++) {
            const uint64_t other = node_peer(c, pending->decision.node[n].name);
            if (n != i && other && pending->node[n].committed)
                tell_commit(c, pending, n, other);
        }
    }
}

void coordinator_pending_tick(struct cluster_coordinator *c)
{
    struct coordinator_pending *next;
    for (struct coordinator_pending *pending = c->pending; pending; pending = next) {
        next = pending->next;
        if (pending->state.now == COORDINATOR_PENDING_UNSURE && c->now_ns >= pending->record_ns && !c->record_asked)
            pending_record(c, pending);
        if (pending->state.now != COORDINATOR_PENDING_STANDS)
            continue;
        pending_retry(c, pending);
        if (pending->gone_since_ns && c->now_ns >= pending->gone_since_ns + CLUSTER_GONE_NS) {
            coordinator_log(c, BASE_LOG_ERROR,
                            "the result of job %" PRIu64 " is given up: no node has found %s for an hour",
                            pending->decision.job, pending->decision.out);
            pending_forget(c, pending);
        }
    }
}

uint64_t coordinator_pending_deadline_ns(const struct cluster_coordinator *c)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (const struct coordinator_pending *pending = c->pending; pending; pending = pending->next) {
        if (pending->state.now == COORDINATOR_PENDING_UNSURE)
            deadline_ns = base_min_u64(deadline_ns, pending->record_ns);
        for (uint32_t i = 0; i < pending->decision.node_count; i++)
            if (pending->node[i].retry_ns)
                deadline_ns = base_min_u64(deadline_ns, pending->node[i].retry_ns);
        if (pending->gone_since_ns)
            deadline_ns = base_min_u64(deadline_ns, pending->gone_since_ns + CLUSTER_GONE_NS);
    }
    return deadline_ns;
}

uint64_t *coordinator_pending_jobs(const struct cluster_coordinator *c, uint64_t *count)
{
    uint64_t jobs = 0;
    for (const struct coordinator_pending *pending = c->pending; pending; pending = pending->next)
        jobs++;
    uint64_t *list = calloc(jobs + 1, sizeof *list);
    *count = 0;
    for (const struct coordinator_pending *pending = c->pending; list && pending; pending = pending->next)
        list[(*count)++] = pending->decision.job;
    return list;
}
