/* What the mesh makes of what a peer sends: frames lost, changed, twice, too early, and rows that wait for a busy sink.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "shuffle/frames/frame.h"
#include "shuffle/mesh/internal.h"
#include "tests/child_output.h"
#include "tests/shuffle/mesh/crowd.h"

static void a_good_peer_is_heard(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        struct rig_config config = rig_two_nodes;
        config.seed = i;
        config.verify = i % 2;
        config.chunk_bytes = i < 10 ? 7 : 300;
        struct rig *rig = stage_open(&config);
        for (uint32_t frame = 1; frame < 10; frame++)
            say_rows(&crowd[0]->script, rig, frame);
        say_end(&crowd[0]->script);
        crowd[0]->after = i % 3 == 0 ? FIN : STAY;
        assert_true(rig_run(rig, worker_1_received));
        assert_int_equal(rig->worker[1].sink[0].rows, 45);
        assert_int_equal(shuffle_mesh_received_bytes(rig->worker[1].mesh)[0], 45 * 16);
        assert_int_equal(shuffle_exchange_counters(rig->worker[1].exchange[0])->frames_in, 10);
        stage_close(rig);
    }
}

/* What a broken peer may send, and what is made of it. */

static void a_frame_sent_twice(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    struct script *script = &crowd[0]->script;
    say_rows(script, rig, 3);
    script->sequence--;
    say_rows(script, rig, 3);
    say_end(script);
    expect_error(rig, BASE_FRAME_SEQUENCE, "frame 0 comes instead of frame 1");
}

static void a_frame_left_out(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    crowd[0]->script.sequence = 1;
    say_rows(&crowd[0]->script, rig, 3);
    expect_error(rig, BASE_FRAME_SEQUENCE, "frame 1 comes instead of frame 0");
}

static void a_row_lost(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->script.totals.rows++;
    say_end(&crowd[0]->script);
    expect_error(rig, BASE_LANE_TOTALS, "sent 4 rows");
}

static void a_row_exchanged_for_another(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->script.totals.hash_sum ^= 1;
    say_end(&crowd[0]->script);
    expect_error(rig, BASE_LANE_TOTALS, "hash sum");
}

static void data_after_the_end(void **state)
{
    (void)state;
    struct rig_config config = rig_two_nodes;
    config.exchanges = 2; /* keeps the worker listening */
    struct rig *rig = stage_open(&config);
    say_rows(&crowd[0]->script, rig, 3);
    say_end(&crowd[0]->script);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->after = STAY;
    rig_run(rig, worker_1_received);
    const uint64_t rows = rig->worker[1].sink[0].rows;
    assert_false(rig_run(rig, rig_all_done));
    assert_int_equal(rows, 3);
    assert_int_equal(rig->worker[1].error.status, BASE_FRAME_SEQUENCE);
    assert_non_null(strstr(rig->worker[1].error.text, "after its end of stream"));
    stage_close(rig);
}

static void a_changed_byte(void **state)
{
    (void)state;
    struct rig_config config = rig_two_nodes;
    config.verify = true;
    for (uint32_t i = 0; i < 48 + 24; i += 5) {
        struct rig *rig = stage_open(&config);
        struct script *script = &crowd[0]->script;
        say_rows(script, rig, 3);
        say_end(script);
        const uint32_t frame = 40 + 40 + (i < 48 ? i : 40 + i); /* in the rows, or in the totals */
        script->bytes[frame] ^= 0x10;
        rig->key.count = 1;
        rig->worker[1].sink[0].forgiving = true; /* a changed key belongs elsewhere */
        expect_error(rig, BASE_FRAME_CORRUPT, "checksum");
    }
}

static void no_checksum_though_promised(void **state)
{
    (void)state;
    struct rig_config config = rig_two_nodes;
    config.verify = true;
    struct rig *rig = stage_open(&config);
    crowd[0]->script.checked = false;
    say_rows(&crowd[0]->script, rig, 3);
    expect_error(rig, BASE_FRAME_CORRUPT, "no checksum");
}

static void a_frame_for_somebody_else(void **state)
{
    (void)state;
    const int64_t row[2] = {1, 2};
    for (uint32_t i = 0; i < 2; i++) {
        struct rig *rig = stage_open(&rig_two_nodes);
        struct shuffle_frame_header header = header_data(&crowd[0]->script, 1, 16);
        if (i == 0)
            header.destination = 5;
        else
            header.source = 1;
        say_frame(&crowd[0]->script, header, row);
        expect_error(rig, BASE_FRAME_CORRUPT, "a frame says it is from");
    }
}

