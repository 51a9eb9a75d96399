/* The engine: everything a worker waits for - sockets, files, wake-ups, time - comes as an event of its engine.
 *
 * Three engines fill in one table: io_uring (net/uring/), epoll (net/epoll/) and a seeded simulation
 * (net/sim/). One conformance suite (tests/net/test_conformance.c) runs over all of them. The contract:
 *
 *  - An engine is opened on any thread, then net_engine_enable makes the calling thread its owner. From then on
 *    every call but net_engine_wake is made by the owner.
 *  - A submit is accepted (BASE_OK), busy (BASE_BUSY: poll first, then again) or an error. Completions come only out of
 *    net_engine_poll, never from inside a submit, also on an engine that could finish at once.
 *  - Submits are queued; net_engine_poll hands them to the kernel together, once per turn, and reaps.
 *  - A buffer named in an operation belongs to the engine (the kernel) until that operation's event.
 *  - No event mentions a socket after its NET_EVENT_CLOSED.
 *  - An engine may break: net_engine_failure says why, for good. Its connections are reset, and what is in flight, or
 *    asked for later, ends with BASE_ENGINE_BROKEN as soon as the kernel is done with its memory. It can be woken, its
 *    sockets can be closed, and then it can be closed, too.
 */
#ifndef MILLRACE_NET_ENGINE_ENGINE_H
#define MILLRACE_NET_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/measure.h"
#include "base/memory/memory.h"
#include "base/status.h"
#include "net/engine/address.h"
#include "net/engine/rung.h"
#include "net/engine/socket_settings.h"

struct net_engine;
struct net_socket;

enum { NET_SEND_SEGMENTS_MAX = 64 };
/* Sends of one socket between net_socket_send and SENT. */
enum { NET_SENDS_MAX = 4 };

/* The receive queue of a card that zero-copy receive takes, for the engine alone: its connections must be steered there
 * before they carry data. */
struct net_receive_queue {
    uint32_t interface_index; /* 0: no card; the kernel copies (for tests) */
    uint32_t queue;
    uint64_t area_bytes;  /* memory for received payload; 0: recv_chunk_count times recv_chunk_bytes. A piece of it is
                             taken  by every completion, however few bytes it brings */
    uint32_t piece_bytes; /* a power of two from a page on; 0: a page. More where the driver takes it, else a page */
};

struct net_engine_config {
    uint32_t sockets_max;      /* sockets open at once, listeners included */
    uint32_t file_ops_max;     /* file operations in flight at once */
    uint32_t recv_chunk_bytes; /* size of one receive chunk */
    uint32_t recv_chunk_count; /* chunks shared by all sockets; rungs without provided buffers add one a socket */
    uint32_t features;         /* of AUTO and URING, as net_choose gives them; 0, and for named rungs: the rung's */
    struct net_socket_settings socket;
    struct net_receive_queue queue; /* of zero-copy receive */
    struct net_port_block ports;    /* of connections that are made here */
    uint32_t completions_max;       /* length of a ring's completion queue; 0: enough for everything at once. With fewer
                                       the kernel keeps what does not fit, or ends receives, which are armed again */
    struct base_governor *governor; /* receive chunks are drawn from it */
};

/* A piece of received bytes. It belongs to whoever got the event until net_chunk_release. While no chunk is free the
 * engine stops receiving and TCP carries the pressure back to the senders: holding chunks is how a worker says "busy".
 * On a rung with incremental buffers several pieces may lie in one chunk, which is free when all are released: there
 * more than recv_chunk_count pieces can be out. On every rung, whoever holds fewer than that goes on receiving. */
struct net_chunk {
    uint8_t *data;
    uint32_t bytes;
    uint32_t capacity; /* bytes of the whole chunk; bytes/capacity is the fill ratio */
    uint32_t id;       /* the engine's */
};

