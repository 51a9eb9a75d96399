/* The mesh: peers, and what goes on between them in a worker's turn. Its files call downward only: mesh.c, then
 * receive.c (events and mailboxes into inlets), connect.c (until all are there), send.c (frames out),
 * mesh/connection.c (a socket's record).
 *
 * Closing: no more deliveries, all inlets give back what they hold. Frames not in flight go home at once, those in
 * flight at their SENT, which comes before CLOSED. Mailboxes are emptied and returned until all workers of the node
 * have left the job: what was posted to a worker is returned by it, whoever closes first. Nothing here waits for a sink
 * or for another worker to receive, only for all workers of the node to be told to close.
 *
 * Records: a connection is freed at CLOSED; a peer never before the mesh. */
#include "shuffle/mesh/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"
#include "shuffle/mesh/lanes.h"

enum { CUT_ROW_BYTES = 1024 };

static bool is_local(const struct shuffle_mesh_config *config, uint32_t worker)
{
    return worker >= config->local_first && worker - config->local_first < config->local_count;
}

uint32_t shuffle_mesh_worker(const struct shuffle_mesh *mesh)
{
    return mesh->config.worker;
}

uint32_t shuffle_mesh_workers(const struct shuffle_mesh *mesh)
{
    return mesh->config.workers;
}

struct net_engine *shuffle_mesh_engine(const struct shuffle_mesh *mesh)
{
    return mesh->config.engine;
}

static void peers_prepare(struct shuffle_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->config.workers; i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        peer->kind = i == mesh->config.worker ? MESH_SELF : is_local(&mesh->config, i) ? MESH_LOCAL : MESH_REMOTE;
        peer->retry_ns = UINT64_MAX;
        mesh->remote_count += peer->kind == MESH_REMOTE;
        shuffle_inlet_open(&peer->inlet, &mesh->inlets, i);
    }
    BASE_ASSERT(mesh->remote_count + mesh->config.local_count == mesh->config.workers);
}

static enum base_status mesh_check_config(const struct shuffle_mesh_config *config, struct base_error *error)
{
    const uint64_t local_end = (uint64_t)config->local_first + config->local_count;
    if (config->workers == 0 || !is_local(config, config->worker) || local_end > config->workers)
        return base_error_set(error, BASE_INVALID, "worker %u of %u, with %u workers of its node from %u on",
                              config->worker, config->workers, config->local_count, config->local_first);
    if (config->local_count < config->workers && config->listener_fd < 0)
        return base_error_set(error, BASE_INVALID, "worker %u has no listener for the workers of other nodes",
                              config->worker);
    if (config->local_count > 1 && !config->mailroom)
        return base_error_set(error, BASE_INVALID, "worker %u has no mailroom for the workers of its node",
                              config->worker);
    return BASE_OK;
}

enum base_status shuffle_mesh_open(const struct shuffle_mesh_config *config, struct shuffle_mesh **mesh,
                                   struct base_error *error)
{
    const enum base_status status = mesh_check_config(config, error);
    if (status != BASE_OK)
        return status;
    struct shuffle_mesh *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the mesh");
    opened->config = *config;
    opened->connect_deadline_ns = UINT64_MAX;
    opened->inlets = (struct shuffle_inlets){
        .engine = config->engine,
        .governor = config->governor,
        .mailroom = config->mailroom,
        .node_name = config->node_name,
        .worker = config->worker,
        .local_first = config->local_first,
        /* The rest is for what still arrives: a cut row waits for its end, which needs a chunk, too. */
        .kept_max = config->engine ? net_engine_chunk_count(config->engine) / 2 : 0,
    };
    TAILQ_INIT(&opened->connections);
    TAILQ_INIT(&opened->due);
    opened->peers = calloc(config->workers, sizeof *opened->peers);
    opened->sent_bytes = calloc(config->workers, sizeof *opened->sent_bytes);
    opened->inlets.received_bytes = calloc(config->workers, sizeof *opened->inlets.received_bytes);
    if (!opened->peers || !opened->sent_bytes || !opened->inlets.received_bytes) {
        free(opened->inlets.received_bytes);
        free(opened->sent_bytes);
        free(opened->peers);
        free(opened);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the mesh of %u workers", config->workers);
    }
    peers_prepare(opened);
    if (config->mailroom)
        shuffle_mailroom_join(config->mailroom, mesh_local_number(opened, config->worker), config->job);
    *mesh = opened;
    return BASE_OK;
}

/* Exchanges. */

