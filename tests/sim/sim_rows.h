/* Random relations of (key int64?, text string?), written as awkward CSV, and what their join must come to: a nested
 * loop over the rows in memory that shares no code with the product but the hash function named by the checksum. */
#ifndef MILLRACE_TESTS_SIM_ROWS_H
#define MILLRACE_TESTS_SIM_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "join/type.h"

struct sim_row {
    bool key_null, text_null;
    int64_t key;
    char text[40];
    uint32_t text_bytes;
};

struct sim_rows {
    struct sim_row *row;
    uint32_t count;
};

/* count rows with keys below key_count (few: many duplicates), some NULL. */
void sim_rows_make(struct base_random *random, uint32_t count, uint64_t key_count, struct sim_rows *rows);
void sim_rows_free(struct sim_rows *rows);
/* Writes them as CSV with a header (names `key`,`text` behind prefix): quotes, line breaks and line ends at random. */
void sim_rows_write(struct base_random *random, const struct sim_rows *rows, const char *prefix, const char *path);
/* The same with bad rows between them, which no reader takes; *bad says what they are. */
struct sim_bad {
    uint64_t count;
    uint64_t line[10]; /* of the first ones */
};
void sim_rows_write_dirty(struct base_random *random, const struct sim_rows *rows, const char *prefix, const char *path,
                          struct sim_bad *bad);
/* What is asked of them. */
struct sim_question {
    enum join_type type;
    bool null_equal, null_aware;
    bool texts; /* the key is of key and text, else of key alone */
};
/* Result columns: left key, left text, and, unless the type gives rows of the left side alone, right key, right text.
 */
void sim_rows_join(const struct sim_rows *left, const struct sim_rows *right, const struct sim_question *question,
                   uint64_t *count, uint64_t *checksum);

#endif
