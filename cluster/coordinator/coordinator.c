/* The coordinator's step: who is here, who is alive, and to whom an event belongs. What a job goes through is in
 * coordinator/job.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/build.h"
#include "cluster/coordinator/internal.h"

/* ---- actions ---- */

struct cluster_action *coordinator_act(struct cluster_coordinator *c, enum cluster_action_kind kind, uint64_t peer)
{
    BASE_ASSERT(c->action_count <= c->action_room);
    if (c->action_count == c->action_room) {
        const uint32_t room = c->action_room ? 2 * c->action_room : 64;
        struct cluster_action *grown = realloc(c->action, room * sizeof *grown);
        if (!grown) {
            c->broken = true;
            return &c->lost;
        }
        c->action = grown;
        c->action_room = room;
    }
    struct cluster_action *action = &c->action[c->action_count++];
    memset(action, 0, sizeof *action);
    action->kind = kind;
    action->peer = peer;
    return action;
}

struct cluster_message *coordinator_send(struct cluster_coordinator *c, uint64_t peer, enum cluster_message_kind kind,
                                         uint64_t job)
{
    BASE_ASSERT(peer != 0 && (unsigned)kind < CLUSTER_MESSAGE_COUNT);
    struct cluster_action *action = coordinator_act(c, CLUSTER_ACTION_SEND, peer);
    action->message.kind = kind;
    action->message.job = job;
    return &action->message;
}

void coordinator_log(struct cluster_coordinator *c, enum base_log_level level, const char *format, ...)
{
    struct cluster_log_line *line = &coordinator_act(c, CLUSTER_ACTION_LOG, 0)->line;
    va_list arguments;
    line->level = level;
    va_start(arguments, format);
    vsnprintf(line->text, sizeof line->text, format, arguments);
    va_end(arguments);
}

static void actions_clear(struct cluster_coordinator *c)
{
    for (uint32_t i = 0; i < c->action_count; i++)
        if (c->action[i].owned)
            cluster_message_free(&c->action[i].message);
    c->action_count = 0;
}

static void peer_refuse(struct cluster_coordinator *c, uint64_t peer, const struct base_error *error)
{
    BASE_ASSERT(base_status_is_failure(error->status)); /* whoever is refused is told why */
    coordinator_send(c, peer, CLUSTER_MESSAGE_REFUSED, 0)->refused.error = *error;
    coordinator_act(c, CLUSTER_ACTION_CLOSE, peer);
}

static void peer_welcome(struct cluster_coordinator *c, uint64_t peer)
{
    struct cluster_welcome *message = &coordinator_send(c, peer, CLUSTER_MESSAGE_WELCOME, 0)->welcome;
    message->build = (char *)(uintptr_t)base_build_id();
    message->nodes_expected = c->config.nodes_expected;
}

/* ---- nodes ---- */

uint32_t coordinator_nodes_here(const struct cluster_coordinator *c)
{
    uint32_t here = 0;
    for (uint32_t i = 0; i < c->node_count; i++)
        here += c->node[i]->peer != 0;
    return here;
}

static struct coordinator_node *node_by_name(const struct cluster_coordinator *c, const char *name)
{
    for (uint32_t i = 0; i < c->node_count; i++)
        if (strcmp(c->node[i]->hello.name, name) == 0)
            return c->node[i];
    return NULL;
}

static struct coordinator_node *node_by_peer(const struct cluster_coordinator *c, uint64_t peer)
{
    for (uint32_t i = 0; i < c->node_count; i++)
        if (c->node[i]->peer == peer || c->node[i]->beat_peer == peer)
            return c->node[i];
    return NULL;
}

static void node_free(struct coordinator_node *node)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_HELLO};
    message.hello = node->hello;
    cluster_message_free(&message);
    free(node);
}

static bool node_in_run(const struct cluster_coordinator *c, const struct coordinator_node *node)
{
    for (uint32_t i = 0; c->run && i < c->run->node_count; i++)
        if (c->run->node[i].node == node)
            return true;
    return false;
}

void coordinator_lose_node(struct cluster_coordinator *c, struct coordinator_node *node, const char *how)
{
    if (!node->peer)
        return;
    coordinator_log(c, BASE_LOG_WARN, "node %s is lost: %s", node->hello.name, how);
    coordinator_act(c, CLUSTER_ACTION_CLOSE, node->peer);
    if (node->beat_peer)
        coordinator_act(c, CLUSTER_ACTION_CLOSE, node->beat_peer);
    node->peer = node->beat_peer = 0; /* before its job hears of it: nothing more is sent to it */
    coordinator_job_node_lost(c, node, how);
}

