/* Worker threads and what they share for a job.
 *
 * Who owns what. The control thread owns the crew, the plan, the queues and the mailroom; workers borrow them from the
 * prepare command until they report CLOSED, and nothing is freed before all have. A worker thread owns its engine and
 * its task. A listener outlives engines. What crosses threads: commands (shuffle_worker_post), the morsel queues
 * (atomic), and the answers here, under `lock`.
 *
 * A step is answered once, when the last worker reports it (crew/member.c has the workers' side). */
#include "cluster/crew/internal.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
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

void crew_reached(struct cluster_crew *crew, enum cluster_step_kind step)
{
    pthread_mutex_lock(&crew->lock);
    if (++crew->reached[step] == crew->config.workers) {
        crew->reached[step] = 0;
        if (!crew->step_told[step]) /* a coordinator may order the same again before that */
            crew_push(crew, &(struct cluster_crew_event){.kind = CLUSTER_CREW_STEP, .step = step});
        crew->step_told[step] = true;
    }
    pthread_mutex_unlock(&crew->lock);
}

void crew_failed(struct cluster_crew *crew, uint32_t local, const struct base_error *error)
{
    pthread_mutex_lock(&crew->lock);
    /* What one worker feels of another's failure may come first. */
    if (!crew->failed || base_status_rank(error->status) > base_status_rank(crew->failed_status)) {
        crew->failed = true;
        crew->failed_status = error->status;
        crew_push(crew,
                  &(struct cluster_crew_event){
                      .kind = CLUSTER_CREW_FAILED, .step = CLUSTER_STEP_FAILED, .worker = local, .error = *error});
    }
    pthread_mutex_unlock(&crew->lock);
}

void crew_faulty(struct cluster_crew *crew, uint32_t side, uint64_t morsel, const struct base_error *error)
{
    pthread_mutex_lock(&crew->lock);
    if (!crew->faulty || morsel < crew->fault.morsel) {
        crew->fault =
            (struct cluster_crew_event){.kind = CLUSTER_CREW_FAULT, .side = side, .morsel = morsel, .error = *error};
        crew->faulty = true;
        if (!crew->fault_told)
            crew_push(crew, &crew->fault);
        crew->fault_told = true;
    }
    pthread_mutex_unlock(&crew->lock);
}

static void crew_low(void *context)
{
    struct crew_low *low = context;
    if (atomic_exchange_explicit(&low->pending, true, memory_order_relaxed))
        return;
    pthread_mutex_lock(&low->crew->lock);
    if (!low->told)
        crew_push(low->crew, &(struct cluster_crew_event){.kind = CLUSTER_CREW_LOW, .side = low->side});
    low->told = true;
    pthread_mutex_unlock(&low->crew->lock);
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
    const int failed = pthread_create(&member->thread, NULL, crew_member_main, member);
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
    } while (event.kind != CLUSTER_CREW_STEP || event.step != CLUSTER_STEP_OPENED);
    return BASE_OK;
}

enum base_status cluster_crew_open(const struct cluster_crew_config *config, struct cluster_crew **crew,
                                   struct base_error *error)
{
    struct cluster_crew *made = calloc(1, sizeof *made);
    if (!made)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for %u workers", config->workers);
    made->config = *config;
    pthread_mutex_init(&made->lock, NULL);
    made->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->member = calloc(config->workers, sizeof *made->member);
    made->address = calloc(config->workers, sizeof *made->address);
    enum base_status status = BASE_OK;
    if (made->event_fd < 0 || !made->member || !made->address)
        status = base_error_set(error, BASE_NO_MEMORY, "no memory or descriptors for %u workers", config->workers);
    for (uint32_t i = 0; i < config->workers && made->member; i++)
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
    cluster_plan_free(&crew->plan);
    crew->active = crew->releasing = false;
}

