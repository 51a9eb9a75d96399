#include "tests/sim/sim_cluster.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/random.h"
#include "join/task.h"
#include "shuffle/worker/worker.h"

enum { SIM_TURNS_MAX = 20 * 1000 * 1000 };

struct sim_node {
    struct base_governor *governor;
    struct shuffle_mailroom *mailroom;
    struct shuffle_morsel_queue *queue[2], *survey[2];
    struct shuffle_survey *surveys[2];
};

struct sim_worker {
    struct sim_cluster *cluster;
    struct net_engine *engine;
    struct shuffle_worker *worker;
    struct join_task *task;
    int listener_fd;
};

struct sim_cluster {
    const struct sim_job *job;
    struct base_random random;
    struct net_sim_world *world;
    struct join_plan plan;
    struct shuffle_job placed;
    struct net_key *key;
    struct sim_node *node;
    struct sim_worker *worker;
    uint32_t workers;
    struct shuffle_morsel *morsel[2];
    uint64_t morsels[2];
    uint32_t reached[JOIN_STEP_COUNT];
    bool staffed;            /* every worker runs */
    struct base_error fault; /* the earliest of the input; BASE_OK: none */
    uint32_t fault_side;
    uint64_t fault_morsel;
    bool halted; /* all were told to halt */
    struct sim_outcome *out;
};

static void sim_report(void *context, uint32_t worker, int step, const struct base_error *error)
{
    (void)worker;
    struct sim_worker *of = context;
    of->cluster->reached[step]++;
    if (step == JOIN_STEP_FAULT) {
        uint32_t side;
        uint64_t morsel;
        join_task_fault(of->task, &side, &morsel);
        if (of->cluster->fault.status == BASE_OK || morsel < of->cluster->fault_morsel) {
            of->cluster->fault = *error;
            of->cluster->fault_morsel = morsel;
            of->cluster->fault_side = side;
        }
    }
    if (step == SHUFFLE_STEP_FAILED && of->cluster->out->status == BASE_OK) {
        of->cluster->out->status = error->status;
        of->cluster->out->error = *error;
    }
}

static void sim_check(struct sim_cluster *cluster, enum base_status status, const struct base_error *error)
{
    if (status != BASE_OK && cluster->out->status == BASE_OK) {
        cluster->out->status = status;
        cluster->out->error = *error;
    }
}

static enum base_status sim_resolve(struct sim_cluster *cluster, struct base_error *error)
{
    struct shuffle_relation relation[2] = {0};
    const uint32_t sides = cluster->job->request.kind == JOIN_JOB_JOIN ? 2 : 1;
    enum base_status status = BASE_OK;
    for (uint32_t side = 0; side < sides && status == BASE_OK; side++) {
        char *path = NULL;
        status = shuffle_relation_parse(cluster->job->source[side], &relation[side], &path, error);
        relation[side].csv.bad_rows_max = path ? cluster->job->bad_rows_max : 0;
        if (status == BASE_OK && path)
            status = shuffle_relation_list(&relation[side], path, error);
        if (status == BASE_OK)
            status = shuffle_relation_resolve_schema(&relation[side], cluster->job->declared[side], error);
        free(path);
    }
    if (status != BASE_OK) {
        for (uint32_t side = 0; side < sides; side++)
            shuffle_relation_free(&relation[side]);
        return status;
    }
    return join_plan_make(&cluster->job->request, relation, &cluster->plan, error);
}

static enum base_status sim_place(struct sim_cluster *cluster, struct base_error *error)
{
    const struct sim_job *job = cluster->job;
    struct shuffle_node *node = calloc(job->nodes, sizeof *node);
    struct net_address *address = calloc(cluster->workers, sizeof *address);
    for (uint32_t n = 0; n < job->nodes; n++) {
        snprintf(node[n].name, sizeof node[n].name, "n%u", n + 1);
        node[n].first = n * job->workers_per_node;
        node[n].count = job->workers_per_node;
    }
    enum base_status status = BASE_OK;
    for (uint32_t w = 0; w < cluster->workers && status == BASE_OK; w++) {
        struct net_address any = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                                  .bytes = sizeof any.v4};
        status = net_sim_listen(cluster->world, &any, &cluster->worker[w].listener_fd, &address[w], error);
    }
    const uint8_t token[SHUFFLE_TOKEN_BYTES] = {1, 2, 3};
    if (status == BASE_OK)
        status = shuffle_job_place(&cluster->placed, 7, token, &job->settings, join_plan_bytes_max(&cluster->plan),
                                   node, job->nodes, address, error);
    free(node);
    free(address);
    return status;
}

