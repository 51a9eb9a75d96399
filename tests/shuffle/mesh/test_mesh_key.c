/* Connections of the mesh in a cluster with a key: who has it gets in, and nobody else, whatever he knows besides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/build.h"
#include "base/clock.h"
#include "net/proof/proof.h"
#include "shuffle/mesh/preamble.h"
#include "tests/shuffle/mesh/mesh_rig.h"

static struct rig_config keyed(uint32_t seed)
{
    struct rig_config config = rig_two_nodes;
    config.seed = seed;
    memset(config.secret, 1, 8);
    return config;
}

static void one_key_lets_all_in(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 30; seed++) {
        struct rig_config config = keyed(seed);
        config.nodes = 3;
        config.workers = 6;
        config.rows = 300;
        config.chunk_bytes = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 72 : 1000;
        config.sim.socket_buffer_bytes = seed % 2 ? 7 : 20000;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        assert_true(rig_run(rig, rig_all_done));
        rig_check_answer(rig);
        rig_close(rig, false);
    }
}

static bool never(struct rig *rig)
{
    (void)rig;
    return false;
}

/* Nobody gets in, and both say in time who is missing. why: what the caller, worker 0, knows besides, or NULL. */
static void expect_shut(uint8_t caller, uint8_t callee, const char *why)
{
    for (uint32_t seed = 1; seed <= 5; seed++) {
        struct rig_config config = keyed(seed);
        config.secret[0] = caller;
        config.secret[1] = callee;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        assert_false(rig_run(rig, never));
        assert_in_range(net_sim_now_ns(rig->world), 5 * BASE_NS_PER_S, 6 * BASE_NS_PER_S);
        /* One of them failed first, and then the rig stops. */
        const struct base_error *error = &rig->worker[rig->worker[0].error.status == BASE_OK].error;
        assert_int_equal(error->status, BASE_UNREACHABLE);
        assert_non_null(strstr(error->text, "strangers were turned away"));
        while (rig->worker[0].error.status == BASE_OK)
            rig_turn(rig, 0);
        if (why && !strstr(rig->worker[0].error.text, why))
            fail_msg("\"%s\" does not say \"%s\"", rig->worker[0].error.text, why);
        rig_close(rig, true);
    }
}

static void another_key_keeps_out(void **state)
{
    (void)state;
    expect_shut(1, 2, "what answers for node n1 has another key");
}

static void a_key_and_none_do_not_meet(void **state)
{
    (void)state;
    expect_shut(0, 1, NULL);
    expect_shut(1, 0, NULL);
}

/* Strangers: each says something, hears what comes back, and is thrown out. */

struct stranger {
    struct net_socket *socket;
    struct net_send_op op;
    uint8_t bytes[512];
    uint32_t count, heard;
    bool sent, closed;
};

enum { STRANGERS = 12 };
static struct stranger stranger[STRANGERS];
static uint32_t strangers;
static struct net_engine *street;

static struct stranger *stranger_enter(struct rig *rig)
{
    struct stranger *one = &stranger[strangers++];
    struct base_error error;
    *one = (struct stranger){0};
    street = rig->worker[0].engine;
    assert_int_equal(net_socket_connect(street, &rig->address[1], UINT64_MAX, one, &one->socket, &error), BASE_OK);
    return one;
}

static void stranger_says(struct stranger *one, const void *bytes, uint32_t count)
{
    assert_true(one->count + count <= sizeof one->bytes);
    memcpy(one->bytes + one->count, bytes, count);
    one->count += count;
}

static void stranger_event(struct stranger *one, const struct net_event *event)
{
    struct base_error error;
    if (event->kind == NET_EVENT_CONNECTED && event->status == BASE_OK) {
        assert_int_equal(net_socket_receive(one->socket, &error), BASE_OK);
        one->op.segments[0] = (struct iovec){one->bytes, one->count};
        one->op.count = 1;
        one->sent = one->count == 0 || net_socket_send(one->socket, &one->op) == BASE_OK;
        assert_true(one->sent);
    } else if (event->kind == NET_EVENT_RECEIVED && event->status == BASE_OK) {
        one->heard += event->chunk.bytes;
        net_chunk_release(street, &event->chunk);
    } else if (event->kind == NET_EVENT_RECEIVED) {
        net_socket_close(one->socket, true);
    } else if (event->kind == NET_EVENT_CLOSED) {
        one->closed = true;
    }
}

