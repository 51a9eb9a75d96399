/* All columns of a batch from fields to values: which rows are bad, and the batch without them. */
#ifndef MILLRACE_SHUFFLE_CSV_ROWS_H
#define MILLRACE_SHUFFLE_CSV_ROWS_H

#include "shuffle/csv/column.h"

/* What is wrong with a row: the first of its columns that is bad, and the words for that. */
struct csv_bad {
    const struct csv_column *column;
    const char *words; /* NULL: the row is good */
};

/* Converts the columns up to the first bad row of any. Returns its number, and what is wrong with it, or `rows`. */
uint32_t shuffle_csv_rows_convert(const struct csv_column *column, uint32_t count,
                                  const struct shuffle_csv_options *options, uint32_t rows, struct csv_bad *bad);
/* Converts what can be converted; says of every row what is wrong with it. False: all are good. */
bool shuffle_csv_rows_convert_good(const struct csv_column *column, uint32_t count,
                                   const struct shuffle_csv_options *options, uint32_t rows, struct csv_bad *bad);
/* Moves the values of the good rows together; returns how many these are. */
uint32_t shuffle_csv_rows_drop_bad(const struct csv_column *column, uint32_t count, uint32_t rows,
                                   const struct csv_bad *bad);

#endif
