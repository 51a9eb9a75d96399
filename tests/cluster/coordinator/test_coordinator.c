/* The coordinator in virtual time: every phase, every way to fail, and then random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cluster/coordinator/internal.h"
#include "cluster/protocol/link.h"
#include "tests/cluster/coordinator/rig.h"

#define LOST_BOUND_NS (UINT64_C(2) * BASE_NS_PER_S)
#define FREE_BOUND_NS (UINT64_C(3) * BASE_NS_PER_S)

static void open_complete(struct rig *rig, uint64_t seed, uint32_t nodes)
{
    rig_open(rig, seed, nodes, nodes);
    for (uint32_t i = 0; i < nodes; i++)
        rig_node_start(rig, i);
    assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
}

static struct rig *the_rig(void)
{
    static struct rig rig;
    return &rig;
}

static struct rig_client *waited; /* what reported() looks at */

static bool reported(struct rig *rig)
{
    (void)rig;
    return waited->reported;
}

static enum base_status await_report(struct rig *rig, struct rig_client *client, uint64_t ns)
{
    waited = client;
    assert_true(rig_until(rig, reported, ns));
    return client->report.report.error.status;
}

static void assert_names(const struct rig_client *client, const char *name)
{
    if (!strstr(client->report.report.error.text, name))
        fail_msg("'%s' does not name %s", client->report.report.error.text, name);
}

static void assert_all_free(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->node_count; i++)
        if (!rig->node[i].dead && !rig->node[i].stopped)
            assert_int_equal(rig->node[i].job, 0);
}

static void run_good_job(struct rig *rig)
{
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    if (await_report(rig, client, 5 * BASE_NS_PER_S) != BASE_OK)
        fail_msg("%s", client->report.report.error.text);
}

static void test_join(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 1, 6);
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_OK);
    const struct cluster_report *report = &client->report.report;
    assert_int_equal(report->rows, 60);
    assert_int_equal(report->node_count, 6);
    assert_int_equal(report->workers, 6);
    assert_string_equal(report->node[5].name, "n6");
    assert_int_equal(report->link[5 * 6 + 0], 7);
    assert_int_equal(report->bytes_sent, 6 * 7);
    assert_int_equal(rig->recorded, 0);
    /* Every morsel was lent to exactly one node, and no node had all. */
    const uint64_t count[2] = {48, 80};
    for (uint32_t side = 0; side < 2; side++) {
        uint64_t lent = 0;
        for (uint32_t i = 0; i < 6; i++) {
            assert_true(rig->node[i].lent[side] > 0);
            lent += rig->node[i].lent[side];
        }
        assert_int_equal(lent, count[side]);
    }
    assert_all_free(rig);
    rig_close(rig);
}

static void test_one_morsel_each_when_few(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 2, 6);
    struct cluster_submit submit = rig_join();
    submit.source[0].text = submit.source[1].text = "gen:rows=6,row=16";
    submit.settings.morsel_bytes = 16;
    assert_int_equal(await_report(rig, rig_submit(rig, &submit), BASE_NS_PER_S), BASE_OK);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(rig->node[i].lent[0], 1);
    rig_close(rig);
}

static void test_publish(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 3, 4);
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_OK);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig->node[i].published[client->job]);
    assert_true(rig->decided[client->job]);
    assert_true(rig->forgotten[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_INFO, "node n4 is here: 1 worker"));
    assert_true(rig_logged(rig, BASE_LOG_INFO, "job 1 succeeded in"));
    rig_close(rig);
}

/* What a step answers depends on nothing but what it was given: a second coordinator, stepped in between, sees the
 * same. */
static void test_two_coordinators_do_not_meet(void **state)
{
    (void)state;
    static struct rig rigs[2];
    struct rig_client *client[2];
    const struct cluster_submit submit = rig_shuffle_out();
    for (uint32_t i = 0; i < 2; i++)
        open_complete(&rigs[i], 5, 3);
    for (uint32_t i = 0; i < 2; i++)
        client[i] = rig_submit(&rigs[i], &submit);
    for (uint32_t turn = 0; turn < 1000; turn++)
        for (uint32_t i = 0; i < 2; i++)
            rig_run(&rigs[i], BASE_NS_PER_MS);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(client[i]->reported ? client[i]->report.report.error.status : BASE_BUSY, BASE_OK);
    assert_int_equal(client[0]->reported_ns, client[1]->reported_ns);
    assert_int_equal(rigs[0].logged, rigs[1].logged);
    assert_memory_equal(rigs[0].log, rigs[1].log, sizeof rigs[0].log);
    for (uint32_t i = 0; i < 3; i++)
        assert_memory_equal(rigs[0].node[i].orders, rigs[1].node[i].orders, sizeof rigs[0].node[i].orders);
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
}

/* A node's reasons are not the coordinator's: it can neither succeed by failing nor cancel a job. */
static void test_reasons_of_nodes(void **state)
{
    (void)state;
    static const enum base_status given[] = {BASE_OK, BASE_BUSY, BASE_CANCELLED, BASE_VERSION};
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_START, CLUSTER_MESSAGE_COMMIT};
    for (uint32_t i = 0; i < sizeof given / sizeof given[0]; i++)
        for (uint32_t j = 0; j < 2; j++) {
            struct rig *rig = the_rig();
            open_complete(rig, 40 + i, 3);
            rig->node[1].mute[orders[j]] = true;
            const struct cluster_submit submit = rig_shuffle_out();
            struct rig_client *client = rig_submit(rig, &submit);
            assert_true(rig_until_told(rig, 1, orders[j], BASE_NS_PER_S));
            struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
            failed.failed.error.status = given[i];
            rig_node_say(rig, 1, &failed);
            assert_int_equal(await_report(rig, client, CLUSTER_COMMIT_NS), BASE_INTERNAL);
            rig_close(rig);
        }
    /* Nor by a fault of the input; the codec refuses the first two in one. */
    for (uint32_t i = 2; i < sizeof given / sizeof given[0]; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 44 + i, 3);
        for (uint32_t n = 0; n < 3; n++)
            rig->node[n].mute[CLUSTER_MESSAGE_START] = rig->node[n].mute[CLUSTER_MESSAGE_HALT] = true;
        const struct cluster_submit submit = rig_join();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_true(rig_until_told(rig, 1, CLUSTER_MESSAGE_START, BASE_NS_PER_S));
        struct cluster_message fault = {.kind = CLUSTER_MESSAGE_FAULT, .job = client->job};
        fault.fault.error.status = given[i];
        rig_node_say(rig, 1, &fault);
        rig_run(rig, 10 * BASE_NS_PER_MS);
        rig_node_kill(rig, 2); /* the job ends, with the fault */
        assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_INTERNAL);
        assert_names(client, "node n2");
        rig_close(rig);
    }
}

static bool was_asked_to_record(struct rig *rig)
{
    return rig->records > 0;
}

/* A disk that takes its time, for longer than a node may keep silent: nobody is lost meanwhile. One that takes too long
 * is told of, and what it did is known when it answers. */
