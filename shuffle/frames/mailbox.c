/* Two rings per ordered pair of workers: out (posted frames) and home (the same frames coming back). A poster
 * counts what it has outstanding, in the mailbox, at the receiver or going home, and posts no more than the
 * capacity; so the home ring, of the same capacity, always has room.
 *
 * Sleeping without losing a wake-up: the sleeper exchanges its flag to true, then looks into all its queues; a poster
 * pushes first, then exchanges the flag to false. The two exchanges on one flag are ordered. If the poster's comes
 * second, it reads true and wakes; if it comes first, the sleeper's exchange acquires what the poster released, so
 * the look finds the push. No fence is needed, and thread sanitizers understand it. */
#include "shuffle/frames/mailbox.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/memory/ring.h"

enum { LINE_BYTES = 64 };

/* One per ordered pair. outstanding is the poster's own. */
struct mailbox {
    alignas(LINE_BYTES) struct base_ring *out;
    struct base_ring *home;
    uint32_t outstanding;
};

struct seat {
    alignas(LINE_BYTES) atomic_bool asleep;
    atomic_bool joined;
    _Atomic uint64_t job;              /* while joined */
    struct net_engine *_Atomic engine; /* may be set while a neighbour that cannot begin the job leaves it */
};

struct shuffle_mailroom {
    uint32_t workers, capacity;
    struct seat *seats;
    struct mailbox *boxes; /* [from * workers + to] */
};

static struct mailbox *box_of(const struct shuffle_mailroom *mailroom, uint32_t from, uint32_t to)
{
    BASE_ASSERT(from < mailroom->workers && to < mailroom->workers && from != to);
    return &mailroom->boxes[(size_t)from * mailroom->workers + to];
}

static void mailroom_free(struct shuffle_mailroom *mailroom)
{
    for (size_t i = 0; mailroom->boxes && i < (size_t)mailroom->workers * mailroom->workers; i++) {
        base_ring_close(mailroom->boxes[i].out);
        base_ring_close(mailroom->boxes[i].home);
    }
    free(mailroom->boxes);
    free(mailroom->seats);
    free(mailroom);
}

enum base_status shuffle_mailroom_open(uint32_t workers, uint32_t capacity, struct shuffle_mailroom **mailroom,
                                       struct base_error *error)
{
    BASE_ASSERT(workers > 0 && workers <= UINT16_MAX && capacity > 0);
    struct shuffle_mailroom *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the mailboxes of %u workers", workers);
    const size_t pairs = (size_t)workers * workers;
    enum base_status status = BASE_OK;
    opened->workers = workers;
    opened->capacity = capacity;
    opened->seats = aligned_alloc(LINE_BYTES, workers * sizeof *opened->seats);
    opened->boxes = aligned_alloc(LINE_BYTES, pairs * sizeof *opened->boxes);
    if (opened->seats)
        memset(opened->seats, 0, workers * sizeof *opened->seats);
    if (opened->boxes)
        memset(opened->boxes, 0, pairs * sizeof *opened->boxes);
    if (!opened->seats || !opened->boxes)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for the mailboxes of %u workers", workers);
    for (size_t i = 0; i < pairs && status == BASE_OK; i++) {
        if (i / workers == i % workers)
            continue;
        status = base_ring_open(capacity, &opened->boxes[i].out, error);
        if (status == BASE_OK)
            status = base_ring_open(capacity, &opened->boxes[i].home, error);
    }
    if (status != BASE_OK) {
        mailroom_free(opened);
        return status;
    }
    *mailroom = opened;
    return BASE_OK;
}

void shuffle_mailroom_close(struct shuffle_mailroom *mailroom)
{
    if (!mailroom)
        return;
    for (uint32_t from = 0; from < mailroom->workers; from++) {
        for (uint32_t to = 0; to < mailroom->workers; to++)
            BASE_ASSERT(from == to || box_of(mailroom, from, to)->outstanding == 0);
    }
    mailroom_free(mailroom);
}

void shuffle_mailroom_register(struct shuffle_mailroom *mailroom, uint32_t local, struct net_engine *engine)
{
    BASE_ASSERT(local < mailroom->workers);
    atomic_store_explicit(&mailroom->seats[local].engine, engine, memory_order_release);
}

