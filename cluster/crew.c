/* Worker threads and what they share for a job.
 *
 * Who owns what. The control thread owns the crew, the plan, the queues and the mailroom; workers borrow them from the
 * prepare command until they report CLOSED, and nothing is freed before all have. A worker thread owns its engine and
 * its task. A listener outlives engines. What crosses threads: commands (shuffle_worker_post), the morsel queues
 * (atomic), and the answers here, under `lock`.
 *
 * A step is answered once, when the last worker reports it. CLOSED is special: the task reports it from inside its
 * turn, so the shell frees the task afterwards and only then counts it. */
#include "cluster/crew_internal.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"

/* ---- answers ---- */

/* Under the lock. */
static void crew_push(struct cluster_crew *crew, const struct cluster_crew_event *event)
{
    BASE_ASSERT(crew->event_count < CREW_EVENTS_MAX);
    crew->event[(crew->event_first + crew->event_count++) % CREW_EVENTS_MAX] = *event;
    const uint64_t one = 1;
    if (write(crew->event_fd, &one, sizeof one) != (ssize_t)sizeof one)
        base_log_error("crew: cannot signal the control thread");
}

static void crew_reached(struct cluster_crew *crew, enum join_step step)
{
    pthread_mutex_lock(&crew->lock);
    if (++crew->reached[step] == crew->config.workers) {
        crew->reached[step] = 0;
        crew_push(crew, &(struct cluster_crew_event){.kind = CLUSTER_CREW_STEP, .step = step});
    }
    pthread_mutex_unlock(&crew->lock);
}

static void crew_failed(struct cluster_crew *crew, uint32_t local, const struct base_error *error)
{
    pthread_mutex_lock(&crew->lock);
    if (!crew->failed) {
        crew->failed = true;
        crew_push(crew, &(struct cluster_crew_event){
                            .kind = CLUSTER_CREW_FAILED, .step = JOIN_STEP_FAILED, .worker = local, .error = *error});
    }
    pthread_mutex_unlock(&crew->lock);
}

/* What the share came to so far; on the worker's thread, while the task is there. */
static void member_snapshot(struct crew_member *member)
{
    struct cluster_crew_report report = {.peak_memory_bytes = base_governor_peak_bytes(member->crew->config.governor)};
    uint64_t user_ns, system_ns;
    base_clock_thread_cpu_ns(&user_ns, &system_ns);
    report.cpu_user_ns = user_ns - member->user_before_ns;
    report.cpu_system_ns = system_ns - member->system_before_ns;
    base_clock_thread_switches(&report.switches_voluntary, &report.switches_involuntary);
    report.switches_voluntary -= member->voluntary_before;
    report.switches_involuntary -= member->involuntary_before;
    report.iowq_workers = member->iowq_workers;
    report.facts = member->facts;
    const struct net_counters *now = net_engine_counters(member->engine);
#define X(name) report.counters.name = now->name - member->counters_before.name;
    NET_COUNTER_LIST(X)
#undef X
    report.wait_ns = report.counters.wait_ns;
    const uint64_t elapsed_ns = base_clock_now_ns() - member->prepared_ns;
    report.busy_ns = elapsed_ns > report.wait_ns ? elapsed_ns - report.wait_ns : 0;
    if (member->task != NULL)
        join_task_result(member->task, &report.sum);
    const uint64_t *sent =
        member->task != NULL ? join_task_sent_bytes(member->task) : bisect_task_sent_bytes(member->bisect);
    const uint64_t *received =
        member->task != NULL ? join_task_received_bytes(member->task) : bisect_task_received_bytes(member->bisect);
    const size_t bytes = member->crew->plan.workers * sizeof(uint64_t);
    pthread_mutex_lock(&member->crew->lock);
    member->report = report;
    memcpy(member->sent_bytes, sent, bytes);
    memcpy(member->received_bytes, received, bytes);
    pthread_mutex_unlock(&member->crew->lock);
}

/* What can only be seen while the job runs, and is the same for all workers of a node: the first one looks. */
static void member_look(struct crew_member *member, int step)
{
    struct net_socket_facts facts;
    if (member->local != 0 || member->task == NULL)
        return;
    if ((step == JOIN_STEP_CONNECTED || step == JOIN_STEP_FINISHED) && join_task_socket_facts(member->task, &facts))
        member->facts = facts;
    if (step == JOIN_STEP_SEALED || step == JOIN_STEP_FINISHED) {
        const uint32_t workers = net_iowq_workers();
        if (workers > member->iowq_before + member->iowq_workers)
            member->iowq_workers = workers - member->iowq_before;
    }
}

