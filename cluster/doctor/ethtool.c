/* What the driver of an interface says, by the kernel's ethtool interface over netlink, and two older calls for what
 * that lacks. Reading needs no privilege. Answers that do not come, or that this kernel does not know how to give,
 * leave the facts unknown. */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cluster/doctor/internal.h"

/* Newer than some headers. */
enum { RINGS_HDS_THRESH = 17, SPLIT_ENABLED = 2, CARD_SPEED_UNKNOWN = -1 };

enum { ETHTOOL_ANSWER_BYTES = 64 << 10 };

struct doctor_ethtool {
    struct mnl_socket *netlink;
    int fd; /* for the older calls */
    uint16_t family;
    uint32_t sequence;
    char buffer[ETHTOOL_ANSWER_BYTES];
};

/* ---- netlink ---- */

static struct nlmsghdr *ethtool_begin(struct doctor_ethtool *ethtool, uint16_t family, uint8_t command)
{
    struct nlmsghdr *request = mnl_nlmsg_put_header(ethtool->buffer);
    request->nlmsg_type = family;
    request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
    request->nlmsg_seq = ++ethtool->sequence;
    struct genlmsghdr *generic = mnl_nlmsg_put_extra_header(request, sizeof *generic);
    generic->cmd = command;
    generic->version = 1;
    return request;
}

/* Sends and hands every answer's attributes to `read`, until the acknowledgement. */
static void ethtool_ask(struct doctor_ethtool *ethtool, const struct nlmsghdr *request, mnl_cb_t read, void *data)
{
    int more = mnl_socket_sendto(ethtool->netlink, request, request->nlmsg_len) < 0 ? -1 : 1;
    while (more > 0) {
        const ssize_t got = mnl_socket_recvfrom(ethtool->netlink, ethtool->buffer, sizeof ethtool->buffer);
        more = got > 0 ? mnl_cb_run(ethtool->buffer, (size_t)got, ethtool->sequence,
                                    mnl_socket_get_portid(ethtool->netlink), read, data)
                       : -1;
    }
}

/* All interface requests of ethtool begin with a header in attribute 1. */
static void ask_card(struct doctor_ethtool *ethtool, uint8_t command, struct doctor_card *card, mnl_cb_t read)
{
    struct nlmsghdr *request = ethtool_begin(ethtool, ethtool->family, command);
    struct nlattr *header = mnl_attr_nest_start(request, 1);
    mnl_attr_put_u32(request, ETHTOOL_A_HEADER_DEV_INDEX, card->index);
    mnl_attr_nest_end(request, header);
    ethtool_ask(ethtool, request, read, card);
}

static int read_family_attribute(const struct nlattr *attribute, void *data)
{
    if (mnl_attr_get_type(attribute) == CTRL_ATTR_FAMILY_ID && mnl_attr_validate(attribute, MNL_TYPE_U16) >= 0)
        *(uint16_t *)data = mnl_attr_get_u16(attribute);
    return MNL_CB_OK;
}

static int read_family(const struct nlmsghdr *message, void *data)
{
    return mnl_attr_parse(message, sizeof(struct genlmsghdr), read_family_attribute, data);
}

struct doctor_ethtool *doctor_ethtool_open(void)
{
    const struct timeval limit = {.tv_sec = 1};
    struct doctor_ethtool *ethtool = calloc(1, sizeof *ethtool);
    if (!ethtool)
        return NULL;
    ethtool->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ethtool->netlink = mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC);
    if (ethtool->netlink && mnl_socket_bind(ethtool->netlink, 0, MNL_SOCKET_AUTOPID) == 0 &&
        setsockopt(mnl_socket_get_fd(ethtool->netlink), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0) {
        struct nlmsghdr *request = ethtool_begin(ethtool, GENL_ID_CTRL, CTRL_CMD_GETFAMILY);
        mnl_attr_put_strz(request, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME);
        ethtool_ask(ethtool, request, read_family, &ethtool->family);
    }
    return ethtool;
}

void doctor_ethtool_close(struct doctor_ethtool *ethtool)
{
    if (!ethtool)
        return;
    if (ethtool->netlink)
        mnl_socket_close(ethtool->netlink);
    if (ethtool->fd >= 0)
        close(ethtool->fd);
    free(ethtool);
}

