/* The simulated network: sockets.
 *
 * A send goes through the steps of enum sim_send_step. The caller's bytes are read only in a transfer, at random
 * moments between submit and SENT, and must still be the same when SENT is delivered, as if the kernel had sent them
 * without a copy.
 *
 * Closing is: stop (nothing new is accepted, the connect and the send in flight are told to end), join (the events of
 * both are in the ready queue, and a random delay has passed in which receiving may still deliver what it had begun),
 * release (leave the connection and put CLOSED last into the queue). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "net/sim/internal.h"

enum { STARVED_IN_A_ROW_MAX = 4 };

static struct sim_engine *engine_of(const struct sim_socket *socket)
{
    return (struct sim_engine *)socket->base.engine;
}

static struct net_sim_world *world_of(const struct sim_socket *socket)
{
    return engine_of(socket)->world;
}

#define FROM(state) (1U << SIM_SOCKET_##state)
static const struct base_state_row socket_rows[SIM_SOCKET_STATE_COUNT] = {
    [SIM_SOCKET_LISTENER] = {"listening", 0},
    [SIM_SOCKET_CONNECTING] = {"connecting", 0},
    [SIM_SOCKET_OPEN] = {"open", FROM(CONNECTING)},
    [SIM_SOCKET_FAILED] = {"failed", FROM(CONNECTING)},
    [SIM_SOCKET_DEAD] = {"dead", FROM(LISTENER) | FROM(OPEN) | FROM(FAILED)},
};
#undef FROM
static const struct base_machine socket_machine = {"simulated socket", socket_rows, SIM_SOCKET_STATE_COUNT};

/* NULL without memory. The caller has checked sockets_max. */
static struct sim_socket *socket_make(struct sim_engine *engine, enum sim_socket_state state, void *context)
{
    struct sim_socket *socket = calloc(1, sizeof *socket);
    if (!socket)
        return NULL;
    socket->base.engine = &engine->base;
    socket->base.context = context;
    base_state_begin(&socket->state, &socket_machine, state);
    socket->number = ++engine->world->sockets_made;
    LIST_INSERT_HEAD(&engine->sockets, socket, in_engine);
    engine->sockets_open++;
    return socket;
}

static enum base_status socket_error_no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for a simulated socket");
}

static enum base_status slot_check(const struct sim_engine *engine, struct base_error *error)
{
    BASE_ASSERT(engine->enabled);
    if (engine->sockets_open < engine->config.sockets_max)
        return BASE_OK;
    return base_error_set(error, BASE_TOO_LARGE, "simulated engine %u has its %u sockets open: raise sockets_max",
                          engine->number, engine->config.sockets_max);
}

static void sim_socket_attach(struct sim_socket *socket, struct sim_link *link, uint32_t side)
{
    socket->link = link;
    socket->side = side;
    link->ends[side] = socket;
}

/* ---- listening ---- */

static void accept_step(struct sim_due *due);

/* A connection may wait. */
static void accept_nudge(struct sim_socket *listener)
{
    if (listener->accepting && !listener->closing && !TAILQ_EMPTY(&listener->listener->backlog))
        net_sim_schedule(world_of(listener), &listener->receive, accept_step);
}

static void accept_step(struct sim_due *due)
{
    struct sim_socket *listener = SIM_OWNER(due, struct sim_socket, receive);
    struct sim_engine *engine = engine_of(listener);
    struct sim_link *link = TAILQ_FIRST(&listener->listener->backlog);
    if (!link || listener->closing)
        return;
    TAILQ_REMOVE(&listener->listener->backlog, link, waiting);
    listener->listener->backlog_count--;
    struct sim_socket *socket = NULL;
    if (slot_check(engine, NULL) == BASE_OK)
        socket = socket_make(engine, SIM_SOCKET_OPEN, NULL);
    if (socket) {
        sim_socket_attach(socket, link, 1);
        net_sim_ready_socket(listener, NET_EVENT_ACCEPTED, 0)->accepted = &socket->base;
    } else {
        net_sim_link_leave(link, 1, false); /* as the real engines: accepted, then dropped */
    }
    accept_nudge(listener);
}

void net_sim_accepted_drop(struct sim_socket *socket)
{
    net_sim_link_leave(socket->link, socket->side, false);
    LIST_REMOVE(socket, in_engine);
    engine_of(socket)->sockets_open--;
    free(socket);
}

