/* Whole exchanges over the simulated network: every row arrives once, at the right worker, with the right hash,
 * whatever the network, the sinks and the memory do. The seed of a failing run is printed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "shuffle/exchange/lane.h"
#include "shuffle/mesh/internal.h"
#include "shuffle/mesh/lanes.h"
#include "tests/child_output.h"
#include "tests/shuffle/mesh/mesh_rig.h"

static const struct rig_config plain = {
    .seed = 1,
    .nodes = 2,
    .workers = 4,
    .exchanges = 1,
    .schema = "k:int64,v:int64",
    .rows = 2000,
    .frame_bytes = 4096,
    .frames_per_lane = 2,
    .mailbox_frames = 2,
    .chunk_bytes = 4096,
    .chunk_count = 8,
    .image = true,
    .verify = true,
    .sim = {.socket_buffer_bytes = 20000},
};

static uint64_t stitched, stalls_frame, stalls_sink, self;
static uint64_t stitched_bytes, cut_rows, cut_key_bytes;

static void run_one(const struct rig_config *config)
{
    struct rig *rig = rig_new();
    rig_open(rig, config);
    const bool done = rig_run(rig, rig_all_done);
    if (!done || rig_failed(rig)) {
        for (uint32_t i = 0; i < config->workers; i++)
            fprintf(stderr, "seed %" PRIu64 ", worker %u: %s\n", config->seed, i, rig->worker[i].error.text);
        fail_msg("seed %" PRIu64 ": the exchange did not end", config->seed);
    }
    rig_check_answer(rig);
    for (uint32_t i = 0; i < config->workers; i++) {
        const struct shuffle_exchange_counters *counters = shuffle_exchange_counters(rig->worker[i].exchange[0]);
        stitched += counters->rows_cut;
        stalls_frame += counters->stalls_frame;
        stalls_sink += counters->stalls_sink;
        self += counters->rows_self;
        stitched_bytes += counters->stitched_bytes;
        cut_rows += rig->worker[i].sink[0].cut_rows;
        cut_key_bytes += rig->worker[i].sink[0].cut_key_bytes;
    }
    rig_close(rig, false);
}

static void rows_arrive(void **state)
{
    (void)state;
    run_one(&plain);
}

static void one_worker_alone(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.nodes = config.workers = 1;
    self = 0;
    run_one(&config);
    assert_int_equal(self, config.rows);
}

static void one_node_of_workers(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.nodes = 1;
    config.workers = 5;
    config.mailbox_frames = 1;
    run_one(&config);
}

static void no_rows_at_all(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.rows = 0;
    config.exchanges = 2;
    run_one(&config);
}

static void every_width_of_rows(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "k:int64",
        "k:int64,v:int64",
        "k:int64,v:binary(16)",
        "k:int64,v:binary(24)",
        "k:int64,v:binary(40)",
        "k:int64,v:binary(56)",
        "k:int32,v:binary(9)",
        "k:int64,v:binary(92)",
        "k:int64,v:binary(1016)",
        "k:int64,v:binary(4088)",
        "k:int64,v:binary(20000)",
        "v:int16,w:int64?,d:decimal(20,2)?",
        "k:string,v:string?,w:int32?",
        "k:binary,v:float64",
    };
    for (uint32_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        for (uint32_t image = 0; image < 2; image++) {
            struct rig_config config = plain;
            config.seed = 100 + i;
            config.schema = schemas[i];
            config.image = image;
            config.rows = i >= 9 && i < 11 ? 100 : 800;
            config.cell_bytes = 9000; /* larger than a frame */
            config.drop_some = i % 2;
            config.takes_cut_rows = image;
            run_one(&config);
        }
    }
}

