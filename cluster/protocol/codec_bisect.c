/* The codec's part for measuring the network. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/protocol/codec_wire.h"
#include "cluster/protocol/millrace.pb-c.h"

enum { FLOWS_MAX = CLUSTER_NODES_MAX * (CLUSTER_NODES_MAX - 1) };

Wire__BisectRequest *wire_put_bisect_request(struct wire_scratch *scratch, const struct cluster_bisect_request *request)
{
    Wire__BisectRequest *wire = WIRE_MAKE(scratch, wire__bisect_request);
    if (!wire)
        return NULL;
    wire->duration_ns = request->duration_ns;
    wire->cuts = request->cuts;
    wire->cut_count = request->cut_count;
    wire->streams = request->streams;
    Wire__Rack **list = wire_take(scratch, request->rack_count, sizeof(Wire__Rack *));
    Wire__Rack *item = wire_take(scratch, request->rack_count, sizeof *item);
    if (!list || !item)
        return NULL;
    for (uint32_t i = 0; i < request->rack_count; i++) {
        wire__rack__init(&item[i]);
        list[i] = &item[i];
        item[i].node = wire_bytes(request->rack[i].node);
        item[i].rack = wire_bytes(request->rack[i].rack);
    }
    wire->n_rack = request->rack_count;
    wire->rack = list;
    return wire;
}

void wire_get_bisect_request(struct wire_reader *reader, const Wire__BisectRequest *wire,
                             struct cluster_bisect_request *request)
{
    if (!wire_there(reader, "what to measure", wire))
        return;
    request->duration_ns = wire->duration_ns;
    if (wire->duration_ns < CLUSTER_BISECT_DURATION_MIN_NS || wire->duration_ns > CLUSTER_BISECT_DURATION_MAX_NS)
        wire_refuse(reader, BASE_PROTOCOL, "steps of %" PRIu64 " ns", wire->duration_ns);
    request->cuts = (enum cluster_bisect_cuts)wire_below(reader, "kind of cuts", wire->cuts, CLUSTER_BISECT_LEAST + 1);
    request->cut_count = wire_below(reader, "number of cuts", wire->cut_count, CLUSTER_BISECT_CUTS_MAX + 1);
    request->streams = wire_below(reader, "number of streams", wire->streams, CLUSTER_BISECT_STREAMS_MAX + 1);
    if ((request->cuts == CLUSTER_BISECT_COUNT) != (request->cut_count > 0))
        wire_refuse(reader, BASE_PROTOCOL, "the number of cuts and their kind contradict each other");
    request->rack = wire_array(reader, "racks", wire->n_rack, CLUSTER_BISECT_RACKS_MAX, sizeof *request->rack);
    request->rack_count = request->rack ? (uint32_t)wire->n_rack : 0;
    for (uint32_t i = 0; i < request->rack_count; i++) {
        request->rack[i].node = wire_text(reader, "a node's name", wire->rack[i]->node, CLUSTER_NAME_BYTES_MAX);
        request->rack[i].rack = wire_text(reader, "a rack's name", wire->rack[i]->rack, CLUSTER_NAME_BYTES_MAX);
    }
}

Wire__Card *wire_put_card(struct wire_scratch *scratch, const struct cluster_card *card)
{
    Wire__Card *wire = WIRE_MAKE(scratch, wire__card);
    if (!wire)
        return NULL;
    wire->interface = wire_bytes(card->interface);
    wire->bits_per_second = card->bits_per_second;
    wire->mtu = card->mtu;
    return wire;
}

void wire_get_card(struct wire_reader *reader, const Wire__Card *wire, struct cluster_card *card)
{
    if (!wire_there(reader, "card", wire))
        return;
    char *interface = wire_text(reader, "interface", wire->interface, CLUSTER_INTERFACE_BYTES_MAX);
    if (interface)
        memcpy(card->interface, interface, strlen(interface) + 1);
    free(interface);
    card->bits_per_second = wire->bits_per_second;
    card->mtu = wire->mtu;
}

Wire__Measure *wire_put_measure(struct wire_scratch *scratch, const struct cluster_measure *measure)
{
    Wire__Measure *wire = WIRE_MAKE(scratch, wire__measure);
    if (!wire)
        return NULL;
    wire->step = measure->step;
    wire->last = measure->last;
    wire->warmup_ns = measure->warmup_ns;
    wire->duration_ns = measure->duration_ns;
    wire->window_ns = measure->window_ns;
    wire->streams = measure->streams;
    wire->n_send = measure->send_count;
    wire->send = measure->send;
    wire->n_receive = measure->receive_count;
    wire->receive = measure->receive;
    return wire;
}

static uint32_t *get_node_numbers(struct wire_reader *reader, const uint32_t *from, size_t count, uint32_t *got)
{
    uint32_t *numbers = wire_array(reader, "nodes", count, CLUSTER_NODES_MAX, sizeof *numbers);
    *got = numbers ? (uint32_t)count : 0;
    for (uint32_t i = 0; i < *got; i++)
        numbers[i] = wire_below(reader, "number of a node", from[i], CLUSTER_NODES_MAX);
    return numbers;
}

void wire_get_measure(struct wire_reader *reader, const Wire__Measure *wire, struct cluster_measure *measure)
{
    measure->step = wire->step;
    measure->last = wire->last;
    measure->warmup_ns = wire->warmup_ns;
    measure->duration_ns = wire->duration_ns;
    measure->window_ns = wire->window_ns;
    measure->streams = wire_below(reader, "number of streams", wire->streams, CLUSTER_BISECT_STREAMS_MAX + 1);
    measure->send = get_node_numbers(reader, wire->send, wire->n_send, &measure->send_count);
    measure->receive = get_node_numbers(reader, wire->receive, wire->n_receive, &measure->receive_count);
    if (wire->last)
        return;
    if (wire->duration_ns < CLUSTER_BISECT_DURATION_MIN_NS || wire->duration_ns > CLUSTER_BISECT_DURATION_MAX_NS ||
        wire->warmup_ns > CLUSTER_BISECT_DURATION_MAX_NS ||
        wire->window_ns != cluster_bisect_window_ns(wire->duration_ns))
        wire_refuse(reader, BASE_PROTOCOL, "a step of a measurement whose times do not fit");
}

Wire__Measured *wire_put_measured(struct wire_scratch *scratch, const struct cluster_measured *measured)
{
    Wire__Measured *wire = WIRE_MAKE(scratch, wire__measured);
    if (!wire)
        return NULL;
    wire->step = measured->step;
    wire->n_bytes = measured->receive_count;
    wire->bytes = measured->bytes;
    wire->n_window = measured->window_count;
    wire->window = measured->window;
    wire->measure = wire_put_measures(scratch, &measured->sum, CLUSTER_BISECT_MEASURES);
    wire->n_measure = wire->measure ? CLUSTER_BISECT_MEASURES : 0;
    wire->host_busy_permille = measured->host_busy_permille;
    wire->host_processors = measured->host_processors;
    return wire;
}

static uint64_t *get_numbers(struct wire_reader *reader, const char *what, const uint64_t *from, size_t count,
                             size_t max, uint32_t *got)
{
    uint64_t *numbers = wire_array(reader, what, count, max, sizeof *numbers);
    *got = numbers ? (uint32_t)count : 0;
    if (numbers)
        memcpy(numbers, from, count * sizeof *numbers);
    return numbers;
}

void wire_get_measured(struct wire_reader *reader, const Wire__Measured *wire, struct cluster_measured *measured)
{
    measured->step = wire->step;
    measured->bytes =
        get_numbers(reader, "flows", wire->bytes, wire->n_bytes, CLUSTER_NODES_MAX, &measured->receive_count);
    measured->window = get_numbers(reader, "windows", wire->window, wire->n_window, CLUSTER_BISECT_WINDOWS_MAX,
                                   &measured->window_count);
    wire_get_measures(reader, wire->measure, wire->n_measure, &measured->sum, CLUSTER_BISECT_MEASURES);
    measured->host_busy_permille = wire->host_busy_permille;
    measured->host_processors = wire->host_processors;
}

Wire__Schedule *wire_put_schedule(struct wire_scratch *scratch, const struct cluster_schedule *schedule)
{
    Wire__Schedule *wire = WIRE_MAKE(scratch, wire__schedule);
    Wire__ScheduleNode **list = wire_take(scratch, schedule->node_count, sizeof(Wire__ScheduleNode *));
    Wire__ScheduleNode *item = wire_take(scratch, schedule->node_count, sizeof *item);
    if (!wire || !list || !item)
        return NULL;
    wire->step_count = schedule->step_count;
    wire->expected_ns = schedule->expected_ns;
    wire->duration_ns = schedule->duration_ns;
    wire->warmup_ns = schedule->warmup_ns;
    wire->window_ns = schedule->window_ns;
    wire->n_node = schedule->node_count;
    wire->node = list;
    for (uint32_t i = 0; i < schedule->node_count; i++) {
        wire__schedule_node__init(&item[i]);
        list[i] = &item[i];
        item[i].name = wire_bytes(schedule->node[i].name);
        item[i].workers = schedule->node[i].workers;
        item[i].card = wire_put_card(scratch, &schedule->node[i].card);
    }
    return wire;
}

void wire_get_schedule(struct wire_reader *reader, const Wire__Schedule *wire, struct cluster_schedule *schedule)
{
    schedule->step_count = wire->step_count;
    schedule->expected_ns = wire->expected_ns;
    schedule->duration_ns = wire->duration_ns;
    schedule->warmup_ns = wire->warmup_ns;
    schedule->window_ns = wire->window_ns;
    if (wire->duration_ns == 0 || wire->window_ns == 0)
        wire_refuse(reader, BASE_PROTOCOL, "a measurement of steps without time");
    schedule->node = wire_array(reader, "nodes", wire->n_node, CLUSTER_NODES_MAX, sizeof *schedule->node);
    schedule->node_count = schedule->node ? (uint32_t)wire->n_node : 0;
    for (uint32_t i = 0; i < schedule->node_count && !reader->failed; i++) {
        const Wire__ScheduleNode *from = wire->node[i];
        schedule->node[i].name = wire_text(reader, "a node's name", from->name, CLUSTER_NAME_BYTES_MAX);
        schedule->node[i].workers = from->workers;
        wire_get_card(reader, from->card, &schedule->node[i].card);
    }
}

Wire__Measurement *wire_put_measurement(struct wire_scratch *scratch, const struct cluster_measurement *measurement)
{
    Wire__Measurement *wire = WIRE_MAKE(scratch, wire__measurement);
    uint32_t *ends = wire_take(scratch, 2 * (size_t)measurement->flow_count, sizeof *ends);
    if (!wire || !ends)
        return NULL;
    wire->step = measurement->step;
    wire->kind = measurement->kind;
    wire->node = measurement->node;
    wire->origin = measurement->origin;
    wire->half = (ProtobufCBinaryData){measurement->half_size, measurement->half};
    wire->n_from = wire->n_to = wire->n_bytes = measurement->flow_count;
    wire->from = ends;
    wire->to = ends + measurement->flow_count;
    wire->bytes = measurement->flow_bytes;
    for (uint32_t i = 0; i < measurement->flow_count; i++) {
        wire->from[i] = measurement->flow[i].from;
        wire->to[i] = measurement->flow[i].to;
    }
    wire->n_window = measurement->window_count;
    wire->window = measurement->window;
    wire->measure = wire_put_measures(scratch, &measurement->sum, CLUSTER_BISECT_MEASURES);
    wire->n_measure = wire->measure ? CLUSTER_BISECT_MEASURES : 0;
    wire->host_busy_permille = measurement->host_busy_permille;
    wire->host_processors = measurement->host_processors;
    return wire;
}

static void get_flows(struct wire_reader *reader, const Wire__Measurement *wire,
                      struct cluster_measurement *measurement)
{
    if (wire->n_from != wire->n_bytes || wire->n_to != wire->n_bytes) {
        wire_refuse(reader, BASE_PROTOCOL, "columns of flows differ in length");
        return;
    }
    measurement->flow_bytes =
        get_numbers(reader, "flows", wire->bytes, wire->n_bytes, FLOWS_MAX, &measurement->flow_count);
    measurement->flow = wire_array(reader, "flows", wire->n_bytes, FLOWS_MAX, sizeof *measurement->flow);
    for (uint32_t i = 0; i < measurement->flow_count && !reader->failed; i++) {
        measurement->flow[i].from = wire_below(reader, "number of a node", wire->from[i], CLUSTER_NODES_MAX);
        measurement->flow[i].to = wire_below(reader, "number of a node", wire->to[i], CLUSTER_NODES_MAX);
    }
}

void wire_get_measurement(struct wire_reader *reader, const Wire__Measurement *wire,
                          struct cluster_measurement *measurement)
{
    measurement->step = wire->step;
    measurement->kind =
        (enum cluster_bisect_kind)wire_below(reader, "kind of step", wire->kind, CLUSTER_BISECT_KIND_COUNT);
    measurement->node = wire_below(reader, "number of a node", wire->node, CLUSTER_NODES_MAX);
    measurement->origin =
        (enum cluster_bisect_origin)wire_below(reader, "origin of a cut", wire->origin, CLUSTER_BISECT_ORIGIN_COUNT);
    measurement->half = wire_array(reader, "nodes of a cut", wire->half.len, CLUSTER_NODES_MAX, 1);
    measurement->half_size = measurement->half ? (uint32_t)wire->half.len : 0;
    for (uint32_t i = 0; i < measurement->half_size; i++)
        measurement->half[i] = (uint8_t)wire_below(reader, "half of a cut", wire->half.data[i], 2);
    get_flows(reader, wire, measurement);
    measurement->window = get_numbers(reader, "windows", wire->window, wire->n_window, CLUSTER_BISECT_WINDOWS_MAX,
                                      &measurement->window_count);
    wire_get_measures(reader, wire->measure, wire->n_measure, &measurement->sum, CLUSTER_BISECT_MEASURES);
    measurement->host_busy_permille = wire->host_busy_permille;
    measurement->host_processors = wire->host_processors;
}
