/* One thread, one epoll. A round: wait, handle everything that is ready, look again until nothing is, then tell the
 * step the time (TICK). That order matters after a pause (SIGSTOP, a busy machine): heartbeats that lie in the sockets
 * are heard before anybody is found silent. */
#include "cluster/shell/shell.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/coordinator/coordinator.h"
#include "cluster/protocol/link.h"
#include "cluster/protocol/listen_policy.h"
#include "cluster/shell/disk.h"
#include "cluster/shell/state.h"

enum { SHELL_EVENTS = 64, SHELL_ROUNDS_MAX = 64, SHELL_BACKLOG = 4096, SHELL_PEERS_MAX = 4096 };
/* Messages of a peer that are handled before others have their turn: questions without end must not keep us from
 * answering heartbeats. */
enum { SHELL_MESSAGES_MAX = 64 };
/* Connections that have not proved a key, or where there is none not said hello, yet: beyond this many, or beyond a
 * share of our descriptors, the one that has kept silent longest makes room. Who means it is done within moments,
 * however many hang around in silence. */
enum { SHELL_STRANGERS_MAX = 1024, SHELL_STRANGERS_SHARE = 4 };
/* Clients have a share of all connections, so that there is always room for nodes and their heartbeats. A client that
 * waits for a job speaks every second, one that asks is done within moments: whoever said nothing for a while makes
 * room when all places are taken, and goes in any case after SHELL_IDLE_NS. */
enum { SHELL_CLIENTS_MAX = 1024, SHELL_CLIENTS_SHARE = 4 };
#define SHELL_QUIET_NS (UINT64_C(10) * BASE_NS_PER_S)
#define SHELL_IDLE_NS (UINT64_C(300) * BASE_NS_PER_S)
/* Who connects proves the key, if there is one, and says hello within this, and a link that is to be closed gets its
 * last words out within it. */
#define SHELL_PATIENCE_NS (UINT64_C(2) * BASE_NS_PER_S)
/* When nobody can be let in (no descriptors left), the door stays shut this long: epoll would tell of those who wait
 * again and again. */
#define SHELL_SHUT_NS (UINT64_C(100) * BASE_NS_PER_MS)
/* That nobody can be let in is logged once in this time. */
#define SHELL_SHUT_TOLD_NS (UINT64_C(10) * BASE_NS_PER_S)

/* Whoever can connect can be refused as often as he likes, but not fill the disk with it: so many lines a second. */
enum { SHELL_COMPLAINTS_MAX = 20 };

/* A step asks for one record and one block of numbers at most (cluster/coordinator/coordinator.h). */
enum { SHELL_UNORDERED_MAX = 2 };

struct shell_peer {
    struct shell_peer *next;
    uint64_t id;
    struct cluster_link *link;
    uint32_t interest;
    bool hello;   /* said, so the step knows it */
    bool client;  /* as its hello says */
    bool closing; /* no more is heard; closes when flushed */
    bool failed;  /* could not be sent to; the step is told at the end of the round */
    bool dead;    /* to be freed at the end of the round */
    bool unsent;  /* unsent_event is for the step */
    bool more;    /* messages may lie in the link for which epoll says nothing */
    uint64_t patience_ns;
    uint64_t heard_ns; /* its last message */
    struct base_error error;
    struct cluster_event unsent_event;
};

struct shell {
    struct cluster_coordinator *coordinator;
    struct cluster_state *state;
    struct cluster_disk *disk;
    const struct net_key *key;
    int epoll_fd, listen_fd, signal_fd;
    struct shell_peer *peers;
    uint32_t peer_count, strangers_max, clients_max;
    uint32_t unsent_count; /* peers with an unsent_event */
    struct cluster_event unordered[SHELL_UNORDERED_MAX];
    uint32_t unordered_count;
    uint64_t next_id;
    uint64_t shut_until_ns;     /* 0: the listener is watched */
    uint64_t shut_told_ns;      /* when it was last logged that nobody can be let in; 0: never */
    uint64_t complaints_end_ns; /* of the second in which so many complaints were logged, and so many were not */
    uint32_t complaints, complaints_kept_back;
    bool stopped;
};

