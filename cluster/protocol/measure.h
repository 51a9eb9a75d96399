/* The list of measures: what workers count for a job, what a report sums up. It takes in the lists of the floors below;
 * base/measure.h says what a line means. The codec, the sums, the JSON object and the manual go through this list and
 * know no measure by name. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_MEASURE_H
#define MILLRACE_CLUSTER_PROTOCOL_MEASURE_H

#include "base/measure.h"
#include "join/task.h"
#include "net/engine/engine.h"

/* Those that belong to the worker's thread and its node. */
#define CLUSTER_MEASURE_LIST(X)                                                                                        \
    X(bytes_sent, BYTES, SUM, SUM, BOTH, "bytes_sent", NULL, "payload sent to other nodes")                            \
    X(bytes_received, BYTES, SUM, SUM, BOTH, "bytes_received", NULL, "payload received from other nodes")              \
    X(exchange_ns, NS, MAX, MAX, NODE, "seconds", NULL, "time from the first scan to the last end of a stream")        \
    X(cpu_user_ns, NS, SUM, SUM, BOTH, "cpu_user_seconds", "cpu_user_s", "CPU time of the workers in user mode")       \
    X(cpu_system_ns, NS, SUM, SUM, BOTH, "cpu_system_seconds", "cpu_system_s",                                         \
      "CPU time of the workers in the kernel")                                                                         \
    X(busy_ns, NS, SUM, SUM, NODE, "busy_seconds", NULL, "time that workers did not wait")                             \
    X(idle_ns, NS, SUM, SUM, NODE, "wait_seconds", NULL, "time that workers waited for an event")                      \
    X(switches_voluntary, COUNT, SUM, SUM, BOTH, "context_switches.voluntary", "context_switches",                     \
      "context switches of workers that waited")                                                                       \
    X(switches_involuntary, COUNT, SUM, SUM, BOTH, "context_switches.involuntary", "context_switches",                 \
      "context switches of workers that were preempted")                                                               \
    X(iowq_workers, COUNT, MAX, SUM, BOTH, "iowq_workers", NULL,                                                       \
      "threads that the kernel started for io_uring requests it could not do at once")                                 \
    X(peak_memory_bytes, BYTES, MAX, MAX, BOTH, "peak_memory_bytes", NULL, "most memory in use on a node")

struct cluster_measures {
    CLUSTER_MEASURE_LIST(BASE_MEASURE_FIELD)
    struct join_task_result task;
    struct net_counters counters;
};

enum { CLUSTER_MEASURES = sizeof(struct cluster_measures) / sizeof(uint64_t) };

/* Number `index` of the list, in the order of the struct. */
const struct base_measure *cluster_measure(uint32_t index);
void cluster_measure_set(struct cluster_measures *measures, uint32_t index, uint64_t value);

/* Adds a worker's share to its node's. */
void cluster_measures_add_worker(struct cluster_measures *node, const struct cluster_measures *worker);
/* Adds a node's share to the job's. */
void cluster_measures_add_node(struct cluster_measures *job, const struct cluster_measures *node);

static inline double cluster_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

#endif
