#include "cluster/crew/place.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { PLACE_PORTS = 65536, PLACE_NAMES_BYTES = 256 };

static enum base_status place_no_card(const char *nic, struct base_error *error)
{
    char names[PLACE_NAMES_BYTES] = "";
    struct if_nameindex *all = if_nameindex();
    for (struct if_nameindex *each = all; each != NULL && each->if_index != 0; each++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "", each->if_name);
    }
    if (all)
        if_freenameindex(all);
    return base_error_set(error, BASE_NOT_FOUND,
                          "--nic: there is no interface %s here; there are %s (`millrace doctor' says what they can)",
                          nic, names);
}

/* Receive queues of an interface, or 0 when the kernel does not show them. */
static uint32_t queues_of(const char *nic)
{
    char path[128];
    uint32_t count = 0;
    do
        snprintf(path, sizeof path, "/sys/class/net/%s/queues/rx-%u", nic, count);
    while (access(path, F_OK) == 0 && ++count < UINT16_MAX);
    return count;
}

static enum base_status queues_check(const struct cluster_place_options *options, uint32_t workers,
                                     struct base_error *error)
{
    const uint32_t first = options->queue_first, last = options->queue_last, here = queues_of(options->nic);
    if (last < first || last - first + 1 < workers)
        return base_error_set(
            error, BASE_INVALID,
            "--rx-queues %u-%u: %u workers need a queue each, and these are %u: give more of them, or "
            "fewer --workers",
            first, last, workers, last < first ? 0 : last - first + 1);
    if (here > 0 && first + workers > here)
        return base_error_set(error, BASE_INVALID,
                              "--rx-queues %u-%u: %s has %u receive queues, 0 to %u, and the workers need those up to "
                              "%u: make more by `ethtool -L %s combined N', or take others",
                              first, last, options->nic, here, here - 1, first + workers - 1, options->nic);
    const uint64_t end = options->port_first + (uint64_t)workers * CLUSTER_PORT_BLOCK;
    if (options->port_first % CLUSTER_PORT_BLOCK != 0 || options->port_first == 0 || end > PLACE_PORTS)
        return base_error_set(error, BASE_INVALID,
                              "--ports %u: %u workers own %d ports each, from a multiple of %d on and not beyond %d",
                              options->port_first, workers, CLUSTER_PORT_BLOCK, CLUSTER_PORT_BLOCK, PLACE_PORTS - 1);
    return BASE_OK;
}

static bool memory_node_exists(int node)
{
    char path[64];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d", node);
    return access(path, F_OK) == 0;
}

static bool memory_node_has(int node, size_t cpu)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%zu", node, cpu);
    return access(path, F_OK) == 0;
}

static int memory_node_of(const char *nic)
{
    char path[96];
    int node = CLUSTER_MEMORY_NODE_ANY;
    snprintf(path, sizeof path, "/sys/class/net/%s/device/numa_node", nic);
    FILE *file = fopen(path, "re");
    if (!file)
        return CLUSTER_MEMORY_NODE_ANY;
    if (fscanf(file, "%d", &node) != 1 || node < 0)
        node = CLUSTER_MEMORY_NODE_ANY;
    fclose(file);
    return memory_node_exists(0) && memory_node_exists(1) ? node : CLUSTER_MEMORY_NODE_ANY;
}

enum base_status cluster_place_open(const struct cluster_place_options *options, uint32_t workers,
                                    struct cluster_place *place, struct base_error *error)
{
    struct cluster_place found = {.memory_node = CLUSTER_MEMORY_NODE_ANY};
    if (options->nic) {
        const unsigned index = if_nametoindex(options->nic);
        if (index == 0)
            return place_no_card(options->nic, error);
        const enum base_status status = queues_check(options, workers, error);
        if (status != BASE_OK)
            return status;
        snprintf(found.nic, sizeof found.nic, "%s", options->nic);
        found.queue = (struct net_receive_queue){.interface_index = index,
                                                 .queue = options->queue_first,
                                                 .area_bytes = options->area_bytes,
                                                 .piece_bytes = options->piece_bytes};
        found.port_first = options->port_first;
        found.memory_node = memory_node_of(options->nic);
    }
    *place = found;
    return BASE_OK;
}

struct net_receive_queue cluster_place_queue(const struct cluster_place *place, uint32_t worker)
{
    struct net_receive_queue queue = place->queue;
    if (*place->nic)
        queue.queue += worker;
    return queue;
}

struct net_port_block cluster_place_ports(const struct cluster_place *place, uint32_t worker)
{
    if (!*place->nic)
        return (struct net_port_block){0};
    return (struct net_port_block){.first = (uint16_t)(place->port_first + worker * CLUSTER_PORT_BLOCK),
                                   .count = CLUSTER_PORT_BLOCK};
}

/* Leaves of the allowed cores those of the card's memory node, if they are enough for all workers. */
static void cores_near(const struct cluster_place *place, uint32_t worker, uint32_t workers, cpu_set_t *allowed)
{
    cpu_set_t near;
    CPU_ZERO(&near);
    if (place->memory_node == CLUSTER_MEMORY_NODE_ANY)
        return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, allowed) && memory_node_has(place->memory_node, cpu))
            CPU_SET(cpu, &near);
    if ((uint32_t)CPU_COUNT(&near) >= workers)
        *allowed = near;
    else if (worker == 0)
        base_log_warn("%s belongs to memory node %d, which has only %d cores for %u workers: some work on other nodes",
                      place->nic, place->memory_node, CPU_COUNT(&near), workers);
}

int cluster_place_pin(const struct cluster_place *place, uint32_t worker, uint32_t workers)
{
    cpu_set_t allowed, mine;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || (uint32_t)CPU_COUNT(&allowed) < workers)
        return CLUSTER_MEMORY_NODE_ANY;
    cores_near(place, worker, workers, &allowed);
    size_t cpu = 0;
    for (uint32_t seen = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && seen++ == worker)
            break;
    CPU_ZERO(&mine);
    CPU_SET(cpu, &mine);
    if (pthread_setaffinity_np(pthread_self(), sizeof mine, &mine) != 0) {
        base_log_warn("worker %u cannot be pinned to core %zu", worker, cpu);
        return CLUSTER_MEMORY_NODE_ANY;
    }
    for (int node = 0; memory_node_exists(node); node++)
        if (memory_node_has(node, cpu))
            return node;
    return CLUSTER_MEMORY_NODE_ANY;
}

void cluster_place_describe(const struct cluster_place *place, uint32_t worker, int memory_node,
                            char text[CLUSTER_PLACE_TEXT_BYTES])
{
    char where[48] = "";
    *text = '\0';
    if (memory_node != CLUSTER_MEMORY_NODE_ANY)
        snprintf(where, sizeof where, "%smemory node %d", *place->nic ? ", " : "", memory_node);
    const struct net_port_block ports = cluster_place_ports(place, worker);
    if (*place->nic)
        snprintf(text, CLUSTER_PLACE_TEXT_BYTES, "worker %u: queue %u of %s, ports %u-%u%s", worker,
                 cluster_place_queue(place, worker).queue, place->nic, ports.first, ports.first + ports.count - 1,
                 where);
    else if (*where)
        snprintf(text, CLUSTER_PLACE_TEXT_BYTES, "worker %u: %s", worker, where);
}
