/* Reports and lists as JSON. jansson's containers take over what is put into them, and refuse NULL: a failure anywhere
 * shows as a refused put, which is counted once at the end. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/report.h"
#include "net/rung.h"

/* An object or array that remembers whether something did not get in. */
struct json_out {
    bool failed;
};

static void put(struct json_out *out, json_t *object, const char *key, json_t *value)
{
    out->failed |= json_object_set_new(object, key, value) != 0;
}

static void append(struct json_out *out, json_t *array, json_t *value)
{
    out->failed |= json_array_append_new(array, value) != 0;
}

/* Takes text as it is when it is UTF-8, else with '?' for each byte that is not ASCII: names of columns and files may
 * be any bytes. */
static json_t *make_text(const char *text)
{
    if (!text)
        text = "";
    json_t *string = json_string(text);
    if (string)
        return string;
    char *plain = strdup(text);
    if (!plain)
        return NULL;
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    string = json_string(plain);
    free(plain);
    return string;
}

static void put_text(struct json_out *out, json_t *object, const char *key, const char *text)
{
    put(out, object, key, make_text(text));
}

static void put_count(struct json_out *out, json_t *object, const char *key, uint64_t count)
{
    put(out, object, key, json_integer(count > INT64_MAX ? INT64_MAX : (json_int_t)count));
}

static void put_real(struct json_out *out, json_t *object, const char *key, double number)
{
    put(out, object, key, isfinite(number) ? json_real(number) : json_null());
}

static void put_bool(struct json_out *out, json_t *object, const char *key, bool value)
{
    put(out, object, key, json_boolean(value));
}

/* "a b" -> ["a","b"] */
static json_t *make_words(struct json_out *out, const char *text)
{
    json_t *array = json_array();
    char *copy = strdup(text ? text : "");
    char *rest = copy;
    if (!copy)
        out->failed = true;
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        append(out, array, make_text(word));
    free(copy);
    return array;
}

/* Writes the object out and lets go of it. */
static char *finish(const struct json_out *out, json_t *object)
{
    char *text = out->failed || !object ? NULL : json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    return text;
}

static const char *kind_word(enum join_job_kind kind)
{
    return kind == JOIN_JOB_JOIN ? "join" : kind == JOIN_JOB_SHUFFLE ? "shuffle" : "bisect";
}

static const char *side_word(uint32_t side)
{
    return side == 0 ? "left" : "right";
}

static const char *end_word(enum base_status status)
{
    return status == BASE_OK ? "succeeded" : status == BASE_CANCELLED ? "cancelled" : "failed";
}

static json_t *make_node(struct json_out *out, const struct cluster_node_report *node)
{
    json_t *object = json_object(), *stalls = json_object();
    put_text(out, object, "name", node->name);
    put_count(out, object, "workers", node->workers);
    put_count(out, object, "rows", node->rows);
    put_count(out, object, "rows_scanned", node->rows_scanned);
    put_count(out, object, "bytes_sent", node->bytes_sent);
    put_count(out, object, "bytes_received", node->bytes_received);
    put_count(out, object, "table_rows", node->table_rows);
    put_count(out, object, "table_bytes", node->table_bytes);
    put_real(out, object, "seconds", node->exchange_seconds);
    put_real(out, object, "cpu_user_seconds", node->cpu_user_seconds);
    put_real(out, object, "cpu_system_seconds", node->cpu_system_seconds);
    put_real(out, object, "busy_seconds", node->busy_seconds);
    put_real(out, object, "wait_seconds", node->wait_seconds);
    put_count(out, object, "peak_memory_bytes", node->peak_memory_bytes);
    put_count(out, object, "memory_bytes", node->memory_bytes);
    put_count(out, stalls, "frame", node->stalls_frame);
    put_count(out, stalls, "output", node->stalls_output);
    put_count(out, stalls, "input", node->stalls_input);
    put(out, object, "stalls", stalls);
    return object;
}

static json_t *make_links(struct json_out *out, const struct cluster_report *report)
{
    json_t *matrix = json_array();
    for (uint32_t from = 0; from < report->node_count; from++) {
        json_t *row = json_array();
        for (uint32_t to = 0; to < report->node_count; to++) {
            const uint64_t bytes = report->link ? report->link[(size_t)from * report->node_count + to] : 0;
            append(out, row, json_integer((json_int_t)(bytes > INT64_MAX ? INT64_MAX : bytes)));
        }
        append(out, matrix, row);
    }
    return matrix;
}

static void put_result(struct json_out *out, json_t *object, const struct cluster_report *report, const char *folder)
{
    char checksum[17];
    snprintf(checksum, sizeof checksum, "%016llx", (unsigned long long)report->checksum);
    put_count(out, object, "rows", report->rows);
    put_text(out, object, "checksum", checksum);
    put(out, object, "out", folder ? make_text(folder) : json_null());
    put_count(out, object, "output_bytes", report->output_bytes);
    put_count(out, object, "rows_scanned", report->rows_scanned);
    put_count(out, object, "rows_scanned_left", report->rows_side[0]);
    put_count(out, object, "rows_scanned_right", report->rows_side[1]);
    put_count(out, object, "input_bytes", report->input_bytes);
    put_text(out, object, "build_side", side_word(report->build_side));
    put_count(out, object, "table_rows", report->table_rows);
    put_count(out, object, "table_bytes", report->table_bytes);
}

