/* What this machine and this process are, apart from NUMA nodes and network interfaces. Every fact comes from the
 * kernel; one that cannot be read stays empty and is nobody's failure. */
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cluster/doctor/internal.h"

bool doctor_read_line(const char *path, char *text, size_t text_bytes)
{
    *text = '\0';
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool got = fgets(text, (int)text_bytes, file);
    fclose(file);
    if (!got)
        *text = '\0';
    text[strcspn(text, "\n")] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    return got;
}

/* Of a file of lines "KEY: VALUE": the value, without blanks in front. */
static bool read_key(const char *path, const char *key, char *value, size_t value_bytes)
{
    char line[512];
    const size_t key_bytes = strlen(key);
    bool found = false;
    *value = '\0';
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *rest = line + key_bytes;
        if (strncmp(line, key, key_bytes) != 0 || !strchr(": \t", *rest))
            continue;
        rest += strspn(rest, ": \t");
        found = true;
        snprintf(value, value_bytes, "%.*s", (int)strcspn(rest, "\n"), rest);
    }
    if (file)
        fclose(file);
    return found;
}

static void gather_sysctls(struct doctor_facts *facts)
{
    for (int i = 0; i < DOCTOR_SYSCTL_COUNT; i++) {
        char path[160];
        snprintf(path, sizeof path, "/proc/sys/%s", doctor_sysctl_path((enum doctor_sysctl)i));
        doctor_read_line(path, facts->sysctl[i], sizeof facts->sysctl[i]);
    }
}

static uint64_t limit_of(rlim_t limit)
{
    return limit == RLIM_INFINITY ? DOCTOR_UNLIMITED : (uint64_t)limit;
}

static void gather_process(struct doctor_facts *facts)
{
    struct rlimit limit;
    char text[DOCTOR_WORD_BYTES];
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        facts->memlock_soft_bytes = limit_of(limit.rlim_cur);
        facts->memlock_hard_bytes = limit_of(limit.rlim_max);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        facts->files_soft = limit_of(limit.rlim_cur);
        facts->files_hard = limit_of(limit.rlim_max);
    }
    facts->user = geteuid();
    facts->seccomp = read_key("/proc/self/status", "Seccomp", text, sizeof text) ? atoi(text) : -1;
    if (read_key("/proc/self/status", "CapEff", text, sizeof text)) {
        const unsigned long long effective = strtoull(text, NULL, 16);
        facts->can_lock = effective >> CAP_IPC_LOCK & 1;
        facts->can_admin_network = effective >> CAP_NET_ADMIN & 1;
    }
}

static void gather_processors(struct doctor_facts *facts)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    facts->cpus_online = facts->cpus_allowed = online > 0 ? (uint32_t)online : 1;
    /* As many as the kernel may ever have; a set too small is refused. */
    for (size_t cpus = 1024; cpus <= 1 << 16; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        if (!set)
            break;
        const bool got = sched_getaffinity(0, bytes, set) == 0;
        if (got)
            facts->cpus_allowed = (uint32_t)CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (got)
            break;
    }
    if (!read_key("/proc/cpuinfo", "model name", facts->cpu_model, sizeof facts->cpu_model))
        read_key("/proc/cpuinfo", "CPU part", facts->cpu_model, sizeof facts->cpu_model);
    doctor_read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", facts->governor, sizeof facts->governor);
    doctor_read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", facts->clock_source,
                     sizeof facts->clock_source);
    doctor_read_line("/sys/devices/system/clocksource/clocksource0/available_clocksource", facts->clock_sources,
                     sizeof facts->clock_sources);
}

/* "always [madvise] never" -> "madvise" */
static void keep_chosen(char *text)
{
    char *from = strchr(text, '['), *to = from ? strchr(from, ']') : NULL;
    if (!to)
        return;
    *to = '\0';
    memmove(text, from + 1, (size_t)(to - from));
}

