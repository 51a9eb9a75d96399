/* Receiving on the io_uring engine. What all rungs share, and multishot receives from the ring of provided chunks; the
 * one-shot receives of the lower rungs are in uring/oneshot.c, what is added by bundles and incremental buffers in
 * uring/bundle.c, and zero-copy receives in uring/recv_zc.c.
 *
 * A multishot receive is alive exactly while its completions carry IORING_CQE_F_MORE. Without it the request is armed
 * again, unless the stream ended. ENOBUFS is flow control: all chunks are with the user, who says "busy" by keeping
 * them.
 *
 * A multishot receive that is told of data and of the peer's reset at once takes the data, finds nothing left, and goes
 * on waiting for what has come already (after a FIN the kernel looks once more, after a reset it does not). So a
 * one-shot poll watches every connection for its breaking, once; from then on the receive is nudged after each
 * completion with bytes, until it ends. The nudge is a shutdown of the receiving direction, which is shut: it changes
 * nothing, loses nothing that waits to be read, and wakes whoever waits on the socket. Until a connection breaks all
 * this costs it one request.
 *
 * Why no starved socket waits forever. Sockets queue up in the order in which they ran dry, those that found nothing
 * before those that got something (`starved` before `sated`), or else the first one armed would empty the ring every
 * time. At every turn some are armed again, in proportion to the chunks there are. One that is armed takes chunks, or
 * finds none and queues up again, or has nothing to read and leaves them to the next: as long as a queue and the ring
 * both hold something, poll does not block but takes another turn (uring_wait_limit), and each turn shortens the queues
 * by at least one or uses a chunk up. */
#include <errno.h>
#include <poll.h>

#include "net/uring/internal.h"

enum { URING_CHUNKS_A_SOCKET = 4 /* how many chunks one starved socket is expected to use */ };

/* Whether receives outlive their completions. */
static bool uring_receive_stays(const struct uring_engine *engine)
{
    return engine->receiver != &uring_receiver_oneshot;
}

enum base_status uring_socket_receive(struct net_socket *base, struct base_error *error)
{
    struct uring_socket *socket = (struct uring_socket *)base;

    if (socket->flags & (URING_LISTENER | URING_CONNECTING))
        return base_error_set(error, BASE_INVALID, "receiving on a socket that is not connected");
    BASE_ASSERT(!(socket->flags & (URING_RECEIVING | URING_CLOSING)));
    socket->flags |= URING_RECEIVING;
    uring_socket_want(socket, URING_RECEIVE);
    if (uring_receive_stays(uring_engine_of(socket)))
        uring_socket_want(socket, URING_WATCH);
    return BASE_OK;
}

void uring_chunk_release(struct net_engine *base, const struct net_chunk *chunk)
{
    struct uring_engine *engine = (struct uring_engine *)base;

    BASE_ASSERT(chunk->id < engine->chunks.count);
    engine->receiver->release(engine, chunk);
}

/* A socket that received lately is tried at once; of an idle one the kernel would only learn that it has nothing. */
void uring_receive_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    uring_engine_of(socket)->receiver->prepare(socket, sqe);
    if (!(socket->flags & URING_WARM) && sqe->opcode == IORING_OP_RECV)
        sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    socket->flags = (socket->flags & ~(uint32_t)URING_FED) | URING_WARM;
}

uint32_t uring_receive_ended(struct uring_socket *socket, int os_error, struct net_event *event)
{
    BASE_ASSERT((socket->flags & URING_RECEIVING) && !(socket->flags & URING_CLOSING));
    /* A send that failed took the socket's error with it, and one that the kernel had partly done even hides it in a
     * short result: what then looks like the peer's FIN is none. */
    if (os_error == 0)
        os_error = socket->stream_error;
    if (os_error == 0 && socket->op && net_tcp_was_reset(socket->fd))
        os_error = ECONNRESET;
    socket->flags &= ~(uint32_t)URING_RECEIVING;
    uring_event_fill(event, NET_EVENT_RECEIVED, socket);
    event->os_error = os_error;
    event->status = os_error == 0 ? BASE_END : base_status_from_errno(os_error);
    return 1;
}

void uring_receive_again(struct uring_socket *socket)
{
    socket->base.engine->counters.receive_rearms++;
    net_list_unlink(&socket->starved);
    net_list_unlink(&socket->timed);
    uring_socket_want(socket, URING_RECEIVE);
}

void uring_receive_stop(struct uring_socket *socket)
{
    net_list_unlink(&socket->starved);
    if (socket->chunk != URING_CHUNK_NONE && !(socket->armed & URING_BIT(URING_RECEIVE))) {
        uring_chunk_spare(uring_engine_of(socket), socket->chunk);
        socket->chunk = URING_CHUNK_NONE;
    }
}

