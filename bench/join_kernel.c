/* Speed of the hash table alone: one thread, int64 keys, rows of 16 or 64 bytes. No network, no output: rows are made a
 * batch at a time just before they are used, as if they had just been received, and only the calls into the table are
 * timed.
 *
 *   bench_join_kernel                      both row sizes, 1 M and 16 M keys
 *   bench_join_kernel --keys 4000000 --row-bytes 64 --hits 50 --duplicates 8 --growing --repeat 9 --json
 *   bench_join_kernel --one-key            65,536 equal keys on both sides: 4,294,967,296 matches */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "join/sinks.h"

enum { REPEATS_MAX = 101, ROW_BYTES_MAX = JOIN_TABLE_REFERENCE_BYTES - 8 };

struct settings {
    uint64_t keys, duplicates, hits_percent, repeat;
    uint32_t row_bytes;
    bool growing, json, one_key;
};

struct sample {
    double build, probe, hash; /* million rows a second */
    uint64_t pairs;
};

struct bench {
    const struct settings *settings;
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
    struct base_governor *governor;
    struct join_table *table;
    uint64_t hash_ns, call_ns;
    uint8_t image[SHUFFLE_BATCH_ROWS * ROW_BYTES_MAX] __attribute__((aligned(64)));
    const uint8_t *row[SHUFFLE_BATCH_ROWS];
    uint64_t hash[SHUFFLE_BATCH_ROWS];
    const uint8_t *build_out[SHUFFLE_BATCH_ROWS], *probe_out[SHUFFLE_BATCH_ROWS];
};

static void check(enum base_status status, const struct base_error *error)
{
    if (status == BASE_OK)
        return;
    fprintf(stderr, "bench_join_kernel: %s\n", error->text);
    exit(1);
}

/* Keys are a bijection of 0..keys-1, so that they are distinct and in no order. */
static uint64_t key_of(uint64_t number)
{
    return base_random_mix(number + 1);
}

static uint64_t build_key(const struct settings *settings, uint64_t index)
{
    return key_of(settings->one_key ? 0 : index % settings->keys);
}

static uint64_t probe_key(const struct settings *settings, uint64_t index)
{
    const uint64_t random = base_random_at(17, index);
    const bool hit = (random >> 32) % 100 < settings->hits_percent;
    return key_of(settings->one_key ? 0 : random % settings->keys + (hit ? 0 : settings->keys));
}

static void batch_prepare(struct bench *bench, uint64_t (*key)(const struct settings *, uint64_t), uint64_t first,
                          uint32_t count)
{
    const uint32_t row_bytes = bench->settings->row_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *row = bench->image + (size_t)i * row_bytes;
        base_store_u64(row, key(bench->settings, first + i));
        base_store_u64(row + row_bytes - 8, first + i);
        bench->row[i] = row;
    }
    const uint64_t begin_ns = base_clock_now_ns();
    shuffle_key_hash_rows(&bench->key, &bench->layout, bench->row, count, bench->hash);
    bench->hash_ns += base_clock_now_ns() - begin_ns;
}

static void build(struct bench *bench, uint64_t rows)
{
    struct base_error error;
    for (uint64_t first = 0; first < rows; first += SHUFFLE_BATCH_ROWS) {
        const uint32_t count = (uint32_t)base_min_u64(rows - first, SHUFFLE_BATCH_ROWS);
        batch_prepare(bench, build_key, first, count);
        struct shuffle_rows batch = {.row = bench->row, .hash = bench->hash, .count = count};
        const uint64_t begin_ns = base_clock_now_ns();
        check(join_table_insert(bench->table, &batch, &error), &error);
        bench->call_ns += base_clock_now_ns() - begin_ns;
    }
}

static uint64_t probe(struct bench *bench, uint64_t rows)
{
    uint64_t sum = 0;
    for (uint64_t first = 0; first < rows; first += SHUFFLE_BATCH_ROWS) {
        const uint32_t count = (uint32_t)base_min_u64(rows - first, SHUFFLE_BATCH_ROWS);
        batch_prepare(bench, probe_key, first, count);
        struct shuffle_rows batch = {.row = bench->row, .hash = bench->hash, .count = count};
        const uint64_t begin_ns = base_clock_now_ns();
        while (batch.next < batch.count) {
            uint32_t pairs;
            join_table_probe(bench->table, JOIN_PROBE_PAIRS, &bench->key, &bench->layout, &batch, SHUFFLE_BATCH_ROWS,
                             bench->build_out, bench->probe_out, &pairs);
            sum += pairs;
        }
        bench->call_ns += base_clock_now_ns() - begin_ns;
    }
    return sum;
}

static double rate(uint64_t rows, uint64_t ns)
{
    return ns ? (double)rows * 1000.0 / (double)ns : 0;
}

