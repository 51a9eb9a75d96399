/* The list of what a measurement of the network counts in a step, beside the bytes of its flows and windows.
 * base/measure.h says what a line means; the codec, the sums and the JSON object go through the list and know no
 * measure by name. Nodes of the fold are also steps: a report sums up all of them. */
#ifndef MILLRACE_CLUSTER_BISECT_MEASURE_H
#define MILLRACE_CLUSTER_BISECT_MEASURE_H

#include "base/measure.h"

#define CLUSTER_BISECT_MEASURE_LIST(X)                                                                                 \
    X(received_bytes, BYTES, SUM, SUM, JOB, "bytes", NULL, "payload received, warm-up and tail included")              \
    X(sent_bytes, BYTES, SUM, SUM, NEVER, NULL, NULL, "payload sent, as the senders counted it")                       \
    X(verified_bytes, BYTES, SUM, SUM, JOB, "verified_bytes", NULL,                                                    \
      "payload received that was compared with what was sent")                                                         \
    X(retransmits, COUNT, SUM, SUM_KNOWN, JOB, "retransmits", NULL,                                                    \
      "segments sent again, over all connections; null where a node's kernel does not tell")                           \
    X(cpu_user_ns, NS, SUM, SUM, JOB, "cpu_user_seconds", "cpu_s_per_gib", "CPU time of the workers in user mode")     \
    X(cpu_system_ns, NS, SUM, SUM, JOB, "cpu_system_seconds", "cpu_s_per_gib",                                         \
      "CPU time of the workers in the kernel")                                                                         \
    X(mtu, BYTES, MIN, MIN, NEVER, NULL, NULL, "the smallest MTU of a connection; 0: unknown")                         \
    X(segment_bytes, BYTES, MIN, MIN, NEVER, NULL, NULL, "the smallest payload of a full segment; 0: unknown")

struct cluster_bisect_measures {
    CLUSTER_BISECT_MEASURE_LIST(BASE_MEASURE_FIELD)
};

enum { CLUSTER_BISECT_MEASURES = sizeof(struct cluster_bisect_measures) / sizeof(uint64_t) };

/* In the order of the struct. */
extern const struct base_measure cluster_bisect_measure[CLUSTER_BISECT_MEASURES];

void cluster_bisect_measures_add_worker(struct cluster_bisect_measures *node,
                                        const struct cluster_bisect_measures *worker);
void cluster_bisect_measures_add_node(struct cluster_bisect_measures *total,
                                      const struct cluster_bisect_measures *node);

#endif
