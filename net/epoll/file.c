/* Files of the epoll engine. A regular file is always "ready", so its calls are made in the owner's poll and may block
 * there on the disk: that is the price of this engine. A few per poll, so that sockets get their turns between. */
#include <errno.h>
#include <unistd.h>

#include "net/epoll/internal.h"

enum { EPOLL_FILES_A_POLL = 4 };

enum base_status epoll_file_submit(struct net_engine *base, struct net_file_op *op)
{
    struct epoll_engine *engine = (struct epoll_engine *)base;

    if (engine->file_count == engine->files_max)
        return BASE_BUSY;
    BASE_ASSERT(engine->file_count < engine->files_max);
    engine->files[(engine->file_first + engine->file_count) % engine->files_max] = op;
    engine->file_count++;
    return BASE_OK;
}

static ssize_t epoll_file_call(const struct net_file_op *op)
{
    off_t offset = (off_t)(op->offset + op->done);
    switch (op->kind) {
    case NET_FILE_READ:
        return pread(op->fd, op->buffer + op->done, op->bytes - op->done, offset);
    case NET_FILE_WRITE:
        return pwrite(op->fd, op->buffer + op->done, op->bytes - op->done, offset);
    case NET_FILE_SYNC:
        return fdatasync(op->fd);
    }
    return 0;
}

/* Returns 0 or a positive errno. */
static int epoll_file_run(struct epoll_engine *engine, struct net_file_op *op)
{
    struct net_counters *counters = &engine->base.counters;

    counters->file_reads += op->kind == NET_FILE_READ;
    counters->file_writes += op->kind == NET_FILE_WRITE;
    do {
        counters->syscalls++;
        ssize_t moved = epoll_file_call(op);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return errno;
        if (op->kind == NET_FILE_SYNC || (op->kind == NET_FILE_READ && moved == 0))
            return 0;
        if (moved == 0 && op->bytes > op->done)
            return EIO; /* a device that takes nothing and gives no reason */
        op->done += (uint32_t)moved;
        BASE_ASSERT(op->done <= op->bytes);
    } while (op->done < op->bytes);
    return 0;
}

void epoll_files_turn(struct epoll_engine *engine, struct epoll_output *output)
{
    for (uint32_t i = 0; i < EPOLL_FILES_A_POLL && engine->file_count > 0 && output->count < output->max; i++) {
        struct net_file_op *op = engine->files[engine->file_first];
        engine->file_first = (engine->file_first + 1) % engine->files_max;
        engine->file_count--;

        int os_error = epoll_file_run(engine, op);
        BASE_ASSERT(op->in_flight);
        op->in_flight = 0;
        struct net_event *event = epoll_event_add(output, NET_EVENT_FILE, NULL);
        event->status = os_error == 0 ? BASE_OK : base_status_from_errno(os_error);
        event->os_error = os_error;
        event->file = op;
        event->context = op->context;
        event->bytes = op->done;
    }
}
