/* Decisions: recorded, carried out, repeated, given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "tests/cluster/coordinator/scene.h"

static void a_result_is_published_on_all_nodes(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 3, 4);
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig->node[i].published[client->job]);
    assert_true(rig->decided[client->job]);
    assert_true(rig->forgotten[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_INFO, "node n4 has connected: 1 worker"));
    assert_true(rig_logged(rig, BASE_LOG_INFO, "job 1 succeeded in"));
    rig_close(rig);
}

static bool was_asked_to_record(struct rig *rig)
{
    return rig->records > 0;
}

/* A disk that takes its time, for longer than a node may keep silent: nobody is lost meanwhile. One that takes too long
 * is told of, and what it did is known when it answers. */
static void slow_disk(uint64_t seed, uint64_t disk_ns, enum base_status status)
{
    struct rig *rig = scene_rig();
    scene_open(rig, seed, 4);
    rig->record_late = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until(rig, was_asked_to_record, BASE_NS_PER_S));
    rig_run(rig, disk_ns);
    assert_true(rig_is_complete(rig));
    assert_int_equal(client->reported, status != BASE_OK);
    rig_recorded(rig);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), status);
    if (status != BASE_OK)
        scene_says(client, "disk does not answer");
    rig_run(rig, BASE_NS_PER_S);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig->node[i].published[client->job]);
    rig->record_late = false;
    scene_good_job(rig);
    rig_close(rig);
}

static void a_slow_disk_costs_no_node(void **state)
{
    (void)state;
    slow_disk(460, 20 * BASE_NS_PER_S, BASE_OK);
    slow_disk(461, CLUSTER_COMMIT_NS + 2 * BASE_NS_PER_S, BASE_IO);
}

static void a_decision_that_is_not_recorded_aborts(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 4, 3);
    rig->record_status = BASE_NO_SPACE;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_NO_SPACE);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(rig->node[i].committed[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "the decision of job 1 is not recorded: disk full"));
    scene_all_free(rig);
    rig_close(rig);
}

/* A node whose output is durable but heard no decision asks; there was none, so it is told to abort. */
static void a_doubt_is_resolved(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 15, 3);
    rig->node[0].mute[CLUSTER_MESSAGE_STAGE] = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, 0, CLUSTER_MESSAGE_STAGE, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_true(rig->node[2].staged);
    rig_node_stop(rig, 2); /* loses its connection while finished */
    assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_NODE_LOST);
    cluster_message_free(&client->report);
    client->reported = false;
    client->peer = 0;
    rig_node_continue(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(rig->node[2].doubt_count, 0);
    assert_true(rig->node[2].aborted[client->job]);
    rig_close(rig);
}

/* A decision from an earlier life of the coordinator is carried out when its nodes are here. */
static void decisions_of_an_earlier_life_are_carried_out(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    rig_open(rig, 16, 2, 2);
    struct shuffle_node nodes[2] = {{"n1", 0, 1}, {"n2", 1, 1}};
    const struct cluster_decision decision = {.job = 77,
                                              .out = "/nowhere/out",
                                              .extension = "csv",
                                              .files = "job-77",
                                              .text = "{}",
                                              .node_count = 2,
                                              .node = nodes};
    struct base_error error;
    assert_int_equal(cluster_coordinator_restore(rig->coordinator, &decision, &error), BASE_OK);
    rig->decided[77] = true;
    rig->node[1].doubt[rig->node[1].doubt_count++] = 77;
    rig_node_start(rig, 0);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_true(rig->node[0].committed[77]);
    assert_false(rig->node[0].published[77]);
    rig_node_start(rig, 1);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_true(rig->node[0].published[77] && rig->node[1].published[77]);
    assert_true(rig->forgotten[77]);
    assert_int_equal(rig->node[1].doubt_count, 0);
    rig_close(rig);
}

/* A decided job's node has no room for what comes last. The client hears of it; then it is done without anybody's help,
 * as soon as there is room. */
