/* From facts to findings: what is missing, what it costs, what to type. Pure: nothing here asks the machine.
 *
 * NEEDED is for what keeps Millrace from running as it should: io_uring that is there but not given, a limit that fails
 * jobs. ADVISED is for what only costs time. What nobody can change by a command (an old kernel) comes without one. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cluster/doctor/internal.h"

/* What a worker may want of locked memory: its ring, its buffer rings, and zero-copy sends in flight. */
#define LOCKED_BYTES_PER_WORKER (UINT64_C(8) << 20)
/* Sockets to every worker of a cluster of some size, and files. */
enum { FILES_NEEDED = 1024, FILES_ADVISED = 16384 };
enum { OPTMEM_ADVISED_BYTES = 128 << 10, MAPS_ADVISED = 65530 };

void doctor_find(struct doctor_findings *findings, enum doctor_severity severity, const char *subject,
                 const char *command, const char *format, ...)
{
    if (findings->count == DOCTOR_FINDINGS_MAX)
        return;
    /* Behind those as important: the order within a severity is that of finding. */
    uint32_t place = findings->count;
    while (place > 0 && findings->finding[place - 1].severity > severity)
        place--;
    struct doctor_finding *made = &findings->finding[place];
    memmove(made + 1, made, (findings->count - place) * sizeof *made);
    findings->count++;
    *made = (struct doctor_finding){.severity = severity};
    snprintf(made->subject, sizeof made->subject, "%s", subject);
    snprintf(made->command, sizeof made->command, "%s", command);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made->text, sizeof made->text, format, arguments);
    va_end(arguments);
}

static bool judge_works(const struct doctor_facts *facts, enum net_probe_id id)
{
    return facts->probe.result[id].state == NET_PROBE_STATE_WORKS;
}

/* What the uring engine cannot do without. */
static const enum net_probe_id essential[] = {NET_PROBE_URING, NET_PROBE_DISABLED_START, NET_PROBE_SUBMIT_ALL,
                                              NET_PROBE_CLAMP};

const char *doctor_engine(const struct doctor_facts *facts)
{
    for (size_t i = 0; i < sizeof essential / sizeof *essential; i++)
        if (!judge_works(facts, essential[i]))
            return "epoll";
    return "uring";
}

static const struct {
    uint32_t features; /* all of them */
    enum net_probe_id probe;
} needs[] = {
    {NET_FEATURE_URING, NET_PROBE_URING},
    {NET_FEATURE_DEFER_TASKRUN, NET_PROBE_DEFER_TASKRUN},
    {NET_FEATURE_REGISTERED_RING, NET_PROBE_REGISTERED_RING},
    {NET_FEATURE_REGISTERED_FILES, NET_PROBE_REGISTERED_FILES},
    {NET_FEATURE_REGISTERED_BUFFERS, NET_PROBE_REGISTERED_BUFFERS},
    {NET_FEATURE_MULTISHOT, NET_PROBE_BUFFER_RING},
    {NET_FEATURE_MULTISHOT, NET_PROBE_MULTISHOT_ACCEPT},
    {NET_FEATURE_MULTISHOT, NET_PROBE_MULTISHOT_RECEIVE},
    {NET_FEATURE_BUNDLE, NET_PROBE_BUNDLE},
    {NET_FEATURE_INCREMENTAL, NET_PROBE_INCREMENTAL},
    {NET_FEATURE_SEND_ZC | NET_FEATURE_URING, NET_PROBE_SEND_ZC},
    {NET_FEATURE_RECV_ZC, NET_PROBE_RECV_ZC},
};

enum net_probe_id doctor_rung_lacks(const struct doctor_facts *facts, enum net_engine_kind kind)
{
    const uint32_t features = net_rung_features(kind);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
        if ((features & needs[i].features) == needs[i].features && !judge_works(facts, needs[i].probe))
            return needs[i].probe;
    if ((features & NET_FEATURE_SEND_ZC) && !(features & NET_FEATURE_URING) &&
        !judge_works(facts, NET_PROBE_MSG_ZEROCOPY))
        return NET_PROBE_MSG_ZEROCOPY;
    return NET_PROBE_COUNT;
}

