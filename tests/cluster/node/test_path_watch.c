/* A broken path and a busy receiver look alike to a sender; only the first is one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/node/card.h"
#include "cluster/node/path_watch.h"

#define AWAIT_NS (60 * BASE_NS_PER_S)

/* The wait after a probe doubles from 200 ms on: three of them take longer than CLUSTER_PATH_SILENCE_MS. */
enum { PROBES_ANSWERED = 3 };

struct path {
    int sender, receiver, listener;
    struct net_address listening;
};

static void make_path(struct path *path)
{
    struct net_address any;
    struct base_error error;
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 1, &path->listener, &path->listening, &error), BASE_OK);
    path->sender = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(path->sender, &path->listening.any, path->listening.bytes), 0);
    path->receiver = accept(path->listener, NULL, NULL);
    assert_true(path->receiver >= 0);
}

static void close_path(struct path *path)
{
    const struct linger reset = {1, 0};
    setsockopt(path->sender, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(path->sender);
    close(path->receiver);
    close(path->listener);
}

/* Nothing that arrives at this socket is seen by TCP: nothing is acknowledged. */
static void break_path(int receiver)
{
    struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog program = {.len = 1, .filter = &drop};
    assert_int_equal(setsockopt(receiver, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

static bool look(struct cluster_path_watch *watch, const struct path *path, bool as_own, struct net_address *peer)
{
    bool broken = false;
    struct base_error error;
    const enum base_status status =
        as_own ? cluster_path_watch_look(watch, &path->listening, 1, NULL, 0, &broken, peer, &error)
               : cluster_path_watch_look(watch, NULL, 0, &path->listening, 1, &broken, peer, &error);
    if (status != BASE_OK)
        fail_msg("%s", error.text);
    return broken;
}

/* Looks until the connection is found to be broken; only a hang meets the limit. */
static void await_broken(struct cluster_path_watch *watch, const struct path *path, bool as_own,
                         struct net_address *peer)
{
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    while (!look(watch, path, as_own, peer)) {
        assert_true(base_clock_now_ns() < limit_ns);
        usleep(20000);
    }
}

static struct tcp_info info_of(int fd)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof info;
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
    return info;
}

/* Until the sender has repeated data in vain, and for as long as it takes to call a path broken. */
static void await_repeats(int sender)
{
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    struct tcp_info info = info_of(sender);
    while (info.tcpi_retransmits < CLUSTER_PATH_REPEATS_MIN || info.tcpi_last_ack_recv < CLUSTER_PATH_SILENCE_MS) {
        assert_true(base_clock_now_ns() < limit_ns);
        usleep(20000);
        info = info_of(sender);
    }
}

static void fill_window(int sender)
{
    static char bytes[1 << 16];
    while (send(sender, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static struct cluster_path_watch *open_watch(void)
{
    struct cluster_path_watch *watch;
    struct base_error error;
    if (cluster_path_watch_open(&watch, &error) != BASE_OK)
        skip();
    return watch;
}

static void test_cut(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch();
    struct path path;
    struct net_address peer;
    make_path(&path);
    assert_int_equal(send(path.sender, "x", 1, 0), 1);
    assert_false(look(watch, &path, false, &peer));
    break_path(path.receiver);
    const uint64_t begin_ns = base_clock_now_ns();
    assert_int_equal(send(path.sender, "x", 1, 0), 1);
    await_broken(watch, &path, false, &peer);
    assert_true(base_clock_now_ns() - begin_ns >= CLUSTER_PATH_CONFIRM_NS);
    assert_true(info_of(path.sender).tcpi_last_ack_recv >= CLUSTER_PATH_SILENCE_MS);
    char expected[64], found[64];
    net_address_format(&path.listening, expected);
    net_address_format(&peer, found);
    assert_string_equal(expected, found);
    close_path(&path);
    cluster_path_watch_close(watch);
}

/* The connection of somebody else is nobody's business: who looks at a broken path calls it broken, who looks at
 * another for as long does not. */
static void test_strangers(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch(), *witness = open_watch();
    struct path path, other;
    struct net_address peer;
    make_path(&path);
    make_path(&other);
    break_path(path.receiver);
    assert_int_equal(send(path.sender, "x", 1, 0), 1);
    await_repeats(path.sender);
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    do {
        assert_true(base_clock_now_ns() < limit_ns);
        assert_false(look(watch, &other, false, &peer));
        usleep(20000);
    } while (!look(witness, &path, false, &peer));
    assert_false(look(watch, &other, false, &peer));
    await_broken(watch, &path, true, &peer);
    close_path(&path);
    close_path(&other);
    cluster_path_watch_close(witness);
    cluster_path_watch_close(watch);
}

/* A receiver that does not read closes its window, for as long as it likes: here until several probes were answered, by
 * when a broken path would have been found. */
static void test_busy_receiver(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch();
    struct path path;
    struct net_address peer;
    make_path(&path);
    fill_window(path.sender);
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    do {
        assert_true(base_clock_now_ns() < limit_ns);
        assert_false(look(watch, &path, false, &peer));
        usleep(20000);
    } while (info_of(path.sender).tcpi_backoff < PROBES_ANSWERED);
    close_path(&path);
    cluster_path_watch_close(watch);
}

/* The path breaks after the receiver closed its window: nothing is unacknowledged, only probes are not answered. */
static void test_cut_behind_a_closed_window(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch();
    struct path path;
    struct net_address peer;
    make_path(&path);
    fill_window(path.sender);
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    while (info_of(path.sender).tcpi_unacked > 0 || info_of(path.sender).tcpi_backoff == 0) { /* a probe was answered */
        assert_true(base_clock_now_ns() < limit_ns);
        usleep(10000);
    }
    assert_false(look(watch, &path, false, &peer));
    break_path(path.receiver);
    await_broken(watch, &path, false, &peer);
    assert_int_equal(info_of(path.sender).tcpi_unacked, 0);
    close_path(&path);
    cluster_path_watch_close(watch);
}

/* A job before could not say its last to a node that is gone: that is not held against the next job, for as long as the
 * kernel tries. */
static void test_connections_that_are_closing(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch();
    struct cluster_path_watch *witness = open_watch();
    struct path ours, theirs; /* who closed: FIN_WAIT1, CLOSE_WAIT */
    struct path control;      /* breaks as late as they do, and nobody closes it */
    struct net_address peer;
    make_path(&ours);
    make_path(&theirs);
    make_path(&control);
    break_path(ours.receiver);
    assert_int_equal(shutdown(theirs.receiver, SHUT_WR), 0);
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    while (info_of(theirs.sender).tcpi_state != TCP_CLOSE_WAIT) {
        assert_true(base_clock_now_ns() < limit_ns);
        usleep(1000);
    }
    break_path(theirs.receiver);
    assert_int_equal(send(ours.sender, "x", 1, 0), 1);
    assert_int_equal(shutdown(ours.sender, SHUT_WR), 0);
    assert_int_equal(send(theirs.sender, "x", 1, 0), 1);
    await_repeats(ours.sender);
    await_repeats(theirs.sender);
    break_path(control.receiver);
    assert_int_equal(send(control.sender, "x", 1, 0), 1);
    const uint64_t found_ns = base_clock_now_ns() + AWAIT_NS;
    do {
        assert_true(base_clock_now_ns() < found_ns);
        assert_false(look(watch, &ours, false, &peer));
        assert_false(look(watch, &theirs, false, &peer));
        usleep(20000);
    } while (!look(witness, &control, false, &peer));
    close_path(&control);
    cluster_path_watch_close(witness);
    close_path(&ours);
    close_path(&theirs);
    cluster_path_watch_close(watch);
}

/* What an earlier job's connections counted, which are closing, is not this one's: it would be missing the next time.
 */
static void test_sum_leaves_out_what_is_closing(void **state)
{
    (void)state;
    struct cluster_path_watch *watch = open_watch();
    struct path path;
    struct cluster_path_sum sum = {0};
    struct base_error error;
    make_path(&path);
    assert_int_equal(cluster_path_watch_sum(watch, &path.listening, 1, NULL, 0, &sum, &error), BASE_OK);
    assert_true(sum.mtu > 0);
    assert_int_equal(shutdown(path.receiver, SHUT_WR), 0); /* its other end is in CLOSE_WAIT */
    const uint64_t limit_ns = base_clock_now_ns() + AWAIT_NS;
    do {
        assert_true(base_clock_now_ns() < limit_ns);
        assert_int_equal(cluster_path_watch_sum(watch, &path.listening, 1, NULL, 0, &sum, &error), BASE_OK);
    } while (sum.mtu > 0);
    close_path(&path);
    cluster_path_watch_close(watch);
}

/* Busy for ever, and a sum of waiting that went back. */
static void test_busy_share(void **state)
{
    (void)state;
    const struct cluster_host_time from = {.busy = 100, .idle = 1000};
    assert_int_equal(cluster_host_busy_permille(&from, &(struct cluster_host_time){.busy = 150, .idle = 1150}), 250);
    assert_int_equal(cluster_host_busy_permille(&from, &(struct cluster_host_time){.busy = 150, .idle = 990}), 1000);
    assert_int_equal(cluster_host_busy_permille(&from, &from), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cut),
                                       cmocka_unit_test(test_strangers),
                                       cmocka_unit_test(test_busy_receiver),
                                       cmocka_unit_test(test_cut_behind_a_closed_window),
                                       cmocka_unit_test(test_connections_that_are_closing),
                                       cmocka_unit_test(test_sum_leaves_out_what_is_closing),
                                       cmocka_unit_test(test_busy_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
