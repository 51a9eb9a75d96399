/* The command line of `millraced`. */
#ifndef MILLRACE_CLUSTER_OPTIONS_DAEMON_OPTIONS_H
#define MILLRACE_CLUSTER_OPTIONS_DAEMON_OPTIONS_H

#include "cluster/node/node.h"
#include "cluster/options/table.h"
#include "cluster/shell/shell.h"

enum daemon_command { DAEMON_COORDINATOR, DAEMON_NODE, DAEMON_COMMANDS };

/* Texts are borrowed from argv. */
struct daemon_args {
    enum daemon_command command;
    struct cluster_shell_config coordinator;
    struct cluster_node_config node;
    const char *key;
    bool verbose, help, version;
};

enum daemon_outcome {
    DAEMON_RUN,
    DAEMON_DONE, /* help was printed to `out` */
    DAEMON_WRONG /* error says what is wrong and what to do */
};

extern const struct option_program daemon_program; /* its commands in the order of enum daemon_command */

enum daemon_outcome daemon_args_parse(int argc, char **argv, FILE *out, struct daemon_args *args,
                                      struct base_error *error);

#endif
