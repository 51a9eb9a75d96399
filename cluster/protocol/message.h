/* The messages of the control plane as plain C structs: what clients, coordinator and nodes say to each other.
 * cluster/protocol/codec.h turns them into bytes and back; nobody else knows how they look on the wire.
 *
 * Every control connection begins with HELLO from whoever connected; the coordinator answers WELCOME, or REFUSED and
 * closes, as it does when the hello's protocol number is not its own (base/build.h). Then:
 *
 * A client says SUBMIT and gets ACCEPTED, PROGRESS..., REPORT; closing the connection cancels the job. Or it says
 * LIST_NODES -> NODES, LIST_JOBS -> JOBS, CANCEL -> ANSWER, BEAT -> BEAT. An answer too large to be sent is replaced by
 * REFUSED, and the connection ends.
 *
 * A node gets the orders RESOLVE, PREPARE, SURVEY, CONNECT, START, LEND, HALT, STAGE, COMMIT, PUBLISH, RELEASE. It says
 * RESOLVED, STEP, SURVEYED, LOW, FAULT, NODE_PROGRESS, STAGED, COMMITTED, PUBLISHED, FAILED, BROKEN (a failure of
 * connections, which does not matter to a job whose rows have all arrived), CLOSED. All carry the job's number.
 *
 * A job that measures the network has MEASURE -> MEASURED for each of its steps; its client gets SCHEDULE, then a
 * MEASUREMENT for each step, before the REPORT.
 *
 * A heartbeat is BEAT, both ways.
 *
 * Ownership: a message that was decoded owns everything it points to (malloc); cluster_message_free releases it. A
 * message made to be sent borrows what it points to, and is not freed. */
#ifndef MILLRACE_CLUSTER_PROTOCOL_MESSAGE_H
#define MILLRACE_CLUSTER_PROTOCOL_MESSAGE_H

#include "cluster/bisect/bisect.h"
#include "cluster/protocol/work.h"
#include "shuffle/rows/reject.h"

#define CLUSTER_PROTOCOL_MAGIC UINT32_C(0x4352464d) /* "MFRC" as bytes on the wire */

enum {
    CLUSTER_NAME_BYTES_MAX = 63,
    CLUSTER_NODES_MAX = 1024,
    CLUSTER_WORKERS_MAX = 65536, /* of the whole cluster */
    CLUSTER_FILES_MAX = 1 << 20,
    CLUSTER_MORSELS_MAX = 1 << 20, /* of one message */
    CLUSTER_DOUBTS_MAX = 1 << 16,
    CLUSTER_TEXT_BYTES_MAX = 1 << 16,
    /* _SUCCESS.json: a schema of columns whose names have every byte doubled, a type of up to 52 bytes, and JSON, which
     * makes up to six bytes of one; the rest is numbers */
    CLUSTER_SUCCESS_BYTES_MAX = 6 * SHUFFLE_COLUMNS_MAX * (2 * SHUFFLE_NAME_BYTES_MAX + 52) + 4096
};

/* May a node be called so? Names go into messages, lists and JSON: letters, digits, '-', '_' and '.' only. */
bool cluster_name_good(const char *name);