static void slow_disk(uint64_t seed, uint64_t disk_ns, enum base_status status)
{
    struct rig *rig = the_rig();
    open_complete(rig, seed, 4);
    rig->record_late = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until(rig, was_asked_to_record, BASE_NS_PER_S));
    rig_run(rig, disk_ns);
    assert_true(rig_is_complete(rig));
    assert_int_equal(client->reported, status != BASE_OK);
    rig_recorded(rig);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), status);
    if (status != BASE_OK)
        assert_names(client, "disk does not answer");
    rig_run(rig, BASE_NS_PER_S);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rig->node[i].published[client->job]);
    rig->record_late = false;
    run_good_job(rig);
    rig_close(rig);
}

static void test_slow_disk(void **state)
{
    (void)state;
    slow_disk(460, 20 * BASE_NS_PER_S, BASE_OK);
    slow_disk(461, CLUSTER_COMMIT_NS + 2 * BASE_NS_PER_S, BASE_IO);
}

static void test_record_fails(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 4, 3);
    rig->record_status = BASE_NO_SPACE;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_NO_SPACE);
    for (uint32_t i = 0; i < 3; i++)
        assert_false(rig->node[i].committed[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "the decision of job 1 is not recorded: disk full"));
    assert_all_free(rig);
    rig_close(rig);
}

/* The orders after which a node is lost, cancelled or failing: every phase has one. */
static const enum cluster_message_kind phases[] = {
    CLUSTER_MESSAGE_RESOLVE, CLUSTER_MESSAGE_PREPARE, CLUSTER_MESSAGE_CONNECT,
    CLUSTER_MESSAGE_START,   CLUSTER_MESSAGE_LEND,    CLUSTER_MESSAGE_STAGE,
    CLUSTER_MESSAGE_COMMIT,  CLUSTER_MESSAGE_PUBLISH, CLUSTER_MESSAGE_RELEASE};
enum { PHASES = sizeof phases / sizeof *phases };

/* Starts a job that stands still at node 2 in the given phase. */
static bool is_output_phase(enum cluster_message_kind phase)
{
    return phase == CLUSTER_MESSAGE_STAGE || phase == CLUSTER_MESSAGE_COMMIT || phase == CLUSTER_MESSAGE_PUBLISH;
}

static struct rig_client *stand_still(struct rig *rig, enum cluster_message_kind phase)
{
    const bool out = is_output_phase(phase);
    const struct cluster_submit submit = out ? rig_shuffle_out() : rig_join();
    rig->node[2].mute[phase] = true;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, 2, phase, BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_MS);
    return client;
}

static void lose_in_phase(enum cluster_message_kind phase, bool kill, uint64_t seed)
{
    struct rig *rig = the_rig();
    open_complete(rig, seed, 4);
    struct rig_client *client = stand_still(rig, phase);
    const uint64_t fault_ns = rig->now_ns;
    if (kill)
        rig_node_kill(rig, 2);
    else
        rig_node_stop(rig, 2);
    const enum base_status status = await_report(rig, client, LOST_BOUND_NS);
    /* What was done before the loss stays done. */
    if (phase == CLUSTER_MESSAGE_RELEASE) {
        assert_int_equal(status, BASE_OK);
    } else {
        assert_int_equal(status, BASE_NODE_LOST);
        assert_names(client, "n3");
    }
    assert_true(rig->now_ns - fault_ns <= LOST_BOUND_NS);
    assert_true(rig_until(rig, rig_is_idle, FREE_BOUND_NS - (rig->now_ns - fault_ns)));
    rig_run(rig, 5 * BASE_NS_PER_MS);
    assert_all_free(rig);
    const bool decided = rig->decided[client->job];
    assert_true(
        rig_logged(rig, BASE_LOG_WARN, kill ? "node n3 is lost: its process ended" : "node n3 is lost: it was silent"));
    assert_int_equal(rig_logged(rig, BASE_LOG_WARN, "job 1 ended after"), status != BASE_OK);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2 && status != BASE_OK)
            assert_int_equal(rig->node[i].aborted[client->job], !decided);
    /* The next job fails at once and names who is missing. */
    const struct cluster_submit submit = rig_join();
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, next, 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    assert_names(next, "n3");
    /* When the node is back, jobs run again, and a decision is carried out. */
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    if (kill)
        rig_node_start(rig, 2);
    else
        rig_node_continue(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    if (decided) {
        assert_true(rig->node[2].published[client->job]);
        assert_true(rig->forgotten[client->job]);
    }
    run_good_job(rig);
    rig_close(rig);
}

static void test_lost_in_every_phase(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PHASES; i++)
        lose_in_phase(phases[i], true, 100 + i);
}

static void test_silent_in_every_phase(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PHASES; i++)
        lose_in_phase(phases[i], false, 200 + i);
}

static void test_cancel_in_every_phase(void **state)
{
    (void)state;
    for (uint32_t i = 0; phases[i] != CLUSTER_MESSAGE_COMMIT; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 300 + i, 4);
        struct rig_client *client = stand_still(rig, phases[i]);
        struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
        rig_client_say(rig, rig_client(rig), &cancel);
        assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_CANCELLED);
        assert_true(rig_is_idle(rig));
        assert_all_free(rig);
        memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
        run_good_job(rig);
        rig_close(rig);
    }
}

static void test_client_leaves(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 5, 4);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    const struct cluster_submit submit = rig_join();
    struct rig_client *queued = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_MS);
    rig_client_leave(rig, queued);
    rig_client_leave(rig, client);
    assert_true(rig_until(rig, rig_is_idle, 100 * BASE_NS_PER_MS));
    assert_int_equal(rig->jobs_run, 1); /* the queued one never ran */
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    run_good_job(rig);
    rig_close(rig);
}

static void test_failure_in_every_phase(void **state)
{
    (void)state;
    for (uint32_t i = 0; phases[i] != CLUSTER_MESSAGE_RELEASE; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 400 + i, 4);
        const bool out = is_output_phase(phases[i]);
        const struct cluster_submit submit = out ? rig_shuffle_out() : rig_join();
        rig->node[1].fail_at[phases[i]] = BASE_NO_SPACE;
        struct rig_client *client = rig_submit(rig, &submit);
        const bool decided = phases[i] == CLUSTER_MESSAGE_COMMIT || phases[i] == CLUSTER_MESSAGE_PUBLISH;
        const uint64_t bound_ns = decided ? CLUSTER_PATIENCE_NS : 0; /* it is tried again first */
        assert_int_equal(await_report(rig, client, bound_ns + 100 * BASE_NS_PER_MS), BASE_NO_SPACE);
        assert_names(client, "n2");
        if (phases[i] == CLUSTER_MESSAGE_START) /* what was done until then is told */
            assert_int_equal(client->report.report.rows_scanned, 4 * RIG_ROWS_SCANNED);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        assert_all_free(rig);
        memset(rig->node[1].fail_at, 0, sizeof rig->node[1].fail_at);
        run_good_job(rig);
        rig_close(rig);
    }
}

/* A neighbour feels the death first; the report tells the death. */
static void test_echo_is_explained(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 6, 4);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
    base_error_set(&failed.failed.error, BASE_PEER_RESET, "n3 reset the connection");
    rig_node_say(rig, 0, &failed);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_false(client->reported);
    rig_node_kill(rig, 2);
    assert_int_equal(await_report(rig, client, 50 * BASE_NS_PER_MS), BASE_NODE_LOST);
    assert_names(client, "n3 was lost while building"); /* not while aborting, which is when it is known */
    rig_close(rig);
}

