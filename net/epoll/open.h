/* Opens an epoll engine; only net/open.c calls it. */
#ifndef MILLRACE_NET_EPOLL_OPEN_H
#define MILLRACE_NET_EPOLL_OPEN_H

#include "net/engine/engine.h"

enum base_status net_epoll_open(const struct net_engine_choice *, const struct net_engine_config *,
                                struct net_engine **, struct base_error *);

#endif
