/* Whose a send's buffer is: the engine's until SENT, the user's from then on. Here every buffer is scribbled over as
 * soon as it is the user's again, while small windows and a slow reader keep what was sent in the kernel's queues. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "tests/child_output.h"
#include "tests/net/conformance_cases.h"

/* A window below some three segments of the loopback (16 KiB) may end in one that the kernel fills only by its timer,
 * once in 200 ms. */
enum { PIECE_MAX = 40000, STREAM = 2 << 20, UNREAD = 200000, WINDOW = 65536, SCRIBBLE = 0xee };

struct piece {
    struct net_send_op op;
    bool used;
    uint8_t data[PIECE_MAX];
};

static struct bench *slow_bench(const struct bench_kind *kind, uint32_t send_buffer_bytes)
{
    struct net_engine_config config = bench_config();

    config.socket.send_buffer_bytes = send_buffer_bytes;
    config.socket.recv_buffer_bytes = WINDOW;
    return bench_open(kind, &config);
}

static bool keeps_zero_copy(const struct bench_kind *kind)
{
    return (kind->engine.options & NET_FEATURE_ZC_ALWAYS) != 0;
}

/* Fills the piece with the next bytes of the stream and cuts it into segments; returns its bytes. */
static size_t piece_fill(struct piece *piece, const uint8_t *stream, struct base_random *random)
{
    const size_t bytes = base_min_u64(STREAM, 1 + base_random_below(random, PIECE_MAX));
    size_t at = 0;

    memcpy(piece->data, stream, bytes);
    piece->op.count = 1 + (uint32_t)base_random_below(random, 4);
    for (uint32_t i = 0; i < piece->op.count; i++) {
        size_t length = i + 1 == piece->op.count ? bytes - at : base_random_below(random, bytes - at + 1);
        piece->op.segments[i] = (struct iovec){.iov_base = piece->data + at, .iov_len = length};
        at += length;
    }
    return bytes;
}

/* Pieces free again are scribbled over; the number of those that are not. */
static uint32_t pieces_take_back(struct piece *pieces)
{
    uint32_t in_flight = 0;

    for (int i = 0; i < NET_SENDS_MAX; i++) {
        in_flight += pieces[i].op.in_flight;
        if (!pieces[i].used || pieces[i].op.in_flight)
            continue;
        memset(pieces[i].data, SCRIBBLE, PIECE_MAX);
        pieces[i].used = false;
    }
    return in_flight;
}

/* Sends the next piece of the stream if there is a free one and the engine takes it; returns its bytes. */
static size_t stream_on(struct bench_peer *client, struct piece *pieces, const uint8_t *stream,
                        struct base_random *random)
{
    struct piece *piece = pieces;

    while (piece < pieces + NET_SENDS_MAX && piece->used)
        piece++;
    if (piece == pieces + NET_SENDS_MAX)
        return 0;
    const size_t bytes = piece_fill(piece, stream, random);
    if (net_socket_send(client->socket, &piece->op) != BASE_OK)
        return 0;
    piece->used = true;
    return bytes;
}

static void check_stream(const struct bench_kind *kind, uint32_t send_buffer_bytes)
{
    struct bench_peer *client, *server;
    struct base_random random;
    struct bench *bench = slow_bench(kind, send_buffer_bytes);
    struct piece *pieces = calloc(NET_SENDS_MAX, sizeof *pieces);
    uint8_t *stream = bench_bytes(STREAM + PIECE_MAX, send_buffer_bytes);
    size_t sent = 0;
    uint32_t in_flight, most = 0, turn = 0;
    uint64_t until_ns = 0;

    assert_non_null(pieces);
    base_random_seed(&random, send_buffer_bytes);
    bench_pair(bench, &client, &server);
    server->hold = true;
    do {
        if (sent < STREAM)
            sent += stream_on(client, pieces, stream + sent, &random);
        bench_pump(bench);
        if (++turn % 3 == 0)
            bench_release(server);
        in_flight = pieces_take_back(pieces);
        most = in_flight > most ? in_flight : most;
        assert_false(bench_overdue(bench, &until_ns) && !bench->stuck);
    } while (sent < STREAM || in_flight > 0 || server->bytes < sent);
    assert_int_equal(server->bytes, sent);
    assert_memory_equal(server->data, stream, sent);
    if (keeps_zero_copy(kind)) {
        const struct net_counters *counters = net_engine_counters(client->engine);
        assert_true(counters->zc_sends > 10);
        assert_int_equal(counters->zc_copied, counters->zc_sends);
        assert_int_equal(counters->zc_off, 0);
        assert_true(send_buffer_bytes < STREAM / 2 || (client->outs > 0 && most > 1));
    }
    bench_release(server);
    server->hold = false;
    free(stream);
    free(pieces);
    bench_close(bench);
}

static void a_buffer_is_free_at_sent_and_not_before(void **state)
{
    check_stream(*state, 1 << 20); /* far more than the window: bytes that are out are not on their way */
    check_stream(*state, 4096);
}

/* A connection with UNREAD bytes out, of which the peer has taken next to nothing. */
static struct bench *unread_bench(const struct bench_kind *kind, struct bench_peer **client, struct bench_peer **server,
                                  uint8_t *data)
{
    struct bench *bench = slow_bench(kind, 1 << 20);

    bench->refuse_receive = true;
    bench_pair(bench, client, server);
    bench_send(*client, data, UNREAD, 2);
    BENCH_UNTIL(bench, (*client)->sent || (*client)->outs > 0 || !kind->kernel);
    if (keeps_zero_copy(kind))
        assert_true(!(*client)->sent && (*client)->op.in_flight);
    return bench;
}

