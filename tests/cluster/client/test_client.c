/* The client against a coordinator that is a script: what it says, what it waits for, what it makes of the answers. */
#include "cluster/client/client.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/link/link.h"

#define LIMIT_NS (120 * BASE_NS_PER_S) /* only a hang waits for so long */

/* The coordinator's thread: accepts one connection and runs a script on it. It must not use cmocka's checks: what it
 * saw is checked by the test. */
struct server {
    pthread_t thread;
    int listener;
    char address[64];
    void (*script)(struct server *server, struct cluster_link *link);
    char *seen_on;          /* of SUBMIT */
    uint64_t cancelled_job; /* of CANCEL */
    bool left;              /* the client closed the connection */
};

static void say(struct cluster_link *link, const struct cluster_message *message)
{
    struct base_error error;
    if (cluster_link_send(link, message, base_clock_now_ns(), &error) != BASE_OK)
        fprintf(stderr, "server: %s\n", error.text);
}

/* Waits for the next message; COUNT when the client is gone. */
static enum cluster_message_kind hear(struct server *server, struct cluster_link *link)
{
    struct cluster_message message;
    struct base_error error;
    do {
        if (cluster_link_wait(link, base_clock_now_ns() + LIMIT_NS, &message, &error) != BASE_OK)
            return CLUSTER_MESSAGE_COUNT;
        if (message.kind == CLUSTER_MESSAGE_BEAT) /* a client that has waited for a second */
            say(link, &message);
    } while (message.kind == CLUSTER_MESSAGE_BEAT);
    const enum cluster_message_kind kind = message.kind;
    if (kind == CLUSTER_MESSAGE_SUBMIT)
        server->seen_on = strdup(message.submit.on);
    if (kind == CLUSTER_MESSAGE_CANCEL)
        server->cancelled_job = message.job;
    cluster_message_free(&message);
    return kind;
}

static void say_welcome(struct server *server, struct cluster_link *link)
{
    hear(server, link);
    cluster_link_trust(link);
    char build[] = "test";
    say(link,
        &(struct cluster_message){.kind = CLUSTER_MESSAGE_WELCOME, .welcome = {.build = build, .nodes_expected = 6}});
}

static void say_accepted(struct server *server, struct cluster_link *link)
{
    say_welcome(server, link);
    hear(server, link);
    say(link, &(struct cluster_message){.kind = CLUSTER_MESSAGE_ACCEPTED, .job = 7});
}

static void say_report(struct cluster_link *link, enum base_status status, const char *text)
{
    char empty[] = "";
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_REPORT, .job = 7};
    message.report = (struct cluster_report){
        .sum.task.rows = 42, .engine = empty, .features = empty, .engine_reason = empty, .limit_words = empty};
    if (status != BASE_OK)
        base_error_set(&message.report.error, status, "%s", text);
    say(link, &message);
}

static void *serve(void *context)
{
    struct server *server = context;
    const int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct cluster_link *link;
    struct base_error error;
    if (fd < 0 || cluster_link_adopt(fd, NULL, &link, &error) != BASE_OK)
        return NULL;
    server->script(server, link);
    cluster_link_close(link);
    return NULL;
}

static void listen_somewhere(struct server *server)
{
    struct net_address any, bound;
    struct base_error error;
    *server = (struct server){0};
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 1, &server->listener, &bound, &error), BASE_OK);
    /* The script's thread waits for its client, but not for ever. */
    const struct timeval limit = {.tv_sec = LIMIT_NS / BASE_NS_PER_S};
    assert_int_equal(setsockopt(server->listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    const int flags = fcntl(server->listener, F_GETFL);
    assert_int_equal(fcntl(server->listener, F_SETFL, flags & ~O_NONBLOCK), 0);
    net_address_format(&bound, server->address);
}

static void start(struct server *server, void (*script)(struct server *, struct cluster_link *))
{
    listen_somewhere(server);
    server->script = script;
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
}

static void stop(struct server *server)
{
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    close(server->listener);
    free(server->seen_on);
}

static enum base_status run(struct server *server, struct cluster_message *report, struct base_error *error)
{
    char left[] = "shared:/a", right[] = "shared:/b", on[] = "a=b";
    const struct cluster_submit submit = {
        .kind = CLUSTER_KIND_JOIN, .source_count = 2, .source = {{.text = left}, {.text = right}}, .on = on};
    struct cluster_client *client;
    enum base_status status = cluster_client_open(server->address, NULL, &client, error);
    assert_int_equal(status, BASE_OK);
    assert_int_equal(cluster_client_nodes_expected(client), 6);
    status = cluster_client_run(client, &submit, report, error);
    cluster_client_close(client);
    return status;
}

static void succeed_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    say(link, &(struct cluster_message){.kind = CLUSTER_MESSAGE_PROGRESS, .job = 7});
    say_report(link, BASE_OK, NULL);
}

