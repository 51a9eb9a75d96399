/* Moving bytes for a time, and knowing that they arrived.
 *
 * A stream between two workers is a sequence of blocks: a header that says step, place and length, then bytes of a
 * pattern. Where in the pattern a stream begins depends on who sends to whom, so bytes of another stream or another
 * place are seen. An END block tells how many there were. So a step is over for a worker when all its streams have
 * said END and all it hears have: then every byte that was sent is known to have arrived, on every stream.
 *
 * Workers get their orders at slightly different times. The first bytes of a step may come before its order: they count
 * for the totals, but not for the measured time, which begins only after the warm-up anyway. The coordinator gives the
 * order for a step after all have ended the one before, so nothing can come earlier than that.
 *
 * Sending goes on until the measured time is over, whatever arrives; the tail drains before END. Nothing here waits for
 * another worker but to receive its END, and that wait has a deadline. */
#include "cluster/bisect/task.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/random.h"
#include "base/state.h"

enum {
    PATTERN_BYTES = 256 << 10, /* stays in a core's cache */
    BLOCK_BYTES = 256 << 10,
    VERIFY_EVERY = 16 /* of the pieces that arrive on a stream; the first of a step always */
};
#define BLOCK_MAGIC UINT32_C(0x3142524d) /* "MRB1" */
#define PATTERN_SEED UINT64_C(0x62697365637421)

/* On the wire, little-endian. */
struct bisect_block {
    uint32_t magic;
    uint32_t step;
    uint32_t bytes;    /* of payload after this; 0: END */
    uint32_t reserved; /* 0 */
    uint64_t position; /* payload of this stream in this step before this block */
};
_Static_assert(sizeof(struct bisect_block) == 24, "a block's header is 24 bytes on the wire");

enum task_state { TASK_MEASURING = SHUFFLE_TASK_OWN, TASK_STATE_COUNT };

static const struct base_state_row task_rows[TASK_STATE_COUNT] = {
    SHUFFLE_TASK_ROWS,
    [SHUFFLE_TASK_OPENED] = {"opened", 0},
    [SHUFFLE_TASK_CONNECTED] = {"connected", SHUFFLE_TASK_FROM(CONNECTING) | 1U << TASK_MEASURING},
    [SHUFFLE_TASK_FINISHED] = {"finished", SHUFFLE_TASK_FROM(CONNECTED)},
    [TASK_MEASURING] = {"measuring", SHUFFLE_TASK_FROM(CONNECTED)},
};
static const struct base_machine task_machine = {"task of a measurement", task_rows, TASK_STATE_COUNT};

/* A worker of another node, as sender and as receiver of this step. */
struct bisect_peer {
    uint32_t node;
    /* to it */
    bool sending, end_said, end_sent;
    uint64_t sent_bytes;
    struct bisect_block leaving;
    /* from it */
    bool expected, ended;
    uint32_t step; /* that its bytes belong to */
    uint64_t received_bytes;
    struct bisect_block arriving;
    uint32_t arriving_bytes; /* of the header that are there */
    uint32_t payload_left;
    uint32_t pieces; /* that came in this step */
};

struct bisect_task {
    struct shuffle_task base;
    struct shuffle_mesh_raw raw;
    uint8_t *pattern;
    struct bisect_peer *peer; /* per worker */
    uint32_t own_node;
    /* the step */
    const struct cluster_measure *order;
    uint32_t step; /* that runs, or ended last */
    uint64_t start_ns;
    uint32_t sends_left, receives_left;
    uint32_t window_count;
    uint64_t *window, *node_bytes;
    struct cluster_bisect_measures sum; /* but for what its peers count */
};

static uint64_t now_ns(const struct bisect_task *task)
{
    return net_engine_now_ns(task->base.config.engine);
}

/* ---- the pattern ---- */

/* Place in the pattern of a stream's byte. */
static uint32_t pattern_at(const struct bisect_task *task, uint32_t from, uint32_t to, uint64_t position)
{
    const uint64_t stream = (uint64_t)from * task->base.config.job->workers + to;
    return (uint32_t)((base_random_mix(stream + 1) + position) % PATTERN_BYTES);
}

static bool pattern_equal(const struct bisect_task *task, uint32_t from, uint64_t position, const uint8_t *data,
                          uint32_t bytes)
{
    uint32_t at = pattern_at(task, from, task->base.config.worker, position);
    while (bytes > 0) {
        const uint32_t part = (uint32_t)base_min_u64(bytes, PATTERN_BYTES - at);
        if (memcmp(data, task->pattern + at, part) != 0)
            return false;
        data += part;
        bytes -= part;
        at = 0;
    }
    return true;
}

