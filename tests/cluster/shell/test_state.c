/* The coordinator's folder: numbers never come back, and nothing damaged or foreign is acted upon. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cluster/coordinator/internal.h"
#include "cluster/shell/state.h"

static char root[64], folder[80];

static int setup(void **unused)
{
    (void)unused;
    const char *temporary = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/millrace-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof folder, "%s/state", root);
    return 0;
}

static int remove_all(const char *path)
{
    DIR *listing = opendir(path);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        unlinkat(dirfd(listing), entry->d_name, 0);
    if (listing)
        closedir(listing);
    return remove(path);
}

static int teardown(void **unused)
{
    (void)unused;
    remove_all(folder);
    return remove_all(root);
}

static char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *bytes, size_t count)
{
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

/* In place: a file that is cut to be written again would be on the disk before it is closed. */
static void flip(const char *name, size_t bit)
{
    const int fd = open(path_of(name), O_RDWR);
    assert_true(fd >= 0);
    uint8_t byte;
    assert_int_equal(pread(fd, &byte, 1, (off_t)(bit / 8)), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(bit / 8)), 1);
    close(fd);
}

static void cut(const char *name, size_t length)
{
    assert_int_equal(truncate(path_of(name), (off_t)length), 0);
}

static size_t get(const char *name, char *bytes, size_t room)
{
    FILE *file = fopen(path_of(name), "r");
    assert_non_null(file);
    const size_t count = fread(bytes, 1, room, file);
    assert_in_range(count, 1, room - 1);
    fclose(file);
    return count;
}

static uint32_t entries(void)
{
    uint32_t count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    while (readdir(listing))
        count++;
    closedir(listing);
    return count - 2;
}

static uint64_t open_and_close(void)
{
    struct cluster_state *state;
    struct base_error error = {0};
    uint64_t first = 0;
    if (cluster_state_open(folder, &state, &first, &error) != BASE_OK)
        return 0;
    cluster_state_close(state);
    return first;
}

static struct cluster_state *open_state(void)
{
    struct cluster_state *state = NULL;
    struct base_error error = {0};
    uint64_t first;
    assert_int_equal(cluster_state_open(folder, &state, &first, &error), BASE_OK);
    return state;
}

static void random_bytes(void *context, uint8_t *bytes, size_t count)
{
    (void)context;
    memset(bytes, 7, count);
}

static struct cluster_coordinator *open_coordinator(void)
{
    const struct cluster_coordinator_config config = {.first_job = 1, .random = random_bytes};
    struct cluster_coordinator *coordinator;
    struct base_error error = {0};
    assert_int_equal(cluster_coordinator_open(&config, &coordinator, &error), BASE_OK);
    return coordinator;
}

static struct shuffle_node nodes[2] = {{.name = "n1", .first = 0, .count = 2}, {.name = "n2", .first = 2, .count = 3}};

static const struct cluster_decision decision = {.job = 7,
                                                 .out = (char *)(uintptr_t) "/data/out",
                                                 .extension = (char *)(uintptr_t) "csv",
                                                 .files = (char *)(uintptr_t) "job-7-0-1",
                                                 .text = (char *)(uintptr_t) "{\"rows\":12}\n",
                                                 .node_count = 2,
                                                 .node = nodes};

static void record(struct cluster_state *state)
{
    struct base_error error = {0};
    bool unknown = true;
    assert_int_equal(cluster_state_record(state, &decision, false, &unknown, &error), BASE_OK);
    assert_false(unknown);
}

static enum base_status restore(struct cluster_state *state, struct base_error *error)
{
    struct cluster_coordinator *coordinator = open_coordinator();
    const enum base_status status = cluster_state_restore(state, coordinator, error);
    if (status != BASE_OK)
        assert_null(coordinator->pending);
    cluster_coordinator_close(coordinator);
    return status;
}

