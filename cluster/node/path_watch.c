#include "cluster/node/path_watch.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

enum { PATH_BUFFER_BYTES = 64 << 10 };

struct cluster_path_watch {
    int fd;
    uint32_t sequence; /* of the dump asked for last: the rest of one that was given up is not taken for it */
    uint64_t suspect;  /* cookie of a connection that looked broken the last time; 0: none */
    uint64_t suspected_ns;
    _Alignas(struct nlmsghdr) uint8_t buffer[PATH_BUFFER_BYTES];
};

struct path_search {
    const struct net_address *own, *others;
    uint32_t own_count, others_count;
    struct cluster_path_sum *sum; /* NULL: broken paths are looked for */
    uint64_t suspect;             /* known from before: preferred to others */
    uint64_t found;               /* cookie of a connection that looks broken; 0: none */
    struct net_address peer;      /* of found */
};

enum base_status cluster_path_watch_open(struct cluster_path_watch **watch, struct base_error *error)
{
    struct cluster_path_watch *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory to watch connections");
    made->fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (made->fd < 0) {
        const int failed = errno;
        free(made);
        return base_error_set_errno(error, failed, "the kernel does not tell about connections (sock_diag)");
    }
    /* A dump is answered at once; should it ever not be, the control thread must not hang. */
    const struct timeval patience = {.tv_usec = 100000};
    setsockopt(made->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    *watch = made;
    return BASE_OK;
}

void cluster_path_watch_close(struct cluster_path_watch *watch)
{
    close(watch->fd);
    free(watch);
}

static struct net_address diag_address(uint8_t family, const __be32 raw[4], __be16 port)
{
    struct net_address address;
    memset(&address, 0, sizeof address);
    if (family == AF_INET6) {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = port;
        memcpy(&address.v6.sin6_addr, raw, 16);
        address.bytes = sizeof address.v6;
    } else {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = port;
        memcpy(&address.v4.sin_addr, raw, 4);
        address.bytes = sizeof address.v4;
    }
    return address;
}

static bool same_address(const struct net_address *a, const struct net_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET6)
        return a->v6.sin6_port == b->v6.sin6_port && memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, 16) == 0;
    return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

static bool path_watch_among(const struct net_address *address, const struct net_address *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (same_address(address, &list[i]))
            return true;
    return false;
}

/* Data or window probes that were repeated without an answer, and nothing else acknowledged meanwhile. A receiver that
 * keeps its window closed answers every probe: the kernel then counts none, however long ago the last answer was. */
static bool seems_broken(const struct tcp_info *info)
{
    const bool data = info->tcpi_unacked > 0 && info->tcpi_retransmits >= CLUSTER_PATH_REPEATS_MIN;
    const bool probes = info->tcpi_probes >= CLUSTER_PATH_REPEATS_MIN;
    return (data || probes) && info->tcpi_last_ack_recv >= CLUSTER_PATH_SILENCE_MS;
}

static uint32_t path_watch_smaller(uint32_t known, uint32_t value)
{
    return known == 0 || (value != 0 && value < known) ? value : known;
}

static void add_to(struct cluster_path_sum *sum, const struct tcp_info *info)
{
    sum->retransmits += info->tcpi_total_retrans;
    sum->mtu = path_watch_smaller(sum->mtu, info->tcpi_pmtu);
    sum->segment_bytes = path_watch_smaller(sum->segment_bytes, info->tcpi_snd_mss);
}

static void watch_look_at(struct path_search *search, const struct nlmsghdr *header)
{
    const struct inet_diag_msg *message = NLMSG_DATA(header);
    if (header->nlmsg_len < NLMSG_LENGTH(sizeof *message))
        return;
    struct tcp_info info;
    memset(&info, 0, sizeof info);
    const uint8_t *at = (const uint8_t *)(message + 1), *end = (const uint8_t *)header + header->nlmsg_len;
    while ((size_t)(end - at) >= sizeof(struct nlattr)) {
        struct nlattr attribute;
        memcpy(&attribute, at, sizeof attribute);
        if (attribute.nla_len < sizeof attribute || attribute.nla_len > (size_t)(end - at))
            return;
        if (attribute.nla_type == INET_DIAG_INFO)
            memcpy(&info, at + sizeof attribute,
                   attribute.nla_len - sizeof attribute < sizeof info ? attribute.nla_len - sizeof attribute
                                                                      : sizeof info);
        const size_t step = base_align_up(attribute.nla_len, NLA_ALIGNTO);
        at += step < (size_t)(end - at) ? step : (size_t)(end - at);
    }
    if (!search->sum && !seems_broken(&info))
        return;
    const struct net_address from = diag_address(message->idiag_family, message->id.idiag_src, message->id.idiag_sport);
    const struct net_address to = diag_address(message->idiag_family, message->id.idiag_dst, message->id.idiag_dport);
    if (!path_watch_among(&from, search->own, search->own_count) &&
        !path_watch_among(&to, search->own, search->own_count) &&
        !path_watch_among(&to, search->others, search->others_count))
        return;
    if (search->sum) {
        add_to(search->sum, &info);
        return;
    }
    const uint64_t cookie = (uint64_t)message->id.idiag_cookie[1] << 32 | message->id.idiag_cookie[0];
    if (search->found == 0 || cookie == search->suspect) {
        search->found = cookie;
        search->peer = to;
    }
}

