/* File reads in batches against pread, from the page cache and past it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/micro.h"

enum { FILES_BYTES = 64 << 20, FILES_DEPTH_MAX = 64, FILES_DIRECT_PARTS = 4 };

static const struct micro_case files_cases[] = {
    {"pread", 4096},         {"uring x1", 4096},         {"uring x8", 4096},         {"uring x64", 4096},
    {"pread", 65536},        {"uring x1", 65536},        {"uring x8", 65536},        {"uring x64", 65536},
    {"pread direct", 65536}, {"uring x1 direct", 65536}, {"uring x8 direct", 65536}, {"uring x64 direct", 65536},
};

struct files {
    struct io_uring ring;
    uint8_t *memory;
    int fd;
    uint32_t depth; /* 0: pread */
    uint32_t piece_bytes;
    uint64_t bytes; /* to read */
    uint64_t calls;
};

static int files_pread(struct files *run)
{
    for (uint64_t at = 0; at < run->bytes; at += run->piece_bytes, run->calls++)
        if (pread(run->fd, run->memory, run->piece_bytes, (off_t)at) != (ssize_t)run->piece_bytes)
            return errno != 0 ? -errno : -EIO;
    return 0;
}

/* Takes what is done; a buffer that is free again reads the next piece. */
static int files_reap(struct files *run, uint64_t *at, uint32_t *flying)
{
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    int result = 0;

    io_uring_for_each_cqe(&run->ring, head, cqe)
    {
        seen++;
        --*flying;
        if (cqe->res != (int)run->piece_bytes)
            result = cqe->res < 0 ? cqe->res : -EIO;
        else if (*at < run->bytes) {
            struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);
            io_uring_prep_read(sqe, run->fd, run->memory + (size_t)cqe->user_data * run->piece_bytes, run->piece_bytes,
                               *at);
            io_uring_sqe_set_data64(sqe, cqe->user_data);
            *at += run->piece_bytes;
            ++*flying;
        }
    }
    io_uring_cq_advance(&run->ring, seen);
    return result;
}

static int files_uring(struct files *run)
{
    uint64_t at = 0;
    uint32_t flying = 0;
    int result = 0;

    for (; flying < run->depth && at < run->bytes; flying++, at += run->piece_bytes) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);
        io_uring_prep_read(sqe, run->fd, run->memory + (size_t)flying * run->piece_bytes, run->piece_bytes, at);
        io_uring_sqe_set_data64(sqe, flying);
    }
    /* Also after an error: a buffer is the kernel's until its completion. */
    while (flying > 0) {
        const int entered = io_uring_submit_and_wait(&run->ring, 1);
        run->calls++;
        if (entered < 0)
            return entered;
        const int reaped = files_reap(run, &at, &flying);
        if (reaped < 0) {
            result = reaped;
            at = run->bytes;
        }
    }
    return result;
}

static enum base_status files_measure(struct files *run, double *figures, struct base_error *error)
{
    struct micro_meter meter;

    micro_meter_begin(&meter);
    errno = 0;
    const int result = run->depth == 0 ? files_pread(run) : files_uring(run);
    micro_meter_end(&meter);
    if (result < 0)
        return micro_failed(error, result, "reading a file");
    const double gib = (double)run->bytes / (1 << 30);
    figures[0] = gib / ((double)meter.wall_ns / 1e9);
    figures[1] = (double)meter.process_user_ns / 1e9 / gib;
    figures[2] = (double)meter.process_system_ns / 1e9 / gib;
    figures[3] = (double)run->calls / gib;
    return BASE_OK;
}

/* An unlinked file of FILES_BYTES, in the page cache; direct: written out and read past the cache. */
static enum base_status files_make(struct files *run, const char *folder, bool direct, struct base_error *error)
{
    run->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (run->fd < 0)
        return base_error_set_errno(error, errno, "a file in %s", folder);
    for (uint64_t at = 0; at < FILES_BYTES; at += run->piece_bytes)
        if (pwrite(run->fd, run->memory, run->piece_bytes, (off_t)at) != (ssize_t)run->piece_bytes)
            return base_error_set_errno(error, errno, "writing a file in %s", folder);
    if (direct && (fsync(run->fd) != 0 || fcntl(run->fd, F_SETFL, O_DIRECT) != 0))
        return base_error_set(error, BASE_UNSUPPORTED, "%s cannot be read past the page cache (O_DIRECT)", folder);
    return BASE_OK;
}

static enum base_status files_run(const struct micro_case *one, const struct micro_options *options, double *figures,
                                  struct base_error *error)
{
    const bool direct = strstr(one->variant, "direct") != NULL;
    struct files run = {.piece_bytes = (uint32_t)one->size};
    (void)sscanf(one->variant, "uring x%u", &run.depth);

    run.bytes = (direct ? FILES_BYTES / FILES_DIRECT_PARTS : FILES_BYTES);
    run.bytes =
        (uint64_t)((double)run.bytes * (options->scale < 1 ? options->scale : 1)) / run.piece_bytes * run.piece_bytes;
    if (run.bytes == 0)
        run.bytes = run.piece_bytes;
    run.memory = aligned_alloc(4096, (size_t)FILES_DEPTH_MAX * run.piece_bytes);
    if (!run.memory)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for pieces of a file");
    memset(run.memory, 1, (size_t)FILES_DEPTH_MAX * run.piece_bytes);
    enum base_status status = files_make(&run, options->folder, direct, error);
    if (status == BASE_OK)
        status =
            micro_ring_open(FILES_DEPTH_MAX, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, &run.ring, error);
    if (status == BASE_OK) {
        status = files_measure(&run, figures, error);
        io_uring_queue_exit(&run.ring);
    }
    if (run.fd >= 0)
        close(run.fd);
    free(run.memory);
    return status;
}

const struct micro_effect micro_files = {
    .word = "files",
    .title = "file reads in batches against pread (xN: N reads in flight; direct: past the page cache)",
    .size_name = "bytes",
    .figure = {{"gib_per_second", 2}, {"user_s_per_gib", 3}, {"system_s_per_gib", 3}, {"calls_per_gib", 0}},
    .figure_count = 4,
    .cases = files_cases,
    .case_count = sizeof files_cases / sizeof *files_cases,
    .run = files_run,
};
