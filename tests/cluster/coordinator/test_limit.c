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
            .name = names[i], .workers = 2, .exchange_seconds = 1, .busy_seconds = 0.2, .wait_seconds = 1.8};
    return (struct cluster_report){
        .exchange_seconds = 1, .node_count = 3, .node = nodes, .link = links, .limit_words = ""};
}

static void set_cpu(struct cluster_report *report, int node, double user, double system)
{
    nodes[node].cpu_user_seconds = user;
    nodes[node].cpu_system_seconds = system;
    nodes[node].busy_seconds = user + system;
    nodes[node].wait_seconds = 2 - user - system;
    report->cpu_user_seconds += user;
    report->cpu_system_seconds += system;
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
    set_cpu(&report, 1, 1.6, 0.2);
    set_cpu(&report, 2, 0.2, 0.1);
    assert_limit(&report, CLUSTER_LIMIT_SKEW, "n2 had 2.2 times");
}

static void test_waits(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    report.bytes_sent = 1 << 30;
    links[1 * 3 + 2] = 1 << 30;
    links[0 * 3 + 1] = 1 << 20;
    nodes[0].stalls_frame = 50;
    assert_limit(&report, CLUSTER_LIMIT_NETWORK, "n2 to n3, carried 1.00 GiB/s");
    nodes[2].exchange_seconds = 2;
    nodes[2].stalls_input = 10;
    assert_limit(&report, CLUSTER_LIMIT_INPUT, "n3");
    nodes[2].stalls_output = 20;
    assert_limit(&report, CLUSTER_LIMIT_OUTPUT, "n3");
}

static void test_memory(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    nodes[1].memory_bytes = 1000;
    nodes[1].peak_memory_bytes = 999;
    report.bytes_sent = 1;
    assert_limit(&report, CLUSTER_LIMIT_NETWORK, "");
    report.counters.receive_starved = 1;
    assert_limit(&report, CLUSTER_LIMIT_MEMORY, "n2");
}

static void test_nothing(void **state)
{
    (void)state;
    struct cluster_report report = quiet();
    assert_limit(&report, CLUSTER_LIMIT_NONE, "");
    report.exchange_seconds = 0.001;
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
