/* The schedule of a measurement: which steps, which flows, which cuts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/bisect/plan.h"

enum { NODES_MAX = 40 };

static struct cluster_bisect_plan *open_plan(uint32_t nodes, enum cluster_bisect_cuts cuts, uint32_t count)
{
    const struct cluster_bisect_request request = {.duration_ns = BASE_NS_PER_S, .cuts = cuts, .cut_count = count};
    struct cluster_bisect_plan *plan;
    struct base_error error;
    assert_int_equal(cluster_bisect_plan_open(&request, nodes, NULL, &plan, &error), BASE_OK);
    return plan;
}

/* A network in which every node sends and receives one unit, and what crosses between nodes below and from `border` on
 * shares `uplink` units in each direction. */
static uint64_t crossing_bytes(const struct cluster_bisect_step *step, uint32_t flow, uint32_t border, uint64_t uplink)
{
    const uint64_t unit = 1000000;
    uint32_t crossing = 0;
    const bool across = (step->flow[flow].from < border) != (step->flow[flow].to < border);
    uint32_t from_same = 0;
    for (uint32_t i = 0; i < step->flow_count; i++) {
        from_same += step->flow[i].from == step->flow[flow].from;
        crossing += (step->flow[i].from < border) != (step->flow[i].to < border) &&
                    (step->flow[i].from < border) == (step->flow[flow].from < border);
    }
    const uint64_t fair = unit / from_same;
    const uint64_t limit = across ? uplink * unit / crossing : fair;
    return fair < limit ? fair : limit;
}

static void tell(struct cluster_bisect_plan *plan, const struct cluster_bisect_step *step, uint32_t border,
                 uint64_t uplink)
{
    uint64_t *bytes = calloc(step->flow_count + 1, sizeof *bytes);
    for (uint32_t i = 0; i < step->flow_count; i++)
        bytes[i] = crossing_bytes(step, i, border, uplink);
    cluster_bisect_plan_result(plan, bytes);
    free(bytes);
}

static uint32_t count_cuts(uint32_t nodes)
{
    struct cluster_bisect_plan *plan = open_plan(nodes, CLUSTER_BISECT_ALL, 0);
    const struct cluster_bisect_step *step;
    uint8_t(*seen)[NODES_MAX] = calloc(5000, sizeof *seen);
    uint32_t cuts = 0;
    while ((step = cluster_bisect_plan_next(plan)) != NULL) {
        tell(plan, step, 0, 1);
        if (step->kind != CLUSTER_BISECT_CUT)
            continue;
        uint32_t ones = 0;
        for (uint32_t i = 0; i < nodes; i++)
            ones += step->half[i];
        assert_int_equal(step->half[0], 0);
        assert_true(ones == nodes / 2 || ones == nodes - nodes / 2);
        assert_int_equal(step->flow_count, 2 * ones * (nodes - ones));
        for (uint32_t i = 0; i < step->flow_count; i++)
            assert_int_not_equal(step->half[step->flow[i].from], step->half[step->flow[i].to]);
        for (uint32_t i = 0; i < cuts; i++)
            assert_memory_not_equal(seen[i], step->half, nodes);
        memcpy(seen[cuts++], step->half, nodes);
    }
    free(seen);
    cluster_bisect_plan_close(plan);
    return cuts;
}

static void every_balanced_cut_comes_once(void **state)
{
    (void)state;
    const uint32_t expected[] = {
        [2] = 1, [3] = 3, [4] = 3, [5] = 10, [6] = 10, [7] = 35, [8] = 35, [9] = 126, [10] = 126};
    for (uint32_t nodes = 2; nodes <= 10; nodes++)
        assert_int_equal(count_cuts(nodes), expected[nodes]);
}

