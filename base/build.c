#include "base/build.h"

#include <inttypes.h>
#include <stdio.h>

#ifndef MILLRACE_VERSION
#error "MILLRACE_VERSION comes from base/CMakeLists.txt"
#endif

/* Programs link one that knows the commit (millrace_build_id in base/CMakeLists.txt). Tests do without, so that they
 * are not linked anew at every commit. */
__attribute__((weak)) const char *base_build_id(void)
{
    return MILLRACE_VERSION;
}

const char *base_build_describe(char text[BASE_BUILD_TEXT_BYTES])
{
    snprintf(text, BASE_BUILD_TEXT_BYTES, "%.80s (protocol %08" PRIx32 ")", base_build_id(), base_build_protocol());
    return text;
}
