/* Which nodes share a rack, from a file such as the one that lists a cluster's hosts. Inside the client. */
#ifndef MILLRACE_CLUSTER_OPTIONS_BISECT_RACKS_H
#define MILLRACE_CLUSTER_OPTIONS_BISECT_RACKS_H

#include "base/status.h"
#include "cluster/bisect/bisect.h"

/* Reads lines of "NAME ... rack=RACK ..."; lines without a rack are skipped, and so is what follows a #. Replaces what
 * the request had. Errors: BASE_NOT_FOUND, BASE_PARSE, with file and line. */
enum base_status bisect_racks_read(const char *path, struct cluster_bisect_request *request, struct base_error *error);

#endif
