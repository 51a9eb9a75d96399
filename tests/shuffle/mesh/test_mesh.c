/* Connections of the mesh: who is let in, who is missed, and what is made of a peer that breaks the rules. The other
 * side is played here, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "base/build.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "shuffle/frames/frame.h"
#include "shuffle/mesh/internal.h"
#include "shuffle/mesh/preamble.h"
#include "tests/child_output.h"
#include "tests/shuffle/mesh/mesh_rig.h"

static const struct rig_config plain = {
    .seed = 1,
    .nodes = 2,
    .workers = 2,
    .exchanges = 1,
    .schema = "k:int64,v:int64",
    .rows = 0,
    .frame_bytes = 4096,
    .frames_per_lane = 2,
    .mailbox_frames = 2,
    .chunk_bytes = 256,
    .chunk_count = 8,
    .image = true,
    .sim = {.socket_buffer_bytes = 20000, .delay_max_ns = 1000, .short_percent = 30},
};

static struct rig *rig_new(void)
{
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    return rig;
}

/* Bytes to be said. */
struct script {
    uint8_t bytes[20000];
    uint32_t count;
    uint64_t sequence;
    struct shuffle_lane_totals totals;
    bool checked;
};

static void say(struct script *script, const void *bytes, size_t count)
{
    assert_true(script->count + count <= sizeof script->bytes);
    memcpy(script->bytes + script->count, bytes, count);
    script->count += (uint32_t)count;
}

static struct shuffle_preamble preamble_good(void)
{
    struct shuffle_preamble preamble = {
        .magic = SHUFFLE_PREAMBLE_MAGIC, .protocol = base_build_protocol(), .job = 77, .source = 0, .destination = 1};
    memcpy(preamble.token, "0123456789abcde", 16);
    return preamble;
}

static void say_preamble(struct script *script)
{
    const struct shuffle_preamble preamble = preamble_good();
    say(script, &preamble, sizeof preamble);
}

static void say_frame(struct script *script, struct shuffle_frame_header header, const void *payload)
{
    if (script->checked) {
        header.flags = SHUFFLE_FRAME_CHECKED;
        header.check = XXH3_64bits(payload, header.bytes);
    }
    say(script, &header, sizeof header);
    say(script, payload, header.bytes);
}

static struct shuffle_frame_header header_data(struct script *script, uint32_t rows, uint32_t bytes)
{
    return (struct shuffle_frame_header){.magic = SHUFFLE_FRAME_MAGIC,
                                         .kind = SHUFFLE_FRAME_DATA,
                                         .source = 0,
                                         .destination = 1,
                                         .sequence = script->sequence++,
                                         .bytes = bytes,
                                         .rows = rows};
}

/* Rows of 16 bytes that belong to worker 1. */
static void say_rows(struct script *script, struct rig *rig, uint32_t rows)
{
    int64_t payload[2 * 64];
    int64_t key = 1000 * (int64_t)script->sequence;
    for (uint32_t i = 0; i < rows; i++) {
        int64_t *row = payload + (size_t)2 * i;
        uint64_t hash;
        do {
            row[0] = ++key;
            row[1] = i;
            shuffle_key_hash_image(&rig->key, &rig->layout, (const uint8_t *)row, 1, &hash);
        } while (shuffle_key_partition(hash, 2) != 1);
        script->totals.hash_sum += hash;
    }
    script->totals.rows += rows;
    script->totals.bytes += UINT64_C(16) * rows;
    say_frame(script, header_data(script, rows, 16 * rows), payload);
}

static void say_end(struct script *script)
{
    struct shuffle_frame_header header = header_data(script, 0, sizeof script->totals);
    header.kind = SHUFFLE_FRAME_END;
    say_frame(script, header, &script->totals);
}

/* Somebody on the network. */
enum after { STAY, FIN, RESET };
struct somebody {
    struct script script;
    enum after after;
    struct net_engine *engine;
    struct net_socket *socket;
    struct net_send_op op;
    bool connected, sent, ended, closed;
    uint64_t received_bytes;
};

