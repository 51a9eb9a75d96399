/* The sinks against an output that says BUSY whenever its script likes to. The output here takes the place of
 * shuffle/output/output.c: this program defines shuffle_output_write itself, so the linker never looks for the real
 * one. */
#include "base/random.h"
#include "join/sinks.h"
#include "tests/join/join_rows.h"

struct shuffle_output {
    struct pair_matrix *matrix;
    struct base_random random;
    uint32_t busy_of_8; /* chance of BUSY at each call, in eighths; 8: always */
    bool build_is_left;
    enum base_status failure; /* returned instead, when not OK */
    uint64_t rows, busy;
};

enum base_status shuffle_output_write(struct shuffle_output *output, const uint8_t *const *left,
                                      const uint8_t *const *right, uint32_t count, uint32_t *taken,
                                      struct base_error *error)
{
    assert_true(*taken < count);
    if (output->failure)
        return base_error_set(error, output->failure, "the scripted failure");
    const bool busy = base_random_chance(&output->random, output->busy_of_8, 8);
    uint32_t takes = count - *taken;
    if (busy)
        takes = output->busy_of_8 == 8 ? 0 : (uint32_t)base_random_below(&output->random, takes);
    for (uint32_t i = 0; i < takes; i++) {
        const uint32_t at = (*taken)++;
        pair_matrix_add(output->matrix, output->build_is_left ? left[at] : right[at],
                        output->build_is_left ? right[at] : left[at]);
    }
    output->rows += takes;
    output->busy += busy;
    return busy ? BASE_BUSY : BASE_OK;
}

struct world {
    struct row_set build, probe;
    struct base_governor *governor;
    struct join_table *table;
    struct pair_matrix matrix;
    struct shuffle_output output;
    struct shuffle_sink *sink;
};

static void add_rows(struct row_set *set, uint32_t rows, uint64_t distinct, uint64_t seed)
{
    for (uint32_t i = 0; i < rows; i++)
        row_set_add(set, &(struct cell){.number = base_random_at(seed, i) % distinct});
    row_set_hash(set);
}

static void world_open(struct world *world, uint64_t distinct, bool build_is_left)
{
    memset(world, 0, sizeof *world);
    row_set_open(&world->build, "k:int64", 1);
    row_set_open(&world->probe, "k:int32", 1);
    row_sets_pair(&world->build, &world->probe);
    add_rows(&world->build, 600, distinct, 1);
    add_rows(&world->probe, 800, distinct, 2);
    assert_int_equal(base_governor_open(0, &world->governor, NULL), BASE_OK);
    const struct join_table_config table_config = {
        .governor = world->governor, .layout = &world->build.layout, .key = &world->build.key};
    assert_int_equal(join_table_open(&table_config, &world->table, NULL), BASE_OK);

    struct shuffle_sink *builder;
    assert_int_equal(join_build_sink_open(world->table, &builder, NULL), BASE_OK);
    struct shuffle_rows rows = {
        .row = (const uint8_t *const *)world->build.row, .hash = world->build.hash, .count = world->build.count};
    assert_int_equal(shuffle_sink_consume(builder, &rows, NULL), BASE_OK);
    assert_int_equal(rows.next, rows.count);
    join_sink_close(builder);
    join_table_seal(world->table);
    assert_int_equal(join_table_rows(world->table), world->build.count);

    pair_matrix_open(&world->matrix, &world->build, &world->probe);
    world->output = (struct shuffle_output){.matrix = &world->matrix, .build_is_left = build_is_left};
    base_random_seed(&world->output.random, distinct);
    const struct join_probe_sink_config config = {.table = world->table,
                                                  .key = &world->probe.key,
                                                  .layout = &world->probe.layout,
                                                  .output = &world->output,
                                                  .build = !build_is_left};
    assert_int_equal(join_probe_sink_open(&config, &world->sink, NULL), BASE_OK);
}

/* Returns the number of pairs, each of which came out exactly once. */
static uint64_t world_close(struct world *world)
{
    join_sink_close(world->sink);
    join_table_close(world->table);
    assert_int_equal(base_governor_used_bytes(world->governor), 0);
    base_governor_close(world->governor);
    const uint64_t pairs = pair_matrix_close(&world->matrix);
    assert_int_equal(pairs, world->output.rows);
    row_set_close(&world->build);
    row_set_close(&world->probe);
    return pairs;
}

/* A producer of probe rows: offers them in batches that live on the heap only until they are taken, as a received chunk
 * would. */
struct producer {
    const struct row_set *set;
    uint32_t next, end;
    bool offering;
    struct shuffle_rows rows;
    const uint8_t **row;
};

