/* One job per engine, one after the other; the first that fails is the last. What had been measured by then is shown
 * all the same. */
#include "cluster/client/bisect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/shown.h"
#include "cluster/client/client.h"
#include "cluster/client/progress.h"
#include "cluster/report/bisect_report.h"

struct watch {
    struct bisect_run *run;
    const char *link_rate; /* or NULL */
    FILE *words;           /* where "about 80 s" goes */
    bool live;             /* standard error is a terminal: steps are shown as they end */
};

static void show_step(const struct watch *watch)
{
    const struct bisect_run *run = watch->run;
    if (!watch->live)
        return;
    const struct cluster_measurement *last = run->count ? &run->measurement[run->count - 1] : NULL;
    char rate[BISECT_RATE_BYTES] = "";
    if (last)
        bisect_rate_format(bisect_rate(run, last), rate);
    char text[128];
    snprintf(text, sizeof text, "measuring %u of %u  %s %s", run->count, run->schedule.step_count,
             last ? cluster_bisect_kind_word(last->kind) : "", rate);
    cluster_progress_show(STDERR_FILENO, text);
}

static void clear_step(const struct watch *watch)
{
    if (watch->live)
        fprintf(stderr, "\r\033[K");
}

static const char *node_name(const void *context, uint32_t node)
{
    return ((const struct cluster_schedule *)context)->node[node].name;
}

static void tell_schedule(const struct watch *watch)
{
    const struct cluster_schedule *told = &watch->run->schedule;
    fprintf(watch->words, "%u nodes, at most %u steps of %.2f s after %.2f s of warm-up: about %.0f s\n",
            told->node_count, told->step_count, (double)told->duration_ns / 1e9, (double)told->warmup_ns / 1e9,
            (double)told->expected_ns / 1e9);
    fflush(watch->words);
}

static enum base_status on_told(void *context, struct cluster_message *message, struct base_error *error)
{
    struct watch *watch = context;
    const bool schedule = message->kind == CLUSTER_MESSAGE_SCHEDULE;
    enum base_status status = bisect_run_take(watch->run, message, error);
    if (status == BASE_OK && schedule) {
        tell_schedule(watch);
        /* Better said now than when all is measured. */
        status = bisect_links_check(watch->link_rate, node_name, &watch->run->schedule, watch->run->schedule.node_count,
                                    error);
    }
    if (status == BASE_OK)
        show_step(watch);
    return status;
}

/* Runs one job. Its report says how it ended, also when none came. */
static void run_engine(struct cluster_client *client, const struct cluster_client_args *args, uint32_t engine,
                       struct bisect_run *run)
{
    struct cluster_submit submit = args->submit;
    submit.settings.engine = args->bisect.engine[engine];
    struct watch watch = {.run = run,
                          .link_rate = args->bisect.link_rate,
                          .words = args->json ? stderr : stdout,
                          .live = isatty(STDERR_FILENO) == 1};
    struct base_error error = {0};
    const enum base_status status = cluster_client_run_watched(client, &submit, on_told, &watch, &run->report, &error);
    clear_step(&watch);
    if (status == BASE_OK)
        run->job = run->report.job;
    else
        run->report = (struct cluster_message){.kind = CLUSTER_MESSAGE_REPORT, .report = {.error = error}};
}

static int exit_code(const struct bisect_run *run)
{
    const struct cluster_report *report = &run->report.report;
    if (run->job)
        return (int)cluster_client_exit(report);
    if (report->error.status == BASE_INVALID)
        return CLUSTER_EXIT_USAGE;
    return report->error.status == BASE_CANCELLED ? CLUSTER_EXIT_CANCELLED : CLUSTER_EXIT_CLUSTER;
}

/* Makes or replaces the file; "" only proves that this can be done. The failure has been told. */
static bool write_page(const char *path, const char *page)
{
    FILE *file = fopen(path, "we");
    bool kept = file;
    if (file) {
        kept = fputs(page, file) >= 0;
        kept = fclose(file) == 0 && kept;
    }
    if (!kept)
        fprintf(stderr, "millrace: --html=%s cannot be written: %s\n", base_shown(path), strerror(errno));
    return kept;
}

static bool keep_page(const char *path, const char *json)
{
    char *page = bisect_report_html(json);
    const bool kept = page && write_page(path, page);
    if (!page)
        fputs("millrace: --html: no memory for the page\n", stderr);
    free(page);
    return kept;
}

/* Printed into memory, then shown, so that nothing which others named drives the terminal. */
static int show_text(const struct bisect_report *report, int code)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (to)
        bisect_report_print(report, to);
    const bool whole = to && fclose(to) == 0;
    if (whole)
        base_shown_write(text, bytes, stdout); /* main looks whether it got out */
    else
        fputs("millrace: no memory for the answer\n", stderr);
    free(text);
    return whole ? code : CLUSTER_EXIT_FAILED;
}

/* Prints what is asked for. */
static int bisect_show(const struct cluster_client_args *args, const struct bisect_report *report)
{
    char *json = bisect_report_json(report);
    int code = report->exit_code;
    if (report->error.status != BASE_OK)
        fprintf(stderr, "millrace: %s\n", base_shown(report->error.text));
    if (!json) {
        fputs("millrace: no memory for the answer\n", stderr);
        return CLUSTER_EXIT_FAILED;
    }
    if (args->bisect.html && !keep_page(args->bisect.html, json) && code == CLUSTER_EXIT_OK)
        code = CLUSTER_EXIT_FAILED;
    if (args->json)
        puts(json);
    else
        code = show_text(report, code);
    free(json);
    return code;
}

/* Summarises what the runs brought and shows it. */
static int bisect_conclude(const struct cluster_client_args *args, const struct bisect_run *run, uint32_t count,
                           struct bisect_report *report)
{
    struct bisect_summary summary[CLUSTER_BISECT_ENGINES_MAX];
    report->streams = args->submit.bisect.streams;
    report->link_rate = args->bisect.link_rate;
    report->summary = summary;
    for (uint32_t i = 0; i < count; i++) {
        struct base_error error;
        if (bisect_summary_make(&run[i], report->link_rate, &summary[report->count], &error) == BASE_OK)
            report->count++;
        else if (report->error.status == BASE_OK) {
            report->error = error;
            report->exit_code = CLUSTER_EXIT_FAILED;
        }
    }
    const int code = bisect_show(args, report);
    for (uint32_t i = 0; i < report->count; i++)
        bisect_summary_free(&summary[i]);
    report->summary = NULL;
    return code;
}

bool bisect_client_ready(const struct cluster_client_args *args, struct base_error *error)
{
    if (!args->bisect.html || write_page(args->bisect.html, ""))
        return true;
    base_error_set(error, BASE_INVALID, "nothing was measured, because its page could not be kept");
    return false;
}

int bisect_client_run(const struct cluster_client_args *args, struct cluster_client *client)
{
    struct bisect_report report = {0};
    struct bisect_run run[CLUSTER_BISECT_ENGINES_MAX];
    memset(run, 0, sizeof run);
    uint32_t count = 0;
    while (count < args->bisect.engine_count && report.error.status == BASE_OK) {
        run_engine(client, args, count, &run[count]);
        report.error = run[count].report.report.error;
        report.exit_code = exit_code(&run[count]);
        count++;
    }
    const int code = bisect_conclude(args, run, count, &report);
    for (uint32_t i = 0; i < count; i++)
        bisect_run_free(&run[i]);
    return code;
}

char *bisect_client_failure_json(const struct base_error *error, int code)
{
    const struct bisect_report report = {.error = *error, .exit_code = code};
    return bisect_report_json(&report);
}
