/* What is shown of a measurement of the network: one strict JSON object, text for people, or a page for a browser.
 * docs/bisection.md defines what is shown. Inside the client. */
#ifndef MILLRACE_CLUSTER_REPORT_BISECT_REPORT_H
#define MILLRACE_CLUSTER_REPORT_BISECT_REPORT_H

#include <stdio.h>

#include "cluster/report/bisect_summary.h"

/* All that was asked for and came back: one run for each engine, in order; those that never began are missing. */
struct bisect_report {
    struct base_error error; /* of the first run that failed, or what kept the first from running */
    int exit_code;
    uint32_t streams;      /* asked for; 0: one per worker */
    const char *link_rate; /* the option, or NULL */
    uint32_t count;
    const struct bisect_summary *summary;
};

/* malloc'ed, NULL when out of memory. */
char *bisect_report_json(const struct bisect_report *report);
/* A page that needs nothing else: the JSON object with what draws it. malloc'ed. */
char *bisect_report_html(const char *json);
/* All runs; nothing of one that measured nothing. */
void bisect_report_print(const struct bisect_report *report, FILE *to);

#endif
