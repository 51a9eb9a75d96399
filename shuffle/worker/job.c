#include "shuffle/worker/job.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "shuffle/frames/frame.h"

/* Frames follow the bytes that a lane will see; morsels follow the bytes that a worker will see. */
static void job_settle(struct shuffle_job *job, uint64_t bytes)
{
    struct shuffle_settings *settings = &job->settings;
    const uint64_t workers = job->workers;
    if (settings->frames_per_lane == 0)
        settings->frames_per_lane = net_rung_features(settings->engine.kind) & NET_FEATURE_SEND_ZC ? 4 : 2;
    if (settings->frame_bytes == 0)
        settings->frame_bytes = shuffle_frame_bytes_for(
            bytes / (workers * workers), job->workers > 1 ? job->workers - 1 : 1, settings->frames_per_lane);
    if (settings->morsel_bytes == 0)
        settings->morsel_bytes = base_max_u64(64 << 10, base_min_u64(UINT64_C(4) << 20, bytes / (4 * workers)));
}

enum base_status shuffle_job_place(struct shuffle_job *job, uint64_t id, const uint8_t token[SHUFFLE_TOKEN_BYTES],
                                   const struct shuffle_settings *settings, uint64_t bytes,
                                   const struct shuffle_node *node, uint32_t node_count,
                                   const struct net_address *address, struct base_error *error)
{
    BASE_ASSERT(!job->node && !job->address && node_count > 0);
    uint32_t workers = 0;
    for (uint32_t i = 0; i < node_count; i++)
        workers += node[i].count;
    BASE_ASSERT(workers > 0); /* a node without one is not let in */
    job->node = calloc(node_count, sizeof *node);
    job->address = calloc(workers, sizeof *address);
    if (!job->node || !job->address)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a job of %u workers", workers);
    memcpy(job->node, node, node_count * sizeof *node);
    memcpy(job->address, address, workers * sizeof *address);
    job->node_count = node_count;
    job->workers = workers;
    job->id = id;
    memcpy(job->token, token, SHUFFLE_TOKEN_BYTES);
    job->settings = *settings;
    job_settle(job, bytes);
    return BASE_OK;
}

void shuffle_job_free(struct shuffle_job *job)
{
    free(job->node);
    free(job->address);
    memset(job, 0, sizeof *job);
}

struct net_traffic shuffle_job_traffic(const struct shuffle_job *job, uint32_t local)
{
    BASE_ASSERT(local <= job->workers);
    return (struct net_traffic){.frame_bytes = job->settings.frame_bytes,
                                .connections = job->workers - local,
                                .chunk_bytes = job->settings.recv_chunk_bytes,
                                .chunk_count = job->settings.recv_chunk_count};
}
