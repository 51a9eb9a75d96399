/* Files of the io_uring engine: each operation is a request of the ring, continued until it is whole. */
#include <errno.h>
#include <stdlib.h>

#include "net/uring/internal.h"

enum base_status uring_files_open(struct uring_engine *engine, uint32_t count)
{
    engine->files = calloc(count + 1, sizeof *engine->files);
    if (!engine->files)
        return BASE_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        engine->files[i].slot = i;
        net_list_init(&engine->files[i].todo);
    }
    return net_slots_open(&engine->file_slots, count);
}

enum base_status uring_file_submit(struct net_engine *base, struct net_file_op *op)
{
    struct uring_engine *engine = (struct uring_engine *)base;
    uint32_t slot = net_slots_take(&engine->file_slots);

    if (slot == NET_SLOT_NONE)
        return BASE_BUSY;
    struct uring_file *file = &engine->files[slot];
    BASE_ASSERT(!file->op && !net_list_linked(&file->todo));
    file->op = op;
    net_list_append(&engine->files_todo, &file->todo);
    base->counters.file_reads += op->kind == NET_FILE_READ;
    base->counters.file_writes += op->kind == NET_FILE_WRITE;
    return BASE_OK;
}

void uring_files_enqueue(struct uring_engine *engine)
{
    while (!net_list_empty(&engine->files_todo)) {
        struct io_uring_sqe *sqe = uring_sqe(engine);
        if (!sqe)
            return;
        struct uring_file *file = NET_LIST_ENTRY(net_list_pop(&engine->files_todo), struct uring_file, todo);
        struct net_file_op *op = file->op;
        switch (op->kind) {
        case NET_FILE_READ:
            io_uring_prep_read(sqe, op->fd, op->buffer + op->done, op->bytes - op->done, op->offset + op->done);
            break;
        case NET_FILE_WRITE:
            io_uring_prep_write(sqe, op->fd, op->buffer + op->done, op->bytes - op->done, op->offset + op->done);
            break;
        case NET_FILE_SYNC:
            io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
            break;
        }
        io_uring_sqe_set_data64(sqe, uring_user_data(URING_FILE, file->slot, file->generation));
    }
}

/* Whether the operation goes on; else *os_error is its result. */
static bool uring_file_continues(struct net_file_op *op, int result, int *os_error)
{
    *os_error = 0;
    if (result == -EINTR || result == -EAGAIN)
        return true;
    if (result < 0) {
        *os_error = -result;
        return false;
    }
    if (op->kind == NET_FILE_SYNC || (op->kind == NET_FILE_READ && result == 0))
        return false;
    if (result == 0 && op->bytes > op->done) {
        *os_error = EIO; /* a device that takes nothing and gives no reason */
        return false;
    }
    op->done += (uint32_t)result;
    return op->done < op->bytes;
}

void uring_file_finished(struct uring_engine *engine, struct uring_file *file, enum base_status status,
                         struct net_event *event)
{
    struct net_file_op *op = file->op;

    net_list_unlink(&file->todo);
    BASE_ASSERT(op->in_flight && op->done <= op->bytes);
    op->in_flight = 0;
    file->op = NULL;
    file->generation++;
    net_slots_give(&engine->file_slots, file->slot);
    uring_event_fill(event, NET_EVENT_FILE, NULL);
    event->status = status;
    event->file = op;
    event->context = op->context;
    event->bytes = op->done;
}

uint32_t uring_file_complete(struct uring_engine *engine, const struct io_uring_cqe *cqe, struct net_event *event)
{
    uint32_t slot = (uint32_t)(cqe->user_data >> 32) & 0xffffff;
    struct uring_file *file = slot < engine->file_slots.count ? &engine->files[slot] : NULL;
    int os_error;

    if (!file || !file->op || file->generation != (uint32_t)cqe->user_data) {
        engine->base.counters.stale_completions++;
        return 0;
    }
    struct net_file_op *op = file->op;
    BASE_ASSERT(op->in_flight);
    if (uring_file_continues(op, cqe->res, &os_error)) {
        net_list_append(&engine->files_todo, &file->todo);
        return 0;
    }
    uring_file_finished(engine, file, os_error == 0 ? BASE_OK : base_status_from_errno(os_error), event);
    event->os_error = os_error;
    return 1;
}
