/* Somebody on the network, who plays workers and strangers byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include <cmocka.h>

#include "base/build.h"
#include "shuffle/frames/frame.h"
#include "tests/shuffle/mesh/crowd.h"

void say(struct script *script, const void *bytes, size_t count)
{
    assert_true(script->count + count <= sizeof script->bytes);
    memcpy(script->bytes + script->count, bytes, count);
    script->count += (uint32_t)count;
}

struct shuffle_preamble preamble_good(void)
{
    struct shuffle_preamble preamble = {
        .magic = SHUFFLE_PREAMBLE_MAGIC, .protocol = base_build_protocol(), .job = 77, .source = 0, .destination = 1};
    memcpy(preamble.token, "0123456789abcde", 16);
    return preamble;
}

void say_preamble(struct script *script)
{
    const struct shuffle_preamble preamble = preamble_good();
    say(script, &preamble, sizeof preamble);
}

void say_frame(struct script *script, struct shuffle_frame_header header, const void *payload)
{
    if (script->checked) {
        header.flags = SHUFFLE_FRAME_CHECKED;
        header.check = XXH3_64bits(payload, header.bytes);
    }
    say(script, &header, sizeof header);
    say(script, payload, header.bytes);
}

struct shuffle_frame_header header_data(struct script *script, uint32_t rows, uint32_t bytes)
{
    return (struct shuffle_frame_header){.magic = SHUFFLE_FRAME_MAGIC,
                                         .kind = SHUFFLE_FRAME_DATA,
                                         .source = 0,
                                         .destination = 1,
                                         .sequence = script->sequence++,
                                         .bytes = bytes,
                                         .rows = rows};
}

void say_rows(struct script *script, struct rig *rig, uint32_t rows)
{
    int64_t payload[2 * 64];
    int64_t key = 1000 * (int64_t)script->sequence;
    for (uint32_t i = 0; i < rows; i++) {
        int64_t *row = payload + (size_t)2 * i;
        uint64_t hash;
        do {
            row[0] = ++key;
            row[1] = i;
            shuffle_key_hash_image(&rig->key, &rig->layout, (const uint8_t *)row, 1, &hash);
        } while (shuffle_key_partition(hash, 2) != 1);
        script->totals.hash_sum += hash;
    }
    script->totals.rows += rows;
    script->totals.bytes += UINT64_C(16) * rows;
    say_frame(script, header_data(script, rows, 16 * rows), payload);
}

void say_end(struct script *script)
{
    struct shuffle_frame_header header = header_data(script, 0, sizeof script->totals);
    header.kind = SHUFFLE_FRAME_END;
    say_frame(script, header, &script->totals);
}

struct somebody *crowd[SOMEBODIES_MAX];
uint32_t crowd_count;
static struct net_engine *crowd_engine;

void crowd_enter(struct rig *rig, uint32_t target)
{
    struct somebody *one = calloc(1, sizeof *one);
    struct base_error error;
    crowd[crowd_count++] = one;
    crowd_engine = one->engine = rig->worker[0].engine;
    assert_int_equal(net_socket_connect(one->engine, &rig->address[target], UINT64_MAX, one, &one->socket, &error),
                     BASE_OK);
}

static void somebody_send(struct somebody *one)
{
    if (one->op.in_flight || one->sent || !one->connected || one->closed)
        return;
    one->op.segments[0] = (struct iovec){one->script.bytes, one->script.count};
    one->op.count = 1;
    if (one->script.count == 0 || net_socket_send(one->socket, &one->op) == BASE_OK)
        one->sent = true;
}

static void somebody_event(struct somebody *one, const struct net_event *event)
{
    struct base_error error;
    switch (event->kind) {
    case NET_EVENT_CONNECTED:
        if (event->status == BASE_CANCELLED)
            break;
        assert_int_equal(event->status, BASE_OK);
        one->connected = true;
        assert_int_equal(net_socket_receive(one->socket, &error), BASE_OK);
        break;
    case NET_EVENT_RECEIVED:
        if (event->status == BASE_OK) {
            one->received_bytes += event->chunk.bytes;
            net_chunk_release(one->engine, &event->chunk);
        } else {
            one->ended = true;
            net_socket_close(one->socket, true);
        }
        break;
    case NET_EVENT_SENT:
        if (one->after == FIN)
            net_socket_shutdown(one->socket);
        if (one->after == RESET)
            net_socket_close(one->socket, true);
        break;
    case NET_EVENT_CLOSED:
        one->closed = true;
        break;
    default:
        break;
    }
}

static bool crowd_turn(void)
{
    struct net_event events[8];
    for (uint32_t i = 0; i < crowd_count; i++)
        somebody_send(crowd[i]);
    const uint32_t count = net_engine_poll(crowd_engine, events, 8, 0);
    for (uint32_t i = 0; i < count; i++)
        somebody_event(events[i].context, &events[i]);
    return count > 0;
}

bool worker_1_received(struct rig *rig)
{
    crowd_turn();
    return rig->worker[1].exchange[0] && shuffle_exchange_received(rig->worker[1].exchange[0]);
}

bool crowd_gone(struct rig *rig)
{
    (void)rig;
    crowd_turn();
    for (uint32_t i = 0; i < crowd_count; i++) {
        if (!crowd[i]->closed)
            return false;
    }
    return true;
}

void crowd_leave(struct rig *rig)
{
    for (uint32_t i = 0; i < crowd_count; i++) {
        if (!crowd[i]->closed)
            net_socket_close(crowd[i]->socket, true);
    }
    /* Errors of the workers do not matter any more. */
    while (!crowd_gone(rig))
        net_sim_advance(rig->world, NET_WAIT_FOREVER);
    for (uint32_t i = 0; i < crowd_count; i++)
        free(crowd[i]);
    crowd_count = 0;
}

const bool worker_0_absent[RIG_WORKERS_MAX] = {true};

struct rig *stage_open(const struct rig_config *config)
{
    struct rig *rig = rig_new();
    rig_open_some(rig, config, worker_0_absent);
    crowd_enter(rig, 1);
    crowd[0]->script.checked = config->verify;
    say_preamble(&crowd[0]->script);
    return rig;
}

void stage_close(struct rig *rig)
{
    crowd_leave(rig);
    rig_close(rig, true);
}

void expect_error(struct rig *rig, enum base_status status, const char *words)
{
    assert_false(rig_run(rig, worker_1_received));
    const struct base_error *error = &rig->worker[1].error;
    if (error->status != status || !strstr(error->text, "n0") || !strstr(error->text, words))
        fail_msg("expected %s with '%s', got %s: %s", base_status_name(status), words, base_status_name(error->status),
                 error->text);
    stage_close(rig);
}
