/* Zero-copy send by message size: what the sender pays for a GiB, and whether the kernel copied all the same. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "bench/micro.h"

enum {
    ZC_BUFFERS = 32, /* a buffer is the kernel's until its notification: a pool, so that nobody waits for each one */
    ZC_BYTES_MAX = 1 << 20,
    ZC_VOLUME_BYTES = 96 << 20,
    ZC_MESSAGES_MAX = 40000
};

static const struct micro_case zc_cases[] = {
    {"send", 512},
    {"send", 1024},
    {"send", 4096},
    {"send", 16384},
    {"send", 65536},
    {"send", 262144},
    {"send", 1048576},
    {"send-zc", 512},
    {"send-zc", 1024},
    {"send-zc", 4096},
    {"send-zc", 16384},
    {"send-zc", 65536},
    {"send-zc", 262144},
    {"send-zc", 1048576},
    {"send-zc fixed", 512},
    {"send-zc fixed", 1024},
    {"send-zc fixed", 4096},
    {"send-zc fixed", 16384},
    {"send-zc fixed", 65536},
    {"send-zc fixed", 262144},
    {"send-zc fixed", 1048576},
};

struct zc {
    struct io_uring ring;
    uint8_t *memory;
    int fd;
    bool zero_copy, fixed;
    uint32_t message_bytes;
    bool sending;              /* a result is due */
    uint32_t sent;             /* of the current message */
    uint32_t held[ZC_BUFFERS]; /* notifications due */
    uint64_t notifications, copied;
};

static void zc_stage(struct zc *run, uint32_t buffer)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);
    const uint8_t *data = run->memory + (size_t)buffer * ZC_BYTES_MAX + run->sent;
    const size_t bytes = run->message_bytes - run->sent;

    if (!run->zero_copy)
        io_uring_prep_send(sqe, run->fd, data, bytes, MSG_WAITALL | MSG_NOSIGNAL);
    else if (run->fixed)
        io_uring_prep_send_zc_fixed(sqe, run->fd, data, bytes, MSG_WAITALL | MSG_NOSIGNAL, IORING_SEND_ZC_REPORT_USAGE,
                                    0);
    else
        io_uring_prep_send_zc(sqe, run->fd, data, bytes, MSG_WAITALL | MSG_NOSIGNAL, IORING_SEND_ZC_REPORT_USAGE);
    io_uring_sqe_set_data64(sqe, buffer);
    run->sending = true;
}

/* Waits for a completion and takes all there are. Returns a negative errno when a send failed. */
static int zc_reap(struct zc *run)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    int result = io_uring_submit_and_wait(&run->ring, 1);

    if (result < 0)
        return result;
    io_uring_for_each_cqe(&run->ring, head, cqe)
    {
        seen++;
        if (cqe->flags & IORING_CQE_F_NOTIF) {
            run->held[cqe->user_data]--;
            run->notifications++;
            run->copied += ((uint32_t)cqe->res & IORING_NOTIF_USAGE_ZC_COPIED) != 0;
            continue;
        }
        run->held[cqe->user_data] += (cqe->flags & IORING_CQE_F_MORE) != 0;
        run->sending = false;
        if (cqe->res < 0)
            result = cqe->res;
        else
            run->sent += (uint32_t)cqe->res;
    }
    io_uring_cq_advance(&run->ring, seen);
    return result < 0 ? result : 0;
}

static int zc_message(struct zc *run, uint32_t buffer)
{
    run->sent = 0;
    while (run->sent < run->message_bytes) {
        /* The rest of a short send goes out of the same bytes: only a new message must wait for the buffer. */
        if (!run->sending && (run->sent > 0 || run->held[buffer] == 0))
            zc_stage(run, buffer);
        const int result = zc_reap(run);
        if (result < 0)
            return result;
    }
    return 0;
}

static int zc_drain(struct zc *run)
{
    for (uint32_t i = 0; i < ZC_BUFFERS; i++)
        while (run->held[i] > 0) {
            const int result = zc_reap(run);
            if (result < 0)
                return result;
        }
    return 0;
}

