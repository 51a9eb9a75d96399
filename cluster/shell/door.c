/* The door: who connects, and what they must say before the step hears of them. A stranger may connect as often
 * as it likes, send nothing, or send it slowly: nodes, heartbeats and honest clients still find a place. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/shell/internal.h"

enum { SHELL_ACCEPTS_MAX = 64, SHELL_PEERS_MAX = 4096 };
/* Connections that have not proved a key, or where there is none not said hello, yet: beyond this many, or beyond a
 * share of our descriptors, the one that has kept silent longest makes room. An honest caller is done within
 * moments, however many others stay silent. */
enum { SHELL_STRANGERS_MAX = 1024, SHELL_STRANGERS_SHARE = 4 };
/* Clients have a share of all connections, so that there is always room for nodes and their heartbeats. A client that
 * waits for a job speaks every second, one that asks is done within moments: one that sent nothing for a while makes
 * room when all places are taken, and goes in any case after SHELL_IDLE_NS. */
enum { SHELL_CLIENTS_MAX = 1024, SHELL_CLIENTS_SHARE = 4 };
#define SHELL_QUIET_NS (UINT64_C(10) * BASE_NS_PER_S)
/* When nobody can be let in (no descriptors left), the door stays shut this long: epoll would tell of those who wait
 * again and again. */
#define SHELL_SHUT_NS (UINT64_C(100) * BASE_NS_PER_MS)
/* That nobody can be let in is logged once in this time. */
#define SHELL_SHUT_TOLD_NS (UINT64_C(10) * BASE_NS_PER_S)

/* A stranger can be refused without end, but must not fill the disk with it: so many lines a second. */
enum { SHELL_COMPLAINTS_MAX = 20 };

void shell_door_turn(struct shell *shell, uint64_t now_ns)
{
    if (now_ns < shell->complaints_end_ns)
        return;
    if (shell->complaints_kept_back > 0)
        base_log_warn("%u more refusals suppressed in the last second", shell->complaints_kept_back);
    shell->complaints = shell->complaints_kept_back = 0;
    shell->complaints_end_ns = now_ns + BASE_NS_PER_S;
}

/* May one more line about a caller be logged? */
static bool may_complain(struct shell *shell)
{
    shell_door_turn(shell, base_clock_now_ns());
    if (shell->complaints == SHELL_COMPLAINTS_MAX) {
        shell->complaints_kept_back++;
        return false;
    }
    shell->complaints++;
    return true;
}

/* Is there a place for one more client? The one that has been quiet longest may have to make room. */
static enum base_status admit_client(struct shell *shell, uint64_t now_ns, struct base_error *error)
{
    struct shell_peer *quietest = NULL;
    uint32_t clients = 0;
    for (struct shell_peer *peer = shell->peers; peer; peer = peer->next) {
        if (!peer->client || peer->dead || peer->closing || peer->failed) /* failed: it makes room already */
            continue;
        clients++;
        if (!quietest || peer->heard_ns < quietest->heard_ns)
            quietest = peer;
    }
    if (clients < shell->clients_max)
        return BASE_OK;
    if (quietest && now_ns >= quietest->heard_ns + SHELL_QUIET_NS) {
        base_error_set(&quietest->error, BASE_TIMEOUT, "it was idle, and others need its place");
        quietest->failed = true;
        return BASE_OK;
    }
    return base_error_set(error, BASE_TOO_LARGE,
                          "the coordinator has %u clients already, as many as it serves at a time: try again when some "
                          "of them are done",
                          clients);
}

bool shell_door_first(struct shell *shell, struct shell_peer *peer, enum base_status status,
                      const struct cluster_message *message, uint64_t now_ns)
{
    const bool client =
        status == BASE_OK && message->kind == CLUSTER_MESSAGE_HELLO && message->hello.role == CLUSTER_ROLE_CLIENT;
    const bool full = client && admit_client(shell, now_ns, &peer->error) != BASE_OK;
    if (status == BASE_OK && message->kind == CLUSTER_MESSAGE_HELLO && !full) {
        peer->hello = true;
        peer->client = client;
        if (message->hello.role == CLUSTER_ROLE_NODE) /* no request of a client is larger than a hello may be */
            cluster_link_trust(peer->link);
        return true;
    }
    if (status == BASE_OK && !full)
        base_error_set(&peer->error, BASE_PROTOCOL, "%s sent %s before hello", cluster_link_peer(peer->link),
                       cluster_message_name(message->kind));
    if (may_complain(shell)) {
        /* What is said of keys begins with the peer's name. */
        const char *name = status == BASE_DENIED ? "" : cluster_link_peer(peer->link);
        base_log_warn("refused%s%s: %s", *name ? " " : "", name, peer->error.text);
    }
    struct cluster_message refused = {.kind = CLUSTER_MESSAGE_REFUSED, .refused = {.error = peer->error}};
    if (status == BASE_DENIED) /* where the link lets it through, it is read by somebody without a key */
        base_error_set(&refused.refused.error, BASE_DENIED,
                       "this cluster has a key: give a copy of the coordinator's key file with --key=FILE or "
                       "MILLRACE_KEY");
    if (status == BASE_VERSION || status == BASE_DENIED || status == BASE_OK)
        cluster_link_send(peer->link, &refused, now_ns, NULL);
    shell_peer_close(shell, peer, now_ns);
    return false;
}

