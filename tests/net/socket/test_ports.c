/* Local ports from a block: listening and connecting, busy ports passed over, and what is said when none is left. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/open.h"

static struct base_governor *governor;

enum { PORTS = 8, CONNECTIONS = 12, LISTENERS = 2 };

static struct net_address at(const char *text)
{
    struct net_address address;
    struct base_error error;
    assert_int_equal(net_address_parse(text, &address, &error), BASE_OK);
    return address;
}

static uint16_t port_of(const struct net_address *address)
{
    return ntohs(address->v4.sin_port);
}

/* A block whose ports are free just now. */
static struct net_port_block free_block(void)
{
    const struct net_address any = at("127.0.0.1:0");
    for (uint32_t first = 20000; first < 30000; first += PORTS) {
        uint32_t free = 0;
        for (uint32_t i = 0; i < PORTS; i++) {
            const struct net_port_block one = {.first = (uint16_t)(first + i), .count = 1};
            struct net_address bound;
            int fd;
            if (net_listen_within(&any, &one, 1, &fd, &bound, NULL) != BASE_OK)
                break;
            close(fd);
            free++;
        }
        if (free == PORTS)
            return (struct net_port_block){.first = (uint16_t)first, .count = PORTS};
    }
    fail_msg("no free ports");
    return (struct net_port_block){0};
}

static struct net_engine *engine_open(enum net_engine_kind kind, struct net_port_block ports)
{
    const struct net_engine_choice choice = {.kind = kind};
    const struct net_engine_config config = {
        .sockets_max = 64, .recv_chunk_bytes = 4096, .recv_chunk_count = 4, .ports = ports, .governor = governor};
    struct net_engine *engine = NULL;
    struct base_error error = {0};
    if (net_engine_open(&choice, &config, &engine, &error) != BASE_OK)
        return NULL;
    assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
    return engine;
}

/* Waits for so many events of a kind. */
static void await(struct net_engine *engine, enum net_event_kind kind, uint32_t count, enum base_status status)
{
    const uint64_t deadline_ns = base_clock_now_ns() + 5 * BASE_NS_PER_S;
    while (count > 0) {
        struct net_event events[16];
        const uint32_t got = net_engine_poll(engine, events, 16, BASE_NS_PER_S);
        assert_true(base_clock_now_ns() < deadline_ns);
        for (uint32_t i = 0; i < got; i++) {
            if (events[i].kind != kind)
                continue;
            assert_int_equal(events[i].status, status);
            count--;
        }
    }
}

static void check_peers(const int *listener, const struct net_port_block *ports, uint16_t listened)
{
    uint32_t seen = 0, distinct = 0, used[PORTS] = {0};
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        struct net_address peer = {.bytes = sizeof peer.v6};
        const int fd = accept(listener[i % LISTENERS], &peer.any, &peer.bytes);
        assert_true(fd >= 0);
        close(fd);
        const uint16_t port = port_of(&peer);
        assert_true(port >= ports->first && port < ports->first + ports->count && port != listened);
        distinct += used[port - ports->first]++ == 0;
        seen++;
    }
    assert_int_equal(seen, CONNECTIONS);
    assert_int_equal(distinct, PORTS - 1);
}

static void block_is_used(enum net_engine_kind kind)
{
    const struct net_port_block ports = free_block();
    struct net_engine *engine = engine_open(kind, ports);
    if (!engine)
        skip();
    struct net_address mine, place[LISTENERS];
    struct net_socket *socket[CONNECTIONS];
    struct base_error error = {0};
    int own, other[LISTENERS];
    const struct net_address any = at("127.0.0.1:0");
    assert_int_equal(net_listen_within(&any, &ports, 8, &own, &mine, &error), BASE_OK);
    assert_int_equal(port_of(&mine), ports.first);
    for (uint32_t i = 0; i < LISTENERS; i++)
        assert_int_equal(net_listen(&any, 64, &other[i], &place[i], &error), BASE_OK);
    /* More connections than ports: they go to different places. */
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        assert_int_equal(net_socket_connect(engine, &place[i % LISTENERS], NET_WAIT_FOREVER, NULL, &socket[i], &error),
                         BASE_OK);
    await(engine, NET_EVENT_CONNECTED, CONNECTIONS, BASE_OK);
    check_peers(other, &ports, ports.first);
    for (uint32_t i = 0; i < CONNECTIONS; i++)
        net_socket_close(socket[i], true);
    await(engine, NET_EVENT_CLOSED, CONNECTIONS, BASE_OK);
    for (uint32_t i = 0; i < LISTENERS; i++)
        close(other[i]);
    close(own);
    net_engine_close(engine);
}

