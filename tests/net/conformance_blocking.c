/* Polls that may wait for ever must return for everything that is due: an engine that overlooks a reason to go on hangs
 * here. Kernel engines only, because a simulation needs somebody to move its time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "net/open.h"
#include "tests/net/conformance_cases.h"

/* The next event, waiting without a limit. */
static struct net_event next_event(struct net_engine *engine)
{
    struct net_event event = {0};

    assert_int_equal(net_engine_poll(engine, &event, 1, NET_WAIT_FOREVER), 1);
    return event;
}

/* Waits for a send's end; with zero-copy sending its bytes are out before its buffers are free. */
static void await_sent(struct net_engine *engine)
{
    struct net_event event = next_event(engine);
    if (event.kind == NET_EVENT_OUT)
        event = next_event(engine);
    assert_int_equal(event.kind, NET_EVENT_SENT);
}

static void each_thing_due_ends_the_wait(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct net_event event;
    uint8_t byte = 1, back;
    config.recv_chunk_bytes = 1;
    config.recv_chunk_count = 1;
    struct bench *bench = bench_open(*state, &config);
    struct net_engine *engine = bench->engines[BENCH_CLIENT];

    bench_pair(bench, &client, &server);
    bench_send(client, &byte, 1, 1);
    await_sent(engine);
    BENCH_UNTIL(bench, server->bytes == 1);

    net_engine_wake(engine);
    assert_int_equal(next_event(engine).kind, NET_EVENT_WOKEN);

    /* More is there than the one chunk takes: its release lets the rest come. (Zero-copy receive has chunks of a page,
     * however small they were asked for.) */
    bench_send(server, &byte, 1, 1);
    await_sent(server->engine); /* without a look at the other engine */
    event = next_event(engine);
    const uint32_t capacity = event.chunk.capacity;
    net_chunk_release(engine, &event.chunk);
    uint8_t *more = bench_bytes(capacity + 1, 4);
    bench_send(server, more, capacity + 1, 1);
    await_sent(server->engine);
    for (uint32_t got = 0; got < capacity + 1; net_chunk_release(engine, &event.chunk)) {
        event = next_event(engine);
        assert_int_equal(event.kind, NET_EVENT_RECEIVED);
        assert_memory_equal(event.chunk.data, more + got, event.chunk.bytes);
        got += event.chunk.bytes;
        if (got < capacity + 1)
            assert_int_equal(net_engine_poll(engine, &(struct net_event){0}, 1, 1000), 0);
    }
    free(more);

    FILE *file = tmpfile();
    struct net_file_op op = {.kind = NET_FILE_READ, .fd = fileno(file), .buffer = &back, .bytes = 1};
    assert_int_equal(net_file_submit(engine, &op), BASE_OK);
    assert_int_equal(next_event(engine).kind, NET_EVENT_FILE);
    fclose(file);

    net_socket_close(client->socket, false);
    assert_int_equal(next_event(engine).kind, NET_EVENT_CLOSED);
    client->closed = true;
    client->socket = NULL;

    struct bench_peer *early = bench_connect(bench, &bench->address, BASE_NS_PER_S);
    net_socket_close(early->socket, true); /* nothing of it has reached the kernel */
    assert_int_equal(next_event(engine).kind, NET_EVENT_CONNECTED);
    assert_int_equal(next_event(engine).kind, NET_EVENT_CLOSED);
    early->closed = true;
    early->socket = NULL;
    bench_close(bench);
}

