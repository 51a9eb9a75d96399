/* Length-prefixed messages over a non-blocking socket. The length is a little-endian uint32 that does not count itself.
 */
#include "cluster/link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

enum { LINK_HEAD_BYTES = 4, LINK_READ_BYTES = 64 << 10, LINK_USER_TIMEOUT_MS = 1200 };

struct link_out {
    struct link_out *next;
    uint8_t *bytes;
    size_t count, sent;
};

struct cluster_link {
    int fd;
    bool connecting, trusted, ended;
    char peer[64];
    uint64_t connect_deadline_ns;
    uint64_t stalled_since_ns; /* since when nothing of what waits could be sent; 0: nothing waits */
    uint64_t out_bytes;
    struct link_out *out_first, **out_last;
    uint8_t *in; /* [in_begin, in_end) is received and not yet cut into messages */
    size_t in_begin, in_end, in_room;
};

void cluster_hello_fill(enum cluster_role role, struct cluster_message *message)
{
    memset(message, 0, sizeof *message);
    message->kind = CLUSTER_MESSAGE_HELLO;
    message->hello.magic = CLUSTER_PROTOCOL_MAGIC;
    message->hello.protocol = CLUSTER_PROTOCOL_VERSION;
    message->hello.build = (char *)(uintptr_t)cluster_build_id();
    message->hello.role = role;
}

static enum base_status link_make(int fd, struct cluster_link **link, struct base_error *error)
{
    struct cluster_link *made = calloc(1, sizeof *made);
    if (!made) {
        close(fd);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a control connection");
    }
    made->fd = fd;
    made->out_last = &made->out_first;
    /* Small messages must not wait for each other; a peer behind a dead cable must not hold us for minutes. */
    const int on = 1;
    const unsigned timeout_ms = LINK_USER_TIMEOUT_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    *link = made;
    return BASE_OK;
}

static void link_name_peer(struct cluster_link *link)
{
    struct net_address address = {.bytes = sizeof address.v6};
    if (getpeername(link->fd, &address.any, &address.bytes) == 0 &&
        (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6))
        net_address_format(&address, link->peer);
    else
        strcpy(link->peer, "a local peer");
}

enum base_status cluster_link_adopt(int fd, struct cluster_link **link, struct base_error *error)
{
    const enum base_status status = link_make(fd, link, error);
    if (status == BASE_OK)
        link_name_peer(*link);
    return status;
}

enum base_status cluster_link_connect(const struct net_address *address, uint64_t deadline_ns,
                                      struct cluster_link **link, struct base_error *error)
{
    char text[64];
    net_address_format(address, text);
    const int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return base_error_set_errno(error, errno, "socket for %s", text);
    struct cluster_link *made;
    enum base_status status = link_make(fd, &made, error);
    if (status != BASE_OK)
        return status;
    strcpy(made->peer, text);
    made->connecting = true;
    made->connect_deadline_ns = deadline_ns;
    if (connect(fd, &address->any, address->bytes) == 0) {
        made->connecting = false;
    } else if (errno != EINPROGRESS) {
        status = base_error_set_errno(error, errno, "cannot connect to %s", text);
        cluster_link_close(made);
        return status;
    }
    *link = made;
    return BASE_OK;
}

void cluster_link_trust(struct cluster_link *link)
{
    link->trusted = true;
}

void cluster_link_close(struct cluster_link *link)
{
    while (link->out_first) {
        struct link_out *out = link->out_first;
        link->out_first = out->next;
        free(out->bytes);
        free(out);
    }
    free(link->in);
    close(link->fd);
    free(link);
}

int cluster_link_fd(const struct cluster_link *link)
{
    return link->fd;
}

uint32_t cluster_link_interest(const struct cluster_link *link)
{
    if (link->connecting)
        return EPOLLOUT;
    return (link->ended ? 0 : (uint32_t)EPOLLIN) | (link->out_first ? (uint32_t)EPOLLOUT : 0);
}

bool cluster_link_connected(const struct cluster_link *link)
{
    return !link->connecting;
}