static enum base_status sim_cut(struct sim_cluster *cluster, struct base_error *error)
{
    enum base_status status = BASE_OK;
    for (uint32_t side = 0; side < cluster->plan.sides && status == BASE_OK; side++)
        status = shuffle_relation_divide(&cluster->plan.side[side].relation, cluster->placed.settings.morsel_bytes,
                                         &cluster->morsel[side], &cluster->morsels[side], error);
    return status;
}

static bool sim_needs_survey(const struct sim_cluster *cluster, uint32_t side)
{
    return side < cluster->plan.sides &&
           shuffle_relation_needs_survey(&cluster->plan.side[side].relation, cluster->placed.settings.morsel_bytes);
}

static enum base_status sim_open_node(struct sim_cluster *cluster, uint32_t n, struct base_error *error)
{
    struct sim_node *node = &cluster->node[n];
    enum base_status status = base_governor_open(cluster->job->memory_bytes, &node->governor, error);
    for (uint32_t side = 0; side < cluster->plan.sides && status == BASE_OK; side++) {
        const uint64_t capacity = cluster->morsels[side];
        status = shuffle_morsel_queue_open(capacity, 0, NULL, NULL, &node->queue[side], error);
        if (status == BASE_OK && sim_needs_survey(cluster, side)) {
            status = shuffle_morsel_queue_open(capacity, 0, NULL, NULL, &node->survey[side], error);
            node->surveys[side] = calloc(capacity, sizeof *node->surveys[side]);
        }
    }
    if (status == BASE_OK && cluster->job->workers_per_node > 1)
        status = shuffle_mailroom_open(cluster->job->workers_per_node,
                                       2 * (cluster->placed.settings.frames_per_lane + 1), &node->mailroom, error);
    return status;
}

static enum base_status sim_open_worker(struct sim_cluster *cluster, uint32_t w, struct base_error *error)
{
    struct sim_worker *worker = &cluster->worker[w];
    const uint32_t per_node = cluster->job->workers_per_node;
    struct sim_node *node = &cluster->node[w / per_node];
    const struct net_engine_config engine_config = {
        .sockets_max = cluster->workers + 8,
        .file_ops_max = 32,
        .recv_chunk_bytes = cluster->placed.settings.recv_chunk_bytes ?: NET_CHUNK_BYTES,
        .recv_chunk_count = cluster->placed.settings.recv_chunk_count ?: NET_CHUNK_COUNT,
        .governor = node->governor};
    enum base_status status = net_sim_engine_open(cluster->world, &engine_config, &worker->engine, error);
    if (status == BASE_OK)
        status = net_engine_enable(worker->engine, error);
    if (status == BASE_OK)
        status = shuffle_worker_open(w % per_node, &worker->worker, error);
    if (status != BASE_OK)
        return status;
    shuffle_worker_set_engine(worker->worker, worker->engine);
    if (node->mailroom)
        shuffle_mailroom_register(node->mailroom, w % per_node, worker->engine);
    return BASE_OK;
}

static enum base_status sim_open_task(struct sim_cluster *cluster, uint32_t w, struct base_error *error)
{
    struct sim_worker *worker = &cluster->worker[w];
    const uint32_t per_node = cluster->job->workers_per_node;
    struct sim_node *node = &cluster->node[w / per_node];
    const struct shuffle_task_config base = {.job = &cluster->placed,
                                             .worker = w,
                                             .local_first = w - w % per_node,
                                             .local_count = per_node,
                                             .engine = worker->engine,
                                             .governor = node->governor,
                                             .mailroom = node->mailroom,
                                             .listener_fd = worker->listener_fd,
                                             .key = cluster->key,
                                             .report = sim_report,
                                             .context = worker};
    const struct join_task_config config = {.plan = &cluster->plan,
                                            .queue = {node->queue[0], node->queue[1]},
                                            .survey = {node->survey[0], node->survey[1]},
                                            .surveys = {node->surveys[0], node->surveys[1]}};
    const enum base_status status = join_task_open(&base, &config, &worker->task, error);
    if (status == BASE_OK)
        shuffle_worker_set_task(worker->worker, join_task_base(worker->task));
    return status;
}

