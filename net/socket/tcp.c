/* Socket options.
 *
 * TCP_USER_TIMEOUT is left alone on purpose. It looks like the option that detects a dead peer soon, but Linux also
 * counts the time a receiver keeps its window closed: a sender with 1200 ms gives up after 1.7 s although the peer
 * answers every window probe (tests/net/test_conformance.c holds a receiver back for longer than that). Backpressure is
 * how a busy worker slows its senders down here, for as long as its disk takes, so dead nodes are the control plane's
 * to notice.
 *
 * What is set instead, from Linux 6.15 on, is the longest time between two repetitions: five seconds, not two minutes.
 * The path of a connection whose window was closed for minutes is asked about as often, so that a break shows soon, a
 * path that was repaired is found soon, and a connection on which nothing comes back ends before a quarter of an hour.
 * Not less: with one or two seconds, seen on Linux 6.18, connections with socket buffers of 4 KiB took 100 times as
 * long (tests/run cluster, "4 KiB socket buffers"). */
#include "net/socket/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15; newer than the headers here */
#endif
enum { TCP_REPEAT_MAX_MS = 5000 };

/* 0, or a positive errno. */
static int tcp_try_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0 ? 0 : errno;
}

/* The words of a file of one line; "nothing" when it cannot be read. */
static void tcp_read_words(const char *path, char *text, int text_bytes)
{
    FILE *file = fopen(path, "re");
    if (!file || !fgets(text, text_bytes, file))
        snprintf(text, (size_t)text_bytes, "nothing");
    text[strcspn(text, "\n")] = '\0';
    if (file)
        fclose(file);
}

static enum base_status tcp_refuse_congestion(const char *name, int os_error, struct base_error *error)
{
    char available[160], allowed[160];
    tcp_read_words("/proc/sys/net/ipv4/tcp_available_congestion_control", available, sizeof available);
    tcp_read_words("/proc/sys/net/ipv4/tcp_allowed_congestion_control", allowed, sizeof allowed);
    if (os_error == EPERM)
        return base_error_set(error, BASE_INVALID,
                              "congestion control %s is not allowed here; allowed is %s: add it to "
                              "net.ipv4.tcp_allowed_congestion_control, or run as root",
                              name, allowed);
    return base_error_set(error, BASE_INVALID,
                          "congestion control %s cannot be set here (%s); the kernel has %s: choose one of them, or "
                          "load the module tcp_%s",
                          name, strerror(os_error), available, name);
}

static enum base_status tcp_choose_congestion(const struct net_socket_settings *settings, int fd, struct net_tcp *tcp,
                                              struct base_error *error)
{
    static const char *const preferred[] = {"cubic", "reno"};
    if (settings->congestion[0] != '\0') {
        const int os_error = tcp_try_congestion(fd, settings->congestion);
        return os_error == 0 ? BASE_OK : tcp_refuse_congestion(settings->congestion, os_error, error);
    }
    for (size_t i = 0; i < sizeof preferred / sizeof *preferred; i++)
        if (tcp_try_congestion(fd, preferred[i]) == 0) {
            snprintf(tcp->set.congestion, sizeof tcp->set.congestion, "%s", preferred[i]);
            break;
        }
    return BASE_OK;
}

/* Over the kernel's maximum, if we may; else up to it. */
static void tcp_set_buffer(int fd, int option, int force, uint32_t bytes)
{
    const int size = (int)bytes;
    if (bytes != 0 && setsockopt(fd, SOL_SOCKET, force, &size, sizeof size) != 0)
        (void)setsockopt(fd, SOL_SOCKET, option, &size, sizeof size);
}

static void tcp_note_buffer(struct net_engine *engine, int fd, int option, const char *what, uint32_t bytes,
                            const char *sysctl)
{
    int size = 0;
    socklen_t size_bytes = sizeof size;
    if (engine && bytes != 0 && getsockopt(fd, SOL_SOCKET, option, &size, &size_bytes) == 0 &&
        size / 2 < (int)bytes) /* the kernel doubles it, for its own overhead, and says the double */
        net_engine_note(engine, "%s of %u bytes are clamped to %d: raise %s", what, bytes, size / 2, sysctl);
}

enum base_status net_tcp_choose(const struct net_socket_settings *settings, struct net_engine *engine,
                                struct net_tcp *tcp, struct base_error *error)
{
    tcp->set = *settings;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return base_error_set_errno(error, errno, "no socket to try its settings with");
    const enum base_status status = tcp_choose_congestion(settings, fd, tcp, error);
    if (status == BASE_OK) {
        net_tcp_apply(tcp, fd);
        tcp_note_buffer(engine, fd, SO_SNDBUF, "send buffers", settings->send_buffer_bytes, "net.core.wmem_max");
        tcp_note_buffer(engine, fd, SO_RCVBUF, "receive buffers", settings->recv_buffer_bytes, "net.core.rmem_max");
    }
    close(fd);
    return status;
}

void net_tcp_apply(const struct net_tcp *tcp, int fd)
{
    const struct net_socket_settings *set = &tcp->set;
    const int nodelay = !set->nagle, repeat_ms = TCP_REPEAT_MAX_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &repeat_ms, sizeof repeat_ms);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, sizeof nodelay);
    if (set->congestion[0] != '\0')
        (void)tcp_try_congestion(fd, set->congestion);
    tcp_set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE, set->send_buffer_bytes);
    tcp_set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE, set->recv_buffer_bytes);
    if (set->notsent_lowat_bytes != 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &set->notsent_lowat_bytes,
                         sizeof set->notsent_lowat_bytes);
}

