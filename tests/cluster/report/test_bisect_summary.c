/* What a measurement comes to: rates, the smallest cut, what is slow, the verdict; and the object that tells it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "cluster/bisect/plan.h"
#include "cluster/report/bisect_report.h"

enum { NODES_MAX = 12 };

/* A network whose answers are made up: what each node sends and receives, one slow way, an uplink in the middle. */
struct network {
    uint32_t nodes;
    double send[NODES_MAX], receive[NODES_MAX]; /* Gbit/s */
    uint32_t slow_from, slow_to;
    double slow_way; /* 0: none */
    double uplink;   /* both directions each; 0: none */
    uint32_t busy_permille;
    uint64_t cpu_ns; /* of each step */
};

static struct network even(uint32_t nodes)
{
    struct network network = {.nodes = nodes};
    for (uint32_t i = 0; i < nodes; i++)
        network.send[i] = network.receive[i] = 1;
    return network;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Fair shares of all that a flow goes through. */
static double flow_rate(const struct network *network, const struct cluster_bisect_step *step, uint32_t at)
{
    const struct cluster_flow *flow = &step->flow[at];
    const uint32_t border = network->nodes / 2;
    double from = 0, to = 0, crossing = 0;
    const bool across = (flow->from < border) != (flow->to < border);
    for (uint32_t i = 0; i < step->flow_count; i++) {
        from += step->flow[i].from == flow->from;
        to += step->flow[i].to == flow->to;
        crossing += (step->flow[i].from < border) != (step->flow[i].to < border) &&
                    (step->flow[i].from < border) == (flow->from < border);
    }
    double rate = smaller(network->send[flow->from] / from, network->receive[flow->to] / to);
    if (network->uplink > 0 && across)
        rate = smaller(rate, network->uplink / crossing);
    if (network->slow_way > 0 && flow->from == network->slow_from && flow->to == network->slow_to)
        rate = smaller(rate, network->slow_way);
    return rate;
}

static void take(struct bisect_run *run, struct cluster_message *message)
{
    struct base_error error;
    if (bisect_run_take(run, message, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

static void take_schedule(struct bisect_run *run, uint32_t nodes)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SCHEDULE};
    message.schedule = (struct cluster_schedule){.step_count = 1000,
                                                 .duration_ns = BASE_NS_PER_S,
                                                 .warmup_ns = BASE_NS_PER_S / 5,
                                                 .window_ns = BASE_NS_PER_S / 2,
                                                 .node_count = nodes,
                                                 .node = calloc(nodes, sizeof *message.schedule.node)};
    for (uint32_t i = 0; i < nodes; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%u", i + 1);
        message.schedule.node[i] = (struct cluster_schedule_node){.name = strdup(name), .workers = 1};
    }
    take(run, &message);
}

static void take_step(struct bisect_run *run, const struct network *network, const struct cluster_bisect_step *step)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_MEASUREMENT};
    struct cluster_measurement *told = &message.measurement;
    *told = (struct cluster_measurement){
        .step = run->count + 1,
        .kind = step->kind,
        .node = step->node,
        .flow_count = step->flow_count,
        .window_count = 2,
        .host_busy_permille = network->busy_permille,
        .host_processors = 2,
        .sum = {
            .verified_bytes = 1, .retransmits = 2, .cpu_user_ns = network->cpu_ns, .mtu = 1500, .segment_bytes = 1448}};
    told->flow = calloc(step->flow_count, sizeof *told->flow);
    told->flow_bytes = calloc(step->flow_count, sizeof *told->flow_bytes);
    told->window = calloc(2, sizeof *told->window);
    assert_true(told->flow && told->flow_bytes && told->window);
    for (uint32_t i = 0; i < step->flow_count; i++) {
        told->flow[i] = step->flow[i];
        told->flow_bytes[i] = (uint64_t)(flow_rate(network, step, i) * 1e9 / 8);
        told->sum.received_bytes += told->flow_bytes[i];
    }
    told->window[0] = told->sum.received_bytes / 4;
    told->window[1] = told->sum.received_bytes - told->window[0];
    if (step->half) {
        told->half_size = network->nodes;
        told->half = malloc(network->nodes);
        memcpy(told->half, step->half, network->nodes);
    }
    take(run, &message);
}

