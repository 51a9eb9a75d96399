/* The mesh: peers, and what goes on between them in a worker's turn.
 *
 * Sending: a sealed frame is queued at its peer and the peer is staged; kick starts what can be started: a send over
 * the connection (one in flight, all queued frames gathered into it), or posts into the neighbour's mailbox. What an
 * engine refuses stays staged for the next turn; what a full mailbox or a send in flight holds up goes on when that
 * event comes. A frame goes home at its SENT, or out of the home queue of its mailbox.
 *
 * Receiving: everything goes through the peer's inlet. Mailboxes are always emptied into inlets, where frames may wait
 * for a sink, so that a mailbox holds only news and a worker with a busy sink can sleep.
 *
 * Closing: no more deliveries, all inlets give back what they hold. Frames not in flight go home at once, those in
 * flight at their SENT, which comes before CLOSED. Mailboxes are emptied and returned until all workers of the node
 * have left the job: what was posted to a worker is returned by it, whoever closes first. Nothing here waits for a sink
 * or for another worker to receive, only for all workers of the node to be told to close.
 *
 * Records: a connection is freed at CLOSED; a peer never before the mesh. */
#include "shuffle/exchange/mesh_internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"

enum { CUT_ROW_BYTES = 1024 };
/* Connecting is late when no connection came for connect_timeout_ns, and this for each of those that the node makes:
 * workers that share a processor take turns, and a crowd of them is slow without being stuck. */
#define MESH_CONNECTION_NS (1 * BASE_NS_PER_MS)

static bool is_local(const struct shuffle_mesh_config *config, uint32_t worker)
{
    return worker >= config->local_first && worker - config->local_first < config->local_count;
}

static uint32_t local_number(const struct shuffle_mesh *mesh, uint32_t worker)
{
    return worker - mesh->config.local_first;
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

const char *shuffle_mesh_node(const struct shuffle_mesh *mesh, uint32_t worker)
{
    return mesh->config.node_name[worker];
}

static void peers_prepare(struct shuffle_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->config.workers; i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        peer->kind = i == mesh->config.worker ? MESH_SELF : is_local(&mesh->config, i) ? MESH_LOCAL : MESH_REMOTE;
        peer->retry_ns = UINT64_MAX;
        mesh->remote_count += peer->kind == MESH_REMOTE;
        shuffle_inlet_open(&peer->inlet, mesh, i);
    }
}

static enum base_status config_check(const struct shuffle_mesh_config *config, struct base_error *error)
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
    const enum base_status status = config_check(config, error);
    if (status != BASE_OK)
        return status;
    struct shuffle_mesh *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the mesh");
    opened->config = *config;
    opened->connect_deadline_ns = UINT64_MAX;
    /* The rest is for what still arrives: a cut row waits for its end, which needs a chunk, too. */
    opened->kept_max = config->engine ? net_engine_chunk_count(config->engine) / 2 : 0;
    TAILQ_INIT(&opened->connections);
    TAILQ_INIT(&opened->stage);
    opened->peers = calloc(config->workers, sizeof *opened->peers);
    opened->sent_bytes = calloc(config->workers, sizeof *opened->sent_bytes);
    opened->received_bytes = calloc(config->workers, sizeof *opened->received_bytes);
    if (!opened->peers || !opened->sent_bytes || !opened->received_bytes) {
        free(opened->received_bytes);
        free(opened->sent_bytes);
        free(opened->peers);
        free(opened);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the mesh of %u workers", config->workers);
    }
    peers_prepare(opened);
    if (config->mailroom)
        shuffle_mailroom_join(config->mailroom, local_number(opened, config->worker), config->job);
    *mesh = opened;
    return BASE_OK;
}

static uint64_t connect_patience_ns(const struct shuffle_mesh *mesh)
{
    const uint64_t connections = (uint64_t)mesh->config.local_count * mesh->remote_count;
    return mesh->config.connect_timeout_ns + connections * MESH_CONNECTION_NS;
}

