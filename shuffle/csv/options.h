/* How a CSV file is written: what separates fields, quotes them, and means NULL. Plain data. */
#ifndef MILLRACE_SHUFFLE_CSV_OPTIONS_H
#define MILLRACE_SHUFFLE_CSV_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* For quote: there are no quoted fields. */
#define SHUFFLE_CSV_NO_QUOTE '\n'
/* Room for all texts that mean NULL. */
enum { SHUFFLE_NULL_TEXTS_BYTES = 256 };

struct shuffle_csv_options {
    char delimiter;            /* ',' */
    char quote;                /* '"' */
    bool header;               /* the first record names the columns */
    bool empty_is_null;        /* an empty unquoted field is NULL (default true) */
    bool quoted_empty_is_null; /* "" is NULL too (default false) */
    /* Texts of unquoted fields that mean NULL, a line each; terminated by a 0. */
    char null_texts[SHUFFLE_NULL_TEXTS_BYTES];
    /* So many rows may be bad, and are left out; 0: a bad row is an error. */
    uint64_t bad_rows_max;
};

#endif