/* ---- sending ---- */

static uint64_t sending_end_ns(const struct bisect_task *task)
{
    return task->start_ns + task->order->warmup_ns + task->order->duration_ns;
}

static bool raw_fill(void *context, uint32_t worker, struct net_send_op *op)
{
    struct bisect_task *task = context;
    struct bisect_peer *peer = &task->peer[worker];
    if (task->base.state.now != TASK_MEASURING || !peer->sending || peer->end_said)
        return false;
    peer->end_said = now_ns(task) >= sending_end_ns(task);
    const uint32_t bytes = peer->end_said ? 0 : BLOCK_BYTES;
    peer->leaving =
        (struct bisect_block){.magic = BLOCK_MAGIC, .step = task->step, .bytes = bytes, .position = peer->sent_bytes};
    op->segments[0] = (struct iovec){&peer->leaving, sizeof peer->leaving};
    op->count = 1;
    uint32_t at = pattern_at(task, task->base.config.worker, worker, peer->sent_bytes);
    for (uint32_t left = bytes; left > 0; at = 0) {
        const uint32_t part = (uint32_t)base_min_u64(left, PATTERN_BYTES - at);
        op->segments[op->count++] = (struct iovec){task->pattern + at, part};
        left -= part;
    }
    peer->sent_bytes += bytes;
    return true;
}

static void raw_sent(void *context, uint32_t worker, uint64_t bytes)
{
    (void)bytes;
    struct bisect_task *task = context;
    struct bisect_peer *peer = &task->peer[worker];
    if (task->base.state.now == TASK_MEASURING && peer->end_said && !peer->end_sent) {
        peer->end_sent = true;
        task->sends_left--;
    }
}

/* ---- receiving ---- */

static enum base_status stream_error(const struct bisect_task *task, uint32_t worker, const char *what,
                                     struct base_error *error)
{
    const struct bisect_peer *peer = &task->peer[worker];
    return base_error_set(error, BASE_FRAME_CORRUPT,
                          "node %s: worker %u sent bytes that are not what it was to send (%s, step %u, after byte "
                          "%" PRIu64 " of the stream): do cards or switches between the nodes damage data?",
                          task->base.node_name[worker], worker, what, task->step, peer->received_bytes);
}

static void stream_ended(struct bisect_task *task, struct bisect_peer *peer)
{
    peer->ended = true;
    if (task->base.state.now == TASK_MEASURING && peer->step == task->step && peer->expected)
        task->receives_left--;
}

/* A whole header is there. */
static enum base_status block_begins(struct bisect_task *task, uint32_t worker, struct base_error *error)
{
    struct bisect_peer *peer = &task->peer[worker];
    const struct bisect_block *block = &peer->arriving;
    if (block->magic != BLOCK_MAGIC || block->reserved != 0 || block->bytes > BLOCK_BYTES)
        return stream_error(task, worker, "no header where one must be", error);
    if (block->step != peer->step) { /* the first of a step, which may not have begun here */
        if (block->step != task->step + (task->base.state.now != TASK_MEASURING))
            return stream_error(task, worker, "bytes of another step", error);
        peer->step = block->step;
        peer->received_bytes = 0;
        peer->pieces = 0;
        peer->ended = false;
    }
    if (block->position != peer->received_bytes || peer->ended)
        return stream_error(task, worker, "bytes are missing or come twice", error);
    if (task->base.state.now == TASK_MEASURING && peer->step == task->step && !peer->expected)
        return stream_error(task, worker, "it was not to send in this step", error);
    peer->payload_left = block->bytes;
    if (block->bytes == 0)
        stream_ended(task, peer);
    return BASE_OK;
}

static void count_payload(struct bisect_task *task, const struct bisect_peer *peer, uint32_t bytes)
{
    if (task->base.state.now != TASK_MEASURING || peer->step != task->step)
        return;
    const uint64_t begin_ns = task->start_ns + task->order->warmup_ns, now = now_ns(task);
    if (now < begin_ns || now - begin_ns >= task->order->duration_ns)
        return;
    task->node_bytes[peer->node] += bytes;
    const uint64_t window = (now - begin_ns) / task->order->window_ns;
    if (window < task->window_count)
        task->window[window] += bytes;
}

