/* Bundles and incremental buffers of the io_uring engine: one completion may fill several chunks, and several
 * completions may share one.
 *
 * A completion names the first buffer and the bytes in all; where they are follows from the order in which buffers were
 * given to the kernel, because it uses them up in that order. So the order is kept beside the ring (`order`), with what
 * is used of each buffer. The kernel is done with a buffer when it is full, or, as the last of a completion, when that
 * does not say IORING_CQE_F_BUF_MORE (which it never does without incremental buffers).
 *
 * What the user gets are pieces, each within one buffer; a buffer goes back to the kernel when the kernel is done with
 * it and the user holds no piece of it. A user who holds fewer pieces than there are buffers leaves at least one to the
 * kernel, as on the rung before.
 *
 * A completion may be worth more events than a poll may write. The rest of it waits in `unfolding`; no further
 * completion is looked at before, so one such place is enough, everything stays in order, and poll does not block while
 * it is taken (uring_wait_limit). When its socket is closed meanwhile, the rest goes back to the kernel.
 *
 * A bundle that takes the last buffer ends the request without a word about it. Its socket queues up in `sated`: armed
 * again at once it would be the first to find what is released, each time, and the others nothing.
 *
 * Bundles and incremental buffers exclude each other here. Together they lose bytes: on Linux 6.18 a completion now and
 * then leaves the end of an incremental buffer unfilled and goes on in the next one, and says nothing (a join of 1 KiB
 * rows over two nodes found it in every third run by its lanes' totals; each by itself never did).
 *
 * Some kernels deliver bundles or incremental buffers in another order. Once per process a stream is tried over
 * loopback before this is used; should a completion name another buffer all the same, its stream ends with an error,
 * and so does every later one: what the buffers hold is not known any more. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/probe/probe.h"
#include "net/uring/internal.h"

static pthread_once_t bundle_tried = PTHREAD_ONCE_INIT;
static struct net_probe_result bundle_result, incremental_result;

static void bundle_try(void)
{
    (void)probe_bundle(&bundle_result);
    (void)probe_incremental(&incremental_result);
}

const char *uring_bundle_broken(enum net_feature feature)
{
    (void)pthread_once(&bundle_tried, bundle_try);
    const struct net_probe_result *result = feature == NET_FEATURE_BUNDLE ? &bundle_result : &incremental_result;
    return result->state == NET_PROBE_STATE_BROKEN ? result->why : NULL;
}

static uint16_t *bundle_place(struct uring_chunks *chunks, uint32_t position)
{
    return &chunks->order[position & (chunks->ring_entries - 1)];
}

void uring_bundle_provide(struct uring_engine *engine, uint32_t id)
{
    struct uring_chunks *chunks = &engine->chunks;

    chunks->provided[id] = (struct uring_provided){0};
    *bundle_place(chunks, chunks->order_tail++) = (uint16_t)id;
    uring_chunk_provide(engine, id);
}

static void bundle_recycle(struct uring_engine *engine, uint32_t id)
{
    const struct uring_provided *provided = &engine->chunks.provided[id];

    BASE_ASSERT(id < engine->chunks.count && provided->used <= engine->chunks.chunk_bytes);
    if (provided->done && provided->lent == 0)
        uring_bundle_provide(engine, id);
}

/* Takes the next piece of the completion in `unfolding`; the caller gives it to somebody, or recycles. */
static uint32_t bundle_cut(struct uring_engine *engine, uint32_t *id, uint8_t **data)
{
    struct uring_chunks *chunks = &engine->chunks;
    struct uring_unfolding *unfolding = &engine->unfolding;

    BASE_ASSERT(chunks->order_head != chunks->order_tail);
    *id = *bundle_place(chunks, chunks->order_head);
    struct uring_provided *provided = &chunks->provided[*id];
    const uint32_t bytes = (uint32_t)base_min_u64(unfolding->left, chunks->chunk_bytes - provided->used);
    *data = uring_chunk_data(engine, *id) + provided->used;
    BASE_ASSERT(bytes > 0 && !provided->done);
    provided->used += bytes;
    unfolding->left -= bytes;
    if (provided->used == chunks->chunk_bytes || (unfolding->left == 0 && !unfolding->more)) {
        provided->done = true;
        chunks->order_head++;
        chunks->free--;
    }
    return bytes;
}

