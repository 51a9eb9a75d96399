/* What only real sockets, real time and real threads can show. */
#include <dirent.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/open.h"
#include "tests/net/conformance_cases.h"

static void many_cycles_leak_nothing(void **state)
{
    enum { CYCLES = 1000 };
    struct net_engine_config config = bench_config();
    config.sockets_max = 4;
    struct bench *bench = bench_open(*state, &config);
    unsigned before = bench_descriptors();
    uint8_t *data = bench_bytes(3000, 1);

    for (int i = 0; i < CYCLES; i++) {
        struct bench_peer *client, *server;
        bench_pair(bench, &client, &server);
        bench_send(client, data, 3000, 3);
        if (i % 3 == 0)
            BENCH_UNTIL(bench, server->bytes == 3000);
        bench_peer_close(client, i % 2 == 0);
        bench_peer_close(server, i % 5 == 0);
        bench_forget(bench);
    }
    assert_int_equal(bench_descriptors(), before);
    free(data);
    bench_close(bench);
}

/* A queue of accepted connections that is full drops the SYN: nobody answers. */
static void connect_gives_up_at_its_deadline(void **state)
{
    enum { CONNECTIONS = 6 };
    struct net_engine_config config = bench_config();
    struct bench_peer *clients[CONNECTIONS];
    struct net_address any, deaf;
    struct base_error error;
    int fd, late = 0;
    struct bench *bench = bench_open(*state, &config);

    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 0, &fd, &deaf, &error), BASE_OK);
    for (int i = 0; i < CONNECTIONS; i++)
        clients[i] = bench_connect(bench, &deaf, 100 * BASE_NS_PER_MS);
    uint64_t begin_ns = net_engine_now_ns(clients[0]->engine); /* what the deadlines were reckoned from */
    for (int i = 0; i < CONNECTIONS; i++) {
        BENCH_UNTIL(bench, clients[i]->connected);
        if (clients[i]->connect_status == BASE_OK)
            continue;
        assert_int_equal(clients[i]->connect_status, BASE_TIMEOUT);
        late++;
        assert_false(clients[i]->closed);
    }
    uint64_t took_ns = base_clock_now_ns() - begin_ns;
    assert_true(late >= 3);
    assert_true(took_ns >= 100 * BASE_NS_PER_MS); /* how much longer is the machine's business */
    bench_close(bench);
    close(fd);
}

/* A deadline that is over already, and one that passes while the engine blocks without an end. */
static void deadlines_end_a_blocking_poll(void **state)
{
    struct net_engine_config config = bench_config();
    struct net_address any, deaf;
    struct net_event event;
    struct base_error error;
    int fd;
    struct bench *bench = bench_open(*state, &config);

    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 0, &fd, &deaf, &error), BASE_OK);
    struct bench_peer *first = bench_connect(bench, &deaf, BASE_NS_PER_S);
    BENCH_UNTIL(bench, first->connected);
    for (uint64_t timeout_ns = 0; timeout_ns <= 30 * BASE_NS_PER_MS; timeout_ns += 30 * BASE_NS_PER_MS) {
        /* The deadline is reckoned from the engine's time, which is of its last poll. */
        uint64_t begin_ns = net_engine_now_ns(bench->engines[BENCH_CLIENT]);
        struct bench_peer *client = bench_connect(bench, &deaf, timeout_ns);
        assert_int_equal(net_engine_poll(client->engine, &event, 1, NET_WAIT_FOREVER), 1);
        assert_int_equal(event.kind, NET_EVENT_CONNECTED);
        assert_int_equal(event.status, BASE_TIMEOUT);
        assert_true(base_clock_now_ns() - begin_ns >= timeout_ns);
        client->connected = true;
    }
    bench_close(bench);
    close(fd);
}

static void idle_polls_block(void **state)
{
    struct net_engine_config config = bench_config();
    struct net_event events[4];
    struct bench *bench = bench_open(*state, &config);
    struct net_engine *engine = bench->engines[BENCH_SERVER];
    struct rusage before, after;

    bench_pump(bench);
    assert_int_equal(net_engine_poll(engine, events, 4, 0), 0);
    const struct net_counters counted = *net_engine_counters(engine);
    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    uint64_t begin_ns = base_clock_now_ns();
    assert_int_equal(net_engine_poll(engine, events, 4, 50 * BASE_NS_PER_MS), 0);
    uint64_t took_ns = base_clock_now_ns() - begin_ns;
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    assert_true(took_ns >= 50 * BASE_NS_PER_MS);
    assert_true(after.ru_nvcsw > before.ru_nvcsw); /* the thread gave the core away, in one call or two: no spinning */
    assert_in_range(net_engine_counters(engine)->enters - counted.enters, 1, 2);
    assert_true(net_engine_counters(engine)->waits > counted.waits);
    assert_true(net_engine_counters(engine)->wait_ns > counted.wait_ns);
    bench_close(bench);
}

