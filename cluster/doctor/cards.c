/* Network interfaces: whether zero-copy can work over each, which steps are missing, and what else to set. Pure, like
 * the rest of judging.
 *
 * Zero-copy receive wants all of this, in this order: a kernel and a driver that can lend a receive queue, the
 * capability, more than one queue, offloads that aggregate and steer, no XDP program, headers split from data,
 * connections spread over the lower queues so that the upper ones are ours. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cluster/doctor/internal.h"

enum { SPEED_FAST_MBIT = 25000, MTU_LARGE = 9000, SOCKET_BYTES_FAST = 16 << 20 };

static void add_step(struct doctor_path *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_step(struct doctor_path *path, const char *format, ...)
{
    if (path->step_count == DOCTOR_STEPS_MAX)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path->step[path->step_count++], sizeof path->step[0], format, arguments);
    va_end(arguments);
}

static void cards_say(struct doctor_path *path, enum doctor_zero_copy state, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void cards_say(struct doctor_path *path, enum doctor_zero_copy state, const char *format, ...)
{
    path->state = state;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path->why, sizeof path->why, format, arguments);
    va_end(arguments);
}

/* ---- sending ---- */

/* Bytes that stay on the machine are copied when the other socket takes them. */
static bool stays_here(const struct doctor_card *card)
{
    static const char *const kinds[] = {"veth", "dummy", "ifb", "tun", "netkit"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(card->kind, kinds[i]) == 0)
            return true;
    return card->loopback;
}

void doctor_judge_send(const struct doctor_facts *facts, const struct doctor_card *card, struct doctor_path *path)
{
    const struct net_probe_result *result = &facts->probe.result[NET_PROBE_SEND_ZC];
    *path = (struct doctor_path){0};
    if (stays_here(card))
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "the kernel copies what stays on this machine");
    else if (result->state != NET_PROBE_STATE_WORKS && result->state != NET_PROBE_STATE_UNTRIED)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "send-zc: %s", result->why);
    else if (card->scatter == DOCTOR_SWITCH_FIXED_OFF)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "the driver cannot send scattered memory");
    else if (card->scatter == DOCTOR_SWITCH_OFF) {
        cards_say(path, DOCTOR_ZERO_COPY_STEPS, "scatter-gather is off, so the kernel copies");
        add_step(path, "ethtool -K %s sg on tx on", card->name);
    } else if (!card->physical) {
        cards_say(path, DOCTOR_ZERO_COPY_WORKS, "if the device below it avoids copies");
    } else {
        cards_say(path, DOCTOR_ZERO_COPY_WORKS, "%s", card->scatter == DOCTOR_SWITCH_ON ? "" : "as far as can be seen");
    }
}

/* ---- receiving ---- */

