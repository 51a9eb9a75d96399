/* Seeded traffic over the simulated network: a few nodes, all connected to all, each sending a stream of its own to
 * each other one and holding chunks back at random. Every received byte is known from its position, so any loss,
 * repetition or mix-up shows. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "net/sim/sim.h"

enum { NODES_MAX = 4, HELD_MAX = 8, EVENTS_MAX = 16, ROUNDS_MAX = 2000000 };

struct run;

/* One end of a connection. */
struct end {
    struct node *node;
    struct net_socket *socket;
    bool used, connector, connected, shut, closing, closed;
    bool peer_known, ended, failed, received_error;
    uint32_t peer;
    uint32_t out_bytes, out_submitted, out_sent, in_bytes;
    struct net_send_op op;
    uint8_t *memory; /* of the send in flight */
    uint32_t memory_bytes;
};

struct node {
    struct run *run;
    struct net_engine *engine;
    struct net_socket *listener;
    struct net_address address;
    bool listener_closed;
    uint32_t id, ends_open;
    struct end ends[NODES_MAX];
    struct net_chunk held[HELD_MAX];
    uint32_t held_count;
};

/* What happened, over one run. */
struct tally {
    uint64_t trace, end_ns, received_bytes, starved, short_sends, busy, resets, rounds, unreleased_turns;
};

struct run {
    uint64_t seed;
    struct base_random random; /* the test's own choices */
    struct net_sim_config sim;
    struct net_sim_world *world;
    uint32_t nodes_count, chunk_bytes, chunk_count, stream_bytes_max;
    struct node nodes[NODES_MAX];
    struct tally tally;
};

static uint32_t pick(struct run *run, uint32_t bound)
{
    return (uint32_t)base_random_below(&run->random, bound);
}

static uint32_t stream_bytes(const struct run *run, uint32_t from, uint32_t to)
{
    /* At least the byte that names the sender. */
    return 1 + (uint32_t)(base_random_at(run->seed, 1000 + from * NODES_MAX + to) % run->stream_bytes_max);
}

static uint8_t stream_byte(const struct run *run, uint32_t from, uint32_t to, uint32_t position)
{
    if (position == 0)
        return (uint8_t)from;
    uint64_t word = base_random_at(run->seed ^ (from * NODES_MAX + to), position / 8);
    return (uint8_t)(word >> (position % 8 * 8));
}

static void run_choose(struct run *run, uint64_t seed, bool resets)
{
    memset(run, 0, sizeof *run);
    run->seed = seed;
    base_random_seed(&run->random, base_random_mix(seed) ^ 77);
    static const uint32_t buffers[] = {1, 7, 100, 1500, 9000};
    static const uint32_t chunks[] = {1, 13, 256, 4096};
    run->sim = (struct net_sim_config){
        .seed = seed,
        .delay_max_ns = pick(run, 3) ? pick(run, 1000000) : 0,
        .socket_buffer_bytes = buffers[pick(run, 5)],
        .short_percent = pick(run, 90),
        .starve_percent = pick(run, 2) ? pick(run, 101) : 0,
        .busy_percent = pick(run, 60),
        .reset_after_bytes = resets ? 1 + pick(run, 4000) : 0,
    };
    run->nodes_count = 2 + pick(run, NODES_MAX - 1);
    run->chunk_bytes = chunks[pick(run, 4)];
    run->chunk_count = 1 + pick(run, HELD_MAX);
    /* Byte by byte takes many turns: less is enough then. */
    bool tiny = run->sim.socket_buffer_bytes < 10 || run->chunk_bytes < 10;
    run->stream_bytes_max = tiny ? 200 : 4000;
}

static void node_open(struct run *run, uint32_t id)
{
    struct node *node = &run->nodes[id];
    struct base_error error;
    struct net_engine_config config = {
        .sockets_max = NODES_MAX + 1, .recv_chunk_bytes = run->chunk_bytes, .recv_chunk_count = run->chunk_count};
    node->run = run;
    node->id = id;
    assert_int_equal(net_sim_engine_open(run->world, &config, &node->engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(node->engine, &error), BASE_OK);
    struct net_address address = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001 + id)},
                                  .bytes = sizeof(struct sockaddr_in)};
    int fd;
    assert_int_equal(net_sim_listen(run->world, &address, &fd, &node->address, &error), BASE_OK);
    assert_int_equal(net_socket_adopt(node->engine, fd, node, &node->listener, &error), BASE_OK);
    assert_int_equal(net_socket_accept(node->listener, &error), BASE_OK);
}

static struct end *end_new(struct node *node)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        if (!node->ends[i].used) {
            node->ends[i] = (struct end){.node = node, .used = true};
            node->ends_open++;
            return &node->ends[i];
        }
    }
    fail_msg("more connections than nodes");
    return NULL;
}

static void node_connect(struct run *run, uint32_t from, uint32_t to)
{
    struct base_error error;
    struct end *end = end_new(&run->nodes[from]);
    end->connector = true;
    end->peer = to;
    end->peer_known = true;
    assert_int_equal(net_socket_connect(run->nodes[from].engine, &run->nodes[to].address, NET_WAIT_FOREVER, end,
                                        &end->socket, &error),
                     BASE_OK);
}

