/* The coordinator in virtual time: who is here and what they may say, and then random faults. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/link/link.h"
#include "tests/cluster/coordinator/scene.h"

/* What a step answers depends on nothing but what it was given: a second coordinator, stepped in between, sees the
 * same. */
static void two_coordinators_do_not_meet(void **state)
{
    (void)state;
    static struct rig rigs[2];
    struct rig_client *client[2];
    const struct cluster_submit submit = rig_shuffle_out();
    for (uint32_t i = 0; i < 2; i++)
        scene_open(&rigs[i], 5, 3);
    for (uint32_t i = 0; i < 2; i++)
        client[i] = rig_submit(&rigs[i], &submit);
    for (uint32_t turn = 0; turn < 1000; turn++)
        for (uint32_t i = 0; i < 2; i++)
            rig_run(&rigs[i], BASE_NS_PER_MS);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(client[i]->reported ? client[i]->report.report.error.status : BASE_BUSY, BASE_OK);
    assert_int_equal(client[0]->reported_ns, client[1]->reported_ns);
    assert_int_equal(rigs[0].logged, rigs[1].logged);
    assert_memory_equal(rigs[0].log, rigs[1].log, sizeof rigs[0].log);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(rigs[0].node[i].orders, rigs[1].node[i].orders, sizeof rigs[0].node[i].orders);
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
}

/* The coordinator is stopped for two seconds: its nodes, which hear nothing of it, give their job up and come again.
 * None of them is blamed. A pause that no node minds is minded by nobody. */
static void a_pause_of_the_coordinator_is_no_nodes_fault(void **state)
{
    (void)state;
    for (uint64_t i = 0; scene_phases[i] != CLUSTER_MESSAGE_COMMIT; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 450 + i, 4);
        struct rig_client *client = scene_stand_still(rig, scene_phases[i]);
        rig->now_ns += BASE_NS_PER_S;
        rig_run(rig, BASE_NS_PER_S);
        assert_false(client->reported);
        assert_true(rig_is_complete(rig));
        rig->now_ns += 2 * BASE_NS_PER_S;
        for (uint32_t j = 0; j < 4; j++)
            rig_node_give_up(rig, j);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_NODE_LOST);
        scene_says(client, "the coordinator stood still for");
        assert_true(rig_logged(rig, BASE_LOG_WARN, "stood still for "));
        assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
        memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
        scene_good_job(rig);
        rig_close(rig);
    }
}

/* A peer that says hello twice is thrown out as a whole: no node and no job of it stays behind. */
static void a_second_hello_throws_out(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 404, 4);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message hello;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    rig_client_say(rig, client, &hello);
    assert_true(rig_until(rig, rig_is_idle, 100 * BASE_NS_PER_MS));
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    scene_good_job(rig);
    client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    rig_node_say(rig, 2, &hello);
    assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_NODE_LOST);
    scene_says(client, "n3");
    rig_close(rig);
}

/* Who finds the queue full has not cancelled anything. */
/* A heartbeat connection carries beats: whoever says anything else there is no node of ours, however often it says it.
 */
static void a_heartbeat_connection_carries_beats_alone(void **state)
{
    (void)state;
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_LIST_NODES, CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_CANCEL};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 410 + i, 3);
        struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
        const struct cluster_message wrong = {.kind = kinds[i], .job = client->job};
        rig_peer_say(rig, rig->node[1].beat, &wrong);
        assert_int_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_NODE_LOST);
        scene_says(client, "n2");
        scene_says(client, cluster_message_name(kinds[i]));
        scene_says(client, "on its heartbeat connection");
        rig_close(rig);
    }
}

/* A heartbeat that beats for a control thread that hangs. */
static void a_hanging_control_thread_is_told_by_the_beats(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 408, 3);
    rig->node[1].mute[CLUSTER_MESSAGE_PREPARE] = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, 5 * BASE_NS_PER_S);
    assert_false(client->reported);
    rig->node[1].stuck_ns = CLUSTER_STUCK_NS;
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_NODE_LOST);
    scene_says(client, "n2");
    scene_says(client, "its control thread has not moved for 30 s");
    rig_close(rig);
}

