/* The node agent: the control thread of a node daemon. It keeps the connection to the coordinator, gives orders to the
 * crew, and answers. */
#ifndef MILLRACE_CLUSTER_NODE_NODE_H
#define MILLRACE_CLUSTER_NODE_NODE_H

#include "cluster/crew/place.h"
#include "net/engine/engine.h"
#include "net/proof/key.h"

struct cluster_node_config {
    const char *name;
    struct net_address coordinator;
    struct net_address listen; /* host part for the workers' data listeners */
    uint32_t workers;
    uint64_t memory_bytes; /* 0: unlimited */
    struct net_engine_choice engine;
    bool pin;
    struct cluster_place_options place;
    const struct net_key *key; /* of the cluster; NULL: none; borrowed */
    bool open_to_all;          /* no key is wanted */
};

/* Runs until SIGTERM or SIGINT (BASE_OK: its job was aborted, its attempts removed) or an error that trying again
 * cannot cure. */
enum base_status cluster_node_run(const struct cluster_node_config *config, struct base_error *error);

#endif
