#include "tests/shuffle/mesh/mesh_rig.h"

#include "shuffle/frames/cut.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "shuffle/exchange/lane.h"
#include "shuffle/mesh/internal.h"
#include "shuffle/mesh/lanes.h"

enum { IDLE_ROUNDS_MAX = 20000 };

uint64_t rig_digest(const uint8_t *row, uint64_t bytes)
{
    return base_random_mix(XXH3_64bits(row, bytes));
}

static uint32_t pick(struct rig *rig, uint32_t bound)
{
    return (uint32_t)base_random_below(&rig->random, bound);
}

static bool percent(struct rig *rig, uint32_t chance)
{
    return chance > 0 && base_random_chance(&rig->random, chance, 100);
}

/* Sink. */

/* Where it stopped within a row: something that tells when the note comes back with another row. */
static uint64_t note_of(const uint8_t *row)
{
    return base_random_mix((uintptr_t)row) | 1;
}

static enum base_status sink_stop(struct rig_sink *sink, struct shuffle_rows *rows)
{
    rows->resume = percent(sink->worker->rig, 50) ? note_of(rows->row[rows->next]) : 0;
    return BASE_BUSY;
}

/* Looks at a cut row: makes it whole, and counts what of its key an edge cuts. */
static uint8_t *whole_of(struct rig_sink *sink, const struct shuffle_cut *cut)
{
    uint8_t *whole = malloc(cut->bytes);
    assert_non_null(whole);
    shuffle_cut_copy(cut, 0, cut->bytes, whole);
    sink->cut_rows++;
    assert_true(cut->count >= 2 && cut->bytes >= SHUFFLE_CUT_BYTES_MIN);
    for (uint32_t c = 0; c < sink->layout->count; c++) {
        uint32_t bytes, there;
        const uint8_t *value = shuffle_row_value(sink->layout, whole, c, &bytes);
        assert_int_equal(shuffle_cut_value(cut, sink->layout, c, &there), value - whole);
        assert_int_equal(there, bytes);
        assert_int_equal(shuffle_cut_null(cut, sink->layout, c), shuffle_row_null(sink->layout, whole, c));
    }
    const struct shuffle_slot *key = &sink->layout->slot[sink->key->part[0].column];
    for (uint32_t i = 1; i < cut->count && !shuffle_type_variable(key->type); i++)
        if (cut->piece[i].begin > key->offset && cut->piece[i].begin < key->offset + key->width) {
            sink->cut_key_bytes += key->width;
            break;
        }
    return whole;
}

static enum base_status sink_consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct rig_sink *sink = (struct rig_sink *)base;
    struct rig *rig = sink->worker->rig;
    if (sink->fail_with != BASE_OK)
        return base_error_set(error, sink->fail_with, "planted");
    assert_true(rows->next < rows->count);
    sink->saw_pinned |= rows->pinned;
    while (rows->next < rows->count) {
        if (percent(rig, rig->config.sink_busy_percent))
            return sink_stop(sink, rows);
        const struct shuffle_cut *cut = rows->next == 0 ? rows->cut : NULL;
        const uint8_t *row = rows->row[rows->next];
        if (rows->resume != 0)
            assert_int_equal(rows->resume, note_of(row));
        uint64_t hash;
        shuffle_key_hash_rows(sink->key, sink->layout, &row, 1, &hash);
        assert_int_equal(hash, rows->hash[rows->next]);
        if (!sink->forgiving)
            assert_int_equal(shuffle_key_partition(hash, rig->config.workers), sink->worker->number);
        uint8_t *whole = cut ? whole_of(sink, cut) : NULL;
        row = whole ? whole : row;
        sink->digest += rig_digest(row, shuffle_row_bytes(sink->layout, row));
        free(whole);
        sink->rows++;
        rows->next++;
        rows->resume = 0;
    }
    return BASE_OK;
}

static const struct shuffle_sink_ops sink_ops = {.consume = sink_consume},
                                     cut_sink_ops = {.consume = sink_consume, .takes_cut_rows = true};

