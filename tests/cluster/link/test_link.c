/* A control connection over real sockets on loopback: any cut of the bytes, sizes, ends, deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/link/frame.h"
#include "cluster/link/link.h"
#include "net/proof/proof.h"

#define SOON (base_clock_now_ns() + 60 * BASE_NS_PER_S)

static void make_pair(struct cluster_link **a, int *b)
{
    int fds[2];
    struct base_error error;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(cluster_link_adopt(fds[0], NULL, a, &error), BASE_OK);
    *b = fds[1];
}

static void make_links(struct cluster_link **a, struct cluster_link **b)
{
    int fd;
    struct base_error error;
    make_pair(a, &fd);
    assert_int_equal(cluster_link_adopt(fd, NULL, b, &error), BASE_OK);
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
    assert_int_equal(cluster_frame_encode(&message, &bytes, &count, &error), BASE_OK);
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

/* Whatever bit of a message is changed on the way: it is told, or, where its length says that more is to come, it is
 * not waited for without end. */
static void test_changed_bits(void **state)
{
    (void)state;
    uint8_t *bytes;
    size_t count;
    struct base_error error;
    const struct cluster_message message = {.kind = CLUSTER_MESSAGE_ACCEPTED, .job = 7};
    assert_int_equal(cluster_frame_encode(&message, &bytes, &count, &error), BASE_OK);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        struct cluster_link *link;
        int peer;
        struct cluster_message got;
        make_pair(&link, &peer);
        cluster_link_trust(link);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(write(peer, bytes, count), count);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(cluster_link_ready(link, 1, &error), BASE_OK);
        enum base_status status = cluster_link_receive(link, &got, &error);
        if (status == BASE_BUSY) {
            assert_true(bit < 32);
            assert_int_equal(cluster_link_deadline_ns(link), 1 + CLUSTER_LINK_PART_NS);
            assert_int_equal(cluster_link_ready(link, CLUSTER_LINK_PART_NS, &error), BASE_OK);
            status = cluster_link_ready(link, 1 + CLUSTER_LINK_PART_NS, &error);
        }
        if (status != BASE_FRAME_CORRUPT && status != BASE_PROTOCOL)
            fail_msg("bit %zu: %s", bit, base_status_name(status));
        close(peer);
        cluster_link_close(link);
    }
    free(bytes);
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

/* A message that is too large is not sent and says what makes it smaller; the link carries others before and after. */
static void test_too_large_message(void **state)
{
    (void)state;
    enum { FILES = 20000, PATH_BYTES = 4000 };
    struct cluster_link *a, *b;
    struct base_error error;
    make_links(&a, &b);
    char path[PATH_BYTES + 1];
    memset(path, 'x', PATH_BYTES);
    path[0] = '/';
    path[PATH_BYTES] = 0;
    struct shuffle_file *file = calloc(FILES, sizeof *file);
    assert_non_null(file);
    for (uint32_t i = 0; i < FILES; i++)
        file[i].path = path;
    struct cluster_plan plan = {.join = {.sides = 1, .side = {{.relation = {.file_count = FILES, .file = file}}}}};
    struct cluster_message large[2] = {{.kind = CLUSTER_MESSAGE_PREPARE, .prepare = {.plan = &plan}},
                                       {.kind = CLUSTER_MESSAGE_RESOLVED}};
    large[1].resolved.relation_count = 1;
    large[1].resolved.relation[0] = plan.join.side[0].relation;
    static const char *const words[2] = {"the plan of this job lists 20000 files and takes 7", "this node found"};
    for (uint64_t i = 0; i < 2; i++) {
        const struct cluster_message before = beat(i);
        struct cluster_message got;
        assert_int_equal(cluster_link_send(a, &before, 1, &error), BASE_OK);
        assert_int_equal(cluster_link_send(a, &large[i], 1, &error), BASE_TOO_LARGE);
        assert_non_null(strstr(error.text, words[i]));
        assert_non_null(strstr(error.text, "holds at most 64 MiB: use fewer files, or shorter paths"));
        assert_int_equal(cluster_link_wait(b, SOON, &got, &error), BASE_OK);
        assert_int_equal(got.beat.sequence, i);
    }
    free(file);
    cluster_link_close(a);
    cluster_link_close(b);
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
    assert_int_equal(status, BASE_TIMEOUT);
    assert_int_equal(cluster_link_deadline_ns(link), BASE_NS_PER_S + CLUSTER_LINK_STALL_NS);
    assert_int_equal(cluster_link_ready(link, BASE_NS_PER_S + CLUSTER_LINK_STALL_NS - 1, &error), BASE_OK);
    assert_int_equal(cluster_link_ready(link, BASE_NS_PER_S + CLUSTER_LINK_STALL_NS, &error), BASE_TIMEOUT);
    free(text);
    close(peer);
    cluster_link_close(link);
}