/* X(name): the kinds of message. */
#define CLUSTER_MESSAGE_LIST(X)                                                                                        \
    X(HELLO)                                                                                                           \
    X(WELCOME)                                                                                                         \
    X(REFUSED)                                                                                                         \
    X(BEAT)                                                                                                            \
    X(SUBMIT)                                                                                                          \
    X(ACCEPTED)                                                                                                        \
    X(PROGRESS)                                                                                                        \
    X(REPORT)                                                                                                          \
    X(LIST_NODES)                                                                                                      \
    X(NODES)                                                                                                           \
    X(LIST_JOBS)                                                                                                       \
    X(JOBS)                                                                                                            \
    X(CANCEL)                                                                                                          \
    X(ANSWER)                                                                                                          \
    X(RESOLVE)                                                                                                         \
    X(RESOLVED)                                                                                                        \
    X(PREPARE)                                                                                                         \
    X(STEP)                                                                                                            \
    X(SURVEY)                                                                                                          \
    X(SURVEYED)                                                                                                        \
    X(CONNECT)                                                                                                         \
    X(START)                                                                                                           \
    X(LEND)                                                                                                            \
    X(LOW)                                                                                                             \
    X(NODE_PROGRESS)                                                                                                   \
    X(FAILED)                                                                                                          \
    X(COMMIT)                                                                                                          \
    X(COMMITTED)                                                                                                       \
    X(PUBLISH)                                                                                                         \
    X(PUBLISHED)                                                                                                       \
    X(RELEASE)                                                                                                         \
    X(CLOSED)                                                                                                          \
    X(MEASURE)                                                                                                         \
    X(MEASURED)                                                                                                        \
    X(SCHEDULE)                                                                                                        \
    X(MEASUREMENT)                                                                                                     \
    X(BROKEN)                                                                                                          \
    X(FAULT)                                                                                                           \
    X(HALT)                                                                                                            \
    X(STAGE)                                                                                                           \
    X(STAGED)

enum cluster_message_kind {
#define X(name) CLUSTER_MESSAGE_##name,
    CLUSTER_MESSAGE_LIST(X)
#undef X
        CLUSTER_MESSAGE_COUNT
};

/* "SUBMIT"; never NULL. */
const char *cluster_message_name(enum cluster_message_kind kind);

enum cluster_role { CLUSTER_ROLE_CLIENT, CLUSTER_ROLE_NODE, CLUSTER_ROLE_HEARTBEAT, CLUSTER_ROLE_COUNT };

struct cluster_hello {
    uint32_t magic;
    uint32_t protocol; /* base_build_protocol: both ends must share it */
    char *build;       /* base_build_id */
    enum cluster_role role;
    /* NODE and HEARTBEAT: */
    char *name;
    uint64_t incarnation; /* random at start of the node process: binds its heartbeats to it */
    /* NODE only: */
    uint32_t worker_count;
    struct net_address *worker; /* data address of each */
    uint64_t memory_bytes;      /* budget, 0: unlimited */
    char *engine, *features;
    char *engine_reason; /* why not io_uring, or "" */
    char *placement;     /* queue, ports and memory node of its workers, as far as there is something to say */
    uint64_t pid;
    uint32_t doubt_count;
    uint64_t *doubt; /* jobs with durable output whose decision the node has not heard */
};

struct cluster_welcome {
    char *build;
    uint32_t nodes_expected; /* 0: any number */
};

struct cluster_beat {
    uint64_t sequence;
    uint64_t stuck_ns; /* the node's control thread has not moved for at least so long; 0: it moves */
};

/* How a user wants an option of a source: left to the file's suffix, or set. */
enum cluster_choice { CLUSTER_CHOICE_DEFAULT, CLUSTER_CHOICE_YES, CLUSTER_CHOICE_NO };
enum cluster_format { CLUSTER_FORMAT_BY_SUFFIX, CLUSTER_FORMAT_CSV, CLUSTER_FORMAT_FIXED };

struct cluster_source {
    char *text;   /* "shared:/data/a.csv", "local:...", "gen:..." */
    char *schema; /* declared, or NULL */
    enum cluster_format format;
    char delimiter, quote; /* 0: as the suffix says */
    enum cluster_choice header, empty_is_null, quoted_empty_is_null;
    char null_texts[SHUFFLE_NULL_TEXTS_BYTES]; /* as in struct shuffle_csv_options */
    uint64_t bad_rows_max;                     /* likewise */
    enum cluster_choice incomplete;            /* YES: a result of which a part is missing is read all the same */
};

/* Applies format and CSV options to a relation that shuffle_relation_parse filled. */
void cluster_source_apply(const struct cluster_source *source, struct shuffle_relation *relation);

