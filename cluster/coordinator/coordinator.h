/* The coordinator: knows the nodes, queues jobs, runs one at a time, lends morsels, collects reports.
 *
 * It is a pure step: an event and the time go in, actions come out, and nothing is kept but in the coordinator itself.
 * Sockets, clocks, files, randomness and the log are the shell's (shell/shell.c); tests drive the same step with
 * virtual time and scripted nodes. */
#ifndef MILLRACE_CLUSTER_COORDINATOR_COORDINATOR_H
#define MILLRACE_CLUSTER_COORDINATOR_COORDINATOR_H

#include "base/log.h"
#include "cluster/protocol/liveness.h"
#include "cluster/protocol/message.h"

/* Nodes have this long to let go of a job (giving back a hundred gigabytes takes its time); one that has not is taken
 * for lost. The client does not wait as long: it gets its report when all have let go, or after CLUSTER_REPORT_NS. */
#define CLUSTER_RELEASE_NS (UINT64_C(5) * BASE_NS_PER_S)
#define CLUSTER_REPORT_NS (UINT64_C(600) * BASE_NS_PER_MS)
/* Waits for nodes whose hearts beat: to look at sources, make workers ready, connect and rename parts. Generous, since
 * file systems may be slow; a node that takes longer is taken for lost. */
#define CLUSTER_PREPARE_NS (UINT64_C(1800) * BASE_NS_PER_S)
#define CLUSTER_CONNECT_NS (UINT64_C(120) * BASE_NS_PER_S)
#define CLUSTER_RESOLVE_NS (UINT64_C(120) * BASE_NS_PER_S)
#define CLUSTER_COMMIT_NS (UINT64_C(60) * BASE_NS_PER_S)
/* A decided job whose node cannot publish its parts: for how long its client waits while that is tried again, and after
 * what time the decision is given up when no node finds the directory any more. */
#define CLUSTER_PATIENCE_NS (UINT64_C(5) * BASE_NS_PER_S)
#define CLUSTER_GONE_NS (UINT64_C(3600) * BASE_NS_PER_S)

/* Job numbers are reserved in blocks; the next is asked for when so many of a block are left. */
enum { CLUSTER_JOBS_PER_BLOCK = 100000, CLUSTER_JOBS_LOW = 1000 };

struct cluster_coordinator;

struct cluster_coordinator_config {
    uint32_t nodes_expected; /* jobs run only when so many are here; 0: with whoever is here */
    uint64_t first_job;      /* number of the first job; numbers never come back, also after a restart */
    const char *state_id;    /* of the state folder; goes into the names of files; NULL: none; borrowed */
    void (*random)(void *context, uint8_t *bytes, size_t count); /* for tokens: unguessable outside of tests */
    void *random_context;
};

/* A decision to publish a job's output. Once recorded it stands: what a lost node has not renamed it renames when it is
 * back. */
struct cluster_decision {
    uint64_t job;
    char *out, *extension;
    char *files; /* what the job's files are called after */
    char *text;  /* of _SUCCESS.json */
    uint32_t node_count;
    struct shuffle_node *node;
};
void cluster_decision_free(struct cluster_decision *decision);
enum base_status cluster_decision_copy(const struct cluster_decision *from, struct cluster_decision *to,
                                       struct base_error *error);

enum cluster_event_kind {
    CLUSTER_EVENT_MESSAGE,  /* peer, message */
    CLUSTER_EVENT_LOST,     /* peer: its connection ended, error says how */
    CLUSTER_EVENT_UNSENT,   /* the message `unsent` of `job` to peer cannot be sent, error says why; others can */
    CLUSTER_EVENT_RECORDED, /* the decision of `job` is on disk, or error says why not; unknown: or perhaps it is */
    CLUSTER_EVENT_RESERVED, /* job is the first of a new block of numbers, or error says why there is none */
    CLUSTER_EVENT_TICK,     /* time has passed; only after all messages that had arrived by then */
    CLUSTER_EVENT_STOP      /* end the running job and then say CLUSTER_ACTION_STOPPED */
};

struct cluster_event {
    enum cluster_event_kind kind;
    uint64_t peer, job;
    struct cluster_message *message; /* the step may take parts of it over; the caller frees the rest */
    enum cluster_message_kind unsent;
    struct base_error error;
    bool unknown;
};

enum cluster_action_kind {
    CLUSTER_ACTION_SEND,    /* message to peer */
    CLUSTER_ACTION_CLOSE,   /* peer, after what was sent; no event mentions it again */
    CLUSTER_ACTION_RECORD,  /* make decision durable, then say RECORDED; it stays valid until then; once in a step */
    CLUSTER_ACTION_FORGET,  /* the decision of `job` has been carried out by all */
    CLUSTER_ACTION_RESERVE, /* a block of job numbers, then say RESERVED */
    CLUSTER_ACTION_LOG,     /* line, for the operator's log: the step itself logs nothing */
    CLUSTER_ACTION_STOPPED
};

struct cluster_log_line {
    enum base_log_level level;
    char text[BASE_ERROR_TEXT_BYTES + 256];
};

struct cluster_action {
    enum cluster_action_kind kind;
    uint64_t peer, job;
    const struct cluster_decision *decision;
    bool again; /* RECORD: the last try ended as unknown */
    bool owned; /* the message owns what it points to (the coordinator frees it) */
    union {
        struct cluster_message message; /* SEND */
        struct cluster_log_line line;   /* LOG */
    };
};

enum base_status cluster_coordinator_open(const struct cluster_coordinator_config *config,
                                          struct cluster_coordinator **coordinator, struct base_error *error);
void cluster_coordinator_close(struct cluster_coordinator *coordinator);
/* Gives back a decision recorded by an earlier life that was not carried out. Copied. Before the first step. */
enum base_status cluster_coordinator_restore(struct cluster_coordinator *coordinator,
                                             const struct cluster_decision *decision, struct base_error *error);
/* Peers are numbered by the caller, from 1, never twice. *actions are valid until the next step, and in order. An error
 * (out of memory) is the coordinator's end: its state can no longer be trusted. */
enum base_status cluster_coordinator_step(struct cluster_coordinator *coordinator, const struct cluster_event *event,
                                          uint64_t now_ns, const struct cluster_action **actions, uint32_t *count,
                                          struct base_error *error);
/* When the next TICK is due, at the latest; UINT64_MAX: never. */
uint64_t cluster_coordinator_deadline_ns(const struct cluster_coordinator *coordinator);
/* No job runs or waits. */
bool cluster_coordinator_idle(const struct cluster_coordinator *coordinator);

#endif
