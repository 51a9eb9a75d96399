#include "cluster/report/bisect_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A frame's bytes besides what the MTU counts: the Ethernet header. */
enum { FRAME_HEADER_BYTES = 14 };
/* When a machine counts as busy, and how much of it our workers' must be. */
enum { HOST_BUSY_PERMILLE = 900 };
#define HOST_OURS 0.4

/* ---- what was told ---- */

enum base_status bisect_run_take(struct bisect_run *run, struct cluster_message *message, struct base_error *error)
{
    if (message->kind == CLUSTER_MESSAGE_SCHEDULE && !run->scheduled) {
        run->schedule = message->schedule;
        run->scheduled = true;
    } else if (message->kind == CLUSTER_MESSAGE_MEASUREMENT && run->scheduled) {
        const struct cluster_measurement *told = &message->measurement;
        for (uint32_t i = 0; i < told->flow_count; i++)
            if (told->flow[i].from >= run->schedule.node_count || told->flow[i].to >= run->schedule.node_count)
                return base_error_set(error, BASE_PROTOCOL, "the coordinator measured a node that it did not name");
        if (told->kind == CLUSTER_BISECT_PAIR && told->flow_count != 1)
            return base_error_set(error, BASE_PROTOCOL, "the coordinator measured a pair of %u flows",
                                  told->flow_count);
        const bool cast = told->kind == CLUSTER_BISECT_INCAST || told->kind == CLUSTER_BISECT_OUTCAST;
        if (cast && told->node >= run->schedule.node_count)
            return base_error_set(error, BASE_PROTOCOL, "the coordinator measured a node that it did not name");
        if (told->half_size != (told->kind == CLUSTER_BISECT_CUT ? run->schedule.node_count : 0))
            return base_error_set(error, BASE_PROTOCOL, "the coordinator measured a cut of %u nodes", told->half_size);
        if (run->count == run->room) {
            const uint32_t room = run->room ? 2 * run->room : 64;
            struct cluster_measurement *grown = realloc(run->measurement, room * sizeof *grown);
            if (!grown)
                return base_error_set(error, BASE_NO_MEMORY, "no memory for what was measured");
            run->measurement = grown;
            run->room = room;
        }
        run->measurement[run->count++] = *told;
    } else {
        return base_error_set(error, BASE_PROTOCOL, "the coordinator sent %s, which was not expected now",
                              cluster_message_name(message->kind));
    }
    memset(message, 0, sizeof *message);
    return BASE_OK;
}

void bisect_run_free(struct bisect_run *run)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SCHEDULE};
    message.schedule = run->schedule;
    cluster_message_free(&message);
    for (uint32_t i = 0; i < run->count; i++) {
        message.kind = CLUSTER_MESSAGE_MEASUREMENT;
        message.measurement = run->measurement[i];
        cluster_message_free(&message);
    }
    free(run->measurement);
    cluster_message_free(&run->report);
    memset(run, 0, sizeof *run);
}

/* ---- rates ---- */

static double bits_per_second(uint64_t bytes, uint64_t ns)
{
    return ns ? (double)bytes * 8e9 / (double)ns : 0;
}

static double rate_flow(const struct bisect_run *run, const struct cluster_measurement *measurement, uint32_t flow)
{
    return bits_per_second(measurement->flow_bytes[flow], run->schedule.duration_ns);
}

double bisect_rate(const struct bisect_run *run, const struct cluster_measurement *measurement)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < measurement->flow_count; i++)
        bytes += measurement->flow_bytes[i];
    return bits_per_second(bytes, run->schedule.duration_ns);
}

double bisect_rate_node(const struct bisect_run *run, const struct cluster_measurement *measurement, uint32_t node,
                        bool sending)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < measurement->flow_count; i++)
        if ((sending ? measurement->flow[i].from : measurement->flow[i].to) == node)
            bytes += measurement->flow_bytes[i];
    return bits_per_second(bytes, run->schedule.duration_ns);
}

double bisect_rate_worst(const struct bisect_run *run, const struct cluster_measurement *measurement)
{
    if (measurement->window_count == 0)
        return BISECT_UNKNOWN;
    uint64_t bytes = measurement->window[0];
    for (uint32_t i = 1; i < measurement->window_count; i++)
        bytes = measurement->window[i] < bytes ? measurement->window[i] : bytes;
    return bits_per_second(bytes, run->schedule.window_ns);
}