static bool driver_lends_queues(const char *driver)
{
    static const char *const drivers[] = {"mlx5_core", "bnxt_en", "fbnic", "gve"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        if (strcmp(driver, drivers[i]) == 0)
            return true;
    return false;
}

static void step_queues(const struct doctor_facts *facts, const struct doctor_card *card, struct doctor_path *path)
{
    const uint32_t wanted = (uint32_t)base_min_u64(card->queues_max, 2 * (uint64_t)facts->cpus_allowed);
    const uint32_t queues = card->queues > 1 ? card->queues : wanted > 1 ? wanted : 2;
    if (card->queues == 1)
        add_step(path, "ethtool -L %s combined %u", card->name, queues);
    char words[DOCTOR_WORD_BYTES] = "";
    if (card->gro_hw == DOCTOR_SWITCH_OFF)
        strcat(words, " rx-gro-hw on");
    if (card->ntuple == DOCTOR_SWITCH_OFF)
        strcat(words, " ntuple on");
    if (*words)
        add_step(path, "ethtool -K %s%s", card->name, words);
    if (card->xdp) /* it prevents splitting */
        add_step(path, "ip link set %s xdp off", card->name);
    const bool threshold = card->split_threshold_known && card->split_threshold_bytes != 0;
    if (card->data_split != DOCTOR_SWITCH_ON || threshold)
        add_step(path, "ethtool -G %s tcp-data-split on hds-thresh 0", card->name);
    if (card->spread_queues == 0 || card->spread_queues >= queues)
        add_step(path, "ethtool -X %s equal %u   # keeps queues %u to %u for Millrace", card->name, queues / 2,
                 queues / 2, queues - 1);
}

void doctor_judge_receive(const struct doctor_facts *facts, const struct doctor_card *card, struct doctor_path *path)
{
    const struct net_probe_result *kernel = &facts->probe.result[NET_PROBE_RECV_ZC];
    const struct net_probe_result *tried = card->receive_tried ? &card->receive_result : NULL;
    *path = (struct doctor_path){0};
    if (tried && tried->state == NET_PROBE_STATE_WORKS)
        cards_say(path, DOCTOR_ZERO_COPY_WORKS, "its last queue could be bound");
    else if (stays_here(card) || !card->physical)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "%s", tried ? tried->why : "not a card");
    else if (!driver_lends_queues(card->driver) && tried)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "%s: %s", *card->driver ? card->driver : "no driver", tried->why);
    else if (!driver_lends_queues(card->driver))
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "%s is not known to lend receive queues (--interface=%s tries it)",
                  *card->driver ? card->driver : "its driver", card->name);
    else if (kernel->state != NET_PROBE_STATE_WORKS && kernel->state != NET_PROBE_STATE_FORBIDDEN)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "recv-zc: %s", kernel->why);
    else if (card->gro_hw == DOCTOR_SWITCH_FIXED_OFF && strcmp(card->driver, "mlx5_core") == 0)
        cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "the card cannot do rx-gro-hw, which %s needs", card->driver);
    else {
        if (!facts->can_admin_network)
            add_step(path, "setcap cap_net_admin+ep \"$(command -v millraced)\"");
        step_queues(facts, card, path);
        if (path->step_count > 0)
            cards_say(path, DOCTOR_ZERO_COPY_STEPS, "%s%s",
                      tried ? "binding its last queue failed: " : "the driver can", tried ? tried->why : "");
        else if (tried)
            cards_say(path, DOCTOR_ZERO_COPY_CANNOT, "everything is set, but: %s", tried->why);
        else
            cards_say(path, DOCTOR_ZERO_COPY_WORKS, "everything is set (--interface=%s tries it)", card->name);
    }
}

/* ---- findings ---- */

static void judge_offloads(const struct doctor_card *card, struct doctor_findings *findings)
{
    char command[DOCTOR_SENTENCE_BYTES];
    const bool tso = card->tso == DOCTOR_SWITCH_OFF;
    /* On a veth segments come as large as they were sent, so it has GRO off. */
    const bool gro = card->gro == DOCTOR_SWITCH_OFF && card->physical;
    if (!tso && !gro)
        return;
    snprintf(command, sizeof command, "ethtool -K %s%s%s", card->name, tso ? " sg on tso on" : "",
             gro ? " gro on" : "");
    doctor_find(findings, DOCTOR_SEVERITY_ADVISED, card->name, command,
                "%s off: up to five times the CPU for every byte",
                tso && gro ? "TSO and GRO are"
                : tso      ? "TSO is"
                           : "GRO is");
}

/* The last number of "4096 131072 6291456". */
static uint64_t largest_of(const char *triple)
{
    const char *last = strrchr(triple, ' ');
    return strtoull(last ? last + 1 : triple, NULL, 10);
}

/* On fast cards, what does not matter on slow ones. */
static void judge_speed(const struct doctor_facts *facts, const struct doctor_card *card,
                        struct doctor_findings *findings)
{
    char command[DOCTOR_SENTENCE_BYTES];
    if (card->mtu < MTU_LARGE) {
        snprintf(command, sizeof command, "ip link set %s mtu %u", card->name, MTU_LARGE);
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, card->name, command,
                    "the MTU is %u: %u packs 4 KiB payloads best (switches and all other nodes must allow it)",
                    card->mtu, MTU_LARGE);
    }
    if (card->numa_node >= 0 && facts->numa.count > 1 && facts->cpus_allowed == facts->cpus_online) {
        snprintf(command, sizeof command, "numactl --cpunodebind=%d --preferred=%d millraced node --pin ...",
                 card->numa_node, card->numa_node);
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, card->name, command,
                    "it belongs to NUMA node %d of %u: workers there save a hop for every byte", card->numa_node,
                    facts->numa.count);
    }
}