/* Batches. */

struct rig_batch {
    struct shuffle_batch batch;
    uint64_t hash[SHUFFLE_BATCH_ROWS];
    uint32_t destination[SHUFFLE_BATCH_ROWS];
    uint8_t *image;
    uint8_t **memory; /* per column */
};

/* Fills one column with values that follow from (seed, worker, exchange, row, column). */
static void column_fill(struct rig *rig, struct rig_batch *batch, uint32_t c, uint64_t seed, uint32_t first,
                        uint32_t rows)
{
    const struct shuffle_field *field = &rig->schema.field[c];
    const bool variable = shuffle_type_variable(field->type);
    const size_t each = variable ? sizeof(struct shuffle_slice) : field->width;
    const size_t cells = variable ? (size_t)rows * rig->config.cell_bytes + 1 : 0;
    uint8_t *memory = calloc(1, rows * (each + 1) + cells + 16);
    assert_non_null(memory);
    batch->memory[c] = memory;
    struct shuffle_slice *slice = (void *)memory;
    uint8_t *null = memory + rows * each, *cell = null + rows;
    for (uint32_t i = 0; i < rows; i++) {
        const uint64_t value = base_random_at(seed + c, first + i);
        null[i] = field->nullable && value % 5 == 0;
        if (variable) {
            uint32_t bytes = (uint32_t)(value >> 32) % (rig->config.cell_bytes + 1);
            if (value % 16 != 0)
                bytes %= 40; /* most are short */
            memset(cell, (int)(value & 0xff), bytes);
            slice[i] = (struct shuffle_slice){.data = cell, .bytes = null[i] ? 0 : bytes};
            cell += bytes;
        } else {
            for (uint32_t b = 0; b < field->width && !null[i]; b++)
                memory[i * each + b] = (uint8_t)(value >> (b % 8 * 8));
        }
    }
    batch->batch.column[c] = (struct shuffle_column){
        .data = variable ? NULL : memory,
        .stride = variable ? 0 : field->width,
        .slice = variable ? slice : NULL,
        .null = field->nullable ? null : NULL,
    };
}

static struct rig_batch *batch_make(struct rig *rig, uint32_t worker, uint32_t exchange, uint32_t first, uint32_t rows)
{
    struct rig_batch *batch = calloc(1, sizeof *batch);
    assert_non_null(batch);
    const uint32_t columns = rig->schema.count;
    const uint64_t seed = base_random_mix(rig->config.seed * 1000 + UINT64_C(10) * worker + exchange);
    batch->memory = calloc(columns, sizeof *batch->memory);
    batch->batch.column = calloc(columns, sizeof *batch->batch.column);
    batch->batch.rows = rows;
    for (uint32_t c = 0; c < columns; c++)
        column_fill(rig, batch, c, seed, first, rows);
    if (rig->config.image && rig->layout.row_bytes) {
        batch->image = malloc((size_t)rows * rig->layout.row_bytes);
        for (uint32_t i = 0; i < rows; i++)
            shuffle_batch_encode_row(&rig->layout, &batch->batch, i, batch->image + (size_t)i * rig->layout.row_bytes);
        batch->batch.image = batch->image;
    }
    shuffle_key_hash_batch(&rig->key, &rig->layout, &batch->batch, batch->hash, NULL);
    shuffle_route_hash(batch->hash, rows, rig->config.workers, batch->destination);
    uint64_t largest = 1;
    for (uint32_t i = 0; i < rows; i++)
        largest = base_max_u64(largest, shuffle_batch_row_bytes(&rig->layout, &batch->batch, i));
    uint8_t *row = malloc(largest);
    for (uint32_t i = 0; i < rows; i++) {
        if (rig->config.drop_some && batch->hash[i] % 3 == 0) {
            batch->destination[i] = SHUFFLE_DROP;
            continue;
        }
        const uint32_t bytes = shuffle_batch_encode_row(&rig->layout, &batch->batch, i, row);
        assert_int_equal(bytes, shuffle_batch_row_bytes(&rig->layout, &batch->batch, i));
        rig->digest_sent[exchange] += rig_digest(row, bytes);
        rig->rows_sent[exchange]++;
    }
    free(row);
    return batch;
}