/* Lets time pass to what is due next, or else to the earliest deadline of a task. False: nothing will ever happen. */
static bool sim_pass_time(struct sim_cluster *cluster)
{
    if (net_sim_advance(cluster->world, UINT64_MAX))
        return true;
    uint64_t deadline_ns = UINT64_MAX;
    for (uint32_t w = 0; w < cluster->workers; w++) {
        const struct shuffle_task *task = shuffle_worker_task(cluster->worker[w].worker);
        if (task)
            deadline_ns = base_min_u64(deadline_ns, shuffle_task_deadline_ns(task));
    }
    if (deadline_ns == UINT64_MAX || deadline_ns <= net_sim_now_ns(cluster->world))
        return false;
    net_sim_advance(cluster->world, deadline_ns);
    return true;
}

/* Input is at fault: everybody scans what lies before; then the job fails with the earliest. True: it has. */
static bool sim_halt(struct sim_cluster *cluster)
{
    if (cluster->fault.status == BASE_OK || cluster->out->status != BASE_OK)
        return false;
    for (uint32_t n = 0; n < cluster->job->nodes && !cluster->halted; n++)
        shuffle_morsel_queue_limit(cluster->node[n].queue[cluster->fault_side], cluster->fault_morsel);
    for (uint32_t w = 0; w < cluster->workers && !cluster->halted; w++)
        join_task_halt(cluster->worker[w].task);
    cluster->halted = true;
    if (cluster->reached[JOIN_STEP_HALTED] < cluster->workers)
        return false;
    cluster->out->status = cluster->fault.status;
    cluster->out->error = cluster->fault;
    return true;
}

/* Turns workers in random order with random budgets until `step` was reached by all, or by none when something failed.
 */
static bool sim_run_until(struct sim_cluster *cluster, int step)
{
    while (cluster->reached[step] < cluster->workers) {
        if (step != SHUFFLE_STEP_CLOSED && cluster->out->status != BASE_OK)
            return false;
        bool worked = false;
        for (uint32_t i = 0; i < cluster->workers; i++) {
            const uint32_t w = (uint32_t)base_random_below(&cluster->random, cluster->workers);
            const struct shuffle_budget budget = {.events = 1 + (uint32_t)base_random_below(&cluster->random, 16),
                                                  .batches = 1 + (uint32_t)base_random_below(&cluster->random, 4),
                                                  .output_rows =
                                                      1 + (uint32_t)base_random_below(&cluster->random, 600)};
            worked |= shuffle_worker_turn(cluster->worker[w].worker, &budget, false);
        }
        for (uint32_t w = 0; w < cluster->workers && !worked; w++)
            worked |= shuffle_worker_turn(cluster->worker[w].worker, &shuffle_budget_default, false);
        cluster->out->turns += cluster->workers;
        if (cluster->reached[step] == cluster->workers)
            break;
        const bool halted = cluster->halted;
        if (step != SHUFFLE_STEP_CLOSED && sim_halt(cluster))
            return false;
        worked |= cluster->halted != halted; /* workers have an order now that they have not seen */
        if ((!worked && !sim_pass_time(cluster)) || cluster->out->turns > SIM_TURNS_MAX) {
            if (step != SHUFFLE_STEP_CLOSED && cluster->out->status != BASE_OK)
                return false;
            cluster->out->deadlock = true;
            return false;
        }
    }
    cluster->reached[step] = 0;
    return true;
}

/* Deals all morsels to the nodes at random. */
static void sim_deal(struct sim_cluster *cluster, bool survey)
{
    struct base_error error = {0};
    for (uint32_t side = 0; side < cluster->plan.sides; side++) {
        if (survey && !sim_needs_survey(cluster, side))
            continue;
        for (uint64_t m = 0; m < cluster->morsels[side]; m++) {
            struct sim_node *node = &cluster->node[base_random_below(&cluster->random, cluster->job->nodes)];
            sim_check(cluster,
                      shuffle_morsel_queue_append(survey ? node->survey[side] : node->queue[side],
                                                  &cluster->morsel[side][m], 1, &error),
                      &error);
        }
        for (uint32_t n = 0; n < cluster->job->nodes; n++)
            shuffle_morsel_queue_end(survey ? cluster->node[n].survey[side] : cluster->node[n].queue[side]);
    }
}

