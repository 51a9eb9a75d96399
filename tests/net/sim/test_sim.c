/* The simulated network, one promise at a time. Traffic under thousands of seeds is in test_sim_streams.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/sim/sim.h"

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZED true
#else
#define SANITIZED false
#endif

enum { CHUNK_BYTES = 64, CHUNK_COUNT = 4, SOCKETS_MAX = 200, FILE_OPS_MAX = 8, EVENTS_MAX = 500 };

/* A world with two engines: a connects, b listens. */
struct bench {
    struct net_sim_world *world;
    struct net_engine *a, *b;
    struct net_address address; /* of b's listener */
    int listener_fd;
    struct net_socket *listener, *at_a, *at_b;
    struct net_event waiting[2][EVENTS_MAX]; /* polled, not looked at yet */
    uint32_t waiting_count[2];
};

static const struct net_sim_config calm = {.seed = 1, .socket_buffer_bytes = 1000};
static const struct net_sim_config late = {.seed = 1, .socket_buffer_bytes = 1000, .delay_max_ns = 1000000};

static struct net_engine *engine_open(struct net_sim_world *world)
{
    struct net_engine_config config = {.sockets_max = SOCKETS_MAX,
                                       .file_ops_max = FILE_OPS_MAX,
                                       .recv_chunk_bytes = CHUNK_BYTES,
                                       .recv_chunk_count = CHUNK_COUNT};
    struct net_engine *engine;
    assert_int_equal(net_sim_engine_open(world, &config, &engine, NULL), BASE_OK);
    assert_int_equal(net_engine_enable(engine, NULL), BASE_OK);
    return engine;
}

/* Both engines poll: what was submitted is handed over. */
static void poll_both(struct bench *bench)
{
    for (int i = 0; i < 2; i++) {
        uint32_t *count = &bench->waiting_count[i];
        *count += net_engine_poll(i ? bench->b : bench->a, &bench->waiting[i][*count], EVENTS_MAX - *count, 0);
    }
}

/* The next event of the engine, moving time as needed; false when none will ever come. */
static bool next_event(struct bench *bench, struct net_engine *engine, struct net_event *event)
{
    int which = engine == bench->b;
    bool pending = true;
    poll_both(bench);
    while (bench->waiting_count[which] == 0 && pending) {
        pending = net_sim_advance(bench->world, NET_WAIT_FOREVER);
        poll_both(bench);
    }
    if (bench->waiting_count[which] == 0)
        return false;
    *event = bench->waiting[which][0];
    memmove(&bench->waiting[which][0], &bench->waiting[which][1], --bench->waiting_count[which] * sizeof *event);
    return true;
}

static struct net_event expect(struct bench *bench, struct net_engine *engine, enum net_event_kind kind)
{
    struct net_event event = {0};
    assert_true(next_event(bench, engine, &event));
    assert_int_equal(event.kind, kind);
    return event;
}

static struct bench bench_open(const struct net_sim_config *config)
{
    struct bench bench = {0};
    struct net_address any = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)},
                              .bytes = sizeof(struct sockaddr_in)};
    assert_int_equal(net_sim_world_open(config, &bench.world, NULL), BASE_OK);
    bench.a = engine_open(bench.world);
    bench.b = engine_open(bench.world);
    assert_int_equal(net_sim_listen(bench.world, &any, &bench.listener_fd, &bench.address, NULL), BASE_OK);
    assert_int_not_equal(bench.address.v4.sin_port, 0);
    return bench;
}

static void bench_listen(struct bench *bench)
{
    assert_int_equal(net_socket_adopt(bench->b, bench->listener_fd, NULL, &bench->listener, NULL), BASE_OK);
    assert_int_equal(net_socket_accept(bench->listener, NULL), BASE_OK);
}

static struct bench bench_connected(const struct net_sim_config *config)
{
    struct bench bench = bench_open(config);
    bench_listen(&bench);
    assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, &bench, &bench.at_a, NULL), BASE_OK);
    struct net_event accepted = expect(&bench, bench.b, NET_EVENT_ACCEPTED);
    assert_ptr_equal(accepted.socket, bench.listener);
    assert_null(net_socket_context(accepted.accepted));
    bench.at_b = accepted.accepted;
    struct net_event connected = expect(&bench, bench.a, NET_EVENT_CONNECTED);
    assert_int_equal(connected.status, BASE_OK);
    assert_ptr_equal(connected.context, &bench);
    return bench;
}

