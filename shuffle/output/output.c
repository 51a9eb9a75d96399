/* Output of result rows.
 *
 * A row is encoded straight into the buffer being filled when that has room for the most it can take. A row that could
 * be larger than any buffer is encoded into the spill and copied on in pieces, over several calls if need be; it counts
 * as taken at once. Buffers go FREE -> FILLING -> SEALED (full, its place in the file fixed) -> WRITING -> FREE; a
 * sealed buffer waits only while the engine's queue is full. */
#include "shuffle/output/output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "base/state.h"
#include "shuffle/output/encode.h"
#include "shuffle/output/plain.h"
#include "shuffle/output/publish.h"
#include "shuffle/scan/scan.h"

enum { BUFFER_BYTES = 256 << 10, WRITES_IN_FLIGHT = 4 };

enum buffer_state { BUFFER_FREE, BUFFER_FILLING, BUFFER_SEALED, BUFFER_WRITING, BUFFER_STATE_COUNT };
static const struct base_state_row buffer_rows[BUFFER_STATE_COUNT] = {
    [BUFFER_FREE] = {"free", 1U << BUFFER_FILLING | 1U << BUFFER_WRITING},
    [BUFFER_FILLING] = {"filling", 1U << BUFFER_FREE},
    [BUFFER_SEALED] = {"sealed", 1U << BUFFER_FILLING},
    [BUFFER_WRITING] = {"writing", 1U << BUFFER_SEALED},
};
static const struct base_machine buffer_machine = {"buffer of an output", buffer_rows, BUFFER_STATE_COUNT};

struct output_buffer {
    struct net_file_op op;
    struct base_state state; /* enum buffer_state */
    uint8_t *data;
    uint32_t used;
    uint64_t offset;
};

/* Governed memory that grows. */
struct output_scratch {
    uint8_t *data;
    size_t capacity;
};

enum sync_state { SYNC_NOT_YET, SYNC_RUNNING, SYNC_DONE, SYNC_STATE_COUNT };
static const struct base_state_row sync_rows[SYNC_STATE_COUNT] = {
    [SYNC_NOT_YET] = {"not yet", 0},
    [SYNC_RUNNING] = {"running", 1U << SYNC_NOT_YET},
    [SYNC_DONE] = {"done", 1U << SYNC_RUNNING},
};
static const struct base_machine sync_machine = {"sync of an output", sync_rows, SYNC_STATE_COUNT};

struct shuffle_output {
    struct shuffle_output_config config;
    struct output_encoder encoder;
    struct output_scratch image; /* of a row, or of a group of plain rows, for the checksum */
    bool plain;
    uint32_t image_bytes; /* of the part that does not depend on string lengths */
    uint64_t rows, checksum, bytes, stalls;

    char *path; /* what config.path points to */
    int fd;
    struct output_buffer *buffer;
    uint32_t buffer_count;
    uint8_t *memory;
    size_t memory_bytes;
    struct output_buffer *filling; /* or NULL */
    uint64_t file_offset;          /* of the next buffer sealed */
    struct output_scratch spill;
    size_t spill_at, spill_bytes;
    struct net_file_op sync_op;
    struct base_state sync; /* enum sync_state */
    uint32_t in_flight;     /* writes and sync */
    struct base_error failure;
};

static enum base_status scratch_reserve(struct shuffle_output *output, struct output_scratch *scratch, uint64_t bytes,
                                        struct base_error *error)
{
    if (bytes <= scratch->capacity)
        return BASE_OK;
    const size_t capacity = base_align_up((size_t)bytes + (size_t)bytes / 2, 4096);
    void *grown;
    const enum base_status status =
        base_pages_map(output->config.governor, BASE_HOLDER_OUTPUT, capacity, false, &grown, error);
    if (status != BASE_OK)
        return status;
    if (scratch->data)
        base_pages_unmap(output->config.governor, BASE_HOLDER_OUTPUT, scratch->data, scratch->capacity);
    scratch->data = grown;
    scratch->capacity = capacity;
    return BASE_OK;
}

/* ---- checksum ---- */

