/* One socket of the mesh: its record, from the first call to CLOSED, and the states in between.
 *
 *   listener              LISTENING -> CLOSING
 *   the lower worker      CONNECTING -> (PROVING ->) GREETING -> OPEN -> (LINGERING ->) CLOSING
 *   the higher worker                   (PROVING ->) GREETING -> OPEN -> (LINGERING ->) CLOSING
 *
 * How a connection comes to be OPEN is in connect.c, what it sends in send.c, what comes in receive.c.
 */
#include "shuffle/mesh/internal.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/log.h"

#define FROM(state) (1U << MESH_##state)
static const struct base_state_row connection_rows[MESH_STATE_COUNT] = {
    [MESH_LISTENING] = {"listening", 0},
    [MESH_CONNECTING] = {"connecting", 0},
    [MESH_PROVING] = {"proving", FROM(CONNECTING)},
    [MESH_GREETING] = {"greeting", FROM(CONNECTING) | FROM(PROVING)},
    [MESH_OPEN] = {"open", FROM(GREETING)},
    [MESH_LINGERING] = {"lingering", FROM(OPEN)},
    [MESH_CLOSING] = {"closing", FROM(LISTENING) | FROM(CONNECTING) | FROM(PROVING) | FROM(GREETING) | FROM(OPEN) |
                                     FROM(LINGERING)},
};
#undef FROM
static const struct base_machine connection_machine = {"connection of a mesh", connection_rows, MESH_STATE_COUNT};

struct mesh_connection *mesh_connection_make(struct shuffle_mesh *mesh, enum mesh_connection_state state, uint32_t peer)
{
    BASE_ASSERT(peer == MESH_NOBODY || mesh->peers[peer].kind == MESH_REMOTE);
    struct mesh_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->mesh = mesh;
    base_state_begin(&connection->state, &connection_machine, state);
    connection->peer = peer;
    TAILQ_INSERT_TAIL(&mesh->connections, connection, all);
    return connection;
}

void mesh_connection_free(struct mesh_connection *connection)
{
    BASE_ASSERT(connection->send_count == 0 && connection->frames_in_flight == 0); /* all SENT came before CLOSED */
    BASE_ASSERT(connection->peer == MESH_NOBODY || mesh_peer_of(connection)->connection != connection);
    TAILQ_REMOVE(&connection->mesh->connections, connection, all);
    free(connection);
}

void mesh_connection_close(struct mesh_connection *connection, bool abort)
{
    if (connection->state.now == MESH_CLOSING)
        return;
    BASE_ASSERT(connection->socket);
    if (connection->accepted && connection->peer == MESH_NOBODY)
        connection->mesh->arrivals--;
    base_state_enter(&connection->state, MESH_CLOSING);
    net_socket_close(connection->socket, abort);
}

/* Somebody who did not behave as a worker of this job. */
void mesh_connection_stranger(struct mesh_connection *connection, const char *why)
{
    connection->mesh->strangers++;
    base_log_debug("worker %u: a connection is closed: %s", connection->mesh->config.worker, why);
    mesh_connection_close(connection, true);
}

bool mesh_connection_strange(const struct mesh_connection *connection)
{
    return (connection->state.now == MESH_PROVING || connection->state.now == MESH_GREETING) &&
           connection->peer == MESH_NOBODY;
}

enum base_status mesh_connection_lost(const struct mesh_connection *connection, const struct net_event *event,
                                      struct base_error *error)
{
    const char *node = mesh_node(connection->mesh, connection->peer);
    /* However the kernel puts it: it is what may be felt of a fault elsewhere. */
    const bool felt = event->status == BASE_TIMEOUT || event->status == BASE_UNREACHABLE;
    const enum base_status status = felt ? BASE_PEER_RESET : event->status;
    return base_error_set(error, status, "the connection to worker %u on node %s broke: %s%s%s", connection->peer, node,
                          base_status_words(event->status), event->os_error ? ": " : "",
                          event->os_error ? strerror(event->os_error) : "");
}
