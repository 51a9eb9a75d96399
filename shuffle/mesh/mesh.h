/* The mesh: one worker's connections and mailboxes to every other worker for the time of a job. Between nodes a
 * connection (the lower-numbered worker connects), inside a node a mailbox pair, to itself a call. The exchanges of a
 * job share it: a frame header says to which exchange it belongs. Connections are opened with the proof of the
 * cluster's key, if there is one (net/proof/proof.h), then with a preamble in both directions (magic, protocol number,
 * job, token, source and destination worker); anything else is closed and counted, never believed.
 *
 * Receiving never waits for sending. When a sink says BUSY the connection (or mailbox) it happened on keeps its chunk
 * (frame) and place, further chunks queue up, the engine runs out of chunks, and TCP carries the pressure back.
 */
#ifndef MILLRACE_SHUFFLE_MESH_MESH_H
#define MILLRACE_SHUFFLE_MESH_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "net/engine/engine.h"
#include "net/proof/key.h"
#include "net/socket/facts.h"
#include "shuffle/frames/mailbox.h"

struct shuffle_mesh;
struct shuffle_exchange;

enum { SHUFFLE_TOKEN_BYTES = 16 };
/* A mesh of P workers needs an engine of P + this many sockets: its listener, a connection per other worker, and this
 * many for callers that are strangers. Half of them may be there in silence, half may be closing. */
enum { SHUFFLE_MESH_STRANGERS_MAX = 64 };

/* What a job moves that has no exchanges: plain bytes, of which the mesh knows no more. All are called on
 * the worker's thread, from the mesh's events and turns, and only for workers of other nodes. */
struct shuffle_mesh_raw {
    void *context;
    /* Puts what that worker gets next into op's segments and count; false: nothing for now (shuffle_mesh_offer asks
     * again). The bytes stay as they are until sent. */
    bool (*fill)(void *context, uint32_t peer, struct net_send_op *op);
    void (*sent)(void *context, uint32_t peer, uint64_t bytes);
    /* Bytes in the order they were sent; good for the time of the call. An error is the job's end. */
    enum base_status (*received)(void *context, uint32_t peer, const uint8_t *data, uint32_t bytes,
                                 struct base_error *error);
    /* Has that worker said all it had to say, so that it may close? */
    bool (*done)(const void *context, uint32_t peer);
};

struct shuffle_mesh_config {
    struct net_engine *engine;
    struct base_governor *governor;
    uint32_t worker, workers;          /* this one's number, and P */
    uint32_t local_first, local_count; /* workers of this node are numbered contiguously */
    const struct net_address *address; /* P data addresses; own node's are not looked at; borrowed */
    const char *const *node_name;      /* P names, for messages; borrowed */
    int listener_fd;                   /* borrowed; stays open. -1 when there is one node only */
    const struct net_key *key;         /* which workers of other nodes must have; NULL: none; borrowed */
    uint64_t job;
    uint8_t token[SHUFFLE_TOKEN_BYTES];
    struct shuffle_mailroom *mailroom;  /* NULL when local_count is 1 */
    uint64_t connect_timeout_ns;        /* without a new connection; more where the node has many to make, see mesh.c */
    const struct shuffle_mesh_raw *raw; /* NULL: exchanges are attached; borrowed */
};

enum base_status shuffle_mesh_open(const struct shuffle_mesh_config *config, struct shuffle_mesh **mesh,
                                   struct base_error *error);
/* Starts connecting and accepting. */
enum base_status shuffle_mesh_connect(struct shuffle_mesh *mesh, struct base_error *error);
bool shuffle_mesh_connected(const struct shuffle_mesh *mesh);
/* Every socket event of the engine (ACCEPTED, CONNECTED, RECEIVED, SENT, CLOSED). An error is the job's end: it names
 * the peer's node. */
enum base_status shuffle_mesh_event(struct shuffle_mesh *mesh, const struct net_event *event, struct base_error *error);
/* Once per turn: looks into mailboxes, retries rows a sink had no room for, checks deadlines, starts the sends that are
 * due. *worked is set true when something moved. */
enum base_status shuffle_mesh_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error);
/* Earliest deadline it waits for (engine time), or UINT64_MAX. */
uint64_t shuffle_mesh_deadline_ns(const struct shuffle_mesh *mesh);

/* A raw mesh: there is something for that worker, fill is called in this or the next turn. */
void shuffle_mesh_offer(struct shuffle_mesh *mesh, uint32_t worker);

/* Bytes of payload sent to and received from each worker over connections since opening (P entries each; own node's
 * stay 0). */
const uint64_t *shuffle_mesh_sent_bytes(const struct shuffle_mesh *mesh);
const uint64_t *shuffle_mesh_received_bytes(const struct shuffle_mesh *mesh);

/* Looks at one of the connections; false: there is none. */
bool shuffle_mesh_socket_facts(const struct shuffle_mesh *mesh, struct net_socket_facts *facts);

/* Starts closing (graceful or abort): no more deliveries. Then keep feeding events and turns until shuffle_mesh_closed;
 * then free. */
void shuffle_mesh_close(struct shuffle_mesh *mesh, bool abort);
bool shuffle_mesh_closed(const struct shuffle_mesh *mesh);
void shuffle_mesh_free(struct shuffle_mesh *mesh);

#endif
