#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "cluster/bisect/internal.h"

const char *cluster_bisect_kind_word(enum cluster_bisect_kind kind)
{
    static const char *const words[] = {
#define X(name, word) word,
        CLUSTER_BISECT_KIND_LIST(X)
#undef X
    };
    return (unsigned)kind < CLUSTER_BISECT_KIND_COUNT ? words[kind] : "unknown";
}

const char *cluster_bisect_origin_word(enum cluster_bisect_origin origin)
{
    static const char *const words[] = {
#define X(name, word) word,
        CLUSTER_BISECT_ORIGIN_LIST(X)
#undef X
    };
    return (unsigned)origin < CLUSTER_BISECT_ORIGIN_COUNT ? words[origin] : "unknown";
}

uint64_t cluster_bisect_warmup_ns(uint64_t duration_ns)
{
    return base_max_u64(100 * BASE_NS_PER_MS, duration_ns / 5);
}

uint64_t cluster_bisect_window_ns(uint64_t duration_ns)
{
    return base_min_u64(CLUSTER_BISECT_WINDOW_NS, duration_ns);
}

uint32_t cluster_bisect_windows(uint64_t duration_ns)
{
    return (uint32_t)(duration_ns / cluster_bisect_window_ns(duration_ns));
}

uint32_t cluster_bisect_streams(uint32_t asked, uint32_t from_workers, uint32_t to_workers)
{
    const uint64_t pairs = (uint64_t)from_workers * to_workers;
    const uint64_t wanted = asked ? asked : base_max_u64(from_workers, to_workers);
    return (uint32_t)base_min_u64(wanted, pairs);
}

void cluster_bisect_stream(uint32_t index, uint32_t from_workers, uint32_t to_workers, uint32_t *from, uint32_t *to)
{
    *from = index % from_workers;
    *to = (*from + index / from_workers) % to_workers;
}

/* ---- how many cuts there are ---- */

/* Balanced cuts of that many nodes: halves that differ by one node at most, each cut once. */
static uint64_t cuts_of(uint32_t nodes)
{
    uint64_t halvings = 1;
    for (uint32_t i = 1; i <= nodes / 2; i++)
        halvings = halvings * (nodes - nodes / 2 + i) / i;
    return nodes % 2 ? halvings : halvings / 2;
}

static enum base_status plan_check(const struct cluster_bisect_request *request, uint32_t nodes,
                                   struct base_error *error)
{
    if (nodes < 2)
        return base_error_set(error, BASE_INVALID, "there is no network to measure: the cluster has one node only");
    if (request->cuts == CLUSTER_BISECT_ALL && nodes > CLUSTER_BISECT_ALL_NODES_MAX)
        return base_error_set(error, BASE_INVALID,
                              "%u nodes have too many balanced cuts to measure all: --cuts=N measures N of them, "
                              "--cuts=minimum looks for the smallest",
                              nodes);
    return BASE_OK;
}

static void choose_cuts(struct cluster_bisect_plan *plan)
{
    const struct cluster_bisect_request *request = &plan->request;
    const bool whole = plan->nodes <= CLUSTER_BISECT_WHOLE_NODES;
    const uint64_t all = plan->nodes <= CLUSTER_BISECT_ALL_NODES_MAX ? cuts_of(plan->nodes) : UINT32_MAX;
    if (request->cuts == CLUSTER_BISECT_ALL || (request->cuts == CLUSTER_BISECT_CUTS_DEFAULT && whole))
        plan->cut_limit = (uint32_t)all;
    else if (request->cuts == CLUSTER_BISECT_COUNT)
        plan->cut_limit = request->cut_count;
    else
        plan->cut_limit = request->cuts == CLUSTER_BISECT_LEAST ? PLAN_LEAST_CUTS : CLUSTER_BISECT_SEARCH_CUTS;
    plan->searching = request->cuts == CLUSTER_BISECT_LEAST || plan->cut_limit < all;
    plan->cut_limit = (uint32_t)base_min_u64(plan->cut_limit, all);
}

/* Without memory for them racks are not known: the search goes on without. */
static void take_racks(struct cluster_bisect_plan *plan, const uint32_t *rack)
{
    plan->rack = rack ? calloc(plan->nodes, sizeof *plan->rack) : NULL;
    for (uint32_t i = 0; plan->rack && i < plan->nodes; i++) {
        plan->rack[i] = rack[i];
        if (rack[i] >= plan->rack_count)
            plan->rack_count = rack[i] + 1;
    }
    plan->rack_mask = 1;
}

