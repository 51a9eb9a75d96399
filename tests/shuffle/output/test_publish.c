#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "shuffle/output/publish.h"

static char root[64], directory[80];

static int setup(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/millrace-XXXXXX", temporary ? temporary : "/tmp");
    if (!mkdtemp(root))
        return -1;
    snprintf(directory, sizeof directory, "%s/out", root);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;)
        unlinkat(dirfd(listing), entry->d_name, 0);
    if (listing)
        closedir(listing);
    rmdir(directory);
    unlink(directory);
    return rmdir(root);
}

static void touch(char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    free(path);
}

static bool exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

/* The share of the node whose workers are [first, first + count). */
static struct shuffle_publication share(const char *name, uint32_t first, uint32_t count)
{
    return (struct shuffle_publication){
        .directory = directory, .name = name, .extension = "csv", .first = first, .count = count};
}

static enum base_status begin(const char *name, uint32_t first)
{
    struct base_error error = {0};
    const struct shuffle_publication publication = share(name, first, 2);
    return shuffle_publish_begin(&publication, &error);
}

static enum base_status commit(const char *name, uint32_t first)
{
    struct base_error error = {0};
    const struct shuffle_publication publication = share(name, first, 2);
    return shuffle_publish_commit(&publication, &error);
}

static enum base_status abort_job(const char *name, uint32_t first)
{
    struct base_error error = {0};
    const struct shuffle_publication publication = share(name, first, 2);
    return shuffle_publish_abort(&publication, &error);
}

static enum base_status stage(const char *name, uint32_t first)
{
    struct base_error error = {0};
    const struct shuffle_publication publication = share(name, first, 2);
    return shuffle_publish_stage(&publication, "{\"rows\":1}\n", &error);
}

static enum base_status succeed(const char *name, uint32_t first)
{
    struct base_error error = {0};
    const struct shuffle_publication publication = share(name, first, 2);
    return shuffle_publish_success(&publication, "{\"rows\":1}\n", &error);
}

static void attempts(const char *name, uint32_t first)
{
    for (uint32_t worker = first; worker < first + 2; worker++) {
        char *path = shuffle_publish_attempt_path(directory, name, worker, "csv");
        struct base_error error = {0};
        int fd;
        assert_int_equal(shuffle_publish_create(path, &fd, &error), BASE_OK);
        close(fd);
        free(path);
    }
}

static uint32_t count_in(const char *path)
{
    uint32_t files = 0;
    DIR *listing = opendir(path);
    assert_non_null(listing);
    while (readdir(listing))
        files++;
    closedir(listing);
    return files - 2;
}

static void assert_success_text(void)
{
    char path[128], text[32] = {0};
    snprintf(path, sizeof path, "%s/_SUCCESS.json", directory);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, sizeof text, file), 11);
    fclose(file);
    assert_string_equal(text, "{\"rows\":1}\n");
}

/* Two nodes of two workers on one file system; every step that may be repeated is. */
static void test_success(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(shuffle_publish_check(directory, &error), BASE_OK);
    for (uint32_t first = 0; first < 4; first += 2) {
        assert_int_equal(begin("j1", first), BASE_OK);
        attempts("j1", first);
    }
    assert_true(exists(".attempt-j1-part-00003.csv"));
    for (int twice = 0; twice < 2; twice++)
        for (uint32_t first = 0; first < 4; first += 2)
            assert_int_equal(stage("j1", first), BASE_OK);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(commit("j1", 0), BASE_OK);
    assert_true(exists("part-00001.csv"));
    assert_false(exists("part-00002.csv"));
    assert_int_equal(commit("j1", 2), BASE_OK);
    assert_false(exists("_SUCCESS.json"));
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(succeed("j1", 0), BASE_OK);
    assert_true(exists("_SUCCESS.json"));
    assert_int_equal(commit("j1", 2), BASE_OK); /* its node restarted */
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(succeed("j1", 2), BASE_OK);
    assert_int_equal(commit("j1", 2), BASE_OK);
    assert_success_text();
    assert_int_equal(count_in(directory), 4 + 1);
    assert_int_equal(count_in(root), 1);
}

