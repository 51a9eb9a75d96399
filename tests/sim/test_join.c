/* Whole joins on the simulated engine: every answer right, nothing missing at the end, under hundreds of seeds.
 * MILLRACE_SIM_SEEDS=N runs N of them, MILLRACE_SIM_AFTER=M those after the first M, MILLRACE_SIM_SEED=S one again. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_rows.h"

enum { SEEDS_DEFAULT = 150 };

static char folder[] = "/tmp/millrace-sim-XXXXXX";
static char left_path[64], right_path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(left_path, sizeof left_path, "%s/left.csv", folder);
    snprintf(right_path, sizeof right_path, "%s/right.csv", folder);
    base_log_set_level(BASE_LOG_ERROR);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(left_path);
    unlink(right_path);
    return rmdir(folder);
}

static uint64_t pick(struct base_random *random, const uint64_t *of, uint64_t count)
{
    return of[base_random_below(random, count)];
}

/* Everything that must not change the answer, drawn from the seed. */
static struct sim_job draw_job(struct base_random *random, uint64_t seed)
{
    static const uint64_t frames[] = {4096, 8192, 65536, 1 << 20}, chunks[] = {64, 100, 4096, 65536};
    static const uint64_t counts[] = {2, 3, 8, 32}, nodes[] = {1, 2, 3, 6}, per_node[] = {1, 2, 3};
    struct sim_job job = {.seed = seed,
                          .nodes = (uint32_t)pick(random, nodes, 4),
                          .workers_per_node = (uint32_t)pick(random, per_node, 3),
                          .request = {.kind = JOIN_JOB_JOIN, .on = "lkey=rkey"},
                          .source = {left_path, right_path}};
    if (base_random_chance(random, 1, 20)) {
        job.nodes = 16;
        job.workers_per_node = 4;
    }
    job.settings = (struct shuffle_settings){.verify = base_random_chance(random, 1, 2),
                                             .frame_bytes = (uint32_t)pick(random, frames, 4),
                                             .frames_per_lane = 1 + (uint32_t)base_random_below(random, 3),
                                             .recv_chunk_bytes = (uint32_t)pick(random, chunks, 4),
                                             .recv_chunk_count = (uint32_t)pick(random, counts, 4),
                                             .morsel_bytes = 1024 + base_random_below(random, 8192)};
    job.network = (struct net_sim_config){.delay_max_ns = (uint32_t)base_random_below(random, 100000),
                                          .socket_buffer_bytes = 1 + (uint32_t)base_random_below(random, 20000),
                                          .short_percent = (uint32_t)base_random_below(random, 60),
                                          .starve_percent = (uint32_t)base_random_below(random, 30)};
    job.has_key = base_random_chance(random, 1, 2);
    return job;
}

/* Any type of join, with any rule for NULLs that it may have. */
static struct sim_question draw_question(struct base_random *random)
{
    struct sim_question question = {.type = (enum join_type)base_random_below(random, JOIN_TYPE_COUNT),
                                    .texts = base_random_chance(random, 1, 4),
                                    .null_equal = base_random_chance(random, 1, 3)};
    if (question.type == JOIN_TYPE_ANTI && base_random_chance(random, 1, 2)) {
        question.null_aware = true;
        question.texts = question.null_equal = false;
    }
    return question;
}

static void ask(struct sim_job *job, const struct sim_question *question)
{
    job->request.type = question->type;
    job->request.null_equal = question->null_equal;
    job->request.null_aware = question->null_aware;
    job->request.on = question->texts ? "lkey=rkey,ltext=rtext" : "lkey=rkey";
}

struct expectation {
    uint64_t rows, checksum;
};

