/* Lifetimes. Two hold a look: its thread and whoever began it. Each says by one atomic exchange that it is through; who
 * comes second frees. So an abandoned thread that a file system keeps is neither waited for nor touched. */
#include "cluster/node/resolve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "cluster/node/source_complete.h"
#include "shuffle/output/publish.h"

enum resolve_state { RESOLVE_LOOKING, RESOLVE_ENDED, RESOLVE_ABANDONED };

struct node_resolve {
    pthread_t thread;
    int wake_fd;
    uint64_t job;
    struct cluster_resolve asked;
    struct cluster_resolved found;
    struct base_error error; /* BASE_OK: found is filled */
    _Atomic int state;       /* enum resolve_state */
};

static _Atomic uint32_t stuck; /* abandoned, still looking */

static void resolve_free(struct node_resolve *resolve)
{
    struct cluster_message asked = {.kind = CLUSTER_MESSAGE_RESOLVE, .resolve = resolve->asked};
    struct cluster_message found = {.kind = CLUSTER_MESSAGE_RESOLVED, .resolved = resolve->found};
    cluster_message_free(&asked);
    cluster_message_free(&found);
    free(resolve);
}

static enum base_status look_at_source(const struct cluster_source *source, const char *side,
                                       struct shuffle_relation *relation, struct base_error *error)
{
    char *path = NULL;
    enum base_status status = shuffle_relation_parse(source->text, relation, &path, error);
    if (status != BASE_OK)
        return status;
    if (path) {
        cluster_source_apply(source, relation);
        status = shuffle_relation_list(relation, path, error);
        if (status == BASE_OK && source->incomplete != CLUSTER_CHOICE_YES)
            status = cluster_source_complete(path, side, relation, error);
        if (status == BASE_OK)
            status = shuffle_relation_resolve_schema(relation, source->schema, error);
    }
    free(path);
    return status;
}

static void *resolve_main(void *context)
{
    struct node_resolve *resolve = context;
    const struct cluster_resolve *asked = &resolve->asked;
    pthread_setname_np(pthread_self(), "sources");
    if (asked->out)
        shuffle_publish_sweep(asked->out, asked->state, resolve->job, asked->live, asked->live_count);
    enum base_status status = asked->out ? shuffle_publish_check(asked->out, &resolve->error) : BASE_OK;
    resolve->found.relation_count = asked->source_count;
    for (uint32_t i = 0; i < asked->source_count && status == BASE_OK; i++)
        status = look_at_source(&asked->source[i],
                                asked->source_count < 2 ? ""
                                : i == 0                ? "left-"
                                                        : "right-",
                                &resolve->found.relation[i], &resolve->error);
    const int wake_fd = resolve->wake_fd;
    if (atomic_exchange(&resolve->state, RESOLVE_ENDED) == RESOLVE_ABANDONED) {
        resolve_free(resolve);
        atomic_fetch_sub(&stuck, 1);
        return NULL;
    }
    /* The other side joins this thread before it closes wake_fd; resolve may not be touched any more. */
    const uint64_t one = 1;
    BASE_ASSERT(write(wake_fd, &one, sizeof one) > 0);
    return NULL;
}

enum base_status node_resolve_start(uint64_t job, struct cluster_resolve *asked, int wake_fd,
                                    struct node_resolve **resolve, struct base_error *error)
{
    const uint32_t hang = atomic_load(&stuck);
    if (hang >= NODE_RESOLVE_STUCK_MAX)
        return base_error_set(error, BASE_IO,
                              "looking at the sources of %u earlier jobs still hangs: a file system of this machine "
                              "does not answer (see `mount', and processes in state D)",
                              hang);
    struct node_resolve *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to look at sources");
    made->wake_fd = wake_fd;
    made->job = job;
    made->asked = *asked;
    const int failed = pthread_create(&made->thread, NULL, resolve_main, made);
    if (failed) {
        free(made);
        return base_error_set_errno(error, failed, "cannot start a thread to look at sources");
    }
    memset(asked, 0, sizeof *asked);
    *resolve = made;
    return BASE_OK;
}

bool node_resolve_ended(const struct node_resolve *resolve)
{
    return atomic_load(&resolve->state) == RESOLVE_ENDED;
}

enum base_status node_resolve_finish(struct node_resolve *resolve, struct cluster_resolved *found,
                                     struct base_error *error)
{
    BASE_ASSERT(node_resolve_ended(resolve));
    pthread_join(resolve->thread, NULL);
    const enum base_status status = resolve->error.status;
    if (status == BASE_OK) {
        *found = resolve->found;
        memset(&resolve->found, 0, sizeof resolve->found);
    } else {
        *error = resolve->error;
    }
    resolve_free(resolve);
    return status;
}

void node_resolve_abandon(struct node_resolve *resolve)
{
    if (!resolve)
        return;
    const pthread_t thread = resolve->thread;
    atomic_fetch_add(&stuck, 1);
    if (atomic_exchange(&resolve->state, RESOLVE_ABANDONED) == RESOLVE_ENDED) {
        pthread_join(thread, NULL);
        resolve_free(resolve);
        atomic_fetch_sub(&stuck, 1);
    } else {
        pthread_detach(thread);
    }
}

enum base_status node_resolve_recall(const struct shuffle_relation *found, struct shuffle_relation *planned,
                                     struct base_error *error)
{
    if (planned->placement != SHUFFLE_SHARED)
        return BASE_OK;
    bool same = found->file_count == planned->file_count;
    for (uint32_t i = 0; i < planned->file_count && same; i++) {
        same = strcmp(found->file[i].path, planned->file[i].path) == 0;
        planned->file[i].device = found->file[i].device;
        planned->file[i].inode = found->file[i].inode;
    }
    return same ? BASE_OK
                : base_error_set(error, BASE_PROTOCOL, "the plan has other files than this node found for its source");
}
