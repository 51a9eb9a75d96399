/* What AUTO and URING are made of for a job: a pure function of the traffic that is expected, of what was seen in
 * earlier jobs, and of what works here. Named rungs are never changed. */
#ifndef MILLRACE_NET_ENGINE_CHOOSE_H
#define MILLRACE_NET_ENGINE_CHOOSE_H

#include <stdint.h>

#include "net/engine/rung.h"

/* Receive chunks of a worker unless something speaks for others: 2 MiB in all, so that they stay in cache. */
enum { NET_CHUNK_BYTES = 64 << 10, NET_CHUNK_COUNT = 32 };

struct net_traffic {
    uint32_t row_bytes;                /* of a row that travels, about; 0: unknown */
    uint32_t frame_bytes;              /* of a message, when it is full */
    uint32_t connections;              /* of a worker */
    uint64_t connection_bytes;         /* expected on each; 0: unknown */
    uint32_t chunk_bytes, chunk_count; /* receive chunks that were asked for; 0: to be chosen */
};

/* Sums over earlier jobs on this node. */
struct net_experience {
    uint64_t zc_sends, zc_copied, zc_off; /* zero-copy sends, those copied all the same, connections that gave it up */
    uint32_t jobs;                        /* since these three began to be counted */
    uint64_t receives, received_bytes, receive_capacity_bytes; /* chunks, what was in them, what had room */
    uint64_t receive_starved;                                  /* receives that found no chunk */
};

enum { NET_CHOSEN_WHY_BYTES = 320 };
struct net_chosen {
    uint32_t features; /* bits of enum net_feature */
    uint32_t chunk_bytes, chunk_count;
    char why[NET_CHOSEN_WHY_BYTES]; /* a sentence for the report */
};

/* Of AUTO and URING features and sentence are chosen, within what the choice's options need; of a named rung features
 * are 0 and the sentence is "". missing: bits of enum net_feature that were tried here and do not work. */
void net_choose(const struct net_engine_choice *choice, const struct net_traffic *traffic,
                const struct net_experience *experience, uint32_t missing, struct net_chosen *chosen);
/* Call it once per job. What was received loses half of its weight, so that the sums follow the traffic. What zero-copy
 * sends came to is a property of the paths to the peers; it is forgotten after NET_EXPERIENCE_JOBS, so that a path that
 * copies (a peer on the same machine) does not speak for all others for ever. */
enum { NET_EXPERIENCE_JOBS = 64 };
void net_experience_age(struct net_experience *experience);

#endif