static struct expectation write_inputs(struct base_random *random, const struct sim_question *question)
{
    static const uint64_t sizes[] = {0, 1, 7, 300, 1500}, keys[] = {1, 10, 500, 1000000};
    const uint64_t key_count = pick(random, keys, 4);
    uint64_t left_count = pick(random, sizes, 5), right_count = pick(random, sizes, 5);
    if (key_count == 1 && left_count * right_count > UINT64_C(300) * 300)
        left_count = right_count = 300;
    struct sim_rows left, right;
    sim_rows_make(random, (uint32_t)left_count, key_count, &left);
    sim_rows_make(random, (uint32_t)right_count, key_count, &right);
    for (uint32_t i = 0; question->null_aware && i < right.count; i++) /* one NULL decides: often there is none */
        right.row[i].key_null &= right_count == 300;
    sim_rows_write(random, &left, "l", left_path);
    sim_rows_write(random, &right, "r", right_path);
    struct expectation expected;
    sim_rows_join(&left, &right, question, &expected.rows, &expected.checksum);
    sim_rows_free(&left);
    sim_rows_free(&right);
    return expected;
}

static void check_clean(const struct sim_outcome *outcome, uint64_t seed)
{
    if (outcome->deadlock || outcome->leaked)
        fail_msg("seed %" PRIu64 ": %s (status %s: %s)", seed,
                 outcome->deadlock ? "deadlock" : "something was not freed", base_status_name(outcome->status),
                 outcome->error.text);
}

