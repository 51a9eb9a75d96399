/* Every type of join, whichever side is built: the probe sink over a table, against a nested loop. The output here
 * takes the place of shuffle/output/output.c, and says BUSY as often as its script likes to. */
#include "base/random.h"
#include "join/sinks.h"
#include "join/table_internal.h"
#include "tests/join/join_rows.h"

enum { ROWS_MAX = 260, NOBODY = ROWS_MAX };

struct shuffle_output {
    const struct row_set *side[2];
    struct base_random random;
    uint32_t busy_of_8;
    uint64_t rows;
    uint8_t seen[ROWS_MAX + 1][ROWS_MAX + 1]; /* by left and right row; NOBODY: NULL */
};

static uint64_t output_id(const struct shuffle_output *output, uint32_t side, const uint8_t *row)
{
    return row ? row_id(&output->side[side]->layout, row) : NOBODY;
}

enum base_status shuffle_output_write(struct shuffle_output *output, const uint8_t *const *left,
                                      const uint8_t *const *right, uint32_t count, uint32_t *taken,
                                      struct base_error *error)
{
    (void)error;
    assert_true(*taken < count);
    while (*taken < count) {
        if (base_random_chance(&output->random, output->busy_of_8, 64))
            return BASE_BUSY;
        output->seen[output_id(output, 0, left[*taken])][output_id(output, 1, right ? right[*taken] : NULL)]++;
        output->rows++;
        ++*taken;
    }
    return BASE_OK;
}

struct world {
    enum join_type type;
    uint32_t build;
    bool null_equal;
    struct row_set side[2];
    struct base_governor *governor;
    struct join_table *table;
    struct shuffle_output output;
    struct shuffle_sink *sink;
};

/* Rows whose key is NULL where it may be: one of eight. */
static void add_rows(struct row_set *set, uint32_t rows, uint64_t distinct, uint64_t seed)
{
    static const char filler[600];
    for (uint32_t i = 0; i < rows; i++) {
        struct cell cell[2] = {{.number = base_random_at(seed, i) % distinct}, {0}};
        cell[0].null = set->layout.slot[0].null_bit >= 0 && base_random_at(seed + 1, i) % 8 == 0;
        cell[1] = (struct cell){.bytes = filler, .count = (uint32_t)(base_random_at(seed + 2, i) % 600)};
        row_set_add(set, cell);
    }
    row_set_hash(set);
}

/* The build side's rows are pinned, so that wide ones are references: entries differ. */
static void world_build(struct world *world)
{
    struct row_set *build = &world->side[world->build];
    struct shuffle_sink *builder;
    assert_int_equal(join_build_sink_open(world->table, &builder, NULL), BASE_OK);
    struct shuffle_rows rows = {
        .row = (const uint8_t *const *)build->row, .hash = build->hash, .count = build->count, .pinned = true};
    if (build->count > 0)
        assert_int_equal(shuffle_sink_consume(builder, &rows, NULL), BASE_OK);
    join_sink_close(builder);
    join_table_seal(world->table);
}

static struct world *world_open(enum join_type type, uint32_t build, const char *const columns[2],
                                const uint32_t rows[2], uint64_t distinct, uint32_t busy_of_8)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->type = type;
    world->build = build;
    for (uint32_t side = 0; side < 2; side++)
        row_set_open(&world->side[side], columns[side], 1);
    row_sets_pair(&world->side[0], &world->side[1]);
    world->null_equal = strstr(columns[0], "?") || strstr(columns[1], "?");
    world->side[0].key.null_equal = world->side[1].key.null_equal = world->null_equal;
    for (uint32_t side = 0; side < 2; side++)
        add_rows(&world->side[side], rows[side], distinct, 10 + side);
    assert_int_equal(base_governor_open(0, &world->governor, NULL), BASE_OK);
    const struct join_table_config table_config = {
        .governor = world->governor, .layout = &world->side[build].layout, .key = &world->side[build].key};
    assert_int_equal(join_table_open(&table_config, &world->table, NULL), BASE_OK);
    world_build(world);
    world->output.side[0] = &world->side[0];
    world->output.side[1] = &world->side[1];
    world->output.busy_of_8 = busy_of_8;
    base_random_seed(&world->output.random, distinct);
    const struct join_probe_sink_config config = {.table = world->table,
                                                  .key = &world->side[1 - build].key,
                                                  .layout = &world->side[1 - build].layout,
                                                  .output = &world->output,
                                                  .type = type,
                                                  .build = build};
    assert_int_equal(join_probe_sink_open(&config, &world->sink, NULL), BASE_OK);
    return world;
}

