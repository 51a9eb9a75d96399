#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/text/size.h"

/* used is the sum of holders at rest; while another thread draws the two may differ. The budget is
 * enforced on used alone. */
struct base_governor {
    uint64_t budget_bytes;
    _Atomic uint64_t used_bytes;
    _Atomic uint64_t peak_bytes;
    _Atomic uint64_t holder_bytes[BASE_HOLDER_COUNT];
    _Atomic uint64_t expected_bytes[BASE_HOLDER_COUNT]; /* what holders said they will need in all */
};

const char *base_holder_words(enum base_holder holder)
{
    static const char *const words[] = {
#define X(name, words) [BASE_HOLDER_##name] = words,
        BASE_HOLDER_LIST(X)
#undef X
    };
    return (unsigned)holder < BASE_HOLDER_COUNT ? words[holder] : "unknown holder";
}

enum base_status base_governor_open(uint64_t budget_bytes, struct base_governor **governor, struct base_error *error)
{
    struct base_governor *opened = calloc(1, sizeof *opened);
    if (!opened)
        return base_error_set(error, BASE_NO_MEMORY, "no memory for the memory governor itself");
    opened->budget_bytes = budget_bytes;
    *governor = opened;
    return BASE_OK;
}

void base_governor_close(struct base_governor *governor)
{
    if (!governor)
        return;
    for (unsigned holder = 0; holder < BASE_HOLDER_COUNT; holder++) {
        uint64_t bytes = base_governor_holder_bytes(governor, holder);
        if (bytes)
            base_log_warn("memory governor closed while %s still hold %" PRIu64 " bytes", base_holder_words(holder),
                          bytes);
    }
    free(governor);
}

static enum base_holder largest_holder(const struct base_governor *governor)
{
    enum base_holder largest = 0;
    for (unsigned holder = 1; holder < BASE_HOLDER_COUNT; holder++) {
        if (base_governor_holder_bytes(governor, holder) > base_governor_holder_bytes(governor, largest))
            largest = holder;
    }
    return largest;
}

/* What all holders need, as far as they said it or have it, with `bytes` more for `holder`. */
static uint64_t needed_bytes(const struct base_governor *governor, enum base_holder asking, uint64_t bytes)
{
    uint64_t needed = 0;
    for (unsigned holder = 0; holder < BASE_HOLDER_COUNT; holder++) {
        const uint64_t held =
            base_size_add_most(base_governor_holder_bytes(governor, holder), holder == asking ? bytes : 0);
        const uint64_t expected = atomic_load_explicit(&governor->expected_bytes[holder], memory_order_relaxed);
        needed = base_size_add_most(needed, base_max_u64(held, expected));
    }
    return needed;
}

enum base_status base_governor_refuse(const struct base_governor *governor, enum base_holder holder, uint64_t bytes,
                                      struct base_error *error)
{
    const enum base_holder largest = largest_holder(governor);
    const uint64_t held = base_governor_holder_bytes(governor, largest), used = base_governor_used_bytes(governor);
    const uint64_t needed = needed_bytes(governor, holder, bytes);
    char most[128] = "";
    if (held > 0)
        snprintf(most, sizeof most, "%s have most, %" PRIu64 " of the %" PRIu64 " bytes in use; ",
                 base_holder_words(largest), held, used);
    return base_error_set(error, BASE_NO_MEMORY,
                          "the memory budget of %" PRIu64 " bytes does not suffice: %s%s need %" PRIu64
                          " bytes more, which makes %s %" PRIu64
                          " in all: raise --memory of millraced node or use more nodes",
                          governor->budget_bytes, most, base_holder_words(holder), bytes,
                          needed > base_size_add_most(used, bytes) ? "about" : "at least", needed);
}

void base_governor_expect(struct base_governor *governor, enum base_holder holder, uint64_t bytes, bool end)
{
    BASE_ASSERT((unsigned)holder < BASE_HOLDER_COUNT);
    atomic_fetch_add_explicit(&governor->expected_bytes[holder], end ? 0 - bytes : bytes, memory_order_relaxed);
}

static void peak_raise(struct base_governor *governor, uint64_t used_bytes)
{
    uint64_t peak = atomic_load_explicit(&governor->peak_bytes, memory_order_relaxed);
    while (used_bytes > peak && !atomic_compare_exchange_weak_explicit(&governor->peak_bytes, &peak, used_bytes,
                                                                       memory_order_relaxed, memory_order_relaxed)) {
    }
}

enum base_status base_governor_draw(struct base_governor *governor, enum base_holder holder, uint64_t bytes,
                                    struct base_error *error)
{
    BASE_ASSERT((unsigned)holder < BASE_HOLDER_COUNT);
    uint64_t limit = governor->budget_bytes ? governor->budget_bytes : UINT64_MAX;
    uint64_t used = atomic_load_explicit(&governor->used_bytes, memory_order_relaxed);
    do {
        if (used > limit || bytes > limit - used)
            return base_governor_refuse(governor, holder, bytes, error);
    } while (!atomic_compare_exchange_weak_explicit(&governor->used_bytes, &used, used + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    atomic_fetch_add_explicit(&governor->holder_bytes[holder], bytes, memory_order_relaxed);
    peak_raise(governor, used + bytes);
    return BASE_OK;
}

void base_governor_return(struct base_governor *governor, enum base_holder holder, uint64_t bytes)
{
    BASE_ASSERT((unsigned)holder < BASE_HOLDER_COUNT);
    uint64_t held = atomic_fetch_sub_explicit(&governor->holder_bytes[holder], bytes, memory_order_relaxed);
    BASE_ASSERT(held >= bytes);
    atomic_fetch_sub_explicit(&governor->used_bytes, bytes, memory_order_relaxed);
}

uint64_t base_governor_used_bytes(const struct base_governor *governor)
{
    return atomic_load_explicit(&governor->used_bytes, memory_order_relaxed);
}

uint64_t base_governor_peak_bytes(const struct base_governor *governor)
{
    return atomic_load_explicit(&governor->peak_bytes, memory_order_relaxed);
}

uint64_t base_governor_budget_bytes(const struct base_governor *governor)
{
    return governor->budget_bytes;
}

uint64_t base_governor_holder_bytes(const struct base_governor *governor, enum base_holder holder)
{
    BASE_ASSERT((unsigned)holder < BASE_HOLDER_COUNT);
    return atomic_load_explicit(&governor->holder_bytes[holder], memory_order_relaxed);
}

void base_governor_peak_reset(struct base_governor *governor)
{
    atomic_store_explicit(&governor->peak_bytes, base_governor_used_bytes(governor), memory_order_relaxed);
}
