/* Connecting: from the first call until every worker of another node is there.
 *
 * Where the cluster has a key, both ends prove that they have it before anything else is looked at (PROVING,
 * net/proof/proof.h). Then who connected greets first. The other side answers when it has recognised the caller, and
 * both know each other. A connection that ends, or says something else, before it is OPEN belongs to a stranger: it is
 * closed and counted. If we had called there, we call again until the time for connecting is over: what answered may
 * have been a listener's queue of a job before. Only a refusal is final. */
#include "shuffle/mesh/internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"

#define RETRY_NS (20 * BASE_NS_PER_MS)
/* For proving the key and saying who one is. */
#define GREETING_NS (2 * BASE_NS_PER_S)
/* Connecting is late when no connection came for connect_timeout_ns, and this for each of those that the node makes:
 * workers that share a processor take turns, and a crowd of them is slow without being stuck. */
#define MESH_CONNECTION_NS (1 * BASE_NS_PER_MS)

static uint64_t connect_patience_ns(const struct shuffle_mesh *mesh)
{
    const uint64_t connections = (uint64_t)mesh->config.local_count * mesh->remote_count;
    return mesh->config.connect_timeout_ns + connections * MESH_CONNECTION_NS;
}

/* Connecting made progress: from here on it has its whole time again. */
static void connect_on(struct shuffle_mesh *mesh)
{
    const uint64_t now_ns = net_engine_now_ns(mesh->config.engine);
    mesh->connect_deadline_ns = now_ns + base_min_u64(connect_patience_ns(mesh), UINT64_MAX - 1 - now_ns);
}

static enum base_status connect_no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the record of a connection");
}

static enum base_status connect_listen(struct shuffle_mesh *mesh, struct base_error *error)
{
    BASE_ASSERT(!mesh->listener && mesh->config.listener_fd >= 0);
    struct mesh_connection *listener = mesh_connection_make(mesh, MESH_LISTENING, MESH_NOBODY);
    if (!listener)
        return connect_no_memory(error);
    const enum base_status status =
        net_socket_adopt(mesh->config.engine, mesh->config.listener_fd, listener, &listener->socket, error);
    if (status != BASE_OK) {
        mesh_connection_free(listener);
        return status;
    }
    mesh->listener = listener;
    return net_socket_accept(listener->socket, error);
}

static enum base_status connect_call(struct shuffle_mesh *mesh, uint32_t peer, struct base_error *error)
{
    BASE_ASSERT(peer > mesh->config.worker && mesh->peers[peer].kind == MESH_REMOTE); /* the lower one calls */
    BASE_ASSERT(!mesh->peers[peer].connection && !mesh->closing);
    struct mesh_connection *connection = mesh_connection_make(mesh, MESH_CONNECTING, peer);
    if (!connection)
        return connect_no_memory(error);
    const enum base_status status =
        net_socket_connect(mesh->config.engine, &mesh->config.address[peer], mesh->connect_deadline_ns, connection,
                           &connection->socket, error);
    if (status != BASE_OK) {
        mesh_connection_free(connection);
        return status;
    }
    mesh->peers[peer].connection = connection;
    return BASE_OK;
}

void mesh_connect_again(struct shuffle_mesh *mesh, uint32_t peer)
{
    BASE_ASSERT(!mesh->peers[peer].connection && mesh->peers[peer].retry_ns == UINT64_MAX);
    mesh->peers[peer].retry_ns = net_engine_now_ns(mesh->config.engine) + RETRY_NS;
    mesh->retries++;
}

enum base_status shuffle_mesh_connect(struct shuffle_mesh *mesh, struct base_error *error)
{
    const uint32_t worker = mesh->config.worker, workers = mesh->config.workers;
    BASE_ASSERT(!mesh->connecting && !mesh->closing);
    mesh->connecting = true;
    if (mesh->remote_count == 0)
        return BASE_OK;
    connect_on(mesh);
    enum base_status status = connect_listen(mesh, error);
    for (uint32_t i = worker + 1; i < workers && status == BASE_OK; i++) {
        if (mesh->peers[i].kind == MESH_REMOTE)
            status = connect_call(mesh, i, error);
    }
    return status;
}

bool shuffle_mesh_connected(const struct shuffle_mesh *mesh)
{
    return mesh->connecting && mesh->open_count == mesh->remote_count;
}

/* ---- who is there ---- */

static void connection_open(struct mesh_connection *connection)
{
    base_state_enter(&connection->state, MESH_OPEN);
    connection->mesh->open_count++;
    BASE_ASSERT(connection->mesh->open_count <= connection->mesh->remote_count);
    BASE_ASSERT(mesh_peer_of(connection)->connection == connection);
    connect_on(connection->mesh);
    mesh_send_due(connection->mesh, connection->peer);
}

/* A caller is recognised: it gets our answer. NULL, or why not. */
static const char *arrival_recognise(struct mesh_connection *connection)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const uint32_t source = connection->greeting.source;
    BASE_ASSERT(connection->accepted && connection->peer == MESH_NOBODY && mesh->arrivals > 0);
    BASE_ASSERT(mesh->peers[source].kind == MESH_REMOTE); /* as the greeting was checked */
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