static void epoll_uses_the_block(void **state)
{
    (void)state;
    block_is_used(NET_ENGINE_EPOLL);
}

static void uring_uses_the_block(void **state)
{
    (void)state;
    block_is_used(NET_ENGINE_URING_MULTISHOT);
}

static void busy_ports_are_passed_over(void **state)
{
    (void)state;
    struct net_port_block ports = free_block();
    struct net_address bound[PORTS];
    const struct net_address any = at("127.0.0.1:0");
    struct base_error error = {0};
    int fd[PORTS], one_more;
    for (uint32_t i = 0; i < PORTS; i++) {
        assert_int_equal(net_listen_within(&any, &ports, 8, &fd[i], &bound[i], &error), BASE_OK);
        assert_int_equal(port_of(&bound[i]), ports.first + i);
    }
    assert_int_equal(net_listen_within(&any, &ports, 8, &one_more, &bound[0], &error), BASE_EXISTS);
    char block[32];
    snprintf(block, sizeof block, "%u to %u", ports.first, ports.first + PORTS - 1);
    assert_non_null(strstr(error.text, block));
    struct net_engine *engine = engine_open(NET_ENGINE_EPOLL, ports);
    struct net_socket *socket;
    assert_int_not_equal(net_socket_connect(engine, &bound[1], NET_WAIT_FOREVER, NULL, &socket, &error), BASE_OK);
    assert_non_null(strstr(error.text, block));
    net_engine_close(engine);
    for (uint32_t i = 0; i < PORTS; i++)
        close(fd[i]);
}

/* The one port left has a connection to that very place: only connecting shows it. */
static void same_way_twice_is_busy(void **state)
{
    (void)state;
    static const enum net_engine_kind kinds[] = {NET_ENGINE_EPOLL, NET_ENGINE_URING_MULTISHOT};
    for (uint32_t k = 0; k < 2; k++) {
        struct net_port_block ports = free_block();
        ports.count = 1;
        struct net_engine *engine = engine_open(kinds[k], ports);
        if (!engine)
            continue;
        struct net_address place;
        struct net_socket *first, *second;
        struct base_error error = {0};
        const struct net_address any = at("127.0.0.1:0");
        int listener;
        assert_int_equal(net_listen(&any, 8, &listener, &place, &error), BASE_OK);
        assert_int_equal(net_socket_connect(engine, &place, NET_WAIT_FOREVER, NULL, &first, &error), BASE_OK);
        await(engine, NET_EVENT_CONNECTED, 1, BASE_OK);
        assert_int_equal(net_socket_connect(engine, &place, NET_WAIT_FOREVER, NULL, &second, &error), BASE_OK);
        await(engine, NET_EVENT_CONNECTED, 1, BASE_BUSY);
        net_socket_close(first, true);
        net_socket_close(second, true);
        await(engine, NET_EVENT_CLOSED, 2, BASE_OK);
        close(listener);
        net_engine_close(engine);
    }
}

static int governor_open(void **state)
{
    (void)state;
    return base_governor_open(0, &governor, NULL) == BASE_OK ? 0 : -1;
}

static int governor_close(void **state)
{
    (void)state;
    base_governor_close(governor);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoll_uses_the_block),
        cmocka_unit_test(uring_uses_the_block),
        cmocka_unit_test(busy_ports_are_passed_over),
        cmocka_unit_test(same_way_twice_is_busy),
    };
    return cmocka_run_group_tests_name("net.ports", tests, governor_open, governor_close);
}
