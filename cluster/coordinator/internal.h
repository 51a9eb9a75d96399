/* Inside the coordinator: its state. coordinator.c knows peers and time, coordinator/queue.c who waits,
 * coordinator/job.c the phases of a job, coordinator/plan.c what it consists of, coordinator/bisect.c jobs that measure
 * the network, coordinator/report.c what is told about it. */
#ifndef MILLRACE_CLUSTER_COORDINATOR_INTERNAL_H
#define MILLRACE_CLUSTER_COORDINATOR_INTERNAL_H

#include "base/state.h"
#include "cluster/bisect/plan.h"
#include "cluster/coordinator/coordinator.h"

enum { COORDINATOR_HISTORY_MAX = 64, COORDINATOR_QUEUE_MAX = 256 };
/* While a failure may be the echo of a node's death, the end waits this long for the death to be noticed. */
#define COORDINATOR_ECHO_NS (UINT64_C(300) * BASE_NS_PER_MS)
#define COORDINATOR_PROGRESS_NS (UINT64_C(100) * BASE_NS_PER_MS)

/* A node is kept, as missing, after it is lost. */
struct coordinator_node {
    struct cluster_hello hello; /* owned */
    uint64_t peer;              /* control connection; 0: missing */
    uint64_t beat_peer;         /* heartbeats; 0: none yet */
    uint64_t heard_ns;          /* last beat, or the hello */
};

struct coordinator_client {
    uint64_t peer;
    struct coordinator_client *next;
};

/* What is remembered of a job for the list of jobs. */
struct coordinator_entry {
    uint64_t job;
    enum cluster_job_kind kind;
    enum cluster_job_state state;
    char words[192];
    char error[256];
    uint64_t rows;
    uint64_t since_ns, until_ns;
};

/* A node's part in the running job. */
struct run_node {
    struct coordinator_node *node; /* borrowed; nodes outlive jobs */
    uint64_t peer;
    bool lost;
    bool answered; /* what the present phase waits for */
    struct shuffle_relation relation[2];
    struct cluster_card card;           /* bisect */
    uint64_t lend_next[2], lend_end[2]; /* its own morsels when the source is local */
    bool ended[2];                      /* was told that no more morsels come */
    uint64_t progress_rows;
    bool halted; /* of a job whose input is at fault */
    bool reported;
    struct shuffle_rejects *rejects[2]; /* rows of each side that it has left out; NULL: none */
    struct cluster_step report;
};

struct coordinator_job {
    struct coordinator_job *next;
    uint64_t id;
    uint64_t client; /* peer; 0: gone */
    struct cluster_submit submit;
    struct base_state phase;         /* enum cluster_phase */
    enum cluster_phase failed_phase; /* from which it went to ABORT */
    uint64_t submitted_ns, started_ns, phase_since_ns;
    struct cluster_spans spans;
    /* set when it begins to run */
    uint32_t node_count;
    struct run_node *node;
    bool planned;
    struct cluster_plan plan;
    bool survey[2];
    struct shuffle_morsel *morsel[2];
    uint64_t morsel_count[2], morsel_next[2];
    uint32_t *local_first_file[2]; /* local sources: files [i], [i + 1]) are node i's */
    struct shuffle_survey *surveys[2];
    uint64_t survey_count[2];
    struct coordinator_bisect *bisect; /* of a measurement, once planned */
    uint64_t *live;                    /* jobs with a decision when it began: what they left is not to be removed */
    uint64_t live_count;
    bool recorded;  /* the decision may be on disk */
    bool committed; /* and is carried out */
    struct cluster_decision decision;
    struct base_error error; /* the first; BASE_OK: none */
    struct base_error fault; /* the earliest found in the input so far; BASE_OK: none */
    uint64_t fault_morsel;
    bool bad_request;
    bool explained;          /* error has all there is to say */
    uint64_t echo_until_ns;  /* ABORT: when the error can no longer be the echo of a death */
    uint64_t progress_ns;    /* last PROGRESS */
    uint64_t pause_ns;       /* how long the coordinator stood still while it ran; 0: never */
    uint64_t pause_until_ns; /* until then the loss of a node is put down to that */
};

/* What a node has carried out of a decision. */
struct coordinator_pending_node {
    bool committed, published;
    bool gone;                /* it does not find the directory */
    enum base_status failure; /* the last; counts while backoff_ns is not 0 */
    uint64_t retry_ns;        /* after a failure: when it is told again; 0: it was told, or is not here */
    uint64_t backoff_ns;      /* until then; 0: it has not failed since it last succeeded */
};

enum coordinator_pending_state {
    COORDINATOR_PENDING_DECIDED,
    COORDINATOR_PENDING_RECORDING, /* RECORD was asked for */
    COORDINATOR_PENDING_UNSURE,    /* it may be on disk; RECORD is asked for again */
    COORDINATOR_PENDING_STANDS,
    COORDINATOR_PENDING_STATE_COUNT
};