static enum base_status adopt_end(struct sim_engine *engine, struct sim_link *link, uint32_t side, void *context,
                                  struct net_socket **socket, struct base_error *error)
{
    link->fds[side] = -1;
    struct sim_socket *made = NULL;
    enum base_status status = slot_check(engine, error);
    if (status == BASE_OK && !(made = socket_make(engine, SIM_SOCKET_OPEN, context)))
        status = socket_error_no_memory(error);
    if (status != BASE_OK) {
        net_sim_link_leave(link, side, false);
        return status;
    }
    sim_socket_attach(made, link, side);
    *socket = &made->base;
    return BASE_OK;
}

enum base_status net_sim_adopt(struct net_engine *base, int fd, void *context, struct net_socket **socket,
                               struct base_error *error)
{
    struct sim_engine *engine = (struct sim_engine *)base;
    struct sim_link *link;
    LIST_FOREACH(link, &engine->world->links, all)
    {
        for (uint32_t side = 0; side < 2; side++) {
            if (fd >= 0 && link->fds[side] == fd)
                return adopt_end(engine, link, side, context, socket, error);
        }
    }
    struct sim_listener *listener = net_sim_listener_of(engine->world, fd);
    if (!listener)
        return base_error_set(error, BASE_INVALID, "descriptor %d was not made by net_sim_listen or net_sim_pair", fd);
    enum base_status status = slot_check(engine, error);
    if (status != BASE_OK)
        return status;
    struct sim_socket *made = socket_make(engine, SIM_SOCKET_LISTENER, context);
    if (!made)
        return socket_error_no_memory(error);
    made->listener = listener;
    LIST_INSERT_HEAD(&listener->adopters, made, adopter);
    *socket = &made->base;
    return BASE_OK;
}

enum base_status net_sim_accept(struct net_socket *base, struct base_error *error)
{
    struct sim_socket *listener = (struct sim_socket *)base;
    BASE_ASSERT(listener->state.now != SIM_SOCKET_DEAD);
    if (listener->state.now != SIM_SOCKET_LISTENER)
        return base_error_set(error, BASE_INVALID, "accepting on a socket that does not listen");
    BASE_ASSERT(!listener->accepting && !listener->closing);
    listener->accepting = true;
    accept_nudge(listener);
    return BASE_OK;
}

/* ---- connecting ---- */

static void connect_finish(struct sim_socket *socket, enum base_status status, int os_error)
{
    net_sim_cancel(world_of(socket), &socket->connect);
    net_sim_cancel(world_of(socket), &socket->deadline);
    base_state_enter(&socket->state, status == BASE_OK ? SIM_SOCKET_OPEN : SIM_SOCKET_FAILED);
    if (status != BASE_OK) {
        if (socket->connect_done)
            net_sim_link_leave(socket->link, 0, true);
        else
            net_sim_link_free(socket->link);
        socket->link = NULL;
    }
    net_sim_ready_socket(socket, NET_EVENT_CONNECTED, os_error)->status = status;
}

static void connect_deadline(struct sim_due *due)
{
    connect_finish(SIM_OWNER(due, struct sim_socket, deadline), BASE_TIMEOUT, ETIMEDOUT);
}

static void connect_step(struct sim_due *due)
{
    struct sim_socket *socket = SIM_OWNER(due, struct sim_socket, connect);
    struct net_sim_world *world = world_of(socket);
    if (socket->connect_done) {
        connect_finish(socket, BASE_OK, 0);
        return;
    }
    struct sim_listener *listener = net_sim_listener_at(world, &socket->to);
    if (!listener) {
        connect_finish(socket, base_status_from_errno(ECONNREFUSED), ECONNREFUSED);
        return;
    }
    if (listener->backlog_count >= SIM_BACKLOG_MAX) {
        /* The kernel drops SYN then, and the connecting side repeats it. */
        net_sim_schedule_at(world, due, world->now_ns + BASE_NS_PER_MS, connect_step);
        return;
    }
    TAILQ_INSERT_TAIL(&listener->backlog, socket->link, waiting);
    listener->backlog_count++;
    socket->connect_done = true;
    struct sim_socket *adopter;
    LIST_FOREACH(adopter, &listener->adopters, adopter) accept_nudge(adopter);
    net_sim_schedule(world, due, connect_step);
}