static void choose(struct rig_config *config, uint64_t seed)
{
    struct base_random random;
    base_random_seed(&random, seed);
#define PICK(bound) ((uint32_t)base_random_below(&random, bound))
    static const char *const schemas[] = {"k:int64,v:int64", "k:int64,v:int64", "k:int32,v:binary(9)",
                                          "k:int64,v:binary(1016)", "k:string,v:string?,w:int32?"};
    static const uint32_t chunks[] = {1, 13, 64, 500, 4096, 65536};
    static const uint32_t buffers[] = {1, 50, 1500, 20000, 100000};
    *config = plain;
    config->seed = seed;
    config->workers = 1 + PICK(RIG_WORKERS_MAX);
    config->nodes = 1 + PICK(config->workers);
    config->exchanges = 1 + PICK(2);
    config->schema = schemas[PICK(5)];
    config->frames_per_lane = 1 + PICK(2);
    config->mailbox_frames = 1 + PICK(3);
    config->chunk_bytes = chunks[PICK(6)];
    config->chunk_count = 1 + PICK(8);
    config->cell_bytes = PICK(4) ? 40 : 6000;
    config->sink_busy_percent = PICK(2) ? PICK(20) : 0;
    config->flush_percent = PICK(3) ? 0 : 20;
    config->image = PICK(3) > 0;
    config->verify = PICK(2);
    config->drop_some = PICK(2);
    config->takes_cut_rows = PICK(2);
    config->sim = (struct net_sim_config){
        .delay_max_ns = PICK(3) ? PICK(1000000) : 0,
        .socket_buffer_bytes = buffers[PICK(5)],
        .short_percent = PICK(80),
        .starve_percent = PICK(2) ? PICK(90) : 0,
        .busy_percent = PICK(50),
    };
    const bool slow = config->chunk_bytes < 100 || config->sim.socket_buffer_bytes < 100;
    config->rows = slow ? PICK(60) : PICK(1500);
#undef PICK
}

static void any_network_and_any_sink(void **state)
{
    (void)state;
    const char *only = getenv("SEED"), *runs = getenv("RUNS");
    const uint64_t first = only ? strtoull(only, NULL, 10) : 1;
    const uint64_t count = only ? 1 : runs ? strtoull(runs, NULL, 10) : 120;
    stitched = stalls_frame = stalls_sink = self = cut_rows = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct rig_config config;
        choose(&config, seed);
        run_one(&config);
    }
    if (only)
        return;
    /* The runs did go where it hurts. */
    assert_true(stitched > 100);
    assert_true(stalls_frame > 100);
    assert_true(stalls_sink > 100);
    assert_true(self > 100);
    assert_true(cut_rows > 100);
}

/* Wide rows arrive in pieces, cut at any byte; nothing of them is copied but keys that an edge cuts, wherever in the
 * row the key is. */
static void cut_rows_are_not_copied(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        uint32_t rows;
    } wide[] = {
        {"k:int64,v:binary(1016)", 3000},
        {"k:int64,v:binary(4088)", 1000},
        {"k:binary(100),v:binary(924)", 3000},
        {"k:binary(500)?,v:binary(3000)", 1000},
    };
    for (uint32_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        struct rig_config config = plain;
        config.seed = 300 + i;
        config.schema = wide[i].schema;
        config.rows = wide[i].rows;
        config.workers = 2;
        config.frame_bytes = 65536;
        config.chunk_count = 64;
        config.takes_cut_rows = true;
        config.sink_busy_percent = i % 2 ? 10 : 0;
        config.sim.short_percent = 20;
        stitched = stitched_bytes = cut_rows = cut_key_bytes = 0;
        run_one(&config);
        assert_true(stitched > 500);
        assert_int_equal(cut_rows, stitched);
        assert_int_equal(stitched_bytes, cut_key_bytes);
        assert_true(i == 0 || i == 1 || cut_key_bytes > 0);
    }
}

