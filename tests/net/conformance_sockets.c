/* Sockets, on every engine: what net/engine/engine.h promises, and what its users lean on. */
#include "tests/net/conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/net/conformance_cases.h"

/* Sends bytes from one peer to another in `count` segments and checks them and the events. */
static void check_transfer(struct bench *bench, struct bench_peer *from, struct bench_peer *to, size_t bytes,
                           uint32_t count)
{
    size_t before = to->bytes;
    uint8_t *data = bench_bytes(bytes, bytes + count);

    bench_send(from, data, bytes, count);
    BENCH_UNTIL(bench, from->sent && to->bytes >= before + bytes);
    assert_int_equal(from->sent_status, BASE_OK);
    assert_int_equal(from->sent_bytes, bytes);
    assert_int_equal(to->bytes, before + bytes);
    assert_memory_equal(to->data + before, data, bytes);
    free(data);
}

static void chunk_boundary_at_every_offset(void **state)
{
    for (uint32_t chunk_bytes = 1; chunk_bytes <= 40; chunk_bytes++) {
        struct net_engine_config config = bench_config();
        struct bench_peer *client, *server;
        config.recv_chunk_bytes = chunk_bytes;
        struct bench *bench = bench_open(*state, &config);
        bench_pair(bench, &client, &server);
        for (uint32_t count = 1; count <= 40; count += 13)
            check_transfer(bench, client, server, 40, count);
        check_transfer(bench, server, client, 37, 2);
        /* Zero-copy receive has chunks of a page, however small they were asked for. */
        const struct net_counters *counters = net_engine_counters(server->engine);
        assert_true(counters->receives >= 160 / chunk_bytes || counters->zc_receives > 0);
        bench_close(bench);
    }
}

static void one_event_a_poll(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench->events_max = 1;
    bench_pair(bench, &client, &server);
    check_transfer(bench, client, server, 300000, 3);
    check_transfer(bench, server, client, 300000, NET_SEND_SEGMENTS_MAX);
    bench_close(bench);
}

static void partial_sends_through_tiny_buffers(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    size_t bytes = 1 << 20;
    config.socket.send_buffer_bytes = 4096;
    config.socket.recv_buffer_bytes =
        32768; /* a window smaller than a segment lets TCP send by its persist timer only */
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    uint8_t *up = bench_bytes(bytes, 1), *down = bench_bytes(bytes, 2);
    bench_send(client, up, bytes, 7);
    bench_send(server, down, bytes, 61);
    BENCH_UNTIL(bench, client->sent && server->sent && client->bytes == bytes && server->bytes == bytes);
    assert_int_equal(client->sent_bytes, bytes);
    assert_int_equal(server->sent_bytes, bytes);
    assert_memory_equal(server->data, up, bytes);
    assert_memory_equal(client->data, down, bytes);
    assert_int_equal(net_engine_counters(client->engine)->sends, 1);
    assert_int_equal(net_engine_counters(client->engine)->sent_bytes, bytes);
    free(up);
    free(down);
    bench_close(bench);
}

static void second_send_is_busy(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct net_send_op second = {.count = 1};
    uint8_t byte = 7;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    uint8_t *data = bench_bytes(100000, 3);
    bench_send(client, data, 100000, 1);
    second.segments[0] = (struct iovec){.iov_base = &byte, .iov_len = 1};
    assert_int_equal(net_socket_send(client->socket, &second), BASE_BUSY);
    assert_int_equal(second.in_flight, 0);
    BENCH_UNTIL(bench, client->sent && server->bytes == 100000);
    assert_memory_equal(server->data, data, 100000);
    free(data);
    bench_close(bench);
}

static void empty_segments_count_for_nothing(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    check_transfer(bench, client, server, 5, 60); /* all but the last are empty */
    check_transfer(bench, client, server, 0, 1);
    check_transfer(bench, client, server, 9, 2);
    bench_close(bench);
}

/* Two chunks, both held: nothing more may come, nothing may be lost, and everything comes once they are given back. */
static void held_chunks_stop_receiving(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    size_t bytes = 1 << 19;
    config.recv_chunk_count = 2;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    server->hold = true;
    uint8_t *data = bench_bytes(bytes, 4);
    bench_send(client, data, bytes, 1);
    BENCH_UNTIL(bench, server->held_count == 2);
    bench_pump_for(bench, 20 * BASE_NS_PER_MS);
    assert_int_equal(server->held_count, 2);
    assert_true(net_engine_counters(server->engine)->receive_starved > 0);
    assert_memory_equal(server->held[0].data, data, server->held[0].bytes);
    assert_memory_equal(server->held[1].data, data + server->held[0].bytes, server->held[1].bytes);
    server->hold = false;
    bench_release(server);
    BENCH_UNTIL(bench, client->sent && server->bytes == bytes);
    assert_memory_equal(server->data, data, bytes);
    free(data);
    bench_close(bench);
}

