/* What all kinds of tasks have in common, by a kind of this test's own: its states, one report of a failure, closing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/open.h"
#include "shuffle/worker/task.h"

enum { KIND_WORKING = SHUFFLE_TASK_OWN, KIND_STATES };
enum { STEP_WORKED = SHUFFLE_STEP_OWN, KIND_STEPS };

static const struct base_state_row kind_rows[KIND_STATES] = {
    SHUFFLE_TASK_ROWS,
    [SHUFFLE_TASK_OPENED] = {"opened", 0},
    [SHUFFLE_TASK_CONNECTED] = {"connected", SHUFFLE_TASK_FROM(CONNECTING)},
    [SHUFFLE_TASK_FINISHED] = {"finished", 1U << KIND_WORKING},
    [KIND_WORKING] = {"working", SHUFFLE_TASK_FROM(CONNECTED)},
};
static const struct base_machine kind_machine = {"task of a test", kind_rows, KIND_STATES};

struct kind {
    struct shuffle_task base;
    uint32_t begun, worked, stopped;
    bool busy; /* something is in flight */
};

static struct {
    struct base_governor *governor;
    struct net_engine *engine;
    struct shuffle_node node;
    struct net_address address;
    struct shuffle_job job;
    struct kind *kind;
    uint32_t reached[KIND_STEPS];
    struct base_error error;
    bool freed;
} rig;

static void kind_begin(struct shuffle_task *task, const struct shuffle_budget *budget)
{
    assert_int_equal(budget->batches, 1);
    ((struct kind *)task)->begun++;
}

static bool kind_work(struct shuffle_task *task, const struct shuffle_budget *budget)
{
    (void)budget;
    ((struct kind *)task)->worked++;
    return task->state.now == KIND_WORKING;
}

static uint64_t kind_deadline_ns(const struct shuffle_task *task)
{
    return task->state.now == KIND_WORKING ? 7 : UINT64_MAX;
}

static void kind_stop(struct shuffle_task *task)
{
    ((struct kind *)task)->stopped++;
}

static bool kind_idle(const struct shuffle_task *task)
{
    return !((const struct kind *)task)->busy;
}

static void kind_free(struct shuffle_task *task)
{
    shuffle_task_free_mesh(task);
    free(task);
    rig.freed = true;
}

static const struct shuffle_task_ops kind_ops = {.begin = kind_begin,
                                                 .work = kind_work,
                                                 .deadline_ns = kind_deadline_ns,
                                                 .stop = kind_stop,
                                                 .idle = kind_idle,
                                                 .free = kind_free};

static void on_report(void *context, uint32_t worker, int step, const struct base_error *error)
{
    assert_ptr_equal(context, &rig);
    assert_int_equal(worker, 0);
    assert_in_range(step, 0, KIND_STEPS - 1);
    rig.reached[step]++;
    if (error)
        rig.error = *error;
}

/* A task of a job of one worker, which has nobody to connect to. */
static int open_rig(void **state)
{
    (void)state;
    struct base_error error;
    memset(&rig, 0, sizeof rig);
    assert_int_equal(base_governor_open(0, &rig.governor, &error), BASE_OK);
    const struct net_engine_config engine = {.sockets_max = 1 + SHUFFLE_MESH_STRANGERS_MAX,
                                             .file_ops_max = 1,
                                             .recv_chunk_bytes = 4096,
                                             .recv_chunk_count = 1,
                                             .governor = rig.governor};
    assert_int_equal(
        net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, &engine, &rig.engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(rig.engine, &error), BASE_OK);
    rig.node = (struct shuffle_node){.name = "n1", .count = 1};
    rig.job = (struct shuffle_job){.id = 3, .node_count = 1, .workers = 1, .node = &rig.node, .address = &rig.address};
    rig.kind = calloc(1, sizeof *rig.kind);
    assert_non_null(rig.kind);
    const struct shuffle_task_config config = {.job = &rig.job,
                                               .local_count = 1,
                                               .engine = rig.engine,
                                               .governor = rig.governor,
                                               .listener_fd = -1,
                                               .report = on_report,
                                               .context = &rig};
    shuffle_task_begin(&rig.kind->base, &kind_ops, &kind_machine, &config);
    assert_int_equal(shuffle_task_open_mesh(&rig.kind->base, NULL, &error), BASE_OK);
    assert_string_equal(rig.kind->base.node_name[0], "n1");
    return 0;
}

static int close_rig(void **state)
{
    (void)state;
    shuffle_task_free(&rig.kind->base);
    assert_true(rig.freed);
    net_engine_close(rig.engine);
    assert_int_equal(base_governor_used_bytes(rig.governor), 0);
    base_governor_close(rig.governor);
    return 0;
}

static bool turn(void)
{
    return shuffle_task_turn(&rig.kind->base, &(struct shuffle_budget){.batches = 1});
}

