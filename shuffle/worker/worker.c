/* One turn: reap completions, run commands, let the task take its slice; what it queued is submitted by the next poll,
 * so there is one enter per turn.
 *
 * Blocking without missing anything: the worker blocks only in its engine's poll, and only after a turn in which
 * nothing moved. What another thread may bring meanwhile is either a command (posted under the lock, then the engine is
 * woken) or a frame in a mailbox (the poster sees our sleep flag and wakes the engine; shuffle_mailroom_sleep looks
 * again after setting it). A wake that comes before the poll makes the poll return at once; one that went to an engine
 * about to be replaced is passed on to the next. */
#include "shuffle/worker/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"

enum { WORKER_EVENTS_MAX = 256 };

const struct shuffle_budget shuffle_budget_default = {.events = WORKER_EVENTS_MAX, .batches = 16, .output_rows = 16384};

struct worker_command {
    shuffle_command_fn *run;
    void *argument;
    struct worker_command *next;
};

struct shuffle_worker {
    uint32_t local;
    struct net_engine *engine;
    struct shuffle_mailroom *mailroom;
    struct shuffle_task *task;
    bool worked;           /* last turn: then the next must not block */
    pthread_mutex_t lock;  /* of the command queue, and of replacing the engine */
    pthread_cond_t posted; /* a command was, for a worker without an engine */
    struct worker_command *first, **last;
    struct net_event events[WORKER_EVENTS_MAX];
};

enum base_status shuffle_worker_open(uint32_t local, struct shuffle_worker **worker, struct base_error *error)
{
    struct shuffle_worker *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for worker %u", local);
    made->local = local;
    made->last = &made->first;
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&made->posted, &monotonic);
    pthread_condattr_destroy(&monotonic);
    *worker = made;
    return BASE_OK;
}

void shuffle_worker_close(struct shuffle_worker *worker)
{
    if (!worker)
        return;
    BASE_ASSERT(!worker->task);
    while (worker->first) {
        struct worker_command *command = worker->first;
        worker->first = command->next;
        free(command);
    }
    pthread_cond_destroy(&worker->posted);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

void shuffle_worker_set_engine(struct shuffle_worker *worker, struct net_engine *engine)
{
    pthread_mutex_lock(&worker->lock);
    worker->engine = engine;
    if (engine)
        net_engine_wake(engine); /* what woke the one before is as much our business */
    pthread_mutex_unlock(&worker->lock);
}

void shuffle_worker_set_mailroom(struct shuffle_worker *worker, struct shuffle_mailroom *mailroom)
{
    worker->mailroom = mailroom;
}

void shuffle_worker_set_task(struct shuffle_worker *worker, struct shuffle_task *task)
{
    BASE_ASSERT(!task || !worker->task); /* one task at a time */
    worker->task = task;
    worker->worked = true;
}

struct shuffle_task *shuffle_worker_task(const struct shuffle_worker *worker)
{
    return worker->task;
}

enum base_status shuffle_worker_post(struct shuffle_worker *worker, shuffle_command_fn *command, void *argument)
{
    struct worker_command *made = malloc(sizeof *made);
    if (!made)
        return BASE_NO_MEMORY;
    *made = (struct worker_command){.run = command, .argument = argument};
    pthread_mutex_lock(&worker->lock);
    *worker->last = made;
    worker->last = &made->next;
    if (worker->engine)
        net_engine_wake(worker->engine);
    else
        pthread_cond_signal(&worker->posted);
    pthread_mutex_unlock(&worker->lock);
    return BASE_OK;
}

void shuffle_worker_wake(struct shuffle_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    if (worker->engine)
        net_engine_wake(worker->engine);
    pthread_mutex_unlock(&worker->lock);
}

/* Runs the commands queued so far. True when there was one. */
static bool worker_run_commands(struct shuffle_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    struct worker_command *command = worker->first;
    worker->first = NULL;
    worker->last = &worker->first;
    pthread_mutex_unlock(&worker->lock);
    const bool any = command;
    while (command) {
        struct worker_command *next = command->next;
        command->run(worker, command->argument);
        free(command);
        command = next;
    }
    return any;
}

bool shuffle_worker_stand_by(struct shuffle_worker *worker, uint64_t wait_ns)
{
    BASE_ASSERT(!worker->engine && !worker->task);
    const uint64_t until_ns = base_clock_now_ns() + wait_ns;
    const struct timespec until = {.tv_sec = (time_t)(until_ns / BASE_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % BASE_NS_PER_S)};
    pthread_mutex_lock(&worker->lock);
    while (!worker->first && pthread_cond_timedwait(&worker->posted, &worker->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&worker->lock);
    return worker_run_commands(worker);
}

/* How long the poll may block, in nanoseconds. Declares sleep at the mailroom when it may. */
static uint64_t worker_wait_ns(struct shuffle_worker *worker, bool may_block, bool *asleep)
{
    if (!may_block || worker->worked)
        return 0;
    if (worker->mailroom) {
        *asleep = true;
        if (!shuffle_mailroom_sleep(worker->mailroom, worker->local))
            return 0;
    }
    const uint64_t deadline_ns = worker->task ? shuffle_task_deadline_ns(worker->task) : UINT64_MAX;
    if (deadline_ns == UINT64_MAX)
        return NET_WAIT_FOREVER;
    const uint64_t now_ns = net_engine_now_ns(worker->engine);
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

bool shuffle_worker_turn(struct shuffle_worker *worker, const struct shuffle_budget *budget, bool may_block)
{
    bool asleep = false;
    BASE_ASSERT(worker->engine && budget->events > 0);
    const uint64_t wait_ns = worker_wait_ns(worker, may_block, &asleep);
    const uint32_t events_max = budget->events < WORKER_EVENTS_MAX ? budget->events : WORKER_EVENTS_MAX;
    const uint32_t count = net_engine_poll(worker->engine, worker->events, events_max, wait_ns);
    BASE_ASSERT(count <= events_max);
    if (asleep)
        shuffle_mailroom_awake(worker->mailroom, worker->local);
    bool worked = count > 0;
    bool woken = false;
    for (uint32_t i = 0; i < count; i++) {
        if (worker->events[i].kind == NET_EVENT_WOKEN)
            woken = true;
        else if (worker->task)
            shuffle_task_event(worker->task, &worker->events[i]);
    }
    if (woken)
        worked |= worker_run_commands(worker);
    if (worker->task)
        worked |= shuffle_task_turn(worker->task, budget);
    worker->worked = worked;
    return worked;
}