static void run_seed(uint64_t seed)
{
    struct base_random random;
    base_random_seed(&random, seed);
    const struct sim_question question = draw_question(&random);
    const struct expectation expected = write_inputs(&random, &question);
    struct sim_job job = draw_job(&random, seed);
    ask(&job, &question);
    struct sim_outcome outcome;
    sim_cluster_run(&job, &outcome);
    check_clean(&outcome, seed);
    if (outcome.status == BASE_OK && outcome.rows_scanned != outcome.rows_accounted)
        fail_msg("seed %" PRIu64 ": %" PRIu64 " rows scanned, but %" PRIu64 " exchanged, kept or dropped", seed,
                 outcome.rows_scanned, outcome.rows_accounted);
    if (outcome.status != BASE_OK || outcome.rows != expected.rows || outcome.checksum != expected.checksum)
        fail_msg("seed %" PRIu64 ", %s join: %s %s; rows %" PRIu64 ", checksum %016" PRIx64 "; expected %" PRIu64
                 ", %016" PRIx64,
                 seed, join_type_word(question.type), base_status_name(outcome.status), outcome.error.text,
                 outcome.rows, outcome.checksum, expected.rows, expected.checksum);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void test_answers(void **state)
{
    (void)state;
    if (getenv("MILLRACE_SIM_SEED")) {
        run_seed(setting("MILLRACE_SIM_SEED", 0));
        return;
    }
    const uint64_t seeds = setting("MILLRACE_SIM_SEEDS", SEEDS_DEFAULT);
    const uint64_t after = setting("MILLRACE_SIM_AFTER", 0);
    for (uint64_t seed = after + 1; seed <= after + seeds; seed++)
        run_seed(seed);
}

/* A reset, a full disk or a worker that goes away ends in an error, never in a wrong answer, a hang or something kept.
 */
static void test_faults(void **state)
{
    (void)state;
    const uint64_t seeds = setting("MILLRACE_SIM_SEEDS", SEEDS_DEFAULT) / 3;
    const uint64_t after = 1000000 + setting("MILLRACE_SIM_AFTER", 0);
    uint32_t failed = 0;
    for (uint64_t seed = after + 1; seed <= after + seeds; seed++) {
        struct base_random random;
        base_random_seed(&random, seed);
        const struct sim_question question = draw_question(&random);
        const struct expectation expected = write_inputs(&random, &question);
        struct sim_job job = draw_job(&random, seed);
        ask(&job, &question);
        switch (base_random_below(&random, 3)) {
        case 0:
            job.network.reset_after_bytes = 1 + (uint32_t)base_random_below(&random, 60000);
            break;
        case 1:
            job.network.file_error_after = 1 + (uint32_t)base_random_below(&random, 20);
            break;
        default:
            job.kill_worker = true;
        }
        struct sim_outcome outcome;
        sim_cluster_run(&job, &outcome);
        if (job.kill_worker && outcome.status == BASE_OK)
            outcome.deadlock = false; /* with one worker nobody is left to notice */
        check_clean(&outcome, seed);
        failed += outcome.status != BASE_OK;
        if (outcome.status == BASE_OK && !job.kill_worker &&
            (outcome.rows != expected.rows || outcome.checksum != expected.checksum))
            fail_msg("seed %" PRIu64 ": a wrong answer after a fault", seed);
    }
    assert_true(seeds < 10 || failed > seeds / 8);
}

/* Up to three bad lines of `count`, of rows that have quotes and line ends in them; returns the line of the first. */
static uint64_t write_bad_lines(struct base_random *random, uint32_t count)
{
    static const char *const bad[] = {"%u,in\"side\n", "%u,\"x\"y\n", "%ux,text\n", "%u,two,three\n", "%u\n"};
    FILE *file = fopen(left_path, "w");
    assert_non_null(file);
    fprintf(file, "lkey:int64,ltext:string\n");
    uint64_t line = 2, first = 0;
    uint32_t at[3];
    for (int i = 0; i < 3; i++)
        at[i] = (uint32_t)base_random_below(random, count);
    for (uint32_t r = 0; r < count; r++) {
        const bool is_bad = r == at[0] || r == at[1] || r == at[2];
        if (is_bad)
            fprintf(file, bad[base_random_below(random, 5)], r);
        else
            fprintf(file, r % 3 == 0 ? "%u,\"two\nlines\"\n" : "%u,\"good, row \"\"1\"\n", r);
        first = is_bad && first == 0 ? line : first;
        line += !is_bad && r % 3 == 0 ? 2 : 1;
    }
    fclose(file);
    return first;
}

/* After a stray quote inside is taken for outside, in all morsels that follow: the error names the first bad line of
 * the file, whoever scans what and however late. */
static void test_the_first_bad_line_is_named(void **state)
{
    (void)state;
    const uint64_t seeds = setting("MILLRACE_SIM_SEEDS", SEEDS_DEFAULT);
    const uint64_t after = 3000000 + setting("MILLRACE_SIM_AFTER", 0);
    for (uint64_t seed = after + 1; seed <= after + seeds; seed++) {
        struct base_random random;
        base_random_seed(&random, seed);
        const uint64_t line = write_bad_lines(&random, 1 + (uint32_t)base_random_below(&random, 2000));
        struct sim_job job = draw_job(&random, seed);
        job.source[1] = "gen:rows=100,row=8";
        job.request.on = "lkey=key";
        if (base_random_chance(&random, 1, 2)) {
            job.request.kind = JOIN_JOB_SHUFFLE;
            job.request.on = "lkey";
        }
        struct sim_outcome outcome;
        sim_cluster_run(&job, &outcome);
        check_clean(&outcome, seed);
        char where[32];
        snprintf(where, sizeof where, "left.csv:%" PRIu64 ": ", line);
        if (outcome.status != BASE_PARSE || !strstr(outcome.error.text, where))
            fail_msg("seed %" PRIu64 ": line %" PRIu64 " is bad, but: %s", seed, line, outcome.error.text);
    }
}

/* Bad rows that are left out are those of the files, and the answer is that of the others, in whatever shape. */
static void test_bad_rows_are_left_out(void **state)
{
    (void)state;
    const uint64_t seeds = setting("MILLRACE_SIM_SEEDS", SEEDS_DEFAULT);
    const uint64_t after = 3000000 + setting("MILLRACE_SIM_AFTER", 0);
    for (uint64_t seed = after + 1; seed <= after + seeds; seed++) {
        struct base_random random;
        base_random_seed(&random, seed);
        struct sim_rows rows[2];
        struct sim_bad bad[2];
        for (int side = 0; side < 2; side++) {
            sim_rows_make(&random, (uint32_t)base_random_below(&random, 1500), 300, &rows[side]);
            sim_rows_write_dirty(&random, &rows[side], side == 0 ? "l" : "r", side == 0 ? left_path : right_path,
                                 &bad[side]);
        }
        struct expectation expected;
        const struct sim_question question = draw_question(&random);
        sim_rows_join(&rows[0], &rows[1], &question, &expected.rows, &expected.checksum);
        struct sim_job job = draw_job(&random, seed);
        ask(&job, &question);
        job.bad_rows_max = UINT64_MAX;
        struct sim_outcome outcome;
        sim_cluster_run(&job, &outcome);
        check_clean(&outcome, seed);
        if (outcome.status != BASE_OK || outcome.rows != expected.rows || outcome.checksum != expected.checksum)
            fail_msg("seed %" PRIu64 ": %s %s; rows %" PRIu64 " of %" PRIu64, seed, base_status_name(outcome.status),
                     outcome.error.text, outcome.rows, expected.rows);
        for (int side = 0; side < 2; side++) {
            const struct shuffle_rejects *rejects = &outcome.rejects[side];
            if (rejects->count != bad[side].count)
                fail_msg("seed %" PRIu64 ": %" PRIu64 " rows left out of %" PRIu64, seed, rejects->count,
                         bad[side].count);
            for (uint32_t i = 0; i < rejects->kept; i++)
                if (rejects->reject[i].line != bad[side].line[i])
                    fail_msg("seed %" PRIu64 ": line %" PRIu64 " instead of %" PRIu64, seed, rejects->reject[i].line,
                             bad[side].line[i]);
            assert_int_equal(rejects->kept, bad[side].count < 10 ? bad[side].count : 10);
            sim_rows_free(&rows[side]);
        }
    }
}

/* The least of everything: 4 KiB frames, one per lane, two chunks, one byte in flight. */
static void test_least_resources_end(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 42);
    const struct sim_job job = {
        .seed = 42,
        .nodes = 6,
        .workers_per_node = 2,
        .request = {.kind = JOIN_JOB_JOIN, .on = "key=key", .select = "left.key"},
        .settings =
            {.frame_bytes = 4096, .frames_per_lane = 1, .recv_chunk_bytes = 64, .recv_chunk_count = 2, .verify = true},
        .source = {"gen:rows=20000,row=16,keys=unique,seed=3", "gen:rows=20000,row=16,keys=unique,seed=3"},
        .network = {.socket_buffer_bytes = 1, .short_percent = 50}};
    struct sim_outcome outcome;
    sim_cluster_run(&job, &outcome);
    check_clean(&outcome, 42);
    assert_int_equal(outcome.status, BASE_OK);
    assert_int_equal(outcome.rows, 20000);
}

