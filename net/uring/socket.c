/* Sockets of the io_uring engine, but for receiving and sending: see the essay in uring.c. */
#include <errno.h>
#include <unistd.h>

#include "base/bytes.h"
#include "net/uring/internal.h"

/* When a cancel found nothing although a request is armed (it was just being run), it is repeated after this time. */
#define URING_CANCEL_RETRY_NS UINT64_C(1000000)

void uring_socket_set_deadline(struct uring_socket *socket, uint64_t deadline_ns)
{
    struct uring_engine *engine = uring_engine_of(socket);

    BASE_ASSERT(socket->fd >= 0);
    if (net_list_empty(&engine->timed) || deadline_ns < engine->deadline_next_ns)
        engine->deadline_next_ns = deadline_ns;
    socket->deadline_ns = deadline_ns;
    net_list_append(&engine->timed, &socket->timed);
}

/* Owns fd from here on, unless it is a listener; closes it on error. */
static enum base_status uring_socket_take(struct uring_engine *engine, int fd, void *context, uint32_t flags,
                                          struct uring_socket **taken, struct base_error *error)
{
    enum base_status status;
    uint32_t slot = net_slots_take(&engine->slots);

    if (slot == NET_SLOT_NONE) {
        status = base_error_set(error, BASE_TOO_LARGE, "all %u sockets of this engine are open", engine->slots.count);
        goto fail;
    }
    if (uring_has(engine, NET_FEATURE_REGISTERED_FILES)) {
        int result = io_uring_register_files_update(&engine->ring, slot, &fd, 1);
        if (result != 1) {
            status = base_error_set_errno(error, -result, "engine uring: cannot register a socket");
            net_slots_give(&engine->slots, slot);
            goto fail;
        }
    }
    struct uring_socket *socket = &engine->sockets[slot];
    *socket = (struct uring_socket){.base = {.engine = &engine->base, .context = context},
                                    .slot = slot,
                                    .generation = socket->generation,
                                    .flags = flags,
                                    .chunk = URING_CHUNK_NONE,
                                    .fd = fd};
    net_list_init(&socket->todo);
    net_list_init(&socket->starved);
    net_list_init(&socket->timed);
    net_list_init(&socket->finished);
    *taken = socket;
    return BASE_OK;

fail:
    if (!(flags & URING_LISTENER))
        close(fd);
    return status;
}

static void uring_socket_release(struct uring_socket *socket)
{
    struct uring_engine *engine = uring_engine_of(socket);
    int none = -1;

    BASE_ASSERT((socket->flags & URING_CLOSING) && socket->fd >= 0 && !net_list_linked(&socket->starved));
    for (uint32_t tag = 0; tag < NET_SENDS_MAX; tag++)
        BASE_ASSERT(!socket->sends[tag]); /* every SENT came before CLOSED */
    BASE_ASSERT(socket->armed == 0 && socket->wants == 0 && socket->notices_due == 0 && !socket->op &&
                socket->chunk == URING_CHUNK_NONE);
    net_list_unlink(&socket->todo);
    net_list_unlink(&socket->timed);
    net_list_unlink(&socket->finished);
    if (uring_has(engine, NET_FEATURE_REGISTERED_FILES))
        (void)io_uring_register_files_update(&engine->ring, socket->slot, &none, 1);
    if (!(socket->flags & URING_LISTENER))
        close(socket->fd);
    socket->fd = -1;
    socket->generation++;
    net_slots_give(&engine->slots, socket->slot);
}

enum base_status uring_socket_adopt(struct net_engine *base, int fd, void *context, struct net_socket **socket,
                                    struct base_error *error)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    struct uring_socket *taken = NULL;
    uint32_t flags = net_tcp_listens(fd) ? URING_LISTENER : 0;

    enum base_status status = net_tcp_adopt(&engine->tcp, fd, flags == URING_LISTENER, error);
    if (status != BASE_OK)
        return status;
    status = uring_socket_take(engine, fd, context, flags, &taken, error);
    if (status == BASE_OK)
        *socket = &taken->base;
    return status;
}