/* A decision that some node has not carried out. */
struct coordinator_pending {
    struct coordinator_pending *next;
    struct cluster_decision decision;
    struct base_state state; /* enum coordinator_pending_state */
    bool unsure;             /* a RECORD ended as unknown; also while it is asked for again */
    uint64_t record_ns;      /* UNSURE: when to ask again */
    struct coordinator_pending_node *node;
    uint64_t stuck_since_ns; /* when a node failed since which not all have done it; 0: none */
    struct base_error stuck;
    uint64_t gone_since_ns; /* all nodes say that they do not find the directory; 0: not all */
};

struct cluster_coordinator {
    struct cluster_coordinator_config config;
    uint64_t now_ns;
    uint64_t job_next, job_end; /* of the block of numbers in use */
    uint64_t job_block;         /* first number of the next block; 0: not reserved yet */
    bool reserving;
    uint64_t reserve_ns; /* not before this, after a failure */
    uint32_t node_count;
    struct coordinator_node **node; /* sorted by name */
    struct coordinator_client *clients;
    struct coordinator_job *run;   /* NULL: idle */
    struct coordinator_job *queue; /* in order of submission */
    uint32_t queue_count;
    struct coordinator_pending *pending;
    struct coordinator_entry history[COORDINATOR_HISTORY_MAX];
    uint64_t history_count; /* ever */
    bool stopping, stopped;
    struct cluster_action *action;
    uint32_t action_count, action_room;
    bool record_asked;          /* in this step */
    bool broken;                /* out of memory where the state cannot be kept */
    struct cluster_action lost; /* where actions go once it is broken; never read */
};

/* coordinator.c */
/* Appends an action; its message is zeroed but for kind and job. Never NULL: when memory is out the coordinator is
 * broken and the action is lost. */
struct cluster_action *coordinator_act(struct cluster_coordinator *c, enum cluster_action_kind kind, uint64_t peer);
struct cluster_message *coordinator_send(struct cluster_coordinator *c, uint64_t peer, enum cluster_message_kind kind,
                                         uint64_t job);
