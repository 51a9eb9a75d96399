/* The table of tries, the words for what failed, and the tries that need nothing but a ring.
 *
 * Nothing of a try outlives it: a ring is closed only when the kernel has given back every buffer (the receives read to
 * the end of their stream, the sends wait for their notifications), sockets are shut down before their ring goes. */
#include "net/probe/probe.h"

#include <errno.h>
#include <linux/mman.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/engine/refusal.h"
#include "net/probe/internal.h"
#include "net/socket/tcp.h"

enum {
    PROBE_PAGE_BYTES = 4096,
    PROBE_TURNS = 8, /* of one try that finds too little memory, with a pause between */
    PROBE_PAUSE_US = 10000,
    PROBE_PATIENCE = 40 /* pauses in all */
};

/* ---- set-up ---- */

enum { PROBE_DEFER = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN };

static int try_flags(unsigned flags)
{
    struct io_uring ring;
    const int made = probe_ring(&ring, flags);
    if (made < 0)
        return made;
    io_uring_queue_exit(&ring);
    return 0;
}

#define TRY_FLAGS(name, flags)                                                                                         \
    static int name(struct net_probe_result *result)                                                                   \
    {                                                                                                                  \
        (void)result;                                                                                                  \
        return try_flags(flags);                                                                                       \
    }

static int try_uring(struct net_probe_result *result)
{
    struct io_uring ring;
    const int made = probe_ring(&ring, 0);
    if (made < 0)
        return made;
    const char *forbidden = net_uring_filter(ring.ring_fd);
    io_uring_queue_exit(&ring);
    if (!forbidden)
        return 0;
    result->state = NET_PROBE_STATE_FORBIDDEN;
    snprintf(result->why, sizeof result->why, "%s", forbidden);
    return -EPERM;
}

TRY_FLAGS(try_defer_taskrun, PROBE_DEFER)
TRY_FLAGS(try_submit_all, IORING_SETUP_SUBMIT_ALL)
TRY_FLAGS(try_taskrun_flag, PROBE_DEFER | IORING_SETUP_TASKRUN_FLAG)
TRY_FLAGS(try_clamp, IORING_SETUP_CLAMP)
TRY_FLAGS(try_coop_taskrun, IORING_SETUP_COOP_TASKRUN)
TRY_FLAGS(try_sqpoll, IORING_SETUP_SQPOLL)
TRY_FLAGS(try_cqe32, IORING_SETUP_CQE32)
TRY_FLAGS(try_cqe_mixed, IORING_SETUP_CQE_MIXED)
TRY_FLAGS(try_no_sqarray, IORING_SETUP_NO_SQARRAY)

static int try_disabled_start(struct net_probe_result *result)
{
    struct io_uring ring;
    (void)result;
    int made = probe_ring(&ring, PROBE_DEFER | IORING_SETUP_R_DISABLED);
    if (made < 0)
        return made;
    made = io_uring_enable_rings(&ring);
    io_uring_queue_exit(&ring);
    return made;
}

/* What net/uring/uring.c asks for with many sockets and chunks. */
static int try_engine_ring(struct net_probe_result *result)
{
    struct io_uring ring;
    struct io_uring_params params = {.flags = PROBE_DEFER | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL |
                                              IORING_SETUP_CLAMP | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE,
                                     .cq_entries = 8192};
    (void)result;
    const int made = io_uring_queue_init_params(1024, &ring, &params);
    if (made < 0)
        return made;
    io_uring_queue_exit(&ring);
    return 0;
}

/* ---- registered things ---- */

/* Runs one registration on a ring of its own. */
static int on_ring(unsigned flags, int (*registration)(struct io_uring *ring))
{
    struct io_uring ring;
    int made = probe_ring(&ring, flags);
    if (made < 0)
        return made;
    made = registration(&ring);
    io_uring_queue_exit(&ring);
    return made;
}

static int register_ring(struct io_uring *ring)
{
    const int result = io_uring_register_ring_fd(ring);
    return result == 1 ? 0 : result < 0 ? result : -EPROTO;
}

static int register_files(struct io_uring *ring)
{
    return io_uring_register_files_sparse(ring, 64);
}

static int register_buffers(struct io_uring *ring)
{
    static uint8_t memory[PROBE_PAGE_BYTES] __attribute__((aligned(PROBE_PAGE_BYTES)));
    const struct iovec buffer = {.iov_base = memory, .iov_len = sizeof memory};
    return io_uring_register_buffers(ring, &buffer, 1);
}

static int register_buffer_ring(struct io_uring *ring)
{
    int result = 0;
    struct io_uring_buf_ring *buffers = io_uring_setup_buf_ring(ring, PROBE_ENTRIES, 0, 0, &result);
    if (!buffers)
        return result;
    (void)io_uring_free_buf_ring(ring, buffers, PROBE_ENTRIES, 0);
    return 0;
}

