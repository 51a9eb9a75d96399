/* What a task came to, from the counters of its parts. */
#include "base/measure.h"
#include "join/task_internal.h"

static void task_result_exchange(struct join_task_result *result, const struct shuffle_exchange_counters *counters)
{
#define X(name, unit, over_workers, ...)                                                                               \
    result->name = base_fold(BASE_FOLD_##over_workers, result->name, counters->name);
    SHUFFLE_EXCHANGE_COUNTER_LIST(X)
#undef X
}

static void task_result_pass(struct join_task_result *result, const struct shuffle_pass *pass, uint32_t side)
{
    const uint64_t rows = shuffle_pass_rows(pass);
    result->rows_scanned += rows;
    result->rows_dropped += shuffle_pass_rows_dropped(pass);
    result->rows_null_kept += shuffle_pass_rows_aside(pass);
    *(side == 0 ? &result->rows_scanned_left : &result->rows_scanned_right) += rows;
    result->input_bytes += shuffle_pass_input_bytes(pass);
    result->stalls_input += shuffle_pass_stalls_input(pass);
}

void join_task_result(const struct join_task *task, struct join_task_result *result)
{
    *result = (struct join_task_result){.scan_begin_ns = task->scan_begin_ns, .stream_end_ns = task->stream_end_ns};
    for (uint32_t pass = 0; pass < task->passes; pass++) {
        task_result_pass(result, task->pass[pass], join_plan_pass_side(task->config.plan, pass));
        task_result_exchange(result, shuffle_exchange_counters(task->exchange[pass]));
    }
    result->rows_unmatched = result->rows_null_kept;
    if (task->passes == TASK_PASSES)
        result->rows_unmatched += join_probe_sink_unmatched(task->sink[1]);
    if (task->table) {
        result->table_rows = join_table_rows(task->table);
        result->table_bytes = join_table_bytes(task->table);
        result->table_copied_bytes = join_table_copied_bytes(task->table);
    }
    if (task->output) {
        result->rows = shuffle_output_rows(task->output);
        result->checksum = shuffle_output_checksum(task->output);
        result->output_bytes = shuffle_output_bytes(task->output);
        result->stalls_output = shuffle_output_stalls(task->output);
    } else {
        result->rows = result->table_rows;
    }
}

const struct shuffle_rejects *join_task_rejects(const struct join_task *task, uint32_t side)
{
    return task->rejects[side];
}

uint64_t join_task_rows_scanned(const struct join_task *task)
{
    uint64_t rows = 0;
    for (uint32_t pass = 0; pass < task->passes; pass++)
        rows += shuffle_pass_rows(task->pass[pass]);
    return rows;
}