void uring_socket_want(struct uring_socket *socket, enum uring_kind kind)
{
    BASE_ASSERT(!((socket->armed | socket->wants) & URING_BIT(kind)));
    socket->wants |= URING_BIT(kind);
    net_list_append(&uring_engine_of(socket)->todo, &socket->todo);
}

enum base_status uring_socket_accept(struct net_socket *base, struct base_error *error)
{
    struct uring_socket *listener = (struct uring_socket *)base;

    if (!(listener->flags & URING_LISTENER))
        return base_error_set(error, BASE_INVALID, "accepting on a socket that does not listen");
    BASE_ASSERT(!(listener->flags & URING_CLOSING));
    uring_socket_want(listener, URING_ACCEPT);
    return BASE_OK;
}

enum base_status uring_socket_connect(struct net_engine *base, const struct net_address *address, uint64_t deadline_ns,
                                      void *context, struct net_socket **socket, struct base_error *error)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    struct uring_socket *taken = NULL;
    int fd;

    enum base_status status = net_tcp_socket(&engine->tcp, address, &fd, error);
    if (status != BASE_OK)
        return status;
    status = uring_socket_take(engine, fd, context, URING_CONNECTING, &taken, error);
    if (!taken)
        return status;
    taken->address = *address;
    uring_socket_set_deadline(taken, deadline_ns);
    uring_socket_want(taken, URING_CONNECT);
    *socket = &taken->base;
    return BASE_OK;
}

void uring_socket_shutdown(struct net_socket *base)
{
    struct uring_socket *socket = (struct uring_socket *)base;

    if (socket->flags & URING_CLOSING)
        return;
    socket->flags |= URING_FIN_AFTER_SEND;
    if (!socket->op)
        (void)shutdown(socket->fd, SHUT_WR);
}

/* When the kernel holds nothing of a closing socket any more its last events may come. Buffers of zero-copy sends come
 * back when the peer has acknowledged them, which it need never do: after a while the connection is reset. */
static void uring_socket_settle(struct uring_socket *socket)
{
    if (!(socket->flags & URING_CLOSING) || socket->armed != 0 || socket->wants != 0)
        return;
    if (socket->notices_due == 0) {
        net_list_append(&uring_engine_of(socket)->finished, &socket->finished);
    } else if (!(socket->flags & URING_JOINING)) {
        socket->flags |= URING_JOINING;
        uring_socket_set_deadline(socket, socket->base.engine->now_ns + NET_ZEROCOPY_JOIN_NS);
    }
}

void uring_socket_close(struct net_socket *base, bool abort)
{
    struct uring_socket *socket = (struct uring_socket *)base;

    if (socket->flags & URING_CLOSING)
        return;
    socket->flags |= URING_CLOSING;
    uring_receive_stop(socket);
    net_list_unlink(&socket->timed);
    if (!(socket->flags & URING_LISTENER))
        net_tcp_stop(socket->fd, abort);
    socket->wants &= URING_BIT(URING_CANCEL);
    if (socket->armed != 0 && !((socket->armed | socket->wants) & URING_BIT(URING_CANCEL)))
        uring_socket_want(socket, URING_CANCEL);
    uring_socket_settle(socket);
}

bool uring_socket_finish(struct uring_socket *socket, struct net_event *event)
{
    BASE_ASSERT((socket->flags & URING_CLOSING) && socket->armed == 0 && socket->wants == 0);
    if (socket->flags & URING_CONNECTING) {
        socket->flags &= ~(uint32_t)URING_CONNECTING;
        uring_event_fill(event, NET_EVENT_CONNECTED, socket);
        event->status = BASE_CANCELLED;
        return false;
    }
    if (socket->op) {
        struct net_send_op *op = socket->op;
        socket->op = NULL;
        uring_send_finished(socket, op, BASE_CANCELLED, event);
        return false;
    }
    uring_event_fill(event, NET_EVENT_CLOSED, socket);
    uring_socket_release(socket);
    return true;
}