static unsigned user_timeout_ms(const struct cluster_link *link)
{
    unsigned timeout_ms = 0;
    socklen_t size = sizeof timeout_ms;
    assert_int_equal(getsockopt(cluster_link_fd(link), IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &size), 0);
    return timeout_ms;
}

/* The first attempt meets a full queue of connections that nobody has accepted yet. The kernel bounds its further
 * attempts by the connection's bound on silence, if it has one already; the caller's deadline is to bound them. */
static void test_queue_of_a_listener_is_full(void **state)
{
    (void)state;
    struct net_address address, bound;
    struct base_error error;
    int listener;
    assert_int_equal(net_address_parse("127.0.0.1:0", &address, &error), BASE_OK);
    assert_int_equal(net_listen(&address, 0, &listener, &bound, &error), BASE_OK);
    struct cluster_link *first, *second;
    assert_int_equal(cluster_link_connect(&bound, NULL, SOON, &first, &error), BASE_OK);
    assert_int_equal(poll(&(struct pollfd){.fd = cluster_link_fd(first), .events = POLLOUT}, 1, 60000), 1);
    assert_int_equal(cluster_link_ready(first, 1, &error), BASE_OK);
    assert_true(cluster_link_connected(first));
    assert_int_not_equal(user_timeout_ms(first), 0);
    assert_int_equal(cluster_link_connect(&bound, NULL, SOON, &second, &error), BASE_OK);
    assert_false(cluster_link_connected(second));
    assert_int_equal(user_timeout_ms(second), 0);
    close(accept(listener, NULL, NULL)); /* makes room */
    assert_int_equal(poll(&(struct pollfd){.fd = cluster_link_fd(second), .events = POLLOUT}, 1, 60000), 1);
    assert_int_equal(cluster_link_ready(second, 1, &error), BASE_OK);
    assert_true(cluster_link_connected(second));
    assert_int_not_equal(user_timeout_ms(second), 0);
    cluster_link_close(first);
    cluster_link_close(second);
    close(listener);
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
    assert_int_equal(cluster_link_connect(&bound, NULL, SOON, &a, &error), BASE_OK);
    struct cluster_message hello, got;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    assert_int_equal(cluster_link_send(a, &hello, 1, &error), BASE_OK); /* also while it still connects */
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 2000), 1);
    const int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_int_equal(cluster_link_adopt(fd, NULL, &b, &error), BASE_OK);
    assert_int_equal(cluster_link_ready(a, 1, &error), BASE_OK);
    assert_int_equal(cluster_link_wait(b, SOON, &got, &error), BASE_OK);
    assert_int_equal(got.kind, CLUSTER_MESSAGE_HELLO);
    cluster_message_free(&got);
    cluster_link_close(a);
    cluster_link_close(b);
    close(listener);
    /* Nobody there. */
    enum base_status status = cluster_link_connect(&bound, NULL, SOON, &a, &error);
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

/* Keys. */

