#include "cluster/bisect/measure.h"

const struct base_measure cluster_bisect_measure[CLUSTER_BISECT_MEASURES] = {CLUSTER_BISECT_MEASURE_LIST(BASE_MEASURE)};

void cluster_bisect_measures_add_worker(struct cluster_bisect_measures *node,
                                        const struct cluster_bisect_measures *worker)
{
    base_measures_add_worker(cluster_bisect_measure, CLUSTER_BISECT_MEASURES, node, worker);
}

void cluster_bisect_measures_add_node(struct cluster_bisect_measures *total, const struct cluster_bisect_measures *node)
{
    base_measures_add_node(cluster_bisect_measure, CLUSTER_BISECT_MEASURES, total, node);
}
