/* The codec's part for reports and lists: numbers in, numbers out, driven by tables where there are many. */
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

enum { SPANS = sizeof(struct cluster_spans) / sizeof(double) };

Wire__Error *wire_put_error(struct wire_scratch *scratch, const struct base_error *error)
{
    Wire__Error *wire = wire_take(scratch, 1, sizeof *wire);
    if (!wire)
        return NULL;
    wire__error__init(wire);
    wire->status = error->status;
    wire->text = wire_bytes(error->text);
    return wire;
}

void wire_get_error(struct wire_reader *reader, const Wire__Error *wire, struct base_error *error)
{
    if (!wire_there(reader, "error", wire))
        return;
    char *text = wire_text(reader, "error text", wire->text, BASE_ERROR_TEXT_BYTES - 1);
    /* A status of a newer build is still an error. */
    error->status = wire->status < BASE_STATUS_COUNT ? (enum base_status)wire->status : BASE_INTERNAL;
    if (text)
        memcpy(error->text, text, strlen(text) + 1);
    free(text);
}

static Wire__SocketFacts *put_facts(struct wire_scratch *scratch, const struct net_socket_facts *facts)
{
    if (!facts->known)
        return NULL;
    Wire__SocketFacts *wire = wire_take(scratch, 1, sizeof *wire);
    uint32_t *offloads = wire_take(scratch, NET_OFFLOAD_KINDS, sizeof *offloads);
    if (!wire || !offloads)
        return NULL;
    wire__socket_facts__init(wire);
    wire->congestion = wire_bytes(facts->congestion);
    wire->interface = wire_bytes(facts->interface);
    wire->send_buffer_bytes = facts->send_buffer_bytes;
    wire->recv_buffer_bytes = facts->recv_buffer_bytes;
    wire->notsent_lowat_bytes = facts->notsent_lowat_bytes;
    wire->nodelay = facts->nodelay;
    wire->mss_bytes = facts->mss_bytes;
    wire->mtu_bytes = facts->mtu_bytes;
    for (int i = 0; i < NET_OFFLOAD_KINDS; i++)
        offloads[i] = facts->offload[i];
    wire->offload = offloads;
    wire->n_offload = NET_OFFLOAD_KINDS;
    return wire;
}

/* A text of at most bytes - 1. */
static void get_word(struct wire_reader *reader, const char *what, struct ProtobufCBinaryData data, char *word,
                     size_t bytes)
{
    char *text = wire_text(reader, what, data, bytes - 1);
    if (text)
        memcpy(word, text, strlen(text) + 1);
    free(text);
}

static void get_facts(struct wire_reader *reader, const Wire__SocketFacts *wire, struct net_socket_facts *facts)
{
    if (!wire)
        return;
    if (wire->n_offload != NET_OFFLOAD_KINDS) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu offloads, expected %d", wire->n_offload, NET_OFFLOAD_KINDS);
        return;
    }
    facts->known = true;
    get_word(reader, "congestion control", wire->congestion, facts->congestion, sizeof facts->congestion);
    get_word(reader, "interface", wire->interface, facts->interface, sizeof facts->interface);
    facts->send_buffer_bytes = wire->send_buffer_bytes;
    facts->recv_buffer_bytes = wire->recv_buffer_bytes;
    facts->notsent_lowat_bytes = wire->notsent_lowat_bytes;
    facts->nodelay = wire->nodelay;
    facts->mss_bytes = wire->mss_bytes;
    facts->mtu_bytes = wire->mtu_bytes;
    for (int i = 0; i < NET_OFFLOAD_KINDS; i++)
        facts->offload[i] = (enum net_offload)wire_below(reader, "offload", wire->offload[i], NET_OFFLOAD_COUNT);
}

Wire__Step *wire_put_step(struct wire_scratch *scratch, const struct cluster_step *step)
{
    Wire__Step *wire = wire_take(scratch, 1, sizeof *wire);
    if (!wire)
        return NULL;
    wire__step__init(wire);
    wire->step = step->step;
    wire->has_report = step->has_report;
    wire->left = wire_put_rejects(scratch, step->rejects[0]);
    wire->right = wire_put_rejects(scratch, step->rejects[1]);
    if (!step->has_report)
        return wire;
    wire->measure = wire_put_measures(scratch, &step->report.sum, CLUSTER_MEASURES);
    wire->n_measure = CLUSTER_MEASURES;
    wire->sent_bytes = step->sent_bytes;
    wire->received_bytes = step->received_bytes;
    wire->n_sent_bytes = wire->n_received_bytes = step->node_count;
    wire->engine = wire_bytes(step->engine);
    wire->features = wire_bytes(step->features);
    wire->engine_reason = wire_bytes(step->engine_reason);
    wire->engine_decision = wire_bytes(step->engine_decision);
    wire->socket = put_facts(scratch, &step->report.facts);
    return wire;
}