enum { SOMEBODIES_MAX = 12 };
static struct somebody *crowd[SOMEBODIES_MAX];
static uint32_t crowd_count;
static struct net_engine *crowd_engine;

static void crowd_enter(struct rig *rig, uint32_t target)
{
    struct somebody *one = calloc(1, sizeof *one);
    struct base_error error;
    crowd[crowd_count++] = one;
    crowd_engine = one->engine = rig->worker[0].engine;
    assert_int_equal(net_socket_connect(one->engine, &rig->address[target], UINT64_MAX, one, &one->socket, &error),
                     BASE_OK);
}

static void somebody_send(struct somebody *one)
{
    if (one->op.in_flight || one->sent || !one->connected || one->closed)
        return;
    one->op.segments[0] = (struct iovec){one->script.bytes, one->script.count};
    one->op.count = 1;
    if (one->script.count == 0 || net_socket_send(one->socket, &one->op) == BASE_OK)
        one->sent = true;
}

static void somebody_event(struct somebody *one, const struct net_event *event)
{
    struct base_error error;
    switch (event->kind) {
    case NET_EVENT_CONNECTED:
        if (event->status == BASE_CANCELLED)
            break;
        assert_int_equal(event->status, BASE_OK);
        one->connected = true;
        assert_int_equal(net_socket_receive(one->socket, &error), BASE_OK);
        break;
    case NET_EVENT_RECEIVED:
        if (event->status == BASE_OK) {
            one->received_bytes += event->chunk.bytes;
            net_chunk_release(one->engine, &event->chunk);
        } else {
            one->ended = true;
            net_socket_close(one->socket, true);
        }
        break;
    case NET_EVENT_SENT:
        if (one->after == FIN)
            net_socket_shutdown(one->socket);
        if (one->after == RESET)
            net_socket_close(one->socket, true);
        break;
    case NET_EVENT_CLOSED:
        one->closed = true;
        break;
    default:
        break;
    }
}

static bool crowd_turn(void)
{
    struct net_event events[8];
    for (uint32_t i = 0; i < crowd_count; i++)
        somebody_send(crowd[i]);
    const uint32_t count = net_engine_poll(crowd_engine, events, 8, 0);
    for (uint32_t i = 0; i < count; i++)
        somebody_event(events[i].context, &events[i]);
    return count > 0;
}

static bool worker_1_received(struct rig *rig)
{
    crowd_turn();
    return rig->worker[1].exchange[0] && shuffle_exchange_received(rig->worker[1].exchange[0]);
}

static bool crowd_gone(struct rig *rig)
{
    (void)rig;
    crowd_turn();
    for (uint32_t i = 0; i < crowd_count; i++) {
        if (!crowd[i]->closed)
            return false;
    }
    return true;
}

static void crowd_leave(struct rig *rig)
{
    for (uint32_t i = 0; i < crowd_count; i++) {
        if (!crowd[i]->closed)
            net_socket_close(crowd[i]->socket, true);
    }
    /* Errors of the workers do not matter any more. */
    while (!crowd_gone(rig))
        net_sim_advance(rig->world, NET_WAIT_FOREVER);
    for (uint32_t i = 0; i < crowd_count; i++)
        free(crowd[i]);
    crowd_count = 0;
}

static const bool worker_0_absent[RIG_WORKERS_MAX] = {true};

/* Worker 1 alone, with worker 0 played by crowd[0], who has said hello. */
static struct rig *stage_open(const struct rig_config *config)
{
    struct rig *rig = rig_new();
    rig_open_some(rig, config, worker_0_absent);
    crowd_enter(rig, 1);
    crowd[0]->script.checked = config->verify;
    say_preamble(&crowd[0]->script);
    return rig;
}

static void stage_close(struct rig *rig)
{
    crowd_leave(rig);
    rig_close(rig, true);
    free(rig);
}

