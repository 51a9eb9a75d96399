/* What nodes found is compared, and cut into morsels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/cluster/coordinator/scene.h"

static void few_morsels_are_shared_out_one_by_one(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 2, 6);
    struct cluster_submit submit = rig_join();
    submit.source[0].text = submit.source[1].text = "gen:rows=6,row=16";
    submit.settings.morsel_bytes = 16;
    assert_int_equal(scene_await(rig, rig_submit(rig, &submit), BASE_NS_PER_S), BASE_OK);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(rig->node[i].lent[0], 1);
    rig_close(rig);
}

/* What differs, and on which nodes: a file that was rewritten on one of them, and one that all see and that changed. */
static void files_that_differ_are_named(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 407, 3);
    for (uint64_t n = 0; n < 3; n++)
        rig->file[n] = (struct shuffle_file){.bytes = 100, .modified_ns = INT64_C(1700000000000000000), .inode = n};
    struct cluster_submit submit = rig_shuffle_out();
    submit.source[0].text = "shared:/data/t.csv";
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_OK); /* copies have their own inodes */
    rig->file[1].bytes = 120;
    rig->file[1].modified_ns += 5;
    client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_INVALID);
    scene_says(client,
               "/data/t.csv differs between nodes: it has 100 bytes of 2023-11-14 22:13:20.000000000 UTC on n1, n3, "
               "but 120 bytes of 2023-11-14 22:13:20.000000005 UTC on n2");
    scene_says(client, "was it rewritten on one of them, or while they looked?");
    rig->file[1].inode = rig->file[0].inode;
    client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, BASE_NS_PER_S), BASE_INVALID);
    scene_says(client, "/data/t.csv changed while the nodes looked at it: it has 100 bytes");
    rig_close(rig);
}

static void too_many_morsels_are_refused(void **state)
{
    (void)state;
    struct rig *rig = scene_rig();
    scene_open(rig, 17, 3);
    struct cluster_submit submit = rig_join();
    submit.source[1].text = "gen:rows=100G,row=16";
    submit.settings.morsel_bytes = 1;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(scene_await(rig, client, 100 * BASE_NS_PER_MS), BASE_TOO_LARGE);
    scene_says(client, "--morsel-bytes");
    scene_good_job(rig);
    rig_close(rig);
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_morsels_are_shared_out_one_by_one),
        cmocka_unit_test(files_that_differ_are_named),
        cmocka_unit_test(too_many_morsels_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
