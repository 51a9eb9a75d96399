/* Sockets of the epoll engine, but for sending: see the essay in epoll.c. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/epoll/internal.h"

/* Two chunks are 128 KiB as a rule: beside copying those a call costs next to nothing. More would push what was read
 * out of the cache before it is looked at, and make the other connections wait. */
enum {
    EPOLL_READ_CHUNKS_MAX = 2,
    EPOLL_READ_SHARE = 4 /* one read takes at most this part of the pool */
};

static uint64_t epoll_tag(const struct epoll_socket *socket)
{
    return (uint64_t)socket->generation << 32 | socket->slot;
}

/* The next thing this socket could do, as a bit of its flags; 0: nothing until the kernel or the user speaks. */
static uint32_t epoll_socket_work(const struct epoll_socket *socket)
{
    uint32_t flags = socket->flags;

    if (flags & EPOLL_CLOSING)
        return socket->notices_due == 0 || (flags & EPOLL_NOTIFIED) || !(flags & EPOLL_STOPPED) ? EPOLL_CLOSING : 0;
    if (flags & EPOLL_NOTIFIED)
        return EPOLL_NOTIFIED;
    if (flags & EPOLL_RETURNED)
        return EPOLL_RETURNED;
    if (flags & EPOLL_CONNECTING)
        return flags & (EPOLL_WRITABLE | EPOLL_HANGUP) ? EPOLL_CONNECTING : 0;
    if (flags & EPOLL_ACCEPTING)
        return flags & EPOLL_READABLE ? EPOLL_ACCEPTING : 0;
    if (socket->op && (flags & EPOLL_WRITABLE))
        return EPOLL_WRITABLE;
    if ((flags & EPOLL_RECEIVING) && (flags & EPOLL_READABLE) && !net_list_linked(&socket->starved))
        return EPOLL_RECEIVING;
    return 0;
}

void epoll_socket_queue(struct epoll_socket *socket)
{
    if (epoll_socket_work(socket) != 0)
        net_list_append(&epoll_engine_of(socket)->ready, &socket->ready);
}

void epoll_socket_set_deadline(struct epoll_socket *socket, uint64_t deadline_ns)
{
    struct epoll_engine *engine = epoll_engine_of(socket);

    BASE_ASSERT(socket->fd >= 0);
    if (net_list_empty(&engine->timed) || deadline_ns < engine->deadline_next_ns)
        engine->deadline_next_ns = deadline_ns;
    socket->deadline_ns = deadline_ns;
    net_list_append(&engine->timed, &socket->timed);
}

/* Owns fd from here on, unless it is a listener; closes it on error. */
static enum base_status epoll_socket_take(struct epoll_engine *engine, int fd, void *context, uint32_t flags,
                                          struct epoll_socket **taken, struct base_error *error)
{
    enum base_status status;
    uint32_t slot = net_slots_take(&engine->slots);

    if (slot == NET_SLOT_NONE) {
        status = base_error_set(error, BASE_TOO_LARGE, "all %u sockets of this engine are open", engine->slots.count);
        goto fail;
    }
    struct epoll_socket *socket = &engine->sockets[slot];
    *socket = (struct epoll_socket){.base = {.engine = &engine->base, .context = context},
                                    .slot = slot,
                                    .generation = socket->generation,
                                    .flags = flags,
                                    .read_chunks = 1,
                                    .fd = fd};
    net_list_init(&socket->ready);
    net_list_init(&socket->starved);
    net_list_init(&socket->timed);
    struct epoll_event interest = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = epoll_tag(socket)};
    if (!(flags & EPOLL_LISTENER) && epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, fd, &interest) != 0) {
        status = base_error_set_errno(error, errno, "engine epoll: cannot watch a socket");
        socket->fd = -1;
        net_slots_give(&engine->slots, slot);
        goto fail;
    }
    if (!(flags & EPOLL_LISTENER) && (engine->base.features & NET_FEATURE_SEND_ZC))
        epoll_zerocopy_allow(socket);
    *taken = socket;
    return BASE_OK;

