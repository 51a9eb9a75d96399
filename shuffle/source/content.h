/* What a file is by its first bytes, when it is no CSV: said before it is read as text and makes no sense. */
#ifndef MILLRACE_SHUFFLE_SOURCE_CONTENT_H
#define MILLRACE_SHUFFLE_SOURCE_CONTENT_H

#include "shuffle/source/relation.h"

/* BASE_PARSE, with what the file is and what to do, if `data`, the first `bytes` bytes of it, are of another format:
 * compressed, binary, JSON, or text in UTF-16 or UTF-32. */
enum base_status shuffle_content_check(const char *path, const struct shuffle_csv_options *csv, const uint8_t *data,
                                       size_t bytes, struct base_error *error);

#endif