static bool sim_survey(struct sim_cluster *cluster)
{
    if (!sim_needs_survey(cluster, 0) && !sim_needs_survey(cluster, 1))
        return true;
    sim_deal(cluster, true);
    for (uint32_t w = 0; w < cluster->workers; w++)
        join_task_survey(cluster->worker[w].task);
    if (!sim_run_until(cluster, JOIN_STEP_SURVEYED))
        return false;
    struct base_error error = {0};
    for (uint32_t side = 0; side < cluster->plan.sides; side++) {
        if (!sim_needs_survey(cluster, side))
            continue;
        const uint64_t count = cluster->morsels[side];
        struct shuffle_survey *all = calloc(count, sizeof *all);
        for (uint32_t n = 0; n < cluster->job->nodes; n++)
            for (uint64_t m = 0; m < count; m++) {
                const struct shuffle_survey *one = &cluster->node[n].surveys[side][m];
                all[m].index = m;
                all[m].quotes += one->quotes;
                all[m].newlines += one->newlines;
            }
        sim_check(cluster, shuffle_survey_apply(all, cluster->morsel[side], count, &error), &error);
        free(all);
    }
    return cluster->out->status == BASE_OK;
}

/* A node dies: its worker aborts its connections in mid-job. */
static void sim_kill(struct sim_cluster *cluster)
{
    const uint64_t turns = 1 + base_random_below(&cluster->random, 200);
    for (uint64_t i = 0; i < turns; i++)
        if (!shuffle_worker_turn(cluster->worker[base_random_below(&cluster->random, cluster->workers)].worker,
                                 &shuffle_budget_default, false))
            net_sim_advance(cluster->world, UINT64_MAX);
    shuffle_task_close(join_task_base(cluster->worker[base_random_below(&cluster->random, cluster->workers)].task),
                       true);
}

static void sim_phases(struct sim_cluster *cluster)
{
    const uint32_t passes = cluster->plan.sides;
    if (!sim_survey(cluster))
        return;
    for (uint32_t w = 0; w < cluster->workers; w++)
        shuffle_task_connect(join_task_base(cluster->worker[w].task));
    if (!sim_run_until(cluster, SHUFFLE_STEP_CONNECTED))
        return;
    sim_deal(cluster, false);
    for (uint32_t pass = 0; pass < passes; pass++) {
        for (uint32_t w = 0; w < cluster->workers; w++) {
            /* The order to start reaches workers at different times. */
            for (uint64_t i = base_random_below(&cluster->random, 4); i > 0; i--)
                shuffle_worker_turn(cluster->worker[base_random_below(&cluster->random, cluster->workers)].worker,
                                    &shuffle_budget_default, false);
            join_task_start(cluster->worker[w].task, pass);
        }
        if (cluster->job->kill_worker && pass == passes - 1)
            sim_kill(cluster);
        if (!sim_run_until(cluster, pass + 1 < passes ? JOIN_STEP_SEALED : SHUFFLE_STEP_FINISHED))
            return;
    }
    for (uint32_t w = 0; w < cluster->workers; w++) {
        struct join_task_result result;
        join_task_result(cluster->worker[w].task, &result);
        cluster->out->rows += result.rows;
        cluster->out->checksum += result.checksum;
        cluster->out->rows_scanned += result.rows_scanned;
        cluster->out->rows_accounted += result.rows_in + result.rows_null_kept + result.rows_dropped;
        cluster->out->rows_cut += result.rows_cut;
        cluster->out->stitched_bytes += result.stitched_bytes;
        cluster->out->joined_bytes += result.joined_bytes;
        cluster->out->stalls += result.stalls_frame + result.stalls_output;
        for (uint32_t side = 0; side < cluster->plan.sides; side++)
            if (join_task_rejects(cluster->worker[w].task, side))
                shuffle_rejects_merge(&cluster->out->rejects[side], join_task_rejects(cluster->worker[w].task, side));
    }
}

