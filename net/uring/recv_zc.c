/* Zero-copy receive of the io_uring engine: a card writes payload into an area of ours, and completions say where.
 *
 * The area is divided into pieces of a page (or of what the driver takes as rx_buf_len). The kernel keeps all that are
 * not with the user. A completion gives a part of a piece; several may give parts of the same one, and each part is
 * returned by itself, in any order, through the refill ring: the kernel counts them. A part takes its whole piece, also
 * for ten bytes, so the area is sized by pieces in flight and the completion queue with it.
 *
 * Without a card (ZCRX_REG_NODEV) the kernel copies into the area, and takes returned pieces back only when told to
 * (ZCRX_CTRL_FLUSH_RQ). That mode exists to be tested on any machine; it is counted as copying and said.
 *
 * What can run out. The area: the receive ends with ENOMEM. That may be news of long ago, when many completions wait to
 * be looked at: if the kernel has got pieces back since the receive was armed, it is armed again at once. Otherwise its
 * socket waits in `starved` like one that found the ring of provided chunks empty, until a piece comes back; and
 * because what is in flight inside the kernel may come back without our seeing it, no longer than a few milliseconds.
 * The completion queue: the receive ends with ENOSPC and is armed again at once, when the queue has been reaped. The
 * refill ring: returns are kept in `owed`, a count per piece, and tried again each turn; nothing is lost by any of
 * these, because what was not completed is still in the socket. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/log.h"
#include "net/engine/refusal.h"
#include "net/uring/internal.h"

enum {
    AREA_PIECES_MAX = 1 << 19, /* 2 GiB of pages */
    AREA_REFILL_ENTRIES_MIN = 64,
    AREA_REFILL_ENTRIES_MAX = 32768,
    AREA_FLUSH_SHARE = 4, /* without a card: flush when a quarter of the area came back */
    AREA_BUSY_TRIES = 10, /* a queue is let go asynchronously by the ring that had it last */
    AREA_BUSY_WAIT_NS = 20000000
};

/* A socket whose receive found no piece is tried again after this time: when the user holds none, or some. */
#define AREA_RETRY_NS UINT64_C(1000000)
#define AREA_RETRY_HELD_NS UINT64_C(20000000)

uint32_t uring_area_pieces(const struct net_engine_config *config)
{
    const struct net_receive_queue *queue = &config->queue;
    const uint64_t piece_bytes = queue->piece_bytes ? queue->piece_bytes : (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t pieces =
        queue->area_bytes ? queue->area_bytes / piece_bytes
                          : config->recv_chunk_count * ((config->recv_chunk_bytes + piece_bytes - 1) / piece_bytes);
    return (uint32_t)base_min_u64(pieces > 0 ? pieces : 1, AREA_PIECES_MAX);
}

static size_t refill_bytes(uint32_t entries)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return base_align_up(entries * sizeof(struct io_uring_zcrx_rqe), page_bytes) + page_bytes;
}

/* One try. 0, or a negative errno. */
static int area_register_once(struct uring_engine *engine, const struct net_receive_queue *queue, uint32_t piece_bytes)
{
    struct uring_area *area = &engine->area;
    struct io_uring_zcrx_area_reg memory = {.addr = (uintptr_t)area->data, .len = area->bytes};
    struct io_uring_region_desc region = {
        .user_addr = (uintptr_t)area->refill_memory, .size = area->refill_bytes, .flags = IORING_MEM_REGION_TYPE_USER};
    struct io_uring_zcrx_ifq_reg request = {.if_idx = queue->interface_index,
                                            .if_rxq = queue->queue,
                                            .rq_entries = area->refill_entries,
                                            .flags = area->copies ? ZCRX_REG_NODEV : 0,
                                            .area_ptr = (uintptr_t)&memory,
                                            .region_ptr = (uintptr_t)&region,
                                            .rx_buf_len = piece_bytes};
    const int result = io_uring_register_ifq(&engine->ring, &request);

    if (result < 0)
        return result;
    uint8_t *refill = area->refill_memory;
    area->refill_head = (uint32_t *)(void *)(refill + request.offsets.head);
    area->refill_tail = (uint32_t *)(void *)(refill + request.offsets.tail);
    area->refill = (struct io_uring_zcrx_rqe *)(void *)(refill + request.offsets.rqes);
    area->token = memory.rq_area_token;
    area->id = request.zcrx_id;
    return 0;
}

/* A busy queue may be one that this process has just let go; large pieces the driver may not take. */
static int area_register(struct uring_engine *engine, const struct net_receive_queue *queue)
{
    struct uring_area *area = &engine->area;
    const uint32_t page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);
    const uint32_t piece_bytes = area->piece_bytes == page_bytes ? 0 : area->piece_bytes;
    int result = area_register_once(engine, queue, piece_bytes);

    for (int i = 0; (result == -EBUSY || result == -EEXIST) && !area->copies && i < AREA_BUSY_TRIES; i++) {
        nanosleep(&(struct timespec){.tv_nsec = AREA_BUSY_WAIT_NS}, NULL);
        result = area_register_once(engine, queue, piece_bytes);
    }
    if (result < 0 && piece_bytes != 0) {
        area->piece_bytes = page_bytes;
        area->piece_count = (uint32_t)(area->bytes / page_bytes);
        result = area_register_once(engine, queue, 0);
    }
    return result;
}

