/* Completions of a program's command line for shells, made from its tables of options. */
#ifndef MILLRACE_CLUSTER_OPTIONS_COMPLETION_H
#define MILLRACE_CLUSTER_OPTIONS_COMPLETION_H

#include "cluster/options/table.h"

/* Scripts to be installed where the shell looks for them: bash-completion/completions/PROGRAM,
 * zsh/site-functions/_PROGRAM, fish/vendor_completions.d/PROGRAM.fish. */
void option_completion_bash(const struct option_program *program, FILE *to);
void option_completion_zsh(const struct option_program *program, FILE *to);
void option_completion_fish(const struct option_program *program, FILE *to);

#endif
