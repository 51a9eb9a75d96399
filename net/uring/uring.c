/* The io_uring engine: one ring per worker, owned by the thread that enables it.
 *
 * A turn. Submits only note what is wanted (`wants`, the todo lists). net_engine_poll turns the notes into submission
 * entries, enters the kernel once - submitting, running its deferred task work and waiting in the same call - and turns
 * completions into events. With nothing queued and nothing announced by the kernel a poll that may not wait makes no
 * system call at all.
 *
 * Requests. Every request carries kind, slot and generation. A socket has at most one request of a kind in flight; its
 * bit in `armed` is set when it is queued and cleared by its last completion, the one without IORING_CQE_F_MORE. So
 * `armed == 0` says that the kernel holds nothing of the socket, and only then is its record, its descriptor and its
 * slot in the ring's file table let go. A completion for a generation that is gone is counted and dropped; none is
 * expected.
 *
 * Closing has three steps: stop (shutdown, or a reset when aborting), join (cancel by descriptor, which also finds
 * multishot requests, and await each last completion; a cancel that missed is repeated after a millisecond), release.
 *
 * Rungs (net/engine/rung.h). What a rung leaves out is decided when the engine is opened: the ring's set-up flags, what
 * is registered, and the receiver, a small table that says how sockets get their chunks. Two things are asked while it
 * runs: whether the turn is submitted at once or request by request (uring_sqe, uring_enter), and whether a socket goes
 * by its slot. What the kernel refuses is taken out of the engine's features and named (net_engine_miss), so whoever
 * asks looks there, never at the rung.
 *
 * Receiving: the upper rungs arm one multishot request per socket, which draws chunks from a ring of provided buffers
 * that all sockets share. A chunk belongs to the user until released. When the ring is empty the request ends with
 * ENOBUFS and its socket queues up in `starved`; see uring/receive.c for why nobody waits there forever. On the lower
 * rungs a request brings its own chunk and is armed for each receive; see uring/oneshot.c.
 *
 * Waking: the ring watches an eventfd with a multishot poll on every rung (net/engine/wake.h).
 *
 * The ring is created disabled, so that it may be opened on one thread and owned by another (the kernel holds the
 * owner of a ring with deferred task work to that). The completion queue is sized for all requests that can be in
 * flight; if accept bursts overflow it all the same, the kernel keeps the rest and the next enter brings it. Without
 * memory to keep it the kernel drops it and says so once: then the engine is broken, see uring/broken.c. */
#include "net/uring/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/engine/refusal.h"
#include "net/uring/open.h"

enum {
    URING_ENTRIES_MIN = 32,
    URING_ENTRIES_MAX = 1024,
    URING_COMPLETIONS_MAX = 65536,
    URING_WAIT_S_MAX = 1 << 30,
    URING_SQPOLL_IDLE_MS = 10,
    URING_MIN_WAIT_BATCH = 32
};

static uint32_t uring_power_of_two(uint64_t value, uint32_t min, uint32_t max)
{
    uint32_t power = min;
    while (power < value && power < max)
        power *= 2;
    return power;
}

/* A refusal that will pass (completions to reap first, a signal, memory) is left to the next turn: what is queued stays
 * queued. Any other breaks the engine at the end of this turn; EBADR, too, though the kernel says it but once: it had
 * no memory to keep a completion. */
static void uring_entered(struct uring_engine *engine, int result)
{
    if (result < 0 && result != -EBUSY && result != -ETIME && result != -EINTR && result != -EAGAIN &&
        result != -ENOMEM)
        engine->broken = -result;
}

/* Hands what is queued to the kernel. With SQPOLL its thread looks by itself, unless it fell asleep: only then there is
 * a system call, and only real ones are counted. A refusal (EBUSY) shows as a queue that stays full. */