static void say_failure(struct rig *rig, uint32_t node, uint64_t job, enum base_status status)
{
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = job};
    base_error_set(&failed.failed.error, status, "it says %s", base_status_name(status));
    rig_node_say(rig, node, &failed);
}

/* Of every two errors the better one is told, whichever comes first; of two equals the first. */
static void test_the_best_error_is_told(void **state)
{
    (void)state;
    static const enum base_status told[] = {
        BASE_PEER_RESET,    BASE_PEER_CLOSED,    BASE_TIMEOUT,     BASE_UNREACHABLE, BASE_NODE_REFUSED,
        BASE_FRAME_CORRUPT, BASE_FRAME_SEQUENCE, BASE_LANE_TOTALS, BASE_NO_SPACE,    BASE_IO,
        BASE_NO_MEMORY,     BASE_PARSE,          BASE_INTERNAL};
    enum { COUNT = sizeof told / sizeof *told };
    for (uint32_t i = 0; i < COUNT * COUNT; i++) {
        const enum base_status first = told[i / COUNT], second = told[i % COUNT];
        struct rig *rig = the_rig();
        open_complete(rig, 600 + i, 4);
        struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
        say_failure(rig, 0, client->job, first);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        say_failure(rig, 1, client->job, second);
        const bool better = base_status_rank(second) > base_status_rank(first);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), better ? second : first);
        assert_names(client, better ? "node n2" : "node n1");
        rig_close(rig);
    }
}

/* That it cannot be reached says nothing of whether it is alive; the coordinator knows. */
static void test_unreachable_but_alive(void **state)
{
    (void)state;
    for (int dies = 0; dies < 2; dies++) {
        struct rig *rig = the_rig();
        open_complete(rig, 900 + (uint64_t)dies, 4);
        struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_CONNECT);
        struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
        base_error_set(&failed.failed.error, BASE_UNREACHABLE, "node n3 at 10.0.0.3:7 cannot be reached from node n1");
        rig_node_say(rig, 0, &failed);
        rig_run(rig, 5 * BASE_NS_PER_MS);
        if (dies)
            rig_node_kill(rig, 2);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), dies ? BASE_NODE_LOST : BASE_UNREACHABLE);
        assert_names(client, dies ? "n3 was lost" : "cannot be reached from node n1; all nodes are alive");
        rig_close(rig);
    }
}

static void test_echo_without_death_is_told(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 7, 4);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
    base_error_set(&failed.failed.error, BASE_PEER_RESET, "n3 reset the connection");
    rig_node_say(rig, 0, &failed);
    assert_int_equal(await_report(rig, client, 500 * BASE_NS_PER_MS), BASE_PEER_RESET);
    rig_close(rig);
}

/* A node that has finished its share says that what it sent is not acknowledged: others wait for it. */
static void test_cut_after_finishing(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 9, 4);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_LEND);
    struct cluster_message cut = {.kind = CLUSTER_MESSAGE_CUT, .job = client->job};
    base_error_set(&cut.cut.error, BASE_TIMEOUT, "the path to node n3 is cut");
    rig_node_say(rig, 0, &cut);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_TIMEOUT);
    assert_names(client, "node n1: the path to node n3 is cut");
    rig_close(rig);
}

/* All rows have arrived: a path that is cut now is nothing to the job, least of all a failure to publish. */
static void test_cut_while_ending(void **state)
{
    (void)state;
    static const enum cluster_message_kind late[] = {CLUSTER_MESSAGE_STAGE, CLUSTER_MESSAGE_COMMIT,
                                                     CLUSTER_MESSAGE_PUBLISH, CLUSTER_MESSAGE_RELEASE};
    for (uint32_t i = 0; i < sizeof late / sizeof *late; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 500 + i, 4);
        struct rig_client *client = stand_still(rig, late[i]);
        struct cluster_message cut = {.kind = CLUSTER_MESSAGE_CUT, .job = client->job};
        base_error_set(&cut.cut.error, BASE_TIMEOUT, "the path to node n3 is cut");
        rig_node_say(rig, 0, &cut);
        rig_run(rig, 10 * BASE_NS_PER_MS);
        assert_false(client->reported);
        rig->node[2].mute[late[i]] = false;
        struct cluster_message done = {.kind = late[i] == CLUSTER_MESSAGE_STAGE     ? CLUSTER_MESSAGE_STAGED
                                               : late[i] == CLUSTER_MESSAGE_COMMIT  ? CLUSTER_MESSAGE_COMMITTED
                                               : late[i] == CLUSTER_MESSAGE_PUBLISH ? CLUSTER_MESSAGE_PUBLISHED
                                                                                    : CLUSTER_MESSAGE_CLOSED,
                                       .job = client->job,
                                       .step = {.step = JOIN_STEP_CLOSED}};
        rig->node[2].committed[client->job] = true;
        rig_node_say(rig, 2, &done);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_OK);
        rig_close(rig);
    }
}

static void say_fault(struct rig *rig, const struct rig_client *client, uint32_t node, uint64_t morsel,
                      const char *text)
{
    struct cluster_message fault = {.kind = CLUSTER_MESSAGE_FAULT, .job = client->job, .fault = {.morsel = morsel}};
    base_error_set(&fault.fault.error, BASE_PARSE, "%s", text);
    rig_node_say(rig, node, &fault);
}

static void say_halted(struct rig *rig, const struct rig_client *client, uint32_t node)
{
    struct cluster_message halted = {
        .kind = CLUSTER_MESSAGE_STEP, .job = client->job, .step = {.step = JOIN_STEP_HALTED}};
    rig_node_say(rig, node, &halted);
}

/* Nodes that scan and do not halt by themselves; the second has found a fault in the sixth morsel. */
static struct rig_client *scan_until_fault(struct rig *rig, uint64_t seed)
{
    open_complete(rig, seed, 4);
    for (uint32_t n = 0; n < 4; n++)
        rig->node[n].mute[CLUSTER_MESSAGE_START] = rig->node[n].mute[CLUSTER_MESSAGE_HALT] = true;
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    say_fault(rig, client, 1, 5, "a.csv:900: an echo");
    assert_true(rig_until_told(rig, 2, CLUSTER_MESSAGE_HALT, BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_MS);
    return client;
}

/* A fault in the input waits for those who scan what lies before it, and the earliest is told. */
static void test_earliest_fault(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    struct rig_client *client = scan_until_fault(rig, 20);
    say_fault(rig, client, 3, 2, "a.csv:300: the cause");
    say_fault(rig, client, 0, 3, "a.csv:400: another echo");
    const uint32_t order[] = {1, 3, 0};
    for (uint32_t i = 0; i < 3; i++)
        say_halted(rig, client, order[i]);
    rig_run(rig, 10 * BASE_NS_PER_S);
    assert_false(client->reported);
    say_halted(rig, client, 2);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_PARSE);
    assert_names(client, "n4: a.csv:300: the cause");
    for (uint32_t n = 0; n < 4; n++)
        assert_int_equal(rig->node[n].orders[CLUSTER_MESSAGE_HALT], 1);
    rig_close(rig);
}

