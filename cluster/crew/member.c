/* What a worker's thread does: opens the engine that a job asks for, runs the job's task, and counts what it came to.
 *
 * Commands come from the control thread through the worker's own queue. A step is answered by crew_reached, a failure
 * once by crew_failed; CLOSED is special: the task reports it from inside its turn, so the shell frees the task
 * afterwards and only then counts it. */
#include "cluster/crew/internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/engine/iowq.h"
#include "net/open.h"

/* ---- what it came to ---- */

/* What the share came to so far; on the worker's thread, while the task is there. */
static void member_snapshot(struct crew_member *member)
{
    struct cluster_work report = {.facts = member->facts};
    struct cluster_measures *sum = &report.sum;
    sum->peak_memory_bytes = base_governor_peak_bytes(member->crew->config.governor);
    base_clock_thread_cpu_ns(&sum->cpu_user_ns, &sum->cpu_system_ns);
    sum->cpu_user_ns -= member->user_before_ns;
    sum->cpu_system_ns -= member->system_before_ns;
    base_clock_thread_switches(&sum->switches_voluntary, &sum->switches_involuntary);
    sum->switches_voluntary -= member->voluntary_before;
    sum->switches_involuntary -= member->involuntary_before;
    sum->iowq_workers = member->iowq_workers;
    const struct net_counters *now = net_engine_counters(member->engine);
#define X(name, unit, over_workers, ...)                                                                               \
    _Static_assert(BASE_FOLD_##over_workers == BASE_FOLD_SUM, #name ": only sums have a difference");                  \
    sum->counters.name = now->name - member->counters_before.name;
    NET_COUNTER_LIST(X)
#undef X
    sum->idle_ns = sum->counters.wait_ns;
    const uint64_t elapsed_ns = base_clock_now_ns() - member->prepared_ns;
    sum->busy_ns = elapsed_ns > sum->idle_ns ? elapsed_ns - sum->idle_ns : 0;
    if (member->join)
        join_task_result(member->join, &sum->task);
    const uint64_t *sent = shuffle_mesh_sent_bytes(member->task->mesh);
    const uint64_t *received = shuffle_mesh_received_bytes(member->task->mesh);
    const size_t bytes = member->crew->plan.job.workers * sizeof(uint64_t);
    pthread_mutex_lock(&member->crew->lock);
    member->report = report;
    memcpy(member->sent_bytes, sent, bytes);
    memcpy(member->received_bytes, received, bytes);
    pthread_mutex_unlock(&member->crew->lock);
}

/* What can only be seen while the job runs, and is the same for all workers of a node: the first one looks. */
static void member_look(struct crew_member *member, enum cluster_step_kind step)
{
    struct net_socket_facts facts;
    if (member->local != 0 || !member->join)
        return;
    if ((step == CLUSTER_STEP_CONNECTED || step == CLUSTER_STEP_FINISHED) &&
        shuffle_mesh_socket_facts(member->task->mesh, &facts))
        member->facts = facts;
    if (step == CLUSTER_STEP_SEALED || step == CLUSTER_STEP_FINISHED) {
        const uint32_t workers = net_iowq_workers();
        if (workers > member->iowq_before + member->iowq_workers)
            member->iowq_workers = workers - member->iowq_before;
    }
}

/* The pass of a side has ended: what it left out. */
static void member_add_rejects(const struct crew_member *member, uint32_t side)
{
    const struct shuffle_rejects *rejects = member->join ? join_task_rejects(member->join, side) : NULL;
    if (!rejects)
        return;
    pthread_mutex_lock(&member->crew->lock);
    shuffle_rejects_merge(&member->crew->rejects[side], rejects);
    pthread_mutex_unlock(&member->crew->lock);
}

static enum cluster_step_kind member_step(const struct crew_member *member, int step)
{
    static const enum cluster_step_kind common[SHUFFLE_STEP_OWN] = {[SHUFFLE_STEP_CONNECTED] = CLUSTER_STEP_CONNECTED,
                                                                    [SHUFFLE_STEP_FINISHED] = CLUSTER_STEP_FINISHED,
                                                                    [SHUFFLE_STEP_CLOSED] = CLUSTER_STEP_CLOSED,
                                                                    [SHUFFLE_STEP_FAILED] = CLUSTER_STEP_FAILED};
    static const enum cluster_step_kind join[] = {[JOIN_STEP_SURVEYED - SHUFFLE_STEP_OWN] = CLUSTER_STEP_SURVEYED,
                                                  [JOIN_STEP_SEALED - SHUFFLE_STEP_OWN] = CLUSTER_STEP_SEALED,
                                                  [JOIN_STEP_FAULT - SHUFFLE_STEP_OWN] = CLUSTER_STEP_FAULT,
                                                  [JOIN_STEP_HALTED - SHUFFLE_STEP_OWN] = CLUSTER_STEP_HALTED};
    if (step < SHUFFLE_STEP_OWN)
        return common[step];
    if (member->join)
        return join[step - SHUFFLE_STEP_OWN];
    BASE_ASSERT(member->bisect && step == BISECT_STEP_MEASURED);
    return CLUSTER_STEP_MEASURED;
}

/* shuffle_task_config.report: on the worker's thread, inside the task's turn or a command. */
static void member_report(void *context, uint32_t worker, int of_task, const struct base_error *error)
{
    (void)worker;
    struct crew_member *member = context;
    const enum cluster_step_kind step = member_step(member, of_task);
    if (step == CLUSTER_STEP_CLOSED) {
        member->task_closed = true;
        return;
    }
    member_look(member, step);
    if (step == CLUSTER_STEP_SEALED || step == CLUSTER_STEP_FINISHED) {
        const struct join_plan *plan = &member->crew->plan.join;
        member_add_rejects(member, join_plan_pass_side(plan, step == CLUSTER_STEP_FINISHED && plan->sides == 2));
    }
    if (step == CLUSTER_STEP_FINISHED)
        member_snapshot(member);
    if (step == CLUSTER_STEP_MEASURED)
        crew_bisect_collect(member);
    if (step == CLUSTER_STEP_FAULT) {
        uint32_t side;
        uint64_t morsel;
        join_task_fault(member->join, &side, &morsel);
        crew_faulty(member->crew, side, morsel, error);
    } else if (step == CLUSTER_STEP_FAILED) {
        crew_failed(member->crew, member->local, error);
    } else {
        crew_reached(member->crew, step);
    }
}

/* ---- its engine ---- */

static bool member_engine_fits(const struct crew_member *member, const struct net_engine_choice *choice,
                               const struct net_engine_config *config)
{
    const struct net_engine_config *have = &member->engine_config;
    return member->engine && !net_engine_failure(member->engine) &&
           net_engine_choice_equal(&member->engine_choice, choice) && have->sockets_max >= config->sockets_max &&
           have->recv_chunk_bytes == config->recv_chunk_bytes && have->recv_chunk_count == config->recv_chunk_count &&
           have->features == config->features && net_socket_settings_equal(&have->socket, &config->socket);
}

/* For control thread and clients: what the engines of this node are. The log has it at the start, and when a job brings
 * news; not with every job. */
static void member_tell_engine(const struct crew_member *member)
{
    struct cluster_crew *crew = member->crew;
    const bool renamed = strcmp(crew->engine.name, net_engine_name(member->engine)) != 0;
    /* A job on another engine may come between: what is true of the machine is said once all the same. */
    const bool reasoned = strcmp(crew->engine_warned, net_engine_reason(member->engine)) != 0;
    pthread_mutex_lock(&crew->lock);
    snprintf(crew->engine.name, sizeof crew->engine.name, "%s", net_engine_name(member->engine));
    snprintf(crew->engine.features, sizeof crew->engine.features, "%s", net_engine_features(member->engine));
    snprintf(crew->engine.reason, sizeof crew->engine.reason, "%s", net_engine_reason(member->engine));
    /* What the kernel does not have; what a limit took away another job may have. */
    crew->missing |= net_engine_missing(member->engine) & NET_FEATURE_SEND_ZC;
    pthread_mutex_unlock(&crew->lock);
    if (*crew->engine.reason && reasoned) {
        snprintf(crew->engine_warned, sizeof crew->engine_warned, "%s", crew->engine.reason);
        base_log_warn("engine %s: %s (`millrace doctor' says more)", crew->engine.name, crew->engine.reason);
    } else if (renamed) {
        base_log_info("engine %s: %s", crew->engine.name, crew->engine.features);
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
    BASE_ASSERT(!member->engine && !member->task);
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
    BASE_ASSERT(engine && !member->task);
    shuffle_worker_set_engine(member->worker, NULL);
    member->engine = NULL;
    net_engine_close(engine);
}

/* After the engine that a job asked for could not be had: the one from before, or the least there is. */
static enum base_status member_restore_engine(struct crew_member *member, struct base_error *error)
{
    const struct net_engine_choice choice = member->engine_choice, least_choice = {.kind = NET_ENGINE_EPOLL};
    const struct net_engine_config config = member->engine_config;
    const struct net_engine_config least = {.sockets_max = SHUFFLE_MESH_STRANGERS_MAX,
                                            .file_ops_max = CREW_FILE_OPS,
                                            .recv_chunk_bytes = CREW_LEAST_CHUNK_BYTES,
                                            .recv_chunk_count = 1,
                                            .governor = config.governor};
    enum base_status status = member_open_engine(member, &choice, &config, error);
    if (status != BASE_OK)
        status = member_open_engine(member, &least_choice, &least, error);
    return status;
}

/* Memory and descriptors for an engine were free a moment ago; another has taken them. The worker still hears orders:
 * it lets go of its job, fails the next with what keeps it from having an engine, and quits when told to. Meanwhile it
 * tries, less and less often, to have one again. */
static void member_stand_by(struct crew_member *member)
{
    struct base_error error;
    const uint64_t now_ns = base_clock_now_ns();
    (void)shuffle_worker_stand_by(member->worker, member->restore_ns > now_ns ? member->restore_ns - now_ns : 0);
    if (!member->engine && base_clock_now_ns() >= member->restore_ns) {
        if (member_restore_engine(member, &error) != BASE_OK) {
            member->restore_wait_ns = base_min_u64(2 * member->restore_wait_ns, CREW_ENGINE_RETRY_NS_MAX);
            member->restore_ns = base_clock_now_ns() + member->restore_wait_ns;
        }
    }
    if (member->engine)
        base_log_info("worker %u has an engine again: %s", member->local, net_engine_name(member->engine));
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
    if (!member->engine)
        return member_open_engine(member, choice, config, error);
    const uint32_t had = net_engine_in_force(member->engine);
    member_close_engine(member);
    const enum base_status status = member_replace_engine(member, choice, config, had, error);
    if (status == BASE_OK)
        return BASE_OK;
    struct base_error missing;
    if (member_restore_engine(member, &missing) != BASE_OK) {
        base_log_error("worker %u has no engine, and jobs fail on this node until it has one: %s", member->local,
                       missing.text);
        member->restore_wait_ns = CREW_ENGINE_RETRY_NS;
        member->restore_ns = base_clock_now_ns() + member->restore_wait_ns;
    }
    return status;
}

/* ---- commands ---- */

static enum base_status member_open_task(struct crew_member *member, struct base_error *error)
{
    struct cluster_crew *crew = member->crew;
    const struct shuffle_task_config base = {.job = &crew->plan.job,
                                             .worker = crew->first_worker + member->local,
                                             .local_first = crew->first_worker,
                                             .local_count = crew->config.workers,
                                             .engine = member->engine,
                                             .governor = crew->config.governor,
                                             .mailroom = crew->mailroom,
                                             .listener_fd = member->listener_fd,
                                             .key = crew->config.key,
                                             .report = member_report,
                                             .context = member};
    const struct join_task_config join = {.plan = &crew->plan.join,
                                          .queue = {crew->queue[0], crew->queue[1]},
                                          .survey = {crew->survey[0], crew->survey[1]},
                                          .surveys = {crew->surveys[0], crew->surveys[1]}};
    const bool measures = crew->plan.kind == CLUSTER_KIND_BISECT;
    const enum base_status status =
        measures ? bisect_task_open(&base, &member->bisect, error) : join_task_open(&base, &join, &member->join, error);
    if (status != BASE_OK)
        return status;
    member->task = measures ? bisect_task_base(member->bisect) : join_task_base(member->join);
    shuffle_worker_set_task(member->worker, member->task);
    return BASE_OK;
}

/* A node that was given a card's queues uses them: what is chosen for a job has zero-copy receive with them. */
static uint32_t member_features(const struct cluster_crew *crew)
{
    const uint32_t chosen = crew->chosen.features;
    return *crew->config.place.nic && (chosen & NET_FEATURE_MULTISHOT) ? chosen | NET_FEATURE_RECV_ZC : chosen;
}

/* Closes what was opened to this worker while nothing ran: strangers in such numbers that the kernel takes no more
 * would cost the job's own connections a second. No node connects before all have prepared. */
static void member_close_strangers(const struct crew_member *member)
{
    for (int closed = 0; closed < CREW_STRANGERS_MAX; closed++) {
        const int fd = accept4(member->listener_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            close(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

static enum base_status member_prepare(struct crew_member *member, struct base_error *error)
{
    struct cluster_crew *crew = member->crew;
    const struct shuffle_settings *settings = &crew->plan.job.settings;
    member_close_strangers(member);
    const struct net_engine_config engine_config = {.sockets_max = crew->plan.job.workers + SHUFFLE_MESH_STRANGERS_MAX,
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
    if (crew->mailroom)
        shuffle_mailroom_register(crew->mailroom, member->local, member->engine);
    shuffle_worker_set_mailroom(member->worker, crew->mailroom);
    status = member_open_task(member, error);
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

void crew_command_prepare(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    struct base_error error = {0};
    if (member_prepare(member, &error) == BASE_OK)
        crew_reached(member->crew, CLUSTER_STEP_OPENED);
    else
        crew_failed(member->crew, member->local, &error);
}

void crew_command_survey(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->join)
        join_task_survey(member->join);
}

void crew_command_connect(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->task)
        shuffle_task_connect(member->task);
}

void crew_command_start_0(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->join)
        join_task_start(member->join, 0);
}

void crew_command_start_1(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->join)
        join_task_start(member->join, 1);
}

void crew_command_halt(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    struct crew_member *member = argument;
    if (member->join)
        join_task_halt(member->join);
}

/* A worker whose task never opened has nothing to close, but leaves the mailroom like the others. */
static void member_close(struct crew_member *member, bool abort)
{
    if (member->task) {
        shuffle_task_close(member->task, abort);
        return;
    }
    if (member->crew->mailroom)
        shuffle_mailroom_leave(member->crew->mailroom, member->local);
    member->task_closed = true;
}

void crew_command_finish(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    member_close(argument, false);
}

void crew_command_abort(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    member_close(argument, true);
}

void crew_command_quit(struct shuffle_worker *worker, void *argument)
{
    (void)worker;
    ((struct crew_member *)argument)->quit = true;
}

/* ---- its life ---- */

/* Keeps what the job showed of this node's paths. Engines whose pieces are not whole chunks do not show how full chunks
 * are; connections that may not give zero-copy up do not show whether the kernel copies. */
static void member_learn(const struct crew_member *member)
{
    const struct net_counters *counters = &member->report.sum.counters;
    struct net_experience *experience = &member->crew->experience;
    const uint32_t options = member->engine_choice.options;
    pthread_mutex_lock(&member->crew->lock);
    if (!(options & NET_FEATURE_ZC_ALWAYS)) {
        experience->zc_sends += counters->zc_sends;
        experience->zc_copied += counters->zc_copied;
        experience->zc_off += counters->zc_off;
    }
    if (!(options & NET_FEATURE_INCREMENTAL) && counters->zc_receives == 0) {
        experience->receives += counters->receives;
        experience->received_bytes += counters->received_bytes;
        experience->receive_capacity_bytes += counters->receives * member->engine_config.recv_chunk_bytes;
        experience->receive_starved += counters->receive_starved;
    }
    pthread_mutex_unlock(&member->crew->lock);
}

/* After the turn in which the task closed: free it, then answer. */
static void member_closed(struct crew_member *member)
{
    BASE_ASSERT(!member->join || !member->bisect);
    member->task_closed = false;
    shuffle_worker_set_task(member->worker, NULL);
    shuffle_worker_set_mailroom(member->worker, NULL);
    if (member->task) {
        member_snapshot(member);
        member_learn(member);
    }
    shuffle_task_free(member->task);
    member->task = NULL;
    member->join = NULL;
    member->bisect = NULL;
    crew_reached(member->crew, CLUSTER_STEP_CLOSED);
}

/* An engine that broke fails the job, before the job feels it: the poll that found out returned nothing. The task
 * closes as after any failure; the next job opens another engine (member_engine_fits). */
static void member_check_engine(const struct crew_member *member)
{
    const struct base_error *failure = member->engine ? net_engine_failure(member->engine) : NULL;
    if (failure && member->task)
        crew_failed(member->crew, member->local, failure);
}

void *crew_member_main(void *argument)
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
    crew_reached(member->crew, CLUSTER_STEP_OPENED);
    while (!member->quit) {
        if (member->engine)
            shuffle_worker_turn(member->worker, &shuffle_budget_default, true);
        else
            member_stand_by(member);
        member_check_engine(member);
        if (member->join)
            atomic_store_explicit(&member->progress_rows, join_task_rows_scanned(member->join), memory_order_relaxed);
        if (member->task_closed)
            member_closed(member);
    }
    if (member->engine)
        member_close_engine(member);
    return NULL;
}
