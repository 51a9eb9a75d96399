#include "shuffle/worker/task.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

/* ---- for a kind ---- */

void shuffle_task_begin(struct shuffle_task *task, const struct shuffle_task_ops *ops,
                        const struct base_machine *machine, const struct shuffle_task_config *config)
{
    BASE_ASSERT(ops->work && ops->free && machine->count >= SHUFFLE_TASK_OWN);
    BASE_ASSERT(config->worker >= config->local_first && config->worker - config->local_first < config->local_count);
    task->ops = ops;
    task->config = *config;
    base_state_begin(&task->state, machine, SHUFFLE_TASK_OPENED);
}

enum base_status shuffle_task_open_mesh(struct shuffle_task *task, const struct shuffle_mesh_raw *raw,
                                        struct base_error *error)
{
    const struct shuffle_task_config *of = &task->config;
    const struct shuffle_job *job = of->job;
    BASE_ASSERT(!task->mesh && !task->node_name);
    task->node_name = calloc(job->workers, sizeof *task->node_name);
    if (!task->node_name)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the names of %u workers", job->workers);
    for (uint32_t i = 0; i < job->node_count; i++)
        for (uint32_t w = 0; w < job->node[i].count; w++)
            task->node_name[job->node[i].first + w] = job->node[i].name;
    struct shuffle_mesh_config config = {.engine = of->engine,
                                         .governor = of->governor,
                                         .worker = of->worker,
                                         .workers = job->workers,
                                         .local_first = of->local_first,
                                         .local_count = of->local_count,
                                         .address = job->address,
                                         .node_name = task->node_name,
                                         .listener_fd = of->listener_fd,
                                         .key = of->key,
                                         .job = job->id,
                                         .mailroom = of->mailroom,
                                         .connect_timeout_ns = SHUFFLE_CONNECT_TIMEOUT_NS,
                                         .raw = raw};
    memcpy(config.token, job->token, sizeof config.token);
    return shuffle_mesh_open(&config, &task->mesh, error);
}

void shuffle_task_free_mesh(struct shuffle_task *task)
{
    shuffle_mesh_free(task->mesh);
    free(task->node_name);
    task->mesh = NULL;
    task->node_name = NULL;
}

void shuffle_task_report(struct shuffle_task *task, int step, const struct base_error *error)
{
    task->config.report(task->config.context, task->config.worker, step, error);
}

void shuffle_task_reach(struct shuffle_task *task, uint32_t state, int step)
{
    base_state_enter(&task->state, state);
    shuffle_task_report(task, step, NULL);
}

bool shuffle_task_over(const struct shuffle_task *task)
{
    const uint32_t over = SHUFFLE_TASK_FROM(FINISHED) | SHUFFLE_TASK_FROM(FAILED) | SHUFFLE_TASK_FROM(CLOSING) |
                          SHUFFLE_TASK_FROM(CLOSED);
    return over >> task->state.now & 1;
}

static void task_stop_own(struct shuffle_task *task)
{
    if (task->ops->stop)
        task->ops->stop(task);
}

void shuffle_task_fail(struct shuffle_task *task, const struct base_error *error)
{
    if (shuffle_task_over(task))
        return;
    BASE_ASSERT(error->status != BASE_OK);
    base_state_enter(&task->state, SHUFFLE_TASK_FAILED);
    shuffle_task_report(task, SHUFFLE_STEP_FAILED, error);
    task_stop_own(task);
    shuffle_mesh_close(task->mesh, true);
}

/* ---- for the worker ---- */

void shuffle_task_event(struct shuffle_task *task, const struct net_event *event)
{
    if (event->kind == NET_EVENT_FILE) {
        BASE_ASSERT(task->ops->file_event); /* who submitted it, if the task has none? */
        task->ops->file_event(task, event);
        return;
    }
    struct base_error error = {0};
    if (shuffle_mesh_event(task->mesh, event, &error) != BASE_OK)
        shuffle_task_fail(task, &error);
}

static void task_turn_closing(struct shuffle_task *task)
{
    if (shuffle_mesh_closed(task->mesh) && (!task->ops->idle || task->ops->idle(task)))
        shuffle_task_reach(task, SHUFFLE_TASK_CLOSED, SHUFFLE_STEP_CLOSED);
}

bool shuffle_task_turn(struct shuffle_task *task, const struct shuffle_budget *budget)
{
    bool worked = false;
    struct base_error error = {0};
    if (task->state.now == SHUFFLE_TASK_CLOSED)
        return false;
    if (task->ops->begin)
        task->ops->begin(task, budget);
    if (shuffle_mesh_turn(task->mesh, &worked, &error) != BASE_OK)
        shuffle_task_fail(task, &error);
    switch (task->state.now) {
    case SHUFFLE_TASK_CONNECTING:
        if (shuffle_mesh_connected(task->mesh))
            shuffle_task_reach(task, SHUFFLE_TASK_CONNECTED, SHUFFLE_STEP_CONNECTED);
        break;
    case SHUFFLE_TASK_CLOSING:
        task_turn_closing(task);
        break;
    default:
        worked |= task->ops->work(task, budget);
        break;
    }
    return worked;
}

uint64_t shuffle_task_deadline_ns(const struct shuffle_task *task)
{
    const uint64_t mesh_ns = shuffle_mesh_deadline_ns(task->mesh);
    const uint64_t own_ns = task->ops->deadline_ns ? task->ops->deadline_ns(task) : UINT64_MAX;
    return base_min_u64(mesh_ns, own_ns);
}

/* ---- for who gives it orders ---- */

void shuffle_task_connect(struct shuffle_task *task)
{
    if (task->state.now != SHUFFLE_TASK_OPENED)
        return;
    base_state_enter(&task->state, SHUFFLE_TASK_CONNECTING);
    struct base_error error = {0};
    if (shuffle_mesh_connect(task->mesh, &error) != BASE_OK)
        shuffle_task_fail(task, &error);
}

void shuffle_task_close(struct shuffle_task *task, bool abort)
{
    if (task->state.now == SHUFFLE_TASK_CLOSING || task->state.now == SHUFFLE_TASK_CLOSED)
        return;
    const bool failed = task->state.now == SHUFFLE_TASK_FAILED;
    base_state_enter(&task->state, SHUFFLE_TASK_CLOSING);
    task_stop_own(task);
    if (!failed) /* a task that failed has closed its mesh */
        shuffle_mesh_close(task->mesh, abort);
}

void shuffle_task_free(struct shuffle_task *task)
{
    if (!task)
        return;
    if (task->mesh && task->state.now == SHUFFLE_TASK_OPENED)
        shuffle_mesh_close(task->mesh, true); /* it has no connection yet: closed at once */
    task->ops->free(task);
}