enum base_status net_sim_connect(struct net_engine *base, const struct net_address *address, uint64_t deadline_ns,
                                 void *context, struct net_socket **socket, struct base_error *error)
{
    struct sim_engine *engine = (struct sim_engine *)base;
    enum base_status status = slot_check(engine, error);
    if (status != BASE_OK)
        return status;
    struct sim_link *link = net_sim_link_make(engine->world);
    if (!link)
        return socket_error_no_memory(error);
    struct sim_socket *made = socket_make(engine, SIM_SOCKET_CONNECTING, context);
    if (!made) {
        net_sim_link_free(link);
        return socket_error_no_memory(error);
    }
    made->to = *address;
    sim_socket_attach(made, link, 0);
    net_sim_enqueue(engine, &made->connect, connect_step);
    if (deadline_ns != NET_WAIT_FOREVER)
        net_sim_schedule_at(engine->world, &made->deadline, deadline_ns, connect_deadline);
    *socket = &made->base;
    return BASE_OK;
}

/* ---- receiving ---- */

static void receive_finish(struct sim_socket *socket, enum base_status status, int os_error)
{
    socket->receive_ended = true;
    net_sim_ready_socket(socket, NET_EVENT_RECEIVED, os_error)->status = status;
}

static void receive_step(struct sim_due *due);

/* True when the seed or a lack of chunks holds this receive back; what ends that is arranged. */
static bool receive_starves(struct sim_socket *socket, struct net_chunk *chunk)
{
    struct sim_engine *engine = engine_of(socket);
    struct net_sim_world *world = engine->world;
    bool held = socket->starved_in_a_row < STARVED_IN_A_ROW_MAX && net_sim_percent(world, world->config.starve_percent);
    if (!held && net_sim_chunk_take(engine, chunk)) {
        socket->starved_in_a_row = 0;
        return false;
    }
    engine->base.counters.receive_starved++;
    if (held) {
        socket->starved_in_a_row++;
        engine->base.counters.receive_rearms++;
        uint64_t delay_ns = 1 + base_random_below(&world->random, (uint64_t)world->config.delay_max_ns + 1);
        net_sim_schedule_at(world, &socket->receive, world->now_ns + delay_ns, receive_step);
    } else {
        socket->starved = true;
        TAILQ_INSERT_TAIL(&engine->starved, socket, starving);
    }
    return true;
}

static void receive_step(struct sim_due *due)
{
    struct sim_socket *socket = SIM_OWNER(due, struct sim_socket, receive);
    struct net_sim_world *world = world_of(socket);
    struct sim_link *link = socket->link;
    struct sim_pipe *in = &link->pipes[socket->side];
    if (in->used == 0) {
        if (link->broken[socket->side])
            receive_finish(socket, base_status_from_errno(ECONNRESET), ECONNRESET);
        else if (in->ended)
            receive_finish(socket, BASE_END, 0);
        return;
    }
    struct net_chunk chunk;
    if (receive_starves(socket, &chunk))
        return;
    chunk.bytes = (uint32_t)base_min_u64(in->used, chunk.capacity);
    if (net_sim_percent(world, world->config.short_percent))
        chunk.bytes = 1 + (uint32_t)base_random_below(&world->random, chunk.bytes);
    net_sim_pipe_take(in, chunk.data, chunk.bytes);
    struct net_event *event = net_sim_ready_socket(socket, NET_EVENT_RECEIVED, 0);
    event->chunk = chunk;
    event->bytes = chunk.bytes;
    if (link->ends[!socket->side])
        net_sim_socket_nudge(link->ends[!socket->side]);
    net_sim_socket_nudge(socket);
}

static void starved_end(struct sim_socket *socket)
{
    socket->starved = false;
    TAILQ_REMOVE(&engine_of(socket)->starved, socket, starving);
}

void net_sim_starved_nudge(struct sim_engine *engine)
{
    struct sim_socket *socket;
    while ((socket = TAILQ_FIRST(&engine->starved))) {
        starved_end(socket);
        engine->base.counters.receive_rearms++;
        net_sim_schedule(engine->world, &socket->receive, receive_step);
    }
}

enum base_status net_sim_receive(struct net_socket *base, struct base_error *error)
{
    struct sim_socket *socket = (struct sim_socket *)base;
    BASE_ASSERT(socket->state.now != SIM_SOCKET_DEAD);
    if (socket->state.now != SIM_SOCKET_OPEN)
        return base_error_set(error, BASE_INVALID, "receiving on a socket that is not connected");
    BASE_ASSERT(!socket->closing && !socket->receiving);
    socket->receiving = true;
    net_sim_socket_nudge(socket);
    return BASE_OK;
}

/* ---- sending ---- */

static void close_try(struct sim_socket *socket);

