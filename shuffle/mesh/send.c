/* Sending. A sealed frame is queued at its peer and the peer is due; the kick starts what can be started: a send
 * over the connection (one in flight at a time, all queued frames gathered into it), or posts into the neighbour's
 * mailbox. What an engine refuses stays due for the next turn; what a full mailbox or a send in flight holds up goes
 * on when that event comes. A frame goes home at its SENT, or out of the home queue of its mailbox. */
#include "shuffle/mesh/internal.h"

#include "base/assert.h"
#include "shuffle/mesh/lanes.h"

void mesh_send_due(struct shuffle_mesh *mesh, uint32_t worker)
{
    struct mesh_peer *peer = &mesh->peers[worker];
    BASE_ASSERT(worker < mesh->config.workers && peer->kind != MESH_SELF);
    if (peer->due)
        return;
    peer->due = true;
    TAILQ_INSERT_TAIL(&mesh->due, peer, due_link);
}

void shuffle_mesh_offer(struct shuffle_mesh *mesh, uint32_t worker)
{
    BASE_ASSERT(mesh->config.raw && mesh->peers[worker].kind == MESH_REMOTE);
    mesh_send_due(mesh, worker);
}

void shuffle_mesh_send(struct shuffle_mesh *mesh, struct shuffle_frame *frame)
{
    struct mesh_peer *peer = &mesh->peers[frame->destination];
    BASE_ASSERT(peer->kind != MESH_SELF);
    if (mesh->closing) {
        shuffle_frame_home(frame);
        return;
    }
    frame->holder = SHUFFLE_FRAME_HOLDER_QUEUE;
    shuffle_frame_queue_put(&peer->out, frame);
    mesh_send_due(mesh, frame->destination);
}

void mesh_send_drop(struct shuffle_mesh *mesh, uint32_t worker)
{
    struct mesh_peer *peer = &mesh->peers[worker];
    struct shuffle_frame_queue kept = {0};
    uint32_t in_flight = peer->connection ? peer->connection->frames_in_flight : 0;
    struct shuffle_frame *frame;
    while ((frame = shuffle_frame_queue_take(&peer->out))) {
        if (in_flight > 0) {
            in_flight--;
            shuffle_frame_queue_put(&kept, frame);
        } else {
            shuffle_frame_home(frame);
        }
    }
    peer->out = kept;
    BASE_ASSERT(in_flight == 0); /* what is in flight was in the queue */
}

/* Over a connection. */

static struct mesh_send *send_next(struct mesh_connection *connection)
{
    return &connection->send[(connection->send_first + connection->send_count) % NET_SENDS_MAX];
}

/* Queues the next send, whose segments are filled in. False: refused for now. */
static bool send_start(struct mesh_connection *connection, uint32_t segments, uint32_t frames)
{
    BASE_ASSERT(!connection->going && connection->send_count < NET_SENDS_MAX);
    BASE_ASSERT(segments > 0 && frames <= segments);
    struct mesh_send *send = send_next(connection);
    send->op.count = segments;
    if (net_socket_send(connection->socket, &send->op) != BASE_OK)
        return false;
    send->frames = frames;
    send->done = false;
    connection->send_count++;
    connection->frames_in_flight += frames;
    connection->going = true;
    return true;
}

static bool send_proof(struct mesh_connection *connection)
{
    struct net_proof *proof = &connection->proof;
    send_next(connection)->op.segments[0] =
        (struct iovec){proof->out + proof->out_sent, proof->out_bytes - proof->out_sent};
    if (!send_start(connection, 1, 0))
        return false;
    proof->out_sent = proof->out_bytes;
    return true;
}

static bool send_greeting(struct mesh_connection *connection)
{
    send_next(connection)->op.segments[0] = (struct iovec){&connection->own_greeting, sizeof connection->own_greeting};
    return send_start(connection, 1, 0);
}

