#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

/* Standard error goes to a file while a test runs; captured() gives what was written. */
static FILE *capture;
static int real_stderr;

static int setup(void **state)
{
    (void)state;
    capture = tmpfile();
    real_stderr = dup(STDERR_FILENO);
    if (!capture || real_stderr < 0 || dup2(fileno(capture), STDERR_FILENO) < 0)
        return -1;
    base_log_set_level(BASE_LOG_INFO);
    base_log_set_name("n3");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    fclose(capture);
    return 0;
}

static int filling_fd = -1; /* another writer's end of the pipe, that does not wait */

static void fill(void)
{
    static const char page[PIPE_BUF];
    while (filling_fd >= 0 && write(filling_fd, page, sizeof page) > 0)
        ;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    const int ready = __real_poll(fds, count, timeout_ms);
    fill();
    return ready;
}

static const char *captured(void)
{
    static char text[8192];
    ssize_t bytes = pread(fileno(capture), text, sizeof text - 1, 0);
    text[bytes > 0 ? bytes : 0] = '\0';
    return text;
}

static void a_line_is_time_level_node_message(void **state)
{
    (void)state;
    base_log_error("lost %d nodes", 2);
    int year, month, day, hour, minute, second, milliseconds, end = 0;
    assert_int_equal(sscanf(captured(), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ error n3 lost 2 nodes%n", &year, &month, &day,
                            &hour, &minute, &second, &milliseconds, &end),
                     7);
    assert_string_equal(captured() + end, "\n");
}

static void lines_above_the_level_are_dropped(void **state)
{
    (void)state;
    base_log_debug("one");
    assert_string_equal(captured(), "");
    base_log_set_level(BASE_LOG_DEBUG);
    base_log_debug("two");
    assert_non_null(strstr(captured(), "debug n3 two\n"));
    base_log_set_level(BASE_LOG_ERROR);
    base_log_warn("three");
    assert_null(strstr(captured(), "three"));
}

static void a_message_cannot_start_a_line_of_its_own(void **state)
{
    (void)state;
    base_log_info("%s", "peer says:\n2026 error n1 all lost\x1b[2J");
    const char *newline = strchr(captured(), '\n');
    assert_non_null(newline);
    assert_string_equal(newline, "\n");
    assert_null(strchr(captured(), '\x1b'));
    assert_non_null(strstr(captured(), "says:\\x0a2026 error n1 all lost\\x1b[2J\n"));
}

static void a_long_message_is_cut_and_still_ends_its_line(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text);
    base_log_info("%.*s", (int)sizeof text, text);
    size_t bytes = strlen(captured());
    assert_in_range(bytes, 1000, 2048);
    assert_int_equal(captured()[bytes - 1], '\n');
}

static void a_long_name_is_cut(void **state)
{
    (void)state;
    char name[201];
    memset(name, 'n', 200);
    name[200] = '\0';
    base_log_set_name(name);
    base_log_info("hello");
    name[63] = '\0';
    const char *shown = strstr(captured(), "info ");
    assert_non_null(shown);
    assert_memory_equal(shown + 5, name, 63);
    assert_string_equal(shown + 5 + 63, " hello\n");
}

/* user: who logs into a pipe of this process's. */
static void drop_and_count(uid_t user)
{
    enum { LINES = 1000 };
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(seteuid(user), 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    for (int i = 0; i < LINES; i++)
        base_log_info("%0200d", i); /* more than a pipe holds */
    static char text[1 << 17];
    const ssize_t bytes = read(ends[0], text, sizeof text - 1);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    int kept = 0;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        kept++;
    assert_in_range(kept, 1, LINES - 1);
    base_log_info("the next");
    const ssize_t more = read(ends[0], text, sizeof text - 1);
    assert_true(more > 0);
    text[more] = '\0';
    char words[64];
    snprintf(words, sizeof words, "%d lines before this one are lost", LINES - kept);
    assert_non_null(strstr(text, words));
    assert_non_null(strstr(text, "the next\n"));
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    base_log_info("to nobody");
}

static void lines_that_nobody_reads_are_dropped_and_counted(void **state)
{
    (void)state;
    drop_and_count(geteuid());
}

/* A daemon that began as root may not open its standard error anew when it is somebody else. */
static void and_so_they_are_in_a_pipe_that_cannot_be_opened(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    drop_and_count(65534);
    assert_int_equal(open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK), -1); /* what is tried here */
    assert_int_equal(errno, EACCES);
    assert_int_equal(seteuid(0), 0);
}

/* Another writer fills the pipe just when this one has looked whether there is room: whoever then writes and waits,
 * waits for ever. */
static void a_pipe_that_others_fill_does_not_stop_who_logs(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    char path[32], text[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[1]);
    filling_fd = open(path, O_WRONLY | O_NONBLOCK);
    assert_true(filling_fd >= 0);
    assert_int_equal(seteuid(65534), 0);
    dup2(ends[1], STDERR_FILENO);
    alarm(60);
    for (int i = 0; i < 1000; i++)
        base_log_info("%0200d", i);
    fill();
    base_log_info("does not wait");
    alarm(0);
    assert_true(read(ends[0], text, sizeof text) > 0);
    assert_int_equal(seteuid(0), 0);
    close(filling_fd);
    filling_fd = -1;
    close(ends[0]);
    close(ends[1]);
}

/* What the process does whose terminal, which belongs to root, nobody reads. */
static int log_to_terminal(const char *terminal, bool controlling)
{
    setsid();
    const int fd = open(terminal, controlling ? O_RDWR : O_RDWR | O_NOCTTY); /* the first that it opens controls it */
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || seteuid(65534) < 0)
        return 2;
    if (open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK) >= 0 || errno != EACCES)
        return 3;
    alarm(60);
    for (int i = 0; i < 1000; i++)
        base_log_info("%0*d", 150 + i, i);
    return 0;
}

static void log_to_unread_terminal(bool controlling)
{
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (geteuid() != 0 || master < 0)
        skip();
    assert_int_equal(grantpt(master), 0);
    assert_int_equal(unlockpt(master), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(log_to_terminal(ptsname(master), controlling));
    int status;
    char text[64] = "";
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(read(master, text, sizeof text - 1) > 30);
    assert_non_null(strstr(text, " n3 "));
    close(master);
}

static void a_terminal_of_another_user_does_not_stop_who_logs(void **state)
{
    (void)state;
    log_to_unread_terminal(true);
}

/* It is not this process's own either, so nothing opens it anew. */
static void and_neither_does_one_that_cannot_be_opened(void **state)
{
    (void)state;
    log_to_unread_terminal(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_is_time_level_node_message, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_above_the_level_are_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_message_cannot_start_a_line_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_message_is_cut_and_still_ends_its_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_name_is_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(lines_that_nobody_reads_are_dropped_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(and_so_they_are_in_a_pipe_that_cannot_be_opened, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pipe_that_others_fill_does_not_stop_who_logs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_terminal_of_another_user_does_not_stop_who_logs, setup, teardown),
        cmocka_unit_test_setup_teardown(and_neither_does_one_that_cannot_be_opened, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
