/* `millrace bisect`: measures the network, with one engine or several, and shows what came of it. */
#ifndef MILLRACE_CLUSTER_CLIENT_BISECT_H
#define MILLRACE_CLUSTER_CLIENT_BISECT_H

#include "cluster/client/client.h"
#include "cluster/options/args.h"

/* Makes the file that --html names, so that it fails now rather than after all is measured. */
bool bisect_client_ready(const struct cluster_client_args *args, struct base_error *error);
/* Runs the command; returns what the program exits with. With --json exactly one object goes to standard output,
 * whatever happens. */
int bisect_client_run(const struct cluster_client_args *args, struct cluster_client *client);
/* For words that were wrong: the object of a measurement that never began. malloc'ed. */
char *bisect_client_failure_json(const struct base_error *error, int exit_code);

#endif
