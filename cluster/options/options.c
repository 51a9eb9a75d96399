/* The options of every command, as argp's tables, and the one parser that all of them share. */
#include "cluster/options/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/number.h"
#include "cluster/options/bisect_options.h"
#include "cluster/options/key_option.h"
#include "cluster/protocol/listen_policy.h"

enum key {
    KEY_HELP = 'h',
    KEY_VERSION = 'V',
    KEY_COORDINATOR = 256,
    KEY_CLUSTER_KEY,
    KEY_JSON,
    KEY_INTERFACE,
    KEY_REPORT,
    KEY_ON,
    KEY_BY,
    KEY_TYPE,
    KEY_SELECT,
    KEY_INTO,
    KEY_OUT,
    KEY_OUTPUT_FORMAT,
    KEY_ENGINE,
    KEY_VERIFY,
    KEY_SOCKET,
    KEY_SETTING,                   /* plus the setting's place in `settings` */
    KEY_SOURCE = KEY_SETTING + 32, /* plus SOURCE_KEYS for the second source, plus the key within the source */
    OPTION_KEYS_END = 1 << 16      /* argp's own are above */
};

/* X(key, what follows the source's name, argument, help): what can be said of a source. */
#define SOURCE_LIST(X)                                                                                                 \
    X(SCHEMA, "-schema", "SCHEMA", "Columns: NAME:TYPE[?][,...]; ? means that it may be NULL")                         \
    X(FORMAT, "-format", "csv|bin", "Format (default: bin for names such as t.bin or t.bin.gz, else csv)")             \
    X(DELIMITER, "-delimiter", "C", "Between CSV fields (default: a comma; a tab for names that end in .tsv)")         \
    X(QUOTE, "-quote", "C|none", "Around CSV fields (default: \"); none: quotes are text")                             \
    X(HEADER, "-header", "yes|no", "Does the first CSV record name the columns? (default: yes)")                       \
    X(EMPTY_NULL, "-empty-null", "yes|no", "Is an empty CSV field NULL? (default: yes)")                               \
    X(QUOTED_EMPTY_NULL, "-quoted-empty-null", "yes|no", "Is a quoted empty CSV field NULL too? (default: no)")        \
    X(NULL_TEXT, "-null", "TEXT", "An unquoted CSV field of this text is NULL; may be given several times")            \
    X(SKIP_BAD_ROWS, "-skip-bad-rows", "N", "Leave out bad CSV rows, at most N (default: 0, a bad row is an error)")   \
    X(INCOMPLETE, "-incomplete", "yes|no", "Read a result of Millrace of which a part is missing? (default: no)")

enum source_key {
    SOURCE_TEXT,
#define X(key, suffix, argument, about) SOURCE_##key,
    SOURCE_LIST(X)
#undef X
        SOURCE_KEYS
};

/* Settings that are numbers ---------------------------------------------------------------------------------------- */

static const struct setting {
    const char *name;
    uint64_t least, most; /* 0 is always right and means the default */
    size_t offset, bytes; /* of the field in struct join_settings */
} settings[] = {
#define SETTING(name, least, most, field)                                                                              \
    {                                                                                                                  \
        name, least, most, offsetof(struct join_settings, field), sizeof((struct join_settings *)0)->field             \
    }
    SETTING("frame-bytes", 4096, 1 << 20, frame_bytes),
    SETTING("frames-per-lane", 1, 1024, frames_per_lane),
    SETTING("chunk-bytes", 4096, 1 << 24, recv_chunk_bytes),
    SETTING("chunks", 1, 32768, recv_chunk_count),
    SETTING("morsel-bytes", 1024, UINT64_C(1) << 40, morsel_bytes),
#undef SETTING
};

