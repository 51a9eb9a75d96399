/* Length-prefixed messages over a non-blocking socket. The length is a little-endian uint32 that does not count itself.
 *
 * With a key the proof (net/proof/proof.h) comes first, both ways: its bytes pass all messages that wait, and what is
 * received goes to it until it is done. When it fails, the link is over; only a caller that showed no key, and so can
 * read plain messages, may still be told why. */
#include "cluster/link/link.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/build.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/link/frame.h"
#include "net/proof/proof.h"

enum { LINK_HEAD_BYTES = CLUSTER_FRAME_HEAD_BYTES, LINK_READ_BYTES = 64 << 10, LINK_USER_TIMEOUT_MS = 1200 };
/* After so much silence the kernel asks whether the other machine is still there. */
enum { LINK_KEEPALIVE_SECONDS = 10 };

struct link_out {
    struct link_out *next;
    uint8_t *bytes;
    size_t count, sent;
};

struct cluster_link {
    int fd;
    bool connecting, trusted, ended;
    bool met_key; /* the caller proves a key, and we have none */
    char peer[64];
    uint64_t connect_deadline_ns;
    struct net_proof *proof;   /* NULL: no key, or all about it is said */
    uint64_t stalled_since_ns; /* since when nothing of what waits could be sent; 0: nothing waits */
    uint64_t part_since_ns;    /* since when a message is there in part; 0: none is */
    uint64_t out_bytes;
    struct link_out *out_first, **out_last;
    uint8_t *in; /* [in_begin, in_end) is received and not yet parsed into messages */
    size_t in_begin, in_end, in_room;
};

void cluster_hello_fill(enum cluster_role role, struct cluster_message *message)
{
    memset(message, 0, sizeof *message);
    message->kind = CLUSTER_MESSAGE_HELLO;
    message->hello.magic = CLUSTER_PROTOCOL_MAGIC;
    message->hello.protocol = base_build_protocol();
    message->hello.build = (char *)(uintptr_t)base_build_id();
    message->hello.role = role;
}

static enum base_status link_make(int fd, const struct net_key *key, enum net_proof_role role,
                                  struct cluster_link **link, struct base_error *error)
{
    struct cluster_link *made = calloc(1, sizeof *made);
    struct net_proof *proof = key ? malloc(sizeof *proof) : NULL;
    if (!made || (key && !proof)) {
        free(made);
        free(proof);
        close(fd);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a control connection");
    }
    if (key) {
        uint8_t nonce[NET_KEY_NONCE_BYTES];
        net_key_nonce(nonce);
        net_proof_open(proof, key, role, NET_PROOF_CONTROL, nonce);
        made->proof = proof;
    }
    made->fd = fd;
    made->out_last = &made->out_first;
    /* Small messages must not wait for each other. */
    const int on = 1, idle = LINK_KEEPALIVE_SECONDS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &on, sizeof on);
    *link = made;
    return BASE_OK;
}

/* A peer at the end of a dead cable must not hold us for minutes. Only for a connection that stands: while one is made
 * the kernel bounds its attempts by this, too, and a peer whose queue was full at the first would never be asked again.
 */
