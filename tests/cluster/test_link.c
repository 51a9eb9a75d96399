/* A control connection over real sockets on loopback: any cut of the bytes, sizes, ends, deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/link.h"

#define SOON (base_clock_now_ns() + 2 * BASE_NS_PER_S)

static void make_pair(struct cluster_link **a, int *b)
{
    int fds[2];
    struct base_error error;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(cluster_link_adopt(fds[0], a, &error), BASE_OK);
    *b = fds[1];
}

static void make_links(struct cluster_link **a, struct cluster_link **b)
{
    int fd;
    struct base_error error;
    make_pair(a, &fd);
    assert_int_equal(cluster_link_adopt(fd, b, &error), BASE_OK);
}

static struct cluster_message beat(uint64_t sequence)
{
    return (struct cluster_message){.kind = CLUSTER_MESSAGE_BEAT, .beat = {.sequence = sequence}};
}

static void test_many_in_order(void **state)
{
    (void)state;
    struct cluster_link *a, *b;
    struct base_error error;
    make_links(&a, &b);
    for (uint64_t i = 0; i < 1000; i++) {
        const struct cluster_message message = beat(i);
        assert_int_equal(cluster_link_send(a, &message, 1, &error), BASE_OK);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        struct cluster_message message;
        assert_int_equal(cluster_link_ready(a, 1, &error), BASE_OK); /* what the socket had no room for */
        assert_int_equal(cluster_link_wait(b, SOON, &message, &error), BASE_OK);
        assert_int_equal(message.beat.sequence, i);
    }
    cluster_link_close(a);
    cluster_link_close(b);
}

static void test_byte_by_byte(void **state)
{
    (void)state;
    struct cluster_link *link;
    int peer;
    struct base_error error;
    uint8_t *bytes;
    size_t count;
    make_pair(&link, &peer);
    const struct cluster_message message = beat(7);
    struct cluster_message got;
    assert_int_equal(cluster_codec_encode(&message, 4, &bytes, &count, &error), BASE_OK);
    base_store_u32(bytes, (uint32_t)(count - 4));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(cluster_link_receive(link, &got, &error), BASE_BUSY);
        assert_int_equal(write(peer, &bytes[i], 1), 1);
        assert_int_equal(cluster_link_ready(link, 1, &error), BASE_OK);
    }
    assert_int_equal(cluster_link_receive(link, &got, &error), BASE_OK);
    assert_int_equal(got.beat.sequence, 7);
    free(bytes);
    close(peer);
    cluster_link_close(link);
}

/* A large message passes only after trust, and through a socket much smaller than it. */
static void test_large_message(void **state)
{
    (void)state;
    struct cluster_link *a, *b;
    struct base_error error;
    make_links(&a, &b);
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_LEND;
    message.lend.count = UINT64_C(500) * 1000;
    message.lend.morsel = calloc(message.lend.count, sizeof *message.lend.morsel);
    for (uint64_t i = 0; i < message.lend.count; i++)
        message.lend.morsel[i] = (struct shuffle_morsel){.begin = i << 22, .end = (i + 1) << 22, .index = i};
    assert_int_equal(cluster_link_send(a, &message, 1, &error), BASE_OK);
    assert_false(cluster_link_flushed(a));
    assert_true(cluster_link_interest(a) & EPOLLOUT);
    cluster_link_trust(b);
    struct cluster_message got;
    enum base_status status = BASE_BUSY;
    for (int i = 0; i < 100000 && status == BASE_BUSY; i++) {
        assert_int_equal(cluster_link_ready(a, 1, &error), BASE_OK);
        assert_int_equal(cluster_link_ready(b, 1, &error), BASE_OK);
        status = cluster_link_receive(b, &got, &error);
    }
    assert_int_equal(status, BASE_OK);
    assert_true(cluster_link_flushed(a));
    assert_int_equal(got.lend.count, message.lend.count);
    assert_int_equal(got.lend.morsel[499999].index, 499999);
    cluster_message_free(&got);
    /* And without trust it is refused by its length alone. */
    struct cluster_link *c, *d;
    make_links(&c, &d);
    assert_int_equal(cluster_link_send(c, &message, 1, &error), BASE_OK);
    assert_int_equal(cluster_link_wait(d, SOON, &got, &error), BASE_PROTOCOL);
    free(message.lend.morsel);
    cluster_link_close(a);
    cluster_link_close(b);
    cluster_link_close(c);
    cluster_link_close(d);
}