/* Nobody is waited for who cannot halt, and nothing that comes meanwhile hides the fault; but a cancel is a cancel. */
static void test_fault_and_worse(void **state)
{
    (void)state;
    for (uint32_t how = 0; how < 3; how++) {
        struct rig *rig = the_rig();
        struct rig_client *client = scan_until_fault(rig, 21 + how);
        struct cluster_message failed = {.kind = CLUSTER_MESSAGE_FAILED, .job = client->job};
        base_error_set(&failed.failed.error, BASE_NO_MEMORY, "no memory");
        struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
        if (how == 0)
            rig_node_kill(rig, 2);
        else if (how == 1)
            rig_node_say(rig, 2, &failed);
        else
            rig_client_say(rig, rig_client(rig), &cancel);
        assert_int_equal(await_report(rig, client, 2 * BASE_NS_PER_S), how == 2 ? BASE_CANCELLED : BASE_PARSE);
        if (how < 2)
            assert_names(client, "n2: a.csv:900: an echo");
        rig_close(rig);
    }
}

/* A node that is alive but does not let go of its job is taken for lost, so that the next job can run. */
static void test_stuck_release(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 8, 4);
    rig->node[2].mute[CLUSTER_MESSAGE_RELEASE] = true;
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_CONNECT);
    struct cluster_message cancel = {.kind = CLUSTER_MESSAGE_CANCEL, .job = client->job};
    rig_client_say(rig, rig_client(rig), &cancel);
    assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_CANCELLED);
    assert_true(client->report.report.spans.release_seconds > 0.5); /* told before all let go, and counted so far */
    /* Another job waits for it, not longer than the bound. */
    const struct cluster_submit submit = rig_join();
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, next, CLUSTER_RELEASE_NS), BASE_NODE_MISSING);
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(rig_is_complete(rig));
    run_good_job(rig);
    rig_close(rig);
}

/* What a node says of an earlier job changes nothing. */
static void test_late_messages(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 9, 4);
    run_good_job(rig);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_CONNECT);
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_FAILED,    CLUSTER_MESSAGE_CLOSED,
                                                      CLUSTER_MESSAGE_LOW,       CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_COMMITTED, CLUSTER_MESSAGE_NODE_PROGRESS};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct cluster_message late = {.kind = kinds[i], .job = client->job - 1};
        rig_node_say(rig, 2, &late);
    }
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_false(client->reported);
    rig->node[2].mute[CLUSTER_MESSAGE_CONNECT] = false;
    struct cluster_message connected = {
        .kind = CLUSTER_MESSAGE_STEP, .job = client->job, .step = {.step = JOIN_STEP_CONNECTED}};
    rig_node_say(rig, 2, &connected);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_OK);
    rig_close(rig);
}

static void test_out_of_turn(void **state)
{
    (void)state;
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_CLOSED, CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_SURVEYED, CLUSTER_MESSAGE_RESOLVED};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 500 + i, 4);
        struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_PREPARE);
        struct cluster_message wrong;
        memset(&wrong, 0, sizeof wrong);
        wrong.kind = kinds[i];
        wrong.job = client->job;
        if (kinds[i] == CLUSTER_MESSAGE_STEP)
            wrong.step.step = JOIN_STEP_SEALED;
        char *path;
        struct base_error error;
        if (kinds[i] == CLUSTER_MESSAGE_RESOLVED) {
            wrong.resolved.relation_count = 1;
            shuffle_relation_parse("gen:rows=1,row=16", &wrong.resolved.relation[0], &path, &error);
        }
        rig_node_say(rig, 2, &wrong);
        shuffle_relation_free(&wrong.resolved.relation[0]);
        assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_PROTOCOL);
        assert_names(client, "n3");
        rig_close(rig);
    }
}

/* A node whose heart beats but whose control thread hangs (in a file system, say) does not hold a job for ever, also
 * where the job can no longer be cancelled. */
static void hang_in_phase(enum cluster_message_kind phase, uint64_t bound_ns, uint64_t seed)
{
    struct rig *rig = the_rig();
    open_complete(rig, seed, 4);
    struct rig_client *client = stand_still(rig, phase);
    const uint64_t told_ns = rig->now_ns;
    assert_int_equal(await_report(rig, client, bound_ns + BASE_NS_PER_S), BASE_NODE_LOST);
    assert_names(client, "n3");
    assert_true(client->reported_ns + BASE_NS_PER_S >= told_ns + bound_ns); /* and not before its time */
    assert_true(rig_until(rig, rig_is_idle, CLUSTER_RELEASE_NS + BASE_NS_PER_S));
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(rig_is_complete(rig));
    if (rig->decided[client->job])
        assert_true(rig->forgotten[client->job]);
    run_good_job(rig);
    rig_close(rig);
}

/* The coordinator is stopped for two seconds: its nodes, which hear nothing of it, give their job up and come again.
 * None of them is blamed. A pause that no node minds is minded by nobody. */
static void test_pause_of_the_coordinator(void **state)
{
    (void)state;
    for (uint64_t i = 0; phases[i] != CLUSTER_MESSAGE_COMMIT; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 450 + i, 4);
        struct rig_client *client = stand_still(rig, phases[i]);
        rig->now_ns += BASE_NS_PER_S;
        rig_run(rig, BASE_NS_PER_S);
        assert_false(client->reported);
        assert_true(rig_is_complete(rig));
        rig->now_ns += 2 * BASE_NS_PER_S;
        for (uint32_t j = 0; j < 4; j++)
            rig_node_give_up(rig, j);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_NODE_LOST);
        assert_names(client, "the coordinator stood still for");
        assert_true(rig_logged(rig, BASE_LOG_WARN, "stood still for "));
        assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
        memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
        run_good_job(rig);
        rig_close(rig);
    }
}

static void test_hung_node(void **state)
{
    (void)state;
    hang_in_phase(CLUSTER_MESSAGE_RESOLVE, CLUSTER_RESOLVE_NS, 400);
    hang_in_phase(CLUSTER_MESSAGE_PREPARE, CLUSTER_PREPARE_NS, 403);
    hang_in_phase(CLUSTER_MESSAGE_CONNECT, CLUSTER_CONNECT_NS, 404);
    hang_in_phase(CLUSTER_MESSAGE_STAGE, CLUSTER_COMMIT_NS, 405);
    hang_in_phase(CLUSTER_MESSAGE_COMMIT, CLUSTER_COMMIT_NS, 401);
    hang_in_phase(CLUSTER_MESSAGE_PUBLISH, CLUSTER_COMMIT_NS, 402);
}

/* Who stops the coordinator does not wait for a node that hangs while committing. */
static void test_stop_while_committing(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 403, 3);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_COMMIT);
    const struct cluster_action *actions;
    uint32_t count;
    struct base_error error;
    const struct cluster_event stop = {.kind = CLUSTER_EVENT_STOP};
    assert_int_equal(cluster_coordinator_step(rig->coordinator, &stop, rig->now_ns, &actions, &count, &error), BASE_OK);
    assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_NODE_LOST);
    rig_run(rig, LOST_BOUND_NS);
    assert_true(rig->stopped);
    rig_close(rig);
}

