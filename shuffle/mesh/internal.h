/* What the files of the mesh share. */
#ifndef MILLRACE_SHUFFLE_MESH_INTERNAL_H
#define MILLRACE_SHUFFLE_MESH_INTERNAL_H

#include <sys/queue.h>

#include "base/state.h"
#include "net/proof/proof.h"
#include "shuffle/frames/inlet.h"
#include "shuffle/mesh/preamble.h"

enum mesh_connection_state {
    MESH_LISTENING,
    MESH_CONNECTING, /* we connect: waiting for CONNECTED */
    MESH_PROVING,    /* with a key: waiting for the other side's proof of it */
    MESH_GREETING,   /* waiting for the other side's preamble */
    MESH_OPEN,       /* frames travel */
    MESH_LINGERING,  /* graceful close: waiting for the sends to leave */
    MESH_CLOSING,    /* waiting for CLOSED */
    MESH_STATE_COUNT
};

enum { MESH_NOBODY = UINT32_MAX };

/* A send of a connection, and how many of the peer's frames it carries. */
struct mesh_send {
    struct net_send_op op; /* first: the engine's events name it */
    uint32_t frames;       /* 0: a proof or a greeting */
    bool done, delivered;
};

/* A socket of the mesh; its record is the socket's context and is freed at CLOSED. */
struct mesh_connection {
    struct shuffle_mesh *mesh;
    struct net_socket *socket;
    struct base_state state; /* enum mesh_connection_state */
    uint32_t peer;           /* worker; MESH_NOBODY: a listener, or somebody who has not said */
    uint64_t deadline_ns;
    bool accepted;                    /* the other side called */
    struct net_proof proof;           /* with a key: from PROVING on */
    bool greeted;                     /* our greeting is being sent or there */
    struct shuffle_preamble greeting; /* arriving */
    uint32_t greeting_bytes;
    struct shuffle_preamble own_greeting; /* leaving */
    uint32_t frames_in_flight;            /* that all sends carry: the first of the peer's queue */
    bool going;                           /* the last send is not out: the engine takes no other */
    bool filled; /* raw: the next send holds bytes that no engine has taken yet, or they are being sent */
    uint32_t send_first, send_count;
    struct mesh_send send[NET_SENDS_MAX]; /* ring */
    TAILQ_ENTRY(mesh_connection) all;
};

enum mesh_peer_kind { MESH_SELF, MESH_LOCAL, MESH_REMOTE };

struct mesh_peer {
    enum mesh_peer_kind kind;
    bool due;                           /* is in the mesh's list of peers that may have something to start */
    bool fin;                           /* the peer has sent its last byte, and it is not judged yet */
    uint64_t retry_ns;                  /* when to connect again, or UINT64_MAX */
    struct mesh_connection *connection; /* from GREETING (accepted: OPEN) on */
    struct shuffle_frame_queue out;     /* sealed; the first ones may be in flight */
    struct shuffle_inlet inlet;
    TAILQ_ENTRY(mesh_peer) due_link;
};

struct shuffle_mesh {
    struct shuffle_mesh_config config;
    struct shuffle_inlets inlets;
    struct mesh_peer *peers; /* P */
    uint64_t *sent_bytes;
    TAILQ_HEAD(, mesh_connection) connections;
    TAILQ_HEAD(, mesh_peer) due;
    struct mesh_connection *listener;
    uint32_t remote_count, open_count; /* connections wanted; there */
    uint32_t arrivals;                 /* open connections that have not said who they are */
    uint64_t strangers;                /* closed for what they said, or for silence */
    enum net_proof_why called_why;     /* what was wrong last with the key of somebody we called, at called_peer */
    uint32_t called_peer;
    bool strangers_told;           /* one line in the log is enough for a job */
    uint32_t sends_refused;        /* by an engine whose queue was full */
    uint32_t retries;              /* peers with a retry_ns */
    uint32_t fins;                 /* peers whose fin waits to be judged */
    uint64_t connect_deadline_ns;  /* goes on with every connection that comes */
    struct mesh_connection orphan; /* of sockets accepted when there was no memory for a record */
    uint32_t orphans;
    bool connecting, closing;
};

static inline struct mesh_peer *mesh_peer_of(const struct mesh_connection *connection)
{
    return &connection->mesh->peers[connection->peer];
}

static inline const char *mesh_node(const struct shuffle_mesh *mesh, uint32_t worker)
{
    return mesh->config.node_name[worker];
}

/* Of a worker of this node, in the mailroom. */
static inline uint32_t mesh_local_number(const struct shuffle_mesh *mesh, uint32_t worker)
{
    return worker - mesh->config.local_first;
}

/* From above to below: a file calls its own functions and those of files that come after it here. */

/* receive.c */

/* Mailboxes into inlets, and own frames home. */
enum base_status mesh_receive_mail(struct shuffle_mesh *mesh, bool *worked, struct base_error *error);
/* Inlets that wait try again; peers that said their last are judged when all they said was taken. */
enum base_status mesh_receive_retry(struct shuffle_mesh *mesh, bool *worked, struct base_error *error);

/* connect.c */

enum base_status mesh_connect_accepted(struct mesh_connection *listener, const struct net_event *event);
enum base_status mesh_connect_connected(struct mesh_connection *connection, const struct net_event *event,
                                        struct base_error *error);
/* Of a connection that is not open: takes what belongs to proof and greeting from the beginning of the chunk. Returns
 * bytes taken; the connection may be open, or closing, afterwards. */
uint32_t mesh_connect_take(struct mesh_connection *connection, const struct net_chunk *chunk);
/* The stream of a connection ended before it was open. */
void mesh_connect_ended(struct mesh_connection *connection);
/* Calls that worker again, a little later. */
void mesh_connect_again(struct shuffle_mesh *mesh, uint32_t peer);
/* Those who do not say who they are, and the time for connecting as a whole. When all are there, the door closes. */
enum base_status mesh_connect_turn(struct shuffle_mesh *mesh, bool *worked, struct base_error *error);
uint64_t mesh_connect_deadline_ns(const struct shuffle_mesh *mesh);

/* send.c */

/* That peer may have something to start at the next kick. */
void mesh_send_due(struct shuffle_mesh *mesh, uint32_t worker);
void mesh_send_out(struct mesh_connection *connection);
enum base_status mesh_send_sent(struct mesh_connection *connection, const struct net_event *event,
                                struct base_error *error);
/* Graceful: closes when its sends are done. */
void mesh_send_linger(struct mesh_connection *connection);
/* Frames for that peer that are not in flight go home. */
void mesh_send_drop(struct shuffle_mesh *mesh, uint32_t worker);

/* mesh/connection.c */

/* NULL: no memory. */
struct mesh_connection *mesh_connection_make(struct shuffle_mesh *mesh, enum mesh_connection_state state,
                                             uint32_t peer);
void mesh_connection_free(struct mesh_connection *connection);
void mesh_connection_close(struct mesh_connection *connection, bool abort);
/* Closes and counts somebody who did not behave as a worker of this job. */
void mesh_connection_stranger(struct mesh_connection *connection, const char *why);
/* Somebody who called and has not said who it is. */
bool mesh_connection_strange(const struct mesh_connection *connection);
/* Fills error in: an open connection broke. */
enum base_status mesh_connection_lost(const struct mesh_connection *connection, const struct net_event *event,
                                      struct base_error *error);

#endif