/* Who has few chunks cannot keep them for rows that have not all arrived: such rows are copied. */
static void few_chunks_are_enough_for_cut_rows(void **state)
{
    (void)state;
    for (uint32_t chunks = 1; chunks <= 6; chunks++) {
        struct rig_config config = plain;
        config.seed = 400 + chunks;
        config.schema = "k:int64,v:binary(4088)";
        config.rows = 300;
        config.workers = config.nodes = 8;
        config.frame_bytes = 65536;
        config.chunk_count = chunks;
        config.chunk_bytes = 600; /* a row lies in seven and more */
        config.takes_cut_rows = true;
        config.sink_busy_percent = 10;
        config.sim.short_percent = 20;
        stitched_bytes = 0;
        run_one(&config);
        assert_true(stitched_bytes > 100000);
    }
}

static void memory_for_few_frames_is_enough(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct rig_config config = plain;
        config.seed = seed;
        config.nodes = 2;
        config.workers = 8;
        config.frame_bytes = 65536;
        config.rows = 30000;
        /* Room for 3 of a worker's 16 frames, four workers a node. */
        config.memory_bytes = UINT64_C(4) * (8 * 4096 + 3 * 69632);
        run_one(&config);
    }
}

static void no_memory_for_one_frame_is_an_error(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.workers = config.nodes = 1;
    config.exchanges = 0;
    config.memory_bytes = 500000;
    struct rig *rig = rig_new();
    rig_open(rig, &config);
    const struct shuffle_exchange_config exchange = {.mesh = rig->worker[0].mesh,
                                                     .governor = rig->governor[0],
                                                     .layout = &rig->layout,
                                                     .key = &rig->key,
                                                     .frame_bytes = 1 << 20,
                                                     .frames_per_lane = 1,
                                                     .sink = &rig->worker[0].sink[0].base};
    struct base_error error;
    assert_int_equal(shuffle_exchange_open(&exchange, &rig->worker[0].exchange[0], &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "raise --memory"));
    rig_close(rig, true);
}

static void a_row_beyond_the_limit_is_an_error(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.nodes = config.workers = 1;
    config.schema = "k:int64,v:string";
    config.image = false;
    config.rows = 0;
    struct rig *rig = rig_new();
    rig_open(rig, &config);
    const int64_t key = 5;
    const struct shuffle_slice slice = {.data = calloc(1, SHUFFLE_ROW_BYTES_MAX), .bytes = SHUFFLE_ROW_BYTES_MAX - 12};
    struct shuffle_slice large = slice;
    struct shuffle_column columns[2] = {{.data = (const uint8_t *)&key, .stride = 8}, {.slice = &large}};
    const struct shuffle_batch batch = {.rows = 1, .column = columns};
    uint64_t hash;
    uint32_t destination = 0, cursor = 0;
    struct base_error error;
    shuffle_key_hash_batch(&rig->key, &rig->layout, &batch, &hash, NULL);
    assert_int_equal(shuffle_exchange_append(rig->worker[0].exchange[0], &batch, &hash, &destination, &cursor, &error),
                     BASE_OK);
    assert_int_equal(rig->worker[0].sink[0].rows, 1);
    large.bytes++;
    cursor = 0;
    assert_int_equal(shuffle_exchange_append(rig->worker[0].exchange[0], &batch, &hash, &destination, &cursor, &error),
                     BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "16777216"));
    free((void *)(uintptr_t)slice.data);
    rig_close(rig, true);
}

static void large_rows_between_nodes(void **state)
{
    (void)state;
    struct rig_config config = plain;
    config.schema = "k:int64,v:string";
    config.cell_bytes = RIG_CELL_BYTES_MAX;
    config.rows = 60;
    config.chunk_bytes = 16384;
    run_one(&config);
}

/* A sink's error is the worker's error, and everything comes home. */
static void a_failing_sink_ends_the_job(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig_config config;
        choose(&config, seed);
        config.rows = 500;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        const uint32_t victim = (uint32_t)seed % config.workers;
        rig->worker[victim].sink[0].fail_with = BASE_NO_SPACE;
        assert_false(rig_run(rig, rig_all_done));
        assert_int_equal(rig->worker[victim].error.status, BASE_NO_SPACE);
        rig_close(rig, true);
    }
}

