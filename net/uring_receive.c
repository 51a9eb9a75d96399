/* Receiving on the io_uring engine: the ring of provided chunks, and multishot receives that draw from it.
 *
 * A multishot receive is alive exactly while its completions carry IORING_CQE_F_MORE. Without it the request is armed
 * again, unless the stream ended. ENOBUFS is flow control: all chunks are with the user, who says "busy" by keeping
 * them.
 *
 * Why no starved socket waits forever. Sockets queue up in the order in which they ran dry, those that found nothing
 * before those that got something (`starved` before `sated`), or else the first one armed would empty the ring every
 * time. At every turn some are armed again, in proportion to the chunks there are. One that is armed takes chunks, or
 * finds none and queues up again, or has nothing to read and leaves them to the next: as long as a queue and the ring
 * both hold something, poll does not block but takes another turn (uring_wait_limit), and each turn shortens the queues
 * by at least one or uses a chunk up. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/uring.h"

enum {
    URING_CHUNK_GROUP = 0,
    URING_CHUNK_ALIGN = 64,
    URING_CHUNKS_A_SOCKET = 4 /* how many chunks one starved socket is expected to use */
};

enum base_status uring_chunks_open(struct uring_engine *engine, const struct net_engine_config *config,
                                   const char **refusal, struct base_error *error)
{
    void *pages;
    int result = 0;
    uint32_t entries = 1;

    while (entries < config->recv_chunk_count)
        entries *= 2;
    engine->chunk_ring = io_uring_setup_buf_ring(&engine->ring, entries, URING_CHUNK_GROUP, 0, &result);
    if (engine->chunk_ring == NULL) {
        *refusal = result == -EINVAL ? "this kernel's io_uring has no provided buffer rings (Linux 5.19)"
                                     : "no locked memory left for the ring of receive chunks: raise ulimit -l";
        return base_error_set_errno(error, -result, "engine uring: %s", *refusal);
    }
    engine->chunk_ring_entries = entries;
    engine->chunk_bytes = config->recv_chunk_bytes;
    engine->chunk_count = config->recv_chunk_count;
    engine->chunk_stride_bytes = base_align_up(config->recv_chunk_bytes, URING_CHUNK_ALIGN);
    size_t bytes = engine->chunk_stride_bytes * engine->chunk_count;
    enum base_status status = base_pages_map(engine->governor, BASE_HOLDER_CHUNKS, bytes, false, &pages, error);
    if (status != BASE_OK)
        return status;
    engine->chunks = pages;
    engine->chunks_bytes = bytes;
    return BASE_OK;
}

static void uring_chunk_add(struct uring_engine *engine, uint32_t id)
{
    uint8_t *data = engine->chunks + id * engine->chunk_stride_bytes;

    BASE_ASSERT(engine->chunks_free < engine->chunk_count);
    io_uring_buf_ring_add(engine->chunk_ring, data, engine->chunk_bytes, (unsigned short)id,
                          io_uring_buf_ring_mask(engine->chunk_ring_entries), 0);
    io_uring_buf_ring_advance(engine->chunk_ring, 1);
    engine->chunks_free++;
}

/* The owner touches the memory, so that it lies on the owner's NUMA node. */
void uring_chunks_enable(struct uring_engine *engine)
{
    engine->chunks_enabled = true;
    memset(engine->chunks, 0, engine->chunks_bytes);
    for (uint32_t id = 0; id < engine->chunk_count; id++)
        uring_chunk_add(engine, id);
}

void uring_chunks_close(struct uring_engine *engine)
{
    if (engine->chunk_ring != NULL)
        (void)io_uring_free_buf_ring(&engine->ring, engine->chunk_ring, engine->chunk_ring_entries, URING_CHUNK_GROUP);
    if (engine->chunks == NULL)
        return;
    if (engine->chunks_enabled && engine->chunks_free != engine->chunk_count)
        base_log_error("engine uring: %u of %u receive chunks were not released",
                       engine->chunk_count - engine->chunks_free, engine->chunk_count);
    base_pages_unmap(engine->governor, BASE_HOLDER_CHUNKS, engine->chunks, engine->chunks_bytes);
}