/* What was handed over must not be looked at again: it is overwritten, and sanitizers see a use after free. */
static void batch_release(struct rig *rig, struct rig_batch *batch)
{
    if (!batch)
        return;
    for (uint32_t c = 0; c < rig->schema.count; c++)
        free(batch->memory[c]);
    if (batch->image)
        memset(batch->image, 0xdd, (size_t)batch->batch.rows * rig->layout.row_bytes);
    free(batch->image);
    free(batch->memory);
    free(batch->batch.column);
    free(batch);
}

/* Cluster. */

static uint32_t node_of(const struct rig_config *config, uint32_t worker)
{
    return worker * config->nodes / config->workers;
}

static void local_range(const struct rig_config *config, uint32_t node, uint32_t *first, uint32_t *count)
{
    *count = 0;
    for (uint32_t i = config->workers; i-- > 0;) {
        if (node_of(config, i) == node) {
            *first = i;
            (*count)++;
        }
    }
}

static void engine_open(struct rig *rig, uint32_t number)
{
    static const char *const names[RIG_NODES_MAX] = {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"};
    const struct rig_config *config = &rig->config;
    struct rig_worker *worker = &rig->worker[number];
    struct base_error error;
    worker->rig = rig;
    worker->number = number;
    worker->node = node_of(config, number);
    rig->node_name[number] = names[worker->node];
    const struct net_engine_config engine_config = {.sockets_max = config->workers + SHUFFLE_MESH_STRANGERS_MAX,
                                                    .recv_chunk_bytes = config->chunk_bytes,
                                                    .recv_chunk_count = config->chunk_count};
    assert_int_equal(net_sim_engine_open(rig->world, &engine_config, &worker->engine, &error), BASE_OK);
    assert_int_equal(net_engine_enable(worker->engine, &error), BASE_OK);
    const struct net_address address = {
        .v4 = {.sin_family = AF_INET, .sin_port = 0, .sin_addr.s_addr = htonl(0x0a000001 + worker->node)},
        .bytes = sizeof(struct sockaddr_in)};
    assert_int_equal(net_sim_listen(rig->world, &address, &worker->listener_fd, &rig->address[number], &error),
                     BASE_OK);
    if (rig->absent[number])
        net_sim_listener_close(rig->world, worker->listener_fd);
}

static void mesh_open(struct rig *rig, uint32_t number)
{
    const struct rig_config *config = &rig->config;
    struct rig_worker *worker = &rig->worker[number];
    struct base_error error;
    uint32_t first = 0, count;
    const uint8_t secret[NET_KEY_BYTES] = {config->secret[number]};
    if (config->secret[number])
        assert_int_equal(net_key_make(secret, &worker->secret, &error), BASE_OK);
    local_range(config, worker->node, &first, &count);
    struct shuffle_mesh_config mesh = {
        .engine = worker->engine,
        .governor = rig->governor[worker->node],
        .worker = number,
        .workers = config->workers,
        .local_first = first,
        .local_count = count,
        .address = rig->address,
        .node_name = rig->node_name,
        .listener_fd = config->nodes > 1 ? worker->listener_fd : -1,
        .key = worker->secret,
        .job = 77,
        .token = "0123456789abcde",
        .mailroom = count > 1 ? rig->mailroom[worker->node] : NULL,
        .connect_timeout_ns = UINT64_C(5000000000),
    };
    if (count > 1)
        shuffle_mailroom_register(rig->mailroom[worker->node], number - first, worker->engine);
    assert_int_equal(shuffle_mesh_open(&mesh, &worker->mesh, &error), BASE_OK);
}

void rig_exchanges_open(struct rig *rig, uint32_t number)
{
    const struct rig_config *config = &rig->config;
    struct rig_worker *worker = &rig->worker[number];
    struct base_error error;
    for (uint32_t x = 0; x < config->exchanges; x++) {
        worker->sink[x] = (struct rig_sink){.base = {.ops = config->takes_cut_rows ? &cut_sink_ops : &sink_ops},
                                            .worker = worker,
                                            .layout = &rig->layout,
                                            .key = &rig->key};
        const struct shuffle_exchange_config exchange = {
            .mesh = worker->mesh,
            .governor = rig->governor[worker->node],
            .id = (uint8_t)x,
            .layout = &rig->layout,
            .key = &rig->key,
            .frame_bytes = config->frame_bytes,
            .frames_per_lane = config->frames_per_lane,
            .verify = config->verify,
            .sink = &worker->sink[x].base,
        };
        assert_int_equal(shuffle_exchange_open(&exchange, &worker->exchange[x], &error), BASE_OK);
    }
}

void rig_connect(struct rig *rig, uint32_t number)
{
    struct rig_worker *worker = &rig->worker[number];
    const enum base_status status = shuffle_mesh_connect(worker->mesh, &worker->error);
    if (status == BASE_OK)
        worker->error = (struct base_error){0};
}

static void schema_open(struct rig *rig)
{
    struct base_error error;
    assert_int_equal(shuffle_schema_parse(rig->config.schema, &rig->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&rig->schema, &rig->layout, &error), BASE_OK);
    rig->key.count = 1;
    assert_int_equal(
        shuffle_key_pair_class(&rig->schema.field[0], &rig->schema.field[0], &rig->key.part[0].class, &error), BASE_OK);
}

void rig_open_some(struct rig *rig, const struct rig_config *config, const bool *absent)
{
    struct base_error error;
    memset(rig, 0, sizeof *rig);
    rig->config = *config;
    memcpy(rig->absent, absent, sizeof rig->absent);
    base_random_seed(&rig->random, config->seed * 31 + 5);
    rig->config.sim.seed = config->seed;
    schema_open(rig);
    assert_int_equal(net_sim_world_open(&rig->config.sim, &rig->world, &error), BASE_OK);
    for (uint32_t i = 0; i < config->nodes; i++) {
        uint32_t first = 0, count;
        local_range(config, i, &first, &count);
        assert_int_equal(base_governor_open(config->memory_bytes, &rig->governor[i], &error), BASE_OK);
        assert_int_equal(shuffle_mailroom_open(count, config->mailbox_frames, &rig->mailroom[i], &error), BASE_OK);
    }
    for (uint32_t i = 0; i < config->workers; i++)
        engine_open(rig, i);
    for (uint32_t i = 0; i < config->workers; i++) {
        if (!rig->absent[i])
            mesh_open(rig, i);
    }
    for (uint32_t i = 0; i < config->workers; i++) {
        if (rig->absent[i])
            continue;
        if (!config->late_open)
            rig_exchanges_open(rig, i);
        if (!config->calls_late)
            rig_connect(rig, i);
    }
}

const struct rig_config rig_two_nodes = {
    .seed = 1,
    .nodes = 2,
    .workers = 2,
    .exchanges = 1,
    .schema = "k:int64,v:int64",
    .rows = 0,
    .frame_bytes = 4096,
    .frames_per_lane = 2,
    .mailbox_frames = 2,
    .chunk_bytes = 256,
    .chunk_count = 8,
    .image = true,
    .sim = {.socket_buffer_bytes = 20000, .delay_max_ns = 1000, .short_percent = 30},
};

struct rig *rig_new(void)
{
    struct rig *rig = malloc(sizeof *rig);
    assert_non_null(rig);
    return rig;
}

void rig_open(struct rig *rig, const struct rig_config *config)
{
    static const bool none[RIG_WORKERS_MAX];
    rig_open_some(rig, config, none);
}

/* Turns. */

static void worker_keep_error(struct rig_worker *worker, enum base_status status, const struct base_error *error)
{
    if (status != BASE_OK && worker->error.status == BASE_OK) {
        assert_int_equal(status, error->status);
        worker->error = *error;
    }
}

static bool batch_next(struct rig *rig, struct rig_worker *worker, uint32_t x)
{
    const uint32_t left = rig->config.rows - worker->next_row[x];
    if (left == 0)
        return false;
    uint32_t rows = 1 + pick(rig, rig->config.cell_bytes > 1000 ? 16 : 300);
    rows = rows < left ? rows : left;
    worker->batch = batch_make(rig, worker->number, x, worker->next_row[x], rows);
    worker->cursor = 0;
    worker->next_row[x] += rows;
    return true;
}

/* Frames may leave before they are full at any time. */
static void lanes_flush(struct shuffle_exchange *exchange)
{
    shuffle_lanes_seal(exchange);
    shuffle_mesh_kick(exchange->config.mesh);
}

/* A slice of sending: first all of exchange 0, then of 1. */
static bool worker_send(struct rig *rig, struct rig_worker *worker)
{
    for (uint32_t x = 0; x < rig->config.exchanges; x++) {
        struct shuffle_exchange *exchange = worker->exchange[x];
        if (!exchange || worker->finished[x])
            continue;
        if (!worker->batch && !batch_next(rig, worker, x)) {
            shuffle_exchange_finish(exchange);
            worker->finished[x] = true;
            return true;
        }
        struct base_error error;
        const uint32_t before = worker->cursor;
        const enum base_status status = shuffle_exchange_append(exchange, &worker->batch->batch, worker->batch->hash,
                                                                worker->batch->destination, &worker->cursor, &error);
        if (status == BASE_OK) {
            assert_int_equal(worker->cursor, worker->batch->batch.rows);
            batch_release(rig, worker->batch);
            worker->batch = NULL;
        } else if (status != BASE_BUSY) {
            worker_keep_error(worker, status, &error);
        }
        if (percent(rig, rig->config.flush_percent))
            lanes_flush(exchange);
        return status == BASE_OK || worker->cursor != before;
    }
    return false;
}

bool rig_turn(struct rig *rig, uint32_t number)
{
    struct rig_worker *worker = &rig->worker[number];
    struct net_event events[8];
    struct base_error error;
    bool worked = shuffle_mesh_deadline_ns(worker->mesh) == 0; /* a refused send may go through now */
    const uint32_t count = net_engine_poll(worker->engine, events, 1 + pick(rig, 8), 0);
    for (uint32_t i = 0; i < count; i++) {
        worked = true;
        if (events[i].kind == NET_EVENT_WOKEN)
            continue;
        worker_keep_error(worker, shuffle_mesh_event(worker->mesh, &events[i], &error), &error);
    }
    worker_keep_error(worker, shuffle_mesh_turn(worker->mesh, &worked, &error), &error);
    if (worker->error.status == BASE_OK && shuffle_mesh_connected(worker->mesh) && !shuffle_mesh_closed(worker->mesh))
        worked |= worker_send(rig, worker);
    return worked;
}

bool rig_failed(const struct rig *rig)
{
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        if (rig->worker[i].error.status != BASE_OK)
            return true;
    }
    return false;
}

