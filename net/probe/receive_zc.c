/* Tries of zero-copy receive: registering a refill ring and an area of memory, with no card (the kernel then copies,
 * which shows that the interface is there) or with one queue of a card. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/engine/refusal.h"
#include "net/probe/internal.h"

enum { AREA_BYTES = 64 * 4096, REFILL_ENTRIES = 64 };

static int register_queue(struct io_uring *ring, void *area_memory, void *refill_memory, size_t refill_bytes,
                          struct io_uring_zcrx_ifq_reg *queue)
{
    struct io_uring_zcrx_area_reg area = {.addr = (uintptr_t)area_memory, .len = AREA_BYTES};
    struct io_uring_region_desc region = {
        .user_addr = (uintptr_t)refill_memory, .size = refill_bytes, .flags = IORING_MEM_REGION_TYPE_USER};
    queue->rq_entries = REFILL_ENTRIES;
    queue->area_ptr = (uintptr_t)&area;
    queue->region_ptr = (uintptr_t)&region;
    return io_uring_register_ifq(ring, queue);
}

/* 0, or a negative errno. The memory is pinned until the ring is gone, which is soon after its exit. */
static int try_queue(uint32_t interface_index, uint32_t queue_index, uint32_t flags)
{
    struct io_uring_zcrx_ifq_reg queue = {.if_idx = interface_index, .if_rxq = queue_index, .flags = flags};
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t refill_bytes =
        (REFILL_ENTRIES * sizeof(struct io_uring_zcrx_rqe) + 2 * page_bytes - 1) / page_bytes * page_bytes;
    struct io_uring ring;
    uint8_t *memory = mmap(NULL, AREA_BYTES + refill_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return -ENOMEM;
    int result = probe_ring(&ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQE32);
    if (result == 0) {
        result = register_queue(&ring, memory, memory + AREA_BYTES, refill_bytes, &queue);
        io_uring_queue_exit(&ring);
    }
    munmap(memory, AREA_BYTES + refill_bytes);
    return result;
}

/* The loopback interface has no queues to give, and a kernel that knows what was asked for says so. */
int probe_receive_zc(struct net_probe_result *result)
{
    enum { LOOPBACK_INDEX = 1 };
    const int failure = try_queue(LOOPBACK_INDEX, 0, 0);
    (void)result;
    return failure == -EOPNOTSUPP ? 0 : failure;
}

int probe_receive_zc_copy(struct net_probe_result *result)
{
    (void)result;
    return try_queue(0, 0, ZCRX_REG_NODEV);
}

static enum net_probe_state refusal_state(int os_error)
{
    switch (os_error) {
    case EPERM:
    case EACCES:
        return NET_PROBE_STATE_FORBIDDEN;
    case EBUSY:
    case EEXIST:
    case ENOMEM:
        return NET_PROBE_STATE_LIMITED;
    case EOPNOTSUPP:
    case EINVAL:
    case ERANGE:
    case ENODEV:
    case ENOSYS:
        return NET_PROBE_STATE_MISSING;
    default:
        return NET_PROBE_STATE_BROKEN;
    }
}

void net_probe_receive_zc(uint32_t interface_index, uint32_t queue, struct net_probe_result *result)
{
    *result = (struct net_probe_result){.state = NET_PROBE_STATE_WORKS};
    const int failure = try_queue(interface_index, queue, 0);
    if (failure >= 0)
        return;
    result->os_error = -failure;
    result->state = refusal_state(-failure);
    snprintf(result->why, sizeof result->why, "%s", net_recv_zc_refusal(-failure));
}
