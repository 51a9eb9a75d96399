/* Durable files with checksums, and the folder that they are in. */
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

#include "cluster/shell/state_file.h"

static char path[64];
static struct state_folder folder;
static struct base_error error;

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/millrace-files-XXXXXX");
    assert_non_null(mkdtemp(path));
    assert_int_equal(state_folder_open(path, &folder, &error), BASE_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[96];
    state_folder_close(&folder);
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
    return 0;
}

static char *in_folder(const char *name)
{
    static char whole[160];
    snprintf(whole, sizeof whole, "%s/%s", path, name);
    return whole;
}

static void expect_text(const char *name, const char *wanted)
{
    char *text = NULL;
    assert_int_equal(state_file_read(&folder, name, 4096, &text, NULL, &error), BASE_OK);
    if (wanted)
        assert_string_equal(text, wanted);
    else
        assert_null(text);
    free(text);
}

static void expect_damaged(const char *name)
{
    char *text = NULL;
    assert_int_equal(state_file_read(&folder, name, 4096, &text, NULL, &error), BASE_PARSE);
    assert_null(text);
    assert_non_null(strstr(error.text, name));
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    bool in_place = false;
    expect_text("a", NULL);
    assert_int_equal(state_file_write(&folder, "a", "one\n", &in_place, &error), BASE_OK);
    assert_true(in_place);
    expect_text("a", "one\n");
    assert_int_equal(state_file_write(&folder, "a", "", NULL, &error), BASE_OK); /* replaced as a whole */
    expect_text("a", "");
    assert_int_equal(state_file_remove(&folder, "a", &error), BASE_OK);
    assert_int_equal(state_file_remove(&folder, "a", &error), BASE_OK);
    expect_text("a", NULL);
}

/* The checksum covers the name: a file under another's name is not the other. */
static void a_file_under_another_name_is_damaged(void **state)
{
    (void)state;
    assert_int_equal(state_file_write(&folder, "a", "one\n", NULL, &error), BASE_OK);
    char from[160];
    snprintf(from, sizeof from, "%s", in_folder("a"));
    assert_int_equal(rename(from, in_folder("b")), 0);
    expect_damaged("b");
}

static void a_plain_file_gives_its_bytes_but_no_text(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder("a"), "w");
    assert_non_null(file);
    assert_true(fputs("41\n", file) >= 0);
    fclose(file);
    char *text = NULL, *plain = NULL;
    assert_int_equal(state_file_read(&folder, "a", 4096, &text, &plain, &error), BASE_PARSE);
    assert_null(text);
    assert_string_equal(plain, "41\n");
    free(plain);
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
    (void)state;
    char large[5000];
    memset(large, 'x', sizeof large - 1);
    large[sizeof large - 1] = 0;
    assert_int_equal(state_file_write(&folder, "a", large, NULL, &error), BASE_OK);
    expect_damaged("a");
}

static void a_folder_is_used_by_one_and_knows_that_it_was(void **state)
{
    (void)state;
    struct state_folder second;
    assert_false(state_folder_used(&folder));
    assert_int_equal(state_folder_open(path, &second, &error), BASE_BUSY);
    assert_int_equal(state_folder_mark_used(&folder, &error), BASE_OK);
    assert_int_equal(state_folder_mark_used(&folder, &error), BASE_OK);
    assert_true(state_folder_used(&folder));
    state_folder_close(&folder);
    assert_int_equal(state_folder_open(path, &folder, &error), BASE_OK);
    assert_true(state_folder_used(&folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_under_another_name_is_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(a_plain_file_gives_its_bytes_but_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_that_is_too_large_is_not_read, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_is_used_by_one_and_knows_that_it_was, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
