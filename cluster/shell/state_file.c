#include "cluster/shell/state_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/log.h"

#define HEADER_WORDS "millrace state 1 xxh3 "
#define TEMPORARY_PREFIX ".new-"
enum { HEADER_BYTES = sizeof HEADER_WORDS - 1 + 16 + 1 };

/* ---- the folder ---- */

static enum base_status folder_check(const struct state_folder *folder, struct base_error *error)
{
    struct stat info;
    if (fstat(folder->fd, &info) < 0)
        return base_error_set_errno(error, errno, "cannot look at the state folder %s", folder->path);
    if (info.st_uid != geteuid())
        return base_error_set(error, BASE_DENIED,
                              "the state folder %s belongs to user %u, not to user %u who starts this: give a folder "
                              "of your own",
                              folder->path, info.st_uid, geteuid());
    /* With the sticky bit others can add files, which are looked at one by one, but not replace ours. */
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) && !(info.st_mode & S_ISVTX))
        return base_error_set(error, BASE_DENIED,
                              "others may write to the state folder %s: see that nobody did, and chmod go-w it",
                              folder->path);
    return BASE_OK;
}

/* Others may be able to put files there. */
static enum base_status check_owner(int fd, struct base_error *error)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return base_error_set_errno(error, errno, "cannot be read");
    if (!S_ISREG(info.st_mode))
        return base_error_set(error, BASE_PARSE, "is no regular file");
    if (info.st_uid != geteuid())
        return base_error_set(error, BASE_DENIED, "was put there by user %u", info.st_uid);
    return BASE_OK;
}

