/* The command line of `millrace`: words in, a request out. Nothing here talks to anybody.
 *
 *   millrace [--coordinator ADDRESS] COMMAND [OPTION...] */
#ifndef MILLRACE_CLUSTER_OPTIONS_ARGS_H
#define MILLRACE_CLUSTER_OPTIONS_ARGS_H

#include <stdio.h>

#include "cluster/protocol/message.h"

/* X(name, word, one line about it) */
#define CLUSTER_COMMAND_LIST(X)                                                                                        \
    X(JOIN, "join", "match the rows of two inputs by equal keys")                                                      \
    X(SHUFFLE, "shuffle", "send every row of an input to the worker that owns its key")                                \
    X(BISECT, "bisect", "measure the network: pairs, all to all, every balanced cut")                                  \
    X(NODES, "nodes", "list the nodes of the cluster; exit code 3 when some are missing")                              \
    X(JOBS, "jobs", "list the jobs the coordinator remembers")                                                         \
    X(ENGINES, "engines", "list the engines to choose from, the rungs of the ladder")                                  \
    X(KEY, "key", "make a key, which a cluster needs to listen on a real network")                                     \
    X(DOCTOR, "doctor", "say what this machine gives to Millrace, and what to change")                                 \
    X(VERSION, "version", "print the version of this program")

enum cluster_command {
#define X(name, word, about) CLUSTER_COMMAND_##name,
    CLUSTER_COMMAND_LIST(X)
#undef X
        CLUSTER_COMMAND_COUNT
};

enum { CLUSTER_BISECT_ENGINES_MAX = 16 };
/* What a measurement of the network needs besides its request. Texts are borrowed from argv. */
struct cluster_bisect_words {
    uint32_t engine_count;
    struct net_engine_choice engine[CLUSTER_BISECT_ENGINES_MAX];
    const char *link_rate, *html; /* or NULL */
};

struct cluster_client_args {
    enum cluster_command command;
    const char *coordinator; /* borrowed from argv or the environment */
    const char *key;         /* path of the key as argv says, or NULL; borrowed */
    const char *file;        /* key: the file to make; borrowed */
    const char *interface;   /* doctor: the one to bind a queue of, or NULL; borrowed */
    const char *report;      /* join, shuffle: a file that gets the JSON object as well, or NULL; borrowed */
    bool json, help, version;
    struct cluster_submit submit; /* join, shuffle, bisect; owned */
    struct cluster_bisect_words bisect;
};

enum cluster_args_outcome {
    CLUSTER_ARGS_RUN,  /* args are filled; the caller frees them */
    CLUSTER_ARGS_DONE, /* help was printed to `out`: nothing is left to do */
    CLUSTER_ARGS_WRONG /* error says what is wrong and what to do; args->command and args->json are as far as they were
                          understood */
};

/* Reads argv as the C library gives it. Borrows argv and the environment, which names the coordinator
 * (MILLRACE_COORDINATOR) when argv does not. Relative paths of sources and of --out become absolute: nodes have folders
 * of their own. Sources and schemas are checked as far as words go. */
enum cluster_args_outcome cluster_client_args_parse(int argc, char **argv, FILE *out, struct cluster_client_args *args,
                                                    struct base_error *error);
void cluster_client_args_free(struct cluster_client_args *args);

#endif