/* Reads one dump to its end. */
static enum base_status read_dump(struct cluster_path_watch *watch, struct path_search *search,
                                  struct base_error *error)
{
    for (;;) {
        const ssize_t got = recv(watch->fd, watch->buffer, sizeof watch->buffer, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return base_error_set_errno(error, got < 0 ? errno : EIO, "asking the kernel about connections");
        uint32_t left = (uint32_t)got;
        for (const struct nlmsghdr *header = (const struct nlmsghdr *)watch->buffer; NLMSG_OK(header, left);
             header = NLMSG_NEXT(header, left)) {
            if (header->nlmsg_seq != watch->sequence)
                continue;
            if (header->nlmsg_type == NLMSG_DONE)
                return BASE_OK;
            if (header->nlmsg_type == NLMSG_ERROR) {
                const struct nlmsgerr *failed = NLMSG_DATA(header);
                return base_error_set_errno(error, -failed->error, "the kernel does not tell about connections");
            }
            if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY)
                watch_look_at(search, header);
        }
    }
}

static enum base_status path_watch_dump(struct cluster_path_watch *watch, uint8_t family, struct path_search *search,
                                        struct base_error *error)
{
    const struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } ask = {.header = {.nlmsg_len = sizeof ask,
                        .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                        .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                        .nlmsg_seq = ++watch->sequence},
             .request = {.sdiag_family = family,
                         .sdiag_protocol = IPPROTO_TCP,
                         .idiag_ext = 1u << (INET_DIAG_INFO - 1),
                         /* Those that are closing are an earlier job's: this one's stay open until it is released. */
                         .idiag_states = 1u << TCP_ESTABLISHED}};
    if (send(watch->fd, &ask, sizeof ask, 0) != (ssize_t)sizeof ask)
        return base_error_set_errno(error, errno, "asking the kernel about connections");
    return read_dump(watch, search, error);
}

enum base_status cluster_path_watch_look(struct cluster_path_watch *watch, const struct net_address *own,
                                         uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                         bool *broken, struct net_address *peer, struct base_error *error)
{
    struct path_search search = {
        .own = own, .own_count = own_count, .others = others, .others_count = others_count, .suspect = watch->suspect};
    const uint8_t family = own_count > 0 ? (uint8_t)own[0].any.sa_family : AF_INET;
    const enum base_status status = path_watch_dump(watch, family, &search, error);
    if (status != BASE_OK)
        return status;
    const uint64_t now_ns = base_clock_now_ns();
    if (search.found != watch->suspect)
        watch->suspected_ns = now_ns;
    watch->suspect = search.found;
    *broken = search.found != 0 && now_ns - watch->suspected_ns >= CLUSTER_PATH_CONFIRM_NS;
    if (*broken)
        *peer = search.peer;
    return BASE_OK;
}

enum base_status cluster_path_watch_sum(struct cluster_path_watch *watch, const struct net_address *own,
                                        uint32_t own_count, const struct net_address *others, uint32_t others_count,
                                        struct cluster_path_sum *sum, struct base_error *error)
{
    struct cluster_path_sum found = {0};
    struct path_search search = {
        .own = own, .own_count = own_count, .others = others, .others_count = others_count, .sum = &found};
    const uint8_t family = own_count > 0 ? (uint8_t)own[0].any.sa_family : AF_INET;
    const enum base_status status = path_watch_dump(watch, family, &search, error);
    if (status == BASE_OK)
        *sum = found;
    return status;
}
