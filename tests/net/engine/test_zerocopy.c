/* Zero-copy sends where the kernel has no locked memory for them: to a user without privileges it accounts the pages it
 * would pin, and refuses beyond a limit (ENOBUFS, ENOMEM). What is refused is sent with a copy. Each case in a child,
 * as a user of its own. Without root there is no such user: skipped. */
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/net/conformance.h"

enum { BYTES = 300000, SENDS = 12 };

struct tight {
    const char *engine;
    rlim_t memlock_bytes;
    /* Looks at the sender when all is through. */
    void (*judge)(const struct net_engine *sender);
};

static void limit_memory(rlim_t bytes)
{
    const struct rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};

    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || setgroups(0, NULL) != 0 || setgid(65534) != 0 ||
        setuid((uid_t)(1200000000 + getpid())) != 0)
        _exit(99);
}

static void transfers(void **state)
{
    const struct tight *tight = *state;
    struct bench_kind kind = *bench_kind_of(NET_ENGINE_URING);
    struct net_engine_config config = bench_config();
    struct bench_peer *client, *server;
    struct base_error error;
    uint8_t *data = bench_bytes(BYTES, 1);

    config.sockets_max = 4;
    kind.name = tight->engine;
    assert_int_equal(net_engine_choice_parse(tight->engine, &kind.engine, &error), BASE_OK);
    struct bench *bench = bench_open(&kind, &config);
    bench_pair(bench, &client, &server);
    for (uint32_t i = 0; i < SENDS; i++) {
        bench_send(client, data, BYTES, 1 + i % 3);
        BENCH_UNTIL(bench, client->sent && server->bytes == (i + 1) * (size_t)BYTES);
        assert_int_equal(client->sent_status, BASE_OK);
        assert_memory_equal(server->data + i * (size_t)BYTES, data, BYTES);
    }
    tight->judge(client->engine);
    free(data);
    bench_close(bench);
}

static void judge_gives_up(const struct net_engine *sender)
{
    assert_int_equal(net_engine_counters(sender)->zc_sends, 0);
    assert_int_equal(net_engine_counters(sender)->zc_off, 1);
}

static void judge_insists(const struct net_engine *sender)
{
    assert_int_equal(net_engine_counters(sender)->zc_sends, 0);
    assert_int_equal(net_engine_counters(sender)->zc_off, 0);
}

static void judge_names_what_is_missing(const struct net_engine *sender)
{
    assert_null(strstr(net_engine_features(sender), "registered-buffers"));
    assert_non_null(strstr(net_engine_reason(sender), "no registered-buffers: "));
    assert_non_null(strstr(net_engine_reason(sender), "ulimit -l"));
}

static void run_as_a_stranger(const struct tight *tight)
{
    int status;

    if (geteuid() != 0)
        skip();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(transfers, (void *)(uintptr_t)tight)};
        limit_memory(tight->memlock_bytes);
        _exit(cmocka_run_group_tests_name(tight->engine, tests, NULL, NULL) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void epoll_copies_and_gives_up(void **state)
{
    (void)state;
    run_as_a_stranger(&(struct tight){"epoll-zc", 0, judge_gives_up});
}

static void epoll_copies_piece_by_piece(void **state)
{
    (void)state;
    run_as_a_stranger(&(struct tight){"epoll-zc+zc-always", 0, judge_insists});
}

static void io_uring_goes_without_registering(void **state)
{
    (void)state;
    run_as_a_stranger(&(struct tight){"uring-send-zc+zc-always", 64 << 10, judge_names_what_is_missing});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoll_copies_and_gives_up),
        cmocka_unit_test(epoll_copies_piece_by_piece),
        cmocka_unit_test(io_uring_goes_without_registering),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