static void a_job_ends_with_its_report(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, succeed_script);
    assert_int_equal(run(&server, &report, &error), BASE_OK);
    assert_int_equal(report.kind, CLUSTER_MESSAGE_REPORT);
    assert_int_equal(report.job, 7);
    assert_int_equal(report.report.sum.task.rows, 42);
    cluster_message_free(&report);
    assert_string_equal(server.seen_on, "a=b");
    stop(&server);
}

static void lose_node_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    say_report(link, BASE_NODE_LOST, "node n2 was lost");
}

/* The report comes together with the end of the connection: it counts. */
static void a_failure_is_a_report_too(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, lose_node_script);
    assert_int_equal(run(&server, &report, &error), BASE_OK);
    assert_int_equal(report.report.error.status, BASE_NODE_LOST);
    assert_string_equal(report.report.error.text, "node n2 was lost");
    cluster_message_free(&report);
    stop(&server);
}

static void vanish_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
}

static void a_coordinator_that_goes_is_named_with_the_job(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, vanish_script);
    assert_int_equal(run(&server, &report, &error), BASE_PEER_CLOSED);
    assert_non_null(strstr(error.text, "lost contact with job 7"));
    assert_non_null(strstr(error.text, server.address));
    stop(&server);
}

static void refuse_script(struct server *server, struct cluster_link *link)
{
    hear(server, link);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_REFUSED};
    base_error_set(&message.refused.error, BASE_VERSION, "this coordinator is of version 9");
    say(link, &message);
}

static void a_refusal_says_why(void **state)
{
    (void)state;
    struct server server;
    struct cluster_client *client;
    struct base_error error;
    start(&server, refuse_script);
    assert_int_equal(cluster_client_open(server.address, NULL, &client, &error), BASE_VERSION);
    assert_string_equal(error.text, "this coordinator is of version 9");
    stop(&server);
}

/* Who is at the door while others push may lose the place before he has shown his key. */
struct pusher {
    struct server server;
    uint32_t pushed; /* callers that go away empty-handed before one is let in */
    struct net_key *key;
};

