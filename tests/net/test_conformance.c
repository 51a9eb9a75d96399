/* One suite over every engine. A filter on the command line ("uring:*", "*:accept_burst") runs a part of it. */
#include "tests/net/conformance_cases.h"

int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return conformance_run(bench_kinds, bench_kinds_count);
}
