/* A block of a manual page that a table of the program makes: compared, or written anew with MILLRACE_WRITE=1. */
#ifndef MILLRACE_TESTS_CLUSTER_MANUAL_BLOCK_H
#define MILLRACE_TESTS_CLUSTER_MANUAL_BLOCK_H

#include <stdio.h>

/* Fails unless what stands on the page between the two lines is what `print` writes; `what` names it. */
void manual_block_check(const char *page, const char *begin_line, const char *end_line, const char *what,
                        void (*print)(const void *context, FILE *to), const void *context);

#endif