/* ---- offloads ---- */

static enum doctor_switch *ethtool_offload(struct doctor_card *card, const char *name)
{
#define X(field, text)                                                                                                 \
    if (strcmp(name, text) == 0)                                                                                       \
        return &card->field;
    DOCTOR_OFFLOAD_LIST(X)
#undef X
    return NULL;
}

/* One bitset has the names that can be changed, a later one those that are on; what is in neither is off for good. A
 * bitset without a mask lists what is in it; one with a mask lists everything, and marks what is in it. */
struct offload_reader {
    struct doctor_card *card;
    enum doctor_switch value;
    bool list;        /* without a mask */
    const char *name; /* of one bit */
    bool marked;
};

static int read_bit_attribute(const struct nlattr *attribute, void *data)
{
    struct offload_reader *reader = data;
    if (mnl_attr_get_type(attribute) == ETHTOOL_A_BITSET_BIT_VALUE)
        reader->marked = true;
    else if (mnl_attr_get_type(attribute) == ETHTOOL_A_BITSET_BIT_NAME &&
             mnl_attr_validate(attribute, MNL_TYPE_NUL_STRING) >= 0)
        reader->name = mnl_attr_get_str(attribute);
    return MNL_CB_OK;
}

static int read_bit(const struct nlattr *attribute, void *data)
{
    struct offload_reader *reader = data;
    if (mnl_attr_get_type(attribute) != ETHTOOL_A_BITSET_BITS_BIT)
        return MNL_CB_OK;
    reader->name = NULL;
    reader->marked = false;
    mnl_attr_parse_nested(attribute, read_bit_attribute, reader);
    enum doctor_switch *value = reader->name ? ethtool_offload(reader->card, reader->name) : NULL;
    if (value && *value != DOCTOR_SWITCH_ON && (reader->list || reader->marked))
        *value = reader->value;
    return MNL_CB_OK;
}

static int read_bitset(const struct nlattr *attribute, void *data)
{
    struct offload_reader *reader = data;
    if (mnl_attr_get_type(attribute) == ETHTOOL_A_BITSET_NOMASK) /* comes first */
        reader->list = true;
    else if (mnl_attr_get_type(attribute) == ETHTOOL_A_BITSET_BITS)
        return mnl_attr_parse_nested(attribute, read_bit, reader);
    return MNL_CB_OK;
}

static int read_feature_set(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    struct offload_reader reader = {.card = card};
    if (mnl_attr_get_type(attribute) == ETHTOOL_A_FEATURES_ACTIVE)
        reader.value = DOCTOR_SWITCH_ON;
    else if (mnl_attr_get_type(attribute) == ETHTOOL_A_FEATURES_HW)
        reader.value = DOCTOR_SWITCH_OFF;
    else
        return MNL_CB_OK;
    return mnl_attr_parse_nested(attribute, read_bitset, &reader);
}

static int read_features(const struct nlmsghdr *message, void *data)
{
    struct doctor_card *card = data;
#define X(field, text) card->field = DOCTOR_SWITCH_FIXED_OFF;
    DOCTOR_OFFLOAD_LIST(X)
#undef X
    return mnl_attr_parse(message, sizeof(struct genlmsghdr), read_feature_set, data);
}

/* ---- rings, channels, speed ---- */

static int read_ring(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    switch (mnl_attr_get_type(attribute)) {
    case ETHTOOL_A_RINGS_TCP_DATA_SPLIT:
        if (mnl_attr_validate(attribute, MNL_TYPE_U8) < 0)
            break;
        card->data_split = mnl_attr_get_u8(attribute) == SPLIT_ENABLED ? DOCTOR_SWITCH_ON : DOCTOR_SWITCH_OFF;
        break;
    case RINGS_HDS_THRESH:
        if (mnl_attr_validate(attribute, MNL_TYPE_U32) < 0)
            break;
        card->split_threshold_known = true;
        card->split_threshold_bytes = mnl_attr_get_u32(attribute);
        break;
    default:
        break;
    }
    return MNL_CB_OK;
}