/* Closes what is open, passes over what still comes. */
static void bench_close(struct bench *bench)
{
    struct net_socket *sockets[] = {bench->at_a, bench->at_b, bench->listener};
    struct net_engine *engines[] = {bench->a, bench->b, bench->b};
    for (int i = 0; i < 3; i++) {
        if (!sockets[i])
            continue;
        net_socket_close(sockets[i], false);
        for (struct net_event event = {0}; event.kind != NET_EVENT_CLOSED || event.socket != sockets[i];) {
            assert_true(next_event(bench, engines[i], &event));
            if (event.kind == NET_EVENT_RECEIVED && event.status == BASE_OK)
                net_chunk_release(engines[i], &event.chunk);
        }
    }
    net_engine_close(bench->a);
    net_engine_close(bench->b);
    net_sim_world_close(bench->world);
}

static void send_all(struct net_socket *socket, struct net_send_op *op, void *bytes, size_t count)
{
    *op = (struct net_send_op){.segments = {{bytes, count}}, .count = 1};
    assert_int_equal(net_socket_send(socket, op), BASE_OK);
}

/* ---- time ---- */

static void idle_world_reports_deadlock_and_reaches_limits(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&calm);
    uint64_t now_ns = net_sim_now_ns(bench.world);
    assert_int_equal(net_socket_receive(bench.at_a, NULL), BASE_OK);
    assert_false(net_sim_advance(bench.world, NET_WAIT_FOREVER));
    assert_int_equal(net_sim_now_ns(bench.world), now_ns);
    assert_false(net_sim_advance(bench.world, now_ns + 500));
    assert_int_equal(net_sim_now_ns(bench.world), now_ns + 500);
    struct net_event event;
    assert_int_equal(net_engine_poll(bench.a, &event, 1, NET_WAIT_FOREVER), 0);
    assert_int_equal(net_engine_now_ns(bench.a), now_ns + 500);
    /* A limit in the past does not turn time back. */
    assert_false(net_sim_advance(bench.world, 1));
    assert_int_equal(net_sim_now_ns(bench.world), now_ns + 500);
    bench_close(&bench);
}

static void stalled_send_without_receiver_is_a_deadlock(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    uint8_t bytes[2000] = {0};
    struct net_send_op op;
    struct net_event event;
    send_all(bench.at_a, &op, bytes, sizeof bytes);
    assert_false(next_event(&bench, bench.a, &event));
    assert_int_equal(op.in_flight, 1);
    bench_close(&bench);
}

static void time_moves_only_forward_and_only_in_advance(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    uint8_t bytes[500] = {0};
    struct net_send_op op;
    send_all(bench.at_a, &op, bytes, sizeof bytes);
    uint64_t start_ns = net_sim_now_ns(bench.world), last_ns = start_ns;
    struct net_event events[EVENTS_MAX];
    assert_int_equal(net_engine_poll(bench.a, events, EVENTS_MAX, 0), 0);
    do {
        for (int i = 0; i < 10; i++) {
            uint32_t count = net_engine_poll(bench.b, events, EVENTS_MAX, NET_WAIT_FOREVER);
            for (uint32_t j = 0; j < count; j++)
                net_chunk_release(bench.b, &events[j].chunk);
            assert_int_equal(net_sim_now_ns(bench.world), last_ns);
            assert_int_equal(net_engine_now_ns(bench.b), last_ns);
        }
        uint64_t limit_ns = last_ns + 100000;
        if (!net_sim_advance(bench.world, limit_ns))
            break;
        assert_in_range(net_sim_now_ns(bench.world), last_ns, limit_ns);
        last_ns = net_sim_now_ns(bench.world);
    } while (net_engine_poll(bench.a, events, EVENTS_MAX, 0) == 0);
    assert_true(last_ns > start_ns);
    assert_int_equal(op.in_flight, 0);
    bench_close(&bench);
}