static uint64_t earliest_deadline(const struct rig *rig)
{
    uint64_t deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        if (rig->worker[i].mesh)
            deadline_ns = base_min_u64(deadline_ns, shuffle_mesh_deadline_ns(rig->worker[i].mesh));
    }
    return deadline_ns;
}

bool rig_run(struct rig *rig, bool (*done)(struct rig *rig))
{
    uint32_t idle = 0;
    bool polled = false; /* once more after the last turn: what was submitted there has been handed over */
    while (!done(rig)) {
        if (rig_failed(rig))
            return false;
        bool worked = false;
        const uint32_t start = pick(rig, rig->config.workers);
        for (uint32_t i = 0; i < rig->config.workers; i++) {
            const uint32_t number = (start + i) % rig->config.workers;
            if (rig->worker[number].mesh)
                worked |= rig_turn(rig, number);
        }
        if (worked) {
            idle = 0;
            polled = false;
            continue;
        }
        if (!polled) {
            polled = true;
            continue;
        }
        polled = false;
        /* A busy sink is tried again without anything else moving. */
        const uint64_t deadline_ns = earliest_deadline(rig);
        if (!net_sim_advance(rig->world, deadline_ns == 0 ? NET_WAIT_FOREVER : deadline_ns) &&
            deadline_ns == UINT64_MAX && (rig->config.sink_busy_percent == 0 || ++idle > IDLE_ROUNDS_MAX))
            return false;
    }
    return true;
}