/* On huge pages when asked, and for larger pieces, which must not cross what the card sees as one page. Ordinary ones
 * are second best. */
static bool area_map(struct uring_engine *engine)
{
    struct uring_area *area = &engine->area;
    struct base_error error;
    const bool larger = area->piece_bytes > (uint32_t)sysconf(_SC_PAGESIZE);

    if ((larger || uring_has(engine, NET_FEATURE_HUGE_PAGES)) &&
        uring_pages_map_huge(engine, area->bytes, &area->data, &area->mapped_bytes, &error) == BASE_OK && area->data) {
        area->huge = true;
        memset(area->data, 0, area->mapped_bytes); /* touched by the owner, so that it lies on the owner's NUMA node */
        return true;
    }
    area->mapped_bytes = area->bytes;
    return base_pages_map(engine->governor, BASE_HOLDER_CHUNKS, area->bytes, true, (void **)&area->data, &error) ==
           BASE_OK;
}

static bool area_allocate(struct uring_engine *engine, const struct net_engine_config *config)
{
    struct uring_area *area = &engine->area;
    struct base_error error;
    const uint32_t page_bytes = (uint32_t)sysconf(_SC_PAGESIZE);

    area->piece_bytes = config->queue.piece_bytes ? config->queue.piece_bytes : page_bytes;
    area->piece_count = uring_area_pieces(config);
    area->bytes = (size_t)area->piece_bytes * area->piece_count;
    area->refill_entries = AREA_REFILL_ENTRIES_MIN;
    while (area->refill_entries < area->piece_count && area->refill_entries < AREA_REFILL_ENTRIES_MAX)
        area->refill_entries *= 2;
    area->refill_bytes = refill_bytes(area->refill_entries);
    /* The driver may only take pages: then there are more pieces than asked for. */
    const size_t pages = area->bytes / page_bytes;
    area->lent = calloc(pages, sizeof *area->lent);
    area->owed = calloc(pages, sizeof *area->owed);
    area->owing = calloc(pages, sizeof *area->owing);
    return area->lent && area->owed && area->owing && area_map(engine) &&
           base_pages_map(engine->governor, BASE_HOLDER_CHUNKS, area->refill_bytes, true, &area->refill_memory,
                          &error) == BASE_OK;
}

void uring_area_close(struct uring_engine *engine)
{
    struct uring_area *area = &engine->area;

    if (area->data)
        uring_pages_unmap(engine, area->data, area->mapped_bytes, area->huge);
    if (area->refill_memory)
        base_pages_unmap(engine->governor, BASE_HOLDER_CHUNKS, area->refill_memory, area->refill_bytes);
    free(area->lent);
    free(area->owed);
    free(area->owing);
    *area = (struct uring_area){0};
}

static void area_missed(struct uring_engine *engine, int result)
{
    if (engine->area.copies && result == -EINVAL)
        net_engine_miss(
            &engine->base, NET_FEATURE_RECV_ZC,
            "no card's queue was given (--nic, --rx-queues), and this kernel cannot do without (Linux 7.0)");
    else
        net_engine_miss(&engine->base, NET_FEATURE_RECV_ZC, net_recv_zc_refusal(-result));
}

bool uring_area_open(struct uring_engine *engine, const struct net_engine_config *config)
{
    struct uring_area *area = &engine->area;

    area->copies = config->queue.interface_index == 0;
    const int result = area_allocate(engine, config) ? area_register(engine, &config->queue) : -ENOMEM;
    if (result < 0) {
        area_missed(engine, result);
        uring_area_close(engine);
        return false;
    }
    if (area->copies)
        net_engine_note(&engine->base, "zero-copy receive without a card: the kernel copies; give the node a card's "
                                       "queues (--nic, --rx-queues)");
    return true;
}

/* False: the refill ring is full. */
static bool area_refill(struct uring_area *area, uint32_t piece)
{
    const uint32_t head = __atomic_load_n(area->refill_head, __ATOMIC_ACQUIRE);

    if (area->refill_next - head == area->refill_entries)
        return false;
    area->refill[area->refill_next & (area->refill_entries - 1)] =
        (struct io_uring_zcrx_rqe){.off = (uint64_t)piece * area->piece_bytes | area->token, .len = area->piece_bytes};
    area->refill_next++;
    area->returned++;
    area->returns += !area->copies;
    __atomic_store_n(area->refill_tail, area->refill_next, __ATOMIC_RELEASE);
    return true;
}

static void area_return(struct uring_area *area, uint32_t piece)
{
    BASE_ASSERT(piece < area->piece_count && area->owing_count <= area->piece_count);
    if (area->owing_count == 0 && area_refill(area, piece))
        return;
    if (area->owed[piece]++ == 0)
        area->owing[(area->owing_first + area->owing_count++) % area->piece_count] = piece;
}

