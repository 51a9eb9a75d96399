/* What workers did for a job: a worker's share of it, and summed a node's, which STEP and CLOSED carry. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_WORK_H
#define MILLRACE_CLUSTER_PROTOCOL_WORK_H

#include "join/task.h"
#include "net/engine/engine.h"
#include "net/socket/facts.h"

struct cluster_work {
    struct join_task_result sum; /* scan_begin_ns: the earliest, stream_end_ns: the latest; monotonic */
    uint64_t cpu_user_ns, cpu_system_ns, busy_ns, wait_ns;
    uint64_t switches_voluntary, switches_involuntary; /* of the worker threads, since prepare */
    uint64_t iowq_workers; /* io-wq workers that the kernel started since prepare, as seen at the ends of passes */
    uint64_t peak_memory_bytes;
    struct net_counters counters;  /* since prepare, summed */
    struct net_socket_facts facts; /* of one connection of the first worker */
};

#endif
