/* NUMA nodes, by libnuma; a kernel without them gets one node made up of the whole machine. */
#include <inttypes.h>
#include <numa.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cluster/doctor/internal.h"

/* Writes the CPUs of a mask as "0-15,32-47"; returns how many there are. */
static uint32_t list_cpus(const struct bitmask *mask, char *text, size_t text_bytes)
{
    uint32_t count = 0;
    size_t used = 0;
    *text = '\0';
    for (unsigned cpu = 0; cpu < mask->size; cpu++) {
        if (!numa_bitmask_isbitset(mask, cpu))
            continue;
        unsigned last = cpu;
        while (last + 1 < mask->size && numa_bitmask_isbitset(mask, last + 1))
            last++;
        count += last - cpu + 1;
        const char *comma = used > 0 ? "," : "";
        const int written = last > cpu ? snprintf(text + used, text_bytes - used, "%s%u-%u", comma, cpu, last)
                                       : snprintf(text + used, text_bytes - used, "%s%u", comma, cpu);
        if (written > 0)
            used = (size_t)base_min_u64(used + (size_t)written, text_bytes - 1);
        cpu = last;
    }
    return count;
}

static uint32_t read_huge_pages(const struct doctor_numa_node *node, uint64_t page_bytes, const char *which)
{
    char path[160], text[DOCTOR_WORD_BYTES];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/hugepages/hugepages-%" PRIu64 "kB/%s", node->number,
             (page_bytes / 1024), which);
    doctor_read_line(path, text, sizeof text);
    return (uint32_t)strtoul(text, NULL, 10);
}

static bool read_node(uint32_t number, uint64_t huge_page_bytes, struct bitmask *cpus, struct doctor_numa_node *node)
{
    long long free_bytes = 0;
    const long long bytes = numa_node_size64((int)number, &free_bytes);
    if (numa_node_to_cpus((int)number, cpus) != 0)
        numa_bitmask_clearall(cpus);
    *node = (struct doctor_numa_node){.number = number};
    node->cpu_count = list_cpus(cpus, node->cpus, sizeof node->cpus);
    if (bytes <= 0 && node->cpu_count == 0)
        return false; /* a number without a node */
    node->memory_bytes = bytes > 0 ? (uint64_t)bytes : 0;
    node->free_bytes = bytes > 0 && free_bytes > 0 ? (uint64_t)free_bytes : 0;
    node->huge_pages = read_huge_pages(node, huge_page_bytes, "nr_hugepages");
    node->huge_pages_free = read_huge_pages(node, huge_page_bytes, "free_hugepages");
    return true;
}

static void read_nodes(uint64_t huge_page_bytes, struct doctor_numa *numa)
{
    struct bitmask *cpus = numa_allocate_cpumask();
    const int highest = numa_max_node();
    for (int number = 0; number <= highest && numa->count < DOCTOR_NUMA_MAX; number++)
        numa->count += read_node((uint32_t)number, huge_page_bytes, cpus, &numa->node[numa->count]);
    numa_free_cpumask(cpus);
    for (uint32_t i = 0; i < numa->count; i++)
        for (uint32_t j = 0; j < numa->count; j++)
            numa->node[i].distance[j] = (uint32_t)numa_distance((int)numa->node[i].number, (int)numa->node[j].number);
}

void doctor_gather_numa(uint64_t huge_page_bytes, struct doctor_numa *numa)
{
    *numa = (struct doctor_numa){.available = numa_available() >= 0};
    if (numa->available)
        read_nodes(huge_page_bytes, numa);
    if (numa->count > 0)
        return;
    numa->available = false;
    numa->count = 1;
    struct doctor_numa_node *node = &numa->node[0];
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), free = sysconf(_SC_AVPHYS_PAGES);
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    node->cpu_count = cpus > 0 ? (uint32_t)cpus : 1;
    snprintf(node->cpus, sizeof node->cpus, "0-%u", node->cpu_count - 1);
    node->memory_bytes = pages > 0 ? (uint64_t)pages * page_bytes : 0;
    node->free_bytes = free > 0 ? (uint64_t)free * page_bytes : 0;
    node->distance[0] = 10;
}
