/* The plan of a job: everything a node needs to run its share, resolved and checked. Plain data, owned by itself; the
 * cluster's codec carries it. */
#ifndef MILLRACE_JOIN_PLAN_H
#define MILLRACE_JOIN_PLAN_H

#include "net/engine/choose.h"
#include "net/engine/engine.h"
#include "shuffle/mesh/mesh.h"
#include "shuffle/output/output.h"
#include "shuffle/output/publish.h"
#include "shuffle/rows/key.h"
#include "shuffle/source/relation.h"

/* BISECT moves no rows, it measures the network (cluster/bisect/bisect.h): its plan has no sides, only nodes and
 * settings. */
enum join_job_kind { JOIN_JOB_JOIN, JOIN_JOB_SHUFFLE, JOIN_JOB_BISECT, JOIN_JOB_COUNT };

/* Settings of a job that do not change its answer. Zero means the default chosen by join_plan_make. */
struct join_settings {
    struct net_engine_choice engine;
    bool verify;               /* check every payload byte */
    uint32_t frame_bytes;      /* header included, 4 KiB .. 1 MiB; 0: an eighth of the bytes expected per lane */
    uint32_t frames_per_lane;  /* 0: 2; 4 for engines that send without a copy: those leave late */
    uint32_t recv_chunk_bytes; /* 0: chosen by each node (net/engine/choose.h), also in a plan */
    uint32_t recv_chunk_count; /* likewise */
    struct net_socket_settings socket;
    uint64_t morsel_bytes; /* 0: 4 MiB, fewer for small inputs so that every worker gets some */
};

/* What the user asked for, in words; sources are already resolved to relations. Borrowed by join_plan_make. */
struct join_request {
    enum join_job_kind kind;
    const char *on;     /* join: "a=b[,c=d]"; shuffle: "k[,l]". Names may be double-quoted */
    const char *select; /* "left.a,right.b" or bare unambiguous names; NULL: all columns, left then right */
    const char *out;    /* directory or NULL */
    enum shuffle_output_kind output; /* COUNT when out is NULL */
    bool into_table;                 /* shuffle only: rows go into hash tables instead of an output (bench/shuffle) */
    struct join_settings settings;
};

struct join_side {
    struct shuffle_relation relation;
    uint32_t project_count; /* columns of relation.schema that travel, in this order */
    uint32_t *project;
    struct shuffle_schema schema; /* of the projection: what travels */
    struct shuffle_key key;       /* in the projection */
    bool key_nullable;
};

struct join_node {
    char name[64];
    uint32_t first, count; /* its workers */
};

struct join_plan {
    enum join_job_kind kind;
    uint64_t job;
    uint8_t token[SHUFFLE_TOKEN_BYTES];
    struct join_settings settings; /* no zeros left but in the receive chunks */
    uint32_t sides;                /* 2 for join, 1 for shuffle, 0 for bisect */
    struct join_side side[2];      /* left, right */
    uint32_t build;                /* side that is built: pass 0 scans it, pass 1 the other */
    bool into_table;
    enum shuffle_output_kind output;
    char *out;                              /* directory, NULL for none */
    char files[SHUFFLE_PUBLISH_NAME_BYTES]; /* what the job's files in it are called after */
    uint32_t item_count;
    struct shuffle_output_item *item;
    struct shuffle_schema result; /* one field per item */
    uint32_t node_count, workers;
    struct join_node *node;
    struct net_address *address; /* P data addresses */
};

/* Plans a job on `node_count` nodes. Takes over relation[0..] (also on error: they are freed). Node map, job and token
 * are filled by join_plan_place. Errors (BASE_NOT_FOUND, BASE_TYPE, BASE_INVALID) name columns, types, and what there
 * is to choose from. The build side is the one with fewer estimated bytes. */
enum base_status join_plan_make(const struct join_request *request, struct shuffle_relation relation[2],
                                struct join_plan *plan, struct base_error *error);
/* Copies node map and addresses into the plan and fixes what depends on P (frame and morsel sizes left at 0). */
enum base_status join_plan_place(struct join_plan *plan, uint64_t job, const uint8_t token[SHUFFLE_TOKEN_BYTES],
                                 const struct join_node *node, uint32_t node_count, const struct net_address *address,
                                 struct base_error *error);
void join_plan_free(struct join_plan *plan);

/* Bytes a relation holds: of its files, or rows * row bytes; and a guess of its rows. */
uint64_t join_plan_relation_bytes(const struct shuffle_relation *relation);
uint64_t join_plan_relation_rows(const struct shuffle_relation *relation);
/* Is that no guess (gen:, and fixed-width files that are not compressed)? */
bool join_plan_rows_exact(const struct shuffle_relation *relation);
/* What a worker of a node with local workers will send: bytes of rows and frames, connections, bytes on each. A guess,
 * for choosing an engine. */
struct net_traffic join_plan_traffic(const struct join_plan *plan, uint32_t local);
/* Side scanned by pass 0 or 1. */
static inline uint32_t join_plan_pass_side(const struct join_plan *plan, uint32_t pass)
{
    return pass == 0 ? plan->build : 1 - plan->build;
}

/* Extension of its part files: "csv" or "bin". */
const char *join_plan_extension(const struct join_plan *plan);

#endif