/* All frames that are not in flight, as many as fit. */
static bool send_frames(struct mesh_connection *connection)
{
    struct iovec *segments = send_next(connection)->op.segments;
    struct shuffle_frame *frame = mesh_peer_of(connection)->out.first;
    BASE_ASSERT(connection->frames_in_flight <= mesh_peer_of(connection)->out.count);
    uint32_t count = 0;
    for (uint32_t i = 0; i < connection->frames_in_flight; i++)
        frame = frame->next;
    struct shuffle_frame *first = frame;
    for (; frame && count < NET_SEND_SEGMENTS_MAX; frame = frame->next)
        segments[count++] = (struct iovec){frame->wire, frame->wire_bytes};
    if (count == 0)
        return true;
    if (!send_start(connection, count, count))
        return false;
    for (; first != frame; first = first->next)
        first->holder = SHUFFLE_FRAME_HOLDER_SEND;
    return true;
}

/* What a raw job has for the peer; once filled it is offered to the engine until that takes it. */
static bool send_raw(struct mesh_connection *connection)
{
    const struct shuffle_mesh_raw *raw = connection->mesh->config.raw;
    if (connection->state.now != MESH_OPEN)
        return true;
    if (connection->send_count > 0)
        return true; /* one at a time: what it sends from is the job's */
    struct net_send_op *op = &send_next(connection)->op;
    if (!connection->filled)
        connection->filled = raw->fill(raw->context, connection->peer, op);
    return !connection->filled || send_start(connection, op->count, 0);
}

/* Starts a send of what is queued; false: the engine refused. */
static bool connection_start(struct mesh_connection *connection)
{
    if (connection->going || connection->send_count == NET_SENDS_MAX || connection->state.now == MESH_CLOSING ||
        connection->state.now == MESH_CONNECTING)
        return true;
    if (connection->proof.out_sent < connection->proof.out_bytes)
        return send_proof(connection);
    if (connection->peer == MESH_NOBODY)
        return true; /* who is not known gets nothing else */
    if (connection->state.now == MESH_PROVING)
        return true;
    if (!connection->greeted) {
        connection->greeted = send_greeting(connection);
        return connection->greeted;
    }
    if (connection->mesh->config.raw)
        return send_raw(connection);
    return connection->state.now == MESH_GREETING || send_frames(connection);
}

/* Graceful: what is queued leaves, then FIN. */
static void linger_on(struct mesh_connection *connection)
{
    if (!connection_start(connection)) {
        mesh_send_due(connection->mesh, connection->peer);
    } else if (connection->send_count == 0) {
        net_socket_shutdown(connection->socket);
        mesh_connection_close(connection, false);
    }
}

void mesh_send_linger(struct mesh_connection *connection)
{
    base_state_enter(&connection->state, MESH_LINGERING);
    linger_on(connection);
}

/* In the order of the queue, whatever the order in which the kernel lets go of them. */
static void sent_frames_home(struct mesh_connection *connection)
{
    while (connection->send_count > 0 && connection->send[connection->send_first].done) {
        const struct mesh_send *send = &connection->send[connection->send_first];
        BASE_ASSERT(connection->frames_in_flight >= send->frames);
        for (uint32_t i = 0; i < send->frames; i++) {
            struct shuffle_frame *frame = shuffle_frame_queue_take(&mesh_peer_of(connection)->out);
            BASE_ASSERT(frame && frame->destination == connection->peer);
            if (send->delivered && frame->home != SHUFFLE_HOME_LANE)
                connection->mesh->sent_bytes[connection->peer] += frame->wire_bytes - SHUFFLE_FRAME_HEADER_BYTES;
            shuffle_frame_home(frame);
        }
        connection->frames_in_flight -= send->frames;
        connection->send_first = (connection->send_first + 1) % NET_SENDS_MAX;
        connection->send_count--;
    }
}

