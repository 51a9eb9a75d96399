#include "net/engine/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ADDRESS_HOST_BYTES_MAX = 256, ADDRESS_TEXT_BYTES = 64 };

/* Cuts "host:port" or "[host]:port"; the port may not be missing, because a guessed port hides a typing error. */
static enum base_status address_split(const char *text, char *host, const char **port, struct base_error *error)
{
    const char *host_begin = text, *host_end;
    const char *colon = strrchr(text, ':');

    if (!colon || colon[1] == '\0')
        return base_error_set(error, BASE_INVALID, "address \"%s\" has no port: write it as HOST:PORT", text);
    host_end = colon;
    if (text[0] == '[') {
        host_begin = text + 1;
        host_end = colon - 1;
        if (host_end < host_begin || *host_end != ']')
            return base_error_set(error, BASE_INVALID, "address \"%s\": write IPv6 addresses as [ADDRESS]:PORT", text);
    } else if (memchr(text, ':', (size_t)(colon - text))) {
        return base_error_set(error, BASE_INVALID, "address \"%s\" has several colons: write IPv6 as [ADDRESS]:PORT",
                              text);
    }
    size_t host_bytes = (size_t)(host_end - host_begin);
    if (host_bytes == 0 || host_bytes >= ADDRESS_HOST_BYTES_MAX)
        return base_error_set(error, BASE_INVALID, "address \"%.300s\" has no host, or one that is too long", text);
    memcpy(host, host_begin, host_bytes);
    host[host_bytes] = '\0';
    if (strpbrk(host, "[] ") != NULL)
        return base_error_set(error, BASE_INVALID, "address \"%.300s\": \"%s\" is no host", text, host);
    *port = colon + 1;
    return BASE_OK;
}

static bool address_port_valid(const char *port)
{
    char *end;
    if (port[0] < '0' || port[0] > '9')
        return false;
    unsigned long value = strtoul(port, &end, 10);
    return *end == '\0' && value <= UINT16_MAX;
}

enum base_status net_address_parse(const char *text, struct net_address *address, struct base_error *error)
{
    char host[ADDRESS_HOST_BYTES_MAX];
    const char *port = "";
    struct addrinfo *found = NULL;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

    enum base_status status = address_split(text, host, &port, error);
    if (status != BASE_OK)
        return status;
    if (!address_port_valid(port))
        return base_error_set(error, BASE_INVALID, "address \"%.300s\": the port is a number from 0 to 65535", text);
    int failure = getaddrinfo(host, port, &wanted, &found);
    if (failure != 0)
        return base_error_set(error, BASE_NOT_FOUND, "host \"%s\" does not resolve: %s", host, gai_strerror(failure));

    memset(address, 0, sizeof *address);
    status = BASE_NOT_FOUND;
    for (struct addrinfo *each = found; each != NULL && status != BASE_OK; each = each->ai_next) {
        if (each->ai_family != AF_INET && each->ai_family != AF_INET6)
            continue;
        memcpy(&address->any, each->ai_addr, each->ai_addrlen);
        address->bytes = each->ai_addrlen;
        status = BASE_OK;
    }
    freeaddrinfo(found);
    if (status != BASE_OK)
        return base_error_set(error, status, "host \"%s\" has neither an IPv4 nor an IPv6 address", host);
    return BASE_OK;
}

void net_address_format(const struct net_address *address, char *text)
{
    char host[INET6_ADDRSTRLEN];

    if (address->any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address->v6.sin6_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_BYTES, "[%s]:%u", host, ntohs(address->v6.sin6_port));
    } else {
        inet_ntop(AF_INET, &address->v4.sin_addr, host, sizeof host);
        snprintf(text, ADDRESS_TEXT_BYTES, "%s:%u", host, ntohs(address->v4.sin_port));
    }
}

static enum base_status address_listen_failed(const struct net_address *address, int fd, const char *call,
                                              struct base_error *error)
{
    char text[ADDRESS_TEXT_BYTES];
    int os_error = errno;
    net_address_format(address, text);
    if (fd >= 0)
        close(fd);
    if (os_error == EADDRINUSE)
        return base_error_set_errno(error, os_error,
                                    "cannot listen on %s: another program has the port; choose another", text);
    if (os_error == EADDRNOTAVAIL)
        return base_error_set_errno(error, os_error, "cannot listen on %s: no interface of this host has that address",
                                    text);
    return base_error_set_errno(error, os_error, "cannot listen on %s: %s", text, call);
}

enum base_status net_listen(const struct net_address *address, int backlog, int *fd, struct net_address *bound,
                            struct base_error *error)
{
    int one = 1;
    struct net_address given = {.bytes = sizeof given.v6};

    int made = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return address_listen_failed(address, made, "socket", error);
    if (setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0)
        return address_listen_failed(address, made, "SO_REUSEADDR", error);
    if (bind(made, &address->any, address->bytes) != 0)
        return address_listen_failed(address, made, "bind", error);
    if (listen(made, backlog) != 0)
        return address_listen_failed(address, made, "listen", error);
    if (getsockname(made, &given.any, &given.bytes) != 0)
        return address_listen_failed(address, made, "getsockname", error);
    *fd = made;
    *bound = given;
    return BASE_OK;
}

enum base_status net_listen_within(const struct net_address *address, const struct net_port_block *ports, int backlog,
                                   int *fd, struct net_address *bound, struct base_error *error)
{
    struct net_address at = *address;
    enum base_status status = BASE_EXISTS;

    if (ports->count == 0)
        return net_listen(address, backlog, fd, bound, error);
    for (uint32_t i = 0; i < ports->count && status == BASE_EXISTS; i++) {
        *(at.any.sa_family == AF_INET6 ? &at.v6.sin6_port : &at.v4.sin_port) = htons((uint16_t)(ports->first + i));
        status = net_listen(&at, backlog, fd, bound, error);
    }
    if (status == BASE_EXISTS)
        return base_error_set(error, status,
                              "none of the ports %u to %u of this worker's block is free: other programs have them; "
                              "give the node other ports (--ports)",
                              ports->first, ports->first + ports->count - 1);
    return status;
}
