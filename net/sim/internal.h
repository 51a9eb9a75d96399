/* What the files of the simulated network share. The essay is at the top of net/sim/sim.c. */
#ifndef MILLRACE_NET_SIM_INTERNAL_H
#define MILLRACE_NET_SIM_INTERNAL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/random.h"
#include "base/state.h"
#include "net/engine/ops.h"
#include "net/sim/sim.h"

/* Something that happens at a time: embedded in its owner, which cancels it before it is freed. */
struct sim_due {
    void (*fire)(struct sim_due *due);
    uint64_t due_ns;
    uint64_t tie;                 /* drawn when scheduled: among things due together any order may happen */
    uint64_t sequence;            /* makes the order total */
    uint32_t slot;                /* 1 + place in the world's heap; 0: not there */
    struct sim_engine *queued_by; /* submitted, but its engine has not polled since; else NULL */
    TAILQ_ENTRY(sim_due) queued;
};

#define SIM_OWNER(due, type, member) ((type *)(void *)((char *)(due)-offsetof(type, member)))

/* One direction of a connection: a ring of bytes, already sent and not yet received. */
struct sim_pipe {
    uint8_t *bytes;
    uint32_t capacity, head, used;
    bool ended; /* FIN after the bytes */
};

/* A connection. End 0 connected, end 1 accepted. pipes[i] carries bytes to end i. It lives until both ends are gone. */
struct sim_link {
    struct net_sim_world *world;
    struct sim_pipe pipes[2];
    struct sim_socket *ends[2]; /* NULL: not accepted or adopted yet, or gone */
    bool gone[2];
    bool broken[2];                /* this end got RST */
    int fds[2];                    /* of net_sim_pair; -1 once adopted */
    TAILQ_ENTRY(sim_link) waiting; /* in the listener's queue */
    LIST_ENTRY(sim_link) all;
};

struct sim_listener {
    int fd;
    struct net_address address;
    TAILQ_HEAD(, sim_link) backlog;
    uint32_t backlog_count;
    LIST_HEAD(, sim_socket) adopters;
    LIST_ENTRY(sim_listener) all;
};

enum { SIM_BACKLOG_MAX = 128 };

enum sim_socket_state {
    SIM_SOCKET_LISTENER,
    SIM_SOCKET_CONNECTING,
    SIM_SOCKET_OPEN,
    SIM_SOCKET_FAILED, /* did not connect */
    SIM_SOCKET_DEAD,   /* CLOSED was delivered; kept so that any use is noticed */
    SIM_SOCKET_STATE_COUNT
};

enum sim_send_step {
    SIM_SEND_NONE,     /* no send, or its event is in the ready queue */
    SIM_SEND_TRANSFER, /* bytes are left; scheduled */
    SIM_SEND_STALLED,  /* bytes are left; the receiver's reads schedule it again */
    SIM_SEND_REPORT    /* finished; the event is scheduled */
};

struct sim_socket {
    struct net_socket base;
    struct base_state state; /* enum sim_socket_state */
    uint32_t number;         /* in the world, for the trace */
    struct sim_link *link;
    uint32_t side;
    struct sim_listener *listener;
    struct net_address to;
    struct sim_due connect, deadline, send, receive, shut, close;

    bool connect_done; /* SYN answered, CONNECTED scheduled */
    bool receiving, receive_ended, starved;
    uint32_t starved_in_a_row;
    bool accepting;
    bool shutdown_asked;
    bool closing, close_abort, close_due;

    struct net_send_op *op; /* until SENT is delivered */
    enum sim_send_step send_step;
    uint32_t op_segment; /* the transfer has come to this segment */
    size_t op_offset;    /* and this byte of it */
    uint64_t op_bytes, op_done;
    uint64_t op_hash; /* of the caller's bytes at submit */
    int op_errno;     /* 0, EPIPE, ECONNRESET */
    bool op_cancelled;

    LIST_ENTRY(sim_socket) in_engine; /* open, or dead */
    LIST_ENTRY(sim_socket) adopter;
    TAILQ_ENTRY(sim_socket) starving;
};

struct sim_file {
    struct sim_engine *engine;
    struct sim_due step;
    struct net_file_op *op; /* NULL: free */
    uint64_t number;        /* in the world: picks the one that fails */
    uint64_t hash;          /* of a write's bytes at submit */
    bool executed;
    int failure; /* errno */
};

struct sim_engine {
    struct net_engine base;
    struct net_sim_world *world;
    struct net_engine_config config;
    uint32_t number;
    bool enabled;
    atomic_bool woken;
    bool queue_full; /* until the next poll */

    uint8_t **chunks;
    bool *chunk_out;
    uint32_t *chunks_free; /* ids in no order */
    uint32_t chunks_free_count;
    TAILQ_HEAD(, sim_socket) starved; /* they wait for a free chunk */

    TAILQ_HEAD(, sim_due) queued; /* submits since the last poll */
    struct net_event *ready;      /* ring of events that happened and wait for poll */
    uint32_t ready_capacity, ready_head, ready_count;