static void wakes_come_once_and_from_other_engines(void **state)
{
    (void)state;
    struct bench bench = bench_open(&calm);
    struct net_event event;
    net_engine_wake(bench.a);
    net_engine_wake(bench.a);
    assert_true(net_sim_advance(bench.world, NET_WAIT_FOREVER));
    assert_int_equal(net_engine_poll(bench.a, &event, 1, 0), 1);
    assert_int_equal(event.kind, NET_EVENT_WOKEN);
    assert_int_equal(net_engine_poll(bench.a, &event, 1, 0), 0);
    assert_int_equal(net_engine_poll(bench.b, &event, 1, 0), 0);
    assert_int_equal(net_engine_counters(bench.a)->wakeups, 1);
    assert_false(net_sim_advance(bench.world, NET_WAIT_FOREVER));
    bench_close(&bench);
}

/* ---- connecting ---- */

static void nobody_listening_refuses(void **state)
{
    (void)state;
    struct bench bench = bench_open(&late);
    struct net_address nowhere = bench.address;
    nowhere.v4.sin_addr.s_addr = htonl(0x0a000099);
    assert_int_equal(net_socket_connect(bench.a, &nowhere, NET_WAIT_FOREVER, NULL, &bench.at_a, NULL), BASE_OK);
    struct net_event event = expect(&bench, bench.a, NET_EVENT_CONNECTED);
    assert_int_equal(event.status, BASE_NODE_REFUSED);
    assert_int_equal(event.os_error, ECONNREFUSED);
    assert_ptr_equal(event.socket, bench.at_a);
    bench_close(&bench);
}

static void listener_for_any_address_takes_all(void **state)
{
    (void)state;
    struct bench bench = bench_open(&late);
    struct net_address any = {.v4 = {.sin_family = AF_INET}, .bytes = sizeof(struct sockaddr_in)}, bound;
    int fd;
    assert_int_equal(net_sim_listen(bench.world, &any, &fd, &bound, NULL), BASE_OK);
    assert_int_equal(net_sim_listen(bench.world, &bound, &fd, &bound, NULL), BASE_EXISTS);
    bound.v4.sin_addr.s_addr = htonl(0x0a000099);
    assert_int_equal(net_socket_connect(bench.a, &bound, NET_WAIT_FOREVER, NULL, &bench.at_a, NULL), BASE_OK);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_CONNECTED).status, BASE_OK);
    bench_close(&bench);
}

static void connect_gives_up_at_its_deadline(void **state)
{
    (void)state;
    struct bench bench = bench_open(&late);
    struct net_socket *waiting[SOCKETS_MAX];
    uint32_t count = 0, connected = 0;
    /* Nobody accepts: the listener's queue fills, and the rest has to wait. */
    for (; count < SOCKETS_MAX; count++)
        assert_int_equal(net_socket_connect(bench.a, &bench.address, 50 * BASE_NS_PER_MS, NULL, &waiting[count], NULL),
                         BASE_OK);
    assert_int_equal(net_socket_connect(bench.a, &bench.address, 1, NULL, &bench.at_a, NULL), BASE_TOO_LARGE);
    for (uint32_t i = 0; i < count; i++) {
        struct net_event event = expect(&bench, bench.a, NET_EVENT_CONNECTED);
        if (event.status == BASE_OK) {
            connected++;
            assert_true(net_engine_now_ns(bench.a) < 50 * BASE_NS_PER_MS);
        } else {
            assert_int_equal(event.status, BASE_TIMEOUT);
            assert_int_equal(net_engine_now_ns(bench.a), 50 * BASE_NS_PER_MS);
        }
    }
    assert_int_equal(connected, 128);
    for (uint32_t i = 0; i < count; i++)
        net_socket_close(waiting[i], false);
    for (uint32_t i = 0; i < count; i++)
        expect(&bench, bench.a, NET_EVENT_CLOSED);
    bench_close(&bench);
}

