#include "cluster/options/daemon_options.h"

#include <limits.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/text/number.h"
#include "cluster/options/key_option.h"
#include "cluster/options/value.h"
#include "cluster/protocol/message.h"

enum { WORKERS_MAX = 1024, PORT_BLOCK = 256 };

/* ---- values ---- */

/* HOST without a port: the workers' listeners take any. */
static enum base_status read_host(const struct option_row *row, const char *text, void *target,
                                  struct base_error *error)
{
    char with_port[300];
    struct base_error inner = {0};
    const bool bare_v6 = strchr(text, ':') && text[0] != '[';
    const int bytes = snprintf(with_port, sizeof with_port, bare_v6 ? "[%s]:0" : "%s:0", text);
    if (bytes >= (int)sizeof with_port)
        return base_error_set(error, BASE_INVALID, "--%s=%.40s... is too long for an address", row->name, text);
    const enum base_status status = net_address_parse(with_port, option_field(row, target), &inner);
    return status == BASE_OK ? status : base_error_set(error, status, "--%s=%.80s: %s", row->name, text, inner.text);
}

static enum base_status read_name(const struct option_row *row, const char *text, void *target,
                                  struct base_error *error)
{
    if (!cluster_name_good(text))
        return base_error_set(error, BASE_INVALID,
                              "--%s=%.80s is not a name of up to %d letters, digits, '-', '_' or '.'", row->name, text,
                              CLUSTER_NAME_BYTES_MAX);
    return option_read_borrowed(row, text, target, error);
}

/* FIRST-LAST */
static enum base_status read_queues(const struct option_row *row, const char *text, void *target,
                                    struct base_error *error)
{
    struct cluster_place_options *place = option_field(row, target);
    uint64_t first = 0, last = 0;
    char words[64];
    snprintf(words, sizeof words, "%s", text);
    char *dash = strchr(words, '-');
    if (dash)
        *dash++ = '\0';
    if (!dash || !base_number_parse(words, &first) || !base_number_parse(dash, &last) || last > UINT16_MAX ||
        first > last)
        return base_error_set(error, BASE_INVALID,
                              "--%s=%.80s is not a range of receive queues from 0 to %d such as 8-23", row->name, text,
                              UINT16_MAX);
    place->queue_first = (uint32_t)first;
    place->queue_last = (uint32_t)last;
    return BASE_OK;
}

static enum base_status read_piece(const struct option_row *row, const char *text, void *target,
                                   struct base_error *error)
{
    uint64_t bytes;
    const long page = sysconf(_SC_PAGESIZE);
    if (!base_number_parse(text, &bytes) || bytes > row->most || bytes < (uint64_t)page || (bytes & (bytes - 1)) != 0)
        return base_error_set(error, BASE_INVALID, "--%s=%.80s is not a power of two from a page (%ld bytes) to 1Gi",
                              row->name, text, page);
    *(uint32_t *)option_field(row, target) = (uint32_t)bytes;
    return BASE_OK;
}

/* ---- tables ---- */

#define DAEMON_FIELD(member) OPTION_FIELD(struct daemon_args, member)

static const struct option_row coordinator_rows[] = {
    {.name = "listen",
     .letter = 'l',
     .value = "ADDRESS",
     .read = option_read_address,
     DAEMON_FIELD(coordinator.listen),
     .needed = "where do nodes and clients connect?",
     .help = "Where nodes and clients connect, such as 127.0.0.1:7400",
     .manual = "Where nodes and clients connect, such as 127.0.0.1:7400 or [::1]:7400."},
    {.name = "state",
     .value = "FOLDER",
     .path = OPTION_PATH_FOLDER,
     .read = option_read_borrowed,
     DAEMON_FIELD(coordinator.state_folder),
     .most = PATH_MAX - 1 - NAME_MAX - 1,
     .needed = "a folder for decisions and job numbers, of this coordinator alone",
     .help = "Where decisions and job numbers are kept; made if it does not exist",
     .manual = "Where decisions to publish output and job numbers are kept; made if it does not exist, for this user "
               "alone.\n"
               "A folder of another user, one where others may replace files, a symbolic link, and files in it that "
               "another user put\nthere are refused.\n"
               "One coordinator uses a folder at a time.\n"
               "Keep it when the coordinator is restarted: a decided output that a node has not completed is completed "
               "from it."},
    {.name = "nodes",
     .value = "N",
     .zero = true,
     .read = option_read_number,
     DAEMON_FIELD(coordinator.nodes_expected),
     .least = 1,
     .most = CLUSTER_NODES_MAX,
     .json = "nodes_expected",
     .preset = "0",
     .help = "Run jobs only when N nodes are connected; 0: on those that are",
     .manual = "The number of nodes of the cluster.\n"
               "A job that begins while fewer are connected fails at once and names those missing; further nodes are "
               "refused.\n"
               "With 0 jobs run on the nodes that are connected."},
    {0}};