/* Plays and expects the error, with a text that names the peer's node. */
static void expect_error(struct rig *rig, enum base_status status, const char *words)
{
    assert_false(rig_run(rig, worker_1_received));
    const struct base_error *error = &rig->worker[1].error;
    if (error->status != status || !strstr(error->text, "n0") || !strstr(error->text, words))
        fail_msg("expected %s with '%s', got %s: %s", base_status_name(status), words, base_status_name(error->status),
                 error->text);
    stage_close(rig);
}

static void a_good_peer_is_heard(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        struct rig_config config = plain;
        config.seed = i;
        config.verify = i % 2;
        config.chunk_bytes = i < 10 ? 7 : 300;
        struct rig *rig = stage_open(&config);
        for (uint32_t frame = 1; frame < 10; frame++)
            say_rows(&crowd[0]->script, rig, frame);
        say_end(&crowd[0]->script);
        crowd[0]->after = i % 3 == 0 ? FIN : STAY;
        assert_true(rig_run(rig, worker_1_received));
        assert_int_equal(rig->worker[1].sink[0].rows, 45);
        assert_int_equal(shuffle_mesh_received_bytes(rig->worker[1].mesh)[0], 45 * 16);
        assert_int_equal(shuffle_exchange_counters(rig->worker[1].exchange[0])->frames_in, 10);
        stage_close(rig);
    }
}

/* What a broken peer may send, and what is made of it. */

static void a_frame_sent_twice(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    struct script *script = &crowd[0]->script;
    say_rows(script, rig, 3);
    script->sequence--;
    say_rows(script, rig, 3);
    say_end(script);
    expect_error(rig, BASE_FRAME_SEQUENCE, "frame 0 comes instead of frame 1");
}

static void a_frame_left_out(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    crowd[0]->script.sequence = 1;
    say_rows(&crowd[0]->script, rig, 3);
    expect_error(rig, BASE_FRAME_SEQUENCE, "frame 1 comes instead of frame 0");
}

static void a_row_lost(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->script.totals.rows++;
    say_end(&crowd[0]->script);
    expect_error(rig, BASE_LANE_TOTALS, "sent 4 rows");
}

static void a_row_exchanged_for_another(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->script.totals.hash_sum ^= 1;
    say_end(&crowd[0]->script);
    expect_error(rig, BASE_LANE_TOTALS, "hash sum");
}

static void data_after_the_end(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.exchanges = 2; /* keeps the worker listening */
    struct rig *rig = stage_open(&config);
    say_rows(&crowd[0]->script, rig, 3);
    say_end(&crowd[0]->script);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->after = STAY;
    rig_run(rig, worker_1_received);
    const uint64_t rows = rig->worker[1].sink[0].rows;
    assert_false(rig_run(rig, rig_all_done));
    assert_int_equal(rows, 3);
    assert_int_equal(rig->worker[1].error.status, BASE_FRAME_SEQUENCE);
    assert_non_null(strstr(rig->worker[1].error.text, "after its end of stream"));
    stage_close(rig);
}

static void a_changed_byte(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.verify = true;
    for (uint32_t i = 0; i < 48 + 24; i += 5) {
        struct rig *rig = stage_open(&config);
        struct script *script = &crowd[0]->script;
        say_rows(script, rig, 3);
        say_end(script);
        const uint32_t frame = 40 + 40 + (i < 48 ? i : 40 + i); /* in the rows, or in the totals */
        script->bytes[frame] ^= 0x10;
        rig->key.count = 1;
        rig->worker[1].sink[0].forgiving = true; /* a changed key belongs elsewhere */
        expect_error(rig, BASE_FRAME_CORRUPT, "checksum");
    }
}

static void no_checksum_though_promised(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.verify = true;
    struct rig *rig = stage_open(&config);
    crowd[0]->script.checked = false;
    say_rows(&crowd[0]->script, rig, 3);
    expect_error(rig, BASE_FRAME_CORRUPT, "no checksum");
}

