#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cluster/coordinator/rig_node.h"

#include "cluster/link/link.h"
#include "cluster/protocol/codec.h"

static void rig_random(void *context, uint8_t *bytes, size_t count)
{
    struct rig *rig = context;
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)base_random_next(&rig->random);
}

void rig_open(struct rig *rig, uint64_t seed, uint32_t nodes, uint32_t expected)
{
    memset(rig, 0, sizeof *rig);
    base_random_seed(&rig->random, seed);
    rig->latency_ns_max = 200 * BASE_NS_PER_US;
    rig->now_ns = BASE_NS_PER_S;
    struct base_error error;
    const struct cluster_coordinator_config config = {
        .nodes_expected = expected, .first_job = 1, .random = rig_random, .random_context = rig};
    assert_int_equal(cluster_coordinator_open(&config, &rig->coordinator, &error), BASE_OK);
    rig->node_count = nodes;
    for (uint32_t i = 0; i < nodes; i++) {
        snprintf(rig->node[i].name, sizeof rig->node[i].name, "n%u", i + 1);
        rig->node[i].dead = true;
    }
}

void rig_close(struct rig *rig)
{
    cluster_coordinator_close(rig->coordinator);
    while (rig->messages) {
        struct rig_message *message = rig->messages;
        rig->messages = message->next;
        free(message->bytes);
        free(message);
    }
    for (uint32_t i = 0; i < rig->client_count; i++) {
        if (rig->client[i].reported)
            cluster_message_free(&rig->client[i].report);
        cluster_message_free(&rig->client[i].list);
    }
}

/* ---- network ---- */

void rig_post(struct rig *rig, uint64_t peer, bool to_coordinator, const struct cluster_message *message)
{
    struct rig_message *made = calloc(1, sizeof *made);
    assert_non_null(made);
    assert_true(peer < RIG_PEERS_MAX);
    made->peer = peer;
    made->to_coordinator = to_coordinator;
    made->end = !message;
    struct base_error error;
    if (message)
        assert_int_equal(cluster_codec_encode(message, 0, &made->bytes, &made->count, &error), BASE_OK);
    made->due_ns = rig->now_ns + base_random_below(&rig->random, rig->latency_ns_max + 1);
    struct rig_message **at = &rig->messages;
    for (; *at; at = &(*at)->next)
        if ((*at)->peer == peer && (*at)->to_coordinator == to_coordinator && (*at)->due_ns > made->due_ns)
            made->due_ns = (*at)->due_ns;
    *at = made;
}

void rig_cut(struct rig *rig, uint64_t peer, bool to_coordinator)
{
    struct rig_message **at = &rig->messages;
    while (*at) {
        struct rig_message *message = *at;
        if (message->peer != peer || message->to_coordinator != to_coordinator) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        free(message->bytes);
        free(message);
    }
}

static void step(struct rig *rig, const struct cluster_event *event)
{
    const struct cluster_action *actions;
    uint32_t count, unsent_count = 0, records = 0;
    struct cluster_event unsent[2 * RIG_NODES_MAX];
    struct base_error error;
    assert_int_equal(cluster_coordinator_step(rig->coordinator, event, rig->now_ns, &actions, &count, &error), BASE_OK);
    for (uint32_t i = 0; i < count; i++) {
        const struct cluster_action *action = &actions[i];
        switch (action->kind) {
        case CLUSTER_ACTION_SEND:
            assert_true(action->peer != 0);
            if (rig->too_large[action->message.kind]) {
                assert_true(unsent_count < 2 * RIG_NODES_MAX);
                unsent[unsent_count] = (struct cluster_event){.kind = CLUSTER_EVENT_UNSENT,
                                                              .peer = action->peer,
                                                              .job = action->message.job,
                                                              .unsent = action->message.kind};
                base_error_set(&unsent[unsent_count++].error, BASE_TOO_LARGE, "too many files");
                break;
            }
            rig_post(rig, action->peer, false, &action->message);
            break;
        case CLUSTER_ACTION_CLOSE:
            rig_cut(rig, action->peer, true);
            rig->closed[action->peer] = true; /* no event mentions it again */
            rig_post(rig, action->peer, false, NULL);
            break;
        case CLUSTER_ACTION_RECORD:
            rig->recorded = action->decision->job;
            assert_int_equal(action->again, rig->unsure[rig->recorded]);
            rig->decided[rig->recorded] = rig->record_status == BASE_OK;
            rig->unsure[rig->recorded] = rig->record_status != BASE_OK && rig->record_unknown;
            rig->record_pending = !rig->record_late;
            rig->records++;
            if (++records > rig->records_in_step_max)
                rig->records_in_step_max = records;
            break;
        case CLUSTER_ACTION_RESERVE:
            rig->reserve_pending = true;
            break;
        case CLUSTER_ACTION_FORGET:
            rig->forgotten[action->job] = true;
            break;
        case CLUSTER_ACTION_LOG:
            rig->log[rig->logged++ % RIG_LOG_MAX] = action->line;
            break;
        case CLUSTER_ACTION_STOPPED:
            rig->stopped = true;
            break;
        }
    }
    for (uint32_t i = 0; i < unsent_count; i++)
        if (!rig->closed[unsent[i].peer])
            step(rig, &unsent[i]);
    if (rig->record_pending) {
        rig->record_pending = false;
        rig_recorded(rig);
    }
    if (rig->reserve_pending) {
        rig->reserve_pending = false;
        struct cluster_event reserved = {.kind = CLUSTER_EVENT_RESERVED, .job = rig->reserve_first};
        rig->reserves++;
        if (rig->reserve_status != BASE_OK)
            base_error_set(&reserved.error, rig->reserve_status, "disk full");
        step(rig, &reserved);
    }
}