uint64_t doctor_lockable_bytes(const struct doctor_facts *facts)
{
    return facts->can_lock ? DOCTOR_UNLIMITED : facts->memlock_soft_bytes;
}

/* ---- io_uring ---- */

static const char *way_to_io_uring(const struct doctor_facts *facts)
{
    const struct net_probe_result *result = &facts->probe.result[NET_PROBE_URING];
    if (result->os_error == ENOMEM)
        return ""; /* the finding about locked memory has it */
    if (result->os_error == EPERM && strcmp(facts->sysctl[DOCTOR_SYSCTL_IO_URING_DISABLED], "2") == 0)
        return "sysctl -w kernel.io_uring_disabled=0";
    if (result->os_error == EPERM && strcmp(facts->sysctl[DOCTOR_SYSCTL_IO_URING_DISABLED], "1") == 0)
        return "sysctl -w kernel.io_uring_disabled=0   # or: sysctl -w kernel.io_uring_group=GID, and join that group";
    if (facts->seccomp > 0 && (result->os_error == EPERM || result->os_error == ENOSYS))
        return "docker run --security-opt seccomp=unconfined ...   # or a profile that allows io_uring_*";
    return "";
}

static void judge_uring(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct net_probe_result *first = &facts->probe.result[NET_PROBE_URING];
    if (first->state != NET_PROBE_STATE_WORKS) {
        doctor_find(findings, DOCTOR_SEVERITY_NEEDED, "io_uring", way_to_io_uring(facts),
                    "Millrace runs on epoll here: %s", first->why);
        return;
    }
    for (size_t i = 1; i < sizeof essential / sizeof *essential; i++) {
        const struct net_probe_result *result = &facts->probe.result[essential[i]];
        if (result->state == NET_PROBE_STATE_WORKS || result->state == NET_PROBE_STATE_LIMITED)
            continue; /* a limit is found below */
        doctor_find(findings, DOCTOR_SEVERITY_NEEDED, "io_uring", "", "Millrace runs on epoll here: %s: %s",
                    net_probe_word(essential[i]), result->why);
        return;
    }
}

/* What engines use when it is there, and otherwise do without. */
static void judge_features(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    static const enum net_probe_id used[] = {
        NET_PROBE_DEFER_TASKRUN,      NET_PROBE_REGISTERED_RING, NET_PROBE_REGISTERED_FILES,  NET_PROBE_BUFFER_RING,
        NET_PROBE_MULTISHOT_ACCEPT,   NET_PROBE_BUNDLE,          NET_PROBE_MULTISHOT_RECEIVE, NET_PROBE_INCREMENTAL,
        NET_PROBE_REGISTERED_BUFFERS, NET_PROBE_SEND_ZC};
    bool loopback = true;
    if (!judge_works(facts, NET_PROBE_URING))
        return;
    for (size_t i = 0; i < sizeof used / sizeof *used; i++) {
        const struct net_probe_result *result = &facts->probe.result[used[i]];
        const char *word = net_probe_word(used[i]);
        if (result->state == NET_PROBE_STATE_MISSING)
            doctor_find(findings, DOCTOR_SEVERITY_ADVISED, word, "", "not in this kernel: Linux %s and newer have it",
                        net_probe_since(used[i]));
        else if (result->state == NET_PROBE_STATE_BROKEN)
            doctor_find(findings, DOCTOR_SEVERITY_ADVISED, word, "",
                        "is broken in this kernel (%s): do not ask for it with --engine; use a newer kernel",
                        result->why);
        loopback &= result->state != NET_PROBE_STATE_UNTRIED;
    }
    if (!loopback)
        doctor_find(findings, DOCTOR_SEVERITY_NEEDED, "loopback", "ip link set lo up",
                    "nothing could be sent over the loopback interface, so sending and receiving were not tried");
}