static void a_frame_for_somebody_else(void **state)
{
    (void)state;
    const int64_t row[2] = {1, 2};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = stage_open(&plain);
        struct shuffle_frame_header header = header_data(&crowd[0]->script, 1, 16);
        if (i == 0)
            header.destination = 5;
        else
            header.source = 1;
        say_frame(&crowd[0]->script, header, row);
        expect_error(rig, BASE_FRAME_CORRUPT, "a frame says it is from");
    }
}

static void no_frame_at_all(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    for (uint32_t i = 0; i < 100; i++)
        say(&crowd[0]->script, "GET / HTTP/1.1\r\n", 16);
    expect_error(rig, BASE_FRAME_CORRUPT, "instead of its mark");
}

static void rows_that_do_not_fit_the_frame(void **state)
{
    (void)state;
    const int64_t rows[4] = {1, 2, 3, 4};
    struct rig *rig = stage_open(&plain);
    say_frame(&crowd[0]->script, header_data(&crowd[0]->script, 2, 31), rows);
    expect_error(rig, BASE_FRAME_CORRUPT, "are not 2 rows of 16 bytes");
}

/* Rows of variable width: key, string: 12 bytes of head, the last 4 are the string's end. */
static void malformed_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t end, rows, bytes;
        const char *words;
    } cases[] = {
        {UINT32_MAX, 1, 20, "malformed"},            /* beyond everything */
        {SHUFFLE_ROW_BYTES_MAX, 1, 20, "malformed"}, /* beyond the limit */
        {9, 1, 20, "malformed"},                     /* beyond the frame by one */
        {8, 2, 20, "ends before its rows do"},       /* one row only */
        {0, 1, 20, "malformed"},                     /* 8 bytes are left, no row has so few */
        {0, 1, 24, "has more rows than it says"},
        {8, 1, 11, "malformed"}, /* not even a head */
    };
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        struct rig_config config = plain;
        config.schema = "k:int64,v:string";
        config.image = false;
        config.chunk_bytes = i % 2 ? 1 : 200;
        struct rig *rig = stage_open(&config);
        rig->worker[1].sink[0].forgiving = true;
        uint8_t payload[40] = {0};
        base_store_u32(payload + 8, cases[i / 2].end);
        say_frame(&crowd[0]->script, header_data(&crowd[0]->script, cases[i / 2].rows, cases[i / 2].bytes), payload);
        crowd[0]->after = STAY;
        expect_error(rig, BASE_FRAME_CORRUPT, cases[i / 2].words);
    }
}

static void a_peer_that_goes_too_early(void **state)
{
    (void)state;
    for (uint32_t cut = 0; cut < 4; cut++) {
        struct rig *rig = stage_open(&plain);
        struct script *script = &crowd[0]->script;
        say_rows(script, rig, 3);
        if (cut > 0)
            say_end(script);
        script->count -= cut * 7; /* in the middle of the totals */
        if (cut == 0)
            script->count -= 20; /* in the middle of a row */
        crowd[0]->after = FIN;
        if (cut == 0)
            expect_error(rig, BASE_PEER_CLOSED, "before its streams ended");
        else
            expect_error(rig, BASE_PEER_CLOSED, "closed the connection");
    }
    struct rig *rig = stage_open(&plain);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->after = RESET;
    expect_error(rig, BASE_PEER_RESET, "worker 0 on node n0");
}

/* Strangers. */

