/* How processes know that others live, and that they themselves stood still meanwhile. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_LIVENESS_H
#define MILLRACE_CLUSTER_PROTOCOL_LIVENESS_H

#include <stdint.h>

#include "base/clock.h"

/* A node beats five times a second, and is lost when it was silent for this long. */
#define CLUSTER_BEAT_NS (UINT64_C(200) * BASE_NS_PER_MS)
#define CLUSTER_SILENCE_NS (UINT64_C(1200) * BASE_NS_PER_MS)

/* A node whose control thread has not come back to its events for this long is as good as dead, however well its
 * heartbeat does: it takes no orders. Longer than any call of a file system that is only slow. */
#define CLUSTER_STUCK_NS (UINT64_C(30) * BASE_NS_PER_S)

/* For how long a process that meant to run at due_ns, and runs only now, did not run: it was stopped, or had no CPU.
 * What others did not say in that time proves nothing about them. 0: it is as late as a busy machine makes everybody.
 */
static inline uint64_t cluster_pause_ns(uint64_t due_ns, uint64_t now_ns)
{
    return now_ns > due_ns + CLUSTER_BEAT_NS ? now_ns - due_ns : 0;
}

#endif
