/* The sentence people read first. What is slow is named only when it is clearly slow: a rate below BISECT_SLOW of what
 * the others have. A node explains its paths and its cuts, a path explains itself, and a cut is blamed only for what
 * the nodes' own rates do not explain. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cluster/report/bisect_internal.h"

#define BISECT_SLOW 0.85

struct sentence {
    char *text;
    size_t used, bytes;
    bool blamed;
};

__attribute__((format(printf, 2, 3))) static void sentence_add(struct sentence *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(to->text + to->used, to->bytes - to->used, format, arguments);
    va_end(arguments);
    to->used += length > 0 ? (size_t)length : 0;
    if (to->used >= to->bytes)
        to->used = to->bytes - 1;
}

/* The beginning of one more finding. */
static void verdict_find(struct sentence *to)
{
    sentence_add(to, to->blamed ? "; " : "");
    to->blamed = true;
}

static bool verdict_slow(double rate, double of)
{
    return rate >= 0 && of > 0 && rate < BISECT_SLOW * of;
}

static const char *verdict_name_of(const struct bisect_summary *summary, uint32_t node)
{
    return summary->run->schedule.node[node].name;
}

/* A node is slow when even its best path is. */
static bool slow_node(const struct bisect_summary *summary, uint32_t node, bool sending)
{
    return summary->nodes > 2 && /* of two, neither is the odd one */
           verdict_slow(sending ? summary->best_sends[node] : summary->best_receives[node], summary->best_median);
}

static void blame_nodes(const struct bisect_summary *summary, struct sentence *to)
{
    char sends[BISECT_RATE_BYTES], receives[BISECT_RATE_BYTES], median[BISECT_RATE_BYTES];
    bisect_rate_format(summary->best_median, median);
    for (uint32_t i = 0; i < summary->nodes; i++) {
        const bool sending = slow_node(summary, i, true), receiving = slow_node(summary, i, false);
        if (!sending && !receiving)
            continue;
        bisect_rate_format(summary->best_sends[i], sends);
        bisect_rate_format(summary->best_receives[i], receives);
        verdict_find(to);
        if (sending && receiving)
            sentence_add(to,
                         "node %s is slow: it sends %s and receives %s at best, where the median of all nodes is %s",
                         verdict_name_of(summary, i), sends, receives, median);
        else
            sentence_add(to,
                         "node %s is slow in one direction: it %s only %s at best, but %s %s (median of all nodes: %s)",
                         verdict_name_of(summary, i), sending ? "sends" : "receives", sending ? sends : receives,
                         sending ? "receives" : "sends", sending ? receives : sends, median);
    }
}

/* Paths that are slow though neither end is. In rounds others may use them too: there none is blamed. */
static void blame_paths(const struct bisect_summary *summary, struct sentence *to)
{
    enum { NAMED_MAX = 3 };
    uint32_t named = 0;
    for (uint32_t from = 0; from < summary->nodes; from++)
        for (uint32_t dest = 0; dest < summary->nodes; dest++) {
            const double rate = summary->alone[(size_t)from * summary->nodes + dest];
            if (from == dest || !verdict_slow(rate, summary->pair_median) || slow_node(summary, from, true) ||
                slow_node(summary, dest, false) || named++ >= NAMED_MAX)
                continue;
            char text[BISECT_RATE_BYTES], back[BISECT_RATE_BYTES];
            bisect_rate_format(rate, text);
            bisect_rate_format(bisect_pair_rate(summary, dest, from), back);
            verdict_find(to);
            sentence_add(to, "the path from %s to %s is slow: %s, the reverse path %s", verdict_name_of(summary, from),
                         verdict_name_of(summary, dest), text, back);
        }
}

