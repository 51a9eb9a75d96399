/* Where daemons may listen while connections prove nothing about who makes them. */
#ifndef MILLRACE_CLUSTER_LISTEN_POLICY_H
#define MILLRACE_CLUSTER_LISTEN_POLICY_H

#include "net/engine.h"

/* BASE_OK for loopback, and for any address when this process is in a network namespace that a local cluster made
 * (named millrace-* in /run/netns). Else BASE_DENIED with what to do. */
enum base_status cluster_listen_allowed(const struct net_address *address, struct base_error *error);

#endif