static inline uint8_t *put_bytes(uint8_t *to, const uint8_t *value, uint32_t bytes)
{
    if (bytes == 8)
        base_store_u64(to, base_load_u64(value));
    else if (bytes == 4)
        base_store_u32(to, base_load_u32(value));
    else
        memcpy(to, value, bytes);
    return to + bytes;
}

/* Refuses a row that could not be read back, before memory goes into its text; makes room for its image. */
static enum base_status prepare_row(struct shuffle_output *output, const uint8_t *const row[2],
                                    struct base_error *error)
{
    const struct output_encoder *encoder = &output->encoder;
    const uint64_t variable = output_variable_bytes(encoder, row);
    const uint64_t bytes = encoder->head_bytes + variable;
    if (output->config.kind != SHUFFLE_OUTPUT_COUNT && bytes > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(error, BASE_TOO_LARGE,
                              "cannot write %s: a result row of %" PRIu64
                              " bytes is larger than the %u bytes a row may "
                              "have, and could not be read back; select fewer columns",
                              output->config.path, bytes, SHUFFLE_ROW_BYTES_MAX);
    return scratch_reserve(output, &output->image, output->image_bytes + variable, error);
}

/* Writes the value of a cut row straight from its pieces; returns the end of the item. */
static uint8_t *put_cut(uint8_t *to, const struct output_item *item, const struct shuffle_cut *cut)
{
    uint32_t offset, bytes;
    *to = output_item_cut(item, cut, &offset, &bytes);
    if (*to++ == 0)
        return to;
    base_store_u32(to, bytes);
    shuffle_cut_copy(cut, offset, bytes, to + 4);
    return to + 4 + bytes;
}

/* Makes the row's image at `image`. */
static uint64_t row_checksum(const struct shuffle_output *output, uint8_t *image, const uint8_t *const row[2])
{
    uint8_t *to = image;
    for (uint32_t i = 0; i < output->encoder.count; i++) {
        const struct output_item *item = &output->encoder.item[i];
        const struct shuffle_cut *cut = shuffle_row_cut(row[item->side]);
        if (cut) {
            to = put_cut(to, item, cut);
            continue;
        }
        uint32_t bytes;
        const uint8_t *value = output_item_value(item, row, &bytes);
        *to++ = value != NULL;
        if (!value)
            continue;
        base_store_u32(to, bytes);
        to = put_bytes(to + 4, value, bytes);
    }
    return XXH3_64bits(image, (size_t)(to - image));
}

/* A pointer to the row that is good for reading the items of its side. They are small here, so of a cut row all are
 * joined. */
static const uint8_t *plain_row(const struct shuffle_output *output, uint32_t side, const uint8_t *row)
{
    struct shuffle_cut *cut = shuffle_row_cut(row);
    if (!cut)
        return row;
    for (uint32_t i = 0; i < output->encoder.count; i++)
        if (output->encoder.item[i].side == side)
            shuffle_cut_join(cut, output->encoder.item[i].slot->offset, output->encoder.item[i].slot->width);
    return cut->whole;
}

static void sum_plain(struct shuffle_output *output, const uint8_t *const *left, const uint8_t *const *right,
                      uint32_t count)
{
    const uint8_t *const *const rows[2] = {left, right};
    output->checksum +=
        shuffle_output_plain_sum(&output->encoder, output->image_bytes, output->image.data, rows, count);
}

/* Of a row with a side that is NULL, whose image has a place after those of a group. */
static uint64_t padded_sum(const struct shuffle_output *output, const uint8_t *left, const uint8_t *right)
{
    const uint8_t *const row[2] = {left, right};
    return row_checksum(output, output->image.data + (size_t)OUTPUT_PLAIN_ROWS * output->image_bytes, row);
}

/* Counts as many rows as can be taken a group at a time: all, or none. */
static uint32_t count_plain(struct shuffle_output *output, const uint8_t *const *left, const uint8_t *const *right,
                            uint32_t count)
{
    uint32_t done = 0;
    if (!output->plain)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        const bool padded = !left[i] || (right && !right[i]);
        if (!padded && !shuffle_row_cut(left[i]) && (!right || !shuffle_row_cut(right[i])))
            continue;
        sum_plain(output, left + done, right ? right + done : NULL, i - done);
        done = i + 1;
        if (padded) {
            output->checksum += padded_sum(output, left[i], right ? right[i] : NULL);
            continue;
        }
        const uint8_t *a = plain_row(output, 0, left[i]), *b = right ? plain_row(output, 1, right[i]) : NULL;
        sum_plain(output, &a, right ? &b : NULL, 1);
    }
    sum_plain(output, left + done, right ? right + done : NULL, count - done);
    output->rows += count;
    return count;
}

