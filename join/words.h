/* Reading and writing the small languages of --on and --select: names, optionally double-quoted ("" inside is a quote),
 * in lists. Inside join/ only. */
#ifndef MILLRACE_JOIN_WORDS_H
#define MILLRACE_JOIN_WORDS_H

#include <stddef.h>

#include "shuffle/rows/schema.h"

/* Reads one name at *at up to the end, a ',' or one of the characters in `stop`; *at is left there. name has
 * SHUFFLE_NAME_BYTES_MAX + 1 bytes. */
enum base_status join_words_name(const char **at, const char *stop, char *name, struct base_error *error);
/* "left" or "right" when *at begins with that and a dot, which are skipped; else NULL. */
const char *join_words_side(const char **at);
/* a, b, "c;d" ... for messages, truncated to bytes. */
void join_words_columns(const struct shuffle_schema *schema, char *text, size_t bytes);
/* Gives `name`, which `result` has already, a name it has not: "side.name", then "side.name.2" ... BASE_TOO_LARGE when
 * that is too long. */
enum base_status join_words_rename(const struct shuffle_schema *result, const char *side, char *name,
                                   struct base_error *error);

#endif
