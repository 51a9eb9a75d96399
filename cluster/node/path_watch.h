/* Looks for paths between two nodes that are broken while both nodes are alive.
 *
 * Heartbeats tell that a node is dead. TCP notices a broken path by itself, but late: after a quarter of an hour where
 * the kernel cannot bound its timer (see net/socket/tcp.c). TCP_USER_TIMEOUT is no help: it takes a busy receiver for a
 * dead one. The kernel knows the difference. What arrives is answered by the peer's kernel, also while its program is
 * busy and its window closed; so data or window probes that were repeated and never answered mean that the path is
 * broken. The node asks for that (sock_diag, unprivileged) a few times a second while a job has connections.
 *
 * Only established connections count: those of this job stay so until it is released, and those of the job before are
 * closing, perhaps for long after the path was repaired. */
#ifndef MILLRACE_CLUSTER_NODE_PATH_WATCH_H
#define MILLRACE_CLUSTER_NODE_PATH_WATCH_H

#include <stdbool.h>

#include "base/clock.h"
#include "net/engine/engine.h"

struct cluster_path_watch;

/* A connection whose peer acknowledged nothing for this long, though data or a probe was sent so often, seems broken.
 */
enum { CLUSTER_PATH_SILENCE_MS = 1000, CLUSTER_PATH_REPEATS_MIN = 2 };
/* It is broken when it seems so for this long: the answer to the last repetition may still come. */
#define CLUSTER_PATH_CONFIRM_NS (150 * BASE_NS_PER_MS)

/* BASE_UNSUPPORTED, BASE_DENIED where the kernel does not tell; broken paths are then detected only when TCP detects
 * them. */
enum base_status cluster_path_watch_open(struct cluster_path_watch **watch, struct base_error *error);
void cluster_path_watch_close(struct cluster_path_watch *watch);
/* Looks at all connections from or to one of own, or to one of others. BASE_OK: *broken says whether one is broken, and
 * *peer is then its other end. To be called a few times a second: it takes two looks to be sure. */
enum base_status cluster_path_watch_look(struct cluster_path_watch *watch, const struct net_address *own,
                                         uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                         bool *broken, struct net_address *peer, struct base_error *error);

/* The same connections, summed. */
struct cluster_path_sum {
    uint64_t retransmits;        /* segments sent again since the connections began */
    uint32_t mtu, segment_bytes; /* the smallest of any; 0: no connection */
};
enum base_status cluster_path_watch_sum(struct cluster_path_watch *watch, const struct net_address *own,
                                        uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                        struct cluster_path_sum *sum, struct base_error *error);

#endif
