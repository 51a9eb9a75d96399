/* The cost model: which resource held a job back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "cluster/coordinator/limit.h"

static struct cluster_node_report nodes[3];
static uint64_t links[9];
static char text[256];

/* Three nodes of two workers, one second, waiting all the time. */
static struct cluster_report quiet(void)
{
    static char *const names[] = {"n1", "n2", "n3"};
    memset(links, 0, sizeof links);
    for (int i = 0; i < 3; i++)
        nodes[i] = (struct cluster_node_report){
            .name = names[i],
            .workers = 2,
            .sum = {.exchange_ns = BASE_NS_PER_S, .busy_ns = BASE_NS_PER_S / 5, .idle_ns = 9 * BASE_NS_PER_S / 5}};
    return (struct cluster_report){
        .sum.exchange_ns = BASE_NS_PER_S, .node_count = 3, .node = nodes, .link = links, .limit_words = ""};
}

static void set_cpu(struct cluster_report *report, int node, double user, double system)
{
    struct cluster_measures *sum = &nodes[node].sum;
    sum->cpu_user_ns = (uint64_t)(user * 1e9);
    sum->cpu_system_ns = (uint64_t)(system * 1e9);
    sum->busy_ns = sum->cpu_user_ns + sum->cpu_system_ns;
    sum->idle_ns = 2 * BASE_NS_PER_S - sum->busy_ns;
    report->sum.cpu_user_ns += sum->cpu_user_ns;
    report->sum.cpu_system_ns += sum->cpu_system_ns;
}

static void assert_limit(const struct cluster_report *report, enum cluster_limit limit, const char *words)
{
    const enum cluster_limit found = cluster_limit_find(report, text, sizeof text);
    if (found != limit || !strstr(text, words))
        fail_msg("found %s ('%s'), expected %s with '%s'", cluster_limit_words(found), text, cluster_limit_words(limit),
                 words);
}

static void test_cpu(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    for (int i = 0; i < 3; i++)
        set_cpu(&report, i, 1.4, 0.4);
    assert_limit(&report, CLUSTER_LIMIT_USER_CPU, "program");
    report = quiet();
    for (int i = 0; i < 3; i++)
        set_cpu(&report, i, 0.4, 1.4);
    assert_limit(&report, CLUSTER_LIMIT_KERNEL_CPU, "kernel");
}

static void test_skew(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    set_cpu(&report, 0, 0.2, 0.1);
    set_cpu(&report, 1, 1.6, 0.1);
    set_cpu(&report, 2, 0.2, 0.1);
    assert_limit(&report, CLUSTER_LIMIT_SKEW, "n2 did 2.2 times");
}

static void test_waits(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    report.sum.bytes_sent = 1 << 30;
    links[1 * 3 + 2] = 1 << 30;
    links[0 * 3 + 1] = 1 << 20;
    nodes[0].sum.task.stalls_frame = 50;
    assert_limit(&report, CLUSTER_LIMIT_NETWORK, "n2 to n3, carried 1.00 GiB/s");
    nodes[2].sum.exchange_ns = 2 * BASE_NS_PER_S;
    nodes[2].sum.task.stalls_input = 10;
    assert_limit(&report, CLUSTER_LIMIT_INPUT, "n3");
    nodes[2].sum.task.stalls_output = 20;
    assert_limit(&report, CLUSTER_LIMIT_OUTPUT, "n3");
}

static void test_memory(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    nodes[1].memory_bytes = 1000;
    nodes[1].sum.peak_memory_bytes = 999;
    report.sum.bytes_sent = 1;
    assert_limit(&report, CLUSTER_LIMIT_NETWORK, "");
    report.sum.counters.receive_starved = 1;
    assert_limit(&report, CLUSTER_LIMIT_MEMORY, "n2");
}

static void test_nothing(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    assert_limit(&report, CLUSTER_LIMIT_NONE, "");
    report.sum.exchange_ns = BASE_NS_PER_MS;
    assert_limit(&report, CLUSTER_LIMIT_NONE, "too short");
    report.node_count = 0;
    assert_limit(&report, CLUSTER_LIMIT_NONE, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cpu), cmocka_unit_test(test_skew),
                                       cmocka_unit_test(test_waits), cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