/* Somebody who has no key, another one, or another build. One line in the log tells it: a port that is open to the
 * world has many callers. */
static void stranger_tell(struct mesh_connection *connection, const char *words)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const bool called = connection->peer != MESH_NOBODY;
    if (!mesh->strangers_told)
        base_log_warn("worker %u: %s%s %s (later ones in this job are not logged)", mesh->config.worker,
                      called ? "what answers for node " : "a caller", called ? mesh_node(mesh, connection->peer) : "",
                      words);
    mesh->strangers_told = true;
    mesh_connection_stranger(connection, words);
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
    BASE_ASSERT(connection->mesh->config.key && connection->state.now == MESH_PROVING);
    const uint32_t taken = (uint32_t)net_proof_take(proof, chunk->data, chunk->bytes);
    if (proof->state == NET_PROOF_FAILED) {
        if (connection->peer != MESH_NOBODY) {
            connection->mesh->called_why = proof->why;
            connection->mesh->called_peer = connection->peer;
        }
        stranger_tell(connection, net_proof_words(proof->why));
        return taken;
    }
    if (proof->state == NET_PROOF_PROVED)
        base_state_enter(&connection->state, MESH_GREETING);
    if (connection->peer != MESH_NOBODY)
        mesh_send_due(connection->mesh, connection->peer);
    return taken;
}

/* Takes the greeting, or a part of it, from some bytes. Returns bytes taken. */
static uint32_t greeting_take(struct mesh_connection *connection, const uint8_t *data, uint32_t count)
{
    BASE_ASSERT(connection->state.now == MESH_GREETING && connection->greeting_bytes < sizeof connection->greeting);
    const uint32_t want = (uint32_t)sizeof connection->greeting - connection->greeting_bytes;
    const uint32_t bytes = count < want ? count : want;
    memcpy((uint8_t *)&connection->greeting + connection->greeting_bytes, data, bytes);
    connection->greeting_bytes += bytes;
    if (bytes < want)
        return bytes;
    char text[SHUFFLE_PREAMBLE_TEXT_BYTES];
    const char *why = shuffle_preamble_check(&connection->mesh->config, &connection->greeting, text);
    if (!why && connection->peer == MESH_NOBODY)
        why = arrival_recognise(connection);
    else if (!why && connection->greeting.source != connection->peer)
        why = "another worker than the one called answers";
    if (why == text)
        stranger_tell(connection, why);
    else if (why)
        mesh_connection_stranger(connection, why);
    else
        connection_open(connection);
    return bytes;
}

uint32_t mesh_connect_take(struct mesh_connection *connection, const struct net_chunk *chunk)
{
    BASE_ASSERT(connection->state.now != MESH_OPEN && connection->state.now != MESH_LISTENING);
    uint32_t taken = 0;
    if (connection->state.now == MESH_PROVING)
        taken = proof_take(connection, chunk);
    if (connection->state.now == MESH_GREETING)
        taken += greeting_take(connection, chunk->data + taken, chunk->bytes - taken);
    BASE_ASSERT(taken <= chunk->bytes);
    return taken;
}

void mesh_connect_ended(struct mesh_connection *connection)
{
    BASE_ASSERT(connection->state.now == MESH_PROVING || connection->state.now == MESH_GREETING);
    if (connection->state.now == MESH_PROVING && connection->proof.state == NET_PROOF_ANSWERED)
        stranger_tell(connection, "closed the connection after this side's proof: does its node have another key?");
    else
        mesh_connection_stranger(connection, "it closed the connection before it identified itself");
}

/* Callers, and those that are called. */

static enum base_status start_receiving(struct mesh_connection *connection)
{
    struct base_error cause;
    const enum base_status status = net_socket_receive(connection->socket, &cause);
    if (status != BASE_OK)
        mesh_connection_stranger(connection, cause.text);
    return status;
}

enum base_status mesh_connect_connected(struct mesh_connection *connection, const struct net_event *event,
                                        struct base_error *error)
{
    struct shuffle_mesh *mesh = connection->mesh;
    if (connection->state.now != MESH_CONNECTING)
        return BASE_OK;
    if (event->status == BASE_OK) {
        base_state_enter(&connection->state, mesh->config.key ? MESH_PROVING : MESH_GREETING);
        if (mesh->config.key)
            proof_open(connection, NET_PROOF_CALLER);
        shuffle_preamble_fill(&mesh->config, connection->peer, &connection->own_greeting);
        if (start_receiving(connection) == BASE_OK)
            mesh_send_due(connection->mesh, connection->peer);
        return BASE_OK;
    }
    char address[64];
    net_address_format(&mesh->config.address[connection->peer], address);
    const char *node = mesh_node(mesh, connection->peer);
    mesh_connection_close(connection, true);
    if (event->status == BASE_NODE_REFUSED)
        return base_error_set(
            error, BASE_NODE_REFUSED,
            "node %s at %s (worker %u) refused the connection from node %s: does that address belong to "
            "its daemon, or does a packet filter answer for it?",
            node, address, connection->peer, mesh_node(mesh, mesh->config.worker));
    /* Too late for what was known when it was called: whether connecting as a whole is late is judged in the turn. */
    if (event->status == BASE_PEER_RESET || event->status == BASE_BUSY || event->status == BASE_TIMEOUT)
        return BASE_OK; /* tried again */
    return base_error_set(error, BASE_UNREACHABLE, "node %s at %s (worker %u) cannot be reached from node %s: %s", node,
                          address, connection->peer, mesh_node(mesh, mesh->config.worker),
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
            mesh_connection_stranger(connection, "too many callers at once");
            return;
        }
    }
}

