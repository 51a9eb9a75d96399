/* Slots hold one block each and go FREE -> READING -> READY -> HELD (by the caller) -> FREE. One slot more than reads
 * in flight, so that the block held by the caller does not slow reading down. Slots of the current range are in a queue
 * by file offset; a slot still READING when the next range begins is marked stale and goes FREE at its event.
 *
 * A compressed file is always read from its beginning. Its blocks are taken like those of others, one at a time, and
 * unpacked into one more block, which is what the caller gets. */
#include "shuffle/scan/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/state.h"

enum slot_state { SLOT_FREE, SLOT_READING, SLOT_READY, SLOT_HELD, SLOT_STATE_COUNT };
static const struct base_state_row slot_rows[SLOT_STATE_COUNT] = {
    [SLOT_FREE] = {"free", 1U << SLOT_READING | 1U << SLOT_READY | 1U << SLOT_HELD}, /* unread ones of a file left */
    [SLOT_READING] = {"reading", 1U << SLOT_FREE},
    [SLOT_READY] = {"ready", 1U << SLOT_READING},
    [SLOT_HELD] = {"held", 1U << SLOT_READY},
};
static const struct base_machine slot_machine = {"slot of a reader", slot_rows, SLOT_STATE_COUNT};

struct reader_slot {
    struct net_file_op op;
    struct base_state state; /* enum slot_state */
    bool stale;
};

struct shuffle_reader {
    struct shuffle_reader_config config;
    uint8_t *memory;
    size_t memory_bytes;
    uint32_t slot_count;
    struct reader_slot *slot;
    uint32_t *queue; /* slots of the range in order of offset: a ring of slot_count */
    uint32_t queue_head, queue_count;
    uint32_t in_flight;
    const struct shuffle_file *file;
    const struct shuffle_file *open_file; /* what fd is of, NULL: none */
    int fd;
    uint64_t next_offset; /* of the next read to start */
    uint64_t ahead_end;
    uint64_t bytes;
    struct base_error failure; /* of a read of this range */
    struct {                   /* of a compressed file */
        struct shuffle_unpacker *unpacker;
        uint8_t *memory; /* one block */
        struct shuffle_reader_block block;
        bool given;                      /* the block was handed out */
        struct shuffle_unpack_step step; /* its input is the block of the file that is being unpacked */
        uint64_t offset;                 /* after that block */
    } packed;
};

enum base_status shuffle_reader_open(const struct shuffle_reader_config *config, struct shuffle_reader **reader,
                                     struct base_error *error)
{
    BASE_ASSERT(config->block_bytes > 0 && config->reads_in_flight > 0);
    struct shuffle_reader *made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->config = *config;
    made->fd = -1;
    made->slot_count = config->reads_in_flight + 1;
    made->slot = calloc(made->slot_count, sizeof *made->slot);
    made->queue = calloc(made->slot_count, sizeof *made->queue);
    if (!made->slot || !made->queue)
        goto no_memory;
    made->memory_bytes = (size_t)made->slot_count * config->block_bytes + SHUFFLE_READER_PADDING;
    void *memory;
    const enum base_status status =
        base_pages_map(config->governor, BASE_HOLDER_SCAN, made->memory_bytes, false, &memory, error);
    if (status != BASE_OK) {
        free(made->slot);
        free(made->queue);
        free(made);
        return status;
    }
    made->memory = memory;
    for (uint32_t i = 0; i < made->slot_count; i++)
        base_state_begin(&made->slot[i].state, &slot_machine, SLOT_FREE);
    *reader = made;
    return BASE_OK;
no_memory:
    if (made) {
        free(made->slot);
        free(made->queue);
    }
    free(made);
    return base_error_set(error, BASE_NO_MEMORY, "no memory for a reader of %u reads", config->reads_in_flight);
}

void shuffle_reader_begin(struct shuffle_reader *reader, const struct shuffle_file *file, uint64_t begin,
                          uint64_t ahead_end)
{
    for (uint32_t i = 0; i < reader->slot_count; i++) {
        if (reader->slot[i].state.now == SLOT_READING)
            reader->slot[i].stale = true;
        else if (reader->slot[i].state.now != SLOT_FREE)
            base_state_enter(&reader->slot[i].state, SLOT_FREE);
    }
    reader->queue_head = reader->queue_count = 0;
    reader->file = file;
    reader->next_offset = begin;
    reader->ahead_end = base_min_u64(ahead_end, file->bytes);
    shuffle_unpacker_close(reader->packed.unpacker);
    reader->packed.unpacker = NULL;
    reader->failure = (struct base_error){0};
}

/* Opens the range's file, unless it is open. BASE_BUSY while reads of another file are in flight. */
static enum base_status open_file(struct shuffle_reader *reader, struct base_error *error)
{
    if (reader->open_file == reader->file)
        return BASE_OK;
    if (reader->in_flight > 0)
        return BASE_BUSY;
    if (reader->fd >= 0)
        close(reader->fd);
    reader->open_file = NULL;
    reader->fd = -1;
    const enum base_status status = shuffle_file_open(reader->file, &reader->fd, error);
    if (status == BASE_OK)
        reader->open_file = reader->file;
    return status;
}