static uint64_t cpu_ns_of(const struct cluster_bisect_measures *sum)
{
    return sum->cpu_user_ns + sum->cpu_system_ns;
}

double bisect_cpu_seconds_per_gib(const struct cluster_bisect_measures *sum)
{
    const double gib = (double)sum->received_bytes / (double)(1 << 30);
    return gib > 0 ? (double)cpu_ns_of(sum) / 1e9 / gib : BISECT_UNKNOWN;
}

/* A machine that was busy all the time, and with our work: the nodes may share it, so all their workers count. */
bool bisect_processor_bound(const struct bisect_run *run, const struct cluster_measurement *measurement)
{
    const double seconds = (double)(run->schedule.duration_ns + run->schedule.warmup_ns) / 1e9;
    const double cpu = (double)cpu_ns_of(&measurement->sum) / 1e9;
    return measurement->host_busy_permille >= HOST_BUSY_PERMILLE && seconds > 0 &&
           cpu / seconds >= HOST_OURS * measurement->host_processors;
}

void bisect_half_words(const struct bisect_run *run, const struct cluster_measurement *measurement, uint8_t half,
                       char *text, size_t text_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < measurement->half_size; i++) {
        if (measurement->half[i] != half)
            continue;
        const char *name = run->schedule.node[i].name;
        if (used + strlen(name) + 6 >= text_bytes) {
            memcpy(text + used, " ...", 5);
            return;
        }
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", used ? " " : "", name);
    }
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values; those unknown do not count. */
static double median_of(double *value, size_t count)
{
    qsort(value, count, sizeof *value, compare_doubles);
    while (count > 0 && value[0] < 0) {
        value++;
        count--;
    }
    if (count == 0)
        return BISECT_UNKNOWN;
    return count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

/* ---- making a summary ---- */

double bisect_pair_rate(const struct bisect_summary *summary, uint32_t from, uint32_t to)
{
    const size_t at = (size_t)from * summary->nodes + to;
    return summary->alone[at] >= 0 ? summary->alone[at] : summary->rounds[at];
}

/* What a node reaches with any one other. */
static double best_of(const struct bisect_summary *summary, uint32_t node, bool sending)
{
    double best = BISECT_UNKNOWN;
    for (uint32_t i = 0; i < summary->nodes; i++) {
        const double rate = i == node ? 0
                            : sending ? bisect_pair_rate(summary, node, i)
                                      : bisect_pair_rate(summary, i, node);
        best = rate > best ? rate : best;
    }
    return best;
}

/* What may cross both ways: in each direction the smaller of what one half sends and the other receives. */
static double summary_crossing(const double send[2], const double receive[2])
{
    const double there = send[0] < receive[1] ? send[0] : receive[1];
    const double back = send[1] < receive[0] ? send[1] : receive[0];
    return there + back;
}

static void judge_cut(const struct bisect_summary *summary, struct bisect_cut *cut)
{
    double send[2] = {0}, receive[2] = {0}, best_send[2] = {0}, best_receive[2] = {0};
    bool known = summary->share > 0;
    for (uint32_t i = 0; i < summary->nodes; i++) {
        const uint8_t half = cut->from->half[i];
        known = known && summary->link[i].send > 0;
        send[half] += summary->link[i].send;
        receive[half] += summary->link[i].receive;
        best_send[half] += fmax(summary->best_sends[i], 0);
        best_receive[half] += fmax(summary->best_receives[i], 0);
    }
    cut->links = known ? summary_crossing(send, receive) : BISECT_UNKNOWN;
    cut->ideal = known ? summary_crossing(send, receive) * summary->share : BISECT_UNKNOWN;
    cut->reachable = summary_crossing(best_send, best_receive);
}

/* Of a cut that was measured again, the better counts. */
static void take_cut(struct bisect_summary *summary, const struct cluster_measurement *told, double rate)
{
    uint32_t at = 0;
    while (at < summary->cut_count && memcmp(summary->cut[at].from->half, told->half, told->half_size) != 0)
        at++;
    if (at < summary->cut_count && summary->cut[at].rate >= rate)
        return;
    summary->cut[at] = (struct bisect_cut){.from = told, .rate = rate, .worst = bisect_rate_worst(summary->run, told)};
    summary->cut_count += at == summary->cut_count;
}

static void take_measurement(struct bisect_summary *summary, const struct cluster_measurement *told)
{
    const struct bisect_run *run = summary->run;
    const double rate = bisect_rate(run, told);
    double *matrix = told->kind == CLUSTER_BISECT_PAIR ? summary->alone : summary->rounds;
    switch (told->kind) {
    case CLUSTER_BISECT_PAIR:
    case CLUSTER_BISECT_ROUND:
        for (uint32_t i = 0; i < told->flow_count; i++) {
            double *best = &matrix[(size_t)told->flow[i].from * summary->nodes + told->flow[i].to];
            *best = fmax(*best, rate_flow(run, told, i));
        }
        break;
    case CLUSTER_BISECT_ALL_TO_ALL:
        summary->all_to_all = rate;
        summary->all_to_all_worst = bisect_rate_worst(run, told);
        break;
    case CLUSTER_BISECT_INCAST:
        summary->incast[told->node] = rate;
        break;
    case CLUSTER_BISECT_OUTCAST:
        summary->outcast[told->node] = rate;
        break;
    default:
        take_cut(summary, told, rate);
        break;
    }
}

static void sum_up(struct bisect_summary *summary)
{
    const struct cluster_bisect_measures *sum = &summary->sum;
    for (uint32_t i = 0; i < summary->run->count; i++)
        cluster_bisect_measures_add_node(&summary->sum, &summary->run->measurement[i].sum);
    summary->verified = sum->verified_bytes > 0; /* bytes that differed would have ended the job */
    if (sum->mtu && sum->segment_bytes && sum->segment_bytes < sum->mtu)
        summary->share = (double)sum->segment_bytes / (double)(sum->mtu + FRAME_HEADER_BYTES);
}

/* What a node has, given the rates of its paths. In rounds others may use them too: there only the best tells. */
static double node_rate(const struct bisect_summary *summary, double *scratch, double best)
{
    const double median = median_of(scratch, summary->nodes);
    return summary->run->count > 0 && summary->run->measurement[0].kind == CLUSTER_BISECT_PAIR ? median : best;
}

static void find_slow_nodes(struct bisect_summary *summary, double *scratch)
{
    const uint32_t nodes = summary->nodes;
    double slowest_card = BISECT_UNKNOWN, slowest_node = BISECT_UNKNOWN;
    for (uint32_t i = 0; i < nodes; i++) {
        summary->best_sends[i] = best_of(summary, i, true);
        summary->best_receives[i] = best_of(summary, i, false);
        for (uint32_t j = 0; j < nodes; j++)
            scratch[j] = i == j ? BISECT_UNKNOWN : bisect_pair_rate(summary, i, j);
        summary->sends[i] = node_rate(summary, scratch, summary->best_sends[i]);
        for (uint32_t j = 0; j < nodes; j++)
            scratch[j] = i == j ? BISECT_UNKNOWN : bisect_pair_rate(summary, j, i);
        summary->receives[i] = node_rate(summary, scratch, summary->best_receives[i]);
        const double sends = summary->sends[i], receives = summary->receives[i];
        if (sends < 0 || receives < 0)
            continue;
        const double card = sends < receives ? sends : receives;
        if (slowest_card < 0 || card < slowest_card) {
            slowest_card = card;
            summary->slow_card = i;
            summary->slow_card_sends = sends <= receives;
        }
        if (slowest_node < 0 || sends + receives < slowest_node) {
            slowest_node = sends + receives;
            summary->slow_node = i;
        }
    }
    for (uint32_t i = 0; i < nodes; i++) {
        scratch[i] = summary->best_sends[i];
        scratch[nodes + i] = summary->best_receives[i];
    }
    summary->best_median = median_of(scratch, 2 * (size_t)nodes);
}

static void find_slow(struct bisect_summary *summary, double *scratch)
{
    const uint32_t nodes = summary->nodes;
    size_t all = 0;
    for (uint32_t from = 0; from < nodes; from++)
        for (uint32_t to = 0; to < nodes; to++) {
            const double rate = from == to ? BISECT_UNKNOWN : bisect_pair_rate(summary, from, to);
            scratch[all++] = rate;
            if (rate < 0 || (summary->slow_link >= 0 && rate >= summary->slow_link))
                continue;
            summary->slow_link = rate;
            summary->slow_from = from;
            summary->slow_to = to;
        }
    summary->pair_median = median_of(scratch, all);
    find_slow_nodes(summary, scratch);
}

static void summary_judge_processors(struct bisect_summary *summary, double *scratch)
{
    size_t steps = 0, bound = 0;
    for (uint32_t i = 0; i < summary->run->count; i++) {
        const struct cluster_measurement *told = &summary->run->measurement[i];
        if (told->kind != CLUSTER_BISECT_PAIR && told->kind != CLUSTER_BISECT_ROUND && told->kind != CLUSTER_BISECT_CUT)
            continue;
        scratch[steps++] = told->host_busy_permille / 1000.0;
        bound += bisect_processor_bound(summary->run, told);
    }
    summary->processor_bound = steps ? (double)bound / (double)steps : 0;
    summary->host_busy = median_of(scratch, steps);
}

static void judge_cuts(struct bisect_summary *summary, double *scratch)
{
    for (uint32_t i = 0; i < summary->cut_count; i++) {
        judge_cut(summary, &summary->cut[i]);
        scratch[i] = summary->cut[i].rate;
        if (summary->cut[i].rate < summary->cut[summary->minimum].rate)
            summary->minimum = i;
    }
    summary->median = median_of(scratch, summary->cut_count);
}

static enum base_status find_links(struct bisect_summary *summary, const char *link_rate, struct base_error *error)
{
    for (uint32_t i = 0; i < summary->nodes; i++) {
        const struct cluster_schedule_node *node = &summary->run->schedule.node[i];
        const enum base_status status = bisect_links_find(link_rate, node->name, &summary->link[i], error);
        if (status != BASE_OK)
            return status;
        if (summary->link[i].send <= 0)
            summary->link[i] =
                (struct bisect_link){(double)node->card.bits_per_second, (double)node->card.bits_per_second};
    }
    return BASE_OK;
}

static double *make_doubles(size_t count)
{
    double *value = calloc(count + 1, sizeof *value);
    for (size_t i = 0; value && i < count; i++)
        value[i] = BISECT_UNKNOWN;
    return value;
}

enum base_status bisect_summary_make(const struct bisect_run *run, const char *link_rate,
                                     struct bisect_summary *summary, struct base_error *error)
{
    const uint32_t nodes = run->schedule.node_count;
    const size_t pairs = (size_t)nodes * nodes;
    double *scratch = make_doubles(pairs + 2 * (size_t)nodes + run->count);
    *summary = (struct bisect_summary){.run = run,
                                       .nodes = nodes,
                                       .link = calloc((size_t)nodes + 1, sizeof *summary->link),
                                       .alone = make_doubles(pairs),
                                       .rounds = make_doubles(pairs),
                                       .incast = make_doubles(nodes),
                                       .outcast = make_doubles(nodes),
                                       .sends = make_doubles(nodes),
                                       .receives = make_doubles(nodes),
                                       .best_sends = make_doubles(nodes),
                                       .best_receives = make_doubles(nodes),
                                       .best_median = BISECT_UNKNOWN,
                                       .cut = calloc((size_t)run->count + 1, sizeof *summary->cut),
                                       .all_to_all = BISECT_UNKNOWN,
                                       .all_to_all_worst = BISECT_UNKNOWN,
                                       .median = BISECT_UNKNOWN,
                                       .slow_link = BISECT_UNKNOWN};
    enum base_status status = BASE_OK;
    if (!scratch || !summary->link || !summary->alone || !summary->rounds || !summary->incast || !summary->outcast ||
        !summary->sends || !summary->receives || !summary->best_sends || !summary->best_receives || !summary->cut)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for the summary of a measurement");
    if (status == BASE_OK)
        status = find_links(summary, link_rate, error);
    if (status == BASE_OK) {
        for (uint32_t i = 0; i < run->count; i++)
            take_measurement(summary, &run->measurement[i]);
        sum_up(summary);
        find_slow(summary, scratch);
        judge_cuts(summary, scratch);
        summary_judge_processors(summary, scratch);
        bisect_verdict(summary);
    }
    free(scratch);
    if (status != BASE_OK)
        bisect_summary_free(summary);
    return status;
}

void bisect_summary_free(struct bisect_summary *summary)
{
    free(summary->link);
    free(summary->alone);
    free(summary->rounds);
    free(summary->incast);
    free(summary->outcast);
    free(summary->best_sends);
    free(summary->best_receives);
    free(summary->sends);
    free(summary->receives);
    free(summary->cut);
    memset(summary, 0, sizeof *summary);
}
