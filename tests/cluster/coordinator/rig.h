/* A cluster around the coordinator's step, in virtual time: scripted nodes and clients, and a network that keeps the
 * order of each connection but nothing else. Every message goes through the codec, so nobody shares memory. */
#ifndef MILLRACE_TESTS_CLUSTER_COORDINATOR_RIG_H
#define MILLRACE_TESTS_CLUSTER_COORDINATOR_RIG_H

#include "base/random.h"
#include "cluster/coordinator/coordinator.h"

enum { RIG_NODES_MAX = 8, RIG_CLIENTS_MAX = 64, RIG_MORSELS_MAX = 4096, RIG_JOBS_MAX = 128, RIG_PEERS_MAX = 4096 };
enum { RIG_FLOW_BYTES = 1000 }; /* that every flow of a measurement brings */
enum { RIG_LOG_MAX = 64 };      /* lines that are kept, the last ones */
enum { RIG_ROWS_SCANNED = 5 };  /* by every node whose job ends before it finished */

struct rig_message {
    struct rig_message *next;
    uint64_t due_ns, peer;
    bool to_coordinator;
    bool end; /* the connection ends here; no message */
    uint8_t *bytes;
    size_t count;
};

/* A node as the coordinator should see one. It checks what it is told against what it knows. */
struct rig_node {
    char name[16];
    uint64_t control, beat; /* peers; 0: not connected */
    uint64_t incarnation;
    bool dead;         /* its process is gone */
    uint64_t stuck_ns; /* what its beats say */
    bool stopped;      /* it hears and says nothing, its connections stand */
    uint64_t beat_ns, hello_ns;
    uint64_t job; /* it holds; 0: none */
    uint32_t number;
    bool prepared, finished, staged;
    uint32_t measured; /* steps of the job */
    uint32_t doubt_count;
    uint64_t doubt[RIG_JOBS_MAX];
    bool committed[RIG_JOBS_MAX], published[RIG_JOBS_MAX], aborted[RIG_JOBS_MAX];
    uint32_t pass;
    uint64_t orders[CLUSTER_MESSAGE_COUNT];          /* how often it was told what */
    bool mute[CLUSTER_MESSAGE_COUNT];                /* orders it does not answer */
    enum base_status fail_at[CLUSTER_MESSAGE_COUNT]; /* answers FAILED with this */
    uint64_t lent[2], surveyed;
};

struct rig_client {
    uint64_t peer;
    uint64_t job;
    uint32_t steps, measurements; /* of a bisect: at most, and told so far */
    uint32_t cuts;
    uint8_t first_cut[RIG_NODES_MAX]; /* the half of each node in it */
    bool reported, refused;
    uint64_t reported_ns;
    struct cluster_message report;
    struct cluster_message list; /* the last of nodes or jobs that it was given */
};

struct rig {
    struct cluster_coordinator *coordinator;
    struct base_random random;
    uint64_t now_ns, latency_ns_max, next_peer;
    struct rig_message *messages;
    uint32_t node_count;
    struct rig_node node[RIG_NODES_MAX];
    uint32_t client_count;
    struct rig_client client[RIG_CLIENTS_MAX];
    uint64_t recorded; /* last job */
    bool decided[RIG_JOBS_MAX], unsure[RIG_JOBS_MAX], forgotten[RIG_JOBS_MAX];
    bool closed[RIG_PEERS_MAX];
    enum base_status record_status;
    bool record_unknown; /* with a status: it may be on disk all the same */
    bool record_pending;
    bool record_late; /* nothing is said of it until rig_recorded */
    uint32_t records; /* how often was asked for one */
    uint32_t records_in_step_max;
    bool reserve_pending;
    uint32_t reserves;
    enum base_status reserve_status;
    uint64_t reserve_first;
    struct shuffle_file file[RIG_NODES_MAX]; /* that a source with a path has, on each node; its schema is of gen: */
    const char *column_name;                 /* of the second column of every source; NULL: as generated */
    bool too_large[CLUSTER_MESSAGE_COUNT];   /* what the coordinator cannot send */
    struct cluster_log_line log[RIG_LOG_MAX];
    uint32_t logged; /* ever */
    bool stopped;
    uint8_t seen[2][RIG_MORSELS_MAX]; /* how often each morsel of the running job was lent */
    uint64_t seen_job;
    uint64_t jobs_run; /* RESOLVEs of distinct jobs */
};

void rig_open(struct rig *rig, uint64_t seed, uint32_t nodes, uint32_t expected);
void rig_close(struct rig *rig);
/* Tells the coordinator how the last recording went. */
void rig_recorded(struct rig *rig);
/* Was a line of that level with these words logged? */
bool rig_logged(const struct rig *rig, enum base_log_level level, const char *words);
/* Passes time: delivers what is due, beats hearts, ticks. */
void rig_run(struct rig *rig, uint64_t ns);
/* Until the condition holds; false after ns. */
bool rig_until(struct rig *rig, bool (*condition)(struct rig *), uint64_t ns);
/* Until node `node` has been told `kind` once more. */
bool rig_until_told(struct rig *rig, uint32_t node, enum cluster_message_kind kind, uint64_t ns);

void rig_node_start(struct rig *rig, uint32_t node);
void rig_node_kill(struct rig *rig, uint32_t node);
void rig_node_stop(struct rig *rig, uint32_t node);
void rig_node_continue(struct rig *rig, uint32_t node);
/* It has not heard of the coordinator for too long: lets go of its job, and comes again. */
void rig_node_give_up(struct rig *rig, uint32_t node);
void rig_node_say(struct rig *rig, uint32_t node, const struct cluster_message *message);
void rig_peer_say(struct rig *rig, uint64_t peer, const struct cluster_message *message);

struct rig_client *rig_client(struct rig *rig);
struct rig_client *rig_submit(struct rig *rig, const struct cluster_submit *submit);
void rig_client_leave(struct rig *rig, struct rig_client *client);
void rig_client_say(struct rig *rig, struct rig_client *client, const struct cluster_message *message);

/* "join gen gen" with morsels, and "shuffle gen --out". */
struct cluster_submit rig_join(void);
struct cluster_submit rig_shuffle_out(void);
struct cluster_submit rig_bisect(void);

bool rig_is_idle(struct rig *rig);
bool rig_is_complete(struct rig *rig);

#endif
