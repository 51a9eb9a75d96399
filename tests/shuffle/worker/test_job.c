/* A job is placed on nodes: what is copied, and what is chosen for settings left at zero. */
#include "shuffle/worker/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { NODES = 2, WORKERS = 3 };

static const struct shuffle_node nodes[NODES] = {{.name = "n1", .first = 0, .count = 2},
                                                 {.name = "n2", .first = 2, .count = 1}};
static const uint8_t token[SHUFFLE_TOKEN_BYTES] = {9};

static struct shuffle_job placed(const struct shuffle_settings *settings, uint64_t bytes)
{
    struct net_address address[WORKERS] = {0};
    for (int i = 0; i < WORKERS; i++)
        address[i].bytes = (uint32_t)i + 1;
    struct shuffle_job job = {0};
    struct base_error error;
    assert_int_equal(shuffle_job_place(&job, 5, token, settings, bytes, nodes, NODES, address, &error), BASE_OK);
    return job;
}

static void test_nodes_and_addresses_are_copied(void **state)
{
    (void)state;
    struct shuffle_job job = placed(&(struct shuffle_settings){.verify = true}, 0);
    assert_int_equal(job.id, 5);
    assert_memory_equal(job.token, token, sizeof token);
    assert_int_equal(job.node_count, NODES);
    assert_int_equal(job.workers, WORKERS);
    assert_string_equal(job.node[1].name, "n2");
    assert_int_equal(job.address[2].bytes, 3);
    assert_true(job.settings.verify);
    shuffle_job_free(&job);
    assert_null(job.node);
    assert_null(job.address);
    shuffle_job_free(&job); /* an empty one, too */
}

static void test_settings_left_at_zero_are_chosen(void **state)
{
    (void)state;
    struct shuffle_job none = placed(&(struct shuffle_settings){0}, 0);
    assert_in_range(none.settings.frame_bytes, 4096, 1 << 20);
    assert_int_equal(none.settings.frames_per_lane, 2);
    assert_int_equal(none.settings.morsel_bytes, 64 << 10);
    assert_int_equal(none.settings.recv_chunk_bytes, 0); /* the node's choice */
    shuffle_job_free(&none);
    struct shuffle_job large = placed(&(struct shuffle_settings){0}, UINT64_C(1) << 40);
    assert_int_equal(large.settings.morsel_bytes, 4 << 20);
    shuffle_job_free(&large);
}

static void test_settings_of_the_user_stay(void **state)
{
    (void)state;
    const struct shuffle_settings asked = {.frame_bytes = 8192, .frames_per_lane = 7, .morsel_bytes = 12345};
    struct shuffle_job job = placed(&asked, UINT64_C(1) << 40);
    assert_memory_equal(&job.settings, &asked, sizeof asked);
    shuffle_job_free(&job);
}

static void test_traffic_counts_the_connections_of_one_worker(void **state)
{
    (void)state;
    struct shuffle_job job = placed(&(struct shuffle_settings){.frame_bytes = 8192}, 0);
    const struct net_traffic traffic = shuffle_job_traffic(&job, 2);
    assert_int_equal(traffic.connections, 1);
    assert_int_equal(traffic.frame_bytes, 8192);
    assert_int_equal(traffic.row_bytes, 0);
    shuffle_job_free(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_and_addresses_are_copied),
        cmocka_unit_test(test_settings_left_at_zero_are_chosen),
        cmocka_unit_test(test_settings_of_the_user_stay),
        cmocka_unit_test(test_traffic_counts_the_connections_of_one_worker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
