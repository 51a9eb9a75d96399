/* A measurement of the network between nodes, as plain data: what is asked for, the steps it falls into, what a node is
 * told to do in a step and what it saw. docs/bisection.md defines every number.
 *
 * A step is a set of flows between nodes that all run at the same time, for the same time: first the warm-up, which
 * nobody counts, then the measured time, divided into windows. Receivers count; only payload counts. */
#ifndef MILLRACE_CLUSTER_BISECT_BISECT_H
#define MILLRACE_CLUSTER_BISECT_BISECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "cluster/bisect/measure.h"

enum {
    CLUSTER_BISECT_WINDOWS_MAX = 1024,
    CLUSTER_BISECT_STREAMS_MAX = 65536,
    CLUSTER_BISECT_CUTS_MAX = 100000,
    CLUSTER_BISECT_RACKS_MAX = 4096,
    CLUSTER_INTERFACE_BYTES_MAX = 15
};
#define CLUSTER_BISECT_WINDOW_NS (UINT64_C(100) * BASE_NS_PER_MS)
#define CLUSTER_BISECT_DURATION_MIN_NS (UINT64_C(50) * BASE_NS_PER_MS)
#define CLUSTER_BISECT_DURATION_MAX_NS (UINT64_C(60) * BASE_NS_PER_S)

/* X(name, word): what a step measures. */
#define CLUSTER_BISECT_KIND_LIST(X)                                                                                    \
    X(PAIR, "pair")             /* one node sends to one other, nothing else moves */                                  \
    X(ROUND, "round")           /* disjoint pairs, both ways at once */                                                \
    X(ALL_TO_ALL, "all_to_all") /* every node sends to every other */                                                  \
    X(INCAST, "incast")         /* all others send to one node */                                                      \
    X(OUTCAST, "outcast")       /* one node sends to all others */                                                     \
    X(CUT, "cut")               /* every node of a half sends to every node of the other, both ways */

enum cluster_bisect_kind {
#define X(name, word) CLUSTER_BISECT_##name,
    CLUSTER_BISECT_KIND_LIST(X)
#undef X
        CLUSTER_BISECT_KIND_COUNT
};
/* "all_to_all"; never NULL. */
const char *cluster_bisect_kind_word(enum cluster_bisect_kind kind);

/* Which balanced cuts are measured: every one; at most cut_count; or as few as it takes to find a small one. */
enum cluster_bisect_cuts {
    CLUSTER_BISECT_CUTS_DEFAULT,
    CLUSTER_BISECT_ALL,
    CLUSTER_BISECT_COUNT,
    CLUSTER_BISECT_LEAST
};

/* Which rack a node is in, by their names. Owned by whoever owns the request. */
struct cluster_bisect_rack {
    char *node, *rack;
};

struct cluster_bisect_request {
    uint64_t duration_ns; /* of each step */
    enum cluster_bisect_cuts cuts;
    uint32_t cut_count; /* COUNT */
    uint32_t streams;   /* connections that a flow uses; 0: one per worker */
    uint32_t rack_count;
    struct cluster_bisect_rack *rack; /* nodes that are not named are alone in theirs */
};

/* X(name, word): why a cut is measured. */
#define CLUSTER_BISECT_ORIGIN_LIST(X)                                                                                  \
    X(EVERY, "every") /* every cut is */                                                                               \
    X(RACKS, "racks") /* it keeps racks together */                                                                    \
    X(GROUP, "group") /* a half is a node and those best connected with it */                                          \
    X(RANDOM, "random")                                                                                                \
    X(SEARCH, "search") /* the smallest so far, with two nodes exchanged */

enum cluster_bisect_origin {
#define X(name, word) CLUSTER_BISECT_ORIGIN_##name,
    CLUSTER_BISECT_ORIGIN_LIST(X)
#undef X
        CLUSTER_BISECT_ORIGIN_COUNT
};
/* "random"; never NULL. */
const char *cluster_bisect_origin_word(enum cluster_bisect_origin origin);

/* From one node to another, by their numbers in the plan. */
struct cluster_flow {
    uint32_t from, to;
};

struct cluster_bisect_step {
    enum cluster_bisect_kind kind;
    uint32_t node;                     /* INCAST, OUTCAST: which; ROUND: its number */
    const uint8_t *half;               /* CUT: 0 or 1 for each node, node 0 in half 0; else NULL */
    enum cluster_bisect_origin origin; /* CUT */
    uint32_t flow_count;
    const struct cluster_flow *flow;
};

/* What one node does in a step. Arrays are of nodes' numbers, without its own. */
struct cluster_measure {
    uint32_t step; /* counted from 1 */
    bool last;     /* no step at all: the job has been measured, and is finished */
    uint64_t warmup_ns, duration_ns, window_ns;
    uint32_t streams;
    uint32_t send_count, receive_count;
    uint32_t *send, *receive;
};

/* The card that carries a node's data address. */
struct cluster_card {
    char interface[CLUSTER_INTERFACE_BYTES_MAX + 1]; /* "": not found */
    uint64_t bits_per_second;                        /* as the card says; 0: it does not, or is a virtual one */
    uint32_t mtu;
};

/* What one node saw in a step. */
struct cluster_measured {
    uint32_t step;
    uint32_t receive_count; /* as ordered, in the same order */
    uint64_t *bytes;        /* payload received from each in the measured time */
    uint32_t window_count;
    uint64_t *window;            /* the same, by window, over all of them */
    uint32_t host_busy_permille; /* of all processors of the node's machine, whoever kept them busy */
    uint32_t host_processors;
    struct cluster_bisect_measures sum;
};

/* How long the warm-up of a step is. */
uint64_t cluster_bisect_warmup_ns(uint64_t duration_ns);
uint64_t cluster_bisect_window_ns(uint64_t duration_ns);
uint32_t cluster_bisect_windows(uint64_t duration_ns);

/* The streams of a flow between nodes of so many workers: as asked for, but no more than there are pairs of workers. */
uint32_t cluster_bisect_streams(uint32_t asked, uint32_t from_workers, uint32_t to_workers);
/* Which local workers stream `index` connects: every index below the number of pairs another pair. */
void cluster_bisect_stream(uint32_t index, uint32_t from_workers, uint32_t to_workers, uint32_t *from, uint32_t *to);

#endif
