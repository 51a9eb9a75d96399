#include "tests/net/conformance.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "net/open.h"
#include "net/sim/sim.h"

#define BENCH_PATIENCE_NS (UINT64_C(60) * BASE_NS_PER_S)

static void bench_check(enum base_status status, const struct base_error *error)
{
    if (status != BASE_OK)
        fail_msg("%s: %s", base_status_name(status), error->text);
}

static void kernel_open(struct bench *bench, const struct net_engine_config *config)
{
    struct base_error error = {0};
    struct net_address address;

    struct net_engine_config chosen = *config;
    chosen.features = bench->kind->features;
    for (int i = 0; i < BENCH_ENGINES; i++) {
        bench_check(net_engine_open(&bench->kind->engine, &chosen, &bench->engines[i], &error), &error);
        bench_check(net_engine_enable(bench->engines[i], &error), &error);
    }
    bench_check(net_address_parse("127.0.0.1:0", &address, &error), &error);
    bench_check(net_listen(&address, 1024, &bench->listener_fd, &bench->address, &error), &error);
}

static void kernel_close(struct bench *bench)
{
    net_engine_close(bench->engines[BENCH_CLIENT]);
    net_engine_close(bench->engines[BENCH_SERVER]);
    close(bench->listener_fd);
}

/* The second engine may be the one with work: a short wait on one, and round again. */
static bool kernel_idle(struct bench *bench)
{
    (void)bench;
    usleep(50);
    return true;
}

