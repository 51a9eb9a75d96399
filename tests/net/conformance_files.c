/* Files and wake-ups, on every engine. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/net/conformance_cases.h"

enum { FILE_BYTES = 300007 };

static int file_make(void)
{
    char path[] = "/tmp/millrace-test-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    return fd;
}

static void file_run(struct bench *bench, struct net_file_op *op)
{
    uint32_t before = bench->files_done;

    assert_int_equal(net_file_submit(bench->engines[BENCH_CLIENT], op), BASE_OK);
    assert_int_equal(op->in_flight, 1);
    BENCH_UNTIL(bench, bench->files_done == before + 1);
    assert_ptr_equal(bench->file_event.file, op);
}

static void files_are_written_and_read(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    int fd = file_make(), context;
    uint8_t *data = bench_bytes(FILE_BYTES, 1), *back = calloc(1, FILE_BYTES + 100);
    struct net_file_op op = {
        .kind = NET_FILE_WRITE, .fd = fd, .buffer = data, .bytes = FILE_BYTES, .offset = 4099, .context = &context};

    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_OK);
    assert_int_equal(bench->file_event.bytes, FILE_BYTES);
    op.kind = NET_FILE_SYNC;
    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_OK);

    op = (struct net_file_op){.kind = NET_FILE_READ, .fd = fd, .buffer = back, .bytes = FILE_BYTES, .offset = 4099};
    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_OK);
    assert_int_equal(bench->file_event.bytes, FILE_BYTES);
    assert_memory_equal(back, data, FILE_BYTES);

    /* Short at the end of the file only, and then empty. */
    op = (struct net_file_op){.kind = NET_FILE_READ, .fd = fd, .buffer = back, .bytes = 5000, .offset = FILE_BYTES};
    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_OK);
    assert_int_equal(bench->file_event.bytes, 4099);
    assert_memory_equal(back, data + FILE_BYTES - 4099, 4099);
    op.offset = UINT64_C(2) * FILE_BYTES;
    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_OK);
    assert_int_equal(bench->file_event.bytes, 0);
    free(data);
    free(back);
    close(fd);
    bench_close(bench);
}

static void file_errors_say_why(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    uint8_t data[100] = {0};
    int full = open("/dev/full", O_WRONLY), file = file_make();

    assert_true(full >= 0);
    struct net_file_op op = {.kind = NET_FILE_WRITE, .fd = full, .buffer = data, .bytes = sizeof data};
    file_run(bench, &op);
    assert_int_equal(bench->file_event.status, BASE_NO_SPACE);
    assert_int_equal(bench->file_event.bytes, 0);
    close(full);
    op = (struct net_file_op){.kind = NET_FILE_READ, .fd = full, .buffer = data, .bytes = sizeof data};
    file_run(bench, &op); /* the descriptor is closed by now */
    assert_int_not_equal(bench->file_event.status, BASE_OK);
    assert_int_not_equal(bench->file_event.os_error, 0);
    close(file);
    bench_close(bench);
}

/* A write that the system cuts short goes on, and meets the reason. */
static void a_write_is_never_short(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    struct rlimit limit, tight;
    uint8_t *data = bench_bytes(20000, 3), back[10000];
    int fd = file_make();
    struct net_file_op op = {.kind = NET_FILE_WRITE, .fd = fd, .buffer = data, .bytes = 20000};

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    tight = limit;
    tight.rlim_cur = sizeof back;
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    file_run(bench, &op);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(bench->file_event.os_error, EFBIG);
    assert_int_not_equal(bench->file_event.status, BASE_OK);
    assert_int_equal(bench->file_event.bytes, sizeof back);
    assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
    assert_memory_equal(back, data, sizeof back);
    free(data);
    close(fd);
    bench_close(bench);
}

static void files_beyond_the_limit_are_busy(void **state)
{
    enum { OPS = 8 };
    struct net_engine_config config = bench_config();
    config.file_ops_max = OPS;
    struct bench *bench = bench_open(*state, &config);
    int fd = file_make();
    struct net_file_op ops[OPS + 1];
    uint8_t *data = bench_bytes((size_t)OPS * 1000, 2), back[OPS * 1000];

    for (uint32_t i = 0; i <= OPS; i++) {
        const size_t at = (size_t)i * 1000;
        ops[i] =
            (struct net_file_op){.kind = NET_FILE_WRITE, .fd = fd, .buffer = data + at, .bytes = 1000, .offset = at};
    }
    for (uint32_t i = 0; i < OPS; i++)
        assert_int_equal(net_file_submit(bench->engines[BENCH_CLIENT], &ops[i]), BASE_OK);
    assert_int_equal(net_file_submit(bench->engines[BENCH_CLIENT], &ops[OPS]), BASE_BUSY);
    assert_int_equal(ops[OPS].in_flight, 0);
    BENCH_UNTIL(bench, bench->files_done == OPS);
    ops[OPS].bytes = 1;
    ops[OPS].buffer = data;
    file_run(bench, &ops[OPS]);
    assert_int_equal(pread(fd, back, sizeof back, 0), sizeof back);
    assert_memory_equal(back, data, sizeof back);
    free(data);
    close(fd);
    bench_close(bench);
}

static void a_wake_is_one_event(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);

    for (int i = 0; i < 5; i++)
        net_engine_wake(bench->engines[BENCH_SERVER]);
    BENCH_UNTIL(bench, bench->woken[BENCH_SERVER] > 0);
    bench_pump(bench);
    bench_pump(bench);
    assert_int_equal(bench->woken[BENCH_SERVER], 1);
    assert_int_equal(bench->woken[BENCH_CLIENT], 0);
    net_engine_wake(bench->engines[BENCH_SERVER]);
    BENCH_UNTIL(bench, bench->woken[BENCH_SERVER] == 2);
    bench_close(bench);
}

const struct conformance_case conformance_file_cases[] = {
    CONFORMANCE_CASE(files_are_written_and_read), CONFORMANCE_CASE(file_errors_say_why),
    CONFORMANCE_CASE(a_write_is_never_short),     CONFORMANCE_CASE(files_beyond_the_limit_are_busy),
    CONFORMANCE_CASE(a_wake_is_one_event),        {0},
};