/* ---- buffers ---- */

static void output_fail(struct shuffle_output *output, enum base_status status, int os_error)
{
    if (output->failure.status != BASE_OK)
        return;
    const char *advice = status == BASE_NO_SPACE ? " (make room, or choose another directory)" : "";
    if (os_error != 0)
        base_error_set_errno(&output->failure, os_error, "cannot write %s%s", output->config.path, advice);
    else
        base_error_set(&output->failure, status, "cannot write %s%s: %s", output->config.path, advice,
                       base_status_words(status));
}

static enum base_status output_failure(const struct shuffle_output *output, struct base_error *error)
{
    if (output->failure.status != BASE_OK && error)
        *error = output->failure;
    return output->failure.status;
}

/* A buffer that could not be submitted stays sealed: then BUSY would wait for ever. */
static enum base_status busy_or_failed(const struct shuffle_output *output, enum base_status status,
                                       struct base_error *error)
{
    return status == BASE_BUSY && output->failure.status != BASE_OK ? output_failure(output, error) : status;
}

static void submit_sealed(struct shuffle_output *output)
{
    for (uint32_t i = 0; i < output->buffer_count; i++) {
        struct output_buffer *buffer = &output->buffer[i];
        if (buffer->state.now != BUFFER_SEALED || output->failure.status != BASE_OK)
            continue;
        buffer->op = (struct net_file_op){.kind = NET_FILE_WRITE,
                                          .fd = output->fd,
                                          .buffer = buffer->data,
                                          .bytes = buffer->used,
                                          .offset = buffer->offset,
                                          .context = output,
                                          .tag = SHUFFLE_FILE_TAG_OUTPUT};
        const enum base_status status = net_file_submit(output->config.engine, &buffer->op);
        if (status == BASE_BUSY)
            return;
        if (status != BASE_OK) {
            output_fail(output, status, 0);
            return;
        }
        base_state_enter(&buffer->state, BUFFER_WRITING);
        output->in_flight++;
    }
}

static void output_seal(struct shuffle_output *output)
{
    struct output_buffer *buffer = output->filling;
    output->filling = NULL;
    if (!buffer)
        return;
    if (buffer->used == 0) {
        base_state_enter(&buffer->state, BUFFER_FREE);
        return;
    }
    BASE_ASSERT(buffer->state.now == BUFFER_FILLING && buffer->used <= output->config.buffer_bytes);
    buffer->offset = output->file_offset;
    output->file_offset += buffer->used;
    base_state_enter(&buffer->state, BUFFER_SEALED);
    submit_sealed(output);
}

/* Makes output->filling a buffer with room for `bytes` bytes; false: none is free. */
static bool make_room(struct shuffle_output *output, uint64_t bytes)
{
    if (output->filling && output->config.buffer_bytes - output->filling->used >= bytes)
        return true;
    output_seal(output);
    for (uint32_t i = 0; i < output->buffer_count; i++) {
        if (output->buffer[i].state.now == BUFFER_FREE) {
            output->filling = &output->buffer[i];
            base_state_enter(&output->filling->state, BUFFER_FILLING);
            output->filling->used = 0;
            return true;
        }
    }
    /* What the engine refused before: with none of our writes in flight no event of ours would come to do this. */
    submit_sealed(output);
    return false;
}

/* Copies what is left of the spill into buffers; false: they are full. */
static bool drain_spill(struct shuffle_output *output)
{
    while (output->spill_at < output->spill_bytes) {
        if (!make_room(output, 1))
            return false;
        struct output_buffer *buffer = output->filling;
        const size_t left = output->spill_bytes - output->spill_at;
        const uint32_t bytes = (uint32_t)base_min_u64(output->config.buffer_bytes - buffer->used, left);
        memcpy(buffer->data + buffer->used, output->spill.data + output->spill_at, bytes);
        buffer->used += bytes;
        output->spill_at += bytes;
    }
    return true;
}

