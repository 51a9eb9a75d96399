/* Tries of zero-copy sends, over the loopback interface, where the kernel always copies in the end and says so: what
 * they show is that the request is understood and its notification comes. A buffer is the kernel's until then, so it is
 * freed only when the notification was seen, or else with the process. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* wants struct timespec to be known */

#include "base/clock.h"
#include "net/probe/internal.h"

enum { SEND_BYTES = 64 << 10 };

enum send_kind { SEND_PLAIN, SEND_FIXED, SEND_VECTOR };

/* Reads until bytes have come, so that the sender's buffer is let go of. */
static int send_drain(int fd, size_t bytes)
{
    static uint8_t sink[SEND_BYTES];
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    while (bytes > 0) {
        const ssize_t got = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        if (got == 0)
            return -EPIPE;
        if (got > 0) {
            bytes -= (size_t)got;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (base_clock_now_ns() >= deadline_ns)
            return -ETIME;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        (void)poll(&readable, 1, 10);
    }
    return 0;
}

/* The result comes first, with F_MORE when a notification follows; that one tells whether the kernel copied. */
static int await_send(struct io_uring *ring, int receiver, bool *held, struct net_probe_result *result)
{
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    struct io_uring_cqe *cqe;
    int failure = probe_wait(ring, deadline_ns, &cqe);
    if (failure != 0) {
        *held = true;
        return failure;
    }
    const int sent = cqe->res;
    *held = cqe->flags & IORING_CQE_F_MORE;
    io_uring_cqe_seen(ring, cqe);
    if (sent > 0) {
        failure = send_drain(receiver, (size_t)sent);
        if (failure != 0)
            return failure;
    }
    if (*held) {
        failure = probe_wait(ring, deadline_ns, &cqe);
        if (failure != 0)
            return failure;
        *held = false;
        result->copied = (uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED;
        if (!(cqe->flags & IORING_CQE_F_NOTIF))
            failure = probe_broken(result, "a zero-copy send came to no notification");
        io_uring_cqe_seen(ring, cqe);
    }
    return sent < 0 ? sent : sent == 0 ? -EPIPE : failure;
}

static int send_prepare(struct io_uring *ring, enum send_kind kind, int fd, uint8_t *memory, struct iovec segments[2],
                        struct msghdr *message)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    int failure = 0;
    segments[0] = (struct iovec){.iov_base = memory, .iov_len = SEND_BYTES};
    switch (kind) {
    case SEND_PLAIN:
        io_uring_prep_send_zc(sqe, fd, memory, SEND_BYTES, MSG_NOSIGNAL, IORING_SEND_ZC_REPORT_USAGE);
        break;
    case SEND_FIXED:
        failure = io_uring_register_buffers(ring, segments, 1);
        io_uring_prep_send_zc_fixed(sqe, fd, memory, SEND_BYTES, MSG_NOSIGNAL, IORING_SEND_ZC_REPORT_USAGE, 0);
        break;
    case SEND_VECTOR:
        segments[0].iov_len = SEND_BYTES / 2;
        segments[1] = (struct iovec){.iov_base = memory + SEND_BYTES / 2, .iov_len = SEND_BYTES / 2};
        *message = (struct msghdr){.msg_iov = segments, .msg_iovlen = 2};
        io_uring_prep_sendmsg_zc(sqe, fd, message, MSG_NOSIGNAL);
        sqe->ioprio |= IORING_SEND_ZC_REPORT_USAGE;
        break;
    }
    return failure;
}

static int try_send(enum send_kind kind, struct net_probe_result *result)
{
    struct io_uring ring;
    struct iovec segments[2];
    struct msghdr message;
    bool held = false;
    int ends[2];
    uint8_t *memory = mmap(NULL, SEND_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int failure = -ENOMEM;

    if (memory == MAP_FAILED)
        return failure;
    failure = probe_ring(&ring, 0);
    if (failure < 0)
        goto unmap;
    failure = probe_pair(ends, result);
    if (failure != 0)
        goto close_ring;
    failure = send_prepare(&ring, kind, ends[0], memory, segments, &message);
    if (failure == 0)
        failure = await_send(&ring, ends[1], &held, result);
    close(ends[0]);
    close(ends[1]);
close_ring:
    io_uring_queue_exit(&ring);
unmap:
    if (!held)
        munmap(memory, SEND_BYTES);
    return failure;
}

int probe_send_zc(struct net_probe_result *result)
{
    return try_send(SEND_PLAIN, result);
}

int probe_send_zc_fixed(struct net_probe_result *result)
{
    return try_send(SEND_FIXED, result);
}

int probe_sendmsg_zc(struct net_probe_result *result)
{
    return try_send(SEND_VECTOR, result);
}

/* Without io_uring the notification comes through the socket's error queue. */
static int await_notification(int fd, struct net_probe_result *result)
{
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    for (;;) {
        union {
            struct cmsghdr align;
            char bytes[256];
        } control;
        struct msghdr message = {.msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
        if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
            const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            struct sock_extended_err notification = {0};
            if (header)
                memcpy(&notification, CMSG_DATA(header), sizeof notification);
            if (notification.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
                return probe_broken(result, "the error queue holds something else than a notification");
            result->copied = notification.ee_code & SO_EE_CODE_ZEROCOPY_COPIED;
            return 0;
        }
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (base_clock_now_ns() >= deadline_ns)
            return -ETIME;
        struct pollfd waiting = {.fd = fd}; /* POLLERR comes unasked */
        (void)poll(&waiting, 1, 10);
    }
}

int probe_msg_zerocopy(struct net_probe_result *result)
{
    const int on = 1;
    int ends[2];
    uint8_t *memory = mmap(NULL, SEND_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    bool held = false;
    int failure = probe_pair(ends, result);
    if (failure != 0)
        goto unmap;
    if (setsockopt(ends[0], SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0) {
        failure = -errno;
        goto close_ends;
    }
    const ssize_t sent = send(ends[0], memory, SEND_BYTES, MSG_ZEROCOPY | MSG_NOSIGNAL | MSG_DONTWAIT);
    failure = sent < 0 ? -errno : send_drain(ends[1], (size_t)sent);
    if (failure == 0)
        failure = await_notification(ends[0], result);
    held = sent >= 0 && failure != 0;
close_ends:
    close(ends[0]);
    close(ends[1]);
unmap:
    if (!held)
        munmap(memory, SEND_BYTES);
    return failure;
}