static struct net_key *key_of(uint8_t number)
{
    const uint8_t bytes[NET_KEY_BYTES] = {number};
    struct net_key *key = NULL;
    struct base_error error;
    if (number > 0)
        assert_int_equal(net_key_make(bytes, &key, &error), BASE_OK);
    return key;
}

/* A caller and who was called, with these keys; 0: none. */
struct meeting {
    struct net_key *caller_key, *callee_key;
    struct cluster_link *caller, *callee;
    int listener;
};

static void meet(struct meeting *meeting, uint8_t caller_key, uint8_t callee_key, uint64_t deadline_ns)
{
    struct net_address address, bound;
    struct base_error error;
    meeting->caller_key = key_of(caller_key);
    meeting->callee_key = key_of(callee_key);
    assert_int_equal(net_address_parse("127.0.0.1:0", &address, &error), BASE_OK);
    assert_int_equal(net_listen(&address, 8, &meeting->listener, &bound, &error), BASE_OK);
    assert_int_equal(cluster_link_connect(&bound, meeting->caller_key, deadline_ns, &meeting->caller, &error), BASE_OK);
    struct pollfd ready = {.fd = meeting->listener, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 2000), 1);
    const int fd = accept4(meeting->listener, NULL, NULL, SOCK_NONBLOCK);
    assert_int_equal(cluster_link_adopt(fd, meeting->callee_key, &meeting->callee, &error), BASE_OK);
}

static void part(struct meeting *meeting)
{
    cluster_link_close(meeting->caller);
    cluster_link_close(meeting->callee);
    close(meeting->listener);
    net_key_close(meeting->caller_key);
    net_key_close(meeting->callee_key);
}

/* What each receives when the caller says hello and both go on until both know. */
static void talk(struct meeting *meeting, enum base_status status[2], struct cluster_message got[2],
                 struct base_error error[2])
{
    struct cluster_link *const link[2] = {meeting->caller, meeting->callee};
    struct cluster_message hello;
    const uint64_t until_ns = SOON;
    got[0] = got[1] = (struct cluster_message){0};
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    assert_int_equal(cluster_link_send(meeting->caller, &hello, 1, &error[0]), BASE_OK);
    status[0] = status[1] = BASE_BUSY;
    while ((status[0] == BASE_BUSY || status[1] == BASE_BUSY) && base_clock_now_ns() < until_ns) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(cluster_link_ready(link[i], 1, &error[i]), BASE_OK);
            if (status[i] == BASE_BUSY)
                status[i] = cluster_link_receive(link[i], &got[i], &error[i]);
        }
        /* As the coordinator answers. */
        if (status[1] == BASE_OK && status[0] == BASE_BUSY) {
            const struct cluster_message answer = beat(1);
            assert_int_equal(cluster_link_send(meeting->callee, &answer, 1, &error[1]), BASE_OK);
        } else if (status[1] != BASE_BUSY && status[0] == BASE_BUSY) {
            const struct cluster_message refused = {.kind = CLUSTER_MESSAGE_REFUSED,
                                                    .refused = {.error = {BASE_DENIED, "a key is needed"}}};
            (void)cluster_link_send(meeting->callee, &refused, 1, NULL);
        }
    }
}

static void test_same_key(void **state)
{
    (void)state;
    for (uint8_t key = 0; key < 2; key++) {
        struct meeting meeting;
        enum base_status status[2];
        struct cluster_message got[2];
        struct base_error error[2];
        meet(&meeting, key, key, SOON);
        talk(&meeting, status, got, error);
        assert_int_equal(status[0], BASE_OK);
        assert_int_equal(status[1], BASE_OK);
        assert_int_equal(got[0].kind, CLUSTER_MESSAGE_BEAT);
        assert_int_equal(got[1].kind, CLUSTER_MESSAGE_HELLO);
        assert_true(cluster_link_proved(meeting.caller) && cluster_link_proved(meeting.callee));
        assert_true(cluster_link_flushed(meeting.caller) && cluster_link_flushed(meeting.callee));
        assert_int_equal(cluster_link_deadline_ns(meeting.caller), UINT64_MAX);
        cluster_message_free(&got[1]);
        part(&meeting);
    }
}

