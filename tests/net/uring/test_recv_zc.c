/* Zero-copy receive on a kernel that has it (tests/guest brings one): streams byte for byte, an area and a completion
 * queue that are too small, ends of streams, and that no piece of the area is lost. Elsewhere only the fallback's words
 * are tested. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "net/open.h"

enum {
    STREAM_BYTES = 64 << 20,
    SMALL_BYTES = 4 << 20,
    AREA_PIECES = 64,
    HELD_MAX = 4096,
    PIECE_BYTES = 4096,
    SEND_BYTES = 64 << 10
};

static struct base_governor *governor;

/* One connection: we send into `peer` by hand, the engine receives from `socket`. */
struct bench {
    struct net_engine *engine;
    struct net_socket *socket;
    int peer;
    uint64_t sent, received;
    bool ended, failed, closed, shut;
    struct net_chunk held[HELD_MAX];
    uint32_t held_count, hold_max; /* pieces that are kept before any is given back */
    struct base_random random;
};

static uint8_t byte_at(uint64_t position)
{
    return (uint8_t)(base_random_mix(position >> 3) >> (position & 7) * 8);
}

static struct net_engine *engine_open(uint32_t pieces, uint32_t completions, uint32_t interface, const char **why)
{
    static char reason[1024];
    const struct net_engine_choice choice = {.kind = NET_ENGINE_URING_RECV_ZC};
    const struct net_engine_config config = {
        .sockets_max = 64,
        .recv_chunk_bytes = 64 << 10,
        .recv_chunk_count = 16,
        .queue = {.area_bytes = (uint64_t)pieces * PIECE_BYTES, .interface_index = interface},
        .completions_max = completions,
        .governor = governor};
    struct net_engine *engine = NULL;
    struct base_error error = {0};
    if (net_engine_open(&choice, &config, &engine, &error) != BASE_OK || net_engine_enable(engine, &error) != BASE_OK) {
        snprintf(reason, sizeof reason, "%s", error.text);
        *why = reason;
        return NULL;
    }
    snprintf(reason, sizeof reason, "%s", net_engine_reason(engine));
    *why = reason;
    return engine;
}

/* NULL: this kernel cannot do without a card. */
static struct net_engine *engine_here(uint32_t pieces, uint32_t completions)
{
    const char *why;
    struct net_engine *engine = engine_open(pieces, completions, 0, &why);
    if (engine && !strstr(net_engine_features(engine), "recv-zc")) {
        net_engine_close(engine);
        engine = NULL;
    }
    return engine;
}

static void pair_open(struct bench *bench)
{
    struct net_address any, place;
    struct base_error error;
    int listener;
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 8, &listener, &place, &error), BASE_OK);
    bench->peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(bench->peer, &place.any, place.bytes), 0);
    (void)fcntl(listener, F_SETFL, 0);
    const int accepted = accept(listener, NULL, NULL);
    assert_true(accepted >= 0);
    close(listener);
    (void)fcntl(bench->peer, F_SETFL, O_NONBLOCK);
    assert_int_equal(net_socket_adopt(bench->engine, accepted, bench, &bench->socket, &error), BASE_OK);
    bench->ended = bench->failed = bench->closed = bench->shut = false;
    bench->sent = bench->received = 0;
}

