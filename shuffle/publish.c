/* The marker .job-JOB makes DIR recognisable to the nodes of one job that share a file system. DIR is made with the
 * marker in it, under another name beside it, and put in place by a rename that replaces nothing: a node that dies on
 * the way leaves no DIR that nobody knows, and what it leaves beside, the others remove. Where a file system has no
 * such rename, mkdir decides who makes DIR, and everybody else waits for the marker. Every step may be repeated, and by
 * several nodes at once: renames of files that are already in place are skipped, and the last file is put in place by
 * rename under one name. */
#include "shuffle/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum { MARKER_WAIT_MS = 1000 };

static char *format_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

static char *format_path(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *path;
    const int bytes = vasprintf(&path, format, arguments);
    va_end(arguments);
    return bytes < 0 ? NULL : path;
}

static enum base_status no_memory(const char *directory, struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for a path in %s", directory);
}

static char *marker_path(const char *directory, const char *job)
{
    return format_path("%s/.job-%s", directory, job);
}

char *shuffle_publish_attempt_path(const char *directory, const char *job, uint32_t worker, const char *extension)
{
    return format_path("%s/.attempt-%s-part-%05u.%s", directory, job, worker, extension);
}

char *shuffle_publish_part_path(const char *directory, uint32_t worker, const char *extension)
{
    return format_path("%s/part-%05u.%s", directory, worker, extension);
}

static enum base_status directory_exists(const char *directory, struct base_error *error)
{
    return base_error_set(error, BASE_EXISTS, "%s exists already: remove it, or write to another directory", directory);
}

/* The directory that holds path; malloc'ed. */
static char *parent_of(const char *path)
{
    size_t bytes = strlen(path);
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    while (bytes > 0 && path[bytes - 1] != '/')
        bytes--;
    while (bytes > 1 && path[bytes - 1] == '/')
        bytes--;
    return bytes == 0 ? strdup(".") : strndup(path, bytes);
}

enum base_status shuffle_publish_check(const char *directory, struct base_error *error)
{
    struct stat info;
    if (directory[0] == '\0')
        return base_error_set(error, BASE_INVALID, "the output directory has no name");
    if (lstat(directory, &info) == 0)
        return directory_exists(directory, error);
    if (errno != ENOENT)
        return base_error_set_errno(error, errno, "cannot look at %s", directory);
    char *parent = parent_of(directory);
    if (parent == NULL)
        return no_memory(directory, error);
    enum base_status status = BASE_OK;
    if (stat(parent, &info) != 0)
        status = base_error_set_errno(error, errno, "cannot make %s: its parent directory %s", directory, parent);
    else if (!S_ISDIR(info.st_mode))
        status = base_error_set(error, BASE_INVALID, "cannot make %s: %s is not a directory", directory, parent);
    else if (access(parent, W_OK | X_OK) != 0)
        status = base_error_set_errno(error, errno, "cannot make %s: its parent directory %s cannot be written",
                                      directory, parent);
    free(parent);
    return status;
}

/* Makes what was written to the directory itself durable. */
static enum base_status sync_directory(const char *directory, struct base_error *error)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot open %s", directory);
    enum base_status status = BASE_OK;
    if (fsync(fd) != 0 && errno != EINVAL) /* EINVAL: a file system without durable directories */
        status = base_error_set_errno(error, errno, "cannot sync %s", directory);
    close(fd);
    return status;
}

static enum base_status sync_parent(const char *directory, struct base_error *error)
{
    char *parent = parent_of(directory);
    if (parent == NULL)
        return no_memory(directory, error);
    const enum base_status status = sync_directory(parent, error);
    free(parent);
    return status;
}

/* Where DIR is made before it is put in place: .NAME.JOB beside it; malloc'ed. */
static char *staged_path(const char *directory, const char *job)
{
    size_t bytes = strlen(directory);
    while (bytes > 1 && directory[bytes - 1] == '/')
        bytes--;
    size_t begin = bytes;
    while (begin > 0 && directory[begin - 1] != '/')
        begin--;
    return format_path("%.*s.%.*s.%s", (int)begin, directory, (int)(bytes - begin), directory + begin, job);
}

static void remove_staged(const char *staged, const char *job)
{
    char *marker = marker_path(staged, job);
    if (marker != NULL)
        unlink(marker);
    free(marker);
    rmdir(staged);
}

/* Makes DIR with its marker. False: it cannot be made this way here. Else *made says whether it was us: if not, DIR was
 * there, made by another node of this job or not. Several nodes may be at it at once, with one name: whoever finds that
 * gone has lost to one that put it in place. */
static bool stage_directory(const char *directory, const char *job, bool *made)
{
    char *staged = staged_path(directory, job);
    char *marker = staged != NULL ? marker_path(staged, job) : NULL;
    bool able = false;
    *made = false;
    if (marker != NULL && (mkdir(staged, 0777) == 0 || errno == EEXIST)) {
        const int fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        const bool gone = fd < 0 && errno == ENOENT;
        if (fd >= 0)
            close(fd);
        if (fd >= 0)
            *made = renameat2(AT_FDCWD, staged, AT_FDCWD, directory, RENAME_NOREPLACE) == 0;
        able = *made || gone || (fd >= 0 && (errno == EEXIST || errno == ENOENT));
        if (!*made)
            remove_staged(staged, job);
    }
    free(marker);
    free(staged);
    return able;
}

static enum base_status make_marker(const char *marker, const char *directory, struct base_error *error)
{
    const int fd = open(marker, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        const enum base_status status = base_error_set_errno(error, errno, "cannot create %s", marker);
        rmdir(directory);
        return status;
    }
    close(fd);
    return sync_parent(directory, error);
}

