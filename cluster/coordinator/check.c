/* What holds after every step. Walks through everything are for debug builds; what costs nothing is on in release. */
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

#ifndef NDEBUG
enum { CHECK_PAIRS_MAX = 64 }; /* nodes of which each pair is looked at */

static void invariant_check_nodes(const struct cluster_coordinator *c)
{
    for (uint32_t i = 0; i < c->node_count; i++) {
        const struct coordinator_node *node = c->node[i];
        BASE_ASSERT(node->hello.name && *node->hello.name);
        BASE_ASSERT(node->peer || !node->beat_peer);
        BASE_ASSERT(i == 0 || strverscmp(c->node[i - 1]->hello.name, node->hello.name) < 0); /* in order, each once */
        for (uint32_t k = 0; k < i && i < CHECK_PAIRS_MAX; k++) /* a connection belongs to one node */
            BASE_ASSERT(!node->peer || (c->node[k]->peer != node->peer && c->node[k]->beat_peer != node->peer));
    }
}

static void check_queue(const struct cluster_coordinator *c)
{
    uint32_t count = 0;
    for (const struct coordinator_job *job = c->queue; job; job = job->next) {
        BASE_ASSERT(job->phase.now == CLUSTER_PHASE_QUEUED && job->node_count == 0 && job->error.status == BASE_OK);
        BASE_ASSERT(!job->next || job->next->id > job->id); /* first come, first served */
        count++;
    }
    BASE_ASSERT(count == c->queue_count);
}

static void check_run(const struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    bool waited = false; /* for somebody */
    for (uint32_t i = 0; i < job->node_count; i++) {
        const struct run_node *node = &job->node[i];
        /* A node that came again since has another connection, and no part in this job. */
        BASE_ASSERT(node->peer != 0 && (node->lost || node->node->peer == node->peer));
        waited |= !node->answered && !node->lost;
        for (uint32_t side = 0; side < 2; side++)
            BASE_ASSERT(node->lend_next[side] <= node->lend_end[side]);
    }
    for (uint32_t side = 0; side < 2; side++)
        BASE_ASSERT(job->morsel_next[side] <= job->morsel_count[side]);
    BASE_ASSERT(waited || job->phase.now == CLUSTER_PHASE_ABORT || job->phase.now == CLUSTER_PHASE_COMMIT);
    BASE_ASSERT(job->phase.now != CLUSTER_PHASE_COMMIT || coordinator_pending_has(c, job->id));
}

static void check_pending(const struct cluster_coordinator *c)
{
    for (const struct coordinator_pending *pending = c->pending; pending; pending = pending->next) {
        bool all = true;
        BASE_ASSERT(pending->decision.node_count > 0);
        for (uint32_t i = 0; i < pending->decision.node_count; i++) {
            const struct coordinator_pending_node *node = &pending->node[i];
            BASE_ASSERT(node->committed || !node->published);
            BASE_ASSERT(!node->retry_ns || node->backoff_ns);
            all &= node->published;
        }
        BASE_ASSERT(!all); /* else it is forgotten */
        BASE_ASSERT(pending->state.now == COORDINATOR_PENDING_STANDS || !pending->node[0].committed);
    }
}
#endif

void coordinator_check(const struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    BASE_ASSERT(c->queue_count <= COORDINATOR_QUEUE_MAX);
    BASE_ASSERT(!c->stopped || (!job && !c->queue));
    BASE_ASSERT(job || !c->queue); /* somebody runs when somebody waits */
    if (job) {
        BASE_ASSERT(job->phase.now != CLUSTER_PHASE_QUEUED && job->phase.now != CLUSTER_PHASE_DONE);
        BASE_ASSERT(job->node_count > 0 && !job->next);
        BASE_ASSERT((job->phase.now == CLUSTER_PHASE_ABORT) == (job->error.status != BASE_OK));
        BASE_ASSERT(!job->committed || job->recorded);
    }
#ifndef NDEBUG
    invariant_check_nodes(c);
    check_queue(c);
    if (job)
        check_run(c);
    check_pending(c);
#endif
}
