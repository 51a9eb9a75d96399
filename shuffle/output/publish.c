/* Every node has a claim in DIR, .job-NAME-WWWWW (its first worker), which makes DIR recognisable to the nodes of one
 * job that share a file system. A node makes DIR with its claim in it, under another name beside it, and puts it in
 * place by a rename that replaces nothing: so DIR is never seen without a claim. A node that finds DIR there looks for
 * a claim of its job and adds its own. Where a file system has no such rename, mkdir decides who makes DIR, and
 * everybody else waits for the claim. A claim goes when its node has published, or with all of the job's files when
 * that is aborted.
 *
 * Commit and success may be repeated, and by several nodes at once: renames of files that are already in place are
 * skipped. A node that has no claim in DIR has published, if _SUCCESS.json is there, or DIR is somebody else's. */
#include "shuffle/output/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"

#define SUCCESS_NAME "_SUCCESS.json"
enum { CLAIM_WAIT_MS = 1000, FILE_NAME_BYTES = NAME_MAX + 1 };

/* What a job's files are called, up to its name. */
static const char *const hidden[] = {".attempt-", ".success-", ".job-"}; /* claims last: they go last */
enum { HIDDEN = sizeof hidden / sizeof *hidden, HIDDEN_CLAIM = 2 };

/* ---- names ---- */

static enum base_status publish_no_memory(const char *directory, struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for a path in %s", directory);
}

static char *format_path(const char *directory, const char *name)
{
    char *path;
    return asprintf(&path, "%s/%s", directory, name) < 0 ? NULL : path;
}

void shuffle_publish_name(uint64_t job, const char *state, const uint8_t random[8],
                          char name[SHUFFLE_PUBLISH_NAME_BYTES])
{
    uint64_t number;
    memcpy(&number, random, sizeof number);
    snprintf(name, SHUFFLE_PUBLISH_NAME_BYTES, "job-%" PRIu64 "-%.32s-%016" PRIx64, job, state, number);
}

static void attempt_name(const char *name, uint32_t worker, const char *extension, char file[FILE_NAME_BYTES])
{
    snprintf(file, FILE_NAME_BYTES, ".attempt-%.95s-part-%05u.%.15s", name, worker, extension);
}

static void part_name(uint32_t worker, const char *extension, char file[FILE_NAME_BYTES])
{
    snprintf(file, FILE_NAME_BYTES, "part-%05u.%.15s", worker, extension);
}

static void claim_name(const struct shuffle_publication *publication, char file[FILE_NAME_BYTES])
{
    snprintf(file, FILE_NAME_BYTES, ".job-%.95s-%05u", publication->name, publication->first);
}

static void success_name(const struct shuffle_publication *publication, char file[FILE_NAME_BYTES])
{
    snprintf(file, FILE_NAME_BYTES, ".success-%.95s-%05u", publication->name, publication->first);
}

/* Where a node makes DIR before it is put in place: beside it. */
static void staged_name(const struct shuffle_publication *publication, char file[FILE_NAME_BYTES])
{
    snprintf(file, FILE_NAME_BYTES, ".millrace-%.95s-%05u", publication->name, publication->first);
}

char *shuffle_publish_attempt_path(const char *directory, const char *name, uint32_t worker, const char *extension)
{
    char file[FILE_NAME_BYTES];
    attempt_name(name, worker, extension, file);
    return format_path(directory, file);
}

/* Cuts a path into the directory that holds it and its last name, both malloc'ed, without slashes at the end: the
 * kernel would follow a link whose name ends in one. */
static enum base_status split_path(const char *path, char **parent, char **base, struct base_error *error)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    size_t parent_end = begin;
    while (parent_end > 1 && path[parent_end - 1] == '/')
        parent_end--;
    *base = strndup(path + begin, end - begin);
    *parent = parent_end == 0 ? strdup(".") : strndup(path, parent_end);
    if (*base && *parent)
        return BASE_OK;
    free(*base);
    free(*parent);
    return publish_no_memory(path, error);
}