enum base_status cluster_bisect_plan_open(const struct cluster_bisect_request *request, uint32_t nodes,
                                          const uint32_t *rack, struct cluster_bisect_plan **plan,
                                          struct base_error *error)
{
    const enum base_status status = plan_check(request, nodes, error);
    if (status != BASE_OK)
        return status;
    struct cluster_bisect_plan *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the schedule of a measurement");
    made->request = *request;
    if (made->request.duration_ns == 0)
        made->request.duration_ns = BASE_NS_PER_S;
    made->nodes = nodes;
    made->rounds = nodes % 2 ? nodes : nodes - 1;
    made->pairs = nodes <= CLUSTER_BISECT_WHOLE_NODES;
    made->kind = made->pairs ? CLUSTER_BISECT_PAIR : CLUSTER_BISECT_ROUND;
    choose_cuts(made);
    base_random_seed(&made->random, nodes);
    made->flow = calloc((size_t)nodes * nodes, sizeof *made->flow);
    made->round_bytes = calloc((size_t)nodes * nodes, sizeof *made->round_bytes);
    made->pair_bytes = calloc((size_t)nodes * nodes, sizeof *made->pair_bytes);
    made->pair_repeats = calloc((size_t)nodes * nodes, sizeof *made->pair_repeats);
    made->sorted = calloc((size_t)nodes * nodes + made->cut_limit, sizeof *made->sorted);
    made->cut_bytes = calloc((size_t)made->cut_limit + 1, sizeof *made->cut_bytes);
    made->cut_origin = calloc((size_t)made->cut_limit + 1, sizeof *made->cut_origin);
    made->cuts = calloc((size_t)made->cut_limit + 1, nodes);
    made->best = calloc(1, nodes);
    if (!made->flow || !made->round_bytes || !made->cuts || !made->best || !made->pair_bytes || !made->pair_repeats ||
        !made->sorted || !made->cut_bytes || !made->cut_origin) {
        cluster_bisect_plan_close(made);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the schedule of a measurement of %u nodes", nodes);
    }
    take_racks(made, rack);
    *plan = made;
    return BASE_OK;
}

void cluster_bisect_plan_close(struct cluster_bisect_plan *plan)
{
    if (!plan)
        return;
    free(plan->flow);
    free(plan->pair_bytes);
    free(plan->pair_repeats);
    free(plan->sorted);
    free(plan->round_bytes);
    free(plan->cut_bytes);
    free(plan->cut_origin);
    free(plan->cuts);
    free(plan->best);
    free(plan->rack);
    free(plan);
}

/* ---- steps of known number ---- */

static uint32_t pairs_of(const struct cluster_bisect_plan *plan)
{
    return plan->nodes * (plan->nodes - 1);
}

static int plan_compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t steps_of(const struct cluster_bisect_plan *plan, enum cluster_bisect_kind kind)
{
    switch (kind) {
    case CLUSTER_BISECT_PAIR:
        return plan->pairs ? pairs_of(plan) + plan->nodes : 0;
    case CLUSTER_BISECT_ROUND:
        return plan->rounds;
    case CLUSTER_BISECT_ALL_TO_ALL:
        return 1;
    case CLUSTER_BISECT_INCAST:
    case CLUSTER_BISECT_OUTCAST:
        return plan->nodes;
    default:
        return plan->cut_limit + PLAN_CUT_REPEATS;
    }
}

uint64_t bisect_plan_low_mark(struct cluster_bisect_plan *plan, const uint64_t *values, uint32_t count)
{
    memcpy(plan->sorted, values, count * sizeof *values);
    qsort(plan->sorted, count, sizeof *plan->sorted, plan_compare_bytes);
    return plan->sorted[count / 2] / 100 * PLAN_LOW_PERCENT;
}

/* The lowest pair that has not come again too often, or UINT32_MAX. */
static uint32_t low_pair(struct cluster_bisect_plan *plan)
{
    const uint64_t mark = bisect_plan_low_mark(plan, plan->pair_bytes, pairs_of(plan));
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 0; i < pairs_of(plan); i++)
        if (plan->pair_bytes[i] < mark && plan->pair_repeats[i] < PLAN_PAIR_REPEATS &&
            (lowest == UINT32_MAX || plan->pair_bytes[i] < plan->pair_bytes[lowest]))
            lowest = i;
    return lowest;
}

void bisect_plan_add_flow(struct cluster_bisect_plan *plan, uint32_t from, uint32_t to)
{
    plan->flow[plan->step.flow_count++] = (struct cluster_flow){.from = from, .to = to};
}

static bool make_pair(struct cluster_bisect_plan *plan, uint32_t step)
{
    const uint32_t index = step < pairs_of(plan) ? step : low_pair(plan);
    if (index == UINT32_MAX)
        return false;
    if (step >= pairs_of(plan))
        plan->pair_repeats[index]++;
    const uint32_t from = index / (plan->nodes - 1), other = index % (plan->nodes - 1);
    bisect_plan_add_flow(plan, from, other < from ? other : other + 1);
    plan->pair_at = index;
    return true;
}