static const struct option_row node_rows[] = {
    {.name = "name",
     .value = "NAME",
     .read = read_name,
     DAEMON_FIELD(node.name),
     .json = "name",
     .needed = "a name that no other node of the cluster has",
     .help = "Name of this node, unique in the cluster",
     .manual = "A name of its own for each node: up to 63 letters, digits, hyphens, underscores or dots.\n"
               "Workers are numbered by the order of the names."},
    {.name = "coordinator",
     .value = "ADDRESS",
     .read = option_read_address,
     DAEMON_FIELD(node.coordinator),
     .needed = "where does the coordinator listen?",
     .help = "Where the coordinator listens, such as 127.0.0.1:7400",
     .manual = "Where the coordinator listens.\n"
               "It may start later or again: the node tries to connect at least once a second."},
    {.name = "listen",
     .letter = 'l',
     .value = "HOST",
     .read = read_host,
     DAEMON_FIELD(node.listen),
     .json = "address",
     .needed = "at which address do other nodes reach this one?",
     .help = "Address at which other nodes reach this one's workers",
     .manual = "The address at which other nodes reach this one.\n"
               "Every worker listens there on a port that the kernel gives.\n"
               "The wildcard addresses 0.0.0.0 and [::] are refused: no other node can connect to them."},
    {.name = "workers",
     .value = "W",
     .read = option_read_number,
     DAEMON_FIELD(node.workers),
     .least = 1,
     .most = WORKERS_MAX,
     .json = "workers",
     .unset = "one for each core",
     .help = "Worker threads"},
    {.name = "memory",
     .value = "BYTES",
     .read = option_read_number,
     DAEMON_FIELD(node.memory_bytes),
     .most = UINT64_C(1) << 50,
     .json = "memory_bytes",
     .unset = "half of the machine's memory",
     .help = "Budget for buffers and tables; 0: no limit",
     .manual = "Budget for frames, receive chunks, tables and buffers, as a number of bytes, which k, M, G, T (powers "
               "of 1000) or Ki, Mi, Gi, Ti (powers of 1024) may follow.\n"
               "A job that needs more fails and says which part needed how much.\n"
               "0 is no limit."},
    {.name = "engine",
     .value = "ENGINE",
     .choice = option_engine_choices,
     .read = option_read_engine,
     DAEMON_FIELD(node.engine),
     .json = "engine",
     .preset = "auto",
     .help = "auto, epoll, uring or a rung of the ladder",
     .manual = "auto (io_uring where it works, else epoll), uring, epoll or any other that\n.Nm millrace engines\n"
               "lists, with options as in\n.Xr millrace-join 1 .\nA job may ask for another."},
    {.name = "pin",
     .read = option_read_flag,
     DAEMON_FIELD(node.pin),
     .help = "Pin each worker to a core of its own when there are enough",
     .manual = "Pin each worker to a core of its own, when the process is allowed enough of them.\n"
               "With\n.Fl -nic\n"
               "on a machine of several memory nodes these are cores of the card's node, if it has enough."},
    {0}};