/* ---- directories ---- */

static enum base_status directory_exists(const char *directory, struct base_error *error)
{
    return base_error_set(error, BASE_EXISTS, "%s exists already: remove it, or write to another directory", directory);
}

/* A directory, never through a link. */
static int open_beneath(int parent, const char *name)
{
    return openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* *base is malloc'ed. */
static enum base_status open_parent(const char *directory, int *parent, char **base, struct base_error *error)
{
    char *path;
    const enum base_status status = split_path(directory, &path, base, error);
    if (status != BASE_OK)
        return status;
    *parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*parent >= 0) {
        free(path);
        return BASE_OK;
    }
    const enum base_status failed = base_error_set_errno(error, errno, "cannot open %s", path);
    BASE_ASSERT(failed != BASE_OK);
    free(*base);
    free(path);
    return failed;
}

static enum base_status open_directory(const char *directory, int *fd, struct base_error *error)
{
    int parent;
    char *base;
    const enum base_status status = open_parent(directory, &parent, &base, error);
    if (status != BASE_OK)
        return status;
    *fd = open_beneath(parent, base);
    const int cause = errno;
    close(parent);
    free(base);
    return *fd < 0 ? base_error_set_errno(error, cause, "cannot open %s", directory) : BASE_OK;
}

static enum base_status sync_fd(int fd, const char *what, struct base_error *error)
{
    if (fsync(fd) != 0 && errno != EINVAL) /* EINVAL: a file system without durable directories */
        return base_error_set_errno(error, errno, "cannot sync %s", what);
    return BASE_OK;
}

