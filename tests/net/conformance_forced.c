/* Peers that reset or stop at every point, on engines with hardly any room. */
#include <stdlib.h>

#include "base/clock.h"
#include "tests/net/conformance_cases.h"

enum { CHUNK = 4096, HEAD_MAX = 2 * CHUNK, TAIL_MAX = 3 * CHUNK + 100 };

/* Where the receiver is when the last bytes and the reset come, and what it is told of both at once. */
enum moment { NOT_YET_RECEIVING, IDLE, RECEIVING, STARVED };

static void check_reset_behind_data(const struct bench_kind *kind, enum moment moment, size_t tail)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct base_error error;
    size_t head = moment == STARVED ? HEAD_MAX : moment == RECEIVING ? 1 : 0;
    config.recv_chunk_count = moment == STARVED ? 2 : 16;
    struct bench *bench = bench_open(kind, &config);
    uint8_t *data = bench_bytes(HEAD_MAX + TAIL_MAX, 21);

    bench->refuse_receive = moment == NOT_YET_RECEIVING;
    bench_pair(bench, &client, &server);
    server->hold = moment == STARVED;
    if (head > 0) {
        bench_send(client, data, head, 1);
        BENCH_UNTIL(bench, client->sent && (server->held_count == 2 || server->bytes == head));
    }
    bench_send(client, data + head, tail, 1);
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, client->sent || client->outs > 0);
    net_socket_close(client->socket, true);
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, client->closed);
    if (moment == STARVED)
        bench_pump_for(bench, BASE_NS_PER_MS);
    server->hold = false;
    bench_release(server);
    if (moment == NOT_YET_RECEIVING)
        assert_int_equal(net_socket_receive(server->socket, &error), BASE_OK);
    BENCH_UNTIL(bench, server->ended);
    assert_int_equal(server->end_status, BASE_PEER_RESET);
    assert_true(server->bytes <= head + tail);
    assert_memory_equal(server->bytes > 0 ? server->data : data, data, server->bytes);
    free(data);
    bench_close(bench);
}

static void a_reset_behind_data_is_found(void **state)
{
    for (int moment = NOT_YET_RECEIVING; moment <= STARVED; moment++)
        for (size_t tail = 1; tail <= TAIL_MAX; tail += TAIL_MAX - 1)
            check_reset_behind_data(*state, (enum moment)moment, tail);
}

/* What a peer does to the connection when so many turns have passed. */
static void check_reset_at(const struct bench_kind *kind, int turns, bool by_sender)
{
    enum { BYTES = 400000 };
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    config.recv_chunk_count = 2;
    config.socket.send_buffer_bytes = 4096;
    struct bench *bench = bench_open(kind, &config);
    uint8_t *data = bench_bytes(BYTES, 22);

    bench_pair(bench, &client, &server);
    bench_send(client, data, BYTES, 7);
    for (int turn = 0; turn < turns; turn++) {
        server->hold = turn % 3 != 0;
        bench_pump(bench);
        if (turn % 3 == 0)
            bench_release(server);
    }
    struct bench_peer *leaves = by_sender ? client : server, *stays = by_sender ? server : client;
    net_socket_close(leaves->socket, true);
    BENCH_UNTIL(bench, leaves->closed && client->sent);
    server->hold = false;
    bench_release(server);
    BENCH_UNTIL(bench, stays->ended);
    assert_int_equal(stays->end_status, BASE_PEER_RESET);
    assert_int_equal(client->op.in_flight, 0);
    assert_memory_equal(server->bytes > 0 ? server->data : data, data, server->bytes);
    free(data);
    bench_close(bench);
}

/* Before anything was sent, in the middle with chunks held or not, and everything between. */
static void a_peer_may_reset_at_any_turn(void **state)
{
    for (int turns = 0; turns < 24; turns++)
        check_reset_at(*state, turns, turns % 2 == 0);
}

/* Several streams in both directions through two chunks, tiny buffers and, where there is one, a completion queue that
 * overflows: every receive ends for want of a chunk again and again. */
static void streams_get_through_hardly_any_room(void **state)
{
    enum { PAIRS = 6, BYTES = 150000 };
    struct net_engine_config config = bench_config();
    struct bench_peer *clients[PAIRS], *servers[PAIRS];
    config.recv_chunk_count = 2;
    config.completions_max = 1; /* the least there is */
    config.socket.send_buffer_bytes = 4096;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes((size_t)PAIRS * BYTES, 23);

    for (int i = 0; i < PAIRS; i++)
        bench_pair(bench, &clients[i], &servers[i]);
    for (int i = 0; i < PAIRS; i++) {
        bench_send(clients[i], data + (size_t)i * BYTES, BYTES, 3);
        bench_send(servers[i], data + (size_t)i * BYTES, BYTES, 64);
    }
    for (int i = 0; i < PAIRS; i++) {
        BENCH_UNTIL(bench, servers[i]->bytes == BYTES && clients[i]->bytes == BYTES);
        BENCH_UNTIL(bench, servers[i]->sent && clients[i]->sent);
        assert_memory_equal(servers[i]->data, data + (size_t)i * BYTES, BYTES);
        assert_memory_equal(clients[i]->data, data + (size_t)i * BYTES, BYTES);
    }
    free(data);
    bench_close(bench);
}

const struct conformance_case conformance_forced_cases[] = {
    CONFORMANCE_CASE(a_reset_behind_data_is_found),
    CONFORMANCE_CASE(a_peer_may_reset_at_any_turn),
    CONFORMANCE_CASE(streams_get_through_hardly_any_room),
    {0},
};
