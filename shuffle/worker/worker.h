/* The worker: a function of its state, its completions and its engine's time. It owns an engine and runs at most one
 * task (a job's share, defined by the floor above). Threads and clocks are in a thin shell around it
 * (cluster/crew/crew.c); in a simulation all workers take turns in one thread. */
#ifndef MILLRACE_SHUFFLE_WORKER_WORKER_H
#define MILLRACE_SHUFFLE_WORKER_WORKER_H

#include <stdbool.h>

#include "net/engine/engine.h"
#include "shuffle/frames/mailbox.h"
#include "shuffle/worker/task.h"

struct shuffle_worker;

/* What a turn may do by default: events 256, batches 16, output_rows 16384. */
extern const struct shuffle_budget shuffle_budget_default;

/* A command runs on the worker's thread, in its turn. */
typedef void shuffle_command_fn(struct shuffle_worker *worker, void *argument);

/* The worker owns neither engine nor mailroom. local is its number within the node. */
enum base_status shuffle_worker_open(uint32_t local, struct shuffle_worker **worker, struct base_error *error);
/* No task may be set. */
void shuffle_worker_close(struct shuffle_worker *worker);

/* On the worker's thread (or before it runs): which engine it polls; which mailroom it sleeps at (NULL: none); which
 * task runs (NULL: none). */
void shuffle_worker_set_engine(struct shuffle_worker *worker, struct net_engine *engine);
void shuffle_worker_set_mailroom(struct shuffle_worker *worker, struct shuffle_mailroom *mailroom);
void shuffle_worker_set_task(struct shuffle_worker *worker, struct shuffle_task *task);
struct shuffle_task *shuffle_worker_task(const struct shuffle_worker *worker);

/* From any thread: queues a command and wakes the worker. BASE_NO_MEMORY, else BASE_OK. Commands run in order. */
enum base_status shuffle_worker_post(struct shuffle_worker *worker, shuffle_command_fn *command, void *argument);

/* From any thread: the worker takes a turn, also when it was about to block. */
void shuffle_worker_wake(struct shuffle_worker *worker);

/* One turn. may_block false: never blocks (simulation). Blocks, when nothing can run, until a completion or the task's
 * deadline. Returns whether anything moved. */
bool shuffle_worker_turn(struct shuffle_worker *worker, const struct shuffle_budget *budget, bool may_block);
/* What a worker does while it has no engine, and no task: waits for commands, so long at most, and runs those that are
 * there. Returns whether one was. */
bool shuffle_worker_stand_by(struct shuffle_worker *worker, uint64_t wait_ns);

#endif
