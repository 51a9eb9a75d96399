/* The conformance suite on kernels that lack something, or are short of it, or refuse now and then: calls of liburing
 * are wrapped by the linker. Each rung must go on with the next best thing, and say by name what is missing. */
#include <errno.h>
#include <liburing.h>
#include <string.h>

#include "tests/net/conformance_cases.h"

enum refusal {
    NO_DEFER,
    NO_BUFFER_RING,
    NO_LOCKED_MEMORY,
    NO_INCREMENTAL,
    NO_BUNDLE,
    NO_BUFFERS,
    NO_SEND_ZC,
    TINY_RINGS,
    BUSY
};

static struct {
    enum refusal refusal;
    _Atomic unsigned calls;
    _Atomic unsigned hits; /* calls that were made different */
} kernel;

static bool refuses(bool refused)
{
    kernel.hits += refused;
    return refused;
}

/* The linker's names. */
int __real_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params);
int __real_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags);
int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags);
int __real_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers, unsigned count);
int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers, unsigned count);
int __real_io_uring_submit(struct io_uring *ring);
int __wrap_io_uring_submit(struct io_uring *ring);
int __real_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask);
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask);
int __real_io_uring_submit_and_get_events(struct io_uring *ring);
int __wrap_io_uring_submit_and_get_events(struct io_uring *ring);

int __wrap_io_uring_queue_init_params(unsigned entries, struct io_uring *ring, struct io_uring_params *params)
{
    if (refuses(kernel.refusal == NO_DEFER && (params->flags & IORING_SETUP_DEFER_TASKRUN)))
        return -EINVAL;
    if (refuses(kernel.refusal == TINY_RINGS)) {
        entries = 4;
        params->flags |= IORING_SETUP_CQSIZE;
        params->cq_entries = 8;
    }
    const int result = __real_io_uring_queue_init_params(entries, ring, params);
    if (refuses(kernel.refusal == NO_BUNDLE))
        ring->features &= ~IORING_FEAT_RECVSEND_BUNDLE;
    return result;
}

int __wrap_io_uring_register_buf_ring(struct io_uring *ring, struct io_uring_buf_reg *reg, unsigned flags)
{
    if (refuses(kernel.refusal == NO_BUFFER_RING ||
                (kernel.refusal == NO_INCREMENTAL && (reg->flags & IOU_PBUF_RING_INC))))
        return -EINVAL;
    if (refuses(kernel.refusal == NO_LOCKED_MEMORY))
        return -ENOMEM;
    return __real_io_uring_register_buf_ring(ring, reg, flags);
}

int __wrap_io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers, unsigned count)
{
    return refuses(kernel.refusal == NO_BUFFERS) ? -ENOMEM : __real_io_uring_register_buffers(ring, buffers, count);
}

/* To an older kernel a newer request is a number that means nothing. */
int __wrap_io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned count,
                                            struct __kernel_timespec *limit, sigset_t *mask)
{
    struct io_uring_sqe *last = &ring->sq.sqes[(ring->sq.sqe_tail - 1) & ring->sq.ring_mask];
    if (refuses(kernel.refusal == NO_SEND_ZC && io_uring_sq_ready(ring) > 0 && last->opcode == IORING_OP_SEND_ZC))
        last->opcode = UINT8_MAX;
    return __real_io_uring_submit_and_wait_timeout(ring, cqe, count, limit, mask);
}

/* Two of three calls find the kernel busy. */
static bool busy(void)
{
    return refuses(kernel.refusal == BUSY && kernel.calls++ % 3 != 0);
}

int __wrap_io_uring_submit(struct io_uring *ring)
{
    return busy() ? -EBUSY : __real_io_uring_submit(ring);
}

int __wrap_io_uring_submit_and_get_events(struct io_uring *ring)
{
    return busy() ? -EBUSY : __real_io_uring_submit_and_get_events(ring);
}

struct lack {
    const char *name;
    enum refusal refusal;
    const char *choice;
    uint32_t missing;   /* features */
    const char *reason; /* words of it; "": all is in force */
};

#define RECEIVE_FEATURES (NET_FEATURE_MULTISHOT | NET_FEATURE_BUNDLE | NET_FEATURE_INCREMENTAL)

