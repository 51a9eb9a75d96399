#include <dirent.h>
#include <errno.h>
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

#include "shuffle/publish.h"

static char root[64], directory[80];

static int setup(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/millrace-XXXXXX", temporary ? temporary : "/tmp");
    if (mkdtemp(root) == NULL)
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
    if (listing != NULL)
        closedir(listing);
    rmdir(directory);
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

static void test_success(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(shuffle_publish_check(directory, &error), BASE_OK);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_OK);
    for (uint32_t worker = 0; worker < 4; worker++)
        touch(shuffle_publish_attempt_path(directory, "j1", worker, "csv"));
    assert_true(exists(".attempt-j1-part-00003.csv"));
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(shuffle_publish_commit(directory, "j1", 0, 2, "csv", &error), BASE_OK);
    assert_true(exists("part-00001.csv"));
    assert_false(exists("part-00002.csv"));
    assert_int_equal(shuffle_publish_commit(directory, "j1", 2, 2, "csv", &error), BASE_OK);
    assert_false(exists("_SUCCESS.json"));
    /* a node that died when it had just begun to write it */
    char begun[128];
    snprintf(begun, sizeof begun, "%s/.success-j1", directory);
    FILE *partial = fopen(begun, "w");
    assert_int_equal(fwrite("{\"ro", 1, 4, partial), 4);
    fclose(partial);
    for (int twice = 0; twice < 2; twice++)
        assert_int_equal(shuffle_publish_success(directory, "j1", "{\"rows\":1}\n", &error), BASE_OK);
    assert_true(exists("_SUCCESS.json"));
    assert_false(exists(".job-j1"));
    char path[128], text[32] = {0};
    snprintf(path, sizeof path, "%s/_SUCCESS.json", directory);
    FILE *file = fopen(path, "r");
    assert_int_equal(fread(text, 1, sizeof text, file), 11);
    fclose(file);
    assert_string_equal(text, "{\"rows\":1}\n");
    int files = 0;
    DIR *listing = opendir(directory);
    while (readdir(listing) != NULL)
        files++;
    closedir(listing);
    assert_int_equal(files, 2 + 4 + 1);
}

static void test_missing_attempt(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_OK);
    assert_int_equal(shuffle_publish_commit(directory, "j1", 0, 1, "csv", &error), BASE_NOT_FOUND);
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
    struct base_error error = {0};
    assert_int_equal(mkdir(directory, 0777), 0);
    assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_EXISTS);
    shuffle_publish_abort(directory, "j1", 0, 4, "csv");
    assert_int_equal(access(directory, F_OK), 0);
    assert_int_equal(shuffle_publish_begin(directory, "j2", &error), BASE_EXISTS);
    rmdir(directory);
    assert_int_equal(shuffle_publish_begin(directory, "j2", &error), BASE_OK);
    assert_int_equal(shuffle_publish_begin(directory, "j3", &error), BASE_EXISTS);
    shuffle_publish_abort(directory, "j3", 0, 4, "csv");
    assert_true(exists(".job-j2"));
}

static void test_abort(void **state)
{
    (void)state;
    struct base_error error = {0};
    assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_OK);
    touch(shuffle_publish_attempt_path(directory, "j1", 0, "csv"));
    touch(shuffle_publish_attempt_path(directory, "j1", 7, "csv"));
    shuffle_publish_abort(directory, "j1", 0, 4, "csv"); /* one node of two */
    assert_true(exists(".attempt-j1-part-00007.csv"));
    assert_false(exists(".attempt-j1-part-00000.csv"));
    shuffle_publish_abort(directory, "j1", 4, 4, "csv");
    assert_int_not_equal(access(directory, F_OK), 0);
    shuffle_publish_abort(directory, "j1", 4, 4, "csv");
}

/* A node died after its first step, or its second: the others begin, and leave nothing when they abort. */
static void test_begun_by_the_dead(void **state)
{
    (void)state;
    struct base_error error = {0};
    char staged[96], marker[128];
    snprintf(staged, sizeof staged, "%s/.out.j1", root);
    snprintf(marker, sizeof marker, "%s/.job-j1", staged);
    for (int round = 0; round < 4; round++) {
        if (round == 3) /* it was slower, and made its own when DIR was there */
            assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_OK);
        assert_int_equal(mkdir(staged, 0777), 0);
        if (round > 0)
            touch(strdup(marker));
        if (round == 1)
            assert_int_equal(rename(staged, directory), 0);
        if (round < 3)
            assert_int_equal(shuffle_publish_begin(directory, "j1", &error), BASE_OK);
        assert_true(exists(".job-j1"));
        shuffle_publish_abort(directory, "j1", 0, 4, "csv");
        assert_int_not_equal(access(directory, F_OK), 0);
        assert_int_not_equal(access(staged, F_OK), 0);
    }
}

static void *begin(void *job)
{
    struct base_error error = {0};
    return (void *)(intptr_t)(shuffle_publish_begin(directory, job, &error) == BASE_OK);
}

/* All nodes of one job begin at once. */
static void test_begin_together(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pthread_t thread[8];
        for (int i = 0; i < 8; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, begin, "j1"), 0);
        for (int i = 0; i < 8; i++) {
            void *began;
            pthread_join(thread[i], &began);
            assert_non_null(began);
        }
        shuffle_publish_abort(directory, "j1", 0, 0, "csv");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_success, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_attempt, setup, teardown),
        cmocka_unit_test_setup_teardown(test_check, setup, teardown),
        cmocka_unit_test_setup_teardown(test_foreign_directory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_abort, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begun_by_the_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_begin_together, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