static void put_cost(struct json_out *out, json_t *object, const struct cluster_report *report)
{
    json_t *spans = json_object(), *counters = json_object(), *nodes = json_array();
    put_real(out, object, "seconds", report->seconds);
    put_real(out, object, "exchange_seconds", report->exchange_seconds);
#define X(name) put_real(out, spans, #name, report->spans.name##_seconds);
    CLUSTER_SPAN_LIST(X)
#undef X
    put(out, object, "spans", spans);
    put_count(out, object, "bytes_sent", report->bytes_sent);
    put_count(out, object, "bytes_received", report->bytes_received);
    put_real(out, object, "cpu_user_seconds", report->cpu_user_seconds);
    put_real(out, object, "cpu_system_seconds", report->cpu_system_seconds);
    put_count(out, object, "peak_memory_bytes", report->peak_memory_bytes);
    put_text(out, object, "limit", cluster_limit_words(report->limit));
    put_text(out, object, "limit_reason", report->limit_words);
    put_text(out, object, "engine", report->engine);
    put(out, object, "features", make_words(out, report->features));
    put_text(out, object, "engine_reason", report->engine_reason);
    put_bool(out, object, "verified", report->verified);
#define X(name) put_count(out, counters, #name, report->counters.name);
    NET_COUNTER_LIST(X)
#undef X
    put(out, object, "counters", counters);
    put_count(out, object, "workers", report->workers);
    for (uint32_t i = 0; i < report->node_count; i++)
        append(out, nodes, make_node(out, &report->node[i]));
    put(out, object, "nodes", nodes);
    put(out, object, "links", make_links(out, report));
}

char *report_json(const struct cluster_report *report, uint64_t job, const char *out_folder, int exit_code)
{
    struct json_out out = {0};
    json_t *object = json_object();
    put_text(&out, object, "status", end_word(report->error.status));
    put(&out, object, "error", report->error.status == BASE_OK ? json_null() : make_text(report->error.text));
    put(&out, object, "error_code",
        report->error.status == BASE_OK ? json_null() : make_text(base_status_name(report->error.status)));
    put_count(&out, object, "exit_code", (uint64_t)exit_code);
    put(&out, object, "job", job ? json_integer((json_int_t)job) : json_null());
    put_text(&out, object, "kind", kind_word(report->kind));
    put_result(&out, object, report, out_folder);
    put_cost(&out, object, report);
    return finish(&out, object);
}

char *report_nodes_json(const struct cluster_nodes *nodes)
{
    struct json_out out = {0};
    json_t *object = json_object(), *array = json_array();
    put_bool(&out, object, "complete", report_nodes_complete(nodes));
    put_count(&out, object, "nodes_expected", nodes->nodes_expected);
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct cluster_node_entry *entry = &nodes->entry[i];
        json_t *node = json_object();
        put_text(&out, node, "name", entry->name);
        put_text(&out, node, "state", entry->state == CLUSTER_NODE_MISSING ? "missing" : "ready");
        put_bool(&out, node, "running", entry->state == CLUSTER_NODE_RUNNING);
        put_text(&out, node, "address", entry->address);
        put_count(&out, node, "pid", entry->pid);
        put_count(&out, node, "workers", entry->workers);
        put_count(&out, node, "memory_bytes", entry->memory_bytes);
        put_text(&out, node, "engine", entry->engine);
        put(&out, node, "features", make_words(&out, entry->features));
        put_text(&out, node, "engine_reason", entry->engine_reason);
        put_real(&out, node, "silent_seconds", entry->seconds);
        append(&out, array, node);
    }
    put(&out, object, "nodes", array);
    return finish(&out, object);
}

char *report_jobs_json(const struct cluster_jobs *jobs)
{
    struct json_out out = {0};
    json_t *object = json_object(), *array = json_array();
    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct cluster_job_entry *entry = &jobs->entry[i];
        json_t *job = json_object();
        put_count(&out, job, "job", entry->job);
        put_text(&out, job, "kind", kind_word(entry->kind));
        put_text(&out, job, "state", report_job_state_word(entry->state));
        put_text(&out, job, "phase", cluster_phase_words(entry->phase));
        put_text(&out, job, "words", entry->words);
        put(&out, job, "error", entry->error && *entry->error ? make_text(entry->error) : json_null());
        put_count(&out, job, "rows", entry->rows);
        put_real(&out, job, "seconds", entry->seconds);
        append(&out, array, job);
    }
    put(&out, object, "jobs", array);
    return finish(&out, object);
}

char *report_key_json(const char *file)
{
    struct json_out out = {0};
    json_t *object = json_object();
    put_text(&out, object, "key_file", file);
    return finish(&out, object);
}

char *report_version_json(void)
{
    struct json_out out = {0};
    json_t *object = json_object();
    put_text(&out, object, "version", cluster_build_id());
    put_count(&out, object, "protocol", CLUSTER_PROTOCOL_VERSION);
    return finish(&out, object);
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
        put_text(&out, rung, "rung", net_rung_word((enum net_engine_kind)kind));
        put_text(&out, rung, "engine", set & NET_FEATURE_URING ? "io_uring" : "epoll");
        put_text(&out, rung, "idea", net_rung_idea((enum net_engine_kind)kind));
        put(&out, rung, "features", make_words(&out, features));
        append(&out, array, rung);
    }
    return finish(&out, array);
}