fail:
    if (!(flags & EPOLL_LISTENER))
        close(fd);
    return status;
}

enum base_status epoll_socket_adopt(struct net_engine *base, int fd, void *context, struct net_socket **socket,
                                    struct base_error *error)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;
    struct epoll_socket *taken = NULL;
    uint32_t flags = net_tcp_listens(fd) ? EPOLL_LISTENER : EPOLL_WRITABLE;

    enum base_status status = net_tcp_adopt(&engine->tcp, fd, flags == EPOLL_LISTENER, error);
    if (status != BASE_OK)
        return status;
    status = epoll_socket_take(engine, fd, context, flags, &taken, error);
    if (status == BASE_OK)
        *socket = &taken->base;
    return status;
}

/* Level-triggered. Not watched at all while accepting has to wait: EPOLLHUP would be reported even without interest.
 * 0, or a positive errno of watching: memory, or the user's limit of watched files. */
static int epoll_listener_watch(struct epoll_socket *listener, bool watch)
{
    struct epoll_engine *engine = epoll_engine_of(listener);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = epoll_tag(listener)};

    if (watch == ((listener->flags & EPOLL_WATCHED) != 0))
        return 0;
    const int failed = epoll_ctl(engine->epoll_fd, watch ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listener->fd, &event);
    BASE_ASSERT(watch || !failed);
    if (failed)
        return errno;
    listener->flags ^= EPOLL_WATCHED;
    return 0;
}

/* Accepting that has to wait is tried again after a while. */
static void epoll_accept_later(struct epoll_socket *listener, int os_error)
{
    const uint64_t now_ns = listener->base.engine->now_ns;
    net_accept_complain(os_error, now_ns);
    (void)epoll_listener_watch(listener, false);
    epoll_socket_set_deadline(listener, now_ns + NET_ACCEPT_RETRY_NS);
}

enum base_status epoll_socket_accept(struct net_socket *base, struct base_error *error)
{
    struct epoll_socket *listener = (struct epoll_socket *)base;

    if (!(listener->flags & EPOLL_LISTENER))
        return base_error_set(error, BASE_INVALID, "accepting on a socket that does not listen");
    BASE_ASSERT(!(listener->flags & (EPOLL_ACCEPTING | EPOLL_CLOSING)));
    const int os_error = epoll_listener_watch(listener, true);
    if (os_error != 0)
        return base_error_set_errno(error, os_error,
                                    "engine epoll: cannot watch a listening socket; if it is the limit of watched "
                                    "files, raise fs.epoll.max_user_watches");
    listener->flags |= EPOLL_ACCEPTING;
    return BASE_OK;
}

enum base_status epoll_socket_connect(struct net_engine *base, const struct net_address *address, uint64_t deadline_ns,
                                      void *context, struct net_socket **socket, struct base_error *error)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;
    struct epoll_socket *taken = NULL;
    int fd;

    enum base_status status = net_tcp_socket(&engine->tcp, address, &fd, error);
    if (status != BASE_OK)
        return status;
    /* Connect first, watch then: an unconnected socket reports EPOLLHUP. */
    int connect_error = connect(fd, &address->any, address->bytes) == 0 ? 0 : errno;
    uint32_t flags = EPOLL_CONNECTING | (connect_error == EINPROGRESS ? 0 : EPOLL_WRITABLE);
    status = epoll_socket_take(engine, fd, context, flags, &taken, error);
    if (!taken)
        return status;
    taken->connect_error = connect_error == EINPROGRESS ? 0 : connect_error;
    epoll_socket_set_deadline(taken, deadline_ns);
    epoll_socket_queue(taken);
    *socket = &taken->base;
    return BASE_OK;
}

enum base_status epoll_socket_receive(struct net_socket *base, struct base_error *error)
{
    struct epoll_socket *socket = (struct epoll_socket *)base;

