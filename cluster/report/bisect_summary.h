/* What a measurement of the network comes to: rates, the smallest cut, what is slow, and a verdict. Pure: numbers in,
 * numbers and words out. docs/bisection.md has the definitions. */
#ifndef MILLRACE_CLUSTER_REPORT_BISECT_SUMMARY_H
#define MILLRACE_CLUSTER_REPORT_BISECT_SUMMARY_H

#include "cluster/bisect/rate.h"
#include "cluster/protocol/message.h"

/* What one job told: its schedule, then one measurement for each step that ended. Owns all of it. */
struct bisect_run {
    uint64_t job; /* 0: it did not come to that */
    bool scheduled;
    struct cluster_schedule schedule;
    uint32_t count, room;
    struct cluster_measurement *measurement;
    struct cluster_message report; /* REPORT; or, with job 0, made up for why there is none */
};
/* Takes the message over when it is one of those. */
enum base_status bisect_run_take(struct bisect_run *run, struct cluster_message *message, struct base_error *error);
void bisect_run_free(struct bisect_run *run);

/* All rates are payload bits per second; BISECT_UNKNOWN: not measured, not known. */
#define BISECT_UNKNOWN (-1.0)

struct bisect_cut {
    const struct cluster_measurement *from;
    double rate, worst;  /* worst: of its windows */
    double ideal, links; /* links: twice the smaller sum of a half's link rates */
    double reachable;    /* what the nodes reached in pairs, were the network between them without limit */
};

struct bisect_summary {
    const struct bisect_run *run;
    uint32_t nodes;
    struct bisect_link *link;           /* per node: as told by option or card */
    double share;                       /* of a link's bits that are payload */
    struct cluster_bisect_measures sum; /* of all steps */
    double *alone, *rounds;             /* nodes * nodes: [from * nodes + to] */
    double all_to_all, all_to_all_worst;
    double *incast, *outcast; /* per node */
    uint32_t cut_count;
    struct bisect_cut *cut; /* in the order of measuring */
    uint32_t minimum;       /* index, when cut_count > 0 */
    double median;
    double *sends, *receives; /* per node: medians of its row and column; where pairs alone were left out, the best */
    double *best_sends, *best_receives; /* per node: with any one other */
    double best_median;
    double pair_median;
    uint32_t slow_from, slow_to; /* the slowest link ... */
    double slow_link;            /* ... BISECT_UNKNOWN: no pair was measured */
    uint32_t slow_card;          /* node whose card is slowest in one direction ... */
    bool slow_card_sends;
    uint32_t slow_node;     /* ... in both together */
    double processor_bound; /* share of the pairs' and cuts' steps that the processors limited */
    double host_busy;       /* the median of the busiest machine's share of busy time over those */
    bool verified;
    char verdict[768];
};

/* link_rate: the option, or NULL. The summary borrows the run. */
enum base_status bisect_summary_make(const struct bisect_run *run, const char *link_rate,
                                     struct bisect_summary *summary, struct base_error *error);
void bisect_summary_free(struct bisect_summary *summary);

/* Payload of a measurement in bits per second; and of its worst window. */
double bisect_rate(const struct bisect_run *run, const struct cluster_measurement *measurement);
double bisect_rate_worst(const struct bisect_run *run, const struct cluster_measurement *measurement);
/* What a node sends, or receives, of it. */
double bisect_rate_node(const struct bisect_run *run, const struct cluster_measurement *measurement, uint32_t node,
                        bool sending);
/* From one node to another: alone, or as the rounds had it where pairs alone were left out. */
double bisect_pair_rate(const struct bisect_summary *summary, uint32_t from, uint32_t to);
/* Of all workers, user and system. */
double bisect_cpu_seconds_per_gib(const struct cluster_bisect_measures *sum);
/* Were the processors, and not the network, what limited a step? */
bool bisect_processor_bound(const struct bisect_run *run, const struct cluster_measurement *measurement);
/* "n1 n2 n3", the nodes of a half. */
void bisect_half_words(const struct bisect_run *run, const struct cluster_measurement *measurement, uint8_t half,
                       char *text, size_t text_bytes);

#endif
