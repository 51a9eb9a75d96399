/* The machine below a node, as far as a measurement of the network wants to know it: the card that carries an address,
 * and how busy the processors are. */
#ifndef MILLRACE_CLUSTER_NODE_CARD_H
#define MILLRACE_CLUSTER_NODE_CARD_H

#include "cluster/bisect/bisect.h"
#include "net/engine/engine.h"

/* Fills *card; what cannot be found stays empty or 0. A virtual card's rate is made up by its driver and counts as
 * unknown. */
void cluster_card_find(const struct net_address *address, struct cluster_card *card);

/* What the machine's processors have done since it started, whoever kept them busy, in ticks; zero when /proc does not
 * tell. */
struct cluster_host_time {
    uint64_t busy, idle;
    uint32_t processors;
};
void cluster_host_time(struct cluster_host_time *time);
uint32_t cluster_host_busy_permille(const struct cluster_host_time *from, const struct cluster_host_time *to);

#endif
