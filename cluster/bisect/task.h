/* One worker's share of a measurement of the network, as a task (shuffle/worker/task.h):
 *
 *   opened -> connecting -> connected -> (measuring -> connected)... -> finished
 *
 * Bytes travel on the connections of the worker's mesh, those that joins use. */
#ifndef MILLRACE_CLUSTER_BISECT_TASK_H
#define MILLRACE_CLUSTER_BISECT_TASK_H

#include "cluster/bisect/bisect.h"
#include "shuffle/worker/task.h"

struct bisect_task;

/* A step whose bytes are not all through so long after its senders stopped has failed. */
#define BISECT_DRAIN_NS (UINT64_C(60) * BASE_NS_PER_S)

/* Its own step: one of the measurement is over. */
enum bisect_step { BISECT_STEP_MEASURED = SHUFFLE_STEP_OWN };

/* What a worker's part of a step came to. Payload only. */
struct bisect_share {
    const uint64_t *node_bytes; /* per node of the plan: received from it in the measured time */
    const uint64_t *window;     /* the same by window, over all nodes */
    uint32_t window_count;
    struct cluster_bisect_measures sum;
};

enum base_status bisect_task_open(const struct shuffle_task_config *base, struct bisect_task **task,
                                  struct base_error *error);
struct shuffle_task *bisect_task_base(struct bisect_task *task);
/* On the worker's thread -> MEASURED, or FINISHED when it is the last. The order is borrowed until then. */
void bisect_task_measure(struct bisect_task *task, const struct cluster_measure *order);

/* Of the step that ended last; good until the next begins. */
void bisect_task_share(const struct bisect_task *task, struct bisect_share *share);
#endif
