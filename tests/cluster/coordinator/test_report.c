/* What the coordinator tells of jobs and nodes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/build.h"
#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "tests/cluster/coordinator/scene.h"

static void ask(struct rig *rig, enum cluster_message_kind kind, struct rig_client *client)
{
    const struct cluster_message message = {.kind = kind};
    rig_client_say(rig, client, &message);
    rig_run(rig, 2 * BASE_NS_PER_MS);
}

static void the_list_of_nodes_says_who_runs_and_who_is_missing(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 700, 4);
    scene_stand_still(rig, CLUSTER_MESSAGE_START);
    struct rig_client *client = rig_client(rig);
    ask(rig, CLUSTER_MESSAGE_LIST_NODES, client);
    assert_int_equal(client->list.kind, CLUSTER_MESSAGE_NODES);
    const struct cluster_nodes *nodes = &client->list.nodes;
    assert_int_equal(nodes->nodes_expected, 4);
    assert_int_equal(nodes->count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(nodes->entry[i].name, rig->node[i].name);
        assert_int_equal(nodes->entry[i].state, CLUSTER_NODE_RUNNING);
        assert_int_equal(nodes->entry[i].workers, 1);
        assert_string_equal(nodes->entry[i].build, base_build_id());
    }
    rig_node_kill(rig, 1);
    rig_run(rig, SCENE_LOST_NS);
    ask(rig, CLUSTER_MESSAGE_LIST_NODES, client);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(client->list.nodes.entry[i].state, i == 1 ? CLUSTER_NODE_MISSING : CLUSTER_NODE_IDLE);
    assert_true(client->list.nodes.entry[1].seconds > 1.0);
    rig_close(rig);
}

static void the_list_of_jobs_says_how_they_ended(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 701, 3);
    scene_good_job(rig);
    struct cluster_submit wrong = rig_join();
    wrong.source[0].text = "gen:nonsense";
    scene_await(rig, rig_submit(rig, &wrong), BASE_NS_PER_S);
    scene_stand_still(rig, CLUSTER_MESSAGE_START);
    const struct cluster_submit submit = rig_shuffle_out();
    rig_submit(rig, &submit);
    rig_run(rig, 2 * BASE_NS_PER_MS);
    struct rig_client *client = rig_client(rig);
    ask(rig, CLUSTER_MESSAGE_LIST_JOBS, client);
    assert_int_equal(client->list.kind, CLUSTER_MESSAGE_JOBS);
    const struct cluster_jobs *jobs = &client->list.jobs;
    static const enum cluster_job_state states[] = {CLUSTER_JOB_SUCCEEDED, CLUSTER_JOB_FAILED, CLUSTER_JOB_RUNNING,
                                                    CLUSTER_JOB_QUEUED};
    assert_int_equal(jobs->count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(jobs->entry[i].job, i + 1);
        assert_int_equal(jobs->entry[i].state, states[i]);
    }
    assert_int_equal(jobs->entry[0].rows, 30);
    assert_string_equal(jobs->entry[0].words, "join gen:rows=300000,row=16 gen:rows=500000,row=16 on key=key");
    assert_string_equal(jobs->entry[0].error, "");
    assert_true(strlen(jobs->entry[1].error) > 0);
    assert_int_equal(jobs->entry[2].phase, CLUSTER_PHASE_BUILD);
    assert_string_equal(jobs->entry[3].words, "shuffle gen:rows=300000,row=16 by key");
    rig_close(rig);
}

/* The oldest make room. */
static void the_list_of_jobs_has_an_end(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 702, 2);
    struct cluster_submit wrong = rig_join();
    wrong.source[0].text = "gen:nonsense";
    struct rig_client *client = rig_client(rig);
    for (uint32_t i = 0; i < COORDINATOR_HISTORY_MAX + 5; i++) {
        const struct cluster_message message = {.kind = CLUSTER_MESSAGE_SUBMIT, .submit = wrong};
        rig_client_say(rig, client, &message);
        scene_await(rig, client, BASE_NS_PER_S);
        cluster_message_free(&client->report);
        client->reported = false;
    }
    ask(rig, CLUSTER_MESSAGE_LIST_JOBS, client);
    assert_int_equal(client->list.jobs.count, COORDINATOR_HISTORY_MAX);
    assert_int_equal(client->list.jobs.entry[0].job, 6);
    rig_close(rig);
}

/* Every phase's time is somewhere, and nowhere twice. */
static void spans_add_up_to_the_whole(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 703, 3);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_CONNECT);
    rig_run(rig, 3 * BASE_NS_PER_S);
    const struct cluster_message connected = {
        .kind = CLUSTER_MESSAGE_STEP, .job = client->job, .step = {.step = CLUSTER_STEP_CONNECTED}};
    rig_node_say(rig, 2, &connected);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    const struct cluster_report *report = &client->report.report;
    double sum = 0;
#define X(name) sum += report->spans.name##_seconds;
    CLUSTER_SPAN_LIST(X)
#undef X
    sum -= report->spans.queued_seconds;
    assert_true(report->spans.connect_seconds > 2.9);
    assert_true(sum > report->seconds - 1e-6 && sum < report->seconds + 1e-6);
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_nodes_says_who_runs_and_who_is_missing),
        cmocka_unit_test(the_list_of_jobs_says_how_they_ended),
        cmocka_unit_test(the_list_of_jobs_has_an_end),
        cmocka_unit_test(spans_add_up_to_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
