/* Between the files of the probe: what one try gets and gives back. */
#ifndef MILLRACE_NET_PROBE_INTERNAL_H
#define MILLRACE_NET_PROBE_INTERNAL_H

#include <liburing.h>

#include "net/probe/probe.h"

enum { PROBE_ENTRIES = 16 };

/* Nothing that is waited for takes longer than this; enough for a machine that does much else. */
#define PROBE_LIMIT_NS UINT64_C(1000000000)

probe_try probe_multishot_accept, probe_multishot_receive, probe_receive_zc, probe_receive_zc_copy;
probe_try probe_send_zc, probe_send_zc_fixed, probe_sendmsg_zc, probe_msg_zerocopy;

/* A ring of PROBE_ENTRIES with more flags; the smallest one that shows anything. */
int probe_ring(struct io_uring *ring, unsigned flags);
/* Submits, then waits for one completion until deadline_ns. 0, or a negative errno (-ETIME). */
int probe_wait(struct io_uring *ring, uint64_t deadline_ns, struct io_uring_cqe **cqe);
/* Submits what is queued and waits for its only completion, whose result it returns. */
int probe_one(struct io_uring *ring);

/* A listening socket on the loopback interface; one more connection to it; or both
 * ends of one. All non-blocking. 0, or a negative errno, and result says UNTRIED: loopback is not there. */
int probe_listen(int *fd, struct net_probe_result *result);
int probe_connect(int listener, int *fd, struct net_probe_result *result);
int probe_pair(int ends[2], struct net_probe_result *result);

int probe_broken(struct net_probe_result *result, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
