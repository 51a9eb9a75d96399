/* The cases of the conformance suite. *state is the bench kind. */
#ifndef MILLRACE_TESTS_NET_CONFORMANCE_CASES_H
#define MILLRACE_TESTS_NET_CONFORMANCE_CASES_H

#include "tests/net/conformance.h"

struct conformance_case {
    const char *name;
    void (*function)(void **state);
};

/* clang-format off */
#define CONFORMANCE_CASE(function) {#function, function}
/* clang-format on */

/* Each ends with a case without a name. The last two are only for kinds with real sockets. */
extern const struct conformance_case conformance_socket_cases[];
extern const struct conformance_case conformance_buffer_cases[];
extern const struct conformance_case conformance_forced_cases[];
extern const struct conformance_case conformance_file_cases[];
extern const struct conformance_case conformance_kernel_cases[];
extern const struct conformance_case conformance_blocking_cases[];

/* Runs all cases over the given kinds; the number of failures. */
int conformance_run(const struct bench_kind *const *kinds, size_t count);

#endif