/* Two engines accept from one listener, as a job does that begins before the last one has ended. */
static void each_connection_is_accepted_once(void **state)
{
    (void)state;
    enum { CONNECTIONS = 180 }; /* more than the listener's queue holds at once */
    struct bench bench = bench_open(&late);
    bench_listen(&bench);
    struct net_socket *other, *clients[CONNECTIONS], *served[CONNECTIONS];
    assert_int_equal(net_socket_adopt(bench.b, bench.listener_fd, NULL, &other, NULL), BASE_OK);
    assert_int_equal(net_socket_accept(other, NULL), BASE_OK);
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, NULL, &clients[i], NULL),
                         BASE_OK);
    uint32_t by_other = 0;
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(expect(&bench, bench.a, NET_EVENT_CONNECTED).status, BASE_OK);
        struct net_event event = expect(&bench, bench.b, NET_EVENT_ACCEPTED);
        served[i] = event.accepted;
        by_other += event.socket == other;
    }
    assert_in_range(by_other, 20, CONNECTIONS - 20);
    net_socket_close(other, false);
    expect(&bench, bench.b, NET_EVENT_CLOSED);
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        net_socket_close(clients[i], false);
        net_socket_close(served[i], false);
    }
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        expect(&bench, bench.a, NET_EVENT_CLOSED);
        expect(&bench, bench.b, NET_EVENT_CLOSED);
    }
    bench_close(&bench);
}

static void closing_a_listener_resets_who_waits_and_refuses_who_comes(void **state)
{
    (void)state;
    struct bench bench = bench_open(&late);
    assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, NULL, &bench.at_a, NULL), BASE_OK);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_CONNECTED).status, BASE_OK);
    assert_int_equal(net_socket_receive(bench.at_a, NULL), BASE_OK);
    net_sim_listener_close(bench.world, bench.listener_fd);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_RECEIVED).status, BASE_PEER_RESET);
    struct net_socket *other;
    assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, NULL, &other, NULL), BASE_OK);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_CONNECTED).status, BASE_NODE_REFUSED);
    net_socket_close(other, false);
    expect(&bench, bench.a, NET_EVENT_CLOSED);
    bench_close(&bench);
}

static void closing_while_connecting_cancels(void **state)
{
    (void)state;
    struct bench bench = bench_open(&late);
    assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, NULL, &bench.at_a, NULL), BASE_OK);
    net_socket_close(bench.at_a, false);
    net_socket_close(bench.at_a, true);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_CONNECTED).status, BASE_CANCELLED);
    expect(&bench, bench.a, NET_EVENT_CLOSED);
    bench.at_a = NULL;
    bench_close(&bench);
}

static void only_descriptors_of_the_world_are_adopted(void **state)
{
    (void)state;
    struct bench bench = bench_open(&calm);
    struct base_error error;
    assert_int_equal(net_socket_adopt(bench.a, 7, NULL, &bench.at_a, &error), BASE_INVALID);
    assert_non_null(strstr(error.text, "7"));
    int fds[2];
    assert_int_equal(net_sim_pair(bench.world, fds, NULL), BASE_OK);
    assert_int_equal(net_socket_adopt(bench.a, fds[0], NULL, &bench.at_a, NULL), BASE_OK);
    assert_int_equal(net_socket_adopt(bench.b, fds[1], NULL, &bench.at_b, NULL), BASE_OK);
    assert_int_equal(net_socket_adopt(bench.b, fds[1], NULL, &bench.listener, NULL), BASE_INVALID);
    assert_int_equal(net_socket_accept(bench.at_a, NULL), BASE_INVALID);
    /* An end that nobody adopts goes with the world. */
    assert_int_equal(net_sim_pair(bench.world, fds, NULL), BASE_OK);
    bench_close(&bench);
}

/* ---- closing ---- */

static void half_close_lets_the_other_half_live(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    uint8_t question[4] = "who", answer[3] = "me";
    struct net_send_op op;
    assert_int_equal(net_socket_receive(bench.at_a, NULL), BASE_OK);
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    send_all(bench.at_a, &op, question, sizeof question);
    net_socket_shutdown(bench.at_a); /* before SENT: FIN comes after the bytes */
    struct net_event event = expect(&bench, bench.b, NET_EVENT_RECEIVED);
    assert_int_equal(event.chunk.bytes, sizeof question);
    assert_memory_equal(event.chunk.data, question, sizeof question);
    net_chunk_release(bench.b, &event.chunk);
    assert_int_equal(expect(&bench, bench.b, NET_EVENT_RECEIVED).status, BASE_END);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_SENT).status, BASE_OK);
    send_all(bench.at_b, &op, answer, sizeof answer);
    event = expect(&bench, bench.a, NET_EVENT_RECEIVED);
    assert_memory_equal(event.chunk.data, answer, sizeof answer);
    net_chunk_release(bench.a, &event.chunk);
    assert_int_equal(expect(&bench, bench.b, NET_EVENT_SENT).bytes, sizeof answer);
    net_socket_close(bench.at_b, false);
    assert_int_equal(expect(&bench, bench.a, NET_EVENT_RECEIVED).status, BASE_END);
    expect(&bench, bench.b, NET_EVENT_CLOSED);
    bench.at_b = NULL;
    bench_close(&bench);
}

