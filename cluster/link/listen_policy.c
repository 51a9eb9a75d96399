#include "cluster/link/listen_policy.h"

#include <arpa/inet.h>
#include <glob.h>
#include <stdbool.h>
#include <sys/stat.h>

#define LISTEN_NAMESPACES "/run/netns/millrace-*"

static bool is_loopback(const struct net_address *address)
{
    if (address->any.sa_family == AF_INET)
        return (ntohl(address->v4.sin_addr.s_addr) >> 24) == 127;
    const struct in6_addr *v6 = &address->v6.sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

/* Is this process in one of the namespaces of a local cluster? They are told by device and inode, not by what anyone
 * says. */
static bool in_own_namespace(void)
{
    struct stat mine;
    if (stat("/proc/self/ns/net", &mine) < 0)
        return false;
    glob_t found;
    bool in = false;
    if (glob(LISTEN_NAMESPACES, GLOB_NOSORT, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc && !in; i++) {
        struct stat named;
        in = stat(found.gl_pathv[i], &named) == 0 && named.st_dev == mine.st_dev && named.st_ino == mine.st_ino;
    }
    globfree(&found);
    return in;
}

enum base_status cluster_listen_allowed(const struct net_address *address, bool has_key, bool open_to_all,
                                        struct base_error *error)
{
    if (has_key)
        return BASE_OK;
    char text[64];
    net_address_format(address, text);
    if (!open_to_all)
        return base_error_set(error, BASE_DENIED,
                              "will not listen on %s without a key: whoever can connect, every user of this machine "
                              "too, could read and write files with this daemon's rights. Make a key with `millrace "
                              "key FILE', copy it to every machine of the cluster and start all with --key=FILE",
                              text);
    if (is_loopback(address) || in_own_namespace())
        return BASE_OK;
    return base_error_set(error, BASE_DENIED,
                          "will not listen on %s without a key, also with --open-to-all: that opens loopback addresses "
                          "(127.0.0.1, ::1) and the network namespaces of a local cluster (" LISTEN_NAMESPACES
                          ") only. Make a key with `millrace key FILE' and start all daemons with --key=FILE",
                          text);
}

enum base_status cluster_listen_reachable(const struct net_address *address, struct base_error *error)
{
    const bool any = address->any.sa_family == AF_INET ? address->v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                                       : IN6_IS_ADDR_UNSPECIFIED(&address->v6.sin6_addr);
    if (!any)
        return BASE_OK;
    return base_error_set(error, BASE_INVALID,
                          "a node listens at the address at which the other nodes reach it, and the wildcard is none: "
                          "give --listen this machine's own address");
}
