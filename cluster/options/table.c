/* The parser of all commands: argp's tables made from ours.
 *
 * argp stays silent about errors (ARGP_NO_ERRS): a wrong word is told like every other failure, in one line, and as
 * JSON when that was asked for. */
#include "cluster/options/table.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/nearest.h"

enum { KEY_FIRST = 256, WORD_SHOWN_BYTES = 200 };

/* argp's table of a command, and the parse that uses it. */
struct argp_table {
    const struct option_command *command;
    struct option_reading *reading;
    int stopped_at; /* after an error: the place after the wrong word */
    struct argp_option option[OPTION_ROWS_MAX + OPTION_GROUPS_MAX + 1];
    const struct option_row *row[OPTION_ROWS_MAX]; /* by key - KEY_FIRST */
    int row_count;
    char value[OPTION_ROWS_MAX][OPTION_VALUE_BYTES];
    char help[OPTION_ROWS_MAX][OPTION_HELP_BYTES];
};

const char *option_row_value(const struct option_row *row, char text[OPTION_VALUE_BYTES])
{
    text[0] = '\0';
    if (row->value)
        return row->value;
    for (const struct option_choice *choice = row->choice; choice && choice->word; choice++) {
        const size_t used = strlen(text);
        snprintf(text + used, OPTION_VALUE_BYTES - used, "%s%s", used ? "|" : "", choice->word);
    }
    return text;
}

const char *option_row_help(const struct option_row *row, char text[OPTION_HELP_BYTES])
{
    const char *without = row->preset ? row->preset : row->unset;
    int bytes;
    if (without)
        bytes = snprintf(text, OPTION_HELP_BYTES, "%s (default: %s)", row->help, without);
    else
        bytes = snprintf(text, OPTION_HELP_BYTES, "%s%s", row->help, row->needed ? " (required)" : "");
    BASE_ASSERT(bytes < OPTION_HELP_BYTES);
    return text;
}

static void add_row(struct argp_table *table, const struct option_row *row, int group, struct argp_option *option)
{
    BASE_ASSERT(table->row_count < OPTION_ROWS_MAX);
    const int at = table->row_count++;
    const char *value = option_row_value(row, table->value[at]);
    table->row[at] = row;
    *option = (struct argp_option){.name = row->name,
                                   .key = row->letter ? row->letter : KEY_FIRST + at,
                                   .arg = *value ? value : NULL,
                                   .flags = row->alias ? OPTION_ALIAS : 0,
                                   .doc = row->alias ? NULL : option_row_help(row, table->help[at]),
                                   .group = group};
}

static void make_table(const struct option_command *command, struct argp_table *table)
{
    struct argp_option *option = table->option;
    *table = (struct argp_table){.command = command};
    for (int g = 0; command->group[g].row; g++) {
        if (command->group[g].heading)
            *option++ = (struct argp_option){.doc = command->group[g].heading, .group = g + 1};
        for (const struct option_row *row = command->group[g].row; row->name; row++)
            add_row(table, row, g + 1, option++);
    }
}

static const struct option_row *find_row(const struct argp_table *table, int key)
{
    for (int i = 0; i < table->row_count; i++)
        if (table->row[i]->letter ? table->row[i]->letter == key : KEY_FIRST + i == key)
            return table->row[i];
    return NULL;
}

/* How the option was given first; NULL: it was not. */
static const struct option_given *given_find(const struct option_reading *reading, const struct option_row *row)
{
    for (uint32_t i = 0; i < reading->given_count; i++)
        if (reading->given[i].row == row)
            return &reading->given[i];
    return NULL;
}

/* Of two values neither may win unseen. */
static enum base_status table_take(struct option_reading *reading, const struct option_row *row, const char *text)
{
    if (text && *text == '\0')
        return base_error_set(reading->error, BASE_INVALID, "--%s has an empty value: give it one, or omit the option",
                              row->name);
    const struct option_given *before = given_find(reading, row);
    if (before && !row->repeats) {
        if (!text || strcmp(text, before->text) == 0)
            return BASE_OK;
        return base_error_set(reading->error, BASE_INVALID,
                              "--%s is given twice, with \"%.80s\" and \"%.80s\": give it once", row->name,
                              before->text, text);
    }
    if (!before) {
        BASE_ASSERT(reading->given_count < 2 * OPTION_ROWS_MAX);
        reading->given[reading->given_count++] = (struct option_given){row, text};
    }
    return row->read(row, text, reading->target, reading->error);
}

static error_t take_bare(struct argp_table *table, char *text, struct argp_state *state)
{
    struct option_reading *reading = table->reading;
    if (!table->command->bare || reading->bare) {
        base_error_set(reading->error, BASE_INVALID,
                       "%s takes no bare word like \"%.*s\"; `%s --help' shows its options",
                       table->command->word ? table->command->word : table->command->name, WORD_SHOWN_BYTES, text,
                       table->command->name);
        return EINVAL;
    }
    reading->bare = text;
    reading->bare_at = state->next - 1;
    if (table->command->ends_at_bare)
        state->next = state->argc;
    return 0;
}

static error_t read_word(int key, char *text, struct argp_state *state)
{
    struct argp_table *table = state->input;
    if (key == ARGP_KEY_ERROR)
        table->stopped_at = state->next;
    if (key == ARGP_KEY_ARG)
        return take_bare(table, text, state);
    const struct option_row *row = find_row(table, key);
    if (!row)
        return ARGP_ERR_UNKNOWN;
    return table_take(table->reading, row, text) == BASE_OK ? 0 : EINVAL;
}