static void producer_fill(struct producer *producer, uint32_t batch_rows)
{
    const uint32_t left = producer->end - producer->next;
    const uint32_t count = left < batch_rows ? left : batch_rows;
    producer->row = malloc((count + 1) * sizeof *producer->row);
    assert_non_null(producer->row);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *copy = malloc(producer->set->layout.row_bytes);
        assert_non_null(copy);
        memcpy(copy, producer->set->row[producer->next + i], producer->set->layout.row_bytes);
        producer->row[i] = copy;
    }
    producer->rows =
        (struct shuffle_rows){.row = producer->row, .hash = producer->set->hash + producer->next, .count = count};
    producer->next += count;
    producer->offering = true;
}

static void producer_release(struct producer *producer)
{
    for (uint32_t i = 0; i < producer->rows.count; i++)
        free((void *)(uintptr_t)producer->row[i]);
    free(producer->row);
    producer->offering = false;
}

static bool producer_done(const struct producer *producer)
{
    return !producer->offering && producer->next == producer->end;
}

/* One offer by one producer. */
static void producer_step(struct producer *producer, struct shuffle_sink *sink, uint32_t batch_rows)
{
    if (producer_done(producer))
        return;
    if (!producer->offering)
        producer_fill(producer, batch_rows);
    struct base_error error = {0};
    const enum base_status status = shuffle_sink_consume(sink, &producer->rows, &error);
    if (status == BASE_BUSY) {
        assert_true(producer->rows.next < producer->rows.count);
        return;
    }
    if (status != BASE_OK)
        fail_msg("%s", error.text);
    assert_int_equal(producer->rows.next, producer->rows.count);
    producer_release(producer);
}

/* Producers take turns at random until all their rows are taken. */
static void produce(struct world *world, uint32_t turn_rows, uint32_t batch_rows)
{
    enum { PRODUCERS = 3 };
    struct producer producer[PRODUCERS];
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        producer[i] = (struct producer){.set = &world->probe,
                                        .next = world->probe.count * i / PRODUCERS,
                                        .end = world->probe.count * (i + 1) / PRODUCERS};
    }
    struct base_random random;
    base_random_seed(&random, batch_rows);
    uint64_t handed_before = 0;
    for (uint32_t step = 0;
         !(producer_done(&producer[0]) && producer_done(&producer[1]) && producer_done(&producer[2])); step++) {
        assert_true(step < 10000000);
        if (turn_rows)
            join_probe_sink_turn(world->sink, turn_rows);
        producer_step(&producer[base_random_below(&random, PRODUCERS)], world->sink, batch_rows);
        /* A turn may hand out what an earlier one collected, and what it collects itself. */
        if (turn_rows)
            assert_true(world->output.rows - handed_before <= turn_rows + SHUFFLE_BATCH_ROWS);
        handed_before = world->output.rows;
    }
    assert_int_equal(join_probe_sink_drain(world->sink, NULL), BASE_OK);
}

static void loses_and_repeats_nothing(void **state)
{
    (void)state;
    static const uint64_t distincts[] = {1, 3, 40, 500, UINT64_C(1) << 31};
    static const uint32_t turns[] = {0, 1000, 17}, batches[] = {1, 50, 300};
    for (size_t d = 0; d < sizeof distincts / sizeof distincts[0]; d++) {
        for (uint32_t busy = 0; busy < 8; busy += 3) {
            for (size_t t = 0; t < 3; t++) {
                struct world world;
                world_open(&world, distincts[d], t % 2);
                world.output.busy_of_8 = busy;
                produce(&world, turns[t], batches[t]);
                if (busy && distincts[d] < 100)
                    assert_true(world.output.busy > 0);
                const uint64_t pairs = world_close(&world);
                if (distincts[d] == 1)
                    assert_int_equal(pairs, 600 * 800);
            }
        }
    }
}

static void one_row_a_turn(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 300, false);
    world.output.busy_of_8 = 4;
    produce(&world, 1, 64);
    world_close(&world);
}

static void a_full_output_keeps_the_last_row_back(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 1, true);
    world.output.busy_of_8 = 8;
    struct shuffle_rows rows = {.row = (const uint8_t *const *)world.probe.row, .hash = world.probe.hash, .count = 1};
    struct shuffle_rows none = {.count = 0};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(shuffle_sink_consume(world.sink, &rows, NULL), BASE_BUSY);
        assert_int_equal(rows.next, 0);
        assert_int_equal(join_probe_sink_drain(world.sink, NULL), BASE_BUSY);
        assert_int_equal(shuffle_sink_consume(world.sink, &none, NULL), BASE_OK);
    }
    assert_int_equal(world.output.rows, 0);
    world.output.busy_of_8 = 0;
    assert_int_equal(join_probe_sink_drain(world.sink, NULL), BASE_OK);
    assert_int_equal(world.output.rows, 600);
    assert_int_equal(shuffle_sink_consume(world.sink, &rows, NULL), BASE_OK);
    assert_int_equal(rows.next, 1);
    rows = (struct shuffle_rows){.row = (const uint8_t *const *)world.probe.row + 1,
                                 .hash = world.probe.hash + 1,
                                 .count = world.probe.count - 1};
    assert_int_equal(shuffle_sink_consume(world.sink, &rows, NULL), BASE_OK);
    assert_int_equal(world_close(&world), 600 * 800);
}

