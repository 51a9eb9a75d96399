/* What a node has written of jobs' outputs: those of the running job, those of earlier jobs whose decision it has not
 * heard, and those of aborted jobs that could not be removed yet. Any number of them. Inside the node agent. */
#ifndef MILLRACE_CLUSTER_NODE_OUTPUT_H
#define MILLRACE_CLUSTER_NODE_OUTPUT_H

#include "cluster/protocol/message.h"

struct node_output;

/* Zeroed: none. */
struct node_outputs {
    struct node_output *list;
};

/* Makes the job's directory, or joins it. Nothing to do for a plan without output. */
enum base_status node_output_begin(struct node_outputs *outputs, uint64_t job, const struct join_plan *plan,
                                   uint32_t first, uint32_t count, struct base_error *error);
/* Makes all of it durable. From then on only the coordinator says what becomes of it. */
enum base_status node_output_stage(struct node_outputs *outputs, uint64_t job, const char *text,
                                   struct base_error *error);
bool node_output_staged(const struct node_outputs *outputs, uint64_t job);
/* Also of a job that this process never heard of. */
enum base_status node_output_commit(struct node_outputs *outputs, uint64_t job, const struct cluster_commit *commit,
                                    struct base_error *error);
enum base_status node_output_publish(const struct cluster_publish *publish, struct base_error *error);
/* Removes what the job has, now or, if that fails, by node_output_retry. */
void node_output_abort(struct node_outputs *outputs, uint64_t job, uint64_t now_ns);
void node_output_retry(struct node_outputs *outputs, uint64_t now_ns);
/* UINT64_MAX: nothing waits. */
uint64_t node_output_deadline_ns(const struct node_outputs *outputs);
/* Numbers of the jobs whose decision is not known, at most max; how many. */
uint32_t node_output_doubts(const struct node_outputs *outputs, uint64_t *job, uint32_t max);
void node_output_close(struct node_outputs *outputs);

#endif
