#include "cluster/node/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "cluster/link/frame.h"
#include "cluster/link/link.h"
#include "cluster/protocol/liveness.h"

/* Beats are tiny and must not be late on a machine that is busy with rows. Needs a privilege; without it, all threads
 * are alike. */
enum { HEARTBEAT_NICE = -10 };

struct cluster_heartbeat {
    struct cluster_heartbeat_config config;
    pthread_t thread;
    int stop_fd, lost_fd;
    _Atomic bool lost; /* released after error was written */
    struct base_error error;
};

/* From here to the end of the loop nothing is allocated or freed: while a worker maps or unmaps a large table, the
 * kernel keeps other threads of this process from changing its memory map, for seconds if need be. */
static enum base_status beat_once(int fd, const uint8_t *beat, size_t bytes, struct base_error *error)
{
    const ssize_t sent = send(fd, beat, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent == (ssize_t)bytes || (sent < 0 && errno == EINTR))
        return BASE_OK;
    if (sent < 0 && errno != EAGAIN)
        return base_error_set_errno(error, errno, "beating");
    return base_error_set(error, BASE_TIMEOUT, "the coordinator takes no beats");
}

/* Whatever the coordinator says, it is alive. */
static enum base_status heartbeat_hear(int fd, uint64_t now_ns, uint64_t *heard_ns, struct base_error *error)
{
    uint8_t words[4096];
    const ssize_t got = recv(fd, words, sizeof words, MSG_DONTWAIT);
    if (got == 0)
        return base_error_set(error, BASE_PEER_CLOSED, "the coordinator closed the heartbeat connection");
    if (got > 0)
        *heard_ns = now_ns;
    else if (errno != EAGAIN && errno != EINTR)
        return base_error_set_errno(error, errno, "listening to the coordinator");
    return BASE_OK;
}

/* A beat as bytes. */
struct beat_bytes {
    uint8_t *data;
    size_t count;
};

/* How long the control thread has been at the same piece of work. */
struct control_watch {
    uint64_t work, since_ns;
};

static bool control_hangs(const struct cluster_heartbeat *heartbeat, struct control_watch *control, uint64_t now_ns)
{
    const uint64_t work = atomic_load_explicit(heartbeat->config.work, memory_order_relaxed);
    if (work == 0 || work != control->work) {
        control->work = work;
        control->since_ns = now_ns;
    }
    return now_ns >= control->since_ns + heartbeat->config.stuck_ns;
}