static void strangers_are_turned_away(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct rig_config config = plain;
        config.seed = seed;
        struct rig *rig = rig_new();
        rig_open_some(rig, &config, worker_0_absent);
        struct shuffle_preamble preamble;
#define STRANGER(change)                                                                                               \
    crowd_enter(rig, 1);                                                                                               \
    preamble = preamble_good();                                                                                        \
    change;                                                                                                            \
    say(&crowd[crowd_count - 1]->script, &preamble, sizeof preamble)
        STRANGER(preamble.magic++);
        STRANGER(preamble.protocol++);
        STRANGER(preamble.job++);
        STRANGER(preamble.token[15] ^= 1);
        STRANGER(preamble.source = 1);
        STRANGER(preamble.source = 2);
        STRANGER(preamble.source = UINT32_MAX);
        STRANGER(preamble.destination = 0);
        STRANGER(memset(&preamble, 0, sizeof preamble));
#undef STRANGER
        crowd_enter(rig, 1); /* says half of it */
        say(&crowd[9]->script, &preamble, 17);
        crowd_enter(rig, 1); /* says nothing */
        if (seed % 2) {
            /* All are gone before the one who belongs here comes. */
            assert_true(rig_run(rig, crowd_gone));
            assert_true(net_sim_now_ns(rig->world) < 3 * BASE_NS_PER_S);
        }
        crowd_enter(rig, 1);
        struct script *script = &crowd[11]->script;
        say_preamble(script);
        say_rows(script, rig, 5);
        say_end(script);
        assert_true(rig_run(rig, worker_1_received));
        assert_int_equal(rig->worker[1].sink[0].rows, 5);
        stage_close(rig);
    }
}

/* Callers who say nothing and come again when they are turned away, more of them than there are sockets. */
enum { FLOOD = 200 };
struct caller {
    struct net_socket *socket; /* NULL: calls again at the next turn */
};
static struct caller flood[FLOOD];
static struct net_engine *flood_engine;
static bool flood_ebbs;

static void flood_event(const struct net_event *event)
{
    struct caller *caller = event->context;
    struct base_error error;
    switch (event->kind) {
    case NET_EVENT_CONNECTED:
        if (event->status == BASE_OK)
            assert_int_equal(net_socket_receive(caller->socket, &error), BASE_OK);
        else if (event->status != BASE_CANCELLED)
            net_socket_close(caller->socket, true);
        break;
    case NET_EVENT_RECEIVED:
        if (event->status == BASE_OK)
            net_chunk_release(flood_engine, &event->chunk);
        else
            net_socket_close(caller->socket, true);
        break;
    case NET_EVENT_CLOSED:
        caller->socket = NULL;
        break;
    default:
        break;
    }
}

/* True when nobody is there any more. */
static bool flood_turn(struct rig *rig)
{
    struct net_event events[64];
    struct base_error error;
    bool gone = true;
    for (uint32_t i = 0; i < FLOOD; i++) {
        if (!flood[i].socket && !flood_ebbs)
            assert_int_equal(
                net_socket_connect(flood_engine, &rig->address[1], UINT64_MAX, &flood[i], &flood[i].socket, &error),
                BASE_OK);
        gone &= !flood[i].socket;
    }
    const uint32_t count = net_engine_poll(flood_engine, events, 64, 0);
    for (uint32_t i = 0; i < count; i++)
        flood_event(&events[i]);
    return gone;
}

static bool connected_in_the_flood(struct rig *rig)
{
    flood_turn(rig);
    return rig_all_connected(rig);
}

/* Who belongs here gets in all the same, and soon. */
static void a_flood_of_silent_callers_keeps_nobody_out(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 10; seed++) {
        struct rig_config config = plain;
        config.seed = seed;
        config.sim.delay_max_ns = 100000;
        config.calls_late = true;
        config.secret[0] = config.secret[1] = seed % 2; /* with a key it takes them longer */
        struct rig *rig = rig_new();
        struct base_error error;
        rig_open(rig, &config);
        const struct net_engine_config engine = {.sockets_max = FLOOD, .recv_chunk_bytes = 64, .recv_chunk_count = 4};
        flood_ebbs = false;
        assert_int_equal(net_sim_engine_open(rig->world, &engine, &flood_engine, &error), BASE_OK);
        assert_int_equal(net_engine_enable(flood_engine, &error), BASE_OK);
        /* The flood is there first. */
        rig_connect(rig, 1);
        for (uint32_t i = 0; i < 1000; i++) {
            flood_turn(rig);
            rig_turn(rig, 1);
            net_sim_advance(rig->world, NET_WAIT_FOREVER);
        }
        const uint64_t begin_ns = net_sim_now_ns(rig->world);
        rig_connect(rig, 0);
        assert_true(rig_run(rig, connected_in_the_flood));
        assert_true(net_sim_now_ns(rig->world) - begin_ns < BASE_NS_PER_S);
        flood_ebbs = true;
        for (uint32_t i = 0; i < FLOOD; i++) {
            if (flood[i].socket)
                net_socket_close(flood[i].socket, true);
        }
        while (!flood_turn(rig))
            net_sim_advance(rig->world, NET_WAIT_FOREVER);
        net_engine_close(flood_engine);
        rig_close(rig, true);
        free(rig);
    }
}

