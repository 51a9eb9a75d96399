/* The simulated network: an engine's ready queue, its chunks and its table. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "net/sim/internal.h"

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define CHUNK_FORBID(data, bytes) ASAN_POISON_MEMORY_REGION(data, bytes)
#define CHUNK_ALLOW(data, bytes) ASAN_UNPOISON_MEMORY_REGION(data, bytes)
#else
#define CHUNK_FORBID(data, bytes) ((void)(data), (void)(bytes))
#define CHUNK_ALLOW(data, bytes) ((void)(data), (void)(bytes))
#endif

enum { CHUNK_SCRIBBLE = 0xdb };

/* Events a socket can have in the ready queue besides chunks: ACCEPTED or CONNECTED, SENT, the end of receiving,
 * CLOSED. */
enum { SOCKET_EVENTS = 4 };
/* Things a socket can have scheduled: see struct sim_socket. */
enum { SOCKET_DUES = 6 };

struct net_event *net_sim_ready(struct sim_engine *engine, enum net_event_kind kind, int os_error)
{
    BASE_ASSERT(engine->ready_count < engine->ready_capacity);
    uint32_t place = (engine->ready_head + engine->ready_count++) % engine->ready_capacity;
    struct net_event *event = &engine->ready[place];
    *event = (struct net_event){.kind = kind, .status = base_status_from_errno(os_error), .os_error = os_error};
    return event;
}

struct net_event *net_sim_ready_socket(struct sim_socket *socket, enum net_event_kind kind, int os_error)
{
    struct net_event *event = net_sim_ready((struct sim_engine *)socket->base.engine, kind, os_error);
    event->socket = &socket->base;
    return event;
}

bool net_sim_queue_full(struct sim_engine *engine)
{
    if (!engine->queue_full)
        engine->queue_full = net_sim_percent(engine->world, engine->world->config.busy_percent);
    return engine->queue_full;
}

bool net_sim_chunk_take(struct sim_engine *engine, struct net_chunk *chunk)
{
    if (engine->chunks_free_count == 0)
        return false;
    uint32_t pick = (uint32_t)base_random_below(&engine->world->random, engine->chunks_free_count);
    uint32_t id = engine->chunks_free[pick];
    engine->chunks_free[pick] = engine->chunks_free[--engine->chunks_free_count];
    BASE_ASSERT(!engine->chunk_out[id]);
    engine->chunk_out[id] = true;
    CHUNK_ALLOW(engine->chunks[id], engine->config.recv_chunk_bytes);
    *chunk = (struct net_chunk){.data = engine->chunks[id], .capacity = engine->config.recv_chunk_bytes, .id = id};
    return true;
}

static void chunk_give_back(struct sim_engine *engine, const struct net_chunk *chunk)
{
    engine->chunk_out[chunk->id] = false;
    memset(chunk->data, CHUNK_SCRIBBLE, engine->config.recv_chunk_bytes);
    CHUNK_FORBID(chunk->data, engine->config.recv_chunk_bytes);
    engine->chunks_free[engine->chunks_free_count++] = chunk->id;
    net_sim_starved_nudge(engine);
}

static void sim_chunk_release(struct net_engine *base, const struct net_chunk *chunk)
{
    struct sim_engine *engine = (struct sim_engine *)base;
    /* Failing means: the chunk is another engine's, was changed, or was released before. */
    BASE_ASSERT(chunk->id < engine->config.recv_chunk_count && chunk->data == engine->chunks[chunk->id]);
    BASE_ASSERT(engine->chunk_out[chunk->id]);
    chunk_give_back(engine, chunk);
}

void net_sim_ready_withdraw(struct sim_socket *socket)
{
    struct sim_engine *engine = (struct sim_engine *)socket->base.engine;
    uint32_t kept = 0, count = engine->ready_count;
    for (uint32_t i = 0; i < count; i++) {
        struct net_event event = engine->ready[(engine->ready_head + i) % engine->ready_capacity];
        if (event.socket == &socket->base && event.kind == NET_EVENT_RECEIVED) {
            if (event.status == BASE_OK)
                chunk_give_back(engine, &event.chunk);
        } else if (event.socket == &socket->base && event.kind == NET_EVENT_ACCEPTED) {
            net_sim_accepted_drop((struct sim_socket *)event.accepted);
        } else {
            engine->ready[(engine->ready_head + kept++) % engine->ready_capacity] = event;
        }
    }
    engine->ready_count = kept;
}