static const struct option_row card_rows[] = {
    {.name = "nic",
     .value = "INTERFACE",
     .read = option_read_borrowed,
     DAEMON_FIELD(node.place.nic),
     .most = IF_NAMESIZE - 1,
     .unset = "none",
     .help = "Zero-copy receive from this card's queues (needs --rx-queues)",
     .manual = "Receive without a copy from queues of this card\n.Pq Fl -rx-queues .\n"
               "The engines auto and uring then have zero-copy receive, as uring-recv-zc has.\n"
               "It needs CAP_NET_ADMIN.\n"
               "Where the card or the kernel refuses, the log and\n.Nm millrace nodes\n"
               "say why, and the kernel copies."},
    {.name = "rx-queues",
     .value = "FIRST-LAST",
     .read = read_queues,
     DAEMON_FIELD(node.place),
     .json = "placement",
     .unset = "none",
     .help = "The receive queues that are this node's: worker i takes FIRST+i",
     .manual = "The card's receive queues that are this node's: worker\n.Ar i\ntakes queue FIRST+\\fIi\\fR.\n"
               "Nothing else may be steered there, and all that is for that worker must be: it listens at one\n"
               "port of its block and connects from the others, so one rule in the card does (see\n.Fl -ports ) ."},
    {.name = "ports",
     .value = "FIRST",
     .read = option_read_number,
     DAEMON_FIELD(node.place.port_first),
     .most = UINT16_MAX,
     .preset = "16384",
     .help = "With --nic, worker i has the 256 local ports from FIRST+256*i on",
     .manual = "With\n.Fl -nic :\nthe local ports.\n"
               "Worker\n.Ar i\nowns the 256 ports from FIRST+256*\\fIi\\fR on; FIRST is a multiple of 256.\n"
               "For worker 2 that is the rule\n"
               ".Ql ethtool -N IF flow-type tcp4 dst-port 16896 m 0x00ff action QUEUE\n"
               "(bits of the mask that are set do not count)."},
    {.name = "zc-area",
     .value = "BYTES",
     .read = option_read_number,
     DAEMON_FIELD(node.place.area_bytes),
     .most = UINT64_C(1) << 40,
     .preset = "64Mi", /* docs/zero-copy.md has the arithmetic */
     .help = "Memory of each worker that its queue receives into",
     .manual = "With\n.Fl -nic :\nmemory of each worker that its queue receives into."},
    {.name = "zc-chunk",
     .value = "BYTES",
     .read = read_piece,
     DAEMON_FIELD(node.place.piece_bytes),
     .most = UINT64_C(1) << 30,
     .unset = "a page",
     .help = "Size of its pieces, a power of two; larger than a page where the driver takes it",
     .manual = "With\n.Fl -nic :\n"
               "the size of its pieces, a power of two from a page on; larger ones lie on reserved "
               "huge pages, and where\nthe driver does not take them they are pages."},
    {0}};

/* Both have the same, but for where --open-to-all is stored. */
#define KEY_ROW                                                                                                        \
    {                                                                                                                  \
        .name = "key", .value = "FILE", .path = OPTION_PATH_FILE, .read = option_read_borrowed, DAEMON_FIELD(key),     \
        .most = PATH_MAX - 1, .unset = "$" CLUSTER_KEY_VARIABLE,                                                       \
        .help = "The file with the cluster's key, which all who connect must have too",                                \
        .manual =                                                                                                      \
            "The file with the cluster's key, as\n.Nm millrace key\n"                                                  \
            "makes it: 64 hexadecimal digits in a file of the user who runs the daemon, which no other user may "      \
            "read or change.\n"                                                                                        \
            "Coordinator, nodes and clients must all have the same; others are refused, and both sides say so."        \
    }
#define OPEN_ROW(member)                                                                                               \
    {                                                                                                                  \
        .name = "open-to-all", .read = option_read_flag, DAEMON_FIELD(member.open_to_all),                             \
        .help = "Run without a key: every user of this machine gets this daemon's rights; loopback addresses only",    \
        .manual = "Run without a key, on loopback addresses only.\n"                                                   \
                  "Every user of this machine can then connect, and read and write files with the daemon's rights.\n"  \
                  "For experiments on a machine without other users."                                                  \
    }
#define VERBOSE_ROW                                                                                                    \
    {                                                                                                                  \
        .name = "verbose", .letter = 'v', .read = option_read_flag, DAEMON_FIELD(verbose), .help = "Log more"          \
    }
#define HELP_ROW                                                                                                       \
    {                                                                                                                  \
        .name = "help", .letter = 'h', .read = option_read_flag, DAEMON_FIELD(help), .help = "Print this text",        \
        .manual = "Print a summary of the options."                                                                    \
    }

static const struct option_row coordinator_general_rows[] = {
    KEY_ROW, OPEN_ROW(coordinator), VERBOSE_ROW, HELP_ROW, {0}};
static const struct option_row node_general_rows[] = {KEY_ROW, OPEN_ROW(node), VERBOSE_ROW, HELP_ROW, {0}};
static const struct option_row front_rows[] = {
    HELP_ROW,
    {.name = "version",
     .letter = 'V',
     .read = option_read_flag,
     DAEMON_FIELD(version),
     .help = "Print the version",
     .manual = "The version, the commit it was built from where that is known, and the number of the protocol, a "
               "digest of all that\nprograms of a cluster say to each other.\n"
               "Nodes, coordinator and clients must share that number; others are refused with a message that shows "
               "both.\n"
               "To be sure, install one build on all machines."},
    {0}};