/* A new entry in its place by name, as people count: n2 before n10. */
static struct coordinator_node *node_add(struct cluster_coordinator *c, const char *name)
{
    struct coordinator_node **grown = realloc(c->node, (c->node_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    c->node = grown;
    struct coordinator_node *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    uint32_t at = c->node_count;
    while (at > 0 && strverscmp(c->node[at - 1]->hello.name, name) > 0)
        at--;
    memmove(&c->node[at + 1], &c->node[at], (c->node_count - at) * sizeof *c->node);
    c->node[at] = node;
    c->node_count++;
    return node;
}

/* Names that are gone are forgotten when new ones need their place. */
static void forget_missing(struct cluster_coordinator *c)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->node_count; i++) {
        struct coordinator_node *node = c->node[i];
        BASE_ASSERT(node->peer || !node->beat_peer); /* no connection of a node that is missing */
        if (node->peer || node_in_run(c, node))
            c->node[kept++] = node;
        else
            node_free(node);
    }
    c->node_count = kept;
}

static enum base_status node_admit(struct cluster_coordinator *c, const struct cluster_hello *hello,
                                   struct base_error *error)
{
    struct coordinator_node *known = node_by_name(c, hello->name);
    if (known && known->peer)
        return base_error_set(error, BASE_EXISTS,
                              "a node named %s is in the cluster already (process %" PRIu64
                              "): give each node its own --name",
                              hello->name, known->hello.pid);
    const uint32_t here = coordinator_nodes_here(c);
    const uint32_t most = c->config.nodes_expected ? c->config.nodes_expected : CLUSTER_NODES_MAX;
    if (here >= most)
        return base_error_set(error, BASE_TOO_LARGE,
                              "the cluster has its %u nodes already: start the coordinator with a larger --nodes",
                              most);
    uint64_t workers = hello->worker_count;
    for (uint32_t i = 0; i < c->node_count; i++)
        workers += c->node[i]->peer ? c->node[i]->hello.worker_count : 0;
    if (workers > CLUSTER_WORKERS_MAX)
        return base_error_set(error, BASE_TOO_LARGE, "a cluster has at most %d workers", CLUSTER_WORKERS_MAX);
    return BASE_OK;
}

static void hello_node(struct cluster_coordinator *c, uint64_t peer, struct cluster_hello *hello)
{
    struct base_error error;
    if (node_admit(c, hello, &error) != BASE_OK) {
        peer_refuse(c, peer, &error);
        return;
    }
    struct coordinator_node *node = node_by_name(c, hello->name);
    if (!node) {
        const uint32_t most = c->config.nodes_expected ? c->config.nodes_expected : CLUSTER_NODES_MAX;
        if (c->node_count >= most)
            forget_missing(c);
        node = node_add(c, hello->name);
    }
    if (!node) {
        c->broken = true;
        return;
    }
    struct cluster_message before = {.kind = CLUSTER_MESSAGE_HELLO};
    before.hello = node->hello;
    cluster_message_free(&before);
    BASE_ASSERT(node->peer == 0 && hello->worker_count > 0);
    node->hello = *hello; /* taken over */
    memset(hello, 0, sizeof *hello);
    node->peer = peer;
    node->beat_peer = 0;
    node->heard_ns = c->now_ns;
    coordinator_log(c, BASE_LOG_INFO, "node %s has connected: %u %s, %s", node->hello.name, node->hello.worker_count,
                    node->hello.worker_count == 1 ? "worker" : "workers", node->hello.engine);
    peer_welcome(c, peer);
    coordinator_pending_node(c, node);
}

static void hello_heartbeat(struct cluster_coordinator *c, uint64_t peer, const struct cluster_hello *hello)
{
    struct coordinator_node *node = node_by_name(c, hello->name);
    if (!node || !node->peer || node->hello.incarnation != hello->incarnation || node->beat_peer) {
        struct base_error error;
        base_error_set(&error, BASE_NODE_REFUSED, "heartbeats of %s, which is not here", hello->name);
        peer_refuse(c, peer, &error);
        return;
    }
    node->beat_peer = peer;
    node->heard_ns = c->now_ns;
    peer_welcome(c, peer);
}

