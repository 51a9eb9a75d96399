/* What all engines share: checks arguments and jumps through the table. */
#include "net/engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "net/engine/ops.h"

enum base_status net_engine_enable(struct net_engine *engine, struct base_error *error)
{
    return engine->ops->enable(engine, error);
}

void net_engine_close(struct net_engine *engine)
{
    if (engine)
        engine->ops->close(engine);
}

const char *net_engine_name(const struct net_engine *engine)
{
    return engine->name;
}

const char *net_engine_reason(const struct net_engine *engine)
{
    return engine->reason;
}

void net_engine_describe(struct net_engine *engine, const char *settings)
{
    int used = net_features_format(engine->features, engine->features_text, sizeof engine->features_text);
    if (used < (int)sizeof engine->features_text)
        snprintf(engine->features_text + used, sizeof engine->features_text - (size_t)used, "%s%s", used ? " " : "",
                 settings);
}

uint32_t net_engine_in_force(const struct net_engine *engine)
{
    return engine->features;
}

uint32_t net_engine_missing(const struct net_engine *engine)
{
    return engine->missing;
}

uint32_t net_engine_wanted(const struct net_engine_choice *choice, const struct net_engine_config *config)
{
    const uint32_t rung = net_rung_features(choice->kind), asked = net_engine_choice_features(choice);
    const bool chosen = choice->kind == NET_ENGINE_AUTO || choice->kind == NET_ENGINE_URING;
    /* An option may take something of the rung away: that goes from what was chosen, too. */
    return chosen && config->features != 0 ? (config->features | choice->options) & ~(rung & ~asked) : asked;
}

void net_engine_note(struct net_engine *engine, const char *format, ...)
{
    size_t used = strlen(engine->reason);
    if (used > 0)
        used += (size_t)snprintf(engine->reason + used, sizeof engine->reason - used, "; ");
    if (used >= sizeof engine->reason)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(engine->reason + used, sizeof engine->reason - used, format, arguments);
    va_end(arguments);
}

void net_engine_miss(struct net_engine *engine, enum net_feature feature, const char *why)
{
    engine->features &= ~(uint32_t)feature;
    engine->missing |= (uint32_t)feature;
    net_engine_note(engine, "no %s: %s", net_feature_word(feature), why);
}

void net_engine_miss_too(struct net_engine *engine, uint32_t features)
{
    engine->missing |= engine->features & features;
    engine->features &= ~features;
}

const char *net_engine_features(const struct net_engine *engine)
{
    return engine->features_text;
}

uint32_t net_engine_chunk_count(const struct net_engine *engine)
{
    return engine->chunk_count;
}

const struct base_error *net_engine_failure(const struct net_engine *engine)
{
    return engine->failure.status == BASE_OK ? NULL : &engine->failure;
}

const struct net_counters *net_engine_counters(const struct net_engine *engine)
{
    return &engine->counters;
}

uint64_t net_engine_now_ns(const struct net_engine *engine)
{
    return engine->now_ns;
}

enum base_status net_socket_adopt(struct net_engine *engine, int fd, void *context, struct net_socket **socket,
                                  struct base_error *error)
{
    BASE_ASSERT(fd >= 0);
    return engine->ops->adopt(engine, fd, context, socket, error);
}

void net_socket_set_context(struct net_socket *socket, void *context)
{
    socket->context = context;
}

void *net_socket_context(const struct net_socket *socket)
{
    return socket->context;
}

enum base_status net_socket_accept(struct net_socket *listener, struct base_error *error)
{
    return listener->engine->ops->accept(listener, error);
}

enum base_status net_socket_connect(struct net_engine *engine, const struct net_address *address, uint64_t deadline_ns,
                                    void *context, struct net_socket **socket, struct base_error *error)
{
    return engine->ops->connect(engine, address, deadline_ns, context, socket, error);
}

enum base_status net_socket_receive(struct net_socket *socket, struct base_error *error)
{
    BASE_ASSERT(socket->engine);
    return socket->engine->ops->receive(socket, error);
}

enum base_status net_socket_send(struct net_socket *socket, struct net_send_op *op)
{
    BASE_ASSERT(op->count > 0 && op->count <= NET_SEND_SEGMENTS_MAX);
    BASE_ASSERT(!op->in_flight);
    enum base_status status = socket->engine->ops->send(socket, op);
    if (status == BASE_OK)
        op->in_flight = 1;
    return status;
}

void net_socket_shutdown(struct net_socket *socket)
{
    socket->engine->ops->shutdown(socket);
}

void net_socket_close(struct net_socket *socket, bool abort)
{
    socket->engine->ops->socket_close(socket, abort);
}

/* Debug builds scribble over bytes that nobody may look at any more, before the kernel gets them: whoever does all the
 * same, as with a row that points into a chunk given back, is found by --verify. */
static void chunk_scribble(const struct net_chunk *chunk)
{
#ifdef NDEBUG
    (void)chunk;
#else
    memset(chunk->data, 0xdb, chunk->bytes);
#endif
}

void net_chunk_release(struct net_engine *engine, const struct net_chunk *chunk)
{
    net_holders_back(&engine->holders, chunk->id);
    chunk_scribble(chunk);
    engine->ops->chunk_release(engine, chunk);
}

void net_chunk_keep(struct net_engine *engine, const struct net_chunk *chunk, const char *words, uint32_t number)
{
    BASE_ASSERT(chunk->id < engine->holders.count && engine->holders.chunk[chunk->id].pieces > 0);
    engine->holders.chunk[chunk->id].words = words;
    engine->holders.chunk[chunk->id].number = number;
}

enum base_status net_file_submit(struct net_engine *engine, struct net_file_op *op)
{
    BASE_ASSERT(!op->in_flight && op->fd >= 0);
    op->done = 0;
    enum base_status status = engine->ops->file_submit(engine, op);
    if (status == BASE_OK)
        op->in_flight = 1;
    return status;
}

void net_memory_register(struct net_engine *engine, void *memory, size_t bytes)
{
    engine->ops->memory_register(engine, memory, bytes);
}

void net_memory_unregister(struct net_engine *engine, void *memory)
{
    engine->ops->memory_unregister(engine, memory);
}

void net_engine_memory_ignore(struct net_engine *engine, void *memory, size_t bytes)
{
    (void)engine;
    (void)memory;
    (void)bytes;
}

void net_engine_memory_forget(struct net_engine *engine, void *memory)
{
    (void)engine;
    (void)memory;
}

void net_engine_wake(struct net_engine *engine)
{
    engine->ops->wake(engine);
}

uint32_t net_engine_poll(struct net_engine *engine, struct net_event *events, uint32_t max, uint64_t wait_ns)
{
    BASE_ASSERT(max > 0);
    const uint32_t count = engine->ops->poll(engine, events, max, wait_ns);
    BASE_ASSERT(count <= max);
    return count;
}