static void no_frame_at_all(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    for (uint32_t i = 0; i < 100; i++)
        say(&crowd[0]->script, "GET / HTTP/1.1\r\n", 16);
    expect_error(rig, BASE_FRAME_CORRUPT, "instead of its mark");
}

static void rows_that_do_not_fit_the_frame(void **state)
{
    (void)state;
    const int64_t rows[4] = {1, 2, 3, 4};
    struct rig *rig = stage_open(&rig_two_nodes);
    say_frame(&crowd[0]->script, header_data(&crowd[0]->script, 2, 31), rows);
    expect_error(rig, BASE_FRAME_CORRUPT, "are not 2 rows of 16 bytes");
}

/* Rows of variable width: key, string: 12 bytes of head, the last 4 are the string's end. */
static void malformed_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t end, rows, bytes;
        const char *words;
    } cases[] = {
        {UINT32_MAX, 1, 20, "malformed"},            /* beyond everything */
        {SHUFFLE_ROW_BYTES_MAX, 1, 20, "malformed"}, /* beyond the limit */
        {9, 1, 20, "malformed"},                     /* beyond the frame by one */
        {8, 2, 20, "ends before its rows do"},       /* one row only */
        {0, 1, 20, "malformed"},                     /* 8 bytes are left, no row has so few */
        {0, 1, 24, "has more rows than it says"},
        {8, 1, 11, "malformed"}, /* not even a head */
    };
    for (uint32_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        struct rig_config config = rig_two_nodes;
        config.schema = "k:int64,v:string";
        config.image = false;
        config.chunk_bytes = i % 2 ? 1 : 200;
        struct rig *rig = stage_open(&config);
        rig->worker[1].sink[0].forgiving = true;
        uint8_t payload[40] = {0};
        base_store_u32(payload + 8, cases[i / 2].end);
        say_frame(&crowd[0]->script, header_data(&crowd[0]->script, cases[i / 2].rows, cases[i / 2].bytes), payload);
        crowd[0]->after = STAY;
        expect_error(rig, BASE_FRAME_CORRUPT, cases[i / 2].words);
    }
}

static void a_peer_that_goes_too_early(void **state)
{
    (void)state;
    for (uint32_t cut = 0; cut < 4; cut++) {
        struct rig *rig = stage_open(&rig_two_nodes);
        struct script *script = &crowd[0]->script;
        say_rows(script, rig, 3);
        if (cut > 0)
            say_end(script);
        script->count -= cut * 7; /* in the middle of the totals */
        if (cut == 0)
            script->count -= 20; /* in the middle of a row */
        crowd[0]->after = FIN;
        if (cut == 0)
            expect_error(rig, BASE_PEER_CLOSED, "before its streams ended");
        else
            expect_error(rig, BASE_PEER_CLOSED, "closed the connection");
    }
    struct rig *rig = stage_open(&rig_two_nodes);
    say_rows(&crowd[0]->script, rig, 3);
    crowd[0]->after = RESET;
    expect_error(rig, BASE_PEER_RESET, "worker 0 on node n0");
}

/* A sink may be late, and so may an exchange. */
static void frames_wait_for_their_exchange(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig_config config = rig_two_nodes;
        config.seed = seed;
        config.late_open = true;
        config.exchanges = 2;
        config.workers = 4;
        config.rows = 500;
        struct rig *rig = rig_new();
        rig_open(rig, &config);
        assert_true(rig_run(rig, rig_all_connected));
        rig_exchanges_open(rig, 0);
        rig_exchanges_open(rig, 3);
        rig_run(rig, rig_all_done); /* comes to a halt: nobody else takes anything */
        assert_false(rig_failed(rig));
        rig_exchanges_open(rig, 1);
        rig_exchanges_open(rig, 2);
        assert_true(rig_run(rig, rig_all_done));
        rig_check_answer(rig);
        rig_close(rig, false);
    }
}

/* A row that was cut and waits for a busy sink lies in the stitch buffer, which grows when an exchange of wider rows
 * comes. */
