/* Sending of the epoll engine, with and without a copy.
 *
 * A send with MSG_ZEROCOPY that the kernel accepts takes the socket's next number, and when the kernel needs the bytes
 * no more - they are acknowledged, or the connection is gone, and no device reads them any longer - it puts a
 * notification for a range of numbers into the socket's error queue. Each number is notified once, not always in
 * order. A send of ours is one or more of the kernel's, with numbers in a row.
 *
 * It is over when all its bytes are out or the socket has failed, and finished (SENT) when no notification of its
 * numbers is due. In between it waits, and the next goes out: a peer acknowledges the last bytes of a burst late (40
 * ms) unless more follow. A peer that stops reading holds notifications back for as long as it likes, so closing does
 * not rely on it: the connection is ended, after a while by a reset, and that returns them all. */
#include <errno.h>
#include <time.h> /* before errqueue.h, which uses struct timespec */

#include <linux/errqueue.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/epoll/internal.h"

static bool epoll_zerocopy_set(int fd)
{
    int one = 1;
    return setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one) == 0;
}

bool epoll_zerocopy_works(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool works = fd >= 0 && epoll_zerocopy_set(fd);

    if (fd >= 0)
        close(fd);
    return works;
}

void epoll_zerocopy_allow(struct epoll_socket *socket)
{
    if (epoll_zerocopy_set(socket->fd))
        socket->flags |= EPOLL_ZEROCOPY;
}

enum base_status epoll_socket_send(struct net_socket *base, struct net_send_op *op)
{
    struct epoll_socket *socket = (struct epoll_socket *)base;

    BASE_ASSERT(!(socket->flags & (EPOLL_LISTENER | EPOLL_CONNECTING | EPOLL_CLOSING | EPOLL_FIN_AFTER_SEND)));
    if (socket->op || socket->waiting_count == NET_SENDS_MAX)
        return BASE_BUSY;
    memset(&op->own, 0, sizeof op->own);
    op->own.notice_first = socket->notice_next;
    socket->op = op;
    epoll_socket_queue(socket);
    return BASE_OK;
}

void epoll_send_finished(struct epoll_socket *socket, struct net_send_op *op, enum base_status status,
                         struct epoll_output *output)
{
    BASE_ASSERT(op->in_flight && op->own.notices_due == 0);
    op->in_flight = 0;
    struct net_event *event = epoll_event_add(output, NET_EVENT_SENT, socket);
    event->os_error = op->own.os_error;
    event->status = status;
    event->bytes = op->own.bytes;
    event->send = op;
}

/* All bytes are out, or none will be any more. */
static void epoll_send_over(struct epoll_socket *socket, int os_error, struct epoll_output *output)
{
    struct net_send_op *op = socket->op;

    socket->op = NULL;
    BASE_ASSERT(op && op->in_flight && socket->waiting_count <= NET_SENDS_MAX);
    op->own.os_error = socket->stream_error = os_error;
    if (os_error == 0 && (socket->flags & EPOLL_FIN_AFTER_SEND))
        (void)shutdown(socket->fd, SHUT_WR);
    if (op->own.notices_due == 0) {
        epoll_send_finished(socket, op, net_send_status(op), output);
        return;
    }
    BASE_ASSERT(socket->waiting_count < NET_SENDS_MAX);
    socket->waiting[socket->waiting_count++] = op;
    if (os_error == 0)
        epoll_event_add(output, NET_EVENT_OUT, socket)->send = op;
}

void epoll_turn_returned(struct epoll_socket *socket, struct epoll_output *output)
{
    uint32_t at = 0;

    BASE_ASSERT((socket->flags & EPOLL_RETURNED) && socket->waiting_count > 0);
    while (socket->waiting[at]->own.notices_due > 0)
        at++;
    struct net_send_op *op = socket->waiting[at];
    socket->flags &= ~(uint32_t)EPOLL_RETURNED;
    socket->waiting_count--;
    for (uint32_t i = at; i < socket->waiting_count; i++) {
        socket->waiting[i] = socket->waiting[i + 1];
        if (socket->waiting[i]->own.notices_due == 0)
            socket->flags |= EPOLL_RETURNED;
    }
    epoll_send_finished(socket, op, net_send_status(op), output);
}

