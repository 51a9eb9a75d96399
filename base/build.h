/* What this program was built from, and what it speaks. */
#ifndef MILLRACE_BASE_BUILD_H
#define MILLRACE_BASE_BUILD_H

#include <stdint.h>

/* "0.1.0+1d2fb59ac0": the version and the commit, with "-dirty" where files differed from it; the version alone where
 * no commit is known. */
const char *base_build_id(void);
/* A digest of everything that says how bytes between processes look and what they mean (cmake/protocol_number.cmake).
 * Processes of different numbers must not work together; those of different builds and one number can. */
uint32_t base_build_protocol(void);
/* "0.1.0+1d2fb59ac0 (protocol 8a1f00c3)", as --version shows it. */
enum { BASE_BUILD_TEXT_BYTES = 128 };
const char *base_build_describe(char text[BASE_BUILD_TEXT_BYTES]);

#endif
