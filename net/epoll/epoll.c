/* The epoll engine: the baseline, and what runs where io_uring is forbidden.
 *
 * Sockets are registered once, edge-triggered, for reading and writing together; no epoll_ctl follows until they close.
 * The edges are kept as flags (readable, writable) and a socket with something to do waits in the `ready` queue. A turn
 * does one piece of work - one read, one send - and goes to the end of the queue, so a fast sender cannot starve the
 * others within a poll. A connection that fills what it is offered is read into several chunks at once, though never
 * into more than a part of the pool, which is for all. A read or write that comes back short has emptied or filled the
 * kernel's buffer, which saves the call that would only say EAGAIN. Listeners are level-triggered: a batch of
 * connections may be taken in parts.
 *
 * Lifetimes: a socket's record is reused after CLOSED; its generation travels through the kernel with its number, so an
 * event that was in flight when it closed is counted as stale and dropped. Everything is done by the owner inside poll,
 * also what could be done at once, so completions never come from a submit.
 *
 * Why it cannot get stuck: poll blocks only when the ready queue, the files and the wake flag are empty. A socket
 * leaves the queue because the kernel will tell (its flag is clear), because it has no chunk (then it is in `starved`,
 * and the release of any chunk queues it again), or because the user has asked for nothing. */
#include "net/epoll/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/epoll/open.h"

enum { EPOLL_BATCH = 256 };

/* What the eventfd's events carry; no socket has this number. */
#define EPOLL_TAG_WAKE UINT64_MAX

/* The whole pool is drawn and touched now: later no budget can take a worker's receive buffers away, and no page fault
 * happens while receiving. */
static enum base_status epoll_chunks_reserve(struct epoll_engine *engine, uint32_t count, struct base_error *error)
{
    uint32_t have = 0;
    void **taken = calloc(count, sizeof *taken);

    if (!taken)
        return base_error_set(error, BASE_NO_MEMORY, "engine epoll: no memory");
    while (have < count && (taken[have] = base_pool_take(engine->chunks)) != NULL)
        memset(taken[have++], 0, engine->chunk_bytes);
    for (uint32_t i = have; i > 0; i--)
        base_pool_give(engine->chunks, taken[i - 1]);
    free(taken);
    if (have < count)
        return base_error_set(error, BASE_NO_MEMORY,
                              "the memory budget has no room for %u receive chunks of %u bytes a worker: "
                              "raise --memory of millraced node or use fewer workers",
                              count, engine->chunk_bytes);
    return BASE_OK;
}

static enum base_status epoll_enable(struct net_engine *base, struct base_error *error)
{
    (void)base;
    (void)error;
    return BASE_OK;
}

static void epoll_close(struct net_engine *base)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;

    if (engine->sockets)
        BASE_ASSERT(net_slots_taken(&engine->slots) == 0);
    BASE_ASSERT(engine->file_count == 0);
    net_holders_close(&base->holders, base->name);
    if (engine->chunks)
        (void)base_pool_close(engine->chunks);
    net_wake_close(&engine->wake);
    if (engine->epoll_fd >= 0)
        close(engine->epoll_fd);
    net_slots_close(&engine->slots);
    free(engine->sockets);
    free(engine->files);
    free(engine);
}

static void epoll_chunk_release(struct net_engine *base, const struct net_chunk *chunk)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;
    base_pool_give(engine->chunks, chunk->data);
    epoll_sockets_feed(engine);
}

static void epoll_wake(struct net_engine *base)
{
    net_wake_signal(&((struct epoll_engine *)base)->wake);
}

static void epoll_deliver_wake(struct epoll_engine *engine, struct epoll_output *output)
{
    if (output->count < output->max && net_wake_take(&engine->wake)) {
        engine->base.counters.wakeups++;
        epoll_event_add(output, NET_EVENT_WOKEN, NULL);
    }
}

/* Waits to the nanosecond where the kernel can (5.11 on, and not hidden by a container's seccomp filter), else to the
 * next millisecond. */