void net_tcp_describe(const struct net_tcp *tcp, char *text, size_t text_bytes)
{
    char fallback[16] = "unknown";
    socklen_t fallback_bytes = sizeof fallback;

    if (tcp->set.congestion[0] != '\0') {
        snprintf(text, text_bytes, "congestion=%s", tcp->set.congestion);
        return;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, fallback, &fallback_bytes);
        close(fd);
    }
    snprintf(text, text_bytes, "congestion=%.15s(default)", fallback);
}

bool net_tcp_listens(int fd)
{
    int listens = 0;
    socklen_t bytes = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) == 0 && listens != 0;
}

/* Binds to the next port of the block that is free. A port may carry connections to several places, but none that
 * somebody listens at. */
static enum base_status tcp_bind_within(struct net_tcp *tcp, int fd, int family, struct base_error *error)
{
    const struct net_port_block *ports = &tcp->ports;
    BASE_ASSERT(ports->count > 0 && tcp->ports_next < ports->count && ports->first + ports->count - 1 <= UINT16_MAX);
    struct net_address local = {.any.sa_family = (sa_family_t)family,
                                .bytes = family == AF_INET6 ? sizeof local.v6 : sizeof local.v4};
    const int one = 1;
    int os_error = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 ? EADDRINUSE : errno;
    for (uint16_t i = 0; i < ports->count && (os_error == EADDRINUSE || os_error == EACCES); i++) {
        const in_port_t port = htons((uint16_t)(ports->first + tcp->ports_next));
        tcp->ports_next = (uint16_t)((tcp->ports_next + 1) % ports->count);
        *(family == AF_INET6 ? &local.v6.sin6_port : &local.v4.sin_port) = port;
        if (bind(fd, &local.any, local.bytes) == 0)
            return BASE_OK;
        os_error = errno;
    }
    return base_error_set_errno(error, os_error,
                                "no local port of this worker's block, %u to %u, can be connected from: other programs "
                                "have them; give the node other ports (--ports)",
                                ports->first, ports->first + ports->count - 1);
}

enum base_status net_tcp_socket(struct net_tcp *tcp, const struct net_address *address, int *fd,
                                struct base_error *error)
{
    int made = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) {
        char text[64];
        net_address_format(address, text);
        return base_error_set_errno(error, errno, "no socket to connect to %s", text);
    }
    net_tcp_apply(tcp, made);
    const enum base_status status =
        tcp->ports.count > 0 ? tcp_bind_within(tcp, made, address->any.sa_family, error) : BASE_OK;
    if (status == BASE_OK)
        *fd = made;
    else
        close(made);
    return status;
}

/* With a port of our choice the whole 4-tuple may be that of a connection before, which only connecting shows. */
enum base_status net_tcp_connected(const struct net_tcp *tcp, int os_error)
{
    if (os_error == EADDRNOTAVAIL && tcp->ports.count > 0)
        return BASE_BUSY;
    return os_error == 0 ? BASE_OK : base_status_from_errno(os_error);
}

enum base_status net_tcp_adopt(const struct net_tcp *tcp, int fd, bool listener, struct base_error *error)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        enum base_status status = base_error_set_errno(error, errno, "descriptor %d cannot be made non-blocking", fd);
        if (!listener)
            close(fd);
        return status;
    }
    net_tcp_apply(tcp, fd);
    return BASE_OK;
}

void net_tcp_stop(int fd, bool abort_connection)
{
    /* Connecting to "no address" resets a TCP connection at once, whoever else holds the file; closing with a zero
     * linger time would wait until the last holder (a slot of the ring) is gone. */
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (abort_connection)
        (void)connect(fd, &nowhere, sizeof nowhere);
    else
        (void)shutdown(fd, SHUT_RDWR);
}

bool net_tcp_was_reset(int fd)
{
    uint8_t state = 0; /* tcpi_state comes first in struct tcp_info */
    socklen_t bytes = sizeof state;
    _Static_assert(offsetof(struct tcp_info, tcpi_state) == 0, "only the first byte is asked for");
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &state, &bytes) == 0 && state == TCP_CLOSE;
}

bool net_accept_transient(int os_error)
{
    return os_error == EAGAIN || os_error == EINTR || os_error == ECONNABORTED || os_error == EPROTO;
}

void net_accept_complain(int os_error, uint64_t now_ns)
{
    static _Atomic uint64_t quiet_until_ns;
    uint64_t until_ns = atomic_load_explicit(&quiet_until_ns, memory_order_relaxed);

    if (now_ns < until_ns || !atomic_compare_exchange_strong(&quiet_until_ns, &until_ns, now_ns + BASE_NS_PER_S))
        return;
    if (os_error == 0)
        base_log_warn("a connection was accepted and dropped: all sockets of this worker's engine are in use");
    else
        base_log_warn("cannot accept connections (%s), trying again soon; if open files are the limit, raise ulimit -n",
                      strerror(os_error));
}

void net_send_advance(struct net_send_op *op, uint32_t *first, size_t bytes)
{
    while (*first < op->count && bytes >= op->segments[*first].iov_len) {
        bytes -= op->segments[*first].iov_len;
        (*first)++;
    }
    if (bytes > 0) {
        BASE_ASSERT(*first < op->count);
        op->segments[*first].iov_base = (char *)op->segments[*first].iov_base + bytes;
        op->segments[*first].iov_len -= bytes;
    }
}

size_t net_send_left(const struct net_send_op *op, uint32_t first)
{
    size_t bytes = 0;
    BASE_ASSERT(first <= op->count);
    for (uint32_t i = first; i < op->count; i++)
        bytes += op->segments[i].iov_len;
    return bytes;
}

enum base_status net_send_status(const struct net_send_op *op)
{
    return op->own.os_error == 0 ? BASE_OK : base_status_from_errno(op->own.os_error);
}