/* The circle method: one seat stays, the others move on by one each round. An odd number of nodes gets an empty seat,
 * whose partner has a rest. */
static void make_round(struct cluster_bisect_plan *plan, uint32_t round)
{
    const uint32_t seats = plan->rounds + 1, circle = seats - 1;
    plan->step.node = round;
    for (uint32_t i = 0; i < seats / 2; i++) {
        const uint32_t a = i == 0 ? circle : (round + i) % circle;
        const uint32_t b = (round + circle - i) % circle;
        if (a >= plan->nodes || b >= plan->nodes)
            continue;
        bisect_plan_add_flow(plan, a, b);
        bisect_plan_add_flow(plan, b, a);
    }
}

static void plan_make_all_to_all(struct cluster_bisect_plan *plan)
{
    for (uint32_t from = 0; from < plan->nodes; from++)
        for (uint32_t to = 0; to < plan->nodes; to++)
            if (from != to)
                bisect_plan_add_flow(plan, from, to);
}

static void make_cast(struct cluster_bisect_plan *plan, uint32_t node, bool incast)
{
    plan->step.node = node;
    for (uint32_t other = 0; other < plan->nodes; other++)
        if (other != node)
            bisect_plan_add_flow(plan, incast ? other : node, incast ? node : other);
}

/* ---- the interface ---- */

/* Step `index` of its kind; false: the kind has no more. */
static bool make_step(struct cluster_bisect_plan *plan, uint32_t index)
{
    plan->step = (struct cluster_bisect_step){.kind = plan->kind, .flow = plan->flow};
    if (index >= steps_of(plan, plan->kind))
        return false;
    switch (plan->kind) {
    case CLUSTER_BISECT_PAIR:
        return make_pair(plan, index);
    case CLUSTER_BISECT_ROUND:
        make_round(plan, index);
        return true;
    case CLUSTER_BISECT_ALL_TO_ALL:
        plan_make_all_to_all(plan);
        return true;
    case CLUSTER_BISECT_INCAST:
    case CLUSTER_BISECT_OUTCAST:
        make_cast(plan, index, plan->kind == CLUSTER_BISECT_INCAST);
        return true;
    default:
        return bisect_plan_cut(plan);
    }
}

const struct cluster_bisect_step *cluster_bisect_plan_next(struct cluster_bisect_plan *plan)
{
    while (plan->kind < CLUSTER_BISECT_KIND_COUNT) {
        if (make_step(plan, plan->next)) {
            plan->next++;
            return &plan->step;
        }
        plan->kind++;
        plan->next = 0;
    }
    return NULL;
}

static void cut_result(struct cluster_bisect_plan *plan, uint64_t sum)
{
    const bool first = plan->cut_bytes[plan->cut_at] == 0;
    plan->cut_bytes[plan->cut_at] = base_max_u64(plan->cut_bytes[plan->cut_at], sum);
    if (!first || plan->cuts_done)
        return;
    const bool smaller = plan->cut_count == 1 || sum < plan->best_bytes - plan->best_bytes / 50;
    plan->misses = smaller ? 0 : plan->misses + 1;
    if (plan->cut_count > 1 && sum >= plan->best_bytes)
        return;
    plan->best_bytes = sum;
    memcpy(plan->best, plan->step.half, plan->nodes);
}

void cluster_bisect_plan_result(struct cluster_bisect_plan *plan, const uint64_t *flow_bytes)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->step.flow_count; i++) {
        sum += flow_bytes[i];
        if (plan->step.kind == CLUSTER_BISECT_ROUND)
            plan->round_bytes[(size_t)plan->flow[i].from * plan->nodes + plan->flow[i].to] = flow_bytes[i];
    }
    if (plan->step.kind == CLUSTER_BISECT_PAIR)
        plan->pair_bytes[plan->pair_at] = base_max_u64(plan->pair_bytes[plan->pair_at], sum);
    if (plan->step.kind == CLUSTER_BISECT_CUT)
        cut_result(plan, sum);
}

uint32_t cluster_bisect_plan_steps(const struct cluster_bisect_plan *plan)
{
    uint32_t steps = 0;
    for (int kind = 0; kind < CLUSTER_BISECT_KIND_COUNT; kind++)
        steps += steps_of(plan, (enum cluster_bisect_kind)kind);
    return steps - (plan->cut_limit < 2 ? PLAN_CUT_REPEATS : 0);
}

uint64_t cluster_bisect_plan_expected_ns(const struct cluster_bisect_plan *plan)
{
    const uint64_t duration_ns = plan->request.duration_ns;
    return cluster_bisect_plan_steps(plan) *
           (duration_ns + cluster_bisect_warmup_ns(duration_ns) + PLAN_STEP_OVERHEAD_NS);
}