static void uring_submit(struct uring_engine *engine)
{
    if (uring_has(engine, NET_FEATURE_SQPOLL)) {
        struct io_uring_sq *queue = &engine->ring.sq;
        queue->sqe_head = queue->sqe_tail;
        /* In this order: the thread announces its sleep, then looks once more. */
        (void)__atomic_exchange_n(queue->ktail, queue->sqe_tail, __ATOMIC_SEQ_CST);
        if (!(__atomic_load_n(queue->kflags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP))
            return;
    }
    engine->base.counters.enters++;
    engine->base.counters.syscalls++;
    uring_entered(engine, io_uring_submit(&engine->ring));
}

struct io_uring_sqe *uring_sqe(struct uring_engine *engine)
{
    if (!uring_has(engine, NET_FEATURE_BATCHED_SUBMIT) && io_uring_sq_ready(&engine->ring) > 0)
        uring_submit(engine);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&engine->ring);

    if (sqe)
        return sqe;
    uring_submit(engine);
    if (uring_has(engine, NET_FEATURE_SQPOLL)) {
        engine->base.counters.enters++;
        engine->base.counters.syscalls++;
        (void)io_uring_sqring_wait(&engine->ring);
    }
    return io_uring_get_sqe(&engine->ring);
}

static uint32_t uring_setup_flags(const struct uring_engine *engine)
{
    uint32_t flags = IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;

    if (uring_has(engine, NET_FEATURE_DEFER_TASKRUN))
        flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    if (uring_has(engine, NET_FEATURE_COOP_TASKRUN))
        flags |= IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    if (uring_has(engine, NET_FEATURE_SQPOLL))
        flags |= IORING_SETUP_SQPOLL;
    /* Completions of zero-copy receive are twice as long; other rungs keep short ones. */
    if (uring_has(engine, NET_FEATURE_RECV_ZC))
        flags |= IORING_SETUP_CQE32;
    return flags;
}

/* Halves the ring while the kernel says ENOMEM: the limit of locked memory counts for unprivileged users. */
static int uring_create_sized(struct uring_engine *engine, const struct net_engine_config *config)
{
    uint64_t sockets = config->sockets_max, files = config->file_ops_max;
    uint64_t chunks = uring_has(engine, NET_FEATURE_RECV_ZC) ? uring_area_pieces(config) : config->recv_chunk_count;
    uint32_t entries = uring_power_of_two(2 * sockets + files + 8, URING_ENTRIES_MIN, URING_ENTRIES_MAX);
    uint32_t completions = uring_power_of_two(
        chunks            /* each chunk's completion */
            + 6 * sockets /* last receive, send and its notification, connect or accept, cancel, watch */
            + files + 8,
        2 * entries, URING_COMPLETIONS_MAX);
    if (config->completions_max > 0) {
        completions = uring_power_of_two(config->completions_max, URING_ENTRIES_MIN, URING_COMPLETIONS_MAX);
        entries = (uint32_t)base_min_u64(entries, completions);
    }
    for (;; entries /= 2, completions /= 2) {
        struct io_uring_params params = {
            .flags = uring_setup_flags(engine), .cq_entries = completions, .sq_thread_idle = URING_SQPOLL_IDLE_MS};
        int result = io_uring_queue_init_params(entries, &engine->ring, &params);
        if (result != -ENOMEM || entries / 2 < URING_ENTRIES_MIN)
            return result;
    }
}

/* Takes the set-up that the kernel is most likely to have refused out of force; false: nothing is left to take. */
static bool uring_create_plainer(struct uring_engine *engine, uint32_t rung_features, int os_error)
{
    if (uring_has(engine, NET_FEATURE_SQPOLL)) {
        net_engine_miss(&engine->base, NET_FEATURE_SQPOLL, strerror(os_error));
        engine->base.features |= rung_features & NET_FEATURE_DEFER_TASKRUN;
        return true;
    }
    if (os_error != EINVAL)
        return false;
    if (uring_has(engine, NET_FEATURE_COOP_TASKRUN))
        net_engine_miss(&engine->base, NET_FEATURE_COOP_TASKRUN, "this kernel is too old (needs Linux 5.19)");
    else if (uring_has(engine, NET_FEATURE_DEFER_TASKRUN))
        net_engine_miss(&engine->base, NET_FEATURE_DEFER_TASKRUN, "this kernel is too old (needs Linux 6.1)");
    else
        return false;
    return true;
}

static int uring_create(struct uring_engine *engine, const struct net_engine_config *config, uint32_t rung_features)
{
    int result;
    do {
        result = uring_create_sized(engine, config);
    } while (result < 0 && uring_create_plainer(engine, rung_features, -result));
    return result;
}

