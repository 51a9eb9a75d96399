/* An exchange: one all-to-all movement of rows by key; this is one worker's end of it. Outgoing lanes collect rows in
 * frames (lane.h). What arrives is parsed into frames and rows by the mesh's inlets (inlet.h), which check it against
 * the exchange's incoming lanes (sequence, length, end-of-stream totals per source, with verify every payload byte) and
 * give the rows to the exchange's sink.
 *
 * Memory: frames come from a pool of lanes * frames_per_lane; a lane takes its first frame with its first row. A lane
 * without a free frame makes append say BUSY: the scan yields, never the receiver. END frames are reserved in each
 * lane. */
#ifndef MILLRACE_SHUFFLE_EXCHANGE_EXCHANGE_H
#define MILLRACE_SHUFFLE_EXCHANGE_EXCHANGE_H

#include "shuffle/frames/exchange_types.h"
#include "shuffle/mesh/mesh.h"
#include "shuffle/rows/batch.h"

enum base_status shuffle_exchange_open(const struct shuffle_exchange_config *config, struct shuffle_exchange **exchange,
                                       struct base_error *error);

enum { SHUFFLE_DROP = UINT32_MAX };
/* Default routing: destination[i] = partition of hash[i]. */
void shuffle_route_hash(const uint64_t *hash, uint32_t count, uint32_t workers, uint32_t *destination);

/* Appends rows *cursor .. batch->rows-1 to the lanes named by destination (SHUFFLE_DROP: none) and advances *cursor.
 * BASE_BUSY: a lane has no frame, or the sink had no room for rows of this worker itself; call again with the same
 * batch (the same struct, unchanged) next turn, also when *cursor has come to the end. Rows for this worker itself go
 * to the sink by a call. */
enum base_status shuffle_exchange_append(struct shuffle_exchange *exchange, const struct shuffle_batch *batch,
                                         const uint64_t *hash, const uint32_t *destination, uint32_t *cursor,
                                         struct base_error *error);
/* Notes about what this worker scanned for the exchange (SHUFFLE_FRAME_NOTES); all workers hear of them at the end. */
void shuffle_exchange_note(struct shuffle_exchange *exchange, uint16_t notes);
/* No more rows from this worker: sends what the lanes hold, then END on every lane. Once. */
void shuffle_exchange_finish(struct shuffle_exchange *exchange);
/* All frames and ENDs of this worker have left (handed to the kernel and completed, or returned home). */
bool shuffle_exchange_sent(const struct shuffle_exchange *exchange);
/* END has come from every worker, totals agreed, and the sink has taken all rows. */
bool shuffle_exchange_received(const struct shuffle_exchange *exchange);
/* The notes of all workers; once shuffle_exchange_received. */
uint16_t shuffle_exchange_notes(const struct shuffle_exchange *exchange);

const struct shuffle_exchange_counters *shuffle_exchange_counters(const struct shuffle_exchange *exchange);

/* After the mesh was closed (shuffle_mesh_closed): all frames are home; missing ones are logged. Before
 * shuffle_mesh_free. */
void shuffle_exchange_close(struct shuffle_exchange *exchange);

#endif
