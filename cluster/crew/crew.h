/* The crew: a node's worker threads, and the thin shell that lets each worker take its turns. The control thread gives
 * the crew a plan and orders; the crew answers each order once for all its workers, or with the first error. Threads,
 * engines and listeners outlive jobs.
 *
 * All functions are for the control thread. Answers are read with cluster_crew_poll when cluster_crew_fd is readable.
 */
#ifndef MILLRACE_CLUSTER_CREW_CREW_H
#define MILLRACE_CLUSTER_CREW_CREW_H

#include "cluster/bisect/bisect.h"
#include "cluster/crew/place.h"
#include "cluster/protocol/work.h"
#include "net/engine/choose.h"

struct cluster_crew;

struct cluster_crew_config {
    uint32_t workers;
    struct base_governor *governor;  /* of the node; borrowed */
    struct net_address listen;       /* host part for the workers' data listeners (port 0 each) */
    struct net_engine_choice engine; /* to begin with */
    bool pin;                        /* each worker to a core of its own when there are enough */
    struct cluster_place place;
    const struct net_key *key; /* of the cluster; NULL: none; borrowed */
};

/* Starts the threads and listeners. */
enum base_status cluster_crew_open(const struct cluster_crew_config *config, struct cluster_crew **crew,
                                   struct base_error *error);
/* Aborts what runs, ends the threads. */
void cluster_crew_close(struct cluster_crew *crew);
/* What cluster_place_describe says of a worker. */
void cluster_crew_place(const struct cluster_crew *crew, uint32_t worker, char text[CLUSTER_PLACE_TEXT_BYTES]);
/* Data address of each worker (as many as workers); the crew's. */
const struct net_address *cluster_crew_addresses(const struct cluster_crew *crew);
/* Of the engine in use: a copy, because a worker may be opening another one. */
struct cluster_crew_engine {
    char name[32], features[256];
    char reason[NET_REASON_BYTES];       /* what of the choice could not be had and why; "": nothing */
    char decision[NET_CHOSEN_WHY_BYTES]; /* what it was made of and why; "" for a named rung */
};
void cluster_crew_engine(struct cluster_crew *crew, struct cluster_crew_engine *engine);

/* Orders. A plan is owned by the crew from prepare to CLOSED (taken over also on error). Each is answered by an event
 * of that step, or FAILED. */
/* morsel_capacity[side]: morsels the whole relation has. survey[side]: this node's share to survey comes with
 * cluster_crew_lend_survey. */
enum base_status cluster_crew_prepare(struct cluster_crew *crew, struct cluster_plan *plan, uint32_t first_worker,
                                      const uint64_t morsel_capacity[2], const bool survey[2],
                                      struct base_error *error);
/* Gives morsels to survey; end says that no more come. Then cluster_crew_survey starts it -> SURVEYED. */
enum base_status cluster_crew_lend_survey(struct cluster_crew *crew, uint32_t side,
                                          const struct shuffle_morsel *morsels, uint64_t count, bool end,
                                          struct base_error *error);
enum base_status cluster_crew_survey(struct cluster_crew *crew, struct base_error *error);
/* Result of the survey of morsel `index`; after SURVEYED. */
const struct shuffle_survey *cluster_crew_surveyed(const struct cluster_crew *crew, uint32_t side, uint64_t index);
enum base_status cluster_crew_connect(struct cluster_crew *crew, struct base_error *error);
/* Gives morsels to scan; may come before and during the pass. */
enum base_status cluster_crew_lend(struct cluster_crew *crew, uint32_t side, const struct shuffle_morsel *morsels,
                                   uint64_t count, bool end, struct base_error *error);
/* Limits the side's morsels (shuffle_morsel_queue_limit) -> HALTED when those before are scanned. */
enum base_status cluster_crew_halt(struct cluster_crew *crew, uint32_t side, uint64_t morsel, struct base_error *error);
enum base_status cluster_crew_start(struct cluster_crew *crew, uint32_t pass, struct base_error *error);
/* A measurement: one step of it -> MEASURED, or the last order -> FINISHED. The order is taken over (also on error). */
enum base_status cluster_crew_measure(struct cluster_crew *crew, struct cluster_measure *order,
                                      struct base_error *error);
/* What the step came to, summed over the workers; after MEASURED and until the next order. Its arrays are the crew's;
 * connections and cards are not looked at here. */
const struct cluster_measured *cluster_crew_measured(const struct cluster_crew *crew);
/* Ends the job, however it stands -> CLOSED, always, in bounded time; everything it held is freed. */
void cluster_crew_release(struct cluster_crew *crew, bool abort);

/* What cluster_crew_poll tells. */
enum cluster_crew_event_kind {
    CLUSTER_CREW_STEP,  /* step was reached by all workers */
    CLUSTER_CREW_LOW,   /* side's queue runs low: lend more */
    CLUSTER_CREW_FAULT, /* error of the input, in that morsel of the side; another may follow, of an earlier one */
    CLUSTER_CREW_FAILED /* error; again in a job only when it is of a better rank */
};
struct cluster_crew_event {
    enum cluster_crew_event_kind kind;
    enum cluster_step_kind step;
    uint32_t side;
    uint32_t worker; /* FAILED: local number */
    uint64_t morsel; /* FAULT */
    struct base_error error;
};
/* Level-triggered eventfd, for the control thread's epoll. */
int cluster_crew_fd(const struct cluster_crew *crew);
/* False when there is none. */
bool cluster_crew_poll(struct cluster_crew *crew, struct cluster_crew_event *event);

/* Rows scanned so far by all workers. */
uint64_t cluster_crew_progress_rows(const struct cluster_crew *crew);

/* Rows of the side that were left out: after SEALED for the side of pass 0, after FINISHED for both, until the next
 * job is prepared. NULL: none. */
const struct shuffle_rejects *cluster_crew_rejects(const struct cluster_crew *crew, uint32_t side);
/* What the crew did for the job, from FINISHED until the next job is prepared, or from CLOSED: sums over the workers;
 * link bytes per destination and source node (node_count entries, caller's). CPU times are the worker threads' since
 * prepare. Of a job that failed it is what had been done. */
void cluster_crew_work(const struct cluster_crew *crew, struct cluster_work *work, uint64_t *sent_bytes,
                       uint64_t *received_bytes);

#endif
