/* What the kernel made of a connection: settings in force, and what of its path to the peer can be seen from here. */
#ifndef MILLRACE_NET_SOCKET_FACTS_H
#define MILLRACE_NET_SOCKET_FACTS_H

#include "net/engine/engine.h"

enum net_offload { NET_OFFLOAD_UNKNOWN, NET_OFFLOAD_OFF, NET_OFFLOAD_ON, NET_OFFLOAD_COUNT };

/* X(name, word, about): offloads of an interface that decide what a byte costs. */
#define NET_OFFLOAD_LIST(X)                                                                                            \
    X(TSO, "tso", "the card makes the segments")                                                                       \
    X(GSO, "gso", "segments are made as late as possible")                                                             \
    X(GRO, "gro", "received segments are merged")

enum net_offload_kind {
#define X(name, word, about) NET_OFFLOAD_##name,
    NET_OFFLOAD_LIST(X)
#undef X
        NET_OFFLOAD_KINDS
};

enum { NET_INTERFACE_BYTES = 16 }; /* IFNAMSIZ */

/* Sizes in bytes, 0 where the kernel does not say. Plain data. */
struct net_socket_facts {
    bool known; /* false: there was no connection to look at */
    char congestion[NET_CONGESTION_BYTES];
    char interface[NET_INTERFACE_BYTES];           /* that carries the connection; "": unknown */
    uint32_t send_buffer_bytes, recv_buffer_bytes; /* as the kernel counts them, its own overhead included */
    uint32_t notsent_lowat_bytes;                  /* 0: none of its own (net.ipv4.tcp_notsent_lowat holds) */
    bool nodelay;
    uint32_t mss_bytes, mtu_bytes; /* of segments sent; of the path, as seen so far */
    enum net_offload offload[NET_OFFLOAD_KINDS];
};

/* Looks at a connected socket of an engine on the kernel; facts->known is false for others. On the owner's thread. */
void net_socket_facts_read(const struct net_socket *socket, struct net_socket_facts *facts);
/* Whether two say the same but for sizes of buffers, which the kernel adapts to every connection. */
bool net_socket_facts_alike(const struct net_socket_facts *a, const struct net_socket_facts *b);
/* "tso"; "on", "off" or "unknown". Static. */
const char *net_offload_kind_word(enum net_offload_kind kind);
const char *net_offload_word(enum net_offload offload);

#endif