/* A node that died when it had just begun to write the text, or lost what it had written. */
static void test_text_is_written_again(void **state)
{
    (void)state;
    assert_int_equal(begin("j1", 0), BASE_OK);
    attempts("j1", 0);
    char begun[128];
    snprintf(begun, sizeof begun, "%s/.success-j1-00000", directory);
    FILE *partial = fopen(begun, "w");
    assert_non_null(partial);
    assert_int_equal(fwrite("{\"ro", 1, 4, partial), 4);
    fclose(partial);
    assert_int_equal(stage("j1", 0), BASE_OK);
    assert_int_equal(unlink(begun), 0);
    assert_int_equal(commit("j1", 0), BASE_OK);
    assert_int_equal(succeed("j1", 0), BASE_OK);
    assert_success_text();
}

static void test_missing_attempt(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(begin("j1", 0), BASE_OK);
    const struct shuffle_publication publication = share("j1", 0, 1);
    assert_int_equal(shuffle_publish_commit(&publication, &error), BASE_NOT_FOUND);
    assert_non_null(strstr(error.text, ".attempt-j1-part-00000.csv"));
}

static void test_check(void **state)
{
    (void)state;
    struct base_error error = {0};
    char path[160];
    assert_int_equal(shuffle_publish_check(root, &error), BASE_EXISTS);
    assert_non_null(strstr(error.text, "exists already"));
    snprintf(path, sizeof path, "%s/no/out", root);
    assert_int_equal(shuffle_publish_check(path, &error), BASE_NOT_FOUND);
    assert_non_null(strstr(error.text, "parent directory"));
    snprintf(path, sizeof path, "%s/out//", root);
    assert_int_equal(shuffle_publish_check(path, &error), BASE_OK);
    assert_int_equal(shuffle_publish_check("just-a-name", &error), BASE_OK);
    assert_int_equal(shuffle_publish_check("/just-a-name-x", &error), access("/", W_OK) == 0 ? BASE_OK : BASE_DENIED);
    assert_int_equal(shuffle_publish_check("", &error), BASE_INVALID);
}

/* A directory that was there, with files or empty, is nobody's to write to or to remove. */
static void test_foreign_directory(void **state)
{
    (void)state;
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_int_equal(begin("j1", 0), BASE_EXISTS);
    assert_int_equal(abort_job("j1", 0), BASE_OK);
    assert_int_equal(access(directory, F_OK), 0);
    assert_int_equal(begin("j2", 0), BASE_EXISTS);
    rmdir(directory);
    assert_int_equal(begin("j2", 0), BASE_OK);
    assert_int_equal(begin("j2-7", 0), BASE_EXISTS); /* a name that begins like another is another */
    assert_int_equal(begin("j3", 0), BASE_EXISTS);
    assert_int_equal(abort_job("j3", 0), BASE_OK);
    assert_true(exists(".job-j2-00000"));
    assert_int_equal(count_in(root), 1); /* nothing beside it */
}

/* Two clusters that number their jobs alike want one directory: one gets it, and neither touches what the other has. */
static void test_two_clusters(void **state)
{
    (void)state;
    char name[2][SHUFFLE_PUBLISH_NAME_BYTES];
    shuffle_publish_name(1, "0123456789abcdef", (const uint8_t *)"abcdefgh", name[0]);
    shuffle_publish_name(1, "fedcba9876543210", (const uint8_t *)"ABCDEFGH", name[1]);
    assert_int_equal(begin(name[0], 0), BASE_OK);
    attempts(name[0], 0);
    assert_int_equal(begin(name[1], 0), BASE_EXISTS);
    assert_int_equal(stage(name[1], 0), BASE_NOT_FOUND);
    assert_int_equal(commit(name[1], 0), BASE_NOT_FOUND);
    assert_int_equal(succeed(name[1], 0), BASE_NOT_FOUND);
    assert_int_equal(abort_job(name[1], 0), BASE_OK);
    assert_int_equal(stage(name[0], 0), BASE_OK);
    assert_int_equal(commit(name[0], 0), BASE_OK);
    assert_int_equal(succeed(name[0], 0), BASE_OK);
    assert_int_equal(count_in(directory), 3);
}