static bool is_client(const struct cluster_coordinator *c, uint64_t peer)
{
    for (const struct coordinator_client *client = c->clients; client; client = client->next)
        if (client->peer == peer)
            return true;
    return false;
}

static void hello_client(struct cluster_coordinator *c, uint64_t peer)
{
    struct coordinator_client *client = calloc(1, sizeof *client);
    if (!client) {
        c->broken = true;
        return;
    }
    BASE_ASSERT_SLOW(!is_client(c, peer));
    client->peer = peer;
    client->next = c->clients;
    c->clients = client;
    peer_welcome(c, peer);
}

/* ---- clients ---- */

static void client_lost(struct cluster_coordinator *c, uint64_t peer)
{
    struct coordinator_client **at = &c->clients;
    while (*at && (*at)->peer != peer)
        at = &(*at)->next;
    if (!*at)
        return;
    struct coordinator_client *client = *at;
    *at = client->next;
    free(client);
    coordinator_client_gone(c, peer);
}

/* Throws a client out that says what no client says. No event will mention it again. */
static void client_drop(struct cluster_coordinator *c, uint64_t peer)
{
    coordinator_act(c, CLUSTER_ACTION_CLOSE, peer);
    client_lost(c, peer);
}

static void client_cancel(struct cluster_coordinator *c, uint64_t peer, uint64_t id)
{
    struct cluster_answer *answer = &coordinator_send(c, peer, CLUSTER_MESSAGE_ANSWER, id)->answer;
    struct coordinator_job *job = c->run;
    if (!job || job->id != id)
        for (job = c->queue; job && job->id != id; job = job->next)
            ;
    BASE_ASSERT(!job || job == c->run || job->phase.now == CLUSTER_PHASE_QUEUED);
    if (!job) {
        base_error_set(&answer->error, BASE_NOT_FOUND, "job %" PRIu64 " neither runs nor waits", id);
        return;
    }
    if (job->committed || job->recorded) {
        base_error_set(&answer->error, BASE_EXISTS, "job %" PRIu64 " is past its decision and ends by itself", id);
        return;
    }
    coordinator_cancel(c, job, BASE_CANCELLED, "cancelled on request");
}

static void client_message(struct cluster_coordinator *c, uint64_t peer, struct cluster_message *message)
{
    switch (message->kind) {
    case CLUSTER_MESSAGE_SUBMIT:
        coordinator_submit(c, peer, &message->submit);
        break;
    case CLUSTER_MESSAGE_LIST_NODES:
        coordinator_nodes_send(c, peer);
        break;
    case CLUSTER_MESSAGE_LIST_JOBS:
        coordinator_jobs_send(c, peer);
        break;
    case CLUSTER_MESSAGE_CANCEL:
        client_cancel(c, peer, message->job);
        break;
    case CLUSTER_MESSAGE_BEAT:
        coordinator_send(c, peer, CLUSTER_MESSAGE_BEAT, 0)->beat.sequence = message->beat.sequence;
        break;
    default:
        client_drop(c, peer);
        break;
    }
}

/* ---- events ---- */

static void on_hello(struct cluster_coordinator *c, uint64_t peer, struct cluster_hello *hello)
{
    BASE_ASSERT(hello->protocol == base_build_protocol()); /* the codec lets no other in */
    struct coordinator_node *known = node_by_peer(c, peer);
    if (known) {
        coordinator_lose_node(c, known, "it sent hello twice on one connection");
        return;
    }
    if (is_client(c, peer)) {
        client_drop(c, peer);
        return;
    }
    switch (hello->role) {
    case CLUSTER_ROLE_NODE:
        hello_node(c, peer, hello);
        break;
    case CLUSTER_ROLE_HEARTBEAT:
        hello_heartbeat(c, peer, hello);
        break;
    default:
        hello_client(c, peer);
        break;
    }
}

static void heartbeat_message(struct cluster_coordinator *c, struct coordinator_node *node,
                              const struct cluster_message *message)
{
    char how[160];
    if (message->kind != CLUSTER_MESSAGE_BEAT) {
        snprintf(how, sizeof how, "it sent %s on its heartbeat connection", cluster_message_name(message->kind));
        coordinator_lose_node(c, node, how);
        return;
    }
    if (message->beat.stuck_ns > 0) {
        snprintf(how, sizeof how,
                 "its control thread has not moved for %" PRIu64 " s though its process lives: does a file system hang "
                 "there?",
                 message->beat.stuck_ns / BASE_NS_PER_S);
        coordinator_lose_node(c, node, how);
        return;
    }
    node->heard_ns = c->now_ns;
    coordinator_send(c, node->beat_peer, CLUSTER_MESSAGE_BEAT, 0)->beat.sequence = message->beat.sequence;
}

