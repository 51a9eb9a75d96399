/* A kernel that drops completions, for want of memory to keep them, says so once, by EBADR. The engine is broken from
 * then on: it ends all that was in flight, gives every buffer back, closes without leaking, and the next one works. */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/net/conformance_cases.h"

static struct {
    int os_error; /* of the next call that enters the kernel; 0: none */
    bool no_files;
    unsigned refused; /* registrations of files */
} kernel;

/* The linker's names. */
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask);
int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);
int __real_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count);
int __wrap_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count);
int __real_io_uring_register_files_update(struct io_uring *ring, unsigned offset, const int *files, unsigned count);
int __wrap_io_uring_register_files_update(struct io_uring *ring, unsigned offset, const int *files, unsigned count);

/* The kernel has done its work; only the answer differs. */
static int answer(int result)
{
    const int os_error = kernel.os_error;
    kernel.os_error = 0;
    return os_error != 0 ? -os_error : result;
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return answer(__real_io_uring_submit(ring));
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
    return answer(__real_io_uring_submit_and_get_events(ring));
}

int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask)
{
    return answer(__real_io_uring_submit_and_wait_timeout(ring, cqe, count, limit, mask));
}

static bool refuses(const int *files)
{
    const bool refused = kernel.no_files && files[0] >= 0;
    kernel.refused += refused;
    return refused;
}

int __wrap_io_uring_register_files(struct io_uring *ring, const int *files, unsigned count)
{
    return refuses(files) ? -ENOMEM : __real_io_uring_register_files(ring, files, count);
}

int __wrap_io_uring_register_files_update(struct io_uring *ring, unsigned offset, const int *files, unsigned count)
{
    return refuses(files) ? -ENOMEM : __real_io_uring_register_files_update(ring, offset, files, count);
}

enum { TRAFFIC_BYTES = 16 << 20, TRAFFIC_SEGMENTS = 16 };

static struct net_engine *client_of(struct bench *bench)
{
    return bench->engines[BENCH_CLIENT];
}

/* A read that nobody answers, from a pipe. */
static struct net_file_op *read_nothing(struct bench *bench, const int pipe_fds[2], uint8_t *buffer,
                                        struct net_file_op *op)
{
    *op = (struct net_file_op){.kind = NET_FILE_READ, .fd = pipe_fds[0], .bytes = 4096};
    op->buffer = buffer;
    assert_int_equal(net_file_submit(client_of(bench), op), BASE_OK);
    return op;
}

/* Breaks the client's engine while bytes go both ways. Sends that are in flight are lost as well. */
static void break_client(struct bench *bench, struct bench_peer *client, int os_error)
{
    const size_t before = client->bytes;
    BENCH_UNTIL(bench, client->bytes > before);
    kernel.os_error = os_error;
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, net_engine_failure(client_of(bench)));
    assert_int_equal(kernel.os_error, 0);
    assert_int_equal(net_engine_failure(client_of(bench))->status, BASE_ENGINE_BROKEN);
}

static void exchange(struct bench *bench)
{
    struct bench_peer *client, *server;
    uint8_t *data = bench_bytes(100000, 7);

    bench_pair(bench, &client, &server);
    bench_send(client, data, 100000, 1);
    BENCH_UNTIL(bench, client->sent && server->bytes == 100000);
    assert_int_equal(client->sent_status, BASE_OK);
    assert_memory_equal(server->data, data, 100000);
    free(data);
}

/* Asked for when it is broken already. */
static void later_operations_end(struct bench *bench)
{
    struct bench_peer *late = bench_connect(bench, &bench->address, 60 * BASE_NS_PER_S);
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, late->connected);
    assert_int_equal(late->connect_status, BASE_ENGINE_BROKEN);
    bench_peer_close(late, false);
}

