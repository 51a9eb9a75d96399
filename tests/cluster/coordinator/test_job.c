/* A job's phases: what it takes to run one, and how it ends early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/log.h"
#include "tests/cluster/coordinator/scene.h"

static void a_join_lends_every_morsel_to_one_node(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 1, 6);
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    const struct cluster_report *report = &client->report.report;
    assert_int_equal(report->sum.task.rows, 60);
    assert_int_equal(report->node_count, 6);
    assert_int_equal(report->workers, 6);
    assert_string_equal(report->node[5].name, "n6");
    assert_int_equal(report->link[5 * 6 + 0], 7);
    assert_int_equal(report->sum.bytes_sent, 6 * 7);
    assert_int_equal(rig->recorded, 0);
    /* Every morsel was lent to exactly one node, and no node had all. */
    const uint64_t count[2] = {48, 80};
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t lent = 0;
        for (uint32_t i = 0; i < 6; i++) {
            assert_true(rig->node[i].lent[side] > 0);
            lent += rig->node[i].lent[side];
        }
        assert_int_equal(lent, count[side]);
    }
    scene_all_free(rig);
    rig_close(rig);
}

static void lose_in_phase(enum cluster_message_kind phase, bool kill, uint64_t seed)
{
    struct rig *rig = scene_rig();
    scene_open(rig, seed, 4);
    struct rig_client *client = scene_stand_still(rig, phase);
    const uint64_t fault_ns = rig->now_ns;
    if (kill)
        rig_node_kill(rig, 2);
    else
        rig_node_stop(rig, 2);
    const enum base_status status = scene_await(rig, client, SCENE_LOST_NS);
    /* What was done before the loss stays done. */
    if (phase == CLUSTER_MESSAGE_RELEASE) {
        assert_int_equal(status, BASE_OK);
    } else {
        assert_int_equal(status, BASE_NODE_LOST);
        scene_says(client, "n3");
    }
    assert_true(rig->now_ns - fault_ns <= SCENE_LOST_NS);
    assert_true(rig_until(rig, rig_is_idle, SCENE_FREE_NS - (rig->now_ns - fault_ns)));
    rig_run(rig, 5 * BASE_NS_PER_MS);
    scene_all_free(rig);
    const bool decided = rig->decided[client->job];
    assert_true(
        rig_logged(rig, BASE_LOG_WARN, kill ? "node n3 is lost: its process ended" : "node n3 is lost: it was silent"));
    assert_int_equal(rig_logged(rig, BASE_LOG_WARN, "job 1 ended after"), status != BASE_OK);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2 && status != BASE_OK)
            assert_int_equal(rig->node[i].aborted[client->job], !decided);
    /* The next job fails at once and names who is missing. */
    const struct cluster_submit submit = rig_join();
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, next, 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    scene_says(next, "n3");
    /* When the node is back, jobs run again, and a decision is carried out. */
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    if (kill)
        rig_node_start(rig, 2);
    else
        rig_node_continue(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    if (decided) {
        assert_true(rig->node[2].published[client->job]);
        assert_true(rig->forgotten[client->job]);
    }
    scene_good_job(rig);
    rig_close(rig);
}

static void a_node_is_lost_in_every_phase(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SCENE_PHASES; i++)
        lose_in_phase(scene_phases[i], true, 100 + i);
}

static void a_node_falls_silent_in_every_phase(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < SCENE_PHASES; i++)
        lose_in_phase(scene_phases[i], false, 200 + i);
}

static void a_job_is_cancelled_in_every_phase(void **state)
{
    (void)state;
    for (uint32_t i = 0; scene_phases[i] != CLUSTER_MESSAGE_COMMIT; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 300 + i, 4);
        struct rig_client *client = scene_stand_still(rig, scene_phases[i]);
        struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
        rig_client_say(rig, rig_client(rig), &cancel);
        assert_int_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_CANCELLED);
        assert_true(rig_is_idle(rig));
        scene_all_free(rig);
        memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
        scene_good_job(rig);
        rig_close(rig);
    }
}

static void a_node_fails_in_every_phase(void **state)
{
    (void)state;
    for (uint32_t i = 0; scene_phases[i] != CLUSTER_MESSAGE_RELEASE; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 400 + i, 4);
        const bool out = scene_is_output(scene_phases[i]);
        const struct cluster_submit submit = out ? rig_shuffle_out() : rig_join();
        rig->node[1].fail_at[scene_phases[i]] = BASE_NO_SPACE;
        struct rig_client *client = rig_submit(rig, &submit);
        const bool decided = scene_phases[i] == CLUSTER_MESSAGE_COMMIT || scene_phases[i] == CLUSTER_MESSAGE_PUBLISH;
        const uint64_t bound_ns = decided ? CLUSTER_PATIENCE_NS : 0; /* it is tried again first */
        assert_int_equal(scene_await(rig, client, bound_ns + 100 * BASE_NS_PER_MS), BASE_NO_SPACE);
        scene_says(client, "n2");
        if (scene_phases[i] == CLUSTER_MESSAGE_START) /* what was done until then is told */
            assert_int_equal(client->report.report.sum.task.rows_scanned, 4 * RIG_ROWS_SCANNED);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        scene_all_free(rig);
        memset(rig->node[1].fail_at, 0, sizeof rig->node[1].fail_at);
        scene_good_job(rig);
        rig_close(rig);
    }
}

