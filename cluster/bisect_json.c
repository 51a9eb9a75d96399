/* A measurement of the network as JSON. Rates are bits per second of payload; what was not measured or is not known is
 * null. The same keys are always there, also when nothing was measured. */
#include <stdlib.h>
#include <string.h>

#include "cluster/bisect_report.h"
#include "cluster/json_out.h"

static void put_known(struct json_out *out, json_t *object, const char *key, double value)
{
    json_out_put(out, object, key, value < 0 ? json_null() : json_real(value));
}

static void put_null_or_count(struct json_out *out, json_t *object, const char *key, double value)
{
    json_out_put(out, object, key, value < 0 ? json_null() : json_integer((json_int_t)value));
}

static const char *node_name(const struct bisect_summary *summary, uint32_t node)
{
    return summary->run->schedule.node[node].name;
}

/* What every measurement has: rate, worst window, windows, cost. */
static void put_measured(struct json_out *out, json_t *object, const struct bisect_run *run,
                         const struct cluster_measurement *told)
{
    const struct bisect_cost cost = bisect_cost(told);
    put_known(out, object, "bits_per_second", bisect_rate(run, told));
    put_known(out, object, "worst_window_bits_per_second", bisect_rate_worst(run, told));
    json_t *windows = json_array();
    for (uint32_t i = 0; i < told->window_count; i++)
        json_out_append(out, windows, json_real((double)told->window[i] * 8e9 / (double)run->schedule.window_ns));
    json_out_put(out, object, "windows_bits_per_second", windows);
    json_out_put_count(out, object, "bytes", told->received_bytes);
    json_out_put_count(out, object, "verified_bytes", told->verified_bytes);
    put_null_or_count(out, object, "retransmits", cost.retransmits);
    put_known(out, object, "cpu_seconds_per_gib", cost.cpu_seconds_per_gib);
}

static json_t *make_pairs(struct json_out *out, const struct bisect_summary *summary)
{
    json_t *pairs = json_array();
    for (uint32_t from = 0; from < summary->nodes; from++)
        for (uint32_t to = 0; to < summary->nodes; to++) {
            if (from == to)
                continue;
            const size_t at = (size_t)from * summary->nodes + to;
            json_t *pair = json_object();
            json_out_put_text(out, pair, "from", node_name(summary, from));
            json_out_put_text(out, pair, "to", node_name(summary, to));
            put_known(out, pair, "alone_bits_per_second", summary->alone[at]);
            put_known(out, pair, "rounds_bits_per_second", summary->rounds[at]);
            json_out_append(out, pairs, pair);
        }
    return pairs;
}

static json_t *make_halves(struct json_out *out, const struct bisect_summary *summary,
                           const struct cluster_measurement *told)
{
    json_t *halves = json_array();
    for (uint8_t half = 0; half < 2; half++) {
        json_t *names = json_array();
        for (uint32_t i = 0; i < told->half_size; i++)
            if (told->half[i] == half)
                json_out_append(out, names, json_out_text(node_name(summary, i)));
        json_out_append(out, halves, names);
    }
    return halves;
}

static json_t *make_cut(struct json_out *out, const struct bisect_summary *summary, const struct bisect_cut *cut)
{
    json_t *object = json_object();
    json_out_put(out, object, "halves", make_halves(out, summary, cut->from));
    put_measured(out, object, summary->run, cut->from);
    put_known(out, object, "ideal_bits_per_second", cut->ideal);
    put_known(out, object, "share_of_ideal", cut->ideal > 0 ? cut->rate / cut->ideal : BISECT_UNKNOWN);
    put_known(out, object, "reachable_bits_per_second", cut->reachable > 0 ? cut->reachable : BISECT_UNKNOWN);
    return object;
}

/* All measurements of a kind; of a cast with its node. */
static json_t *make_kind(struct json_out *out, const struct bisect_summary *summary, enum cluster_bisect_kind kind)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < summary->run->count; i++) {
        const struct cluster_measurement *told = &summary->run->measurement[i];
        if (told->kind != kind)
            continue;
        json_t *object = json_object();
        json_out_put_text(out, object, "node", node_name(summary, told->node));
        put_measured(out, object, summary->run, told);
        json_out_append(out, list, object);
    }
    return list;
}

