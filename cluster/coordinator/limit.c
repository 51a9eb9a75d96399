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

static double limit_share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static double busy_share(const struct cluster_node_report *node)
{
    return limit_share((double)node->sum.busy_ns, (double)(node->sum.busy_ns + node->sum.idle_ns));
}

static uint64_t limit_stalls(const struct cluster_node_report *node)
{
    return node->sum.task.stalls_frame + node->sum.task.stalls_output + node->sum.task.stalls_input;
}

/* The node that took longest; among equals the one that was busier. */
static const struct cluster_node_report *find_slowest(const struct cluster_report *report)
{
    const struct cluster_node_report *slowest = &report->node[0];
    for (uint32_t i = 1; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        const double most = (double)slowest->sum.exchange_ns, difference = (double)node->sum.exchange_ns - most;
        if (difference > 0.02 * most || (difference > -0.02 * most && node->sum.busy_ns > slowest->sum.busy_ns))
            slowest = node;
    }
    return slowest;
}

static double node_cpu_seconds(const struct cluster_node_report *node)
{
    return cluster_seconds(node->sum.cpu_user_ns + node->sum.cpu_system_ns);
}

static double busiest_ratio(const struct cluster_report *report, const struct cluster_node_report **busiest)
{
    double sum = 0;
    *busiest = &report->node[0];
    for (uint32_t i = 0; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        sum += node_cpu_seconds(node);
        if (node_cpu_seconds(node) > node_cpu_seconds(*busiest))
            *busiest = node;
    }
    return limit_share(node_cpu_seconds(*busiest) * report->node_count, sum);
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
    const double rate =
        limit_share((double)report->link[from * n + to], cluster_seconds(report->node[from].sum.exchange_ns)) /
        (1 << 20);
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
        snprintf(text, text_bytes, "%s did %.1f times the work of the mean node: many rows share few keys",
                 busiest->name, ratio);
        return CLUSTER_LIMIT_SKEW;
    }
    const bool kernel = report->sum.cpu_system_ns > report->sum.cpu_user_ns;
    const uint64_t most = kernel ? report->sum.cpu_system_ns : report->sum.cpu_user_ns;
    const uint64_t all = report->sum.cpu_user_ns + report->sum.cpu_system_ns;
    snprintf(text, text_bytes, "workers of %s were busy %.0f %% of the time; %.0f %% of all CPU time went to the %s",
             slowest->name, 100 * busy_share(slowest), 100 * limit_share((double)most, (double)all),
             kernel ? "kernel" : "program");
    return kernel ? CLUSTER_LIMIT_KERNEL_CPU : CLUSTER_LIMIT_USER_CPU;
}

static enum cluster_limit limit_wait(const struct cluster_report *report, const struct cluster_node_report *slowest,
                                     char *text, size_t text_bytes)
{
    const struct join_task_result *task = &slowest->sum.task;
    if (limit_stalls(slowest) > 0 && task->stalls_output >= task->stalls_frame &&
        task->stalls_output >= task->stalls_input) {
        snprintf(text, text_bytes, "workers of %s waited for their output to be written", slowest->name);
        return CLUSTER_LIMIT_OUTPUT;
    }
    if (task->stalls_input > task->stalls_frame) {
        snprintf(text, text_bytes, "workers of %s waited for input to be read", slowest->name);
        return CLUSTER_LIMIT_INPUT;
    }
    if (report->sum.bytes_sent > 0)
        return limit_network(report, text, text_bytes);
    snprintf(text, text_bytes, "workers were idle, and no counter shows why");
    return CLUSTER_LIMIT_NONE;
}

enum cluster_limit cluster_limit_find(const struct cluster_report *report, char *text, size_t text_bytes)
{
    text[0] = 0;
    if (report->node_count == 0)
        return CLUSTER_LIMIT_NONE;
    if (cluster_seconds(report->sum.exchange_ns) < LIMIT_SPAN_SECONDS_MIN) {
        snprintf(text, text_bytes, "too short to judge: start-up dominated");
        return CLUSTER_LIMIT_NONE;
    }
    for (uint32_t i = 0; i < report->node_count; i++) {
        const struct cluster_node_report *node = &report->node[i];
        if (node->memory_bytes && report->sum.counters.receive_starved > 0 &&
            (double)node->sum.peak_memory_bytes > LIMIT_MEMORY_SHARE * (double)node->memory_bytes) {
            snprintf(text, text_bytes, "%s used all of its memory budget and stopped receiving at times", node->name);
            return CLUSTER_LIMIT_MEMORY;
        }
    }
    const struct cluster_node_report *slowest = find_slowest(report);
    if (busy_share(slowest) >= LIMIT_BUSY_SHARE)
        return limit_cpu(report, slowest, text, text_bytes);
    return limit_wait(report, slowest, text, text_bytes);
}