/* Whatever arrives of a send that was cut off is what was in the buffer while it was the engine's. */
static void closing_takes_the_buffer_back_first(void **state)
{
    for (int abort = 0; abort <= 1; abort++) {
        struct bench_peer *client, *server;
        struct base_error error;
        uint8_t *data = bench_bytes(UNREAD, 3), *copy = bench_bytes(UNREAD, 3);
        struct bench *bench = unread_bench(*state, &client, &server, data);

        net_socket_close(client->socket, abort);
        BENCH_UNTIL(bench, client->closed);
        assert_true(client->sent && !client->op.in_flight);
        memset(data, SCRIBBLE, UNREAD);
        assert_int_equal(net_socket_receive(server->socket, &error), BASE_OK);
        BENCH_UNTIL(bench, server->ended);
        /* Buffers that do not come back in time are taken back by a reset. */
        assert_true(server->end_status == BASE_PEER_RESET || (!abort && server->end_status == BASE_END));
        assert_true(server->bytes <= UNREAD);
        assert_memory_equal(!server->data ? copy : server->data, copy, server->bytes);
        free(copy);
        free(data);
        bench_close(bench);
    }
}

static void a_reset_by_the_peer_gives_buffers_back(void **state)
{
    struct bench_peer *client, *server;
    uint8_t *data = bench_bytes(UNREAD, 4);
    struct bench *bench = unread_bench(*state, &client, &server, data);

    net_socket_close(server->socket, true);
    BENCH_UNTIL(bench, server->closed && client->sent && client->ended);
    assert_true(client->sent_status == BASE_OK || client->sent_status == BASE_PEER_RESET);
    assert_int_equal(client->end_status, BASE_PEER_RESET);
    free(data);
    bench_close(bench);
}

/* The end of the stream does not wait for the buffers, nor get lost behind them. */
static void a_fin_follows_what_is_out(void **state)
{
    struct bench_peer *client, *server;
    struct base_error error;
    uint8_t *data = bench_bytes(UNREAD, 5);
    struct bench *bench = unread_bench(*state, &client, &server, data);

    net_socket_shutdown(client->socket);
    assert_int_equal(net_socket_receive(server->socket, &error), BASE_OK);
    BENCH_UNTIL(bench, server->ended && client->sent);
    assert_int_equal(server->end_status, BASE_END);
    assert_int_equal(client->sent_status, BASE_OK);
    assert_int_equal(server->bytes, UNREAD);
    assert_memory_equal(server->data, data, UNREAD);
    free(data);
    bench_close(bench);
}

/* Three pieces of memory, told in any order: sends from inside one, across the edge of one, and after it was untold. */
static void memory_told_to_the_engine_is_sent_from(void **state)
{
    enum { PIECE = 1 << 16, PIECES = 3 };
    static const int order[PIECES] = {1, 2, 0};
    static const struct {
        size_t at, bytes;
    } sends[] = {{0, PIECE},
                 {PIECE + 5, 20000},
                 {(size_t)2 * PIECE, PIECE},
                 {PIECE - 7000, 14000},
                 {(size_t)3 * PIECE - 1500, 3000}};
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes((size_t)(PIECES + 1) * PIECE, 6);
    size_t before = 0;

    bench_pair(bench, &client, &server);
    for (int i = 0; i < PIECES; i++)
        net_memory_register(client->engine, data + (size_t)order[i] * PIECE, PIECE);
    for (int round = 0; round <= PIECES; round++) {
        for (size_t i = 0; i < sizeof sends / sizeof *sends; i++) {
            bench_send(client, data + sends[i].at, sends[i].bytes, 1);
            BENCH_UNTIL(bench, client->sent && server->bytes == before + sends[i].bytes);
            assert_int_equal(client->sent_status, BASE_OK);
            assert_memory_equal(server->data + before, data + sends[i].at, sends[i].bytes);
            before = server->bytes;
        }
        if (round < PIECES)
            net_memory_unregister(client->engine, data + (size_t)round * PIECE);
    }
    free(data);
    bench_close(bench);
}

/* Forgets a chunk that it said it keeps, and closes. */
static void lose_a_chunk(void *kind)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct bench *bench = bench_open(kind, &config);
    uint8_t *data = bench_bytes(100, 8);

    bench_pair(bench, &client, &server);
    server->hold = true;
    bench_send(client, data, 100, 1);
    BENCH_UNTIL(bench, client->sent && server->held_count > 0);
    net_chunk_keep(server->engine, &server->held[0], "the pocket of test number", 7);
    server->held_count--;
    if (server->held_count > 0)
        server->held[0] = server->held[server->held_count];
    free(data);
    bench_close(bench);
}

static void a_missing_chunk_is_told_with_its_holder(void **state)
{
    char text[4096];
    bool aborted;

    const bool ended = child_output(lose_a_chunk, *state, text, sizeof text, &aborted);
    assert_int_equal(aborted, CHILD_MISSING_ABORTS);
    assert_int_equal(ended, !CHILD_MISSING_ABORTS);
    if (!strstr(text, "it is held by the pocket of test number 7") || !strstr(text, "receive chunks were not released"))
        fail_msg("the holder is not told: %s", text);
}

const struct conformance_case conformance_buffer_cases[] = {
    CONFORMANCE_CASE(a_buffer_is_free_at_sent_and_not_before),
    CONFORMANCE_CASE(closing_takes_the_buffer_back_first),
    CONFORMANCE_CASE(a_reset_by_the_peer_gives_buffers_back),
    CONFORMANCE_CASE(a_fin_follows_what_is_out),
    CONFORMANCE_CASE(memory_told_to_the_engine_is_sent_from),
    CONFORMANCE_CASE(a_missing_chunk_is_told_with_its_holder),
    {0},
};