/* Does the directory hold anything? */
static bool directory_in_use(const char *directory)
{
    DIR *listing = opendir(directory);
    if (listing == NULL)
        return true;
    bool used = false;
    for (const struct dirent *entry; !used && (entry = readdir(listing)) != NULL;)
        used = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(listing);
    return used;
}

/* Is the directory of this job? Whoever made it puts the marker there at once: an empty one is given a little time. */
static bool find_marker(const char *directory, const char *marker)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int waited_ms = 0; waited_ms < MARKER_WAIT_MS; waited_ms += 10) {
        const bool used = directory_in_use(directory); /* before the marker is looked for: it may appear between */
        if (access(marker, F_OK) == 0)
            return true;
        if (used)
            return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

enum base_status shuffle_publish_begin(const char *directory, const char *job, struct base_error *error)
{
    char *marker = marker_path(directory, job);
    if (marker == NULL)
        return no_memory(directory, error);
    enum base_status status = BASE_OK;
    bool made;
    if (stage_directory(directory, job, &made)) {
        if (made)
            status = sync_parent(directory, error);
        else if (access(marker, F_OK) != 0)
            status = directory_exists(directory, error);
    } else if (mkdir(directory, 0777) == 0)
        status = make_marker(marker, directory, error);
    else if (errno != EEXIST)
        status = base_error_set_errno(error, errno, "cannot make %s", directory);
    else if (!find_marker(directory, marker))
        status = directory_exists(directory, error);
    free(marker);
    return status;
}

/* Renames from to to, unless that has happened. */
static enum base_status put_in_place(const char *from, const char *to, struct base_error *error)
{
    if (rename(from, to) == 0)
        return BASE_OK;
    const int cause = errno;
    if (cause == ENOENT && access(to, F_OK) == 0)
        return BASE_OK;
    return base_error_set_errno(error, cause, "cannot rename %s to %s", from, to);
}

enum base_status shuffle_publish_commit(const char *directory, const char *job, uint32_t first, uint32_t count,
                                        const char *extension, struct base_error *error)
{
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < count && status == BASE_OK; i++) {
        char *from = shuffle_publish_attempt_path(directory, job, first + i, extension);
        char *to = shuffle_publish_part_path(directory, first + i, extension);
        if (from == NULL || to == NULL)
            status = no_memory(directory, error);
        else
            status = put_in_place(from, to, error);
        free(from);
        free(to);
    }
    return status == BASE_OK ? sync_directory(directory, error) : status;
}

/* Writes text to fd and makes it durable. */
static enum base_status write_durably(int fd, const char *path, const char *text, struct base_error *error)
{
    for (size_t left = strlen(text); left > 0;) {
        const ssize_t written = write(fd, text, left);
        if (written < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "cannot write %s", path);
        text += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    if (fchmod(fd, 0644) != 0 || fsync(fd) != 0)
        return base_error_set_errno(error, errno, "cannot sync %s", path);
    return BASE_OK;
}

/* All nodes of the job write the same text to the same attempt, and one of them puts it in place: what one left that
 * died on the way is what it, or another, goes on with. */
static enum base_status write_success(const char *directory, const char *job, const char *final, const char *text,
                                      struct base_error *error)
{
    char *attempt = format_path("%s/.success-%s", directory, job);
    if (attempt == NULL)
        return no_memory(directory, error);
    enum base_status status;
    const int fd = open(attempt, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) {
        status = base_error_set_errno(error, errno, "cannot create %s", attempt);
        free(attempt);
        return status;
    }
    status = write_durably(fd, attempt, text, error);
    close(fd);
    if (status == BASE_OK)
        status = put_in_place(attempt, final, error);
    free(attempt);
    return status;
}

enum base_status shuffle_publish_success(const char *directory, const char *job, const char *text,
                                         struct base_error *error)
{
    char *marker = marker_path(directory, job);
    char *final = format_path("%s/_SUCCESS.json", directory);
    if (marker == NULL || final == NULL) {
        free(marker);
        free(final);
        return no_memory(directory, error);
    }
    enum base_status status = write_success(directory, job, final, text, error);
    if (status == BASE_OK && unlink(marker) != 0 && errno != ENOENT)
        base_log_warn("cannot remove %s: %s", marker, strerror(errno));
    if (status == BASE_OK)
        status = sync_directory(directory, error);
    free(marker);
    free(final);
    return status;
}

/* Removes path if it is there; true when it was. */
static bool remove_file(const char *path)
{
    if (path == NULL)
        return false;
    if (unlink(path) == 0)
        return true;
    if (errno != ENOENT)
        base_log_warn("cannot remove %s: %s", path, strerror(errno));
    return false;
}

void shuffle_publish_abort(const char *directory, const char *job, uint32_t first, uint32_t count,
                           const char *extension)
{
    bool ours = false;
    for (uint32_t i = 0; i < count; i++) {
        char *attempt = shuffle_publish_attempt_path(directory, job, first + i, extension);
        ours |= remove_file(attempt);
        free(attempt);
    }
    char *marker = marker_path(directory, job);
    ours |= remove_file(marker);
    free(marker);
    char *staged = staged_path(directory, job); /* of a node that died when it made DIR */
    if (staged != NULL)
        remove_staged(staged, job);
    free(staged);
    /* A directory in which nothing was ours may be somebody else's. Not empty: other nodes have not cleaned up yet. */
    if (ours && rmdir(directory) != 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        base_log_warn("cannot remove %s: %s", directory, strerror(errno));
}
