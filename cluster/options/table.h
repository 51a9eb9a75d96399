/* The options of a program as data: a table for each command. From it come the parser (table.c), --help (argp's), the
 * options of the manual (manual.c) and the completions of shells (completion.c), so that they cannot differ. */
#ifndef MILLRACE_CLUSTER_OPTIONS_TABLE_H
#define MILLRACE_CLUSTER_OPTIONS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/status.h"

struct option_row;

/* Reads the text of an option (NULL: it takes none) into target, the struct that the command fills. Errors name the
 * option, the text, and what is allowed. */
typedef enum base_status option_reader(const struct option_row *row, const char *text, void *target,
                                       struct base_error *error);

struct option_choice {
    const char *word;
    int value;
};

enum option_path { OPTION_PATH_NONE, OPTION_PATH_FILE, OPTION_PATH_FOLDER };

struct option_row {
    const char *name;
    char letter; /* the short option, or 0 */
    /* What stands for the value in texts. NULL: it is one of the choices, or, without choices, there is none. */
    const char *value;
    const struct option_choice *choice; /* ended by a NULL word; with `value` these are what completions offer */
    enum option_path path;              /* the value is a path, which completions look up */
    bool alias;                         /* the row before, for the right input: help and manual show both as one */
    bool repeats;                       /* may be given several times; others only again with the same value */
    bool zero;                          /* numbers: 0 is allowed besides least..most and means the default */
    option_reader *read;
    size_t offset, bytes; /* where it is stored in the target */
    uint64_t least, most; /* numbers: the range; texts: most bytes, 0 for any */
    /* What holds without the option. Every row that takes a value has one of the three; a flag is off. Help and manual
     * say it, so their other words do not. */
    const char *preset; /* this value: the parser reads it as if it had been given */
    const char *unset;  /* no constant: words for what is computed, or "none" */
    const char *needed; /* nothing: the command fails without it; words for what is missing */
    const char *json;   /* the key that reports it, or NULL */
    const char *help;   /* one line, without a full stop */
    const char *manual; /* mdoc, whole sentences; NULL: the line of help */
};

/* Where a row's value goes: a field of a struct. */
#define OPTION_FIELD(type, field) .offset = offsetof(type, field), .bytes = sizeof((type *)0)->field

struct option_group {
    const char *heading;
    const struct option_row *row; /* ended by a NULL name */
};

enum { OPTION_GROUPS_MAX = 6, OPTION_ROWS_MAX = 64 };

struct option_command {
    const char *name;    /* "millrace join" */
    const char *word;    /* "join"; NULL: what stands before the commands */
    const char *about;   /* a line for lists of commands */
    const char *usage;   /* what follows the name in the first line of --help, or NULL */
    const char *bare;    /* the one word that is no option, or NULL */
    bool ends_at_bare;   /* what follows that word belongs to somebody else */
    const char *text;    /* before the options */
    const char *note;    /* after them */
    const char *reports; /* what reports options as JSON: the subject of the manual's sentence */
    const char *page;    /* of the manual; NULL: another one has these options */
    struct option_group group[OPTION_GROUPS_MAX + 1]; /* ended by a NULL row */
};

struct option_program {
    const char *name;
    const struct option_command *front; /* options before the command */
    const struct option_command *command;
    uint32_t count;
};

/* One parse. Texts are borrowed from argv. Several commands (front and the one found) can share one. */
struct option_reading {
    void *target;
    struct base_error *error;
    const char *bare;
    int bare_at; /* its place in argv */
    uint32_t given_count;
    struct option_given {
        const struct option_row *row;
        const char *text;
    } given[2 * OPTION_ROWS_MAX];
};

/* Reads words (argv[0] is the program's) by the command's table. */
enum base_status option_table_read(const struct option_command *command, int argc, char **argv,
                                   struct option_reading *reading);
/* After all words are read, and none of them asked for help: reads the presets of the command's options that were not
 * given, and fails when one that is needed was not. */
enum base_status option_table_complete(const struct option_command *command, struct option_reading *reading);
/* Was the option given? */
bool option_table_given(const struct option_reading *reading, const char *name);
/* Prints --help. list: further lines for the end, or NULL. */
enum base_status option_table_help(const struct option_command *command, const struct option_program *program,
                                   FILE *to);
/* The command of a word, or NULL and a message: program, what is missing or unknown, and what there is. */
const struct option_command *option_command_find(const struct option_program *program, const char *word,
                                                 struct base_error *error);

/* The line of help with what holds without the option: "... (default: 2)". */
enum { OPTION_HELP_BYTES = 512 };
const char *option_row_help(const struct option_row *row, char text[OPTION_HELP_BYTES]);
/* Does it take a value? */
static inline bool option_row_takes_value(const struct option_row *row)
{
    return row->value || row->choice;
}
/* What stands for the value: "SIZE", "csv|bin"; "" for an option without one. */
enum { OPTION_VALUE_BYTES = 256 };
const char *option_row_value(const struct option_row *row, char text[OPTION_VALUE_BYTES]);

#endif
