/* Receive chunks of the io_uring engine: their memory, and how the kernel gets to know it.
 *
 * With multishot receives a ring of provided buffers holds every chunk that is not with the user, and the kernel takes
 * from it what it needs: recv_chunk_count chunks are enough. A one-shot receive must bring its chunk, whether anything
 * comes or not. There the memory is
 *
 *     recv_chunk_count   what the user may hold
 *   + sockets_max        one for each socket: under its armed receive, or filled and waiting for the user
 *
 * so that arming always finds one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/uring.h"

enum { URING_CHUNK_ALIGN = 64 };

/* What the kernel takes as one registered buffer. */
#define URING_REGISTERED_BYTES_MAX (UINT64_C(1) << 30)

static void uring_ring_open(struct uring_engine *engine, uint32_t count)
{
    struct uring_chunks *chunks = &engine->chunks;
    uint32_t entries = 1;
    int result = 0;

    /* A kernel without multishot receives refuses the first one only when it is armed; one that has either of these
     * has them, too. */
    if (!(engine->ring.features & IORING_FEAT_REG_REG_RING) && !uring_has(engine, NET_FEATURE_DEFER_TASKRUN)) {
        net_engine_miss(&engine->base, NET_FEATURE_MULTISHOT, "this kernel is too old (needs Linux 6.0)");
        return;
    }
    while (entries < count)
        entries *= 2;
    chunks->ring = io_uring_setup_buf_ring(&engine->ring, entries, URING_CHUNK_GROUP, 0, &result);
    chunks->ring_entries = entries;
    if (chunks->ring == NULL)
        net_engine_miss(&engine->base, NET_FEATURE_MULTISHOT,
                        result == -ENOMEM   ? "no locked memory left for the ring of receive chunks: raise ulimit -l"
                        : result == -EINVAL ? "this kernel's io_uring has no provided buffer rings (Linux 5.19)"
                                            : strerror(-result));
}

enum base_status uring_chunks_open(struct uring_engine *engine, const struct net_engine_config *config,
                                   struct base_error *error)
{
    struct uring_chunks *chunks = &engine->chunks;
    void *pages;

    if (uring_has(engine, NET_FEATURE_MULTISHOT))
        uring_ring_open(engine, config->recv_chunk_count);
    const bool provided = chunks->ring != NULL;
    engine->receiver = provided ? &uring_receiver_multishot : &uring_receiver_oneshot;
    chunks->chunk_bytes = config->recv_chunk_bytes;
    chunks->lent_max = config->recv_chunk_count;
    chunks->count = config->recv_chunk_count + (provided ? 0 : config->sockets_max);
    chunks->stride_bytes = base_align_up(config->recv_chunk_bytes, URING_CHUNK_ALIGN);
    if (!provided) {
        chunks->spare = calloc(chunks->count, sizeof *chunks->spare);
        if (chunks->spare == NULL)
            return base_error_set(error, BASE_NO_MEMORY, "engine uring: no memory for %u chunks", chunks->count);
    }
    const size_t bytes = chunks->stride_bytes * chunks->count;
    enum base_status status = base_pages_map(engine->governor, BASE_HOLDER_CHUNKS, bytes, false, &pages, error);
    if (status != BASE_OK)
        return status;
    chunks->data = pages;
    chunks->bytes = bytes;
    return BASE_OK;
}

void uring_chunk_provide(struct uring_engine *engine, uint32_t id)
{
    struct uring_chunks *chunks = &engine->chunks;

    BASE_ASSERT(chunks->free < chunks->count);
    io_uring_buf_ring_add(chunks->ring, uring_chunk_data(engine, id), chunks->chunk_bytes, (unsigned short)id,
                          io_uring_buf_ring_mask(chunks->ring_entries), 0);
    io_uring_buf_ring_advance(chunks->ring, 1);
    chunks->free++;
}

static void uring_chunks_register(struct uring_engine *engine)
{
    const struct iovec all = {.iov_base = engine->chunks.data, .iov_len = engine->chunks.bytes};
    char cause[160];

    if (engine->chunks.bytes > URING_REGISTERED_BYTES_MAX) {
        snprintf(cause, sizeof cause, "%zu MiB of receive memory are more than the kernel takes as one buffer",
                 engine->chunks.bytes >> 20);
        net_engine_miss(&engine->base, NET_FEATURE_REGISTERED_BUFFERS, cause);
        return;
    }
    const int result = io_uring_register_buffers(&engine->ring, &all, 1);
    if (result < 0)
        net_engine_miss(&engine->base, NET_FEATURE_REGISTERED_BUFFERS,
                        result == -ENOMEM ? "no locked memory left for the receive chunks: raise ulimit -l"
                                          : strerror(-result));
}

/* The owner touches the memory, so that it lies on the owner's NUMA node. */
void uring_chunks_enable(struct uring_engine *engine)
{
    struct uring_chunks *chunks = &engine->chunks;

    chunks->enabled = true;
    memset(chunks->data, 0, chunks->bytes);
    if (chunks->ring != NULL) {
        for (uint32_t id = 0; id < chunks->count; id++)
            uring_chunk_provide(engine, id);
        return;
    }
    for (uint32_t id = chunks->count; id > 0; id--)
        uring_chunk_spare(engine, id - 1);
    chunks->free = chunks->lent_max;
    if (uring_has(engine, NET_FEATURE_REGISTERED_BUFFERS))
        uring_chunks_register(engine);
}

void uring_chunks_close(struct uring_engine *engine)
{
    struct uring_chunks *chunks = &engine->chunks;

    if (chunks->ring != NULL)
        (void)io_uring_free_buf_ring(&engine->ring, chunks->ring, chunks->ring_entries, URING_CHUNK_GROUP);
    free(chunks->spare);
    if (chunks->data == NULL)
        return;
    if (chunks->enabled && chunks->free != chunks->lent_max)
        base_log_error("engine uring: %u of %u receive chunks were not released", chunks->lent_max - chunks->free,
                       chunks->lent_max);
    base_pages_unmap(engine->governor, BASE_HOLDER_CHUNKS, chunks->data, chunks->bytes);
}
