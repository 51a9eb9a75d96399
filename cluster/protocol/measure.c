#include "cluster/protocol/measure.h"

#include "base/assert.h"

static const struct base_measure measures_list[] = {CLUSTER_MEASURE_LIST(BASE_MEASURE) JOIN_TASK_MEASURE_LIST(
    BASE_MEASURE) SHUFFLE_EXCHANGE_COUNTER_LIST(BASE_MEASURE) NET_COUNTER_LIST(BASE_MEASURE)};
_Static_assert(sizeof measures_list / sizeof *measures_list == CLUSTER_MEASURES, "the struct holds the list, no more");

const struct base_measure *cluster_measure(uint32_t index)
{
    BASE_ASSERT(index < CLUSTER_MEASURES);
    return &measures_list[index];
}

/* The struct is an array of uint64_t: every field of it comes from the list. */
void cluster_measure_set(struct cluster_measures *measures, uint32_t index, uint64_t value)
{
    BASE_ASSERT(index < CLUSTER_MEASURES);
    ((uint64_t *)measures)[index] = value;
}

void cluster_measures_add_worker(struct cluster_measures *node, const struct cluster_measures *worker)
{
    base_measures_add_worker(measures_list, CLUSTER_MEASURES, node, worker);
}

void cluster_measures_add_node(struct cluster_measures *job, const struct cluster_measures *node)
{
    base_measures_add_node(measures_list, CLUSTER_MEASURES, job, node);
}