static int read_rings(const struct nlmsghdr *message, void *data)
{
    return mnl_attr_parse(message, sizeof(struct genlmsghdr), read_ring, data);
}

static int read_channel(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    const uint16_t type = mnl_attr_get_type(attribute);
    if (mnl_attr_validate(attribute, MNL_TYPE_U32) < 0)
        return MNL_CB_OK;
    const uint32_t count = mnl_attr_get_u32(attribute);
    if ((type == ETHTOOL_A_CHANNELS_COMBINED_COUNT || type == ETHTOOL_A_CHANNELS_RX_COUNT) && count > 0)
        card->queues = count;
    if ((type == ETHTOOL_A_CHANNELS_COMBINED_MAX || type == ETHTOOL_A_CHANNELS_RX_MAX) && count > 0)
        card->queues_max = count;
    return MNL_CB_OK;
}

static int read_channel_attribute(const struct nlattr *attribute, void *data)
{
    /* The header, a nest, is not of interest. */
    return mnl_attr_get_type(attribute) == ETHTOOL_A_CHANNELS_HEADER ? MNL_CB_OK : read_channel(attribute, data);
}

static int read_channels(const struct nlmsghdr *message, void *data)
{
    return mnl_attr_parse(message, sizeof(struct genlmsghdr), read_channel_attribute, data);
}

static int read_mode(const struct nlattr *attribute, void *data)
{
    struct doctor_card *card = data;
    if (mnl_attr_get_type(attribute) == ETHTOOL_A_LINKMODES_SPEED && mnl_attr_validate(attribute, MNL_TYPE_U32) >= 0) {
        const uint32_t speed = mnl_attr_get_u32(attribute);
        card->speed_mbit = speed == (uint32_t)CARD_SPEED_UNKNOWN ? 0 : speed;
    }
    return MNL_CB_OK;
}

static int read_modes(const struct nlmsghdr *message, void *data)
{
    return mnl_attr_parse(message, sizeof(struct genlmsghdr), read_mode, data);
}

/* ---- older calls ---- */

static bool ethtool_call(const struct doctor_ethtool *ethtool, const struct doctor_card *card, void *data)
{
    struct ifreq request = {.ifr_data = data};
    memcpy(request.ifr_name, card->name, sizeof card->name);
    return ioctl(ethtool->fd, SIOCETHTOOL, &request) == 0;
}

static void read_driver(const struct doctor_ethtool *ethtool, struct doctor_card *card)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    if (ethtool_call(ethtool, card, &driver))
        snprintf(card->driver, sizeof card->driver, "%.31s", driver.driver);
}

/* The table by which the card spreads connections: the highest queue in it tells which stay free. */
static void read_spread(const struct doctor_ethtool *ethtool, struct doctor_card *card)
{
    struct ethtool_rxfh_indir size = {.cmd = ETHTOOL_GRXFHINDIR};
    if (!ethtool_call(ethtool, card, &size) || size.size == 0 || size.size > 1 << 16)
        return;
    const uint32_t count = size.size;
    struct ethtool_rxfh_indir *table = calloc(1, sizeof *table + count * sizeof *table->ring_index);
    if (!table)
        return;
    table->cmd = ETHTOOL_GRXFHINDIR;
    table->size = count;
    if (ethtool_call(ethtool, card, table))
        for (uint32_t i = 0; i < count && i < table->size; i++)
            card->spread_queues = (uint32_t)base_max_u64(card->spread_queues, (uint64_t)table->ring_index[i] + 1);
    free(table);
}

void doctor_ethtool_ask(struct doctor_ethtool *ethtool, struct doctor_card *card)
{
    if (ethtool->fd >= 0) {
        read_driver(ethtool, card);
        read_spread(ethtool, card);
    }
    if (ethtool->family == 0)
        return;
    ask_card(ethtool, ETHTOOL_MSG_FEATURES_GET, card, read_features);
    ask_card(ethtool, ETHTOOL_MSG_RINGS_GET, card, read_rings);
    ask_card(ethtool, ETHTOOL_MSG_CHANNELS_GET, card, read_channels);
    ask_card(ethtool, ETHTOOL_MSG_LINKMODES_GET, card, read_modes);
}