static void peer_on_message(struct cluster_coordinator *c, uint64_t peer, struct cluster_message *message)
{
    BASE_ASSERT(peer != 0 && (unsigned)message->kind < CLUSTER_MESSAGE_COUNT);
    if (message->kind == CLUSTER_MESSAGE_HELLO) {
        on_hello(c, peer, &message->hello);
        return;
    }
    struct coordinator_node *node = node_by_peer(c, peer);
    if (node && node->beat_peer == peer)
        heartbeat_message(c, node, message);
    else if (node)
        coordinator_job_message(c, node, message);
    else if (is_client(c, peer))
        client_message(c, peer, message);
    else
        coordinator_act(c, CLUSTER_ACTION_CLOSE, peer);
}

static void on_lost(struct cluster_coordinator *c, uint64_t peer, const struct base_error *error)
{
    struct coordinator_node *node = node_by_peer(c, peer);
    if (!node) {
        client_lost(c, peer);
        return;
    }
    const bool control = node->peer == peer;
    char how[BASE_ERROR_TEXT_BYTES];
    if (error->status == BASE_PEER_CLOSED)
        snprintf(how, sizeof how, "its process ended, or closed its %s connection", control ? "control" : "heartbeat");
    else
        snprintf(how, sizeof how, "its %s connection ended (%.600s)", control ? "control" : "heartbeat", error->text);
    coordinator_lose_node(c, node, how);
}

/* The peer that waits for that message must not wait for ever. */
static void on_unsent(struct cluster_coordinator *c, const struct cluster_event *event)
{
    BASE_ASSERT(base_status_is_failure(event->error.status));
    struct coordinator_node *node = node_by_peer(c, event->peer);
    if (node && node->peer == event->peer && coordinator_job_unsent(c, node, event->job, event->unsent, &event->error))
        return;
    if (node) {
        on_lost(c, event->peer, &event->error);
        return;
    }
    peer_refuse(c, event->peer, &event->error);
    client_lost(c, event->peer);
}

/* Did we mean to run before now, and could not? Then nodes could not make themselves heard: they get a new period of
 * silence, and those that have given us up in the meantime are not blamed. */
static void notice_pause(struct cluster_coordinator *c, uint64_t now_ns)
{
    const uint64_t due_ns = c->now_ns + CLUSTER_BEAT_NS;
    const uint64_t pause_ns = c->now_ns && coordinator_nodes_here(c) > 0 ? cluster_pause_ns(due_ns, now_ns) : 0;
    if (pause_ns == 0)
        return;
    coordinator_log(c, BASE_LOG_WARN,
                    "stood still for %.1f s: was the coordinator stopped, or did its machine give it no CPU?",
                    (double)pause_ns / 1e9);
    if (c->run) {
        c->run->pause_ns = pause_ns;
        c->run->pause_until_ns = now_ns + CLUSTER_SILENCE_NS;
    }
    for (uint32_t i = 0; i < c->node_count; i++)
        c->node[i]->heard_ns = now_ns;
}

static void on_tick(struct cluster_coordinator *c)
{
    for (uint32_t i = 0; i < c->node_count; i++)
        if (c->node[i]->peer && c->now_ns >= c->node[i]->heard_ns + CLUSTER_SILENCE_NS)
            coordinator_lose_node(c, c->node[i], "it was silent for 1.2 s");
    coordinator_job_tick(c);
    coordinator_pending_tick(c);
}

/* Asks for the next block of job numbers in good time. */
static void peer_reserve(struct cluster_coordinator *c)
{
    if (c->reserving || c->job_block || c->now_ns < c->reserve_ns || c->job_end - c->job_next > CLUSTER_JOBS_LOW)
        return;
    BASE_ASSERT(c->job_next <= c->job_end);
    c->reserving = true;
    coordinator_act(c, CLUSTER_ACTION_RESERVE, 0);
}

