/* A whole cluster in one thread: P workers on simulated engines, real tasks, and a driver that plays coordinator by the
 * book (all OPENED, then connect, all CONNECTED, then pass 0 ...). Everything is drawn from one seed. */
#ifndef MILLRACE_TESTS_SIM_CLUSTER_H
#define MILLRACE_TESTS_SIM_CLUSTER_H

#include "join/plan.h"
#include "net/sim/sim.h"
#include "shuffle/rows/reject.h"

struct sim_job {
    uint64_t seed;
    uint32_t nodes, workers_per_node;
    struct join_request request;
    struct shuffle_settings settings;
    const char *source[2];         /* words, as a user gives them */
    const char *declared[2];       /* schemas, or NULL */
    uint64_t bad_rows_max;         /* of each source, as in struct shuffle_csv_options */
    struct net_sim_config network; /* seed is filled in */
    uint64_t memory_bytes;         /* per node; 0: unlimited */
    bool has_key;                  /* workers prove one to each other */
    bool kill_worker;              /* some worker closes its task by abort in mid-job */
};

struct sim_outcome {
    enum base_status status; /* OK, or of the first error */
    struct base_error error;
    bool deadlock; /* nothing could move, and time could not either */
    bool leaked;   /* a governor was not empty, or a worker never closed */
    uint64_t rows, checksum;
    uint64_t rows_scanned, rows_accounted; /* exchanged, kept where they were scanned, or dropped */
    struct shuffle_rejects rejects[2];     /* of all workers */
    uint64_t turns, virtual_ns, stalls;
    uint64_t rows_cut, stitched_bytes, joined_bytes; /* as join_task_result has them */
};

/* Runs the job to its end (also after an error: everything is closed and checked for what is missing). */
void sim_cluster_run(const struct sim_job *job, struct sim_outcome *outcome);

#endif