static void uring_enable_options(struct uring_engine *engine)
{
    struct io_uring_napi napi = {.busy_poll_to = engine->napi_us, .prefer_busy_poll = 1};

    if (uring_has(engine, NET_FEATURE_NAPI)) {
        const int result = io_uring_register_napi(&engine->ring, &napi);
        if (result < 0)
            net_engine_miss(&engine->base, NET_FEATURE_NAPI,
                            result == -EINVAL ? "this kernel has no busy polling by the ring (needs Linux 6.9 and "
                                                "CONFIG_NET_RX_BUSY_POLL)"
                                              : strerror(-result));
    }
    if (uring_has(engine, NET_FEATURE_MIN_WAIT) && !(engine->ring.features & IORING_FEAT_MIN_TIMEOUT))
        net_engine_miss(&engine->base, NET_FEATURE_MIN_WAIT, "this kernel is too old (needs Linux 6.12)");
}

static enum base_status uring_enable(struct net_engine *base, struct base_error *error)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    char congestion[48];

    int result = io_uring_enable_rings(&engine->ring);
    if (result < 0)
        return base_error_set_errno(error, -result, "engine uring: cannot enable the ring");
    if (uring_has(engine, NET_FEATURE_REGISTERED_RING)) {
        result = io_uring_register_ring_fd(&engine->ring);
        if (result != 1)
            net_engine_miss(base, NET_FEATURE_REGISTERED_RING, strerror(-result));
    }
    uring_enable_options(engine);
    uring_chunks_enable(engine);
    uring_send_enable(engine);
    uring_memory_enable(engine);
    net_tcp_describe(&engine->tcp, congestion, sizeof congestion);
    net_engine_describe(base, congestion);
    return BASE_OK;
}

static void uring_close(struct net_engine *base)
{
    struct uring_engine *engine = (struct uring_engine *)base;

    if (engine->sockets)
        BASE_ASSERT(net_slots_taken(&engine->slots) == 0);
    if (engine->files)
        BASE_ASSERT(net_slots_taken(&engine->file_slots) == 0);
    net_holders_close(&base->holders, base->name);
    uring_chunks_close(engine);
    uring_memory_close(engine);
    if (engine->ring_open)
        io_uring_queue_exit(&engine->ring);
    if (engine->tie_fd >= 0)
        close(engine->tie_fd);
    net_wake_close(&engine->wake);
    net_slots_close(&engine->slots);
    net_slots_close(&engine->file_slots);
    free(engine->sockets);
    free(engine->files);
    free(engine);
}

static void uring_wake(struct net_engine *base)
{
    net_wake_signal(&((struct uring_engine *)base)->wake);
}

/* A multishot poll: every write to the eventfd is a completion of its own. */
static void uring_wake_enqueue(struct uring_engine *engine)
{
    struct io_uring_sqe *sqe;

    if (engine->wake_armed || !(sqe = uring_sqe(engine)))
        return;
    io_uring_prep_poll_multishot(sqe, engine->wake.fd, POLLIN);
    io_uring_sqe_set_data64(sqe, uring_user_data(URING_WAKE, 0, 0));
    engine->wake_armed = true;
}

/* Submits and waits. With min-wait a batch ends the wait, or that time with whatever is there. */
static int uring_block(struct uring_engine *engine, uint64_t wait_ns)
{
    const uint64_t seconds = base_min_u64(wait_ns / BASE_NS_PER_S, URING_WAIT_S_MAX);
    struct __kernel_timespec limit = {.tv_sec = (long long)seconds, .tv_nsec = (long long)(wait_ns % BASE_NS_PER_S)};
    struct net_counters *counters = &engine->base.counters;
    struct io_uring_cqe *first;
    int result;

    const uint64_t before_ns = base_clock_now_ns();
    if (uring_has(engine, NET_FEATURE_MIN_WAIT))
        result = io_uring_submit_and_wait_min_timeout(
            &engine->ring, &first, URING_MIN_WAIT_BATCH, &limit,
            (unsigned)base_min_u64(engine->min_wait_us, wait_ns / BASE_NS_PER_US), NULL);
    else
        result = io_uring_submit_and_wait_timeout(&engine->ring, &first, 1, &limit, NULL);
    engine->base.now_ns = base_clock_now_ns();
    counters->waits++;
    counters->wait_ns += engine->base.now_ns - before_ns;
    return result;
}

