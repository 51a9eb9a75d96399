/* The daemon: `millraced coordinator` or `millraced node`. Arguments in, exit code out. */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/build.h"
#include "base/log.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "base/text/shown.h"
#include "cluster/node/node.h"
#include "cluster/options/key_option.h"
#include "cluster/protocol/message.h"
#include "cluster/shell/shell.h"
#include "cluster/signals.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNREACHABLE = 3 };
enum { DAEMON_WORKERS_MAX = 1024 };

enum daemon_option {
    OPTION_LISTEN = 'l',
    OPTION_VERBOSE = 'v',
    OPTION_STATE = 256,
    OPTION_NODES,
    OPTION_NAME,
    OPTION_COORDINATOR,
    OPTION_WORKERS,
    OPTION_MEMORY,
    OPTION_ENGINE,
    OPTION_PIN,
    OPTION_NIC,
    OPTION_QUEUES,
    OPTION_PORTS,
    OPTION_AREA,
    OPTION_PIECE,
    OPTION_KEY,
    OPTION_OPEN
};

struct arguments {
    const char *listen;
    struct cluster_shell_config coordinator;
    struct cluster_node_config node;
    bool has_coordinator;
    bool has_queues, has_card; /* --rx-queues; another option that makes sense with a card only */
    const char *key;
};

static uint64_t parse_number(struct argp_state *state, const char *what, const char *text, uint64_t most)
{
    uint64_t value = 0;
    if (!base_number_parse(text, &value) || value > most)
        argp_error(state, "%s: '%s' is not a number up to %" PRIu64 ": write " BASE_NUMBER_WORDS, what, text, most);
    return value;
}

static void parse_address(struct argp_state *state, const char *what, const char *text, struct net_address *address)
{
    struct base_error error;
    if (net_address_parse(text, address, &error) != BASE_OK)
        argp_error(state, "%s: %s", what, error.text);
}

/* HOST without a port: the workers' listeners take any. */
static void parse_host(struct argp_state *state, const char *text, struct net_address *address)
{
    char with_port[256];
    const bool bare_v6 = strchr(text, ':') && text[0] != '[';
    snprintf(with_port, sizeof with_port, bare_v6 ? "[%s]:0" : "%s:0", text);
    parse_address(state, "--listen", with_port, address);
}

