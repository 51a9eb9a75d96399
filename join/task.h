/* The task: one worker's share of a job, as a state machine the worker turns. Both kinds of job are here: a join (build
 * pass, sealed, probe pass) and a shuffle (one pass into an output or a table).
 *
 *   opened -> [surveying -> opened] -> connecting -> connected -> pass 0 -> sealed -> pass 1 -> finishing -> finished
 *   any state -> failed; any state -> closing -> closed
 *
 * Both exchanges are open from the start: a worker that sealed its table may receive probe rows before it is itself
 * told to probe. */
#ifndef MILLRACE_JOIN_TASK_H
#define MILLRACE_JOIN_TASK_H

#include "base/clock.h"
#include "join/plan.h"
#include "shuffle/frames/exchange_types.h"
#include "shuffle/source/morsel.h"
#include "shuffle/worker/worker.h"

struct join_task;

/* Connecting fails when no connection was made for this long (and a little for each that a node makes, see
 * shuffle/mesh/mesh.h). */
#define JOIN_CONNECT_TIMEOUT_NS (UINT64_C(1500) * BASE_NS_PER_MS)

struct join_task_config {
    const struct join_plan *plan;  /* borrowed for the task's life */
    const struct shuffle_job *job; /* likewise */
    uint32_t worker;               /* number in the cluster */
    uint32_t local_first, local_count;
    struct net_engine *engine;
    struct base_governor *governor;
    struct shuffle_mailroom *mailroom;
    int listener_fd;
    const struct net_key *key;              /* of the cluster; NULL: none; borrowed */
    struct shuffle_morsel_queue *queue[2];  /* per side; shared by the node's workers; borrowed */
    struct shuffle_morsel_queue *survey[2]; /* per side that needs one, else NULL */
    struct shuffle_survey *surveys[2];      /* per side: results by morsel index; shared; borrowed */
    /* Called on the worker's thread when a step ends. */
    void (*report)(void *context, uint32_t worker, int step, const struct base_error *error);
    void *context;
};

/* Steps a report names. FAILED carries the error; it comes at most once. FAULT carries one, too: input that cannot be
 * read; it may come again, of an earlier morsel (join_task_fault). MEASURED is for jobs that measure the network
 * (cluster/bisect/task.h), which share the list. */
#define JOIN_STEP_LIST(X)                                                                                              \
    X(OPENED) X(SURVEYED) X(CONNECTED) X(SEALED) X(FINISHED) X(CLOSED) X(FAILED) X(MEASURED) X(FAULT) X(HALTED)
enum join_step {
#define X(name) JOIN_STEP_##name,
    JOIN_STEP_LIST(X)
#undef X
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
 * worker's task is set to it. */
enum base_status join_task_open(const struct join_task_config *config, struct join_task **task,
                                struct base_error *error);
struct shuffle_task *join_task_base(struct join_task *task);
/* Commands, on the worker's thread, each answered by a report. */
void join_task_survey(struct join_task *task);  /* -> SURVEYED (both sides that need it) */
void join_task_connect(struct join_task *task); /* -> CONNECTED */
void join_task_start(struct join_task *task,
                     uint32_t pass); /* 0 -> SEALED; the last pass -> FINISHED (output durable) */
/* Scans nothing after the limits of the queues, and waits for nothing -> HALTED, when all before is scanned. */
void join_task_halt(struct join_task *task);
/* Of which side and morsel the FAULT is that is being reported. */
void join_task_fault(const struct join_task *task, uint32_t *side, uint64_t *morsel);
/* Stops, joins what is in flight -> CLOSED; then join_task_free. abort: connections are reset. */
void join_task_close(struct join_task *task, bool abort);
void join_task_free(struct join_task *task);

/* Readable by other threads only after FINISHED or FAILED was reported; on the worker's thread at any time. */
void join_task_result(const struct join_task *task, struct join_task_result *result);
/* Rows of the side that were left out so far; NULL: none may be. As above, and after SEALED for the side of pass 0. */
const struct shuffle_rejects *join_task_rejects(const struct join_task *task, uint32_t side);
/* P entries each: payload bytes sent to and received from each worker over connections. */
const uint64_t *join_task_sent_bytes(const struct join_task *task);
const uint64_t *join_task_received_bytes(const struct join_task *task);
/* Of one of its connections; false: there is none. On the worker's thread. */
bool join_task_socket_facts(const struct join_task *task, struct net_socket_facts *facts);
/* Rows scanned so far, by all passes; on the worker's thread. */
uint64_t join_task_rows_scanned(const struct join_task *task);

#endif
