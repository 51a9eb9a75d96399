/* What the sources of the task share: task.c runs it, task_open.c opens its parts, task_result.c says what it came to.
 */
#ifndef MILLRACE_JOIN_TASK_INTERNAL_H
#define MILLRACE_JOIN_TASK_INTERNAL_H

#include "join/sinks.h"
#include "join/table.h"
#include "join/task.h"
#include "shuffle/exchange/exchange.h"
#include "shuffle/output/output.h"
#include "shuffle/output/publish.h"
#include "shuffle/output/sink.h"
#include "shuffle/worker/pass.h"

enum { TASK_SIDES = 2, TASK_PASSES = 2 };

struct join_task {
    struct shuffle_task base;
    struct join_task_config config;
    uint32_t passes;
    struct shuffle_layout layout[TASK_SIDES];
    struct join_table *table;      /* join, or shuffle into a table */
    struct shuffle_output *output; /* join, or shuffle into an output */
    struct shuffle_sink *sink[TASK_PASSES];
    struct shuffle_sink *unmatched[TASK_SIDES]; /* for rows of a side that are kept though nothing matches them */
    struct shuffle_exchange *exchange[TASK_PASSES];
    struct shuffle_morsel_queue *preloaded[TASK_SIDES]; /* the one morsel that this worker holds in memory */
    struct shuffle_pass *pass[TASK_PASSES];
    struct shuffle_pass *survey[TASK_SIDES];
    struct shuffle_rejects *rejects[TASK_SIDES]; /* NULL: bad rows are errors */
    uint32_t fault_side;                         /* of the fault found last */
    uint64_t fault_morsel;
    bool halting; /* HALTED is to be reported */
    uint64_t scan_begin_ns, stream_end_ns;
};

/* Opens everything of a task that has begun. What was opened before an error stays, and is freed with the task. */
enum base_status join_task_open_parts(struct join_task *task, struct base_error *error);

#endif
