/* How long a job waits for its nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/log.h"
#include "tests/cluster/coordinator/scene.h"

/* A node that is alive but does not let go of its job is taken for lost, so that the next job can run. */
static void a_node_that_holds_on_is_lost(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 8, 4);
    rig->node[2].mute[CLUSTER_MESSAGE_RELEASE] = true;
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_CONNECT);
    struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
    rig_client_say(rig, rig_client(rig), &cancel);
    assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_CANCELLED);
    assert_true(client->report.report.spans.release_seconds > 0.5); /* told before all let go, and counted so far */
    /* Another job waits for it, not longer than the bound. */
    const struct cluster_submit submit = rig_join();
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, next, CLUSTER_RELEASE_NS), BASE_NODE_MISSING);
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(rig_is_complete(rig));
    scene_good_job(rig);
    rig_close(rig);
}

/* A node whose heart beats but whose control thread hangs (in a file system, say) does not hold a job for ever, also
 * where the job can no longer be cancelled. */
static void hang_in_phase(enum cluster_message_kind phase, uint64_t bound_ns, uint64_t seed)
{
    struct rig *rig = scene_rig();
    scene_open(rig, seed, 4);
    struct rig_client *client = scene_stand_still(rig, phase);
    const uint64_t told_ns = rig->now_ns;
    assert_int_equal(scene_await(rig, client, bound_ns + BASE_NS_PER_S), BASE_NODE_LOST);
    scene_says(client, "n3");
    assert_true(client->reported_ns + BASE_NS_PER_S >= told_ns + bound_ns); /* and not before its time */
    assert_true(rig_until(rig, rig_is_idle, CLUSTER_RELEASE_NS + BASE_NS_PER_S));
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(rig_is_complete(rig));
    if (rig->decided[client->job])
        assert_true(rig->forgotten[client->job]);
    scene_good_job(rig);
    rig_close(rig);
}

static void a_hung_node_is_lost(void **state)
{
    (void)state;
    hang_in_phase(CLUSTER_MESSAGE_RESOLVE, CLUSTER_RESOLVE_NS, 400);
    hang_in_phase(CLUSTER_MESSAGE_PREPARE, CLUSTER_PREPARE_NS, 403);
    hang_in_phase(CLUSTER_MESSAGE_CONNECT, CLUSTER_CONNECT_NS, 404);
    hang_in_phase(CLUSTER_MESSAGE_STAGE, CLUSTER_COMMIT_NS, 405);
    hang_in_phase(CLUSTER_MESSAGE_COMMIT, CLUSTER_COMMIT_NS, 401);
    hang_in_phase(CLUSTER_MESSAGE_PUBLISH, CLUSTER_COMMIT_NS, 402);
}

/* Who stops the coordinator does not wait for a node that hangs while committing. */
static void a_stop_waits_less_for_a_commit(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 403, 3);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_COMMIT);
    const struct cluster_action *actions;
    uint32_t count;
    struct base_error error;
    const struct cluster_event stop = {.kind = CLUSTER_EVENT_STOP};
    assert_int_equal(cluster_coordinator_step(rig->coordinator, &stop, rig->now_ns, &actions, &count, &error), BASE_OK);
    assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_NODE_LOST);
    rig_run(rig, SCENE_LOST_NS);
    assert_true(rig->stopped);
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_holds_on_is_lost),
        cmocka_unit_test(a_hung_node_is_lost),
        cmocka_unit_test(a_stop_waits_less_for_a_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