bool rig_all_done(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        for (uint32_t x = 0; x < rig->config.exchanges; x++) {
            const struct shuffle_exchange *exchange = rig->worker[i].exchange[x];
            if (!exchange || !shuffle_exchange_sent(exchange) || !shuffle_exchange_received(exchange))
                return false;
        }
    }
    return true;
}

bool rig_all_connected(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        if (rig->worker[i].mesh && !shuffle_mesh_connected(rig->worker[i].mesh))
            return false;
    }
    return true;
}

void rig_check_answer(struct rig *rig)
{
    for (uint32_t x = 0; x < rig->config.exchanges; x++) {
        uint64_t rows = 0, digest = 0, rows_out = 0, rows_in = 0;
        for (uint32_t i = 0; i < rig->config.workers; i++) {
            const struct shuffle_exchange_counters *counters = shuffle_exchange_counters(rig->worker[i].exchange[x]);
            rows += rig->worker[i].sink[x].rows;
            digest += rig->worker[i].sink[x].digest;
            rows_out += counters->rows_out;
            rows_in += counters->rows_in;
        }
        assert_int_equal(rows, rig->rows_sent[x]);
        assert_int_equal(digest, rig->digest_sent[x]);
        assert_int_equal(rows_out, rows);
        assert_int_equal(rows_in, rows);
    }
}

