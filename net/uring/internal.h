/* The io_uring engine's own structures. Inside net/uring/ only. */
#ifndef MILLRACE_NET_URING_INTERNAL_H
#define MILLRACE_NET_URING_INTERNAL_H

#include <liburing.h>

#include "net/engine/list.h"
#include "net/engine/ops.h"
#include "net/engine/slots.h"
#include "net/engine/wake.h"
#include "net/engine/zerocopy.h"
#include "net/socket/tcp.h"

/* What a completion is of. The socket kinds are also bits (1 << kind) of a socket's `wants` and `armed`. */
enum uring_kind {
    URING_RECEIVE,
    URING_ACCEPT,
    URING_CONNECT,
    URING_SEND,
    URING_CANCEL,
    URING_WATCH, /* for the connection's breaking: uring/receive.c */
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
    URING_WARM = 1 << 6,       /* data is expected: the next receive is tried at once instead of polled for first */
    URING_FED = 1 << 7,        /* got a chunk since its receive was armed */
    URING_SEND_IS_ZC = 1 << 8, /* the send that is armed is a zero-copy one */
    URING_SEND_COPY = 1 << 9,  /* the next piece of op is sent with a copy */
    URING_JOINING = 1 << 10,   /* closing: when its notifications are late it is reset */
    URING_BROKEN = 1 << 11     /* the connection is gone; what it brought before may still be received */
};

struct uring_engine;

struct uring_socket {
    struct net_socket base;
    struct net_link todo;     /* in engine->todo: `wants` is to be queued */
    struct net_link starved;  /* in engine->starved or sated: it waits until the user gives a chunk back */
    struct net_link timed;    /* in engine->timed: deadline_ns counts */
    struct net_link finished; /* in engine->finished: its last events are due */
    struct net_send_op *op;   /* the send that goes out */
    struct net_send_op *sends[NET_SENDS_MAX]; /* by tag: op, and those that are out, but for notifications */
    size_t op_asked;                          /* bytes of the request in flight */
    uint64_t deadline_ns;
    uint64_t area_returns; /* the area\'s, when its receive was armed */
    uint32_t notices_due;  /* of all sends */
    uint32_t notices_void; /* of these, sends that failed: what they say about copying means nothing */
    struct net_zerocopy zerocopy;
    uint32_t slot;
    uint32_t generation;
    uint32_t flags;
    uint32_t wants;       /* requests to queue */
    uint32_t armed;       /* requests whose last completion is due; disjoint from wants */
    uint32_t chunk;       /* of its one-shot receive, armed or waiting in `starved`; or URING_CHUNK_NONE */
    uint32_t chunk_bytes; /* received into it */
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

/* A chunk of a rung that shares chunks between completions: uring/bundle.c. */
struct uring_provided {
    uint32_t used; /* bytes the kernel has filled, as far as completions seen tell */
    uint32_t lent; /* pieces of it that the user holds */
    bool done;     /* the kernel fills no more of it */
};

/* A completion that was handed out in part. */
struct uring_unfolding {
    struct uring_socket *socket; /* NULL, or of another generation: nobody wants the rest */
    uint32_t generation;
    uint32_t left; /* bytes; 0: none */
    bool more;     /* the kernel goes on filling the last chunk */
};

/* The receive chunks of an engine: one piece of memory, divided into `count`. */
struct uring_chunks {
    uint8_t *data;
    size_t stride_bytes, bytes;
    uint32_t chunk_bytes;
    uint32_t count;
    uint32_t lent_max; /* how many the user may hold */
    uint32_t free;     /* how many more he may get: of a buffer ring, those in the kernel's hands as far as completions
                          seen tell */
    bool enabled;
    bool huge;                      /* mapped from the machine's reserved huge pages */
    struct io_uring_buf_ring *ring; /* what multishot receives draw from; NULL: none */
    uint32_t ring_entries;
    struct uring_provided *provided; /* of each chunk, where completions share them */
    uint16_t *order;                 /* and the order in which the kernel has them, around ring_entries */
    uint32_t order_head, order_tail;
    bool disordered; /* the kernel did not keep to it */
    uint32_t *spare; /* without a ring: chunks that nobody holds, last in first out */
    uint32_t spare_count;
};

#define URING_CHUNK_NONE UINT32_MAX

enum { URING_CHUNK_GROUP = 0 };

/* The area of zero-copy receive: uring/recv_zc.c. */
struct uring_area {
    uint8_t *data;
    size_t bytes, mapped_bytes;
    bool huge; /* mapped from the machine's reserved huge pages */
    uint32_t piece_bytes, piece_count;
    uint64_t token; /* of the area, in what is returned */
    uint32_t id;    /* of the queue, in requests */
    bool copies;    /* no card: the kernel copies into the area */
    void *refill_memory;
    size_t refill_bytes;
    struct io_uring_zcrx_rqe *refill; /* ring of returned pieces */
    uint32_t *refill_head, *refill_tail;
    uint32_t refill_entries, refill_next;
    uint32_t returned;   /* since the last flush */
    uint64_t returns;    /* pieces that the kernel has got back, as far as it was told */
    uint32_t lent_parts; /* with the user */
    uint16_t *lent;      /* by piece: its parts with the user */
    uint16_t *owed;      /* by piece: returns that found the refill ring full */
    uint32_t *owing;     /* ring of the pieces with owed > 0 */
    uint32_t owing_first, owing_count;
};

/* How a rung receives: the essay is in uring/receive.c. */
struct uring_receiver {
    int starved_error; /* what a receive ends with for want of memory */
    void (*prepare)(struct uring_socket *, struct io_uring_sqe *);
    /* Takes a completion that carries bytes. Returns the number of events written, 0 or 1. */
    uint32_t (*deliver)(struct uring_socket *, const struct io_uring_cqe *, struct net_event *);
    /* Takes back what a completion carries that nobody will see. socket NULL: it is gone. */
    void (*discard)(struct uring_engine *, struct uring_socket *, const struct io_uring_cqe *);
    void (*release)(struct uring_engine *, const struct net_chunk *);
    /* The socket's receive ended for want of memory: it waits for some. */
    void (*starve)(struct uring_socket *);
    /* Arms sockets that waited for a chunk. */
    void (*feed)(struct uring_engine *);
    /* Writes events that were put off, before anything newer. */
    uint32_t (*resume)(struct uring_engine *, struct net_event *events, uint32_t max);
};

/* Memory registered with the ring, for zero-copy sends from it. */
struct uring_memory_range {
    uintptr_t begin, end;
    uint32_t slot; /* in the ring's table of buffers */
};

struct uring_memory {
    struct uring_memory_range *ranges; /* by address */
    uint32_t count;
    struct net_slots slots;
    bool complained;
};

struct uring_engine {
    struct net_engine base;
    struct io_uring ring;
    bool ring_open;
    bool wake_armed;
    int broken; /* errno of the enter that broke the ring; 0: none */
    int tie_fd; /* of a broken engine: hangs up when the kernel has let go of the ring; -1: it has, or has not begun */
    uint32_t napi_us, min_wait_us; /* of the options; 0: none */
    struct net_wake wake;