/* A peer that says hello twice is thrown out as a whole: no node and no job of it stays behind. */
static void test_hello_twice(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 404, 4);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message hello;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    rig_client_say(rig, client, &hello);
    assert_true(rig_until(rig, rig_is_idle, 100 * BASE_NS_PER_MS));
    memset(rig->node[2].mute, 0, sizeof rig->node[2].mute);
    run_good_job(rig);
    client = stand_still(rig, CLUSTER_MESSAGE_START);
    rig_node_say(rig, 2, &hello);
    assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_NODE_LOST);
    assert_names(client, "n3");
    rig_close(rig);
}

/* Who finds the queue full has not cancelled anything. */
/* A heartbeat connection carries beats: whoever says anything else there is no node of ours, however often it says it.
 */
static void test_only_beats_on_a_heartbeat_connection(void **state)
{
    (void)state;
    static const enum cluster_message_kind kinds[] = {CLUSTER_MESSAGE_LIST_NODES, CLUSTER_MESSAGE_STEP,
                                                      CLUSTER_MESSAGE_CANCEL};
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 410 + i, 3);
        struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
        const struct cluster_message wrong = {.kind = kinds[i], .job = client->job};
        rig_peer_say(rig, rig->node[1].beat, &wrong);
        assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_NODE_LOST);
        assert_names(client, "n2");
        assert_names(client, cluster_message_name(kinds[i]));
        assert_names(client, "on its heartbeat connection");
        rig_close(rig);
    }
}

static void test_queue_full(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 405, 3);
    stand_still(rig, CLUSTER_MESSAGE_START);
    struct cluster_message message;
    struct rig_client *one = rig_client(rig);
    for (uint32_t i = 0; i < 256; i++) {
        memset(&message, 0, sizeof message);
        message.kind = CLUSTER_MESSAGE_SUBMIT;
        message.submit = rig_join();
        rig_client_say(rig, one, &message);
    }
    rig_run(rig, 10 * BASE_NS_PER_MS);
    const struct cluster_submit submit = rig_join();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_BUSY);
    assert_int_equal(cluster_exit_code(BASE_BUSY), 1);
    rig_close(rig);
}

/* Names of columns may be any bytes; a decision is written as JSON all the same. A directory's name has to be UTF-8. */
static void test_names_that_are_not_utf8(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 406, 3);
    rig->column_name = "caf\xe9";
    struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    if (await_report(rig, client, BASE_NS_PER_S) != BASE_OK)
        fail_msg("%s", client->report.report.error.text);
    rig->column_name = NULL;
    submit.out = "/nowhere/caf\xe9";
    client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_INVALID);
    assert_true(client->report.report.bad_request);
    assert_int_equal(rig->jobs_run, 1);
    rig_close(rig);
}

static void says(const struct rig_client *client, const char *words)
{
    if (strstr(client->report.report.error.text, words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", client->report.report.error.text, words);
}

/* What differs, and on which nodes: a file that was rewritten on one of them, and one that all see and that changed. */
static void test_files_that_differ(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 407, 3);
    for (uint64_t n = 0; n < 3; n++)
        rig->file[n] = (struct shuffle_file){.bytes = 100, .modified_ns = INT64_C(1700000000000000000), .inode = n};
    struct cluster_submit submit = rig_shuffle_out();
    submit.source[0].text = "shared:/data/t.csv";
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_OK); /* copies have their own inodes */
    rig->file[1].bytes = 120;
    rig->file[1].modified_ns += 5;
    client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_INVALID);
    says(client, "/data/t.csv differs between nodes: it has 100 bytes of 2023-11-14 22:13:20.000000000 UTC on n1, n3, "
                 "but 120 bytes of 2023-11-14 22:13:20.000000005 UTC on n2");
    says(client, "was it rewritten on one of them, or while they looked?");
    rig->file[1].inode = rig->file[0].inode;
    client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_INVALID);
    says(client, "/data/t.csv changed while the nodes looked at it: it has 100 bytes");
    rig_close(rig);
}

/* A heartbeat that beats for a control thread that hangs. */
static void test_control_thread_hangs(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 408, 3);
    rig->node[1].mute[CLUSTER_MESSAGE_PREPARE] = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, 5 * BASE_NS_PER_S);
    assert_false(client->reported);
    rig->node[1].stuck_ns = CLUSTER_STUCK_NS;
    assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_NODE_LOST);
    says(client, "n2");
    says(client, "its control thread has not moved for 30 s");
    rig_close(rig);
}

static void test_queue(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 10, 3);
    const struct cluster_submit submit = rig_join();
    struct rig_client *clients[8];
    for (int i = 0; i < 8; i++)
        clients[i] = rig_submit(rig, &submit);
    for (int i = 0; i < 8; i++)
        assert_int_equal(await_report(rig, clients[i], 5 * BASE_NS_PER_S), BASE_OK);
    assert_int_equal(rig->jobs_run, 8);
    rig_close(rig);
}

static void test_bad_requests(void **state)
{
    (void)state;
    static const struct {
        const char *source, *on;
        const char *word;
    } bad[] = {{"gen:rows=1000,row=16", "kay=key", "kay"}, {"gen:rows=many,row=16", "key=key", "many"}};
    struct rig *rig = the_rig();
    open_complete(rig, 11, 3);
    for (uint32_t i = 0; i < 2; i++) {
        struct cluster_submit submit = rig_join();
        submit.source[0].text = (char *)(uintptr_t)bad[i].source;
        submit.on = (char *)(uintptr_t)bad[i].on;
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_not_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_OK);
        assert_true(client->report.report.bad_request);
        assert_names(client, bad[i].word);
    }
    run_good_job(rig);
    rig_close(rig);
}

static void test_too_many_morsels(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 17, 3);
    struct cluster_submit submit = rig_join();
    submit.source[1].text = "gen:rows=100G,row=16";
    submit.settings.morsel_bytes = 1;
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, 100 * BASE_NS_PER_MS), BASE_TOO_LARGE);
    assert_names(client, "--morsel-bytes");
    run_good_job(rig);
    rig_close(rig);
}

/* An order that cannot be sent fails its job with the reason, loses no node, and the next job runs. */
static void test_orders_too_large(void **state)
{
    (void)state;
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_RESOLVE, CLUSTER_MESSAGE_PREPARE,
                                                       CLUSTER_MESSAGE_CONNECT, CLUSTER_MESSAGE_START,
                                                       CLUSTER_MESSAGE_STAGE};
    for (uint32_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 500 + i, 3);
        rig->too_large[orders[i]] = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_TOO_LARGE);
        assert_string_equal(client->report.report.error.text, "too many files");
        rig->too_large[orders[i]] = false;
        for (uint32_t n = 0; n < 3; n++)
            assert_false(rig->closed[rig->node[n].control]);
        assert_all_free(rig);
        run_good_job(rig);
        rig_close(rig);
    }
}

/* A decision whose order cannot be sent now is carried out later; a node that cannot be released is lost; a client
 * whose answer cannot be sent is told why. */