static bool bundle_wanted(const struct uring_unfolding *unfolding)
{
    const struct uring_socket *socket = unfolding->socket;
    return socket && socket->generation == unfolding->generation && !(socket->flags & URING_CLOSING);
}

static uint32_t bundle_resume(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    struct uring_unfolding *unfolding = &engine->unfolding;
    uint32_t count = 0, id;
    uint8_t *data;

    while (unfolding->left > 0 && count < max) {
        const uint32_t bytes = bundle_cut(engine, &id, &data);
        if (bundle_wanted(unfolding)) {
            engine->chunks.provided[id].lent++;
            uring_receive_fill(unfolding->socket, id, data, bytes, &events[count++]);
        } else {
            bundle_recycle(engine, id);
        }
    }
    return count;
}

/* Whether the completion names the buffer that is next. */
static bool bundle_in_order(struct uring_engine *engine, const struct io_uring_cqe *cqe)
{
    struct uring_chunks *chunks = &engine->chunks;

    BASE_ASSERT(engine->unfolding.left == 0);
    if (!chunks->disordered && (cqe->flags & IORING_CQE_F_BUFFER) && chunks->order_head != chunks->order_tail &&
        *bundle_place(chunks, chunks->order_head) == cqe->flags >> IORING_CQE_BUFFER_SHIFT)
        return true;
    if (!chunks->disordered)
        base_log_error("engine %s: the kernel filled receive buffers in another order than they were given: use "
                       "--engine uring-multishot on this kernel",
                       engine->base.name);
    chunks->disordered = true;
    return false;
}

static uint32_t bundle_deliver(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);

    if (!(socket->flags & URING_RECEIVING))
        return 0; /* ended by disorder */
    if (!bundle_in_order(engine, cqe))
        return uring_receive_ended(socket, EIO, event);
    socket->flags |= URING_FED;
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        engine->base.counters.receive_starved++;
        net_list_append(&engine->sated, &socket->starved);
    }
    engine->unfolding = (struct uring_unfolding){.socket = socket,
                                                 .generation = socket->generation,
                                                 .left = (uint32_t)cqe->res,
                                                 .more = cqe->flags & IORING_CQE_F_BUF_MORE};
    return bundle_resume(engine, event, 1);
}

static void bundle_discard(struct uring_engine *engine, struct uring_socket *socket, const struct io_uring_cqe *cqe)
{
    (void)socket;
    if (cqe->res <= 0 || !(cqe->flags & IORING_CQE_F_BUFFER) || !bundle_in_order(engine, cqe))
        return;
    engine->unfolding =
        (struct uring_unfolding){.left = (uint32_t)cqe->res, .more = cqe->flags & IORING_CQE_F_BUF_MORE};
    (void)bundle_resume(engine, NULL, UINT32_MAX);
}

static void bundle_release(struct uring_engine *engine, const struct net_chunk *chunk)
{
    struct uring_provided *provided = &engine->chunks.provided[chunk->id];

    BASE_ASSERT(chunk->data >= uring_chunk_data(engine, chunk->id));
    BASE_ASSERT(chunk->data + chunk->bytes <= uring_chunk_data(engine, chunk->id) + provided->used);
    BASE_ASSERT(provided->lent > 0);
    provided->lent--;
    bundle_recycle(engine, chunk->id);
}

static void bundle_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    uring_receiver_multishot.prepare(socket, sqe);
    if (uring_has(uring_engine_of(socket), NET_FEATURE_BUNDLE))
        sqe->ioprio |= IORING_RECVSEND_BUNDLE;
}

const struct uring_receiver uring_receiver_bundle = {
    .starved_error = -ENOBUFS,
    .prepare = bundle_prepare,
    .deliver = bundle_deliver,
    .discard = bundle_discard,
    .release = bundle_release,
    .starve = uring_receive_starve,
    .feed = uring_receive_feed,
    .resume = bundle_resume,
};
