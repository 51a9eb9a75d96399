/* Measures: numbers that workers count and that reports sum up.
 *
 * Every floor that counts lists its measures once, in an X-macro of lines
 *
 *   X(name, unit, over_workers, over_nodes, shown, key, per_gib, about)
 *
 * (BASE_MEASURE says what each means), and makes a struct of one uint64_t a line of it. cluster/protocol/measure.h puts
 * the lists together; from there come the fields on the wire, the sums over workers and nodes, the JSON object and the
 * table in the manual. So a new measure is a line in a list and an increment where the thing happens. */
#ifndef MILLRACE_BASE_MEASURE_H
#define MILLRACE_BASE_MEASURE_H

#include <stddef.h>
#include <stdint.h>

/* JSON has times in seconds; all else as it is. */
enum base_unit { BASE_UNIT_COUNT, BASE_UNIT_ROWS, BASE_UNIT_BYTES, BASE_UNIT_NS };

/* How two shares become one. SUM_KNOWN: BASE_MEASURE_UNKNOWN when one of them is, which JSON has as null; MIN: the
 * smallest that is not 0; NONE: it means nothing beyond its own node. */
enum base_fold { BASE_FOLD_SUM, BASE_FOLD_SUM_KNOWN, BASE_FOLD_MAX, BASE_FOLD_MIN, BASE_FOLD_NONE };
#define BASE_MEASURE_UNKNOWN UINT64_MAX

/* In which JSON objects it is: of the job, of every node. */
enum base_shown { BASE_SHOWN_NEVER = 0, BASE_SHOWN_JOB = 1, BASE_SHOWN_NODE = 2, BASE_SHOWN_BOTH = 3 };

struct base_measure {
    const char *name;
    enum base_unit unit;
    enum base_fold over_workers, over_nodes;
    enum base_shown shown;
    const char *key;     /* in JSON, "group.word" for one in an object of its own; NULL: never shown */
    const char *per_gib; /* its key in per_gib, of what crossed a node boundary; measures of one key add up; or NULL */
    const char *about;   /* for the manual: what is counted */
};

/* A line of a list as an element of an array of struct base_measure. */
#define BASE_MEASURE(name, unit, over_workers, over_nodes, shown, key, per_gib, about)                                 \
    {#name, BASE_UNIT_##unit, BASE_FOLD_##over_workers, BASE_FOLD_##over_nodes, BASE_SHOWN_##shown, key, per_gib,      \
     about},
/* A line of a list as a field. */
#define BASE_MEASURE_FIELD(name, ...) uint64_t name;

/* Total and share, folded. */
uint64_t base_fold(enum base_fold fold, uint64_t total, uint64_t share);

/* Adds a worker's share to its node's, a node's (or another whole: a step's) to the total: structs that the list of
 * `count` measures describes. */
void base_measures_add_worker(const struct base_measure *list, uint32_t count, void *node, const void *worker);
void base_measures_add_node(const struct base_measure *list, uint32_t count, void *total, const void *node);

#endif