bool rig_logged(const struct rig *rig, enum base_log_level level, const char *words)
{
    for (uint32_t i = 0; i < rig->logged && i < RIG_LOG_MAX; i++)
        if (rig->log[i].level == level && strstr(rig->log[i].text, words))
            return true;
    return false;
}

void rig_recorded(struct rig *rig)
{
    struct cluster_event recorded = {
        .kind = CLUSTER_EVENT_RECORDED, .job = rig->recorded, .unknown = rig->record_unknown};
    if (rig->record_status != BASE_OK)
        base_error_set(&recorded.error, rig->record_status, "disk full");
    step(rig, &recorded);
}

static void deliver_to_coordinator(struct rig *rig, const struct rig_message *message)
{
    struct cluster_event event = {.kind = CLUSTER_EVENT_LOST, .peer = message->peer};
    struct cluster_message decoded;
    if (rig->closed[message->peer])
        return;
    if (message->end) {
        base_error_set(&event.error, BASE_PEER_CLOSED, "closed");
        step(rig, &event);
        return;
    }
    struct base_error error;
    assert_int_equal(cluster_codec_decode(message->bytes, message->count, &decoded, &error), BASE_OK);
    event.kind = CLUSTER_EVENT_MESSAGE;
    event.message = &decoded;
    step(rig, &event);
    cluster_message_free(&decoded);
}

/* ---- clients ---- */

struct rig_client *rig_client(struct rig *rig)
{
    assert_true(rig->client_count < RIG_CLIENTS_MAX);
    struct rig_client *client = &rig->client[rig->client_count++];
    client->peer = ++rig->next_peer;
    struct cluster_message hello;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    rig_post(rig, client->peer, true, &hello);
    return client;
}

void rig_client_say(struct rig *rig, struct rig_client *client, const struct cluster_message *message)
{
    rig_post(rig, client->peer, true, message);
}

struct rig_client *rig_submit(struct rig *rig, const struct cluster_submit *submit)
{
    struct rig_client *client = rig_client(rig);
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_SUBMIT;
    message.submit = *submit;
    rig_client_say(rig, client, &message);
    return client;
}

void rig_client_leave(struct rig *rig, struct rig_client *client)
{
    rig_cut(rig, client->peer, false);
    rig_post(rig, client->peer, true, NULL);
    client->peer = 0;
}

static void client_hear(struct rig *rig, struct rig_client *client, struct cluster_message *message)
{
    if (message->kind == CLUSTER_MESSAGE_ACCEPTED) {
        client->job = message->job;
    } else if (message->kind == CLUSTER_MESSAGE_SCHEDULE) {
        assert_int_equal(client->steps, 0);
        client->steps = message->schedule.step_count;
    } else if (message->kind == CLUSTER_MESSAGE_MEASUREMENT) {
        assert_int_equal(message->measurement.step, ++client->measurements);
        assert_true(client->measurements <= client->steps);
        assert_int_equal(message->measurement.sum.received_bytes, RIG_FLOW_BYTES * message->measurement.flow_count);
        for (uint32_t i = 0; i < message->measurement.flow_count; i++)
            assert_int_equal(message->measurement.flow_bytes[i], RIG_FLOW_BYTES);
        if (message->measurement.kind == CLUSTER_BISECT_CUT && client->cuts++ == 0)
            memcpy(client->first_cut, message->measurement.half, message->measurement.half_size);
    } else if (message->kind == CLUSTER_MESSAGE_REFUSED) {
        client->refused = true;
    } else if (message->kind == CLUSTER_MESSAGE_NODES || message->kind == CLUSTER_MESSAGE_JOBS) {
        cluster_message_free(&client->list);
        client->list = *message;
        memset(message, 0, sizeof *message);
    } else if (message->kind == CLUSTER_MESSAGE_REPORT) {
        assert_false(client->reported); /* once */
        assert_int_equal(message->job, client->job);
        client->reported = true;
        client->reported_ns = rig->now_ns;
        client->report = *message;
        memset(message, 0, sizeof *message);
    }
}

/* ---- time ---- */

static bool frozen(const struct rig *rig, const struct rig_message *message)
{
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *node = &rig->node[i];
        if (node->stopped && !message->to_coordinator &&
            (message->peer == node->control || message->peer == node->beat))
            return true;
    }
    return false;
}

