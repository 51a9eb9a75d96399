/* Which cuts of the nodes into two halves are measured: all of them, or those where a search for the smallest leads:
 * around racks, around groups of nodes that are close to each other, and then exchanges of single nodes. */
#include <string.h>

#include "base/bytes.h"
#include "cluster/bisect/internal.h"

static bool cut_measured(const struct cluster_bisect_plan *plan, const uint8_t *half)
{
    for (uint32_t i = 0; i < plan->cut_count; i++)
        if (memcmp(&plan->cuts[(size_t)i * plan->nodes], half, plan->nodes) == 0)
            return true;
    return false;
}

/* Node 0 is in half 0: so a cut has one form. */
static void turn_round(const struct cluster_bisect_plan *plan, uint8_t *half)
{
    const uint8_t flip = half[0];
    for (uint32_t i = 0; i < plan->nodes; i++)
        half[i] ^= flip;
}

/* The cut after `half` when subsets of size nodes / 2 are listed in order; false: there is none. */
static bool next_subset(uint8_t *half, uint32_t nodes)
{
    uint32_t ones = 0, i = nodes;
    while (i > 0 && half[i - 1]) { /* a tail of ones */
        i--;
        ones++;
    }
    while (i > 0 && !half[i - 1])
        i--;
    if (i == 0)
        return false;
    half[i - 1] = 0;
    memset(&half[i], 1, ones + 1);
    memset(&half[i + ones + 1], 0, nodes - i - ones - 1);
    return true;
}

/* Half 1 of an even number of nodes is the one without node 0; of an odd number, the smaller one, wherever node 0 is.
 */
static bool next_of_all(struct cluster_bisect_plan *plan, uint8_t *half)
{
    const uint32_t nodes = plan->nodes, size = nodes / 2;
    const bool even = nodes % 2 == 0;
    if (plan->cut_count == 0) { /* the first in order: the ones as far to the front as they go */
        memset(half, 0, nodes);
        memset(&half[even ? 1 : 0], 1, size);
        turn_round(plan, half);
        return true;
    }
    memcpy(half, &plan->cuts[(size_t)(plan->cut_count - 1) * nodes], nodes);
    uint32_t ones = 0;
    for (uint32_t i = 0; i < nodes; i++)
        ones += half[i];
    if (ones != size) /* it was turned round */
        for (uint32_t i = 0; i < nodes; i++)
            half[i] ^= 1;
    if (!(even ? next_subset(&half[1], nodes - 1) : next_subset(half, nodes)))
        return false;
    turn_round(plan, half);
    return true;
}

/* Whole racks that make a half: false when those of the mask do not. */
static bool unite_racks(const struct cluster_bisect_plan *plan, uint32_t mask, uint8_t *half)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < plan->nodes; i++) {
        half[i] = mask >> plan->rack[i] & 1;
        size += half[i];
    }
    return size == plan->nodes / 2;
}

/* A half filled with rack after rack, from `first` on: at most one is torn apart. */
static void fill_racks(const struct cluster_bisect_plan *plan, uint32_t first, uint8_t *half)
{
    uint32_t left = plan->nodes / 2;
    memset(half, 0, plan->nodes);
    for (uint32_t k = 0; k < plan->rack_count; k++)
        for (uint32_t i = 0; i < plan->nodes && left > 0; i++)
            if (plan->rack[i] == (first + k) % plan->rack_count) {
                half[i] = 1;
                left--;
            }
}

/* Half of the nodes, racks kept together as far as that goes. */
static bool next_racks(struct cluster_bisect_plan *plan, uint8_t *half)
{
    if (!plan->rack || plan->rack_count < 2 || plan->cut_count >= PLAN_RACKS_MAX)
        return false;
    const uint32_t masks = plan->rack_count <= PLAN_RACKS_UNITED ? 1U << plan->rack_count : 0;
    while (plan->rack_mask < masks)
        if (unite_racks(plan, plan->rack_mask++, half)) {
            turn_round(plan, half);
            if (!cut_measured(plan, half))
                return true;
        }
    while (plan->rack_first < plan->rack_count) {
        fill_racks(plan, plan->rack_first++, half);
        turn_round(plan, half);
        if (!cut_measured(plan, half))
            return true;
    }
    return false;
}

static uint64_t cut_closeness(const struct cluster_bisect_plan *plan, uint32_t a, uint32_t b)
{
    return plan->round_bytes[(size_t)a * plan->nodes + b] + plan->round_bytes[(size_t)b * plan->nodes + a];
}