static void shell_random(void *context, uint8_t *bytes, size_t count)
{
    (void)context;
    size_t got = 0;
    while (got < count) {
        const ssize_t some = getrandom(bytes + got, count - got, 0);
        if (some > 0)
            got += (size_t)some;
    }
}

static void peer_watch(struct shell *shell, struct shell_peer *peer)
{
    const uint32_t interest = cluster_link_interest(peer->link) & ~(peer->closing ? (uint32_t)EPOLLIN : 0);
    if (interest == peer->interest)
        return;
    struct epoll_event event = {.events = interest, .data.ptr = peer};
    if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_MOD, cluster_link_fd(peer->link), &event) == 0)
        peer->interest = interest;
}

static void peer_close(struct shell *shell, struct shell_peer *peer, uint64_t now_ns)
{
    if (!peer->closing) {
        peer->closing = true;
        peer->patience_ns = now_ns + SHELL_PATIENCE_NS;
    }
    if (cluster_link_flushed(peer->link))
        peer->dead = true;
    else
        peer_watch(shell, peer);
}

static struct shell_peer *peer_find(const struct shell *shell, uint64_t id)
{
    for (struct shell_peer *peer = shell->peers; peer; peer = peer->next)
        if (peer->id == id && !peer->closing && !peer->dead)
            return peer;
    return NULL;
}

static void shell_send(struct shell *shell, const struct cluster_action *action, uint64_t now_ns)
{
    struct shell_peer *peer = peer_find(shell, action->peer);
    if (!peer)
        return; /* gone, as the step will hear or has heard */
    const struct cluster_message *message = &action->message;
    const enum base_status status = cluster_link_send(peer->link, message, now_ns, &peer->error);
    if (status == BASE_OK) {
        peer_watch(shell, peer);
    } else if ((status == BASE_TOO_LARGE || status == BASE_NO_MEMORY) && !peer->unsent) {
        peer->unsent = true;
        peer->unsent_event = (struct cluster_event){.kind = CLUSTER_EVENT_UNSENT,
                                                    .peer = peer->id,
                                                    .job = message->job,
                                                    .unsent = message->kind,
                                                    .error = peer->error};
        shell->unsent_count++;
    } else {
        peer->failed = true;
    }
}

/* The next event about a message that could not be sent. Of a peer that is gone or failed the step hears otherwise. */
static bool shell_unsent(struct shell *shell, struct cluster_event *event)
{
    for (struct shell_peer *peer = shell->peers; peer && shell->unsent_count > 0; peer = peer->next) {
        if (!peer->unsent)
            continue;
        peer->unsent = false;
        shell->unsent_count--;
        if (peer->dead || peer->closing || peer->failed)
            continue;
        *event = peer->unsent_event;
        return true;
    }
    return false;
}

/* What the disk's thread could not even be asked for, the step hears next, before it asks for more. */
static struct cluster_event *shell_unordered(struct shell *shell, enum cluster_event_kind kind)
{
    BASE_ASSERT(shell->unordered_count < SHELL_UNORDERED_MAX);
    struct cluster_event *event = &shell->unordered[shell->unordered_count++];
    *event = (struct cluster_event){.kind = kind};
    return event;
}

static void shell_record(struct shell *shell, const struct cluster_action *action)
{
    struct base_error error;
    if (cluster_disk_record(shell->disk, action->decision, action->again, &error) == BASE_OK)
        return;
    struct cluster_event *event = shell_unordered(shell, CLUSTER_EVENT_RECORDED);
    event->job = action->decision->job;
    event->unknown = action->again; /* an earlier try may have left it there */
    event->error = error;
}

static void shell_reserve(struct shell *shell)
{
    struct base_error error;
    if (cluster_disk_reserve(shell->disk, &error) != BASE_OK)
        shell_unordered(shell, CLUSTER_EVENT_RESERVED)->error = error;
}

static void shell_act(struct shell *shell, const struct cluster_action *action, uint64_t now_ns)
{
    struct shell_peer *peer;
    switch (action->kind) {
    case CLUSTER_ACTION_SEND:
        shell_send(shell, action, now_ns);
        break;
    case CLUSTER_ACTION_CLOSE:
        peer = peer_find(shell, action->peer);
        if (peer)
            peer_close(shell, peer, now_ns);
        break;
    case CLUSTER_ACTION_RECORD:
        shell_record(shell, action);
        break;
    case CLUSTER_ACTION_FORGET:
        cluster_disk_forget(shell->disk, action->job);
        break;
    case CLUSTER_ACTION_RESERVE:
        shell_reserve(shell);
        break;
    case CLUSTER_ACTION_LOG:
        base_log(action->line.level, "%s", action->line.text);
        break;
    case CLUSTER_ACTION_STOPPED:
        shell->stopped = true;
        break;
    }
}

