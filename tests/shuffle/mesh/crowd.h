/* Others in the place of workers of a rig: each says a script of bytes, good or bad, on a connection of its own. */
#ifndef MILLRACE_TESTS_SHUFFLE_MESH_CROWD_H
#define MILLRACE_TESTS_SHUFFLE_MESH_CROWD_H

#include "shuffle/exchange/exchange.h"
#include "shuffle/frames/frame.h"
#include "shuffle/mesh/preamble.h"
#include "tests/shuffle/mesh/mesh_rig.h"

/* Bytes to be said. */
struct script {
    uint8_t bytes[20000];
    uint32_t count;
    uint64_t sequence;
    struct shuffle_lane_totals totals;
    bool checked;
};

/* Somebody on the network. */
enum after { STAY, FIN, RESET };
struct somebody {
    struct script script;
    enum after after;
    struct net_engine *engine;
    struct net_socket *socket;
    struct net_send_op op;
    bool connected, sent, ended, closed;
    uint64_t received_bytes;
};

enum { SOMEBODIES_MAX = 12 };
extern struct somebody *crowd[SOMEBODIES_MAX];
extern uint32_t crowd_count;

/* What a script says next. */
void say(struct script *script, const void *bytes, size_t count);
struct shuffle_preamble preamble_good(void);
void say_preamble(struct script *script);
struct shuffle_frame_header header_data(struct script *script, uint32_t rows, uint32_t bytes);
void say_frame(struct script *script, struct shuffle_frame_header header, const void *payload);
/* Rows of 16 bytes that belong to worker 1. */
void say_rows(struct script *script, struct rig *rig, uint32_t rows);
void say_end(struct script *script);

/* One more somebody, who calls this worker. */
void crowd_enter(struct rig *rig, uint32_t target);
/* Goals of rig_run. */
bool crowd_gone(struct rig *rig);
bool worker_1_received(struct rig *rig);
void crowd_leave(struct rig *rig);

extern const bool worker_0_absent[RIG_WORKERS_MAX];
/* Worker 1 alone, with worker 0 played by crowd[0], who has said hello. */
struct rig *stage_open(const struct rig_config *config);
void stage_close(struct rig *rig);
/* Plays and expects the error, with a text that names the peer's node; closes the stage. */
void expect_error(struct rig *rig, enum base_status status, const char *words);

#endif
