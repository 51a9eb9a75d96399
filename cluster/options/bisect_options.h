/* The options of `millrace bisect`. Inside the command line's reader. */
#ifndef MILLRACE_CLUSTER_OPTIONS_BISECT_OPTIONS_H
#define MILLRACE_CLUSTER_OPTIONS_BISECT_OPTIONS_H

#include <argp.h>

#include "cluster/options/options.h"

/* Keys of these options, none of which another command has. */
enum { BISECT_OPTION_FIRST = 4096, BISECT_OPTION_END = 4096 + 32 };

#define BISECT_DOC                                                                                                     \
    "Measures the network between the nodes: every pair, all to all, incast and outcast, and the bandwidth of "        \
    "balanced "                                                                                                        \
    "cuts, the smallest of which is the bisection bandwidth. Rates are payload, counted by the receivers."

extern const struct argp_option bisect_options[];
enum base_status bisect_option_read(struct client_reader *reader, int key, const char *text);
/* What can be checked once all words are read; fills what was left to its default. */
enum base_status bisect_options_check(struct client_reader *reader);

#endif
