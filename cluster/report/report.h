/* What is shown of a job, of the nodes and of the jobs: as one strict JSON object, or as text for people. No input or
 * output but the FILE that is given.
 *
 * JSON: counts are integers, the checksum is a string of 16 hexadecimal digits because it uses all 64 bits, texts are
 * UTF-8 (a byte that is not becomes '?'), a number that is not finite becomes null. */
#ifndef MILLRACE_CLUSTER_REPORT_REPORT_H
#define MILLRACE_CLUSTER_REPORT_REPORT_H

#include <stdio.h>

#include "cluster/protocol/message.h"

/* "12.3 M" */
enum { REPORT_NUMBER_BYTES = 32 };

/* A REPORT message (or one made up for a failure before there was any) as a JSON object without a newline; malloc'ed,
 * NULL when out of memory. out: the folder that was asked for, or NULL. exit_code is what the program ends with. */
char *report_json(const struct cluster_report *report, uint64_t job, const char *out, int exit_code);
char *report_nodes_json(const struct cluster_nodes *nodes);
char *report_jobs_json(const struct cluster_jobs *jobs);
char *report_version_json(void);
/* The ladder of engines: an array of {rung, engine, idea, features[]}. */
char *report_engines_json(void);
/* Of a key that was made there. */
char *report_key_json(const char *file);

/* The same for people. A failed job has no report to print: its error says it all. */
void report_print(const struct cluster_report *report, uint64_t job, const char *out, FILE *to);
void report_nodes_print(const struct cluster_nodes *nodes, FILE *to);
void report_jobs_print(const struct cluster_jobs *jobs, FILE *to);
void report_engines_print(FILE *to);

/* "succeeded"; never NULL. */
const char *report_job_state_word(enum cluster_job_state state);

/* Are all nodes here that the coordinator waits for, and at least one? */
bool report_nodes_complete(const struct cluster_nodes *nodes);

/* 1234567 -> "1.23 M"; up to 9999 exactly. text has REPORT_NUMBER_BYTES. */
void report_format_count(double count, char *text);
/* 1234567 -> "1.18 MiB". */
void report_format_bytes(double bytes, char *text);
/* 0.00123 -> "1.23 ms"; 75 -> "75.0 s". */
void report_format_seconds(double seconds, char *text);
/* 1234567 -> "1,234,567". */
void report_format_exact(uint64_t count, char *text);

#endif