/* join_task_config.report: on the worker's thread, inside the task's turn or a command. */
void crew_member_report(void *context, uint32_t worker, int step, const struct base_error *error)
{
    (void)worker;
    struct crew_member *member = context;
    if (step == JOIN_STEP_CLOSED) {
        member->task_closed = true;
        return;
    }
    member_look(member, step);
    if (step == JOIN_STEP_FINISHED)
        member_snapshot(member);
    if (step == JOIN_STEP_MEASURED)
        crew_bisect_collect(member);
    if (step == JOIN_STEP_FAILED)
        crew_failed(member->crew, member->local, error);
    else
        crew_reached(member->crew, (enum join_step)step);
}

static void crew_low(void *context)
{
    struct crew_low *low = context;
    if (atomic_exchange_explicit(&low->pending, true, memory_order_relaxed))
        return;
    pthread_mutex_lock(&low->crew->lock);
    crew_push(low->crew, &(struct cluster_crew_event){.kind = CLUSTER_CREW_LOW, .side = low->side});
    pthread_mutex_unlock(&low->crew->lock);
}

/* ---- on a worker's thread ---- */

static bool member_engine_fits(const struct crew_member *member, const struct net_engine_choice *choice,
                               const struct net_engine_config *config)
{
    const struct net_engine_config *have = &member->engine_config;
    return member->engine != NULL && net_engine_choice_equal(&member->engine_choice, choice) &&
           have->sockets_max >= config->sockets_max && have->recv_chunk_bytes == config->recv_chunk_bytes &&
           have->recv_chunk_count == config->recv_chunk_count && have->features == config->features &&
           net_socket_settings_equal(&have->socket, &config->socket);
}

/* For control thread and clients: what the engines of this node are. The log has it at the start, and when a job brings
 * news; not with every job. */
static void member_tell_engine(const struct crew_member *member)
{
    struct cluster_crew *crew = member->crew;
    const bool renamed = strcmp(crew->engine_name, net_engine_name(member->engine)) != 0;
    /* A job on another engine may come between: what is true of the machine is said once all the same. */
    const bool reasoned = strcmp(crew->engine_warned, net_engine_reason(member->engine)) != 0;
    pthread_mutex_lock(&crew->lock);
    snprintf(crew->engine_name, sizeof crew->engine_name, "%s", net_engine_name(member->engine));
    snprintf(crew->engine_features, sizeof crew->engine_features, "%s", net_engine_features(member->engine));
    snprintf(crew->engine_reason, sizeof crew->engine_reason, "%s", net_engine_reason(member->engine));
    /* What the kernel does not have; what a limit took away another job may have. */
    crew->missing |= net_engine_missing(member->engine) & NET_FEATURE_SEND_ZC;
    pthread_mutex_unlock(&crew->lock);
    if (*crew->engine_reason && reasoned) {
        snprintf(crew->engine_warned, sizeof crew->engine_warned, "%s", crew->engine_reason);
        base_log_warn("engine %s: %s (`millrace doctor' says more)", crew->engine_name, crew->engine_reason);
    } else if (renamed) {
        base_log_info("engine %s: %s", crew->engine_name, crew->engine_features);
    }
}

static enum base_status member_open_engine(struct crew_member *member, const struct net_engine_choice *choice,
                                           const struct net_engine_config *config, struct base_error *error)
{
    struct net_engine *made;
    enum base_status status = net_engine_open(choice, config, &made, error);
    if (status != BASE_OK)
        return status;
    status = net_engine_enable(made, error);
    if (status != BASE_OK) {
        net_engine_close(made);
        return status;
    }
    shuffle_worker_set_engine(member->worker, made);
    member->engine = made;
    member->engine_choice = *choice;
    member->engine_config = *config;
    if (member->local == 0)
        member_tell_engine(member);
    return BASE_OK;
}

static void member_close_engine(struct crew_member *member)
{
    struct net_engine *engine = member->engine;
    shuffle_worker_set_engine(member->worker, NULL);
    member->engine = NULL;
    net_engine_close(engine);
}

/* A worker hears orders through its engine: after the one that a job asked for could not be had, it goes back to the
 * one it had, or to the least there is. Memory and descriptors for that were free a moment ago; should another have
 * taken them, trying again is all that is left. */
