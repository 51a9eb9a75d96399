/* What all tries of the probe share: rings, waits with a limit, connections over the loopback interface. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/probe/internal.h"

int probe_ring(struct io_uring *ring, unsigned flags)
{
    struct io_uring_params params = {.flags = flags};
    return io_uring_queue_init_params(PROBE_ENTRIES, ring, &params);
}

int probe_wait(struct io_uring *ring, uint64_t deadline_ns, struct io_uring_cqe **cqe)
{
    for (;;) {
        const uint64_t now_ns = base_clock_now_ns();
        const uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
        struct __kernel_timespec limit = {.tv_sec = (long long)(left_ns / BASE_NS_PER_S),
                                          .tv_nsec = (long long)(left_ns % BASE_NS_PER_S)};
        const int result = io_uring_submit_and_wait_timeout(ring, cqe, 1, &limit, NULL);
        if (result >= 0 && io_uring_peek_cqe(ring, cqe) == 0)
            return 0;
        if (result < 0 && result != -EINTR && result != -EAGAIN)
            return result;
        if (left_ns == 0)
            return -ETIME;
    }
}

int probe_one(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    int result = probe_wait(ring, base_clock_now_ns() + PROBE_LIMIT_NS, &cqe);
    if (result != 0)
        return result;
    result = cqe->res;
    io_uring_cqe_seen(ring, cqe);
    return result;
}

static int no_loopback(int failure, struct net_probe_result *result)
{
    result->state = NET_PROBE_STATE_UNTRIED;
    snprintf(result->why, sizeof result->why, "no connection over the loopback interface (%s): ip link set lo up",
             strerror(-failure));
    return failure;
}

int probe_listen(int *fd, struct net_probe_result *result)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return no_loopback(-errno, result);
    if (bind(made, (struct sockaddr *)&address, sizeof address) != 0 || listen(made, 8) != 0) {
        const int failure = -errno;
        close(made);
        return no_loopback(failure, result);
    }
    *fd = made;
    return 0;
}

/* 0, or a negative errno. Task work of a ring that is just going interrupts system calls. */
static int await_ready(int fd, short events)
{
    const uint64_t deadline_ns = base_clock_now_ns() + PROBE_LIMIT_NS;
    struct pollfd waiting = {.fd = fd, .events = events};
    for (;;) {
        const int ready = poll(&waiting, 1, PROBE_LIMIT_NS / BASE_NS_PER_MS);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (base_clock_now_ns() >= deadline_ns)
            return -ETIMEDOUT;
    }
}

static int await_connected(int fd)
{
    int failure = await_ready(fd, POLLOUT), os_error = 0;
    socklen_t bytes = sizeof os_error;
    if (failure == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &os_error, &bytes) == 0)
        failure = -os_error;
    return failure;
}

int probe_connect(int listener, int *fd, struct net_probe_result *result)
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;
    const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return no_loopback(-errno, result);
    int failure = 0;
    if (getsockname(listener, (struct sockaddr *)&address, &bytes) != 0 ||
        connect(made, (struct sockaddr *)&address, sizeof address) != 0)
        failure = -errno;
    if (failure == -EINPROGRESS || failure == -EINTR)
        failure = await_connected(made);
    if (failure != 0) {
        close(made);
        return no_loopback(failure, result);
    }
    *fd = made;
    return 0;
}

int probe_pair(int ends[2], struct net_probe_result *result)
{
    int listener = -1, failure = probe_listen(&listener, result);
    if (failure != 0)
        return failure;
    failure = probe_connect(listener, &ends[0], result);
    if (failure == 0) {
        /* On a busy machine the listener hears of it a little later than the one who connected. */
        (void)await_ready(listener, POLLIN);
        ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (ends[1] < 0) {
            failure = no_loopback(-errno, result);
            close(ends[0]);
        }
    }
    close(listener);
    return failure;
}

int probe_broken(struct net_probe_result *result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->why, sizeof result->why, format, arguments);
    va_end(arguments);
    result->state = NET_PROBE_STATE_BROKEN;
    return -EPROTO;
}