/* Two sockets ran dry, and the first in the queue has nothing to read any more: it must not keep the only chunk. */
static void an_idle_socket_passes_its_turn_on(void **state)
{
    enum { CHUNK = 100 };
    struct net_engine_config config = bench_config();
    struct bench_peer *idle_client, *idle, *busy_client, *busy;
    struct net_event event = {0};
    config.recv_chunk_bytes = CHUNK;
    config.recv_chunk_count = 2;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes((size_t)4 * CHUNK, 11);

    bench_pair(bench, &idle_client, &idle);
    bench_pair(bench, &busy_client, &busy);
    idle->hold = busy->hold = true;
    bench_send(busy_client, data, CHUNK, 1); /* one chunk to the byte */
    BENCH_UNTIL(bench, busy->held_count == 1 && busy_client->sent);
    bench_send(idle_client, data, CHUNK, 1); /* and the other: the next look for a chunk finds none */
    BENCH_UNTIL(bench, idle->held_count == 1);
    bench_pump_for(bench, 2 * BASE_NS_PER_MS);
    bench_send(busy_client, data + CHUNK, (size_t)3 * CHUNK, 1);
    bench_pump_for(bench, 2 * BASE_NS_PER_MS);

    bench_release(idle);
    assert_int_equal(net_engine_poll(busy->engine, &event, 1, 5 * BASE_NS_PER_S), 1);
    assert_int_equal(event.kind, NET_EVENT_RECEIVED);
    assert_ptr_equal(event.context, busy);
    assert_memory_equal(event.chunk.data, data + CHUNK, CHUNK);
    net_chunk_release(busy->engine, &event.chunk);
    free(data);
    bench_close(bench);
}

enum { STREAMS = 6, STREAM_BYTES = 150000, CHUNKS = 2, TURN_EVENTS = 4, HELD_MAX = CHUNKS + TURN_EVENTS };

/* A receiver with two chunks for six streams that keeps pieces for a while, at random; two of them may be in one chunk.
 */
struct reader {
    struct net_engine *engine;
    struct net_socket *listener;
    uint64_t received[STREAMS], sums[STREAMS];
    uint32_t accepted, ended;
    struct net_chunk held[HELD_MAX];
    uint32_t held_count;
    struct base_random random;
};

static void reader_handle(struct reader *reader, const struct net_event *event)
{
    struct base_error error;
    size_t stream = (size_t)(uintptr_t)event->context;

    if (event->kind == NET_EVENT_ACCEPTED) {
        net_socket_set_context(event->accepted, (void *)(uintptr_t)reader->accepted++);
        assert_int_equal(net_socket_receive(event->accepted, &error), BASE_OK);
    } else if (event->kind == NET_EVENT_RECEIVED && event->status == BASE_OK) {
        for (uint32_t i = 0; i < event->chunk.bytes; i++)
            reader->sums[stream] = reader->sums[stream] * 31 + event->chunk.data[i];
        reader->received[stream] += event->chunk.bytes;
        reader->held[reader->held_count++] = event->chunk;
    } else if (event->kind == NET_EVENT_RECEIVED) {
        assert_int_equal(event->status, BASE_END);
        net_socket_close(event->socket, false);
    } else if (event->kind == NET_EVENT_CLOSED && event->socket != reader->listener) {
        reader->ended++;
    }
}

/* Any order, any number; but all of them when nothing else could bring the engine to life. */
static void reader_release(struct reader *reader)
{
    bool all = reader->held_count >= CHUNKS || base_random_chance(&reader->random, 1, 2);

    while (all && reader->held_count > 0) {
        uint32_t pick = (uint32_t)base_random_below(&reader->random, reader->held_count);
        net_chunk_release(reader->engine, &reader->held[pick]);
        reader->held[pick] = reader->held[--reader->held_count];
    }
}

static void *reader_run(void *argument)
{
    struct reader *reader = argument;
    struct net_event events[TURN_EVENTS];
    struct base_error error;

    assert_int_equal(net_engine_enable(reader->engine, &error), BASE_OK);
    assert_int_equal(net_socket_accept(reader->listener, &error), BASE_OK);
    while (reader->ended < STREAMS) {
        uint32_t count = net_engine_poll(reader->engine, events, TURN_EVENTS, NET_WAIT_FOREVER);
        assert_true(count > 0);
        for (uint32_t i = 0; i < count; i++)
            reader_handle(reader, &events[i]);
        reader_release(reader);
    }
    while (reader->held_count > 0)
        reader_release(reader);
    net_socket_close(reader->listener, false);
    assert_int_equal(next_event(reader->engine).kind, NET_EVENT_CLOSED);
    net_engine_close(reader->engine);
    return NULL;
}

struct writer {
    struct net_send_op op;
    struct net_socket *socket;
    uint32_t sent;
};

