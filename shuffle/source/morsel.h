/* The morsel queue: what a node was lent of one relation, dealt to its workers by an atomic counter.
 *
 * The control thread appends groups of morsels and finally closes the queue; workers take. When few are left untaken
 * the taker's `low` callback tells the control thread to borrow more. */
#ifndef MILLRACE_SHUFFLE_SOURCE_MORSEL_H
#define MILLRACE_SHUFFLE_SOURCE_MORSEL_H

#include <stdbool.h>

#include "shuffle/source/relation.h"

struct shuffle_morsel_queue;

/* capacity: the most morsels that will ever be appended (all of the relation's). low (may be NULL) is called on a
 * worker's thread whenever a take leaves fewer than low_mark morsels untaken and the queue is not closed. */
enum base_status shuffle_morsel_queue_open(uint64_t capacity, uint32_t low_mark, void (*low)(void *context),
                                           void *context, struct shuffle_morsel_queue **queue,
                                           struct base_error *error);
/* Control thread only. BASE_TOO_LARGE beyond the capacity. The appending side wakes the workers. */
enum base_status shuffle_morsel_queue_append(struct shuffle_morsel_queue *queue, const struct shuffle_morsel *morsels,
                                             uint64_t count, struct base_error *error);
void shuffle_morsel_queue_end(struct shuffle_morsel_queue *queue);
/* Any thread: no morsel whose number in the relation is `limit` or above is dealt any more; a limit never rises. A
 * limited queue never ends: takes say BASE_BUSY. Morsels are appended in the order of their numbers. */
void shuffle_morsel_queue_limit(struct shuffle_morsel_queue *queue, uint64_t limit);
/* UINT64_MAX: none was set. */
uint64_t shuffle_morsel_queue_limited(const struct shuffle_morsel_queue *queue);
/* Has every morsel below the limit that was appended so far been taken? */
bool shuffle_morsel_queue_spent(const struct shuffle_morsel_queue *queue);
/* Any worker. BASE_OK: *morsel is this caller's. BASE_BUSY: none now, more may come. BASE_END: none will. */
enum base_status shuffle_morsel_queue_take(struct shuffle_morsel_queue *queue, struct shuffle_morsel *morsel);
uint64_t shuffle_morsel_queue_taken(const struct shuffle_morsel_queue *queue);
/* Nobody uses it any more. */
void shuffle_morsel_queue_close(struct shuffle_morsel_queue *queue);

#endif