/* What an event changes happens when the caller gets it, not when it is ready: until then buffers are the engine's. */
static void sim_engine_deliver(struct sim_engine *engine, struct net_event *to)
{
    *to = engine->ready[engine->ready_head];
    engine->ready_head = (engine->ready_head + 1) % engine->ready_capacity;
    engine->ready_count--;
    struct net_counters *counters = &engine->base.counters;
    counters->completions++;
    struct sim_socket *socket = (struct sim_socket *)to->socket;
    to->context = socket ? socket->base.context : to->file->context;
    uint64_t facts[] = {engine->base.now_ns, engine->number, (uint64_t)to->kind,         (uint64_t)to->status,
                        to->bytes,           to->chunk.id,   socket ? socket->number : 0};
    engine->world->trace = net_sim_hash(engine->world->trace, facts, sizeof facts);
    switch (to->kind) {
    case NET_EVENT_RECEIVED:
        if (to->status == BASE_OK) {
            net_holders_lend(&engine->base.holders, to->chunk.id);
            counters->receives++;
            counters->received_bytes += to->chunk.bytes;
        }
        break;
    case NET_EVENT_SENT:
        net_sim_sent_delivered(socket);
        break;
    case NET_EVENT_CLOSED:
        net_sim_closed_delivered(socket);
        break;
    case NET_EVENT_FILE:
        net_sim_file_delivered(engine, to->file);
        break;
    case NET_EVENT_ACCEPTED:
    case NET_EVENT_CONNECTED:
    case NET_EVENT_WOKEN:
    case NET_EVENT_OUT:
        break;
    }
}

static bool deliver_wake(struct sim_engine *engine, struct net_event *to)
{
    if (!atomic_load_explicit(&engine->woken, memory_order_relaxed) ||
        !atomic_exchange_explicit(&engine->woken, false, memory_order_acq_rel))
        return false;
    *to = (struct net_event){.kind = NET_EVENT_WOKEN};
    engine->base.counters.wakeups++;
    return true;
}

static uint32_t sim_poll(struct net_engine *base, struct net_event *events, uint32_t max, uint64_t wait_ns)
{
    (void)wait_ns; /* never blocks: net_sim_advance moves time */
    struct sim_engine *engine = (struct sim_engine *)base;
    struct net_sim_world *world = engine->world;
    BASE_ASSERT(engine->enabled);
    engine->queue_full = false;
    engine->base.counters.enters++;
    engine->base.counters.syscalls++;
    net_sim_queue_flush(engine);
    net_sim_run(world);
    engine->base.now_ns = world->now_ns;
    if (max == 0)
        return 0;
    uint32_t count = 0;
    if (max == 1 || base_random_chance(&world->random, 1, 2))
        count += deliver_wake(engine, &events[count]);
    /* A turn may see only the first of what is ready. */
    uint32_t take = engine->ready_count;
    if (take > 1 && net_sim_percent(world, world->config.short_percent))
        take = 1 + (uint32_t)base_random_below(&world->random, take);
    /* A wake keeps its place. */
    uint32_t room = max - (atomic_load_explicit(&engine->woken, memory_order_relaxed) ? 1 : 0);
    for (; take && count < room; take--)
        sim_engine_deliver(engine, &events[count++]);
    if (count < max)
        count += deliver_wake(engine, &events[count]);
    return count;
}

static void sim_wake(struct net_engine *base)
{
    atomic_store_explicit(&((struct sim_engine *)base)->woken, true, memory_order_release);
}

static enum base_status sim_enable(struct net_engine *base, struct base_error *error)
{
    (void)error;
    ((struct sim_engine *)base)->enabled = true;
    return BASE_OK;
}

static void engine_free(struct sim_engine *engine)
{
    if (engine->chunks) {
        for (uint32_t id = 0; id < engine->config.recv_chunk_count; id++) {
            if (engine->chunks[id])
                CHUNK_ALLOW(engine->chunks[id], engine->config.recv_chunk_bytes);
            free(engine->chunks[id]);
        }
    }
    free(engine->chunks);
    free(engine->chunk_out);
    free(engine->chunks_free);
    free(engine->ready);
    free(engine->files);
    free(engine);
}

static uint64_t chunk_bytes_total(const struct net_engine_config *config)
{
    return (uint64_t)config->recv_chunk_count * config->recv_chunk_bytes;
}

static uint32_t dues_max(const struct net_engine_config *config)
{
    return SOCKET_DUES * config->sockets_max + config->file_ops_max;
}

