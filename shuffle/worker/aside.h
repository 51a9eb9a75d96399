/* Rows of a scan that stay: they need no exchange, because nothing elsewhere concerns them, and go to a sink of the
 * worker that scanned them. */
#ifndef MILLRACE_SHUFFLE_WORKER_ASIDE_H
#define MILLRACE_SHUFFLE_WORKER_ASIDE_H

#include "base/memory/memory.h"
#include "shuffle/frames/sink.h"
#include "shuffle/rows/batch.h"

struct shuffle_aside;

/* All borrowed. The sink gets rows without hashes. */
enum base_status shuffle_aside_open(struct base_governor *governor, const struct shuffle_layout *layout,
                                    struct shuffle_sink *sink, struct shuffle_aside **aside, struct base_error *error);
/* Gives the sink the rows of the batch from *cursor on that are marked, and advances *cursor. BASE_OK: all are taken.
 * BASE_BUSY: call again with the same batch; *worked is set true when the sink took something. Else an error. */
enum base_status shuffle_aside_take(struct shuffle_aside *aside, const struct shuffle_batch *batch,
                                    const uint8_t *marked, uint32_t *cursor, bool *worked, struct base_error *error);
void shuffle_aside_close(struct shuffle_aside *aside);

#endif