/* A node, and those best connected with it, make a half. */
static bool next_group(struct cluster_bisect_plan *plan, uint8_t *half)
{
    while (plan->group < plan->nodes && plan->groups < PLAN_GROUPS_MAX) {
        const uint32_t centre = plan->group++;
        memset(half, 0, plan->nodes);
        half[centre] = 1;
        for (uint32_t size = 1; size < plan->nodes / 2; size++) {
            uint32_t closest = UINT32_MAX;
            for (uint32_t i = 0; i < plan->nodes; i++)
                if (!half[i] &&
                    (closest == UINT32_MAX || cut_closeness(plan, centre, i) > cut_closeness(plan, centre, closest)))
                    closest = i;
            half[closest] = 1;
        }
        turn_round(plan, half);
        if (cut_measured(plan, half))
            continue;
        plan->groups++;
        return true;
    }
    return false;
}

static bool draw_cut(struct cluster_bisect_plan *plan, uint8_t *half)
{
    for (uint32_t draw = 0; draw < PLAN_DRAWS_MAX; draw++) {
        memset(half, 0, plan->nodes);
        for (uint32_t left = plan->nodes / 2; left > 0;) {
            const uint32_t i = (uint32_t)base_random_below(&plan->random, plan->nodes);
            left -= !half[i];
            half[i] = 1;
        }
        turn_round(plan, half);
        if (!cut_measured(plan, half))
            return true;
    }
    return false;
}

/* The smallest cut so far with two nodes exchanged. */
static bool draw_exchange(struct cluster_bisect_plan *plan, uint8_t *half)
{
    for (uint32_t draw = 0; draw < PLAN_DRAWS_MAX; draw++) {
        const uint32_t a = (uint32_t)base_random_below(&plan->random, plan->nodes);
        const uint32_t b = (uint32_t)base_random_below(&plan->random, plan->nodes);
        memcpy(half, plan->best, plan->nodes);
        if (half[a] == half[b])
            continue;
        half[a] ^= 1;
        half[b] ^= 1;
        turn_round(plan, half);
        if (!cut_measured(plan, half))
            return true;
    }
    return false;
}

/* Racks and groups; then, unless only the smallest is looked for, random cuts up to half of the number; then exchanges,
 * until as many in a row as there are nodes made nothing smaller. */
static bool next_of_search(struct cluster_bisect_plan *plan, uint8_t *half)
{
    enum cluster_bisect_origin *origin = &plan->cut_origin[plan->cut_count];
    *origin = CLUSTER_BISECT_ORIGIN_RACKS;
    if (next_racks(plan, half))
        return true;
    *origin = CLUSTER_BISECT_ORIGIN_GROUP;
    if (next_group(plan, half))
        return true;
    const bool least = plan->request.cuts == CLUSTER_BISECT_LEAST;
    *origin = CLUSTER_BISECT_ORIGIN_RANDOM;
    if (!least && plan->cut_count < (plan->cut_limit + 1) / 2 && draw_cut(plan, half))
        return true;
    *origin = CLUSTER_BISECT_ORIGIN_SEARCH;
    if (plan->misses < plan->nodes && draw_exchange(plan, half))
        return true;
    *origin = CLUSTER_BISECT_ORIGIN_RANDOM;
    return !least && draw_cut(plan, half);
}

/* A cut that was not measured yet. */
static bool next_cut(struct cluster_bisect_plan *plan)
{
    if (plan->cuts_done || plan->cut_count == plan->cut_limit)
        return false;
    uint8_t *half = &plan->cuts[(size_t)plan->cut_count * plan->nodes];
    if (!(plan->searching ? next_of_search(plan, half) : next_of_all(plan, half)))
        return false;
    plan->cut_at = plan->cut_count++;
    return true;
}

/* The smallest, when it is clearly smaller than the others. */
static bool repeat_cut(struct cluster_bisect_plan *plan)
{
    plan->cuts_done = true;
    if (plan->cut_count < 2 || plan->cut_repeats == PLAN_CUT_REPEATS)
        return false;
    const uint64_t mark = bisect_plan_low_mark(plan, plan->cut_bytes, plan->cut_count);
    plan->cut_at = 0;
    for (uint32_t i = 1; i < plan->cut_count; i++)
        if (plan->cut_bytes[i] < plan->cut_bytes[plan->cut_at])
            plan->cut_at = i;
    plan->cut_repeats++;
    return plan->cut_bytes[plan->cut_at] < mark;
}

bool bisect_plan_cut(struct cluster_bisect_plan *plan)
{
    if (!next_cut(plan) && !repeat_cut(plan))
        return false;
    const uint8_t *half = &plan->cuts[(size_t)plan->cut_at * plan->nodes];
    plan->step.half = half;
    plan->step.origin = plan->cut_origin[plan->cut_at];
    for (uint32_t from = 0; from < plan->nodes; from++)
        for (uint32_t to = 0; to < plan->nodes; to++)
            if (half[from] != half[to])
                bisect_plan_add_flow(plan, from, to);
    return true;
}
