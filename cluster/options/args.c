/* The command line: words before the command, then the command's own, then what can be checked without a cluster. */
#include "cluster/options/args.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/link/listen_policy.h"
#include "cluster/options/options.h"

struct client_reader {
    struct cluster_client_args *args;
    struct base_error *error;
    struct option_reading reading;
};

/* Files in the folder have names of their own. */
enum { OUT_BYTES_MAX = PATH_MAX - 1 - NAME_MAX - 1 };

static enum base_status args_no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
}

/* ---- checks, once all words are read ---- */

/* Makes PATH of "prefix" PATH absolute, in place of *text. */
static enum base_status make_absolute(const char *prefix, const char *path, char **text, struct base_error *error)
{
    if (*path == '/')
        return BASE_OK;
    char *here = getcwd(NULL, 0);
    if (!here)
        return base_error_set(error, BASE_INVALID, "the current folder has no name: write the whole path instead of %s",
                              path);
    char *whole;
    const int made = asprintf(&whole, "%s%s/%s", prefix, strcmp(here, "/") == 0 ? "" : here, path);
    free(here);
    if (made < 0)
        return args_no_memory(error);
    free(*text);
    *text = whole;
    return BASE_OK;
}

/* Generated rows come with their schema: options about files would be ignored, which nobody wants. */
static enum base_status args_check_generated(const struct client_reader *reader, uint32_t index, const char *option)
{
    const size_t begin = offsetof(struct cluster_client_args, submit.source) + index * sizeof(struct cluster_source);
    for (uint32_t i = 0; i < reader->reading.given_count; i++) {
        const struct option_row *row = reader->reading.given[i].row;
        if (row->offset >= begin && row->offset < begin + sizeof(struct cluster_source) &&
            strcmp(row->name, option) != 0)
            return base_error_set(
                reader->error, BASE_INVALID,
                "--%s=%s is generated, with the columns key and payload: omit --%s, which describes a "
                "file",
                option, reader->args->submit.source[index].text, row->name);
    }
    return BASE_OK;
}

static enum base_status check_schema(const char *text, const char *option, struct base_error *error)
{
    struct shuffle_schema schema = {0};
    struct base_error inner = {0};
    const enum base_status status = shuffle_schema_parse(text, &schema, &inner);
    if (status != BASE_OK)
        return base_error_set(error, status, "--%s: %s", option, inner.text);
    shuffle_schema_free(&schema);
    return BASE_OK;
}

static enum base_status args_check_source(struct client_reader *reader, uint32_t index)
{
    struct cluster_submit *submit = &reader->args->submit;
    struct base_error *error = reader->error;
    struct cluster_source *source = &submit->source[index];
    char option[CLIENT_OPTION_BYTES], schema_option[CLIENT_OPTION_BYTES];
    client_source_option(submit, index, "", option);
    client_source_option(submit, index, "-schema", schema_option);
    struct shuffle_relation relation = {0};
    struct base_error inner = {0};
    char *path = NULL;
    enum base_status status = shuffle_relation_parse(source->text, &relation, &path, &inner);
    if (status != BASE_OK)
        return base_error_set(error, status, "--%s: %s", option, inner.text);
    cluster_source_apply(source, &relation);
    if (relation.placement == SHUFFLE_GENERATED)
        status = args_check_generated(reader, index, option);
    else
        status = make_absolute(relation.placement == SHUFFLE_LOCAL ? "local:" : "shared:", path, &source->text, error);
    if (status == BASE_OK && relation.csv.delimiter == relation.csv.quote && relation.format == SHUFFLE_FORMAT_CSV)
        status =
            base_error_set(error, BASE_INVALID, "--%s: its delimiter and its quote are the same character", option);
    if (status == BASE_OK && source->schema)
        status = check_schema(source->schema, schema_option, error);
    free(path);
    shuffle_relation_free(&relation);
    return status;
}

/* A path that no kernel takes is better refused here than by every node. */
static enum base_status check_path(const char *option, const char *path, struct base_error *error)
{
    if (strlen(path) > OUT_BYTES_MAX)
        return base_error_set(error, BASE_INVALID,
                              "--%s=%.40s... has %zu bytes as a whole path, at most %d are allowed: make it shorter",
                              option, path, strlen(path), OUT_BYTES_MAX);
    for (const char *name = path; *name != '\0'; name += strspn(name, "/")) {
        const size_t bytes = strcspn(name, "/");
        if (bytes > NAME_MAX)
            return base_error_set(error, BASE_INVALID,
                                  "--%s: the name \"%.40s...\" in its path has %zu bytes, at most %d are allowed",
                                  option, name, bytes, NAME_MAX);
        name += bytes;
    }
    return BASE_OK;
}