static void closing_cancels_a_send_and_comes_last(void **state)
{
    (void)state;
    uint32_t cancelled = 0, sent = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct net_sim_config config = late;
        config.seed = seed;
        struct bench bench = bench_connected(&config);
        uint8_t bytes[900] = {0};
        struct net_send_op op;
        send_all(bench.at_a, &op, bytes, sizeof bytes);
        if (seed % 4 != 0)
            poll_both(&bench); /* else the kernel has not seen it, and never will */
        net_socket_close(bench.at_a, false);
        struct net_event event = expect(&bench, bench.a, NET_EVENT_SENT);
        assert_int_equal(op.in_flight, 0);
        if (event.status == BASE_CANCELLED) {
            cancelled++;
            assert_true(event.bytes < sizeof bytes && (event.bytes == 0 || seed % 4 != 0));
        } else {
            assert_int_equal(event.status, BASE_OK);
            assert_int_equal(event.bytes, sizeof bytes);
            assert_true(seed % 4 != 0);
            sent++;
        }
        assert_ptr_equal(expect(&bench, bench.a, NET_EVENT_CLOSED).socket, bench.at_a);
        assert_false(next_event(&bench, bench.a, &event));
        bench.at_a = NULL;
        bench_close(&bench);
    }
    assert_true(cancelled > 10 && sent > 10);
}

static void nothing_is_received_or_accepted_after_close(void **state)
{
    (void)state;
    struct net_event events[EVENTS_MAX];
    for (int i = 0; i < 2 * CHUNK_COUNT; i++) {
        struct bench bench = bench_connected(&calm);
        struct net_send_op op;
        uint8_t bytes[CHUNK_BYTES * CHUNK_COUNT * 2] = {0};
        assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
        assert_int_equal(net_socket_receive(bench.at_a, NULL), BASE_OK);
        send_all(bench.at_a, &op, bytes, sizeof bytes);
        assert_int_equal(net_socket_connect(bench.a, &bench.address, NET_WAIT_FOREVER, NULL, &events[0].socket, NULL),
                         BASE_OK);
        struct net_socket *second = events[0].socket;
        /* Chunks and a second connection are ready at b, which has not polled. */
        assert_true(net_engine_poll(bench.a, events, EVENTS_MAX, 0) > 0);
        net_socket_close(bench.at_b, false);
        net_socket_close(bench.listener, false);
        assert_int_equal(expect(&bench, bench.b, NET_EVENT_CLOSED).status, BASE_OK);
        assert_int_equal(expect(&bench, bench.b, NET_EVENT_CLOSED).status, BASE_OK);
        assert_false(next_event(&bench, bench.b, events));
        assert_int_equal(net_engine_counters(bench.b)->receives, 0);
        bench.at_b = bench.listener = NULL;
        assert_int_equal(net_socket_receive(second, NULL), BASE_OK);
        struct net_event event;
        do {
            assert_true(next_event(&bench, bench.a, &event));
        } while (event.socket != second);
        assert_int_equal(event.status, BASE_END);
        net_socket_close(second, false);
        do {
            assert_true(next_event(&bench, bench.a, &event));
        } while (event.kind != NET_EVENT_CLOSED);
        bench_close(&bench);
    }
}

