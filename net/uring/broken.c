/* An io_uring engine whose ring has failed, so that completions may be missing and nothing more can be said of any
 * request.
 *
 * Breaking. All connections are reset, which ends what the kernel does with them, also zero-copy sends that nobody
 * acknowledges, and tells the peers. The ring is closed: the kernel cancels what can be cancelled and waits for the
 * rest, such as a write to a file.
 *
 * Letting go. The kernel does that on its own, after the close has returned, and until it is done it may read and write
 * the buffers of its requests. So the ring is given a pipe's writing end to keep, with the files registered: the kernel
 * lets go of those after the last request, and the reading end hangs up. Only then operations end, with
 * BASE_ENGINE_BROKEN, and sockets close. Nobody blocks meanwhile: the poll waits for that as for a wake-up. Without a
 * descriptor for the pipe the ring stays open, and each poll tries again.
 *
 * Afterwards the engine is only records: what is asked of it is noted as ever, and ended by the next poll. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/uring/internal.h"

enum { BROKEN_RETRY_MS = 10, BROKEN_WAIT_S_MAX = 1 << 30 };

/* Connections that were accepted, but not yet seen, are nobody's. */
static void broken_close_accepted(struct uring_engine *engine)
{
    struct io_uring_cqe *cqe;
    unsigned head;

    io_uring_for_each_cqe(&engine->ring, head, cqe)
    {
        if (uring_kind_of(cqe) == URING_ACCEPT && cqe->res >= 0)
            close(cqe->res);
    }
}

