/* Sending of the io_uring engine, with and without a copy.
 *
 * A zero-copy send has two completions: its result, and when the kernel needs the bytes no more - they are
 * acknowledged, or the connection is gone, and no device reads them any longer - a notification. The result says by
 * IORING_CQE_F_MORE whether a notification follows; that is so also of sends that fail or are cancelled, but not of a
 * request refused before it ran. The request is over with its result, and a short one is continued at once. A send is
 * finished (SENT) when as many notifications came as were announced; its tag, which they carry, tells it from those
 * that went out after it: a peer acknowledges the last bytes of a burst late (40 ms) unless more follow.
 *
 * A single piece that lies in registered memory is sent from there; pieces together are not, because kernels before 7
 * cannot. A piece refused for lack of memory to account for its pages is sent with a copy. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "net/uring/internal.h"

enum {
    URING_SEND_BYTES_MAX = 512 << 10,
    URING_SEND_BUFFERS = 16 /* how many times its socket's buffer one request takes at most */
};

/* An unconnected socket is enough: where zero-copy sends exist the failure announces a notification. */
static bool uring_zerocopy_works(struct uring_engine *engine)
{
    struct __kernel_timespec limit = {.tv_sec = 1};
    struct io_uring_cqe *cqe = NULL;
    bool more = true, works = false;
    char byte = 0;

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&engine->ring);
    io_uring_prep_send_zc(sqe, fd, &byte, 1, MSG_NOSIGNAL, IORING_SEND_ZC_REPORT_USAGE);
    /* A wait that ends by time or signal right after a submit is no error, and has no completion. */
    while (more && io_uring_submit_and_wait_timeout(&engine->ring, &cqe, 1, &limit, NULL) >= 0 && cqe) {
        more = (cqe->flags & IORING_CQE_F_MORE) != 0;
        works |= (cqe->flags & IORING_CQE_F_NOTIF) != 0;
        io_uring_cqe_seen(&engine->ring, cqe);
    }
    close(fd);
    return works;
}

void uring_send_enable(struct uring_engine *engine)
{
    if (uring_has(engine, NET_FEATURE_SEND_ZC) && !uring_zerocopy_works(engine))
        net_engine_miss(&engine->base, NET_FEATURE_SEND_ZC,
                        "this kernel has no zero-copy send that reports copies (Linux 6.2)");
}

enum base_status uring_socket_send(struct net_socket *base, struct net_send_op *op)
{
    struct uring_socket *socket = (struct uring_socket *)base;
    uint32_t tag = 0;

    BASE_ASSERT(!(socket->flags & (URING_LISTENER | URING_CONNECTING | URING_CLOSING | URING_FIN_AFTER_SEND)));
    while (tag < NET_SENDS_MAX && socket->sends[tag])
        tag++;
    if (socket->op || tag == NET_SENDS_MAX)
        return BASE_BUSY;
    memset(&op->own, 0, sizeof op->own);
    op->own.tag = tag;
    socket->op = socket->sends[tag] = op;
    uring_socket_want(socket, URING_SEND);
    return BASE_OK;
}

/* Sets op_asked to the bytes that one request takes, and returns the number of segments they lie in: whole ones, or the
 * beginning of one. A request that had to wait for room more than a hundred times is handed to a thread of the kernel's
 * own, so it takes no more than surely fits into the socket's buffer in fewer times: the kernel wakes it when a third
 * is free, half of which is the kernel's own. */
static uint32_t uring_send_part(struct uring_socket *socket)
{
    const struct net_send_op *op = socket->op;
    const struct iovec *segments = op->segments + op->own.first;
    const uint32_t buffer_bytes = uring_engine_of(socket)->tcp.set.send_buffer_bytes;
    const size_t bytes_max = buffer_bytes == 0 || buffer_bytes > URING_SEND_BYTES_MAX / URING_SEND_BUFFERS
                                 ? URING_SEND_BYTES_MAX
                                 : (size_t)buffer_bytes * URING_SEND_BUFFERS;
    uint32_t count = 0;

    socket->op_asked = 0;
    while (op->own.first + count < op->count && socket->op_asked + segments[count].iov_len <= bytes_max)
        socket->op_asked += segments[count++].iov_len;
    if (count > 0)
        return count;
    socket->op_asked = bytes_max;
    return 1;
}

static void uring_send_zc_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe, int flags)
{
    struct iovec *segments = socket->op->segments + socket->op->own.first;

    if (socket->message.msg_iovlen > 1) {
        io_uring_prep_sendmsg_zc(sqe, socket->fd, &socket->message, (unsigned)flags);
        sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
        return;
    }
    int index = uring_memory_find(uring_engine_of(socket), segments->iov_base, socket->op_asked);
    io_uring_prep_send_zc(sqe, socket->fd, segments->iov_base, socket->op_asked, flags, IORING_SEND_ZC_REPORT_USAGE);
    if (index != URING_MEMORY_NONE) {
        sqe->ioprio |= IORING_RECVSEND_FIXED_BUF;
        sqe->buf_index = (uint16_t)index;
    }
}