static bool world_equal(const struct world *world, uint32_t left, uint32_t right)
{
    const struct row_set *a = &world->side[0], *b = &world->side[1];
    const bool null_a = shuffle_row_null(&a->layout, a->row[left], 0);
    const bool null_b = shuffle_row_null(&b->layout, b->row[right], 0);
    return null_a || null_b ? null_a && null_b : oracle_equal(a, left, b, right);
}

/* How often the type of join has this row: a pair, or one side alone. */
static uint32_t world_wanted(const struct world *world, uint32_t left, uint32_t right)
{
    bool matched = false;
    if (left != NOBODY && right != NOBODY)
        return join_type_pairs(world->type) && world_equal(world, left, right);
    if (left == NOBODY && right == NOBODY)
        return 0;
    for (uint32_t i = 0; i < world->side[left == NOBODY ? 0 : 1].count; i++)
        matched |= world_equal(world, left == NOBODY ? i : left, right == NOBODY ? i : right);
    switch (world->type) {
    case JOIN_TYPE_LEFT:
    case JOIN_TYPE_ANTI:
        return right == NOBODY && !matched;
    case JOIN_TYPE_RIGHT:
        return left == NOBODY && !matched;
    case JOIN_TYPE_FULL:
        return !matched;
    case JOIN_TYPE_SEMI:
        return right == NOBODY && matched;
    default:
        return 0;
    }
}

static void world_close(struct world *world)
{
    uint64_t unmatched = 0;
    for (uint32_t left = 0; left <= NOBODY; left++)
        for (uint32_t right = 0; right <= NOBODY; right++) {
            if ((left != NOBODY && left >= world->side[0].count) || (right != NOBODY && right >= world->side[1].count))
                continue;
            const uint32_t wanted = world_wanted(world, left, right), seen = world->output.seen[left][right];
            if (wanted != seen)
                fail_msg("%s join, side %u built: rows %u and %u came out %u times, not %u",
                         join_type_word(world->type), world->build, left, right, seen, wanted);
            unmatched += (left == NOBODY || right == NOBODY) && world->type != JOIN_TYPE_SEMI ? seen : 0;
        }
    assert_int_equal(join_probe_sink_unmatched(world->sink), unmatched);
    join_sink_close(world->sink);
    join_table_close(world->table);
    assert_int_equal(base_governor_used_bytes(world->governor), 0);
    base_governor_close(world->governor);
    row_set_close(&world->side[0]);
    row_set_close(&world->side[1]);
    free(world);
}

/* Two producers offer the probe rows in turns, then the sink finishes. A turn gives out so many rows at most. */
static void world_probe(struct world *world, uint32_t batch_rows, uint32_t turn_rows)
{
    const struct row_set *probe = &world->side[1 - world->build];
    struct shuffle_rows rows[2] = {{.count = 0}, {.count = 0}};
    uint32_t next = 0;
    struct base_error error = {0};
    bool idle = false;
    for (uint32_t step = 0; !idle; step++) {
        assert_true(step < 1000000);
        if (turn_rows)
            join_probe_sink_turn(world->sink, turn_rows);
        struct shuffle_rows *offer = &rows[step % 2];
        if (offer->next == offer->count && next < probe->count) {
            const uint32_t count = probe->count - next < batch_rows ? probe->count - next : batch_rows;
            *offer = (struct shuffle_rows){
                .row = (const uint8_t *const *)probe->row + next, .hash = probe->hash + next, .count = count};
            next += count;
        }
        if (offer->next < offer->count && shuffle_sink_consume(world->sink, offer, &error) == BASE_OK)
            assert_int_equal(offer->next, offer->count);
        idle = next == probe->count && rows[0].next == rows[0].count && rows[1].next == rows[1].count;
    }
    enum base_status status = BASE_BUSY;
    for (uint32_t step = 0; status == BASE_BUSY; step++) {
        assert_true(step < 1000000);
        if (turn_rows)
            join_probe_sink_turn(world->sink, turn_rows);
        const uint64_t before = world->output.rows;
        status = join_probe_sink_finish(world->sink, &error);
        if (turn_rows)
            assert_true(world->output.rows - before <= turn_rows + SHUFFLE_BATCH_ROWS);
    }
    assert_int_equal(status, BASE_OK);
}