static void uring_accept_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    if (uring_has(uring_engine_of(socket), NET_FEATURE_MULTISHOT))
        io_uring_prep_multishot_accept(sqe, socket->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    else
        io_uring_prep_accept(sqe, socket->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void uring_connect_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    io_uring_prep_connect(sqe, socket->fd, &socket->address.any, socket->address.bytes);
}

/* By descriptor, because a cancel by user_data can miss an armed multishot request. */
static void uring_cancel_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    if (uring_has(uring_engine_of(socket), NET_FEATURE_REGISTERED_FILES))
        io_uring_prep_cancel_fd(sqe, (int)socket->slot, IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_FD_FIXED);
    else
        io_uring_prep_cancel_fd(sqe, socket->fd, IORING_ASYNC_CANCEL_ALL);
}

static void (*const uring_prepare[URING_SOCKET_KINDS])(struct uring_socket *, struct io_uring_sqe *) = {
    [URING_RECEIVE] = uring_receive_prepare, [URING_ACCEPT] = uring_accept_prepare,
    [URING_CONNECT] = uring_connect_prepare, [URING_SEND] = uring_send_prepare,
    [URING_CANCEL] = uring_cancel_prepare,   [URING_WATCH] = uring_watch_prepare,
};

/* False when the queue is full: the rest stays wanted. */
static bool uring_socket_enqueue(struct uring_socket *socket)
{
    struct uring_engine *engine = uring_engine_of(socket);

    BASE_ASSERT(!(socket->wants & socket->armed)); /* one request of a kind */
    while (socket->wants != 0) {
        unsigned kind = (unsigned)__builtin_ctz(socket->wants);
        struct io_uring_sqe *sqe = uring_sqe(engine);
        if (!sqe)
            return false;
        uring_prepare[kind](socket, sqe);
        if (uring_has(engine, NET_FEATURE_REGISTERED_FILES) && kind != URING_CANCEL) {
            sqe->fd = (int)socket->slot;
            sqe->flags |= IOSQE_FIXED_FILE;
        }
        uint64_t data = uring_user_data((enum uring_kind)kind, socket->slot, socket->generation);
        if (kind == URING_SEND)
            data |= (uint64_t)socket->op->own.tag << 60;
        io_uring_sqe_set_data64(sqe, data);
        socket->wants &= ~URING_BIT(kind);
        socket->armed |= URING_BIT(kind);
    }
    return true;
}

void uring_sockets_enqueue(struct uring_engine *engine)
{
    while (!net_list_empty(&engine->todo)) {
        struct uring_socket *socket = NET_LIST_ENTRY(engine->todo.next, struct uring_socket, todo);
        if (!uring_socket_enqueue(socket))
            return;
        net_list_unlink(&socket->todo);
    }
}

static void uring_socket_expired(struct uring_socket *socket)
{
    if (socket->flags & URING_CLOSING) {
        if (socket->armed != 0 && !((socket->armed | socket->wants) & URING_BIT(URING_CANCEL)))
            uring_socket_want(socket, URING_CANCEL);
        else if (socket->flags & URING_JOINING)
            net_tcp_stop(socket->fd, true);
    } else if (socket->flags & URING_LISTENER) {
        uring_socket_want(socket, URING_ACCEPT);
    } else if ((socket->flags & URING_CONNECTING) && !(socket->armed & URING_BIT(URING_CANCEL))) {
        socket->flags |= URING_TIMED_OUT;
        uring_socket_want(socket, URING_CANCEL);
    } else if (socket->flags & URING_RECEIVING) {
        uring_receive_again(socket); /* it found no memory and nobody to wait for */
    }
}

void uring_sockets_expire(struct uring_engine *engine)
{
    uint64_t next_ns = NET_WAIT_FOREVER;

    if (net_list_empty(&engine->timed) || engine->base.now_ns < engine->deadline_next_ns)
        return;
    for (struct net_link *link = engine->timed.next, *next; link != &engine->timed; link = next) {
        struct uring_socket *socket = NET_LIST_ENTRY(link, struct uring_socket, timed);
        next = link->next;
        if (socket->deadline_ns > engine->base.now_ns) {
            next_ns = base_min_u64(next_ns, socket->deadline_ns);
            continue;
        }
        net_list_unlink(link);
        uring_socket_expired(socket);
    }
    engine->deadline_next_ns = next_ns;
}

