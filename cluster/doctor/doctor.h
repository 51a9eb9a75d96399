/* `millrace doctor`: what this machine and this process give to Millrace, and what to change. It talks to no cluster.
 *
 * Three steps, each in files of its own: doctor_gather fills the facts (doctor/facts.c, doctor/numa.c, doctor/links.c,
 * doctor/ethtool.c) and judges nothing; doctor_judge turns facts into findings (doctor/judge.c, doctor/cards.c) and
 * asks nobody; doctor_print and doctor_json show both. */
#ifndef MILLRACE_CLUSTER_DOCTOR_DOCTOR_H
#define MILLRACE_CLUSTER_DOCTOR_DOCTOR_H

#include <stdio.h>

#include "base/status.h"
#include "net/engine/rung.h"
#include "net/probe/probe.h"

/* ---- facts ---- */

/* X(name, file below /proc/sys): shown as they are; "" where the kernel has none or does not let us read it. */
#define DOCTOR_SYSCTL_LIST(X)                                                                                          \
    X(IO_URING_DISABLED, "kernel/io_uring_disabled")                                                                   \
    X(IO_URING_GROUP, "kernel/io_uring_group")                                                                         \
    X(NUMA_BALANCING, "kernel/numa_balancing")                                                                         \
    X(BUSY_POLL, "net/core/busy_poll")                                                                                 \
    X(BUSY_READ, "net/core/busy_read")                                                                                 \
    X(RMEM_MAX, "net/core/rmem_max")                                                                                   \
    X(WMEM_MAX, "net/core/wmem_max")                                                                                   \
    X(OPTMEM_MAX, "net/core/optmem_max")                                                                               \
    X(SOMAXCONN, "net/core/somaxconn")                                                                                 \
    X(TCP_RMEM, "net/ipv4/tcp_rmem")                                                                                   \
    X(TCP_WMEM, "net/ipv4/tcp_wmem")                                                                                   \
    X(TCP_MEM, "net/ipv4/tcp_mem")                                                                                     \
    X(CONGESTION, "net/ipv4/tcp_congestion_control")                                                                   \
    X(CONGESTION_ALLOWED, "net/ipv4/tcp_allowed_congestion_control")                                                   \
    X(CONGESTION_AVAILABLE, "net/ipv4/tcp_available_congestion_control")                                               \
    X(HUGE_PAGES, "vm/nr_hugepages")                                                                                   \
    X(HUGE_PAGES_OVERCOMMIT, "vm/nr_overcommit_hugepages")                                                             \
    X(OVERCOMMIT_MEMORY, "vm/overcommit_memory")                                                                       \
    X(MAX_MAP_COUNT, "vm/max_map_count")

enum doctor_sysctl {
#define X(name, path) DOCTOR_SYSCTL_##name,
    DOCTOR_SYSCTL_LIST(X)
#undef X
        DOCTOR_SYSCTL_COUNT
};

enum {
    DOCTOR_WORD_BYTES = 32,
    DOCTOR_TEXT_BYTES = 128,
    DOCTOR_NUMA_MAX = 64,
    DOCTOR_CARDS_MAX = 128,
};

#define DOCTOR_UNLIMITED UINT64_MAX

struct doctor_numa_node {
    uint32_t number;
    char cpus[DOCTOR_TEXT_BYTES]; /* "0-15,32-47" */
    uint32_t cpu_count;
    uint64_t memory_bytes, free_bytes;
    uint32_t huge_pages, huge_pages_free; /* of huge_page_bytes */
    uint32_t distance[DOCTOR_NUMA_MAX];   /* to the node at the same place in the list */
};

struct doctor_numa {
    bool available; /* false: the kernel knows no nodes, and the list has one made up of the whole machine */
    uint32_t count;
    struct doctor_numa_node node[DOCTOR_NUMA_MAX];
};

/* Of an offload: FIXED_OFF cannot be turned on. */
enum doctor_switch { DOCTOR_SWITCH_UNKNOWN, DOCTOR_SWITCH_OFF, DOCTOR_SWITCH_FIXED_OFF, DOCTOR_SWITCH_ON };

/* X(field, the kernel's name) */
#define DOCTOR_OFFLOAD_LIST(X)                                                                                         \
    X(tso, "tx-tcp-segmentation")                                                                                      \
    X(gso, "tx-generic-segmentation")                                                                                  \
    X(scatter, "tx-scatter-gather")                                                                                    \
    X(gro, "rx-gro")                                                                                                   \
    X(gro_hw, "rx-gro-hw")                                                                                             \
    X(ntuple, "rx-ntuple-filter")

/* A network interface. */
struct doctor_card {
    char name[16];
    uint32_t index;
    bool up, loopback, physical;    /* physical: a device is below it, be it a virtual machine's */
    char kind[DOCTOR_WORD_BYTES];   /* "veth", "bridge"; "" for others */
    char driver[DOCTOR_WORD_BYTES]; /* "mlx5_core", "" when it has none */
    char qdisc[DOCTOR_WORD_BYTES];
    uint32_t mtu;
    uint32_t speed_mbit;         /* 0: not known */
    int32_t numa_node;           /* -1: none */
    uint32_t queues, queues_max; /* receive queues in use and possible; 0: not known */
    uint32_t spread_queues;      /* queues 0 to spread_queues - 1 get what no rule steers; 0: not known */
    bool xdp;
    enum doctor_switch tso, gso, scatter, gro, gro_hw, ntuple;
    enum doctor_switch data_split; /* as the driver tells: some also say ON when they chose it themselves */
    bool split_threshold_known;
    uint32_t split_threshold_bytes;         /* hds-thresh */
    bool receive_tried;                     /* asked for by --interface */
    struct net_probe_result receive_result; /* then: what binding its last queue gave */
};