static int probe_resize(struct io_uring *ring)
{
    struct io_uring_params params = {.sq_entries = 2 * PROBE_ENTRIES, .cq_entries = 4 * PROBE_ENTRIES};
    params.flags = IORING_SETUP_CQSIZE;
    return io_uring_resize_rings(ring, &params);
}

/* Only a ring that does not run yet takes it. */
static int register_wait_region(struct io_uring *ring)
{
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    struct io_uring_region_desc region = {
        .user_addr = (uintptr_t)page, .size = bytes, .flags = IORING_MEM_REGION_TYPE_USER};
    struct io_uring_mem_region_reg registration = {.region_uptr = (uintptr_t)&region,
                                                   .flags = IORING_MEM_REGION_REG_WAIT_ARG};
    const int result = io_uring_register_region(ring, &registration);
    munmap(page, bytes); /* the kernel holds the page until the ring goes */
    return result;
}

/* One completion is there, two are wanted: the short time ends the wait. */
static int wait_min(struct io_uring *ring)
{
    struct io_uring_cqe *cqe;
    struct __kernel_timespec limit = {.tv_nsec = 100 * (long long)BASE_NS_PER_MS};
    io_uring_prep_nop(io_uring_get_sqe(ring));
    const int result = io_uring_submit_and_wait_min_timeout(ring, &cqe, 2, &limit, 1000, NULL);
    return result < 0 && result != -ETIME ? result : 0;
}

static int register_napi(struct io_uring *ring)
{
    struct io_uring_napi napi = {.busy_poll_to = 10};
    const int result = io_uring_register_napi(ring, &napi);
    if (result >= 0)
        (void)io_uring_unregister_napi(ring, &napi);
    return result;
}

#define TRY_ON_RING(name, flags, registration)                                                                         \
    static int name(struct net_probe_result *result)                                                                   \
    {                                                                                                                  \
        (void)result;                                                                                                  \
        return on_ring(flags, registration);                                                                           \
    }

TRY_ON_RING(try_registered_ring, 0, register_ring)
TRY_ON_RING(try_registered_files, 0, register_files)
TRY_ON_RING(try_registered_buffers, 0, register_buffers)
TRY_ON_RING(try_buffer_ring, 0, register_buffer_ring)
TRY_ON_RING(try_resize, PROBE_DEFER, probe_resize)
TRY_ON_RING(try_wait_region, IORING_SETUP_R_DISABLED, register_wait_region)
TRY_ON_RING(try_min_wait, 0, wait_min)
TRY_ON_RING(try_napi, 0, register_napi)

static int try_msg_ring(struct net_probe_result *result)
{
    struct io_uring from, to;
    struct io_uring_cqe *cqe;
    int made = probe_ring(&from, 0);
    if (made < 0)
        return made;
    made = probe_ring(&to, 0);
    if (made < 0)
        goto close_from;
    io_uring_prep_msg_ring(io_uring_get_sqe(&from), to.ring_fd, 7, 42, 0);
    made = probe_one(&from);
    if (made == 0)
        made = probe_wait(&to, base_clock_now_ns() + PROBE_LIMIT_NS, &cqe);
    if (made == 0 && (cqe->user_data != 42 || cqe->res != 7))
        made = probe_broken(result, "a message arrived as another one");
    io_uring_queue_exit(&to);
close_from:
    io_uring_queue_exit(&from);
    return made;
}

/* glibc's own falls back to nothing, so ask the kernel. */
static int try_epoll_pwait2(struct net_probe_result *result)
{
    struct epoll_event event;
    const struct timespec limit = {.tv_nsec = 1};
    (void)result;
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    const int failure = syscall(SYS_epoll_pwait2, fd, &event, 1, &limit, NULL, 0) < 0 ? -errno : 0;
    close(fd);
    return failure;
}