static struct reader_slot *find_free(struct shuffle_reader *reader, uint32_t *index)
{
    for (*index = 0; *index < reader->slot_count; ++*index)
        if (reader->slot[*index].state.now == SLOT_FREE)
            return &reader->slot[*index];
    return NULL;
}

/* The place `steps` after the queue's head. */
static uint32_t queue_index(const struct shuffle_reader *reader, uint32_t steps)
{
    const uint32_t index = reader->queue_head + steps;
    return index < reader->slot_count ? index : index - reader->slot_count;
}

/* Starts the read at next_offset, up to limit. False when that has to wait. */
static bool start_read(struct shuffle_reader *reader, uint64_t limit)
{
    uint32_t index;
    struct reader_slot *slot = find_free(reader, &index);
    if (!slot || reader->in_flight == reader->config.reads_in_flight)
        return false;
    slot->op = (struct net_file_op){
        .kind = NET_FILE_READ,
        .fd = reader->fd,
        .buffer = reader->memory + (size_t)index * reader->config.block_bytes,
        .bytes = (uint32_t)base_min_u64(reader->config.block_bytes, limit - reader->next_offset),
        .offset = reader->next_offset,
        .context = reader->config.context,
        .tag = reader->config.tag,
    };
    const enum base_status status = net_file_submit(reader->config.engine, &slot->op);
    if (status == BASE_BUSY)
        return false;
    if (status != BASE_OK) {
        base_error_set(&reader->failure, status, "cannot read %s: %s", reader->file->path, base_status_words(status));
        return false;
    }
    base_state_enter(&slot->state, SLOT_READING);
    slot->stale = false;
    reader->queue[queue_index(reader, reader->queue_count++)] = index;
    reader->next_offset += slot->op.bytes;
    reader->in_flight++;
    return true;
}

/* The next block as it is in the file. */
static enum base_status next_stored(struct shuffle_reader *reader, struct shuffle_reader_block *block,
                                    struct base_error *error)
{
    BASE_ASSERT(reader->file);
    for (uint32_t i = 0; i < reader->slot_count; i++)
        if (reader->slot[i].state.now == SLOT_HELD)
            base_state_enter(&reader->slot[i].state, SLOT_FREE);
    enum base_status status = open_file(reader, error);
    if (status != BASE_OK)
        return status;
    while (reader->next_offset < reader->ahead_end && start_read(reader, reader->ahead_end))
        continue;
    /* Only after the eager part: no block reaches over its end, also when the engine refused a read just now. */
    if (reader->queue_count == 0 && reader->next_offset >= reader->ahead_end &&
        reader->next_offset < reader->file->bytes)
        start_read(reader, reader->file->bytes);
    if (reader->failure.status != BASE_OK) {
        if (error)
            *error = reader->failure;
        return reader->failure.status;
    }
    if (reader->queue_count == 0)
        return reader->next_offset < reader->file->bytes ? BASE_BUSY : BASE_END;
    struct reader_slot *slot = &reader->slot[reader->queue[reader->queue_head]];
    if (slot->state.now != SLOT_READY)
        return BASE_BUSY;
    reader->queue_head = queue_index(reader, 1);
    reader->queue_count--;
    base_state_enter(&slot->state, SLOT_HELD);
    reader->bytes += slot->op.bytes;
    *block = (struct shuffle_reader_block){.data = slot->op.buffer,
                                           .bytes = slot->op.bytes,
                                           .offset = slot->op.offset,
                                           .final = slot->op.offset + slot->op.bytes == reader->file->bytes};
    return BASE_OK;
}

static size_t packed_memory_bytes(const struct shuffle_reader *reader)
{
    return (size_t)reader->config.block_bytes + SHUFFLE_READER_PADDING;
}

static enum base_status packed_begin(struct shuffle_reader *reader, struct base_error *error)
{
    if (!reader->packed.memory) {
        void *memory;
        const enum base_status status = base_pages_map(reader->config.governor, BASE_HOLDER_SCAN,
                                                       packed_memory_bytes(reader), false, &memory, error);
        if (status != BASE_OK)
            return status;
        reader->packed.memory = memory;
    }
    reader->packed.block = (struct shuffle_reader_block){.data = reader->packed.memory};
    reader->packed.given = false;
    reader->packed.step = (struct shuffle_unpack_step){.in = NULL};
    reader->packed.offset = 0;
    return shuffle_unpacker_open(reader->file->packing, reader->config.governor, &reader->packed.unpacker, error);
}

