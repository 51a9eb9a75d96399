/* The report of a job for people: what came out, how long it took, what held it back, who was slowest, what crossed
 * which link. */
#include "cluster/report/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/shown.h"
enum { MATRIX_NODES_MAX = 8, MATRIX_COLUMN = 12 };

/* ---- numbers ---- */

/* Three digits, and the largest unit that leaves at least 1 in front of it. */
static void format_scaled(double value, double step, const char *const *units, size_t unit_count, char *text)
{
    size_t unit = 0;
    while (unit + 1 < unit_count && value >= step) {
        value /= step;
        unit++;
    }
    const int digits = value < 10 ? 2 : value < 100 ? 1 : 0;
    snprintf(text, REPORT_NUMBER_BYTES, "%.*f%s%s", digits, value, *units[unit] ? " " : "", units[unit]);
}

void report_format_count(double count, char *text)
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    if (count < 10000)
        snprintf(text, REPORT_NUMBER_BYTES, "%.0f", count);
    else
        format_scaled(count, 1000, units, sizeof units / sizeof *units, text);
}

void report_format_bytes(double bytes, char *text)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024)
        snprintf(text, REPORT_NUMBER_BYTES, "%.0f B", bytes);
    else
        format_scaled(bytes, 1024, units, sizeof units / sizeof *units, text);
}

void report_format_seconds(double seconds, char *text)
{
    if (seconds < 0.001)
        snprintf(text, REPORT_NUMBER_BYTES, "%.0f us", seconds * 1e6);
    else if (seconds < 1)
        snprintf(text, REPORT_NUMBER_BYTES, "%.*f ms", seconds < 0.01 ? 2 : seconds < 0.1 ? 1 : 0, seconds * 1e3);
    else
        snprintf(text, REPORT_NUMBER_BYTES, "%.*f s", seconds < 10 ? 2 : 1, seconds);
}

void report_format_exact(uint64_t count, char *text)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, count);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *text++ = ',';
        *text++ = digits[i];
    }
    *text = '\0';
}

static double report_ratio(double value, double by)
{
    return by > 0 ? value / by : 0;
}

/* ---- links ---- */

static uint64_t link_bytes(const struct cluster_report *report, uint32_t from, uint32_t to)
{
    return report->link[(size_t)from * report->node_count + to];
}

static void links_print_matrix(const struct cluster_report *report, FILE *to)
{
    char text[REPORT_NUMBER_BYTES];
    fprintf(to, "links     bytes from row to column\n%-10s%-10s", "", "");
    for (uint32_t i = 0; i < report->node_count; i++)
        fprintf(to, "%*.*s", MATRIX_COLUMN, MATRIX_COLUMN - 2, report->node[i].name);
    fputc('\n', to);
    for (uint32_t from = 0; from < report->node_count; from++) {
        fprintf(to, "%-10s%-10.9s", "", report->node[from].name);
        for (uint32_t i = 0; i < report->node_count; i++) {
            report_format_bytes((double)link_bytes(report, from, i), text);
            fprintf(to, "%*s", MATRIX_COLUMN, from == i ? "-" : text);
        }
        fputc('\n', to);
    }
}

