/* One thread, one epoll: the connection to the coordinator, the crew's answers, the heartbeat's alarm, signals.
 *
 * A node without its coordinator aborts its job, and connects again only when the job is gone: so no order of a new
 * coordinator can meet an old job. */
#include "cluster/node/node.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "cluster/link/link.h"
#include "cluster/link/listen_policy.h"
#include "cluster/node/heartbeat.h"
#include "cluster/node/job.h"
#include "cluster/protocol/liveness.h"

#define NODE_CONNECT_NS CLUSTER_SILENCE_NS
#define NODE_WELCOME_NS (UINT64_C(2) * BASE_NS_PER_S)
#define NODE_BACKOFF_MIN_NS (UINT64_C(50) * BASE_NS_PER_MS)
#define NODE_BACKOFF_MAX_NS (UINT64_C(1) * BASE_NS_PER_S)
#define NODE_PROGRESS_NS (UINT64_C(200) * BASE_NS_PER_MS)

enum node_watch { NODE_WATCH_LINK, NODE_WATCH_CREW, NODE_WATCH_RESOLVE, NODE_WATCH_HEARTBEAT, NODE_WATCH_SIGNAL };

struct node {
    const struct cluster_node_config *config;
    uint64_t incarnation;
    int epoll_fd, signal_fd, resolve_fd;
    struct base_governor *governor;
    struct cluster_crew *crew;
    char *placement;           /* what is particular about each worker's place, in lines */
    struct cluster_link *link; /* NULL: not connected */
    uint32_t interest;
    bool welcomed;
    uint64_t welcome_deadline_ns;
    uint64_t connect_ns, backoff_ns; /* when to try next */
    bool complained;                 /* that the coordinator is away; once per absence */
    struct cluster_heartbeat *heartbeat;
    _Atomic uint64_t work; /* for the heartbeat: the number of this turn of the loop, 0 while it waits */
    struct node_job job;
    uint64_t progress_ns;
    struct cluster_path_watch *watch; /* NULL: the kernel does not tell */
    bool unsaid;                      /* something could not be sent: the connection is to be ended */
    struct base_error unsaid_error;
    bool stopping;
    enum base_status fatal; /* what trying again cannot cure */
    struct base_error fatal_error;
};

