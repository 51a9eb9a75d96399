/* Opens an engine on io_uring; only net/open.c calls it. */
#ifndef MILLRACE_NET_URING_OPEN_H
#define MILLRACE_NET_URING_OPEN_H

#include "net/engine/engine.h"

/* *refusal is set (static string, for an operator) when the kernel does not let us: epoll can then take over. */
enum base_status net_uring_open(const struct net_engine_choice *, const struct net_engine_config *,
                                struct net_engine **, const char **refusal, struct base_error *);

#endif