static uint32_t uring_accept_complete(struct uring_socket *listener, const struct io_uring_cqe *cqe,
                                      struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(listener);
    struct uring_socket *accepted = NULL;

    if (listener->flags & URING_CLOSING) {
        if (cqe->res >= 0)
            close(cqe->res);
        return 0;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE)) {
        if (cqe->res >= 0 || net_accept_transient(-cqe->res)) {
            uring_socket_want(listener, URING_ACCEPT);
        } else {
            net_accept_complain(-cqe->res, engine->base.now_ns);
            uring_socket_set_deadline(listener, engine->base.now_ns + NET_ACCEPT_RETRY_NS);
        }
    }
    if (cqe->res < 0)
        return 0;
    net_tcp_apply(&engine->tcp, cqe->res);
    if (uring_socket_take(engine, cqe->res, NULL, 0, &accepted, NULL) != BASE_OK) {
        net_accept_complain(0, engine->base.now_ns);
        return 0;
    }
    uring_event_fill(event, NET_EVENT_ACCEPTED, listener);
    event->accepted = &accepted->base;
    return 1;
}

static uint32_t uring_connect_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe,
                                       struct net_event *event)
{
    if (socket->flags & URING_CLOSING)
        return 0; /* uring_socket_finish says CANCELLED */
    int os_error = cqe->res < 0 ? -cqe->res : 0;
    if (os_error == ECANCELED && (socket->flags & URING_TIMED_OUT))
        os_error = ETIMEDOUT;
    socket->flags &= ~(uint32_t)(URING_CONNECTING | URING_TIMED_OUT);
    net_list_unlink(&socket->timed);
    uring_event_fill(event, NET_EVENT_CONNECTED, socket);
    event->os_error = os_error;
    event->status = net_tcp_connected(&uring_engine_of(socket)->tcp, os_error);
    return 1;
}

static uint32_t uring_cancel_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe,
                                      struct net_event *event)
{
    (void)cqe;
    (void)event;
    if (socket->armed != 0 && (socket->flags & (URING_CLOSING | URING_TIMED_OUT)))
        uring_socket_set_deadline(socket, socket->base.engine->now_ns + URING_CANCEL_RETRY_NS);
    return 0;
}

static uint32_t uring_complete(struct uring_socket *socket, enum uring_kind kind, const struct io_uring_cqe *cqe,
                               struct net_event *event)
{
    switch (kind) {
    case URING_RECEIVE:
        return uring_receive_complete(socket, cqe, event);
    case URING_SEND:
        return uring_send_complete(socket, cqe, event);
    case URING_ACCEPT:
        return uring_accept_complete(socket, cqe, event);
    case URING_CONNECT:
        return uring_connect_complete(socket, cqe, event);
    case URING_CANCEL:
        return uring_cancel_complete(socket, cqe, event);
    case URING_WATCH:
        return uring_watch_complete(socket, cqe, event);
    default:
        return 0;
    }
}

uint32_t uring_socket_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event)
{
    uint32_t kind = uring_kind_of(cqe);
    uint32_t slot = (uint32_t)(cqe->user_data >> 32) & 0xffffff;
    struct uring_socket *socket = slot < engine->slots.count ? &engine->sockets[slot] : NULL;

    if (!socket || socket->fd < 0 || socket->generation != (uint32_t)cqe->user_data) {
        engine->base.counters.stale_completions++;
        engine->receiver->discard(engine, NULL, cqe);
        return 0;
    }
    uint32_t events;
    if (cqe->flags & IORING_CQE_F_NOTIF) {
        events = uring_send_notified(socket, cqe, event);
    } else {
        BASE_ASSERT(socket->armed & URING_BIT(kind));
        if (!(cqe->flags & IORING_CQE_F_MORE) || kind == URING_SEND) /* more of a send is its notification */
            socket->armed &= ~URING_BIT(kind);
        events = uring_complete(socket, (enum uring_kind)kind, cqe, event);
    }
    uring_socket_settle(socket);
    return events;
}
