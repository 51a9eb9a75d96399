/* The tables of millrace's commands. */
#include "cluster/options/options.h"

#include <limits.h>

#include "cluster/link/listen_policy.h"
#include "cluster/options/key_option.h"
#include "cluster/options/value.h"

#define ARGS_FIELD(member) OPTION_FIELD(struct cluster_client_args, member)

/* ---- general ---- */

static const struct option_row common_rows[] = {
    {.name = "coordinator",
     .value = "ADDRESS",
     .read = option_read_borrowed,
     ARGS_FIELD(coordinator),
     .unset = "$MILLRACE_COORDINATOR, else " CLUSTER_COORDINATOR_DEFAULT,
     .help = "Where the coordinator listens",
     .manual = "Where the coordinator listens, as\n.Ar HOST:PORT\nor\n.Ar [IPV6]:PORT ."},
    {.name = "key",
     .value = "FILE",
     .path = OPTION_PATH_FILE,
     .read = option_read_borrowed,
     ARGS_FIELD(key),
     .most = PATH_MAX - 1,
     .unset = "$" CLUSTER_KEY_VARIABLE ", else none",
     .help = "The file with the cluster's key",
     .manual = "The file with the cluster's key, where its daemons have one.\n"
               "The file is refused when others than its owner may read or change it."},
    {.name = "json",
     .read = option_read_flag,
     ARGS_FIELD(json),
     .help = "Print one JSON object",
     .manual = "Print one JSON object instead of text for people."},
    {.name = "help",
     .letter = 'h',
     .read = option_read_flag,
     ARGS_FIELD(help),
     .help = "Print this text",
     .manual = "Print a summary of the options."},
    {0}};

static const struct option_row version_rows[] = {{.name = "version",
                                                  .letter = 'V',
                                                  .read = option_read_flag,
                                                  ARGS_FIELD(version),
                                                  .help = "The same as `millrace version'",
                                                  .manual = "The same as\n.Nm millrace version ."},
                                                 {0}};

#define GENERAL                                                                                                        \
    {                                                                                                                  \
        "General:", common_rows                                                                                        \
    }

/* ---- matching ---- */

static const struct option_choice type_choices[] = {
#define X(name, word) {word, JOIN_TYPE_##name},
    JOIN_TYPE_LIST(X)
#undef X
        {0}};

static const struct option_row join_match_rows[] = {
    {.name = "on",
     .value = "A=B[,C=D...]",
     .read = option_read_text,
     ARGS_FIELD(submit.on),
     .most = CLUSTER_TEXT_BYTES_MAX,
     .needed = "which left columns equal which right ones?",
     .help = "Left columns and the right columns they must equal",
     .manual = "Left columns and the right columns they must equal.\n"
               "Integers of all widths compare by value, so do decimals and integers, and floats; text and bytes "
               "compare by their bytes; other\ntypes with their own only.\n"
               "Any other pair is an error.\n"
               "A name with a comma, an equals sign or a dot in it is written in double quotes."},
    {.name = "type",
     .choice = type_choices,
     .read = option_read_choice,
     ARGS_FIELD(submit.type),
     .preset = "inner",
     .help = "Type of join; semi and anti give rows of the left side",
     .manual = "Type of join.\n"
               "Inner gives every pair of rows with equal keys.\n"
               "Left, right and full add the rows of that side, or of both, that have no partner, with NULL in the "
               "columns of the other side.\n"
               "Semi gives the rows of the left side that have a partner, each once; anti those that have none, which "
               "is the rule of NOT EXISTS: rows with a NULL in their key are among them."},
    {.name = "null-equal",
     .read = option_read_flag,
     ARGS_FIELD(submit.null_equal),
     .help = "NULL equals NULL in keys, as in IS NOT DISTINCT FROM",
     .manual = "NULL equals NULL in keys, and no value, as in IS NOT DISTINCT FROM.\n"
               "Without it NULL equals nothing."},
    {.name = "null-aware",
     .read = option_read_flag,
     ARGS_FIELD(submit.null_aware),
     .help = "With --type=anti: the rule of NOT IN",
     .manual = "With\n.Fl -type Ns = Ns Cm anti :\n"
               "the rule of NOT IN instead of NOT EXISTS, for a key of one column.\n"
               "A NULL in the key of any right row makes the result empty; a right side without rows leaves every left "
               "row, also those whose key is NULL; else these go.\n"
               "The right side goes into the hash tables."},
    {.name = "select",
     .value = "COLUMN[,...]",
     .read = option_read_text,
     ARGS_FIELD(submit.select),
     .most = CLUSTER_TEXT_BYTES_MAX,
     .unset = "all columns, left before right",
     .help = "Columns of the result: A, left.A or right.B",
     .manual = "Columns of the result, in this order: a name that only one side has, or\n"
               ".Cm left. Ns Ar A ,\n.Cm right. Ns Ar B .\n"
               "Of two columns of one name the right one is called right.NAME, in whatever order they are selected."},
    {0}};

static const struct option_choice into_choices[] = {{"table", true}, {0}};

static const struct option_row shuffle_match_rows[] = {
    {.name = "by",
     .value = "K[,L...]",
     .read = option_read_text,
     ARGS_FIELD(submit.on),
     .most = CLUSTER_TEXT_BYTES_MAX,
     .needed = "by which columns are rows distributed?",
     .help = "Columns of the key"},
    {.name = "select",
     .value = "COLUMN[,...]",
     .read = option_read_text,
     ARGS_FIELD(submit.select),
     .most = CLUSTER_TEXT_BYTES_MAX,
     .unset = "all columns",
     .help = "Columns of the result"},
    {.name = "into",
     .choice = into_choices,
     .read = option_read_choice,
     ARGS_FIELD(submit.into_table),
     .unset = "none",
     .help = "Put the rows into hash tables, to measure that; not with --out",
     .manual = "Put the rows into hash tables, to measure that; not with\n.Fl -out ."},
    {0}};