static enum base_status read_setting(const struct setting *setting, const char *text, struct join_settings *into,
                                     struct base_error *error)
{
    uint64_t value;
    if (!base_number_parse(text, &value))
        return base_error_set(error, BASE_INVALID, "--%s=%s is not a number up to %llu: write " BASE_NUMBER_WORDS,
                              setting->name, text, (unsigned long long)setting->most);
    if (value != 0 && (value < setting->least || value > setting->most))
        return base_error_set(error, BASE_INVALID,
                              "--%s=%s is out of range: it goes from %llu to %llu, or 0 for the default", setting->name,
                              text, (unsigned long long)setting->least, (unsigned long long)setting->most);
    char *field = (char *)into + setting->offset;
    const uint32_t narrow = (uint32_t)value; /* `most` of a 32-bit field is far below its end */
    if (setting->bytes == sizeof narrow)
        memcpy(field, &narrow, sizeof narrow);
    else
        memcpy(field, &value, sizeof value);
    return BASE_OK;
}

/* Words with a few values ------------------------------------------------------------------------------------------ */

struct value {
    const char *word;
    int value;
};

/* Finds text among values (ended by a NULL word). */
static enum base_status read_value(const char *option, const char *text, const struct value *values, int *value,
                                   struct base_error *error)
{
    char list[128] = "", hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest nearest = base_nearest_to(text, strlen(text));
    for (const struct value *v = values; v->word; v++) {
        if (strcmp(text, v->word) == 0) {
            *value = v->value;
            return BASE_OK;
        }
        base_nearest_offer(&nearest, v->word);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", v->word);
    }
    return base_error_set(error, BASE_INVALID, "--%s=%s is not understood%s: choose one of %s", option, text,
                          base_nearest_hint(&nearest, "", hint), list);
}

static const struct value output_values[] = {{"csv", SHUFFLE_OUTPUT_CSV}, {"bin", SHUFFLE_OUTPUT_FIXED}, {NULL, 0}};
static const struct value format_values[] = {{"csv", CLUSTER_FORMAT_CSV}, {"bin", CLUSTER_FORMAT_FIXED}, {NULL, 0}};
static const struct value choice_values[] = {{"yes", CLUSTER_CHOICE_YES}, {"no", CLUSTER_CHOICE_NO}, {NULL, 0}};
static const struct value into_values[] = {{"table", 1}, {NULL, 0}};

static enum base_status read_character(const char *option, const char *text, char *character, struct base_error *error)
{
    if (strcmp(text, "tab") == 0 || strcmp(text, "\\t") == 0) {
        *character = '\t';
        return BASE_OK;
    }
    if (strlen(text) != 1 || *text == '\n' || *text == '\r' || (unsigned char)*text >= 0x80)
        return base_error_set(error, BASE_INVALID, "--%s=%s is not understood: give one ASCII character, or tab",
                              option, text);
    *character = *text;
    return BASE_OK;
}

