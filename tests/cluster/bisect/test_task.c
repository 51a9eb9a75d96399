/* One worker's share of a measurement, with the other node's worker played over a socket: what is counted, and what is
 * never believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/build.h"
#include "base/clock.h"
#include "cluster/bisect/task.h"
#include "net/open.h"
#include "shuffle/mesh/preamble.h"
#include "shuffle/worker/worker.h"

enum { JOB = 5, SELF = 1, PEER = 0, PAYLOAD = 1000 };

/* As on the wire. */
struct block {
    uint32_t magic, step, bytes, reserved;
    uint64_t position;
};
#define MAGIC UINT32_C(0x3142524d)

static struct rig {
    struct shuffle_job job;
    struct shuffle_node node[2];
    struct net_address address[2];
    struct base_governor *governor;
    struct net_engine *engine;
    struct shuffle_worker *worker;
    struct bisect_task *task;
    int listener_fd, peer_fd;
    uint32_t reached[BISECT_STEP_MEASURED + 1];
    struct base_error error;
} rig;

static void on_report(void *context, uint32_t worker, int step, const struct base_error *error)
{
    (void)context;
    assert_int_equal(worker, SELF);
    rig.reached[step]++;
    if (error)
        rig.error = *error;
}

static void await(int step)
{
    const uint64_t until_ns = base_clock_now_ns() + 60 * BASE_NS_PER_S;
    while (rig.reached[step] == 0) {
        shuffle_worker_turn(rig.worker, &shuffle_budget_default, false);
        if (base_clock_now_ns() > until_ns)
            fail_msg("step %d was not reached: %s", step, rig.error.text);
    }
    rig.reached[step] = 0;
}

static void peer_send(const void *bytes, size_t count)
{
    assert_int_equal(send(rig.peer_fd, bytes, count, MSG_NOSIGNAL), count);
}

/* The lower worker calls, and says who it is. */
static void peer_connect(void)
{
    struct shuffle_preamble preamble = {.magic = SHUFFLE_PREAMBLE_MAGIC,
                                        .protocol = base_build_protocol(),
                                        .job = JOB,
                                        .source = PEER,
                                        .destination = SELF};
    rig.peer_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(rig.peer_fd, &rig.address[SELF].any, rig.address[SELF].bytes), 0);
    peer_send(&preamble, sizeof preamble);
}

