/* What comes to a mesh: events of its sockets, frames in its mailboxes. Everything a peer sends goes through the peer's
 * inlet. Mailboxes are always emptied into inlets, where frames may wait for a sink, so that a mailbox holds only news
 * and a worker with a busy sink can sleep. After OPEN every loss is an error, unless both sides had said all. */
#include "shuffle/mesh/internal.h"

#include "base/assert.h"

static bool peer_done(const struct shuffle_mesh *mesh, uint32_t peer)
{
    if (mesh->config.raw)
        return mesh->config.raw->done(mesh->config.raw->context, peer);
    bool any = false;
    for (uint32_t i = 0; i < SHUFFLE_EXCHANGES_MAX; i++) {
        const struct shuffle_exchange *exchange = mesh->inlets.exchange[i];
        if (!exchange)
            continue;
        any = true;
        if (!exchange->in[peer].ended || !exchange->finished)
            return false;
    }
    return any;
}

/* A raw job has no inlets. */
static enum base_status on_raw_chunk(struct mesh_connection *connection, const struct net_chunk *chunk, uint32_t taken,
                                     struct base_error *error)
{
    BASE_ASSERT(connection->state.now == MESH_OPEN && taken < chunk->bytes);
    struct shuffle_mesh *mesh = connection->mesh;
    const struct shuffle_mesh_raw *raw = mesh->config.raw;
    enum base_status status = BASE_OK;
    if (!mesh->closing) {
        mesh->inlets.received_bytes[connection->peer] += chunk->bytes - taken;
        status = raw->received(raw->context, connection->peer, chunk->data + taken, chunk->bytes - taken, error);
    }
    net_chunk_release(mesh->config.engine, chunk);
    return status;
}

static enum base_status on_chunk(struct mesh_connection *connection, const struct net_chunk *chunk,
                                 struct base_error *error)
{
    const uint32_t taken = connection->state.now == MESH_OPEN ? 0 : mesh_connect_take(connection, chunk);
    if (connection->state.now != MESH_OPEN || taken == chunk->bytes) {
        net_chunk_release(connection->mesh->config.engine, chunk);
        return BASE_OK;
    }
    if (connection->mesh->config.raw)
        return on_raw_chunk(connection, chunk, taken, error);
    const struct shuffle_piece piece = {.data = chunk->data + taken, .bytes = chunk->bytes - taken, .chunk = *chunk};
    return shuffle_inlet_push(&mesh_peer_of(connection)->inlet, &piece, error);
}

static enum base_status on_received(struct mesh_connection *connection, const struct net_event *event,
                                    struct base_error *error)
{
    struct shuffle_mesh *mesh = connection->mesh;
    if (event->status == BASE_OK)
        return on_chunk(connection, &event->chunk, error);
    if (connection->state.now == MESH_PROVING || connection->state.now == MESH_GREETING) {
        mesh_connect_ended(connection);
        return BASE_OK;
    }
    if (connection->state.now != MESH_OPEN || peer_done(mesh, connection->peer))
        return BASE_OK;
    if (event->status != BASE_END)
        return mesh_connection_lost(connection, event, error);
    /* Judged in the mesh's turn, when the inlet has taken what came before. */
    BASE_ASSERT(!mesh_peer_of(connection)->fin);
    mesh_peer_of(connection)->fin = true;
    mesh->fins++;
    return BASE_OK;
}

static void mesh_on_closed(struct mesh_connection *connection)
{
    struct shuffle_mesh *mesh = connection->mesh;
    const uint32_t worker = connection->peer;
    if (worker != MESH_NOBODY) {
        BASE_ASSERT(mesh->peers[worker].connection == connection);
        mesh->peers[worker].connection = NULL;
        if (!mesh->closing && worker > mesh->config.worker)
            mesh_connect_again(mesh, worker);
        if (mesh->closing)
            mesh_send_drop(mesh, worker);
    }
    mesh_connection_free(connection);
}