static const struct option_command front = {
    .name = "millraced",
    .usage = "COMMAND [OPTION...]",
    .bare = "COMMAND",
    .ends_at_bare = true,
    .text = "The daemon of a Millrace cluster: one coordinator, and a node on every machine.",
    .note = "\n`millraced COMMAND --help' shows a command's options.",
    .page = "millraced.8",
    .group = {{"General:", front_rows}},
};

static const struct option_command commands[DAEMON_COMMANDS] = {
    [DAEMON_COORDINATOR] = {.name = "millraced coordinator",
                            .word = "coordinator",
                            .about = "run the coordinator: track nodes, queue and run jobs",
                            .usage = "--listen=ADDRESS --state=FOLDER --key=FILE",
                            .text = "Runs the coordinator: tracks nodes, queues and runs jobs.",
                            .reports = ".Nm millrace nodes Fl -json\n",
                            .page = "millraced.8",
                            .group = {{"Coordinator:", coordinator_rows}, {"General:", coordinator_general_rows}}},
    [DAEMON_NODE] = {.name = "millraced node",
                     .word = "node",
                     .about = "take part in a cluster with worker threads",
                     .usage = "--name=NAME --coordinator=ADDRESS --listen=HOST --key=FILE",
                     .text = "Takes part in a cluster with worker threads.",
                     .reports = ".Nm millrace nodes Fl -json\n",
                     .page = "millraced.8",
                     .group = {{"Node:", node_rows},
                               {"Zero-copy receive:", card_rows},
                               {"General:", node_general_rows}}},
};

const struct option_program daemon_program = {
    .name = "millraced", .front = &front, .command = commands, .count = DAEMON_COMMANDS};

/* ---- reading ---- */

static void fill_defaults(struct daemon_args *args)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    args->node.workers = cores > 0 ? (uint32_t)cores : 1;
    args->node.memory_bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes / 2 : 0;
}

static enum base_status daemon_check(struct option_reading *reading, const struct option_command *command,
                                     struct base_error *error)
{
    const enum base_status status = option_table_complete(command, reading);
    if (status != BASE_OK)
        return status;
    const bool card = option_table_given(reading, "nic");
    if (card != option_table_given(reading, "rx-queues") ||
        (!card && (option_table_given(reading, "ports") || option_table_given(reading, "zc-area") ||
                   option_table_given(reading, "zc-chunk"))))
        return base_error_set(error, BASE_INVALID,
                              "--nic and --rx-queues go together, and --ports, --zc-area and --zc-chunk with them");
    return BASE_OK;
}

static enum daemon_outcome daemon_give_help(const struct option_command *command, FILE *out, struct base_error *error)
{
    if (option_table_help(command, command == &front ? &daemon_program : NULL, out) == BASE_OK)
        return DAEMON_DONE;
    base_error_set(error, BASE_NO_MEMORY, "no memory for the text");
    return DAEMON_WRONG;
}

enum daemon_outcome daemon_args_parse(int argc, char **argv, FILE *out, struct daemon_args *args,
                                      struct base_error *error)
{
    *args = (struct daemon_args){.command = DAEMON_COMMANDS};
    *error = (struct base_error){0};
    struct option_reading reading = {.target = args, .error = error};
    fill_defaults(args);
    if (option_table_read(&front, argc, argv, &reading) != BASE_OK)
        return DAEMON_WRONG;
    if (args->help || (reading.bare && strcmp(reading.bare, "help") == 0))
        return daemon_give_help(&front, out, error);
    if (args->version)
        return DAEMON_RUN;
    const struct option_command *command = option_command_find(&daemon_program, reading.bare, error);
    if (!command)
        return DAEMON_WRONG;
    args->command = (enum daemon_command)(command - commands);
    const int at = reading.bare_at;
    if (option_table_read(command, argc - at, argv + at, &reading) != BASE_OK)
        return DAEMON_WRONG;
    if (args->help)
        return daemon_give_help(command, out, error);
    return daemon_check(&reading, command, error) == BASE_OK ? DAEMON_RUN : DAEMON_WRONG;
}