static enum base_status try_open(char text[BASE_ERROR_TEXT_BYTES])
{
    struct cluster_state *state;
    struct base_error error = {0};
    uint64_t first;
    const enum base_status status = cluster_state_open(folder, &state, &first, &error);
    if (status == BASE_OK)
        cluster_state_close(state);
    memcpy(text, error.text, BASE_ERROR_TEXT_BYTES);
    return status;
}

/* ---- numbers ---- */

static void test_numbers_never_return(void **unused)
{
    (void)unused;
    assert_int_equal(open_and_close(), 1);
    assert_int_equal(open_and_close(), 100001);
    struct cluster_state *state = open_state();
    struct base_error error = {0};
    uint64_t first;
    assert_int_equal(cluster_state_reserve(state, &first, &error), BASE_OK);
    assert_int_equal(first, 300001);
    assert_int_equal(strlen(cluster_state_id(state)), 16);
    char id[CLUSTER_STATE_ID_BYTES];
    memcpy(id, cluster_state_id(state), sizeof id);
    cluster_state_close(state);
    assert_int_equal(open_and_close(), 400001);
    state = open_state();
    assert_string_equal(cluster_state_id(state), id);
    cluster_state_close(state);
}

static void test_every_flipped_bit_of_the_epoch(void **unused)
{
    (void)unused;
    open_and_close();
    char whole[256];
    const size_t count = get("epoch", whole, sizeof whole);
    for (size_t bit = 0; bit < 8 * count; bit++) {
        flip("epoch", bit);
        struct cluster_state *state;
        struct base_error error = {0};
        uint64_t first;
        assert_int_equal(cluster_state_open(folder, &state, &first, &error), BASE_PARSE);
        assert_non_null(strstr(error.text, "/epoch"));
        assert_non_null(strstr(error.text, "larger than"));
        flip("epoch", bit);
    }
    for (size_t length = count; length-- > 0;) {
        cut("epoch", length);
        assert_int_equal(open_and_close(), 0);
    }
    put("epoch", whole, count);
    assert_int_equal(open_and_close(), 100001);
}

/* What version 0.1.0 wrote, and what a person writes who mends a damaged one. */
static void test_an_epoch_written_by_hand(void **unused)
{
    (void)unused;
    open_and_close();
    static const char *const bad[] = {
        "-1\n", "-1", "12345678901234567890\n", "99999999999999\n", "1 2\n", "7x\n", "\n", "x", "+3\n", "7\n\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put("epoch", bad[i], strlen(bad[i]));
        assert_int_equal(open_and_close(), 0);
    }
    put("epoch", "41\n", 3);
    assert_int_equal(open_and_close(), 4100001);
    assert_int_equal(open_and_close(), 4200001);
    put("epoch", "9", 1);
    assert_int_equal(open_and_close(), 900001);
}

/* Also without any decision: jobs have had numbers, which must not come back. A first start that could not write its
 * epoch hands out none, and is no reason to refuse the next. */
static void test_a_lost_epoch(void **unused)
{
    (void)unused;
    char text[BASE_ERROR_TEXT_BYTES];
    assert_int_equal(open_and_close(), 1);
    assert_int_equal(unlink(path_of("epoch")), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(try_open(text), BASE_PARSE);
        assert_non_null(strstr(text, "/epoch is missing though job numbers were handed out here"));
        assert_non_null(strstr(text, "write a number there that is larger than"));
    }
    put("epoch", "41\n", 3); /* as we said */
    assert_int_equal(open_and_close(), 4100001);
    assert_int_equal(unlink(path_of("epoch")), 0);
    assert_int_equal(unlink(path_of("lock")), 0); /* the folder was emptied: a new one */
    assert_int_equal(open_and_close(), 1);
    /* Version 0.1.0 wrote nothing into the lock. */
    put("lock", "", 0);
    assert_int_equal(open_and_close(), 100001);
    assert_int_equal(unlink(path_of("epoch")), 0);
    assert_int_equal(open_and_close(), 0);
}

