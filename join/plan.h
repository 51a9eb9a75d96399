/* The plan of a join or shuffle: which rows, from where and where to, resolved and checked. The nodes that run it and
 * their settings are the job's (shuffle/worker/job.h). Plain data, owned by itself; the cluster's codec carries it. */
#ifndef MILLRACE_JOIN_PLAN_H
#define MILLRACE_JOIN_PLAN_H

#include "join/type.h"
#include "shuffle/output/output.h"
#include "shuffle/output/publish.h"
#include "shuffle/rows/key.h"
#include "shuffle/source/relation.h"
#include "shuffle/worker/job.h"

enum join_job_kind { JOIN_JOB_JOIN, JOIN_JOB_SHUFFLE };

/* What the user asked for, in words; sources are already resolved to relations. Borrowed by join_plan_make. */
struct join_request {
    enum join_job_kind kind;
    enum join_type type; /* join only, as the two after it */
    bool null_equal;     /* NULL equals NULL in keys (IS NOT DISTINCT FROM) */
    bool null_aware;     /* of an anti join: NOT IN's rule instead of NOT EXISTS' */
    const char *on;      /* join: "a=b[,c=d]"; shuffle: "k[,l]". Names may be double-quoted */
    const char *select;  /* "left.a,right.b" or bare unambiguous names; NULL: all columns, left then right; of a semi or
                            anti join the left ones only */
    const char *out;     /* directory or NULL */
    enum shuffle_output_kind output; /* COUNT when out is NULL */
    bool into_table;                 /* shuffle only: rows go into hash tables instead of an output (bench/shuffle) */
};

struct join_side {
    struct shuffle_relation relation;
    uint32_t project_count; /* columns of relation.schema that travel, in this order */
    uint32_t *project;
    struct shuffle_schema schema; /* of the projection: what travels */
    struct shuffle_key key;       /* in the projection */
    bool key_nullable;
};

struct join_plan {
    enum join_job_kind kind;
    enum join_type type;         /* join */
    bool null_equal, null_aware; /* as in the request */
    uint32_t sides;              /* 2 for join, 1 for shuffle */
    struct join_side side[2];    /* left, right */
    uint32_t build;              /* side that is built: pass 0 scans it, pass 1 the other */
    bool into_table;
    enum shuffle_output_kind output;
    char *out;                              /* directory, NULL for none */
    char files[SHUFFLE_PUBLISH_NAME_BYTES]; /* what the job's files in it are called after */
    uint32_t item_count;
    struct shuffle_output_item *item;
    struct shuffle_schema result; /* one field per item */
};

/* Plans a job. Takes over relation[0..] (also on error: they are freed). Errors (BASE_NOT_FOUND, BASE_TYPE,
 * BASE_INVALID) name columns, types, and what there is to choose from. The build side is the one with fewer estimated
 * bytes; with null_aware it is the right one, because what is there decides about every row of the left. */
enum base_status join_plan_make(const struct join_request *request, struct shuffle_relation relation[2],
                                struct join_plan *plan, struct base_error *error);
void join_plan_free(struct join_plan *plan);

/* Bytes a relation holds: of its files, or rows * row bytes; and a guess of its rows. */
uint64_t join_plan_relation_bytes(const struct shuffle_relation *relation);
uint64_t join_plan_relation_rows(const struct shuffle_relation *relation);
/* Is that no guess (gen:, and fixed-width files that are not compressed)? */
bool join_plan_rows_exact(const struct shuffle_relation *relation);
/* Bytes of the larger side. */
uint64_t join_plan_bytes_max(const struct join_plan *plan);
/* Adds what the rows say to the traffic of the job that it runs in (shuffle_job_traffic): their width, and the bytes on
 * each connection of so many workers. A guess. */
void join_plan_add_traffic(const struct join_plan *plan, uint32_t workers, struct net_traffic *traffic);
/* Side scanned by pass 0 or 1. */
static inline uint32_t join_plan_pass_side(const struct join_plan *plan, uint32_t pass)
{
    return pass == 0 ? plan->build : 1 - plan->build;
}

/* Extension of its part files: "csv" or "bin". */
const char *join_plan_extension(const struct join_plan *plan);

#endif