    struct base_governor *governor;
    const struct uring_receiver *receiver;
    struct uring_chunks chunks;
    struct uring_unfolding unfolding;
    struct uring_area area;

    struct uring_memory memory;
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

/* Kind in the lower half of the top byte; in the upper one a send's tag. */
static inline uint32_t uring_kind_of(const struct io_uring_cqe *cqe)
{
    return (uint32_t)(cqe->user_data >> 56) & 0xf;
}

static inline uint32_t uring_send_tag_of(const struct io_uring_cqe *cqe)
{
    return (uint32_t)(cqe->user_data >> 60);
}

static inline uint64_t uring_user_data(enum uring_kind kind, uint32_t slot, uint32_t generation)
{
    return (uint64_t)kind << 56 | (uint64_t)slot << 32 | generation;
}

/* Fills a blank event for socket (may be NULL). */
static inline void uring_event_fill(struct net_event *event, enum net_event_kind kind, struct uring_socket *socket)
{
    *event = (struct net_event){.kind = kind};
    if (socket) {
        event->socket = &socket->base;
        event->context = socket->base.context;
    }
}

/* uring.c */

/* A blank submission entry; what is queued goes to the kernel early when the queue is full. NULL: the kernel takes
 * nothing before completions are reaped. */
struct io_uring_sqe *uring_sqe(struct uring_engine *engine);

/* uring/socket.c */
enum base_status uring_socket_adopt(struct net_engine *, int fd, void *context, struct net_socket **,
                                    struct base_error *);
enum base_status uring_socket_accept(struct net_socket *, struct base_error *);
enum base_status uring_socket_connect(struct net_engine *, const struct net_address *, uint64_t deadline_ns,
                                      void *context, struct net_socket **, struct base_error *);
void uring_socket_shutdown(struct net_socket *);
void uring_socket_close(struct net_socket *, bool abort);
/* When the socket is to be looked at again (uring_sockets_expire). */
void uring_socket_set_deadline(struct uring_socket *socket, uint64_t deadline_ns);
/* Marks a request for the next poll. */
void uring_socket_want(struct uring_socket *socket, enum uring_kind kind);
/* Queues what sockets want, as far as the queue takes it. */
void uring_sockets_enqueue(struct uring_engine *engine);
/* Ends or retries what is past its deadline. */
void uring_sockets_expire(struct uring_engine *engine);
/* Handles one completion of a socket. Returns the number of events written, 0 or 1. */
uint32_t uring_socket_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event);
/* Writes the next of a finished socket's last events; true when it was CLOSED and the record is free. */
bool uring_socket_finish(struct uring_socket *socket, struct net_event *event);

/* uring/chunks.c */

/* Chooses the receiver. Memory is drawn at open, touched and given to the kernel by the owner. */
enum base_status uring_chunks_open(struct uring_engine *engine, const struct net_engine_config *config,
                                   struct base_error *error);
void uring_chunks_enable(struct uring_engine *engine);
void uring_chunks_close(struct uring_engine *engine);
/* Memory from the machine's pool of reserved huge pages. Without enough of them BASE_OK all the same and *data stays as
 * it is; if the feature was asked for it is missed. */
enum base_status uring_pages_map_huge(struct uring_engine *engine, size_t bytes, uint8_t **data, size_t *mapped,
                                      struct base_error *error);
/* Of either kind. */
void uring_pages_unmap(struct uring_engine *engine, uint8_t *data, size_t bytes, bool huge);
static inline uint8_t *uring_chunk_data(const struct uring_engine *engine, uint32_t id)
{
    return engine->chunks.data + id * engine->chunks.stride_bytes;
}
/* Adds a chunk to the buffer ring. */
void uring_chunk_provide(struct uring_engine *engine, uint32_t id);

/* uring/receive.c */
enum base_status uring_socket_receive(struct net_socket *, struct base_error *error);
void uring_chunk_release(struct net_engine *, const struct net_chunk *);
void uring_receive_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe);
uint32_t uring_receive_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);
void uring_watch_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe);
uint32_t uring_watch_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);
/* Wants the receive armed again. */
void uring_receive_again(struct uring_socket *socket);
/* Lets go of what a closing socket holds or waits for; a receive that is armed is left to its last completion. */
void uring_receive_stop(struct uring_socket *socket);
/* Ends the stream: by the peer's FIN (0) or an error. */
uint32_t uring_receive_ended(struct uring_socket *socket, int os_error, struct net_event *event);
/* Counts a piece and writes its event. */
void uring_receive_fill(struct uring_socket *socket, uint32_t id, uint8_t *data, uint32_t bytes,
                        struct net_event *event);