/* Copies up to limit bytes on; into nothing when the other end is gone. */
static void op_copy(struct sim_socket *socket, struct sim_pipe *out, uint64_t limit)
{
    while (limit > 0) {
        const struct iovec *segment = &socket->op->segments[socket->op_segment];
        size_t left = segment->iov_len - socket->op_offset;
        if (left == 0) {
            socket->op_segment++;
            socket->op_offset = 0;
            continue;
        }
        uint32_t piece = (uint32_t)base_min_u64(left, limit);
        if (out) {
            uint32_t put = net_sim_pipe_put(out, (const uint8_t *)segment->iov_base + socket->op_offset, piece);
            BASE_ASSERT(put == piece);
        }
        socket->op_offset += piece;
        socket->op_done += piece;
        limit -= piece;
    }
}

static void reset_when_due(struct net_sim_world *world, struct sim_link *link, uint64_t bytes)
{
    world->bytes_moved += bytes;
    if (world->bytes_moved < world->reset_at_bytes)
        return;
    world->reset_at_bytes = UINT64_MAX;
    net_sim_link_break(link, 0);
    net_sim_link_break(link, 1);
}

/* One piece of the send; the step the send is in afterwards. */
static enum sim_send_step send_transfer(struct sim_socket *socket)
{
    struct net_sim_world *world = world_of(socket);
    struct sim_link *link = socket->link;
    struct sim_pipe *out = &link->pipes[!socket->side];
    bool nobody = link->gone[!socket->side];
    if (link->broken[socket->side]) {
        socket->op_errno = base_random_chance(&world->random, 1, 2) ? ECONNRESET : EPIPE;
        return SIM_SEND_REPORT;
    }
    uint64_t left = socket->op_bytes - socket->op_done;
    uint64_t limit = base_min_u64(left, nobody ? out->capacity : out->capacity - out->used);
    if (left > 0 && limit == 0)
        return SIM_SEND_STALLED;
    if (limit > 1 && net_sim_percent(world, world->config.short_percent))
        limit = 1 + base_random_below(&world->random, limit);
    if (limit < left)
        engine_of(socket)->base.counters.short_sends++;
    op_copy(socket, nobody ? NULL : out, limit);
    engine_of(socket)->base.counters.sent_bytes += limit;
    if (nobody && limit > 0)
        net_sim_link_break(link, socket->side);
    else if (link->ends[!socket->side])
        net_sim_socket_nudge(link->ends[!socket->side]);
    reset_when_due(world, link, limit);
    return socket->op_done == socket->op_bytes ? SIM_SEND_REPORT : SIM_SEND_TRANSFER;
}

static void shut_step(struct sim_due *due)
{
    struct sim_socket *socket = SIM_OWNER(due, struct sim_socket, shut);
    struct sim_link *link = socket->link;
    if (link->broken[socket->side] || link->gone[!socket->side])
        return;
    link->pipes[!socket->side].ended = true;
    if (link->ends[!socket->side])
        net_sim_socket_nudge(link->ends[!socket->side]);
}

static void send_step(struct sim_due *due)
{
    struct sim_socket *socket = SIM_OWNER(due, struct sim_socket, send);
    if (socket->send_step == SIM_SEND_TRANSFER) {
        socket->send_step = send_transfer(socket);
        if (socket->send_step != SIM_SEND_STALLED)
            net_sim_schedule(world_of(socket), due, send_step);
        return;
    }
    BASE_ASSERT(socket->send_step == SIM_SEND_REPORT);
    socket->send_step = SIM_SEND_NONE;
    struct net_event *event = net_sim_ready_socket(socket, NET_EVENT_SENT, socket->op_errno);
    event->bytes = socket->op_done;
    event->send = socket->op;
    if (socket->op_cancelled)
        event->status = BASE_CANCELLED;
    if (event->status == BASE_OK)
        engine_of(socket)->base.counters.sends++;
    if (socket->shutdown_asked && !socket->closing)
        net_sim_schedule(world_of(socket), &socket->shut, shut_step);
    close_try(socket);
}

static uint64_t op_hash(const struct net_send_op *op)
{
    uint64_t hash = op->count;
    for (uint32_t i = 0; i < op->count; i++)
        hash = net_sim_hash(hash, op->segments[i].iov_base, op->segments[i].iov_len);
    return hash;
}

enum base_status net_sim_send(struct net_socket *base, struct net_send_op *op)
{
    struct sim_socket *socket = (struct sim_socket *)base;
    BASE_ASSERT(socket->state.now == SIM_SOCKET_OPEN && !socket->closing && !socket->shutdown_asked);
    if (socket->op || net_sim_queue_full(engine_of(socket)))
        return BASE_BUSY;
    socket->op = op;
    socket->op_segment = 0;
    socket->op_offset = 0;
    socket->op_done = 0;
    socket->op_bytes = 0;
    for (uint32_t i = 0; i < op->count; i++)
        socket->op_bytes += op->segments[i].iov_len;
    socket->op_hash = op_hash(op);
    socket->op_errno = 0;
    socket->op_cancelled = false;
    socket->send_step = SIM_SEND_TRANSFER;
    net_sim_enqueue(engine_of(socket), &socket->send, send_step);
    return BASE_OK;
}

