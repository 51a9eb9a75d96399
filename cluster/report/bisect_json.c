/* A measurement of the network as JSON. Rates are payload in Gbit/s; what was not measured or is not known is null. The
 * same keys are always there, also when nothing was measured. What one engine came to is an object of `runs`; the first
 * of them is the report's own, too. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/report/bisect_report.h"
#include "cluster/report/json_out.h"

#define GBIT 1e9

static void bisect_put_known(struct json_out *out, json_t *object, const char *key, double value)
{
    json_out_put(out, object, key, value < 0 ? json_null() : json_real(value));
}

static json_t *make_rate(double bits_per_second)
{
    return bits_per_second < 0 ? json_null() : json_real(bits_per_second / GBIT);
}

static void put_rate(struct json_out *out, json_t *object, const char *key, double bits_per_second)
{
    json_out_put(out, object, key, make_rate(bits_per_second));
}

/* What was counted in a step, or in all. */
static void put_counted(struct json_out *out, json_t *object, const struct cluster_bisect_measures *sum)
{
    json_out_put_measures(out, object, cluster_bisect_measure, CLUSTER_BISECT_MEASURES, sum, BASE_SHOWN_JOB);
    json_out_put_per_gib(out, object, cluster_bisect_measure, CLUSTER_BISECT_MEASURES, sum, sum->received_bytes);
}

static json_t *make_name(const struct bisect_summary *summary, uint32_t node)
{
    return json_out_text(summary->run->schedule.node[node].name);
}

static json_t *make_half(struct json_out *out, const struct bisect_summary *summary,
                         const struct cluster_measurement *told, uint8_t half)
{
    json_t *names = json_array();
    for (uint32_t i = 0; told && i < told->half_size; i++)
        if (told->half[i] == half)
            json_out_append(out, names, make_name(summary, i));
    return names;
}

static json_t *make_windows(struct json_out *out, const struct bisect_run *run, const struct cluster_measurement *told)
{
    json_t *windows = json_array();
    for (uint32_t i = 0; told && i < told->window_count; i++)
        json_out_append(out, windows, make_rate((double)told->window[i] * 8e9 / (double)run->schedule.window_ns));
    return windows;
}

/* What every measurement has: rate, worst window, windows, cost. */
static void put_measured(struct json_out *out, json_t *object, const struct bisect_run *run,
                         const struct cluster_measurement *told)
{
    put_rate(out, object, "gbit_per_second", bisect_rate(run, told));
    put_rate(out, object, "worst_window_gbit_per_second", bisect_rate_worst(run, told));
    json_out_put(out, object, "windows_gbit_per_second", make_windows(out, run, told));
    put_counted(out, object, &told->sum);
    json_out_put_real(out, object, "host_busy_share", told->host_busy_permille / 1000.0);
    json_out_put_bool(out, object, "processor_bound", bisect_processor_bound(run, told));
}

/* Row sends to column; null on the diagonal. */
static json_t *make_matrix(struct json_out *out, const struct bisect_summary *summary, const double *matrix)
{
    json_t *rows = json_array();
    for (uint32_t from = 0; from < summary->nodes; from++) {
        json_t *row = json_array();
        for (uint32_t to = 0; to < summary->nodes; to++)
            json_out_append(out, row, make_rate(matrix[(size_t)from * summary->nodes + to]));
        json_out_append(out, rows, row);
    }
    return rows;
}

static json_t *make_list(struct json_out *out, const struct bisect_summary *summary, const double *rate)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < summary->nodes; i++)
        json_out_append(out, list, make_rate(rate[i]));
    return list;
}

