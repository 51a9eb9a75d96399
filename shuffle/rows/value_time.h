/* Dates and timestamps as text. Inside value.c only: users call shuffle/rows/value.h. */
#ifndef MILLRACE_SHUFFLE_ROWS_VALUE_TIME_H
#define MILLRACE_SHUFFLE_ROWS_VALUE_TIME_H

#include "shuffle/rows/value.h"

static inline bool shuffle_value_is_digit(uint8_t c)
{
    return (uint8_t)(c - '0') < 10;
}

/* As shuffle_value_parse and shuffle_value_format. */
const char *shuffle_value_parse_date(const uint8_t *text, size_t bytes, uint8_t *to);
const char *shuffle_value_parse_timestamp(const uint8_t *text, size_t bytes, uint8_t *to);
size_t shuffle_value_format_date(int64_t days, uint8_t *to);
size_t shuffle_value_format_timestamp(int64_t value, uint8_t *to);

#endif
