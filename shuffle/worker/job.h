/* A job as every worker of it sees it, whatever its task does: its number, its settings and its nodes. Plain data,
 * owned by itself. */
#ifndef MILLRACE_SHUFFLE_WORKER_JOB_H
#define MILLRACE_SHUFFLE_WORKER_JOB_H

#include "net/engine/choose.h"
#include "net/engine/engine.h"
#include "shuffle/mesh/mesh.h"

/* Settings of a job that do not change its answer. Zero: shuffle_job_place chooses. */
struct shuffle_settings {
    struct net_engine_choice engine;
    bool verify;               /* check every payload byte */
    uint32_t frame_bytes;      /* header included, 4 KiB .. 1 MiB; 0: an eighth of the bytes expected per lane */
    uint32_t frames_per_lane;  /* 0: 2; 4 for engines that send without a copy: those leave late */
    uint32_t recv_chunk_bytes; /* 0: chosen by each node (net/engine/choose.h), also in a job that is placed */
    uint32_t recv_chunk_count; /* likewise */
    struct net_socket_settings socket;
    uint64_t morsel_bytes; /* 0: 4 MiB, fewer for small inputs so that every worker gets some */
};

struct shuffle_node {
    char name[64];
    uint32_t first, count; /* its workers */
};

struct shuffle_job {
    uint64_t id;
    uint8_t token[SHUFFLE_TOKEN_BYTES];
    struct shuffle_settings settings; /* no zeros left but in the receive chunks */
    uint32_t node_count, workers;
    struct shuffle_node *node;
    struct net_address *address; /* data address of each worker */
};

/* Copies nodes and the addresses of their workers, and chooses settings left at zero; bytes: of the larger input, 0 if
 * there is none. The job is empty before, and after an error is to be freed. BASE_NO_MEMORY. */
enum base_status shuffle_job_place(struct shuffle_job *job, uint64_t id, const uint8_t token[SHUFFLE_TOKEN_BYTES],
                                   const struct shuffle_settings *settings, uint64_t bytes,
                                   const struct shuffle_node *node, uint32_t node_count,
                                   const struct net_address *address, struct base_error *error);
void shuffle_job_free(struct shuffle_job *job);

/* What a worker of a node with `local` workers will send, as far as it does not depend on the rows. A guess, for
 * choosing an engine. */
struct net_traffic shuffle_job_traffic(const struct shuffle_job *job, uint32_t local);

#endif