static void judge_socket_memory(const struct doctor_facts *facts, const struct doctor_card *card,
                                struct doctor_findings *findings)
{
    static const struct {
        enum doctor_sysctl sysctl;
        const char *name, *first;
    } sizes[] = {{DOCTOR_SYSCTL_TCP_RMEM, "net.ipv4.tcp_rmem", "4096 131072"},
                 {DOCTOR_SYSCTL_TCP_WMEM, "net.ipv4.tcp_wmem", "4096 65536"}};
    char command[DOCTOR_SENTENCE_BYTES];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *now = facts->sysctl[sizes[i].sysctl];
        if (!*now || largest_of(now) >= SOCKET_BYTES_FAST)
            continue;
        snprintf(command, sizeof command, "sysctl -w %s=\"%s %u\"", sizes[i].name, sizes[i].first, SOCKET_BYTES_FAST);
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, "socket memory", command,
                    "%s ends at %" PRIu64 " bytes: too little for one connection to fill %s (%u Gbit/s)", sizes[i].name,
                    largest_of(now), card->name, card->speed_mbit / 1000);
    }
}

/* remedy: a command that takes the card's steps by itself, or "". */
static void judge_steps(const struct doctor_card *card, const struct doctor_path *path, const char *what,
                        const char *remedy, struct doctor_findings *findings)
{
    for (uint32_t i = 0; i < path->step_count; i++)
        doctor_find(findings, DOCTOR_SEVERITY_ADVISED, card->name, path->step[i], "step %u of %u to %s%s%s%s", i + 1,
                    path->step_count, what, *remedy ? " (`" : "", remedy,
                    *remedy ? "' takes all that are the card's)" : "");
}

void doctor_judge_cards(const struct doctor_facts *facts, struct doctor_findings *findings)
{
    const struct doctor_card *fastest = NULL;
    for (uint32_t i = 0; i < facts->card_count; i++) {
        const struct doctor_card *card = &facts->card[i];
        struct doctor_path path;
        char remedy[DOCTOR_WORD_BYTES + sizeof card->name];
        if (!card->up || card->loopback || (!card->physical && strcmp(card->kind, "veth") != 0))
            continue;
        judge_offloads(card, findings);
        if (!card->physical)
            continue;
        doctor_judge_send(facts, card, &path);
        judge_steps(card, &path, "send without a copy", "", findings);
        doctor_judge_receive(facts, card, &path);
        snprintf(remedy, sizeof remedy, "deploy/tune-nic %s --apply", card->name);
        judge_steps(card, &path, "receive without a copy", remedy, findings);
        if (card->speed_mbit < SPEED_FAST_MBIT)
            continue;
        judge_speed(facts, card, findings);
        if (!fastest || card->speed_mbit > fastest->speed_mbit)
            fastest = card;
    }
    if (fastest)
        judge_socket_memory(facts, fastest, findings);
}

const char *doctor_zero_copy_word(enum doctor_zero_copy state)
{
    static const char *const words[DOCTOR_ZERO_COPY_COUNT] = {
#define X(name, word) [DOCTOR_ZERO_COPY_##name] = word,
        DOCTOR_ZERO_COPY_LIST(X)
#undef X
    };
    return (unsigned)state < DOCTOR_ZERO_COPY_COUNT ? words[state] : "unknown";
}

const char *doctor_switch_word(enum doctor_switch value)
{
    static const char *const words[] = {
        [DOCTOR_SWITCH_UNKNOWN] = "unknown",
        [DOCTOR_SWITCH_OFF] = "off",
        [DOCTOR_SWITCH_FIXED_OFF] = "fixed off",
        [DOCTOR_SWITCH_ON] = "on",
    };
    return (size_t)value < sizeof words / sizeof *words ? words[value] : "unknown";
}