static void gather_memory(struct doctor_facts *facts)
{
    char text[DOCTOR_TEXT_BYTES];
    if (read_key("/proc/meminfo", "MemTotal", text, sizeof text))
        facts->memory_bytes = strtoull(text, NULL, 10) * 1024;
    if (read_key("/proc/meminfo", "Hugepagesize", text, sizeof text))
        facts->huge_page_bytes = strtoull(text, NULL, 10) * 1024;
    doctor_read_line("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text);
    keep_chosen(text);
    snprintf(facts->huge_transparent, sizeof facts->huge_transparent, "%.31s", text);
}

/* Control groups: a quota holds for all groups below, so the smallest up to the root counts. */

static void lower_quota(struct doctor_facts *facts, double quota, double period)
{
    if (quota > 0 && period > 0 && (facts->cpu_quota == 0 || quota / period < facts->cpu_quota))
        facts->cpu_quota = quota / period;
}

static void gather_group(struct doctor_facts *facts, const char *folder)
{
    char path[1200], text[DOCTOR_TEXT_BYTES];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (doctor_read_line(path, text, sizeof text) && sscanf(text, "%lf %lf", &quota, &period) == 2)
        lower_quota(facts, quota, period);
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (doctor_read_line(path, text, sizeof text) && sscanf(text, "%lf", &quota) == 1) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        if (doctor_read_line(path, text, sizeof text) && sscanf(text, "%lf", &period) == 1)
            lower_quota(facts, quota, period);
    }
    snprintf(path, sizeof path, "%s/memory.max", folder);
    if (doctor_read_line(path, text, sizeof text) && *text >= '0' && *text <= '9')
        facts->memory_quota_bytes = base_min_u64(facts->memory_quota_bytes, strtoull(text, NULL, 10));
}

static void gather_groups_upwards(struct doctor_facts *facts, const char *root, char *path)
{
    char folder[1100];
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s", root, path);
        gather_group(facts, folder);
        char *last = strrchr(path, '/');
        if (!last || !*path)
            return;
        *last = '\0';
    }
}

/* Lines "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1). */
static void gather_groups(struct doctor_facts *facts)
{
    char line[1024];
    facts->memory_quota_bytes = DOCTOR_UNLIMITED;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        if (!*controllers)
            gather_groups_upwards(facts, "/sys/fs/cgroup", path);
        else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset"))
            gather_groups_upwards(facts, "/sys/fs/cgroup/cpu", path);
    }
    if (file)
        fclose(file);
    static const char *const signs[] = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        facts->container |= access(signs[i], F_OK) == 0;
}

enum base_status doctor_gather(const char *interface, struct doctor_facts *facts, struct base_error *error)
{
    struct utsname system;
    *facts = (struct doctor_facts){0};
    if (uname(&system) == 0) {
        snprintf(facts->release, sizeof facts->release, "%s", system.release);
        snprintf(facts->machine, sizeof facts->machine, "%.31s", system.machine);
        snprintf(facts->host, sizeof facts->host, "%s", system.nodename);
    }
    doctor_gather_cards(facts);
    struct doctor_card *asked = NULL;
    for (uint32_t i = 0; interface && i < facts->card_count; i++)
        if (strcmp(facts->card[i].name, interface) == 0)
            asked = &facts->card[i];
    if (interface && !asked)
        return base_error_set(error, BASE_NOT_FOUND,
                              "--interface=%s: there is no such interface here; `ip link' lists them", interface);
    gather_sysctls(facts);
    gather_process(facts);
    gather_processors(facts);
    gather_memory(facts);
    gather_groups(facts);
    doctor_gather_numa(facts->huge_page_bytes, &facts->numa);
    net_probe_run(&facts->probe);
    net_probe_socket(&facts->socket);
    if (asked) {
        asked->receive_tried = true;
        net_probe_receive_zc(asked->index, asked->queues > 0 ? asked->queues - 1 : 0, &asked->receive_result);
    }
    return BASE_OK;
}

const char *doctor_sysctl_path(enum doctor_sysctl sysctl)
{
    static const char *const paths[DOCTOR_SYSCTL_COUNT] = {
#define X(name, path) [DOCTOR_SYSCTL_##name] = path,
        DOCTOR_SYSCTL_LIST(X)
#undef X
    };
    return (unsigned)sysctl < DOCTOR_SYSCTL_COUNT ? paths[sysctl] : "";
}
