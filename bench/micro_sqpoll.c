/* SQPOLL against enter: a kernel thread that looks for submissions saves the system call and costs a core. CPU is the
 * whole process's, that thread included. */
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "bench/micro.h"

enum {
    SQPOLL_ENTRIES = 128, /* twice the largest batch: completions may show before their entries are free again */
    SQPOLL_SPINS = 2000,  /* then the core is given away: there may be fewer cores than threads */
};

/* A time, not a number: with fewer cores than threads a turn may take milliseconds. */
#define SQPOLL_NS (UINT64_C(50) * BASE_NS_PER_MS)

static const struct micro_case sqpoll_cases[] = {
    {"enter", 1}, {"enter", 8}, {"enter", 64}, {"sqpoll", 1}, {"sqpoll", 8}, {"sqpoll", 64},
};

/* Enters the kernel only when the polling thread sleeps; then looks at the completion queue until all are there. */
static int sqpoll_turn(struct io_uring *ring, uint32_t size, uint64_t *enters)
{
    for (uint32_t i = 0; i < size; i++) {
        struct io_uring_sqe *sqe;
        while (!(sqe = io_uring_get_sqe(ring)))
            sched_yield();
        io_uring_prep_nop(sqe);
    }
    if (!(ring->flags & IORING_SETUP_SQPOLL)) {
        ++*enters;
        const int result = io_uring_submit_and_wait(ring, size);
        if (result < 0)
            return result;
    } else {
        *enters += (__atomic_load_n(ring->sq.kflags, __ATOMIC_ACQUIRE) & IORING_SQ_NEED_WAKEUP) != 0;
        const int result = io_uring_submit(ring);
        if (result < 0)
            return result;
        for (uint32_t spins = 0; io_uring_cq_ready(ring) < size; spins++)
            if (spins >= SQPOLL_SPINS)
                sched_yield();
    }
    io_uring_cq_advance(ring, size);
    return 0;
}

static enum base_status sqpoll_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                                   struct base_error *error)
{
    const bool polled = strcmp(one->variant, "sqpoll") == 0;
    struct io_uring ring;
    struct micro_meter meter;
    uint64_t enters = 0;

    enum base_status status = micro_ring_open(
        SQPOLL_ENTRIES, polled ? IORING_SETUP_SQPOLL : IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &ring,
        error);
    if (status != BASE_OK)
        return status;
    const uint64_t until_ns = base_clock_now_ns() + (uint64_t)((double)SQPOLL_NS * options->scale);
    uint64_t turns = 0;
    int result = 0;
    micro_meter_begin(&meter);
    for (; result == 0 && (turns % 64 != 0 || base_clock_now_ns() < until_ns); turns++)
        result = sqpoll_turn(&ring, (uint32_t)one->size, &enters);
    micro_meter_end(&meter);
    io_uring_queue_exit(&ring);
    if (result < 0)
        return micro_failed(error, result, "a batch");
    const double operations = (double)turns * (double)one->size;
    figures[0] = operations / ((double)meter.wall_ns / 1e3);
    figures[1] = (double)meter.process_user_ns / operations;
    figures[2] = (double)meter.process_system_ns / operations;
    figures[3] = (double)enters / operations;
    return BASE_OK;
}

const struct micro_effect micro_sqpoll = {
    .word = "sqpoll",
    .title = "SQPOLL against enter (empty operations; CPU of the process with the polling thread)",
    .size_name = "batch",
    .figure = {{"mops_per_second", 2}, {"user_ns_per_op", 0}, {"system_ns_per_op", 0}, {"enters_per_op", 3}},
    .figure_count = 4,
    .cases = sqpoll_cases,
    .case_count = sizeof sqpoll_cases / sizeof *sqpoll_cases,
    .run = sqpoll_run,
};