/* Somebody who may write beside DIR puts links and files where he can guess that ours will be. */
static void test_links_are_not_followed(void **state)
{
    (void)state;
    char target[96], link_path[160], held[16];
    struct base_error error = {0};
    snprintf(target, sizeof target, "%s/target", root);
    FILE *file = fopen(target, "w");
    assert_non_null(file);
    assert_true(fputs("precious", file) >= 0);
    fclose(file);
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(begin("j1", 0), BASE_OK);
    attempts("j1", 0);
    static const char *const names[] = {".success-j1-00000", "_SUCCESS.json", ".attempt-j1-part-00002.csv"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(link_path, sizeof link_path, "%s/%s", directory, names[i]);
        assert_int_equal(symlink(target, link_path), 0);
    }
    int fd;
    assert_int_equal(shuffle_publish_create(link_path, &fd, &error), BASE_EXISTS);
    unlink(link_path);
    assert_int_equal(stage("j1", 0), BASE_OK);
    assert_int_equal(commit("j1", 0), BASE_OK);
    assert_int_equal(succeed("j1", 0), BASE_OK);
    assert_success_text();
    struct stat info;
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    file = fopen(target, "r");
    assert_non_null(file);
    assert_int_equal(fread(held, 1, sizeof held, file), 8);
    fclose(file);
    /* DIR itself is a link to a place of his, which even has our claim. */
    char moved[96];
    snprintf(moved, sizeof moved, "%s/moved", root);
    assert_int_equal(rename(directory, moved), 0);
    assert_int_equal(symlink(moved, directory), 0);
    assert_int_equal(begin("j1", 2), BASE_EXISTS);
    assert_int_not_equal(commit("j1", 0), BASE_OK);
    snprintf(link_path, sizeof link_path, "%s/.attempt-j1-part-00009.csv", directory);
    assert_int_not_equal(shuffle_publish_create(link_path, &fd, &error), BASE_OK);
    assert_int_equal(count_in(moved), 3);
    unlink(directory);
    assert_int_equal(rename(moved, directory), 0);
    unlink(target);
}

/* A directory of another user's, with our claim in it, is not ours. */
static void test_directory_of_another_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct base_error error = {0};
    assert_int_equal(begin("j1", 0), BASE_OK);
    assert_int_equal(chown(directory, 1, 1), 0);
    const struct shuffle_publication publication = share("j1", 2, 2);
    assert_int_equal(shuffle_publish_begin(&publication, &error), BASE_DENIED);
    assert_non_null(strstr(error.text, "belongs to user 1"));
    assert_int_equal(stage("j1", 0), BASE_DENIED);
    char *path = shuffle_publish_attempt_path(directory, "j1", 0, "csv");
    int fd;
    assert_int_equal(shuffle_publish_create(path, &fd, &error), BASE_DENIED);
    free(path);
    assert_int_equal(count_in(directory), 1);
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(begin("j1", 0), BASE_OK);
    assert_int_equal(begin("j1", 6), BASE_OK);
    attempts("j1", 0);
    attempts("j1", 6);
    assert_int_equal(stage("j1", 0), BASE_OK);
    assert_int_equal(abort_job("j1", 0), BASE_OK); /* the other node may be dead */
    assert_int_not_equal(access(directory, F_OK), 0);
    assert_int_equal(abort_job("j1", 6), BASE_OK);
    assert_int_equal(count_in(root), 0);
}