static enum base_status raw_received(void *context, uint32_t worker, const uint8_t *data, uint32_t bytes,
                                     struct base_error *error)
{
    struct bisect_task *task = context;
    struct bisect_peer *peer = &task->peer[worker];
    while (bytes > 0) {
        uint32_t part;
        if (peer->payload_left > 0) {
            part = (uint32_t)base_min_u64(bytes, peer->payload_left);
            if (peer->pieces++ % VERIFY_EVERY == 0) {
                if (!pattern_equal(task, worker, peer->received_bytes, data, part))
                    return stream_error(task, worker, "payload differs", error);
                task->sum.verified_bytes += part;
            }
            count_payload(task, peer, part);
            peer->received_bytes += part;
            peer->payload_left -= part;
        } else {
            part = (uint32_t)base_min_u64(bytes, sizeof peer->arriving - peer->arriving_bytes);
            memcpy((uint8_t *)&peer->arriving + peer->arriving_bytes, data, part);
            peer->arriving_bytes += part;
            if (peer->arriving_bytes == sizeof peer->arriving) {
                peer->arriving_bytes = 0;
                const enum base_status status = block_begins(task, worker, error);
                if (status != BASE_OK)
                    return status;
            }
        }
        data += part;
        bytes -= part;
    }
    return BASE_OK;
}

static bool raw_done(const void *context, uint32_t worker)
{
    (void)worker;
    return shuffle_task_over(&((const struct bisect_task *)context)->base);
}

/* ---- a step ---- */

static const struct shuffle_node *task_node_of(const struct bisect_task *task, uint32_t node)
{
    return &task->base.config.job->node[node];
}

/* The streams of a flow from or to another node that begin or end at this worker. */
static void join_flow(struct bisect_task *task, uint32_t other, bool sending)
{
    const struct shuffle_node *own = task_node_of(task, task->own_node), *there = task_node_of(task, other);
    const struct shuffle_node *from = sending ? own : there, *to = sending ? there : own;
    const uint32_t streams = cluster_bisect_streams(task->order->streams, from->count, to->count);
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t a, b;
        cluster_bisect_stream(i, from->count, to->count, &a, &b);
        if ((sending ? a : b) != task->base.config.worker - own->first)
            continue;
        struct bisect_peer *peer = &task->peer[there->first + (sending ? b : a)];
        if (sending) {
            peer->sending = true;
            task->sends_left++;
        } else {
            peer->expected = true;
            task->receives_left += !(peer->step == task->step && peer->ended);
        }
    }
}

static enum base_status windows_prepare(struct bisect_task *task, struct base_error *error)
{
    free(task->window);
    task->window_count = cluster_bisect_windows(task->order->duration_ns);
    task->window = calloc(task->window_count, sizeof *task->window);
    if (!task->window)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for %u windows of a measurement", task->window_count);
    return BASE_OK;
}

static void step_begin(struct bisect_task *task)
{
    const struct cluster_measure *order = task->order;
    const uint32_t workers = task->base.config.job->workers;
    base_state_enter(&task->base.state, TASK_MEASURING);
    task->step = order->step;
    task->start_ns = now_ns(task);
    task->sum = (struct cluster_bisect_measures){0};
    task->sends_left = task->receives_left = 0;
    memset(task->node_bytes, 0, task->base.config.job->node_count * sizeof *task->node_bytes);
    for (uint32_t i = 0; i < workers; i++) {
        struct bisect_peer *peer = &task->peer[i];
        peer->sending = peer->end_said = peer->end_sent = peer->expected = false;
        peer->sent_bytes = 0;
    }
    for (uint32_t i = 0; i < order->receive_count; i++)
        join_flow(task, order->receive[i], false);
    for (uint32_t i = 0; i < order->send_count; i++)
        join_flow(task, order->send[i], true);
    /* Beginning after oneself, so that not all begin with the same receiver. */
    for (uint32_t i = 1; i < workers; i++) {
        const uint32_t worker = (task->base.config.worker + i) % workers;
        if (task->peer[worker].sending)
            shuffle_mesh_offer(task->base.mesh, worker);
    }
}

static void step_late(struct bisect_task *task)
{
    struct base_error error;
    for (uint32_t i = 0; i < task->base.config.job->workers; i++) {
        const struct bisect_peer *peer = &task->peer[i];
        const bool unsent = peer->sending && !peer->end_sent;
        if (!unsent && !(peer->expected && !(peer->step == task->step && peer->ended)))
            continue;
        base_error_set(&error, BASE_TIMEOUT,
                       "the path %s node %s did not drain within %d s of the end of step %u: it is far too slow to be "
                       "measured, or broken",
                       unsent ? "to" : "from", task->base.node_name[i], (int)(BISECT_DRAIN_NS / BASE_NS_PER_S),
                       task->step);
        shuffle_task_fail(&task->base, &error);
        return;
    }
}

