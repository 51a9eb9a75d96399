/* What workers did for a job: a worker's share of it, and summed a node's, which STEP and CLOSED carry. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_WORK_H
#define MILLRACE_CLUSTER_PROTOCOL_WORK_H

#include "cluster/protocol/measure.h"
#include "net/socket/facts.h"

struct cluster_work {
    struct cluster_measures sum;   /* since prepare */
    struct net_socket_facts facts; /* of one connection of the first worker */
};

#endif