static int links_compare_bytes(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_spread(const struct cluster_report *report, FILE *to)
{
    const size_t count = (size_t)report->node_count * (report->node_count - 1);
    uint64_t *sorted = malloc(count * sizeof *sorted);
    if (!sorted)
        return; /* a report without this line is still a report */
    size_t used = 0;
    for (uint32_t from = 0; from < report->node_count; from++)
        for (uint32_t i = 0; i < report->node_count; i++)
            if (from != i)
                sorted[used++] = link_bytes(report, from, i);
    qsort(sorted, count, sizeof *sorted, links_compare_bytes);
    const uint64_t median = sorted[count / 2];
    char least[REPORT_NUMBER_BYTES], middle[REPORT_NUMBER_BYTES], most[REPORT_NUMBER_BYTES];
    report_format_bytes((double)sorted[0], least);
    report_format_bytes((double)median, middle);
    report_format_bytes((double)sorted[count - 1], most);
    fprintf(to, "links     %zu links carried %s at least, %s in the middle, %s at most\n", count, least, middle, most);
    free(sorted);
}

/* The node that took longest and the link that carried most. */
static void links_print_slowest(const struct cluster_report *report, FILE *to)
{
    uint32_t slow = 0, from = 0, into = 1;
    for (uint32_t i = 0; i < report->node_count; i++) {
        if (report->node[i].sum.exchange_ns > report->node[slow].sum.exchange_ns)
            slow = i;
        for (uint32_t k = 0; k < report->node_count; k++)
            if (i != k && link_bytes(report, i, k) > link_bytes(report, from, into)) {
                from = i;
                into = k;
            }
    }
    char seconds[REPORT_NUMBER_BYTES], bytes[REPORT_NUMBER_BYTES], rate[REPORT_NUMBER_BYTES];
    report_format_seconds(cluster_seconds(report->node[slow].sum.exchange_ns), seconds);
    report_format_bytes((double)link_bytes(report, from, into), bytes);
    report_format_bytes(
        report_ratio((double)link_bytes(report, from, into), cluster_seconds(report->node[from].sum.exchange_ns)),
        rate);
    fprintf(to, "slowest   node %s (%s); fullest link %s to %s (%s, %s/s)\n", report->node[slow].name, seconds,
            report->node[from].name, report->node[into].name, bytes, rate);
}

/* ---- the whole ---- */

/* Rows that were left out, and where the first of them are. */
static void print_skipped(const struct cluster_report *report, FILE *to)
{
    static const char *const side_words[] = {" of the left side", " of the right side"};
    for (uint32_t side = 0; side < 2; side++) {
        const struct cluster_skipped *skipped = &report->skipped[side];
        char rows[REPORT_NUMBER_BYTES];
        if (skipped->count == 0)
            continue;
        report_format_exact(skipped->count, rows);
        fprintf(to, "skipped   %s bad row%s%s%s\n", rows, skipped->count == 1 ? "" : "s",
                report->kind == CLUSTER_KIND_JOIN ? side_words[side] : "",
                skipped->count > skipped->row_count ? "; the first:" : ":");
        for (uint32_t i = 0; i < skipped->row_count; i++) {
            const struct cluster_skipped_row *row = &skipped->row[i];
            fprintf(to, "          %s%s%s:%" PRIu64 ": %s\n", row->node, *row->node ? ": " : "", base_shown(row->path),
                    row->line, base_shown(row->reason));
        }
    }
}

static void print_result(const struct cluster_report *report, uint64_t job, const char *out, FILE *to)
{
    char rows[REPORT_NUMBER_BYTES], bytes[REPORT_NUMBER_BYTES];
    report_format_exact(report->sum.task.rows, rows);
    fprintf(to, "rows      %s\n", rows);
    if (report->kind == CLUSTER_KIND_SHUFFLE && report->sum.task.table_rows > 0)
        fputs("checksum  none: the rows went into tables\n", to);
    else
        fprintf(to, "checksum  %016" PRIx64 "\n", report->sum.task.checksum);
    if (out) {
        report_format_bytes((double)report->sum.task.output_bytes, bytes);
        fprintf(to, "output    %s (%s)\n", base_shown(out), bytes);
    }
    report_format_bytes((double)report->sum.task.table_bytes, bytes);
    report_format_exact(report->sum.task.table_rows, rows);
    fprintf(to, "job       %" PRIu64 ", on %u node%s with %u worker%s", job, report->node_count,
            report->node_count == 1 ? "" : "s", report->workers, report->workers == 1 ? "" : "s");
    if (report->kind == CLUSTER_KIND_JOIN && report->type != JOIN_TYPE_INNER)
        fprintf(to, "; %s join", join_type_word(report->type));
    if (report->sum.task.table_rows > 0)
        fprintf(to, "; table of the %s side: %s rows, %s",
                report->kind == CLUSTER_KIND_SHUFFLE ? "only"
                : report->build_side == 0            ? "left"
                                                     : "right",
                rows, bytes);
    fputc('\n', to);
}

static void print_time(const struct cluster_report *report, FILE *to)
{
    char whole[REPORT_NUMBER_BYTES], exchange[REPORT_NUMBER_BYTES], user[REPORT_NUMBER_BYTES],
        kernel[REPORT_NUMBER_BYTES], rate[REPORT_NUMBER_BYTES], rows[REPORT_NUMBER_BYTES], sent[REPORT_NUMBER_BYTES];
    report_format_seconds(report->seconds, whole);
    report_format_seconds(cluster_seconds(report->sum.exchange_ns), exchange);
    report_format_seconds(cluster_seconds(report->sum.cpu_user_ns), user);
    report_format_seconds(cluster_seconds(report->sum.cpu_system_ns), kernel);
    fprintf(to, "time      %s, of which moving rows %s; CPU %s user, %s kernel\n", whole, exchange, user, kernel);
    report_format_count(report_ratio((double)report->sum.task.rows_scanned, cluster_seconds(report->sum.exchange_ns)),
                        rows);
    report_format_bytes((double)report->sum.bytes_sent, sent);
    report_format_bytes(report_ratio((double)report->sum.bytes_sent, cluster_seconds(report->sum.exchange_ns)), rate);
    fprintf(to, "rate      %s rows/s scanned; %s between nodes at %s/s\n", rows, sent, rate);
}

/* "2.50 MiB", or "2.50 to 4.00 MiB" where nodes differ. */
static void print_range(uint32_t least, uint32_t most, FILE *to)
{
    char a[REPORT_NUMBER_BYTES], b[REPORT_NUMBER_BYTES];
    report_format_bytes(least, a);
    report_format_bytes(most, b);
    if (strcmp(a, b) == 0)
        fputs(a, to);
    else
        fprintf(to, "%s to %s", a, b);
}

/* Settings in force on the connections of a node and of those after it that are alike. */
static void print_sockets_of(const struct cluster_report *report, uint32_t first, FILE *to)
{
    const struct net_socket_facts *facts = &report->node[first].facts;
    uint32_t send[2] = {UINT32_MAX, 0}, receive[2] = {UINT32_MAX, 0}, alike = 0;
    fputs("sockets   ", to);
    for (uint32_t i = first; i < report->node_count; i++) {
        const struct net_socket_facts *other = &report->node[i].facts;
        if (!net_socket_facts_alike(facts, other))
            continue;
        send[0] = other->send_buffer_bytes < send[0] ? other->send_buffer_bytes : send[0];
        send[1] = other->send_buffer_bytes > send[1] ? other->send_buffer_bytes : send[1];
        receive[0] = other->recv_buffer_bytes < receive[0] ? other->recv_buffer_bytes : receive[0];
        receive[1] = other->recv_buffer_bytes > receive[1] ? other->recv_buffer_bytes : receive[1];
        alike++;
    }
    for (uint32_t i = first; alike < report->node_count && i < report->node_count; i++)
        if (net_socket_facts_alike(facts, &report->node[i].facts))
            fprintf(to, "%s%s", report->node[i].name, --alike > 0 ? ", " : ": ");
    fprintf(to, "%s, nodelay %s, MSS %u of MTU %u; on %s", facts->congestion, facts->nodelay ? "on" : "off",
            facts->mss_bytes, facts->mtu_bytes, *facts->interface ? facts->interface : "an unknown interface");
    for (int kind = 0; kind < NET_OFFLOAD_KINDS; kind++)
        fprintf(to, "%s%s %s", kind ? ", " : " with ", net_offload_kind_word((enum net_offload_kind)kind),
                net_offload_word(facts->offload[kind]));
    fputs("; buffers ", to);
    print_range(send[0], send[1], to);
    fputs(" to send, ", to);
    print_range(receive[0], receive[1], to);
    fputs(" to receive\n", to);
}

static void print_sockets(const struct cluster_report *report, FILE *to)
{
    for (uint32_t i = 0; i < report->node_count; i++) {
        bool told = !report->node[i].facts.known;
        for (uint32_t before = 0; before < i && !told; before++)
            told = net_socket_facts_alike(&report->node[before].facts, &report->node[i].facts);
        if (!told)
            print_sockets_of(report, i, to);
    }
}

/* What moving a GiB between nodes took: of less than a MiB it would be what starting took, times thousands. */
static void report_print_cost(const struct cluster_report *report, FILE *to)
{
    const double gib = (double)report->sum.bytes_sent / (1 << 30);
    char calls[REPORT_NUMBER_BYTES], completions[REPORT_NUMBER_BYTES], switches[REPORT_NUMBER_BYTES];
    if (report->sum.bytes_sent < 1 << 20)
        return;
    report_format_count((double)report->sum.counters.syscalls / gib, calls);
    report_format_count((double)report->sum.counters.completions / gib, completions);
    report_format_count((double)(report->sum.switches_voluntary + report->sum.switches_involuntary) / gib, switches);
    fprintf(to, "cost      per GiB between nodes: %s system calls, %s completions, %s context switches", calls,
            completions, switches);
    if (report->sum.iowq_workers > 0)
        fprintf(to, "; %" PRIu64 " io-wq worker%s", report->sum.iowq_workers, report->sum.iowq_workers == 1 ? "" : "s");
    fputc('\n', to);
}

static bool report_decided(const struct cluster_node_report *node, const char *decision)
{
    return node->engine_decision && strcmp(node->engine_decision, decision) == 0;
}

/* The engine's decisions, each with the nodes that made it unless all did. */
static void print_decisions(const struct cluster_report *report, FILE *to)
{
    for (uint32_t i = 0; i < report->node_count; i++) {
        const char *decision = report->node[i].engine_decision;
        uint32_t alike = 0;
        bool told = !decision || !*decision;
        for (uint32_t k = 0; k < report->node_count && !told; k++)
            if (report_decided(&report->node[k], decision)) {
                told = k < i;
                alike++;
            }
        if (told)
            continue;
        fputs("decision  ", to);
        for (uint32_t k = i, left = alike; alike < report->node_count && k < report->node_count; k++)
            if (report_decided(&report->node[k], decision))
                fprintf(to, "%s%s", report->node[k].name, --left > 0 ? ", " : ": ");
        fprintf(to, "%s\n", decision);
    }
}

static void print_engine(const struct cluster_report *report, FILE *to)
{
    fprintf(to, "engine    %s", report->engine);
    if (*report->features)
        fprintf(to, " (%s)", report->features);
    fputs(report->verified ? "; every payload byte checked" : "; checked by sequence, length and totals", to);
    if (*report->engine_reason)
        fprintf(to, "; %s", report->engine_reason);
    const struct net_counters *counters = &report->sum.counters;
    if (counters->zc_off > 0)
        fprintf(to, "; zero-copy send switched off on %" PRIu64 " connections: %s", counters->zc_off,
                counters->zc_copied > 0 ? "the kernel copies on this path (loopback, veth, ...)"
                                        : "the kernel has no memory to account for it (ulimit -l)");
    fputc('\n', to);
}

void report_print(const struct cluster_report *report, uint64_t job, const char *out, FILE *to)
{
    print_result(report, job, out, to);
    print_skipped(report, to);
    print_time(report, to);
    fprintf(to, "limit     %s", cluster_limit_words(report->limit));
    fprintf(to, *report->limit_words ? ": %s\n" : "%s\n", report->limit_words);
    if (report->node_count > 1 && report->link) {
        links_print_slowest(report, to);
        if (report->node_count <= MATRIX_NODES_MAX)
            links_print_matrix(report, to);
        else
            print_spread(report, to);
    }
    report_print_cost(report, to);
    print_engine(report, to);
    print_decisions(report, to);
    print_sockets(report, to);
}
