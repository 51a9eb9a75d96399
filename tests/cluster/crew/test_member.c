/* A worker that has no engine any more: the kernel gives none, neither the one that a job asks for nor the one from
 * before. Its jobs fail with the reason, it lets go of them and can be ended, and it has an engine again when there is
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/crew/internal.h"
#include "net/open.h"

enum { WORKERS = 2, LIMIT_SECONDS = 120 };

static atomic_bool refused; /* no engine can be had */
static atomic_uint tries;

enum base_status __real_net_engine_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                        struct net_engine **engine, struct base_error *error);
enum base_status __wrap_net_engine_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                        struct net_engine **engine, struct base_error *error);
enum base_status __wrap_net_engine_open(const struct net_engine_choice *choice, const struct net_engine_config *config,
                                        struct net_engine **engine, struct base_error *error)
{
    atomic_fetch_add(&tries, 1);
    if (atomic_load(&refused))
        return base_error_set(error, BASE_NO_MEMORY, "no descriptors are left for an engine");
    return __real_net_engine_open(choice, config, engine, error);
}

static struct base_governor *governor;
static struct cluster_crew *crew;
static uint64_t job;

static int open_crew(void **state)
{
    (void)state;
    struct base_error error;
    struct cluster_crew_config config = {.workers = WORKERS, .engine = {.kind = NET_ENGINE_EPOLL}};
    atomic_store(&refused, false);
    assert_int_equal(base_governor_open(UINT64_C(256) << 20, &governor, &error), BASE_OK);
    assert_int_equal(net_address_parse("127.0.0.1:0", &config.listen, &error), BASE_OK);
    config.governor = governor;
    if (cluster_crew_open(&config, &crew, &error) != BASE_OK)
        fail_msg("%s", error.text);
    return 0;
}

static int close_crew(void **state)
{
    (void)state;
    cluster_crew_close(crew);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    return 0;
}

/* The next answer of the crew. */
static struct cluster_crew_event await(void)
{
    struct cluster_crew_event event;
    const uint64_t end_ns = base_clock_now_ns() + LIMIT_SECONDS * BASE_NS_PER_S;
    while (!cluster_crew_poll(crew, &event)) {
        assert_true(base_clock_now_ns() < end_ns);
        struct pollfd answers = {.fd = cluster_crew_fd(crew), .events = POLLIN};
        (void)poll(&answers, 1, 1000);
    }
    return event;
}

/* A measurement that wants other socket buffers than the engine at hand has. */
static void prepare(void)
{
    struct base_error error;
    struct cluster_plan plan = {.kind = CLUSTER_KIND_BISECT};
    struct shuffle_settings settings = {0};
    const struct shuffle_node node = {.name = "n1", .first = 0, .count = WORKERS};
    const uint8_t token[SHUFFLE_TOKEN_BYTES] = {1};
    const uint64_t capacity[2] = {0, 0};
    const bool survey[2] = {false, false};
    settings.socket.send_buffer_bytes = job % 2 ? 1 << 20 : 2 << 20;
    assert_int_equal(
        shuffle_job_place(&plan.job, ++job, token, &settings, 0, &node, 1, cluster_crew_addresses(crew), &error),
        BASE_OK);
    assert_int_equal(cluster_crew_prepare(crew, &plan, 0, capacity, survey, &error), BASE_OK);
    cluster_plan_free(&plan);
}

static void expect_step(enum cluster_step_kind step)
{
    const struct cluster_crew_event event = await();
    if (event.kind == CLUSTER_CREW_FAILED)
        fail_msg("%s", event.error.text);
    assert_int_equal(event.kind, CLUSTER_CREW_STEP);
    assert_int_equal(event.step, step);
}

static void expect_no_engine(void)
{
    const struct cluster_crew_event event = await();
    assert_int_equal(event.kind, CLUSTER_CREW_FAILED);
    assert_int_equal(event.error.status, BASE_NO_MEMORY);
    assert_string_equal(event.error.text, "no descriptors are left for an engine");
}

static void run_good_job(void)
{
    prepare();
    expect_step(CLUSTER_STEP_OPENED);
    cluster_crew_release(crew, true);
    expect_step(CLUSTER_STEP_CLOSED);
}

static void jobs_fail_with_the_reason_until_there_is_an_engine(void **state)
{
    (void)state;
    run_good_job();
    atomic_store(&refused, true);
    for (int i = 0; i < 3; i++) {
        prepare();
        expect_no_engine();
        cluster_crew_release(crew, true); /* hears it, and lets go */
        expect_step(CLUSTER_STEP_CLOSED);
    }
    atomic_store(&refused, false);
    run_good_job();
}

/* Nobody asks: it tries by itself, after longer and longer times. */
static void it_tries_again_by_itself(void **state)
{
    (void)state;
    run_good_job();
    atomic_store(&refused, true);
    prepare();
    expect_no_engine();
    cluster_crew_release(crew, true);
    expect_step(CLUSTER_STEP_CLOSED);
    const unsigned before = atomic_load(&tries);
    const uint64_t end_ns = base_clock_now_ns() + LIMIT_SECONDS * BASE_NS_PER_S;
    while (atomic_load(&tries) < before + 2 * WORKERS) {
        assert_true(base_clock_now_ns() < end_ns);
        (void)poll(NULL, 0, 10);
    }
    atomic_store(&refused, false);
    const unsigned healed = atomic_load(&tries);
    while (atomic_load(&tries) < healed + WORKERS) {
        assert_true(base_clock_now_ns() < end_ns);
        (void)poll(NULL, 0, 10);
    }
    run_good_job();
}

static void it_can_be_ended(void **state)
{
    (void)state;
    run_good_job();
    atomic_store(&refused, true);
    prepare();
    expect_no_engine();
    /* close_crew, with the job still there */
}

/* A coordinator that repeats an order faster than the control thread looks at answers: it gets one for all. */
static void a_step_is_told_once_until_somebody_looks(void **state)
{
    (void)state;
    struct cluster_crew_event event;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 200 * WORKERS; i++)
            crew_reached(crew, CLUSTER_STEP_HALTED);
        expect_step(CLUSTER_STEP_HALTED);
        assert_false(cluster_crew_poll(crew, &event));
    }
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(jobs_fail_with_the_reason_until_there_is_an_engine, open_crew, close_crew),
        cmocka_unit_test_setup_teardown(it_tries_again_by_itself, open_crew, close_crew),
        cmocka_unit_test_setup_teardown(it_can_be_ended, open_crew, close_crew),
        cmocka_unit_test_setup_teardown(a_step_is_told_once_until_somebody_looks, open_crew, close_crew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