/* ---- rows ---- */

static uint64_t bound_of(const struct shuffle_output *output, const uint8_t *const row[2])
{
    return output->config.kind == SHUFFLE_OUTPUT_CSV ? shuffle_output_csv_bound(&output->encoder, row)
                                                     : output->encoder.bound_bytes;
}

static size_t output_encode(const struct shuffle_output *output, const uint8_t *const row[2], uint8_t *to)
{
    return output->config.kind == SHUFFLE_OUTPUT_CSV ? shuffle_output_csv_encode(&output->encoder, row, to)
                                                     : shuffle_output_fixed_encode(&output->encoder, row, to);
}

/* Takes the row into a buffer or the spill. BASE_BUSY: it was not taken. */
static enum base_status place_row(struct shuffle_output *output, const uint8_t *const row[2], struct base_error *error)
{
    if (!drain_spill(output))
        return BASE_BUSY;
    const uint64_t bound = bound_of(output, row);
    if (bound <= output->config.buffer_bytes) {
        if (!make_room(output, bound))
            return BASE_BUSY;
        const size_t bytes = output_encode(output, row, output->filling->data + output->filling->used);
        BASE_ASSERT_SLOW(bytes <= bound);
        output->filling->used += (uint32_t)bytes;
        output->bytes += bytes;
        return BASE_OK;
    }
    const enum base_status status = scratch_reserve(output, &output->spill, bound, error);
    if (status != BASE_OK)
        return status;
    const size_t bytes = output_encode(output, row, output->spill.data);
    if (bytes > SHUFFLE_ROW_BYTES_MAX)
        return base_error_set(
            error, BASE_TOO_LARGE,
            "cannot write %s: the text of a result row has %zu bytes, more than the %u bytes a record "
            "may have, and could not be read back; select fewer columns, or write --output-format=bin",
            output->config.path, bytes, SHUFFLE_ROW_BYTES_MAX);
    BASE_ASSERT(output->spill_at == output->spill_bytes && bytes <= bound); /* the row before has left it */
    output->spill_at = 0;
    output->spill_bytes = bytes;
    output->bytes += bytes;
    drain_spill(output);
    return BASE_OK;
}

enum base_status shuffle_output_write(struct shuffle_output *output, const uint8_t *const *left,
                                      const uint8_t *const *right, uint32_t count, uint32_t *taken,
                                      struct base_error *error)
{
    BASE_ASSERT(output->sync.now == SYNC_NOT_YET && *taken <= count);
    enum base_status status = output_failure(output, error);
    if (status != BASE_OK)
        return status;
    *taken += count_plain(output, left + *taken, right ? right + *taken : NULL, count - *taken);
    for (; *taken < count; ++*taken) {
        const uint8_t *const row[2] = {left[*taken], right ? right[*taken] : NULL};
        if (output->encoder.variable || output->encoder.head_bytes > SHUFFLE_ROW_BYTES_MAX) {
            status = prepare_row(output, row, error);
            if (status != BASE_OK)
                return status;
        }
        if (output->config.kind != SHUFFLE_OUTPUT_COUNT) {
            status = place_row(output, row, error);
            output->stalls += status == BASE_BUSY;
            if (status != BASE_OK)
                return busy_or_failed(output, status, error);
        }
        output->checksum += row_checksum(output, output->image.data, row);
        output->rows++;
    }
    return output_failure(output, error);
}

enum base_status shuffle_output_finish(struct shuffle_output *output, struct base_error *error)
{
    const enum base_status status = output_failure(output, error);
    if (status != BASE_OK || output->config.kind == SHUFFLE_OUTPUT_COUNT || output->sync.now == SYNC_DONE)
        return status;
    submit_sealed(output);
    if (!drain_spill(output))
        return busy_or_failed(output, BASE_BUSY, error);
    output_seal(output);
    for (uint32_t i = 0; i < output->buffer_count; i++)
        if (output->buffer[i].state.now != BUFFER_FREE)
            return busy_or_failed(output, BASE_BUSY, error);
    if (output->sync.now == SYNC_RUNNING)
        return BASE_BUSY;
    /* What is synced is all that was taken, byte for byte. */
    BASE_ASSERT(output->in_flight == 0 && output->file_offset == output->bytes);
    output->sync_op = (struct net_file_op){
        .kind = NET_FILE_SYNC, .fd = output->fd, .context = output, .tag = SHUFFLE_FILE_TAG_OUTPUT};
    const enum base_status submitted = net_file_submit(output->config.engine, &output->sync_op);
    if (submitted == BASE_OK) {
        base_state_enter(&output->sync, SYNC_RUNNING);
        output->in_flight++;
    } else if (submitted != BASE_BUSY) {
        output_fail(output, submitted, 0);
        return output_failure(output, error);
    }
    return BASE_BUSY;
}