/* One send: caller-owned, lives until its event. Short sends are continued inside the engine: the event comes when all
 * bytes are out and the kernel needs them no more, or with an error. One send of a socket goes out at a time: the next
 * may be queued after SENT, or after OUT, which only engines that send without a copy give. */
struct net_send_op {
    struct iovec segments[NET_SEND_SEGMENTS_MAX]; /* the engine may modify it */
    uint32_t count;
    uint32_t in_flight; /* set by submit, cleared before the event; asserted at both */
    struct {
        uint64_t bytes;                 /* out */
        uint32_t first;                 /* segment that is not out entirely */
        uint32_t notices_due;           /* zero-copy sends whose buffers the kernel has not returned */
        uint32_t notice_first, notices; /* numbers of its zero-copy sends on the socket */
        uint32_t tag;
        int os_error; /* once nothing goes out any more */
    } own;            /* the engine's */
};

enum net_file_kind { NET_FILE_READ, NET_FILE_WRITE, NET_FILE_SYNC };

/* One file operation: caller-owned, lives until its event. A read is short only at the end of the file; a write is
 * short never: both are continued inside the engine. */
struct net_file_op {
    enum net_file_kind kind;
    int fd;
    uint8_t *buffer;
    uint32_t bytes;
    uint64_t offset;
    void *context; /* the caller's */
    uint32_t tag;  /* the caller's: who handles the event */
    uint32_t in_flight;
    uint32_t done; /* the engine's */
};

enum net_event_kind {
    NET_EVENT_ACCEPTED,  /* socket: the listener; accepted: the new socket, its context is NULL */
    NET_EVENT_CONNECTED, /* status says whether; on error the socket still wants closing. BASE_BUSY: its local port was
                            in use after all, connect again */
    NET_EVENT_RECEIVED,  /* OK: chunk. BASE_END: the peer sent FIN. Else an error. Nothing is received after END or an
                            error */
    NET_EVENT_OUT,       /* all bytes of a send are out, but its buffers are not free yet: the next may be queued */
    NET_EVENT_SENT,      /* bytes sent in all; on error the stream is broken. In any order after OUT */
    NET_EVENT_FILE,      /* file: the operation; bytes done */
    NET_EVENT_WOKEN,     /* net_engine_wake was called since the last poll (several calls may give one event) */
    NET_EVENT_CLOSED     /* last event of a socket: it is freed */
};

struct net_event {
    enum net_event_kind kind;
    enum base_status status;
    int os_error; /* positive errno when status is not OK and the kernel said one, else 0 */
    struct net_socket *socket;
    void *context; /* of the socket, or of the file operation */
    struct net_socket *accepted;
    struct net_chunk chunk;   /* RECEIVED and OK only */
    struct net_send_op *send; /* SENT, OUT */
    struct net_file_op *file;
    uint64_t bytes;
};