static void test_a_first_start_that_fails(void **unused)
{
    (void)unused;
    struct rlimit before, small;
    char text[BASE_ERROR_TEXT_BYTES];
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const enum base_status status = try_open(text);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_TOO_LARGE);
    assert_int_equal(open_and_close(), 1);
}

static void test_a_lost_epoch_beside_decisions(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    record(state);
    cluster_state_close(state);
    assert_int_equal(unlink(path_of("epoch")), 0);
    assert_int_equal(open_and_close(), 0);
}

/* ---- decisions ---- */

static void test_decision(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    struct base_error error = {0};
    record(state);
    record(state); /* once more, when nobody knew */
    struct cluster_coordinator *coordinator = open_coordinator();
    assert_int_equal(cluster_state_restore(state, coordinator, &error), BASE_OK);
    assert_non_null(coordinator->pending);
    const struct cluster_decision *found = &coordinator->pending->decision;
    assert_int_equal(found->job, 7);
    assert_string_equal(found->out, "/data/out");
    assert_string_equal(found->extension, "csv");
    assert_string_equal(found->files, "job-7-0-1");
    assert_string_equal(found->text, "{\"rows\":12}\n");
    assert_int_equal(found->node_count, 2);
    assert_string_equal(found->node[1].name, "n2");
    assert_int_equal(found->node[1].first, 2);
    assert_int_equal(found->node[1].count, 3);
    assert_null(coordinator->pending->next);
    cluster_coordinator_close(coordinator);
    assert_int_equal(entries(), 3); /* lock, epoch, decision-7 */
    cluster_state_forget(state, 7);
    cluster_state_forget(state, 7);
    assert_int_equal(entries(), 2);
    cluster_state_close(state);
}

static void test_every_flipped_bit_of_a_decision(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    record(state);
    char whole[4096];
    const size_t count = get("decision-7", whole, sizeof whole);
    struct base_error error = {0};
    for (size_t bit = 0; bit < 8 * count; bit++) {
        flip("decision-7", bit);
        assert_int_equal(restore(state, &error), BASE_PARSE);
        assert_non_null(strstr(error.text, "/decision-7"));
        assert_non_null(strstr(error.text, "move it away"));
        flip("decision-7", bit);
    }
    for (size_t length = count; length-- > 0;) {
        cut("decision-7", length);
        assert_int_equal(restore(state, &error), BASE_PARSE);
    }
    put("decision-7", whole, count);
    assert_int_equal(restore(state, &error), BASE_OK);
    assert_int_equal(unlink(path_of("decision-7")), 0);
    put("decision-8", whole, count); /* another's content */
    assert_int_equal(restore(state, &error), BASE_PARSE);
    assert_int_equal(unlink(path_of("decision-8")), 0);
    put("decision-8.bad", whole, count); /* moved away, as we said */
    assert_int_equal(restore(state, &error), BASE_OK);
    cluster_state_close(state);
}

static void test_what_cannot_be_written_is_not_there(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    struct base_error error = {0};
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool unknown = true;
    const enum base_status status = cluster_state_record(state, &decision, false, &unknown, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_TOO_LARGE);
    assert_false(unknown);
    assert_int_equal(entries(), 2);
    record(state);
    cluster_state_close(state);
}

/* The first try left it there, and nobody knew; the second cannot even begin. It is not known to be gone before it is.
 */
static void test_second_try_removes_what_the_first_left(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    struct base_error error = {0};
    struct rlimit before, small;
    record(state);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 8;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool unknown = true;
    const enum base_status status = cluster_state_record(state, &decision, true, &unknown, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_TOO_LARGE);
    assert_false(unknown);
    assert_int_equal(entries(), 2); /* it went with that */
    cluster_state_close(state);
}

/* ---- who else may write there ---- */