static void rounds_are_disjoint_and_have_every_pair(void **state)
{
    (void)state;
    for (uint32_t nodes = 2; nodes <= 9; nodes++) {
        struct cluster_bisect_plan *plan = open_plan(nodes, CLUSTER_BISECT_COUNT, 1);
        const struct cluster_bisect_step *step;
        uint32_t met[NODES_MAX][NODES_MAX] = {0}, rounds = 0;
        while ((step = cluster_bisect_plan_next(plan)) != NULL) {
            tell(plan, step, 0, 1);
            if (step->kind != CLUSTER_BISECT_ROUND)
                continue;
            uint32_t sends[NODES_MAX] = {0}, partner[NODES_MAX] = {0};
            assert_int_equal(step->node, rounds++);
            for (uint32_t i = 0; i < step->flow_count; i++) {
                const struct cluster_flow *flow = &step->flow[i];
                assert_int_equal(sends[flow->from]++, 0);
                partner[flow->from] = flow->to;
                met[flow->from][flow->to]++;
            }
            for (uint32_t i = 0; i < step->flow_count; i++)
                assert_int_equal(partner[step->flow[i].to], step->flow[i].from);
        }
        assert_int_equal(rounds, nodes % 2 ? nodes : nodes - 1);
        for (uint32_t a = 0; a < nodes; a++)
            for (uint32_t b = 0; b < nodes; b++)
                assert_int_equal(met[a][b], a != b);
        cluster_bisect_plan_close(plan);
    }
}

static void six_nodes_have_these_steps(void **state)
{
    (void)state;
    struct cluster_bisect_plan *plan = open_plan(6, CLUSTER_BISECT_CUTS_DEFAULT, 0);
    const uint32_t flows[CLUSTER_BISECT_KIND_COUNT] = {1, 6, 30, 5, 5, 18};
    uint32_t kinds[CLUSTER_BISECT_KIND_COUNT] = {0}, alone[6][6] = {0}, steps = 0;
    const struct cluster_bisect_step *step;
    assert_int_equal(cluster_bisect_plan_steps(plan), 30 + 6 + 5 + 1 + 6 + 6 + 10 + 4);
    assert_true(cluster_bisect_plan_expected_ns(plan) > 58 * BASE_NS_PER_S);
    while ((step = cluster_bisect_plan_next(plan)) != NULL) {
        tell(plan, step, 0, 1);
        assert_int_equal(step->flow_count, flows[step->kind]);
        kinds[step->kind]++;
        steps++;
        for (uint32_t i = 0; i < step->flow_count; i++) {
            assert_int_not_equal(step->flow[i].from, step->flow[i].to);
            if (step->kind == CLUSTER_BISECT_INCAST)
                assert_int_equal(step->flow[i].to, step->node);
            if (step->kind == CLUSTER_BISECT_OUTCAST)
                assert_int_equal(step->flow[i].from, step->node);
        }
        if (step->kind == CLUSTER_BISECT_PAIR)
            alone[step->flow[0].from][step->flow[0].to]++;
    }
    assert_null(cluster_bisect_plan_next(plan));
    for (uint32_t a = 0; a < 6; a++)
        for (uint32_t b = 0; b < 6; b++)
            assert_int_equal(alone[a][b], a != b);
    assert_int_equal(kinds[CLUSTER_BISECT_CUT], 10);
    assert_int_equal(steps, 58);
    cluster_bisect_plan_close(plan);
}

/* Runs a plan over the network of two switches; the smallest cut it met, and how many different ones. */
static uint64_t search(uint32_t nodes, enum cluster_bisect_cuts cuts, uint32_t count, uint32_t *met)
{
    struct cluster_bisect_plan *plan = open_plan(nodes, cuts, count);
    const struct cluster_bisect_step *step;
    uint64_t least = UINT64_MAX;
    uint8_t(*seen)[NODES_MAX] = calloc(200, sizeof *seen);
    *met = 0;
    while ((step = cluster_bisect_plan_next(plan)) != NULL) {
        tell(plan, step, nodes / 2, 1);
        assert_true(step->kind != CLUSTER_BISECT_PAIR || nodes <= CLUSTER_BISECT_WHOLE_NODES);
        if (step->kind != CLUSTER_BISECT_CUT)
            continue;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < step->flow_count; i++)
            sum += crossing_bytes(step, i, nodes / 2, 1);
        least = sum < least ? sum : least;
        bool again = false;
        for (uint32_t i = 0; i < *met; i++)
            again |= memcmp(seen[i], step->half, nodes) == 0;
        if (!again)
            memcpy(seen[(*met)++], step->half, nodes);
    }
    free(seen);
    cluster_bisect_plan_close(plan);
    return least;
}