static void *push(void *context)
{
    struct pusher *pusher = context;
    struct cluster_link *link;
    struct base_error error;
    int fd = accept4(pusher->server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    for (uint32_t i = 0; i < pusher->pushed && fd >= 0; i++) {
        close(fd);
        fd = accept4(pusher->server.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    if (fd < 0 || cluster_link_adopt(fd, pusher->key, &link, &error) != BASE_OK)
        return NULL;
    say_welcome(&pusher->server, link);
    cluster_link_close(link);
    return NULL;
}

static void pushed_out_is_not_given_up(void **state)
{
    (void)state;
    const uint8_t secret[NET_KEY_BYTES] = {8};
    for (uint32_t pushed = 0; pushed < 5; pushed++) {
        struct pusher pusher = {.pushed = pushed};
        struct cluster_client *client;
        struct base_error error;
        pthread_t thread;
        assert_int_equal(net_key_make(secret, &pusher.key, &error), BASE_OK);
        listen_somewhere(&pusher.server);
        assert_int_equal(pthread_create(&thread, NULL, push, &pusher), 0);
        assert_int_equal(cluster_client_open(pusher.server.address, pusher.key, &client, &error), BASE_OK);
        assert_int_equal(cluster_client_nodes_expected(client), 6);
        cluster_client_close(client);
        assert_int_equal(pthread_join(thread, NULL), 0);
        net_key_close(pusher.key);
        close(pusher.server.listener);
    }
}

static void wrong_script(struct server *server, struct cluster_link *link)
{
    say_welcome(server, link);
    hear(server, link);
    say(link, &(struct cluster_message){.kind = CLUSTER_MESSAGE_CONNECT, .job = 7});
}

static void a_wrong_message_is_an_error(void **state)
{
    (void)state;
    struct server server;
    struct cluster_client *client;
    struct cluster_message message;
    struct base_error error;
    start(&server, wrong_script);
    assert_int_equal(run(&server, &message, &error), BASE_PROTOCOL);
    stop(&server);
    start(&server, wrong_script);
    assert_int_equal(cluster_client_open(server.address, NULL, &client, &error), BASE_OK);
    assert_int_equal(cluster_client_ask(client, CLUSTER_MESSAGE_LIST_NODES, &message, &error), BASE_PROTOCOL);
    assert_non_null(strstr(error.text, "CONNECT"));
    cluster_client_close(client);
    stop(&server);
}

static void nobody_listens(void **state)
{
    (void)state;
    struct net_address any, bound;
    struct base_error error;
    struct cluster_client *client;
    char address[64];
    int fd;
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 1, &fd, &bound, &error), BASE_OK);
    net_address_format(&bound, address);
    close(fd);
    assert_int_not_equal(cluster_client_open(address, NULL, &client, &error), BASE_OK);
    assert_non_null(strstr(error.text, address));
    assert_non_null(strstr(error.text, "MILLRACE_COORDINATOR"));
    assert_int_equal(cluster_client_open("nowhere", NULL, &client, &error), BASE_INVALID);
}

/* Ctrl-C, held back from every thread by main, comes to the process while the client waits. */
static void cancel_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    kill(getpid(), SIGINT);
    if (hear(server, link) != CLUSTER_MESSAGE_CANCEL)
        return;
    say(link, &(struct cluster_message){.kind = CLUSTER_MESSAGE_ANSWER, .job = 7});
    say_report(link, BASE_CANCELLED, "cancelled by its client");
}

static void control_c_cancels_and_waits(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, cancel_script);
    assert_int_equal(run(&server, &report, &error), BASE_OK);
    assert_int_equal(cluster_client_exit(&report.report), CLUSTER_EXIT_CANCELLED);
    cluster_message_free(&report);
    assert_true(server.cancelled_job == 7);
    stop(&server);
}

/* A coordinator that is stopped while a job runs. */
static void stopped_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    struct pollfd end = {.fd = cluster_link_fd(link), .events = POLLRDHUP};
    server->left = poll(&end, 1, LIMIT_NS / BASE_NS_PER_MS) > 0;
}

static void a_silent_coordinator_is_left(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, stopped_script);
    assert_int_equal(run(&server, &report, &error), BASE_TIMEOUT);
    stop(&server);
    assert_true(server.left);
    assert_non_null(strstr(error.text, "job 7"));
    assert_non_null(strstr(error.text, "silent for 5 s"));
}

static void stopped_then_interrupted_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    kill(getpid(), SIGINT);
    struct pollfd end = {.fd = cluster_link_fd(link), .events = POLLRDHUP};
    server->left = poll(&end, 1, LIMIT_NS / BASE_NS_PER_MS) > 0;
}

static void a_silent_coordinator_is_left_sooner_with_control_c(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, stopped_then_interrupted_script);
    assert_int_equal(run(&server, &report, &error), BASE_TIMEOUT);
    stop(&server);
    assert_true(server.left);
    assert_non_null(strstr(error.text, "silent for 2 s"));
}

/* A job that runs for longer than a coordinator may keep silent, and tells nothing meanwhile. */
static void long_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    for (int beats = 0; beats < 7; beats++) {
        struct cluster_message message;
        struct base_error error;
        if (cluster_link_wait(link, base_clock_now_ns() + LIMIT_NS, &message, &error) != BASE_OK ||
            message.kind != CLUSTER_MESSAGE_BEAT)
            return;
        say(link, &message);
    }
    say_report(link, BASE_OK, "");
}

