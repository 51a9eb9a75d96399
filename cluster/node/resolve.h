/* A node's look at a job's sources: which files there are, how large, of what schema. On a thread of its own, because a
 * file system may not answer for minutes or ever, and the control thread has more to do. A look that is abandoned
 * meanwhile frees itself when its file system lets it go. Inside the node agent. */
#ifndef MILLRACE_CLUSTER_NODE_RESOLVE_H
#define MILLRACE_CLUSTER_NODE_RESOLVE_H

#include "cluster/protocol/message.h"

/* Looks that were abandoned and still hang; with so many no new one begins. */
enum { NODE_RESOLVE_STUCK_MAX = 16 };

struct node_resolve;

/* Begins to look for this job. Takes over what `asked` holds and empties it. Writes to wake_fd (an eventfd that
 * outlives the look, unless it is abandoned) when it has ended. */
enum base_status node_resolve_start(uint64_t job, struct cluster_resolve *asked, int wake_fd,
                                    struct node_resolve **resolve, struct base_error *error);
/* Has it ended? */
bool node_resolve_ended(const struct node_resolve *resolve);
/* Of one that has ended: frees it. BASE_OK: *found is the caller's to free. Else why nothing was found. */
enum base_status node_resolve_finish(struct node_resolve *resolve, struct cluster_resolved *found,
                                     struct base_error *error);
/* Nobody wants to know any more. May be NULL. */
void node_resolve_abandon(struct node_resolve *resolve);

/* Puts into the relation of a plan what is this machine's alone: the identity of the files that this node itself found
 * for this side (the files of a `local:` source come with their own node's). BASE_PROTOCOL when these are others. */
enum base_status node_resolve_recall(const struct shuffle_relation *found, struct shuffle_relation *planned,
                                     struct base_error *error);

#endif