/* ---- limits ---- */

static void judge_limits(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const uint64_t wanted_bytes = LOCKED_BYTES_PER_WORKER * facts->cpus_allowed;
    const bool small = facts->probe.result[NET_PROBE_ENGINE_RING].state == NET_PROBE_STATE_LIMITED ||
                       facts->probe.result[NET_PROBE_URING].state == NET_PROBE_STATE_LIMITED;
    char command[DOCTOR_SENTENCE_BYTES] =
        "ulimit -l unlimited   # in the daemon's shell; systemd: LimitMEMLOCK=infinity";
    if (facts->memlock_hard_bytes != DOCTOR_UNLIMITED)
        snprintf(command, sizeof command,
                 "printf '* - memlock unlimited\\n' >/etc/security/limits.d/millrace.conf   # systemd: "
                 "LimitMEMLOCK=infinity");
    if (small || doctor_lockable_bytes(facts) < LOCKED_BYTES_PER_WORKER)
        doctor_find(findings, DOCTOR_SEVERITY_NEEDED, "locked memory", command,
                    "the limit is %" PRIu64 " KiB: rings become small or fail, zero-copy sends fail",
                    doctor_lockable_bytes(facts) / 1024);
    else if (doctor_lockable_bytes(facts) < wanted_bytes)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "locked memory", command,
                    "the limit is %" PRIu64 " KiB; %u workers may need %" PRIu64 " KiB",
                    doctor_lockable_bytes(facts) / 1024, facts->cpus_allowed, wanted_bytes / 1024);
    if (facts->files_soft < FILES_ADVISED) {
        snprintf(command, sizeof command, "ulimit -n %" PRIu64,
                 facts->files_hard >= FILES_ADVISED ? base_min_u64(facts->files_hard, 65536) : 65536);
        doctor_find(findings, facts->files_soft < FILES_NEEDED ? DOCTOR_SEVERITY_NEEDED : DOCTOR_SEVERITY_ADVISED,
                    "open files", command,
                    "%" PRIu64 " are allowed; every worker has a connection to every worker of the other nodes",
                    facts->files_soft);
    }
}

/* ---- TCP ---- */

static bool has_word(const char *list, const char *word)
{
    const size_t bytes = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += bytes)
        if ((at == list || at[-1] == ' ') && (at[bytes] == '\0' || at[bytes] == ' '))
            return true;
    return false;
}

static void judge_congestion(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const char *used = facts->socket.congestion;
    char command[DOCTOR_SENTENCE_BYTES];
    if (*used == '\0' || strcmp(used, "cubic") == 0)
        return;
    const bool slow = strcmp(used, "bbr") == 0;
    if (!has_word(facts->sysctl[DOCTOR_SYSCTL_CONGESTION_AVAILABLE], "cubic"))
        snprintf(command, sizeof command, "modprobe tcp_cubic && sysctl -w net.ipv4.tcp_congestion_control=cubic");
    else
        snprintf(command, sizeof command, "sysctl -w net.ipv4.tcp_allowed_congestion_control=\"%s%scubic\"",
                 facts->sysctl[DOCTOR_SYSCTL_CONGESTION_ALLOWED],
                 *facts->sysctl[DOCTOR_SYSCTL_CONGESTION_ALLOWED] ? " " : "");
    doctor_find(findings, slow ? DOCTOR_SEVERITY_NEEDED : DOCTOR_SEVERITY_ADVISED, "congestion control", command,
                "%s is used, because cubic cannot be set here%s", used,
                slow ? "; in a machine room bbr costs twice the CPU and half the throughput" : "");
}