static void deliver_to_peer(struct rig *rig, const struct rig_message *message)
{
    struct cluster_message decoded;
    struct base_error error;
    memset(&decoded, 0, sizeof decoded);
    if (!message->end)
        assert_int_equal(cluster_codec_decode(message->bytes, message->count, &decoded, &error), BASE_OK);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        struct rig_node *node = &rig->node[i];
        if (message->peer != node->control && message->peer != node->beat)
            continue;
        if (message->end || decoded.kind == CLUSTER_MESSAGE_REFUSED)
            rig_node_disconnect(rig, i, false);
        else if (message->peer == node->control)
            rig_node_hear(rig, i, &decoded);
        break;
    }
    for (uint32_t i = 0; i < rig->client_count && !message->end; i++)
        if (rig->client[i].peer == message->peer)
            client_hear(rig, &rig->client[i], &decoded);
    cluster_message_free(&decoded);
}

/* Delivers one message that is due; false when there is none. */
static bool deliver(struct rig *rig)
{
    struct rig_message **best = NULL;
    for (struct rig_message **at = &rig->messages; *at; at = &(*at)->next)
        if ((*at)->due_ns <= rig->now_ns && !frozen(rig, *at) && (!best || (*at)->due_ns < (*best)->due_ns))
            best = at;
    if (!best)
        return false;
    struct rig_message *message = *best;
    *best = message->next;
    if (message->to_coordinator)
        deliver_to_coordinator(rig, message);
    else
        deliver_to_peer(rig, message);
    free(message->bytes);
    free(message);
    return true;
}

static uint64_t next_ns(const struct rig *rig, uint64_t end_ns)
{
    uint64_t next = base_min_u64(end_ns, cluster_coordinator_deadline_ns(rig->coordinator));
    for (const struct rig_message *message = rig->messages; message; message = message->next)
        if (!frozen(rig, message))
            next = base_min_u64(next, message->due_ns);
    for (uint32_t i = 0; i < rig->node_count; i++) {
        const struct rig_node *node = &rig->node[i];
        if (node->dead || node->stopped)
            continue;
        next = base_min_u64(next, node->control ? (node->beat ? node->beat_ns : UINT64_MAX) : node->hello_ns);
    }
    return base_max_u64(next, rig->now_ns);
}

static void turn(struct rig *rig, uint64_t end_ns)
{
    rig->now_ns = next_ns(rig, end_ns);
    while (deliver(rig))
        ;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        struct rig_node *node = &rig->node[i];
        if (node->dead || node->stopped)
            continue;
        if (!node->control && rig->now_ns >= node->hello_ns)
            rig_node_hello(rig, i);
        else if (node->beat && rig->now_ns >= node->beat_ns)
            rig_node_beat(rig, i);
    }
    step(rig, &(struct cluster_event){.kind = CLUSTER_EVENT_TICK});
}

bool rig_until(struct rig *rig, bool (*condition)(struct rig *), uint64_t ns)
{
    const uint64_t end_ns = rig->now_ns + ns;
    while (!condition(rig)) {
        if (rig->now_ns >= end_ns)
            return false;
        turn(rig, end_ns);
    }
    return true;
}

static bool never(struct rig *rig)
{
    (void)rig;
    return false;
}

void rig_run(struct rig *rig, uint64_t ns)
{
    (void)rig_until(rig, never, ns);
}

bool rig_until_told(struct rig *rig, uint32_t node, enum cluster_message_kind kind, uint64_t ns)
{
    const uint64_t end_ns = rig->now_ns + ns, before = rig->node[node].orders[kind];
    while (rig->node[node].orders[kind] == before) {
        if (rig->now_ns >= end_ns)
            return false;
        turn(rig, end_ns);
    }
    return true;
}

struct cluster_submit rig_join(void)
{
    return (struct cluster_submit){.kind = CLUSTER_KIND_JOIN,
                                   .source_count = 2,
                                   .source = {{.text = "gen:rows=300000,row=16"}, {.text = "gen:rows=500000,row=16"}},
                                   .on = "key=key",
                                   .settings = {.morsel_bytes = 100000}};
}

struct cluster_submit rig_shuffle_out(void)
{
    return (struct cluster_submit){.kind = CLUSTER_KIND_SHUFFLE,
                                   .source_count = 1,
                                   .source = {{.text = "gen:rows=300000,row=16"}},
                                   .on = "key",
                                   .out = "/nowhere/out",
                                   .output = SHUFFLE_OUTPUT_CSV,
                                   .settings = {.morsel_bytes = 100000}};
}

struct cluster_submit rig_bisect(void)
{
    return (struct cluster_submit){.kind = CLUSTER_KIND_BISECT, .bisect = {.duration_ns = 200 * BASE_NS_PER_MS}};
}

bool rig_is_idle(struct rig *rig)
{
    return cluster_coordinator_idle(rig->coordinator);
}

bool rig_is_complete(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->node_count; i++)
        if (!rig->node[i].beat)
            return false;
    return true;
}
