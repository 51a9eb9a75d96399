#include "cluster/heartbeat.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "cluster/coordinator.h"
#include "cluster/link.h"

/* Beats are tiny and must not be late on a machine that is busy with rows. Needs a privilege; without it, all threads
 * are alike. */
enum { HEARTBEAT_NICE = -10 };

struct cluster_heartbeat {
    struct cluster_heartbeat_config config;
    pthread_t thread;
    int stop_fd, lost_fd;
    struct base_error error; /* written before lost_fd is signalled, read after */
};

/* The coordinator's words; heard_ns moves when there are some. */
static enum base_status listen_beats(struct cluster_link *link, uint64_t now_ns, uint64_t *heard_ns,
                                     struct base_error *error)
{
    for (;;) {
        struct cluster_message message;
        const enum base_status status = cluster_link_receive(link, &message, error);
        if (status == BASE_BUSY)
            return BASE_OK;
        if (status != BASE_OK)
            return status;
        if (message.kind == CLUSTER_MESSAGE_REFUSED)
            return base_error_set(error, BASE_NODE_REFUSED, "%s", message.refused.error.text);
        cluster_message_free(&message);
        *heard_ns = now_ns;
    }
}

static enum base_status beat_loop(struct cluster_heartbeat *heartbeat, struct cluster_link *link,
                                  struct base_error *error)
{
    uint64_t now_ns = base_clock_now_ns(), heard_ns = now_ns, next_ns = now_ns;
    struct cluster_message beat = {.kind = CLUSTER_MESSAGE_BEAT};
    for (;;) {
        if (now_ns >= next_ns && cluster_link_connected(link)) {
            beat.beat.sequence++;
            const enum base_status status = cluster_link_send(link, &beat, now_ns, error);
            if (status != BASE_OK)
                return status;
            next_ns = now_ns + CLUSTER_BEAT_NS;
        }
        const uint64_t silent_ns = heard_ns + CLUSTER_SILENCE_NS;
        const uint64_t until_ns = cluster_link_connected(link) ? base_min_u64(next_ns, silent_ns) : silent_ns;
        const int timeout_ms = until_ns > now_ns ? (int)((until_ns - now_ns) / BASE_NS_PER_MS + 1) : 0;
        const uint32_t interest = cluster_link_interest(link);
        struct pollfd fds[2] = {
            {.fd = heartbeat->stop_fd, .events = POLLIN},
            {.fd = cluster_link_fd(link),
             .events = (short)((interest & EPOLLIN ? POLLIN : 0) | (interest & EPOLLOUT ? POLLOUT : 0))}};
        if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "waiting for the coordinator");
        if (fds[0].revents)
            return BASE_OK;
        now_ns = base_clock_now_ns();
        enum base_status status = cluster_link_ready(link, now_ns, error);
        const enum base_status heard = listen_beats(link, now_ns, &heard_ns, status == BASE_OK ? error : NULL);
        if (status == BASE_OK)
            status = heard;
        if (status != BASE_OK)
            return status;
        if (now_ns >= heard_ns + CLUSTER_SILENCE_NS)
            return base_error_set(error, BASE_TIMEOUT, "the coordinator was silent for 1.2 s");
    }
}

static void *heartbeat_main(void *context)
{
    struct cluster_heartbeat *heartbeat = context;
    pthread_setname_np(pthread_self(), "heartbeat");
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), HEARTBEAT_NICE);
    struct cluster_link *link = NULL;
    enum base_status status = cluster_link_connect(&heartbeat->config.coordinator,
                                                   base_clock_now_ns() + CLUSTER_SILENCE_NS, &link, &heartbeat->error);
    if (status == BASE_OK) {
        struct cluster_message hello;
        cluster_hello_fill(CLUSTER_ROLE_HEARTBEAT, &hello);
        hello.hello.name = (char *)(uintptr_t)heartbeat->config.name;
        hello.hello.incarnation = heartbeat->config.incarnation;
        status = cluster_link_send(link, &hello, base_clock_now_ns(), &heartbeat->error);
        if (status == BASE_OK)
            status = beat_loop(heartbeat, link, &heartbeat->error);
        cluster_link_close(link);
    }
    const uint64_t one = 1;
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
    return &heartbeat->error;
}

void cluster_heartbeat_stop(struct cluster_heartbeat *heartbeat)
{
    const uint64_t one = 1;
    BASE_ASSERT(write(heartbeat->stop_fd, &one, sizeof one) > 0); /* an eventfd takes its first count */
    pthread_join(heartbeat->thread, NULL);
    heartbeat_free(heartbeat);
}