static enum base_status shell_step_once(struct shell *shell, const struct cluster_event *event,
                                        struct base_error *error)
{
    const struct cluster_action *actions;
    uint32_t count;
    const uint64_t now_ns = base_clock_now_ns();
    enum base_status status = cluster_coordinator_step(shell->coordinator, event, now_ns, &actions, &count, error);
    if (status != BASE_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        shell_act(shell, &actions[i], now_ns);
    return BASE_OK;
}

/* What the step hears at once of its own actions. */
static bool shell_next(struct shell *shell, struct cluster_event *event)
{
    if (shell->unordered_count == 0)
        return shell_unsent(shell, event);
    *event = shell->unordered[--shell->unordered_count];
    return true;
}

static enum base_status shell_step(struct shell *shell, const struct cluster_event *event, struct base_error *error)
{
    struct cluster_event next;
    enum base_status status = shell_step_once(shell, event, error);
    while (status == BASE_OK && shell_next(shell, &next))
        status = shell_step_once(shell, &next, error);
    return status;
}

/* Tells the step that a peer is gone, and lets go of it. */
static enum base_status peer_lost(struct shell *shell, struct shell_peer *peer, struct base_error *error)
{
    if (peer->dead)
        return BASE_OK;
    peer->dead = true;
    if (!peer->hello || peer->closing)
        return BASE_OK;
    const struct cluster_event event = {.kind = CLUSTER_EVENT_LOST, .peer = peer->id, .error = peer->error};
    return shell_step(shell, &event, error);
}

/* At the end of a second: what was not said in it. */
static void shell_complaints_turn(struct shell *shell, uint64_t now_ns)
{
    if (now_ns < shell->complaints_end_ns)
        return;
    if (shell->complaints_kept_back > 0)
        base_log_warn("%u more refusals suppressed in the last second", shell->complaints_kept_back);
    shell->complaints = shell->complaints_kept_back = 0;
    shell->complaints_end_ns = now_ns + BASE_NS_PER_S;
}

/* May one more line about a caller be logged? */
static bool shell_may_complain(struct shell *shell)
{
    shell_complaints_turn(shell, base_clock_now_ns());
    if (shell->complaints == SHELL_COMPLAINTS_MAX) {
        shell->complaints_kept_back++;
        return false;
    }
    shell->complaints++;
    return true;
}

/* Is there a place for one more client? The one that has been quiet longest may have to make room. */
static enum base_status shell_admit_client(struct shell *shell, uint64_t now_ns, struct base_error *error)
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
        base_error_set(&quietest->error, BASE_TIMEOUT, "it was quiet, and others want its place");
        quietest->failed = true;
        return BASE_OK;
    }
    return base_error_set(error, BASE_TOO_LARGE,
                          "the coordinator has %u clients already, as many as it serves at a time: try again when some "
                          "of them are done",
                          clients);
}

