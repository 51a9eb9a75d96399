/* Who waits, who may not, and under which number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "tests/cluster/coordinator/scene.h"

static void a_client_that_leaves_cancels_its_jobs(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 5, 4);
    struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_START);
    const struct cluster_submit submit = rig_join();
    struct rig_client *queued = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_MS);
    rig_client_leave(rig, queued);
    rig_client_leave(rig, client);
    assert_true(rig_until(rig, rig_is_idle, 100 * BASE_NS_PER_MS));
    assert_int_equal(rig->jobs_run, 1); /* the queued one never ran */
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    scene_good_job(rig);
    rig_close(rig);
}

static void a_full_queue_refuses(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 405, 3);
    scene_stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message message;
    struct rig_client *one = rig_client(rig);
    for (uint32_t i = 0; i < 256; i++) {
        memset(&message, 0, sizeof message);
        message.kind = CLUSTER_MESSAGE_SUBMIT;
        message.submit = rig_join();
        rig_client_say(rig, one, &message);
    }
    rig_run(rig, 10 * BASE_NS_PER_MS);
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_BUSY);
    assert_int_equal(cluster_exit_code(BASE_BUSY), 1);
    rig_close(rig);
}

static void jobs_run_in_their_order(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 10, 3);
    const struct cluster_submit submit = rig_join();
    struct rig_client *clients[8];
    for (int i = 0; i < 8; i++)
        clients[i] = rig_submit(rig, &submit);
    for (int i = 0; i < 8; i++)
        assert_int_equal(scene_await(rig, clients[i], 5 * BASE_NS_PER_S), BASE_OK);
    assert_int_equal(rig->jobs_run, 8);
    rig_close(rig);
}

static void a_bad_request_runs_nowhere(void **state)
{
    (void)state;
    static const struct {
        const char *source, *on;
        const char *word;
    } bad[] = {{"gen:rows=1000,row=16", "kay=key", "kay"}, {"gen:rows=many,row=16", "key=key", "many"}};
    struct rig *rig = scene_rig();
    scene_open(rig, 11, 3);
    for (uint32_t i = 0; i < 2; i++) {
        struct cluster_submit submit = rig_join();
        submit.source[0].text = (char *)(uintptr_t)bad[i].source;
        submit.on = (char *)(uintptr_t)bad[i].on;
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_not_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_OK);
        assert_true(client->report.report.bad_request);
        scene_says(client, bad[i].word);
    }
    scene_good_job(rig);
    rig_close(rig);
}

static void an_incomplete_cluster_runs_nothing(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    rig_open(rig, 12, 3, 3);
    const struct cluster_submit submit = rig_join();
    assert_int_equal(scene_await(rig, rig_submit(rig, &submit), 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    rig_node_start(rig, 0);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    scene_says(client, "1 of 3");
    rig_close(rig);
}

/* Numbers beyond the block that was reserved are the next start's: the coordinator takes another block in time. */
static void numbers_are_reserved_in_time(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 29, 2);
    rig->coordinator->job_end = rig->coordinator->job_next + 2;
    rig->reserve_status = BASE_NO_SPACE;
    rig->reserve_first = 100;
    scene_good_job(rig);
    scene_good_job(rig);
    rig_run(rig, 3 * BASE_NS_PER_S);
    assert_in_range(rig->reserves, 2, 8); /* tried again, not at every turn */
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "no new job numbers: disk full"));
    const struct cluster_submit submit = rig_join();
    struct rig_client *refused = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(refused->job, 0);
    rig->reserve_status = BASE_OK;
    rig_run(rig, 2 * BASE_NS_PER_S);
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, next, BASE_NS_PER_S), BASE_OK);
    assert_int_equal(next->job, 100);
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_leaves_cancels_its_jobs),
        cmocka_unit_test(a_full_queue_refuses),
        cmocka_unit_test(jobs_run_in_their_order),
        cmocka_unit_test(a_bad_request_runs_nowhere),
        cmocka_unit_test(an_incomplete_cluster_runs_nothing),
        cmocka_unit_test(numbers_are_reserved_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
