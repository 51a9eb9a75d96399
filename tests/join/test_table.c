#include <inttypes.h>

#include "base/random.h"
#include "join/table.h"
#include "tests/join/join_rows.h"

struct table_case {
    const char *name, *build_columns, *probe_columns;
    uint32_t key_columns;
    uint64_t distinct; /* key numbers are below this, shifted by `lowest` */
    int64_t lowest;
    uint32_t build_rows, probe_rows;
    uint32_t string_bytes_max; /* of columns behind the key */
    bool pinned, mixed_pins;
};

static const struct table_case cases[] = {
    {"8 bytes of row", "k:int64", "k:int64", 1, 300, -150, 700, 900, 0, false, false},
    {"rows of 24 bytes", "k:int64,a:int64", "k:int64", 1, 300, -150, 700, 900, 0, false, false},
    {"rows of 32 bytes", "k:int64,a:int64,b:int64", "k:int64", 1, 300, -150, 700, 900, 0, true, false},
    {"rows of 64 bytes", "k:int64,a:binary(48)", "k:int64,x:int16", 1, 300, -150, 700, 900, 0, false, false},
    {"rows of odd width", "k:int64,a:binary(5)", "k:int64,x:bool", 1, 300, -150, 700, 900, 0, false, false},
    {"key behind an odd offset", "k:int8,l:int64", "k:int8,l:int64", 2, 20, -10, 700, 900, 0, false, false},
    {"dozens of duplicates", "k:int64", "k:int64", 1, 30, 0, 700, 300, 0, false, false},
    {"a few int32", "k:int32,a:int32", "x:int32", 1, 200, -100, 700, 900, 0, false, false},
    {"hundreds, referenced", "k:int32,a:binary(300)", "k:int32", 1, 4, 0, 700, 300, 0, true, false},
    {"nearly one key", "k:int64", "k:int64", 1, 3, 0, 300, 200, 0, false, false},
    {"one key", "k:int64", "k:int64", 1, 1, 7, 300, 200, 0, false, false},
    {"distinct keys", "k:int64", "k:int64", 1, UINT64_C(1) << 40, 0, 700, 900, 0, false, false},
    {"int32 with int64", "k:int32", "k:int64", 1, 300, -150, 700, 900, 0, false, false},
    {"int8 with uint16", "k:int8", "k:uint16", 1, 300, -150, 700, 900, 0, false, false},
    {"int64 with uint64", "k:int64", "k:uint64", 1, 300, -150, 700, 900, 0, false, false},
    {"uint64 with uint64", "k:uint64", "k:uint64", 1, 300, -150, 700, 900, 0, false, false},
    {"uint64 with int32", "k:uint64", "k:int32", 1, 300, -150, 700, 900, 0, false, false},
    {"timestamps", "k:timestamp", "k:timestamp", 1, 300, -150, 700, 900, 0, false, false},
    {"strings", "k:string", "k:string", 1, 300, 0, 700, 900, 0, false, false},
    {"framed strings", "k:string,l:string", "k:string,l:string", 2, 30, 0, 700, 900, 0, false, false},
    {"composite", "k:int32,l:string", "k:int64,l:string", 2, 20, -10, 700, 900, 0, false, false},
    {"payload with NULLs", "k:int64,a:string?,b:int32?", "k:int64,c:int8?", 1, 300, 0, 700, 900, 40, false, false},
    {"wide rows copied", "k:int64,a:binary(300)", "k:int64", 1, 300, -150, 700, 900, 0, false, false},
    {"wide rows referenced", "k:int64,a:binary(300)", "k:int64", 1, 300, -150, 700, 900, 0, true, false},
    {"wide rows both ways", "k:int32,a:binary(300)", "k:int64", 1, 300, -150, 700, 900, 0, false, true},
    {"rows below and above the limit", "k:int64,a:string", "k:int64", 1, 300, -150, 700, 900, 500, true, false},
    {"the same both ways", "k:string,a:string", "k:string", 1, 300, 0, 700, 900, 500, false, true},
};

static char filler[4096];

