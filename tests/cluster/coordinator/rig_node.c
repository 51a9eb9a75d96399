/* The scripted nodes of the rig: what they hear, check and answer. */
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

void rig_peer_say(struct rig *rig, uint64_t peer, const struct cluster_message *message)
{
    rig_post(rig, peer, true, message);
}

void rig_node_say(struct rig *rig, uint32_t node, const struct cluster_message *message)
{
    if (rig->node[node].control)
        rig_post(rig, rig->node[node].control, true, message);
}

static void say(struct rig *rig, uint32_t node, enum cluster_message_kind kind, uint64_t job)
{
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    message.job = job;
    rig_node_say(rig, node, &message);
}

static void say_step(struct rig *rig, uint32_t node, enum cluster_step_kind step_reached)
{
    struct rig_node *self = &rig->node[node];
    uint64_t bytes[RIG_NODES_MAX] = {0};
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_STEP;
    message.job = self->job;
    message.step.step = step_reached;
    if (step_reached == CLUSTER_STEP_FINISHED) {
        message.step.has_report = true;
        message.step.node_count = self->number;
        message.step.sent_bytes = message.step.received_bytes = bytes;
        message.step.report.sum.task.rows = 10;
        message.step.report.sum.bytes_sent = message.step.report.sum.bytes_received = 7;
        message.step.engine = message.step.features = message.step.engine_reason = "";
        bytes[0] = 7;
    }
    rig_node_say(rig, node, &message);
}

void rig_node_hello(struct rig *rig, uint32_t node)
{
    struct rig_node *self = &rig->node[node];
    struct net_address address = {.v4 = {.sin_family = AF_INET}, .bytes = sizeof address.v4};
    struct cluster_message message;
    cluster_hello_fill(CLUSTER_ROLE_NODE, &message);
    message.hello.name = self->name;
    message.hello.incarnation = self->incarnation;
    message.hello.worker_count = 1;
    message.hello.worker = &address;
    message.hello.doubt = self->doubt;
    message.hello.doubt_count = self->doubt_count;
    self->control = ++rig->next_peer;
    rig_node_say(rig, node, &message);
    self->hello_ns = rig->now_ns + 10 * BASE_NS_PER_MS;
}

void rig_node_beat(struct rig *rig, uint32_t node)
{
    struct rig_node *self = &rig->node[node];
    struct cluster_message message;
    if (!self->beat) {
        self->beat = ++rig->next_peer;
        cluster_hello_fill(CLUSTER_ROLE_HEARTBEAT, &message);
        message.hello.name = self->name;
        message.hello.incarnation = self->incarnation;
        rig_post(rig, self->beat, true, &message);
    }
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_BEAT;
    message.beat.stuck_ns = self->stuck_ns;
    rig_post(rig, self->beat, true, &message);
    self->beat_ns = rig->now_ns + CLUSTER_BEAT_NS;
}

static void take_morsels(struct rig *rig, uint32_t node, const struct cluster_lend *lend)
{
    struct rig_node *self = &rig->node[node];
    for (uint64_t i = 0; i < lend->count; i++) {
        assert_true(lend->morsel[i].index < RIG_MORSELS_MAX);
        if (self->job == rig->seen_job) /* a node that was stopped may hear old orders late */
            assert_int_equal(rig->seen[lend->side][lend->morsel[i].index]++, 0);
    }
    self->lent[lend->side] += lend->count;
    if (!lend->end) {
        struct cluster_message low = {.kind = CLUSTER_MESSAGE_LOW, .job = self->job, .low = {.side = lend->side}};
        rig_node_say(rig, node, &low);
        return;
    }
    self->finished = self->pass == 1;
    say_step(rig, node, self->pass == 1 ? CLUSTER_STEP_FINISHED : CLUSTER_STEP_SEALED);
}

static void on_resolve(struct rig *rig, uint32_t node, const struct cluster_message *message)
{
    struct rig_node *self = &rig->node[node];
    assert_int_equal(self->job, 0); /* never two jobs mixed */
    self->job = message->job;
    if (rig->seen_job < message->job) {
        rig->seen_job = message->job;
        rig->jobs_run++;
        memset(rig->seen, 0, sizeof rig->seen);
    }
    self->lent[0] = self->lent[1] = 0;
    struct cluster_message answer;
    memset(&answer, 0, sizeof answer);
    answer.kind = CLUSTER_MESSAGE_RESOLVED;
    answer.job = message->job;
    answer.resolved.relation_count = message->resolve.source_count;
    for (uint32_t i = 0; i < message->resolve.source_count; i++) {
        char *path = NULL;
        struct base_error error;
        assert_int_equal(
            shuffle_relation_parse(message->resolve.source[i].text, &answer.resolved.relation[i], &path, &error),
            BASE_OK);
        struct shuffle_relation *relation = &answer.resolved.relation[i];
        if (path) {
            relation->file = calloc(1, sizeof *relation->file);
            assert_non_null(relation->file);
            relation->file[relation->file_count++] = rig->file[node];
            relation->file[0].path = path;
            assert_int_equal(shuffle_schema_parse("key:int64,payload:string", &relation->schema, &error), BASE_OK);
        }
        if (rig->column_name)
            strcpy(relation->schema.field[1].name, rig->column_name);
    }
    rig_node_say(rig, node, &answer);
    cluster_message_free(&answer);
}