/* Wide rows over chunks of a page, cut at any byte: the answer is that of large chunks, and nothing but cut keys is
 * copied, neither to insert rows nor to probe and count them with all their bytes. */
static void test_wide_rows_are_not_copied(void **state)
{
    (void)state;
    static const char *const rows[] = {"gen:rows=3000,row=1024,keys=unique,seed=3",
                                       "gen:rows=800,row=4096,keys=unique,seed=3"};
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct sim_job job = {.seed = seed,
                              .nodes = 2,
                              .workers_per_node = 1 + (uint32_t)(seed % 2),
                              .request = {.kind = JOIN_JOB_JOIN, .on = "key=key"},
                              .settings = {.frame_bytes = 65536,
                                           .frames_per_lane = 2,
                                           .recv_chunk_bytes = 4096,
                                           .recv_chunk_count = 128,
                                           .verify = seed % 3 == 0},
                              .source = {rows[seed / 2 % 2], rows[seed / 2 % 2]},
                              .network = {.socket_buffer_bytes = 50000, .short_percent = (uint32_t)(seed * 5)}};
        struct sim_outcome cut, large;
        sim_cluster_run(&job, &cut);
        check_clean(&cut, seed);
        job.settings.recv_chunk_bytes = 1 << 20;
        job.network.short_percent = 0;
        sim_cluster_run(&job, &large);
        check_clean(&large, seed);
        assert_int_equal(cut.status, BASE_OK);
        assert_int_equal(large.status, BASE_OK);
        assert_int_equal(cut.rows, seed / 2 % 2 ? 800 : 3000);
        assert_int_equal(large.rows, cut.rows);
        assert_int_equal(large.checksum, cut.checksum);
        assert_true(cut.rows_cut > 300);
        assert_true(cut.stitched_bytes % sizeof(int64_t) == 0);
        assert_true(cut.stitched_bytes <= cut.rows_cut / 4 * sizeof(int64_t));
        assert_int_equal(cut.joined_bytes, 0);
    }
}

