/* One poll over the connection and the signals; everything that waits has a deadline, except a running job. While it
 * waits for one, the client asks the coordinator for signs of life (BEAT), and leaves when there are none: the kernel's
 * keepalive notices machines that are gone, but not a process that is stopped. */
#include "cluster/client/client.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "cluster/client/progress.h"
#include "cluster/link/link.h"
#include "cluster/protocol/liveness.h"

/* A coordinator with a crowd of strangers at its door may throw out one who was about to prove its key. */
enum { CLIENT_TRIES_WITH_KEY = 15, CLIENT_RETRY_MS = 20 }; /* with growing pauses: for two seconds */
enum { CLIENT_ALIVE_IDLE_SECONDS = 2, CLIENT_ALIVE_PROBES = 3, CLIENT_POLL_MS_MAX = 60 * 1000 };

struct cluster_client {
    struct cluster_link *link;
    int signal_fd; /* -1: signals do what they always do */
    uint32_t nodes_expected;
    uint64_t heard_ns, beat_ns; /* last word of the coordinator; when to ask for one */
    uint64_t silence_ns;        /* it may keep silent; 0: there is a deadline instead */
};

/* What one wait ended with, besides errors. */
enum client_event { CLIENT_MESSAGE, CLIENT_SIGNAL };

enum cluster_exit cluster_client_exit(const struct cluster_report *report)
{
    if (report->error.status != BASE_OK && report->bad_request)
        return CLUSTER_EXIT_USAGE;
    return (enum cluster_exit)cluster_exit_code(report->error.status);
}

/* ---- waiting ---- */

static int poll_milliseconds(const struct cluster_client *client, uint64_t now_ns, uint64_t deadline_ns)
{
    uint64_t until_ns = base_min_u64(deadline_ns, cluster_link_deadline_ns(client->link));
    if (client->silence_ns > 0)
        until_ns = base_min_u64(until_ns, base_min_u64(client->beat_ns, client->heard_ns + client->silence_ns));
    if (until_ns <= now_ns)
        return 0;
    /* Rounded up, so that the deadline has passed when poll says so. */
    return (int)base_min_u64((until_ns - now_ns) / BASE_NS_PER_MS + 1, CLIENT_POLL_MS_MAX);
}

static bool take_signal(const struct cluster_client *client)
{
    struct signalfd_siginfo info;
    return client->signal_fd >= 0 && read(client->signal_fd, &info, sizeof info) == (ssize_t)sizeof info;
}

/* Asks the coordinator for a sign of life when it is time, and notices that it gives none. */
static enum base_status client_beat(struct cluster_client *client, uint64_t now_ns, struct base_error *error)
{
    if (client->silence_ns == 0)
        return BASE_OK;
    if (now_ns >= client->heard_ns + client->silence_ns)
        return base_error_set(error, BASE_TIMEOUT, "the coordinator at %s was silent for %.0f s: is it stopped?",
                              cluster_link_peer(client->link), (double)(now_ns - client->heard_ns) / 1e9);
    if (now_ns < client->beat_ns)
        return BASE_OK;
    const struct cluster_message message = {.kind = CLUSTER_MESSAGE_BEAT};
    client->beat_ns = now_ns + CLUSTER_CLIENT_BEAT_NS;
    return cluster_link_send(client->link, &message, now_ns, error);
}

/* The next message that is more than a sign of life. BASE_BUSY: none now. */
static enum base_status client_receive(struct cluster_client *client, struct cluster_message *message,
                                       struct base_error *error)
{
    for (;;) {
        const enum base_status status = cluster_link_receive(client->link, message, error);
        if (status != BASE_OK)
            return status;
        client->heard_ns = base_clock_now_ns();
        if (message->kind != CLUSTER_MESSAGE_BEAT)
            return BASE_OK;
        cluster_message_free(message);
    }
}

