/* What the kernel tells of a job's connections: broken paths, and retransmits while the network is measured. */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "cluster/node/internal.h"

/* False: the kernel does not tell; *sum is then zero. */
static bool look_at_paths(const struct node_job *job, struct cluster_path_sum *sum)
{
    *sum = (struct cluster_path_sum){0};
    struct base_error unseen;
    return job->paths && cluster_path_watch_sum(job->paths, cluster_crew_addresses(job->crew), job->workers,
                                                job->address, job->address_count, sum, &unseen) == BASE_OK;
}

enum base_status node_job_measure(struct node_job *job, struct cluster_measure *order, struct base_error *error)
{
    struct base_error unseen;
    if (!job->paths && cluster_path_watch_open(&job->paths, &unseen) != BASE_OK)
        base_log_debug("retransmits are not counted: %s", unseen.text);
    look_at_paths(job, &job->before);
    cluster_host_time(&job->host_before);
    return cluster_crew_measure(job->crew, order, error);
}

/* A connection that broke meanwhile took what it had counted along: its job is about to fail. */
static uint64_t counted_since(uint64_t before, uint64_t after)
{
    return after > before ? after - before : 0;
}

void node_job_say_measured(struct node_job *job)
{
    struct cluster_path_sum after;
    const bool known = look_at_paths(job, &after);
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_MEASURED, .measured = *cluster_crew_measured(job->crew)};
    struct cluster_bisect_measures *sum = &message.measured.sum;
    sum->retransmits = known ? counted_since(job->before.retransmits, after.retransmits) : BASE_MEASURE_UNKNOWN;
    sum->mtu = after.mtu;
    sum->segment_bytes = after.segment_bytes;
    struct cluster_host_time host;
    cluster_host_time(&host);
    message.measured.host_busy_permille = cluster_host_busy_permille(&job->host_before, &host);
    message.measured.host_processors = host.processors;
    node_job_say(job, &message);
}

static bool paths_same_host(const struct net_address *a, const struct net_address *b)
{
    if (a->any.sa_family != b->any.sa_family)
        return false;
    if (a->any.sa_family == AF_INET6)
        return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof a->v6.sin6_addr) == 0;
    return a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

/* The node whose worker is at the other end. Connections that the other end made come from a port of no worker: then
 * the host says it. */
static const char *node_at(const struct node_job *job, const struct net_address *peer)
{
    for (uint32_t n = 0; n < job->node_count; n++)
        if (paths_same_host(peer, &job->address[job->node[n].first]))
            return job->node[n].name;
    return "another node";
}

void node_job_look(struct node_job *job, struct cluster_path_watch *watch)
{
    if (!job->looking)
        return;
    bool broken;
    struct net_address peer;
    struct base_error error;
    const enum base_status status = cluster_path_watch_look(watch, cluster_crew_addresses(job->crew), job->workers,
                                                            job->address, job->address_count, &broken, &peer, &error);
    if (status != BASE_OK) {
        base_log_debug("%s", error.text);
        return;
    }
    if (!broken)
        return;
    char text[64];
    net_address_format(&peer, text);
    job->looking = false; /* once is enough */
    struct cluster_message message = {.kind = CLUSTER_MESSAGE_BROKEN};
    base_error_set(
        &message.broken.error, BASE_TIMEOUT,
        "the path to node %s is broken: %s acknowledged nothing for %d ms though both nodes are alive; look at "
        "cables, switches and packet filters between them",
        node_at(job, &peer), text, CLUSTER_PATH_SILENCE_MS);
    base_log_warn("job %" PRIu64 ": %s", job->id, message.broken.error.text);
    node_job_say(job, &message);
}
