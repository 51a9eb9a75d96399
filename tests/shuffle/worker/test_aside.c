/* Rows set aside: those that are marked, each once, in order and whole, however often the sink is busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "shuffle/worker/aside.h"

enum { ROWS = 700, WIDE_BYTES = 200000 };

/* Takes a row at a time, and is busy as often as its script likes to. */
struct picky_sink {
    struct shuffle_sink base;
    const struct shuffle_layout *layout;
    struct base_random random;
    uint32_t busy_of_8;
    uint32_t count;
    uint64_t id[ROWS];
    uint64_t bytes;
    const uint8_t *image; /* rows lie there, and are not copied; or NULL */
};

static enum base_status picky_consume(struct shuffle_sink *base, struct shuffle_rows *rows, struct base_error *error)
{
    struct picky_sink *sink = (struct picky_sink *)base;
    (void)error;
    assert_true(rows->count > 0 && rows->count <= SHUFFLE_BATCH_ROWS);
    for (; rows->next < rows->count; rows->next++) {
        if (base_random_chance(&sink->random, sink->busy_of_8, 8))
            return BASE_BUSY;
        const uint8_t *row = rows->row[rows->next];
        const uint64_t id = base_load_u64(row + sink->layout->slot[0].offset);
        if (sink->image)
            assert_ptr_equal(row, sink->image + id * sink->layout->row_bytes);
        for (uint64_t i = shuffle_row_head_bytes(sink->layout); i < shuffle_row_bytes(sink->layout, row); i++)
            assert_int_equal(row[i], id & 255);
        sink->bytes += shuffle_row_bytes(sink->layout, row);
        sink->id[sink->count++] = id;
    }
    return BASE_OK;
}

static const struct shuffle_sink_ops picky_ops = {.consume = picky_consume};

struct world {
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct base_governor *governor;
    struct picky_sink sink;
    struct shuffle_aside *aside;
    uint64_t id[ROWS];
    struct shuffle_slice text[ROWS];
    uint8_t *bytes[256], marked[ROWS];
    struct shuffle_column column[2];
    struct shuffle_batch batch;
};

static struct world *world_open(const char *schema, uint32_t busy_of_8, uint64_t budget)
{
    struct base_error error;
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    assert_int_equal(shuffle_schema_parse(schema, &world->schema, &error), BASE_OK);
    assert_int_equal(shuffle_layout_prepare(&world->schema, &world->layout, &error), BASE_OK);
    assert_int_equal(base_governor_open(budget, &world->governor, &error), BASE_OK);
    world->sink = (struct picky_sink){.base.ops = &picky_ops, .layout = &world->layout, .busy_of_8 = busy_of_8};
    base_random_seed(&world->sink.random, 3);
    assert_int_equal(shuffle_aside_open(world->governor, &world->layout, &world->sink.base, &world->aside, &error),
                     BASE_OK);
    for (uint32_t i = 0; i < 256; i++) {
        world->bytes[i] = malloc(WIDE_BYTES);
        assert_non_null(world->bytes[i]);
        memset(world->bytes[i], (int)i, WIDE_BYTES);
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        world->id[i] = i;
        world->text[i] = (struct shuffle_slice){world->bytes[i & 255], i % 50 == 7 ? WIDE_BYTES : i % 300};
        world->marked[i] = base_random_at(1, i) % 3 == 0 || i % 100 == 7;
    }
    world->column[0] = (struct shuffle_column){.data = (const uint8_t *)world->id, .stride = sizeof *world->id};
    world->column[1] = (struct shuffle_column){.slice = world->text};
    world->batch = (struct shuffle_batch){.rows = ROWS, .column = world->column};
    return world;
}

static void world_take(struct world *world, const uint8_t *marked)
{
    uint32_t cursor = 0;
    bool worked = false;
    struct base_error error = {0};
    enum base_status status = BASE_BUSY;
    for (uint32_t step = 0; status == BASE_BUSY; step++) {
        assert_true(step < 100000);
        status = shuffle_aside_take(world->aside, &world->batch, marked, &cursor, &worked, &error);
    }
    assert_int_equal(status, BASE_OK);
    assert_int_equal(cursor, ROWS);
}

static void world_close(struct world *world)
{
    shuffle_aside_close(world->aside);
    assert_int_equal(base_governor_used_bytes(world->governor), 0);
    base_governor_close(world->governor);
    for (uint32_t i = 0; i < 256; i++)
        free(world->bytes[i]);
    shuffle_layout_free(&world->layout);
    shuffle_schema_free(&world->schema);
    free(world);
}

static void expect_marked(const struct world *world, uint32_t rows_before)
{
    uint32_t at = rows_before;
    for (uint32_t i = 0; i < ROWS; i++)
        if (world->marked[i])
            assert_int_equal(world->sink.id[at++], i);
    assert_int_equal(at, world->sink.count);
}

static void marked_rows_come_once_and_whole(void **state)
{
    (void)state;
    for (uint32_t busy = 0; busy < 8; busy += 3) {
        struct world *world = world_open("id:int64,text:string", busy, 0);
        world_take(world, world->marked);
        expect_marked(world, 0);
        assert_true(world->sink.bytes > (size_t)5 * WIDE_BYTES); /* rows wider than the buffer, too */
        const uint32_t before = world->sink.count;
        static const uint8_t none[ROWS];
        world_take(world, none);
        assert_int_equal(world->sink.count, before);
        world_close(world);
    }
}

static void rows_that_stand_complete_are_not_copied(void **state)
{
    (void)state;
    struct world *world = world_open("id:int64", 4, 0);
    world->batch.image = (const uint8_t *)world->id;
    world->sink.image = world->batch.image;
    world_take(world, world->marked);
    expect_marked(world, 0);
    assert_int_equal(base_governor_peak_bytes(world->governor), 0);
    world_close(world);
}

static void what_does_not_fit_is_an_error(void **state)
{
    (void)state;
    uint32_t cursor = 0;
    bool worked = false;
    struct base_error error = {0};
    struct world *world = world_open("id:int64,text:string", 0, 100000);
    assert_int_equal(shuffle_aside_take(world->aside, &world->batch, world->marked, &cursor, &worked, &error),
                     BASE_NO_MEMORY);
    world_close(world);
    world = world_open("id:int64,text:string", 0, 0);
    world->text[0].bytes = SHUFFLE_ROW_BYTES_MAX;
    world->marked[0] = 1;
    cursor = 0;
    assert_int_equal(shuffle_aside_take(world->aside, &world->batch, world->marked, &cursor, &worked, &error),
                     BASE_TOO_LARGE);
    assert_non_null(strstr(error.text, "16777216 bytes"));
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marked_rows_come_once_and_whole),
        cmocka_unit_test(rows_that_stand_complete_are_not_copied),
        cmocka_unit_test(what_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests_name("shuffle.aside", tests, NULL, NULL);
}
