/* What a job consists of: relations that the nodes agree on, a plan, morsels and who gets them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/clock.h"
#include "cluster/coordinator/internal.h"

static const char *const side_words[2] = {"--left", "--right"};

static const char *source_words(const struct coordinator_job *job, uint32_t side)
{
    return job->submit.kind == CLUSTER_KIND_SHUFFLE ? "--in" : side_words[side];
}

/* ---- comparing what nodes found ---- */

/* "100 bytes of 2026-07-31 13:45:06.123456789 UTC" */
static void version_words(const struct shuffle_file *file, char text[96])
{
    const time_t seconds = (time_t)(file->modified_ns / (int64_t)BASE_NS_PER_S);
    struct tm utc;
    char time[40] = "an unknown time";
    if (file->modified_ns >= 0 && gmtime_r(&seconds, &utc))
        strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S", &utc);
    snprintf(text, 96, "%" PRIu64 " bytes of %s.%09u UTC", file->bytes, time,
             (unsigned)(file->modified_ns < 0 ? 0 : file->modified_ns % (int64_t)BASE_NS_PER_S));
}

static bool same_version(const struct shuffle_file *a, const struct shuffle_file *b)
{
    return a->bytes == b->bytes && a->modified_ns == b->modified_ns;
}

/* The names of the nodes that found the same version of file i as `like`, as far as they fit. */
static void nodes_with(const struct coordinator_job *job, uint32_t side, uint32_t i, const struct shuffle_file *like,
                       char text[160])
{
    size_t used = 0;
    *text = '\0';
    for (uint32_t n = 0; n < job->node_count && used < 160; n++) {
        const struct shuffle_relation *relation = &job->node[n].relation[side];
        if (i >= relation->file_count || !same_version(&relation->file[i], like))
            continue;
        const bool room = used + strlen(job->node[n].node->hello.name) + 8 < 160;
        used += (size_t)snprintf(text + used, 160 - used, "%s%s", used > 0 ? ", " : "",
                                 room ? job->node[n].node->hello.name : "...");
        if (!room)
            break;
    }
}

static enum base_status compare_file(const struct coordinator_job *job, uint32_t side, const struct run_node *a,
                                     const struct run_node *b, uint32_t i, struct base_error *error)
{
    const struct shuffle_file *fa = &a->relation[side].file[i], *fb = &b->relation[side].file[i];
    if (strcmp(fa->path, fb->path) != 0)
        return base_error_set(error, BASE_INVALID,
                              "%s differs between nodes: file %u is %s on %s but %s on %s; put the same files on all "
                              "nodes, or use local: for each node's own",
                              source_words(job, side), i + 1, fa->path, a->node->hello.name, fb->path,
                              b->node->hello.name);
    if (same_version(fa, fb))
        return BASE_OK;
    char va[96], vb[96], na[160], nb[160];
    version_words(fa, va);
    version_words(fb, vb);
    nodes_with(job, side, i, fa, na);
    nodes_with(job, side, i, fb, nb);
    /* One file that several nodes see, or copies? */
    const bool one = fa->device == fb->device && fa->inode == fb->inode;
    return base_error_set(error, BASE_INVALID, "%s: %s %s: it has %s on %s, but %s on %s; %s", source_words(job, side),
                          fa->path, one ? "changed while the nodes looked at it" : "differs between nodes", va, na, vb,
                          nb,
                          one ? "leave input files alone until the job ends, and run it again"
                              : "was it rewritten on one of them, or while they looked? Copy it to all again (cp -p "
                                "keeps the time), or use local: for each node's own");
}

static enum base_status compare_schemas(const struct coordinator_job *job, uint32_t side, const struct run_node *a,
                                        const struct run_node *b, struct base_error *error)
{
    if (shuffle_schema_equal(&a->relation[side].schema, &b->relation[side].schema))
        return BASE_OK;
    char *sa = shuffle_schema_format(&a->relation[side].schema);
    char *sb = shuffle_schema_format(&b->relation[side].schema);
    base_error_set(error, BASE_TYPE,
                   "%s has other columns on %s (%.200s) than on %s (%.200s); declare them with %s-schema",
                   source_words(job, side), a->node->hello.name, sa ? sa : "?", b->node->hello.name, sb ? sb : "?",
                   source_words(job, side));
    free(sa);
    free(sb);
    return BASE_TYPE;
}