void wire_get_step(struct wire_reader *reader, const Wire__Step *wire, struct cluster_step *step)
{
    step->step = (enum cluster_step_kind)wire_below(reader, "step", wire->step, CLUSTER_STEP_COUNT);
    step->has_report = wire->has_report;
    wire_get_rejects(reader, wire->left, &step->rejects[0]);
    wire_get_rejects(reader, wire->right, &step->rejects[1]);
    if (!step->has_report || reader->failed)
        return;
    if (wire->n_sent_bytes != wire->n_received_bytes) {
        wire_refuse(reader, BASE_PROTOCOL, "bytes sent to %zu nodes and received from %zu", wire->n_sent_bytes,
                    wire->n_received_bytes);
        return;
    }
    wire_get_measures(reader, wire->measure, wire->n_measure, &step->report.sum, CLUSTER_MEASURES);
    step->engine = wire_text(reader, "engine", wire->engine, CLUSTER_NAME_BYTES_MAX);
    step->features = wire_text(reader, "features", wire->features, CLUSTER_TEXT_BYTES_MAX);
    step->engine_reason = wire_text(reader, "engine's reason", wire->engine_reason, CLUSTER_TEXT_BYTES_MAX);
    step->engine_decision = wire_text(reader, "engine's decision", wire->engine_decision, CLUSTER_TEXT_BYTES_MAX);
    get_facts(reader, wire->socket, &step->report.facts);
    const size_t nodes = wire->n_sent_bytes;
    step->sent_bytes = wire_array(reader, "nodes", nodes, CLUSTER_NODES_MAX, sizeof(uint64_t));
    step->received_bytes = wire_array(reader, "nodes", nodes, CLUSTER_NODES_MAX, sizeof(uint64_t));
    if (!step->sent_bytes || !step->received_bytes)
        return;
    step->node_count = (uint32_t)nodes;
    memcpy(step->sent_bytes, wire->sent_bytes, nodes * sizeof(uint64_t));
    memcpy(step->received_bytes, wire->received_bytes, nodes * sizeof(uint64_t));
}

static Wire__NodeReport **put_node_reports(struct wire_scratch *scratch, const struct cluster_report *report)
{
    Wire__NodeReport **list = wire_take(scratch, report->node_count, sizeof(Wire__NodeReport *));
    Wire__NodeReport *item = wire_take(scratch, report->node_count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < report->node_count; i++) {
        wire__node_report__init(&item[i]);
        item[i].name = wire_bytes(report->node[i].name);
        item[i].engine_decision = wire_bytes(report->node[i].engine_decision);
        item[i].workers = report->node[i].workers;
        item[i].memory_bytes = report->node[i].memory_bytes;
        item[i].measure = wire_put_measures(scratch, &report->node[i].sum, CLUSTER_MEASURES);
        item[i].n_measure = CLUSTER_MEASURES;
        item[i].socket = put_facts(scratch, &report->node[i].facts);
        list[i] = &item[i];
    }
    return list;
}

Wire__Report *wire_put_report(struct wire_scratch *scratch, const struct cluster_report *report)
{
    Wire__Report *wire = wire_take(scratch, 1, sizeof *wire);
    double *spans = wire_take(scratch, SPANS, sizeof *spans);
    if (!wire || !spans)
        return NULL;
    wire__report__init(wire);
    wire->error = wire_put_error(scratch, &report->error);
    wire->bad_request = report->bad_request;
    wire->kind = report->kind;
    wire->join_type = report->type;
    wire->build_side = report->build_side;
    wire->seconds = report->seconds;
    wire->workers = report->workers;
    wire->measure = wire_put_measures(scratch, &report->sum, CLUSTER_MEASURES);
    wire->n_measure = CLUSTER_MEASURES;
    size_t i = 0;
#define X(name) spans[i++] = report->spans.name##_seconds;
    CLUSTER_SPAN_LIST(X)
#undef X
    wire->span = spans;
    wire->n_span = SPANS;
    wire->engine = wire_bytes(report->engine);
    wire->features = wire_bytes(report->features);
    wire->engine_reason = wire_bytes(report->engine_reason);
    wire->verified = report->verified;
    wire->limit = report->limit;
    wire->limit_words = wire_bytes(report->limit_words);
    wire->node = put_node_reports(scratch, report);
    wire->n_node = report->node_count;
    wire->link = report->link;
    wire->n_link = (size_t)report->node_count * report->node_count;
    wire->skipped = wire_put_skipped(scratch, report->skipped);
    wire->n_skipped = 2;
    return wire;
}