enum base_status mesh_connect_accepted(struct mesh_connection *listener, const struct net_event *event)
{
    struct shuffle_mesh *mesh = listener->mesh;
    if (event->status != BASE_OK || !event->accepted)
        return BASE_OK;
    BASE_ASSERT(listener->state.now == MESH_LISTENING || listener->state.now == MESH_CLOSING);
    const enum mesh_connection_state state = mesh->config.key ? MESH_PROVING : MESH_GREETING;
    struct mesh_connection *connection = mesh_connection_make(mesh, state, MESH_NOBODY);
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
    if (listener->state.now == MESH_CLOSING || mesh->closing) {
        mesh_connection_close(connection, true);
        return BASE_OK;
    }
    if (start_receiving(connection) == BASE_OK)
        arrivals_bound(mesh);
    return BASE_OK;
}

/* Once per turn. */

static enum base_status connect_late(const struct shuffle_mesh *mesh, struct base_error *error)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = mesh->config.workers; i-- > 0;) {
        const struct mesh_peer *peer = &mesh->peers[i];
        if (peer->kind == MESH_REMOTE && (!peer->connection || peer->connection->state.now != MESH_OPEN)) {
            missing++;
            first = i;
        }
    }
    char address[64];
    const bool key = mesh->called_why != NET_PROOF_WHY_NOTHING;
    net_address_format(&mesh->config.address[first], address);
    return base_error_set(error, BASE_UNREACHABLE,
                          "node %s at %s (worker %u) cannot be reached from node %s: no new connection within %.1f s "
                          "(%u of %u workers of "
                          "other nodes are missing; %" PRIu64 " strangers were turned away%s%s%s%s)",
                          mesh_node(mesh, first), address, first, mesh_node(mesh, mesh->config.worker),
                          (double)connect_patience_ns(mesh) / (double)BASE_NS_PER_S, missing, mesh->remote_count,
                          mesh->strangers, key ? "; what answers for node " : "",
                          key ? mesh_node(mesh, mesh->called_peer) : "", key ? " " : "",
                          key ? net_proof_words(mesh->called_why) : "");
}

static enum base_status connects_retry(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    const uint64_t now_ns = net_engine_now_ns(mesh->config.engine);
    for (uint32_t i = 0; i < mesh->config.workers && mesh->retries > 0; i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        if (peer->retry_ns > now_ns)
            continue;
        peer->retry_ns = UINT64_MAX;
        mesh->retries--;
        *worked = true;
        const enum base_status status = connect_call(mesh, i, error);
        if (status == BASE_TOO_LARGE)
            mesh_connect_again(mesh, i); /* strangers have all sockets; they are closing */
        else if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* Those who do not say who they are, and the time for connecting as a whole. When all are there, the door closes. */
enum base_status mesh_connect_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    if (!mesh->connecting || !mesh->listener)
        return BASE_OK;
    const bool connected = shuffle_mesh_connected(mesh);
    const uint64_t now_ns = net_engine_now_ns(mesh->config.engine);
    struct mesh_connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (!mesh_connection_strange(connection) || (!connected && connection->deadline_ns > now_ns))
            continue;
        *worked = true;
        mesh->strangers++;
        mesh_connection_close(connection, true);
    }
    if (connected) {
        *worked = true;
        mesh_connection_close(mesh->listener, false);
        mesh->listener = NULL;
        return BASE_OK;
    }
    if (now_ns >= mesh->connect_deadline_ns)
        return connect_late(mesh, error);
    return connects_retry(mesh, worked, error);
}

uint64_t mesh_connect_deadline_ns(const struct shuffle_mesh *mesh)
{
    if (mesh->closing || !mesh->listener || !mesh->connecting)
        return UINT64_MAX;
    uint64_t deadline_ns = mesh->connect_deadline_ns;
    const struct mesh_connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (mesh_connection_strange(connection))
            deadline_ns = base_min_u64(deadline_ns, connection->deadline_ns);
    }
    for (uint32_t i = 0; i < mesh->config.workers && mesh->retries > 0; i++)
        deadline_ns = base_min_u64(deadline_ns, mesh->peers[i].retry_ns);
    return deadline_ns;
}