static enum base_status folder_lock(struct state_folder *folder, struct base_error *error)
{
    folder->lock_fd =
        openat(folder->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (folder->lock_fd < 0)
        return base_error_set_errno(error, errno, "cannot open %s/lock", folder->path);
    struct base_error why;
    const enum base_status status = check_owner(folder->lock_fd, &why);
    if (status != BASE_OK)
        return base_error_set(error, status, "%s/lock %s", folder->path, why.text);
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return BASE_OK;
    if (errno == EWOULDBLOCK)
        return base_error_set(error, BASE_BUSY,
                              "another coordinator uses the state folder %s: stop it, or choose another with --state",
                              folder->path);
    return base_error_set_errno(error, errno, "cannot lock %s/lock", folder->path);
}

bool state_folder_used(const struct state_folder *folder)
{
    struct stat info;
    return fstat(folder->lock_fd, &info) < 0 || info.st_size > 0;
}

enum base_status state_folder_mark_used(const struct state_folder *folder, struct base_error *error)
{
    static const char word[] = "used\n";
    if (state_folder_used(folder))
        return BASE_OK;
    if (pwrite(folder->lock_fd, word, sizeof word - 1, 0) != (ssize_t)(sizeof word - 1) || fsync(folder->lock_fd) < 0)
        return base_error_set_errno(error, errno, "cannot write %s/lock", folder->path);
    return BASE_OK;
}

static DIR *folder_list(const struct state_folder *folder)
{
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    return listing;
}

/* With the lock, nobody is writing one. */
static void folder_sweep(const struct state_folder *folder)
{
    DIR *listing = folder_list(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        if (strncmp(entry->d_name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) == 0)
            unlinkat(folder->fd, entry->d_name, 0);
    if (listing)
        closedir(listing);
}

enum base_status state_folder_open(const char *path, struct state_folder *folder, struct base_error *error)
{
    struct state_folder made = {.fd = -1, .lock_fd = -1};
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/') /* a link's name with a slash would be followed */
        bytes--;
    if (bytes == 0 || bytes >= sizeof made.path)
        return base_error_set(error, BASE_INVALID, "the state folder has no name, or too long a one");
    memcpy(made.path, path, bytes);
    if (mkdir(made.path, 0700) < 0 && errno != EEXIST)
        return base_error_set_errno(error, errno, "cannot make the state folder %s", made.path);
    made.fd = open(made.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    enum base_status status = BASE_OK;
    struct stat info;
    if (made.fd < 0 && (errno == ELOOP || errno == ENOTDIR) && lstat(made.path, &info) == 0 && S_ISLNK(info.st_mode))
        status = base_error_set(error, BASE_DENIED, "the state folder %s is a symbolic link: give the folder itself",
                                made.path);
    else if (made.fd < 0)
        status = base_error_set_errno(error, errno, "cannot open the state folder %s", made.path);
    if (status == BASE_OK)
        status = folder_check(&made, error);
    if (status == BASE_OK)
        status = folder_lock(&made, error);
    if (status != BASE_OK) {
        state_folder_close(&made);
        return status;
    }
    folder_sweep(&made);
    *folder = made;
    return BASE_OK;
}

void state_folder_close(struct state_folder *folder)
{
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    if (folder->fd >= 0)
        close(folder->fd);
    folder->fd = folder->lock_fd = -1;
}

/* ---- files ---- */

/* The first line of the file `name` that holds text. False: no memory. */
static bool header_make(const char *name, const char *text, char header[HEADER_BYTES + 1])
{
    const size_t name_bytes = strlen(name) + 1, text_bytes = strlen(text);
    char *both = malloc(name_bytes + text_bytes + 1);
    if (!both)
        return false;
    memcpy(both, name, name_bytes);
    memcpy(both + name_bytes, text, text_bytes + 1);
    snprintf(header, HEADER_BYTES + 1, HEADER_WORDS "%016" PRIx64 "\n",
             (uint64_t)XXH3_64bits(both, name_bytes + text_bytes));
    free(both);
    return true;
}

static enum base_status write_all(int fd, const char *text, const char *path, const char *name,
                                  struct base_error *error)
{
    for (size_t left = strlen(text); left > 0;) {
        const ssize_t some = write(fd, text, left);
        if (some < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "cannot write %s/%s", path, name);
        text += some > 0 ? some : 0;
        left -= some > 0 ? (size_t)some : 0;
    }
    return BASE_OK;
}

static enum base_status folder_sync(const struct state_folder *folder, struct base_error *error)
{
    if (fsync(folder->fd) < 0 && errno != EINVAL) /* EINVAL: a file system without durable folders */
        return base_error_set_errno(error, errno, "cannot sync %s", folder->path);
    return BASE_OK;
}

enum base_status state_file_write(const struct state_folder *folder, const char *name, const char *text, bool *in_place,
                                  struct base_error *error)
{
    uint64_t number;
    char header[HEADER_BYTES + 1], temporary[64];
    if (in_place)
        *in_place = false;
    if (!header_make(name, text, header))
        return base_error_set(error, BASE_NO_MEMORY, "no memory to write %s/%s", folder->path, name);
    if (getrandom(&number, sizeof number, 0) < 0)
        return base_error_set_errno(error, errno, "getrandom");
    snprintf(temporary, sizeof temporary, TEMPORARY_PREFIX "%016" PRIx64, number);
    const int fd = openat(folder->fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot write %s/%s", folder->path, name);
    enum base_status status = write_all(fd, header, folder->path, name, error);
    if (status == BASE_OK)
        status = write_all(fd, text, folder->path, name, error);
    if (status == BASE_OK && fsync(fd) < 0)
        status = base_error_set_errno(error, errno, "cannot sync %s/%s", folder->path, name);
    close(fd);
    if (status == BASE_OK && renameat(folder->fd, temporary, folder->fd, name) < 0)
        status = base_error_set_errno(error, errno, "cannot write %s/%s", folder->path, name);
    if (status != BASE_OK) {
        unlinkat(folder->fd, temporary, 0);
        return status;
    }
    if (in_place)
        *in_place = true;
    return folder_sync(folder, error);
}

enum base_status state_file_remove(const struct state_folder *folder, const char *name, struct base_error *error)
{
    if (unlinkat(folder->fd, name, 0) < 0 && errno != ENOENT)
        return base_error_set_errno(error, errno, "cannot remove %s/%s", folder->path, name);
    return folder_sync(folder, error);
}

/* All bytes of the file, and a zero after them. *bytes BASE_OK only. */
static enum base_status read_all(int fd, size_t bytes_max, char **buffer, size_t *bytes, struct base_error *error)
{
    struct stat info;
    if (fstat(fd, &info) < 0)
        return base_error_set_errno(error, errno, "cannot be read");
    if ((uintmax_t)info.st_size > bytes_max)
        return base_error_set(error, BASE_PARSE, "is damaged: it has more than %zu bytes", bytes_max);
    char *read_here = malloc(bytes_max + 1);
    if (!read_here)
        return base_error_set(error, BASE_NO_MEMORY, "cannot be read: no memory");
    size_t got = 0;
    for (ssize_t some = 1; got < bytes_max && some != 0;) {
        some = read(fd, read_here + got, bytes_max - got);
        if (some < 0 && errno != EINTR) {
            free(read_here);
            return base_error_set_errno(error, errno, "cannot be read");
        }
        got += some > 0 ? (size_t)some : 0;
    }
    read_here[got] = 0;
    *buffer = read_here;
    *bytes = got;
    return BASE_OK;
}

static bool is_whole(const char *name, const char *buffer, size_t bytes)
{
    char header[HEADER_BYTES + 1];
    return bytes >= HEADER_BYTES && strlen(buffer) == bytes && header_make(name, buffer + HEADER_BYTES, header) &&
           memcmp(header, buffer, HEADER_BYTES) == 0;
}

enum base_status state_file_read(const struct state_folder *folder, const char *name, size_t bytes_max, char **text,
                                 char **plain, struct base_error *error)
{
    *text = NULL;
    if (plain)
        *plain = NULL;
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return BASE_OK;
    if (fd < 0)
        return base_error_set_errno(error, errno, "%s/%s cannot be opened", folder->path, name);
    char *buffer = NULL;
    size_t bytes = 0;
    struct base_error why;
    enum base_status status = check_owner(fd, &why);
    if (status == BASE_OK)
        status = read_all(fd, bytes_max, &buffer, &bytes, &why);
    close(fd);
    if (status == BASE_OK && !is_whole(name, buffer, bytes))
        status = base_error_set(&why, BASE_PARSE, "is damaged: its checksum does not fit");
    if (status == BASE_OK) {
        memmove(buffer, buffer + HEADER_BYTES, bytes - HEADER_BYTES + 1);
        *text = buffer;
        return BASE_OK;
    }
    if (plain && buffer && strlen(buffer) == bytes)
        *plain = buffer;
    else
        free(buffer);
    return base_error_set(error, status, "%s/%s %s", folder->path, name, why.text);
}