static json_t *json_make_all_to_all(struct json_out *out, const struct bisect_summary *summary)
{
    json_t *object = json_object(), *per_node = json_array();
    put_rate(out, object, "gbit_per_second", summary->all_to_all);
    put_rate(out, object, "busbw_gbit_per_second",
             summary->all_to_all < 0 ? BISECT_UNKNOWN : summary->all_to_all / summary->nodes);
    put_rate(out, object, "worst_window_gbit_per_second", summary->all_to_all_worst);
    const struct cluster_measurement *told = NULL;
    for (uint32_t i = 0; i < summary->run->count; i++)
        if (summary->run->measurement[i].kind == CLUSTER_BISECT_ALL_TO_ALL)
            told = &summary->run->measurement[i];
    json_out_put(out, object, "windows_gbit_per_second", make_windows(out, summary->run, told));
    for (uint32_t i = 0; told && i < summary->nodes; i++) {
        json_t *node = json_object();
        json_out_put(out, node, "node", make_name(summary, i));
        put_rate(out, node, "send_gbit_per_second", bisect_rate_node(summary->run, told, i, true));
        put_rate(out, node, "receive_gbit_per_second", bisect_rate_node(summary->run, told, i, false));
        json_out_append(out, per_node, node);
    }
    json_out_put(out, object, "per_node", per_node);
    return object;
}

static json_t *make_cut(struct json_out *out, const struct bisect_summary *summary, const struct bisect_cut *cut)
{
    json_t *object = json_object();
    json_out_put(out, object, "half", make_half(out, summary, cut->from, 0));
    json_out_put(out, object, "other", make_half(out, summary, cut->from, 1));
    json_out_put_text(out, object, "origin", cluster_bisect_origin_word(cut->from->origin));
    put_rate(out, object, "ideal_gbit_per_second", cut->ideal);
    bisect_put_known(out, object, "of_ideal", cut->ideal > 0 ? cut->rate / cut->ideal : BISECT_UNKNOWN);
    put_rate(out, object, "reachable_gbit_per_second", cut->reachable > 0 ? cut->reachable : BISECT_UNKNOWN);
    put_measured(out, object, summary->run, cut->from);
    return object;
}

/* The smallest cut; its keys are there also when no cut was measured. */
static json_t *make_bisection(struct json_out *out, const struct bisect_summary *summary)
{
    static const struct bisect_cut none = {.rate = BISECT_UNKNOWN, .worst = BISECT_UNKNOWN, .ideal = BISECT_UNKNOWN};
    const struct bisect_cut *cut = summary->cut_count ? &summary->cut[summary->minimum] : &none;
    json_t *object = json_object();
    json_out_put(out, object, "half", make_half(out, summary, cut->from, 0));
    json_out_put(out, object, "other", make_half(out, summary, cut->from, 1));
    put_rate(out, object, "gbit_per_second", cut->rate);
    put_rate(out, object, "ideal_gbit_per_second", cut->ideal);
    bisect_put_known(out, object, "of_ideal", cut->ideal > 0 ? cut->rate / cut->ideal : BISECT_UNKNOWN);
    put_rate(out, object, "median_gbit_per_second", summary->median);
    put_rate(out, object, "worst_window_gbit_per_second", cut->worst);
    return object;
}

static json_t *make_nic(struct json_out *out, const struct bisect_summary *summary)
{
    const uint32_t node = summary->slow_card;
    json_t *object = json_object();
    json_out_put(out, object, "node", make_name(summary, node));
    json_out_put_text(out, object, "interface", summary->run->schedule.node[node].card.interface);
    json_out_put_text(out, object, "direction", summary->slow_card_sends ? "send" : "receive");
    put_rate(out, object, "gbit_per_second", summary->slow_card_sends ? summary->sends[node] : summary->receives[node]);
    return object;
}

static json_t *make_slowest(struct json_out *out, const struct bisect_summary *summary)
{
    const bool known = summary->slow_link >= 0;
    BASE_ASSERT(!known || (summary->sends && summary->receives));
    const uint32_t node = summary->slow_node;
    json_t *object = json_object(), *link = json_array();
    json_out_put(out, object, "node", known ? make_name(summary, node) : json_null());
    put_rate(out, object, "node_send_gbit_per_second", known ? summary->sends[node] : BISECT_UNKNOWN);
    put_rate(out, object, "node_receive_gbit_per_second", known ? summary->receives[node] : BISECT_UNKNOWN);
    if (known) {
        json_out_append(out, link, make_name(summary, summary->slow_from));
        json_out_append(out, link, make_name(summary, summary->slow_to));
    }
    json_out_put(out, object, "link", link);
    put_rate(out, object, "link_gbit_per_second", summary->slow_link);
    put_rate(out, object, "link_back_gbit_per_second",
             known ? bisect_pair_rate(summary, summary->slow_to, summary->slow_from) : BISECT_UNKNOWN);
    put_rate(out, object, "link_median_gbit_per_second", summary->pair_median);
    json_out_put(out, object, "nic", known ? make_nic(out, summary) : json_null());
    return object;
}