void cluster_crew_close(struct cluster_crew *crew)
{
    if (!crew)
        return;
    if (crew->active) {
        cluster_crew_release(crew, true);
        struct cluster_crew_event event;
        while (crew->active)
            crew_await(crew, &event);
    }
    crew_post_all(crew, crew_command_quit);
    for (uint32_t i = 0; i < crew->config.workers && crew->member; i++) {
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

void cluster_crew_engine(struct cluster_crew *crew, struct cluster_crew_engine *engine)
{
    pthread_mutex_lock(&crew->lock);
    *engine = crew->engine;
    pthread_mutex_unlock(&crew->lock);
}

/* ---- orders ---- */

static enum base_status crew_make_side(struct cluster_crew *crew, uint32_t side, uint64_t capacity, bool survey,
                                       struct base_error *error)
{
    crew->low[side].crew = crew;
    crew->low[side].side = side;
    crew->low[side].told = false;
    atomic_store(&crew->low[side].pending, false);
    enum base_status status = shuffle_morsel_queue_open(capacity, 2 * crew->config.workers, crew_low, &crew->low[side],
                                                        &crew->queue[side], error);
    if (status != BASE_OK || !survey)
        return status;
    status = shuffle_morsel_queue_open(capacity, 0, NULL, NULL, &crew->survey[side], error);
    crew->surveys[side] = calloc(capacity, sizeof *crew->surveys[side]);
    if (status == BASE_OK && !crew->surveys[side])
        status = base_error_set(error, BASE_NO_MEMORY, "no memory for the survey of %" PRIu64 " morsels", capacity);
    return status;
}

/* Room for what each worker's share comes to. It stays until the next job. */
static enum base_status crew_make_reports(struct cluster_crew *crew, struct base_error *error)
{
    BASE_ASSERT(crew->plan.job.node_count > 0 && crew->first_worker + crew->config.workers <= crew->plan.job.workers);
    free(crew->node);
    crew->node_count = crew->plan.job.node_count;
    crew->node = calloc(crew->node_count, sizeof *crew->node);
    if (!crew->node)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the report of %u nodes", crew->node_count);
    memcpy(crew->node, crew->plan.job.node, crew->node_count * sizeof *crew->node);
    for (uint32_t i = 0; i < crew->config.workers; i++) {
        struct crew_member *member = &crew->member[i];
        free(member->sent_bytes);
        free(member->received_bytes);
        member->sent_bytes = calloc(crew->plan.job.workers, sizeof(uint64_t));
        member->received_bytes = calloc(crew->plan.job.workers, sizeof(uint64_t));
        member->report = (struct cluster_work){0};
        if (!member->sent_bytes || !member->received_bytes)
            return base_error_set(error, BASE_NO_MEMORY, "no memory for the report of %u workers",
                                  crew->plan.job.workers);
    }
    return BASE_OK;
}

/* What each worker will send, as far as the plan shows it. */
static struct net_traffic crew_traffic(const struct cluster_crew *crew)
{
    struct net_traffic traffic = shuffle_job_traffic(&crew->plan.job, crew->config.workers);
    if (crew->plan.kind != CLUSTER_KIND_BISECT)
        join_plan_add_traffic(&crew->plan.join, crew->plan.job.workers, &traffic);
    return traffic;
}

/* Says why the job's engines are what they are; missing: what turned out not to be there. */
void crew_tell_decision(struct cluster_crew *crew, uint32_t missing)
{
    const struct net_traffic traffic = crew_traffic(crew);
    struct net_chosen chosen;
    pthread_mutex_lock(&crew->lock);
    net_choose(&crew->choice, &traffic, &crew->experience, crew->missing | missing, &chosen);
    snprintf(crew->engine.decision, sizeof crew->engine.decision, "%s", chosen.why);
    pthread_mutex_unlock(&crew->lock);
}

/* What the job's engines are made of. Decided once, so that all workers of the node have the same. */
static void crew_choose(struct cluster_crew *crew)
{
    const struct net_engine_choice *asked = &crew->plan.job.settings.engine;
    const struct net_traffic traffic = crew_traffic(crew);
    crew->choice = asked->kind == NET_ENGINE_AUTO ? crew->config.engine : *asked;
    pthread_mutex_lock(&crew->lock);
    net_experience_age(&crew->experience);
    net_choose(&crew->choice, &traffic, &crew->experience, crew->missing, &crew->chosen);
    pthread_mutex_unlock(&crew->lock);
    crew_tell_decision(crew, 0);
}

enum base_status cluster_crew_prepare(struct cluster_crew *crew, struct cluster_plan *plan, uint32_t first_worker,
                                      const uint64_t morsel_capacity[2], const bool survey[2], struct base_error *error)
{
    BASE_ASSERT(!crew->active);
    crew->plan = *plan;
    memset(plan, 0, sizeof *plan);
    crew->first_worker = first_worker;
    crew->failed = crew->faulty = crew->fault_told = false;
    memset(crew->reached, 0, sizeof crew->reached);
    memset(crew->rejects, 0, sizeof crew->rejects);
    base_governor_peak_reset(crew->config.governor);
    crew_choose(crew);
    enum base_status status = crew_make_reports(crew, error);
    for (uint32_t side = 0; side < crew->plan.join.sides && status == BASE_OK; side++)
        status = crew_make_side(crew, side, morsel_capacity[side], survey[side], error);
    if (status == BASE_OK && crew->config.workers > 1)
        status = shuffle_mailroom_open(crew->config.workers, CREW_SIDES * (crew->plan.job.settings.frames_per_lane + 1),
                                       &crew->mailroom, error);
    if (status != BASE_OK) {
        crew_forget_job(crew);
        return status;
    }
    crew->active = true;
    crew_post_all(crew, crew_command_prepare);
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
    if (!queue)
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
    return crew_order(crew, crew_command_survey, error);
}

const struct shuffle_survey *cluster_crew_surveyed(const struct cluster_crew *crew, uint32_t side, uint64_t index)
{
    return &crew->surveys[side][index];
}

enum base_status cluster_crew_connect(struct cluster_crew *crew, struct base_error *error)
{
    return crew_order(crew, crew_command_connect, error);
}

enum base_status cluster_crew_start(struct cluster_crew *crew, uint32_t pass, struct base_error *error)
{
    return crew_order(crew, pass == 0 ? crew_command_start_0 : crew_command_start_1, error);
}

enum base_status cluster_crew_halt(struct cluster_crew *crew, uint32_t side, uint64_t morsel, struct base_error *error)
{
    const enum base_status status = crew_need_job(crew, error);
    if (status != BASE_OK)
        return status;
    if (side >= CREW_SIDES || !crew->queue[side])
        return base_error_set(error, BASE_INVALID, "ordered to halt on a side that this job does not have");
    shuffle_morsel_queue_limit(crew->queue[side], morsel);
    crew_post_all(crew, crew_command_halt);
    return BASE_OK;
}

void cluster_crew_release(struct cluster_crew *crew, bool abort)
{
    if (!crew->active || crew->releasing)
        return;
    crew->releasing = true;
    crew_post_all(crew, abort ? crew_command_abort : crew_command_finish);
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
        if (event->kind == CLUSTER_CREW_STEP)
            crew->step_told[event->step] = false;
        if (event->kind == CLUSTER_CREW_LOW)
            crew->low[event->side].told = false;
        if (event->kind == CLUSTER_CREW_FAULT) { /* an earlier one may have come since */
            *event = crew->fault;
            crew->fault_told = false;
        }
    } else {
        uint64_t count;
        if (read(crew->event_fd, &count, sizeof count) < 0) { /* EAGAIN: it was not set */
        }
    }
    pthread_mutex_unlock(&crew->lock);
    if (any && event->kind == CLUSTER_CREW_STEP && event->step == CLUSTER_STEP_MEASURED)
        crew->measuring = false;
    if (any && event->kind == CLUSTER_CREW_STEP && event->step == CLUSTER_STEP_CLOSED)
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

/* Nobody adds to what is asked for: the pass is over. */
const struct shuffle_rejects *cluster_crew_rejects(const struct cluster_crew *crew, uint32_t side)
{
    return crew->rejects[side].count > 0 ? &crew->rejects[side] : NULL;
}

void cluster_crew_work(const struct cluster_crew *crew, struct cluster_work *work, uint64_t *sent_bytes,
                       uint64_t *received_bytes)
{
    *work = (struct cluster_work){0};
    memset(sent_bytes, 0, crew->node_count * sizeof *sent_bytes);
    memset(received_bytes, 0, crew->node_count * sizeof *received_bytes);
    pthread_mutex_t *lock = (pthread_mutex_t *)&crew->lock;
    pthread_mutex_lock(lock);
    for (uint32_t i = 0; i < crew->config.workers; i++) {
        const struct cluster_work *share = &crew->member[i].report;
        cluster_measures_add_worker(&work->sum, &share->sum);
        if (share->facts.known)
            work->facts = share->facts;
        for (uint32_t node = 0; node < crew->node_count; node++)
            for (uint32_t w = crew->node[node].first; w < crew->node[node].first + crew->node[node].count; w++) {
                sent_bytes[node] += crew->member[i].sent_bytes[w];
                received_bytes[node] += crew->member[i].received_bytes[w];
            }
    }
    pthread_mutex_unlock(lock);
    for (uint32_t node = 0; node < crew->node_count; node++) {
        work->sum.bytes_sent += sent_bytes[node];
        work->sum.bytes_received += received_bytes[node];
    }
    const struct join_task_result *task = &work->sum.task;
    if (task->stream_end_ns > task->scan_begin_ns)
        work->sum.exchange_ns = task->stream_end_ns - task->scan_begin_ns;
}