static int epoll_wait_for(int epoll_fd, struct epoll_event *batch, uint64_t wait_ns)
{
    static atomic_bool coarse;

    if (!atomic_load_explicit(&coarse, memory_order_relaxed)) {
        struct timespec limit = {.tv_sec = (time_t)(wait_ns / BASE_NS_PER_S),
                                 .tv_nsec = (long)(wait_ns % BASE_NS_PER_S)};
        int count = epoll_pwait2(epoll_fd, batch, EPOLL_BATCH, wait_ns == NET_WAIT_FOREVER ? NULL : &limit, NULL);
        if (count >= 0 || (errno != ENOSYS && errno != EPERM))
            return count;
        atomic_store_explicit(&coarse, true, memory_order_relaxed);
    }
    uint64_t wait_ms = base_min_u64(wait_ns / BASE_NS_PER_MS + (wait_ns % BASE_NS_PER_MS != 0), INT_MAX);
    return epoll_wait(epoll_fd, batch, EPOLL_BATCH, wait_ns == NET_WAIT_FOREVER ? -1 : (int)wait_ms);
}

static void epoll_wait_kernel(struct epoll_engine *engine, uint64_t wait_ns)
{
    struct epoll_event batch[EPOLL_BATCH];
    struct net_counters *counters = &engine->base.counters;
    uint64_t before_ns = wait_ns != 0 ? base_clock_now_ns() : 0;

    counters->enters++;
    counters->syscalls++;
    int count = epoll_wait_for(engine->epoll_fd, batch, wait_ns);
    int os_error = errno;
    engine->base.now_ns = base_clock_now_ns();
    if (wait_ns != 0) {
        counters->waits++;
        counters->wait_ns += engine->base.now_ns - before_ns;
    }
    BASE_ASSERT(count >= 0 || os_error == EINTR);
    for (int i = 0; i < count; i++) {
        uint64_t tag = batch[i].data.u64;
        counters->completions++;
        if (tag == EPOLL_TAG_WAKE)
            continue;
        struct epoll_socket *socket = &engine->sockets[(uint32_t)tag];
        if (socket->fd >= 0 && socket->generation == (uint32_t)(tag >> 32))
            epoll_socket_notice(socket, batch[i].events);
        else
            counters->stale_completions++;
    }
}

/* Time until something must be looked at: 0 when there is work already. */
static uint64_t epoll_wait_limit(struct epoll_engine *engine, uint64_t wait_ns)
{
    if (!net_list_empty(&engine->ready) || engine->file_count > 0 || net_wake_pending(&engine->wake))
        return 0;
    if (net_list_empty(&engine->timed))
        return wait_ns;
    uint64_t now_ns = engine->base.now_ns;
    return base_min_u64(wait_ns, engine->deadline_next_ns > now_ns ? engine->deadline_next_ns - now_ns : 0);
}

static uint32_t epoll_poll(struct net_engine *base, struct net_event *events, uint32_t max, uint64_t wait_ns)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;
    struct epoll_output output = {.events = events, .max = max};
    struct net_link *link;

    base->now_ns = base_clock_now_ns();
    uint64_t until_ns = wait_ns < NET_WAIT_FOREVER - base->now_ns ? base->now_ns + wait_ns : NET_WAIT_FOREVER;
    for (;;) {
        uint64_t left_ns = until_ns == NET_WAIT_FOREVER ? NET_WAIT_FOREVER
                           : until_ns > base->now_ns    ? until_ns - base->now_ns
                                                        : 0;
        epoll_wait_kernel(engine, epoll_wait_limit(engine, left_ns));
        epoll_sockets_expire(engine);
        epoll_deliver_wake(engine, &output);
        epoll_files_turn(engine, &output);
        while (output.count < max && (link = net_list_pop(&engine->ready)) != NULL)
            epoll_socket_turn(NET_LIST_ENTRY(link, struct epoll_socket, ready), &output);
        if (output.count > 0 || left_ns == 0)
            return output.count;
    }
}