void uring_receive_fill(struct uring_socket *socket, uint32_t id, uint8_t *data, uint32_t bytes,
                        struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);

    net_holders_lend(&engine->base.holders, id);
    engine->base.counters.receives++;
    engine->base.counters.received_bytes += bytes;
    uring_event_fill(event, NET_EVENT_RECEIVED, socket);
    event->bytes = bytes;
    event->chunk.data = data;
    event->chunk.bytes = bytes;
    event->chunk.capacity = engine->chunks.chunk_bytes;
    event->chunk.id = id;
}

/* Only of a broken connection. */
static void uring_receive_nudge(struct uring_socket *socket)
{
    socket->base.engine->counters.syscalls++;
    (void)shutdown(socket->fd, SHUT_RD);
}

void uring_watch_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    io_uring_prep_poll_add(sqe, socket->fd, POLLERR | POLLHUP);
}

uint32_t uring_watch_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    (void)event;
    if (cqe->res > 0 && (socket->flags & URING_RECEIVING) && !(socket->flags & URING_CLOSING)) {
        socket->flags |= URING_BROKEN;
        uring_receive_nudge(socket);
    }
    return 0;
}

uint32_t uring_receive_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);

    if (cqe->res > 0 && !(socket->flags & URING_CLOSING)) {
        if ((socket->flags & URING_BROKEN) && (cqe->flags & IORING_CQE_F_MORE))
            uring_receive_nudge(socket);
        return engine->receiver->deliver(socket, cqe, event);
    }
    engine->receiver->discard(engine, socket, cqe);
    if ((socket->flags & URING_CLOSING) || !(socket->flags & URING_RECEIVING)) /* ended before, by disorder */
        return 0;
    const bool ended = !(cqe->flags & IORING_CQE_F_MORE);
    if (cqe->res == engine->receiver->starved_error) {
        engine->base.counters.receive_starved++;
        if (ended)
            engine->receiver->starve(socket);
        return 0;
    }
    /* ENOSPC: the completion queue was full, which reaping has mended. */
    if (cqe->res != -EINTR && cqe->res != -EAGAIN && cqe->res != -ENOSPC)
        return uring_receive_ended(socket, -cqe->res, event);
    if (ended)
        uring_receive_again(socket);
    return 0;
}

bool uring_receive_hungry(const struct uring_engine *engine)
{
    return engine->chunks.free > 0 && !(net_list_empty(&engine->starved) && net_list_empty(&engine->sated));
}

static void multishot_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    io_uring_prep_recv_multishot(sqe, socket->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_CHUNK_GROUP;
}

static uint32_t multishot_deliver(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);
    const uint32_t id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

    BASE_ASSERT((cqe->flags & IORING_CQE_F_BUFFER) && id < engine->chunks.count && engine->chunks.free > 0);
    if (!(cqe->flags & IORING_CQE_F_MORE))
        uring_receive_again(socket);
    socket->flags |= URING_FED;
    engine->chunks.free--;
    uring_receive_fill(socket, id, uring_chunk_data(engine, id), (uint32_t)cqe->res, event);
    return 1;
}

static void multishot_discard(struct uring_engine *engine, struct uring_socket *socket, const struct io_uring_cqe *cqe)
{
    (void)socket;
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        engine->chunks.free--;
        uring_chunk_provide(engine, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    }
}

static void multishot_release(struct uring_engine *engine, const struct net_chunk *chunk)
{
    BASE_ASSERT(chunk->data == uring_chunk_data(engine, chunk->id));
    uring_chunk_provide(engine, chunk->id);
}

void uring_receive_starve(struct uring_socket *socket)
{
    struct uring_engine *engine = uring_engine_of(socket);
    BASE_ASSERT((socket->flags & URING_RECEIVING) && !(socket->armed & URING_BIT(URING_RECEIVE)));
    net_list_append(socket->flags & URING_FED ? &engine->sated : &engine->starved, &socket->starved);
}

void uring_receive_feed(struct uring_engine *engine)
{
    uint32_t count = (engine->chunks.free + URING_CHUNKS_A_SOCKET - 1) / URING_CHUNKS_A_SOCKET;

    for (; count > 0 && uring_receive_hungry(engine); count--) {
        struct net_link *link = net_list_pop(net_list_empty(&engine->starved) ? &engine->sated : &engine->starved);
        uring_receive_again(NET_LIST_ENTRY(link, struct uring_socket, starved));
    }
}

uint32_t uring_receive_resume_none(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    (void)engine;
    (void)events;
    (void)max;
    return 0;
}

/* One completion is one chunk: nothing is put off. */
const struct uring_receiver uring_receiver_multishot = {
    .starved_error = -ENOBUFS,
    .prepare = multishot_prepare,
    .deliver = multishot_deliver,
    .discard = multishot_discard,
    .release = multishot_release,
    .starve = uring_receive_starve,
    .feed = uring_receive_feed,
    .resume = uring_receive_resume_none,
};