static int open_rig(void **state)
{
    (void)state;
    struct base_error error;
    memset(&rig, 0, sizeof rig);
    assert_int_equal(base_governor_open(0, &rig.governor, &error), BASE_OK);
    const struct net_engine_choice choice = {.kind = NET_ENGINE_EPOLL};
    const struct net_engine_config config = {.sockets_max = 2 + SHUFFLE_MESH_STRANGERS_MAX,
                                             .file_ops_max = 1,
                                             .recv_chunk_bytes = 4096,
                                             .recv_chunk_count = 8,
                                             .governor = rig.governor};
    assert_int_equal(net_engine_open(&choice, &config, &rig.engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(rig.engine, &error), BASE_OK);
    assert_int_equal(net_address_parse("127.0.0.1:0", &rig.address[PEER], &error), BASE_OK);
    assert_int_equal(net_listen(&rig.address[PEER], 4, &rig.listener_fd, &rig.address[SELF], &error), BASE_OK);
    rig.node[0] = (struct shuffle_node){.name = "n1", .first = 0, .count = 1};
    rig.node[1] = (struct shuffle_node){.name = "n2", .first = 1, .count = 1};
    rig.job = (struct shuffle_job){.id = JOB, .node_count = 2, .workers = 2, .node = rig.node, .address = rig.address};
    const struct shuffle_task_config task = {.job = &rig.job,
                                             .worker = SELF,
                                             .local_first = SELF,
                                             .local_count = 1,
                                             .engine = rig.engine,
                                             .governor = rig.governor,
                                             .listener_fd = rig.listener_fd,
                                             .report = on_report};
    assert_int_equal(bisect_task_open(&task, &rig.task, &error), BASE_OK);
    assert_int_equal(shuffle_worker_open(0, &rig.worker, &error), BASE_OK);
    shuffle_worker_set_engine(rig.worker, rig.engine);
    shuffle_worker_set_task(rig.worker, bisect_task_base(rig.task));
    shuffle_task_connect(bisect_task_base(rig.task));
    peer_connect();
    await(SHUFFLE_STEP_CONNECTED);
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    shuffle_task_close(bisect_task_base(rig.task), true);
    await(SHUFFLE_STEP_CLOSED);
    shuffle_worker_set_task(rig.worker, NULL);
    shuffle_task_free(bisect_task_base(rig.task));
    shuffle_worker_set_engine(rig.worker, NULL);
    shuffle_worker_close(rig.worker);
    net_engine_close(rig.engine);
    assert_int_equal(base_governor_used_bytes(rig.governor), 0);
    base_governor_close(rig.governor);
    close(rig.listener_fd);
    close(rig.peer_fd);
    return 0;
}

/* A step in which this worker only receives; the order lives until the step ends. */
static void begin(uint32_t step, uint64_t duration_ns)
{
    static uint32_t from = 0;
    static struct cluster_measure order;
    order = (struct cluster_measure){.step = step,
                                     .duration_ns = duration_ns,
                                     .window_ns = cluster_bisect_window_ns(duration_ns),
                                     .receive_count = 1,
                                     .receive = &from};
    bisect_task_measure(rig.task, &order);
}

static void peer_block(uint32_t step, uint32_t bytes, uint64_t position)
{
    const struct block block = {.magic = MAGIC, .step = step, .bytes = bytes, .position = position};
    peer_send(&block, sizeof block);
}

static void expect_failure(const char *words)
{
    await(SHUFFLE_STEP_FAILED);
    assert_int_equal(rig.error.status, BASE_FRAME_CORRUPT);
    assert_non_null(strstr(rig.error.text, "node n1"));
    if (!strstr(rig.error.text, words))
        fail_msg("'%s' does not say '%s'", rig.error.text, words);
}

static void an_end_ends_a_step(void **state)
{
    (void)state;
    for (uint32_t step = 1; step <= 3; step++) {
        if (step == 2) /* before the order for it has come */
            peer_block(step, 0, 0);
        for (int turn = 0; turn < 100; turn++)
            shuffle_worker_turn(rig.worker, &shuffle_budget_default, false);
        begin(step, 50 * BASE_NS_PER_MS);
        if (step != 2)
            peer_block(step, 0, 0);
        await(BISECT_STEP_MEASURED);
        struct bisect_share share;
        bisect_task_share(rig.task, &share);
        assert_int_equal(share.sum.received_bytes, 0);
        assert_int_equal(share.window_count, 1);
    }
    const struct cluster_measure last = {.last = true};
    bisect_task_measure(rig.task, &last);
    await(SHUFFLE_STEP_FINISHED);
    assert_int_equal(rig.reached[SHUFFLE_STEP_FAILED], 0);
}

static void payload_that_differs_is_seen(void **state)
{
    (void)state;
    uint8_t payload[PAYLOAD] = {1, 2, 3};
    begin(1, BASE_NS_PER_S);
    peer_block(1, PAYLOAD, 0);
    peer_send(payload, sizeof payload);
    expect_failure("payload differs");
}

static void places_must_follow(void **state)
{
    (void)state;
    begin(1, BASE_NS_PER_S);
    peer_block(1, 0, 7);
    expect_failure("missing or come twice");
}

static void nothing_comes_behind_an_end(void **state)
{
    (void)state;
    begin(1, BASE_NS_PER_S);
    peer_block(1, 0, 0);
    peer_block(1, 0, 0);
    const uint64_t until_ns = base_clock_now_ns() + 60 * BASE_NS_PER_S;
    while (rig.reached[SHUFFLE_STEP_FAILED] == 0 && base_clock_now_ns() < until_ns)
        shuffle_worker_turn(rig.worker, &shuffle_budget_default, false);
    expect_failure("missing or come twice");
}

static void another_step_is_refused(void **state)
{
    (void)state;
    begin(1, BASE_NS_PER_S);
    peer_block(3, 0, 0);
    expect_failure("another step");
}

static void what_is_no_header_is_refused(void **state)
{
    (void)state;
    const struct block wrong[] = {{.magic = MAGIC + 1, .step = 1},
                                  {.magic = MAGIC, .step = 1, .bytes = 1 << 30},
                                  {.magic = MAGIC, .step = 1, .reserved = 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (i > 0) {
            close_rig(NULL);
            open_rig(NULL);
        }
        begin(1, BASE_NS_PER_S);
        peer_send(&wrong[i], sizeof wrong[i]);
        expect_failure("no header");
    }
}

/* Between two steps, or while one runs, a connection must not end. */
static void a_peer_that_leaves_is_named(void **state)
{
    (void)state;
    for (int running = 0; running < 2; running++) {
        if (running) {
            close_rig(NULL);
            open_rig(NULL);
            begin(1, BASE_NS_PER_S);
        }
        shutdown(rig.peer_fd, SHUT_RDWR);
        await(SHUFFLE_STEP_FAILED);
        assert_int_equal(rig.error.status, BASE_PEER_CLOSED);
        assert_non_null(strstr(rig.error.text, "n1"));
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_end_ends_a_step),          TEST(payload_that_differs_is_seen), TEST(places_must_follow),
        TEST(nothing_comes_behind_an_end), TEST(another_step_is_refused),      TEST(what_is_no_header_is_refused),
        TEST(a_peer_that_leaves_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