static void a_broken_engine_gives_all_back(void **state)
{
    const struct bench_kind *kind = *state;
    const unsigned descriptors = bench_descriptors();
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(kind, &config);
    struct bench_peer *client, *server;
    struct net_file_op file;
    int pipe_fds[2];
    uint8_t *data = bench_bytes(TRAFFIC_BYTES, 1), *buffer = malloc(4096);

    assert_int_equal(pipe(pipe_fds), 0);
    bench_pair(bench, &client, &server);
    bench_send(client, data, TRAFFIC_BYTES, TRAFFIC_SEGMENTS);
    bench_send(server, data, TRAFFIC_BYTES, TRAFFIC_SEGMENTS);
    read_nothing(bench, pipe_fds, buffer, &file);
    break_client(bench, client, EBADR);
    assert_non_null(strstr(net_engine_failure(client_of(bench))->text, "memory"));
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, bench->files_done == 1 && client->sent && client->ended);
    assert_int_equal(bench->file_event.status, BASE_ENGINE_BROKEN);
    assert_int_equal(client->end_status, BASE_ENGINE_BROKEN);
    assert_true(client->sent_status == BASE_ENGINE_BROKEN || client->sent_bytes == TRAFFIC_BYTES);
    free(buffer); /* nothing is the kernel's any more: the sanitizer would see */
    BENCH_UNTIL(bench, server->ended);
    assert_int_equal(server->end_status, BASE_PEER_RESET);
    later_operations_end(bench);
    bench_close(bench);
    free(data);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    assert_int_equal(bench_descriptors(), descriptors);

    bench = bench_open(kind, &config);
    exchange(bench);
    bench_close(bench);
}

static void any_other_error_breaks_it_by_name(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    struct bench_peer *client, *server;
    uint8_t *data = bench_bytes(TRAFFIC_BYTES, 2);

    bench_pair(bench, &client, &server);
    bench_send(server, data, TRAFFIC_BYTES, TRAFFIC_SEGMENTS);
    break_client(bench, client, EACCES);
    assert_non_null(strstr(net_engine_failure(client_of(bench))->text, strerror(EACCES)));
    net_socket_close(client->socket, false); /* before the kernel has let go */
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, client->closed);
    bench_close(bench);
    free(data);
}

static void *wake_client(void *argument)
{
    net_engine_wake(client_of(argument));
    return NULL;
}

static void a_broken_engine_can_be_woken(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    struct net_event event;
    pthread_t waker;

    kernel.os_error = EBADR;
    assert_int_equal(net_engine_poll(client_of(bench), &event, 1, BASE_NS_PER_MS), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(net_engine_poll(client_of(bench), &event, 1, BASE_NS_PER_MS), 0);
        assert_int_equal(pthread_create(&waker, NULL, wake_client, bench), 0);
        assert_int_equal(net_engine_poll(client_of(bench), &event, 1, NET_WAIT_FOREVER), 1);
        assert_int_equal(event.kind, NET_EVENT_WOKEN);
        pthread_join(waker, NULL);
    }
    bench_close(bench);
}

/* While the ring cannot be tied to anything it stays, and so do its buffers. */
static void buffers_wait_until_the_ring_can_go(void **state)
{
    struct net_engine_config config = bench_config();
    struct bench *bench = bench_open(*state, &config);
    struct bench_peer *client, *server;
    uint8_t *data = bench_bytes(TRAFFIC_BYTES, 3);

    bench_pair(bench, &client, &server);
    bench_send(server, data, TRAFFIC_BYTES, TRAFFIC_SEGMENTS);
    kernel.no_files = true;
    break_client(bench, client, EBADR);
    net_socket_close(client->socket, false);
    kernel.refused = 0;
    while (kernel.refused < 3)
        bench_pump_side(bench, BENCH_CLIENT);
    assert_false(client->closed);
    kernel.no_files = false;
    BENCH_UNTIL_ON(BENCH_CLIENT, bench, client->closed);
    bench_close(bench);
    free(data);
}

static const char *const choices[] = {"uring-naive",
                                      "uring-defer",
                                      "uring-fixed",
                                      "uring-multishot",
                                      "uring-bundle",
                                      "uring-send-zc",
                                      "uring-multishot+incremental"};

int main(void)
{
    int failures = 0;

    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct bench_kind kind = *bench_kind_of(NET_ENGINE_URING);
        struct base_error error = {0};
        kind.name = choices[i];
        if (net_engine_choice_parse(choices[i], &kind.engine, &error) != BASE_OK) {
            print_error("%s: %s\n", choices[i], error.text);
            return 1;
        }
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(a_broken_engine_gives_all_back, &kind),
            cmocka_unit_test_prestate(any_other_error_breaks_it_by_name, &kind),
            cmocka_unit_test_prestate(a_broken_engine_can_be_woken, &kind),
            cmocka_unit_test_prestate(buffers_wait_until_the_ring_can_go, &kind),
        };
        failures += cmocka_run_group_tests_name(kind.name, tests, NULL, NULL);
    }
    return failures != 0;
}
