/* One socket of the mesh, from connecting to CLOSED.
 *
 *   listener              LISTENING -> CLOSING
 *   the lower worker      CONNECTING -> (PROVING ->) GREETING -> OPEN -> (LINGERING ->) CLOSING
 *   the higher worker                   (PROVING ->) GREETING -> OPEN -> (LINGERING ->) CLOSING
 *
 * Where the cluster has a key, both prove that they have it before anything else is looked at (PROVING,
 * net/proof/proof.h). Then who connected greets first. The other side answers when it has recognised the caller, and
 * both know each other. A connection that ends, or says something else, before it is OPEN belongs to a stranger: it is
 * closed and counted. If we had called there, we call again until the time for connecting is over: what answered may
 * have been a listener's queue of a job before. Only a refusal is final. Behind OPEN every loss is an error, unless
 * both sides had said all.
 */
#include "shuffle/exchange/mesh_internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"

#define RETRY_NS (20 * BASE_NS_PER_MS)
/* For proving the key and saying who one is. */
#define GREETING_NS (2 * BASE_NS_PER_S)

static struct mesh_peer *peer_of(const struct mesh_connection *connection)
{
    return &connection->mesh->peers[connection->peer];
}

/* One step of the table above. */
static void connection_become(struct mesh_connection *connection, enum mesh_connection_state state)
{
    static const uint8_t predecessors[] = {
        [MESH_LISTENING] = 0,
        [MESH_CONNECTING] = 0,
        [MESH_PROVING] = 1 << MESH_CONNECTING,
        [MESH_GREETING] = 1 << MESH_CONNECTING | 1 << MESH_PROVING,
        [MESH_OPEN] = 1 << MESH_GREETING,
        [MESH_LINGERING] = 1 << MESH_OPEN,
        [MESH_CLOSING] = 1 << MESH_LISTENING | 1 << MESH_CONNECTING | 1 << MESH_PROVING | 1 << MESH_GREETING |
                         1 << MESH_OPEN | 1 << MESH_LINGERING,
    };
    BASE_ASSERT(predecessors[state] >> connection->state & 1);
    connection->state = state;
}

static struct mesh_connection *connection_make(struct shuffle_mesh *mesh, enum mesh_connection_state state,
                                               uint32_t peer)
{
    struct mesh_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->mesh = mesh;
    connection->state = state;
    connection->peer = peer;
    TAILQ_INSERT_TAIL(&mesh->connections, connection, all);
    return connection;
}

static void connection_free(struct mesh_connection *connection)
{
    TAILQ_REMOVE(&connection->mesh->connections, connection, all);
    free(connection);
}

static enum base_status no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the record of a connection");
}

enum base_status mesh_connection_listen(struct shuffle_mesh *mesh, struct base_error *error)
{
    struct mesh_connection *listener = connection_make(mesh, MESH_LISTENING, MESH_NOBODY);
    if (!listener)
        return no_memory(error);
    const enum base_status status =
        net_socket_adopt(mesh->config.engine, mesh->config.listener_fd, listener, &listener->socket, error);
    if (status != BASE_OK) {
        connection_free(listener);
        return status;
    }
    mesh->listener = listener;
    return net_socket_accept(listener->socket, error);
}

enum base_status mesh_connection_connect(struct shuffle_mesh *mesh, uint32_t peer, struct base_error *error)
{
    struct mesh_connection *connection = connection_make(mesh, MESH_CONNECTING, peer);
    if (!connection)
        return no_memory(error);
    const enum base_status status =
        net_socket_connect(mesh->config.engine, &mesh->config.address[peer], mesh->connect_deadline_ns, connection,
                           &connection->socket, error);
    if (status != BASE_OK) {
        connection_free(connection);
        return status;
    }
    mesh->peers[peer].connection = connection;
    return BASE_OK;
}

void mesh_connection_close(struct mesh_connection *connection, bool abort)
{
    if (connection->state == MESH_CLOSING)
        return;
    if (connection->accepted && connection->peer == MESH_NOBODY)
        connection->mesh->arrivals--;
    connection_become(connection, MESH_CLOSING);
    net_socket_close(connection->socket, abort);
}

