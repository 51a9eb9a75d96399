/* The list of measures: what folds and the manual make of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/protocol/measure.h"
#include "tests/cluster/manual_block.h"

static void names_and_keys_are_unique(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++)
        for (uint32_t j = 0; j < i; j++) {
            const struct base_measure *a = cluster_measure(i), *b = cluster_measure(j);
            assert_string_not_equal(a->name, b->name);
            if (a->key && b->key)
                assert_string_not_equal(a->key, b->key);
        }
}

static void a_measure_is_shown_under_a_key_or_never(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++) {
        const struct base_measure *measure = cluster_measure(i);
        assert_int_equal(!measure->key, measure->shown == BASE_SHOWN_NEVER);
        assert_true(strlen(measure->about) > 5);
    }
}

/* The line that describes the measure at this place of the struct has this name. */
static void expect_line(size_t offset, const char *name)
{
    assert_string_equal(cluster_measure((uint32_t)(offset / sizeof(uint64_t)))->name, name);
}

static void a_field_is_its_line_of_the_list(void **state)
{
    (void)state;
    uint32_t fields = 0;
#define OWN(name, ...) expect_line(offsetof(struct cluster_measures, name), #name), fields++;
#define TASK(name, ...) expect_line(offsetof(struct cluster_measures, task.name), #name), fields++;
#define ENGINE(name, ...) expect_line(offsetof(struct cluster_measures, counters.name), #name), fields++;
    CLUSTER_MEASURE_LIST(OWN)
    JOIN_TASK_MEASURE_LIST(TASK)
    SHUFFLE_EXCHANGE_COUNTER_LIST(TASK)
    NET_COUNTER_LIST(ENGINE)
#undef OWN
#undef TASK
#undef ENGINE
    assert_int_equal(fields, CLUSTER_MEASURES);
}

static void shares_fold_as_the_list_says(void **state)
{
    (void)state;
    assert_int_equal(base_fold(BASE_FOLD_SUM, 3, 4), 7);
    assert_int_equal(base_fold(BASE_FOLD_MAX, 3, 4), 4);
    assert_int_equal(base_fold(BASE_FOLD_MAX, 4, 3), 4);
    assert_int_equal(base_fold(BASE_FOLD_MIN, 3, 4), 3);
    assert_int_equal(base_fold(BASE_FOLD_MIN, 4, 3), 3);
    assert_int_equal(base_fold(BASE_FOLD_MIN, 0, 4), 4);
    assert_int_equal(base_fold(BASE_FOLD_MIN, 4, 0), 4);
    assert_int_equal(base_fold(BASE_FOLD_NONE, 0, 4), 0);

    const struct cluster_measures one = {.exchange_ns = 5,
                                         .peak_memory_bytes = 10,
                                         .iowq_workers = 2,
                                         .task = {.rows = 1, .scan_begin_ns = 100, .stream_end_ns = 200},
                                         .counters.sends = 7};
    const struct cluster_measures two = {.exchange_ns = 6,
                                         .peak_memory_bytes = 9,
                                         .iowq_workers = 3,
                                         .task = {.rows = 2, .scan_begin_ns = 90, .stream_end_ns = 210},
                                         .counters.sends = 8};
    struct cluster_measures node = {0}, job = {0};
    cluster_measures_add_worker(&node, &one);
    cluster_measures_add_worker(&node, &two);
    assert_int_equal(node.task.rows, 3);
    assert_int_equal(node.task.scan_begin_ns, 90);
    assert_int_equal(node.task.stream_end_ns, 210);
    assert_int_equal(node.iowq_workers, 3); /* the process's: both workers see the same */
    assert_int_equal(node.peak_memory_bytes, 10);
    assert_int_equal(node.counters.sends, 15);
    cluster_measures_add_node(&job, &one);
    cluster_measures_add_node(&job, &two);
    assert_int_equal(job.iowq_workers, 5);
    assert_int_equal(job.exchange_ns, 6);
    assert_int_equal(job.task.scan_begin_ns, 0); /* clocks of two nodes have nothing in common */
}

/* The block of the manual that lists what is shown. */
static void print_manual(const void *context, FILE *to)
{
    (void)context;
    static const char *const where[] = {"", "job", "node", "job, node"};
    for (uint32_t i = 0; i < CLUSTER_MEASURES; i++) {
        const struct base_measure *measure = cluster_measure(i);
        if (measure->shown != BASE_SHOWN_NEVER)
            fprintf(to, ".It Cm %s Pq %s%s\n%s\n", measure->key, where[measure->shown],
                    measure->per_gib ? ", per GiB" : "", measure->about);
    }
}

static const char begin_mark[] =
    ".\\\" The list of measures, as MILLRACE_WRITE=1 test_cluster_protocol_measure wrote it\n";
static const char end_mark[] = ".\\\" End of the list of measures\n";

static void the_manual_lists_them(void **state)
{
    (void)state;
    manual_block_check(MILLRACE_MANUAL, begin_mark, end_mark, "the list of measures", print_manual, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_keys_are_unique),       cmocka_unit_test(a_measure_is_shown_under_a_key_or_never),
        cmocka_unit_test(a_field_is_its_line_of_the_list), cmocka_unit_test(shares_fold_as_the_list_says),
        cmocka_unit_test(the_manual_lists_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
