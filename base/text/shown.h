/* Text that others named - files, columns, nodes, jobs - as a person's terminal may be given it: control characters and
 * bytes that are not UTF-8 become \xNN, so that no name moves a cursor, changes a title or begins a line of its own.
 * Text that has been through here comes out unchanged the second time. */
#ifndef MILLRACE_BASE_TEXT_SHOWN_H
#define MILLRACE_BASE_TEXT_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { BASE_SHOWN_GROWTH = 4 }; /* a byte takes up to as many */

/* Length of the character at text if it may be shown as it is, else 0. */
size_t base_shown_character(const char *text, size_t bytes);
/* Would all of text be shown as it is? */
bool base_shown_is(const char *text, size_t bytes);
/* Writes text to `to`, which has to_bytes > 0 with the NUL at its end, as far as whole characters and escapes fit.
 * Returns the length. */
size_t base_shown_copy(const char *text, size_t bytes, char *to, size_t to_bytes);
/* For an argument of printf: a copy that lives until the end of the block, of the first 2,047 bytes. */
enum { BASE_SHOWN_BYTES = 2048 };
const char *base_shown_text(const char *text, char to[BASE_SHOWN_BYTES]);
#define base_shown(text) base_shown_text(text, (char[BASE_SHOWN_BYTES]){""})
/* Writes a text of several lines: line ends stay. False: it was not written. */
bool base_shown_write(const char *text, size_t bytes, FILE *to);

#endif