static void publication_is_tried_again(void **state)
{
    (void)state;
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_COMMIT, CLUSTER_MESSAGE_PUBLISH};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 20 + i, 3);
        rig->node[1].fail_at[orders[i]] = BASE_NO_SPACE;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(scene_await(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NO_SPACE);
        scene_says(client, "n2");
        scene_says(client, "completed as soon as");
        assert_true(rig_logged(rig, BASE_LOG_ERROR, "node n2 cannot publish its share of job 1: "));
        rig->logged = 0;
        scene_good_job(rig);
        rig_run(rig, 100 * BASE_NS_PER_S);
        assert_true(rig->node[1].orders[orders[i]] > 3 && rig->node[1].orders[orders[i]] < 16);
        assert_false(rig_logged(rig, BASE_LOG_ERROR, "cannot publish")); /* once, not at every retry */
        assert_false(rig->forgotten[client->job]);
        rig->node[1].fail_at[orders[i]] = BASE_OK;
        rig_run(rig, 31 * BASE_NS_PER_S);
        for (uint32_t n = 0; n < 3; n++)
            assert_true(rig->node[n].published[client->job]);
        assert_true(rig->forgotten[client->job]);
        rig_close(rig);
    }
    /* Room comes while the client waits: it hears of nothing. */
    struct rig *rig = scene_rig();
    scene_open(rig, 22, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NO_SPACE;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_OK;
    assert_int_equal(scene_await(rig, client, CLUSTER_PATIENCE_NS), BASE_OK);
    rig_close(rig);
}

/* One node does not find the directory, as when its disk is not mounted yet: the decision stands. Only when for an hour
 * none finds it, nobody needs it any more. */
static void a_directory_that_nobody_finds_for_an_hour_is_given_up(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 23, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NOT_FOUND);
    rig_run(rig, 2 * CLUSTER_GONE_NS);
    assert_false(rig->forgotten[client->job]);
    for (uint32_t i = 0; i < 3; i++)
        rig->node[i].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    rig_run(rig, CLUSTER_GONE_NS - BASE_NS_PER_S);
    assert_false(rig->forgotten[client->job]);
    rig_run(rig, UINT64_C(120) * BASE_NS_PER_S);
    assert_true(rig->forgotten[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "the result of job 1 is given up: no node has found /"));
    rig_close(rig);
}

/* The same when some had published already: the directory was removed before the last one came to it. */
static void a_published_directory_may_be_removed(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 27, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_PUBLISH] = BASE_NOT_FOUND;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NOT_FOUND);
    assert_true(rig->node[0].published[client->job] && rig->node[2].published[client->job]);
    rig_run(rig, 2 * CLUSTER_GONE_NS); /* the others find it */
    assert_false(rig->forgotten[client->job]);
    for (uint32_t i = 0; i < 3; i++)
        rig->node[i].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    rig_run(rig, CLUSTER_GONE_NS + UINT64_C(120) * BASE_NS_PER_S);
    assert_true(rig->forgotten[client->job]);
    rig_close(rig);
}

/* Whether the decision is on disk is not known: nobody touches the parts until it is. */
static void a_record_of_unknown_outcome_is_repeated(void **state)
{
    (void)state;
    for (uint32_t in_the_end = 0; in_the_end < 2; in_the_end++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 24 + in_the_end, 3);
        rig->record_status = BASE_IO;
        rig->record_unknown = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_IO);
        rig_run(rig, 10 * BASE_NS_PER_S);
        assert_true(rig_logged(rig, BASE_LOG_ERROR, "whether the decision of job 1 is on disk is not known"));
        assert_true(rig->records > 3);
        rig_node_stop(rig, 2); /* it asks, and is not answered yet */
        rig_run(rig, 2 * BASE_NS_PER_S);
        rig_node_continue(rig, 2);
        rig_run(rig, BASE_NS_PER_S);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(rig->node[i].doubt_count, 1);
            assert_false(rig->node[i].committed[client->job]);
        }
        rig->record_unknown = false;
        rig->record_status = in_the_end ? BASE_OK : BASE_NO_SPACE;
        rig_run(rig, 5 * BASE_NS_PER_S);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(rig->node[i].doubt_count, 0);
            assert_true(in_the_end ? rig->node[i].published[client->job] : rig->node[i].aborted[client->job]);
        }
        assert_int_equal(rig->forgotten[client->job], in_the_end);
        rig->record_status = BASE_OK;
        scene_good_job(rig);
        rig_close(rig);
    }
}

