/* The task of a join or shuffle (shuffle/worker/task.h): a join has a build pass, is sealed, and has a probe pass; a
 * shuffle has one pass into an output or a table.
 *
 *   opened -> [surveying -> opened] -> connecting -> connected -> pass 0 -> sealed -> pass 1 -> finishing -> finished
 *
 * Both exchanges are open from the start: a worker that sealed its table may receive probe rows before it is itself
 * told to probe. */
#ifndef MILLRACE_JOIN_TASK_H
#define MILLRACE_JOIN_TASK_H

#include "join/plan.h"
#include "shuffle/frames/exchange_types.h"
#include "shuffle/source/morsel.h"
#include "shuffle/worker/task.h"

struct join_task;

struct join_task_config {
    const struct join_plan *plan;           /* borrowed for the task's life */
    struct shuffle_morsel_queue *queue[2];  /* per side; shared by the node's workers; borrowed */
    struct shuffle_morsel_queue *survey[2]; /* per side that needs one, else NULL */
    struct shuffle_survey *surveys[2];      /* per side: results by morsel index; shared; borrowed */
};

/* Steps of its own. FAULT carries an error: input that cannot be read; it may come again, of an earlier morsel
 * (join_task_fault). */
enum join_step {
    JOIN_STEP_SURVEYED = SHUFFLE_STEP_OWN,
    JOIN_STEP_SEALED,
    JOIN_STEP_FAULT,
    JOIN_STEP_HALTED,
    JOIN_STEP_COUNT
};

/* What one worker's share of a job came to (base/measure.h); times are the engine's. */
#define JOIN_TASK_MEASURE_LIST(X)                                                                                      \
    X(rows, ROWS, SUM, SUM, BOTH, "rows", NULL, "rows of the result made")                                             \
    X(checksum, COUNT, SUM, SUM, NEVER, NULL, NULL, "sum of the hashes of these rows, modulo 2^64")                    \
    X(output_bytes, BYTES, SUM, SUM, JOB, "output_bytes", NULL, "bytes written to output files")                       \
    X(rows_scanned, ROWS, SUM, SUM, BOTH, "rows_scanned", NULL, "rows read from the inputs")                           \
    X(rows_scanned_left, ROWS, SUM, SUM, JOB, "rows_scanned_left", NULL, "of these, from the left or only input")      \
    X(rows_scanned_right, ROWS, SUM, SUM, JOB, "rows_scanned_right", NULL, "of these, from the right input")           \
    X(input_bytes, BYTES, SUM, SUM, JOB, "input_bytes", NULL, "bytes read from the inputs")                            \
    X(rows_unmatched, ROWS, SUM, SUM, JOB, "rows_unmatched", NULL,                                                     \
      "rows of the result without a partner on the other side, those with a NULL in their key included")               \
    X(rows_null_kept, ROWS, SUM, SUM, JOB, "rows_null_kept", NULL,                                                     \
      "of these, rows with a NULL in their key, which stayed at the worker that scanned them")                         \
    X(rows_dropped, ROWS, SUM, SUM, JOB, "rows_dropped", NULL,                                                         \
      "rows scanned that can add nothing to the result, as those with a NULL in their key")                            \
    X(table_rows, ROWS, SUM, SUM, BOTH, "table_rows", NULL, "rows in hash tables")                                     \
    X(table_bytes, BYTES, SUM, SUM, BOTH, "table_bytes", NULL, "memory of hash tables")                                \
    X(table_copied_bytes, BYTES, SUM, SUM, BOTH, "table_copied_bytes", NULL,                                           \
      "bytes of the rows copied into hash tables, own rows included")                                                  \
    X(scan_begin_ns, NS, MIN, NONE, NEVER, NULL, NULL, "when the first scan began, by the clock of the node")          \
    X(stream_end_ns, NS, MAX, NONE, NEVER, NULL, NULL, "when the last stream ended, by the clock of the node")         \
    X(stalls_output, COUNT, SUM, SUM, NODE, "stalls.output", NULL, "times a worker waited for room in the output")     \
    X(stalls_input, COUNT, SUM, SUM, NODE, "stalls.input", NULL, "times a scan waited for input")

struct join_task_result {
    JOIN_TASK_MEASURE_LIST(BASE_MEASURE_FIELD)
    SHUFFLE_EXCHANGE_COUNTER_LIST(BASE_MEASURE_FIELD) /* of its exchanges */
};

/* Opens everything (table, exchanges, mesh, scans, output; preloads): may take long for preloaded input. Then the
 * worker's task is set to it; shuffle_task_free frees it. */
enum base_status join_task_open(const struct shuffle_task_config *base, const struct join_task_config *config,
                                struct join_task **task, struct base_error *error);
struct shuffle_task *join_task_base(struct join_task *task);
/* Commands, on the worker's thread, each answered by a report. */
void join_task_survey(struct join_task *task); /* -> SURVEYED (both sides that need it) */
/* 0 -> SEALED; the last pass -> FINISHED (output durable) */
void join_task_start(struct join_task *task, uint32_t pass);
/* Scans nothing after the limits of the queues, and waits for nothing -> HALTED, when all before is scanned. */
void join_task_halt(struct join_task *task);
/* Of which side and morsel the FAULT is that is being reported. */
void join_task_fault(const struct join_task *task, uint32_t *side, uint64_t *morsel);

/* Readable by other threads only after FINISHED or FAILED was reported; on the worker's thread at any time. */
void join_task_result(const struct join_task *task, struct join_task_result *result);
/* Rows of the side that were left out so far; NULL: none may be. As above, and after SEALED for the side of pass 0. */
const struct shuffle_rejects *join_task_rejects(const struct join_task *task, uint32_t side);
/* Rows scanned so far, by all passes; on the worker's thread. */
uint64_t join_task_rows_scanned(const struct join_task *task);

#endif