/* A directory's own name. */
static enum base_status sync_parent(int directory_fd, const char *directory, struct base_error *error)
{
    const int fd = openat(directory_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot open the parent of %s", directory);
    const enum base_status status = sync_fd(fd, directory, error);
    close(fd);
    return status;
}

static bool file_exists(int directory_fd, const char *name)
{
    struct stat info;
    return fstatat(directory_fd, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
}

/* Makes a file. Whose it is, is what the file system says, which may know us under another number: the directory must
 * be of the same. Otherwise somebody put his own in place of ours. */
static enum base_status make_file(int directory_fd, const char *directory, const char *name, int *fd,
                                  struct base_error *error)
{
    const int made = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (made < 0)
        return base_error_set_errno(error, errno, "cannot create %s/%s", directory, name);
    struct stat file, holder;
    enum base_status status = BASE_OK;
    if (fstat(made, &file) != 0 || fstat(directory_fd, &holder) != 0)
        status = base_error_set_errno(error, errno, "cannot look at %s", directory);
    else if (file.st_uid != holder.st_uid)
        status = base_error_set(error, BASE_DENIED,
                                "%s belongs to user %u, what is written there to user %u: run all nodes as one user, "
                                "and let nobody else make that directory",
                                directory, holder.st_uid, file.st_uid);
    if (status == BASE_OK) {
        *fd = made;
        return BASE_OK;
    }
    unlinkat(directory_fd, name, 0);
    close(made);
    return status;
}

enum base_status shuffle_publish_create(const char *path, int *fd, struct base_error *error)
{
    char *directory, *base;
    enum base_status status = split_path(path, &directory, &base, error);
    if (status != BASE_OK)
        return status;
    int directory_fd;
    status = open_directory(directory, &directory_fd, error);
    if (status == BASE_OK) {
        status = make_file(directory_fd, directory, base, fd, error);
        close(directory_fd);
    }
    free(directory);
    free(base);
    return status;
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
    char *parent, *base;
    enum base_status status = split_path(directory, &parent, &base, error);
    if (status != BASE_OK)
        return status;
    if (stat(parent, &info) != 0)
        status = base_error_set_errno(error, errno, "cannot make %s: its parent directory %s", directory, parent);
    else if (!S_ISDIR(info.st_mode))
        status = base_error_set(error, BASE_INVALID, "cannot make %s: %s is not a directory", directory, parent);
    else if (access(parent, W_OK | X_OK) != 0)
        status = base_error_set_errno(error, errno, "cannot make %s: its parent directory %s cannot be written",
                                      directory, parent);
    free(parent);
    free(base);
    return status;
}

/* ---- listing ---- */

static DIR *list_directory(int directory_fd)
{
    const int fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    if (!listing && fd >= 0)
        close(fd);
    return listing;
}

static const struct dirent *next_entry(DIR *listing)
{
    const struct dirent *entry;
    do
        entry = readdir(listing);
    while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry;
}

/* The job's name in a file's, if it is called as the kind `of` of a job's files is: what follows the prefix. */
static const char *hidden_name(const char *file, size_t of)
{
    const size_t bytes = strlen(hidden[of]);
    return strncmp(file, hidden[of], bytes) == 0 ? file + bytes : NULL;
}

static bool is_of_job(const char *file, size_t of, const char *name)
{
    const char *rest = hidden_name(file, of);
    const size_t bytes = strlen(name);
    return rest && strncmp(rest, name, bytes) == 0 && rest[bytes] == '-';
}

/* Has any node of the job a claim there? *used: there is something. */
static bool find_claim(int directory_fd, const char *name, bool *used)
{
    DIR *listing = list_directory(directory_fd);
    bool found = false;
    *used = !listing;
    for (const struct dirent *entry; listing != NULL && !found && (entry = next_entry(listing)) != NULL;) {
        *used = true;
        found = is_of_job(entry->d_name, HIDDEN_CLAIM, name);
    }
    if (listing)
        closedir(listing);
    return found;
}

/* The node that made the directory put a claim there at once: an empty one is given a little time where it was not put
 * in place with one. */
static bool await_claim(int directory_fd, const char *name, bool patient)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    for (int waited_ms = 0; waited_ms < CLAIM_WAIT_MS; waited_ms += 10) {
        bool used;
        if (find_claim(directory_fd, name, &used))
            return true;
        if (used || !patient)
            return false;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* ---- begin ---- */

static enum base_status make_claim(const struct shuffle_publication *publication, int directory_fd,
                                   struct base_error *error)
{
    char claim[FILE_NAME_BYTES];
    int fd;
    claim_name(publication, claim);
    const enum base_status status = make_file(directory_fd, publication->directory, claim, &fd, error);
    if (status == BASE_OK)
        close(fd);
    return status;
}

/* DIR was there. */
static enum base_status join_directory(const struct shuffle_publication *publication, int parent, const char *base,
                                       bool patient, struct base_error *error)
{
    const int fd = open_beneath(parent, base);
    if (fd < 0)
        return errno == ENOTDIR || errno == ELOOP
                   ? directory_exists(publication->directory, error)
                   : base_error_set_errno(error, errno, "cannot open %s", publication->directory);
    enum base_status status = BASE_OK;
    if (!await_claim(fd, publication->name, patient))
        status = directory_exists(publication->directory, error);
    if (status == BASE_OK)
        status = make_claim(publication, fd, error);
    close(fd);
    return status;
}

/* Makes a directory with our claim in it. */
static enum base_status make_directory(const struct shuffle_publication *publication, int parent, const char *base,
                                       struct base_error *error)
{
    const int fd = open_beneath(parent, base);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot open %s", publication->directory);
    const enum base_status status = make_claim(publication, fd, error);
    close(fd);
    if (status != BASE_OK)
        unlinkat(parent, base, AT_REMOVEDIR);
    return status;
}

static void remove_staged(const struct shuffle_publication *publication, int parent, const char *staged)
{
    char claim[FILE_NAME_BYTES];
    const int fd = open_beneath(parent, staged);
    if (fd < 0)
        return;
    claim_name(publication, claim);
    unlinkat(fd, claim, 0);
    close(fd);
    unlinkat(parent, staged, AT_REMOVEDIR);
}

/* Where there is no rename that replaces nothing. */
static enum base_status begin_by_mkdir(const struct shuffle_publication *publication, int parent, const char *base,
                                       struct base_error *error)
{
    if (mkdirat(parent, base, 0777) == 0)
        return make_directory(publication, parent, base, error);
    if (errno != EEXIST)
        return base_error_set_errno(error, errno, "cannot make %s", publication->directory);
    return join_directory(publication, parent, base, true, error);
}

enum base_status shuffle_publish_begin(const struct shuffle_publication *publication, struct base_error *error)
{
    int parent;
    char *base, staged[FILE_NAME_BYTES];
    enum base_status status = open_parent(publication->directory, &parent, &base, error);
    if (status != BASE_OK)
        return status;
    staged_name(publication, staged);
    if (mkdirat(parent, staged, 0777) != 0) {
        status = base_error_set_errno(error, errno, "cannot make %s", publication->directory);
    } else if ((status = make_directory(publication, parent, staged, error)) == BASE_OK &&
               renameat2(parent, staged, parent, base, RENAME_NOREPLACE) != 0) {
        const int cause = errno;
        remove_staged(publication, parent, staged);
        if (cause == EEXIST)
            status = join_directory(publication, parent, base, false, error);
        else if (cause == EINVAL || cause == ENOSYS || cause == EOPNOTSUPP)
            status = begin_by_mkdir(publication, parent, base, error);
        else
            status = base_error_set_errno(error, cause, "cannot make %s", publication->directory);
    }
    close(parent);
    free(base);
    return status;
}

/* ---- publishing ---- */

/* Writes the text durably under this node's name. */
static enum base_status write_success(const struct shuffle_publication *publication, int directory_fd, const char *name,
                                      const char *text, struct base_error *error)
{
    int fd;
    unlinkat(directory_fd, name, 0); /* of an attempt to write it that was interrupted */
    enum base_status status = make_file(directory_fd, publication->directory, name, &fd, error);
    if (status != BASE_OK)
        return status;
    for (size_t left = strlen(text); left > 0 && status == BASE_OK;) {
        const ssize_t written = write(fd, text, left);
        if (written < 0 && errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot write %s/%s", publication->directory, name);
        text += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    if (status == BASE_OK)
        status = sync_fd(fd, publication->directory, error);
    close(fd);
    if (status != BASE_OK)
        unlinkat(directory_fd, name, 0);
    return status;
}

static enum base_status not_ours(const struct shuffle_publication *publication, struct base_error *error)
{
    return base_error_set(error, BASE_NOT_FOUND, "%s is not the directory that this job made there",
                          publication->directory);
}

/* Opens DIR, where this node has its claim. *published instead: it has gone, since the node has published. */
static enum base_status open_claimed(const struct shuffle_publication *publication, int *fd, bool *published,
                                     struct base_error *error)
{
    char claim[FILE_NAME_BYTES];
    enum base_status status = open_directory(publication->directory, fd, error);
    if (status != BASE_OK)
        return status == BASE_INVALID ? not_ours(publication, error) : status;
    claim_name(publication, claim);
    const bool claimed = file_exists(*fd, claim);
    *published = !claimed && file_exists(*fd, SUCCESS_NAME);
    if (!claimed && !*published)
        status = not_ours(publication, error);
    if (!claimed)
        close(*fd);
    return status;
}

enum base_status shuffle_publish_stage(const struct shuffle_publication *publication, const char *text,
                                       struct base_error *error)
{
    int fd;
    bool published;
    char name[FILE_NAME_BYTES];
    enum base_status status = open_claimed(publication, &fd, &published, error);
    if (status != BASE_OK || published)
        return status == BASE_OK ? directory_exists(publication->directory, error) : status;
    success_name(publication, name);
    status = write_success(publication, fd, name, text, error);
    if (status == BASE_OK)
        status = sync_fd(fd, publication->directory, error);
    if (status == BASE_OK)
        status = sync_parent(fd, publication->directory, error);
    close(fd);
    return status;
}

/* Renames from to to, unless that has happened. */
static enum base_status put_in_place(int directory_fd, const char *directory, const char *from, const char *to,
                                     struct base_error *error)
{
    if (renameat(directory_fd, from, directory_fd, to) == 0)
        return BASE_OK;
    const int cause = errno;
    if (cause == ENOENT && file_exists(directory_fd, to))
        return BASE_OK;
    return base_error_set_errno(error, cause, "cannot rename %s/%s to %s", directory, from, to);
}

enum base_status shuffle_publish_commit(const struct shuffle_publication *publication, struct base_error *error)
{
    int fd;
    bool published;
    enum base_status status = open_claimed(publication, &fd, &published, error);
    if (status != BASE_OK || published)
        return status;
    for (uint32_t i = 0; i < publication->count && status == BASE_OK; i++) {
        char from[FILE_NAME_BYTES], to[FILE_NAME_BYTES];
        attempt_name(publication->name, publication->first + i, publication->extension, from);
        part_name(publication->first + i, publication->extension, to);
        status = put_in_place(fd, publication->directory, from, to, error);
    }
    if (status == BASE_OK)
        status = sync_fd(fd, publication->directory, error);
    close(fd);
    return status;
}

enum base_status shuffle_publish_success(const struct shuffle_publication *publication, const char *text,
                                         struct base_error *error)
{
    int fd;
    bool published;
    char name[FILE_NAME_BYTES], claim[FILE_NAME_BYTES];
    enum base_status status = open_claimed(publication, &fd, &published, error);
    if (status != BASE_OK || published)
        return status;
    success_name(publication, name);
    claim_name(publication, claim);
    if (!file_exists(fd, name) && !file_exists(fd, SUCCESS_NAME))
        status = write_success(publication, fd, name, text, error);
    if (status == BASE_OK)
        status = put_in_place(fd, publication->directory, name, SUCCESS_NAME, error);
    if (status == BASE_OK)
        status = sync_fd(fd, publication->directory, error);
    if (status == BASE_OK && unlinkat(fd, claim, 0) != 0 && errno != ENOENT)
        base_log_warn("cannot remove %s/%s: %s", publication->directory, claim, strerror(errno));
    close(fd);
    return status;
}

/* ---- abort ---- */

/* Removes the job's files of one kind. */
static enum base_status remove_kind(int directory_fd, const char *directory, size_t kind, const char *name, bool *ours,
                                    struct base_error *error)
{
    DIR *listing = list_directory(directory_fd);
    if (!listing)
        return base_error_set_errno(error, errno, "cannot list %s", directory);
    enum base_status status = BASE_OK;
    for (const struct dirent *entry; (entry = next_entry(listing)) != NULL;) {
        if (!is_of_job(entry->d_name, kind, name))
            continue;
        *ours = true;
        if (unlinkat(directory_fd, entry->d_name, 0) != 0 && errno != ENOENT && status == BASE_OK)
            status = base_error_set_errno(error, errno, "cannot remove %s/%s", directory, entry->d_name);
    }
    closedir(listing);
    return status;
}

/* Of nodes that died when they made DIR. */
static void remove_all_staged(const struct shuffle_publication *publication, int parent)
{
    struct shuffle_publication node = *publication;
    char staged[FILE_NAME_BYTES];
    for (node.first = 0; node.first < publication->first + publication->count; node.first++) {
        staged_name(&node, staged);
        remove_staged(&node, parent, staged);
    }
}

enum base_status shuffle_publish_abort(const struct shuffle_publication *publication, struct base_error *error)
{
    int parent;
    char *base;
    enum base_status status = open_parent(publication->directory, &parent, &base, error);
    if (status != BASE_OK)
        return status == BASE_NOT_FOUND ? BASE_OK : status;
    remove_all_staged(publication, parent);
    const int fd = open_beneath(parent, base);
    bool ours = false;
    if (fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ELOOP)
        status = base_error_set_errno(error, errno, "cannot open %s", publication->directory);
    for (size_t kind = 0; fd >= 0 && kind < HIDDEN && status == BASE_OK; kind++)
        status = remove_kind(fd, publication->directory, kind, publication->name, &ours, error);
    if (fd >= 0)
        close(fd);
    /* A directory in which nothing was ours may be somebody else's. Not empty: other nodes have not cleaned up yet. */
    if (ours && status == BASE_OK && unlinkat(parent, base, AT_REMOVEDIR) != 0 && errno != ENOENT &&
        errno != ENOTEMPTY && errno != EEXIST)
        status = base_error_set_errno(error, errno, "cannot remove %s", publication->directory);
    close(parent);
    free(base);
    return status;
}

/* The number in "job-7-STATE-..."; 0: it is of another cluster, or no job's name. */
static uint64_t job_of_state(const char *name, const char *state)
{
    char *end;
    if (strncmp(name, "job-", 4) != 0 || name[4] < '1' || name[4] > '9')
        return 0;
    errno = 0;
    const uint64_t job = strtoull(name + 4, &end, 10);
    const size_t bytes = strlen(state);
    const bool fits = errno == 0 && *end == '-' && strncmp(end + 1, state, bytes) == 0 && end[1 + bytes] == '-';
    return fits ? job : 0;
}

/* The job of the cluster to which all files in the directory belong, none of them published; name is what they are
 * called after. 0: there is no such. */
static uint64_t left_by(int directory_fd, const char *state, char name[SHUFFLE_PUBLISH_NAME_BYTES])
{
    DIR *listing = list_directory(directory_fd);
    uint64_t job = 0;
    name[0] = '\0';
    for (const struct dirent *entry; listing != NULL && (entry = next_entry(listing)) != NULL;) {
        const char *of = NULL;
        for (size_t kind = 0; kind < HIDDEN && !of; kind++)
            of = hidden_name(entry->d_name, kind);
        const uint64_t found = of ? job_of_state(of, state) : 0;
        if (found == 0 || (job != 0 && found != job)) {
            job = 0;
            break;
        }
        if (job == 0) { /* job-7-STATE-RANDOM, of job-7-STATE-RANDOM-00000 or ...-part-00000.csv */
            const size_t bytes = (size_t)(strchr(of + 4, '-') + 1 - of) + strlen(state) + 1 + 16;
            snprintf(name, SHUFFLE_PUBLISH_NAME_BYTES, "%.*s", (int)bytes, of);
        }
        job = found;
    }
    if (listing)
        closedir(listing);
    return job;
}

void shuffle_publish_sweep(const char *directory, const char *state, uint64_t asking, const uint64_t *live,
                           uint64_t live_count)
{
    int fd;
    char name[SHUFFLE_PUBLISH_NAME_BYTES];
    if (state[0] == '\0' || open_directory(directory, &fd, NULL) != BASE_OK)
        return;
    const uint64_t job = left_by(fd, state, name);
    close(fd);
    for (uint64_t i = 0; i < live_count; i++)
        if (live[i] == job)
            return;
    struct base_error error;
    const struct shuffle_publication left = {.directory = directory, .name = name, .extension = ""};
    if (job == 0 || job >= asking)
        return;
    base_log_info("%s holds only what job %" PRIu64 " left behind, which failed: it is removed", directory, job);
    if (shuffle_publish_abort(&left, &error) != BASE_OK)
        base_log_warn("%s", error.text);
}