static void member_restore_engine(struct crew_member *member, const struct net_engine_choice *choice,
                                  const struct net_engine_config *config)
{
    const struct net_engine_choice least_choice = {.kind = NET_ENGINE_EPOLL};
    const struct net_engine_config least = {.sockets_max = SHUFFLE_MESH_STRANGERS_MAX,
                                            .file_ops_max = CREW_FILE_OPS,
                                            .recv_chunk_bytes = CREW_LEAST_CHUNK_BYTES,
                                            .recv_chunk_count = 1,
                                            .governor = config->governor};
    struct base_error error;
    while (member_open_engine(member, choice, config, &error) != BASE_OK &&
           member_open_engine(member, &least_choice, &least, &error) != BASE_OK) {
        base_log_error("worker %u has no engine, trying again: %s", member->local, error.text);
        (void)poll(NULL, 0, CREW_ENGINE_RETRY_MS);
    }
}

/* Opens an engine in the place of one just closed that had these features. What a user may lock is shared with the
 * closed ring until the kernel is done with that: what the one before had and this one lacks is worth another try. */
static enum base_status member_replace_engine(struct crew_member *member, const struct net_engine_choice *choice,
                                              const struct net_engine_config *config, uint32_t had,
                                              struct base_error *error)
{
    for (int turn = 0;; turn++) {
        const enum base_status status = member_open_engine(member, choice, config, error);
        const bool lost =
            status == BASE_OK ? net_engine_missing(member->engine) & had : status == BASE_NO_MEMORY && had != 0;
        if (!lost || turn == CREW_RING_GONE_TURNS)
            return status;
        if (status == BASE_OK)
            member_close_engine(member);
        (void)poll(NULL, 0, CREW_RING_GONE_MS);
    }
}

/* Opens the engine a job asks for, unless the one at hand fits. The one at hand is closed first: a tight budget has no
 * room for both. */
static enum base_status member_engine(struct crew_member *member, const struct net_engine_choice *choice,
                                      const struct net_engine_config *config, struct base_error *error)
{
    if (member_engine_fits(member, choice, config))
        return BASE_OK;
    if (member->engine == NULL)
        return member_open_engine(member, choice, config, error);
    const struct net_engine_choice before_choice = member->engine_choice;
    const struct net_engine_config before = member->engine_config;
    const uint32_t had = net_engine_in_force(member->engine);
    member_close_engine(member);
    const enum base_status status = member_replace_engine(member, choice, config, had, error);
    if (status != BASE_OK)
        member_restore_engine(member, &before_choice, &before);
    return status;
}

static enum base_status member_open_join(struct crew_member *member, struct base_error *error)
{
    struct cluster_crew *crew = member->crew;
    const struct join_task_config config = {.plan = &crew->plan,
                                            .worker = crew->first_worker + member->local,
                                            .local_first = crew->first_worker,
                                            .local_count = crew->config.workers,
                                            .engine = member->engine,
                                            .governor = crew->config.governor,
                                            .mailroom = crew->mailroom,
                                            .listener_fd = member->listener_fd,
                                            .key = crew->config.key,
                                            .queue = {crew->queue[0], crew->queue[1]},
                                            .survey = {crew->survey[0], crew->survey[1]},
                                            .surveys = {crew->surveys[0], crew->surveys[1]},
                                            .report = crew_member_report,
                                            .context = member};
    const enum base_status status = join_task_open(&config, &member->task, error);
    if (status == BASE_OK)
        shuffle_worker_set_task(member->worker, join_task_base(member->task));
    return status;
}

/* Says why the job's engines are what they are; missing: what turned out not to be there. */
static void crew_tell_decision(struct cluster_crew *crew, uint32_t missing)
{
    const struct net_traffic traffic = join_plan_traffic(&crew->plan, crew->config.workers);
    struct net_chosen chosen;
    pthread_mutex_lock(&crew->lock);
    net_choose(crew->choice.kind, &traffic, &crew->experience, crew->missing | missing, &chosen);
    snprintf(crew->engine_decision, sizeof crew->engine_decision, "%s", chosen.why);
    pthread_mutex_unlock(&crew->lock);
}

/* Who gives a node a card's queues wants them used: what is chosen for a job has zero-copy receive with them. */
static uint32_t member_features(const struct cluster_crew *crew)
{
    const uint32_t chosen = crew->chosen.features;
    return *crew->config.place.nic && (chosen & NET_FEATURE_MULTISHOT) ? chosen | NET_FEATURE_RECV_ZC : chosen;
}

