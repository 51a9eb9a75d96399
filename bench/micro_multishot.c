/* Multishot against one-shot receive by message size: what the receiver pays for a GiB. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/micro.h"

enum {
    SHOT_GROUP = 0,
    SHOT_POOL_BYTES = 2 << 20, /* stays in cache */
    SHOT_BUFFERS_MAX = 1024,
    SHOT_VOLUME_BYTES = 96 << 20,
    SHOT_MESSAGES_MAX = 60000
};

static const struct micro_case shot_cases[] = {
    {"one-shot", 64},    {"one-shot", 256},    {"one-shot", 1024},   {"one-shot", 4096},    {"one-shot", 16384},
    {"one-shot", 65536}, {"one-shot", 262144}, {"multishot", 64},    {"multishot", 256},    {"multishot", 1024},
    {"multishot", 4096}, {"multishot", 16384}, {"multishot", 65536}, {"multishot", 262144},
};

struct shot {
    struct io_uring ring;
    struct io_uring_buf_ring *buffers; /* NULL: one-shot */
    uint8_t *memory;
    int fd;
    bool armed;
    uint32_t buffer_bytes, buffer_count;
    uint64_t received, completions, enters;
};

static void shot_recycle(struct shot *run, uint32_t id)
{
    io_uring_buf_ring_add(run->buffers, run->memory + (size_t)id * run->buffer_bytes, run->buffer_bytes,
                          (unsigned short)id, io_uring_buf_ring_mask(run->buffer_count), 0);
    io_uring_buf_ring_advance(run->buffers, 1);
}

static void shot_arm(struct shot *run)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);

    if (!run->buffers) {
        io_uring_prep_recv(sqe, run->fd, run->memory, run->buffer_bytes, 0);
    } else {
        io_uring_prep_recv_multishot(sqe, run->fd, NULL, 0, 0);
        sqe->flags |= IOSQE_BUFFER_SELECT;
        sqe->buf_group = SHOT_GROUP;
    }
    run->armed = true;
}

static int shot_turn(struct shot *run)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;

    if (!run->armed)
        shot_arm(run);
    int result = io_uring_submit_and_wait(&run->ring, 1);
    run->enters++;
    if (result < 0)
        return result;
    result = 0;
    io_uring_for_each_cqe(&run->ring, head, cqe)
    {
        seen++;
        if (cqe->res > 0)
            run->received += (uint64_t)cqe->res;
        else if (cqe->res != -ENOBUFS)
            result = cqe->res == 0 ? -ECONNRESET : cqe->res;
        if (cqe->flags & IORING_CQE_F_BUFFER)
            shot_recycle(run, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
        run->armed = (cqe->flags & IORING_CQE_F_MORE) != 0;
    }
    io_uring_cq_advance(&run->ring, seen);
    run->completions += seen;
    return result;
}

static enum base_status shot_measure(struct shot *run, double scale, double *figures, struct base_error *error)
{
    uint64_t volume = (uint64_t)run->buffer_bytes * SHOT_MESSAGES_MAX;
    struct micro_meter meter;
    int result = 0;

    if (volume > SHOT_VOLUME_BYTES)
        volume = SHOT_VOLUME_BYTES;
    volume = 1 + (uint64_t)((double)volume * scale);
    micro_meter_begin(&meter);
    while (run->received < volume && result == 0)
        result = shot_turn(run);
    micro_meter_end(&meter);
    if (result < 0)
        return micro_failed(error, result, "receiving");
    const double gib = (double)run->received / (1 << 30);
    figures[0] = gib / ((double)meter.wall_ns / 1e9);
    figures[1] = (double)meter.thread_user_ns / 1e9 / gib;
    figures[2] = (double)meter.thread_system_ns / 1e9 / gib;
    figures[3] = (double)run->enters / gib;
    figures[4] = (double)run->completions / gib;
    return BASE_OK;
}

static enum base_status shot_with_ring(struct shot *run, bool multishot, double scale, double *figures,
                                       struct base_error *error)
{
    int result = 0;
    if (!multishot)
        return shot_measure(run, scale, figures, error);
    run->buffers = io_uring_setup_buf_ring(&run->ring, run->buffer_count, SHOT_GROUP, 0, &result);
    if (!run->buffers)
        return micro_failed(error, result, "a ring of provided buffers");
    for (uint32_t id = 0; id < run->buffer_count; id++)
        shot_recycle(run, id);
    const enum base_status status = shot_measure(run, scale, figures, error);
    (void)io_uring_free_buf_ring(&run->ring, run->buffers, run->buffer_count, SHOT_GROUP);
    return status;
}

static enum base_status shot_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                                 struct base_error *error)
{
    struct shot run = {.buffer_bytes = (uint32_t)one->size, .buffer_count = SHOT_BUFFERS_MAX};
    const bool multishot = strcmp(one->variant, "multishot") == 0;
    struct micro_peer *peer;
    int ends[2];

    while ((uint64_t)run.buffer_count * run.buffer_bytes > SHOT_POOL_BYTES)
        run.buffer_count /= 2;
    run.memory = calloc(run.buffer_count, run.buffer_bytes);
    if (!run.memory)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for messages");
    enum base_status status = micro_pair(ends, error);
    if (status == BASE_OK) {
        run.fd = ends[0];
        status = micro_peer_start(MICRO_PEER_SENDS, ends[1], run.buffer_bytes, NULL, &peer, error);
        if (status == BASE_OK) {
            status = micro_ring_open(64, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &run.ring, error);
            if (status == BASE_OK) {
                status = shot_with_ring(&run, multishot, options->scale, figures, error);
                io_uring_queue_exit(&run.ring);
            }
            micro_peer_stop(peer);
        }
        close(ends[0]);
    }
    free(run.memory);
    return status;
}

const struct micro_effect micro_multishot = {
    .word = "multishot",
    .title = "multishot against one-shot receive by message size (the receiver's CPU; a buffer holds a message)",
    .size_name = "bytes",
    .figure = {{"gib_per_second", 2},
               {"user_s_per_gib", 3},
               {"system_s_per_gib", 3},
               {"enters_per_gib", 0},
               {"cqes_per_gib", 0}},
    .figure_count = 5,
    .cases = shot_cases,
    .case_count = sizeof shot_cases / sizeof *shot_cases,
    .run = shot_run,
};