static void test_unsent_otherwise(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 510, 3);
    const struct cluster_submit submit = rig_shuffle_out();
    rig->too_large[CLUSTER_MESSAGE_COMMIT] = true;
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    assert_false(client->reported);
    rig->too_large[CLUSTER_MESSAGE_COMMIT] = false;
    assert_int_equal(await_report(rig, client, 5 * BASE_NS_PER_S), BASE_OK);
    const uint64_t first = rig->node[0].control;
    rig->too_large[CLUSTER_MESSAGE_RELEASE] = true;
    client = rig_submit(rig, &submit);
    (void)await_report(rig, client, 5 * BASE_NS_PER_S);
    assert_true(rig->closed[first]);
    rig->too_large[CLUSTER_MESSAGE_RELEASE] = false;
    assert_true(rig_until(rig, rig_is_complete, 5 * BASE_NS_PER_S));
    rig_run(rig, BASE_NS_PER_S);
    run_good_job(rig);
    struct rig_client *asks = rig_client(rig);
    const struct cluster_message question = {.kind = CLUSTER_MESSAGE_LIST_NODES};
    rig->too_large[CLUSTER_MESSAGE_NODES] = true;
    rig_client_say(rig, asks, &question);
    rig_run(rig, BASE_NS_PER_S);
    assert_true(asks->refused && rig->closed[asks->peer]);
    rig_close(rig);
}

static void test_incomplete(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    rig_open(rig, 12, 3, 3);
    const struct cluster_submit submit = rig_join();
    assert_int_equal(await_report(rig, rig_submit(rig, &submit), 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    rig_node_start(rig, 0);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, 50 * BASE_NS_PER_MS), BASE_NODE_MISSING);
    assert_names(client, "1 of 3");
    rig_close(rig);
}

/* A second node of a name is refused and the first goes on; a heartbeat of a stranger counts for nobody. */
static void test_refusals(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 13, 3);
    strcpy(rig->node[2].name, "n1");
    const uint64_t before = rig->node[2].orders[CLUSTER_MESSAGE_WELCOME];
    rig_node_kill(rig, 2);
    rig_node_start(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(rig->node[2].orders[CLUSTER_MESSAGE_WELCOME], before);
    assert_int_not_equal(rig->node[0].control, 0);
    strcpy(rig->node[2].name, "n4"); /* another name, in the place of the one that left */
    assert_true(rig_until(rig, rig_is_complete, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
    run_good_job(rig);
    rig_close(rig);
}

static void test_stop(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 14, 3);
    struct rig_client *client = stand_still(rig, CLUSTER_MESSAGE_START);
    const struct cluster_action *actions;
    uint32_t count;
    struct base_error error;
    const struct cluster_event stop = {.kind = CLUSTER_EVENT_STOP};
    /* Not through the rig, which would have to know of it: only what follows is of interest. */
    assert_int_equal(cluster_coordinator_step(rig->coordinator, &stop, rig->now_ns, &actions, &count, &error), BASE_OK);
    assert_int_equal(count, 3); /* RELEASE to each */
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(actions[i].message.kind, CLUSTER_MESSAGE_RELEASE);
    /* The nodes never answer: the bound holds all the same. */
    rig_node_stop(rig, 0);
    rig_node_stop(rig, 1);
    rig_node_stop(rig, 2);
    assert_int_equal(await_report(rig, client, CLUSTER_REPORT_NS + BASE_NS_PER_MS), BASE_CANCELLED);
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_true(rig->stopped);
    rig_close(rig);
}

/* A node whose output is durable but heard no decision asks; there was none, so it is told to abort. */
static void test_doubt_is_resolved(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 15, 3);
    rig->node[0].mute[CLUSTER_MESSAGE_STAGE] = true;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_true(rig_until_told(rig, 0, CLUSTER_MESSAGE_STAGE, BASE_NS_PER_S));
    rig_run(rig, 10 * BASE_NS_PER_MS);
    assert_true(rig->node[2].staged);
    rig_node_stop(rig, 2); /* loses its connection while finished */
    assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_NODE_LOST);
    cluster_message_free(&client->report);
    client->reported = false;
    client->peer = 0;
    rig_node_continue(rig, 2);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(rig->node[2].doubt_count, 0);
    assert_true(rig->node[2].aborted[client->job]);
    rig_close(rig);
}

/* A decision from an earlier life of the coordinator is carried out when its nodes are here. */
static void test_restore(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    rig_open(rig, 16, 2, 2);
    struct join_node nodes[2] = {{"n1", 0, 1}, {"n2", 1, 1}};
    const struct cluster_decision decision = {.job = 77,
                                              .out = "/nowhere/out",
                                              .extension = "csv",
                                              .files = "job-77",
                                              .text = "{}",
                                              .node_count = 2,
                                              .node = nodes};
    struct base_error error;
    assert_int_equal(cluster_coordinator_restore(rig->coordinator, &decision, &error), BASE_OK);
    rig->decided[77] = true;
    rig->node[1].doubt[rig->node[1].doubt_count++] = 77;
    rig_node_start(rig, 0);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_true(rig->node[0].committed[77]);
    assert_false(rig->node[0].published[77]);
    rig_node_start(rig, 1);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_true(rig->node[0].published[77] && rig->node[1].published[77]);
    assert_true(rig->forgotten[77]);
    assert_int_equal(rig->node[1].doubt_count, 0);
    rig_close(rig);
}

/* A decided job's node has no room for what comes last. The client hears of it; then it is done without anybody's help,
 * as soon as there is room. */
static void test_publication_is_tried_again(void **state)
{
    (void)state;
    static const enum cluster_message_kind orders[] = {CLUSTER_MESSAGE_COMMIT, CLUSTER_MESSAGE_PUBLISH};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = the_rig();
        open_complete(rig, 20 + i, 3);
        rig->node[1].fail_at[orders[i]] = BASE_NO_SPACE;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(await_report(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NO_SPACE);
        assert_names(client, "n2");
        assert_names(client, "completed as soon as");
        assert_true(rig_logged(rig, BASE_LOG_ERROR, "node n2 cannot publish its share of job 1: "));
        rig->logged = 0;
        run_good_job(rig);
        rig_run(rig, 100 * BASE_NS_PER_S);
        assert_true(rig->node[1].orders[orders[i]] > 3 && rig->node[1].orders[orders[i]] < 16);
        assert_false(rig_logged(rig, BASE_LOG_ERROR, "cannot publish")); /* once, not at every retry */
        assert_false(rig->forgotten[client->job]);
        rig->node[1].fail_at[orders[i]] = BASE_OK;
        rig_run(rig, 31 * BASE_NS_PER_S);
        for (uint32_t n = 0; n < 3; n++)
            assert_true(rig->node[n].published[client->job]);
        assert_true(rig->forgotten[client->job]);
        rig_close(rig);
    }
    /* Room comes while the client waits: it hears of nothing. */
    struct rig *rig = the_rig();
    open_complete(rig, 22, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NO_SPACE;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_OK;
    assert_int_equal(await_report(rig, client, CLUSTER_PATIENCE_NS), BASE_OK);
    rig_close(rig);
}

/* One node does not find the directory, as when its disk is not mounted yet: the decision stands. Only when for an hour
 * none finds it, nobody needs it any more. */
static void test_directory_is_not_found(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 23, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NOT_FOUND);
    rig_run(rig, 2 * CLUSTER_GONE_NS);
    assert_false(rig->forgotten[client->job]);
    for (uint32_t i = 0; i < 3; i++)
        rig->node[i].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    rig_run(rig, CLUSTER_GONE_NS - BASE_NS_PER_S);
    assert_false(rig->forgotten[client->job]);
    rig_run(rig, 2 * 60 * BASE_NS_PER_S);
    assert_true(rig->forgotten[client->job]);
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "the result of job 1 is given up: no node has found /"));
    rig_close(rig);
}

