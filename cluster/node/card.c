#include "cluster/node/card.h"

#include <ifaddrs.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Drivers whose rate says nothing about wires. */
static const char *const virtual_drivers[] = {"veth", "tun", "bridge", "dummy", "macvlan", "ipvlan", "openvswitch"};

enum { MASK_WORDS_MAX = 127 };

static bool card_same_host(const struct net_address *address, const struct sockaddr *other)
{
    if (!other || other->sa_family != address->any.sa_family)
        return false;
    if (other->sa_family == AF_INET)
        return memcmp(&((const struct sockaddr_in *)other)->sin_addr, &address->v4.sin_addr, 4) == 0;
    return memcmp(&((const struct sockaddr_in6 *)other)->sin6_addr, &address->v6.sin6_addr, 16) == 0;
}

static bool find_interface(const struct net_address *address, char *name)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return false;
    bool found = false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
        found = card_same_host(address, at->ifa_addr);
        if (found)
            snprintf(name, CLUSTER_INTERFACE_BYTES_MAX + 1, "%.*s", CLUSTER_INTERFACE_BYTES_MAX, at->ifa_name);
    }
    freeifaddrs(list);
    return found;
}

static bool card_ask(int fd, const char *name, void *question)
{
    struct ifreq request = {.ifr_data = question};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

static bool card_is_virtual(int fd, const char *name)
{
    struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
    if (!card_ask(fd, name, &driver))
        return false;
    driver.driver[sizeof driver.driver - 1] = '\0';
    for (size_t i = 0; i < sizeof virtual_drivers / sizeof *virtual_drivers; i++)
        if (strcmp(driver.driver, virtual_drivers[i]) == 0)
            return true;
    return false;
}

/* In Mbit/s; 0: unknown. The kernel first wants to be told how many words its bit masks have, which it then says. */
static uint32_t speed_of(int fd, const char *name)
{
    union {
        struct ethtool_link_settings settings;
        uint32_t with_masks[sizeof(struct ethtool_link_settings) / sizeof(uint32_t) + (size_t)3 * MASK_WORDS_MAX];
    } question = {.settings = {.cmd = ETHTOOL_GLINKSETTINGS}};
    if (!card_ask(fd, name, &question) || question.settings.link_mode_masks_nwords >= 0)
        return 0;
    question.settings.link_mode_masks_nwords = (int8_t)-question.settings.link_mode_masks_nwords;
    question.settings.cmd = ETHTOOL_GLINKSETTINGS;
    if (!card_ask(fd, name, &question) || question.settings.speed == (uint32_t)SPEED_UNKNOWN)
        return 0;
    return question.settings.speed;
}

void cluster_card_find(const struct net_address *address, struct cluster_card *card)
{
    *card = (struct cluster_card){0};
    if (!find_interface(address, card->interface))
        return;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    struct ifreq request = {0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", card->interface);
    if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
        card->mtu = (uint32_t)request.ifr_mtu;
    if (!card_is_virtual(fd, card->interface))
        card->bits_per_second = UINT64_C(1000000) * speed_of(fd, card->interface);
    close(fd);
}

void cluster_host_time(struct cluster_host_time *time)
{
    *time = (struct cluster_host_time){.processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)};
    FILE *file = fopen("/proc/stat", "r");
    if (!file)
        return;
    uint64_t user, nice, system, idle, waiting, hard, soft, stolen;
    if (fscanf(file, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &user, &nice, &system, &idle, &waiting, &hard, &soft, &stolen) == 8) {
        time->busy = user + nice + system + hard + soft + stolen;
        time->idle = idle + waiting;
    }
    fclose(file);
}

uint32_t cluster_host_busy_permille(const struct cluster_host_time *from, const struct cluster_host_time *to)
{
    /* The kernel's sum of waiting may go back a little. */
    const uint64_t idle = to->idle > from->idle ? to->idle - from->idle : 0;
    const uint64_t busy = to->busy > from->busy ? to->busy - from->busy : 0;
    return busy + idle ? (uint32_t)(1000 * busy / (busy + idle)) : 0;
}