/* Runs a whole schedule, or the first `steps` of it, over the network. */
static void measure(const struct network *network, uint32_t steps, struct bisect_run *run)
{
    const struct cluster_bisect_request request = {.duration_ns = BASE_NS_PER_S};
    struct cluster_bisect_plan *plan;
    struct base_error error;
    memset(run, 0, sizeof *run);
    run->job = 7;
    run->report.kind = CLUSTER_MESSAGE_REPORT;
    take_schedule(run, network->nodes);
    assert_int_equal(cluster_bisect_plan_open(&request, network->nodes, NULL, &plan, &error), BASE_OK);
    const struct cluster_bisect_step *step;
    while (run->count < steps && (step = cluster_bisect_plan_next(plan)) != NULL) {
        take_step(run, network, step);
        cluster_bisect_plan_result(plan, run->measurement[run->count - 1].flow_bytes);
    }
    cluster_bisect_plan_close(plan);
}

static void summarise(const struct network *network, const char *links, struct bisect_run *run,
                      struct bisect_summary *summary)
{
    struct base_error error;
    measure(network, UINT32_MAX, run);
    assert_int_equal(bisect_summary_make(run, links, summary, &error), BASE_OK);
}

static void done(struct bisect_run *run, struct bisect_summary *summary)
{
    bisect_summary_free(summary);
    bisect_run_free(run);
}

static void expect_words(const struct bisect_summary *summary, const char *words, bool there)
{
    if ((strstr(summary->verdict, words) != NULL) != there)
        fail_msg("'%s' %s '%s'", summary->verdict, there ? "lacks" : "has", words);
}

static void near(double value, double wanted)
{
    if (value < wanted * 0.9999 - 1e-6 || value > wanted * 1.0001 + 1e-6)
        fail_msg("%f is not %f", value, wanted);
}

static void an_even_network(void **state)
{
    (void)state;
    const struct network network = even(6);
    struct bisect_run run;
    struct bisect_summary summary;
    summarise(&network, "1gbit", &run, &summary);
    assert_int_equal(summary.cut_count, 10);
    near(summary.share, 1448.0 / 1514);
    near(summary.cut[summary.minimum].rate, 6e9);
    near(summary.cut[summary.minimum].ideal, 6e9 * 1448 / 1514);
    near(summary.cut[summary.minimum].worst, 3e9); /* a quarter of the bytes in half of the time */
    near(summary.median, 6e9);
    near(summary.all_to_all, 6e9);
    near(summary.incast[3], 1e9);
    near(summary.outcast[5], 1e9);
    assert_int_equal(summary.sum.retransmits, 2 * run.count);
    assert_int_equal(summary.sum.mtu, 1500);
    assert_true(summary.verified);
    expect_words(&summary, "The network is even: the 10 balanced cuts measured carry from 6.00 Gbit/s to 6.00", true);
    done(&run, &summary);
}

