/* The place of workers: which queue and ports are whose, and what is said to who asks for what is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/crew/place.h"

static enum base_status open_place(const char *nic, uint32_t first, uint32_t last, uint32_t ports, uint32_t workers,
                                   struct cluster_place *place, const char *says)
{
    const struct cluster_place_options options = {
        .nic = nic, .queue_first = first, .queue_last = last, .port_first = ports, .area_bytes = 1 << 20};
    struct base_error error = {0};
    const enum base_status status = cluster_place_open(&options, workers, place, &error);
    if (says && !strstr(error.text, says))
        fail_msg("\"%s\" does not say \"%s\"", error.text, says);
    return status;
}

static void without_a_card_nothing_is_placed(void **state)
{
    (void)state;
    struct cluster_place place;
    char text[CLUSTER_PLACE_TEXT_BYTES];
    assert_int_equal(open_place(NULL, 0, 0, 16384, 1000, &place, NULL), BASE_OK);
    assert_int_equal(cluster_place_queue(&place, 3).interface_index, 0);
    assert_int_equal(cluster_place_ports(&place, 3).count, 0);
    cluster_place_describe(&place, 3, CLUSTER_MEMORY_NODE_ANY, text);
    assert_string_equal(text, "");
    cluster_place_describe(&place, 3, 1, text);
    assert_string_equal(text, "worker 3: memory node 1");
}

static void each_worker_has_its_own(void **state)
{
    (void)state;
    struct cluster_place place;
    char text[CLUSTER_PLACE_TEXT_BYTES];
    assert_int_equal(open_place("lo", 0, 0, 16384, 1, &place, NULL), BASE_OK);
    assert_true(cluster_place_queue(&place, 0).interface_index > 0);
    for (uint32_t worker = 0; worker < 64; worker++) {
        const struct net_port_block ports = cluster_place_ports(&place, worker);
        assert_int_equal(cluster_place_queue(&place, worker).queue, worker);
        assert_int_equal(ports.first, 16384 + 256 * worker);
        assert_int_equal(ports.count, 256);
    }
    cluster_place_describe(&place, 2, 1, text);
    assert_string_equal(text, "worker 2: queue 2 of lo, ports 16896-17151, memory node 1");
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    struct cluster_place place;
    assert_int_equal(open_place("no-such-card", 0, 3, 16384, 2, &place, "lo"), BASE_NOT_FOUND);
    assert_int_equal(open_place("lo", 0, 0, 16384, 2, &place, "2 workers need a queue each"), BASE_INVALID);
    assert_int_equal(open_place("lo", 4, 7, 16384, 4, &place, "1 receive queues"), BASE_INVALID);
    assert_int_equal(open_place("lo", 0, 0, 16385, 1, &place, "multiple of 256"), BASE_INVALID);
    assert_int_equal(open_place("lo", 0, 0, 0, 1, &place, "--ports 0"), BASE_INVALID);
    assert_int_equal(open_place("lo", 0, 0, 65536, 1, &place, "65535"), BASE_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_card_nothing_is_placed),
        cmocka_unit_test(each_worker_has_its_own),
        cmocka_unit_test(what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests_name("cluster.place", tests, NULL, NULL);
}