/* What is usual: queueing up in `starved` or `sated`, arming from there, and putting nothing off. */
void uring_receive_starve(struct uring_socket *socket);
void uring_receive_feed(struct uring_engine *engine);
uint32_t uring_receive_resume_none(struct uring_engine *engine, struct net_event *events, uint32_t max);
/* Whether a socket waits for a chunk and there is one. */
bool uring_receive_hungry(const struct uring_engine *engine);

extern const struct uring_receiver uring_receiver_multishot;

/* uring/recv_zc.c */
extern const struct uring_receiver uring_receiver_recv_zc;
/* Pieces of the area that a configuration makes. */
uint32_t uring_area_pieces(const struct net_engine_config *config);
/* False: the feature was missed, for a reason that is told. */
bool uring_area_open(struct uring_engine *engine, const struct net_engine_config *config);
void uring_area_close(struct uring_engine *engine);

/* uring/bundle.c */
extern const struct uring_receiver uring_receiver_bundle;
/* Gives a chunk to the kernel as its last. */
void uring_bundle_provide(struct uring_engine *engine, uint32_t id);
/* Why this kernel's bundles, or its incremental buffers, cannot be used; NULL: they work, or are missing and say so
 * themselves. Tried once per process. */
const char *uring_bundle_broken(enum net_feature feature);

/* uring/oneshot.c */
extern const struct uring_receiver uring_receiver_oneshot;
/* Puts a chunk that nobody holds back. */
void uring_chunk_spare(struct uring_engine *engine, uint32_t id);

/* uring/send.c */

/* After enable: takes zero-copy sending out of force where the kernel does not have it. */
void uring_send_enable(struct uring_engine *engine);
enum base_status uring_socket_send(struct net_socket *, struct net_send_op *);
void uring_send_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe);
uint32_t uring_send_complete(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);
/* Ends a send with an event. */
void uring_send_finished(struct uring_socket *socket, struct net_send_op *op, enum base_status status,
                         struct net_event *event);
/* A completion with IORING_CQE_F_NOTIF. */
uint32_t uring_send_notified(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event);

/* uring/memory.c */
enum { URING_MEMORY_NONE = -1 };
/* After enable; takes registered buffers out of force where they cannot be had. */
void uring_memory_enable(struct uring_engine *engine);
void uring_memory_close(struct uring_engine *engine);
void uring_memory_register(struct net_engine *base, void *begin, size_t bytes);
void uring_memory_unregister(struct net_engine *base, void *begin);
/* Index of the registered buffer that holds all these bytes, or URING_MEMORY_NONE. */
int uring_memory_find(const struct uring_engine *engine, const void *data, size_t bytes);

/* uring/file.c */
enum base_status uring_files_open(struct uring_engine *engine, uint32_t count);
enum base_status uring_file_submit(struct net_engine *, struct net_file_op *);
void uring_files_enqueue(struct uring_engine *engine);
uint32_t uring_file_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event);
/* Ends an operation with an event. */
void uring_file_finished(struct uring_engine *engine, struct uring_file *file, enum base_status status,
                         struct net_event *event);

/* uring/broken.c */

/* After an enter failed for good (engine->broken): from now on uring_broken_poll takes the place of the usual turn. */
void uring_break(struct uring_engine *engine);
uint32_t uring_broken_poll(struct uring_engine *engine, struct net_event *events, uint32_t max, uint64_t wait_ns);

#endif