static void on_prepare(struct rig *rig, uint32_t node, const struct cluster_message *message)
{
    struct rig_node *self = &rig->node[node];
    assert_false(self->prepared);
    self->prepared = true;
    self->number = message->prepare.plan->job.node_count;
    self->pass = message->prepare.plan->join.sides == 1;
    assert_string_equal(message->prepare.plan->job.node[message->prepare.node].name, self->name);
    say_step(rig, node, CLUSTER_STEP_OPENED);
}

/* Every flow brings RIG_FLOW_BYTES. */
static void on_measure(struct rig *rig, uint32_t node, const struct cluster_measure *order, uint64_t job)
{
    struct rig_node *self = &rig->node[node];
    assert_true(self->prepared && !self->finished);
    if (order->last) {
        say_step(rig, node, CLUSTER_STEP_FINISHED);
        return;
    }
    assert_int_equal(order->step, self->measured + 1);
    self->measured++;
    uint64_t bytes[RIG_NODES_MAX], window[CLUSTER_BISECT_WINDOWS_MAX] = {0};
    for (uint32_t i = 0; i < order->receive_count; i++) {
        bytes[i] = RIG_FLOW_BYTES;
        window[0] += RIG_FLOW_BYTES;
    }
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_MEASURED;
    message.job = job;
    message.measured =
        (struct cluster_measured){.step = order->step,
                                  .receive_count = order->receive_count,
                                  .bytes = bytes,
                                  .window_count = cluster_bisect_windows(order->duration_ns),
                                  .window = window,
                                  .sum = {.received_bytes = order->receive_count * (uint64_t)RIG_FLOW_BYTES,
                                          .sent_bytes = order->send_count * (uint64_t)RIG_FLOW_BYTES,
                                          .retransmits = node}};
    rig_node_say(rig, node, &message);
}

static void doubt(struct rig_node *self, uint64_t job)
{
    assert_true(self->doubt_count < RIG_JOBS_MAX);
    self->doubt[self->doubt_count++] = job;
}

static void doubt_no_more(struct rig_node *self, uint64_t job)
{
    for (uint32_t i = 0; i < self->doubt_count; i++)
        if (self->doubt[i] == job)
            self->doubt[i--] = self->doubt[--self->doubt_count];
}

static void forget_job(struct rig_node *self)
{
    self->job = 0;
    self->prepared = self->finished = self->staged = false;
    self->measured = 0;
}

static void on_release(struct rig *rig, uint32_t node, const struct cluster_message *message)
{
    struct rig_node *self = &rig->node[node];
    if (message->release.abort) {
        self->aborted[message->job] = true;
        assert_false(rig->decided[message->job]); /* what was decided stands */
        assert_false(rig->unsure[message->job]);
        doubt_no_more(self, message->job);
    } else if (self->job == message->job && self->staged && !self->committed[message->job]) {
        doubt(self, message->job);
    }
    uint64_t bytes[RIG_NODES_MAX] = {0};
    struct cluster_message closed;
    memset(&closed, 0, sizeof closed);
    closed.kind = CLUSTER_MESSAGE_CLOSED;
    closed.job = message->job;
    closed.step.step = CLUSTER_STEP_CLOSED;
    if (self->job == message->job && self->prepared) {
        closed.step.has_report = true;
        closed.step.node_count = self->number;
        closed.step.sent_bytes = closed.step.received_bytes = bytes;
        closed.step.report.sum.task.rows_scanned = RIG_ROWS_SCANNED;
        closed.step.engine = closed.step.features = closed.step.engine_reason = "";
    }
    if (self->job == message->job)
        forget_job(self);
    rig_node_say(rig, node, &closed);
}