/* Every step, in the order of measuring. */
static json_t *make_measurements(struct json_out *out, const struct bisect_summary *summary)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < summary->run->count; i++) {
        const struct cluster_measurement *told = &summary->run->measurement[i];
        const bool pair = told->kind == CLUSTER_BISECT_PAIR;
        const bool cast = told->kind == CLUSTER_BISECT_INCAST || told->kind == CLUSTER_BISECT_OUTCAST;
        json_t *object = json_object();
        json_out_put_text(out, object, "kind", cluster_bisect_kind_word(told->kind));
        json_out_put(out, object, "node", cast ? make_name(summary, told->node) : json_null());
        json_out_put(out, object, "from", pair ? make_name(summary, told->flow[0].from) : json_null());
        json_out_put(out, object, "to", pair ? make_name(summary, told->flow[0].to) : json_null());
        json_out_put(out, object, "half", told->half_size ? make_half(out, summary, told, 0) : json_null());
        put_measured(out, object, summary->run, told);
        json_out_append(out, list, object);
    }
    return list;
}

static void put_names(struct json_out *out, json_t *object, const struct bisect_summary *summary)
{
    json_t *names = json_array(), *rates = json_array(), *cards = json_array();
    for (uint32_t i = 0; i < summary->nodes; i++) {
        const struct cluster_schedule_node *from = &summary->run->schedule.node[i];
        const struct bisect_link *link = &summary->link[i];
        const double smaller = link->send < link->receive ? link->send : link->receive;
        json_t *card = json_object();
        json_out_append(out, names, make_name(summary, i));
        json_out_append(out, rates, smaller > 0 ? make_rate(smaller) : json_null());
        json_out_put_count(out, card, "workers", from->workers);
        json_out_put_text(out, card, "interface", from->card.interface);
        json_out_put_count(out, card, "mtu", from->card.mtu);
        put_rate(out, card, "card_gbit",
                 from->card.bits_per_second ? (double)from->card.bits_per_second : BISECT_UNKNOWN);
        put_rate(out, card, "link_send_gbit", link->send > 0 ? link->send : BISECT_UNKNOWN);
        put_rate(out, card, "link_receive_gbit", link->receive > 0 ? link->receive : BISECT_UNKNOWN);
        json_out_append(out, cards, card);
    }
    json_out_put(out, object, "nodes", names);
    json_out_put(out, object, "link_rate_gbit", rates);
    json_out_put(out, object, "cards", cards);
}

static const char *bisect_end_word(enum base_status status)
{
    return status == BASE_OK ? "succeeded" : status == BASE_CANCELLED ? "cancelled" : "failed";
}

static void put_error(struct json_out *out, json_t *object, const struct base_error *error)
{
    const bool ok = error->status == BASE_OK;
    json_out_put_text(out, object, "status", bisect_end_word(error->status));
    json_out_put(out, object, "error", ok ? json_null() : json_out_text(error->text));
    json_out_put(out, object, "error_code", ok ? json_null() : json_out_text(base_status_name(error->status)));
}