static int try_huge_pages(struct net_probe_result *result)
{
    enum { HUGE_BYTES = 2 << 20 };
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB;
    void *page = mmap(NULL, HUGE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (page != MAP_FAILED) {
        munmap(page, HUGE_BYTES);
        return 0;
    }
    if (errno == ENOMEM) {
        result->state = NET_PROBE_STATE_LIMITED;
        snprintf(result->why, sizeof result->why, "none are reserved: sysctl -w vm.nr_hugepages=1024 reserves 2 GiB");
    }
    return -errno;
}

/* ---- the table ---- */

static const struct probe_entry {
    const char *word, *about, *since;
    enum net_probe_area area;
} entries[NET_PROBE_COUNT] = {
#define X(name, text, place, what, version)                                                                            \
    [NET_PROBE_##name] = {.word = text, .about = what, .since = version, .area = NET_PROBE_AREA_##place},
    NET_PROBE_LIST(X)
#undef X
};

static probe_try *const tries[NET_PROBE_COUNT] = {
    [NET_PROBE_URING] = try_uring,
    [NET_PROBE_DEFER_TASKRUN] = try_defer_taskrun,
    [NET_PROBE_DISABLED_START] = try_disabled_start,
    [NET_PROBE_SUBMIT_ALL] = try_submit_all,
    [NET_PROBE_TASKRUN_FLAG] = try_taskrun_flag,
    [NET_PROBE_CLAMP] = try_clamp,
    [NET_PROBE_ENGINE_RING] = try_engine_ring,
    [NET_PROBE_COOP_TASKRUN] = try_coop_taskrun,
    [NET_PROBE_SQPOLL] = try_sqpoll,
    [NET_PROBE_CQE32] = try_cqe32,
    [NET_PROBE_CQE_MIXED] = try_cqe_mixed,
    [NET_PROBE_NO_SQARRAY] = try_no_sqarray,
    [NET_PROBE_REGISTERED_RING] = try_registered_ring,
    [NET_PROBE_REGISTERED_FILES] = try_registered_files,
    [NET_PROBE_REGISTERED_BUFFERS] = try_registered_buffers,
    [NET_PROBE_BUFFER_RING] = try_buffer_ring,
    [NET_PROBE_RESIZE] = try_resize,
    [NET_PROBE_WAIT_REGION] = try_wait_region,
    [NET_PROBE_MIN_WAIT] = try_min_wait,
    [NET_PROBE_NAPI] = try_napi,
    [NET_PROBE_MSG_RING] = try_msg_ring,
    [NET_PROBE_MULTISHOT_ACCEPT] = probe_multishot_accept,
    [NET_PROBE_MULTISHOT_RECEIVE] = probe_multishot_receive,
    [NET_PROBE_BUNDLE] = probe_bundle,
    [NET_PROBE_INCREMENTAL] = probe_incremental,
    [NET_PROBE_RECV_ZC] = probe_receive_zc,
    [NET_PROBE_RECV_ZC_COPY] = probe_receive_zc_copy,
    [NET_PROBE_SEND_ZC] = probe_send_zc,
    [NET_PROBE_SEND_ZC_FIXED] = probe_send_zc_fixed,
    [NET_PROBE_SENDMSG_ZC] = probe_sendmsg_zc,
    [NET_PROBE_MSG_ZEROCOPY] = probe_msg_zerocopy,
    [NET_PROBE_EPOLL_PWAIT2] = try_epoll_pwait2,
    [NET_PROBE_HUGE_PAGES] = try_huge_pages,
};

/* Of io_uring? Then nothing needs trying where there is none. */
static bool needs_uring(enum net_probe_id id)
{
    return id != NET_PROBE_MSG_ZEROCOPY && net_probe_area(id) != NET_PROBE_AREA_OTHER;
}

/* Words for an errno that a try came back with; the state follows from it. */
static void probe_explain(enum net_probe_id id, int os_error, struct net_probe_result *result)
{
    char *why = result->why;
    switch (os_error) {
    case EINVAL:
    case ENOSYS:
    case EOPNOTSUPP:
    case ENOPROTOOPT:
        result->state = NET_PROBE_STATE_MISSING;
        snprintf(why, sizeof result->why, "this kernel does not have it; Linux %s and newer do", net_probe_since(id));
        break;
    case EPERM:
    case EACCES:
        result->state = NET_PROBE_STATE_FORBIDDEN;
        snprintf(why, sizeof result->why, "%s",
                 id == NET_PROBE_RECV_ZC || id == NET_PROBE_RECV_ZC_COPY
                     ? "needs CAP_NET_ADMIN"
                     : "not permitted: look at the seccomp profile and the security policy");
        break;
    case ENOMEM:
    case ENOBUFS:
        result->state = NET_PROBE_STATE_LIMITED;
        snprintf(why, sizeof result->why, "the limit of locked memory is too small: raise ulimit -l");
        break;
    case EMFILE:
    case ENFILE:
        result->state = NET_PROBE_STATE_LIMITED;
        snprintf(why, sizeof result->why, "too few open files are allowed: raise ulimit -n");
        break;
    case ETIME:
        result->state = NET_PROBE_STATE_BROKEN;
        snprintf(why, sizeof result->why, "the kernel took it and did not answer within a second");
        break;
    default:
        result->state = NET_PROBE_STATE_BROKEN;
        snprintf(why, sizeof result->why, "it failed: %s", strerror(os_error));
    }
}

/* The end of a ring interrupts what the next try waits for, and the kernel takes its memory off the account of the user
 * a little after the ring is gone: where little may be locked, a try can fail for the one before it. */
static int try_patiently(enum net_probe_id id, uint32_t *patience, struct net_probe_result *result)
{
    for (uint32_t turn = 0;; turn++) {
        *result = (struct net_probe_result){.state = NET_PROBE_STATE_WORKS};
        const int failure = tries[id](result);
        if (failure == -EINTR && turn < PROBE_TURNS)
            continue;
        if ((failure != -ENOMEM && failure != -ENOBUFS) || !needs_uring(id) || turn == PROBE_TURNS || *patience == 0)
            return failure;
        (*patience)--;
        usleep(PROBE_PAUSE_US);
    }
}

static void probe_run_one(enum net_probe_id id, uint32_t *patience, struct net_probe_result *result)
{
    const int failure = try_patiently(id, patience, result);
    if (failure >= 0)
        return;
    result->os_error = -failure;
    if (result->state != NET_PROBE_STATE_WORKS) /* it found the words itself */
        return;
    probe_explain(id, -failure, result);
    const char *words = id == NET_PROBE_URING ? net_uring_refusal(-failure) : NULL;
    if (words)
        snprintf(result->why, sizeof result->why, "%s", words);
}

void net_probe_run(struct net_probe *probe)
{
    uint32_t patience = PROBE_PATIENCE;
    for (int id = 0; id < NET_PROBE_COUNT; id++) {
        struct net_probe_result *result = &probe->result[id];
        const struct net_probe_result *first = &probe->result[NET_PROBE_URING];
        if (id == NET_PROBE_URING || !needs_uring((enum net_probe_id)id) || first->state == NET_PROBE_STATE_WORKS) {
            probe_run_one((enum net_probe_id)id, &patience, result);
        } else {
            *result = (struct net_probe_result){.state = NET_PROBE_STATE_UNTRIED};
            snprintf(result->why, sizeof result->why, "no io_uring here");
        }
    }
}

void net_probe_socket(struct net_probe_socket *socket_facts)
{
    const struct net_socket_settings settings = {0};
    struct base_error error;
    struct net_tcp tcp;
    socklen_t bytes;
    int number;

    *socket_facts = (struct net_probe_socket){0};
    if (net_tcp_choose(&settings, NULL, &tcp, &error) != BASE_OK)
        return;
    socket_facts->congestion_settable = *tcp.set.congestion != '\0';
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    bytes = sizeof socket_facts->congestion_default - 1;
    (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, socket_facts->congestion_default, &bytes);
    net_tcp_apply(&tcp, fd);
    bytes = sizeof socket_facts->congestion - 1;
    (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, socket_facts->congestion, &bytes);
    bytes = sizeof number;
    if (getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &number, &bytes) == 0)
        socket_facts->send_buffer_bytes = (uint32_t)number;
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &number, &bytes) == 0)
        socket_facts->recv_buffer_bytes = (uint32_t)number;
    if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &number, &bytes) == 0)
        socket_facts->nodelay = number != 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &number, &bytes) == 0)
        socket_facts->notsent_lowat_bytes = number == -1 ? 0 : (uint32_t)number;
    close(fd);
}

