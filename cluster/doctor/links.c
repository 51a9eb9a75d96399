/* Network interfaces: one list from the kernel by netlink, which knows this network namespace where a /sys of another
 * one may still be mounted. */
#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cluster/doctor/internal.h"

enum { LINKS_ANSWER_BYTES = 64 << 10 };

static int read_kind(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    if (mnl_attr_get_type(attribute) == IFLA_INFO_KIND && mnl_attr_validate(attribute, MNL_TYPE_STRING) >= 0)
        snprintf(card->kind, sizeof card->kind, "%.31s", mnl_attr_get_str(attribute));
    return MNL_CB_OK;
}

static int read_xdp(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    if (mnl_attr_get_type(attribute) == IFLA_XDP_ATTACHED && mnl_attr_validate(attribute, MNL_TYPE_U8) >= 0)
        card->xdp = mnl_attr_get_u8(attribute) != XDP_ATTACHED_NONE;
    return MNL_CB_OK;
}

static int read_attribute(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    switch (mnl_attr_get_type(attribute)) {
    case IFLA_IFNAME:
        if (mnl_attr_validate(attribute, MNL_TYPE_STRING) >= 0)
            snprintf(card->name, sizeof card->name, "%.15s", mnl_attr_get_str(attribute));
        break;
    case IFLA_MTU:
        if (mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0)
            card->mtu = mnl_attr_get_u32(attribute);
        break;
    case IFLA_QDISC:
        if (mnl_attr_validate(attribute, MNL_TYPE_STRING) >= 0)
            snprintf(card->qdisc, sizeof card->qdisc, "%.31s", mnl_attr_get_str(attribute));
        break;
    case IFLA_NUM_RX_QUEUES:
        if (mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0)
            card->queues = mnl_attr_get_u32(attribute);
        break;
    case IFLA_LINKINFO:
        mnl_attr_parse_nested(attribute, read_kind, card);
        break;
    case IFLA_XDP:
        mnl_attr_parse_nested(attribute, read_xdp, card);
        break;
    default:
        break;
    }
    return MNL_CB_OK;
}

static int read_link(const struct nlmsghdr *message, void *data)
{
    struct doctor_facts *facts = data;
    const struct ifinfomsg *link = mnl_nlmsg_get_payload(message);
    if (message->nlmsg_type != RTM_NEWLINK)
        return MNL_CB_OK;
    if (facts->card_count == DOCTOR_CARDS_MAX) {
        facts->cards_left_out++;
        return MNL_CB_OK;
    }
    struct doctor_card *card = &facts->card[facts->card_count++];
    *card = (struct doctor_card){.index = (uint32_t)link->ifi_index, .numa_node = -1};
    card->up = (link->ifi_flags & IFF_UP) && (link->ifi_flags & IFF_RUNNING);
    card->loopback = link->ifi_flags & IFF_LOOPBACK;
    mnl_attr_parse(message, sizeof *link, read_attribute, card);
    return MNL_CB_OK;
}

static void list_links(struct mnl_socket *netlink, struct doctor_facts *facts)
{
    char *buffer = malloc(LINKS_ANSWER_BYTES);
    if (!buffer)
        return;
    struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);
    request->nlmsg_type = RTM_GETLINK;
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request->nlmsg_seq = 1;
    struct ifinfomsg *any = mnl_nlmsg_put_extra_header(request, sizeof *any);
    any->ifi_family = AF_UNSPEC;
    int more = mnl_socket_sendto(netlink, request, request->nlmsg_len) < 0 ? -1 : 1;
    while (more > 0) {
        const ssize_t got = mnl_socket_recvfrom(netlink, buffer, LINKS_ANSWER_BYTES);
        more = got > 0 ? mnl_cb_run(buffer, (size_t)got, 1, mnl_socket_get_portid(netlink), read_link, facts) : -1;
    }
    free(buffer);
}

/* What only /sys says; its files are of this interface only where its number is the same. */
static void read_device(struct doctor_card *card)
{
    char path[128], text[DOCTOR_WORD_BYTES];
    snprintf(path, sizeof path, "/sys/class/net/%s/ifindex", card->name);
    if (!doctor_read_line(path, text, sizeof text) || strtoul(text, NULL, 10) != card->index)
        return;
    snprintf(path, sizeof path, "/sys/class/net/%s/device", card->name);
    card->physical = access(path, F_OK) == 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/device/numa_node", card->name);
    if (doctor_read_line(path, text, sizeof text))
        card->numa_node = (int32_t)strtol(text, NULL, 10);
}

void doctor_gather_cards(struct doctor_facts *facts)
{
    const struct timeval limit = {.tv_sec = 1};
    struct mnl_socket *netlink = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    if (!netlink)
        return;
    if (mnl_socket_bind(netlink, 0, MNL_SOCKET_AUTOPID) == 0 &&
        setsockopt(mnl_socket_get_fd(netlink), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0)
        list_links(netlink, facts);
    mnl_socket_close(netlink);
    struct doctor_ethtool *ethtool = doctor_ethtool_open();
    for (uint32_t i = 0; i < facts->card_count; i++) {
        read_device(&facts->card[i]);
        if (ethtool)
            doctor_ethtool_ask(ethtool, &facts->card[i]);
    }
    doctor_ethtool_close(ethtool);
}
