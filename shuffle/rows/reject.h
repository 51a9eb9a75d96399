/* Rows that are left out because they are bad: how many, and which are the first. */
#ifndef MILLRACE_SHUFFLE_ROWS_REJECT_H
#define MILLRACE_SHUFFLE_ROWS_REJECT_H

#include <stdint.h>

enum {
    SHUFFLE_REJECTS_KEPT = 10,
    SHUFFLE_REASON_BYTES = 512 /* a name, two types and two quoted texts, and words between them */
};

/* Rows stand in the order of morsels and lines, which is that of files and bytes, however the input is divided. */
struct shuffle_reject {
    uint64_t morsel, line;
    uint32_t file;
    char reason[SHUFFLE_REASON_BYTES];
};

/* Zeroed: none. */
struct shuffle_rejects {
    uint64_t count;
    uint32_t kept;
    struct shuffle_reject reject[SHUFFLE_REJECTS_KEPT]; /* the first, in order */
};

/* Counts a row. Returns its place, where the reason is to be filled in, or NULL when enough others come before it. */
struct shuffle_reject *shuffle_rejects_add(struct shuffle_rejects *rejects, uint64_t morsel, uint32_t file,
                                           uint64_t line);
/* Adds what somebody else has found. */
void shuffle_rejects_merge(struct shuffle_rejects *rejects, const struct shuffle_rejects *from);

#endif
