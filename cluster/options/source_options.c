/* Options of inputs: a join's two, a shuffle's one. */
#include <stdlib.h>
#include <string.h>

#include "cluster/options/options.h"
#include "cluster/options/value.h"

static const struct option_choice format_choices[] = {{"csv", CLUSTER_FORMAT_CSV}, {"bin", CLUSTER_FORMAT_FIXED}, {0}};
static const struct option_choice yes_no_choices[] = {{"yes", CLUSTER_CHOICE_YES}, {"no", CLUSTER_CHOICE_NO}, {0}};
static const struct option_choice delimiter_choices[] = {{"tab", '\t'}, {0}};
static const struct option_choice quote_choices[] = {{"none", SHUFFLE_CSV_NO_QUOTE}, {0}};

void client_source_option(const struct cluster_submit *submit, uint32_t index, const char *what, char *option)
{
    if (submit->kind == CLUSTER_KIND_SHUFFLE)
        snprintf(option, CLIENT_OPTION_BYTES, "%s", *what ? what + 1 : "in");
    else
        snprintf(option, CLIENT_OPTION_BYTES, "%s%s", index == 0 ? "left" : "right", what);
}

/* One ASCII character, or a word that stands for one. */
static enum base_status read_character(const struct option_row *row, const char *text, void *target,
                                       struct base_error *error)
{
    char *character = option_field(row, target);
    if (strcmp(text, row->choice->word) == 0) {
        *character = (char)row->choice->value;
        return BASE_OK;
    }
    if (strcmp(text, "\\t") == 0 || strcmp(text, "tab") == 0) {
        *character = '\t';
        return BASE_OK;
    }
    if (strlen(text) != 1 || *text == '\n' || *text == '\r' || (unsigned char)*text >= 0x80)
        return base_error_set(error, BASE_INVALID, "--%s=%.80s is not understood: give one ASCII character, tab%s%s",
                              row->name, text, strcmp(row->choice->word, "tab") == 0 ? "" : ", or ",
                              strcmp(row->choice->word, "tab") == 0 ? "" : row->choice->word);
    *character = *text;
    return BASE_OK;
}

/* Adds a line to the texts that mean NULL. */
static enum base_status read_null_text(const struct option_row *row, const char *text, void *target,
                                       struct base_error *error)
{
    char *texts = option_field(row, target);
    const size_t used = strlen(texts), bytes = strlen(text);
    if (strpbrk(text, "\r\n") != NULL)
        return base_error_set(error, BASE_INVALID, "--%s=%.40s: an unquoted field has no line end", row->name, text);
    if (used + bytes + 2 > row->bytes)
        return base_error_set(error, BASE_INVALID, "--%s=%.40s is too much: all such texts have at most %zu bytes",
                              row->name, text, row->bytes - 2);
    snprintf(texts + used, row->bytes - used, "%s\n", text);
    return BASE_OK;
}

#define SOURCE_FIELD(index, member) OPTION_FIELD(struct cluster_client_args, submit.source[index].member)

#define SCHEMA_MANUAL                                                                                                  \
    "Columns, as\n.Ar NAME:TYPE Ns Bo \\&? Bc Ns Bo ,... Bc ;\n"                                                       \
    "the question mark means that there may be NULLs.\n"                                                               \
    "The types are bool, int8 to int64, uint8 to uint64, float32, float64, decimal(p,s), date, timestamp, string, "    \
    "binary and binary(n).\n"                                                                                          \
    "Without it the schema comes from a header of the form name:type, from a file named like the first one with "      \
    ".schema appended, or, for CSV,\n"                                                                                 \
    "from the first rows; an inferred type holds only for texts that it would write unchanged, so 007 and 1.50 are "   \
    "strings."
