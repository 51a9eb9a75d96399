/* Tries of receiving. The ones with provided buffers move a stream whose every byte is known over a connection, and
 * compare: some kernels deliver bundles or incremental buffers in another order than the bytes came, and say nothing.
 *
 * A stream. One end sends pieces of odd sizes, as long as the kernel takes them; the other has one multishot receive,
 * which is armed again when it ended (its completion has no F_MORE) and a buffer is back. Buffers are consumed in the
 * order in which they were given (net/probe/order.h), and given again when they are used up. The sender's FIN
 * ends the last receive, so that nothing is in flight when memory and ring go; on failure both sockets are shut down
 * first, and the end is awaited. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/probe/internal.h"
#include "net/probe/order.h"

enum {
    STREAM_BYTES = 1 << 20,
    STREAM_TRICKLE_BYTES = 2 * PROBE_BUFFER_BYTES /* sent in small pieces, received one by one */
};

struct stream {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    uint8_t *memory, *pattern;
    int ends[2]; /* sender, receiver */
    bool bundle, incremental;
    struct probe_order order;
    uint64_t sent_bytes;
    bool armed, ended;
};

/* Hands a buffer to the kernel, as the last one. */
static void receive_give(struct stream *stream, uint16_t id)
{
    io_uring_buf_ring_add(stream->buffers, stream->memory + (size_t)id * PROBE_BUFFER_BYTES, PROBE_BUFFER_BYTES, id,
                          io_uring_buf_ring_mask(PROBE_BUFFERS), 0);
    io_uring_buf_ring_advance(stream->buffers, 1);
}

static int receive_consume(struct stream *stream, const struct io_uring_cqe *cqe, struct net_probe_result *result)
{
    struct probe_order *order = &stream->order;
    struct probe_order_done done;
    if (!(cqe->flags & IORING_CQE_F_BUFFER))
        return probe_broken(result, "received without a buffer");
    switch (probe_order_take(order, (uint16_t)(cqe->flags >> IORING_CQE_BUFFER_SHIFT), (uint32_t)cqe->res,
                             cqe->flags & IORING_CQE_F_BUF_MORE, &done)) {
    case PROBE_ORDER_RIGHT:
        break;
    case PROBE_ORDER_WRONG_BUFFER:
        return probe_broken(result, "received into another buffer than the next: this kernel delivers out of order");
    case PROBE_ORDER_WRONG_BYTE:
        return probe_broken(result, "bytes from %" PRIu64 " on arrived wrong: this kernel delivers out of order",
                            order->received_bytes);
    case PROBE_ORDER_TOO_MUCH:
        return probe_broken(result, "received more bytes than the buffers hold");
    }
    for (uint32_t i = 0; i < done.count; i++)
        receive_give(stream, done.buffer[i]);
    return 0;
}

static void send_some(struct stream *stream)
{
    static const uint32_t pieces[] = {1, 3001, 70000, 4096, 20000};
    for (uint32_t turn = 0; stream->sent_bytes < STREAM_BYTES; turn++) {
        const bool trickle = stream->sent_bytes < STREAM_TRICKLE_BYTES;
        if (trickle && turn > 0)
            return;
        const uint32_t wanted = trickle ? 517 : pieces[turn % (sizeof pieces / sizeof *pieces)];
        const uint64_t left = STREAM_BYTES - stream->sent_bytes;
        const ssize_t sent = send(stream->ends[0], stream->pattern + stream->sent_bytes,
                                  (size_t)base_min_u64(wanted, left), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return; /* full: go on when the other end has read */
        stream->sent_bytes += (uint64_t)sent;
    }
    (void)shutdown(stream->ends[0], SHUT_WR);
}

static void receive_arm(struct stream *stream)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&stream->ring);
    io_uring_prep_recv_multishot(sqe, stream->ends[1], NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    if (stream->bundle)
        sqe->ioprio |= IORING_RECVSEND_BUNDLE;
    stream->armed = true;
}

/* Takes one completion. */
static int receive_take(struct stream *stream, const struct io_uring_cqe *cqe, struct net_probe_result *result)
{
    if (!(cqe->flags & IORING_CQE_F_MORE))
        stream->armed = false;
    if (cqe->res == -ENOBUFS)
        return 0; /* all buffers are back by now: arm again */
    if (cqe->res < 0)
        return cqe->res;
    if (cqe->res == 0) {
        stream->ended = true;
        return 0;
    }
    return receive_consume(stream, cqe, result);
}