static void blame_cut(const struct bisect_summary *summary, struct sentence *to)
{
    if (summary->cut_count == 0)
        return;
    BASE_ASSERT(summary->cut && summary->minimum < summary->cut_count);
    const struct bisect_cut *cut = &summary->cut[summary->minimum];
    if (!verdict_slow(cut->rate, cut->reachable))
        return;
    char half[2][160], rate[BISECT_RATE_BYTES], could[BISECT_RATE_BYTES], all[BISECT_RATE_BYTES];
    bisect_half_words(summary->run, cut->from, 0, half[0], sizeof half[0]);
    bisect_half_words(summary->run, cut->from, 1, half[1], sizeof half[1]);
    bisect_rate_format(cut->rate, rate);
    bisect_rate_format(cut->reachable, could);
    bisect_rate_format(summary->all_to_all, all);
    verdict_find(to);
    sentence_add(
        to,
        "between {%s} and {%s} the network is oversubscribed: both ways together carry %s, %.0f %% of the %s that the "
        "nodes reach in pairs (all-to-all moves %s and does not show it)",
        half[0], half[1], rate, 100 * cut->rate / cut->reachable, could, all);
}

static void verdict_praise(const struct bisect_summary *summary, struct sentence *to)
{
    char low[BISECT_RATE_BYTES], high[BISECT_RATE_BYTES];
    const struct bisect_cut *least = summary->cut_count ? &summary->cut[summary->minimum] : NULL;
    if (!least) {
        bisect_rate_format(summary->pair_median, low);
        sentence_add(to, "all paths measured are alike: the median is %s", low);
        return;
    }
    double most = least->rate;
    for (uint32_t i = 0; i < summary->cut_count; i++)
        most = summary->cut[i].rate > most ? summary->cut[i].rate : most;
    bisect_rate_format(least->rate, low);
    bisect_rate_format(most, high);
    if (summary->cut_count == 1)
        sentence_add(to, "the network is even: its balanced cut carries %s both ways", low);
    else
        sentence_add(to, "the network is even: the %u balanced cuts measured carry from %s to %s both ways",
                     summary->cut_count, low, high);
    if (least->ideal > 0)
        sentence_add(to, ", the smallest %.1f %% of its ideal", 100 * least->rate / least->ideal);
}

/* The network may be what it likes when the machines cannot fill it. */
static void blame_processors(const struct bisect_summary *summary, struct sentence *to)
{
    char median[BISECT_RATE_BYTES], least[BISECT_RATE_BYTES];
    bisect_rate_format(summary->pair_median, median);
    verdict_find(to);
    sentence_add(
        to,
        "the processors are the limit and not the network: they were %.0f %% busy, while pairs moved %s in the median",
        100 * summary->host_busy, median);
    if (summary->cut_count == 0)
        return;
    bisect_rate_format(summary->cut[summary->minimum].rate, least);
    sentence_add(to, " and the smallest cut %s both ways", least);
}

static bool moved_nothing(const struct bisect_summary *summary)
{
    for (uint32_t i = 0; i < summary->run->count; i++)
        if (summary->run->measurement[i].sum.received_bytes > 0)
            return false;
    return true;
}

void bisect_verdict(struct bisect_summary *summary)
{
    struct sentence to = {.text = summary->verdict, .bytes = sizeof summary->verdict};
    if (moved_nothing(summary)) {
        sentence_add(&to, "Nothing was measured.");
        return;
    }
    const struct bisect_cut *least = summary->cut_count ? &summary->cut[summary->minimum] : NULL;
    if (summary->processor_bound > 0.5 ||
        (least && verdict_slow(least->rate, least->reachable) && bisect_processor_bound(summary->run, least->from))) {
        blame_processors(summary, &to);
    } else {
        blame_nodes(summary, &to);
        blame_paths(summary, &to);
        blame_cut(summary, &to);
    }
    if (!to.blamed)
        verdict_praise(summary, &to);
    if (summary->run->report.report.error.status != BASE_OK || summary->run->report.kind != CLUSTER_MESSAGE_REPORT)
        sentence_add(&to, "; the measurement did not finish");
    sentence_add(&to, ".");
    if (summary->verdict[0] >= 'a' && summary->verdict[0] <= 'z')
        summary->verdict[0] = (char)(summary->verdict[0] - 'a' + 'A');
}
