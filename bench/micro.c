/* The runner of the single effects: takes turns, keeps all samples, prints medians as tables or JSON; and the serving
 * side for measuring over a real network. See bench/micro.h. */
#include "bench/micro.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

enum { REPEATS_MAX = 99, SERVE_BUFFER_BYTES = 1 << 20, SERVE_IDLE_MS = 600000 };

static const struct micro_effect *const effects[] = {&micro_batch,     &micro_taskrun, &micro_zerocopy,
                                                     &micro_multishot, &micro_sqpoll,  &micro_files};
enum { EFFECTS = sizeof effects / sizeof *effects };

struct arguments {
    struct micro_options options;
    struct net_address peer, serve;
    bool serves, json, chosen[EFFECTS], any;
    uint32_t repeats;
};

/* ---- what the effects share ---- */

static void meter_read(struct micro_meter *meter)
{
    struct rusage all;
    (void)getrusage(RUSAGE_SELF, &all);
    meter->wall_ns = base_clock_now_ns();
    meter->process_user_ns =
        (uint64_t)all.ru_utime.tv_sec * BASE_NS_PER_S + (uint64_t)all.ru_utime.tv_usec * BASE_NS_PER_US;
    meter->process_system_ns =
        (uint64_t)all.ru_stime.tv_sec * BASE_NS_PER_S + (uint64_t)all.ru_stime.tv_usec * BASE_NS_PER_US;
    base_clock_thread_cpu_ns(&meter->thread_user_ns, &meter->thread_system_ns);
}

void micro_meter_begin(struct micro_meter *meter)
{
    meter_read(meter);
}

void micro_meter_end(struct micro_meter *meter)
{
    struct micro_meter now;
    meter_read(&now);
    meter->wall_ns = now.wall_ns - meter->wall_ns;
    meter->process_user_ns = now.process_user_ns - meter->process_user_ns;
    meter->process_system_ns = now.process_system_ns - meter->process_system_ns;
    meter->thread_user_ns = now.thread_user_ns - meter->thread_user_ns;
    meter->thread_system_ns = now.thread_system_ns - meter->thread_system_ns;
}

enum base_status micro_failed(struct base_error *error, int result, const char *what)
{
    return base_error_set_errno(error, -result, "%s", what);
}

enum base_status micro_ring_open(uint32_t entries, uint32_t flags, struct io_uring *ring, struct base_error *error)
{
    struct io_uring_params params = {.flags =
                                         flags | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE,
                                     .cq_entries = 8192,
                                     .sq_thread_idle = 10};
    const int result = io_uring_queue_init_params(entries, ring, &params);
    if (result < 0)
        return base_error_set(error, BASE_UNSUPPORTED, "the kernel gives no such ring: %s", strerror(-result));
    return BASE_OK;
}

/* ---- running ---- */

