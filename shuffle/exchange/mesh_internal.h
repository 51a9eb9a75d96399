/* What the files of the mesh share, and what the exchange sees of it. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_MESH_INTERNAL_H
#define MILLRACE_SHUFFLE_EXCHANGE_MESH_INTERNAL_H

#include <sys/queue.h>

#include "net/proof/proof.h"
#include "shuffle/exchange/inlet.h"
#include "shuffle/exchange/lane.h"
#include "shuffle/exchange/preamble.h"

enum mesh_connection_state {
    MESH_LISTENING,
    MESH_CONNECTING, /* we connect: waiting for CONNECTED */
    MESH_PROVING,    /* with a key: waiting for the other side's proof of it */
    MESH_GREETING,   /* waiting for the other side's preamble */
    MESH_OPEN,       /* frames travel */
    MESH_LINGERING,  /* graceful close: waiting for the sends to leave */
    MESH_CLOSING     /* waiting for CLOSED */
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
    enum mesh_connection_state state;
    uint32_t peer; /* worker; MESH_NOBODY: a listener, or somebody who has not said */
    uint64_t deadline_ns;
    bool accepted;                    /* the other side called */
    struct net_proof proof;           /* with a key: from PROVING on */
    bool greeted;                     /* our greeting is on its way or there */
    struct shuffle_preamble greeting; /* arriving */
    uint32_t greeting_bytes;
    struct shuffle_preamble own_greeting; /* leaving */
    uint32_t frames_in_flight;            /* that all sends carry: the first of the peer's queue */
    bool going;                           /* the last send is not out: the engine takes no other */
    bool filled; /* raw: the next send holds bytes that no engine has taken yet, or they are on their way */
    uint32_t send_first, send_count;
    struct mesh_send send[NET_SENDS_MAX]; /* ring */
    TAILQ_ENTRY(mesh_connection) all;
};

enum mesh_peer_kind { MESH_SELF, MESH_LOCAL, MESH_REMOTE };

struct mesh_peer {
    enum mesh_peer_kind kind;
    bool staged;                        /* is in the mesh's list of peers that may have something to start */
    bool fin;                           /* the peer has sent its last byte */
    uint64_t retry_ns;                  /* when to connect again, or UINT64_MAX */
    struct mesh_connection *connection; /* from GREETING (accepted: OPEN) on */
    struct shuffle_frame_queue out;     /* sealed; the first ones may be in flight */
    struct shuffle_inlet inlet;
    TAILQ_ENTRY(mesh_peer) stage;
};

struct shuffle_mesh {
    struct shuffle_mesh_config config;
    struct shuffle_exchange *exchange[SHUFFLE_EXCHANGES_MAX];
    struct mesh_peer *peers; /* P */
    uint64_t *sent_bytes, *received_bytes;
    TAILQ_HEAD(, mesh_connection) connections;
    TAILQ_HEAD(, mesh_peer) stage;
    struct mesh_connection *listener;
    uint32_t remote_count, open_count; /* connections wanted; there */
    uint32_t arrivals;                 /* open connections that have not said who they are */
    uint64_t strangers;                /* closed for what they said, or for silence */
    enum net_proof_why called_why;     /* what was wrong last with the key of somebody we called, at called_peer */
    uint32_t called_peer;
    bool key_told;                /* one line in the log is enough for a job */
    uint32_t sends_refused;       /* by an engine whose queue was full */
    uint32_t retries;             /* peers with a retry_ns */
    uint32_t fins;                /* peers whose fin waits to be judged */
    uint64_t connect_deadline_ns; /* goes on with every connection that comes */
    struct shuffle_group *group;  /* for the next rows that arrive */
    struct shuffle_group *spares;
    uint32_t stalled;              /* inlets that wait */
    uint32_t kept, kept_max;       /* chunks that inlets keep for a cut row although all else in them is done with */
    struct mesh_connection orphan; /* of sockets accepted when there was no memory for a record */
    uint32_t orphans;
    bool connecting, closing;
};

/* mesh.c: for the exchange. */
uint32_t shuffle_mesh_worker(const struct shuffle_mesh *mesh);
uint32_t shuffle_mesh_workers(const struct shuffle_mesh *mesh);
struct net_engine *shuffle_mesh_engine(const struct shuffle_mesh *mesh);
enum base_status shuffle_mesh_attach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange,
                                     struct base_error *error);
void shuffle_mesh_detach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange);
/* Queues a sealed frame; shuffle_frame_home is called when it is done with. */
void shuffle_mesh_send(struct shuffle_mesh *mesh, struct shuffle_frame *frame);
/* Starts what can be started of what was queued. Never fails: what is refused stays staged. */
void shuffle_mesh_kick(struct shuffle_mesh *mesh);

/* mesh.c: for inlets. */
void shuffle_mesh_piece_release(struct shuffle_mesh *mesh, uint32_t peer, const struct shuffle_piece *piece);
/* A group for arriving rows; NULL without memory. Whoever keeps it gives it back. */
struct shuffle_group *shuffle_mesh_group_take(struct shuffle_mesh *mesh);
void shuffle_mesh_group_give(struct shuffle_mesh *mesh, struct shuffle_group *group);

/* mesh.c: for connections. */
const char *shuffle_mesh_node(const struct shuffle_mesh *mesh, uint32_t worker);
/* Connecting made progress: from here on it has its whole time again. */
void shuffle_mesh_connect_on(struct shuffle_mesh *mesh);
/* That peer may have something to start at the next kick. */
void shuffle_mesh_stage(struct shuffle_mesh *mesh, uint32_t worker);
/* Frames for that peer that are not in flight go home. */
void shuffle_mesh_queue_drop(struct shuffle_mesh *mesh, uint32_t worker);
/* Have all attached exchanges heard the end of that worker's stream, and have they said theirs? */
bool shuffle_mesh_peer_done(const struct shuffle_mesh *mesh, uint32_t peer);

/* exchange/connection.c */
enum base_status mesh_connection_listen(struct shuffle_mesh *mesh, struct base_error *error);
enum base_status mesh_connection_connect(struct shuffle_mesh *mesh, uint32_t peer, struct base_error *error);
/* Connects again, a little later. */
void mesh_connection_retry(struct shuffle_mesh *mesh, uint32_t peer);
enum base_status mesh_connection_event(struct mesh_connection *connection, const struct net_event *event,
                                       struct base_error *error);
/* Starts a send of what is queued; false: the engine refused. */
bool mesh_connection_kick(struct mesh_connection *connection);
void mesh_connection_close(struct mesh_connection *connection, bool abort);
/* Somebody who called and has not said who it is. */
bool mesh_connection_strange(const struct mesh_connection *connection);
/* Graceful: closes when its sends are done. */
void mesh_connection_linger(struct mesh_connection *connection);

#endif
