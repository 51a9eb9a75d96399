/* Is a result of an earlier job, taken as a source, all there? A folder that Millrace wrote is complete when it has its
 * _SUCCESS.json and the parts, bytes and rows that this file counts. */
#ifndef MILLRACE_CLUSTER_NODE_SOURCE_COMPLETE_H
#define MILLRACE_CLUSTER_NODE_SOURCE_COMPLETE_H

#include "shuffle/source/relation.h"

/* Looks at the folders of the files that shuffle_relation_list found for path. A file named by itself, or a glob that
 * takes only some of a folder's parts, is taken as it is. A folder that is neither Millrace's nor has a _SUCCESS.json
 * is no business of this function. When all files are of complete results, sets relation->rows_known and ->rows, which
 * the coordinator compares with what was read. Else BASE_IO, with what is missing and how to read it all the same: side
 * ("left-", "right-", or "" of a job with one source) begins the option's name. */
enum base_status cluster_source_complete(const char *path, const char *side, struct shuffle_relation *relation,
                                         struct base_error *error);

#endif