/* As send(2). */
static ssize_t epoll_send_call(struct epoll_socket *socket, size_t bytes)
{
    struct net_counters *counters = &socket->base.engine->counters;
    struct iovec *segments = socket->op->segments + socket->op->own.first;
    size_t count = socket->op->count - socket->op->own.first;
    struct msghdr message = {.msg_iov = segments, .msg_iovlen = count};
    bool zerocopy = (socket->flags & EPOLL_ZEROCOPY) && net_zerocopy_wanted(&socket->zerocopy, bytes);

    for (;; zerocopy = false) {
        int flags = MSG_NOSIGNAL | (zerocopy ? MSG_ZEROCOPY : 0);
        counters->syscalls++;
        ssize_t sent = count == 1 ? send(socket->fd, segments->iov_base, segments->iov_len, flags)
                                  : sendmsg(socket->fd, &message, flags);
        if (zerocopy && sent < 0 && errno == ENOBUFS) {
            net_zerocopy_refused(socket->base.engine, &socket->zerocopy, socket->notices_due > 0);
            continue; /* this piece with a copy */
        }
        if (zerocopy && sent > 0) {
            counters->zc_sends++;
            socket->notices_due++;
            socket->notice_next++;
            socket->op->own.notices_due++;
            socket->op->own.notices++;
        }
        return sent;
    }
}

void epoll_turn_send(struct epoll_socket *socket, struct epoll_output *output)
{
    struct net_counters *counters = &socket->base.engine->counters;
    size_t wanted = net_send_left(socket->op, socket->op->own.first);

    ssize_t sent = epoll_send_call(socket, wanted);
    if (sent < 0) {
        if (errno == EAGAIN)
            socket->flags &= ~(uint32_t)EPOLL_WRITABLE;
        else if (errno != EINTR)
            epoll_send_over(socket, errno, output);
        return;
    }
    counters->sent_bytes += (uint64_t)sent;
    socket->op->own.bytes += (uint64_t)sent;
    if ((size_t)sent < wanted) {
        counters->short_sends++;
        net_send_advance(socket->op, &socket->op->own.first, (size_t)sent);
        socket->flags &= ~(uint32_t)EPOLL_WRITABLE;
        return;
    }
    BASE_ASSERT((size_t)sent == wanted); /* never more than asked for */
    counters->sends++;
    epoll_send_over(socket, 0, output);
}

/* How many of the sends numbered from..to (both included) are the op's. Numbers wrap. */
static uint32_t epoll_notices_of(const struct net_send_op *op, uint32_t from, uint32_t to)
{
    const uint32_t begin = from - op->own.notice_first, end = to - op->own.notice_first + 1;

    if (begin < op->own.notices)
        return (uint32_t)base_min_u64(op->own.notices, end) - begin;
    return (int32_t)begin < 0 && (int32_t)end > 0 ? (uint32_t)base_min_u64(op->own.notices, end) : 0;
}

static void epoll_notices_take(struct epoll_socket *socket, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < socket->waiting_count; i++) {
        struct net_send_op *op = socket->waiting[i];
        op->own.notices_due -= epoll_notices_of(op, from, to);
        if (op->own.notices_due == 0)
            socket->flags |= EPOLL_RETURNED;
    }
    if (socket->op)
        socket->op->own.notices_due -= epoll_notices_of(socket->op, from, to);
    BASE_ASSERT(to - from < socket->notices_due);
    socket->notices_due -= to - from + 1;
}

/* Reads one message of the error queue; false: it is empty. */
static bool epoll_notice_read(struct epoll_socket *socket)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(struct sock_extended_err) + sizeof(struct sockaddr_in6))];
    } control;
    struct msghdr message = {.msg_control = &control, .msg_controllen = sizeof control};

    socket->base.engine->counters.syscalls++;
    if (recvmsg(socket->fd, &message, MSG_ERRQUEUE) < 0)
        return errno == EINTR;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
        const struct sock_extended_err *notice = (const void *)CMSG_DATA(header);
        if (header->cmsg_len < CMSG_LEN(sizeof *notice) || notice->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
            continue;
        epoll_notices_take(socket, notice->ee_info, notice->ee_data);
        net_zerocopy_told(socket->base.engine, &socket->zerocopy, notice->ee_data - notice->ee_info + 1,
                          (notice->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) != 0);
    }
    return true;
}

/* Stops at the last one due: no call is made only to hear that the queue is empty. */
void epoll_turn_notices(struct epoll_socket *socket)
{
    uint32_t before = socket->notices_due;

    socket->flags &= ~(uint32_t)EPOLL_NOTIFIED;
    while (socket->notices_due > 0 && epoll_notice_read(socket))
        continue;
    if (socket->notices_due == before) /* an error after all: the next call says which */
        socket->flags |= EPOLL_READABLE | EPOLL_WRITABLE | EPOLL_HANGUP;
}

bool epoll_close_joined(struct epoll_socket *socket)
{
    if (socket->notices_due > 0 && !(socket->flags & EPOLL_STOPPED)) {
        socket->flags |= EPOLL_STOPPED;
        net_tcp_stop(socket->fd, (socket->flags & EPOLL_ABORT) != 0);
        epoll_socket_set_deadline(socket, socket->base.engine->now_ns + NET_ZEROCOPY_JOIN_NS);
    }
    if (socket->notices_due > 0 && (socket->flags & EPOLL_NOTIFIED))
        epoll_turn_notices(socket);
    return socket->notices_due == 0;
}
