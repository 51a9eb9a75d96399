/* Reports and lists as JSON. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/build.h"
#include "cluster/report/json_out.h"
#include "cluster/report/report.h"
#include "net/engine/rung.h"

static const char *kind_word(enum cluster_job_kind kind)
{
    return kind == CLUSTER_KIND_JOIN ? "join" : kind == CLUSTER_KIND_SHUFFLE ? "shuffle" : "bisect";
}

static const char *side_word(uint32_t side)
{
    return side == 0 ? "left" : "right";
}

static const char *end_word(enum base_status status)
{
    return status == BASE_OK ? "succeeded" : status == BASE_CANCELLED ? "cancelled" : "failed";
}

static json_t *report_make_socket(struct json_out *out, const struct net_socket_facts *facts)
{
    if (!facts->known)
        return json_null();
    json_t *object = json_object(), *offloads = json_object();
    json_out_put_text(out, object, "congestion", facts->congestion);
    json_out_put_count(out, object, "send_buffer_bytes", facts->send_buffer_bytes);
    json_out_put_count(out, object, "recv_buffer_bytes", facts->recv_buffer_bytes);
    json_out_put(out, object, "notsent_lowat_bytes",
                 facts->notsent_lowat_bytes == 0 ? json_null() : json_integer(facts->notsent_lowat_bytes));
    json_out_put_bool(out, object, "nodelay", facts->nodelay);
    json_out_put_count(out, object, "mss_bytes", facts->mss_bytes);
    json_out_put_count(out, object, "mtu_bytes", facts->mtu_bytes);
    json_out_put(out, object, "interface", *facts->interface ? json_out_text(facts->interface) : json_null());
    for (int kind = 0; kind < NET_OFFLOAD_KINDS; kind++)
        json_out_put_text(out, offloads, net_offload_kind_word((enum net_offload_kind)kind),
                          net_offload_word(facts->offload[kind]));
    json_out_put(out, object, "offloads", offloads);
    return object;
}

/* All measures of a job or of a node. */
static void json_put_measures(struct json_out *out, json_t *object, const struct cluster_measures *measures,
                              enum base_shown where)
{
    json_out_put_measures(out, object, cluster_measure(0), CLUSTER_MEASURES, measures, where);
}

/* What a GiB that crossed a node boundary cost. */
static json_t *make_per_gib(struct json_out *out, const struct cluster_report *report)
{
    if (report->sum.bytes_sent == 0)
        return json_null();
    json_t *object = json_object();
    json_out_put_per_gib(out, object, cluster_measure(0), CLUSTER_MEASURES, &report->sum, report->sum.bytes_sent);
    return object;
}

static json_t *make_node(struct json_out *out, const struct cluster_node_report *node)
{
    json_t *object = json_object();
    json_out_put_text(out, object, "name", node->name);
    json_out_put_count(out, object, "workers", node->workers);
    json_out_put_count(out, object, "memory_bytes", node->memory_bytes);
    json_put_measures(out, object, &node->sum, BASE_SHOWN_NODE);
    json_out_put(out, object, "socket", report_make_socket(out, &node->facts));
    json_out_put_text(out, object, "engine_decision", node->engine_decision);
    return object;
}

static json_t *make_links(struct json_out *out, const struct cluster_report *report)
{
    json_t *matrix = json_array();
    for (uint32_t from = 0; from < report->node_count; from++) {
        json_t *row = json_array();
        for (uint32_t to = 0; to < report->node_count; to++) {
            const uint64_t bytes = report->link ? report->link[(size_t)from * report->node_count + to] : 0;
            json_out_append(out, row, json_integer((json_int_t)(bytes > INT64_MAX ? INT64_MAX : bytes)));
        }
        json_out_append(out, matrix, row);
    }
    return matrix;
}

/* The first of the rows that were left out, of both sides. */
static json_t *make_skipped(struct json_out *out, const struct cluster_report *report)
{
    json_t *rows = json_array();
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < report->skipped[side].row_count; i++) {
            const struct cluster_skipped_row *from = &report->skipped[side].row[i];
            json_t *row = json_object();
            json_out_put_text(out, row, "side", side_word(side));
            json_out_put(out, row, "node", *from->node ? json_out_text(from->node) : json_null());
            json_out_put_text(out, row, "file", from->path);
            json_out_put_count(out, row, "line", from->line);
            json_out_put_text(out, row, "reason", from->reason);
            json_out_append(out, rows, row);
        }
    return rows;
}

static void put_result(struct json_out *out, json_t *object, const struct cluster_report *report, const char *folder)
{
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, report->sum.task.checksum);
    json_out_put_text(out, object, "checksum", checksum);
    json_out_put(out, object, "out", folder ? json_out_text(folder) : json_null());
    json_out_put_count(out, object, "rows_skipped_left", report->skipped[0].count);
    json_out_put_count(out, object, "rows_skipped_right", report->skipped[1].count);
    json_out_put(out, object, "skipped", make_skipped(out, report));
    json_out_put(out, object, "join_type",
                 report->kind == CLUSTER_KIND_JOIN ? json_out_text(join_type_word(report->type)) : json_null());
    json_out_put_text(out, object, "build_side", side_word(report->build_side));
    json_put_measures(out, object, &report->sum, BASE_SHOWN_JOB);
}