void shell_door_open(struct shell *shell, bool open)
{
    struct epoll_event event = {.events = open ? EPOLLIN : 0, .data.ptr = &shell->listen_fd};
    if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_MOD, shell->listen_fd, &event) < 0)
        base_log_warn("cannot watch for control connections: %s", strerror(errno));
    shell->shut_until_ns = open ? 0 : base_clock_now_ns() + SHELL_SHUT_NS;
}

void shell_door_bounds(struct shell *shell)
{
    struct rlimit files = {0};
    shell->strangers_max = SHELL_STRANGERS_MAX;
    shell->clients_max = SHELL_CLIENTS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max; /* costs nothing: select() is used nowhere */
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
    shell->strangers_max =
        (uint32_t)base_min_u64(SHELL_STRANGERS_MAX, base_max_u64(files.rlim_cur / SHELL_STRANGERS_SHARE, 1));
    shell->clients_max =
        (uint32_t)base_min_u64(SHELL_CLIENTS_MAX, base_max_u64(files.rlim_cur / SHELL_CLIENTS_SHARE, 1));
}

/* The newest peers come first in the list. */
static void bound_strangers(struct shell *shell)
{
    struct shell_peer *oldest = NULL;
    uint32_t strangers = 0;
    if (shell->peer_count <= shell->strangers_max)
        return;
    for (struct shell_peer *peer = shell->peers; peer; peer = peer->next) {
        if (peer->hello || peer->dead || (shell->key && cluster_link_proved(peer->link)))
            continue;
        strangers++;
        oldest = peer;
    }
    if (strangers > shell->strangers_max)
        oldest->dead = true;
}

/* Nobody can be let in, which is said once in a while. */
static void door_shut(struct shell *shell, int failed)
{
    const uint64_t now_ns = base_clock_now_ns();
    if (shell->shut_told_ns == 0 || now_ns >= shell->shut_told_ns + SHELL_SHUT_TOLD_NS) {
        base_log_warn("cannot accept a control connection: %s", strerror(failed));
        shell->shut_told_ns = now_ns;
    }
    shell_door_open(shell, false);
}

/* A peer for the connection, whose fd is taken over; NULL: it is closed. */
static struct shell_peer *peer_open(struct shell *shell, int fd)
{
    struct base_error error;
    struct shell_peer *peer = calloc(1, sizeof *peer);
    if (!peer || shell->peer_count >= SHELL_PEERS_MAX) {
        if (may_complain(shell))
            base_log_warn("a control connection is dropped: %u are open already", shell->peer_count);
        close(fd);
        free(peer);
        return NULL;
    }
    if (cluster_link_adopt(fd, shell->key, &peer->link, &error) != BASE_OK) {
        base_log_warn("%s", error.text);
        free(peer);
        return NULL;
    }
    peer->interest = EPOLLIN;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
    if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        base_log_warn("cannot watch a control connection: %s", strerror(errno));
        cluster_link_close(peer->link);
        free(peer);
        return NULL;
    }
    return peer;
}

void shell_door_accept(struct shell *shell)
{
    for (int accepted = 0; accepted < SHELL_ACCEPTS_MAX; accepted++) {
        const int fd = accept4(shell->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) {
            if (errno != EAGAIN)
                door_shut(shell, errno);
            return;
        }
        struct shell_peer *peer = peer_open(shell, fd);
        if (!peer)
            continue;
        BASE_ASSERT(!peer->hello && !peer->client); /* the step hears of nobody before the hello */
        peer->id = ++shell->next_id;
        peer->patience_ns = base_clock_now_ns() + SHELL_PATIENCE_NS;
        peer->next = shell->peers;
        shell->peers = peer;
        shell->peer_count++;
        bound_strangers(shell);
    }
}
