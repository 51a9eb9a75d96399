/* Files that a user named. Whatever a path leads to, opening it must not hang, take a terminal, or read from what is no
 * file. */
#ifndef MILLRACE_BASE_FILE_H
#define MILLRACE_BASE_FILE_H

#include <sys/stat.h>

#include "base/status.h"

/* Opens the regular file at path for reading. *fd is the caller's to close and reads as if opened without O_NONBLOCK;
 * *about (may be NULL) is what fstat says of it. BASE_INVALID names what the path is instead ("is a pipe"). Waits for
 * nothing but the file system. */
enum base_status base_file_open(const char *path, int *fd, struct stat *about, struct base_error *error);

/* "a pipe", "a directory", ...; never NULL. */
const char *base_file_kind_words(mode_t mode);

#endif