static void fill_rows(struct row_set *set, const struct table_case *test, uint32_t rows, struct base_random *random)
{
    for (uint32_t i = 0; i < rows; i++) {
        struct cell cell[8] = {{0}};
        char text[8][64];
        for (uint32_t c = 0; c + 1 < set->layout.count; c++) {
            const struct shuffle_slot *slot = &set->layout.slot[c];
            const bool key = c < test->key_columns;
            cell[c].number = (uint64_t)test->lowest + base_random_below(random, key ? test->distinct : 1000);
            cell[c].null = slot->null_bit >= 0 && base_random_chance(random, 1, 3);
            if (!key) {
                cell[c].bytes = filler;
                cell[c].count = (uint32_t)base_random_below(random, test->string_bytes_max + 1);
            } else if (test->key_columns == 2) { /* "a" then "aab", "aa" then "ab": lengths vary, bytes are the same */
                snprintf(text[c], sizeof text[c], "aaaab");
                cell[c].bytes = text[c] + base_random_below(random, 2);
                cell[c].count = (uint32_t)base_random_below(random, 5);
            } else {
                cell[c].bytes = text[c];
                cell[c].count = (uint32_t)snprintf(text[c], sizeof text[c], "key %" PRIu64, cell[c].number);
            }
        }
        row_set_add(set, cell);
    }
}

static void sets_open(const struct table_case *test, struct row_set *build, struct row_set *probe)
{
    struct base_random random;
    base_random_seed(&random, 11);
    row_set_open(build, test->build_columns, test->key_columns);
    row_set_open(probe, test->probe_columns, test->key_columns);
    row_sets_pair(build, probe);
    fill_rows(build, test, test->build_rows, &random);
    fill_rows(probe, test, test->probe_rows, &random);
    row_set_hash(build);
    row_set_hash(probe);
}

static void insert_rows(struct join_table *table, const struct row_set *set, uint32_t batch_rows, bool pinned,
                        bool mixed_pins)
{
    struct base_error error = {0};
    for (uint32_t first = 0, batch = 0; first < set->count; first += batch_rows, batch++) {
        const uint32_t left = set->count - first;
        struct shuffle_rows rows = {.row = (const uint8_t *const *)set->row + first,
                                    .hash = set->hash + first,
                                    .count = left < batch_rows ? left : batch_rows,
                                    .pinned = mixed_pins ? batch % 2 : pinned};
        if (join_table_insert(table, &rows, &error))
            fail_msg("%s", error.text);
        assert_int_equal(rows.next, rows.count);
    }
}

/* Probes in batches, the arrays holding pairs_max, and adds every pair to the matrix. */
static void probe_rows(const struct join_table *table, const struct row_set *set, uint32_t batch_rows,
                       uint32_t pairs_max, struct pair_matrix *matrix)
{
    const uint8_t **build = malloc(pairs_max * sizeof *build), **probe = malloc(pairs_max * sizeof *probe);
    assert_true(build && probe);
    for (uint32_t first = 0; first < set->count; first += batch_rows) {
        const uint32_t left = set->count - first;
        struct shuffle_rows rows = {.row = (const uint8_t *const *)set->row + first,
                                    .hash = set->hash + first,
                                    .count = left < batch_rows ? left : batch_rows};
        while (rows.next < rows.count) {
            const uint32_t next = rows.next;
            const uint64_t resume = rows.resume;
            uint32_t pairs = UINT32_MAX;
            join_table_probe(table, JOIN_PROBE_PAIRS, &set->key, &set->layout, &rows, pairs_max, build, probe, &pairs);
            assert_true(pairs <= pairs_max);
            assert_true(rows.next > next || rows.resume != resume);
            for (uint32_t i = 0; i < pairs; i++)
                pair_matrix_add(matrix, build[i], probe[i]);
        }
        assert_int_equal(rows.resume, 0);
    }
    free(build);
    free(probe);
}