/* The same when some had published already: the directory was removed before the last one came to it. */
static void test_published_directory_is_not_found(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 27, 3);
    rig->node[1].fail_at[CLUSTER_MESSAGE_PUBLISH] = BASE_NOT_FOUND;
    const struct cluster_submit submit = rig_shuffle_out();
    struct rig_client *client = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, client, CLUSTER_PATIENCE_NS + BASE_NS_PER_S), BASE_NOT_FOUND);
    assert_true(rig->node[0].published[client->job] && rig->node[2].published[client->job]);
    rig_run(rig, 2 * CLUSTER_GONE_NS); /* the others find it */
    assert_false(rig->forgotten[client->job]);
    for (uint32_t i = 0; i < 3; i++)
        rig->node[i].fail_at[CLUSTER_MESSAGE_COMMIT] = BASE_NOT_FOUND;
    rig_run(rig, CLUSTER_GONE_NS + 2 * 60 * BASE_NS_PER_S);
    assert_true(rig->forgotten[client->job]);
    rig_close(rig);
}

/* Whether the decision is on disk is not known: nobody touches the parts until it is. */
static void test_record_is_unknown(void **state)
{
    (void)state;
    for (uint32_t in_the_end = 0; in_the_end < 2; in_the_end++) {
        struct rig *rig = the_rig();
        open_complete(rig, 24 + in_the_end, 3);
        rig->record_status = BASE_IO;
        rig->record_unknown = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_int_equal(await_report(rig, client, BASE_NS_PER_S), BASE_IO);
        rig_run(rig, 10 * BASE_NS_PER_S);
        assert_true(rig_logged(rig, BASE_LOG_ERROR, "whether the decision of job 1 is on disk is not known"));
        assert_true(rig->records > 3);
        rig_node_stop(rig, 2); /* it asks, and is not answered yet */
        rig_run(rig, 2 * BASE_NS_PER_S);
        rig_node_continue(rig, 2);
        rig_run(rig, BASE_NS_PER_S);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(rig->node[i].doubt_count, 1);
            assert_false(rig->node[i].committed[client->job]);
        }
        rig->record_unknown = false;
        rig->record_status = in_the_end ? BASE_OK : BASE_NO_SPACE;
        rig_run(rig, 5 * BASE_NS_PER_S);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(rig->node[i].doubt_count, 0);
            assert_true(in_the_end ? rig->node[i].published[client->job] : rig->node[i].aborted[client->job]);
        }
        assert_int_equal(rig->forgotten[client->job], in_the_end);
        rig->record_status = BASE_OK;
        run_good_job(rig);
        rig_close(rig);
    }
}

/* A disk takes its time; a node is lost meanwhile, and its job over. What is said of the decision then holds. */
/* Several decisions of which nobody knows whether they are on disk: each step asks for one, and all are asked for. */
static void test_one_record_in_a_step(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 28, 3);
    rig->record_status = BASE_IO;
    rig->record_unknown = true;
    struct rig_client *client[3];
    const struct cluster_submit submit = rig_shuffle_out();
    for (int i = 0; i < 3; i++) {
        client[i] = rig_submit(rig, &submit);
        assert_int_equal(await_report(rig, client[i], BASE_NS_PER_S), BASE_IO);
    }
    rig_run(rig, 10 * BASE_NS_PER_S);
    rig->record_status = BASE_OK;
    for (struct coordinator_pending *pending = rig->coordinator->pending; pending; pending = pending->next)
        pending->record_ns = rig->now_ns; /* all are due at once */
    rig_run(rig, 5 * BASE_NS_PER_S);
    for (int i = 0; i < 3; i++) {
        assert_true(rig->node[0].published[client[i]->job]);
        assert_true(rig->forgotten[client[i]->job]);
    }
    assert_int_equal(rig->records_in_step_max, 1);
    rig_close(rig);
}

static void test_record_is_late(void **state)
{
    (void)state;
    for (uint32_t recorded = 0; recorded < 2; recorded++) {
        struct rig *rig = the_rig();
        open_complete(rig, 26 + recorded, 3);
        rig->record_late = true;
        const struct cluster_submit submit = rig_shuffle_out();
        struct rig_client *client = rig_submit(rig, &submit);
        assert_true(rig_until_told(rig, 2, CLUSTER_MESSAGE_STAGE, BASE_NS_PER_S));
        rig_run(rig, 10 * BASE_NS_PER_MS);
        rig_node_kill(rig, 2);
        assert_int_equal(await_report(rig, client, LOST_BOUND_NS), BASE_NODE_LOST);
        assert_true(rig_until(rig, rig_is_idle, FREE_BOUND_NS));
        rig_run(rig, BASE_NS_PER_S);
        assert_int_equal(rig->node[0].doubt_count, 1);
        rig->decided[client->job] = recorded;
        rig->record_status = recorded ? BASE_OK : BASE_NO_SPACE;
        rig_recorded(rig);
        rig_node_start(rig, 2);
        rig_run(rig, BASE_NS_PER_S);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(rig->node[i].doubt_count, 0);
            assert_true(recorded ? rig->node[i].published[client->job] : rig->node[i].aborted[client->job]);
        }
        assert_int_equal(rig->node[2].published[client->job], recorded);
        assert_int_equal(rig->forgotten[client->job], recorded);
        rig_close(rig);
    }
}

/* A node asks for as many jobs as it has in doubt. */
static void test_many_doubts(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    rig_open(rig, 28, 2, 2);
    for (uint64_t job = 50; job < 60; job++)
        rig->node[1].doubt[rig->node[1].doubt_count++] = job;
    rig_node_start(rig, 0);
    rig_node_start(rig, 1);
    rig_run(rig, 100 * BASE_NS_PER_MS);
    assert_int_equal(rig->node[1].doubt_count, 0);
    for (uint64_t job = 50; job < 60; job++)
        assert_true(rig->node[1].aborted[job]);
    rig_close(rig);
}

/* Numbers beyond the block that was reserved are the next start's: the coordinator takes another block in time. */
static void test_numbers_are_reserved(void **state)
{
    (void)state;
    struct rig *rig = the_rig();
    open_complete(rig, 29, 2);
    rig->coordinator->job_end = rig->coordinator->job_next + 2;
    rig->reserve_status = BASE_NO_SPACE;
    rig->reserve_first = 100;
    run_good_job(rig);
    run_good_job(rig);
    rig_run(rig, 3 * BASE_NS_PER_S);
    assert_in_range(rig->reserves, 2, 8); /* tried again, not at every turn */
    assert_true(rig_logged(rig, BASE_LOG_ERROR, "no new job numbers: disk full"));
    const struct cluster_submit submit = rig_join();
    struct rig_client *refused = rig_submit(rig, &submit);
    rig_run(rig, BASE_NS_PER_S);
    assert_int_equal(refused->job, 0);
    rig->reserve_status = BASE_OK;
    rig_run(rig, 2 * BASE_NS_PER_S);
    struct rig_client *next = rig_submit(rig, &submit);
    assert_int_equal(await_report(rig, next, BASE_NS_PER_S), BASE_OK);
    assert_int_equal(next->job, 100);
    rig_close(rig);
}