/* ---- words ---- */

const char *net_probe_word(enum net_probe_id id)
{
    return (unsigned)id < NET_PROBE_COUNT ? entries[id].word : "unknown";
}

const char *net_probe_about(enum net_probe_id id)
{
    return (unsigned)id < NET_PROBE_COUNT ? entries[id].about : "unknown";
}

const char *net_probe_since(enum net_probe_id id)
{
    return (unsigned)id < NET_PROBE_COUNT ? entries[id].since : "unknown";
}

enum net_probe_area net_probe_area(enum net_probe_id id)
{
    return (unsigned)id < NET_PROBE_COUNT ? entries[id].area : NET_PROBE_AREA_COUNT;
}

const char *net_probe_area_word(enum net_probe_area area)
{
    static const char *const words[NET_PROBE_AREA_COUNT] = {
#define X(name, word) [NET_PROBE_AREA_##name] = word,
        NET_PROBE_AREA_LIST(X)
#undef X
    };
    return (unsigned)area < NET_PROBE_AREA_COUNT ? words[area] : "unknown";
}

const char *net_probe_state_word(enum net_probe_state state)
{
    static const char *const words[NET_PROBE_STATE_COUNT] = {
#define X(name, word) [NET_PROBE_STATE_##name] = word,
        NET_PROBE_STATE_LIST(X)
#undef X
    };
    return (unsigned)state < NET_PROBE_STATE_COUNT ? words[state] : "unknown";
}
