/* One-shot receives of the io_uring engine: what a loop that calls recv() becomes when each call is replaced by a
 * request. One request is armed per socket, with a chunk of its own; with registered buffers it is a read into memory
 * that the kernel has pinned and mapped once.
 *
 * A request that completes while the user holds all he may hold keeps its chunk, and its socket queues up in `starved`
 * until one is released; it is not armed again before its bytes were handed out.
 *
 * Why no socket waits forever: a socket has at most one chunk, armed or in that queue, and the user at most
 * recv_chunk_count; there are as many chunks as both together (uring/chunks.c), so a socket that wants a receive always
 * finds one. The queue is served first come, first served, before completions of the same turn, and poll does not block
 * while its first could be served (uring_receive_hungry). Idle sockets hold a chunk each, which nobody else needs. */
#include <errno.h>

#include "net/uring/internal.h"

void uring_chunk_spare(struct uring_engine *engine, uint32_t id)
{
    struct uring_chunks *chunks = &engine->chunks;

    BASE_ASSERT(chunks->spare_count < chunks->count);
    chunks->spare[chunks->spare_count++] = id;
}

static void oneshot_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    struct uring_engine *engine = uring_engine_of(socket);
    struct uring_chunks *chunks = &engine->chunks;

    BASE_ASSERT(chunks->spare_count > 0 && socket->chunk == URING_CHUNK_NONE);
    socket->chunk = chunks->spare[--chunks->spare_count];
    uint8_t *data = uring_chunk_data(engine, socket->chunk);
    if (uring_has(engine, NET_FEATURE_REGISTERED_BUFFERS))
        io_uring_prep_read_fixed(sqe, socket->fd, data, chunks->chunk_bytes, 0, 0);
    else
        io_uring_prep_recv(sqe, socket->fd, data, chunks->chunk_bytes, 0);
}

static uint32_t oneshot_hand_out(struct uring_socket *socket, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);
    const uint32_t id = socket->chunk;

    BASE_ASSERT(id != URING_CHUNK_NONE && engine->chunks.free > 0);
    BASE_ASSERT(socket->chunk_bytes > 0 && socket->chunk_bytes <= engine->chunks.chunk_bytes);
    engine->chunks.free--;
    socket->chunk = URING_CHUNK_NONE;
    uring_receive_fill(socket, id, uring_chunk_data(engine, id), socket->chunk_bytes, event);
    uring_receive_again(socket);
    return 1;
}

static uint32_t oneshot_deliver(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);

    socket->chunk_bytes = (uint32_t)cqe->res;
    if (engine->chunks.free > 0)
        return oneshot_hand_out(socket, event);
    engine->base.counters.receive_starved++;
    net_list_append(&engine->starved, &socket->starved);
    return 0;
}

static void oneshot_discard(struct uring_engine *engine, struct uring_socket *socket, const struct io_uring_cqe *cqe)
{
    (void)cqe;
    if (!socket || socket->chunk == URING_CHUNK_NONE)
        return;
    uring_chunk_spare(engine, socket->chunk);
    socket->chunk = URING_CHUNK_NONE;
}

static void oneshot_release(struct uring_engine *engine, const struct net_chunk *chunk)
{
    BASE_ASSERT(chunk->data == uring_chunk_data(engine, chunk->id));
    BASE_ASSERT(engine->chunks.free < engine->chunks.lent_max);
    uring_chunk_spare(engine, chunk->id);
    engine->chunks.free++;
}

/* A socket of this rung always has a chunk. */
static void oneshot_feed(struct uring_engine *engine)
{
    (void)engine;
}

static uint32_t oneshot_resume(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    uint32_t count = 0;

    while (count < max && uring_receive_hungry(engine)) {
        struct net_link *link = net_list_pop(&engine->starved);
        count += oneshot_hand_out(NET_LIST_ENTRY(link, struct uring_socket, starved), &events[count]);
    }
    return count;
}

const struct uring_receiver uring_receiver_oneshot = {
    .starved_error = -ENOBUFS,
    .prepare = oneshot_prepare,
    .deliver = oneshot_deliver,
    .discard = oneshot_discard,
    .release = oneshot_release,
    .starve = uring_receive_again, /* it brings its own chunk, so the want is the kernel's own and passes */
    .feed = oneshot_feed,
    .resume = oneshot_resume,
};
