/* The io_uring engine's own structures. Inside net/uring*.c only. */
#ifndef MILLRACE_NET_URING_H
#define MILLRACE_NET_URING_H

#include <liburing.h>

#include "net/engine_ops.h"
#include "net/list.h"
#include "net/slots.h"
#include "net/tcp.h"
#include "net/wake.h"

/* What a completion is of. The socket kinds are also bits (1 << kind) of a socket's `wants` and `armed`. */
enum uring_kind {
    URING_RECEIVE,
    URING_ACCEPT,
    URING_CONNECT,
    URING_SEND,
    URING_CANCEL,
    URING_SOCKET_KINDS,
    URING_FILE = URING_SOCKET_KINDS,
    URING_WAKE
};

#define URING_BIT(kind) (1U << (kind))

enum uring_socket_flag {
    URING_LISTENER = 1 << 0,
    URING_CONNECTING = 1 << 1, /* a CONNECTED event is due */
    URING_RECEIVING = 1 << 2,  /* the user asked, and neither end nor error came yet */
    URING_TIMED_OUT = 1 << 3,  /* the connect is being cancelled because its deadline passed */
    URING_FIN_AFTER_SEND = 1 << 4,
    URING_CLOSING = 1 << 5,
    URING_WARM = 1 << 6, /* data is expected: the next receive is tried at once instead of polled for first */
    URING_FED = 1 << 7   /* got a chunk since its receive was armed */
};

struct uring_socket {
    struct net_socket base;
    struct net_link todo;     /* in engine->todo: `wants` is to be staged */
    struct net_link starved;  /* in engine->starved or sated: its receive ended for lack of a chunk */
    struct net_link timed;    /* in engine->timed: deadline_ns counts */
    struct net_link finished; /* in engine->finished: its last events are due */
    struct net_send_op *op;   /* the send in flight */
    uint64_t op_sent_bytes;
    uint64_t deadline_ns;
    uint32_t op_first; /* first segment that is not out entirely */
    uint32_t slot;
    uint32_t generation;
    uint32_t flags;
    uint32_t wants; /* requests to stage */
    uint32_t armed; /* requests whose last completion is due; disjoint from wants */
    int fd;
    int stream_error; /* errno a send took from the socket, owed to the receiver */
    struct msghdr message;
    struct net_address address; /* of a connect */
};

struct uring_file {
    struct net_link todo;   /* in engine->files_todo */
    struct net_file_op *op; /* NULL: free */
    uint32_t slot;
    uint32_t generation;
};

struct uring_engine {
    struct net_engine base;
    struct io_uring ring;
    bool ring_open;
    bool wake_armed;
    struct net_wake wake;

    struct base_governor *governor;
    struct io_uring_buf_ring *chunk_ring;
    uint8_t *chunks;
    size_t chunk_stride_bytes, chunks_bytes;
    uint32_t chunk_bytes, chunk_count, chunk_ring_entries;
    bool chunks_enabled;
    uint32_t chunks_free; /* in the kernel's hands, as far as completions seen tell */

    struct net_tcp tcp;
    struct uring_socket *sockets;
    struct net_slots slots;
    struct uring_file *files;
    struct net_slots file_slots;
    struct net_link todo, files_todo, starved, sated, timed, finished;
    uint64_t deadline_next_ns; /* not later than the earliest deadline in `timed` */
};

static inline bool uring_has(const struct uring_engine *engine, enum net_feature feature)
{
    return (engine->base.features & (uint32_t)feature) != 0;
}

static inline struct uring_engine *uring_engine_of(const struct uring_socket *socket)
{
    return (struct uring_engine *)socket->base.engine;
}

static inline uint64_t uring_user_data(enum uring_kind kind, uint32_t slot, uint32_t generation)
{
    return (uint64_t)kind << 56 | (uint64_t)slot << 32 | generation;
}

/* Fills a blank event for socket (may be NULL). */
static inline void uring_event_fill(struct net_event *event, enum net_event_kind kind, struct uring_socket *socket)
{
    *event = (struct net_event){.kind = kind};
    if (socket != NULL) {
        event->socket = &socket->base;
        event->context = socket->base.context;
    }
}

/* uring.c */

/* A blank submission entry; what is staged goes to the kernel early when the queue is full. NULL: the kernel takes
 * nothing before completions are reaped. */
struct io_uring_sqe *uring_sqe(struct uring_engine *engine);

/* uring_socket.c */
enum base_status uring_socket_adopt(struct net_engine *, int fd, void *context, struct net_socket **,
                                    struct base_error *);
enum base_status uring_socket_accept(struct net_socket *, struct base_error *);
enum base_status uring_socket_connect(struct net_engine *, const struct net_address *, uint64_t deadline_ns,
                                      void *context, struct net_socket **, struct base_error *);
void uring_socket_shutdown(struct net_socket *);
void uring_socket_close(struct net_socket *, _Bool abort);
/* Marks a request for staging at the next poll. */
void uring_socket_want(struct uring_socket *socket, enum uring_kind kind);
/* Stages what sockets want, as far as the queue takes it. */
void uring_sockets_stage(struct uring_engine *engine);
/* Ends or retries what is past its deadline. */
void uring_sockets_expire(struct uring_engine *engine);
/* Handles one completion of a socket. Returns the number of events written, 0 or 1. */
uint32_t uring_socket_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event);
/* Writes the next of a finished socket's last events; true when it was CLOSED and the record is free. */
bool uring_socket_finish(struct uring_socket *socket, struct net_event *event);

/* uring_receive.c */

/* The ring of receive chunks: memory is drawn at open, touched and handed to the kernel by the owner. */
enum base_status uring_chunks_open(struct uring_engine *engine, const struct net_engine_config *config,
                                   const char **refusal, struct base_error *error);
void uring_chunks_enable(struct uring_engine *engine);
void uring_chunks_close(struct uring_engine *engine);
void uring_chunk_release(struct net_engine *, const struct net_chunk *);
/* Gives back the chunk a completion carries, if it carries one that nobody will see. */
void uring_chunk_discard(struct uring_engine *engine, const struct io_uring_cqe *cqe);
enum base_status uring_socket_receive(struct net_socket *, struct base_error *);
void uring_receive_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe);
uint32_t uring_receive_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);
/* Whether a socket waits for a chunk and there is one. */
bool uring_receive_hungry(const struct uring_engine *engine);
/* Re-arms starved sockets, as far as there are chunks. */
void uring_receive_feed(struct uring_engine *engine);

/* uring_send.c */
enum base_status uring_socket_send(struct net_socket *, struct net_send_op *);
void uring_send_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe);
uint32_t uring_send_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);

/* uring_file.c */
enum base_status uring_files_open(struct uring_engine *engine, uint32_t count);
enum base_status uring_file_submit(struct net_engine *, struct net_file_op *);
void uring_files_stage(struct uring_engine *engine);
uint32_t uring_file_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event);

#endif