/* What a peer says first must be a hello that we understand; if not, it is told why. */
static bool peer_first(struct shell *shell, struct shell_peer *peer, enum base_status status,
                       const struct cluster_message *message, uint64_t now_ns)
{
    const bool client =
        status == BASE_OK && message->kind == CLUSTER_MESSAGE_HELLO && message->hello.role == CLUSTER_ROLE_CLIENT;
    const bool full = client && shell_admit_client(shell, now_ns, &peer->error) != BASE_OK;
    if (status == BASE_OK && message->kind == CLUSTER_MESSAGE_HELLO && !full) {
        peer->hello = true;
        peer->client = client;
        if (message->hello.role == CLUSTER_ROLE_NODE) /* no request of a client is larger than a hello may be */
            cluster_link_trust(peer->link);
        return true;
    }
    if (status == BASE_OK && !full)
        base_error_set(&peer->error, BASE_PROTOCOL, "%s said %s before hello", cluster_link_peer(peer->link),
                       cluster_message_name(message->kind));
    if (shell_may_complain(shell)) {
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
    peer_close(shell, peer, now_ns);
    return false;
}

static enum base_status peer_receive(struct shell *shell, struct shell_peer *peer, struct base_error *error)
{
    peer->more = false;
    for (int handled = 0; !peer->dead && !peer->closing && !peer->failed; handled++) {
        if (handled == SHELL_MESSAGES_MAX) {
            peer->more = true;
            break;
        }
        struct cluster_message message;
        memset(&message, 0, sizeof message);
        enum base_status status = cluster_link_receive(peer->link, &message, &peer->error);
        if (status == BASE_BUSY)
            return BASE_OK;
        if (!peer->hello && !peer_first(shell, peer, status, &message, base_clock_now_ns())) {
            if (status == BASE_OK)
                cluster_message_free(&message);
            return BASE_OK;
        }
        if (status != BASE_OK) {
            base_log_warn("%s: %s", cluster_link_peer(peer->link), peer->error.text);
            return peer_lost(shell, peer, error);
        }
        peer->heard_ns = base_clock_now_ns();
        const struct cluster_event event = {.kind = CLUSTER_EVENT_MESSAGE, .peer = peer->id, .message = &message};
        status = shell_step(shell, &event, error);
        cluster_message_free(&message);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

static enum base_status peer_ready(struct shell *shell, struct shell_peer *peer, struct base_error *error)
{
    if (peer->dead)
        return BASE_OK;
    struct base_error ended = {0};
    const enum base_status link_status = cluster_link_ready(peer->link, base_clock_now_ns(), &ended);
    enum base_status status = peer_receive(shell, peer, error);
    if (status != BASE_OK || peer->dead)
        return status;
    if (link_status != BASE_OK) {
        peer->error = ended;
        return peer_lost(shell, peer, error);
    }
    if (peer->closing && cluster_link_flushed(peer->link))
        peer->dead = true;
    else
        peer_watch(shell, peer);
    return BASE_OK;
}

static void shell_watch_door(struct shell *shell, bool open)
{
    struct epoll_event event = {.events = open ? EPOLLIN : 0, .data.ptr = &shell->listen_fd};
    if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_MOD, shell->listen_fd, &event) < 0)
        base_log_warn("cannot watch for control connections: %s", strerror(errno));
    shell->shut_until_ns = open ? 0 : base_clock_now_ns() + SHELL_SHUT_NS;
}

/* How many may be here without having said hello, and how many clients: not so many that they take all descriptors. */
static void shell_bounds(struct shell *shell)
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
static void shell_bound_strangers(struct shell *shell)
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

static void shell_accept(struct shell *shell)
{
    for (int accepted = 0; accepted < SHELL_EVENTS; accepted++) {
        const int fd = accept4(shell->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno != EAGAIN) {
                const uint64_t now_ns = base_clock_now_ns();
                if (shell->shut_told_ns == 0 || now_ns >= shell->shut_told_ns + SHELL_SHUT_TOLD_NS) {
                    base_log_warn("cannot accept a control connection: %s", strerror(errno));
                    shell->shut_told_ns = now_ns;
                }
                shell_watch_door(shell, false);
            }
            return;
        }
        struct base_error error;
        struct cluster_link *link = NULL;
        struct shell_peer *peer = calloc(1, sizeof *peer);
        if (!peer || shell->peer_count >= SHELL_PEERS_MAX) {
            if (shell_may_complain(shell))
                base_log_warn("a control connection is dropped: %u are open already", shell->peer_count);
            close(fd);
            free(peer);
            continue;
        }
        if (cluster_link_adopt(fd, shell->key, &link, &error) != BASE_OK) {
            base_log_warn("%s", error.text);
            free(peer);
            continue;
        }
        peer->id = ++shell->next_id;
        peer->link = link;
        peer->interest = EPOLLIN;
        peer->patience_ns = base_clock_now_ns() + SHELL_PATIENCE_NS;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = peer};
        if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
            base_log_warn("cannot watch a control connection: %s", strerror(errno));
            cluster_link_close(link);
            free(peer);
            continue;
        }
        peer->next = shell->peers;
        shell->peers = peer;
        shell->peer_count++;
        shell_bound_strangers(shell);
    }
}

