/* A node's part in a job with a real crew of two workers: orders in any order, workers that cannot open, and that the
 * next job runs after each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/node/job.h"

enum { WORKERS = 2, HEARD_MAX = 64, MORSELS_MAX = 256 };

static struct {
    struct base_governor *governor;
    struct cluster_crew *crew;
    bool survey; /* begin() orders one */
    struct node_job job;
    uint64_t last;
    uint32_t count;
    struct {
        enum cluster_message_kind kind;
        enum cluster_step_kind step;
        uint64_t rows, rows_scanned;
        struct base_error error;
    } heard[HEARD_MAX];
} agent;

static void hear(void *context, const struct cluster_message *message)
{
    (void)context;
    assert_true(agent.count < HEARD_MAX);
    agent.heard[agent.count].kind = message->kind;
    if (message->kind == CLUSTER_MESSAGE_STEP || message->kind == CLUSTER_MESSAGE_CLOSED) {
        agent.heard[agent.count].step = message->step.step;
        agent.heard[agent.count].rows = message->step.report.sum.task.rows;
        agent.heard[agent.count].rows_scanned = message->step.report.sum.task.rows_scanned;
    }
    if (message->kind == CLUSTER_MESSAGE_FAILED)
        agent.heard[agent.count].error = message->failed.error;
    if (message->kind == CLUSTER_MESSAGE_FAULT)
        agent.heard[agent.count].error = message->fault.error;
    agent.count++;
}

