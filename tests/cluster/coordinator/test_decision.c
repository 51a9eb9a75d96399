/* What a decision says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
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

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_not_utf8_can_be_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