struct cluster_submit {
    enum cluster_job_kind kind;
    uint32_t source_count; /* join 2 (left, right), shuffle 1, bisect 0 */
    struct cluster_source source[2];
    enum join_type type;         /* join */
    bool null_equal, null_aware; /* likewise, as in struct join_request */
    char *on;                    /* join "a=b[,c=d]", shuffle "k[,l]" */
    char *select;                /* or NULL */
    char *out;                   /* absolute directory, or NULL */
    enum shuffle_output_kind output;
    bool into_table;
    bool progress; /* the client wants PROGRESS */
    struct shuffle_settings settings;
    struct cluster_bisect_request bisect; /* bisect only, which has no sources */
};

/* X(name, words) */
#define CLUSTER_PHASE_LIST(X)                                                                                          \
    X(QUEUED, "queued")                                                                                                \
    X(RESOLVE, "looking at sources")                                                                                   \
    X(PREPARE, "preparing")                                                                                            \
    X(SURVEY, "surveying")                                                                                             \
    X(CONNECT, "connecting")                                                                                           \
    X(BUILD, "building")                                                                                               \
    X(PROBE, "probing")                                                                                                \
    X(MEASURE, "measuring")                                                                                            \
    X(STAGE, "syncing the output")                                                                                     \
    X(COMMIT, "committing")                                                                                            \
    X(RELEASE, "releasing")                                                                                            \
    X(ABORT, "aborting")                                                                                               \
    X(DONE, "done")

/* A shuffle's only pass is BUILD; a bisect has MEASURE instead, once for each of its steps. */
enum cluster_phase {
#define X(name, words) CLUSTER_PHASE_##name,
    CLUSTER_PHASE_LIST(X)
#undef X
        CLUSTER_PHASE_COUNT
};
/* "building"; never NULL. */
const char *cluster_phase_words(enum cluster_phase phase);

struct cluster_progress {
    enum cluster_phase phase;
    uint64_t rows_scanned, rows_expected; /* of all passes; expected is a guess unless the input says; 0: unknown */
    double seconds;                       /* since the job began to run */
};

/* X(name, words): the resource that held a job back. */
#define CLUSTER_LIMIT_LIST(X)                                                                                          \
    X(NONE, "none")                                                                                                    \
    X(NETWORK, "network")                                                                                              \
    X(KERNEL_CPU, "kernel CPU")                                                                                        \
    X(USER_CPU, "user CPU")                                                                                            \
    X(MEMORY, "memory")                                                                                                \
    X(SKEW, "skew")                                                                                                    \
    X(INPUT, "input")                                                                                                  \
    X(OUTPUT, "output")

enum cluster_limit {
#define X(name, words) CLUSTER_LIMIT_##name,
    CLUSTER_LIMIT_LIST(X)
#undef X
        CLUSTER_LIMIT_COUNT
};
const char *cluster_limit_words(enum cluster_limit limit);

/* One node's share of a report. */
struct cluster_node_report {
    char *name;
    char *engine_decision; /* what its engine was made of and why; "" for a named rung */
    uint32_t workers;
    uint64_t memory_bytes; /* its budget, 0: unlimited */
    struct cluster_measures sum;
    struct net_socket_facts facts; /* of one of its connections */
};

/* X(name): phases whose wall time a report gives. */
#define CLUSTER_SPAN_LIST(X) X(queued) X(resolve) X(prepare) X(survey) X(connect) X(build) X(probe) X(commit) X(release)
struct cluster_spans {
#define X(name) double name##_seconds;
    CLUSTER_SPAN_LIST(X)
#undef X
};

/* Bad rows of a side that were left out. */
struct cluster_skipped_row {
    char *node; /* "" where the files are the same on all nodes */
    char *path;
    uint64_t line;
    char *reason;
};
struct cluster_skipped {
    uint64_t count;
    uint32_t row_count;
    struct cluster_skipped_row *row; /* the first ones */
};

