/* A small cluster in one thread for the tests of mesh and exchange: nodes of several workers over the simulated
 * network, each worker sending numbered rows through one or two exchanges into a sink that checks and counts them. */
#ifndef MILLRACE_TESTS_SHUFFLE_MESH_MESH_RIG_H
#define MILLRACE_TESTS_SHUFFLE_MESH_MESH_RIG_H

#include "base/random.h"
#include "net/sim/sim.h"
#include "shuffle/exchange/exchange.h"

enum { RIG_WORKERS_MAX = 8, RIG_NODES_MAX = 8, RIG_EXCHANGES_MAX = 2, RIG_CELL_BYTES_MAX = 200000 };

struct rig_config {
    uint64_t seed;
    uint32_t nodes, workers; /* dealt evenly; a node's are contiguous */
    uint32_t exchanges;
    const char *schema; /* key int64 or string, further columns of any kind */
    uint32_t rows;      /* per worker and exchange */
    uint32_t frame_bytes, frames_per_lane, mailbox_frames;
    uint32_t chunk_bytes, chunk_count;
    uint32_t cell_bytes; /* of variable columns: up to this */
    uint32_t sink_busy_percent;
    uint32_t flush_percent;
    uint64_t memory_bytes; /* per node; 0: no limit */
    bool image, verify, drop_some, late_open;
    bool takes_cut_rows;             /* the sinks take rows in pieces */
    bool calls_late;                 /* the test calls rig_connect for each worker */
    uint8_t secret[RIG_WORKERS_MAX]; /* number of the cluster's key that a worker has; 0: none */
    struct net_sim_config sim;       /* seed is set from seed */
};

struct rig_sink {
    struct shuffle_sink base;
    struct rig_worker *worker;
    const struct shuffle_layout *layout;
    const struct shuffle_key *key;
    uint64_t rows, digest;
    uint64_t cut_rows, cut_key_bytes; /* rows that came in pieces; bytes of their keys that an edge cut */
    bool saw_pinned;
    bool forgiving;             /* takes rows that belong to another worker */
    enum base_status fail_with; /* not OK: what consume says */
};

struct rig_worker {
    struct rig *rig;
    uint32_t number, node;
    struct net_engine *engine;
    int listener_fd;
    struct net_key *secret;
    struct shuffle_mesh *mesh;
    struct shuffle_exchange *exchange[RIG_EXCHANGES_MAX];
    struct rig_sink sink[RIG_EXCHANGES_MAX];
    uint32_t next_row[RIG_EXCHANGES_MAX];
    struct rig_batch *batch; /* being appended */
    uint32_t cursor;
    bool finished[RIG_EXCHANGES_MAX];
    struct base_error error; /* the first */
};

struct rig {
    struct rig_config config;
    struct base_random random;
    struct net_sim_world *world;
    struct base_governor *governor[RIG_NODES_MAX];
    struct shuffle_mailroom *mailroom[RIG_NODES_MAX];
    struct shuffle_schema schema;
    struct shuffle_layout layout;
    struct shuffle_key key;
    struct net_address address[RIG_WORKERS_MAX];
    const char *node_name[RIG_WORKERS_MAX];
    struct rig_worker worker[RIG_WORKERS_MAX];
    uint64_t rows_sent[RIG_EXCHANGES_MAX], digest_sent[RIG_EXCHANGES_MAX];
    bool absent[RIG_WORKERS_MAX]; /* workers that are not opened at all */
};

/* Two workers on two nodes, which send no rows of their own. */
extern const struct rig_config rig_two_nodes;

/* Memory for a rig; rig_close frees it. */
struct rig *rig_new(void);
/* Worlds, engines, meshes; connecting is started. */
void rig_open(struct rig *rig, const struct rig_config *config);
/* As rig_open for the workers that are not absent. */
void rig_open_some(struct rig *rig, const struct rig_config *config, const bool *absent);
void rig_exchanges_open(struct rig *rig, uint32_t number);
void rig_connect(struct rig *rig, uint32_t number);
/* One turn of one worker; true when something moved. Errors are kept in worker->error. */
bool rig_turn(struct rig *rig, uint32_t worker);
/* Turns until `done` or nothing can move. False: a worker failed, or nothing moves and it is not done (a deadlock). */
bool rig_run(struct rig *rig, bool (*done)(struct rig *rig));
bool rig_all_done(struct rig *rig);
bool rig_all_connected(struct rig *rig);
bool rig_failed(const struct rig *rig);
/* Compares what was sent with what the sinks have. */
void rig_check_answer(struct rig *rig);
/* Closes and frees everything; fails the test when something does not come home. */
void rig_close(struct rig *rig, bool abort);

uint64_t rig_digest(const uint8_t *row, uint64_t bytes);

#endif
