/* Inside a node's part in a job: job.c has orders and answers, paths.c looks at its connections in the kernel. */
#ifndef MILLRACE_CLUSTER_NODE_INTERNAL_H
#define MILLRACE_CLUSTER_NODE_INTERNAL_H

#include "cluster/node/job.h"

/* job.c */
/* Of the job, unless the message says of which. */
void node_job_say(struct node_job *job, struct cluster_message *message);

/* paths.c */
/* A step of a measurement begins: what the kernel has counted so far. */
enum base_status node_job_measure(struct node_job *job, struct cluster_measure *order, struct base_error *error);
/* It has ended: MEASURED, with what the kernel counted meanwhile. */
void node_job_say_measured(struct node_job *job);

#endif
