/* A job that measures the network: the coordinator's part.
 *
 * The schedule (bisect/plan.c) gives one step after the other. A step is told to all nodes; when all have said what
 * they saw, the sums go to the client and to the schedule, which may choose its next cut by them. So the client has
 * whatever was measured, also when the job ends early. After the last step a last order makes nodes finish and report.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

struct coordinator_bisect {
    struct cluster_bisect_plan *plan;
    const struct cluster_bisect_step *step; /* NULL: all are done */
    uint32_t index;                         /* of the step, from 1 */
    uint64_t duration_ns;
    struct cluster_measurement sum; /* of the step; its arrays are this struct's */
    uint32_t flow_room;
};

void coordinator_bisect_free(struct coordinator_bisect *bisect)
{
    if (!bisect)
        return;
    cluster_bisect_plan_close(bisect->plan);
    free(bisect->sum.flow_bytes);
    free(bisect->sum.window);
    free(bisect);
}

static enum base_status bisect_no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the results of a measurement");
}

static enum base_status send_schedule(struct cluster_coordinator *c, const struct coordinator_job *job,
                                      struct base_error *error)
{
    const struct coordinator_bisect *bisect = job->bisect;
    struct cluster_schedule_node *node = calloc(job->node_count, sizeof *node);
    if (!node)
        return bisect_no_memory(error);
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, job->client);
    action->owned = true;
    action->message.kind = CLUSTER_MESSAGE_SCHEDULE;
    action->message.job = job->id;
    action->message.schedule = (struct cluster_schedule){.step_count = cluster_bisect_plan_steps(bisect->plan),
                                                         .expected_ns = cluster_bisect_plan_expected_ns(bisect->plan),
                                                         .duration_ns = bisect->duration_ns,
                                                         .warmup_ns = cluster_bisect_warmup_ns(bisect->duration_ns),
                                                         .window_ns = cluster_bisect_window_ns(bisect->duration_ns),
                                                         .node_count = job->node_count,
                                                         .node = node};
    for (uint32_t i = 0; i < job->node_count; i++) {
        node[i].name = strdup(job->node[i].node->hello.name);
        node[i].workers = job->node[i].node->hello.worker_count;
        node[i].card = job->node[i].card;
        if (!node[i].name)
            return bisect_no_memory(error);
    }
    return BASE_OK;
}

static const char *rack_of(const struct coordinator_job *job, uint32_t node)
{
    const struct cluster_bisect_request *request = &job->submit.bisect;
    for (uint32_t i = 0; i < request->rack_count; i++)
        if (strcmp(request->rack[i].node, job->node[node].node->hello.name) == 0)
            return request->rack[i].rack;
    return NULL;
}

/* Numbers the racks by their first nodes. Names are looked up once: all nodes wait for the coordinator meanwhile. */
static void number_racks(const struct coordinator_job *job, const char **name, uint32_t *rack)
{
    uint32_t racks = 0;
    for (uint32_t i = 0; i < job->node_count; i++) {
        name[i] = rack_of(job, i);
        rack[i] = racks;
        for (uint32_t k = 0; k < i && name[i] && rack[i] == racks; k++)
            if (name[k] && strcmp(name[k], name[i]) == 0)
                rack[i] = rack[k];
        racks += rack[i] == racks;
    }
}

static enum base_status open_plan(const struct coordinator_job *job, struct coordinator_bisect *bisect,
                                  struct base_error *error)
{
    const bool known = job->submit.bisect.rack_count > 0;
    const char **name = calloc(job->node_count, sizeof *name);
    uint32_t *rack = calloc(job->node_count, sizeof *rack);
    enum base_status status = BASE_OK;
    if (!name || !rack)
        status = bisect_no_memory(error);
    if (status == BASE_OK) {
        number_racks(job, name, rack);
        status =
            cluster_bisect_plan_open(&job->submit.bisect, job->node_count, known ? rack : NULL, &bisect->plan, error);
    }
    free(name);
    free(rack);
    return status;
}

enum base_status coordinator_bisect_plan(struct cluster_coordinator *c, struct coordinator_job *job,
                                         struct base_error *error)
{
    const struct cluster_bisect_request *request = &job->submit.bisect;
    struct coordinator_bisect *bisect = calloc(1, sizeof *bisect);
    if (!bisect)
        return bisect_no_memory(error);
    BASE_ASSERT(!job->bisect && job->planned);
    job->bisect = bisect;
    const enum base_status status = open_plan(job, bisect, error);
    if (status != BASE_OK) {
        job->bad_request = status == BASE_INVALID;
        return status;
    }
    bisect->duration_ns = request->duration_ns;
    BASE_ASSERT(job->node_count >= 2);
    bisect->flow_room = job->node_count * (job->node_count - 1);
    bisect->sum.window_count = cluster_bisect_windows(bisect->duration_ns);
    bisect->sum.window = calloc(bisect->sum.window_count, sizeof *bisect->sum.window);
    bisect->sum.flow_bytes = calloc(bisect->flow_room, sizeof *bisect->sum.flow_bytes);
    if (!bisect->sum.window || !bisect->sum.flow_bytes)
        return bisect_no_memory(error);
    return job->client ? send_schedule(c, job, error) : BASE_OK;
}