static enum base_status zc_measure(struct zc *run, double scale, double *figures, struct base_error *error)
{
    const uint64_t messages =
        1 + (uint64_t)(scale * (double)base_min_u64(ZC_VOLUME_BYTES / run->message_bytes, ZC_MESSAGES_MAX));
    struct micro_meter meter;
    int result = 0;

    micro_meter_begin(&meter);
    for (uint64_t i = 0; i < messages && result == 0; i++)
        result = zc_message(run, (uint32_t)(i % ZC_BUFFERS));
    if (result == 0)
        result = zc_drain(run);
    micro_meter_end(&meter);
    if (result < 0)
        return micro_failed(error, result, "sending");
    const double gib = (double)messages * run->message_bytes / (1 << 30);
    figures[0] = gib / ((double)meter.wall_ns / 1e9);
    figures[1] = (double)meter.thread_user_ns / 1e9 / gib;
    figures[2] = (double)meter.thread_system_ns / 1e9 / gib;
    figures[3] = run->notifications > 0 ? 100.0 * (double)run->copied / (double)run->notifications : 0;
    return BASE_OK;
}

static enum base_status zc_with_ring(struct zc *run, double scale, double *figures, struct base_error *error)
{
    const struct iovec all = {.iov_base = run->memory, .iov_len = (size_t)ZC_BUFFERS * ZC_BYTES_MAX};

    if (run->fixed) {
        const int result = io_uring_register_buffers(&run->ring, &all, 1);
        if (result < 0)
            return micro_failed(error, result, "registering buffers");
    }
    return zc_measure(run, scale, figures, error);
}

static enum base_status zc_connect(const struct micro_options *options, int *fd, struct micro_peer **peer,
                                   struct base_error *error)
{
    int ends[2];

    *peer = NULL;
    if (options->peer) {
        *fd = socket(options->peer->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*fd >= 0 && connect(*fd, &options->peer->any, options->peer->bytes) == 0)
            return BASE_OK;
        enum base_status status = base_error_set_errno(error, errno, "connecting to the peer");
        if (*fd >= 0)
            close(*fd);
        return status;
    }
    enum base_status status = micro_pair(ends, error);
    if (status != BASE_OK)
        return status;
    *fd = ends[0];
    status = micro_peer_start(MICRO_PEER_DISCARDS, ends[1], 0, NULL, peer, error);
    if (status != BASE_OK)
        close(ends[0]);
    return status;
}

static enum base_status zc_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                               struct base_error *error)
{
    struct zc run = {.zero_copy = strcmp(one->variant, "send") != 0,
                     .fixed = strcmp(one->variant, "send-zc fixed") == 0,
                     .message_bytes = (uint32_t)one->size};
    struct micro_peer *peer;

    run.memory = aligned_alloc(4096, (size_t)ZC_BUFFERS * ZC_BYTES_MAX);
    if (!run.memory)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for messages");
    memset(run.memory, 1, (size_t)ZC_BUFFERS * ZC_BYTES_MAX);
    enum base_status status = zc_connect(options, &run.fd, &peer, error);
    if (status == BASE_OK) {
        status = micro_ring_open(64, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &run.ring, error);
        if (status == BASE_OK) {
            status = zc_with_ring(&run, options->scale, figures, error);
            io_uring_queue_exit(&run.ring);
        }
        close(run.fd);
        if (peer)
            micro_peer_stop(peer);
    }
    free(run.memory);
    return status;
}

const struct micro_effect micro_zerocopy = {
    .word = "zerocopy",
    .title = "message size against the benefit of zero-copy send (the sender's CPU)",
    .size_name = "bytes",
    .figure = {{"gib_per_second", 2}, {"user_s_per_gib", 3}, {"system_s_per_gib", 3}, {"copied_percent", 0}},
    .figure_count = 4,
    .cases = zc_cases,
    .case_count = sizeof zc_cases / sizeof *zc_cases,
    .run = zc_run,
};