/* Unpacks more into the block. At the end of the file: the block is final. */
static enum base_status packed_fill(struct shuffle_reader *reader, struct base_error *error)
{
    struct shuffle_unpack_step *step = &reader->packed.step;
    struct shuffle_reader_block *block = &reader->packed.block;
    if (step->in_bytes == 0 && !shuffle_unpacker_pending(reader->packed.unpacker)) {
        struct shuffle_reader_block stored;
        const enum base_status status = next_stored(reader, &stored, error);
        if (status == BASE_END && !shuffle_unpacker_whole(reader->packed.unpacker))
            return base_error_set(error, BASE_PARSE,
                                  "%s: the compressed data ends too early, at byte %" PRIu64 " of the file",
                                  reader->file->path, reader->packed.offset);
        block->final = status == BASE_END;
        if (status != BASE_OK)
            return block->final ? BASE_OK : status;
        step->in = stored.data;
        step->in_bytes = stored.bytes;
        reader->packed.offset = stored.offset + stored.bytes;
    }
    step->out = block->data + block->bytes;
    step->out_bytes = reader->config.block_bytes - block->bytes;
    struct base_error cause;
    const enum base_status status = shuffle_unpacker_step(reader->packed.unpacker, step, &cause);
    if (status != BASE_OK)
        return base_error_set(error, status, "%s: %s, at byte %" PRIu64 " of the file", reader->file->path, cause.text,
                              reader->packed.offset - step->in_bytes);
    block->bytes = reader->config.block_bytes - (uint32_t)step->out_bytes;
    return BASE_OK;
}

static enum base_status next_packed(struct shuffle_reader *reader, struct shuffle_reader_block *block,
                                    struct base_error *error)
{
    struct shuffle_reader_block *mine = &reader->packed.block;
    enum base_status status = !reader->packed.unpacker ? packed_begin(reader, error) : BASE_OK;
    if (reader->packed.given && mine->final)
        return BASE_END;
    if (reader->packed.given) {
        mine->offset += mine->bytes;
        mine->bytes = 0;
        reader->packed.given = false;
    }
    while (status == BASE_OK && !mine->final && mine->bytes < reader->config.block_bytes)
        status = packed_fill(reader, error);
    if (status != BASE_OK)
        return status;
    reader->packed.given = true;
    *block = *mine;
    return BASE_OK;
}

enum base_status shuffle_reader_next(struct shuffle_reader *reader, struct shuffle_reader_block *block,
                                     struct base_error *error)
{
    return reader->file->packing == SHUFFLE_PACKING_NONE ? next_stored(reader, block, error)
                                                         : next_packed(reader, block, error);
}

void shuffle_reader_event(struct shuffle_reader *reader, const struct net_event *event)
{
    struct reader_slot *slot =
        (struct reader_slot *)(void *)((uint8_t *)event->file - offsetof(struct reader_slot, op));
    BASE_ASSERT(slot >= reader->slot && slot < reader->slot + reader->slot_count && slot->state.now == SLOT_READING);
    BASE_ASSERT(reader->in_flight > 0);
    reader->in_flight--;
    if (slot->stale) {
        base_state_enter(&slot->state, SLOT_FREE);
        return;
    }
    base_state_enter(&slot->state, SLOT_READY);
    if (reader->failure.status != BASE_OK)
        return;
    if (event->status != BASE_OK && event->os_error != 0)
        base_error_set_errno(&reader->failure, event->os_error, "cannot read %s at byte %" PRIu64, reader->file->path,
                             slot->op.offset);
    else if (event->status != BASE_OK)
        base_error_set(&reader->failure, event->status, "cannot read %s at byte %" PRIu64 ": %s", reader->file->path,
                       slot->op.offset, base_status_words(event->status));
    else if (event->bytes != slot->op.bytes)
        base_error_set(&reader->failure, BASE_IO,
                       "%s changed while the job ran: it ends at byte %" PRIu64 ", but counted %" PRIu64
                       " bytes when the job was planned; leave input files alone until the job ends, and run it again",
                       reader->file->path, slot->op.offset + event->bytes, reader->file->bytes);
}

enum base_status shuffle_reader_check(const struct shuffle_reader *reader, struct base_error *error)
{
    return reader->open_file == reader->file && reader->file ? shuffle_file_check(reader->file, reader->fd, error)
                                                             : BASE_OK;
}

bool shuffle_reader_idle(const struct shuffle_reader *reader)
{
    return reader->in_flight == 0;
}

void shuffle_reader_close(struct shuffle_reader *reader)
{
    if (!reader)
        return;
    BASE_ASSERT(reader->in_flight == 0);
    if (reader->fd >= 0)
        close(reader->fd);
    shuffle_unpacker_close(reader->packed.unpacker);
    if (reader->packed.memory)
        base_pages_unmap(reader->config.governor, BASE_HOLDER_SCAN, reader->packed.memory, packed_memory_bytes(reader));
    base_pages_unmap(reader->config.governor, BASE_HOLDER_SCAN, reader->memory, reader->memory_bytes);
    free(reader->slot);
    free(reader->queue);
    free(reader);
}

uint64_t shuffle_reader_bytes(const struct shuffle_reader *reader)
{
    return reader->bytes;
}