/* Chunks of a socket that closes go to those that wait for one. */
static void closing_gives_its_chunks_to_the_starved(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&calm);
    struct net_event events[EVENTS_MAX];
    struct net_send_op op, other_op;
    struct net_socket *ends[2];
    int fds[2];
    uint8_t bytes[CHUNK_BYTES * CHUNK_COUNT] = {0};
    assert_int_equal(net_sim_pair(bench.world, fds, NULL), BASE_OK);
    assert_int_equal(net_socket_adopt(bench.a, fds[0], NULL, &ends[0], NULL), BASE_OK);
    assert_int_equal(net_socket_adopt(bench.b, fds[1], NULL, &ends[1], NULL), BASE_OK);
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    assert_int_equal(net_socket_receive(ends[1], NULL), BASE_OK);
    send_all(bench.at_a, &op, bytes, sizeof bytes);
    assert_true(net_engine_poll(bench.a, events, EVENTS_MAX, 0) > 0);
    send_all(ends[0], &other_op, bytes, 1);
    assert_true(net_engine_poll(bench.a, events, EVENTS_MAX, 0) > 0);
    assert_int_equal(net_engine_counters(bench.b)->receive_starved, 1);
    net_socket_close(bench.at_b, false);
    bench.at_b = NULL;
    for (uint32_t i = 0, received = 0; i < 2; i++) {
        assert_true(next_event(&bench, bench.b, events));
        if (events[0].kind == NET_EVENT_RECEIVED) {
            assert_int_equal(received++, 0);
            assert_ptr_equal(events[0].socket, ends[1]);
            net_chunk_release(bench.b, &events[0].chunk);
        }
    }
    net_socket_close(ends[0], false);
    net_socket_close(ends[1], false);
    expect(&bench, bench.a, NET_EVENT_CLOSED);
    expect(&bench, bench.b, NET_EVENT_CLOSED);
    bench_close(&bench);
}

/* What b's receiving comes to when a closes: with abort, or with bytes of b unread. */
static enum base_status end_seen(bool abort, bool unread)
{
    struct bench bench = bench_connected(&late);
    struct net_send_op op;
    if (unread) {
        send_all(bench.at_b, &op, (uint8_t[]){1}, 1);
        assert_int_equal(expect(&bench, bench.b, NET_EVENT_SENT).status, BASE_OK);
    }
    net_socket_close(bench.at_a, abort);
    expect(&bench, bench.a, NET_EVENT_CLOSED);
    bench.at_a = NULL;
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    enum base_status status = expect(&bench, bench.b, NET_EVENT_RECEIVED).status;
    bench_close(&bench);
    return status;
}

static void abort_and_unread_bytes_reset_the_peer(void **state)
{
    (void)state;
    assert_int_equal(end_seen(false, false), BASE_END);
    assert_int_equal(end_seen(true, false), BASE_PEER_RESET);
    assert_int_equal(end_seen(false, true), BASE_PEER_RESET);
}

static void sending_to_a_closed_peer_fails_in_the_end(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    struct net_send_op op;
    struct net_event event;
    net_socket_close(bench.at_b, false);
    expect(&bench, bench.b, NET_EVENT_CLOSED);
    bench.at_b = NULL;
    uint32_t swallowed = 0;
    do {
        assert_in_range(swallowed, 0, 5);
        send_all(bench.at_a, &op, (uint8_t[]){1}, 1);
        event = expect(&bench, bench.a, NET_EVENT_SENT);
        swallowed++;
    } while (event.status == BASE_OK);
    assert_int_equal(event.status, BASE_PEER_RESET);
    assert_true(swallowed > 1);
    bench_close(&bench);
}

/* ---- chunks and queues ---- */

static void released_chunks_are_overwritten_and_reused_in_any_order(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    uint32_t order = 0, seen = 0;
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    for (int i = 0; i < 100; i++) {
        struct net_send_op op;
        uint8_t bytes[8] = "abcdefg";
        send_all(bench.at_a, &op, bytes, sizeof bytes);
        struct net_event event = expect(&bench, bench.b, NET_EVENT_RECEIVED);
        assert_memory_equal(event.chunk.data, bytes, sizeof bytes);
        assert_in_range(event.chunk.id, 0, CHUNK_COUNT - 1);
        seen |= 1U << event.chunk.id;
        order += event.chunk.id == (uint32_t)i % CHUNK_COUNT;
        const volatile uint8_t *data = event.chunk.data;
        net_chunk_release(bench.b, &event.chunk);
        if (!SANITIZED) /* the sanitizer stops who looks */
            assert_int_not_equal(data[0], 'a');
        expect(&bench, bench.a, NET_EVENT_SENT);
    }
    assert_int_equal(seen, (1U << CHUNK_COUNT) - 1);
    assert_true(order < 60);
    bench_close(&bench);
}