/* A shuffle matches nothing, so it keeps rows whose key is NULL; verify holds the hashes of both ends against each
 * other. */
static void test_shuffle_keeps_null_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"lkey", "ltext", "lkey,ltext"};
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct base_random random;
        base_random_seed(&random, seed);
        struct sim_rows rows;
        sim_rows_make(&random, 500, 20, &rows);
        sim_rows_write(&random, &rows, "l", left_path);
        sim_rows_free(&rows);
        const struct sim_job job = {.seed = seed,
                                    .nodes = 3,
                                    .workers_per_node = 2,
                                    .request = {.kind = JOIN_JOB_SHUFFLE, .on = keys[seed - 1]},
                                    .settings = {.frame_bytes = 4096, .verify = true},
                                    .source = {left_path},
                                    .network = {.socket_buffer_bytes = 1000, .short_percent = 20}};
        struct sim_outcome outcome;
        sim_cluster_run(&job, &outcome);
        check_clean(&outcome, seed);
        if (outcome.status != BASE_OK)
            fail_msg("%s", outcome.error.text);
        assert_int_equal(outcome.rows, 500);
    }
}

/* "gen:..." with a row of any width, so that all rows are a few MiB; odd widths, and those around a block or a frame.
 */
static void draw_source(struct base_random *random, bool preload, char text[128])
{
    static const uint64_t edges[] = {8, 9, 4096, 65536, 256 << 10, 1 << 20, 2 << 20};
    static const char *const keys[] = {"unique", "one", "uniform:7", "zipf:1.2:30", "stride"};
    uint64_t row = base_random_chance(random, 1, 2) ? pick(random, edges, 7) + base_random_below(random, 40)
                                                    : 8 + base_random_below(random, 3 << 20);
    row = base_random_chance(random, 1, 2) ? row % 300 + 8 : row;
    const uint64_t most = (UINT64_C(6) << 20) / row + 1;
    snprintf(text, 128, "gen:rows=%" PRIu64 ",row=%" PRIu64 ",keys=%s,seed=%" PRIu64 ",preload=%d",
             base_random_below(random, most < 400 ? most : 400), row, keys[base_random_below(random, 5)],
             base_random_below(random, 99), preload);
}

/* The same columns again and again, of both sides. */
static void draw_select(struct base_random *random, bool both, char text[1024])
{
    static const char *const items[] = {"left.key", "right.key", "key"};
    const uint64_t count = 1 + base_random_below(random, base_random_chance(random, 1, 4) ? 60 : 3);
    text[0] = '\0';
    for (uint64_t i = 0; i < count; i++)
        snprintf(text + strlen(text), 1024 - strlen(text), "%s%s", i > 0 ? "," : "",
                 both ? items[base_random_below(random, 2)] : items[2]);
}

static struct sim_outcome run_odd(struct sim_job *job, uint64_t seed, bool may_starve)
{
    struct sim_outcome outcome;
    sim_cluster_run(job, &outcome);
    check_clean(&outcome, seed);
    if (outcome.status != BASE_OK && !(may_starve && outcome.status == BASE_NO_MEMORY))
        fail_msg("seed %" PRIu64 ": %s %s", seed, base_status_name(outcome.status), outcome.error.text);
    return outcome;
}

/* Rows of any width, columns selected many times, preloaded relations and small budgets: where the memory suffices the
 * answer is that of one worker that reads as it goes. */
