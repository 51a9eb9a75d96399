/* Inference: the types of columns from the first rows of files.
 *
 * A column gets the first of bool, int64, float64, date and timestamp whose values are written as the very texts of the
 * sample, else string. Of the first file that has rows many are looked at, of every further one a few. */
#ifndef MILLRACE_SHUFFLE_SOURCE_SAMPLE_H
#define MILLRACE_SHUFFLE_SOURCE_SAMPLE_H

#include "shuffle/source/relation.h"

struct shuffle_sample;

enum base_status shuffle_sample_open(uint32_t columns, struct shuffle_sample **sample, struct base_error *error);
/* Looks at the records in data, with which a file begins (its header left out); final: that is all of it. Doubled
 * quotes are made single in data. Rows that do not split end the sample: the scan will say what is wrong with them. */
void shuffle_sample_file(struct shuffle_sample *sample, const struct shuffle_csv_options *csv, uint8_t *data,
                         size_t bytes, bool final);
/* The type of a column, nullable, marked as inferred. The field's name stays. */
void shuffle_sample_type(const struct shuffle_sample *sample, uint32_t column, struct shuffle_field *field);
void shuffle_sample_close(struct shuffle_sample *sample);

#endif