struct cluster_report {
    struct base_error error; /* status BASE_OK: the job succeeded */
    bool
        bad_request; /* the request was wrong in itself (a column, a type, a word): nothing ran, a repeat cannot help */
    enum cluster_job_kind kind;
    enum join_type type; /* of a join */
    uint32_t build_side; /* 0 left, 1 right */
    struct cluster_measures sum;
    double seconds; /* from the moment the job began to run to its end, at the coordinator */
    struct cluster_spans spans;
    char *engine, *features, *engine_reason; /* what was used; reason "" unless io_uring was not to be had */
    bool verified;                           /* every payload byte was checked */
    enum cluster_limit limit;
    char *limit_words; /* a sentence that says why, with the node or link it shows at; "" when nothing ran */
    struct cluster_skipped skipped[2]; /* of left and right */
    uint32_t workers;
    uint32_t node_count;
    struct cluster_node_report *node;
    uint64_t *link; /* node_count * node_count: payload bytes sent from [row] to [column] */
};

enum cluster_node_state { CLUSTER_NODE_IDLE, CLUSTER_NODE_RUNNING, CLUSTER_NODE_MISSING, CLUSTER_NODE_STATE_COUNT };
struct cluster_node_entry {
    char *name;
    enum cluster_node_state state;
    char *address; /* data address of its first worker */
    uint32_t workers;
    uint64_t memory_bytes, pid;
    char *engine, *features, *engine_reason, *placement, *build;
    double seconds; /* since it was last heard */
};
struct cluster_nodes {
    uint32_t nodes_expected, count;
    struct cluster_node_entry *entry;
};

enum cluster_job_state {
    CLUSTER_JOB_QUEUED,
    CLUSTER_JOB_RUNNING,
    CLUSTER_JOB_SUCCEEDED,
    CLUSTER_JOB_FAILED,
    CLUSTER_JOB_CANCELLED,
    CLUSTER_JOB_STATE_COUNT
};
struct cluster_job_entry {
    uint64_t job;
    enum cluster_job_kind kind;
    enum cluster_job_state state;
    enum cluster_phase phase;
    char *words; /* "join shared:a.csv shared:b.csv on id=id" */
    char *error; /* or "" */
    uint64_t rows;
    double seconds; /* waiting, running, or run */
};
struct cluster_jobs {
    uint32_t count;
    struct cluster_job_entry *entry; /* newest last */
};

struct cluster_answer { /* also REFUSED, FAILED and BROKEN */
    struct base_error error;
};

struct cluster_resolve {
    uint32_t source_count;
    struct cluster_source source[2];
    char *out; /* to be checked, or NULL */
    /* What only jobs of the coordinator with this id left behind in out is removed, but for those of these numbers. */
    char *state;
    uint64_t live_count;
    uint64_t *live;
};
struct cluster_resolved {
    uint32_t relation_count;
    struct shuffle_relation relation[2];
    struct cluster_card card; /* bisect only */
};

struct cluster_prepare {
    struct cluster_plan *plan;
    uint32_t node; /* the receiver's number in plan->job.node */
    uint64_t morsel_capacity[2];
    bool survey[2];
};

struct cluster_step { /* also CLOSED */
    enum cluster_step_kind step;
    bool has_report; /* FINISHED, and CLOSED of a job that was prepared */
    struct cluster_work report;
    uint32_t node_count;
    uint64_t *sent_bytes, *received_bytes;   /* per node */
    char *engine, *features, *engine_reason; /* what was used */
    char *engine_decision;                   /* and why that; "" for a named rung */
    struct shuffle_rejects *rejects[2];      /* SEALED and FINISHED: left out of each side so far; NULL: nothing */
};

/* Morsels of one side. */
struct cluster_lend {
    uint32_t side;
    bool end; /* no more will come */
    uint64_t count;
    struct shuffle_morsel *morsel;
};
struct cluster_survey {
    struct cluster_lend lend[2]; /* a side that needs no survey: nothing, end true */
};
struct cluster_surveyed {
    uint64_t count[2];
    struct shuffle_survey *survey[2];
};
struct cluster_start {
    uint32_t pass;
    struct cluster_lend lend; /* the first group */
};
struct cluster_low {
    uint32_t side;
};
/* Input that cannot be read. The job fails with the earliest such error, so the coordinator tells all nodes to HALT: to
 * scan no morsel from that one on, and to say STEP HALTED when all that they were lent before it is scanned. */
