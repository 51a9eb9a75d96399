/* The exchange as it runs in earnest: a thread per worker, real engines, sockets over loopback and mailboxes, sleeping
 * when there is nothing to do. Thread sanitizers have something to look at here. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "net/open.h"
#include "shuffle/exchange/exchange.h"

enum { WORKERS = 4, PER_NODE = 2, EXCHANGES = 2, ROW_BYTES = 32 };

struct counting_sink {
    struct shuffle_sink base;
    uint64_t rows, sum;
    uint32_t calls;
};

struct cluster {
    enum net_engine_kind kind;
    uint64_t rows; /* per worker and exchange */
    struct base_governor *governor;
    struct shuffle_mailroom *mailroom[WORKERS / PER_NODE];
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
    struct net_address address[WORKERS];
    int listener_fd[WORKERS];
    pthread_barrier_t received, closed;
    struct thread_worker {
        struct cluster *cluster;
        uint32_t number;
        pthread_t thread;
        struct net_engine *engine;
        struct shuffle_mesh *mesh;
        struct shuffle_exchange *exchange[EXCHANGES];
        struct counting_sink sink[EXCHANGES];
        uint64_t at[EXCHANGES], sum_out;
        uint8_t *image;
        uint64_t hash[SHUFFLE_BATCH_ROWS];
        uint32_t destination[SHUFFLE_BATCH_ROWS], rows, cursor;
        bool pending, finished[EXCHANGES];
        struct base_error error;
    } worker[WORKERS];
};

static enum base_status consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct counting_sink *sink = (struct counting_sink *)base;
    (void)error;
    for (; rows->next < rows->count; rows->next++) {
        if (++sink->calls % 5000 == 0)
            return BASE_BUSY;
        sink->sum += base_load_u64(rows->row[rows->next]) * base_load_u64(rows->row[rows->next] + 24);
        sink->rows++;
    }
    return BASE_OK;
}

static const struct shuffle_sink_ops sink_ops = {.consume = consume};

static enum base_status worker_open(struct thread_worker *worker)
{
    static const char *const names[WORKERS] = {"n0", "n0", "n1", "n1"};
    struct cluster *cluster = worker->cluster;
    const uint32_t node = worker->number / PER_NODE;
    const struct shuffle_mesh_config mesh = {.engine = worker->engine,
                                             .governor = cluster->governor,
                                             .worker = worker->number,
                                             .workers = WORKERS,
                                             .local_first = node * PER_NODE,
                                             .local_count = PER_NODE,
                                             .address = cluster->address,
                                             .node_name = names,
                                             .listener_fd = cluster->listener_fd[worker->number],
                                             .job = 3,
                                             .token = "a token of some",
                                             .mailroom = cluster->mailroom[node],
                                             .connect_timeout_ns = 20 * BASE_NS_PER_S};
    enum base_status status = net_engine_enable(worker->engine, &worker->error);
    if (status == BASE_OK)
        status = shuffle_mesh_open(&mesh, &worker->mesh, &worker->error);
    for (uint8_t x = 0; x < EXCHANGES && status == BASE_OK; x++) {
        worker->sink[x].base.ops = &sink_ops;
        const struct shuffle_exchange_config exchange = {.mesh = worker->mesh,
                                                         .governor = cluster->governor,
                                                         .id = x,
                                                         .layout = &cluster->layout,
                                                         .key = &cluster->key,
                                                         .frame_bytes = 16384,
                                                         .frames_per_lane = 2,
                                                         .verify = x == 0,
                                                         .sink = &worker->sink[x].base};
        status = shuffle_exchange_open(&exchange, &worker->exchange[x], &worker->error);
    }
    return status == BASE_OK ? shuffle_mesh_connect(worker->mesh, &worker->error) : status;
}

static void batch_next(struct thread_worker *worker, uint32_t x)
{
    struct cluster *cluster = worker->cluster;
    const uint64_t first = worker->at[x];
    worker->rows = (uint32_t)base_min_u64(SHUFFLE_BATCH_ROWS, cluster->rows - first);
    worker->cursor = 0;
    worker->pending = true;
    worker->at[x] += worker->rows;
    for (uint32_t i = 0; i < worker->rows; i++) {
        uint8_t *row = worker->image + (size_t)i * ROW_BYTES;
        const uint64_t key = base_random_at(worker->number * 10 + x, first + i);
        base_store_u64(row, key);
        base_store_u64(row + 24, first + i);
        worker->sum_out += key * (first + i);
    }
    shuffle_key_hash_image(&cluster->key, &cluster->layout, worker->image, worker->rows, worker->hash);
    shuffle_route_hash(worker->hash, worker->rows, WORKERS, worker->destination);
}