/* Closes the ring; false: it could not be tied to a pipe. */
static bool broken_leave(struct uring_engine *engine)
{
    int tie[2];

    if (pipe2(tie, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    const int result = uring_has(engine, NET_FEATURE_REGISTERED_FILES)
                           ? io_uring_register_files_update(&engine->ring, 0, &tie[1], 1)
                           : io_uring_register_files(&engine->ring, &tie[1], 1);
    close(tie[1]);
    if (result < 0) {
        close(tie[0]);
        return false;
    }
    broken_close_accepted(engine);
    io_uring_queue_exit(&engine->ring);
    engine->ring_open = false;
    engine->tie_fd = tie[0];
    /* Nothing is registered any more. */
    engine->base.features = 0;
    engine->memory.count = 0;
    return true;
}

static bool broken_ring_gone(struct uring_engine *engine)
{
    struct pollfd tie = {.fd = engine->tie_fd, .events = POLLIN};

    if (engine->ring_open)
        return false;
    if (engine->tie_fd >= 0 && poll(&tie, 1, 0) > 0) {
        close(engine->tie_fd);
        engine->tie_fd = -1;
    }
    return engine->tie_fd < 0;
}

void uring_break(struct uring_engine *engine)
{
    struct base_error *failure = &engine->base.failure;

    BASE_ASSERT(engine->broken != 0 && failure->status == BASE_OK); /* once */
    if (engine->broken == EBADR)
        base_error_set(failure, BASE_ENGINE_BROKEN,
                       "io_uring broke: the kernel ran out of memory for completions and dropped some: leave this "
                       "machine more memory (a smaller --memory of its daemons), or use --engine epoll");
    else
        base_error_set(failure, BASE_ENGINE_BROKEN, "io_uring broke: io_uring_enter: %s: try --engine epoll",
                       strerror(engine->broken));
    base_log_error("engine %s: %s", engine->base.name, failure->text);
    engine->unfolding.left = 0;
    engine->chunks.enabled = false; /* how many are out is not known any more */
    for (uint32_t i = 0; i < engine->slots.count; i++)
        if (engine->sockets[i].fd >= 0 && !(engine->sockets[i].flags & URING_LISTENER))
            net_tcp_stop(engine->sockets[i].fd, true);
    (void)broken_leave(engine);
}

/* Writes the next event of a socket of which the kernel holds nothing. False: none is due. */
static bool broken_socket_end(struct uring_socket *socket, struct net_event *event)
{
    const bool closing = (socket->flags & URING_CLOSING) != 0;

    socket->armed = socket->wants = socket->notices_due = 0;
    if (closing)
        uring_receive_stop(socket);
    for (uint32_t tag = 0; tag < NET_SENDS_MAX; tag++) {
        struct net_send_op *op = socket->sends[tag];
        if (!op)
            continue;
        op->own.notices_due = 0;
        if (op == socket->op)
            socket->op = NULL;
        uring_send_finished(socket, op, closing ? BASE_CANCELLED : BASE_ENGINE_BROKEN, event);
        return true;
    }
    if (closing) {
        (void)uring_socket_finish(socket, event);
        return true;
    }
    if (!(socket->flags & (URING_CONNECTING | URING_RECEIVING)))
        return false;
    uring_event_fill(event, socket->flags & URING_CONNECTING ? NET_EVENT_CONNECTED : NET_EVENT_RECEIVED, socket);
    event->status = BASE_ENGINE_BROKEN;
    socket->flags &= ~(uint32_t)(URING_CONNECTING | URING_RECEIVING);
    return true;
}

static uint32_t broken_end(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    uint32_t count = 0;

    BASE_ASSERT(!engine->ring_open && engine->tie_fd < 0); /* the kernel holds nothing */
    for (uint32_t i = 0; i < engine->file_slots.count && count < max; i++)
        if (engine->files[i].op)
            uring_file_finished(engine, &engine->files[i], BASE_ENGINE_BROKEN, &events[count++]);
    for (uint32_t i = 0; i < engine->slots.count && count < max; i++)
        while (count < max && engine->sockets[i].fd >= 0 && broken_socket_end(&engine->sockets[i], &events[count]))
            count++;
    return count;
}

static uint32_t broken_reap(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    uint64_t signals;
    uint32_t count = 0;

    const ssize_t drained = read(engine->wake.fd, &signals, sizeof signals); /* before the flag is taken */
    (void)drained;
    if (net_wake_take(&engine->wake)) {
        engine->base.counters.wakeups++;
        uring_event_fill(&events[count++], NET_EVENT_WOKEN, NULL);
    }
    if (engine->ring_open)
        (void)broken_leave(engine);
    if (broken_ring_gone(engine))
        count += broken_end(engine, &events[count], max - count);
    return count;
}

static void broken_wait(struct uring_engine *engine, uint64_t wait_ns)
{
    struct pollfd fds[] = {{.fd = engine->wake.fd, .events = POLLIN}, {.fd = engine->tie_fd, .events = POLLIN}};
    const uint64_t retry_ns = engine->ring_open ? BROKEN_RETRY_MS * BASE_NS_PER_MS : wait_ns;
    const uint64_t limit_ns =
        base_min_u64(base_min_u64(wait_ns, retry_ns), (uint64_t)BROKEN_WAIT_S_MAX * BASE_NS_PER_S);
    const struct timespec limit = {.tv_sec = (time_t)(limit_ns / BASE_NS_PER_S),
                                   .tv_nsec = (long)(limit_ns % BASE_NS_PER_S)};
    const uint64_t before_ns = engine->base.now_ns;

    (void)ppoll(fds, sizeof fds / sizeof *fds, &limit, NULL);
    engine->base.now_ns = base_clock_now_ns();
    engine->base.counters.syscalls++;
    engine->base.counters.waits++;
    engine->base.counters.wait_ns += engine->base.now_ns - before_ns;
}

uint32_t uring_broken_poll(struct uring_engine *engine, struct net_event *events, uint32_t max, uint64_t wait_ns)
{
    engine->base.now_ns = base_clock_now_ns();
    const uint64_t now_ns = engine->base.now_ns;
    const uint64_t until_ns = wait_ns < NET_WAIT_FOREVER - now_ns ? now_ns + wait_ns : NET_WAIT_FOREVER;
    for (;;) {
        const uint32_t count = broken_reap(engine, events, max);
        if (count > 0 || engine->base.now_ns >= until_ns)
            return count;
        broken_wait(engine, until_ns - engine->base.now_ns);
    }
}
