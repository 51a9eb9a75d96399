/* Frames in memory: where they come from, who has them, and how they get home. Internal to the exchange. */
#ifndef MILLRACE_SHUFFLE_FRAMES_MEMORY_H
#define MILLRACE_SHUFFLE_FRAMES_MEMORY_H

#include "shuffle/frames/frame.h"

struct shuffle_exchange;

/* X(name, words): who has a frame of a worker's exchange. */
#define SHUFFLE_FRAME_HOLDER_LIST(X)                                                                                   \
    X(LANE, "the lane, which fills it")                                                                                \
    X(OWN, "rows of the worker itself")                                                                                \
    X(QUEUE, "the queue of frames to send")                                                                            \
    X(SEND, "a send that is not over")                                                                                 \
    X(NEIGHBOUR, "a worker of the same node, or its mailbox")

enum shuffle_frame_holder {
#define X(name, words) SHUFFLE_FRAME_HOLDER_##name,
    SHUFFLE_FRAME_HOLDER_LIST(X)
#undef X
};

enum shuffle_frame_home { SHUFFLE_HOME_POOL, SHUFFLE_HOME_PAGES, SHUFFLE_HOME_LANE };

/* A frame in memory: this record, then (in one buffer, except for END frames) the bytes for the wire. The holder of the
 * frame links it by next. A receiver in another thread reads wire and wire_bytes, nothing else. */
struct shuffle_frame {
    struct shuffle_frame *next;
    struct shuffle_exchange *exchange; /* to whose lane it returns */
    uint8_t *wire;                     /* header, then payload */
    uint32_t wire_bytes;
    uint32_t destination;
    uint32_t payload_bytes_max;
    enum shuffle_frame_home home;
    enum shuffle_frame_holder holder;
};

/* Before the wire bytes of a frame in a buffer, so that the payload lies at a multiple of 64. */
enum { SHUFFLE_FRAME_LEAD_BYTES = 88 };
_Static_assert(sizeof(struct shuffle_frame) <= SHUFFLE_FRAME_LEAD_BYTES, "the record fits before the header");
_Static_assert((SHUFFLE_FRAME_LEAD_BYTES + SHUFFLE_FRAME_HEADER_BYTES) % 64 == 0, "payload begins on a cache line");

struct shuffle_frame_queue {
    struct shuffle_frame *first, *last;
    uint32_t count;
};

static inline void shuffle_frame_queue_put(struct shuffle_frame_queue *queue, struct shuffle_frame *frame)
{
    frame->next = NULL;
    if (queue->last)
        queue->last->next = frame;
    else
        queue->first = frame;
    queue->last = frame;
    queue->count++;
}

/* NULL when empty. */
static inline struct shuffle_frame *shuffle_frame_queue_take(struct shuffle_frame_queue *queue)
{
    struct shuffle_frame *frame = queue->first;
    if (!frame)
        return NULL;
    queue->first = frame->next;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return frame;
}

/* A frame for a lane (the worker's own number: for its own rows), from the exchange's pool or, for a row larger than
 * the pool's frames, of pages. BASE_BUSY: the lane has as many as it may. BASE_NO_MEMORY: the budget has no room for
 * it. */
enum base_status shuffle_frame_take(struct shuffle_exchange *exchange, uint32_t destination, uint32_t bytes,
                                    struct shuffle_frame **frame);
/* A frame that was away (in the mesh's hands) comes home. */
void shuffle_frame_home(struct shuffle_frame *frame);
/* A frame that never left. */
void shuffle_frame_free(struct shuffle_frame *frame);
/* Says who has a frame, for whoever misses it. */
void shuffle_frame_describe(const void *buffer, char *text, size_t text_bytes);
/* Bytes of memory that a frame of this payload takes. */
size_t shuffle_frame_memory_bytes(uint32_t payload_bytes);

#endif