/* Waits for a message or a signal; a message that is there already comes first. */
static enum base_status client_wait(struct cluster_client *client, uint64_t deadline_ns, enum client_event *event,
                                    struct cluster_message *message, struct base_error *error)
{
    struct base_error end = {0}; /* of the connection: what came before it still counts */
    bool signalled = false;
    for (;;) {
        enum base_status status = client_receive(client, message, error);
        *event = CLIENT_MESSAGE;
        if (status != BASE_BUSY)
            return status;
        if (signalled && take_signal(client)) {
            *event = CLIENT_SIGNAL;
            return BASE_OK;
        }
        if (end.status != BASE_OK) {
            *error = end;
            return end.status;
        }
        const uint64_t now_ns = base_clock_now_ns();
        if (now_ns >= deadline_ns)
            return base_error_set(error, BASE_TIMEOUT,
                                  "the coordinator at %s does not answer; is it a millraced, is it stopped?",
                                  cluster_link_peer(client->link));
        status = client_beat(client, now_ns, error);
        if (status != BASE_OK)
            return status;
        const int timeout_ms = poll_milliseconds(client, now_ns, deadline_ns);
        const uint32_t interest = cluster_link_interest(client->link);
        struct pollfd fds[] = {
            {.fd = cluster_link_fd(client->link),
             .events = (short)((interest & EPOLLIN ? POLLIN : 0) | (interest & EPOLLOUT ? POLLOUT : 0))},
            {.fd = client->signal_fd, .events = POLLIN}};
        if (poll(fds, 2, timeout_ms) < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "poll");
        /* Were we stopped ourselves? */
        client->heard_ns += cluster_pause_ns(now_ns + (uint64_t)timeout_ms * BASE_NS_PER_MS, base_clock_now_ns());
        signalled = fds[1].revents != 0; /* acted on after what was sent before the signal */
        (void)cluster_link_ready(client->link, base_clock_now_ns(), &end);
    }
}

/* ---- opening ---- */