static void get_node_reports(struct wire_reader *reader, const Wire__Report *wire, struct cluster_report *report)
{
    report->node = wire_array(reader, "nodes", wire->n_node, CLUSTER_NODES_MAX, sizeof *report->node);
    report->node_count = report->node ? (uint32_t)wire->n_node : 0;
    for (uint32_t i = 0; i < report->node_count; i++) {
        report->node[i].name = wire_text(reader, "a node's name", wire->node[i]->name, CLUSTER_NAME_BYTES_MAX);
        report->node[i].engine_decision =
            wire_text(reader, "a node's decision", wire->node[i]->engine_decision, CLUSTER_TEXT_BYTES_MAX);
        report->node[i].workers = wire->node[i]->workers;
        report->node[i].memory_bytes = wire->node[i]->memory_bytes;
        wire_get_measures(reader, wire->node[i]->measure, wire->node[i]->n_measure, &report->node[i].sum,
                          CLUSTER_MEASURES);
        get_facts(reader, wire->node[i]->socket, &report->node[i].facts);
    }
    const size_t links = (size_t)report->node_count * report->node_count;
    if (wire->n_link != links)
        wire_refuse(reader, BASE_PROTOCOL, "%zu links between %u nodes", wire->n_link, report->node_count);
    report->link = wire_array(reader, "links", links, links, sizeof *report->link);
    if (report->link)
        memcpy(report->link, wire->link, links * sizeof *report->link);
}

void wire_get_report(struct wire_reader *reader, const Wire__Report *wire, struct cluster_report *report)
{
    wire_get_error(reader, wire->error, &report->error);
    report->bad_request = wire->bad_request;
    report->kind = (enum cluster_job_kind)wire_below(reader, "kind of job", wire->kind, CLUSTER_KIND_COUNT);
    report->type = (enum join_type)wire_below(reader, "type of join", wire->join_type, JOIN_TYPE_COUNT);
    report->build_side = wire_below(reader, "build side", wire->build_side, 2);
    report->seconds = wire->seconds;
    report->workers = wire->workers;
    wire_get_measures(reader, wire->measure, wire->n_measure, &report->sum, CLUSTER_MEASURES);
    report->engine = wire_text(reader, "engine", wire->engine, CLUSTER_NAME_BYTES_MAX);
    report->features = wire_text(reader, "features", wire->features, CLUSTER_TEXT_BYTES_MAX);
    report->engine_reason = wire_text(reader, "engine's reason", wire->engine_reason, CLUSTER_TEXT_BYTES_MAX);
    report->verified = wire->verified;
    report->limit = (enum cluster_limit)wire_below(reader, "limit", wire->limit, CLUSTER_LIMIT_COUNT);
    report->limit_words = wire_text(reader, "limit's words", wire->limit_words, CLUSTER_TEXT_BYTES_MAX);
    get_node_reports(reader, wire, report);
    wire_get_skipped(reader, wire->skipped, wire->n_skipped, report->skipped);
    if (wire->n_span != SPANS) {
        wire_refuse(reader, BASE_PROTOCOL, "%zu spans, expected %d", wire->n_span, SPANS);
        return;
    }
    size_t i = 0;
#define X(name) report->spans.name##_seconds = wire->span[i++];
    CLUSTER_SPAN_LIST(X)
#undef X
}

Wire__Nodes *wire_put_nodes(struct wire_scratch *scratch, const struct cluster_nodes *nodes)
{
    Wire__Nodes *wire = wire_take(scratch, 1, sizeof *wire);
    Wire__NodeEntry **list = wire_take(scratch, nodes->count, sizeof(Wire__NodeEntry *));
    Wire__NodeEntry *item = wire_take(scratch, nodes->count, sizeof *item);
    if (!wire || !list || !item)
        return NULL;
    wire__nodes__init(wire);
    wire->nodes_expected = nodes->nodes_expected;
    wire->entry = list;
    wire->n_entry = nodes->count;
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct cluster_node_entry *entry = &nodes->entry[i];
        wire__node_entry__init(&item[i]);
        list[i] = &item[i];
        item[i].name = wire_bytes(entry->name);
        item[i].state = entry->state;
        item[i].address = wire_bytes(entry->address);
        item[i].workers = entry->workers;
        item[i].memory_bytes = entry->memory_bytes;
        item[i].pid = entry->pid;
        item[i].engine = wire_bytes(entry->engine);
        item[i].features = wire_bytes(entry->features);
        item[i].engine_reason = wire_bytes(entry->engine_reason);
        item[i].seconds = entry->seconds;
        item[i].placement = wire_bytes(entry->placement);
        item[i].build = wire_bytes(entry->build);
    }
    return wire;
}