/* A socket accepted when there was no memory for its record. */
static void orphan_event(struct shuffle_mesh *mesh, const struct net_event *event)
{
    BASE_ASSERT(mesh->orphans > 0);
    if (event->kind == NET_EVENT_RECEIVED && event->status == BASE_OK)
        net_chunk_release(mesh->config.engine, &event->chunk);
    if (event->kind == NET_EVENT_CLOSED)
        mesh->orphans--;
}

enum base_status shuffle_mesh_event(struct shuffle_mesh *mesh, const struct net_event *event, struct base_error *error)
{
    struct mesh_connection *connection = event->context;
    BASE_ASSERT(connection && connection->mesh == mesh);
    if (connection == &mesh->orphan) {
        orphan_event(mesh, event);
        return BASE_OK;
    }
    switch (event->kind) {
    case NET_EVENT_ACCEPTED:
        return mesh_connect_accepted(connection, event);
    case NET_EVENT_CONNECTED:
        return mesh_connect_connected(connection, event, error);
    case NET_EVENT_RECEIVED:
        return on_received(connection, event, error);
    case NET_EVENT_OUT:
        mesh_send_out(connection);
        return BASE_OK;
    case NET_EVENT_SENT:
        return mesh_send_sent(connection, event, error);
    case NET_EVENT_CLOSED:
        mesh_on_closed(connection);
        return BASE_OK;
    default:
        return BASE_OK;
    }
}

/* Once per turn. */

static enum base_status mailbox_empty(struct shuffle_mesh *mesh, uint32_t worker, bool *worked,
                                      struct base_error *error)
{
    struct mesh_peer *peer = &mesh->peers[worker];
    const uint32_t at = mesh_local_number(mesh, mesh->config.worker), from = mesh_local_number(mesh, worker);
    BASE_ASSERT(peer->kind == MESH_LOCAL);
    struct shuffle_frame *frame;
    while ((frame = shuffle_mailroom_take_home(mesh->config.mailroom, at, from))) {
        *worked = true;
        shuffle_frame_home(frame);
        if (peer->out.first)
            mesh_send_due(mesh, worker);
    }
    while ((frame = shuffle_mailroom_take(mesh->config.mailroom, at, from))) {
        *worked = true;
        if (mesh->closing) {
            BASE_ASSERT(!shuffle_inlet_holds(&peer->inlet));
            shuffle_mailroom_return(mesh->config.mailroom, at, from, frame);
            continue;
        }
        const struct shuffle_piece piece = {.data = frame->wire, .bytes = frame->wire_bytes, .frame = frame};
        const enum base_status status = shuffle_inlet_push(&peer->inlet, &piece, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

enum base_status mesh_receive_mail(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    const struct shuffle_mesh_config *config = &mesh->config;
    for (uint32_t i = 1; i < config->local_count; i++) {
        const uint32_t local = (mesh_local_number(mesh, config->worker) + i) % config->local_count;
        const enum base_status status = mailbox_empty(mesh, config->local_first + local, worked, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* The peer has sent its last byte, and all it sent is taken: were its streams over by then? */
static enum base_status fin_judge(struct shuffle_mesh *mesh, uint32_t worker, struct base_error *error)
{
    BASE_ASSERT(mesh->fins > 0);
    mesh->peers[worker].fin = false;
    mesh->fins--;
    if (peer_done(mesh, worker))
        return BASE_OK;
    return base_error_set(error, BASE_PEER_CLOSED,
                          "node %s closed the connection from worker %u before its streams ended: see what that "
                          "node says",
                          mesh_node(mesh, worker), worker);
}

enum base_status mesh_receive_retry(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < mesh->config.workers && (mesh->inlets.stalled > 0 || mesh->fins > 0); i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        if (peer->inlet.stalled)
            status = shuffle_inlet_run(&peer->inlet, worked, error);
        if (status == BASE_OK && peer->fin && !shuffle_inlet_holds(&peer->inlet))
            status = fin_judge(mesh, i, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}
