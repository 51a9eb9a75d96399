/* Rows that nodes leave out because they are bad, and rows that are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "tests/cluster/coordinator/scene.h"

enum { NODES = 3 };

/* A shuffle of a file that all nodes scan, and that may have so many bad rows. */
static struct rig_client *scan(struct rig *rig, uint64_t seed, uint64_t bad_rows_max)
{
    scene_open(rig, seed, NODES);
    for (uint32_t i = 0; i < NODES; i++) {
        rig->file[i] = (struct shuffle_file){.bytes = 100, .modified_ns = 1, .inode = i};
        rig->node[i].mute[CLUSTER_MESSAGE_START] = true;
    }
    struct cluster_submit submit = rig_shuffle_out();
    submit.source[0].text = "shared:/data/t.csv";
    submit.out = NULL;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, NODES - 1, CLUSTER_MESSAGE_START, BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_MS);
    rig->coordinator->run->plan.join.side[0].relation.csv.bad_rows_max = bad_rows_max;
    return client;
}

/* The node has scanned so many rows and left out count more, of which it tells the first. */
static void finish(struct rig *rig, const struct rig_client *client, uint32_t node, uint64_t rows, uint64_t count)
{
    uint64_t bytes[NODES] = {0};
    struct shuffle_rejects rejects = {0};
    for (uint64_t i = 0; i < count; i++) {
        struct shuffle_reject *reject = shuffle_rejects_add(&rejects, node, 0, UINT64_C(10) * (node + 1) + i);
        if (reject)
            snprintf(reject->reason, sizeof reject->reason, "no number on node %u", node + 1);
    }
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_STEP, .job = client->job};
    message.step.step = CLUSTER_STEP_FINISHED;
    message.step.has_report = true;
    message.step.node_count = NODES;
    message.step.sent_bytes = message.step.received_bytes = bytes;
    message.step.engine = message.step.features = message.step.engine_reason = message.step.engine_decision = "";
    message.step.report.sum.task.rows_scanned = message.step.report.sum.task.rows_scanned_left = rows;
    message.step.rejects[0] = count > 0 ? &rejects : NULL;
    rig_node_say(rig, node, &message);
}

static void as_many_as_allowed_are_reported_in_order(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    struct rig_client *client = scan(rig, 600, 6);
    const uint32_t order[NODES] = {2, 0, 1}; /* of their ends; rows are in the order of the file */
    for (uint32_t i = 0; i < NODES; i++)
        finish(rig, client, order[i], 5, 2);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    const struct cluster_skipped *skipped = &client->report.report.skipped[0];
    assert_int_equal(skipped->count, 6);
    assert_int_equal(skipped->row_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(skipped->row[i].path, "/data/t.csv");
        assert_string_equal(skipped->row[i].node, ""); /* the file is the same on all */
        assert_int_equal(skipped->row[i].line, 10 * (i / 2 + 1) + i % 2);
    }
    assert_string_equal(skipped->row[5].reason, "no number on node 3");
    assert_int_equal(client->report.report.skipped[1].count, 0);
    rig_close(rig);
}

static void one_more_fails_the_job_with_the_first(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    struct rig_client *client = scan(rig, 601, 5);
    for (uint32_t i = NODES; i-- > 0;)
        finish(rig, client, i, 5, 2);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_PARSE);
    scene_says(client, "6 rows of shared:/data/t.csv are bad, and --skip-bad-rows allows 5; the first: "
                       "/data/t.csv:10: no number on node 1");
    rig_close(rig);
}

/* Each node tells of a few; the number is of all. */
static void more_than_are_told_are_counted(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    struct rig_client *client = scan(rig, 602, 1000);
    for (uint32_t i = 0; i < NODES; i++)
        finish(rig, client, i, 5, i == 1 ? 100 : 0);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK);
    assert_int_equal(client->report.report.skipped[0].count, 100);
    assert_int_equal(client->report.report.skipped[0].row_count, SHUFFLE_REJECTS_KEPT);
    rig_close(rig);
}

/* A result of Millrace says how many rows it has: those that were read and those that were left out make them up. */
static void rows_that_are_missing_fail_the_job(void **state)
{
    (void)state;
    for (uint64_t rows = 16; rows <= 18; rows++) {
        struct rig *rig = scene_rig();
        struct rig_client *client = scan(rig, 603 + rows, 100);
        struct shuffle_relation *relation = &rig->coordinator->run->plan.join.side[0].relation;
        relation->rows_known = true;
        relation->rows = rows;
        for (uint32_t i = 0; i < NODES; i++)
            finish(rig, client, i, 5, i == 2 ? 2 : 0);
        assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), rows == 17 ? BASE_OK : BASE_IO);
        if (rows != 17)
            scene_says(client, "the result shared:/data/t.csv was changed: 17 rows were read");
        rig_close(rig);
    }
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_allowed_are_reported_in_order),
        cmocka_unit_test(one_more_fails_the_job_with_the_first),
        cmocka_unit_test(more_than_are_told_are_counted),
        cmocka_unit_test(rows_that_are_missing_fail_the_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
