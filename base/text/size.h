/* Checked arithmetic on sizes that come from files, peers and requests. A function returns false, and leaves its result
 * unchanged, where the true result does not fit. */
#ifndef MILLRACE_BASE_TEXT_SIZE_H
#define MILLRACE_BASE_TEXT_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool base_size_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    uint64_t made;
    if (__builtin_add_overflow(a, b, &made))
        return false;
    *sum = made;
    return true;
}

static inline bool base_size_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
    uint64_t made;
    if (__builtin_mul_overflow(a, b, &made))
        return false;
    *product = made;
    return true;
}

static inline bool base_size_narrow(uint64_t size, uint32_t *narrow)
{
    if (size > UINT32_MAX)
        return false;
    *narrow = (uint32_t)size;
    return true;
}

/* The same for estimates: what does not fit is UINT64_MAX. */
static inline uint64_t base_size_add_most(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t base_size_multiply_most(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

#endif
