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
#include <linux/mman.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/uring/internal.h"

enum {
    URING_CHUNK_ALIGN = 64,
    URING_HUGE_PAGE_BYTES = 2 << 20,
    URING_CHUNK_REST = 16 /* less than one part in so many is a rest too small to receive into */
};

/* What the kernel takes as one registered buffer. */
#define URING_REGISTERED_BYTES_MAX (UINT64_C(1) << 30)

static int uring_ring_register(struct uring_engine *engine, uint32_t flags, uint32_t left_min_bytes)
{
    struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)engine->chunks.ring,
                                            .ring_entries = engine->chunks.ring_entries,
                                            .bgid = URING_CHUNK_GROUP,
                                            .flags = (uint16_t)flags,
                                            .min_left = left_min_bytes};
    return io_uring_register_buf_ring(&engine->ring, &registration, 0);
}

/* With incremental buffers if they are to be had, best with an end to them: a rest too small to be worth a completion
 * is left (newer kernels). */
static int uring_ring_register_best(struct uring_engine *engine)
{
    const uint32_t left_min_bytes = engine->chunks.chunk_bytes / URING_CHUNK_REST;

    if (uring_has(engine, NET_FEATURE_INCREMENTAL)) {
        int result = uring_ring_register(engine, IOU_PBUF_RING_INC, left_min_bytes);
        if (result == -EINVAL && left_min_bytes > 0)
            result = uring_ring_register(engine, IOU_PBUF_RING_INC, 0);
        if (result != -EINVAL)
            return result;
    }
    const int result = uring_ring_register(engine, 0, 0);
    if (result == 0 && uring_has(engine, NET_FEATURE_INCREMENTAL))
        net_engine_miss(&engine->base, NET_FEATURE_INCREMENTAL, "this kernel is too old (needs Linux 6.12)");
    return result;
}

static void uring_ring_close(struct uring_chunks *chunks)
{
    if (chunks->ring)
        munmap(chunks->ring, chunks->ring_entries * sizeof(struct io_uring_buf));
    chunks->ring = NULL;
}

static const char *uring_ring_refusal(int os_error)
{
    if (os_error == ENOMEM)
        return "no locked memory left for the ring of receive chunks: raise ulimit -l";
    if (os_error == EINVAL)
        return "this kernel's io_uring has no provided buffer rings (Linux 5.19)";
    return strerror(os_error);
}

/* What goes with multishot receives goes without them. */
static void uring_ring_miss(struct uring_engine *engine, const char *why)
{
    net_engine_miss(&engine->base, NET_FEATURE_MULTISHOT, why);
    net_engine_miss_too(&engine->base, NET_FEATURE_BUNDLE | NET_FEATURE_INCREMENTAL);
}

static void uring_ring_open(struct uring_engine *engine, uint32_t count)
{
    struct uring_chunks *chunks = &engine->chunks;

    /* A kernel without multishot receives refuses the first one only when it is armed; one that has either of these
     * has them, too. */
    if (!(engine->ring.features & IORING_FEAT_REG_REG_RING) && !uring_has(engine, NET_FEATURE_DEFER_TASKRUN)) {
        uring_ring_miss(engine, "this kernel is too old (needs Linux 6.0)");
        return;
    }
    chunks->ring_entries = 1;
    while (chunks->ring_entries < count)
        chunks->ring_entries *= 2;
    void *pages = mmap(NULL, chunks->ring_entries * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    chunks->ring = pages == MAP_FAILED ? NULL : pages;
    const int result = !chunks->ring ? -ENOMEM : uring_ring_register_best(engine);
    if (result < 0) {
        uring_ring_miss(engine, uring_ring_refusal(-result));
        uring_ring_close(chunks);
    } else {
        io_uring_buf_ring_init(chunks->ring);
    }
}

/* Takes what this kernel has not, or has wrong, out of the features. */
static void uring_bundle_check(struct uring_engine *engine)
{
    static const enum net_feature tried[] = {NET_FEATURE_BUNDLE, NET_FEATURE_INCREMENTAL};

    BASE_ASSERT(!(uring_has(engine, NET_FEATURE_BUNDLE) && uring_has(engine, NET_FEATURE_INCREMENTAL)));
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        const char *broken = uring_has(engine, tried[i]) ? uring_bundle_broken(tried[i]) : NULL;
        if (broken)
            net_engine_miss(&engine->base, tried[i], broken);
    }
    if (uring_has(engine, NET_FEATURE_BUNDLE) && !(engine->ring.features & IORING_FEAT_RECVSEND_BUNDLE))
        net_engine_miss(&engine->base, NET_FEATURE_BUNDLE, "this kernel is too old (needs Linux 6.10)");
}

static const struct uring_receiver *uring_receiver_choose(const struct uring_engine *engine)
{
    if (!uring_has(engine, NET_FEATURE_MULTISHOT))
        return &uring_receiver_oneshot;
    if (uring_has(engine, NET_FEATURE_BUNDLE) || uring_has(engine, NET_FEATURE_INCREMENTAL))
        return &uring_receiver_bundle;
    return &uring_receiver_multishot;
}