static void a_worker_is_let_in_once(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    crowd_enter(rig, 1);
    say_preamble(&crowd[1]->script);
    for (uint32_t i = 0; i < 2; i++) {
        say_rows(&crowd[i]->script, rig, 5);
        say_end(&crowd[i]->script);
    }
    assert_true(rig_run(rig, worker_1_received));
    assert_int_equal(rig->worker[1].sink[0].rows, 5);
    stage_close(rig);
}

static bool never(struct rig *rig)
{
    (void)rig;
    return false;
}

static void who_refuses_is_named_at_once(void **state)
{
    (void)state;
    static const bool absent[RIG_WORKERS_MAX] = {false, true};
    struct rig *rig = rig_new();
    rig_open_some(rig, &plain, absent);
    assert_false(rig_run(rig, never));
    assert_int_equal(rig->worker[0].error.status, BASE_NODE_REFUSED);
    assert_non_null(strstr(rig->worker[0].error.text, "node n1"));
    assert_true(net_sim_now_ns(rig->world) < BASE_NS_PER_S);
    rig_close(rig, true);
    free(rig);
}

static void who_is_missing_is_named_in_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    rig_open_some(rig, &plain, worker_0_absent);
    assert_false(rig_run(rig, never));
    assert_int_equal(rig->worker[1].error.status, BASE_UNREACHABLE);
    assert_non_null(strstr(rig->worker[1].error.text, "node n0"));
    assert_in_range(net_sim_now_ns(rig->world), 5 * BASE_NS_PER_S, 6 * BASE_NS_PER_S);
    rig_close(rig, true);
    free(rig);
}

/* Where worker 1 should be, somebody hangs up on everyone. He is called again until the time is over. */
static struct somebody grump;
static uint32_t hung_up;

static bool grump_turn(struct rig *rig)
{
    struct net_event events[8];
    const uint32_t count = net_engine_poll(rig->worker[1].engine, events, 8, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind != NET_EVENT_ACCEPTED)
            continue;
        net_socket_set_context(events[i].accepted, &grump);
        net_socket_close(events[i].accepted, hung_up++ % 2);
    }
    return false;
}

static void who_hangs_up_is_called_again(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    struct net_address bound;
    struct base_error error;
    int fd;
    rig_open_some(rig, &plain, (const bool[RIG_WORKERS_MAX]){false, true});
    assert_int_equal(net_sim_listen(rig->world, &rig->address[1], &fd, &bound, &error), BASE_OK);
    assert_int_equal(net_socket_adopt(rig->worker[1].engine, fd, &grump, &grump.socket, &error), BASE_OK);
    assert_int_equal(net_socket_accept(grump.socket, &error), BASE_OK);
    assert_false(rig_run(rig, grump_turn));
    assert_int_equal(rig->worker[0].error.status, BASE_UNREACHABLE);
    assert_non_null(strstr(rig->worker[0].error.text, "node n1"));
    assert_true(hung_up > 100);
    assert_in_range(net_sim_now_ns(rig->world), 5 * BASE_NS_PER_S, 6 * BASE_NS_PER_S);
    net_socket_close(grump.socket, false);
    for (uint32_t i = 0; i < 100; i++) {
        grump_turn(rig);
        net_sim_advance(rig->world, NET_WAIT_FOREVER);
    }
    rig_close(rig, true);
    free(rig);
}

