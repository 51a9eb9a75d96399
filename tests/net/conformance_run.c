/* The runner of the conformance suite. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/net/conformance_cases.h"

enum { TESTS_MAX = 2048 };

static struct CMUnitTest tests[TESTS_MAX];
static char names[TESTS_MAX][96];
static size_t tests_count;

static void add_cases(const struct bench_kind *kind, const struct conformance_case *cases)
{
    for (; cases->name != NULL; cases++) {
        if (tests_count == TESTS_MAX) {
            fputs("conformance: more cases than TESTS_MAX\n", stderr);
            exit(1);
        }
        snprintf(names[tests_count], sizeof names[tests_count], "%s:%s", kind->name, cases->name);
        tests[tests_count] = (struct CMUnitTest){
            .name = names[tests_count], .test_func = cases->function, .initial_state = (void *)(uintptr_t)kind};
        tests_count++;
    }
}

int conformance_run(const struct bench_kind *const *kinds, size_t count)
{
    tests_count = 0;
    for (size_t i = 0; i < count; i++) {
        add_cases(kinds[i], conformance_socket_cases);
        add_cases(kinds[i], conformance_buffer_cases);
        add_cases(kinds[i], conformance_forced_cases);
        add_cases(kinds[i], conformance_file_cases);
        if (!kinds[i]->kernel)
            continue;
        if (!kinds[i]->brief)
            add_cases(kinds[i], conformance_kernel_cases);
        add_cases(kinds[i], conformance_blocking_cases);
    }
    return _cmocka_run_group_tests("conformance", tests, tests_count, NULL, NULL);
}