static void sim_close_tasks(struct sim_cluster *cluster)
{
    const bool abort = cluster->out->status != BASE_OK || cluster->out->deadlock;
    for (uint32_t w = 0; w < cluster->workers; w++) {
        if (cluster->worker[w].task) {
            shuffle_task_close(join_task_base(cluster->worker[w].task), abort);
        } else {
            struct sim_node *node = &cluster->node[w / cluster->job->workers_per_node];
            if (node->mailroom)
                shuffle_mailroom_leave(node->mailroom, w % cluster->job->workers_per_node);
            cluster->reached[SHUFFLE_STEP_CLOSED]++;
        }
    }
    const bool deadlock = cluster->out->deadlock;
    if (!sim_run_until(cluster, SHUFFLE_STEP_CLOSED))
        cluster->out->leaked = true;
    cluster->out->deadlock |= deadlock;
}

static void sim_free(struct sim_cluster *cluster)
{
    for (uint32_t w = 0; w < cluster->workers; w++) {
        struct sim_worker *worker = &cluster->worker[w];
        if (worker->worker) {
            shuffle_worker_set_task(worker->worker, NULL);
            if (worker->task)
                shuffle_task_free(join_task_base(worker->task));
            shuffle_worker_close(worker->worker);
        }
        if (worker->engine)
            net_engine_close(worker->engine);
    }
    for (uint32_t n = 0; n < cluster->job->nodes; n++) {
        struct sim_node *node = &cluster->node[n];
        for (uint32_t side = 0; side < 2; side++) {
            shuffle_morsel_queue_close(node->queue[side]);
            shuffle_morsel_queue_close(node->survey[side]);
            free(node->surveys[side]);
        }
        shuffle_mailroom_close(node->mailroom);
        if (node->governor) {
            cluster->out->leaked |= base_governor_used_bytes(node->governor) != 0;
            base_governor_close(node->governor);
        }
    }
    net_sim_world_close(cluster->world);
    net_key_close(cluster->key);
    free(cluster->morsel[0]);
    free(cluster->morsel[1]);
    join_plan_free(&cluster->plan);
    shuffle_job_free(&cluster->placed);
    free(cluster->node);
    free(cluster->worker);
}

static bool sim_open(struct sim_cluster *cluster)
{
    struct base_error error = {0};
    struct net_sim_config network = cluster->job->network;
    network.seed = cluster->job->seed;
    sim_check(cluster, net_sim_world_open(&network, &cluster->world, &error), &error);
    const uint8_t secret[NET_KEY_BYTES] = {5, 6, 7};
    if (cluster->job->has_key && cluster->out->status == BASE_OK)
        sim_check(cluster, net_key_make(secret, &cluster->key, &error), &error);
    if (cluster->out->status == BASE_OK)
        sim_check(cluster, sim_resolve(cluster, &error), &error);
    if (cluster->out->status == BASE_OK)
        sim_check(cluster, sim_place(cluster, &error), &error);
    if (cluster->out->status == BASE_OK)
        sim_check(cluster, sim_cut(cluster, &error), &error);
    for (uint32_t n = 0; n < cluster->job->nodes && cluster->out->status == BASE_OK; n++)
        sim_check(cluster, sim_open_node(cluster, n, &error), &error);
    for (uint32_t w = 0; w < cluster->workers && cluster->out->status == BASE_OK; w++)
        sim_check(cluster, sim_open_worker(cluster, w, &error), &error);
    /* All of them, as in a real cluster: who cannot open its share has neighbours who can. */
    cluster->staffed = cluster->out->status == BASE_OK;
    for (uint32_t w = 0; w < cluster->workers && cluster->staffed; w++)
        sim_check(cluster, sim_open_task(cluster, w, &error), &error);
    return cluster->out->status == BASE_OK;
}

void sim_cluster_run(const struct sim_job *job, struct sim_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    struct sim_cluster cluster = {.job = job, .workers = job->nodes * job->workers_per_node, .out = outcome};
    base_random_seed(&cluster.random, job->seed * 2 + 1);
    cluster.node = calloc(job->nodes, sizeof *cluster.node);
    cluster.worker = calloc(cluster.workers, sizeof *cluster.worker);
    BASE_ASSERT(cluster.node && cluster.worker);
    for (uint32_t w = 0; w < cluster.workers; w++)
        cluster.worker[w].cluster = &cluster;
    if (sim_open(&cluster))
        sim_phases(&cluster);
    outcome->virtual_ns = cluster.world ? net_sim_now_ns(cluster.world) : 0;
    if (cluster.staffed)
        sim_close_tasks(&cluster);
    if (!outcome->leaked)
        sim_free(&cluster);
}
