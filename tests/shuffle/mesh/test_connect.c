/* Connections of the mesh: who is let in, who is turned away, who is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/shuffle/mesh/crowd.h"

static void strangers_are_turned_away(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct rig_config config = rig_two_nodes;
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
        struct rig_config config = rig_two_nodes;
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
    }
}

static void a_worker_is_let_in_once(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
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
    rig_open_some(rig, &rig_two_nodes, absent);
    assert_false(rig_run(rig, never));
    assert_int_equal(rig->worker[0].error.status, BASE_NODE_REFUSED);
    assert_non_null(strstr(rig->worker[0].error.text, "node n1"));
    assert_true(net_sim_now_ns(rig->world) < BASE_NS_PER_S);
    rig_close(rig, true);
}

static void who_is_missing_is_named_in_time(void **state)
{
    (void)state;
    struct rig *rig = rig_new();
    rig_open_some(rig, &rig_two_nodes, worker_0_absent);
    assert_false(rig_run(rig, never));
    assert_int_equal(rig->worker[1].error.status, BASE_UNREACHABLE);
    assert_non_null(strstr(rig->worker[1].error.text, "node n0"));
    assert_in_range(net_sim_now_ns(rig->world), 5 * BASE_NS_PER_S, 6 * BASE_NS_PER_S);
    rig_close(rig, true);
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
    rig_open_some(rig, &rig_two_nodes, (const bool[RIG_WORKERS_MAX]){false, true});
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_are_turned_away),       cmocka_unit_test(a_flood_of_silent_callers_keeps_nobody_out),
        cmocka_unit_test(a_worker_is_let_in_once),         cmocka_unit_test(who_refuses_is_named_at_once),
        cmocka_unit_test(who_is_missing_is_named_in_time), cmocka_unit_test(who_hangs_up_is_called_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
