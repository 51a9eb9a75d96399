/* Inside the shell: its peers and itself. shell.c is the loop around the step, door.c lets peers in. */
#ifndef MILLRACE_CLUSTER_SHELL_INTERNAL_H
#define MILLRACE_CLUSTER_SHELL_INTERNAL_H

#include "cluster/coordinator/coordinator.h"
#include "cluster/link/link.h"
#include "cluster/shell/disk.h"
#include "cluster/shell/shell.h"

/* A caller proves the key, if there is one, and sends its hello within this, and a link that is to be closed gets its
 * last words out within it. */
#define SHELL_PATIENCE_NS (UINT64_C(2) * BASE_NS_PER_S)
/* A step asks for one record and one block of numbers at most (cluster/coordinator/coordinator.h). */
enum { SHELL_UNORDERED_MAX = 2 };

struct shell_peer {
    struct shell_peer *next;
    uint64_t id;
    struct cluster_link *link;
    uint32_t interest;
    bool hello;   /* said, so the step knows it */
    bool client;  /* as its hello says */
    bool closing; /* no more is heard; closes when flushed */
    bool failed;  /* could not be sent to; the step is told at the end of the round */
    bool dead;    /* to be freed at the end of the round */
    bool unsent;  /* unsent_event is for the step */
    bool more;    /* messages may lie in the link for which epoll says nothing */
    uint64_t patience_ns;
    uint64_t heard_ns; /* its last message */
    struct base_error error;
    struct cluster_event unsent_event;
};

struct shell {
    struct cluster_coordinator *coordinator;
    struct cluster_state *state;
    struct cluster_disk *disk;
    const struct net_key *key;
    int epoll_fd, listen_fd, signal_fd;
    struct shell_peer *peers;
    uint32_t peer_count, strangers_max, clients_max;
    uint32_t unsent_count; /* peers with an unsent_event */
    struct cluster_event unordered[SHELL_UNORDERED_MAX];
    uint32_t unordered_count;
    uint64_t next_id;
    uint64_t shut_until_ns;     /* 0: the listener is watched */
    uint64_t shut_told_ns;      /* when it was last logged that nobody can be let in; 0: never */
    uint64_t complaints_end_ns; /* of the second in which so many complaints were logged, and so many were not */
    uint32_t complaints, complaints_kept_back;
    bool stopped;
};

/* shell.c */
/* Lets go of a peer when what it was told is out, or after SHELL_PATIENCE_NS. */
void shell_peer_close(struct shell *shell, struct shell_peer *peer, uint64_t now_ns);

/* door.c */
/* How many may be here without having said hello, and how many clients: not so many that they take all descriptors. */
void shell_door_bounds(struct shell *shell);
/* Watches for those who want in, or for SHELL_SHUT_NS does not. */
void shell_door_open(struct shell *shell, bool open);
/* Lets in who waits. */
void shell_door_accept(struct shell *shell);
/* What a peer says first must be a hello that we understand; if not, it is told why, and false. */
bool shell_door_first(struct shell *shell, struct shell_peer *peer, enum base_status status,
                      const struct cluster_message *message, uint64_t now_ns);
/* At the end of a second: what was not said in it. */
void shell_door_turn(struct shell *shell, uint64_t now_ns);

#endif