struct tally {
    double sample[REPEATS_MAX][MICRO_FIGURES_MAX];
    uint32_t count;
    struct base_error error; /* BASE_OK: it ran */
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct tally *tally, uint32_t figure)
{
    double sorted[REPEATS_MAX];
    for (uint32_t i = 0; i < tally->count; i++)
        sorted[i] = tally->sample[i][figure];
    qsort(sorted, tally->count, sizeof *sorted, compare);
    const uint32_t middle = tally->count / 2;
    return tally->count % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/* False when a case failed for another reason than not being possible here. */
static bool run_effect(const struct micro_effect *effect, const struct arguments *arguments, struct tally *tallies)
{
    for (uint32_t repeat = 0; repeat < arguments->repeats; repeat++) {
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\r\033[K%s, repetition %u of %u", effect->word, repeat + 1, arguments->repeats);
        for (uint32_t i = 0; i < effect->case_count; i++) {
            struct tally *tally = &tallies[i];
            if (tally->error.status != BASE_OK)
                continue;
            const enum base_status status =
                effect->run(&effect->cases[i], &arguments->options, tally->sample[tally->count], &tally->error);
            if (status == BASE_OK)
                tally->count++;
            else if (status != BASE_UNSUPPORTED && status != BASE_NO_MEMORY)
                return false;
        }
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    return true;
}

static void print_effect(const struct micro_effect *effect, const struct tally *tallies)
{
    printf("%s: %s\n  %-16s %10s", effect->word, effect->title, "variant", effect->size_name);
    for (uint32_t f = 0; f < effect->figure_count; f++)
        printf("  %s", effect->figure[f].name);
    putchar('\n');
    for (uint32_t i = 0; i < effect->case_count; i++) {
        printf("  %-16s ", effect->cases[i].variant);
        if (effect->cases[i].size != 0)
            printf("%10" PRIu64, effect->cases[i].size);
        else
            printf("%10s", "-");
        if (tallies[i].error.status != BASE_OK)
            printf("  not here: %s", tallies[i].error.text);
        for (uint32_t f = 0; f < effect->figure_count && tallies[i].error.status == BASE_OK; f++)
            printf("  %*.*f", (int)strlen(effect->figure[f].name), effect->figure[f].decimals, median(&tallies[i], f));
        putchar('\n');
    }
    putchar('\n');
}

static void add_json(json_t *array, const struct micro_effect *effect, const struct tally *tallies)
{
    for (uint32_t i = 0; i < effect->case_count; i++) {
        json_t *one = json_pack("{s:s, s:s, s:I}", "effect", effect->word, "variant", effect->cases[i].variant, "size",
                                (json_int_t)effect->cases[i].size);
        const bool ran = tallies[i].error.status == BASE_OK;
        for (uint32_t f = 0; f < effect->figure_count; f++)
            json_object_set_new(one, effect->figure[f].name, ran ? json_real(median(&tallies[i], f)) : json_null());
        json_object_set_new(one, "not_here", ran ? json_null() : json_string(tallies[i].error.text));
        json_array_append_new(array, one);
    }
}

static int run_all(const struct arguments *arguments)
{
    json_t *array = json_array();
    int code = 0;

    for (int e = 0; e < EFFECTS && code == 0; e++) {
        if (arguments->any && !arguments->chosen[e])
            continue;
        struct tally *tallies = calloc(effects[e]->case_count, sizeof *tallies);
        if (!tallies || !run_effect(effects[e], arguments, tallies)) {
            code = 1;
            for (uint32_t i = 0; tallies && i < effects[e]->case_count; i++)
                if (tallies[i].error.status != BASE_OK)
                    fprintf(stderr, "bench_micro: %s, %s %" PRIu64 ": %s\n", effects[e]->word,
                            effects[e]->cases[i].variant, effects[e]->cases[i].size, tallies[i].error.text);
        } else if (arguments->json) {
            add_json(array, effects[e], tallies);
        } else {
            print_effect(effects[e], tallies);
        }
        free(tallies);
    }
    if (arguments->json && code == 0 && json_dumpf(array, stdout, JSON_INDENT(1)) == 0)
        putchar('\n');
    json_decref(array);
    return code;
}

/* ---- serving ---- */

/* Takes connections one after the other and discards what they send; ends after ten quiet minutes. */
static int serve(const struct net_address *address)
{
    static uint8_t buffer[SERVE_BUFFER_BYTES];
    struct base_error error;
    struct net_address bound;
    char text[64];
    int listener;

    if (net_listen(address, 8, &listener, &bound, &error) != BASE_OK) {
        fprintf(stderr, "bench_micro: %s\n", error.text);
        return 1;
    }
    net_address_format(&bound, text);
    printf("discarding what comes to %s\n", text);
    fflush(stdout);
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    while (poll(&ready, 1, SERVE_IDLE_MS) > 0) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        struct pollfd data = {.fd = fd, .events = POLLIN};
        while (fd >= 0 && poll(&data, 1, SERVE_IDLE_MS) > 0 && recv(fd, buffer, sizeof buffer, 0) > 0)
            ;
        if (fd >= 0)
            close(fd);
    }
    close(listener);
    return 0;
}

/* ---- the command line ---- */

static const struct argp_option option_list[] = {
    {"effects", 'e', "NAME,...", 0, "Some of batch, taskrun, zerocopy, multishot, sqpoll, files (default: all)", 0},
    {"repeat", 'n', "N", 0, "Repetitions, of which the median is shown (default: 5)", 0},
    {"scale", 's', "FACTOR", 0, "Of the work a repetition does (default: 1)", 0},
    {"folder", 'f', "DIR", 0, "Where files are made (default: /tmp)", 0},
    {"peer", 'p', "ADDRESS", 0, "Send to a `bench_micro --serve' on another machine (zerocopy)", 0},
    {"serve", 'l', "ADDRESS", 0, "Be that peer", 0},
    {"json", 'j', NULL, 0, "Print one JSON array", 0},
    {0}};

static void choose(struct arguments *arguments, const char *list, struct argp_state *state)
{
    char copy[128];
    char *rest = copy;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        int e = 0;
        while (e < EFFECTS && strcmp(effects[e]->word, word) != 0)
            e++;
        if (e == EFFECTS)
            argp_error(state, "--effects: there is no \"%s\"", word);
        else
            arguments->chosen[e] = arguments->any = true;
    }
}

static void parse_address(struct argp_state *state, const char *text, struct net_address *address)
{
    struct base_error error;
    if (net_address_parse(text, address, &error) != BASE_OK)
        argp_error(state, "%s", error.text);
}

static double parse_between(struct argp_state *state, const char *option, const char *text, double least, double most)
{
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !(value >= least && value <= most))
        argp_error(state, "--%s: \"%s\" is no number from %g to %g", option, text, least, most);
    return value;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case 'e':
        choose(arguments, text, state);
        return 0;
    case 'n':
        arguments->repeats = (uint32_t)parse_between(state, "repeat", text, 1, REPEATS_MAX);
        return 0;
    case 's':
        arguments->options.scale = parse_between(state, "scale", text, 0.001, 1000);
        return 0;
    case 'f':
        arguments->options.folder = text;
        return 0;
    case 'p':
        parse_address(state, text, &arguments->peer);
        arguments->options.peer = &arguments->peer;
        return 0;
    case 'l':
        parse_address(state, text, &arguments->serve);
        arguments->serves = true;
        return 0;
    case 'j':
        arguments->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int count, char **words)
{
    struct arguments arguments = {.options = {.scale = 1, .folder = "/tmp"}, .repeats = 5};
    static const struct argp argp = {.options = option_list,
                                     .parser = parse,
                                     .doc = "Shows single effects of io_uring, a table each, by medians of interleaved "
                                            "repetitions."};
    argp_err_exit_status = 2;
    argp_parse(&argp, count, words, 0, NULL, &arguments);
    return arguments.serves ? serve(&arguments.serve) : run_all(&arguments);
}
