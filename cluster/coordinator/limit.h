/* The cost model of "what held this job back": from what each node's workers did with their time to one resource
 * and a sentence. Pure. */
#ifndef MILLRACE_CLUSTER_COORDINATOR_LIMIT_H
#define MILLRACE_CLUSTER_COORDINATOR_LIMIT_H

#include "cluster/protocol/message.h"

/* Looks at a report whose numbers are all filled in. text has at least 256 bytes. */
enum cluster_limit cluster_limit_find(const struct cluster_report *report, char *text, size_t text_bytes);

#endif
