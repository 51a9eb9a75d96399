/* A heartbeat against a coordinator of a few lines: what its beats say of the control thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/build.h"
#include "base/clock.h"
#include "cluster/node/heartbeat.h"
#include "cluster/protocol/link.h"

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

static void beats_tell_of_the_control_thread(void **state)
{
    (void)state;
    struct base_error error;
    struct cluster_heartbeat_config config = {.name = "n1", .work = &work, .stuck_ns = 1};
    assert_int_equal(net_address_parse("127.0.0.1:0", &config.coordinator, &error), BASE_OK);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, &config.coordinator.any, config.coordinator.bytes), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, &config.coordinator.any, &config.coordinator.bytes), 0);
    struct cluster_heartbeat *heartbeat;
    assert_int_equal(cluster_heartbeat_start(&config, &heartbeat, &error), BASE_OK);
    assert_int_equal(cluster_link_adopt(accept(listener, NULL, NULL), NULL, &wire, &error), BASE_OK);
    cluster_link_trust(wire);
    struct cluster_message message;
    wait_for(CLUSTER_MESSAGE_HELLO, &message);
    assert_string_equal(message.hello.name, "n1");
    cluster_message_free(&message);
    message.kind = CLUSTER_MESSAGE_WELCOME;
    message.welcome.build = (char *)(uintptr_t)base_build_id();
    say(&message);
    for (int i = 0; i < 3; i++)
        assert_int_equal(next_beat(), 0); /* it waits for events, however long */
    work = 1;
    uint32_t beats = 0;
    while (next_beat() == 0) /* one beat was on its way, one sees the work begin */
        assert_true(++beats <= 3);
    assert_int_equal(next_beat(), 1);
    work = 0;
    for (beats = 0; next_beat() != 0;)
        assert_true(++beats <= 2);
    cluster_heartbeat_stop(heartbeat);
    cluster_link_close(wire);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(beats_tell_of_the_control_thread)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