static int open_agent(void **state)
{
    (void)state;
    memset(&agent, 0, sizeof agent);
    struct base_error error;
    struct cluster_crew_config config = {.workers = WORKERS, .engine = {.kind = NET_ENGINE_EPOLL}};
    assert_int_equal(base_governor_open(UINT64_C(256) << 20, &agent.governor, &error), BASE_OK);
    assert_int_equal(net_address_parse("127.0.0.1:0", &config.listen, &error), BASE_OK);
    config.governor = agent.governor;
    if (cluster_crew_open(&config, &agent.crew, &error) != BASE_OK)
        fail_msg("%s", error.text);
    agent.job = (struct node_job){.node_name = "n1",
                                  .crew = agent.crew,
                                  .workers = WORKERS,
                                  .send = hear,
                                  .resolve_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    node_job_begin(&agent.job);
    assert_true(agent.job.resolve_fd >= 0);
    return 0;
}

static int close_agent(void **state)
{
    (void)state;
    cluster_crew_close(agent.crew);
    node_job_close(&agent.job);
    close(agent.job.resolve_fd);
    assert_int_equal(base_governor_used_bytes(agent.governor), 0);
    base_governor_close(agent.governor);
    return 0;
}

/* Handles what the crew tells until the next message; its place. */
static uint32_t await(void)
{
    const uint32_t before = agent.count;
    const uint64_t end_ns = base_clock_now_ns() + 120 * BASE_NS_PER_S;
    while (agent.count == before) {
        assert_true(base_clock_now_ns() < end_ns);
        struct pollfd fd[2] = {{.fd = cluster_crew_fd(agent.crew), .events = POLLIN},
                               {.fd = agent.job.resolve_fd, .events = POLLIN}};
        poll(fd, 2, 100);
        if (fd[1].revents)
            node_job_resolved(&agent.job);
        struct cluster_crew_event event;
        while (agent.count == before && cluster_crew_poll(agent.crew, &event))
            node_job_crew_event(&agent.job, &event);
    }
    return before;
}

static void order(struct cluster_message *message)
{
    struct base_error error;
    message->job = agent.last;
    if (node_job_order(&agent.job, message, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

static void order_simple(enum cluster_message_kind kind)
{
    struct cluster_message message = {.kind = kind};
    order(&message);
}

static void expect_step(enum cluster_step_kind step)
{
    const uint32_t at = await();
    assert_int_equal(agent.heard[at].kind, CLUSTER_MESSAGE_STEP);
    assert_int_equal(agent.heard[at].step, step);
}

static void expect_failed(enum base_status status)
{
    const uint32_t at =
        agent.count && agent.heard[agent.count - 1].kind == CLUSTER_MESSAGE_FAILED ? agent.count - 1 : await();
    assert_int_equal(agent.heard[at].kind, CLUSTER_MESSAGE_FAILED);
    if (agent.heard[at].error.status != status)
        fail_msg("%s", agent.heard[at].error.text);
}

/* RESOLVE and PREPARE of a shuffle of 1000 rows into tables; the answer to PREPARE is left to the caller. */
static void begin(const struct shuffle_settings *settings)
{
    struct base_error error;
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_RESOLVE};
    agent.last++;
    agent.count = 0;
    message.resolve.source_count = 1;
    message.resolve.source[0].text = strdup("gen:rows=1000,row=16");
    order(&message);
    assert_null(message.resolve.source[0].text); /* taken over */
    assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_RESOLVED);

    const struct join_request request = {
        .kind = JOIN_JOB_SHUFFLE, .on = "key", .output = SHUFFLE_OUTPUT_COUNT, .into_table = true};
    struct shuffle_relation relation[2];
    memset(relation, 0, sizeof relation);
    char *path = NULL;
    assert_int_equal(shuffle_relation_parse("gen:rows=1000,row=16", &relation[0], &path, &error), BASE_OK);
    struct cluster_plan plan = {.kind = CLUSTER_KIND_SHUFFLE};
    if (join_plan_make(&request, relation, &plan.join, &error) != BASE_OK)
        fail_msg("%s", error.text);
    const struct shuffle_node node = {.name = "n1", .first = 0, .count = WORKERS};
    const uint8_t token[SHUFFLE_TOKEN_BYTES] = {1};
    assert_int_equal(shuffle_job_place(&plan.job, agent.last, token, settings, join_plan_bytes_max(&plan.join), &node,
                                       1, cluster_crew_addresses(agent.crew), &error),
                     BASE_OK);
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_PREPARE;
    message.prepare.plan = &plan;
    message.prepare.morsel_capacity[0] = MORSELS_MAX;
    message.prepare.survey[0] = agent.survey;
    order(&message);
    cluster_plan_free(&plan); /* emptied when the crew took it over */
}

/* RESOLVE and PREPARE of a measurement, up to where steps may be told. */
static void begin_measurement(void)
{
    struct base_error error;
    agent.last++;
    agent.count = 0;
    order_simple(CLUSTER_MESSAGE_RESOLVE);
    struct cluster_plan plan = {.kind = CLUSTER_KIND_BISECT};
    const struct shuffle_node node = {.name = "n1", .first = 0, .count = WORKERS};
    const uint8_t token[SHUFFLE_TOKEN_BYTES] = {1};
    const struct shuffle_settings settings = {0};
    assert_int_equal(shuffle_job_place(&plan.job, agent.last, token, &settings, 0, &node, 1,
                                       cluster_crew_addresses(agent.crew), &error),
                     BASE_OK);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_PREPARE, .prepare = {.plan = &plan}};
    order(&message);
    cluster_plan_free(&plan);
    expect_step(CLUSTER_STEP_OPENED);
    order_simple(CLUSTER_MESSAGE_CONNECT);
    expect_step(CLUSTER_STEP_CONNECTED);
}

static void measure(uint32_t step)
{
    const uint64_t ns = CLUSTER_BISECT_DURATION_MIN_NS;
    struct cluster_message message = {
        .kind = CLUSTER_MESSAGE_MEASURE,
        .measure = {.step = step, .duration_ns = ns, .window_ns = cluster_bisect_window_ns(ns)}};
    order(&message);
}

static void start(uint32_t pass)
{
    struct shuffle_morsel morsel = {.end = 1000};
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_START};
    message.start.pass = pass;
    message.start.lend = (struct cluster_lend){.end = true, .count = 1, .morsel = &morsel};
    order(&message);
}

static void release(bool abort)
{
    const uint32_t before = agent.count;
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_RELEASE, .release = {.abort = abort}};
    order(&message);
    const uint32_t at = agent.count > before ? before : await();
    assert_int_equal(agent.heard[at].kind, CLUSTER_MESSAGE_CLOSED);
    assert_true(node_job_idle(&agent.job));
}

static void run_good_job_with(const struct shuffle_settings *settings)
{
    begin(settings);
    expect_step(CLUSTER_STEP_OPENED);
    order_simple(CLUSTER_MESSAGE_CONNECT);
    expect_step(CLUSTER_STEP_CONNECTED);
    start(0);
    expect_step(CLUSTER_STEP_FINISHED);
    assert_int_equal(agent.heard[agent.count - 1].rows, 1000);
    release(false);
    assert_int_equal(agent.heard[agent.count - 1].rows_scanned, 1000); /* the last word says it again */
}

