/* Between the summary of a measurement and its verdict. */
#ifndef MILLRACE_CLUSTER_REPORT_BISECT_INTERNAL_H
#define MILLRACE_CLUSTER_REPORT_BISECT_INTERNAL_H

#include "cluster/report/bisect_summary.h"

/* bisect_verdict.c: writes summary->verdict, one sentence. */
void bisect_verdict(struct bisect_summary *summary);

#endif
