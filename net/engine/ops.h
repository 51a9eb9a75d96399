/* The table an engine fills. Inside net/ only: users call net/engine/engine.h, which checks the arguments and jumps
 * through it. */
#ifndef MILLRACE_NET_ENGINE_OPS_H
#define MILLRACE_NET_ENGINE_OPS_H

#include "net/engine/engine.h"
#include "net/engine/holders.h"

/* Every engine's struct begins with this. */
struct net_engine {
    const struct net_engine_ops *ops;
    struct net_counters counters;
    uint64_t now_ns;
    const char *name;           /* static: the rung's word, or "sim" */
    uint32_t features;          /* in force: bits of enum net_feature */
    uint32_t missing;           /* asked for and not to be had */
    uint32_t chunk_count;       /* whoever holds fewer pieces goes on receiving; 0 until it is open: as configured */
    struct net_holders holders; /* of chunks */
    char features_text[256];
    struct base_error failure;     /* what broke it; status BASE_OK: nothing */
    char reason[NET_REASON_BYTES]; /* what of the choice is not in force, and why; empty: all is */
};

/* Every engine's socket struct begins with this. */
struct net_socket {
    struct net_engine *engine;
    void *context;
};

/* All slots are filled; net_engine_open asserts it. Meanings: the functions of the same name in net/engine/engine.h. */
struct net_engine_ops {
    enum base_status (*enable)(struct net_engine *, struct base_error *);
    void (*close)(struct net_engine *);
    enum base_status (*adopt)(struct net_engine *, int fd, void *context, struct net_socket **, struct base_error *);
    enum base_status (*accept)(struct net_socket *, struct base_error *);
    enum base_status (*connect)(struct net_engine *, const struct net_address *, uint64_t deadline_ns, void *context,
                                struct net_socket **, struct base_error *);
    enum base_status (*receive)(struct net_socket *, struct base_error *);
    enum base_status (*send)(struct net_socket *, struct net_send_op *);
    void (*shutdown)(struct net_socket *);
    void (*socket_close)(struct net_socket *, bool abort);
    int (*descriptor)(const struct net_socket *); /* the kernel's, or -1 */
    void (*chunk_release)(struct net_engine *, const struct net_chunk *);
    enum base_status (*file_submit)(struct net_engine *, struct net_file_op *);
    void (*memory_register)(struct net_engine *, void *memory, size_t bytes);
    void (*memory_unregister)(struct net_engine *, void *memory);
    void (*wake)(struct net_engine *);
    uint32_t (*poll)(struct net_engine *, struct net_event *, uint32_t max, uint64_t wait_ns);
};

/* For engines to which memory is memory. */
void net_engine_memory_ignore(struct net_engine *, void *memory, size_t bytes);
void net_engine_memory_forget(struct net_engine *, void *memory);

/* Writes features_text: the features in force, then settings. */
void net_engine_describe(struct net_engine *engine, const char *settings);
/* The features that an engine on io_uring is to have: chosen for this job, or the rung's, and the options. */
uint32_t net_engine_wanted(const struct net_engine_choice *choice, const struct net_engine_config *config);
/* Adds to what net_engine_reason says. */
void net_engine_note(struct net_engine *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Takes a feature out of force because the kernel, a policy or a limit does not allow it, for an operator to read. */
void net_engine_miss(struct net_engine *engine, enum net_feature feature, const char *why);
/* Takes features out of force that mean nothing without one that was just missed: no words of their own. */
void net_engine_miss_too(struct net_engine *engine, uint32_t features);

#endif
