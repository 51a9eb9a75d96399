/* Inside the command line: the tables of millrace's commands. Their target is struct cluster_client_args. */
#ifndef MILLRACE_CLUSTER_OPTIONS_OPTIONS_H
#define MILLRACE_CLUSTER_OPTIONS_OPTIONS_H

#include "cluster/options/args.h"
#include "cluster/options/table.h"

/* With the commands in the order of enum cluster_command. */
extern const struct option_program client_program;

/* Groups that commands are made of. */
extern const struct option_row join_source_rows[], shuffle_source_rows[];
extern const struct option_row job_output_rows[], job_run_rows[], job_tune_rows[];
extern const struct option_row bisect_what_rows[], bisect_run_rows[], bisect_show_rows[];

/* What several tables have of --socket. */
#define SOCKET_UNSET "cubic where the kernel has it, the kernel's sizes, nodelay=on"
extern const struct option_choice socket_choices[];
option_reader option_read_socket; /* struct net_socket_settings */

/* The name of a source's option: "left", "left-schema" and so on; of a shuffle's only source "in", "schema". what is ""
 * or begins with '-'; option has CLIENT_OPTION_BYTES. */
enum { CLIENT_OPTION_BYTES = 40 };
void client_source_option(const struct cluster_submit *submit, uint32_t index, const char *what, char *option);

#endif
