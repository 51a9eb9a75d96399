/* Peers that reset or stop at every point, on engines with hardly any room. */
#include <stdlib.h>

#include "base/clock.h"
#include "conformance_cases.h"

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

const struct conformance_case conformance_forced_cases[] = {
    CONFORMANCE_CASE(a_reset_behind_data_is_found),
    {0},
};