/* The halves that a thin uplink joins are one of 92,378 cuts of 20 nodes. */
static void a_thin_uplink_is_found_among_many_cuts(void **state)
{
    (void)state;
    for (uint32_t nodes = 10; nodes <= NODES_MAX; nodes += 10) {
        uint32_t met;
        const uint64_t least = search(nodes, CLUSTER_BISECT_LEAST, 0, &met);
        assert_true(least <= 2100000); /* two units both ways */
        assert_true(met <= 64);
    }
}

/* One pair and one cut that come out low once, and one of each that stays low. */
static void what_comes_out_low_is_measured_again(void **state)
{
    (void)state;
    struct cluster_bisect_plan *plan = open_plan(6, CLUSTER_BISECT_CUTS_DEFAULT, 0);
    const struct cluster_bisect_step *step;
    uint32_t pairs[6][6] = {0}, cuts = 0, low_cuts[2] = {0};
    uint8_t low_half[2][6];
    while ((step = cluster_bisect_plan_next(plan)) != NULL) {
        uint64_t bytes[36];
        for (uint32_t i = 0; i < step->flow_count; i++)
            bytes[i] = 1000;
        if (step->kind == CLUSTER_BISECT_PAIR) {
            const uint32_t from = step->flow[0].from, to = step->flow[0].to;
            pairs[from][to]++;
            if ((from == 1 && to == 2 && pairs[1][2] == 1) || (from == 4 && to == 3))
                bytes[0] = 500;
        }
        if (step->kind == CLUSTER_BISECT_CUT) {
            if (cuts == 3 || cuts == 7)
                memcpy(low_half[cuts == 7], step->half, 6);
            for (uint32_t k = 0; k < 2; k++)
                low_cuts[k] += cuts >= (k ? 7 : 3) && memcmp(low_half[k], step->half, 6) == 0;
            if (cuts == 3 || (cuts >= 7 && memcmp(low_half[1], step->half, 6) == 0))
                bytes[0] = 10;
            cuts++;
        }
        cluster_bisect_plan_result(plan, bytes);
    }
    for (uint32_t a = 0; a < 6; a++)
        for (uint32_t b = 0; b < 6; b++)
            assert_int_equal(pairs[a][b], a == b ? 0 : a == 1 && b == 2 ? 2 : a == 4 && b == 3 ? 3 : 1);
    assert_int_equal(low_cuts[0], 2);
    assert_int_equal(low_cuts[1], 4); /* as long as it may be a moment only */
    assert_int_equal(cuts, 14);
    cluster_bisect_plan_close(plan);
}

/* Racks of three, three and four: no union of whole racks is half, so at most one is torn apart; then pairs of racks.
 */