static bool strangers_gone(struct rig *rig)
{
    (void)rig;
    struct net_event events[8];
    const uint32_t count = net_engine_poll(street, events, 8, 0);
    for (uint32_t i = 0; i < count; i++)
        stranger_event(events[i].context, &events[i]);
    for (uint32_t i = 0; i < strangers; i++) {
        if (!stranger[i].closed)
            return false;
    }
    return true;
}

/* They know the job and its token, the protocol, even what was said on another connection; they have not the key. */
static void strangers_are_turned_away(void **state)
{
    (void)state;
    struct net_key *other;
    struct base_error error;
    const uint8_t bytes[NET_KEY_BYTES] = {99}, nonce[NET_KEY_NONCE_BYTES] = {7};
    assert_int_equal(net_key_make(bytes, &other, &error), BASE_OK);
    for (uint32_t seed = 1; seed <= 10; seed++) {
        struct rig_config config = keyed(seed);
        config.chunk_bytes = seed % 2 ? 5 : 256;
        struct rig *rig = rig_new();
        rig_open_some(rig, &config, (const bool[RIG_WORKERS_MAX]){true});
        struct shuffle_preamble preamble = {.magic = SHUFFLE_PREAMBLE_MAGIC,
                                            .protocol = base_build_protocol(),
                                            .job = 77,
                                            .token = "0123456789abcde",
                                            .source = 0,
                                            .destination = 1};
        struct net_proof proof;
        net_proof_open(&proof, other, NET_PROOF_CALLER, NET_PROOF_DATA, nonce);
        strangers = 0;
        stranger_says(stranger_enter(rig), &preamble, sizeof preamble); /* no proof at all */
        struct stranger *unproved = stranger_enter(rig);                /* a challenge, then no proof */
        stranger_says(unproved, proof.out, NET_PROOF_MESSAGE_BYTES);
        stranger_says(unproved, &preamble, sizeof preamble);
        stranger_says(unproved, &preamble, sizeof preamble);
        struct stranger *twice = stranger_enter(rig); /* its own message once more */
        stranger_says(twice, proof.out, NET_PROOF_MESSAGE_BYTES);
        stranger_says(twice, proof.out, NET_PROOF_MESSAGE_BYTES);
        struct stranger *guess = stranger_enter(rig); /* a proof with a wrong code */
        stranger_says(guess, proof.out, NET_PROOF_MESSAGE_BYTES);
        stranger_says(guess, proof.out, NET_PROOF_MESSAGE_BYTES);
        guess->bytes[NET_PROOF_MESSAGE_BYTES + 5] = 3;
        struct stranger *control = stranger_enter(rig); /* another kind of connection */
        stranger_says(control, proof.out, NET_PROOF_MESSAGE_BYTES);
        control->bytes[6] = NET_PROOF_CONTROL;
        stranger_says(stranger_enter(rig), "GET / HTTP/1.1\r\n\r\n", 18);
        stranger_says(stranger_enter(rig), proof.out, 71);                      /* waits to say more */
        stranger_says(stranger_enter(rig), proof.out, NET_PROOF_MESSAGE_BYTES); /* waits when asked */
        stranger_enter(rig);                                                    /* waits */
        assert_true(rig_run(rig, strangers_gone));
        assert_true(net_sim_now_ns(rig->world) < 3 * BASE_NS_PER_S);
        assert_int_equal(rig->worker[1].error.status, BASE_OK);
        assert_false(shuffle_mesh_connected(rig->worker[1].mesh));
        /* None has heard more than what everybody is told who asks. */
        for (uint32_t i = 0; i < strangers; i++)
            assert_true(stranger[i].heard <= NET_PROOF_MESSAGE_BYTES);
        rig_close(rig, true);
    }
    net_key_close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_lets_all_in),
        cmocka_unit_test(another_key_keeps_out),
        cmocka_unit_test(a_key_and_none_do_not_meet),
        cmocka_unit_test(strangers_are_turned_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