/* Takes a copy of text into *copy. Of two, neither may win unseen. */
static enum base_status keep(const char *option, const char *text, char **copy, struct base_error *error)
{
    if (*copy)
        return base_error_set(error, BASE_INVALID, "--%s is given twice, with \"%s\" and \"%s\": give it once", option,
                              *copy, text);
    if (strlen(text) > CLUSTER_TEXT_BYTES_MAX)
        return base_error_set(error, BASE_INVALID, "--%s has %zu bytes, at most %d are allowed: make it shorter",
                              option, strlen(text), CLUSTER_TEXT_BYTES_MAX);
    *copy = strdup(text);
    if (!*copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
    return BASE_OK;
}

/* Adds a line to the texts that mean NULL. */
static enum base_status read_null_text(const char *option, const char *text, char texts[SHUFFLE_NULL_TEXTS_BYTES],
                                       struct base_error *error)
{
    const size_t used = strlen(texts), bytes = strlen(text);
    if (strpbrk(text, "\r\n") != NULL)
        return base_error_set(error, BASE_INVALID, "--%s: an unquoted field has no line end", option);
    if (used + bytes + 2 > SHUFFLE_NULL_TEXTS_BYTES)
        return base_error_set(error, BASE_INVALID, "--%s=%.40s is too much: all such texts have at most %d bytes",
                              option, text, SHUFFLE_NULL_TEXTS_BYTES - 2);
    memcpy(texts + used, text, bytes);
    memcpy(texts + used + bytes, "\n", 2);
    return BASE_OK;
}

static enum base_status read_count(const char *option, const char *text, uint64_t *count, struct base_error *error)
{
    if (!base_number_parse(text, count))
        return base_error_set(error, BASE_INVALID, "--%s=%s is not a number: write " BASE_NUMBER_WORDS, option, text);
    return BASE_OK;
}

/* Options ---------------------------------------------------------------------------------------------------------- */

enum { GROUP_SOURCE = 1, GROUP_MATCH, GROUP_OUTPUT, GROUP_RUN, GROUP_TUNE, GROUP_COMMON };

#define HEADING(text, number)                                                                                          \
    {                                                                                                                  \
        .doc = text, .group = number                                                                                   \
    }
#define KEY_OF(index, key) KEY_SOURCE + (index) * (int)SOURCE_KEYS + SOURCE_##key

static const struct argp_option join_options[] = {
    HEADING("Inputs:", GROUP_SOURCE),
    {"left", KEY_OF(0, TEXT), "SOURCE", 0, "The left input: PATH, shared:PATH, local:GLOB or gen:rows=N,...",
     GROUP_SOURCE},
    {"right", KEY_OF(1, TEXT), "SOURCE", 0, "The right input", GROUP_SOURCE},
#define X(key, suffix, argument, about)                                                                                \
    {"left" suffix, KEY_OF(0, key), argument, 0, about, GROUP_SOURCE},                                                 \
        {"right" suffix, KEY_OF(1, key), argument, OPTION_ALIAS, NULL, GROUP_SOURCE},
    SOURCE_LIST(X)
#undef X
        HEADING("Matching:", GROUP_MATCH),
    {"on", KEY_ON, "A=B[,C=D...]", 0, "Left columns and the right columns they must equal", GROUP_MATCH},
    {"type", KEY_TYPE, "inner", 0, "Kind of join; this version has inner joins only", GROUP_MATCH},
    {"select", KEY_SELECT, "COLUMN[,...]", 0, "Columns of the result: A, left.A or right.B (default: all)",
     GROUP_MATCH},
    {0}};

static const struct argp_option shuffle_options[] = {
    HEADING("Input:", GROUP_SOURCE),
    {"in", KEY_OF(0, TEXT), "SOURCE", 0, "The input: PATH, shared:PATH, local:GLOB or gen:rows=N,...", GROUP_SOURCE},
#define X(key, suffix, argument, about) {&suffix[1], KEY_OF(0, key), argument, 0, about, GROUP_SOURCE},
    SOURCE_LIST(X)
#undef X
        HEADING("Distribution:", GROUP_MATCH),
    {"by", KEY_BY, "K[,L...]", 0, "Columns of the key", GROUP_MATCH},
    {"select", KEY_SELECT, "COLUMN[,...]", 0, "Columns of the result (default: all)", GROUP_MATCH},
    {"into", KEY_INTO, "table", 0, "Put the rows into hash tables, to measure that; not with --out", GROUP_OUTPUT},
    {0}};

static const struct argp_option job_options[] = {
    HEADING("Output:", GROUP_OUTPUT),
    {"out", KEY_OUT, "DIR", 0, "Write the rows into this new folder (default: count and checksum only)", GROUP_OUTPUT},
    {"output-format", KEY_OUTPUT_FORMAT, "csv|bin", 0, "Format of what --out writes (default: csv)", GROUP_OUTPUT},
    {"report", KEY_REPORT, "FILE", 0, "Write the object of --json into this file, too", GROUP_OUTPUT},
    HEADING("Execution:", GROUP_RUN),
    {"engine", KEY_ENGINE, "auto|epoll|uring|RUNG", 0, "How bytes are moved (default: auto, io_uring where it works)",
     GROUP_RUN},
    {"verify", KEY_VERIFY, NULL, 0, "Check every payload byte that crosses the network", GROUP_RUN},
    {"socket", KEY_SOCKET, "SETTING=VALUE[,...]", 0,
     "Of TCP: congestion=NAME, send-buffer=SIZE, recv-buffer=SIZE, notsent-lowat=SIZE, nodelay=on|off", GROUP_RUN},
    HEADING("Tuning (0 is the default):", GROUP_TUNE),
    {"frame-bytes", KEY_SETTING + 0, "SIZE", 0,
     "Frame size (a frame is the unit sent; default: by the size of the input)", GROUP_TUNE},
    {"frames-per-lane", KEY_SETTING + 1, "N", 0, "Frames under way from one worker to another (default: 2)",
     GROUP_TUNE},
    {"chunk-bytes", KEY_SETTING + 2, "SIZE", 0, "Of a receive chunk (default: as the engine chooses)", GROUP_TUNE},
    {"chunks", KEY_SETTING + 3, "N", 0, "Receive chunks of a worker (default: as the engine chooses)", GROUP_TUNE},
    {"morsel-bytes", KEY_SETTING + 4, "SIZE", 0, "Of a piece of input (default: 4Mi, less for small inputs)",
     GROUP_TUNE},
    {0}};

static const struct argp_option doctor_options[] = {
    {"interface", KEY_INTERFACE, "IF", 0,
     "Bind the last receive queue of this network interface for a moment, to see whether zero-copy receive works; on a "
     "card that supports it, its traffic pauses during the test",
     GROUP_RUN},
    {0}};

static const struct argp_option common_options[] = {
    HEADING("General:", GROUP_COMMON),
    {"coordinator", KEY_COORDINATOR, "ADDRESS", 0,
     "Where the coordinator listens (default: $MILLRACE_COORDINATOR, else " CLUSTER_COORDINATOR_DEFAULT ")",
     GROUP_COMMON},
    {"key", KEY_CLUSTER_KEY, "FILE", 0, "The cluster's key (default: $" CLUSTER_KEY_VARIABLE ", else none)",
     GROUP_COMMON},
    {"json", KEY_JSON, NULL, 0, "Print one JSON object", GROUP_COMMON},
    {"help", KEY_HELP, NULL, 0, "Print this text", GROUP_COMMON},
    {0}};

static const struct argp_option front_options[] = {
    {"version", KEY_VERSION, NULL, 0, "The same as `millrace version'", GROUP_COMMON}, {0}};

/* One word at a time ----------------------------------------------------------------------------------------------- */

void client_source_option(const struct cluster_submit *submit, uint32_t index, const char *what, char *option)
{
    if (submit->kind == JOIN_JOB_SHUFFLE)
        snprintf(option, CLIENT_OPTION_BYTES, "%s", *what ? what + 1 : "in");
    else
        snprintf(option, CLIENT_OPTION_BYTES, "%s%s", index == 0 ? "left" : "right", what);
}

static enum base_status read_source(struct cluster_submit *submit, uint32_t index, enum source_key key,
                                    const char *text, struct base_error *error)
{
    static const char *const suffixes[SOURCE_KEYS] = {"",
#define X(name, suffix, argument, about) suffix,
                                                      SOURCE_LIST(X)
#undef X
    };
    struct cluster_source *source = &submit->source[index];
    char option[CLIENT_OPTION_BYTES];
    client_source_option(submit, index, suffixes[key], option);
    const struct value *values = key == SOURCE_FORMAT ? format_values : choice_values;
    int value = 0;
    if (key == SOURCE_TEXT || key == SOURCE_SCHEMA)
        return keep(option, text, key == SOURCE_TEXT ? &source->text : &source->schema, error);
    if (key == SOURCE_NULL_TEXT)
        return read_null_text(option, text, source->null_texts, error);
    if (key == SOURCE_SKIP_BAD_ROWS)
        return read_count(option, text, &source->bad_rows_max, error);
    if (key == SOURCE_QUOTE && strcmp(text, "none") == 0) {
        source->quote = SHUFFLE_CSV_NO_QUOTE;
        return BASE_OK;
    }
    if (key == SOURCE_DELIMITER || key == SOURCE_QUOTE)
        return read_character(option, text, key == SOURCE_DELIMITER ? &source->delimiter : &source->quote, error);
    const enum base_status status = read_value(option, text, values, &value, error);
    if (status != BASE_OK)
        return status;
    if (key == SOURCE_FORMAT)
        source->format = (enum cluster_format)value;
    else if (key == SOURCE_HEADER)
        source->header = (enum cluster_choice)value;
    else if (key == SOURCE_EMPTY_NULL)
        source->empty_is_null = (enum cluster_choice)value;
    else if (key == SOURCE_QUOTED_EMPTY_NULL)
        source->quoted_empty_is_null = (enum cluster_choice)value;
    else
        source->incomplete = (enum cluster_choice)value;
    return BASE_OK;
}

static enum base_status read_type(const char *text, struct base_error *error)
{
    static const char *const known[] = {"inner", "left", "right", "full", "semi", "anti"};
    if (strcmp(text, known[0]) == 0)
        return BASE_OK;
    for (size_t i = 1; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0)
            return base_error_set(error, BASE_UNSUPPORTED,
                                  "--type=%s: this version has inner joins only; omit --type or write --type=inner",
                                  text);
    struct base_nearest nearest = base_nearest_to(text, strlen(text));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        base_nearest_offer(&nearest, known[i]);
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_INVALID, "--type=%s is no kind of join%s: this version has inner joins only",
                          text, base_nearest_hint(&nearest, "", hint));
}