enum base_status shuffle_mesh_attach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange,
                                     struct base_error *error)
{
    struct shuffle_exchange **place = &mesh->inlets.exchange[exchange->config.id];
    BASE_ASSERT(exchange->config.mesh == mesh && exchange->workers == mesh->config.workers);
    if (*place)
        return base_error_set(error, BASE_EXISTS, "exchange %u is open already", exchange->config.id);
    /* Rows of variable width are mostly small; the buffer grows for others. */
    const uint32_t cut = exchange->row_bytes ? exchange->row_bytes : CUT_ROW_BYTES;
    for (uint32_t i = 0; i < mesh->config.workers; i++) {
        if (mesh->peers[i].kind != MESH_REMOTE)
            continue;
        const enum base_status status = shuffle_inlet_reserve(&mesh->peers[i].inlet, cut, error);
        if (status != BASE_OK)
            return status;
    }
    *place = exchange;
    return BASE_OK;
}

void shuffle_mesh_detach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange)
{
    BASE_ASSERT(mesh->inlets.exchange[exchange->config.id] == exchange);
    if (exchange->lanes_away > 0)
        base_log_error("exchange %u closes while %u of its frames are not home", exchange->config.id,
                       exchange->lanes_away);
    mesh->inlets.exchange[exchange->config.id] = NULL;
}

enum base_status shuffle_mesh_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (mesh->config.mailroom)
        status = mesh_receive_mail(mesh, worked, error);
    if (status == BASE_OK && !mesh->closing)
        status = mesh_receive_retry(mesh, worked, error);
    if (status == BASE_OK && !mesh->closing)
        status = mesh_connect_turn(mesh, worked, error);
    if (status == BASE_OK)
        shuffle_mesh_kick(mesh);
    return status;
}

uint64_t shuffle_mesh_deadline_ns(const struct shuffle_mesh *mesh)
{
    return mesh->sends_refused > 0 ? 0 : mesh_connect_deadline_ns(mesh);
}

const uint64_t *shuffle_mesh_sent_bytes(const struct shuffle_mesh *mesh)
{
    return mesh->sent_bytes;
}

const uint64_t *shuffle_mesh_received_bytes(const struct shuffle_mesh *mesh)
{
    return mesh->inlets.received_bytes;
}

bool shuffle_mesh_socket_facts(const struct shuffle_mesh *mesh, struct net_socket_facts *facts)
{
    const uint32_t workers = mesh->config.workers;
    facts->known = false;
    for (uint32_t i = 0; i < workers && !facts->known; i++)
        if (mesh->peers[i].connection && mesh->peers[i].connection->socket)
            net_socket_facts_read(mesh->peers[i].connection->socket, facts);
    return facts->known;
}

/* Closing. */

void shuffle_mesh_close(struct shuffle_mesh *mesh, bool abort)
{
    if (mesh->closing)
        return;
    mesh->closing = true;
    for (uint32_t i = 0; i < mesh->config.workers; i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        shuffle_inlet_drop(&peer->inlet);
        if (abort || !peer->connection || peer->connection->state.now != MESH_OPEN)
            mesh_send_drop(mesh, i);
    }
    struct mesh_connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (!abort && connection->state.now == MESH_OPEN)
            mesh_send_linger(connection);
        else
            mesh_connection_close(connection, connection->state.now != MESH_LISTENING);
    }
    mesh->listener = NULL;
    BASE_ASSERT(mesh->inlets.stalled == 0 && mesh->inlets.kept == 0); /* inlets hold nothing of anybody's any more */
    if (mesh->config.mailroom)
        shuffle_mailroom_leave(mesh->config.mailroom, mesh_local_number(mesh, mesh->config.worker));
}

bool shuffle_mesh_closed(const struct shuffle_mesh *mesh)
{
    if (!mesh->closing || !TAILQ_EMPTY(&mesh->connections) || mesh->orphans > 0)
        return false;
    for (uint32_t i = 0; i < SHUFFLE_EXCHANGES_MAX; i++) {
        if (mesh->inlets.exchange[i] && mesh->inlets.exchange[i]->lanes_away > 0)
            return false;
    }
    if (!mesh->config.mailroom)
        return true;
    /* In this order: what was posted before the last one left is seen by the look after it. */
    return shuffle_mailroom_left(mesh->config.mailroom, mesh->config.job) &&
           shuffle_mailroom_empty(mesh->config.mailroom, mesh_local_number(mesh, mesh->config.worker));
}

void shuffle_mesh_free(struct shuffle_mesh *mesh)
{
    if (!mesh)
        return;
    BASE_ASSERT(mesh->closing && TAILQ_EMPTY(&mesh->connections));
    for (uint32_t i = 0; i < SHUFFLE_EXCHANGES_MAX; i++)
        BASE_ASSERT(!mesh->inlets.exchange[i]); /* closed before */
    shuffle_inlets_free(&mesh->inlets);
    free(mesh->inlets.received_bytes);
    free(mesh->sent_bytes);
    free(mesh->peers);
    free(mesh);
}