/* One kind for every rung of the ladder. */
#define X(rung, word, features, idea)                                                                                  \
    static const struct bench_kind bench_##rung = {                                                                    \
        word, true, {.kind = NET_ENGINE_##rung}, kernel_open, kernel_close, kernel_idle, false, 0};
NET_RUNG_LIST(X)
#undef X

/* What AUTO and URING may be made of besides their rung's set. */
static const struct bench_kind bench_chosen_zc = {"uring, chosen: send-zc",
                                                  true,
                                                  {.kind = NET_ENGINE_URING},
                                                  kernel_open,
                                                  kernel_close,
                                                  kernel_idle,
                                                  true,
                                                  NET_RUNG_MULTISHOT | NET_FEATURE_SEND_ZC |
                                                      NET_FEATURE_REGISTERED_BUFFERS};
static const struct bench_kind bench_chosen_one_shot = {"uring, chosen: one-shot, send-zc",
                                                        true,
                                                        {.kind = NET_ENGINE_URING},
                                                        kernel_open,
                                                        kernel_close,
                                                        kernel_idle,
                                                        true,
                                                        NET_RUNG_REGISTERED | NET_FEATURE_SEND_ZC};

/* A rough network: late, cut, starved now and then, with little in flight. */
static void sim_open(struct bench *bench, const struct net_engine_config *config)
{
    struct base_error error = {0};
    struct net_sim_world *world;
    struct net_sim_config rough = {
        .seed = 20260114,
        .delay_max_ns = 20000,
        .socket_buffer_bytes = config->socket.send_buffer_bytes != 0 ? config->socket.send_buffer_bytes : 100000,
        .short_percent = 20,
        .starve_percent = 5};
    struct net_address address;

    bench_check(net_sim_world_open(&rough, &world, &error), &error);
    bench->world = world;
    for (int i = 0; i < BENCH_ENGINES; i++) {
        bench_check(net_sim_engine_open(world, config, &bench->engines[i], &error), &error);
        bench_check(net_engine_enable(bench->engines[i], &error), &error);
    }
    bench_check(net_address_parse("10.0.0.1:0", &address, &error), &error);
    bench_check(net_sim_listen(world, &address, &bench->listener_fd, &bench->address, &error), &error);
}

static void sim_close(struct bench *bench)
{
    net_engine_close(bench->engines[BENCH_CLIENT]);
    net_engine_close(bench->engines[BENCH_SERVER]);
    net_sim_world_close(bench->world);
}

static bool sim_idle(struct bench *bench)
{
    return net_sim_advance(bench->world, NET_WAIT_FOREVER);
}

static const struct bench_kind bench_sim = {"sim", false, {.kind = NET_ENGINE_AUTO}, sim_open, sim_close, sim_idle,
                                            false, 0};

const struct bench_kind *const bench_kinds[] = {
#define X(rung, word, features, idea) &bench_##rung,
    NET_RUNG_LIST(X)
#undef X
        & bench_chosen_zc,
    &bench_chosen_one_shot, &bench_sim};
const size_t bench_kinds_count = sizeof bench_kinds / sizeof *bench_kinds;

const struct bench_kind *bench_kind_of(enum net_engine_kind rung)
{
    const struct bench_kind *const *kind = bench_kinds;
    while (!(*kind)->kernel || (*kind)->engine.kind != rung)
        kind++;
    return *kind;
}

struct net_engine_config bench_config(void)
{
    return (struct net_engine_config){
        .sockets_max = 64, .file_ops_max = 8, .recv_chunk_bytes = 4096, .recv_chunk_count = 16};
}

static struct bench_peer *bench_peer_new(struct bench *bench, int side)
{
    assert_true(bench->peers_count < BENCH_PEERS_MAX);
    struct bench_peer *peer = &bench->peers[bench->peers_count++];
    peer->bench = bench;
    peer->engine = bench->engines[side];
    return peer;
}

static void bench_accepted(struct bench *bench, const struct net_event *event)
{
    struct base_error error = {0};

    assert_int_equal(event->status, BASE_OK);
    assert_ptr_equal(event->socket, bench->listener);
    assert_null(net_socket_context(event->accepted));
    struct bench_peer *peer = bench_peer_new(bench, BENCH_SERVER);
    peer->socket = event->accepted;
    net_socket_set_context(event->accepted, peer);
    assert_true(bench->accepted_count < BENCH_PEERS_MAX);
    bench->accepted[bench->accepted_count++] = peer;
    if (!bench->refuse_receive)
        bench_check(net_socket_receive(peer->socket, &error), &error);
}

static void bench_received(struct bench_peer *peer, const struct net_event *event)
{
    const struct net_chunk *chunk = &event->chunk;

    assert_false(peer->ended); /* nothing is received after END or an error */
    if (event->status != BASE_OK) {
        peer->ended = true;
        peer->end_status = event->status;
        return;
    }
    assert_true(chunk->bytes > 0 && chunk->bytes <= chunk->capacity);
    assert_int_equal(event->bytes, chunk->bytes);
    if (peer->bytes + chunk->bytes > peer->room) {
        peer->room = (peer->bytes + chunk->bytes) * 2;
        peer->data = realloc(peer->data, peer->room);
        assert_non_null(peer->data);
    }
    memcpy(peer->data + peer->bytes, chunk->data, chunk->bytes);
    peer->bytes += chunk->bytes;
    if (peer->hold) {
        assert_true(peer->held_count < BENCH_EVENTS_MAX);
        peer->held[peer->held_count++] = *chunk;
    } else {
        memset(chunk->data, 0xdd, chunk->bytes); /* nobody may look at it again */
        net_chunk_release(peer->engine, chunk);
    }
}

static void bench_sent(struct bench_peer *peer, const struct net_event *event)
{
    assert_int_equal(peer->op.in_flight, 0);
    peer->sent = true;
    peer->sends++;
    peer->sent_status = event->status;
    peer->sent_bytes = event->bytes;
}

static void bench_dispatch(struct bench *bench, int side, const struct net_event *event)
{
    struct bench_peer *peer = event->context;

    if (event->kind == NET_EVENT_WOKEN) {
        bench->woken[side]++;
        return;
    }
    if (event->kind == NET_EVENT_FILE) {
        assert_int_equal(event->file->in_flight, 0);
        assert_ptr_equal(event->context, event->file->context);
        bench->files_done++;
        bench->file_event = *event;
        return;
    }
    if (event->socket == bench->listener && side == BENCH_SERVER && event->kind != NET_EVENT_CLOSED) {
        assert_int_equal(event->kind, NET_EVENT_ACCEPTED);
        bench_accepted(bench, event);
        return;
    }
    if (!peer) { /* the listener is the only socket without a peer */
        assert_int_equal(event->kind, NET_EVENT_CLOSED);
        bench->listener_closed = true;
        bench->listener = NULL;
        return;
    }
    assert_false(peer->closed); /* no event mentions a socket after CLOSED */
    assert_ptr_equal(event->socket, peer->socket);
    if (event->kind == NET_EVENT_CONNECTED) {
        assert_false(peer->connected);
        peer->connected = true;
        peer->connect_status = event->status;
    } else if (event->kind == NET_EVENT_RECEIVED) {
        bench_received(peer, event);
    } else if (event->kind == NET_EVENT_OUT) {
        peer->outs++;
    } else if (event->kind == NET_EVENT_SENT) {
        bench_sent(peer, event);
    } else {
        assert_int_equal(event->kind, NET_EVENT_CLOSED);
        peer->closed = true;
        peer->socket = NULL;
    }
}

static uint32_t bench_poll(struct bench *bench, int side)
{
    struct net_event events[BENCH_EVENTS_MAX];
    const uint32_t count = net_engine_poll(bench->engines[side], events, bench->events_max, 0);

    assert_true(count <= bench->events_max);
    for (uint32_t i = 0; i < count; i++)
        bench_dispatch(bench, side, &events[i]);
    return count;
}

void bench_pump_side(struct bench *bench, int side)
{
    if (!bench->kind->kernel)
        bench_pump(bench);
    else if (bench_poll(bench, side) == 0)
        bench->kind->idle(bench);
}

void bench_pump(struct bench *bench)
{
    uint32_t seen = 0;

    for (int side = 0; side < BENCH_ENGINES; side++)
        seen += bench_poll(bench, side);
    bench->stuck = seen == 0 && !bench->kind->idle(bench);
}

bool bench_overdue(struct bench *bench, uint64_t *until_ns)
{
    uint64_t now_ns = base_clock_now_ns();

    if (*until_ns == 0) {
        *until_ns = now_ns + BENCH_PATIENCE_NS;
        bench->stuck = false;
    }
    return bench->stuck || now_ns > *until_ns;
}

void bench_pump_for(struct bench *bench, uint64_t duration_ns)
{
    uint64_t until_ns = net_engine_now_ns(bench->engines[BENCH_CLIENT]) + duration_ns;

    bench->stuck = false;
    while (net_engine_now_ns(bench->engines[BENCH_CLIENT]) < until_ns && !bench->stuck)
        bench_pump(bench);
}

static bool bench_peers_closed(const struct bench *bench)
{
    for (uint32_t i = 0; i < bench->peers_count; i++)
        if (bench->peers[i].socket)
            return false;
    return true;
}

void bench_forget(struct bench *bench)
{
    assert_true(bench_peers_closed(bench));
    for (uint32_t i = 0; i < bench->peers_count; i++)
        free(bench->peers[i].data);
    memset(bench->peers, 0, bench->peers_count * sizeof *bench->peers);
    bench->peers_count = bench->accepted_count = 0;
}

struct bench *bench_open(const struct bench_kind *kind, const struct net_engine_config *config)
{
    struct base_error error = {0};
    struct bench *bench = calloc(1, sizeof *bench);
    struct net_engine_config governed = *config;

    assert_non_null(bench);
    bench->kind = kind;
    bench->events_max = BENCH_EVENTS_MAX;
    bench->peers = calloc(BENCH_PEERS_MAX, sizeof *bench->peers);
    assert_non_null(bench->peers);
    bench_check(base_governor_open(0, &bench->governor, &error), &error);
    governed.governor = bench->governor;
    kind->open(bench, &governed);
    bench_check(net_socket_adopt(bench->engines[BENCH_SERVER], bench->listener_fd, NULL, &bench->listener, &error),
                &error);
    bench_check(net_socket_accept(bench->listener, &error), &error);
    return bench;
}

void bench_close(struct bench *bench)
{
    bench->refuse_receive = true;
    if (bench->listener)
        net_socket_close(bench->listener, false);
    BENCH_UNTIL(bench, !bench->listener); /* from here on nobody new appears */
    for (uint32_t i = 0; i < bench->peers_count; i++) {
        bench_release(&bench->peers[i]);
        if (bench->peers[i].socket)
            net_socket_close(bench->peers[i].socket, false);
    }
    BENCH_UNTIL(bench, bench_peers_closed(bench));
    for (int side = 0; side < BENCH_ENGINES; side++)
        assert_int_equal(net_engine_counters(bench->engines[side])->stale_completions, 0);
    bench->kind->close(bench);
    assert_int_equal(base_governor_used_bytes(bench->governor), 0);
    base_governor_close(bench->governor);
    for (uint32_t i = 0; i < bench->peers_count; i++)
        free(bench->peers[i].data);
    free(bench->peers);
    free(bench);
}

struct bench_peer *bench_connect(struct bench *bench, const struct net_address *address, uint64_t timeout_ns)
{
    struct base_error error = {0};
    struct bench_peer *peer = bench_peer_new(bench, BENCH_CLIENT);
    uint64_t deadline_ns = net_engine_now_ns(peer->engine) + timeout_ns;

    bench_check(net_socket_connect(peer->engine, address, deadline_ns, peer, &peer->socket, &error), &error);
    assert_false(peer->connected); /* completions come only from poll */
    return peer;
}

void bench_pair(struct bench *bench, struct bench_peer **client, struct bench_peer **server)
{
    struct base_error error = {0};
    uint32_t before = bench->accepted_count;

    *client = bench_connect(bench, &bench->address, 5 * BASE_NS_PER_S);
    BENCH_UNTIL(bench, (*client)->connected && bench->accepted_count > before);
    assert_int_equal((*client)->connect_status, BASE_OK);
    *server = bench->accepted[before];
    bench_check(net_socket_receive((*client)->socket, &error), &error);
}

void bench_send(struct bench_peer *peer, const uint8_t *data, size_t bytes, uint32_t count)
{
    size_t each = bytes / count, offset = 0;

    for (uint32_t i = 0; i < count; i++) {
        size_t length = i + 1 == count ? bytes - offset : each;
        peer->op.segments[i] = (struct iovec){.iov_base = (void *)(uintptr_t)(data + offset), .iov_len = length};
        offset += length;
    }
    peer->op.count = count;
    peer->sent = false;
    assert_int_equal(net_socket_send(peer->socket, &peer->op), BASE_OK);
    assert_int_equal(peer->op.in_flight, 1); /* accepted, and completed only by poll */
}

void bench_release(struct bench_peer *peer)
{
    for (uint32_t i = 0; i < peer->held_count; i++)
        net_chunk_release(peer->engine, &peer->held[i]);
    peer->held_count = 0;
}

void bench_peer_close(struct bench_peer *peer, bool abort)
{
    net_socket_close(peer->socket, abort);
    net_socket_close(peer->socket, abort); /* a second call does nothing */
    BENCH_UNTIL(peer->bench, peer->closed);
}

uint8_t *bench_bytes(size_t bytes, uint64_t seed)
{
    uint8_t *data = malloc(bytes + sizeof(uint64_t));

    assert_non_null(data);
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t))
        base_store_u64(data + i, base_random_at(seed, i));
    return data;
}

unsigned bench_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
