/* RFC 4180 records out of bytes: pure, no I/O, no memory of its own, no state from one call to the next.
 *
 * Dialect: fields are separated by the delimiter, records by LF or CRLF, mixed at will. A field that begins with the
 * quote runs to the next lone quote and may contain anything; a doubled quote in it stands for one. A quote inside an
 * unquoted field, or anything but a delimiter or line end after a closing quote, is an error: only so does the number
 * of quotes before a byte tell whether that byte is inside a quoted field, which is what lets workers start in the
 * middle of a file. A CR counts as part of a line end before LF or at the end of the file, else it is data. */
#ifndef MILLRACE_SHUFFLE_CSV_PARSE_H
#define MILLRACE_SHUFFLE_CSV_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum csv_result {
    CSV_OK,                /* rows_max rows are full, or no further record begins before `begin_before` */
    CSV_MORE,              /* the record at `consumed` does not end in these bytes */
    CSV_QUOTE_INSIDE,      /* a quote inside an unquoted field, at error_at */
    CSV_TEXT_BEHIND_QUOTE, /* text after a closing quote, at error_at */
    CSV_QUOTE_OPEN,        /* the quote opened at error_at is not closed (only when final) */
    CSV_FIELD_COUNT, /* the record at error_at has error_fields fields (at least, when there are more than columns) */
    CSV_EMPTY_LINE   /* an empty line at error_at where a record of several fields should be */
};

/* Bytes of one field, without its enclosing quotes. */
struct csv_field {
    const uint8_t *data;
    uint32_t bytes;
    bool quoted;
    bool doubled; /* contains doubled quotes: shuffle_csv_undouble makes them single */
};

#define CSV_SKIP UINT32_MAX

struct csv_split {
    uint8_t delimiter, quote; /* different, neither CR nor LF; quote LF: no field is quoted */
    uint32_t columns;         /* fields of a record, at least 1 */
    bool any_count;           /* a record may have any number of fields up to columns (to find out how many) */
    bool tolerant; /* CSV_FIELD_COUNT, CSV_EMPTY_LINE: the record is well quoted to its end, and consumed; all its
                      fields were counted */
    const uint32_t *target;  /* per column: where its fields go, or CSV_SKIP. NULL: column c to target c */
    struct csv_field *field; /* field of row r for target t: field[t * field_stride + r] */
    size_t field_stride;
    uint32_t *row_line; /* per row: newlines between data and the record's start; may be NULL */
    uint32_t rows_max;

    uint32_t rows; /* in: rows there already; out: rows there now */
    /* out */
    size_t consumed;       /* where the next record begins */
    uint64_t lines;        /* newlines in data[0 .. consumed) */
    uint32_t last_fields;  /* fields of the last record */
    size_t error_at;       /* offset in data */
    uint64_t error_lines;  /* newlines in data[0 .. error_at) */
    uint32_t error_fields; /* CSV_FIELD_COUNT: fields found */
};

/* Splits the records that begin in data[0 .. begin_before), of which the first begins at data, until rows_max rows are
 * there. final: data ends where the file ends, so that the last record may lack its line end; there an empty line is
 * no record of several fields, but ignored. bytes is below 2^32. */
enum csv_result shuffle_csv_split(struct csv_split *split, const uint8_t *data, size_t bytes, size_t begin_before,
                                  bool final);

/* Turns doubled quotes into single ones in place (data points into bytes the caller may write to). */
void shuffle_csv_undouble(struct csv_field *field, uint8_t quote);

/* quote may be LF here and below, too: none. Looks for the end of a record by counting quotes alone: *open says whether
 * data[0] is inside quotes, and on return whether the byte after the searched ones is. Returns the offset after the
 * LF, or 0 when no record ends in data[0 .. bytes). On a record without errors it agrees with shuffle_csv_split; on one
 * with errors it may differ only after the first error. */
size_t shuffle_csv_find_end(uint8_t quote, const uint8_t *data, size_t bytes, bool *open);

/* Adds the quotes and LFs in data to the counters. */
void shuffle_csv_count(uint8_t quote, const uint8_t *data, size_t bytes, uint64_t *quotes, uint64_t *newlines);

#endif