#define SKIP_MANUAL                                                                                                    \
    "Skip bad rows of a CSV input instead of failing.\n"                                                               \
    "A row is bad when it has more or fewer fields than there are columns (an empty line has one), or a value that "   \
    "the job reads and that\n"                                                                                         \
    "its column does not take: one of another type, NULL where none may be, a text that an inferred type would "       \
    "change.\n"                                                                                                        \
    "The report counts these rows and has file, line and reason of the first ten.\n"                                   \
    "When all nodes together have found more than\n.Ar N\n"                                                            \
    "in the input, the job fails, at the end of the pass over that input, and says how many there are and where the "  \
    "first one is.\n"                                                                                                  \
    "0 fails the job at the first.\n"                                                                                  \
    "Broken quoting, rows above the limit, files that change and errors of reading always fail the job.\n"             \
    "Not for rows of fixed width."
#define INCOMPLETE_MANUAL                                                                                              \
    "Read the folder of an earlier result that lacks parts, bytes or rows that its\n.Pa _SUCCESS.json\n"               \
    "counts, or that file itself.\nOtherwise the job fails and says what is missing."

/* What can be said of an input besides what it is. A row is made for a prefix of its name, a source's index, and
 * whether it is an alias. */
#define SOURCE_ROW(prefix, suffix, is_alias, ...)                                                                      \
    {                                                                                                                  \
        .name = prefix suffix, .alias = is_alias, __VA_ARGS__                                                          \
    }
#define ROW_SCHEMA(prefix, i, a)                                                                                       \
    SOURCE_ROW(prefix, "schema", a, .value = "SCHEMA", .read = option_read_text, SOURCE_FIELD(i, schema),              \
               .most = CLUSTER_TEXT_BYTES_MAX, .unset = "the header's, else NAME.schema's, else inferred",             \
               .help = "Columns: NAME:TYPE[?][,...]; ? means that it may be NULL", .manual = SCHEMA_MANUAL)
#define ROW_FORMAT(prefix, i, a)                                                                                       \
    SOURCE_ROW(prefix, "format", a, .choice = format_choices, .read = option_read_choice, SOURCE_FIELD(i, format),     \
               .unset = "bin for names such as t.bin or t.bin.gz, else csv", .help = "Format",                         \
               .manual = "Comma-separated text, or rows of fixed width.")
#define ROW_DELIMITER(prefix, i, a)                                                                                    \
    SOURCE_ROW(prefix, "delimiter", a, .value = "C", .choice = delimiter_choices, .read = read_character,              \
               SOURCE_FIELD(i, delimiter), .unset = "a comma, or a tab for names such as t.tsv or t.tsv.gz",           \
               .help = "Between CSV fields",                                                                           \
               .manual = "The ASCII character between CSV fields; the word tab is a tab.")
#define ROW_QUOTE(prefix, i, a)                                                                                        \
    SOURCE_ROW(prefix, "quote", a, .value = "C|none", .choice = quote_choices, .read = read_character,                 \
               SOURCE_FIELD(i, quote), .preset = "\"", .help = "Around CSV fields; none: quotes are text",             \
               .manual = "The ASCII character around CSV fields.\n"                                                    \
                         "The word none says that there are no quoted fields: quotes are text.")
#define ROW_HEADER(prefix, i, a)                                                                                       \
    SOURCE_ROW(prefix, "header", a, .choice = yes_no_choices, .read = option_read_choice, SOURCE_FIELD(i, header),     \
               .preset = "yes", .help = "Does the first CSV record name the columns?")
#define ROW_EMPTY_NULL(prefix, i, a)                                                                                   \
    SOURCE_ROW(prefix, "empty-null", a, .choice = yes_no_choices, .read = option_read_choice,                          \
               SOURCE_FIELD(i, empty_is_null), .preset = "yes", .help = "Is an empty CSV field NULL?")
#define ROW_QUOTED_EMPTY_NULL(prefix, i, a)                                                                            \
    SOURCE_ROW(prefix, "quoted-empty-null", a, .choice = yes_no_choices, .read = option_read_choice,                   \
               SOURCE_FIELD(i, quoted_empty_is_null), .preset = "no", .help = "Is a quoted empty CSV field NULL too?")
