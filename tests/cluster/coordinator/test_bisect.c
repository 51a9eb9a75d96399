/* The coordinator's step in jobs that measure the network: whole ones, and those that are disturbed in the middle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cluster/coordinator/rig.h"

static struct rig *the_rig(void)
{
    static struct rig rig;
    return &rig;
}

static void open_complete(struct rig *rig, uint64_t seed, uint32_t nodes)
{
    rig_open(rig, seed, nodes, nodes);
    for (uint32_t i = 0; i < nodes; i++)
        rig_node_start(rig, i);
    assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
}

static struct rig_client *waited;

static bool reported(struct rig *rig)
{
    (void)rig;
    return waited->reported;
}

static enum base_status await_report(struct rig *rig, struct rig_client *client, uint64_t ns)
{
    waited = client;
    assert_true(rig_until(rig, reported, ns));
    return client->report.report.error.status;
}

static void run_good_jobs(struct rig *rig)
{
    const struct cluster_submit submits[] = {rig_bisect(), rig_join(), rig_bisect()};
    for (size_t i = 0; i < sizeof submits / sizeof *submits; i++) {
        struct rig_client *client = rig_submit(rig, &submits[i]);
        if (await_report(rig, client, 10 * BASE_NS_PER_S) != BASE_OK)
            fail_msg("%s", client->report.report.error.text);
    }
}

/* Every step that the schedule has, in order, and then the end. */
static void a_whole_measurement(void **state)
{
    (void)state;
    const uint32_t least[] = {[2] = 2 + 1 + 1 + 4 + 1, [3] = 6 + 3 + 1 + 6 + 3, [6] = 30 + 5 + 1 + 12 + 10};
    for (uint32_t nodes = 2; nodes <= 6; nodes += nodes == 3 ? 3 : 1) {
        struct rig *rig = the_rig();
        open_complete(rig, nodes, nodes);
        const struct cluster_submit submit = rig_bisect();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(await_report(rig, client, 10 * BASE_NS_PER_S), BASE_OK);
        assert_int_equal(client->measurements, least[nodes]); /* nothing came out low */
        assert_int_equal(client->report.report.kind, CLUSTER_KIND_BISECT);
        assert_true(rig_is_idle(rig));
        run_good_jobs(rig);
        rig_close(rig);
    }
}

static struct rig_client *measure_until(struct rig *rig, uint32_t steps)
{
    const struct cluster_submit submit = rig_bisect();
    struct rig_client *client = rig_submit(rig, &submit);
    for (uint32_t i = 0; i < steps; i++)
        assert_true(rig_until_told(rig, 2, CLUSTER_MESSAGE_MEASURE, 5 * BASE_NS_PER_S));
    return client;
}

/* In any step; what was measured before has been told, and the next jobs work when the node is back. */
static void a_node_is_lost_in_any_step(void **state)
{
    (void)state;
    for (uint32_t step = 1; step < 26; step += 3) {
        struct rig *rig = the_rig();
        open_complete(rig, 10 + step, 4);
        struct rig_client *client = measure_until(rig, step);
        rig_node_kill(rig, 2);
        assert_int_equal(await_report(rig, client, 2 * BASE_NS_PER_S), BASE_NODE_LOST);
        assert_non_null(strstr(client->report.report.error.text, "n3"));
        assert_non_null(strstr(client->report.report.error.text, "measuring"));
        assert_in_range(client->measurements, step - 1, step);
        rig_node_start(rig, 2);
        rig_run(rig, BASE_NS_PER_S);
        run_good_jobs(rig);
        rig_close(rig);
    }
}

static void it_is_cancelled_or_left(void **state)
{
    (void)state;
    for (uint32_t leave = 0; leave < 2; leave++) {
        struct rig *rig = the_rig();
        open_complete(rig, 50 + leave, 4);
        struct rig_client *client = measure_until(rig, 7);
        const struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
        if (leave) {
            rig_client_leave(rig, client);
            assert_true(rig_until(rig, rig_is_idle, BASE_NS_PER_S));
        } else {
            rig_client_say(rig, rig_client(rig), &cancel);
            assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_CANCELLED);
        }
        run_good_jobs(rig);
        rig_close(rig);
    }
}

/* A node that measured another step, or other flows, than it was told. */
static void nodes_that_answer_wrongly(void **state)
{
    (void)state;
    for (uint32_t wrong = 0; wrong < 4; wrong++) {
        struct rig *rig = the_rig();
        open_complete(rig, 70 + wrong, 4);
        rig->node[2].mute[CLUSTER_MESSAGE_MEASURE] = true;
        struct rig_client *client = measure_until(rig, 1);
        uint64_t numbers[4] = {1, 2, 3, 4};
        struct cluster_message message;
        memset(&message, 0, sizeof message);
        message.kind = CLUSTER_MESSAGE_MEASURED;
        message.job = client->job;
        message.measured = (struct cluster_measured){.step = wrong == 0 ? 2 : 1,
                                                     .receive_count = wrong == 1 ? 3 : 0,
                                                     .bytes = numbers,
                                                     .window_count = wrong == 2 ? 3 : 2,
                                                     .window = numbers};
        if (wrong == 3)
            message.job++; /* of another job: dropped */
        rig_node_say(rig, 2, &message);
        if (wrong == 3) {
            rig_run(rig, 100 * BASE_NS_PER_MS);
            assert_false(client->reported);
            const struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
            rig_client_say(rig, rig_client(rig), &cancel);
        }
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), wrong == 3 ? BASE_CANCELLED : BASE_PROTOCOL);
        rig->node[2].mute[CLUSTER_MESSAGE_MEASURE] = false;
        run_good_jobs(rig);
        rig_close(rig);
    }
}

/* Racks come by the nodes' names, in any order, perhaps with names of nodes that are not here. */
static void racks_stay_together(void **state)
{
    (void)state;
    static struct cluster_bisect_rack racks[] = {{"n4", "b"}, {"n9", "a"}, {"n3", "a"}, {"n1", "a"}, {"n2", "b"}};
    static const uint8_t half[] = {0, 1, 0, 1};
    struct rig *rig = the_rig();
    open_complete(rig, 95, 4);
    struct cluster_submit submit = rig_bisect();
    submit.bisect.cuts = CLUSTER_BISECT_COUNT;
    submit.bisect.cut_count = 1;
    submit.bisect.rack = racks;
    submit.bisect.rack_count = sizeof racks / sizeof *racks;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, 10 * BASE_NS_PER_S), BASE_OK);
    assert_int_equal(client->cuts, 1);
    assert_memory_equal(client->first_cut, half, sizeof half);
    rig_close(rig);
}

static void one_node_has_no_network(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 90, 1);
    const struct cluster_submit submit = rig_bisect();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_INVALID);
    assert_true(client->report.report.bad_request);
    assert_int_equal(client->measurements, 0);
    rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_measurement),     cmocka_unit_test(a_node_is_lost_in_any_step),
        cmocka_unit_test(it_is_cancelled_or_left), cmocka_unit_test(nodes_that_answer_wrongly),
        cmocka_unit_test(racks_stay_together),     cmocka_unit_test(one_node_has_no_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