static void bench_send(struct bench *bench, uint64_t until)
{
    static uint8_t bytes[SEND_BYTES];
    while (bench->sent < until) {
        const size_t count =
            (size_t)base_min_u64(until - bench->sent, 1 + base_random_below(&bench->random, SEND_BYTES));
        for (size_t i = 0; i < count; i++)
            bytes[i] = byte_at(bench->sent + i);
        const ssize_t sent = send(bench->peer, bytes, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return;
        bench->sent += (uint64_t)sent;
    }
}

static void give_back(struct bench *bench, uint32_t down_to)
{
    while (bench->held_count > down_to) {
        const uint32_t pick = (uint32_t)base_random_below(&bench->random, bench->held_count);
        net_chunk_release(bench->engine, &bench->held[pick]);
        bench->held[pick] = bench->held[--bench->held_count];
    }
}

static void bench_poll(struct bench *bench, uint64_t wait_ns)
{
    struct net_event events[64];
    const uint32_t count = net_engine_poll(bench->engine, events, 64, wait_ns);
    for (uint32_t i = 0; i < count; i++) {
        const struct net_event *event = &events[i];
        if (event->kind == NET_EVENT_CLOSED)
            bench->closed = true;
        if (event->kind != NET_EVENT_RECEIVED)
            continue;
        if (event->status != BASE_OK) {
            bench->ended |= event->status == BASE_END;
            bench->failed |= event->status != BASE_END;
            continue;
        }
        for (uint32_t b = 0; b < event->chunk.bytes; b++)
            if (event->chunk.data[b] != byte_at(bench->received + b))
                fail_msg("byte %" PRIu64 " is wrong", bench->received + b);
        bench->received += event->chunk.bytes;
        assert_true(bench->held_count < HELD_MAX);
        bench->held[bench->held_count++] = event->chunk;
    }
    if (bench->held_count > bench->hold_max)
        give_back(bench, bench->hold_max / 2);
}

static void bench_close(struct bench *bench)
{
    close(bench->peer);
    net_socket_close(bench->socket, false);
    while (!bench->closed)
        bench_poll(bench, BASE_NS_PER_S);
    give_back(bench, 0);
}

static void stuck(const struct bench *bench)
{
#define X(name, ...) fprintf(stderr, #name " %" PRIu64 "\n", net_engine_counters(bench->engine)->name);
    NET_COUNTER_LIST(X)
#undef X
    fail_msg("stuck: %" PRIu64 " sent, %" PRIu64 " received, %u held", bench->sent, bench->received, bench->held_count);
}

static void stream(struct bench *bench, uint64_t bytes)
{
    const uint64_t deadline_ns = base_clock_now_ns() + 60 * BASE_NS_PER_S;
    struct base_error error;
    assert_int_equal(net_socket_receive(bench->socket, &error), BASE_OK);
    while (!bench->ended) {
        if (base_clock_now_ns() > deadline_ns)
            stuck(bench);
        bench_send(bench, bytes);
        if (bench->sent == bytes && !bench->shut)
            bench->shut = shutdown(bench->peer, SHUT_WR) == 0;
        bench_poll(bench, BASE_NS_PER_MS);
        assert_false(bench->failed);
    }
    assert_int_equal(bench->received, bytes);
}

static struct bench *bench_new(uint32_t pieces, uint32_t completions, uint32_t hold_max)
{
    static struct bench bench;
    memset(&bench, 0, sizeof bench);
    bench.engine = engine_here(pieces, completions);
    bench.hold_max = hold_max;
    base_random_seed(&bench.random, 7);
    return bench.engine ? &bench : NULL;
}

static void a_stream_arrives_byte_for_byte(void **state)
{
    (void)state;
    struct bench *bench = bench_new(1024, 0, 300);
    if (!bench)
        skip();
    pair_open(bench);
    stream(bench, STREAM_BYTES);
    const struct net_counters *counters = net_engine_counters(bench->engine);
    assert_int_equal(counters->received_bytes, STREAM_BYTES);
    assert_true(counters->zc_receives >= STREAM_BYTES / PIECE_BYTES);
    assert_int_equal(counters->zc_receive_copied, counters->zc_receives);
    bench_close(bench);
    net_engine_close(bench->engine);
}

/* 64 pieces and 64 completions: both run out all the time, and nothing is lost. */
static void a_small_area_and_queue_lose_nothing(void **state)
{
    (void)state;
    static const uint32_t holds[] = {0, 1, AREA_PIECES / 2, AREA_PIECES - 1};
    uint64_t starved = 0;
    for (uint32_t i = 0; i < sizeof holds / sizeof *holds; i++) {
        struct bench *bench = bench_new(AREA_PIECES, AREA_PIECES, holds[i]);
        if (!bench)
            skip();
        pair_open(bench);
        stream(bench, SMALL_BYTES);
        starved += net_engine_counters(bench->engine)->receive_starved;
        assert_true(net_engine_counters(bench->engine)->receive_rearms > 0);
        bench_close(bench);
        net_engine_close(bench->engine);
    }
    assert_true(starved > 0);
}

/* Receives until nothing comes any more, giving nothing back; how many pieces that were. */
static uint32_t fill_area(struct bench *bench)
{
    struct base_error error;
    bench->hold_max = HELD_MAX;
    pair_open(bench);
    assert_int_equal(net_socket_receive(bench->socket, &error), BASE_OK);
    for (uint32_t quiet = 0; quiet < 30; quiet++) {
        const uint32_t before = bench->held_count;
        bench_send(bench, SMALL_BYTES);
        bench_poll(bench, 10 * BASE_NS_PER_MS);
        if (bench->held_count > before)
            quiet = 0;
    }
    const uint32_t held = bench->held_count;
    give_back(bench, 0);
    bench_close(bench);
    return held;
}

static void one_short_life(struct bench *bench, uint32_t number)
{
    struct base_error error;
    const struct linger reset = {.l_onoff = 1};
    pair_open(bench);
    bench_send(bench, 1 + number % 3 * 5000);
    if (number % 2)
        assert_int_equal(net_socket_receive(bench->socket, &error), BASE_OK);
    if (number % 4 == 3)
        bench_poll(bench, BASE_NS_PER_MS);
    if (number % 5 == 4)
        (void)setsockopt(bench->peer, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    bench_close(bench);
}

static void a_thousand_connections_leave_the_area_whole(void **state)
{
    (void)state;
    struct bench *bench = bench_new(AREA_PIECES, 0, 8);
    if (!bench)
        skip();
    const uint32_t before = fill_area(bench);
    bench->hold_max = 8;
    for (uint32_t i = 0; i < 1000; i++)
        one_short_life(bench, i);
    assert_int_equal(fill_area(bench), before);
    assert_true(before > AREA_PIECES / 2);
    net_engine_close(bench->engine);
}

/* What a peer said before we began to listen is heard, and so are its end, its reset, and what it hears of ours. */
static void ends_are_told(void **state)
{
    (void)state;
    struct bench *bench = bench_new(AREA_PIECES, 0, 8);
    struct base_error error;
    if (!bench)
        skip();
    pair_open(bench); /* FIN before arming; after it the other way still works */
    bench_send(bench, 9000);
    assert_int_equal(shutdown(bench->peer, SHUT_WR), 0);
    usleep(20000);
    assert_int_equal(net_socket_receive(bench->socket, &error), BASE_OK);
    while (!bench->ended)
        bench_poll(bench, BASE_NS_PER_S);
    assert_int_equal(bench->received, 9000);
    struct net_send_op op = {.segments = {{.iov_base = "back", .iov_len = 4}}, .count = 1};
    char text[8];
    assert_int_equal(net_socket_send(bench->socket, &op), BASE_OK);
    while (op.in_flight)
        bench_poll(bench, BASE_NS_PER_S);
    (void)fcntl(bench->peer, F_SETFL, 0);
    assert_int_equal(recv(bench->peer, text, sizeof text, 0), 4);
    bench_close(bench);

    pair_open(bench); /* a reset */
    assert_int_equal(net_socket_receive(bench->socket, &error), BASE_OK);
    bench_send(bench, 100);
    while (bench->received < 100)
        bench_poll(bench, BASE_NS_PER_S);
    const struct linger reset = {.l_onoff = 1};
    (void)setsockopt(bench->peer, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(bench->peer);
    bench->peer = -1;
    while (!bench->failed)
        bench_poll(bench, BASE_NS_PER_S);
    assert_false(bench->ended);
    bench_close(bench);
    net_engine_close(bench->engine);
}

static void a_refusal_is_named(void **state)
{
    (void)state;
    const char *why;
    struct net_engine *engine = engine_open(AREA_PIECES, 0, if_nametoindex("lo"), &why);
    if (!engine)
        skip(); /* no io_uring */
    assert_null(strstr(net_engine_features(engine), "recv-zc"));
    assert_non_null(strstr(why, "no recv-zc: "));
    assert_true(strstr(why, "the driver cannot hand") || strstr(why, "CAP_NET_ADMIN") || strstr(why, "Linux"));
    net_engine_close(engine);
    engine = engine_open(AREA_PIECES, 0, 0, &why);
    assert_non_null(engine);
    if (!strstr(net_engine_features(engine), "recv-zc"))
        assert_true(strstr(why, "no card's queue was given") || strstr(why, "CAP_NET_ADMIN"));
    else
        assert_non_null(strstr(why, "without a card: the kernel copies"));
    net_engine_close(engine);
}

static int governor_open(void **state)
{
    (void)state;
    base_log_set_level(BASE_LOG_ERROR);
    return base_governor_open(0, &governor, NULL) == BASE_OK ? 0 : -1;
}

/* Every test gave back what it drew. */
static int governor_close(void **state)
{
    (void)state;
    const uint64_t left = base_governor_used_bytes(governor);
    base_governor_close(governor);
    return left == 0 ? 0 : -1;
}

int main(int count, char **words)
{
    if (count > 1)
        cmocka_set_test_filter(words[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_is_named),
        cmocka_unit_test(a_stream_arrives_byte_for_byte),
        cmocka_unit_test(a_small_area_and_queue_lose_nothing),
        cmocka_unit_test(ends_are_told),
        cmocka_unit_test(a_thousand_connections_leave_the_area_whole),
    };
    return cmocka_run_group_tests_name("net.recv_zc", tests, governor_open, governor_close);
}
