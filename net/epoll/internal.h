/* The epoll engine's own structures. Inside net/epoll/ only. */
#ifndef MILLRACE_NET_EPOLL_INTERNAL_H
#define MILLRACE_NET_EPOLL_INTERNAL_H

#include "net/engine/list.h"
#include "net/engine/ops.h"
#include "net/engine/slots.h"
#include "net/engine/wake.h"
#include "net/engine/zerocopy.h"
#include "net/socket/tcp.h"

enum epoll_socket_flag {
    EPOLL_LISTENER = 1 << 0,
    EPOLL_ACCEPTING = 1 << 1,
    EPOLL_CONNECTING = 1 << 2, /* a CONNECTED event is due */
    EPOLL_RECEIVING = 1 << 3,  /* the user asked, and neither end nor error came yet */
    EPOLL_READABLE = 1 << 4,   /* an edge said so and no read has come back short since */
    EPOLL_WRITABLE = 1 << 5,   /* as far as we know */
    EPOLL_HANGUP = 1 << 6,     /* the peer's FIN or an error is in the kernel: read on until it shows */
    EPOLL_FIN_AFTER_SEND = 1 << 7,
    EPOLL_CLOSING = 1 << 8,
    EPOLL_ABORT = 1 << 9,
    EPOLL_WATCHED = 1 << 10,  /* a listener that epoll watches */
    EPOLL_ZEROCOPY = 1 << 11, /* the kernel takes MSG_ZEROCOPY on it */
    EPOLL_NOTIFIED = 1 << 12, /* its error queue may hold notifications */
    EPOLL_RETURNED = 1 << 13, /* the kernel has returned the buffers of a send that waits */
    EPOLL_STOPPED = 1 << 14   /* closing: the connection is ended, its notifications are due */
};

struct epoll_socket {
    struct net_socket base;
    struct net_link ready;                      /* in engine->ready: something to do now */
    struct net_link starved;                    /* in engine->starved: readable, but there was no chunk */
    struct net_link timed;                      /* in engine->timed: deadline_ns counts */
    struct net_send_op *op;                     /* the send that goes out */
    struct net_send_op *waiting[NET_SENDS_MAX]; /* sends that are out, but for notifications */
    uint32_t waiting_count;
    uint64_t deadline_ns;
    uint32_t notices_due; /* of all sends */
    uint32_t notice_next; /* number of the next zero-copy send */
    struct net_zerocopy zerocopy;
    uint32_t slot;
    uint32_t generation;
    uint32_t flags;
    uint32_t read_chunks; /* how many its next read is offered, as the last one went */
    int fd;
    int connect_error; /* of a connect that failed at once */
    int stream_error;  /* errno a send took from the socket, owed to the receiver */
};

struct epoll_engine {
    struct net_engine base;
    int epoll_fd;
    struct net_wake wake;
    uint32_t chunk_bytes;
    struct base_pool *chunks;
    struct net_tcp tcp;
    struct epoll_socket *sockets;
    struct net_slots slots;
    struct net_link ready, starved, timed;
    uint64_t deadline_next_ns;  /* not later than the earliest deadline in `timed` */
    struct net_file_op **files; /* ring of the operations submitted, oldest at file_first */
    uint32_t files_max, file_first, file_count;
};

static inline struct epoll_engine *epoll_engine_of(struct epoll_socket *socket)
{
    return (struct epoll_engine *)socket->base.engine;
}

/* Where a turn writes its events. */
struct epoll_output {
    struct net_event *events;
    uint32_t count, max;
};

static inline struct net_event *epoll_event_add(struct epoll_output *output, enum net_event_kind kind,
                                                struct epoll_socket *socket)
{
    BASE_ASSERT(output->count < output->max);
    struct net_event *event = &output->events[output->count++];
    *event = (struct net_event){.kind = kind};
    if (socket) {
        event->socket = &socket->base;
        event->context = socket->base.context;
    }
    return event;
}

/* epoll/socket.c */
enum base_status epoll_socket_adopt(struct net_engine *, int fd, void *context, struct net_socket **,
                                    struct base_error *);
enum base_status epoll_socket_accept(struct net_socket *, struct base_error *);
enum base_status epoll_socket_connect(struct net_engine *, const struct net_address *, uint64_t deadline_ns,
                                      void *context, struct net_socket **, struct base_error *);
enum base_status epoll_socket_receive(struct net_socket *, struct base_error *);
void epoll_socket_shutdown(struct net_socket *);
void epoll_socket_close(struct net_socket *, bool abort);
/* Takes what epoll_wait said into the socket's flags. */
void epoll_socket_notice(struct epoll_socket *socket, uint32_t kernel_events);
/* Does the socket's next piece of work: one read, one send or one accepted connection. */
void epoll_socket_turn(struct epoll_socket *socket, struct epoll_output *output);
/* Ends what is past its deadline. */
void epoll_sockets_expire(struct epoll_engine *engine);
/* A chunk came back: the sockets that waited for one are ready again. */
void epoll_sockets_feed(struct epoll_engine *engine);

/* Queues the socket for a turn if there is something it could do. */
void epoll_socket_queue(struct epoll_socket *socket);
void epoll_socket_set_deadline(struct epoll_socket *socket, uint64_t deadline_ns);

/* epoll/send.c */

/* Whether sockets of this machine take MSG_ZEROCOPY. */
bool epoll_zerocopy_works(void);
/* Lets the kernel take MSG_ZEROCOPY on a socket. */
void epoll_zerocopy_allow(struct epoll_socket *socket);
enum base_status epoll_socket_send(struct net_socket *, struct net_send_op *);
/* Sends the next piece of the op. */
void epoll_turn_send(struct epoll_socket *socket, struct epoll_output *output);
/* Reads notifications. */
void epoll_turn_notices(struct epoll_socket *socket);
/* Finishes a send that waited. */
void epoll_turn_returned(struct epoll_socket *socket, struct epoll_output *output);
/* Ends a send with an event. */
void epoll_send_finished(struct epoll_socket *socket, struct net_send_op *op, enum base_status status,
                         struct epoll_output *output);
/* Whether the kernel has returned all buffers of a closing socket; makes it. */
bool epoll_close_joined(struct epoll_socket *socket);

/* epoll/file.c */
enum base_status epoll_file_submit(struct net_engine *, struct net_file_op *);
void epoll_files_turn(struct epoll_engine *engine, struct epoll_output *output);

#endif