/* Options of join and shuffle. */
static enum base_status read_job_word(struct client_reader *reader, int key, const char *text)
{
    struct cluster_submit *submit = &reader->args->submit;
    struct base_error *error = reader->error;
    enum base_status status;
    int value;
    switch (key) {
    case KEY_ON:
    case KEY_BY:
        return keep(key == KEY_ON ? "on" : "by", text, &submit->on, error);
    case KEY_TYPE:
        return read_type(text, error);
    case KEY_SELECT:
        return keep("select", text, &submit->select, error);
    case KEY_OUT:
        return keep("out", text, &submit->out, error);
    case KEY_INTO:
        submit->into_table = true;
        return read_value("into", text, into_values, &value, error);
    case KEY_OUTPUT_FORMAT:
        status = read_value("output-format", text, output_values, &value, error);
        if (status != BASE_OK)
            return status;
        reader->output_format = true;
        submit->output = (enum shuffle_output_kind)value;
        return BASE_OK;
    case KEY_ENGINE:
        return net_engine_choice_parse(text, &submit->settings.engine, error);
    case KEY_SOCKET:
        return net_socket_settings_parse(text, &submit->settings.socket, error);
    case KEY_VERIFY:
        submit->settings.verify = true;
        return BASE_OK;
    default:
        break;
    }
    if (key >= KEY_SOURCE) {
        const uint32_t index = (uint32_t)(key - KEY_SOURCE) / SOURCE_KEYS;
        return read_source(submit, index, (enum source_key)((key - KEY_SOURCE) % SOURCE_KEYS), text, error);
    }
    return read_setting(&settings[key - KEY_SETTING], text, &submit->settings, error);
}

