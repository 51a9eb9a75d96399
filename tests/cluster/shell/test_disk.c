/* The thread that writes the coordinator's files: decisions become durable, and are told of one by one. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cluster/shell/disk.h"

enum { LIMIT_MS = 120 * 1000 }; /* only a hang waits for so long */

static _Thread_local int callocs_left = INT_MAX; /* of this thread, before memory is out */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left == 0)
        return NULL;
    callocs_left--;
    return __real_calloc(count, size);
}

static char folder[64];
static struct cluster_state *state_folder;
static struct cluster_disk *disk;

static int setup(void **state)
{
    (void)state;
    uint64_t first_job;
    struct base_error error;
    strcpy(folder, "/tmp/millrace-disk-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(cluster_state_open(folder, &state_folder, &first_job, &error), BASE_OK);
    assert_int_equal(cluster_disk_open(state_folder, &disk, &error), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    assert_true(cluster_disk_close(disk));
    cluster_state_close(state_folder);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return 0;
}

static void record(uint64_t job)
{
    struct shuffle_node node = {.name = "n1", .count = 1};
    struct cluster_decision decision = {.job = job,
                                        .out = "/somewhere",
                                        .extension = "csv",
                                        .text = "{}\n",
                                        .files = "7-00000000000000000000000000000000",
                                        .node_count = 1,
                                        .node = &node};
    struct base_error error;
    assert_int_equal(cluster_disk_record(disk, &decision, false, &error), BASE_OK);
}

static void expect_result(uint64_t job, enum base_status status)
{
    struct cluster_event event;
    struct pollfd ready = {.fd = cluster_disk_fd(disk), .events = POLLIN};
    do
        assert_int_equal(poll(&ready, 1, LIMIT_MS), 1);
    while (!cluster_disk_result(disk, &event));
    assert_int_equal(event.kind, CLUSTER_EVENT_RECORDED);
    assert_int_equal(event.job, job);
    assert_int_equal(event.error.status, status);
}

static bool is_there(uint64_t job)
{
    char path[96];
    struct stat info;
    snprintf(path, sizeof path, "%s/decision-%" PRIu64, folder, job);
    return stat(path, &info) == 0;
}

static void decisions_are_recorded_in_order(void **state)
{
    (void)state;
    for (uint64_t job = 1; job <= 20; job++)
        record(job);
    for (uint64_t job = 1; job <= 20; job++)
        expect_result(job, BASE_OK);
    struct cluster_event event;
    assert_false(cluster_disk_result(disk, &event));
    for (uint64_t job = 1; job <= 20; job++)
        assert_true(is_there(job));
    struct base_error error;
    assert_int_equal(cluster_disk_reserve(disk, &error), BASE_OK);
    struct pollfd ready = {.fd = cluster_disk_fd(disk), .events = POLLIN};
    do
        assert_int_equal(poll(&ready, 1, LIMIT_MS), 1);
    while (!cluster_disk_result(disk, &event));
    assert_int_equal(event.kind, CLUSTER_EVENT_RESERVED);
    assert_int_equal(event.error.status, BASE_OK);
    assert_true(event.job > 1);
    cluster_disk_forget(disk, 7);
    record(21); /* after what was ordered before */
    expect_result(21, BASE_OK);
    assert_false(is_there(7));
    assert_true(is_there(8));
}

static void a_failure_is_told(void **state)
{
    (void)state;
    struct shuffle_node node = {.name = "n1", .count = 1};
    struct cluster_decision decision = {.job = 5,
                                        .out = "/not\xffutf-8",
                                        .extension = "csv",
                                        .text = "{}\n",
                                        .files = "7-00000000000000000000000000000000",
                                        .node_count = 1,
                                        .node = &node};
    struct base_error error;
    assert_int_equal(cluster_disk_record(disk, &decision, false, &error), BASE_OK);
    expect_result(5, BASE_INVALID);
    assert_false(is_there(5));
}

/* Whoever orders hears of it at once, and nothing comes later. */
static void what_cannot_be_ordered_is_told_at_once(void **state)
{
    (void)state;
    struct shuffle_node node = {.name = "n1", .count = 1};
    struct cluster_decision decision = {
        .job = 6, .out = "/a", .extension = "csv", .text = "{}\n", .files = "7-0", .node_count = 1, .node = &node};
    struct base_error error;
    struct cluster_event event;
    for (int left = 0; left < 2; left++) { /* the order, and the copy in it */
        callocs_left = left;
        assert_int_equal(cluster_disk_record(disk, &decision, false, &error), BASE_NO_MEMORY);
        callocs_left = INT_MAX;
        assert_string_equal(error.text, "no memory to record the decision");
    }
    callocs_left = 0;
    assert_int_equal(cluster_disk_reserve(disk, &error), BASE_NO_MEMORY);
    callocs_left = INT_MAX;
    assert_false(cluster_disk_result(disk, &event));
    record(31);
    expect_result(31, BASE_OK);
    assert_false(is_there(6));
}

static void what_was_ordered_is_done_at_the_end(void **state)
{
    record(30);
    assert_true(cluster_disk_close(disk));
    assert_true(is_there(30));
    struct base_error error;
    assert_int_equal(cluster_disk_open(state_folder, &disk, &error), BASE_OK);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(decisions_are_recorded_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failure_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_ordered_is_told_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_ordered_is_done_at_the_end, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
