/* What a decision says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "tests/cluster/coordinator/scene.h"

/* Names of columns may be any bytes; a decision is written as JSON all the same. A directory's name has to be UTF-8. */
static void names_that_are_not_utf8_can_be_decided(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 406, 3);
    rig->column_name = "caf\xe9";
    struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    if (scene_await(rig, client, BASE_NS_PER_S) != BASE_OK)
        fail_msg("%s", client->report.report.error.text);
    rig->column_name = NULL;
    submit.out = "/nowhere/caf\xe9";
    client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_INVALID);
    assert_true(client->report.report.bad_request);
    assert_int_equal(rig->jobs_run, 1);
    rig_close(rig);
}

static void a_decision_says_what_was_made_and_by_whom(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 408, 3);
    const struct rig_client *client = scene_stand_still(rig, CLUSTER_MESSAGE_COMMIT);
    const struct coordinator_pending *pending = rig->coordinator->pending;
    assert_non_null(pending);
    const struct cluster_decision *decision = &pending->decision;
    assert_int_equal(decision->job, client->job);
    assert_string_equal(decision->out, "/nowhere/out");
    assert_string_equal(decision->extension, "csv");
    /* The job's number, the coordinator's id, and what nobody can guess. */
    assert_int_equal(strncmp(decision->files, "job-1-0-", 8), 0);
    assert_int_equal(strlen(decision->files), 8 + 16);
    assert_string_equal(
        decision->text,
        "{\"job\":1,\"format\":\"csv\",\"parts\":3,\"schema\":\"key:int64,payload:binary(8)\",\"rows\":30,"
        "\"checksum\":\"0000000000000000\",\"bytes\":0}\n");
    assert_int_equal(decision->node_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(decision->node[i].name, rig->node[i].name);
        assert_int_equal(decision->node[i].first, i);
        assert_int_equal(decision->node[i].count, 1);
    }
    struct cluster_decision copy;
    struct base_error error;
    assert_int_equal(cluster_decision_copy(decision, &copy, &error), BASE_OK);
    assert_string_equal(copy.text, decision->text);
    assert_ptr_not_equal(copy.text, decision->text);
    assert_memory_equal(copy.node, decision->node, 3 * sizeof *copy.node);
    cluster_decision_free(&copy);
    assert_null(copy.text);
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decision_says_what_was_made_and_by_whom),
        cmocka_unit_test(names_that_are_not_utf8_can_be_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
