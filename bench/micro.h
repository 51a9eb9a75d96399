/* bench_micro: single effects of io_uring, each shown by a table.
 *
 * An effect is a list of cases (a variant at a size) and a function that runs one case once and fills its figures. The
 * runner (micro.c) takes turns: a repetition runs all cases, so that a slow moment hits all of them alike, and prints
 * the median of every figure. */
#ifndef MILLRACE_BENCH_MICRO_H
#define MILLRACE_BENCH_MICRO_H

#include <liburing.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "net/engine/engine.h"

enum { MICRO_FIGURES_MAX = 6 };

struct micro_options {
    double scale;       /* of the work a case does; 1 is the default */
    const char *folder; /* for files */
    struct net_address
        *peer; /* a `bench_micro --serve' elsewhere that takes what is sent; NULL: a thread over loopback */
};

struct micro_figure {
    const char *name; /* also the JSON key; units in the name */
    int decimals;
};

struct micro_case {
    const char *variant;
    uint64_t size; /* 0: has none */
};

struct micro_effect {
    const char *word;      /* on the command line and in JSON */
    const char *title;     /* what is compared */
    const char *size_name; /* what a case's size is */
    struct micro_figure figure[MICRO_FIGURES_MAX];
    uint32_t figure_count;
    const struct micro_case *cases;
    uint32_t case_count;
    /* Runs one case once; fills figure_count figures. BASE_UNSUPPORTED: cannot be had here, the text says why. */
    enum base_status (*run)(const struct micro_case *one, const struct micro_options *options, double *figures,
                            struct base_error *error);
};

extern const struct micro_effect micro_batch, micro_taskrun, micro_zerocopy, micro_multishot, micro_sqpoll, micro_files;

/* CPU and wall time from begin to end: of the whole process (with its kernel threads), and of the calling thread. */
struct micro_meter {
    uint64_t wall_ns, process_user_ns, process_system_ns, thread_user_ns, thread_system_ns;
};
void micro_meter_begin(struct micro_meter *meter);
/* Turns the times at begin into the times passed. */
void micro_meter_end(struct micro_meter *meter);

/* A ring of `entries` with flags (plus SUBMIT_ALL, CLAMP). BASE_UNSUPPORTED with the cause when the kernel refuses. */
enum base_status micro_ring_open(uint32_t entries, uint32_t flags, struct io_uring *ring, struct base_error *error);
/* A kernel call's negative errno as an error that names what failed. */
enum base_status micro_failed(struct base_error *error, int result, const char *what);

/* A connected TCP pair over loopback; the caller closes both. */
enum base_status micro_pair(int ends[2], struct base_error *error);

/* Keeps the calling thread on one core (the first allowed) and returns the set of the others to *rest; false: there is
 * only one. micro_unpin gives back what was allowed before. */
bool micro_pin(cpu_set_t *before, cpu_set_t *rest);
void micro_unpin(const cpu_set_t *before);

/* A thread that sends or discards at one end of a connection until it is told to stop. */
struct micro_peer;
enum micro_peer_kind {
    MICRO_PEER_DISCARDS,  /* reads and drops all */
    MICRO_PEER_SENDS,     /* sends messages of `bytes` as fast as it can */
    MICRO_PEER_SENDS_SLOW /* sends a message of `bytes` every 50 us */
};
/* Takes over fd. cores: where the thread may run, or NULL. */
enum base_status micro_peer_start(enum micro_peer_kind kind, int fd, uint32_t bytes, const cpu_set_t *cores,
                                  struct micro_peer **started, struct base_error *error);
/* Ends the thread (at most 100 ms later) and closes its fd. */
void micro_peer_stop(struct micro_peer *peer);

#endif