static enum base_status node_watch(const struct node *node, int fd, uint32_t events, enum node_watch what,
                                   struct base_error *error)
{
    struct epoll_event event = {.events = events, .data.u32 = what};
    if (epoll_ctl(node->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return base_error_set_errno(error, errno, "cannot watch a descriptor");
    return BASE_OK;
}

static void node_watch_link(struct node *node)
{
    const uint32_t interest = cluster_link_interest(node->link);
    struct epoll_event event = {.events = interest, .data.u32 = NODE_WATCH_LINK};
    if (interest != node->interest &&
        epoll_ctl(node->epoll_fd, EPOLL_CTL_MOD, cluster_link_fd(node->link), &event) == 0)
        node->interest = interest;
}

/* ---- connection ---- */

static void node_disconnect(struct node *node, const struct base_error *why)
{
    if (node->heartbeat) {
        cluster_heartbeat_stop(node->heartbeat);
        node->heartbeat = NULL;
    }
    if (node->link) {
        cluster_link_close(node->link);
        node->link = NULL;
    }
    if (why && (node->welcomed || !node->complained)) {
        base_log_warn("%s: %s; trying again", node->welcomed ? "the coordinator is lost" : "no coordinator", why->text);
        node->complained = true;
    }
    node->welcomed = node->unsaid = false;
    node->connect_ns = base_clock_now_ns() + node->backoff_ns;
    node->backoff_ns = base_min_u64(2 * node->backoff_ns, NODE_BACKOFF_MAX_NS);
    node_job_abandon(&node->job);
}

/* An answer that cannot be sent must not be waited for: its job fails, with the reason; and if even that cannot be
 * said, the connection ends (later: we may be deep inside of what an order does). */
static void node_send(void *context, const struct cluster_message *message)
{
    struct node *node = context;
    struct base_error error;
    if (!node->link)
        return;
    const uint64_t now_ns = base_clock_now_ns();
    if (cluster_link_send(node->link, message, now_ns, &error) != BASE_OK) {
        base_log_error("%s", error.text);
        const struct cluster_message failed = {
            .kind = CLUSTER_MESSAGE_FAILED, .job = message->job, .failed = {.error = error}};
        if (message->job == 0 || message->kind == CLUSTER_MESSAGE_FAILED ||
            cluster_link_send(node->link, &failed, now_ns, NULL) != BASE_OK) {
            node->unsaid = true;
            node->unsaid_error = error;
        }
    }
    node_watch_link(node);
}

static void node_hello(struct node *node)
{
    BASE_ASSERT(node_job_idle(&node->job)); /* no order of a new coordinator may meet an old job */
    struct cluster_crew_engine engine;
    cluster_crew_engine(node->crew, &engine);
    struct cluster_message message;
    cluster_hello_fill(CLUSTER_ROLE_NODE, &message);
    struct cluster_hello *hello = &message.hello;
    hello->name = (char *)(uintptr_t)node->config->name;
    hello->incarnation = node->incarnation;
    hello->worker_count = node->config->workers;
    hello->worker = (struct net_address *)(uintptr_t)cluster_crew_addresses(node->crew);
    hello->memory_bytes = node->config->memory_bytes;
    hello->engine = engine.name;
    hello->features = engine.features;
    hello->engine_reason = engine.reason;
    hello->placement = node->placement;
    hello->pid = (uint64_t)getpid();
    hello->doubt = calloc(CLUSTER_DOUBTS_MAX, sizeof *hello->doubt);
    if (hello->doubt)
        hello->doubt_count = node_output_doubts(&node->job.outputs, hello->doubt, CLUSTER_DOUBTS_MAX);
    node_send(node, &message);
    free(hello->doubt);
}

static void node_connect(struct node *node, uint64_t now_ns)
{
    BASE_ASSERT(!node->link && !node->heartbeat && !node->welcomed);
    struct base_error error;
    if (cluster_link_connect(&node->config->coordinator, node->config->key, now_ns + NODE_CONNECT_NS, &node->link,
                             &error) != BASE_OK) {
        node->link = NULL;
        node_disconnect(node, &error);
        return;
    }
    node->welcome_deadline_ns = now_ns + NODE_WELCOME_NS;
    node->interest = cluster_link_interest(node->link);
    if (node_watch(node, cluster_link_fd(node->link), node->interest, NODE_WATCH_LINK, &error) != BASE_OK) {
        node_disconnect(node, &error);
        return;
    }
    node_hello(node);
}

static void node_welcomed(struct node *node)
{
    struct base_error error;
    const struct cluster_heartbeat_config config = {.coordinator = node->config->coordinator,
                                                    .name = node->config->name,
                                                    .incarnation = node->incarnation,
                                                    .key = node->config->key,
                                                    .work = &node->work,
                                                    .stuck_ns = CLUSTER_STUCK_NS};
    BASE_ASSERT(node->link && !node->heartbeat);
    cluster_link_trust(node->link);
    node->welcomed = true;
    node->complained = false;
    node->backoff_ns = NODE_BACKOFF_MIN_NS;
    enum base_status status = cluster_heartbeat_start(&config, &node->heartbeat, &error);
    if (status == BASE_OK)
        status = node_watch(node, cluster_heartbeat_fd(node->heartbeat), EPOLLIN, NODE_WATCH_HEARTBEAT, &error);
    if (status == BASE_OK)
        base_log_info("joined the cluster of %s", cluster_link_peer(node->link));
    else
        node_disconnect(node, &error);
}

static void node_refused(struct node *node, const struct base_error *error)
{
    if (error->status == BASE_VERSION) {
        node->fatal = BASE_VERSION;
        node->fatal_error = *error;
        return;
    }
    struct base_error why;
    base_error_set(&why, BASE_NODE_REFUSED, "refused by the coordinator: %s", error->text);
    node->backoff_ns = NODE_BACKOFF_MAX_NS;
    node_disconnect(node, &why);
}

static void node_message(struct node *node, struct cluster_message *message)
{
    struct base_error error;
    if (message->kind == CLUSTER_MESSAGE_REFUSED)
        node_refused(node, &message->refused.error);
    else if (message->kind == CLUSTER_MESSAGE_WELCOME && !node->welcomed)
        node_welcomed(node);
    else if (!node->welcomed || message->kind == CLUSTER_MESSAGE_WELCOME) {
        base_error_set(&error, BASE_PROTOCOL, "the coordinator sent %s out of turn",
                       cluster_message_name(message->kind));
        node_disconnect(node, &error);
    } else if (node_job_order(&node->job, message, &error) != BASE_OK) {
        node_disconnect(node, &error);
    } else if (message->kind == CLUSTER_MESSAGE_START) {
        node->progress_ns = base_clock_now_ns() + NODE_PROGRESS_NS;
    }
}

static void node_link_ready(struct node *node)
{
    struct base_error ended = {0};
    const enum base_status link_status = cluster_link_ready(node->link, base_clock_now_ns(), &ended);
    while (node->link && node->fatal == BASE_OK) {
        struct cluster_message message;
        memset(&message, 0, sizeof message);
        struct base_error error;
        const enum base_status status = cluster_link_receive(node->link, &message, &error);
        if (status == BASE_BUSY)
            break;
        if (status != BASE_OK) {
            node_disconnect(node, &error);
            return;
        }
        node_message(node, &message);
        cluster_message_free(&message);
    }
    if (!node->link)
        return;
    if (link_status != BASE_OK)
        node_disconnect(node, &ended);
    else
        node_watch_link(node);
}

/* ---- loop ---- */

static void node_crew_ready(struct node *node)
{
    struct cluster_crew_event event;
    while (cluster_crew_poll(node->crew, &event))
        node_job_crew_event(&node->job, &event);
}

static void node_signal(struct node *node)
{
    struct signalfd_siginfo signal_info;
    if (read(node->signal_fd, &signal_info, sizeof signal_info) != (ssize_t)sizeof signal_info)
        return;
    base_log_info("stopping");
    node->stopping = true;
    node_disconnect(node, NULL);
}

static void node_event(struct node *node, enum node_watch what)
{
    switch (what) {
    case NODE_WATCH_LINK:
        if (node->link)
            node_link_ready(node);
        break;
    case NODE_WATCH_CREW:
        node_crew_ready(node);
        break;
    case NODE_WATCH_RESOLVE:
        node_job_resolved(&node->job);
        break;
    case NODE_WATCH_HEARTBEAT:
        if (node->heartbeat && cluster_heartbeat_error(node->heartbeat)) {
            const struct base_error why = *cluster_heartbeat_error(node->heartbeat);
            node_disconnect(node, &why);
        }
        break;
    case NODE_WATCH_SIGNAL:
        node_signal(node);
        break;
    }
}

static uint64_t node_deadline_ns(const struct node *node)
{
    uint64_t deadline_ns = node->job.looking ? node->progress_ns : UINT64_MAX;
    deadline_ns = base_min_u64(deadline_ns, node_output_deadline_ns(&node->job.outputs));
    if (!node->link && node_job_idle(&node->job))
        deadline_ns = base_min_u64(deadline_ns, node->connect_ns);
    if (node->link)
        deadline_ns = base_min_u64(deadline_ns, cluster_link_deadline_ns(node->link));
    if (node->link && !node->welcomed)
        deadline_ns = base_min_u64(deadline_ns, node->welcome_deadline_ns);
    return deadline_ns;
}

static void node_time(struct node *node, uint64_t now_ns)
{
    struct base_error error;
    if (node->link && now_ns >= cluster_link_deadline_ns(node->link))
        node_link_ready(node);
    if (node->link && !node->welcomed && now_ns >= node->welcome_deadline_ns) {
        base_error_set(&error, BASE_TIMEOUT, "%s did not welcome this node in time", cluster_link_peer(node->link));
        node_disconnect(node, &error);
    }
    if (!node->link && !node->stopping && node_job_idle(&node->job) && now_ns >= node->connect_ns)
        node_connect(node, now_ns);
    node_output_retry(&node->job.outputs, now_ns);
    if (node->job.looking && now_ns >= node->progress_ns) {
        node_job_progress(&node->job);
        if (node->watch)
            node_job_look(&node->job, node->watch);
        node->progress_ns = now_ns + NODE_PROGRESS_NS;
    }
    if (node->unsaid)
        node_disconnect(node, &node->unsaid_error);
}

static enum base_status node_loop(struct node *node, struct base_error *error)
{
    for (uint64_t turn = 1; node->fatal == BASE_OK && !(node->stopping && node_job_idle(&node->job)); turn++) {
        atomic_store_explicit(&node->work, turn, memory_order_relaxed);
        uint64_t now_ns = base_clock_now_ns();
        node_time(node, now_ns);
        const uint64_t deadline_ns = node_deadline_ns(node);
        now_ns = base_clock_now_ns();
        int timeout_ms = -1;
        if (deadline_ns != UINT64_MAX)
            timeout_ms = deadline_ns > now_ns ? (int)((deadline_ns - now_ns) / BASE_NS_PER_MS + 1) : 0;
        struct epoll_event events[8];
        atomic_store_explicit(&node->work, 0, memory_order_relaxed);
        const int count = epoll_wait(node->epoll_fd, events, 8, timeout_ms);
        if (count < 0 && errno != EINTR)
            return base_error_set_errno(error, errno, "waiting for the coordinator");
        atomic_store_explicit(&node->work, ++turn, memory_order_relaxed);
        for (int i = 0; i < count; i++)
            node_event(node, (enum node_watch)events[i].data.u32);
    }
    if (node->fatal != BASE_OK)
        *error = node->fatal_error;
    return node->fatal;
}

/* For the log, and for who lists the nodes. */
static enum base_status node_placement(struct node *node, struct base_error *error)
{
    const size_t bytes = (size_t)node->config->workers * CLUSTER_PLACE_TEXT_BYTES + 1;
    node->placement = calloc(1, bytes);
    if (!node->placement)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the places of %u workers", node->config->workers);
    for (uint32_t i = 0; i < node->config->workers; i++) {
        char text[CLUSTER_PLACE_TEXT_BYTES];
        cluster_crew_place(node->crew, i, text);
        if (*text == '\0')
            continue;
        base_log_info("%s", text);
        const size_t used = strlen(node->placement);
        if (used < CLUSTER_TEXT_BYTES_MAX - 2 * CLUSTER_PLACE_TEXT_BYTES)
            snprintf(node->placement + used, bytes - used, "%s%s", used > 0 ? "; " : "", text);
    }
    return BASE_OK;
}

static enum base_status node_open(struct node *node, struct base_error *error)
{
    const struct cluster_node_config *config = node->config;
    enum base_status status = cluster_listen_allowed(&config->listen, config->key, config->open_to_all, error);
    if (status == BASE_OK)
        status = cluster_listen_reachable(&config->listen, error);
    if (status != BASE_OK)
        return status;
    if (getrandom(&node->incarnation, sizeof node->incarnation, 0) < 0)
        return base_error_set_errno(error, errno, "getrandom");
    /* Before the crew's threads are made, so that they inherit the mask. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    node->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    node->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    node->resolve_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (node->signal_fd < 0 || node->epoll_fd < 0 || node->resolve_fd < 0)
        return base_error_set_errno(error, errno, "cannot make an epoll, signal or event descriptor");
    status = base_governor_open(config->memory_bytes, &node->governor, error);
    struct cluster_place place = {0};
    if (status == BASE_OK)
        status = cluster_place_open(&config->place, config->workers, &place, error);
    const struct cluster_crew_config crew = {.workers = config->workers,
                                             .governor = node->governor,
                                             .listen = config->listen,
                                             .engine = config->engine,
                                             .pin = config->pin,
                                             .place = place,
                                             .key = config->key};
    if (status == BASE_OK)
        status = cluster_crew_open(&crew, &node->crew, error);
    if (status == BASE_OK)
        status = node_placement(node, error);
    if (status == BASE_OK)
        status = node_watch(node, cluster_crew_fd(node->crew), EPOLLIN, NODE_WATCH_CREW, error);
    if (status == BASE_OK)
        status = node_watch(node, node->signal_fd, EPOLLIN, NODE_WATCH_SIGNAL, error);
    if (status == BASE_OK)
        status = node_watch(node, node->resolve_fd, EPOLLIN, NODE_WATCH_RESOLVE, error);
    struct base_error why;
    if (status == BASE_OK && cluster_path_watch_open(&node->watch, &why) != BASE_OK)
        base_log_warn("%s: broken paths between live nodes will be detected late", why.text);
    node->job = (struct node_job){.node_name = config->name,
                                  .crew = node->crew,
                                  .workers = config->workers,
                                  .send = node_send,
                                  .send_context = node,
                                  .resolve_fd = node->resolve_fd};
    node_job_begin(&node->job);
    return status;
}

enum base_status cluster_node_run(const struct cluster_node_config *config, struct base_error *error)
{
    struct node node = {
        .config = config, .epoll_fd = -1, .signal_fd = -1, .resolve_fd = -1, .backoff_ns = NODE_BACKOFF_MIN_NS};
    enum base_status status = node_open(&node, error);
    if (status == BASE_OK)
        status = node_loop(&node, error);
    if (node.heartbeat)
        cluster_heartbeat_stop(node.heartbeat);
    if (node.link)
        cluster_link_close(node.link);
    if (node.crew)
        cluster_crew_close(node.crew);
    node_job_close(&node.job);
    if (node.watch)
        cluster_path_watch_close(node.watch);
    if (node.governor)
        base_governor_close(node.governor);
    free(node.placement);
    if (node.epoll_fd >= 0)
        close(node.epoll_fd);
    if (node.signal_fd >= 0)
        close(node.signal_fd);
    if (node.resolve_fd >= 0)
        close(node.resolve_fd);
    return status;
}