static void put_cost(struct json_out *out, json_t *object, const struct cluster_report *report)
{
    json_t *spans = json_object(), *nodes = json_array();
    json_out_put_real(out, object, "seconds", report->seconds);
    json_out_put_real(out, object, "exchange_seconds", cluster_seconds(report->sum.exchange_ns));
#define X(name) json_out_put_real(out, spans, #name, report->spans.name##_seconds);
    CLUSTER_SPAN_LIST(X)
#undef X
    json_out_put(out, object, "spans", spans);
    json_out_put_text(out, object, "limit", cluster_limit_words(report->limit));
    json_out_put_text(out, object, "limit_reason", report->limit_words);
    json_out_put_text(out, object, "engine", report->engine);
    json_out_put(out, object, "features", json_out_words(out, report->features));
    json_out_put_text(out, object, "engine_reason", report->engine_reason);
    json_out_put_bool(out, object, "verified", report->verified);
    json_out_put(out, object, "per_gib", make_per_gib(out, report));
    json_out_put_count(out, object, "workers", report->workers);
    for (uint32_t i = 0; i < report->node_count; i++)
        json_out_append(out, nodes, make_node(out, &report->node[i]));
    json_out_put(out, object, "nodes", nodes);
    json_out_put(out, object, "links", make_links(out, report));
}

char *report_json(const struct cluster_report *report, uint64_t job, const char *out_folder, int exit_code)
{
    struct json_out out = {0};
    json_t *object = json_object();
    json_out_put_text(&out, object, "status", end_word(report->error.status));
    json_out_put(&out, object, "error",
                 report->error.status == BASE_OK ? json_null() : json_out_text(report->error.text));
    json_out_put(&out, object, "error_code",
                 report->error.status == BASE_OK ? json_null() : json_out_text(base_status_name(report->error.status)));
    json_out_put_count(&out, object, "exit_code", (uint64_t)exit_code);
    json_out_put(&out, object, "job", job ? json_integer((json_int_t)job) : json_null());
    json_out_put_text(&out, object, "kind", kind_word(report->kind));
    put_result(&out, object, report, out_folder);
    put_cost(&out, object, report);
    return json_out_finish(&out, object);
}

char *report_nodes_json(const struct cluster_nodes *nodes)
{
    struct json_out out = {0};
    json_t *object = json_object(), *array = json_array();
    json_out_put_bool(&out, object, "complete", report_nodes_complete(nodes));
    json_out_put_count(&out, object, "nodes_expected", nodes->nodes_expected);
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct cluster_node_entry *entry = &nodes->entry[i];
        json_t *node = json_object();
        json_out_put_text(&out, node, "name", entry->name);
        json_out_put_text(&out, node, "state", entry->state == CLUSTER_NODE_MISSING ? "missing" : "ready");
        json_out_put_bool(&out, node, "running", entry->state == CLUSTER_NODE_RUNNING);
        json_out_put_text(&out, node, "address", entry->address);
        json_out_put_count(&out, node, "pid", entry->pid);
        json_out_put_count(&out, node, "workers", entry->workers);
        json_out_put_count(&out, node, "memory_bytes", entry->memory_bytes);
        json_out_put_text(&out, node, "engine", entry->engine);
        json_out_put(&out, node, "features", json_out_words(&out, entry->features));
        json_out_put_text(&out, node, "engine_reason", entry->engine_reason);
        json_out_put_text(&out, node, "placement", entry->placement);
        json_out_put_text(&out, node, "build", entry->build);
        json_out_put_real(&out, node, "silent_seconds", entry->seconds);
        json_out_append(&out, array, node);
    }
    json_out_put(&out, object, "nodes", array);
    return json_out_finish(&out, object);
}

char *report_jobs_json(const struct cluster_jobs *jobs)
{
    struct json_out out = {0};
    json_t *object = json_object(), *array = json_array();
    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct cluster_job_entry *entry = &jobs->entry[i];
        json_t *job = json_object();
        json_out_put_count(&out, job, "job", entry->job);
        json_out_put_text(&out, job, "kind", kind_word(entry->kind));
        json_out_put_text(&out, job, "state", report_job_state_word(entry->state));
        json_out_put_text(&out, job, "phase", cluster_phase_words(entry->phase));
        json_out_put_text(&out, job, "words", entry->words);
        json_out_put(&out, job, "error", entry->error && *entry->error ? json_out_text(entry->error) : json_null());
        json_out_put_count(&out, job, "rows", entry->rows);
        json_out_put_real(&out, job, "seconds", entry->seconds);
        json_out_append(&out, array, job);
    }
    json_out_put(&out, object, "jobs", array);
    return json_out_finish(&out, object);
}

char *report_key_json(const char *file)
{
    struct json_out out = {0};
    json_t *object = json_object();
    json_out_put_text(&out, object, "key_file", file);
    return json_out_finish(&out, object);
}

char *report_version_json(void)
{
    struct json_out out = {0};
    json_t *object = json_object();
    json_out_put_text(&out, object, "version", base_build_id());
    char protocol[16];
    snprintf(protocol, sizeof protocol, "%08" PRIx32, base_build_protocol());
    json_out_put_text(&out, object, "protocol", protocol);
    return json_out_finish(&out, object);
}

char *report_engines_json(void)
{
    struct json_out out = {0};
    json_t *array = json_array();
    for (int kind = NET_ENGINE_AUTO + 1; kind < NET_ENGINE_KIND_COUNT; kind++) {
        const uint32_t set = net_rung_features((enum net_engine_kind)kind);
        char features[256];
        net_features_format(set & ~(uint32_t)NET_FEATURE_URING, features, sizeof features);
        json_t *rung = json_object();
        json_out_put_text(&out, rung, "rung", net_rung_word((enum net_engine_kind)kind));
        json_out_put_text(&out, rung, "engine", set & NET_FEATURE_URING ? "io_uring" : "epoll");
        json_out_put_text(&out, rung, "idea", net_rung_idea((enum net_engine_kind)kind));
        json_out_put(&out, rung, "features", json_out_words(&out, features));
        json_out_append(&out, array, rung);
    }
    return json_out_finish(&out, array);
}
