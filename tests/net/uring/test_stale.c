/* Completions that no correct kernel sends. A completion that speaks of a socket or file operation that is gone:
 * counted, and nothing else. On a correct kernel none comes by itself, so they are made: through the ring's own queue,
 * and by a descriptor that keeps a closed socket registered with epoll. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "net/open.h"
#include "net/uring/internal.h"

static struct net_engine *engine_make(enum net_engine_kind kind, struct base_governor **governor)
{
    struct base_error error;
    struct net_engine *engine;

    assert_int_equal(base_governor_open(0, governor, &error), BASE_OK);
    struct net_engine_config config = {
        .sockets_max = 4, .file_ops_max = 2, .recv_chunk_bytes = 64, .recv_chunk_count = 2, .governor = *governor};
    assert_int_equal(net_engine_open(&(struct net_engine_choice){.kind = kind}, &config, &engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(engine, &error), BASE_OK);
    return engine;
}

static void inject(struct net_engine *engine, enum uring_kind kind, uint32_t slot, uint32_t generation)
{
    struct io_uring_sqe *sqe = uring_sqe((struct uring_engine *)engine);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, uring_user_data(kind, slot, generation));
}

static void uring_counts_what_is_stale(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct net_event events[8];
    int ends[2];
    struct net_socket *socket;
    struct base_error error;
    struct net_engine *engine = engine_make(NET_ENGINE_URING, &governor);

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(net_socket_adopt(engine, ends[0], NULL, &socket, &error), BASE_OK);
    uint32_t slot = ((struct uring_socket *)socket)->slot;
    uint32_t generation = ((struct uring_socket *)socket)->generation;

    for (uint32_t kind = 0; kind < URING_SOCKET_KINDS; kind++) {
        inject(engine, (enum uring_kind)kind, slot, generation + 1); /* another life of this record */
        inject(engine, (enum uring_kind)kind, 3 - slot, 0);          /* a record that is free */
        inject(engine, (enum uring_kind)kind, 0xffffff, 0);          /* no record at all */
    }
    inject(engine, URING_FILE, 0, 5);
    inject(engine, URING_FILE, 1000, 0);
    assert_int_equal(net_engine_poll(engine, events, 8, 0), 0);
    assert_int_equal(net_engine_counters(engine)->stale_completions, 3 * URING_SOCKET_KINDS + 2);

    net_socket_close(socket, false);
    assert_int_equal(net_engine_poll(engine, events, 8, BASE_NS_PER_S), 1);
    assert_int_equal(events[0].kind, NET_EVENT_CLOSED);
    close(ends[1]);
    net_engine_close(engine);
    base_governor_close(governor);
}

/* A completion made up by another ring. */
static void forge(struct net_engine *engine, uint64_t user_data, uint32_t bytes, uint32_t flags)
{
    struct io_uring other;

    assert_int_equal(io_uring_queue_init(4, &other, 0), 0);
    struct io_uring_sqe *sqe = io_uring_get_sqe(&other);
    io_uring_prep_msg_ring_cqe_flags(sqe, ((struct uring_engine *)engine)->ring.ring_fd, bytes, user_data, 0, flags);
    assert_int_equal(io_uring_submit_and_wait(&other, 1), 1);
    io_uring_queue_exit(&other);
}

/* As some kernels did: then nobody knows what the buffers hold, and no stream may go on. */
static void buffers_out_of_order_end_every_stream(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct net_event events[8];
    struct net_socket *sockets[2];
    int ends[2][2];
    struct base_error error;
    struct net_engine *engine = engine_make(NET_ENGINE_URING_BUNDLE, &governor);

    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
        assert_int_equal(net_socket_adopt(engine, ends[i][0], NULL, &sockets[i], &error), BASE_OK);
        assert_int_equal(net_socket_receive(sockets[i], &error), BASE_OK);
    }
    assert_int_equal(net_engine_poll(engine, events, 8, 0), 0);
    const struct uring_socket *first = (const struct uring_socket *)sockets[0];
    const uint64_t user_data = uring_user_data(URING_RECEIVE, first->slot, first->generation);
    for (int i = 0; i < 2; i++) /* buffer 0 is next; the second one comes too late to matter */
        forge(engine, user_data, 5, IORING_CQE_F_BUFFER | IORING_CQE_F_MORE | 1U << IORING_CQE_BUFFER_SHIFT);
    assert_int_equal(net_engine_poll(engine, events, 8, BASE_NS_PER_S), 1);
    assert_int_equal(events[0].kind, NET_EVENT_RECEIVED);
    assert_ptr_equal(events[0].socket, sockets[0]);
    assert_int_equal(events[0].os_error, EIO);

    assert_int_equal(write(ends[1][1], "x", 1), 1); /* in order, but who knows */
    assert_int_equal(net_engine_poll(engine, events, 8, BASE_NS_PER_S), 1);
    assert_ptr_equal(events[0].socket, sockets[1]);
    assert_int_equal(events[0].os_error, EIO);
    for (int i = 0; i < 2; i++) {
        net_socket_close(sockets[i], false);
        assert_int_equal(net_engine_poll(engine, events, 8, BASE_NS_PER_S), 1);
        assert_int_equal(events[0].kind, NET_EVENT_CLOSED);
        close(ends[i][1]);
    }
    net_engine_close(engine);
    base_governor_close(governor);
}

static void epoll_counts_what_is_stale(void **state)
{
    (void)state;
    struct base_governor *governor;
    struct net_event events[8];
    int ends[2];
    struct net_socket *socket;
    struct base_error error;
    struct net_engine *engine = engine_make(NET_ENGINE_EPOLL, &governor);

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    int kept = dup(ends[0]); /* as a child process would */
    assert_int_equal(net_socket_adopt(engine, ends[0], NULL, &socket, &error), BASE_OK);
    net_socket_close(socket, false);
    assert_int_equal(net_engine_poll(engine, events, 8, BASE_NS_PER_S), 1);
    assert_int_equal(events[0].kind, NET_EVENT_CLOSED);
    uint64_t before = net_engine_counters(engine)->stale_completions;
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(net_engine_poll(engine, events, 8, 0), 0);
    assert_int_equal(net_engine_counters(engine)->stale_completions, before + 1);
    close(kept);
    close(ends[1]);
    net_engine_close(engine);
    base_governor_close(governor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uring_counts_what_is_stale),
        cmocka_unit_test(buffers_out_of_order_end_every_stream),
        cmocka_unit_test(epoll_counts_what_is_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