static void test_foreign_folders(void **unused)
{
    (void)unused;
    char text[BASE_ERROR_TEXT_BYTES], other[96];
    snprintf(other, sizeof other, "%s/other", root);
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink(other, folder), 0);
    assert_int_equal(try_open(text), BASE_DENIED);
    assert_non_null(strstr(text, "symbolic link"));
    strcat(folder, "/"); /* the slash would make the kernel follow the link */
    assert_int_equal(try_open(text), BASE_DENIED);
    folder[strlen(folder) - 1] = 0;
    assert_int_equal(rmdir(other), 0); /* nothing was made in it */
    assert_int_equal(unlink(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0770), 0);
    assert_int_equal(try_open(text), BASE_DENIED);
    assert_non_null(strstr(text, "others may write"));
    assert_int_equal(chmod(folder, 01777), 0); /* others can add files, not replace ours */
    assert_int_equal(try_open(text), BASE_OK);
    if (geteuid() == 0) {
        static const char *const names[] = {"epoch", "lock"};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(chown(path_of(names[i]), 1, 1), 0);
            assert_int_equal(try_open(text), BASE_DENIED);
            assert_non_null(strstr(text, "was put there by user 1"));
            assert_int_equal(chown(path_of(names[i]), 0, 0), 0);
        }
        struct cluster_state *state = open_state();
        struct base_error error = {0};
        record(state);
        assert_int_equal(chown(path_of("decision-7"), 1, 1), 0);
        assert_int_equal(restore(state, &error), BASE_DENIED);
        cluster_state_close(state);
        assert_int_equal(unlink(path_of("decision-7")), 0);
    }
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(try_open(text), BASE_OK);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 1, 1), 0);
        assert_int_equal(try_open(text), BASE_DENIED);
        assert_non_null(strstr(text, "belongs to user 1"));
        assert_int_equal(chown(folder, 0, 0), 0);
    }
    assert_int_equal(rmdir(folder), -1);
}

static void test_no_link_is_followed(void **unused)
{
    (void)unused;
    open_and_close();
    struct stat info;
    assert_int_equal(stat(folder, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    char text[BASE_ERROR_TEXT_BYTES], target[96], held[16];
    snprintf(target, sizeof target, "%s/target", root);
    static const char *const names[] = {"epoch", "lock", ".epoch.new"};
    for (size_t i = 0; i < 3; i++) {
        FILE *file = fopen(target, "w");
        assert_non_null(file);
        assert_true(fputs("precious", file) >= 0);
        fclose(file);
        unlink(path_of(names[i]));
        assert_int_equal(symlink(target, path_of(names[i])), 0);
        assert_int_equal(try_open(text) == BASE_OK, i == 2);
        unlink(path_of(names[i]));
        file = fopen(target, "r");
        assert_non_null(file);
        assert_int_equal(fread(held, 1, sizeof held, file), 8);
        fclose(file);
    }
    assert_int_equal(mkfifo(path_of("decision-3"), 0600), 0); /* no wait for a writer */
    struct cluster_state *state = open_state();
    struct base_error error = {0};
    assert_int_equal(restore(state, &error), BASE_PARSE);
    cluster_state_close(state);
    assert_int_equal(unlink(target), 0);
}

static void test_one_at_a_time(void **unused)
{
    (void)unused;
    struct cluster_state *state = open_state();
    char text[BASE_ERROR_TEXT_BYTES];
    put(".new-0123456789abcdef", "half", 4);
    assert_int_equal(try_open(text), BASE_BUSY);
    assert_int_equal(entries(), 3);
    cluster_state_close(state);
    assert_int_equal(try_open(text), BASE_OK);
    assert_int_equal(entries(), 2); /* what a killed coordinator was writing is gone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_numbers_never_return, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_flipped_bit_of_the_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_epoch_written_by_hand, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_first_start_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_lost_epoch_beside_decisions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_decision, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_flipped_bit_of_a_decision, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_cannot_be_written_is_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_try_removes_what_the_first_left, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_folders, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_link_is_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
