/* The network card that carries an address, and what it says about itself. */
#ifndef MILLRACE_CLUSTER_CARD_H
#define MILLRACE_CLUSTER_CARD_H

#include "cluster/bisect.h"
#include "net/engine.h"

/* Fills *card; what cannot be found stays empty or 0. A virtual card's rate is made up by its driver and counts as
 * unknown. */
void cluster_card_find(const struct net_address *address, struct cluster_card *card);

#endif