static void run_case(const struct table_case *test, uint64_t rows_expected, bool prefault)
{
    static const uint32_t pairs_maxima[] = {1, 2, 7, 64, 65, 1024};
    print_message("%s, expecting %" PRIu64 "\n", test->name, rows_expected);
    struct row_set build, probe;
    sets_open(test, &build, &probe);
    struct base_governor *governor;
    struct base_error error = {0};
    assert_int_equal(base_governor_open(0, &governor, &error), BASE_OK);
    const struct join_table_config config = {.governor = governor,
                                             .layout = &build.layout,
                                             .key = &build.key,
                                             .rows_expected = rows_expected,
                                             .prefault = prefault};
    struct join_table *table;
    assert_int_equal(join_table_open(&config, &table, &error), BASE_OK);
    insert_rows(table, &build, 37, test->pinned, test->mixed_pins);
    join_table_seal(table);
    assert_int_equal(join_table_rows(table), build.count);
    assert_int_equal(join_table_bytes(table), base_governor_used_bytes(governor));
    for (size_t i = 0; i < sizeof pairs_maxima / sizeof pairs_maxima[0]; i++) {
        struct pair_matrix matrix;
        pair_matrix_open(&matrix, &build, &probe);
        probe_rows(table, &probe, i % 2 ? 1000 : 61, pairs_maxima[i], &matrix);
        const uint64_t pairs = pair_matrix_close(&matrix);
        if (test->distinct < 1000)
            assert_true(pairs > 50); /* a case without matches would prove little */
    }
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&build);
    row_set_close(&probe);
}

static void answers_like_a_nested_loop(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(&cases[i], 0, false);
        run_case(&cases[i], 10000, true);
    }
}

static void negative_is_not_its_unsigned_image(void **state)
{
    (void)state;
    struct row_set build, probe;
    row_set_open(&build, "k:int64", 1);
    row_set_open(&probe, "k:uint64", 1);
    row_sets_pair(&build, &probe);
    row_set_add(&build, &(struct cell){.number = UINT64_MAX});
    row_set_add(&probe, &(struct cell){.number = UINT64_MAX});
    row_set_hash(&build);
    row_set_hash(&probe);
    probe.hash[0] = build.hash[0]; /* even when the hashes are the same */
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(0, &governor, NULL), BASE_OK);
    assert_int_equal(
        join_table_open(&(struct join_table_config){.governor = governor, .layout = &build.layout, .key = &build.key},
                        &table, NULL),
        BASE_OK);
    insert_rows(table, &build, 1, false, false);
    join_table_seal(table);
    struct pair_matrix matrix;
    pair_matrix_open(&matrix, &build, &probe);
    probe_rows(table, &probe, 1, 4, &matrix);
    assert_int_equal(pair_matrix_close(&matrix), 0);
    join_table_close(table);
    base_governor_close(governor);
    row_set_close(&build);
    row_set_close(&probe);
}

/* A relation of `rows` rows (k, id) whose key is k(i). */
static void numbered_rows(struct row_set *set, uint32_t rows, uint64_t (*number)(uint64_t))
{
    row_set_open(set, "k:int64", 1);
    row_sets_pair(set, set);
    for (uint32_t i = 0; i < rows; i++)
        row_set_add(set, &(struct cell){.number = number(i)});
    row_set_hash(set);
}

static uint64_t number_itself(uint64_t i)
{
    return i;
}

static uint64_t number_shifted(uint64_t i)
{
    return i << 32;
}

static uint64_t number_one(uint64_t i)
{
    (void)i;
    return 1;
}

/* Probes the table with its own rows; counts pairs and checks that keys are equal. */
static uint64_t self_join_pairs(const struct join_table *table, const struct row_set *set, uint32_t probe_rows_max)
{
    static const uint8_t *build[1024], *probe[1024];
    struct shuffle_rows rows = {.row = (const uint8_t *const *)set->row, .hash = set->hash, .count = probe_rows_max};
    uint64_t sum = 0;
    while (rows.next < rows.count) {
        uint32_t pairs;
        join_table_probe(table, JOIN_PROBE_PAIRS, &set->key, &set->layout, &rows, 1024, build, probe, &pairs);
        for (uint32_t i = 0; i < pairs; i++)
            assert_int_equal(base_load_u64(build[i]), base_load_u64(probe[i]));
        sum += pairs;
    }
    return sum;
}

static void grows_from_one_row(void **state)
{
    (void)state;
    uint64_t (*const numbers[])(uint64_t) = {number_itself, number_shifted};
    for (size_t i = 0; i < 2; i++) {
        struct row_set set;
        numbered_rows(&set, 100000, numbers[i]);
        struct base_governor *governor;
        struct join_table *table;
        assert_int_equal(base_governor_open(0, &governor, NULL), BASE_OK);
        const struct join_table_config config = {
            .governor = governor, .layout = &set.layout, .key = &set.key, .rows_expected = 1};
        assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
        assert_int_equal(join_table_bytes(table), 4096);
        insert_rows(table, &set, 1, false, false);
        join_table_seal(table);
        assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_DIRECTORY), (1 << 17) * 8);
        assert_int_equal(self_join_pairs(table, &set, set.count), set.count);
        join_table_close(table);
        assert_int_equal(base_governor_used_bytes(governor), 0);
        base_governor_close(governor);
        row_set_close(&set);
    }
}

