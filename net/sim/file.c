/* The simulated network: files are real, their completions are late and in any order.
 *
 * An operation runs in steps, each late by a random delay: some pread or pwrite calls (shortened when the seed says
 * so), then a last step that reports. Nothing is promised about when between submit and event a byte is read or
 * written, so a read's buffer is overwritten at submit, and a write's bytes must be the same at the event as they were
 * at submit. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "net/sim/internal.h"

enum { READ_SCRIBBLE = 0xd7 };

static void sim_file_step(struct sim_due *due);

/* One piece; true when there is no more to do. */
static bool file_execute(struct sim_file *file)
{
    struct net_file_op *op = file->op;
    struct net_sim_world *world = file->engine->world;
    bool doomed = world->config.file_error_after && file->number == world->config.file_error_after;
    if (op->kind == NET_FILE_SYNC) {
        /* No crash is simulated, so durability cannot be seen; that the file is open can. */
        file->failure = doomed ? EIO : fcntl(op->fd, F_GETFD) < 0 ? errno : 0;
        return true;
    }
    uint32_t left = op->bytes - op->done;
    uint32_t piece = left;
    if (left && (doomed || net_sim_percent(world, world->config.short_percent)))
        piece = 1 + (uint32_t)base_random_below(&world->random, left);
    uint8_t *at = op->buffer + op->done;
    off_t offset = (off_t)(op->offset + op->done);
    ssize_t moved = op->kind == NET_FILE_READ ? pread(op->fd, at, piece, offset) : pwrite(op->fd, at, piece, offset);
    if (moved < 0 && errno == EINVAL && piece < left) {
        /* O_DIRECT takes whole blocks only. */
        piece = left;
        moved = op->kind == NET_FILE_READ ? pread(op->fd, at, piece, offset) : pwrite(op->fd, at, piece, offset);
    }
    if (moved < 0) {
        if (errno == EINTR)
            return false;
        file->failure = errno;
        return true;
    }
    op->done += (uint32_t)moved;
    if (doomed) {
        file->failure = op->kind == NET_FILE_WRITE ? ENOSPC : EIO;
        return true;
    }
    if (moved == 0 && left && op->kind == NET_FILE_WRITE)
        file->failure = EIO;
    return moved == 0 || op->done == op->bytes;
}

static void sim_file_step(struct sim_due *due)
{
    struct sim_file *file = SIM_OWNER(due, struct sim_file, step);
    if (!file->executed) {
        file->executed = file_execute(file);
        net_sim_schedule(file->engine->world, &file->step, sim_file_step);
        return;
    }
    struct net_event *event = net_sim_ready(file->engine, NET_EVENT_FILE, file->failure);
    event->file = file->op;
    event->bytes = file->op->done;
}

enum base_status net_sim_file_submit(struct net_engine *base, struct net_file_op *op)
{
    struct sim_engine *engine = (struct sim_engine *)base;
    BASE_ASSERT(engine->enabled);
    if (engine->files_busy == engine->config.file_ops_max || net_sim_queue_full(engine))
        return BASE_BUSY;
    struct sim_file *file = engine->files;
    while (file->op)
        file++;
    *file = (struct sim_file){.engine = engine, .op = op, .number = ++engine->world->file_ops};
    engine->files_busy++;
    if (op->kind == NET_FILE_READ) {
        memset(op->buffer, READ_SCRIBBLE, op->bytes);
        engine->base.counters.file_reads++;
    } else if (op->kind == NET_FILE_WRITE) {
        file->hash = net_sim_hash(0, op->buffer, op->bytes);
        engine->base.counters.file_writes++;
    }
    net_sim_enqueue(engine, &file->step, sim_file_step);
    return BASE_OK;
}

void net_sim_file_delivered(struct sim_engine *engine, struct net_file_op *op)
{
    struct sim_file *file = engine->files;
    while (file->op != op)
        file++;
    BASE_ASSERT(op->in_flight);
    /* Failing means: the buffer of a write was changed before its event. */
    BASE_ASSERT(op->kind != NET_FILE_WRITE || file->hash == net_sim_hash(0, op->buffer, op->bytes));
    op->in_flight = 0;
    file->op = NULL;
    engine->files_busy--;
}
