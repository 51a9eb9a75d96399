/* The coordinator's shell: sockets, time, randomness and the state folder around the pure step. */
#ifndef MILLRACE_CLUSTER_SHELL_SHELL_H
#define MILLRACE_CLUSTER_SHELL_SHELL_H

#include "net/engine/engine.h"
#include "net/proof/key.h"

struct cluster_shell_config {
    struct net_address listen;
    const char *state_folder;
    uint32_t nodes_expected;   /* 0: any */
    const struct net_key *key; /* that nodes and clients must have; NULL: none; borrowed */
    bool open_to_all;          /* no key is wanted */
};

/* Runs until SIGTERM or SIGINT (BASE_OK: all jobs ended, nodes told) or an error. */
enum base_status cluster_shell_run(const struct cluster_shell_config *config, struct base_error *error);

#endif
