/* Questions to the kernel about one connection. The interface is that of the route to the peer, asked as the kernel
 * would ask itself when it sends; its offloads come from ethtool's interface. What is not answered stays unknown. */
#include "net/socket/facts.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/assert.h"
#include "net/engine/ops.h"

_Static_assert(NET_INTERFACE_BYTES >= IFNAMSIZ, "an interface's name fits");

enum { ROUTE_ANSWER_BYTES = 4096, ROUTE_PATIENCE_US = 100000 };

static uint32_t facts_number(int fd, int level, int option)
{
    int number = 0;
    socklen_t bytes = sizeof number;
    return getsockopt(fd, level, option, &number, &bytes) == 0 ? (uint32_t)number : 0;
}

static void facts_tcp(int fd, struct net_socket_facts *facts)
{
    struct tcp_info info = {0};
    socklen_t bytes = sizeof facts->congestion - 1;
    (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, facts->congestion, &bytes);
    facts->send_buffer_bytes = facts_number(fd, SOL_SOCKET, SO_SNDBUF);
    facts->recv_buffer_bytes = facts_number(fd, SOL_SOCKET, SO_RCVBUF);
    facts->notsent_lowat_bytes = facts_number(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT);
    facts->nodelay = facts_number(fd, IPPROTO_TCP, TCP_NODELAY) != 0;
    bytes = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0) {
        facts->mss_bytes = info.tcpi_snd_mss;
        facts->mtu_bytes = info.tcpi_pmtu;
    }
}

struct route_question {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr attribute;
    uint8_t destination[16];
};

/* Fills in the question for the path to peer. False: no address that is routed. */
static bool route_ask(const struct net_address *peer, struct route_question *question)
{
    const bool six = peer->any.sa_family == AF_INET6;
    const size_t bytes = six ? 16 : 4;
    if (!six && peer->any.sa_family != AF_INET)
        return false;
    *question = (struct route_question){
        .header = {.nlmsg_len = (uint32_t)(offsetof(struct route_question, destination) + bytes),
                   .nlmsg_type = RTM_GETROUTE,
                   .nlmsg_flags = NLM_F_REQUEST},
        .route = {.rtm_family = (unsigned char)peer->any.sa_family, .rtm_dst_len = (unsigned char)(8 * bytes)},
        .attribute = {.rta_len = (unsigned short)RTA_LENGTH(bytes), .rta_type = RTA_DST}};
    memcpy(question->destination, six ? (const void *)&peer->v6.sin6_addr : (const void *)&peer->v4.sin_addr, bytes);
    return true;
}

/* The number of the interface an answer names, or 0. */
static uint32_t route_interface(const uint8_t *answer, size_t bytes)
{
    const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)answer;
    if (bytes < NLMSG_LENGTH(sizeof(struct rtmsg)) || header->nlmsg_type != RTM_NEWROUTE || header->nlmsg_len > bytes)
        return 0;
    for (size_t at = NLMSG_SPACE(sizeof(struct rtmsg)); at + sizeof(struct rtattr) <= header->nlmsg_len;) {
        const struct rtattr *attribute = (const struct rtattr *)(const void *)(answer + at);
        uint32_t number;
        if (attribute->rta_len < sizeof *attribute || at + attribute->rta_len > header->nlmsg_len)
            break;
        if (attribute->rta_type == RTA_OIF && attribute->rta_len >= RTA_LENGTH(sizeof number)) {
            memcpy(&number, answer + at + RTA_LENGTH(0), sizeof number);
            return number;
        }
        at += RTA_ALIGN(attribute->rta_len);
    }
    return 0;
}

static void facts_interface(int fd, struct net_socket_facts *facts)
{
    _Alignas(struct nlmsghdr) uint8_t answer[ROUTE_ANSWER_BYTES];
    const struct timeval patience = {.tv_usec = ROUTE_PATIENCE_US};
    struct route_question question;
    struct net_address peer = {.bytes = sizeof peer.v6};
    if (getpeername(fd, &peer.any, &peer.bytes) != 0 || !route_ask(&peer, &question))
        return;
    const int route_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (route_fd < 0)
        return;
    (void)setsockopt(route_fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = send(route_fd, &question, question.header.nlmsg_len, 0);
    if (got > 0)
        got = recv(route_fd, answer, sizeof answer, 0);
    close(route_fd);
    const uint32_t number = got > 0 ? route_interface(answer, (size_t)got) : 0;
    if (number == 0 || !if_indextoname(number, facts->interface))
        facts->interface[0] = '\0';
}

static void facts_offloads(int fd, struct net_socket_facts *facts)
{
    static const uint32_t commands[NET_OFFLOAD_KINDS] = {ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO};
    for (int kind = 0; kind < NET_OFFLOAD_KINDS && facts->interface[0] != '\0'; kind++) {
        struct ethtool_value value = {.cmd = commands[kind]};
        struct ifreq request = {.ifr_data = (char *)&value};
        memcpy(request.ifr_name, facts->interface, IFNAMSIZ);
        if (ioctl(fd, SIOCETHTOOL, &request) == 0)
            facts->offload[kind] = value.data != 0 ? NET_OFFLOAD_ON : NET_OFFLOAD_OFF;
    }
}

void net_socket_facts_read(const struct net_socket *socket, struct net_socket_facts *facts)
{
    const int fd = socket->engine->ops->descriptor(socket);
    *facts = (struct net_socket_facts){.known = fd >= 0};
    if (fd < 0)
        return;
    facts_tcp(fd, facts);
    facts_interface(fd, facts);
    facts_offloads(fd, facts);
}

bool net_socket_facts_alike(const struct net_socket_facts *a, const struct net_socket_facts *b)
{
    return a->known == b->known && strcmp(a->congestion, b->congestion) == 0 &&
           strcmp(a->interface, b->interface) == 0 && a->notsent_lowat_bytes == b->notsent_lowat_bytes &&
           a->nodelay == b->nodelay && a->mss_bytes == b->mss_bytes && a->mtu_bytes == b->mtu_bytes &&
           memcmp(a->offload, b->offload, sizeof a->offload) == 0;
}

const char *net_offload_kind_word(enum net_offload_kind kind)
{
    static const char *const words[NET_OFFLOAD_KINDS] = {
#define X(name, word, about) word,
        NET_OFFLOAD_LIST(X)
#undef X
    };
    BASE_ASSERT((unsigned)kind < NET_OFFLOAD_KINDS);
    return words[kind];
}

const char *net_offload_word(enum net_offload offload)
{
    static const char *const words[NET_OFFLOAD_COUNT] = {"unknown", "off", "on"};
    BASE_ASSERT((unsigned)offload < NET_OFFLOAD_COUNT); /* the codec lets no other in */
    return words[offload];
}