static void held_chunks_stop_the_stream_until_released(void **state)
{
    (void)state;
    struct bench bench = bench_connected(&late);
    uint8_t bytes[CHUNK_BYTES * (CHUNK_COUNT + 1)] = {0};
    struct net_send_op op;
    struct net_chunk held[CHUNK_COUNT] = {0};
    struct net_event event;
    uint32_t count = 0, received = 0;
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    send_all(bench.at_a, &op, bytes, sizeof bytes);
    while (next_event(&bench, bench.b, &event)) {
        assert_in_range(count, 0, CHUNK_COUNT - 1);
        held[count++] = event.chunk;
        received += event.chunk.bytes;
        if (count == CHUNK_COUNT && net_engine_counters(bench.b)->receive_starved)
            break;
    }
    assert_int_equal(received, CHUNK_BYTES * CHUNK_COUNT);
    assert_int_equal(net_engine_counters(bench.b)->receive_starved, 1);
    net_chunk_release(bench.b, &held[1]);
    event = expect(&bench, bench.b, NET_EVENT_RECEIVED);
    assert_int_equal(event.chunk.bytes, CHUNK_BYTES);
    assert_int_equal(event.chunk.id, held[1].id);
    net_chunk_release(bench.b, &event.chunk);
    for (uint32_t i = 0; i < CHUNK_COUNT; i++) {
        if (i != 1)
            net_chunk_release(bench.b, &held[i]);
    }
    bench_close(&bench);
}

static void a_full_queue_lasts_until_the_next_poll(void **state)
{
    (void)state;
    struct net_sim_config config = late;
    config.busy_percent = 50;
    struct bench bench = bench_connected(&config);
    uint32_t busy = 0;
    uint8_t byte = 1;
    assert_int_equal(net_socket_receive(bench.at_b, NULL), BASE_OK);
    for (int i = 0; i < 100; i++) {
        struct net_send_op op = {.segments = {{&byte, 1}}, .count = 1};
        struct net_event event;
        while (net_socket_send(bench.at_a, &op) == BASE_BUSY) {
            assert_int_equal(op.in_flight, 0);
            assert_int_equal(net_socket_send(bench.at_a, &op), BASE_BUSY);
            /* Not a deadlock: who was refused may try again. */
            assert_true(net_sim_advance(bench.world, NET_WAIT_FOREVER));
            assert_int_equal(net_engine_poll(bench.a, &event, 1, 0), 0);
            busy++;
        }
        struct net_send_op second = {.segments = {{&byte, 1}}, .count = 1};
        assert_int_equal(net_socket_send(bench.at_a, &second), BASE_BUSY);
        event = expect(&bench, bench.b, NET_EVENT_RECEIVED);
        net_chunk_release(bench.b, &event.chunk);
        expect(&bench, bench.a, NET_EVENT_SENT);
    }
    assert_in_range(busy, 20, 500);
    bench_close(&bench);
}

/* ---- misuse: every one of these ends the process ---- */

static void misuse_chunk_twice(struct bench *bench)
{
    struct net_event event = expect(bench, bench->b, NET_EVENT_RECEIVED);
    net_chunk_release(bench->b, &event.chunk);
    net_chunk_release(bench->b, &event.chunk);
}

static void misuse_chunk_foreign(struct bench *bench)
{
    struct net_event event = expect(bench, bench->b, NET_EVENT_RECEIVED);
    net_chunk_release(bench->a, &event.chunk);
}

static void misuse_chunk_changed(struct bench *bench)
{
    struct net_event event = expect(bench, bench->b, NET_EVENT_RECEIVED);
    event.chunk.data++;
    net_chunk_release(bench->b, &event.chunk);
}

static void misuse_op_twice(struct bench *bench)
{
    struct net_send_op op;
    send_all(bench->at_b, &op, (uint8_t[]){1}, 1);
    (void)net_socket_send(bench->at_b, &op);
}