static void one_key_for_all_rows(void **state)
{
    (void)state;
    struct row_set set;
    numbered_rows(&set, 65536, number_one);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(0, &governor, NULL), BASE_OK);
    const struct join_table_config config = {.governor = governor, .layout = &set.layout, .key = &set.key};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    insert_rows(table, &set, 1000, false, false);
    join_table_seal(table);
    assert_int_equal(self_join_pairs(table, &set, 100), UINT64_C(6553600));
    join_table_close(table);
    base_governor_close(governor);
    row_set_close(&set);
}

static void empty_table_and_empty_probe(void **state)
{
    (void)state;
    struct row_set set;
    numbered_rows(&set, 200, number_itself);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(0, &governor, NULL), BASE_OK);
    const struct join_table_config config = {.governor = governor, .layout = &set.layout, .key = &set.key};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    struct shuffle_rows none = {.count = 0};
    assert_int_equal(join_table_insert(table, &none, NULL), BASE_OK);
    join_table_seal(table);
    assert_int_equal(join_table_rows(table), 0);
    assert_int_equal(self_join_pairs(table, &set, set.count), 0);
    assert_int_equal(self_join_pairs(table, &set, 0), 0);
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&set);
}

static void rows_beyond_the_budget_are_an_error(void **state)
{
    (void)state;
    struct row_set set;
    numbered_rows(&set, 200000, number_itself);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(4 << 20, &governor, NULL), BASE_OK);
    const struct join_table_config config = {
        .governor = governor, .layout = &set.layout, .key = &set.key, .rows_expected = 1};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    struct shuffle_rows rows = {.row = (const uint8_t *const *)set.row, .hash = set.hash, .count = set.count};
    struct base_error error = {0};
    assert_int_equal(join_table_insert(table, &rows, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "hash table rows need 2097152 bytes more"));
    assert_int_equal(join_table_rows(table), rows.next);
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);

    base_governor_close(governor);
    assert_int_equal(base_governor_open(4096, &governor, NULL), BASE_OK);
    void *page;
    assert_int_equal(base_pages_map(governor, BASE_HOLDER_SCAN, 4096, false, &page, NULL), BASE_OK);
    const struct join_table_config no_room = {.governor = governor, .layout = &set.layout, .key = &set.key};
    assert_int_equal(join_table_open(&no_room, &table, &error), BASE_NO_MEMORY);
    assert_non_null(strstr(error.text, "hash table directories need 4096 bytes more"));
    base_pages_unmap(governor, BASE_HOLDER_SCAN, page, 4096);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&set);
}

/* A guess of far too many rows takes neither all of the budget nor fails the job. */
static void an_expectation_leaves_memory_for_rows(void **state)
{
    (void)state;
    struct row_set set;
    numbered_rows(&set, 20000, number_itself);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(4 << 20, &governor, NULL), BASE_OK);
    const struct join_table_config config = {
        .governor = governor, .layout = &set.layout, .key = &set.key, .rows_expected = UINT64_C(1) << 30};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_DIRECTORY), 1 << 20);
    insert_rows(table, &set, 500, false, false);
    join_table_seal(table);
    assert_int_equal(self_join_pairs(table, &set, set.count), set.count);
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&set);
}

static void a_directory_that_cannot_grow_is_only_slower(void **state)
{
    (void)state;
    struct row_set set;
    numbered_rows(&set, 20000, number_itself);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open((2 << 20) + 12288, &governor, NULL), BASE_OK);
    const struct join_table_config config = {
        .governor = governor, .layout = &set.layout, .key = &set.key, .rows_expected = 1};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    insert_rows(table, &set, 500, false, false);
    join_table_seal(table);
    assert_int_equal(base_governor_holder_bytes(governor, BASE_HOLDER_DIRECTORY), 8192);
    assert_int_equal(self_join_pairs(table, &set, set.count), set.count);
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&set);
}