static bool all_closed(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        if (rig->worker[i].mesh && !shuffle_mesh_closed(rig->worker[i].mesh))
            return false;
    }
    return true;
}

/* Workers are told one after the other, with turns in between. */
static void meshes_close(struct rig *rig, bool abort)
{
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        struct rig_worker *worker = &rig->worker[i];
        if (!worker->mesh)
            continue;
        shuffle_mesh_close(worker->mesh, abort);
        worker->error = (struct base_error){.status = BASE_CANCELLED}; /* sends nothing any more */
        for (uint32_t turn = pick(rig, 4); turn > 0; turn--) {
            for (uint32_t j = 0; j < rig->config.workers; j++) {
                if (rig->worker[j].mesh)
                    rig_turn(rig, j);
            }
        }
    }
    for (uint32_t i = 0; i < rig->config.workers; i++)
        rig->worker[i].error = (struct base_error){0};
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        memset(rig->worker[i].finished, true, sizeof rig->worker[i].finished);
        batch_release(rig, rig->worker[i].batch);
        rig->worker[i].batch = NULL;
    }
    assert_true(rig_run(rig, all_closed));
}

void rig_close(struct rig *rig, bool abort)
{
    meshes_close(rig, abort);
    for (uint32_t i = 0; i < rig->config.workers; i++) {
        struct rig_worker *worker = &rig->worker[i];
        for (uint32_t x = 0; x < RIG_EXCHANGES_MAX; x++)
            shuffle_exchange_close(worker->exchange[x]);
        shuffle_mesh_free(worker->mesh);
        net_key_close(worker->secret);
        net_engine_close(worker->engine);
    }
    for (uint32_t i = 0; i < rig->config.nodes; i++) {
        shuffle_mailroom_close(rig->mailroom[i]);
        assert_int_equal(base_governor_used_bytes(rig->governor[i]), 0);
        base_governor_close(rig->governor[i]);
    }
    net_sim_world_close(rig->world);
    shuffle_layout_free(&rig->layout);
    shuffle_schema_free(&rig->schema);
    free(rig);
}
