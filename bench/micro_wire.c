/* Connections for the effects that need one, and the thread at their other end. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/micro.h"

enum { PEER_BUFFER_BYTES = 1 << 20, PEER_PATIENCE_MS = 100, PEER_PAUSE_NS = 50000 };

enum base_status micro_pair(int ends[2], struct base_error *error)
{
    struct net_address any, bound;
    const int one = 1;
    int listener;

    enum base_status status = net_address_parse("127.0.0.1:0", &any, error);
    if (status == BASE_OK)
        status = net_listen(&any, 1, &listener, &bound, error);
    if (status != BASE_OK)
        return status;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ends[1] = -1;
    if (ends[0] < 0 || connect(ends[0], &bound.any, bound.bytes) != 0)
        goto fail;
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (ends[1] < 0)
        goto fail;
    for (int i = 0; i < 2; i++)
        if (setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
            goto fail;
    close(listener);
    return BASE_OK;

fail:
    status = base_error_set_errno(error, errno, "a connection over loopback");
    if (ends[0] >= 0)
        close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    close(listener);
    return status;
}

struct micro_peer {
    enum micro_peer_kind kind;
    int fd;
    uint32_t bytes;
    pthread_t thread;
    _Atomic bool stop;
    uint8_t *buffer;
};

/* Sends or receives once, or waits a moment for that to be possible. False: the connection is over. */
static bool peer_turn(struct micro_peer *peer)
{
    const bool discards = peer->kind == MICRO_PEER_DISCARDS;
    struct pollfd ready = {.fd = peer->fd, .events = discards ? POLLIN : POLLOUT};

    if (poll(&ready, 1, PEER_PATIENCE_MS) <= 0)
        return true;
    ssize_t done = discards ? recv(peer->fd, peer->buffer, PEER_BUFFER_BYTES, MSG_DONTWAIT)
                            : send(peer->fd, peer->buffer, peer->bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (peer->kind == MICRO_PEER_SENDS_SLOW)
        nanosleep(&(struct timespec){.tv_nsec = PEER_PAUSE_NS}, NULL);
    return done > 0 || (done < 0 && (errno == EAGAIN || errno == EINTR));
}

static void *peer_run(void *argument)
{
    struct micro_peer *peer = argument;
    while (!atomic_load_explicit(&peer->stop, memory_order_relaxed) && peer_turn(peer))
        ;
    return NULL;
}

bool micro_pin(cpu_set_t *before, cpu_set_t *rest)
{
    cpu_set_t own;
    size_t core = 0;

    if (pthread_getaffinity_np(pthread_self(), sizeof *before, before) != 0 || CPU_COUNT(before) < 2)
        return false;
    while (!CPU_ISSET(core, before))
        core++;
    *rest = *before;
    CPU_CLR(core, rest);
    CPU_ZERO(&own);
    CPU_SET(core, &own);
    return pthread_setaffinity_np(pthread_self(), sizeof own, &own) == 0;
}

void micro_unpin(const cpu_set_t *before)
{
    (void)pthread_setaffinity_np(pthread_self(), sizeof *before, before);
}

enum base_status micro_peer_start(enum micro_peer_kind kind, int fd, uint32_t bytes, const cpu_set_t *cores,
                                  struct micro_peer **started, struct base_error *error)
{
    struct micro_peer *peer = calloc(1, sizeof *peer);
    if (!peer || !(peer->buffer = calloc(1, PEER_BUFFER_BYTES))) {
        free(peer);
        close(fd);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a peer");
    }
    peer->kind = kind;
    peer->fd = fd;
    peer->bytes = bytes;
    const int failed = pthread_create(&peer->thread, NULL, peer_run, peer);
    if (failed) {
        free(peer->buffer);
        free(peer);
        close(fd);
        return base_error_set_errno(error, failed, "a thread for a peer");
    }
    if (cores)
        (void)pthread_setaffinity_np(peer->thread, sizeof *cores, cores);
    *started = peer;
    return BASE_OK;
}

void micro_peer_stop(struct micro_peer *peer)
{
    atomic_store(&peer->stop, true);
    (void)shutdown(peer->fd, SHUT_RDWR);
    (void)pthread_join(peer->thread, NULL);
    close(peer->fd);
    free(peer->buffer);
    free(peer);
}