/* A word that belongs to no option. */
static error_t read_bare_word(struct client_reader *reader, char *text, struct argp_state *state)
{
    if (!reader->front && reader->args->command == CLUSTER_COMMAND_KEY && !reader->args->file) {
        reader->args->file = text;
        return 0;
    }
    if (!reader->front) {
        base_error_set(reader->error, BASE_INVALID,
                       "%s takes no bare word like \"%s\"; `millrace %s --help' shows its options", reader->command,
                       text, reader->command);
        return EINVAL;
    }
    reader->command = text;
    reader->command_index = state->next - 1;
    state->next = state->argc;
    return 0;
}

/* The command's own group comes first and gives the groups below it, which have none below them, its input. */
static void hand_down(const struct argp_state *state)
{
    struct client_reader *reader = state->input;
    const struct argp_child *child = state->root_argp->children;
    for (size_t i = 0; !reader->handed_down && child[i].argp; i++)
        state->child_inputs[i] = reader;
    reader->handed_down = true;
}

/* An option with an empty value means neither its default nor everything. */
static error_t refuse_empty(struct client_reader *reader, const struct argp_state *state)
{
    const char *word = state->argv[state->next - 1];
    if (*word == '\0' && state->next > 1)
        word = state->argv[state->next - 2];
    base_error_set(reader->error, BASE_INVALID, "%.*s has an empty value: give it one, or omit the option",
                   (int)strcspn(word, "="), word);
    return EINVAL;
}