/* Graceful: what is queued leaves, then FIN. */
static void linger_on(struct mesh_connection *connection)
{
    if (!mesh_connection_kick(connection)) {
        shuffle_mesh_stage(connection->mesh, connection->peer);
    } else if (connection->send_count == 0) {
        net_socket_shutdown(connection->socket);
        mesh_connection_close(connection, false);
    }
}

void mesh_connection_linger(struct mesh_connection *connection)
{
    connection_become(connection, MESH_LINGERING);
    linger_on(connection);
}

/* Somebody who did not behave as a worker of this job. */
static void stranger_close(struct mesh_connection *connection, const char *why)
{
    connection->mesh->strangers++;
    base_log_debug("worker %u: a connection is closed: %s", connection->mesh->config.worker, why);
    mesh_connection_close(connection, true);
}

bool mesh_connection_strange(const struct mesh_connection *connection)
{
    return (connection->state == MESH_PROVING || connection->state == MESH_GREETING) && connection->peer == MESH_NOBODY;
}

/* Sending. */

static struct mesh_send *send_next(struct mesh_connection *connection)
{
    return &connection->send[(connection->send_first + connection->send_count) % NET_SENDS_MAX];
}

/* Stages the next send, whose segments are filled in. False: refused for now. */
static bool send_start(struct mesh_connection *connection, uint32_t segments, uint32_t frames)
{
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
    struct shuffle_frame *frame = peer_of(connection)->out.first;
    uint32_t count = 0;
    for (uint32_t i = 0; i < connection->frames_in_flight; i++)
        frame = frame->next;
    for (; frame && count < NET_SEND_SEGMENTS_MAX; frame = frame->next)
        segments[count++] = (struct iovec){frame->wire, frame->wire_bytes};
    return count == 0 || send_start(connection, count, count);
}

/* What a raw job has for the peer; once filled it is offered to the engine until that takes it. */
static bool send_raw(struct mesh_connection *connection)
{
    const struct shuffle_mesh_raw *raw = connection->mesh->config.raw;
    if (connection->state != MESH_OPEN)
        return true;
    if (connection->send_count > 0)
        return true; /* one at a time: what it sends from is the job's */
    struct net_send_op *op = &send_next(connection)->op;
    if (!connection->filled)
        connection->filled = raw->fill(raw->context, connection->peer, op);
    return !connection->filled || send_start(connection, op->count, 0);
}

bool mesh_connection_kick(struct mesh_connection *connection)
{
    if (connection->going || connection->send_count == NET_SENDS_MAX || connection->state == MESH_CLOSING ||
        connection->state == MESH_CONNECTING)
        return true;
    if (connection->proof.out_sent < connection->proof.out_bytes)
        return send_proof(connection);
    if (connection->peer == MESH_NOBODY)
        return true; /* who is not known gets nothing else */
    if (connection->state == MESH_PROVING)
        return true;
    if (!connection->greeted) {
        connection->greeted = send_greeting(connection);
        return connection->greeted;
    }
    if (connection->mesh->config.raw)
        return send_raw(connection);
    return connection->state == MESH_GREETING || send_frames(connection);
}

static enum base_status lost(const struct mesh_connection *connection, const struct net_event *event,
                             struct base_error *error)
{
    const char *node = shuffle_mesh_node(connection->mesh, connection->peer);
    /* However the kernel puts it: it is what may be felt of a fault elsewhere. */
    const bool felt = event->status == BASE_TIMEOUT || event->status == BASE_UNREACHABLE;
    const enum base_status status = felt ? BASE_PEER_RESET : event->status;
    return base_error_set(error, status, "the connection to worker %u on node %s broke: %s%s%s", connection->peer, node,
                          base_status_words(event->status), event->os_error ? ": " : "",
                          event->os_error ? strerror(event->os_error) : "");
}

