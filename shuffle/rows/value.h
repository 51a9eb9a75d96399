/* Values and their text: how a field of a CSV file becomes a value, and how a value is written so that it reads back
 * the same.
 *
 *   bool       true, false, t, f, 1, 0 in any case; written true, false
 *   integers   an optional sign and digits
 *   floats     decimal notation with an optional exponent; inf, infinity, nan in any case. Written as the shortest
 *              text of 15 to 17 (6 to 9) digits that reads back the same; Infinity, NaN
 *   decimal    an optional sign, digits, an optional point and digits; digits beyond the scale must be zeros
 *   date       YYYY-MM-DD, proleptic Gregorian; years outside 0000..9999 with a sign, such as +12000-01-01
 *   timestamp  a date, then a blank or T, HH:MM[:SS[.ffffff]]; a date alone is its midnight
 *   binary     \x and hexadecimal digits
 *   string     its bytes
 */
#ifndef MILLRACE_SHUFFLE_ROWS_VALUE_H
#define MILLRACE_SHUFFLE_ROWS_VALUE_H

#include <stddef.h>

#include "shuffle/rows/schema.h"

/* Longest text of a value that is neither string nor binary. */
enum { SHUFFLE_VALUE_TEXT_MAX = 48 };

/* Parses text as a value of field's type, which is fixed-width, into to[0 .. field->width). NULL when it did, else why
 * not: a static string that continues the sentence `"text" ...`, such as "is not an integer". */
const char *shuffle_value_parse(const struct shuffle_field *field, const uint8_t *text, size_t bytes, uint8_t *to);
/* A binary of any length: to has room for bytes / 2; *made is its length. to may be text itself. */
const char *shuffle_value_parse_binary(const uint8_t *text, size_t bytes, uint8_t *to, uint32_t *made);

/* Is `value`, which shuffle_value_parse made of text, written as the same text again, and equal to no value of another
 * text? Every type but STRING and BINARY. */
bool shuffle_value_kept(const struct shuffle_field *field, const uint8_t *text, size_t bytes, const uint8_t *value);

/* Integers alone, for loops over a column. False: let shuffle_value_parse say why. */
bool shuffle_value_scan_int64(const uint8_t *text, size_t bytes, int64_t *value);

/* Bytes that the text of a value of `bytes` bytes takes at most. */
static inline uint64_t shuffle_value_text_bound(enum shuffle_type type, uint32_t bytes)
{
    if (type == SHUFFLE_STRING)
        return bytes;
    return type == SHUFFLE_BINARY || type == SHUFFLE_FIXED ? 2 + 2 * (uint64_t)bytes : SHUFFLE_VALUE_TEXT_MAX;
}

/* Writes the value's text to `to`, which has room for shuffle_value_text_bound; returns its length. No NUL is added. */
size_t shuffle_value_format(const struct shuffle_slot *slot, const uint8_t *value, uint32_t bytes, uint8_t *to);

/* Copies text for a message: control bytes and bytes that are not UTF-8 as \xNN, at most about 40 characters, "..."
 * where it was cut. to has at least SHUFFLE_QUOTE_BYTES. Returns to. */
enum { SHUFFLE_QUOTE_BYTES = 192 };
char *shuffle_value_quote(const uint8_t *text, size_t bytes, char *to);

#endif