/* What an engine counts since it was opened (base/measure.h). */
#define NET_COUNTER_LIST(X)                                                                                            \
    X(enters, COUNT, SUM, SUM, BOTH, "counters.enters", "enters", "calls that submit, reap or wait")                   \
    X(syscalls, COUNT, SUM, SUM, BOTH, "counters.syscalls", "syscalls",                                                \
      "system calls of the data path, enters included")                                                                \
    X(completions, COUNT, SUM, SUM, BOTH, "counters.completions", "completions",                                       \
      "completions of io_uring, or ready events of epoll")                                                             \
    X(waits, COUNT, SUM, SUM, BOTH, "counters.waits", NULL, "waits for an event that blocked")                         \
    X(wait_ns, NS, SUM, SUM, BOTH, "counters.wait_ns", NULL, "time spent in them, in nanoseconds")                     \
    X(wakeups, COUNT, SUM, SUM, BOTH, "counters.wakeups", NULL, "times another thread woke the worker")                \
    X(receives, COUNT, SUM, SUM, BOTH, "counters.receives", NULL, "receive chunks that came")                          \
    X(received_bytes, BYTES, SUM, SUM, BOTH, "counters.received_bytes", NULL, "bytes in them")                         \
    X(receive_starved, COUNT, SUM, SUM, BOTH, "counters.receive_starved", NULL,                                        \
      "times a socket held bytes while no receive chunk was free")                                                     \
    X(zc_receives, COUNT, SUM, SUM, BOTH, "counters.zc_receives", NULL,                                                \
      "receive chunks that were not copied to user memory")                                                            \
    X(zc_receive_copied, COUNT, SUM, SUM, BOTH, "counters.zc_receive_copied", NULL,                                    \
      "of these, copied by the kernel because there is no card")                                                       \
    X(zc_receive_flushes, COUNT, SUM, SUM, BOTH, "counters.zc_receive_flushes", NULL,                                  \
      "times chunks went back to the card by a system call")                                                           \
    X(receive_rearms, COUNT, SUM, SUM, BOTH, "counters.receive_rearms", NULL,                                          \
      "times a multishot receive was started again")                                                                   \
    X(sends, COUNT, SUM, SUM, BOTH, "counters.sends", NULL, "sends that ended")                                        \
    X(sent_bytes, BYTES, SUM, SUM, BOTH, "counters.sent_bytes", NULL, "bytes in them")                                 \
    X(short_sends, COUNT, SUM, SUM, BOTH, "counters.short_sends", NULL, "sends that took a part only, and went on")    \
    X(zc_sends, COUNT, SUM, SUM, BOTH, "counters.zc_sends", NULL, "sends that were asked for without a copy")          \
    X(zc_copied, COUNT, SUM, SUM, BOTH, "counters.zc_copied", "zc_copied", "of these, copied by the kernel anyway")    \
    X(zc_off, COUNT, SUM, SUM, BOTH, "counters.zc_off", NULL, "connections that gave up zero-copy sends")              \
    X(file_reads, COUNT, SUM, SUM, BOTH, "counters.file_reads", NULL, "reads of files")                                \
    X(file_writes, COUNT, SUM, SUM, BOTH, "counters.file_writes", NULL, "writes of files")                             \
    X(stale_completions, COUNT, SUM, SUM, BOTH, "counters.stale_completions", NULL,                                    \
      "completions of sockets that were closed before")

struct net_counters {
    NET_COUNTER_LIST(BASE_MEASURE_FIELD)
};

/* Makes the calling thread the owner. */
enum base_status net_engine_enable(struct net_engine *engine, struct base_error *error);
/* All sockets must be closed (their CLOSED seen), no file operation in flight and all chunks released: those that are
 * out are logged with their holders, and builds with costly assertions abort. */
void net_engine_close(struct net_engine *engine);

/* The rung's word such as "uring-multishot" (of URING and AUTO: "uring", or "epoll" after a fallback), or "sim". */
const char *net_engine_name(const struct net_engine *engine);
/* Room for what net_engine_reason says: every feature that can be missed at once, with the longest of its causes. */
enum { NET_REASON_BYTES = 1024 };
/* What of the choice is not in force and why, in words an operator can act on; "" when all is. Settled by enable. */
const char *net_engine_reason(const struct net_engine *engine);
/* The features in use and the socket settings, separated by spaces. Settled by enable. */
const char *net_engine_features(const struct net_engine *engine);
/* Bits of enum net_feature that are in force. Settled by enable. */
uint32_t net_engine_in_force(const struct net_engine *engine);
/* Bits of enum net_feature that were asked for and are not available; URING after a fallback to epoll. Settled by
 * enable. */
uint32_t net_engine_missing(const struct net_engine *engine);
/* A user that holds fewer pieces than this goes on receiving: recv_chunk_count, or what the area of zero-copy receive
 * has.
 */
