/* Waking the owner of a kernel engine from any thread: a flag that carries the meaning, and an eventfd that only ends
 * the owner's wait. The eventfd is never read: watched by edges, every write is an event of its own. A second signal
 * before the owner took the first costs no system call. */
#ifndef MILLRACE_NET_ENGINE_WAKE_H
#define MILLRACE_NET_ENGINE_WAKE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct net_wake {
    int fd; /* what the owner waits for; -1: not open */
    _Atomic uint32_t pending;
};

/* 0, or the errno. */
static inline int net_wake_open(struct net_wake *wake)
{
    atomic_init(&wake->pending, 0);
    wake->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return wake->fd < 0 ? errno : 0;
}

static inline void net_wake_close(struct net_wake *wake)
{
    if (wake->fd >= 0)
        close(wake->fd);
    wake->fd = -1;
}

/* Any thread. What it wrote before is seen by the owner after net_wake_take. */
static inline void net_wake_signal(struct net_wake *wake)
{
    uint64_t one = 1;

    if (atomic_exchange(&wake->pending, 1) == 0) {
        ssize_t written = write(wake->fd, &one, sizeof one);
        (void)written; /* fails only after 2^64 signals */
    }
}

/* Whether there is a signal to take; a hint that costs nothing. */
static inline bool net_wake_pending(const struct net_wake *wake)
{
    return atomic_load_explicit(&wake->pending, memory_order_relaxed) != 0;
}

/* Takes all signals so far as one; false when there was none. */
static inline bool net_wake_take(struct net_wake *wake)
{
    return net_wake_pending(wake) && atomic_exchange(&wake->pending, 0) != 0;
}

#endif