static enum base_status member_prepare(struct crew_member *member, struct base_error *error)
{
    struct cluster_crew *crew = member->crew;
    const struct join_settings *settings = &crew->plan.settings;
    const struct net_engine_config engine_config = {.sockets_max = crew->plan.workers + SHUFFLE_MESH_STRANGERS_MAX,
                                                    .file_ops_max = CREW_FILE_OPS,
                                                    .recv_chunk_bytes = crew->chosen.chunk_bytes,
                                                    .recv_chunk_count = crew->chosen.chunk_count,
                                                    .features = member_features(crew),
                                                    .socket = settings->socket,
                                                    .queue = cluster_place_queue(&crew->config.place, member->local),
                                                    .ports = cluster_place_ports(&crew->config.place, member->local),
                                                    .governor = crew->config.governor};
    enum base_status status = member_engine(member, &crew->choice, &engine_config, error);
    if (status != BASE_OK)
        return status;
    if (member->local == 0 && net_engine_missing(member->engine) != 0)
        crew_tell_decision(crew, net_engine_missing(member->engine));
    atomic_store_explicit(&member->progress_rows, 0, memory_order_relaxed);
    if (crew->mailroom != NULL)
        shuffle_mailroom_register(crew->mailroom, member->local, member->engine);
    shuffle_worker_set_mailroom(member->worker, crew->mailroom);
    status = crew->plan.kind == JOIN_JOB_BISECT ? crew_bisect_open(member, error) : member_open_join(member, error);
    if (status != BASE_OK)
        return status;
    /* Only now: what a preloaded source cost to make is not the job's. */
    member->counters_before = *net_engine_counters(member->engine);
    base_clock_thread_cpu_ns(&member->user_before_ns, &member->system_before_ns);
    base_clock_thread_switches(&member->voluntary_before, &member->involuntary_before);
    member->iowq_workers = 0;
    if (member->local == 0)
        member->iowq_before = net_iowq_workers();
    member->facts = (struct net_socket_facts){0};
    member->prepared_ns = base_clock_now_ns();
    return BASE_OK;
}

static void command_prepare(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    struct base_error error = {0};
    if (member_prepare(member, &error) == BASE_OK)
        crew_reached(member->crew, JOIN_STEP_OPENED);
    else
        crew_failed(member->crew, member->local, &error);
}

static void command_survey(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->task != NULL)
        join_task_survey(member->task);
}

static void command_connect(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->task != NULL)
        join_task_connect(member->task);
    if (member->bisect != NULL)
        bisect_task_connect(member->bisect);
}

static void command_start_0(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->task != NULL)
        join_task_start(member->task, 0);
}

static void command_start_1(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->task != NULL)
        join_task_start(member->task, 1);
}

/* A worker whose task never opened has nothing to close, but leaves the mailroom like the others. */
static void member_close(struct crew_member *member, bool abort)
{
    if (member->task != NULL) {
        join_task_close(member->task, abort);
        return;
    }
    if (member->bisect != NULL) {
        bisect_task_close(member->bisect, abort);
        return;
    }
    if (member->crew->mailroom != NULL)
        shuffle_mailroom_leave(member->crew->mailroom, member->local);
    member->task_closed = true;
}

static void command_finish(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    member_close(argument, false);
}

static void command_abort(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    member_close(argument, true);
}

static void command_quit(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    ((struct crew_member *)argument)->quit = true;
}

/* What the job taught about this node's ways. */
static void member_learn(const struct crew_member *member)
{
    const struct net_counters *counters = &member->report.counters;
    struct net_experience *experience = &member->crew->experience;
    pthread_mutex_lock(&member->crew->lock);
    experience->zc_sends += counters->zc_sends;
    experience->zc_copied += counters->zc_copied;
    experience->zc_off += counters->zc_off;
    experience->receives += counters->receives;
    experience->received_bytes += counters->received_bytes;
    experience->receive_capacity_bytes += counters->receives * member->engine_config.recv_chunk_bytes;
    experience->receive_starved += counters->receive_starved;
    pthread_mutex_unlock(&member->crew->lock);
}

/* After the turn in which the task closed: free it, then answer. */
static void member_closed(struct crew_member *member)
{
    member->task_closed = false;
    shuffle_worker_set_task(member->worker, NULL);
    shuffle_worker_set_mailroom(member->worker, NULL);
    if (member->task != NULL || member->bisect != NULL) {
        member_snapshot(member);
        member_learn(member);
    }
    join_task_free(member->task);
    bisect_task_free(member->bisect);
    member->task = NULL;
    member->bisect = NULL;
    crew_reached(member->crew, JOIN_STEP_CLOSED);
}

