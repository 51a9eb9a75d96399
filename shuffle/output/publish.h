/* Two-step publication of part files. Blocking file-system calls: for the node's control thread, never a worker.
 *
 * DIR is made when the job is prepared (an existing DIR is an error). Worker w writes DIR/.attempt-NAME-part-WWWWW.EXT.
 * When every worker is done, each node makes what it wrote durable, and with it the text of _SUCCESS.json under a name
 * of its own: so there is room for it, and nothing that comes later needs more. Once all have and the coordinator has
 * recorded its decision, parts are renamed to DIR/part-WWWWW.EXT, the directory is synced, and _SUCCESS.json is put in
 * place last, by rename. Readers trust only a DIR that has it. A job that fails before the decision removes its
 * attempts and the DIR it made.
 *
 * NAME is the job's, with random digits in it: jobs of two clusters never take each other's files for their own, and
 * nobody knows a name before the file is there. Files are made beneath the opened DIR, never through a link, and only
 * where DIR belongs to whom they belong to: others may be able to write to its parent. */
#ifndef MILLRACE_SHUFFLE_OUTPUT_PUBLISH_H
#define MILLRACE_SHUFFLE_OUTPUT_PUBLISH_H

#include <stdint.h>

#include "base/status.h"

enum { SHUFFLE_PUBLISH_NAME_BYTES = 96 };

/* A node's share in a job's output. Borrowed. */
struct shuffle_publication {
    const char *directory;
    const char *name;      /* of the job's files */
    const char *extension; /* "csv" or "bin" */
    uint32_t first, count; /* the node's workers */
};

/* "job-7-STATE-RANDOM" of job number 7 of the cluster that has the id STATE. */
void shuffle_publish_name(uint64_t job, const char *state, const uint8_t random[8],
                          char name[SHUFFLE_PUBLISH_NAME_BYTES]);

/* Is DIR free to be made: it does not exist, its parent exists and can be written? Errors say which. */
enum base_status shuffle_publish_check(const char *directory, struct base_error *error);
/* Removes DIR if all that it holds was left behind by one job of the cluster `state`, before its decision, and that job
 * is older than job `asking` and none of `live`: then nobody will ever need it. Younger jobs are spared because a file
 * system may hold the sweep up until the next job runs. */
void shuffle_publish_sweep(const char *directory, const char *state, uint64_t asking, const uint64_t *live,
                           uint64_t live_count);
/* Makes DIR, or finds it made by another node of the same job. */
enum base_status shuffle_publish_begin(const struct shuffle_publication *publication, struct base_error *error);
/* malloc'ed; the caller frees. NULL when out of memory. */
char *shuffle_publish_attempt_path(const char *directory, const char *name, uint32_t worker, const char *extension);
/* Makes a file that did not exist, to write to, in a directory that belongs to whom the file belongs to. */
enum base_status shuffle_publish_create(const char *path, int *fd, struct base_error *error);
/* Makes everything but the parts' content durable, and writes the text of _SUCCESS.json. May be repeated. */
enum base_status shuffle_publish_stage(const struct shuffle_publication *publication, const char *text,
                                       struct base_error *error);
/* Renames the node's attempts and syncs the directory. Repeating it is harmless. BASE_NOT_FOUND: DIR is not there, or
 * is not this job's. */
enum base_status shuffle_publish_commit(const struct shuffle_publication *publication, struct base_error *error);
/* Puts _SUCCESS.json in place and removes the node's claim. Every node does it: the text is the same. */
enum base_status shuffle_publish_success(const struct shuffle_publication *publication, const char *text,
                                         struct base_error *error);
/* Removes whatever the job has in DIR, also other nodes' (on a file system that nodes share, those of a node that died,
 * too), and DIR when it is empty then. An error says what stays: it may be repeated. */
enum base_status shuffle_publish_abort(const struct shuffle_publication *publication, struct base_error *error);

#endif