/* A sink may be late, and so may an exchange. */
static void frames_wait_for_their_exchange(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig_config config = plain;
        config.seed = seed;
        config.late_open = true;
        config.exchanges = 2;
        config.workers = 4;
        config.rows = 500;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        assert_true(rig_run(rig, rig_all_connected));
        rig_exchanges_open(rig, 0);
        rig_exchanges_open(rig, 3);
        rig_run(rig, rig_all_done); /* comes to a halt: nobody else takes anything */
        assert_false(rig_failed(rig));
        rig_exchanges_open(rig, 1);
        rig_exchanges_open(rig, 2);
        assert_true(rig_run(rig, rig_all_done));
        rig_check_answer(rig);
        rig_close(rig, false);
        free(rig);
    }
}

/* A row that was cut and waits for a busy sink lies in the stitch buffer, which grows when an exchange of wider rows
 * comes. */
static void a_cut_row_waits_while_an_exchange_opens(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.chunk_bytes = 88; /* the first ends 8 bytes into the first row */
    config.sim.short_percent = 0;
    struct rig *rig = stage_open(&config);
    struct rig_sink *sink = &rig->worker[1].sink[0];
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_exchange *wider;
    struct base_error error;
    char text[1000] = "k:int64";
    for (uint32_t i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",c%u:int64", i);
    assert_int_equal(shuffle_schema_parse(text, &schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&schema, &layout, &error), BASE_OK);
    say_rows(&crowd[0]->script, rig, 5);
    say_end(&crowd[0]->script);
    sink->fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    assert_int_equal(shuffle_exchange_counters(rig->worker[1].exchange[0])->rows_cut, 1);
    const struct shuffle_exchange_config exchange = {.mesh = rig->worker[1].mesh,
                                                     .governor = rig->governor[1],
                                                     .id = 1,
                                                     .layout = &layout,
                                                     .key = &rig->key,
                                                     .frame_bytes = 4096,
                                                     .frames_per_lane = 1,
                                                     .sink = &sink->base};
    assert_int_equal(shuffle_exchange_open(&exchange, &wider, &error), BASE_OK);
    sink->fail_with = BASE_OK;
    assert_true(rig_run(rig, worker_1_received));
    assert_int_equal(sink->rows, 5);
    shuffle_exchange_close(wider);
    shuffle_layout_free(&layout);
    shuffle_schema_free(&schema);
    stage_close(rig);
}

/* A peer that has said all may close while a busy sink keeps its last rows waiting. It is judged once they are taken,
 * and never looked for again. */
static void a_goodbye_before_its_rows_are_taken_is_judged_once(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&plain);
    struct rig_sink *sink = &rig->worker[1].sink[0];
    say_rows(&crowd[0]->script, rig, 3);
    say_end(&crowd[0]->script);
    crowd[0]->after = FIN;
    sink->fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    const struct shuffle_mesh *mesh = rig->worker[1].mesh;
    assert_int_equal(mesh->fins, 1);
    assert_true(mesh->peers[0].fin);
    assert_int_equal(mesh->inlets.stalled, 1);
    sink->fail_with = BASE_OK;
    assert_true(rig_run(rig, worker_1_received));
    assert_false(rig_failed(rig));
    assert_int_equal(mesh->fins, 0);
    assert_int_equal(mesh->inlets.stalled, 0);
    stage_close(rig);
}

/* The inlet forgets the chunk that it keeps while its sink is busy. */
static void lose_a_waiting_chunk(void *context)
{
    (void)context;
    struct rig *rig = stage_open(&plain);
    say_rows(&crowd[0]->script, rig, 3);
    rig->worker[1].sink[0].fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    struct shuffle_inlet *inlet = &rig->worker[1].mesh->peers[0].inlet;
    assert_non_null(inlet->piece.chunk.data);
    inlet->piece.chunk.data = NULL;
    stage_close(rig);
}

