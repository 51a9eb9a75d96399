/* Looks for ways between two nodes that are cut while both of them are alive.
 *
 * Heartbeats tell that a node is dead, and TCP would tell that a way is cut, after a quarter of an hour.
 * TCP_USER_TIMEOUT is no help: it takes a busy receiver for a dead one (see net/tcp.c). The kernel knows better: data
 * that was sent, not acknowledged, and sent again in vain is not the same as a window that a receiver keeps closed. So
 * the node asks it (sock_diag, unprivileged) about the job's connections, a few times a second and only in jobs that
 * last. */
#ifndef MILLRACE_CLUSTER_PATH_WATCH_H
#define MILLRACE_CLUSTER_PATH_WATCH_H

#include <stdbool.h>

#include "net/engine.h"

struct cluster_path_watch;

/* A connection whose peer acknowledged nothing for this long, though data was repeated, has lost its way. */
enum { CLUSTER_PATH_SILENCE_MS = 1000, CLUSTER_PATH_REPEATS_MIN = 2 };

/* BASE_UNSUPPORTED, BASE_DENIED where the kernel does not tell; cuts are then noticed by nobody before TCP does. */
enum base_status cluster_path_watch_open(struct cluster_path_watch **watch, struct base_error *error);
void cluster_path_watch_close(struct cluster_path_watch *watch);
/* Looks at all connections from or to one of own, or to one of others. BASE_OK: *cut says whether one has lost its way,
 * and *peer is then its other end. */
enum base_status cluster_path_watch_look(struct cluster_path_watch *watch, const struct net_address *own,
                                         uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                         bool *cut, struct net_address *peer, struct base_error *error);

/* The same connections, summed. */
struct cluster_path_sum {
    uint64_t retransmits;        /* segments sent again since the connections began */
    uint32_t mtu, segment_bytes; /* the smallest of any; 0: no connection */
};
enum base_status cluster_path_watch_sum(struct cluster_path_watch *watch, const struct net_address *own,
                                        uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                        struct cluster_path_sum *sum, struct base_error *error);

#endif