static void keep_alive(int fd)
{
    const int on = 1, idle = CLIENT_ALIVE_IDLE_SECONDS, interval = 1, probes = CLIENT_ALIVE_PROBES;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* A refusal says why it is one. */
static enum base_status client_unexpected(const struct cluster_client *client, const struct cluster_message *message,
                                          struct base_error *error)
{
    if (message->kind != CLUSTER_MESSAGE_REFUSED)
        return base_error_set(error, BASE_PROTOCOL, "%s answered with %s, which is not the answer to the request",
                              cluster_link_peer(client->link), cluster_message_name(message->kind));
    if (message->refused.error.status == BASE_OK)
        return base_error_set(error, BASE_PROTOCOL, "%s refused us and did not say why",
                              cluster_link_peer(client->link));
    *error = message->refused.error;
    return error->status;
}

static enum base_status shake_hands(struct cluster_client *client, uint64_t deadline_ns, struct base_error *error)
{
    struct cluster_message message;
    cluster_hello_fill(CLUSTER_ROLE_CLIENT, &message);
    enum base_status status = cluster_link_send(client->link, &message, base_clock_now_ns(), error);
    enum client_event event;
    if (status == BASE_OK)
        status = client_wait(client, deadline_ns, &event, &message, error);
    if (status != BASE_OK)
        return status;
    if (message.kind == CLUSTER_MESSAGE_WELCOME) {
        client->nodes_expected = message.welcome.nodes_expected;
        cluster_link_trust(client->link);
    } else {
        status = client_unexpected(client, &message, error);
    }
    cluster_message_free(&message);
    return status;
}

/* *reached: the connection stood, whatever became of it. */
static enum base_status try_open(struct cluster_client *client, const struct net_address *address,
                                 const struct net_key *key, uint64_t deadline_ns, bool *reached,
                                 struct base_error *error)
{
    *reached = false;
    enum base_status status = cluster_link_connect(address, key, deadline_ns, &client->link, error);
    if (status != BASE_OK)
        return status;
    keep_alive(cluster_link_fd(client->link));
    status = shake_hands(client, deadline_ns, error);
    *reached = cluster_link_connected(client->link);
    return status;
}

static bool thrown_out(enum base_status status)
{
    return status == BASE_PEER_CLOSED || status == BASE_PEER_RESET;
}

enum base_status cluster_client_open(const char *coordinator, const struct net_key *key, struct cluster_client **client,
                                     struct base_error *error)
{
    struct base_error cause = {0};
    struct net_address address;
    enum base_status status = net_address_parse(coordinator, &address, &cause);
    if (status != BASE_OK)
        return base_error_set(error, status,
                              "%s; --coordinator=ADDRESS or MILLRACE_COORDINATOR say where the coordinator is",
                              cause.text);
    struct cluster_client *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for a connection to %s", coordinator);
    made->signal_fd = -1;
    const uint64_t deadline_ns = base_clock_now_ns() + CLUSTER_CLIENT_ANSWER_NS;
    bool reached;
    status = try_open(made, &address, key, deadline_ns, &reached, &cause);
    for (int tries = 1; key && tries < CLIENT_TRIES_WITH_KEY && reached && thrown_out(status); tries++) {
        poll(NULL, 0, tries * CLIENT_RETRY_MS);
        cluster_link_close(made->link);
        made->link = NULL;
        status = try_open(made, &address, key, deadline_ns, &reached, &cause);
    }
    if (status == BASE_OK) {
        *client = made;
        return BASE_OK;
    }
    if (reached)
        base_error_set(error, status, "%s", cause.text);
    else
        base_error_set(error, status,
                       "%s; is the coordinator running? --coordinator=ADDRESS or MILLRACE_COORDINATOR say where",
                       cause.text);
    if (made->link)
        cluster_link_close(made->link);
    free(made);
    return status;
}

void cluster_client_close(struct cluster_client *client)
{
    cluster_link_close(client->link);
    if (client->signal_fd >= 0)
        close(client->signal_fd);
    free(client);
}

uint32_t cluster_client_nodes_expected(const struct cluster_client *client)
{
    return client->nodes_expected;
}

enum base_status cluster_client_ask(struct cluster_client *client, enum cluster_message_kind question,
                                    struct cluster_message *answer, struct base_error *error)
{
    const enum cluster_message_kind wanted =
        question == CLUSTER_MESSAGE_LIST_NODES ? CLUSTER_MESSAGE_NODES : CLUSTER_MESSAGE_JOBS;
    const struct cluster_message message = {.kind = question};
    enum base_status status = cluster_link_send(client->link, &message, base_clock_now_ns(), error);
    enum client_event event;
    if (status == BASE_OK)
        status = client_wait(client, base_clock_now_ns() + CLUSTER_CLIENT_ANSWER_NS, &event, answer, error);
    if (status != BASE_OK)
        return status;
    if (answer->kind == wanted)
        return BASE_OK;
    status = client_unexpected(client, answer, error);
    cluster_message_free(answer);
    return status;
}

/* ---- running a job ---- */

struct run {
    uint64_t job; /* 0: not accepted yet */
    bool cancelled;
    uint64_t deadline_ns;
    struct cluster_progress_bar bar;
    cluster_client_watch_fn *watch; /* or NULL */
    void *watch_context;
    bool watch_failed;
};

static const int leave_signals[] = {SIGINT, SIGTERM, SIGHUP};

/* From now on Ctrl-C is something that client_wait tells. Signals that were ignored when we started stay ignored. */
static enum base_status hold_signals(struct cluster_client *client, struct base_error *error)
{
    if (client->signal_fd >= 0) /* since an earlier job */
        return BASE_OK;
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof leave_signals / sizeof *leave_signals; i++)
        sigaddset(&set, leave_signals[i]);
    client->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (client->signal_fd < 0)
        return base_error_set_errno(error, errno, "signalfd");
    sigprocmask(SIG_BLOCK, &set, NULL);
    return BASE_OK;
}

