#include "cluster/bisect/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"

enum {
    PLAN_RACKS_MAX = 16,    /* cuts that keep racks together */
    PLAN_RACKS_UNITED = 16, /* racks whose unions are tried */
    PLAN_GROUPS_MAX = 8,    /* cuts around groups of nodes */
    PLAN_LEAST_CUTS = 64,   /* that the search for the smallest may measure */
    PLAN_PAIR_REPEATS = 2,  /* of a pair that comes out low; of all of them, as many as there are nodes */
    PLAN_CUT_REPEATS = 4,   /* of the cuts that come out smallest */
    PLAN_LOW_PERCENT = 95,  /* below this share of the median something is measured again */
    PLAN_DRAWS_MAX = 64     /* for a cut that was not measured yet */
};
/* What a step takes besides its time: telling, and emptying the senders' buffers. */
#define PLAN_STEP_OVERHEAD_NS (UINT64_C(60) * BASE_NS_PER_MS)

struct cluster_bisect_plan {
    struct cluster_bisect_request request;
    uint32_t nodes, rounds;
    enum cluster_bisect_kind kind; /* of the step given last, or next */
    uint32_t next;                 /* within its kind */
    bool pairs, searching;
    uint32_t cut_limit;
    struct cluster_bisect_step step;
    struct cluster_flow *flow; /* room for all ordered pairs */
    uint64_t *pair_bytes;      /* by flow in the order of pairs: the best that each brought alone */
    uint8_t *pair_repeats;     /* how often it came again */
    uint32_t pair_at;          /* the pair that the step measures */
    uint64_t *sorted;          /* room for medians */
    uint64_t *round_bytes;     /* nodes * nodes: what each pair brought in its round */
    struct base_random random;
    /* cuts measured: cut_count times nodes bytes */
    uint8_t *cuts;
    uint64_t *cut_bytes; /* the best of each */
    enum cluster_bisect_origin *cut_origin;
    uint32_t cut_count, cut_at, cut_repeats; /* cut_at: the one that the step measures */
    bool cuts_done;
    uint8_t *best; /* the smallest so far */
    uint64_t best_bytes;
    uint32_t *rack;                             /* of each node; NULL: not known */
    uint32_t rack_count, rack_mask, rack_first; /* the next ones to put together, or to begin with */
    uint32_t groups;                            /* measured */
    uint32_t group;                             /* next node to look around of */
    uint32_t misses;                            /* exchanges in a row that made nothing smaller */
};

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
    uint64_t ways = 1;
    for (uint32_t i = 1; i <= nodes / 2; i++)
        ways = ways * (nodes - nodes / 2 + i) / i;
    return nodes % 2 ? ways : ways / 2;
}

static enum base_status check(const struct cluster_bisect_request *request, uint32_t nodes, struct base_error *error)
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
    const enum base_status status = check(request, nodes, error);
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

static int compare_bytes(const void *a, const void *b)
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

/* The least that needs no second look: of values[0..count), which are copied. */
static uint64_t low_mark(struct cluster_bisect_plan *plan, const uint64_t *values, uint32_t count)
{
    memcpy(plan->sorted, values, count * sizeof *values);
    qsort(plan->sorted, count, sizeof *plan->sorted, compare_bytes);
    return plan->sorted[count / 2] / 100 * PLAN_LOW_PERCENT;
}

/* The lowest pair that has not come again too often, or UINT32_MAX. */
static uint32_t low_pair(struct cluster_bisect_plan *plan)
{
    const uint64_t mark = low_mark(plan, plan->pair_bytes, pairs_of(plan));
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 0; i < pairs_of(plan); i++)
        if (plan->pair_bytes[i] < mark && plan->pair_repeats[i] < PLAN_PAIR_REPEATS &&
            (lowest == UINT32_MAX || plan->pair_bytes[i] < plan->pair_bytes[lowest]))
            lowest = i;
    return lowest;
}

static void add_flow(struct cluster_bisect_plan *plan, uint32_t from, uint32_t to)
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
    add_flow(plan, from, other < from ? other : other + 1);
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
        add_flow(plan, a, b);
        add_flow(plan, b, a);
    }
}

static void make_all_to_all(struct cluster_bisect_plan *plan)
{
    for (uint32_t from = 0; from < plan->nodes; from++)
        for (uint32_t to = 0; to < plan->nodes; to++)
            if (from != to)
                add_flow(plan, from, to);
}

static void make_cast(struct cluster_bisect_plan *plan, uint32_t node, bool incast)
{
    plan->step.node = node;
    for (uint32_t other = 0; other < plan->nodes; other++)
        if (other != node)
            add_flow(plan, incast ? other : node, incast ? node : other);
}

/* ---- cuts ---- */

static bool measured(const struct cluster_bisect_plan *plan, const uint8_t *half)
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

/* The cut behind `half` when subsets of size nodes / 2 are listed in order; false: there is none. */
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
            if (!measured(plan, half))
                return true;
        }
    while (plan->rack_first < plan->rack_count) {
        fill_racks(plan, plan->rack_first++, half);
        turn_round(plan, half);
        if (!measured(plan, half))
            return true;
    }
    return false;
}

static uint64_t closeness(const struct cluster_bisect_plan *plan, uint32_t a, uint32_t b)
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
                    (closest == UINT32_MAX || closeness(plan, centre, i) > closeness(plan, centre, closest)))
                    closest = i;
            half[closest] = 1;
        }
        turn_round(plan, half);
        if (measured(plan, half))
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
        if (!measured(plan, half))
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
        if (!measured(plan, half))
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
    const uint64_t mark = low_mark(plan, plan->cut_bytes, plan->cut_count);
    plan->cut_at = 0;
    for (uint32_t i = 1; i < plan->cut_count; i++)
        if (plan->cut_bytes[i] < plan->cut_bytes[plan->cut_at])
            plan->cut_at = i;
    plan->cut_repeats++;
    return plan->cut_bytes[plan->cut_at] < mark;
}

static bool make_cut(struct cluster_bisect_plan *plan)
{
    if (!next_cut(plan) && !repeat_cut(plan))
        return false;
    const uint8_t *half = &plan->cuts[(size_t)plan->cut_at * plan->nodes];
    plan->step.half = half;
    plan->step.origin = plan->cut_origin[plan->cut_at];
    for (uint32_t from = 0; from < plan->nodes; from++)
        for (uint32_t to = 0; to < plan->nodes; to++)
            if (half[from] != half[to])
                add_flow(plan, from, to);
    return true;
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
        make_all_to_all(plan);
        return true;
    case CLUSTER_BISECT_INCAST:
    case CLUSTER_BISECT_OUTCAST:
        make_cast(plan, index, plan->kind == CLUSTER_BISECT_INCAST);
        return true;
    default:
        return make_cut(plan);
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