/* A look that the address sanitizer would not allow: pools tell it what nobody may read. */
__attribute__((no_sanitize("address"))) static uint8_t peek(const uint8_t *data)
{
    return *(const volatile uint8_t *)data;
}

/* Debug builds take a chunk's bytes away at its release, on every engine. */
static void released_bytes_are_gone(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    uint8_t byte = 7;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    server->hold = true;
    bench_send(client, &byte, 1, 1);
    BENCH_UNTIL(bench, server->held_count == 1);
    assert_int_equal(*server->held[0].data, 7);
    const uint8_t *data = server->held[0].data;
    bench_release(server);
#ifdef NDEBUG
    (void)peek(data);
#else
    assert_int_not_equal(peek(data), 7);
#endif
    bench_close(bench);
}

/* More sockets than chunks, idle ones among them: each of the busy ones gets everything. */
static void starved_sockets_share_two_chunks(void **state)
{
    enum { PAIRS = 6, BYTES = 200000 };
    struct net_engine_config config = bench_config();
    struct bench_peer *clients[PAIRS], *servers[PAIRS];
    uint8_t *data[PAIRS];
    config.recv_chunk_count = 2;
    struct bench *bench = bench_open(*state, &config);
    for (int i = 0; i < PAIRS; i++)
        bench_pair(bench, &clients[i], &servers[i]);
    servers[0]->hold = servers[1]->hold = true;
    for (int i = 0; i < PAIRS - 1; i++) {
        data[i] = bench_bytes(BYTES, (uint64_t)i);
        bench_send(clients[i], data[i], BYTES, 5);
    }
    bench_pump_for(bench, 5 * BASE_NS_PER_MS);
    servers[0]->hold = servers[1]->hold = false;
    bench_release(servers[0]);
    bench_release(servers[1]);
    for (int i = 0; i < PAIRS - 1; i++) {
        BENCH_UNTIL(bench, clients[i]->sent && servers[i]->bytes == BYTES);
        assert_memory_equal(servers[i]->data, data[i], BYTES);
        free(data[i]);
    }
    check_transfer(bench, clients[PAIRS - 1], servers[PAIRS - 1], 3 * 4096 + 5, 1);
    bench_close(bench);
}

static void half_close_leaves_the_other_way(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    uint8_t *data = bench_bytes(500000, 5);
    bench_send(client, data, 500000, 2);
    net_socket_shutdown(client->socket); /* after the send that is in flight */
    BENCH_UNTIL(bench, server->ended);
    assert_int_equal(server->end_status, BASE_END);
    assert_int_equal(server->bytes, 500000);
    assert_memory_equal(server->data, data, 500000);
    assert_int_equal(client->sent_status, BASE_OK);
    check_transfer(bench, server, client, 123457, 1);
    assert_false(client->ended);
    net_socket_shutdown(server->socket);
    BENCH_UNTIL(bench, client->ended);
    assert_int_equal(client->end_status, BASE_END);
    free(data);
    bench_close(bench);
}

static void end_of_an_idle_connection(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    bench_peer_close(client, false);
    BENCH_UNTIL(bench, server->ended);
    assert_int_equal(server->end_status, BASE_END);
    bench_close(bench);
}

static void abort_is_a_reset_never_an_end(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    check_transfer(bench, client, server, 1000, 1);
    bench_peer_close(client, true);
    BENCH_UNTIL(bench, server->ended);
    assert_int_equal(server->end_status, BASE_PEER_RESET);
    bench_close(bench);
}

/* The sender meets the reset first; the receiver must not take what follows for a clean end. */
static void reset_found_by_a_send(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    server->hold = true;
    uint8_t *data = bench_bytes(16 << 20, 6);
    bench_send(client, data, 16 << 20, 1);
    BENCH_UNTIL(bench, server->bytes > 0);
    bench_peer_close(server, true);
    BENCH_UNTIL(bench, client->sent && client->ended);
    assert_int_equal(client->sent_status, BASE_PEER_RESET);
    assert_true(client->sent_bytes < 16 << 20);
    assert_int_equal(client->end_status, BASE_PEER_RESET);
    free(data);
    bench_close(bench);
}

