/* One thread, one epoll. A round: wait, handle everything that is ready, look again until nothing is, then tell the
 * step the time (TICK). That order matters after a pause (SIGSTOP, a busy machine): heartbeats that lie in the sockets
 * are heard before anybody is found silent. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/link/listen_policy.h"
#include "cluster/shell/internal.h"
#include "cluster/shell/state.h"

enum { SHELL_EVENTS = 64, SHELL_ROUNDS_MAX = 64, SHELL_BACKLOG = 4096 };
/* Messages of a peer that are handled before others have their turn: questions without end must not keep us from
 * answering heartbeats. */
enum { SHELL_MESSAGES_MAX = 64 };
/* A client that said nothing for so long goes. */
#define SHELL_IDLE_NS (UINT64_C(300) * BASE_NS_PER_S)

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

void shell_peer_close(struct shell *shell, struct shell_peer *peer, uint64_t now_ns)
{
    BASE_ASSERT(!peer->dead);
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
        BASE_ASSERT(shell->unsent_count > 0);
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
            shell_peer_close(shell, peer, now_ns);
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
    BASE_ASSERT(base_status_is_failure(peer->error.status)); /* the step says why it is lost */
    const struct cluster_event event = {.kind = CLUSTER_EVENT_LOST, .peer = peer->id, .error = peer->error};
    return shell_step(shell, &event, error);
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
        if (!peer->hello && !shell_door_first(shell, peer, status, &message, base_clock_now_ns())) {
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

/* Deadlines of links and of the door, peers that failed while being sent to, and those that are done with. */
static enum base_status shell_sweep(struct shell *shell, uint64_t now_ns, struct base_error *error)
{
    enum base_status status = BASE_OK;
    shell_door_turn(shell, now_ns);
    if (shell->shut_until_ns && now_ns >= shell->shut_until_ns)
        shell_door_open(shell, true);
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
                shell_door_accept(shell);
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
            if (!peer->dead) /* the sweep takes those */
                shell_peer_close(shell, peer, now_ns);
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
    enum base_status status = cluster_listen_allowed(&config->listen, config->key, config->open_to_all, error);
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
    shell_door_bounds(&shell);
    enum base_status status = shell_open(&shell, config, error);
    if (status == BASE_OK)
        status = shell_loop(&shell, error);
    shell_close(&shell);
    return status;
}