/* ---- doctor ---- */

static const struct option_row doctor_rows[] = {
    {.name = "interface",
     .value = "IF",
     .read = option_read_borrowed,
     ARGS_FIELD(interface),
     .unset = "none: interfaces are judged by their settings",
     .help = "Bind the last receive queue of this network interface for a moment, to see whether zero-copy receive "
             "works; on a card that supports it, its traffic pauses during the test",
     .manual = "Binds the last receive queue of this network interface for a moment, to see whether zero-copy receive "
               "works.\n"
               "On a card that supports it, its traffic pauses during the test: do not use it while jobs run."},
    {0}};

/* ---- commands ---- */

#define SOURCE_NOTE                                                                                                    \
    "A SOURCE is PATH or shared:PATH (a file, a folder or a quoted glob, the same on every node), local:GLOB (every "  \
    "node its own files), or gen:rows=N[,row=BYTES][,keys=unique|uniform:K|zipf:S:K|one|stride][,seed=N][,preload=1] " \
    "(made up). Names that end in .gz, .zst or .zstd are unpacked.\n"                                                  \
    "A SIZE is a number of bytes, with k, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024) after it if "           \
    "needed.\n\n"
#define EXIT_NOTE                                                                                                      \
    "Exit codes: 0 success, 1 the job failed, 2 the request is wrong, 3 the cluster cannot be reached or is "          \
    "incomplete, 4 cancelled."
#define JOB_GROUPS                                                                                                     \
    {"Output:", job_output_rows}, {"Execution:", job_run_rows}, {"Tuning (0 is the default):", job_tune_rows}, GENERAL

static const struct option_command front = {
    .name = "millrace",
    .usage = "COMMAND [OPTION...]",
    .bare = "COMMAND",
    .ends_at_bare = true,
    .text = "Joins and shuffles relations over a cluster of millraced nodes.",
    .note = "\n`millrace COMMAND --help' shows a command's options.\n" EXIT_NOTE,
    .page = "millrace.1",
    .group = {GENERAL, {NULL, version_rows}},
};

/* Names and lines of the list in args.h. */
#define X(key, word, about)                                                                                            \
    static const char name_##key[] = "millrace " word, word_##key[] = word, about_##key[] = about;
CLUSTER_COMMAND_LIST(X)
#undef X
#define COMMAND(key, ...)                                                                                              \
    [CLUSTER_COMMAND_##key] = {.name = name_##key, .word = word_##key, .about = about_##key, __VA_ARGS__}

static const struct option_command commands[CLUSTER_COMMAND_COUNT] = {
    COMMAND(JOIN, .usage = "--left=SOURCE --right=SOURCE --on=A=B[,C=D...]",
            .text = "Matches the rows of two inputs by equal keys.", .note = SOURCE_NOTE EXIT_NOTE,
            .page = "millrace-join.1",
            .group = {{"Inputs:", join_source_rows}, {"Matching:", join_match_rows}, JOB_GROUPS}),
    COMMAND(SHUFFLE, .usage = "--in=SOURCE --by=K[,L...]",
            .text = "Sends every row of an input to the worker that owns its key.", .note = SOURCE_NOTE EXIT_NOTE,
            .page = "millrace-shuffle.1",
            .group = {{"Input:", shuffle_source_rows}, {"Distribution:", shuffle_match_rows}, JOB_GROUPS}),
    COMMAND(
        BISECT,
        .text =
            "Measures the network between the nodes: every pair, all to all, incast and outcast, and the bandwidth of "
            "balanced cuts, the smallest of which is the bisection bandwidth. Rates are payload, counted by the "
            "receivers.",
        .note = EXIT_NOTE, .page = "millrace-bisect.1",
        .group = {{"What is measured:", bisect_what_rows},
                  {"Execution:", bisect_run_rows},
                  {"Report:", bisect_show_rows},
                  GENERAL}),
    COMMAND(NODES, .text = "Lists the nodes of the cluster. Exits with 3 if any are missing.", .note = EXIT_NOTE,
            .group = {GENERAL}),
    COMMAND(JOBS, .text = "Lists the jobs the coordinator remembers, the newest last.", .note = EXIT_NOTE,
            .group = {GENERAL}),
    COMMAND(ENGINES,
            .text = "Lists the engines that --engine takes: rungs of a ladder, each the one before plus one idea.",
            .group = {GENERAL}),
    COMMAND(
        KEY, .usage = "FILE", .bare = "FILE",
        .text =
            "Makes a key of random bytes in a new file that its owner alone may read. Copy it to every machine of the "
            "cluster, and give it to daemons and clients with --key=FILE or $" CLUSTER_KEY_VARIABLE ".",
        .note = EXIT_NOTE, .group = {GENERAL}),
    COMMAND(DOCTOR,
            .text = "Tries what the kernel gives, looks at limits, memory, CPUs and network interfaces of this "
                    "machine, and says what to change. It needs no cluster.",
            .note = "Exit codes: 0 Millrace runs well here, 1 something needs a change, 2 there is no such interface.",
            .page = "millrace-doctor.1", .group = {{"Trying:", doctor_rows}, GENERAL}),
    COMMAND(VERSION, .text = "Prints the version of this program.", .group = {GENERAL}),
};

const struct option_program client_program = {
    .name = "millrace", .front = &front, .command = commands, .count = CLUSTER_COMMAND_COUNT};