/* A line for the operator's log. */
void coordinator_log(struct cluster_coordinator *c, enum base_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes a node for lost: closes its connections, fails its job. */
void coordinator_lose_node(struct cluster_coordinator *c, struct coordinator_node *node, const char *how);
uint32_t coordinator_nodes_here(const struct cluster_coordinator *c);

/* coordinator/check.c */
/* What holds after every step, whatever happened in it; else it stops here, before anybody acts upon it. */
void coordinator_check(const struct cluster_coordinator *c);

/* coordinator/queue.c */
void coordinator_submit(struct cluster_coordinator *c, uint64_t client, struct cluster_submit *submit);
void coordinator_cancel(struct cluster_coordinator *c, struct coordinator_job *job, enum base_status status,
                        const char *text);
void coordinator_client_gone(struct cluster_coordinator *c, uint64_t client);
/* Begins the next job of the queue when nothing runs. */
void coordinator_next(struct cluster_coordinator *c);

/* coordinator/job.c */
/* The running job, whose nodes are taken, leaves the queue's phase. */
void coordinator_begin(struct cluster_coordinator *c);
/* The message of a node about a job. */
void coordinator_job_message(struct cluster_coordinator *c, struct coordinator_node *node,
                             struct cluster_message *message);
/* A message about a job cannot be sent to a node. False: the node cannot do without it. */
bool coordinator_job_unsent(struct cluster_coordinator *c, struct coordinator_node *node, uint64_t id,
                            enum cluster_message_kind kind, const struct base_error *error);
void coordinator_job_node_lost(struct cluster_coordinator *c, struct coordinator_node *node, const char *how);
/* Tells the client of the end, once. From then on it may come and go without meaning this job. */
void coordinator_tell_end(struct cluster_coordinator *c, struct coordinator_job *job);
/* Ends an aborted or released job when all nodes have let go of it. */
void coordinator_end_if_closed(struct cluster_coordinator *c);
void coordinator_job_free(struct coordinator_job *job);
/* Fails the running job, once; later errors may explain an earlier one. */
void coordinator_fail(struct cluster_coordinator *c, enum base_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* coordinator/job.c: which phase may follow which. */
extern const struct base_machine coordinator_phase_machine;

/* coordinator/deadline.c: how long a phase may take. */
bool coordinator_is_ending(const struct coordinator_job *job);
void coordinator_job_tick(struct cluster_coordinator *c);
uint64_t coordinator_job_deadline_ns(const struct cluster_coordinator *c);

/* coordinator/fault.c: input that cannot be read, and which of several errors is told. */
/* The reason that a node gives. Some reasons are not a node's to give: clients would take them for an end by their own
 * will or for another build. */
enum base_status coordinator_node_reason(enum base_status status);
/* Could this error be what others feel of a fault that we have not heard of? */
bool coordinator_is_echo(const struct base_error *error);
void coordinator_fault(struct cluster_coordinator *c, struct run_node *node, const struct cluster_fault *fault);
/* The node has scanned all before the fault, or is lost. */
void coordinator_fault_halted(struct cluster_coordinator *c, struct run_node *node);

/* coordinator/reject.c: bad rows that are left out. */
/* Takes over what a step says of them. */
void coordinator_reject_keep(struct run_node *node, struct cluster_step *step);
/* Are they as few as was allowed? Else the job has failed. */
bool coordinator_reject_few(struct cluster_coordinator *c);
/* Did each side have the rows that those who wrote it counted? Else the job has failed. */
bool coordinator_rows_complete(struct cluster_coordinator *c);
/* False: there is no memory. */
bool coordinator_reject_report(const struct coordinator_job *job, struct cluster_report *report);

/* coordinator/plan.c */
/* Compares what the nodes found and plans the job. On an error *bad_request says whether the request itself is wrong.
 */
enum base_status coordinator_plan(struct cluster_coordinator *c, struct coordinator_job *job, struct base_error *error);
/* The group of morsels of a side that a node gets next; borrowed from the job. */
void coordinator_lend(struct coordinator_job *job, uint32_t node, uint32_t side, uint32_t nodes_after,
                      struct cluster_lend *lend);
/* This node's share of the survey. */
void coordinator_survey_share(const struct coordinator_job *job, uint32_t node, uint32_t side,
                              struct cluster_lend *lend);
/* Keeps what a node found; once all have, coordinator_survey_apply turns it into morsels. */
enum base_status coordinator_survey_keep(struct coordinator_job *job, const struct cluster_surveyed *surveyed,
                                         struct base_error *error);
enum base_status coordinator_survey_apply(struct coordinator_job *job, struct base_error *error);
void coordinator_plan_free(struct coordinator_job *job);

/* coordinator/bisect.c: a job that measures the network. */
struct coordinator_bisect;
/* Makes the schedule and tells the client of it. */
enum base_status coordinator_bisect_plan(struct cluster_coordinator *c, struct coordinator_job *job,
                                         struct base_error *error);
/* Goes on to the next step; then coordinator_bisect_last says whether there was one. */
void coordinator_bisect_next(struct coordinator_job *job);
bool coordinator_bisect_last(const struct coordinator_job *job);
void coordinator_bisect_tell(struct cluster_coordinator *c, uint32_t node);
/* What a node saw in the step; once all have, coordinator_bisect_end tells the client and the schedule. */
enum base_status coordinator_bisect_measured(struct coordinator_job *job, uint32_t node,
                                             const struct cluster_measured *measured, struct base_error *error);
void coordinator_bisect_end(struct cluster_coordinator *c, struct coordinator_job *job);
void coordinator_bisect_free(struct coordinator_bisect *bisect);

/* coordinator/decision.c */
/* Fills the job's decision. */
enum base_status coordinator_decide(struct coordinator_job *job, struct base_error *error);

/* coordinator/publish.c: decisions and those who have not carried them out. */
void coordinator_pending_node(struct cluster_coordinator *c, struct coordinator_node *node);
/* COMMITTED, PUBLISHED or FAILED of a decision that stands; false: it is about none. */
bool coordinator_pending_message(struct cluster_coordinator *c, struct coordinator_node *node,
                                 const struct cluster_message *message);
/* Has the node of this name been told to commit or publish `job`, and not answered yet? */
bool coordinator_pending_waits(const struct cluster_coordinator *c, uint64_t job, const struct coordinator_node *node);
/* Does a node fail to publish its share of `job`, since when and why? error may be NULL. */
bool coordinator_pending_stuck(const struct cluster_coordinator *c, uint64_t job, uint64_t *since_ns,
                               struct base_error *error);
/* Asks for the decision to be recorded. Copied. */
enum base_status coordinator_pending_decide(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                            struct base_error *error);
/* A decision that was recorded by an earlier life. Copied. */
enum base_status coordinator_pending_restore(struct cluster_coordinator *c, const struct cluster_decision *decision,
                                             struct base_error *error);
void coordinator_recorded(struct cluster_coordinator *c, uint64_t id, bool unknown, const struct base_error *error);
/* Has the disk not said yet whether the decision is there? */
bool coordinator_pending_recording(const struct cluster_coordinator *c, uint64_t job);
bool coordinator_pending_has(const struct cluster_coordinator *c, uint64_t job);
void coordinator_pending_tick(struct cluster_coordinator *c);
uint64_t coordinator_pending_deadline_ns(const struct cluster_coordinator *c);
/* Numbers of all jobs that have a decision; malloc'ed. */
uint64_t *coordinator_pending_jobs(const struct cluster_coordinator *c, uint64_t *count);
void coordinator_pending_free(struct coordinator_pending *pending);

/* coordinator/report.c */
/* Where the time that a job spends in the phase counts. */
double *coordinator_phase_span(struct cluster_spans *spans, enum cluster_phase phase);
void coordinator_report_send(struct cluster_coordinator *c, struct coordinator_job *job);
void coordinator_progress_send(struct cluster_coordinator *c, struct coordinator_job *job);
void coordinator_nodes_send(struct cluster_coordinator *c, uint64_t peer);
void coordinator_jobs_send(struct cluster_coordinator *c, uint64_t peer);
void coordinator_remember(struct cluster_coordinator *c, const struct coordinator_job *job);

#endif