static void bench_open(struct bench *bench, const struct settings *settings)
{
    struct base_error error;
    char text[64];
    *bench = (struct bench){.settings = settings};
    snprintf(text, sizeof text, "k:int64,p:binary(%" PRIu32 ")", settings->row_bytes - 8);
    check(shuffle_schema_parse(text, &bench->schema, &error), &error);
    check(shuffle_layout_prepare(&bench->schema, &bench->layout, &error), &error);
    check(base_governor_open(0, &bench->governor, &error), &error);
    bench->key = (struct shuffle_key){.count = 1, .part = {{.column = 0, .class = SHUFFLE_KEY_INTEGER}}};
}

static void bench_close(struct bench *bench)
{
    base_governor_close(bench->governor);
    shuffle_layout_free(&bench->layout);
    shuffle_schema_free(&bench->schema);
}

/* Opens the table and fills it with the build rows. */
static void table_build(struct bench *bench, uint64_t rows)
{
    const struct join_table_config config = {.governor = bench->governor,
                                             .layout = &bench->layout,
                                             .key = &bench->key,
                                             .rows_expected = bench->settings->growing ? 0 : rows,
                                             .prefault = true};
    struct base_error error;
    check(join_table_open(&config, &bench->table, &error), &error);
    bench->call_ns = bench->hash_ns = 0;
    build(bench, rows);
    join_table_seal(bench->table);
}

static struct sample run_once(struct bench *bench)
{
    const uint64_t build_rows = bench->settings->keys * bench->settings->duplicates;
    const uint64_t probe_rows = bench->settings->keys;
    struct sample sample;
    table_build(bench, build_rows);
    sample.build = rate(build_rows, bench->call_ns);
    sample.hash = rate(build_rows, bench->hash_ns);
    bench->call_ns = 0;
    sample.pairs = probe(bench, probe_rows);
    sample.probe = rate(probe_rows, bench->call_ns);
    join_table_close(bench->table);
    return sample;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_sample(const struct settings *settings, uint64_t pairs, double values[3][REPEATS_MAX])
{
    const uint64_t last = settings->repeat - 1;
    for (int i = 0; i < 3; i++)
        qsort(values[i], settings->repeat, sizeof values[i][0], compare_doubles);
    const char *format =
        settings->json ? "{\"keys\": %" PRIu64 ", \"row_bytes\": %" PRIu32 ", \"duplicates\": %" PRIu64
                         ", \"hits_percent\": %" PRIu64 ", \"growing\": %s, \"repeats\": %" PRIu64
                         ", \"pairs\": %" PRIu64 ", \"unit\": \"million rows per second\", \"build_best\": %.1f, "
                         "\"build_median\": %.1f, \"probe_best\": %.1f, \"probe_median\": %.1f, \"hash_best\": %.1f}"
                       : "%9" PRIu64 " keys %3" PRIu32 " bytes  duplicates %" PRIu64 "  hits %" PRIu64
                         " %%  growing %-5s  repeats %" PRIu64 "  pairs %-10" PRIu64
                         "  M rows/s: build best %5.1f median %5.1f  probe best %5.1f median %5.1f  hash best %5.1f\n";
    printf(format, settings->keys, settings->row_bytes, settings->duplicates, settings->hits_percent,
           settings->growing ? "true" : "false", settings->repeat, pairs, values[0][last], values[0][last / 2],
           values[1][last], values[1][last / 2], values[2][last]);
}

static struct bench bench;

static void run(const struct settings *settings)
{
    static double values[3][REPEATS_MAX];
    bench_open(&bench, settings);
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < settings->repeat; i++) {
        const struct sample sample = run_once(&bench);
        values[0][i] = sample.build;
        values[1][i] = sample.probe;
        values[2][i] = sample.hash;
        pairs = sample.pairs;
    }
    print_sample(settings, pairs, values);
    bench_close(&bench);
}

/* As a job would: through the probe sink into an output that counts and checksums both keys of each pair. */
static void probe_into_sink(uint64_t rows, struct shuffle_output *output)
{
    const struct join_probe_sink_config config = {
        .table = bench.table, .key = &bench.key, .layout = &bench.layout, .output = output, .build = 0};
    struct base_error error;
    struct shuffle_sink *sink;
    check(join_probe_sink_open(&config, &sink, &error), &error);
    for (uint64_t first = 0; first < rows; first += SHUFFLE_BATCH_ROWS) {
        const uint32_t count = (uint32_t)base_min_u64(rows - first, SHUFFLE_BATCH_ROWS);
        batch_prepare(&bench, probe_key, first, count);
        struct shuffle_rows batch = {.row = bench.row, .hash = bench.hash, .count = count};
        check(shuffle_sink_consume(sink, &batch, &error), &error);
    }
    join_sink_close(sink);
}