static void slow_nodes_and_ways(void **state)
{
    (void)state;
    struct bisect_run run;
    struct bisect_summary summary;
    struct network network = even(6);
    network.send[2] = network.receive[2] = 0.4;
    summarise(&network, "1gbit,n3=400mbit", &run, &summary);
    assert_int_equal(summary.slow_node, 2);
    near(summary.cut[summary.minimum].ideal, 2 * 2.4e9 * 1448 / 1514);
    expect_words(&summary, "Node n3 is slow: it sends 400 Mbit/s and receives 400 Mbit/s", true);
    expect_words(&summary, "oversubscribed", false);
    expect_words(&summary, "the path from", false);
    done(&run, &summary);

    network = even(6);
    network.receive[4] = 0.25;
    summarise(&network, "1gbit,n5=1gbit/250mbit", &run, &summary);
    assert_int_equal(summary.slow_card, 4);
    assert_false(summary.slow_card_sends);
    near(summary.cut[summary.minimum].ideal, (3e9 + 2.25e9) * 1448 / 1514);
    expect_words(&summary, "Node n5 is slow in one direction: it receives only 250 Mbit/s at best, but sends 1.00",
                 true);
    done(&run, &summary);

    network = even(6);
    network.slow_from = 1;
    network.slow_to = 4;
    network.slow_way = 0.3;
    summarise(&network, NULL, &run, &summary);
    assert_int_equal(summary.slow_from, 1);
    assert_int_equal(summary.slow_to, 4);
    near(summary.slow_link, 0.3e9);
    assert_true(summary.cut[0].ideal < 0);
    expect_words(&summary, "The path from n2 to n5 is slow: 300 Mbit/s, the reverse path 1.00 Gbit/s", true);
    expect_words(&summary, "Node", false);
    done(&run, &summary);
}

static void a_thin_uplink(void **state)
{
    (void)state;
    struct bisect_run run;
    struct bisect_summary summary;
    struct network network = even(6);
    network.uplink = 0.6;
    summarise(&network, "1gbit", &run, &summary);
    near(summary.cut[summary.minimum].rate, 1.2e9);
    char half[64];
    bisect_half_words(&run, summary.cut[summary.minimum].from, 1, half, sizeof half);
    assert_string_equal(half, "n4 n5 n6");
    bisect_half_words(&run, summary.cut[summary.minimum].from, 1, half, 7);
    assert_string_equal(half, " ..."); /* no room for a name and what says that more would come */
    expect_words(&summary, "Between {n1 n2 n3} and {n4 n5 n6} the network is oversubscribed", true);
    done(&run, &summary);
}

/* Beyond 8 nodes there are only the rounds, in which a thin uplink makes ways slow that nobody else is to blame for. */
static void a_thin_uplink_of_many(void **state)
{
    (void)state;
    struct bisect_run run;
    struct bisect_summary summary;
    struct network network = even(12);
    network.uplink = 1.5;
    summarise(&network, "1gbit", &run, &summary);
    assert_true(summary.alone[1] < 0);
    near(summary.cut[summary.minimum].rate, 3e9);
    expect_words(&summary, "Between {n1 n2 n3 n4 n5 n6} and {n7 n8 n9 n10 n11 n12} the network is oversub", true);
    expect_words(&summary, "slow", false);
    done(&run, &summary);
    network.uplink = 0;
    network.send[3] = network.receive[3] = 0.2;
    summarise(&network, "1gbit", &run, &summary);
    assert_int_equal(summary.slow_node, 3);
    expect_words(&summary, "Node n4 is slow: it sends 200 Mbit/s and receives 200 Mbit/s", true);
    expect_words(&summary, "oversubscribed", false);
    done(&run, &summary);
}

/* Machines that are busy with us are what limits; busy with others, they are not blamed. */
static void processors_that_are_the_limit(void **state)
{
    (void)state;
    struct bisect_run run;
    struct bisect_summary summary;
    struct network network = even(4);
    network.uplink = 0.6;
    network.busy_permille = 990;
    network.cpu_ns = 2 * BASE_NS_PER_S;
    summarise(&network, NULL, &run, &summary);
    expect_words(&summary, "The processors are the limit and not the network", true);
    expect_words(&summary, "oversubscribed", false);
    done(&run, &summary);
    network.cpu_ns = BASE_NS_PER_S / 100;
    summarise(&network, NULL, &run, &summary);
    expect_words(&summary, "processors", false);
    expect_words(&summary, "oversubscribed", true);
    done(&run, &summary);
}

