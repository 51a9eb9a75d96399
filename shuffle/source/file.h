/* A file of a relation, and whether it still is what the plan was made from.
 *
 * A job reads its files in several passes, from several threads and machines: header and schema, the survey, the scan.
 * All of them must see the same bytes. So the plan holds each file's size, time and identity, every opening compares
 * them, and every reader of a part of a file compares once more afterwards: what was read before that second look was
 * unchanged since the plan.
 *
 * Size and time are the same wherever the file is seen. Device and inode are not: copies on two machines differ, and a
 * network file system numbers its devices by machine. Each node uses those which it found itself. */
#ifndef MILLRACE_SHUFFLE_SOURCE_FILE_H
#define MILLRACE_SHUFFLE_SOURCE_FILE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/status.h"
#include "shuffle/source/unpack.h"

struct shuffle_file {
    char *path;
    uint64_t bytes;
    int64_t modified_ns;
    enum shuffle_packing packing; /* how it is compressed, by its name */
    uint64_t device, inode;       /* on the machine that reads it */
};

/* Fills all but path and packing. */
void shuffle_file_describe(const struct stat *about, struct shuffle_file *file);
/* Opens it. BASE_IO, with what differs, when it is no longer the one described. Does not wait for a pipe's writer. */
enum base_status shuffle_file_open(const struct shuffle_file *file, int *fd, struct base_error *error);
/* After the last read: fd, which shuffle_file_open opened, is still of what was described; else BASE_IO. */
enum base_status shuffle_file_check(const struct shuffle_file *file, int fd, struct base_error *error);

#endif
