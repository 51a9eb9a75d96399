/* A node's heartbeat: a thread of its own with a connection of its own, so that neither a busy control thread nor a
 * busy worker makes a node seem dead, and a dead or stopped process does not seem alive. It also notices when the
 * coordinator falls silent, and tells it when the node's control thread hangs. */
#ifndef MILLRACE_CLUSTER_NODE_HEARTBEAT_H
#define MILLRACE_CLUSTER_NODE_HEARTBEAT_H

#include <stdatomic.h>

#include "cluster/protocol/message.h"

struct cluster_heartbeat;

struct cluster_heartbeat_config {
    struct net_address coordinator;
    const char *name; /* of the node; borrowed until stop */
    uint64_t incarnation;
    const struct net_key *key; /* NULL: none; borrowed until stop */
    /* What the control thread does: a number that is another each time it begins to work, and 0 while it waits for
     * events. Borrowed until stop. */
    const _Atomic uint64_t *work;
    uint64_t stuck_ns; /* the same number for so long: it hangs */
};

/* Starts beating. Only after the coordinator has welcomed the node. */
enum base_status cluster_heartbeat_start(const struct cluster_heartbeat_config *config,
                                         struct cluster_heartbeat **heartbeat, struct base_error *error);
/* Readable once the coordinator is lost (silent, or the connection ended); cluster_heartbeat_error then says why (NULL
 * before). */
int cluster_heartbeat_fd(const struct cluster_heartbeat *heartbeat);
const struct base_error *cluster_heartbeat_error(const struct cluster_heartbeat *heartbeat);
/* Ends the thread, at once. */
void cluster_heartbeat_stop(struct cluster_heartbeat *heartbeat);

#endif