static void racks_are_kept_together(void **state)
{
    (void)state;
    const struct {
        uint32_t nodes, rack[12], torn;
    } cases[] = {{10, {0, 0, 0, 1, 1, 1, 2, 2, 2, 2}, 1}, {12, {0, 1, 2, 0, 1, 2, 3, 3, 3, 2, 1, 0}, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const struct cluster_bisect_request request = {.cuts = CLUSTER_BISECT_COUNT, .cut_count = 40};
        struct cluster_bisect_plan *plan;
        struct base_error error;
        const uint32_t nodes = cases[c].nodes;
        assert_int_equal(cluster_bisect_plan_open(&request, nodes, cases[c].rack, &plan, &error), BASE_OK);
        const struct cluster_bisect_step *step;
        uint32_t cuts = 0, whole = 0;
        while ((step = cluster_bisect_plan_next(plan)) != NULL) {
            tell(plan, step, 0, 1);
            if (step->kind != CLUSTER_BISECT_CUT || step->origin != CLUSTER_BISECT_ORIGIN_RACKS)
                continue;
            uint32_t torn = 0;
            for (uint32_t rack = 0; rack < 4; rack++) {
                bool in[2] = {false, false};
                for (uint32_t i = 0; i < nodes; i++)
                    if (cases[c].rack[i] == rack)
                        in[step->half[i]] = true;
                torn += in[0] && in[1];
            }
            assert_in_range(torn, 0, 1);
            whole += torn == 0;
            cuts++;
        }
        assert_true(cuts > 0);
        assert_int_equal(whole, cases[c].torn ? 0 : 3);
        cluster_bisect_plan_close(plan);
    }
}

static void a_number_of_cuts_is_kept(void **state)
{
    (void)state;
    uint32_t met;
    search(12, CLUSTER_BISECT_COUNT, 20, &met);
    assert_int_equal(met, 20);
    search(6, CLUSTER_BISECT_COUNT, 4, &met);
    assert_int_equal(met, 4);
    search(6, CLUSTER_BISECT_COUNT, 1000, &met);
    assert_int_equal(met, 10);
    search(12, CLUSTER_BISECT_CUTS_DEFAULT, 0, &met);
    assert_int_equal(met, CLUSTER_BISECT_SEARCH_CUTS);
    search(4, CLUSTER_BISECT_LEAST, 0, &met);
    assert_in_range(met, 1, 3);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct cluster_bisect_plan *plan;
    struct base_error error = {0};
    struct cluster_bisect_request request = {.cuts = CLUSTER_BISECT_ALL};
    assert_int_equal(cluster_bisect_plan_open(&request, 1, NULL, &plan, &error), BASE_INVALID);
    assert_non_null(strstr(error.text, "one node"));
    assert_int_equal(cluster_bisect_plan_open(&request, 16, NULL, &plan, &error), BASE_INVALID);
    assert_non_null(strstr(error.text, "--cuts=minimum"));
}

static void streams_connect_different_pairs_of_workers(void **state)
{
    (void)state;
    for (uint32_t a = 1; a <= 6; a++)
        for (uint32_t b = 1; b <= 6; b++) {
            bool seen[6][6] = {{false}};
            assert_int_equal(cluster_bisect_streams(0, a, b), a > b ? a : b);
            assert_int_equal(cluster_bisect_streams(1000, a, b), a * b);
            assert_int_equal(cluster_bisect_streams(1, a, b), 1);
            for (uint32_t i = 0; i < a * b; i++) {
                uint32_t from, to;
                cluster_bisect_stream(i, a, b, &from, &to);
                assert_true(from < a && to < b && !seen[from][to]);
                seen[from][to] = true;
            }
        }
}

static void times_follow_the_duration(void **state)
{
    (void)state;
    assert_int_equal(cluster_bisect_windows(BASE_NS_PER_S), 10);
    assert_int_equal(cluster_bisect_windows(250 * BASE_NS_PER_MS), 2);
    assert_int_equal(cluster_bisect_windows(50 * BASE_NS_PER_MS), 1);
    assert_int_equal(cluster_bisect_window_ns(50 * BASE_NS_PER_MS), 50 * BASE_NS_PER_MS);
    assert_true(cluster_bisect_windows(CLUSTER_BISECT_DURATION_MAX_NS) <= CLUSTER_BISECT_WINDOWS_MAX);
    assert_true(cluster_bisect_warmup_ns(BASE_NS_PER_S) >= 100 * BASE_NS_PER_MS);
    assert_string_equal(cluster_bisect_kind_word(CLUSTER_BISECT_ALL_TO_ALL), "all_to_all");
    assert_string_equal(cluster_bisect_kind_word(CLUSTER_BISECT_KIND_COUNT), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_balanced_cut_comes_once),
        cmocka_unit_test(rounds_are_disjoint_and_have_every_pair),
        cmocka_unit_test(six_nodes_have_these_steps),
        cmocka_unit_test(a_thin_uplink_is_found_among_many_cuts),
        cmocka_unit_test(what_comes_out_low_is_measured_again),
        cmocka_unit_test(racks_are_kept_together),
        cmocka_unit_test(a_number_of_cuts_is_kept),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(streams_connect_different_pairs_of_workers),
        cmocka_unit_test(times_follow_the_duration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
