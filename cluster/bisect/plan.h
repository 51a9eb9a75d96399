/* The schedule of a measurement: which steps there are, one after the other. Pure: no sockets, no clock; the same
 * request, nodes and results give the same steps.
 *
 * Up to CLUSTER_BISECT_WHOLE_NODES nodes everything is measured: every ordered pair alone, rounds of disjoint pairs,
 * all to all, incast and outcast of every node, every balanced cut. Beyond, pairs alone would take hours and cuts for
 * ever: the rounds then give the matrix of pairs, and cuts are searched for: first groups of nodes that the rounds
 * found well connected, then random ones, then from the smallest so far by exchanging two nodes.
 *
 * What comes out clearly lower than its like is measured again, a bounded number of times; the better result counts.
 * So a moment in which somebody else was busy is not taken for a property of the network. */
#ifndef MILLRACE_CLUSTER_BISECT_PLAN_H
#define MILLRACE_CLUSTER_BISECT_PLAN_H

#include "base/status.h"
#include "cluster/bisect/bisect.h"

enum { CLUSTER_BISECT_WHOLE_NODES = 8, CLUSTER_BISECT_ALL_NODES_MAX = 14, CLUSTER_BISECT_SEARCH_CUTS = 32 };

struct cluster_bisect_plan;

/* BASE_INVALID: the request makes no sense for so many nodes; the words say why. */
/* rack: a number below nodes for each node, equal for those in one rack; copied; NULL: not known. */
enum base_status cluster_bisect_plan_open(const struct cluster_bisect_request *request, uint32_t nodes,
                                          const uint32_t *rack, struct cluster_bisect_plan **plan,
                                          struct base_error *error);
void cluster_bisect_plan_close(struct cluster_bisect_plan *plan);
/* The next step, or NULL when there is none. Good until the next call. */
const struct cluster_bisect_step *cluster_bisect_plan_next(struct cluster_bisect_plan *plan);
/* Bytes that each flow of the step given last brought in its measured time. */
void cluster_bisect_plan_result(struct cluster_bisect_plan *plan, const uint64_t *flow_bytes);
/* Steps in all, at most; and how long they take, about. */
uint32_t cluster_bisect_plan_steps(const struct cluster_bisect_plan *plan);
uint64_t cluster_bisect_plan_expected_ns(const struct cluster_bisect_plan *plan);

#endif
