/* The holders of an engine's receive chunks. The engine says when a piece of one goes out (lend) and
 * net_chunk_release when it is back; a user that keeps a chunk beyond the call that brought it says so
 * (net_chunk_keep). Both cost one line of the cache. Inside net/ only. */
#ifndef MILLRACE_NET_ENGINE_HOLDERS_H
#define MILLRACE_NET_ENGINE_HOLDERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/status.h"

struct net_holder {
    const char *words; /* static, before the number; NULL: whoever got the event */
    uint32_t number;
    uint32_t pieces; /* of the chunk that are out; several where completions share chunks */
};

struct net_holders {
    struct net_holder *chunk; /* by the chunk's number */
    uint32_t count;
};

/* For `count` chunks, none of which is out. */
enum base_status net_holders_open(struct net_holders *holders, uint32_t count, struct base_error *error);
/* Logs every chunk that is out and who has it; aborts then, except in release builds. Returns how many are out. */
uint32_t net_holders_close(struct net_holders *holders, const char *engine);

static inline void net_holders_lend(struct net_holders *holders, uint32_t chunk)
{
    BASE_ASSERT(chunk < holders->count);
    holders->chunk[chunk].words = NULL;
    holders->chunk[chunk].pieces++;
}

static inline void net_holders_back(struct net_holders *holders, uint32_t chunk)
{
    BASE_ASSERT(chunk < holders->count && holders->chunk[chunk].pieces > 0); /* not released twice */
    holders->chunk[chunk].pieces--;
}

#endif
