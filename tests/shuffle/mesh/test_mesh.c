/* Whole meshes over the simulated network: both ends count alike, and a connection may break at any byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/shuffle/mesh/crowd.h"

static void both_ends_count_the_same_bytes(void **state)
{
    (void)state;
    struct rig_config config = rig_two_nodes;
    config.nodes = 3;
    config.workers = 6;
    config.rows = 1000;
    struct rig *rig = rig_new();
    rig_open(rig, &config);
    assert_true(rig_run(rig, rig_all_done));
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t j = 0; j < 6; j++) {
            const uint64_t sent = shuffle_mesh_sent_bytes(rig->worker[i].mesh)[j];
            assert_int_equal(sent, shuffle_mesh_received_bytes(rig->worker[j].mesh)[i]);
            assert_int_equal(sent % 16, 0);
            assert_int_equal(sent > 0, i / 2 != j / 2);
            bytes += sent;
        }
    }
    assert_in_range(bytes, 6 * 1000 * 16 * 6 / 10, 6 * 1000 * 16 * 7 / 10); /* two thirds leave their node */
    rig_close(rig, false);
}

/* A connection that breaks at any byte: somebody says so and names a node, nobody takes a wrong answer for a right one,
 * and everything comes home. */
static void resets_at_any_moment(void **state)
{
    (void)state;
    uint32_t failed = 0;
    for (uint64_t seed = 1; seed <= 150; seed++) {
        struct rig_config config = rig_two_nodes;
        config.seed = seed;
        config.nodes = 2 + (uint32_t)(seed % 2);
        config.workers = 6;
        config.rows = 300;
        config.verify = true;
        config.sim.reset_after_bytes = 1 + (uint32_t)(base_random_mix(seed) % 20000);
        config.sim.busy_percent = 20;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        if (rig_run(rig, rig_all_done)) {
            rig_check_answer(rig);
        } else {
            assert_true(rig_failed(rig));
            failed++;
            for (uint32_t i = 0; i < config.workers; i++)
                assert_true(rig->worker[i].error.status == BASE_OK || strstr(rig->worker[i].error.text, "node n"));
        }
        rig_close(rig, true);
    }
    assert_true(failed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ends_count_the_same_bytes),
        cmocka_unit_test(resets_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