static void end_start(struct end *end)
{
    struct base_error error;
    end->connected = true;
    assert_int_equal(net_socket_receive(end->socket, &error), BASE_OK);
}

static void end_close(struct end *end)
{
    if (!end->closing)
        net_socket_close(end->socket, end->failed && pick(end->node->run, 2));
    end->closing = true;
}

static void on_received(struct end *end, const struct net_event *event)
{
    struct node *node = end->node;
    struct run *run = node->run;
    assert_false(end->ended || end->received_error);
    if (event->status == BASE_END) {
        end->ended = true;
        assert_true(end->peer_known);
        assert_int_equal(end->in_bytes, stream_bytes(run, end->peer, node->id));
        return;
    }
    if (event->status != BASE_OK) {
        assert_int_equal(event->status, BASE_PEER_RESET);
        end->failed = end->received_error = true;
        run->tally.resets++;
        end_close(end);
        return;
    }
    const struct net_chunk *chunk = &event->chunk;
    assert_in_range(chunk->bytes, 1, chunk->capacity);
    assert_int_equal(chunk->capacity, run->chunk_bytes);
    if (!end->peer_known) {
        end->peer = chunk->data[0];
        end->peer_known = true;
        assert_in_range(end->peer, 0, run->nodes_count - 1);
    }
    uint32_t right = 0;
    while (right < chunk->bytes && chunk->data[right] == stream_byte(run, end->peer, node->id, end->in_bytes + right))
        right++;
    assert_int_equal(right, chunk->bytes);
    end->in_bytes += chunk->bytes;
    run->tally.received_bytes += chunk->bytes;
    assert_true(node->held_count < run->chunk_count);
    node->held[node->held_count++] = *chunk;
}

static void on_sent(struct end *end, const struct net_event *event)
{
    assert_int_equal(end->op.in_flight, 0);
    if (event->status == BASE_OK) {
        assert_int_equal(event->bytes, end->memory_bytes);
        end->out_sent += end->memory_bytes;
    } else {
        assert_true(event->status == BASE_PEER_RESET || (event->status == BASE_CANCELLED && end->closing));
        end->failed = true;
        end_close(end);
    }
    free(end->memory);
    end->memory = NULL;
}

static void on_event(struct node *node, const struct net_event *event)
{
    struct end *end = event->context;
    switch (event->kind) {
    case NET_EVENT_ACCEPTED:
        end = end_new(node);
        end->socket = event->accepted;
        net_socket_set_context(event->accepted, end);
        end_start(end);
        break;
    case NET_EVENT_CONNECTED:
        assert_int_equal(event->status, BASE_OK);
        end_start(end);
        break;
    case NET_EVENT_RECEIVED:
        on_received(end, event);
        break;
    case NET_EVENT_SENT:
        on_sent(end, event);
        break;
    case NET_EVENT_CLOSED:
        if (event->socket == node->listener) {
            node->listener_closed = true;
            break;
        }
        assert_true(end->closing && !end->memory && !end->closed);
        end->closed = true;
        node->ends_open--;
        break;
    default:
        fail_msg("unexpected event %d", event->kind);
    }
}

/* Cuts the next piece of the stream into segments, some of them empty, in memory of its own. */
static void end_send(struct end *end)
{
    struct run *run = end->node->run;
    uint32_t bytes = 1 + pick(run, end->out_bytes - end->out_submitted);
    end->memory = malloc(bytes);
    assert_non_null(end->memory);
    end->memory_bytes = bytes;
    for (uint32_t i = 0; i < bytes; i++)
        end->memory[i] = stream_byte(run, end->node->id, end->peer, end->out_submitted + i);
    end->op.count = 0;
    for (uint32_t at = 0; at < bytes;) {
        bool last = end->op.count + 1 == NET_SEND_SEGMENTS_MAX;
        uint32_t piece = last ? bytes - at : pick(run, bytes - at + 1);
        end->op.segments[end->op.count++] = (struct iovec){end->memory + at, piece};
        at += piece;
    }
    enum base_status status = net_socket_send(end->socket, &end->op);
    if (status == BASE_BUSY) {
        run->tally.busy++;
        assert_int_equal(end->op.in_flight, 0);
        free(end->memory);
        end->memory = NULL;
        return;
    }
    assert_int_equal(status, BASE_OK);
    end->out_submitted += bytes;
}

static void end_turn(struct end *end)
{
    if (!end->connected || end->closing)
        return;
    /* Who was accepted answers once it knows to whom. */
    if (!end->peer_known || end->memory)
        return;
    end->out_bytes = stream_bytes(end->node->run, end->node->id, end->peer);
    if (end->out_submitted < end->out_bytes) {
        end_send(end);
        return;
    }
    if (!end->shut && end->out_sent == end->out_bytes) {
        net_socket_shutdown(end->socket);
        end->shut = true;
    }
    if (end->shut && end->ended)
        end_close(end);
}