void uring_chunk_release(struct net_engine *base, const struct net_chunk *chunk)
{
    struct uring_engine *engine = (struct uring_engine *)base;

    BASE_ASSERT(chunk->id < engine->chunk_count);
    BASE_ASSERT(chunk->data == engine->chunks + chunk->id * engine->chunk_stride_bytes);
    uring_chunk_add(engine, chunk->id);
}

void uring_chunk_discard(struct uring_engine *engine, const struct io_uring_cqe *cqe)
{
    if (cqe->flags & IORING_CQE_F_BUFFER) {
        engine->chunks_free--;
        uring_chunk_add(engine, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
    }
}

enum base_status uring_socket_receive(struct net_socket *base, struct base_error *error)
{
    struct uring_socket *socket = (struct uring_socket *)base;

    if (socket->flags & (URING_LISTENER | URING_CONNECTING))
        return base_error_set(error, BASE_INVALID, "receiving on a socket that is not connected");
    BASE_ASSERT(!(socket->flags & (URING_RECEIVING | URING_CLOSING)));
    socket->flags |= URING_RECEIVING;
    uring_socket_want(socket, URING_RECEIVE);
    return BASE_OK;
}

void uring_receive_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    io_uring_prep_recv_multishot(sqe, socket->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = URING_CHUNK_GROUP;
    if (!(socket->flags & URING_WARM))
        sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
    socket->flags = (socket->flags & ~(uint32_t)URING_FED) | URING_WARM;
}

static uint32_t uring_receive_ended(struct uring_socket *socket, int os_error, struct net_event *event)
{
    /* A send that failed took the socket's error with it, and one that the kernel had partly done even hides it in a
     * short result: what then looks like the peer's FIN is none. */
    if (os_error == 0)
        os_error = socket->stream_error;
    if (os_error == 0 && socket->op != NULL && net_tcp_was_reset(socket->fd))
        os_error = ECONNRESET;
    socket->flags &= ~(uint32_t)URING_RECEIVING;
    uring_event_fill(event, NET_EVENT_RECEIVED, socket);
    event->os_error = os_error;
    event->status = os_error == 0 ? BASE_END : base_status_from_errno(os_error);
    return 1;
}

uint32_t uring_receive_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);
    struct net_counters *counters = &engine->base.counters;
    bool ended = !(cqe->flags & IORING_CQE_F_MORE);

    if ((socket->flags & URING_CLOSING) || cqe->res <= 0)
        uring_chunk_discard(engine, cqe);
    if (socket->flags & URING_CLOSING)
        return 0;
    if (cqe->res == -ENOBUFS) {
        counters->receive_starved++;
        if (ended)
            net_list_append(socket->flags & URING_FED ? &engine->sated : &engine->starved, &socket->starved);
        return 0;
    }
    if (cqe->res == 0 || (cqe->res < 0 && cqe->res != -EINTR && cqe->res != -EAGAIN))
        return uring_receive_ended(socket, -cqe->res, event);
    if (ended) {
        counters->receive_rearms++;
        uring_socket_want(socket, URING_RECEIVE);
    }
    if (cqe->res < 0)
        return 0;
    uint32_t id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    socket->flags |= URING_FED;
    engine->chunks_free--;
    counters->receives++;
    counters->received_bytes += (uint64_t)cqe->res;
    uring_event_fill(event, NET_EVENT_RECEIVED, socket);
    event->bytes = (uint64_t)cqe->res;
    event->chunk = (struct net_chunk){.data = engine->chunks + id * engine->chunk_stride_bytes,
                                      .bytes = (uint32_t)cqe->res,
                                      .capacity = engine->chunk_bytes,
                                      .id = id};
    return 1;
}

bool uring_receive_hungry(const struct uring_engine *engine)
{
    return engine->chunks_free > 0 && !(net_list_empty(&engine->starved) && net_list_empty(&engine->sated));
}

void uring_receive_feed(struct uring_engine *engine)
{
    uint32_t count = (engine->chunks_free + URING_CHUNKS_A_SOCKET - 1) / URING_CHUNKS_A_SOCKET;

    for (; count > 0 && uring_receive_hungry(engine); count--) {
        struct net_link *link = net_list_pop(net_list_empty(&engine->starved) ? &engine->sated : &engine->starved);
        engine->base.counters.receive_rearms++;
        uring_socket_want(NET_LIST_ENTRY(link, struct uring_socket, starved), URING_RECEIVE);
    }
}
