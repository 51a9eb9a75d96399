/* The policy of zero-copy sending, shared by the engines that have it: which send is worth it, and when a connection
 * gives it up. Inside net/ only. */
#ifndef MILLRACE_NET_ENGINE_ZEROCOPY_H
#define MILLRACE_NET_ENGINE_ZEROCOPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_engine;

enum {
    /* A smaller send is copied: below this, pinning pages and a notification cost more than the copy. */
    NET_ZEROCOPY_BYTES_MIN = 1024,
    /* So many notifications in a row that the kernel copied all the same: the path has no zero-copy. */
    NET_ZEROCOPY_COPIED_MAX = 3,
    /* So many sends in a row refused for lack of memory to account for them, with none of ours outstanding. */
    NET_ZEROCOPY_REFUSED_MAX = 3
};

/* How long a closing connection leaves it to its peer to acknowledge what still lies in our buffers. Then it is reset,
 * which makes the kernel let go of them. A send that completed has nothing there. */
#define NET_ZEROCOPY_JOIN_NS UINT64_C(500000000)

/* Of one connection; zero to begin with. With the option zc-always it is never given up. */
struct net_zerocopy {
    uint32_t copied, refused; /* in a row */
    bool off;
};

/* Whether a send of so many bytes should be tried without a copy. */
bool net_zerocopy_wanted(const struct net_zerocopy *zerocopy, size_t bytes);
/* The kernel is done with the buffers of so many sends, and says whether it copied them. */
void net_zerocopy_told(struct net_engine *engine, struct net_zerocopy *zerocopy, uint32_t sends, bool copied);
/* The kernel had no memory to account for a zero-copy send; outstanding: others of the connection hold some. */
void net_zerocopy_refused(struct net_engine *engine, struct net_zerocopy *zerocopy, bool outstanding);
/* This kind of socket does not have it. */
void net_zerocopy_unsupported(struct net_zerocopy *zerocopy);

#endif