static const char *const columns[][2] = {
    {"k:int64", "k:int64"},           {"k:int32", "k:int64"},          {"k:int64?", "k:int32?"},
    {"k:int64,s:string", "k:int64"},  {"k:int64", "k:int64,s:string"}, {"k:int64?,s:string", "k:int64?,s:string"},
    {"k:int64?,s:string", "k:int64"},
};

static void every_type_gives_what_a_nested_loop_gives(void **state)
{
    (void)state;
    static const uint64_t distincts[] = {1, 3, 40, 1000};
    static const uint32_t turns[] = {0, 1, 17, 300}, batches[] = {1, 50, 255}, busy[] = {0, 4, 30};
    for (uint32_t type = 0; type < JOIN_TYPE_COUNT; type++)
        for (uint32_t build = 0; build < 2; build++)
            for (uint32_t c = 0; c < sizeof columns / sizeof *columns; c++)
                for (uint32_t d = 0; d < 4; d++) {
                    const uint32_t rows[2] = {d == 0 ? 60 : 250, d == 0 ? 70 : 200}, mix = type + build + c + d;
                    struct world *world =
                        world_open((enum join_type)type, build, columns[c], rows, distincts[d], busy[mix % 3]);
                    world_probe(world, batches[mix / 3 % 3], turns[mix % 4]);
                    world_close(world);
                }
}

static void sides_of_few_rows(void **state)
{
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 10};
    for (uint32_t type = 0; type < JOIN_TYPE_COUNT; type++)
        for (uint32_t build = 0; build < 2; build++)
            for (uint32_t shape = 0; shape < 16; shape++) {
                const uint32_t rows[2] = {counts[shape % 4], counts[shape / 4]};
                struct world *world = world_open((enum join_type)type, build, columns[2], rows, 2, 8);
                world_probe(world, 3, 1);
                world_close(world);
            }
}

/* A walk over a table in which nothing is wanted ends a turn all the same. */
static void a_walk_is_bounded(void **state)
{
    (void)state;
    const uint32_t rows[2] = {250, 250};
    struct world *world = world_open(JOIN_TYPE_ANTI, 0, columns[0], rows, 1, 0);
    const struct row_set *probe = &world->side[1];
    struct shuffle_rows all = {.row = (const uint8_t *const *)probe->row, .hash = probe->hash, .count = probe->count};
    assert_int_equal(shuffle_sink_consume(world->sink, &all, NULL), BASE_OK);
    uint32_t turns = 0;
    do {
        join_probe_sink_turn(world->sink, 10);
        assert_false(join_probe_sink_spent(world->sink));
        turns++;
    } while (join_probe_sink_finish(world->sink, NULL) == BASE_BUSY && join_probe_sink_spent(world->sink));
    assert_true(turns > 2 && turns < 250);
    world_close(world);
}

/* The flag has its place in the entry, and growth and marks leave each other alone. */
static void a_marked_entry_is_walked_over(void **state)
{
    (void)state;
    const uint32_t rows[2] = {ROWS_MAX, 0};
    struct world *world = world_open(JOIN_TYPE_FULL, 0, columns[5], rows, 1000, 0);
    struct join_table_cursor cursor = {0};
    const uint8_t *row[ROWS_MAX];
    uint32_t count = 0, found = 0;
    uint64_t visits = 7;
    assert_true(join_table_unmarked(world->table, &cursor, &visits, ROWS_MAX, row, &count));
    assert_int_equal(count, 7);
    assert_int_equal(visits, 0);
    for (bool more = true; more; found += count) {
        visits = UINT64_MAX;
        more = join_table_unmarked(world->table, &cursor, &visits, 100, row, &count);
        assert_true(count <= 100);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(row_id(&world->side[0].layout, row[i]), 7 + found + i);
    }
    assert_int_equal(found + 7, ROWS_MAX);
    world_probe(world, 1, 0);
    world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_gives_what_a_nested_loop_gives),
        cmocka_unit_test(sides_of_few_rows),
        cmocka_unit_test(a_walk_is_bounded),
        cmocka_unit_test(a_marked_entry_is_walked_over),
    };
    return cmocka_run_group_tests_name("join.types", tests, NULL, NULL);
}
