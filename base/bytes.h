/* Little-endian loads and stores at any alignment, and small arithmetic helpers. The wire is little-endian; so are the
 * hosts we run on. */
#ifndef MILLRACE_BASE_BYTES_H
#define MILLRACE_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "Millrace runs on little-endian hosts");

#define BASE_BYTES_ACCESSORS(bits)                                                                                     \
    static inline uint##bits##_t base_load_u##bits(const void *at)                                                     \
    {                                                                                                                  \
        uint##bits##_t value;                                                                                          \
        memcpy(&value, at, sizeof value);                                                                              \
        return value;                                                                                                  \
    }                                                                                                                  \
    static inline void base_store_u##bits(void *at, uint##bits##_t value)                                              \
    {                                                                                                                  \
        memcpy(at, &value, sizeof value);                                                                              \
    }

BASE_BYTES_ACCESSORS(16)
BASE_BYTES_ACCESSORS(32)
BASE_BYTES_ACCESSORS(64)
#undef BASE_BYTES_ACCESSORS

/* align is a power of two. */
static inline size_t base_align_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

static inline uint64_t base_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t base_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