static enum base_status on_signal(struct cluster_client *client, struct run *run, struct base_error *error)
{
    cluster_progress_clear(&run->bar);
    if (run->job == 0)
        return base_error_set(error, BASE_CANCELLED, "cancelled before the job was accepted");
    if (run->cancelled)
        return base_error_set(error, BASE_CANCELLED,
                              "quit before job %" PRIu64 " stopped; `millrace jobs' shows what became of it", run->job);
    fprintf(stderr, "millrace: cancelling job %" PRIu64 "; press Ctrl-C again to quit now\n", run->job);
    run->cancelled = true;
    client->silence_ns = CLUSTER_CLIENT_LEAVING_SILENCE_NS;
    run->deadline_ns = base_clock_now_ns() + CLUSTER_CLIENT_CANCEL_NS;
    const struct cluster_message message = {.kind = CLUSTER_MESSAGE_CANCEL, .job = run->job};
    return cluster_link_send(client->link, &message, base_clock_now_ns(), error);
}

/* BASE_OK: *report is the message that was waited for; BASE_BUSY: wait on. */
static enum base_status client_on_message(struct cluster_client *client, struct run *run,
                                          struct cluster_message *message, struct base_error *error)
{
    enum base_status status = BASE_BUSY;
    switch (message->kind) {
    case CLUSTER_MESSAGE_ACCEPTED:
        run->job = message->job;
        run->deadline_ns = UINT64_MAX;
        client->silence_ns = CLUSTER_CLIENT_SILENCE_NS;
        client->beat_ns = client->heard_ns + CLUSTER_CLIENT_BEAT_NS;
        break;
    case CLUSTER_MESSAGE_PROGRESS:
        if (!run->cancelled)
            cluster_progress_draw(&run->bar, &message->progress, base_clock_now_ns());
        break;
    case CLUSTER_MESSAGE_ANSWER: /* to CANCEL: the report says the same */
        break;
    case CLUSTER_MESSAGE_REPORT:
        return BASE_OK;
    case CLUSTER_MESSAGE_REFUSED:
        *error = message->refused.error;
        status = error->status != BASE_OK && error->status != BASE_BUSY
                     ? error->status
                     : base_error_set(error, BASE_INTERNAL, "the job was refused: %s", message->refused.error.text);
        break;
    default:
        if (!run->watch)
            status = client_unexpected(client, message, error);
        else if (run->watch(run->watch_context, message, error) != BASE_OK) {
            run->watch_failed = true;
            status = error->status;
        }
        break;
    }
    cluster_message_free(message);
    return status;
}

enum base_status cluster_client_run(struct cluster_client *client, const struct cluster_submit *submit,
                                    struct cluster_message *report, struct base_error *error)
{
    return cluster_client_run_watched(client, submit, NULL, NULL, report, error);
}

enum base_status cluster_client_run_watched(struct cluster_client *client, const struct cluster_submit *submit,
                                            cluster_client_watch_fn *watch, void *context,
                                            struct cluster_message *report, struct base_error *error)
{
    struct run run = {.deadline_ns = base_clock_now_ns() + CLUSTER_CLIENT_ANSWER_NS,
                      .bar = {.fd = STDERR_FILENO, .begin_ns = base_clock_now_ns()},
                      .watch = watch,
                      .watch_context = context};
    enum base_status status = hold_signals(client, error);
    if (status != BASE_OK)
        return status;
    const struct cluster_message message = {.kind = CLUSTER_MESSAGE_SUBMIT, .submit = *submit};
    status = cluster_link_send(client->link, &message, base_clock_now_ns(), error);
    while (status == BASE_OK) {
        enum client_event event;
        status = client_wait(client, run.deadline_ns, &event, report, error);
        if (status != BASE_OK)
            break;
        if (event == CLIENT_SIGNAL) {
            status = on_signal(client, &run, error);
            continue;
        }
        status = client_on_message(client, &run, report, error);
        if (status != BASE_BUSY)
            break;
        status = BASE_OK;
    }
    client->silence_ns = 0;
    cluster_progress_clear(&run.bar);
    if (status != BASE_OK && run.job != 0 && status != BASE_CANCELLED && !run.watch_failed) {
        const struct base_error cause = *error;
        base_error_set(error, status,
                       "lost contact with job %" PRIu64 ": %s; `millrace jobs' may show what became of it", run.job,
                       cause.text);
    }
    return status;
}