/* The one system call of a turn. */
static void uring_enter(struct uring_engine *engine, uint64_t wait_ns)
{
    struct io_uring *ring = &engine->ring;
    uint32_t submits = 0, announces = IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW;

    if (uring_has(engine, NET_FEATURE_SQPOLL) || !uring_has(engine, NET_FEATURE_BATCHED_SUBMIT)) {
        if (io_uring_sq_ready(ring) > 0)
            uring_submit(engine);
    } else {
        submits = io_uring_sq_ready(ring);
    }
    if (wait_ns == 0 && submits == 0 && !(__atomic_load_n(ring->sq.kflags, __ATOMIC_ACQUIRE) & announces))
        return;
    const int result = wait_ns == 0 ? io_uring_submit_and_get_events(ring) : uring_block(engine, wait_ns);
    engine->base.counters.enters++;
    engine->base.counters.syscalls++;
    uring_entered(engine, result);
}

static uint32_t uring_dispatch(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event)
{
    uint32_t kind = uring_kind_of(cqe);

    if (kind < URING_SOCKET_KINDS)
        return uring_socket_complete(engine, cqe, event);
    if (kind == URING_FILE)
        return uring_file_complete(engine, cqe, event);
    if (!(cqe->flags & IORING_CQE_F_MORE))
        engine->wake_armed = false;
    return 0;
}

static uint32_t uring_reap(struct uring_engine *engine, struct net_event *events, uint32_t max)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    uint32_t count = 0;

    /* First, or completions that fill every poll would keep it waiting. */
    if (net_wake_take(&engine->wake)) {
        engine->base.counters.wakeups++;
        uring_event_fill(&events[count++], NET_EVENT_WOKEN, NULL);
    }
    count += engine->receiver->resume(engine, &events[count], max - count);
    io_uring_for_each_cqe(&engine->ring, head, cqe)
    {
        if (count == max)
            break;
        count += uring_dispatch(engine, cqe, &events[count]);
        seen++;
        if (engine->unfolding.left > 0) {
            count += engine->receiver->resume(engine, &events[count], max - count);
            if (engine->unfolding.left > 0)
                break;
        }
    }
    io_uring_cq_advance(&engine->ring, seen);
    engine->base.counters.completions += seen;

    while (count < max && !net_list_empty(&engine->finished)) {
        struct uring_socket *socket = NET_LIST_ENTRY(engine->finished.next, struct uring_socket, finished);
        (void)uring_socket_finish(socket, &events[count++]);
    }
    return count;
}

/* Time until something must be looked at: 0 when there is something already. */
static uint64_t uring_wait_limit(struct uring_engine *engine, uint64_t wait_ns)
{
    if (io_uring_cq_ready(&engine->ring) > 0 || !net_list_empty(&engine->finished) || !net_list_empty(&engine->todo) ||
        !net_list_empty(&engine->files_todo) || uring_receive_hungry(engine) || engine->unfolding.left > 0 ||
        net_wake_pending(&engine->wake))
        return 0;
    if (net_list_empty(&engine->timed))
        return wait_ns;
    uint64_t now_ns = engine->base.now_ns;
    return base_min_u64(wait_ns, engine->deadline_next_ns > now_ns ? engine->deadline_next_ns - now_ns : 0);
}

static uint32_t uring_poll(struct net_engine *base, struct net_event *events, uint32_t max, uint64_t wait_ns)
{
    struct uring_engine *engine = (struct uring_engine *)base;

    if (engine->broken != 0)
        return uring_broken_poll(engine, events, max, wait_ns);
    base->now_ns = base_clock_now_ns();
    uint64_t until_ns = wait_ns < NET_WAIT_FOREVER - base->now_ns ? base->now_ns + wait_ns : NET_WAIT_FOREVER;
    for (;;) {
        uint64_t left_ns = NET_WAIT_FOREVER;
        if (until_ns != NET_WAIT_FOREVER)
            left_ns = until_ns > base->now_ns ? until_ns - base->now_ns : 0;
        uring_sockets_expire(engine);
        engine->receiver->feed(engine);
        uring_wake_enqueue(engine);
        uring_sockets_enqueue(engine);
        uring_files_enqueue(engine);
        uring_enter(engine, uring_wait_limit(engine, left_ns));
        if (engine->broken != 0) {
            uring_break(engine);
            return 0;
        }
        uint32_t count = uring_reap(engine, events, max);
        if (count > 0 || left_ns == 0)
            return count;
        base->now_ns = base_clock_now_ns();
    }
}

static int uring_descriptor(const struct net_socket *base)
{
    return ((const struct uring_socket *)base)->fd;
}

