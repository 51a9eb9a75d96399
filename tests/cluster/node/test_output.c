/* What a node remembers of jobs' outputs, where several jobs leave something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cluster/node/output.h"

static char root[64];
static struct node_outputs outputs;

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/millrace-output-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    node_output_close(&outputs);
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command) == 0 ? 0 : -1;
}

/* "ROOT/name", of the last few calls. */
static char *path_of(const char *name)
{
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static bool exists(const char *name)
{
    struct stat about;
    return lstat(path_of(name), &about) == 0;
}

static void begin(uint64_t job, const char *directory, const char *files)
{
    struct join_plan plan = {.out = path_of(directory)};
    struct base_error error;
    snprintf(plan.files, sizeof plan.files, "%s", files);
    if (node_output_begin(&outputs, job, &plan, 0, 1, &error) != BASE_OK)
        fail_msg("%s", error.text);
}

/* Two coordinators number their jobs alike. What one of them left, and cannot be removed now, is no part of the other's
 * job. */
static void test_jobs_of_one_number(void **state)
{
    (void)state;
    struct base_error error;
    begin(1, "a", "job-1-a-1");
    assert_int_equal(mkdir(path_of("a/.attempt-job-1-a-1-part-00000.csv"), 0700), 0); /* no file: it cannot go */
    node_output_abort(&outputs, 1, 1000);
    const uint64_t again_ns = node_output_deadline_ns(&outputs);
    assert_true(again_ns != UINT64_MAX && again_ns > 1000);
    begin(1, "b", "job-1-b-2");
    uint64_t doubt[2];
    assert_int_equal(node_output_doubts(&outputs, doubt, 2), 1);
    assert_int_equal(node_output_stage(&outputs, 1, "{}\n", &error), BASE_OK);
    assert_true(node_output_staged(&outputs, 1));
    assert_int_equal(rmdir(path_of("a/.attempt-job-1-a-1-part-00000.csv")), 0);
    node_output_retry(&outputs, again_ns - 1);
    assert_true(exists("a"));
    node_output_retry(&outputs, again_ns);
    assert_false(exists("a"));
    assert_true(exists("b") && node_output_staged(&outputs, 1));
    assert_int_equal(node_output_deadline_ns(&outputs), UINT64_MAX);
    node_output_abort(&outputs, 1, again_ns);
    assert_false(exists("b"));
    assert_false(node_output_staged(&outputs, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_jobs_of_one_number, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
