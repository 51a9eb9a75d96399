/* Between the files of the doctor: parts of gathering, and of judging. */
#ifndef MILLRACE_CLUSTER_DOCTOR_INTERNAL_H
#define MILLRACE_CLUSTER_DOCTOR_INTERNAL_H

#include "cluster/doctor/doctor.h"

/* Parts of gathering. */
void doctor_gather_numa(uint64_t huge_page_bytes, struct doctor_numa *numa);
void doctor_gather_cards(struct doctor_facts *facts);
/* Asks the driver: speed, offloads, rings, queues. */
struct doctor_ethtool;
struct doctor_ethtool *doctor_ethtool_open(void); /* NULL: none here */
void doctor_ethtool_ask(struct doctor_ethtool *ethtool, struct doctor_card *card);
void doctor_ethtool_close(struct doctor_ethtool *ethtool); /* NULL is fine */
/* Reads the first line of a file into text, "" when it cannot be read; says whether it could. */
bool doctor_read_line(const char *path, char *text, size_t text_bytes);

/* The findings about interfaces: a part of doctor_judge. */
void doctor_judge_cards(const struct doctor_facts *facts, struct doctor_findings *findings);
/* Adds a finding. */
void doctor_find(struct doctor_findings *findings, enum doctor_severity severity, const char *subject,
                 const char *command, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
