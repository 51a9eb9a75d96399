/* A node's part in a job: from orders of the coordinator to orders to the crew, and back. Inside the node agent. */
#ifndef MILLRACE_CLUSTER_NODE_JOB_H
#define MILLRACE_CLUSTER_NODE_JOB_H

#include "cluster/crew/crew.h"
#include "cluster/node/card.h"
#include "cluster/node/output.h"
#include "cluster/node/path_watch.h"
#include "cluster/node/resolve.h"
#include "cluster/protocol/message.h"

/* Sends a message to the coordinator, or drops it when there is no connection (the coordinator then counts this node as
 * lost anyway). */
typedef void cluster_node_send_fn(void *context, const struct cluster_message *message);

struct node_side {
    bool generated;
    uint64_t rows;       /* generated */
    uint32_t file_count; /* else */
    uint64_t *file_bytes;
    uint64_t capacity;
    bool survey;
    uint64_t survey_count;
    uint64_t *survey_index; /* morsels this node surveys */
};

enum node_job_state {
    NODE_JOB_IDLE,
    NODE_JOB_RESOLVING,
    NODE_JOB_RESOLVED,
    NODE_JOB_PREPARED,
    NODE_JOB_RUNNING,  /* a pass runs, or both */
    NODE_JOB_FINISHED, /* parts are written */
    NODE_JOB_STAGED,   /* and durable */
    NODE_JOB_FAILED,   /* the coordinator was told */
    NODE_JOB_RELEASING,
    NODE_JOB_STATE_COUNT
};

struct node_job {
    const char *node_name;
    struct cluster_crew *crew;
    uint32_t workers;
    cluster_node_send_fn *send;
    void *send_context;
    int resolve_fd; /* an eventfd, readable when a look at sources has ended: node_job_resolved */

    uint64_t id;             /* 0: idle */
    struct base_state state; /* enum node_job_state */
    bool crew_has;           /* from PREPARED until the crew has closed it */
    bool abort;              /* RELEASING: its output is not to appear */
    bool looking; /* others may wait for what this node has sent: from the first pass until all nodes have finished, or
                   * a path was found broken */
    struct node_resolve *resolve;  /* the look at sources that goes on, or NULL */
    struct cluster_resolved found; /* from RESOLVED to PREPARE */
    uint32_t node_count;
    struct shuffle_node *node;
    struct net_address *address; /* data address of every worker */
    uint32_t address_count;
    struct node_side side[2];
    uint32_t sides;
    struct cluster_path_watch *paths; /* of a job that measures the network, or NULL */
    struct cluster_path_sum before;   /* when the step began */
    struct cluster_host_time host_before;
    struct node_outputs outputs;
};

/* Comes after the caller has filled in the first part, up to resolve_fd. */
void node_job_begin(struct node_job *job);
/* Handles an order. BASE_PROTOCOL: the coordinator and this node disagree about what is going on; the connection must
 * be ended. */
enum base_status node_job_order(struct node_job *job, struct cluster_message *message, struct base_error *error);
/* Handles what the crew tells. */
void node_job_crew_event(struct node_job *job, const struct cluster_crew_event *event);
/* resolve_fd is readable. */
void node_job_resolved(struct node_job *job);
/* The coordinator is gone, or this process ends: the job is aborted, in its own time. */
void node_job_abandon(struct node_job *job);
void node_job_progress(struct node_job *job);
/* Asks whether the path to another node is broken; then the job has failed. */
void node_job_look(struct node_job *job, struct cluster_path_watch *watch);
bool node_job_idle(const struct node_job *job);
void node_job_close(struct node_job *job);

#endif