/* Files of others in DIR stay, and so does DIR. */
static void test_abort_beside_others(void **state)
{
    (void)state;
    assert_int_equal(begin("j1", 0), BASE_OK);
    attempts("j1", 0);
    char other[128];
    snprintf(other, sizeof other, "%s/notes", directory);
    touch(strdup(other));
    assert_int_equal(abort_job("j1", 0), BASE_OK);
    assert_int_equal(count_in(directory), 1);
}

/* A node died when it had made DIR beside its place: those that go on leave nothing when they abort. */
static void test_begun_by_the_dead(void **state)
{
    (void)state;
    char staged[96], marker[128];
    snprintf(staged, sizeof staged, "%s/.millrace-j1-00000", root);
    snprintf(marker, sizeof marker, "%s/.job-j1-00000", staged);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(mkdir(staged, 0777), 0);
        if (round > 0)
            touch(strdup(marker));
        assert_int_equal(begin("j1", 2), BASE_OK);
        assert_true(exists(".job-j1-00002"));
        assert_int_equal(abort_job("j1", 2), BASE_OK);
        assert_int_equal(count_in(root), 0);
    }
}

static void *begin_one(void *first)
{
    return (void *)(intptr_t)(begin("j1", (uint32_t)(uintptr_t)first) == BASE_OK);
}

/* All nodes of one job begin at once. */
static void test_begin_together(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pthread_t thread[8];
        for (uintptr_t i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, begin_one, (void *)(2 * i)), 0);
        for (int i = 0; i < 8; i++) {
            void *began;
            pthread_join(thread[i], &began);
            assert_non_null(began);
        }
        assert_int_equal(count_in(directory), 8);
        assert_int_equal(abort_job("j1", 14), BASE_OK);
        assert_int_equal(count_in(root), 0);
    }
}

/* What a job left whose nodes never came back goes when the next job wants the directory, and nothing else does. */
static void test_sweep(void **state)
{
    (void)state;
    static const char ours[] = "0123456789abcdef", other[] = "0123456789abcdee";
    char name[SHUFFLE_PUBLISH_NAME_BYTES];
    const uint64_t live[] = {3, 5}, none[] = {4};
    shuffle_publish_name(5, ours, (const uint8_t *)"abcdefgh", name);
    assert_int_equal(begin(name, 0), BASE_OK);
    attempts(name, 0);
    assert_int_equal(stage(name, 0), BASE_OK);
    shuffle_publish_sweep(directory, other, 6, none, 1);
    shuffle_publish_sweep(directory, "", 6, none, 1);
    shuffle_publish_sweep(directory, ours, 6, live, 2);
    shuffle_publish_sweep(directory, ours, 5, none, 1); /* held up until that job ran */
    shuffle_publish_sweep(directory, ours, 4, none, 1);
    assert_int_equal(count_in(directory), 4);
    shuffle_publish_sweep(directory, ours, 6, none, 1);
    assert_int_equal(count_in(root), 0);
    shuffle_publish_sweep(directory, ours, 6, none, 1);
    /* Parts, or files of nobody's: it is somebody's data. */
    for (int round = 0; round < 2; round++) {
        assert_int_equal(begin(name, 0), BASE_OK);
        attempts(name, 0);
        if (round == 0)
            assert_int_equal(commit(name, 0), BASE_OK);
        char path[128];
        snprintf(path, sizeof path, "%s/notes", directory);
        if (round == 1)
            touch(strdup(path));
        const uint32_t files = count_in(directory);
        shuffle_publish_sweep(directory, ours, 6, none, 1);
        assert_int_equal(count_in(directory), files);
        assert_int_equal(abort_job(name, 0), BASE_OK);
        DIR *listing = opendir(directory);
        for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;)
            unlinkat(dirfd(listing), entry->d_name, 0);
        if (listing)
            closedir(listing);
        rmdir(directory);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_success, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_is_written_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_check, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_two_clusters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_are_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_directory_of_another_user, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort_beside_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_by_the_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begin_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