/* Bytes of a raw job have left, or never will. */
static void sent_raw(struct mesh_connection *connection, const struct net_event *event)
{
    struct shuffle_mesh *mesh = connection->mesh;
    connection->filled = false;
    if (event->status != BASE_OK || mesh->closing)
        return;
    mesh->sent_bytes[connection->peer] += event->bytes;
    mesh->config.raw->sent(mesh->config.raw->context, connection->peer, event->bytes);
}

/* The next send, after one that went well. */
static void send_on(struct mesh_connection *connection)
{
    switch (connection->state.now) {
    case MESH_PROVING:
    case MESH_GREETING:
    case MESH_OPEN:
        if (!connection_start(connection) && connection->peer != MESH_NOBODY)
            mesh_send_due(connection->mesh, connection->peer);
        break;
    case MESH_LINGERING:
        linger_on(connection);
        break;
    default:
        break;
    }
}

void mesh_send_out(struct mesh_connection *connection)
{
    connection->going = false;
    send_on(connection);
}

enum base_status mesh_send_sent(struct mesh_connection *connection, const struct net_event *event,
                                struct base_error *error)
{
    struct mesh_send *send = (struct mesh_send *)event->send;
    BASE_ASSERT(connection->send_count > 0 && send >= connection->send && send < connection->send + NET_SENDS_MAX);
    BASE_ASSERT(!send->done);
    const bool frames = send->frames > 0 || connection->filled;
    const uint32_t last = connection->send_first + connection->send_count - 1;
    if (send == &connection->send[last % NET_SENDS_MAX])
        connection->going = false;
    send->done = true;
    send->delivered = event->status == BASE_OK;
    sent_frames_home(connection);
    if (connection->filled)
        sent_raw(connection, event);
    if (event->status == BASE_OK) {
        send_on(connection);
        return BASE_OK;
    }
    /* The proof or the greeting of one who calls: receiving will say the same, and it is tried again. */
    if (connection->state.now == MESH_OPEN || (connection->state.now < MESH_OPEN && frames))
        return mesh_connection_lost(connection, event, error);
    if (connection->state.now == MESH_LINGERING)
        mesh_connection_close(connection, true);
    return BASE_OK;
}

/* ---- the kick ---- */

static void post_frames(struct shuffle_mesh *mesh, uint32_t worker)
{
    struct shuffle_frame_queue *out = &mesh->peers[worker].out;
    const uint32_t from = mesh_local_number(mesh, mesh->config.worker), to = mesh_local_number(mesh, worker);
    BASE_ASSERT(mesh->config.mailroom && from != to);
    while (out->first) {
        /* Once posted it is the neighbour's, who links it elsewhere. */
        struct shuffle_frame *frame = out->first, *next = frame->next;
        if (!shuffle_mailroom_post(mesh->config.mailroom, from, to, frame))
            return;
        frame->holder = SHUFFLE_FRAME_HOLDER_NEIGHBOUR; /* its memory stays ours */
        out->first = next;
        out->count--;
        if (!next)
            out->last = NULL;
    }
}

void shuffle_mesh_kick(struct shuffle_mesh *mesh)
{
    mesh->sends_refused = 0;
    struct mesh_peer *next;
    for (struct mesh_peer *peer = TAILQ_FIRST(&mesh->due); peer; peer = next) {
        next = TAILQ_NEXT(peer, due_link);
        if (peer->kind == MESH_LOCAL)
            post_frames(mesh, (uint32_t)(peer - mesh->peers));
        else if (peer->connection && !connection_start(peer->connection)) {
            mesh->sends_refused++;
            continue;
        }
        peer->due = false;
        TAILQ_REMOVE(&mesh->due, peer, due_link);
    }
    /* Callers are no peers yet, but hear our proof. */
    struct mesh_connection *connection;
    if (!mesh->config.key || mesh->arrivals == 0)
        return;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (mesh_connection_strange(connection) && !connection_start(connection))
            mesh->sends_refused++;
    }
}