static int epoll_descriptor(const struct net_socket *base)
{
    return ((const struct epoll_socket *)base)->fd;
}

static const struct net_engine_ops epoll_ops = {
    .enable = epoll_enable,
    .close = epoll_close,
    .adopt = epoll_socket_adopt,
    .accept = epoll_socket_accept,
    .connect = epoll_socket_connect,
    .receive = epoll_socket_receive,
    .send = epoll_socket_send,
    .shutdown = epoll_socket_shutdown,
    .socket_close = epoll_socket_close,
    .descriptor = epoll_descriptor,
    .chunk_release = epoll_chunk_release,
    .file_submit = epoll_file_submit,
    .memory_register = net_engine_memory_ignore,
    .memory_unregister = net_engine_memory_forget,
    .wake = epoll_wake,
    .poll = epoll_poll,
};

static enum base_status epoll_open_kernel(struct epoll_engine *engine, struct base_error *error)
{
    struct epoll_event wake = {.events = EPOLLIN | EPOLLET, .data.u64 = EPOLL_TAG_WAKE};

    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->epoll_fd < 0)
        return base_error_set_errno(error, errno, "engine epoll: epoll_create1");
    const int failure = net_wake_open(&engine->wake);
    if (failure != 0)
        return base_error_set_errno(error, failure, "engine epoll: eventfd");
    if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake.fd, &wake) != 0)
        return base_error_set_errno(error, errno, "engine epoll: epoll_ctl");
    return BASE_OK;
}

enum base_status net_epoll_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                struct net_engine **opened, struct base_error *error)
{
    char congestion[48];
    enum base_status status;
    struct epoll_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return base_error_set(error, BASE_NO_MEMORY, "engine epoll: no memory");
    engine->base.ops = &epoll_ops;
    engine->base.name = net_rung_word(choice->kind);
    engine->base.features = net_engine_choice_features(choice);
    engine->epoll_fd = engine->wake.fd = -1;
    engine->chunk_bytes = config->recv_chunk_bytes;
    engine->files_max = config->file_ops_max;
    net_list_init(&engine->ready);
    net_list_init(&engine->starved);
    net_list_init(&engine->timed);
    engine->files = calloc(config->file_ops_max + 1, sizeof(struct net_file_op *));
    status = net_slots_open(&engine->slots, config->sockets_max);
    if (status == BASE_OK)
        engine->sockets = calloc(config->sockets_max, sizeof *engine->sockets);
    if (status != BASE_OK || !engine->sockets || !engine->files) {
        status = base_error_set(error, BASE_NO_MEMORY, "engine epoll: no memory for %u sockets", config->sockets_max);
        goto fail;
    }
    for (uint32_t i = 0; i < config->sockets_max; i++)
        engine->sockets[i].fd = -1;
    status = epoll_open_kernel(engine, error);
    if (status != BASE_OK)
        goto fail;
    status = base_pool_open(config->governor, BASE_HOLDER_CHUNKS, "epoll receive chunks", config->recv_chunk_bytes,
                            config->recv_chunk_count, &engine->chunks, error);
    if (status != BASE_OK)
        goto fail;
    status = epoll_chunks_reserve(engine, config->recv_chunk_count, error);
    if (status == BASE_OK)
        status = net_holders_open(&engine->base.holders, config->recv_chunk_count, error);
    if (status != BASE_OK)
        goto fail;
    if ((engine->base.features & NET_FEATURE_SEND_ZC) && !epoll_zerocopy_works())
        net_engine_miss(&engine->base, NET_FEATURE_SEND_ZC, "this kernel has no SO_ZEROCOPY for TCP (Linux 4.14)");
    status = net_tcp_choose(&config->socket, &engine->base, &engine->tcp, error);
    engine->tcp.ports = config->ports;
    if (status != BASE_OK)
        goto fail;
    net_tcp_describe(&engine->tcp, congestion, sizeof congestion);
    net_engine_describe(&engine->base, congestion);
    *opened = &engine->base;
    return BASE_OK;

fail:
    epoll_close(&engine->base);
    return status;
}