static void check_object(const struct bisect_report *report, size_t runs)
{
    static const char *const keys[] = {"status",     "error",  "exit_code", "nodes", "link_rate_gbit", "pairs",
                                       "all_to_all", "incast", "outcast",   "cuts",  "bisection",      "slowest",
                                       "verdict",    "engine", "seconds",   "bytes", "retransmits",    "verified"};
    char *text = bisect_report_json(report);
    assert_non_null(text);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(object, keys[i]))
            fail_msg("%s is missing", keys[i]);
    for (uint32_t i = 0; i < CLUSTER_BISECT_MEASURES; i++)
        if (cluster_bisect_measure[i].key && !json_object_get(object, cluster_bisect_measure[i].key))
            fail_msg("%s is missing", cluster_bisect_measure[i].key);
    assert_true(json_object_get(json_object_get(object, "bisection"), "gbit_per_second") != NULL);
    assert_int_equal(json_array_size(json_object_get(object, "runs")), runs);
    char *page = bisect_report_html(text);
    assert_non_null(page);
    assert_non_null(strstr(page, "</html>"));
    assert_null(strstr(page, "@MILLRACE_DATA@"));
    const char *data = strstr(page, "type=\"application/json\">");
    assert_non_null(data);
    assert_memory_equal(strchr(data, '<'), "</script>", 9); /* nothing in the data looks like a tag */
    free(page);
    json_decref(object);
    free(text);
}

/* The same keys, whatever was measured: nothing, a part, all. */
static void the_object_is_always_whole(void **state)
{
    (void)state;
    const struct network network = even(4);
    struct bisect_run run = {0};
    struct bisect_summary summary;
    struct base_error error;
    base_error_set(&error, BASE_NODE_LOST, "node <!--<script></script> was lost");
    const struct bisect_report none = {.error = error, .exit_code = 3};
    check_object(&none, 0);
    for (uint32_t steps = 0; steps < 40; steps += 3) {
        measure(&network, steps, &run);
        run.report.report.error = error;
        assert_int_equal(bisect_summary_make(&run, NULL, &summary, &error), BASE_OK);
        if (steps == 0)
            assert_string_equal(summary.verdict, "Nothing was measured.");
        else
            expect_words(&summary, "did not finish", true);
        const struct bisect_report report = {.error = error, .exit_code = 1, .count = 1, .summary = &summary};
        check_object(&report, 1);
        FILE *nowhere = fopen("/dev/null", "w");
        bisect_report_print(&report, nowhere);
        fclose(nowhere);
        done(&run, &summary);
    }
}

/* Of a step and of all of them: as counted, per GiB, and null where one node's kernel did not tell. */
static void what_is_counted_is_in_the_object(void **state)
{
    (void)state;
    const struct network network = even(3);
    struct bisect_run run = {0};
    struct bisect_summary summary;
    struct base_error error = {0};
    measure(&network, UINT32_MAX, &run);
    run.measurement[1].sum = (struct cluster_bisect_measures){.received_bytes = 3 << 29,
                                                              .retransmits = BASE_MEASURE_UNKNOWN,
                                                              .cpu_user_ns = 2 * BASE_NS_PER_S,
                                                              .cpu_system_ns = BASE_NS_PER_S};
    assert_int_equal(bisect_summary_make(&run, NULL, &summary, &error), BASE_OK);
    const struct bisect_report report = {.count = 1, .summary = &summary};
    char *text = bisect_report_json(&report);
    json_t *object = json_loads(text, 0, NULL), *steps = json_object_get(object, "measurements");
    const json_t *step = json_array_get(steps, 1);
    assert_int_equal(json_integer_value(json_object_get(step, "bytes")), 3 << 29);
    assert_true(json_is_null(json_object_get(step, "retransmits")));
    near(json_number_value(json_object_get(step, "cpu_user_seconds")), 2);
    near(json_number_value(json_object_get(step, "cpu_system_seconds")), 1);
    near(json_number_value(json_object_get(step, "cpu_s_per_gib")), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(steps, 0), "retransmits")), 2);
    assert_true(json_is_null(json_object_get(object, "retransmits")));
    assert_int_equal(json_integer_value(json_object_get(object, "verified_bytes")), run.count - 1);
    json_decref(object);
    free(text);
    done(&run, &summary);
}

