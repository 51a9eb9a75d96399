/* Addresses as text, and listening sockets. */
#ifndef MILLRACE_NET_ENGINE_ADDRESS_H
#define MILLRACE_NET_ENGINE_ADDRESS_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/status.h"

/* IPv4 or IPv6 address and port. */
struct net_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t bytes;
};

/* Local ports that connections are made from; they may be shared by connections to different places. */
struct net_port_block {
    uint16_t first;
    uint16_t count; /* 0: any port */
};

/* A listening TCP socket on address (port 0: any), non-blocking, SO_REUSEADDR; *fd is the caller's, *bound the address
 * with the port given. */
enum base_status net_listen(const struct net_address *address, int backlog, int *fd, struct net_address *bound,
                            struct base_error *error);
/* The same at the first port of the block that is free, whatever port the address has. A block without ports: any. */
enum base_status net_listen_within(const struct net_address *address, const struct net_port_block *ports, int backlog,
                                   int *fd, struct net_address *bound, struct base_error *error);
/* Parses "10.0.0.1:7400", "[::1]:7400" or "host:7400" (resolved; the first address wins). */
enum base_status net_address_parse(const char *text, struct net_address *address, struct base_error *error);
/* Writes "10.0.0.1:7400" or "[::1]:7400". text has at least 64 bytes. */
void net_address_format(const struct net_address *address, char *text);

#endif
