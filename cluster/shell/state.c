#include "cluster/shell/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "cluster/shell/state_file.h"

#define DECISION_PREFIX "decision-"
enum {
    EPOCH_BYTES_MAX = 4096,
    /* a decision: its text, written as JSON once more, and up to CLUSTER_NODES_MAX nodes */
    DECISION_BYTES_MAX = 4 << 20
};
#define EPOCH_MAX ((uint64_t)INT64_MAX / CLUSTER_JOBS_PER_BLOCK - 1) /* JSON has signed numbers */
_Static_assert(DECISION_BYTES_MAX >= 2 * CLUSTER_SUCCESS_BYTES_MAX + 256 * CLUSTER_NODES_MAX + (64 << 10),
               "a decision that was recorded can be read again");

struct cluster_state {
    struct state_folder folder;
    uint64_t epoch; /* blocks of job numbers that were handed out */
    char id[CLUSTER_STATE_ID_BYTES];
};

/* ---- job numbers ---- */

/* A number alone in the line at *text; *text goes on to the next line. */
static bool state_take_number(const char **text, uint64_t *number)
{
    const char *at = *text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (uint64_t)(*at - '0');
        if (value > EPOCH_MAX)
            return false;
    }
    if (at == *text || (*at != '\n' && *at != '\0'))
        return false;
    *text = *at ? at + 1 : at;
    *number = value;
    return true;
}

/* "12\n0123456789abcdef\n" */
static bool parse_epoch(struct cluster_state *state, const char *text)
{
    uint64_t epoch;
    if (!state_take_number(&text, &epoch) || strlen(text) != CLUSTER_STATE_ID_BYTES ||
        text[CLUSTER_STATE_ID_BYTES - 1] != '\n')
        return false;
    state->epoch = epoch;
    memcpy(state->id, text, CLUSTER_STATE_ID_BYTES - 1);
    return true;
}

/* A number and nothing else. */
static bool parse_plain_epoch(struct cluster_state *state, const char *text)
{
    uint64_t epoch;
    if (!state_take_number(&text, &epoch) || *text)
        return false;
    state->epoch = epoch;
    return true;
}

/* "decision-7", and not what somebody renamed: "decision-7.bad". */
static bool is_decision(const char *name)
{
    const char *number = name + strlen(DECISION_PREFIX);
    return strncmp(name, DECISION_PREFIX, strlen(DECISION_PREFIX)) == 0 && *number &&
           strspn(number, "0123456789") == strlen(number);
}

static bool holds_decisions(const struct cluster_state *state)
{
    const int fd = openat(state->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    for (const struct dirent *entry; listing && !found && (entry = readdir(listing));)
        found = is_decision(entry->d_name);
    if (listing)
        closedir(listing);
    else if (fd >= 0)
        close(fd);
    return found;
}

/* A file without a checksum counts if it holds a number and nothing else: version 0.1.0 wrote such, and so does who
 * mends a damaged one. No flipped bit makes one of those that we write. */
static enum base_status load_epoch(struct cluster_state *state, struct base_error *error)
{
    static const char advice[] = "job numbers would come back; write a number there that is larger than those of all "
                                 "jobs so far divided by 100000, or move the folder away";
    char *text, *plain;
    enum base_status status = state_file_read(&state->folder, "epoch", EPOCH_BYTES_MAX, &text, &plain, error);
    if (status == BASE_OK && !text && (state_folder_used(&state->folder) || holds_decisions(state)))
        status = base_error_set(error, BASE_PARSE, "%s/epoch is missing though job numbers were handed out here: %s",
                                state->folder.path, advice);
    else if (status == BASE_OK && text && !parse_epoch(state, text))
        status = base_error_set(error, BASE_PARSE, "%s/epoch holds no number: %s", state->folder.path, advice);
    else if (status == BASE_PARSE && plain && parse_plain_epoch(state, plain))
        status = BASE_OK;
    else if (status == BASE_PARSE)
        status = base_error_set(error, BASE_PARSE, "%s: %s", error->text, advice);
    free(text);
    free(plain);
    return status;
}

static enum base_status make_id(struct cluster_state *state, struct base_error *error)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) < 0)
        return base_error_set_errno(error, errno, "getrandom");
    snprintf(state->id, sizeof state->id, "%016" PRIx64, number);
    return BASE_OK;
}

enum base_status cluster_state_reserve(struct cluster_state *state, uint64_t *first_job, struct base_error *error)
{
    if (state->epoch >= EPOCH_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "%s/epoch: all job numbers are used up", state->folder.path);
    char text[64];
    snprintf(text, sizeof text, "%" PRIu64 "\n%s\n", state->epoch + 1, state->id);
    const enum base_status status = state_file_write(&state->folder, "epoch", text, NULL, error);
    if (status != BASE_OK)
        return status;
    BASE_ASSERT(state->epoch < EPOCH_MAX && state->id[0]);
    *first_job = state->epoch * CLUSTER_JOBS_PER_BLOCK + 1;
    state->epoch++;
    return BASE_OK;
}

enum base_status cluster_state_open(const char *folder, struct cluster_state **state, uint64_t *first_job,
                                    struct base_error *error)
{
    struct cluster_state *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the coordinator's state");
    enum base_status status = state_folder_open(folder, &made->folder, error);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    status = load_epoch(made, error);
    if (status == BASE_OK && !made->id[0])
        status = make_id(made, error);
    if (status == BASE_OK)
        status = cluster_state_reserve(made, first_job, error);
    if (status == BASE_OK)
        status = state_folder_mark_used(&made->folder, error);
    if (status != BASE_OK) {
        cluster_state_close(made);
        return status;
    }
    *state = made;
    return BASE_OK;
}

void cluster_state_close(struct cluster_state *state)
{
    state_folder_close(&state->folder);
    free(state);
}

