/* An epoll that watches no further file (fs.epoll.max_user_watches, or memory): a listening socket that cannot be
 * watched is an error, and one that cannot be watched again is tried later. The calls are wrapped by the linker. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/open.h"

static struct {
    bool full, short_of_files;
    unsigned refused;
} kernel;

/* The linker's names. */
int __real_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);

int __wrap_epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
    if (!kernel.full || operation != EPOLL_CTL_ADD)
        return __real_epoll_ctl(epoll_fd, operation, fd, event);
    kernel.refused++;
    errno = ENOSPC;
    return -1;
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    if (!kernel.short_of_files)
        return __real_accept4(fd, address, bytes, flags);
    errno = EMFILE;
    return -1;
}

static void await(struct net_engine *engine, enum net_event_kind kind, struct net_event *event)
{
    const uint64_t until_ns = base_clock_now_ns() + 5 * BASE_NS_PER_S;
    while (base_clock_now_ns() < until_ns)
        if (net_engine_poll(engine, event, 1, BASE_NS_PER_MS) == 1 && event->kind == kind)
            return;
    fail_msg("no event of kind %d", (int)kind);
}

static void a_listener_waits_until_it_can_be_watched(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct base_error error;
    struct net_engine *engine;
    struct net_address any, bound;
    struct net_socket *listener;
    struct net_event event;
    int fd;

    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    const struct net_engine_config config = {
        .sockets_max = 4, .recv_chunk_bytes = 64, .recv_chunk_count = 2, .governor = governor};
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = NET_ENGINE_EPOLL}, &config, &engine, &error),
                     BASE_OK);
    assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
    assert_int_equal(net_address_parse("127.0.0.1:0", &any, &error), BASE_OK);
    assert_int_equal(net_listen(&any, 4, &fd, &bound, &error), BASE_OK);
    assert_int_equal(net_socket_adopt(engine, fd, NULL, &listener, &error), BASE_OK);

    kernel.full = true;
    assert_int_not_equal(net_socket_accept(listener, &error), BASE_OK);
    assert_non_null(strstr(error.text, "fs.epoll.max_user_watches"));
    kernel.full = false;
    assert_int_equal(net_socket_accept(listener, &error), BASE_OK);

    /* Too few files put accepting off; when it is to go on there is no room to watch. */
    kernel.short_of_files = true;
    const int caller = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(caller, &bound.any, bound.bytes), 0);
    assert_int_equal(net_engine_poll(engine, &event, 1, 50 * BASE_NS_PER_MS), 0);
    kernel.short_of_files = false;
    kernel.full = true;
    kernel.refused = 0;
    for (int turn = 0; turn < 100 && kernel.refused == 0; turn++)
        assert_int_equal(net_engine_poll(engine, &event, 1, 50 * BASE_NS_PER_MS), 0);
    assert_int_not_equal(kernel.refused, 0);
    kernel.full = false;
    await(engine, NET_EVENT_ACCEPTED, &event);

    net_socket_close(event.accepted, false);
    await(engine, NET_EVENT_CLOSED, &event);
    net_socket_close(listener, false);
    await(engine, NET_EVENT_CLOSED, &event);
    close(caller);
    close(fd);
    net_engine_close(engine);
    base_governor_close(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_listener_waits_until_it_can_be_watched)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