/* In the order of the queue, whatever the order in which the kernel lets go of them. */
static void sent_frames_home(struct mesh_connection *connection)
{
    while (connection->send_count > 0 && connection->send[connection->send_first].done) {
        const struct mesh_send *send = &connection->send[connection->send_first];
        for (uint32_t i = 0; i < send->frames; i++) {
            struct shuffle_frame *frame = shuffle_frame_queue_take(&peer_of(connection)->out);
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
    switch (connection->state) {
    case MESH_PROVING:
    case MESH_GREETING:
    case MESH_OPEN:
        if (!mesh_connection_kick(connection) && connection->peer != MESH_NOBODY)
            shuffle_mesh_stage(connection->mesh, connection->peer);
        break;
    case MESH_LINGERING:
        linger_on(connection);
        break;
    default:
        break;
    }
}

static void on_out(struct mesh_connection *connection)
{
    connection->going = false;
    send_on(connection);
}

static enum base_status on_sent(struct mesh_connection *connection, const struct net_event *event,
                                struct base_error *error)
{
    struct mesh_send *send = (struct mesh_send *)event->send;
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
    if (connection->state == MESH_OPEN || (connection->state < MESH_OPEN && frames))
        return lost(connection, event, error);
    if (connection->state == MESH_LINGERING)
        mesh_connection_close(connection, true);
    return BASE_OK;
}

/* Receiving. */

static void connection_open(struct mesh_connection *connection)
{
    connection_become(connection, MESH_OPEN);
    connection->mesh->open_count++;
    shuffle_mesh_connect_on(connection->mesh);
    shuffle_mesh_stage(connection->mesh, connection->peer);
}

/* A caller is recognised: it gets our answer. NULL, or why not. */
static const char *arrival_recognise(struct mesh_connection *connection)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const uint32_t source = connection->greeting.source;
    if (source > mesh->config.worker)
        return "a higher worker calls a lower one";
    if (mesh->peers[source].connection)
        return "that worker is connected already";
    connection->peer = source;
    mesh->peers[source].connection = connection;
    mesh->arrivals--;
    shuffle_preamble_fill(&mesh->config, source, &connection->own_greeting);
    return NULL;
}

/* Somebody who has no key, or another. One line in the log tells it; a port that is open to the world has many callers.
 */
static void key_trouble(struct mesh_connection *connection, const char *words)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const bool called = connection->peer != MESH_NOBODY;
    if (!mesh->key_told)
        base_log_warn("worker %u: %s%s %s (later ones in this job are not told)", mesh->config.worker,
                      called ? "what answers for node " : "a caller",
                      called ? shuffle_mesh_node(mesh, connection->peer) : "", words);
    mesh->key_told = true;
    stranger_close(connection, words);
}

static void proof_open(struct mesh_connection *connection, enum net_proof_role role)
{
    uint8_t nonce[NET_KEY_NONCE_BYTES];
    net_key_nonce(nonce);
    net_proof_open(&connection->proof, connection->mesh->config.key, role, NET_PROOF_DATA, nonce);
}

/* Takes what belongs to the proof of the key from the beginning of the chunk. Returns bytes taken. What the proof has
 * to say leaves in the mesh's next kick. */
static uint32_t proof_take(struct mesh_connection *connection, const struct net_chunk *chunk)
{
    struct net_proof *proof = &connection->proof;
    const uint32_t taken = (uint32_t)net_proof_take(proof, chunk->data, chunk->bytes);
    if (proof->state == NET_PROOF_FAILED) {
        if (connection->peer != MESH_NOBODY) {
            connection->mesh->called_why = proof->why;
            connection->mesh->called_peer = connection->peer;
        }
        key_trouble(connection, net_proof_words(proof->why));
        return taken;
    }
    if (proof->state == NET_PROOF_PROVED)
        connection_become(connection, MESH_GREETING);
    if (connection->peer != MESH_NOBODY)
        shuffle_mesh_stage(connection->mesh, connection->peer);
    return taken;
}

/* Takes the greeting, or a part of it, from some bytes. Returns bytes taken. */
static uint32_t greeting_take(struct mesh_connection *connection, const uint8_t *data, uint32_t count)
{
    const uint32_t want = (uint32_t)sizeof connection->greeting - connection->greeting_bytes;
    const uint32_t bytes = count < want ? count : want;
    memcpy((uint8_t *)&connection->greeting + connection->greeting_bytes, data, bytes);
    connection->greeting_bytes += bytes;
    if (bytes < want)
        return bytes;
    const char *why = shuffle_preamble_check(&connection->mesh->config, &connection->greeting);
    if (!why && connection->peer == MESH_NOBODY)
        why = arrival_recognise(connection);
    else if (!why && connection->greeting.source != connection->peer)
        why = "another worker than the one called answers";
    if (why)
        stranger_close(connection, why);
    else
        connection_open(connection);
    return bytes;
}