void coordinator_bisect_next(struct coordinator_job *job)
{
    struct coordinator_bisect *bisect = job->bisect;
    BASE_ASSERT(bisect->index == 0 || bisect->step); /* nothing comes after the last */
    bisect->step = cluster_bisect_plan_next(bisect->plan);
    bisect->index++;
    struct cluster_measurement *sum = &bisect->sum;
    uint64_t *window = sum->window, *flow_bytes = sum->flow_bytes;
    *sum = (struct cluster_measurement){
        .step = bisect->index, .window_count = sum->window_count, .window = window, .flow_bytes = flow_bytes};
    memset(window, 0, sum->window_count * sizeof *window);
    memset(flow_bytes, 0, bisect->flow_room * sizeof *flow_bytes);
}

bool coordinator_bisect_last(const struct coordinator_job *job)
{
    return !job->bisect->step;
}

/* Numbers of those a node sends to, or hears from; malloc'ed. */
static uint32_t *others_of(const struct cluster_bisect_step *step, uint32_t node, bool sending, uint32_t *count)
{
    uint32_t *others = calloc((size_t)step->flow_count + 1, sizeof *others);
    *count = 0;
    for (uint32_t i = 0; others && i < step->flow_count; i++) {
        const struct cluster_flow *flow = &step->flow[i];
        if ((sending ? flow->from : flow->to) == node)
            others[(*count)++] = sending ? flow->to : flow->from;
    }
    return others;
}

void coordinator_bisect_tell(struct cluster_coordinator *c, uint32_t node)
{
    const struct coordinator_job *job = c->run;
    const struct coordinator_bisect *bisect = job->bisect;
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, job->node[node].peer);
    action->owned = true;
    action->message.kind = CLUSTER_MESSAGE_MEASURE;
    action->message.job = job->id;
    struct cluster_measure *measure = &action->message.measure;
    measure->step = bisect->index;
    measure->last = !bisect->step;
    if (measure->last)
        return;
    measure->warmup_ns = cluster_bisect_warmup_ns(bisect->duration_ns);
    measure->duration_ns = bisect->duration_ns;
    measure->window_ns = cluster_bisect_window_ns(bisect->duration_ns);
    measure->streams = job->submit.bisect.streams;
    measure->send = others_of(bisect->step, node, true, &measure->send_count);
    measure->receive = others_of(bisect->step, node, false, &measure->receive_count);
    if (!measure->send || !measure->receive)
        c->broken = true;
}

enum base_status coordinator_bisect_measured(struct coordinator_job *job, uint32_t node,
                                             const struct cluster_measured *measured, struct base_error *error)
{
    struct coordinator_bisect *bisect = job->bisect;
    const struct cluster_bisect_step *step = bisect->step;
    struct cluster_measurement *sum = &bisect->sum;
    if (!step || measured->step != bisect->index || measured->window_count != sum->window_count)
        return base_error_set(error, BASE_PROTOCOL, "it measured step %u while step %u ran", measured->step,
                              bisect->index);
    uint32_t next = 0;
    for (uint32_t i = 0; i < step->flow_count; i++)
        if (step->flow[i].to == node && next++ < measured->receive_count)
            sum->flow_bytes[i] = measured->bytes[next - 1];
    if (next != measured->receive_count)
        return base_error_set(error, BASE_PROTOCOL, "it measured %u flows instead of %u", measured->receive_count,
                              next);
    for (uint32_t i = 0; i < sum->window_count; i++)
        sum->window[i] += measured->window[i];
    cluster_bisect_measures_add_node(&sum->sum, &measured->sum);
    if (measured->host_busy_permille > sum->host_busy_permille) {
        sum->host_busy_permille = measured->host_busy_permille;
        sum->host_processors = measured->host_processors;
    }
    return BASE_OK;
}

static void *copy_of(const void *from, size_t count, size_t bytes)
{
    void *copy = calloc(count + 1, bytes);
    if (copy && count)
        memcpy(copy, from, count * bytes);
    return copy;
}

void coordinator_bisect_end(struct cluster_coordinator *c, struct coordinator_job *job)
{
    struct coordinator_bisect *bisect = job->bisect;
    const struct cluster_bisect_step *step = bisect->step;
    BASE_ASSERT(step && step->flow_count <= bisect->flow_room);
    cluster_bisect_plan_result(bisect->plan, bisect->sum.flow_bytes);
    if (!job->client)
        return;
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, job->client);
    action->owned = true;
    action->message.kind = CLUSTER_MESSAGE_MEASUREMENT;
    action->message.job = job->id;
    struct cluster_measurement *told = &action->message.measurement;
    *told = bisect->sum;
    told->kind = step->kind;
    told->node = step->node;
    told->origin = step->origin;
    told->half_size = step->half ? job->node_count : 0;
    told->half = copy_of(step->half, told->half_size, sizeof *told->half);
    told->flow_count = step->flow_count;
    told->flow = copy_of(step->flow, step->flow_count, sizeof *told->flow);
    told->flow_bytes = copy_of(bisect->sum.flow_bytes, step->flow_count, sizeof *told->flow_bytes);
    told->window = copy_of(bisect->sum.window, told->window_count, sizeof *told->window);
    if (!told->half || !told->flow || !told->flow_bytes || !told->window)
        c->broken = true;
}
