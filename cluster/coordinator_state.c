#include "cluster/coordinator_state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    STATE_JOBS_PER_EPOCH = 100000,
    /* a decision: its text, written as JSON once more, and up to CLUSTER_NODES_MAX nodes */
    STATE_FILE_BYTES_MAX = 4 << 20
};
_Static_assert(STATE_FILE_BYTES_MAX >= 2 * CLUSTER_SUCCESS_BYTES_MAX + 256 * CLUSTER_NODES_MAX + (64 << 10),
               "a decision that was recorded can be read again");

struct cluster_state {
    int folder_fd, lock_fd;
    char folder[PATH_MAX];
};

/* Writes name durably, by rename. */
static enum base_status write_file(const struct cluster_state *state, const char *name, const char *text,
                                   struct base_error *error)
{
    char temporary[NAME_MAX + 1];
    snprintf(temporary, sizeof temporary, ".%.200s.new", name);
    const int fd = openat(state->folder_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return base_error_set_errno(error, errno, "cannot write %s/%s", state->folder, name);
    const size_t bytes = strlen(text);
    size_t written = 0;
    enum base_status status = BASE_OK;
    while (written < bytes && status == BASE_OK) {
        const ssize_t some = write(fd, text + written, bytes - written);
        if (some > 0)
            written += (size_t)some;
        else if (errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot write %s/%s", state->folder, name);
    }
    if (status == BASE_OK && fsync(fd) < 0)
        status = base_error_set_errno(error, errno, "cannot sync %s/%s", state->folder, name);
    close(fd);
    if (status == BASE_OK && renameat(state->folder_fd, temporary, state->folder_fd, name) < 0)
        status = base_error_set_errno(error, errno, "cannot write %s/%s", state->folder, name);
    if (status == BASE_OK && fsync(state->folder_fd) < 0)
        status = base_error_set_errno(error, errno, "cannot sync %s", state->folder);
    if (status != BASE_OK)
        unlinkat(state->folder_fd, temporary, 0);
    return status;
}

/* *text is malloc'ed; NULL when there is no such file. */
static enum base_status read_file(const struct cluster_state *state, const char *name, char **text,
                                  struct base_error *error)
{
    *text = NULL;
    const int fd = openat(state->folder_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? BASE_OK : base_error_set_errno(error, errno, "cannot read %s/%s", state->folder, name);
    char *buffer = malloc(STATE_FILE_BYTES_MAX);
    size_t got = 0;
    enum base_status status = buffer ? BASE_OK : base_error_set(error, BASE_NO_MEMORY, "no memory to read %s", name);
    while (status == BASE_OK && got < STATE_FILE_BYTES_MAX - 1) {
        const ssize_t some = read(fd, buffer + got, STATE_FILE_BYTES_MAX - 1 - got);
        if (some == 0)
            break;
        if (some > 0)
            got += (size_t)some;
        else if (errno != EINTR)
            status = base_error_set_errno(error, errno, "cannot read %s/%s", state->folder, name);
    }
    close(fd);
    if (status != BASE_OK) {
        free(buffer);
        return status;
    }
    buffer[got] = 0;
    *text = buffer;
    return BASE_OK;
}

static enum base_status next_epoch(const struct cluster_state *state, uint64_t *first_job, struct base_error *error)
{
    char *text;
    enum base_status status = read_file(state, "epoch", &text, error);
    if (status != BASE_OK)
        return status;
    uint64_t epoch = 0;
    if (text && sscanf(text, "%" SCNu64, &epoch) != 1)
        status = base_error_set(
            error, BASE_PARSE,
            "%s/epoch holds no number: job numbers would come back; write there a number larger than any start so far",
            state->folder);
    free(text);
    if (status != BASE_OK)
        return status;
    char line[32];
    snprintf(line, sizeof line, "%" PRIu64 "\n", epoch + 1);
    *first_job = epoch * STATE_JOBS_PER_EPOCH + 1;
    return write_file(state, "epoch", line, error);
}

enum base_status cluster_state_open(const char *folder, struct cluster_state **state, uint64_t *first_job,
                                    struct base_error *error)
{
    struct cluster_state *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the coordinator's state");
    made->lock_fd = made->folder_fd = -1;
    snprintf(made->folder, sizeof made->folder, "%s", folder);
    enum base_status status = BASE_OK;
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        status = base_error_set_errno(error, errno, "cannot make the state folder %s", folder);
    if (status == BASE_OK && (made->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        status = base_error_set_errno(error, errno, "cannot open the state folder %s", folder);
    if (status == BASE_OK && (made->lock_fd = openat(made->folder_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644)) < 0)
        status = base_error_set_errno(error, errno, "cannot open %s/lock", folder);
    if (status == BASE_OK && flock(made->lock_fd, LOCK_EX | LOCK_NB) < 0)
        status = base_error_set(error, BASE_BUSY, "another coordinator uses the state folder %s", folder);
    if (status == BASE_OK)
        status = next_epoch(made, first_job, error);
    if (status != BASE_OK) {
        cluster_state_close(made);
        return status;
    }
    *state = made;
    return BASE_OK;
}

void cluster_state_close(struct cluster_state *state)
{
    if (state->lock_fd >= 0)
        close(state->lock_fd);
    if (state->folder_fd >= 0)
        close(state->folder_fd);
    free(state);
}

static void decision_name(uint64_t job, char name[64])
{
    snprintf(name, 64, "decision-%" PRIu64, job);
}

enum base_status cluster_state_record(struct cluster_state *state, const struct cluster_decision *decision,
                                      struct base_error *error)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < decision->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:s, s:I, s:I}", "name", decision->node[i].name, "first",
                                               (json_int_t)decision->node[i].first, "count",
                                               (json_int_t)decision->node[i].count));
    const bool complete = json_array_size(nodes) == decision->node_count;
    json_t *object = json_pack("{s:I, s:s, s:s, s:s, s:o}", "job", (json_int_t)decision->job, "out", decision->out,
                               "extension", decision->extension, "text", decision->text, "nodes", nodes);
    char *text = object && complete ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    if (!text)
        return base_error_set(
            error, BASE_INVALID,
            "the decision of job %" PRIu64 " cannot be written as JSON: is its directory's name UTF-8?", decision->job);
    char name[64];
    decision_name(decision->job, name);
    const enum base_status status = write_file(state, name, text, error);
    free(text);
    return status;
}

void cluster_state_forget(struct cluster_state *state, uint64_t job)
{
    char name[64];
    decision_name(job, name);
    /* Were it found again after a crash, it would be carried out again, which is harmless. */
    if (unlinkat(state->folder_fd, name, 0) < 0 && errno != ENOENT)
        base_log_warn("cannot remove %s/%s: %s", state->folder, name, strerror(errno));
}

static enum base_status parse_decision(const char *text, struct cluster_decision *decision, struct base_error *error)
{
    json_error_t why;
    json_t *object = json_loads(text, 0, &why), *nodes;
    json_int_t job;
    const char *out, *extension, *success;
    enum base_status status = BASE_PARSE;
    if (!object || json_unpack_ex(object, &why, 0, "{s:I, s:s, s:s, s:s, s:o}", "job", &job, "out", &out, "extension",
                                  &extension, "text", &success, "nodes", &nodes) < 0)
        goto bad;
    const size_t count = json_array_size(nodes);
    if (count == 0 || count > CLUSTER_NODES_MAX)
        goto bad;
    status = BASE_NO_MEMORY;
    decision->job = (uint64_t)job;
    decision->out = strdup(out);
    decision->extension = strdup(extension);
    decision->text = strdup(success);
    decision->node = calloc(count, sizeof *decision->node);
    if (!decision->out || !decision->extension || !decision->text || !decision->node)
        goto bad;
    decision->node_count = (uint32_t)count;
    status = BASE_PARSE;
    for (uint32_t i = 0; i < count; i++) {
        const char *name;
        json_int_t first, workers;
        if (json_unpack_ex(json_array_get(nodes, i), &why, 0, "{s:s, s:I, s:I}", "name", &name, "first", &first,
                           "count", &workers) < 0 ||
            first < 0 || workers < 0 || first + workers > CLUSTER_WORKERS_MAX)
            goto bad;
        snprintf(decision->node[i].name, sizeof decision->node[i].name, "%s", name);
        decision->node[i].first = (uint32_t)first;
        decision->node[i].count = (uint32_t)workers;
    }
    json_decref(object);
    return BASE_OK;
bad:
    json_decref(object);
    cluster_decision_free(decision);
    return base_error_set(error, status, "does not parse: %s", status == BASE_PARSE ? why.text : "no memory");
}

static enum base_status restore_one(const struct cluster_state *state, const char *name,
                                    struct cluster_coordinator *coordinator, struct base_error *error)
{
    char *text;
    enum base_status status = read_file(state, name, &text, error);
    if (status != BASE_OK || !text)
        return status;
    struct cluster_decision decision = {0};
    struct base_error why;
    status = parse_decision(text, &decision, &why);
    free(text);
    if (status != BASE_OK)
        return base_error_set(error, status, "the decision %s/%s %s; move it away to go on without it", state->folder,
                              name, why.text);
    base_log_info("job %" PRIu64 " was decided before: its output in %s is completed when its nodes are here",
                  decision.job, decision.out);
    status = cluster_coordinator_restore(coordinator, &decision, error);
    cluster_decision_free(&decision);
    return status;
}

enum base_status cluster_state_restore(struct cluster_state *state, struct cluster_coordinator *coordinator,
                                       struct base_error *error)
{
    const int fd = openat(state->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return base_error_set_errno(error, errno, "cannot list the state folder %s", state->folder);
    }
    enum base_status status = BASE_OK;
    for (struct dirent *entry; status == BASE_OK && (entry = readdir(folder));)
        if (strncmp(entry->d_name, "decision-", 9) == 0)
            status = restore_one(state, entry->d_name, coordinator, error);
    closedir(folder);
    return status;
}