static void test_garbage(void **state)
{
    (void)state;
    struct cluster_link *link;
    int peer;
    struct base_error error;
    struct cluster_message got;
    make_pair(&link, &peer);
    assert_int_equal(write(peer, "GET / HTTP/1.0\r\n\r\n", 18), 18);
    assert_int_equal(cluster_link_wait(link, SOON, &got, &error), BASE_PROTOCOL);
    close(peer);
    cluster_link_close(link);
    make_pair(&link, &peer);
    assert_int_equal(write(peer, "\3\0\0\0abc", 7), 7);
    assert_int_equal(cluster_link_wait(link, SOON, &got, &error), BASE_PROTOCOL);
    close(peer);
    cluster_link_close(link);
}

/* The last words before an end are heard, then the end. */
static void test_last_words(void **state)
{
    (void)state;
    struct cluster_link *a, *b;
    struct base_error error;
    make_links(&a, &b);
    const struct cluster_message message = beat(1);
    assert_int_equal(cluster_link_send(a, &message, 1, &error), BASE_OK);
    cluster_link_close(a);
    struct cluster_message got;
    assert_int_equal(cluster_link_wait(b, SOON, &got, &error), BASE_OK);
    assert_int_equal(cluster_link_wait(b, SOON, &got, &error), BASE_PEER_CLOSED);
    cluster_link_close(b);
}

/* A peer that reads nothing: the queue is bounded in bytes and the link in time. */
static void test_deaf_peer(void **state)
{
    (void)state;
    struct cluster_link *link;
    int peer;
    struct base_error error;
    make_pair(&link, &peer);
    struct cluster_message message;
    memset(&message, 0, sizeof message);
    message.kind = CLUSTER_MESSAGE_SUBMIT;
    char *text = malloc(60001);
    memset(text, 'x', 60000);
    text[60000] = 0;
    message.submit.source_count = 1;
    message.submit.source[0].text = message.submit.on = text;
    enum base_status status = BASE_OK;
    for (int i = 0; i < 4000 && status == BASE_OK; i++)
        status = cluster_link_send(link, &message, BASE_NS_PER_S, &error);
    assert_int_equal(status, BASE_TOO_LARGE);
    assert_int_equal(cluster_link_deadline_ns(link), BASE_NS_PER_S + CLUSTER_LINK_STALL_NS);
    assert_int_equal(cluster_link_ready(link, BASE_NS_PER_S + CLUSTER_LINK_STALL_NS - 1, &error), BASE_OK);
    assert_int_equal(cluster_link_ready(link, BASE_NS_PER_S + CLUSTER_LINK_STALL_NS, &error), BASE_TIMEOUT);
    free(text);
    close(peer);
    cluster_link_close(link);
}

static void test_connect(void **state)
{
    (void)state;
    struct net_address address, bound;
    struct base_error error;
    int listener;
    assert_int_equal(net_address_parse("127.0.0.1:0", &address, &error), BASE_OK);
    assert_int_equal(net_listen(&address, 8, &listener, &bound, &error), BASE_OK);
    struct cluster_link *a, *b;
    assert_int_equal(cluster_link_connect(&bound, SOON, &a, &error), BASE_OK);
    struct cluster_message hello, got;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    assert_int_equal(cluster_link_send(a, &hello, 1, &error), BASE_OK); /* also while it still connects */
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 2000), 1);
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_int_equal(cluster_link_adopt(fd, &b, &error), BASE_OK);
    assert_int_equal(cluster_link_ready(a, 1, &error), BASE_OK);
    assert_int_equal(cluster_link_wait(b, SOON, &got, &error), BASE_OK);
    assert_int_equal(got.kind, CLUSTER_MESSAGE_HELLO);
    cluster_message_free(&got);
    cluster_link_close(a);
    cluster_link_close(b);
    close(listener);
    /* Nobody there. */
    enum base_status status = cluster_link_connect(&bound, SOON, &a, &error);
    if (status == BASE_OK) {
        status = cluster_link_wait(a, SOON, &got, &error);
        cluster_link_close(a);
    }
    assert_int_not_equal(status, BASE_OK);
    assert_non_null(strstr(error.text, "cannot connect to 127.0.0.1"));
}

static void test_no_answer(void **state)
{
    (void)state;
    struct cluster_link *a, *b;
    struct base_error error;
    struct cluster_message got;
    make_links(&a, &b);
    const uint64_t begin_ns = base_clock_now_ns();
    assert_int_equal(cluster_link_wait(a, begin_ns + 50 * BASE_NS_PER_MS, &got, &error), BASE_TIMEOUT);
    assert_true(base_clock_now_ns() - begin_ns >= 50 * BASE_NS_PER_MS);
    cluster_link_close(a);
    cluster_link_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_in_order), cmocka_unit_test(test_byte_by_byte), cmocka_unit_test(test_large_message),
        cmocka_unit_test(test_garbage),       cmocka_unit_test(test_last_words),   cmocka_unit_test(test_deaf_peer),
        cmocka_unit_test(test_connect),       cmocka_unit_test(test_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
