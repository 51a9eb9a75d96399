/* Rates as people write them for links: "500mbit", "100gbit", "2.5gbit"; and of every node, in both directions. Inside
 * the client. */
#ifndef MILLRACE_CLUSTER_BISECT_RATE_H
#define MILLRACE_CLUSTER_BISECT_RATE_H

#include <stdint.h>

#include "base/status.h"

enum { BISECT_RATE_BYTES = 32 };

/* What a node's link carries, in bits per second; 0: unknown. */
struct bisect_link {
    double send, receive;
};

/* Reads "500mbit": a number with kbit, mbit, gbit or tbit (powers of 1000) after it. */
bool bisect_rate_parse(const char *text, double *bits_per_second);
/* 1234567890 -> "1.235 Gbit/s". text has BISECT_RATE_BYTES. */
void bisect_rate_format(double bits_per_second, char *text);

/* Finds what RATES says of the node: "RATE[,NODE=RATE...]", where a RATE may be SEND/RECEIVE. text NULL: nothing. */
enum base_status bisect_links_find(const char *text, const char *node, struct bisect_link *link,
                                   struct base_error *error);

/* RATES must name only nodes that there are: BASE_INVALID names the first that is none. text NULL: nothing to check. */
typedef const char *bisect_name_fn(const void *context, uint32_t index);
enum base_status bisect_links_check(const char *text, bisect_name_fn *name, const void *context, uint32_t count,
                                    struct base_error *error);

#endif