void uring_send_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    struct net_send_op *op = socket->op;
    struct iovec *segments = op->segments + op->own.first;
    const uint32_t count = uring_send_part(socket);
    const int flags = MSG_WAITALL | MSG_NOSIGNAL;
    bool zerocopy = uring_has(uring_engine_of(socket), NET_FEATURE_SEND_ZC) && !(socket->flags & URING_SEND_COPY) &&
                    net_zerocopy_wanted(&socket->zerocopy, socket->op_asked);

    socket->flags &= ~(uint32_t)(URING_SEND_COPY | URING_SEND_IS_ZC);
    socket->message = (struct msghdr){.msg_iov = segments, .msg_iovlen = count};
    if (zerocopy) {
        socket->flags |= URING_SEND_IS_ZC;
        uring_send_zc_prepare(socket, sqe, flags);
    } else if (count == 1) {
        io_uring_prep_send(sqe, socket->fd, segments->iov_base, socket->op_asked, flags);
    } else {
        io_uring_prep_sendmsg(sqe, socket->fd, &socket->message, (unsigned)flags);
    }
}

void uring_send_finished(struct uring_socket *socket, struct net_send_op *op, enum base_status status,
                         struct net_event *event)
{
    BASE_ASSERT(op->in_flight && op->own.notices_due == 0 && socket->sends[op->own.tag] == op);
    op->in_flight = 0;
    socket->sends[op->own.tag] = NULL;
    uring_event_fill(event, NET_EVENT_SENT, socket);
    event->os_error = op->own.os_error;
    event->status = status;
    event->bytes = op->own.bytes;
    event->send = op;
}

/* All bytes are out, or none will be any more. */
static uint32_t uring_send_over(struct uring_socket *socket, int os_error, struct net_event *event)
{
    struct net_send_op *op = socket->op;

    BASE_ASSERT(op && socket->sends[op->own.tag] == op);
    socket->op = NULL;
    op->own.os_error = socket->stream_error = os_error;
    if (os_error == 0 && (socket->flags & URING_FIN_AFTER_SEND))
        (void)shutdown(socket->fd, SHUT_WR);
    if (op->own.notices_due == 0) {
        uring_send_finished(socket, op, net_send_status(op), event);
        return 1;
    }
    if (os_error != 0)
        return 0;
    uring_event_fill(event, NET_EVENT_OUT, socket);
    event->send = op;
    return 1;
}

/* Takes a zero-copy send's failure as a reason to copy. False: the stream has failed. */
static bool uring_send_copies(struct uring_socket *socket, int os_error, bool outstanding)
{
    if (!(socket->flags & URING_SEND_IS_ZC))
        return false;
    if (os_error == ENOMEM || os_error == ENOBUFS)
        net_zerocopy_refused(socket->base.engine, &socket->zerocopy, outstanding);
    else if (os_error == EOPNOTSUPP || os_error == EINVAL)
        net_zerocopy_unsupported(&socket->zerocopy);
    else
        return false;
    socket->flags |= URING_SEND_COPY;
    return true;
}

uint32_t uring_send_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct net_counters *counters = &socket->base.engine->counters;
    struct net_send_op *op = socket->op;
    size_t left = net_send_left(op, op->own.first);
    bool outstanding = socket->notices_due > socket->notices_void;

    BASE_ASSERT(op->in_flight && op->own.first < op->count);
    if (cqe->flags & IORING_CQE_F_MORE) {
        socket->notices_due++;
        op->own.notices_due++;
        socket->notices_void += cqe->res <= 0;
        counters->zc_sends += cqe->res > 0;
    }
    if (cqe->res >= 0) {
        counters->sent_bytes += (uint64_t)cqe->res;
        op->own.bytes += (uint64_t)cqe->res;
        if ((size_t)cqe->res == left) {
            counters->sends++;
            return uring_send_over(socket, 0, event);
        }
        counters->short_sends += (size_t)cqe->res < socket->op_asked;
        net_send_advance(op, &op->own.first, (size_t)cqe->res);
    }
    if (socket->flags & URING_CLOSING)
        return 0; /* uring_socket_finish says CANCELLED */
    if (cqe->res < 0 && cqe->res != -EINTR && cqe->res != -EAGAIN && !uring_send_copies(socket, -cqe->res, outstanding))
        return uring_send_over(socket, -cqe->res, event);
    uring_socket_want(socket, URING_SEND);
    return 0;
}

uint32_t uring_send_notified(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    const uint32_t tag = uring_send_tag_of(cqe);
    const bool copied = ((uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED) != 0;
    struct net_send_op *op = tag < NET_SENDS_MAX ? socket->sends[tag] : NULL;

    BASE_ASSERT(op && op->own.notices_due > 0 && socket->notices_due > 0);
    socket->notices_due--;
    op->own.notices_due--;
    if (copied && socket->notices_void > 0) /* a send that failed has used nothing, and that is said likewise */
        socket->notices_void--;
    else
        net_zerocopy_told(socket->base.engine, &socket->zerocopy, 1, copied);
    if (op == socket->op || op->own.notices_due > 0)
        return 0;
    uring_send_finished(socket, op, net_send_status(op), event);
    return 1;
}