void shuffle_output_event(struct shuffle_output *output, const struct net_event *event)
{
    BASE_ASSERT(output->in_flight > 0);
    output->in_flight--;
    if (event->status != BASE_OK)
        output_fail(output, event->status, event->os_error);
    if (event->file == &output->sync_op) {
        base_state_enter(&output->sync, SYNC_DONE);
        return;
    }
    struct output_buffer *buffer =
        (struct output_buffer *)(void *)((uint8_t *)event->file - offsetof(struct output_buffer, op));
    BASE_ASSERT(buffer >= output->buffer && buffer < output->buffer + output->buffer_count &&
                buffer->state.now == BUFFER_WRITING);
    base_state_enter(&buffer->state, BUFFER_FREE);
    submit_sealed(output);
}

/* ---- opening and closing ---- */

static enum base_status map_items(struct shuffle_output *output, struct base_error *error)
{
    const struct shuffle_output_config *config = &output->config;
    struct output_encoder *encoder = &output->encoder;
    encoder->count = config->item_count;
    encoder->item = calloc(config->item_count + 1, sizeof *encoder->item);
    if (!encoder->item)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for an output of %u columns", config->item_count);
    uint64_t image_bytes = 0;
    uint32_t null_bits = 0;
    for (uint32_t i = 0; i < config->item_count; i++) {
        const struct shuffle_output_item *from = &config->item[i];
        const struct shuffle_layout *layout = config->layout[from->side];
        BASE_ASSERT(from->side < 2 && layout && from->column < layout->count);
        encoder->item[i] = (struct output_item){
            .side = from->side, .column = from->column, .layout = layout, .slot = &layout->slot[from->column]};
        const bool variable = shuffle_type_variable(encoder->item[i].slot->type);
        encoder->variable |= variable;
        image_bytes += 1 + 4 + (variable ? 0 : encoder->item[i].slot->width);
        encoder->head_bytes += encoder->item[i].slot->width;
        null_bits += config->schema ? config->schema->field[i].nullable : encoder->item[i].slot->null_bit >= 0;
    }
    encoder->head_bytes += (null_bits + 7) / 8;
    if (image_bytes > UINT32_MAX / 2)
        return base_error_set(error, BASE_TOO_LARGE, "the selected columns make rows of %" PRIu64 " bytes",
                              image_bytes);
    output->image_bytes = (uint32_t)image_bytes;
    output->plain = config->kind == SHUFFLE_OUTPUT_COUNT && shuffle_output_plain(encoder, output->image_bytes);
    const uint64_t scratch_bytes = output->plain ? (OUTPUT_PLAIN_ROWS + 1) * image_bytes : image_bytes + 1;
    const enum base_status status = scratch_reserve(output, &output->image, scratch_bytes, error);
    if (status == BASE_OK && output->plain)
        shuffle_output_plain_prepare(encoder, output->image_bytes, output->image.data);
    return status;
}

static enum base_status prepare_encoder(struct shuffle_output *output, struct base_error *error)
{
    if (output->config.kind == SHUFFLE_OUTPUT_FIXED)
        return shuffle_output_fixed_prepare(&output->config, &output->encoder, error);
    if (output->config.kind == SHUFFLE_OUTPUT_CSV)
        shuffle_output_csv_prepare(&output->encoder);
    return BASE_OK;
}