static void *member_main(void *argument)
{
    struct crew_member *member = argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", member->local);
    pthread_setname_np(pthread_self(), name);
    if (member->crew->config.pin)
        member->memory_node =
            cluster_place_pin(&member->crew->config.place, member->local, member->crew->config.workers);
    const struct net_engine_config config = {.sockets_max = SHUFFLE_MESH_STRANGERS_MAX,
                                             .file_ops_max = CREW_FILE_OPS,
                                             .recv_chunk_bytes = NET_CHUNK_BYTES,
                                             .recv_chunk_count = NET_CHUNK_COUNT,
                                             .queue = cluster_place_queue(&member->crew->config.place, member->local),
                                             .ports = cluster_place_ports(&member->crew->config.place, member->local),
                                             .governor = member->crew->config.governor};
    struct base_error error = {0};
    if (member_engine(member, &member->crew->config.engine, &config, &error) != BASE_OK) {
        crew_failed(member->crew, member->local, &error);
        return NULL;
    }
    crew_reached(member->crew, JOIN_STEP_OPENED);
    while (!member->quit) {
        shuffle_worker_turn(member->worker, &shuffle_budget_default, true);
        if (member->task != NULL)
            atomic_store_explicit(&member->progress_rows, join_task_rows_scanned(member->task), memory_order_relaxed);
        if (member->task_closed)
            member_closed(member);
    }
    member_close_engine(member);
    return NULL;
}

/* ---- opening and closing ---- */

static enum base_status crew_open_member(struct cluster_crew *crew, uint32_t local, struct base_error *error)
{
    struct crew_member *member = &crew->member[local];
    member->crew = crew;
    member->local = local;
    member->memory_node = CLUSTER_MEMORY_NODE_ANY;
    const struct net_port_block ports = cluster_place_ports(&crew->config.place, local);
    enum base_status status = net_listen_within(&crew->config.listen, &ports, CREW_LISTEN_BACKLOG, &member->listener_fd,
                                                &crew->address[local], error);
    if (status == BASE_OK)
        status = shuffle_worker_open(local, &member->worker, error);
    if (status != BASE_OK)
        return status;
    const int failed = pthread_create(&member->thread, NULL, member_main, member);
    if (failed != 0)
        return base_error_set_errno(error, failed, "cannot start the thread of worker %u", local);
    member->started = true;
    return BASE_OK;
}

/* Blocks until there is an answer. Every worker answers every order in bounded time. */
static void crew_await(struct cluster_crew *crew, struct cluster_crew_event *event)
{
    struct pollfd answers = {.fd = crew->event_fd, .events = POLLIN};
    while (!cluster_crew_poll(crew, event))
        (void)poll(&answers, 1, -1);
}

/* Waits until every worker runs its engine, or one said why not. */
static enum base_status crew_await_open(struct cluster_crew *crew, struct base_error *error)
{
    struct cluster_crew_event event;
    do {
        crew_await(crew, &event);
        if (event.kind == CLUSTER_CREW_FAILED) {
            *error = event.error;
            return event.error.status;
        }
    } while (event.kind != CLUSTER_CREW_STEP || event.step != JOIN_STEP_OPENED);
    return BASE_OK;
}

enum base_status cluster_crew_open(const struct cluster_crew_config *config, struct cluster_crew **crew,
                                   struct base_error *error)
{
    struct cluster_crew *made = calloc(1, sizeof *made);
    if (made == NULL)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for %u workers", config->workers);
    made->config = *config;
    pthread_mutex_init(&made->lock, NULL);
    made->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->member = calloc(config->workers, sizeof *made->member);
    made->address = calloc(config->workers, sizeof *made->address);
    enum base_status status = BASE_OK;
    if (made->event_fd < 0 || made->member == NULL || made->address == NULL)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory or descriptors for %u workers", config->workers);
    for (uint32_t i = 0; i < config->workers && made->member != NULL; i++)
        made->member[i].listener_fd = -1;
    for (uint32_t i = 0; i < config->workers && status == BASE_OK; i++)
        status = crew_open_member(made, i, error);
    if (status == BASE_OK)
        status = crew_await_open(made, error);
    if (status != BASE_OK) {
        cluster_crew_close(made);
        return status;
    }
    *crew = made;
    return BASE_OK;
}

