#include "cluster/node/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "shuffle/output/publish.h"

#define OUTPUT_RETRY_MIN_NS (UINT64_C(250) * BASE_NS_PER_MS)
#define OUTPUT_RETRY_MAX_NS (UINT64_C(30) * BASE_NS_PER_S)

struct node_output {
    struct node_output *next;
    uint64_t job;
    char *directory, *files, *extension;
    uint32_t first, count;
    bool staged;
    uint64_t retry_ns, backoff_ns; /* of one that is to be removed; 0: it is not */
};

static struct shuffle_publication publication_of(const struct node_output *output)
{
    return (struct shuffle_publication){.directory = output->directory,
                                        .name = output->files,
                                        .extension = output->extension,
                                        .first = output->first,
                                        .count = output->count};
}

static void output_free(struct node_output *output)
{
    free(output->directory);
    free(output->files);
    free(output->extension);
    free(output);
}

/* Not one that is to be removed: a job of another coordinator may have the same number by now. */
static struct node_output *output_find(const struct node_outputs *outputs, uint64_t job)
{
    struct node_output *output = outputs->list;
    while (output && (output->job != job || output->retry_ns))
        output = output->next;
    return output;
}

static void output_drop(struct node_outputs *outputs, struct node_output *output)
{
    struct node_output **at = &outputs->list;
    while (*at && *at != output)
        at = &(*at)->next;
    BASE_ASSERT(*at);
    *at = output->next;
    output_free(output);
}

enum base_status node_output_begin(struct node_outputs *outputs, uint64_t job, const struct join_plan *plan,
                                   uint32_t first, uint32_t count, struct base_error *error)
{
    if (!plan->out)
        return BASE_OK;
    BASE_ASSERT(job != 0 && count > 0);
    struct node_output *output = calloc(1, sizeof *output);
    if (!output)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    output->job = job;
    output->directory = strdup(plan->out);
    output->files = strdup(plan->files);
    output->extension = strdup(join_plan_extension(plan));
    output->first = first;
    output->count = count;
    enum base_status status = BASE_OK;
    if (!output->directory || !output->files || !output->extension)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for a job");
    if (status == BASE_OK) {
        const struct shuffle_publication publication = publication_of(output);
        status = shuffle_publish_begin(&publication, error);
    }
    if (status != BASE_OK) {
        output_free(output);
        return status;
    }
    output->next = outputs->list;
    outputs->list = output;
    return BASE_OK;
}

enum base_status node_output_stage(struct node_outputs *outputs, uint64_t job, const char *text,
                                   struct base_error *error)
{
    struct node_output *output = output_find(outputs, job);
    if (!output)
        return base_error_set(error, BASE_PROTOCOL, "ordered to sync the output of a job without output");
    const struct shuffle_publication publication = publication_of(output);
    BASE_ASSERT(!output->retry_ns); /* nothing that is to be removed becomes durable */
    const enum base_status status = shuffle_publish_stage(&publication, text, error);
    output->staged = status == BASE_OK;
    return status;
}

bool node_output_staged(const struct node_outputs *outputs, uint64_t job)
{
    const struct node_output *output = output_find(outputs, job);
    return output && output->staged;
}

enum base_status node_output_commit(struct node_outputs *outputs, uint64_t job, const struct cluster_commit *commit,
                                    struct base_error *error)
{
    const struct shuffle_publication publication = {.directory = commit->out,
                                                    .name = commit->files,
                                                    .extension = commit->extension,
                                                    .first = commit->first,
                                                    .count = commit->count};
    const enum base_status status = shuffle_publish_commit(&publication, error);
    struct node_output *output = output_find(outputs, job);
    if (status == BASE_OK && output)
        output_drop(outputs, output); /* parts now, no attempts */
    return status;
}

enum base_status node_output_publish(const struct cluster_publish *publish, struct base_error *error)
{
    const struct shuffle_publication publication = {
        .directory = publish->out, .name = publish->files, .extension = "", .first = publish->first};
    return shuffle_publish_success(&publication, publish->text, error);
}

/* Tries to remove it; frees it when that is done. */
static void output_remove(struct node_outputs *outputs, struct node_output *output, uint64_t now_ns)
{
    struct base_error error;
    const struct shuffle_publication publication = publication_of(output);
    if (shuffle_publish_abort(&publication, &error) == BASE_OK) {
        output_drop(outputs, output);
        return;
    }
    if (!output->retry_ns)
        base_log_warn("what job %" PRIu64 " wrote is not removed yet: %s; it is tried again until it can be done",
                      output->job, error.text);
    output->backoff_ns = base_min_u64(base_max_u64(2 * output->backoff_ns, OUTPUT_RETRY_MIN_NS), OUTPUT_RETRY_MAX_NS);
    output->retry_ns = now_ns + output->backoff_ns;
}

void node_output_abort(struct node_outputs *outputs, uint64_t job, uint64_t now_ns)
{
    struct node_output *output = output_find(outputs, job);
    if (output)
        output_remove(outputs, output, now_ns);
}

void node_output_retry(struct node_outputs *outputs, uint64_t now_ns)
{
    struct node_output *next;
    for (struct node_output *output = outputs->list; output; output = next) {
        next = output->next;
        if (output->retry_ns && now_ns >= output->retry_ns)
            output_remove(outputs, output, now_ns);
    }
}

uint64_t node_output_deadline_ns(const struct node_outputs *outputs)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (const struct node_output *output = outputs->list; output; output = output->next)
        if (output->retry_ns)
            deadline_ns = base_min_u64(deadline_ns, output->retry_ns);
    return deadline_ns;
}

uint32_t node_output_doubts(const struct node_outputs *outputs, uint64_t *job, uint32_t max)
{
    uint32_t count = 0;
    for (const struct node_output *output = outputs->list; output && count < max; output = output->next)
        if (!output->retry_ns)
            job[count++] = output->job;
    return count;
}

void node_output_close(struct node_outputs *outputs)
{
    while (outputs->list)
        output_drop(outputs, outputs->list);
}