    if (socket->flags & (EPOLL_LISTENER | EPOLL_CONNECTING))
        return base_error_set(error, BASE_INVALID, "receiving on a socket that is not connected");
    BASE_ASSERT(!(socket->flags & (EPOLL_RECEIVING | EPOLL_CLOSING)));
    socket->flags |= EPOLL_RECEIVING;
    epoll_socket_queue(socket);
    return BASE_OK;
}

void epoll_socket_shutdown(struct net_socket *base)
{
    struct epoll_socket *socket = (struct epoll_socket *)base;

    if (socket->flags & EPOLL_CLOSING)
        return;
    socket->flags |= EPOLL_FIN_AFTER_SEND;
    if (!socket->op)
        (void)shutdown(socket->fd, SHUT_WR);
}

void epoll_socket_close(struct net_socket *base, bool abort)
{
    struct epoll_socket *socket = (struct epoll_socket *)base;

    if (socket->flags & EPOLL_CLOSING)
        return;
    socket->flags |= EPOLL_CLOSING | (abort ? EPOLL_ABORT : 0);
    net_list_unlink(&socket->starved);
    epoll_socket_queue(socket);
}

void epoll_socket_notice(struct epoll_socket *socket, uint32_t kernel_events)
{
    /* Notifications wait in the error queue, and a queue that is not empty is announced as an error. One that ends the
     * connection comes with a hangup, or else the queue is found empty. */
    if ((kernel_events & EPOLLERR) && socket->notices_due > 0) {
        socket->flags |= EPOLL_NOTIFIED;
        if (!(kernel_events & (EPOLLHUP | EPOLLRDHUP)))
            kernel_events &= ~(uint32_t)EPOLLERR;
    }
    if (kernel_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        socket->flags |= EPOLL_READABLE;
    if (kernel_events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        socket->flags |= EPOLL_WRITABLE;
    if (kernel_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        socket->flags |= EPOLL_HANGUP;
    epoll_socket_queue(socket);
}

void epoll_sockets_feed(struct epoll_engine *engine)
{
    struct net_link *link;
    while ((link = net_list_pop(&engine->starved)) != NULL)
        epoll_socket_queue(NET_LIST_ENTRY(link, struct epoll_socket, starved));
}

void epoll_sockets_expire(struct epoll_engine *engine)
{
    uint64_t next_ns = NET_WAIT_FOREVER;

    if (net_list_empty(&engine->timed) || engine->base.now_ns < engine->deadline_next_ns)
        return;
    for (struct net_link *link = engine->timed.next, *next; link != &engine->timed; link = next) {
        struct epoll_socket *socket = NET_LIST_ENTRY(link, struct epoll_socket, timed);
        next = link->next;
        if (socket->deadline_ns > engine->base.now_ns) {
            next_ns = base_min_u64(next_ns, socket->deadline_ns);
            continue;
        }
        net_list_unlink(link);
        if (socket->flags & EPOLL_CLOSING) {
            if (socket->notices_due > 0)
                net_tcp_stop(socket->fd, true);
            continue;
        }
        if (socket->flags & EPOLL_ACCEPTING) {
            const int os_error = epoll_listener_watch(socket, true);
            if (os_error != 0) {
                epoll_accept_later(socket, os_error);
                next_ns = base_min_u64(next_ns, socket->deadline_ns);
            }
        } else if (epoll_socket_work(socket) == 0) {
            socket->connect_error = ETIMEDOUT;
            socket->flags |= EPOLL_WRITABLE;
            epoll_socket_queue(socket);
        }
    }
    engine->deadline_next_ns = next_ns;
}

/* One event of the socket's end at a time, as there is room: what was in flight, then CLOSED. */
static void epoll_turn_close(struct epoll_socket *socket, struct epoll_output *output)
{
    struct epoll_engine *engine = epoll_engine_of(socket);
    struct net_event *event;

    BASE_ASSERT((socket->flags & EPOLL_CLOSING) && !net_list_linked(&socket->starved));
    if (!epoll_close_joined(socket))
        return;
    if (socket->flags & EPOLL_CONNECTING) {
        socket->flags &= ~(uint32_t)EPOLL_CONNECTING;
        event = epoll_event_add(output, NET_EVENT_CONNECTED, socket);
        event->status = BASE_CANCELLED;
        return;
    }
    if (socket->flags & EPOLL_RETURNED) {
        epoll_turn_returned(socket, output);
        return;
    }
    if (socket->op) {
        struct net_send_op *op = socket->op;
        socket->op = NULL;
        epoll_send_finished(socket, op, BASE_CANCELLED, output);
        return;
    }
    if (socket->flags & EPOLL_LISTENER) {
        (void)epoll_listener_watch(socket, false);
    } else {
        if (socket->flags & EPOLL_ABORT)
            net_tcp_stop(socket->fd, true);
        close(socket->fd);
    }
    net_list_unlink(&socket->timed);
    BASE_ASSERT(socket->waiting_count == 0 && socket->notices_due == 0); /* every SENT came before CLOSED */
    epoll_event_add(output, NET_EVENT_CLOSED, socket);
    socket->fd = -1;
    socket->generation++;
    net_slots_give(&engine->slots, socket->slot);
}

static void epoll_turn_connect(struct epoll_socket *socket, struct epoll_output *output)
{
    BASE_ASSERT(socket->flags & EPOLL_CONNECTING);
    int os_error = socket->connect_error;
    socklen_t bytes = sizeof os_error;

    if (os_error == 0)
        (void)getsockopt(socket->fd, SOL_SOCKET, SO_ERROR, &os_error, &bytes);
    socket->flags &= ~(uint32_t)EPOLL_CONNECTING;
    net_list_unlink(&socket->timed);
    struct net_event *event = epoll_event_add(output, NET_EVENT_CONNECTED, socket);
    event->os_error = os_error;
    event->status = net_tcp_connected(&((struct epoll_engine *)socket->base.engine)->tcp, os_error);
    if (os_error == 0)
        socket->flags |= EPOLL_WRITABLE;
}

static void epoll_turn_accept(struct epoll_socket *listener, struct epoll_output *output)
{
    struct epoll_engine *engine = epoll_engine_of(listener);
    struct epoll_socket *accepted = NULL;

    engine->base.counters.syscalls++;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && !net_accept_transient(errno))
        epoll_accept_later(listener, errno);
    if (fd < 0) {
        /* Level-triggered: whatever is left will be reported again. */
        listener->flags &= ~(uint32_t)EPOLL_READABLE;
        return;
    }
    net_tcp_apply(&engine->tcp, fd);
    if (epoll_socket_take(engine, fd, NULL, EPOLL_WRITABLE, &accepted, NULL) == BASE_OK)
        epoll_event_add(output, NET_EVENT_ACCEPTED, listener)->accepted = &accepted->base;
    else
        net_accept_complain(0, engine->base.now_ns);
}

static void epoll_receive_ended(struct epoll_socket *socket, int os_error, struct epoll_output *output)
{
    BASE_ASSERT(socket->flags & EPOLL_RECEIVING);
    /* A send that failed took the socket's error with it; what then looks like the peer's FIN is none. */
    if (os_error == 0)
        os_error = socket->stream_error;
    socket->flags &= ~(uint32_t)EPOLL_RECEIVING;
    struct net_event *event = epoll_event_add(output, NET_EVENT_RECEIVED, socket);
    event->os_error = os_error;
    event->status = os_error == 0 ? BASE_END : base_status_from_errno(os_error);
}

/* Takes chunks for the next read; fewer than the socket deserves when there are no more, or no room for their events.
 */
static uint32_t epoll_read_prepare(struct epoll_socket *socket, const struct epoll_output *output, struct iovec *chunks)
{
    struct epoll_engine *engine = epoll_engine_of(socket);
    const uint64_t share = base_max_u64(1, engine->base.chunk_count / EPOLL_READ_SHARE);
    const uint64_t most = base_min_u64(base_min_u64(socket->read_chunks, share), output->max - output->count);
    uint32_t count = 0;

    while (count < most && (chunks[count].iov_base = base_pool_take(engine->chunks)) != NULL)
        chunks[count++].iov_len = engine->chunk_bytes;
    return count;
}

/* What a read tells of the next: a full one of more to come, a short one that the kernel has no more. */
static void epoll_read_learn(struct epoll_socket *socket, uint32_t offered, uint32_t used, bool full)
{
    if (full) {
        socket->read_chunks = (uint32_t)base_min_u64(EPOLL_READ_CHUNKS_MAX, UINT64_C(2) * offered);
    } else {
        socket->read_chunks = used;
        if (!(socket->flags & EPOLL_HANGUP))
            socket->flags &= ~(uint32_t)EPOLL_READABLE;
    }
}

static void epoll_read_failed(struct epoll_socket *socket, int os_error, struct epoll_output *output)
{
    if (os_error == EAGAIN)
        socket->flags &= ~(uint32_t)EPOLL_READABLE;
    else if (os_error != EINTR)
        epoll_receive_ended(socket, os_error, output);
}

static void epoll_turn_receive(struct epoll_socket *socket, struct epoll_output *output)
{
    struct epoll_engine *engine = epoll_engine_of(socket);
    struct net_counters *counters = &engine->base.counters;
    struct iovec chunks[EPOLL_READ_CHUNKS_MAX];
    uint32_t used = 0;

    const uint32_t offered = epoll_read_prepare(socket, output, chunks);
    if (offered == 0) {
        counters->receive_starved++;
        net_list_append(&engine->starved, &socket->starved);
        return;
    }
    counters->syscalls++;
    const ssize_t got = readv(socket->fd, chunks, (int)offered);
    const int os_error = got < 0 ? errno : 0;
    for (size_t left = got > 0 ? (size_t)got : 0; left > 0; used++) {
        const uint32_t bytes = (uint32_t)base_min_u64(left, engine->chunk_bytes);
        struct net_event *event = epoll_event_add(output, NET_EVENT_RECEIVED, socket);
        BASE_ASSERT(used < offered); /* so many were filled in */
        event->chunk = (struct net_chunk){.data = chunks[used].iov_base,
                                          .bytes = bytes,
                                          .capacity = engine->chunk_bytes,
                                          .id = base_pool_number(engine->chunks, chunks[used].iov_base)};
        net_holders_lend(&engine->base.holders, event->chunk.id);
        event->bytes = bytes;
        left -= bytes;
    }
    BASE_ASSERT(used <= offered);
    for (uint32_t i = offered; i > used; i--)
        base_pool_give(engine->chunks, chunks[i - 1].iov_base);
    if (got <= 0) {
        epoll_read_failed(socket, os_error, output);
        return;
    }
    counters->receives += used;
    counters->received_bytes += (uint64_t)got;
    epoll_read_learn(socket, offered, used, (size_t)got == (size_t)offered * engine->chunk_bytes);
}

void epoll_socket_turn(struct epoll_socket *socket, struct epoll_output *output)
{
    switch (epoll_socket_work(socket)) {
    case EPOLL_CLOSING:
        epoll_turn_close(socket, output);
        break;
    case EPOLL_NOTIFIED:
        epoll_turn_notices(socket);
        break;
    case EPOLL_RETURNED:
        epoll_turn_returned(socket, output);
        break;
    case EPOLL_CONNECTING:
        epoll_turn_connect(socket, output);
        break;
    case EPOLL_ACCEPTING:
        epoll_turn_accept(socket, output);
        break;
    case EPOLL_WRITABLE:
        epoll_turn_send(socket, output);
        break;
    case EPOLL_RECEIVING:
        epoll_turn_receive(socket, output);
        break;
    default:
        break;
    }
    if (socket->fd >= 0)
        epoll_socket_queue(socket);
}
