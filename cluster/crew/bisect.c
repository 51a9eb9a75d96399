/* The crew's part in measuring the network: hands a step to all workers and adds up what they saw. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/crew/internal.h"

static void command_measure(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    base_clock_thread_cpu_ns(&member->step_user_ns, &member->step_system_ns);
    if (member->bisect)
        bisect_task_measure(member->bisect, &member->crew->measure);
}

void crew_bisect_collect(struct crew_member *member)
{
    struct cluster_crew *crew = member->crew;
    uint64_t user_ns, system_ns;
    base_clock_thread_cpu_ns(&user_ns, &system_ns);
    struct bisect_share share;
    bisect_task_share(member->bisect, &share);
    pthread_mutex_lock(&crew->lock);
    struct cluster_measured *sum = &crew->measured;
    for (uint32_t i = 0; i < sum->receive_count; i++)
        sum->bytes[i] += share.node_bytes[crew->measure.receive[i]];
    BASE_ASSERT(share.window_count == sum->window_count);
    for (uint32_t i = 0; i < sum->window_count; i++)
        sum->window[i] += share.window[i];
    share.sum.cpu_user_ns += user_ns - member->step_user_ns;
    share.sum.cpu_system_ns += system_ns - member->step_system_ns;
    cluster_bisect_measures_add_worker(&sum->sum, &share.sum);
    pthread_mutex_unlock(&crew->lock);
}

void crew_bisect_forget(struct cluster_crew *crew)
{
    free(crew->measure.send);
    free(crew->measure.receive);
    free(crew->measured.bytes);
    free(crew->measured.window);
    crew->measure = (struct cluster_measure){0};
    crew->measured = (struct cluster_measured){0};
    crew->measuring = false;
}

/* Orders come from outside: nodes must exist and be others. */
static enum base_status measure_check_nodes(const struct cluster_crew *crew, const uint32_t *node, uint32_t count,
                                            struct base_error *error)
{
    for (uint32_t i = 0; i < count; i++)
        if (node[i] >= crew->plan.job.node_count || crew->plan.job.node[node[i]].first == crew->first_worker)
            return base_error_set(error, BASE_PROTOCOL, "ordered to measure the path to a node that does not exist");
    return BASE_OK;
}

static enum base_status check_order(const struct cluster_crew *crew, const struct cluster_measure *order,
                                    struct base_error *error)
{
    if (crew->plan.kind != CLUSTER_KIND_BISECT)
        return base_error_set(error, BASE_PROTOCOL, "ordered to measure in a job that does not");
    if (crew->measuring) /* workers still use the order that runs */
        return base_error_set(error, BASE_PROTOCOL, "ordered to measure step %u while step %u runs", order->step,
                              crew->measure.step);
    const enum base_status status = measure_check_nodes(crew, order->send, order->send_count, error);
    return status == BASE_OK ? measure_check_nodes(crew, order->receive, order->receive_count, error) : status;
}

static enum base_status take_order(struct cluster_crew *crew, struct cluster_measure *order, struct base_error *error)
{
    const enum base_status status = check_order(crew, order, error);
    if (status != BASE_OK)
        return status;
    crew_bisect_forget(crew);
    crew->measure = *order;
    memset(order, 0, sizeof *order);
    const struct cluster_measure *taken = &crew->measure;
    if (taken->last)
        return BASE_OK;
    struct cluster_measured *sum = &crew->measured;
    sum->step = taken->step;
    sum->receive_count = taken->receive_count;
    sum->bytes = calloc((size_t)taken->receive_count + 1, sizeof *sum->bytes);
    sum->window_count = cluster_bisect_windows(taken->duration_ns);
    sum->window = calloc(sum->window_count, sizeof *sum->window);
    return sum->bytes && sum->window ? BASE_OK
                                     : base_error_set(error, BASE_NO_MEMORY, "no memory for a step of a measurement");
}

enum base_status cluster_crew_measure(struct cluster_crew *crew, struct cluster_measure *order,
                                      struct base_error *error)
{
    enum base_status status = crew_need_job(crew, error);
    if (status == BASE_OK)
        status = take_order(crew, order, error);
    free(order->send);
    free(order->receive);
    memset(order, 0, sizeof *order);
    if (status != BASE_OK)
        return status;
    crew->measuring = true;
    crew_post_all(crew, command_measure);
    return BASE_OK;
}

const struct cluster_measured *cluster_crew_measured(const struct cluster_crew *crew)
{
    return &crew->measured;
}