static void a_chunk_that_an_inlet_loses_is_told(void **state)
{
    (void)state;
    char text[4096];
    bool aborted;
    const bool ended = child_output(lose_a_waiting_chunk, NULL, text, sizeof text, &aborted);
    assert_int_equal(aborted, CHILD_MISSING_ABORTS);
    assert_int_equal(ended, !CHILD_MISSING_ABORTS);
    if (!strstr(text, "it is held by the inlet, which waits for its sink, of worker 0"))
        fail_msg("not told: %s", text);
}

static void both_ends_count_the_same_bytes(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.nodes = 3;
    config.workers = 6;
    config.rows = 1000;
    struct rig *rig = rig_new();
    rig_open(rig, &config);
    assert_true(rig_run(rig, rig_all_done));
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < 6; j++) {
            const uint64_t sent = shuffle_mesh_sent_bytes(rig->worker[i].mesh)[j];
            assert_int_equal(sent, shuffle_mesh_received_bytes(rig->worker[j].mesh)[i]);
            assert_int_equal(sent % 16, 0);
            assert_int_equal(sent > 0, i / 2 != j / 2);
            bytes += sent;
        }
    }
    assert_in_range(bytes, 6 * 1000 * 16 * 6 / 10, 6 * 1000 * 16 * 7 / 10); /* two thirds leave their node */
    rig_close(rig, false);
    free(rig);
}

/* A connection that breaks at any byte: somebody says so and names a node, nobody takes a wrong answer for a right one,
 * and everything comes home. */
static void resets_at_any_moment(void **state)
{
    (void)state;
    uint32_t failed = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct rig_config config = plain;
        config.seed = seed;
        config.nodes = 2 + (uint32_t)(seed % 2);
        config.workers = 6;
        config.rows = 300;
        config.verify = true;
        config.sim.reset_after_bytes = 1 + (uint32_t)(base_random_mix(seed) % 20000);
        config.sim.busy_percent = 20;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        if (rig_run(rig, rig_all_done)) {
            rig_check_answer(rig);
        } else {
            assert_true(rig_failed(rig));
            failed++;
            for (uint32_t i = 0; i < config.workers; i++)
                assert_true(rig->worker[i].error.status == BASE_OK || strstr(rig->worker[i].error.text, "node n"));
        }
        rig_close(rig, true);
        free(rig);
    }
    assert_true(failed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_peer_is_heard),
        cmocka_unit_test(a_frame_sent_twice),
        cmocka_unit_test(a_frame_left_out),
        cmocka_unit_test(a_row_lost),
        cmocka_unit_test(a_row_exchanged_for_another),
        cmocka_unit_test(data_after_the_end),
        cmocka_unit_test(a_changed_byte),
        cmocka_unit_test(no_checksum_though_promised),
        cmocka_unit_test(a_frame_for_somebody_else),
        cmocka_unit_test(no_frame_at_all),
        cmocka_unit_test(rows_that_do_not_fit_the_frame),
        cmocka_unit_test(malformed_rows),
        cmocka_unit_test(a_peer_that_goes_too_early),
        cmocka_unit_test(strangers_are_turned_away),
        cmocka_unit_test(a_flood_of_silent_callers_keeps_nobody_out),
        cmocka_unit_test(a_worker_is_let_in_once),
        cmocka_unit_test(who_refuses_is_named_at_once),
        cmocka_unit_test(who_is_missing_is_named_in_time),
        cmocka_unit_test(who_hangs_up_is_called_again),
        cmocka_unit_test(frames_wait_for_their_exchange),
        cmocka_unit_test(a_cut_row_waits_while_an_exchange_opens),
        cmocka_unit_test(a_goodbye_before_its_rows_are_taken_is_judged_once),
        cmocka_unit_test(a_chunk_that_an_inlet_loses_is_told),
        cmocka_unit_test(both_ends_count_the_same_bytes),
        cmocka_unit_test(resets_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
