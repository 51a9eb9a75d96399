/* Input that cannot be read. A fault in one morsel may be no more than the consequence of one that lies before it:
 * after a stray quote every reader takes inside for outside. So the first fault does not end the job. Every node gets
 * the order to HALT at it, goes on with what it was lent before it, and reports what it finds there; when all have
 * halted, the job fails with the earliest fault. Morsels are lent in their order, so what lies before a fault has been
 * lent already.
 *
 * Whatever else ends the job meanwhile (a lost node, a full memory) ends it with the fault; only a cancel is reported
 * as what it is. */
#include "base/assert.h"
#include "cluster/coordinator/internal.h"

static bool is_scanning(const struct coordinator_job *job)
{
    return job->phase.now == CLUSTER_PHASE_BUILD || job->phase.now == CLUSTER_PHASE_PROBE;
}

enum base_status coordinator_node_reason(enum base_status status)
{
    const bool ours = status == BASE_CANCELLED || status == BASE_VERSION;
    return ours ? BASE_INTERNAL : base_status_as_failure(status);
}

void coordinator_fault(struct cluster_coordinator *c, struct run_node *node, const struct cluster_fault *fault)
{
    struct coordinator_job *job = c->run;
    const char *name = node->node->hello.name;
    if (!is_scanning(job) ||
        fault->side != join_plan_pass_side(&job->plan.join, job->phase.now == CLUSTER_PHASE_PROBE)) {
        coordinator_fail(c, BASE_PROTOCOL, "node %s found a fault in an input that it does not scan", name);
        return;
    }
    BASE_ASSERT(job->planned && base_status_is_failure(fault->error.status)); /* the codec lets no other in */
    const bool first = job->fault.status == BASE_OK;
    if (!first && fault->morsel >= job->fault_morsel)
        return;
    job->fault_morsel = fault->morsel;
    base_error_set(&job->fault, coordinator_node_reason(fault->error.status), "node %s: %s", name, fault->error.text);
    for (uint32_t i = 0; first && i < job->node_count; i++) {
        if (job->node[i].lost)
            continue;
        struct cluster_halt *halt = &coordinator_send(c, job->node[i].peer, CLUSTER_MESSAGE_HALT, job->id)->halt;
        halt->side = fault->side;
        halt->morsel = fault->morsel;
    }
}

void coordinator_fault_halted(struct cluster_coordinator *c, struct run_node *node)
{
    struct coordinator_job *job = c->run;
    BASE_ASSERT(job->fault.status != BASE_OK && !node->halted);
    node->halted = true;
    for (uint32_t i = 0; i < job->node_count; i++)
        if (!job->node[i].halted && !job->node[i].lost)
            return;
    coordinator_fail(c, job->fault.status, "%s", job->fault.text);
}

bool coordinator_is_echo(const struct base_error *error)
{
    return base_status_rank(error->status) < BASE_RANK_CAUSE;
}
