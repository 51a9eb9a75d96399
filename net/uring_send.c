/* Sending of the io_uring engine: see the essay in uring.c. */
#include <errno.h>

#include "net/uring.h"

enum base_status uring_socket_send(struct net_socket *base, struct net_send_op *op)
{
    struct uring_socket *socket = (struct uring_socket *)base;

    BASE_ASSERT(!(socket->flags & (URING_LISTENER | URING_CONNECTING | URING_CLOSING | URING_FIN_AFTER_SEND)));
    if (socket->op != NULL)
        return BASE_BUSY;
    socket->op = op;
    socket->op_first = 0;
    socket->op_sent_bytes = 0;
    uring_socket_want(socket, URING_SEND);
    return BASE_OK;
}

void uring_send_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    struct iovec *segments = socket->op->segments + socket->op_first;
    uint32_t count = socket->op->count - socket->op_first;

    if (count == 1) {
        io_uring_prep_send(sqe, socket->fd, segments->iov_base, segments->iov_len, MSG_WAITALL | MSG_NOSIGNAL);
        return;
    }
    socket->message = (struct msghdr){.msg_iov = segments, .msg_iovlen = count};
    io_uring_prep_sendmsg(sqe, socket->fd, &socket->message, MSG_WAITALL | MSG_NOSIGNAL);
}

static uint32_t uring_send_finished(struct uring_socket *socket, int os_error, struct net_event *event)
{
    BASE_ASSERT(socket->op->in_flight);
    socket->op->in_flight = 0;
    socket->op = NULL;
    socket->stream_error = os_error;
    if (os_error == 0 && (socket->flags & URING_FIN_AFTER_SEND))
        (void)shutdown(socket->fd, SHUT_WR);
    uring_event_fill(event, NET_EVENT_SENT, socket);
    event->os_error = os_error;
    event->status = os_error == 0 ? BASE_OK : base_status_from_errno(os_error);
    event->bytes = socket->op_sent_bytes;
    return 1;
}

uint32_t uring_send_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct net_counters *counters = &socket->base.engine->counters;
    size_t left = net_send_left(socket->op, socket->op_first);

    if (cqe->res >= 0) {
        counters->sent_bytes += (uint64_t)cqe->res;
        socket->op_sent_bytes += (uint64_t)cqe->res;
        if ((size_t)cqe->res == left) {
            counters->sends++;
            return uring_send_finished(socket, 0, event);
        }
        counters->short_sends++;
        net_send_advance(socket->op, &socket->op_first, (size_t)cqe->res);
    }
    if (socket->flags & URING_CLOSING)
        return 0; /* uring_socket_finish says CANCELLED */
    if (cqe->res < 0 && cqe->res != -EINTR && cqe->res != -EAGAIN)
        return uring_send_finished(socket, -cqe->res, event);
    uring_socket_want(socket, URING_SEND);
    return 0;
}