static enum base_status check_output(struct client_reader *reader)
{
    const bool format = option_table_given(&reader->reading, "output-format");
    struct cluster_submit *submit = &reader->args->submit;
    if (submit->out && submit->into_table)
        return base_error_set(reader->error, BASE_INVALID,
                              "--into=table keeps rows in memory, --out writes them: choose one of them");
    if (format && !submit->out)
        return base_error_set(reader->error, BASE_INVALID,
                              "--output-format says how --out=DIR writes: add --out, or omit --output-format");
    if (!submit->out) {
        submit->output = SHUFFLE_OUTPUT_COUNT;
        return BASE_OK;
    }
    const enum base_status status = make_absolute("", submit->out, &submit->out, reader->error);
    return status == BASE_OK ? check_path("out", submit->out, reader->error) : status;
}

static enum base_status check_job(struct client_reader *reader)
{
    struct cluster_submit *submit = &reader->args->submit;
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < submit->source_count && status == BASE_OK; i++)
        status = args_check_source(reader, i);
    return status == BASE_OK ? check_output(reader) : status;
}

/* ---- reading ---- */

static void begin_submit(struct cluster_client_args *args)
{
    if (args->command == CLUSTER_COMMAND_JOIN) {
        args->submit.kind = CLUSTER_KIND_JOIN;
        args->submit.source_count = 2;
    } else if (args->command == CLUSTER_COMMAND_SHUFFLE) {
        args->submit.kind = CLUSTER_KIND_SHUFFLE;
        args->submit.source_count = 1;
    } else if (args->command == CLUSTER_COMMAND_BISECT) {
        args->submit.kind = CLUSTER_KIND_BISECT;
    }
}

static enum cluster_args_outcome args_give_help(const struct option_command *command, struct client_reader *reader,
                                                FILE *out)
{
    const struct option_program *list = command == client_program.front ? &client_program : NULL;
    if (option_table_help(command, list, out) == BASE_OK)
        return CLUSTER_ARGS_DONE;
    args_no_memory(reader->error);
    return CLUSTER_ARGS_WRONG;
}

static enum base_status check_command(const struct option_command *command, struct client_reader *reader)
{
    struct cluster_client_args *args = reader->args;
    const enum base_status status = option_table_complete(command, &reader->reading);
    if (status != BASE_OK)
        return status;
    if (args->command == CLUSTER_COMMAND_KEY) {
        args->file = reader->reading.bare;
        if (!args->file || !*args->file)
            return base_error_set(reader->error, BASE_INVALID, "the name of a new file is missing: millrace key FILE");
    }
    return args->submit.source_count > 0 ? check_job(reader) : BASE_OK;
}

static enum cluster_args_outcome parse_all(struct client_reader *reader, int argc, char **argv, FILE *out)
{
    struct cluster_client_args *args = reader->args;
    struct option_reading *reading = &reader->reading;
    if (option_table_read(client_program.front, argc, argv, reading) != BASE_OK)
        return CLUSTER_ARGS_WRONG;
    if (args->help)
        return args_give_help(client_program.front, reader, out);
    if (args->version) {
        args->command = CLUSTER_COMMAND_VERSION;
        return CLUSTER_ARGS_RUN;
    }
    const struct option_command *command = option_command_find(&client_program, reading->bare, reader->error);
    if (!command)
        return CLUSTER_ARGS_WRONG;
    args->command = (enum cluster_command)(command - client_program.command);
    begin_submit(args);
    const int at = reading->bare_at;
    if (option_table_read(command, argc - at, argv + at, reading) != BASE_OK)
        return CLUSTER_ARGS_WRONG;
    if (args->help)
        return args_give_help(command, reader, out);
    return check_command(command, reader) == BASE_OK ? CLUSTER_ARGS_RUN : CLUSTER_ARGS_WRONG;
}

enum cluster_args_outcome cluster_client_args_parse(int argc, char **argv, FILE *out, struct cluster_client_args *args,
                                                    struct base_error *error)
{
    *args = (struct cluster_client_args){.command = CLUSTER_COMMAND_COUNT};
    *error = (struct base_error){0};
    struct client_reader reader = {.args = args, .error = error, .reading = {.target = args, .error = error}};
    const enum cluster_args_outcome outcome = parse_all(&reader, argc, argv, out);
    if (outcome != CLUSTER_ARGS_RUN)
        cluster_client_args_free(args);
    /* A word that stopped the reading may stand before it. */
    for (int i = 1; i < argc && outcome == CLUSTER_ARGS_WRONG; i++)
        args->json |= strcmp(argv[i], "--json") == 0;
    if (!args->coordinator)
        args->coordinator = getenv("MILLRACE_COORDINATOR");
    if (!args->coordinator || !*args->coordinator)
        args->coordinator = CLUSTER_COORDINATOR_DEFAULT;
    return outcome;
}

void cluster_client_args_free(struct cluster_client_args *args)
{
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_SUBMIT, .submit = args->submit};
    cluster_message_free(&message);
    const enum cluster_job_kind kind = args->submit.kind;
    args->submit = (struct cluster_submit){.kind = kind};
}