/* What the coordinator says is believed only where it fits. */
static void messages_that_do_not_fit(void **state)
{
    (void)state;
    const struct network network = even(3);
    struct bisect_run run;
    struct base_error error;
    measure(&network, 1, &run);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SCHEDULE};
    assert_int_equal(bisect_run_take(&run, &message, &error), BASE_PROTOCOL);
    struct cluster_flow flow = {0, 3};
    uint64_t bytes = 1;
    uint8_t half[2] = {0, 1};
    message.kind = CLUSTER_MESSAGE_MEASUREMENT;
    message.measurement = (struct cluster_measurement){.flow_count = 1, .flow = &flow, .flow_bytes = &bytes};
    assert_int_equal(bisect_run_take(&run, &message, &error), BASE_PROTOCOL);
    message.measurement = (struct cluster_measurement){.kind = CLUSTER_BISECT_CUT, .half_size = 2, .half = half};
    assert_int_equal(bisect_run_take(&run, &message, &error), BASE_PROTOCOL);
    message.measurement = (struct cluster_measurement){.kind = CLUSTER_BISECT_INCAST, .node = 3};
    assert_int_equal(bisect_run_take(&run, &message, &error), BASE_PROTOCOL);
    message.measurement = (struct cluster_measurement){.kind = CLUSTER_BISECT_PAIR};
    assert_int_equal(bisect_run_take(&run, &message, &error), BASE_PROTOCOL);
    bisect_run_free(&run);
}

static void rates_of_links(void **state)
{
    (void)state;
    struct bisect_link link;
    struct base_error error;
    double rate;
    assert_true(bisect_rate_parse("2.5gbit", &rate));
    near(rate, 2.5e9);
    assert_true(bisect_rate_parse("500Mbit", &rate));
    const char *const wrong[] = {"", "5", "gbit", "-1gbit", "1gbits", "0mbit", "1 gbit", "infgbit", "1e99tbit", "nan"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(bisect_rate_parse(wrong[i], &rate));
    assert_int_equal(bisect_links_find("1gbit,n3=200mbit/500mbit", "n3", &link, &error), BASE_OK);
    near(link.send, 2e8);
    near(link.receive, 5e8);
    assert_int_equal(bisect_links_find("1gbit,n3=200mbit", "n4", &link, &error), BASE_OK);
    near(link.receive, 1e9);
    assert_int_equal(bisect_links_find("n3=200mbit", "n4", &link, &error), BASE_OK);
    near(link.send, 0);
    assert_int_equal(bisect_links_find("1gbit,n3=fast", "n4", &link, &error), BASE_INVALID);
    assert_non_null(strstr(error.text, "n3=fast"));
    char text[BISECT_RATE_BYTES];
    bisect_rate_format(999.7e6, text);
    assert_string_equal(text, "1.00 Gbit/s");
    bisect_rate_format(BISECT_UNKNOWN, text);
    assert_string_equal(text, "-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_even_network),
        cmocka_unit_test(slow_nodes_and_ways),
        cmocka_unit_test(a_thin_uplink),
        cmocka_unit_test(a_thin_uplink_of_many),
        cmocka_unit_test(processors_that_are_the_limit),
        cmocka_unit_test(the_object_is_always_whole),
        cmocka_unit_test(what_is_counted_is_in_the_object),
        cmocka_unit_test(messages_that_do_not_fit),
        cmocka_unit_test(rates_of_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
