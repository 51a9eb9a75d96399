/* Small files that outlive their program, in a folder that nobody else may write to.
 *
 * A file begins with a line that says what it is and has a checksum over its name and what follows: one that a disk
 * changed, that was truncated, or that has another's content, is an error and is never acted upon. Files are replaced
 * as a whole, durably, by rename.
 *
 * A folder may be used by several threads as long as no two write or remove one name at a time. */
#ifndef MILLRACE_CLUSTER_SHELL_STATE_FILE_H
#define MILLRACE_CLUSTER_SHELL_STATE_FILE_H

#include <stddef.h>

#include "base/status.h"

enum { STATE_PATH_BYTES = 4096 };

struct state_folder {
    int fd; /* -1: closed */
    int lock_fd;
    char path[STATE_PATH_BYTES];
};

/* Makes the folder if need be, for its owner alone, and locks it. BASE_DENIED: it is somebody else's, or somebody else
 * may write to it, or it is a link. BASE_BUSY: another process has it. What a killed process left half written is
 * removed. */
enum base_status state_folder_open(const char *path, struct state_folder *folder, struct base_error *error);
void state_folder_close(struct state_folder *folder);
/* Has a coordinator handed out job numbers here? Its lock file says so from the first that are durable on: should the
 * file that counts them get lost, the folder does not pass for a new one. */
bool state_folder_used(const struct state_folder *folder);
enum base_status state_folder_mark_used(const struct state_folder *folder, struct base_error *error);

/* Durable when it returns BASE_OK. *in_place (may be NULL, set also on errors): the new file is under its name, though
 * an error came after that, so that nobody knows what a crash would leave. */
enum base_status state_file_write(const struct state_folder *folder, const char *name, const char *text, bool *in_place,
                                  struct base_error *error);
/* Gone durably when it returns BASE_OK, also when it was not there. */
enum base_status state_file_remove(const struct state_folder *folder, const char *name, struct base_error *error);
/* What was written; malloc'ed, *text NULL when there is no such file. BASE_PARSE: it is damaged, or no such file of
 * ours; *plain (may be NULL) is then its bytes as they are, malloc'ed, if they hold no zero byte. */
enum base_status state_file_read(const struct state_folder *folder, const char *name, size_t bytes_max, char **text,
                                 char **plain, struct base_error *error);

#endif