/* A decision whose order cannot be sent now is carried out later; a node that cannot be released is lost; a client
 * whose answer cannot be sent is told why. */
static void an_answer_that_cannot_be_sent_ends_its_client(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 510, 3);
    const struct cluster_submit submit = rig_shuffle_out();
    rig->too_large[CLUSTER_MESSAGE_COMMIT] = true;
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    assert_false(client->reported);
    rig->too_large[CLUSTER_MESSAGE_COMMIT] = false;
    assert_int_equal(scene_await(rig, client, 5 * BASE_NS_PER_S), BASE_OK);
    const uint64_t first = rig->node[0].control;
    rig->too_large[CLUSTER_MESSAGE_RELEASE] = true;
    client = rig_submit(rig, &submit);
    (void)scene_await(rig, client, 5 * BASE_NS_PER_S);
    assert_true(rig->closed[first]);
    rig->too_large[CLUSTER_MESSAGE_RELEASE] = false;
    assert_true(rig_until(rig, rig_is_complete, 5 * BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_S);
    scene_good_job(rig);
    struct rig_client *asks = rig_client(rig);
    const struct cluster_message question = {.kind = CLUSTER_MESSAGE_LIST_NODES};
    rig->too_large[CLUSTER_MESSAGE_NODES] = true;
    rig_client_say(rig, asks, &question);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(asks->refused && rig->closed[asks->peer]);
    rig_close(rig);
}

/* A second node of a name is refused and the first goes on; a heartbeat of a stranger counts for nobody. */
static void strangers_are_refused(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 13, 3);
    strcpy(rig->node[2].name, "n1");
    const uint64_t before = rig->node[2].orders[CLUSTER_MESSAGE_WELCOME];
    rig_node_kill(rig, 2);
    rig_node_start(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(rig->node[2].orders[CLUSTER_MESSAGE_WELCOME], before);
    assert_int_not_equal(rig->node[0].control, 0);
    strcpy(rig->node[2].name, "n4"); /* another name, in the place of the one that left */
    assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
    scene_good_job(rig);
    rig_close(rig);
}

static void a_stop_ends_jobs_and_tells_nodes(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 14, 3);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    const struct cluster_action *actions;
    uint32_t count;
    struct base_error error;
    const struct cluster_event stop = {.kind = CLUSTER_EVENT_STOP};
    /* Not through the rig, which would have to know of it: only what follows is of interest. */
    assert_int_equal(cluster_coordinator_step(rig->coordinator, &stop, rig->now_ns, &actions, &count, &error), BASE_OK);
    assert_int_equal(count, 3); /* RELEASE to each */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(actions[i].message.kind, CLUSTER_MESSAGE_RELEASE);
    /* The nodes never answer: the bound holds all the same. */
    rig_node_stop(rig, 0);
    rig_node_stop(rig, 1);
    rig_node_stop(rig, 2);
    assert_int_equal(scene_await(rig, client, CLUSTER_REPORT_NS + BASE_NS_PER_MS), BASE_CANCELLED);
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_true(rig->stopped);
    rig_close(rig);
}

/* ---- random faults ---- */

static void random_fault(struct rig *rig)
{
    struct rig_node *node;
    const uint32_t i = (uint32_t)base_random_below(&rig->random, rig->node_count);
    node = &rig->node[i];
    const enum cluster_message_kind phase = scene_phases[base_random_below(&rig->random, SCENE_PHASES)];
    switch (base_random_below(&rig->random, 6)) {
    case 0:
        rig_node_kill(rig, i);
        break;
    case 1:
        rig_node_stop(rig, i);
        break;
    case 2:
        if (phase != CLUSTER_MESSAGE_RELEASE)
            node->fail_at[phase] = base_random_chance(&rig->random, 1, 2) ? BASE_PEER_RESET : BASE_NO_MEMORY;
        break;
    case 3:
        node->mute[phase] = true;
        break;
    case 4:
        if (rig->client_count > 0 && rig->client[rig->client_count - 1].peer)
            rig_client_leave(rig, &rig->client[rig->client_count - 1]);
        break;
    default:
        rig->latency_ns_max = base_random_below(&rig->random, 50 * BASE_NS_PER_MS);
        break;
    }
}