struct doctor_facts {
    char release[DOCTOR_TEXT_BYTES], machine[DOCTOR_WORD_BYTES], host[DOCTOR_TEXT_BYTES];
    char sysctl[DOCTOR_SYSCTL_COUNT][DOCTOR_TEXT_BYTES];

    uint64_t memlock_soft_bytes, memlock_hard_bytes; /* DOCTOR_UNLIMITED */
    uint64_t files_soft, files_hard;
    uint32_t user;
    int32_t seccomp; /* 0 none, 1 strict, 2 filter, -1 not known */
    bool can_lock;   /* CAP_IPC_LOCK: the limit of locked memory does not count */
    bool can_admin_network;

    char cpu_model[DOCTOR_TEXT_BYTES];
    uint32_t cpus_online, cpus_allowed;
    char governor[DOCTOR_WORD_BYTES]; /* of the CPU frequency; "" where none is to be chosen */
    char clock_source[DOCTOR_WORD_BYTES], clock_sources[DOCTOR_TEXT_BYTES];
    bool container;
    double cpu_quota;                          /* CPUs that the cgroup may use; 0: no quota */
    uint64_t memory_bytes, memory_quota_bytes; /* of the machine; of the cgroup, DOCTOR_UNLIMITED */
    char huge_transparent[DOCTOR_WORD_BYTES];  /* "madvise" */
    uint64_t huge_page_bytes;

    struct net_probe probe;
    struct net_probe_socket socket;
    struct doctor_numa numa;
    uint32_t card_count, cards_left_out;
    struct doctor_card card[DOCTOR_CARDS_MAX];
};

/* Fills *facts; what cannot be found out stays empty. interface may be NULL; else its last receive queue is bound for a
 * moment, to see whether zero-copy receive works. Errors: BASE_NOT_FOUND, there is no such interface. */
enum base_status doctor_gather(const char *interface, struct doctor_facts *facts, struct base_error *error);

/* ---- findings ---- */

/* X(name, word) */
#define DOCTOR_SEVERITY_LIST(X)                                                                                        \
    X(NEEDED, "needed")   /* without it Millrace does not run, or not as it should: exit code 1 */                     \
    X(ADVISED, "advised") /* it runs well, and would run better */

enum doctor_severity {
#define X(name, word) DOCTOR_SEVERITY_##name,
    DOCTOR_SEVERITY_LIST(X)
#undef X
        DOCTOR_SEVERITY_COUNT
};

enum { DOCTOR_FINDINGS_MAX = 96, DOCTOR_SENTENCE_BYTES = 240, DOCTOR_STEPS_MAX = 8 };

struct doctor_finding {
    enum doctor_severity severity;
    char subject[DOCTOR_WORD_BYTES];     /* "io_uring", or an interface */
    char text[DOCTOR_SENTENCE_BYTES];    /* what is so, and what it costs */
    char command[DOCTOR_SENTENCE_BYTES]; /* to type, or "" where only somebody else can change it */
};

struct doctor_findings {
    uint32_t count; /* the most important first */
    struct doctor_finding finding[DOCTOR_FINDINGS_MAX];
};

/* X(name, word): of zero-copy over one interface. */
#define DOCTOR_ZERO_COPY_LIST(X)                                                                                       \
    X(WORKS, "works")                                                                                                  \
    X(STEPS, "steps")   /* when the steps have been taken */                                                           \
    X(CANNOT, "cannot") /* whatever is done: Millrace copies, and says so */

enum doctor_zero_copy {
#define X(name, word) DOCTOR_ZERO_COPY_##name,
    DOCTOR_ZERO_COPY_LIST(X)
#undef X
        DOCTOR_ZERO_COPY_COUNT
};

struct doctor_path {
    enum doctor_zero_copy state;
    char why[DOCTOR_SENTENCE_BYTES];
    uint32_t step_count; /* commands still missing, in order */
    char step[DOCTOR_STEPS_MAX][DOCTOR_TEXT_BYTES];
};

void doctor_judge(const struct doctor_facts *facts, struct doctor_findings *findings);
bool doctor_is_well(const struct doctor_findings *findings);
void doctor_judge_send(const struct doctor_facts *facts, const struct doctor_card *card, struct doctor_path *path);
void doctor_judge_receive(const struct doctor_facts *facts, const struct doctor_card *card, struct doctor_path *path);

/* What a rung of the ladder of engines lacks here: the first feature of its that does not work, or NET_PROBE_COUNT. */
enum net_probe_id doctor_rung_lacks(const struct doctor_facts *facts, enum net_engine_kind kind);
/* The engine that AUTO takes here: "uring" or "epoll". */
const char *doctor_engine(const struct doctor_facts *facts);
/* How much memory may be locked; DOCTOR_UNLIMITED also when the limit does not count. */
uint64_t doctor_lockable_bytes(const struct doctor_facts *facts);

/* ---- showing ---- */

/* For people, in 100 columns. */
void doctor_print(const struct doctor_facts *facts, const struct doctor_findings *findings, FILE *to);
/* One JSON object without a newline; malloc'ed, NULL when out of memory. docs/man/millrace-doctor.1 has its keys. */
char *doctor_json(const struct doctor_facts *facts, const struct doctor_findings *findings);

const char *doctor_sysctl_path(enum doctor_sysctl sysctl); /* "kernel/io_uring_disabled" */
const char *doctor_severity_word(enum doctor_severity severity);
const char *doctor_zero_copy_word(enum doctor_zero_copy state);
const char *doctor_switch_word(enum doctor_switch value); /* "on", "off", "fixed off", "unknown" */

#endif
