#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"

/* The published values of SplitMix64 for seed 1234567. */
static void the_stream_is_splitmix64(void **state)
{
    (void)state;
    static const uint64_t expected[] = {UINT64_C(0x599ed017fb08fc85), UINT64_C(0x2c73f08458540fa5),
                                        UINT64_C(0x883ebce5a3f27c77), UINT64_C(0x3fbef740e9177b3f),
                                        UINT64_C(0xe3b8346708cb5ecd)};
    struct base_random random;
    base_random_seed(&random, 1234567);
    for (size_t i = 0; i < 5; i++)
        assert_true(base_random_next(&random) == expected[i]);
}

static void the_counter_form_gives_the_stream_in_any_order(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 42);
    uint64_t stream[100];
    for (size_t i = 0; i < 100; i++)
        stream[i] = base_random_next(&random);
    for (size_t i = 100; i > 0; i--)
        assert_true(base_random_at(42, i - 1) == stream[i - 1]);
    assert_true(base_random_at(0, 0) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(base_random_at(43, 0) != base_random_at(42, 0));
}

static void below_stays_below_and_is_even(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    struct base_random random;
    base_random_seed(&random, 1);
    int counts[BOUND] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint64_t value = base_random_below(&random, BOUND);
        assert_true(value < BOUND);
        counts[value]++;
    }
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], DRAWS / BOUND - 500, DRAWS / BOUND + 500);
    assert_int_equal(base_random_below(&random, 1), 0);
}

/* A bound of 3/4 of 2^64 shows the bias of a plain multiply-shift: one result in three would come twice as often. */
static void below_is_unbiased_for_huge_bounds(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 2);
    uint64_t bound = UINT64_C(3) << 62;
    int thirds[3] = {0};
    for (int i = 0; i < 30000; i++)
        thirds[base_random_below(&random, bound) % 3]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(thirds[i], 9500, 10500);
}

static void chance_and_unit_have_their_means(void **state)
{
    (void)state;
    struct base_random random;
    base_random_seed(&random, 3);
    int hits = 0;
    double sum = 0;
    for (int i = 0; i < 40000; i++) {
        hits += base_random_chance(&random, 1, 4);
        double unit = base_random_unit(&random);
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
    }
    assert_in_range(hits, 9600, 10400);
    assert_true(fabs(sum / 40000 - 0.5) < 0.01);
    assert_false(base_random_chance(&random, 0, 5));
    assert_true(base_random_chance(&random, 5, 5));
}

/* Every bar of the histogram against the exact probability, within five standard deviations. */
static void zipf_has_its_shape(void **state)
{
    (void)state;
    enum { ITEMS = 50 };
    const double draws = 200000;
    static const double exponents[] = {0.25, 0.75, 0.999999, 1, 1.000001, 1.5, 3};
    for (size_t e = 0; e < sizeof exponents / sizeof exponents[0]; e++) {
        struct base_zipf zipf;
        base_zipf_prepare(&zipf, ITEMS, exponents[e]);
        int counts[ITEMS + 1] = {0};
        for (uint64_t i = 0; i < (uint64_t)draws; i++) {
            uint64_t value = base_zipf_at(&zipf, 99, i);
            assert_in_range(value, 1, ITEMS);
            counts[value]++;
        }
        double total = 0;
        for (int i = 1; i <= ITEMS; i++)
            total += pow(i, -exponents[e]);
        for (int i = 1; i <= ITEMS; i++) {
            double probability = pow(i, -exponents[e]) / total;
            double deviation = sqrt(draws * probability * (1 - probability));
            assert_true(fabs(counts[i] - draws * probability) < 5 * deviation + 1);
        }
    }
}

static void zipf_rows_depend_on_seed_and_index_alone(void **state)
{
    (void)state;
    static const uint64_t expected[] = {31,     651, 149,   53,  28,     1993, 1, 19,
                                        403051, 9,   91639, 672, 579303, 34,   8, 872568};
    struct base_zipf zipf;
    base_zipf_prepare(&zipf, 1000000, 1);
    for (size_t i = 16; i > 0; i--)
        assert_int_equal(base_zipf_at(&zipf, 7, i - 1), expected[i - 1]);
}

static void zipf_reaches_its_ends(void **state)
{
    (void)state;
    struct base_zipf zipf;
    base_zipf_prepare(&zipf, 1, 1.1);
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(base_zipf_at(&zipf, 5, i), 1);
    base_zipf_prepare(&zipf, 2, 0.1);
    bool seen[3] = {false};
    for (uint64_t i = 0; i < 100; i++)
        seen[base_zipf_at(&zipf, 5, i)] = true;
    assert_true(seen[1] && seen[2]);
    base_zipf_prepare(&zipf, UINT64_C(1) << 40, 0.5);
    for (uint64_t i = 0; i < 10000; i++)
        assert_in_range(base_zipf_at(&zipf, 5, i), 1, UINT64_C(1) << 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stream_is_splitmix64),
        cmocka_unit_test(the_counter_form_gives_the_stream_in_any_order),
        cmocka_unit_test(below_stays_below_and_is_even),
        cmocka_unit_test(below_is_unbiased_for_huge_bounds),
        cmocka_unit_test(chance_and_unit_have_their_means),
        cmocka_unit_test(zipf_has_its_shape),
        cmocka_unit_test(zipf_rows_depend_on_seed_and_index_alone),
        cmocka_unit_test(zipf_reaches_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