static void connect_task(void)
{
    shuffle_task_connect(&rig.kind->base);
    for (int i = 0; i < 10 && rig.reached[SHUFFLE_STEP_CONNECTED] == 0; i++)
        turn();
    assert_int_equal(rig.reached[SHUFFLE_STEP_CONNECTED], 1);
}

static void test_a_task_that_was_never_connected_is_freed(void **state)
{
    (void)state;
    assert_int_equal(rig.kind->base.state.now, SHUFFLE_TASK_OPENED); /* close_rig does the rest */
}

static void test_states_of_its_own_stand_between_connected_and_finished(void **state)
{
    (void)state;
    struct shuffle_task *task = &rig.kind->base;
    connect_task();
    assert_false(turn()); /* it may sleep: it has no order */
    base_state_enter(&task->state, KIND_WORKING);
    assert_true(turn());
    assert_int_equal(shuffle_task_deadline_ns(task), 7);
    shuffle_task_reach(task, SHUFFLE_TASK_FINISHED, SHUFFLE_STEP_FINISHED);
    assert_int_equal(rig.reached[SHUFFLE_STEP_FINISHED], 1);
    assert_true(shuffle_task_over(task));
    assert_int_equal(shuffle_task_deadline_ns(task), UINT64_MAX);
    assert_int_equal(rig.kind->stopped, 0);
    shuffle_task_close(task, false);
    turn();
    assert_int_equal(task->state.now, SHUFFLE_TASK_CLOSED);
    assert_int_equal(rig.reached[SHUFFLE_STEP_CLOSED], 1);
}

static void test_it_begins_every_turn_and_works_when_the_mesh_has_let_it(void **state)
{
    (void)state;
    shuffle_task_connect(&rig.kind->base);
    turn();
    assert_int_equal(rig.kind->begun, 1);
    assert_int_equal(rig.kind->worked, 0); /* that turn was the connecting's */
    turn();
    assert_int_equal(rig.kind->begun, 2);
    assert_int_equal(rig.kind->worked, 1);
    shuffle_task_close(&rig.kind->base, true);
    turn();
    assert_int_equal(rig.kind->worked, 1);
}

static void test_a_failure_is_reported_once(void **state)
{
    (void)state;
    struct shuffle_task *task = &rig.kind->base;
    struct base_error error;
    base_error_set(&error, BASE_IO, "first");
    connect_task();
    shuffle_task_fail(task, &error);
    base_error_set(&error, BASE_IO, "second");
    shuffle_task_fail(task, &error);
    assert_int_equal(rig.reached[SHUFFLE_STEP_FAILED], 1);
    assert_string_equal(rig.error.text, "first");
    assert_int_equal(rig.kind->stopped, 1);
    shuffle_task_close(task, false);
    assert_int_equal(rig.kind->stopped, 2);
    turn();
    assert_int_equal(task->state.now, SHUFFLE_TASK_CLOSED);
}

static void test_a_task_that_has_finished_does_not_fail(void **state)
{
    (void)state;
    struct shuffle_task *task = &rig.kind->base;
    struct base_error error;
    base_error_set(&error, BASE_IO, "late");
    connect_task();
    base_state_enter(&task->state, KIND_WORKING);
    shuffle_task_reach(task, SHUFFLE_TASK_FINISHED, SHUFFLE_STEP_FINISHED);
    shuffle_task_fail(task, &error);
    assert_int_equal(rig.reached[SHUFFLE_STEP_FAILED], 0);
    assert_int_equal(task->state.now, SHUFFLE_TASK_FINISHED);
    shuffle_task_close(task, true);
    turn();
}

static void test_it_is_closed_when_nothing_is_in_flight(void **state)
{
    (void)state;
    struct shuffle_task *task = &rig.kind->base;
    connect_task();
    rig.kind->busy = true;
    shuffle_task_close(task, true);
    shuffle_task_close(task, true); /* once is enough */
    assert_int_equal(rig.kind->stopped, 1);
    turn();
    assert_int_equal(task->state.now, SHUFFLE_TASK_CLOSING);
    rig.kind->busy = false;
    turn();
    assert_int_equal(task->state.now, SHUFFLE_TASK_CLOSED);
    assert_int_equal(rig.reached[SHUFFLE_STEP_CLOSED], 1);
    assert_false(turn());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_rig, close_rig)
        TEST(test_a_task_that_was_never_connected_is_freed),
        TEST(test_states_of_its_own_stand_between_connected_and_finished),
        TEST(test_it_begins_every_turn_and_works_when_the_mesh_has_let_it),
        TEST(test_a_failure_is_reported_once),
        TEST(test_a_task_that_has_finished_does_not_fail),
        TEST(test_it_is_closed_when_nothing_is_in_flight),
#undef TEST
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
