/* millrace: what people and scripts call. Reads the command line, asks the coordinator, prints the answer.
 *
 * Answers go to standard output, everything else to standard error. A job asked for with --json gets exactly one object
 * on standard output, also when it failed or never came to run. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "base/text/shown.h"
#include "cluster/client/bisect.h"
#include "cluster/client/client.h"
#include "cluster/doctor/doctor.h"
#include "cluster/options/args.h"
#include "cluster/options/key_option.h"
#include "cluster/report/report.h"
#include "cluster/signals.h"

/* Tells a failure in one line, whatever bytes it quotes. */
static void client_tell(const struct base_error *error)
{
    fprintf(stderr, "millrace: %s\n", base_shown(error->text));
}

/* Writes text and frees it; NULL is a text there was no memory for. An answer that did not get out is a failure. */
static int client_give(char *text, int exit_code)
{
    if (!text) {
        fputs("millrace: no memory for the answer\n", stderr);
        return CLUSTER_EXIT_FAILED;
    }
    puts(text);
    free(text);
    return exit_code;
}

/* Text for people: printed into memory, then shown, so that nothing which others named drives the terminal. */
struct text {
    char *bytes;
    size_t count;
    FILE *file;
};

static bool text_open(struct text *text)
{
    *text = (struct text){0};
    text->file = open_memstream(&text->bytes, &text->count);
    if (!text->file)
        fputs("millrace: no memory for the answer\n", stderr);
    return text->file;
}

static int text_give(struct text *text, int exit_code)
{
    const bool whole = fclose(text->file) == 0;
    if (whole)
        base_shown_write(text->bytes, text->count, stdout); /* main looks whether it got out */
    else
        fputs("millrace: no memory for the answer\n", stderr);
    free(text->bytes);
    return whole ? exit_code : CLUSTER_EXIT_FAILED;
}

/* Writes the line into the file that --report names. The exit code: a report that did not get out is a failure. */
static int keep_report(const char *path, const char *line, int code)
{
    FILE *file = fopen(path, "we");
    bool kept = file;
    if (file) {
        kept = *line == '\0' || fprintf(file, "%s\n", line) > 0;
        kept = fclose(file) == 0 && kept;
    }
    if (kept)
        return code;
    fprintf(stderr, "millrace: --report: cannot write %s: %s\n", base_shown(path), strerror(errno));
    return code == CLUSTER_EXIT_OK ? CLUSTER_EXIT_FAILED : code;
}

/* The report as one object, where it was asked for: on standard output, in a file. */
static int give_report(const struct cluster_client_args *args, const struct cluster_report *report, uint64_t job,
                       const char *out, int code)
{
    if (!args->json && !args->report)
        return code;
    char *json = report_json(report, job, out, code);
    if (json && args->report)
        code = keep_report(args->report, json, code);
    if (json && !args->json) {
        free(json);
        return code;
    }
    return client_give(json, code);
}

/* A job that ended without a report of the coordinator. */
static int give_failure(const struct cluster_client_args *args, const struct base_error *error, enum cluster_exit code)
{
    client_tell(error);
    if (args->json && args->command == CLUSTER_COMMAND_BISECT)
        return client_give(bisect_client_failure_json(error, (int)code), (int)code);
    const bool job = args->command == CLUSTER_COMMAND_JOIN || args->command == CLUSTER_COMMAND_SHUFFLE;
    if (!job)
        return (int)code;
    const struct cluster_report report = {.error = *error, .kind = args->submit.kind};
    return give_report(args, &report, 0, args->submit.out, (int)code);
}

/* The session with a coordinator: its client and the key that it borrows. */
struct session {
    struct net_key *key;
    struct cluster_client *client;
};

static void session_close(struct session *session)
{
    if (session->client)
        cluster_client_close(session->client);
    net_key_close(session->key);
}

/* CLUSTER_EXIT_OK, or how to end; the failure has been told. */
static int session_open(const struct cluster_client_args *args, struct session *session)
{
    struct base_error error = {0};
    *session = (struct session){0};
    if (cluster_key_open(args->key, &session->key, &error) != BASE_OK)
        return give_failure(args, &error, CLUSTER_EXIT_USAGE);
    if (cluster_client_open(args->coordinator, session->key, &session->client, &error) == BASE_OK)
        return CLUSTER_EXIT_OK;
    session->client = NULL;
    session_close(session);
    return give_failure(args, &error, error.status == BASE_INVALID ? CLUSTER_EXIT_USAGE : CLUSTER_EXIT_CLUSTER);
}

static int run_job(const struct cluster_client_args *args)
{
    struct base_error error = {0};
    struct session session;
    /* Better now than after the job. */
    if (args->report && keep_report(args->report, "", CLUSTER_EXIT_OK) != CLUSTER_EXIT_OK) {
        struct cluster_client_args plain = *args;
        plain.report = NULL;
        base_error_set(&error, BASE_INVALID, "nothing was run, because its report could not be kept");
        return give_failure(&plain, &error, CLUSTER_EXIT_USAGE);
    }
    const int opened = session_open(args, &session);
    if (opened != CLUSTER_EXIT_OK)
        return opened;
    struct cluster_submit submit = args->submit;
    submit.progress = isatty(STDERR_FILENO) == 1;
    struct cluster_message message;
    const enum base_status status = cluster_client_run(session.client, &submit, &message, &error);
    session_close(&session);
    if (status != BASE_OK)
        return give_failure(args, &error, status == BASE_CANCELLED ? CLUSTER_EXIT_CANCELLED : CLUSTER_EXIT_CLUSTER);
    const struct cluster_report *report = &message.report;
    int code = (int)cluster_client_exit(report);
    if (report->error.status != BASE_OK)
        client_tell(&report->error);
    code = give_report(args, report, message.job, submit.out, code);
    struct text text;
    if (!args->json && report->error.status == BASE_OK && text_open(&text)) {
        report_print(report, message.job, submit.out, text.file);
        code = text_give(&text, code);
    }
    cluster_message_free(&message);
    return code;
}

