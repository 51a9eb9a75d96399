#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
/* after those above */
#include <cmocka.h>

#include "base/file.h"

static char directory[64];

static const char *inside(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void a_regular_file_is_opened_and_reads_block(void **state)
{
    (void)state;
    const int made = open(inside("file"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(made, "abc", 3), 3);
    close(made);
    struct base_error error = {0};
    struct stat about;
    int fd = -1;
    assert_int_equal(base_file_open(inside("file"), &fd, &about, &error), BASE_OK);
    assert_int_equal(about.st_size, 3);
    assert_int_equal(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(fd);
    assert_int_equal(symlink("file", inside("link")), 0);
    assert_int_equal(base_file_open(inside("link"), &fd, NULL, &error), BASE_OK);
    close(fd);
}

static void refused(const char *path, enum base_status status, const char *words)
{
    struct base_error error = {0};
    int fd = 77;
    assert_int_equal(base_file_open(path, &fd, NULL, &error), status);
    assert_int_equal(fd, 77);
    if (!strstr(error.text, words) || !strstr(error.text, path))
        fail_msg("\"%s\" does not say %s of %s", error.text, words, path);
}

/* Opening a pipe without O_NONBLOCK would wait for a writer that never comes. */
static void what_is_no_file_is_refused_by_its_kind(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(inside("pipe"), 0600), 0);
    refused(inside("pipe"), BASE_INVALID, "is a pipe");
    refused(directory, BASE_INVALID, "is a directory");
    refused("/dev/null", BASE_INVALID, "is a device");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    assert_true(strlen(inside("socket")) < sizeof address.sun_path);
    strcpy(address.sun_path, inside("socket"));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    refused(inside("socket"), BASE_INVALID, "is a socket");
    close(fd);
    refused(inside("nothing"), BASE_NOT_FOUND, "cannot open");
}

static int set_up(void **state)
{
    (void)state;
    const char *temporary = getenv("TMPDIR");
    snprintf(directory, sizeof directory, "%s/millrace-XXXXXX", temporary ? temporary : "/tmp");
    return !mkdtemp(directory) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = {"file", "link", "pipe", "socket"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(inside(names[i]));
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_regular_file_is_opened_and_reads_block),
                                       cmocka_unit_test(what_is_no_file_is_refused_by_its_kind)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
