/* The three modes of running task work, beside a thread that computes.
 *
 * A peer sends a message every 50 us to a connection with a multishot receive. The ring's owner computes and looks at
 * the completion queue's tail in shared memory now and then, without a system call: a tail that moved means that the
 * kernel interrupted the computation to post a completion. Once a millisecond the owner asks for completions. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/micro.h"

enum {
    TASKRUN_BUFFERS = 1024,
    TASKRUN_MESSAGE_BYTES = 64,
    TASKRUN_GROUP = 0,
    TASKRUN_STEPS = 400 /* of the computation between two looks: about half a microsecond */
};

#define TASKRUN_NS (UINT64_C(200) * BASE_NS_PER_MS)
#define TASKRUN_PATIENCE_NS (UINT64_C(10) * BASE_NS_PER_S)

static const struct micro_case taskrun_cases[] = {{"default", 0}, {"coop-taskrun", 0}, {"defer-taskrun", 0}};

static uint32_t taskrun_flags(const char *mode)
{
    if (strcmp(mode, "coop-taskrun") == 0)
        return IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN;
    if (strcmp(mode, "defer-taskrun") == 0)
        return IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    return IORING_SETUP_SINGLE_ISSUER;
}

struct taskrun {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers;
    uint8_t *memory;
    int fd;
    bool armed;
    uint64_t messages, interruptions, steps;
};

static void taskrun_arm(struct taskrun *run)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);
    io_uring_prep_recv_multishot(sqe, run->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = TASKRUN_GROUP;
    run->armed = true;
}

static void taskrun_recycle(struct taskrun *run, unsigned short id)
{
    io_uring_buf_ring_add(run->buffers, run->memory + (size_t)id * TASKRUN_MESSAGE_BYTES, TASKRUN_MESSAGE_BYTES, id,
                          io_uring_buf_ring_mask(TASKRUN_BUFFERS), 0);
    io_uring_buf_ring_advance(run->buffers, 1);
}

/* Asks the kernel, takes what there is. */
static int taskrun_reap(struct taskrun *run)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (!run->armed)
        taskrun_arm(run);
    const int result = io_uring_submit_and_get_events(&run->ring);
    io_uring_for_each_cqe(&run->ring, head, cqe)
    {
        seen++;
        if (cqe->flags & IORING_CQE_F_BUFFER)
            taskrun_recycle(run, (unsigned short)(cqe->flags >> IORING_CQE_BUFFER_SHIFT));
        run->messages += cqe->res > 0;
        run->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    }
    io_uring_cq_advance(&run->ring, seen);
    return result;
}

/* A millisecond of computing; looks at the tail after every piece. */
static uint64_t taskrun_compute(struct taskrun *run, uint64_t value)
{
    const uint64_t until_ns = base_clock_now_ns() + BASE_NS_PER_MS;
    unsigned tail = __atomic_load_n(run->ring.cq.ktail, __ATOMIC_ACQUIRE);

    do {
        for (int i = 0; i < TASKRUN_STEPS; i++)
            value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        const unsigned now = __atomic_load_n(run->ring.cq.ktail, __ATOMIC_ACQUIRE);
        run->interruptions += now != tail;
        tail = now;
        run->steps += TASKRUN_STEPS;
    } while (base_clock_now_ns() < until_ns);
    return value;
}

static enum base_status taskrun_measure(struct taskrun *run, double scale, double *figures, struct base_error *error)
{
    struct micro_meter meter;
    volatile uint64_t value = 1;
    const uint64_t begin_ns = base_clock_now_ns();
    const uint64_t until_ns = begin_ns + (uint64_t)((double)TASKRUN_NS * scale);
    uint64_t now_ns;

    micro_meter_begin(&meter);
    do {
        const int result = taskrun_reap(run);
        if (result < 0)
            return micro_failed(error, result, "asking for completions");
        value = taskrun_compute(run, value);
        now_ns = base_clock_now_ns();
        /* On a busy machine the peer's first turn may be late. */
    } while (now_ns < until_ns || (run->messages == 0 && now_ns < begin_ns + TASKRUN_PATIENCE_NS));
    micro_meter_end(&meter);
    figures[0] = (double)run->messages;
    figures[1] = (double)run->interruptions;
    figures[2] = run->messages > 0 ? (double)run->interruptions / (double)run->messages : 0;
    figures[3] = (double)run->steps / (double)meter.wall_ns * 1e3;
    figures[4] = (double)meter.thread_system_ns / 1e6;
    return BASE_OK;
}

static enum base_status taskrun_with_ring(struct taskrun *run, double scale, double *figures, struct base_error *error)
{
    int result = 0;
    run->memory = calloc(TASKRUN_BUFFERS, TASKRUN_MESSAGE_BYTES);
    if (!run->memory)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for messages");
    run->buffers = io_uring_setup_buf_ring(&run->ring, TASKRUN_BUFFERS, TASKRUN_GROUP, 0, &result);
    enum base_status status;
    if (!run->buffers) {
        status = micro_failed(error, result, "a ring of provided buffers");
    } else {
        for (unsigned id = 0; id < TASKRUN_BUFFERS; id++)
            taskrun_recycle(run, (unsigned short)id);
        status = taskrun_measure(run, scale, figures, error);
        (void)io_uring_free_buf_ring(&run->ring, run->buffers, TASKRUN_BUFFERS, TASKRUN_GROUP);
    }
    free(run->memory);
    return status;
}

static enum base_status taskrun_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                                    struct base_error *error)
{
    struct taskrun run = {0};
    struct micro_peer *peer = NULL;
    cpu_set_t before, rest;
    int ends[2];

    enum base_status status = micro_pair(ends, error);
    if (status != BASE_OK)
        return status;
    run.fd = ends[0];
    /* On cores of their own where there are two: a sender on the computing core would interrupt it by itself. */
    const bool pinned = micro_pin(&before, &rest);
    status =
        micro_peer_start(MICRO_PEER_SENDS_SLOW, ends[1], TASKRUN_MESSAGE_BYTES, pinned ? &rest : NULL, &peer, error);
    if (status == BASE_OK) {
        status = micro_ring_open(64, taskrun_flags(one->variant), &run.ring, error);
        if (status == BASE_OK) {
            status = taskrun_with_ring(&run, options->scale, figures, error);
            io_uring_queue_exit(&run.ring);
        }
        micro_peer_stop(peer);
    }
    if (pinned)
        micro_unpin(&before);
    close(ends[0]);
    return status;
}

const struct micro_effect micro_taskrun = {
    .word = "taskrun",
    .title = "task-run modes beside a computing thread (a message every 50 us, completions asked for every 1 ms)",
    .size_name = "size",
    .figure = {{"messages", 0},
               {"interruptions", 0},
               {"interruptions_per_message", 2},
               {"computed_steps_per_us", 0},
               {"system_ms", 1}},
    .figure_count = 5,
    .cases = taskrun_cases,
    .case_count = sizeof taskrun_cases / sizeof *taskrun_cases,
    .run = taskrun_run,
};
