/* What the files of the crew share: its members and itself. crew.c has opening, orders and answers; crew/member.c what
 * a worker's thread does; crew/bisect.c measures the network. */
#ifndef MILLRACE_CLUSTER_CREW_INTERNAL_H
#define MILLRACE_CLUSTER_CREW_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cluster/bisect/task.h"
#include "cluster/crew/crew.h"
#include "join/task.h"
#include "net/engine/choose.h"
#include "shuffle/rows/reject.h"
#include "shuffle/worker/worker.h"

enum {
    CREW_SIDES = 2,
    /* In the queue is each step once, a LOW of each side, a fault, and failures, each of a better rank. */
    CREW_EVENTS_MAX = CLUSTER_STEP_COUNT + CREW_SIDES + 1 + BASE_RANK_CAUSE + 1,
    CREW_FILE_OPS = 32, /* reads and writes in flight of a worker: scans of two sides, surveys, output */
    CREW_LISTEN_BACKLOG = 1024,
    CREW_STRANGERS_MAX = 4 * CREW_LISTEN_BACKLOG, /* turned away when a job begins: more come as they go */
    CREW_RING_GONE_MS = 20,                       /* the kernel lets go of a closed ring a little later, */
    CREW_RING_GONE_TURNS = 10,                    /* which is waited for that often */
    CREW_LEAST_CHUNK_BYTES = 4096                 /* one of them is all that an engine without a job has to have */
};

/* A worker without an engine tries to have one after so long, and then half as often each time. */
#define CREW_ENGINE_RETRY_NS (UINT64_C(100) * BASE_NS_PER_MS)
#define CREW_ENGINE_RETRY_NS_MAX (UINT64_C(5) * BASE_NS_PER_S)

struct crew_member {
    struct cluster_crew *crew;
    uint32_t local;
    int listener_fd;
    int memory_node; /* that it is pinned to, or CLUSTER_MEMORY_NODE_ANY */
    pthread_t thread;
    bool started;
    struct shuffle_worker *worker;
    /* the thread's own */
    struct net_engine *engine;              /* NULL: none, and restore_ns says when it is tried again */
    struct net_engine_config engine_config; /* of the engine, or the last that there was */
    struct net_engine_choice engine_choice;
    uint64_t restore_ns, restore_wait_ns;
    struct shuffle_task *task;  /* NULL: none */
    struct join_task *join;     /* the same, if it is of a join or shuffle, else NULL */
    struct bisect_task *bisect; /* the same, if it is of a measurement, else NULL */
    bool quit, task_closed;
    _Atomic uint64_t progress_rows; /* read by the control thread */
    struct net_counters counters_before;
    uint64_t user_before_ns, system_before_ns, prepared_ns;
    uint64_t voluntary_before, involuntary_before;
    uint32_t iowq_before, iowq_workers; /* there when the job was prepared; started since, at most seen */
    struct net_socket_facts facts;
    uint64_t step_user_ns, step_system_ns; /* when the step of a measurement began */
    /* under the crew's lock: what the share came to */
    struct cluster_work report;
    uint64_t *sent_bytes, *received_bytes; /* per worker of the cluster */
};

struct crew_low {
    struct cluster_crew *crew;
    uint32_t side;
    _Atomic bool pending; /* nothing was lent since it was told */
    bool told;            /* under the lock: the control thread has not looked yet, whatever was lent meanwhile */
};

struct cluster_crew {
    struct cluster_crew_config config;
    struct crew_member *member;
    struct net_address *address;
    int event_fd;
    /* a job's, the control thread's */
    bool active, releasing;
    struct cluster_plan plan;
    uint32_t first_worker;
    uint32_t node_count;
    struct shuffle_node *node; /* the plan's: the report may be asked for when the job is closed */
    struct shuffle_morsel_queue *queue[CREW_SIDES], *survey[CREW_SIDES];
    struct shuffle_survey *surveys[CREW_SIDES];
    struct shuffle_mailroom *mailroom;
    struct crew_low low[CREW_SIDES];
    struct net_engine_choice choice; /* of the job, or the node's */
    struct net_chosen chosen;        /* for it; features 0 for a named rung */
    struct cluster_measure measure;  /* the order that runs, or ran last, owned */
    bool measuring;                  /* it runs: until all workers have said so, they use it */
    /* shared */
    pthread_mutex_t lock;
    uint32_t reached[CLUSTER_STEP_COUNT];
    bool step_told[CLUSTER_STEP_COUNT]; /* the control thread has not looked yet */
    bool failed;
    struct cluster_crew_event fault;            /* the earliest of the job, from the first on */
    bool faulty, fault_told;                    /* there is one; the control thread has not looked at it yet */
    enum base_status failed_status;             /* the best that was told, by rank */
    struct shuffle_rejects rejects[CREW_SIDES]; /* of the job, of passes that have ended */
    struct net_experience experience;           /* of all jobs */
    uint32_t missing;                           /* features that were tried and could not be had */
    struct cluster_measured measured;           /* what the order came to so far, owned */
    struct cluster_crew_event event[CREW_EVENTS_MAX];
    uint32_t event_first, event_count;
    struct cluster_crew_engine engine;
    char engine_warned[NET_REASON_BYTES];
};

/* crew.c */
void crew_post_all(struct cluster_crew *crew, shuffle_command_fn *command);
enum base_status crew_need_job(const struct cluster_crew *crew, struct base_error *error);
/* A worker has reached a step: answered when all have. */
void crew_reached(struct cluster_crew *crew, enum cluster_step_kind step);
/* A worker cannot go on: told if it is the first one, or has a better reason. */
void crew_failed(struct cluster_crew *crew, uint32_t local, const struct base_error *error);
/* A worker met input that cannot be read: the earliest morsel counts. */
void crew_faulty(struct cluster_crew *crew, uint32_t side, uint64_t morsel, const struct base_error *error);
/* Says why the job's engines are what they are; missing: what turned out not to be there. */
void crew_tell_decision(struct cluster_crew *crew, uint32_t missing);

/* crew/member.c: a worker's thread, and orders to it. */
void *crew_member_main(void *argument);
shuffle_command_fn crew_command_prepare, crew_command_survey, crew_command_connect, crew_command_start_0,
    crew_command_start_1, crew_command_halt, crew_command_finish, crew_command_abort, crew_command_quit;

/* crew/bisect.c */
/* Adds what a member's part of a step came to. */
void crew_bisect_collect(struct crew_member *member);
void crew_bisect_forget(struct cluster_crew *crew);

#endif