/* ---- random faults ---- */

static void random_fault(struct rig *rig)
{
    struct rig_node *node;
    const uint32_t i = (uint32_t)base_random_below(&rig->random, rig->node_count);
    node = &rig->node[i];
    const enum cluster_message_kind phase = phases[base_random_below(&rig->random, PHASES)];
    switch (base_random_below(&rig->random, 6)) {
    case 0:
        rig_node_kill(rig, i);
        break;
    case 1:
        rig_node_stop(rig, i);
        break;
    case 2:
        if (phase != CLUSTER_MESSAGE_RELEASE)
            node->fail_at[phase] = base_random_chance(&rig->random, 1, 2) ? BASE_PEER_RESET : BASE_NO_MEMORY;
        break;
    case 3:
        node->mute[phase] = true;
        break;
    case 4:
        if (rig->client_count > 0 && rig->client[rig->client_count - 1].peer)
            rig_client_leave(rig, &rig->client[rig->client_count - 1]);
        break;
    default:
        rig->latency_ns_max = base_random_below(&rig->random, 50 * BASE_NS_PER_MS);
        break;
    }
}

static void heal(struct rig *rig)
{
    rig->latency_ns_max = 200 * BASE_NS_PER_US;
    for (uint32_t i = 0; i < rig->node_count; i++) {
        memset(rig->node[i].mute, 0, sizeof rig->node[i].mute);
        memset(rig->node[i].fail_at, 0, sizeof rig->node[i].fail_at);
        if (rig->node[i].dead)
            rig_node_start(rig, i);
        rig_node_continue(rig, i);
    }
}

static void random_run(uint64_t seed)
{
    struct rig *rig = the_rig();
    open_complete(rig, seed, 2 + (uint32_t)(seed % 5));
    for (int job = 0; job < 6; job++) {
        const uint64_t kind = base_random_below(&rig->random, 5);
        const struct cluster_submit submit = kind < 2 ? rig_shuffle_out() : kind < 4 ? rig_join() : rig_bisect();
        rig_submit(rig, &submit);
        rig_run(rig, base_random_below(&rig->random, 3 * BASE_NS_PER_MS));
        for (uint64_t faults = base_random_below(&rig->random, 3); faults > 0; faults--) {
            random_fault(rig);
            rig_run(rig, base_random_below(&rig->random, 5 * BASE_NS_PER_MS));
        }
        /* A cluster that answers nothing at all stands still by right, until its client leaves. */
        struct rig_client *client = &rig->client[rig->client_count - 1];
        rig_run(rig, 200 * BASE_NS_PER_MS);
        if (client->peer && !client->reported)
            rig_client_leave(rig, client);
        bool stuck = false;
        for (uint32_t i = 0; i < rig->node_count; i++)
            stuck |= rig->node[i].mute[CLUSTER_MESSAGE_RELEASE];
        if (!rig_until(rig, rig_is_idle, stuck ? CLUSTER_RELEASE_NS + BASE_NS_PER_S : FREE_BOUND_NS)) {
            /* Past its decision a job waits for nodes that do not answer: only their loss or their answer ends it. */
            assert_true(rig->recorded != 0);
            heal(rig);
            for (uint32_t i = 0; i < rig->node_count; i++) {
                rig_node_kill(rig, i);
                rig_node_start(rig, i);
            }
            assert_true(rig_until(rig, rig_is_idle, FREE_BOUND_NS));
        }
        heal(rig);
        rig_run(rig, 2 * BASE_NS_PER_S);
        assert_true(rig_is_complete(rig));
        assert_all_free(rig);
    }
    run_good_job(rig);
    for (uint64_t job = 1; job < 10; job++)
        for (uint32_t i = 0; rig->forgotten[job] && i < rig->node_count; i++)
            assert_true(rig->node[i].published[job]);
    rig_close(rig);
}

static uint64_t running_seed;

static void test_random_faults(void **state)
{
    (void)state;
    const char *one = getenv("MILLRACE_SEED");
    if (one) {
        random_run(strtoull(one, NULL, 0));
        return;
    }
    for (running_seed = 1000; running_seed < 1400; running_seed++)
        random_run(running_seed);
    running_seed = 0;
}

static int tell_seed(void **state)
{
    (void)state;
    if (running_seed)
        print_message("failed with MILLRACE_SEED=%llu\n", (unsigned long long)running_seed);
    return 0;
}

int main(void)
{
    base_log_set_level(BASE_LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_one_morsel_each_when_few),
        cmocka_unit_test(test_publish),
        cmocka_unit_test(test_two_coordinators_do_not_meet),
        cmocka_unit_test(test_reasons_of_nodes),
        cmocka_unit_test(test_slow_disk),
        cmocka_unit_test(test_record_fails),
        cmocka_unit_test(test_lost_in_every_phase),
        cmocka_unit_test(test_silent_in_every_phase),
        cmocka_unit_test(test_cancel_in_every_phase),
        cmocka_unit_test(test_client_leaves),
        cmocka_unit_test(test_failure_in_every_phase),
        cmocka_unit_test(test_echo_is_explained),
        cmocka_unit_test(test_unreachable_but_alive),
        cmocka_unit_test(test_the_best_error_is_told),
        cmocka_unit_test(test_echo_without_death_is_told),
        cmocka_unit_test(test_cut_after_finishing),
        cmocka_unit_test(test_cut_while_ending),
        cmocka_unit_test(test_earliest_fault),
        cmocka_unit_test(test_fault_and_worse),
        cmocka_unit_test(test_stuck_release),
        cmocka_unit_test(test_late_messages),
        cmocka_unit_test(test_out_of_turn),
        cmocka_unit_test(test_pause_of_the_coordinator),
        cmocka_unit_test(test_hung_node),
        cmocka_unit_test(test_stop_while_committing),
        cmocka_unit_test(test_hello_twice),
        cmocka_unit_test(test_only_beats_on_a_heartbeat_connection),
        cmocka_unit_test(test_queue_full),
        cmocka_unit_test(test_names_that_are_not_utf8),
        cmocka_unit_test(test_files_that_differ),
        cmocka_unit_test(test_control_thread_hangs),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_too_many_morsels),
        cmocka_unit_test(test_orders_too_large),
        cmocka_unit_test(test_unsent_otherwise),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_doubt_is_resolved),
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_publication_is_tried_again),
        cmocka_unit_test(test_directory_is_not_found),
        cmocka_unit_test(test_published_directory_is_not_found),
        cmocka_unit_test(test_record_is_unknown),
        cmocka_unit_test(test_one_record_in_a_step),
        cmocka_unit_test(test_record_is_late),
        cmocka_unit_test(test_many_doubts),
        cmocka_unit_test(test_numbers_are_reserved),
        cmocka_unit_test_teardown(test_random_faults, tell_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