static int receive_run(struct stream *stream, struct net_probe_result *result)
{
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    while (!stream->ended) {
        struct io_uring_cqe *cqe;
        if (stream->sent_bytes < STREAM_BYTES)
            send_some(stream);
        if (!stream->armed)
            receive_arm(stream);
        int failure = probe_wait(&stream->ring, deadline_ns, &cqe);
        if (failure != 0)
            return failure;
        failure = receive_take(stream, cqe, result);
        io_uring_cqe_seen(&stream->ring, cqe);
        if (failure != 0)
            return failure;
    }
    if (stream->order.received_bytes != STREAM_BYTES)
        return probe_broken(result, "%" PRIu64 " of %u bytes of a stream arrived", stream->order.received_bytes,
                            STREAM_BYTES);
    if ((stream->bundle && !stream->order.spanned) || (stream->incremental && !stream->order.shared))
        return probe_broken(result, "this kernel accepts the request, but ignores it");
    return 0;
}

/* Waits for the last completion, so that the kernel holds none of the memory. */
static void receive_join(struct stream *stream)
{
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    struct io_uring_cqe *cqe;
    (void)shutdown(stream->ends[0], SHUT_RDWR);
    (void)shutdown(stream->ends[1], SHUT_RDWR);
    while (stream->armed && probe_wait(&stream->ring, deadline_ns, &cqe) == 0) {
        if (!(cqe->flags & IORING_CQE_F_MORE))
            stream->armed = false;
        io_uring_cqe_seen(&stream->ring, cqe);
    }
}

static int run_with_buffers(struct stream *stream, struct net_probe_result *result)
{
    int failure = 0;
    const unsigned flags = stream->incremental ? IOU_PBUF_RING_INC : 0;
    stream->buffers = io_uring_setup_buf_ring(&stream->ring, PROBE_BUFFERS, 0, flags, &failure);
    if (!stream->buffers)
        return failure;
    probe_order_begin(stream->memory, stream->incremental, &stream->order);
    for (uint32_t id = 0; id < PROBE_BUFFERS; id++)
        receive_give(stream, (uint16_t)id);
    failure = receive_run(stream, result);
    receive_join(stream);
    (void)io_uring_free_buf_ring(&stream->ring, stream->buffers, PROBE_BUFFERS, 0);
    return failure;
}

static int try_stream(bool bundle, bool incremental, struct net_probe_result *result)
{
    struct stream *stream = calloc(1, sizeof *stream);
    const size_t bytes = STREAM_BYTES + PROBE_BUFFERS * PROBE_BUFFER_BYTES;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int failure = -ENOMEM;

    if (!stream || memory == MAP_FAILED)
        goto free_memory;
    stream->bundle = bundle;
    stream->incremental = incremental;
    stream->pattern = memory;
    stream->memory = memory + STREAM_BYTES;
    for (uint64_t i = 0; i < STREAM_BYTES; i++)
        stream->pattern[i] = probe_order_byte(i);
    failure = probe_ring(&stream->ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (failure < 0)
        goto free_memory;
    failure = probe_pair(stream->ends, result);
    if (failure != 0)
        goto close_ring;
    failure = run_with_buffers(stream, result);
    close(stream->ends[0]);
    close(stream->ends[1]);
close_ring:
    io_uring_queue_exit(&stream->ring);
free_memory:
    if (memory != MAP_FAILED)
        munmap(memory, bytes);
    free(stream);
    return failure;
}

int probe_multishot_receive(struct net_probe_result *result)
{
    return try_stream(false, false, result);
}

int probe_bundle(struct net_probe_result *result)
{
    return try_stream(true, false, result);
}

int probe_incremental(struct net_probe_result *result)
{
    return try_stream(false, true, result);
}

/* One request, one connection: a second one would show no more. */
int probe_multishot_accept(struct net_probe_result *result)
{
    struct io_uring ring;
    struct io_uring_cqe *cqe;
    int listener, connected, failure = probe_ring(&ring, 0);

    if (failure < 0)
        return failure;
    failure = probe_listen(&listener, result);
    if (failure != 0)
        goto close_ring;
    failure = probe_connect(listener, &connected, result);
    if (failure != 0)
        goto close_listener;
    io_uring_prep_multishot_accept(io_uring_get_sqe(&ring), listener, NULL, NULL, SOCK_CLOEXEC);
    failure = probe_wait(&ring, base_clock_now_ns() + PROBE_LIMIT_NS, &cqe);
    if (failure == 0) {
        const bool more = cqe->flags & IORING_CQE_F_MORE;
        failure = cqe->res < 0 ? cqe->res : 0;
        if (cqe->res >= 0)
            close(cqe->res);
        io_uring_cqe_seen(&ring, cqe);
        if (failure == 0 && !more)
            failure = probe_broken(result, "a multishot accept ended after one connection");
        (void)shutdown(listener, SHUT_RDWR);
        if (more && probe_wait(&ring, base_clock_now_ns() + PROBE_LIMIT_NS, &cqe) == 0)
            io_uring_cqe_seen(&ring, cqe);
    }
    close(connected);
close_listener:
    close(listener);
close_ring:
    io_uring_queue_exit(&ring);
    return failure;
}