/* What one engine came to. */
static void put_run(struct json_out *out, json_t *object, const struct bisect_summary *summary)
{
    const struct bisect_run *run = summary->run;
    const struct cluster_report *report = &run->report.report;
    json_t *cuts = json_array();
    json_out_put(out, object, "job", run->job ? json_integer((json_int_t)run->job) : json_null());
    json_out_put_text(out, object, "engine", report->engine);
    json_out_put(out, object, "features", json_out_words(out, report->features));
    json_out_put_text(out, object, "engine_reason", report->engine_reason);
    json_out_put_count(out, object, "steps", run->schedule.step_count);
    json_out_put_count(out, object, "steps_measured", run->count);
    json_out_put(out, object, "pairs", make_matrix(out, summary, summary->alone));
    json_out_put(out, object, "rounds", make_matrix(out, summary, summary->rounds));
    json_out_put(out, object, "all_to_all", json_make_all_to_all(out, summary));
    json_out_put(out, object, "incast", make_list(out, summary, summary->incast));
    json_out_put(out, object, "outcast", make_list(out, summary, summary->outcast));
    for (uint32_t i = 0; i < summary->cut_count; i++)
        json_out_append(out, cuts, make_cut(out, summary, &summary->cut[i]));
    json_out_put(out, object, "cuts", cuts);
    json_out_put(out, object, "bisection", make_bisection(out, summary));
    json_out_put(out, object, "slowest", make_slowest(out, summary));
    json_out_put(out, object, "measurements", make_measurements(out, summary));
    json_out_put_real(out, object, "seconds", report->seconds);
    put_counted(out, object, &summary->sum);
    json_out_put_bool(out, object, "verified", summary->verified);
    json_out_put_text(out, object, "verdict", summary->verdict);
}

static json_t *make_settings(struct json_out *out, const struct bisect_report *report,
                             const struct bisect_summary *first)
{
    const struct cluster_schedule *schedule = &first->run->schedule;
    json_t *object = json_object();
    json_out_put_real(out, object, "seconds_per_step", (double)schedule->duration_ns / 1e9);
    json_out_put_real(out, object, "warmup_seconds", (double)schedule->warmup_ns / 1e9);
    json_out_put_real(out, object, "window_seconds", (double)schedule->window_ns / 1e9);
    json_out_put_real(out, object, "expected_seconds", (double)schedule->expected_ns / 1e9);
    json_out_put(out, object, "streams", report->streams ? json_integer(report->streams) : json_null());
    json_out_put(out, object, "link_rate", report->link_rate ? json_out_text(report->link_rate) : json_null());
    json_out_put(out, object, "mtu", first->sum.mtu ? json_integer((json_int_t)first->sum.mtu) : json_null());
    json_out_put(out, object, "segment_bytes",
                 first->sum.segment_bytes ? json_integer((json_int_t)first->sum.segment_bytes) : json_null());
    bisect_put_known(out, object, "payload_share", first->share > 0 ? first->share : BISECT_UNKNOWN);
    return object;
}

char *bisect_report_json(const struct bisect_report *report)
{
    static const struct bisect_run no_run;
    static const struct bisect_summary nothing = {.run = &no_run,
                                                  .all_to_all = BISECT_UNKNOWN,
                                                  .all_to_all_worst = BISECT_UNKNOWN,
                                                  .median = BISECT_UNKNOWN,
                                                  .pair_median = BISECT_UNKNOWN,
                                                  .slow_link = BISECT_UNKNOWN,
                                                  .verdict = "Nothing was measured."};
    struct json_out out = {0};
    json_t *object = json_object(), *runs = json_array();
    const struct bisect_summary *first = report->count ? &report->summary[0] : &nothing;
    put_error(&out, object, &report->error);
    json_out_put_count(&out, object, "exit_code", (uint64_t)report->exit_code);
    json_out_put_text(&out, object, "kind", "bisect");
    json_out_put(&out, object, "settings", make_settings(&out, report, first));
    put_names(&out, object, first);
    put_run(&out, object, first);
    for (uint32_t i = 0; i < report->count; i++) {
        json_t *run = json_object();
        put_error(&out, run, &report->summary[i].run->report.report.error);
        put_run(&out, run, &report->summary[i]);
        json_out_append(&out, runs, run);
    }
    json_out_put(&out, object, "runs", runs);
    return json_out_finish(&out, object);
}
