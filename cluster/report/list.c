/* Tables of nodes and jobs for people. */
#include <inttypes.h>
#include <string.h>

#include "base/build.h"
#include "base/text/shown.h"
#include "cluster/report/report.h"
#include "net/engine/rung.h"

bool report_nodes_complete(const struct cluster_nodes *nodes)
{
    uint32_t here = 0;
    bool missing = false;
    for (uint32_t i = 0; i < nodes->count; i++) {
        here += nodes->entry[i].state != CLUSTER_NODE_MISSING;
        missing |= nodes->entry[i].state == CLUSTER_NODE_MISSING;
    }
    /* Where the number is known, whoever fills it will do; a node that is gone was perhaps replaced by one of another
     * name. */
    if (nodes->nodes_expected > 0)
        return here >= nodes->nodes_expected;
    return here > 0 && !missing;
}

/* They work together, since the coordinator lets in only who speaks its protocol; but somebody may have forgotten one.
 */
static void print_other_builds(const struct cluster_nodes *nodes, FILE *to)
{
    for (uint32_t i = 0; i < nodes->count; i++)
        if (nodes->entry[i].state != CLUSTER_NODE_MISSING && strcmp(nodes->entry[i].build, base_build_id()) != 0)
            fprintf(to, "%s is of another build: %s; this is %s\n", base_shown(nodes->entry[i].name),
                    base_shown(nodes->entry[i].build), base_build_id());
}

void report_nodes_print(const struct cluster_nodes *nodes, FILE *to)
{
    static const char *const states[CLUSTER_NODE_STATE_COUNT] = {
        [CLUSTER_NODE_IDLE] = "ready", [CLUSTER_NODE_RUNNING] = "running", [CLUSTER_NODE_MISSING] = "missing"};
    uint32_t here = 0;
    if (nodes->count > 0)
        fprintf(to, "%-16s %-8s %-24s %8s %10s %8s  %s\n", "NODE", "STATE", "DATA ADDRESS", "WORKERS", "MEMORY", "PID",
                "ENGINE");
    for (uint32_t i = 0; i < nodes->count; i++) {
        const struct cluster_node_entry *entry = &nodes->entry[i];
        char memory[REPORT_NUMBER_BYTES] = "unlimited";
        if (entry->memory_bytes > 0)
            report_format_bytes((double)entry->memory_bytes, memory);
        fprintf(to, "%-16s %-8s %-24s %8" PRIu32 " %10s %8" PRIu64 "  %s%s%s\n", base_shown(entry->name),
                states[entry->state], base_shown(entry->address), entry->workers, memory, entry->pid,
                base_shown(entry->engine), *entry->engine_reason ? ", " : "", base_shown(entry->engine_reason));
        here += entry->state != CLUSTER_NODE_MISSING;
    }
    print_other_builds(nodes, to);
    if (nodes->nodes_expected > 0)
        fprintf(to, "%" PRIu32 " of %" PRIu32 " nodes are connected\n", here, nodes->nodes_expected);
    else
        fprintf(to, "%" PRIu32 " node%s here\n", here, here == 1 ? " is" : "s are");
}

const char *report_job_state_word(enum cluster_job_state state)
{
    static const char *const words[CLUSTER_JOB_STATE_COUNT] = {
        [CLUSTER_JOB_QUEUED] = "queued", [CLUSTER_JOB_RUNNING] = "running",     [CLUSTER_JOB_SUCCEEDED] = "succeeded",
        [CLUSTER_JOB_FAILED] = "failed", [CLUSTER_JOB_CANCELLED] = "cancelled",
    };
    return (unsigned)state < CLUSTER_JOB_STATE_COUNT ? words[state] : "unknown";
}

void report_jobs_print(const struct cluster_jobs *jobs, FILE *to)
{
    if (jobs->count == 0) {
        fputs("no jobs since the coordinator started\n", to);
        return;
    }
    fprintf(to, "%6s %-10s %12s %16s  %s\n", "JOB", "STATE", "TIME", "ROWS", "WHAT");
    for (uint32_t i = 0; i < jobs->count; i++) {
        const struct cluster_job_entry *entry = &jobs->entry[i];
        char seconds[REPORT_NUMBER_BYTES], rows[REPORT_NUMBER_BYTES] = "";
        const char *state = report_job_state_word(entry->state);
        if (entry->state == CLUSTER_JOB_RUNNING)
            state = cluster_phase_words(entry->phase);
        if (entry->state == CLUSTER_JOB_SUCCEEDED)
            report_format_exact(entry->rows, rows);
        report_format_seconds(entry->seconds, seconds);
        fprintf(to, "%6" PRIu64 " %-10s %12s %16s  %s\n", entry->job, state, seconds, rows, base_shown(entry->words));
        if (*entry->error)
            fprintf(to, "%6s %s\n", "", base_shown(entry->error));
    }
}

void report_engines_print(FILE *to)
{
    for (int kind = 0; kind < NET_ENGINE_KIND_COUNT; kind++)
        fprintf(to, "%-16s %s\n", net_rung_word((enum net_engine_kind)kind), net_rung_idea((enum net_engine_kind)kind));
    fputs("\nOptions for experiments, after a uring rung, as in uring+napi=50us+sqpoll:\n", to);
    for (int option = 0; option < NET_OPTION_COUNT; option++)
        fprintf(to, "%-16s %s\n", net_option_word((enum net_option_index)option),
                net_option_idea((enum net_option_index)option));
}
