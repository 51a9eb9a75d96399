/* What held a job back.
 *
 * The model: a worker is either busy (on a CPU, or ready for one) or waits in its engine for a completion. Over a
 * node's exchange span, the busy share of its workers says whether CPUs were the limit. If they were: skew when one
 * node had far more to do than the mean, else user or kernel time, whichever is larger. If they were not, workers
 * waited for something, and the stalls they counted say for what: frames that the network had not taken yet (network),
 * an output whose buffers were full (output), or reads that had not come (input). A node at the edge of its memory
 * budget whose receivers starved was held back by memory. */
#include "cluster/coordinator/limit.h"

#include <stdio.h>

/* Below this, setting up is all there is to see. */
#define LIMIT_SPAN_SECONDS_MIN 0.02
#define LIMIT_BUSY_SHARE 0.70
#define LIMIT_SKEW_RATIO 1.5
#define LIMIT_MEMORY_SHARE 0.95

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double busy_share(const struct cluster_node_report *node)
{
    return share(node->busy_seconds, node->busy_seconds + node->wait_seconds);
}

static uint64_t stalls(const struct cluster_node_report *node)
{
    return node->stalls_frame + node->stalls_output + node->stalls_input;
}

/* The node that took longest; among equals the one that was busier. */
static const struct cluster_node_report *find_slowest(const struct cluster_report *report)
{
    const struct cluster_node_report *slowest = &report->node[0];
    for (uint32_t i = 1; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        const double difference = node->exchange_seconds - slowest->exchange_seconds;
        if (difference > 0.02 * slowest->exchange_seconds ||
            (difference > -0.02 * slowest->exchange_seconds && node->busy_seconds > slowest->busy_seconds))
            slowest = node;
    }
    return slowest;
}

static double busiest_ratio(const struct cluster_report *report, const struct cluster_node_report **busiest)
{
    double sum = 0;
    *busiest = &report->node[0];
    for (uint32_t i = 0; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        sum += node->cpu_user_seconds + node->cpu_system_seconds;
        if (node->cpu_user_seconds + node->cpu_system_seconds >
            (*busiest)->cpu_user_seconds + (*busiest)->cpu_system_seconds)
            *busiest = node;
    }
    return share(((*busiest)->cpu_user_seconds + (*busiest)->cpu_system_seconds) * report->node_count, sum);
}

static enum cluster_limit limit_network(const struct cluster_report *report, char *text, size_t text_bytes)
{
    uint32_t from = 0, to = 0;
    const uint32_t n = report->node_count;
    for (uint32_t i = 0; i < n * n; i++)
        if (report->link[i] > report->link[from * n + to]) {
            from = i / n;
            to = i % n;
        }
    const double rate = share((double)report->link[from * n + to], report->node[from].exchange_seconds) / (1 << 20);
    const bool giga = rate >= 1024;
    snprintf(text, text_bytes, "workers waited for the network; the fullest link, %s to %s, carried %.2f %s/s",
             report->node[from].name, report->node[to].name, giga ? rate / 1024 : rate, giga ? "GiB" : "MiB");
    return CLUSTER_LIMIT_NETWORK;
}

static enum cluster_limit limit_cpu(const struct cluster_report *report, const struct cluster_node_report *slowest,
                                    char *text, size_t text_bytes)
{
    const struct cluster_node_report *busiest;
    const double ratio = busiest_ratio(report, &busiest);
    if (report->node_count > 1 && ratio > LIMIT_SKEW_RATIO) {
        snprintf(text, text_bytes, "%s had %.1f times the work of the mean node: many rows share few keys",
                 busiest->name, ratio);
        return CLUSTER_LIMIT_SKEW;
    }
    const bool kernel = report->cpu_system_seconds > report->cpu_user_seconds;
    const double all = report->cpu_user_seconds + report->cpu_system_seconds;
    snprintf(text, text_bytes, "workers of %s were busy %.0f %% of the time; %.0f %% of all CPU time went to the %s",
             slowest->name, 100 * busy_share(slowest),
             100 * share(kernel ? report->cpu_system_seconds : report->cpu_user_seconds, all),
             kernel ? "kernel" : "program");
    return kernel ? CLUSTER_LIMIT_KERNEL_CPU : CLUSTER_LIMIT_USER_CPU;
}

static enum cluster_limit limit_wait(const struct cluster_report *report, const struct cluster_node_report *slowest,
                                     char *text, size_t text_bytes)
{
    if (stalls(slowest) > 0 && slowest->stalls_output >= slowest->stalls_frame &&
        slowest->stalls_output >= slowest->stalls_input) {
        snprintf(text, text_bytes, "workers of %s waited for their output to be written", slowest->name);
        return CLUSTER_LIMIT_OUTPUT;
    }
    if (slowest->stalls_input > slowest->stalls_frame) {
        snprintf(text, text_bytes, "workers of %s waited for input to be read", slowest->name);
        return CLUSTER_LIMIT_INPUT;
    }
    if (report->bytes_sent > 0)
        return limit_network(report, text, text_bytes);
    snprintf(text, text_bytes, "workers were idle, and no counter shows why");
    return CLUSTER_LIMIT_NONE;
}

enum cluster_limit cluster_limit_find(const struct cluster_report *report, char *text, size_t text_bytes)
{
    text[0] = 0;
    if (report->node_count == 0)
        return CLUSTER_LIMIT_NONE;
    if (report->exchange_seconds < LIMIT_SPAN_SECONDS_MIN) {
        snprintf(text, text_bytes, "too short to judge: start-up dominated");
        return CLUSTER_LIMIT_NONE;
    }
    for (uint32_t i = 0; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        if (node->memory_bytes && report->counters.receive_starved > 0 &&
            (double)node->peak_memory_bytes > LIMIT_MEMORY_SHARE * (double)node->memory_bytes) {
            snprintf(text, text_bytes, "%s used all of its memory budget and stopped receiving at times", node->name);
            return CLUSTER_LIMIT_MEMORY;
        }
    }
    const struct cluster_node_report *slowest = find_slowest(report);
    if (busy_share(slowest) >= LIMIT_BUSY_SHARE)
        return limit_cpu(report, slowest, text, text_bytes);
    return limit_wait(report, slowest, text, text_bytes);
}