static void close_with_a_send_in_flight(void **state)
{
    for (int abort = 0; abort <= 1; abort++) {
        struct net_engine_config config = bench_config();
        struct bench_peer *client, *server;
        struct bench *bench = bench_open(*state, &config);
        bench->refuse_receive = true;
        bench_pair(bench, &client, &server);
        uint8_t *data = bench_bytes(32 << 20, 7);
        bench_send(client, data, 32 << 20, 4);
        bench_pump_for(bench, 5 * BASE_NS_PER_MS);
        assert_false(client->sent);
        net_socket_close(client->socket, abort);
        assert_int_equal(client->op.in_flight, 1); /* the buffer is the engine's until the event */
        BENCH_UNTIL(bench, client->closed);
        assert_true(client->sent);
        assert_int_equal(client->sent_status, BASE_CANCELLED);
        free(data);
        bench_close(bench);
    }
}

static void close_before_anything_was_polled(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server, *early;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    uint8_t *data = bench_bytes(1000, 8);
    bench_send(client, data, 1000, 1);
    bench_peer_close(client, true);
    assert_true(client->sent);
    assert_int_equal(client->sent_status, BASE_CANCELLED);
    early = bench_connect(bench, &bench->address, BASE_NS_PER_S);
    bench_peer_close(early, false);
    assert_true(early->connected);
    assert_int_equal(early->connect_status, BASE_CANCELLED);
    free(data);
    bench_close(bench);
}

static void close_while_starved(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server, *other_client, *other_server;
    config.recv_chunk_count = 1;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    bench_pair(bench, &other_client, &other_server);
    server->hold = true;
    uint8_t *data = bench_bytes(100000, 9);
    bench_send(client, data, 100000, 1);
    BENCH_UNTIL(bench, server->held_count == 1 && client->sent);
    bench_pump_for(bench, 2 * BASE_NS_PER_MS);
    bench_peer_close(server, false);
    bench_release(server);
    check_transfer(bench, other_client, other_server, 50000, 1);
    free(data);
    bench_close(bench);
}

/* Late completions of a socket that is gone must not reach the one that has its record now. */
static void records_are_reused_cleanly(void **state)
{
    struct net_engine_config config = bench_config();
    config.sockets_max = 3;
    struct bench *bench = bench_open(*state, &config);
    for (uint64_t round = 0; round < 60; round++) {
        struct bench_peer *client, *server;
        bench_pair(bench, &client, &server);
        uint8_t *data = bench_bytes(60000, round);
        bench_send(client, data, 60000, 3);
        bench_send(server, data, 60000, 3);
        if (round % 3 == 0)
            BENCH_UNTIL(bench, server->bytes > 0);
        net_socket_close(server->socket, round % 2 == 0);
        net_socket_close(client->socket, round % 2 == 1);
        BENCH_UNTIL(bench, server->closed && client->closed);
        assert_true(server->sent && client->sent);
        free(data);
        if (bench->peers_count > BENCH_PEERS_MAX - 4)
            break;
    }
    bench_close(bench);
}

static void socket_limit(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct net_socket *extra = NULL;
    struct base_error error = {0};
    config.sockets_max = 2;
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    struct bench_peer *second = bench_connect(bench, &bench->address, BASE_NS_PER_S);
    enum base_status status =
        net_socket_connect(bench->engines[BENCH_CLIENT], &bench->address,
                           net_engine_now_ns(client->engine) + BASE_NS_PER_S, NULL, &extra, &error);
    assert_int_equal(status, BASE_TOO_LARGE);
    assert_true(strlen(error.text) > 0);
    assert_null(extra);
    BENCH_UNTIL(bench, second->connected); /* the server's engine is full: it takes the connection and drops it */
    bench_pump_for(bench, 5 * BASE_NS_PER_MS);
    assert_int_equal(bench->accepted_count, 1);
    bench_peer_close(second, false);
    bench_peer_close(server, false);
    bench_peer_close(client, false);
    bench_pair(bench, &client, &server);
    check_transfer(bench, client, server, 100, 1);
    bench_close(bench);
}

static void check_fairness(const struct bench_kind *kind, uint32_t pairs)
{
    enum { PAIRS_MAX = 8, BYTES = 4 << 20 };
    struct net_engine_config config = bench_config();
    struct bench_peer *clients[PAIRS_MAX], *servers[PAIRS_MAX];
    struct bench *bench = bench_open(kind, &config);
    uint8_t *data = bench_bytes(BYTES, 10);

    for (uint32_t i = 0; i < pairs; i++)
        bench_pair(bench, &clients[i], &servers[i]);
    for (uint32_t i = 0; i < pairs; i++)
        bench_send(clients[i], data, BYTES, 1);
    BENCH_UNTIL(bench, servers[0]->bytes > BYTES / 2);
    for (uint32_t i = 1; i < pairs; i++)
        assert_true(servers[i]->bytes > 0);
    for (uint32_t i = 0; i < pairs; i++)
        BENCH_UNTIL(bench, servers[i]->bytes == BYTES);
    free(data);
    bench_close(bench);
}

