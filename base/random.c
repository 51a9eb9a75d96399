#include "base/random.h"

#include <math.h>

#include "base/assert.h"

void base_random_seed(struct base_random *random, uint64_t seed)
{
    random->state = seed;
}

uint64_t base_random_next(struct base_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return base_random_mix(random->state);
}

uint64_t base_random_below(struct base_random *random, uint64_t bound)
{
    BASE_ASSERT(bound > 0);
    /* The high half of a product is uniform once the few low halves that would favour some results are drawn again. */
    uint64_t unfair = -bound % bound;
    unsigned __int128 product;
    do {
        product = (unsigned __int128)base_random_next(random) * bound;
    } while ((uint64_t)product < unfair);
    return (uint64_t)(product >> 64);
}

bool base_random_chance(struct base_random *random, uint32_t numerator, uint32_t denominator)
{
    return base_random_below(random, denominator) < numerator;
}

static double unit_of(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double base_random_unit(struct base_random *random)
{
    return unit_of(base_random_next(random));
}

/* Rejection-inversion: the density h(x) = x^-s lies over the histogram of the probabilities, its integral H has a
 * closed form and so has the inverse. Draw u under the curve, take the integer nearest to H^-1(u), and accept it when u
 * falls into that integer's bar. Below 1 in 3 draws are rejected whatever the exponent and number of items. Both H and
 * its inverse are written with expm1 and log1p so that they stay exact through s = 1, where H is log. */

/* expm1(x) / x, and its limit 1 at 0. */
static double expm1_ratio(double x)
{
    return fabs(x) > 1e-8 ? expm1(x) / x : 1 + x / 2;
}

/* log1p(x) / x, and its limit 1 at 0. */
static double log1p_ratio(double x)
{
    return fabs(x) > 1e-8 ? log1p(x) / x : 1 - x / 2;
}

static double zipf_density(double exponent, double x)
{
    return exp(-exponent * log(x));
}

static double zipf_integral(double exponent, double x)
{
    double log_x = log(x);
    return expm1_ratio((1 - exponent) * log_x) * log_x;
}

static double zipf_integral_inverse(double exponent, double y)
{
    /* Rounding can push the argument past the pole of log1p. */
    double scaled = fmax(y * (1 - exponent), -1);
    return exp(log1p_ratio(scaled) * y);
}

void base_zipf_prepare(struct base_zipf *zipf, uint64_t items, double exponent)
{
    BASE_ASSERT(items > 0 && exponent > 0);
    double threshold = 2 - zipf_integral_inverse(exponent, zipf_integral(exponent, 2.5) - zipf_density(exponent, 2));
    *zipf = (struct base_zipf){
        .exponent = exponent,
        .h_integral_x1 = zipf_integral(exponent, 1.5) - 1,
        .h_integral_items = zipf_integral(exponent, (double)items + 0.5),
        .threshold = threshold,
        .items = items,
    };
}

uint64_t base_zipf_at(const struct base_zipf *zipf, uint64_t seed, uint64_t index)
{
    uint64_t row_seed = base_random_at(seed, index);
    for (uint64_t attempt = 0;; attempt++) {
        double unit = unit_of(base_random_at(row_seed, attempt));
        double u = zipf->h_integral_items + unit * (zipf->h_integral_x1 - zipf->h_integral_items);
        double x = zipf_integral_inverse(zipf->exponent, u);
        double nearest = fmin(fmax(floor(x + 0.5), 1), (double)zipf->items);
        if (nearest - x <= zipf->threshold ||
            u >= zipf_integral(zipf->exponent, nearest + 0.5) - zipf_density(zipf->exponent, nearest))
            return (uint64_t)nearest;
    }
}