/* Returns the number of events. */
static uint32_t node_turn(struct node *node)
{
    struct run *run = node->run;
    struct net_event events[EVENTS_MAX];
    uint32_t count = net_engine_poll(node->engine, events, 1 + pick(run, EVENTS_MAX), 0);
    for (uint32_t i = 0; i < count; i++)
        on_event(node, &events[i]);
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        if (node->ends[i].used)
            end_turn(&node->ends[i]);
    }
    /* An idle node must let go, or it waits for itself. */
    for (uint32_t i = node->held_count; i-- > 0;) {
        if (count && pick(run, 3)) {
            run->tally.unreleased_turns++;
            continue;
        }
        net_chunk_release(node->engine, &node->held[i]);
        node->held[i] = node->held[--node->held_count];
    }
    return count;
}

static bool run_done(const struct run *run)
{
    for (uint32_t i = 0; i < run->nodes_count; i++) {
        const struct node *node = &run->nodes[i];
        uint32_t ends = 0;
        for (uint32_t j = 0; j < NODES_MAX; j++)
            ends += node->ends[j].used;
        if (node->ends_open || ends < run->nodes_count - 1)
            return false;
    }
    return true;
}

/* All nodes take turns in random order until done says so. */
static void run_until(struct run *run, bool (*done)(const struct run *))
{
    while (!done(run)) {
        uint32_t events = 0;
        uint32_t first = pick(run, run->nodes_count);
        for (uint32_t i = 0; i < run->nodes_count; i++)
            events += node_turn(&run->nodes[(first + i) % run->nodes_count]);
        if (events == 0 && !done(run) && !net_sim_advance(run->world, NET_WAIT_FOREVER))
            fail_msg("seed %" PRIu64 ": deadlock at %" PRIu64 " ns", run->seed, net_sim_now_ns(run->world));
        if (++run->tally.rounds > ROUNDS_MAX)
            fail_msg("seed %" PRIu64 ": no end", run->seed);
    }
}

static bool listeners_closed(const struct run *run)
{
    bool all = true;
    for (uint32_t i = 0; i < run->nodes_count; i++)
        all = all && run->nodes[i].listener_closed;
    return all;
}

static struct tally traffic(uint64_t seed, bool resets)
{
    struct run *run = malloc(sizeof *run);
    assert_non_null(run);
    struct base_error error;
    run_choose(run, seed, resets);
    assert_int_equal(net_sim_world_open(&run->sim, &run->world, &error), BASE_OK);
    for (uint32_t i = 0; i < run->nodes_count; i++)
        node_open(run, i);
    for (uint32_t i = 0; i < run->nodes_count; i++) {
        for (uint32_t j = 0; j < i; j++)
            node_connect(run, i, j);
    }
    run_until(run, run_done);
    for (uint32_t i = 0; i < run->nodes_count; i++)
        net_socket_close(run->nodes[i].listener, false);
    run_until(run, listeners_closed);
    for (uint32_t i = 0; i < run->nodes_count; i++) {
        struct node *node = &run->nodes[i];
        for (uint32_t j = 0; j < node->held_count; j++)
            net_chunk_release(node->engine, &node->held[j]);
        run->tally.starved += net_engine_counters(node->engine)->receive_starved;
        run->tally.short_sends += net_engine_counters(node->engine)->short_sends;
        for (uint32_t j = 0; j < NODES_MAX; j++) {
            const struct end *end = &node->ends[j];
            if (end->used && !resets)
                assert_true(end->ended && end->out_sent == end->out_bytes);
        }
        net_engine_close(node->engine);
    }
    run->tally.trace = net_sim_trace(run->world);
    run->tally.end_ns = net_sim_now_ns(run->world);
    net_sim_world_close(run->world);
    struct tally tally = run->tally;
    free(run);
    return tally;
}

static void every_byte_arrives_once_and_in_order(void **state)
{
    (void)state;
    struct tally all = {0};
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct tally tally = traffic(seed, false);
        all.starved += tally.starved;
        all.short_sends += tally.short_sends;
        all.busy += tally.busy;
        all.unreleased_turns += tally.unreleased_turns;
        assert_int_equal(tally.resets, 0);
    }
    /* The faults this test lives on did happen. */
    assert_true(all.starved > 1000 && all.short_sends > 1000 && all.busy > 1000 && all.unreleased_turns > 1000);
}

static void resets_break_streams_but_corrupt_none(void **state)
{
    (void)state;
    uint64_t resets = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++)
        resets += traffic(seed, true).resets;
    assert_true(resets > 100);
}

static void equal_seeds_give_equal_runs(void **state)
{
    (void)state;
    uint64_t previous = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct tally first = traffic(seed, seed % 2), second = traffic(seed, seed % 2);
        assert_memory_equal(&first, &second, sizeof first);
        assert_int_not_equal(first.trace, previous);
        previous = first.trace;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_arrives_once_and_in_order),
        cmocka_unit_test(resets_break_streams_but_corrupt_none),
        cmocka_unit_test(equal_seeds_give_equal_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
