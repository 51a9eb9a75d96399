/* What the rig's network and time have to do with its nodes. */
#ifndef MILLRACE_TESTS_CLUSTER_COORDINATOR_RIG_NODE_H
#define MILLRACE_TESTS_CLUSTER_COORDINATOR_RIG_NODE_H

#include "tests/cluster/coordinator/rig.h"

/* Appends after what the same connection carries in the same direction. */
void rig_post(struct rig *rig, uint64_t peer, bool to_coordinator, const struct cluster_message *message);
/* What is on its way to or from a peer is lost with its connection. */
void rig_cut(struct rig *rig, uint64_t peer, bool to_coordinator);

void rig_node_hello(struct rig *rig, uint32_t node);
void rig_node_beat(struct rig *rig, uint32_t node);
void rig_node_hear(struct rig *rig, uint32_t node, const struct cluster_message *message);
/* Without its coordinator a node drops its job; one whose output is durable stays in doubt. */
void rig_node_disconnect(struct rig *rig, uint32_t node, bool process_ended);

#endif