static void judge_memory_of_sends(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const char *optmem = facts->sysctl[DOCTOR_SYSCTL_OPTMEM_MAX];
    if (*optmem && strtoull(optmem, NULL, 10) < OPTMEM_ADVISED_BYTES)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "option memory", "sysctl -w net.core.optmem_max=131072",
                    "net.core.optmem_max is %s: zero-copy sends of the epoll-zc engine run out of notifications",
                    optmem);
}

/* ---- machine ---- */

static void judge_processors(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    char command[DOCTOR_SENTENCE_BYTES];
    if (facts->cpu_quota > 0 && facts->cpu_quota + 0.01 < facts->cpus_allowed) {
        const uint32_t workers = facts->cpu_quota >= 1 ? (uint32_t)facts->cpu_quota : 1;
        snprintf(command, sizeof command, "millraced node --workers=%u ...   # or give the container more CPUs",
                 workers);
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "CPU quota", command,
                    "%u CPUs are seen, but the control group may use %.1f: extra workers are throttled",
                    facts->cpus_allowed, facts->cpu_quota);
    }
    if (*facts->governor && strcmp(facts->governor, "performance") != 0)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "CPU frequency", "cpupower frequency-set -g performance",
                    "the governor is %s: cores that wait often are clocked down", facts->governor);
    static const char *const slow_clocks[] = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"};
    for (size_t i = 0; i < sizeof slow_clocks / sizeof *slow_clocks; i++) {
        if (strcmp(facts->clock_source, slow_clocks[i]) != 0)
            continue;
        *command = '\0';
        if (has_word(facts->clock_sources, "tsc"))
            snprintf(command, sizeof command,
                     "echo tsc >/sys/devices/system/clocksource/clocksource0/current_clocksource");
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "clock", command,
                    "the clock source %s makes reading the time a slow system call", facts->clock_source);
    }
}

static void judge_memory(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    if (strcmp(facts->huge_transparent, "never") == 0)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "huge pages",
                    "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
                    "transparent huge pages are off: hash tables miss the TLB on most inserts");
    if (strcmp(facts->sysctl[DOCTOR_SYSCTL_OVERCOMMIT_MEMORY], "2") == 0)
        doctor_find(
            findings, DOCTOR_SEVERITY_ADVISED, "overcommit", "sysctl -w vm.overcommit_memory=0",
            "vm.overcommit_memory is 2: memory is charged when it is mapped, so jobs fail before it is used up");
    const char *maps = facts->sysctl[DOCTOR_SYSCTL_MAX_MAP_COUNT];
    if (*maps && strtoull(maps, NULL, 10) < MAPS_ADVISED)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "memory maps", "sysctl -w vm.max_map_count=262144",
                    "vm.max_map_count is %s: large jobs may run out of mappings", maps);
    if (facts->numa.count > 1 && strcmp(facts->sysctl[DOCTOR_SYSCTL_NUMA_BALANCING], "1") == 0)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "NUMA balancing", "sysctl -w kernel.numa_balancing=0",
                    "the kernel moves the pages of pinned workers between NUMA nodes");
}

void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    findings->count = 0;
    judge_uring(facts, findings);
    judge_limits(facts, findings);
    judge_features(facts, findings);
    judge_congestion(facts, findings);
    doctor_judge_cards(facts, findings);
    judge_processors(facts, findings);
    judge_memory(facts, findings);
    judge_memory_of_sends(facts, findings);
}

bool doctor_is_well(const struct doctor_findings *findings)
{
    return findings->count == 0 || findings->finding[0].severity != DOCTOR_SEVERITY_NEEDED;
}

const char *doctor_severity_word(enum doctor_severity severity)
{
    static const char *const words[DOCTOR_SEVERITY_COUNT] = {
#define X(name, word) [DOCTOR_SEVERITY_##name] = word,
        DOCTOR_SEVERITY_LIST(X)
#undef X
    };
    return (unsigned)severity < DOCTOR_SEVERITY_COUNT ? words[severity] : "unknown";
}
