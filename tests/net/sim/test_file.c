/* File operations of the simulated engine: real bytes, late and in any order. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/sim/sim.h"

enum { OPS_MAX = 8, BLOCK_BYTES = 100 };

struct bench {
    struct net_sim_world *world;
    struct net_engine *engine;
    FILE *file;
    int fd;
    struct net_file_op ops[OPS_MAX];
    uint8_t blocks[OPS_MAX][BLOCK_BYTES];
};

static void bench_open(struct bench *bench, const struct net_sim_config *config)
{
    struct net_engine_config engine_config = {
        .sockets_max = 1, .file_ops_max = OPS_MAX, .recv_chunk_bytes = 1, .recv_chunk_count = 1};
    memset(bench, 0, sizeof *bench);
    assert_int_equal(net_sim_world_open(config, &bench->world, NULL), BASE_OK);
    assert_int_equal(net_sim_engine_open(bench->world, &engine_config, &bench->engine, NULL), BASE_OK);
    assert_int_equal(net_engine_enable(bench->engine, NULL), BASE_OK);
    bench->file = tmpfile();
    assert_non_null(bench->file);
    bench->fd = fileno(bench->file);
}

static void bench_close(struct bench *bench)
{
    fclose(bench->file);
    net_engine_close(bench->engine);
    net_sim_world_close(bench->world);
}

static enum base_status submit(struct bench *bench, uint32_t i, enum net_file_kind kind)
{
    bench->ops[i] = (struct net_file_op){.kind = kind,
                                         .fd = bench->fd,
                                         .buffer = bench->blocks[i],
                                         .bytes = kind == NET_FILE_SYNC ? 0 : BLOCK_BYTES,
                                         .offset = (uint64_t)i * BLOCK_BYTES,
                                         .context = &bench->ops[i],
                                         .tag = 7};
    return net_file_submit(bench->engine, &bench->ops[i]);
}

static struct net_event next(struct bench *bench)
{
    struct net_event event;
    while (net_engine_poll(bench->engine, &event, 1, 0) == 0)
        assert_true(net_sim_advance(bench->world, NET_WAIT_FOREVER));
    assert_int_equal(event.kind, NET_EVENT_FILE);
    assert_ptr_equal(event.context, event.file);
    assert_int_equal(event.file->tag, 7);
    assert_int_equal(event.file->in_flight, 0);
    assert_null(event.socket);
    return event;
}

static void fill(struct bench *bench, uint8_t first)
{
    for (uint32_t i = 0; i < OPS_MAX; i++)
        memset(bench->blocks[i], first + (int)i, BLOCK_BYTES);
}

static void bytes_arrive_whole_though_in_any_order(void **state)
{
    (void)state;
    uint32_t in_order = 0, rounds = 300;
    for (uint64_t seed = 1; seed <= rounds; seed++) {
        struct net_sim_config config = {
            .seed = seed, .socket_buffer_bytes = 1, .delay_max_ns = 1000000, .short_percent = 50};
        struct bench bench;
        bench_open(&bench, &config);
        fill(&bench, 1);
        bool ordered = true;
        for (uint32_t i = 0; i < OPS_MAX; i++)
            assert_int_equal(submit(&bench, i, NET_FILE_WRITE), BASE_OK);
        for (uint32_t i = 0; i < OPS_MAX; i++) {
            struct net_event event = next(&bench);
            assert_int_equal(event.status, BASE_OK);
            assert_int_equal(event.bytes, BLOCK_BYTES);
            ordered = ordered && event.file == &bench.ops[i];
        }
        in_order += ordered;
        fill(&bench, 100);
        for (uint32_t i = 0; i < OPS_MAX; i++) {
            assert_int_equal(submit(&bench, i, NET_FILE_READ), BASE_OK);
            /* What was in the buffer is gone at once. */
            assert_int_not_equal(bench.blocks[i][0], 100 + i);
        }
        for (uint32_t i = 0; i < OPS_MAX; i++)
            assert_int_equal(next(&bench).bytes, BLOCK_BYTES);
        for (uint32_t i = 0; i < OPS_MAX; i++) {
            for (uint32_t j = 0; j < BLOCK_BYTES; j++)
                assert_int_equal(bench.blocks[i][j], 1 + i);
        }
        bench_close(&bench);
    }
    assert_true(in_order < rounds / 10);
}

