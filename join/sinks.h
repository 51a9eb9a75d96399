/* The sinks of a join: build inserts what arrives into the table, probe looks it up and gives the pairs to an output,
 * unmatched gives rows to the output that are known to have no partner. */
#ifndef MILLRACE_JOIN_SINKS_H
#define MILLRACE_JOIN_SINKS_H

#include "join/table.h"
#include "join/type.h"
#include "shuffle/frames/sink.h"
#include "shuffle/output/output.h"

/* Inserts into table (borrowed). Freed by join_sink_close. */
enum base_status join_build_sink_open(struct join_table *table, struct shuffle_sink **sink, struct base_error *error);

struct join_probe_sink_config {
    const struct join_table *table;      /* sealed before the first row comes; borrowed */
    const struct shuffle_key *key;       /* of probe rows; borrowed */
    const struct shuffle_layout *layout; /* of probe rows; borrowed */
    struct shuffle_output *output;       /* borrowed */
    enum join_type type;
    uint32_t build; /* which of SQL's sides the build rows are: 0 left, 1 right */
};

/* Every type of join has two forms. Of the side that probes, a row without a partner is given out at once; of the side
 * that is built, when all probe rows are consumed: join_probe_sink_finish walks the table for entries that no probe has
 * marked.
 *
 * Pairs are collected in arrays of SHUFFLE_BATCH_ROWS. consume says BUSY when the output does, or when this turn's
 * budget of output rows is spent: set by join_probe_sink_turn, which the worker calls once per turn (before its first
 * call there is no limit). After BUSY the rows offered must stay readable until consume says OK to them: pairs of rows
 * before rows->next may still wait for room. */
enum base_status join_probe_sink_open(const struct join_probe_sink_config *config, struct shuffle_sink **sink,
                                      struct base_error *error);
void join_probe_sink_turn(struct shuffle_sink *sink, uint32_t output_rows_max);
/* Is this turn's budget spent? Then what said BUSY can go on next turn without waiting for any completion. */
bool join_probe_sink_spent(const struct shuffle_sink *sink);
/* Gives collected pairs to the output: BASE_OK when none is left, BASE_BUSY when the output has no room yet. */
enum base_status join_probe_sink_drain(struct shuffle_sink *base, struct base_error *error);
/* No more probe rows come: drains, and gives out the build rows that are still wanted. BASE_BUSY as consume, call
 * again; the end of a probe calls it until OK. */
enum base_status join_probe_sink_finish(struct shuffle_sink *base, struct base_error *error);
/* Rows of the result that have no partner, as far as they went through this sink. */
uint64_t join_probe_sink_unmatched(const struct shuffle_sink *sink);

/* Gives rows of a side (0 left, 1 right) to the output, with NULLs for the other. Borrows the output. */
enum base_status join_unmatched_sink_open(struct shuffle_output *output, enum join_type type, uint32_t side,
                                          struct shuffle_sink **sink, struct base_error *error);
/* Of any of them: each is one allocation that owns nothing. NULL is allowed. */
void join_sink_close(struct shuffle_sink *sink);

#endif