static void run_good_job(void)
{
    const struct shuffle_settings settings = {0};
    run_good_job_with(&settings);
}

static void test_job(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        run_good_job();
}

/* A coordinator that confuses itself is answered, and no assertion of ours falls. */
static void test_orders_out_of_turn(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_RESOLVE, CLUSTER_MESSAGE_RELEASE,
                                                      CLUSTER_MESSAGE_COMMIT, CLUSTER_MESSAGE_PUBLISH};
    struct base_error error;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cluster_message nothing = {.kind = kinds[i]}; /* job 0: none */
        assert_int_equal(node_job_order(&agent.job, &nothing, &error), BASE_PROTOCOL);
        assert_true(node_job_idle(&agent.job));
    }
    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    order_simple(CLUSTER_MESSAGE_CONNECT);
    order_simple(CLUSTER_MESSAGE_CONNECT);
    expect_step(CLUSTER_STEP_CONNECTED);
    start(1); /* a shuffle has one pass */
    expect_failed(BASE_PROTOCOL);
    release(true);
    run_good_job();

    begin(&settings);
    start(0); /* before it is connected, and perhaps before it is open */
    struct cluster_message lend = {.kind = CLUSTER_MESSAGE_LEND, .lend = {.end = true}};
    order(&lend);
    release(true);
    run_good_job();

    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    struct cluster_message survey = {.kind = CLUSTER_MESSAGE_SURVEY};
    survey.survey.lend[0].end = survey.survey.lend[1].end = true;
    order(&survey); /* of a job without one */
    release(true);
    run_good_job();
}

/* Workers use the order of the step that runs: the next one, told too early, must not take it from them. */
static void test_steps_one_after_another(void **state)
{
    (void)state;
    begin_measurement();
    for (uint32_t step = 1; step <= 2; step++) {
        measure(step);
        assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_MEASURED);
    }
    measure(3);
    measure(4);
    expect_failed(BASE_PROTOCOL);
    assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_MEASURED); /* step 3, which goes on */
    measure(4);                                                            /* a job that failed takes no orders */
    release(true);
    run_good_job();
}

/* A coordinator that lends without being asked: workers run low each time, and it is told no more often than we look.
 */
static void test_flood_of_morsels(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    order_simple(CLUSTER_MESSAGE_CONNECT);
    expect_step(CLUSTER_STEP_CONNECTED);
    struct cluster_message start = {.kind = CLUSTER_MESSAGE_START};
    order(&start);
    struct shuffle_morsel morsel = {.end = 1};
    const struct timespec while_it_is_scanned = {.tv_nsec = 1000000};
    for (int i = 0; i < 200; i++) {
        struct cluster_message lend = {.kind = CLUSTER_MESSAGE_LEND, .lend = {.count = 1, .morsel = &morsel}};
        order(&lend);
        nanosleep(&while_it_is_scanned, NULL);
    }
    assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_LOW);
    release(true);
    run_good_job();
}

/* Both workers, or one of them, cannot open: the job fails, and everything is as before. */
static void test_workers_cannot_open(void **state)
{
    (void)state;
    const uint64_t before = base_governor_used_bytes(agent.governor);
    /* chunks of 1 TiB for each; then of more than half of the budget, so that one of the two finds no room */
    const struct shuffle_settings bad[] = {{.recv_chunk_bytes = 64 << 20, .recv_chunk_count = 1 << 14},
                                           {.recv_chunk_bytes = 16 << 20, .recv_chunk_count = 10}};
    for (int i = 0; i < 4; i++) {
        begin(&bad[i % 2]);
        expect_failed(BASE_NO_MEMORY);
        release(true);
        run_good_job();
        assert_int_equal(base_governor_used_bytes(agent.governor), before);
    }
}

/* The budget has room for one engine of each worker, not for an old and a new one. */
static void test_engines_one_after_another(void **state)
{
    (void)state;
    const struct shuffle_settings large[] = {{.recv_chunk_bytes = 16 << 20, .recv_chunk_count = 6},
                                             {.recv_chunk_bytes = 12 << 20, .recv_chunk_count = 8}};
    for (int i = 0; i < 4; i++)
        run_good_job_with(&large[i % 2]);
    run_good_job();
}