static void area_pay(struct uring_area *area)
{
    while (area->owing_count > 0) {
        const uint32_t piece = area->owing[area->owing_first];
        if (!area_refill(area, piece))
            return;
        if (--area->owed[piece] > 0)
            continue;
        area->owing_first = (area->owing_first + 1) % area->piece_count;
        area->owing_count--;
    }
}

/* What is inside the kernel cannot be known; what is not with the user may be free. */
static uint32_t area_free(const struct uring_area *area)
{
    return area->lent_parts < area->piece_count ? area->piece_count - area->lent_parts : 0;
}

static void area_flush(struct uring_engine *engine)
{
    struct zcrx_ctrl order = {.zcrx_id = engine->area.id, .op = ZCRX_CTRL_FLUSH_RQ};

    engine->base.counters.syscalls++;
    engine->base.counters.zc_receive_flushes++;
    /* A refusal leaves the pieces in the ring; the next receive that finds none tries again. */
    (void)io_uring_register_zcrx_ctrl(&engine->ring, &order);
    engine->area.returns += engine->area.returned;
    engine->area.returned = 0;
    area_pay(&engine->area);
    engine->chunks.free = area_free(&engine->area);
}

static void recv_zc_prepare(struct uring_socket *socket, struct io_uring_sqe *sqe)
{
    io_uring_prep_rw(IORING_OP_RECV_ZC, sqe, socket->fd, NULL, 0, 0);
    sqe->ioprio |= IORING_RECV_MULTISHOT;
    sqe->zcrx_ifq_idx = uring_engine_of(socket)->area.id;
    socket->area_returns = uring_engine_of(socket)->area.returns;
}

/* The second half of the completion says where the bytes lie. */
static uint64_t recv_zc_offset(const struct io_uring_cqe *cqe)
{
    const struct io_uring_zcrx_cqe *where = (const struct io_uring_zcrx_cqe *)(const void *)(cqe + 1);
    return where->off & ~IORING_ZCRX_AREA_MASK;
}

static uint32_t recv_zc_deliver(struct uring_socket *socket, const struct io_uring_cqe *cqe, struct net_event *event)
{
    struct uring_engine *engine = uring_engine_of(socket);
    struct uring_area *area = &engine->area;
    const uint64_t offset = recv_zc_offset(cqe);
    const uint32_t piece = (uint32_t)(offset / area->piece_bytes);

    BASE_ASSERT(piece < area->piece_count && offset + (uint32_t)cqe->res <= area->bytes);
    if (!(cqe->flags & IORING_CQE_F_MORE))
        uring_receive_again(socket);
    socket->flags |= URING_FED;
    area->lent[piece]++;
    area->lent_parts++;
    engine->base.counters.zc_receives++;
    engine->base.counters.zc_receive_copied += area->copies;
    uring_receive_fill(socket, piece, area->data + offset, (uint32_t)cqe->res, event);
    return 1;
}

/* Only completions with bytes carry a part. */
static void recv_zc_discard(struct uring_engine *engine, struct uring_socket *socket, const struct io_uring_cqe *cqe)
{
    (void)socket;
    if (cqe->res > 0)
        area_return(&engine->area, (uint32_t)(recv_zc_offset(cqe) / engine->area.piece_bytes));
}

static void recv_zc_release(struct uring_engine *engine, const struct net_chunk *chunk)
{
    struct uring_area *area = &engine->area;

    BASE_ASSERT(chunk->id < area->piece_count && area->lent[chunk->id] > 0);
    BASE_ASSERT(area->lent_parts > 0 && chunk->data >= area->data && chunk->data < area->data + area->bytes);
    area->lent[chunk->id]--;
    area->lent_parts--;
    area_return(area, chunk->id);
    if (engine->chunks.free < area->piece_count)
        engine->chunks.free++;
}

/* The area was empty at some time since the receive was armed. */
static void recv_zc_starve(struct uring_socket *socket)
{
    struct uring_engine *engine = uring_engine_of(socket);
    const struct uring_area *area = &engine->area;

    if (area->returns != socket->area_returns) {
        uring_receive_again(socket);
        return;
    }
    engine->chunks.free = 0;
    uring_receive_starve(socket);
    uring_socket_set_deadline(socket,
                              engine->base.now_ns +
                                  (area->lent_parts == 0 && area->returned == 0 ? AREA_RETRY_NS : AREA_RETRY_HELD_NS));
}

static void recv_zc_feed(struct uring_engine *engine)
{
    struct uring_area *area = &engine->area;
    const bool starved = !(net_list_empty(&engine->starved) && net_list_empty(&engine->sated));

    area_pay(area);
    if (area->copies && area->returned > 0 && (starved || area->returned >= area->piece_count / AREA_FLUSH_SHARE))
        area_flush(engine);
    uring_receive_feed(engine);
}

const struct uring_receiver uring_receiver_recv_zc = {
    .starved_error = -ENOMEM,
    .prepare = recv_zc_prepare,
    .deliver = recv_zc_deliver,
    .discard = recv_zc_discard,
    .release = recv_zc_release,
    .starve = recv_zc_starve,
    .feed = recv_zc_feed,
    .resume = uring_receive_resume_none,
};