static void a_long_job_is_waited_for(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, long_script);
    assert_int_equal(run(&server, &report, &error), BASE_OK);
    assert_int_equal(report.report.sum.task.rows, 42);
    cluster_message_free(&report);
    stop(&server);
}

static void deaf_script(struct server *server, struct cluster_link *link)
{
    say_accepted(server, link);
    kill(getpid(), SIGINT);
    hear(server, link);
    kill(getpid(), SIGINT);
    server->left = hear(server, link) == CLUSTER_MESSAGE_COUNT;
}

static void control_c_twice_leaves(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, deaf_script);
    assert_int_equal(run(&server, &report, &error), BASE_CANCELLED);
    stop(&server);
    assert_true(server.left);
}

static void early_script(struct server *server, struct cluster_link *link)
{
    say_welcome(server, link);
    hear(server, link);
    kill(getpid(), SIGTERM);
    server->left = hear(server, link) == CLUSTER_MESSAGE_COUNT;
}

static void a_signal_before_acceptance_leaves(void **state)
{
    (void)state;
    struct server server;
    struct cluster_message report;
    struct base_error error;
    start(&server, early_script);
    assert_int_equal(run(&server, &report, &error), BASE_CANCELLED);
    stop(&server);
    assert_true(server.left);
}

static void nodes_script(struct server *server, struct cluster_link *link)
{
    say_welcome(server, link);
    if (hear(server, link) == CLUSTER_MESSAGE_LIST_NODES)
        say(link, &(struct cluster_message){.kind = CLUSTER_MESSAGE_NODES, .nodes = {.nodes_expected = 3}});
}

static void a_question_gets_its_answer(void **state)
{
    (void)state;
    struct server server;
    struct cluster_client *client;
    struct cluster_message answer;
    struct base_error error;
    start(&server, nodes_script);
    assert_int_equal(cluster_client_open(server.address, NULL, &client, &error), BASE_OK);
    assert_int_equal(cluster_client_ask(client, CLUSTER_MESSAGE_LIST_NODES, &answer, &error), BASE_OK);
    assert_int_equal(answer.nodes.nodes_expected, 3);
    cluster_message_free(&answer);
    cluster_client_close(client);
    stop(&server);
}

static void refuse_later_script(struct server *server, struct cluster_link *link)
{
    say_welcome(server, link);
    hear(server, link);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_REFUSED};
    base_error_set(&message.refused.error, BASE_TOO_LARGE, "the answer is too large");
    say(link, &message);
}

/* In place of an answer that cannot be sent. */
static void a_refusal_may_be_the_answer(void **state)
{
    (void)state;
    struct server server;
    struct cluster_client *client;
    struct cluster_message answer;
    struct base_error error;
    start(&server, refuse_later_script);
    assert_int_equal(cluster_client_open(server.address, NULL, &client, &error), BASE_OK);
    assert_int_equal(cluster_client_ask(client, CLUSTER_MESSAGE_LIST_NODES, &answer, &error), BASE_TOO_LARGE);
    assert_string_equal(error.text, "the answer is too large");
    cluster_client_close(client);
    stop(&server);
    start(&server, refuse_later_script);
    assert_int_equal(run(&server, &answer, &error), BASE_TOO_LARGE);
    assert_string_equal(error.text, "the answer is too large");
    stop(&server);
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_with_its_report),
        cmocka_unit_test(a_failure_is_a_report_too),
        cmocka_unit_test(a_coordinator_that_goes_is_named_with_the_job),
        cmocka_unit_test(a_refusal_says_why),
        cmocka_unit_test(pushed_out_is_not_given_up),
        cmocka_unit_test(a_wrong_message_is_an_error),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(a_silent_coordinator_is_left),
        cmocka_unit_test(a_silent_coordinator_is_left_sooner_with_control_c),
        cmocka_unit_test(a_long_job_is_waited_for),
        cmocka_unit_test(control_c_cancels_and_waits),
        cmocka_unit_test(control_c_twice_leaves),
        cmocka_unit_test(a_signal_before_acceptance_leaves),
        cmocka_unit_test(a_question_gets_its_answer),
        cmocka_unit_test(a_refusal_may_be_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