/* Other nodes feel a failure here and tell of it first: the coordinator aborts, and still hears the cause before it
 * hears that the job is closed. */
static void test_cause_while_aborting(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    struct cluster_message abort = {.kind = CLUSTER_MESSAGE_RELEASE, .release = {.abort = true}};
    order(&abort);
    struct cluster_crew_event event = {.kind = CLUSTER_CREW_FAILED, .step = CLUSTER_STEP_FAILED};
    base_error_set(&event.error, BASE_PARSE, "f.csv:2: no number");
    node_job_crew_event(&agent.job, &event);
    expect_failed(BASE_PARSE);
    assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_CLOSED);
    assert_true(node_job_idle(&agent.job));
    run_good_job();
}

/* A message says only what the codec lets in: a status that is none of a failure becomes one. */
static void test_fault_has_a_failure(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    struct cluster_crew_event event = {.kind = CLUSTER_CREW_FAULT};
    base_error_set(&event.error, BASE_BUSY, "f.csv: it is in use");
    node_job_crew_event(&agent.job, &event);
    assert_int_equal(agent.heard[agent.count - 1].kind, CLUSTER_MESSAGE_FAULT);
    assert_true(base_status_is_failure(agent.heard[agent.count - 1].error.status));
    release(true);
    run_good_job();
}

/* Nobody waits for a look at sources that is not wanted any more. Some of these looks have ended by then, some have
 * not; the folder is a small one, because an abandoned look reads on. */
static void test_look_abandoned(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    for (int i = 0; i < NODE_RESOLVE_STUCK_MAX - 1; i++) {
        struct cluster_message message = {.kind = CLUSTER_MESSAGE_RESOLVE, .resolve = {.source_count = 1}};
        message.resolve.source[0].text = strdup("shared:/proc/self/fdinfo");
        agent.last++;
        agent.count = 0;
        order(&message);
        struct cluster_message release = {.kind = CLUSTER_MESSAGE_RELEASE, .release = {.abort = true}};
        order(&release);
        assert_int_equal(agent.count, 1);
        assert_int_equal(agent.heard[0].kind, CLUSTER_MESSAGE_CLOSED);
        assert_true(node_job_idle(&agent.job));
    }
    begin(&settings);
    expect_step(CLUSTER_STEP_OPENED);
    struct cluster_message release = {.kind = CLUSTER_MESSAGE_RELEASE, .release = {.abort = true}};
    order(&release);
    assert_int_equal(agent.heard[await()].kind, CLUSTER_MESSAGE_CLOSED);
}

/* A coordinator that does not wait for the sources: whenever the look at them ends, the job has failed, once. */
static void test_orders_during_a_look(void **state)
{
    (void)state;
    static const enum cluster_message_kind early[] = {CLUSTER_MESSAGE_CONNECT, CLUSTER_MESSAGE_START,
                                                      CLUSTER_MESSAGE_STAGE, CLUSTER_MESSAGE_MEASURE};
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        struct cluster_message message = {.kind = CLUSTER_MESSAGE_RESOLVE, .resolve = {.source_count = 1}};
        message.resolve.source[0].text = strdup("gen:rows=1000,row=16");
        agent.last++;
        agent.count = 0;
        order(&message);
        order_simple(early[i]);
        expect_failed(BASE_PROTOCOL);
        const struct timespec until_it_has_ended = {.tv_nsec = 20000000}; /* in most runs: both orders must be right */
        nanosleep(&until_it_has_ended, NULL);
        node_job_resolved(&agent.job);
        assert_int_equal(agent.count, 1);
        release(true);
        run_good_job();
    }
}

/* Generated rows have no quotes and lines to count, and no file. */
static void test_survey_of_generated_rows_is_refused(void **state)
{
    (void)state;
    const struct shuffle_settings settings = {0};
    agent.survey = true;
    begin(&settings);
    agent.survey = false;
    expect_failed(BASE_PROTOCOL);
    release(true);
    run_good_job();
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_orders_out_of_turn, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_steps_one_after_another, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_flood_of_morsels, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_workers_cannot_open, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_engines_one_after_another, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_cause_while_aborting, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_fault_has_a_failure, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_look_abandoned, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_orders_during_a_look, open_agent, close_agent),
        cmocka_unit_test_setup_teardown(test_survey_of_generated_rows_is_refused, open_agent, close_agent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
