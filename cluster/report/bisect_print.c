/* A measurement of the network, for people: every number with what it means. */
#include <inttypes.h>
#include <string.h>

#include "cluster/report/bisect_report.h"

enum { MATRIX_NODES_MAX = 16, COLUMN = 14, CUTS_MAX = 40 };

static const char *print_rate(double bits_per_second, char text[BISECT_RATE_BYTES])
{
    bisect_rate_format(bits_per_second, text);
    return text;
}

static const char *print_name_of(const struct bisect_summary *summary, uint32_t node)
{
    return summary->run->schedule.node[node].name;
}

static double window_ms(const struct bisect_summary *summary)
{
    return (double)summary->run->schedule.window_ns / 1e6;
}

static bool any_known(const double *value, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (value[i] >= 0)
            return true;
    return false;
}

static void bisect_print_matrix(const struct bisect_summary *summary, const double *matrix, const char *what, FILE *to)
{
    const uint32_t nodes = summary->nodes;
    if (!any_known(matrix, (size_t)nodes * nodes))
        return;
    fprintf(to, "\n%s\n", what);
    if (nodes > MATRIX_NODES_MAX) {
        fprintf(to, "  %u nodes do not fit into a table here: --json has it\n", nodes);
        return;
    }
    fprintf(to, "  %-10s", "from \\ to");
    for (uint32_t i = 0; i < nodes; i++)
        fprintf(to, "%*.*s", COLUMN, COLUMN - 2, print_name_of(summary, i));
    fputc('\n', to);
    for (uint32_t from = 0; from < nodes; from++) {
        fprintf(to, "  %-10.9s", print_name_of(summary, from));
        for (uint32_t i = 0; i < nodes; i++) {
            char text[BISECT_RATE_BYTES];
            fprintf(to, "%*s", COLUMN, print_rate(matrix[(size_t)from * nodes + i], text));
        }
        fputc('\n', to);
    }
}

static void print_all_to_all(const struct bisect_summary *summary, FILE *to)
{
    char a[BISECT_RATE_BYTES], b[BISECT_RATE_BYTES];
    fprintf(to,
            "\nall to all: every node sends to every other at once; what all receive together\n  %s (worst %.0f ms: "
            "%s)\n",
            print_rate(summary->all_to_all, a), window_ms(summary), print_rate(summary->all_to_all_worst, b));
    fprintf(to,
            "  busbw %s: what a node sends to others, of %u nodes the mean (algbw x (n-1)/n, where algbw would count "
            "its own share, too)\n",
            print_rate(summary->all_to_all / summary->nodes, a), summary->nodes);
    const struct bisect_run *run = summary->run;
    for (uint32_t i = 0; i < run->count; i++)
        for (uint32_t n = 0; run->measurement[i].kind == CLUSTER_BISECT_ALL_TO_ALL && n < summary->nodes; n++)
            fprintf(to, "  %-10.9s sends %s, receives %s\n", print_name_of(summary, n),
                    print_rate(bisect_rate_node(run, &run->measurement[i], n, true), a),
                    print_rate(bisect_rate_node(run, &run->measurement[i], n, false), b));
}

static void print_casts(const struct bisect_summary *summary, FILE *to)
{
    char a[BISECT_RATE_BYTES], b[BISECT_RATE_BYTES];
    if (summary->all_to_all >= 0)
        print_all_to_all(summary, to);
    if (!any_known(summary->incast, summary->nodes))
        return;
    fprintf(to, "\nincast: all others send to the node; outcast: the node sends to all others\n");
    for (uint32_t i = 0; i < summary->nodes; i++)
        fprintf(to, "  %-10.9s incast %s, outcast %s\n", print_name_of(summary, i), print_rate(summary->incast[i], a),
                print_rate(summary->outcast[i], b));
}

static void print_cut(const struct bisect_summary *summary, const struct bisect_cut *cut, FILE *to)
{
    char half[2][200], a[BISECT_RATE_BYTES], b[BISECT_RATE_BYTES];
    bisect_half_words(summary->run, cut->from, 0, half[0], sizeof half[0]);
    bisect_half_words(summary->run, cut->from, 1, half[1], sizeof half[1]);
    const uint64_t retransmits = cut->from->sum.retransmits;
    fprintf(to, "  {%s} | {%s}  %s (worst %.0f ms: %s", half[0], half[1], print_rate(cut->rate, a), window_ms(summary),
            print_rate(cut->worst, b));
    if (cut->from->origin != CLUSTER_BISECT_ORIGIN_EVERY)
        fprintf(to, "; by %s", cluster_bisect_origin_word(cut->from->origin));
    if (cut->ideal > 0)
        fprintf(to, "; %.1f %% of ideal", 100 * cut->rate / cut->ideal);
    if (retransmits != BASE_MEASURE_UNKNOWN)
        fprintf(to, "; %" PRIu64 " retransmits", retransmits);
    fprintf(to, ")\n");
}