const char *cluster_state_id(const struct cluster_state *state)
{
    return state->id;
}

/* ---- decisions ---- */

static void decision_name(uint64_t job, char name[64])
{
    snprintf(name, 64, DECISION_PREFIX "%" PRIu64, job);
}

/* malloc'ed; NULL: a text is not UTF-8, or memory is out. */
static char *decision_format(const struct cluster_decision *decision)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; i < decision->node_count; i++)
        json_array_append_new(nodes, json_pack("{s:s, s:I, s:I}", "name", decision->node[i].name, "first",
                                               (json_int_t)decision->node[i].first, "count",
                                               (json_int_t)decision->node[i].count));
    const bool complete = json_array_size(nodes) == decision->node_count;
    json_t *object =
        json_pack("{s:I, s:s, s:s, s:s, s:s, s:o}", "job", (json_int_t)decision->job, "out", decision->out, "files",
                  decision->files, "extension", decision->extension, "text", decision->text, "nodes", nodes);
    char *text = object && complete ? json_dumps(object, JSON_INDENT(1)) : NULL;
    json_decref(object);
    return text;
}

enum base_status cluster_state_record(struct cluster_state *state, const struct cluster_decision *decision, bool again,
                                      bool *unknown, struct base_error *error)
{
    *unknown = again;
    char *text = decision_format(decision);
    if (!text)
        return base_error_set(
            error, BASE_INVALID,
            "the decision of job %" PRIu64 " cannot be written as JSON: is its directory's name UTF-8?", decision->job);
    char name[64];
    decision_name(decision->job, name);
    bool in_place;
    const enum base_status status = state_file_write(&state->folder, name, text, &in_place, error);
    free(text);
    /* Without its folder's sync it may or may not be found after a crash: it must go, or be told of as unknown. */
    *unknown = status != BASE_OK && (in_place || again) && state_file_remove(&state->folder, name, NULL) != BASE_OK;
    return status;
}

void cluster_state_forget(struct cluster_state *state, uint64_t job)
{
    char name[64];
    struct base_error error;
    decision_name(job, name);
    /* Were it found again after a crash, it would be carried out again, which is harmless. */
    if (state_file_remove(&state->folder, name, &error) != BASE_OK)
        base_log_warn("%s", error.text);
}

static enum base_status parse_decision(const char *text, struct cluster_decision *decision, struct base_error *error)
{
    json_error_t why;
    json_t *object = json_loads(text, 0, &why), *nodes;
    json_int_t job;
    const char *out, *files, *extension, *success;
    enum base_status status = BASE_PARSE;
    if (!object || json_unpack_ex(object, &why, 0, "{s:I, s:s, s:s, s:s, s:s, s:o}", "job", &job, "out", &out, "files",
                                  &files, "extension", &extension, "text", &success, "nodes", &nodes) < 0)
        goto bad;
    const size_t count = json_array_size(nodes);
    if (count == 0 || count > CLUSTER_NODES_MAX)
        goto bad;
    status = BASE_NO_MEMORY;
    decision->job = (uint64_t)job;
    decision->out = strdup(out);
    decision->files = strdup(files);
    decision->extension = strdup(extension);
    decision->text = strdup(success);
    decision->node = calloc(count, sizeof *decision->node);
    if (!decision->out || !decision->files || !decision->extension || !decision->text || !decision->node)
        goto bad;
    decision->node_count = (uint32_t)count;
    status = BASE_PARSE;
    for (uint32_t i = 0; i < count; i++) {
        const char *name;
        json_int_t first, workers;
        if (json_unpack_ex(json_array_get(nodes, i), &why, 0, "{s:s, s:I, s:I}", "name", &name, "first", &first,
                           "count", &workers) < 0 ||
            first < 0 || workers < 0 || first > CLUSTER_WORKERS_MAX || workers > CLUSTER_WORKERS_MAX - first)
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
    struct base_error why;
    enum base_status status = state_file_read(&state->folder, name, DECISION_BYTES_MAX, &text, NULL, &why);
    if (status != BASE_OK)
        return base_error_set(error, status, "the decision %s; move it away to go on without it", why.text);
    if (!text)
        return BASE_OK;
    struct cluster_decision decision = {0};
    status = parse_decision(text, &decision, &why);
    free(text);
    char proper[64];
    decision_name(decision.job, proper);
    if (status == BASE_OK && strcmp(proper, name) != 0) {
        cluster_decision_free(&decision);
        status = base_error_set(&why, BASE_PARSE, "is of another job");
    }
    if (status != BASE_OK)
        return base_error_set(error, status, "the decision %s/%s %s; move it away to go on without it",
                              state->folder.path, name, why.text);
    base_log_info("job %" PRIu64 " was decided before: its output in %s is completed when its nodes have connected",
                  decision.job, decision.out);
    status = cluster_coordinator_restore(coordinator, &decision, error);
    cluster_decision_free(&decision);
    return status;
}

enum base_status cluster_state_restore(struct cluster_state *state, struct cluster_coordinator *coordinator,
                                       struct base_error *error)
{
    const int fd = openat(state->folder.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        if (fd >= 0)
            close(fd);
        return base_error_set_errno(error, errno, "cannot list the state folder %s", state->folder.path);
    }
    enum base_status status = BASE_OK;
    errno = 0;
    for (struct dirent *entry; status == BASE_OK && (entry = readdir(folder)); errno = 0)
        if (is_decision(entry->d_name))
            status = restore_one(state, entry->d_name, coordinator, error);
    if (status == BASE_OK && errno != 0) /* of readdir: decisions may have been left out */
        status = base_error_set_errno(error, errno, "cannot list the state folder %s", state->folder.path);
    closedir(folder);
    return status;
}