static const struct net_engine_ops uring_ops = {
    .enable = uring_enable,
    .close = uring_close,
    .adopt = uring_socket_adopt,
    .accept = uring_socket_accept,
    .connect = uring_socket_connect,
    .receive = uring_socket_receive,
    .send = uring_socket_send,
    .shutdown = uring_socket_shutdown,
    .socket_close = uring_socket_close,
    .descriptor = uring_descriptor,
    .chunk_release = uring_chunk_release,
    .file_submit = uring_file_submit,
    .memory_register = uring_memory_register,
    .memory_unregister = uring_memory_unregister,
    .wake = uring_wake,
    .poll = uring_poll,
};

static enum base_status uring_open_tables(struct uring_engine *engine, const struct net_engine_config *config,
                                          struct base_error *error)
{
    engine->sockets = calloc(config->sockets_max, sizeof *engine->sockets);
    if (!engine->sockets || net_slots_open(&engine->slots, config->sockets_max) != BASE_OK ||
        uring_files_open(engine, config->file_ops_max) != BASE_OK)
        return base_error_set(error, BASE_NO_MEMORY, "engine uring: no memory for %u sockets", config->sockets_max);
    for (uint32_t i = 0; i < config->sockets_max; i++)
        engine->sockets[i].fd = -1;
    return BASE_OK;
}

static enum base_status uring_open_kernel(struct uring_engine *engine, const struct net_engine_choice *choice,
                                          const struct net_engine_config *config, const char **refusal,
                                          struct base_error *error)
{
    int result = uring_create(engine, config, net_rung_features(choice->kind));
    if (result < 0) {
        *refusal = net_uring_refusal(-result);
        if (result == -EINVAL)
            return base_error_set(error, BASE_UNSUPPORTED, "engine uring: %s", *refusal);
        return base_error_set_errno(error, -result, "engine uring: %s", *refusal ? *refusal : "io_uring_setup");
    }
    engine->ring_open = true;
    *refusal = net_uring_filter(engine->ring.ring_fd);
    if (*refusal)
        return base_error_set(error, BASE_DENIED, "engine uring: %s", *refusal);
    result = uring_has(engine, NET_FEATURE_REGISTERED_FILES)
                 ? io_uring_register_files_sparse(&engine->ring, config->sockets_max)
                 : 0;
    if (result < 0)
        net_engine_miss(&engine->base, NET_FEATURE_REGISTERED_FILES,
                        result == -EMFILE ? "more sockets than open files are allowed: raise ulimit -n"
                                          : strerror(-result));
    result = net_wake_open(&engine->wake);
    if (result != 0)
        return base_error_set_errno(error, result, "engine uring: eventfd");
    return BASE_OK;
}

enum base_status net_uring_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                struct net_engine **opened, const char **refusal, struct base_error *error)
{
    struct uring_engine *engine = calloc(1, sizeof *engine);
    enum base_status status;

    if (!engine)
        return base_error_set(error, BASE_NO_MEMORY, "engine uring: no memory");
    engine->base.ops = &uring_ops;
    engine->base.name = net_rung_word(choice->kind == NET_ENGINE_AUTO ? NET_ENGINE_URING : choice->kind);
    engine->base.features = net_engine_wanted(choice, config);
    engine->napi_us = choice->option_us[NET_OPTION_INDEX_NAPI];
    engine->min_wait_us = choice->option_us[NET_OPTION_INDEX_MIN_WAIT];
    engine->wake.fd = -1;
    engine->tie_fd = -1;
    engine->governor = config->governor;
    net_list_init(&engine->todo);
    net_list_init(&engine->files_todo);
    net_list_init(&engine->starved);
    net_list_init(&engine->sated);
    net_list_init(&engine->timed);
    net_list_init(&engine->finished);
    status = uring_open_tables(engine, config, error);
    if (status != BASE_OK)
        goto fail;
    status = uring_open_kernel(engine, choice, config, refusal, error);
    if (status != BASE_OK)
        goto fail;
    status = uring_chunks_open(engine, config, error);
    if (status != BASE_OK)
        goto fail;
    status = net_tcp_choose(&config->socket, &engine->base, &engine->tcp, error);
    engine->tcp.ports = config->ports;
    if (status != BASE_OK)
        goto fail;
    *opened = &engine->base;
    return BASE_OK;

fail:
    uring_close(&engine->base);
    return status;
}