static void step_turn(struct bisect_task *task)
{
    if (task->sends_left == 0 && task->receives_left == 0) {
        shuffle_task_reach(&task->base, SHUFFLE_TASK_CONNECTED, BISECT_STEP_MEASURED);
    } else if (now_ns(task) >= sending_end_ns(task) + BISECT_DRAIN_NS) {
        step_late(task);
    }
}

/* ---- the task ---- */

static bool measuring_work(struct shuffle_task *base, const struct shuffle_budget *budget)
{
    (void)budget;
    if (base->state.now == TASK_MEASURING)
        step_turn((struct bisect_task *)base);
    return false; /* what moves is the mesh's */
}

static uint64_t measuring_deadline_ns(const struct shuffle_task *base)
{
    const struct bisect_task *task = (const struct bisect_task *)base;
    return base->state.now == TASK_MEASURING ? sending_end_ns(task) + BISECT_DRAIN_NS : UINT64_MAX;
}

static void measuring_free(struct shuffle_task *base)
{
    struct bisect_task *task = (struct bisect_task *)base;
    shuffle_task_free_mesh(base);
    free(task->window);
    free(task->node_bytes);
    free(task->peer);
    if (task->pattern)
        base_pages_unmap(base->config.governor, BASE_HOLDER_BLOCKS, task->pattern, PATTERN_BYTES);
    free(task);
}

static const struct shuffle_task_ops task_ops = {
    .work = measuring_work, .deadline_ns = measuring_deadline_ns, .free = measuring_free};

static enum base_status open_pattern(struct bisect_task *task, struct base_error *error)
{
    void *pages;
    const enum base_status status =
        base_pages_map(task->base.config.governor, BASE_HOLDER_BLOCKS, PATTERN_BYTES, true, &pages, error);
    if (status != BASE_OK)
        return status;
    task->pattern = pages;
    for (uint32_t i = 0; i < PATTERN_BYTES / sizeof(uint64_t); i++)
        base_store_u64(task->pattern + i * sizeof(uint64_t), base_random_at(PATTERN_SEED, i));
    return BASE_OK;
}

static enum base_status open_peers(struct bisect_task *task, struct base_error *error)
{
    const struct shuffle_job *job = task->base.config.job;
    task->peer = calloc(job->workers, sizeof *task->peer);
    task->node_bytes = calloc(job->node_count, sizeof *task->node_bytes);
    if (!task->peer || !task->node_bytes)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the streams of %u workers", job->workers);
    for (uint32_t n = 0; n < job->node_count; n++)
        for (uint32_t w = job->node[n].first; w < job->node[n].first + job->node[n].count; w++)
            task->peer[w].node = n;
    task->own_node = task->peer[task->base.config.worker].node;
    return BASE_OK;
}

enum base_status bisect_task_open(const struct shuffle_task_config *base, struct bisect_task **task,
                                  struct base_error *error)
{
    struct bisect_task *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a task");
    shuffle_task_begin(&made->base, &task_ops, &task_machine, base);
    made->raw = (struct shuffle_mesh_raw){
        .context = made, .fill = raw_fill, .sent = raw_sent, .received = raw_received, .done = raw_done};
    enum base_status status = open_pattern(made, error);
    if (status == BASE_OK)
        status = open_peers(made, error);
    if (status == BASE_OK)
        status = shuffle_task_open_mesh(&made->base, &made->raw, error);
    if (status != BASE_OK) {
        shuffle_task_free(&made->base);
        return status;
    }
    *task = made;
    return BASE_OK;
}

struct shuffle_task *bisect_task_base(struct bisect_task *task)
{
    return &task->base;
}

void bisect_task_measure(struct bisect_task *task, const struct cluster_measure *order)
{
    if (task->base.state.now != SHUFFLE_TASK_CONNECTED)
        return;
    task->order = order;
    if (order->last) {
        shuffle_task_reach(&task->base, SHUFFLE_TASK_FINISHED, SHUFFLE_STEP_FINISHED);
        return;
    }
    struct base_error error = {0};
    if (windows_prepare(task, &error) == BASE_OK)
        step_begin(task);
    else
        shuffle_task_fail(&task->base, &error);
}

void bisect_task_share(const struct bisect_task *task, struct bisect_share *share)
{
    *share = (struct bisect_share){
        .node_bytes = task->node_bytes, .window = task->window, .window_count = task->window_count, .sum = task->sum};
    for (uint32_t i = 0; i < task->base.config.job->workers; i++) {
        const struct bisect_peer *peer = &task->peer[i];
        share->sum.sent_bytes += peer->sent_bytes;
        if (peer->expected)
            share->sum.received_bytes += peer->received_bytes;
    }
}
