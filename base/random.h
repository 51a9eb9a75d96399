/* Seeded random numbers. Two kinds: a stream (for simulations) and a counter form (for generated rows), in which the
 * value of row i depends on (seed, i) alone, so that any worker can produce any row.
 * Sources: SplitMix64 (Steele, Lea, Flood 2014); Zipf by rejection-inversion (Hoermann, Derflinger 1996). */
#ifndef MILLRACE_BASE_RANDOM_H
#define MILLRACE_BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct base_random {
    uint64_t state;
};

void base_random_seed(struct base_random *random, uint64_t seed);
uint64_t base_random_next(struct base_random *random);
/* Uniform in [0, bound), unbiased; bound > 0. */
uint64_t base_random_below(struct base_random *random, uint64_t bound);
/* True with probability numerator/denominator. */
bool base_random_chance(struct base_random *random, uint32_t numerator, uint32_t denominator);
/* Uniform in [0, 1) with 53 bits. */
double base_random_unit(struct base_random *random);

/* The 64-bit finaliser of SplitMix64: a bijection. */
static inline uint64_t base_random_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

/* Value number `index` of the counter form. */
static inline uint64_t base_random_at(uint64_t seed, uint64_t index)
{
    return base_random_mix(seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

/* Zipf distribution over 1..items with exponent s > 0 (also s = 1). */
struct base_zipf {
    double exponent, h_integral_x1, h_integral_items, threshold;
    uint64_t items;
};

void base_zipf_prepare(struct base_zipf *zipf, uint64_t items, double exponent);
/* The sample of row `index`: depends on (zipf, seed, index) alone. */
uint64_t base_zipf_at(const struct base_zipf *zipf, uint64_t seed, uint64_t index);

#endif
