/* The simulated network: all engines of a simulated cluster share one world with a seeded random stream and virtual
 * time, and take turns in one thread. It shortens and delays whatever the kernel may shorten and delay: short sends and
 * reads, any chunk boundary, a starved receive ring, late completions in any order across sockets, resets. The same
 * seed gives the same run.
 *
 * Addresses are virtual (any net_address); listeners are made with net_sim_listen instead of net_listen. Files are real
 * files, but completions are delayed and reordered, and a fault may fail them. */
#ifndef MILLRACE_NET_SIM_SIM_H
#define MILLRACE_NET_SIM_SIM_H

#include "net/engine/engine.h"

struct net_sim_world;

struct net_sim_config {
    uint64_t seed;
    uint32_t delay_max_ns;        /* every completion is late by up to this much; 0: none */
    uint32_t socket_buffer_bytes; /* bytes in flight per direction; at least 1 */
    uint32_t short_percent;       /* chance that a transfer ends at a random byte */
    uint32_t starve_percent;      /* chance that a receive is held back as if no chunk were free */
    uint32_t reset_after_bytes; /* 0: never; else some socket is reset about when the world has moved this many bytes */
    uint32_t file_error_after;  /* 0: never; else file operation number N fails with ENOSPC (writes) or EIO */
    uint32_t busy_percent; /* chance that a send or file operation finds the queue full, until the engine's next poll */
};

enum base_status net_sim_world_open(const struct net_sim_config *config, struct net_sim_world **world,
                                    struct base_error *error);
/* All engines must be closed. */
void net_sim_world_close(struct net_sim_world *world);
/* An engine of this world; the limits in config are honoured, what tunes a kernel is ignored. Beyond the contract of
 * net/engine/engine.h it asserts that nobody touches a buffer of an operation in flight, and overwrites the buffers of
 * released chunks, of reads in flight and the segments of finished sends. */
enum base_status net_sim_engine_open(struct net_sim_world *world, const struct net_engine_config *config,
                                     struct net_engine **engine, struct base_error *error);
/* A listener in the world at *bound (the world picks a free port when it is 0), to be given to net_socket_adopt. *fd is
 * a number that means something only inside this world. Errors: BASE_EXISTS, BASE_NO_MEMORY. */
enum base_status net_sim_listen(struct net_sim_world *world, const struct net_address *address, int *fd,
                                struct net_address *bound, struct base_error *error);
/* What close(fd) is to a real listener: connections nobody accepted are reset, later ones refused. No socket may have
 * it adopted. Listeners still open go with the world. */
void net_sim_listener_close(struct net_sim_world *world, int fd);
/* What socketpair is to real engines: two connected ends, to be given to net_socket_adopt. */
enum base_status net_sim_pair(struct net_sim_world *world, int fds[2], struct base_error *error);

/* Moves virtual time to the next thing that is due and lets it happen, at most to limit_ns. False when nothing is
 * pending anywhere: with every worker idle that is a deadlock, and the test says so; a limit other than
 * NET_WAIT_FOREVER is reached all the same, so that the owner of a timer can pass its time. Poll first until no engine
 * has events: time does not wait for them. */
bool net_sim_advance(struct net_sim_world *world, uint64_t limit_ns);
uint64_t net_sim_now_ns(const struct net_sim_world *world);
/* A hash of every event delivered so far and its time: equal seeds give equal traces. */
uint64_t net_sim_trace(const struct net_sim_world *world);

#endif