static error_t parse_coordinator(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    switch (key) {
    case OPTION_LISTEN:
        arguments->listen = value;
        parse_address(state, "--listen", value, &arguments->coordinator.listen);
        return 0;
    case OPTION_STATE:
        arguments->coordinator.state_folder = value;
        return 0;
    case OPTION_NODES:
        arguments->coordinator.nodes_expected = (uint32_t)parse_number(state, "--nodes", value, CLUSTER_NODES_MAX);
        return 0;
    case OPTION_OPEN:
        arguments->coordinator.open_to_all = true;
        return 0;
    case OPTION_KEY:
        arguments->key = value;
        return 0;
    case OPTION_VERBOSE:
        base_log_set_level(BASE_LOG_DEBUG);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is one argument too many", value);
        return 0;
    case ARGP_KEY_END:
        if (!arguments->listen || !arguments->coordinator.state_folder)
            argp_error(state, "--listen and --state are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_engine(struct argp_state *state, const char *text, struct net_engine_choice *choice)
{
    struct base_error error = {0};
    if (net_engine_choice_parse(text, choice, &error) != BASE_OK)
        argp_error(state, "--engine: %s", error.text);
}

/* FIRST-LAST */
static void parse_queues(struct argp_state *state, const char *text, struct cluster_place_options *place)
{
    uint64_t first = 0, last = 0;
    char words[64];
    snprintf(words, sizeof words, "%s", text);
    char *dash = strchr(words, '-');
    if (dash != NULL)
        *dash++ = '\0';
    if (dash == NULL || !base_number_parse(words, &first) || !base_number_parse(dash, &last) || last > UINT16_MAX ||
        first > last)
        argp_error(state, "--rx-queues: '%s' is not a range of receive queues such as 8-23", text);
    place->queue_first = (uint32_t)first;
    place->queue_last = (uint32_t)last;
}

static uint32_t parse_piece(struct argp_state *state, const char *text)
{
    const uint64_t bytes = parse_number(state, "--zc-chunk", text, UINT32_C(1) << 30);
    if (bytes < (uint64_t)sysconf(_SC_PAGESIZE) || (bytes & (bytes - 1)) != 0)
        argp_error(state, "--zc-chunk: '%s' is not a power of two from a page (%ld bytes) on", text,
                   sysconf(_SC_PAGESIZE));
    return (uint32_t)bytes;
}

static void check_name(struct argp_state *state, const char *name)
{
    if (!cluster_name_good(name))
        argp_error(state, "--name: '%s' is not a name of up to %d letters, digits, '-', '_' or '.'", name,
                   CLUSTER_NAME_BYTES_MAX);
}

static error_t parse_node(int key, char *value, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    struct cluster_node_config *node = &arguments->node;
    switch (key) {
    case OPTION_NAME:
        check_name(state, value);
        node->name = value;
        return 0;
    case OPTION_COORDINATOR:
        parse_address(state, "--coordinator", value, &node->coordinator);
        arguments->has_coordinator = true;
        return 0;
    case OPTION_LISTEN:
        arguments->listen = value;
        parse_host(state, value, &node->listen);
        return 0;
    case OPTION_WORKERS:
        node->workers = (uint32_t)parse_number(state, "--workers", value, DAEMON_WORKERS_MAX);
        if (node->workers == 0)
            argp_error(state, "--workers: at least one is needed");
        return 0;
    case OPTION_MEMORY:
        node->memory_bytes = parse_number(state, "--memory", value, UINT64_C(1) << 50);
        return 0;
    case OPTION_ENGINE:
        parse_engine(state, value, &node->engine);
        return 0;
    case OPTION_PIN:
        node->pin = true;
        return 0;
    case OPTION_NIC:
        node->place.nic = value;
        return 0;
    case OPTION_QUEUES:
        parse_queues(state, value, &node->place);
        arguments->has_queues = true;
        return 0;
    case OPTION_PORTS:
        node->place.port_first = (uint32_t)parse_number(state, "--ports", value, UINT16_MAX);
        arguments->has_card = true;
        return 0;
    case OPTION_AREA:
        node->place.area_bytes = parse_number(state, "--zc-area", value, UINT64_C(1) << 40);
        arguments->has_card = true;
        return 0;
    case OPTION_PIECE:
        node->place.piece_bytes = parse_piece(state, value);
        arguments->has_card = true;
        return 0;
    case OPTION_OPEN:
        node->open_to_all = true;
        return 0;
    case OPTION_KEY:
        arguments->key = value;
        return 0;
    case OPTION_VERBOSE:
        base_log_set_level(BASE_LOG_DEBUG);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is one argument too many", value);
        return 0;
    case ARGP_KEY_END:
        if (!node->name || !arguments->has_coordinator || !arguments->listen)
            argp_error(state, "--name, --coordinator and --listen are needed");
        if ((node->place.nic != NULL) != arguments->has_queues || (arguments->has_card && node->place.nic == NULL))
            argp_error(state, "--nic and --rx-queues go together, and --ports, --zc-area and --zc-chunk with them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The same for both. */
#define OPEN_OPTION                                                                                                    \
    {                                                                                                                  \
        "open-to-all", OPTION_OPEN, NULL, 0,                                                                           \
            "run without a key: every user of this machine gets this daemon's rights; loopback addresses only", 0      \
    }
#define KEY_OPTION                                                                                                     \
    {                                                                                                                  \
        "key", OPTION_KEY, "FILE", 0,                                                                                  \
            "the cluster's key, which all who connect must have too (default: $" CLUSTER_KEY_VARIABLE ")", 0           \
    }

static const struct argp_option coordinator_options[] = {
    {"listen", OPTION_LISTEN, "ADDRESS", 0, "where nodes and clients connect, such as 127.0.0.1:7400", 0},
    {"state", OPTION_STATE, "FOLDER", 0, "where decisions and job numbers are kept; made if it does not exist", 0},
    {"nodes", OPTION_NODES, "N", 0, "run jobs only when N nodes are here (default: with whoever is here)", 0},
    KEY_OPTION,
    OPEN_OPTION,
    {"verbose", OPTION_VERBOSE, NULL, 0, "log more", 0},
    {0}};

static const struct argp_option node_options[] = {
    {"name", OPTION_NAME, "NAME", 0, "name of this node, unique in the cluster", 0},
    {"coordinator", OPTION_COORDINATOR, "ADDRESS", 0, "where the coordinator listens, such as 127.0.0.1:7400", 0},
    {"listen", OPTION_LISTEN, "HOST", 0, "address at which other nodes reach this one's workers", 0},
    {"workers", OPTION_WORKERS, "W", 0, "worker threads (default: one for each core)", 0},
    {"memory", OPTION_MEMORY, "BYTES", 0, "budget for buffers and tables; 0: no limit (default: half of the machine's)",
     0},
    {"engine", OPTION_ENGINE, "ENGINE", 0, "auto, epoll, uring or a rung of the ladder (default: auto)", 0},
    {"pin", OPTION_PIN, NULL, 0, "pin each worker to a core of its own when there are enough", 0},
    {"nic", OPTION_NIC, "INTERFACE", 0, "zero-copy receive from this card's queues (needs --rx-queues)", 0},
    {"rx-queues", OPTION_QUEUES, "FIRST-LAST", 0, "the receive queues that are this node's: worker i takes FIRST+i", 0},
    {"ports", OPTION_PORTS, "FIRST", 0,
     "with --nic, worker i has the 256 local ports from FIRST+256*i on (default: 16384)", 0},
    {"zc-area", OPTION_AREA, "BYTES", 0, "memory of each worker that its queue receives into (default: 64M)", 0},
    {"zc-chunk", OPTION_PIECE, "BYTES", 0,
     "size of its pieces, a power of two; larger than a page where the driver takes it", 0},
    KEY_OPTION,
    OPEN_OPTION,
    {"verbose", OPTION_VERBOSE, NULL, 0, "log more", 0},
    {0}};

static int report(enum base_status status, const struct base_error *error)
{
    if (status == BASE_OK)
        return 0;
    base_log_error("%s", error->text);
    return status == BASE_VERSION ? EXIT_UNREACHABLE : EXIT_FAILED;
}

/* Says what an unknown option was probably meant to be; argp only says that it is unknown. */
static bool tell_near(const struct argp_option *options, int count, char **values)
{
    for (int i = 1; i < count; i++) {
        const size_t bytes = strcspn(values[i], "=");
        if (strncmp(values[i], "--", 2) != 0 || bytes == 2)
            continue;
        struct base_nearest nearest = base_nearest_to(values[i] + 2, bytes - 2);
        bool known = strncmp("help", values[i] + 2, bytes - 2) == 0 || strncmp("usage", values[i] + 2, bytes - 2) == 0;
        for (const struct argp_option *option = options; option->name; option++) {
            known |= strncmp(option->name, values[i] + 2, bytes - 2) == 0;
            base_nearest_offer(&nearest, option->name);
        }
        if (known || !nearest.word)
            continue;
        char hint[BASE_NEAREST_HINT_BYTES];
        fprintf(stderr, "%s: there is no option '%s'%s\n", values[0], base_shown(values[i]),
                base_nearest_hint(&nearest, "--", hint));
        return true;
    }
    return false;
}

static int run_coordinator(int count, char **values)
{
    static const struct argp argp = {.options = coordinator_options,
                                     .parser = parse_coordinator,
                                     .doc = "Run the coordinator: track nodes, queue and run jobs."};
    struct arguments arguments = {0};
    struct base_error error = {0};
    base_log_set_name("coordinator");
    if (tell_near(coordinator_options, count, values))
        return EXIT_USAGE;
    argp_parse(&argp, count, values, 0, NULL, &arguments);
    struct net_key *key = NULL;
    enum base_status status = cluster_key_open(arguments.key, &key, &error);
    arguments.coordinator.key = key;
    if (status == BASE_OK)
        status = cluster_shell_run(&arguments.coordinator, &error);
    net_key_close(key);
    return report(status, &error);
}

static int run_node(int count, char **values)
{
    static const struct argp argp = {
        .options = node_options, .parser = parse_node, .doc = "Take part in a cluster with worker threads."};
    struct arguments arguments = {0};
    struct base_error error = {0};
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    arguments.node.place.port_first = CLUSTER_PORTS_DEFAULT;
    arguments.node.place.area_bytes = CLUSTER_AREA_BYTES_DEFAULT;
    arguments.node.workers = cores > 0 ? (uint32_t)cores : 1;
    arguments.node.memory_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 2 : 0;
    if (tell_near(node_options, count, values))
        return EXIT_USAGE;
    argp_parse(&argp, count, values, 0, NULL, &arguments);
    base_log_set_name(arguments.node.name);
    struct net_key *key = NULL;
    enum base_status status = cluster_key_open(arguments.key, &key, &error);
    arguments.node.key = key;
    if (status == BASE_OK)
        status = cluster_node_run(&arguments.node, &error);
    net_key_close(key);
    return report(status, &error);
}

static void usage(FILE *to)
{
    fputs("Usage: millraced coordinator --listen ADDRESS --state FOLDER --key FILE [--nodes N]\n"
          "       millraced node --name NAME --coordinator ADDRESS --listen HOST --key FILE\n"
          "                      [--workers W] [--memory BYTES] [--engine ENGINE] [--pin]\n"
          "                      [--nic INTERFACE --rx-queues FIRST-LAST [--ports FIRST]\n"
          "                      [--zc-area BYTES] [--zc-chunk BYTES]]\n"
          "       millraced --version\n"
          "\n"
          "The daemon of a Millrace cluster: one coordinator, and a node on every machine.\n"
          "millraced coordinator --help and millraced node --help say more.\n",
          to);
}

int main(int count, char **values)
{
    cluster_signals_ignore();
    argp_err_exit_status = EXIT_USAGE;
    const char *command = count > 1 ? values[1] : "";
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        char text[BASE_BUILD_TEXT_BYTES];
        printf("millraced %s\n", base_build_describe(text));
        return 0;
    }
    if (strcmp(command, "--help") == 0 || strcmp(command, "-?") == 0 || strcmp(command, "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(command, "coordinator") != 0 && strcmp(command, "node") != 0) {
        struct base_nearest nearest = base_nearest_to(command, strlen(command));
        base_nearest_offer(&nearest, "coordinator");
        base_nearest_offer(&nearest, "node");
        char hint[BASE_NEAREST_HINT_BYTES];
        if (*command)
            fprintf(stderr, "millraced: '%s' is neither coordinator nor node%s\n", base_shown(command),
                    base_nearest_hint(&nearest, "", hint));
        usage(stderr);
        return EXIT_USAGE;
    }
    char name[32];
    snprintf(name, sizeof name, "millraced %s", command);
    values[1] = name;
    return strcmp(command, "node") == 0 ? run_node(count - 1, values + 1) : run_coordinator(count - 1, values + 1);
}