static json_t *make_all_to_all(struct json_out *out, const struct bisect_summary *summary)
{
    for (uint32_t i = 0; i < summary->run->count; i++)
        if (summary->run->measurement[i].kind == CLUSTER_BISECT_ALL_TO_ALL) {
            json_t *object = json_object();
            put_measured(out, object, summary->run, &summary->run->measurement[i]);
            return object;
        }
    return json_null();
}

static json_t *make_slowest_link(struct json_out *out, const struct bisect_summary *summary)
{
    if (summary->slow_link < 0)
        return json_null();
    json_t *object = json_object();
    json_out_put_text(out, object, "from", node_name(summary, summary->slow_from));
    json_out_put_text(out, object, "to", node_name(summary, summary->slow_to));
    put_known(out, object, "bits_per_second", summary->slow_link);
    put_known(out, object, "back_bits_per_second", bisect_pair_rate(summary, summary->slow_to, summary->slow_from));
    return object;
}

static json_t *make_slowest_nic(struct json_out *out, const struct bisect_summary *summary)
{
    if (summary->slow_link < 0)
        return json_null();
    const uint32_t node = summary->slow_card;
    json_t *object = json_object();
    json_out_put_text(out, object, "node", node_name(summary, node));
    json_out_put_text(out, object, "interface", summary->run->schedule.node[node].card.interface);
    json_out_put_text(out, object, "direction", summary->slow_card_sends ? "send" : "receive");
    put_known(out, object, "bits_per_second",
              summary->slow_card_sends ? summary->sends[node] : summary->receives[node]);
    return object;
}

static json_t *make_slowest_node(struct json_out *out, const struct bisect_summary *summary)
{
    if (summary->slow_link < 0)
        return json_null();
    const uint32_t node = summary->slow_node;
    json_t *object = json_object();
    json_out_put_text(out, object, "node", node_name(summary, node));
    put_known(out, object, "send_bits_per_second", summary->sends[node]);
    put_known(out, object, "receive_bits_per_second", summary->receives[node]);
    return object;
}

static json_t *make_nodes(struct json_out *out, const struct bisect_summary *summary)
{
    json_t *nodes = json_array();
    for (uint32_t i = 0; summary && i < summary->nodes; i++) {
        const struct cluster_schedule_node *from = &summary->run->schedule.node[i];
        json_t *node = json_object();
        json_out_put_text(out, node, "name", from->name);
        json_out_put_count(out, node, "workers", from->workers);
        json_out_put_text(out, node, "interface", from->card.interface);
        json_out_put_count(out, node, "interface_mtu", from->card.mtu);
        put_known(out, node, "card_bits_per_second",
                  from->card.bits_per_second ? (double)from->card.bits_per_second : BISECT_UNKNOWN);
        put_known(out, node, "link_send_bits_per_second",
                  summary->link[i].send > 0 ? summary->link[i].send : BISECT_UNKNOWN);
        put_known(out, node, "link_receive_bits_per_second",
                  summary->link[i].receive > 0 ? summary->link[i].receive : BISECT_UNKNOWN);
        json_out_append(out, nodes, node);
    }
    return nodes;
}

static const char *end_word(enum base_status status)
{
    return status == BASE_OK ? "succeeded" : status == BASE_CANCELLED ? "cancelled" : "failed";
}

static void put_error(struct json_out *out, json_t *object, const struct base_error *error)
{
    const bool ok = error->status == BASE_OK;
    json_out_put_text(out, object, "status", end_word(error->status));
    json_out_put(out, object, "error", ok ? json_null() : json_out_text(error->text));
    json_out_put(out, object, "error_code", ok ? json_null() : json_out_text(base_status_name(error->status)));
}

