/* Bounded single-producer single-consumer queue of pointers: the one primitive by which workers of a node hand things
 * to each other. Data is released by the producer's store and acquired by the consumer's load, so what a pointer points
 * to is visible with it. Nothing here blocks or wakes: see shuffle/frames/mailbox.h. */
#ifndef MILLRACE_BASE_MEMORY_RING_H
#define MILLRACE_BASE_MEMORY_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct base_ring;

/* capacity is rounded up to a power of two. */
enum base_status base_ring_open(uint32_t capacity, struct base_ring **ring, struct base_error *error);
/* Items still inside are forgotten, not freed. */
void base_ring_close(struct base_ring *ring);
/* Producer only. False when full. item is not NULL. */
bool base_ring_push(struct base_ring *ring, void *item);
/* Consumer only. NULL when empty. */
void *base_ring_pop(struct base_ring *ring);
/* Either side; exact for the caller's own side, a snapshot of the other. */
bool base_ring_empty(const struct base_ring *ring);

#endif
