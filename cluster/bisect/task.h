/* One worker's share of a measurement of the network, as a task the worker turns:
 *
 *   opened -> connecting -> connected -> (measuring -> connected)... -> finished
 *   any state -> failed; any state -> closing -> closed
 *
 * Bytes travel on the connections of the worker's mesh, those that joins use. */
#ifndef MILLRACE_CLUSTER_BISECT_TASK_H
#define MILLRACE_CLUSTER_BISECT_TASK_H

#include "cluster/bisect/bisect.h"
#include "join/task.h"

struct bisect_task;

/* A step whose bytes are not all through so long after its senders stopped has failed. */
#define BISECT_DRAIN_NS (UINT64_C(60) * BASE_NS_PER_S)

struct bisect_task_config {
    const struct shuffle_job *job; /* borrowed for the task's life */
    uint32_t worker, local_first, local_count;
    struct net_engine *engine;
    struct base_governor *governor;
    struct shuffle_mailroom *mailroom;
    int listener_fd;
    const struct net_key *key; /* NULL: none */
    /* Called on the worker's thread when a step ends (enum join_step). */
    void (*report)(void *context, uint32_t worker, int step, const struct base_error *error);
    void *context;
};

/* What a worker's part of a step came to. Payload only. */
struct bisect_share {
    const uint64_t *node_bytes; /* per node of the plan: received from it in the measured time */
    const uint64_t *window;     /* the same by window, over all nodes */
    uint32_t window_count;
    uint64_t received_bytes, sent_bytes, verified_bytes; /* of the whole step */
};

enum base_status bisect_task_open(const struct bisect_task_config *config, struct bisect_task **task,
                                  struct base_error *error);
struct shuffle_task *bisect_task_base(struct bisect_task *task);
/* Commands, on the worker's thread, each answered by a report. */
void bisect_task_connect(struct bisect_task *task); /* -> CONNECTED */
/* -> MEASURED, or FINISHED when it is the last. The order is borrowed until then. */
void bisect_task_measure(struct bisect_task *task, const struct cluster_measure *order);
/* Stops, joins what is in flight -> CLOSED; then bisect_task_free. */
void bisect_task_close(struct bisect_task *task, bool abort);
void bisect_task_free(struct bisect_task *task);

/* Of the step that ended last; good until the next begins. */
void bisect_task_share(const struct bisect_task *task, struct bisect_share *share);
/* Per worker of the cluster, over the whole job. */
const uint64_t *bisect_task_sent_bytes(const struct bisect_task *task);
const uint64_t *bisect_task_received_bytes(const struct bisect_task *task);

#endif