/* Deadlines of links and of the door, peers that failed while being sent to, and those that are done with. */
static enum base_status shell_sweep(struct shell *shell, uint64_t now_ns, struct base_error *error)
{
    enum base_status status = BASE_OK;
    shell_complaints_turn(shell, now_ns);
    if (shell->shut_until_ns && now_ns >= shell->shut_until_ns)
        shell_watch_door(shell, true);
    for (struct shell_peer *peer = shell->peers; peer && status == BASE_OK; peer = peer->next) {
        if (peer->failed)
            status = peer_lost(shell, peer, error);
        else if (peer->more || now_ns >= cluster_link_deadline_ns(peer->link))
            status = peer_ready(shell, peer, error);
        else if ((!peer->hello || peer->closing) && now_ns >= peer->patience_ns) {
            if (!peer->closing)
                base_log_debug("closed %s, which did not say %s in time", cluster_link_peer(peer->link),
                               cluster_link_proved(peer->link) ? "hello" : "whether it has the cluster's key");
            peer->dead = true;
        } else if (peer->client && !peer->closing && now_ns >= peer->heard_ns + SHELL_IDLE_NS) {
            base_error_set(&peer->error, BASE_TIMEOUT, "it was idle for five minutes");
            status = peer_lost(shell, peer, error);
        }
    }
    struct shell_peer **at = &shell->peers;
    while (*at) {
        struct shell_peer *peer = *at;
        if (!peer->dead) {
            at = &peer->next;
            continue;
        }
        *at = peer->next;
        cluster_link_close(peer->link);
        free(peer);
        shell->peer_count--;
    }
    return status;
}

static int shell_timeout_ms(const struct shell *shell)
{
    uint64_t deadline_ns = cluster_coordinator_deadline_ns(shell->coordinator);
    if (shell->shut_until_ns)
        deadline_ns = base_min_u64(deadline_ns, shell->shut_until_ns);
    for (const struct shell_peer *peer = shell->peers; peer; peer = peer->next) {
        deadline_ns = base_min_u64(deadline_ns, cluster_link_deadline_ns(peer->link));
        if (!peer->hello || peer->closing)
            deadline_ns = base_min_u64(deadline_ns, peer->patience_ns);
        else if (peer->client)
            deadline_ns = base_min_u64(deadline_ns, peer->heard_ns + SHELL_IDLE_NS);
        if (peer->failed || peer->more)
            return 0;
    }
    if (deadline_ns == UINT64_MAX)
        return -1;
    const uint64_t now_ns = base_clock_now_ns();
    return deadline_ns <= now_ns ? 0 : (int)((deadline_ns - now_ns) / BASE_NS_PER_MS + 1);
}

static enum base_status shell_signal(struct shell *shell, struct base_error *error)
{
    struct signalfd_siginfo signal_info;
    if (read(shell->signal_fd, &signal_info, sizeof signal_info) != (ssize_t)sizeof signal_info)
        return BASE_OK;
    base_log_info("stopping");
    const struct cluster_event event = {.kind = CLUSTER_EVENT_STOP};
    return shell_step(shell, &event, error);
}

/* Tells the step what became of decisions that the disk's thread recorded. */
static enum base_status shell_disk(struct shell *shell, struct base_error *error)
{
    struct cluster_event event;
    enum base_status status = BASE_OK;
    while (status == BASE_OK && cluster_disk_result(shell->disk, &event))
        status = shell_step(shell, &event, error);
    return status;
}

/* Handles what is ready until nothing is. */
static enum base_status shell_drain(struct shell *shell, struct base_error *error)
{
    int timeout_ms = shell_timeout_ms(shell);
    for (int round = 0; round < SHELL_ROUNDS_MAX; round++) {
        struct epoll_event events[SHELL_EVENTS];
        const int count = epoll_wait(shell->epoll_fd, events, SHELL_EVENTS, timeout_ms);
        if (count < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "waiting for control connections");
        enum base_status status = BASE_OK;
        for (int i = 0; i < count && status == BASE_OK; i++) {
            if (events[i].data.ptr == &shell->listen_fd)
                shell_accept(shell);
            else if (events[i].data.ptr == &shell->signal_fd)
                status = shell_signal(shell, error);
            else if (events[i].data.ptr == &shell->disk)
                status = shell_disk(shell, error);
            else
                status = peer_ready(shell, events[i].data.ptr, error);
        }
        if (status != BASE_OK)
            return status;
        if (count <= 0)
            break;
        timeout_ms = 0;
    }
    return BASE_OK;
}