static void on_reserved(struct cluster_coordinator *c, uint64_t first, const struct base_error *error)
{
    BASE_ASSERT(c->reserving && c->job_block == 0);
    c->reserving = false;
    if (error->status == BASE_OK) {
        BASE_ASSERT(first >= c->job_end); /* numbers never come back */
        c->job_block = first;
        return;
    }
    coordinator_log(c, BASE_LOG_ERROR, "no new job numbers: %s", error->text);
    c->reserve_ns = c->now_ns + BASE_NS_PER_S;
}

static void on_stop(struct cluster_coordinator *c)
{
    c->stopping = true;
    while (c->queue)
        coordinator_cancel(c, c->queue, BASE_CANCELLED, "the coordinator was stopped");
    if (c->run)
        coordinator_cancel(c, c->run, BASE_CANCELLED, "the coordinator was stopped");
    BASE_ASSERT(c->queue_count == 0);
}

enum base_status cluster_coordinator_step(struct cluster_coordinator *c, const struct cluster_event *event,
                                          uint64_t now_ns, const struct cluster_action **actions, uint32_t *count,
                                          struct base_error *error)
{
    actions_clear(c);
    c->record_asked = false;
    notice_pause(c, now_ns);
    c->now_ns = base_max_u64(now_ns, c->now_ns);
    switch (event->kind) {
    case CLUSTER_EVENT_MESSAGE:
        peer_on_message(c, event->peer, event->message);
        break;
    case CLUSTER_EVENT_LOST:
        on_lost(c, event->peer, &event->error);
        break;
    case CLUSTER_EVENT_UNSENT:
        on_unsent(c, event);
        break;
    case CLUSTER_EVENT_RECORDED:
        coordinator_recorded(c, event->job, event->unknown, &event->error);
        break;
    case CLUSTER_EVENT_RESERVED:
        on_reserved(c, event->job, &event->error);
        break;
    case CLUSTER_EVENT_TICK:
        on_tick(c);
        break;
    case CLUSTER_EVENT_STOP:
        on_stop(c);
        break;
    }
    coordinator_next(c);
    peer_reserve(c);
    if (c->stopping && !c->run && !c->stopped) {
        c->stopped = true;
        coordinator_act(c, CLUSTER_ACTION_STOPPED, 0);
    }
    if (c->broken)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the coordinator's state");
    coordinator_check(c);
    *actions = c->action;
    *count = c->action_count;
    return BASE_OK;
}

uint64_t cluster_coordinator_deadline_ns(const struct cluster_coordinator *c)
{
    /* With nodes here it runs at least as often as they beat, so that it sees when it could not. */
    const uint64_t deadline_ns = base_min_u64(coordinator_job_deadline_ns(c), coordinator_pending_deadline_ns(c));
    return coordinator_nodes_here(c) > 0 ? base_min_u64(deadline_ns, c->now_ns + CLUSTER_BEAT_NS) : deadline_ns;
}

bool cluster_coordinator_idle(const struct cluster_coordinator *c)
{
    return !c->run && !c->queue;
}

enum base_status cluster_coordinator_open(const struct cluster_coordinator_config *config,
                                          struct cluster_coordinator **coordinator, struct base_error *error)
{
    BASE_ASSERT(config->random && config->first_job > 0);
    struct cluster_coordinator *c = calloc(1, sizeof *c);
    if (!c)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the coordinator");
    c->config = *config;
    c->job_next = config->first_job;
    c->job_end = config->first_job + CLUSTER_JOBS_PER_BLOCK;
    *coordinator = c;
    return BASE_OK;
}

void cluster_coordinator_close(struct cluster_coordinator *c)
{
    actions_clear(c);
    free(c->action);
    if (c->run)
        coordinator_job_free(c->run);
    while (c->queue) {
        struct coordinator_job *job = c->queue;
        c->queue = job->next;
        coordinator_job_free(job);
    }
    while (c->pending) {
        struct coordinator_pending *pending = c->pending;
        c->pending = pending->next;
        coordinator_pending_free(pending);
    }
    while (c->clients) {
        struct coordinator_client *client = c->clients;
        c->clients = client->next;
        free(client);
    }
    for (uint32_t i = 0; i < c->node_count; i++)
        node_free(c->node[i]);
    free(c->node);
    free(c);
}

enum base_status cluster_coordinator_restore(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                             struct base_error *error)
{
    BASE_ASSERT(c->now_ns == 0 && decision->node_count > 0);
    return coordinator_pending_restore(c, decision, error);
}
