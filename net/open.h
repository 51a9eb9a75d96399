/* The door to the floor: opens an engine, of whatever kind. */
#ifndef MILLRACE_NET_OPEN_H
#define MILLRACE_NET_OPEN_H

#include "net/engine/engine.h"

/* Opens the engine chosen; the caller closes it. Features of the rung that cannot be had are left out, and AUTO falls
 * back to epoll where io_uring is forbidden: net_engine_reason then says why. Errors: BASE_DENIED, BASE_UNSUPPORTED,
 * BASE_NO_MEMORY, all with a cause; BASE_INVALID for a choice that makes no sense, or a congestion control that cannot
 * be had here, with what can. */
enum base_status net_engine_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                 struct net_engine **engine, struct base_error *error);

#endif