static void print_cuts(const struct bisect_summary *summary, FILE *to)
{
    if (summary->cut_count == 0)
        return;
    fprintf(to, "\nbalanced cuts: every node of one half sends to every node of the other, both ways at once, and "
                "nothing else moves;\n  the sum of what both halves receive\n");
    for (uint32_t i = 0; i < summary->cut_count && i < CUTS_MAX; i++)
        print_cut(summary, &summary->cut[i], to);
    if (summary->cut_count > CUTS_MAX)
        fprintf(to, "  ... and %u more: --json has all\n", summary->cut_count - CUTS_MAX);
    char text[BISECT_RATE_BYTES], links[BISECT_RATE_BYTES];
    const struct bisect_cut *least = &summary->cut[summary->minimum];
    fprintf(to, "bisection bandwidth: the smallest of these cuts\n");
    print_cut(summary, least, to);
    fprintf(to, "median of the cuts\n  %s\n", print_rate(summary->median, text));
    fprintf(to,
            "ideal of the smallest: twice the smaller sum of a half's link rates, times the share that is payload\n  ");
    if (least->ideal > 0)
        fprintf(to, "%s, of %s on the links, times %" PRIu64 "/%" PRIu64 " at MTU %" PRIu64 "\n",
                print_rate(least->ideal, text), print_rate(least->links, links), summary->sum.segment_bytes,
                summary->sum.mtu + 14, summary->sum.mtu);
    else
        fprintf(to, "unknown: the cards do not say their rate; --link-rate=RATE says it\n");
}

static void bisect_print_slowest(const struct bisect_summary *summary, FILE *to)
{
    char a[BISECT_RATE_BYTES], b[BISECT_RATE_BYTES];
    if (summary->slow_link < 0)
        return;
    fprintf(to, "\nslowest link  %s -> %s: %s (back: %s; median of all: ", print_name_of(summary, summary->slow_from),
            print_name_of(summary, summary->slow_to), print_rate(summary->slow_link, a),
            print_rate(bisect_pair_rate(summary, summary->slow_to, summary->slow_from), b));
    fprintf(to, "%s)\n", print_rate(summary->pair_median, a));
    const uint32_t card = summary->slow_card;
    const char *interface = summary->run->schedule.node[card].card.interface;
    fprintf(to, "slowest NIC   %s of %s, %s: %s\n", *interface ? interface : "card", print_name_of(summary, card),
            summary->slow_card_sends ? "sending" : "receiving",
            print_rate(summary->slow_card_sends ? summary->sends[card] : summary->receives[card], a));
    const uint32_t node = summary->slow_node;
    fprintf(to, "slowest node  %s: sends %s, receives %s (medians of its paths)\n", print_name_of(summary, node),
            print_rate(summary->sends[node], a), print_rate(summary->receives[node], b));
}

static void bisect_print_cost(const struct bisect_summary *summary, FILE *to)
{
    const struct cluster_bisect_measures *sum = &summary->sum;
    const double cpu_seconds = bisect_cpu_seconds_per_gib(sum);
    fprintf(to, "cost          %.2f GiB moved", (double)sum->received_bytes / (double)(1 << 30));
    if (cpu_seconds >= 0)
        fprintf(to, ", %.3f CPU seconds per GiB (all workers, user and system)", cpu_seconds);
    if (sum->retransmits != BASE_MEASURE_UNKNOWN)
        fprintf(to, ", %" PRIu64 " segments sent again", sum->retransmits);
    fprintf(to, "\nverified      every byte was counted at both ends, %.2f GiB compared with what was sent\n",
            (double)sum->verified_bytes / (double)(1 << 30));
}

static void print_run(const struct bisect_summary *summary, FILE *to)
{
    const struct cluster_report *report = &summary->run->report.report;
    if (summary->run->count == 0)
        return;
    fprintf(to, "\nengine %s, %u steps measured", report->engine && *report->engine ? report->engine : "unknown",
            summary->run->count);
    if (report->error.status != BASE_OK)
        fprintf(to, " of %u at most", summary->run->schedule.step_count);
    fputs("; all rates are payload\n", to);
    bisect_print_matrix(summary, summary->alone, "pairs alone: one node sends to one other, nothing else moves", to);
    bisect_print_matrix(summary, summary->rounds, "pairs in rounds: disjoint pairs at the same time, both ways at once",
                        to);
    print_casts(summary, to);
    print_cuts(summary, to);
    bisect_print_slowest(summary, to);
    bisect_print_cost(summary, to);
    fprintf(to, "verdict       %s\n", summary->verdict);
}

void bisect_report_print(const struct bisect_report *report, FILE *to)
{
    for (uint32_t i = 0; i < report->count; i++)
        print_run(&report->summary[i], to);
}