static bool worker_send(struct thread_worker *worker)
{
    for (uint32_t x = 0; x < EXCHANGES; x++) {
        if (worker->finished[x])
            continue;
        if (!worker->pending && worker->at[x] == worker->cluster->rows) {
            shuffle_exchange_finish(worker->exchange[x]);
            worker->finished[x] = true;
            return true;
        }
        if (!worker->pending)
            batch_next(worker, x);
        const struct shuffle_batch batch = {.rows = worker->rows, .image = worker->image};
        const uint32_t before = worker->cursor;
        const enum base_status status = shuffle_exchange_append(worker->exchange[x], &batch, worker->hash,
                                                                worker->destination, &worker->cursor, &worker->error);
        worker->pending = status != BASE_OK;
        return status == BASE_OK || worker->cursor != before;
    }
    return false;
}

/* False: it failed. */
static bool worker_turn(struct thread_worker *worker, bool *worked)
{
    struct net_event events[64];
    struct shuffle_mailroom *mailroom = worker->cluster->mailroom[worker->number / PER_NODE];
    const uint32_t local = worker->number % PER_NODE;
    uint64_t wait_ns = 0;
    if (!*worked && shuffle_mailroom_sleep(mailroom, local)) {
        const uint64_t deadline_ns = shuffle_mesh_deadline_ns(worker->mesh);
        wait_ns = base_min_u64(deadline_ns, 100 * BASE_NS_PER_MS); /* a sink may have been busy */
    }
    const uint32_t count = net_engine_poll(worker->engine, events, 64, wait_ns);
    shuffle_mailroom_awake(mailroom, local);
    *worked = count > 0;
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].kind != NET_EVENT_WOKEN &&
            shuffle_mesh_event(worker->mesh, &events[i], &worker->error) != BASE_OK)
            return false;
    }
    return shuffle_mesh_turn(worker->mesh, worked, &worker->error) == BASE_OK;
}

static bool worker_done(const struct thread_worker *worker)
{
    for (uint32_t x = 0; x < EXCHANGES; x++) {
        if (!shuffle_exchange_sent(worker->exchange[x]) || !shuffle_exchange_received(worker->exchange[x]))
            return false;
    }
    return true;
}

static bool worker_run(struct thread_worker *worker)
{
    bool worked = true;
    while (!shuffle_mesh_connected(worker->mesh)) {
        if (!worker_turn(worker, &worked))
            return false;
    }
    while (!worker_done(worker)) {
        if (!worker_turn(worker, &worked))
            return false;
        worked |= worker_send(worker);
        if (worker->error.status != BASE_OK)
            return false;
    }
    return true;
}

/* A worker waits for the others only where the cluster has its barriers; meanwhile it takes turns. */
static void *worker_main(void *argument)
{
    struct thread_worker *worker = argument;
    struct cluster *cluster = worker->cluster;
    if (worker_open(worker) != BASE_OK || !worker_run(worker)) {
        fprintf(stderr, "worker %u: %s\n", worker->number, worker->error.text);
        abort(); /* the others would wait for ever */
    }
    pthread_barrier_wait(&cluster->received);
    shuffle_mesh_close(worker->mesh, worker->number == 0);
    bool worked = true;
    while (!shuffle_mesh_closed(worker->mesh))
        worker_turn(worker, &worked);
    pthread_barrier_wait(&cluster->closed); /* engines stay until nobody wakes them any more */
    return NULL;
}

static void cluster_open(struct cluster *cluster, enum net_engine_kind kind, uint64_t rows)
{
    struct base_error error;
    memset(cluster, 0, sizeof *cluster);
    cluster->kind = kind;
    cluster->rows = rows;
    assert_int_equal(base_governor_open(0, &cluster->governor, &error), BASE_OK);
    assert_int_equal(shuffle_schema_parse("k:int64,p:binary(24)", &cluster->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&cluster->schema, &cluster->layout, &error), BASE_OK);
    cluster->key = (struct shuffle_key){.count = 1, .part[0] = {0, SHUFFLE_KEY_INTEGER}};
    assert_int_equal(pthread_barrier_init(&cluster->received, NULL, WORKERS), 0);
    assert_int_equal(pthread_barrier_init(&cluster->closed, NULL, WORKERS), 0);
    for (uint32_t i = 0; i < WORKERS / PER_NODE; i++)
        assert_int_equal(shuffle_mailroom_open(PER_NODE, 8, &cluster->mailroom[i], &error), BASE_OK);
    const struct net_engine_config config = {.sockets_max = 64,
                                             .file_ops_max = 1,
                                             .recv_chunk_bytes = 16384,
                                             .recv_chunk_count = 16,
                                             .governor = cluster->governor};
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct thread_worker *worker = &cluster->worker[i];
        struct net_address any;
        worker->cluster = cluster;
        worker->number = i;
        worker->image = malloc((size_t)SHUFFLE_BATCH_ROWS * ROW_BYTES);
        assert_non_null(worker->image);
        memset(worker->image, 0x5a, (size_t)SHUFFLE_BATCH_ROWS * ROW_BYTES);
        assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
        assert_int_equal(net_listen(&any, 16, &cluster->listener_fd[i], &cluster->address[i], &error), BASE_OK);
        assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = kind}, &config, &worker->engine, &error),
                         BASE_OK);
        shuffle_mailroom_register(cluster->mailroom[i / PER_NODE], i % PER_NODE, worker->engine);
    }
}