static void heal(struct rig *rig)
{
    rig->latency_ns_max = 200 * BASE_NS_PER_US;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        memset(rig->node[i].mute, 0, sizeof rig->node[i].mute);
        memset(rig->node[i].fail_at, 0, sizeof rig->node[i].fail_at);
        if (rig->node[i].dead)
            rig_node_start(rig, i);
        rig_node_continue(rig, i);
    }
}

static void random_run(uint64_t seed)
{
    struct rig *rig = scene_rig();
    scene_open(rig, seed, 2 + (uint32_t)(seed % 5));
    for (int job = 0; job < 6; job++) {
        const uint64_t kind = base_random_below(&rig->random, 5);
        const struct cluster_submit submit = kind < 2 ? rig_shuffle_out() : kind < 4 ? rig_join() : rig_bisect();
        rig_submit(rig, &submit);
        rig_run(rig, base_random_below(&rig->random, 3 * BASE_NS_PER_MS));
        for (uint64_t faults = base_random_below(&rig->random, 3); faults > 0; faults--) {
            random_fault(rig);
            rig_run(rig, base_random_below(&rig->random, 5 * BASE_NS_PER_MS));
        }
        /* A cluster that answers nothing at all stands still by right, until its client leaves. */
        struct rig_client *client = &rig->client[rig->client_count - 1];
        rig_run(rig, 200 * BASE_NS_PER_MS);
        if (client->peer && !client->reported)
            rig_client_leave(rig, client);
        bool stuck = false;
        for (uint32_t i = 0; i < rig->node_count; i++)
            stuck |= rig->node[i].mute[CLUSTER_MESSAGE_RELEASE];
        if (!rig_until(rig, rig_is_idle, stuck ? CLUSTER_RELEASE_NS + BASE_NS_PER_S : SCENE_FREE_NS)) {
            /* Past its decision a job waits for nodes that do not answer: only their loss or their answer ends it. */
            assert_true(rig->recorded != 0);
            heal(rig);
            for (uint32_t i = 0; i < rig->node_count; i++) {
                rig_node_kill(rig, i);
                rig_node_start(rig, i);
            }
            assert_true(rig_until(rig, rig_is_idle, SCENE_FREE_NS));
        }
        heal(rig);
        rig_run(rig, 2 * BASE_NS_PER_S);
        assert_true(rig_is_complete(rig));
        scene_all_free(rig);
    }
    scene_good_job(rig);
    for (uint64_t job = 1; job < 10; job++)
        for (uint32_t i = 0; rig->forgotten[job] && i < rig->node_count; i++)
            assert_true(rig->node[i].published[job]);
    rig_close(rig);
}

static uint64_t running_seed;

static void random_faults_leave_a_cluster_that_works(void **state)
{
    (void)state;
    const char *one = getenv("MILLRACE_SEED");
    if (one) {
        random_run(strtoull(one, NULL, 0));
        return;
    }
    for (running_seed = 1000; running_seed < 1400; running_seed++)
        random_run(running_seed);
    running_seed = 0;
}

static int tell_seed(void **state)
{
    (void)state;
    if (running_seed)
        print_message("failed with MILLRACE_SEED=%" PRIu64 "\n", running_seed);
    return 0;
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_coordinators_do_not_meet),
        cmocka_unit_test(a_pause_of_the_coordinator_is_no_nodes_fault),
        cmocka_unit_test(a_second_hello_throws_out),
        cmocka_unit_test(a_heartbeat_connection_carries_beats_alone),
        cmocka_unit_test(a_hanging_control_thread_is_told_by_the_beats),
        cmocka_unit_test(an_answer_that_cannot_be_sent_ends_its_client),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(a_stop_ends_jobs_and_tells_nodes),
        cmocka_unit_test_teardown(random_faults_leave_a_cluster_that_works, tell_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