/* A raw job has no inlets. */
static enum base_status on_raw_chunk(struct mesh_connection *connection, const struct net_chunk *chunk, uint32_t taken,
                                     struct base_error *error)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const struct shuffle_mesh_raw *raw = mesh->config.raw;
    enum base_status status = BASE_OK;
    if (!mesh->closing) {
        mesh->received_bytes[connection->peer] += chunk->bytes - taken;
        status = raw->received(raw->context, connection->peer, chunk->data + taken, chunk->bytes - taken, error);
    }
    net_chunk_release(mesh->config.engine, chunk);
    return status;
}

static enum base_status on_chunk(struct mesh_connection *connection, const struct net_chunk *chunk,
                                 struct base_error *error)
{
    uint32_t taken = 0;
    if (connection->state == MESH_PROVING)
        taken = proof_take(connection, chunk);
    if (connection->state == MESH_GREETING)
        taken += greeting_take(connection, chunk->data + taken, chunk->bytes - taken);
    if (connection->state != MESH_OPEN || taken == chunk->bytes) {
        net_chunk_release(connection->mesh->config.engine, chunk);
        return BASE_OK;
    }
    if (connection->mesh->config.raw)
        return on_raw_chunk(connection, chunk, taken, error);
    const struct shuffle_piece piece = {.data = chunk->data + taken, .bytes = chunk->bytes - taken, .chunk = *chunk};
    return shuffle_inlet_push(&peer_of(connection)->inlet, &piece, error);
}

static enum base_status on_received(struct mesh_connection *connection, const struct net_event *event,
                                    struct base_error *error)
{
    struct shuffle_mesh *mesh = connection->mesh;
    if (event->status == BASE_OK)
        return on_chunk(connection, &event->chunk, error);
    if (connection->state == MESH_PROVING && connection->proof.state == NET_PROOF_ANSWERED) {
        key_trouble(connection, "went away when it had heard this side's proof: has its node another key?");
        return BASE_OK;
    }
    if (connection->state == MESH_PROVING || connection->state == MESH_GREETING) {
        stranger_close(connection, "it ended before it said who it is");
        return BASE_OK;
    }
    if (connection->state != MESH_OPEN || shuffle_mesh_peer_done(mesh, connection->peer))
        return BASE_OK;
    if (event->status != BASE_END)
        return lost(connection, event, error);
    /* Judged in the mesh's turn, when the inlet has taken what came before. */
    peer_of(connection)->fin = true;
    mesh->fins++;
    return BASE_OK;
}

static enum base_status start_receiving(struct mesh_connection *connection)
{
    struct base_error cause;
    const enum base_status status = net_socket_receive(connection->socket, &cause);
    if (status != BASE_OK)
        stranger_close(connection, cause.text);
    return status;
}

static enum base_status on_connected(struct mesh_connection *connection, const struct net_event *event,
                                     struct base_error *error)
{
    struct shuffle_mesh *mesh = connection->mesh;
    if (connection->state != MESH_CONNECTING)
        return BASE_OK;
    if (event->status == BASE_OK) {
        connection_become(connection, mesh->config.key ? MESH_PROVING : MESH_GREETING);
        if (mesh->config.key)
            proof_open(connection, NET_PROOF_CALLER);
        shuffle_preamble_fill(&mesh->config, connection->peer, &connection->own_greeting);
        if (start_receiving(connection) == BASE_OK)
            shuffle_mesh_stage(connection->mesh, connection->peer);
        return BASE_OK;
    }
    char address[64];
    net_address_format(&mesh->config.address[connection->peer], address);
    const char *node = shuffle_mesh_node(mesh, connection->peer);
    mesh_connection_close(connection, true);
    if (event->status == BASE_NODE_REFUSED)
        return base_error_set(
            error, BASE_NODE_REFUSED,
            "node %s at %s (worker %u) refused the connection from node %s: does that address belong to "
            "its daemon, or does a packet filter answer for it?",
            node, address, connection->peer, shuffle_mesh_node(mesh, mesh->config.worker));
    /* Too late for what was known when it was called: whether connecting as a whole is late is judged in the turn. */
    if (event->status == BASE_PEER_RESET || event->status == BASE_BUSY || event->status == BASE_TIMEOUT)
        return BASE_OK; /* tried again */
    return base_error_set(error, BASE_UNREACHABLE, "node %s at %s (worker %u) cannot be reached from node %s: %s", node,
                          address, connection->peer, shuffle_mesh_node(mesh, mesh->config.worker),
                          event->os_error ? strerror(event->os_error) : base_status_words(event->status));
}