struct waker {
    struct net_engine *engine;
    _Atomic uint32_t asked;
    sem_t answered;
    uint32_t payload; /* plain memory, published by the wake */
};

static void *waker_run(void *argument)
{
    struct waker *waker = argument;

    for (uint32_t round = 1; round <= 2000; round++) {
        waker->payload = round * 7;
        atomic_store(&waker->asked, round);
        net_engine_wake(waker->engine);
        while (sem_wait(&waker->answered) != 0)
            ;
    }
    return NULL;
}

/* The other thread goes on only when the blocked poll has returned: a lost wake hangs, a race shows under TSan. */
static void woken_from_another_thread(void **state)
{
    struct net_engine_config config = bench_config();
    struct net_event events[4];
    pthread_t thread;
    struct bench *bench = bench_open(*state, &config);
    struct waker waker = {.engine = bench->engines[BENCH_CLIENT]};

    assert_int_equal(sem_init(&waker.answered, 0, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, waker_run, &waker), 0);
    for (uint32_t round = 1; round <= 2000; round++) {
        while (atomic_load(&waker.asked) < round) {
            assert_int_equal(net_engine_poll(waker.engine, events, 4, 5 * BASE_NS_PER_S), 1);
            assert_int_equal(events[0].kind, NET_EVENT_WOKEN);
        }
        assert_int_equal(waker.payload, round * 7);
        assert_int_equal(sem_post(&waker.answered), 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    sem_destroy(&waker.answered);
    bench_close(bench);
}

/* An engine opened here and owned elsewhere. */
static void *owner_run(void *argument)
{
    struct net_engine *engine = argument;
    struct base_error error;
    struct net_event event;

    assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
    net_engine_wake(engine);
    assert_int_equal(net_engine_poll(engine, &event, 1, BASE_NS_PER_S), 1);
    assert_int_equal(event.kind, NET_EVENT_WOKEN);
    assert_non_null(strstr(net_engine_features(engine), "congestion="));
    net_engine_close(engine);
    return NULL;
}

static void owned_by_the_thread_that_enables_it(void **state)
{
    const struct bench_kind *kind = *state;
    struct net_engine_config config = bench_config();
    struct net_engine *engine;
    struct base_error error;
    pthread_t thread;

    assert_int_equal(base_governor_open(0, &config.governor, &error), BASE_OK);
    assert_int_equal(net_engine_open(&kind->engine, &config, &engine, &error), BASE_OK);
    assert_string_equal(net_engine_name(engine), net_rung_word(kind->engine.kind));
    assert_int_equal(pthread_create(&thread, NULL, owner_run, engine), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(base_governor_used_bytes(config.governor), 0);
    base_governor_close(config.governor);
}

/* TCP_USER_TIMEOUT would end this connection: a worker may be busy for longer than any such limit. */
static void backpressure_outlasts_two_seconds(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    config.recv_chunk_count = 2;
    config.socket.recv_buffer_bytes = config.socket.send_buffer_bytes = 65536;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes(4 << 20, 3);

    bench_pair(bench, &client, &server);
    server->hold = true;
    bench_send(client, data, 4 << 20, 1);
    bench_pump_for(bench, 2300 * BASE_NS_PER_MS);
    assert_false(client->sent);
    server->hold = false;
    bench_release(server);
    BENCH_UNTIL(bench, client->sent && server->bytes == 4 << 20);
    assert_int_equal(client->sent_status, BASE_OK);
    assert_memory_equal(server->data, data, 4 << 20);
    free(data);
    bench_close(bench);
}

/* Out of descriptors: accepting pauses without spinning, and the connection comes once there are some again. */
static void accepting_survives_a_lack_of_descriptors(void **state)
{
    struct net_engine_config config = bench_config();
    struct rlimit limit, tight;
    struct bench *bench = bench_open(*state, &config);
    struct bench_peer *client = bench_connect(bench, &bench->address, 5 * BASE_NS_PER_S);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    tight = limit;
    tight.rlim_cur = 3; /* below what is open: nothing new fits */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    uint64_t enters = net_engine_counters(bench->engines[BENCH_SERVER])->enters;
    uint64_t completions = net_engine_counters(bench->engines[BENCH_SERVER])->completions;
    bench_pump_for(bench, 30 * BASE_NS_PER_MS);
    assert_int_equal(bench->accepted_count, 0);
    assert_true(net_engine_counters(bench->engines[BENCH_SERVER])->completions - completions < 10);
    assert_true(net_engine_counters(bench->engines[BENCH_SERVER])->enters >= enters);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    BENCH_UNTIL(bench, client->connected && bench->accepted_count == 1);
    bench_close(bench);
}

static int flood_dropped(const int *fds, int count)
{
    int dropped = 0;
    char byte;

    for (int i = 0; i < count; i++)
        dropped += recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
    return dropped;
}

/* Connections come faster than anybody looks, far more than the completion queue or the table of sockets can hold. */
static void a_flood_of_connections_is_survived(void **state)
{
    enum { FLOOD = 300 };
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    int fds[FLOOD];
    config.sockets_max = 8;
    config.recv_chunk_count = 4;
    struct bench *bench = bench_open(*state, &config);

    bench_pump(bench); /* accepting is armed */
    for (int i = 0; i < FLOOD; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0);
        assert_int_equal(connect(fds[i], &bench->address.any, bench->address.bytes), 0);
    }
    BENCH_UNTIL(bench, flood_dropped(fds, FLOOD) == FLOOD - 7);
    assert_int_equal(bench->accepted_count, 7);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
    for (uint32_t i = 0; i < bench->accepted_count; i++) {
        BENCH_UNTIL(bench, bench->accepted[i]->ended);
        bench_peer_close(bench->accepted[i], false);
    }
    bench_forget(bench);
    bench_pair(bench, &client, &server);
    bench_close(bench);
}

/* A socket closes when some of what the kernel has received for it was handed out, and the rest was not: every chunk
 * must be there again. */
static void closing_gives_back_what_was_not_handed_out(void **state)
{
    enum { CHUNKS = 4, BYTES = CHUNKS * 4096 };
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    config.recv_chunk_count = CHUNKS;
    struct bench *bench = bench_open(*state, &config);
    uint8_t *data = bench_bytes(BYTES, 13);

    for (uint32_t taken = 1; taken <= CHUNKS; taken++) {
        bench_pair(bench, &client, &server);
        server->hold = true;
        bench->events_max = 1;
        bench_send(client, data, BYTES, 1);
        BENCH_UNTIL(bench, client->sent && server->held_count >= taken);
        bench_peer_close(server, taken % 2 == 0);
        bench_release(server);
        bench->events_max = BENCH_EVENTS_MAX;

        bench_pair(bench, &client, &server);
        server->hold = true;
        bench_send(client, data, BYTES, 1);
        BENCH_UNTIL(bench, server->bytes == BYTES);
        assert_memory_equal(server->data, data, BYTES);
        bench_release(server);
    }
    free(data);
    bench_close(bench);
}

/* Threads that io_uring started for the calling thread, to do what it could not do at once or by polling. */
static unsigned worker_threads(void)
{
    char ours[32];
    unsigned count = 0;
    struct dirent *entry;
    DIR *tasks = opendir("/proc/self/task");

    assert_non_null(tasks);
    snprintf(ours, sizeof ours, "iou-wrk-%d\n", (int)gettid());
    while ((entry = readdir(tasks)) != NULL) {
        char path[300], name[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "re");
        if (!file)
            continue; /* ended meanwhile */
        count += fgets(name, sizeof name, file) && strcmp(name, ours) == 0;
        fclose(file);
    }
    closedir(tasks);
    return count;
}

/* A send that has to wait for room often is where the kernel would stop polling and take a thread. */
static void *socket_traffic_run(void *state)
{
    enum { BYTES = 6 << 20 };
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    config.socket.send_buffer_bytes = 4096;
    config.socket.recv_buffer_bytes = 32768; /* a window smaller than a segment is served by a timer of TCP */
    struct bench *bench = bench_open(state, &config);
    uint8_t *data = bench_bytes(BYTES, 12);

    for (uint32_t count = 1; count <= 64; count += 63) {
        bench_pair(bench, &client, &server);
        bench_send(client, data, BYTES, count);
        for (size_t bytes = BYTES / 8; bytes <= BYTES; bytes += BYTES / 8) {
            BENCH_UNTIL(bench, server->bytes >= bytes);
            assert_int_equal(worker_threads(), 0);
        }
        BENCH_UNTIL(bench, client->sent);
        assert_memory_equal(server->data, data, BYTES);
        bench_peer_close(client, false);
        bench_peer_close(server, false);
    }
    assert_int_equal(worker_threads(), 0);
    free(data);
    bench_close(bench);
    return NULL;
}

/* In a thread of its own, because workers belong to the thread that asked: those of files are others. */
static void sockets_need_no_worker_threads(void **state)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, socket_traffic_run, *state), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

const struct conformance_case conformance_kernel_cases[] = {
    CONFORMANCE_CASE(many_cycles_leak_nothing),
    CONFORMANCE_CASE(connect_gives_up_at_its_deadline),
    CONFORMANCE_CASE(deadlines_end_a_blocking_poll),
    CONFORMANCE_CASE(idle_polls_block),
    CONFORMANCE_CASE(woken_from_another_thread),
    CONFORMANCE_CASE(owned_by_the_thread_that_enables_it),
    CONFORMANCE_CASE(backpressure_outlasts_two_seconds),
    CONFORMANCE_CASE(accepting_survives_a_lack_of_descriptors),
    CONFORMANCE_CASE(a_flood_of_connections_is_survived),
    CONFORMANCE_CASE(sockets_need_no_worker_threads),
    CONFORMANCE_CASE(closing_gives_back_what_was_not_handed_out),
    {0},
};