static enum base_status compare_relations(const struct coordinator_job *job, uint32_t side, struct base_error *error)
{
    const struct run_node *a = &job->node[0];
    for (uint32_t n = 1; n < job->node_count; n++) {
        const struct run_node *b = &job->node[n];
        const struct shuffle_relation *ra = &a->relation[side], *rb = &b->relation[side];
        if (ra->placement != rb->placement || ra->format != rb->format)
            return base_error_set(error, BASE_INTERNAL, "nodes %s and %s read %s differently", a->node->hello.name,
                                  b->node->hello.name, job->submit.source[side].text);
        if (ra->placement == SHUFFLE_SHARED && ra->file_count != rb->file_count)
            return base_error_set(error, BASE_INVALID,
                                  "%s differs between nodes: %u files on %s, %u on %s; put the same files on all "
                                  "nodes, or use local: for each node's own",
                                  source_words(job, side), ra->file_count, a->node->hello.name, rb->file_count,
                                  b->node->hello.name);
        for (uint32_t i = 0; ra->placement == SHUFFLE_SHARED && i < ra->file_count; i++) {
            const enum base_status status = compare_file(job, side, a, b, i, error);
            if (status != BASE_OK)
                return status;
        }
        const enum base_status status = compare_schemas(job, side, a, b, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* One relation out of all: of local files, the files of node after node. The nodes' relations are emptied. */
static enum base_status plan_unite(struct coordinator_job *job, uint32_t side, struct shuffle_relation *relation,
                                   struct base_error *error)
{
    uint64_t files = 0;
    const bool local = job->node[0].relation[side].placement == SHUFFLE_LOCAL;
    for (uint32_t n = 0; local && n < job->node_count; n++)
        files += job->node[n].relation[side].file_count;
    if (files > CLUSTER_FILES_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "%s has %" PRIu64 " files on all nodes, at most %d are allowed",
                              source_words(job, side), files, CLUSTER_FILES_MAX);
    struct shuffle_file *file = NULL;
    if (local) {
        file = calloc(files + 1, sizeof *file);
        job->local_first_file[side] = calloc(job->node_count + 1, sizeof(uint32_t));
        if (!file || !job->local_first_file[side]) {
            free(file);
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the list of files");
        }
    }
    *relation = job->node[0].relation[side];
    memset(&job->node[0].relation[side], 0, sizeof *relation);
    for (uint32_t n = 1; n < job->node_count; n++) /* a type that one node guessed is a guess for all */
        for (uint32_t i = 0; i < relation->schema.count; i++)
            relation->schema.field[i].inferred |= job->node[n].relation[side].schema.field[i].inferred;
    if (!local)
        return BASE_OK;
    uint32_t next = 0;
    for (uint32_t n = 1; n < job->node_count; n++) {
        relation->rows_known &= job->node[n].relation[side].rows_known;
        relation->rows += job->node[n].relation[side].rows;
    }
    for (uint32_t n = 0; n < job->node_count; n++) {
        struct shuffle_relation *from = n ? &job->node[n].relation[side] : relation;
        for (uint32_t i = 0; i < from->file_count; i++)
            file[next++] = from->file[i];
        from->file_count = 0; /* the paths have moved */
        job->local_first_file[side][n + 1] = next;
    }
    free(relation->file);
    relation->file = file;
    relation->file_count = next;
    return BASE_OK;
}

/* ---- planning ---- */

static enum base_status plan_place(struct cluster_coordinator *c, struct coordinator_job *job, struct base_error *error)
{
    uint32_t workers = 0;
    for (uint32_t n = 0; n < job->node_count; n++)
        workers += job->node[n].node->hello.worker_count;
    BASE_ASSERT(job->node_count > 0 && workers > 0);
    struct shuffle_node *node = calloc(job->node_count, sizeof *node);
    struct net_address *address = calloc(workers, sizeof *address);
    enum base_status status = BASE_NO_MEMORY;
    if (!node || !address) {
        base_error_set(error, status, "no memory for a plan of %u workers", workers);
        goto release;
    }
    uint32_t next = 0;
    for (uint32_t n = 0; n < job->node_count; n++) {
        const struct cluster_hello *hello = &job->node[n].node->hello;
        snprintf(node[n].name, sizeof node[n].name, "%s", hello->name);
        node[n].first = next;
        node[n].count = hello->worker_count;
        memcpy(&address[next], hello->worker, hello->worker_count * sizeof *address);
        next += hello->worker_count;
    }
    uint8_t token[SHUFFLE_TOKEN_BYTES];
    c->config.random(c->config.random_context, token, sizeof token);
    status = shuffle_job_place(&job->plan.job, job->id, token, &job->submit.settings,
                               join_plan_bytes_max(&job->plan.join), node, job->node_count, address, error);
    if (status == BASE_OK) {
        uint8_t random[8];
        c->config.random(c->config.random_context, random, sizeof random);
        shuffle_publish_name(job->id, c->config.state_id ? c->config.state_id : "0", random, job->plan.join.files);
    }
release:
    free(node);
    free(address);
    return status;
}

/* Local morsels belong to the node that has their file; morsels come in the order of files. */
static void assign_local(struct coordinator_job *job, uint32_t side)
{
    uint64_t at = 0;
    for (uint32_t n = 0; n < job->node_count; n++) {
        job->node[n].lend_next[side] = at;
        while (at < job->morsel_count[side] && job->morsel[side][at].file < job->local_first_file[side][n + 1])
            at++;
        job->node[n].lend_end[side] = at;
    }
    BASE_ASSERT(at == job->morsel_count[side]); /* each has its node */
}

static enum base_status plan_divide(struct coordinator_job *job, uint32_t side, struct base_error *error)
{
    const struct shuffle_relation *relation = &job->plan.join.side[side].relation;
    if (relation->placement == SHUFFLE_GENERATED && relation->generator.preload)
        return BASE_OK; /* every worker has its share in memory: nothing is lent */
    const uint64_t morsel_bytes = job->plan.job.settings.morsel_bytes;
    /* Looked at before they are made: a slip in --morsel-bytes must not take all memory. */
    const bool far_too_many = join_plan_relation_bytes(relation) / morsel_bytes > 2 * (uint64_t)CLUSTER_MORSELS_MAX;
    const enum base_status status = far_too_many ? BASE_OK
                                                 : shuffle_relation_divide(relation, morsel_bytes, &job->morsel[side],
                                                                           &job->morsel_count[side], error);
    if (status != BASE_OK)
        return status;
    if (far_too_many || job->morsel_count[side] > CLUSTER_MORSELS_MAX)
        return base_error_set(error, BASE_TOO_LARGE,
                              "%s falls into more than %d morsels of %" PRIu64
                              " bytes: use larger ones (--morsel-bytes)",
                              source_words(job, side), CLUSTER_MORSELS_MAX, morsel_bytes);
    if (relation->placement == SHUFFLE_LOCAL)
        assign_local(job, side);
    job->survey[side] = shuffle_relation_needs_survey(relation, morsel_bytes);
    if (!job->survey[side])
        return BASE_OK;
    job->surveys[side] = calloc(job->morsel_count[side] + 1, sizeof *job->surveys[side]);
    return job->surveys[side] ? BASE_OK : base_error_set(error, BASE_NO_MEMORY, "no memory for a survey");
}

/* No relations: nodes, their addresses, and a schedule. */
static enum base_status plan_bisect(struct cluster_coordinator *c, struct coordinator_job *job,
                                    struct base_error *error)
{
    job->plan.kind = CLUSTER_KIND_BISECT;
    job->planned = true;
    const enum base_status status = plan_place(c, job, error);
    return status == BASE_OK ? coordinator_bisect_plan(c, job, error) : status;
}

enum base_status coordinator_plan(struct cluster_coordinator *c, struct coordinator_job *job, struct base_error *error)
{
    const uint32_t sides = job->submit.source_count;
    BASE_ASSERT(sides <= 2 && !job->planned);
    if (job->submit.kind == CLUSTER_KIND_BISECT)
        return plan_bisect(c, job, error);
    struct shuffle_relation relation[2];
    memset(relation, 0, sizeof relation);
    enum base_status status = BASE_OK;
    for (uint32_t side = 0; side < sides && status == BASE_OK; side++)
        status = compare_relations(job, side, error);
    for (uint32_t side = 0; side < sides && status == BASE_OK; side++)
        status = plan_unite(job, side, &relation[side], error);
    if (status != BASE_OK) {
        shuffle_relation_free(&relation[0]);
        shuffle_relation_free(&relation[1]);
        return status;
    }
    const struct join_request request = {.kind = cluster_join_kind(job->submit.kind),
                                         .type = job->submit.type,
                                         .null_equal = job->submit.null_equal,
                                         .null_aware = job->submit.null_aware,
                                         .on = job->submit.on,
                                         .select = job->submit.select,
                                         .out = job->submit.out,
                                         .output = job->submit.output,
                                         .into_table = job->submit.into_table};
    job->plan.kind = job->submit.kind;
    status = join_plan_make(&request, relation, &job->plan.join, error);
    if (status != BASE_OK) {
        job->bad_request = status != BASE_NO_MEMORY;
        return status;
    }
    job->planned = true;
    status = plan_place(c, job, error);
    for (uint32_t side = 0; side < sides && status == BASE_OK; side++)
        status = plan_divide(job, side, error);
    return status;
}

void coordinator_plan_free(struct coordinator_job *job)
{
    if (job->planned)
        cluster_plan_free(&job->plan);
    coordinator_bisect_free(job->bisect);
    for (uint32_t side = 0; side < 2; side++) {
        free(job->morsel[side]);
        free(job->surveys[side]);
        free(job->local_first_file[side]);
    }
}

/* ---- morsels ---- */

/* Guided: groups shrink with what is left, so that few messages are needed and nodes still end together. The first deal
 * (nodes_after nodes have yet to get theirs) gives every node something as long as there is something. */
void coordinator_lend(struct coordinator_job *job, uint32_t node, uint32_t side, uint32_t nodes_after,
                      struct cluster_lend *lend)
{
    BASE_ASSERT(node < job->node_count && side < job->plan.join.sides && nodes_after > 0);
    struct run_node *to = &job->node[node];
    const bool local = job->local_first_file[side];
    uint64_t *next = local ? &to->lend_next[side] : &job->morsel_next[side];
    const uint64_t end = local ? to->lend_end[side] : job->morsel_count[side];
    const uint64_t left = end - *next;
    uint64_t group = left;
    if (!local) {
        group = base_max_u64(to->node->hello.worker_count, left / 2 / job->node_count);
        group = base_min_u64(group, (left + nodes_after - 1) / nodes_after);
    }
    group = base_min_u64(group, CLUSTER_MORSELS_MAX);
    lend->side = side;
    lend->count = group;
    lend->morsel = group ? &job->morsel[side][*next] : NULL;
    *next += group;
    BASE_ASSERT(*next <= end);
    lend->end = *next == end;
    to->ended[side] = lend->end;
}

void coordinator_survey_share(const struct coordinator_job *job, uint32_t node, uint32_t side,
                              struct cluster_lend *lend)
{
    lend->side = side;
    lend->end = true;
    if (!job->survey[side])
        return;
    const uint64_t count = job->morsel_count[side];
    uint64_t begin = count * node / job->node_count, end = count * (node + 1) / job->node_count;
    if (job->local_first_file[side]) {
        begin = job->node[node].lend_next[side];
        end = job->node[node].lend_end[side];
    }
    BASE_ASSERT(begin <= end && end <= count);
    lend->count = end - begin;
    lend->morsel = lend->count ? &job->morsel[side][begin] : NULL;
}

enum base_status coordinator_survey_keep(struct coordinator_job *job, const struct cluster_surveyed *surveyed,
                                         struct base_error *error)
{
    for (uint32_t side = 0; side < 2; side++) {
        const uint64_t room = job->survey[side] ? job->morsel_count[side] - job->survey_count[side] : 0;
        if (surveyed->count[side] > room)
            return base_error_set(error, BASE_PROTOCOL, "it surveyed more morsels than there are");
        for (uint64_t i = 0; i < surveyed->count[side]; i++) {
            if (surveyed->survey[side][i].index >= job->morsel_count[side])
                return base_error_set(error, BASE_PROTOCOL, "it surveyed a morsel that does not exist");
            job->surveys[side][job->survey_count[side]++] = surveyed->survey[side][i];
        }
    }
    return BASE_OK;
}

enum base_status coordinator_survey_apply(struct coordinator_job *job, struct base_error *error)
{
    for (uint32_t side = 0; side < 2; side++) {
        if (!job->survey[side])
            continue;
        if (job->survey_count[side] != job->morsel_count[side])
            return base_error_set(error, BASE_PROTOCOL, "%" PRIu64 " of %" PRIu64 " morsels were surveyed",
                                  job->survey_count[side], job->morsel_count[side]);
        const enum base_status status =
            shuffle_survey_apply(job->surveys[side], job->morsel[side], job->morsel_count[side], error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}
