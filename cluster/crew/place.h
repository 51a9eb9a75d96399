/* Where a node's workers have their place: the receive queue of a card that each takes, the local ports that belong to
 * it, and the memory node they share. Internal to the node.
 *
 * Worker i takes queue FIRST + i, and the ports from PORTS + i * CLUSTER_PORT_BLOCK on: it listens at one of them and
 * connects from the others. Blocks are aligned to their size, so one masked rule in the card (ethtool -N, dst-port, m
 * 0x00ff) steers all connections of a worker to its queue before they carry data. */
#ifndef MILLRACE_CLUSTER_CREW_PLACE_H
#define MILLRACE_CLUSTER_CREW_PLACE_H

#include <net/if.h>

#include "net/engine/engine.h"

enum { CLUSTER_PORT_BLOCK = 256, CLUSTER_MEMORY_NODE_ANY = -1, CLUSTER_PLACE_TEXT_BYTES = 160 };

/* As asked for. nic NULL: no card, and nothing else counts. */
struct cluster_place_options {
    const char *nic;
    uint32_t queue_first, queue_last;
    uint32_t port_first;
    uint64_t area_bytes;  /* of a worker */
    uint32_t piece_bytes; /* 0: a page */
};

/* As it is here. Value type. */
struct cluster_place {
    char nic[IF_NAMESIZE];          /* "": no card */
    struct net_receive_queue queue; /* of worker 0 */
    uint32_t port_first;            /* of worker 0 */
    int memory_node;                /* of the card, where the machine has several; else CLUSTER_MEMORY_NODE_ANY */
};

/* Finds the card. Errors: BASE_NOT_FOUND, with the interfaces there are; BASE_INVALID: too few queues or ports. */
enum base_status cluster_place_open(const struct cluster_place_options *options, uint32_t workers,
                                    struct cluster_place *place, struct base_error *error);
/* Of a worker; all zero without a card. */
struct net_receive_queue cluster_place_queue(const struct cluster_place *place, uint32_t worker);
struct net_port_block cluster_place_ports(const struct cluster_place *place, uint32_t worker);
/* Pins the calling thread to a core of its own: of the card's memory node when that has enough, else of all allowed.
 * Does nothing when there are fewer than workers. Returns the memory node the thread is pinned to, or
 * CLUSTER_MEMORY_NODE_ANY. */
int cluster_place_pin(const struct cluster_place *place, uint32_t worker, uint32_t workers);
/* "worker 0: queue 4 of eth0, ports 16384-16639, memory node 0"; "" when there is nothing to say. */
void cluster_place_describe(const struct cluster_place *place, uint32_t worker, int memory_node,
                            char text[CLUSTER_PLACE_TEXT_BYTES]);

#endif
