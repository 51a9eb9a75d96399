/* Submission batch size: how the cost of a system call spreads over the operations it submits. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench/micro.h"

enum { BATCH_MAX = 128, BATCH_READ_BYTES = 512, BATCH_OPERATIONS = 200000 };

static const struct micro_case batch_cases[] = {
    {"nop", 1},  {"nop", 2},  {"nop", 4},  {"nop", 8},  {"nop", 16},  {"nop", 32},  {"nop", 64},  {"nop", 128},
    {"read", 1}, {"read", 2}, {"read", 4}, {"read", 8}, {"read", 16}, {"read", 32}, {"read", 64}, {"read", 128},
};

/* One batch: all in, one system call, all out. */
static int batch_turn(struct io_uring *ring, int fd, uint8_t *buffer, uint32_t size)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    for (uint32_t i = 0; i < size; i++) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
        if (fd < 0)
            io_uring_prep_nop(sqe);
        else
            io_uring_prep_read(sqe, fd, buffer + (size_t)i * BATCH_READ_BYTES, BATCH_READ_BYTES, 0);
    }
    int result = io_uring_submit_and_wait(ring, size);
    if (result < 0)
        return result;
    io_uring_for_each_cqe(ring, head, cqe)
    {
        if (cqe->res < 0)
            result = cqe->res;
        seen++;
    }
    io_uring_cq_advance(ring, seen);
    return result < 0 ? result : (int)seen;
}

static enum base_status batch_measure(struct io_uring *ring, int fd, uint8_t *buffer, uint32_t size, double scale,
                                      double *figures, struct base_error *error)
{
    const uint64_t turns = 1 + (uint64_t)(BATCH_OPERATIONS * scale) / size;
    struct micro_meter meter;

    micro_meter_begin(&meter);
    for (uint64_t turn = 0; turn < turns; turn++) {
        const int result = batch_turn(ring, fd, buffer, size);
        if (result < 0)
            return micro_failed(error, result, "a batch");
    }
    micro_meter_end(&meter);
    const double operations = (double)turns * size;
    figures[0] = (double)meter.thread_user_ns / operations;
    figures[1] = (double)meter.thread_system_ns / operations;
    figures[2] = (double)meter.wall_ns / operations;
    figures[3] = (double)turns / operations;
    return BASE_OK;
}

static enum base_status batch_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                                  struct base_error *error)
{
    static uint8_t buffer[BATCH_MAX * BATCH_READ_BYTES];
    struct io_uring ring;
    int fd = -1;

    if (one->variant[0] == 'r') {
        fd = open(options->folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0 || write(fd, buffer, BATCH_READ_BYTES) != BATCH_READ_BYTES) {
            enum base_status status = base_error_set_errno(error, errno, "a file in %s", options->folder);
            if (fd >= 0)
                close(fd);
            return status;
        }
    }
    enum base_status status =
        micro_ring_open(BATCH_MAX, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &ring, error);
    if (status == BASE_OK) {
        status = batch_measure(&ring, fd, buffer, (uint32_t)one->size, options->scale, figures, error);
        io_uring_queue_exit(&ring);
    }
    if (fd >= 0)
        close(fd);
    return status;
}

const struct micro_effect micro_batch = {
    .word = "batch",
    .title = "submission batch size against the cost of an operation (reads are of 512 bytes in the page cache)",
    .size_name = "batch",
    .figure = {{"user_ns_per_op", 0}, {"system_ns_per_op", 0}, {"wall_ns_per_op", 0}, {"enters_per_op", 3}},
    .figure_count = 4,
    .cases = batch_cases,
    .case_count = sizeof batch_cases / sizeof *batch_cases,
    .run = batch_run,
};