void crew_post_all(struct cluster_crew *crew, shuffle_command_fn *command)
{
    for (uint32_t i = 0; i < crew->config.workers; i++)
        if (crew->member[i].started &&
            shuffle_worker_post(crew->member[i].worker, command, &crew->member[i]) != BASE_OK)
            base_log_error("no memory for a command to worker %u", i);
}

/* Frees what a job had; every worker has let go of it. */
static void crew_forget_job(struct cluster_crew *crew)
{
    for (uint32_t side = 0; side < CREW_SIDES; side++) {
        shuffle_morsel_queue_close(crew->queue[side]);
        shuffle_morsel_queue_close(crew->survey[side]);
        free(crew->surveys[side]);
        crew->queue[side] = crew->survey[side] = NULL;
        crew->surveys[side] = NULL;
    }
    shuffle_mailroom_close(crew->mailroom);
    crew->mailroom = NULL;
    crew_bisect_forget(crew);
    join_plan_free(&crew->plan);
    crew->active = false;
}

void cluster_crew_close(struct cluster_crew *crew)
{
    if (crew == NULL)
        return;
    if (crew->active) {
        cluster_crew_release(crew, true);
        struct cluster_crew_event event;
        while (crew->active)
            crew_await(crew, &event);
    }
    crew_post_all(crew, command_quit);
    for (uint32_t i = 0; i < crew->config.workers && crew->member != NULL; i++) {
        struct crew_member *member = &crew->member[i];
        if (member->started)
            pthread_join(member->thread, NULL);
        shuffle_worker_close(member->worker);
        if (member->listener_fd >= 0)
            close(member->listener_fd);
        free(member->sent_bytes);
        free(member->received_bytes);
    }
    if (crew->event_fd >= 0)
        close(crew->event_fd);
    pthread_mutex_destroy(&crew->lock);
    free(crew->node);
    free(crew->member);
    free(crew->address);
    free(crew);
}

void cluster_crew_place(const struct cluster_crew *crew, uint32_t worker, char text[CLUSTER_PLACE_TEXT_BYTES])
{
    cluster_place_describe(&crew->config.place, worker, crew->member[worker].memory_node, text);
}

const struct net_address *cluster_crew_addresses(const struct cluster_crew *crew)
{
    return crew->address;
}

struct cluster_crew_engine cluster_crew_engine(const struct cluster_crew *crew)
{
    return (struct cluster_crew_engine){.name = crew->engine_name,
                                        .features = crew->engine_features,
                                        .reason = crew->engine_reason,
                                        .decision = crew->engine_decision};
}

/* ---- orders ---- */

static enum base_status crew_make_side(struct cluster_crew *crew, uint32_t side, uint64_t capacity, bool survey,
                                       struct base_error *error)
{
    crew->low[side].crew = crew;
    crew->low[side].side = side;
    atomic_store(&crew->low[side].pending, false);
    enum base_status status = shuffle_morsel_queue_open(capacity, 2 * crew->config.workers, crew_low, &crew->low[side],
                                                        &crew->queue[side], error);
    if (status != BASE_OK || !survey)
        return status;
    status = shuffle_morsel_queue_open(capacity, 0, NULL, NULL, &crew->survey[side], error);
    crew->surveys[side] = calloc(capacity, sizeof *crew->surveys[side]);
    if (status == BASE_OK && crew->surveys[side] == NULL)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for the survey of %llu morsels",
                                (unsigned long long)capacity);
    return status;
}

/* Room for what each worker's share comes to. It stays until the next job. */
static enum base_status crew_make_reports(struct cluster_crew *crew, struct base_error *error)
{
    free(crew->node);
    crew->node_count = crew->plan.node_count;
    crew->node = calloc(crew->node_count, sizeof *crew->node);
    if (crew->node == NULL)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the report of %u nodes", crew->node_count);
    memcpy(crew->node, crew->plan.node, crew->node_count * sizeof *crew->node);
    for (uint32_t i = 0; i < crew->config.workers; i++) {
        struct crew_member *member = &crew->member[i];
        free(member->sent_bytes);
        free(member->received_bytes);
        member->sent_bytes = calloc(crew->plan.workers, sizeof(uint64_t));
        member->received_bytes = calloc(crew->plan.workers, sizeof(uint64_t));
        member->report = (struct cluster_crew_report){0};
        if (member->sent_bytes == NULL || member->received_bytes == NULL)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the report of %u workers", crew->plan.workers);
    }
    return BASE_OK;
}

