/* The coordinator's folder on disk: which job numbers were used, and which decisions stand. One coordinator at a time
 * has it (a lock).
 *
 *   lock        held by flock
 *   epoch       how often a coordinator was started here; job numbers are epoch * 100000 + n, so they never come back
 *   decision-N  a decision to publish job N (JSON), written under another name, synced, renamed, folder synced; removed
 * once carried out */
#ifndef MILLRACE_CLUSTER_COORDINATOR_STATE_H
#define MILLRACE_CLUSTER_COORDINATOR_STATE_H

#include "cluster/coordinator.h"

struct cluster_state;

/* Makes the folder when it is not there. BASE_BUSY when another coordinator has it. *first_job is for this start. */
enum base_status cluster_state_open(const char *folder, struct cluster_state **state, uint64_t *first_job,
                                    struct base_error *error);
void cluster_state_close(struct cluster_state *state);
/* Durable when it returns BASE_OK. */
enum base_status cluster_state_record(struct cluster_state *state, const struct cluster_decision *decision,
                                      struct base_error *error);
void cluster_state_forget(struct cluster_state *state, uint64_t job);
/* Gives every decision that stands to the coordinator. One that cannot be read is an error: it must not be forgotten
 * silently. */
enum base_status cluster_state_restore(struct cluster_state *state, struct cluster_coordinator *coordinator,
                                       struct base_error *error);

#endif
