/* A tool of the build: writes the completions of a program for a shell, which `cmake --install` puts in place. */
#include <stdio.h>
#include <string.h>

#include "cluster/options/completion.h"
#include "cluster/options/daemon_options.h"
#include "cluster/options/options.h"

int main(int count, char **values)
{
    if (count != 4) {
        fputs("usage: millrace_completions bash|zsh|fish millrace|millraced FILE\n", stderr);
        return 2;
    }
    FILE *to = fopen(values[3], "we");
    if (!to) {
        perror(values[3]);
        return 1;
    }
    const struct option_program *program = strcmp(values[2], "millraced") == 0 ? &daemon_program : &client_program;
    if (strcmp(values[1], "bash") == 0)
        option_completion_bash(program, to);
    else if (strcmp(values[1], "zsh") == 0)
        option_completion_zsh(program, to);
    else
        option_completion_fish(program, to);
    return fclose(to) == 0 ? 0 : 1;
}
