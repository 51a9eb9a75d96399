#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void base_assert_failed(const char *file, int line, const char *expression)
{
    fprintf(stderr, "%s:%d: assertion failed: %s (a defect in Millrace, please report it)\n", file, line, expression);
    abort();
}
