#include "base/measure.h"

#include "base/bytes.h"

uint64_t base_fold(enum base_fold fold, uint64_t total, uint64_t share)
{
    switch (fold) {
    case BASE_FOLD_SUM:
        return total + share;
    case BASE_FOLD_SUM_KNOWN:
        return total == BASE_MEASURE_UNKNOWN || share == BASE_MEASURE_UNKNOWN ? BASE_MEASURE_UNKNOWN : total + share;
    case BASE_FOLD_MAX:
        return base_max_u64(total, share);
    case BASE_FOLD_MIN:
        return total == 0 || (share != 0 && share < total) ? share : total;
    case BASE_FOLD_NONE:
        return total;
    }
    return total;
}

/* Such a struct is an array of uint64_t: every field of it comes from the list. */
void base_measures_add_worker(const struct base_measure *list, uint32_t count, void *node, const void *worker)
{
    uint64_t *total = node;
    const uint64_t *share = worker;
    for (uint32_t i = 0; i < count; i++)
        total[i] = base_fold(list[i].over_workers, total[i], share[i]);
}

void base_measures_add_node(const struct base_measure *list, uint32_t count, void *total, const void *node)
{
    uint64_t *sum = total;
    const uint64_t *share = node;
    for (uint32_t i = 0; i < count; i++)
        sum[i] = base_fold(list[i].over_nodes, sum[i], share[i]);
}
