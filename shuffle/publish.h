/* Two-step publication of part files. Blocking file-system calls: for the node's control thread, never a worker.
 *
 * DIR is made when the job is prepared (an existing DIR is an error). Worker w writes DIR/.attempt-JOB-part-WWWWW.EXT.
 * Once every worker's part is durable and the coordinator has recorded its decision, parts are renamed to
 * DIR/part-WWWWW.EXT, the directory is synced, and _SUCCESS.json is put in place last, by rename. Readers trust only a
 * DIR that has it. A job that fails before the decision removes its attempts and the DIR it made. */
#ifndef MILLRACE_SHUFFLE_PUBLISH_H
#define MILLRACE_SHUFFLE_PUBLISH_H

#include <stdint.h>

#include "base/status.h"

/* Is DIR free to be made: it does not exist, its parent exists and can be written? Errors say which. */
enum base_status shuffle_publish_check(const char *directory, struct base_error *error);
/* Makes DIR, or finds it made by another node of the same job (a marker file .job-JOB inside). */
enum base_status shuffle_publish_begin(const char *directory, const char *job, struct base_error *error);
/* malloc'ed paths; the caller frees. NULL when out of memory. extension "csv" or "bin". */
char *shuffle_publish_attempt_path(const char *directory, const char *job, uint32_t worker, const char *extension);
char *shuffle_publish_part_path(const char *directory, uint32_t worker, const char *extension);
/* Renames the attempts of workers [first, first + count) and syncs the directory. Repeating it is harmless. */
enum base_status shuffle_publish_commit(const char *directory, const char *job, uint32_t first, uint32_t count,
                                        const char *extension, struct base_error *error);
/* Writes _SUCCESS.json with the given text (durably, by rename) and removes the marker. Every node may do it: the text
 * is the same. */
enum base_status shuffle_publish_success(const char *directory, const char *job, const char *text,
                                         struct base_error *error);
/* Removes attempts of this job's workers [first, first + count), the marker, and DIR when it is empty then. Never
 * fails; logs what stays. */
void shuffle_publish_abort(const char *directory, const char *job, uint32_t first, uint32_t count,
                           const char *extension);

#endif
