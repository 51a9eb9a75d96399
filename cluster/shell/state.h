/* The coordinator's folder on disk: which job numbers were used, and which decisions stand. One coordinator at a time
 * has it (a lock); nobody else may write to it. Files have checksums (cluster/shell/state_file.h): a damaged one is
 * told and never acted upon.
 *
 *   lock        held by flock
 *   epoch       how many blocks of 100,000 job numbers were handed out, and the folder's random id
 *   decision-N  a decision to publish job N (JSON); removed once carried out
 *   .new-*      a file that is being written
 *
 * Functions may be called by any thread, but one at a time for one state. */
#ifndef MILLRACE_CLUSTER_SHELL_STATE_H
#define MILLRACE_CLUSTER_SHELL_STATE_H

#include "cluster/coordinator/coordinator.h"

struct cluster_state;

enum { CLUSTER_STATE_ID_BYTES = 17 }; /* 16 digits and a zero */

/* Makes the folder when it is not there. BASE_BUSY when another coordinator has it; BASE_DENIED when others may write
 * to it. *first_job begins a block of numbers, as cluster_state_reserve gives. */
enum base_status cluster_state_open(const char *folder, struct cluster_state **state, uint64_t *first_job,
                                    struct base_error *error);
void cluster_state_close(struct cluster_state *state);
/* A block of CLUSTER_JOBS_PER_BLOCK job numbers that this folder never gave before and never gives again. Durable. */
enum base_status cluster_state_reserve(struct cluster_state *state, uint64_t *first_job, struct base_error *error);
/* A random text that no other state folder has. */
const char *cluster_state_id(const struct cluster_state *state);
/* Durable when it returns BASE_OK. Else *unknown says whether it may be on disk all the same: then the caller records
 * it again, until it is or definitely is not. again: an earlier try ended so. */
enum base_status cluster_state_record(struct cluster_state *state, const struct cluster_decision *decision, bool again,
                                      bool *unknown, struct base_error *error);
void cluster_state_forget(struct cluster_state *state, uint64_t job);
/* Gives every decision that stands to the coordinator. One that cannot be read is an error: it must not be forgotten
 * silently. */
enum base_status cluster_state_restore(struct cluster_state *state, struct cluster_coordinator *coordinator,
                                       struct base_error *error);

#endif