/* alive, hangs: what is sent while the control thread moves, and when it does not. */
static enum base_status beat_loop(const struct cluster_heartbeat *heartbeat, int fd, const struct beat_bytes *alive,
                                  const struct beat_bytes *hangs, struct base_error *error)
{
    uint64_t now_ns = base_clock_now_ns(), heard_ns = now_ns, next_ns = now_ns;
    struct control_watch control = {.since_ns = now_ns};
    for (;;) {
        if (now_ns >= next_ns) {
            const struct beat_bytes *beat = control_hangs(heartbeat, &control, now_ns) ? hangs : alive;
            const enum base_status status = beat_once(fd, beat->data, beat->count, error);
            if (status != BASE_OK)
                return status;
            next_ns = now_ns + CLUSTER_BEAT_NS;
        }
        struct pollfd fds[2] = {{.fd = heartbeat->stop_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        const int timeout_ms = (int)((next_ns - now_ns) / BASE_NS_PER_MS + 1);
        if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "waiting for the coordinator");
        if (fds[0].revents)
            return BASE_OK;
        now_ns = base_clock_now_ns();
        heard_ns += cluster_pause_ns(next_ns, now_ns);
        control.since_ns += cluster_pause_ns(next_ns, now_ns);
        /* First hear what lies there: after a pause of this process the coordinator's words may be waiting. */
        const enum base_status status = fds[1].revents ? heartbeat_hear(fd, now_ns, &heard_ns, error) : BASE_OK;
        if (status != BASE_OK)
            return status;
        if (now_ns >= heard_ns + CLUSTER_SILENCE_NS)
            return base_error_set(error, BASE_TIMEOUT, "the coordinator was silent for 1.2 s");
    }
}

static enum base_status make_beat(uint64_t stuck_ns, struct beat_bytes *beat, struct base_error *error)
{
    const struct cluster_message message = {.kind = CLUSTER_MESSAGE_BEAT, .beat = {.stuck_ns = stuck_ns}};
    return cluster_frame_encode(&message, &beat->data, &beat->count, error);
}

/* Hello and welcome, then beats as bytes made once. */
static enum base_status heartbeat_beat(const struct cluster_heartbeat *heartbeat, struct base_error *error)
{
    struct cluster_link *link;
    const uint64_t deadline_ns = base_clock_now_ns() + CLUSTER_SILENCE_NS;
    enum base_status status =
        cluster_link_connect(&heartbeat->config.coordinator, heartbeat->config.key, deadline_ns, &link, error);
    if (status != BASE_OK)
        return status;
    struct cluster_message message;
    cluster_hello_fill(CLUSTER_ROLE_HEARTBEAT, &message);
    message.hello.name = (char *)(uintptr_t)heartbeat->config.name;
    message.hello.incarnation = heartbeat->config.incarnation;
    status = cluster_link_send(link, &message, base_clock_now_ns(), error);
    if (status == BASE_OK)
        status = cluster_link_wait(link, deadline_ns, &message, error);
    if (status == BASE_OK && message.kind != CLUSTER_MESSAGE_WELCOME) {
        status = base_error_set(error, BASE_NODE_REFUSED, "heartbeats refused: %s",
                                message.kind == CLUSTER_MESSAGE_REFUSED ? message.refused.error.text
                                                                        : cluster_message_name(message.kind));
        cluster_message_free(&message);
    } else if (status == BASE_OK) {
        cluster_message_free(&message);
        struct beat_bytes alive = {NULL, 0}, hangs = {NULL, 0};
        status = make_beat(0, &alive, error);
        if (status == BASE_OK)
            status = make_beat(heartbeat->config.stuck_ns, &hangs, error);
        if (status == BASE_OK)
            status = beat_loop(heartbeat, cluster_link_fd(link), &alive, &hangs, error);
        free(alive.data);
        free(hangs.data);
    }
    cluster_link_close(link);
    return status;
}

static void *heartbeat_main(void *context)
{
    struct cluster_heartbeat *heartbeat = context;
    pthread_setname_np(pthread_self(), "heartbeat");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HEARTBEAT_NICE);
    const enum base_status status = heartbeat_beat(heartbeat, &heartbeat->error);
    const uint64_t one = 1;
    atomic_store_explicit(&heartbeat->lost, status != BASE_OK, memory_order_release);
    if (status != BASE_OK)
        BASE_ASSERT(write(heartbeat->lost_fd, &one, sizeof one) > 0); /* an eventfd takes its first count */
    return NULL;
}

static void heartbeat_free(struct cluster_heartbeat *heartbeat)
{
    if (heartbeat->stop_fd >= 0)
        close(heartbeat->stop_fd);
    if (heartbeat->lost_fd >= 0)
        close(heartbeat->lost_fd);
    free(heartbeat);
}

enum base_status cluster_heartbeat_start(const struct cluster_heartbeat_config *config,
                                         struct cluster_heartbeat **heartbeat, struct base_error *error)
{
    struct cluster_heartbeat *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the heartbeat");
    made->config = *config;
    made->stop_fd = eventfd(0, EFD_CLOEXEC);
    made->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int failed = made->stop_fd < 0 || made->lost_fd < 0 ? errno : 0;
    if (!failed)
        failed = pthread_create(&made->thread, NULL, heartbeat_main, made);
    if (failed) {
        heartbeat_free(made);
        return base_error_set_errno(error, failed, "cannot start the heartbeat");
    }
    *heartbeat = made;
    return BASE_OK;
}

int cluster_heartbeat_fd(const struct cluster_heartbeat *heartbeat)
{
    return heartbeat->lost_fd;
}

const struct base_error *cluster_heartbeat_error(const struct cluster_heartbeat *heartbeat)
{
    return atomic_load_explicit(&heartbeat->lost, memory_order_acquire) ? &heartbeat->error : NULL;
}

void cluster_heartbeat_stop(struct cluster_heartbeat *heartbeat)
{
    const uint64_t one = 1;
    BASE_ASSERT(write(heartbeat->stop_fd, &one, sizeof one) > 0); /* an eventfd takes its first count */
    pthread_join(heartbeat->thread, NULL);
    heartbeat_free(heartbeat);
}