static void seat_wake(struct seat *seat)
{
    struct net_engine *engine = atomic_load_explicit(&seat->engine, memory_order_acquire);
    if (engine)
        net_engine_wake(engine);
}

static void wake_if_asleep(struct shuffle_mailroom *mailroom, uint32_t at)
{
    struct seat *seat = &mailroom->seats[at];
    if (atomic_exchange_explicit(&seat->asleep, false, memory_order_acq_rel))
        seat_wake(seat);
}

bool shuffle_mailroom_post(struct shuffle_mailroom *mailroom, uint32_t from, uint32_t to, void *frame)
{
    struct mailbox *box = box_of(mailroom, from, to);
    if (box->outstanding == mailroom->capacity)
        return false;
    const bool pushed = base_ring_push(box->out, frame);
    BASE_ASSERT(pushed);
    box->outstanding++;
    wake_if_asleep(mailroom, to);
    return true;
}

void *shuffle_mailroom_take(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t from)
{
    return base_ring_pop(box_of(mailroom, from, at)->out);
}

void shuffle_mailroom_return(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t owner, void *frame)
{
    const bool pushed = base_ring_push(box_of(mailroom, owner, at)->home, frame);
    BASE_ASSERT(pushed);
    wake_if_asleep(mailroom, owner);
}

void *shuffle_mailroom_take_home(struct shuffle_mailroom *mailroom, uint32_t at, uint32_t from)
{
    struct mailbox *box = box_of(mailroom, at, from);
    void *frame = base_ring_pop(box->home);
    if (frame) {
        BASE_ASSERT(box->outstanding > 0);
        box->outstanding--;
    }
    return frame;
}

bool shuffle_mailroom_empty(const struct shuffle_mailroom *mailroom, uint32_t at)
{
    for (uint32_t other = 0; other < mailroom->workers; other++) {
        if (other == at)
            continue;
        if (!base_ring_empty(box_of(mailroom, other, at)->out) || !base_ring_empty(box_of(mailroom, at, other)->home))
            return false;
    }
    return true;
}

bool shuffle_mailroom_sleep(struct shuffle_mailroom *mailroom, uint32_t at)
{
    BASE_ASSERT(at < mailroom->workers);
    atomic_exchange_explicit(&mailroom->seats[at].asleep, true, memory_order_acq_rel);
    if (shuffle_mailroom_empty(mailroom, at))
        return true;
    shuffle_mailroom_awake(mailroom, at);
    return false;
}

void shuffle_mailroom_awake(struct shuffle_mailroom *mailroom, uint32_t at)
{
    atomic_exchange_explicit(&mailroom->seats[at].asleep, false, memory_order_acq_rel);
}

void shuffle_mailroom_join(struct shuffle_mailroom *mailroom, uint32_t at, uint64_t job)
{
    struct seat *seat = &mailroom->seats[at];
    BASE_ASSERT(!atomic_load_explicit(&seat->joined, memory_order_relaxed));
    atomic_store_explicit(&seat->job, job, memory_order_relaxed);
    atomic_store_explicit(&seat->joined, true, memory_order_release);
}

void shuffle_mailroom_leave(struct shuffle_mailroom *mailroom, uint32_t at)
{
    /* Release: who sees us gone sees all that we posted. The wake is unconditional: who waits for us to go does not
     * look at us again when it falls asleep. */
    atomic_store_explicit(&mailroom->seats[at].joined, false, memory_order_release);
    for (uint32_t other = 0; other < mailroom->workers; other++) {
        if (other != at)
            seat_wake(&mailroom->seats[other]);
    }
}

bool shuffle_mailroom_left(const struct shuffle_mailroom *mailroom, uint64_t job)
{
    for (uint32_t i = 0; i < mailroom->workers; i++) {
        const struct seat *seat = &mailroom->seats[i];
        if (atomic_load_explicit(&seat->joined, memory_order_acquire) &&
            atomic_load_explicit(&seat->job, memory_order_relaxed) == job)
            return false;
    }
    return true;
}
