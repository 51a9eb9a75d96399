/* Where daemons may listen: anywhere when callers prove the cluster's key, else nowhere, unless whoever starts them
 * says that all users of this machine may have their rights. */
#ifndef MILLRACE_CLUSTER_LINK_LISTEN_POLICY_H
#define MILLRACE_CLUSTER_LINK_LISTEN_POLICY_H

#include "net/engine/engine.h"

/* Where the coordinator listens unless an option names another address; the same for both programs. */
#define CLUSTER_COORDINATOR_DEFAULT "127.0.0.1:7400"

/* BASE_OK with a key; with open_to_all for loopback, and for any address when this process is in a network namespace
 * that a local cluster made (named millrace-* in /run/netns). Else BASE_DENIED with what to do. */
enum base_status cluster_listen_allowed(const struct net_address *address, bool has_key, bool open_to_all,
                                        struct base_error *error);
/* BASE_OK when others can reach this machine there; BASE_INVALID for the wildcards 0.0.0.0 and ::. */
enum base_status cluster_listen_reachable(const struct net_address *address, struct base_error *error);

#endif
