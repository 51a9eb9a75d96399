/* A decision to publish: what it says, made from a job whose rows are all written. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/coordinator/internal.h"

void cluster_decision_free(struct cluster_decision *decision)
{
    free(decision->out);
    free(decision->extension);
    free(decision->text);
    free(decision->files);
    free(decision->node);
    memset(decision, 0, sizeof *decision);
}

enum base_status cluster_decision_copy(const struct cluster_decision *from, struct cluster_decision *to,
                                       struct base_error *error)
{
    struct cluster_decision copy = {.job = from->job, .node_count = from->node_count};
    copy.out = strdup(from->out);
    copy.extension = strdup(from->extension);
    copy.text = strdup(from->text);
    copy.files = strdup(from->files);
    copy.node = calloc(from->node_count, sizeof *copy.node);
    if (!copy.out || !copy.extension || !copy.text || !copy.files || !copy.node) {
        cluster_decision_free(&copy);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    }
    memcpy(copy.node, from->node, from->node_count * sizeof *copy.node);
    *to = copy;
    return BASE_OK;
}

/* Names of columns may be any bytes, JSON takes UTF-8 only: what is not becomes '?', byte by byte. */
static void make_json_text(char *text)
{
    json_t *string = json_string(text);
    for (char *byte = text; !string && *byte; byte++)
        if ((unsigned char)*byte >= 0x80)
            *byte = '?';
    json_decref(string);
}

static char *success_text(const struct coordinator_job *job)
{
    uint64_t rows = 0, checksum = 0, bytes = 0;
    for (uint32_t i = 0; i < job->node_count; i++) {
        rows += job->node[i].report.report.sum.task.rows;
        checksum += job->node[i].report.report.sum.task.checksum;
        bytes += job->node[i].report.report.sum.task.output_bytes;
    }
    char hex[32];
    snprintf(hex, sizeof hex, "%016" PRIx64, checksum);
    char *schema = shuffle_schema_format(&job->plan.join.result);
    if (schema)
        make_json_text(schema);
    json_t *object =
        json_pack("{s:I, s:s, s:i, s:s, s:I, s:s, s:I}", "job", (json_int_t)job->id, "format",
                  join_plan_extension(&job->plan.join), "parts", (int)job->plan.job.workers, "schema",
                  schema ? schema : "", "rows", (json_int_t)rows, "checksum", hex, "bytes", (json_int_t)bytes);
    free(schema);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    char *line = NULL;
    if (text && asprintf(&line, "%s\n", text) < 0)
        line = NULL;
    free(text);
    return line;
}

enum base_status coordinator_decide(struct coordinator_job *job, struct base_error *error)
{
    struct cluster_decision *decision = &job->decision;
    BASE_ASSERT(job->plan.join.out && !decision->out && job->error.status == BASE_OK);
    decision->job = job->id;
    decision->out = strdup(job->plan.join.out);
    decision->extension = strdup(join_plan_extension(&job->plan.join));
    decision->files = strdup(job->plan.join.files);
    decision->text = success_text(job);
    decision->node = calloc(job->plan.job.node_count, sizeof *decision->node);
    if (!decision->out || !decision->extension || !decision->files || !decision->text || !decision->node)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a decision");
    decision->node_count = job->plan.job.node_count;
    memcpy(decision->node, job->plan.job.node, job->plan.job.node_count * sizeof *decision->node);
    return BASE_OK;
}