static void reads_are_short_only_at_the_end(void **state)
{
    (void)state;
    struct net_sim_config config = {.socket_buffer_bytes = 1, .short_percent = 90};
    struct bench bench;
    bench_open(&bench, &config);
    fill(&bench, 1);
    assert_int_equal(submit(&bench, 0, NET_FILE_WRITE), BASE_OK);
    next(&bench);
    assert_int_equal(submit(&bench, 1, NET_FILE_SYNC), BASE_OK);
    assert_int_equal(next(&bench).status, BASE_OK);
    bench.ops[2] = (struct net_file_op){.kind = NET_FILE_READ,
                                        .fd = bench.fd,
                                        .buffer = bench.blocks[2],
                                        .bytes = BLOCK_BYTES,
                                        .offset = BLOCK_BYTES - 3,
                                        .context = &bench.ops[2],
                                        .tag = 7};
    assert_int_equal(net_file_submit(bench.engine, &bench.ops[2]), BASE_OK);
    struct net_event event = next(&bench);
    assert_int_equal(event.status, BASE_OK);
    assert_int_equal(event.bytes, 3);
    assert_int_equal(submit(&bench, 5, NET_FILE_READ), BASE_OK);
    event = next(&bench);
    assert_int_equal(event.status, BASE_OK);
    assert_int_equal(event.bytes, 0);
    bench_close(&bench);
}

static void failures_of_the_kernel_are_passed_on(void **state)
{
    (void)state;
    struct net_sim_config config = {.socket_buffer_bytes = 1};
    struct bench bench;
    bench_open(&bench, &config);
    int good = bench.fd;
    bench.fd = 1 << 20;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(submit(&bench, i, (enum net_file_kind)i), BASE_OK);
        struct net_event event = next(&bench);
        assert_int_equal(event.status, BASE_IO);
        assert_int_equal(event.os_error, EBADF);
        assert_int_equal(event.bytes, 0);
    }
    bench.fd = good;
    bench_close(&bench);
}

static void operation_number_n_fails(void **state)
{
    (void)state;
    static const enum net_file_kind kinds[] = {NET_FILE_READ, NET_FILE_WRITE, NET_FILE_SYNC};
    static const enum base_status statuses[] = {BASE_IO, BASE_NO_SPACE, BASE_IO};
    for (uint32_t k = 0; k < 3; k++) {
        struct net_sim_config config = {.socket_buffer_bytes = 1, .delay_max_ns = 1000, .file_error_after = 6};
        struct bench bench;
        bench_open(&bench, &config);
        fill(&bench, 1);
        for (uint32_t i = 0; i < OPS_MAX; i++)
            assert_int_equal(submit(&bench, i, i == 5 ? kinds[k] : NET_FILE_WRITE), BASE_OK);
        for (uint32_t i = 0; i < OPS_MAX; i++) {
            struct net_event event = next(&bench);
            assert_int_equal(event.status, event.file == &bench.ops[5] ? statuses[k] : BASE_OK);
        }
        bench_close(&bench);
    }
}

static void beyond_the_limit_is_busy(void **state)
{
    (void)state;
    struct net_sim_config config = {.socket_buffer_bytes = 1, .delay_max_ns = 1000};
    struct bench bench;
    bench_open(&bench, &config);
    struct net_file_op extra = {.kind = NET_FILE_SYNC, .fd = bench.fd, .context = &extra, .tag = 7};
    for (uint32_t i = 0; i < OPS_MAX; i++)
        assert_int_equal(submit(&bench, i, NET_FILE_SYNC), BASE_OK);
    assert_int_equal(net_file_submit(bench.engine, &extra), BASE_BUSY);
    next(&bench);
    assert_int_equal(net_file_submit(bench.engine, &extra), BASE_OK);
    for (uint32_t i = 0; i < OPS_MAX; i++)
        next(&bench);
    assert_false(net_sim_advance(bench.world, NET_WAIT_FOREVER));
    bench_close(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_whole_though_in_any_order),
        cmocka_unit_test(reads_are_short_only_at_the_end),
        cmocka_unit_test(failures_of_the_kernel_are_passed_on),
        cmocka_unit_test(operation_number_n_fails),
        cmocka_unit_test(beyond_the_limit_is_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
