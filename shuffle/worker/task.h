/* A task: one worker's share of a job, as a state machine that the worker turns. Here is what all kinds have in common:
 * the mesh, the states around it, reports, failure, closing. A kind (join/task.c, cluster/bisect/task.c) adds states
 * and steps of its own, and does its work in the hooks.
 *
 *   opened -> connecting -> connected -> [states of its own] -> finished
 *   any state before finished -> failed; any state -> closing -> closed
 *
 * A failure is reported once. Then the mesh is aborted, so that no more rows reach a sink, and the task waits to be
 * closed. All functions are for the worker's thread. */
#ifndef MILLRACE_SHUFFLE_WORKER_TASK_H
#define MILLRACE_SHUFFLE_WORKER_TASK_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/state.h"
#include "shuffle/mesh/mesh.h"
#include "shuffle/worker/job.h"

/* Connecting fails when no connection was made for this long (and a little for each that a node makes, see
 * shuffle/mesh/mesh.h). */
#define SHUFFLE_CONNECT_TIMEOUT_NS (UINT64_C(1500) * BASE_NS_PER_MS)

/* How much one turn may do of each thing. */
struct shuffle_budget {
    uint32_t events;      /* completions reaped */
    uint32_t batches;     /* scanned */
    uint32_t output_rows; /* produced by probes */
};

/* States of every task; a kind's own are numbered from SHUFFLE_TASK_OWN. */
enum shuffle_task_state {
    SHUFFLE_TASK_OPENED,
    SHUFFLE_TASK_CONNECTING,
    SHUFFLE_TASK_CONNECTED,
    SHUFFLE_TASK_FINISHED,
    SHUFFLE_TASK_FAILED,
    SHUFFLE_TASK_CLOSING,
    SHUFFLE_TASK_CLOSED,
    SHUFFLE_TASK_OWN
};

/* Rows that are the same in every kind's table; OPENED, CONNECTED and FINISHED it writes itself. */
#define SHUFFLE_TASK_FROM(state) (1U << SHUFFLE_TASK_##state)
#define SHUFFLE_TASK_ROWS                                                                                              \
    [SHUFFLE_TASK_CONNECTING] = {"connecting", SHUFFLE_TASK_FROM(OPENED)},                                             \
    [SHUFFLE_TASK_FAILED] = {"failed", ~(SHUFFLE_TASK_FROM(FINISHED) | SHUFFLE_TASK_FROM(FAILED) |                     \
                                         SHUFFLE_TASK_FROM(CLOSING) | SHUFFLE_TASK_FROM(CLOSED))},                     \
    [SHUFFLE_TASK_CLOSING] = {"closing", ~(SHUFFLE_TASK_FROM(CLOSING) | SHUFFLE_TASK_FROM(CLOSED))},                   \
    [SHUFFLE_TASK_CLOSED] = {"closed", SHUFFLE_TASK_FROM(CLOSING)}

/* Steps that every task reports; a kind's own are numbered from SHUFFLE_STEP_OWN. FAILED carries the error and comes at
 * most once. */
enum shuffle_step {
    SHUFFLE_STEP_CONNECTED,
    SHUFFLE_STEP_FINISHED,
    SHUFFLE_STEP_CLOSED,
    SHUFFLE_STEP_FAILED,
    SHUFFLE_STEP_OWN
};

/* What it borrows, it borrows for the task's life. */
struct shuffle_task_config {
    const struct shuffle_job *job;
    uint32_t worker; /* number in the cluster */
    uint32_t local_first, local_count;
    struct net_engine *engine;
    struct base_governor *governor;
    struct shuffle_mailroom *mailroom;
    int listener_fd;
    const struct net_key *key; /* of the cluster; NULL: none */
    /* Called when a step ends, from inside a turn or a command. error: of a failure, else NULL. */
    void (*report)(void *context, uint32_t worker, int step, const struct base_error *error);
    void *context;
};

struct shuffle_task;
struct shuffle_task_ops {
    /* A new turn, before the mesh has its own. NULL: nothing to do. */
    void (*begin)(struct shuffle_task *task, const struct shuffle_budget *budget);
    /* One slice of work, in any state but connecting, closing and closed; true when something moved, or more could at
     * once. */
    bool (*work)(struct shuffle_task *task, const struct shuffle_budget *budget);
    /* Completion of a file operation. NULL: it has none. */
    void (*file_event)(struct shuffle_task *task, const struct net_event *event);
    /* Earliest deadline of its own (engine time), or UINT64_MAX. NULL: none. */
    uint64_t (*deadline_ns)(const struct shuffle_task *task);
    /* Begins nothing new; at failure and at closing, perhaps twice. NULL: nothing to do. */
    void (*stop)(struct shuffle_task *task);
    /* Has it nothing in flight, the mesh aside? NULL: never. */
    bool (*idle)(const struct shuffle_task *task);
    /* Frees it all, the mesh by shuffle_task_free_mesh; the mesh is closed. */
    void (*free)(struct shuffle_task *task);
};

/* Every task's struct begins with this. */
struct shuffle_task {
    const struct shuffle_task_ops *ops;
    struct shuffle_task_config config;
    struct base_state state; /* enum shuffle_task_state, or the kind's own */
    struct shuffle_mesh *mesh;
    const char **node_name; /* of each worker */
};

/* ---- for a kind ---- */

/* Before anything else is opened. */
void shuffle_task_begin(struct shuffle_task *task, const struct shuffle_task_ops *ops,
                        const struct base_machine *machine, const struct shuffle_task_config *config);
/* raw: as in shuffle_mesh_config. */
enum base_status shuffle_task_open_mesh(struct shuffle_task *task, const struct shuffle_mesh_raw *raw,
                                        struct base_error *error);
/* In the kind's `free`; nothing happens if there is none. */
void shuffle_task_free_mesh(struct shuffle_task *task);
void shuffle_task_report(struct shuffle_task *task, int step, const struct base_error *error);
/* Enters a state and reports the step that ended. */
void shuffle_task_reach(struct shuffle_task *task, uint32_t state, int step);
/* Nothing happens when it is over already. */
void shuffle_task_fail(struct shuffle_task *task, const struct base_error *error);
/* Is it finished, failed, closing or closed? */
bool shuffle_task_over(const struct shuffle_task *task);

/* ---- for the worker ---- */

void shuffle_task_event(struct shuffle_task *task, const struct net_event *event);
/* True when something moved: the worker must not block yet. */
bool shuffle_task_turn(struct shuffle_task *task, const struct shuffle_budget *budget);
/* Earliest deadline that it waits for (engine time), or UINT64_MAX. */
uint64_t shuffle_task_deadline_ns(const struct shuffle_task *task);

/* ---- for who gives it orders ---- */

/* -> CONNECTED */
void shuffle_task_connect(struct shuffle_task *task);
/* Stops, joins what is in flight -> CLOSED; then shuffle_task_free. abort: connections are reset. */
void shuffle_task_close(struct shuffle_task *task, bool abort);
/* Of a task that is closed, or was never connected. */
void shuffle_task_free(struct shuffle_task *task);

#endif
