/* Inside the schedule of a measurement: plan.c gives steps and takes their results, cut.c chooses which cuts are
 * measured. */
#ifndef MILLRACE_CLUSTER_BISECT_INTERNAL_H
#define MILLRACE_CLUSTER_BISECT_INTERNAL_H

#include "base/random.h"
#include "cluster/bisect/plan.h"

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

/* plan.c */
/* The least that needs no second look: of values[0..count), which are copied. */
uint64_t bisect_plan_low_mark(struct cluster_bisect_plan *plan, const uint64_t *values, uint32_t count);
void bisect_plan_add_flow(struct cluster_bisect_plan *plan, uint32_t from, uint32_t to);

/* cut.c */
/* Makes the step one of the next cut: one that was not measured yet, or the smallest once more. False: there is none.
 */
bool bisect_plan_cut(struct cluster_bisect_plan *plan);

#endif