static void rows_larger_than_a_block(void **state)
{
    (void)state;
    static char large[5 << 20];
    struct row_set set;
    row_set_open(&set, "k:int64,a:string", 1);
    row_sets_pair(&set, &set);
    for (uint32_t i = 0; i < 4; i++) {
        memset(large, 'a' + (int)i, sizeof large);
        row_set_add(&set, &(struct cell[]){{.number = i}, {.bytes = large, .count = i % 2 ? 3 : sizeof large}}[0]);
    }
    row_set_hash(&set);
    struct base_governor *governor;
    struct join_table *table;
    assert_int_equal(base_governor_open(0, &governor, NULL), BASE_OK);
    const struct join_table_config config = {.governor = governor, .layout = &set.layout, .key = &set.key};
    assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
    insert_rows(table, &set, 4, false, false);
    join_table_seal(table);
    struct pair_matrix matrix;
    pair_matrix_open(&matrix, &set, &set);
    probe_rows(table, &set, 4, 8, &matrix);
    assert_int_equal(pair_matrix_close(&matrix), 4);
    join_table_close(table);
    assert_int_equal(base_governor_used_bytes(governor), 0);
    base_governor_close(governor);
    row_set_close(&set);
}

/* Blocks are prepared for whole entries, also of rows that are larger than the smallest block, or where many entries
 * are references and a few are not. */
static void prepared_blocks_hold_whole_rows(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, rows;
        uint64_t expected, pinned;
    } cases_of[] = {{3 << 20, 7, 7, 0},          {3 << 20, 7, 7, 7},           {5347730, 13, 13, 6},
                    {(2 << 20) + 1, 40, 1, 0},   {5347730, 30, UINT64_MAX, 0}, {(16 << 20) - 16, 5, 5, 2},
                    {(2 << 20) - 24, 70, 70, 0}, {700 << 10, 200, 190, 100}};
    for (size_t c = 0; c < sizeof cases_of / sizeof *cases_of; c++) {
        char declared[64];
        snprintf(declared, sizeof declared, "k:int64,p:binary(%u)", cases_of[c].width);
        struct row_set set;
        row_set_open(&set, declared, 1);
        row_sets_pair(&set, &set);
        for (uint32_t i = 0; i < cases_of[c].rows; i++)
            row_set_add(&set, (struct cell[]){{.number = i}, {.number = i}});
        row_set_hash(&set);
        struct base_governor *governor;
        struct join_table *table;
        assert_int_equal(base_governor_open(1 << 30, &governor, NULL), BASE_OK);
        const struct join_table_config config = {.governor = governor,
                                                 .layout = &set.layout,
                                                 .key = &set.key,
                                                 .rows_expected = cases_of[c].expected,
                                                 .rows_exact = true,
                                                 .rows_pinned = cases_of[c].pinned,
                                                 .prefault = true};
        assert_int_equal(join_table_open(&config, &table, NULL), BASE_OK);
        for (uint32_t i = 0; i < set.count; i++) {
            struct shuffle_rows one = {.row = (const uint8_t *const *)set.row + i,
                                       .hash = set.hash + i,
                                       .count = 1,
                                       .pinned = i < cases_of[c].pinned / 2};
            assert_int_equal(join_table_insert(table, &one, NULL), BASE_OK);
        }
        join_table_seal(table);
        assert_int_equal(self_join_pairs(table, &set, set.count), set.count);
        join_table_close(table);
        assert_int_equal(base_governor_used_bytes(governor), 0);
        base_governor_close(governor);
        row_set_close(&set);
    }
}

int main(void)
{
    memset(filler, 'f', sizeof filler);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_like_a_nested_loop),
        cmocka_unit_test(negative_is_not_its_unsigned_image),
        cmocka_unit_test(grows_from_one_row),
        cmocka_unit_test(one_key_for_all_rows),
        cmocka_unit_test(empty_table_and_empty_probe),
        cmocka_unit_test(rows_beyond_the_budget_are_an_error),
        cmocka_unit_test(an_expectation_leaves_memory_for_rows),
        cmocka_unit_test(a_directory_that_cannot_grow_is_only_slower),
        cmocka_unit_test(rows_larger_than_a_block),
        cmocka_unit_test(prepared_blocks_hold_whole_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
