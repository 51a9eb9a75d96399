/* The options of `millrace bisect`. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/number.h"
#include "cluster/bisect/rate.h"
#include "cluster/options/bisect_racks.h"
#include "cluster/options/options.h"
#include "cluster/options/value.h"

static const struct option_choice cuts_choices[] = {
    {"all", CLUSTER_BISECT_ALL}, {"minimum", CLUSTER_BISECT_LEAST}, {0}};

static enum base_status read_seconds(const struct option_row *row, const char *text, void *target,
                                     struct base_error *error)
{
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0')
        return base_error_set(error, BASE_INVALID, "--%s=%.80s is not a number: write seconds from 0.05 to 60",
                              row->name, text);
    if (!(seconds >= 0.05 && seconds <= 60))
        return base_error_set(error, BASE_INVALID, "--%s=%.80s is out of range: it goes from 0.05 to 60", row->name,
                              text);
    *(uint64_t *)option_field(row, target) = (uint64_t)(seconds * 1e9);
    return BASE_OK;
}

static enum base_status read_cuts(const struct option_row *row, const char *text, void *target,
                                  struct base_error *error)
{
    struct cluster_bisect_request *request = option_field(row, target);
    uint64_t count = 0;
    struct base_nearest nearest = base_nearest_to(text, strlen(text));
    request->cut_count = 0;
    if (base_number_parse(text, &count) && count > 0 && count <= CLUSTER_BISECT_CUTS_MAX) {
        request->cuts = CLUSTER_BISECT_COUNT;
        request->cut_count = (uint32_t)count;
        return BASE_OK;
    }
    for (const struct option_choice *choice = row->choice; choice->word; choice++) {
        if (strcmp(text, choice->word) == 0) {
            request->cuts = (enum cluster_bisect_cuts)choice->value;
            return BASE_OK;
        }
        base_nearest_offer(&nearest, choice->word);
    }
    char hint[BASE_NEAREST_HINT_BYTES];
    return base_error_set(error, BASE_INVALID,
                          "--%s=%.80s is not understood%s: choose all, minimum, or a number from 1 to %d", row->name,
                          text, base_nearest_hint(&nearest, "", hint), CLUSTER_BISECT_CUTS_MAX);
}

static enum base_status read_engines(const struct option_row *row, const char *text, void *target,
                                     struct base_error *error)
{
    struct cluster_bisect_words *words = option_field(row, target);
    struct base_error inner = {0};
    words->engine_count = 0;
    char *copy = strdup(text), *rest = copy, *word;
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
    enum base_status status = BASE_OK;
    while (status == BASE_OK && (word = strsep(&rest, ","))) {
        if (words->engine_count == CLUSTER_BISECT_ENGINES_MAX)
            status = base_error_set(&inner, BASE_INVALID, "at most %d engines are measured in one report",
                                    CLUSTER_BISECT_ENGINES_MAX);
        else
            status = net_engine_choice_parse(word, &words->engine[words->engine_count++], &inner);
    }
    free(copy);
    return status == BASE_OK ? status : base_error_set(error, status, "--%s=%.80s: %s", row->name, text, inner.text);
}

static enum base_status read_racks(const struct option_row *row, const char *text, void *target,
                                   struct base_error *error)
{
    return bisect_racks_read(text, option_field(row, target), error);
}

static enum base_status read_link_rate(const struct option_row *row, const char *text, void *target,
                                       struct base_error *error)
{
    const enum base_status status = bisect_links_find(text, "", &(struct bisect_link){0}, error);
    return status == BASE_OK ? option_read_borrowed(row, text, target, error) : status;
}

#define ARGS_FIELD(member) OPTION_FIELD(struct cluster_client_args, member)

const struct option_row bisect_what_rows[] = {
    {.name = "seconds",
     .value = "S",
     .read = read_seconds,
     ARGS_FIELD(submit.bisect.duration_ns),
     .json = "seconds_per_step",
     .preset = "1",
     .help = "Measured seconds of every step, 0.05 to 60, after a warm-up",
     .manual = "Measured seconds of every step, from 0.05 to 60.\n"
               "The warm-up before it is a fifth of that, and 0.1 s at least."},
    {.name = "cuts",
     .value = "all|N|minimum",
     .choice = cuts_choices,
     .read = read_cuts,
     ARGS_FIELD(submit.bisect),
     .unset = "all up to 8 nodes, else 32",
     .help = "Which balanced cuts: every one, N, or the cuts tried while searching for the smallest",
     .manual = "Which balanced cuts: every one (possible up to 14 nodes),\n.Ar N\n"
               "of them, or the cuts tried while searching for the smallest."},
    {.name = "streams",
     .value = "S",
     .read = option_read_number,
     ARGS_FIELD(submit.bisect.streams),
     .least = 1,
     .most = CLUSTER_BISECT_STREAMS_MAX,
     .json = "streams",
     .unset = "one per worker",
     .help = "Connections from one node to another, at most one for each pair of their workers"},
    {.name = "racks",
     .value = "FILE",
     .path = OPTION_PATH_FILE,
     .read = read_racks,
     ARGS_FIELD(submit.bisect),
     .unset = "none",
     .help = "A line for each node, its name first and rack=NAME somewhere after it: cuts that keep racks together "
             "are tried first",
     .manual = "Says which nodes share a rack: a line for each node, with its name first and\n"
               ".Cm rack Ns = Ns Ar NAME\n"
               "somewhere after it; what follows a # is a comment, and other words are ignored.\n"
               "Where cuts are searched for, those that keep racks together come first."},
    {0}};

const struct option_row bisect_run_rows[] = {
    {.name = "engine",
     .value = "ENGINE[,ENGINE...]",
     .choice = option_engine_choices,
     .read = read_engines,
     ARGS_FIELD(bisect),
     .json = "engine",
     .preset = "auto",
     .help = "How bytes are moved; several are measured one after the other, into one report",
     .manual = "How bytes are moved;\n.Nm millrace engines\nlists the choices.\n"
               "Several are measured one after the other, into one report."},
    {.name = "socket",
     .value = "SETTING=VALUE[,...]",
     .choice = socket_choices,
     .read = option_read_socket,
     ARGS_FIELD(submit.settings.socket),
     .unset = SOCKET_UNSET,
     .help = "TCP settings, as in `millrace join'",
     .manual = "TCP settings, as in\n.Xr millrace-join 1 ."},
    {0}};

const struct option_row bisect_show_rows[] = {
    {.name = "link-rate",
     .value = "RATE[,NODE=RATE...]",
     .read = read_link_rate,
     ARGS_FIELD(bisect.link_rate),
     .json = "link_rate",
     .unset = "what the cards say",
     .help = "What the nodes' links carry, as 100gbit or, to send and to receive, 500mbit/200mbit",
     .manual = "What the nodes' links carry; the ideal of a cut follows from it.\nA\n.Ar RATE\n"
               "is a number followed by kbit, mbit, gbit or tbit (powers of 1000), or two of them, to send and to "
               "receive, as\n500mbit/200mbit.\n"
               "Give it where cards are virtual: what those say is not the rate of a link."},
    {.name = "html",
     .value = "FILE",
     .path = OPTION_PATH_FILE,
     .read = option_read_borrowed,
     ARGS_FIELD(bisect.html),
     .most = PATH_MAX - 1,
     .unset = "none",
     .help = "Write a page with tables and figures, too",
     .manual = "Write a page with tables and figures, too.\nIt needs no other file and no network."},
    {0}};
