/* The command line: words in front of the command, then the command's own, then what can be checked without a cluster.
 *
 * argp stays silent about errors (ARGP_NO_ERRS): a wrong word is told like every other failure, in one line, and as
 * JSON when that was asked for. */
#include "cluster/options/args.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/nearest.h"
#include "cluster/options/bisect_options.h"
#include "cluster/options/options.h"
#include "cluster/protocol/listen_policy.h"

static const char *const command_words[CLUSTER_COMMAND_COUNT] = {
#define X(name, word, about) word,
    CLUSTER_COMMAND_LIST(X)
#undef X
};

static enum base_status no_memory(struct base_error *error)
{
    return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
}

/* Checks, once all words are read ---------------------------------------------------------------------------------- */

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
        return no_memory(error);
    free(*text);
    *text = whole;
    return BASE_OK;
}

/* Generated rows come with their schema: options about files would be ignored, which nobody wants. */
static enum base_status check_generated(const struct cluster_source *source, const char *option,
                                        struct base_error *error)
{
    if (source->schema || source->format != CLUSTER_FORMAT_BY_SUFFIX || source->delimiter || source->quote ||
        source->null_texts[0] != '\0' || source->bad_rows_max > 0 || source->header != CLUSTER_CHOICE_DEFAULT ||
        source->empty_is_null != CLUSTER_CHOICE_DEFAULT || source->quoted_empty_is_null != CLUSTER_CHOICE_DEFAULT ||
        source->incomplete != CLUSTER_CHOICE_DEFAULT)
        return base_error_set(error, BASE_INVALID,
                              "--%s=%s is generated, with the columns key and payload: options that describe a file do "
                              "not apply",
                              option, source->text);
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

static enum base_status check_source(struct cluster_submit *submit, uint32_t index, struct base_error *error)
{
    struct cluster_source *source = &submit->source[index];
    char option[CLIENT_OPTION_BYTES], schema_option[CLIENT_OPTION_BYTES];
    client_source_option(submit, index, "", option);
    client_source_option(submit, index, "-schema", schema_option);
    if (!source->text)
        return base_error_set(error, BASE_INVALID,
                              "--%s=SOURCE is missing: PATH, shared:PATH, local:GLOB or gen:rows=N,...", option);
    struct shuffle_relation relation = {0};
    struct base_error inner = {0};
    char *path = NULL;
    enum base_status status = shuffle_relation_parse(source->text, &relation, &path, &inner);
    if (status != BASE_OK)
        return base_error_set(error, status, "--%s: %s", option, inner.text);
    cluster_source_apply(source, &relation);
    if (relation.placement == SHUFFLE_GENERATED)
        status = check_generated(source, option, error);
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

static enum base_status check_output(struct client_reader *reader)
{
    struct cluster_submit *submit = &reader->args->submit;
    if (submit->out && submit->into_table)
        return base_error_set(reader->error, BASE_INVALID,
                              "--into=table keeps rows in memory, --out writes them: choose one of them");
    if (reader->output_format && !submit->out)
        return base_error_set(reader->error, BASE_INVALID,
                              "--output-format says how --out=DIR writes: add --out, or leave it away");
    if (!submit->out)
        return BASE_OK;
    if (*submit->out == '\0')
        return base_error_set(reader->error, BASE_INVALID, "--out wants the name of a folder that does not exist yet");
    if (!reader->output_format)
        submit->output = SHUFFLE_OUTPUT_CSV;
    return make_absolute("", submit->out, &submit->out, reader->error);
}

static enum base_status check_job(struct client_reader *reader)
{
    struct cluster_submit *submit = &reader->args->submit;
    enum base_status status = BASE_OK;
    for (uint32_t i = 0; i < submit->source_count && status == BASE_OK; i++)
        status = check_source(submit, i, reader->error);
    if (status == BASE_OK && !submit->on)
        status = base_error_set(reader->error, BASE_INVALID, "%s",
                                submit->kind == JOIN_JOB_JOIN
                                    ? "--on=A=B[,C=D...] is missing: which left columns equal which right ones?"
                                    : "--by=K[,L...] is missing: by which columns are rows distributed?");
    return status == BASE_OK ? check_output(reader) : status;
}

/* Reading ---------------------------------------------------------------------------------------------------------- */

static const unsigned parse_flags = ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT;

/* Offers the names of all options of a command but those that the word already is. */
static void offer_options(const struct argp *argp, struct base_nearest *nearest)
{
    for (const struct argp_option *option = argp->options; option && (option->name || option->doc); option++)
        if (option->name && !(strlen(option->name) == nearest->text_bytes &&
                              memcmp(option->name, nearest->text, nearest->text_bytes) == 0))
            base_nearest_offer(nearest, option->name);
    for (const struct argp_child *child = argp->children; child && child->argp; child++)
        offer_options(child->argp, nearest);
}

/* argp stopped at a word; say why when the parser did not. */
static enum base_status tell_wrong_word(struct client_reader *reader, const struct argp *argp, int argc, char **argv)
{
    if (reader->error->status != BASE_OK)
        return reader->error->status;
    const int behind = reader->stopped_at;
    const char *word = argv[behind > 1 && behind <= argc ? behind - 1 : argc - 1];
    struct base_nearest nearest = base_nearest_to("", 0);
    if (strncmp(word, "--", 2) == 0) {
        nearest = base_nearest_to(word + 2, strcspn(word + 2, "="));
        offer_options(argp, &nearest);
    }
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(reader->error, BASE_INVALID,
                          "\"%s\" is not understood: the option is unknown or ambiguous, or its value is missing%s; "
                          "`millrace%s%s --help' shows the options",
                          word, base_nearest_hint(&nearest, "--", hint), reader->front ? "" : " ",
                          reader->front ? "" : reader->command);
}

static enum cluster_args_outcome give_help(const struct argp *argp, const char *name, FILE *out)
{
    char *writable = strdup(name); /* argp_help wants it so */
    if (!writable)
        return CLUSTER_ARGS_WRONG;
    argp_help(argp, out, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, writable);
    free(writable);
    return CLUSTER_ARGS_DONE;
}

static enum base_status find_command(struct client_reader *reader)
{
    for (int i = 0; i < CLUSTER_COMMAND_COUNT; i++)
        if (reader->command && strcmp(reader->command, command_words[i]) == 0) {
            reader->args->command = (enum cluster_command)i;
            return BASE_OK;
        }
    char list[128] = "";
    for (int i = 0; i < CLUSTER_COMMAND_COUNT; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", command_words[i]);
    if (!reader->command)
        return base_error_set(reader->error, BASE_INVALID, "a command is missing: %s; `millrace --help' says more",
                              list);
    struct base_nearest nearest = base_nearest_to(reader->command, strlen(reader->command));
    for (int i = 0; i < CLUSTER_COMMAND_COUNT; i++)
        base_nearest_offer(&nearest, command_words[i]);
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(reader->error, BASE_INVALID, "there is no command \"%s\"%s; the commands are %s",
                          reader->command, base_nearest_hint(&nearest, "", hint), list);
}

static void begin_submit(struct cluster_client_args *args)
{
    if (args->command == CLUSTER_COMMAND_JOIN) {
        args->submit.kind = JOIN_JOB_JOIN;
        args->submit.source_count = 2;
    } else if (args->command == CLUSTER_COMMAND_SHUFFLE) {
        args->submit.kind = JOIN_JOB_SHUFFLE;
        args->submit.source_count = 1;
    } else if (args->command == CLUSTER_COMMAND_BISECT) {
        args->submit.kind = JOIN_JOB_BISECT;
    }
}

static enum cluster_args_outcome parse_command(struct client_reader *reader, int argc, char **argv, FILE *out)
{
    const struct argp *argp = client_command_options(reader->args->command);
    char name[32];
    snprintf(name, sizeof name, "millrace %s", reader->command);
    begin_submit(reader->args);
    reader->front = reader->handed_down = false;
    const int failed = argp_parse(argp, argc, argv, parse_flags, NULL, reader);
    if (reader->help)
        return give_help(argp, name, out);
    if (failed) {
        tell_wrong_word(reader, argp, argc, argv);
        return CLUSTER_ARGS_WRONG;
    }
    if (reader->args->command == CLUSTER_COMMAND_KEY && (!reader->args->file || !*reader->args->file)) {
        base_error_set(reader->error, BASE_INVALID, "the name of a new file is missing: millrace key FILE");
        return CLUSTER_ARGS_WRONG;
    }
    if (reader->args->submit.source_count > 0 && check_job(reader) != BASE_OK)
        return CLUSTER_ARGS_WRONG;
    if (reader->args->command == CLUSTER_COMMAND_BISECT && bisect_options_check(reader) != BASE_OK)
        return CLUSTER_ARGS_WRONG;
    return CLUSTER_ARGS_RUN;
}

static enum cluster_args_outcome parse_all(struct client_reader *reader, int argc, char **argv, FILE *out)
{
    const int failed = argp_parse(client_front_options(), argc, argv, parse_flags | ARGP_IN_ORDER, NULL, reader);
    if (reader->help)
        return give_help(client_front_options(), "millrace", out);
    if (failed) {
        tell_wrong_word(reader, client_front_options(), argc, argv);
        return CLUSTER_ARGS_WRONG;
    }
    if (reader->version) {
        reader->args->command = CLUSTER_COMMAND_VERSION;
        return CLUSTER_ARGS_RUN;
    }
    if (find_command(reader) != BASE_OK)
        return CLUSTER_ARGS_WRONG;
    return parse_command(reader, argc - reader->command_index, argv + reader->command_index, out);
}

enum cluster_args_outcome cluster_client_args_parse(int argc, char **argv, FILE *out, struct cluster_client_args *args,
                                                    struct base_error *error)
{
    *args = (struct cluster_client_args){.command = CLUSTER_COMMAND_COUNT};
    *error = (struct base_error){0};
    struct client_reader reader = {.args = args, .error = error, .front = true};
    const enum cluster_args_outcome outcome = parse_all(&reader, argc, argv, out);
    if (outcome != CLUSTER_ARGS_RUN)
        cluster_client_args_free(args);
    /* A word that stopped the reading may stand in front of it. */
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
    const enum join_job_kind kind = args->submit.kind;
    args->submit = (struct cluster_submit){.kind = kind};
}