void net_sim_sent_delivered(struct sim_socket *socket)
{
    struct net_send_op *op = socket->op;
    BASE_ASSERT(op->in_flight);
    /* Failing means: the caller changed the segments or their bytes before SENT. */
    BASE_ASSERT(socket->op_hash == op_hash(op));
    /* Real engines move the segments on as bytes go out: nobody may rely on them afterwards. */
    memset(op->segments, 0, sizeof op->segments);
    op->in_flight = 0;
    socket->op = NULL;
}

void net_sim_shutdown(struct net_socket *base)
{
    struct sim_socket *socket = (struct sim_socket *)base;
    BASE_ASSERT(socket->state.now != SIM_SOCKET_DEAD);
    if (socket->state.now != SIM_SOCKET_OPEN || socket->closing || socket->shutdown_asked)
        return;
    socket->shutdown_asked = true;
    if (socket->send_step == SIM_SEND_NONE)
        net_sim_schedule(world_of(socket), &socket->shut, shut_step);
}

void net_sim_socket_nudge(struct sim_socket *socket)
{
    if (socket->receiving && !socket->receive_ended && !socket->starved) {
        const struct sim_pipe *in = &socket->link->pipes[socket->side];
        if (in->used || in->ended || socket->link->broken[socket->side])
            net_sim_schedule(world_of(socket), &socket->receive, receive_step);
    }
    if (socket->send_step == SIM_SEND_STALLED) {
        socket->send_step = SIM_SEND_TRANSFER;
        net_sim_schedule(world_of(socket), &socket->send, send_step);
    }
}

/* ---- closing ---- */

static void close_try(struct sim_socket *socket)
{
    if (!socket->close_due || socket->send_step != SIM_SEND_NONE)
        return;
    struct net_sim_world *world = world_of(socket);
    net_sim_cancel(world, &socket->shut);
    if (socket->listener)
        LIST_REMOVE(socket, adopter);
    if (socket->link)
        net_sim_link_leave(socket->link, socket->side, socket->close_abort);
    socket->link = NULL;
    net_sim_ready_socket(socket, NET_EVENT_CLOSED, 0);
}

static void close_step(struct sim_due *due)
{
    struct sim_socket *socket = SIM_OWNER(due, struct sim_socket, close);
    socket->close_due = true;
    close_try(socket);
}

void net_sim_socket_close(struct net_socket *base, bool abort)
{
    struct sim_socket *socket = (struct sim_socket *)base;
    struct net_sim_world *world = world_of(socket);
    BASE_ASSERT(socket->state.now != SIM_SOCKET_DEAD);
    if (socket->closing)
        return;
    socket->closing = true;
    socket->close_abort = abort;
    socket->receiving = false;
    net_sim_cancel(world, &socket->receive);
    if (socket->starved)
        starved_end(socket);
    net_sim_ready_withdraw(socket);
    if (socket->state.now == SIM_SOCKET_CONNECTING)
        connect_finish(socket, BASE_CANCELLED, 0);
    if (socket->send_step == SIM_SEND_TRANSFER || socket->send_step == SIM_SEND_STALLED) {
        /* The kernel, if it has seen the send, may be in the middle of it: some more may go out, even all. */
        bool unseen = socket->send.queued_by;
        net_sim_cancel(world, &socket->send);
        socket->send_step = SIM_SEND_TRANSFER;
        if (!unseen && base_random_chance(&world->random, 1, 2))
            socket->send_step = send_transfer(socket);
        if (socket->send_step != SIM_SEND_REPORT) {
            socket->send_step = SIM_SEND_REPORT;
            socket->op_cancelled = true;
        }
        net_sim_schedule(world, &socket->send, send_step);
    }
    net_sim_schedule(world, &socket->close, close_step);
}

void net_sim_closed_delivered(struct sim_socket *socket)
{
    struct sim_engine *engine = engine_of(socket);
    base_state_enter(&socket->state, SIM_SOCKET_DEAD);
    LIST_REMOVE(socket, in_engine);
    LIST_INSERT_HEAD(&engine->dead, socket, in_engine);
    engine->sockets_open--;
}