#define ROW_NULL(prefix, i, a)                                                                                         \
    SOURCE_ROW(prefix, "null", a, .value = "TEXT", .repeats = true, .read = read_null_text,                            \
               SOURCE_FIELD(i, null_texts), .unset = "none",                                                           \
               .help = "An unquoted CSV field of this text is NULL; may be given several times",                       \
               .manual = "An unquoted field of this text is NULL, such as NA or \\eN; may be given several times.\n"   \
                         "In quotes it is text.")
#define ROW_SKIP_BAD_ROWS(prefix, i, a)                                                                                \
    SOURCE_ROW(prefix, "skip-bad-rows", a, .value = "N", .read = option_read_number, SOURCE_FIELD(i, bad_rows_max),    \
               .most = UINT64_MAX, .json = "skipped", .preset = "0",                                                   \
               .help = "Skip bad CSV rows, at most N; 0: the first fails the job", .manual = SKIP_MANUAL)
#define ROW_INCOMPLETE(prefix, i, a)                                                                                   \
    SOURCE_ROW(prefix, "incomplete", a, .choice = yes_no_choices, .read = option_read_choice,                          \
               SOURCE_FIELD(i, incomplete), .preset = "no", .help = "Read a result of Millrace that lacks a part?",    \
               .manual = INCOMPLETE_MANUAL)
#define LEFT_AND_RIGHT(row) row("left-", 0, false), row("right-", 1, true)

#define SOURCE_NEEDED "PATH, shared:PATH, local:GLOB or gen:rows=N,..."

const struct option_row join_source_rows[] = {
    {.name = "left",
     .value = "SOURCE",
     .read = option_read_text,
     SOURCE_FIELD(0, text),
     .path = OPTION_PATH_FILE,
     .most = CLUSTER_TEXT_BYTES_MAX,
     .needed = SOURCE_NEEDED,
     .help = "The left input: PATH, shared:PATH, local:GLOB or gen:rows=N,...",
     .manual = "The left input, as described under\n.Sx Sources ."},
    {.name = "right",
     .value = "SOURCE",
     .read = option_read_text,
     SOURCE_FIELD(1, text),
     .path = OPTION_PATH_FILE,
     .most = CLUSTER_TEXT_BYTES_MAX,
     .needed = SOURCE_NEEDED,
     .help = "The right input"},
    LEFT_AND_RIGHT(ROW_SCHEMA),
    LEFT_AND_RIGHT(ROW_FORMAT),
    LEFT_AND_RIGHT(ROW_DELIMITER),
    LEFT_AND_RIGHT(ROW_QUOTE),
    LEFT_AND_RIGHT(ROW_HEADER),
    LEFT_AND_RIGHT(ROW_EMPTY_NULL),
    LEFT_AND_RIGHT(ROW_QUOTED_EMPTY_NULL),
    LEFT_AND_RIGHT(ROW_NULL),
    LEFT_AND_RIGHT(ROW_SKIP_BAD_ROWS),
    LEFT_AND_RIGHT(ROW_INCOMPLETE),
    {0}};

const struct option_row shuffle_source_rows[] = {
    {.name = "in",
     .value = "SOURCE",
     .read = option_read_text,
     SOURCE_FIELD(0, text),
     .path = OPTION_PATH_FILE,
     .most = CLUSTER_TEXT_BYTES_MAX,
     .needed = SOURCE_NEEDED,
     .help = "The input: PATH, shared:PATH, local:GLOB or gen:rows=N,...",
     .manual = "The input, as sources are described in\n.Xr millrace-join 1 ."},
    ROW_SCHEMA("", 0, false),
    ROW_FORMAT("", 0, false),
    ROW_DELIMITER("", 0, false),
    ROW_QUOTE("", 0, false),
    ROW_HEADER("", 0, false),
    ROW_EMPTY_NULL("", 0, false),
    ROW_QUOTED_EMPTY_NULL("", 0, false),
    ROW_NULL("", 0, false),
    ROW_SKIP_BAD_ROWS("", 0, false),
    ROW_INCOMPLETE("", 0, false),
    {0}};
