/* Numbers as people write them on command lines and in source words. */
#ifndef MILLRACE_BASE_TEXT_NUMBER_H
#define MILLRACE_BASE_TEXT_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a whole number, with k, M, G, T (powers of 1000; K is k) or Ki, Mi, Gi, Ti (powers of 1024) after it if need
 * be, as "64", "16M", "2Gi". False, and *number unchanged, for anything else: a sign, a fraction, an unknown suffix,
 * more than 64 bits. */
bool base_number_parse(const char *text, uint64_t *number);
/* How to say what is understood, for messages. */
#define BASE_NUMBER_WORDS                                                                                              \
    "digits, with k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (powers of 1024) after them if needed"

#endif