/* The parser of all groups: an option is known where its group's table has it. */
static error_t read_word(int key, char *text, struct argp_state *state)
{
    struct client_reader *reader = state->input;
    if (text != NULL && *text == '\0' && key >= KEY_COORDINATOR && key < OPTION_KEYS_END)
        return refuse_empty(reader, state);
    switch (key) {
    case ARGP_KEY_INIT:
        hand_down(state);
        return 0;
    case ARGP_KEY_ERROR:
        reader->stopped_at = state->next;
        return 0;
    case ARGP_KEY_ARG:
        return read_bare_word(reader, text, state);
    case KEY_COORDINATOR:
        reader->args->coordinator = text;
        return 0;
    case KEY_CLUSTER_KEY:
        reader->args->key = text;
        return 0;
    case KEY_JSON:
        reader->args->json = true;
        return 0;
    case KEY_INTERFACE:
        reader->args->interface = text;
        return 0;
    case KEY_REPORT:
        reader->args->report = text;
        return 0;
    case KEY_VERSION:
        reader->version = true;
        return 0;
    case KEY_HELP:
        reader->help = true;
        return 0;
    default:
        break;
    }
    if (key >= BISECT_OPTION_FIRST && key < BISECT_OPTION_END)
        return bisect_option_read(reader, key, text) == BASE_OK ? 0 : EINVAL;
    if (key < KEY_ON || key >= KEY_SOURCE + 2 * (int)SOURCE_KEYS)
        return ARGP_ERR_UNKNOWN;
    return read_job_word(reader, key, text) == BASE_OK ? 0 : EINVAL;
}

/* Tables of commands ----------------------------------------------------------------------------------------------- */

#define SOURCE_NOTE                                                                                                    \
    "A SOURCE is PATH or shared:PATH (a file, a folder or a quoted glob, the same on every node), local:GLOB (every "  \
    "node its own files), or gen:rows=N[,row=BYTES][,keys=unique|uniform:K|zipf:S:K|one|stride][,seed=N][,preload=1] " \
    "(made up). Names that end in .gz, .zst or .zstd are unpacked.\n"                                                  \
    "A SIZE is a number of bytes, with k, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024) after it if "           \
    "needed.\n\n"
#define EXIT_NOTE                                                                                                      \
    "Exit codes: 0 success, 1 the job failed, 2 the request is wrong, 3 the cluster cannot be reached or is "          \
    "incomplete, 4 cancelled."

static const struct argp common_argp = {.options = common_options, .parser = read_word};
static const struct argp job_argp = {.options = job_options, .parser = read_word};
static const struct argp_child job_children[] = {{.argp = &job_argp}, {.argp = &common_argp}, {0}};
static const struct argp_child list_children[] = {{.argp = &common_argp}, {0}};

