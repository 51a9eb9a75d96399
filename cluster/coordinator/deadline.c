/* A job and time: how long each phase may take, and what becomes of a node that takes longer: it is alive, because its
 * heart beats, but it does not answer, so it is taken for lost. */
#include "base/assert.h"
#include "cluster/coordinator/internal.h"

#define FOR_EVER UINT64_MAX

/* FOR_EVER only with a reason. */
static const uint64_t phase_limit_ns[CLUSTER_PHASE_COUNT] = {
    /* The job before has its own limits, and a queued job can be cancelled. */
    [CLUSTER_PHASE_QUEUED] = FOR_EVER,
    /* Nothing in these two grows with rows: a file system or a kernel hangs. */
    [CLUSTER_PHASE_RESOLVE] = CLUSTER_RESOLVE_NS,
    [CLUSTER_PHASE_CONNECT] = CLUSTER_CONNECT_NS,
    /* Grows with rows where they are made in memory before the clock starts, at a gigabyte a second or so. */
    [CLUSTER_PHASE_PREPARE] = CLUSTER_PREPARE_NS,
    /* As long as the rows need: a key that all rows have, or a slow disk, keeps a worker busy for hours without a row
     * scanned or a byte sent, so no progress is no sign of a fault. What stops for good is seen otherwise: a dead node
     * by its heart, a broken path by its connections; and the client, who sees the progress, can cancel. */
    [CLUSTER_PHASE_SURVEY] = FOR_EVER,
    [CLUSTER_PHASE_BUILD] = FOR_EVER,
    [CLUSTER_PHASE_PROBE] = FOR_EVER,
    /* As long as its client asked for, step by step; can be cancelled as well. */
    [CLUSTER_PHASE_MEASURE] = FOR_EVER,
    /* What was written is being written to the disk already; names and a small file remain. */
    [CLUSTER_PHASE_STAGE] = CLUSTER_COMMIT_NS,
    /* Cannot be cancelled. */
    [CLUSTER_PHASE_COMMIT] = CLUSTER_COMMIT_NS,
    [CLUSTER_PHASE_RELEASE] = CLUSTER_RELEASE_NS,
    [CLUSTER_PHASE_ABORT] = CLUSTER_RELEASE_NS,
    /* Nothing is waited for. */
    [CLUSTER_PHASE_DONE] = FOR_EVER,
};

bool coordinator_is_ending(const struct coordinator_job *job)
{
    return job->phase.now == CLUSTER_PHASE_ABORT || job->phase.now == CLUSTER_PHASE_RELEASE;
}

/* A coordinator that stops does not wait for slow nodes. */
static uint64_t release_limit_ns(const struct cluster_coordinator *c)
{
    return c->stopping ? CLUSTER_REPORT_NS : CLUSTER_RELEASE_NS;
}

/* When a node that has not answered is taken for lost; UINT64_MAX: never. */
static uint64_t answer_deadline_ns(const struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    BASE_ASSERT(job && job->phase_since_ns <= c->now_ns);
    uint64_t limit_ns = phase_limit_ns[job->phase.now];
    BASE_ASSERT(limit_ns > 0); /* every phase is in the table */
    if (c->stopping && (coordinator_is_ending(job) || job->phase.now == CLUSTER_PHASE_COMMIT))
        limit_ns = CLUSTER_REPORT_NS;
    return limit_ns == FOR_EVER ? FOR_EVER : job->phase_since_ns + limit_ns;
}

static bool is_late(const struct cluster_coordinator *c, uint32_t node, enum cluster_phase phase)
{
    BASE_ASSERT(node < c->run->node_count);
    const struct run_node *member = &c->run->node[node];
    if (member->lost)
        return false;
    return phase == CLUSTER_PHASE_COMMIT ? coordinator_pending_waits(c, c->run->id, member->node) : !member->answered;
}

static void lose_late(struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    const uint64_t id = job->id;
    const enum cluster_phase phase = job->phase.now;                             /* the first loss changes it */
    if (phase == CLUSTER_PHASE_COMMIT && coordinator_pending_recording(c, id)) { /* nobody's fault but the disk's */
        coordinator_fail(c, BASE_IO,
                         "the coordinator's disk does not answer: whether the result is decided is known when it does; "
                         "if so, it is completed in %s",
                         job->submit.out);
        return;
    }
    const char *how = "it did not answer in time though it is alive: does a file system hang there?";
    if (coordinator_is_ending(job))
        how = "it did not release its job in time";
    else if (phase == CLUSTER_PHASE_PREPARE)
        how = "it was not ready in time though it is alive: is it short of memory, or does a file system hang there?";
    else if (phase == CLUSTER_PHASE_CONNECT)
        how = "it did not say how its connections stand, though it is alive: see its log";
    for (uint32_t i = 0; c->run && c->run->id == id && i < job->node_count; i++)
        if (is_late(c, i, phase))
            coordinator_lose_node(c, job->node[i].node, how);
}

/* It waits for the decision no longer: that is carried out without it. */
static void leave_stuck(struct cluster_coordinator *c)
{
    struct base_error error;
    uint64_t since_ns;
    const struct coordinator_job *job = c->run;
    if (job->phase.now == CLUSTER_PHASE_COMMIT && coordinator_pending_stuck(c, job->id, &since_ns, &error) &&
        c->now_ns >= since_ns + CLUSTER_PATIENCE_NS)
        coordinator_fail(c, coordinator_node_reason(error.status),
                         "%s; the result is decided, and is completed as soon as that is possible", error.text);
}

void coordinator_job_tick(struct cluster_coordinator *c)
{
    struct coordinator_job *job = c->run;
    if (!job)
        return;
    const uint64_t id = job->id;
    if (coordinator_is_ending(job) && c->now_ns >= job->phase_since_ns + CLUSTER_REPORT_NS)
        coordinator_tell_end(c, job);
    if (c->now_ns >= answer_deadline_ns(c))
        lose_late(c);
    if (c->run && c->run->id == id)
        leave_stuck(c);
    if (c->run && c->run->id == id && coordinator_is_ending(job))
        coordinator_end_if_closed(c);
}

uint64_t coordinator_job_deadline_ns(const struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    if (!job)
        return UINT64_MAX;
    uint64_t since_ns;
    if (job->phase.now == CLUSTER_PHASE_COMMIT && coordinator_pending_stuck(c, job->id, &since_ns, NULL))
        return base_min_u64(answer_deadline_ns(c), since_ns + CLUSTER_PATIENCE_NS);
    if (!coordinator_is_ending(job))
        return answer_deadline_ns(c);
    if (job->phase.now == CLUSTER_PHASE_ABORT && coordinator_is_echo(&job->error) && c->now_ns < job->echo_until_ns)
        return job->echo_until_ns;
    return job->phase_since_ns + (job->client ? CLUSTER_REPORT_NS : release_limit_ns(c));
}
