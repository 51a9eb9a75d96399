/* Bad rows that nodes have left out of an input: whether they are too many, and where the first are; and whether all
 * rows came that should. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/coordinator/internal.h"

void coordinator_reject_keep(struct run_node *node, struct cluster_step *step)
{
    for (uint32_t side = 0; side < 2; side++) {
        if (!step->rejects[side])
            continue;
        free(node->rejects[side]);
        node->rejects[side] = step->rejects[side];
        step->rejects[side] = NULL;
    }
}

static uint64_t reject_count(const struct coordinator_job *job, uint32_t side)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < job->node_count; i++)
        count += job->node[i].rejects[side] ? job->node[i].rejects[side]->count : 0;
    return count;
}

static void reject_merge(const struct coordinator_job *job, uint32_t side, struct shuffle_rejects *all)
{
    memset(all, 0, sizeof *all);
    for (uint32_t i = 0; i < job->node_count; i++)
        if (job->node[i].rejects[side])
            shuffle_rejects_merge(all, job->node[i].rejects[side]);
}

static const char *path_of(const struct coordinator_job *job, uint32_t side, const struct shuffle_reject *reject)
{
    const struct shuffle_relation *relation = &job->plan.join.side[side].relation;
    return reject->file < relation->file_count ? relation->file[reject->file].path : "?";
}

/* Whose file it is; "" where all nodes have the same. */
static const char *reject_node_of(const struct coordinator_job *job, uint32_t side, const struct shuffle_reject *reject)
{
    const uint32_t *first = job->local_first_file[side];
    for (uint32_t i = 0; first && i < job->node_count; i++)
        if (reject->file >= first[i] && reject->file < first[i + 1])
            return job->node[i].node->hello.name;
    return "";
}

/* Options of a join's sources begin with their side. */
static const char *side_of_option(const struct coordinator_job *job, uint32_t side)
{
    return job->plan.join.sides == 1 ? "" : side == 0 ? "left-" : "right-";
}

bool coordinator_reject_few(struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    for (uint32_t side = 0; side < job->plan.join.sides; side++) {
        const uint64_t most = job->plan.join.side[side].relation.csv.bad_rows_max;
        struct shuffle_rejects all;
        reject_merge(job, side, &all);
        if (all.count <= most)
            continue;
        const struct shuffle_reject *first = &all.reject[0];
        const char *node = all.kept > 0 ? reject_node_of(job, side, first) : "";
        coordinator_fail(c, BASE_PARSE,
                         "%" PRIu64 " rows of %s are bad, and --%sskip-bad-rows allows %" PRIu64
                         "; the first: %s%s%s%s:%" PRIu64 ": %s",
                         all.count, job->submit.source[side].text, side_of_option(job, side), most,
                         *node ? "node " : "", node, *node ? ": " : "", path_of(job, side, first), first->line,
                         first->reason);
        return false;
    }
    return true;
}

bool coordinator_reject_report(const struct coordinator_job *job, struct cluster_report *report)
{
    for (uint32_t side = 0; job->planned && side < job->plan.join.sides; side++) {
        struct cluster_skipped *skipped = &report->skipped[side];
        struct shuffle_rejects all;
        reject_merge(job, side, &all);
        skipped->count = all.count;
        if (all.kept == 0)
            continue;
        skipped->row = calloc(all.kept, sizeof *skipped->row);
        if (!skipped->row)
            return false;
        skipped->row_count = all.kept;
        for (uint32_t i = 0; i < all.kept; i++) {
            struct cluster_skipped_row *row = &skipped->row[i];
            row->node = strdup(reject_node_of(job, side, &all.reject[i]));
            row->path = strdup(path_of(job, side, &all.reject[i]));
            row->line = all.reject[i].line;
            row->reason = strdup(all.reject[i].reason);
            if (!row->node || !row->path || !row->reason)
                return false;
        }
    }
    return true;
}

bool coordinator_rows_complete(struct cluster_coordinator *c)
{
    const struct coordinator_job *job = c->run;
    for (uint32_t side = 0; side < job->plan.join.sides; side++) {
        const struct shuffle_relation *relation = &job->plan.join.side[side].relation;
        uint64_t rows = 0;
        for (uint32_t i = 0; i < job->node_count; i++) {
            const struct join_task_result *task = &job->node[i].report.report.sum.task;
            rows += side == 0 ? task->rows_scanned_left : task->rows_scanned_right;
        }
        rows += reject_count(job, side);
        if (!relation->rows_known || rows == relation->rows)
            continue;
        coordinator_fail(c, BASE_IO,
                         "the result %s was changed: %" PRIu64 " rows were read, and its _SUCCESS.json counts %" PRIu64
                         "; run the job again that wrote it, or read what is there with --%sincomplete=yes",
                         job->submit.source[side].text, rows, relation->rows, side_of_option(job, side));
        return false;
    }
    return true;
}