/* Abort at any moment: nothing is lost or left over. */
static struct rig *stopping;
static uint32_t turns_left;

static bool turns_over(struct rig *rig)
{
    assert_ptr_equal(rig, stopping);
    return turns_left-- == 0 || rig_all_done(rig);
}

static void abort_at_any_moment(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct rig_config config;
        choose(&config, seed);
        struct rig *rig = stopping = rig_new();
        rig_open(rig, &config);
        turns_left = (uint32_t)(base_random_mix(seed) % 400);
        if (!rig_run(rig, turns_over) && rig_failed(rig))
            fail_msg("seed %" PRIu64 " failed before it was stopped", seed);
        rig_close(rig, true);
    }
}

/* Three frames that never come home: one being filled, one of own rows, one taken out of the queue to a peer. */
static void lose_frames(void *context)
{
    struct rig *rig = rig_new();
    struct base_error error;
    (void)context;
    assert_non_null(rig);
    rig_open(rig, &plain);
    assert_true(rig_run(rig, rig_all_connected));
    struct shuffle_mesh *mesh = rig->worker[0].mesh;
    struct shuffle_exchange *exchange = rig->worker[0].exchange[0];
    struct shuffle_frame *frame;
    while (mesh->peers[2].out.first) /* what was sent meanwhile */
        shuffle_frame_home(shuffle_frame_queue_take(&mesh->peers[2].out));
    shuffle_lane_drop_open(exchange, 1);
    assert_int_equal(shuffle_frame_take(exchange, 1, 100, &frame), BASE_OK);
    assert_int_equal(shuffle_lane_own_frame(exchange, 100, &frame, &error), BASE_OK);
    shuffle_lane_drop_open(exchange, 2);
    assert_int_equal(shuffle_frame_take(exchange, 2, 100, &frame), BASE_OK);
    shuffle_mesh_send(mesh, frame);
    assert_ptr_equal(shuffle_frame_queue_take(&mesh->peers[2].out), frame);
    shuffle_exchange_close(exchange);
    _exit(0);
}

static void a_missing_frame_is_told_with_its_holder(void **state)
{
    (void)state;
    char text[4096];
    bool aborted;
    const bool ended = child_output(lose_frames, NULL, text, sizeof text, &aborted);
    assert_int_equal(aborted, CHILD_MISSING_ABORTS);
    assert_int_equal(ended, !CHILD_MISSING_ABORTS);
    static const char *const holders[] = {
        "it is held by the lane, which fills it (a frame to worker 1)",
        "it is held by rows of the worker itself (a frame to worker 0)",
        "it is held by the queue of frames to send (a frame to worker 2)",
    };
    for (size_t i = 0; i < sizeof holders / sizeof *holders; i++)
        if (!strstr(text, holders[i]))
            fail_msg("not told: %s\n%s", holders[i], text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_arrive),
        cmocka_unit_test(one_worker_alone),
        cmocka_unit_test(one_node_of_workers),
        cmocka_unit_test(no_rows_at_all),
        cmocka_unit_test(every_width_of_rows),
        cmocka_unit_test(any_network_and_any_sink),
        cmocka_unit_test(cut_rows_are_not_copied),
        cmocka_unit_test(few_chunks_are_enough_for_cut_rows),
        cmocka_unit_test(memory_for_few_frames_is_enough),
        cmocka_unit_test(no_memory_for_one_frame_is_an_error),
        cmocka_unit_test(a_row_beyond_the_limit_is_an_error),
        cmocka_unit_test(large_rows_between_nodes),
        cmocka_unit_test(a_failing_sink_ends_the_job),
        cmocka_unit_test(abort_at_any_moment),
        cmocka_unit_test(a_missing_frame_is_told_with_its_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
