/* The bench of the conformance suite: two engines of one kind, a listener of the second, and peers that record what
 * their sockets reported. Everything runs in one thread: bench_pump polls both engines in turn.
 *
 * A new engine joins by a `struct bench_kind` and a line in bench_kinds (conformance.c). */
#ifndef MILLRACE_TESTS_NET_CONFORMANCE_H
#define MILLRACE_TESTS_NET_CONFORMANCE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/engine/engine.h"

enum { BENCH_CLIENT, BENCH_SERVER, BENCH_ENGINES };
enum { BENCH_PEERS_MAX = 512, BENCH_EVENTS_MAX = 64 };

struct bench;

struct bench_kind {
    const char *name;
    bool kernel; /* real sockets and real time: tests of descriptors, threads and the kernel's queues make sense */
    struct net_engine_choice engine; /* of a kernel kind */
    /* Fills engines, listener_fd and address. */
    void (*open)(struct bench *bench, const struct net_engine_config *config);
    void (*close)(struct bench *bench);
    /* Nothing came out of either engine: lets time pass. False when nothing is pending anywhere (a simulation knows).
     */
    bool (*idle)(struct bench *bench);
    bool brief;        /* the cases that take seconds are left out */
    uint32_t features; /* of URING, as net_choose may give them; 0: the rung's */
};

extern const struct bench_kind *const bench_kinds[];
extern const size_t bench_kinds_count;
const struct bench_kind *bench_kind_of(enum net_engine_kind rung);

/* One socket and what it reported; its socket's context points here. */
struct bench_peer {
    struct bench *bench;
    struct net_engine *engine;
    struct net_socket *socket; /* NULL after CLOSED */
    bool connected, sent, ended, closed;
    enum base_status connect_status, sent_status, end_status;
    uint64_t sent_bytes;
    uint32_t sends, outs;
    uint8_t *data; /* everything received, in order */
    size_t bytes, room;
    bool hold; /* keep chunks instead of releasing them */
    struct net_chunk held[BENCH_EVENTS_MAX];
    uint32_t held_count;
    struct net_send_op op;
};

struct bench {
    const struct bench_kind *kind;
    struct base_governor *governor;
    struct net_engine *engines[BENCH_ENGINES];
    void *world; /* the kind's */
    int listener_fd;
    struct net_address address;
    struct net_socket *listener;
    struct bench_peer *peers;
    uint32_t peers_count;
    struct bench_peer *accepted[BENCH_PEERS_MAX]; /* in the order in which they came */
    uint32_t accepted_count;
    bool listener_closed;
    bool stuck;          /* nothing came and nothing is pending (a simulation knows) */
    bool refuse_receive; /* accepted sockets are not received from until the test says so */
    uint32_t woken[BENCH_ENGINES];
    uint32_t files_done;
    struct net_event file_event; /* the last one */
    uint32_t events_max;         /* a poll */
};

/* A configuration with room for everything: chunks of 4 KiB x 16, 64 sockets, 8 file operations. */
struct net_engine_config bench_config(void);
/* Opens a bench with an accepting listener; bench_close ends what is open and checks that all is given back. */
struct bench *bench_open(const struct bench_kind *kind, const struct net_engine_config *config);
void bench_close(struct bench *bench);

/* Polls both engines once, waiting a moment when nothing is ready. */
void bench_pump(struct bench *bench);
/* Polls one engine only, where the kernel moves the bytes meanwhile (a simulation needs both). */
void bench_pump_side(struct bench *bench, int side);
/* Pumps (by pump) until condition holds; fails the test after ten seconds, or when nothing is pending. */
bool bench_overdue(struct bench *bench, uint64_t *until_ns);
#define BENCH_UNTIL_BY(pump, bench, condition)                                                                         \
    do {                                                                                                               \
        uint64_t until_ns_ = 0;                                                                                        \
        while (!(condition)) {                                                                                         \
            if (bench_overdue(bench, &until_ns_))                                                                      \
                fail_msg("%s: never became true: %s", (bench)->kind->name, #condition);                                \
            pump;                                                                                                      \
        }                                                                                                              \
    } while (0)
#define BENCH_UNTIL(bench, condition) BENCH_UNTIL_BY(bench_pump(bench), bench, condition)
#define BENCH_UNTIL_ON(side, bench, condition) BENCH_UNTIL_BY(bench_pump_side(bench, side), bench, condition)
/* Pumps for about this long (of the engines' time). */
void bench_pump_for(struct bench *bench, uint64_t duration_ns);

/* Forgets all peers, which are closed. */
void bench_forget(struct bench *bench);

/* Connects, without waiting for it. */
struct bench_peer *bench_connect(struct bench *bench, const struct net_address *address, uint64_t timeout_ns);
/* A connected pair: *client on the first engine, *server on the second, both receiving. */
void bench_pair(struct bench *bench, struct bench_peer **client, struct bench_peer **server);
/* Sends count equal segments (and what is left over in the last). data lives until SENT. */
void bench_send(struct bench_peer *peer, const uint8_t *data, size_t bytes, uint32_t count);
void bench_release(struct bench_peer *peer);
void bench_peer_close(struct bench_peer *peer, bool abort);

/* Bytes that differ from place to place, the same for a seed. Free with free(). */
uint8_t *bench_bytes(size_t bytes, uint64_t seed);
/* Open descriptors of this process. */
unsigned bench_descriptors(void);

#endif