void wire_get_nodes(struct wire_reader *reader, const Wire__Nodes *wire, struct cluster_nodes *nodes)
{
    nodes->nodes_expected = wire->nodes_expected;
    nodes->entry = wire_array(reader, "nodes", wire->n_entry, CLUSTER_NODES_MAX, sizeof *nodes->entry);
    nodes->count = nodes->entry ? (uint32_t)wire->n_entry : 0;
    for (uint32_t i = 0; i < nodes->count; i++) {
        struct cluster_node_entry *entry = &nodes->entry[i];
        const Wire__NodeEntry *from = wire->entry[i];
        entry->name = wire_text(reader, "a node's name", from->name, CLUSTER_NAME_BYTES_MAX);
        entry->state =
            (enum cluster_node_state)wire_below(reader, "state of a node", from->state, CLUSTER_NODE_STATE_COUNT);
        entry->address = wire_text(reader, "a node's address", from->address, CLUSTER_NAME_BYTES_MAX);
        entry->workers = from->workers;
        entry->memory_bytes = from->memory_bytes;
        entry->pid = from->pid;
        entry->engine = wire_text(reader, "engine", from->engine, CLUSTER_NAME_BYTES_MAX);
        entry->features = wire_text(reader, "features", from->features, CLUSTER_TEXT_BYTES_MAX);
        entry->engine_reason = wire_text(reader, "engine's reason", from->engine_reason, CLUSTER_TEXT_BYTES_MAX);
        entry->seconds = from->seconds;
        entry->placement = wire_text(reader, "placement", from->placement, CLUSTER_TEXT_BYTES_MAX);
        entry->build = wire_text(reader, "build", from->build, CLUSTER_NAME_BYTES_MAX);
    }
}

Wire__Jobs *wire_put_jobs(struct wire_scratch *scratch, const struct cluster_jobs *jobs)
{
    Wire__Jobs *wire = wire_take(scratch, 1, sizeof *wire);
    Wire__JobEntry **list = wire_take(scratch, jobs->count, sizeof(Wire__JobEntry *));
    Wire__JobEntry *item = wire_take(scratch, jobs->count, sizeof *item);
    if (!wire || !list || !item)
        return NULL;
    wire__jobs__init(wire);
    wire->entry = list;
    wire->n_entry = jobs->count;
    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct cluster_job_entry *entry = &jobs->entry[i];
        wire__job_entry__init(&item[i]);
        list[i] = &item[i];
        item[i].job = entry->job;
        item[i].kind = entry->kind;
        item[i].state = entry->state;
        item[i].phase = entry->phase;
        item[i].words = wire_bytes(entry->words);
        item[i].error = wire_bytes(entry->error);
        item[i].rows = entry->rows;
        item[i].seconds = entry->seconds;
    }
    return wire;
}

void wire_get_jobs(struct wire_reader *reader, const Wire__Jobs *wire, struct cluster_jobs *jobs)
{
    jobs->entry = wire_array(reader, "jobs", wire->n_entry, CLUSTER_TEXT_BYTES_MAX, sizeof *jobs->entry);
    jobs->count = jobs->entry ? (uint32_t)wire->n_entry : 0;
    for (uint32_t i = 0; i < jobs->count; i++) {
        struct cluster_job_entry *entry = &jobs->entry[i];
        const Wire__JobEntry *from = wire->entry[i];
        entry->job = from->job;
        entry->kind = (enum cluster_job_kind)wire_below(reader, "kind of job", from->kind, CLUSTER_KIND_COUNT);
        entry->state =
            (enum cluster_job_state)wire_below(reader, "state of a job", from->state, CLUSTER_JOB_STATE_COUNT);
        entry->phase = (enum cluster_phase)wire_below(reader, "phase of a job", from->phase, CLUSTER_PHASE_COUNT);
        entry->words = wire_text(reader, "a job's words", from->words, CLUSTER_TEXT_BYTES_MAX);
        entry->error = wire_text(reader, "a job's error", from->error, CLUSTER_TEXT_BYTES_MAX);
        entry->rows = from->rows;
        entry->seconds = from->seconds;
    }
}
