/* Set-up of the tests of millrace's options: a line of words is parsed, or refused with certain words. */
#ifndef MILLRACE_TESTS_CLUSTER_OPTIONS_WORDS_H
#define MILLRACE_TESTS_CLUSTER_OPTIONS_WORDS_H

#include "cluster/options/args.h"

extern struct words {
    struct cluster_client_args args; /* of the line parsed last; the test frees it */
    struct base_error error;
    char *printed; /* what went to `out` */
} words;

/* Parses "millrace" and the words of line, which are separated by single spaces. */
enum cluster_args_outcome words_parse(const char *line);
/* The line must be taken. */
const struct cluster_submit *words_take(const char *line);
/* The line must be refused, in one line that has these words. */
void words_refuse(const char *line, const char *said);
/* Frees what was taken. */
void words_free(void);
/* For cmocka, at the end of a program. */
int words_forget(void **state);

#endif