const char *cluster_link_peer(const struct cluster_link *link)
{
    return link->peer;
}

bool cluster_link_flushed(const struct cluster_link *link)
{
    return !link->out_first;
}

uint64_t cluster_link_deadline_ns(const struct cluster_link *link)
{
    if (link->connecting)
        return link->connect_deadline_ns;
    return link->stalled_since_ns ? link->stalled_since_ns + CLUSTER_LINK_STALL_NS : UINT64_MAX;
}

static enum base_status finish_connecting(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLOUT};
    if (poll(&poll_fd, 1, 0) == 0) {
        if (now_ns < link->connect_deadline_ns)
            return BASE_OK;
        return base_error_set(error, BASE_TIMEOUT, "cannot connect to %s: no answer in time", link->peer);
    }
    int os_error = 0;
    socklen_t size = sizeof os_error;
    if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &os_error, &size) < 0)
        os_error = errno;
    if (os_error)
        return base_error_set_errno(error, os_error, "cannot connect to %s", link->peer);
    link->connecting = false;
    return BASE_OK;
}

/* Sends until the socket is full. */
static enum base_status link_flush(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    while (link->out_first) {
        struct link_out *out = link->out_first;
        const ssize_t sent =
            send(link->fd, out->bytes + out->sent, out->count - out->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                return base_error_set_errno(error, errno, "sending to %s", link->peer);
            if (!link->stalled_since_ns)
                link->stalled_since_ns = now_ns;
            if (now_ns < link->stalled_since_ns + CLUSTER_LINK_STALL_NS)
                return BASE_OK;
            return base_error_set(error, BASE_TIMEOUT, "%s takes no bytes", link->peer);
        }
        link->stalled_since_ns = 0;
        out->sent += (size_t)sent;
        link->out_bytes -= (uint64_t)sent;
        if (out->sent < out->count)
            continue;
        link->out_first = out->next;
        if (!link->out_first)
            link->out_last = &link->out_first;
        free(out->bytes);
        free(out);
    }
    link->stalled_since_ns = 0;
    return BASE_OK;
}

/* Room for one more read, in front of which lies what is not yet a whole message. */
static enum base_status link_make_room(struct cluster_link *link, struct base_error *error)
{
    if (link->in_begin == link->in_end)
        link->in_begin = link->in_end = 0;
    if (link->in_room - link->in_end >= LINK_READ_BYTES)
        return BASE_OK;
    if (link->in_begin > 0) {
        memmove(link->in, link->in + link->in_begin, link->in_end - link->in_begin);
        link->in_end -= link->in_begin;
        link->in_begin = 0;
    }
    if (link->in_room - link->in_end >= LINK_READ_BYTES)
        return BASE_OK;
    const size_t room = base_max_u64(2 * link->in_room, link->in_end + LINK_READ_BYTES);
    uint8_t *in = realloc(link->in, room);
    if (!in)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a message from %s", link->peer);
    link->in = in;
    link->in_room = room;
    return BASE_OK;
}

static size_t link_bytes_max(const struct cluster_link *link)
{
    return link->trusted ? CLUSTER_MESSAGE_BYTES_MAX : CLUSTER_HELLO_BYTES_MAX;
}

/* Is there as much as the largest message? Then reading waits until messages are taken. */
static bool link_full(const struct cluster_link *link)
{
    return link->in_end - link->in_begin >= LINK_HEAD_BYTES + link_bytes_max(link);
}

static enum base_status link_fill(struct cluster_link *link, struct base_error *error)
{
    while (!link->ended && !link_full(link)) {
        const enum base_status status = link_make_room(link, error);
        if (status != BASE_OK)
            return status;
        const size_t room = link->in_room - link->in_end;
        const ssize_t got = recv(link->fd, link->in + link->in_end, room, MSG_DONTWAIT);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN)
                return BASE_OK;
            link->ended = true;
            return base_error_set_errno(error, errno, "receiving from %s", link->peer);
        }
        if (got == 0) {
            link->ended = true;
            return base_error_set(error, BASE_PEER_CLOSED, "%s closed the control connection", link->peer);
        }
        link->in_end += (size_t)got;
        if ((size_t)got < room)
            return BASE_OK;
    }
    return BASE_OK;
}