/* The list of commands takes the place of the text that argp prints last. */
static char *fill_front_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    char *list;
    if (asprintf(&list,
                 "Commands:\n"
#define X(name, word, about) "  %-9s" about "\n"
                 CLUSTER_COMMAND_LIST(X)
#undef X
                     "%s",
#define X(name, word, about) word,
                 CLUSTER_COMMAND_LIST(X)
#undef X
                     text) < 0)
        return NULL;
    return list; /* argp frees it */
}

static const struct argp front_argp = {
    .options = front_options,
    .parser = read_word,
    .args_doc = "COMMAND [OPTION...]",
    .doc = "Joins and shuffles relations over a cluster of millraced nodes.\v"
           "\n`millrace COMMAND --help' shows a command's options.\n" EXIT_NOTE,
    .children = list_children,
    .help_filter = fill_front_help,
};

static const struct argp bisect_argp = {.options = bisect_options, .parser = read_word};
static const struct argp_child bisect_children[] = {{.argp = &bisect_argp}, {.argp = &common_argp}, {0}};

static const struct argp command_argp[CLUSTER_COMMAND_COUNT] = {
    [CLUSTER_COMMAND_BISECT] = {.parser = read_word, .doc = BISECT_DOC "\v" EXIT_NOTE, .children = bisect_children},
    [CLUSTER_COMMAND_JOIN] = {.options = join_options,
                              .parser = read_word,
                              .args_doc = "--left=SOURCE --right=SOURCE --on=A=B[,C=D...]",
                              .doc = "Matches the rows of two inputs by equal keys.\v" SOURCE_NOTE EXIT_NOTE,
                              .children = job_children},
    [CLUSTER_COMMAND_SHUFFLE] =
        {.options = shuffle_options,
         .parser = read_word,
         .args_doc = "--in=SOURCE --by=K[,L...]",
         .doc = "Sends every row of an input to the worker that owns its key.\v" SOURCE_NOTE EXIT_NOTE,
         .children = job_children},
    [CLUSTER_COMMAND_NODES] = {.parser = read_word,
                               .doc = "Lists the nodes of the cluster. Exits with 3 if any are missing.\v" EXIT_NOTE,
                               .children = list_children},
    [CLUSTER_COMMAND_JOBS] = {.parser = read_word,
                              .doc = "Lists the jobs the coordinator remembers, the newest last.\v" EXIT_NOTE,
                              .children = list_children},
    [CLUSTER_COMMAND_ENGINES] = {.parser = read_word,
                                 .doc = "Lists the engines that --engine takes: rungs of a ladder, each the one "
                                        "before plus one idea.",
                                 .children = list_children},
    [CLUSTER_COMMAND_KEY] = {.parser = read_word,
                             .args_doc = "FILE",
                             .doc =
                                 "Makes a key of random bytes in a new file that its owner alone may read. Copy it to "
                                 "every machine of the cluster, and give it to daemons and clients with --key=FILE "
                                 "or $" CLUSTER_KEY_VARIABLE ".\v" EXIT_NOTE,
                             .children = list_children},
    [CLUSTER_COMMAND_DOCTOR] = {.options = doctor_options,
                                .parser = read_word,
                                .doc =
                                    "Tries what the kernel gives, looks at limits, memory, CPUs and network "
                                    "interfaces of this machine, and says what to change. It needs no cluster.\v"
                                    "Exit codes: 0 Millrace runs well here, 1 something needs a change, 2 there is no "
                                    "such interface.",
                                .children = list_children},
    [CLUSTER_COMMAND_VERSION] = {.parser = read_word,
                                 .doc = "Prints the version of this program.",
                                 .children = list_children},
};

const struct argp *client_front_options(void)
{
    return &front_argp;
}

const struct argp *client_command_options(enum cluster_command command)
{
    return &command_argp[command];
}
