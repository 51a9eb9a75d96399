#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const char *base_file_kind_words(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a regular file";
    case S_IFDIR:
        return "a directory";
    case S_IFIFO:
        return "a pipe";
    case S_IFSOCK:
        return "a socket";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    default:
        return "no regular file";
    }
}

/* Of a descriptor just opened; leaves it open. */
static enum base_status file_check(int fd, const char *path, struct stat *about, struct base_error *error)
{
    if (fstat(fd, about) != 0)
        return base_error_set_errno(error, errno, "cannot look at %s", path);
    if (!S_ISREG(about->st_mode))
        return base_error_set(error, BASE_INVALID, "%s is %s: a regular file is needed", path,
                              base_file_kind_words(about->st_mode));
    /* O_NONBLOCK was for opening only: io_uring fails a read of such a file where it would have to wait for a disk. */
    if (fcntl(fd, F_SETFL, 0) != 0)
        return base_error_set_errno(error, errno, "cannot open %s", path);
    return BASE_OK;
}

enum base_status base_file_open(const char *path, int *fd, struct stat *about, struct base_error *error)
{
    struct stat info;
    const int opened = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened < 0 && errno == ENXIO)
        return base_error_set(error, BASE_INVALID, "%s is a socket or a device: a regular file is needed", path);
    if (opened < 0)
        return base_error_set_errno(error, errno, "cannot open %s", path);
    const enum base_status status = file_check(opened, path, &info, error);
    if (status != BASE_OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    if (about)
        *about = info;
    return BASE_OK;
}