static json_t *make_run(struct json_out *out, const struct bisect_summary *summary)
{
    const struct bisect_run *run = summary->run;
    const struct cluster_report *report = &run->report.report;
    json_t *object = json_object(), *cuts = json_array();
    json_out_put(out, object, "job", run->job ? json_integer((json_int_t)run->job) : json_null());
    put_error(out, object, &report->error);
    json_out_put_text(out, object, "engine", report->engine);
    json_out_put(out, object, "features", json_out_words(out, report->features));
    json_out_put_text(out, object, "engine_reason", report->engine_reason);
    json_out_put_count(out, object, "steps", run->schedule.step_count);
    json_out_put_count(out, object, "steps_measured", run->count);
    json_out_put(out, object, "pairs", make_pairs(out, summary));
    json_out_put(out, object, "all_to_all", make_all_to_all(out, summary));
    json_out_put(out, object, "incast", make_kind(out, summary, CLUSTER_BISECT_INCAST));
    json_out_put(out, object, "outcast", make_kind(out, summary, CLUSTER_BISECT_OUTCAST));
    for (uint32_t i = 0; i < summary->cut_count; i++)
        json_out_append(out, cuts, make_cut(out, summary, &summary->cut[i]));
    json_out_put(out, object, "cuts", cuts);
    json_out_put(out, object, "minimum",
                 summary->cut_count ? make_cut(out, summary, &summary->cut[summary->minimum]) : json_null());
    put_known(out, object, "median_bits_per_second", summary->median);
    json_out_put(out, object, "slowest_link", make_slowest_link(out, summary));
    json_out_put(out, object, "slowest_nic", make_slowest_nic(out, summary));
    json_out_put(out, object, "slowest_node", make_slowest_node(out, summary));
    put_null_or_count(out, object, "retransmits", summary->cost.retransmits);
    put_known(out, object, "gib", summary->cost.gib);
    put_known(out, object, "cpu_seconds_per_gib", summary->cost.cpu_seconds_per_gib);
    json_out_put_count(out, object, "verified_bytes", summary->verified_bytes);
    json_out_put_bool(out, object, "verified", summary->verified);
    json_out_put_text(out, object, "verdict", summary->verdict);
    return object;
}

static json_t *make_settings(struct json_out *out, const struct bisect_report *report,
                             const struct bisect_summary *first)
{
    const struct cluster_schedule *schedule = first ? &first->run->schedule : &(struct cluster_schedule){0};
    json_t *object = json_object();
    json_out_put_real(out, object, "seconds", (double)schedule->duration_ns / 1e9);
    json_out_put_real(out, object, "warmup_seconds", (double)schedule->warmup_ns / 1e9);
    json_out_put_real(out, object, "window_seconds", (double)schedule->window_ns / 1e9);
    json_out_put_real(out, object, "expected_seconds", (double)schedule->expected_ns / 1e9);
    json_out_put(out, object, "streams", report->streams ? json_integer(report->streams) : json_null());
    json_out_put(out, object, "link_rate", report->link_rate ? json_out_text(report->link_rate) : json_null());
    json_out_put(out, object, "mtu", first && first->mtu ? json_integer(first->mtu) : json_null());
    json_out_put(out, object, "segment_bytes",
                 first && first->segment_bytes ? json_integer(first->segment_bytes) : json_null());
    put_known(out, object, "payload_share", first && first->share > 0 ? first->share : BISECT_UNKNOWN);
    return object;
}

char *bisect_report_json(const struct bisect_report *report)
{
    struct json_out out = {0};
    json_t *object = json_object(), *runs = json_array();
    const struct bisect_summary *first = report->count ? &report->summary[0] : NULL;
    put_error(&out, object, &report->error);
    json_out_put_count(&out, object, "exit_code", (uint64_t)report->exit_code);
    json_out_put_text(&out, object, "kind", "bisect");
    json_out_put(&out, object, "settings", make_settings(&out, report, first));
    json_out_put(&out, object, "nodes", make_nodes(&out, first));
    for (uint32_t i = 0; i < report->count; i++)
        json_out_append(&out, runs, make_run(&out, &report->summary[i]));
    json_out_put(&out, object, "runs", runs);
    return json_out_finish(&out, object);
}