static void a_spent_turn_says_busy(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 1, true);
    struct shuffle_rows rows = {
        .row = (const uint8_t *const *)world.probe.row, .hash = world.probe.hash, .count = world.probe.count};
    uint64_t turns = 0;
    join_probe_sink_turn(world.sink, 0);
    assert_int_equal(shuffle_sink_consume(world.sink, &rows, NULL), BASE_BUSY);
    assert_int_equal(rows.next, 0);
    do {
        const uint64_t before = world.output.rows;
        join_probe_sink_turn(world.sink, 5000);
        turns++;
        if (shuffle_sink_consume(world.sink, &rows, NULL) == BASE_OK)
            break;
        assert_int_equal(world.output.rows - before, 5000);
    } while (turns < 1000);
    assert_int_equal(turns, 600 * 800 / 5000);
    assert_int_equal(world_close(&world), 600 * 800);
}

static void an_error_of_the_output_is_passed_on(void **state)
{
    (void)state;
    struct world world;
    world_open(&world, 10, true);
    world.output.failure = BASE_NO_SPACE;
    struct shuffle_rows rows = {
        .row = (const uint8_t *const *)world.probe.row, .hash = world.probe.hash, .count = world.probe.count};
    struct base_error error = {0};
    assert_int_equal(shuffle_sink_consume(world.sink, &rows, &error), BASE_NO_SPACE);
    assert_string_equal(error.text, "the scripted failure");
    free(world.matrix.seen);
    join_sink_close(world.sink);
    join_table_close(world.table);
    base_governor_close(world.governor);
    row_set_close(&world.build);
    row_set_close(&world.probe);
}

/* Ten rows, and an empty table for them within a budget. */
struct empty_table {
    struct row_set set;
    struct shuffle_rows rows;
    struct base_governor *governor;
    struct join_table *table;
};

static void empty_table_open(struct empty_table *empty, uint64_t budget_bytes)
{
    memset(empty, 0, sizeof *empty);
    row_set_open(&empty->set, "k:int64", 1);
    row_sets_pair(&empty->set, &empty->set);
    add_rows(&empty->set, 10, 10, 1);
    empty->rows = (struct shuffle_rows){
        .row = (const uint8_t *const *)empty->set.row, .hash = empty->set.hash, .count = empty->set.count};
    assert_int_equal(base_governor_open(budget_bytes, &empty->governor, NULL), BASE_OK);
    const struct join_table_config config = {
        .governor = empty->governor, .layout = &empty->set.layout, .key = &empty->set.key};
    assert_int_equal(join_table_open(&config, &empty->table, NULL), BASE_OK);
}

static void empty_table_close(struct empty_table *empty)
{
    join_table_close(empty->table);
    assert_int_equal(base_governor_used_bytes(empty->governor), 0);
    base_governor_close(empty->governor);
    row_set_close(&empty->set);
}

static void probe_rows_before_the_table_is_sealed_are_refused(void **state)
{
    (void)state;
    struct empty_table empty;
    struct shuffle_sink *sink;
    struct base_error error = {0};
    empty_table_open(&empty, 0);
    const struct join_probe_sink_config probe = {
        .table = empty.table, .key = &empty.set.key, .layout = &empty.set.layout, .build = 1};
    assert_int_equal(join_probe_sink_open(&probe, &sink, NULL), BASE_OK);
    assert_int_equal(shuffle_sink_consume(sink, &empty.rows, &error), BASE_PROTOCOL);
    assert_int_equal(empty.rows.next, 0);
    join_sink_close(sink);
    empty_table_close(&empty);
}

static void an_error_of_the_table_is_passed_on(void **state)
{
    (void)state;
    struct empty_table empty;
    struct shuffle_sink *sink;
    struct base_error error = {0};
    empty_table_open(&empty, 1 << 20);
    assert_int_equal(join_build_sink_open(empty.table, &sink, NULL), BASE_OK);
    assert_int_equal(shuffle_sink_consume(sink, &empty.rows, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "2097152"));
    join_sink_close(sink);
    empty_table_close(&empty);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loses_and_repeats_nothing),
        cmocka_unit_test(one_row_a_turn),
        cmocka_unit_test(a_full_output_keeps_the_last_row_back),
        cmocka_unit_test(a_spent_turn_says_busy),
        cmocka_unit_test(an_error_of_the_output_is_passed_on),
        cmocka_unit_test(an_error_of_the_table_is_passed_on),
        cmocka_unit_test(probe_rows_before_the_table_is_sealed_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