/* argp stopped at a word that no row reads: it names none, more than one, or lacks its value. */
static enum base_status tell_wrong_word(const struct argp_table *table, int argc, char **argv)
{
    struct base_error *error = table->reading->error;
    const int after = table->stopped_at;
    const char *word = argv[after > 1 && after <= argc ? after - 1 : argc - 1];
    const size_t bytes = strcspn(word, "=");
    struct base_nearest nearest = base_nearest_to(word + 2, bytes > 2 ? bytes - 2 : 0);
    const struct option_row *begun = NULL, *other = NULL;
    for (int i = 0; i < table->row_count && bytes > 2; i++) {
        const struct option_row *row = table->row[i];
        base_nearest_offer(&nearest, row->name);
        if (strncmp(row->name, word + 2, bytes - 2) != 0)
            continue;
        if (row->name[bytes - 2] == '\0') {
            begun = row;
            other = NULL;
            break;
        }
        if (begun && !other)
            other = row;
        if (!begun)
            begun = row;
    }
    char hint[BASE_NEAREST_HINT_BYTES], value[OPTION_VALUE_BYTES];
    if (begun && other)
        return base_error_set(error, BASE_INVALID, "\"%.*s\" is ambiguous: it begins --%s and --%s", (int)bytes, word,
                              begun->name, other->name);
    if (begun && word[bytes] == '=')
        return base_error_set(error, BASE_INVALID, "\"%.*s\": --%s takes no value", WORD_SHOWN_BYTES, word,
                              begun->name);
    if (begun)
        return base_error_set(error, BASE_INVALID, "--%s lacks its value: write --%s=%s", begun->name, begun->name,
                              option_row_value(begun, value));
    return base_error_set(
        error, BASE_INVALID, "there is no option \"%.*s\"%s; `%s --help' shows the options", WORD_SHOWN_BYTES, word,
        strncmp(word, "--", 2) == 0 ? base_nearest_hint(&nearest, "--", hint) : "", table->command->name);
}

enum base_status option_table_read(const struct option_command *command, int argc, char **argv,
                                   struct option_reading *reading)
{
    struct argp_table *table = malloc(sizeof *table);
    if (!table)
        return base_error_set(reading->error, BASE_NO_MEMORY, "no memory for the words of the command line");
    make_table(command, table);
    table->reading = reading;
    reading->bare = NULL;
    const struct argp argp = {.options = table->option, .parser = read_word};
    const unsigned flags = ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_NO_EXIT | (command->ends_at_bare ? ARGP_IN_ORDER : 0);
    enum base_status status = BASE_OK;
    if (argp_parse(&argp, argc, argv, flags, NULL, table) != 0)
        status = reading->error->status != BASE_OK ? reading->error->status : tell_wrong_word(table, argc, argv);
    free(table);
    return status;
}

static enum base_status row_complete(const struct option_row *row, struct option_reading *reading)
{
    char value[OPTION_VALUE_BYTES];
    if (given_find(reading, row))
        return BASE_OK;
    if (row->needed)
        return base_error_set(reading->error, BASE_INVALID, "--%s=%s is missing: %s", row->name,
                              option_row_value(row, value), row->needed);
    return row->preset ? row->read(row, row->preset, reading->target, reading->error) : BASE_OK;
}

enum base_status option_table_complete(const struct option_command *command, struct option_reading *reading)
{
    enum base_status status = BASE_OK;
    for (const struct option_group *group = command->group; group->row; group++)
        for (const struct option_row *row = group->row; row->name && status == BASE_OK; row++)
            status = row_complete(row, reading);
    return status;
}

bool option_table_given(const struct option_reading *reading, const char *name)
{
    for (uint32_t i = 0; i < reading->given_count; i++)
        if (strcmp(reading->given[i].row->name, name) == 0)
            return true;
    return false;
}

static char *make_doc(const struct option_command *command, const struct option_program *program)
{
    char *doc = NULL;
    size_t bytes;
    FILE *to = open_memstream(&doc, &bytes);
    if (!to)
        return NULL;
    fprintf(to, "%s\v", command->text);
    for (uint32_t i = 0; program && i < program->count; i++)
        fprintf(to, "%s  %-12s%s\n", i == 0 ? "Commands:\n" : "", program->command[i].word, program->command[i].about);
    fputs(command->note ? command->note : "", to);
    if (fclose(to) == 0)
        return doc;
    free(doc);
    return NULL;
}

enum base_status option_table_help(const struct option_command *command, const struct option_program *program, FILE *to)
{
    struct argp_table *table = malloc(sizeof *table);
    char *name = strdup(command->name), *doc = make_doc(command, program); /* argp wants to write into the name */
    enum base_status status = BASE_NO_MEMORY;
    if (table && name && doc) {
        make_table(command, table);
        const struct argp argp = {
            .options = table->option, .parser = read_word, .args_doc = command->usage, .doc = doc};
        argp_help(&argp, to, ARGP_HELP_SHORT_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
        status = BASE_OK;
    }
    free(table);
    free(name);
    free(doc);
    return status;
}

const struct option_command *option_command_find(const struct option_program *program, const char *word,
                                                 struct base_error *error)
{
    char list[128] = "", hint[BASE_NEAREST_HINT_BYTES];
    struct base_nearest nearest = base_nearest_to(word ? word : "", word ? strlen(word) : 0);
    for (uint32_t i = 0; i < program->count; i++) {
        const struct option_command *command = &program->command[i];
        if (word && strcmp(word, command->word) == 0)
            return command;
        base_nearest_offer(&nearest, command->word);
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", command->word);
    }
    if (word)
        base_error_set(error, BASE_INVALID, "there is no command \"%.*s\"%s; the commands are %s", WORD_SHOWN_BYTES,
                       word, base_nearest_hint(&nearest, "", hint), list);
    else
        base_error_set(error, BASE_INVALID, "a command is missing: %s; `%s --help' says more", list, program->name);
    return NULL;
}
