/* The mesh as an exchange sees it: it attaches itself, and sends its lanes' frames. */
#ifndef MILLRACE_SHUFFLE_MESH_LANES_H
#define MILLRACE_SHUFFLE_MESH_LANES_H

#include "shuffle/frames/memory.h"
#include "shuffle/mesh/mesh.h"

uint32_t shuffle_mesh_worker(const struct shuffle_mesh *mesh);
uint32_t shuffle_mesh_workers(const struct shuffle_mesh *mesh);
struct net_engine *shuffle_mesh_engine(const struct shuffle_mesh *mesh);
enum base_status shuffle_mesh_attach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange,
                                     struct base_error *error);
void shuffle_mesh_detach(struct shuffle_mesh *mesh, struct shuffle_exchange *exchange);
/* Queues a sealed frame; shuffle_frame_home is called when it is done with. */
void shuffle_mesh_send(struct shuffle_mesh *mesh, struct shuffle_frame *frame);
/* Starts what can be started of what was queued. Never fails: what is refused stays due. */
void shuffle_mesh_kick(struct shuffle_mesh *mesh);

#endif
