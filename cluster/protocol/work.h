/* What a job gives workers to do, and what they did for it. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_WORK_H
#define MILLRACE_CLUSTER_PROTOCOL_WORK_H

#include "cluster/protocol/measure.h"
#include "join/plan.h"
#include "net/socket/facts.h"
#include "shuffle/worker/job.h"

enum cluster_job_kind {
    CLUSTER_KIND_JOIN,
    CLUSTER_KIND_SHUFFLE,
    CLUSTER_KIND_BISECT, /* measures the network */
    CLUSTER_KIND_COUNT
};

/* How a plan of rows calls it; not of BISECT, which has none. */
static inline enum join_job_kind cluster_join_kind(enum cluster_job_kind kind)
{
    return kind == CLUSTER_KIND_JOIN ? JOIN_JOB_JOIN : JOIN_JOB_SHUFFLE;
}

/* Everything that a node needs to run its share of a job. Owned by itself. */
struct cluster_plan {
    enum cluster_job_kind kind;
    struct shuffle_job job;
    struct join_plan join; /* of a join or shuffle; else empty */
};
void cluster_plan_free(struct cluster_plan *plan);

/* What a node reaches in a job, when all its workers have: steps of every task, of a join or shuffle (join/task.h), of
 * a measurement (cluster/bisect/task.h). */
enum cluster_step_kind {
    CLUSTER_STEP_OPENED, /* everything of the job is */
    CLUSTER_STEP_SURVEYED,
    CLUSTER_STEP_CONNECTED,
    CLUSTER_STEP_SEALED,
    CLUSTER_STEP_FINISHED,
    CLUSTER_STEP_CLOSED,
    CLUSTER_STEP_FAILED,
    CLUSTER_STEP_MEASURED,
    CLUSTER_STEP_FAULT,
    CLUSTER_STEP_HALTED,
    CLUSTER_STEP_COUNT
};

/* A worker's share, and summed a node's, which STEP and CLOSED carry. */
struct cluster_work {
    struct cluster_measures sum;   /* since prepare */
    struct net_socket_facts facts; /* of one connection of the first worker */
};

#endif
