/* The daemon: `millraced coordinator` or `millraced node`. Arguments in, exit code out. */
#include <stdio.h>

#include "base/build.h"
#include "base/log.h"
#include "base/text/shown.h"
#include "cluster/node/node.h"
#include "cluster/options/daemon_options.h"
#include "cluster/options/key_option.h"
#include "cluster/shell/shell.h"
#include "cluster/signals.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };

static int daemon_report(enum base_status status, const struct base_error *error)
{
    if (status == BASE_OK)
        return 0;
    base_log_error("%s", error->text);
    return status == BASE_VERSION ? EXIT_UNREACHABLE : EXIT_FAILED;
}

static int daemon_run(struct daemon_args *args)
{
    struct base_error error = {0};
    struct net_key *key = NULL;
    const bool node = args->command == DAEMON_NODE;
    base_log_set_name(node ? args->node.name : "coordinator");
    if (args->verbose)
        base_log_set_level(BASE_LOG_DEBUG);
    enum base_status status = cluster_key_open(args->key, &key, &error);
    args->node.key = args->coordinator.key = key;
    if (status == BASE_OK)
        status = node ? cluster_node_run(&args->node, &error) : cluster_shell_run(&args->coordinator, &error);
    net_key_close(key);
    return daemon_report(status, &error);
}

int main(int count, char **values)
{
    struct daemon_args args;
    struct base_error error;
    cluster_signals_ignore();
    switch (daemon_args_parse(count, values, stdout, &args, &error)) {
    case DAEMON_WRONG:
        fprintf(stderr, "%s: %s\n",
                args.command < DAEMON_COMMANDS ? daemon_program.command[args.command].name : "millraced",
                base_shown(error.text));
        return EXIT_USAGE;
    case DAEMON_DONE:
        return 0;
    case DAEMON_RUN:
        break;
    }
    if (args.version) {
        char text[BASE_BUILD_TEXT_BYTES];
        printf("millraced %s\n", base_build_describe(text));
        return 0;
    }
    return daemon_run(&args);
}