/* When there are more callers than workers that are missing and some strangers, the one that has been silent longest
 * goes, so that the engine keeps sockets for those who belong here. */
static void arrivals_bound(struct shuffle_mesh *mesh)
{
    struct mesh_connection *connection;
    if (mesh->arrivals <= mesh->remote_count - mesh->open_count + SHUFFLE_MESH_STRANGERS_MAX / 2)
        return;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (mesh_connection_strange(connection)) {
            stranger_close(connection, "too many callers at once");
            return;
        }
    }
}

static enum base_status on_accepted(struct mesh_connection *listener, const struct net_event *event)
{
    struct shuffle_mesh *mesh = listener->mesh;
    if (event->status != BASE_OK || !event->accepted)
        return BASE_OK;
    const enum mesh_connection_state state = mesh->config.key ? MESH_PROVING : MESH_GREETING;
    struct mesh_connection *connection = connection_make(mesh, state, MESH_NOBODY);
    if (!connection) {
        mesh->orphan.mesh = mesh;
        mesh->orphans++;
        net_socket_set_context(event->accepted, &mesh->orphan);
        net_socket_close(event->accepted, true);
        return BASE_OK;
    }
    net_socket_set_context(event->accepted, connection);
    connection->socket = event->accepted;
    connection->accepted = true;
    if (mesh->config.key)
        proof_open(connection, NET_PROOF_CALLEE);
    mesh->arrivals++;
    connection->deadline_ns = net_engine_now_ns(mesh->config.engine) + GREETING_NS;
    if (listener->state == MESH_CLOSING || mesh->closing) {
        mesh_connection_close(connection, true);
        return BASE_OK;
    }
    if (start_receiving(connection) == BASE_OK)
        arrivals_bound(mesh);
    return BASE_OK;
}

void mesh_connection_retry(struct shuffle_mesh *mesh, uint32_t peer)
{
    mesh->peers[peer].retry_ns = net_engine_now_ns(mesh->config.engine) + RETRY_NS;
    mesh->retries++;
}

static void on_closed(struct mesh_connection *connection)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const uint32_t worker = connection->peer;
    if (worker != MESH_NOBODY) {
        mesh->peers[worker].connection = NULL;
        if (!mesh->closing && worker > mesh->config.worker)
            mesh_connection_retry(mesh, worker);
        if (mesh->closing)
            shuffle_mesh_queue_drop(mesh, worker);
    }
    connection_free(connection);
}

/* A socket accepted when there was no memory for its record. */
static void orphan_event(struct shuffle_mesh *mesh, const struct net_event *event)
{
    if (event->kind == NET_EVENT_RECEIVED && event->status == BASE_OK)
        net_chunk_release(mesh->config.engine, &event->chunk);
    if (event->kind == NET_EVENT_CLOSED)
        mesh->orphans--;
}

enum base_status mesh_connection_event(struct mesh_connection *connection, const struct net_event *event,
                                       struct base_error *error)
{
    if (connection == &connection->mesh->orphan) {
        orphan_event(connection->mesh, event);
        return BASE_OK;
    }
    switch (event->kind) {
    case NET_EVENT_ACCEPTED:
        return on_accepted(connection, event);
    case NET_EVENT_CONNECTED:
        return on_connected(connection, event, error);
    case NET_EVENT_RECEIVED:
        return on_received(connection, event, error);
    case NET_EVENT_OUT:
        on_out(connection);
        return BASE_OK;
    case NET_EVENT_SENT:
        return on_sent(connection, event, error);
    case NET_EVENT_CLOSED:
        on_closed(connection);
        return BASE_OK;
    default:
        return BASE_OK;
    }
}
