/* The list of what a step of a measurement counts: a line of it is a field, a fold, and a row of the manual. */
#include "cluster/bisect/measure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cluster/manual_block.h"

static void a_field_is_its_line_of_the_list(void **state)
{
    (void)state;
    uint32_t fields = 0;
#define FIELD(field, ...)                                                                                              \
    assert_string_equal(                                                                                               \
        cluster_bisect_measure[offsetof(struct cluster_bisect_measures, field) / sizeof(uint64_t)].name, #field);      \
    fields++;
    CLUSTER_BISECT_MEASURE_LIST(FIELD)
#undef FIELD
    assert_int_equal(fields, CLUSTER_BISECT_MEASURES);
    for (uint32_t i = 0; i < CLUSTER_BISECT_MEASURES; i++) {
        const struct base_measure *measure = &cluster_bisect_measure[i];
        assert_int_equal(!measure->key, measure->shown == BASE_SHOWN_NEVER);
        assert_true(strlen(measure->about) > 5);
    }
}

static void shares_fold_as_the_list_says(void **state)
{
    (void)state;
    const struct cluster_bisect_measures first = {
        .received_bytes = 1, .sent_bytes = 2, .verified_bytes = 3, .cpu_user_ns = 4, .cpu_system_ns = 5};
    const struct cluster_bisect_measures second = {
        .received_bytes = 10, .sent_bytes = 20, .verified_bytes = 30, .cpu_user_ns = 40, .cpu_system_ns = 50};
    struct cluster_bisect_measures node = {.retransmits = 7, .mtu = 9000}, total = {0};
    cluster_bisect_measures_add_worker(&node, &first);
    cluster_bisect_measures_add_worker(&node, &second);
    assert_int_equal(node.received_bytes, 11);
    assert_int_equal(node.sent_bytes, 22);
    assert_int_equal(node.verified_bytes, 33);
    assert_int_equal(node.cpu_user_ns, 44);
    assert_int_equal(node.cpu_system_ns, 55);
    assert_int_equal(node.retransmits, 7);
    assert_int_equal(node.mtu, 9000);

    cluster_bisect_measures_add_node(&total, &node);
    cluster_bisect_measures_add_node(
        &total, &(struct cluster_bisect_measures){.retransmits = 3, .mtu = 1500, .segment_bytes = 5});
    cluster_bisect_measures_add_node(&total, &(struct cluster_bisect_measures){.received_bytes = 100});
    assert_int_equal(total.received_bytes, 111);
    assert_int_equal(total.retransmits, 10);
    assert_int_equal(total.mtu, 1500); /* the smallest that is known */
    assert_int_equal(total.segment_bytes, 5);

    /* One node that does not know makes the sum unknown, whatever comes after it. */
    const struct cluster_bisect_measures blind = {.retransmits = BASE_MEASURE_UNKNOWN};
    cluster_bisect_measures_add_node(&total, &blind);
    cluster_bisect_measures_add_node(&total, &node);
    assert_true(total.retransmits == BASE_MEASURE_UNKNOWN);
    assert_int_equal(total.received_bytes, 122);
}

static const char begin_mark[] = ".\\\" What a step counts, as MILLRACE_WRITE=1 test_cluster_bisect_measure wrote it\n";
static const char end_mark[] = ".\\\" End of what a step counts\n";

static void print_manual(const void *context, FILE *to)
{
    (void)context;
    for (uint32_t i = 0; i < CLUSTER_BISECT_MEASURES; i++) {
        const struct base_measure *measure = &cluster_bisect_measure[i];
        if (measure->shown != BASE_SHOWN_NEVER)
            fprintf(to, ".It Cm %s\n%s%s%s\n", measure->key, measure->about,
                    measure->per_gib ? "; per GiB received in " : "", measure->per_gib ? measure->per_gib : "");
    }
}

static void the_manual_lists_them(void **state)
{
    (void)state;
    manual_block_check(MILLRACE_MANUAL, begin_mark, end_mark, "what a step counts", print_manual, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_is_its_line_of_the_list),
        cmocka_unit_test(shares_fold_as_the_list_says),
        cmocka_unit_test(the_manual_lists_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