/* What the job's engines are made of. Decided once, so that all workers of the node have the same. */
static void crew_choose(struct cluster_crew *crew)
{
    const struct net_engine_choice *asked = &crew->plan.settings.engine;
    const struct net_traffic traffic = join_plan_traffic(&crew->plan, crew->config.workers);
    crew->choice = asked->kind == NET_ENGINE_AUTO ? crew->config.engine : *asked;
    pthread_mutex_lock(&crew->lock);
    net_experience_age(&crew->experience);
    net_choose(crew->choice.kind, &traffic, &crew->experience, crew->missing, &crew->chosen);
    pthread_mutex_unlock(&crew->lock);
    crew_tell_decision(crew, 0);
}

enum base_status cluster_crew_prepare(struct cluster_crew *crew, struct join_plan *plan, uint32_t first_worker,
                                      const uint64_t morsel_capacity[2], const bool survey[2], struct base_error *error)
{
    BASE_ASSERT(!crew->active);
    crew->plan = *plan;
    memset(plan, 0, sizeof *plan);
    crew->first_worker = first_worker;
    crew->failed = false;
    memset(crew->reached, 0, sizeof crew->reached);
    base_governor_peak_reset(crew->config.governor);
    crew_choose(crew);
    enum base_status status = crew_make_reports(crew, error);
    for (uint32_t side = 0; side < crew->plan.sides && status == BASE_OK; side++)
        status = crew_make_side(crew, side, morsel_capacity[side], survey[side], error);
    if (status == BASE_OK && crew->config.workers > 1)
        status = shuffle_mailroom_open(crew->config.workers, CREW_SIDES * (crew->plan.settings.frames_per_lane + 1),
                                       &crew->mailroom, error);
    if (status != BASE_OK) {
        crew_forget_job(crew);
        return status;
    }
    crew->active = true;
    crew_post_all(crew, command_prepare);
    return BASE_OK;
}

/* Orders need a job: one that comes late, after the job was released, is answered by an error. */
enum base_status crew_need_job(const struct cluster_crew *crew, struct base_error *error)
{
    return crew->active ? BASE_OK : base_error_set(error, BASE_INVALID, "no job is prepared on this node");
}

static enum base_status crew_lend_to(struct cluster_crew *crew, struct shuffle_morsel_queue *queue,
                                     const struct shuffle_morsel *morsels, uint64_t count, bool end,
                                     struct base_error *error)
{
    if (queue == NULL)
        return base_error_set(error, BASE_INVALID, "morsels for a side that this job does not have");
    const enum base_status status = shuffle_morsel_queue_append(queue, morsels, count, error);
    if (status != BASE_OK)
        return status;
    if (end)
        shuffle_morsel_queue_end(queue);
    for (uint32_t i = 0; i < crew->config.workers; i++)
        shuffle_worker_wake(crew->member[i].worker);
    return BASE_OK;
}

enum base_status cluster_crew_lend_survey(struct cluster_crew *crew, uint32_t side,
                                          const struct shuffle_morsel *morsels, uint64_t count, bool end,
                                          struct base_error *error)
{
    const enum base_status status = crew_need_job(crew, error);
    return status == BASE_OK ? crew_lend_to(crew, crew->survey[side], morsels, count, end, error) : status;
}

enum base_status cluster_crew_lend(struct cluster_crew *crew, uint32_t side, const struct shuffle_morsel *morsels,
                                   uint64_t count, bool end, struct base_error *error)
{
    const enum base_status status = crew_need_job(crew, error);
    if (status != BASE_OK)
        return status;
    atomic_store_explicit(&crew->low[side].pending, false, memory_order_relaxed);
    return crew_lend_to(crew, crew->queue[side], morsels, count, end, error);
}

static enum base_status crew_order(struct cluster_crew *crew, shuffle_command_fn *command, struct base_error *error)
{
    const enum base_status status = crew_need_job(crew, error);
    if (status == BASE_OK)
        crew_post_all(crew, command);
    return status;
}

enum base_status cluster_crew_survey(struct cluster_crew *crew, struct base_error *error)
{
    return crew_order(crew, command_survey, error);
}

const struct shuffle_survey *cluster_crew_surveyed(const struct cluster_crew *crew, uint32_t side, uint64_t index)
{
    return &crew->surveys[side][index];
}

enum base_status cluster_crew_connect(struct cluster_crew *crew, struct base_error *error)
{
    return crew_order(crew, command_connect, error);
}

enum base_status cluster_crew_start(struct cluster_crew *crew, uint32_t pass, struct base_error *error)
{
    return crew_order(crew, pass == 0 ? command_start_0 : command_start_1, error);
}

