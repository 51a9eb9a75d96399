/* Options of join and shuffle that concern output, execution and tuning. */
#include <limits.h>

#include "cluster/options/options.h"
#include "cluster/options/value.h"

static const struct option_choice output_choices[] = {{"csv", SHUFFLE_OUTPUT_CSV}, {"bin", SHUFFLE_OUTPUT_FIXED}, {0}};

const struct option_choice socket_choices[] = {{"congestion=", 0},
                                               {"send-buffer=", 0},
                                               {"recv-buffer=", 0},
                                               {"notsent-lowat=", 0},
                                               {"nodelay=on", 0},
                                               {"nodelay=off", 0},
                                               {0}};

enum base_status option_read_socket(const struct option_row *row, const char *text, void *target,
                                    struct base_error *error)
{
    struct base_error inner = {0};
    const enum base_status status = net_socket_settings_parse(text, option_field(row, target), &inner);
    return status == BASE_OK ? status : base_error_set(error, status, "--%s=%.80s: %s", row->name, text, inner.text);
}

#define SUBMIT_FIELD(member) OPTION_FIELD(struct cluster_client_args, submit.member)

const struct option_row job_output_rows[] = {
    {.name = "out",
     .value = "DIR",
     .path = OPTION_PATH_FOLDER,
     .read = option_read_text,
     SUBMIT_FIELD(out),
     .most = PATH_MAX - 1,
     .json = "out",
     .unset = "none: rows are counted, and summed up in a checksum",
     .help = "Write the rows into this new folder",
     .manual =
         "Write the rows into files part-00000.csv (or .bin) and so on, one for each worker, in this folder, which "
         "must not exist yet on any node.\n"
         "Each is on the node of its worker.\n"
         "The result is complete when\n.Pa _SUCCESS.json\nis there, which is written last."},
    {.name = "output-format",
     .choice = output_choices,
     .read = option_read_choice,
     SUBMIT_FIELD(output),
     .preset = "csv",
     .help = "Format of what --out writes",
     .manual = "CSV with a header of the form name:type, or rows of fixed width."},
    {.name = "report",
     .value = "FILE",
     .path = OPTION_PATH_FILE,
     .read = option_read_borrowed,
     OPTION_FIELD(struct cluster_client_args, report),
     .most = PATH_MAX - 1,
     .unset = "none",
     .help = "Write the object of --json into this file, too",
     .manual = "Write the object that\n.Fl -json\n"
               "prints into this file, too, which is made or replaced; a job that fails gives one as well."},
    {0}};

#define ENGINE_MANUAL                                                                                                  \
    "How bytes are moved: auto, uring, epoll or a rung, with options after it as\n"                                    \
    ".Ar RUNG Ns + Ns Ar OPTION .\n"                                                                                   \
    "auto is io_uring where it works, else epoll, and the report says why.\n"                                          \
    "With auto and uring every node decides for each job on multishot or one-shot receives, number and size of "       \
    "chunks, and zero-copy sends, from the\n"                                                                          \
    "size of rows and messages, the number of connections, and what its earlier jobs met; the report has the "         \
    "decision.\n"                                                                                                      \
    "Named rungs stay as they are.\n"                                                                                  \
    "The rungs are what\n.Nm millrace Cm engines\nlists, each the one before plus one idea.\n"                         \
    "Features of a rung that a node's kernel lacks are omitted, and the report names them and says why.\n"             \
    "Where io_uring is forbidden a rung of it is an error; auto is epoll there.\n"                                     \
    "Options for experiments, most of them on io_uring only, follow a rung, as in "                                    \
    "uring-multishot+napi=50us+huge-pages:\n"                                                                          \
    ".Bl -tag -width Ds\n"                                                                                             \
    ".It Cm sqpoll\n"                                                                                                  \
    "A kernel thread takes what is submitted and runs the task work, in place of deferred task work.\n"                \
    ".It Cm coop-taskrun\n"                                                                                            \
    "Task work waits for the next system call; only on uring-naive, because the other rungs defer it.\n"               \
    ".It Cm incremental\n"                                                                                             \
    "A chunk is filled by several completions, on a rung with provided buffers (from uring-multishot to "              \
    "uring-send-zc); in place of bundles,\n"                                                                           \
    "because some kernels lose bytes when both are on.\n"                                                              \
    ".It Cm napi Ns Op = Ns Ar US\n"                                                                                   \
    "A wait polls the network card for so many microseconds first; 50 when none are given.\n"                          \
    ".It Cm min-wait= Ns Ar US\n"                                                                                      \
    "A wait ends with a batch of completions, or after so many microseconds with what is there.\n"                     \
    ".It Cm huge-pages\n"                                                                                              \
    "Receive memory from the reserved huge pages of 2 MiB (vm.nr_hugepages).\n"                                        \
    ".It Cm zc-always\n"                                                                                               \
    "On epoll-zc and uring-send-zc: sends without a copy also on connections where the kernel reports that it copies " \
    "anyway, as over loopback and veth; without the option they change to plain sends, and the report says so.\n"      \
    ".El"
