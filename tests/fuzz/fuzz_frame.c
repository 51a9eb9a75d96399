/* Bytes from a peer into an inlet: whatever they are, nothing is read beyond them, nothing is allocated beyond a row,
 * and every row that reaches the sink is whole.
 *
 * Input: a byte of options, a byte for the size of the pieces, then the stream. With OPTION_REPAIR what is hard to
 * guess in a header (mark, workers, sequence, checksum) is put right first, so that the fuzzer gets to the rows. */
#include <stdlib.h>
#include <xxhash.h>

#include "base/assert.h"
#include "shuffle/exchange/exchange.h"
#include "shuffle/mesh/internal.h"

enum {
    OPTION_VARIABLE = 1,
    OPTION_VERIFY = 2,
    OPTION_REPAIR = 4,
    OPTION_BUSY = 8,
    OPTION_STRING_KEY = 16,
    STREAM_BYTES_MAX = 8192
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_sink {
    struct shuffle_sink base;
    const struct shuffle_layout *layout;
    bool busy;
    uint32_t calls;
    uint64_t sum;
};

static enum base_status consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct fuzz_sink *sink = (struct fuzz_sink *)base;
    (void)error;
    while (rows->next < rows->count) {
        if (sink->busy && ++sink->calls % 3 == 0)
            return BASE_BUSY;
        const uint8_t *row = rows->row[rows->next];
        const uint64_t bytes = shuffle_row_bytes(sink->layout, row);
        BASE_ASSERT(shuffle_row_check(sink->layout, row, bytes));
        sink->sum += XXH3_64bits(row, bytes);
        rows->next++;
    }
    return BASE_OK;
}

static const struct shuffle_sink_ops sink_ops = {.consume = consume};

/* Walks over the stream as far as it makes sense. */
static void repair(uint8_t *stream, size_t size, bool verify)
{
    uint64_t sequence[2] = {0, 0};
    size_t at = 0;
    while (size - at >= sizeof(struct shuffle_frame_header)) {
        struct shuffle_frame_header header;
        memcpy(&header, stream + at, sizeof header);
        const size_t left = size - at - sizeof header;
        header.magic = SHUFFLE_FRAME_MAGIC;
        header.source = 0;
        header.destination = 1;
        header.exchange &= 1;
        header.sequence = sequence[header.exchange]++;
        header.flags = verify ? SHUFFLE_FRAME_CHECKED : 0;
        if (verify && header.bytes <= left)
            header.check = XXH3_64bits(stream + at + sizeof header, header.bytes);
        memcpy(stream + at, &header, sizeof header);
        if (header.bytes > left)
            return;
        at += sizeof header + header.bytes;
    }
}

static void feed(struct shuffle_inlet *inlet, const uint8_t *stream, size_t size, size_t piece_bytes)
{
    uint8_t *copies[STREAM_BYTES_MAX];
    uint32_t count = 0;
    struct base_error error;
    enum base_status status = BASE_OK;
    for (size_t at = 0; at < size && status == BASE_OK; at += piece_bytes) {
        const size_t bytes = size - at < piece_bytes ? size - at : piece_bytes;
        /* Of exactly this size, so that a look beyond its end is noticed. */
        uint8_t *copy = copies[count++] = malloc(bytes);
        BASE_ASSERT(copy);
        memcpy(copy, stream + at, bytes);
        const struct shuffle_piece piece = {.data = copy, .bytes = (uint32_t)bytes};
        status = shuffle_inlet_push(inlet, &piece, &error);
        if (status == BASE_OK && count % 2)
            status = shuffle_inlet_run(inlet, &(bool){false}, &error);
    }
    /* Without anything moving: it waits for an exchange that is not opened here. */
    for (uint32_t idle = 0; status == BASE_OK && shuffle_inlet_holds(inlet) && idle < 5;) {
        bool worked = false;
        status = shuffle_inlet_run(inlet, &worked, &error);
        idle = worked ? 0 : idle + 1;
    }
    BASE_ASSERT(status == BASE_OK || (error.status == status && error.text[0]));
    shuffle_inlet_drop(inlet);
    for (uint32_t i = 0; i < count; i++)
        free(copies[i]);
}

static void run(const uint8_t *stream, size_t size, uint8_t options, size_t piece_bytes)
{
    static const char *const names[2] = {"n0", "n1"};
    static const struct net_address addresses[2];
    struct base_error error;
    struct shuffle_schema schema = {0};
    struct shuffle_layout layout;
    struct base_governor *governor;
    struct shuffle_mesh *mesh;
    struct shuffle_exchange *exchange[2];
    const bool variable = options & OPTION_VARIABLE;
    BASE_ASSERT(
        !shuffle_schema_parse(variable ? "k:int32,s:string,n:int16?,t:binary?" : "k:int64,v:int32", &schema, &error));
    BASE_ASSERT(!shuffle_layout_prepare(&schema, &layout, &error));
    BASE_ASSERT(!base_governor_open(UINT64_C(32) << 20, &governor, &error));
    const struct shuffle_mesh_config mesh_config = {.governor = governor,
                                                    .worker = 1,
                                                    .workers = 2,
                                                    .local_first = 1,
                                                    .local_count = 1,
                                                    .address = addresses,
                                                    .node_name = names};
    BASE_ASSERT(!shuffle_mesh_open(&mesh_config, &mesh, &error));
    struct fuzz_sink sink = {.base = {.ops = &sink_ops}, .layout = &layout, .busy = options & OPTION_BUSY};
    const bool string_key = variable && options & OPTION_STRING_KEY;
    const struct shuffle_key key = {.count = 1,
                                    .part[0] = {string_key, string_key ? SHUFFLE_KEY_BYTES : SHUFFLE_KEY_INTEGER}};
    for (uint8_t i = 0; i < 2; i++) {
        const struct shuffle_exchange_config config = {.mesh = mesh,
                                                       .governor = governor,
                                                       .id = i,
                                                       .layout = &layout,
                                                       .key = &key,
                                                       .frame_bytes = SHUFFLE_FRAME_BYTES_MIN,
                                                       .frames_per_lane = 1,
                                                       .verify = options & OPTION_VERIFY,
                                                       .sink = &sink.base};
        BASE_ASSERT(!shuffle_exchange_open(&config, &exchange[i], &error));
    }
    feed(&mesh->peers[0].inlet, stream, size, piece_bytes);
    BASE_ASSERT(base_governor_peak_bytes(governor) < SHUFFLE_ROW_BYTES_MAX + (UINT32_C(1) << 20));
    shuffle_mesh_close(mesh, true);
    BASE_ASSERT(shuffle_mesh_closed(mesh));
    for (uint8_t i = 0; i < 2; i++)
        shuffle_exchange_close(exchange[i]);
    shuffle_mesh_free(mesh);
    BASE_ASSERT(base_governor_used_bytes(governor) == 0);
    base_governor_close(governor);
    shuffle_layout_free(&layout);
    shuffle_schema_free(&schema);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t stream[STREAM_BYTES_MAX];
    if (size < 2 || size - 2 > sizeof stream)
        return 0;
    memcpy(stream, data + 2, size - 2);
    if (data[0] & OPTION_REPAIR)
        repair(stream, size - 2, data[0] & OPTION_VERIFY);
    run(stream, size - 2, data[0], data[1] + (size_t)1);
    return 0;
}