/* Without a key the first bytes are the message's, and they leave at once. */
static void test_no_key_costs_nothing(void **state)
{
    (void)state;
    struct cluster_link *link;
    int peer;
    struct base_error error;
    uint8_t *bytes, got[64];
    size_t count;
    const struct cluster_message message = beat(3);
    make_pair(&link, &peer);
    assert_int_equal(cluster_link_send(link, &message, 1, &error), BASE_OK);
    assert_int_equal(cluster_frame_encode(&message, &bytes, &count, &error), BASE_OK);
    assert_int_equal(read(peer, got, sizeof got), count);
    assert_memory_equal(got, bytes, count);
    free(bytes);
    close(peer);
    cluster_link_close(link);
}

static void test_other_key(void **state)
{
    (void)state;
    struct meeting meeting;
    enum base_status status[2];
    struct cluster_message got[2];
    struct base_error error[2];
    meet(&meeting, 1, 2, SOON);
    talk(&meeting, status, got, error);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(status[i], BASE_DENIED);
        assert_non_null(strstr(error[i].text, "127.0.0.1:"));
        assert_non_null(strstr(error[i].text, "has another key"));
        assert_int_equal(cluster_link_send(i ? meeting.callee : meeting.caller, &(struct cluster_message){0}, 1, NULL),
                         BASE_DENIED);
    }
    part(&meeting);
}

/* Each is told, the caller in a message that it can read. */
static void test_key_and_none(void **state)
{
    (void)state;
    struct meeting meeting;
    enum base_status status[2];
    struct cluster_message got[2];
    struct base_error error[2];
    meet(&meeting, 0, 1, SOON);
    talk(&meeting, status, got, error);
    assert_int_equal(status[0], BASE_OK);
    assert_int_equal(got[0].kind, CLUSTER_MESSAGE_REFUSED);
    assert_non_null(strstr(got[0].refused.error.text, "a key is needed"));
    cluster_message_free(&got[0]);
    assert_int_equal(status[1], BASE_DENIED);
    assert_non_null(strstr(error[1].text, "shows no key"));
    part(&meeting);
    meet(&meeting, 1, 0, SOON);
    talk(&meeting, status, got, error);
    assert_int_equal(status[0], BASE_DENIED);
    assert_non_null(strstr(error[0].text, "has no key"));
    assert_int_equal(status[1], BASE_DENIED);
    assert_non_null(strstr(error[1].text, "this side has none"));
    part(&meeting);
}

/* A hello that waits for the proof is not heard before it, and does not keep the loop busy. */
static void test_nothing_before_the_proof(void **state)
{
    (void)state;
    struct meeting meeting;
    struct base_error error;
    struct cluster_message hello, got;
    meet(&meeting, 1, 1, SOON);
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &hello);
    assert_int_equal(cluster_link_send(meeting.caller, &hello, 1, &error), BASE_OK);
    assert_int_equal(cluster_link_ready(meeting.caller, 1, &error), BASE_OK);
    assert_int_equal(cluster_link_interest(meeting.caller), EPOLLIN);
    uint8_t seen[512];
    assert_int_equal(recv(cluster_link_fd(meeting.callee), seen, sizeof seen, MSG_PEEK), 72);
    assert_false(cluster_link_proved(meeting.caller));
    assert_int_equal(cluster_link_receive(meeting.callee, &got, &error), BASE_BUSY);
    part(&meeting);
}