#define SOCKET_MANUAL                                                                                                  \
    "How the job's TCP connections are set up, on every node:\n"                                                       \
    ".Bl -tag -width Ds\n"                                                                                             \
    ".It Cm congestion= Ns Ar NAME\n"                                                                                  \
    "Congestion control; without it cubic, else reno, else what the kernel has.\n"                                     \
    "If a node does not have or allow it, the job fails; the error lists those available.\n"                           \
    ".It Cm send-buffer= Ns Ar SIZE , Cm recv-buffer= Ns Ar SIZE\n"                                                    \
    "Buffers of the kernel, as SO_SNDBUF and SO_RCVBUF take them (the kernel doubles them for its own overhead).\n"    \
    "Without them the kernel sizes its buffers, which adapts.\n"                                                       \
    "A receive buffer below 16 KiB may slow a job to a crawl: when TCP offers less than a segment, its peer waits "    \
    "200\n"                                                                                                            \
    "ms before it sends one.\n"                                                                                        \
    "Only root may exceed net.core.wmem_max or rmem_max; otherwise the size is clamped, and the report says so.\n"     \
    ".It Cm notsent-lowat= Ns Ar SIZE\n"                                                                               \
    "TCP_NOTSENT_LOWAT, the unsent bytes above which a send waits; without it the kernel's.\n"                         \
    ".It Cm nodelay= Ns Cm on | off\n"                                                                                 \
    "Whether small segments are sent at once (on).\n"                                                                  \
    ".El"

const struct option_row job_run_rows[] = {
    {.name = "engine",
     .value = "auto|epoll|uring|RUNG",
     .choice = option_engine_choices,
     .read = option_read_engine,
     SUBMIT_FIELD(settings.engine),
     .json = "engine",
     .preset = "auto",
     .help = "How bytes are moved; auto: by io_uring where it works",
     .manual = ENGINE_MANUAL},
    {.name = "verify",
     .read = option_read_flag,
     SUBMIT_FIELD(settings.verify),
     .json = "verified",
     .help = "Check every payload byte that crosses the network",
     .manual = "Check every payload byte that crosses the network.\n"
               "Sequence, lengths and totals are always checked."},
    {.name = "socket",
     .value = "SETTING=VALUE[,...]",
     .choice = socket_choices,
     .read = option_read_socket,
     SUBMIT_FIELD(settings.socket),
     .unset = SOCKET_UNSET,
     .help = "TCP settings: congestion=NAME, send-buffer=SIZE, recv-buffer=SIZE, notsent-lowat=SIZE, nodelay=on|off",
     .manual = SOCKET_MANUAL},
    {0}};

const struct option_row job_tune_rows[] = {{.name = "frame-bytes",
                                            .value = "SIZE",
                                            .zero = true,
                                            .read = option_read_number,
                                            SUBMIT_FIELD(settings.frame_bytes),
                                            .least = 4096,
                                            .most = 1 << 20,
                                            .unset = "chosen by the size of the input",
                                            .help = "Frame size (a frame is the unit sent)",
                                            .manual = "Frame size (a frame is the unit sent), from 4Ki to 1Mi."},
                                           {.name = "frames-per-lane",
                                            .value = "N",
                                            .zero = true,
                                            .read = option_read_number,
                                            SUBMIT_FIELD(settings.frames_per_lane),
                                            .least = 1,
                                            .most = 1024,
                                            .unset = "2, or 4 for engines that send without a copy",
                                            .help = "Frames in flight from one worker to another"},
                                           {.name = "chunk-bytes",
                                            .value = "SIZE",
                                            .zero = true,
                                            .read = option_read_number,
                                            SUBMIT_FIELD(settings.recv_chunk_bytes),
                                            .least = 4096,
                                            .most = 1 << 24,
                                            .unset = "chosen by auto and uring, 64Ki for named rungs",
                                            .help = "Size of a receive chunk"},
                                           {.name = "chunks",
                                            .value = "N",
                                            .zero = true,
                                            .read = option_read_number,
                                            SUBMIT_FIELD(settings.recv_chunk_count),
                                            .least = 1,
                                            .most = 32768,
                                            .unset = "chosen by auto and uring, 32 for named rungs",
                                            .help = "Receive chunks of a worker"},
                                           {.name = "morsel-bytes",
                                            .value = "SIZE",
                                            .zero = true,
                                            .read = option_read_number,
                                            SUBMIT_FIELD(settings.morsel_bytes),
                                            .least = 1024,
                                            .most = UINT64_C(1) << 40,
                                            .unset = "4Mi, less for small inputs",
                                            .help = "Size of a piece of input (a morsel)"},
                                           {0}};
