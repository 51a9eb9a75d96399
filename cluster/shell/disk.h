/* The coordinator's work on disk, by a thread of its own: a disk may take seconds to sync a file, or hang, while
 * heartbeats have to be answered. Orders are carried out in their order; what became of them comes back as events. */
#ifndef MILLRACE_CLUSTER_SHELL_DISK_H
#define MILLRACE_CLUSTER_SHELL_DISK_H

#include "cluster/shell/state.h"

struct cluster_disk;

/* Starts the thread, whose alone the state is from then on until close (borrowed). */
enum base_status cluster_disk_open(struct cluster_state *state, struct cluster_disk **disk, struct base_error *error);
/* Readable when cluster_disk_result has something. */
int cluster_disk_fd(const struct cluster_disk *disk);
/* Makes a decision durable, which is copied; ends in one RECORDED. again: it may be on disk already. BASE_NO_MEMORY: it
 * is not ordered, and nothing will come. */
enum base_status cluster_disk_record(struct cluster_disk *disk, const struct cluster_decision *decision, bool again,
                                     struct base_error *error);
/* Reserves a block of job numbers; ends in one RESERVED. BASE_NO_MEMORY as above. */
enum base_status cluster_disk_reserve(struct cluster_disk *disk, struct base_error *error);
/* The decision of a job has been carried out. Nothing comes back: what is not forgotten is carried out once more. */
void cluster_disk_forget(struct cluster_disk *disk, uint64_t job);
/* Takes the next RECORDED or RESERVED; false: none now. */
bool cluster_disk_result(struct cluster_disk *disk, struct cluster_event *event);
/* Ends the thread after what was ordered. False when the disk does not let it end in time: then nothing is freed, and
 * the state is still the thread's. */
bool cluster_disk_close(struct cluster_disk *disk);

#endif