/* A node that has finished its share says that what it sent is not acknowledged: others wait for it. */
static void a_cut_path_fails_those_who_wait(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 9, 4);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_LEND);
    struct cluster_message broken = {.kind = CLUSTER_MESSAGE_BROKEN, .job = client->job};
    base_error_set(&broken.broken.error, BASE_TIMEOUT, "the path to node n3 is broken");
    rig_node_say(rig, 0, &broken);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_TIMEOUT);
    scene_says(client, "node n1: the path to node n3 is broken");
    rig_close(rig);
}

/* All rows have arrived: a path that breaks now is nothing to the job, least of all a failure to publish. */
static void a_cut_path_is_nothing_to_a_job_that_ends(void **state)
{
    (void)state;
    static const enum cluster_message_kind late[] = {CLUSTER_MESSAGE_STAGE, CLUSTER_MESSAGE_COMMIT,
                                                     CLUSTER_MESSAGE_PUBLISH, CLUSTER_MESSAGE_RELEASE};
    for (uint32_t i = 0; i < sizeof late / sizeof *late; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 500 + i, 4);
        struct rig_client *client = scene_stand_still(rig, late[i]);
        struct cluster_message broken = {.kind = CLUSTER_MESSAGE_BROKEN, .job = client->job};
        base_error_set(&broken.broken.error, BASE_TIMEOUT, "the path to node n3 is broken");
        rig_node_say(rig, 0, &broken);
        rig_run(rig, 10 * BASE_NS_PER_MS);
        assert_false(client->reported);
        rig->node[2].mute[late[i]] = false;
        struct cluster_message done = {.kind = late[i] == CLUSTER_MESSAGE_STAGE     ? CLUSTER_MESSAGE_STAGED
                                               : late[i] == CLUSTER_MESSAGE_COMMIT  ? CLUSTER_MESSAGE_COMMITTED
                                               : late[i] == CLUSTER_MESSAGE_PUBLISH ? CLUSTER_MESSAGE_PUBLISHED
                                                                                    : CLUSTER_MESSAGE_CLOSED,
                                       .job = client->job,
                                       .step = {.step = CLUSTER_STEP_CLOSED}};
        rig->node[2].committed[client->job] = true;
        rig_node_say(rig, 2, &done);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
        rig_close(rig);
    }
}

/* What a node says of an earlier job changes nothing. */
static void late_messages_are_dropped(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 9, 4);
    scene_good_job(rig);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_CONNECT);
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_FAILED,    CLUSTER_MESSAGE_CLOSED,
                                                      CLUSTER_MESSAGE_LOW,       CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_COMMITTED, CLUSTER_MESSAGE_NODE_PROGRESS};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cluster_message late = {.kind = kinds[i], .job = client->job - 1};
        rig_node_say(rig, 2, &late);
    }
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_false(client->reported);
    rig->node[2].mute[CLUSTER_MESSAGE_CONNECT] = false;
    struct cluster_message connected = {
        .kind = CLUSTER_MESSAGE_STEP, .job = client->job, .step = {.step = CLUSTER_STEP_CONNECTED}};
    rig_node_say(rig, 2, &connected);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    rig_close(rig);
}

static void an_answer_out_of_turn_fails_the_job(void **state)
{
    (void)state;
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_CLOSED, CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_SURVEYED, CLUSTER_MESSAGE_RESOLVED};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 500 + i, 4);
        struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_PREPARE);
        struct cluster_message wrong;
        memset(&wrong, 0, sizeof wrong);
        wrong.kind = kinds[i];
        wrong.job = client->job;
        if (kinds[i] == CLUSTER_MESSAGE_STEP)
            wrong.step.step = CLUSTER_STEP_SEALED;
        char *path;
        struct base_error error;
        if (kinds[i] == CLUSTER_MESSAGE_RESOLVED) {
            wrong.resolved.relation_count = 1;
            shuffle_relation_parse("gen:rows=1,row=16", &wrong.resolved.relation[0], &path, &error);
        }
        rig_node_say(rig, 2, &wrong);
        shuffle_relation_free(&wrong.resolved.relation[0]);
        assert_int_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_PROTOCOL);
        scene_says(client, "n3");
        rig_close(rig);
    }
}

/* An order that cannot be sent fails its job with the reason, loses no node, and the next job runs. */
static void an_order_too_large_fails_the_job(void **state)
{
    (void)state;
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_RESOLVE, CLUSTER_MESSAGE_PREPARE,
                                                       CLUSTER_MESSAGE_CONNECT, CLUSTER_MESSAGE_START,
                                                       CLUSTER_MESSAGE_STAGE};
    for (uint32_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 500 + i, 3);
        rig->too_large[orders[i]] = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_TOO_LARGE);
        assert_string_equal(client->report.report.error.text, "too many files");
        rig->too_large[orders[i]] = false;
        for (uint32_t n = 0; n < 3; n++)
            assert_false(rig->closed[rig->node[n].control]);
        scene_all_free(rig);
        scene_good_job(rig);
        rig_close(rig);
    }
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_lends_every_morsel_to_one_node),
        cmocka_unit_test(a_node_is_lost_in_every_phase),
        cmocka_unit_test(a_node_falls_silent_in_every_phase),
        cmocka_unit_test(a_job_is_cancelled_in_every_phase),
        cmocka_unit_test(a_node_fails_in_every_phase),
        cmocka_unit_test(a_cut_path_fails_those_who_wait),
        cmocka_unit_test(a_cut_path_is_nothing_to_a_job_that_ends),
        cmocka_unit_test(late_messages_are_dropped),
        cmocka_unit_test(an_answer_out_of_turn_fails_the_job),
        cmocka_unit_test(an_order_too_large_fails_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