static void cluster_close(struct cluster *cluster)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct thread_worker *worker = &cluster->worker[i];
        for (uint32_t x = 0; x < EXCHANGES; x++)
            shuffle_exchange_close(worker->exchange[x]);
        shuffle_mesh_free(worker->mesh);
        net_engine_close(worker->engine);
        close(cluster->listener_fd[i]);
        free(worker->image);
    }
    for (uint32_t i = 0; i < WORKERS / PER_NODE; i++)
        shuffle_mailroom_close(cluster->mailroom[i]);
    assert_int_equal(base_governor_used_bytes(cluster->governor), 0);
    base_governor_close(cluster->governor);
    pthread_barrier_destroy(&cluster->received);
    pthread_barrier_destroy(&cluster->closed);
    shuffle_layout_free(&cluster->layout);
    shuffle_schema_free(&cluster->schema);
}

static void run(enum net_engine_kind kind, uint64_t rows)
{
    struct cluster *cluster = malloc(sizeof *cluster);
    assert_non_null(cluster);
    cluster_open(cluster, kind, rows);
    const uint64_t started_ns = base_clock_now_ns();
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&cluster->worker[i].thread, NULL, worker_main, &cluster->worker[i]), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(cluster->worker[i].thread, NULL);
    const uint64_t ns = base_clock_now_ns() - started_ns;
    uint64_t arrived = 0, sum_in = 0, sum_out = 0;
    for (uint32_t i = 0; i < WORKERS; i++) {
        sum_out += cluster->worker[i].sum_out;
        for (uint32_t x = 0; x < EXCHANGES; x++) {
            arrived += cluster->worker[i].sink[x].rows;
            sum_in += cluster->worker[i].sink[x].sum;
        }
    }
    assert_int_equal(arrived, rows * WORKERS * EXCHANGES);
    assert_int_equal(sum_in, sum_out);
    print_message("%s: %.1f M rows/s\n", net_engine_name(cluster->worker[0].engine),
                  (double)arrived * 1000 / (double)ns);
    cluster_close(cluster);
    free(cluster);
}

static uint64_t rows_wanted(void)
{
    const char *rows = getenv("ROWS");
    return rows ? strtoull(rows, NULL, 10) : 60000;
}

static void over_epoll(void **state)
{
    (void)state;
    run(NET_ENGINE_EPOLL, rows_wanted());
}

/* Or what takes its place where the kernel forbids io_uring. */
static void over_the_best_engine(void **state)
{
    (void)state;
    run(NET_ENGINE_AUTO, rows_wanted());
}

static bool uring_allowed(void)
{
    struct net_engine_config config = {.sockets_max = 1, .recv_chunk_bytes = 64, .recv_chunk_count = 1};
    struct net_engine *engine = NULL;
    struct base_error error;
    assert_int_equal(base_governor_open(0, &config.governor, &error), BASE_OK);
    const struct net_engine_choice choice = {.kind = NET_ENGINE_URING_SEND_ZC};
    const bool allowed = net_engine_open(&choice, &config, &engine, &error) == BASE_OK;
    net_engine_close(engine);
    base_governor_close(config.governor);
    return allowed;
}

/* Frames that the kernel sends from, registered with the ring where there is one. */
static void over_zero_copy(void **state)
{
    (void)state;
    run(NET_ENGINE_EPOLL_ZC, rows_wanted() / 4);
    if (uring_allowed())
        run(NET_ENGINE_URING_SEND_ZC, rows_wanted() / 4);
}

static void with_nothing_to_say(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        run(i % 2 ? NET_ENGINE_EPOLL : NET_ENGINE_AUTO, i / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_epoll),
        cmocka_unit_test(over_the_best_engine),
        cmocka_unit_test(over_zero_copy),
        cmocka_unit_test(with_nothing_to_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