/* The area takes the place of chunks. */
static bool uring_chunks_by_area(struct uring_engine *engine, const struct net_engine_config *config)
{
    struct uring_chunks *chunks = &engine->chunks;

    if (!uring_has(engine, NET_FEATURE_RECV_ZC) || !uring_area_open(engine, config))
        return false;
    engine->receiver = &uring_receiver_recv_zc;
    chunks->chunk_bytes = engine->area.piece_bytes;
    chunks->count = chunks->lent_max = chunks->free = engine->area.piece_count;
    engine->base.chunk_count = chunks->count;
    return true;
}

static enum base_status uring_chunks_tables(struct uring_engine *engine, struct base_error *error)
{
    struct uring_chunks *chunks = &engine->chunks;
    bool have = true;

    if (engine->receiver == &uring_receiver_oneshot) {
        chunks->spare = calloc(chunks->count, sizeof *chunks->spare);
        have = chunks->spare;
    } else if (engine->receiver == &uring_receiver_bundle) {
        chunks->provided = calloc(chunks->count, sizeof *chunks->provided);
        chunks->order = calloc(chunks->ring_entries, sizeof *chunks->order);
        have = chunks->provided && chunks->order;
    }
    return have ? BASE_OK
                : base_error_set(error, BASE_NO_MEMORY, "engine uring: no memory for %u chunks", chunks->count);
}

enum base_status uring_pages_map_huge(struct uring_engine *engine, size_t bytes, uint8_t **data, size_t *mapped,
                                      struct base_error *error)
{
    const size_t rounded = base_align_up(bytes, URING_HUGE_PAGE_BYTES);

    const enum base_status status = base_governor_draw(engine->governor, BASE_HOLDER_CHUNKS, rounded, error);
    if (status != BASE_OK)
        return status;
    void *pages =
        mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB, -1, 0);
    if (pages == MAP_FAILED) {
        char cause[160];
        snprintf(cause, sizeof cause, "this machine has no %zu free huge pages of 2 MiB: raise vm.nr_hugepages",
                 rounded / URING_HUGE_PAGE_BYTES);
        if (uring_has(engine, NET_FEATURE_HUGE_PAGES))
            net_engine_miss(&engine->base, NET_FEATURE_HUGE_PAGES, cause);
        base_governor_return(engine->governor, BASE_HOLDER_CHUNKS, rounded);
        return BASE_OK;
    }
    *data = pages;
    *mapped = rounded;
    return BASE_OK;
}

void uring_pages_unmap(struct uring_engine *engine, uint8_t *data, size_t bytes, bool huge)
{
    if (huge) {
        munmap(data, bytes);
        base_governor_return(engine->governor, BASE_HOLDER_CHUNKS, bytes);
    } else {
        base_pages_unmap(engine->governor, BASE_HOLDER_CHUNKS, data, bytes);
    }
}

enum base_status uring_chunks_open(struct uring_engine *engine, const struct net_engine_config *config,
                                   struct base_error *error)
{
    struct uring_chunks *chunks = &engine->chunks;
    void *pages;

    if (uring_chunks_by_area(engine, config))
        return net_holders_open(&engine->base.holders, chunks->count, error);
    chunks->chunk_bytes = config->recv_chunk_bytes;
    uring_bundle_check(engine);
    if (uring_has(engine, NET_FEATURE_MULTISHOT))
        uring_ring_open(engine, config->recv_chunk_count);
    engine->receiver = uring_receiver_choose(engine);
    chunks->lent_max = config->recv_chunk_count;
    chunks->count = config->recv_chunk_count + (chunks->ring ? 0 : config->sockets_max);
    chunks->stride_bytes = base_align_up(config->recv_chunk_bytes, URING_CHUNK_ALIGN);
    enum base_status status = uring_chunks_tables(engine, error);
    if (status == BASE_OK)
        status = net_holders_open(&engine->base.holders, chunks->count, error);
    if (status != BASE_OK)
        return status;
    const size_t bytes = chunks->stride_bytes * chunks->count;
    if (uring_has(engine, NET_FEATURE_HUGE_PAGES)) {
        status = uring_pages_map_huge(engine, bytes, &chunks->data, &chunks->bytes, error);
        chunks->huge = chunks->data;
        if (status != BASE_OK || chunks->huge)
            return status;
    }
    status = base_pages_map(engine->governor, BASE_HOLDER_CHUNKS, bytes, false, &pages, error);
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
    BASE_ASSERT(chunks->ring && id < chunks->count);
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

    if (engine->receiver == &uring_receiver_recv_zc)
        return;
    BASE_ASSERT(!chunks->enabled && chunks->data);
    chunks->enabled = true;
    memset(chunks->data, 0, chunks->bytes);
    if (chunks->ring) {
        for (uint32_t id = 0; id < chunks->count; id++)
            (chunks->provided ? uring_bundle_provide : uring_chunk_provide)(engine, id);
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

    if (chunks->ring && engine->ring_open)
        (void)io_uring_unregister_buf_ring(&engine->ring, URING_CHUNK_GROUP);
    uring_ring_close(chunks);
    free(chunks->provided);
    free(chunks->order);
    free(chunks->spare);
    uring_area_close(engine);
    if (!chunks->data)
        return;
    uring_pages_unmap(engine, chunks->data, chunks->bytes, chunks->huge);
}
