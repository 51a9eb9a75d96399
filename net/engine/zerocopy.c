#include "net/engine/zerocopy.h"

#include <stdatomic.h>

#include "base/log.h"
#include "net/engine/ops.h"

bool net_zerocopy_wanted(const struct net_zerocopy *zerocopy, size_t bytes)
{
    return !zerocopy->off && bytes >= NET_ZEROCOPY_BYTES_MIN;
}

/* Counted every time, said once in a process: a cluster has thousands of connections over the same path. */
static void zerocopy_off(struct net_engine *engine, struct net_zerocopy *zerocopy, atomic_flag *said, const char *why)
{
    if (engine->features & NET_FEATURE_ZC_ALWAYS)
        return;
    zerocopy->off = true;
    engine->counters.zc_off++;
    if (!atomic_flag_test_and_set(said))
        base_log_info("zero-copy send switched off: %s", why);
}

void net_zerocopy_told(struct net_engine *engine, struct net_zerocopy *zerocopy, uint32_t sends, bool copied)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    zerocopy->refused = 0;
    if (!copied) {
        zerocopy->copied = 0;
        return;
    }
    engine->counters.zc_copied += sends;
    zerocopy->copied += sends;
    if (!zerocopy->off && zerocopy->copied >= NET_ZEROCOPY_COPIED_MAX)
        zerocopy_off(engine, zerocopy, &said, "the kernel copies on this path (loopback, veth, ...)");
}

void net_zerocopy_refused(struct net_engine *engine, struct net_zerocopy *zerocopy, bool outstanding)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;

    if (outstanding || zerocopy->off)
        return;
    if (++zerocopy->refused >= NET_ZEROCOPY_REFUSED_MAX)
        zerocopy_off(engine, zerocopy, &said,
                     "the kernel has no memory to account for it: raise ulimit -l, or net.core.optmem_max");
}

void net_zerocopy_unsupported(struct net_zerocopy *zerocopy)
{
    zerocopy->off = true;
}