/* Fewer and more sockets than one turn can serve. */
static void every_socket_gets_its_turn(void **state)
{
    for (uint32_t pairs = 2; pairs <= 8; pairs += 3)
        check_fairness(*state, pairs);
}

static void accept_burst(void **state)
{
    enum { CONNECTIONS = 200 };
    struct net_engine_config config = bench_config();
    struct bench_peer *clients[CONNECTIONS];
    config.sockets_max = CONNECTIONS + 1;
    struct bench *bench = bench_open(*state, &config);
    bench->events_max = 7;
    for (int i = 0; i < CONNECTIONS; i++)
        clients[i] = bench_connect(bench, &bench->address, 5 * BASE_NS_PER_S);
    for (int i = 0; i < CONNECTIONS; i++) {
        BENCH_UNTIL(bench, clients[i]->connected);
        assert_int_equal(clients[i]->connect_status, BASE_OK);
    }
    BENCH_UNTIL(bench, bench->accepted_count == CONNECTIONS);
    bench_close(bench);
}

static void listener_outlives_its_engines(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct base_error error = {0};
    struct bench *bench = bench_open(*state, &config);
    bench_pair(bench, &client, &server);
    net_socket_close(bench->listener, false);
    BENCH_UNTIL(bench, bench->listener_closed);
    assert_int_equal(net_socket_adopt(bench->engines[BENCH_SERVER], bench->listener_fd, NULL, &bench->listener, &error),
                     BASE_OK);
    assert_int_equal(net_socket_accept(bench->listener, &error), BASE_OK);
    bench_pair(bench, &client, &server);
    check_transfer(bench, client, server, 100, 1);
    bench_close(bench);
}

static void connect_refused(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    struct net_address nobody = bench->address;
    nobody.v4.sin_port = 256; /* port 1 */
    struct bench_peer *client = bench_connect(bench, &nobody, 5 * BASE_NS_PER_S);
    BENCH_UNTIL(bench, client->connected);
    assert_int_equal(client->connect_status, BASE_NODE_REFUSED);
    assert_false(client->closed); /* it still wants closing */
    bench_peer_close(client, false);
    bench_close(bench);
}

/* Commands come with a wake: the one to stop must not wait until the data stops. */
static void a_wake_comes_before_data_that_waits(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes(200000, 5);

    bench_pair(bench, &client, &server);
    for (uint32_t max = 1; max <= 4; max++) {
        bench->events_max = max;
        client->sent = false;
        bench_send(client, data, 200000, 1);
        for (uint32_t round = 0; round < 5; round++) {
            const size_t bytes = server->bytes;
            BENCH_UNTIL(bench, server->bytes > bytes);
            const uint32_t woken = bench->woken[BENCH_SERVER];
            net_engine_wake(server->engine);
            bench_pump(bench);
            assert_int_equal(bench->woken[BENCH_SERVER], woken + 1);
        }
        BENCH_UNTIL(bench, client->sent && server->bytes == UINT64_C(200000) * max);
    }
    free(data);
    bench_close(bench);
}

const struct conformance_case conformance_socket_cases[] = {
    CONFORMANCE_CASE(chunk_boundary_at_every_offset),
    CONFORMANCE_CASE(one_event_a_poll),
    CONFORMANCE_CASE(a_wake_comes_before_data_that_waits),
    CONFORMANCE_CASE(partial_sends_through_tiny_buffers),
    CONFORMANCE_CASE(second_send_is_busy),
    CONFORMANCE_CASE(empty_segments_count_for_nothing),
    CONFORMANCE_CASE(held_chunks_stop_receiving),
    CONFORMANCE_CASE(released_bytes_are_gone),
    CONFORMANCE_CASE(starved_sockets_share_two_chunks),
    CONFORMANCE_CASE(half_close_leaves_the_other_way),
    CONFORMANCE_CASE(end_of_an_idle_connection),
    CONFORMANCE_CASE(abort_is_a_reset_never_an_end),
    CONFORMANCE_CASE(reset_found_by_a_send),
    CONFORMANCE_CASE(close_with_a_send_in_flight),
    CONFORMANCE_CASE(close_before_anything_was_polled),
    CONFORMANCE_CASE(close_while_starved),
    CONFORMANCE_CASE(records_are_reused_cleanly),
    CONFORMANCE_CASE(socket_limit),
    CONFORMANCE_CASE(every_socket_gets_its_turn),
    CONFORMANCE_CASE(accept_burst),
    CONFORMANCE_CASE(listener_outlives_its_engines),
    CONFORMANCE_CASE(connect_refused),
    {0},
};