static const struct lack lacks[] = {
    {"bundle without deferred task work", NO_DEFER, "uring-bundle", NET_FEATURE_DEFER_TASKRUN,
     "no defer-taskrun: this kernel is too old (needs Linux 6.1)"},
    {"multishot without a buffer ring", NO_BUFFER_RING, "uring-multishot", RECEIVE_FEATURES,
     "no multishot: this kernel's io_uring has no provided buffer rings"},
    {"bundle without locked memory", NO_LOCKED_MEMORY, "uring-bundle", RECEIVE_FEATURES,
     "no multishot: no locked memory left for the ring of receive chunks: raise ulimit -l"},
    {"incremental buffers on a kernel without", NO_INCREMENTAL, "uring-bundle+incremental", NET_FEATURE_INCREMENTAL,
     "no incremental: this kernel is too old (needs Linux 6.12)"},
    {"bundle on a kernel without bundles", NO_BUNDLE, "uring-bundle", NET_FEATURE_BUNDLE,
     "no bundle: this kernel is too old (needs Linux 6.10)"},
    {"fixed without registered buffers", NO_BUFFERS, "uring-fixed", NET_FEATURE_REGISTERED_BUFFERS,
     "no registered-buffers: no locked memory left for the receive chunks: raise ulimit -l"},
    {"zero-copy send on a kernel without", NO_SEND_ZC, "uring-send-zc",
     NET_FEATURE_SEND_ZC | NET_FEATURE_REGISTERED_BUFFERS,
     "no send-zc: this kernel has no zero-copy send that reports copies"},
    {"naive in tiny rings", TINY_RINGS, "uring-naive", 0, ""},
    {"fixed in tiny rings", TINY_RINGS, "uring-fixed", 0, ""},
    {"multishot in tiny rings", TINY_RINGS, "uring-multishot", 0, ""},
    {"bundle in tiny rings", TINY_RINGS, "uring-bundle", 0, ""},
    {"naive on a busy kernel", BUSY, "uring-naive", 0, ""},
    {"bundle on a busy kernel", BUSY, "uring-bundle", 0, ""},
};

static struct bench_kind bench_kind_for(const struct lack *lack)
{
    struct bench_kind kind = *bench_kind_of(NET_ENGINE_URING);
    struct base_error error;
    assert_int_equal(net_engine_choice_parse(lack->choice, &kind.engine, &error), BASE_OK);
    return kind;
}

static void what_is_missing_is_said(void **state)
{
    const struct lack *lack = *state;
    struct net_engine_config config = bench_config();
    struct bench_kind kind = bench_kind_for(lack);
    struct bench *bench = bench_open(&kind, &config);
    struct net_engine *engine = bench->engines[BENCH_CLIENT];

    if (*lack->reason == '\0')
        assert_string_equal(net_engine_reason(engine), "");
    else if (!strstr(net_engine_reason(engine), lack->reason))
        fail_msg("%s: \"%s\" does not say \"%s\"", lack->name, net_engine_reason(engine), lack->reason);
    assert_int_equal(net_engine_missing(engine), net_engine_choice_features(&kind.engine) & lack->missing);
    for (uint32_t left = net_engine_choice_features(&kind.engine); left != 0; left &= left - 1) {
        const enum net_feature feature = (enum net_feature)(left & -left);
        const bool in_force = strstr(net_engine_features(engine), net_feature_word(feature));
        assert_int_equal(in_force, !(lack->missing & (uint32_t)feature));
    }
    bench_close(bench);
}

int main(void)
{
    int failures = 0;

    for (size_t i = 0; i < sizeof lacks / sizeof *lacks; i++) {
        struct bench_kind kind = bench_kind_for(&lacks[i]);
        const struct bench_kind *pointer = &kind;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(what_is_missing_is_said, (void *)(uintptr_t)&lacks[i])};
        kind.name = lacks[i].name;
        kind.brief = true;
        kernel.refusal = lacks[i].refusal;
        kernel.hits = 0;
        failures += cmocka_run_group_tests_name(lacks[i].name, tests, NULL, NULL);
        failures += conformance_run(&pointer, 1);
        failures += kernel.hits == 0; /* then this has tested nothing */
    }
    return failures != 0;
}