static void link_bound_silence(struct cluster_link *link)
{
    const unsigned timeout_ms = LINK_USER_TIMEOUT_MS;
    setsockopt(link->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
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

enum base_status cluster_link_adopt(int fd, const struct net_key *key, struct cluster_link **link,
                                    struct base_error *error)
{
    const enum base_status status = link_make(fd, key, NET_PROOF_CALLEE, link, error);
    if (status == BASE_OK) {
        link_name_peer(*link);
        link_bound_silence(*link);
    }
    return status;
}

enum base_status cluster_link_connect(const struct net_address *address, const struct net_key *key,
                                      uint64_t deadline_ns, struct cluster_link **link, struct base_error *error)
{
    char text[64];
    net_address_format(address, text);
    const int fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return base_error_set_errno(error, errno, "socket for %s", text);
    struct cluster_link *made;
    enum base_status status = link_make(fd, key, NET_PROOF_CALLER, &made, error);
    if (status != BASE_OK)
        return status;
    strcpy(made->peer, text);
    made->connecting = true;
    made->connect_deadline_ns = deadline_ns;
    if (connect(fd, &address->any, address->bytes) == 0) {
        made->connecting = false;
        link_bound_silence(made);
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
    free(link->proof);
    free(link->in);
    close(link->fd);
    free(link);
}

/* ---- the proof. ---- */

static bool proof_pending(const struct cluster_link *link)
{
    return link->proof && link->proof->state != NET_PROOF_PROVED && link->proof->state != NET_PROOF_FAILED;
}

static bool proof_failed(const struct cluster_link *link)
{
    return link->proof && link->proof->state == NET_PROOF_FAILED;
}

static bool proof_unsent(const struct cluster_link *link)
{
    return link->proof && link->proof->out_sent < link->proof->out_bytes;
}

/* May messages travel? They may also to tell a caller without a key that it needs one. */
static bool link_speaks(const struct cluster_link *link)
{
    if (proof_failed(link))
        return link->proof->role == NET_PROOF_CALLEE && link->proof->why == NET_PROOF_WHY_NO_KEY;
    return !proof_pending(link);
}

bool cluster_link_proved(const struct cluster_link *link)
{
    return !link->proof || link->proof->state == NET_PROOF_PROVED;
}

/* Gives received bytes to the proof, while it lasts. */
static void link_prove(struct cluster_link *link)
{
    if (proof_pending(link) && link->in_end > link->in_begin)
        link->in_begin += net_proof_take(link->proof, link->in + link->in_begin, link->in_end - link->in_begin);
}

static enum base_status link_denied(const struct cluster_link *link, struct base_error *error)
{
    if (link->met_key)
        return base_error_set(error, BASE_DENIED,
                              "%s proves a key, but this side has none: start this side with --key=FILE too, or that "
                              "one without",
                              link->peer);
    return base_error_set(error, BASE_DENIED, "%s %s", link->peer, net_proof_words(link->proof->why));
}

int cluster_link_fd(const struct cluster_link *link)
{
    return link->fd;
}

uint32_t cluster_link_interest(const struct cluster_link *link)
{
    if (link->connecting)
        return EPOLLOUT;
    return (link->ended ? 0 : (uint32_t)EPOLLIN) | (cluster_link_flushed(link) ? 0 : (uint32_t)EPOLLOUT);
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
    return !proof_unsent(link) && (!link->out_first || !link_speaks(link));
}

/* Of an accepted connection there is none. */
static bool link_has_connect_deadline(const struct cluster_link *link)
{
    return link->connecting || (proof_pending(link) && link->proof->role == NET_PROOF_CALLER);
}

uint64_t cluster_link_deadline_ns(const struct cluster_link *link)
{
    const uint64_t stall_ns = link->stalled_since_ns ? link->stalled_since_ns + CLUSTER_LINK_STALL_NS : UINT64_MAX;
    const uint64_t part_ns = link->part_since_ns ? link->part_since_ns + CLUSTER_LINK_PART_NS : UINT64_MAX;
    const uint64_t deadline_ns = base_min_u64(stall_ns, part_ns);
    return link_has_connect_deadline(link) ? base_min_u64(link->connect_deadline_ns, deadline_ns) : deadline_ns;
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
    link_bound_silence(link);
    return BASE_OK;
}

/* Sends some bytes. BASE_BUSY: the socket takes none now. */
static enum base_status link_push(struct cluster_link *link, const uint8_t *bytes, size_t count, uint64_t now_ns,
                                  size_t *sent, struct base_error *error)
{
    for (;;) {
        const ssize_t some = send(link->fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (some >= 0) {
            link->stalled_since_ns = 0;
            *sent = (size_t)some;
            return BASE_OK;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return base_error_set_errno(error, errno, "sending to %s", link->peer);
        if (!link->stalled_since_ns)
            link->stalled_since_ns = now_ns;
        if (now_ns < link->stalled_since_ns + CLUSTER_LINK_STALL_NS)
            return BASE_BUSY;
        return base_error_set(error, BASE_TIMEOUT, "%s takes no bytes", link->peer);
    }
}

/* BASE_OK: all that the proof had to say is out. */
static enum base_status link_flush_proof(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    while (proof_unsent(link)) {
        struct net_proof *proof = link->proof;
        size_t sent;
        const enum base_status status =
            link_push(link, proof->out + proof->out_sent, proof->out_bytes - proof->out_sent, now_ns, &sent, error);
        if (status != BASE_OK)
            return status;
        proof->out_sent += (uint32_t)sent;
    }
    if (link->proof && link->proof->state == NET_PROOF_PROVED) {
        free(link->proof);
        link->proof = NULL;
    }
    return BASE_OK;
}

/* Sends until the socket is full. */
static enum base_status link_flush(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    enum base_status status = link_flush_proof(link, now_ns, error);
    while (status == BASE_OK && link->out_first && link_speaks(link)) {
        struct link_out *out = link->out_first;
        size_t sent;
        status = link_push(link, out->bytes + out->sent, out->count - out->sent, now_ns, &sent, error);
        if (status != BASE_OK)
            break;
        out->sent += sent;
        link->out_bytes -= sent;
        if (out->sent < out->count)
            continue;
        link->out_first = out->next;
        if (!link->out_first)
            link->out_last = &link->out_first;
        free(out->bytes);
        free(out);
    }
    return status == BASE_BUSY ? BASE_OK : status;
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
    return link->trusted ? CLUSTER_MESSAGE_BYTES_MAX + CLUSTER_FRAME_TAIL_BYTES : CLUSTER_HELLO_BYTES_MAX;
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
            return base_error_set(error, BASE_PEER_CLOSED, "%s closed the control connection%s", link->peer,
                                  proof_pending(link) ? " before it proved that it has the cluster's key" : "");
        }
        link->in_end += (size_t)got;
        if ((size_t)got < room)
            return BASE_OK;
    }
    return BASE_OK;
}

/* Queues bytes, which become the link's. */
static enum base_status link_queue(struct cluster_link *link, uint8_t *bytes, size_t count, struct base_error *error)
{
    struct link_out *out = malloc(sizeof *out);
    if (!out) {
        free(bytes);
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a message to %s", link->peer);
    }
    *out = (struct link_out){.bytes = bytes, .count = count};
    link->out_bytes += count;
    *link->out_last = out;
    link->out_last = &out->next;
    return BASE_OK;
}

/* A caller that proves a key, where we have none, is told so in its own words. */
static void link_meet_key(struct cluster_link *link)
{
    if (link->proof || link->trusted || link->met_key || link->in_end - link->in_begin < LINK_HEAD_BYTES ||
        base_load_u32(link->in + link->in_begin) != NET_PROOF_MAGIC)
        return;
    link->met_key = true;
    uint8_t *refusal = malloc(NET_PROOF_MESSAGE_BYTES);
    if (!refusal)
        return; /* then only our own log says why */
    net_proof_refuse(NET_PROOF_CONTROL, refusal);
    (void)link_queue(link, refusal, NET_PROOF_MESSAGE_BYTES, NULL);
}

/* A message whose length was damaged may never be whole: what follows is taken for its rest. */
static enum base_status link_check_part(struct cluster_link *link, uint64_t now_ns, struct base_error *error)
{
    const size_t have = link->in_end - link->in_begin;
    const bool whole = have >= LINK_HEAD_BYTES && have - LINK_HEAD_BYTES >= base_load_u32(link->in + link->in_begin);
    if (proof_pending(link) || have == 0 || whole)
        link->part_since_ns = 0;
    else if (link->part_since_ns == 0)
        link->part_since_ns = now_ns;
    else if (now_ns >= link->part_since_ns + CLUSTER_LINK_PART_NS)
        return base_error_set(error, BASE_FRAME_CORRUPT,
                              "%s: a control message is not whole after 30 s: was its length changed in transit?",
                              link->peer);
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
    link_prove(link);
    link_meet_key(link);
    if (status != BASE_OK) { /* yet what we think of its key is told */
        struct base_error ignored;
        (void)link_flush_proof(link, now_ns, &ignored);
        return status;
    }
    const enum base_status part = link_check_part(link, now_ns, error);
    if (part != BASE_OK)
        return part;
    const enum base_status sending = link_flush(link, now_ns, error);
    if (sending != BASE_OK)
        return sending;
    if (!link_has_connect_deadline(link) || now_ns < link->connect_deadline_ns)
        return BASE_OK;
    return base_error_set(
        error, BASE_TIMEOUT,
        "%s did not prove in time that it has the cluster's key: it is stopped or overloaded, or no millraced "
        "of this version",
        link->peer);
}

enum base_status cluster_link_receive(struct cluster_link *link, struct cluster_message *message,
                                      struct base_error *error)
{
    const size_t have = link->in_end - link->in_begin;
    if (link->met_key || proof_failed(link))
        return link_denied(link, error);
    if (proof_pending(link) || have < LINK_HEAD_BYTES)
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
    link->part_since_ns = 0;
    struct base_error why;
    const enum base_status status = cluster_frame_decode(at, bytes, message, &why);
    if (status == BASE_FRAME_CORRUPT)
        return base_error_set(error, status, "%s: %s", link->peer, why.text);
    if (status != BASE_OK && error)
        *error = why;
    return status;
}

enum base_status cluster_link_send(struct cluster_link *link, const struct cluster_message *message, uint64_t now_ns,
                                   struct base_error *error)
{
    uint8_t *bytes;
    size_t count;
    if (link->met_key || (proof_failed(link) && !link_speaks(link)))
        return link_denied(link, error);
    enum base_status status = cluster_frame_encode(message, &bytes, &count, error);
    if (status != BASE_OK)
        return status;
    if (link->out_bytes > 0 && link->out_bytes + count > CLUSTER_LINK_QUEUE_BYTES_MAX) {
        free(bytes);
        return base_error_set(error, BASE_TIMEOUT, "%s does not read its control messages", link->peer);
    }
    status = link_queue(link, bytes, count, error);
    if (status != BASE_OK || link->connecting)
        return status;
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
        struct base_error end = {0};
        const enum base_status ended = cluster_link_ready(link, base_clock_now_ns(), &end);
        if (ended == BASE_OK)
            continue;
        /* What came before the end still counts. */
        status = cluster_link_receive(link, message, error);
        if (status != BASE_BUSY)
            return status;
        *error = end;
        return ended;
    }
}
