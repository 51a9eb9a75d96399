/* The simulated network: the world and its time.
 *
 * Everything that happens later is a struct sim_due in one binary heap, ordered by its time, then by a number drawn
 * when it was scheduled, then by a running number: a total order that depends on the seed alone. The heap holds
 * pointers into the things themselves (a socket's next transfer, a file operation's next step); whoever frees a thing
 * cancels it. Its room is reserved when an engine is opened (so many per socket slot and per file operation), so
 * scheduling cannot fail in the middle of a run.
 *
 * Submits are queued and reach the heap at their engine's next poll. A thing that fires changes pipes (sim/link.c),
 * sockets (sim/socket.c) or files (sim/file.c), schedules what follows, and puts events into the ready queue of an
 * engine (sim/engine.c). Only net_engine_poll takes them out, and only then buffers go back to the caller and a closed
 * socket dies. Time stands still except in net_sim_advance.
 *
 * Order. A socket has at most one transfer and one receive scheduled, a file operation one step, so a stream keeps its
 * order however late each piece is; across sockets, directions and file operations any order comes up. What has to wait
 * for something that is not time (room in a pipe, a free chunk, a connection to accept) is not in the heap: whoever
 * makes the change nudges it. An empty heap, empty ready queues and nothing queued therefore mean that nothing can
 * happen.
 *
 * Every loop ends: a step at the same time moves at least a byte, or waits, and a receive held back as if no chunk were
 * free is held back for at least a nanosecond and a few times in a row at most. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/sim/internal.h"

static bool due_before(const struct sim_due *a, const struct sim_due *b)
{
    if (a->due_ns != b->due_ns)
        return a->due_ns < b->due_ns;
    if (a->tie != b->tie)
        return a->tie < b->tie;
    return a->sequence < b->sequence;
}

static void heap_set(struct net_sim_world *world, uint32_t place, struct sim_due *due)
{
    world->heap[place] = due;
    due->slot = place + 1;
}

static void heap_up(struct net_sim_world *world, uint32_t place, struct sim_due *due)
{
    while (place > 0) {
        uint32_t parent = (place - 1) / 2;
        if (!due_before(due, world->heap[parent]))
            break;
        heap_set(world, place, world->heap[parent]);
        place = parent;
    }
    heap_set(world, place, due);
}

static void heap_down(struct net_sim_world *world, uint32_t place, struct sim_due *due)
{
    for (;;) {
        uint32_t child = 2 * place + 1;
        if (child >= world->heap_count)
            break;
        if (child + 1 < world->heap_count && due_before(world->heap[child + 1], world->heap[child]))
            child++;
        if (!due_before(world->heap[child], due))
            break;
        heap_set(world, place, world->heap[child]);
        place = child;
    }
    heap_set(world, place, due);
}

void net_sim_schedule_at(struct net_sim_world *world, struct sim_due *due, uint64_t due_ns,
                         void (*fire)(struct sim_due *))
{
    if (due->slot || due->queued_by)
        return;
    BASE_ASSERT(world->heap_count < world->heap_capacity);
    due->fire = fire;
    due->due_ns = base_max_u64(due_ns, world->now_ns);
    due->tie = base_random_next(&world->random);
    due->sequence = world->sequence++;
    heap_up(world, world->heap_count++, due);
}

void net_sim_schedule(struct net_sim_world *world, struct sim_due *due, void (*fire)(struct sim_due *))
{
    uint64_t delay_ns = 0;
    /* A quarter of all things are not late at all: only so do they meet what is decided at the same moment. */
    if (world->config.delay_max_ns && !base_random_chance(&world->random, 1, 4))
        delay_ns = base_random_below(&world->random, (uint64_t)world->config.delay_max_ns + 1);
    net_sim_schedule_at(world, due, world->now_ns + delay_ns, fire);
}

void net_sim_enqueue(struct sim_engine *engine, struct sim_due *due, void (*fire)(struct sim_due *))
{
    BASE_ASSERT(!due->slot && !due->queued_by);
    due->fire = fire;
    due->queued_by = engine;
    TAILQ_INSERT_TAIL(&engine->queued, due, queued);
}

static void sim_dequeue(struct sim_due *due)
{
    TAILQ_REMOVE(&due->queued_by->queued, due, queued);
    due->queued_by = NULL;
}

void net_sim_queue_flush(struct sim_engine *engine)
{
    struct sim_due *due;
    while ((due = TAILQ_FIRST(&engine->queued))) {
        sim_dequeue(due);
        net_sim_schedule(engine->world, due, due->fire);
    }
}

