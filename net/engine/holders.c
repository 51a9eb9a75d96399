#include "net/engine/holders.h"

#include <stdlib.h>

#include "base/log.h"

enum { HOLDERS_TOLD_MAX = 16 }; /* lines; one mistake has mostly one holder */

enum base_status net_holders_open(struct net_holders *holders, uint32_t count, struct base_error *error)
{
    BASE_ASSERT(count > 0 && !holders->chunk);
    holders->chunk = calloc(count, sizeof *holders->chunk);
    if (!holders->chunk)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the holders of %u receive chunks", count);
    holders->count = count;
    return BASE_OK;
}

uint32_t net_holders_close(struct net_holders *holders, const char *engine)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < holders->count; i++) {
        const struct net_holder *holder = &holders->chunk[i];
        if (holder->pieces == 0)
            continue;
        if (out++ >= HOLDERS_TOLD_MAX)
            continue;
        if (holder->words)
            base_log_error("engine %s closes without receive chunk %u: it is held by %s %u", engine, i, holder->words,
                           holder->number);
        else
            base_log_error("engine %s closes without receive chunk %u: what took its event still holds it", engine, i);
    }
    if (out > 0)
        base_log_error("engine %s: %u of %u receive chunks were not released", engine, out, holders->count);
    free(holders->chunk);
    *holders = (struct net_holders){.count = 0};
    BASE_ASSERT_SLOW(out == 0);
    return out;
}