static void run_one_key(const struct settings *settings)
{
    static const struct shuffle_output_item items[] = {{.side = 0, .column = 0}, {.side = 1, .column = 0}};
    struct base_error error;
    struct shuffle_schema result = {0};
    struct shuffle_output *output;
    bench_open(&bench, settings);
    check(shuffle_schema_parse("left_k:int64,right_k:int64", &result, &error), &error);
    const struct shuffle_output_config config = {.kind = SHUFFLE_OUTPUT_COUNT,
                                                 .governor = bench.governor,
                                                 .layout = {&bench.layout, &bench.layout},
                                                 .schema = &result,
                                                 .item = items,
                                                 .item_count = 2};
    check(shuffle_output_open(&config, &output, &error), &error);
    table_build(&bench, settings->keys);

    const uint64_t table_begin_ns = base_clock_now_ns();
    const uint64_t pairs = probe(&bench, settings->keys);
    const uint64_t sink_begin_ns = base_clock_now_ns();
    probe_into_sink(settings->keys, output);
    const uint64_t end_ns = base_clock_now_ns();
    const char *format = settings->json
                             ? "{\"equal_keys\": %" PRIu64 ", \"pairs\": %" PRIu64
                               ", \"table_seconds\": %.2f, \"sink_pairs\": %" PRIu64
                               ", \"sink_seconds\": %.2f, \"checksum\": %" PRIu64 "}\n"
                             : "%" PRIu64 " equal keys on both sides: %" PRIu64 " pairs found in %.2f s; %" PRIu64
                               " through the sink, counted and checksummed, in %.2f s, checksum %" PRIu64 "\n";
    printf(format, settings->keys, pairs, (double)(sink_begin_ns - table_begin_ns) / 1e9, shuffle_output_rows(output),
           (double)(end_ns - sink_begin_ns) / 1e9, shuffle_output_checksum(output));

    join_table_close(bench.table);
    shuffle_output_close(output);
    shuffle_schema_free(&result);
    bench_close(&bench);
}

/* Every combination that was not pinned by an option. */
static void run_all(struct settings settings)
{
    const uint64_t keys[] = {UINT64_C(1) << 20, UINT64_C(1) << 24};
    const uint32_t row_bytes[] = {16, 64};
    const size_t key_counts = settings.keys ? 1 : 2, row_counts = settings.row_bytes ? 1 : 2;
    const char *separator = settings.json ? "[" : "";
    for (size_t i = 0; i < key_counts * row_counts; i++) {
        struct settings one = settings;
        if (!one.keys)
            one.keys = keys[i / row_counts];
        if (!one.row_bytes)
            one.row_bytes = row_bytes[i % row_counts];
        fputs(separator, stdout);
        run(&one);
        fflush(stdout);
        separator = settings.json ? ",\n " : "";
    }
    if (settings.json)
        puts("]");
}

static uint64_t number(const char *text, uint64_t lowest, uint64_t highest)
{
    char *end;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value < lowest || value > highest) {
        fprintf(stderr, "bench_join_kernel: '%s' is not a number from %" PRIu64 " to %" PRIu64 "\n", text, lowest,
                highest);
        exit(2);
    }
    return value;
}

int main(int count, char **arguments)
{
    static const struct option options[] = {
        {"keys", required_argument, NULL, 'k'},   {"row-bytes", required_argument, NULL, 'r'},
        {"hits", required_argument, NULL, 'h'},   {"duplicates", required_argument, NULL, 'd'},
        {"repeat", required_argument, NULL, 'n'}, {"growing", no_argument, NULL, 'g'},
        {"one-key", no_argument, NULL, '1'},      {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, '?'},         {0}};
    struct settings settings = {.duplicates = 1, .hits_percent = 100, .repeat = 5};
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            settings.keys = number(optarg, 1, UINT64_C(1) << 32);
            break;
        case 'r':
            settings.row_bytes = (uint32_t)number(optarg, 16, ROW_BYTES_MAX);
            break;
        case 'h':
            settings.hits_percent = number(optarg, 0, 100);
            break;
        case 'd':
            settings.duplicates = number(optarg, 1, UINT64_C(1) << 20);
            break;
        case 'n':
            settings.repeat = number(optarg, 1, REPEATS_MAX);
            break;
        case 'g':
            settings.growing = true;
            break;
        case '1':
            settings.one_key = true;
            settings.keys = 65536;
            settings.row_bytes = 16;
            break;
        case 'j':
            settings.json = true;
            break;
        default: {
            const bool asked = strcmp(arguments[optind - 1], "--help") == 0;
            fputs("usage: bench_join_kernel [--keys N] [--row-bytes N] [--hits PERCENT] [--duplicates N] [--growing] "
                  "[--one-key] [--repeat N] [--json]\n"
                  "Builds and probes a hash table in one thread; rates are million rows per second, the best of N.\n",
                  asked ? stdout : stderr);
            return asked ? 0 : 2;
        }
        }
    }
    if (settings.one_key)
        run_one_key(&settings);
    else
        run_all(settings);
    return 0;
}