void cluster_crew_release(struct cluster_crew *crew, bool abort)
{
    if (crew->active)
        crew_post_all(crew, abort ? command_abort : command_finish);
}

/* ---- answers, for the control thread ---- */

int cluster_crew_fd(const struct cluster_crew *crew)
{
    return crew->event_fd;
}

bool cluster_crew_poll(struct cluster_crew *crew, struct cluster_crew_event *event)
{
    pthread_mutex_lock(&crew->lock);
    const bool any = crew->event_count > 0;
    if (any) {
        *event = crew->event[crew->event_first];
        crew->event_first = (crew->event_first + 1) % CREW_EVENTS_MAX;
        crew->event_count--;
    } else {
        uint64_t count;
        if (read(crew->event_fd, &count, sizeof count) < 0) { /* EAGAIN: it was not set */
        }
    }
    pthread_mutex_unlock(&crew->lock);
    if (any && event->kind == CLUSTER_CREW_STEP && event->step == JOIN_STEP_MEASURED)
        crew->measuring = false;
    if (any && event->kind == CLUSTER_CREW_STEP && event->step == JOIN_STEP_CLOSED)
        crew_forget_job(crew);
    return any;
}

uint64_t cluster_crew_progress_rows(const struct cluster_crew *crew)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < crew->config.workers; i++)
        rows += atomic_load_explicit(&crew->member[i].progress_rows, memory_order_relaxed);
    return rows;
}

static void crew_add(struct cluster_crew_report *sum, const struct cluster_crew_report *one)
{
    struct join_task_result *total = &sum->sum;
    const struct join_task_result *share = &one->sum;
    total->rows += share->rows;
    total->checksum += share->checksum;
    total->output_bytes += share->output_bytes;
    for (uint32_t side = 0; side < CREW_SIDES; side++) {
        total->rows_scanned[side] += share->rows_scanned[side];
        total->input_bytes[side] += share->input_bytes[side];
    }
    total->rows_received += share->rows_received;
    total->table_rows += share->table_rows;
    total->table_bytes += share->table_bytes;
    total->rows_cut += share->rows_cut;
    total->stitched_bytes += share->stitched_bytes;
    total->joined_bytes += share->joined_bytes;
    total->table_copied_bytes += share->table_copied_bytes;
    total->stalls_frame += share->stalls_frame;
    total->stalls_output += share->stalls_output;
    total->stalls_input += share->stalls_input;
    if (share->scan_begin_ns != 0 && (total->scan_begin_ns == 0 || share->scan_begin_ns < total->scan_begin_ns))
        total->scan_begin_ns = share->scan_begin_ns;
    total->stream_end_ns = share->stream_end_ns > total->stream_end_ns ? share->stream_end_ns : total->stream_end_ns;
    sum->cpu_user_ns += one->cpu_user_ns;
    sum->cpu_system_ns += one->cpu_system_ns;
    sum->busy_ns += one->busy_ns;
    sum->wait_ns += one->wait_ns;
    sum->switches_voluntary += one->switches_voluntary;
    sum->switches_involuntary += one->switches_involuntary;
    sum->iowq_workers = base_max_u64(sum->iowq_workers, one->iowq_workers);
    sum->peak_memory_bytes = base_max_u64(sum->peak_memory_bytes, one->peak_memory_bytes);
    if (one->facts.known)
        sum->facts = one->facts;
#define X(name) sum->counters.name += one->counters.name;
    NET_COUNTER_LIST(X)
#undef X
}

void cluster_crew_report(const struct cluster_crew *crew, struct cluster_crew_report *report, uint64_t *sent_bytes,
                         uint64_t *received_bytes)
{
    *report = (struct cluster_crew_report){0};
    memset(sent_bytes, 0, crew->node_count * sizeof *sent_bytes);
    memset(received_bytes, 0, crew->node_count * sizeof *received_bytes);
    pthread_mutex_t *lock = (pthread_mutex_t *)&crew->lock;
    pthread_mutex_lock(lock);
    for (uint32_t i = 0; i < crew->config.workers; i++) {
        crew_add(report, &crew->member[i].report);
        for (uint32_t node = 0; node < crew->node_count; node++)
            for (uint32_t w = crew->node[node].first; w < crew->node[node].first + crew->node[node].count; w++) {
                sent_bytes[node] += crew->member[i].sent_bytes[w];
                received_bytes[node] += crew->member[i].received_bytes[w];
            }
    }
    pthread_mutex_unlock(lock);
}