enum base_status cluster_link_ready(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    if (link->connecting) {
        const enum base_status status = finish_connecting(link, now_ns, error);
        if (status != BASE_OK || link->connecting)
            return status;
    }
    /* Receive first: a peer that refuses us says why before it closes, and sending would already fail then. */
    const enum base_status status = link_fill(link, error);
    if (status != BASE_OK)
        return status;
    return link_flush(link, now_ns, error);
}

enum base_status cluster_link_receive(struct cluster_link *link, struct cluster_message *message,
                                      struct base_error *error)
{
    const size_t have = link->in_end - link->in_begin;
    if (have < LINK_HEAD_BYTES)
        return BASE_BUSY;
    const size_t bytes = base_load_u32(link->in + link->in_begin);
    if (bytes > link_bytes_max(link))
        return base_error_set(error, BASE_PROTOCOL,
                              "%s announced a control message of %zu bytes, at most %zu are allowed: is that a "
                              "millraced or millrace of this version?",
                              link->peer, bytes, link_bytes_max(link));
    if (have - LINK_HEAD_BYTES < bytes)
        return BASE_BUSY;
    const uint8_t *at = link->in + link->in_begin + LINK_HEAD_BYTES;
    link->in_begin += LINK_HEAD_BYTES + bytes;
    return cluster_codec_decode(at, bytes, message, error);
}

enum base_status cluster_link_send(struct cluster_link *link, const struct cluster_message *message, uint64_t now_ns,
                                   struct base_error *error)
{
    struct link_out *out = calloc(1, sizeof *out);
    if (!out)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a message to %s", link->peer);
    enum base_status status = cluster_codec_encode(message, LINK_HEAD_BYTES, &out->bytes, &out->count, error);
    if (status != BASE_OK) {
        free(out);
        return status;
    }
    base_store_u32(out->bytes, (uint32_t)(out->count - LINK_HEAD_BYTES));
    if (link->out_bytes > 0 && link->out_bytes + out->count > CLUSTER_LINK_QUEUE_BYTES_MAX) {
        free(out->bytes);
        free(out);
        return base_error_set(error, BASE_TOO_LARGE, "%s does not read its control messages", link->peer);
    }
    link->out_bytes += out->count;
    *link->out_last = out;
    link->out_last = &out->next;
    if (link->connecting)
        return BASE_OK;
    /* An error of the socket shows again when the loop looks at it. */
    struct base_error ignored;
    (void)link_flush(link, now_ns, &ignored);
    return BASE_OK;
}

enum base_status cluster_link_wait(struct cluster_link *link, uint64_t deadline_ns, struct cluster_message *message,
                                   struct base_error *error)
{
    for (;;) {
        enum base_status status = cluster_link_receive(link, message, error);
        if (status != BASE_BUSY)
            return status;
        const uint64_t now_ns = base_clock_now_ns();
        if (now_ns >= deadline_ns)
            return base_error_set(error, BASE_TIMEOUT, "no answer from %s in time", link->peer);
        const uint64_t until_ns = base_min_u64(deadline_ns, cluster_link_deadline_ns(link));
        const uint64_t wait_ms = until_ns > now_ns ? (until_ns - now_ns) / BASE_NS_PER_MS + 1 : 0;
        const uint32_t interest = cluster_link_interest(link);
        struct pollfd poll_fd = {
            .fd = link->fd, .events = (short)((interest & EPOLLIN ? POLLIN : 0) | (interest & EPOLLOUT ? POLLOUT : 0))};
        if (poll(&poll_fd, 1, (int)base_min_u64(wait_ms, UINT64_C(1000) * 1000)) < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "waiting for %s", link->peer);
        status = cluster_link_ready(link, base_clock_now_ns(), error);
        if (status == BASE_OK)
            continue;
        /* What came before the end still counts. */
        struct base_error ignored;
        return cluster_link_receive(link, message, &ignored) == BASE_OK ? BASE_OK : status;
    }
}
