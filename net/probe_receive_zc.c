/* Tries of zero-copy receive: registering a refill ring and an area of memory, with no card (the kernel then copies,
 * which shows that the interface is there) or with one queue of a card. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/probe_internal.h"

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

void net_probe_receive_zc(uint32_t interface_index, uint32_t queue, struct net_probe_result *result)
{
    *result = (struct net_probe_result){.state = NET_PROBE_STATE_WORKS};
    const int failure = try_queue(interface_index, queue, 0);
    if (failure >= 0)
        return;
    result->os_error = -failure;
    result->state = NET_PROBE_STATE_MISSING;
    const char *words;
    switch (-failure) {
    case EPERM:
    case EACCES:
        result->state = NET_PROBE_STATE_FORBIDDEN;
        words = "needs CAP_NET_ADMIN: setcap cap_net_admin+ep on millraced, or run it as root";
        break;
    case EOPNOTSUPP:
        words = "the driver cannot hand a receive queue to io_uring, or this queue has an XDP program";
        break;
    case EINVAL:
        words = "this kernel has no zero-copy receive (Linux 6.15 and newer do), the interface has no such queue, or "
                "tcp-data-split and hds-thresh are not set for it";
        break;
    case EBUSY:
    case EEXIST:
        result->state = NET_PROBE_STATE_LIMITED;
        words = "the queue belongs to another ring, to AF_XDP or to an XDP program: end that first";
        break;
    case ERANGE:
        words = "the interface has no such queue, or its rings are too large for the area";
        break;
    case ENODEV:
        words = "there is no such interface any more";
        break;
    case ENOMEM:
        result->state = NET_PROBE_STATE_LIMITED;
        words = "no memory to pin: raise ulimit -l";
        break;
    case ENOSYS:
        words = "this kernel has no io_uring, or a seccomp profile hides it";
        break;
    default:
        result->state = NET_PROBE_STATE_BROKEN;
        words = strerror(-failure);
        break;
    }
    snprintf(result->why, sizeof result->why, "%s", words);
}