static int run_bisect(const struct cluster_client_args *args)
{
    struct base_error error = {0};
    struct session session;
    if (!bisect_client_ready(args, &error))
        return give_failure(args, &error, CLUSTER_EXIT_USAGE);
    int code = session_open(args, &session);
    if (code != CLUSTER_EXIT_OK)
        return code;
    code = bisect_client_run(args, session.client);
    session_close(&session);
    return code;
}

static int give_list(const struct cluster_message *message, int code)
{
    struct text text;
    if (!text_open(&text))
        return CLUSTER_EXIT_FAILED;
    if (message->kind == CLUSTER_MESSAGE_NODES)
        report_nodes_print(&message->nodes, text.file);
    else
        report_jobs_print(&message->jobs, text.file);
    return text_give(&text, code);
}

static int run_list(const struct cluster_client_args *args)
{
    const bool nodes = args->command == CLUSTER_COMMAND_NODES;
    struct base_error error = {0};
    struct session session;
    const int opened = session_open(args, &session);
    if (opened != CLUSTER_EXIT_OK)
        return opened;
    struct cluster_message message;
    const enum base_status status = cluster_client_ask(
        session.client, nodes ? CLUSTER_MESSAGE_LIST_NODES : CLUSTER_MESSAGE_LIST_JOBS, &message, &error);
    session_close(&session);
    if (status != BASE_OK)
        return give_failure(args, &error, CLUSTER_EXIT_CLUSTER);
    int code = nodes && !report_nodes_complete(&message.nodes) ? CLUSTER_EXIT_CLUSTER : CLUSTER_EXIT_OK;
    if (args->json)
        code = client_give(nodes ? report_nodes_json(&message.nodes) : report_jobs_json(&message.jobs), code);
    else
        code = give_list(&message, code);
    cluster_message_free(&message);
    return code;
}

static int run_key(const struct cluster_client_args *args)
{
    struct base_error error = {0};
    if (net_key_create(args->file, &error) != BASE_OK)
        return give_failure(args, &error, error.status == BASE_EXISTS ? CLUSTER_EXIT_USAGE : CLUSTER_EXIT_FAILED);
    if (args->json)
        return client_give(report_key_json(args->file), CLUSTER_EXIT_OK);
    printf("made the key %s: copy it to every machine, and give it to daemons and clients with --key=FILE\n",
           base_shown(args->file));
    return CLUSTER_EXIT_OK;
}

static int run_version(const struct cluster_client_args *args)
{
    if (args->json)
        return client_give(report_version_json(), CLUSTER_EXIT_OK);
    char text[BASE_BUILD_TEXT_BYTES];
    printf("millrace %s\n", base_build_describe(text));
    return CLUSTER_EXIT_OK;
}

static int run_engines(const struct cluster_client_args *args)
{
    if (args->json)
        return client_give(report_engines_json(), CLUSTER_EXIT_OK);
    report_engines_print(stdout);
    return CLUSTER_EXIT_OK;
}

static int run_doctor(const struct cluster_client_args *args)
{
    struct base_error error = {0};
    struct doctor_facts *facts = calloc(1, sizeof *facts);
    struct doctor_findings *findings = calloc(1, sizeof *findings);
    int code = CLUSTER_EXIT_FAILED;
    if (!facts || !findings) {
        base_error_set(&error, BASE_NO_MEMORY, "no memory for the report");
        client_tell(&error);
        goto out;
    }
    if (doctor_gather(args->interface, facts, &error) != BASE_OK) {
        code = give_failure(args, &error, CLUSTER_EXIT_USAGE);
        goto out;
    }
    doctor_judge(facts, findings);
    code = doctor_is_well(findings) ? CLUSTER_EXIT_OK : CLUSTER_EXIT_FAILED;
    struct text text;
    if (args->json) {
        code = client_give(doctor_json(facts, findings), code);
    } else if (text_open(&text)) {
        doctor_print(facts, findings, text.file);
        code = text_give(&text, code);
    }
out:
    free(findings);
    free(facts);
    return code;
}

static int (*const commands[CLUSTER_COMMAND_COUNT])(const struct cluster_client_args *args) = {
    [CLUSTER_COMMAND_JOIN] = run_job,  [CLUSTER_COMMAND_SHUFFLE] = run_job,     [CLUSTER_COMMAND_NODES] = run_list,
    [CLUSTER_COMMAND_JOBS] = run_list, [CLUSTER_COMMAND_VERSION] = run_version, [CLUSTER_COMMAND_ENGINES] = run_engines,
    [CLUSTER_COMMAND_KEY] = run_key,   [CLUSTER_COMMAND_DOCTOR] = run_doctor,   [CLUSTER_COMMAND_BISECT] = run_bisect,
};

int main(int argc, char **argv)
{
    struct cluster_client_args args;
    struct base_error error;
    int code = CLUSTER_EXIT_OK;
    cluster_signals_ignore();
    switch (cluster_client_args_parse(argc, argv, stdout, &args, &error)) {
    case CLUSTER_ARGS_DONE:
        break;
    case CLUSTER_ARGS_WRONG:
        code = give_failure(&args, &error, CLUSTER_EXIT_USAGE);
        break;
    case CLUSTER_ARGS_RUN:
        code = commands[args.command](&args);
        cluster_client_args_free(&args);
        break;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("millrace: the answer could not be written to standard output\n", stderr);
        return code ? code : CLUSTER_EXIT_FAILED;
    }
    return code;
}