void rig_node_hear(struct rig *rig, uint32_t node, const struct cluster_message *message)
{
    struct rig_node *self = &rig->node[node];
    self->orders[message->kind]++;
    const bool job_order = message->kind != CLUSTER_MESSAGE_RESOLVE && message->kind != CLUSTER_MESSAGE_RELEASE &&
                           message->kind != CLUSTER_MESSAGE_COMMIT && message->kind != CLUSTER_MESSAGE_PUBLISH &&
                           message->kind != CLUSTER_MESSAGE_WELCOME;
    if (job_order)
        assert_int_equal(message->job, self->job);
    if (message->kind == CLUSTER_MESSAGE_RESOLVE && self->mute[message->kind])
        self->job = message->job;
    if (self->mute[message->kind])
        return;
    if (self->fail_at[message->kind] != BASE_OK) {
        if (message->kind == CLUSTER_MESSAGE_RESOLVE)
            self->job = message->job;
        struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = message->job};
        base_error_set(&failed.failed.error, self->fail_at[message->kind], "scripted");
        rig_node_say(rig, node, &failed);
        return;
    }
    switch (message->kind) {
    case CLUSTER_MESSAGE_WELCOME:
        rig_node_beat(rig, node);
        break;
    case CLUSTER_MESSAGE_RESOLVE:
        on_resolve(rig, node, message);
        break;
    case CLUSTER_MESSAGE_PREPARE:
        on_prepare(rig, node, message);
        break;
    case CLUSTER_MESSAGE_CONNECT:
        say_step(rig, node, CLUSTER_STEP_CONNECTED);
        break;
    case CLUSTER_MESSAGE_START:
        assert_true(self->prepared);
        if (message->start.pass == 1)
            self->pass = 1;
        take_morsels(rig, node, &message->start.lend);
        break;
    case CLUSTER_MESSAGE_LEND:
        take_morsels(rig, node, &message->lend);
        break;
    case CLUSTER_MESSAGE_MEASURE:
        on_measure(rig, node, &message->measure, message->job);
        break;
    case CLUSTER_MESSAGE_STAGE:
        assert_true(self->finished && !self->staged);
        assert_int_equal(message->stage.text[0], '{');
        self->staged = true;
        say(rig, node, CLUSTER_MESSAGE_STAGED, message->job);
        break;
    case CLUSTER_MESSAGE_COMMIT:
        assert_true(rig->decided[message->job]); /* durable before anybody acts on it */
        assert_false(self->aborted[message->job]);
        self->committed[message->job] = true;
        doubt_no_more(self, message->job);
        say(rig, node, CLUSTER_MESSAGE_COMMITTED, message->job);
        break;
    case CLUSTER_MESSAGE_PUBLISH:
        for (uint32_t i = 0; i < rig->node_count; i++)
            assert_true(rig->node[i].committed[message->job]);
        self->published[message->job] = true;
        say(rig, node, CLUSTER_MESSAGE_PUBLISHED, message->job);
        break;
    case CLUSTER_MESSAGE_RELEASE:
        on_release(rig, node, message);
        break;
    default:
        fail_msg("node %s was told %s", self->name, cluster_message_name(message->kind));
    }
}

void rig_node_disconnect(struct rig *rig, uint32_t node, bool process_ended)
{
    struct rig_node *self = &rig->node[node];
    const uint64_t peers[2] = {self->control, self->beat};
    for (int i = 0; i < 2; i++) {
        if (!peers[i])
            continue;
        rig_cut(rig, peers[i], false);
        rig_post(rig, peers[i], true, NULL);
    }
    if (self->staged && !process_ended && !self->committed[self->job])
        doubt(self, self->job);
    forget_job(self);
    self->control = self->beat = 0;
    self->hello_ns = rig->now_ns + 50 * BASE_NS_PER_MS;
    self->incarnation = base_random_next(&rig->random);
}

void rig_node_start(struct rig *rig, uint32_t node)
{
    rig->node[node].dead = rig->node[node].stopped = false;
    rig->node[node].hello_ns = rig->now_ns;
    rig->node[node].incarnation = base_random_next(&rig->random);
}

void rig_node_kill(struct rig *rig, uint32_t node)
{
    rig_node_disconnect(rig, node, true);
    rig->node[node].dead = true;
    rig->node[node].stopped = false;
    rig->node[node].doubt_count = 0;
}

void rig_node_stop(struct rig *rig, uint32_t node)
{
    rig->node[node].stopped = true;
}

void rig_node_continue(struct rig *rig, uint32_t node)
{
    rig->node[node].stopped = false;
}

void rig_node_give_up(struct rig *rig, uint32_t node)
{
    rig_node_disconnect(rig, node, false);
}
