/* A heartbeat against a coordinator of a few lines: what its beats say of the control thread, and when it takes the
 * coordinator for lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "cluster/link/link.h"
#include "cluster/node/heartbeat.h"

static struct cluster_link *wire;
static _Atomic uint64_t work;

static void wait_for(enum cluster_message_kind kind, struct cluster_message *message)
{
    struct base_error error;
    if (cluster_link_wait(wire, base_clock_now_ns() + 60 * BASE_NS_PER_S, message, &error) != BASE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(message->kind, kind);
}

static void say(struct cluster_message *message)
{
    struct base_error error;
    if (cluster_link_send(wire, message, base_clock_now_ns(), &error) != BASE_OK)
        fail_msg("%s", error.text);
}

/* What the next beat says; it is answered. */
static uint64_t next_beat(void)
{
    struct cluster_message message;
    wait_for(CLUSTER_MESSAGE_BEAT, &message);
    say(&message);
    return message.beat.stuck_ns;
}

/* ---- a heartbeat and the coordinator that it beats to ---- */

static int listener;
static struct cluster_heartbeat *heartbeat;

/* Starts it; it has said hello. */
static int open_heartbeat(void **state)
{
    (void)state;
    struct base_error error;
    struct cluster_heartbeat_config config = {.name = "n1", .incarnation = 42, .work = &work, .stuck_ns = 1};
    work = 0;
    assert_int_equal(net_address_parse("127.0.0.1:0", &config.coordinator, &error), BASE_OK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, &config.coordinator.any, config.coordinator.bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, &config.coordinator.any, &config.coordinator.bytes), 0);
    assert_int_equal(cluster_heartbeat_start(&config, &heartbeat, &error), BASE_OK);
    assert_int_equal(cluster_link_adopt(accept(listener, NULL, NULL), NULL, &wire, &error), BASE_OK);
    cluster_link_trust(wire);
    struct cluster_message message;
    wait_for(CLUSTER_MESSAGE_HELLO, &message);
    assert_int_equal(message.hello.role, CLUSTER_ROLE_HEARTBEAT);
    assert_int_equal(message.hello.incarnation, 42);
    assert_string_equal(message.hello.name, "n1");
    cluster_message_free(&message);
    return 0;
}

static int close_heartbeat(void **state)
{
    (void)state;
    cluster_heartbeat_stop(heartbeat);
    if (wire)
        cluster_link_close(wire);
    wire = NULL;
    close(listener);
    return 0;
}

static void welcome(void)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_WELCOME};
    message.welcome.build = (char *)(uintptr_t)base_build_id();
    say(&message);
}

/* It says that the coordinator is lost, and why. */
static void expect_lost(enum base_status status, const char *words)
{
    struct pollfd lost = {.fd = cluster_heartbeat_fd(heartbeat), .events = POLLIN};
    assert_int_equal(poll(&lost, 1, 60 * 1000), 1);
    const struct base_error *error = cluster_heartbeat_error(heartbeat);
    assert_non_null(error);
    assert_int_equal(error->status, status);
    if (!strstr(error->text, words))
        fail_msg("'%s' does not say '%s'", error->text, words);
}

static void beats_tell_of_the_control_thread(void **state)
{
    (void)state;
    welcome();
    for (int i = 0; i < 3; i++)
        assert_int_equal(next_beat(), 0); /* it waits for events, however long */
    work = 1;
    uint32_t beats = 0;
    while (next_beat() == 0) /* one beat was on its way, one sees the work begin */
        assert_true(++beats <= 3);
    assert_int_equal(next_beat(), 1);
    work = 2; /* another piece of work: it moves */
    for (beats = 0; next_beat() != 0;)
        assert_true(++beats <= 2);
    work = 0;
    for (beats = 0; next_beat() != 0;)
        assert_true(++beats <= 2);
    assert_null(cluster_heartbeat_error(heartbeat));
}

static void a_coordinator_that_closes_is_lost(void **state)
{
    (void)state;
    welcome();
    assert_int_equal(next_beat(), 0);
    cluster_link_close(wire);
    wire = NULL;
    expect_lost(BASE_PEER_CLOSED, "closed the heartbeat connection");
}

/* It takes what it is told, and says nothing. */
static void a_silent_coordinator_is_lost(void **state)
{
    (void)state;
    welcome();
    expect_lost(BASE_TIMEOUT, "the coordinator was silent for 1.2 s");
}

static void a_refusal_is_told(void **state)
{
    (void)state;
    struct cluster_message refused = {.kind = CLUSTER_MESSAGE_REFUSED};
    base_error_set(&refused.refused.error, BASE_NODE_REFUSED, "no node of this name is here");
    say(&refused);
    expect_lost(BASE_NODE_REFUSED, "heartbeats refused: no node of this name is here");
}

static void an_answer_out_of_turn_is_no_welcome(void **state)
{
    (void)state;
    struct cluster_message wrong = {.kind = CLUSTER_MESSAGE_BEAT};
    say(&wrong);
    expect_lost(BASE_NODE_REFUSED, "heartbeats refused: BEAT");
}

/* Also before it was welcomed: close_heartbeat ends it. */
static void it_can_be_ended_at_any_time(void **state)
{
    (void)state;
    assert_null(cluster_heartbeat_error(heartbeat));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(beats_tell_of_the_control_thread, open_heartbeat, close_heartbeat),
        cmocka_unit_test_setup_teardown(a_coordinator_that_closes_is_lost, open_heartbeat, close_heartbeat),
        cmocka_unit_test_setup_teardown(a_silent_coordinator_is_lost, open_heartbeat, close_heartbeat),
        cmocka_unit_test_setup_teardown(a_refusal_is_told, open_heartbeat, close_heartbeat),
        cmocka_unit_test_setup_teardown(an_answer_out_of_turn_is_no_welcome, open_heartbeat, close_heartbeat),
        cmocka_unit_test_setup_teardown(it_can_be_ended_at_any_time, open_heartbeat, close_heartbeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