/* Whoever is called and stays silent, or goes, is given up in time, and is named. */
static void test_silent_callee(void **state)
{
    (void)state;
    struct meeting meeting;
    struct base_error error;
    struct cluster_message got;
    const uint64_t begin_ns = base_clock_now_ns();
    meet(&meeting, 1, 1, begin_ns + 50 * BASE_NS_PER_MS);
    assert_int_equal(cluster_link_wait(meeting.caller, begin_ns + 5 * BASE_NS_PER_S, &got, &error), BASE_TIMEOUT);
    assert_non_null(strstr(error.text, "127.0.0.1:"));
    assert_non_null(
        strstr(error.text, "did not prove in time that it has the cluster's key: it is stopped or overloaded"));
    assert_true(base_clock_now_ns() - begin_ns < 4 * BASE_NS_PER_S);
    part(&meeting);
    meet(&meeting, 1, 1, SOON);
    assert_int_equal(cluster_link_ready(meeting.caller, 1, &error), BASE_OK);
    assert_int_equal(shutdown(cluster_link_fd(meeting.callee), SHUT_WR), 0);
    assert_int_equal(cluster_link_wait(meeting.caller, SOON, &got, &error), BASE_PEER_CLOSED);
    assert_non_null(strstr(error.text, "before it proved"));
    part(&meeting);
}

/* Byte by byte, with the last byte of the proof and the first of a message in one piece. */
static void test_proof_in_pieces(void **state)
{
    (void)state;
    struct cluster_link *link;
    struct base_error error;
    int fds[2];
    struct net_key *key = key_of(1);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(cluster_link_adopt(fds[0], key, &link, &error), BASE_OK);
    struct net_proof peer;
    const uint8_t nonce[NET_KEY_NONCE_BYTES] = {4};
    net_proof_open(&peer, key, NET_PROOF_CALLER, NET_PROOF_CONTROL, nonce);
    for (uint32_t i = 0; i < peer.out_bytes; i++) {
        assert_int_equal(write(fds[1], peer.out + i, 1), 1);
        assert_int_equal(cluster_link_ready(link, 1, &error), BASE_OK);
    }
    uint8_t answer[128];
    const ssize_t got = read(fds[1], answer, sizeof answer);
    assert_int_equal(got, NET_PROOF_MESSAGE_BYTES);
    net_proof_take(&peer, answer, (size_t)got);
    assert_int_equal(peer.state, NET_PROOF_PROVED);
    for (uint32_t i = NET_PROOF_MESSAGE_BYTES; i < peer.out_bytes - 1; i++) {
        assert_int_equal(write(fds[1], peer.out + i, 1), 1);
        assert_int_equal(cluster_link_ready(link, 1, &error), BASE_OK);
        assert_false(cluster_link_proved(link));
    }
    uint8_t *bytes, end[128] = {peer.out[peer.out_bytes - 1]};
    size_t count;
    const struct cluster_message message = beat(8);
    assert_int_equal(cluster_frame_encode(&message, &bytes, &count, &error), BASE_OK);
    memcpy(end + 1, bytes, count);
    free(bytes);
    assert_int_equal(write(fds[1], end, count + 1), count + 1);
    struct cluster_message heard;
    assert_int_equal(cluster_link_wait(link, SOON, &heard, &error), BASE_OK);
    assert_int_equal(heard.beat.sequence, 8);
    close(fds[1]);
    cluster_link_close(link);
    net_key_close(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_in_order),
        cmocka_unit_test(test_byte_by_byte),
        cmocka_unit_test(test_changed_bits),
        cmocka_unit_test(test_large_message),
        cmocka_unit_test(test_too_large_message),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_deaf_peer),
        cmocka_unit_test(test_queue_of_a_listener_is_full),
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_no_answer),
        cmocka_unit_test(test_same_key),
        cmocka_unit_test(test_no_key_costs_nothing),
        cmocka_unit_test(test_other_key),
        cmocka_unit_test(test_key_and_none),
        cmocka_unit_test(test_nothing_before_the_proof),
        cmocka_unit_test(test_silent_callee),
        cmocka_unit_test(test_proof_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
