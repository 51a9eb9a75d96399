/* Readers of options' values that several rows share. */
#ifndef MILLRACE_CLUSTER_OPTIONS_VALUE_H
#define MILLRACE_CLUSTER_OPTIONS_VALUE_H

#include "cluster/options/table.h"

option_reader option_read_flag;     /* bool: true */
option_reader option_read_borrowed; /* const char *: the word itself, of at most `most` bytes */
option_reader option_read_text;     /* char *: an owned copy, of at most `most` bytes */
option_reader option_read_number;   /* uint32_t or uint64_t, from least to most */
option_reader option_read_choice;   /* bool, or an enum of int's size: the value of one of the choices */
option_reader option_read_engine;   /* struct net_engine_choice */
option_reader option_read_address;  /* struct net_address, with a port */

/* Is it a reader that takes any text (of so many bytes)? */
bool option_takes_any(const struct option_row *row);

static inline void *option_field(const struct option_row *row, void *target)
{
    return (char *)target + row->offset;
}

extern const struct option_choice option_engine_choices[]; /* of one engine: auto and the rungs */

#endif
