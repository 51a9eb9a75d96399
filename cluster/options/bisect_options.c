#include "cluster/options/bisect_options.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/nearest.h"
#include "base/text/number.h"
#include "cluster/bisect/rate.h"
#include "cluster/options/bisect_racks.h"

enum bisect_key {
    KEY_SECONDS = BISECT_OPTION_FIRST,
    KEY_CUTS,
    KEY_STREAMS,
    KEY_ENGINES,
    KEY_SOCKETS,
    KEY_RACKS,
    KEY_LINK_RATE,
    KEY_HTML
};

enum { GROUP_WHAT = 1, GROUP_HOW, GROUP_SHOW };

const struct argp_option bisect_options[] = {
    {.doc = "What is measured:", .group = GROUP_WHAT},
    {"seconds", KEY_SECONDS, "S", 0, "Measured time of every step, 0.05 to 60, after a warm-up (default: 1)",
     GROUP_WHAT},
    {"cuts", KEY_CUTS, "all|N|minimum", 0,
     "Which balanced cuts: every one (the default up to 8 nodes), N, or the cuts tried while searching for the "
     "smallest",
     GROUP_WHAT},
    {"streams", KEY_STREAMS, "S", 0,
     "Connections from one node to another, at most one for each pair of their workers (default: one per worker)",
     GROUP_WHAT},
    {"racks", KEY_RACKS, "FILE", 0,
     "A line for each node, its name first and rack=NAME somewhere after it: cuts that keep racks together are tried "
     "first",
     GROUP_WHAT},
    {.doc = "Execution:", .group = GROUP_HOW},
    {"engine", KEY_ENGINES, "ENGINE[,ENGINE...]", 0,
     "How bytes are moved (default: auto); several are measured one after the other, into one report", GROUP_HOW},
    {"socket", KEY_SOCKETS, "SETTING=VALUE[,...]", 0, "Of the connections, as in `millrace join'", GROUP_HOW},
    {.doc = "Report:", .group = GROUP_SHOW},
    {"link-rate", KEY_LINK_RATE, "RATE[,NODE=RATE...]", 0,
     "What the nodes' links carry, as 100gbit or, to send and to receive, 500mbit/200mbit (default: what the cards "
     "say)",
     GROUP_SHOW},
    {"html", KEY_HTML, "FILE", 0, "Write a page with tables and figures, too", GROUP_SHOW},
    {0}};

static enum base_status read_seconds(const char *text, uint64_t *ns, struct base_error *error)
{
    char *end;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0.05 && seconds <= 60))
        return base_error_set(error, BASE_INVALID, "--seconds=%s is not understood: it goes from 0.05 to 60", text);
    *ns = (uint64_t)(seconds * 1e9);
    return BASE_OK;
}

static enum base_status read_cuts(const char *text, struct cluster_bisect_request *request, struct base_error *error)
{
    uint64_t count = 0;
    request->cut_count = 0;
    if (strcmp(text, "all") == 0) {
        request->cuts = CLUSTER_BISECT_ALL;
    } else if (strcmp(text, "minimum") == 0) {
        request->cuts = CLUSTER_BISECT_LEAST;
    } else if (base_number_parse(text, &count) && count > 0 && count <= CLUSTER_BISECT_CUTS_MAX) {
        request->cuts = CLUSTER_BISECT_COUNT;
        request->cut_count = (uint32_t)count;
    } else {
        struct base_nearest nearest = base_nearest_to(text, strlen(text));
        base_nearest_offer(&nearest, "all");
        base_nearest_offer(&nearest, "minimum");
        char hint[BASE_NEAREST_HINT_BYTES];
        return base_error_set(error, BASE_INVALID,
                              "--cuts=%s is not understood%s: choose all, minimum, or a number from 1 to %d", text,
                              base_nearest_hint(&nearest, "", hint), CLUSTER_BISECT_CUTS_MAX);
    }
    return BASE_OK;
}

static enum base_status read_engines(const char *text, struct cluster_bisect_words *words, struct base_error *error)
{
    words->engine_count = 0;
    char *copy = strdup(text), *rest = copy, *word;
    if (!copy)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the words of the command line");
    enum base_status status = BASE_OK;
    while (status == BASE_OK && (word = strsep(&rest, ","))) {
        if (words->engine_count == CLUSTER_BISECT_ENGINES_MAX)
            status = base_error_set(error, BASE_INVALID, "--engine=%s: at most %d engines are measured in one report",
                                    text, CLUSTER_BISECT_ENGINES_MAX);
        else
            status = net_engine_choice_parse(word, &words->engine[words->engine_count++], error);
    }
    free(copy);
    return status;
}

enum base_status bisect_option_read(struct client_reader *reader, int key, const char *text)
{
    struct cluster_client_args *args = reader->args;
    struct cluster_bisect_request *request = &args->submit.bisect;
    uint64_t streams;
    switch (key) {
    case KEY_SECONDS:
        return read_seconds(text, &request->duration_ns, reader->error);
    case KEY_CUTS:
        return read_cuts(text, request, reader->error);
    case KEY_STREAMS:
        if (!base_number_parse(text, &streams) || streams == 0 || streams > CLUSTER_BISECT_STREAMS_MAX)
            return base_error_set(reader->error, BASE_INVALID, "--streams=%s is not a number from 1 to %d", text,
                                  CLUSTER_BISECT_STREAMS_MAX);
        request->streams = (uint32_t)streams;
        return BASE_OK;
    case KEY_ENGINES:
        return read_engines(text, &args->bisect, reader->error);
    case KEY_RACKS:
        return bisect_racks_read(text, request, reader->error);
    case KEY_SOCKETS:
        return net_socket_settings_parse(text, &args->submit.settings.socket, reader->error);
    case KEY_LINK_RATE:
        args->bisect.link_rate = text;
        return bisect_links_find(text, "", &(struct bisect_link){0}, reader->error);
    default:
        args->bisect.html = text;
        return BASE_OK;
    }
}

enum base_status bisect_options_check(struct client_reader *reader)
{
    struct cluster_bisect_words *words = &reader->args->bisect;
    if (words->engine_count == 0)
        words->engine[words->engine_count++] = (struct net_engine_choice){.kind = NET_ENGINE_AUTO};
    if (words->html && *words->html == '\0')
        return base_error_set(reader->error, BASE_INVALID, "--html wants the name of the file to write");
    return BASE_OK;
}