static enum base_status map_buffers(struct shuffle_output *output, struct base_error *error)
{
    output->buffer_count = output->config.writes_in_flight + 1;
    output->buffer = calloc(output->buffer_count, sizeof *output->buffer);
    if (!output->buffer)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for %u output buffers", output->buffer_count);
    const size_t bytes = (size_t)output->buffer_count * output->config.buffer_bytes;
    void *memory;
    const enum base_status status =
        base_pages_map(output->config.governor, BASE_HOLDER_OUTPUT, bytes, false, &memory, error);
    if (status != BASE_OK)
        return status;
    output->memory = memory;
    output->memory_bytes = bytes;
    for (uint32_t i = 0; i < output->buffer_count; i++) {
        base_state_begin(&output->buffer[i].state, &buffer_machine, BUFFER_FREE);
        output->buffer[i].data = output->memory + (size_t)i * output->config.buffer_bytes;
    }
    return BASE_OK;
}

/* The header waits in the spill for the first row or the end. */
static enum base_status write_header(struct shuffle_output *output, struct base_error *error)
{
    char *header = shuffle_output_csv_header(output->config.schema);
    if (!header)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the header of %s", output->config.path);
    const size_t bytes = strlen(header);
    const enum base_status status = scratch_reserve(output, &output->spill, bytes, error);
    if (status == BASE_OK) {
        memcpy(output->spill.data, header, bytes);
        output->spill_bytes = bytes;
        output->bytes = bytes;
    }
    free(header);
    return status;
}

static enum base_status create_file(struct shuffle_output *output, struct base_error *error)
{
    enum base_status status = map_buffers(output, error);
    if (status == BASE_OK && output->config.kind == SHUFFLE_OUTPUT_CSV && output->config.csv_header)
        status = write_header(output, error);
    if (status != BASE_OK)
        return status;
    return shuffle_publish_create(output->config.path, &output->fd, error);
}

enum base_status shuffle_output_open(const struct shuffle_output_config *config, struct shuffle_output **output,
                                     struct base_error *error)
{
    struct shuffle_output *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for an output");
    base_state_begin(&made->sync, &sync_machine, SYNC_NOT_YET);
    made->config = *config;
    made->config.path = NULL;
    made->fd = -1;
    if (made->config.buffer_bytes == 0)
        made->config.buffer_bytes = BUFFER_BYTES;
    if (made->config.writes_in_flight == 0)
        made->config.writes_in_flight = WRITES_IN_FLIGHT;
    enum base_status status = BASE_OK;
    if (config->path && !(made->path = strdup(config->path)))
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for the name of %s", config->path);
    made->config.path = made->path;
    if (status == BASE_OK)
        status = map_items(made, error);
    if (status == BASE_OK)
        status = prepare_encoder(made, error);
    if (status == BASE_OK && config->kind != SHUFFLE_OUTPUT_COUNT)
        status = create_file(made, error);
    if (status != BASE_OK) {
        shuffle_output_close(made);
        return status;
    }
    *output = made;
    return BASE_OK;
}

bool shuffle_output_idle(const struct shuffle_output *output)
{
    return output->in_flight == 0;
}

static void scratch_free(struct shuffle_output *output, struct output_scratch *scratch)
{
    if (scratch->data)
        base_pages_unmap(output->config.governor, BASE_HOLDER_OUTPUT, scratch->data, scratch->capacity);
}

void shuffle_output_close(struct shuffle_output *output)
{
    if (!output)
        return;
    BASE_ASSERT(output->in_flight == 0);
    if (output->fd >= 0)
        close(output->fd);
    scratch_free(output, &output->image);
    scratch_free(output, &output->spill);
    if (output->memory)
        base_pages_unmap(output->config.governor, BASE_HOLDER_OUTPUT, output->memory, output->memory_bytes);
    free(output->buffer);
    free(output->encoder.item);
    shuffle_layout_free(&output->encoder.result);
    free(output->path);
    free(output);
}

uint64_t shuffle_output_rows(const struct shuffle_output *output)
{
    return output->rows;
}

uint64_t shuffle_output_checksum(const struct shuffle_output *output)
{
    return output->checksum;
}

uint64_t shuffle_output_bytes(const struct shuffle_output *output)
{
    return output->bytes;
}

uint64_t shuffle_output_stalls(const struct shuffle_output *output)
{
    return output->stalls;
}
