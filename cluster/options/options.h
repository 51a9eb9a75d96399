/* Inside the command line's reader: the options there are, and what each does to the request. */
#ifndef MILLRACE_CLUSTER_OPTIONS_OPTIONS_H
#define MILLRACE_CLUSTER_OPTIONS_OPTIONS_H

#include <argp.h>

#include "cluster/options/args.h"

/* What one parse carries from word to word: argp's input. */
struct client_reader {
    struct cluster_client_args *args;
    struct base_error *error; /* filled when a parse fails because of what a word says */
    bool front;               /* reading up to the command's word */
    const char *command;      /* that word, or NULL */
    int command_index;        /* its place in argv */
    int stopped_at;           /* after an error: the place behind the wrong word */
    bool help, version;
    bool handed_down;   /* all groups know this reader */
    bool output_format; /* --output-format was given */
};

/* Of the words in front of the command. */
const struct argp *client_front_options(void);
const struct argp *client_command_options(enum cluster_command command);
/* The name of a source's option: "left", "left-schema" and so on; of a shuffle's only source "in", "schema". what is ""
 * or begins with '-'; option has CLIENT_OPTION_BYTES. */
enum { CLIENT_OPTION_BYTES = 40 };
void client_source_option(const struct cluster_submit *submit, uint32_t index, const char *what, char *option);

#endif
