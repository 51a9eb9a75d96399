/* The options of a command as the manual has them (mdoc). */
#ifndef MILLRACE_CLUSTER_OPTIONS_MANUAL_H
#define MILLRACE_CLUSTER_OPTIONS_MANUAL_H

#include "cluster/options/table.h"

void option_manual_print(const struct option_command *command, FILE *to);

#endif