void shuffle_mesh_connect_on(struct shuffle_mesh *mesh)
{
    const uint64_t now_ns = net_engine_now_ns(mesh->config.engine);
    mesh->connect_deadline_ns = now_ns + base_min_u64(connect_patience_ns(mesh), UINT64_MAX - 1 - now_ns);
}

enum base_status shuffle_mesh_connect(struct shuffle_mesh *mesh, struct base_error *error)
{
    const uint32_t worker = mesh->config.worker, workers = mesh->config.workers;
    BASE_ASSERT(!mesh->connecting && !mesh->closing);
    mesh->connecting = true;
    if (mesh->remote_count == 0)
        return BASE_OK;
    shuffle_mesh_connect_on(mesh);
    enum base_status status = mesh_connection_listen(mesh, error);
    for (uint32_t i = worker + 1; i < workers && status == BASE_OK; i++) {
        if (mesh->peers[i].kind == MESH_REMOTE)
            status = mesh_connection_connect(mesh, i, error);
    }
    return status;
}

bool shuffle_mesh_connected(const struct shuffle_mesh *mesh)
{
    return mesh->connecting && mesh->open_count == mesh->remote_count;
}

/* Exchanges. */

enum base_status shuffle_mesh_attach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange,
                                     struct base_error *error)
{
    struct shuffle_exchange **place = &mesh->exchange[exchange->config.id];
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
    if (exchange->lanes_away > 0)
        base_log_warn("exchange %u closes while %u of its frames are not home", exchange->config.id,
                      exchange->lanes_away);
    mesh->exchange[exchange->config.id] = NULL;
}

bool shuffle_mesh_peer_done(const struct shuffle_mesh *mesh, uint32_t peer)
{
    if (mesh->config.raw)
        return mesh->config.raw->done(mesh->config.raw->context, peer);
    bool any = false;
    for (uint32_t i = 0; i < SHUFFLE_EXCHANGES_MAX; i++) {
        const struct shuffle_exchange *exchange = mesh->exchange[i];
        if (!exchange)
            continue;
        any = true;
        if (!exchange->in[peer].ended || !exchange->finished)
            return false;
    }
    return any;
}

/* Sending. */

void shuffle_mesh_stage(struct shuffle_mesh *mesh, uint32_t worker)
{
    struct mesh_peer *peer = &mesh->peers[worker];
    if (peer->staged)
        return;
    peer->staged = true;
    TAILQ_INSERT_TAIL(&mesh->stage, peer, stage);
}

void shuffle_mesh_offer(struct shuffle_mesh *mesh, uint32_t worker)
{
    BASE_ASSERT(mesh->config.raw && mesh->peers[worker].kind == MESH_REMOTE);
    shuffle_mesh_stage(mesh, worker);
}

void shuffle_mesh_send(struct shuffle_mesh *mesh, struct shuffle_frame *frame)
{
    struct mesh_peer *peer = &mesh->peers[frame->destination];
    BASE_ASSERT(peer->kind != MESH_SELF);
    if (mesh->closing) {
        shuffle_frame_home(frame);
        return;
    }
    shuffle_frame_queue_put(&peer->out, frame);
    shuffle_mesh_stage(mesh, frame->destination);
}

static void post_frames(struct shuffle_mesh *mesh, uint32_t worker)
{
    struct shuffle_frame_queue *out = &mesh->peers[worker].out;
    const uint32_t from = local_number(mesh, mesh->config.worker), to = local_number(mesh, worker);
    while (out->first) {
        /* Once posted it is the neighbour's, who links it elsewhere. */
        struct shuffle_frame *frame = out->first, *next = frame->next;
        if (!shuffle_mailroom_post(mesh->config.mailroom, from, to, frame))
            return;
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
    for (struct mesh_peer *peer = TAILQ_FIRST(&mesh->stage); peer; peer = next) {
        next = TAILQ_NEXT(peer, stage);
        if (peer->kind == MESH_LOCAL)
            post_frames(mesh, (uint32_t)(peer - mesh->peers));
        else if (peer->connection && !mesh_connection_kick(peer->connection)) {
            mesh->sends_refused++;
            continue;
        }
        peer->staged = false;
        TAILQ_REMOVE(&mesh->stage, peer, stage);
    }
    /* Callers are no peers yet, but hear our proof. */
    struct mesh_connection *connection;
    if (!mesh->config.key || mesh->arrivals == 0)
        return;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (mesh_connection_strange(connection) && !mesh_connection_kick(connection))
            mesh->sends_refused++;
    }
}

