/* Facts and findings for people, a topic a line, in 100 columns where names allow it. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/build.h"
#include "cluster/doctor/doctor.h"
#include "cluster/protocol/message.h"
#include "cluster/report/report.h"

enum { PRINT_COLUMNS = 100, PRINT_INDENT = 12, PRINT_VIRTUAL_MAX = 4 };

/* Words that wrap below each other. */
struct paragraph {
    FILE *to;
    size_t column;
};

static void print_begin(struct paragraph *paragraph, const char *title)
{
    fprintf(paragraph->to, "%-*s", PRINT_INDENT, title);
    paragraph->column = PRINT_INDENT;
}

static void print_add(struct paragraph *paragraph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A piece that stays together. */
static void print_add(struct paragraph *paragraph, const char *format, ...)
{
    char piece[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    const size_t bytes = strlen(piece);
    if (paragraph->column > PRINT_INDENT && paragraph->column + 1 + bytes > PRINT_COLUMNS) {
        fprintf(paragraph->to, "\n%*s", PRINT_INDENT, "");
        paragraph->column = PRINT_INDENT;
    } else if (paragraph->column > PRINT_INDENT) {
        fputc(' ', paragraph->to);
        paragraph->column++;
    }
    fputs(piece, paragraph->to);
    paragraph->column += bytes;
}

/* Each word of a sentence is a piece. */
static void add_words(struct paragraph *paragraph, const char *sentence)
{
    while (*sentence) {
        const size_t bytes = strcspn(sentence, " ");
        if (bytes > 0)
            print_add(paragraph, "%.*s", (int)bytes, sentence);
        sentence += bytes;
        sentence += strspn(sentence, " ");
    }
}

static void print_end(struct paragraph *paragraph)
{
    fputc('\n', paragraph->to);
}

static const char *or_none(const char *text)
{
    return *text ? text : "-";
}

static void format_limit(uint64_t bytes, char *text)
{
    if (bytes == DOCTOR_UNLIMITED)
        snprintf(text, REPORT_NUMBER_BYTES, "unlimited");
    else
        report_format_bytes((double)bytes, text);
}

static void print_machine(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    char bytes[REPORT_NUMBER_BYTES];
    print_begin(paragraph, "kernel");
    print_add(paragraph, "Linux %s %s,", facts->release, facts->machine);
    print_add(paragraph, "clock %s", or_none(facts->clock_source));
    print_end(paragraph);
    print_begin(paragraph, "cpu");
    if (*facts->cpu_model)
        print_add(paragraph, "%s,", facts->cpu_model);
    print_add(paragraph, "%u online, %u allowed,", facts->cpus_online, facts->cpus_allowed);
    if (facts->cpu_quota > 0)
        print_add(paragraph, "quota %.1f,", facts->cpu_quota);
    print_add(paragraph, "governor %s", or_none(facts->governor));
    print_end(paragraph);
    for (uint32_t i = 0; i < facts->numa.count; i++) {
        const struct doctor_numa_node *node = &facts->numa.node[i];
        print_begin(paragraph, i == 0 ? "numa" : "");
        report_format_bytes((double)node->memory_bytes, bytes);
        print_add(paragraph, "node %u: CPUs %s,", node->number, or_none(node->cpus));
        print_add(paragraph, "%s", bytes);
        report_format_bytes((double)node->free_bytes, bytes);
        print_add(paragraph, "(%s free),", bytes);
        print_add(paragraph, "huge pages %u (%u free), distances", node->huge_pages, node->huge_pages_free);
        for (uint32_t j = 0; j < facts->numa.count; j++)
            print_add(paragraph, "%u", node->distance[j]);
        print_end(paragraph);
    }
    print_begin(paragraph, "memory");
    report_format_bytes((double)facts->memory_bytes, bytes);
    print_add(paragraph, "%s,", bytes);
    if (facts->memory_quota_bytes != DOCTOR_UNLIMITED) {
        report_format_bytes((double)facts->memory_quota_bytes, bytes);
        print_add(paragraph, "quota %s,", bytes);
    }
    print_add(paragraph, "transparent huge pages %s,", or_none(facts->huge_transparent));
    print_add(paragraph, "overcommit %s", or_none(facts->sysctl[DOCTOR_SYSCTL_OVERCOMMIT_MEMORY]));
    print_end(paragraph);
}

static void print_process(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    static const char *const modes[] = {"none", "strict", "filter"};
    char soft[REPORT_NUMBER_BYTES], hard[REPORT_NUMBER_BYTES];
    format_limit(facts->memlock_soft_bytes, soft);
    format_limit(facts->memlock_hard_bytes, hard);
    print_begin(paragraph, "process");
    print_add(paragraph, "user %u,", facts->user);
    print_add(paragraph, "locked memory %s (at most %s%s),", soft, hard, facts->can_lock ? "; does not count" : "");
    print_add(paragraph, "open files %" PRIu64 ",", facts->files_soft);
    print_add(paragraph, "seccomp %s,", facts->seccomp >= 0 && facts->seccomp < 3 ? modes[facts->seccomp] : "-");
    print_add(paragraph, "CAP_NET_ADMIN %s", facts->can_admin_network ? "yes" : "no");
    if (facts->container)
        print_add(paragraph, "(container)");
    print_end(paragraph);
}

static void print_socket(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    char send[REPORT_NUMBER_BYTES], receive[REPORT_NUMBER_BYTES];
    report_format_bytes(facts->socket.send_buffer_bytes, send);
    report_format_bytes(facts->socket.recv_buffer_bytes, receive);
    print_begin(paragraph, "sockets");
    print_add(paragraph, "congestion %s (default %s),", or_none(facts->socket.congestion),
              or_none(facts->socket.congestion_default));
    print_add(paragraph, "nodelay %s,", facts->socket.nodelay ? "on" : "off");
    if (facts->socket.notsent_lowat_bytes != 0)
        print_add(paragraph, "notsent_lowat %u,", facts->socket.notsent_lowat_bytes);
    print_add(paragraph, "buffers start at %s to send and %s to receive,", send, receive);
    print_add(paragraph, "tcp_rmem %s,", or_none(facts->sysctl[DOCTOR_SYSCTL_TCP_RMEM]));
    print_add(paragraph, "tcp_wmem %s,", or_none(facts->sysctl[DOCTOR_SYSCTL_TCP_WMEM]));
    print_add(paragraph, "optmem %s,", or_none(facts->sysctl[DOCTOR_SYSCTL_OPTMEM_MAX]));
    print_add(paragraph, "busy_poll %s", or_none(facts->sysctl[DOCTOR_SYSCTL_BUSY_POLL]));
    print_end(paragraph);
}

/* What works is a list of names, area by area; what does not gets a line each. */
static void print_features(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    for (int area = 0; area < NET_PROBE_AREA_COUNT; area++) {
        bool any = false;
        print_begin(paragraph, net_probe_area_word((enum net_probe_area)area));
        for (int i = 0; i < NET_PROBE_COUNT; i++) {
            const enum net_probe_id id = (enum net_probe_id)i;
            if (net_probe_area(id) != (enum net_probe_area)area ||
                facts->probe.result[i].state != NET_PROBE_STATE_WORKS)
                continue;
            print_add(paragraph, "%s", net_probe_word(id));
            any = true;
        }
        if (!any)
            print_add(paragraph, "nothing works");
        print_end(paragraph);
        for (int i = 0; i < NET_PROBE_COUNT; i++) {
            const struct net_probe_result *result = &facts->probe.result[i];
            const enum net_probe_id id = (enum net_probe_id)i;
            if (net_probe_area(id) != (enum net_probe_area)area || result->state == NET_PROBE_STATE_WORKS)
                continue;
            print_begin(paragraph, "");
            print_add(paragraph, "not %s", net_probe_word(id));
            print_add(paragraph, "(%s):", net_probe_state_word(result->state));
            add_words(paragraph, result->why);
            print_end(paragraph);
        }
    }
}

/* The rungs of the ladder that are complete here, then what each of the others lacks. */
static void print_rungs(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    print_begin(paragraph, "engines");
    for (int kind = NET_ENGINE_AUTO + 1; kind < NET_ENGINE_KIND_COUNT; kind++)
        if (doctor_rung_lacks(facts, (enum net_engine_kind)kind) == NET_PROBE_COUNT)
            print_add(paragraph, "%s", net_rung_word((enum net_engine_kind)kind));
    print_end(paragraph);
    for (int kind = NET_ENGINE_AUTO + 1; kind < NET_ENGINE_KIND_COUNT; kind++) {
        const enum net_probe_id lacks = doctor_rung_lacks(facts, (enum net_engine_kind)kind);
        if (lacks == NET_PROBE_COUNT)
            continue;
        print_begin(paragraph, "");
        print_add(paragraph, "not all of %s:", net_rung_word((enum net_engine_kind)kind));
        print_add(paragraph, "%s is %s", net_probe_word(lacks), net_probe_state_word(facts->probe.result[lacks].state));
        print_end(paragraph);
    }
}

static void print_path(struct paragraph *paragraph, const char *what, const struct doctor_path *path)
{
    print_begin(paragraph, "");
    print_add(paragraph, "zero-copy %s:", what);
    if (path->state == DOCTOR_ZERO_COPY_STEPS)
        print_add(paragraph, "%u step%s missing;", path->step_count, path->step_count == 1 ? "" : "s");
    else
        print_add(paragraph, "%s%s", doctor_zero_copy_word(path->state), *path->why ? ";" : "");
    add_words(paragraph, path->why);
    print_end(paragraph);
}

/* Of this machine alone, and not asked for. */
static bool link_is_virtual(const struct doctor_card *card)
{
    return !card->physical && !card->receive_tried;
}

static void print_card(struct paragraph *paragraph, const struct doctor_facts *facts, const struct doctor_card *card)
{
    struct doctor_path path;
    print_begin(paragraph, card->name);
    print_add(paragraph, "%s,",
              *card->driver    ? card->driver
              : *card->kind    ? card->kind
              : card->loopback ? "loopback"
                               : "-");
    if (card->speed_mbit >= 1000)
        print_add(paragraph, "%.4g Gbit/s,", card->speed_mbit / 1000.0);
    else if (card->speed_mbit > 0)
        print_add(paragraph, "%u Mbit/s,", card->speed_mbit);
    print_add(paragraph, "MTU %u,", card->mtu);
    if (card->numa_node >= 0)
        print_add(paragraph, "NUMA node %d,", card->numa_node);
    if (card->queues > 0)
        print_add(paragraph, "%u of %u queues,", card->queues,
                  card->queues_max > card->queues ? card->queues_max : card->queues);
    print_add(paragraph, "qdisc %s%s", or_none(card->qdisc), card->loopback ? "" : ",");
    if (!card->loopback) {
        print_add(paragraph, "TSO %s,", doctor_switch_word(card->tso));
        print_add(paragraph, "GRO %s,", doctor_switch_word(card->gro));
        print_add(paragraph, "GRO-HW %s,", doctor_switch_word(card->gro_hw));
        print_add(paragraph, "ntuple %s,", doctor_switch_word(card->ntuple));
        print_add(paragraph, "data split %s%s", doctor_switch_word(card->data_split), card->xdp ? ", XDP" : "");
    }
    print_end(paragraph);
    if (link_is_virtual(card))
        return; /* nothing that zero-copy could be about */
    doctor_judge_send(facts, card, &path);
    print_path(paragraph, "send", &path);
    doctor_judge_receive(facts, card, &path);
    print_path(paragraph, "receive", &path);
}

static void print_cards(struct paragraph *paragraph, const struct doctor_facts *facts)
{
    uint32_t down = 0, virtual = 0;
    for (uint32_t i = 0; i < facts->card_count; i++) {
        const struct doctor_card *card = &facts->card[i];
        if (!card->up && !card->receive_tried)
            down++;
        else if (!link_is_virtual(card) || virtual ++ < PRINT_VIRTUAL_MAX)
            print_card(paragraph, facts, card);
    }
    const uint32_t hidden = virtual > PRINT_VIRTUAL_MAX ? virtual - PRINT_VIRTUAL_MAX : 0;
    if (down + hidden + facts->cards_left_out == 0)
        return;
    print_begin(paragraph, "others");
    if (down > 0)
        print_add(paragraph, "%u down or without a carrier%s", down, hidden + facts->cards_left_out > 0 ? "," : "");
    if (hidden > 0)
        print_add(paragraph, "%u more that are virtual%s", hidden, facts->cards_left_out > 0 ? "," : "");
    if (facts->cards_left_out > 0)
        print_add(paragraph, "%u that were not looked at", facts->cards_left_out);
    print_end(paragraph);
}

static void print_findings(struct paragraph *paragraph, const struct doctor_findings *findings)
{
    if (findings->count == 0) {
        fputs("\nNothing to change.\n", paragraph->to);
        return;
    }
    fputs("\nWhat to change, the most important first:\n", paragraph->to);
    for (uint32_t i = 0; i < findings->count; i++) {
        const struct doctor_finding *finding = &findings->finding[i];
        char subject[DOCTOR_WORD_BYTES + 2];
        print_begin(paragraph, doctor_severity_word(finding->severity));
        snprintf(subject, sizeof subject, "%s:", finding->subject);
        print_add(paragraph, "%s", subject);
        add_words(paragraph, finding->text);
        print_end(paragraph);
        if (*finding->command)
            fprintf(paragraph->to, "%*s%s\n", PRINT_INDENT + 4, "", finding->command);
    }
}

void doctor_print(const struct doctor_facts *facts, const struct doctor_findings *findings, FILE *to)
{
    struct paragraph paragraph = {.to = to};
    fprintf(to, "%-*s%s on %s; engine auto is %s here\n", PRINT_INDENT, "millrace", base_build_id(), facts->host,
            doctor_engine(facts));
    print_machine(&paragraph, facts);
    print_process(&paragraph, facts);
    print_socket(&paragraph, facts);
    print_features(&paragraph, facts);
    print_rungs(&paragraph, facts);
    print_cards(&paragraph, facts);
    print_findings(&paragraph, findings);
}