static void misuse_send_buffer(struct bench *bench)
{
    struct net_send_op op;
    uint8_t byte = 1;
    send_all(bench->at_b, &op, &byte, 1);
    net_sim_advance(bench->world, net_sim_now_ns(bench->world) + BASE_NS_PER_S);
    byte = 2;
    for (struct net_event event = {0}; event.kind != NET_EVENT_SENT;)
        (void)next_event(bench, bench->b, &event);
}

static void misuse_send_after_shutdown(struct bench *bench)
{
    struct net_send_op op;
    net_socket_shutdown(bench->at_b);
    send_all(bench->at_b, &op, (uint8_t[]){1}, 1);
}

static void misuse_after_closed(struct bench *bench)
{
    struct net_event event = {0};
    net_socket_close(bench->at_b, false);
    while (event.kind != NET_EVENT_CLOSED)
        assert_true(next_event(bench, bench->b, &event));
    net_socket_close(bench->at_b, false);
}

static void misuse_receive_twice(struct bench *bench)
{
    (void)net_socket_receive(bench->at_b, NULL);
}

static void misuse_write_buffer(struct bench *bench)
{
    uint8_t byte = 1;
    struct net_file_op op = {.kind = NET_FILE_WRITE, .fd = fileno(tmpfile()), .buffer = &byte, .bytes = 1, .offset = 0};
    (void)net_file_submit(bench->b, &op);
    byte = 2;
    for (struct net_event event = {0}; event.kind != NET_EVENT_FILE;)
        (void)next_event(bench, bench->b, &event);
}

static void misuse_engine_close(struct bench *bench)
{
    net_engine_close(bench->b);
}

static void misuse_is_caught(void **state)
{
    (void)state;
    static void (*const misuses[])(struct bench *) = {
        misuse_chunk_twice,  misuse_chunk_foreign,       misuse_chunk_changed, misuse_op_twice,
        misuse_send_buffer,  misuse_send_after_shutdown, misuse_after_closed,  misuse_receive_twice,
        misuse_write_buffer, misuse_engine_close};
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (!freopen("/dev/null", "w", stderr))
                _exit(2);
            /* A byte from a waits at b, which receives. */
            struct bench bench = bench_connected(&calm);
            struct net_send_op op;
            send_all(bench.at_a, &op, (uint8_t[]){1}, 1);
            (void)net_socket_receive(bench.at_b, NULL);
            misuses[i](&bench);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        /* By an assertion, or by the address sanitizer, which ends the process with 1. */
        if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT) && !(WIFEXITED(status) && WEXITSTATUS(status) == 1))
            fail_msg("misuse %zu was not caught (wait status %d)", i, status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_world_reports_deadlock_and_reaches_limits),
        cmocka_unit_test(stalled_send_without_receiver_is_a_deadlock),
        cmocka_unit_test(time_moves_only_forward_and_only_in_advance),
        cmocka_unit_test(wakes_come_once_and_from_other_engines),
        cmocka_unit_test(nobody_listening_refuses),
        cmocka_unit_test(listener_for_any_address_takes_all),
        cmocka_unit_test(connect_gives_up_at_its_deadline),
        cmocka_unit_test(each_connection_is_accepted_once),
        cmocka_unit_test(closing_a_listener_resets_who_waits_and_refuses_who_comes),
        cmocka_unit_test(closing_while_connecting_cancels),
        cmocka_unit_test(only_descriptors_of_the_world_are_adopted),
        cmocka_unit_test(half_close_lets_the_other_half_live),
        cmocka_unit_test(closing_cancels_a_send_and_comes_last),
        cmocka_unit_test(nothing_is_received_or_accepted_after_close),
        cmocka_unit_test(closing_gives_its_chunks_to_the_starved),
        cmocka_unit_test(abort_and_unread_bytes_reset_the_peer),
        cmocka_unit_test(sending_to_a_closed_peer_fails_in_the_end),
        cmocka_unit_test(released_chunks_are_overwritten_and_reused_in_any_order),
        cmocka_unit_test(held_chunks_stop_the_stream_until_released),
        cmocka_unit_test(a_full_queue_lasts_until_the_next_poll),
        cmocka_unit_test(misuse_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