uint32_t net_engine_chunk_count(const struct net_engine *engine);
/* What broke the engine and what to do; NULL: it works. The poll that finds out returns no events. */
const struct base_error *net_engine_failure(const struct net_engine *engine);
const struct net_counters *net_engine_counters(const struct net_engine *engine);
/* Monotonic time as the owner should see it: read once per poll (virtual time in the simulation). */
uint64_t net_engine_now_ns(const struct net_engine *engine);

/* Takes over a connected or listening socket (non-blocking is set here), also on error: then it is closed.
 * Listening sockets are made by net_listen. Errors: BASE_TOO_LARGE beyond sockets_max. */
enum base_status net_socket_adopt(struct net_engine *engine, int fd, void *context, struct net_socket **socket,
                                  struct base_error *error);
void net_socket_set_context(struct net_socket *socket, void *context);
void *net_socket_context(const struct net_socket *socket);
/* Every connection to the listener gives one ACCEPTED, until the listener is closed; one that finds sockets_max open is
 * taken and dropped, with a line in the log. An adopted listener is borrowed: closing the net_socket stops accepting
 * but leaves the fd open for its owner (it outlives jobs and engines). */
enum base_status net_socket_accept(struct net_socket *listener, struct base_error *error);
/* Makes a socket and connects it: one CONNECTED. Gives up at deadline_ns (engine time) with BASE_TIMEOUT. */
enum base_status net_socket_connect(struct net_engine *engine, const struct net_address *address, uint64_t deadline_ns,
                                    void *context, struct net_socket **socket, struct base_error *error);
/* Starts receiving, once per connected socket: RECEIVED events follow until END or an error. */
enum base_status net_socket_receive(struct net_socket *socket, struct base_error *error);
/* Queues op; one SENT follows. BASE_BUSY: a send is going out already, NET_SENDS_MAX are not
 * SENT, or the queue is full. */
enum base_status net_socket_send(struct net_socket *socket, struct net_send_op *op);
/* Sends FIN after the last send; no send may follow. */
void net_socket_shutdown(struct net_socket *socket);
/* Stops what is in flight, joins it, releases: CLOSED follows after the events of what was in flight (a send ends with
 * BASE_CANCELLED or its result, a connect with BASE_CANCELLED). Nothing is received or accepted any more. Safe inside
 * event handling; a second call does nothing. abort true sends RST. So does the kernel by itself when the peer's bytes
 * are closed unread, and then the peer may lose what we sent last: to part in peace, shut down, wait for END, close. */
void net_socket_close(struct net_socket *socket, bool abort);

/* Owner thread only; any order. The bytes are gone: debug builds scribble over them. */
void net_chunk_release(struct net_engine *engine, const struct net_chunk *chunk);
/* A user that keeps a chunk beyond the call that brought it names itself, as words (static) and a number: "the queue of
 * worker", 3. The engine names it when it is closed without the chunk. */
void net_chunk_keep(struct net_engine *engine, const struct net_chunk *chunk, const char *words, uint32_t number);

/* Queues a file operation; one FILE event follows. BASE_BUSY: file_ops_max in flight. */
enum base_status net_file_submit(struct net_engine *engine, struct net_file_op *op);

/* Says that sends will come from this memory again and again, so that an engine that sends without a copy can have it
 * pinned once instead of with every send. Never fails: who cannot use it, or may not, does without. The owner thread
 * unregisters it, by its beginning, before it is unmapped and when no send from it is in flight. */
void net_memory_register(struct net_engine *engine, void *memory, size_t bytes);
void net_memory_unregister(struct net_engine *engine, void *memory);

/* From any thread: the owner's current or next poll returns with WOKEN. */
void net_engine_wake(struct net_engine *engine);

/* Submits what is queued, then fills up to max events. Blocks only when nothing is ready: until an event, or until
 * wait_ns have passed (0: never blocks; NET_WAIT_FOREVER: no limit). Returns the number of events. */
#define NET_WAIT_FOREVER UINT64_MAX
uint32_t net_engine_poll(struct net_engine *engine, struct net_event *events, uint32_t max, uint64_t wait_ns);

#endif