static void sim_close(struct net_engine *base)
{
    struct sim_engine *engine = (struct sim_engine *)base;
    BASE_ASSERT(engine->sockets_open == 0 && engine->files_busy == 0 && engine->ready_count == 0);
    while (!LIST_EMPTY(&engine->dead)) {
        struct sim_socket *socket = LIST_FIRST(&engine->dead);
        LIST_REMOVE(socket, in_engine);
        free(socket);
    }
    if (engine->config.governor)
        base_governor_return(engine->config.governor, BASE_HOLDER_CHUNKS, chunk_bytes_total(&engine->config));
    net_holders_close(&base->holders, base->name);
    engine->world->heap_reserved -= dues_max(&engine->config);
    LIST_REMOVE(engine, all);
    engine_free(engine);
}

static int sim_descriptor(const struct net_socket *base)
{
    (void)base;
    return -1;
}

static const struct net_engine_ops sim_ops = {
    .enable = sim_enable,
    .close = sim_close,
    .adopt = net_sim_adopt,
    .accept = net_sim_accept,
    .connect = net_sim_connect,
    .receive = net_sim_receive,
    .send = net_sim_send,
    .shutdown = net_sim_shutdown,
    .socket_close = net_sim_socket_close,
    .descriptor = sim_descriptor,
    .chunk_release = sim_chunk_release,
    .file_submit = net_sim_file_submit,
    .memory_register = net_engine_memory_ignore,
    .memory_unregister = net_engine_memory_forget,
    .wake = sim_wake,
    .poll = sim_poll,
};

/* Each chunk is an allocation of its own, so that a sanitizer sees who reads past its end. */
static bool chunks_allocate(struct sim_engine *engine)
{
    uint32_t count = engine->config.recv_chunk_count;
    engine->chunks = calloc(count, sizeof *engine->chunks);
    engine->chunk_out = calloc(count, sizeof *engine->chunk_out);
    engine->chunks_free = calloc(count, sizeof *engine->chunks_free);
    if (!engine->chunks || !engine->chunk_out || !engine->chunks_free)
        return false;
    for (uint32_t id = 0; id < count; id++) {
        engine->chunks[id] = malloc(engine->config.recv_chunk_bytes);
        if (!engine->chunks[id])
            return false;
        memset(engine->chunks[id], CHUNK_SCRIBBLE, engine->config.recv_chunk_bytes);
        CHUNK_FORBID(engine->chunks[id], engine->config.recv_chunk_bytes);
        engine->chunks_free[engine->chunks_free_count++] = id;
    }
    return true;
}

enum base_status net_sim_engine_open(struct net_sim_world *world, const struct net_engine_config *config,
                                     struct net_engine **engine, struct base_error *error)
{
    if (!config->sockets_max || !config->recv_chunk_bytes || !config->recv_chunk_count)
        return base_error_set(error, BASE_INVALID,
                              "simulated engine: sockets_max, recv_chunk_bytes and "
                              "recv_chunk_count must be at least 1");
    enum base_status status = BASE_OK;
    if (config->governor)
        status = base_governor_draw(config->governor, BASE_HOLDER_CHUNKS, chunk_bytes_total(config), error);
    if (status != BASE_OK)
        return status;
    struct sim_engine *opened = calloc(1, sizeof *opened);
    if (!opened)
        goto no_memory;
    opened->config = *config;
    opened->ready_capacity = config->recv_chunk_count + SOCKET_EVENTS * config->sockets_max + config->file_ops_max;
    opened->ready = calloc(opened->ready_capacity, sizeof *opened->ready);
    opened->files = calloc(config->file_ops_max + 1, sizeof *opened->files);
    if (!opened->ready || !opened->files || !chunks_allocate(opened))
        goto no_memory;
    status = net_holders_open(&opened->base.holders, config->recv_chunk_count, error);
    if (status == BASE_OK)
        status = net_sim_reserve(world, dues_max(config), error);
    if (status != BASE_OK)
        goto give_back;
    opened->base.ops = &sim_ops;
    opened->base.name = "sim";
    opened->base.chunk_count = config->recv_chunk_count;
    opened->base.now_ns = world->now_ns;
    strcpy(opened->base.features_text, "seeded");
    TAILQ_INIT(&opened->queued);
    TAILQ_INIT(&opened->starved);
    opened->world = world;
    opened->number = ++world->engines_made;
    LIST_INSERT_HEAD(&world->engines, opened, all);
    *engine = &opened->base;
    return BASE_OK;

no_memory:
    status = base_error_set(error, BASE_NO_MEMORY, "no memory for a simulated engine with %u chunks of %u bytes",
                            config->recv_chunk_count, config->recv_chunk_bytes);
give_back:
    if (opened) {
        net_holders_close(&opened->base.holders, "sim");
        engine_free(opened);
    }
    if (config->governor)
        base_governor_return(config->governor, BASE_HOLDER_CHUNKS, chunk_bytes_total(config));
    return status;
}