struct cluster_fault {
    uint32_t side;
    uint64_t morsel; /* its number in the relation */
    struct base_error error;
};
struct cluster_halt {
    uint32_t side;
    uint64_t morsel;
};
struct cluster_node_progress {
    uint64_t rows;
};

struct cluster_stage {
    char *text; /* of _SUCCESS.json */
};
/* Orders to a node that may have restarted since: everything is said again. */
struct cluster_commit {
    char *out, *extension, *files; /* files: what the job's files are called after */
    uint32_t first, count;         /* workers whose parts it renames */
};
struct cluster_publish {
    char *out, *files;
    char *text; /* of _SUCCESS.json */
    uint32_t first;
};
struct cluster_release {
    bool abort;
};

/* What a client is told of a measurement of the network before it begins ... */
struct cluster_schedule_node {
    char *name;
    uint32_t workers;
    struct cluster_card card;
};
struct cluster_schedule {
    uint32_t step_count; /* at most */
    uint64_t expected_ns, duration_ns, warmup_ns, window_ns;
    uint32_t node_count;
    struct cluster_schedule_node *node;
};
/* ... and of each step of it. */
struct cluster_measurement {
    uint32_t step; /* counted from 1 */
    enum cluster_bisect_kind kind;
    uint32_t node;      /* as in struct cluster_bisect_step */
    uint32_t half_size; /* CUT: as many as nodes; else 0 */
    uint8_t *half;
    enum cluster_bisect_origin origin; /* CUT */
    uint32_t flow_count;
    struct cluster_flow *flow;
    uint64_t *flow_bytes; /* payload received in the measured time */
    uint32_t window_count;
    uint64_t *window;                             /* the same by window, over all flows */
    uint32_t host_busy_permille, host_processors; /* of the machine that was busiest */
    struct cluster_bisect_measures sum;
};

struct cluster_message {
    enum cluster_message_kind kind;
    uint64_t job; /* 0 where there is none */
    union {
        struct cluster_hello hello;
        struct cluster_welcome welcome;
        struct cluster_answer refused, failed, broken, answer;
        struct cluster_beat beat;
        struct cluster_submit submit;
        struct cluster_progress progress;
        struct cluster_report report;
        struct cluster_nodes nodes;
        struct cluster_jobs jobs;
        struct cluster_resolve resolve;
        struct cluster_resolved resolved;
        struct cluster_prepare prepare;
        struct cluster_step step;
        struct cluster_survey survey;
        struct cluster_surveyed surveyed;
        struct cluster_start start;
        struct cluster_lend lend;
        struct cluster_low low;
        struct cluster_fault fault;
        struct cluster_halt halt;
        struct cluster_node_progress node_progress;
        struct cluster_stage stage;
        struct cluster_commit commit;
        struct cluster_publish publish;
        struct cluster_release release;
        struct cluster_measure measure;
        struct cluster_measured measured;
        struct cluster_schedule schedule;
        struct cluster_measurement measurement;
    };
};

/* What a message takes at least, reckoned from the paths it lists alone: a list that is far too long need not be
 * encoded to be refused, which would keep a thread from its other work. */
size_t cluster_message_bytes_least(const struct cluster_message *message);
/* Says why a message of so many bytes cannot be sent, when at most bytes_max can, and what makes it smaller.
 * BASE_TOO_LARGE. */
enum base_status cluster_message_too_large(const struct cluster_message *message, size_t bytes, size_t bytes_max,
                                           struct base_error *error);

/* Frees what a decoded message owns, and zeroes it. The struct itself is the caller's. */
void cluster_message_free(struct cluster_message *message);

/* What a program exits with for a job's or a request's status: 0 success, 1 job failed, 3 cluster unreachable or
 * incomplete, 4 cancelled. */
int cluster_exit_code(enum base_status status);

#endif
