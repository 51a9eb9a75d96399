#include "shuffle/source/file.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/file.h"

void shuffle_file_describe(const struct stat *about, struct shuffle_file *file)
{
    file->bytes = (uint64_t)about->st_size;
    file->modified_ns = about->st_mtim.tv_sec * INT64_C(1000000000) + about->st_mtim.tv_nsec;
    file->device = about->st_dev;
    file->inode = about->st_ino;
}

static enum base_status file_compare(const struct shuffle_file *file, const struct stat *about,
                                     struct base_error *error)
{
    static const char *const advice = "leave input files alone until the job ends, and run it again";
    struct shuffle_file now;
    shuffle_file_describe(about, &now);
    if (now.bytes != file->bytes)
        return base_error_set(error, BASE_IO,
                              "%s changed while the job ran: it has %" PRIu64 " bytes, but counted %" PRIu64
                              " when the job was planned; %s",
                              file->path, now.bytes, file->bytes, advice);
    if (now.device != file->device || now.inode != file->inode)
        return base_error_set(error, BASE_IO, "%s changed while the job ran: another file has taken its place; %s",
                              file->path, advice);
    if (now.modified_ns != file->modified_ns)
        return base_error_set(error, BASE_IO, "%s changed while the job ran: it was written to; %s", file->path,
                              advice);
    return BASE_OK;
}

enum base_status shuffle_file_open(const struct shuffle_file *file, int *fd, struct base_error *error)
{
    struct stat about;
    int opened;
    enum base_status status = base_file_open(file->path, &opened, &about, error);
    if (status != BASE_OK)
        return status;
    status = file_compare(file, &about, error);
    if (status != BASE_OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    return BASE_OK;
}

enum base_status shuffle_file_check(const struct shuffle_file *file, int fd, struct base_error *error)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return base_error_set_errno(error, errno, "cannot look at %s", file->path);
    return file_compare(file, &about, error);
}
