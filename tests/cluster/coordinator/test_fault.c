/* Faults of the input, and which of several errors is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/cluster/coordinator/scene.h"

/* A node's reasons are not the coordinator's: it can neither succeed by failing nor cancel a job. */
static void a_nodes_reasons_are_not_the_coordinators(void **state)
{
    (void)state;
    static const enum base_status given[] = {BASE_OK, BASE_BUSY, BASE_CANCELLED, BASE_VERSION};
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_START, CLUSTER_MESSAGE_COMMIT};
    for (uint32_t i = 0; i < sizeof given / sizeof given[0]; i++)
        for (uint32_t j = 0; j < 2; j++) {
            struct rig *rig = scene_rig();
            scene_open(rig, 40 + i, 3);
            rig->node[1].mute[orders[j]] = true;
            const struct cluster_submit submit = rig_shuffle_out();
            struct rig_client *client = rig_submit(rig, &submit);
            assert_true(rig_until_told(rig, 1, orders[j], BASE_NS_PER_S));
            struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
            failed.failed.error.status = given[i];
            rig_node_say(rig, 1, &failed);
            assert_int_equal(scene_await(rig, client, CLUSTER_COMMIT_NS), BASE_INTERNAL);
            rig_close(rig);
        }
    /* Nor by a fault of the input; the codec refuses the first two in one. */
    for (uint32_t i = 2; i < sizeof given / sizeof given[0]; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 44 + i, 3);
        for (uint32_t n = 0; n < 3; n++)
            rig->node[n].mute[CLUSTER_MESSAGE_START] = rig->node[n].mute[CLUSTER_MESSAGE_HALT] = true;
        const struct cluster_submit submit = rig_join();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_true(rig_until_told(rig, 1, CLUSTER_MESSAGE_START, BASE_NS_PER_S));
        struct cluster_message fault = {.kind = CLUSTER_MESSAGE_FAULT, .job = client->job};
        fault.fault.error.status = given[i];
        rig_node_say(rig, 1, &fault);
        rig_run(rig, 10 * BASE_NS_PER_MS);
        rig_node_kill(rig, 2); /* the job ends, with the fault */
        assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_INTERNAL);
        scene_says(client, "node n2");
        rig_close(rig);
    }
}

/* A neighbour feels the death first; the report tells the death. */
static void an_echo_is_explained_by_a_death(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 6, 4);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
    base_error_set(&failed.failed.error, BASE_PEER_RESET, "n3 reset the connection");
    rig_node_say(rig, 0, &failed);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_false(client->reported);
    rig_node_kill(rig, 2);
    assert_int_equal(scene_await(rig, client, 50 * BASE_NS_PER_MS), BASE_NODE_LOST);
    scene_says(client, "n3 was lost while building"); /* not while aborting, which is when it is known */
    rig_close(rig);
}

/* Of every two errors the better one is told, whichever comes first; of two equals the first. */
static void the_best_error_is_told(void **state)
{
    (void)state;
    static const enum base_status told[] = {
        BASE_PEER_RESET,    BASE_PEER_CLOSED,    BASE_TIMEOUT,     BASE_UNREACHABLE, BASE_NODE_REFUSED,
        BASE_FRAME_CORRUPT, BASE_FRAME_SEQUENCE, BASE_LANE_TOTALS, BASE_NO_SPACE,    BASE_IO,
        BASE_NO_MEMORY,     BASE_PARSE,          BASE_INTERNAL};
    enum { COUNT = sizeof told / sizeof *told };
    for (uint32_t i = 0; i < COUNT * COUNT; i++) {
        const enum base_status first = told[i / COUNT], second = told[i % COUNT];
        struct rig *rig = scene_rig();
        scene_open(rig, 600 + i, 4);
        struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
        scene_fail(rig, 0, client->job, first);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        scene_fail(rig, 1, client->job, second);
        const bool better = base_status_rank(second) > base_status_rank(first);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), better ? second : first);
        scene_says(client, better ? "node n2" : "node n1");
        rig_close(rig);
    }
}