    struct sim_file *files;
    uint32_t files_busy;
    uint32_t sockets_open;
    LIST_HEAD(, sim_socket) sockets;
    LIST_HEAD(, sim_socket) dead;
    LIST_ENTRY(sim_engine) all;
};

struct net_sim_world {
    struct net_sim_config config;
    struct base_random random;
    uint64_t now_ns, sequence, trace;
    struct sim_due **heap;
    uint32_t heap_count, heap_capacity, heap_reserved;
    uint64_t bytes_moved, reset_at_bytes; /* UINT64_MAX: no reset (any more) */
    uint64_t file_ops;
    uint32_t sockets_made, engines_made;
    int next_fd;
    uint16_t next_port;
    LIST_HEAD(, sim_engine) engines;
    LIST_HEAD(, sim_listener) listeners;
    LIST_HEAD(, sim_link) links;
};

/* sim.c: time. */

/* Late by a random delay. A thing already scheduled keeps its time. */
void net_sim_schedule(struct net_sim_world *world, struct sim_due *due, void (*fire)(struct sim_due *));
void net_sim_schedule_at(struct net_sim_world *world, struct sim_due *due, uint64_t due_ns,
                         void (*fire)(struct sim_due *));
/* Schedules it at the engine's next poll, as a kernel sees submits no earlier. */
void net_sim_enqueue(struct sim_engine *engine, struct sim_due *due, void (*fire)(struct sim_due *));
void net_sim_queue_flush(struct sim_engine *engine);
void net_sim_cancel(struct net_sim_world *world, struct sim_due *due);
/* Lets everything happen that is due by now. */
void net_sim_run(struct net_sim_world *world);
/* Room for so many more scheduled things, so that scheduling never fails. */
enum base_status net_sim_reserve(struct net_sim_world *world, uint32_t count, struct base_error *error);
bool net_sim_percent(struct net_sim_world *world, uint32_t percent);
uint64_t net_sim_hash(uint64_t hash, const void *bytes, size_t count);

/* sim/engine.c: the ready queue and the chunks. */

struct net_event *net_sim_ready(struct sim_engine *engine, enum net_event_kind kind, int os_error);
struct net_event *net_sim_ready_socket(struct sim_socket *socket, enum net_event_kind kind, int os_error);
/* Takes back what the socket has received or accepted and nobody has seen. */
void net_sim_ready_withdraw(struct sim_socket *socket);
/* False when all are out. The chunk's bytes is 0. */
bool net_sim_chunk_take(struct sim_engine *engine, struct net_chunk *chunk);
/* True, now and until the next poll, when the seed says that the queue is full. */
bool net_sim_queue_full(struct sim_engine *engine);

/* sim/link.c: connections and listeners. */

struct sim_link *net_sim_link_make(struct net_sim_world *world);
/* This end sees RST: what it had sent or not read may be lost. */
void net_sim_link_break(struct sim_link *link, uint32_t side);
/* The socket or the queue at this end lets go: FIN, or RST when asked or when bytes were left unread. */
void net_sim_link_leave(struct sim_link *link, uint32_t side, bool abort);
uint32_t net_sim_pipe_put(struct sim_pipe *pipe, const uint8_t *bytes, uint32_t count);
void net_sim_pipe_take(struct sim_pipe *pipe, uint8_t *bytes, uint32_t count);
struct sim_listener *net_sim_listener_at(struct net_sim_world *world, const struct net_address *address);
struct sim_listener *net_sim_listener_of(struct net_sim_world *world, int fd);
void net_sim_link_free(struct sim_link *link);

/* sim/socket.c */

enum base_status net_sim_adopt(struct net_engine *base, int fd, void *context, struct net_socket **socket,
                               struct base_error *error);
enum base_status net_sim_accept(struct net_socket *base, struct base_error *error);
enum base_status net_sim_connect(struct net_engine *base, const struct net_address *address, uint64_t deadline_ns,
                                 void *context, struct net_socket **socket, struct base_error *error);
enum base_status net_sim_receive(struct net_socket *base, struct base_error *error);
enum base_status net_sim_send(struct net_socket *base, struct net_send_op *op);
void net_sim_shutdown(struct net_socket *base);
void net_sim_socket_close(struct net_socket *base, bool abort);
/* Something changed at the other end or in the pipes: goes on with what waited for it. */
void net_sim_socket_nudge(struct sim_socket *socket);
/* A chunk came free. */
void net_sim_starved_nudge(struct sim_engine *engine);
/* Ends a connection that was accepted, but not reported. */
void net_sim_accepted_drop(struct sim_socket *socket);
/* Called when poll hands out SENT, CLOSED. */
void net_sim_sent_delivered(struct sim_socket *socket);
void net_sim_closed_delivered(struct sim_socket *socket);

/* sim/file.c */

enum base_status net_sim_file_submit(struct net_engine *base, struct net_file_op *op);
void net_sim_file_delivered(struct sim_engine *engine, struct net_file_op *op);

#endif
