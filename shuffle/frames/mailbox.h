/* Mailboxes: how workers of one node hand frames to each other. A mailbox is one direction between two workers: a
 * bounded queue of frames out, and a second queue by which the buffers go home, because pools and rings have one owner.
 *
 * A mailroom holds all mailboxes of a node's workers and whom to wake. Sleeping: a worker about to block declares it
 * (shuffle_mailroom_sleep), which sets its flag, fences, and looks again; a poster that sees the flag wakes the
 * worker's engine. */
#ifndef MILLRACE_SHUFFLE_FRAMES_MAILBOX_H
#define MILLRACE_SHUFFLE_FRAMES_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "net/engine/engine.h"

struct shuffle_mailroom;

/* For `workers` workers of one node; capacity frames per direction. */
enum base_status shuffle_mailroom_open(uint32_t workers, uint32_t capacity, struct shuffle_mailroom **mailroom,
                                       struct base_error *error);
/* All queues must be empty (every frame back home). */
void shuffle_mailroom_close(struct shuffle_mailroom *mailroom);
/* Says whom to wake for worker `local`; called before any worker posts. The engine stays open until every worker of the
 * node has closed its mesh: until then anyone may still wake it. */
void shuffle_mailroom_register(struct shuffle_mailroom *mailroom, uint32_t local, struct net_engine *engine);

/* All of these on the thread of the worker that is named first. Frames are opaque here. */
bool shuffle_mailroom_post(struct shuffle_mailroom *mailroom, uint32_t from, uint32_t to,
                           void *frame);                                                    /* false: full */
void *shuffle_mailroom_take(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t from); /* NULL: empty */
/* Room is always there: what is posted and not yet taken home never exceeds the capacity, wherever it is. */
void shuffle_mailroom_return(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t owner, void *frame);
void *shuffle_mailroom_take_home(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t from); /* NULL: empty */

/* Worker `at` is about to block. False: something arrived meanwhile, do not block. After waking call
 * shuffle_mailroom_awake. */
bool shuffle_mailroom_sleep(struct shuffle_mailroom *mailroom, uint32_t at);
void shuffle_mailroom_awake(struct shuffle_mailroom *mailroom, uint32_t at);
/* Nothing has arrived at worker `at` that it has not taken: neither frames nor its own coming home. */
bool shuffle_mailroom_empty(const struct shuffle_mailroom *mailroom, uint32_t at);

/* A worker takes part in a job from join to leave, and posts in between only; leave wakes the others. When all have
 * left (or not come yet), nothing will be posted any more: then who has emptied its mailboxes may go. Until then a
 * closing worker goes on taking and returning, so that every frame gets home. The mesh does these; a worker that never
 * had a mesh leaves, too. */
void shuffle_mailroom_join(struct shuffle_mailroom *mailroom, uint32_t at, uint64_t job);
void shuffle_mailroom_leave(struct shuffle_mailroom *mailroom, uint32_t at);
bool shuffle_mailroom_left(const struct shuffle_mailroom *mailroom, uint64_t job);

#endif