static void test_odd_sizes(void **state)
{
    (void)state;
    const uint64_t seeds = setting("MILLRACE_SIM_SEEDS", SEEDS_DEFAULT) / 3;
    const uint64_t after = 2000000 + setting("MILLRACE_SIM_AFTER", 0);
    uint32_t answered = 0;
    for (uint64_t seed = after + 1; seed <= after + seeds; seed++) {
        struct base_random random;
        base_random_seed(&random, seed);
        char source[2][2][128], select[1024];
        for (int preload = 0; preload < 2; preload++) {
            struct base_random again = random;
            draw_source(&again, preload, source[preload][0]);
            draw_source(&again, preload, source[preload][1]);
        }
        base_random_next(&random);
        const bool join = base_random_chance(&random, 2, 3);
        draw_select(&random, join, select);
        struct sim_job job = draw_job(&random, seed);
        job.request.kind = join ? JOIN_JOB_JOIN : JOIN_JOB_SHUFFLE;
        job.request.on = join ? "key=key" : "key";
        job.request.select = base_random_chance(&random, 1, 2) ? select : NULL;
        job.request.into_table = !join && base_random_chance(&random, 1, 2);
        struct sim_job plain = {.seed = seed,
                                .nodes = 1,
                                .workers_per_node = 1,
                                .request = job.request,
                                .source = {source[0][0], join ? source[0][1] : NULL},
                                .network = {.socket_buffer_bytes = 65536}};
        plain.settings = (struct shuffle_settings){0};
        job.source[0] = source[1][0];
        job.source[1] = join ? source[1][1] : NULL;
        job.nodes = job.nodes > 6 ? 6 : job.nodes;
        const bool starve = base_random_chance(&random, 1, 3);
        job.memory_bytes = starve ? (1 << 20) + base_random_below(&random, 40 << 20) : 0;
        const struct sim_outcome expected = run_odd(&plain, seed, false), outcome = run_odd(&job, seed, starve);
        answered += outcome.status == BASE_OK;
        if (outcome.status == BASE_OK && (outcome.rows != expected.rows || outcome.checksum != expected.checksum))
            fail_msg("seed %" PRIu64 ": %" PRIu64 " rows, checksum %016" PRIx64 "; expected %" PRIu64 ", %016" PRIx64,
                     seed, outcome.rows, outcome.checksum, expected.rows, expected.checksum);
    }
    assert_true(seeds < 10 || answered >= seeds / 2);
}

static void test_budget_too_small_is_an_error(void **state)
{
    (void)state;
    const struct sim_job job = {
        .seed = 5,
        .nodes = 2,
        .workers_per_node = 1,
        .request = {.kind = JOIN_JOB_JOIN, .on = "key=key"},
        .source = {"gen:rows=200000,row=64,keys=unique,seed=3", "gen:rows=200000,row=64,keys=unique,seed=3"},
        .network = {.socket_buffer_bytes = 65536},
        .memory_bytes = 6 << 20};
    struct sim_outcome outcome;
    sim_cluster_run(&job, &outcome);
    check_clean(&outcome, 5);
    assert_int_equal(outcome.status, BASE_NO_MEMORY);
}

/* A share that does not fit is refused while opening, when the mesh is there and the passes are not. */
static void test_preload_beyond_the_budget_is_an_error(void **state)
{
    (void)state;
    const struct sim_job job = {
        .seed = 6,
        .nodes = 2,
        .workers_per_node = 2,
        .request = {.kind = JOIN_JOB_JOIN, .on = "key=key"},
        .source = {"gen:rows=400000,row=64,keys=unique,seed=3,preload=1", "gen:rows=1000,row=64,keys=unique,seed=3"},
        .network = {.socket_buffer_bytes = 65536},
        .memory_bytes = 9 << 20};
    struct sim_outcome outcome;
    sim_cluster_run(&job, &outcome);
    check_clean(&outcome, 6);
    assert_int_equal(outcome.status, BASE_NO_MEMORY);
    assert_non_null(strstr(outcome.error.text, "preloaded relation"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bad_rows_are_left_out),
        cmocka_unit_test(test_the_first_bad_line_is_named),
        cmocka_unit_test(test_least_resources_end),
        cmocka_unit_test(test_wide_rows_are_not_copied),
        cmocka_unit_test(test_shuffle_keeps_null_keys),
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_budget_too_small_is_an_error),
        cmocka_unit_test(test_preload_beyond_the_budget_is_an_error),
    };
    return cmocka_run_group_tests_name("sim.join", tests, make_folder, remove_folder);
}