/* That it cannot be reached says nothing of whether it is alive; the coordinator knows. */
static void a_node_that_cannot_be_reached_may_be_alive(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 900 + (uint64_t)dies, 4);
        struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_CONNECT);
        struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
        base_error_set(&failed.failed.error, BASE_UNREACHABLE, "node n3 at 10.0.0.3:7 cannot be reached from node n1");
        rig_node_say(rig, 0, &failed);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        if (dies)
            rig_node_kill(rig, 2);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), dies ? BASE_NODE_LOST : BASE_UNREACHABLE);
        scene_says(client, dies ? "n3 was lost" : "cannot be reached from node n1; all nodes are alive");
        rig_close(rig);
    }
}

static void an_echo_without_a_death_is_told(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 7, 4);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
    base_error_set(&failed.failed.error, BASE_PEER_RESET, "n3 reset the connection");
    rig_node_say(rig, 0, &failed);
    assert_int_equal(scene_await(rig, client, 500 * BASE_NS_PER_MS), BASE_PEER_RESET);
    rig_close(rig);
}

static void say_fault(struct rig *rig, const struct rig_client *client, uint32_t node, uint64_t morsel,
                      const char *text)
{
    struct cluster_message fault = {.kind = CLUSTER_MESSAGE_FAULT, .job = client->job, .fault = {.morsel = morsel}};
    base_error_set(&fault.fault.error, BASE_PARSE, "%s", text);
    rig_node_say(rig, node, &fault);
}

static void say_halted(struct rig *rig, const struct rig_client *client, uint32_t node)
{
    struct cluster_message halted = {
        .kind = CLUSTER_MESSAGE_STEP, .job = client->job, .step = {.step = CLUSTER_STEP_HALTED}};
    rig_node_say(rig, node, &halted);
}

/* Nodes that scan and do not halt by themselves; the second has found a fault in the sixth morsel. */
static struct rig_client *scan_until_fault(struct rig *rig, uint64_t seed)
{
    scene_open(rig, seed, 4);
    for (uint32_t n = 0; n < 4; n++)
        rig->node[n].mute[CLUSTER_MESSAGE_START] = rig->node[n].mute[CLUSTER_MESSAGE_HALT] = true;
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    say_fault(rig, client, 1, 5, "a.csv:900: an echo");
    assert_true(rig_until_told(rig, 2, CLUSTER_MESSAGE_HALT, BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_MS);
    return client;
}

/* A fault in the input waits for those who scan what lies before it, and the earliest is told. */
static void the_earliest_fault_is_told(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    struct rig_client *client = scan_until_fault(rig, 20);
    say_fault(rig, client, 3, 2, "a.csv:300: the cause");
    say_fault(rig, client, 0, 3, "a.csv:400: another echo");
    const uint32_t order[] = {1, 3, 0};
    for (uint32_t i = 0; i < 3; i++)
        say_halted(rig, client, order[i]);
    rig_run(rig, 10 * BASE_NS_PER_S);
    assert_false(client->reported);
    say_halted(rig, client, 2);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_PARSE);
    scene_says(client, "n4: a.csv:300: the cause");
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(rig->node[n].orders[CLUSTER_MESSAGE_HALT], 1);
    rig_close(rig);
}

/* Nobody is waited for who cannot halt, and nothing that comes meanwhile hides the fault; but a cancel is a cancel. */
static void nothing_but_a_cancel_hides_a_fault(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 3; how++) {
        struct rig *rig = scene_rig();
        struct rig_client *client = scan_until_fault(rig, 21 + how);
        struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
        base_error_set(&failed.failed.error, BASE_NO_MEMORY, "no memory");
        struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
        if (how == 0)
            rig_node_kill(rig, 2);
        else if (how == 1)
            rig_node_say(rig, 2, &failed);
        else
            rig_client_say(rig, rig_client(rig), &cancel);
        assert_int_equal(scene_await(rig, client, 2 * BASE_NS_PER_S), how == 2 ? BASE_CANCELLED : BASE_PARSE);
        if (how < 2)
            scene_says(client, "n2: a.csv:900: an echo");
        rig_close(rig);
    }
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nodes_reasons_are_not_the_coordinators),
        cmocka_unit_test(an_echo_is_explained_by_a_death),
        cmocka_unit_test(the_best_error_is_told),
        cmocka_unit_test(a_node_that_cannot_be_reached_may_be_alive),
        cmocka_unit_test(an_echo_without_a_death_is_told),
        cmocka_unit_test(the_earliest_fault_is_told),
        cmocka_unit_test(nothing_but_a_cancel_hides_a_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