static enum base_status shell_loop(struct shell *shell, struct base_error *error)
{
    while (!shell->stopped || shell->peers) {
        enum base_status status = shell_drain(shell, error);
        const struct cluster_event tick = {.kind = CLUSTER_EVENT_TICK};
        if (status == BASE_OK)
            status = shell_step(shell, &tick, error);
        const uint64_t now_ns = base_clock_now_ns();
        for (struct shell_peer *peer = shell->peers; peer && shell->stopped; peer = peer->next)
            peer_close(shell, peer, now_ns);
        if (status == BASE_OK)
            status = shell_sweep(shell, now_ns, error);
        if (status != BASE_OK)
            return status;
    }
    return BASE_OK;
}

static enum base_status shell_watch(struct shell *shell, int fd, void *who, struct base_error *error)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
    if (epoll_ctl(shell->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return base_error_set_errno(error, errno, "cannot watch a descriptor");
    return BASE_OK;
}

static enum base_status shell_open(struct shell *shell, const struct cluster_shell_config *config,
                                   struct base_error *error)
{
    enum base_status status = cluster_listen_allowed(&config->listen, config->key != NULL, config->open_to_all, error);
    if (status != BASE_OK)
        return status;
    struct cluster_coordinator_config coordinator = {.nodes_expected = config->nodes_expected, .random = shell_random};
    status = cluster_state_open(config->state_folder, &shell->state, &coordinator.first_job, error);
    if (status == BASE_OK)
        coordinator.state_id = cluster_state_id(shell->state);
    if (status == BASE_OK)
        status = cluster_coordinator_open(&coordinator, &shell->coordinator, error);
    if (status == BASE_OK)
        status = cluster_state_restore(shell->state, shell->coordinator, error);
    struct net_address bound;
    if (status == BASE_OK)
        status = net_listen(&config->listen, SHELL_BACKLOG, &shell->listen_fd, &bound, error);
    if (status != BASE_OK)
        return status;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    shell->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    shell->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (shell->signal_fd < 0 || shell->epoll_fd < 0)
        return base_error_set_errno(error, errno, "cannot make an epoll or signal descriptor");
    status = shell_watch(shell, shell->listen_fd, &shell->listen_fd, error);
    if (status == BASE_OK)
        status = shell_watch(shell, shell->signal_fd, &shell->signal_fd, error);
    if (status == BASE_OK) /* its thread inherits the mask of signals */
        status = cluster_disk_open(shell->state, &shell->disk, error);
    if (status == BASE_OK)
        status = shell_watch(shell, cluster_disk_fd(shell->disk), &shell->disk, error);
    char text[64];
    net_address_format(&bound, text);
    if (status == BASE_OK)
        base_log_info("listening on %s", text);
    return status;
}

static void shell_close(struct shell *shell)
{
    while (shell->peers) {
        struct shell_peer *peer = shell->peers;
        shell->peers = peer->next;
        cluster_link_close(peer->link);
        free(peer);
    }
    if (shell->epoll_fd >= 0)
        close(shell->epoll_fd);
    if (shell->signal_fd >= 0)
        close(shell->signal_fd);
    if (shell->listen_fd >= 0)
        close(shell->listen_fd);
    if (shell->coordinator)
        cluster_coordinator_close(shell->coordinator);
    if (shell->disk && !cluster_disk_close(shell->disk))
        base_log_warn("the disk of the state folder hangs: what it was about to write may be there or not");
    else if (shell->state)
        cluster_state_close(shell->state);
}

enum base_status cluster_shell_run(const struct cluster_shell_config *config, struct base_error *error)
{
    struct shell shell = {.key = config->key, .epoll_fd = -1, .listen_fd = -1, .signal_fd = -1};
    shell_bounds(&shell);
    enum base_status status = shell_open(&shell, config, error);
    if (status == BASE_OK)
        status = shell_loop(&shell, error);
    shell_close(&shell);
    return status;
}