/* Receiving. */

void shuffle_mesh_piece_release(struct shuffle_mesh *mesh, uint32_t peer, const struct shuffle_piece *piece)
{
    if (piece->chunk.data)
        net_chunk_release(mesh->config.engine, &piece->chunk);
    if (piece->frame)
        shuffle_mailroom_return(mesh->config.mailroom, local_number(mesh, mesh->config.worker),
                                local_number(mesh, peer), piece->frame);
}

struct shuffle_group *shuffle_mesh_group_take(struct shuffle_mesh *mesh)
{
    struct shuffle_group *group = mesh->spares;
    if (group)
        mesh->spares = group->next;
    else
        group = malloc(sizeof *group);
    return group;
}

void shuffle_mesh_group_give(struct shuffle_mesh *mesh, struct shuffle_group *group)
{
    group->next = mesh->spares;
    mesh->spares = group;
}

static enum base_status mailbox_empty(struct shuffle_mesh *mesh, uint32_t worker, bool *worked,
                                      struct base_error *error)
{
    struct mesh_peer *peer = &mesh->peers[worker];
    const uint32_t at = local_number(mesh, mesh->config.worker), from = local_number(mesh, worker);
    struct shuffle_frame *frame;
    while ((frame = shuffle_mailroom_take_home(mesh->config.mailroom, at, from))) {
        *worked = true;
        shuffle_frame_home(frame);
        if (peer->out.first)
            shuffle_mesh_stage(mesh, worker);
    }
    while ((frame = shuffle_mailroom_take(mesh->config.mailroom, at, from))) {
        *worked = true;
        if (mesh->closing) {
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

static enum base_status mailboxes_empty(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    const struct shuffle_mesh_config *config = &mesh->config;
    for (uint32_t i = 1; i < config->local_count; i++) {
        const uint32_t local = (local_number(mesh, config->worker) + i) % config->local_count;
        const enum base_status status = mailbox_empty(mesh, config->local_first + local, worked, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* Inlets that wait try again; peers that said their last are judged when all they said was taken. */
static enum base_status inlets_retry(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    for (uint32_t i = 0; i < mesh->config.workers && (mesh->stalled > 0 || mesh->fins > 0); i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        if (peer->inlet.counted_stalled) {
            const enum base_status status = shuffle_inlet_run(&peer->inlet, worked, error);
            if (status != BASE_OK)
                return status;
        }
        if (!peer->fin || shuffle_inlet_stalled(&peer->inlet) || shuffle_mesh_peer_done(mesh, i))
            continue;
        return base_error_set(error, BASE_PEER_CLOSED,
                              "node %s closed the connection from worker %u before its streams ended: see what that "
                              "node says",
                              shuffle_mesh_node(mesh, i), i);
    }
    return BASE_OK;
}

/* Connecting. */

static enum base_status connect_late(const struct shuffle_mesh *mesh, struct base_error *error)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = mesh->config.workers; i-- > 0;) {
        const struct mesh_peer *peer = &mesh->peers[i];
        if (peer->kind == MESH_REMOTE && (!peer->connection || peer->connection->state != MESH_OPEN)) {
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
                          "other nodes are missing; %llu strangers were turned away%s%s%s%s)",
                          shuffle_mesh_node(mesh, first), address, first, shuffle_mesh_node(mesh, mesh->config.worker),
                          (double)connect_patience_ns(mesh) / (double)BASE_NS_PER_S, missing, mesh->remote_count,
                          (unsigned long long)mesh->strangers, key ? "; what answers for node " : "",
                          key ? shuffle_mesh_node(mesh, mesh->called_peer) : "", key ? " " : "",
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
        const enum base_status status = mesh_connection_connect(mesh, i, error);
        if (status == BASE_TOO_LARGE)
            mesh_connection_retry(mesh, i); /* strangers have all sockets; they are on their way out */
        else if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

/* Those who do not say who they are, and the time for connecting as a whole. When all are there, the door closes. */
static enum base_status connecting_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
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

enum base_status shuffle_mesh_event(struct shuffle_mesh *mesh, const struct net_event *event, struct base_error *error)
{
    struct mesh_connection *connection = event->context;
    BASE_ASSERT(connection && connection->mesh == mesh);
    return mesh_connection_event(connection, event, error);
}

enum base_status shuffle_mesh_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (mesh->config.mailroom)
        status = mailboxes_empty(mesh, worked, error);
    if (status == BASE_OK && !mesh->closing)
        status = inlets_retry(mesh, worked, error);
    if (status == BASE_OK && !mesh->closing)
        status = connecting_turn(mesh, worked, error);
    if (status == BASE_OK)
        shuffle_mesh_kick(mesh);
    return status;
}

uint64_t shuffle_mesh_deadline_ns(const struct shuffle_mesh *mesh)
{
    if (mesh->sends_refused > 0)
        return 0;
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

const uint64_t *shuffle_mesh_sent_bytes(const struct shuffle_mesh *mesh)
{
    return mesh->sent_bytes;
}

const uint64_t *shuffle_mesh_received_bytes(const struct shuffle_mesh *mesh)
{
    return mesh->received_bytes;
}

bool shuffle_mesh_socket_facts(const struct shuffle_mesh *mesh, struct net_socket_facts *facts)
{
    const uint32_t workers = mesh->config.workers;
    facts->known = false;
    for (uint32_t i = 0; i < workers && !facts->known; i++)
        if (mesh->peers[i].connection != NULL && mesh->peers[i].connection->socket != NULL)
            net_socket_facts_read(mesh->peers[i].connection->socket, facts);
    return facts->known;
}

/* Closing. */

void shuffle_mesh_queue_drop(struct shuffle_mesh *mesh, uint32_t worker)
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
}

void shuffle_mesh_close(struct shuffle_mesh *mesh, bool abort)
{
    if (mesh->closing)
        return;
    mesh->closing = true;
    for (uint32_t i = 0; i < mesh->config.workers; i++) {
        struct mesh_peer *peer = &mesh->peers[i];
        shuffle_inlet_drop(&peer->inlet);
        if (abort || !peer->connection || peer->connection->state != MESH_OPEN)
            shuffle_mesh_queue_drop(mesh, i);
    }
    struct mesh_connection *connection;
    TAILQ_FOREACH(connection, &mesh->connections, all)
    {
        if (!abort && connection->state == MESH_OPEN)
            mesh_connection_linger(connection);
        else
            mesh_connection_close(connection, connection->state != MESH_LISTENING);
    }
    mesh->listener = NULL;
    if (mesh->config.mailroom)
        shuffle_mailroom_leave(mesh->config.mailroom, local_number(mesh, mesh->config.worker));
}

bool shuffle_mesh_closed(const struct shuffle_mesh *mesh)
{
    if (!mesh->closing || !TAILQ_EMPTY(&mesh->connections) || mesh->orphans > 0)
        return false;
    for (uint32_t i = 0; i < SHUFFLE_EXCHANGES_MAX; i++) {
        if (mesh->exchange[i] && mesh->exchange[i]->lanes_away > 0)
            return false;
    }
    if (!mesh->config.mailroom)
        return true;
    /* In this order: what was posted before the last one left is seen by the look behind it. */
    return shuffle_mailroom_left(mesh->config.mailroom, mesh->config.job) &&
           shuffle_mailroom_empty(mesh->config.mailroom, local_number(mesh, mesh->config.worker));
}

void shuffle_mesh_free(struct shuffle_mesh *mesh)
{
    if (!mesh)
        return;
    BASE_ASSERT(mesh->closing && TAILQ_EMPTY(&mesh->connections));
    struct shuffle_group *group;
    while ((group = mesh->spares)) {
        mesh->spares = group->next;
        free(group);
    }
    free(mesh->received_bytes);
    free(mesh->sent_bytes);
    free(mesh->peers);
    free(mesh);
}