void net_sim_cancel(struct net_sim_world *world, struct sim_due *due)
{
    if (due->queued_by)
        sim_dequeue(due);
    if (!due->slot)
        return;
    uint32_t place = due->slot - 1;
    BASE_ASSERT(place < world->heap_count && world->heap[place] == due);
    due->slot = 0;
    struct sim_due *last = world->heap[--world->heap_count];
    if (last == due)
        return;
    if (place > 0 && due_before(last, world->heap[(place - 1) / 2]))
        heap_up(world, place, last);
    else
        heap_down(world, place, last);
}

void net_sim_run(struct net_sim_world *world)
{
    while (world->heap_count && world->heap[0]->due_ns <= world->now_ns) {
        struct sim_due *due = world->heap[0];
        /* Time never passes the heap's first, so nothing is ever late for its own time. */
        BASE_ASSERT(due->due_ns == world->now_ns);
        net_sim_cancel(world, due);
        due->fire(due);
    }
}

enum base_status net_sim_reserve(struct net_sim_world *world, uint32_t count, struct base_error *error)
{
    uint64_t needed = (uint64_t)world->heap_reserved + count;
    if (needed > world->heap_capacity) {
        struct sim_due **heap = needed > UINT32_MAX ? NULL : realloc(world->heap, needed * sizeof *heap);
        if (!heap)
            return base_error_set(error, BASE_NO_MEMORY,
                                  "no memory for %" PRIu64 " scheduled events of a simulated network", needed);
        world->heap = heap;
        world->heap_capacity = (uint32_t)needed;
    }
    world->heap_reserved = (uint32_t)needed;
    return BASE_OK;
}

bool net_sim_percent(struct net_sim_world *world, uint32_t percent)
{
    return percent && base_random_chance(&world->random, percent, 100);
}

uint64_t net_sim_hash(uint64_t hash, const void *bytes, size_t count)
{
    const uint8_t *at = bytes;
    for (; count >= 8; count -= 8, at += 8)
        hash = base_random_mix(hash ^ base_load_u64(at)) + 1;
    uint64_t tail = count;
    for (; count; count--)
        tail = tail << 8 | *at++;
    return base_random_mix(hash ^ tail) + 1;
}

enum base_status net_sim_world_open(const struct net_sim_config *config, struct net_sim_world **world,
                                    struct base_error *error)
{
    if (!config->socket_buffer_bytes || config->short_percent > 100 || config->starve_percent > 100 ||
        config->busy_percent > 100)
        return base_error_set(error, BASE_INVALID,
                              "simulated network: socket_buffer_bytes must be at least 1, each chance at most 100");
    struct net_sim_world *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a simulated network");
    opened->config = *config;
    base_random_seed(&opened->random, base_random_mix(config->seed + 1));
    opened->trace = config->seed;
    opened->now_ns = 1; /* a time of 0 often means "never" */
    opened->reset_at_bytes = UINT64_MAX;
    if (config->reset_after_bytes)
        opened->reset_at_bytes =
            1 + config->reset_after_bytes / 2 + base_random_below(&opened->random, config->reset_after_bytes);
    opened->next_fd = 1 << 29; /* far from any real one: a mix-up fails with EBADF */
    opened->next_port = 20000;
    *world = opened;
    return BASE_OK;
}

void net_sim_world_close(struct net_sim_world *world)
{
    BASE_ASSERT(LIST_EMPTY(&world->engines));
    while (!LIST_EMPTY(&world->listeners))
        net_sim_listener_close(world, LIST_FIRST(&world->listeners)->fd);
    /* Ends of a pair that nobody adopted. */
    while (!LIST_EMPTY(&world->links))
        net_sim_link_free(LIST_FIRST(&world->links));
    BASE_ASSERT(world->heap_count == 0);
    free(world->heap);
    free(world);
}

/* Somebody's next poll makes a difference: it finds events, hands over submits, or makes room for what was refused. */
static bool polls_matter(const struct net_sim_world *world)
{
    struct sim_engine *engine;
    LIST_FOREACH(engine, &world->engines, all)
    {
        if (engine->ready_count || engine->queue_full || !TAILQ_EMPTY(&engine->queued) ||
            atomic_load_explicit(&engine->woken, memory_order_acquire))
            return true;
    }
    return false;
}

bool net_sim_advance(struct net_sim_world *world, uint64_t limit_ns)
{
    bool pending = world->heap_count || polls_matter(world);
    uint64_t target_ns = world->heap_count ? base_min_u64(world->heap[0]->due_ns, limit_ns) : limit_ns;
    if (target_ns != NET_WAIT_FOREVER && target_ns > world->now_ns)
        world->now_ns = target_ns;
    net_sim_run(world);
    return pending;
}

uint64_t net_sim_now_ns(const struct net_sim_world *world)
{
    return world->now_ns;
}

uint64_t net_sim_trace(const struct net_sim_world *world)
{
    return world->trace;
}