static void writer_step(struct writer *writer, const uint8_t *data, struct base_random *random)
{
    if (writer->sent == STREAM_BYTES) {
        net_socket_shutdown(writer->socket);
        return;
    }
    uint32_t bytes = 1 + (uint32_t)base_random_below(random, 9000);
    if (bytes > STREAM_BYTES - writer->sent)
        bytes = STREAM_BYTES - writer->sent;
    writer->op.count = 1;
    writer->op.segments[0] = (struct iovec){.iov_base = (void *)(uintptr_t)(data + writer->sent), .iov_len = bytes};
    writer->sent += bytes;
    assert_int_equal(net_socket_send(writer->socket, &writer->op), BASE_OK);
}

static void writers_run(struct net_engine *engine, const struct net_address *address, const uint8_t *data)
{
    struct writer writers[STREAMS] = {0};
    struct base_random random;
    struct base_error error;
    uint32_t closed = 0;

    base_random_seed(&random, 5);
    for (uint32_t i = 0; i < STREAMS; i++)
        assert_int_equal(net_socket_connect(engine, address, net_engine_now_ns(engine) + 5 * BASE_NS_PER_S, &writers[i],
                                            &writers[i].socket, &error),
                         BASE_OK);
    while (closed < STREAMS) {
        struct net_event event = next_event(engine);
        assert_int_equal(event.status, event.kind == NET_EVENT_RECEIVED ? BASE_END : BASE_OK);
        if (event.kind == NET_EVENT_CONNECTED)
            assert_int_equal(net_socket_receive(event.socket, &error), BASE_OK);
        if (event.kind == NET_EVENT_CONNECTED || event.kind == NET_EVENT_SENT)
            writer_step(event.context, data, &random);
        else if (event.kind == NET_EVENT_RECEIVED)
            net_socket_close(event.socket, false);
        else
            closed += event.kind == NET_EVENT_CLOSED;
    }
}

static void two_threads_never_wait_for_each_other(void **state)
{
    const struct bench_kind *kind = *state;
    uint8_t *data = bench_bytes(STREAM_BYTES, 9);
    uint64_t sum = 0;

    for (uint32_t i = 0; i < STREAM_BYTES; i++)
        sum = sum * 31 + data[i];
    for (uint64_t seed = 0; seed < 4; seed++) {
        struct net_engine_config config = bench_config();
        struct net_engine *engine;
        struct base_error error;
        struct net_address any, address;
        struct reader reader = {0};
        pthread_t thread;
        int fd;

        base_random_seed(&reader.random, seed);
        assert_int_equal(base_governor_open(0, &config.governor, &error), BASE_OK);
        assert_int_equal(net_engine_open(&kind->engine, &config, &engine, &error), BASE_OK);
        assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
        config.recv_chunk_bytes = 1 + (uint32_t)seed * 700;
        config.recv_chunk_count = CHUNKS;
        if (seed == 0)
            config.recv_chunk_bytes = 500;
        assert_int_equal(net_engine_open(&kind->engine, &config, &reader.engine, &error), BASE_OK);
        assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
        assert_int_equal(net_listen(&any, 64, &fd, &address, &error), BASE_OK);
        assert_int_equal(net_socket_adopt(reader.engine, fd, NULL, &reader.listener, &error), BASE_OK);
        assert_int_equal(pthread_create(&thread, NULL, reader_run, &reader), 0);
        writers_run(engine, &address, data);
        assert_int_equal(pthread_join(thread, NULL), 0);
        for (uint32_t i = 0; i < STREAMS; i++) {
            assert_int_equal(reader.received[i], STREAM_BYTES);
            assert_int_equal(reader.sums[i], sum);
        }
        net_engine_close(engine);
        close(fd);
        assert_int_equal(base_governor_used_bytes(config.governor), 0);
        base_governor_close(config.governor);
    }
    free(data);
}

const struct conformance_case conformance_blocking_cases[] = {
    CONFORMANCE_CASE(each_thing_due_ends_the_wait),
    CONFORMANCE_CASE(an_idle_socket_passes_its_turn_on),
    CONFORMANCE_CASE(two_threads_never_wait_for_each_other),
    {0},
};