static void a_cut_row_waits_while_an_exchange_opens(void **state)
{
    (void)state;
    struct rig_config config = rig_two_nodes;
    config.chunk_bytes = 88; /* the first ends 8 bytes into the first row */
    config.sim.short_percent = 0;
    struct rig *rig = stage_open(&config);
    struct rig_sink *sink = &rig->worker[1].sink[0];
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_exchange *wider;
    struct base_error error;
    char text[1000] = "k:int64";
    for (uint32_t i = 0; i < 60; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), ",c%u:int64", i);
    assert_int_equal(shuffle_schema_parse(text, &schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&schema, &layout, &error), BASE_OK);
    say_rows(&crowd[0]->script, rig, 5);
    say_end(&crowd[0]->script);
    sink->fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    assert_int_equal(shuffle_exchange_counters(rig->worker[1].exchange[0])->rows_cut, 1);
    const struct shuffle_exchange_config exchange = {.mesh = rig->worker[1].mesh,
                                                     .governor = rig->governor[1],
                                                     .id = 1,
                                                     .layout = &layout,
                                                     .key = &rig->key,
                                                     .frame_bytes = 4096,
                                                     .frames_per_lane = 1,
                                                     .sink = &sink->base};
    assert_int_equal(shuffle_exchange_open(&exchange, &wider, &error), BASE_OK);
    sink->fail_with = BASE_OK;
    assert_true(rig_run(rig, worker_1_received));
    assert_int_equal(sink->rows, 5);
    shuffle_exchange_close(wider);
    shuffle_layout_free(&layout);
    shuffle_schema_free(&schema);
    stage_close(rig);
}

/* A peer that has said all may close while a busy sink keeps its last rows waiting. It is judged once they are taken,
 * and never looked for again. */
static void a_goodbye_before_its_rows_are_taken_is_judged_once(void **state)
{
    (void)state;
    struct rig *rig = stage_open(&rig_two_nodes);
    struct rig_sink *sink = &rig->worker[1].sink[0];
    say_rows(&crowd[0]->script, rig, 3);
    say_end(&crowd[0]->script);
    crowd[0]->after = FIN;
    sink->fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    const struct shuffle_mesh *mesh = rig->worker[1].mesh;
    assert_int_equal(mesh->fins, 1);
    assert_true(mesh->peers[0].fin);
    assert_int_equal(mesh->inlets.stalled, 1);
    sink->fail_with = BASE_OK;
    assert_true(rig_run(rig, worker_1_received));
    assert_false(rig_failed(rig));
    assert_int_equal(mesh->fins, 0);
    assert_int_equal(mesh->inlets.stalled, 0);
    stage_close(rig);
}

/* The inlet forgets the chunk that it keeps while its sink is busy. */
static void lose_a_waiting_chunk(void *context)
{
    (void)context;
    struct rig *rig = stage_open(&rig_two_nodes);
    say_rows(&crowd[0]->script, rig, 3);
    rig->worker[1].sink[0].fail_with = BASE_BUSY;
    assert_false(rig_run(rig, worker_1_received));
    struct shuffle_inlet *inlet = &rig->worker[1].mesh->peers[0].inlet;
    assert_non_null(inlet->piece.chunk.data);
    inlet->piece.chunk.data = NULL;
    stage_close(rig);
}

static void a_chunk_that_an_inlet_loses_is_told(void **state)
{
    (void)state;
    char text[4096];
    bool aborted;
    const bool ended = child_output(lose_a_waiting_chunk, NULL, text, sizeof text, &aborted);
    assert_int_equal(aborted, CHILD_MISSING_ABORTS);
    assert_int_equal(ended, !CHILD_MISSING_ABORTS);
    if (!strstr(text, "it is held by the inlet, which waits for its sink, of worker 0"))
        fail_msg("not told: %s", text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_peer_is_heard),
        cmocka_unit_test(a_frame_sent_twice),
        cmocka_unit_test(a_frame_left_out),
        cmocka_unit_test(a_row_lost),
        cmocka_unit_test(a_row_exchanged_for_another),
        cmocka_unit_test(data_after_the_end),
        cmocka_unit_test(a_changed_byte),
        cmocka_unit_test(no_checksum_though_promised),
        cmocka_unit_test(a_frame_for_somebody_else),
        cmocka_unit_test(no_frame_at_all),
        cmocka_unit_test(rows_that_do_not_fit_the_frame),
        cmocka_unit_test(malformed_rows),
        cmocka_unit_test(a_peer_that_goes_too_early),
        cmocka_unit_test(frames_wait_for_their_exchange),
        cmocka_unit_test(a_cut_row_waits_while_an_exchange_opens),
        cmocka_unit_test(a_goodbye_before_its_rows_are_taken_is_judged_once),
        cmocka_unit_test(a_chunk_that_an_inlet_loses_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