/* A disk takes its time; a node is lost meanwhile, and its job over. What is said of the decision then holds. */
/* Several decisions of which nobody knows whether they are on disk: each step asks for one, and all are asked for. */
static void a_step_asks_for_one_record(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 28, 3);
    rig->record_status = BASE_IO;
    rig->record_unknown = true;
    struct rig_client *client[3];
    const struct cluster_submit submit = rig_shuffle_out();
    for (int i = 0; i < 3; i++) {
        client[i] = rig_submit(rig, &submit);
        assert_int_equal(scene_await(rig, client[i], BASE_NS_PER_S), BASE_IO);
    }
    rig_run(rig, 10 * BASE_NS_PER_S);
    rig->record_status = BASE_OK;
    for (struct coordinator_pending *pending = rig->coordinator->pending; pending; pending = pending->next)
        pending->record_ns = rig->now_ns; /* all are due at once */
    rig_run(rig, 5 * BASE_NS_PER_S);
    for (int i = 0; i < 3; i++) {
        assert_true(rig->node[0].published[client[i]->job]);
        assert_true(rig->forgotten[client[i]->job]);
    }
    assert_int_equal(rig->records_in_step_max, 1);
    rig_close(rig);
}

static void a_late_record_stands(void **state)
{
    (void)state;
    for (uint32_t recorded = 0; recorded < 2; recorded++) {
        struct rig *rig = scene_rig();
        scene_open(rig, 26 + recorded, 3);
        rig->record_late = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_true(rig_until_told(rig, 2, CLUSTER_MESSAGE_STAGE, BASE_NS_PER_S));
        rig_run(rig, 10 * BASE_NS_PER_MS);
        rig_node_kill(rig, 2);
        assert_int_equal(scene_await(rig, client, SCENE_LOST_NS), BASE_NODE_LOST);
        assert_true(rig_until(rig, rig_is_idle, SCENE_FREE_NS));
        rig_run(rig, BASE_NS_PER_S);
        assert_int_equal(rig->node[0].doubt_count, 1);
        rig->decided[client->job] = recorded;
        rig->record_status = recorded ? BASE_OK : BASE_NO_SPACE;
        rig_recorded(rig);
        rig_node_start(rig, 2);
        rig_run(rig, BASE_NS_PER_S);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(rig->node[i].doubt_count, 0);
            assert_true(recorded ? rig->node[i].published[client->job] : rig->node[i].aborted[client->job]);
        }
        assert_int_equal(rig->node[2].published[client->job], recorded);
        assert_int_equal(rig->forgotten[client->job], recorded);
        rig_close(rig);
    }
}

/* A node asks for as many jobs as it has in doubt. */
static void many_doubts_are_resolved(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    rig_open(rig, 28, 2, 2);
    for (uint64_t job = 50; job < 60; job++)
        rig->node[1].doubt[rig->node[1].doubt_count++] = job;
    rig_node_start(rig, 0);
    rig_node_start(rig, 1);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_int_equal(rig->node[1].doubt_count, 0);
    for (uint64_t job = 50; job < 60; job++)
        assert_true(rig->node[1].aborted[job]);
    rig_close(rig);
}

/* Nodes that say PUBLISHED instead of COMMITTED have not done what nobody ordered yet: they are told to commit again,
 * and the job ends. */
static void published_before_committed_is_refused(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 29, 2);
    rig->node[0].mute[CLUSTER_MESSAGE_COMMIT] = rig->node[1].mute[CLUSTER_MESSAGE_COMMIT] = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, 0, CLUSTER_MESSAGE_COMMIT, BASE_NS_PER_S));
    rig_run(rig, 50 * BASE_NS_PER_MS);
    assert_int_equal(rig->node[1].orders[CLUSTER_MESSAGE_COMMIT], 1);
    const struct cluster_message early = {.kind = CLUSTER_MESSAGE_PUBLISHED, .job = client->job};
    for (uint32_t i = 0; i < 2; i++) {
        rig_node_say(rig, i, &early);
        rig->node[i].mute[CLUSTER_MESSAGE_COMMIT] = false;
    }
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(rig->node[i].committed[client->job] && rig->node[i].published[client->job]);
    assert_true(rig->forgotten[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "it sent PUBLISHED before all nodes committed"));
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_is_published_on_all_nodes),
        cmocka_unit_test(a_slow_disk_costs_no_node),
        cmocka_unit_test(a_decision_that_is_not_recorded_aborts),
        cmocka_unit_test(a_doubt_is_resolved),
        cmocka_unit_test(decisions_of_an_earlier_life_are_carried_out),
        cmocka_unit_test(publication_is_tried_again),
        cmocka_unit_test(a_directory_that_nobody_finds_for_an_hour_is_given_up),
        cmocka_unit_test(a_published_directory_may_be_removed),
        cmocka_unit_test(a_record_of_unknown_outcome_is_repeated),
        cmocka_unit_test(a_step_asks_for_one_record),
        cmocka_unit_test(a_late_record_stands),
        cmocka_unit_test(many_doubts_are_resolved),
        cmocka_unit_test(published_before_committed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
