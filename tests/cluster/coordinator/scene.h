/* What most tests of the coordinator begin and end with, on the rig. */
#ifndef MILLRACE_TESTS_CLUSTER_COORDINATOR_SCENE_H
#define MILLRACE_TESTS_CLUSTER_COORDINATOR_SCENE_H

#include "tests/cluster/coordinator/rig.h"

/* Within this a lost node's job has ended, and all others have let go of it. */
#define SCENE_LOST_NS (UINT64_C(2) * BASE_NS_PER_S)
#define SCENE_FREE_NS (UINT64_C(3) * BASE_NS_PER_S)

/* The orders after which a node is lost, cancelled or failing: every phase has one. */
enum { SCENE_PHASES = 9 };
extern const enum cluster_message_kind scene_phases[SCENE_PHASES];

/* The one rig of a test program. */
struct rig *scene_rig(void);
/* Opens it with so many nodes, which are all here. */
void scene_open(struct rig *rig, uint64_t seed, uint32_t nodes);
/* The status of the client's report, which must come within ns. */
enum base_status scene_await(struct rig *rig, struct rig_client *client, uint64_t ns);
/* Fails unless the report's error has these words. */
void scene_says(const struct rig_client *client, const char *words);
/* Fails unless all nodes that live have let go of their job. */
void scene_all_free(struct rig *rig);
void scene_good_job(struct rig *rig);
/* Is it an order of a job with output alone? */
bool scene_is_output(enum cluster_message_kind phase);
/* Starts a job that stands still at node 2 in the given phase. */
struct rig_client *scene_stand_still(struct rig *rig, enum cluster_message_kind phase);
/* The node says FAILED. */
void scene_fail(struct rig *rig, uint32_t node, uint64_t job, enum base_status status);

#endif
